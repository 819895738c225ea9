//! Image files and Linux block devices.

use crate::descriptor::Descriptor;
use crate::lock::lock;
use crate::uring::{self, UringQueue};
use crate::{
    Device, Error, Growing, Operation, Queue, Result, Sectors, check_transfer, positional::PositionalQueue,
};
use rustix::fs::{FallocateFlags, OFlags, SeekFrom};
use std::fs::{File, FileType};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether transfers bypass the operating system's page cache (`O_DIRECT`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caching {
    /// Through the page cache.
    #[default]
    Buffered,
    /// Direct I/O; opening fails where it is not possible.
    Direct,
    /// Direct I/O where the file system that holds the file can do it, otherwise through the page cache.
    /// [`FileDevice::is_direct`] tells which.
    DirectIfPossible,
}

/// How to open an image file or a block device.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileOptions {
    /// Refuse writes.
    pub read_only: bool,
    /// Whether to use the page cache.
    pub caching: Caching,
    /// Lock the file or device: opening fails while another process has locked it ([`Error::Locked`]), and for a block
    /// device (`O_EXCL`) also while it is mounted or otherwise claimed by the kernel.
    pub exclusive: bool,
    /// With `read_only`: lock a block device even if the kernel has claimed it, for example by a mount. Locks of other
    /// processes still count. Nobody writes beside the kernel.
    pub beside_kernel: bool,
    /// For a file that is no disk image: with the page cache, transfers of any length at any offset are allowed, and
    /// the sector size is 1 byte. With direct I/O and for block devices this option has no effect.
    pub bytewise: bool,
}

/// An image file or a block device.
///
/// Batches and queues use io_uring where the kernel has it, and positional calls (`pread`, `pwrite`) elsewhere. The
/// sector sizes of a block device are its own (`BLKSSZGET`, `BLKPBSZGET`). Those of an image file are 512 bytes, or the
/// alignment that direct I/O on its file system needs (`STATX_DIOALIGN`) if that is more.
pub struct FileDevice {
    /// The open file, shared with the threads of queues.
    pub(crate) descriptor: Arc<Descriptor>,
    /// The rings of batches.
    rings: uring::Pool,
}

impl FileDevice {
    /// Opens an existing image file or block device.
    pub fn open(path: impl AsRef<Path>, options: FileOptions) -> Result<FileDevice> {
        FileDevice::open_with(path.as_ref(), options, None, false)
    }

    /// Makes an image file of `length` bytes, or sets the length of an existing one, whose content is kept; new bytes
    /// are a hole that reads as zeroes.
    pub fn create(path: impl AsRef<Path>, length: u64, options: FileOptions) -> Result<FileDevice> {
        FileDevice::open_with(path.as_ref(), options, Some(length), false)
    }

    /// Makes an image file of `length` bytes, a hole that reads as zeroes. Fails if the name exists, even as a dangling
    /// symbolic link.
    pub fn create_new(path: impl AsRef<Path>, length: u64, options: FileOptions) -> Result<FileDevice> {
        FileDevice::open_with(path.as_ref(), options, Some(length), true)
    }

    fn open_with(path: &Path, options: FileOptions, create: Option<u64>, is_new: bool) -> Result<FileDevice> {
        let name = path.display().to_string();
        let kind = std::fs::metadata(path).map(|data| data.file_type());
        if let Ok(kind) = kind {
            // Checked before opening, because opening a FIFO waits for the other end.
            refuse_kind(&name, kind)?;
        }
        let block = kind.is_ok_and(|kind| kind.is_block_device());
        let opened = open_as(options.caching, |direct| {
            let mut flags = OFlags::CLOEXEC;
            flags.set(OFlags::DIRECT, direct);
            flags.set(
                OFlags::EXCL,
                block && options.exclusive && !(options.beside_kernel && options.read_only),
            );
            File::options()
                .read(true)
                .write(!options.read_only)
                .create(create.is_some() && !block)
                .create_new(is_new)
                .custom_flags(flags.bits() as i32)
                .open(path)
        });
        let (file, direct) = opened.map_err(|source| Error::io(&name, Operation::Open, 0, 0, source))?;
        FileDevice::of_file(file, name, direct, options, create)
    }

    /// Makes a device from an open file or block device. If `set_length` is given, the length of a file is set first.
    pub(crate) fn of_file(
        file: File,
        name: String,
        direct: bool,
        options: FileOptions,
        set_length: Option<u64>,
    ) -> Result<FileDevice> {
        let failed = |source| Error::io(&name, Operation::Open, 0, 0, source);
        let metadata = file.metadata().map_err(failed)?;
        refuse_kind(&name, metadata.file_type())?;
        let block = metadata.file_type().is_block_device();
        if options.exclusive {
            lock(&file, &name, block, options.read_only)?;
        }
        let (length, sectors) = if block {
            block_geometry(&file).map_err(failed)?
        } else {
            if let Some(length) = set_length {
                file.set_len(length).map_err(failed)?;
            }
            let logical = match (direct, options.bytewise) {
                (true, _) => direct_alignment(&file),
                (false, true) => 1,
                (false, false) => 512,
            };
            let sectors = Sectors { logical, physical: logical };
            (file.metadata().map_err(failed)?.len(), sectors)
        };
        let length = length / u64::from(sectors.logical) * u64::from(sectors.logical);
        // Linux opens a write-protected device for writing all the same, and only the writes fail.
        let is_protected = block && !options.read_only && is_write_protected(&file).map_err(failed)?;
        let read_only = options.read_only || is_protected;
        let length = AtomicU64::new(length);
        let descriptor = Descriptor { name, file, length, sectors, direct, block, read_only, is_protected };
        Ok(FileDevice { descriptor: Arc::new(descriptor), rings: uring::Pool::default() })
    }

    /// Whether transfers bypass the page cache.
    pub fn is_direct(&self) -> bool {
        self.descriptor.direct
    }

    /// Whether the content lies in a file: this is an image file, or a loop device, which maps one.
    ///
    /// Facts: loop devices have the major number 7 (Linux, `Documentation/admin-guide/devices.txt`).
    pub fn is_image(&self) -> bool {
        const LOOP: u32 = 7;
        !self.descriptor.block
            || self.descriptor.file.metadata().is_ok_and(|data| rustix::fs::major(data.rdev()) == LOOP)
    }

    /// Whether this is a block device, not an image file.
    pub fn is_block_device(&self) -> bool {
        self.descriptor.block
    }
}

impl Growing for FileDevice {
    /// Makes an image file longer. What is new is a hole that reads as zeroes.
    fn grow(&self, length: u64) -> Result<()> {
        let Descriptor { name, file, sectors, .. } = &*self.descriptor;
        let refused = |reason: String| Err(Error::Unusable { device: name.as_str().into(), reason });
        let before = self.descriptor.length();
        if self.descriptor.block || !length.is_multiple_of(u64::from(sectors.logical)) || length < before {
            return refused(format!("cannot be made {length} bytes long, from {before} bytes"));
        }
        if self.descriptor.read_only {
            return Err(Error::ReadOnly { device: name.as_str().into() });
        }
        let failed = |source| Error::io(name, Operation::Write, before, length - before, source);
        // Bytes behind the last whole sector are no part of the device, and would not read as zeroes.
        if file.metadata().map_err(failed)?.len() > before {
            file.set_len(before).map_err(failed)?;
        }
        file.set_len(length).map_err(failed)?;
        self.descriptor.length.store(length, Ordering::Release);
        Ok(())
    }
}

/// Opens a file with direct I/O or without it, as `caching` says; returns whether it is direct.
pub(crate) fn open_as(caching: Caching, open: impl Fn(bool) -> io::Result<File>) -> io::Result<(File, bool)> {
    match caching {
        Caching::Buffered => Ok((open(false)?, false)),
        Caching::Direct => Ok((open(true)?, true)),
        Caching::DirectIfPossible => match open(true) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok((open(false)?, false)),
            opened => Ok((opened?, true)),
        },
    }
}

/// Refuses everything but a regular file or block device, with an error that names its type.
fn refuse_kind(name: &str, kind: FileType) -> Result<()> {
    let what = match () {
        () if kind.is_file() || kind.is_block_device() => return Ok(()),
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () if kind.is_char_device() => "a character device",
        () => "something else",
    };
    let reason = format!("expected an image file or a block device, found {what}");
    Err(Error::Unusable { device: name.into(), reason })
}

/// Size and sector sizes of a block device.
fn block_geometry(file: &File) -> io::Result<(u64, Sectors)> {
    let mut length = 0u64;
    // SAFETY: BLKGETSIZE64 writes one u64 to the address given, which is that of a live u64.
    if unsafe { libc::ioctl(file.as_raw_fd(), BLKGETSIZE64, &raw mut length) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let logical = rustix::fs::ioctl_blksszget(file)?;
    let physical = rustix::fs::ioctl_blkpbszget(file)?.max(logical);
    Ok((length, Sectors { logical, physical }))
}

/// Whether a block device takes no writes, as an SD card whose switch is set.
fn is_write_protected(file: &File) -> io::Result<bool> {
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
fn direct_alignment(file: &File) -> u32 {
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

impl Device for FileDevice {
    fn name(&self) -> &str {
        &self.descriptor.name
    }

    fn len(&self) -> u64 {
        self.descriptor.length()
    }

    fn sectors(&self) -> Sectors {
        self.descriptor.sectors
    }

    fn read_only(&self) -> bool {
        self.descriptor.read_only
    }

    fn why_read_only(&self) -> Option<String> {
        match (self.descriptor.read_only, self.descriptor.is_protected) {
            (false, _) => None,
            (true, false) => Some("the device is".into()),
            (true, true) => Some("the device is write-protected".into()),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_transfer(self, Operation::Read, offset, buffer.len() as u64)?;
        self.descriptor.read_exact(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        check_transfer(self, Operation::Write, offset, data.len() as u64)?;
        self.descriptor.write_all(offset, data)
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        for (offset, buffer) in reads.iter() {
            check_transfer(self, Operation::Read, *offset, buffer.len() as u64)?;
        }
        let suited =
            reads.len() > 1 && reads.iter().all(|(_, buffer)| self.descriptor.suits(buffer.as_ptr()));
        if suited && self.rings.read(&self.descriptor, reads)? {
            return Ok(());
        }
        reads.iter_mut().try_for_each(|(offset, buffer)| self.descriptor.read_exact(*offset, buffer))
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        for (offset, data) in writes {
            check_transfer(self, Operation::Write, *offset, data.len() as u64)?;
        }
        let suited = writes.len() > 1 && writes.iter().all(|(_, data)| self.descriptor.suits(data.as_ptr()));
        if suited && self.rings.write(&self.descriptor, writes)? {
            return Ok(());
        }
        writes.iter().try_for_each(|(offset, data)| self.descriptor.write_all(*offset, data))
    }

    fn start(&self) -> u64 {
        let metadata = self.descriptor.file.metadata().ok();
        metadata
            .filter(|metadata| metadata.file_type().is_block_device())
            .and_then(|metadata| crate::host::partition_start(metadata.rdev()))
            .unwrap_or(0)
    }

    fn next_data(&self, offset: u64) -> u64 {
        let length = self.descriptor.length();
        if self.descriptor.block || offset >= length {
            return offset.min(length);
        }
        // `seek` moves the file's own position, which no transfer uses.
        match rustix::fs::seek(&self.descriptor.file, SeekFrom::Data(offset)) {
            Ok(place) => place.min(length),
            Err(rustix::io::Errno::NXIO) => length,
            Err(_) => offset,
        }
    }

    fn flush(&self) -> Result<()> {
        self.descriptor.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_transfer(self, Operation::Discard, offset, length)?;
        if length == 0 {
            return Ok(());
        }
        let done = if self.descriptor.block {
            let range = [offset, length];
            // SAFETY: BLKDISCARD reads two u64 from the address given, which is that of a live array of two.
            match unsafe { libc::ioctl(self.descriptor.file.as_raw_fd(), BLKDISCARD, range.as_ptr()) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        } else {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&self.descriptor.file, hole, offset, length).map_err(io::Error::from)
        };
        match done {
            Err(error)
                if !matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::ENOSYS)) =>
            {
                Err(Error::io(&self.descriptor.name, Operation::Discard, offset, length, error))
            }
            // A device without a discard operation keeps its content, which the contract allows.
            _ => Ok(()),
        }
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        match UringQueue::new(self, &self.descriptor, depth) {
            Some(queue) => Ok(Box::new(queue)),
            None => Ok(Box::new(PositionalQueue::new(self, &self.descriptor, depth))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_image_is_called_by_its_name_and_never_waited_for() {
        let place = std::env::temp_dir().join(format!("platter-kinds-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        let fifo = place.join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let socket = place.join("socket");
        let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let read_only = FileOptions { read_only: true, ..FileOptions::default() };
        for (path, what) in [
            (place.as_path(), "a directory"),
            (&fifo, "a FIFO"),
            (&socket, "a socket"),
            (Path::new("/dev/null"), "a character device"),
        ] {
            for options in [FileOptions::default(), read_only] {
                let Err(error) = FileDevice::open(path, options) else { panic!("{}", path.display()) };
                assert!(error.to_string().ends_with(&format!("found {what}")), "{error}");
            }
            assert!(FileDevice::create(path, 512, FileOptions::default()).is_err());
        }
        let link = place.join("link");
        std::os::unix::fs::symlink(place.join("elsewhere"), &link).unwrap();
        assert!(FileDevice::create_new(&link, 512, FileOptions::default()).is_err());
        assert!(!place.join("elsewhere").exists());
        std::fs::remove_dir_all(place).unwrap();
    }
}
