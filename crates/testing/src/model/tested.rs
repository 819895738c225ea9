//! A volume of a format under test.

use super::{Clock, ClockedDevice, Spent, Subject};
use crate::MemoryOptions;
use platter_device::{Device, Recorder};
use platter_vfs::{FileSystem, Format, OpenOptions, Result};
use std::sync::Arc;

/// Says what is wrong with an unmounted volume.
pub type Check = fn(&Arc<dyn Device>) -> std::result::Result<(), String>;

/// A volume of a format as a [`Subject`].
pub struct Tested {
    format: &'static dyn Format,
    device: Arc<Recorder>,
    clock: Clock,
    reference: fn(&dyn FileSystem) -> MemoryOptions,
    check: Check,
}

impl Tested {
    /// The volume on a device. Whoever opens it is told the time of `clock`. `reference` says what the reference must be
    /// like to agree with it, and `check` what is wrong with the volume when it is unmounted.
    pub fn new(
        format: &'static dyn Format,
        device: Arc<dyn Device>,
        clock: &Clock,
        reference: fn(&dyn FileSystem) -> MemoryOptions,
        check: Check,
    ) -> Tested {
        Tested { format, device: Arc::new(Recorder::new(device)), clock: clock.clone(), reference, check }
    }
}

impl Subject for Tested {
    fn reference(&self) -> MemoryOptions {
        let opened = self.format.open(self.device.clone(), OpenOptions::default());
        (self.reference)(&*opened.unwrap_or_else(|error| panic!("{}: {error}", self.format.name())))
    }

    fn open(&mut self) -> Result<Arc<dyn FileSystem>> {
        let clocked = ClockedDevice::new(self.device.clone(), self.clock.clone());
        self.format.open(Arc::new(clocked), OpenOptions::default())
    }

    fn check(&mut self) -> std::result::Result<(), String> {
        (self.check)(&(self.device.clone() as Arc<dyn Device>))
    }

    fn spent(&self) -> Spent {
        let traffic = self.device.traffic();
        let transfers = traffic.read.count + traffic.write.count + traffic.flushes;
        Spent { transfers, bytes: traffic.read.bytes + traffic.write.bytes }
    }

    fn stored(&self) -> u64 {
        /// Bytes that are looked at at once: devices in memory take so many.
        const PIECE: u64 = 1 << 20;
        let (mut at, mut stored) = (self.device.next_data(0), 0);
        while at < self.device.len() {
            stored += PIECE;
            at = self.device.next_data(at + PIECE);
        }
        stored
    }
}
