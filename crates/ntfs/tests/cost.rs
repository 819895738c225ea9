//! What I/O costs, in counts: device requests and allocations. Nothing here looks at a clock, except the ignored
//! measurement.

use platter_device::Buffer;
use platter_ntfs::Ntfs;
use platter_testing::conformance;
use platter_testing::model::cost::{Hand, Planned};
use platter_testing::model::{Counted, counts};
use platter_vfs::{Kind, Name, Node, SyncScope};

conformance!(cost: [Ntfs]);

#[test]
fn an_aligned_overwrite_is_one_device_write() {
    let counted = Counted::new(&Ntfs);
    let node = counted.file(1 << 20);
    let data = Buffer::from(&[7; 4096][..]);
    let seen = counted.seen(|| counted.volume.write(node, 8192, &data).unwrap());
    assert_eq!(counts(&seen), (0, 0, 1, 4096, 0));
    counted.volume.sync(node, SyncScope::Data).unwrap();
}

#[test]
fn planned_io_in_place_allocates_nothing() {
    let planned = Planned::new(&Ntfs, 1 << 20);
    let mut hand = Hand::default();
    let mut round = |block| [true, false].map(|write| planned.once(write, block, &mut hand));
    round(0);
    let allocated = allocation_counter::measure(|| (0..1000).for_each(|block| _ = round(block)));
    assert_eq!(allocated.count_total, 0);
}

#[test]
fn small_files_take_few_allocations() {
    const FILES: u64 = 2000;
    let counted = Counted::new(&Ntfs);
    let name = |number: u64| Name::from(&*format!("small file {number}.txt"));
    let directory = counted.volume.create(Node::ROOT, &"many".into(), Kind::Directory).unwrap();
    let made = allocation_counter::measure(|| {
        for number in 0..FILES {
            let file = counted.volume.create(directory, &name(number), Kind::File).unwrap();
            counted.volume.write(file, 0, &[7; 1024]).unwrap();
            counted.volume.forget(file, 1);
        }
        counted.volume.sync_all().unwrap();
    });
    let removed = allocation_counter::measure(|| {
        for number in 0..FILES {
            counted.volume.unlink(directory, &name(number)).unwrap();
        }
        counted.volume.sync_all().unwrap();
    });
    let (made, removed) = (made.count_total / FILES, removed.count_total / FILES);
    println!("{made} allocations to make a file, {removed} to remove it");
    assert!(made < 75 && removed < 48, "{made} to make, {removed} to remove");
}

/// The memory for the free clusters grows with the places where free and taken ones alternate, not with the number of
/// clusters.
#[test]
fn an_open_volume_of_a_thousand_million_clusters_takes_little_memory() {
    use platter_device::{MemoryDevice, Sectors};
    use platter_vfs::{CheckOptions, Format, FormatOptions, OpenOptions, Silent};
    let device = std::sync::Arc::new(MemoryDevice::new(4 << 40, Sectors::SMALL));
    let options = FormatOptions { cluster: Some(4096), ..FormatOptions::default() };
    Ntfs.make(&*device, &options, &Silent).unwrap();
    let used = allocation_counter::measure(|| {
        let volume = Ntfs.open(device.clone(), OpenOptions::default()).unwrap();
        let file = volume.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        volume.write(file, 0, &vec![1; 1 << 20]).unwrap();
        volume.unmount().unwrap();
    });
    let checked = allocation_counter::measure(|| {
        assert!(Ntfs.check(&*device, CheckOptions::default(), &Silent).unwrap().is_clean());
    });
    println!("open: {} bytes, check: {} bytes", used.bytes_max, checked.bytes_max);
    assert!(used.bytes_max < 24 << 20, "open: {} bytes", used.bytes_max);
    assert!(checked.bytes_max < 24 << 20, "check: {} bytes", checked.bytes_max);
}

/// Punching a hole in a file of many runs copies a few pieces of its run list, and not the whole list.
#[test]
fn an_operation_on_a_scattered_file_does_not_take_more_with_each_run() {
    let bytes = [5_000u64, 40_000].map(|holes| {
        let counted = Counted::new(&Ntfs);
        let file = counted.file(4096);
        let punch = |at: u64| counted.volume.punch(file, at * 131_072..at * 131_072 + 65_536).unwrap();
        // The file has nothing but holes and single clusters, so it takes little room on the device.
        for number in 0..holes {
            counted.volume.write(file, number * 131_072 + 65_536, &[1]).unwrap();
        }
        counted.volume.sync(file, SyncScope::Data).unwrap();
        let used = allocation_counter::measure(|| (0..50).for_each(|number| punch(number * holes / 50)));
        used.bytes_total / 50
    });
    println!("{} bytes with 5,000 runs, {} with 40,000", bytes[0], bytes[1]);
    // The bytes include those of a commit, which makes all records of the file anew.
    assert!(bytes[1] < 4 * bytes[0] && bytes[1] < 1 << 20, "{bytes:?}");
}

/// Measures the time that a planned read or overwrite takes: `cargo test --release -p platterfs-ntfs --test suite cost::
/// -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement: says how long, not whether it is right"]
fn nanoseconds_of_a_plan() {
    let planned = Planned::new(&Ntfs, 64 << 20);
    for (threads, write) in [(1, false), (1, true), (2, false), (2, true)] {
        planned.tell_nanoseconds(threads, write);
    }
}
