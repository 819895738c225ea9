//! Cluster chains: the file allocation table as it is used, and the runs of clusters that chains come to.
//!
//! [`Table`] reads the table page by page when an entry is asked for, and keeps a bounded number of pages. A changed
//! page stays until a commit has taken its changed sectors. [`Table::walk`] turns a chain into [`Runs`] and trusts
//! nothing on the way: a chain that leaves the volume, meets a free or bad cluster, or runs in a circle is damage.

use crate::layout::{self, FatKind, Geometry, Link};
use platter_device::Device;
use platter_vfs::{Error, Result};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Clusters that lie together: `count` of them from `cluster`, the first being number `index` of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub index: u32,
    pub cluster: u32,
    pub count: u32,
}

/// The clusters of a file or directory, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs(Vec<Run>);

impl Runs {
    /// How many clusters there are.
    pub fn clusters(&self) -> u32 {
        self.0.last().map_or(0, |run| run.index + run.count)
    }

    /// The first cluster; 0 if there is none, as a directory entry has it.
    pub fn first(&self) -> u32 {
        self.0.first().map_or(0, |run| run.cluster)
    }

    /// The last cluster.
    pub fn last(&self) -> Option<u32> {
        self.0.last().map(|run| run.cluster + run.count - 1)
    }

    /// The runs.
    pub fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        self.0.iter().copied()
    }

    /// Appends clusters.
    pub fn push(&mut self, cluster: u32, count: u32) {
        match self.0.last_mut() {
            Some(last) if last.cluster + last.count == cluster => last.count += count,
            _ => self.0.push(Run { index: self.clusters(), cluster, count }),
        }
    }

    /// The cluster of this index, and how many from it on lie together.
    pub fn at(&self, index: u32) -> Option<(u32, u32)> {
        let place = match &self.0[..] {
            // Most files that matter are in one piece.
            [_] => 0,
            runs => runs.partition_point(|run| run.index <= index).checked_sub(1)?,
        };
        let run = self.0.get(place)?;
        let inside = index - run.index;
        (inside < run.count).then(|| (run.cluster + inside, run.count - inside))
    }

    /// Cuts off everything from this index on and returns it.
    pub fn split_off(&mut self, index: u32) -> Vec<Run> {
        let keep = self.0.partition_point(|run| run.index < index);
        let mut cut = self.0.split_off(keep);
        if let Some(last) = self.0.last_mut()
            && last.index + last.count > index
        {
            let kept = index - last.index;
            cut.insert(0, Run { index, cluster: last.cluster + kept, count: last.count - kept });
            last.count = kept;
        }
        cut
    }
}

/// A piece of the table in memory.
struct Page {
    data: Vec<u8>,
    /// One bit for each changed sector.
    dirty: u64,
    /// Asked for since the last time the page was considered for dropping.
    used: bool,
}

/// The file allocation table.
pub(crate) struct Table {
    device: Arc<dyn Device>,
    geometry: Arc<Geometry>,
    pages: HashMap<u32, Page>,
    /// Page numbers in the order they came.
    order: VecDeque<u32>,
    /// The most pages to keep, changed ones aside.
    most: usize,
    page_bytes: u32,
    dirty_pages: usize,
}

/// Sectors to write: offset from the start of the table or the device, and content.
pub(crate) type Images = Vec<(u64, Vec<u8>)>;

impl Table {
    /// A table of which at most about `cache` bytes are kept in memory.
    pub fn new(device: Arc<dyn Device>, geometry: Arc<Geometry>, cache: usize) -> Table {
        // An entry must not lie across pages, and 12 bits do not divide any power of two: FAT12's table, which is
        // at most 6 KiB, is one page.
        let page_bytes = match geometry.kind {
            FatKind::Fat12 => (geometry.fat_bytes() as u32).next_multiple_of(geometry.bytes_per_sector),
            _ => 4096,
        };
        let most = (cache / page_bytes as usize).max(16);
        Table {
            device,
            geometry,
            pages: HashMap::new(),
            order: VecDeque::new(),
            most,
            page_bytes,
            dirty_pages: 0,
        }
    }

    /// Bytes of changed pages.
    pub fn dirty_bytes(&self) -> usize {
        self.dirty_pages * self.page_bytes as usize
    }

    /// Reads the whole table once, in large pieces, and calls `each` with every cluster and its entry.
    pub fn scan(&mut self, mut each: impl FnMut(u32, u32)) -> Result<()> {
        let total = self.geometry.fat_bytes();
        let piece = self.page_bytes as usize * (1usize << 20).div_ceil(self.page_bytes as usize);
        let (kind, last) = (self.geometry.kind, self.geometry.last_cluster());
        let entries_in = |bytes: usize| (bytes as u64 * 8 / u64::from(kind.bits())) as u32;
        let mut buffer = platter_device::Buffer::new(piece);
        let mut start = 0;
        let mut entry = 0u32;
        while start < total && entry <= last {
            let length = self.readable(start, piece as u64);
            self.device.read_at(self.primary() + start, &mut buffer[..length])?;
            for index in 0..entries_in(length).min(last + 1 - entry) {
                if entry + index >= 2 {
                    each(entry + index, layout::get(kind, &buffer[..length], index).unwrap_or(0));
                }
            }
            // A small table is in memory from the start.
            for (at, chunk) in buffer[..length].chunks(self.page_bytes as usize).enumerate() {
                if self.pages.len() < self.most {
                    let number = (start / u64::from(self.page_bytes)) as u32 + at as u32;
                    self.keep(number, chunk.to_vec());
                }
            }
            entry += entries_in(length);
            start += length as u64;
        }
        Ok(())
    }

    fn primary(&self) -> u64 {
        self.geometry.fat_offset(self.geometry.primary_fat())
    }

    /// How many of `length` bytes from `start` the table has.
    fn readable(&self, start: u64, length: u64) -> usize {
        let bytes = u64::from(self.geometry.fat_sectors) * u64::from(self.geometry.bytes_per_sector);
        bytes.saturating_sub(start).min(length) as usize
    }

    fn keep(&mut self, number: u32, data: Vec<u8>) {
        while self.pages.len() >= self.most && self.order.len() > self.dirty_pages {
            let Some(candidate) = self.order.pop_front() else { break };
            let page = self.pages.get_mut(&candidate).expect("every page is in the order");
            if page.used || page.dirty != 0 {
                page.used = false;
                self.order.push_back(candidate);
            } else {
                self.pages.remove(&candidate);
            }
        }
        self.pages.insert(number, Page { data, dirty: 0, used: true });
        self.order.push_back(number);
    }

    /// The page that holds an entry, and the entry's index in it.
    fn page(&mut self, cluster: u32) -> Result<(&mut Page, u32)> {
        let per_page = match self.geometry.kind {
            FatKind::Fat12 => u32::MAX,
            kind => self.page_bytes * 8 / kind.bits(),
        };
        let number = cluster / per_page;
        if !self.pages.contains_key(&number) {
            let start = u64::from(number) * u64::from(self.page_bytes);
            let mut data = vec![0; self.readable(start, u64::from(self.page_bytes))];
            self.device.read_at(self.primary() + start, &mut data)?;
            self.keep(number, data);
        }
        let page = self.pages.get_mut(&number).expect("read just now");
        page.used = true;
        Ok((page, cluster % per_page))
    }

    /// The value of an entry.
    pub fn get(&mut self, cluster: u32) -> Result<u32> {
        let kind = self.geometry.kind;
        let last = self.geometry.last_cluster();
        let (page, index) = self.page(cluster)?;
        layout::get(kind, &page.data, index)
            .ok_or_else(|| Error::damaged("FAT", 0, format!("an entry up to {last}"), cluster))
    }

    /// Changes an entry.
    pub fn set(&mut self, cluster: u32, value: u32) -> Result<()> {
        let (kind, sector) = (self.geometry.kind, self.geometry.bytes_per_sector as usize);
        let last = self.geometry.last_cluster();
        let (page, index) = self.page(cluster)?;
        if !layout::set(kind, &mut page.data, index, value) {
            return Err(Error::damaged("FAT", 0, format!("an entry up to {last}"), cluster));
        }
        let first_bit = index as usize * kind.bits() as usize;
        let last_bit = first_bit + kind.bits() as usize - 1;
        let was_clean = page.dirty == 0;
        page.dirty |= 1 << (first_bit / 8 / sector) | 1 << (last_bit / 8 / sector);
        self.dirty_pages += usize::from(was_clean);
        Ok(())
    }

    /// The first sector as it is in memory.
    pub fn first_sector(&mut self) -> Result<Vec<u8>> {
        let sector = self.geometry.bytes_per_sector as usize;
        let (page, _) = self.page(0)?;
        Ok(page.data[..sector].to_vec())
    }

    /// What an entry says.
    pub fn link(&mut self, cluster: u32) -> Result<Link> {
        let value = self.get(cluster)?;
        Ok(self.geometry.link(value))
    }

    /// The chain that starts at `first`, to its end. With `needed`, what follows the first so many clusters is taken
    /// if it is sound and else ignored: a power cut may leave such an end, which the file's size does not cover.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it has fewer clusters than needed or more than `most`, leaves the volume, meets a
    /// cluster that is free or bad, or runs in a circle.
    pub fn walk(&mut self, first: u32, needed: Option<u32>, most: u32) -> Result<Runs> {
        let mut runs = Runs::default();
        let mut at = first;
        if !self.geometry.has_cluster(first) {
            let expected = format!("a first cluster from 2 to {}", self.geometry.last_cluster());
            return Err(Error::damaged("cluster chain", 0, expected, first));
        }
        // Brent: a marker that stays for 1, 2, 4, ... steps meets every circle within a few rounds of it.
        let (mut marker, mut stays, mut steps) = (0, 1u64, 0u64);
        loop {
            let place = self.entry_offset(at);
            if runs.clusters() == most {
                let found = "a longer chain";
                return Err(Error::damaged(
                    "cluster chain",
                    place,
                    format!("at most {most} clusters"),
                    found,
                ));
            }
            runs.push(at, 1);
            if steps == stays {
                (marker, stays, steps) = (at, stays * 2, 0);
            }
            steps += 1;
            match self.link(at)? {
                Link::End if needed.is_some_and(|needed| runs.clusters() < needed) => {
                    let expected = format!("{} clusters", needed.unwrap_or(0));
                    return Err(Error::damaged("cluster chain", place, expected, runs.clusters()));
                }
                Link::End => return Ok(runs),
                Link::Next(next) if next == marker || next == at => {
                    let found = format!("cluster {next} again");
                    return Err(Error::damaged("cluster chain", place, "a chain that ends", found));
                }
                Link::Next(next) => at = next,
                _ if needed.is_some_and(|needed| runs.clusters() >= needed) => {
                    runs.split_off(needed.unwrap_or(0));
                    return Ok(runs);
                }
                other => {
                    let found = format!("{other:?}");
                    return Err(Error::damaged("cluster chain", place, "the next cluster or an end", found));
                }
            }
        }
    }

    /// Device offset of an entry, for messages.
    fn entry_offset(&self, cluster: u32) -> u64 {
        self.primary() + u64::from(cluster) * u64::from(self.geometry.kind.bits()) / 8
    }

    /// Takes the changed sectors, neighbours joined, in order. Offsets count from the start of the table.
    pub fn take_dirty(&mut self) -> Images {
        let sector = self.geometry.bytes_per_sector as usize;
        let mut changed: Vec<u32> =
            self.pages.iter().filter(|(_, page)| page.dirty != 0).map(|(number, _)| *number).collect();
        changed.sort_unstable();
        let mut images = Images::new();
        for number in changed {
            let page = self.pages.get_mut(&number).expect("listed just now");
            let dirty = std::mem::take(&mut page.dirty);
            let start = u64::from(number) * u64::from(self.page_bytes);
            for (at, content) in page.data.chunks(sector).enumerate() {
                if dirty >> at & 1 == 1 {
                    join(&mut images, start + (at * sector) as u64, content);
                }
            }
        }
        self.dirty_pages = 0;
        images
    }
}

/// Appends a piece, as part of the last one if it follows it.
pub(crate) fn join(images: &mut Images, offset: u64, content: &[u8]) {
    match images.last_mut() {
        Some((start, data)) if *start + data.len() as u64 == offset => data.extend_from_slice(content),
        _ => images.push((offset, content.to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_find_and_split() {
        let mut runs = Runs::default();
        for (cluster, count) in [(10, 2), (12, 1), (40, 5), (7, 1)] {
            runs.push(cluster, count);
        }
        assert_eq!((runs.clusters(), runs.first(), runs.last()), (9, 10, Some(7)));
        assert_eq!((runs.at(0), runs.at(2), runs.at(4)), (Some((10, 3)), Some((12, 1)), Some((41, 4))));
        assert_eq!((runs.at(8), runs.at(9)), (Some((7, 1)), None));
        let cut = runs.split_off(5);
        assert_eq!(cut, [Run { index: 5, cluster: 42, count: 3 }, Run { index: 8, cluster: 7, count: 1 }]);
        assert_eq!((runs.clusters(), runs.last()), (5, Some(41)));
        runs.push(42, 1);
        assert_eq!(runs.iter().count(), 2);
        assert_eq!(runs.split_off(0).len(), 2);
        assert_eq!((runs.clusters(), runs.first(), runs.at(0)), (0, 0, None));
    }
}
