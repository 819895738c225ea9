//! The first sector of an encrypted volume.

use crate::bytes::{field, le16, le64, unusable};
use platter_device::Result;
use std::fmt;

/// What stands where other volumes have the name of their format.
pub(crate) const SIGNATURE: [u8; 8] = *b"-FVE-FS-";

/// Where an encrypted volume has what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// That of Windows Vista: the first sectors are plain, and the very first one is that of NTFS with two fields changed.
    Vista,
    /// That of Windows 7 and all later ones: the first sectors stand elsewhere.
    Seven,
    /// BitLocker To Go: the same, and in place of the first sectors is a small FAT volume for who does not know it.
    ToGo,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layout::Vista => "BitLocker of Windows Vista",
            Layout::Seven => "BitLocker of Windows 7 and later",
            Layout::ToGo => "BitLocker To Go",
        })
    }
}

/// What the first sector says: \[BDE\], "Volume header".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VolumeHeader {
    pub layout: Layout,
    /// The size of a sector in bytes: the unit of encryption.
    pub sector: u32,
    /// The offsets of the copies of the metadata; on Vista only that of the first, three times.
    pub blocks: [u64; 3],
    /// Whether Windows encrypts the volume while it is in use, and has not come to the end.
    pub is_under_way: bool,
}

/// 4967d63b-2e29-4ad8-8399-f6a339e3d001.
pub(crate) const IDENTIFIER: [u8; 16] =
    [0x3B, 0xD6, 0x67, 0x49, 0x29, 0x2E, 0xD8, 0x4A, 0x83, 0x99, 0xF6, 0xA3, 0x39, 0xE3, 0xD0, 0x01];
/// 92a84d3b-dd80-4d0e-9e4e-b1e3284eaed8, while sectors are encrypted as they are written.
pub(crate) const UNDER_WAY: [u8; 16] =
    [0x3B, 0x4D, 0xA8, 0x92, 0x80, 0xDD, 0x0E, 0x4D, 0x9E, 0x4E, 0xB1, 0xE3, 0x28, 0x4E, 0xAE, 0xD8];

/// Where the identifier is, which the offsets of the metadata follow.
pub(crate) const AT_SEVEN: usize = 160;
pub(crate) const AT_TO_GO: usize = 424;
/// Where Vista has the cluster of the first copy of the metadata; NTFS has that of the copy of its file table.
pub(crate) const CLUSTER_AT: usize = 56;

impl VolumeHeader {
    /// Reads the first 512 bytes of the device `name`; `None` if they are those of something else.
    pub(crate) fn parse(name: &str, bytes: &[u8]) -> Result<Option<VolumeHeader>> {
        let identifier = |at| field::<16>(bytes, at).filter(|id| [IDENTIFIER, UNDER_WAY].contains(id));
        let is_signed = field(bytes, 3) == Some(SIGNATURE);
        let (layout, found) = match (is_signed, identifier(AT_SEVEN), identifier(AT_TO_GO)) {
            (true, Some(id), _) => (Layout::Seven, Some((AT_SEVEN, id))),
            (_, _, Some(id)) => (Layout::ToGo, Some((AT_TO_GO, id))),
            // A jump over the parameters of NTFS, and not over those of FAT32.
            (true, None, None) if bytes.starts_with(&[0xEB, 0x52]) => (Layout::Vista, None),
            (true, None, None) => {
                let why = "begins like a BitLocker volume, with an identifier that is not known here";
                return Err(unusable(name, why));
            }
            (false, ..) => return Ok(None),
        };
        let sector = le16(bytes, 11).filter(|size| [512, 1024, 2048, 4096].contains(size));
        let Some(sector) = sector.map(u32::from) else {
            let found = le16(bytes, 11).unwrap_or(0);
            return Err(unusable(
                name,
                format!("begins like a BitLocker volume with sectors of {found} bytes: expected 512 to 4096"),
            ));
        };
        let number = |at| le64(bytes, at).unwrap_or(0);
        let blocks = match found {
            Some((at, _)) => [16, 24, 32].map(|behind| number(at + behind)),
            None => [number(CLUSTER_AT).saturating_mul(cluster(bytes, sector)); 3],
        };
        let is_under_way = found.is_some_and(|(_, id)| id == UNDER_WAY);
        Ok(Some(VolumeHeader { layout, sector, blocks, is_under_way }))
    }
}

/// The size of a cluster in bytes. As in NTFS, large numbers of sectors are powers of two.
pub(crate) fn cluster(bytes: &[u8], sector: u32) -> u64 {
    let sectors = match bytes[13] {
        few @ ..=0x80 => u64::from(few),
        power => 1 << (256 - u64::from(power)).min(32),
    };
    sectors * u64::from(sector)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sector(jump: u8, signature: &[u8], identifier: Option<(usize, [u8; 16])>) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        bytes[..3].copy_from_slice(&[0xEB, jump, 0x90]);
        bytes[3..11].copy_from_slice(signature);
        bytes[11..14].copy_from_slice(&[0, 2, 8]);
        bytes[CLUSTER_AT..CLUSTER_AT + 8].copy_from_slice(&100_u64.to_le_bytes());
        if let Some((at, id)) = identifier {
            bytes[at..at + 16].copy_from_slice(&id);
            for (number, place) in [(1_u64, 16), (2, 24), (3, 32)] {
                bytes[at + place..at + place + 8].copy_from_slice(&(number << 20).to_le_bytes());
            }
        }
        bytes
    }

    #[test]
    fn every_layout_is_told_by_its_first_sector() {
        let parse = |bytes: &[u8]| VolumeHeader::parse("volume", bytes);
        let three = [1 << 20, 2 << 20, 3 << 20];
        for (bytes, layout, blocks, is_under_way) in [
            (sector(0x52, &SIGNATURE, None), Layout::Vista, [409_600; 3], false),
            (sector(0x58, &SIGNATURE, Some((AT_SEVEN, IDENTIFIER))), Layout::Seven, three, false),
            (sector(0x58, &SIGNATURE, Some((AT_SEVEN, UNDER_WAY))), Layout::Seven, three, true),
            (sector(0x58, b"MSWIN4.1", Some((AT_TO_GO, IDENTIFIER))), Layout::ToGo, three, false),
        ] {
            let expected = VolumeHeader { layout, sector: 512, blocks, is_under_way };
            assert_eq!(parse(&bytes).unwrap(), Some(expected));
            let mut wrong = bytes.clone();
            wrong[12] = 3;
            assert!(parse(&wrong).unwrap_err().to_string().contains("sectors of 768 bytes"));
        }
        assert_eq!(parse(&sector(0x52, b"NTFS    ", None)).unwrap(), None);
        assert!(parse(&sector(0x58, &SIGNATURE, None)).is_err());
        assert!(parse(&[0; 512]).unwrap().is_none() && parse(&[]).unwrap().is_none());
    }
}
