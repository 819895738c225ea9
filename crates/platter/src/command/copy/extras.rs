//! What a file or directory has besides its content, and where its content is.

use crate::command::failure::Failure;
use platter::Held;
use platter_vfs::{Name, Reparse};
use std::ops::Range;

/// A named stream.
pub struct Stream {
    pub name: Name,
    pub content: StreamContent,
}

/// Where a stream's content is.
pub enum StreamContent {
    /// Here.
    Bytes(Vec<u8>),
    /// On a volume.
    Held(Held),
}

/// What a file or directory has besides its content.
#[derive(Default)]
pub struct Extras {
    pub streams: Vec<Stream>,
    pub extended: Vec<(String, Vec<u8>)>,
    /// A reparse point that is no symbolic link and says nothing to Linux.
    pub reparse: Option<Reparse>,
    /// A security descriptor that is not one that everything gets.
    pub security: Option<Vec<u8>>,
    /// How many access lists and the like of the host there are.
    pub rights: u64,
    /// How many snapshots there are.
    pub snapshots: u64,
    /// What could not be read of all this.
    pub failures: Vec<Failure>,
}

/// Where the content of a file is.
pub struct Layout {
    /// The parts that are there, in order.
    pub data: Vec<Range<u64>>,
    /// Whether the others take no room.
    pub has_holes: bool,
}

impl Layout {
    /// Whether all of a file of so many bytes is there, in one part.
    pub fn is_whole(&self, size: u64) -> bool {
        matches!(self.data.as_slice(), [all] if *all == (0..size))
    }
}
