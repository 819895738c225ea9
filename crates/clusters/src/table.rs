//! The file allocation table of an open volume, which holds the cluster chains.
//!
//! [`Table`] reads the table page by page as entries are needed, and keeps a bounded number of pages. A changed page
//! stays in memory until a commit has taken its changed sectors. [`Table::walk`] turns a chain into [`Runs`] and trusts
//! nothing on the way: a chain that leaves the volume, meets a free or bad cluster, or is a loop is damage.

use crate::{Heap, Images, Runs, join};
use platter_device::Device;
use platter_vfs::{Error, Result};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Deref;
use std::sync::Arc;

/// The meaning of a table entry for its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The cluster is free, if the format keeps free clusters in the table.
    Free,
    /// The chain goes on at this cluster, which is one of the volume's.
    Next(u32),
    /// The chain ends here.
    End,
    /// The cluster is bad and must not be used.
    Bad,
    /// A value that no volume of this size should hold: 1, a reserved one, or a cluster past the last.
    Invalid(u32),
}

/// The encoding of a format's table.
pub trait Entries: Send + Sync {
    /// The size of an entry in bits: 12, 16 or 32.
    fn bits(&self) -> u32;

    /// The value of entry `index` in `table`, a slice that starts at its entry 0; `None` past its end.
    fn get(&self, table: &[u8], index: u32) -> Option<u32>;

    /// Changes entry `index`. Past the end of the table it returns `false` and changes nothing.
    fn set(&self, table: &mut [u8], index: u32, value: u32) -> bool;

    /// The meaning of an entry's value.
    fn link(&self, value: u32) -> Link;

    /// The value of the last entry of a chain.
    fn end(&self) -> u32;
}

/// The most bytes of a table that an open volume keeps in memory: all of it on volumes of up to 4 million clusters.
pub const TABLE_CACHE: usize = 16 << 20;

/// The place of the table.
#[derive(Clone, Copy, Debug)]
pub struct TablePlace {
    /// The device offset of the copy that is read.
    pub start: u64,
    /// The length of a copy in bytes, a multiple of the sector.
    pub bytes: u64,
    /// The sector size in bytes.
    pub sector: u32,
    /// The clusters for which it has entries.
    pub heap: Heap,
}

/// A piece of the table in memory.
struct Page {
    data: Vec<u8>,
    /// A bit for each changed sector.
    dirty: u64,
    /// Whether the page was used since it was last considered for dropping.
    used: bool,
}

/// The file allocation table.
pub struct Table<E, D = Arc<dyn Device>> {
    device: D,
    entries: E,
    place: TablePlace,
    pages: HashMap<u32, Page>,
    /// The page numbers, in the order in which pages are considered for dropping.
    order: VecDeque<u32>,
    /// The most pages to keep, not counting changed ones.
    most: usize,
    page_bytes: u32,
    dirty_pages: usize,
    /// The links (from cluster, to cluster) that directories with chains got by growing. Before a link is written, the
    /// zeroes in the new cluster and the end mark of the new chain must be durable, since only the chain tells how long
    /// a directory is.
    grown: Vec<(u32, u32)>,
}

impl<E: Entries, D: Deref<Target: Device>> Table<E, D> {
    /// A table of which about `cache` bytes are kept in memory at most.
    pub fn new(device: D, entries: E, place: TablePlace, cache: usize) -> Table<E, D> {
        // An entry must not be split between pages, and 12 bits do not divide any power of two: so FAT12's table, which
        // is at most 6 KiB, is one page.
        let page_bytes = match entries.bits() {
            12 => (used_bytes(&entries, &place) as u32).next_multiple_of(place.sector),
            _ => 4096,
        };
        let most = (cache / page_bytes as usize).max(16);
        Table {
            device,
            entries,
            place,
            pages: HashMap::new(),
            order: VecDeque::new(),
            most,
            page_bytes,
            dirty_pages: 0,
            grown: Vec::new(),
        }
    }

    /// The device and the place of the table on it.
    pub fn place(&self) -> (&D::Target, TablePlace) {
        (&*self.device, self.place)
    }

    /// The number of bytes in changed pages.
    pub fn dirty_bytes(&self) -> usize {
        self.dirty_pages * self.page_bytes as usize
    }

    /// Reads the whole table once, in large pieces, and calls `each` with every cluster, its entry, and the number of
    /// clusters from there on that have the same entry: 1, or more where entries are 0, most of which come in one call.
    /// Also reads the copies at the device offsets `copies`, and returns the offset of the first byte of one that
    /// differs.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn scan(&mut self, copies: &[u64], mut each: impl FnMut(u32, u32, u32)) -> Result<Option<u64>> {
        let mut differs = None;
        let total = used_bytes(&self.entries, &self.place);
        let piece = self.page_bytes as usize * (1usize << 20).div_ceil(self.page_bytes as usize);
        let (bits, last) = (self.entries.bits(), self.place.heap.last());
        let entries_in = |bytes: usize| (bytes as u64 * 8 / u64::from(bits)) as u32;
        let mut buffer = platter_device::Buffer::new(piece);
        let mut other = platter_device::Buffer::new(if copies.is_empty() { 0 } else { piece });
        let mut start = 0;
        let mut entry = 0u32;
        while start < total && entry <= last {
            let length = self.readable(start, piece as u64);
            self.device.read_at(self.place.start + start, &mut buffer[..length])?;
            for copy in copies {
                if differs.is_some() {
                    break;
                }
                self.device.read_at(copy + start, &mut other[..length])?;
                let used = (total - start).min(length as u64) as usize;
                // The upper half of the last byte of a table of 12 bits may belong to an entry that no cluster has.
                let is_half =
                    |at: usize| bits == 12 && last.is_multiple_of(2) && start + at as u64 + 1 == total;
                let mask = |at: usize| if is_half(at) { 0x0F } else { 0xFF };
                let first = (0..used).find(|&at| (buffer[at] ^ other[at]) & mask(at) != 0);
                differs = first.map(|at| copy + start + at as u64);
            }
            let end = entries_in(length).min(last + 1 - entry);
            let mut index = 2u32.saturating_sub(entry);
            while index < end {
                let value = self.entries.get(&buffer[..length], index).unwrap_or(0);
                let alike = match value {
                    0 => {
                        let at = (u64::from(index) * u64::from(bits)).div_ceil(8) as usize;
                        entries_in(at + zeroes(&buffer[at..length])).clamp(index + 1, end) - index
                    }
                    _ => 1,
                };
                each(entry + index, value, alike);
                index += alike;
            }
            // A small table is kept in memory from the start.
            for (at, chunk) in buffer[..length].chunks(self.page_bytes as usize).enumerate() {
                if self.pages.len() < self.most {
                    let number = (start / u64::from(self.page_bytes)) as u32 + at as u32;
                    self.keep(number, chunk.to_vec());
                }
            }
            entry += entries_in(length);
            start += length as u64;
        }
        Ok(differs)
    }

    /// The number of bytes of the table within `length` bytes from `start`.
    fn readable(&self, start: u64, length: u64) -> usize {
        self.place.bytes.saturating_sub(start).min(length) as usize
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

    /// Brings the page with an entry into memory; returns the page's number and the entry's index in it.
    fn page(&mut self, cluster: u32) -> Result<(u32, u32)> {
        let per_page = match self.entries.bits() {
            12 => u32::MAX,
            bits => self.page_bytes * 8 / bits,
        };
        let number = cluster / per_page;
        if !self.pages.contains_key(&number) {
            let start = u64::from(number) * u64::from(self.page_bytes);
            let mut data = vec![0; self.readable(start, u64::from(self.page_bytes))];
            self.device.read_at(self.place.start + start, &mut data)?;
            self.keep(number, data);
        }
        let page = self.pages.get_mut(&number).expect("read just now");
        page.used = true;
        Ok((number, cluster % per_page))
    }

    /// Returns the value of an entry.
    pub fn get(&mut self, cluster: u32) -> Result<u32> {
        let last = self.place.heap.last();
        let (number, index) = self.page(cluster)?;
        self.entries
            .get(&self.pages[&number].data, index)
            .ok_or_else(|| Error::damaged("FAT", 0, format!("an entry up to {last}"), cluster))
    }

    /// Changes an entry.
    pub fn set(&mut self, cluster: u32, value: u32) -> Result<()> {
        let (bits, sector) = (self.entries.bits() as usize, self.place.sector as usize);
        let last = self.place.heap.last();
        let (number, index) = self.page(cluster)?;
        let page = self.pages.get_mut(&number).expect("read just now");
        if !self.entries.set(&mut page.data, index, value) {
            return Err(Error::damaged("FAT", 0, format!("an entry up to {last}"), cluster));
        }
        let first_bit = index as usize * bits;
        let last_bit = first_bit + bits - 1;
        let was_clean = page.dirty == 0;
        page.dirty |= 1 << (first_bit / 8 / sector) | 1 << (last_bit / 8 / sector);
        self.dirty_pages += usize::from(was_clean);
        Ok(())
    }

    /// Links the clusters with index `linked` to `to` (exclusive) of `runs` to the ones before them; the last cluster
    /// before them ends no chain then, so it is removed from `ends`.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn append(&mut self, runs: &Runs, linked: u32, to: u32, ends: &mut BTreeSet<u32>) -> Result<()> {
        let mut index = linked;
        let mut before = match linked.checked_sub(1) {
            Some(last) => runs.at(last).map(|(cluster, _)| cluster),
            None => None,
        };
        while index < to {
            let Some((start, count)) = runs.at(index) else { break };
            let count = count.min(to - index);
            for cluster in start..start + count {
                if let Some(before) = before {
                    ends.remove(&before);
                    self.set(before, cluster)?;
                }
                before = Some(cluster);
            }
            index += count;
        }
        if let Some(last) = before
            && to > linked
        {
            self.set(last, self.entries.end())?;
        }
        Ok(())
    }

    /// Notes that the chain of a directory grew by the last cluster of `runs`.
    pub fn grew(&mut self, runs: &Runs) {
        let tail = runs.clusters().checked_sub(2).and_then(|tail| runs.at(tail));
        self.grown.extend(tail.zip(runs.last()).map(|((tail, _), new)| (tail, new)));
    }

    /// Makes the chains of directories that grew end before their new clusters, in memory, for the first phase of a
    /// commit.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn hold_back(&mut self) -> Result<()> {
        let end = self.entries.end();
        for at in 0..self.grown.len() {
            self.set(self.grown[at].0, end)?;
        }
        Ok(())
    }

    /// Links the chains of directories that grew to their new clusters again, in memory, for the next phase of the
    /// commit.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn let_go(&mut self) -> Result<()> {
        let mut grown = std::mem::take(&mut self.grown).into_iter();
        grown.try_for_each(|(tail, next)| self.set(tail, next))
    }

    /// The first sector of the table as it is in memory.
    pub fn first_sector(&mut self) -> Result<Vec<u8>> {
        let (number, _) = self.page(0)?;
        Ok(self.pages[&number].data[..self.place.sector as usize].to_vec())
    }

    /// Returns the meaning of an entry.
    pub fn link(&mut self, cluster: u32) -> Result<Link> {
        let value = self.get(cluster)?;
        Ok(self.entries.link(value))
    }

    /// Returns the run list of the chain that starts at `first`, to its end. With `needed`, the chain behind the first
    /// `needed` clusters is taken only if it is sound and ignored otherwise: a power cut may leave such an end, which
    /// the file's size does not cover.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the chain has fewer clusters than `needed` or more than `most`, leaves the volume, meets a
    /// cluster that is free or bad, or is a loop.
    pub fn walk(&mut self, first: u32, needed: Option<u32>, most: u32) -> Result<Runs> {
        let mut runs = Runs::default();
        let mut at = first;
        if !self.place.heap.has(first) {
            let expected = format!("a first cluster from 2 to {}", self.place.heap.last());
            return Err(Error::damaged("cluster chain", 0, expected, first));
        }
        // Brent's algorithm: a marker that is moved after 1, 2, 4, ... steps meets every loop within a few rounds of
        // it.
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

    /// The device offset of an entry, for messages.
    fn entry_offset(&self, cluster: u32) -> u64 {
        self.place.start + u64::from(cluster) * u64::from(self.entries.bits()) / 8
    }

    /// Takes the changed sectors in order, adjacent ones joined. Offsets count from the start of the table.
    pub fn take_dirty(&mut self) -> Images {
        let sector = self.place.sector as usize;
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

/// The number of zero bytes that `bytes` begins with, or a few less.
fn zeroes(bytes: &[u8]) -> usize {
    const STEP: usize = 64;
    STEP * bytes
        .chunks_exact(STEP)
        .take_while(|chunk| chunk.iter().fold(0, |all, &byte| all | byte) == 0)
        .count()
}

/// The number of bytes of a copy that hold entries.
fn used_bytes(entries: &impl Entries, place: &TablePlace) -> u64 {
    ((u64::from(place.heap.count) + 2) * u64::from(entries.bits())).div_ceil(8)
}
