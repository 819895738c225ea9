//! Blocks that describe themselves, so that a wrong byte is caught and located.
//!
//! Every [`CELL`] bytes of a prepared range begin with a header: a magic number, the cell's own offset, a generation
//! that grows with each write of the cell, and the CRC-32 of the cell except for the checksum field. So a read can tell
//! damage (checksum), misplaced data (offset), and lost or stale writes (generation) apart.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The number of bytes that share one header. Block sizes of verified jobs are multiples of it.
pub const CELL: usize = 4096;

const MAGIC: u64 = u64::from_le_bytes(*b"PLATTER\x01");
/// The layout of the header: magic and offset (8 bytes each), generation and CRC-32 (4 bytes each).
const SUM: Range<usize> = 20..24;
const HEADER: usize = 24;

// A cell says what it is and holds content, in whole sectors.
const _: () = assert!(HEADER < CELL && CELL.is_multiple_of(4096));

/// A cell that does not hold what was written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// Offset of the cell in the subject.
    pub offset: u64,
    /// What is wrong with the cell, in words.
    pub what: String,
}

/// Writes the headers of all cells of a buffer that is written at `offset`; `generation` maps a cell's offset to its
/// generation.
pub(crate) fn stamp(buffer: &mut [u8], offset: u64, mut generation: impl FnMut(u64) -> u32) {
    for (index, cell) in buffer.chunks_exact_mut(CELL).enumerate() {
        let at = offset + (index * CELL) as u64;
        cell[..8].copy_from_slice(&MAGIC.to_le_bytes());
        cell[8..16].copy_from_slice(&at.to_le_bytes());
        cell[16..20].copy_from_slice(&generation(at).to_le_bytes());
        let sum = sum(cell);
        cell[SUM].copy_from_slice(&sum.to_le_bytes());
    }
}

fn sum(cell: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&cell[..SUM.start]);
    hasher.update(&cell[HEADER..]);
    hasher.finalize()
}

/// The generation that each cell of a range should have, and which cells have an I/O in flight.
///
/// Verified jobs keep one I/O at a time on a cell: the outcome of overlapping ones is not defined.
pub(crate) struct Ledger {
    start: u64,
    cells: Vec<AtomicU32>,
}

/// Set in a cell's entry while an I/O is in flight on it.
const BUSY: u32 = 1 << 31;

impl Ledger {
    /// Makes a ledger for a range that was just prepared: every cell has generation 0.
    pub(super) fn new(range: &Range<u64>) -> Ledger {
        let count = (range.end - range.start).div_ceil(CELL as u64) as usize;
        Ledger { start: range.start, cells: (0..count).map(|_| AtomicU32::new(0)).collect() }
    }

    fn cells(&self, offset: u64, length: usize) -> &[AtomicU32] {
        let first = ((offset - self.start) / CELL as u64) as usize;
        &self.cells[first..first + length / CELL]
    }

    /// Claims all cells of a block for an I/O, or none of them; returns whether it could.
    pub(super) fn claim(&self, offset: u64, length: usize) -> bool {
        let cells = self.cells(offset, length);
        for (index, cell) in cells.iter().enumerate() {
            let free = cell.load(Relaxed) & !BUSY;
            if cell.compare_exchange(free, free | BUSY, Relaxed, Relaxed).is_err() {
                for claimed in &cells[..index] {
                    claimed.fetch_and(!BUSY, Relaxed);
                }
                return false;
            }
        }
        true
    }

    /// Ends the claim of an I/O; after a write every cell of the block has the next generation.
    pub(super) fn release(&self, offset: u64, length: usize, written: bool) {
        for cell in self.cells(offset, length) {
            debug_assert!(cell.load(Relaxed) & BUSY != 0, "a block is given back by the I/O that has it");
            let generation = cell.load(Relaxed) & !BUSY;
            cell.store((generation + u32::from(written)) & !BUSY, Relaxed);
        }
    }

    /// Returns the generation that a write must give the cell at `offset`, for the holder of the claim.
    pub(super) fn next(&self, offset: u64) -> u32 {
        (self.generation(offset) + 1) & !BUSY
    }

    fn generation(&self, offset: u64) -> u32 {
        self.cells[((offset - self.start) / CELL as u64) as usize].load(Relaxed) & !BUSY
    }

    /// Compares the cells that were read at `offset` with their expected headers, and appends those that differ.
    pub(super) fn verify(&self, buffer: &[u8], offset: u64, corruptions: &mut Vec<Corruption>) {
        for (index, cell) in buffer.chunks_exact(CELL).enumerate() {
            let at = offset + (index * CELL) as u64;
            if let Some(what) = wrong(cell, at, self.generation(at)) {
                corruptions.push(Corruption { offset: at, what });
            }
        }
    }
}

/// Describes how a cell differs from its expected header; `None` if it does not.
fn wrong(cell: &[u8], offset: u64, generation: u32) -> Option<String> {
    let long = |at: usize| u64::from_le_bytes(cell[at..at + 8].try_into().expect("eight bytes"));
    let short = |at: usize| u32::from_le_bytes(cell[at..at + 4].try_into().expect("four bytes"));
    if long(0) != MAGIC {
        return Some(format!("expected a block header, found {:02x?}", &cell[..8]));
    }
    let (stored, computed) = (short(SUM.start), sum(cell));
    if stored != computed {
        return Some(format!("expected checksum {stored:08x}, found {computed:08x}"));
    }
    if long(8) != offset {
        return Some(format!("expected the block of offset {offset}, found that of {}", long(8)));
    }
    let found = short(16);
    (found != generation).then(|| format!("expected generation {generation} of the block, found {found}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_wrong_block_is_told_apart() {
        let ledger = Ledger::new(&(0..4 * CELL as u64));
        let mut block = vec![7u8; 2 * CELL];
        stamp(&mut block, CELL as u64, |_| 0);
        let found = |block: &[u8], offset| {
            let mut corruptions = Vec::new();
            ledger.verify(block, offset, &mut corruptions);
            corruptions.into_iter().map(|c| (c.offset, c.what)).collect::<Vec<_>>()
        };
        assert!(found(&block, CELL as u64).is_empty());
        let moved = found(&block, 0);
        assert_eq!(moved[0], (0, format!("expected the block of offset 0, found that of {CELL}")));
        block[2 * CELL - 1] ^= 1;
        let flipped = found(&block, CELL as u64);
        assert_eq!(flipped.len(), 1);
        assert_eq!(flipped[0].0, 2 * CELL as u64);
        assert!(flipped[0].1.starts_with("expected checksum"), "{flipped:?}");
        assert!(ledger.claim(CELL as u64, CELL) && !ledger.claim(0, 2 * CELL) && ledger.claim(0, CELL));
        ledger.release(CELL as u64, CELL, true);
        let stale = found(&block[..CELL], CELL as u64);
        assert_eq!(stale[0].1, "expected generation 1 of the block, found 0");
        assert!(found(&[0; CELL], 0)[0].1.starts_with("expected a block header"));
    }
}
