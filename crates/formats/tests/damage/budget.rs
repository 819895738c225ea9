//! Bounds on what an operation may take: transfers of the device, memory, and, so that one without end is named, time.

use platter_device::{Device, Error, Immediate, Queue, Result, Sectors};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

/// The most bytes of memory that one operation may take.
pub(crate) const MEMORY: u64 = 250 << 20;

/// A device that fails once more was asked of it than an operation can need that is bounded by what is there.
pub(crate) struct Budget {
    below: Arc<dyn Device>,
    bytes: AtomicU64,
    calls: AtomicU64,
}

impl Budget {
    /// How often an operation may read or write the whole device, and bytes besides. A check reads what is there some
    /// times, and a repair of ReFS asks many places more than once.
    const TIMES: u64 = 24;
    const BESIDES: u64 = 256 << 20;
    /// The transfers for each sector of the device, up to a number, and some besides.
    const CALLS: u64 = 1_000_000;

    pub(crate) fn new(below: Arc<dyn Device>) -> Budget {
        Budget { below, bytes: AtomicU64::new(0), calls: AtomicU64::new(0) }
    }

    fn most(&self) -> (u64, u64) {
        let length = self.below.len();
        (Budget::TIMES * length + Budget::BESIDES, Budget::CALLS + Budget::TIMES * (length >> 9).min(1 << 16))
    }

    /// What was exceeded, if anything.
    pub(crate) fn exceeded(&self) -> Option<String> {
        let (bytes, calls) = (self.bytes.load(Ordering::Relaxed), self.calls.load(Ordering::Relaxed));
        let (most_bytes, most_calls) = self.most();
        (bytes > most_bytes || calls > most_calls).then(|| {
            format!("more than {bytes} bytes in {calls} transfers of a device of {}", self.below.len())
        })
    }

    fn spend(&self, bytes: usize) -> Result<()> {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.calls.fetch_add(1, Ordering::Relaxed);
        match self.exceeded() {
            None => Ok(()),
            Some(reason) => Err(Error::Unusable { device: "the budget".into(), reason }),
        }
    }
}

impl Device for Budget {
    fn name(&self) -> &str {
        self.below.name()
    }
    fn len(&self) -> u64 {
        self.below.len()
    }
    fn sectors(&self) -> Sectors {
        self.below.sectors()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.spend(buffer.len())?;
        self.below.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.spend(data.len())?;
        self.below.write_at(offset, data)
    }
    fn next_data(&self, offset: u64) -> u64 {
        self.below.next_data(offset)
    }
    fn flush(&self) -> Result<()> {
        self.below.flush()
    }
    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.below.discard(offset, length)
    }
    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }
    fn now(&self) -> Duration {
        self.below.now()
    }
}

/// What is under way, and since when.
static UNDER_WAY: Mutex<Option<(Instant, String)>> = Mutex::new(None);

/// An operation that is under way. One that transfers nothing and has no end would be a test that hangs: after some minutes
/// its name is printed and the process ends.
pub(crate) struct Guard;

impl Guard {
    const PATIENCE: Duration = Duration::from_secs(240);

    pub(crate) fn new(what: String) -> Guard {
        static WATCH: Once = Once::new();
        WATCH.call_once(|| drop(std::thread::spawn(Guard::watch)));
        *UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), what));
        Guard
    }

    fn watch() {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let under_way = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((since, what)) = &*under_way
                && since.elapsed() > Guard::PATIENCE
            {
                eprintln!("{what} does not end");
                std::process::abort();
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        *UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
