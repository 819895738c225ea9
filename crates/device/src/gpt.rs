//! Making a partition table: a GPT with one partition, as a disk for data has under Windows.
//!
//! Source: the UEFI specification, chapter 5, "GUID Partition Table (GPT) Disk Layout". The partition begins and ends on
//! whole MiB, as Windows places it.

use crate::{Device, Error, Result, write_any};
use std::ops::Range;

/// EBD0A0A2-B9E5-4433-87C0-68B6B72699C7, "basic data", as it is stored: the type of every volume that Windows mounts.
const BASIC_DATA: [u8; 16] = *b"\xA2\xA0\xD0\xEB\xE5\xB9\x33\x44\x87\xC0\x68\xB6\xB7\x26\x99\xC7";
const NAME: &str = "Basic data partition";
const MIB: u64 = 1 << 20;

// A partition begins at a whole sector of any size.
const _: () = assert!(MIB.is_multiple_of(4096));

/// The number of entries, and the bytes of one.
const ENTRIES: u64 = 128;
const ENTRY: u64 = 128;

// Partitioning tools expect 16 KiB of entries.
const _: () = assert!(ENTRIES * ENTRY == 16 << 10);

/// The bytes of a header that its checksum covers.
const HEADER: usize = 92;

/// The range in bytes of the only partition of a disk of this size whose table [`make_gpt`] makes.
///
/// # Errors
/// [`Error::Unusable`] for a device of less than 3 MiB.
pub fn gpt_partition(device: &dyn Device) -> Result<Range<u64>> {
    let sector = u64::from(device.sectors().logical);
    let behind = ENTRIES * ENTRY + sector;
    let end = device.len().saturating_sub(behind) / MIB * MIB;
    if end < 2 * MIB {
        let reason =
            format!("has {} bytes, and a disk with a partition table has at least 3 MiB", device.len());
        return Err(Error::Unusable { device: device.name().into(), reason });
    }
    Ok(MIB..end)
}

/// Makes a GPT with a partition of the range [`gpt_partition`]. `disk` and `partition` are the identifiers of both. What
/// the first sector and the table had before is lost.
///
/// # Errors
/// As [`gpt_partition`], and the errors of the device.
pub fn make_gpt(device: &dyn Device, disk: [u8; 16], partition: [u8; 16]) -> Result<()> {
    let range = gpt_partition(device)?;
    let sector = u64::from(device.sectors().logical);
    let last = device.len() / sector - 1;
    let table = (ENTRIES * ENTRY).div_ceil(sector);
    let mut entries = vec![0; (ENTRIES * ENTRY) as usize];
    entries[..16].copy_from_slice(&BASIC_DATA);
    entries[16..32].copy_from_slice(&partition);
    entries[32..40].copy_from_slice(&(range.start / sector).to_le_bytes());
    entries[40..48].copy_from_slice(&(range.end / sector - 1).to_le_bytes());
    let name = NAME.encode_utf16().flat_map(u16::to_le_bytes);
    entries[56..ENTRY as usize].iter_mut().zip(name).for_each(|(byte, value)| *byte = value);
    let header = |own: u64, other: u64, entries_at: u64| {
        let mut bytes = vec![0; sector as usize];
        bytes[..8].copy_from_slice(b"EFI PART");
        bytes[8..12].copy_from_slice(&0x0001_0000_u32.to_le_bytes());
        bytes[12..16].copy_from_slice(&(HEADER as u32).to_le_bytes());
        for (at, value) in [(24, own), (32, other), (40, 2 + table), (48, last - table - 1), (72, entries_at)]
        {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes[56..72].copy_from_slice(&disk);
        bytes[80..84].copy_from_slice(&(ENTRIES as u32).to_le_bytes());
        bytes[84..88].copy_from_slice(&(ENTRY as u32).to_le_bytes());
        bytes[88..92].copy_from_slice(&crc32fast::hash(&entries).to_le_bytes());
        let sum = crc32fast::hash(&bytes[..HEADER]);
        bytes[16..20].copy_from_slice(&sum.to_le_bytes());
        bytes
    };
    write_any(device, (last - table) * sector, &entries)?;
    device.write_at(last * sector, &header(last, 1, last - table))?;
    write_any(device, 2 * sector, &entries)?;
    device.write_at(sector, &header(1, last, 2))?;
    device.write_at(0, &protective(sector as usize, last))
}

/// The first sector, by which programs that do not know GPT see a disk that is taken.
fn protective(sector: usize, last: u64) -> Vec<u8> {
    let mut bytes = vec![0; sector];
    let entry = &mut bytes[446..462];
    entry[1..4].copy_from_slice(&[0x00, 0x02, 0x00]);
    entry[4] = 0xEE;
    entry[5..8].copy_from_slice(&[0xFF, 0xFF, 0xFF]);
    entry[8..12].copy_from_slice(&1_u32.to_le_bytes());
    entry[12..16].copy_from_slice(&u32::try_from(last).unwrap_or(u32::MAX).to_le_bytes());
    bytes[510..512].copy_from_slice(&[0x55, 0xAA]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryDevice, PartitionTable, Scheme, Sectors};

    #[test]
    fn the_table_is_that_of_another_implementation() {
        for (sectors, length) in
            [(Sectors::SMALL, 3 << 20), (Sectors::SMALL, (64 << 20) + 512), (Sectors::LARGE, 64 << 20)]
        {
            let device = MemoryDevice::new(length, sectors);
            make_gpt(&device, [7; 16], [9; 16]).unwrap();
            let table = PartitionTable::read(&device).unwrap().unwrap();
            let range = gpt_partition(&device).unwrap();
            let part = &table.partitions[0];
            assert_eq!((table.scheme, table.partitions.len()), (Scheme::Gpt, 1));
            assert_eq!(
                (part.start, part.start + part.length, &*part.kind),
                (range.start, range.end, "basic data")
            );
            let image = device.to_image();
            let mut read = std::io::Cursor::new(&image);
            let sector = u64::from(sectors.logical);
            let gpt = gptman::GPT::read_from(&mut read, sector).unwrap();
            assert_eq!(gpt[1].starting_lba * sector, range.start);
            assert_eq!((gpt.header.disk_guid, gpt[1].unique_partition_guid), ([7; 16], [9; 16]));
            // The copy at the end is as good.
            let mut lost = image.clone();
            lost[sector as usize..][..sector as usize].fill(0);
            assert_eq!(gptman::GPT::read_from(&mut std::io::Cursor::new(&lost), sector).unwrap()[1], gpt[1]);
        }
        assert!(make_gpt(&MemoryDevice::new(2 << 20, Sectors::SMALL), [7; 16], [9; 16]).is_err());
    }
}
