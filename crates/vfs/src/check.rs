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
    /// The findings, in the order in which they were made; at most [`CheckReport::KEPT`] of them are kept.
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
    /// The most findings that are kept: a badly damaged volume has millions.
    pub const KEPT: usize = 10_000;

    /// Adds a finding.
    pub fn add(&mut self, finding: Finding) {
        self.found += 1;
        self.notices += u64::from(finding.severity == Severity::Notice);
        if finding.repaired {
            self.repaired += 1;
        } else {
            self.remaining = self.remaining.max(Some(finding.severity));
        }
        if self.findings.len() < CheckReport::KEPT {
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
        self.found == 0 || self.findings.iter().all(|finding| finding.severity == Severity::Notice)
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
