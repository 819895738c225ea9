//! A queue for kernels without io_uring: each request in flight is a blocking call on a thread of its own.

use crate::descriptor::Descriptor;
use crate::queue::{buffer_range, check_request};
use crate::{Completion, Device, Kind, Queue, Request, Result, Work};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// The most threads that a queue starts: more of them would wait for each other rather than for the device.
const THREADS: usize = 64;

/// Requests in flight as blocking calls on a pool of threads.
pub(crate) struct PositionalQueue<'d> {
    device: &'d dyn Device,
    depth: usize,
    in_flight: usize,
    /// Requests that were refused and not yet returned.
    ended: Vec<Completion>,
    work: Option<Sender<Request>>,
    done: Receiver<Completion>,
    threads: Vec<JoinHandle<()>>,
}

impl<'d> PositionalQueue<'d> {
    /// A queue for `device`, whose open file is `file`.
    pub(crate) fn new(device: &'d dyn Device, file: &Arc<Descriptor>, depth: usize) -> PositionalQueue<'d> {
        let (work, requests) = channel::<Request>();
        let (completions, done) = channel();
        let requests = Arc::new(Mutex::new(requests));
        let threads = (0..depth.clamp(1, THREADS))
            .map(|_| {
                let (file, requests, completions) = (file.clone(), requests.clone(), completions.clone());
                std::thread::spawn(move || {
                    loop {
                        // The lock is held while waiting: one thread waits for work, the others for the lock.
                        let request = requests.lock().expect("no panic while locked").recv();
                        let Ok(mut request) = request else { return };
                        let result = carry_out(&file, &mut request);
                        let Request { tag, segments, buffer, .. } = request;
                        if completions.send(Completion { tag, result, segments, buffer }).is_err() {
                            return;
                        }
                    }
                })
            })
            .collect();
        PositionalQueue { device, depth, in_flight: 0, ended: Vec::new(), work: Some(work), done, threads }
    }
}

fn carry_out(file: &Descriptor, request: &mut Request) -> Result<()> {
    for segment in &request.segments {
        let range = buffer_range(&file.name, segment, request.buffer.len())?;
        match request.kind {
            Kind::Read => file.read_exact(segment.offset, &mut request.buffer[range])?,
            Kind::Write => file.write_all(segment.offset, &request.buffer[range])?,
            Kind::Flush => {}
        }
    }
    if request.kind == Kind::Flush || (request.kind == Kind::Write && request.durable) {
        file.flush()?;
    }
    Ok(())
}

impl Queue for PositionalQueue<'_> {
    fn submit(&mut self, request: Request) {
        assert!(
            self.in_flight < self.depth,
            "more requests in flight than the queue's depth of {}",
            self.depth
        );
        self.in_flight += 1;
        if let Err(error) = check_request(self.device, &request) {
            let Request { tag, segments, buffer, .. } = request;
            self.ended.push(Completion { tag, result: Err(error), segments, buffer });
            return;
        }
        self.work
            .as_ref()
            .expect("open until dropped")
            .send(request)
            .expect("the threads live as long as the queue");
    }

    fn kick(&mut self) -> Result<()> {
        Ok(())
    }

    fn wait_beside(&mut self, least: usize, done: &mut Vec<Completion>, _work: &mut Work<'_>) -> Result<()> {
        let mut got = self.ended.len();
        self.in_flight -= got;
        done.append(&mut self.ended);
        while self.in_flight > 0 {
            let completion = if got < least {
                self.done.recv().expect("the threads live as long as the queue")
            } else {
                let Ok(completion) = self.done.try_recv() else { break };
                completion
            };
            done.push(completion);
            self.in_flight -= 1;
            got += 1;
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl Drop for PositionalQueue<'_> {
    fn drop(&mut self) {
        self.work = None;
        for thread in self.threads.drain(..) {
            // A thread ends only when the channel is closed; if it panicked, the message has already been printed.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Device, FileDevice, FileOptions, Segment};

    #[test]
    fn requests_in_flight_on_threads_all_come_back() {
        let path = std::env::temp_dir().join(format!("platter-positional-{}", std::process::id()));
        let device = FileDevice::create(&path, 1 << 20, FileOptions::default()).unwrap();
        let mut queue = PositionalQueue::new(&device, &device.descriptor, 32);
        for tag in 0..32u64 {
            let segments = [Segment { offset: tag * 8192, at: 0, length: 8192 }][..].into();
            let buffer = Buffer::from(&[tag as u8; 8192][..]);
            queue.submit(Request { tag, kind: Kind::Write, durable: tag == 31, segments, buffer });
        }
        let mut done = Vec::new();
        queue.wait(5, &mut done).unwrap();
        assert!(done.len() >= 5);
        queue.wait(32, &mut done).unwrap();
        assert_eq!((done.len(), queue.in_flight()), (32, 0));
        assert!(done.iter().all(|completion| completion.result.is_ok()));
        let segments = [Segment { offset: 1 << 20, at: 0, length: 512 }][..].into();
        queue.submit(Request {
            tag: 32,
            kind: Kind::Read,
            durable: false,
            segments,
            buffer: Buffer::new(512),
        });
        queue.wait(1, &mut done).unwrap();
        assert!(matches!(done[32].result, Err(crate::Error::OutOfRange { .. })));
        assert_eq!(queue.in_flight(), 0);
        let mut back = [0; 8192];
        device.read_at(31 * 8192, &mut back).unwrap();
        assert!(back.iter().all(|&byte| byte == 31));
        drop(queue);
        drop(device);
        std::fs::remove_file(path).unwrap();
    }
}
