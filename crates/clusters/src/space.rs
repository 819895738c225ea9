//! The free clusters of a volume, and which of them to allocate.
//!
//! A bitmap says which clusters are taken. An allocation has as few runs as possible: first the clusters right after
//! the file's own last cluster, then one run that has all that is wanted, then the largest runs there are. Each growing
//! file has a soft *claim* on the clusters after its end: other files get those only when no others are left, so that
//! files written at the same time do not alternate cluster by cluster. Claimed clusters still count as free.

use crate::{Bits, Run};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// The most claims that are kept, those of the files that grew last.
const CLAIMS: usize = 32;

// Every allocation looks through all claims.
const _: () = assert!(CLAIMS <= 64);

/// The free clusters of a volume.
pub struct FreeSpace {
    /// The bitmap: a set bit is a taken cluster. Clusters 0 and 1, and those past the last, are always taken.
    taken: Vec<u64>,
    last: u32,
    free: u32,
    /// The cluster at which the search for free clusters starts.
    cursor: u32,
    claims: VecDeque<(u64, Range<u32>)>,
    /// The clusters that are given up and become free with the next commit, by the first of each run, with its end.
    parked: BTreeMap<u32, u32>,
    /// The most clusters of a claim.
    window: u32,
}

impl FreeSpace {
    /// The clusters 2 to `last`, all taken.
    pub fn new(last: u32, cluster_size: u64) -> FreeSpace {
        let words = (last as usize + 1).div_ceil(64);
        let window = ((1 << 20) / cluster_size).max(8) as u32;
        FreeSpace {
            taken: vec![!0; words],
            last,
            free: 0,
            cursor: 2,
            claims: VecDeque::new(),
            parked: BTreeMap::new(),
            window,
        }
    }

    /// The number of free clusters.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// The cluster at which the search for free clusters starts.
    pub fn cursor(&self) -> u32 {
        self.cursor
    }

    /// Makes the search start at this cluster, if the volume has it.
    pub fn start_at(&mut self, cluster: u32) {
        if (2..=self.last).contains(&cluster) {
            self.cursor = cluster;
        }
    }

    /// Returns the first free cluster of those whose bits are set.
    pub fn first_of(&self, clusters: &Bits) -> Option<u32> {
        let both = self.taken.iter().zip(clusters.words()).map(|(taken, wanted)| !taken & wanted);
        let (at, word) = both.enumerate().find(|(_, word)| *word != 0)?;
        Some(at as u32 * 64 + word.trailing_zeros())
    }

    /// Frees clusters. Those that are free already, or not of the volume, stay as they are.
    pub fn give(&mut self, start: u32, count: u32) {
        let (mut at, end) = (start.max(2), start.saturating_add(count).min(self.last + 1));
        while at < end {
            let (word, first) = (at as usize / 64, at % 64);
            let clusters = (end - at).min(64 - first);
            let mask = (!0 >> (64 - clusters)) << first;
            self.free += (self.taken[word] & mask).count_ones();
            self.taken[word] &= !mask;
            at += clusters;
        }
    }

    /// Whether clusters are in use: all are taken, and none is given up.
    pub fn is_used(&self, start: u32, count: u32) -> bool {
        let Some(end) = start.checked_add(count).filter(|&end| start >= 2 && end <= self.last + 1) else {
            return false;
        };
        let before = self.parked.range(..end).next_back();
        self.next(start, end, false).is_none() && before.is_none_or(|(_, &parked)| parked <= start)
    }

    /// Notes that clusters are given up, which [`FreeSpace::free_parked`] frees. Returns `false`, and does nothing, if
    /// not all of them are in use.
    #[must_use]
    pub fn park(&mut self, start: u32, count: u32) -> bool {
        let is_used = self.is_used(start, count);
        if is_used && count > 0 {
            self.parked.insert(start, start + count);
        }
        is_used
    }

    /// Frees a run of clusters that was given up.
    pub fn free_parked(&mut self, start: u32, count: u32) {
        let end = self.parked.remove(&start);
        assert_eq!(end, Some(start + count), "a run is freed that was not given up");
        debug_assert!(
            self.next(start, start + count, false).is_none(),
            "a run stays in use until it is freed"
        );
        self.give(start, count);
    }

    /// What holds between two commits, whatever was allocated and given up: the count is that of the bitmap, and what is
    /// given up is in use, in runs that do not touch each other's clusters. Looks through the whole bitmap.
    #[cfg(any(test, debug_assertions))]
    pub fn check(&self) {
        let free: u64 = self.taken.iter().map(|word| u64::from(word.count_zeros())).sum();
        assert_eq!(free, u64::from(self.free), "the count of free clusters is the bitmap's");
        assert!((2..=self.last.max(2)).contains(&self.cursor), "the search starts inside the volume");
        let mut end = 2;
        for (&start, &stop) in &self.parked {
            assert!(end <= start && start < stop && stop <= self.last + 1, "runs given up do not overlap");
            assert!(self.next(start, stop, false).is_none(), "what is given up is not free yet");
            end = stop;
        }
        assert!(self.claims.len() <= CLAIMS, "old claims make room for new ones");
    }

    fn occupy(&mut self, start: u32, count: u32) {
        assert!(self.next(start, start + count, true).is_none(), "clusters are taken that are in use");
        assert!(start >= 2 && start + count <= self.last + 1, "clusters are taken that the volume has");
        assert!(count <= self.free, "the count of free clusters covers those that the bitmap has");
        for cluster in start..start + count {
            self.taken[cluster as usize / 64] |= 1 << (cluster % 64);
        }
        self.free -= count;
    }

    /// The first free (or, with `taken`, taken) cluster in `from..to`.
    fn next(&self, from: u32, to: u32, taken: bool) -> Option<u32> {
        let mut at = from;
        while at < to {
            let word = self.taken[at as usize / 64];
            let wanted = (if taken { word } else { !word }) >> (at % 64);
            if wanted != 0 {
                let found = at + wanted.trailing_zeros();
                return (found < to).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// The number of consecutive free clusters from `start` on, at most `most`.
    fn run_at(&self, start: u32, most: u32) -> u32 {
        let end = start.saturating_add(most).min(self.last + 1);
        self.next(start, end, true).unwrap_or(end).saturating_sub(start)
    }

    /// Allocates `count` clusters for `owner`, after its last cluster `tail` if possible; `held` is how many it has
    /// already. If too few are free, returns `None` and allocates nothing.
    pub fn take(&mut self, owner: u64, tail: Option<u32>, held: u32, count: u32) -> Option<Vec<Run>> {
        if self.free < count {
            return None;
        }
        let mut runs = Vec::new();
        let mut rest = count;
        let mut end = tail.map_or(0, |tail| tail + 1);
        if let Some(tail) = tail
            && tail < self.last
        {
            let length = self.run_at(tail + 1, rest);
            if length > 0 {
                self.occupy(tail + 1, length);
                runs.push(Run { index: 0, cluster: tail + 1, count: length });
                rest -= length;
                end = tail + 1 + length;
            }
        }
        while rest > 0 {
            let (start, length) = self
                .find(owner, rest, true)
                .or_else(|| self.find(owner, rest, false))
                .expect("enough are free, so a run is");
            let length = length.min(rest);
            self.occupy(start, length);
            runs.push(Run { index: count - rest, cluster: start, count: length });
            rest -= length;
            end = start + length;
            self.cursor = if end > self.last { 2 } else { end };
        }
        debug_assert_eq!(
            runs.iter().map(|run| run.count).sum::<u32>(),
            count,
            "all that was asked for is taken"
        );
        let window = held.saturating_add(count).clamp(8, self.window);
        self.claim(owner, end..end.saturating_add(window).min(self.last + 1));
        Some(runs)
    }

    fn claim(&mut self, owner: u64, range: Range<u32>) {
        self.release(owner);
        if self.claims.len() == CLAIMS {
            self.claims.pop_front();
        }
        debug_assert!(range.end <= self.last + 1, "a claim is of clusters that the volume has");
        self.claims.push_back((owner, range));
    }

    /// Removes a file's claim.
    pub fn release(&mut self, owner: u64) {
        self.claims.retain(|(other, _)| *other != owner);
    }

    /// The first free run of at least `count` clusters from the cursor on, or else the longest free run. With
    /// `respect`, clusters claimed by other files count as taken.
    fn find(&self, owner: u64, count: u32, respect: bool) -> Option<(u32, u32)> {
        let mut best: Option<(u32, u32)> = None;
        for (from, to) in [(self.cursor, self.last + 1), (2, self.cursor)] {
            let mut at = from;
            while let Some(start) = self.next(at, to, false) {
                let mut length = self.run_at(start, to - start);
                let mut start = start;
                if respect {
                    // A run that begins inside another's claim is shortened to the part behind it; one that begins
                    // before a claim ends there.
                    let inside =
                        self.claims.iter().find(|(other, range)| *other != owner && range.contains(&start));
                    if let Some((_, range)) = inside {
                        let skipped = (range.end - start).min(length);
                        at = start + skipped;
                        if skipped == length {
                            continue;
                        }
                        start += skipped;
                        length -= skipped;
                        if self.claims.iter().any(|(other, range)| *other != owner && range.contains(&start))
                        {
                            continue;
                        }
                    }
                    let before = self
                        .claims
                        .iter()
                        .filter(|(other, range)| {
                            *other != owner
                                && !range.is_empty()
                                && range.start > start
                                && range.start < start + length
                        })
                        .map(|(_, range)| range.start)
                        .min();
                    length = before.map_or(length, |before| before - start);
                }
                if length >= count {
                    return Some((start, length));
                }
                if best.is_none_or(|(_, longest)| length > longest) {
                    best = Some((start, length));
                }
                at = start + length;
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_cluster_among_others_is_found() {
        let mut space = FreeSpace::new(1000, 4096);
        space.give(300, 10);
        let mut bits = Bits::new(1001);
        [2, 299, 310, 1000].into_iter().for_each(|cluster| bits.set(cluster));
        assert_eq!(space.first_of(&bits), None);
        bits.set(305);
        assert_eq!(space.first_of(&bits), Some(305));
    }

    fn empty(last: u32) -> FreeSpace {
        let mut space = FreeSpace::new(last, 4096);
        space.give(2, last - 1);
        space
    }

    fn pairs(runs: &[Run]) -> Vec<(u32, u32)> {
        runs.iter().map(|run| (run.cluster, run.count)).collect()
    }

    #[test]
    fn takes_one_run_where_there_is_one() {
        let mut space = empty(1000);
        assert_eq!(space.free(), 999);
        let all = space.take(1, None, 0, 999).unwrap();
        assert_eq!(pairs(&all), [(2, 999)]);
        space.give(10, 5);
        space.give(100, 50);
        space.give(300, 20);
        assert_eq!(pairs(&space.take(2, None, 0, 20).unwrap()), [(100, 20)]);
        assert_eq!(pairs(&space.take(3, Some(9), 1, 7).unwrap()), [(10, 5), (140, 2)]);
        assert!(space.take(4, None, 0, 49).is_none());
        assert_eq!(space.take(4, None, 0, 48).unwrap().iter().map(|run| run.count).sum::<u32>(), 48);
        assert_eq!(space.free(), 0);
    }

    #[test]
    fn files_that_grow_together_do_not_mix() {
        let mut space = empty(10_000);
        let mut tails = [None; 8];
        let mut pieces = [0; 8];
        for round in 0..800 {
            let owner = round % 8;
            let runs = space.take(owner as u64, tails[owner], round as u32 / 8, 1).unwrap();
            pieces[owner] += usize::from(tails[owner].is_none_or(|tail| runs[0].cluster != tail + 1));
            tails[owner] = Some(runs[0].cluster);
        }
        assert!(pieces.iter().all(|&count| count <= 6), "{pieces:?}");
    }

    #[test]
    fn claims_do_not_hide_the_last_clusters() {
        let mut space = empty(64);
        for owner in 0..63 {
            assert_eq!(space.take(owner, None, 0, 1).unwrap().len(), 1, "{owner}");
        }
        assert!(space.take(99, None, 0, 1).is_none());
        space.give(0, 200);
        assert_eq!(space.free(), 63);
    }

    #[test]
    fn what_is_free_or_given_up_is_not_given_up_again() {
        let mut space = FreeSpace::new(100, 4096);
        space.give(5, 3);
        assert!(!space.park(7, 2) && !space.park(0, 4) && !space.park(99, 3) && !space.park(u32::MAX, 2));
        assert!(space.park(20, 10));
        assert!(!space.park(29, 1) && !space.park(15, 6) && !space.park(15, 30) && !space.park(20, 10));
        assert!(space.park(30, 1) && space.park(15, 5));
        space.check();
        space.free_parked(20, 10);
        space.check();
        assert!(!space.park(20, 1) && space.park(31, 70));
        assert_eq!(space.free(), 13);
    }

    #[test]
    fn giving_twice_counts_once() {
        let mut space = FreeSpace::new(100, 4096);
        space.give(5, 3);
        space.give(4, 3);
        space.give(100, 50);
        space.give(u32::MAX, 5);
        assert_eq!(space.free(), 5);
    }
}
