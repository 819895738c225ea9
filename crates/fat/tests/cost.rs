//! What I/O costs, in counts: device requests and allocations. Nothing here looks at a clock, but for the campaign.

use platter_device::{Buffer, MemoryDevice, Sectors};
use platter_fat::{Fat, FatVolume};
use platter_vfs::model::{Counted, counts};
use platter_vfs::{FileSystem, Format, FormatOptions, Kind, Node, OpenOptions, Plan, Silent, SyncScope};
use std::sync::Arc;

#[test]
fn an_aligned_overwrite_is_one_device_write() {
    let counted = Counted::new(&Fat::FAT32);
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
    let counted = Counted::new(&Fat::FAT32);
    let node = counted.file(4 << 20);
    assert_eq!(counted.volume.extents(node).unwrap().len(), 1);
    let mut buffer = Buffer::new(1 << 20);
    let seen = counted.seen(|| assert_eq!(counted.volume.read(node, 1 << 20, &mut buffer).unwrap(), 1 << 20));
    assert_eq!(counts(&seen), (1, 1 << 20, 0, 0, 0));
}

#[test]
fn planned_io_in_place_allocates_nothing() {
    let counted = Counted::new(&Fat::FAT32);
    let node = counted.file(1 << 20);
    let data = Buffer::from(&[7; 4096][..]);
    let mut buffer = Buffer::new(4096);
    let mut plan = Plan::default();
    let mut round = |plan: &mut Plan| {
        counted.volume.plan_write(node, 40960, &data, plan).unwrap();
        assert_eq!(plan.segments.len(), 1);
        assert!(!counted.volume.finish_write(plan, &data, Ok(())).unwrap());
        counted.volume.plan_read(node, 4096, 4096, plan).unwrap();
        assert_eq!(counted.volume.finish_read(plan, &mut buffer, Ok(())).unwrap(), 4096);
    };
    round(&mut plan);
    let allocated = allocation_counter::measure(|| (0..1000).for_each(|_| round(&mut plan)));
    assert_eq!(allocated.count_total, 0);
}

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
    // 32,000 bytes of slots in the clusters that the root grew by, two copies of one sector of the table, marks.
    assert!(seen.write.count < 20 && seen.write.bytes < 50_000 && seen.flushes <= 5, "{seen:?}");
    let seen = counted.seen(|| counted.volume.sync_all().unwrap());
    assert_eq!(counts(&seen), (0, 0, 0, 0, 1));
}

#[test]
fn opening_reads_the_table_in_large_pieces() {
    let counted = Counted::new(&Fat::FAT32);
    counted.volume.unmount().unwrap();
    let seen =
        counted.seen(|| drop(FatVolume::open(counted.recorder.clone(), OpenOptions::default()).unwrap()));
    // 131,072 entries of 4 bytes, and a few sectors.
    assert!(seen.read.count <= 6 && seen.read.bytes < 600_000, "{seen:?}");
}

#[test]
fn the_largest_volumes_open_in_little_memory() {
    let device = MemoryDevice::new((2 << 40) - (1 << 20), Sectors::SMALL);
    let options = FormatOptions { cluster: Some(32 << 10), ..FormatOptions::default() };
    Fat::FAT32.make(&device, &options, &Silent).unwrap();
    let device: Arc<MemoryDevice> = Arc::new(device);
    // 67 million clusters: a bit for each, and a bounded part of the 256 MiB of table.
    let allocated = allocation_counter::measure(|| {
        let volume = FatVolume::open(device.clone(), OpenOptions::default()).unwrap();
        let node = volume.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        volume.write(node, 0, &[1; 100_000]).unwrap();
        volume.unmount().unwrap();
    });
    assert!(allocated.bytes_max < 40 << 20, "{} bytes", allocated.bytes_max);
}

/// What a planned read or overwrite costs in time, with as many threads on one file as are asked for:
/// `cargo test --release -p platter-fat --test cost -- --ignored --nocapture`. Batches are timed one by one, and the
/// median is told, so that whatever else the machine does matters little.
#[test]
#[ignore = "a measurement: says how long, not whether it is right"]
fn nanoseconds_of_a_plan() {
    const BATCHES: usize = 200;
    const ROUNDS: u64 = 5_000;
    let counted = Counted::new(&Fat::FAT32);
    let node = counted.file(64 << 20);
    let life = |thread: u64, write: bool| {
        let (mut plan, mut buffer) = (Plan::default(), Buffer::new(4096));
        let batch = |_| {
            let start = std::time::Instant::now();
            for round in 0..ROUNDS {
                let offset = (round * 7919 + thread * 104_729) % 16384 * 4096;
                if write {
                    counted.volume.plan_write(node, offset, &buffer, &mut plan).unwrap();
                    counted.volume.finish_write(&mut plan, &buffer, Ok(())).unwrap();
                } else {
                    counted.volume.plan_read(node, offset, 4096, &mut plan).unwrap();
                    counted.volume.finish_read(&mut plan, &mut buffer, Ok(())).unwrap();
                }
            }
            start.elapsed().as_nanos() as u64 / ROUNDS
        };
        let mut batches: Vec<u64> = (0..BATCHES).map(batch).collect();
        batches.sort_unstable();
        (batches[0], batches[BATCHES / 2])
    };
    for threads in [1, 2] {
        for write in [false, true] {
            let results: Vec<(u64, u64)> = std::thread::scope(|scope| {
                let life = &life;
                let workers: Vec<_> =
                    (0..threads).map(|thread| scope.spawn(move || life(thread, write))).collect();
                workers.into_iter().map(|worker| worker.join().unwrap()).collect()
            });
            let what = if write { "write" } else { "read" };
            println!("{threads} threads, {what}: (least, median) ns per plan and finish {results:?}");
        }
    }
}
