//! Copying out what is left: deleted files, and volumes without boot sectors or without `$MFT`'s first records.

use crate::common::{USUAL, Volume, check_clean, open};
use crate::filled::filled;
use crate::judges::{self, AttributeContent, ImageFile, Mount, ntfsfix, sum};
use platter_device::{Device, MemoryDevice, Sectors};
use platter_ntfs::layout::{
    Attribute, BootSector, Kind as AttributeKind, Record, StandardInformation, fixup,
};
use platter_testing::model::Random;
use platter_vfs::{FileSystem, Kind, Names, Node, RecoverReport, RenameFlags, Silent};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The recovered files: for each path, whether the file was deleted, and its content.
type Harvest = BTreeMap<String, (bool, AttributeContent)>;

fn recover(device: Arc<dyn Device>) -> (RecoverReport, Harvest) {
    let mut harvest = Harvest::new();
    let report = platter_ntfs::recover(device, &Silent, &mut |found, data| {
        if found.kind != Kind::File {
            return Ok(());
        }
        let mut path: String = found.path.iter().map(|name| format!("/{name}")).collect();
        if let Some(stream) = &found.stream {
            path += &format!(":{stream}");
        }
        let mut bytes = vec![0; found.size as usize];
        let content = data.read(0, &mut bytes).map(|length| sum(&bytes[..length]));
        // A deleted file may have the path of an existing one.
        harvest.entry(path).or_insert((found.deleted, content.map_err(|error| error.to_string())));
        Ok(())
    });
    (report.expect("something is found"), harvest)
}

/// The files in `before` that were not recovered with the same content under their path.
fn missing(before: &BTreeMap<String, AttributeContent>, harvest: &Harvest) -> Vec<String> {
    let is_lost = |(path, content): (&String, &AttributeContent)| {
        let found = harvest.get(path).map(|(_, content)| content);
        (found != Some(content)).then(|| format!("{path}: {content:?}, recovered {found:?}"))
    };
    before.iter().filter_map(is_lost).collect()
}

#[test]
fn files_that_are_there_and_files_that_were_deleted() {
    for cluster in [512, 4096] {
        let image = filled(24 << 20, cluster, 150);
        let before = Mount::reading(&image).unwrap().tree();
        let mount = Mount::writing(&image).unwrap();
        mount.script("rm -r gone deep z large sparse links");
        drop(mount);
        let bytes = std::fs::read(image.path()).unwrap();
        let (report, harvest) = recover(Arc::new(MemoryDevice::from_image(&bytes, Sectors::SMALL)));
        // Names in records that extend a file are gone with these records, so only the content of such files is
        // compared.
        let all: BTreeSet<&AttributeContent> = harvest.values().map(|(_, content)| content).collect();
        let is_link =
            |path: &String| path.starts_with("/links/") || ["/large", "/deep/level 1/f"].contains(&&**path);
        let (links, others): (BTreeMap<_, _>, _) = before.into_iter().partition(|(path, _)| is_link(path));
        assert!(links.values().all(|content| all.contains(content)), "{report:?}");
        let gone = missing(&others, &harvest);
        assert!(
            gone.is_empty(),
            "clusters of {cluster}: {} lost: {:#?}\n{report:?}",
            gone.len(),
            &gone[..gone.len().min(5)]
        );
        assert!(report.deleted >= 30 && report.lost.is_empty(), "{report:?}");
        assert!(harvest["/gone/1"].0 && !harvest["/many/file number 2.txt"].0);
        assert!(all.contains(&Ok(sum(b"a named stream"))));
    }
}

/// Files that Platter itself deletes: small and large ones, in one record and in several, with streams, in directories,
/// and a file whose name was taken by another.
#[test]
fn files_that_were_deleted_here() {
    for volume in [USUAL, Volume { cluster: 512, ..USUAL }, Volume { compress: true, ..USUAL }] {
        let device = volume.make();
        let mut random = Random::new(8664);
        let mut content = |length: usize| {
            let mut bytes = vec![0; length];
            random.fill(&mut bytes[length / 2..]);
            bytes
        };
        let mut expected: BTreeMap<String, AttributeContent> = BTreeMap::new();
        let system = open(device.clone());
        let outer = system.create(Node::ROOT, &"outer".into(), Kind::Directory).unwrap();
        let inner = system.create(outer, &"inner".into(), Kind::Directory).unwrap();
        let mut names = Vec::new();
        for length in [0, 10, 600, 5_000, 300_000] {
            let (name, bytes) = (format!("file of {length}"), content(length));
            let file = system.create(inner, &(&*name).into(), Kind::File).unwrap();
            system.write(file, 0, &bytes).unwrap();
            let stream = system.streams().unwrap().open(file, &"stream".into(), true).unwrap();
            let other = content(3_000);
            system.write(stream, 0, &other).unwrap();
            expected.insert(format!("/outer/inner/{name}"), Ok(sum(&bytes)));
            expected.insert(format!("/outer/inner/{name}:stream"), Ok(sum(&other)));
            system.forget(stream, 1);
            system.forget(file, 1);
            names.push(name);
        }
        // Two files that grow alternately, piece by piece, need several records for their runs.
        let pieces: Vec<[Vec<u8>; 2]> = (0..150).map(|_| [content(4096), content(4096)]).collect();
        let both = ["one", "two"].map(|name| system.create(inner, &name.into(), Kind::File).unwrap());
        for (number, pieces) in pieces.iter().enumerate() {
            for (file, piece) in both.iter().zip(pieces) {
                system.write(*file, number as u64 * 4096, piece).unwrap();
                system.sync(*file, platter_vfs::SyncScope::All).unwrap();
            }
        }
        for (index, (file, name)) in both.into_iter().zip(["one", "two"]).enumerate() {
            let whole: Vec<u8> = pieces.iter().flat_map(|pieces| pieces[index].clone()).collect();
            expected.insert(format!("/outer/inner/{name}"), Ok(sum(&whole)));
            names.push(name.into());
            system.forget(file, 1);
        }
        let kept = system.create(Node::ROOT, &"kept".into(), Kind::File).unwrap();
        system.write(kept, 0, &[7; 9_000]).unwrap();
        let replaced = system.create(Node::ROOT, &"replaced".into(), Kind::File).unwrap();
        system.write(replaced, 0, &[8; 9_000]).unwrap();
        system.forget(replaced, 1);
        system.sync_all().unwrap();
        system
            .rename(Node::ROOT, &"kept".into(), Node::ROOT, &"replaced".into(), RenameFlags::Replace)
            .unwrap();
        for name in &names {
            system.unlink(inner, &(&**name).into()).unwrap();
        }
        system.forget(inner, 1);
        system.rmdir(outer, &"inner".into()).unwrap();
        system.rmdir(Node::ROOT, &"outer".into()).unwrap();
        system.unmount().unwrap();
        check_clean(&*device).unwrap();
        let image = ImageFile::of(&*device);
        let verdict = ntfsfix(&image);
        assert!(verdict.clean, "{}", verdict.output);
        let (report, mut harvest) = recover(device);
        // The existing file has the name of a deleted one, and the harvest keeps one file of each path.
        assert_eq!(harvest.remove("/replaced"), Some((false, Ok(sum(&[7; 9_000])))));
        assert!(harvest.values().all(|(is_deleted, _)| *is_deleted));
        let gone = missing(&expected, &harvest);
        assert!(gone.is_empty(), "{volume:?}: {gone:#?} {report:?}");
        let files = expected.keys().filter(|path| !path.contains(':')).count();
        assert_eq!(report.deleted, files as u64 + 1, "{volume:?}");
    }
}

#[test]
fn volumes_that_cannot_be_opened() {
    for cluster in [512, 4096] {
        let image = filled(24 << 20, cluster, 150);
        let before = Mount::reading(&image).unwrap().tree();
        let sound = std::fs::read(image.path()).unwrap();
        let length = sound.len();
        let mft = 4 * 4096;
        let damages: [(&str, &[std::ops::Range<usize>]); 3] = [
            ("the boot sector", &[0..256, 256..512]),
            ("both boot sectors", &[0..8192, length - 4096..length]),
            ("both, and the first record", &[0..512, length - 4096..length, mft..mft + 1024]),
        ];
        for (what, ranges) in damages {
            let mut bytes = sound.clone();
            ranges.iter().for_each(|range| bytes[range.clone()].fill(0));
            println!("without {what}, clusters of {cluster}");
            let (report, harvest) = recover(Arc::new(MemoryDevice::from_image(&bytes, Sectors::SMALL)));
            let gone = missing(&before, &harvest);
            assert!(
                gone.is_empty(),
                "{what}, clusters of {cluster}: {:#?}\n{report:?}",
                &gone[..gone.len().min(5)]
            );
        }
    }
}

/// The partition table of the disk is lost, and so it is not known where the volume begins: its boot sector tells, the
/// copy of that behind its end, or its records.
#[test]
fn volumes_that_begin_anywhere() {
    for (cluster, start) in [(512, 1 << 20), (4096, 63 * 512), (4096, 1 << 20)] {
        let image = filled(24 << 20, cluster, 50);
        let before = Mount::reading(&image).unwrap().tree();
        let sound = std::fs::read(image.path()).unwrap();
        let length = sound.len();
        let damages: [(&str, &[std::ops::Range<usize>]); 3] = [
            ("nothing", &[]),
            ("the boot sector", &[0..256, 256..512]),
            ("both boot sectors", &[0..8192, length - 4096..length]),
        ];
        for (what, ranges) in damages {
            let mut bytes = vec![0; start + length + (3 << 20)];
            bytes[start..start + length].copy_from_slice(&sound);
            ranges.iter().for_each(|range| bytes[start + range.start..start + range.end].fill(0));
            let (report, harvest) = recover(Arc::new(MemoryDevice::from_image(&bytes, Sectors::SMALL)));
            let gone = missing(&before, &harvest);
            let some = &gone[..gone.len().min(5)];
            assert!(
                gone.is_empty(),
                "from {start}, clusters of {cluster}, without {what}: {some:#?}\n{report:?}"
            );
        }
    }
}

/// A record of which a part makes no sense gives what its other parts say, marked as damaged.
#[test]
fn what_stands_in_a_record_that_makes_no_sense_is_marked() {
    let device = USUAL.make();
    let system = open(device.clone());
    for name in ["hit", "beside"] {
        let node = system.create(Node::ROOT, &name.into(), Kind::File).unwrap();
        system.write(node, 0, name.as_bytes()).unwrap();
    }
    system.unmount().unwrap();
    let name: Vec<u8> = "hit".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut hits = 0;
    let mut record = vec![0; 1024];
    for at in (0..device.len()).step_by(1024) {
        device.read_at(at, &mut record).unwrap();
        if record.starts_with(b"FILE") && record.windows(6).any(|part| part == name) {
            // The offset of the value of its first attribute becomes nonsense.
            let first = usize::from(u16::from_le_bytes([record[0x14], record[0x15]]));
            record[first + 0x14..first + 0x16].fill(0xF0);
            device.write_at(at, &record).unwrap();
            hits += 1;
        }
    }
    assert!(hits > 0);
    let mut found = BTreeMap::new();
    let told = platter_ntfs::recover(device, &Silent, &mut |file, data| {
        let mut bytes = vec![0; file.size as usize];
        let name = file.path.last().map(ToString::to_string).unwrap_or_default();
        if file.kind == Kind::File && data.read(0, &mut bytes).is_ok() && bytes == name.as_bytes() {
            found.insert(name, file.damaged);
        }
        Ok(())
    });
    told.unwrap();
    assert_eq!((found.get("hit"), found.get("beside")), (Some(&true), Some(&false)), "{found:?}");
}

/// The paths of everything that is recovered, and the report.
fn paths(device: Arc<dyn Device>) -> (RecoverReport, BTreeSet<String>) {
    let mut found = BTreeSet::new();
    let report = platter_ntfs::recover(device, &Silent, &mut |file, _| {
        found.insert(file.path.iter().map(|name| format!("/{name}")).collect());
        Ok(())
    });
    (report.unwrap(), found)
}

/// The metadata below `$Extend` is nothing that anybody lost.
#[test]
fn metadata_is_not_recovered() {
    let (report, found) = paths(Arc::new(judges::windows()));
    let expected = [
        "/$RECYCLE.BIN",
        "/$RECYCLE.BIN/S-1-5-21-2341207468-2645333676-3461800803-1001",
        "/$RECYCLE.BIN/S-1-5-21-2341207468-2645333676-3461800803-1001/desktop.ini",
        "/System Volume Information",
        "/System Volume Information/IndexerVolumeGuid",
        "/System Volume Information/WPSettings.dat",
        "/test",
        "/test/1.txt",
    ];
    assert_eq!(found, expected.map(String::from).into());
    assert_eq!((report.deleted, report.files, report.directories), (0, 4, 4));
}

/// On a volume with large clusters Windows fills `$MFT` with records that were never used, with times and an empty
/// stream. They are no files. One with content is, though its name is lost.
#[test]
fn records_that_were_never_used_are_no_files() {
    let device = USUAL.make();
    let system = open(device.clone());
    let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    for name in &names {
        let file = system.create(Node::ROOT, &(&**name).into(), Kind::File).unwrap();
        system.forget(file, 1);
    }
    names.iter().for_each(|name| system.unlink(Node::ROOT, &(&**name).into()).unwrap());
    system.unmount().unwrap();
    let mut image = device.to_image();
    let geometry = BootSector::from_bytes(&image).unwrap().geometry(image.len() as u64).unwrap();
    let mut numbers = Vec::new();
    for number in 24..200 {
        let at = (geometry.mft * geometry.cluster) as usize + number * 1024;
        let bytes = &mut image[at..at + 1024];
        if !bytes.starts_with(b"FILE") {
            continue;
        }
        fixup::remove(bytes, "", 0).unwrap();
        if !Record::from_bytes(bytes, 0).unwrap().in_use() {
            let mut unused = Record::new(number as u64);
            let times = StandardInformation::default().to_bytes();
            unused.add(Attribute::resident(AttributeKind::STANDARD_INFORMATION, times));
            let content = if numbers.len() == 50 { vec![7; 9] } else { Vec::new() };
            unused.add(Attribute::resident(AttributeKind::DATA, content));
            bytes.copy_from_slice(&unused.to_bytes(1024).unwrap());
            numbers.push(number);
        }
        fixup::apply(bytes);
    }
    assert!(numbers.len() >= 100, "{numbers:?}");
    let (report, found) = paths(Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL)));
    assert_eq!(found, BTreeSet::from([format!("/file {}", numbers[50])]));
    assert_eq!((report.files, report.deleted, report.directories), (1, 1, 0));
}

#[test]
fn nothing_is_found_where_nothing_is() {
    let device = Arc::new(MemoryDevice::new(1 << 20, Sectors::SMALL));
    assert!(platter_ntfs::recover(device, &Silent, &mut |_, _| Ok(())).is_err());
}
