//! The checksums of ReFS.
//!
//! * CRC-64 over a whole metadata page: polynomial 0xAD93D23594C93659, reflected, initial value and final XOR all ones
//!   (the parameters of CRC-64/NVME), recomputed from pages that Windows wrote.
//! * CRC-32C over a cluster: superblocks and checkpoints on volumes with 4 KiB clusters, and the data of integrity
//!   streams.
//! * SHA-256 in place of both on volumes made with it.

use sha2::{Digest, Sha256};

/// The CRC-32C of some bytes.
pub(crate) use crc_fast::crc32_iscsi as crc32c;

/// A checksum algorithm, by the code that stands beside every stored checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// 0: nothing is stored.
    None,
    /// 1: 4 bytes.
    Crc32c,
    /// 2: 8 bytes.
    Crc64,
    /// 4: 32 bytes.
    Sha256,
}

impl Algorithm {
    /// The algorithm of this code.
    pub fn from_code(code: u8) -> Option<Algorithm> {
        Some(match code {
            0 => Algorithm::None,
            1 => Algorithm::Crc32c,
            2 => Algorithm::Crc64,
            4 => Algorithm::Sha256,
            _ => return None,
        })
    }

    /// The code that stands for the algorithm on disk.
    pub fn code(self) -> u8 {
        match self {
            Algorithm::None => 0,
            Algorithm::Crc32c => 1,
            Algorithm::Crc64 => 2,
            Algorithm::Sha256 => 4,
        }
    }

    /// The algorithm's name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::None => "none",
            Algorithm::Crc32c => "CRC32-C",
            Algorithm::Crc64 => "CRC64",
            Algorithm::Sha256 => "SHA-256",
        }
    }

    /// The length of a checksum in bytes.
    pub fn size(self) -> usize {
        match self {
            Algorithm::None => 0,
            Algorithm::Crc32c => 4,
            Algorithm::Crc64 => 8,
            Algorithm::Sha256 => 32,
        }
    }

    /// Computes the checksum of `bytes`.
    pub fn of(self, bytes: &[u8]) -> Checksum {
        let mut value = [0; 32];
        match self {
            Algorithm::None => {}
            Algorithm::Crc32c => value[..4].copy_from_slice(&crc32c(bytes).to_le_bytes()),
            Algorithm::Crc64 => value[..8].copy_from_slice(&crc64(bytes).to_le_bytes()),
            Algorithm::Sha256 => value.copy_from_slice(&Sha256::digest(bytes)),
        }
        Checksum { algorithm: self, value }
    }
}

/// The CRC-64 of a page. One value is never stored; another stands in its place (observed by others in the driver).
fn crc64(bytes: &[u8]) -> u64 {
    match crc_fast::crc64_nvme(bytes) {
        0xABBA_FFFF_ABBA_FFFE => 0xABBA_FFFF_ABBA_FFFF,
        value => value,
    }
}

/// A stored or computed checksum.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Checksum {
    /// The algorithm that computed the checksum.
    pub algorithm: Algorithm,
    /// The value, in the byte order in which it is stored; bytes past the algorithm's length are zero.
    pub value: [u8; 32],
}

impl Checksum {
    /// No checksum.
    pub const NONE: Checksum = Checksum { algorithm: Algorithm::None, value: [0; 32] };

    /// The bytes that are stored.
    pub fn bytes(&self) -> &[u8] {
        &self.value[..self.algorithm.size()]
    }

    /// Whether `bytes` have this checksum. With [`Algorithm::None`] all bytes do.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        self.algorithm == Algorithm::None || self.algorithm.of(bytes) == *self
    }
}

impl Checksum {
    /// Corrects a single wrong bit in `bytes`, and returns whether they have this checksum afterwards. Of pages with
    /// other damage one in 2^46 is wrongly taken for such with a CRC-64, and one in 2^17 with a CRC-32C.
    pub fn correct_one_bit(&self, bytes: &mut [u8]) -> bool {
        let size = self.algorithm.size();
        // The remainder of the last bit, from which the remainders of the bits before it follow.
        let polynomial = match self.algorithm {
            Algorithm::Crc64 => 0x9A6C_9329_AC4B_C9B5_u64,
            Algorithm::Crc32c => 0x82F6_3B78,
            Algorithm::None | Algorithm::Sha256 => return false,
        };
        let found = self.algorithm.of(bytes);
        let differs = |index: usize| self.value[index] ^ found.value[index];
        let wanted = (0..size).fold(0, |value, index| value | u64::from(differs(index)) << (8 * index));
        let mut remainder = polynomial;
        for index in (0..bytes.len()).rev() {
            for bit in (0..8).rev() {
                if remainder == wanted {
                    bytes[index] ^= 1 << bit;
                    return self.matches(bytes);
                }
                remainder = remainder >> 1 ^ if remainder & 1 == 1 { polynomial } else { 0 };
            }
        }
        false
    }
}

impl std::fmt::Display for Checksum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.algorithm.name())?;
        self.bytes().iter().enumerate().try_for_each(|(index, byte)| {
            if index == 0 { write!(f, " {byte:02x}") } else { write!(f, "{byte:02x}") }
        })
    }
}

impl std::fmt::Debug for Checksum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_bit_is_put_right_and_two_are_not() {
        let page: Vec<u8> = (0..16384u32).map(|at| ((at * 7) >> 3) as u8).collect();
        let places = [(0, 0), (1, 7), (8000, 3), (16383, 0), (16383, 7)];
        let kinds = [Algorithm::Crc64.of(&page), Algorithm::Crc32c.of(&page)];
        for (checksum, (place, bit)) in kinds.into_iter().flat_map(|kind| places.map(|place| (kind, place))) {
            let mut wrong = page.clone();
            wrong[place] ^= 1 << bit;
            assert!(checksum.correct_one_bit(&mut wrong) && wrong == page, "{place} {bit}");
            wrong[place] ^= 1 << bit;
            wrong[(place + 5000) % 16384] ^= 4;
            assert!(!checksum.correct_one_bit(&mut wrong), "{place} {bit}");
        }
    }
}
