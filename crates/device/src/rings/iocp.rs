//! Queues over a completion port: many transfers in flight from one thread, without a thread for each.
//!
//! Each queue has a port and a handle of its own, because a handle belongs to one port only, and the standard library's file
//! must stay synchronous. A write that is to be durable goes through a second handle, opened for writing through; where the
//! file is not opened past the cache, that would not reach the medium's own cache, and the file is flushed behind the write.
//!
//! Facts: Microsoft, "I/O Completion Ports", "CreateIoCompletionPort", "ReOpenFile", "Synchronous and Asynchronous I/O",
//! "OVERLAPPED structure"; "CreateFileW", on caching: with `FILE_FLAG_NO_BUFFERING` and `FILE_FLAG_WRITE_THROUGH` the system
//! "also requests a write-through of the hard disk's local hardware cache to persistent media", and NTFS flushes the changes
//! of metadata that result from the write.

use super::slots::{Slots, Transfer};
use crate::descriptor::Descriptor;
use crate::host::control::{Doing, explained};
use crate::{Completion, Device, Error, Kind, Operation, Queue, Request, Result, Work};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use windows_sys::Win32::Foundation::{
    ERROR_GEN_FAILURE, ERROR_HANDLE_EOF, ERROR_INVALID_USER_BUFFER, ERROR_IO_PENDING,
    ERROR_NO_SYSTEM_RESOURCES, ERROR_NOT_ENOUGH_MEMORY, ERROR_NOT_ENOUGH_QUOTA, ERROR_WORKING_SET_QUOTA,
    GENERIC_READ, GENERIC_WRITE, INVALID_HANDLE_VALUE, RtlNtStatusToDosError, WAIT_TIMEOUT,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_NO_BUFFERING, FILE_FLAG_OVERLAPPED, FILE_FLAG_WRITE_THROUGH, FILE_SHARE_DELETE,
    FILE_SHARE_READ, FILE_SHARE_WRITE, ReOpenFile, ReadFile, WriteFile,
};
use windows_sys::Win32::System::IO::{
    CreateIoCompletionPort, GetQueuedCompletionStatusEx, OVERLAPPED, OVERLAPPED_0, OVERLAPPED_0_0,
    OVERLAPPED_ENTRY, PostQueuedCompletionStatus,
};
use windows_sys::Win32::System::Threading::INFINITE;

/// The most bytes that one transfer asks for. "WriteFile" names a limit of 32 MiB less 32 KiB for files on a network.
const LARGEST: usize = 16 << 20;

/// The most completions that are taken from the port in one call.
const AT_ONCE: usize = 64;

/// The key of all transfers at a port. The flush of slot N has the key N + 1.
const TRANSFERS: usize = 0;

/// The errors of a system that has too much in flight: "ReadFile" names them among others.
const TOO_MANY: [u32; 5] = [
    ERROR_INVALID_USER_BUFFER,
    ERROR_NO_SYSTEM_RESOURCES,
    ERROR_NOT_ENOUGH_MEMORY,
    ERROR_NOT_ENOUGH_QUOTA,
    ERROR_WORKING_SET_QUOTA,
];

/// A transfer that the system has. It gives back the address of the structure, which therefore comes first.
#[repr(C)]
struct Sent {
    overlapped: OVERLAPPED,
    slot: usize,
    segment: usize,
}

/// The handle for durable writes.
enum Through {
    NotYet,
    Open(OwnedHandle),
    /// The file is flushed behind each durable write.
    Flushes,
}

/// A queue on one port, which only its own thread uses.
struct PortQueue<'d> {
    device: &'d dyn Device,
    file: &'d Arc<Descriptor>,
    port: Arc<OwnedHandle>,
    plain: OwnedHandle,
    through: Through,
    flusher: Option<Flusher>,
    slots: Slots,
    /// Memory of earlier transfers. Each is its own allocation, whose address the system has while it is in use.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<Sent>>,
    /// Transfers that the system refused, with the error.
    failed: VecDeque<(usize, usize, io::Error)>,
    /// Transfers that it refused because too many are in flight: they are sent when some of those have ended.
    parked: VecDeque<(usize, usize)>,
    /// The number of transfers and flushes whose completion has not been taken from the port.
    outstanding: usize,
}

impl<'d> PortQueue<'d> {
    fn new(device: &'d dyn Device, file: &'d Arc<Descriptor>, depth: usize) -> io::Result<PortQueue<'d>> {
        // SAFETY: without a handle the call makes a new port.
        let port = unsafe { CreateIoCompletionPort(INVALID_HANDLE_VALUE, null_mut(), 0, 1) };
        if port.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle was just made and belongs to nobody else.
        let port = Arc::new(unsafe { OwnedHandle::from_raw_handle(port) });
        let plain = opened(file, &port, 0)?;
        let through = if file.direct { Through::NotYet } else { Through::Flushes };
        Ok(PortQueue {
            device,
            file,
            port,
            plain,
            through,
            flusher: None,
            slots: Slots::new(depth),
            spare: Vec::new(),
            failed: VecDeque::new(),
            parked: VecDeque::new(),
            outstanding: 0,
        })
    }

    /// Starts all transfers of a request; returns its slot, or `None` if it ended without I/O.
    fn take(&mut self, request: Request, in_parts: bool) -> Option<usize> {
        let (number, transfers) = self.slots.admit(self.device, request, in_parts)?;
        for segment in 0..transfers {
            self.send(number, segment);
        }
        Some(number)
    }

    /// Hands what is left of a segment to the system.
    fn send(&mut self, slot: usize, segment: usize) {
        let left = self.slots.left(slot, segment);
        if left.kind == Kind::Flush {
            return self.flush(slot);
        }
        if left.durable && matches!(self.through, Through::NotYet) {
            let through = opened(self.file, &self.port, FILE_FLAG_WRITE_THROUGH);
            self.through = through.map_or(Through::Flushes, Through::Open);
        }
        let mut sent =
            self.spare.pop().unwrap_or_else(|| Box::new(Sent { overlapped: at(0), slot: 0, segment: 0 }));
        *sent = Sent { overlapped: at(left.offset), slot, segment };
        let handle = match &self.through {
            Through::Open(handle) if left.durable => handle,
            _ => &self.plain,
        };
        match started(handle, &left, sent) {
            Ok(()) => self.outstanding += 1,
            Err((sent, error)) => {
                self.spare.push(sent);
                let code = error.raw_os_error().unwrap_or(0) as u32;
                if TOO_MANY.contains(&code) && self.outstanding > 0 {
                    self.parked.push_back((slot, segment));
                } else {
                    self.failed.push_back((slot, segment, error));
                }
            }
        }
    }

    /// Has the file flushed for a slot.
    fn flush(&mut self, slot: usize) {
        let flusher = self.flusher.get_or_insert_with(|| Flusher::new(self.file, &self.port));
        flusher.flush(slot);
        self.outstanding += 1;
    }

    /// Takes completions from the port; returns how many requests ended, and whether there may be more at the port. Waits for
    /// the first one at most as long as is said, in milliseconds.
    fn reap(
        &mut self,
        patience: u32,
        done: &mut Vec<Completion>,
        work: &mut Work<'_>,
    ) -> io::Result<(usize, bool)> {
        let mut entries = [OVERLAPPED_ENTRY::default(); AT_ONCE];
        let mut count = 0;
        // SAFETY: the port is open, and the call fills at most as many entries as are named, which are live.
        let taken = unsafe {
            let (port, room) = (self.port.as_raw_handle(), AT_ONCE as u32);
            GetQueuedCompletionStatusEx(port, entries.as_mut_ptr(), room, &raw mut count, patience, 0)
        };
        if taken == 0 {
            count = 0;
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(WAIT_TIMEOUT as i32) {
                return Err(error);
            }
        }
        let mut ended = 0;
        for entry in &entries[..count as usize] {
            self.outstanding -= 1;
            let (slot, segment, result) = if entry.lpCompletionKey == TRANSFERS {
                // SAFETY: the pointer is one that `started` gave to the system, which gives it back once.
                let sent = unsafe { Box::from_raw(entry.lpOverlapped.cast::<Sent>()) };
                let (slot, segment, result) = (sent.slot, sent.segment, result(&sent.overlapped));
                self.spare.push(sent);
                (slot, segment, result)
            } else {
                let result = match entry.dwNumberOfBytesTransferred {
                    0 => Ok(0),
                    code => Err(io::Error::from_raw_os_error(code as i32)),
                };
                ended += usize::from(self.flushed(entry.lpCompletionKey - 1, result, done, work));
                continue;
            };
            ended += usize::from(self.arrived(slot, segment, result, done, work));
        }
        if count > 0 {
            for (slot, segment) in std::mem::take(&mut self.parked) {
                self.send(slot, segment);
            }
        }
        ended += self.end_failed(done, work);
        Ok((ended, count as usize == AT_ONCE))
    }

    /// Goes on with the requests whose transfers the system refused; returns how many ended.
    fn end_failed(&mut self, done: &mut Vec<Completion>, work: &mut Work<'_>) -> usize {
        let mut ended = 0;
        while let Some((slot, segment, error)) = self.failed.pop_front() {
            ended += usize::from(self.arrived(slot, segment, Err(error), done, work));
        }
        ended
    }

    /// Goes on with a request whose transfer has ended; returns whether the request has.
    fn arrived(
        &mut self,
        slot: usize,
        segment: usize,
        result: io::Result<usize>,
        done: &mut Vec<Completion>,
        work: &mut Work<'_>,
    ) -> bool {
        let result = result.map_err(|error| match self.slots.left(slot, segment).kind {
            Kind::Read => explained(Doing::Read, error),
            _ => explained(Doing::Write, error),
        });
        if self.slots.transferred(self.device, slot, segment, result) {
            self.send(slot, segment);
            return false;
        }
        if matches!(self.through, Through::Flushes) && self.slots.wants_flush(slot) {
            self.flush(slot);
            return false;
        }
        self.slots.end(slot, segment, done, work)
    }

    /// Ends the request whose flush has ended: the flush itself, or a durable write whose transfers had all ended.
    fn flushed(
        &mut self,
        slot: usize,
        result: io::Result<usize>,
        done: &mut Vec<Completion>,
        work: &mut Work<'_>,
    ) -> bool {
        if let Err(source) = result {
            self.slots.fail(slot, Error::io(self.device.name(), Operation::Flush, 0, 0, source));
        }
        self.slots.end(slot, 0, done, work)
    }
}

/// Opens the file anew for a port, with one more flag than it has itself.
fn opened(file: &Descriptor, port: &OwnedHandle, flag: u32) -> io::Result<OwnedHandle> {
    let cache = if file.direct { FILE_FLAG_NO_BUFFERING } else { 0 };
    let flags = FILE_FLAG_OVERLAPPED | cache | flag;
    let access = if file.read_only { GENERIC_READ } else { GENERIC_READ | GENERIC_WRITE };
    let share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    // SAFETY: the handle of the file is open.
    let again = unsafe { ReOpenFile(file.file.as_raw_handle(), access, share, flags) };
    let handle = if again != INVALID_HANDLE_VALUE {
        // SAFETY: the handle was just made and belongs to nobody else.
        unsafe { OwnedHandle::from_raw_handle(again) }
    } else {
        let error = io::Error::last_os_error();
        if !file.block {
            return Err(error);
        }
        // "ReOpenFile" is for files. A disk is opened by its name; of a volume that is locked Windows opens no second
        // handle, and then the queue is one of threads.
        let mut options = File::options();
        options.read(true).write(!file.read_only).share_mode(share).custom_flags(flags);
        OwnedHandle::from(options.open(&file.name)?)
    };
    // SAFETY: both handles are open.
    let joined =
        unsafe { CreateIoCompletionPort(handle.as_raw_handle(), port.as_raw_handle(), TRANSFERS, 0) };
    if joined.is_null() { Err(io::Error::last_os_error()) } else { Ok(handle) }
}

/// The structure of a transfer at an offset.
fn at(offset: u64) -> OVERLAPPED {
    let place = OVERLAPPED_0_0 { Offset: offset as u32, OffsetHigh: (offset >> 32) as u32 };
    OVERLAPPED { Anonymous: OVERLAPPED_0 { Anonymous: place }, ..OVERLAPPED::default() }
}

/// Starts a transfer. If the system refuses it, no completion follows, and the memory is returned with the error.
fn started(
    handle: &OwnedHandle,
    left: &Transfer,
    sent: Box<Sent>,
) -> std::result::Result<(), (Box<Sent>, io::Error)> {
    let length = left.length.min(LARGEST) as u32;
    let sent = Box::into_raw(sent);
    // SAFETY: the memory belongs to a buffer in `slots`, which neither moves its allocation nor is freed before this transfer's
    // completion is taken from the port: `Drop` waits for that too. The same holds for `sent`, which nobody touches until
    // then, and whose first field is the structure that the call wants. The handle is open, and stays open as long.
    let is_started = unsafe {
        let (handle, overlapped) = (handle.as_raw_handle(), (&raw mut (*sent).overlapped));
        match left.kind {
            Kind::Read => ReadFile(handle, left.memory, length, null_mut(), overlapped),
            _ => WriteFile(handle, left.memory, length, null_mut(), overlapped),
        }
    };
    if is_started != 0 {
        // It has ended already, and the completion is at the port all the same.
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(ERROR_IO_PENDING as i32) {
        return Ok(());
    }
    // SAFETY: the system has refused the transfer, so that it has no use for the memory.
    Err((unsafe { Box::from_raw(sent) }, error))
}

/// The number of bytes of a transfer that has ended, or its error.
fn result(overlapped: &OVERLAPPED) -> io::Result<usize> {
    let status = overlapped.Internal as i32;
    if status >= 0 {
        return Ok(overlapped.InternalHigh);
    }
    // SAFETY: the call only looks a number up.
    match unsafe { RtlNtStatusToDosError(status) } {
        ERROR_HANDLE_EOF => Ok(0),
        code => Err(io::Error::from_raw_os_error(code as i32)),
    }
}

/// A thread that flushes the file: Windows has no flush that a port tells of.
struct Flusher {
    work: Option<Sender<usize>>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    fn new(file: &Arc<Descriptor>, port: &Arc<OwnedHandle>) -> Flusher {
        let (work, wanted) = channel::<usize>();
        let (file, port) = (file.clone(), port.clone());
        let thread = std::thread::spawn(move || {
            while let Ok(first) = wanted.recv() {
                // One flush serves all that were asked for before it begins.
                let slots: Vec<usize> = std::iter::once(first).chain(wanted.try_iter()).collect();
                let code = match file.sync() {
                    Ok(()) => 0,
                    Err(error) => error.raw_os_error().map_or(ERROR_GEN_FAILURE, |code| code as u32),
                };
                for slot in slots {
                    // SAFETY: the port is open. The call fails only where memory is short, and the queue waits for it.
                    while unsafe { PostQueuedCompletionStatus(port.as_raw_handle(), code, slot + 1, null()) }
                        == 0
                    {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            }
        });
        Flusher { work: Some(work), thread: Some(thread) }
    }

    fn flush(&self, slot: usize) {
        let work = self.work.as_ref().expect("open until dropped");
        work.send(slot).expect("the thread lives as long as the queue");
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            // It ends only when the channel is closed; if it panicked, the message has already been printed.
            let _ = thread.join();
        }
    }
}

impl Queue for PortQueue<'_> {
    fn submit(&mut self, request: Request) {
        self.take(request, false);
    }

    fn submit_beside(&mut self, request: Request, work: &mut dyn FnMut(&[u8])) -> Result<()> {
        assert_eq!(request.kind, Kind::Write, "the system only reads the memory of a write");
        if let Some(slot) = self.take(request, false) {
            work(self.slots.content(slot));
        }
        Ok(())
    }

    fn submit_in_parts(&mut self, request: Request) -> Result<()> {
        assert_eq!(request.kind, Kind::Read, "only what is read arrives");
        self.take(request, true);
        Ok(())
    }

    fn kick(&mut self) -> Result<()> {
        Ok(())
    }

    fn wait_beside(&mut self, least: usize, done: &mut Vec<Completion>, work: &mut Work<'_>) -> Result<()> {
        let mut got = self.slots.end_refused(done) + self.end_failed(done, work);
        while self.outstanding > 0 {
            let patience = if got < least { INFINITE } else { 0 };
            let reaped = self.reap(patience, done, work);
            let (ended, may_be_more) =
                reaped.map_err(|source| Error::io(self.device.name(), Operation::Read, 0, 0, source))?;
            got += ended;
            if got >= least && !may_be_more {
                break;
            }
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.slots.in_flight()
    }
}

impl Drop for PortQueue<'_> {
    fn drop(&mut self) {
        let mut done = Vec::new();
        while self.outstanding > 0 {
            if self.reap(INFINITE, &mut done, &mut |_, _, _| {}).is_err() {
                self.slots.leak();
                return;
            }
        }
    }
}

/// A queue for `device`, whose open file is `file`; `None` where the system opens no second handle, or none for a port.
pub(crate) fn queue<'d>(
    device: &'d dyn Device,
    file: &'d Arc<Descriptor>,
    depth: usize,
) -> Option<Box<dyn Queue + 'd>> {
    Some(Box::new(PortQueue::new(device, file, depth).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Caching, FileDevice, FileOptions, Segment};

    fn request(tag: u64, kind: Kind, durable: bool) -> Request {
        let length = if kind == Kind::Flush { 0 } else { 8192 };
        let segments = match kind {
            Kind::Flush => [][..].into(),
            _ => [
                Segment { offset: tag * 8192, at: 0, length: 4096 },
                Segment { offset: tag * 8192 + 4096, at: 4096, length: 4096 },
            ][..]
                .into(),
        };
        Request { tag, kind, durable, segments, buffer: Buffer::from(&vec![tag as u8; length][..]) }
    }

    #[test]
    fn durable_writes_go_through_or_are_flushed_once_they_have_ended() {
        for caching in [Caching::Buffered, Caching::Direct] {
            let options = FileOptions { caching, ..FileOptions::default() };
            let device = FileDevice::temporary(&std::env::temp_dir(), 1 << 20, options).unwrap();
            let mut queue = PortQueue::new(&device, &device.descriptor, 32).unwrap();
            let mut done = Vec::new();
            queue.submit(request(0, Kind::Write, false));
            queue.wait(1, &mut done).unwrap();
            assert!(!matches!(queue.through, Through::Open(_)) && queue.flusher.is_none());
            for tag in 1..31 {
                queue.submit(request(tag, Kind::Write, tag % 2 == 0));
            }
            queue.wait(30, &mut done).unwrap();
            match caching {
                Caching::Direct => {
                    assert!(matches!(queue.through, Through::Open(_)) && queue.flusher.is_none())
                }
                _ => assert!(matches!(queue.through, Through::Flushes) && queue.flusher.is_some()),
            }
            queue.submit(request(31, Kind::Flush, false));
            queue.wait(1, &mut done).unwrap();
            assert!(done.iter().all(|completion| completion.result.is_ok()), "{done:?}");
            assert_eq!((done.len(), done[31].tag, queue.in_flight()), (32, 31, 0));
            assert!(queue.outstanding == 0 && queue.spare.len() <= 64, "{}", queue.spare.len());
        }
    }

    /// A file that nobody else may open has a queue all the same, of threads.
    #[test]
    fn without_a_second_handle_there_are_threads() {
        let path = std::env::temp_dir().join(format!("platter-alone-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).share_mode(0).open(&path).unwrap();
        let name = path.display().to_string();
        let device = FileDevice::of_file(file, name, false, FileOptions::default(), Some(1 << 20)).unwrap();
        assert!(PortQueue::new(&device, &device.descriptor, 4).is_err());
        let mut queue = device.queue(4).unwrap();
        let mut done = Vec::new();
        for tag in 0..4 {
            queue.submit(request(tag, Kind::Write, true));
        }
        queue.wait(4, &mut done).unwrap();
        assert!(done.len() == 4 && done.iter().all(|completion| completion.result.is_ok()));
        drop(queue);
        drop(device);
        std::fs::remove_file(path).unwrap();
    }

    /// What has been cut off behind an open handle is an error of each transfer, and of nothing else.
    #[test]
    fn transfers_behind_the_end_fail_by_themselves() {
        let device = FileDevice::temporary(&std::env::temp_dir(), 1 << 20, FileOptions::default()).unwrap();
        device.descriptor.file.set_len(8192).unwrap();
        let mut queue = PortQueue::new(&device, &device.descriptor, 4).unwrap();
        let mut done = Vec::new();
        for tag in [0, 5, 1] {
            queue.submit(request(tag, Kind::Read, false));
        }
        queue.wait(3, &mut done).unwrap();
        done.sort_by_key(|completion| completion.tag);
        assert_eq!(done.iter().map(|one| one.result.is_ok()).collect::<Vec<_>>(), [true, false, false]);
        assert!(done[2].result.as_ref().unwrap_err().to_string().contains("end of file"), "{:?}", done[2]);
    }
}
