//! Finding the layout of a volume whose boot regions are both lost.
//!
//! The root directory has an entry of the allocation bitmap, whose length tells the number of clusters, and one of the
//! up-case table, which holds the table's checksum (exFAT specification, 7.1 and 7.2). The table begins with characters
//! that map to themselves, and is recognised by that; its place and its cluster's number then tell the place of all
//! clusters for each size that they may have. With the right size the bitmap is where its entry says, and has the
//! clusters of all these as taken.

use crate::layout::{BitmapEntry, Geometry, SLOT, Upcase, UpcaseEntry, kind, table_checksum};
use platter_clusters::{Disk, Heap, each_sector};
use platter_vfs::Progress;

/// The unit in which places are searched, in bytes.
const SECTOR: u64 = 512;
/// The most root directories, up-case tables and FATs that are considered: a volume may hold images of volumes.
const MOST: usize = 16;
/// The sizes of clusters, as powers of two.
const SHIFTS: std::ops::RangeInclusive<u32> = 9..=25;

/// What was found on the device.
#[derive(Default)]
struct Evidence {
    /// The offsets of what may be root directories, with two entries of each.
    roots: Vec<(u64, BitmapEntry, UpcaseEntry)>,
    /// The offsets of what may be up-case tables.
    tables: Vec<u64>,
    /// The offsets of what may be FATs.
    fats: Vec<u64>,
}

/// Searches for the layout of a volume; `None` if too little is left that tells it. A layout without a FAT has
/// `fat_bytes` 0.
pub(crate) fn search(disk: &Disk, progress: &dyn Progress) -> Option<Geometry> {
    let mut evidence = Evidence::default();
    let mut found = None;
    each_sector(disk, progress, &mut |offset, sector| {
        if evidence.look_at(offset, sector) {
            found = evidence.layout(disk);
        }
        found.is_none()
    });
    found
}

impl Evidence {
    /// Notes what begins with a sector. Returns whether it can tell a layout together with what was noted before.
    fn look_at(&mut self, offset: u64, sector: &[u8; SECTOR as usize]) -> bool {
        let slots = sector.as_chunks::<SLOT>().0;
        let slot = |kind| slots.iter().find(|slot| slot[0] == kind);
        if let (Some(bitmap), Some(upcase)) = (slot(kind::BITMAP), slot(kind::UPCASE))
            && self.roots.len() < MOST
        {
            self.roots.push((offset, BitmapEntry::from_bytes(bitmap), UpcaseEntry::from_bytes(upcase)));
            return true;
        }
        let units = sector.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
        if self.tables.len() < MOST && units.take(usize::from(b'a')).eq(0..u16::from(b'a')) {
            self.tables.push(offset);
            return true;
        }
        let start = [Geometry::MEDIA.to_le_bytes(), Geometry::END.to_le_bytes()].concat();
        if self.fats.len() < MOST && sector[..8] == start && sector[8..] != [0xFF; SECTOR as usize - 8] {
            self.fats.push(offset);
        }
        false
    }

    fn layout(&self, disk: &Disk) -> Option<Geometry> {
        let pairs = self.roots.iter().flat_map(|root| self.tables.iter().map(move |table| (root, *table)));
        let proven = pairs.filter(|((_, _, upcase), table)| has_checksum(disk, upcase, *table));
        let mut layouts = proven.flat_map(|(root, table)| SHIFTS.map(move |shift| (root, table, shift)));
        layouts.find_map(|(root, table, shift)| self.with_clusters(disk, root, table, shift))
    }

    /// Returns the layout with clusters of this size, if the bitmap confirms it.
    fn with_clusters(
        &self,
        disk: &Disk,
        (root, bitmap, upcase): &(u64, BitmapEntry, UpcaseEntry),
        table: u64,
        shift: u32,
    ) -> Option<Geometry> {
        let start = table.checked_sub(u64::from(upcase.cluster.checked_sub(2)?) << shift)?;
        let room = disk.device().len().checked_sub(start)? >> shift;
        // The last byte of the bitmap may have bits without a cluster.
        let least = bitmap.length.checked_sub(1)?.checked_mul(8)? + 1;
        let count = u32::try_from(room.min(bitmap.length * 8)).ok().filter(|count| *count < u32::MAX - 1)?;
        let heap = Heap { start, shift, count };
        let from_start = root.checked_sub(start)?;
        let root_cluster = u32::try_from(from_start >> shift).ok()?.checked_add(2)?;
        let clusters = [root_cluster, bitmap.cluster, upcase.cluster];
        let is_possible = room >= least
            && from_start.is_multiple_of(heap.cluster_size())
            && clusters.into_iter().all(|cluster| heap.has(cluster));
        let is_taken = |cluster: u32| {
            let (byte, bit) = ((cluster - 2) / 8, (cluster - 2) % 8);
            let mut read = [0];
            disk.read(heap.offset(bitmap.cluster) + u64::from(byte), &mut read).is_ok()
                && read[0] >> bit & 1 == 1
        };
        if !is_possible || !clusters.into_iter().all(is_taken) {
            return None;
        }
        let fat = self.fats.iter().find(|fat| **fat + (u64::from(count) + 2) * 4 <= start);
        Some(Geometry {
            sector: SECTOR as u32,
            fat_start: fat.copied().unwrap_or(0),
            fat_bytes: fat.map_or(0, |fat| start - fat),
            fat_count: 1,
            active_fat: 0,
            heap,
            root_cluster,
            volume_bytes: start + (u64::from(count) << shift),
        })
    }
}

/// Whether the table at this offset has the checksum that its entry holds.
fn has_checksum(disk: &Disk, upcase: &UpcaseEntry, table: u64) -> bool {
    let is_length = (1..=Upcase::MOST_BYTES).contains(&upcase.length);
    let mut bytes = vec![0; if is_length { upcase.length as usize } else { 0 }];
    is_length && disk.read(table, &mut bytes).is_ok() && table_checksum(&bytes) == upcase.checksum
}
