//! The cost of I/O as counts of device requests and of memory allocations. No time is measured.

use platter_device::{Buffer, Kind as Direction, Request};
use platter_refs::Refs;
use platter_testing::conformance;
use platter_testing::model::{Counted, Random, counts};
use platter_vfs::{Node, Plan, SyncScope};

const CLUSTER: usize = 4096;
const PIECE: usize = 1 << 20;
/// The number of writes in flight.
const DEPTH: u64 = 32;

conformance!(cost: [Refs::ANY, Refs::INTEGRITY]);

#[test]
fn an_aligned_overwrite_without_integrity_is_one_device_write() {
    let counted = Counted::new(&Refs::ANY);
    let node = counted.file(PIECE as u64);
    let data = Buffer::from(&[7; CLUSTER][..]);
    let seen = counted.seen(|| counted.volume.write(node, 8192, &data).unwrap());
    assert_eq!(counts(&seen), (0, 0, 1, CLUSTER as u64, 0));
}

/// Overwrites clusters at random, in rounds of `DEPTH` writes that are in flight together.
fn scatter(counted: &Counted, node: Node, clusters: u64, rounds: u64) {
    let mut random = Random::new(8664);
    let mut queue = counted.volume.queue(DEPTH as usize).unwrap();
    let mut plans: Vec<Plan> = (0..DEPTH).map(|_| Plan::default()).collect();
    let mut done = Vec::new();
    for round in 0..rounds {
        for (tag, plan) in (0..).zip(&mut plans) {
            let buffer = Buffer::from(&[round as u8; CLUSTER][..]);
            let offset = random.below(clusters) * CLUSTER as u64;
            counted.volume.plan_write(node, offset, &buffer, plan).unwrap();
            let segments = std::mem::take(&mut plan.segments);
            queue.submit(Request { tag, kind: Direction::Write, durable: false, segments, buffer });
        }
        while queue.in_flight() > 0 {
            queue.wait(DEPTH as usize, &mut done).unwrap();
            for one in done.drain(..) {
                counted.volume.finish_write(&mut plans[one.tag as usize], &one.buffer, one.result).unwrap();
            }
        }
    }
}

#[test]
fn scattered_writes_with_integrity_reach_the_device_as_few() {
    let counted = Counted::new(&Refs::INTEGRITY);
    let node = counted.file(16 << 20);
    let rounds = 64;
    let seen = counted.seen(|| scatter(&counted, node, 4096, rounds));
    let (reads, _, writes, bytes, flushes) = counts(&seen);
    assert_eq!((reads, bytes, flushes), (0, rounds * DEPTH * CLUSTER as u64, 0));
    // The first write of each round reaches the device by itself, the others joined into two.
    assert!(writes <= 3 * rounds, "{} writes are {writes} at the device", rounds * DEPTH);
}

#[test]
fn a_scattered_file_is_read_with_no_more_bytes_than_it_has() {
    let counted = Counted::new(&Refs::INTEGRITY);
    let node = counted.file(16 << 20);
    scatter(&counted, node, 4096, 512);
    let mut buffer = Buffer::new(PIECE);
    let read = || assert_eq!(counted.volume.read(node, 0, &mut buffer).unwrap(), PIECE);
    let (reads, bytes, ..) = counts(&counted.seen(read));
    assert!(reads <= (PIECE / CLUSTER) as u64, "{reads} reads");
    assert_eq!(bytes, PIECE as u64);
}

#[test]
fn planned_io_allocates_nothing() {
    for format in [Refs::ANY, Refs::INTEGRITY] {
        let counted = Counted::new(&format);
        let node = counted.file(4 << 20);
        let (data, mut buffer) = (Buffer::from(&[1; CLUSTER][..]), Buffer::new(CLUSTER));
        let (large, mut all) = (Buffer::from(&vec![1; PIECE][..]), Buffer::new(PIECE));
        let mut plan = Plan::default();
        // No device read is made: the buffers have the content that is written, so that it matches the checksums.
        buffer.copy_from_slice(&data);
        all.copy_from_slice(&large);
        let mut round = |number: u64, plan: &mut Plan| {
            let offset = number % 256 * CLUSTER as u64;
            counted.volume.plan_write(node, offset, &data, plan).unwrap();
            assert_eq!(plan.segments.len(), 1);
            counted.volume.finish_write(plan, &data, Ok(())).unwrap();
            counted.volume.plan_read(node, offset, CLUSTER, plan).unwrap();
            assert_eq!(counted.volume.finish_read(plan, &mut buffer, Ok(())).unwrap(), CLUSTER);
            if number.is_multiple_of(256) {
                counted.volume.plan_write(node, 2 * PIECE as u64, &large, plan).unwrap();
                counted.volume.finish_write(plan, &large, Ok(())).unwrap();
                counted.volume.plan_read(node, 2 * PIECE as u64, PIECE, plan).unwrap();
                assert_eq!(counted.volume.finish_read(plan, &mut all, Ok(())).unwrap(), PIECE);
            }
        };
        (0..256).for_each(|number| round(number, &mut plan));
        let allocated = allocation_counter::measure(|| (0..1024).for_each(|number| round(number, &mut plan)));
        assert_eq!(allocated.count_total, 0, "{format:?}");
    }
}

/// Makes a change that no entry of the log of syncs can hold, so that the next sync commits.
fn change(counted: &Counted, node: Node) {
    counted.volume.extended_attributes().unwrap().set(node, "user.changed", Some(b"yes")).unwrap();
}

#[test]
fn a_commit_of_scattered_writes_is_few_device_writes() {
    let counted = Counted::new(&Refs::INTEGRITY);
    let clusters = 16384;
    let node = counted.file(clusters * CLUSTER as u64);
    let write = || {
        scatter(&counted, node, clusters, 1);
        change(&counted, node);
    };
    let commit = || counted.volume.sync(node, SyncScope::Data).unwrap();
    // The first commit makes the pages, later ones change them.
    write();
    commit();
    let (reads, _, writes, bytes, flushes) = counts(&counted.seen(|| {
        write();
        commit();
    }));
    assert_eq!((reads, flushes), (0, 2));
    // The commit writes some 21 of the 37 pages of runs, each of 16 KiB, and 15 other pages.
    assert!(bytes <= 768 << 10, "{bytes} bytes");
    assert!(writes <= 8, "{writes} writes");
    let allocated = (0..4).map(|_| {
        write();
        allocation_counter::measure(commit)
    });
    // Now and then the device in memory allocates for a place that is written for the first time, so the commit with
    // the fewest bytes counts.
    let least = allocated.min_by_key(|one| one.bytes_total).unwrap();
    // No page is built in memory that is allocated for it alone.
    assert!(least.bytes_total <= 96 << 10, "{} bytes allocated", least.bytes_total);
    assert!(least.count_total <= 200, "{} allocations", least.count_total);
}

#[test]
fn a_commit_of_one_write_is_few_pages() {
    let counted = Counted::new(&Refs::INTEGRITY);
    let clusters = 65536;
    let node = counted.file(clusters * CLUSTER as u64);
    let mut random = Random::new(8664);
    for round in 0..16u8 {
        let offset = random.below(clusters) * CLUSTER as u64;
        let seen = counted.seen(|| {
            counted.volume.write(node, offset, &[round; CLUSTER]).unwrap();
            change(&counted, node);
            counted.volume.sync(node, SyncScope::Data).unwrap();
        });
        let (reads, _, writes, bytes, flushes) = counts(&seen);
        assert_eq!((reads, flushes), (0, 2));
        assert!(writes <= 7, "{writes} writes");
        // One cluster of data, the checkpoint, and 13 pages of 4 clusters each.
        assert!(bytes <= (CLUSTER + 14 * 4 * CLUSTER) as u64, "round {round}: {bytes} bytes");
    }
}

/// A sync of new content alone is one device write, a log entry that holds all new runs, and one flush. Where nothing
/// needs an entry, it is only the flush.
#[test]
fn a_sync_of_content_alone_is_one_write_and_one_flush() {
    for (format, data_only) in [(Refs::INTEGRITY, 1), (Refs::ANY, 0)] {
        let counted = Counted::new(&format);
        let node = counted.file(16384 * CLUSTER as u64);
        let write = |at: u64| counted.volume.write(node, at * CLUSTER as u64, &[7; CLUSTER]).unwrap();
        // The first sync makes the log.
        write(0);
        counted.volume.sync(node, SyncScope::All).unwrap();
        for (scope, entries) in [(SyncScope::All, 1), (SyncScope::Data, data_only)] {
            for count in [1, 32] {
                (0..count).for_each(|at| write(at * 500));
                let seen = counted.seen(|| counted.volume.sync(node, scope).unwrap());
                let (reads, _, writes, bytes, flushes) = counts(&seen);
                assert_eq!((reads, writes, bytes, flushes), (0, entries, entries * 4096, 1), "{format:?}");
                // Nothing is new since the last sync.
                let seen = counted.seen(|| counted.volume.sync(node, SyncScope::Data).unwrap());
                assert_eq!(counts(&seen), (0, 0, 0, 0, 1), "{format:?}");
            }
        }
    }
}

/// Writes with a planned sync beside them take as few device writes as without it: the sync adds one write, the log's
/// entry, and no flush.
#[test]
fn a_planned_sync_is_one_write() {
    let counted = Counted::new(&Refs::INTEGRITY);
    let node = counted.file(16384 * CLUSTER as u64);
    // The first sync makes the log.
    counted.volume.write(node, 0, &[7; CLUSTER]).unwrap();
    counted.volume.sync(node, SyncScope::All).unwrap();
    let mut plans: Vec<Plan> = (0..DEPTH).map(|_| Plan::default()).collect();
    let (mut sync, mut entry) = (Plan::default(), Buffer::new(0));
    let mut queue = counted.volume.queue(DEPTH as usize + 1).unwrap();
    let mut done = Vec::new();
    let seen = counted.seen(|| {
        for (tag, plan) in (0..).zip(&mut plans) {
            let buffer = Buffer::from(&[tag as u8; CLUSTER][..]);
            counted.volume.plan_write(node, tag * 500 * CLUSTER as u64, &buffer, plan).unwrap();
            let segments = std::mem::take(&mut plan.segments);
            queue.submit(Request { tag, kind: Direction::Write, durable: false, segments, buffer });
        }
        assert!(counted.volume.plan_sync(&mut plans.iter_mut(), &mut sync, &mut entry).unwrap());
        let (segments, buffer) =
            (std::mem::take(&mut sync.segments), std::mem::replace(&mut entry, Buffer::new(0)));
        queue.submit(Request { tag: DEPTH, kind: Direction::Write, durable: false, segments, buffer });
        while queue.in_flight() > 0 {
            queue.wait(DEPTH as usize, &mut done).unwrap();
            for one in done.drain(..).filter(|one| one.tag < DEPTH) {
                counted.volume.finish_write(&mut plans[one.tag as usize], &one.buffer, one.result).unwrap();
            }
        }
        counted.volume.finish_sync(&mut sync, Ok(())).unwrap();
    });
    let (reads, _, writes, bytes, flushes) = counts(&seen);
    assert_eq!((reads, bytes, flushes), (0, (DEPTH as usize + 1) as u64 * CLUSTER as u64, 0));
    assert!(writes <= 4, "{writes} writes");
}
