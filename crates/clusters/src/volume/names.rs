//! Short names: given up for an entry that is to have them.

use super::Volume;
use crate::core::Core;
use crate::{Directory, Family};
use platter_vfs::{Name, Need, Result};

impl<F: Family> Volume<F> {
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
}
