//! The superblock: the page with the two places of the checkpoints. One copy is at cluster 30, two are near the
//! volume's end.
//!
//! Source: forefst `docs/structures/supb.md`, and a superblock that Windows wrote.

use super::bytes::FieldAt;
use super::page::{self, PageHeader, SealFields};
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
    const GUID: std::ops::Range<usize> = 0x50..0x60;
    const GENERATION: FieldAt<u64> = FieldAt::new(0x68);
    const LIST_PLACE: FieldAt<u32> = FieldAt::new(0x70);
    const LIST_COUNT: FieldAt<u32> = FieldAt::new(0x74);
    /// The place of a checkpoint, from the beginning of the list; the other one follows.
    const CHECKPOINT: FieldAt<u64> = FieldAt::new(0x00);
    /// Where the superblock's reference to itself is.
    pub const SEAL: SealFields = SealFields { place: FieldAt::new(0x78), length: FieldAt::new(0x7C) };
    /// The offset in the page of the place of a checkpoint, as this code writes it.
    pub fn checkpoint_at(slot: usize) -> u64 {
        (Superblock::LIST + 8 * slot) as u64
    }

    /// Where the superblock's reference to itself stands in the page.
    pub(crate) const SELF: usize = 0xD0;

    /// The volume's identifier as it is shown: the first three parts are little-endian numbers.
    pub fn shown_guid(&self) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let number = |bytes: &[u8]| hex(&bytes.iter().rev().copied().collect::<Vec<u8>>());
        let [first, second, third] = [0..4, 4..6, 6..8].map(|part| number(&self.guid[part]));
        format!("{first}-{second}-{third}-{}-{}", hex(&self.guid[8..10]), hex(&self.guid[10..]))
    }

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
        page::check_seal(bytes, bytes.len(), "superblock checksum", Superblock::SEAL, at)?;
        if header.clusters[0] != cluster {
            return Err(Error::damaged(
                "superblock's own cluster",
                at + PageHeader::CLUSTER.at() as u64,
                cluster,
                header.clusters[0],
            ));
        }
        let (list, count) = (Superblock::LIST_PLACE.of(bytes) as usize, Superblock::LIST_COUNT.of(bytes));
        if count != 2 || list + 16 > bytes.len() {
            return Err(Error::damaged(
                "superblock's checkpoint list",
                at + Superblock::LIST_PLACE.at() as u64,
                "2 inside the cluster",
                format!("{count} at {list:#x}"),
            ));
        }
        Ok(Superblock {
            guid: bytes[Superblock::GUID].try_into().expect("16 bytes"),
            generation: Superblock::GENERATION.of(bytes),
            checkpoints: [0, 8].map(|next| Superblock::CHECKPOINT.within(list + next).of(bytes)),
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
        bytes[Superblock::GUID].copy_from_slice(&self.guid);
        Superblock::GENERATION.put(&mut bytes, self.generation);
        Superblock::LIST_PLACE.put(&mut bytes, Superblock::LIST as u32);
        Superblock::LIST_COUNT.put(&mut bytes, 2);
        Superblock::SEAL.place.put(&mut bytes, Superblock::SELF as u32);
        Superblock::SEAL.length.put(&mut bytes, reference as u32);
        Superblock::CHECKPOINT.within(Superblock::LIST).put(&mut bytes, self.checkpoints[0]);
        Superblock::CHECKPOINT.within(Superblock::LIST + 8).put(&mut bytes, self.checkpoints[1]);
        page::seal(&mut bytes, Superblock::SELF..Superblock::SELF + reference, size, algorithm, cluster);
        debug_assert!(reference >= PageReference::compact(algorithm));
        bytes
    }
}

const _: () = assert!(Superblock::LIST + 16 <= Superblock::SELF, "both places are before the reference");
const _: () = assert!(Superblock::SEAL.length.end() <= Superblock::LIST, "the fields are before the list");
