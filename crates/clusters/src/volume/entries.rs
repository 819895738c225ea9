//! Directory entries: attributes, creating, removing and renaming entries, and dropping nodes from memory.

use super::*;

impl<F: Family> Volume<F> {
    /// Drops an entity from memory if nothing needs it there, and frees the clusters of one without a name. Continues
    /// with its parent.
    pub(super) fn let_go(&self, number: u64) {
        let mut next = Some(number);
        while let Some(number) = next.take() {
            let mut core = self.core();
            let Some(entity) = core.nodes.get(&number) else { return };
            // An entity without a name has nothing to commit: its clusters are freed right away.
            let pinned = entity.pins > 0 && entity.linked;
            if number == ROOT || entity.handed > 0 || entity.children > 0 || pinned {
                return;
            }
            if let Some(file) = &entity.file {
                // The last plan to finish calls this function again.
                file.released.store(true, Ordering::SeqCst);
                if file.busy() {
                    return;
                }
            }
            core.absorb(number);
            let Some(entity) = core.nodes.get(&number) else { return };
            if entity.linked && entity.lazy && self.health.writable().is_ok() {
                core.mark_times(number);
                return;
            }
            if entity.linked && entity.kind == Kind::Directory {
                match core.rest(number) {
                    Some(oldest) if oldest != number => {
                        // The directory may have come into use again meanwhile.
                        let unused = core.nodes.get(&oldest).is_some_and(|entity| {
                            entity.handed == 0 && entity.children == 0 && entity.pins == 0 && entity.linked
                        });
                        if unused && let Some(entity) = core.drop_entity(oldest) {
                            core.directories.remove(&oldest);
                            next = Some(entity.parent);
                        }
                    }
                    _ => {}
                }
                continue;
            }
            let Some(entity) = core.drop_entity(number) else { return };
            next = Some(entity.parent);
            drop(core);
            if entity.linked {
                continue;
            }
            self.reap(number, &entity);
        }
    }

    /// Frees the clusters of an entity that has no name and is not handed out. A chain that cannot be read stays
    /// allocated; a check finds it as lost.
    pub(super) fn reap(&self, number: u64, entity: &Entity<F::Entry>) {
        let Some(file) = &entity.file else {
            let mut core = self.core();
            core.directories.remove(&number);
            if let Ok(mut content) = F::content(&mut core, &entity.entry, true) {
                let linked = content.runs.clusters();
                core.give_up(&content.runs.split_off(0), linked);
            }
            F::removed(&mut core, &entity.entry);
            return;
        };
        let mut core = self.core();
        let mut state = file.write();
        state.dead = true;
        if !state.loaded
            && let Ok(content) = F::content(&mut core, &entity.entry, true)
        {
            state.linked = content.runs.clusters();
            state.runs = content.runs;
        }
        let linked = state.linked;
        core.give_up(&state.runs.split_off(0), linked);
        F::removed(&mut core, &entity.entry);
    }

    pub(super) fn allocated(&self, core: &mut Core<F>, number: Option<u64>, entry: &F::Entry) -> u64 {
        if !entry.is_directory() {
            return self.heap.clusters_for(entry.size()) << self.heap.shift;
        }
        let open = number.and_then(|number| core.directories.get(&number));
        match open.map(|open| open.content().slots().storage()) {
            Some(Storage::Fixed(..)) => 0,
            Some(Storage::Chain(runs)) => u64::from(runs.clusters()) << self.heap.shift,
            None => u64::from(F::directory_clusters(core, entry)) << self.heap.shift,
        }
    }

    pub(super) fn entity_attributes(&self, core: &mut Core<F>, number: u64) -> Result<Attributes> {
        core.absorb(number);
        let entity = core.entity(number)?;
        let (entry, linked) = (entity.entry.clone(), entity.linked);
        // Finished writes that wait for earlier ones are not in the entry's size.
        let seen = entity.file.as_ref().map_or(0, |file| file.read().seen());
        let allocated = self.allocated(core, Some(number), &entry);
        let mut attributes = attributes_of(&entry, linked, allocated, core.local);
        attributes.size = attributes.size.max(seen);
        attributes.allocated = attributes.allocated.max(self.heap.clusters_for(seen) << self.heap.shift);
        Ok(attributes)
    }

    /// Removes an entry, unless `allowed` refuses it.
    pub(super) fn remove(
        &self,
        directory: Node,
        name: &Name,
        allowed: impl FnOnce(&mut Core<F>, u64) -> Result<()>,
    ) -> Result<()> {
        let now = self.now();
        let number = {
            let mut core = self.core();
            core.writable()?;
            let slot = core.directory(directory.0)?.find(name).ok_or(Error::NotFound)?;
            let number = core.enter(directory.0, slot)?;
            let checked = allowed(&mut core, number)
                .and_then(|()| core.entity(number)?.deletable())
                .and_then(|()| core.directory(directory.0).map(|directory| directory.remove(slot)));
            if checked.is_ok() {
                core.unname(number);
                core.change.erases = true;
                core.change.depends = true;
                core.stamp_directory(directory.0, now);
            }
            if let Err(error) = checked {
                drop(core);
                self.let_go(number);
                return Err(error);
            }
            number
        };
        self.let_go(number);
        self.with_space(|| Ok(()))
    }

    /// Gives another short name to the entry that has `name` as its short one, so that another entry can have the name. The
    /// short name is free when this is committed.
    pub(super) fn free_short(&self, directory: u64, name: &Name) -> Result<()> {
        let is_taken = |core: &mut Core<F>| core.directory(directory).map(|content| content.find_short(name));
        // Looking does no harm, and refusals are those of the operation itself.
        if !matches!(is_taken(&mut self.core()), Ok(Some(_))) {
            return Ok(());
        }
        let number = self.with_space(|| {
            let mut core = self.core();
            core.writable()?;
            let Some(slot) = is_taken(&mut core)? else { return Ok(None) };
            let number = core.enter(directory, slot)?;
            core.absorb(number);
            let entry = core.entity(number)?.entry.clone();
            let own = core.directory(directory)?.name(slot);
            let slots = core.directory(directory)?.slots_for(&own, &entry, None)?;
            core.make_room(directory, slots)?;
            core.pin(directory);
            let content = core.directory(directory)?;
            content.remove(slot);
            let place = content.insert(&own, &entry, None)?;
            core.place(number, directory, place);
            core.change.erases = true;
            core.mark(number);
            Ok(Some(number))
        })?;
        let Some(number) = number else { return Ok(()) };
        self.let_go(number);
        self.make_durable(Need::Commit)
    }

    /// Creates an entry. The caller has locked the core.
    pub(super) fn create_entry(
        &self,
        core: &mut Core<F>,
        directory: u64,
        name: &Name,
        kind: Kind,
    ) -> Result<u64> {
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

    /// Renames an entry. The caller has locked the core. Returns the nodes that may not be needed in memory any longer.
    pub(super) fn rename_entry(
        &self,
        core: &mut Core<F>,
        from: (u64, &Name),
        to: (u64, &Name),
        replace: bool,
    ) -> Result<[u64; 2]> {
        core.writable()?;
        let ((from, name), (to, new_name)) = (from, to);
        let slot = core.directory(from)?.find(name).ok_or(Error::NotFound)?;
        core.is_living_directory(to)?;
        self.capabilities.names.check_moved(name, new_name)?;
        let source = core.enter(from, slot)?;
        let moved = core.entity(source)?.kind;
        if moved == Kind::Directory && core.is_inside(to, source)? {
            return Err(Error::IntoItself);
        }
        core.absorb(source);
        let entry = core.entity(source)?.entry.clone();
        let target = core.directory(to)?.find(new_name);
        let itself = from == to && target == Some(slot);
        let is_same = match target {
            Some(target) => core.directory(to)?.name(target) == *new_name,
            None => true,
        };
        let replaced = match target {
            Some(target) if !itself => {
                // Who names a file in another spelling may not know that it is there, so it is not replaced.
                if !replace || !is_same {
                    return Err(Error::Exists);
                }
                let number = core.enter(to, target)?;
                match (moved, core.entity(number)?.kind) {
                    (Kind::Directory, Kind::Directory) if core.directory(number)?.is_empty() => {}
                    (Kind::Directory, Kind::Directory) => return Err(Error::NotEmpty),
                    (Kind::Directory, _) => return Err(Error::NotADirectory),
                    (_, Kind::Directory) => return Err(Error::IsADirectory),
                    _ => {}
                }
                core.entity(number)?.deletable()?;
                Some((number, target))
            }
            _ => None,
        };
        // The entry with the new name takes the slots of the one that is replaced, which has exactly this name, or new
        // ones.
        let same = target.is_some() && is_same;
        if itself && same {
            return Ok([source, source]);
        }
        let takes_over = (same && replaced.is_some())
            || (target.is_none() && core.directory(to)?.slots().can_revive(new_name));
        let but = if itself { Some(slot) } else { replaced.map(|(_, slot)| slot) };
        if !takes_over {
            let slots = core.directory(to)?.slots_for(new_name, &entry, but)?;
            core.make_room(to, slots)?;
        }
        let changes_parent = moved == Kind::Directory && from != to;
        if changes_parent {
            core.directory(source)?;
        }
        // Both directories are in memory and are kept there: nothing fails from here on.
        core.pin(from);
        core.pin(to);
        core.directory(from)?;
        let place = {
            let directory = core.directory(to)?;
            match replaced {
                _ if !takes_over => {
                    // The old entry is removed first, so that the new entry is the one that the name leads to.
                    if let Some(old) = but {
                        directory.remove(old);
                    }
                    directory.insert(new_name, &entry, but)?
                }
                Some((_, target)) => directory.update(target, &entry),
                None => {
                    let revived = directory.revive(new_name).ok_or(Error::NotFound)?;
                    directory.update(revived, &entry)
                }
            }
        };
        if !itself {
            core.directory(from)?.remove(slot);
        }
        if let Some((number, _)) = replaced {
            core.unname(number);
        }
        core.place(source, to, place);
        core.change.erases = true;
        if changes_parent {
            core.pin(source);
            F::moved_directory(core, source)?;
        }
        let now = self.now();
        core.mark(source);
        core.stamp_directory(from, now);
        core.stamp_directory(to, now);
        Ok([source, replaced.map_or(source, |(number, _)| number)])
    }
}

/// The attributes of an entry as users see them.
pub(super) fn attributes_of<E: crate::DirectoryEntry>(
    entry: &E,
    linked: bool,
    allocated: u64,
    local: LocalTime,
) -> Attributes {
    let [created, modified, accessed] = entry.times(local);
    let directory = entry.is_directory();
    Attributes {
        kind: if directory { Kind::Directory } else { Kind::File },
        size: if directory { 0 } else { entry.size() },
        allocated,
        links: u32::from(linked),
        flags: entry.flags(),
        created,
        modified: modified.unwrap_or_default(),
        accessed,
        changed: None,
    }
}
