//! A disk with a volatile cache whose power fails when a test says so. It is a file, `disk.img`, of a FUSE file system
//! that this process serves, so that any program may use it.

use super::mount::Random;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    Request, WriteFlags,
};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

const ROOT: INodeNo = INodeNo(1);
const IMAGE: INodeNo = INodeNo(2);

/// The smallest unit of a write that is written whole or not at all.
const SECTOR: usize = 512;

/// The disk, which is served until this is dropped.
pub(crate) struct Disk {
    cache: Arc<Cache>,
    _session: BackgroundSession,
}

/// What the disk has been given since it was last flushed.
struct Cache {
    /// What the disk holds, as it reads.
    medium: File,
    length: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_off: bool,
    writes: Vec<Written>,
}

/// A write that is not durable yet, and what was there before it.
struct Written {
    offset: u64,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Disk {
    /// Serves the image `medium` as the file `disk.img` in the directory `at`.
    pub(crate) fn serve(medium: &Path, at: &Path) -> Disk {
        let medium = File::options().read(true).write(true).open(medium).unwrap();
        let length = medium.metadata().unwrap().len();
        let cache = Arc::new(Cache { medium, length, state: Mutex::default() });
        let session = fuser::spawn_mount(Served(cache.clone()), at, &Config::default());
        Disk { cache, _session: session.expect("/dev/fuse and fusermount3 are needed for this test") }
    }

    /// Cuts the power: of the writes since the last flush, some are lost, chosen at random, and whatever is asked of the
    /// disk fails until it is turned on.
    pub(crate) fn cut(&self, random: &mut Random) {
        let mut state = self.cache.state.lock().unwrap();
        state.is_off = true;
        let writes = std::mem::take(&mut state.writes);
        for write in writes.iter().rev() {
            self.cache.medium.write_all_at(&write.old, write.offset).unwrap();
        }
        let (way, kept) = (random.below(3), random.below(writes.len() as u64 + 1));
        for (number, write) in writes.iter().enumerate() {
            match way {
                // The first writes are kept, as if the disk had no cache.
                0 if number as u64 >= kept => {}
                // Whole writes are kept or lost.
                1 if random.below(2) == 0 => {}
                0 | 1 => self.cache.medium.write_all_at(&write.new, write.offset).unwrap(),
                _ => {
                    let offsets = (write.offset..).step_by(SECTOR);
                    for (offset, sector) in offsets.zip(write.new.chunks(SECTOR)) {
                        if random.below(2) == 0 {
                            self.cache.medium.write_all_at(sector, offset).unwrap();
                        }
                    }
                }
            }
        }
    }

    /// Turns the disk on again.
    pub(crate) fn turn_on(&self) {
        self.cache.state.lock().unwrap().is_off = false;
    }
}

impl Cache {
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let mut state = self.state.lock().unwrap();
        if state.is_off || offset + data.len() as u64 > self.length {
            return Err(Errno::EIO);
        }
        let mut old = vec![0; data.len()];
        self.medium.read_exact_at(&mut old, offset).unwrap();
        self.medium.write_all_at(data, offset).unwrap();
        state.writes.push(Written { offset, old, new: data.to_vec() });
        Ok(())
    }

    fn read(&self, offset: u64, length: u32) -> Result<Vec<u8>, Errno> {
        if self.state.lock().unwrap().is_off {
            return Err(Errno::EIO);
        }
        let mut data = vec![0; u64::from(length).min(self.length.saturating_sub(offset)) as usize];
        self.medium.read_exact_at(&mut data, offset).unwrap();
        Ok(data)
    }

    fn flush(&self) -> Result<(), Errno> {
        let mut state = self.state.lock().unwrap();
        if state.is_off {
            return Err(Errno::EIO);
        }
        state.writes.clear();
        Ok(())
    }
}

/// Answers the kernel.
struct Served(Arc<Cache>);

impl Served {
    fn attributes(&self, node: INodeNo) -> FileAttr {
        let (kind, size) = match node {
            ROOT => (FileType::Directory, 0),
            _ => (FileType::RegularFile, self.0.length),
        };
        FileAttr {
            ino: node,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

/// How long the kernel may keep what it was told.
const KNOWN: Duration = Duration::from_secs(1);

impl Filesystem for Served {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name.to_str() {
            Some("disk.img") => reply.entry(&KNOWN, &self.attributes(IMAGE), Generation(0)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&KNOWN, &self.attributes(node));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Past the kernel's cache, so that each write arrives here when it is made.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.0.read(offset, size) {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.0.write(offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // close(2) makes nothing durable.
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.0.flush() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }
}
