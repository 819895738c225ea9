//! FAT32's information sector (fatgen103, "FAT32 FSInfo Sector Structure and Backup Boot Sector").

use super::{array, le32};

/// FAT32's information sector: the number of free clusters, and where to search for one. Both are only hints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoSector {
    /// `FSI_LeadSig`: 0x41615252.
    pub lead_signature: u32,
    /// `FSI_Reserved1`: zero.
    pub reserved_1: [u8; 480],
    /// `FSI_StrucSig`: 0x61417272.
    pub structure_signature: u32,
    /// `FSI_Free_Count`: the number of free clusters; FFFFFFFF for unknown.
    pub free: u32,
    /// `FSI_Nxt_Free`: the cluster from which to search for a free one; FFFFFFFF for unknown.
    pub next: u32,
    /// `FSI_Reserved2`: zero.
    pub reserved_2: [u8; 12],
    /// `FSI_TrailSig`: 0xAA550000.
    pub trail_signature: u32,
}

impl InfoSector {
    /// The size of the structure in bytes.
    pub const SIZE: usize = 512;
    /// The value for "unknown" in `free` and `next`.
    pub const UNKNOWN: u32 = 0xFFFF_FFFF;
    const LEAD: u32 = 0x4161_5252;
    const STRUCTURE: u32 = 0x6141_7272;
    const TRAIL: u32 = 0xAA55_0000;

    /// Makes an information sector with these values.
    pub fn new(free: u32, next: u32) -> InfoSector {
        InfoSector {
            lead_signature: InfoSector::LEAD,
            reserved_1: [0; 480],
            structure_signature: InfoSector::STRUCTURE,
            free,
            next,
            reserved_2: [0; 12],
            trail_signature: InfoSector::TRAIL,
        }
    }

    /// Parses the sector.
    pub fn from_bytes(bytes: &[u8; InfoSector::SIZE]) -> InfoSector {
        InfoSector {
            lead_signature: le32(bytes, 0),
            reserved_1: array(bytes, 4),
            structure_signature: le32(bytes, 484),
            free: le32(bytes, 488),
            next: le32(bytes, 492),
            reserved_2: array(bytes, 496),
            trail_signature: le32(bytes, 508),
        }
    }

    /// Returns the first 512 bytes of the sector.
    pub fn to_bytes(&self) -> [u8; InfoSector::SIZE] {
        let mut bytes = [0; InfoSector::SIZE];
        bytes[..4].copy_from_slice(&self.lead_signature.to_le_bytes());
        bytes[4..484].copy_from_slice(&self.reserved_1);
        bytes[484..488].copy_from_slice(&self.structure_signature.to_le_bytes());
        bytes[488..492].copy_from_slice(&self.free.to_le_bytes());
        bytes[492..496].copy_from_slice(&self.next.to_le_bytes());
        bytes[496..508].copy_from_slice(&self.reserved_2);
        bytes[508..].copy_from_slice(&self.trail_signature.to_le_bytes());
        bytes
    }

    /// Whether all three signatures are right.
    pub fn is_valid(&self) -> bool {
        self.lead_signature == InfoSector::LEAD
            && self.structure_signature == InfoSector::STRUCTURE
            && self.trail_signature == InfoSector::TRAIL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        let bytes = InfoSector::new(0x0003_FDFE, 3).to_bytes();
        assert_eq!(&bytes[..4], b"RRaA");
        assert_eq!(&bytes[484..496], b"rrAa\xFE\xFD\x03\x00\x03\x00\x00\x00");
        assert_eq!(&bytes[508..], [0, 0, 0x55, 0xAA]);
        assert!(InfoSector::from_bytes(&bytes).is_valid());
        assert!(!InfoSector::from_bytes(&[0; 512]).is_valid());
    }

    #[test]
    fn any_bytes_come_back_unchanged() {
        let bytes: [u8; 512] = std::array::from_fn(|at| (at * 31 % 251) as u8);
        assert_eq!(InfoSector::from_bytes(&bytes).to_bytes(), bytes);
    }
}
