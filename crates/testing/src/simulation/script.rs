//! The steps that callers of a simulation carry out.

use platter_vfs::SyncScope;
use std::ops::Range;

/// The number of files that all callers share. The third is a named stream of the first, where the format has streams.
pub(super) const FILES: usize = 3;
/// The largest size of a file in bytes.
pub(super) const LONGEST: u64 = 24 << 10;
/// The size of the files at first, in bytes.
pub(super) const FIRST_SIZE: u64 = 12 << 10;

/// One step of a caller. Files are numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A blocking write of this range.
    Write(usize, Range<u64>),
    /// A blocking read of this range.
    Read(usize, Range<u64>),
    /// Planned transfers of whole sectors, kept in flight together (`true` means a write). They are durable or not, and
    /// the caller collects them only after it has let others go on this many times.
    Planned(usize, Vec<(bool, Range<u64>)>, bool, u64),
    /// Asks for the size.
    Size(usize),
    /// Sets the size.
    Resize(usize, u64),
    /// Punches a hole.
    Punch(usize, Range<u64>),
    /// Preallocates clusters; the file is extended to the end of the range.
    Allocate(usize, Range<u64>),
    /// Turns checksums on or off.
    Integrity(usize, bool),
    /// Makes or removes a snapshot with a name of the caller's own.
    Snapshot(usize),
    /// Clones this range of the file to the other one, at the same offset.
    Clone(usize, Range<u64>),
    /// A call on the first of two shared names, or on both.
    Shared(NameStep, usize, usize),
    /// Lists the directory.
    List,
    /// Forgets the node of the file. The caller looks the file up again when it needs it next.
    Release(usize),
    /// Removes the name of a shared file, which callers that hold its node continue to use.
    Remove(usize),
    /// Creates an entry of the caller's own, writes to it, and renames or removes it.
    Name(u64),
    /// Overwrites a little of each file of the crowd in place; with `true`, the nodes are held to the end.
    Crowd(bool),
    /// Does nothing while others go on this many times, so that background work proceeds.
    Rest(u64),
    /// Makes a copy of the device at this moment, which is checked and scrubbed at the end.
    Look,
    /// Syncs this file: all changes of it so far must survive a power cut.
    Sync(usize, Scope),
    /// Syncs the volume: all changes so far must survive a power cut.
    SyncAll,
    /// Unmounts the volume. Every other call runs at the same time or is refused.
    Unmount,
}

impl Step {
    /// The shared files whose nodes the step needs.
    pub(super) fn files(&self) -> impl Iterator<Item = usize> {
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

/// A call on shared names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameStep {
    /// Creates a file.
    Create,
    /// Looks a file up.
    Lookup,
    /// Removes the name.
    Unlink,
    /// Renames the file to a name that may be in use.
    Replace,
    /// Renames the file to a name that is not in use.
    Move,
    /// Gives the file another name.
    Link,
}

/// [`SyncScope`] with `Eq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Content and size.
    Data,
    /// Everything of the file, with its metadata.
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

/// The features of a format that callers use.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// Holes and preallocation.
    pub sparse: bool,
    /// Checksums of data that can be turned on and off.
    pub integrity: bool,
    /// Named streams.
    pub streams: bool,
    /// Shared clusters.
    pub clone: bool,
    /// More than one name for a file.
    pub links: bool,
    /// The number of further files, the crowd, which a step writes all at once.
    pub crowd: usize,
}

impl Abilities {
    /// The number of files that all callers share.
    pub fn files(self) -> usize {
        if self.streams { FILES } else { FILES - 1 }
    }
}
