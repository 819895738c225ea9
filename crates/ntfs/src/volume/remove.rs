//! Removal of names and files. A file that is removed while it is held is freed when nobody holds it any more.

use super::NtfsVolume;
use super::attributes::{deletable, is_link, names_of, stamp_change, tag_of};
use crate::core::Core;
use crate::file::{Body, File};
use crate::layout::{FileName, FileTime, Index, Kind as Type, ObjectId, record_flags};
use crate::space::Held;
use platter_vfs::{Error, Name, Node, Result};

impl NtfsVolume {
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
}
