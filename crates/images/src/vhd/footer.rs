//! The footer ("Hard Disk Footer Format").

use crate::bytes::{be32, be64, damaged, field, read, unusable};
use crate::container::VHD;
use crate::guid::Guid;
use platter_device::{Device, Result};

pub(crate) const LENGTH: u64 = 512;

/// The type of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disk {
    Fixed,
    Dynamic,
    Differencing,
}

/// A footer as it is in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footer {
    pub disk: Disk,
    /// The offset of the header of a dynamic disk.
    pub header: u64,
    /// The size of the disk in bytes.
    pub size: u64,
    pub id: Guid,
    bytes: [u8; LENGTH as usize],
}

/// The one's complement of the sum of all bytes but those of the checksum, which are at this position.
pub(crate) fn checksum(bytes: &[u8], at: usize) -> u32 {
    let others = bytes[..at].iter().chain(&bytes[at + 4..]);
    !others.fold(0_u32, |sum, &byte| sum.wrapping_add(byte.into()))
}

/// A time stamp: the seconds since 2000-01-01 00:00 UTC, of those since 1970.
pub(crate) fn stamp(seconds: u64) -> u32 {
    const EPOCH: u64 = 946_684_800;
    seconds.saturating_sub(EPOCH) as u32
}

impl Footer {
    /// Reads the footer at the end of a file, or if there is none, its copy at the beginning. Returns also whether it is at
    /// the end: after a power cut while the file became longer it is not.
    pub(super) fn read(file: &dyn Device) -> Result<(Footer, bool)> {
        let end = file.len().saturating_sub(LENGTH);
        match Footer::read_at(file, end) {
            Ok(footer) => Ok((footer, true)),
            Err(error) => match Footer::read_at(file, 0) {
                Ok(footer) if footer.disk != Disk::Fixed => Ok((footer, false)),
                _ => Err(error),
            },
        }
    }

    fn read_at(file: &dyn Device, place: u64) -> Result<Footer> {
        let bytes: [u8; 512] = field(&read(file, place, 512)?, 0);
        let wrong =
            |expected: String, found: String| Err(damaged(file.name(), "the footer", place, expected, found));
        if &bytes[..8] != VHD {
            return wrong("the signature \"conectix\"".into(), format!("{:02x?}", &bytes[..8]));
        }
        let (stored, computed) = (be32(&bytes, 64), checksum(&bytes, 64));
        if stored != computed {
            return wrong(format!("the checksum {computed:#010x}"), format!("{stored:#010x}"));
        }
        if be32(&bytes, 12) >> 16 != 1 {
            return wrong("version 1".into(), format!("{:#010x}", be32(&bytes, 12)));
        }
        let disk = match be32(&bytes, 60) {
            2 => Disk::Fixed,
            3 => Disk::Dynamic,
            4 => Disk::Differencing,
            kind => return wrong("a fixed, dynamic or differencing disk, 2 to 4".into(), kind.to_string()),
        };
        let size = be64(&bytes, 48);
        if size == 0 || !size.is_multiple_of(512) {
            return wrong("a disk of whole sectors".into(), format!("{size} bytes"));
        }
        Ok(Footer { disk, header: be64(&bytes, 16), size, id: Guid(field(&bytes, 68)), bytes })
    }

    /// The footer of a new disk. `seconds` are those since 1970.
    pub(super) fn new(disk: Disk, size: u64, seconds: u64) -> Footer {
        let mut bytes = [0; LENGTH as usize];
        bytes[..8].copy_from_slice(VHD);
        // A bit that is reserved and always set.
        bytes[8..12].copy_from_slice(&2_u32.to_be_bytes());
        bytes[12..16].copy_from_slice(&0x0001_0000_u32.to_be_bytes());
        let header = if disk == Disk::Fixed { u64::MAX } else { LENGTH };
        bytes[16..24].copy_from_slice(&header.to_be_bytes());
        bytes[24..28].copy_from_slice(&stamp(seconds).to_be_bytes());
        // Some programs take the size of the disk from its geometry, which cannot say every size, unless the creator is
        // one that they know to write the right size in bytes. Windows is.
        bytes[28..32].copy_from_slice(b"win ");
        bytes[32..36].copy_from_slice(&0x0006_0001_u32.to_be_bytes());
        bytes[36..40].copy_from_slice(b"Wi2k");
        bytes[40..48].copy_from_slice(&size.to_be_bytes());
        bytes[48..56].copy_from_slice(&size.to_be_bytes());
        let (cylinders, heads, sectors) = geometry(size / 512);
        bytes[56..58].copy_from_slice(&cylinders.to_be_bytes());
        bytes[58] = heads;
        bytes[59] = sectors;
        let kind: u32 = match disk {
            Disk::Fixed => 2,
            Disk::Dynamic => 3,
            Disk::Differencing => 4,
        };
        bytes[60..64].copy_from_slice(&kind.to_be_bytes());
        let id = Guid::random();
        bytes[68..84].copy_from_slice(&id.0);
        let sum = checksum(&bytes, 64);
        bytes[64..68].copy_from_slice(&sum.to_be_bytes());
        Footer { disk, header, size, id, bytes }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The most bytes of a disk: 2040 GiB.
const MOST: u64 = 2040 << 30;

/// Fails if a VHD cannot have this size.
pub(crate) fn refuse_size(name: &str, size: u64) -> Result<()> {
    if size == 0 || size > MOST || !size.is_multiple_of(512) {
        let reason = format!(
            "a VHD cannot have {size} bytes: it has at most 2040 GiB in whole sectors of 512 bytes; VHDX has up to 64 TiB"
        );
        return Err(unusable(name, reason));
    }
    Ok(())
}

/// Cylinders, heads and sectors of a disk of so many sectors (the specification's appendix "CHS Calculation").
fn geometry(total: u64) -> (u16, u8, u8) {
    let total = total.min(65_535 * 16 * 255);
    let (mut sectors, mut heads);
    let mut tracks;
    if total >= 65_535 * 16 * 63 {
        (sectors, heads) = (255, 16);
        tracks = total / sectors;
    } else {
        sectors = 17;
        tracks = total / sectors;
        heads = tracks.div_ceil(1024).max(4);
        if tracks >= heads * 1024 || heads > 16 {
            (sectors, heads) = (31, 16);
            tracks = total / sectors;
        }
        if tracks >= heads * 1024 {
            (sectors, heads) = (63, 16);
            tracks = total / sectors;
        }
    }
    ((tracks / heads) as u16, heads as u8, sectors as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_geometry_is_that_of_the_specification() {
        // What qemu-img and Virtual PC write for disks of these sizes in MiB.
        for (mib, expected) in [(64, (963, 8, 17)), (504, (1024, 16, 63)), (16384, (33288, 16, 63))] {
            assert_eq!(geometry(mib << 11), expected, "{mib} MiB");
        }
        assert_eq!(geometry(u64::MAX), (65535, 16, 255));
    }
}
