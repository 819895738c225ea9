//! The options and the report of a scrub: everything that has a checksum is read and verified, and copies are compared.

use crate::{Finding, Severity};
use std::ops::Range;

/// What a scrub reads, how fast, and what it does about lost data.
#[derive(Clone, Debug, Default)]
pub struct ScrubOptions {
    /// The most bytes per second to read from each copy.
    pub rate: Option<u64>,
    /// Stop after about this many bytes of metadata and file data, or of the device where copies are compared;
    /// [`ScrubReport::next`] then says where to continue.
    pub limit: Option<u64>,
    /// Where to continue: the [`ScrubReport::next`] of an earlier report.
    pub from: Option<String>,
    /// Read only what has a checksum. Without this, the copies that a device keeps are also compared from end to end,
    /// and made equal where no checksum tells which one is right.
    pub checksums_only: bool,
    /// Remove files and streams whose data is lost.
    pub salvage: bool,
}

/// A damaged range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// The kind and severity of the damage, the file concerned, and whether every copy is good again.
    pub finding: Finding,
    /// The damaged byte range of the file or stream; `None` for metadata.
    pub range: Option<Range<u64>>,
    /// The place of the start of the range, in bytes from the start of the volume; the parts of the range may lie
    /// apart.
    pub place: u64,
    /// The copies of the device that are damaged there, counted from 0.
    pub copies: Vec<usize>,
}

/// The outcome of a scrub.
#[derive(Clone, Debug, Default)]
pub struct ScrubReport {
    /// Damaged ranges; at most [`ScrubReport::KEPT`] of them are kept.
    pub damaged: Vec<Damaged>,
    /// The number of damaged ranges found, kept or not.
    pub found: u64,
    /// The number of damaged ranges repaired from another copy.
    pub repaired: u64,
    /// Bytes of file data that are good in no copy.
    pub lost: u64,
    /// Bytes of metadata verified, in each copy.
    pub metadata: u64,
    /// Bytes of file data verified, in each copy.
    pub data: u64,
    /// Bytes compared between the copies, with or without checksums.
    pub compared: u64,
    /// Whether the caller asked for the end ([`Progress::is_stopped`](crate::Progress::is_stopped)) before all was
    /// scrubbed.
    pub stopped: bool,
    /// The number of copies that were verified.
    pub copies: usize,
    /// Where to continue, if not all was scrubbed. Only the format can interpret it.
    pub next: Option<String>,
    /// Paths removed because their data is lost; a named stream is written `PATH:STREAM`.
    pub removed: Vec<String>,
    /// Paths that should have been removed, and why they could not be.
    pub stuck: Vec<(String, String)>,
    /// The worst severity among the damaged ranges that were neither repaired nor removed.
    pub remaining: Option<Severity>,
}

impl ScrubReport {
    /// The most damaged ranges that are kept: a badly damaged volume has millions.
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

    /// The exit code in the manner of `fsck(8)`: 0 no damage found, 1 all damage was repaired or removed, 4 damage is
    /// left.
    pub fn exit_code(&self) -> u8 {
        match self.remaining {
            Some(Severity::Inconsistent | Severity::DataLoss) => 4,
            _ if self.repaired > 0 || !self.removed.is_empty() => 1,
            _ => 0,
        }
    }
}
