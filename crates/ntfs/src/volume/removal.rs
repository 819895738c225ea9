//! Removal of names and files. A file that is removed while it is held is freed when nobody holds it any more.

use super::*;
use crate::layout::Index;
use crate::layout::ObjectId;
use crate::space::Held;

impl NtfsVolume {
    /// Whether a file's node, or that of one of its streams, is held or has plans under way.
    fn is_held(&self, core: &Core, node: u64) -> bool {
        let one = |node: u64| {
            core.nodes.get(node).is_ok_and(|entity| {
                entity.handed_out > 0 || entity.stream.as_ref().is_some_and(|stream| !stream.is_quiet())
            })
        };
        let parts = core.nodes.get(node).map(|entity| entity.parts.clone()).unwrap_or_default();
        one(node) || parts.into_iter().any(one)
    }

    /// Removes a file that has no name any more from the disk. If its node is held, the file stays in memory, under the
    /// number that is returned. `last` is the file as it was with its name.
    fn remove_file(&self, core: &mut Core, mut file: File, last: &File) -> Result<Option<u64>> {
        let number = file.reference.number();
        let is_held = core.nodes.of_file(number).is_some_and(|node| self.is_held(core, node));
        if let (Some(id), Some(index)) =
            (file.value(Type::OBJECT_ID).and_then(ObjectId::from_bytes), core.object_ids)
        {
            match core.index_remove(index, Index::ObjectIds, &id.id) {
                Ok(_) | Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(tag) = tag_of(core, &file)? {
            self.leave_reparse(core, tag, file.reference)?;
        }
        let mut kept = file.clone();
        kept.links = 0;
        kept.attributes.retain(|attr| attr.kind != Type::FILE_NAME && attr.kind != Type::OBJECT_ID);
        for attr in &file.attributes {
            let Body::Outside(outside) = &attr.body else { continue };
            match attr.kind {
                Type::INDEX_ALLOCATION | Type::BITMAP => {
                    core.give_runs(&outside.runs.to_vec(), Held::Metadata, true);
                    kept.attributes.retain(|kept| kept != attr);
                }
                _ if is_held => core.hide_runs(&outside.runs.to_vec()),
                _ => core.give_runs(&outside.runs.to_vec(), Held::Data, true),
            }
        }
        if file.find(Type::INDEX_ALLOCATION, Index::Names.units()).is_some() {
            core.drop_index(number);
        }
        core.give_list(&mut file);
        core.free_records(last);
        core.forget_file(number);
        Ok(is_held.then(|| core.detach(kept)))
    }

    /// Called after a file was removed: leads its node, if there is one, to the file that stays in memory, or drops the
    /// node.
    pub(super) fn moved_away(&self, core: &mut Core, number: u64, kept: Option<u64>) {
        let Some(node) = core.nodes.of_file(number) else { return };
        match kept {
            Some(kept) => core.nodes.move_file(node, kept),
            None => self.drop_node(core, node),
        }
    }

    fn drop_node(&self, core: &mut Core, node: u64) {
        let parts = core.nodes.get(node).map(|entity| entity.parts.clone()).unwrap_or_default();
        for node in parts.iter().copied().chain([node]) {
            self.release(core, node);
        }
        self.unlist(parts.iter().copied().chain([node]));
        for node in parts.into_iter().chain([node]) {
            core.nodes.remove(node);
        }
    }

    /// Removes a name, and the file if it was its last name.
    pub(super) fn remove_entry(&self, directory: Node, name: &Name, is_rmdir: bool) -> Result<()> {
        let now = FileTime(self.now());
        let mut core = self.change()?;
        let parent = self.directory(&mut core, directory)?;
        let found = self.shown(&mut core, parent, name)?.ok_or(Error::NotFound)?;
        let file = core.file_at(found.reference)?;
        let is_directory = file.flags & record_flags::DIRECTORY != 0 && !is_link(&core, &file)?;
        match (is_directory, is_rmdir) {
            (true, false) => return Err(Error::IsADirectory),
            (false, true) => return Err(Error::NotADirectory),
            (true, true) if !core.index_is_empty(file.reference.number(), Index::Names)? => {
                return Err(Error::NotEmpty);
            }
            _ => {}
        }
        deletable(&file)?;
        let number = file.reference.number();
        let stays = names_of(&file).nth(1).is_some();
        if stays {
            // Earlier writes are recorded first, because the removal sets a later change time.
            self.absorb_written(&mut core, number)?;
        }
        let file = core.file_at(found.reference)?;
        let kept = core.transact(|core| {
            let kept = self.unname(core, &file, parent, &found.name, now)?;
            self.stamp_directory(core, parent, now)?;
            Ok(kept)
        })?;
        match kept {
            Some(kept) => self.moved_away(&mut core, number, kept),
            None => core.nodes.of_file(number).into_iter().for_each(|node| self.touch(node)),
        }
        self.touch(directory.0);
        Ok(())
    }

    /// Takes a name from a file. Returns `Some` if that was the file's last name: with the number of the file in
    /// memory, if the file is held.
    pub(super) fn unname(
        &self,
        core: &mut Core,
        last: &File,
        directory: u64,
        name: &FileName,
        now: FileTime,
    ) -> Result<Option<Option<u64>>> {
        let mut file = last.clone();
        stamp_change(&mut file, now)?;
        self.take_name(core, &mut file, directory, name)?;
        if names_of(&file).next().is_none() {
            return self.remove_file(core, file, last).map(Some);
        }
        core.store(file)?;
        Ok(None)
    }

    /// Takes back `count` hand-outs of a node. A node that nobody holds is forgotten, and its file is freed if it has
    /// no name.
    pub(super) fn let_go(&self, node: Node, count: u64) {
        let mut core = self.core();
        if node == Node::ROOT {
            return;
        }
        let Ok(entity) = core.nodes.get_mut(node.0) else { return };
        entity.handed_out = entity.handed_out.saturating_sub(count);
        let owner = entity.part.as_ref().map(|(owner, _)| *owner);
        self.reap(&mut core, node.0);
        if let Some(owner) = owner {
            self.reap(&mut core, owner);
        }
    }

    fn reap(&self, core: &mut Core, node: u64) {
        if node == Node::ROOT.0 || core.nodes.get(node).is_err() || self.is_held(core, node) {
            return;
        }
        let Ok(entity) = core.nodes.get(node) else { return };
        let (number, is_part, parts) = (entity.file, entity.part.is_some(), entity.parts.clone());
        for node in parts.iter().copied().chain([node]) {
            self.release(core, node);
        }
        if number < DETACHED || is_part {
            for node in parts.iter().copied().chain([node]) {
                if self.is_written {
                    // A change that cannot be recorded now waits for the commit, and so does the node.
                    if self.settle(core, node).is_err()
                        || self.trim(core, node).is_err()
                        || self.absorb_touched(core, node).is_err()
                    {
                        return;
                    }
                }
            }
        } else if let Ok(file) = core.file(number) {
            let runs = file.attributes.iter().filter_map(Attr::outside).map(|outside| outside.runs.to_vec());
            let runs: Vec<_> = runs.collect();
            let _ = core.transact(|core| {
                runs.iter().for_each(|runs| core.give_runs(runs, Held::Data, false));
                core.forget_file(number);
                Ok(())
            });
        }
        // A node of a file with a name stays in memory for a while: its number may be asked for again soon.
        let is_named = number < DETACHED && !is_part;
        if !is_named {
            self.drop_node(core, node);
            return;
        }
        self.unlist(parts.iter().copied().chain([node]));
        for node in parts.into_iter().chain([node]) {
            if let Ok(entity) = core.nodes.get_mut(node) {
                entity.stream = None;
            }
        }
        if let Some(oldest) = core.nodes.set_idle(node)
            && !self.is_held(core, oldest)
            && core.nodes.get(oldest).is_ok_and(|entity| entity.stream.is_none())
            && !self.touched.lock().contains(&oldest)
        {
            self.drop_node(core, oldest);
        }
    }

    /// Records what was written to a file and its named streams, before its change time is set to a later one.
    pub(super) fn absorb_written(&self, core: &mut Core, file: u64) -> Result<()> {
        let Some(node) = core.nodes.of_file(file) else { return Ok(()) };
        // If no stream was written, the directories' entries are left to the commit, which may take several groups for
        // very many names.
        if written(core, node)?.iter().all(|stream| stream.written.load(Ordering::Acquire) == 0) {
            return Ok(());
        }
        let parts = core.nodes.get(node).map(|entity| entity.parts.clone()).unwrap_or_default();
        match parts.into_iter().chain([node]).try_for_each(|node| self.absorb_touched(core, node)) {
            // Lack of room must not refuse the caller's change: the next commit stores the record, with the time of
            // the write.
            Err(error) if error.is_full() => Ok(()),
            outcome => outcome,
        }
    }

    fn absorb_touched(&self, core: &mut Core, node: u64) -> Result<()> {
        let was_touched = self.touched.lock().remove(&node);
        if !was_touched {
            return Ok(());
        }
        self.absorb_node(core, node).inspect_err(|_| self.touch(node))
    }
}

/// Fails for a file with the read-only attribute.
pub(super) fn deletable(file: &File) -> Result<()> {
    if standard(file)?.flags & file_flags::READ_ONLY != 0 {
        return Err(Error::NotPermitted("it has the read-only attribute"));
    }
    Ok(())
}
