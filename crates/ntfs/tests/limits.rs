//! Limits: volumes that are full, or whose free space lies in single clusters, and files that have as much of
//! everything as can be. An operation that reaches a limit fails with an error that says so, and the volume stays
//! whole.

use crate::common::{USUAL, Volume, check_clean, names, open};
use crate::judges::{ImageFile, ntfsfix, readers};
use platter_device::MemoryDevice;
use platter_ntfs::NtfsVolume;
use platter_vfs::{Cursor, Error, FileSystem, Kind, Name, Names, Node};
use std::collections::BTreeSet;

/// The number of clusters that a file gets before every other one of them is punched out.
const COMB: u64 = 128;

/// Leaves free space in single clusters only, except for `kept` clusters.
fn scatter(volume: &NtfsVolume, kept: u64) {
    let cluster = volume.space().unwrap().cluster;
    let directory = volume.create(Node::ROOT, &"combs".into(), Kind::Directory).unwrap();
    let hold = volume.create(directory, &"hold".into(), Kind::File).unwrap();
    if kept > 0 {
        volume.allocate(hold, 0..kept * cluster, false).unwrap();
    }
    let (mut files, mut length) = (Vec::new(), COMB);
    while length > 0 {
        let name = Name::from(&*format!("comb {}", files.len()));
        let made = volume.create(directory, &name, Kind::File).and_then(|file| {
            let made = volume.allocate(file, 0..length * cluster, false);
            if made.is_err() {
                volume.forget(file, 1);
                volume.unlink(directory, &name)?;
            }
            made.map(|()| file)
        });
        match made {
            Ok(file) => files.push(file),
            Err(Error::NoSpace) => length /= 2,
            Err(error) => panic!("{error}"),
        }
    }
    for file in files {
        for number in (0..COMB).step_by(2) {
            match volume.punch(file, number * cluster..(number + 1) * cluster) {
                Ok(()) | Err(Error::NoSpace) => {}
                Err(error) => panic!("{error}"),
            }
        }
        volume.forget(file, 1);
    }
    if kept > 0 {
        volume.unlink(directory, &"hold".into()).unwrap();
    }
    volume.forget(hold, 1);
    volume.sync_all().unwrap();
}

/// Keeps an image of a volume if the environment variable `PLATTER_KEEP` names a folder for it: so volumes of older
/// versions were made.
fn keep(device: &MemoryDevice, name: &str) {
    if let Ok(place) = std::env::var("PLATTER_KEEP") {
        std::fs::write(format!("{place}/{name}"), device.to_image()).unwrap();
    }
}

/// A name of 255 units.
fn long(number: u64) -> Name {
    Name::from(&*format!("{number:05}{}", "n".repeat(250)))
}

/// `$MFT` grows into single clusters, so that its runs fill many records.
#[test]
fn a_table_of_records_in_single_clusters_can_be_opened() {
    for (volume, files) in [
        (Volume { cluster: 1024, bytes: 60 << 20, ..USUAL }, 3_000),
        (Volume { bytes: 200 << 20, ..USUAL }, 14_000),
    ] {
        let device = volume.make();
        let system = open(device.clone());
        scatter(&system, 0);
        let mut made = BTreeSet::new();
        let directory = system.create(Node::ROOT, &"many".into(), Kind::Directory).unwrap();
        for number in 0..files {
            let name = format!("{number:05}");
            match system.create(directory, &Name::from(&*name), Kind::File) {
                Ok(file) => system.forget(file, 1),
                Err(Error::NoSpace) => break,
                Err(error) => panic!("{volume:?}: {number}: {error}"),
            }
            made.insert(name);
        }
        assert_eq!(made.len(), files, "{volume:?}");
        system.unmount().unwrap();
        keep(&device, &format!("mft-{}.img", volume.cluster));
        let system = open(device.clone());
        let directory = system.lookup(Node::ROOT, &"many".into()).unwrap();
        assert_eq!(names(&system, directory), made, "{volume:?}");
        check_clean(&*device).unwrap();
    }
}

/// Files are made until the volume or `$MFT` has no room, removed in part, and made again; ntfsfix and ntfs-3g read the
/// volume.
#[test]
fn a_table_of_records_grows_to_the_end() {
    for (cluster, bytes) in [(512, 6 << 20), (1024, 8 << 20), (4096, 16 << 20), (65536, 24 << 20)] {
        let volume = Volume { cluster, bytes, ..USUAL };
        let device = volume.make();
        let system = open(device.clone());
        scatter(&system, 0);
        system.create(Node::ROOT, &"many".into(), Kind::Directory).unwrap();
        system.unmount().unwrap();
        drop(system);
        let mut made = BTreeSet::new();
        for round in 0..3 {
            let system = open(device.clone());
            let directory = system.lookup(Node::ROOT, &"many".into()).unwrap();
            for number in 0.. {
                let name = format!("{round} {number:05}{}", "x".repeat(number % 90));
                match system.create(directory, &Name::from(&*name), Kind::File) {
                    Ok(file) => system.forget(file, 1),
                    Err(Error::NoSpace) => break,
                    Err(error) => panic!("{volume:?}: {number}: {error}"),
                }
                made.insert(name);
            }
            system.unmount().unwrap();
            check_clean(&*device).unwrap();
            let system = open(device.clone());
            let directory = system.lookup(Node::ROOT, &"many".into()).unwrap();
            assert_eq!(names(&system, directory), made, "{volume:?}");
            let gone: Vec<String> = made.iter().step_by(2 + round).cloned().collect();
            for name in gone {
                system.unlink(directory, &Name::from(&*name)).unwrap();
                made.remove(&name);
            }
            system.unmount().unwrap();
            check_clean(&*device).unwrap();
        }
        assert!(made.len() > 100, "{volume:?}: {}", made.len());
        let image = ImageFile::of(&*device);
        let verdict = ntfsfix(&image);
        assert!(verdict.clean, "{volume:?}: {}", verdict.output);
        let tree = readers::ours(&open(device));
        readers::assert_same(&format!("{volume:?}, ntfs-3g"), &tree, &readers::ntfs_3g(&image, &tree));
    }
}

/// Makes streams of one file until there is no room for more, then opens the volume again and reads them. Returns how
/// many there are.
fn streams(volume: Volume, is_scattered: bool, most: u64, name: impl Fn(u64) -> Name, image: &str) -> u64 {
    let device = volume.make();
    let system = open(device.clone());
    if is_scattered {
        scatter(&system, 0);
    }
    let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
    let mut made = BTreeSet::new();
    for number in 0..most {
        match system.streams().and_then(|part| part.open(file, &name(number), true)) {
            Ok(node) => {
                system.write(node, 0, &number.to_le_bytes()).unwrap();
                system.forget(node, 1);
            }
            Err(error) if error.is_full() => break,
            Err(error) => panic!("{volume:?}: stream {number}: {error}"),
        }
        made.insert(number);
    }
    system.sync_all().unwrap();
    system.unmount().unwrap();
    keep(&device, image);
    check_clean(&*device).unwrap();
    let system = open(device.clone());
    let file = system.lookup(Node::ROOT, &"file".into()).unwrap();
    assert_eq!(system.streams().unwrap().list(file).unwrap().len(), made.len());
    for &number in &made {
        let node = system.streams().unwrap().open(file, &name(number), false).unwrap();
        let mut content = [0; 8];
        assert_eq!(system.read(node, 0, &mut content).unwrap(), 8);
        assert_eq!(content, number.to_le_bytes());
        system.forget(node, 1);
    }
    system.forget(file, 1);
    system.unlink(Node::ROOT, &"file".into()).unwrap();
    system.unmount().unwrap();
    check_clean(&*device).unwrap();
    made.len() as u64
}

#[test]
fn an_attribute_list_lies_in_single_clusters() {
    let volume = Volume { cluster: 1024, bytes: 60 << 20, ..USUAL };
    let made = streams(volume, true, 100, long, "list-scattered.img");
    assert_eq!(made, 100);
}

/// An attribute list has at most 256 KiB, as in Windows; its entry for an attribute without a name takes 32 bytes.
#[test]
fn streams_end_where_the_attribute_list_does() {
    let volume = Volume { bytes: 64 << 20, ..USUAL };
    let made = streams(volume, false, 600, long, "list-long.img");
    assert!((480..=489).contains(&made), "{made} streams with long names");
    let middle = |number: u64| Name::from(&*format!("{number:05}{}", "m".repeat(35)));
    let made = streams(volume, false, 3_000, middle, "list-middle.img");
    assert!((2_300..=2_340).contains(&made), "{made} streams with names of 40 units");
}

/// Makes up to `most` names of one file, and removes them one by one. Returns how many there were.
fn links(volume: Volume, most: u64, name: impl Fn(u64) -> Name, image: &str) -> u64 {
    let device = volume.make();
    let system = open(device.clone());
    let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
    system.write(file, 0, b"content").unwrap();
    let mut made = 0;
    for number in 0..most {
        match system.link(file, Node::ROOT, &name(number)) {
            Ok(()) => made += 1,
            Err(Error::TooManyLinks { .. } | Error::NoSpace) => break,
            Err(error) => panic!("{volume:?}: link {number}: {error}"),
        }
    }
    system.write(file, 0, b"CONTENT").unwrap();
    system.sync_all().unwrap();
    system.unmount().unwrap();
    keep(&device, image);
    check_clean(&*device).unwrap();
    let system = open(device.clone());
    system.unlink(Node::ROOT, &"file".into()).unwrap();
    system.sync_all().unwrap();
    for number in (0..made).rev() {
        let file = system.lookup(Node::ROOT, &name(number)).unwrap();
        let mut content = [0; 7];
        system.read(file, 0, &mut content).unwrap();
        assert_eq!(&content, b"CONTENT");
        if number % 3 == 0 {
            system.write(file, 0, b"CONTENT").unwrap();
        }
        system.forget(file, 1);
        system.unlink(Node::ROOT, &name(number)).unwrap();
    }
    system.sync_all().unwrap();
    system.unmount().unwrap();
    check_clean(&*device).unwrap();
    assert!(names(&open(device), Node::ROOT).is_empty());
    made
}

/// A file has as many names as in Windows, and the smallest log has room for a change of all of them.
#[test]
fn a_file_has_1024_names() {
    assert_eq!(links(Volume { bytes: 8 << 20, ..USUAL }, 300, long, "links-300.img"), 300);
    assert_eq!(links(Volume { bytes: 20 << 20, ..USUAL }, 2_000, long, "links-1023.img"), 1_023);
}

/// Many open streams of one file: each commit can record them all, as it takes only one new attribute list.
#[test]
fn open_streams_of_one_file_are_recorded_in_little_space() {
    let device = Volume { bytes: 60 << 20, ..USUAL }.make();
    let system = open(device.clone());
    let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
    let content = |number: u64| vec![number as u8 | 1; 3000];
    let nodes: Vec<Node> = (0..480)
        .map(|number| {
            let node = system.streams().unwrap().open(file, &long(number), true).unwrap();
            system.write(node, 0, &content(number)).unwrap();
            node
        })
        .collect();
    system.sync_all().unwrap();
    for node in &nodes {
        system.write(*node, 1000, &[9; 500]).unwrap();
    }
    system.sync_all().unwrap();
    system.unmount().unwrap();
    check_clean(&*device).unwrap();
    let system = open(device);
    let file = system.lookup(Node::ROOT, &"file".into()).unwrap();
    for number in 0..480 {
        let node = system.streams().unwrap().open(file, &long(number), false).unwrap();
        let mut found = vec![0; 3000];
        assert_eq!(system.read(node, 0, &mut found).unwrap(), 3000);
        let mut expected = content(number);
        expected[1000..1500].fill(9);
        assert!(found == expected, "stream {number}");
        system.forget(node, 1);
    }
}

/// All clusters are taken; then links and streams are refused, and those that were made before stay.
#[test]
fn a_full_volume_refuses_links_and_streams_and_stays_whole() {
    for volume in [
        Volume { bytes: 8 << 20, ..USUAL },
        Volume { cluster: 512, bytes: 8 << 20, ..USUAL },
        Volume { cluster: 65536, bytes: 24 << 20, ..USUAL },
    ] {
        for is_stream in [false, true] {
            let device = volume.make();
            let system = open(device.clone());
            let fill = system.create(Node::ROOT, &"fill".into(), Kind::File).unwrap();
            let cluster = system.space().unwrap().cluster;
            let (mut at, mut length) = (0, 1024);
            while length > 0 {
                match system.allocate(fill, at..at + length * cluster, false) {
                    Ok(()) => at += length * cluster,
                    Err(Error::NoSpace) => length /= 2,
                    Err(error) => panic!("{error}"),
                }
            }
            let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
            let (mut made, mut refused) = (0u64, 0);
            for number in 0..2000 {
                let outcome = match is_stream {
                    false => system.link(file, Node::ROOT, &long(number)),
                    true => system
                        .streams()
                        .and_then(|part| part.open(file, &long(number), true))
                        .map(|node| system.forget(node, 1)),
                };
                match outcome {
                    Ok(()) if refused == 0 => made += 1,
                    Ok(()) => break,
                    Err(error) if error.is_full() => refused += 1,
                    Err(error) => panic!("{volume:?}: {number}: {error}"),
                }
                if refused > 20 {
                    break;
                }
            }
            assert!(made > 0, "{volume:?}: {made}");
            system.sync_all().unwrap();
            system.unmount().unwrap();
            check_clean(&*device).unwrap();
            let system = open(device.clone());
            let file = system.lookup(Node::ROOT, &"file".into()).unwrap();
            for number in 0..made {
                let found = match is_stream {
                    false => system.lookup(Node::ROOT, &long(number)),
                    true => system.streams().and_then(|part| part.open(file, &long(number), false)),
                };
                found.unwrap_or_else(|error| panic!("{volume:?}: {number}: {error}"));
            }
        }
    }
}

/// Cutting a file off takes no room, even where the rest of a compression unit would have to be packed anew.
#[test]
fn a_compressed_file_on_a_full_volume_can_be_cut_off() {
    let device = Volume { compress: true, bytes: 8 << 20, ..USUAL }.make();
    let system = open(device.clone());
    let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
    let mut random = platter_testing::model::Random::new(7);
    let noise: Vec<u8> = (0..64 << 10).map(|_| random.below(256) as u8).collect();
    let mut at = 0;
    loop {
        match system.write(file, at, &noise) {
            Ok(()) => at += noise.len() as u64,
            Err(Error::NoSpace) => break,
            Err(error) => panic!("{error}"),
        }
    }
    let size = |bytes| platter_vfs::Change { size: Some(bytes), ..Default::default() };
    system.set_attributes(file, &size(100)).unwrap();
    system.sync_all().unwrap();
    system.set_attributes(file, &size(5000)).unwrap();
    let mut found = vec![1; 5000];
    assert_eq!(system.read(file, 0, &mut found).unwrap(), 5000);
    assert!(found[..100] == noise[..100] && found[100..].iter().all(|byte| *byte == 0));
    system.unmount().unwrap();
    check_clean(&*device).unwrap();
}

/// A directory is moved below 6,000 directories that lie inside each other.
#[test]
fn a_directory_is_moved_deep_down() {
    let device = Volume { bytes: 64 << 20, ..USUAL }.make();
    let system = open(device.clone());
    let moved = system.create(Node::ROOT, &"moved".into(), Kind::Directory).unwrap();
    let mut above = Node::ROOT;
    let mut chain = Vec::new();
    for _ in 0..6000 {
        above = system.create(above, &"d".into(), Kind::Directory).unwrap();
        chain.push(above);
    }
    system.rename(Node::ROOT, &"moved".into(), above, &"moved".into(), Default::default()).unwrap();
    assert!(matches!(
        system.rename(Node::ROOT, &"d".into(), moved, &"d".into(), Default::default()),
        Err(Error::IntoItself)
    ));
    system.unmount().unwrap();
    check_clean(&*device).unwrap();
}

/// A label can be read back, and be shown as a folder's name.
#[test]
fn labels_have_characters_that_names_have() {
    let system = open(USUAL.make());
    for label in ["with\0nul", "a/b", "a\\b", "line\nbreak", &"l".repeat(33)] {
        assert!(matches!(system.set_label(label), Err(Error::InvalidName { .. })), "{label:?}");
    }
    for label in ["Ünï ©ode 1", "", &"l".repeat(32)] {
        system.set_label(label).unwrap();
        assert_eq!(system.info().unwrap().label, label);
    }
}

/// Damaged extended attributes are found; a repair keeps those before the damage.
#[test]
fn damaged_extended_attributes_are_found() {
    let device = USUAL.make();
    let system = open(device.clone());
    let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
    system.extended_attributes().unwrap().set(file, "ONE", Some(b"first")).unwrap();
    system.extended_attributes().unwrap().set(file, "TWO", Some(b"second")).unwrap();
    assert!(
        system
            .extended_attributes()
            .and_then(|part| part.set(file, "THREE", Some(&[0; 65_530])))
            .unwrap_err()
            .is_full()
    );
    system.unmount().unwrap();
    let mut image = device.to_image();
    // The length of the second attribute's value.
    let at = image.windows(12).position(|bytes| bytes == b"TWO\0second\0\0").unwrap();
    image[at - 2..at].copy_from_slice(&[0xFF, 0xFF]);
    let device = std::sync::Arc::new(MemoryDevice::from_image(&image, platter_device::Sectors::SMALL));
    let error = check_clean(&*device).unwrap_err();
    assert!(error.contains("\"ea\""), "{error}");
    use platter_vfs::{CheckOptions, Format, Silent};
    platter_ntfs::Ntfs.check(&*device, CheckOptions { repair: true }, &Silent).unwrap();
    check_clean(&*device).unwrap();
    let system = open(device);
    let file = system.lookup(Node::ROOT, &"file".into()).unwrap();
    assert_eq!(system.extended_attributes().unwrap().list(file).unwrap(), ["ONE"]);
    assert_eq!(system.extended_attributes().unwrap().get(file, "ONE").unwrap(), b"first");
}

/// A directory whose names are not in their order is damaged: a listing that goes on behind the last name that it
/// returned could return the same names for ever.
#[test]
fn names_out_of_order_are_passed_over_and_told_at_the_end() {
    let device = USUAL.make();
    let system = open(device.clone());
    let directory = system.create(Node::ROOT, &"many".into(), Kind::Directory).unwrap();
    for number in 0..200 {
        system.create(directory, &Name::from(&*format!("name {number:03}")), Kind::File).unwrap();
    }
    system.unmount().unwrap();
    let mut image = device.to_image();
    let units = |name: &str| name.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let (from, to) = (units("name 150"), units("a   150"));
    for at in 0..image.len() - from.len() {
        if image[at..at + from.len()] == from {
            image[at..at + to.len()].copy_from_slice(&to);
        }
    }
    let device = std::sync::Arc::new(MemoryDevice::from_image(&image, platter_device::Sectors::SMALL));
    let system = open(device);
    let directory = system.lookup(Node::ROOT, &"many".into()).unwrap();
    let mut entries: Vec<platter_vfs::Entry> = Vec::new();
    let error = loop {
        let cursor = entries.last().map_or(Cursor::START, |last| last.next);
        let before = entries.len();
        match system.read_directory(directory, cursor, 7, &mut entries) {
            Ok(()) => assert!(entries.len() > before, "nothing is told of the entry that is missing"),
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, Error::Damaged(damage) if damage.structure == "index"), "{error}");
    // All other names are listed, each once, and found.
    let listed: Vec<String> = entries.iter().map(|entry| entry.name.to_string()).collect();
    let whole = (0..200).filter(|number| *number != 150).map(|number| format!("name {number:03}"));
    assert_eq!(listed, whole.collect::<Vec<_>>());
    for entry in &entries {
        system.lookup(directory, &entry.name).unwrap();
    }
}
