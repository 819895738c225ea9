//! The cost of I/O in counts: device requests and allocations. Nothing is timed, except in the campaign.

use platter_device::{MemoryDevice, Sectors};
use platter_fat::{Fat, FatVolume};
use platter_testing::conformance;
use platter_testing::model::{Counted, counts};
use platter_vfs::{FileSystem, Format, FormatOptions, Kind, Names, Node, OpenOptions, Silent};
use std::sync::Arc;

conformance!(cost in place: Fat::FAT32);

#[test]
fn files_written_at_once_lie_in_few_pieces() {
    let counted = Counted::new(&Fat::FAT32);
    let nodes: Vec<Node> = (0..8)
        .map(|number| {
            counted.volume.create(Node::ROOT, &format!("file {number}").as_str().into(), Kind::File).unwrap()
        })
        .collect();
    let piece = [1; 4096];
    for round in 0..512 {
        for node in &nodes {
            counted.volume.write(*node, round * 4096, &piece).unwrap();
        }
    }
    for node in nodes {
        let extents = counted.volume.extents(node).unwrap().len();
        assert!(extents <= 8, "2 MiB in {extents} pieces");
    }
}

#[test]
fn a_commit_writes_what_changed_in_few_pieces() {
    let counted = Counted::new(&Fat::FAT32);
    for number in 0..1000 {
        counted.volume.create(Node::ROOT, &format!("f{number}").as_str().into(), Kind::File).unwrap();
    }
    let seen = counted.seen(|| counted.volume.sync_all().unwrap());
    // 32,000 bytes of slots in the clusters by which the root grew, two copies of one sector of the FAT, and the
    // flags.
    assert!(seen.write.count < 20 && seen.write.bytes < 50_000 && seen.flushes <= 5, "{seen:?}");
    let seen = counted.seen(|| counted.volume.sync_all().unwrap());
    assert_eq!(counts(&seen), (0, 0, 0, 0, 1));
}

#[test]
fn opening_reads_the_table_in_large_pieces() {
    let counted = Counted::new(&Fat::FAT32);
    counted.volume.unmount().unwrap();
    for (read_only, count, bytes) in [(true, 10, 600_000), (false, 12, 1_100_000)] {
        let options = OpenOptions { read_only, ..OpenOptions::default() };
        let seen = counted.seen(|| drop(FatVolume::open(counted.recorder.clone(), options).unwrap()));
        // The FAT of 131,072 entries of 4 bytes, for writing its copy too, and the beginnings of the structures that
        // confirm the boot sector; for writing also the root directory.
        assert!(seen.read.count <= count && seen.read.bytes < bytes, "{seen:?}");
    }
}

#[test]
fn the_largest_volumes_open_in_little_memory() {
    let device = MemoryDevice::new((2 << 40) - (1 << 20), Sectors::SMALL);
    let options = FormatOptions { cluster: Some(32 << 10), ..FormatOptions::default() };
    Fat::FAT32.make(&device, &options, &Silent).unwrap();
    let device: Arc<MemoryDevice> = Arc::new(device);
    // 67 million clusters: memory for a bit each, and for a limited part of the 256 MiB of FAT.
    let allocated = allocation_counter::measure(|| {
        let volume = FatVolume::open(device.clone(), OpenOptions::default()).unwrap();
        let node = volume.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        volume.write(node, 0, &[1; 100_000]).unwrap();
        volume.unmount().unwrap();
    });
    assert!(allocated.bytes_max < 40 << 20, "{} bytes", allocated.bytes_max);
}
