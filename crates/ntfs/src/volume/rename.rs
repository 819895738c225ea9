//! Hard links and renames.

use super::attributes::{deletable, names_of, stamp_change};
use super::lookup::NamedEntry;
use super::{NTFS, NtfsVolume};
use crate::core::{Core, DETACHED};
use crate::file::File;
use crate::layout::{FileName, FileTime, Index, namespace, record_flags, record_number};
use platter_vfs::{Error, Name, Node, RenameFlags, Result};
use std::sync::Arc;

impl NtfsVolume {
    /// Gives a file a further name.
    pub(super) fn add_link(&self, node: Node, directory: Node, name: &Name) -> Result<()> {
        let now = FileTime(self.now());
        let mut core = self.change()?;
        let parent = self.living_directory(&mut core, directory)?;
        self.capabilities.names.check(name)?;
        let entity = core.nodes.get(node.0)?;
        let (number, is_part) = (entity.file, entity.part.is_some());
        let file = core.file(number)?;
        if !is_part && file.flags & record_flags::DIRECTORY != 0 {
            return Err(Error::IsADirectory);
        }
        if is_part {
            return Err(Error::InvalidArgument("a named stream has no names of its own"));
        }
        // A file that was removed cannot get a name again.
        if number >= DETACHED {
            return Err(Error::NotFound);
        }
        if self.entry(&mut core, parent, name)?.is_some() {
            return Err(Error::Exists);
        }
        if names_of(&file).filter(|name| name.namespace != namespace::DOS).count() >= FileName::MOST {
            return Err(Error::TooManyLinks { format: NTFS, what: "at most 1,024" });
        }
        self.absorb_written(&mut core, number)?;
        let file = (*core.file(number)?).clone();
        core.transact(|core| {
            let mut file = file;
            stamp_change(&mut file, now)?;
            self.add_name(core, &mut file, parent, name.units())?;
            core.store(file)?;
            self.stamp_directory(core, parent, now)
        })?;
        self.touch(directory.0);
        self.touch(node.0);
        Ok(())
    }

    /// Returns the file that a rename of a file or directory to its name removes, if it may.
    fn replaceable(&self, core: &mut Core, target: &NamedEntry, by_directory: bool) -> Result<Arc<File>> {
        let other = core.file_at(target.reference)?;
        let number = other.reference.number();
        match (by_directory, self.is_directory(core, &other)?) {
            (true, true) if !core.index_is_empty(number, Index::Names)? => return Err(Error::NotEmpty),
            (true, false) => return Err(Error::NotADirectory),
            (false, true) => return Err(Error::IsADirectory),
            _ => {}
        }
        deletable(&other)?;
        self.absorb_written(core, number)?;
        core.file_at(target.reference)
    }

    /// Renames an entry, within its directory or into another.
    pub(super) fn move_entry(
        &self,
        from: Node,
        name: &Name,
        to: Node,
        new_name: &Name,
        flags: RenameFlags,
    ) -> Result<()> {
        let now = FileTime(self.now());
        let mut core = self.change()?;
        let old = self.directory(&mut core, from)?;
        let source = self.shown(&mut core, old, name)?.ok_or(Error::NotFound)?;
        let new = self.living_directory(&mut core, to)?;
        self.capabilities.names.check_moved(name, new_name)?;
        let file = core.file_at(source.reference)?;
        let number = file.reference.number();
        let is_directory = self.is_directory(&mut core, &file)?;
        if is_directory && self.is_inside(&mut core, new, number)? {
            return Err(Error::IntoItself);
        }
        let target = self.entry(&mut core, new, new_name)?;
        if target.as_ref().is_some_and(|target| target.reference.number() < record_number::FIRST_FREE) {
            return Err(Error::Exists);
        }
        let is_same_entry = |target: &NamedEntry| {
            target.reference == source.reference
                && (old == new)
                && (target.name.name == source.name.name || is_pair(&target.name, &source.name))
        };
        match (flags, target) {
            (RenameFlags::Exchange, None) => Err(Error::NotFound),
            (RenameFlags::Exchange, Some(target)) => {
                if target.reference == source.reference {
                    return Ok(());
                }
                self.exchange_names(&mut core, (old, &source), (new, &target), now)?;
                let both = [number, target.reference.number()];
                self.touch_all(&mut core, &[from.0, to.0], &both);
                Ok(())
            }
            (_, Some(target)) if is_same_entry(&target) && *source.name.name == *new_name.units() => Ok(()),
            (RenameFlags::NoReplace, Some(target)) if !is_same_entry(&target) => Err(Error::Exists),
            (_, Some(target)) if !is_same_entry(&target) && target.reference == source.reference => Ok(()),
            // Who names a file in another spelling may not know that it is there, so it is not replaced.
            (_, Some(target)) if !is_same_entry(&target) && *target.name.name != *new_name.units() => {
                Err(Error::Exists)
            }
            (_, target) => {
                let replaced = target.filter(|target| !is_same_entry(target));
                let gone = match &replaced {
                    Some(target) => Some(self.replaceable(&mut core, target, is_directory)?),
                    None => None,
                };
                self.absorb_written(&mut core, number)?;
                let kept = core.transact(|core| {
                    let mut kept = None;
                    if let (Some(target), Some(other)) = (&replaced, &gone) {
                        kept = self.unname(core, other, new, &target.name, now)?;
                    }
                    let mut file = (*core.file(number)?).clone();
                    stamp_change(&mut file, now)?;
                    self.take_name(core, &mut file, old, &source.name)?;
                    self.add_name(core, &mut file, new, new_name.units())?;
                    core.store(file)?;
                    self.stamp_directory(core, old, now)?;
                    self.stamp_directory(core, new, now)?;
                    Ok(kept)
                })?;
                let other = gone.map(|other| other.reference.number());
                if let (Some(kept), Some(other)) = (kept, other) {
                    self.moved_away(&mut core, other, kept);
                }
                let others = other.filter(|_| kept.is_none());
                self.touch_all(
                    &mut core,
                    &[from.0, to.0],
                    &[Some(number), others].into_iter().flatten().collect::<Vec<_>>(),
                );
                Ok(())
            }
        }
    }

    /// Two entries of different files, each with its directory, change places.
    fn exchange_names(
        &self,
        core: &mut Core,
        (old, source): (u64, &NamedEntry),
        (new, target): (u64, &NamedEntry),
        now: FileTime,
    ) -> Result<()> {
        let other = core.file_at(target.reference)?;
        if self.is_directory(core, &other)? && self.is_inside(core, old, other.reference.number())? {
            return Err(Error::IntoItself);
        }
        self.absorb_written(core, source.reference.number())?;
        self.absorb_written(core, other.reference.number())?;
        let other = core.file_at(target.reference)?;
        let file = core.file_at(source.reference)?;
        core.transact(|core| {
            let (mut one, mut two) = ((*file).clone(), (*other).clone());
            stamp_change(&mut one, now)?;
            stamp_change(&mut two, now)?;
            self.take_name(core, &mut one, old, &source.name)?;
            self.take_name(core, &mut two, new, &target.name)?;
            self.add_name(core, &mut one, new, &target.name.name)?;
            self.add_name(core, &mut two, old, &source.name.name)?;
            core.store(one)?;
            core.store(two)?;
            self.stamp_directory(core, old, now)?;
            self.stamp_directory(core, new, now)
        })
    }

    /// Whether a directory is `above` or lies somewhere below it.
    fn is_inside(&self, core: &mut Core, directory: u64, above: u64) -> Result<bool> {
        let mut at = directory;
        // A way to the root through more directories than there are records is a circle.
        for _ in 0..=core.record_count() {
            if at == above {
                return Ok(true);
            }
            if at == record_number::ROOT || at >= DETACHED {
                return Ok(false);
            }
            let file = core.file(at)?;
            let Some(name) = names_of(&file).next() else { return Ok(false) };
            at = name.parent.number();
        }
        Err(Error::damaged("directory", core.record_place(directory)?, "a way to the root", "a circle"))
    }

    fn touch_all(&self, core: &mut Core, nodes: &[u64], files: &[u64]) {
        nodes.iter().for_each(|node| self.touch(*node));
        files.iter().filter_map(|file| core.nodes.of_file(*file)).for_each(|node| self.touch(node));
    }
}

/// Whether two names are the long and the short one of the same entry.
fn is_pair(one: &FileName, other: &FileName) -> bool {
    let kinds = (one.namespace, other.namespace);
    kinds == (namespace::WIN32, namespace::DOS) || kinds == (namespace::DOS, namespace::WIN32)
}
