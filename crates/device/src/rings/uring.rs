//! Queues and batches over io_uring: many transfers in flight from one thread, without a thread for each.

use super::slots::Slots;
use crate::descriptor::Descriptor;
use crate::{Completion, Device, Error, Kind, Operation, Queue, Request, Result, Work};
use io_uring::{EnterFlags, IoUring, opcode, squeue, types};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The most bytes that one transfer asks for: the kernel limits a transfer to a little under 2 GiB.
const LARGEST: usize = 1 << 30;

/// A queue on one ring, which only its own thread uses.
struct UringQueue<'d> {
    device: &'d dyn Device,
    file: &'d File,
    ring: IoUring,
    /// The requests in flight; slot number and segment number are the ring's user data.
    slots: Slots,
    /// Completions taken from the ring early to make room: user data and result of each.
    early: VecDeque<(u64, i32)>,
    /// The number of transfers pushed to the ring and not yet reaped.
    outstanding: usize,
    /// The number of transfers pushed to the ring and not yet submitted to the kernel.
    unsubmitted: usize,
}

/// The least number of entries of a ring, so that one request in many parts has room.
const ENTRIES: usize = 64;

// The kernel rounds a ring up to a power of two.
const _: () = assert!(ENTRIES.is_power_of_two());

/// The bytes of a read's parts that are submitted to the kernel together: it can merge adjacent parts that it gets at
/// once.
const AT_ONCE: u32 = 64 << 10;

/// How long the ring is polled for the next part of a read before this thread sleeps. On a fast device, a part arrives
/// sooner than a sleeping thread can be woken, above all on a virtual processor.
const SOON: Duration = Duration::from_micros(50);

impl<'d> UringQueue<'d> {
    fn new(device: &'d dyn Device, file: &'d File, depth: usize) -> Option<UringQueue<'d>> {
        let entries = u32::try_from(depth.max(ENTRIES).next_power_of_two()).ok()?.min(4096);
        // With deferred task work, the kernel processes completions when this thread asks for them and does not
        // interrupt it. `IORING_SETUP_TASKRUN_FLAG` is not set: with it, the processor that completes a transfer would
        // write, for each transfer, to memory in the cache of this thread's processor. Kernels before 6.1 do not know
        // these options and get a plain ring.
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(entries)
            .or_else(|_| IoUring::new(entries))
            .ok()?;
        Some(UringQueue {
            device,
            file,
            ring,
            slots: Slots::new(depth),
            early: VecDeque::new(),
            outstanding: 0,
            unsubmitted: 0,
        })
    }

    fn push(&mut self, slot: usize, segment: usize) {
        let fd = self.file.as_raw_fd();
        let left = self.slots.left(slot, segment);
        let entry = match left.kind {
            Kind::Flush => opcode::Fsync::new(types::Fd(fd)).flags(types::FsyncFlags::DATASYNC).build(),
            kind => transfer(fd, kind, left.durable, left.memory, left.length, left.offset),
        };
        let entry = entry.user_data((slot as u64) << 32 | segment as u64);
        loop {
            // SAFETY: the memory belongs to a buffer in `slots`, which neither moves its allocation nor is freed
            // before this transfer's completion is reaped: `Drop` waits for that too. The descriptor outlives `self`.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                break;
            }
            // The submission queue is full of entries that the kernel has not taken. The kernel takes none while
            // completions that do not fit the completion queue are not reaped.
            self.enter(0).expect("io_uring takes what fits its submission queue");
            let early = self.ring.completion().map(|entry| (entry.user_data(), entry.result()));
            self.early.extend(early);
        }
        self.unsubmitted += 1;
        self.outstanding += 1;
    }

    /// Pushes the transfers of a request; returns its slot, or `None` if it ended without I/O.
    fn take(&mut self, request: Request) -> Option<usize> {
        let (number, transfers) = self.slots.admit(self.device, request, false)?;
        for segment in 0..transfers {
            self.push(number, segment);
        }
        Some(number)
    }

    /// Submits the pushed transfers to the kernel, lets it process completions, and waits for at least `least` of them.
    fn enter(&mut self, least: usize) -> io::Result<()> {
        loop {
            let pushed = self.ring.submission().len();
            let events = EnterFlags::GETEVENTS.bits();
            let submitter = self.ring.submitter();
            // SAFETY: the pushed entries are valid (see `push`), and no argument is passed that the kernel would read.
            match unsafe { submitter.enter::<libc::sigset_t>(pushed as u32, least as u32, events, None) } {
                Ok(_) => {
                    self.unsubmitted = 0;
                    return Ok(());
                }
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                // The kernel refuses because too much is in flight: completions must be reaped first.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN)) => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for a completion, polling for a while if the next one is expected soon.
    fn await_one(&mut self) -> io::Result<()> {
        let since = self.slots.partly.then(Instant::now);
        while since.is_some_and(|since| since.elapsed() < SOON) {
            if !self.early.is_empty() || !self.ring.completion().is_empty() {
                return Ok(());
            }
            self.enter(0)?;
        }
        if self.early.is_empty() { self.enter(1) } else { Ok(()) }
    }

    /// Processes the available completions: requests that ended go to `done`, parts of others to `work`. Returns the
    /// number of requests that ended.
    fn reap(&mut self, done: &mut Vec<Completion>, work: &mut Work<'_>) -> usize {
        let mut ended = self.slots.end_refused(done);
        loop {
            let of_ring =
                |ring: &mut IoUring| ring.completion().next().map(|it| (it.user_data(), it.result()));
            let next = self.early.pop_front().or_else(|| of_ring(&mut self.ring));
            let Some((data, result)) = next else { break };
            let (number, segment) = ((data >> 32) as usize, data as u32 as usize);
            self.outstanding -= 1;
            if self.again(number, segment, result) {
                self.push(number, segment);
            } else if self.slots.end(number, segment, done, work) {
                ended += 1;
            }
        }
        ended
    }

    /// Records the result of a transfer, and returns whether the rest of it must be requested again.
    fn again(&mut self, number: usize, segment: usize, result: i32) -> bool {
        if matches!(-result, libc::EINTR | libc::EAGAIN) {
            return true;
        }
        let result = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
        self.slots.transferred(self.device, number, segment, result)
    }
}

/// The ring entry of one transfer.
fn transfer(
    fd: RawFd,
    kind: Kind,
    durable: bool,
    memory: *mut u8,
    length: usize,
    offset: u64,
) -> squeue::Entry {
    let length = length.min(LARGEST) as u32;
    if kind == Kind::Read {
        opcode::Read::new(types::Fd(fd), memory, length).offset(offset).build()
    } else {
        let flags = if durable { libc::RWF_DSYNC } else { 0 };
        opcode::Write::new(types::Fd(fd), memory, length).offset(offset).rw_flags(flags).build()
    }
}

impl Queue for UringQueue<'_> {
    fn submit(&mut self, request: Request) {
        self.take(request);
    }

    fn submit_beside(&mut self, request: Request, work: &mut dyn FnMut(&[u8])) -> Result<()> {
        assert_eq!(request.kind, Kind::Write, "the kernel only reads the memory of a write");
        let taken = self.take(request);
        self.kick()?;
        if let Some(slot) = taken {
            work(self.slots.content(slot));
        }
        Ok(())
    }

    fn submit_in_parts(&mut self, request: Request) -> Result<()> {
        assert_eq!(request.kind, Kind::Read, "only what is read arrives");
        let Some((number, transfers)) = self.slots.admit(self.device, request, true) else {
            return self.kick();
        };
        let (mut started, mut bytes) = (Ok(()), 0);
        for segment in 0..transfers {
            self.push(number, segment);
            bytes += self.slots.bytes(number, segment);
            if bytes >= AT_ONCE || segment + 1 == transfers {
                // All transfers are pushed even after an error, so that the request ends.
                started = started.and(self.kick());
                bytes = 0;
            }
        }
        started
    }

    fn kick(&mut self) -> Result<()> {
        if self.unsubmitted == 0 {
            return Ok(());
        }
        self.enter(0).map_err(|source| Error::io(self.device.name(), Operation::Flush, 0, 0, source))
    }

    fn wait_beside(&mut self, least: usize, done: &mut Vec<Completion>, work: &mut Work<'_>) -> Result<()> {
        let failed = |source| Error::io(self.device.name(), Operation::Read, 0, 0, source);
        // All completed requests are to be returned, so the kernel processes completions first. Pushed transfers are
        // submitted by this call and not by the one that waits: they may be complete when the ring is looked at next,
        // which saves this thread from sleeping and the device's threads from waking it.
        if self.outstanding > 0 {
            self.enter(0).map_err(failed)?;
        }
        let mut got = self.reap(done, work);
        while got < least && self.outstanding > 0 {
            self.await_one().map_err(failed)?;
            got += self.reap(done, work);
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.slots.in_flight()
    }
}

impl Drop for UringQueue<'_> {
    fn drop(&mut self) {
        let mut done = Vec::new();
        while self.outstanding > 0 {
            if self.early.is_empty() && self.enter(1).is_err() {
                self.slots.leak();
                return;
            }
            self.reap(&mut done, &mut |_, _, _| {});
        }
    }
}

/// A queue for `device`, whose open file is `file`; `None` where the kernel has no io_uring or forbids it.
pub(crate) fn queue<'d>(
    device: &'d dyn Device,
    file: &'d Arc<Descriptor>,
    depth: usize,
) -> Option<Box<dyn Queue + 'd>> {
    Some(Box::new(UringQueue::new(device, &file.file, depth)?))
}

/// Rings for the blocking batches: each batch in progress takes one.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<IoUring>>);

/// The entries of a batch's ring, which is the most transfers a batch has in flight.
const BATCH: usize = 64;

impl Pool {
    /// Reads the batch; `false` if io_uring is not available and nothing was done.
    pub(crate) fn read(&self, name: &str, file: &File, reads: &mut [(u64, &mut [u8])]) -> Result<bool> {
        let pieces: Vec<_> =
            reads.iter_mut().map(|(offset, buffer)| (*offset, buffer.as_mut_ptr(), buffer.len())).collect();
        self.run(name, file, Kind::Read, &pieces)
    }

    /// Writes the batch; `false` if io_uring is not available and nothing was done.
    pub(crate) fn write(&self, name: &str, file: &File, writes: &[(u64, &[u8])]) -> Result<bool> {
        // The kernel only reads through these pointers: the operation is a write.
        let pieces: Vec<_> =
            writes.iter().map(|(offset, data)| (*offset, data.as_ptr().cast_mut(), data.len())).collect();
        self.run(name, file, Kind::Write, &pieces)
    }

    /// Carries out transfers on memory that the caller has borrowed for the whole call.
    fn run(&self, name: &str, file: &File, kind: Kind, pieces: &[(u64, *mut u8, usize)]) -> Result<bool> {
        let pooled = self.0.lock().expect("no panic while locked").pop();
        let Some(mut ring) = pooled.or_else(|| IoUring::new(BATCH as u32).ok()) else { return Ok(false) };
        let operation = if kind == Kind::Read { Operation::Read } else { Operation::Write };
        let mut progress = vec![0usize; pieces.len()];
        let mut todo: Vec<usize> = (0..pieces.len()).rev().filter(|&piece| pieces[piece].2 > 0).collect();
        let mut in_flight = 0;
        let mut result = Ok(());
        // Once this loop has begun it must not end before everything in flight is reaped, whatever happens: the
        // kernel holds pointers into the caller's memory.
        while in_flight > 0 || (!todo.is_empty() && result.is_ok()) {
            while result.is_ok() && in_flight < BATCH {
                let Some(piece) = todo.pop() else { break };
                let (offset, memory, length) = pieces[piece];
                let done = progress[piece];
                let (memory, rest) = (memory.wrapping_add(done), length - done);
                let entry = transfer(file.as_raw_fd(), kind, false, memory, rest, offset + done as u64);
                // SAFETY: the caller's borrow of the memory lasts until this function returns, which is after this
                // transfer is reaped. The queue has BATCH entries and fewer are in flight, so the push succeeds.
                unsafe { ring.submission().push(&entry.user_data(piece as u64)) }.expect("room in the ring");
                in_flight += 1;
            }
            match ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN)) => {}
                // It is unknown which transfers the kernel still holds, so the borrowed memory cannot be returned.
                Err(error) => {
                    eprintln!("{}: io_uring failed with transfers in flight: {error}", name);
                    std::process::abort();
                }
            }
            while let Some(entry) = ring.completion().next() {
                in_flight -= 1;
                let piece = entry.user_data() as usize;
                let (offset, _, length) = pieces[piece];
                let source = match entry.result() {
                    error if matches!(-error, libc::EINTR | libc::EAGAIN) => {
                        todo.push(piece);
                        continue;
                    }
                    error if error < 0 => io::Error::from_raw_os_error(-error),
                    0 => io::ErrorKind::UnexpectedEof.into(),
                    transferred => {
                        progress[piece] += transferred as usize;
                        if progress[piece] < length {
                            todo.push(piece);
                        }
                        continue;
                    }
                };
                if result.is_ok() {
                    result = Err(Error::io(name, operation, offset, length as u64, source));
                }
            }
        }
        self.0.lock().expect("no panic while locked").push(ring);
        result.map(|()| true)
    }
}
