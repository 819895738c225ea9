//! The state of each cluster during a check: its FAT entry, with the change that a repair would make, its bit in the
//! bitmap, and whether a file was found to use it.

use crate::layout::Geometry;
use platter_clusters::{Bits, Claims, Disk, Heap, Images, Link, Runs, Table};
use platter_device::Device;
use platter_vfs::{Finding, Result, Severity};
use std::collections::{BTreeMap, BTreeSet};

/// The most bytes of the FAT that are kept in memory.
const CACHE: usize = 64 << 20;

// Transfers are whole sectors, of which none is larger than 4096 bytes.
const _: () = assert!(CACHE.is_multiple_of(4096));

/// The number of clusters of some kind, and the first of them.
#[derive(Default)]
pub(super) struct Tally {
    pub first: Option<u32>,
    pub count: u64,
}

impl Tally {
    pub(super) fn add(&mut self, cluster: u32) {
        self.first = Some(self.first.map_or(cluster, |first| first.min(cluster)));
        self.count += 1;
    }

    /// The finding that these are taken in the bitmap, and no file uses them.
    pub(super) fn lost(&self, repaired: bool) -> Option<Finding> {
        let (count, first) = (self.count, self.first?);
        Some(Finding {
            code: "bitmap-taken",
            severity: Severity::Inconsistent,
            path: None,
            message: format!("{count} clusters are taken in the bitmap by nothing, the first {first}"),
            repaired,
        })
    }
}

/// The state of all clusters: see the module.
pub(super) struct Clusters<'d> {
    pub geometry: Geometry,
    pub heap: Heap,
    /// The FAT as it is on the device.
    table: Table<Geometry, &'d dyn Device>,
    /// The FAT entries that the repair changes.
    links: BTreeMap<u32, u32>,
    /// The clusters of `links` to which nothing on disk refers yet.
    fresh: BTreeSet<u32>,
    /// The bitmap's clusters; its bytes on the device (`old`) and as the repair will write them (`new`).
    place: Runs,
    old: Vec<u8>,
    new: Vec<u8>,
    claimed: Bits,
    /// The clusters that were given up in this round. Until it is written, entries on the device lead to them.
    released: Bits,
    /// The cluster from which to search for free clusters.
    search: u32,
}

fn bit(bytes: &[u8], cluster: u32) -> bool {
    let at = (cluster - 2) as usize;
    bytes.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
}

fn set_bit(bytes: &mut [u8], cluster: u32, value: bool) {
    let at = (cluster - 2) as usize;
    if let Some(byte) = bytes.get_mut(at / 8) {
        *byte = *byte & !(1 << (at % 8)) | u8::from(value) << (at % 8);
    }
}

impl Claims for Clusters<'_> {
    fn link(&mut self, cluster: u32) -> Result<Link> {
        match self.links.get(&cluster) {
            Some(&value) => Ok(platter_clusters::Entries::link(&self.geometry, value)),
            None => self.table.link(cluster),
        }
    }

    fn is_claimed(&self, cluster: u32) -> bool {
        self.claimed.get(cluster)
    }

    fn claim(&mut self, cluster: u32) {
        self.claimed.set(cluster);
    }
}

impl<'d> Clusters<'d> {
    pub(super) fn new(device: &'d dyn Device, geometry: &Geometry) -> Clusters<'d> {
        let heap = geometry.heap;
        Clusters {
            table: Table::new(device, geometry.clone(), geometry.fat_place(), CACHE),
            geometry: geometry.clone(),
            heap,
            links: BTreeMap::new(),
            fresh: BTreeSet::new(),
            place: Runs::default(),
            old: Vec::new(),
            new: Vec::new(),
            claimed: Bits::new(heap.last().saturating_add(1)),
            released: Bits::new(heap.last().saturating_add(1)),
            search: 2,
        }
    }

    /// Forgets which clusters are claimed, for a new round.
    pub(super) fn begin(&mut self) {
        self.claimed = Bits::new(self.heap.last().saturating_add(1));
        self.released = Bits::new(self.heap.last().saturating_add(1));
        self.search = 2;
        (self.place, self.old, self.new) = (Runs::default(), Vec::new(), Vec::new());
    }

    // The FAT

    /// Notes a new value for a FAT entry.
    pub(super) fn set_link(&mut self, cluster: u32, value: u32) {
        self.links.insert(cluster, value);
    }

    /// Notes FAT entries that link `count` consecutive clusters, to which nothing on disk refers yet, into a chain.
    pub(super) fn set_chain(&mut self, first: u32, count: u32) {
        for cluster in first..first + count {
            let next = if cluster + 1 == first + count { Geometry::END } else { cluster + 1 };
            self.links.insert(cluster, next);
            self.fresh.insert(cluster);
        }
    }

    // Claims of clusters

    /// Gives up the claim on a cluster that belongs to another file.
    pub(super) fn unclaim(&mut self, cluster: u32) {
        self.claimed.clear(cluster);
    }

    /// Gives up the claim on a cluster, and frees the cluster.
    pub(super) fn release(&mut self, cluster: u32) {
        self.claimed.clear(cluster);
        self.released.set(cluster);
        set_bit(&mut self.new, cluster, false);
    }

    /// Returns the number of clusters that are claimed.
    pub(super) fn claimed(&self) -> u64 {
        self.claimed.count()
    }

    /// Claims `count` consecutive free clusters, and returns the first; `None` if there are not as many in a row.
    pub(super) fn allocate(&mut self, count: u32) -> Result<Option<u32>> {
        let (mut start, mut length) = (self.search, 0);
        for cluster in self.search..=self.heap.last() {
            let is_kept = self.claimed.get(cluster) || self.released.get(cluster) || bit(&self.new, cluster);
            if is_kept || self.link(cluster)? == Link::Bad {
                (start, length) = (cluster + 1, 0);
                continue;
            }
            length += 1;
            if length == count {
                (start..start + count).for_each(|cluster| self.claimed.set(cluster));
                (start..start + count).for_each(|cluster| set_bit(&mut self.new, cluster, true));
                if start == self.search {
                    self.search = start + count;
                }
                return Ok(Some(start));
            }
        }
        Ok(None)
    }

    // The bitmap

    /// Sets the bitmap's clusters and its bytes.
    pub(super) fn set_bitmap(&mut self, place: Runs, bytes: Vec<u8>) {
        (self.place, self.new, self.old) = (place, bytes.clone(), bytes);
    }

    /// Whether a cluster is taken in the bitmap.
    pub(super) fn is_set(&self, cluster: u32) -> bool {
        bit(&self.new, cluster)
    }

    /// Whether a cluster is taken in the bitmap, but not claimed. Clusters that are marked bad are never lost: they
    /// stay taken.
    pub(super) fn is_lost(&mut self, cluster: u32) -> Result<bool> {
        Ok(self.is_set(cluster) && !self.claimed.get(cluster) && self.link(cluster)? != Link::Bad)
    }

    /// Returns the claimed clusters that are free in the bitmap, and the lost ones: taken, but not claimed.
    pub(super) fn differences(&mut self) -> Result<(Tally, Tally)> {
        let (mut free, mut taken) = (Tally::default(), Tally::default());
        for cluster in 2..=self.heap.last() {
            if self.claimed.get(cluster) {
                if !bit(&self.old, cluster) {
                    free.add(cluster);
                }
            } else if self.is_lost(cluster)? {
                taken.add(cluster);
            }
        }
        Ok((free, taken))
    }

    /// Marks all claimed clusters as taken in the bitmap.
    pub(super) fn take_claimed(&mut self) {
        for cluster in (2..=self.heap.last()).filter(|&cluster| self.claimed.get(cluster)) {
            set_bit(&mut self.new, cluster, true);
        }
    }

    /// Frees all lost clusters in the bitmap.
    pub(super) fn free_unclaimed(&mut self) -> Result<()> {
        for cluster in 2..=self.heap.last() {
            if self.is_lost(cluster)? {
                set_bit(&mut self.new, cluster, false);
            }
        }
        Ok(())
    }

    /// Returns a bitmap of the claimed clusters, for a volume that has lost its own.
    pub(super) fn rebuilt(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.geometry.bitmap_bytes() as usize];
        for cluster in (2..=self.heap.last()).filter(|&cluster| self.claimed.get(cluster)) {
            set_bit(&mut bytes, cluster, true);
        }
        bytes
    }

    /// Returns the share of clusters that are taken in the bitmap, in percent, rounded down.
    pub(super) fn percent(&self) -> u8 {
        let taken = (2..=self.heap.last()).filter(|&cluster| bit(&self.new, cluster)).count() as u64;
        (taken * 100 / u64::from(self.heap.count)) as u8
    }

    // Writing

    /// Writes the bits of newly taken clusters, and the FAT entries of clusters to which nothing on disk refers yet.
    pub(super) fn write_taken(&mut self, disk: &Disk) -> Result<()> {
        let taken: Vec<u8> = self.old.iter().zip(&self.new).map(|(old, new)| old | new).collect();
        self.write_bitmap(disk, taken)?;
        let links: Vec<(u32, u32)> =
            self.fresh.iter().filter_map(|cluster| Some((*cluster, *self.links.get(cluster)?))).collect();
        self.fresh.clear();
        self.write_table(disk, links)
    }

    /// Writes the remaining changed FAT entries.
    pub(super) fn write_links(&mut self, disk: &Disk) -> Result<()> {
        let links = std::mem::take(&mut self.links).into_iter().collect();
        self.write_table(disk, links)
    }

    /// Writes the bits of clusters that are freed.
    pub(super) fn write_freed(&mut self, disk: &Disk) -> Result<()> {
        let new = self.new.clone();
        self.write_bitmap(disk, new)
    }

    fn write_table(&mut self, disk: &Disk, links: Vec<(u32, u32)>) -> Result<()> {
        for (cluster, value) in links {
            self.table.set(cluster, value)?;
        }
        let start = self.geometry.active_fat_offset();
        let images: Images = self.table.take_dirty();
        images.iter().try_for_each(|(at, data)| disk.write(start + at, data))
    }

    /// Writes the bitmap, but only those pieces of 512 bytes that changed.
    fn write_bitmap(&mut self, disk: &Disk, bytes: Vec<u8>) -> Result<()> {
        const PIECE: usize = 512;
        for (number, (new, old)) in bytes.chunks(PIECE).zip(self.old.chunks(PIECE)).enumerate() {
            let at = (number * PIECE) as u64;
            if new != old
                && let Some((cluster, _)) = self.place.at((at >> self.heap.shift) as u32)
            {
                disk.write(self.heap.offset(cluster) + (at & (self.heap.cluster_size() - 1)), new)?;
            }
        }
        self.old = bytes;
        Ok(())
    }
}
