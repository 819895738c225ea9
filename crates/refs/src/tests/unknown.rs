//! Tests of volumes with a part that is not known: they are read, and nothing on them is written.

use crate::layout::Checkpoint;
use crate::layout::bytes::put;
use crate::open::{Notes, anchors};
use crate::{Refs, RefsVolume};
use platter_device::{Device, MemoryDevice, Sectors};
use platter_vfs::{
    CheckOptions, Error, FileSystem, Format, FormatOptions, Kind, Names, Node, OpenOptions, Severity, Silent,
};
use std::sync::Arc;

/// Makes a volume with a file called "file" of 5000 times the byte 7.
pub(crate) fn with_a_file() -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(384 << 20, Sectors::SMALL));
    Refs::ANY.make(&*device, &FormatOptions::default(), &Silent).unwrap();
    let volume = RefsVolume::open(device.clone(), OpenOptions::default()).unwrap();
    let file = volume.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
    volume.write(file, 0, &[7; 5000]).unwrap();
    volume.unmount().unwrap();
    device
}

/// Makes a volume with a file, changes its checkpoints with `change` and seals them again.
fn changed(change: impl Fn(&mut Checkpoint)) -> Arc<MemoryDevice> {
    let device = with_a_file();
    let found = anchors(&*device, &mut Notes::default()).unwrap();
    let geometry = &found.geometry;
    for (slot, mut checkpoint) in found.checkpoints.clone() {
        change(&mut checkpoint);
        let cluster = found.superblock.checkpoints[slot];
        let sizes = (geometry.cluster as usize, geometry.page());
        let bytes = checkpoint.to_bytes(cluster, geometry.signature, sizes, geometry.own_algorithm());
        device.write_at(geometry.offset(cluster), &bytes).unwrap();
    }
    device
}

#[test]
fn a_checkpoint_with_unknown_flags_is_never_written() {
    // An Insider build of Windows sets this flag.
    let device = changed(|checkpoint| checkpoint.flags |= 0x2000);
    let before = device.to_image();
    let volume = RefsVolume::open(device.clone(), OpenOptions::default()).unwrap();
    let file = volume.lookup(Node::ROOT, &"file".into()).unwrap();
    let mut content = [0; 5000];
    assert_eq!(volume.read(file, 0, &mut content).unwrap(), 5000);
    assert_eq!(content, [7; 5000]);
    let refused = volume.create(Node::ROOT, &"other".into(), Kind::File).unwrap_err();
    assert!(matches!(&refused, Error::ReadOnly(why) if why.contains("0x2000")), "{refused}");
    volume.unmount().unwrap();
    drop(volume);
    for repair in [false, true] {
        let report = Refs::ANY.check(&*device, CheckOptions { repair }, &Silent).unwrap();
        let codes: Vec<_> = report.findings.iter().map(|finding| (finding.code, finding.severity)).collect();
        assert_eq!(codes, [("unknown-layout", Severity::Notice)]);
    }
    assert!(device.to_image() == before, "not a byte is another");
}

#[test]
fn repair_does_not_touch_what_is_damaged_there() {
    let device = changed(|checkpoint| checkpoint.flags |= 0x2000);
    let mut sector = [0; 512];
    device.read_at(0, &mut sector).unwrap();
    put(&mut sector, 0x30, 1u8);
    device.write_at(0, &sector).unwrap();
    let before = device.to_image();
    let report = Refs::ANY.check(&*device, CheckOptions { repair: true }, &Silent).unwrap();
    assert!(report.found > 1 && report.repaired == 0, "{:?}", report.findings);
    assert!(device.to_image() == before);
}
