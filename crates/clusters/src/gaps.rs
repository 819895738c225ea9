//! Free slots of a directory, found by what they have room for, so that a new entry costs the same in a directory of a
//! hundred thousand.

use std::collections::{BTreeMap, BTreeSet};

/// Rooms that are told apart: up to the longest entry that a name alone makes (FAT: 20 parts of a long name and one
/// more).
const ROOMS: usize = 21;

/// Runs of free slots. None touches another.
pub(crate) struct Gaps {
    per_sector: u32,
    /// How many of an entry's first slots must lie in one sector: 1 or 2.
    together: u32,
    /// Length by start.
    lengths: BTreeMap<u32, u32>,
    /// Starts by room; the last has all that have more.
    by_room: [BTreeSet<u32>; ROOMS + 1],
}

impl Gaps {
    pub fn new(per_sector: u32, together: u32) -> Gaps {
        Gaps { per_sector, together, lengths: BTreeMap::new(), by_room: Default::default() }
    }

    /// Whether the first slots of an entry that begins here lie in one sector.
    pub fn is_together(&self, first: u32) -> bool {
        first / self.per_sector == (first + self.together - 1) / self.per_sector
    }

    /// Where an entry of `count` slots begins in free slots from `start` on.
    pub fn begin(&self, start: u32, count: u32) -> u32 {
        if count < self.together || self.is_together(start) { start } else { start + 1 }
    }

    /// How many slots an entry can have in a gap, if it has as many as must lie together.
    fn room(&self, start: u32, length: u32) -> u32 {
        length - (self.begin(start, self.together) - start)
    }

    /// The start of the first gap with room for `count` slots.
    pub fn find(&self, count: u32) -> Option<u32> {
        let length = |start: &u32| self.lengths.get(start).copied().unwrap_or(0);
        if count < self.together {
            return self.lengths.keys().find(|start| length(start) >= count).copied();
        }
        let longest = self.by_room[ROOMS].iter().find(|start| self.room(**start, length(start)) >= count);
        let others = self.by_room[..ROOMS].iter().skip(count as usize).filter_map(BTreeSet::first);
        others.chain(longest).min().copied()
    }

    /// The last gap: start and length.
    pub fn last(&self) -> Option<(u32, u32)> {
        self.lengths.last_key_value().map(|(start, length)| (*start, *length))
    }

    /// Adds free slots, joining them with their neighbours.
    pub fn add(&mut self, mut start: u32, mut length: u32) {
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

    /// Takes out the gap that starts here. Its length is the answer; 0 if there is none.
    pub fn take(&mut self, start: u32) -> u32 {
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

    /// The first gap with room, looked for one by one.
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
