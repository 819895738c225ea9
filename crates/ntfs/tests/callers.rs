//! Many callers at once: which calls wait for which others, what they share, and that none loses its data.

use crate::common::{USUAL, Volume, check_clean, open};
use platter_device::{Buffer, Device, Fault, Faults, Operation, OverlayDevice, When};
use platter_ntfs::{Ntfs, NtfsVolume};
use platter_testing::model::listings;
use platter_vfs::{
    Error, FileSystem, Format, Kind, Name, Names, Node, OpenOptions, Plan, SyncScope, Transfers,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long to wait for an event that must not happen yet.
const SHORTLY: Duration = Duration::from_millis(50);
/// How long to wait for an event that must happen.
const AT_LAST: Duration = Duration::from_secs(60);

fn file(volume: &NtfsVolume, name: &str, content: &[u8]) -> Node {
    let node = volume.create(Node::ROOT, &name.into(), Kind::File).unwrap();
    volume.write(node, 0, content).unwrap();
    volume.sync_all().unwrap();
    node
}

fn carry_out(volume: &NtfsVolume, plan: &mut Plan, data: &[u8]) {
    for segment in &plan.segments {
        let at = segment.at as usize;
        volume.device().write_at(segment.offset, &data[at..at + segment.length as usize]).unwrap();
    }
    volume.finish_write(plan, data, Ok(())).unwrap();
}

fn content(volume: &NtfsVolume, node: Node, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    assert_eq!(volume.read(node, 0, &mut bytes).unwrap(), length);
    bytes
}

/// A write of a part of a sector reads the sector, changes it and writes it. It waits for a planned write of that
/// sector, and later plans for the sector wait for it.
#[test]
fn writes_of_parts_of_a_sector_lose_nothing_beside_planned_ones() {
    let volume = open(USUAL.make());
    let node = file(&volume, "file", &[1; 8192]);
    let data = Buffer::from(&[2; 512][..]);
    let mut plan = Plan::default();
    volume.plan_write(node, 512, &data, &mut plan).unwrap();
    std::thread::scope(|scope| {
        let (done, is_done) = channel();
        let volume = &volume;
        scope.spawn(move || {
            volume.write(node, 600, &[3; 10]).unwrap();
            done.send(()).unwrap();
        });
        assert!(is_done.recv_timeout(SHORTLY).is_err(), "the planned write would overwrite it");
        let mut other = Plan::default();
        assert!(matches!(volume.plan_write(node, 512, &data, &mut other), Err(Error::Busy)));
        volume.plan_write(node, 4096, &data, &mut other).unwrap();
        carry_out(volume, &mut plan, &data);
        is_done.recv_timeout(AT_LAST).expect("a write elsewhere, planned later, is not waited for");
        carry_out(volume, &mut other, &data);
    });
    let mut expected = [1; 8192];
    expected[512..1024].fill(2);
    expected[600..610].fill(3);
    expected[4096..4608].fill(2);
    assert!(content(&volume, node, 8192) == expected);
}

/// Eight writers of a few bytes each in the same sectors, in a file that grows, beside planned writes of whole ones.
#[test]
fn many_writers_of_the_same_sectors_lose_nothing() {
    const WRITERS: usize = 8;
    const PART: usize = 60;
    const BYTES: usize = WRITERS * PART;
    let device = USUAL.make();
    let volume = open(device.clone());
    let node = file(&volume, "file", &[0; 2000]);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let volume = &volume;
            scope.spawn(move || {
                for round in 0..100 {
                    let at = round * BYTES + writer * PART;
                    volume.write(node, at as u64, &[1 + writer as u8; PART]).unwrap();
                }
            });
        }
        let volume = &volume;
        scope.spawn(move || {
            // Behind the ranges of all the others.
            let (data, mut plan) = (Buffer::from(&[99; 512][..]), Plan::default());
            for round in 0..100 {
                volume.plan_write(node, (128 + round) * 512, &data, &mut plan).unwrap();
                carry_out(volume, &mut plan, &data);
            }
        });
    });
    let expected = |at: usize| if at < 100 * BYTES { 1 + (at % BYTES / PART) as u8 } else { 99 };
    let found = content(&volume, node, 228 * 512);
    for (at, byte) in found.iter().enumerate().filter(|(at, _)| *at < 100 * BYTES || *at >= 128 * 512) {
        assert_eq!(*byte, expected(at), "at {at}");
    }
    volume.unmount().unwrap();
    check_clean(&*device).unwrap();
}

/// While the device works for a blocking write, others read the same file.
#[test]
fn readers_do_not_wait_for_a_writer_s_device() {
    let device = Arc::new(Faults::new(USUAL.make(), 8664));
    let volume = open(device.clone());
    let node = file(&volume, "file", &[1; 65536]);
    // A write in place, and one behind the end.
    for offset in [0, 65536] {
        let is_written = AtomicBool::new(false);
        let write = When::nth(Operation::Write, device.count(Operation::Write));
        device.inject(write, Fault::Delay(Duration::from_millis(600)));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                volume.write(node, offset, &[2; 4096]).unwrap();
                is_written.store(true, SeqCst);
            });
            std::thread::sleep(SHORTLY);
            volume.read(node, 32768, &mut [0; 4096]).unwrap();
            volume.attributes(node).unwrap();
            assert!(!is_written.load(SeqCst), "the read waited for the write");
        });
        device.heal();
    }
}

/// A write that was planned before the volume is unmounted ends first, and its data is there afterwards.
#[test]
fn unmounting_waits_for_plans() {
    let device = USUAL.make();
    let volume = open(device.clone());
    let node = file(&volume, "file", &[1; 4096]);
    let (data, mut plan) = (Buffer::from(&[2; 4096][..]), Plan::default());
    volume.plan_write(node, 4096, &data, &mut plan).unwrap();
    std::thread::scope(|scope| {
        let (done, is_done) = channel();
        let volume = &volume;
        scope.spawn(move || done.send(volume.unmount()).unwrap());
        assert!(is_done.recv_timeout(SHORTLY).is_err(), "a write is under way");
        assert!(matches!(volume.write(node, 0, &[7; 100]), Err(Error::ReadOnly(_))));
        carry_out(volume, &mut plan, &data);
        is_done.recv_timeout(AT_LAST).unwrap().unwrap();
    });
    volume.unmount().unwrap();
    check_clean(&*device).unwrap();
    let volume = open(device);
    assert!(!volume.info().unwrap().dirty);
    let node = volume.lookup(Node::ROOT, &"file".into()).unwrap();
    assert!(content(&volume, node, 8192)[4096..] == [2; 4096]);
}

/// A volume that was not closed is closed by an unmount, also if nothing changed since.
#[test]
fn unmounting_closes_the_log_after_an_open_that_only_read() {
    let device = USUAL.make();
    file(&open(device.clone()), "file", &[1; 4096]);
    let volume = open(device.clone());
    assert!(volume.info().unwrap().dirty, "it was left open");
    let node = volume.lookup(Node::ROOT, &"file".into()).unwrap();
    assert!(content(&volume, node, 4096) == [1; 4096]);
    volume.unmount().unwrap();
    assert!(!open(device.clone()).info().unwrap().dirty);
    check_clean(&*device).unwrap();
}

/// After a flush failed nobody knows which writes it lost: no later sync says that all is well.
#[test]
fn a_failed_flush_is_final() {
    let device = Arc::new(Faults::new(USUAL.make(), 8664));
    let volume = open(device.clone());
    let node = file(&volume, "file", &[1; 4096]);
    // Nothing but a flush is left for the second sync.
    volume.sync_all().unwrap();
    device.inject(When::nth(Operation::Flush, device.count(Operation::Flush)), Fault::Fail);
    assert!(matches!(volume.sync(node, SyncScope::Data), Err(Error::Device(_))));
    assert!(matches!(volume.sync(node, SyncScope::Data), Err(Error::ReadOnly(_))));
    assert!(matches!(volume.sync_all(), Err(Error::ReadOnly(_))));
    assert!(matches!(volume.write(node, 0, &[2; 10]), Err(Error::ReadOnly(_))));
    assert!(matches!(volume.unmount(), Err(Error::ReadOnly(_))));
    check_clean(&OverlayDevice::new(device)).unwrap();
}

/// 32 callers that each sync their writes share commits, and the data of each is there after a power cut.
#[test]
fn syncs_of_many_callers_share_flushes() {
    const CALLERS: usize = 32;
    const ROUNDS: usize = 8;
    let device = Arc::new(Faults::new(USUAL.make(), 8664));
    let volume = open(device.clone());
    let nodes: Vec<Node> =
        (0..CALLERS).map(|number| file(&volume, &format!("file {number}"), &[0; 8192])).collect();
    // The time that a flush takes on a disk, so that syncs of several callers meet.
    device.inject(When::from(Operation::Flush, 0), Fault::Delay(Duration::from_millis(2)));
    let before = device.count(Operation::Flush);
    std::thread::scope(|scope| {
        for node in &nodes {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    volume.write(*node, 0, &[1 + round as u8; 4096]).unwrap();
                    volume.sync(*node, SyncScope::All).unwrap();
                }
            });
        }
    });
    let flushes = device.count(Operation::Flush) - before;
    device.heal();
    // A sync alone takes three: for its data, for the log's pages, and for the page that makes them count.
    assert!(flushes * 8 < (3 * CALLERS * ROUNDS) as u64, "{flushes} flushes");
    let after = open(Arc::new(OverlayDevice::new(device)));
    for number in 0..CALLERS {
        let node = after.lookup(Node::ROOT, &Name::from(&*format!("file {number}"))).unwrap();
        assert!(content(&after, node, 4096) == [ROUNDS as u8; 4096]);
    }
}

/// So many files are open and were written in place that the log has no room to record all of them at once.
#[test]
fn a_sync_records_more_open_files_than_the_log_has_room_for() {
    const FILES: u64 = 12_000;
    let device = Volume { bytes: 256 << 20, ..USUAL }.make();
    let volume = open(device.clone());
    let name = |number: u64| Name::from(&*format!("{number} {}", "n".repeat(100)));
    let mut nodes = Vec::new();
    for number in 0..FILES {
        let node = volume.create(Node::ROOT, &name(number), Kind::File).unwrap();
        volume.write(node, 0, &[1; 2000]).unwrap();
        nodes.push(node);
    }
    volume.sync_all().unwrap();
    for node in &nodes {
        volume.write(*node, 0, &[2; 512]).unwrap();
    }
    volume.sync_all().unwrap();
    let copy: Arc<dyn Device> = Arc::new(OverlayDevice::new(device.clone()));
    let after = Ntfs.open(copy, OpenOptions::default()).unwrap();
    let node = after.lookup(Node::ROOT, &name(FILES - 1)).unwrap();
    let mut found = [0; 512];
    after.read(node, 0, &mut found).unwrap();
    assert!(found == [2; 512]);
    volume.unmount().unwrap();
    check_clean(&*device).unwrap();
}

#[test]
fn a_listing_goes_on_after_any_rest() {
    listings::in_turns(&Ntfs);
    listings::after_a_rest(&Ntfs);
}
