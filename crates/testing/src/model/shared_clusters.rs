//! Two files that share their clusters, as a damaged volume may have them: whoever removes both gives the clusters back
//! twice, and the second time they may be another file's.

use platter_device::{MemoryDevice, Sectors};
use platter_vfs::{Error, Format, FormatOptions, Health, Kind, Name, Node, OpenOptions, Silent};
use std::sync::Arc;

/// Makes the image of a volume of `length` bytes with the files "one" and "two" in its root directory, which have clusters of their own.
///
/// # Panics
/// If it cannot be made.
pub fn two_files(format: &dyn Format, length: u64, cluster: Option<u64>) -> Vec<u8> {
    let device = Arc::new(MemoryDevice::new(length, Sectors::SMALL));
    let options = FormatOptions { cluster, ..FormatOptions::default() };
    format.make(&*device, &options, &Silent).expect("a volume of this size");
    let system = format.open(device.clone(), OpenOptions::default()).expect("the volume just made");
    for name in ["one", "two"] {
        let file = system.create(Node::ROOT, &Name::from(name), Kind::File).expect("room");
        system.write(file, 0, &[1; 10_000]).expect("room");
    }
    system.unmount().expect("a device that does not fail");
    device.to_image()
}

/// Removes the files "one" and "two" of the root directory, which share their clusters on the device, and another file
/// gets the clusters in between. The volume must stop with the second removal, before anything of it is on the device.
///
/// # Panics
/// If the volume goes on, or the other file is damaged.
pub fn giving_back_twice_stops_writing(format: &dyn Format, device: &Arc<MemoryDevice>) {
    let system = format.open(device.clone(), OpenOptions::default()).expect("a volume");
    let known = |name: &str| {
        let node = system.lookup(Node::ROOT, &Name::from(name)).expect(name);
        // The file's clusters are known from now on.
        let mut bytes = [0; 512];
        assert_eq!(system.read(node, 0, &mut bytes).expect("its content"), bytes.len());
        node
    };
    let nodes = [known("one"), known("two")];
    let remove = |name: &str, node: Node| {
        let removed = system.unlink(Node::ROOT, &Name::from(name));
        system.forget(node, 1);
        removed.and_then(|()| system.sync_all())
    };
    remove("one", nodes[0]).expect("the first removal");
    let other = system.create(Node::ROOT, &Name::from("other"), Kind::File).expect("a file");
    let space = system.space().expect("the volume");
    let content = vec![7; (space.cluster * (space.free - space.reserved) / 2) as usize];
    system.write(other, 0, &content).expect("room");
    system.sync_all().expect("a sync");
    let before = device.to_image();
    let refused = |what: &str, done: Result<(), Error>| match done {
        Err(Error::ReadOnly(why)) => assert!(why.contains(Health::SPACE_IS_WRONG), "{what}: {why}"),
        done => panic!("{what}: expected a refusal, found {done:?}"),
    };
    refused("the second removal", remove("two", nodes[1]));
    refused("a write", system.write(other, 0, &[8; 512]));
    refused("a new file", system.create(Node::ROOT, &Name::from("new"), Kind::File).map(|_| ()));
    let _ = system.unmount();
    assert!(device.to_image() == before, "something of the second removal was written");
    let system = format.open(device.clone(), OpenOptions::default()).expect("a volume");
    let other = system.lookup(Node::ROOT, &Name::from("other")).expect("the other file");
    let mut found = vec![0; content.len()];
    assert_eq!(system.read(other, 0, &mut found).expect("its content"), content.len());
    assert!(found == content, "the other file is damaged");
}
