//! Recovery of deleted files.

use platter_device::{Device, MemoryDevice, Sectors};
use platter_exfat::{Exfat, ExfatVolume};
use platter_vfs::{
    FileSystem, Format, FormatOptions, Kind, Name, Names, Node, OpenOptions, RecoverReport, Silent,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a recovery found: the content of each file by path, with whether it was deleted.
type Tree = BTreeMap<String, (bool, Vec<u8>)>;

fn recovered(device: Arc<dyn Device>) -> (Tree, RecoverReport) {
    let mut tree = Tree::new();
    let report = Exfat.recover(device, &Silent, &mut |found, data| {
        if found.kind == Kind::File {
            let mut content = vec![0; found.size as usize];
            assert_eq!(data.read(0, &mut content)?, content.len());
            let path: String = found.path.iter().map(|name| format!("/{name}")).collect();
            assert!(tree.insert(path, (found.deleted, content)).is_none());
        }
        Ok(())
    });
    (tree, report.unwrap())
}

fn content(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(seed) ^ (at >> 8) as u8).collect()
}

/// The entry of a deleted file stays, with its checksum, and says that the file is in one piece: so it comes back for
/// certain, also from a directory that was deleted. So does one in pieces, of which the FAT keeps the chain.
#[test]
fn deleted_files_come_back() {
    let memory = Arc::new(MemoryDevice::new(8 << 20, Sectors::SMALL));
    let options = FormatOptions { cluster: Some(1024), ..FormatOptions::default() };
    Exfat.make(&*memory, &options, &Silent).unwrap();
    let volume = ExfatVolume::open(memory.clone(), OpenOptions::default()).unwrap();
    let make = |above, name: &str, kind| volume.create(above, &Name::from(name), kind).unwrap();
    let photos = make(Node::ROOT, "DCIM", Kind::Directory);
    let gone = make(photos, "a directory that goes", Kind::Directory);
    let mut deleted = BTreeMap::new();
    for number in 0..12_u8 {
        for (above, path, name) in [
            (photos, "/DCIM", format!("A photo with a long name {number}.jpeg")),
            (gone, "/DCIM/a directory that goes", format!("inside {number}")),
        ] {
            let long = content(3000 * usize::from(number), number | 1);
            let file = make(above, &name, Kind::File);
            volume.write(file, 0, &long).unwrap();
            if above == gone || number % 2 == 1 {
                deleted.insert(format!("{path}/{name}"), long);
            }
        }
    }
    let [one, two] = ["one", "two"].map(|name| make(Node::ROOT, name, Kind::File));
    for turn in 0..4 {
        for file in [one, two] {
            volume.write(file, turn * 2048, &content(2048, turn as u8)).unwrap();
            volume.sync_all().unwrap();
        }
    }
    deleted.insert("/one".into(), (0..4).flat_map(|turn| content(2048, turn)).collect());
    volume.unlink(Node::ROOT, &Name::from("one")).unwrap();
    for number in 0..12 {
        volume.unlink(gone, &Name::from(format!("inside {number}").as_str())).unwrap();
        if number % 2 == 1 {
            let name = format!("A photo with a long name {number}.jpeg");
            volume.unlink(photos, &Name::from(name.as_str())).unwrap();
        }
    }
    volume.rmdir(photos, &Name::from("a directory that goes")).unwrap();
    volume.forget(one, 1);
    volume.unmount().unwrap();
    let (tree, report) = recovered(memory.clone());
    for (path, content) in &deleted {
        assert!(tree.get(path) == Some(&(true, content.clone())), "{path}: {:?}", tree.keys());
    }
    assert_eq!((report.deleted, report.overwritten), (deleted.len() as u64, 0));
    assert!(!tree["/two"].0 && !tree["/DCIM/A photo with a long name 0.jpeg"].0);

    let volume = ExfatVolume::open(memory.clone(), OpenOptions::default()).unwrap();
    let file = volume.create(Node::ROOT, &Name::from("fills all"), Kind::File).unwrap();
    let free = volume.space().unwrap();
    volume.write(file, 0, &vec![0xEE; (free.free * free.cluster) as usize]).unwrap();
    volume.unmount().unwrap();
    let (tree, report) = recovered(memory);
    let back: Vec<_> =
        tree.values().filter(|(is_deleted, content)| *is_deleted && !content.is_empty()).collect();
    assert!(back.is_empty() && report.overwritten > 0, "{} {report:?}", back.len());
}
