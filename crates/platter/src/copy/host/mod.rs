//! What copying asks of the operating system: owners, permissions, extended attributes and streams of host files. One
//! module for each system, all with the same functions. What needs `unsafe` is in [`platter_device::host`].

#[cfg(target_os = "linux")]
mod linux;
#[cfg(all(unix, not(target_os = "linux")))]
mod plain;
#[cfg(unix)]
mod posix;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
pub(super) use linux::{
    extended_names, extended_value, flags, layout, make_special, set_extended, set_flags, set_times,
};
#[cfg(all(unix, not(target_os = "linux")))]
pub(super) use plain::{
    extended_names, extended_value, flags, layout, make_special, set_extended, set_flags, set_times,
};
#[cfg(unix)]
pub(super) use posix::{
    DirectoryMaker, facts, has_real_streams, is_refused, may_make_files_in, mode, own, private, read_stream,
    set_stream, streams, usual,
};
#[cfg(windows)]
pub(super) use windows::{
    DirectoryMaker, extended_names, extended_value, facts, flags, has_real_streams, is_refused, layout,
    make_special, may_make_files_in, mode, own, private, read_stream, set_extended, set_flags, set_stream,
    set_times, streams, usual,
};

use platter_vfs::linux::{LinuxAttributes, Special};
use std::ops::Range;

/// What the system tells of a file, besides its kind, size and times.
pub(super) struct HostFacts {
    pub special: Option<Special>,
    pub owner: LinuxAttributes,
    /// How many names it has.
    pub links: u64,
}

/// The attributes that new files of this process get: owner, group and umask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usual {
    pub uid: u32,
    pub gid: u32,
    pub umask: u32,
}

impl Usual {
    /// Returns the permissions of a new file or directory.
    pub(super) fn mode(&self, is_directory: bool) -> u32 {
        (if is_directory { 0o777 } else { 0o666 }) & !self.umask
    }
}

/// Which parts of a file have content, and which are holes.
pub(super) struct Layout {
    /// The ranges in bytes that have content, in ascending order.
    pub data: Vec<Range<u64>>,
    /// Whether any of the remaining ranges are holes, for which no space is allocated.
    pub has_holes: bool,
}

impl Layout {
    /// Whether the content of a file of `size` bytes is a single range from its beginning to its end.
    pub(super) fn is_whole(&self, size: u64) -> bool {
        matches!(self.data.as_slice(), [all] if *all == (0..size))
    }
}
