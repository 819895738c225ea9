//! A volume of a format under test.

use super::{Clock, ClockedDevice, Spent, Subject};
use crate::MemoryOptions;
use platter_device::{Device, Recorder};
use platter_vfs::{FileSystem, Format, OpenOptions, Result};
use std::sync::Arc;

/// Checks an unmounted volume; the error says what is wrong.
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
    /// Makes the subject of the volume on a device, with the time of `clock`. `reference` returns the options with
    /// which the reference agrees with the volume, and `check` checks the unmounted volume.
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
        /// The granularity in bytes: that in which devices in memory allocate.
        const PIECE: u64 = 1 << 20;
        let (mut at, mut stored) = (self.device.next_data(0), 0);
        while at < self.device.len() {
            stored += PIECE;
            at = self.device.next_data(at + PIECE);
        }
        stored
    }
}
