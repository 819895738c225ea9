//! The FAT in memory, and writing it in an order in which a power cut does no harm.

use crate::layout::{FatKind, Geometry, Link, get, set};
use platter_clusters::Disk;
use platter_vfs::Result;
use std::ops::Range;

/// The number of bytes of a FAT that are read or written at once. Entries of 16 and 32 bits are never split, and a
/// FAT12 is smaller than this.
const PIECE: usize = 1 << 20;

// Reads are whole sectors, of which none is larger than 4096 bytes.
const _: () = assert!(PIECE.is_multiple_of(4096));

/// All entries of one copy of the FAT: four bytes for each cluster. No other structure of a check is as large.
pub(super) struct Table {
    entries: Vec<u32>,
    /// The number of the copy that the entries were read from.
    pub copy: u32,
}

/// Which changes of FAT entries to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// Entries that were free and are now part of a chain.
    Taken,
    /// `Taken`, and entries of chains that end earlier or continue elsewhere.
    Linked,
    /// All changes, including entries that become free.
    Freed,
}

impl Table {
    /// Reads a copy of the FAT.
    pub(super) fn read(disk: &Disk, geometry: &Geometry, copy: u32) -> Result<Table> {
        let count = geometry.clusters as usize + 2;
        let mut entries = Vec::with_capacity(count);
        pieces(geometry, |at, length| {
            let mut bytes = vec![0; length];
            disk.read(geometry.fat_offset(copy) + at, &mut bytes)?;
            let mut index = 0;
            while let Some(value) = get(geometry.kind, &bytes, index)
                && entries.len() < count
            {
                entries.push(value);
                index += 1;
            }
            Ok(())
        })?;
        // The vector has an entry for every cluster, even if the FAT is too short.
        entries.resize(count, 0);
        Ok(Table { entries, copy })
    }

    /// Returns an entry. `index` is at most the number of the last cluster.
    pub(super) fn get(&self, index: u32) -> u32 {
        self.entries[index as usize]
    }

    /// Changes an entry in memory.
    pub(super) fn set(&mut self, index: u32, value: u32) {
        self.entries[index as usize] = value;
    }

    /// Returns what the FAT entry of a cluster means.
    pub(super) fn link(&self, geometry: &Geometry, cluster: u32) -> Link {
        geometry.link(self.get(cluster))
    }

    /// Returns the number of clusters whose entry is 0.
    pub(super) fn free(&self) -> u32 {
        self.entries[2..].iter().filter(|&&value| value == 0).count() as u32
    }

    /// Returns the ranges of entries in which another copy differs: one for each sector of 512 bytes that differs, and one
    /// for each differing entry of FAT12 that lies in two. If there are more than `most` ranges, neighbouring ones are
    /// joined.
    pub(super) fn differences(&self, other: &Table, kind: FatKind, most: usize) -> Vec<Range<usize>> {
        let bits = kind.bits() as usize;
        let sector = |index: usize| (index * bits / 8 / 512, (index * bits + bits - 1) / 8 / 512);
        let mut parts: Vec<Range<usize>> = Vec::new();
        let pairs = self.entries.iter().zip(&other.entries).enumerate();
        for (index, _) in pairs.filter(|(_, (one, two))| one != two) {
            match parts.last_mut() {
                Some(part) if sector(part.start) == sector(index) => part.end = index + 1,
                _ => parts.push(index..index + 1),
            }
        }
        let together = parts.len().div_ceil(most).max(1);
        parts.chunks(together).map(|some| some[0].start..some[some.len() - 1].end).collect()
    }

    /// Takes some entries of another copy, and returns the previous values.
    pub(super) fn take(&mut self, other: &Table, part: Range<usize>) -> Vec<u32> {
        let kept = self.entries[part.clone()].to_vec();
        self.entries[part.clone()].copy_from_slice(&other.entries[part]);
        kept
    }

    /// Restores the values that [`Table::take`] returned.
    pub(super) fn put(&mut self, part: Range<usize>, kept: &[u32]) {
        self.entries[part].copy_from_slice(kept);
    }

    /// Writes changes to every copy of the FAT in use: the entries that differ from this table, without the changes
    /// that `which` holds back. With [`Write::Freed`] all copies become like this table. The copy that the table was
    /// read from is written last, when the others are durable: one copy is whole whenever the power fails.
    pub(super) fn write(&self, disk: &Disk, geometry: &Geometry, which: Write) -> Result<()> {
        let others = geometry.written_fats().filter(|&copy| copy != self.copy);
        let is_written = |copy: &u32| geometry.written_fats().any(|other| other == *copy);
        for copy in others.chain(Some(self.copy).filter(is_written)) {
            self.write_copy(disk, geometry, which, copy)?;
            disk.flush()?;
        }
        Ok(())
    }

    fn write_copy(&self, disk: &Disk, geometry: &Geometry, which: Write, copy: u32) -> Result<()> {
        pieces(geometry, |at, length| {
            let (mut found, mut bytes) = (vec![0; length], vec![0; length]);
            let first = at as u32 / (geometry.kind.bits() / 8).max(1);
            let offset = geometry.fat_offset(copy) + at;
            disk.read(offset, &mut found)?;
            // At the end, bits that belong to no entry, such as the upper 4 of 32, become equal in all copies too.
            let base = if which == Write::Freed { self.copy } else { copy };
            disk.read(geometry.fat_offset(base) + at, &mut bytes)?;
            let mut index = 0;
            while let Some(old) = get(geometry.kind, &bytes, index)
                && let Some(&new) = self.entries.get((first + index) as usize)
            {
                let write = match (old, new) {
                    (0, _) => true,
                    (_, 0) => which == Write::Freed,
                    _ => which != Write::Taken,
                };
                if old != new && write {
                    let done = set(geometry.kind, &mut bytes, index, new);
                    debug_assert!(done, "the entry was read just now");
                }
                index += 1;
            }
            // In pieces of 512 bytes, so that a change of one entry writes one sector.
            for (piece, (new, old)) in bytes.chunks(512).zip(found.chunks(512)).enumerate() {
                if new != old {
                    disk.write(offset + piece as u64 * 512, new)?;
                }
            }
            Ok(())
        })
    }

    /// Whether another copy on the device has the same entries as the copy of this table.
    pub(super) fn equals(&self, disk: &Disk, geometry: &Geometry, copy: u32) -> Result<bool> {
        let mut equal = true;
        pieces(geometry, |at, length| {
            let (mut ours, mut other) = (vec![0; length], vec![0; length]);
            disk.read(geometry.fat_offset(self.copy) + at, &mut ours)?;
            disk.read(geometry.fat_offset(copy) + at, &mut other)?;
            if geometry.kind == FatKind::Fat12 && (geometry.clusters + 2) % 2 == 1 {
                // The upper half of the last byte belongs to an entry that no cluster has.
                for bytes in [&mut ours, &mut other] {
                    if let Some(last) = bytes.last_mut() {
                        *last &= 0x0F;
                    }
                }
            }
            equal &= ours == other;
            Ok(())
        })?;
        Ok(equal)
    }
}

fn pieces(geometry: &Geometry, mut piece: impl FnMut(u64, usize) -> Result<()>) -> Result<()> {
    let total = geometry.fat_bytes();
    let mut at = 0;
    while at < total {
        let length = (total - at).min(PIECE as u64) as usize;
        piece(at, length)?;
        at += length as u64;
    }
    Ok(())
}
