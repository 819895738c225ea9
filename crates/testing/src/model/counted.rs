//! Counts the transfers that operations on a volume cause on its device.

use platter_device::{MemoryDevice, Recorder, Sectors, Traffic};
use platter_vfs::{FileSystem, Format, FormatOptions, Kind, Node, OpenOptions, Silent};
use std::sync::Arc;

/// A volume on a device that counts its transfers.
pub struct Counted {
    /// The counting device.
    pub recorder: Arc<Recorder>,
    /// The volume.
    pub volume: Arc<dyn FileSystem>,
}

impl Counted {
    /// Makes a volume of 512 MiB with clusters of 4 KiB.
    ///
    /// # Panics
    /// If the format cannot make such a volume.
    pub fn new(format: &dyn Format) -> Counted {
        let device = MemoryDevice::new(512 << 20, Sectors::SMALL);
        let options = FormatOptions { cluster: Some(4096), ..FormatOptions::default() };
        format.make(&device, &options, &Silent).expect("a volume of 512 MiB");
        let recorder = Arc::new(Recorder::new(Arc::new(device)));
        let volume = format.open(recorder.clone(), OpenOptions::default()).expect("the volume just made");
        Counted { recorder, volume }
    }

    /// Creates a file of this size, writes all of it and syncs.
    ///
    /// # Panics
    /// If the file cannot be written, or exists already.
    pub fn file(&self, size: u64) -> Node {
        let node = self.volume.create(Node::ROOT, &"file".into(), Kind::File).expect("a new file");
        self.volume.write(node, 0, &vec![1; size as usize]).expect("room");
        self.volume.sync_all().expect("a device that does not fail");
        node
    }

    /// Returns the traffic of the device while `what` runs.
    pub fn seen(&self, what: impl FnOnce()) -> Traffic {
        let before = self.recorder.traffic();
        what();
        self.recorder.traffic().since(&before)
    }
}

/// The traffic as (reads, bytes read, writes, bytes written, flushes).
pub fn counts(traffic: &Traffic) -> (u64, u64, u64, u64, u64) {
    (traffic.read.count, traffic.read.bytes, traffic.write.count, traffic.write.bytes, traffic.flushes)
}
