//! Renames.

use super::Volume;
use crate::core::Core;
use crate::{Directory, Family};
use platter_vfs::{Error, FileSystem, Kind, Name, Node, RenameFlags, Result};

impl<F: Family> Volume<F> {
    /// Renames an entry, within its directory or into another.
    pub(super) fn move_entry(
        &self,
        from: Node,
        name: &Name,
        to: Node,
        new_name: &Name,
        flags: RenameFlags,
    ) -> Result<()> {
        let replace = match flags {
            RenameFlags::Replace => true,
            RenameFlags::NoReplace => false,
            RenameFlags::Exchange => {
                self.core().writable()?;
                return Err(self.unsupported_error("exchange of two entries"));
            }
        };
        self.free_short(to.0, new_name)?;
        let unneeded = self.with_space(|| {
            let mut core = self.core();
            self.rename_entry(&mut core, (from.0, name), (to.0, new_name), replace)
        })?;
        unneeded.into_iter().for_each(|number| self.let_go(number));
        Ok(())
    }

    /// Renames an entry. The caller has locked the core. Returns the nodes that may not be needed in memory any longer.
    fn rename_entry(
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
        let replaced = match target.filter(|_| !itself) {
            // Who names a file in another spelling may not know that it is there, so it is not replaced.
            Some(_) if !replace || !is_same => return Err(Error::Exists),
            Some(target) => Some((replaceable(core, to, target, moved)?, target)),
            None => None,
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
        let directory = core.directory(to)?;
        let place = match (takes_over, replaced) {
            // The old entry is removed first, so that the new entry is the one that the name leads to.
            (false, _) => {
                but.into_iter().for_each(|old| directory.remove(old));
                directory.insert(new_name, &entry, but)?
            }
            (true, Some((_, target))) => directory.update(target, &entry),
            (true, None) => {
                let revived = directory.revive(new_name).ok_or(Error::NotFound)?;
                directory.update(revived, &entry)
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

/// The node of the entry at `target` in a directory, if an entry of the kind `moved` may come in its place.
fn replaceable<F: Family>(core: &mut Core<F>, directory: u64, target: u32, moved: Kind) -> Result<u64> {
    let number = core.enter(directory, target)?;
    match (moved, core.entity(number)?.kind) {
        (Kind::Directory, Kind::Directory) if core.directory(number)?.is_empty() => {}
        (Kind::Directory, Kind::Directory) => return Err(Error::NotEmpty),
        (Kind::Directory, _) => return Err(Error::NotADirectory),
        (_, Kind::Directory) => return Err(Error::IsADirectory),
        _ => {}
    }
    core.entity(number)?.deletable()?;
    Ok(number)
}
