//! Allocating and freeing clusters of files and directories, and growing directories.

use super::Core;
use super::family::{Directory, Family};
use crate::{Run, Runs, Storage};
use platter_vfs::{Error, Health, Result};

impl<F: Family> Core<F> {
    /// The number of clusters that are free, or will be after the next commit.
    pub fn free(&self) -> u32 {
        (self.space.free() + self.waiting).min(self.heap.count)
    }

    /// Allocates `count` more clusters for the file or directory `owner` that has `runs`.
    pub fn allocate(&mut self, owner: u64, runs: &Runs, count: u32) -> Result<Vec<Run>> {
        let taken = self.space.take(owner, runs.last(), runs.clusters(), count).ok_or(Error::NoSpace)?;
        self.reserved += count;
        Ok(taken)
    }

    /// Frees clusters: those that are linked on disk, which are the ones with an index below `linked`, with the next
    /// commit, and the others at once. If some are not in use, nothing of their run is freed and the volume takes no
    /// more changes: another file may have them by now.
    pub fn give_up(&mut self, cut: &[Run], linked: u32) {
        for run in cut {
            let on_disk = linked.saturating_sub(run.index).min(run.count);
            if on_disk > 0 && !self.space.park(run.cluster, on_disk) {
                let _ = self.health.stop(Health::SPACE_IS_WRONG);
                continue;
            }
            if on_disk > 0 {
                self.change.freed.push((run.cluster, on_disk));
                // A freed cluster ends no chain any more.
                let range = run.cluster..run.cluster + on_disk;
                let ends: Vec<u32> = self.change.ends.range(range).copied().collect();
                ends.iter().for_each(|cluster| {
                    self.change.ends.remove(cluster);
                });
                self.waiting += on_disk;
            }
            if run.count > on_disk {
                if !self.space.is_used(run.cluster + on_disk, run.count - on_disk) {
                    let _ = self.health.stop(Health::SPACE_IS_WRONG);
                    continue;
                }
                assert!(run.count - on_disk <= self.reserved, "what is not linked was reserved");
                self.space.give(run.cluster + on_disk, run.count - on_disk);
                self.reserved -= run.count - on_disk;
            }
        }
    }

    /// Notes that this many allocated clusters are linked now.
    pub fn linked(&mut self, count: u32) {
        assert!(count <= self.reserved, "clusters are linked that were allocated for it");
        self.reserved -= count;
        self.change.depends = true;
    }

    /// Adds a zeroed cluster to a directory.
    pub fn grow_directory(&mut self, number: u64) -> Result<()> {
        let storage = self.directory(number)?.slots().storage().clone();
        let mut runs = match storage {
            Storage::Fixed(_, limit) => return Err(Error::DirectoryFull { limit }),
            Storage::Chain(runs) => runs,
        };
        let linked = runs.clusters();
        let limit = self.family.largest_directory().max(self.heap.cluster_size());
        if (u64::from(linked) + 1) << self.heap.shift > limit {
            return Err(Error::DirectoryFull { limit });
        }
        let taken = self.allocate(number, &runs, 1)?;
        let cluster = taken[0].cluster;
        if let Err(error) = self.zero(cluster) {
            self.give_up(&[Run { index: linked, cluster, count: 1 }], linked);
            return Err(error);
        }
        runs.push(cluster, 1);
        let mut entry = self.entity(number)?.entry.clone();
        F::link(self, &mut entry, &runs, linked, linked + 1)?;
        self.entity_mut(number)?.entry = entry;
        F::record_directory(self, number, &runs);
        self.pin(number);
        self.directory(number)?.slots_mut().grow(Storage::Chain(runs));
        Ok(())
    }

    /// Writes zeroes over a cluster.
    fn zero(&self, cluster: u32) -> Result<()> {
        let size = self.heap.cluster_size();
        let zeroes = vec![0; size.min(1 << 20) as usize];
        for at in (0..size).step_by(zeroes.len()) {
            self.device.write_at(self.heap.offset(cluster) + at, &zeroes)?;
        }
        Ok(())
    }

    /// Grows a directory until it has room for `count` consecutive slots.
    pub fn make_room(&mut self, number: u64, count: usize) -> Result<()> {
        while !self.directory(number)?.slots().has_room(count) {
            self.grow_directory(number)?;
        }
        Ok(())
    }
}
