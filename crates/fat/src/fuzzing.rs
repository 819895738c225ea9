//! Entry points for fuzzing: each takes any bytes and must neither panic nor hang nor take memory without bound.
//!
//! The package `fuzz/` calls them under libFuzzer; the tests replay its corpus and mutations of it on stable Rust.

use crate::Fat;
use crate::layout::{
    BootSector, DosTime, FatKind, InfoSector, Label, LongEntry, LongName, SLOT, ShortEntry, ShortName, Slot,
    get, set,
};
use platter_device::{Device, MemoryDevice, Sectors};
use platter_vfs::fuzzing;
use platter_vfs::{CaseRule, Name};
use std::sync::Arc;

/// Makes a device from fuzzer input. The first byte chooses the size (that of the input, 256 KiB or 3 MiB, so that
/// every kind of FAT fits) and whether sectors are large; the device holds the remaining bytes, followed by zeroes.
fn device(input: &[u8]) -> Option<MemoryDevice> {
    let (&first, bytes) = input.split_first()?;
    let sectors = if first & 0x80 == 0 { Sectors::SMALL } else { Sectors::LARGE };
    let padded = match first & 3 {
        0 => bytes.len(),
        1 => 256 << 10,
        _ => 3 << 20,
    };
    let bytes = &bytes[..bytes.len().min(3 << 20)];
    let device = MemoryDevice::new(padded.max(bytes.len()) as u64, sectors);
    let mut image = bytes.to_vec();
    image.resize(bytes.len().next_multiple_of(sectors.logical as usize), 0);
    device.write_at(0, &image).ok()?;
    Some(device)
}

/// Parses every structure of [`crate::layout`].
pub fn layout(input: &[u8]) {
    if let Some(bytes) = input.first_chunk::<512>() {
        let boot = BootSector::from_bytes(bytes);
        assert_eq!(boot.to_bytes(), *bytes);
        for length in [0, input.len() as u64, 1 << 20, 1 << 41] {
            if let Ok(geometry) = boot.geometry(length) {
                assert!(geometry.end_offset() <= length && geometry.fat_offset(geometry.fat_count) < length);
                assert!(geometry.cluster_offset(geometry.last_cluster()) < length);
                for value in [0, 1, 2, geometry.last_cluster(), geometry.kind.bad(), geometry.kind.end()] {
                    geometry.link(value);
                }
            }
        }
        let info = InfoSector::from_bytes(bytes);
        assert_eq!(info.to_bytes(), *bytes);
    }
    let mut long = LongName::default();
    for slot in input.as_chunks::<SLOT>().0 {
        let short = ShortEntry::from_bytes(slot);
        assert_eq!(short.to_bytes(), *slot);
        assert_eq!(LongEntry::from_bytes(slot).to_bytes(), *slot);
        for time in [short.created, short.modified, short.accessed] {
            let DosTime { .. } = time;
            time.to_timestamp(i32::from(slot[0]) - 128);
        }
        let name = short.name.to_name(short.nt);
        assert!(short.name.sanitised().is_valid());
        let folded = name.folded(CaseRule::Insensitive);
        assert_eq!(Name::from_units(&folded).folded(CaseRule::Insensitive), folded);
        let _ = Label::new(&Label(short.name.0).to_string());
        match Slot::from_bytes(slot) {
            Slot::Long(part) => drop(long.push(&part)),
            Slot::Short(short) => {
                if let Ok(Some(name)) = long.finish(&short.name) {
                    assert!(name.units().len() <= 255);
                    let alias = ShortName::alias(&name, |alias| *alias == short.name);
                    assert!(alias.is_some_and(|alias| alias.is_valid() && alias != short.name));
                }
            }
            Slot::Deleted | Slot::End => drop(long.abandon()),
        }
    }
    for kind in [FatKind::Fat12, FatKind::Fat16, FatKind::Fat32] {
        let mut table = input[..input.len().min(64)].to_vec();
        for index in 0..64 {
            if let Some(value) = get(kind, &table, index) {
                assert!(set(kind, &mut table, index, !value));
                assert_eq!(get(kind, &table, index), Some(!value & kind.mask()));
            }
        }
    }
}

/// Runs the check: without repair, with repair, and again. What a repair reports as repaired must be right.
pub fn check(input: &[u8]) {
    if let Some(device) = device(input) {
        fuzzing::check(&Fat::ANY, &device);
    }
}

/// Opens the volume, reads everything, and writes something; then a repair must be possible.
pub fn volume(input: &[u8]) {
    if let Some(device) = device(input) {
        fuzzing::volume(&Fat::ANY, Arc::new(device));
    }
}
