//! The counters of references to clusters, and new clusters.

use super::header::{Header, MOST_TABLE, REFCOUNT_TABLE};
use crate::bytes::{be64, damaged, is_inside, read, unusable};
use platter_device::{Device, Growing, Result, write_any};
use std::collections::BTreeMap;
use std::ops::Range;

/// The counters of an image that is written to.
pub(super) struct Space {
    cluster: u64,
    /// The bits of a counter.
    bits: u64,
    /// The offset of the table of blocks of counters.
    place: u64,
    /// The offset of each block; 0 if it is not there.
    table: Vec<u64>,
    /// The entries of the table that are not in the file.
    fresh: Vec<usize>,
    /// The blocks that were changed, by their number.
    blocks: BTreeMap<u64, CounterBlock>,
}

/// A block of counters.
struct CounterBlock {
    bytes: Vec<u8>,
    /// The bytes that are not in the file.
    changed: Range<usize>,
}

impl CounterBlock {
    fn new(bytes: Vec<u8>) -> CounterBlock {
        CounterBlock { bytes, changed: 0..0 }
    }

    /// Sets a counter of so many bits.
    fn set(&mut self, number: u64, bits: u64, value: u8) {
        let first = (number * bits / 8) as usize;
        let bytes = (bits / 8).max(1) as usize;
        if bits < 8 {
            let shift = number * bits % 8;
            let mask = ((1_u16 << bits) - 1) as u8;
            self.bytes[first] = self.bytes[first] & !(mask << shift) | (value & mask) << shift;
        } else {
            self.bytes[first..first + bytes].fill(0);
            self.bytes[first + bytes - 1] = value;
        }
        // Whole sectors, as a disk writes them.
        let (start, end) = (first / 512 * 512, (first + bytes).next_multiple_of(512));
        self.changed = match self.changed.is_empty() {
            true => start..end,
            false => self.changed.start.min(start)..self.changed.end.max(end),
        };
    }
}

impl Space {
    pub(super) fn read(file: &dyn Device, header: &Header) -> Result<Space> {
        let bytes = read(file, header.table, header.table_length as usize)?;
        let table = bytes.chunks_exact(8).map(|entry| be64(entry, 0)).collect();
        let (cluster, bits) = (header.cluster(), 1 << header.order);
        let (fresh, blocks) = (Vec::new(), BTreeMap::new());
        Ok(Space { cluster, bits, place: header.table, table, fresh, blocks })
    }

    /// The counters in a block.
    fn per_block(&self) -> u64 {
        self.cluster * 8 / self.bits
    }

    /// The first cluster behind the file.
    fn end(&self, file: &dyn Device) -> u64 {
        file.len().div_ceil(self.cluster)
    }

    /// Sets the counter of a cluster whose block is there.
    fn set(&mut self, file: &dyn Device, cluster: u64, value: u8) -> Result<()> {
        let (per_block, bits) = (self.per_block(), self.bits);
        let number = cluster / per_block;
        if !self.blocks.contains_key(&number) {
            let at = self.table[number as usize];
            if !at.is_multiple_of(self.cluster) || !is_inside(at, self.cluster, file.len()) {
                let structure = format!("entry {number} of the table of counters");
                let expected = format!("a cluster inside the file's {} bytes", file.len());
                let place = self.place + number * 8;
                return Err(damaged(file.name(), &structure, place, expected, format!("{at:#018x}")));
            }
            let bytes = read(file, at, self.cluster as usize)?;
            self.blocks.insert(number, CounterBlock::new(bytes));
        }
        let block = self.blocks.get_mut(&number).expect("it was just read");
        block.set(cluster % per_block, bits, value);
        Ok(())
    }

    /// Makes a block of counters, which will be at this cluster.
    fn add_block(&mut self, number: u64, cluster: u64) {
        self.table[number as usize] = cluster * self.cluster;
        self.fresh.push(number as usize);
        self.blocks.insert(number, CounterBlock::new(vec![0; self.cluster as usize]));
    }

    /// Makes the file longer by a cluster, and returns its offset. Its counter is in the file with the next
    /// [`Space::write`].
    pub(super) fn allocate(&mut self, file: &dyn Growing) -> Result<u64> {
        loop {
            let next = self.end(file);
            let number = next / self.per_block();
            if number >= self.table.len() as u64 {
                return Err(unusable(file.name(), "has no room for more clusters: its counters end"));
            }
            let is_block = self.table[number as usize] == 0;
            if is_block {
                self.add_block(number, next);
            }
            file.grow((next + 1) * self.cluster)?;
            self.set(file, next, 1)?;
            if !is_block {
                return Ok(next * self.cluster);
            }
        }
    }

    /// Writes the counters that changed. New blocks are durable before the table leads to them.
    pub(super) fn write(&mut self, file: &dyn Growing) -> Result<()> {
        self.write_blocks(file)?;
        if !self.fresh.is_empty() {
            file.flush()?;
            for number in std::mem::take(&mut self.fresh) {
                write_any(file, self.place + number as u64 * 8, &self.table[number].to_be_bytes())?;
            }
        }
        Ok(())
    }

    fn write_blocks(&mut self, file: &dyn Growing) -> Result<()> {
        let last = self.end(file).saturating_sub(1) / self.per_block();
        for (number, block) in &mut self.blocks {
            let changed = std::mem::take(&mut block.changed);
            if !changed.is_empty() {
                let at = self.table[*number as usize] + changed.start as u64;
                write_any(file, at, &block.bytes[changed])?;
            }
        }
        // The one in which the next cluster is counted is needed again.
        self.blocks.retain(|number, _| *number == last);
        Ok(())
    }

    /// Makes sure that the table has room for blocks that count this many further clusters: if it has not, it is put
    /// behind everything, longer, and is durable there before the header leads to it.
    pub(super) fn make_room(&mut self, file: &dyn Growing, further: u64) -> Result<()> {
        let most = MOST_TABLE / 8;
        // Each block counts itself too.
        let needed = (self.end(file).saturating_add(further) / (self.per_block() - 1)).saturating_add(2);
        let entries = needed.min(most).next_multiple_of(self.cluster / 8);
        if entries <= self.table.len() as u64 {
            return Ok(());
        }
        let clusters = entries / (self.cluster / 8);
        // Its own clusters, and the blocks that count them, need room as well.
        let entries = (entries + clusters / self.per_block() + 2).next_multiple_of(self.cluster / 8);
        let clusters = entries / (self.cluster / 8);
        let old = self.place / self.cluster
            ..(self.place / self.cluster + self.table.len() as u64 * 8 / self.cluster);
        let start = self.end(file);
        // The blocks that count them may be one more for each that they count.
        if (start + 2 * clusters + 2) / self.per_block() >= entries {
            return Err(unusable(file.name(), "has no room for more clusters: its counters end"));
        }
        self.table.resize(entries as usize, 0);
        let (mut next, mut end) = (start, start + clusters);
        // Clusters are counted while blocks that count them are added behind.
        while next < end {
            let number = next / self.per_block();
            if self.table[number as usize] == 0 {
                self.add_block(number, end);
                end += 1;
            }
            next += 1;
        }
        file.grow(end * self.cluster)?;
        (start..end).try_for_each(|cluster| self.set(file, cluster, 1))?;
        self.write_blocks(file)?;
        self.fresh.clear();
        self.place = start * self.cluster;
        let bytes: Vec<u8> = self.table.iter().flat_map(|entry| entry.to_be_bytes()).collect();
        write_any(file, self.place, &bytes)?;
        file.flush()?;
        let mut field = self.place.to_be_bytes().to_vec();
        field.extend((clusters as u32).to_be_bytes());
        write_any(file, REFCOUNT_TABLE, &field)?;
        file.flush()?;
        old.into_iter().try_for_each(|cluster| self.set(file, cluster, 0))?;
        self.write_blocks(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_every_width_are_where_they_belong() {
        for (bits, expected) in [
            (1, vec![0b0000_1000, 0]),
            (2, vec![0b0100_0000, 0]),
            (4, vec![0, 0b0001_0000]),
            (8, vec![0, 0, 0, 1]),
            (16, vec![0, 0, 0, 0, 0, 0, 0, 1]),
        ] {
            let mut block = CounterBlock::new(vec![0; 512]);
            block.set(3, bits, 1);
            assert_eq!(block.bytes[..expected.len()], expected, "{bits} bits");
            assert_eq!(block.changed, 0..512);
            block.set(3, bits, 0);
            assert!(block.bytes.iter().all(|&byte| byte == 0));
        }
        let mut block = CounterBlock::new(vec![0; 4096]);
        block.set(256, 64, 1);
        assert_eq!(block.changed, 2048..2560);
    }
}
