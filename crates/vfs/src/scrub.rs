//! What a scrub of a volume finds: everything that has a checksum is read and verified, and copies are compared.

use crate::{Finding, Severity};
use std::ops::Range;

/// What to scrub, how fast, and what to do with what is lost.
#[derive(Clone, Debug, Default)]
pub struct ScrubOptions {
    /// Bytes per second to read from each copy at most.
    pub rate: Option<u64>,
    /// Stop after about so many bytes of data, or of the device where copies are compared; [`ScrubReport::next`] says
    /// where to go on.
    pub limit: Option<u64>,
    /// Where to go on with the data: what an earlier report's [`ScrubReport::next`] said.
    pub from: Option<String>,
    /// Leave alone what has no checksum. Without this, the copies that a device keeps are compared from end to end, and
    /// made alike where no checksum tells which is right.
    pub checksums_only: bool,
    /// Remove files and streams whose data is lost.
    pub salvage: bool,
}

/// A damaged range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// What kind it is, how bad, which file, and whether every copy is good again.
    pub finding: Finding,
    /// Bytes of the file or stream that it concerns; `None` for metadata.
    pub range: Option<Range<u64>>,
    /// Where it stands on the volume, in bytes: the start of the range, whose parts may lie apart.
    pub place: u64,
    /// The device's copies that are damaged there, counted from 0.
    pub copies: Vec<usize>,
}

/// The outcome of a scrub.
#[derive(Clone, Debug, Default)]
pub struct ScrubReport {
    /// Damaged ranges; at most [`ScrubReport::KEPT`] of them are kept.
    pub damaged: Vec<Damaged>,
    /// How many were found, kept or not.
    pub found: u64,
    /// How many were repaired from another copy.
    pub repaired: u64,
    /// Bytes of file data that no copy has any more.
    pub lost: u64,
    /// Bytes of metadata verified, in each copy.
    pub metadata: u64,
    /// Bytes of file data verified, in each copy.
    pub data: u64,
    /// Bytes compared between the copies, whatever they hold.
    pub compared: u64,
    /// Copies that were verified.
    pub copies: usize,
    /// Where to go on, if the data was not scrubbed to its end. It means nothing to anyone but the format.
    pub next: Option<String>,
    /// Paths removed because their data is lost; a named stream is written `PATH:STREAM`.
    pub removed: Vec<String>,
    /// Paths that should have been removed, and why they could not be.
    pub stuck: Vec<(String, String)>,
    /// Worst severity found, and neither repaired nor removed.
    pub remaining: Option<Severity>,
}

impl ScrubReport {
    /// How many damaged ranges are kept: a badly damaged volume has millions.
    pub const KEPT: usize = 10_000;

    /// Adds a damaged range.
    pub fn add(&mut self, damaged: Damaged) {
        self.found += 1;
        match damaged.finding.repaired {
            true => self.repaired += 1,
            false => self.remaining = self.remaining.max(Some(damaged.finding.severity)),
        }
        if self.damaged.len() < ScrubReport::KEPT {
            self.damaged.push(damaged);
        }
    }

    /// The exit code in the manner of `fsck(8)`: 0 nothing found, 1 all of it was dealt with, 4 damage is left.
    pub fn exit_code(&self) -> u8 {
        match self.remaining {
            Some(Severity::Inconsistent | Severity::DataLoss) => 4,
            _ if self.repaired > 0 || !self.removed.is_empty() => 1,
            _ => 0,
        }
    }
}
