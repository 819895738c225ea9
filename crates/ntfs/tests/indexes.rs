//! Directories that grow and shrink, as other implementations and this crate's check see them.

use crate::common::{self, VOLUMES, Volume, open};
use crate::judges::readers::{self, assert_same, ours};
use crate::judges::{ImageFile, ntfsfix};
use platter_device::Device;
use platter_testing::model::Random;
use platter_vfs::{FileSystem, Kind, Name, Names, Node};
use std::collections::BTreeSet;
use std::sync::Arc;

fn name(random: &mut Random) -> String {
    format!("{:08x}{}", random.below(1 << 32), "ab ".repeat(random.below(60) as usize) + "end")
}

fn run(volume: Volume, seed: u64) {
    let device = volume.make();
    let mut random = Random::new(seed);
    let mut names = BTreeSet::new();
    let free = |device: &Arc<dyn Device>| open(device.clone()).space().unwrap().free;
    let shared: Arc<dyn Device> = device.clone();
    let mut after_first = None;
    // The second round finds the space that the first gave back; `$MFT` keeps the length that it got in the first.
    for round in 0..2 {
        let system = open(shared.clone());
        if round == 0 {
            system.create(Node::ROOT, &"directory".into(), Kind::Directory).unwrap();
        }
        let directory = system.lookup(Node::ROOT, &"directory".into()).unwrap();
        while names.len() < 1_500 {
            let name = name(&mut random);
            let file = system.create(directory, &Name::from(&*name), Kind::File).unwrap();
            system.forget(file, 1);
            names.insert(name);
        }
        system.unmount().unwrap();
        for left in [1_000, 400, 100, 20, 3, 0] {
            let system = open(shared.clone());
            let directory = system.lookup(Node::ROOT, &"directory".into()).unwrap();
            while names.len() > left {
                let gone = names.iter().nth(random.below(names.len() as u64) as usize).unwrap().clone();
                system.unlink(directory, &Name::from(&*gone)).unwrap();
                names.remove(&gone);
            }
            let tree = ours(&system);
            let prefix = "/directory/";
            let found: BTreeSet<&str> = tree.keys().filter_map(|path| path.strip_prefix(prefix)).collect();
            assert_eq!(found, names.iter().map(|name| &**name).collect());
            system.unmount().unwrap();
            let what = format!("{volume:?}, {left} names");
            common::check_clean(&*device).unwrap_or_else(|fault| panic!("{what}: {fault}"));
            if volume.sector == 512 && round == 0 && [400, 3].contains(&left) {
                let image = ImageFile::of(&*device);
                let verdict = ntfsfix(&image);
                assert!(verdict.clean, "{what}: {}", verdict.output);
                assert_same(&format!("{what}, ntfs-3g"), &tree, &readers::ntfs_3g(&image, &tree));
            }
        }
        let now = free(&shared);
        assert_eq!(*after_first.get_or_insert(now), now, "{volume:?}");
    }
    // An empty directory takes nothing but its record.
    let system = open(shared);
    let directory = system.lookup(Node::ROOT, &"directory".into()).unwrap();
    let before = system.space().unwrap().free;
    system.forget(directory, 1);
    system.rmdir(Node::ROOT, &"directory".into()).unwrap();
    system.sync_all().unwrap();
    assert_eq!(system.space().unwrap().free, before, "{volume:?}");
}

#[test]
fn directories_shrink_and_others_agree() {
    for (number, volume) in VOLUMES.into_iter().enumerate() {
        run(volume, 8664 + number as u64);
    }
}
