//! Helpers that the tests of FAT volumes share.

use platter_device::{Device, MemoryDevice, Sectors};
use platter_fat::{Fat, FatVolume};
use platter_testing::MemoryOptions;
use platter_testing::model::{Clock, Shape, Subject, Tested};
use platter_vfs::{CheckOptions, FileSystem, Format, FormatOptions, OpenOptions, Silent, Timestamp};
use std::sync::Arc;

/// The parameters of a volume to test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Volume {
    pub format: Fat,
    pub bytes: u64,
    pub cluster: u64,
    pub sector: u32,
}

/// All three kinds, in several cluster and sector sizes; the volumes are small, so that they fill up.
pub(crate) const VOLUMES: [Volume; 7] = [
    Volume { format: Fat::FAT12, bytes: 1_474_560, cluster: 512, sector: 512 },
    Volume { format: Fat::FAT12, bytes: 8 << 20, cluster: 4096, sector: 512 },
    Volume { format: Fat::FAT16, bytes: 5 << 20, cluster: 1024, sector: 512 },
    Volume { format: Fat::FAT16, bytes: 64 << 20, cluster: 4096, sector: 4096 },
    Volume { format: Fat::FAT16, bytes: 300 << 20, cluster: 32768, sector: 512 },
    Volume { format: Fat::FAT32, bytes: 40 << 20, cluster: 512, sector: 512 },
    Volume { format: Fat::FAT32, bytes: 300 << 20, cluster: 4096, sector: 4096 },
];

impl Volume {
    /// Makes a new volume on a device in memory.
    pub(crate) fn make(&self) -> Arc<MemoryDevice> {
        let sectors = Sectors { logical: self.sector, physical: self.sector };
        let device = Arc::new(MemoryDevice::new(self.bytes, sectors));
        let options =
            FormatOptions { cluster: Some(self.cluster), serial: Some(8664), ..FormatOptions::default() };
        self.format.make(&*device, &options, &Silent).unwrap_or_else(|error| panic!("{self:?}: {error}"));
        device
    }

    /// Returns the properties of random operations for this volume, with writes of up to `largest` bytes.
    pub(crate) fn shape(&self, largest: u64) -> Shape {
        Shape { capabilities: open(self.make()).capabilities().clone(), sector: self.sector, largest }
    }
}

/// Opens a volume.
pub(crate) fn open(device: Arc<dyn Device>) -> FatVolume {
    FatVolume::open(device, OpenOptions::default()).unwrap()
}

/// Returns the options with which the reference file system behaves as FAT does.
fn reference(system: &dyn FileSystem) -> MemoryOptions {
    MemoryOptions {
        format: "FAT",
        capabilities: system.capabilities().clone(),
        integrity: false,
        earliest: Timestamp { seconds: 315_532_800, nanoseconds: 0 },
        latest: Timestamp { seconds: 4_354_819_199, nanoseconds: 990_000_000 },
    }
}

/// Returns a volume for the model tests.
pub(crate) fn tested(device: Arc<dyn Device>, clock: &Clock) -> Box<dyn Subject> {
    Box::new(Tested::new(&Fat::ANY, device, clock, reference, |device| check_clean(&**device)))
}

/// Fails if Platter's check or, on Linux, `fsck.fat` finds anything.
pub(crate) fn check_clean(device: &dyn Device) -> Result<(), String> {
    let report =
        Fat::ANY.check(device, CheckOptions::default(), &Silent).map_err(|error| error.to_string())?;
    if report.found > 0 {
        return Err(format!("check: {:#?}", report.findings));
    }
    judge(device)
}

/// Fails if `fsck.fat` finds anything.
#[cfg(target_os = "linux")]
pub(crate) fn judge(device: &dyn Device) -> Result<(), String> {
    let verdict = crate::judges::fsck(&crate::judges::ImageFile::of(device));
    if verdict.clean { Ok(()) } else { Err(verdict.output) }
}

/// `fsck.fat` runs on Linux.
#[cfg(not(target_os = "linux"))]
pub(crate) fn judge(_device: &dyn Device) -> Result<(), String> {
    Ok(())
}
