//! What an experiment asks for, in words that its description, its runs and its results share.

use serde::{Deserialize, Serialize};

/// The direction of a case's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Reads only.
    #[default]
    Read,
    /// Writes only.
    Write,
    /// Reads and writes.
    Mix,
}

impl Direction {
    /// All directions, in the order in which reports show them.
    pub const ALL: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Mix];

    /// The direction as in the document: `read`, `write` or `mix`.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write => "write",
            Direction::Mix => "mix",
        }
    }
}

/// The rule by which a tool makes one figure of several runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scoring {
    /// CrystalDiskMark's rule: the highest throughput, the highest IOPS and the lowest mean latency of all loops.
    Best,
}
