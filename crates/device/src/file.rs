//! Image files and Linux block devices.

use crate::descriptor::Descriptor;
use crate::host::{self, FileKind, Opening};
use crate::positional::PositionalQueue;
use crate::rings;
use crate::{Device, Error, Growing, Operation, Queue, Result, Sectors, check_transfer};
use std::fs::File;
use std::io;
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
    /// For a new file: have the file system of the host keep checksums of its content, which only ReFS on Windows does
    /// (integrity streams), and read back that it does. Making the file fails where it cannot.
    pub integrity: bool,
}

/// An image file or a block device.
///
/// Batches and queues use io_uring where the kernel has it, queues on Windows a completion port, and both positional calls
/// (`pread`, `pwrite`) elsewhere. The
/// sector sizes of a block device are its own (`BLKSSZGET`, `BLKPBSZGET`). Those of an image file are 512 bytes, or the
/// alignment that direct I/O on its file system needs (`STATX_DIOALIGN`) if that is more.
pub struct FileDevice {
    /// The open file, shared with the threads of queues.
    pub(crate) descriptor: Arc<Descriptor>,
    /// The rings of batches.
    rings: rings::Pool,
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
        let kind = host::kind(path);
        if let Ok(kind) = kind {
            // Checked before opening, because opening a FIFO waits for the other end.
            refuse_kind(&name, kind)?;
        }
        let block = kind.is_ok_and(|kind| kind == FileKind::Disk);
        let opened = open_as(options.caching, |direct| {
            let opening = Opening {
                read_only: options.read_only,
                is_direct: direct,
                claims: block && options.exclusive && !(options.beside_kernel && options.read_only),
                makes: create.is_some() && !block,
                makes_new: is_new,
            };
            host::open(path, &opening)
        });
        let (file, direct) = match opened {
            Err(error) if host::is_taken(&error) => {
                return Err(Error::Locked { device: name.into(), who: host::SOMEBODY.into() });
            }
            opened => opened.map_err(|source| Error::io(&name, Operation::Open, 0, 0, source))?,
        };
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
        let kind = host::kind_of(&file).map_err(failed)?;
        refuse_kind(&name, kind)?;
        let block = kind == FileKind::Disk;
        if options.exclusive
            && let Some(who) = host::lock(&file, block, options.read_only)
        {
            return Err(Error::Locked { device: name.into(), who });
        }
        let (length, sectors) = if block {
            let (length, logical, physical) = host::geometry(&file).map_err(failed)?;
            (length, Sectors { logical, physical })
        } else {
            if let Some(length) = set_length {
                if options.integrity {
                    host::set_integrity_of(&file).map_err(|source| Error::Unusable {
                        device: name.as_str().into(),
                        reason: source.to_string(),
                    })?;
                }
                // A file that is no image is to be like those of other programs.
                if !options.bytewise {
                    host::make_sparse(&file);
                }
                file.set_len(length).map_err(|source| cannot_be_so_long(&name, length, source))?;
            }
            let logical = match (direct, options.bytewise) {
                (true, _) => host::direct_alignment(&file),
                (false, true) => 1,
                (false, false) => 512,
            };
            let sectors = Sectors { logical, physical: logical };
            (file.metadata().map_err(failed)?.len(), sectors)
        };
        let length = length / u64::from(sectors.logical) * u64::from(sectors.logical);
        // Linux opens a write-protected device for writing all the same, and only the writes fail.
        let is_protected = block && !options.read_only && host::is_write_protected(&file).map_err(failed)?;
        let read_only = options.read_only || is_protected;
        let length = AtomicU64::new(length);
        let claimed = block && options.exclusive && !options.read_only;
        let descriptor =
            Descriptor { name, file, length, sectors, direct, block, claimed, read_only, is_protected };
        Ok(FileDevice { descriptor: Arc::new(descriptor), rings: rings::Pool::default() })
    }

    /// Whether transfers bypass the page cache.
    pub fn is_direct(&self) -> bool {
        self.descriptor.direct
    }

    /// Whether the content lies in a file: this is an image file, or a loop device, which maps one.
    pub fn is_image(&self) -> bool {
        !self.descriptor.block || host::is_over_file(&self.descriptor.file)
    }

    /// Whether the file system of the host keeps checksums of the content; `None` where it has no such thing, or does not
    /// tell.
    pub fn integrity(&self) -> Option<bool> {
        if self.descriptor.block { None } else { host::integrity_of(&self.descriptor.file).ok().flatten() }
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
            Err(error) if host::refuses_direct(&error) => Ok((open(false)?, false)),
            opened => Ok((opened?, true)),
        },
    }
}

/// Refuses everything but a regular file or block device, with an error that names its type.
fn refuse_kind(name: &str, kind: FileKind) -> Result<()> {
    let what = match kind {
        FileKind::File | FileKind::Disk => return Ok(()),
        FileKind::Directory => "a directory",
        FileKind::Fifo => "a FIFO",
        FileKind::Socket => "a socket",
        FileKind::CharacterDevice => "a character device",
        FileKind::Other => "something else",
    };
    let reason = format!("expected an image file or a block device, found {what}");
    Err(Error::Unusable { device: name.into(), reason })
}

/// Returns the error of a file that cannot have a length, which names the length where that is the reason.
fn cannot_be_so_long(name: &str, length: u64, source: std::io::Error) -> Error {
    let is_out_of_range = i64::try_from(length).is_err();
    let reason = match source.kind() {
        _ if is_out_of_range => format!("no file can have {length} bytes; the most are {}", i64::MAX),
        std::io::ErrorKind::FileTooLarge => {
            format!("File too large: what it is on, or a limit of this process, allows no {length} bytes")
        }
        _ => return Error::io(name, Operation::Open, 0, 0, source),
    };
    Error::Unusable { device: name.into(), reason }
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
        if suited && self.rings.read(&self.descriptor.name, &self.descriptor.file, reads)? {
            return Ok(());
        }
        reads.iter_mut().try_for_each(|(offset, buffer)| self.descriptor.read_exact(*offset, buffer))
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        for (offset, data) in writes {
            check_transfer(self, Operation::Write, *offset, data.len() as u64)?;
        }
        let suited = writes.len() > 1 && writes.iter().all(|(_, data)| self.descriptor.suits(data.as_ptr()));
        if suited && self.rings.write(&self.descriptor.name, &self.descriptor.file, writes)? {
            return Ok(());
        }
        writes.iter().try_for_each(|(offset, data)| self.descriptor.write_all(*offset, data))
    }

    fn start(&self) -> u64 {
        if self.descriptor.block { host::start_on_disk(&self.descriptor.file).unwrap_or(0) } else { 0 }
    }

    fn next_data(&self, offset: u64) -> u64 {
        let length = self.descriptor.length();
        if self.descriptor.block || offset >= length {
            return offset.min(length);
        }
        host::next_data(&self.descriptor.file, offset, length)
    }

    fn flush(&self) -> Result<()> {
        self.descriptor.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_transfer(self, Operation::Discard, offset, length)?;
        if length == 0 {
            return Ok(());
        }
        let Descriptor { name, file, block, claimed, .. } = &*self.descriptor;
        host::discard(file, *block, *claimed, offset, length)
            .map_err(|source| Error::io(name, Operation::Discard, offset, length, source))
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        match rings::queue(self, &self.descriptor, depth) {
            Some(queue) => Ok(queue),
            None => Ok(Box::new(PositionalQueue::new(self, &self.descriptor, depth))),
        }
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_no_file_has_is_named() {
        let path = std::env::temp_dir().join(format!("platter-length-{}", std::process::id()));
        for length in [u64::MAX, 1 << 63, i64::MAX as u64] {
            let error = FileDevice::create(&path, length, FileOptions::default()).err().unwrap();
            assert!(error.to_string().contains(&format!(" {length} bytes")), "{error}");
            std::fs::remove_file(&path).unwrap();
        }
    }

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
