//! Copying out what is still readable of a volume that cannot be opened.

use crate::{Kind, Name, Result, Timestamp};

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The names that lead to it from the root on, as far as they are known.
    pub path: Vec<Name>,
    /// The named stream of it that this is.
    pub stream: Option<Name>,
    /// Whether it was removed, or belongs to something that was.
    pub deleted: bool,
    /// Whether what says where and what it is fails its checksum, or is damaged otherwise: name, size, times and content
    /// may be wrong.
    pub damaged: bool,
    /// What it is.
    pub kind: Kind,
    /// Bytes of content.
    pub size: u64,
    /// When its content last changed.
    pub modified: Timestamp,
    /// When its content was last read.
    pub accessed: Timestamp,
    /// Where a symbolic link leads.
    pub target: Option<String>,
}

/// The content of what was found.
pub trait RecoveredData {
    /// Reads up to `buffer.len()` bytes from `offset`; fewer only at the end. Holes are zeroes.
    ///
    /// # Errors
    /// If a part of the range cannot be read, or is not what it was when it was written. Other ranges may be good.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize>;
}

/// The outcome of a recovery.
#[derive(Clone, Debug, Default)]
pub struct RecoverReport {
    /// Files found, with those deleted.
    pub files: u64,
    /// Directories found.
    pub directories: u64,
    /// Files found that had been deleted.
    pub deleted: u64,
    /// Deleted files whose clusters hold something else by now.
    pub overwritten: u64,
    /// What is known to have been there and cannot be read: its path, and why. At most [`RecoverReport::KEPT`].
    pub lost: Vec<(String, String)>,
}

impl RecoverReport {
    /// How many lost paths are kept.
    pub const KEPT: usize = 10_000;
}

/// Told of everything that is found: directories before what is in them. An error ends the recovery.
pub type Visit<'v> = &'v mut dyn FnMut(&Recovered, &mut dyn RecoveredData) -> Result<()>;
