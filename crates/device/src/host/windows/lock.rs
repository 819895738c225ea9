//! Locks that keep programs from working on the same image at once.
//!
//! Facts: Microsoft, "LockFileEx": a lock keeps every other handle from the bytes that it covers, may lie behind the end
//! of the file, and ends when the handle is closed. So one byte is locked that no content ever reaches.

use crate::host::SOMEBODY;
use std::fs::File;
use std::io;
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use windows_sys::Win32::Foundation::{ERROR_IO_PENDING, ERROR_LOCK_VIOLATION, ERROR_SHARING_VIOLATION};
use windows_sys::Win32::Storage::FileSystem::{
    LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY, LockFileEx,
};
use windows_sys::Win32::System::IO::{OVERLAPPED, OVERLAPPED_0, OVERLAPPED_0_0};

/// The offset of the byte: no file is as long.
const BYTE: u64 = 0x7FFF_FFFF_FFFF_0000;

/// Locks a file until it is closed: exclusively for writing, or shared with other readers if `read_only`. Returns who has
/// it if another process does.
pub(crate) fn lock(file: &File, is_disk: bool, read_only: bool) -> Option<String> {
    if is_disk {
        return None;
    }
    let mut flags = LOCKFILE_FAIL_IMMEDIATELY;
    if !read_only {
        flags |= LOCKFILE_EXCLUSIVE_LOCK;
    }
    let place = OVERLAPPED_0_0 { Offset: BYTE as u32, OffsetHigh: (BYTE >> 32) as u32 };
    let mut place = OVERLAPPED { Anonymous: OVERLAPPED_0 { Anonymous: place }, ..OVERLAPPED::default() };
    // SAFETY: the handle is open and synchronous, so that the call has ended with the structure when it returns.
    if unsafe { LockFileEx(file.as_raw_handle(), flags, 0, 1, 0, &raw mut place) } != 0 {
        return None;
    }
    let error = io::Error::last_os_error();
    let is_conflict = is_one_of(&error, &[ERROR_LOCK_VIOLATION, ERROR_IO_PENDING]);
    // A file system that does not support locks is no reason to refuse.
    is_conflict.then(|| SOMEBODY.into())
}

/// Whether opening failed because another process has the file and lets nobody else have it so.
pub(crate) fn is_taken(error: &io::Error) -> bool {
    is_one_of(error, &[ERROR_SHARING_VIOLATION])
}

fn is_one_of(error: &io::Error, codes: &[u32]) -> bool {
    error.raw_os_error().is_some_and(|code| codes.contains(&(code as u32)))
}

/// Whether another process has locked an image file, for writing or for reading.
pub fn is_claimed(path: &Path) -> bool {
    is_locked(path, false)
}

/// The process that has locked an image file for writing; `None` if there is none.
pub fn writer_of(path: &Path) -> Option<String> {
    is_locked(path, true).then(|| SOMEBODY.into())
}

fn is_locked(path: &Path, read_only: bool) -> bool {
    if super::names::is_disk(path) || !path.is_file() {
        return false;
    }
    match File::open(path) {
        Ok(file) => lock(&file, false, read_only).is_some(),
        Err(error) => is_taken(&error),
    }
}
