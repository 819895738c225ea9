//! A device lent to another thread: the code that writes volumes wants a device that it may keep, a check has one only
//! for the time being.

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

/// What to do, and who waits for it. A buffer goes there and back, so that its memory is that of whoever asks.
struct LentRequest {
    what: What,
    reply: Sender<Result<Vec<u8>>>,
}

enum What {
    Read(u64, Vec<u8>),
    Write(u64, Vec<u8>),
    Flush,
}

/// Runs `work` with a device that does what `device` does. `None` if it panicked: what it works on is damaged, and no
/// damage may end a check.
pub fn lend<T: Send + 'static>(
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
    // Ends when the worker lets go of the device.
    for request in requests {
        let done = match request.what {
            What::Read(offset, mut buffer) => device.read_at(offset, &mut buffer).map(|()| buffer),
            What::Write(offset, data) => device.write_at(offset, &data).map(|()| data),
            What::Flush => device.flush().map(|()| Vec::new()),
        };
        // A worker that does not wait has come to an end.
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
