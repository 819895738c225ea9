//! What I/O costs, in counts: device requests and allocations. Nothing here looks at a clock.

use platter_device::Buffer;
use platter_exfat::Exfat;
use platter_vfs::model::{Counted, counts};
use platter_vfs::{Change, Plan, SyncScope};

#[test]
fn an_aligned_overwrite_is_one_device_write() {
    let counted = Counted::new(&Exfat);
    let node = counted.file(1 << 20);
    let data = Buffer::from(&[7; 4096][..]);
    let seen = counted.seen(|| counted.volume.write(node, 8192, &data).unwrap());
    assert_eq!(counts(&seen), (0, 0, 1, 4096, 0));
    // Its data is durable with a flush: only a time has changed.
    let seen = counted.seen(|| counted.volume.sync(node, SyncScope::Data).unwrap());
    assert_eq!(counts(&seen), (0, 0, 0, 0, 1));
}

#[test]
fn a_contiguous_read_is_one_device_read() {
    let counted = Counted::new(&Exfat);
    let node = counted.file(1 << 20);
    let mut buffer = Buffer::new(1 << 20);
    let seen = counted.seen(|| assert_eq!(counted.volume.read(node, 0, &mut buffer).unwrap(), 1 << 20));
    assert_eq!(counts(&seen), (1, 1 << 20, 0, 0, 0));
}

#[test]
fn a_file_in_one_piece_costs_no_fat_and_a_larger_size_no_content() {
    let counted = Counted::new(&Exfat);
    let node = counted.file(4096);
    // A gigabyte would not fit; a quarter of one is taken, and only its bits and its entry are written.
    let size = Some(256 << 20);
    let seen = counted.seen(|| {
        counted.volume.set_attributes(node, &Change { size, ..Change::default() }).unwrap();
        counted.volume.sync_all().unwrap();
    });
    let bits = (256 << 20) / 4096 / 8;
    assert!(seen.write.bytes <= bits + 3 * 512, "{:?}", counts(&seen));
    assert!(seen.write.count <= 3 && seen.flushes <= 3, "{:?}", counts(&seen));
}

#[test]
fn a_plan_in_place_allocates_nothing() {
    let counted = Counted::new(&Exfat);
    let node = counted.file(1 << 20);
    let data = Buffer::from(&[7; 4096][..]);
    let mut plan = Plan::default();
    let mut once = || {
        counted.volume.plan_write(node, 8192, &data, &mut plan).unwrap();
        counted.volume.finish_write(&mut plan, &data, Ok(())).unwrap();
    };
    once();
    let info = allocation_counter::measure(|| (0..100).for_each(|_| once()));
    assert_eq!(info.count_total, 0);
}
