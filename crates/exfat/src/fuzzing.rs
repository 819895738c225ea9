//! Entry points for fuzzing: each takes any bytes and must neither panic nor hang nor take memory without bound.
//!
//! The package `fuzz/` calls them under libFuzzer; the tests replay its corpus and mutations of it on stable Rust.

use crate::Exfat;
use crate::layout::{BootRegion, BootSector, EntrySet, LabelEntry, Primary, SLOT, Stamp, Upcase};
use platter_device::{Device, MemoryDevice, Sectors};
use platter_vfs::fuzzing;
use platter_vfs::{Format, FormatOptions, Silent};
use std::sync::Arc;

/// The size in bytes of the volume that a fuzzer's input is applied to: the smallest possible.
const BYTES: u64 = 1 << 20;

/// A small sound volume on which the input overwrites pieces. Bits 0 and 1 of the first byte choose the cluster size,
/// and bit 4 whether the boot region gets a right checksum afterwards. Each piece begins with its position (two
/// bytes, in units of 32 bytes) and its length (one byte: units of 32 bytes, less 1). If the first byte is 0xFF, the
/// input after it is the beginning of the volume instead.
pub fn device(input: &[u8]) -> Option<MemoryDevice> {
    let (&first, mut rest) = input.split_first()?;
    let device = MemoryDevice::new(BYTES, Sectors::SMALL);
    if first == 0xFF {
        let mut image = rest[..rest.len().min(BYTES as usize)].to_vec();
        image.resize(image.len().next_multiple_of(512), 0);
        device.write_at(0, &image).ok()?;
        return Some(device);
    }
    let cluster = 512 << (first % 4);
    let options = FormatOptions { cluster: Some(cluster), serial: Some(1), ..FormatOptions::default() };
    Exfat.make(&device, &options, &Silent).ok()?;
    let mut image = device.to_image();
    let mut seal = first & 0x10 != 0;
    while let [low, high, length, more @ ..] = rest {
        let start = usize::from(u16::from_le_bytes([*low, *high])) * SLOT % image.len();
        let length = ((usize::from(*length % 32) + 1) * SLOT).min(more.len()).min(image.len() - start);
        image[start..start + length].copy_from_slice(&more[..length]);
        rest = &more[length..];
        seal &= length > 0;
    }
    if seal {
        BootRegion::seal(&mut image[..BootRegion::SECTORS * 512], 512);
    }
    Some(MemoryDevice::from_image(&image, Sectors::SMALL))
}

/// Parses every structure of [`crate::layout`].
pub fn layout(input: &[u8]) {
    if let Some(bytes) = input.first_chunk::<512>() {
        let boot = BootSector::from_bytes(bytes);
        assert_eq!(boot.to_bytes(), *bytes);
        for length in [0, input.len() as u64, 1 << 20, 1 << 41, u64::MAX] {
            if let Ok(geometry) = boot.geometry(length) {
                assert!(geometry.heap.offset(geometry.heap.last()) < length);
                assert!(geometry.active_fat_offset() + geometry.fat_bytes <= geometry.heap.start);
            }
        }
    }
    let upcase = Upcase::from_bytes(input, 0).unwrap_or_else(|_| Upcase::recommended());
    // A unit that maps to FFFF would be written as the beginning of a count.
    if (0..u16::MAX).all(|unit| upcase.upper(unit) != u16::MAX) {
        assert_eq!(Upcase::from_bytes(&upcase.to_bytes(), 0).expect("it was one before"), upcase);
    }
    let slots = input.as_chunks::<SLOT>().0;
    for at in 0..slots.len().min(64) {
        let _ = (Primary::of(&slots[at]), LabelEntry::from_bytes(&slots[at]).text());
        Stamp::new(u32::from(slots[at][0]) << 24 | 0x21, slots[at][1], slots[at][2]).to_timestamp(60);
        if let Ok(set) = EntrySet::read_loosely(&slots[at..]) {
            let (name, mut info) = (set.name(), set.info());
            info.parts().for_each(drop);
            if EntrySet::read(&slots[at..], &upcase).is_ok() {
                info.contiguous &= info.cluster != 0;
                let again = EntrySet::new(&name, &info, &upcase);
                assert_eq!((again.name(), again.info()), (name, info));
            }
        }
    }
}

/// Runs the check: without repair, with repair, and again. What a repair reports as repaired must be right.
pub fn check(input: &[u8]) {
    if let Some(device) = device(input) {
        fuzzing::check(&Exfat, &device);
    }
}

/// Opens the volume, reads everything, and writes something; then a repair must be possible.
pub fn volume(input: &[u8]) {
    if let Some(device) = device(input) {
        fuzzing::volume(&Exfat, Arc::new(device));
    }
}
