//! `$Secure`: every security descriptor once, in the stream `$SDS`, found by number (`$SII`) and by hash (`$SDH`).
//!
//! `$SDS` has each 256 KiB of descriptors twice, one after the other. No descriptor crosses into the copy.

use super::bytes::{put, u32_at, u64_at};

/// The header before each descriptor in `$SDS`, which is also the data of the entries in `$SII` and `$SDH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorHeader {
    /// [`descriptor_hash`] of the descriptor.
    pub hash: u32,
    /// The descriptor's number, from 0x100.
    pub id: u32,
    /// Where this header is in `$SDS`, in bytes.
    pub offset: u64,
    /// Bytes of header and descriptor.
    pub length: u32,
}

impl DescriptorHeader {
    /// Bytes of a header.
    pub const LENGTH: usize = 20;
    /// Headers begin at a multiple of this.
    pub const ALIGN: u64 = 16;
    /// Bytes of `$SDS` that are followed by their copy.
    pub const BLOCK: u64 = 0x40000;
    /// The first number that is given to a descriptor.
    pub const FIRST_ID: u32 = 0x100;

    /// Reads a header; `None` if `bytes` is too short or the length in it is less than a header's.
    pub fn from_bytes(bytes: &[u8]) -> Option<DescriptorHeader> {
        let header = DescriptorHeader {
            hash: u32_at(bytes, 0),
            id: u32_at(bytes, 4),
            offset: u64_at(bytes, 8),
            length: u32_at(bytes, 16),
        };
        (bytes.len() >= DescriptorHeader::LENGTH && header.length as usize >= DescriptorHeader::LENGTH)
            .then_some(header)
    }

    /// The header's bytes.
    pub fn to_bytes(&self) -> [u8; DescriptorHeader::LENGTH] {
        let mut bytes = [0; DescriptorHeader::LENGTH];
        put(&mut bytes, 0, self.hash);
        put(&mut bytes, 4, self.id);
        put(&mut bytes, 8, self.offset);
        put(&mut bytes, 16, self.length);
        bytes
    }

    /// The descriptor's entry in `$SII`.
    pub fn id_entry(&self) -> Vec<u8> {
        super::index::view_entry(&self.id.to_le_bytes(), &self.to_bytes())
    }

    /// The descriptor's entry in `$SDH`, with the letters that Windows puts behind the header.
    pub fn hash_entry(&self) -> Vec<u8> {
        let mut bytes =
            super::index::view_entry(&DescriptorHeader::hash_key(self.hash, self.id), &self.to_bytes());
        let end = bytes.len();
        bytes[end - 4..].copy_from_slice(&[b'I', 0, b'I', 0]);
        bytes
    }

    /// The key of `$SDH`.
    pub fn hash_key(hash: u32, id: u32) -> [u8; 8] {
        (u64::from(hash) | u64::from(id) << 32).to_le_bytes()
    }
}

pub use platter_vfs::security::descriptor_hash;
