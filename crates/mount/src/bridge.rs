//! Translates requests of the kernel into calls of [`Served`], and their results into replies.
//!
//! Opening and closing are not tracked here: the kernel does not forget a node while a program has it open, and checks
//! permissions itself. So the first request to open or to flush is answered in a way that makes the kernel send no more
//! of them (with `strictatime` requests to open still come). Content, listings and attributes stay in the kernel's
//! cache, since nothing but the kernel's own requests changes them.

use crate::attributes::StatChange;
use crate::data::RangeChange;
use crate::entries::{Caller, New, Seen};
use crate::errors;
use crate::errors::Answer;
use crate::extended::SetAttribute;
use crate::options::AccessTimes;
use crate::owners::OwnerChange;
use crate::served::Served;
use crate::stat::{Special, Stat};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request, TimeOrNow, WriteFlags,
};
use platter_device::Buffer;
use platter_vfs::{Kind, Node, RenameFlags, SyncScope, Timestamp};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the kernel may cache attributes and names. When one of its requests changes them, it drops them from its
/// cache at once.
const KNOWN: Duration = Duration::from_secs(60);
/// How long the kernel may cache a name that matches whatever its case, if it cannot be told that its names are out of
/// date: when a file is removed under one spelling, the kernel may still find it under another for this time.
const ONE_OF_SEVERAL: Duration = Duration::from_secs(1);
/// The number of requests that the kernel may have in flight in the background, such as read-ahead and asynchronous
/// direct transfers.
const BACKGROUND: u16 = 128;

/// The generation of all node numbers: no number is used for another file while the volume is open.
const GENERATION: Generation = Generation(0);

thread_local! {
    /// The buffer of a thread for the data of reads, kept from request to request.
    static BUFFER: RefCell<Buffer> = RefCell::new(Buffer::new(128 << 10));
}

/// Answers the kernel's requests.
pub(crate) struct Bridge {
    served: Arc<Served>,
    /// A channel that closes when this value is dropped, so that its receiver sees that no more requests will come.
    _end: Sender<()>,
}

impl Bridge {
    /// Returns a value that answers requests for a volume. `end` is dropped after the last request.
    pub(crate) fn new(served: Arc<Served>, end: Sender<()>) -> Bridge {
        Bridge { served, _end: end }
    }

    fn reply_entry(&self, reply: ReplyEntry, name: &OsStr, answer: Answer<Stat>) {
        match answer {
            Ok(stat) => reply.entry_with_ttls(&KNOWN, &self.kept(name), &attr(&stat), GENERATION),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// How long the kernel may cache a name.
    fn kept(&self, name: &OsStr) -> Duration {
        if self.served.names_stream(name.as_bytes()) { Duration::ZERO } else { self.names() }
    }

    /// How long the kernel may cache names as they are stored.
    fn names(&self) -> Duration {
        match self.served.has_spellings && !self.served.tells_old_names() {
            true => ONE_OF_SEVERAL,
            false => KNOWN,
        }
    }

    /// Makes a node durable and replies, unless too many threads are at that already: then another thread does so.
    fn sync(&self, node: Node, scope: SyncScope, reply: ReplyEmpty) {
        let served = Arc::clone(&self.served);
        self.served.syncs.carry_out(move || reply_empty(reply, served.sync(node, scope)));
    }

    /// Must be called for each request but those that look up names.
    fn turned(&self, request: &Request) {
        self.served.spellings.turned(request.pid());
    }
}

fn node(number: INodeNo) -> Node {
    Node(number.0)
}

fn errno(error: errors::Errno) -> Errno {
    Errno::from_i32(error.0)
}

fn time(time: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let part = Duration::from_nanos(time.nanoseconds.into());
    let second = if time.seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    second.and_then(|second| second.checked_add(part)).unwrap_or(UNIX_EPOCH)
}

fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timestamp::from(after),
        Err(before) => {
            let before = before.duration();
            let (seconds, part) = (before.as_secs() as i64, before.subsec_nanos());
            match part {
                0 => Timestamp { seconds: -seconds, nanoseconds: 0 },
                part => Timestamp { seconds: -seconds - 1, nanoseconds: 1_000_000_000 - part },
            }
        }
    }
}

/// Returns a time that a program has set. Of a time before 1970 the crate takes the nanoseconds, which count forward from
/// the second, for a part of a second before it.
fn wanted_time(wanted: TimeOrNow) -> Timestamp {
    match wanted {
        TimeOrNow::SpecificTime(time) => match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Timestamp::from(after),
            Err(before) => {
                let before = before.duration();
                Timestamp { seconds: -(before.as_secs() as i64), nanoseconds: before.subsec_nanos() }
            }
        },
        TimeOrNow::Now => timestamp(SystemTime::now()),
    }
}

fn file_type(kind: Kind, special: Option<Special>) -> FileType {
    match (kind, special) {
        (_, Some(Special::Fifo)) => FileType::NamedPipe,
        (_, Some(Special::Socket)) => FileType::Socket,
        (_, Some(Special::Character)) => FileType::CharDevice,
        (_, Some(Special::Block)) => FileType::BlockDevice,
        (Kind::File, None) => FileType::RegularFile,
        (Kind::Directory, None) => FileType::Directory,
        (Kind::SymbolicLink, None) => FileType::Symlink,
    }
}

fn attr(stat: &Stat) -> FileAttr {
    FileAttr {
        ino: INodeNo(stat.node),
        size: stat.size,
        blocks: stat.allocated.div_ceil(512),
        atime: time(stat.accessed),
        mtime: time(stat.modified),
        ctime: time(stat.changed),
        crtime: time(stat.created),
        kind: file_type(stat.kind, stat.special),
        perm: stat.mode as u16,
        nlink: stat.links,
        uid: stat.uid,
        gid: stat.gid,
        rdev: stat.device,
        blksize: 4096,
        flags: 0,
    }
}

fn reply_attr(reply: ReplyAttr, answer: Answer<Stat>) {
    match answer {
        Ok(stat) => reply.attr(&KNOWN, &attr(&stat)),
        Err(error) => reply.error(errno(error)),
    }
}

fn reply_empty(reply: ReplyEmpty, answer: Answer<()>) {
    match answer {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

fn reply_attribute(reply: ReplyXattr, room: u32, answer: Answer<Vec<u8>>) {
    match answer {
        Ok(value) if room == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > room as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(errno(error)),
    }
}

/// Returns the caller's group, unless the caller is root. It is for requests of which the kernel does not say whether
/// they clear set-user-id and set-group-id.
fn stranger(request: &Request) -> Option<u32> {
    (request.uid() != 0).then(|| request.gid())
}

fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid(), thread: request.pid() }
}

fn new(request: &Request, mode: u32, umask: u32, device: u32) -> New {
    New { mode, umask, uid: request.uid(), gid: request.gid(), device }
}

impl Filesystem for Bridge {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let mut wanted = vec![
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_NO_OPENDIR_SUPPORT,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            InitFlags::FUSE_EXPLICIT_INVAL_DATA,
        ];
        // Where a file that the kernel has forgotten cannot be found by its number, there are no file handles such as those
        // of NFS. Where it can, the kernel looks up "." and ".." in what it knows by number alone.
        wanted.push(match self.served.finds_numbers() {
            true => InitFlags::FUSE_EXPORT_SUPPORT,
            false => InitFlags::FUSE_NO_EXPORT_SUPPORT,
        });
        if self.served.has_acls() {
            wanted.push(InitFlags::FUSE_POSIX_ACL);
            // What the umask takes depends on the list that the directory has for new entries.
            wanted.push(InitFlags::FUSE_DONT_MASK);
        }
        if self.served.options.access_times != AccessTimes::Strict {
            wanted.push(InitFlags::FUSE_NO_OPEN_SUPPORT);
        }
        for capability in wanted {
            // A kernel without one of these capabilities only sends more requests.
            let _ = config.add_capabilities(capability);
        }
        let _ = config.set_max_background(BACKGROUND);
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let by_number = match name.as_bytes() {
            b"." => Some(self.served.look_up_number(node(parent))),
            b".." => Some(self.served.look_up_parent(node(parent))),
            _ => None,
        };
        if let Some(found) = by_number {
            return self.reply_entry(reply, name, found);
        }
        match self.served.look_up(node(parent), name.as_bytes(), caller(request)) {
            // The kernel caches the absence of a name too, but not if names match whatever their case: creating another
            // spelling of the name would not end that.
            Err(error) if error.0 == libc::ENOENT && !self.served.has_spellings => {
                let nothing = Stat::placeholder(0, Kind::File);
                reply.entry_with_ttls(&KNOWN, &self.kept(name), &attr(&nothing), GENERATION);
            }
            Ok(Seen { stat, is_stored, keeps_attributes }) if !is_stored || !keeps_attributes => {
                let names = if is_stored { self.kept(name) } else { Duration::ZERO };
                let attributes = if keeps_attributes { KNOWN } else { Duration::ZERO };
                reply.entry_with_ttls(&attributes, &names, &attr(&stat), GENERATION);
            }
            answer => self.reply_entry(reply, name, answer.map(|seen| seen.stat)),
        }
    }

    fn forget(&self, _request: &Request, number: INodeNo, count: u64) {
        self.served.forget(node(number), count);
    }

    fn getattr(&self, request: &Request, number: INodeNo, _file: Option<FileHandle>, reply: ReplyAttr) {
        let answer = self.served.stat(node(number));
        match &answer {
            Ok(stat) if stat.kind == Kind::Directory => {
                self.served.spellings.passed(request.pid(), node(number));
            }
            _ => self.turned(request),
        }
        reply_attr(reply, answer);
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        _file: Option<FileHandle>,
        _created: Option<SystemTime>,
        _changed_on_other_systems: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.turned(request);
        let change = StatChange {
            owner: OwnerChange { uid, gid, mode },
            size,
            accessed: accessed.map(wanted_time),
            modified: modified.map(wanted_time),
            drops_privileges: request.uid() != 0,
        };
        reply_attr(reply, self.served.set_stat(node(number), &change));
    }

    fn readlink(&self, request: &Request, number: INodeNo, reply: ReplyData) {
        self.turned(request);
        match self.served.read_link(node(number)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        self.turned(request);
        self.reply_entry(
            reply,
            name,
            self.served.make_node(node(parent), name.as_bytes(), new(request, mode, umask, device)),
        );
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        self.turned(request);
        self.reply_entry(
            reply,
            name,
            self.served.make_directory(node(parent), name.as_bytes(), new(request, mode, umask, 0)),
        );
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.turned(request);
        reply_empty(reply, self.served.unlink(node(parent), name.as_bytes(), caller(request)));
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.turned(request);
        reply_empty(reply, self.served.remove_directory(node(parent), name.as_bytes()));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        self.turned(request);
        let target = target.as_os_str().as_bytes();
        self.reply_entry(
            reply,
            name,
            self.served.make_link(node(parent), name.as_bytes(), target, new(request, 0o777, 0, 0)),
        );
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: fuser::RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.turned(request);
        if flags == fuser::RenameFlags::RENAME_WHITEOUT {
            let (name, new_name) = (name.as_bytes(), new_name.as_bytes());
            let whiteout = new(request, libc::S_IFCHR, 0, 0);
            let done = self.served.leave_whiteout(node(parent), name, node(new_parent), new_name, whiteout);
            return reply_empty(reply, done);
        }
        let flags = match flags {
            none if none.is_empty() => RenameFlags::Replace,
            fuser::RenameFlags::RENAME_NOREPLACE => RenameFlags::NoReplace,
            fuser::RenameFlags::RENAME_EXCHANGE => RenameFlags::Exchange,
            _ => return reply.error(Errno::EINVAL),
        };
        let (name, new_name) = (name.as_bytes(), new_name.as_bytes());
        reply_empty(reply, self.served.rename(node(parent), name, node(new_parent), new_name, flags));
    }

    fn link(&self, request: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.turned(request);
        self.reply_entry(reply, name, self.served.link(node(number), node(parent), name.as_bytes()));
    }

    fn open(&self, _request: &Request, _number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.served.options.access_times {
            // Without `FOPEN_KEEP_CACHE` the kernel drops the cached content of a file each time the file is opened. So
            // the first reads after that come here, and change the access time.
            AccessTimes::Strict => reply.opened(FileHandle(0), FopenFlags::empty()),
            // The kernel takes `ENOSYS` as success, and sends no more requests to open files.
            _ => reply.error(Errno::ENOSYS),
        }
    }

    fn opendir(&self, _request: &Request, _number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn flush(
        &self,
        _request: &Request,
        _number: INodeNo,
        _file: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // Each write was answered with its result, so no error is left to report when a file is closed.
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        request: &Request,
        number: INodeNo,
        _file: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.turned(request);
        BUFFER.with_borrow_mut(|buffer| {
            let size = size as usize;
            if buffer.len() < size {
                *buffer = Buffer::new(size);
            }
            let is_noted = flags.0 & libc::O_NOATIME == 0;
            match self.served.read(node(number), offset, &mut buffer[..size], is_noted) {
                Ok(got) => reply.data(&buffer[..got]),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn write(
        &self,
        request: &Request,
        number: INodeNo,
        _file: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        _open: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.turned(request);
        let drops = flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        match self.served.write(node(number), offset, data, drops) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn fsync(
        &self,
        request: &Request,
        number: INodeNo,
        _file: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.turned(request);
        let scope = if data_only { SyncScope::Data } else { SyncScope::All };
        self.sync(node(number), scope, reply);
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        number: INodeNo,
        _file: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.sync(node(number), SyncScope::All, reply);
    }

    fn readdir(
        &self,
        request: &Request,
        number: INodeNo,
        _file: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.turned(request);
        let done = self.served.list(node(number), offset, false, |entry| {
            let kind = file_type(entry.kind, None);
            !reply.add(INodeNo(entry.number), entry.next, kind, OsStr::from_bytes(&entry.name))
        });
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdirplus(
        &self,
        request: &Request,
        number: INodeNo,
        _file: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.turned(request);
        let done = self.served.list(node(number), offset, true, |entry| {
            let (handed_out, stat) = match entry.stat {
                Some(stat) => (entry.number, attr(&stat)),
                // Number 0 says that the lookup count of the entry was not raised. The kernel then uses only the number
                // and type in the attributes.
                None => (0, attr(&Stat::placeholder(entry.number, entry.kind))),
            };
            let name = OsStr::from_bytes(&entry.name);
            !reply.add(INodeNo(handed_out), entry.next, name, &self.names(), &stat, GENERATION)
        });
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn statfs(&self, _request: &Request, _number: INodeNo, reply: ReplyStatfs) {
        match self.served.volume_stat() {
            Ok(volume) => {
                let cluster = volume.cluster as u32;
                reply.statfs(
                    volume.total,
                    volume.free,
                    volume.available,
                    0,
                    0,
                    cluster,
                    volume.longest_name,
                    cluster,
                );
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        self.turned(request);
        if let Err(error) = self.served.may_change_attribute(node(number), name.as_bytes(), request.uid()) {
            return reply.error(errno(error));
        }
        let how = match flags {
            libc::XATTR_CREATE => SetAttribute::New,
            libc::XATTR_REPLACE => SetAttribute::Known,
            _ => SetAttribute::Any,
        };
        let stranger = stranger(request);
        let done = self.served.set_attribute_as(node(number), name.as_bytes(), value, how, stranger);
        reply_empty(reply, done);
    }

    fn getxattr(&self, request: &Request, number: INodeNo, name: &OsStr, room: u32, reply: ReplyXattr) {
        self.turned(request);
        reply_attribute(reply, room, self.served.attribute_value(node(number), name.as_bytes()));
    }

    fn listxattr(&self, request: &Request, number: INodeNo, room: u32, reply: ReplyXattr) {
        self.turned(request);
        reply_attribute(reply, room, self.served.attribute_names(node(number)));
    }

    fn removexattr(&self, request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.turned(request);
        if let Err(error) = self.served.may_change_attribute(node(number), name.as_bytes(), request.uid()) {
            return reply.error(errno(error));
        }
        reply_empty(reply, self.served.remove_attribute(node(number), name.as_bytes()));
    }

    fn fallocate(
        &self,
        request: &Request,
        number: INodeNo,
        _file: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let keep_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let change = match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 if keep_size => RangeChange::AllocateKeepingSize,
            0 => RangeChange::Allocate,
            libc::FALLOC_FL_PUNCH_HOLE if keep_size => RangeChange::Punch,
            libc::FALLOC_FL_ZERO_RANGE => RangeChange::Zero { keep_size },
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        let stranger = stranger(request);
        reply_empty(reply, self.served.change_range(node(number), offset, length, change, stranger));
    }

    fn lseek(
        &self,
        _request: &Request,
        number: INodeNo,
        _file: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let hole = match whence {
            libc::SEEK_DATA => false,
            libc::SEEK_HOLE => true,
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        match self.served.seek(node(number), offset, hole) {
            Ok(found) => reply.offset(found as i64),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
        from: INodeNo,
        _from_file: FileHandle,
        offset: u64,
        to: INodeNo,
        _to_file: FileHandle,
        to_offset: u64,
        length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let (from, to) = ((node(from), offset), (node(to), to_offset));
        match self.served.clone_range(from, to, length, stranger(request)) {
            Ok(copied) => reply.written(copied as u32),
            Err(error) => reply.error(errno(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_way_to_the_kernel_and_back() {
        for (seconds, nanoseconds) in
            [(0, 0), (-1, 1), (-1, 0), (1_700_000_000, 999_999_999), (-12_000_000_000, 7)]
        {
            let stamp = Timestamp { seconds, nanoseconds };
            assert_eq!(timestamp(time(stamp)), stamp);
        }
    }
}
