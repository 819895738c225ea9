//! The rows of an allocator, as ranges of containers. Neighbours that are wholly free or wholly in use share a row, so
//! that a volume of 16 TiB has some rows instead of a quarter of a million.

use std::collections::BTreeMap;

/// The use of the containers of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// No cluster is in use.
    Free,
    /// All clusters are in use.
    Full,
    /// Some clusters are in use: the row has a bitmap.
    Part,
}

/// A range of containers, by their places on the volume: the first, and how many.
pub(crate) type Range = (u32, u32);

/// The rows of one allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    rows: BTreeMap<u32, (u32, Use)>,
    /// The number of containers in all rows.
    containers: u64,
    /// Rows on disk that do not cover whole containers: the first cluster and the number of clusters of each. When rows
    /// are next stored, one row for each container takes their place.
    odd: Vec<(u64, u64)>,
}

/// The changes of rows on disk that follow from a change of a container.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// The rows to remove.
    pub gone: Vec<Range>,
    /// The rows to add or replace.
    pub put: Vec<(Range, Use)>,
}

impl Ranges {
    /// The rows for containers in order of their places; neighbours that are alike share one.
    pub(crate) fn of(containers: impl IntoIterator<Item = (u32, Use)>) -> Ranges {
        let mut rows: BTreeMap<u32, (u32, Use)> = BTreeMap::new();
        for (place, says) in containers {
            match rows.last_entry() {
                Some(mut last)
                    if says != Use::Part && last.get().1 == says && last.key() + last.get().0 == place =>
                {
                    last.get_mut().0 += 1
                }
                _ => {
                    rows.insert(place, (1, says));
                }
            }
        }
        let containers = rows.values().map(|&(count, _)| u64::from(count)).sum();
        Ranges { rows, containers, odd: Vec::new() }
    }

    /// Adds a row that was read from disk.
    pub(crate) fn read(&mut self, (first, count): Range, says: Use) {
        let before = self.rows.insert(first, (count, says)).map_or(0, |(count, _)| count);
        self.containers = self.containers + u64::from(count) - u64::from(before);
    }

    /// Adds a row that was read from disk and does not cover whole containers, by its clusters.
    pub(crate) fn read_odd(&mut self, start: u64, count: u64) {
        self.odd.push((start, count));
    }

    /// Returns the rows that do not cover whole containers, which are to be removed from disk.
    pub(crate) fn take_odd(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.odd)
    }

    /// The number of containers that the rows cover.
    pub(crate) fn containers(&self) -> u64 {
        self.containers
    }

    /// All rows in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Range, Use)> + '_ {
        self.rows.iter().map(|(&first, &(count, says))| ((first, count), says))
    }

    /// The row that a container is in.
    fn around(&self, place: u32) -> Option<(Range, Use)> {
        let (&first, &(count, says)) = self.rows.range(..=place).next_back()?;
        (place - first < count).then_some(((first, count), says))
    }

    /// Sets the use of a container; with `None` the allocator has no row of it any more. Returns the changes of rows on
    /// disk.
    pub(crate) fn set(&mut self, place: u32, says: Option<Use>) -> Change {
        let old = self.around(place);
        match (old, says) {
            (None, None) => return Change::default(),
            (Some(((_, 1), Use::Part)), Some(Use::Part)) => {
                return Change { gone: Vec::new(), put: vec![((place, 1), Use::Part)] };
            }
            (Some((_, before)), Some(now)) if before == now && now != Use::Part => return Change::default(),
            _ => {}
        }
        self.containers = self.containers + u64::from(says.is_some()) - u64::from(old.is_some());
        let (mut gone, mut put) = (Vec::new(), Vec::new());
        let mut new = says.map(|says| ((place, 1), says));
        if let Some(((first, count), before)) = old {
            self.rows.remove(&first);
            gone.push((first, count));
            let end = first + count;
            for (from, to) in [(first, place), (place + 1, end)].into_iter().filter(|(from, to)| from < to) {
                // A bitmap for several containers, as other writers may have it, becomes one for each.
                match before {
                    Use::Part => put.extend((from..to).map(|place| ((place, 1), Use::Part))),
                    _ => put.push(((from, to - from), before)),
                }
            }
        }
        if let Some(((first, count), says @ (Use::Free | Use::Full))) = &mut new {
            if let Some((left, before)) = first.checked_sub(1).and_then(|place| self.around(place))
                && before == *says
            {
                self.rows.remove(&left.0);
                gone.push(left);
                (*first, *count) = (left.0, left.1 + 1);
            }
            if let Some((right, before)) = self.around(place + 1)
                && before == *says
            {
                self.rows.remove(&right.0);
                gone.push(right);
                *count += right.1;
            }
        }
        put.extend(new);
        self.rows.extend(put.iter().map(|&((first, count), says)| (first, (count, says))));
        gone.retain(|range| put.iter().all(|(other, _)| other != range));
        Change { gone, put }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_testing::model::Random;

    #[test]
    fn rows_say_of_every_container_what_was_last_said_of_it() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let mut said: Vec<Option<Use>> = vec![Some(Use::Free); 40];
            let mut ranges = Ranges::of((0..40).map(|place| (place, Use::Free)));
            assert_eq!(ranges.rows.len(), 1);
            // The rows on disk, to which only the returned changes are applied.
            let mut disk: BTreeMap<Range, Use> = ranges.iter().collect();
            for _ in 0..500 {
                let place = random.below(40) as u32;
                let says =
                    [None, Some(Use::Free), Some(Use::Full), Some(Use::Part)][random.below(4) as usize];
                said[place as usize] = says;
                let change = ranges.set(place, says);
                for range in change.gone {
                    assert!(disk.remove(&range).is_some(), "seed {seed}: {range:?} was there");
                }
                disk.extend(change.put);
                assert_eq!(disk, ranges.iter().collect(), "seed {seed}");
                let mut seen = vec![None; 40];
                for ((first, count), says) in ranges.iter() {
                    assert!(says != Use::Part || count == 1);
                    for slot in &mut seen[first as usize..(first + count) as usize] {
                        assert_eq!(slot.replace(says), None, "seed {seed}: two rows of one container");
                    }
                }
                assert_eq!(seen, said, "seed {seed}");
                assert_eq!(ranges.containers(), said.iter().flatten().count() as u64, "seed {seed}");
                let joined = said.iter().zip(0..).filter_map(|(says, place)| Some((place, (*says)?)));
                assert_eq!(ranges, Ranges::of(joined), "seed {seed}: neighbours join");
            }
        }
    }

    #[test]
    fn a_bitmap_for_several_containers_becomes_one_for_each() {
        let mut ranges = Ranges::default();
        ranges.read((4, 3), Use::Part);
        let change = ranges.set(5, Some(Use::Full));
        assert_eq!(change.gone, [(4, 3)]);
        assert_eq!(change.put, [((4, 1), Use::Part), ((6, 1), Use::Part), ((5, 1), Use::Full)]);
    }
}
