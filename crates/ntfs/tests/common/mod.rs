//! Code that the tests of NTFS volumes share.

use platter_device::{Device, MemoryDevice, Sectors};
use platter_ntfs::{Ntfs, NtfsVolume};
use platter_testing::MemoryOptions;
use platter_testing::model::{Check, Clock, Shape, Subject, Tested};
use platter_vfs::{
    CheckOptions, Cursor, FileSystem, Format, FormatOptions, Node, OpenOptions, Silent, Timestamp,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A kind of volume to test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Volume {
    pub cluster: u64,
    pub sector: u32,
    pub record: u64,
    pub compress: bool,
    pub bytes: u64,
}

/// A volume as mkfs makes it by default.
pub(crate) const USUAL: Volume =
    Volume { cluster: 4096, sector: 512, record: 1024, compress: false, bytes: 32 << 20 };

/// Small, usual and large clusters; large records and sectors; compression.
pub(crate) const VOLUMES: [Volume; 5] = [
    USUAL,
    Volume { cluster: 512, ..USUAL },
    Volume { cluster: 65536, bytes: 96 << 20, ..USUAL },
    Volume { sector: 4096, record: 4096, ..USUAL },
    Volume { compress: true, ..USUAL },
];

impl Volume {
    /// A new volume on a device in memory.
    pub(crate) fn make(&self) -> Arc<MemoryDevice> {
        let sectors = Sectors { logical: self.sector, physical: self.sector };
        let device = Arc::new(MemoryDevice::new(self.bytes, sectors));
        let options = FormatOptions {
            cluster: Some(self.cluster),
            serial: Some(8664),
            record: Some(self.record),
            compress: Some(self.compress),
            ..FormatOptions::default()
        };
        Ntfs.make(&*device, &options, &Silent).unwrap_or_else(|error| panic!("{self:?}: {error}"));
        device
    }

    /// The shape of random operations that fit this volume.
    pub(crate) fn shape(&self, largest: u64) -> Shape {
        Shape { capabilities: open(self.make()).capabilities().clone(), sector: self.sector, largest }
    }
}

/// Opens a volume.
pub(crate) fn open(device: Arc<dyn Device>) -> NtfsVolume {
    NtfsVolume::open(device, OpenOptions::default()).unwrap()
}

/// The options with which the reference file system agrees with NTFS.
fn reference(system: &dyn FileSystem) -> MemoryOptions {
    MemoryOptions {
        format: "NTFS",
        capabilities: system.capabilities().clone(),
        integrity: false,
        earliest: Timestamp { seconds: -11_644_473_600, nanoseconds: 0 },
        latest: Timestamp { seconds: 910_692_730_085, nanoseconds: 477_580_700 },
    }
}

/// A volume for the model tests.
pub(crate) fn tested(device: Arc<dyn Device>, clock: &Clock) -> Box<dyn Subject> {
    checked_by(device, clock, |device| check_clean(&**device))
}

/// [`tested`] with another check.
pub(crate) fn checked_by(device: Arc<dyn Device>, clock: &Clock, check: Check) -> Box<dyn Subject> {
    Box::new(Tested::new(&Ntfs, device, clock, reference, check))
}

/// Fails unless the check of a volume finds nothing.
pub(crate) fn check_clean(device: &dyn Device) -> Result<(), String> {
    let report = Ntfs.check(device, CheckOptions::default(), &Silent).map_err(|error| error.to_string())?;
    if report.is_clean() { Ok(()) } else { Err(format!("check: {:#?}", report.findings)) }
}

/// All names in a directory.
pub(crate) fn names(volume: &dyn FileSystem, directory: Node) -> BTreeSet<String> {
    let (mut entries, mut cursor, mut found) = (Vec::new(), Cursor::START, BTreeSet::new());
    loop {
        entries.clear();
        volume.read_directory(directory, cursor, 1000, &mut entries).unwrap();
        let Some(last) = entries.last() else { return found };
        cursor = last.next;
        found.extend(entries.iter().map(|entry| entry.name.to_string()));
    }
}
