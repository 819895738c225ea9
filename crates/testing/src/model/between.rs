//! A device under which something else happens at a moment of one's choice.

use platter_device::{Device, Queue, Result, Sectors};
use std::sync::{Arc, Mutex};

/// A device that does something else before a write.
pub struct Between {
    below: Arc<dyn Device>,
    discards: bool,
    before: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Between {
    /// A device over another; what is discarded on it stays unless it `discards`.
    pub fn new(below: Arc<dyn Device>, discards: bool) -> Between {
        Between { below, discards, before: Mutex::default() }
    }

    /// Does this before the next write.
    pub fn before_a_write(&self, act: impl FnOnce() + Send + 'static) {
        *self.before.lock().unwrap() = Some(Box::new(act));
    }

    /// Whether what was to be done before a write is done.
    pub fn is_done(&self) -> bool {
        self.before.lock().unwrap().is_none()
    }
}

impl Device for Between {
    fn name(&self) -> &str {
        self.below.name()
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn sectors(&self) -> Sectors {
        self.below.sectors()
    }

    fn below(&self) -> Option<&dyn Device> {
        Some(&*self.below)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.below.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        let before = self.before.lock().unwrap().take();
        before.into_iter().for_each(|before| before());
        self.below.write_at(offset, data)
    }

    fn flush(&self) -> Result<()> {
        self.below.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        if self.discards { self.below.discard(offset, length) } else { Ok(()) }
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        self.below.queue(depth)
    }
}
