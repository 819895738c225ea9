//! Entry points for fuzzing: each takes any bytes and must neither panic nor hang nor take memory without bound.
//!
//! The package `fuzz/` calls them under libFuzzer; the tests replay its corpus and mutations of it on stable Rust. A
//! volume is too large to be the input: the input is a list of patches of a small volume that is made once. The fixups
//! of patched records and index blocks are applied again, so that the patched bytes are read and not refused before.

use crate::layout::{
    Attribute, AttributeContent, BootSector, ExtendedAttribute, FileName, Geometry, Kind as Type, ListEntry,
    Record, Reference, StandardInformation, fixup, index, log as log_page, record_number, reparse_from_bytes,
    runs,
};
use crate::log::{Change, Log, LogPlace, LogState, Target};
use crate::{Ntfs, NtfsVolume, lznt1};
use platter_device::{Device, MemoryDevice, OverlayDevice, Sectors};
use platter_vfs::fuzzing as fuzz;
use platter_vfs::{
    CheckOptions, FileSystem, Format, FormatOptions, Kind, Name, Names, Node, OpenOptions, Silent,
};
use std::sync::{Arc, OnceLock};

/// Bytes of a patch: which structure (2), where in it (2), how many bytes (1), and the bytes (8).
const PATCH: usize = 13;
/// The number of patches of one input that are applied.
const MOST: usize = 32;
/// Bytes of the volume.
const BYTES: u64 = 8 << 20;

/// A device that is patched.
struct Base {
    device: Arc<MemoryDevice>,
    /// The offsets and lengths of the structures on it.
    places: Vec<(u64, usize)>,
}

/// Two volumes, with clusters smaller and larger than records.
fn bases() -> &'static [Base; 2] {
    static BASES: OnceLock<[Base; 2]> = OnceLock::new();
    BASES.get_or_init(|| [512, 4096].map(Base::new))
}

impl Base {
    fn new(cluster: u64) -> Base {
        let device = Arc::new(MemoryDevice::new(BYTES, Sectors::SMALL));
        let options =
            FormatOptions { cluster: Some(cluster), serial: Some(8664), ..FormatOptions::default() };
        Ntfs.make(&*device, &options, &Silent).expect("it is large enough");
        let volume = NtfsVolume::open(device.clone(), OpenOptions::default()).expect("it was just made");
        populate(&volume).expect("there is room");
        volume.unmount().expect("memory does not fail");
        let mut sector = [0; 512];
        device.read_at(0, &mut sector).expect("inside");
        let boot = BootSector::from_bytes(&sector).expect("it was just written");
        let geometry = boot.geometry(BYTES).expect("it was just written");
        let mut base = Base { device, places: vec![(0, 512)] };
        base.find(&geometry);
        base
    }

    /// Finds records, index blocks and other metadata.
    fn find(&mut self, geometry: &Geometry) {
        let size = geometry.record as usize;
        let image = self.device.to_image();
        for at in (0..image.len()).step_by(512) {
            let is_record = image[at..].starts_with(Record::SIGNATURE);
            let is_block = image[at..].starts_with(index::IndexBlock::SIGNATURE);
            if is_record && at + size <= image.len() {
                self.places.push((at as u64, size));
                let Ok(record) = read_record(&image[at..at + size]) else { continue };
                if u64::from(record.number) < record_number::FIRST_FREE && record.base.0 == 0 {
                    self.tables(&record, geometry);
                }
            } else if is_block {
                self.places.push((at as u64, geometry.index as usize));
            }
        }
    }

    /// Notes the first 512 bytes of each non-resident attribute of a system file.
    fn tables(&mut self, record: &Record, geometry: &Geometry) {
        for attribute in &record.attributes {
            let AttributeContent::NonResident(outside) = &attribute.content else { continue };
            let found =
                runs::unpack(&outside.pairs, 0, outside.end, geometry.clusters, 0).unwrap_or_default();
            if let Some(lcn) = found.first().and_then(|run| run.lcn)
                && attribute.kind != Type::INDEX_ALLOCATION
                && u64::from(record.number) != record_number::MFT
            {
                self.places.push((lcn * geometry.cluster, 512));
            }
        }
    }

    /// The device with the patches of an input.
    fn patched(&self, input: &[u8]) -> platter_device::Result<Arc<OverlayDevice>> {
        let device = Arc::new(OverlayDevice::new(self.device.clone()));
        for patch in input.as_chunks::<PATCH>().0.iter().take(MOST) {
            let [place, place_high, at, at_high, length, bytes @ ..] = patch;
            let place = usize::from(u16::from_le_bytes([*place, *place_high])) % self.places.len();
            let length = usize::from(*length % 8) + 1;
            let (offset, size) = self.places[place];
            let at = usize::from(u16::from_le_bytes([*at, *at_high])) % (size - length);
            let mut structure = vec![0; size];
            device.read_at(offset, &mut structure)?;
            let is_sealed = size > 512 && fixup::remove(&mut structure, "", offset).is_ok();
            let header = structure[4..8].to_vec();
            structure[at..at + length].copy_from_slice(&bytes[..length]);
            if is_sealed {
                // The place of the update sequence cannot be patched: nothing behind it would be read.
                structure[4..8].copy_from_slice(&header);
                fixup::apply(&mut structure);
            }
            device.write_at(offset, &structure)?;
        }
        Ok(device)
    }
}

/// A log with groups that no restart record covers, and the log's place.
fn logged() -> &'static (Base, LogPlace) {
    static LOGGED: OnceLock<(Base, LogPlace)> = OnceLock::new();
    LOGGED.get_or_init(|| {
        const PAGES: u64 = 64;
        let device = Arc::new(MemoryDevice::new(1 << 20, Sectors::SMALL));
        let page = log_page::PAGE;
        let place = LogPlace { runs: vec![(0, PAGES * page as u64)], cluster: 4096, record: 1024 };
        Log::create(&*device, place.clone()).expect("memory does not fail");
        let (mut log, _) = Log::open(&*device, place.clone()).expect("memory does not fail");
        log.begin(&*device, 0).expect("memory does not fail");
        let file = Reference::new(6, 6);
        let value = Target::Value { file, kind: Type::DATA.0, name: [].into() };
        for number in 0..30u64 {
            let record = Record::new(number).to_bytes(1024).expect("an empty record fits");
            let place = [100 + number % 4];
            let offset = number % 4 * 1024;
            let changes = [
                Change { target: &Target::FileRecord, offset, lcns: &[90], bytes: &record },
                Change {
                    target: &value,
                    offset: 4096 * place[0],
                    lcns: &place,
                    bytes: &[number as u8; 3000],
                },
            ];
            log.append(&*device, &changes[..number as usize % 2 + 1]).expect("there is room");
        }
        // The pages that are in use, the restart pages twice, so that they are patched more often.
        let pages = [0, 1, 0, 1].into_iter().chain(log_page::FIRST_PAGE..FIRST_UNUSED);
        (Base { device, places: pages.map(|number| (number * page as u64, page)).collect() }, place)
    })
}

/// The first page that [`logged`] does not use.
const FIRST_UNUSED: u64 = log_page::FIRST_PAGE + 3 + 30;

/// Opens a patched log, replays it, and appends groups to it.
pub fn log(input: &[u8]) {
    let (base, place) = logged();
    let Ok(device) = base.patched(input) else { return };
    let Ok((mut log, state)) = Log::open(&*device, place.clone()) else { return };
    if let LogState::Unclean(replay) = state {
        drop(replay.apply(&*device));
    }
    let record = Record::new(3).to_bytes(1024).unwrap_or_default();
    let change = Change { target: &Target::FileRecord, offset: 3072, lcns: &[90], bytes: &record };
    if log.begin(&*device, 0).is_ok() {
        while log.used() < log.capacity() / 2 && log.append(&*device, &[change; 7]).is_ok() {}
        drop(log.checkpoint(&*device));
        drop(log.end(&*device));
        let again = Log::open(&*device, place.clone());
        assert!(matches!(again, Ok((_, LogState::Clean))), "a log that was closed: {again:?}");
    }
}

fn read_record(bytes: &[u8]) -> platter_vfs::Result<Record> {
    let mut bytes = bytes.to_vec();
    fixup::remove(&mut bytes, "file record", 0)?;
    Record::from_bytes(&bytes, 0)
}

/// Fills a volume with files of all kinds.
fn populate(volume: &NtfsVolume) -> platter_vfs::Result<()> {
    let make = |directory, name: &str, kind| volume.create(directory, &Name::from(name), kind);
    let below = make(Node::ROOT, "below", Kind::Directory)?;
    let deep = make(below, "deep", Kind::Directory)?;
    for number in 0..120 {
        let file = make(deep, &format!("{}{number}", "long ".repeat(number % 20)), Kind::File)?;
        volume.write(file, 0, &vec![7; 20 * number])?;
    }
    let large = make(Node::ROOT, "large", Kind::File)?;
    for number in 0..20 {
        volume.write(large, 3 * 4096 * number, &[1; 5000])?;
    }
    for number in 0..12 {
        volume.link(large, below, &Name::from(&*format!("another rather long name number {number}")))?;
    }
    let scattered = make(below, "scattered", Kind::File)?;
    for number in 0..60 {
        volume.write(scattered, 2 * 65536 * number, &[2; 4096])?;
    }
    for (name, length) in [("small", 50), ("stream", 20_000)] {
        let stream = volume.streams()?.open(large, &Name::from(name), true)?;
        volume.write(stream, 0, &vec![3; length])?;
    }
    volume.symlink(below, &Name::from("link"), "some/where")?;
    volume.extended_attributes()?.set(large, "user.color", Some(b"green"))
}

/// The patched volume of an input, whose first byte chooses one of the two volumes and whose others are the patches.
fn device(input: &[u8]) -> Option<Arc<OverlayDevice>> {
    let (first, patches) = input.split_first()?;
    bases()[usize::from(first % 2)].patched(patches).ok()
}

/// Opens the volume, reads everything and writes something; then a repair must end.
pub fn volume(input: &[u8]) {
    let Some(device) = device(input) else { return };
    fuzz::volume(&Ntfs, device);
}

/// Recovers files and reads them; then checks the volume without repair, with it, and again: all that a repair claims
/// to have put right must be right.
pub fn check(input: &[u8]) {
    let Some(device) = device(input) else { return };
    let mut buffer = vec![0; 65536];
    let _ = Ntfs.recover(device.clone(), &Silent, &mut |found, data| {
        for at in [0, found.size / 2, found.size.saturating_sub(100)] {
            let _ = data.read(at, &mut buffer);
        }
        Ok(())
    });
    let run = |repair| Ntfs.check(&*device, CheckOptions { repair }, &Silent);
    if run(false).is_err() {
        return;
    }
    let Ok(repaired) = run(true) else { return };
    if repaired.remaining.is_none() {
        let again = run(false).expect("a repaired volume is a volume");
        assert!(again.is_clean(), "repaired {repaired:?}, then found {again:?}");
    }
}

/// LZNT1: any stream is unpacked or refused, and what is packed comes back.
pub fn lznt1(input: &[u8]) {
    let mut out = vec![0; 65536];
    let _ = lznt1::decompress(input, &mut out, 0);
    let data = &input[..input.len().min(65536)];
    let mut packed = vec![0; 65536 + 64];
    if let Some(length) = lznt1::Packer::default().compress(data, &mut packed) {
        lznt1::decompress(&packed[..length], &mut out, 0).expect("it was just packed");
        assert!(out[..data.len()] == *data);
    }
}

/// Reads the input as each of the structures of [`crate::layout`].
pub fn layout(input: &[u8]) {
    if let Ok(boot) = BootSector::from_bytes(input) {
        assert_eq!(boot.to_bytes()[..], input[..512]);
        let _ = boot.geometry(1 << 40);
    }
    let mut block = input.to_vec();
    block.resize(input.len().next_multiple_of(512).clamp(512, 65536), 0);
    let _ = fixup::remove(&mut block, "block", 0);
    if let Ok(record) = Record::from_bytes(&block, 0)
        && let Some(bytes) = record.to_bytes(65536)
    {
        // Padding behind mapping pairs is kept with them, so the bytes may be others.
        let again = Record::from_bytes(&bytes, 0).expect("it was just written");
        assert_eq!(again.attributes.len(), record.attributes.len());
    }
    if let Ok(found) = index::IndexBlock::from_bytes(&block, 0, 0) {
        found
            .node
            .iter()
            .for_each(|entry| drop((entry.key(), entry.data(), entry.child(), entry.with_child(Some(1)))));
        let _ = found.to_bytes(65536);
    }
    let _ = index::IndexRoot::from_bytes(input, 0).map(|root| root.to_bytes());
    let _ = Attribute::from_bytes(input, 0);
    let _ = ListEntry::read_all(input, 0);
    let _ = FileName::from_bytes(input, 0).map(|name| name.to_bytes());
    let _ = StandardInformation::from_bytes(input, 0);
    let _ = ExtendedAttribute::read_all(input, 0);
    let _ = reparse_from_bytes(input, 0);
    if let [first, end, pairs @ ..] = input
        && let Ok(found) = runs::unpack(pairs, u64::from(*first), u64::from(*end) << 8, 1 << 40, 0)
    {
        let (packed, all) = runs::pack(&found, usize::MAX);
        assert_eq!(all, found.len());
        let again = runs::unpack(&packed, u64::from(*first), u64::from(*end) << 8, 1 << 40, 0);
        assert_eq!(again.expect("it was just packed"), found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Volumes without patches are undamaged; otherwise a check would stop at that damage, and not reach the patches.
    #[test]
    fn without_patches_nothing_is_found() {
        for number in 0..2 {
            let device = device(&[number]).unwrap();
            let report = Ntfs.check(&*device, CheckOptions::default(), &Silent).unwrap();
            assert!(report.is_clean(), "{:#?}", report.findings);
            assert!(report.files > 130 && report.directories > 3, "{report:?}");
            assert!(bases()[usize::from(number)].places.len() > 150);
        }
    }

    #[test]
    fn what_is_patched_is_read() {
        let base = &bases()[1];
        let found = base.places.iter().enumerate().any(|(place, &(offset, size))| {
            let mut bytes = vec![0; size];
            base.device.read_at(offset, &mut bytes).unwrap();
            let Some(at) = bytes.windows(10).position(|bytes| bytes == b"b\0e\0l\0o\0w\0") else {
                return false;
            };
            let mut patch = vec![1; 1 + PATCH];
            patch[1..3].copy_from_slice(&(place as u16).to_le_bytes());
            patch[3..5].copy_from_slice(&(at as u16).to_le_bytes());
            (patch[5], patch[6]) = (0, b'B');
            let report = Ntfs.check(&*device(&patch).unwrap(), CheckOptions::default(), &Silent).unwrap();
            report
                .findings
                .iter()
                .any(|finding| finding.message.contains("below") || finding.message.contains("Below"))
        });
        assert!(found);
    }
}
