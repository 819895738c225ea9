//! Single bits and single sectors go bad at random places of a populated volume with integrity streams: a read returns
//! right data or an error, and on a mirror both copies are right again afterwards.

use crate::common::{VOLUMES, Volume, check_clean, content, open};
use platter_device::{Device, MemoryDevice, Mirror, OverlayDevice};
use platter_refs::{Refs, RefsVolume};
use platter_testing::model::{Random, seed};
use platter_vfs::{
    CheckOptions, Cursor, Error, FileSystem, Format, Kind, Name, Names, Node, OpenOptions, Result,
    ScrubOptions, Severity, Silent,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The paths of a volume, each with its content; `None` for a directory.
type Tree = BTreeMap<String, Option<Vec<u8>>>;

/// Makes small and large files, files with holes, named streams and several names, and symbolic links.
fn populate(volume: &impl FileSystem, cluster: u64) {
    let make = |directory, name: &str, kind| volume.create(directory, &Name::from(name), kind).unwrap();
    let mut above = Node::ROOT;
    for depth in 0..4 {
        above = make(above, &format!("directory {depth}"), Kind::Directory);
        for number in 0..40 {
            let node = make(above, &format!("file {number}"), Kind::File);
            volume.write(node, 0, &content(number, 150 * number as usize)).unwrap();
        }
        volume.symlink(above, &Name::from("link"), "some/where").unwrap();
    }
    let scattered = make(Node::ROOT, "scattered", Kind::File);
    for number in 0..200 {
        volume.write(scattered, 2 * number * cluster, &content(number, cluster as usize)).unwrap();
    }
    let large = make(Node::ROOT, "large", Kind::File);
    volume.write(large, 0, &content(1, 500_000)).unwrap();
    if volume.capabilities().hard_links {
        volume.link(large, above, &Name::from("large too")).unwrap();
    }
    for (name, length) in [("small", 60), ("not small", 100_000)] {
        let stream = volume.streams().unwrap().open(large, &Name::from(name), true).unwrap();
        volume.write(stream, 0, &content(2, length)).unwrap();
    }
}

/// Returns every path with its content, as far as it can be read, and the number of errors.
fn read(volume: &dyn FileSystem) -> (Tree, usize) {
    let (mut tree, mut errors) = (Tree::new(), 0);
    let mut todo = vec![(Node::ROOT, String::new())];
    while let Some((directory, path)) = todo.pop() {
        let (mut cursor, mut entries) = (Cursor::START, Vec::new());
        loop {
            entries.clear();
            if let Err(error) = volume.read_directory(directory, cursor, 100, &mut entries) {
                errors += precise(&error);
                break;
            }
            let Some(last) = entries.last() else { break };
            cursor = last.next;
            for entry in &entries {
                let path = format!("{path}/{}", entry.name);
                let one = |wanted: Result<Option<Vec<u8>>>, tree: &mut Tree, path: String| match wanted {
                    Ok(content) => {
                        tree.insert(path, content);
                        0
                    }
                    Err(error) => precise(&error),
                };
                match volume.lookup(directory, &entry.name) {
                    Err(error) => errors += precise(&error),
                    Ok(node) if entry.attributes.kind == Kind::Directory => {
                        tree.insert(path.clone(), None);
                        todo.push((node, path));
                    }
                    Ok(node) if entry.attributes.kind == Kind::SymbolicLink => {
                        let target = volume.read_link(node).map(|target| Some(target.into_bytes()));
                        errors += one(target, &mut tree, path);
                    }
                    Ok(node) => {
                        errors += one(whole(volume, node).map(Some), &mut tree, path.clone());
                        match volume.streams().and_then(|part| part.list(node)) {
                            Err(error) => errors += precise(&error),
                            Ok(streams) => {
                                for stream in streams {
                                    let content = volume
                                        .streams()
                                        .and_then(|part| part.open(node, &stream.name, false))
                                        .and_then(|node| whole(volume, node));
                                    let path = format!("{path}:{}", stream.name);
                                    errors += one(content.map(Some), &mut tree, path);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    (tree, errors)
}

fn whole(volume: &dyn FileSystem, node: Node) -> Result<Vec<u8>> {
    let mut bytes = vec![0; volume.attributes(node)?.size as usize];
    let got = volume.read(node, 0, &mut bytes)?;
    assert_eq!(got, bytes.len());
    Ok(bytes)
}

/// Counts one error, which must be one that names the damage.
fn precise(error: &Error) -> usize {
    assert!(matches!(error, Error::Damaged(_)), "{error:?}");
    1
}

/// Returns the offsets of all blocks of 4 KiB that have anything but zeroes: most damage elsewhere has no effect.
fn in_use(device: &dyn Device) -> Vec<u64> {
    let mut bytes = vec![0; 1 << 20];
    let mut all = Vec::new();
    for at in (0..device.len()).step_by(1 << 20) {
        device.read_at(at, &mut bytes).unwrap();
        let clusters = bytes.chunks(4096).zip(0..).filter(|(one, _)| one.iter().any(|&byte| byte != 0));
        all.extend(clusters.map(|(_, index)| at + 4096 * index));
    }
    all
}

/// Damages a bit or a sector in one of these blocks, and returns a description of the damage.
fn damage(device: &dyn Device, places: &[u64], random: &mut Random) -> String {
    let at = *random.pick(places);
    let mut bytes = vec![0; 4096];
    device.read_at(at, &mut bytes).unwrap();
    let what = if random.chance(50) {
        let bit = random.below(8 * 4096) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
        format!("bit {bit} of the cluster at {at:#x}")
    } else {
        let sector = random.below(8) as usize;
        random.fill(&mut bytes[512 * sector..512 * (sector + 1)]);
        format!("sector {sector} of the cluster at {at:#x}")
    };
    device.write_at(at, &bytes).unwrap();
    what
}

struct Planted {
    volume: Volume,
    device: Arc<MemoryDevice>,
    places: Vec<u64>,
    tree: Tree,
}

/// Returns a populated volume, and everything that can be read of it.
fn populated(volume: Volume) -> (Arc<MemoryDevice>, Tree) {
    let device = volume.make();
    let system = open(device.clone());
    populate(&system, volume.cluster);
    system.unmount().unwrap();
    let (tree, errors) = read(&open(device.clone()));
    assert_eq!(errors, 0);
    (device, tree)
}

fn planted(volume: Volume) -> Planted {
    let (device, tree) = populated(volume);
    Planted { volume, places: in_use(&*device), device, tree }
}

/// How often damage was without effect, confined to some errors, or kept the volume from being opened.
#[derive(Debug, Default)]
struct Seen {
    harmless: usize,
    confined: usize,
    not_opened: usize,
}

impl Planted {
    fn without_a_copy(&self, seeds: std::ops::Range<u64>) -> Seen {
        let mut seen = Seen::default();
        for seed in seeds {
            let device = Arc::new(OverlayDevice::new(self.device.clone()));
            let what = damage(&*device, &self.places, &mut Random::new(seed ^ 0x5EED_0000_0000));
            let what = format!("{:?}, seed {seed}, {what}", self.volume);
            let system = match Refs::ANY.open(device, OpenOptions { read_only: true, ..Default::default() }) {
                Ok(system) => system,
                Err(error) => {
                    assert!(matches!(error, Error::Damaged(_)), "{what}: {error}");
                    println!("not opened: {what}: {error}");
                    seen.not_opened += 1;
                    continue;
                }
            };
            let (tree, errors) = read(&*system);
            for (path, content) in &tree {
                let planted = self.tree.get(path).unwrap_or_else(|| panic!("{what}: {path} is new"));
                assert!(planted == content, "{what}: {path} is wrong");
            }
            let lost = self.tree.len() - tree.len();
            assert!(lost == 0 || errors > 0, "{what}: {lost} names are missing, and nothing says so");
            *(if errors == 0 { &mut seen.harmless } else { &mut seen.confined }) += 1;
        }
        seen
    }

    /// Damages one of two copies. Everything can be read as before, and after a scrub the copies are the same, except
    /// where the damage is in space that nothing uses: of two copies that differ there, neither is known to be right.
    fn on_a_mirror(&self, seed: u64) {
        let copies: Vec<Arc<OverlayDevice>> =
            (0..2).map(|_| Arc::new(OverlayDevice::new(self.device.clone()))).collect();
        let mut random = Random::new(seed ^ 0x5EED_0000_0001);
        let damaged = random.pick(&copies);
        let what = damage(&**damaged, &self.places, &mut random);
        let what = format!("{:?}, seed {seed}, {what}", self.volume);
        let both = copies.iter().map(|copy| copy.clone() as Arc<dyn Device>).collect();
        let mirror: Arc<Mirror> = Arc::new(Mirror::new(both).unwrap());
        let system = Refs::ANY.open(mirror.clone(), OpenOptions { read_only: true, ..Default::default() });
        let (tree, errors) = read(&*system.unwrap_or_else(|error| panic!("{what}: {error}")));
        assert!(errors == 0 && tree == self.tree, "{what}: {errors} errors");
        let report = Refs::ANY.scrub(mirror.clone(), &ScrubOptions::default(), &Silent).unwrap();
        let is_unused = |one: &platter_vfs::Damaged| {
            (one.finding.code, &one.finding.path, one.finding.severity)
                == ("mirror-differs", &None, Severity::Notice)
        };
        let mut left = report.damaged.iter().filter(|one| !one.finding.repaired).peekable();
        let is_left = left.peek().is_some();
        assert!(left.all(is_unused), "{what}: {report:?}");
        let repaired = report.found + mirror.repaired().iter().sum::<u64>() > 0;
        let same = self.places.iter().all(|&place| {
            let mut bytes = [[0; 4096]; 2];
            copies.iter().zip(&mut bytes).for_each(|(copy, bytes)| copy.read_at(place, bytes).unwrap());
            bytes[0] == bytes[1]
        });
        assert!(same || is_left, "{what}: the copies differ");
        assert!(repaired, "{what}: nothing was found");
    }
}

/// Returns the kinds of volume on which all damage is noticed, since everything has a checksum.
fn kinds() -> impl Iterator<Item = Volume> {
    VOLUMES.into_iter().filter(|volume| volume.integrity && volume.checksum != "none")
}

/// Returns the offsets of all metadata pages of a table, old ones included.
fn pages_of(device: &dyn Device, table: u64, page: usize) -> Vec<u64> {
    let mut bytes = vec![0; page];
    let mut found = Vec::new();
    for at in (0..device.len() / page as u64).map(|number| number * page as u64) {
        device.read_at(at, &mut bytes).unwrap();
        if bytes.starts_with(b"MSB+") && bytes[0x48..0x50] == table.to_le_bytes() {
            found.push(at);
        }
    }
    found
}

/// Every table that is kept twice can lose either copy.
#[test]
fn a_volume_opens_without_one_copy_of_a_table() {
    let volume = VOLUMES[1];
    let (device, expected) = populated(volume);
    for table in [0x01, 0x02, 0x04, 0x06, 0x0B, 0x0C, 0x07, 0x08] {
        let damaged = Arc::new(OverlayDevice::new(device.clone()));
        let pages = pages_of(&*device, table, 16384);
        assert!(!pages.is_empty(), "table {table:#x}");
        for at in pages {
            damaged.write_at(at, &[0; 16384]).unwrap();
        }
        let system = RefsVolume::open(damaged, OpenOptions::default());
        let system = system.unwrap_or_else(|error| panic!("without table {table:#x}: {error}"));
        assert_eq!(read(&system), (expected.clone(), 0), "without table {table:#x}");
    }
}

/// A volume without its first superblock or either checkpoint has all its files and can be written.
#[test]
fn a_volume_opens_without_a_superblock_or_a_checkpoint() {
    for volume in [VOLUMES[1], VOLUMES[3]] {
        let (device, expected) = populated(volume);
        let superblock = 30 * volume.cluster;
        let mut bytes = vec![0; 4096];
        device.read_at(superblock, &mut bytes).unwrap();
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let checkpoints = [word(0xC0), word(0xC8)].map(|cluster| cluster * volume.cluster);
        let mut signature = vec![0; 4096];
        for (at, expected) in [(superblock, b"SUPB"), (checkpoints[0], b"CHKP"), (checkpoints[1], b"CHKP")] {
            device.read_at(at, &mut signature).unwrap();
            assert!(signature.starts_with(expected), "{at:#x}");
        }
        for at in [superblock, checkpoints[0], checkpoints[1]] {
            let damaged = Arc::new(OverlayDevice::new(device.clone()));
            damaged.write_at(at, &vec![0; volume.cluster as usize]).unwrap();
            let system = open(damaged.clone());
            assert_eq!(read(&system), (expected.clone(), 0), "{volume:?}, without {at:#x}");
            assert_eq!(system.notes().len(), 1, "{:?}", system.notes());
            system.create(Node::ROOT, &Name::from("new"), Kind::File).unwrap();
            system.unmount().unwrap();
            let (mut now, errors) = read(&open(damaged));
            assert_eq!((now.remove("/new"), errors), (Some(Some(Vec::new())), 0));
            assert_eq!(now, expected);
        }
    }
}

/// A volume can be read without the tables that reading does not need: allocators, parent-child table, reference counts
/// and security descriptors, and without the root directory's own record.
#[test]
fn a_volume_whose_allocators_are_lost_is_read() {
    let volume = VOLUMES[1];
    let (device, expected) = populated(volume);
    for table in [0x20, 0x21, 0x22, 0x03, 0x05, 0x530] {
        let damaged = Arc::new(OverlayDevice::new(device.clone()));
        pages_of(&*device, table, 16384).iter().for_each(|&at| damaged.write_at(at, &[0; 16384]).unwrap());
        let system = open(damaged.clone());
        assert_eq!(read(&system), (expected.clone(), 0), "without table {table:#x}");
        let made = system.create(Node::ROOT, &Name::from("new"), Kind::Directory);
        match table {
            // The parent-child table is needed only to make directories.
            0x03 => assert!(matches!(made, Err(Error::Damaged(_))), "{made:?}"),
            _ => assert!(matches!(made, Err(Error::ReadOnly(_))), "without table {table:#x}: {made:?}"),
        }
        let report = Refs::ANY.check(&*damaged, CheckOptions { repair: true }, &Silent).unwrap();
        assert_eq!(report.remaining, None, "without table {table:#x}: {:#?}", report.findings);
        assert_eq!(read(&open(damaged)), (expected.clone(), 0), "without table {table:#x}");
    }
    // With 400 more files the root directory has several pages, and each is damaged in turn.
    let system = open(device.clone());
    for number in 0..400 {
        system.create(Node::ROOT, &Name::from(format!("file {number}").as_str()), Kind::File).unwrap();
    }
    system.unmount().unwrap();
    let (all, _) = read(&open(device.clone()));
    let mut only_read = 0;
    for at in pages_of(&*device, 0x600, 16384) {
        let damaged = Arc::new(OverlayDevice::new(device.clone()));
        damaged.write_at(at + 512, &[7; 512]).unwrap();
        let system = open(damaged);
        let (found, errors) = read(&system);
        assert!(found == all || errors > 0, "page {at:#x}");
        let read_only =
            matches!(system.create(Node::ROOT, &Name::from("new"), Kind::File), Err(Error::ReadOnly(_)));
        only_read += usize::from(read_only);
    }
    assert!((1..4).contains(&only_read), "{only_read}");
}

/// Where a page of a directory is damaged, the names in that page cannot be removed, and all others can, also those in
/// the pages next to it. Clusters in use are never marked free.
#[test]
fn a_damaged_page_of_a_directory_harms_only_its_own_names() {
    let device: Arc<dyn Device> = VOLUMES[0].make();
    let system = open(device.clone());
    let name = |number: usize| Name::from(format!("file {number:04}").as_str());
    for number in 0..400 {
        system.create(Node::ROOT, &name(number), Kind::File).unwrap();
    }
    system.unmount().unwrap();
    let with_damage = |at| {
        let damaged = Arc::new(OverlayDevice::new(device.clone()));
        let mut bytes = vec![0; 4096];
        damaged.read_at(at, &mut bytes).unwrap();
        bytes[2000] ^= 4;
        damaged.write_at(at, &bytes).unwrap();
        damaged
    };
    let lost = |at| {
        let system = open(with_damage(at));
        (0..400).filter(|&number| system.lookup(Node::ROOT, &name(number)).is_err()).count()
    };
    // The page with the directory's own record is left out: without it the volume is read-only.
    let is_writable = |&at: &u64| open(with_damage(at)).sync_all().is_ok() && lost(at) < 400;
    let leaf = pages_of(&*device, 0x600, 16384).into_iter().filter(is_writable).find(|&at| lost(at) > 0);
    let (leaf, mut refused) = (leaf.expect("a page with names in it"), 0);
    for number in 0..400 {
        let damaged = with_damage(leaf);
        let system = open(damaged.clone());
        match system.unlink(Node::ROOT, &name(number)) {
            Ok(()) => assert!(matches!(system.lookup(Node::ROOT, &name(number)), Err(Error::NotFound))),
            Err(error) => refused += precise(&error),
        }
        system.create(Node::ROOT, &Name::from("zzz"), Kind::File).unwrap();
        system.sync_all().unwrap();
        system.unmount().unwrap();
        let report = Refs::ANY.check(&*damaged, CheckOptions::default(), &Silent).unwrap();
        let codes: Vec<&str> = report.findings.iter().map(|finding| finding.code).collect();
        assert!(!codes.contains(&"marked-free"), "without {number}: {codes:?}");
    }
    assert_eq!(refused, lost(leaf));
}

#[test]
fn what_is_read_is_right_or_an_error() {
    for volume in kinds() {
        let seen = planted(volume).without_a_copy(0..40);
        assert!(seen.confined > 20 && seen.not_opened < 3, "{volume:?}: {seen:?}");
    }
}

#[test]
fn a_mirror_repairs_what_was_damaged() {
    for volume in kinds() {
        let planted = planted(volume);
        (0..16).for_each(|seed| planted.on_a_mirror(seed));
    }
}

/// 100,000 damaged places, half of them on mirrors: `cargo test --release -p platterfs-refs --test suite damage:: --
/// --ignored --nocapture`, with `PLATTER_SEED=n` for other seeds.
#[test]
#[ignore = "a campaign: takes an hour"]
fn a_hundred_thousand_places() {
    let seed = seed();
    let all: Vec<Planted> = kinds().map(planted).collect();
    let mut total = Seen::default();
    for round in 0..100_000 / 100 {
        let start = 1_000_000 * seed + 50 * round;
        let planted = &all[round as usize % all.len()];
        let seen = planted.without_a_copy(start..start + 50);
        total.harmless += seen.harmless;
        total.confined += seen.confined;
        total.not_opened += seen.not_opened;
        (start..start + 50).for_each(|seed| planted.on_a_mirror(seed));
        if (round + 1).is_multiple_of(10) {
            println!("{} done: {total:?}", 100 * (round + 1));
        }
    }
    println!("50,000 places without a copy: {total:?}; 50,000 on mirrors, all repaired");
}

/// One copy of a mirror can have any of the first structures damaged, or all of them: what is read and written then is
/// the newest state of the volume, and a repair makes the copies alike.
#[test]
fn a_mirror_opens_without_the_first_structures_of_one_copy() {
    for volume in [VOLUMES[1], VOLUMES[3], VOLUMES[4]] {
        let (device, mut expected) = populated(volume);
        // Only the newest checkpoint has this file.
        let options = OpenOptions { commits_syncs: true, ..OpenOptions::default() };
        let system = RefsVolume::open(device.clone(), options).unwrap();
        system.create(Node::ROOT, &Name::from("last"), Kind::File).unwrap();
        system.sync_all().unwrap();
        drop(system);
        expected.insert("/last".into(), Some(Vec::new()));

        let superblock = 30 * volume.cluster;
        let mut bytes = vec![0; 4096];
        device.read_at(superblock, &mut bytes).unwrap();
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let clusters = device.len() / volume.cluster;
        let mut places: Vec<u64> = [30, clusters - 2, clusters - 3, word(0xC0), word(0xC8)]
            .iter()
            .map(|cluster| cluster * volume.cluster)
            .collect();
        places.extend([0, device.len() - 4096]);
        let each = places.iter().map(|&place| vec![place]);
        for (damaged, copy) in
            each.chain([places.clone()]).flat_map(|places| [(places.clone(), 0), (places, 1)])
        {
            let what = format!("{volume:?}, copy {copy} without {damaged:x?}");
            let copies: Vec<Arc<OverlayDevice>> =
                (0..2).map(|_| Arc::new(OverlayDevice::new(device.clone()))).collect();
            for &place in &damaged {
                copies[copy].write_at(place, &[0x5A; 4096]).unwrap();
            }
            let both = copies.iter().map(|copy| copy.clone() as Arc<dyn Device>).collect();
            let mirror: Arc<dyn Device> = Arc::new(Mirror::new(both).unwrap());
            let report = Refs::ANY.check(&*mirror, CheckOptions::default(), &Silent).unwrap();
            let worst = report.findings.iter().map(|finding| finding.severity).max();
            assert!(worst <= Some(Severity::Inconsistent), "{what}: {report:?}");
            let system = open(mirror.clone());
            assert!(read(&system) == (expected.clone(), 0), "{what}: another state of the volume");
            system.create(Node::ROOT, &Name::from("new"), Kind::File).unwrap();
            system.unmount().unwrap();
            let repair = CheckOptions { repair: true };
            Refs::ANY.check(&*mirror, repair, &Silent).unwrap();
            Refs::ANY.scrub(mirror.clone(), &ScrubOptions::default(), &Silent).unwrap();
            for one in copies {
                check_clean(&*one).unwrap_or_else(|found| panic!("{what}: {found}"));
                let (mut now, errors) = read(&open(one));
                assert_eq!((now.remove("/new"), errors), (Some(Some(Vec::new())), 0), "{what}");
                assert!(now == expected, "{what}: another state of the volume");
            }
        }
    }
}

/// A disk can lose a write without an error. If that was the newest checkpoint, its copy of a mirror has an older one,
/// and nothing else is wrong with it: what is read and written is the newest state all the same, whichever copy it is,
/// and the copy gets what it lost.
#[test]
fn a_mirror_of_which_a_disk_lost_the_newest_checkpoint_shows_the_newest_state() {
    for volume in [VOLUMES[1], VOLUMES[3], VOLUMES[4]] {
        let device: Arc<MemoryDevice> = populated(volume).0;
        let pages = |device: &dyn Device| -> [(u64, Vec<u8>); 2] {
            let mut superblock = vec![0; 4096];
            device.read_at(30 * volume.cluster, &mut superblock).unwrap();
            [0xC0, 0xC8].map(|at| {
                let cluster = u64::from_le_bytes(superblock[at..at + 8].try_into().unwrap());
                let mut page = vec![0; 4096];
                device.read_at(cluster * volume.cluster, &mut page).unwrap();
                (cluster * volume.cluster, page)
            })
        };
        let options = OpenOptions { commits_syncs: true, ..OpenOptions::default() };
        let system = RefsVolume::open(device.clone(), options).unwrap();
        system.create(Node::ROOT, &Name::from("first"), Kind::File).unwrap();
        system.sync_all().unwrap();
        let before = pages(&*device);
        system.create(Node::ROOT, &Name::from("last"), Kind::File).unwrap();
        system.sync_all().unwrap();
        drop(system);
        let after = pages(&*device);
        let lost: Vec<_> = before.iter().zip(&after).filter(|(before, after)| before != after).collect();
        let [((place, old), (_, new))] = lost[..] else { panic!("a commit writes one checkpoint") };

        for (copy, scrubbed) in [(0, false), (1, false), (0, true), (1, true)] {
            let what = format!("{volume:?}, copy {copy}");
            let copies = [0, 1].map(|_| Arc::new(OverlayDevice::new(device.clone())));
            copies[copy].write_at(*place, old).unwrap();
            let alone = open(copies[copy].clone());
            assert!(alone.lookup(Node::ROOT, &"last".into()).is_err(), "{what}: nothing was lost");
            drop(alone);
            let both = copies.iter().map(|copy| copy.clone() as Arc<dyn Device>).collect();
            let mirror: Arc<dyn Device> = Arc::new(Mirror::new(both).unwrap());
            open(mirror.clone()).lookup(Node::ROOT, &"last".into()).expect(&what);
            let mut page = vec![0; 4096];
            match scrubbed {
                true => {
                    let report = Refs::ANY.scrub(mirror.clone(), &ScrubOptions::default(), &Silent).unwrap();
                    let [found] = &report.damaged[..] else { panic!("{what}: {report:?}") };
                    assert!(found.finding.repaired && found.copies == [copy], "{what}: {found:?}");
                }
                false => {
                    let report = Refs::ANY.check(&*mirror, CheckOptions::default(), &Silent).unwrap();
                    let [found] = &report.findings[..] else { panic!("{what}: {report:?}") };
                    assert_eq!(
                        (found.code, found.severity),
                        ("checkpoint", Severity::Inconsistent),
                        "{what}"
                    );
                    Refs::ANY.check(&*mirror, CheckOptions { repair: true }, &Silent).unwrap();
                }
            }
            copies[copy].read_at(*place, &mut page).unwrap();
            assert!(page == *new, "{what}: it has not got what it lost");
            copies[copy].write_at(*place, old).unwrap();
            let system = open(mirror.clone());
            system.create(Node::ROOT, &Name::from("new"), Kind::File).unwrap();
            system.unmount().unwrap();
            for one in copies {
                let system = open(one);
                for name in ["first", "last", "new"] {
                    system.lookup(Node::ROOT, &name.into()).expect(&what);
                }
            }
        }
    }
}
