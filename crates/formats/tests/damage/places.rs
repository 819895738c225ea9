//! The places of a volume that can be damaged.

use crate::tree::every_file;
use platter_device::{Device, OverlayDevice};
use platter_testing::model::Random;
use platter_vfs::{FileSystem, Place};
use std::collections::{BTreeMap, HashSet};

/// The size of a sector in bytes.
const SECTOR: u64 = 512;

/// The sectors of a volume that hold something, metadata apart from the content of files.
pub(crate) struct Places {
    /// The sectors of metadata, grouped by the signature of the 4 KiB block that they are in. Every group is chosen
    /// equally often, so that a kind of structure with few blocks is hit as often as one with many.
    metadata: Vec<Vec<u64>>,
    data: Vec<u64>,
    /// The bytes in rows of 16 that hold something, in the first sectors of every group.
    bytes: Vec<u64>,
}

/// The sectors of each group every bit of which can be flipped.
const FIRST: usize = 24;

/// What was done to a volume.
#[derive(Debug)]
pub(crate) struct Damage {
    /// The damage and its places, in words.
    pub told: String,
    /// Whether nothing but the content of files was hit.
    pub is_data: bool,
}

impl Places {
    pub(crate) fn of(device: &dyn Device, system: &dyn FileSystem) -> Places {
        let mut content = HashSet::new();
        every_file(system, &mut |node| {
            for extent in system.extents(node).unwrap_or_default() {
                if let Place::Device(at) = extent.place {
                    let sectors = at / SECTOR..(at + extent.length).div_ceil(SECTOR);
                    content.extend(sectors.map(|number| number * SECTOR));
                }
            }
        });
        let (mut metadata, mut data) = (BTreeMap::<Vec<u8>, Vec<u64>>::new(), Vec::new());
        let mut bytes = Vec::new();
        let mut block = vec![0; 4096];
        let mut at = device.next_data(0) / 4096 * 4096;
        while at < device.len() {
            let length = (device.len() - at).min(4096) as usize;
            device.read_at(at, &mut block[..length]).expect("a device that can be read");
            let is_signed = block[..4].iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'+');
            let kind = if is_signed { block[..4].to_vec() } else { Vec::new() };
            for (sector, place) in
                block[..length].chunks(SECTOR as usize).zip((at..).step_by(SECTOR as usize))
            {
                // A sector whose bytes are all the same holds nothing: it is empty, or padding.
                if sector.iter().all(|&byte| byte == sector[0]) {
                    continue;
                }
                match content.contains(&place) {
                    true => data.push(place),
                    false => {
                        let group = metadata.entry(kind.clone()).or_default();
                        if group.len() < FIRST {
                            let rows = sector.chunks(16).zip((place..).step_by(16));
                            let full = rows.filter(|(row, _)| row.iter().any(|&byte| byte != 0));
                            bytes.extend(full.flat_map(|(_, row)| row..row + 16));
                        }
                        group.push(place);
                    }
                }
            }
            at = device.next_data(at + 4096) / 4096 * 4096;
        }
        Places { metadata: metadata.into_values().collect(), data, bytes }
    }

    /// Returns the offset of a sector of metadata.
    pub(crate) fn metadata(&self, random: &mut Random) -> u64 {
        let kind = random.below(self.metadata.len() as u64) as usize;
        *random.pick(&self.metadata[kind])
    }

    /// Returns the offset of a byte in a sector, mostly of one that is not zero.
    fn byte(device: &dyn Device, sector: u64, random: &mut Random) -> u64 {
        let mut bytes = [0; SECTOR as usize];
        device.read_at(sector, &mut bytes).expect("a device in memory");
        let mut at = random.below(SECTOR) as usize;
        for _ in 0..3 {
            if bytes[at] == 0 {
                at = random.below(SECTOR) as usize;
            }
        }
        sector + at as u64
    }

    /// Flips `count` bits: in 12 of 100 cases all of them in the content of files, otherwise all in metadata.
    pub(crate) fn flip(&self, device: &OverlayDevice, count: u32, random: &mut Random) -> Damage {
        let is_data = random.chance(12);
        let mut told = Vec::new();
        for _ in 0..count {
            let sector = if is_data { *random.pick(&self.data) } else { self.metadata(random) };
            let at = Places::byte(device, sector, random);
            let bit = random.below(8);
            change(device, at, 1, |bytes| bytes[0] ^= 1 << bit);
            told.push(format!("{at:#x}.{bit}"));
        }
        Damage { told: format!("flipped {}", told.join(" ")), is_data }
    }

    /// How many bits [`Places::flip_bit`] can flip.
    pub(crate) fn bits(&self) -> u64 {
        8 * self.bytes.len() as u64
    }

    /// Flips one bit of metadata.
    pub(crate) fn flip_bit(&self, device: &OverlayDevice, number: u64) -> Damage {
        let (at, bit) = (self.bytes[(number / 8) as usize], number % 8);
        change(device, at, 1, |bytes| bytes[0] ^= 1 << bit);
        Damage { told: format!("flipped {at:#x}.{bit}"), is_data: false }
    }

    /// Damages one to three places in metadata.
    pub(crate) fn damage(&self, device: &OverlayDevice, random: &mut Random) -> Damage {
        let told: Vec<String> = (0..1 + random.below(3)).map(|_| self.damage_one(device, random)).collect();
        Damage { told: told.join(", "), is_data: false }
    }

    fn damage_one(&self, device: &OverlayDevice, random: &mut Random) -> String {
        let sector = self.metadata(random);
        let at = Places::byte(device, sector, random);
        match random.below(8) {
            0..=2 => {
                let bit = random.below(8);
                change(device, at, 1, |bytes| bytes[0] ^= 1 << bit);
                format!("{at:#x}.{bit} flipped")
            }
            3 => {
                let value = random.number().to_le_bytes()[0];
                change(device, at, 1, |bytes| bytes[0] = value);
                format!("{at:#x} is {value:#x}")
            }
            4 => {
                change(device, sector, SECTOR as usize, |bytes| bytes.fill(0));
                format!("{sector:#x} zeroed")
            }
            5 => {
                let rubbish = random.bytes(SECTOR as usize);
                change(device, sector, SECTOR as usize, |bytes| bytes.copy_from_slice(&rubbish));
                format!("{sector:#x} rubbish")
            }
            6 => {
                // The sector gets the content of another one, as by a misdirected write.
                let from = self.metadata(random);
                let mut bytes = vec![0; SECTOR as usize];
                device.read_at(from, &mut bytes).expect("a device in memory");
                device.write_at(sector, &bytes).expect("a device in memory");
                format!("{sector:#x} is {from:#x}")
            }
            _ => {
                let block = sector / 4096 * 4096;
                let length = (device.len() - block).min(4096) as usize;
                change(device, block, length, |bytes| bytes.fill(0));
                format!("{block:#x} to {:#x} zeroed", block + length as u64)
            }
        }
    }
}

/// Changes some bytes in sectors of a device.
fn change(device: &OverlayDevice, at: u64, length: usize, change: impl FnOnce(&mut [u8])) {
    let start = at / SECTOR * SECTOR;
    let mut bytes = vec![0; ((at + length as u64).next_multiple_of(SECTOR) - start) as usize];
    device.read_at(start, &mut bytes).expect("a device in memory");
    change(&mut bytes[(at - start) as usize..][..length]);
    device.write_at(start, &bytes).expect("a device in memory");
}
