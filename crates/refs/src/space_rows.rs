//! Free clusters as a checkpoint has them: the rows of the allocators and of the container tables.

use crate::bulk::Bulk;
use crate::container::Tier;
use crate::core::Core;
use crate::free_counts::FreeCounts;
use crate::geometry::ContainerMap;
use crate::layout::{AllocatorRow, AllocatorSummary, ContainerRow, Root};
use crate::ranges::{Range, Ranges, Use};
use platter_vfs::Result;

/// The root of the allocator of each tier.
pub(crate) const ALLOCATORS: [(Tier, Root); 3] = [
    (Tier::Medium, Root::MediumAllocator),
    (Tier::Container, Root::ContainerAllocator),
    (Tier::Small, Root::SmallAllocator),
];

impl Core {
    /// Stores the rows of containers whose use changed, until storing them changes no further container, and then the
    /// summaries. This ends because a page that was copied since the last commit keeps its place.
    pub(crate) fn store_space(&mut self) -> Result<()> {
        self.replace_odd()?;
        loop {
            let changed = self.pages.space.take_changed();
            if changed.is_empty() && !self.store_summaries()? {
                return Ok(());
            }
            for index in changed {
                self.store_container(index as usize)?;
            }
        }
    }

    /// Puts one row for each container in the place of rows that do not cover whole ones.
    fn replace_odd(&mut self) -> Result<()> {
        for (tier, root) in ALLOCATORS {
            let clusters = self.geometry().per_container;
            for (start, count) in self.ranges[tier as usize].take_odd() {
                let row = AllocatorRow { start, count, used: 0, bits: None };
                let key = AllocatorRow::key(start, count);
                let (tree, pages) = self.root(root);
                tree.remove(pages, &key)?;
                let (first, pieces) = row.around(clusters).expect("seen on opening");
                for place in first..first + pieces {
                    self.pages.map.at(place).map_or(Ok(()), |index| self.store_container(index))?;
                }
            }
        }
        Ok(())
    }

    /// Brings the summary in the root page of each allocator up to date. Returns whether a summary was changed: then its
    /// page may have been copied, which changes a container. The rows from which a summary differs have been stored just
    /// before, so the page is mostly one that the commit writes anyway.
    fn store_summaries(&mut self) -> Result<bool> {
        let mut has_changed = false;
        for (tier, root) in ALLOCATORS {
            let summary = self.summary(tier);
            let (tree, pages) = self.root(root);
            let stored = AllocatorSummary::from_bytes(&tree.extra(pages)?);
            if stored.is_some_and(|stored| stored != summary) {
                summary.store(tree.extra_mut(pages)?);
                has_changed = true;
            }
        }
        Ok(has_changed)
    }

    /// What the rows of an allocator say together. At 3.4 the summary of the medium allocator counts the containers of
    /// the other tiers too, although it has no rows for them, as on volumes of Windows.
    fn summary(&self, tier: Tier) -> AllocatorSummary {
        let is_all = tier == Tier::Medium && !self.geometry().version.has_shared_allocators();
        let containers = match is_all {
            true => self.pages.map.len() as u64,
            false => self.ranges[tier as usize].containers(),
        };
        let covered = containers * u64::from(self.geometry().per_container);
        AllocatorSummary { covered, free: self.free_counts.free(tier) }
    }

    /// Counts the free clusters of all rows, after they were read or built.
    pub(crate) fn count_space(&mut self) {
        let count = self.pages.space.containers().len();
        self.free_counts = FreeCounts::of((0..count).map(|index| self.free_in_row(index)));
    }

    /// The tier of a container, and the number of clusters that its row counts as free.
    fn free_in_row(&self, index: usize) -> (Tier, u32) {
        let clusters = self.geometry().per_container;
        let container = &self.pages.space.containers()[index];
        (container.tier, clusters - container.used(clusters, self.pages.space.keeps_parked()))
    }

    fn store_container(&mut self, index: usize) -> Result<()> {
        let (tier, free) = self.free_in_row(index);
        self.free_counts.set(index, tier, free);
        for (tier, root) in ALLOCATORS {
            let says = self.says(tier, index);
            let change = self.ranges[tier as usize].set(self.place(index), says);
            for range in change.gone {
                let (row, medium) = (self.row_of(range, Some(Use::Full)), tier == Tier::Medium);
                let value = row.to_bytes(self.geometry().version, medium);
                let (tree, pages) = self.root(root);
                tree.remove(pages, &value[..AllocatorRow::KEY])?;
            }
            for (range, says) in change.put {
                let row = self.row_of(range, (says != Use::Part).then_some(says));
                let value = row.to_bytes(self.geometry().version, tier == Tier::Medium);
                let (tree, pages) = self.root(root);
                tree.put(pages, &value[..AllocatorRow::KEY], 0, &value)?;
            }
        }
        let value = self.container_row(index);
        for root in [Root::Containers, Root::ContainersCopy] {
            let (tree, pages) = self.root(root);
            tree.put(pages, &value[..ContainerRow::KEY], 0, &value)?;
        }
        Ok(())
    }

    /// Builds the allocators and the container tables anew from the use of each container.
    pub(crate) fn renew_space(&mut self) -> Result<()> {
        // The containers that building them changes are stored by the commit.
        self.pages.space.take_changed();
        for (tier, root) in ALLOCATORS {
            let count = self.pages.map.len();
            let mut all: Vec<(u32, Use)> =
                (0..count).filter_map(|index| Some((self.place(index), self.says(tier, index)?))).collect();
            all.sort_unstable_by_key(|&(place, _)| place);
            let ranges = Ranges::of(all);
            let old = self.roots[root as usize].clone();
            let header = old.header(&mut self.pages)?;
            let mut bulk = Bulk::new(&self.pages, &old, &header);
            for (range, says) in ranges.iter() {
                let row = self.row_of(range, (says != Use::Part).then_some(says));
                let value = row.to_bytes(self.geometry().version, tier == Tier::Medium);
                bulk.add(&mut self.pages, &value[..AllocatorRow::KEY], 0, &value)?;
            }
            self.roots[root as usize] = bulk.finish(&mut self.pages)?;
            self.ranges[tier as usize] = ranges;
            old.destroy(&mut self.pages)?;
        }
        for root in [Root::Containers, Root::ContainersCopy] {
            let old = self.roots[root as usize].clone();
            let header = old.header(&mut self.pages)?;
            let mut bulk = Bulk::new(&self.pages, &old, &header);
            for index in 0..self.pages.map.len() {
                let value = self.container_row(index);
                bulk.add(&mut self.pages, &value[..ContainerRow::KEY], 0, &value)?;
            }
            self.roots[root as usize] = bulk.finish(&mut self.pages)?;
            old.destroy(&mut self.pages)?;
        }
        self.count_space();
        self.news = true;
        Ok(())
    }

    /// The place of a container on the volume, counted in containers from its start.
    fn place(&self, index: usize) -> u32 {
        (self.pages.map.start(index) / u64::from(self.geometry().per_container)) as u32
    }

    /// Whether a container is free, full or partly in use in the allocator of `tier`; `None` if that has no row of it.
    fn says(&self, tier: Tier, index: usize) -> Option<Use> {
        let clusters = self.geometry().per_container;
        let container = &self.pages.space.containers()[index];
        if container.tier == tier {
            return Some(match container.used(clusters, self.pages.space.keeps_parked()) {
                0 => Use::Free,
                used if used == clusters => Use::Full,
                _ => Use::Part,
            });
        }
        // The medium allocator counts containers of other tiers as wholly in use.
        (tier == Tier::Medium && self.geometry().version.has_shared_allocators()).then_some(Use::Full)
    }

    /// Makes an allocator's row of a range of containers: uniform, or with the bitmap of its only container.
    fn row_of(&self, (first, count): Range, uniform: Option<Use>) -> AllocatorRow {
        let clusters = self.geometry().per_container;
        let (start, whole) = (u64::from(first) * u64::from(clusters), u64::from(count) * u64::from(clusters));
        let index = self.pages.map.at(first);
        match (uniform, index) {
            (None, Some(index)) => {
                let (used, bits) =
                    self.pages.space.containers()[index].row(clusters, self.pages.space.keeps_parked());
                AllocatorRow { start, count: whole, used: u64::from(used), bits }
            }
            (Some(Use::Free), _) => AllocatorRow { start, count: whole, used: 0, bits: None },
            _ => AllocatorRow { start, count: whole, used: whole, bits: None },
        }
    }

    /// Makes the row of a container in the container tables.
    fn container_row(&self, index: usize) -> Vec<u8> {
        let geometry = self.geometry();
        let clusters = geometry.per_container;
        let container = &self.pages.space.containers()[index];
        let used = container.used(clusters, self.pages.space.keeps_parked());
        let flags = match (container.tier, used) {
            (Tier::Medium, 0) if !container.for_pages => ContainerRow::EMPTY,
            (Tier::Medium, _) if !container.for_pages => ContainerRow::DATA,
            _ => ContainerRow::METADATA,
        };
        let row = ContainerRow {
            number: ContainerMap::FIRST + index as u64,
            flags,
            count: clusters,
            // Windows does not count them here: all ones in every row that is known.
            free: u64::MAX,
            start: self.pages.map.start(index),
        };
        row.to_bytes(ContainerRow::size(geometry.cluster, geometry.reference))
    }
}
