//! Making files and directories.

use super::{Volume, ZEROES};
use crate::core::Core;
use crate::{Directory, Family, Run};
use platter_vfs::{Error, FileSystem, Kind, Name, NewEntry, Node, Result};

impl<F: Family> Volume<F> {
    /// Makes a file or directory, and hands its node out.
    pub(super) fn add_entry(&self, directory: Node, name: &Name, new: &NewEntry<'_>) -> Result<Node> {
        new.check()?;
        if new.kind == Kind::SymbolicLink {
            return Err(self.unsupported_error("symbolic links"));
        }
        if new.point.is_some() {
            return Err(self.unsupported_error("reparse points"));
        }
        if !new.extended.is_empty() {
            return Err(self.unsupported_error("extended attributes"));
        }
        self.free_short(directory.0, name)?;
        self.with_space(|| {
            let mut core = self.core();
            let number = self.create_entry(&mut core, directory.0, name, new.kind)?;
            core.entity_mut(number)?.handed = 1;
            Ok(Node(number))
        })
    }

    /// Creates an entry. The caller has locked the core.
    fn create_entry(&self, core: &mut Core<F>, directory: u64, name: &Name, kind: Kind) -> Result<u64> {
        core.writable()?;
        core.is_living_directory(directory)?;
        self.capabilities.names.check(name)?;
        if core.directory(directory)?.find(name).is_some() {
            return Err(Error::Exists);
        }
        let now = self.now();
        let mut entry = core.family.new_entry(kind, now, core.local);
        // Everything that can fail is done before the first change.
        let slots = core.directory(directory)?.slots_for(name, &entry, None)?;
        if !core.directory(directory)?.slots().can_revive(name) {
            core.make_room(directory, slots)?;
        }
        let mut content = None;
        if kind == Kind::Directory {
            let mut runs = crate::Runs::default();
            let taken = core.allocate(0, &runs, 1)?;
            runs.push(taken[0].cluster, 1);
            let cluster = runs.first();
            let made = F::fresh_directory(core, cluster, &mut entry, directory)
                .and_then(|fresh| self.write_fresh(cluster, &fresh).map(|()| fresh));
            match made {
                Ok(fresh) => content = Some(fresh),
                Err(error) => {
                    core.give_up(&[Run { index: 0, cluster, count: 1 }], 0);
                    return Err(error);
                }
            }
            if let Err(error) = F::link(core, &mut entry, &runs, 0, 1) {
                return Err(self.health.fail(error));
            }
        }
        let parent = core.directory(directory)?;
        let slot = match parent.revive(name) {
            Some(slot) => parent.update(slot, &entry),
            None => parent.insert(name, &entry, None)?,
        };
        core.stamp_directory(directory, now);
        let number = core.add(kind, directory, slot, entry);
        if let Some(content) = content {
            core.keep(number, content);
        }
        core.mark(number);
        Ok(number)
    }

    /// Writes the cluster of a new directory: its slots, and zeroes behind them.
    fn write_fresh(&self, cluster: u32, fresh: &F::Directory) -> Result<()> {
        let (place, data) = (self.heap.offset(cluster), fresh.slots().data());
        self.device.write_at(place, data)?;
        let (mut at, end) = (data.len() as u64, self.heap.cluster_size());
        let zeroes = vec![0; ZEROES.min((end - at) as usize)];
        while at < end {
            let length = (end - at).min(zeroes.len() as u64);
            self.device.write_at(place + at, &zeroes[..length as usize])?;
            at += length;
        }
        Ok(())
    }
}
