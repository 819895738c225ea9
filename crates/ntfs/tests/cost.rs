//! What I/O costs, in counts: device requests and allocations. Nothing here looks at a clock, but for the measurement.

use platter_device::Buffer;
use platter_ntfs::Ntfs;
use platter_vfs::model::{Counted, counts};
use platter_vfs::{Kind, Name, Node, Plan, SyncScope};

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
fn a_contiguous_read_is_one_device_read() {
    let counted = Counted::new(&Ntfs);
    let node = counted.file(1 << 20);
    let mut buffer = Buffer::new(1 << 20);
    let seen = counted.seen(|| assert_eq!(counted.volume.read(node, 0, &mut buffer).unwrap(), 1 << 20));
    assert_eq!(counts(&seen), (1, 1 << 20, 0, 0, 0));
}

#[test]
fn planned_io_in_place_allocates_nothing() {
    let counted = Counted::new(&Ntfs);
    let node = counted.file(1 << 20);
    let mut buffer = Buffer::from(&[7; 4096][..]);
    let mut plan = Plan::default();
    let mut round = |block: u64| {
        let offset = block % 256 * 4096;
        counted.volume.plan_write(node, offset, &buffer, &mut plan).unwrap();
        assert!(!counted.volume.finish_write(&mut plan, &buffer, Ok(())).unwrap());
        counted.volume.plan_read(node, offset, 4096, &mut plan).unwrap();
        assert_eq!(plan.segments.len(), 1);
        assert_eq!(counted.volume.finish_read(&mut plan, &mut buffer, Ok(())).unwrap(), 4096);
    };
    round(0);
    let allocated = allocation_counter::measure(|| (0..1000).for_each(&mut round));
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

/// What a planned read or overwrite costs in time:
/// `cargo test --release -p platter-ntfs --test cost -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement: says how long, not whether it is right"]
fn nanoseconds_of_a_plan() {
    let counted = Counted::new(&Ntfs);
    let node = counted.file(64 << 20);
    let (mut plan, mut buffer) = (Plan::default(), Buffer::new(4096));
    for write in [false, true] {
        let mut batch = |_| {
            let start = std::time::Instant::now();
            for round in 0..5000u64 {
                let offset = round * 7919 % 16384 * 4096;
                if write {
                    counted.volume.plan_write(node, offset, &buffer, &mut plan).unwrap();
                    counted.volume.finish_write(&mut plan, &buffer, Ok(())).unwrap();
                } else {
                    counted.volume.plan_read(node, offset, 4096, &mut plan).unwrap();
                    counted.volume.finish_read(&mut plan, &mut buffer, Ok(())).unwrap();
                }
            }
            start.elapsed().as_nanos() as u64 / 5000
        };
        let mut batches: Vec<u64> = (0..200).map(&mut batch).collect();
        batches.sort_unstable();
        println!("write {write}: least {}, median {} ns", batches[0], batches[100]);
    }
}
