//! Features that other implementations write: Platter keeps them, mounts the volume read-only, or refuses it.

use crate::damaged::Volume;
use crate::judges::{ImageFile, fsck};
use platter_device::{Device, MemoryDevice, Sectors};
use platter_exfat::layout::{
    BitmapEntry, BootRegion, BootSector, EntrySet, SLOT, UpcaseEntry, VolumeFlags, kind, table_checksum,
};
use platter_exfat::{Exfat, ExfatVolume};
use platter_vfs::{
    CheckOptions, Cursor, Error, Extent, FileSystem, Format, FormatOptions, Kind, Name, Names, Node,
    OpenOptions, Place, RenameFlags, Result, Silent,
};
use std::sync::Arc;

fn open(image: &[u8]) -> (Arc<MemoryDevice>, Result<ExfatVolume>) {
    let device = Arc::new(MemoryDevice::from_image(image, Sectors::SMALL));
    let volume = ExfatVolume::open(device.clone(), OpenOptions::default());
    (device, volume)
}

/// A volume of 8 MiB with clusters of 4 KiB and a file of 10,000 bytes, "a file", in its root directory.
fn volume() -> Volume {
    let device = MemoryDevice::new(8 << 20, Sectors::SMALL);
    let options = FormatOptions { cluster: Some(4096), ..FormatOptions::default() };
    Exfat.make(&device, &options, &Silent).unwrap();
    let (device, volume) = open(&device.to_image());
    let volume = volume.unwrap();
    let file = volume.create(Node::ROOT, &Name::from("a file"), Kind::File).unwrap();
    volume.write(file, 0, &[7; 10_000]).unwrap();
    volume.create(Node::ROOT, &Name::from("a directory"), Kind::Directory).unwrap();
    volume.unmount().unwrap();
    Volume::new(device.to_image())
}

fn set(volume: &Volume, path: &str) -> (Vec<usize>, EntrySet) {
    let found = volume.found.iter().find(|found| found.path == path).unwrap();
    let slots: Vec<[u8; SLOT]> = found.slots.iter().map(|&at| volume.slot(at)).collect();
    (found.slots.clone(), EntrySet::read_loosely(&slots).unwrap())
}

fn put(volume: &mut Volume, slots: &[usize], set: &EntrySet) {
    for (&at, slot) in slots.iter().zip(set.slots()) {
        volume.set_slot(at, *slot);
    }
}

fn check(device: &dyn Device) -> platter_vfs::CheckReport {
    Exfat.check(device, CheckOptions::default(), &Silent).unwrap()
}

#[test]
fn what_a_vendor_added_stays_and_goes_with_the_file() {
    let mut volume = volume();
    let (slots, mut set) = set(&volume, "/a file");
    // The set is moved to free slots, where it has room for one more entry: in its old place the directory's set
    // follows it.
    for &at in &slots {
        volume.image[at] &= 0x7F;
    }
    let mut vendor = [0x11; SLOT];
    (vendor[0], vendor[1]) = (kind::VENDOR_ALLOCATION, 3);
    vendor[20..24].copy_from_slice(&500u32.to_le_bytes());
    vendor[24..].copy_from_slice(&8000u64.to_le_bytes());
    set.append(&[vendor]);
    let root = volume.root_slots();
    let end = root.iter().position(|&at| volume.image[at] == 0).unwrap();
    put(&mut volume, &root[end..], &set);
    let bitmap = volume.geometry.heap.offset(2) as usize;
    (498..500).for_each(|bit: usize| volume.image[bitmap + bit / 8] |= 1 << (bit % 8));
    let (device, opened) = open(&volume.image);
    assert_eq!(check(&*device).found, 0);
    let system = opened.unwrap();
    let free = system.space().unwrap().free;
    let directory = system.lookup(Node::ROOT, &Name::from("a directory")).unwrap();
    let (old, new) = (Name::from("a file"), Name::from("a much longer name than it had before"));
    let file = system.lookup(Node::ROOT, &old).unwrap();
    system.write(file, 9_000, &[8; 2_000]).unwrap();
    system.rename(Node::ROOT, &old, directory, &new, RenameFlags::Replace).unwrap();
    system.unmount().unwrap();
    assert_eq!(check(&*device).found, 0);
    let after = Volume::new(device.to_image());
    let moved = after.found.iter().find(|found| found.path.ends_with("before")).unwrap();
    assert_eq!(moved.info.additions, [vendor]);
    let (device, opened) = open(&after.image);
    let system = opened.unwrap();
    let directory = system.lookup(Node::ROOT, &Name::from("a directory")).unwrap();
    system.unlink(directory, &new).unwrap();
    system.unmount().unwrap();
    assert_eq!(system.space().unwrap().free, free + 3 + 2);
    assert_eq!(check(&*device).found, 0);
}

#[test]
fn texfat_is_read_by_its_active_fat_and_not_written() {
    let mut volume = volume();
    let geometry = volume.geometry.clone();
    // The second FAT and bitmap are valid and active; the first ones are overwritten.
    let (first, bytes) = (geometry.fat_start as usize, geometry.fat_bytes as usize);
    volume.image.copy_within(first..first + bytes, first + bytes);
    let root = volume.root_slots();
    let at = *root.iter().find(|&&at| volume.image[at] == kind::BITMAP).unwrap();
    let entry = BitmapEntry::from_bytes(&volume.slot(at));
    volume.set_slot(at, BitmapEntry { flags: 1, ..entry }.to_bytes());
    let end = *root.iter().find(|&&at| volume.image[at] == 0).unwrap();
    volume.set_slot(end, BitmapEntry { flags: 0, cluster: 1000, ..entry }.to_bytes());
    volume.image[first..first + bytes].fill(0);
    let mut boot = BootSector::from_bytes(volume.image[..512].try_into().unwrap());
    (boot.fat_count, boot.flags) = (2, VolumeFlags(VolumeFlags::ACTIVE_FAT));
    volume.image[..512].copy_from_slice(&boot.to_bytes());
    BootRegion::seal(&mut volume.image[..12 * 512], 512);
    let (device, opened) = open(&volume.image);
    let system = opened.unwrap();
    let file = system.lookup(Node::ROOT, &Name::from("a file")).unwrap();
    let mut content = vec![0; 10_000];
    assert_eq!(system.read(file, 0, &mut content).unwrap(), 10_000);
    assert_eq!(content, [7; 10_000]);
    assert!(matches!(system.write(file, 0, &[1]), Err(Error::ReadOnly(_))));
    let refused = Exfat.check(&*device, CheckOptions { repair: true }, &Silent);
    assert!(matches!(refused, Err(Error::ReadOnly(_))));
    assert_eq!(device.to_image(), volume.image);
}

/// On a volume with two FATs each has a bitmap, and both bitmaps have clusters (7.1).
#[test]
fn a_sound_texfat_volume_is_clean() {
    let mut volume = volume();
    let geometry = volume.geometry.clone();
    let (first, bytes) = (geometry.fat_start as usize, geometry.fat_bytes as usize);
    let root = volume.root_slots();
    let slot_of_first = *root.iter().find(|&&at| volume.image[at] == kind::BITMAP).unwrap();
    let entry = BitmapEntry::from_bytes(&volume.slot(slot_of_first));
    let bitmap = geometry.heap.offset(entry.cluster) as usize;
    // The second bitmap has cluster 1000, which ends its chain and is taken.
    let place = geometry.heap.offset(1000) as usize;
    volume.image[bitmap + 998 / 8] |= 1 << (998 % 8);
    volume.image.copy_within(bitmap..bitmap + entry.length as usize, place);
    volume.image[first + 4000..first + 4004].fill(0xFF);
    volume.image.copy_within(first..first + bytes, first + bytes);
    let end = *root.iter().find(|&&at| volume.image[at] == 0).unwrap();
    volume.set_slot(end, BitmapEntry { flags: 1, cluster: 1000, ..entry }.to_bytes());
    let mut boot = BootSector::from_bytes(volume.image[..512].try_into().unwrap());
    boot.fat_count = 2;
    volume.image[..512].copy_from_slice(&boot.to_bytes());
    BootRegion::seal(&mut volume.image[..12 * 512], 512);
    volume.image.copy_within(..12 * 512, 12 * 512);
    let codes = |image: &[u8]| -> Vec<_> {
        let report = check(&MemoryDevice::from_image(image, Sectors::SMALL));
        report.findings.iter().map(|finding| finding.code).collect()
    };
    assert_eq!(codes(&volume.image), [""; 0]);
    // Without its entry its cluster is taken by nothing.
    let mut image = volume.image.clone();
    image[end..end + SLOT].fill(0);
    assert_eq!(codes(&image), ["bitmap", "bitmap-taken"]);
    // Its chain must be whole, and taken in the active bitmap.
    let mut image = volume.image.clone();
    image[first + 4000..first + 4004].fill(0);
    assert_eq!(codes(&image), ["bitmap", "bitmap-taken"]);
    let mut image = volume.image.clone();
    image[bitmap + 998 / 8] = 0;
    assert_eq!(codes(&image), ["bitmap-free"]);
    // A volume with one FAT has one bitmap.
    let mut image = volume.image.clone();
    boot.fat_count = 1;
    image[..512].copy_from_slice(&boot.to_bytes());
    BootRegion::seal(&mut image[..12 * 512], 512);
    image.copy_within(..12 * 512, 12 * 512);
    assert_eq!(codes(&image), ["misplaced-entry", "bitmap-taken"]);
}

#[test]
fn a_volume_s_own_upcase_table_counts() {
    let mut volume = volume();
    let root = volume.root_slots();
    let at = *root.iter().find(|&&at| volume.image[at] == kind::UPCASE).unwrap();
    let entry = UpcaseEntry::from_bytes(&volume.slot(at));
    // A table in which only ASCII letters have upper-case letters.
    let units = [0xFFFF, 0x61].into_iter().chain(0x41..0x5B).chain([0xFFFF, 0xFF85]);
    let bytes: Vec<u8> = units.flat_map(u16::to_le_bytes).collect();
    let place = volume.geometry.heap.offset(entry.cluster) as usize;
    volume.image[place..place + bytes.len()].copy_from_slice(&bytes);
    // The recommended table has two clusters, of which the second is freed.
    let second = entry.cluster + 1;
    volume.set_fat(entry.cluster, u32::MAX);
    let bitmap = volume.geometry.heap.offset(2) as usize;
    volume.image[bitmap + (second - 2) as usize / 8] &= !(1 << ((second - 2) % 8));
    let checksum = table_checksum(&bytes);
    volume.set_slot(at, UpcaseEntry { checksum, length: bytes.len() as u64, ..entry }.to_bytes());
    let (device, opened) = open(&volume.image);
    let system = opened.unwrap();
    for name in ["é", "É", "abc"] {
        system.create(Node::ROOT, &Name::from(name), Kind::File).unwrap();
    }
    let twice = system.create(Node::ROOT, &Name::from("ABC"), Kind::File);
    assert!(matches!(twice, Err(Error::Exists)));
    system.unmount().unwrap();
    assert!(check(&*device).is_clean(), "{:?}", check(&*device).findings);
    // A table with a wrong checksum is not used, and the volume is not written to with another table.
    volume.image[place + 60] ^= 1;
    volume.image[place + 2] ^= 1;
    is_only_read(&volume.image);
}

/// Checks that the volume opens, that its file is readable, and that nothing can be changed.
fn is_only_read(image: &[u8]) {
    let (device, opened) = open(image);
    let system = opened.unwrap();
    let file = system.lookup(Node::ROOT, &Name::from("a file")).unwrap();
    assert!(system.attributes(file).unwrap().size > 0);
    let created = system.create(Node::ROOT, &Name::from("new"), Kind::File);
    assert!(matches!(created, Err(Error::ReadOnly(_))));
    system.unmount().unwrap();
    assert_eq!(device.to_image(), image);
}

#[test]
fn what_was_not_written_reads_as_zeroes() {
    let mut volume = volume();
    let (slots, mut changed) = set(&volume, "/a file");
    let info = changed.info();
    changed.set_info(&platter_exfat::layout::FileInfo { valid: 5_001, ..info });
    put(&mut volume, &slots, &changed);
    let (device, opened) = open(&volume.image);
    let system = opened.unwrap();
    let file = system.lookup(Node::ROOT, &Name::from("a file")).unwrap();
    let read = |system: &ExfatVolume, file| {
        let mut content = vec![1; 10_000];
        assert_eq!(system.read(file, 0, &mut content).unwrap(), 10_000);
        content
    };
    let content = read(&system, file);
    assert!(content[..5_001].iter().all(|&byte| byte == 7) && content[5_001..].iter().all(|&byte| byte == 0));
    let places: Vec<Place> =
        system.extents(file).unwrap().iter().map(|extent: &Extent| extent.place).collect();
    assert!(matches!(places[..], [Place::Device(_), Place::Unwritten(_)]), "{places:?}");
    // A write further on: the bytes before it become zeroes, and the bytes after it remain unwritten.
    system.write(file, 8_000, &[9; 100]).unwrap();
    let content = read(&system, file);
    assert!(content[5_001..8_000].iter().all(|&byte| byte == 0) && content[8_000..8_100] == [9; 100]);
    assert!(content[8_100..].iter().all(|&byte| byte == 0));
    system.unmount().unwrap();
    let (_, set) = set(&Volume::new(device.to_image()), "/a file");
    assert_eq!((set.info().valid, set.info().length), (8_100, 10_000));
    assert!(fsck(&ImageFile::of(&*device)).clean);
}

#[test]
fn a_set_that_could_be_torn_is_written_anew() {
    let mut volume = volume();
    let (slots, set) = set(&volume, "/a file");
    let root = volume.root_slots();
    let end = root.iter().position(|&at| volume.image[at] == 0).unwrap();
    for &at in &slots {
        volume.image[at] &= 0x7F;
    }
    // The set begins in the last slot of a sector.
    for &at in &root[end..15] {
        volume.image[at] = 0x05;
    }
    put(&mut volume, &root[15..], &set);
    let (device, opened) = open(&volume.image);
    let system = opened.unwrap();
    let file = system.lookup(Node::ROOT, &Name::from("a file")).unwrap();
    system.write(file, 10_000, &[3; 5_000]).unwrap();
    system.sync_all().unwrap();
    system.write(file, 0, &[4; 5_000]).unwrap();
    system.unmount().unwrap();
    let after = Volume::new(device.to_image());
    let found = after.found.iter().find(|found| found.path == "/a file").unwrap();
    assert_eq!(found.slots[0] / 512, found.slots[1] / 512);
    assert_eq!(after.image[root[15]], 0x05);
    assert_eq!(found.info.length, 15_000);
    let verdict = fsck(&ImageFile::of(&*device));
    assert!(verdict.clean, "{}", verdict.output);
}

#[test]
fn what_is_not_whole_is_not_shown_and_not_lost() {
    let mut volume = volume();
    {
        let (device, opened) = open(&volume.image);
        let system = opened.unwrap();
        let directory = system.lookup(Node::ROOT, &Name::from("a directory")).unwrap();
        system.create(directory, &Name::from("inside"), Kind::File).unwrap();
        system.unmount().unwrap();
        volume = Volume::new(device.to_image());
    }
    let (slots, _) = set(&volume, "/a directory/inside");
    volume.image[slots[0] + 2] ^= 1;
    let (_, opened) = open(&volume.image);
    let system = opened.unwrap();
    let directory = system.lookup(Node::ROOT, &Name::from("a directory")).unwrap();
    let mut entries = Vec::new();
    // The error comes at the end of the listing.
    let error = system.read_directory(directory, Cursor::START, 10, &mut entries).unwrap_err();
    assert!(entries.is_empty() && matches!(error, Error::Damaged(_)), "{error}");
    assert!(matches!(system.rmdir(Node::ROOT, &Name::from("a directory")), Err(Error::NotEmpty)));
}

#[test]
fn what_must_not_be_written_to_is_only_read() {
    let mut unknown = volume();
    let end = unknown.root_slots().into_iter().find(|&at| unknown.image[at] == 0).unwrap();
    unknown.image[end] = 0x84;
    is_only_read(&unknown.image);
    let mut sum = volume();
    sum.image[120] ^= 1;
    is_only_read(&sum.image);
    // If the main region has its checksum and an unknown revision, the backup is not used instead.
    let mut revision = volume();
    revision.image[105] = 2;
    BootRegion::seal(&mut revision.image[..12 * 512], 512);
    assert!(matches!(open(&revision.image).1, Err(Error::NotThisFormat { .. })));
}

/// A volume whose main boot sector has lost the name of the format, or the mark at the end of the sector, is read by
/// the backup, and a repair restores the main boot sector.
#[test]
fn a_boot_sector_without_its_name_is_read_by_the_backup() {
    let sound = volume();
    let damages: [fn(&mut [u8]); 4] = [
        |image| image[5] ^= 0x20,
        |image| image[3..11].fill(0),
        |image| image[510..512].fill(0),
        // Here the sector size, from which the place of the backup follows, is damaged too.
        |image| (image[3], image[108]) = (b'e', 12),
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let mut image = sound.image.clone();
        damage(&mut image);
        is_only_read(&image);
        let device = MemoryDevice::from_image(&image, Sectors::SMALL);
        let recognised = Exfat.recognise(&device).unwrap().map(|recognised| recognised.format);
        assert_eq!(recognised.as_deref(), Some("exFAT"), "{number}");
        let repaired = Exfat.check(&device, CheckOptions { repair: true }, &Silent).unwrap();
        assert!(repaired.findings.iter().any(|finding| finding.code == "boot-region"), "{number}");
        assert!(check(&device).is_clean());
        assert!(open(&device.to_image()).1.unwrap().create(Node::ROOT, &"new".into(), Kind::File).is_ok());
    }
    // A backup that remains under other content does not make the device an exFAT volume.
    let mut other = sound.image.clone();
    other[..512].fill(0);
    let is_exfat =
        |image: &[u8]| Exfat.recognise(&MemoryDevice::from_image(image, Sectors::SMALL)).unwrap().is_some();
    assert!(!is_exfat(&other));
    other[..4].copy_from_slice(b"PK\x03\x04");
    assert!(!is_exfat(&other) && open(&other).1.is_err());
}
