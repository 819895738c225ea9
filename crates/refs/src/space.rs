//! Which clusters are free.
//!
//! Of the medium tier's containers some are set apart for pages: data, which breaks free space into single clusters,
//! never goes there, so that a commit finds room for its pages on the fullest volume.
//!
//! Every container has one owner, the *tier*, which says what may be allocated from it, and a bitmap, kept only where
//! some of it is in use and some is not. The rule that keeps a power cut harmless: what the last checkpoint on disk
//! refers to is never handed out again. So a freed run is *parked* until a checkpoint that does not refer to it is on
//! disk. In the rows that this checkpoint is made of, it is free already.

use platter_vfs::{Error, Result};
use std::collections::BTreeMap;

/// Which allocator has a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Files, and most metadata.
    Medium,
    /// The pages of the medium allocator, and its own.
    Container,
    /// The container tables, and the pages of this tier: addressed by real numbers.
    Small,
}

/// A run of clusters in one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The container's index: its number less that of the first.
    pub container: u32,
    /// The first cluster in it.
    pub start: u32,
    /// Clusters.
    pub count: u32,
}

/// A container.
#[derive(Clone, Debug)]
pub struct Container {
    /// Who has it.
    pub tier: Tier,
    /// Whether, in the medium tier, it is set apart for pages.
    pub for_pages: bool,
    /// One bit for each cluster, set where it is in use or parked; `None` if all are free, or all are not.
    bits: Option<Box<[u64]>>,
    /// Clusters that can be handed out.
    free: u32,
    /// Runs freed since the last hand-over to a commit.
    parked: Vec<(u32, u32)>,
    /// Runs in use that nothing on disk refers to: data on its way, and files without a name that are still open.
    /// A power cut frees them.
    held: BTreeMap<u32, u32>,
    /// Whether it is in [`Space::changed`].
    changed: bool,
}

/// All containers.
pub struct Space {
    containers: Vec<Container>,
    per_container: u32,
    /// Containers whose rows on disk must be written again.
    changed: Vec<u32>,
    /// Containers with parked runs.
    parking: Vec<u32>,
    /// What the commit under way will make free.
    leaving: Vec<Run>,
    /// Clusters that can be handed out for data.
    free: u64,
    /// Clusters for data that are freed but parked.
    parked: u64,
    /// Where the next data is looked for, and the next page of each tier.
    data: Place,
    pages: [Place; 3],
}

#[derive(Clone, Copy, Default)]
struct Place {
    container: usize,
    cluster: u32,
}

impl Container {
    /// A container that is wholly free or wholly in use.
    pub fn uniform(tier: Tier, clusters: u32, free: bool) -> Container {
        Container {
            tier,
            for_pages: false,
            bits: None,
            free: if free { clusters } else { 0 },
            parked: Vec::new(),
            held: BTreeMap::new(),
            changed: false,
        }
    }

    /// A container with this bitmap.
    pub fn mapped(tier: Tier, clusters: u32, bits: Box<[u64]>) -> Container {
        let used: u32 = bits.iter().map(|word| word.count_ones()).sum();
        Container {
            tier,
            for_pages: false,
            bits: Some(bits),
            free: clusters - used.min(clusters),
            parked: Vec::new(),
            held: BTreeMap::new(),
            changed: false,
        }
    }

    /// Whether data may be put into it.
    pub fn is_for_data(&self) -> bool {
        self.tier == Tier::Medium && !self.for_pages
    }

    /// The bitmap, to be filled before anything is taken from it; [`Container::recounted`] counts what it holds.
    pub fn bits_mut(&mut self, clusters: u32) -> &mut [u64] {
        self.bits.get_or_insert_with(|| vec![0; clusters.div_ceil(64) as usize].into_boxed_slice())
    }

    /// The container with what is free counted again.
    pub fn recounted(self, clusters: u32) -> Container {
        match self.bits {
            Some(bits) => {
                Container { for_pages: self.for_pages, ..Container::mapped(self.tier, clusters, bits) }
            }
            None => self,
        }
    }

    /// Clusters in use as the next checkpoint sees it.
    pub fn used(&self, clusters: u32) -> u32 {
        let invisible = self.parked.iter().map(|run| run.1).chain(self.held.values().copied());
        clusters - self.free - invisible.sum::<u32>()
    }

    /// Clusters in use as the next checkpoint sees it, and the bitmap of them where it is neither all nor none.
    pub fn row(&self, clusters: u32) -> (u32, Option<Box<[u64]>>) {
        let Some(bits) = &self.bits else {
            debug_assert!(self.parked.is_empty() && self.held.is_empty());
            return (clusters - self.free, None);
        };
        let mut bits = bits.clone();
        let invisible =
            self.parked.iter().copied().chain(self.held.iter().map(|(&start, &count)| (start, count)));
        invisible.for_each(|(start, count)| set(&mut bits, start, count, false));
        let used = bits.iter().map(|word| word.count_ones()).sum();
        (used, (used != 0 && used != clusters).then_some(bits))
    }

    fn is_taken(&self, cluster: u32) -> bool {
        match &self.bits {
            Some(bits) => bits[cluster as usize / 64] >> (cluster % 64) & 1 == 1,
            None => self.free == 0,
        }
    }

    /// The first run of up to `most` free clusters from `from` on, its start and length multiples of `unit`.
    fn find(&self, from: u32, most: u32, unit: u32, clusters: u32) -> Option<(u32, u32)> {
        if self.free < unit {
            return None;
        }
        let Some(bits) = &self.bits else {
            return (from + unit <= clusters).then(|| (from, most.min((clusters - from) / unit * unit)));
        };
        let mut at = from;
        while at + unit <= clusters {
            if unit == 1 && at.is_multiple_of(64) && bits[at as usize / 64] == u64::MAX {
                at += 64;
                continue;
            }
            if (at..at + unit).any(|cluster| self.is_taken(cluster)) {
                at += unit;
                continue;
            }
            let mut end = at + unit;
            while end + unit <= clusters
                && end - at + unit <= most
                && (end..end + unit).all(|cluster| !self.is_taken(cluster))
            {
                end += unit;
            }
            return Some((at, end - at));
        }
        None
    }
}

/// Sets or clears a run of bits, word by word.
fn set(bits: &mut [u64], start: u32, count: u32, to: bool) {
    let (mut at, end) = (start, start + count);
    while at < end {
        let (word, bit) = (at as usize / 64, at % 64);
        let here = (64 - bit).min(end - at);
        let mask = if here == 64 { u64::MAX } else { ((1 << here) - 1) << bit };
        if to {
            bits[word] |= mask
        } else {
            bits[word] &= !mask
        }
        at += here;
    }
}

impl Space {
    /// The space of a volume with these containers.
    pub fn new(containers: Vec<Container>, per_container: u32) -> Space {
        let free = containers.iter().filter(|one| one.is_for_data()).map(|one| u64::from(one.free)).sum();
        Space {
            containers,
            per_container,
            changed: Vec::new(),
            parking: Vec::new(),
            leaving: Vec::new(),
            free,
            parked: 0,
            data: Place::default(),
            pages: [Place::default(); 3],
        }
    }

    /// Sets a container apart for pages if those that are have little room left, and one has nothing in it.
    pub fn prepare(&mut self) {
        let for_pages = self.containers.iter().filter(|one| one.tier == Tier::Medium && one.for_pages);
        let room: u64 = for_pages.map(|one| u64::from(one.free)).sum();
        if room < u64::from(self.per_container / 4) {
            self.set_apart();
        }
    }

    fn set_apart(&mut self) -> Option<usize> {
        let is_empty = |one: &Container| one.is_for_data() && one.free == self.per_container;
        let index = self.containers.iter().position(is_empty)?;
        self.containers[index].for_pages = true;
        self.free -= u64::from(self.per_container);
        self.touch(index);
        Some(index)
    }

    /// All containers, by index.
    pub fn containers(&self) -> &[Container] {
        &self.containers
    }

    /// The containers that changed since this was last asked.
    pub fn take_changed(&mut self) -> Vec<u32> {
        let changed = std::mem::take(&mut self.changed);
        changed.iter().for_each(|&index| self.containers[index as usize].changed = false);
        changed
    }

    fn touch(&mut self, index: usize) {
        if !std::mem::replace(&mut self.containers[index].changed, true) {
            self.changed.push(index as u32);
        }
    }

    /// Clusters that users see as free: what can be handed out, and what a commit will bring back.
    pub fn free(&self) -> u64 {
        self.free + self.parked
    }

    /// Clusters that a commit would bring back.
    pub fn parked(&self) -> u64 {
        self.parked
    }

    /// Takes up to `most` clusters for data, as one run, at `near` if that is free.
    pub fn take_data(&mut self, most: u32, near: Option<(u32, u32)>) -> Option<Run> {
        let allowed = self.free.min(u64::from(most)) as u32;
        if allowed == 0 {
            return None;
        }
        if let Some((container, cluster)) = near
            && let Some(one) = self.containers.get(container as usize)
            && one.is_for_data()
            && cluster < self.per_container
            && let Some((start, count)) = one.find(cluster, allowed, 1, self.per_container)
            && start == cluster
        {
            let run = self.mark(container as usize, start, count);
            self.hold(run);
            return Some(run);
        }
        let place = self.data;
        let run = self.next(place, Container::is_for_data, allowed, 1)?;
        self.data = Place { container: run.container as usize, cluster: run.start + run.count };
        self.hold(run);
        Some(run)
    }

    /// Hides a run that is in use from the rows on disk, until [`Space::keep`] or [`Space::park`].
    pub fn hold(&mut self, run: Run) {
        let words = self.per_container.div_ceil(64) as usize;
        let one = &mut self.containers[run.container as usize];
        one.bits.get_or_insert_with(|| vec![u64::MAX; words].into_boxed_slice());
        one.held.insert(run.start, run.count);
        self.touch(run.container as usize);
    }

    /// What of a run was held belongs to something on disk from the next checkpoint on. Runs that were taken one by one
    /// may come back as one.
    pub fn keep(&mut self, run: Run) {
        let (from, to) = (run.start, run.start + run.count);
        let one = &mut self.containers[run.container as usize];
        let mut was_held = false;
        while let Some((start, count)) =
            one.held.range(..to).next_back().map(|(&start, &count)| (start, count))
        {
            if start + count <= from {
                break;
            }
            was_held = true;
            one.held.remove(&start);
            if start + count > to {
                one.held.insert(to, start + count - to);
            }
            if start < from {
                one.held.insert(start, from - start);
                break;
            }
        }
        if was_held {
            if one.free == 0 && one.parked.is_empty() && one.held.is_empty() {
                one.bits = None;
            }
            self.touch(run.container as usize);
        }
    }

    /// Whether a tier has room for so many pages.
    pub fn has_pages(&self, tier: Tier, pages: u64, clusters: u32) -> bool {
        let mut room = 0;
        for one in &self.containers {
            if one.tier == tier && (tier != Tier::Medium || one.for_pages) {
                room += u64::from(one.free / clusters);
            } else if tier != Tier::Small && one.is_for_data() && one.free == self.per_container {
                room += u64::from(self.per_container / clusters);
            }
            if room >= pages {
                return true;
            }
        }
        false
    }

    /// Takes the clusters of one page.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub fn take_page(&mut self, tier: Tier, clusters: u32) -> Result<Run> {
        let place = self.pages[tier as usize];
        let suits = move |one: &Container| one.tier == tier && (tier != Tier::Medium || one.for_pages);
        let run = match (self.next(place, suits, clusters, clusters), tier) {
            (Some(run), _) => run,
            (None, Tier::Medium) => match self.set_apart() {
                Some(index) => self.mark(index, 0, clusters),
                None => {
                    self.next(self.data, Container::is_for_data, clusters, clusters).ok_or(Error::NoSpace)?
                }
            },
            // A tier that is full takes over a container that nothing is in.
            (None, Tier::Container) => {
                let index = self.set_apart().ok_or(Error::NoSpace)?;
                self.containers[index].tier = tier;
                self.mark(index, 0, clusters)
            }
            (None, Tier::Small) => return Err(Error::NoSpace),
        };
        self.pages[tier as usize] =
            Place { container: run.container as usize, cluster: run.start + run.count };
        Ok(run)
    }

    /// The next free run of a container that suits, from a place on, once around.
    fn next(
        &mut self,
        place: Place,
        suits: impl Fn(&Container) -> bool,
        most: u32,
        unit: u32,
    ) -> Option<Run> {
        let total = self.containers.len();
        for step in 0..=total {
            let index = (place.container + step) % total;
            let from = if step == 0 { place.cluster } else { 0 };
            let one = &self.containers[index];
            if one.free > 0
                && suits(one)
                && let Some((start, count)) = one.find(from, most, unit, self.per_container)
            {
                return Some(self.mark(index, start, count));
            }
        }
        None
    }

    fn mark(&mut self, index: usize, start: u32, count: u32) -> Run {
        let per_container = self.per_container;
        let one = &mut self.containers[index];
        let bits =
            one.bits.get_or_insert_with(|| vec![0; per_container.div_ceil(64) as usize].into_boxed_slice());
        set(bits, start, count, true);
        one.free -= count;
        if one.free == 0 && one.parked.is_empty() && one.held.is_empty() {
            one.bits = None;
        }
        if one.is_for_data() {
            self.free -= u64::from(count);
        }
        self.touch(index);
        Run { container: index as u32, start, count }
    }

    /// Gives a run back: it can be handed out again once the next checkpoint is on disk.
    pub fn park(&mut self, run: Run) {
        self.keep(run);
        let one = &mut self.containers[run.container as usize];
        if one.parked.is_empty() {
            self.parking.push(run.container);
        }
        match one.parked.last_mut() {
            Some(last) if last.0 + last.1 == run.start => last.1 += run.count,
            _ => one.parked.push((run.start, run.count)),
        }
        let words = self.per_container.div_ceil(64) as usize;
        one.bits.get_or_insert_with(|| vec![u64::MAX; words].into_boxed_slice());
        if one.is_for_data() {
            self.parked += u64::from(run.count);
        }
        self.touch(run.container as usize);
    }

    /// Gives a run back that nothing on disk ever referred to.
    pub fn give_back(&mut self, run: Run) {
        self.keep(run);
        self.release(run);
        self.touch(run.container as usize);
    }

    /// A commit takes over what is parked.
    pub fn hand_over(&mut self) {
        for container in std::mem::take(&mut self.parking) {
            let runs = self.containers[container as usize].parked.drain(..);
            self.leaving.extend(runs.map(|(start, count)| Run { container, start, count }));
        }
    }

    /// The checkpoint is on disk: what was parked when it was made can be handed out.
    pub fn settle(&mut self) {
        for run in std::mem::take(&mut self.leaving) {
            if self.containers[run.container as usize].is_for_data() {
                self.parked -= u64::from(run.count);
            }
            self.release(run);
        }
    }

    fn release(&mut self, run: Run) {
        let per_container = self.per_container;
        let one = &mut self.containers[run.container as usize];
        let words = per_container.div_ceil(64) as usize;
        let bits = one.bits.get_or_insert_with(|| vec![u64::MAX; words].into_boxed_slice());
        set(bits, run.start, run.count, false);
        one.free += run.count;
        if one.free == per_container && one.parked.is_empty() && one.held.is_empty() {
            one.bits = None;
        }
        if one.is_for_data() {
            self.free += u64::from(run.count);
        }
    }
}
