//! A volume of a format under test.

use super::{Clock, ClockedDevice, Subject};
use crate::{FileSystem, Format, MemoryOptions, OpenOptions, Result};
use platter_device::Device;
use std::sync::Arc;

/// A volume of a format as a [`Subject`].
pub struct Tested {
    /// The format, whose volume is on the device.
    pub format: &'static dyn Format,
    /// The device. Whoever opens the volume is told the time of `clock`.
    pub device: Arc<dyn Device>,
    /// What time it is.
    pub clock: Clock,
    /// What the reference must be like to agree with the volume.
    pub reference: fn(&dyn FileSystem) -> MemoryOptions,
    /// Checks the unmounted volume, and says what is wrong with it.
    pub check: fn(&dyn Device) -> std::result::Result<(), String>,
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
        (self.check)(&*self.device)
    }
}
