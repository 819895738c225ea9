//! The findings and the report of a check of a volume.

use platter_device::Device;
use std::fmt;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Harmless; worth knowing.
    Notice,
    /// An inconsistency that loses no file's content.
    Inconsistent,
    /// A file's content, or a part of it, is lost or in doubt.
    DataLoss,
}

/// One thing that is not as the format says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A short, stable name for the kind of finding, for scripts and tests, for example `lost-chain`.
    pub code: &'static str,
    /// How bad the finding is.
    pub severity: Severity,
    /// The path of the file or directory concerned, where there is one.
    pub path: Option<String>,
    /// A sentence that names the structure, its place, and the expected and found values.
    pub message: String,
    /// Whether the check repaired it.
    pub repaired: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{path}: ")?;
        }
        write!(f, "{} [{}]", self.message, self.code)?;
        if self.repaired { f.write_str(" — repaired") } else { Ok(()) }
    }
}

/// What a check does with its findings.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckOptions {
    /// Repair what can be repaired. Without this option nothing is written.
    pub repair: bool,
}

impl CheckOptions {
    /// Flushes the device if it is to be repaired. What a killed program left in its cache must not be lost after repairs
    /// that were made because of it.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn settle(&self, device: &dyn Device) -> platter_device::Result<()> {
        if self.repair { device.flush() } else { Ok(()) }
    }
}

/// The outcome of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// The findings, in the order in which they were made. Of each severity as many are kept as there is room for
    /// after those that are less severe: [`CheckReport::KEPT`] for notices, twice that for what is worse, and so on.
    pub findings: Vec<Finding>,
    /// The number of findings, kept or not.
    pub found: u64,
    /// How many of the findings are notices, which are no damage.
    pub notices: u64,
    /// How many findings were repaired.
    pub repaired: u64,
    /// The number of files seen.
    pub files: u64,
    /// The number of directories seen, the root included.
    pub directories: u64,
    /// Clusters in use by files and directories.
    pub used_clusters: u64,
    /// The number of clusters of the volume.
    pub total_clusters: u64,
    /// Bytes of file data that have checksums and were not verified: a check reads only metadata, a scrub reads both.
    pub unread: u64,
    /// The worst severity among the findings that were not repaired.
    pub remaining: Option<Severity>,
}

impl CheckReport {
    /// The most notices that are kept, and how many more findings are kept for each worse severity: a badly damaged
    /// volume has millions, and the one loss among them must not be left out for oddities that came before it.
    pub const KEPT: usize = 10_000;

    /// Whether the next finding of this severity will be kept.
    pub fn keeps(&self, severity: Severity) -> bool {
        self.findings.len() < CheckReport::KEPT * (1 + severity as usize)
    }

    /// Adds a finding.
    pub fn add(&mut self, finding: Finding) {
        self.found += 1;
        self.notices += u64::from(finding.severity == Severity::Notice);
        if finding.repaired {
            self.repaired += 1;
        } else {
            self.remaining = self.remaining.max(Some(finding.severity));
        }
        if self.keeps(finding.severity) {
            self.findings.push(finding);
        }
    }

    /// Adds the findings of one round of a check that repeats until a round finds nothing more to repair. What a round
    /// could not repair is found again by the next, so of the rounds before the last only the repaired findings are
    /// added.
    pub fn take_round(&mut self, round: CheckReport, last: bool) {
        let dropped = round.found - round.findings.len() as u64;
        let kept_notices =
            round.findings.iter().filter(|one| one.severity == Severity::Notice).count() as u64;
        self.notices += round.notices - kept_notices;
        for finding in round.findings {
            if finding.repaired || last {
                self.add(finding);
            }
        }
        self.found += dropped;
        self.repaired += dropped.min(round.repaired);
        if last {
            self.remaining = self.remaining.max(round.remaining);
        }
        self.files = round.files;
        self.directories = round.directories;
        self.used_clusters = round.used_clusters;
        self.unread = round.unread;
    }

    /// Whether nothing but notices was found.
    pub fn is_clean(&self) -> bool {
        self.found == self.notices
    }

    /// The exit code `fsck(8)` gives for this outcome: 0 clean, 1 everything was repaired, 4 errors are left.
    pub fn exit_code(&self) -> u8 {
        match self.remaining {
            Some(Severity::Inconsistent | Severity::DataLoss) => 4,
            _ if self.repaired > 0 => 1,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many oddities come first, and however much lesser damage, the worst is in the report, and the counts are of
    /// what was found.
    #[test]
    fn what_is_worse_is_kept_beside_any_number_of_lesser_findings() {
        let finding =
            |severity, code| Finding { code, severity, path: None, message: String::new(), repaired: false };
        let mut report = CheckReport::default();
        for _ in 0..CheckReport::KEPT * 4 {
            report.add(finding(Severity::Notice, "odd"));
        }
        assert!(report.is_clean() && report.findings.len() == CheckReport::KEPT);
        for _ in 0..CheckReport::KEPT * 4 {
            report.add(finding(Severity::Inconsistent, "wrong"));
        }
        report.add(finding(Severity::DataLoss, "lost"));
        assert!(!report.is_clean());
        assert_eq!(report.found, CheckReport::KEPT as u64 * 8 + 1);
        assert_eq!(report.notices, CheckReport::KEPT as u64 * 4);
        assert_eq!(report.findings.iter().filter(|one| one.code == "lost").count(), 1);
        let mut round = CheckReport::default();
        round.take_round(report, true);
        assert_eq!(round.found, CheckReport::KEPT as u64 * 8 + 1);
        assert_eq!(round.notices, CheckReport::KEPT as u64 * 4);
        assert_eq!(round.findings.iter().filter(|one| one.code == "lost").count(), 1);
        assert_eq!(round.remaining, Some(Severity::DataLoss));
    }
}
