//! The content of a modelled device: a disk of a terabyte of which only what is not zero takes memory.
//!
//! The loads of virtual time write zeroes, unless what they read is to be verified, so that a model holds little more
//! than the structures of the file system on it.

use smallvec::SmallVec;
use std::collections::BTreeMap;

/// The bytes that are kept or not kept together.
const PIECE: usize = 4096;

/// Sparse memory: what was never written, or written with zeroes, reads as zeroes.
#[derive(Default)]
pub(super) struct Contents(BTreeMap<u64, Box<[u8; PIECE]>>);

/// Whether all bytes are zero: each is compared with its neighbour, which takes one pass at the speed of memory.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.is_empty() || (bytes[0] == 0 && bytes[1..] == bytes[..bytes.len() - 1])
}

/// The number of a piece, the range inside it, and the position in the transfer, for each piece that it touches.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let place = offset + at as u64;
        let start = (place % PIECE as u64) as usize;
        let size = (PIECE - start).min(length - at);
        let piece = (size > 0).then_some((place / PIECE as u64, start..start + size, at));
        at += size;
        piece
    })
}

impl Contents {
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) {
        if self.is_blank(offset, buffer.len() as u64) {
            return buffer.fill(0);
        }
        for (number, range, at) in pieces(offset, buffer.len()) {
            let part = &mut buffer[at..at + range.len()];
            match self.0.get(&number) {
                Some(piece) => part.copy_from_slice(&piece[range]),
                None => part.fill(0),
            }
        }
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        if is_zero(data) {
            return self.clear(offset, data.len() as u64);
        }
        for (number, range, at) in pieces(offset, data.len()) {
            let part = &data[at..at + range.len()];
            self.0.entry(number).or_insert_with(|| Box::new([0; PIECE]))[range].copy_from_slice(part);
        }
    }

    /// Makes a range zero.
    pub(super) fn clear(&mut self, offset: u64, length: u64) {
        let end = offset + length;
        let touched = offset / PIECE as u64..end.div_ceil(PIECE as u64);
        let numbers: SmallVec<[u64; 4]> = self.0.range(touched).map(|(number, _)| *number).collect();
        for number in numbers {
            let start = number * PIECE as u64;
            let from = offset.saturating_sub(start) as usize;
            let to = (end - start).min(PIECE as u64) as usize;
            if let (true, Some(piece)) = (to - from < PIECE, self.0.get_mut(&number)) {
                piece[from..to].fill(0);
                if !is_zero(&piece[..]) {
                    continue;
                }
            }
            self.0.remove(&number);
        }
    }

    /// The first offset from `offset` on at which something is kept.
    pub(super) fn next(&self, offset: u64) -> Option<u64> {
        let (number, _) = self.0.range(offset / PIECE as u64..).next()?;
        Some(offset.max(number * PIECE as u64))
    }

    fn is_blank(&self, offset: u64, length: u64) -> bool {
        let touched = offset / PIECE as u64..(offset + length).div_ceil(PIECE as u64);
        self.0.range(touched).next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_zero_is_kept() {
        let mut contents = Contents::default();
        contents.write(900 << 30, &[0; 1 << 20]);
        assert_eq!((contents.0.len(), contents.next(0)), (0, None));
        contents.write((900 << 30) + 512, &[7; 8192]);
        assert_eq!((contents.0.len(), contents.next(0)), (3, Some(900 << 30)));
        // Zeroes over a part of a piece keep the rest, and over the rest let it go.
        contents.write(900 << 30, &[0; 1024]);
        let mut back = [9; 4096];
        contents.read(900 << 30, &mut back);
        assert!(back[..1024].iter().all(|byte| *byte == 0) && back[1024..].iter().all(|byte| *byte == 7));
        contents.write((900 << 30) + 1024, &[0; 3072]);
        assert_eq!((contents.0.len(), contents.next(5)), (2, Some((900 << 30) + 4096)));
        contents.clear(0, 1 << 40);
        assert_eq!(contents.0.len(), 0);
    }

    /// The same writes on plain memory and here, many of them with zeroes.
    #[test]
    fn reads_back_what_plain_memory_has() {
        let (mut plain, mut contents) = (vec![0; 64 << 10], Contents::default());
        let mut state = 1_u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..2000 {
            let (at, length) = (next(100) as usize * 512, next(24) as usize * 512);
            contents.write(at as u64, &vec![(at >> 9) as u8 % 3; length]);
            plain[at..at + length].fill((at >> 9) as u8 % 3);
            let mut back = vec![1; 64 << 10];
            contents.read(0, &mut back);
            assert!(back == plain);
        }
    }
}
