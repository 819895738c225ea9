//! The clusters of one container: which are in use, and which of those the next checkpoint counts as free.

/// The allocator that a container belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// The medium allocator: files, and most metadata.
    Medium,
    /// The container allocator: the pages of the medium allocator, and its own.
    Container,
    /// The small allocator: the pages of the container tables, and its own. These are addressed by real cluster
    /// numbers.
    Small,
}

/// One bit for each cluster of a container.
type Bits = Box<[u64]>;

/// The allocation state of a container.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    /// The allocator that the container belongs to.
    pub tier: Tier,
    /// Whether the container, in the medium tier, is set apart for metadata pages.
    pub for_pages: bool,
    /// Whether the container's rows on disk must be written again.
    pub is_changed: bool,
    /// Whether a part of the container has ever been written, as far as is known: thin storage and image files then
    /// have room for it already.
    pub was_used: bool,
    /// The number of clusters that can be handed out.
    free: u32,
    /// The state of each cluster; `None` while all are free or all are in use.
    mixed: Option<Box<Mixed>>,
}

/// The state of each cluster in a container whose clusters are not all alike.
#[derive(Clone, Debug)]
struct Mixed {
    /// The clusters that cannot be handed out: in use, parked or held.
    taken: Bits,
    /// The clusters that were given up since the last hand-over to a commit.
    parked: Set,
    /// The clusters in use to which no structure on disk refers: data that is not yet committed, and files without a
    /// name that are still open. A power cut frees them.
    held: Set,
    /// The clusters in use to which nothing on disk refers, nor a commit under way: what is given up of them is free at
    /// once.
    fresh: Set,
}

impl Mixed {
    fn new(taken: Bits) -> Mixed {
        Mixed { taken, parked: Set::default(), held: Set::default(), fresh: Set::default() }
    }
}

/// A set of clusters of one container.
#[derive(Clone, Debug, Default)]
pub(crate) struct Set {
    bits: Option<Bits>,
    count: u32,
}

impl Set {
    /// The number of clusters in the set.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Adds a run; returns how many of its clusters are new in the set.
    fn add(&mut self, start: u32, count: u32, words: usize) -> u32 {
        let bits = self.bits.get_or_insert_with(|| vec![0; words].into_boxed_slice());
        let new = count - set(bits, start, count, true);
        self.count += new;
        new
    }

    /// Removes a run; returns how many of its clusters were in the set.
    fn remove(&mut self, start: u32, count: u32) -> u32 {
        if self.count == 0 {
            return 0;
        }
        let Some(bits) = &mut self.bits else { return 0 };
        let were_in = set(bits, start, count, false);
        self.count -= were_in;
        were_in
    }
}

impl Container {
    /// A container that is wholly free or wholly in use.
    pub(crate) fn uniform(tier: Tier, clusters: u32, free: bool) -> Container {
        Container {
            tier,
            for_pages: false,
            is_changed: false,
            was_used: !free,
            free: if free { clusters } else { 0 },
            mixed: None,
        }
    }

    /// A container with this bitmap of the clusters in use.
    pub(crate) fn mapped(tier: Tier, clusters: u32, taken: Bits) -> Container {
        let used: u32 = taken.iter().map(|word| word.count_ones()).sum();
        let mixed = Mixed::new(taken);
        let mut one = Container::uniform(tier, clusters, false);
        (one.free, one.mixed) = (clusters - used.min(clusters), Some(Box::new(mixed)));
        one
    }

    /// Whether data may be put into the container.
    pub(crate) fn is_for_data(&self) -> bool {
        self.tier == Tier::Medium && !self.for_pages
    }

    /// The number of clusters that can be handed out.
    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// The bitmap of the clusters in use, to be filled before any is taken; [`Container::recounted`] counts its bits.
    pub(crate) fn bits_mut(&mut self, clusters: u32) -> &mut [u64] {
        &mut self.mixed(clusters).taken
    }

    /// This container with the number of free clusters counted anew from the bitmap.
    pub(crate) fn recounted(self, clusters: u32) -> Container {
        match self.mixed {
            Some(mixed) => {
                Container { for_pages: self.for_pages, ..Container::mapped(self.tier, clusters, mixed.taken) }
            }
            None => self,
        }
    }

    fn mixed(&mut self, clusters: u32) -> &mut Mixed {
        let all = if self.free == 0 { u64::MAX } else { 0 };
        self.mixed.get_or_insert_with(|| {
            let taken = vec![all; clusters.div_ceil(64) as usize].into_boxed_slice();
            Box::new(Mixed::new(taken))
        })
    }

    /// What holds after every change: the counts are those of the bitmaps, and what was given up or is held is not free.
    #[cfg(any(test, debug_assertions))]
    fn check(&self, clusters: u32) {
        assert!(self.free <= clusters, "no more clusters are free than there are");
        let Some(mixed) = &self.mixed else { return };
        let ones = |bits: &[u64]| bits.iter().map(|word| word.count_ones()).sum::<u32>();
        if clusters.is_multiple_of(64) {
            assert_eq!(
                self.free,
                clusters - ones(&mixed.taken),
                "the count of free clusters is the bitmap's"
            );
        }
        for set in [&mixed.parked, &mixed.held, &mixed.fresh] {
            assert_eq!(set.count, set.bits.as_deref().map_or(0, ones), "the count of a set is its bits'");
        }
        let fresh = mixed.fresh.bits.iter().flatten();
        assert!(fresh.zip(&mixed.taken).all(|(fresh, taken)| fresh & !taken == 0), "what is fresh is in use");
    }

    /// Drops the bitmaps if all clusters are free or all are in use, and none is parked, held or fresh.
    fn tidy(&mut self, clusters: u32) {
        #[cfg(debug_assertions)]
        self.check(clusters);
        let is_uniform = self.free == 0 || self.free == clusters;
        let marked = |mixed: &Mixed| mixed.parked.count + mixed.held.count + mixed.fresh.count;
        if is_uniform && self.mixed.as_deref().is_some_and(|mixed| marked(mixed) == 0) {
            self.mixed = None;
        }
    }

    /// The number of clusters that the next checkpoint counts as in use. Held clusters are not counted, parked ones
    /// only with `with_parked`: when structures on disk may still refer to them.
    pub(crate) fn used(&self, clusters: u32, with_parked: bool) -> u32 {
        let parked = |mixed: &Mixed| if with_parked { 0 } else { mixed.parked.count };
        let invisible = self.mixed.as_ref().map_or(0, |mixed| parked(mixed) + mixed.held.count);
        assert!(self.free + invisible <= clusters, "parked and held clusters are in use");
        clusters - self.free - invisible
    }

    /// The number of clusters that the next checkpoint counts as in use, and their bitmap unless that is all or none.
    pub(crate) fn row(&self, clusters: u32, with_parked: bool) -> (u32, Option<Bits>) {
        let used = self.used(clusters, with_parked);
        if used == 0 || used == clusters {
            return (used, None);
        }
        let bits = self.mixed.as_ref().map(|mixed| {
            let mut bits = mixed.taken.clone();
            let parked = (!with_parked).then_some(&mixed.parked);
            for hidden in parked.into_iter().chain([&mixed.held]) {
                if let Some(hidden) = hidden.bits.as_ref().filter(|_| hidden.count > 0) {
                    bits.iter_mut().zip(hidden).for_each(|(word, hidden)| *word &= !hidden);
                }
            }
            bits
        });
        (used, bits)
    }

    /// Whether a cluster cannot be handed out.
    pub(crate) fn is_taken(&self, cluster: u32) -> bool {
        match &self.mixed {
            Some(mixed) => mixed.taken[cluster as usize / 64] >> (cluster % 64) & 1 == 1,
            None => self.free == 0,
        }
    }

    /// The number of clusters of a run that can be handed out.
    pub(crate) fn free_in(&self, start: u32, count: u32) -> u32 {
        match &self.mixed {
            Some(mixed) => {
                words(start, count).map(|(word, mask)| (!mixed.taken[word] & mask).count_ones()).sum()
            }
            None if self.free == 0 => 0,
            None => count,
        }
    }

    /// The first run of up to `most` free clusters from `from` on, whose length and distance from `from` are multiples
    /// of `unit`.
    pub(crate) fn find(&self, from: u32, most: u32, unit: u32, clusters: u32) -> Option<(u32, u32)> {
        if self.free < unit {
            return None;
        }
        let Some(mixed) = &self.mixed else {
            return (from + unit <= clusters).then(|| (from, most.min((clusters - from) / unit * unit)));
        };
        let mut at = from;
        while at < clusters {
            at += (first(&mixed.taken, at, clusters, false) - at).next_multiple_of(unit);
            let limit = at.saturating_add(most.max(unit)).min(clusters);
            if at + unit > limit {
                break;
            }
            let length = (first(&mixed.taken, at, limit, true) - at) / unit * unit;
            if length > 0 {
                return Some((at, length));
            }
            at += unit;
        }
        None
    }

    /// Takes a free run; returns how many of its clusters were free.
    pub(crate) fn take(&mut self, start: u32, count: u32, clusters: u32) -> u32 {
        let were_free = count - set(&mut self.mixed(clusters).taken, start, count, true);
        self.free -= were_free;
        self.was_used = true;
        self.tidy(clusters);
        were_free
    }

    /// Marks a run in use as held, so that the rows on disk count it as free.
    pub(crate) fn hold(&mut self, start: u32, count: u32, clusters: u32) {
        let words = clusters.div_ceil(64) as usize;
        self.mixed(clusters).held.add(start, count, words);
    }

    /// Ends the holding of a run; returns whether some of its clusters were held.
    pub(crate) fn keep(&mut self, start: u32, count: u32, clusters: u32) -> bool {
        let was_held = self.mixed.as_mut().is_some_and(|mixed| mixed.held.remove(start, count) > 0);
        if was_held {
            self.tidy(clusters);
        }
        was_held
    }

    /// Marks a run in use as fresh. Returns whether it is the first since [`Container::forget_fresh`].
    pub(crate) fn mark_fresh(&mut self, start: u32, count: u32, clusters: u32) -> bool {
        let words = clusters.div_ceil(64) as usize;
        let fresh = &mut self.mixed(clusters).fresh;
        let is_first = fresh.count == 0;
        fresh.add(start, count, words);
        is_first
    }

    /// Ends that clusters are fresh: a commit refers to them now.
    pub(crate) fn forget_fresh(&mut self, clusters: u32) {
        if let Some(mixed) = &mut self.mixed {
            mixed.fresh = Set::default();
            self.tidy(clusters);
        }
    }

    /// Whether the first cluster of a run is fresh, and how many of its clusters are as the first.
    pub(crate) fn is_fresh(&self, start: u32, count: u32) -> (bool, u32) {
        let fresh = self.mixed.as_ref().map(|mixed| &mixed.fresh).filter(|fresh| fresh.count > 0);
        let Some(bits) = fresh.and_then(|fresh| fresh.bits.as_deref()) else { return (false, count) };
        let is_fresh = bits[start as usize / 64] >> (start % 64) & 1 == 1;
        (is_fresh, first(bits, start, start + count, !is_fresh) - start)
    }

    /// Parks a run that is given up and cannot be handed out yet. Returns whether it is the first since the last
    /// hand-over, and how many of its clusters were in use and not parked already.
    pub(crate) fn park(&mut self, start: u32, count: u32, clusters: u32) -> (bool, u32) {
        let words = clusters.div_ceil(64) as usize;
        let were_free = self.free_in(start, count);
        let parked = &mut self.mixed(clusters).parked;
        let is_first = parked.count == 0;
        let new = parked.add(start, count, words);
        (is_first, new.saturating_sub(were_free))
    }

    /// Returns the parked clusters to a commit. They no longer count as parked, and still cannot be handed out.
    pub(crate) fn hand_over(&mut self) -> Set {
        self.mixed.as_mut().map(|mixed| std::mem::take(&mut mixed.parked)).unwrap_or_default()
    }

    /// Frees the clusters `left` that were handed over before; returns how many were in use.
    pub(crate) fn settle(&mut self, left: &Set, clusters: u32) -> u32 {
        let Some(bits) = &left.bits else { return 0 };
        let mut freed = 0;
        for (word, left) in self.mixed(clusters).taken.iter_mut().zip(bits) {
            freed += (*word & left).count_ones();
            *word &= !left;
        }
        self.free += freed;
        self.tidy(clusters);
        freed
    }

    /// Frees a run in use at once; returns how many of its clusters were in use.
    pub(crate) fn release(&mut self, start: u32, count: u32, clusters: u32) -> u32 {
        let mixed = self.mixed(clusters);
        mixed.fresh.remove(start, count);
        let were_taken = set(&mut mixed.taken, start, count, false);
        self.free += were_taken;
        self.tidy(clusters);
        were_taken
    }
}

/// The words that a run of bits lies in, each with the mask of its bits there.
fn words(start: u32, count: u32) -> impl Iterator<Item = (usize, u64)> {
    let end = start + count;
    let all = start / 64..end.div_ceil(64);
    all.map(move |word| {
        let (low, high) = (start.max(64 * word) - 64 * word, end.min(64 * word + 64) - 64 * word);
        (word as usize, u64::MAX << low & u64::MAX >> (64 - high))
    })
}

/// Sets or clears a run of bits; returns how many of them were set before.
fn set(bits: &mut [u64], start: u32, count: u32, to: bool) -> u32 {
    assert!((start + count).div_ceil(64) as usize <= bits.len(), "a run of clusters lies in one container");
    let mut were_set = 0;
    for (word, mask) in words(start, count) {
        were_set += (bits[word] & mask).count_ones();
        if to { bits[word] |= mask } else { bits[word] &= !mask }
    }
    were_set
}

/// The first bit of a range that is set, or that is clear; the end of the range if none is.
fn first(bits: &[u64], from: u32, to: u32, is_set: bool) -> u32 {
    let wanted = if is_set { 0 } else { u64::MAX };
    let found = words(from, to - from).find_map(|(word, mask)| {
        let here = (bits[word] ^ wanted) & mask;
        (here != 0).then(|| 64 * word as u32 + here.trailing_zeros())
    });
    found.unwrap_or(to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_testing::model::Random;

    /// The result that [`Container::find`] should have, computed bit by bit.
    fn found(one: &Container, from: u32, most: u32, unit: u32, clusters: u32) -> Option<(u32, u32)> {
        let is_free = |&at: &u32| at + unit <= clusters && (at..at + unit).all(|bit| !one.is_taken(bit));
        let units = (from..clusters).step_by(unit as usize);
        let start = units.clone().find(is_free)?;
        let run = units.skip_while(|&at| at < start).take_while(is_free);
        Some((start, unit * (run.count() as u32).min((most / unit).max(1))))
    }

    #[test]
    fn what_is_given_up_twice_or_taken_twice_is_told() {
        let clusters = 256;
        let mut one = Container::uniform(Tier::Medium, clusters, true);
        assert_eq!(one.take(10, 8, clusters), 8);
        assert_eq!(one.take(14, 8, clusters), 4, "the others were taken");
        assert_eq!(one.release(10, 4, clusters), 4);
        assert_eq!(one.release(8, 8, clusters), 2, "the others were free");
        assert_eq!(one.free(), clusters - 6);
        assert_eq!(one.park(16, 2, clusters), (true, 2));
        assert_eq!(one.park(16, 4, clusters), (false, 2), "two were given up already");
        assert_eq!(one.park(100, 4, clusters), (false, 0), "they are free");
        let left = one.hand_over();
        assert_eq!(one.settle(&left, clusters), 4);
        assert_eq!(one.free(), clusters - 2);
    }

    #[test]
    fn what_is_fresh_is_known_until_a_commit_or_its_release() {
        let clusters = 256;
        let mut one = Container::uniform(Tier::Medium, clusters, true);
        assert_eq!(one.is_fresh(0, 256), (false, 256));
        one.take(0, 256, clusters);
        assert!(one.mark_fresh(60, 10, clusters));
        assert!(!one.mark_fresh(100, 4, clusters));
        assert_eq!(one.is_fresh(0, 256), (false, 60));
        assert_eq!(one.is_fresh(60, 196), (true, 10));
        assert_eq!(one.is_fresh(62, 3), (true, 3));
        assert_eq!(one.release(60, 5, clusters), 5);
        one.take(60, 5, clusters);
        assert_eq!(one.is_fresh(60, 196), (false, 5), "the next owner has yet to say so");
        assert_eq!(one.is_fresh(65, 191), (true, 5));
        one.forget_fresh(clusters);
        assert_eq!(one.is_fresh(0, 256), (false, 256));
        assert!(one.mark_fresh(0, 1, clusters), "the first after that");
    }

    #[test]
    fn words_are_searched_as_bits_are() {
        for seed in 0..400 {
            let mut random = Random::new(seed);
            let clusters = 64 * (1 + random.below(6)) as u32;
            let mut one = Container::uniform(Tier::Medium, clusters, true);
            for _ in 0..random.below(12) {
                let start = random.below(u64::from(clusters)) as u32;
                let count = 1 + random.below(u64::from(clusters - start)) as u32 / 3;
                if one.free_in(start, count) == count && count < one.free() {
                    one.take(start, count, clusters);
                }
            }
            for _ in 0..50 {
                let start = random.below(u64::from(clusters)) as u32;
                let count = random.below(u64::from(clusters - start) + 1) as u32;
                let free = (start..start + count).filter(|&bit| !one.is_taken(bit)).count() as u32;
                assert_eq!(one.free_in(start, count), free, "seed {seed}: {count} from {start}");
                let unit = *random.pick(&[1, 4]);
                let from = start / unit * unit;
                let most = unit * (1 + random.below(100) as u32);
                assert_eq!(
                    one.find(from, most, unit, clusters),
                    found(&one, from, most, unit, clusters),
                    "seed {seed}: up to {most} from {from}, in units of {unit}"
                );
            }
        }
    }
}
