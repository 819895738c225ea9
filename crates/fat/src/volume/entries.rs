//! Names and what they lead to: attributes, making, removing and renaming entries, and letting go of nodes.

use super::*;

impl FatVolume {
    /// Lets an entity go if nothing needs it in memory; one without a name gives its clusters back.
    pub(super) fn let_go(&self, number: u64) {
        let mut next = Some(number);
        while let Some(number) = next.take() {
            let mut core = self.core();
            let Some(entity) = core.nodes.get(&number) else { return };
            // One that has lost its name has nothing to commit: its clusters are given up right away.
            let pinned = entity.pins > 0 && entity.linked;
            if number == ROOT || entity.handed > 0 || entity.children > 0 || pinned {
                return;
            }
            if let Some(file) = &entity.file {
                // The last plan to finish comes here again.
                file.released.store(true, Ordering::SeqCst);
                if file.busy() {
                    return;
                }
            }
            core.absorb(number, self.offset_minutes);
            let Some(entity) = core.nodes.get(&number) else { return };
            if entity.linked && entity.lazy && core.frozen.is_none() {
                core.mark_times(number);
                return;
            }
            if entity.linked && entity.kind == Kind::Directory {
                match core.rest(number) {
                    Some(oldest) if oldest != number => {
                        // It may have come into use again meanwhile.
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

    /// Frees the clusters of an entity that has neither a name nor a holder. A chain that cannot be read stays: it
    /// is found as lost by a check.
    pub(super) fn reap(&self, number: u64, entity: &Entity) {
        let first = entity.entry.cluster;
        let Some(file) = &entity.file else {
            let mut core = self.core();
            let storage = core.directories.remove(&number).map(|directory| directory.storage);
            let runs = match storage {
                Some(Storage::Chain(runs)) => Ok(runs),
                _ => core.table.walk(first, Some(0), self.geometry.clusters),
            };
            if let Ok(mut runs) = runs {
                let linked = runs.clusters();
                core.give_up(&runs.split_off(0), linked);
            }
            return;
        };
        let mut state = file.write();
        let mut core = self.core();
        state.dead = true;
        if !state.loaded
            && first != 0
            && let Ok(runs) = core.table.walk(first, Some(0), self.geometry.clusters)
        {
            state.linked = runs.clusters();
            state.runs = runs;
        }
        let linked = state.linked;
        core.give_up(&state.runs.split_off(0), linked);
    }

    pub(super) fn attributes_of(
        &self,
        kind: Kind,
        entry: &ShortEntry,
        linked: bool,
        allocated: u64,
    ) -> Attributes {
        let time = |time: DosTime| time.is_set().then(|| time.to_timestamp(self.offset_minutes));
        Attributes {
            kind,
            size: if kind == Kind::Directory { 0 } else { u64::from(entry.size) },
            allocated,
            links: u32::from(linked),
            flags: DosFlags(u32::from(entry.attributes.0) & DosFlags::SETTABLE.0),
            created: time(entry.created),
            modified: entry.modified.to_timestamp(self.offset_minutes),
            accessed: time(entry.accessed),
            changed: None,
        }
    }

    pub(super) fn allocated(&self, core: &mut Core, number: Option<u64>, entry: &ShortEntry) -> u64 {
        let cluster = u64::from(self.geometry.cluster_size);
        if !entry.attributes.directory() {
            return self.geometry.clusters_for(u64::from(entry.size)) * cluster;
        }
        if let Some(directory) = number.and_then(|number| core.directories.get(&number)) {
            return match &directory.storage {
                Storage::Fixed => 0,
                Storage::Chain(runs) => u64::from(runs.clusters()) * cluster,
            };
        }
        let most = crate::directory::most_clusters(&self.geometry);
        core.table.walk(entry.cluster, None, most).map_or(0, |runs| u64::from(runs.clusters()) * cluster)
    }

    pub(super) fn entity_attributes(&self, core: &mut Core, number: u64) -> Result<Attributes> {
        core.absorb(number, self.offset_minutes);
        let entity = core.entity(number)?;
        let (kind, entry, linked) = (entity.kind, entity.entry.clone(), entity.linked);
        let allocated = self.allocated(core, Some(number), &entry);
        Ok(self.attributes_of(kind, &entry, linked, allocated))
    }

    /// Removes an entry that `allowed` allows.
    pub(super) fn remove(
        &self,
        directory: Node,
        name: &Name,
        allowed: impl FnOnce(&mut Core, u64) -> Result<()>,
    ) -> Result<()> {
        let now = self.now(Moment::Modified);
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

    /// Makes an entry, the core locked.
    pub(super) fn create_entry(
        &self,
        core: &mut Core,
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
        let attributes = match kind {
            Kind::Directory => crate::layout::Attributes::DIRECTORY,
            _ => crate::layout::Attributes::ARCHIVE,
        };
        let mut entry = ShortEntry {
            attributes: crate::layout::Attributes(attributes),
            created: self.now(Moment::Created),
            accessed: self.now(Moment::Accessed),
            modified: self.now(Moment::Modified),
            ..ShortEntry::default()
        };
        // Everything that can fail comes before the first change.
        let set = core.directory(directory)?.compose(name, &entry, None)?;
        let revived = core.directory(directory)?.can_revive(name);
        if !revived {
            core.make_room(directory, set.slots())?;
        }
        let mut content = None;
        if kind == Kind::Directory {
            let mut runs = crate::chain::Runs::default();
            let taken = core.allocate(0, &runs, 1)?;
            runs.push(taken[0].cluster, 1);
            entry.cluster = runs.first();
            let parent = if directory == ROOT { 0 } else { core.entity(directory)?.entry.cluster };
            let storage = Storage::Chain(runs.clone());
            let size = self.geometry.cluster_size as usize;
            let fresh = crate::directory::Directory::fresh(storage, size, entry.clone(), parent);
            let place = self.geometry.cluster_offset(entry.cluster);
            if let Err(error) = self.device.write_at(place, fresh.data()) {
                core.give_up(&[Run { index: 0, cluster: entry.cluster, count: 1 }], 0);
                return Err(error.into());
            }
            if let Err(error) = core.link(&runs, 0, 1) {
                return Err(self.freeze(core, error));
            }
            content = Some(fresh);
        }
        let geometry = self.geometry.clone();
        let parent = core.directory(directory)?;
        let slot = match parent.revive(name) {
            Some(slot) => {
                parent.update(slot, &entry, &geometry);
                slot
            }
            None => {
                let set = crate::layout::EntrySet {
                    short: ShortEntry { name: set.short.name, nt: set.short.nt, ..entry.clone() },
                    ..set
                };
                parent.insert(name, &set, &geometry)
            }
        };
        core.stamp_directory(directory, self.now(Moment::Modified));
        let number = core.add(kind, directory, slot, entry);
        if let Some(content) = content {
            core.directories.insert(number, content);
        }
        core.mark(number);
        Ok(number)
    }

    /// Renames, the core locked. Returns the entities that may not be needed any longer.
    pub(super) fn rename_entry(
        &self,
        core: &mut Core,
        from: (u64, &Name),
        to: (u64, &Name),
        replace: bool,
    ) -> Result<[u64; 2]> {
        core.writable()?;
        let ((from, name), (to, new_name)) = (from, to);
        let geometry = self.geometry.clone();
        let slot = core.directory(from)?.find(name).ok_or(Error::NotFound)?;
        core.is_living_directory(to)?;
        self.capabilities.names.check(new_name)?;
        let source = core.enter(from, slot)?;
        let moved = core.entity(source)?.kind;
        if moved == Kind::Directory && core.is_inside(to, source)? {
            return Err(Error::IntoItself);
        }
        core.absorb(source, self.offset_minutes);
        let entry = core.entity(source)?.entry.clone();
        let target = core.directory(to)?.find(new_name);
        let itself = from == to && target == Some(slot);
        let replaced = match target {
            Some(target) if !itself => {
                if !replace {
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
        // The new name's slots: those of the entry that has exactly this name, or new ones.
        let same = match target {
            Some(target) => core.directory(to)?.name(target) == *new_name,
            None => false,
        };
        if itself && same {
            return Ok([source, source]);
        }
        let takes_over =
            (same && replaced.is_some()) || (target.is_none() && core.directory(to)?.can_revive(new_name));
        let mut set = None;
        if !takes_over {
            let but = if itself { Some(slot) } else { replaced.map(|(_, slot)| slot) };
            let composed = core.directory(to)?.compose(new_name, &entry, but)?;
            core.make_room(to, composed.slots())?;
            set = Some(composed);
        }
        let changes_parent = moved == Kind::Directory && from != to;
        if changes_parent {
            core.directory(source)?;
        }
        // Both directories in memory and to stay there: from here on nothing fails.
        core.pin(from);
        core.pin(to);
        core.directory(from)?;
        let place = {
            let directory = core.directory(to)?;
            match (set, replaced) {
                (Some(set), _) => {
                    if itself {
                        directory.remove(slot);
                    } else if let Some((_, target)) = replaced {
                        directory.remove(target);
                    }
                    directory.insert(new_name, &set, &geometry)
                }
                (None, Some((_, target))) => {
                    directory.update(target, &entry, &geometry);
                    target
                }
                (None, None) => {
                    let revived = directory.revive(new_name).ok_or(Error::NotFound)?;
                    directory.update(revived, &entry, &geometry);
                    revived
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
            let above = if to == ROOT { 0 } else { core.entity(to)?.entry.cluster };
            core.pin(source);
            core.directory(source)?.set_parent(above, &geometry);
        }
        let now = self.now(Moment::Modified);
        core.mark(source);
        core.stamp_directory(from, now);
        core.stamp_directory(to, now);
        Ok([source, replaced.map_or(source, |(number, _)| number)])
    }
}
