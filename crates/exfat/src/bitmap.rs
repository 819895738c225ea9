//! The allocation bitmap of an open volume (exFAT specification, 7.1.5): which clusters are taken on disk, or will be
//! after the next commit.

use platter_clusters::{Heap, Images, Runs, join};
use platter_device::Device;
use platter_vfs::{Error, Result};
use std::collections::BTreeSet;

/// The allocation bitmap: one bit for each cluster, as it will be on disk after the next commit.
pub(crate) struct Bitmap {
    data: Vec<u8>,
    runs: Runs,
    heap: Heap,
    sector: usize,
    /// The numbers of the sectors that changed since they were last written.
    dirty: BTreeSet<u32>,
    /// The number of bits that are set.
    taken: u32,
}

impl Bitmap {
    /// Reads the bitmap from the clusters in `runs`.
    pub(crate) fn read(device: &dyn Device, heap: Heap, sector: u32, runs: Runs) -> Result<Bitmap> {
        let bytes = u64::from(heap.count).div_ceil(8);
        let held = u64::from(runs.clusters()) << heap.shift;
        if held < bytes {
            return Err(Error::damaged("allocation bitmap", 0, format!("{bytes} bytes"), held));
        }
        // The cluster count was checked against the size of the device, so the bitmap fits into memory.
        let mut data = vec![0; (bytes as usize).next_multiple_of(sector as usize)];
        let mut at = 0;
        for run in runs.iter() {
            let length = (data.len() - at).min((run.count as usize) << heap.shift);
            device.read_at(heap.offset(run.cluster), &mut data[at..at + length])?;
            at += length;
        }
        let mut bitmap =
            Bitmap { data, runs, heap, sector: sector as usize, dirty: BTreeSet::new(), taken: 0 };
        bitmap.taken = (2..=heap.last()).filter(|&cluster| bitmap.get(cluster)).count() as u32;
        Ok(bitmap)
    }

    /// Returns a bitmap with all clusters taken, for a volume whose own bitmap cannot be read. Such a volume is only
    /// read.
    pub(crate) fn full(heap: Heap, sector: u32) -> Bitmap {
        let data = vec![0xFF; (heap.count.div_ceil(8) as usize).next_multiple_of(sector as usize)];
        let (runs, sector) = (Runs::default(), sector as usize);
        Bitmap { data, runs, heap, sector, dirty: BTreeSet::new(), taken: heap.count }
    }

    /// The clusters that hold the bitmap; none if it could not be read.
    pub(crate) fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Whether a cluster is taken.
    pub(crate) fn get(&self, cluster: u32) -> bool {
        let bit = cluster - 2;
        self.data[bit as usize / 8] >> (bit % 8) & 1 == 1
    }

    /// Marks clusters as taken or free.
    pub(crate) fn set(&mut self, start: u32, count: u32, taken: bool) {
        for cluster in start..start + count {
            if self.get(cluster) == taken {
                continue;
            }
            let bit = cluster - 2;
            let byte = bit as usize / 8;
            self.data[byte] ^= 1 << (bit % 8);
            self.dirty.insert((byte / self.sector) as u32);
            self.taken = if taken { self.taken + 1 } else { self.taken - 1 };
        }
    }

    /// Calls `each(start, count)` for all runs of free clusters.
    pub(crate) fn free_runs(&self, mut each: impl FnMut(u32, u32)) {
        let mut run: Option<(u32, u32)> = None;
        for cluster in 2..=self.heap.last() {
            run = match (self.get(cluster), run) {
                (false, None) => Some((cluster, 1)),
                (false, Some((start, count))) => Some((start, count + 1)),
                (true, Some((start, count))) => {
                    each(start, count);
                    None
                }
                (true, None) => None,
            };
        }
        if let Some((start, count)) = run {
            each(start, count);
        }
    }

    /// Returns the share of clusters that are taken, in percent, rounded down.
    pub(crate) fn percent(&self) -> u8 {
        (u64::from(self.taken) * 100 / u64::from(self.heap.count)) as u8
    }

    /// Whether any bit changed since the bitmap was last written.
    pub(crate) fn is_changed(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The number of bytes in changed sectors.
    pub(crate) fn dirty_bytes(&self) -> usize {
        self.dirty.len() * self.sector
    }

    /// Returns the changed sectors with their device offsets, and regards them as written.
    pub(crate) fn take_dirty(&mut self) -> Images {
        let mut images = Images::new();
        for sector in std::mem::take(&mut self.dirty) {
            let at = sector as usize * self.sector;
            let index = (at >> self.heap.shift) as u32;
            if let Some((cluster, _)) = self.runs.at(index) {
                let inside = at as u64 & (self.heap.cluster_size() - 1);
                join(&mut images, self.heap.offset(cluster) + inside, &self.data[at..at + self.sector]);
            }
        }
        images
    }
}
