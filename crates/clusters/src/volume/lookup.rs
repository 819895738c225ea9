//! Lookups and listings.

use super::Volume;
use super::attributes::attributes_of;
use crate::{Directory, DirectoryEntry, Family};
use platter_vfs::{Cursor, Entry, Error, Kind, Name, Node, Result};
use std::sync::atomic::Ordering;

impl<F: Family> Volume<F> {
    /// Looks up a name and hands its node out: by the case rule, or with `exact` only if the case matches too.
    pub(super) fn lookup_entry(&self, directory: Node, name: &Name, exact: bool) -> Result<Node> {
        let mut core = self.core();
        core.is_living_directory(directory.0)?;
        let content = core.directory(directory.0)?;
        let slot = content.find(name).filter(|slot| !exact || content.name(*slot) == *name);
        let slot = slot.ok_or(Error::NotFound)?;
        let number = core.enter(directory.0, slot)?;
        let entity = core.entity_mut(number)?;
        entity.handed += 1;
        if let Some(file) = &entity.file {
            file.released.store(false, Ordering::SeqCst);
        }
        Ok(Node(number))
    }

    /// Lists entries of a directory.
    pub(super) fn list(
        &self,
        directory: Node,
        cursor: Cursor,
        most: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<()> {
        let mut core = self.core();
        let Ok(from) = u32::try_from(cursor.0) else { return core.is_directory(directory.0) };
        let content = core.directory(directory.0)?;
        let slots: Vec<u32> = content.slots().keys_from(from).take(most).collect();
        if let Some(damage) = content.damage().filter(|_| slots.is_empty()) {
            return Err(Error::Damaged(damage.clone()));
        }
        for slot in slots {
            let content = core.directory(directory.0)?;
            let name = content.name(slot);
            let attributes = match core.places.get(&(directory.0, slot)).copied() {
                Some(number) => self.entity_attributes(&mut core, number)?,
                None => {
                    let entry = core.directory(directory.0)?.entry(slot);
                    let allocated = self.allocated(&mut core, None, &entry);
                    attributes_of(&entry, true, allocated, core.local)
                }
            };
            let number = match core.places.get(&(directory.0, slot)).copied() {
                None => {
                    let entry = core.directory(directory.0)?.entry(slot);
                    let kind = if entry.is_directory() { Kind::Directory } else { Kind::File };
                    core.number_of_place(kind, directory.0, slot, &entry)
                }
                number => number,
            };
            let node = number.map(Node);
            entries.push(Entry { name, node, attributes, next: Cursor(u64::from(slot) + 1) });
        }
        Ok(())
    }

    /// The directory above a directory.
    pub(super) fn parent_of(&self, directory: Node) -> Result<Node> {
        let core = self.core();
        core.is_directory(directory.0)?;
        Ok(Node(core.entity(directory.0)?.parent))
    }
}
