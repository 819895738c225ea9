//! Tests that look at a volume from inside.

use super::NtfsVolume;
use super::attributes::standard;
use crate::file::Attr;
use crate::layout::bytes::{put, u32_at, u64_at};
use crate::layout::{Kind as Type, Reference, record_number};
use platter_device::{Device, MemoryDevice, Recorder, Sectors};
use platter_vfs::{
    Change, ChangeJournal, CheckOptions, Error, FileSystem, Format, FormatOptions, Kind, Name, Names, Node,
    OpenOptions, RenameFlags, Silent,
};
use std::sync::Arc;

const FILES: u64 = 3000;

fn name(number: u64) -> Name {
    Name::from(&*format!("small file {number}.txt"))
}

/// What a small file costs: images that are made in memory; writes and bytes on the device.
#[test]
fn small_files_are_made_and_removed_with_little_work() {
    let memory = Arc::new(MemoryDevice::new(256 << 20, Sectors { logical: 512, physical: 512 }));
    crate::Ntfs.make(&*memory, &FormatOptions::default(), &Silent).unwrap();
    let recorder = Arc::new(Recorder::new(memory));
    let volume = NtfsVolume::open(recorder.clone(), OpenOptions::default()).unwrap();
    let directory = volume.create(Node::ROOT, &"many".into(), Kind::Directory).unwrap();
    volume.sync_all().unwrap();
    let costs = || {
        let written = recorder.traffic().write;
        [volume.core().made, written.count, written.bytes]
    };
    let since = |before: [u64; 3]| {
        let after = costs();
        std::array::from_fn::<f64, 3, _>(|cost| (after[cost] - before[cost]) as f64 / FILES as f64)
    };
    let before = costs();
    for number in 0..FILES {
        let file = volume.create(directory, &name(number), Kind::File).unwrap();
        volume.write(file, 0, &[7; 1024]).unwrap();
        volume.forget(file, 1);
    }
    volume.sync_all().unwrap();
    let [images, writes, bytes] = since(before);
    // Images: the record, and index blocks that are split. Writes: the content, and the log's pages. Bytes: the whole
    // block of the content, the log's pages, the record once more in its place, and an unused one before it.
    let bytes = bytes - 4096.0;
    assert!(images < 1.25 && writes < 1.1 && bytes < 1_976.0, "made: {images}, {writes}, {bytes}");
    let before = costs();
    for number in 0..FILES {
        volume.unlink(directory, &name(number)).unwrap();
    }
    volume.sync_all().unwrap();
    let [images, writes, bytes] = since(before);
    assert!(images < 1.25 && writes < 0.05 && bytes < 1_900.0, "removed: {images}, {writes}, {bytes}");
}

/// However many files are made, or looked up by known names without a listing, the images that are kept of them are
/// limited in bytes: here each record is as large as an index block.
#[test]
fn what_is_kept_of_many_files_is_bounded_by_bytes() {
    const MANY: u64 = 16_000;
    let memory = Arc::new(MemoryDevice::new(512 << 20, Sectors { logical: 4096, physical: 4096 }));
    crate::Ntfs.make(&*memory, &FormatOptions::default(), &Silent).unwrap();
    let kept = |volume: &NtfsVolume| {
        let core = volume.core();
        assert_eq!(core.geometry.record, 4096, "{MANY} records are more than may be kept");
        let (_, bytes) = core.kept();
        // Images of changes that are not committed cannot be dropped, so they are not counted. Images that an operation
        // has added stay until the next one; rounding down to MiB leaves room for these.
        let waiting = core.dirty_count() * 4096;
        bytes.saturating_sub(waiting) >> 20
    };
    let volume = NtfsVolume::open(memory.clone(), OpenOptions::default()).unwrap();
    let directory = volume.create(Node::ROOT, &"many".into(), Kind::Directory).unwrap();
    for number in 0..MANY {
        let file = volume.create(directory, &name(number), Kind::File).unwrap();
        volume.forget(file, 1);
    }
    volume.sync_all().unwrap();
    assert!(kept(&volume) <= 48, "made: {} MiB", kept(&volume));
    volume.unmount().unwrap();
    let volume = NtfsVolume::open(memory, OpenOptions::default()).unwrap();
    let directory = volume.lookup(Node::ROOT, &"many".into()).unwrap();
    for number in 0..MANY {
        let file = volume.lookup(directory, &name(number)).unwrap();
        volume.forget(file, 1);
    }
    assert!(kept(&volume) <= 48, "looked up: {} MiB", kept(&volume));
}

fn exists(volume: &NtfsVolume, directory: Node, name: &str) -> bool {
    match volume.lookup(directory, &name.into()) {
        Ok(node) => {
            volume.forget(node, 1);
            true
        }
        Err(Error::NotFound) => false,
        Err(error) => panic!("{name}: {error}"),
    }
}

/// Names that differ in case only are different names in a directory with the case-sensitive flag, and in directories
/// made in it.
#[test]
fn a_case_sensitive_directory_tells_names_apart() {
    let memory = Arc::new(MemoryDevice::new(32 << 20, Sectors { logical: 512, physical: 512 }));
    crate::Ntfs.make(&*memory, &FormatOptions::default(), &Silent).unwrap();
    let ignoring = OpenOptions { ignores_case: true, ..OpenOptions::default() };
    let open = || NtfsVolume::open(memory.clone(), ignoring).unwrap();
    let volume = open();
    let marked = volume.create(Node::ROOT, &"marked".into(), Kind::Directory).unwrap();
    let usual = volume.create(Node::ROOT, &"usual".into(), Kind::Directory).unwrap();
    {
        let mut core = volume.core();
        let number = core.nodes.get(marked.0).unwrap().file;
        let mut file = (*core.file(number).unwrap()).clone();
        let mut standard = standard(&file).unwrap();
        standard.version = crate::layout::CASE_SENSITIVE;
        file.put(Attr::resident(Type::STANDARD_INFORMATION, standard.to_bytes()));
        core.transact(|core| core.store(file)).unwrap();
    }
    volume.create(usual, &"Name".into(), Kind::File).unwrap();
    assert!(matches!(volume.create(usual, &"NAME".into(), Kind::File), Err(Error::Exists)));
    let below = volume.create(marked, &"below".into(), Kind::Directory).unwrap();
    for directory in [marked, below] {
        let (lower, upper) = (Name::from("name"), Name::from("NAME"));
        let one = volume.create(directory, &lower, Kind::File).unwrap();
        volume.write(one, 0, b"lower").unwrap();
        let two = volume.create(directory, &upper, Kind::File).unwrap();
        volume.write(two, 0, b"UPPER").unwrap();
        assert!(matches!(volume.create(directory, &upper, Kind::File), Err(Error::Exists)));
        assert!(!exists(&volume, directory, "Name"));
        assert!(matches!(volume.unlink(directory, &"Name".into()), Err(Error::NotFound)));
        volume.rename(directory, &upper, directory, &"Name".into(), RenameFlags::NoReplace).unwrap();
        assert!(!exists(&volume, directory, "NAME") && exists(&volume, directory, "name"));
        let found = volume.lookup(directory, &"Name".into()).unwrap();
        let mut content = [0; 5];
        volume.read(found, 0, &mut content).unwrap();
        assert_eq!(&content, b"UPPER");
    }
    volume.rename(marked, &"Name".into(), usual, &"other".into(), RenameFlags::Replace).unwrap();
    assert!(exists(&volume, usual, "OTHER"));
    volume.unmount().unwrap();
    let report = crate::Ntfs.check(&*memory, platter_vfs::CheckOptions::default(), &Silent).unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
    // The flag is still there when the volume is opened again.
    let volume = open();
    let marked = volume.lookup(Node::ROOT, &"MARKED".into()).unwrap();
    let below = volume.lookup(marked, &"below".into()).unwrap();
    assert!(
        exists(&volume, below, "name")
            && !exists(&volume, below, "NAME")
            && !exists(&volume, marked, "BELOW")
    );
}

/// The identifier and the lowest valid number in `$UsnJrnl:$Max`.
fn journal(memory: &Arc<MemoryDevice>) -> (u64, u64) {
    let volume =
        NtfsVolume::open(memory.clone(), OpenOptions { read_only: true, ..OpenOptions::default() }).unwrap();
    let number = volume.core().journal.unwrap();
    let file = volume.core().file(number).unwrap();
    let limits: Vec<u16> = "$Max".encode_utf16().collect();
    let value = file.find(Type::DATA, &limits).unwrap().value().unwrap().to_vec();
    assert_eq!((u64_at(&value, 0), u64_at(&value, 8)), (0x200_0000, 0x80_0000));
    (u64_at(&value, 16), u64_at(&value, 24))
}

/// The first change of each session gives the journal another identifier; a session without a change leaves it.
#[test]
fn a_change_journal_says_that_it_is_not_complete() {
    let memory = Arc::new(MemoryDevice::new(32 << 20, Sectors { logical: 512, physical: 512 }));
    crate::Ntfs.make(&*memory, &FormatOptions::default(), &Silent).unwrap();
    let open = || NtfsVolume::open(memory.clone(), OpenOptions::default()).unwrap();
    let volume = open();
    let extend = Node(volume.core().nodes.enter(Reference(record_number::EXTEND)));
    let file = volume.create(extend, &"$UsnJrnl".into(), Kind::File).unwrap();
    let stream = volume.streams().unwrap().open(file, &"$J".into(), true).unwrap();
    volume.write(stream, 0, &[1; 0x1230]).unwrap();
    let stream = volume.streams().unwrap().open(file, &"$Max".into(), true).unwrap();
    let identifier: u64 = 0x01D0_0000_0000_0000;
    let limits = [0x200_0000, 0x80_0000, identifier, 0x10].map(u64::to_le_bytes).concat();
    volume.write(stream, 0, &limits).unwrap();
    volume.unmount().unwrap();
    assert_eq!(journal(&memory), (identifier, 0x10));
    // Opened, read and closed: the journal is as complete as it was.
    let volume = open();
    assert!(volume.info().unwrap().details.iter().any(|(name, _)| *name == "$UsnJrnl"));
    volume.lookup(Node::ROOT, &"nothing".into()).unwrap_err();
    volume.sync_all().unwrap();
    volume.unmount().unwrap();
    assert_eq!(journal(&memory), (identifier, 0x10));
    let mut before = identifier;
    for session in 0..2 {
        let volume = open();
        volume.create(Node::ROOT, &name(session), Kind::File).unwrap();
        volume.sync_all().unwrap();
        // The new identifier is in the same commit as the change, so whoever sees the change sees it.
        let cut: Arc<dyn Device> = Arc::new(platter_device::OverlayDevice::new(memory.clone()));
        let replayed = NtfsVolume::open(cut, OpenOptions::default()).unwrap();
        assert!(replayed.lookup(Node::ROOT, &name(session)).is_ok());
        drop(replayed);
        volume.create(Node::ROOT, &name(session + 10), Kind::File).unwrap();
        volume.unmount().unwrap();
        let (identifier, lowest) = journal(&memory);
        assert!(identifier > before && lowest == 0x1230, "{identifier:#x} {lowest:#x}");
        before = identifier;
    }
    // A check that finds nothing leaves the journal; a repair is a change of which the journal has no record.
    let repair = || {
        let options = CheckOptions { repair: true };
        let report = crate::Ntfs.check(&*memory, options, &Silent).unwrap();
        (report.found, journal(&memory))
    };
    assert_eq!(repair(), (0, (before, 0x1230)));
    let volume = open();
    let geometry = volume.core().geometry;
    let mirror = geometry.mirror * geometry.cluster;
    volume.unmount().unwrap();
    memory.write_at(mirror, &[0; 1024]).unwrap();
    let (found, (identifier, lowest)) = repair();
    assert!(found > 0 && identifier > before && lowest == 0x1230, "{found} {identifier:#x} {lowest:#x}");
    let report = crate::Ntfs.check(&*memory, CheckOptions::default(), &Silent).unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}

/// Windows' change journal has no unnamed stream; unused records may be marked as unreadable; and only the front of a
/// large `$MFTMirr` is kept in step. None of this is damage, and a repair changes none of it.
#[test]
fn what_windows_leaves_is_no_damage() {
    let memory = Arc::new(MemoryDevice::new(1 << 30, Sectors { logical: 512, physical: 512 }));
    let options = FormatOptions { cluster: Some(2 << 20), ..FormatOptions::default() };
    crate::Ntfs.make(&*memory, &options, &Silent).unwrap();
    let volume = NtfsVolume::open(memory.clone(), OpenOptions::default()).unwrap();
    let extend = Node(volume.core().nodes.enter(Reference(record_number::EXTEND)));
    let file = volume.create(extend, &"$UsnJrnl".into(), Kind::File).unwrap();
    for name in ["$J", "$Max"] {
        let stream = volume.streams().unwrap().open(file, &name.into(), true).unwrap();
        volume.write(stream, 0, &[1; 32]).unwrap();
    }
    let geometry = {
        let mut core = volume.core();
        let number = core.nodes.get(file.0).unwrap().file;
        let mut file = (*core.file(number).unwrap()).clone();
        file.take(Type::DATA, &[]).unwrap();
        core.transact(|core| core.store(file)).unwrap();
        core.geometry
    };
    volume.unmount().unwrap();
    let size = u64::from(geometry.record);
    let (unused, mirrored) =
        (geometry.mft * geometry.cluster + 200 * size, geometry.mirror * geometry.cluster);
    let mut record = vec![0; size as usize];
    memory.read_at(unused, &mut record).unwrap();
    record[..4].copy_from_slice(b"BAAD");
    memory.write_at(unused, &record).unwrap();
    memory.write_at(mirrored + 24 * size, &record).unwrap();
    let before = memory.to_image();
    let report = crate::Ntfs.check(&*memory, CheckOptions { repair: true }, &Silent).unwrap();
    assert_eq!(report.found, 0, "{:#?}", report.findings);
    assert!(memory.to_image() == before);
    memory.write_at(mirrored + 23 * size, &record).unwrap();
    let report = crate::Ntfs.check(&*memory, CheckOptions::default(), &Silent).unwrap();
    assert_eq!(report.findings.iter().map(|one| one.code).collect::<Vec<_>>(), ["mirror"]);
}

/// Changes of a file in very many pieces are only noted; the commit makes the file's records, once for all changes.
#[test]
fn a_scattered_file_is_stored_once_for_many_changes() {
    const PIECES: u64 = 1500;
    let memory = Arc::new(MemoryDevice::new(64 << 20, Sectors { logical: 512, physical: 512 }));
    crate::Ntfs.make(&*memory, &FormatOptions::default(), &Silent).unwrap();
    let recorder = Arc::new(Recorder::new(memory.clone()));
    let volume = NtfsVolume::open(recorder.clone(), OpenOptions::default()).unwrap();
    let free = volume.space().unwrap().free;
    let file = volume.create(Node::ROOT, &"scattered".into(), Kind::File).unwrap();
    let size = PIECES * 8192;
    volume.set_attributes(file, &Change { size: Some(size), ..Change::default() }).unwrap();
    let mut expected = vec![0u8; size as usize];
    let check = |volume: &NtfsVolume, expected: &[u8], what: &str| {
        let cut: Arc<dyn Device> = Arc::new(platter_device::OverlayDevice::new(memory.clone()));
        let report = crate::Ntfs.check(&*cut, platter_vfs::CheckOptions::default(), &Silent).unwrap();
        assert!(report.is_clean(), "{what}: {:#?}", report.findings);
        let replayed = NtfsVolume::open(cut, OpenOptions::default()).unwrap();
        let there = replayed.lookup(Node::ROOT, &"scattered".into()).unwrap();
        for (volume, node) in [(volume, file), (&replayed, there)] {
            let mut found = vec![1; expected.len() + 1];
            assert_eq!(volume.read(node, 0, &mut found).unwrap(), expected.len(), "{what}");
            assert!(found[..expected.len()] == *expected, "{what}");
        }
    };
    let order: Vec<u64> = (0..PIECES).map(|number| number * 7 % PIECES).collect();
    let (mut before, mut most) = (recorder.traffic().write.count, 0);
    for (index, number) in order.into_iter().enumerate() {
        let at = number * 8192;
        expected[at as usize..][..8].copy_from_slice(&number.to_le_bytes());
        volume.write(file, at, &number.to_le_bytes()).unwrap();
        if index % 300 == 299 {
            let now = recorder.traffic().write.count;
            most = most.max(now - before);
            volume.sync_all().unwrap();
            check(&volume, &expected, "written");
            before = recorder.traffic().write.count;
        }
    }
    // Writes of the content, of zeroes around it, and of commits that are made in between to relieve memory.
    assert!(most < 300 * 3, "{most} writes for 300 changes");
    // The file is cut and extended within one commit, while a further name is added and removed.
    for part in [5u64, 3, 1] {
        let (cut, end) = (size * part / 6, size * part / 6 + 100_000);
        volume.set_attributes(file, &Change { size: Some(cut), ..Change::default() }).unwrap();
        expected.truncate(cut as usize);
        volume.link(file, Node::ROOT, &"further".into()).unwrap();
        volume.write(file, end, b"end").unwrap();
        expected.resize(end as usize, 0);
        expected.extend(b"end");
        volume.punch(file, 8192..40_000).unwrap();
        expected[8192..40_000].fill(0);
        volume.unlink(Node::ROOT, &"further".into()).unwrap();
        volume.sync_all().unwrap();
        check(&volume, &expected, "shorter and longer");
    }
    // A file that is made and removed within one commit.
    let other = volume.create(Node::ROOT, &"other".into(), Kind::File).unwrap();
    volume.set_attributes(other, &Change { size: Some(size), ..Change::default() }).unwrap();
    (0..600).for_each(|number| volume.write(other, number * 8192, b"other").unwrap());
    volume.unlink(Node::ROOT, &"other".into()).unwrap();
    volume.forget(other, 1);
    volume.sync_all().unwrap();
    check(&volume, &expected, "made and removed");
    volume.unlink(Node::ROOT, &"scattered".into()).unwrap();
    volume.forget(file, 1);
    volume.sync_all().unwrap();
    volume.unmount().unwrap();
    let report = crate::Ntfs.check(&*memory, platter_vfs::CheckOptions::default(), &Silent).unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
    let now = NtfsVolume::open(memory, OpenOptions::default()).unwrap().space().unwrap().free;
    // Not all clusters come back: `$MFT` and its bitmap have grown.
    assert!(free - now < 200, "{} clusters are missing", free - now);
}

/// A file with more records than a group of the log could free, as on a volume with a log that another program made
/// smaller, gets no further names; the names that it has can be removed.
#[test]
fn a_file_too_large_for_the_log_can_become_smaller() {
    let memory = Arc::new(MemoryDevice::new(32 << 20, Sectors { logical: 512, physical: 512 }));
    crate::Ntfs.make(&*memory, &FormatOptions::default(), &Silent).unwrap();
    let volume = NtfsVolume::open(memory.clone(), OpenOptions::default()).unwrap();
    let long = |number: u64| Name::from(&*format!("{number:03}{}", "n".repeat(250)));
    let file = volume.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
    (0..400).for_each(|number| volume.link(file, Node::ROOT, &long(number)).unwrap());
    volume.sync_all().unwrap();
    volume.core().most_in_group = 60_000;
    let refused = volume.link(file, Node::ROOT, &long(400)).unwrap_err();
    assert!(matches!(refused, Error::RecordFull { .. }), "{refused}");
    (0..400).for_each(|number| volume.unlink(Node::ROOT, &long(number)).unwrap());
    volume.unmount().unwrap();
    let report = crate::Ntfs.check(&*memory, CheckOptions::default(), &Silent).unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}

/// A volume of 4 TiB of which every other cluster is taken: `$Bitmap` has 128 MiB of pages that are neither all free
/// nor all taken, of which memory holds half. A file takes clusters from all over the volume, and gives them back.
#[test]
fn a_volume_of_alternating_clusters_takes_bounded_memory() {
    let memory = Arc::new(MemoryDevice::new(4 << 40, Sectors { logical: 512, physical: 512 }));
    crate::Ntfs.make(&*memory, &FormatOptions::default(), &Silent).unwrap();
    let places = {
        let volume = NtfsVolume::open(memory.clone(), OpenOptions::default()).unwrap();
        let mut core = volume.core();
        let bitmap = core.file(crate::layout::record_number::BITMAP).unwrap();
        core.places(&*crate::core::data_runs(&bitmap), 0, 128 << 20).unwrap()
    };
    const PIECE: usize = 1 << 20;
    for (mut at, length) in places {
        let end = at + length;
        while at < end {
            let mut piece = vec![0; PIECE.min((end - at) as usize)];
            memory.read_at(at, &mut piece).unwrap();
            piece.iter_mut().for_each(|byte| *byte |= 0xAA);
            memory.write_at(at, &piece).unwrap();
            at += piece.len() as u64;
        }
    }
    let seen = allocation_counter::measure(|| {
        let volume = NtfsVolume::open(memory.clone(), OpenOptions::default()).unwrap();
        let before = volume.space().unwrap().free;
        let file = volume.create(Node::ROOT, &"scattered".into(), Kind::File).unwrap();
        for number in 0..200u64 {
            volume.core().space.go_on_at(number * (1 << 30) / 200);
            volume.write(file, number * 8192, &number.to_le_bytes()).unwrap();
        }
        volume.sync_all().unwrap();
        volume.unlink(Node::ROOT, &"scattered".into()).unwrap();
        volume.forget(file, 1);
        volume.sync_all().unwrap();
        assert!(before.abs_diff(volume.space().unwrap().free) < 10);
        volume.unmount().unwrap();
    });
    assert!(seen.bytes_max < 90 << 20, "{} bytes of memory", seen.bytes_max);
    // No other bit was changed: half of all clusters are free.
    let volume = NtfsVolume::open(memory, OpenOptions { read_only: true, ..OpenOptions::default() }).unwrap();
    assert!(volume.space().unwrap().free.abs_diff(1 << 29) < 1 << 16, "{:?}", volume.space().unwrap());
}

/// A record of version 2 of the change journal, at this offset.
fn change_record(usn: u64, name: &str) -> Vec<u8> {
    let units: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut bytes = vec![0; (0x3C + units.len()).next_multiple_of(8)];
    let length = bytes.len() as u32;
    put(&mut bytes, 0, length);
    put(&mut bytes, 4, 2u16);
    put(&mut bytes, 0x18, usn);
    put(&mut bytes, 0x28, 0x100u32);
    put(&mut bytes, 0x38, units.len() as u16);
    put(&mut bytes, 0x3A, 0x3Cu16);
    bytes[0x3C..0x3C + units.len()].copy_from_slice(&units);
    bytes
}

/// The records of a journal by number and name, the damage between them, and the journal's limits.
fn listed_journal(device: Arc<dyn Device>) -> (Vec<(u64, String)>, Vec<String>, Option<ChangeJournal>) {
    let volume = NtfsVolume::open(device, OpenOptions { read_only: true, ..OpenOptions::default() }).unwrap();
    let (mut found, mut faults) = (Vec::new(), Vec::new());
    let limits = volume.change_journal(&mut |record| {
        match record {
            Ok(record) => found.push((record.usn, record.name.to_string())),
            Err(error) => faults.push(error.to_string()),
        }
        Ok(())
    });
    (found, faults, limits.unwrap())
}

/// The beginning of a journal is a hole of any size, which costs nothing; a damaged record costs the rest of its page.
#[test]
fn the_change_journal_is_listed() {
    const START: u64 = 1 << 40;
    for cluster in [512, 4096, 65536] {
        let memory = Arc::new(MemoryDevice::new(64 << 20, Sectors { logical: 512, physical: 512 }));
        let options = FormatOptions { cluster: Some(cluster), ..FormatOptions::default() };
        crate::Ntfs.make(&*memory, &options, &Silent).unwrap();
        assert_eq!(listed_journal(memory.clone()), (Vec::new(), Vec::new(), None));
        let volume = NtfsVolume::open(memory.clone(), OpenOptions::default()).unwrap();
        let extend = Node(volume.core().nodes.enter(Reference(record_number::EXTEND)));
        let file = volume.create(extend, &"$UsnJrnl".into(), Kind::File).unwrap();
        let limits = volume.streams().unwrap().open(file, &"$Max".into(), true).unwrap();
        volume
            .write(limits, 0, &[0x200_0000u64, 0x80_0000, 77, START].map(u64::to_le_bytes).concat())
            .unwrap();
        let stream = volume.streams().unwrap().open(file, &"$J".into(), true).unwrap();
        volume.set_attributes(stream, &Change { size: Some(START), ..Change::default() }).unwrap();
        volume.punch(stream, 0..START).unwrap();
        let (mut names, mut at) = (Vec::new(), START);
        for number in 0..2000 {
            let name = format!("file {number} {}", "x".repeat(number % 90));
            let length = change_record(at, &name).len() as u64;
            if at / 0x1000 != (at + length - 1) / 0x1000 {
                at = at.next_multiple_of(0x1000);
            }
            volume.write(stream, at, &change_record(at, &name)).unwrap();
            names.push((at, name));
            at += length;
        }
        volume.unmount().unwrap();
        drop(volume);
        let recorder = Arc::new(Recorder::new(memory.clone()));
        let (found, faults, limits) = listed_journal(recorder.clone());
        assert!(found == names && faults.is_empty(), "{cluster}: {} of 2000, {faults:?}", found.len());
        assert_eq!(limits, Some(ChangeJournal { identifier: 77, lowest: START, next: at }));
        let read = recorder.traffic().read.bytes;
        assert!(read < 4 << 20, "{read} bytes read");

        // One record is damaged: those before it, and those of other pages, are listed.
        let (damaged, _) = names[1000];
        let volume = NtfsVolume::open(memory.clone(), OpenOptions::default()).unwrap();
        let extend = Node(volume.core().nodes.enter(Reference(record_number::EXTEND)));
        let file = volume.lookup(extend, &"$UsnJrnl".into()).unwrap();
        let stream = volume.streams().unwrap().open(file, &"$J".into(), false).unwrap();
        volume.write(stream, damaged, &[7]).unwrap();
        volume.unmount().unwrap();
        // Whoever lists may end it.
        let mut seen = 0;
        let ended = volume.change_journal(&mut |_| {
            seen += 1;
            if seen == 5 { Err(Error::InvalidArgument("enough")) } else { Ok(()) }
        });
        assert!(ended.is_err() && seen == 5);
        drop(volume);
        let (found, faults, _) = listed_journal(memory);
        names.retain(|(usn, _)| usn / 0x1000 != damaged / 0x1000 || *usn < damaged);
        assert!(found == names, "{cluster}: {} of {}", found.len(), names.len());
        assert!(faults.len() == 1 && faults[0].contains(&damaged.to_string()), "{faults:?}");
    }
}

/// Only Windows counts the bytes of each owner. So the first change of a session, and a repair, mark the counts as out of
/// date, as the driver of Linux does; a volume that counts nothing is left as it is.
#[test]
fn counts_of_quotas_are_marked_as_out_of_date() {
    use crate::layout::{Index, quota};
    let memory = Arc::new(MemoryDevice::new(32 << 20, Sectors { logical: 512, physical: 512 }));
    crate::Ntfs.make(&*memory, &FormatOptions::default(), &Silent).unwrap();
    let open = || NtfsVolume::open(memory.clone(), OpenOptions::default()).unwrap();
    let with_flags = |change: &dyn Fn(u32) -> u32| {
        let volume = open();
        let mut flags = 0;
        {
            let mut core = volume.core();
            let name: Vec<u16> = quota::NAME.encode_utf16().collect();
            let entry = core.find_name(record_number::EXTEND, &name).unwrap().unwrap();
            let number = u64_at(&entry, 0) & 0xFFFF_FFFF_FFFF;
            core.quota = None;
            let key = quota::DEFAULTS.to_le_bytes();
            let update = |entry: &mut [u8]| {
                let at = usize::from(crate::layout::bytes::u16_at(entry, 0)) + 4;
                flags = u32_at(entry, at);
                put(entry, at, change(flags));
            };
            core.transact(|core| core.index_update(number, Index::Quotas, &key, update)).unwrap();
        }
        volume.unmount().unwrap();
        flags
    };
    let make = |number| {
        let volume = open();
        volume.create(Node::ROOT, &name(number), Kind::File).unwrap();
        volume.unmount().unwrap();
    };
    make(1);
    assert_eq!(with_flags(&|flags| flags | 0x10), 1, "nothing is counted on a new volume");
    // A session without a change leaves the mark as it is.
    open().unmount().unwrap();
    assert_eq!(with_flags(&|flags| flags), 0x11);
    make(2);
    assert_eq!(with_flags(&|_| 0x11), 0x211);
    let report = crate::Ntfs.check(&*memory, CheckOptions::default(), &Silent).unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
    // A repair that has something to do: the copy of the first record is damaged.
    let mirror = open().core().geometry.mirror * 4096;
    memory.write_at(mirror, &[0x55; 512]).unwrap();
    let report = crate::Ntfs.check(&*memory, CheckOptions { repair: true }, &Silent).unwrap();
    assert!(report.repaired > 0);
    assert_eq!(with_flags(&|flags| flags), 0x211);
}

/// What Windows keeps in a file for the drivers above (object identifier, state of transactions, encryption) stays through
/// writes, renames and new sessions, and encrypted content is neither read nor written.
#[test]
fn what_windows_keeps_in_a_file_stays() {
    use crate::layout::{Index, ObjectId, attribute_flags};
    let memory = Arc::new(MemoryDevice::new(32 << 20, Sectors { logical: 512, physical: 512 }));
    crate::Ntfs.make(&*memory, &FormatOptions::default(), &Silent).unwrap();
    let open = || NtfsVolume::open(memory.clone(), OpenOptions::default()).unwrap();
    let transactions: Vec<u16> = "$TXF_DATA".encode_utf16().collect();
    let volume = open();
    let names = ["plain", "encrypted"].map(Name::from);
    for (name, seed) in names.iter().zip([3, 4]) {
        let node = volume.create(Node::ROOT, name, Kind::File).unwrap();
        volume.write(node, 0, &vec![5; 9000]).unwrap();
        volume.sync_all().unwrap();
        let mut core = volume.core();
        let number = core.nodes.get(node.0).unwrap().file;
        let mut file = (*core.file(number).unwrap()).clone();
        let id = ObjectId { id: [seed; 16], birth: Some([seed; 48]) };
        file.put(Attr::resident(Type::OBJECT_ID, id.to_bytes()));
        file.add(Attr::resident(Type::LOGGED_UTILITY_STREAM, vec![7; 56]).named(&transactions));
        if seed == 4 {
            file.find_mut(Type::DATA, &[]).unwrap().flags |= attribute_flags::ENCRYPTED;
        }
        let index = core.object_ids.unwrap();
        let entry = id.entry(file.reference);
        core.transact(|core| {
            core.index_insert(index, Index::ObjectIds, &entry)?;
            core.store(file)
        })
        .unwrap();
    }
    volume.unmount().unwrap();
    drop(volume);
    let volume = open();
    let [plain, encrypted] = names.map(|name| volume.lookup(Node::ROOT, &name).unwrap());
    volume.write(plain, 4000, &[6; 30_000]).unwrap();
    for (refused, what) in [
        (volume.read(encrypted, 0, &mut [0; 9]).map(drop), "read"),
        (volume.write(encrypted, 0, b"x"), "write"),
        (
            volume.set_attributes(encrypted, &Change { size: Some(5), ..Change::default() }).map(drop),
            "truncation",
        ),
    ] {
        assert!(matches!(refused, Err(Error::Unreadable(why)) if why.contains("EFS")), "{what}: {refused:?}");
    }
    let flags = RenameFlags::NoReplace;
    volume.rename(Node::ROOT, &"plain".into(), Node::ROOT, &"other".into(), flags).unwrap();
    volume.rename(Node::ROOT, &"encrypted".into(), Node::ROOT, &"still".into(), flags).unwrap();
    volume.unmount().unwrap();
    drop(volume);
    let volume = open();
    for name in ["other", "still"] {
        let node = volume.lookup(Node::ROOT, &name.into()).unwrap();
        let mut core = volume.core();
        let number = core.nodes.get(node.0).unwrap().file;
        let file = core.file(number).unwrap();
        let kept = file.find(Type::LOGGED_UTILITY_STREAM, &transactions).and_then(Attr::value);
        assert_eq!(kept, Some(&[7; 56][..]), "{name}");
        let id = file.value(Type::OBJECT_ID).and_then(ObjectId::from_bytes).unwrap();
        let index = core.object_ids.unwrap();
        assert!(core.index_find(index, Index::ObjectIds, &id.id).unwrap().is_some(), "{name}");
    }
    let check = || crate::Ntfs.check(&*memory, CheckOptions::default(), &Silent).unwrap();
    volume.unlink(Node::ROOT, &"other".into()).unwrap();
    volume.unlink(Node::ROOT, &"still".into()).unwrap();
    volume.unmount().unwrap();
    assert!(check().is_clean(), "{:#?}", check().findings);
}
