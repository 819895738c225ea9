//! The superblock: the page with the two places of the checkpoints. One copy is at cluster 30, two are near the
//! volume's end.
//!
//! Source: forefst `docs/structures/supb.md`, and a superblock that Windows wrote.

use super::bytes::{put, u32_at, u64_at};
use super::page::{self, PageHeader};
use super::{Algorithm, PageReference};
use platter_vfs::{Error, Result};

/// A superblock, as its page holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The volume's identifier.
    pub guid: [u8; 16],
    /// Of the valid copies the one with the highest generation counts.
    pub generation: u64,
    /// The real clusters of the two checkpoints.
    pub checkpoints: [u64; 2],
}

impl Superblock {
    /// The cluster of the first copy.
    pub const CLUSTER: u64 = 0x1E;
    const LIST: usize = 0xC0;
    /// Where the superblock's reference to itself stands in the page.
    pub(crate) const SELF: usize = 0xD0;

    /// The clusters of the copies on a volume of this many clusters.
    pub fn places(clusters: u64) -> [u64; 3] {
        [Superblock::CLUSTER, clusters - 3, clusters - 2]
    }

    /// Reads the copy at `cluster` from its whole cluster. `at` is its place on the device.
    pub fn from_bytes(bytes: &[u8], cluster: u64, at: u64) -> Result<Superblock> {
        let header = PageHeader::from_bytes(bytes);
        if header.signature != page::SUPERBLOCK {
            return Err(Error::damaged("superblock", at, "SUPB", String::from_utf8_lossy(&header.signature)));
        }
        page::check_seal(bytes, bytes.len(), "superblock checksum", (0x78, 0x7C), at)?;
        if header.clusters[0] != cluster {
            return Err(Error::damaged("superblock's own cluster", at + 0x20, cluster, header.clusters[0]));
        }
        let (list, count) = (u32_at(bytes, 0x70) as usize, u32_at(bytes, 0x74));
        if count != 2 || list + 16 > bytes.len() {
            return Err(Error::damaged(
                "superblock's checkpoint list",
                at + 0x70,
                "2 inside the cluster",
                format!("{count} at {list:#x}"),
            ));
        }
        Ok(Superblock {
            guid: bytes[0x50..0x60].try_into().expect("16 bytes"),
            generation: u64_at(bytes, 0x68),
            checkpoints: [u64_at(bytes, list), u64_at(bytes, list + 8)],
        })
    }

    /// Returns the copy for `cluster`, one cluster of `size` bytes long.
    pub fn to_bytes(&self, cluster: u64, size: usize, reference: usize, algorithm: Algorithm) -> Vec<u8> {
        let mut bytes = vec![0; size];
        PageHeader {
            signature: page::SUPERBLOCK,
            volume: page::volume_signature(&self.guid),
            clock: 0,
            tree_clock: 0,
            clusters: [cluster, 0, 0, 0],
            table: 0,
        }
        .store(&mut bytes);
        bytes[0x50..0x60].copy_from_slice(&self.guid);
        put(&mut bytes, 0x68, self.generation);
        put(&mut bytes, 0x70, Superblock::LIST as u32);
        put(&mut bytes, 0x74, 2u32);
        put(&mut bytes, 0x78, Superblock::SELF as u32);
        put(&mut bytes, 0x7C, reference as u32);
        put(&mut bytes, Superblock::LIST, self.checkpoints[0]);
        put(&mut bytes, Superblock::LIST + 8, self.checkpoints[1]);
        page::seal(&mut bytes, Superblock::SELF..Superblock::SELF + reference, size, algorithm, cluster);
        debug_assert!(reference >= PageReference::compact(algorithm));
        bytes
    }
}
