//! Sets of clusters, such as those that are in use.

use crate::layout::Run;
use std::collections::BTreeMap;

/// The number of clusters in a piece of the set.
pub(crate) const PIECE: u64 = 1 << 20;

// A piece of claims is whole words.
const _: () = assert!(PIECE.is_multiple_of(64));

/// A set of clusters, in pieces that take memory only once something is in them.
#[derive(Default)]
pub(crate) struct Clusters {
    pieces: BTreeMap<u64, Box<[u64]>>,
}

const WORDS: usize = (PIECE / 64) as usize;

impl Clusters {
    /// Adds a run. Returns how many of its clusters were in the set before.
    pub(crate) fn add(&mut self, start: u64, count: u64) -> u64 {
        let mut before = 0;
        self.words(start, count, |word, mask| {
            before += u64::from((*word & mask).count_ones());
            *word |= mask;
        });
        before
    }

    /// Adds a run, and adds those of its clusters that were in the set before to `again`. Returns how many those are.
    pub(crate) fn add_and_note(&mut self, start: u64, count: u64, again: &mut Clusters) -> u64 {
        let mut twice = Vec::new();
        let mut at = start;
        self.words(start, count, |word, mask| {
            if *word & mask != 0 {
                twice.push((at, *word & mask));
            }
            *word |= mask;
            at = (at / 64 + 1) * 64;
        });
        let mut before = 0;
        for (at, bits) in twice {
            before += u64::from(bits.count_ones());
            again.words(at / 64 * 64, 64, |word, _| *word |= bits);
        }
        before
    }

    fn words(&mut self, start: u64, count: u64, mut change: impl FnMut(&mut u64, u64)) {
        let (mut at, end) = (start, start.saturating_add(count));
        while at < end {
            let bits = self.pieces.entry(at / PIECE).or_insert_with(|| vec![0; WORDS].into());
            let inside = at % 64;
            let here = (64 - inside).min(end - at);
            let mask = if here == 64 { u64::MAX } else { ((1 << here) - 1) << inside };
            change(&mut bits[(at % PIECE / 64) as usize], mask);
            at += here;
        }
    }

    /// Whether a cluster is in the set.
    pub(crate) fn has(&self, cluster: u64) -> bool {
        let bits = self.pieces.get(&(cluster / PIECE));
        bits.is_some_and(|bits| bits[(cluster % PIECE / 64) as usize] >> (cluster % 64) & 1 == 1)
    }

    /// Whether any cluster of a run is in the set.
    pub(crate) fn has_any(&self, start: u64, count: u64) -> bool {
        let end = start.saturating_add(count);
        self.pieces.range(start / PIECE..end.div_ceil(PIECE)).any(|(piece, bits)| {
            let (from, to) = (start.max(piece * PIECE), end.min((piece + 1) * PIECE));
            let words = (from % PIECE / 64) as usize..((to - 1) % PIECE / 64) as usize + 1;
            bits[words].iter().any(|word| *word != 0) && (from..to).any(|cluster| self.has(cluster))
        })
    }

    /// Whether one of these runs' clusters is in the set.
    pub(crate) fn has_any_of(&self, runs: &[Run]) -> bool {
        runs.iter().any(|run| run.lcn.is_some_and(|lcn| self.has_any(lcn, run.length)))
    }

    /// The number of clusters in the set.
    pub(crate) fn count(&self) -> u64 {
        self.pieces.values().flat_map(|bits| bits.iter()).map(|word| u64::from(word.count_ones())).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The bytes of a bitmap for the clusters of piece `piece`.
    pub(crate) fn bytes(&self, piece: u64) -> Vec<u8> {
        match self.pieces.get(&piece) {
            Some(bits) => bits.iter().flat_map(|word| word.to_le_bytes()).collect(),
            None => vec![0; WORDS * 8],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_over_pieces() {
        let mut set = Clusters::default();
        assert_eq!(set.add(PIECE - 70, 140), 0);
        assert_eq!(set.add(PIECE, 100), 70);
        assert_eq!(set.count(), 170);
        assert!(set.has(PIECE - 70) && !set.has(PIECE - 71) && set.has(PIECE + 99) && !set.has(PIECE + 100));
        assert_eq!(set.bytes(1)[12..14], [0xF, 0]);
        let mut again = Clusters::default();
        assert_eq!(set.add_and_note(PIECE + 98, 70, &mut again), 2);
        assert_eq!(again.count(), 2);
        assert!(again.has(PIECE + 98) && again.has(PIECE + 99));
        assert!(set.has_any(PIECE + 90, 50) && !set.has_any(PIECE + 168, 50));
    }
}
