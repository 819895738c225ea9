//! Planned writes past the end that failed: their range reads as zeroes, and data that is written behind it stays.

use platter_device::{MemoryDevice, Sectors};
use platter_ntfs::Ntfs;
use platter_vfs::{FileSystem, Format, FormatOptions, Kind, Node, OpenOptions, Plan, Silent, SyncScope};
use std::sync::Arc;

fn open(device: &Arc<MemoryDevice>) -> Arc<dyn FileSystem> {
    Ntfs.open(device.clone(), OpenOptions::default()).unwrap()
}

fn content(system: &dyn FileSystem, node: Node) -> Vec<u8> {
    let mut content = vec![0xEE; system.attributes(node).unwrap().size as usize];
    assert_eq!(system.read(node, 0, &mut content).unwrap(), content.len());
    content
}

#[test]
fn what_is_written_behind_a_failed_write_stays() {
    let device = Arc::new(MemoryDevice::new(16 << 20, Sectors::SMALL));
    Ntfs.make(&*device, &FormatOptions { cluster: Some(4096), ..FormatOptions::default() }, &Silent).unwrap();
    let system = open(&device);
    let node = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
    system.write(node, 0, &[1; 12_288]).unwrap();
    let mut plan = Plan::default();
    system.plan_write(node, 16_384, &[2; 3072], &mut plan).unwrap();
    let failure = platter_device::Error::Unusable { device: "test".into(), reason: "told to fail".into() };
    system.finish_write(&mut plan, &[2; 3072], Err(failure)).unwrap_err();
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
    let device = Arc::new(MemoryDevice::new(16 << 20, Sectors::SMALL));
    Ntfs.make(&*device, &FormatOptions { cluster: Some(4096), ..FormatOptions::default() }, &Silent).unwrap();
    let system = open(&device);
    let node = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
    system.write(node, 0, &[1; 12_288]).unwrap();
    let (mut failed, mut written) = (Plan::default(), Plan::default());
    system.plan_write(node, 12_288, &[2; 8192], &mut failed).unwrap();
    system.plan_write(node, 20_480, &[3; 4096], &mut written).unwrap();
    written.write_to(&*device, &[3; 4096]).unwrap();
    system.finish_write(&mut written, &[3; 4096], Ok(())).unwrap();
    let failure = platter_device::Error::Unusable { device: "test".into(), reason: "told to fail".into() };
    system.finish_write(&mut failed, &[2; 8192], Err(failure)).unwrap_err();
    system.unmount().unwrap();
    let said = system.space().unwrap().free;
    drop(system);
    assert_eq!(open(&device).space().unwrap().free, said);
}
