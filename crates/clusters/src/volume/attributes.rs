//! Attributes of files and directories, as their entries and what is in memory have them.

use super::Volume;
use crate::core::Core;
use crate::{Directory, DirectoryEntry as _, Family, Storage};
use platter_vfs::{Attributes, Kind, LocalTime, Result};

impl<F: Family> Volume<F> {
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
