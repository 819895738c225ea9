//! Large volumes, on devices that take memory only for what was written.

use crate::common::{check_clean, open};
use platter_device::{MemoryDevice, Sectors};
use platter_refs::Refs;
use platter_vfs::{Error, FileSystem, Format, FormatOptions, Kind, Names, Node, Silent};
use std::sync::Arc;

const TIB: u64 = 1 << 40;

fn make(bytes: u64) -> Result<Arc<MemoryDevice>, Error> {
    let device = Arc::new(MemoryDevice::new(bytes, Sectors::SMALL));
    Refs::ANY.make(&*device, &FormatOptions::default(), &Silent).map(|()| device)
}

/// The container tables of this volume take more than three containers, and every commit copies the pages of them that
/// it changes. The test is slow if allocating looks at all containers for each that it takes.
#[test]
fn tables_of_a_large_volume_have_room_for_their_copies() {
    let device = make(34 * TIB).unwrap();
    let system = open(device.clone());
    let node = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
    system.allocate(node, 0..2 * TIB, true).unwrap();
    system.sync_all().unwrap();
    system.unlink(Node::ROOT, &"file".into()).unwrap();
    system.forget(node, 1);
    system.sync_all().unwrap();
    system.unmount().unwrap();
    check_clean(&*device).unwrap();
}

#[test]
fn a_volume_that_is_too_large_is_refused_by_name() {
    let refused = make(64 * TIB + (64 << 20)).map(drop).unwrap_err();
    assert!(
        matches!(&refused, Error::CannotMake { reason, .. } if reason.contains("70368744177664")),
        "{refused}"
    );
}
