//! Sizes, flags and times, set by a caller.

use super::Volume;
use crate::core::ROOT;
use crate::{DirectoryEntry as _, Family};
use platter_vfs::{Attributes, Change, DosFlags, Node, Result};
use std::sync::atomic::Ordering;

impl<F: Family> Volume<F> {
    /// Changes a node's size, flags and times.
    pub(super) fn change_node(&self, node: Node, change: &Change) -> Result<Attributes> {
        if let Some(size) = change.size {
            let file = self.file(node)?;
            self.may_write(&file)?;
            self.check_size(Some(size))?;
            self.resize(&file, size)?;
        }
        let mut core = self.core();
        core.writable()?;
        core.absorb(node.0);
        let offset = core.local;
        let entity = core.entity_mut(node.0)?;
        if node.0 != ROOT {
            let entry = &mut entity.entry;
            let before = entry.clone();
            if let Some(flags) = change.flags {
                entry.set_flags(flags);
            }
            entry.set_times([change.created, change.modified, change.accessed], offset);
            let changed = *entry != before;
            let read_only = entry.flags().contains(DosFlags::READ_ONLY);
            if let Some(file) = &entity.file {
                file.read_only.store(read_only, Ordering::Relaxed);
            }
            if changed {
                core.mark(node.0);
            }
        }
        self.entity_attributes(&mut core, node.0)
    }
}
