//! Flags and times, set by a caller.

use super::NtfsVolume;
use super::attributes::standard;
use crate::file::Attr;
use crate::layout::{FileTime, Kind as Type, file_flags, timestamp_to_file_time};
use platter_vfs::{Attributes, Change, DosFlags, Node, Result, Timestamp};
use std::sync::atomic::Ordering;

impl NtfsVolume {
    /// Changes a node's size, flags and times.
    pub(super) fn change_node(&self, node: Node, change: &Change) -> Result<Attributes> {
        if let Some(size) = change.size {
            self.with_space(|| self.resize(node, size))?;
        }
        self.change_attributes(node, change)
    }

    /// Changes a node's flags and times.
    fn change_attributes(&self, node: Node, change: &Change) -> Result<Attributes> {
        let now = FileTime(self.now());
        let mut core = self.change()?;
        // Earlier writes are recorded first, so that their times do not overwrite those that are set now.
        let parts = core.nodes.get(node.0)?.parts.clone();
        let (owner, _) = self.owner_of(&mut core, node.0)?;
        for part in parts.into_iter().chain([owner, node.0]) {
            self.absorb_node(&mut core, part)?;
        }
        let (_, mut file) = self.owner_of(&mut core, node.0)?;
        let mut standard = standard(&file)?;
        if let Some(flags) = change.flags {
            standard.flags = standard.flags & !DosFlags::SETTABLE.0 | flags.0 & DosFlags::SETTABLE.0;
        }
        for (place, time) in [
            (&mut standard.created, change.created),
            (&mut standard.modified, change.modified),
            (&mut standard.accessed, change.accessed),
        ] {
            *place = time.map_or(*place, timestamp_to_file_time);
        }
        let is_change = change.flags.is_some()
            || change.created.is_some()
            || change.modified.is_some()
            || change.accessed.is_some();
        if is_change {
            standard.changed = now;
            let is_read_only = standard.flags & file_flags::READ_ONLY != 0;
            file.put(Attr::resident(Type::STANDARD_INFORMATION, standard.to_bytes()));
            core.transact(|core| core.store(file))?;
            let entity = core.nodes.get(owner)?;
            for node in entity.parts.iter().copied().chain([owner]) {
                if let Some(stream) = core.nodes.get(node).ok().and_then(|entity| entity.stream.as_ref()) {
                    stream.read_only.store(is_read_only, Ordering::SeqCst);
                }
            }
            self.touch(owner);
        }
        self.attributes_of(&mut core, node.0)
    }

    /// Records the time when a node's content was last read.
    pub(super) fn keep_access(&self, node: Node, at: Timestamp) -> Result<()> {
        let mut core = self.change()?;
        let (owner, mut file) = self.owner_of(&mut core, node.0)?;
        let mut standard = standard(&file)?;
        standard.accessed = timestamp_to_file_time(at);
        file.put(Attr::resident(Type::STANDARD_INFORMATION, standard.to_bytes()));
        core.transact(|core| core.store(file))?;
        self.touch(owner);
        Ok(())
    }
}
