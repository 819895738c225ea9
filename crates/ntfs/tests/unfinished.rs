//! Planned writes past the end that failed: their range reads as zeroes, and data that is written behind it stays.

use platter_device::{MemoryDevice, Sectors};
use platter_ntfs::Ntfs;
use platter_vfs::{
    Change, FileSystem, Format, FormatOptions, Kind, Node, OpenOptions, Plan, Silent, SyncScope,
};
use std::sync::Arc;

fn open(device: &Arc<MemoryDevice>) -> Arc<dyn FileSystem> {
    Ntfs.open(device.clone(), OpenOptions::default()).unwrap()
}

/// A new volume, with a file of three clusters of ones.
fn begun() -> (Arc<MemoryDevice>, Arc<dyn FileSystem>, Node) {
    let device = Arc::new(MemoryDevice::new(16 << 20, Sectors::SMALL));
    Ntfs.make(&*device, &FormatOptions { cluster: Some(4096), ..FormatOptions::default() }, &Silent).unwrap();
    let system = open(&device);
    let node = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
    system.write(node, 0, &[1; 12_288]).unwrap();
    (device, system, node)
}

fn resize(system: &dyn FileSystem, node: Node, size: u64) {
    system.set_attributes(node, &Change { size: Some(size), ..Change::default() }).unwrap();
}

fn failure() -> platter_device::Error {
    platter_device::Error::Unusable { device: "test".into(), reason: "told to fail".into() }
}

fn content(system: &dyn FileSystem, node: Node) -> Vec<u8> {
    let mut content = vec![0xEE; system.attributes(node).unwrap().size as usize];
    assert_eq!(system.read(node, 0, &mut content).unwrap(), content.len());
    content
}

#[test]
fn what_is_written_behind_a_failed_write_stays() {
    let (device, system, node) = begun();
    let mut plan = Plan::default();
    system.plan_write(node, 16_384, &[2; 3072], &mut plan).unwrap();
    system.finish_write(&mut plan, &[2; 3072], Err(failure())).unwrap_err();
    system.write(node, 20_896, &[3; 881]).unwrap();
    let expected = [vec![1; 12_288], vec![0; 20_896 - 12_288], vec![3; 881]].concat();
    assert!(content(&*system, node) == expected);
    system.sync(node, SyncScope::All).unwrap();
    assert!(content(&*system, node) == expected, "after a sync");
    system.forget(node, 1);
    let node = system.lookup(Node::ROOT, &"file".into()).unwrap();
    assert!(content(&*system, node) == expected, "after it was let go");
    system.unmount().unwrap();
    let system = open(&device);
    let node = system.lookup(Node::ROOT, &"file".into()).unwrap();
    assert!(content(&*system, node) == expected, "after it was opened anew");
}

/// The clusters of a failed write are free again, as nothing on disk leads to them.
#[test]
fn a_failed_write_takes_no_clusters_along() {
    let (device, system, node) = begun();
    let (mut failed, mut written) = (Plan::default(), Plan::default());
    system.plan_write(node, 12_288, &[2; 8192], &mut failed).unwrap();
    system.plan_write(node, 20_480, &[3; 4096], &mut written).unwrap();
    written.write_to(&*device, &[3; 4096]).unwrap();
    system.finish_write(&mut written, &[3; 4096], Ok(())).unwrap();
    system.finish_write(&mut failed, &[2; 8192], Err(failure())).unwrap_err();
    system.unmount().unwrap();
    let said = system.space().unwrap().free;
    drop(system);
    assert_eq!(open(&device).space().unwrap().free, said);
}

/// A sync exchanges the clusters of the gap before a write that has finished. A read in flight then finds in the old
/// clusters what a write in flight has put there, which all later readers do not see yet.
#[test]
fn a_read_in_flight_sees_no_more_than_later_ones() {
    let (device, system, node) = begun();
    resize(&*system, node, 3000);
    let (mut early, mut late, mut read) = (Plan::default(), Plan::default(), Plan::default());
    system.plan_write(node, 2048, &[2; 3072], &mut early).unwrap();
    let mut found = vec![0xEE; 3072];
    system.plan_read(node, 0, found.len(), &mut read).unwrap();
    system.plan_write(node, 8192, &[3; 4096], &mut late).unwrap();
    late.write_to(&*device, &[3; 4096]).unwrap();
    system.finish_write(&mut late, &[3; 4096], Ok(())).unwrap();
    system.sync(node, SyncScope::All).unwrap();
    early.write_to(&*device, &[2; 3072]).unwrap();
    let done = read.read_from(&*device, &mut found);
    let seen = system.finish_read(&mut read, &mut found, done).unwrap();
    assert!(seen == 3000 && found[..3000] == [1; 3000], "it saw a write that has not finished");
    assert!(content(&*system, node)[..3000] == [1; 3000]);
    system.finish_write(&mut early, &[2; 3072], Ok(())).unwrap();
    let expected = [vec![1; 2048], vec![2; 3072], vec![0; 3072], vec![3; 4096]].concat();
    assert!(content(&*system, node) == expected);
    system.unmount().unwrap();
}

/// The gap before a write in flight is zeroed, and becomes part of the file when another caller makes it longer. A write
/// in place there is durable only together with the new size.
#[test]
fn a_write_in_place_past_the_size_on_disk_needs_a_sync() {
    for longer in [true, false] {
        let (device, system, node) = begun();
        let mut ahead = Plan::default();
        system.plan_write(node, 23_552, &[2; 1024], &mut ahead).unwrap();
        match longer {
            true => {
                system.sync(node, SyncScope::Data).unwrap();
                system.allocate(node, 22_528..24_576, false).unwrap();
            }
            // A size can be set only when no plan is under way.
            false => {
                system.finish_write(&mut ahead, &[2; 1024], Err(failure())).unwrap_err();
                system.sync(node, SyncScope::Data).unwrap();
                resize(&*system, node, 24_576);
            }
        }
        let mut inside = Plan::default();
        system.plan_write(node, 14_336, &[3; 512], &mut inside).unwrap();
        inside.write_to(&*device, &[3; 512]).unwrap();
        let needs_sync = system.finish_write(&mut inside, &[3; 512], Ok(())).unwrap();
        assert!(needs_sync, "the size on disk is smaller");
    }
}

/// A commit counts as one that covers the valid length, so that a write in place below it is durable by itself, only if
/// it records that length: also while the write that moved it is in flight.
#[test]
fn a_commit_records_the_length_that_a_write_in_flight_has_moved() {
    let (device, system, node) = begun();
    resize(&*system, node, 1024);
    resize(&*system, node, 7680);
    system.sync(node, SyncScope::Data).unwrap();
    let (mut behind, mut inside) = (Plan::default(), Plan::default());
    system.plan_write(node, 7680, &[2; 512], &mut behind).unwrap();
    system.sync_all().unwrap();
    system.plan_write(node, 2560, &[3; 512], &mut inside).unwrap();
    inside.write_to(&*device, &[3; 512]).unwrap();
    let needs_sync = system.finish_write(&mut inside, &[3; 512], Ok(())).unwrap();
    assert!(!needs_sync, "the length is on disk");
    // As after a power cut: nothing more is written.
    let system = open(&device);
    let node = system.lookup(Node::ROOT, &"file".into()).unwrap();
    let expected = [vec![1; 1024], vec![0; 1536], vec![3; 512], vec![0; 7680 - 3072]].concat();
    assert!(content(&*system, node) == expected);
}
