//! A clock that a test advances.

use platter_device::{Device, Operation, Queue, Result, Sectors};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock that stands still until it is advanced. Clones show the same time.
#[derive(Clone, Debug)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    /// A clock at `start` since 1970.
    pub fn new(start: Duration) -> Clock {
        Clock(Arc::new(AtomicU64::new(start.as_nanos() as u64)))
    }

    /// The present time.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// A device that takes its time from a [`Clock`] and passes everything else on.
pub struct ClockedDevice {
    inner: Arc<dyn Device>,
    clock: Clock,
}

impl ClockedDevice {
    /// Wraps `inner` with the time of `clock`.
    pub fn new(inner: Arc<dyn Device>, clock: Clock) -> ClockedDevice {
        ClockedDevice { inner, clock }
    }
}

impl Device for ClockedDevice {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn sectors(&self) -> Sectors {
        self.inner.sectors()
    }

    fn below(&self) -> Option<&dyn Device> {
        Some(&*self.inner)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.inner.write_at(offset, data)
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        self.inner.read_batch(reads)
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        self.inner.write_batch(writes)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        platter_device::check_transfer(self, Operation::Discard, offset, length)?;
        self.inner.discard(offset, length)
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        self.inner.queue(depth)
    }

    fn now(&self) -> Duration {
        self.clock.now()
    }
}
