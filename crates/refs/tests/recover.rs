//! Recovery of files from volumes that cannot be opened.

use crate::common::{BYTES, VOLUMES, content, open};
use platter_device::{Device, MemoryDevice, Mirror, OverlayDevice};
use platter_refs::Refs;
use platter_testing::model::{Random, seed, told};
use platter_vfs::{
    CheckOptions, Cursor, FileSystem, Format, Kind, Name, Names, Node, OpenOptions, RecoverReport,
    RenameFlags, Silent,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What was recovered: for each path, whether it was deleted, and its content.
type Harvest = BTreeMap<String, (bool, Option<Vec<u8>>)>;

fn recover(device: Arc<dyn Device>) -> (RecoverReport, Harvest) {
    let mut harvest = Harvest::new();
    let report = Refs::ANY.recover(device, &Silent, &mut |found, data| {
        let mut path: String = found.path.iter().map(|name| format!("/{name}")).collect();
        if let Some(stream) = &found.stream {
            path += &format!(":{stream}");
        }
        let content = match found.kind {
            Kind::Directory => Some(b"directory".to_vec()),
            Kind::SymbolicLink => found.target.clone().map(String::into_bytes),
            Kind::File => {
                let mut bytes = vec![0; found.size as usize];
                data.read(0, &mut bytes).ok().map(|got| bytes[..got].to_vec())
            }
        };
        // A deleted file, or one in a damaged directory, may have the path of another file: the first one found is
        // kept.
        harvest.entry(path).or_insert((found.deleted, content));
        Ok(())
    });
    (report.unwrap(), harvest)
}

/// Makes files of every kind, with several commits in between, and returns what a recovery must find.
fn plant(device: Arc<MemoryDevice>) -> Harvest {
    let system = open(device);
    let mut planted = Harvest::new();
    let make = |above: Node, name: &str, kind: Kind| system.create(above, &Name::from(name), kind).unwrap();
    let below = make(Node::ROOT, "below", Kind::Directory);
    let deep = make(below, "deep", Kind::Directory);
    make(deep, "empty", Kind::Directory);
    for path in ["/below", "/below/deep", "/below/deep/empty"] {
        planted.insert(path.into(), (false, Some(b"directory".to_vec())));
    }
    let mut put = |path: &str, node: Node, length: usize| {
        let bytes = content(planted.len() as u64, length);
        system.write(node, 0, &bytes).unwrap();
        planted.insert(path.into(), (false, Some(bytes)));
    };
    for number in 0..300 {
        let name = format!("file {number}");
        let node = make(deep, &name, Kind::File);
        put(&format!("/below/deep/{name}"), node, 37 * number);
        system.forget(node, 1);
        if number % 50 == 0 {
            system.sync_all().unwrap();
        }
    }
    let large = make(Node::ROOT, "large", Kind::File);
    put("/large", large, 3_456_789);
    let named = system.streams().unwrap().open(large, &Name::from("stream"), true).unwrap();
    put("/large:stream", named, 5000);
    let two = make(Node::ROOT, "two", Kind::File);
    put("/two", two, 10_000);
    // Clusters that several files share.
    let bytes = |path: &str| planted[path].1.clone().unwrap();
    let (whole, cloned) = (bytes("/large"), bytes("/two"));
    if system.capabilities().clone {
        let clone = make(Node::ROOT, "clone", Kind::File);
        system.clone_range(two, 0, clone, 0, cloned.len() as u64).unwrap();
        planted.insert("/clone".into(), (false, Some(cloned)));
        system.snapshots().unwrap().create(large, &Name::from("kept")).unwrap();
        planted.insert("/large:kept".into(), (false, Some(whole.clone())));
        system.write(large, 8192, &[1; 4096]).unwrap();
        let mut changed = whole;
        changed[8192..12_288].fill(1);
        planted.insert("/large".into(), (false, Some(changed)));
    }
    if system.capabilities().hard_links {
        system.link(two, deep, &Name::from("names")).unwrap();
        planted.insert("/below/deep/names".into(), planted["/two"].clone());
    }
    system.symlink(Node::ROOT, &Name::from("link"), "below/deep").unwrap();
    planted.insert("/link".into(), (false, Some(b"below/deep".to_vec())));
    // A renamed file must be found once, under its last name.
    let (old, new) = (Name::from("file 7"), Name::from("renamed"));
    system.rename(deep, &old, deep, &new, RenameFlags::default()).unwrap();
    let renamed = planted.remove("/below/deep/file 7").unwrap();
    planted.insert("/below/deep/renamed".into(), renamed);
    system.unmount().unwrap();
    planted
}

fn erase(device: &dyn Device, at: u64, length: u64) {
    device.write_at(at, &vec![0xA5; length as usize]).unwrap();
}

/// Erases boot records, superblocks and checkpoints.
fn behead(device: &MemoryDevice, cluster: u64) {
    let last = device.len() - 64 * cluster;
    let mut bytes = vec![0; cluster as usize];
    for at in (0..64 * cluster).chain(last..device.len()).step_by(cluster as usize) {
        device.read_at(at, &mut bytes).unwrap();
        if at == 0 || at == device.len() - cluster || bytes.starts_with(b"SUPB") {
            erase(device, at, cluster);
        }
    }
    erase_where(device, cluster, |bytes| bytes.starts_with(b"CHKP"));
}

fn erase_where(device: &dyn Device, cluster: u64, gone: impl Fn(&[u8]) -> bool) -> usize {
    let mut bytes = vec![0; 4096];
    let mut count = 0;
    for at in (0..device.len() / cluster).map(|number| number * cluster) {
        device.read_at(at, &mut bytes).unwrap();
        if gone(&bytes) {
            erase(device, at, cluster);
            count += 1;
        }
    }
    count
}

fn table(bytes: &[u8]) -> Option<u64> {
    bytes.starts_with(b"MSB+").then(|| u64::from_le_bytes(bytes[0x48..0x50].try_into().unwrap()))
}

/// Returns the files that were not deleted.
fn there(harvest: &Harvest) -> Harvest {
    harvest.iter().filter(|(_, found)| !found.0).map(|(path, found)| (path.clone(), found.clone())).collect()
}

#[test]
fn everything_is_found_without_any_of_the_first_structures() {
    for volume in VOLUMES {
        let device = volume.make();
        let planted = plant(device.clone());
        let (report, harvest) = recover(device.clone());
        let names = |harvest: &Harvest| harvest.keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(names(&there(&harvest)), names(&planted), "{volume:?}");
        assert!(there(&harvest) == planted, "{volume:?}: content");
        assert_eq!((&report.lost, report.directories), (&Vec::new(), 3));
        behead(&device, volume.cluster);
        assert!(there(&recover(device.clone()).1) == planted, "{volume:?}: beheaded");
        // The pages of object tables, container tables, allocators, schemas and all other roots are erased too.
        assert!(
            erase_where(&*device, volume.cluster, |bytes| table(bytes).is_some_and(|table| table < 0x500))
                > 10
        );
        assert!(there(&recover(device).1) == planted, "{volume:?}: without tables");
    }
}

/// The partition table of the disk is lost, and so it is not known where the volume begins: its pages tell.
#[test]
fn a_volume_that_begins_anywhere_is_found() {
    for volume in VOLUMES {
        let device = volume.make();
        let planted = plant(device.clone());
        for is_whole in [true, false] {
            if !is_whole {
                behead(&device, volume.cluster);
            }
            let mut disk = vec![0; (3 << 20) + BYTES as usize];
            device.read_at(0, &mut disk[1 << 20..(1 << 20) + BYTES as usize]).unwrap();
            let disk = Arc::new(MemoryDevice::from_image(&disk, device.sectors()));
            assert!(there(&recover(disk).1) == planted, "{volume:?}, whole: {is_whole}");
        }
    }
}

/// The device ends before the volume does, in the middle of the last container. What is there is found, the files in that
/// container included.
#[test]
fn what_is_there_of_the_last_container_is_found() {
    for volume in VOLUMES {
        let device = volume.make();
        let planted = plant(device.clone());
        let mut image = vec![0; BYTES as usize];
        device.read_at(0, &mut image).unwrap();
        // The last cluster that holds anything but the copies of the first structures, which are at the end.
        let used = image[..image.len() - (1 << 20)].iter().rposition(|byte| *byte != 0).unwrap();
        let end = (used + 1).next_multiple_of(65536).max(image.len() - (1 << 20));
        let cut = Arc::new(MemoryDevice::from_image(&image[..end], device.sectors()));
        let (_, harvest) = recover(cut);
        assert!(there(&harvest) == planted, "{volume:?}");
    }
}

#[test]
fn deleted_files_are_found_until_something_else_is_there() {
    for volume in VOLUMES {
        let device = volume.make();
        let planted = plant(device.clone());
        let system = open(device.clone());
        let look = |path: &str| {
            path.split('/')
                .skip(1)
                .fold(Node::ROOT, |node, name| system.lookup(node, &Name::from(name)).unwrap())
        };
        let deep = look("/below/deep");
        for number in 100..110 {
            system.unlink(deep, &Name::from(&*format!("file {number}"))).unwrap();
        }
        system.unlink(Node::ROOT, &Name::from("large")).unwrap();
        system.rmdir(deep, &Name::from("empty")).unwrap();
        system.unmount().unwrap();
        let (report, harvest) = recover(device);
        let deleted: Vec<&String> =
            planted.keys().filter(|path| !there(&harvest).contains_key(*path)).collect();
        assert!(deleted.len() >= 12, "{deleted:?}");
        for (path, (is_deleted, found)) in &harvest {
            if *is_deleted && found.is_some() && planted.contains_key(path) {
                assert!(*found == planted[path].1, "{volume:?}: {path} has other content");
            }
        }
        for number in 100..110 {
            assert!(harvest[&format!("/below/deep/file {number}")].0, "{volume:?}: {number}");
        }
        assert!(harvest["/large"].0 && harvest["/large:stream"].0 && harvest["/below/deep/empty"].0);
        assert!(report.deleted >= 11, "{report:?}");
    }
}

#[test]
fn with_damage_everywhere_most_is_still_found() {
    let volume = VOLUMES[1];
    let device = volume.make();
    let planted = plant(device.clone());
    let mut random = Random::new(seed());
    for _ in 0..6 {
        // A third of all pages loses a few bytes somewhere.
        let mut bytes = vec![0; 4096];
        for at in (0..device.len() / 4096).map(|number| number * 4096) {
            device.read_at(at, &mut bytes).unwrap();
            if table(&bytes).is_some() && random.below(3) == 0 {
                let start = random.below(4000) as usize;
                bytes[start..start + 4].fill(random.number() as u8);
                device.write_at(at, &bytes).unwrap();
            }
        }
        let (_, harvest) = recover(device.clone());
        let whole = harvest.iter().filter(|(path, found)| planted.get(*path) == Some(*found)).count();
        assert!(whole > planted.len() / 2, "{whole} of {}", planted.len());
    }
}

/// Each page of metadata, and each cluster of data, is damaged in one of two copies of a mirror: together they still have
/// everything.
#[test]
fn what_one_copy_of_a_mirror_has_is_found() {
    const PAGE: u64 = 16 << 10;
    let device = VOLUMES[1].make();
    let planted = plant(device.clone());
    let copies = [0, 1].map(|_| Arc::new(OverlayDevice::new(device.clone())));
    for (number, page) in (0..device.len()).step_by(PAGE as usize).enumerate() {
        if device.next_data(page) < page + PAGE {
            copies[number % 2].write_at(page, &[0x5A; PAGE as usize]).unwrap();
        }
    }
    let both = copies.iter().map(|copy| copy.clone() as Arc<dyn Device>).collect();
    let (report, harvest) = recover(Arc::new(Mirror::new(both).unwrap()));
    assert_eq!(report.lost, []);
    assert!(there(&harvest) == planted);
}

#[test]
fn nothing_is_found_where_nothing_is() {
    let device = Arc::new(MemoryDevice::new(16 << 20, platter_device::Sectors::SMALL));
    let error = Refs::ANY.recover(device, &Silent, &mut |_, _| Ok(())).unwrap_err();
    assert!(error.to_string().contains("no metadata page"), "{error}");
}

/// One bit of a page of a directory is flipped: the files in that page are reported as damaged, and all others are as
/// they were.
#[test]
fn what_stands_in_a_page_that_fails_its_checksum_is_marked() {
    let volume = VOLUMES[1];
    let device = volume.make();
    let planted = plant(device.clone());
    let is_directory = |table: u64| table == 0x600 || table > 0x700;
    let mut pages: Vec<u64> = Vec::new();
    let mut bytes = vec![0; 4096];
    for at in (0..device.len()).step_by(4096) {
        device.read_at(at, &mut bytes).unwrap();
        if table(&bytes).is_some_and(is_directory) {
            pages.push(at);
        }
    }
    let mut random = Random::new(seed());
    let mut marked = 0;
    for _ in 0..24 {
        let page = pages[random.below(pages.len() as u64) as usize];
        let place = page + 0x50 + random.below(16384 - 0x50);
        let mut sector = vec![0; 512];
        device.read_at(place / 512 * 512, &mut sector).unwrap();
        let before = sector.clone();
        sector[place as usize % 512] ^= 1 << random.below(8);
        device.write_at(place / 512 * 512, &sector).unwrap();
        let told = Refs::ANY.recover(device.clone(), &Silent, &mut |found, data| {
            marked += u64::from(found.damaged);
            if found.damaged || found.deleted || found.kind == Kind::Directory {
                return Ok(());
            }
            let mut path: String = found.path.iter().map(|name| format!("/{name}")).collect();
            if let Some(stream) = &found.stream {
                path += &format!(":{stream}");
            }
            let content = match &found.target {
                Some(target) => target.clone().into_bytes(),
                None => {
                    let mut bytes = vec![0; found.size as usize];
                    // A read that fails has reported the damage.
                    let Ok(got) = data.read(0, &mut bytes) else { return Ok(()) };
                    bytes[..got].to_vec()
                }
            };
            // Only the last name is compared, since the damage may be in the name of a directory above.
            let name = path.rsplit('/').next().unwrap().to_string();
            let is_known = |(other, (_, kept)): (&String, &(bool, Option<Vec<u8>>))| {
                other.rsplit('/').next() == Some(&name) && kept.as_ref() == Some(&content)
            };
            assert!(planted.iter().any(is_known), "flip at {place:#x}: {path} is not as it was");
            Ok(())
        });
        told.unwrap();
        device.write_at(place / 512 * 512, &before).unwrap();
    }
    assert!(marked > 24, "{marked} marked");
}

/// The files that names lead to, with their content; `None` if the volume cannot be opened.
fn reached(device: Arc<dyn Device>) -> Option<BTreeMap<String, Vec<u8>>> {
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let system = Refs::ANY.open(device, options).ok()?;
    let mut files = BTreeMap::new();
    let mut waiting = vec![(Node::ROOT, String::new())];
    while let Some((directory, above)) = waiting.pop() {
        let (mut cursor, mut entries) = (Cursor::START, Vec::new());
        while system.read_directory(directory, cursor, 100, &mut entries).is_ok() && !entries.is_empty() {
            cursor = entries.last().unwrap().next;
            for entry in entries.drain(..) {
                let path = format!("{above}/{}", entry.name);
                let Ok(node) = system.lookup(directory, &entry.name) else { continue };
                match entry.attributes.kind {
                    Kind::Directory => waiting.push((node, path)),
                    Kind::File => {
                        let size = system.attributes(node).map_or(0, |found| found.size as usize);
                        let mut bytes = vec![0; size];
                        let is_read = system.read(node, 0, &mut bytes).is_ok();
                        files.insert(path, if is_read { bytes } else { Vec::new() });
                    }
                    Kind::SymbolicLink => {}
                }
            }
        }
    }
    Some(files)
}

/// Zeroes a region, and repairs: either nothing is written, or the volume opens and leads to all that could be reached
/// before or, if it could not be opened, to all that a recovery finds. Returns whether anything was written.
fn repaired_or_left_alone(whole: &Arc<MemoryDevice>, at: u64, length: u64, what: &str) -> bool {
    let damaged = Arc::new(OverlayDevice::new(whole.clone()));
    damaged.write_at(at, &vec![0; length as usize]).unwrap();
    let wanted: BTreeSet<Vec<u8>> = match reached(damaged.clone()) {
        Some(files) => files.into_values().filter(|content| !content.is_empty()).collect(),
        None => there(&recover(damaged.clone()).1)
            .into_iter()
            .filter(|(path, _)| !path.contains(':') && path != "/link")
            .filter_map(|(_, (_, content))| content)
            .filter(|content| !content.is_empty() && content != b"directory")
            .collect(),
    };
    let repaired = Arc::new(OverlayDevice::new(damaged));
    let report = Refs::ANY.check(&*repaired, CheckOptions { repair: true }, &Silent).unwrap();
    if repaired.kept() == 0 {
        return false;
    }
    let found = reached(repaired).unwrap_or_else(|| panic!("{what}: does not open\n{}", told(&report)));
    let found: BTreeSet<Vec<u8>> = found.into_values().collect();
    let missing = wanted.difference(&found).count();
    assert!(missing == 0, "{what}: {missing} of {} files are not reached\n{}", wanted.len(), told(&report));
    true
}

#[test]
fn a_repair_of_a_zeroed_beginning_leads_to_all_files_or_is_not_begun() {
    let mut written = 0;
    for volume in [VOLUMES[0], VOLUMES[3], VOLUMES[5]] {
        let device = volume.make();
        plant(device.clone());
        for length in [1, 2, 4] {
            let what = format!("{volume:?}, {length} MiB");
            written += u32::from(repaired_or_left_alone(&device, 0, length << 20, &what));
        }
    }
    assert!(written > 0, "no volume was repaired");
}

#[test]
#[ignore = "a campaign: takes minutes"]
fn a_repair_of_any_zeroed_region_leads_to_all_files_or_is_not_begun() {
    let mut random = Random::new(seed());
    let mut written = 0;
    for volume in VOLUMES {
        let device = volume.make();
        plant(device.clone());
        for _ in 0..40 {
            let length = (4096 << random.below(11)).min(device.len());
            let most = if random.chance(70) { 8 << 20 } else { device.len() - length };
            let at = random.below(most) / 4096 * 4096;
            let what = format!("{volume:?}, {length} bytes from {at}");
            written += u32::from(repaired_or_left_alone(&device, at, length, &what));
        }
    }
    println!("{written} of {} were repaired", 40 * VOLUMES.len());
}
