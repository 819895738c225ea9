//! What a check of a volume finds.

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
    /// How bad it is.
    pub severity: Severity,
    /// The path it concerns, where there is one.
    pub path: Option<String>,
    /// A sentence that names structure, place, expected and found.
    pub message: String,
    /// Whether it was put right.
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

/// What to do with what is found.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckOptions {
    /// Put right what can be. Without it nothing is written.
    pub repair: bool,
}

/// The outcome of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// What was found, in the order it was found; at most [`CheckReport::KEPT`] of them are kept.
    pub findings: Vec<Finding>,
    /// How many were found, kept or not.
    pub found: u64,
    /// How many of those found are notices, which are no damage.
    pub notices: u64,
    /// How many were repaired.
    pub repaired: u64,
    /// Files seen.
    pub files: u64,
    /// Directories seen, the root included.
    pub directories: u64,
    /// Clusters in use by files and directories.
    pub used_clusters: u64,
    /// Clusters there are.
    pub total_clusters: u64,
    /// Bytes of file data that have checksums and were not read: a check looks at metadata, a scrub at both.
    pub unread: u64,
    /// Worst severity found and not repaired.
    pub remaining: Option<Severity>,
}

impl CheckReport {
    /// How many findings are kept: a badly damaged volume has millions.
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

    /// Adds what one round of a check found that goes on until it finds nothing more to repair. What a round could not
    /// repair the next one finds again, so only the last one's are taken.
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
