//! The nodes in memory, by number, and which of them the next commit has to store.

use super::{Core, Entity, RecordPlace};
use platter_vfs::{Error, Result};

impl Core {
    /// The node of this number.
    pub(crate) fn entity(&self, node: u64) -> Result<&Entity> {
        self.entities.get(&node).ok_or(Error::NotFound)
    }

    /// Returns an error if a node may only be read.
    pub(crate) fn changeable(&self, node: u64) -> Result<()> {
        match self.entity(node)?.only_read {
            Some(why) => Err(Error::NotPermitted(why)),
            None => Ok(()),
        }
    }

    /// The node of this number, to be changed and stored at the next commit.
    pub(crate) fn entity_mut(&mut self, node: u64) -> Result<&mut Entity> {
        self.changeable(node)?;
        self.note_changed(node);
        self.news = true;
        self.entities.get_mut(&node).ok_or(Error::NotFound)
    }

    /// Returns how many nodes the next commit has to store.
    pub(crate) fn changed_count(&self) -> usize {
        self.changed.count()
    }

    /// How many nodes are in use.
    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        self.entities.len()
    }

    /// The node whose record holds the data of this node: for a named stream the file, else the node itself.
    pub(crate) fn owner_of(&self, node: u64) -> u64 {
        match self.entities.get(&node).map(|entity| &entity.place) {
            Some(RecordPlace::Part { of }) => *of,
            _ => node,
        }
    }

    /// Notes that a node is to be stored, and keeps the pages for that free.
    pub(crate) fn note_changed(&mut self, node: u64) {
        let rows = |node| self.entities.get(&node).map_or(0, Entity::rows);
        self.changed.node(node, rows(node) + rows(self.owner_of(node)));
        self.pages.space.owe_rows(self.changed.pages());
    }

    /// Marks a node to be stored at the next commit. If the node is not in use, its change would never be stored: then
    /// nothing more is written to the volume.
    pub(crate) fn mark(&mut self, node: u64) {
        self.news = true;
        self.pages.is_broken |= !self.entities.contains_key(&node);
        if !self.changed.has(node) {
            self.note_changed(node);
        }
    }
}
