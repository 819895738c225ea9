//! The check's own bitmap of the clusters that something leads to.

use crate::container::Tier;

/// A bit for each cluster of the device, in pieces as large as a container. A piece takes memory only once one of its
/// clusters is used.
pub(super) struct Used {
    per_piece: u64,
    clusters: u64,
    pieces: Vec<Piece>,
}

#[derive(Clone, Default)]
struct Piece {
    bits: Option<Box<[u64]>>,
    /// For each tier, whether pages or data of it were found in the piece.
    tiers: [bool; 3],
}

impl Used {
    /// Returns a bitmap of `clusters` clusters, none of which is used.
    pub(super) fn new(clusters: u64, per_piece: u32) -> Used {
        let per_piece = u64::from(per_piece.max(1));
        let pieces = vec![Piece::default(); clusters.div_ceil(per_piece) as usize];
        Used { per_piece, clusters, pieces }
    }

    /// Marks a run of real clusters as used. Returns how many of them were used before; clusters beyond the end of the
    /// device are left out.
    pub(super) fn claim(&mut self, start: u64, count: u64, tier: Option<Tier>) -> u64 {
        let words = self.per_piece.div_ceil(64) as usize;
        let end = start.saturating_add(count).min(self.clusters);
        let (mut at, mut before) = (start, 0);
        while at < end {
            let piece = &mut self.pieces[(at / self.per_piece) as usize];
            if let Some(tier) = tier {
                piece.tiers[tier as usize] = true;
            }
            let bits = piece.bits.get_or_insert_with(|| vec![0; words].into_boxed_slice());
            let inside = at % self.per_piece;
            let here = (64 - inside % 64).min(self.per_piece - inside).min(end - at);
            let mask = if here == 64 { u64::MAX } else { ((1 << here) - 1) << (inside % 64) };
            let word = &mut bits[inside as usize / 64];
            before += u64::from((*word & mask).count_ones());
            *word |= mask;
            at += here;
        }
        before
    }

    /// Returns how many clusters of a run are used.
    pub(super) fn taken(&self, start: u64, count: u64) -> u64 {
        let end = start.saturating_add(count).min(self.clusters);
        let is_taken = |at: &u64| {
            let bits = self.pieces[(at / self.per_piece) as usize].bits.as_deref();
            let inside = at % self.per_piece;
            bits.is_some_and(|bits| bits[inside as usize / 64] >> (inside % 64) & 1 == 1)
        };
        (start..end).filter(is_taken).count() as u64
    }

    /// Marks clusters as used in the piece that begins at real cluster `start`: `taken` has their bits, in word number
    /// `word` of the piece.
    pub(super) fn keep(&mut self, start: u64, word: usize, taken: u64) {
        let words = self.per_piece.div_ceil(64) as usize;
        if let Some(piece) = self.pieces.get_mut((start / self.per_piece) as usize) {
            piece.bits.get_or_insert_with(|| vec![0; words].into_boxed_slice())[word] |= taken;
        }
    }

    /// Returns the bitmap of the piece that begins at real cluster `start`; `None` if nothing in the piece is used.
    pub(super) fn bits(&self, start: u64) -> Option<&[u64]> {
        self.pieces.get((start / self.per_piece) as usize)?.bits.as_deref()
    }

    /// Returns for each tier whether the piece that begins at real cluster `start` has pages or data of it.
    pub(super) fn tiers(&self, start: u64) -> [bool; 3] {
        self.pieces.get((start / self.per_piece) as usize).map_or([false; 3], |piece| piece.tiers)
    }

    /// Returns how many clusters are used.
    pub(super) fn count(&self) -> u64 {
        let words = self.pieces.iter().filter_map(|piece| piece.bits.as_deref()).flatten();
        words.map(|word| u64::from(word.count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_over_pieces_is_counted_once() {
        let mut used = Used::new(1000, 100);
        assert_eq!(used.claim(90, 120, None), 0);
        assert_eq!(used.claim(100, 1, Some(Tier::Small)), 1);
        assert_eq!(used.claim(205, 10, None), 5);
        assert_eq!(used.claim(990, u64::MAX, None), 0);
        assert_eq!(used.count(), 135);
        assert_eq!(used.tiers(100), [false, false, true]);
        assert!(used.bits(300).is_none());
    }
}
