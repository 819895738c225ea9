//! Disks as fixed VHD files with a partition table of one partition: Windows attaches nothing else without a driver.
//!
//! Facts: Microsoft, "Virtual Hard Disk Image Format Specification", version 1.0 of 2006: a fixed disk is the content,
//! followed by a footer of 512 bytes. The partition types are those that Windows gives: the UEFI specification's basic
//! data for GPT, and the types of Microsoft's list of MBR partition types.

use crate::command::failure::{About, Failure, shown};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

/// The scheme of the partition table, and for MBR the type of the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// A GPT with a basic data partition.
    Gpt,
    /// An MBR with a partition of this type.
    Mbr(u8),
}

/// The sizes of disks are multiples of this many bytes. Programs count a VHD's size in bytes or in cylinders of 16 heads
/// and 63 sectors, which the specification's appendix prescribes for disks from 248 MiB on; both say the same of such
/// disks, and they have whole MiB.
pub(crate) const UNIT: u64 = 63 << 20;
/// The least size at which the appendix prescribes 16 heads and 63 sectors, in whole units.
pub(crate) const SMALLEST: u64 = 4 * UNIT;
/// Where the partition begins, as Windows places it.
pub(crate) const START: u64 = 1 << 20;
/// The length of the footer.
pub(crate) const FOOTER: usize = 512;
const SECTOR: u64 = 512;

/// Makes a VHD with a partition of `partition` bytes, or as long as the disk allows. The file is sparse.
pub(crate) fn make(
    path: &Path,
    size: u64,
    scheme: Scheme,
    partition: Option<u64>,
    id: [u8; 16],
) -> Result<(), Failure> {
    assert!(size.is_multiple_of(UNIT) && size >= SMALLEST, "a disk of whole units");
    let longest = size - 2 * START;
    let length = partition.unwrap_or(longest).min(longest);
    let mut file = File::options().read(true).write(true).create_new(true).open(path).about(shown(path))?;
    let write = |file: &mut File| -> std::io::Result<()> {
        file.set_len(size)?;
        match scheme {
            Scheme::Mbr(kind) => file.write_all(&mbr(kind, length, id))?,
            Scheme::Gpt => gpt(file, length, id).map_err(std::io::Error::other)?,
        }
        file.seek(SeekFrom::Start(size))?;
        file.write_all(&footer(size, id))
    };
    write(&mut file).about(shown(path))
}

/// The first sector of a disk with one partition. Addresses in cylinders are those that mean "see the sector numbers".
fn mbr(kind: u8, length: u64, id: [u8; 16]) -> [u8; 512] {
    let mut sector = [0; 512];
    // Windows tells disks apart by this number.
    sector[440..444].copy_from_slice(&id[..4]);
    let entry = &mut sector[446..462];
    entry[1..4].copy_from_slice(&[0xFE, 0xFF, 0xFF]);
    entry[4] = kind;
    entry[5..8].copy_from_slice(&[0xFE, 0xFF, 0xFF]);
    entry[8..12].copy_from_slice(&((START / SECTOR) as u32).to_le_bytes());
    entry[12..16].copy_from_slice(&((length / SECTOR) as u32).to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xAA]);
    sector
}

fn gpt(file: &mut File, length: u64, id: [u8; 16]) -> Result<(), gptman::Error> {
    // EBD0A0A2-B9E5-4433-87C0-68B6B72699C7 as it is stored.
    const BASIC_DATA: [u8; 16] = *b"\xA2\xA0\xD0\xEB\xE5\xB9\x33\x44\x87\xC0\x68\xB6\xB7\x26\x99\xC7";
    let mut gpt = gptman::GPT::new_from(file, SECTOR, id)?;
    let mut unique_partition_guid = id;
    unique_partition_guid[15] ^= 1;
    gpt[1] = gptman::GPTPartitionEntry {
        partition_type_guid: BASIC_DATA,
        unique_partition_guid,
        starting_lba: START / SECTOR,
        ending_lba: (START + length) / SECTOR - 1,
        attribute_bits: 0,
        partition_name: "Basic data partition".into(),
    };
    gpt.write_into(file)?;
    gptman::GPT::write_protective_mbr_into(file, SECTOR)
}

/// The footer of a fixed disk (the specification's "Hard Disk Footer Format"). Numbers are big-endian.
pub(crate) fn footer(size: u64, id: [u8; 16]) -> [u8; FOOTER] {
    const FIXED: u32 = 2;
    let mut footer = [0; FOOTER];
    footer[..8].copy_from_slice(b"conectix");
    // Reserved, always set.
    footer[8..12].copy_from_slice(&2_u32.to_be_bytes());
    // The version of the format.
    footer[12..16].copy_from_slice(&0x0001_0000_u32.to_be_bytes());
    // A fixed disk has no other structure.
    footer[16..24].fill(0xFF);
    // The time stamp stays at 2000-01-01, so that a kit made again has the same footers.
    footer[28..32].copy_from_slice(b"pltr");
    footer[32..36].copy_from_slice(&0x0001_0000_u32.to_be_bytes());
    footer[36..40].copy_from_slice(b"Wi2k");
    footer[40..48].copy_from_slice(&size.to_be_bytes());
    footer[48..56].copy_from_slice(&size.to_be_bytes());
    let (heads, sectors) = (16_u64, 63_u64);
    // More cylinders than this the field cannot hold, and then the size in bytes alone counts.
    let cylinders = (size / SECTOR / heads / sectors).min(0xFFFF);
    footer[56..58].copy_from_slice(&(cylinders as u16).to_be_bytes());
    footer[58] = heads as u8;
    footer[59] = sectors as u8;
    footer[60..64].copy_from_slice(&FIXED.to_be_bytes());
    footer[68..84].copy_from_slice(&id);
    let sum = footer.iter().fold(0_u32, |sum, &byte| sum.wrapping_add(byte.into()));
    footer[64..68].copy_from_slice(&(!sum).to_be_bytes());
    footer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The specification: the checksum is the one's complement of the sum of all other bytes of the footer.
    #[test]
    fn the_footer_of_252_mib_is_that_of_the_specification() {
        let footer = footer(SMALLEST, [7; 16]);
        assert_eq!(footer[..16], *b"conectix\0\0\0\x02\0\x01\0\0");
        assert_eq!(footer[16..24], [0xFF; 8]);
        assert_eq!(footer[40..48], [0, 0, 0, 0, 0x0F, 0xC0, 0, 0]);
        // 512 cylinders, 16 heads, 63 sectors: 512 × 16 × 63 × 512 bytes are 252 MiB.
        assert_eq!(footer[56..64], [2, 0, 16, 63, 0, 0, 0, 2]);
        let others = footer[..64].iter().chain(&footer[68..]);
        let sum: u32 = others.map(|&byte| u32::from(byte)).sum();
        assert_eq!(footer[64..68], (!sum).to_be_bytes());
        assert_eq!(footer[84..], [0; 428]);
    }
}
