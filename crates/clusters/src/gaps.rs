//! The free slots of a directory, indexed by how large an entry they have room for, so that adding an entry to a
//! directory of a hundred thousand costs no more than to a small one.

use std::collections::{BTreeMap, BTreeSet};

/// The number of sizes that are distinguished, in slots: up to the longest entry that a name alone makes (FAT: 20 slots
/// of a long name and one more).
const ROOMS: usize = 21;

/// Gaps: maximal runs of free slots.
pub(crate) struct Gaps {
    per_sector: u32,
    /// How many of an entry's first slots must be in one sector: 1 or 2.
    together: u32,
    /// The length of each gap, by its start.
    lengths: BTreeMap<u32, u32>,
    /// The starts of the gaps, by the entry size that each has room for; the last set has all with more room.
    by_room: [BTreeSet<u32>; ROOMS + 1],
}

impl Gaps {
    pub(crate) fn new(per_sector: u32, together: u32) -> Gaps {
        Gaps { per_sector, together, lengths: BTreeMap::new(), by_room: Default::default() }
    }

    /// Whether the first slots of an entry that begins here are in one sector.
    pub(crate) fn is_together(&self, first: u32) -> bool {
        first / self.per_sector == (first + self.together - 1) / self.per_sector
    }

    /// The slot at which an entry of `count` slots begins in a gap from `start` on.
    pub(crate) fn begin(&self, start: u32, count: u32) -> u32 {
        if count < self.together || self.is_together(start) { start } else { start + 1 }
    }

    /// The most slots of an entry in a gap, for entries with at least as many as must be in one sector.
    fn room(&self, start: u32, length: u32) -> u32 {
        length - (self.begin(start, self.together) - start)
    }

    /// The start of the first gap with room for `count` slots.
    pub(crate) fn find(&self, count: u32) -> Option<u32> {
        let length = |start: &u32| self.lengths.get(start).copied().unwrap_or(0);
        if count < self.together {
            return self.lengths.keys().find(|start| length(start) >= count).copied();
        }
        let longest = self.by_room[ROOMS].iter().find(|start| self.room(**start, length(start)) >= count);
        let others = self.by_room[..ROOMS].iter().skip(count as usize).filter_map(BTreeSet::first);
        others.chain(longest).min().copied()
    }

    /// The start and length of the last gap.
    pub(crate) fn last(&self) -> Option<(u32, u32)> {
        self.lengths.last_key_value().map(|(start, length)| (*start, *length))
    }

    /// Adds free slots, joined with the gaps next to them.
    pub(crate) fn add(&mut self, mut start: u32, mut length: u32) {
        if let Some((&before, &size)) = self.lengths.range(..start).next_back()
            && before + size == start
        {
            self.take(before);
            (start, length) = (before, size + length);
        }
        length += self.take(start + length);
        self.lengths.insert(start, length);
        let room = self.room(start, length) as usize;
        self.by_room[room.min(ROOMS)].insert(start);
    }

    /// Removes the gap that starts here and returns its length; 0 if there is none.
    pub(crate) fn take(&mut self, start: u32) -> u32 {
        let Some(length) = self.lengths.remove(&start) else { return 0 };
        let room = self.room(start, length) as usize;
        self.by_room[room.min(ROOMS)].remove(&start);
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_testing::model::Random;

    /// The first gap with room, found by a linear search.
    fn first(gaps: &Gaps, count: u32) -> Option<u32> {
        let fits = |start: u32, length: u32| gaps.begin(start, count) - start + count <= length;
        gaps.lengths.iter().find(|(start, length)| fits(**start, **length)).map(|(start, _)| *start)
    }

    #[test]
    fn the_first_gap_with_room_is_found() {
        for together in [1, 2] {
            let mut random = Random::new(8664 + u64::from(together));
            let mut gaps = Gaps::new(16, together);
            let mut free = [false; 2000];
            for _ in 0..20_000 {
                let count = 1 + random.below(30) as u32;
                assert_eq!(gaps.find(count), first(&gaps, count), "{count} slots");
                if let Some(start) = gaps.find(count).filter(|_| random.chance(70)) {
                    let (at, length) = (gaps.begin(start, count), gaps.take(start));
                    free[at as usize..(at + count) as usize].fill(false);
                    if at > start {
                        gaps.add(start, at - start);
                    }
                    if at + count < start + length {
                        gaps.add(at + count, start + length - at - count);
                    }
                } else {
                    let at = random.below(1970) as usize;
                    if let Some(end) = (at..at + count as usize).find(|&slot| free[slot]) {
                        assert!(end >= at);
                        continue;
                    }
                    free[at..at + count as usize].fill(true);
                    gaps.add(at as u32, count);
                }
                let known: u32 = gaps.lengths.values().sum();
                assert_eq!(known as usize, free.iter().filter(|free| **free).count());
            }
        }
    }
}
