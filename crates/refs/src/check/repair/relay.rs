//! A device lent to another thread. The code that writes volumes needs a device that it can keep, as an [`Arc`], while
//! a check only borrows one.

use platter_device::{Device, Immediate, Queue, Result, Sectors};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Sends every transfer to the thread that has the device.
struct Relay {
    name: String,
    length: u64,
    sectors: Sectors,
    now: Duration,
    requests: Mutex<Sender<LentRequest>>,
}

/// A transfer, and the channel that its result goes to. A buffer goes there and back, so that only the thread that asks
/// takes memory for it.
struct LentRequest {
    what: What,
    reply: Sender<Result<Vec<u8>>>,
}

enum What {
    Read(u64, Vec<u8>),
    Write(u64, Vec<u8>),
    Flush,
}

/// Runs `work` in another thread, with a device that passes every transfer on to `device`. Returns `None` if `work`
/// panicked: the volume that it works on is damaged, and no damage may end a check.
pub(crate) fn lend<T: Send + 'static>(
    device: &dyn Device,
    work: impl FnOnce(Arc<dyn Device>) -> T + Send + 'static,
) -> Option<T> {
    let (sender, requests) = channel::<LentRequest>();
    let relay = Arc::new(Relay {
        name: device.name().into(),
        length: device.len(),
        sectors: device.sectors(),
        now: device.now(),
        requests: Mutex::new(sender),
    });
    let worker = std::thread::spawn(move || work(relay));
    // The loop ends when the worker drops its device.
    for request in requests {
        let done = match request.what {
            What::Read(offset, mut buffer) => device.read_at(offset, &mut buffer).map(|()| buffer),
            What::Write(offset, data) => device.write_at(offset, &data).map(|()| data),
            What::Flush => device.flush().map(|()| Vec::new()),
        };
        // Sending fails only if the worker has ended and does not wait for the result.
        let _ = request.reply.send(done);
    }
    worker.join().ok()
}

impl Relay {
    fn ask(&self, what: What) -> Result<Vec<u8>> {
        let (reply, answer) = channel();
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.send(LentRequest { what, reply }).expect("the device is there as long as this is");
        answer.recv().expect("every request is answered")
    }
}

impl Device for Relay {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn sectors(&self) -> Sectors {
        self.sectors
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        buffer.copy_from_slice(&self.ask(What::Read(offset, vec![0; buffer.len()]))?);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.ask(What::Write(offset, data.to_vec())).map(drop)
    }

    fn flush(&self) -> Result<()> {
        self.ask(What::Flush).map(drop)
    }

    fn discard(&self, _offset: u64, _length: u64) -> Result<()> {
        Ok(())
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }

    fn now(&self) -> Duration {
        self.now
    }
}
