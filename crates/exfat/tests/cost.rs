//! What I/O costs, in counts: device requests and allocations. Nothing here looks at a clock.

use platter_device::{Buffer, MemoryDevice, Recorder, Sectors, Traffic};
use platter_exfat::{Exfat, ExfatVolume};
use platter_vfs::{
    Change, FileSystem, Format, FormatOptions, Kind, Node, OpenOptions, Plan, Silent, SyncScope,
};
use std::sync::Arc;

struct Stand {
    recorder: Arc<Recorder>,
    volume: ExfatVolume,
}

impl Stand {
    fn new() -> Stand {
        let device = MemoryDevice::new(512 << 20, Sectors::SMALL);
        let options = FormatOptions { cluster: Some(4096), ..FormatOptions::default() };
        Exfat.make(&device, &options, &Silent).unwrap();
        let recorder = Arc::new(Recorder::new(Arc::new(device)));
        let volume = ExfatVolume::open(recorder.clone(), OpenOptions::default()).unwrap();
        Stand { recorder, volume }
    }

    /// A file of this size that is on disk.
    fn file(&self, size: u64) -> Node {
        let node = self.volume.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        self.volume.write(node, 0, &vec![1; size as usize]).unwrap();
        self.volume.sync_all().unwrap();
        node
    }

    fn seen(&self, what: impl FnOnce()) -> Traffic {
        let before = self.recorder.traffic();
        what();
        self.recorder.traffic().since(&before)
    }
}

/// (reads, bytes read, writes, bytes written, flushes)
fn counts(traffic: &Traffic) -> (u64, u64, u64, u64, u64) {
    (traffic.read.count, traffic.read.bytes, traffic.write.count, traffic.write.bytes, traffic.flushes)
}

#[test]
fn an_aligned_overwrite_is_one_device_write() {
    let stand = Stand::new();
    let node = stand.file(1 << 20);
    let data = Buffer::from(&[7; 4096][..]);
    let seen = stand.seen(|| stand.volume.write(node, 8192, &data).unwrap());
    assert_eq!(counts(&seen), (0, 0, 1, 4096, 0));
    // Its data is durable with a flush: only a time has changed.
    let seen = stand.seen(|| stand.volume.sync(node, SyncScope::Data).unwrap());
    assert_eq!(counts(&seen), (0, 0, 0, 0, 1));
}

#[test]
fn a_contiguous_read_is_one_device_read() {
    let stand = Stand::new();
    let node = stand.file(1 << 20);
    let mut buffer = Buffer::new(1 << 20);
    let seen = stand.seen(|| assert_eq!(stand.volume.read(node, 0, &mut buffer).unwrap(), 1 << 20));
    assert_eq!(counts(&seen), (1, 1 << 20, 0, 0, 0));
}

#[test]
fn a_file_in_one_piece_costs_no_fat_and_a_larger_size_no_content() {
    let stand = Stand::new();
    let node = stand.file(4096);
    // A gigabyte would not fit; a quarter of one is taken, and only its bits and its entry are written.
    let size = Some(256 << 20);
    let seen = stand.seen(|| {
        stand.volume.set_attributes(node, &Change { size, ..Change::default() }).unwrap();
        stand.volume.sync_all().unwrap();
    });
    let bits = (256 << 20) / 4096 / 8;
    assert!(seen.write.bytes <= bits + 3 * 512, "{:?}", counts(&seen));
    assert!(seen.write.count <= 3 && seen.flushes <= 3, "{:?}", counts(&seen));
}

#[test]
fn a_plan_in_place_allocates_nothing() {
    let stand = Stand::new();
    let node = stand.file(1 << 20);
    let data = Buffer::from(&[7; 4096][..]);
    let mut plan = Plan::default();
    let mut once = || {
        stand.volume.plan_write(node, 8192, &data, &mut plan).unwrap();
        stand.volume.finish_write(&mut plan, &data, Ok(())).unwrap();
    };
    once();
    let info = allocation_counter::measure(|| (0..100).for_each(|_| once()));
    assert_eq!(info.count_total, 0);
}
