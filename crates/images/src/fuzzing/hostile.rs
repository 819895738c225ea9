//! Files whose fields lie, made from good ones; for tests only.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;

/// The unit in which structures are looked for.
const SECTOR: usize = 512;
const REGION: usize = 64 << 10;
const PAGE: usize = 4096;

/// A good file of which fields are changed.
pub struct GoodFile {
    /// Its content, up to the last sector that is not zero.
    pub bytes: Vec<u8>,
    /// The bytes that it has.
    pub length: u64,
    /// The parts that have structures, by their places in units of [`REGION`]: each region is changed as often as any other, however
    /// much it has.
    regions: Vec<Vec<Range<usize>>>,
    /// The numbers of the pages of 4 KiB that are not zero.
    pages: Vec<usize>,
}

impl GoodFile {
    /// A file whose structures are in all sectors that are not of one byte: it should have little content.
    pub fn new(bytes: Vec<u8>) -> GoodFile {
        // The bits of maps are often all set.
        let is_content = |sector: &[u8]| sector[0] != 0xFF && sector.iter().all(|&byte| byte == sector[0]);
        let sectors = bytes.chunks(SECTOR).enumerate().filter(|(_, sector)| !is_content(sector));
        let structures =
            sectors.map(|(number, sector)| number * SECTOR..number * SECTOR + sector.len()).collect();
        GoodFile::with_structures(bytes, structures)
    }

    /// A file that has structures in these parts only.
    pub fn with_structures(mut bytes: Vec<u8>, structures: Vec<Range<usize>>) -> GoodFile {
        let length = bytes.len() as u64;
        let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(end.next_multiple_of(SECTOR));
        let mut regions: Vec<Vec<Range<usize>>> = Vec::new();
        for range in structures {
            match regions.last_mut() {
                Some(region) if region[0].start / REGION == range.start / REGION => region.push(range),
                _ => regions.push(vec![range]),
            }
        }
        let is_there = |(_, page): &(usize, &[u8])| page.iter().any(|&byte| byte != 0);
        let pages = bytes.chunks(PAGE).enumerate().filter(is_there).map(|(number, _)| number).collect();
        GoodFile { bytes, length, regions, pages }
    }

    /// Puts `bytes`, which are as long as those of this file and were made of them, in a file of this length; what is zero is a
    /// hole.
    ///
    /// # Errors
    /// Those of the host.
    pub fn write(&self, path: &Path, bytes: &[u8], length: u64) -> io::Result<()> {
        let mut file = File::create(path)?;
        for &number in &self.pages {
            file.seek(SeekFrom::Start((number * PAGE) as u64))?;
            file.write_all(&bytes[number * PAGE..bytes.len().min((number + 1) * PAGE)])?;
        }
        file.set_len(length)
    }
}

/// What is done to files, which follows from a seed alone (splitmix64).
pub struct Changes(u64);

impl Changes {
    /// The changes of this seed.
    pub fn new(seed: u64) -> Changes {
        Changes(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// The content of a file with some of its fields changed: mostly one, to a value that some code may not expect.
    pub fn content(&mut self, good: &GoodFile) -> Vec<u8> {
        let mut bytes = good.bytes.clone();
        if good.regions.is_empty() {
            return bytes;
        }
        let count = [1, 1, 1, 2, 2, 3, 5, 8][self.below(8)];
        for _ in 0..count {
            match self.below(16) {
                0 => self.copy(good, &mut bytes),
                _ => self.field(good, &mut bytes),
            }
        }
        bytes
    }

    /// The length that a file with so many bytes is given: mostly the same, or it is cut off, or has a hole behind its end, which
    /// takes no room.
    pub fn length(&mut self, length: u64) -> u64 {
        match self.below(24) {
            0 => self.next() % (length + 1),
            1 => length.saturating_sub(self.next() % 2048),
            2 => length + self.next() % (2 << 20),
            3 => length + (1 << (20 + self.below(24))),
            _ => length,
        }
    }

    fn structure(&mut self, good: &GoodFile) -> Range<usize> {
        let region = &good.regions[self.below(good.regions.len())];
        region[self.below(region.len())].clone()
    }

    /// A place in a structure, rather where something is than in what is zero.
    fn place(&mut self, good: &GoodFile) -> usize {
        let range = self.structure(good);
        for _ in 0..8 {
            let at = range.start + self.below(range.len());
            if good.bytes[at] != 0 {
                // Numbers have zeroes in front or behind.
                return at.saturating_sub(self.below(8)).max(range.start);
            }
        }
        range.start + self.below(range.len())
    }

    /// Copies a sector of a structure to the place of another one, or clears it.
    fn copy(&mut self, good: &GoodFile, bytes: &mut [u8]) {
        let (from, to) = (self.structure(good), self.structure(good));
        let length = from.len().min(to.len()).min(SECTOR);
        match self.below(3) {
            0 => bytes[to.start..to.start + length].fill(0),
            _ => bytes.copy_within(from.start..from.start + length, to.start),
        }
    }

    /// Changes a number.
    fn field(&mut self, good: &GoodFile, bytes: &mut [u8]) {
        let width = [1, 2, 4, 4, 4, 8, 8, 8][self.below(8)];
        let at = self.place(good);
        let at = if self.below(2) == 0 { at } else { at / width * width };
        let Some(field) = bytes.get(at..at + width) else { return };
        let is_big = self.below(2) == 0;
        let before = number(field, is_big);
        let other = {
            let place = self.place(good);
            good.bytes.get(place..place + width).map_or(0, |field| number(field, is_big))
        };
        let value = self.value(before, other, width, bytes.len() as u64);
        let mut written = value.to_le_bytes();
        let written = &mut written[..width];
        if is_big {
            written.reverse();
        }
        bytes[at..at + width].copy_from_slice(written);
    }

    /// A value for a field of so many bytes, whose value was `before`, in a file of `length` bytes.
    fn value(&mut self, before: u64, other: u64, width: usize, length: u64) -> u64 {
        let most = u64::MAX >> (64 - 8 * width);
        let near = [0, 1, u64::MAX, 2, 512, 511, 4096][self.below(7)];
        let base = match self.below(8) {
            0 => [0, most, most >> 1, (most >> 1) + 1][self.below(4)],
            1 | 2 => 1 << self.below(8 * width),
            3 => before,
            4 => [before << 1, before >> 1, before ^ 1 << self.below(8 * width), before.wrapping_mul(512)]
                [self.below(4)],
            5 => [length, length / 512, length >> 20, length / 4096][self.below(4)],
            6 => other,
            _ => self.next(),
        };
        base.wrapping_add(near)
    }
}

/// The number in a field of at most 8 bytes.
fn number(field: &[u8], is_big: bool) -> u64 {
    let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    if is_big { field.iter().fold(0, add) } else { field.iter().rev().fold(0, add) }
}
