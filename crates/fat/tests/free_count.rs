//! What an opened volume counts as free is what the entries of its table say, one by one.

use platter_device::{Device, MemoryDevice, Sectors};
use platter_fat::Fat;
use platter_testing::model::{Random, seed};
use platter_vfs::{Format, FormatOptions, OpenOptions, Silent};
use std::sync::Arc;

/// Sets entry `index` of a table, of `bits` bits.
fn set(table: &mut [u8], bits: usize, index: usize, value: u32) {
    match bits {
        12 => {
            let at = index * 12 / 8;
            let pair = u16::from_le_bytes([table[at], table[at + 1]]);
            let pair = match index % 2 {
                0 => pair & 0xF000 | value as u16 & 0xFFF,
                _ => pair & 0x000F | (value as u16) << 4,
            };
            table[at..at + 2].copy_from_slice(&pair.to_le_bytes());
        }
        16 => table[2 * index..2 * index + 2].copy_from_slice(&(value as u16).to_le_bytes()),
        _ => table[4 * index..4 * index + 4].copy_from_slice(&value.to_le_bytes()),
    }
}

#[test]
fn free_clusters_are_counted_entry_by_entry() {
    let mut random = Random::new(seed());
    for (format, bits, megabytes) in [(&Fat::FAT12, 12, 4), (&Fat::FAT16, 16, 20), (&Fat::FAT32, 32, 40)] {
        for _ in 0..12 {
            let device = Arc::new(MemoryDevice::new(megabytes << 20, Sectors::SMALL));
            format.make(&*device, &FormatOptions::default(), &Silent).unwrap();
            let open = || format.open(device.clone(), OpenOptions::default()).unwrap();
            let (start, length, free) = {
                let mut boot = [0; 512];
                device.read_at(0, &mut boot).unwrap();
                let field = |at: usize| u64::from(u16::from_le_bytes([boot[at], boot[at + 1]]));
                let sectors = if bits == 32 { field(36) + (field(38) << 16) } else { field(22) };
                (field(14) * 512, sectors * 512, open().space().unwrap().free)
            };
            // The clusters from 20 on are free on a new volume: some runs of them become bad.
            let mut table = vec![0; length as usize];
            device.read_at(start, &mut table).unwrap();
            let mut bad = 0;
            let mut at = 20 + random.below(100) as usize;
            let end = free as usize;
            while at < end {
                let most = *random.pick(&[3, 300]);
                let run = (1 + random.below(most) as usize).min(end - at);
                (at..at + run).for_each(|index| set(&mut table, bits, index, 0x0FFF_FFF7));
                bad += run as u64;
                let most = *random.pick(&[3, 3000]);
                at += run + 1 + random.below(most) as usize;
                if bits == 32 && at < end && random.chance(30) {
                    // The upper four bits of an entry are no part of its value.
                    set(&mut table, bits, at - 1, 0xA000_0000);
                }
            }
            (0..2).for_each(|copy| device.write_at(start + copy * length, &table).unwrap());
            assert_eq!(open().space().unwrap().free, free - bad, "FAT{bits}, {bad} bad clusters");
        }
    }
}
