//! Locks that keep programs from working on the same image or block device at once.
//!
//! Facts: flock(2), fcntl(2) (*open file description locks*, which end when the file is closed and not with the
//! process). ntfs-3g and QEMU lock images with fcntl, and so does this module, so that each sees the locks of the
//! others. udev takes a shared flock(2) on a block device while it examines the device (systemd, "Locking Block Device
//! Access"), so a flock on a block device does not mean that somebody writes to it. A lock may lie behind the end of the
//! file, so one byte that no content reaches is free for a mark: whoever has the device will close it soon.

use crate::host::SOMEBODY;
use rustix::fs::{FlockOperation, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// The bytes of a file that a claim locks: all that can have content.
const CONTENT: Bytes = Bytes { start: 0, length: 1 << 62 };
/// The byte behind them that a mark locks.
const MARK: Bytes = Bytes { start: 1 << 62, length: 1 };

struct Bytes {
    start: i64,
    length: i64,
}

/// An image file or block device on which this process can leave a mark that whoever has it will close it soon. The mark
/// ends with this value.
pub struct Ending(File);

impl Ending {
    /// Opens an image file or block device for this; `None` if that cannot be done, or if there is nothing to open.
    pub fn open(path: &Path) -> Option<Ending> {
        opened(path).map(Ending)
    }

    /// Leaves the mark. Others may have left it too.
    pub fn mark(&self) {
        // Where the file system knows no locks, there are no claims either.
        let _ = fcntl(&self.0, libc::F_OFD_SETLK, libc::F_RDLCK, &MARK);
    }
}

/// Whether a process has left the mark that whoever has this image file or block device will close it soon.
pub fn is_ending(path: &Path) -> bool {
    let Some(Ending(file)) = Ending::open(path) else { return false };
    // A lock of another program on the whole file is no mark.
    let is_mark = |held: libc::flock| {
        held.l_type == libc::F_RDLCK as libc::c_short
            && (held.l_start, held.l_len) == (MARK.start, MARK.length)
    };
    fcntl(&file, libc::F_OFD_GETLK, libc::F_WRLCK, &MARK).is_ok_and(is_mark)
}

/// Opens an image file or block device for a question about its locks; nothing else, since opening a FIFO waits for the other
/// end.
fn opened(path: &Path) -> Option<File> {
    let kind = std::fs::metadata(path).ok()?.file_type();
    if kind.is_file() || kind.is_block_device() { File::open(path).ok() } else { None }
}

/// Locks a file or block device until it is closed: exclusively for writing, or shared with other readers if
/// `read_only`. Returns the process that has a conflicting lock, with its name where the kernel tells it; `None` if the
/// file is locked now.
pub(crate) fn lock(file: &File, is_block: bool, read_only: bool) -> Option<String> {
    let kind = if read_only { libc::F_RDLCK } else { libc::F_WRLCK };
    // A file system that does not support locks is no reason to refuse.
    if fcntl(file, libc::F_OFD_SETLK, kind, &CONTENT).is_err_and(|error| is_conflict(&error)) {
        return Some(holder(file, kind));
    }
    let operation = match read_only {
        true => FlockOperation::NonBlockingLockShared,
        false => FlockOperation::NonBlockingLockExclusive,
    };
    let is_locked = !is_block && rustix::fs::flock(file, operation) == Err(rustix::io::Errno::WOULDBLOCK);
    is_locked.then(|| SOMEBODY.into())
}

/// Whether another process has locked an image file or block device, for writing or for reading, or the kernel has
/// claimed it, for example by a mount.
pub fn is_claimed(path: &Path) -> bool {
    let Ok(kind) = std::fs::metadata(path).map(|data| data.file_type()) else { return false };
    let is_block = kind.is_block_device();
    if !is_block && !kind.is_file() {
        return false;
    }
    let mut flags = OFlags::CLOEXEC;
    flags.set(OFlags::EXCL, is_block);
    match File::options().read(true).custom_flags(flags.bits() as i32).open(path) {
        Err(error) => error.kind() == io::ErrorKind::ResourceBusy,
        Ok(file) => {
            let held = fcntl(&file, libc::F_OFD_GETLK, libc::F_WRLCK, &CONTENT);
            held.is_ok_and(|held| held.l_type != libc::F_UNLCK as libc::c_short)
                || !is_block
                    && rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
                        == Err(rustix::io::Errno::WOULDBLOCK)
        }
    }
}

/// The process that has locked an image file or block device for writing, as a mount does; `None` if there is none. Only
/// locks of fcntl count: with flock, a shell keeps others away from what it does itself.
pub fn writer_of(path: &Path) -> Option<String> {
    let file = opened(path)?;
    let held = fcntl(&file, libc::F_OFD_GETLK, libc::F_RDLCK, &CONTENT).ok()?;
    (held.l_type != libc::F_UNLCK as libc::c_short).then(|| holder(&file, libc::F_RDLCK))
}

fn is_conflict(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES))
}

/// The process that holds a conflicting lock.
fn holder(file: &File, kind: libc::c_int) -> String {
    // The kernel reports -1 for a lock that belongs to an open file and not to a process.
    let process = fcntl(file, libc::F_OFD_GETLK, kind, &CONTENT).map_or(0, |held| held.l_pid);
    match std::fs::read_to_string(format!("/proc/{process}/comm")) {
        Ok(program) if process > 0 => format!("process {process} ({})", program.trim_end()),
        _ => SOMEBODY.into(),
    }
}

/// Takes a lock on these bytes, or queries who holds one.
fn fcntl(file: &File, command: libc::c_int, kind: libc::c_int, bytes: &Bytes) -> io::Result<libc::flock> {
    // SAFETY: an all-zero flock is a valid value of that plain C structure, and has no process, as the commands for open
    // file descriptions want it.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    (lock.l_start, lock.l_len) = (bytes.start, bytes.length);
    // SAFETY: the descriptor is open, and both commands read and write one flock at the address given, which is live.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } {
        0.. => Ok(lock),
        _ => Err(io::Error::last_os_error()),
    }
}
