//! Helpers that the tests of ReFS volumes share.

use platter_device::{Device, MemoryDevice, Sectors};
use platter_refs::{Refs, RefsVolume};
use platter_testing::MemoryOptions;
use platter_testing::model::{Clock, Random, Shape, Subject, Tested};
use platter_vfs::{CheckOptions, FileSystem, Format, FormatOptions, Node, OpenOptions, Silent, Timestamp};
use std::sync::Arc;

/// A kind of volume to test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Volume {
    pub cluster: u64,
    pub sector: u32,
    pub checksum: &'static str,
    pub integrity: bool,
    pub version: &'static str,
}

/// A volume as mkfs makes it by default.
pub(crate) const V3_14: Volume =
    Volume { cluster: 4096, sector: 512, checksum: "crc64", integrity: false, version: "3.14" };

/// Both cluster sizes, with and without integrity; each checksum; both versions.
pub(crate) const VOLUMES: [Volume; 7] = [
    V3_14,
    Volume { integrity: true, ..V3_14 },
    Volume { cluster: 65536, ..V3_14 },
    Volume { cluster: 65536, sector: 4096, integrity: true, ..V3_14 },
    Volume { sector: 4096, checksum: "sha256", integrity: true, ..V3_14 },
    Volume { checksum: "none", integrity: true, version: "3.4", ..V3_14 },
    Volume { cluster: 65536, checksum: "none", version: "3.4", ..V3_14 },
];

/// The size of the test volumes in bytes: little more than the smallest that can be made.
pub(crate) const BYTES: u64 = 384 << 20;

impl Volume {
    /// A new volume on a device in memory.
    pub(crate) fn make(&self) -> Arc<MemoryDevice> {
        let sectors = Sectors { logical: self.sector, physical: self.sector };
        let device = Arc::new(MemoryDevice::new(BYTES, sectors));
        self.make_on(&*device);
        device
    }

    /// Makes a new volume of this kind on a device.
    pub(crate) fn make_on(&self, device: &dyn Device) {
        let options = FormatOptions {
            cluster: Some(self.cluster),
            serial: Some(8664),
            checksum: Some(self.checksum.into()),
            variant: Some(self.version.into()),
            integrity: Some(self.integrity),
            ..FormatOptions::default()
        };
        Refs::ANY.make(device, &options, &Silent).unwrap_or_else(|error| panic!("{self:?}: {error}"));
    }

    /// Returns the shape of random operations for a volume of this kind.
    pub(crate) fn shape(&self, largest: u64) -> Shape {
        Shape { capabilities: open(self.make()).capabilities().clone(), sector: self.sector, largest }
    }
}

/// Opens a volume.
pub(crate) fn open(device: Arc<dyn Device>) -> RefsVolume {
    RefsVolume::open(device, OpenOptions::default()).unwrap()
}

/// Returns `length` random bytes, which are the same for the same seed.
pub(crate) fn content(seed: u64, length: usize) -> Vec<u8> {
    Random::new(seed).bytes(length)
}

/// Returns the options with which the reference file system in memory behaves as ReFS does.
fn reference(system: &dyn FileSystem) -> MemoryOptions {
    MemoryOptions {
        format: "ReFS",
        capabilities: system.capabilities().clone(),
        integrity: system.integrity().unwrap().get(Node::ROOT).unwrap().enabled,
        earliest: Timestamp { seconds: -11_644_473_600, nanoseconds: 0 },
        latest: Timestamp { seconds: 253_402_300_799, nanoseconds: 999_999_900 },
    }
}

/// Returns a volume as the subject of the model tests.
pub(crate) fn tested(device: Arc<dyn Device>, clock: &Clock) -> Box<dyn Subject> {
    Box::new(Tested::new(&Refs::ANY, device, clock, reference, |device| {
        check_clean(&**device)?;
        crate::bytes::right(&**device)?;
        crate::forms::right(&**device)
    }))
}

/// Fails unless the check finds nothing.
pub(crate) fn check_clean(device: &dyn Device) -> Result<(), String> {
    let report =
        Refs::ANY.check(device, CheckOptions::default(), &Silent).map_err(|error| error.to_string())?;
    if report.is_clean() { Ok(()) } else { Err(format!("check: {:#?}", report.findings)) }
}
