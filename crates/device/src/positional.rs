//! A queue for kernels without io_uring: each request in flight is a blocking call on a thread of its own.

use crate::file::Shared;
use crate::{Completion, Kind, Queue, Request, Result, queue::buffer_range};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// The most threads a queue starts: past this, more threads wait for each other rather than for the device.
const THREADS: usize = 64;

/// Requests in flight as blocking calls on a pool of threads.
pub(crate) struct PositionalQueue {
    depth: usize,
    in_flight: usize,
    work: Option<Sender<Request>>,
    done: Receiver<Completion>,
    threads: Vec<JoinHandle<()>>,
}

impl PositionalQueue {
    pub fn new(file: Arc<Shared>, depth: usize) -> PositionalQueue {
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
        PositionalQueue { depth, in_flight: 0, work: Some(work), done, threads }
    }
}

fn carry_out(file: &Shared, request: &mut Request) -> Result<()> {
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

impl Queue for PositionalQueue {
    fn submit(&mut self, request: Request) {
        assert!(
            self.in_flight < self.depth,
            "more requests in flight than the queue's depth of {}",
            self.depth
        );
        self.in_flight += 1;
        self.work
            .as_ref()
            .expect("open until dropped")
            .send(request)
            .expect("the threads live as long as the queue");
    }

    fn kick(&mut self) -> Result<()> {
        Ok(())
    }

    fn wait(&mut self, least: usize, done: &mut Vec<Completion>) -> Result<()> {
        let mut got = 0;
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

impl Drop for PositionalQueue {
    fn drop(&mut self) {
        self.work = None;
        for thread in self.threads.drain(..) {
            // A thread ends only by the channel's end; a panic in it has been shown already.
            let _ = thread.join();
        }
    }
}
