//! Image files and block devices of Linux.

use super::kernel::Kernel;
use crate::host::Opening;
use rustix::fs::{FallocateFlags, OFlags, SeekFrom};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens a file or block device.
pub(crate) fn open(path: &Path, opening: &Opening) -> io::Result<File> {
    let mut flags = OFlags::CLOEXEC;
    flags.set(OFlags::DIRECT, opening.is_direct);
    flags.set(OFlags::EXCL, opening.claims);
    File::options()
        .read(true)
        .write(!opening.read_only)
        .create(opening.makes)
        .create_new(opening.makes_new)
        .custom_flags(flags.bits() as i32)
        .open(path)
}

/// Whether opening failed because the file system has no direct I/O.
pub(crate) fn refuses_direct(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
}

/// Whether opening failed because another process has the file: nobody keeps others from opening it here.
pub(crate) fn is_taken(_error: &io::Error) -> bool {
    false
}

/// Holes need no setting here.
pub(crate) fn make_sparse(_file: &File) {}

/// Length, logical and physical sector of a block device, in bytes.
pub(crate) fn geometry(file: &File) -> io::Result<(u64, u32, u32)> {
    let mut length = 0u64;
    // SAFETY: BLKGETSIZE64 writes one u64 to the address given, which is that of a live u64.
    if unsafe { libc::ioctl(file.as_raw_fd(), BLKGETSIZE64, &raw mut length) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let logical = rustix::fs::ioctl_blksszget(file)?;
    let physical = rustix::fs::ioctl_blkpbszget(file)?.max(logical);
    Ok((length, logical, physical))
}

/// Whether a block device takes no writes, as an SD card whose switch is set.
pub(crate) fn is_write_protected(file: &File) -> io::Result<bool> {
    let mut is_protected: libc::c_int = 0;
    // SAFETY: BLKROGET writes one int to the address given, which is that of a live int.
    match unsafe { libc::ioctl(file.as_raw_fd(), BLKROGET, &raw mut is_protected) } {
        0 => Ok(is_protected != 0),
        _ => Err(io::Error::last_os_error()),
    }
}

// From <linux/fs.h>; the numbers are part of Linux's ABI.
const BLKROGET: libc::Ioctl = 0x125E;
const BLKGETSIZE64: libc::Ioctl = 0x8008_1272_u32 as libc::Ioctl;
const BLKDISCARD: libc::Ioctl = 0x1277;

/// The alignment that direct I/O on an image file needs, in bytes.
pub(crate) fn direct_alignment(file: &File) -> u32 {
    // SAFETY: an all-zero statx is a valid value of that plain C structure.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, the path is a terminated empty string (AT_EMPTY_PATH names the descriptor
    // itself), and `stat` is live and of the size the kernel fills.
    let done = unsafe {
        libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN, &raw mut stat)
    };
    let known = done == 0 && stat.stx_mask & libc::STATX_DIOALIGN != 0 && stat.stx_dio_offset_align > 0;
    // Kernels that do not report it (before 6.1) get an alignment that every disk and file system accepts.
    let alignment = if known { stat.stx_dio_offset_align } else { 4096 };
    alignment.clamp(512, 65536)
}

/// Whether a block device is a loop device, whose content lies in a file.
///
/// Facts: loop devices have the major number 7 (Linux, `Documentation/admin-guide/devices.txt`).
pub(crate) fn is_over_file(file: &File) -> bool {
    const LOOP: u32 = 7;
    file.metadata().is_ok_and(|data| rustix::fs::major(data.rdev()) == LOOP)
}

/// The offset in bytes at which a partition begins on its disk; `None` for what is none.
pub(crate) fn start_on_disk(file: &File) -> Option<u64> {
    let metadata = file.metadata().ok().filter(|metadata| metadata.file_type().is_block_device())?;
    Kernel::this().start(metadata.rdev())
}

/// The first offset from `offset` on at which a file of `length` bytes is no hole.
pub(crate) fn next_data(file: &File, offset: u64, length: u64) -> u64 {
    // `seek` moves the file's own position, which no transfer uses.
    match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(place) => place.min(length),
        Err(rustix::io::Errno::NXIO) => length,
        Err(_) => offset,
    }
}

/// Discards a range of a block device, or makes it a hole of a file. What has no such operation keeps its content.
pub(crate) fn discard(
    file: &File,
    is_block: bool,
    _is_claimed: bool,
    offset: u64,
    length: u64,
) -> io::Result<()> {
    let done = if is_block {
        let range = [offset, length];
        // SAFETY: BLKDISCARD reads two u64 from the address given, which is that of a live array of two.
        match unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD, range.as_ptr()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    } else {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(file, hole, offset, length).map_err(io::Error::from)
    };
    match done {
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::ENOSYS)) =>
        {
            Ok(())
        }
        done => done,
    }
}
