//! The block reference counts: a row for each range of clusters of which some belong to several streams.
//!
//! Source: forefst `docs/structures/block_refcount.md`. What the stamp means, and whether a cluster with one reference
//! counts as 1 or as 0, is not known: 0 is written here, and both are read.

use super::bytes::{put, u16_at, u32_at, u64_at};
use platter_vfs::{Error, Result};

/// The reference counts of a range of clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareRow {
    /// The first of the clusters, a virtual number and a multiple of [`ShareRow::CLUSTERS`].
    pub start: u64,
    /// A number that changes with each change of the row.
    pub stamp: u64,
    /// For each cluster the number of streams that refer to it, in the lower 14 bits.
    pub counts: Box<[u16]>,
}

impl ShareRow {
    /// The number of clusters of a row.
    pub const CLUSTERS: u64 = 1024;
    /// Bytes of a row's key.
    pub const KEY: usize = 16;
    /// Bytes of a row's value.
    const LENGTH: usize = 0x820;
    /// The offset of the counts in a row's value.
    const COUNTS: usize = 0x1C;
    /// The bits of a count that hold the number. The two others belong to deduplication.
    pub const COUNT: u16 = 0x3FFF;

    /// A row whose clusters each have one owner at most.
    pub fn new(start: u64) -> ShareRow {
        ShareRow { start, stamp: 0, counts: vec![0; Self::CLUSTERS as usize].into_boxed_slice() }
    }

    /// The key of the row that begins at this cluster.
    pub fn key(start: u64) -> [u8; Self::KEY] {
        let mut key = [0; Self::KEY];
        put(&mut key, 0x00, start);
        put(&mut key, 0x08, Self::CLUSTERS);
        key
    }

    /// Reads a row's value.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the value is not in this form: there is a shorter form, which is not known.
    pub fn from_bytes(value: &[u8], at: u64) -> Result<ShareRow> {
        let (start, count) = (u64_at(value, 0x00), u64_at(value, 0x08));
        if value.len() < Self::COUNTS + 2 * Self::CLUSTERS as usize || count != Self::CLUSTERS {
            let expected = format!("{:#x} bytes for {} clusters", Self::LENGTH, Self::CLUSTERS);
            let found = format!("{:#x} for {count}", value.len());
            return Err(Error::damaged("row of reference counts", at, expected, found));
        }
        if !start.is_multiple_of(Self::CLUSTERS) {
            let expected = format!("a multiple of {:#x}", Self::CLUSTERS);
            return Err(Error::damaged("row of reference counts", at, expected, format!("{start:#x}")));
        }
        let counts: Box<[u16]> =
            (0..Self::CLUSTERS as usize).map(|index| u16_at(value, Self::COUNTS + 2 * index)).collect();
        let (total, said) = (Self::total(&counts), u32_at(value, 0x18));
        if total != said {
            return Err(Error::damaged("sum of reference counts", at + 0x18, total, said));
        }
        Ok(ShareRow { start, stamp: u64_at(value, 0x10), counts })
    }

    /// Returns the row's value.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut value = vec![0; Self::LENGTH];
        put(&mut value, 0x00, self.start);
        put(&mut value, 0x08, Self::CLUSTERS);
        put(&mut value, 0x10, self.stamp);
        put(&mut value, 0x18, Self::total(&self.counts));
        for (index, count) in self.counts.iter().enumerate() {
            put(&mut value, Self::COUNTS + 2 * index, *count);
        }
        value
    }

    fn total(counts: &[u16]) -> u32 {
        counts.iter().map(|count| u32::from(count & Self::COUNT)).sum()
    }

    /// Whether bits of deduplication are set in a count; its rules are not known.
    pub fn is_deduplicated(&self) -> bool {
        self.counts.iter().any(|count| count & !Self::COUNT != 0)
    }

    /// Whether no cluster has several owners.
    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|&count| count == 0)
    }
}

const _: () = assert!(
    ShareRow::COUNTS + 2 * ShareRow::CLUSTERS as usize <= ShareRow::LENGTH,
    "a row has a count for each cluster"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_documented() {
        let mut row = ShareRow::new(0x8400);
        row.stamp = 0xE4;
        row.counts[3] = 2;
        row.counts[1023] = 0x1F9;
        let value = row.to_bytes();
        assert_eq!(value.len(), 2080);
        assert_eq!((u64_at(&value, 0), u64_at(&value, 8), u64_at(&value, 0x10)), (0x8400, 0x400, 0xE4));
        assert_eq!(u32_at(&value, 0x18), 2 + 505);
        assert_eq!((u16_at(&value, 0x1C + 6), u16_at(&value, 0x81A), u32_at(&value, 0x81C)), (2, 505, 0));
        assert_eq!(ShareRow::from_bytes(&value, 0).unwrap(), row);
        assert_eq!(ShareRow::key(0x8400)[..], value[..16]);
        row.counts[7] = 0x81F9;
        assert!(row.is_deduplicated() && !row.is_empty());
    }

    #[test]
    fn what_is_not_so_is_refused() {
        let value = ShareRow::new(0x400).to_bytes();
        assert!(ShareRow::from_bytes(&value[..32], 0).is_err());
        for at in [0x00, 0x08, 0x18] {
            let mut wrong = value.clone();
            wrong[at] ^= 1;
            assert!(ShareRow::from_bytes(&wrong, 0).is_err(), "{at:#x}");
        }
    }
}
