//! What the tests of NTFS volumes share.
#![allow(dead_code, reason = "each test binary uses a part of this")]

use platter_device::{Device, MemoryDevice, OverlayDevice, Sectors};
use platter_ntfs::{NtfsVolume, check, format};
use platter_vfs::model::{Clock, ClockedDevice, Shape, Subject};
use platter_vfs::{
    CheckOptions, FileSystem, FormatOptions, MemoryOptions, OpenOptions, Result, Silent, Timestamp,
};
use std::sync::Arc;

/// A kind of volume to test.
#[derive(Clone, Copy, Debug)]
pub struct Volume {
    pub cluster: u64,
    pub sector: u32,
    pub record: u64,
    pub compress: bool,
    pub bytes: u64,
}

/// As mkfs makes them by default.
pub const USUAL: Volume =
    Volume { cluster: 4096, sector: 512, record: 1024, compress: false, bytes: 32 << 20 };

/// Small, usual and large clusters; large records and sectors; compression.
pub const VOLUMES: [Volume; 5] = [
    USUAL,
    Volume { cluster: 512, ..USUAL },
    Volume { cluster: 65536, bytes: 96 << 20, ..USUAL },
    Volume { sector: 4096, record: 4096, ..USUAL },
    Volume { compress: true, ..USUAL },
];

impl Volume {
    /// A new volume on a device in memory.
    pub fn make(&self) -> Arc<MemoryDevice> {
        let sectors = Sectors { logical: self.sector, physical: self.sector };
        let device = Arc::new(MemoryDevice::new(self.bytes, sectors));
        let options = FormatOptions {
            cluster: Some(self.cluster),
            serial: Some(8664),
            record: Some(self.record),
            compress: Some(self.compress),
            ..FormatOptions::default()
        };
        format::make(&*device, &options, &Silent).unwrap_or_else(|error| panic!("{self:?}: {error}"));
        device
    }

    /// What streams of operations for it look like.
    pub fn shape(&self, largest: u64) -> Shape {
        Shape { capabilities: open(self.make()).capabilities().clone(), sector: self.sector, largest }
    }
}

/// Opens a volume.
pub fn open(device: Arc<dyn Device>) -> NtfsVolume {
    NtfsVolume::open(device, OpenOptions::default()).unwrap()
}

/// A volume for the model tests.
pub struct Tested {
    pub device: Arc<dyn Device>,
    clocked: Arc<dyn Device>,
}

impl Tested {
    pub fn new(device: Arc<dyn Device>, clock: &Clock) -> Tested {
        let clocked = Arc::new(ClockedDevice::new(device.clone(), clock.clone()));
        Tested { device, clocked }
    }
}

impl Subject for Tested {
    fn reference(&self) -> MemoryOptions {
        let volume =
            NtfsVolume::open(self.device.clone(), OpenOptions { read_only: true, ..Default::default() });
        MemoryOptions {
            format: "NTFS",
            capabilities: volume.unwrap().capabilities().clone(),
            integrity: false,
            earliest: Timestamp { seconds: -11_644_473_600, nanoseconds: 0 },
            latest: Timestamp { seconds: 910_692_730_085, nanoseconds: 477_580_700 },
        }
    }

    fn open(&mut self) -> Result<Arc<dyn FileSystem>> {
        Ok(Arc::new(NtfsVolume::open(self.clocked.clone(), OpenOptions::default())?))
    }

    fn check(&mut self) -> std::result::Result<(), String> {
        check_clean(&*self.device)
    }
}

/// Fails unless the check finds nothing.
pub fn check_clean(device: &dyn Device) -> std::result::Result<(), String> {
    let report = check::check(device, CheckOptions::default(), &Silent).map_err(|error| error.to_string())?;
    if report.is_clean() { Ok(()) } else { Err(format!("check: {:#?}", report.findings)) }
}

/// The device as whoever mounts it next sees it: its log replayed. The device itself stays as it is.
pub fn replayed(device: Arc<dyn Device>) -> Arc<dyn Device> {
    let overlay: Arc<dyn Device> = Arc::new(OverlayDevice::new(device));
    drop(open(overlay.clone()));
    overlay
}

/// The seed of a campaign: `PLATTER_SEED`, or 8664.
pub fn seed() -> u64 {
    std::env::var("PLATTER_SEED").map_or(8664, |seed| seed.parse().expect("PLATTER_SEED is a number"))
}
