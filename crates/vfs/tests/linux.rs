//! Owners and modes, kept in a volume's extended attributes.

use platter_device::{MemoryDevice, Sectors};
use platter_testing::{MemoryFileSystem, MemoryOptions};
use platter_vfs::linux::LinuxAttributes;
use platter_vfs::{FileSystem, Kind, Name, Names, Node};
use std::sync::Arc;

#[test]
fn owners_are_read_back_as_they_were_written() {
    let device = Arc::new(MemoryDevice::new(1 << 20, Sectors::SMALL));
    let system = MemoryFileSystem::new(device, MemoryOptions::default());
    let node = system.create(Node::ROOT, &Name::from("f"), Kind::File).unwrap();
    assert!(LinuxAttributes::read(&system, node).unwrap().is_empty());
    let some = LinuxAttributes { uid: Some(1000), mode: Some(0o60644), device: Some((8, 1)), gid: None };
    some.write(&system, node).unwrap();
    assert_eq!(LinuxAttributes::read(&system, node).unwrap(), some);
    assert!(
        system
            .extended_attributes()
            .unwrap()
            .list(node)
            .unwrap()
            .iter()
            .all(|name| LinuxAttributes::has(name))
    );
}
