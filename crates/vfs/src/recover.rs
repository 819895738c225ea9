//! Recovery: finding and reading what is still readable of a volume that cannot be opened.

use crate::{Kind, Name, Result, Timestamp};

/// A file, directory, link or named stream that a recovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The path as names from the root on, as far as they are known.
    pub path: Vec<Name>,
    /// The name of the stream, if this is a named stream of the file at `path`.
    pub stream: Option<Name>,
    /// Whether it was deleted, or belongs to a file or directory that was.
    pub deleted: bool,
    /// Whether the metadata that describes it fails its checksum or is damaged otherwise: name, size, times and content
    /// may be wrong.
    pub damaged: bool,
    /// Whether what the volume still tells leaves no doubt that this content is the file's. It does not of a deleted file
    /// if the places of its clusters are a guess, or if another file that is deleted too may have had them since.
    pub certain: bool,
    /// Whether it is a file, a directory or a symbolic link.
    pub kind: Kind,
    /// Bytes of content.
    pub size: u64,
    /// When its content last changed.
    pub modified: Timestamp,
    /// When its content was last read.
    pub accessed: Timestamp,
    /// The target of a symbolic link.
    pub target: Option<String>,
}

impl Recovered {
    /// An empty file, directory or link, of which only this is known. What was deleted is not `certain`.
    pub fn new(
        path: Vec<Name>,
        deleted: bool,
        kind: Kind,
        [modified, accessed]: [Timestamp; 2],
    ) -> Recovered {
        Recovered {
            path,
            stream: None,
            deleted,
            damaged: false,
            certain: !deleted,
            kind,
            size: 0,
            modified,
            accessed,
            target: None,
        }
    }
}

/// The content of a file or stream that a recovery found.
pub trait RecoveredData {
    /// Reads up to `buffer.len()` bytes from `offset`; fewer only at the end. Holes read as zeroes.
    ///
    /// # Errors
    /// If a part of the range cannot be read or fails its checksum. Other ranges may still be readable.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// What stands from `offset` on, and the offset up to which that is so at least, which is greater than `offset`. A
    /// caller need not read zeroes and what is lost: the size of damaged content may be any, and a copy of it takes as
    /// long as what the device has of it.
    fn stretch(&mut self, offset: u64) -> (Stretch, u64) {
        let _ = offset;
        (Stretch::Content, u64::MAX)
    }
}

/// What stands in a part of content that a recovery has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stretch {
    /// Bytes of the device; zeroes may be among them, and some may be unreadable.
    Content,
    /// Nothing but zeroes: a hole, or what was never written.
    Zeroes,
    /// Nothing that can be read: it is not known where it was, or the device has no such place.
    Lost,
}

/// The outcome of a recovery.
#[derive(Clone, Debug, Default)]
pub struct RecoverReport {
    /// Files found, the deleted ones included.
    pub files: u64,
    /// Directories found.
    pub directories: u64,
    /// Files found that had been deleted.
    pub deleted: u64,
    /// Deleted files whose clusters have been overwritten since.
    pub overwritten: u64,
    /// Files and directories that are known to have existed and cannot be read, as path and reason; at most
    /// [`RecoverReport::KEPT`].
    pub lost: Vec<(String, String)>,
}

impl RecoverReport {
    /// The most lost paths that are kept.
    pub const KEPT: usize = 10_000;
}

/// Called for everything that a recovery finds, with directories before their entries. An error ends the recovery.
pub type Visit<'v> = &'v mut dyn FnMut(&Recovered, &mut dyn RecoveredData) -> Result<()>;
