//! What each caller of a simulation does.

use platter_vfs::SyncScope;
use std::ops::Range;

/// How many files all callers share. The third is a named stream of the first, where the format has such.
pub const FILES: usize = 3;
/// No file becomes longer.
pub const LONGEST: u64 = 24 << 10;
/// Their size at first.
pub const FIRST_SIZE: u64 = 12 << 10;

/// What one caller asks for. Files are numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// One blocking write.
    Write(usize, Range<u64>),
    /// One blocking read.
    Read(usize, Range<u64>),
    /// Planned transfers of whole sectors, kept in flight together: `true` writes. They are to be durable or not, and
    /// the caller looks after them only when others have gone on for so long.
    Planned(usize, Vec<(bool, Range<u64>)>, bool, u64),
    /// A look at the size.
    Size(usize),
    /// Another size.
    Resize(usize, u64),
    /// A hole.
    Punch(usize, Range<u64>),
    /// Clusters ahead of the content; the size changes with them.
    Allocate(usize, Range<u64>),
    /// Checksums on or off.
    Integrity(usize, bool),
    /// Content kept under a name of the caller's own.
    Snapshot(usize),
    /// Shares the clusters of the other file, at the same place.
    Clone(usize, Range<u64>),
    /// An entry of a shared name: made, found, removed, moved to the second name.
    Shared(NameStep, usize, usize),
    /// All names in the directory.
    List,
    /// The caller gives its hold of the file back. It takes another when it needs the file next.
    Release(usize),
    /// A name that all share is taken away from its file, which those go on using who hold it.
    Remove(usize),
    /// An entry of the caller's own: made, written to, and renamed or removed.
    Name(u64),
    /// A little of each file of a crowd is written in place; all of them are held to the end, or let go at once.
    Crowd(bool),
    /// Nothing, for so long: what works in the background gets on.
    Rest(u64),
    /// A copy of the device as it is at this moment is checked and scrubbed.
    Look,
    /// Syncs this file: what has been done to it must survive a power cut.
    Sync(usize, Scope),
    /// Syncs the volume: all that has been done must survive a power cut.
    SyncAll,
    /// The end of the volume. Every other call races with it or is refused.
    Unmount,
}

impl Step {
    /// The files of those that all share that it needs a hold of.
    pub fn files(&self) -> impl Iterator<Item = usize> {
        use Step::{Allocate, Clone, Integrity, Planned, Punch, Read, Resize, Size, Snapshot, Sync, Write};
        let files = match self {
            Clone(..) => [Some(0), Some(1)],
            Write(file, _) | Read(file, _) | Planned(file, ..) | Size(file) | Resize(file, _) => {
                [Some(*file), None]
            }
            Punch(file, _) | Allocate(file, _) | Integrity(file, _) => [Some(*file), None],
            Snapshot(file) | Sync(file, _) => [Some(*file), None],
            _ => [None, None],
        };
        files.into_iter().flatten()
    }
}

/// What is done with shared names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameStep {
    /// Makes a file.
    Create,
    /// Finds it.
    Lookup,
    /// Takes the name away.
    Unlink,
    /// Gives it another name, which may be in use.
    Replace,
    /// Gives it another name that is not in use.
    Move,
    /// Gives it one more name.
    Link,
}

/// [`SyncScope`], comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Content and size.
    Data,
    /// All.
    All,
}

impl From<Scope> for SyncScope {
    fn from(scope: Scope) -> SyncScope {
        match scope {
            Scope::Data => SyncScope::Data,
            Scope::All => SyncScope::All,
        }
    }
}

/// What a format lets callers do.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// Holes and clusters ahead of the content.
    pub sparse: bool,
    /// Checksums that can be turned on and off.
    pub integrity: bool,
    /// Named streams.
    pub streams: bool,
    /// Shared clusters.
    pub clone: bool,
    /// More than one name for a file.
    pub links: bool,
    /// Files besides those that all share, which are written all at once.
    pub crowd: usize,
}

impl Abilities {
    /// How many files all callers share.
    pub fn files(self) -> usize {
        if self.streams { FILES } else { FILES - 1 }
    }
}
