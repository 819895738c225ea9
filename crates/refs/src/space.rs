//! Which clusters are free.
//!
//! Of the medium tier's containers some are set apart for pages: data, which breaks free space into single clusters,
//! never goes there, so that a commit finds room for its pages on the fullest volume.
//!
//! Every container has one owner, the *tier*, which says what may be allocated from it, and a bitmap, kept only where
//! some of it is in use and some is not. The rule that keeps a power cut harmless: what the last checkpoint on disk
//! refers to is never handed out again. So a freed run is *parked* until a checkpoint that does not refer to it is on
//! disk. In the rows that this checkpoint is made of, it is free already.

mod owed;
mod room;

use crate::container::{Container, Set, Tier};
use crate::geometry::Geometry;
pub use owed::Owed;
use platter_vfs::{Error, Result};
use room::Room;
use smallvec::SmallVec;

/// A run of clusters in one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerRun {
    /// The container's index: its number less that of the first.
    pub container: u32,
    /// The first cluster in it.
    pub start: u32,
    /// Clusters.
    pub count: u32,
}

/// All containers.
pub struct Space {
    containers: Vec<Container>,
    room: Room,
    per_container: u32,
    /// Clusters of a page.
    page: u32,
    /// Containers whose rows on disk must be written again.
    changed: Vec<u32>,
    /// Containers with parked runs.
    parking: Vec<u32>,
    /// What the commit under way will make free.
    leaving: Vec<(u32, Set)>,
    /// Clusters for data that are freed but parked.
    parked: u64,
    /// Whether the next checkpoint counts them as in use.
    keeps_parked: bool,
    /// Clusters were taken that were in use, or given up that were not.
    is_wrong: bool,
    /// Pages that the next commit will take: those of runs, and all others.
    runs_owed: Owed,
    rows_owed: u64,
    /// Pages that the rows of all containers take at most: in allocators, and in both container tables.
    rows_most: [u64; 2],
    /// Where each writer's next data is looked for, and the next page of each tier.
    data: [Option<ContainerPlace>; WRITERS],
    pages: [ContainerPlace; 3],
    /// The container that scattered data is put together in, and where what is in its way goes.
    together: Option<usize>,
    outside: Option<ContainerPlace>,
}

/// Pages that a container's row takes at most in an allocator, or in a container table; and some for the ways down.
const ROWS_OF_A_CONTAINER: u64 = 3;
const SOME: u64 = 12;
/// Bytes that a container takes in a container table at most.
const ROW_OF_A_TABLE: usize = 244;
/// Pages of the medium tier that data leaves room for, besides those that are owed: for what adds to the volume, and
/// then for what removes from it.
const KEPT: u64 = 256;

/// Parts of a container that are emptied one at a time.
const WINDOWS: u32 = 16;
/// A part with less than one cluster in so many free is not worth emptying.
const WORTH: u32 = 32;

/// Writers whose data is kept apart, so that what each writes lies together.
pub const WRITERS: usize = 16;

#[derive(Clone, Copy, Default)]
struct ContainerPlace {
    container: usize,
    cluster: u32,
}

impl Space {
    /// The space of a volume with these containers.
    pub fn new(containers: Vec<Container>, geometry: &Geometry) -> Space {
        let per_container = geometry.per_container;
        let count = containers.len() as u64;
        let most = |row: usize| (count * row as u64).div_ceil(geometry.page() as u64 / 2);
        // Half-full pages, of rows with bitmaps and of rows of the tables.
        let rows_most = [most(64 + per_container as usize / 8), 2 * most(ROW_OF_A_TABLE)];
        let room = Room::new(&containers, per_container, geometry.page_clusters());
        Space {
            containers,
            room,
            per_container,
            changed: Vec::new(),
            parking: Vec::new(),
            leaving: Vec::new(),
            page: geometry.page_clusters(),
            parked: 0,
            is_wrong: false,
            keeps_parked: false,
            runs_owed: Owed::default(),
            rows_owed: 0,
            rows_most,
            data: [None; WRITERS],
            pages: [ContainerPlace::default(); 3],
            together: None,
            outside: None,
        }
    }

    /// Sets a container apart for pages if those that are have little room left, and one has nothing in it.
    pub fn prepare(&mut self) {
        if self.room.pages(Tier::Medium) * u64::from(self.page) < u64::from(self.per_container / 4) {
            self.set_apart();
        }
    }

    /// Changes a container, and what is counted of all.
    fn change<T>(&mut self, index: usize, with: impl FnOnce(&mut Container) -> T) -> T {
        self.room.change(&mut self.containers, index, with)
    }

    /// What runs owe.
    pub fn runs_owed(&self) -> Owed {
        self.runs_owed.clone()
    }

    /// Says how many pages the next commit takes for everything but the runs of files, for which they are kept free.
    pub fn owe_rows(&mut self, pages: u64) {
        self.rows_owed = pages;
    }

    /// Whether so many pages can be taken now, and those that the next commit needs are left.
    pub fn spares(&self, pages: u64) -> bool {
        self.can_spare(pages, 0)
    }

    fn can_spare(&self, pages: u64, empty: u64) -> bool {
        let medium = self.rows_owed + self.runs_owed.pages() + pages;
        let rows = ROWS_OF_A_CONTAINER * self.changed.len() as u64;
        let (container, small) = (rows.min(self.rows_most[0]), (2 * rows).min(self.rows_most[1]));
        self.room.has([medium, container + SOME, small + SOME], empty)
    }

    /// Whether data may go to a container: not to one with nothing in it that the next commit may need for pages.
    fn may_begin(&self, index: usize) -> bool {
        self.containers[index].free() < self.per_container || self.can_spare(KEPT, 1)
    }

    /// The container with most room for data, but for some.
    fn roomiest(&mut self, others: &[usize]) -> Option<usize> {
        let index = self.room.roomiest(&self.containers, others)?;
        if self.may_begin(index) {
            return Some(index);
        }
        let suits = |&(index, one): &(usize, &Container)| {
            let is_begun = one.is_for_data() && one.free() > 0 && one.free() < self.per_container;
            is_begun && !others.contains(&index)
        };
        let all = self.containers.iter().enumerate().filter(suits);
        all.max_by_key(|&(index, one)| (one.free(), std::cmp::Reverse(index))).map(|(index, _)| index)
    }

    fn set_apart(&mut self) -> Option<usize> {
        let is_empty = |one: &Container| one.is_for_data() && one.free() == self.per_container;
        let index = self.containers.iter().position(is_empty)?;
        self.change(index, |one| one.for_pages = true);
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
        changed.iter().for_each(|&index| self.containers[index as usize].is_changed = false);
        changed
    }

    fn touch(&mut self, index: usize) {
        if !std::mem::replace(&mut self.containers[index].is_changed, true) {
            self.changed.push(index as u32);
        }
    }

    /// Clusters that users see as free: what can be handed out, and what a commit will bring back.
    pub fn free(&self) -> u64 {
        self.room.data() + self.parked
    }

    /// Whether clusters were taken that were in use, or given up that were not: who has what is not known any more.
    pub fn is_wrong(&self) -> bool {
        self.is_wrong
    }

    /// Clusters that a commit would bring back.
    pub fn parked(&self) -> u64 {
        self.parked
    }

    /// Takes up to `most` clusters for data, as one run: at `near` if that is free, else where this writer's last data
    /// went. `writer` is less than [`WRITERS`].
    pub fn take_data(&mut self, most: u32, near: Option<(u32, u32)>, writer: usize) -> Option<ContainerRun> {
        let allowed = self.room.data().min(u64::from(most)) as u32;
        if allowed == 0 {
            return None;
        }
        if let Some((container, cluster)) = near
            && let Some(one) = self.containers.get(container as usize)
            && one.is_for_data()
            && cluster < self.per_container
            && !one.is_taken(cluster)
            && self.may_begin(container as usize)
            && let Some((start, count)) = one.find(cluster, allowed, 1, self.per_container)
        {
            let run = self.mark(container as usize, start, count);
            self.hold(run);
            return Some(run);
        }
        let run = self.next_data(allowed, writer)?;
        self.data[writer] =
            Some(ContainerPlace { container: run.container as usize, cluster: run.start + run.count });
        self.hold(run);
        Some(run)
    }

    /// The next data of a writer: on in its container, then in one where no other writer is, then anywhere.
    fn next_data(&mut self, most: u32, writer: usize) -> Option<ContainerRun> {
        if let Some(place) = self.data[writer]
            && let one = &self.containers[place.container]
            && one.is_for_data()
            && self.may_begin(place.container)
            && let Some((start, count)) = one.find(place.cluster, most, 1, self.per_container)
        {
            return Some(self.mark(place.container, start, count));
        }
        self.data[writer] = None;
        let writers = self.writers();
        let index = self.roomiest(&writers).or_else(|| self.roomiest(&[]))?;
        let (start, count) = self.containers[index].find(0, most, 1, self.per_container)?;
        Some(self.mark(index, start, count))
    }

    /// Takes a whole run of clusters for data, where the last such was taken or in the container with most room.
    pub fn take_run(&mut self, count: u32) -> Option<ContainerRun> {
        for index in [self.together, self.roomiest(&[])].into_iter().flatten() {
            if self.may_begin(index)
                && let Some(start) = self.run_in(index, count)
            {
                self.together = Some(index);
                let run = self.mark(index, start, count);
                self.hold(run);
                return Some(run);
            }
        }
        self.together = None;
        None
    }

    /// The first cluster of a run of free ones in a container for data.
    fn run_in(&self, index: usize, count: u32) -> Option<u32> {
        let one = self.containers.get(index).filter(|one| one.is_for_data() && one.free() >= count)?;
        let mut from = 0;
        while let Some((start, length)) = one.find(from, count, 1, self.per_container) {
            if length == count {
                return Some(start);
            }
            from = start + length;
        }
        None
    }

    /// The part of a container that is best emptied: of the one with most room, that in which
    /// most is free. `None` if there is none with one cluster in [`WORTH`] free; those in `hopeless` do not count. What
    /// is put together goes there next.
    pub fn best_emptied(&mut self, hopeless: &[ContainerRun]) -> Option<ContainerRun> {
        let count = self.per_container / WINDOWS;
        let part =
            |index: usize, window| ContainerRun { container: index as u32, start: window * count, count };
        let has_hope = |index: usize| (0..WINDOWS).any(|window| !hopeless.contains(&part(index, window)));
        let suits = |&(index, one): &(usize, &Container)| {
            one.is_for_data() && one.free() >= count / WORTH && has_hope(index)
        };
        let all = self.containers.iter().enumerate().filter(suits);
        let (index, one) = all.max_by_key(|(_, one)| one.free())?;
        let parts = (0..WINDOWS).map(|window| part(index, window)).filter(|part| !hopeless.contains(part));
        let (free, best) =
            parts.map(|part| (one.free_in(part.start, count), part)).max_by_key(|(free, _)| *free)?;
        self.together = Some(index);
        (free >= count / WORTH).then_some(best)
    }

    /// Takes up to `most` clusters for data, as one run, anywhere but in this container.
    pub fn take_outside(&mut self, most: u32, container: usize) -> Option<ContainerRun> {
        let index = match self.outside {
            Some(place) if place.container != container && self.may_begin(place.container) => place,
            _ => ContainerPlace { container: self.roomiest(&[container])?, cluster: 0 },
        };
        let clusters = self.per_container;
        let find = |containers: &[Container], place: ContainerPlace| {
            let one = &containers[place.container];
            let found = one.is_for_data().then(|| one.find(place.cluster, most, 1, clusters));
            found.flatten().map(|(start, count)| (place.container, start, count))
        };
        let (index, start, count) = match find(&self.containers, index) {
            Some(found) => found,
            None => {
                let place = ContainerPlace { container: self.roomiest(&[container])?, cluster: 0 };
                find(&self.containers, place)?
            }
        };
        self.outside = Some(ContainerPlace { container: index, cluster: start + count });
        let run = self.mark(index, start, count);
        self.hold(run);
        Some(run)
    }

    /// Takes a run for data if all of it is free.
    pub fn take_exactly(&mut self, run: ContainerRun) -> bool {
        let suits = self.containers[run.container as usize].is_for_data() && self.is_free(run);
        if suits {
            self.mark(run.container as usize, run.start, run.count);
        }
        suits
    }

    /// Whether all of a run is free.
    pub fn is_free(&self, run: ContainerRun) -> bool {
        self.containers[run.container as usize].free_in(run.start, run.count) == run.count
    }

    /// The containers that writers are at.
    fn writers(&self) -> SmallVec<[usize; WRITERS]> {
        self.data.iter().flatten().map(|place| place.container).collect()
    }

    /// Hides a run that is in use from the rows on disk, until [`Space::keep`] or [`Space::park`].
    pub fn hold(&mut self, run: ContainerRun) {
        self.containers[run.container as usize].hold(run.start, run.count, self.per_container);
        self.touch(run.container as usize);
    }

    /// What of a run was held belongs to something on disk from the next checkpoint on.
    pub fn keep(&mut self, run: ContainerRun) {
        if self.containers[run.container as usize].keep(run.start, run.count, self.per_container) {
            self.touch(run.container as usize);
        }
    }

    /// Whether a tier has room for so many pages, those that are owed included.
    pub fn has_pages(&self, tier: Tier, pages: u64) -> bool {
        match tier {
            Tier::Medium => self.room.has([pages, 0, 0], 0),
            Tier::Container => self.room.has([0, pages, 0], 0),
            Tier::Small => self.room.has([0, 0, pages], 0),
        }
    }

    /// Takes the clusters of one page.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub fn take_page(&mut self, tier: Tier, clusters: u32) -> Result<ContainerRun> {
        let place = self.pages[tier as usize];
        let suits =
            move |_: usize, one: &Container| one.tier == tier && (tier != Tier::Medium || one.for_pages);
        let run = match (self.next(place, suits, clusters, clusters), tier) {
            (Some(run), _) => run,
            (None, Tier::Medium) => match self.set_apart() {
                Some(index) => self.mark(index, 0, clusters),
                None => {
                    let anywhere = ContainerPlace::default();
                    self.next(anywhere, |_, one| one.is_for_data(), clusters, clusters)
                        .ok_or(Error::NoSpace)?
                }
            },
            // A tier that is full takes over a container that nothing is in.
            (None, Tier::Container | Tier::Small) => {
                let index = self.set_apart().ok_or(Error::NoSpace)?;
                self.change(index, |one| one.tier = tier);
                self.mark(index, 0, clusters)
            }
        };
        self.pages[tier as usize] =
            ContainerPlace { container: run.container as usize, cluster: run.start + run.count };
        Ok(run)
    }

    /// The next free run of a container that suits, from a place on, once around.
    fn next(
        &mut self,
        place: ContainerPlace,
        suits: impl Fn(usize, &Container) -> bool,
        most: u32,
        unit: u32,
    ) -> Option<ContainerRun> {
        let total = self.containers.len();
        for step in 0..=total {
            let index = (place.container + step) % total;
            let from = if step == 0 { place.cluster } else { 0 };
            let one = &self.containers[index];
            if one.free() > 0
                && suits(index, one)
                && let Some((start, count)) = one.find(from, most, unit, self.per_container)
            {
                return Some(self.mark(index, start, count));
            }
        }
        None
    }

    fn mark(&mut self, index: usize, start: u32, count: u32) -> ContainerRun {
        let clusters = self.per_container;
        let were_free = self.change(index, |one| one.take(start, count, clusters));
        self.is_wrong |= were_free != count;
        self.touch(index);
        ContainerRun { container: index as u32, start, count }
    }

    /// Gives a run back: it can be handed out again once the next checkpoint is on disk.
    pub fn park(&mut self, run: ContainerRun) {
        self.keep(run);
        let one = &mut self.containers[run.container as usize];
        let (is_first, were_used) = one.park(run.start, run.count, self.per_container);
        self.is_wrong |= were_used != run.count;
        if is_first {
            self.parking.push(run.container);
        }
        if one.is_for_data() {
            self.parked += u64::from(run.count);
        }
        self.touch(run.container as usize);
    }

    /// Gives a run back that nothing on disk ever referred to.
    pub fn give_back(&mut self, run: ContainerRun) {
        self.keep(run);
        let clusters = self.per_container;
        let were_taken =
            self.change(run.container as usize, |one| one.release(run.start, run.count, clusters));
        self.is_wrong |= were_taken != run.count;
        self.touch(run.container as usize);
    }

    /// Whether the next checkpoint counts what is parked as in use.
    pub fn keeps_parked(&self) -> bool {
        self.keeps_parked
    }

    /// Has the next checkpoint count what is parked as in use, or no longer: something on disk that it does not replace
    /// may have it.
    pub fn keep_parked(&mut self, is_kept: bool) {
        if std::mem::replace(&mut self.keeps_parked, is_kept) && !is_kept {
            let parking = self.parking.clone();
            parking.into_iter().for_each(|container| self.touch(container as usize));
        }
    }

    /// A commit takes over what is parked, unless that is to be kept.
    pub fn hand_over(&mut self) {
        if self.keeps_parked {
            return;
        }
        for container in std::mem::take(&mut self.parking) {
            self.leaving.push((container, self.containers[container as usize].hand_over()));
        }
    }

    /// The checkpoint is on disk: what was parked when it was made can be handed out.
    pub fn settle(&mut self) {
        for (container, left) in std::mem::take(&mut self.leaving) {
            let clusters = self.per_container;
            let freed = self.change(container as usize, |one| one.settle(&left, clusters));
            self.is_wrong |= freed != left.count();
            if self.containers[container as usize].is_for_data() {
                self.parked -= u64::from(freed);
            }
        }
    }
}
