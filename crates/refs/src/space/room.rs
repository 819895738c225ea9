//! The room for pages, and the container with most room for data, kept up to date so that no call goes through all
//! containers: a large volume has hundreds of thousands.

use crate::container::Container;
use crate::container::Tier;

/// What one container adds to the counts.
#[derive(Clone, Copy, Default)]
struct Share {
    /// The number of pages that the container has room for, in its tier.
    pages: u64,
    /// The tier whose pages go to the container, as a number.
    tier: usize,
    /// Whether the container is for data and empty, so that it can be set apart for pages.
    is_empty: bool,
    /// The number of free clusters for data.
    data: u64,
}

/// The counts over all containers.
pub(super) struct Room {
    per_container: u32,
    page: u32,
    /// The number of pages that containers of each tier have room for; in the medium tier only those set apart for
    /// pages.
    pages: [u64; 3],
    /// The number of containers for data that are empty.
    empty: u64,
    /// The number of free clusters for data.
    data: u64,
    /// A tournament tree of all containers for data: above each pair of entries stands the winner. An entry is `1 +
    /// index` of a container, or 0 for none.
    tree: Vec<u32>,
    /// Containers whose entries in the tree may be out of date.
    stale: Vec<u32>,
    is_stale: Vec<bool>,
}

impl Room {
    /// Counts these containers, with pages of `page` clusters.
    pub(super) fn new(containers: &[Container], per_container: u32, page: u32) -> Room {
        let places = containers.len().next_power_of_two();
        let mut room = Room {
            per_container,
            page,
            pages: [0; 3],
            empty: 0,
            data: 0,
            tree: vec![0; 2 * places],
            stale: Vec::with_capacity(containers.len()),
            is_stale: vec![false; containers.len()],
        };
        for (index, one) in containers.iter().enumerate() {
            room.count(room.share(one), true);
            room.tree[places + index] = room.entry(one, index);
        }
        for at in (1..places).rev() {
            room.tree[at] = room.winner(containers, room.tree[2 * at], room.tree[2 * at + 1]);
        }
        room
    }

    fn share(&self, one: &Container) -> Share {
        let is_for_data = one.is_for_data();
        Share {
            pages: if is_for_data { 0 } else { u64::from(one.free() / self.page) },
            tier: one.tier as usize,
            is_empty: is_for_data && one.free() == self.per_container,
            data: if is_for_data { u64::from(one.free()) } else { 0 },
        }
    }

    fn count(&mut self, share: Share, is_added: bool) {
        let count = |total: &mut u64, by: u64| {
            assert!(is_added || *total >= by, "what a container no longer adds was counted");
            *total = if is_added { *total + by } else { *total - by };
        };
        count(&mut self.pages[share.tier], share.pages);
        count(&mut self.empty, u64::from(share.is_empty));
        count(&mut self.data, share.data);
    }

    /// Changes a container, and updates the counts.
    pub(super) fn change<T>(
        &mut self,
        containers: &mut [Container],
        index: usize,
        with: impl FnOnce(&mut Container) -> T,
    ) -> T {
        self.count(self.share(&containers[index]), false);
        let done = with(&mut containers[index]);
        debug_assert!(containers[index].free() <= self.per_container, "no more is free than a container has");
        self.count(self.share(&containers[index]), true);
        if !std::mem::replace(&mut self.is_stale[index], true) {
            self.stale.push(index as u32);
        }
        done
    }

    /// The number of clusters for data that can be handed out.
    pub(super) fn data(&self) -> u64 {
        self.data
    }

    /// The number of pages that a tier has room for without taking over another container.
    pub(super) fn pages(&self, tier: Tier) -> u64 {
        self.pages[tier as usize]
    }

    /// Whether there is room for this many pages of each tier if `fewer` of the empty containers are left out. A tier
    /// that is full takes over an empty one.
    pub(super) fn has(&self, pages: [u64; 3], fewer: u64) -> bool {
        let each = u64::from(self.per_container / self.page);
        let short = |(wanted, there): (u64, &u64)| wanted.saturating_sub(*there).div_ceil(each);
        pages.into_iter().zip(&self.pages).map(short).sum::<u64>() + fewer <= self.empty
    }

    /// The entry of a container in the tournament tree.
    fn entry(&self, one: &Container, index: usize) -> u32 {
        if one.is_for_data() && one.free() > 0 { 1 + index as u32 } else { 0 }
    }

    /// Which of two containers data goes to: the one with most room, but a container that was never used only where no
    /// used one is at least three quarters free. So data stays together, and an image file does not grow without need.
    /// Of two that are alike it is the first.
    fn winner(&self, containers: &[Container], one: u32, other: u32) -> u32 {
        let nearly = self.per_container / 4 * 3;
        let rank = |entry: u32| {
            let one = entry.checked_sub(1).map(|index| &containers[index as usize])?;
            Some(match (one.was_used, one.free()) {
                (true, free) if free >= nearly => (2, free),
                (false, free) if free >= nearly => (1, free),
                (_, free) => (0, free),
            })
        };
        if rank(other) > rank(one) { other } else { one }
    }

    fn set(&mut self, containers: &[Container], index: usize, entry: u32) {
        debug_assert!(
            index < self.tree.len() / 2 && entry <= 1 + index as u32,
            "an entry is of its own container"
        );
        let mut at = self.tree.len() / 2 + index;
        self.tree[at] = entry;
        while at > 1 {
            at /= 2;
            self.tree[at] = self.winner(containers, self.tree[2 * at], self.tree[2 * at + 1]);
        }
    }

    /// The container that new data goes to, except `others`.
    pub(super) fn roomiest(&mut self, containers: &[Container], others: &[usize]) -> Option<usize> {
        while let Some(index) = self.stale.pop() {
            let index = index as usize;
            self.is_stale[index] = false;
            self.set(containers, index, self.entry(&containers[index], index));
        }
        others.iter().for_each(|&index| self.set(containers, index, 0));
        let found = self.tree.get(1).copied().unwrap_or(0);
        others.iter().for_each(|&index| self.set(containers, index, self.entry(&containers[index], index)));
        found.checked_sub(1).map(|index| index as usize)
    }
}
