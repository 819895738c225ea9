//! Which clusters are free, and from where new ones are taken.
//!
//! Some containers of the medium tier are set apart for metadata pages. Data never goes there, since it breaks free
//! space into single clusters; so a commit finds room for its pages on the fullest volume.
//!
//! Every container belongs to one allocator, its *tier*, which decides what may be allocated from it. It has a bitmap
//! only where some of its clusters are in use and some are not. One rule makes a power cut harmless: clusters to which
//! the last checkpoint on disk refers are never handed out again. So a freed run is *parked* until a checkpoint that
//! does not refer to it is on disk. In the allocator rows of this checkpoint the run is free already.
//!
//! Data that was written since the last checkpoint, and of which no entry of the log of syncs tells, lies in *fresh*
//! clusters, to which nothing on disk refers. Where room is short, what is given up of them is free at once. So a part of a
//! file that is written over and over needs two places by turns, and no commit for each round.

mod owed;
mod room;

use crate::container::{Container, Set, Tier};
use crate::geometry::Geometry;
pub(crate) use owed::Owed;
use platter_vfs::{Error, Result};
use room::Room;
use smallvec::SmallVec;

/// A run of clusters in one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContainerRun {
    /// The container's index: its number minus that of the first container.
    pub container: u32,
    /// The first cluster of the run, counted in the container.
    pub start: u32,
    /// The number of clusters.
    pub count: u32,
}

/// The allocation state of all containers.
pub(crate) struct Space {
    containers: Vec<Container>,
    room: Room,
    per_container: u32,
    /// The number of clusters of a page.
    page: u32,
    /// Containers whose rows on disk must be written again.
    changed: Vec<u32>,
    /// Containers with parked runs, and those with fresh ones.
    parking: Vec<u32>,
    freshened: Vec<u32>,
    /// The parked clusters that become free with the commit under way, by container.
    leaving: Vec<(u32, Set)>,
    /// The number of parked clusters in containers for data, and how many of them become free with the commit under way.
    parked: u64,
    handed_over: u64,
    /// Whether the next checkpoint counts parked clusters as in use.
    keeps_parked: bool,
    /// Whether clusters were taken that were in use, or given up that were not.
    is_wrong: bool,
    /// The number of pages that the next commit will take: for runs of files, and for everything else.
    runs_owed: Owed,
    rows_owed: u64,
    /// The most pages that the rows of all containers take: in allocators, and in both container tables together.
    rows_most: [u64; 2],
    /// Where the search begins for each writer's next data, and for the next page of each tier.
    data: [Option<ContainerPlace>; WRITERS],
    pages: [ContainerPlace; 3],
    /// The container in which scattered files are put together, and where the data goes that is moved out of the way.
    together: Option<usize>,
    outside: Option<ContainerPlace>,
}

/// The most pages that a changed row of a container takes in an allocator or in a container table; and the pages for
/// the inner nodes above them.
const ROWS_OF_A_CONTAINER: u64 = 3;
const SOME: u64 = 12;
/// The most bytes that the row of a container takes in a container table.
const ROW_OF_A_TABLE: usize = 244;
/// The number of pages of the medium tier that data leaves free besides the owed ones: for changes that add to the
/// volume, and after those for changes that remove from it.
const KEPT: u64 = 256;

/// The number of parts of a container; one part at a time is emptied.
const WINDOWS: u32 = 16;
/// A part in which less than one cluster in this many is free is not worth emptying.
const WORTH: u32 = 32;

/// The number of writers whose data is kept apart, so that the data of each lies together.
pub(crate) const WRITERS: usize = 16;

// A part of a container is emptied where it has at least one free cluster.
const _: () = assert!(WINDOWS.is_power_of_two() && WORTH.is_power_of_two());
// The row of a container and its bitmap are less than half a page.
const _: () = assert!(ROW_OF_A_TABLE < 16 << 9);

#[derive(Clone, Copy, Default)]
struct ContainerPlace {
    container: usize,
    cluster: u32,
}

impl Space {
    /// The space of a volume with these containers.
    pub(crate) fn new(containers: Vec<Container>, geometry: &Geometry) -> Space {
        let per_container = geometry.per_container;
        let count = containers.len() as u64;
        let most = |row: usize| (count * row as u64).div_ceil(geometry.page() as u64 / 2);
        // In pages that are half full: rows with bitmaps in the allocators, and the rows of both container tables.
        let rows_most = [most(64 + per_container as usize / 8), 2 * most(ROW_OF_A_TABLE)];
        let room = Room::new(&containers, per_container, geometry.page_clusters());
        Space {
            containers,
            room,
            per_container,
            changed: Vec::new(),
            parking: Vec::new(),
            freshened: Vec::new(),
            leaving: Vec::new(),
            page: geometry.page_clusters(),
            parked: 0,
            handed_over: 0,
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

    /// Sets an empty container apart for pages if those set apart have less room left than a quarter of a container.
    pub(crate) fn prepare(&mut self) {
        if self.room.pages(Tier::Medium) * u64::from(self.page) < u64::from(self.per_container / 4) {
            self.set_apart();
        }
    }

    /// Changes a container, and updates the counts over all containers.
    fn change<T>(&mut self, index: usize, with: impl FnOnce(&mut Container) -> T) -> T {
        self.room.change(&mut self.containers, index, with)
    }

    /// The count of pages that the runs of files owe, as a handle that their holders change.
    pub(crate) fn runs_owed(&self) -> Owed {
        self.runs_owed.clone()
    }

    /// Sets the number of pages that the next commit takes for everything but the runs of files. They are kept free for
    /// it.
    pub(crate) fn owe_rows(&mut self, pages: u64) {
        self.rows_owed = pages;
    }

    /// Whether this many pages can be taken now and those that the next commit needs are still left.
    pub(crate) fn spares(&self, pages: u64) -> bool {
        self.can_spare(pages, 0)
    }

    fn can_spare(&self, pages: u64, empty: u64) -> bool {
        let medium = self.rows_owed + self.runs_owed.pages() + pages;
        let rows = ROWS_OF_A_CONTAINER * self.changed.len() as u64;
        let (container, small) = (rows.min(self.rows_most[0]), (2 * rows).min(self.rows_most[1]));
        self.room.has([medium, container + SOME, small + SOME], empty)
    }

    /// Whether data may go to a container: not to an empty one that the next commit may need for pages.
    fn may_begin(&self, index: usize) -> bool {
        self.containers[index].free() < self.per_container || self.can_spare(KEPT, 1)
    }

    /// The container with most room for data, except `others`.
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
    pub(crate) fn containers(&self) -> &[Container] {
        &self.containers
    }

    /// Returns the containers that changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Vec<u32> {
        let changed = std::mem::take(&mut self.changed);
        debug_assert!(
            changed.iter().all(|&index| self.containers[index as usize].is_changed),
            "a container that is to be written is marked"
        );
        changed.iter().for_each(|&index| self.containers[index as usize].is_changed = false);
        changed
    }

    /// Has the rows of these containers written anew by the next commit, if there is room for that.
    pub(crate) fn renew_rows(&mut self, containers: impl IntoIterator<Item = usize>) {
        containers.into_iter().for_each(|index| self.touch(index));
        if !self.spares(KEPT) {
            self.take_changed();
        }
    }

    fn touch(&mut self, index: usize) {
        if !std::mem::replace(&mut self.containers[index].is_changed, true) {
            self.changed.push(index as u32);
        }
    }

    /// The number of clusters that users see as free: those that can be handed out, and those that a commit frees.
    pub(crate) fn free(&self) -> u64 {
        self.room.data() + self.parked
    }

    /// Whether clusters were taken that were in use, or given up that were not: then it is no longer known which
    /// clusters are in use.
    pub(crate) fn is_wrong(&self) -> bool {
        self.is_wrong
    }

    /// The number of clusters for data that a commit would free.
    pub(crate) fn parked(&self) -> u64 {
        self.parked
    }

    /// The number of clusters for data that the next commit would free, without those that the commit under way frees.
    pub(crate) fn waiting(&self) -> u64 {
        self.parked - self.handed_over
    }

    /// Takes up to `most` clusters for data, as one run: at `near` if that cluster is free, else after this writer's
    /// last data. `writer` is less than [`WRITERS`].
    pub(crate) fn take_data(
        &mut self,
        most: u32,
        near: Option<(u32, u32)>,
        writer: usize,
    ) -> Option<ContainerRun> {
        assert!(writer < WRITERS, "each writer has its place");
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

    /// Takes the next run for a writer: after its last data in the same container, then in a container that no other
    /// writer uses, then anywhere.
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

    /// Takes a run of exactly `count` clusters for data, in the container where the last such run was taken or else in
    /// the one with most room.
    pub(crate) fn take_run(&mut self, count: u32) -> Option<ContainerRun> {
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

    /// The first cluster of a run of `count` free clusters in a container for data.
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

    /// The best part of a container to empty: in the container with most room, the part with most free clusters. `None`
    /// if no part has one cluster in [`WORTH`] free; parts in `hopeless` are left out. The container becomes the one
    /// that [`Space::take_run`] looks in first.
    pub(crate) fn best_emptied(&mut self, hopeless: &[ContainerRun]) -> Option<ContainerRun> {
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

    /// Takes up to `most` clusters for data, as one run, in any container except this one.
    pub(crate) fn take_outside(&mut self, most: u32, container: usize) -> Option<ContainerRun> {
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
    pub(crate) fn take_exactly(&mut self, run: ContainerRun) -> bool {
        let suits = self.containers[run.container as usize].is_for_data() && self.is_free(run);
        if suits {
            self.mark(run.container as usize, run.start, run.count);
        }
        suits
    }

    /// Whether all of a run is free.
    pub(crate) fn is_free(&self, run: ContainerRun) -> bool {
        self.containers[run.container as usize].free_in(run.start, run.count) == run.count
    }

    /// The containers in which writers' last data lies.
    fn writers(&self) -> SmallVec<[usize; WRITERS]> {
        self.data.iter().flatten().map(|place| place.container).collect()
    }

    /// Marks a run in use as held, so that the rows on disk count it as free, until [`Space::keep`] or [`Space::park`].
    pub(crate) fn hold(&mut self, run: ContainerRun) {
        self.containers[run.container as usize].hold(run.start, run.count, self.per_container);
        self.touch(run.container as usize);
    }

    /// Ends the holding of a run: from the next checkpoint on structures on disk refer to it.
    pub(crate) fn keep(&mut self, run: ContainerRun) {
        if self.containers[run.container as usize].keep(run.start, run.count, self.per_container) {
            self.touch(run.container as usize);
        }
    }

    /// Whether a tier has room for this many pages, those that are owed included.
    pub(crate) fn has_pages(&self, tier: Tier, pages: u64) -> bool {
        match tier {
            Tier::Medium => self.room.has([pages, 0, 0], 0),
            Tier::Container => self.room.has([0, pages, 0], 0),
            Tier::Small => self.room.has([0, 0, pages], 0),
        }
    }

    /// Takes the clusters of one page.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is no room.
    pub(crate) fn take_page(&mut self, tier: Tier, clusters: u32) -> Result<ContainerRun> {
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
            // A tier that is full takes over an empty container.
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

    /// Takes the next free run in a container that suits, from a place on, going once through all containers.
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
        debug_assert!(count > 0 && start + count <= self.per_container, "a run lies in its container");
        ContainerRun { container: index as u32, start, count }
    }

    /// Ends the holding of a run, as [`Space::keep`] does, to which nothing on disk refers before the next commit gathers.
    pub(crate) fn keep_fresh(&mut self, run: ContainerRun) {
        self.keep(run);
        let clusters = self.per_container;
        if self.containers[run.container as usize].mark_fresh(run.start, run.count, clusters) {
            self.freshened.push(run.container);
        }
    }

    /// Gives up a run. It is free once the next checkpoint is on disk; where room is short, what is fresh of it is free at
    /// once.
    pub(crate) fn park(&mut self, run: ContainerRun) {
        let (mut start, end) = (run.start, run.start + run.count);
        while start < end {
            let (is_fresh, count) = self.containers[run.container as usize].is_fresh(start, end - start);
            let part = ContainerRun { start, count, ..run };
            match is_fresh && self.is_short() {
                true => self.give_back(part),
                false => self.park_stored(part),
            }
            start += count;
        }
    }

    /// Whether a commit would be needed soon for want of room: what waits for one is half of what is left or more. Elsewhere
    /// clusters are better given up together, so that what is free stays in long runs: scattered writes that take single
    /// clusters are a sixth slower on a disk.
    fn is_short(&self) -> bool {
        self.room.data() <= 2 * self.parked
    }

    /// Gives up a run that is free with the next checkpoint.
    fn park_stored(&mut self, run: ContainerRun) {
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

    /// Frees a run at once to which nothing on disk ever referred.
    pub(crate) fn give_back(&mut self, run: ContainerRun) {
        self.keep(run);
        let clusters = self.per_container;
        let were_taken =
            self.change(run.container as usize, |one| one.release(run.start, run.count, clusters));
        self.is_wrong |= were_taken != run.count;
        self.touch(run.container as usize);
    }

    /// Whether the next checkpoint counts parked clusters as in use.
    pub(crate) fn keeps_parked(&self) -> bool {
        self.keeps_parked
    }

    /// Sets whether the next checkpoint counts parked clusters as in use. They must be counted where a structure on
    /// disk that the checkpoint does not replace may refer to them.
    pub(crate) fn keep_parked(&mut self, is_kept: bool) {
        if std::mem::replace(&mut self.keeps_parked, is_kept) && !is_kept {
            let parking = self.parking.clone();
            parking.into_iter().for_each(|container| self.touch(container as usize));
        }
    }

    /// Hands the parked clusters over to a commit, unless they are to be kept. The commit refers to all clusters in use,
    /// so none is fresh any more.
    pub(crate) fn hand_over(&mut self) {
        for container in std::mem::take(&mut self.freshened) {
            self.containers[container as usize].forget_fresh(self.per_container);
        }
        if self.keeps_parked {
            return;
        }
        for container in std::mem::take(&mut self.parking) {
            self.leaving.push((container, self.containers[container as usize].hand_over()));
        }
        self.handed_over = self.parked;
    }

    /// Frees the clusters that were handed over to a commit, whose checkpoint is on disk now.
    pub(crate) fn settle(&mut self) {
        self.handed_over = 0;
        debug_assert!(
            self.leaving.len() <= self.containers.len(),
            "a container hands over once for a commit"
        );
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
