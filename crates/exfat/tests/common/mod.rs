//! Helpers that the tests of exFAT volumes share.

use platter_device::{Device, MemoryDevice, Sectors};
use platter_exfat::{Exfat, ExfatVolume};
use platter_testing::MemoryOptions;
use platter_testing::model::{Check, Clock, Shape, Subject, Tested};
use platter_vfs::{CheckOptions, FileSystem, Format, FormatOptions, OpenOptions, Silent, Timestamp};
use std::sync::Arc;

/// The parameters of a volume to test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Volume {
    pub bytes: u64,
    pub cluster: u64,
    pub sector: u32,
}

/// Several cluster and sector sizes, with the extremes; the volumes are small, so that they fill up.
pub(crate) const VOLUMES: [Volume; 5] = [
    Volume { bytes: 3 << 20, cluster: 512, sector: 512 },
    Volume { bytes: 24 << 20, cluster: 4096, sector: 512 },
    Volume { bytes: 32 << 20, cluster: 4096, sector: 4096 },
    Volume { bytes: 96 << 20, cluster: 128 << 10, sector: 512 },
    Volume { bytes: 1 << 30, cluster: 32 << 20, sector: 512 },
];

impl Volume {
    /// Makes a new volume on a device in memory.
    pub(crate) fn make(&self) -> Arc<MemoryDevice> {
        let sectors = Sectors { logical: self.sector, physical: self.sector };
        let device = Arc::new(MemoryDevice::new(self.bytes, sectors));
        let options =
            FormatOptions { cluster: Some(self.cluster), serial: Some(8664), ..FormatOptions::default() };
        Exfat.make(&*device, &options, &Silent).unwrap_or_else(|error| panic!("{self:?}: {error}"));
        device
    }

    /// Returns the properties of random operations for this volume, with writes of up to `largest` bytes.
    pub(crate) fn shape(&self, largest: u64) -> Shape {
        Shape { capabilities: open(self.make()).capabilities().clone(), sector: self.sector, largest }
    }
}

/// Opens a volume.
pub(crate) fn open(device: Arc<dyn Device>) -> ExfatVolume {
    ExfatVolume::open(device, OpenOptions::default()).unwrap()
}

/// Returns the options with which the reference file system behaves as exFAT does.
fn reference(system: &dyn FileSystem) -> MemoryOptions {
    MemoryOptions {
        format: "exFAT",
        integrity: false,
        capabilities: system.capabilities().clone(),
        earliest: Timestamp { seconds: 315_532_800, nanoseconds: 0 },
        latest: Timestamp { seconds: 4_354_819_199, nanoseconds: 990_000_000 },
    }
}

/// Returns a volume for the model tests. With `judged`, fsck.exfat checks it too, on Linux.
pub(crate) fn tested(device: Arc<dyn Device>, clock: &Clock, judged: bool) -> Box<dyn Subject> {
    let check: Check = match judged {
        true => |device| check_judged(&**device),
        false => |device| check_clean(&**device),
    };
    Box::new(Tested::new(&Exfat, device, clock, reference, check))
}

/// Fails if Platter's check finds anything.
pub(crate) fn check_clean(device: &dyn Device) -> Result<(), String> {
    let report = Exfat.check(device, CheckOptions::default(), &Silent).map_err(|error| error.to_string())?;
    if report.found > 0 { Err(format!("check: {:#?}", report.findings)) } else { Ok(()) }
}

/// Fails if Platter's check or, on Linux, `fsck.exfat` finds anything.
pub(crate) fn check_judged(device: &dyn Device) -> Result<(), String> {
    check_clean(device)?;
    judge(device)
}

/// Fails if `fsck.exfat` finds anything.
#[cfg(target_os = "linux")]
pub(crate) fn judge(device: &dyn Device) -> Result<(), String> {
    let verdict = crate::judges::fsck(&crate::judges::ImageFile::of(device));
    if verdict.clean { Ok(()) } else { Err(verdict.output) }
}

/// `fsck.exfat` runs on Linux.
#[cfg(not(target_os = "linux"))]
pub(crate) fn judge(_device: &dyn Device) -> Result<(), String> {
    Ok(())
}
