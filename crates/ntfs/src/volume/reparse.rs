//! Reparse points, and the volume's index of them.

use super::*;
use crate::layout::Index;
use crate::layout::{Reference, reparse_entry, reparse_key};

impl NtfsVolume {
    pub(super) fn enter_reparse(&self, core: &mut Core, tag: u32, file: Reference) -> Result<()> {
        match core.reparse_index {
            Some(index) => core.index_insert(index, Index::Reparse, &reparse_entry(tag, file)),
            None => Ok(()),
        }
    }

    pub(super) fn leave_reparse(&self, core: &mut Core, tag: u32, file: Reference) -> Result<()> {
        let Some(index) = core.reparse_index else { return Ok(()) };
        match core.index_remove(index, Index::Reparse, &reparse_key(tag, file)) {
            Ok(_) | Err(Error::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Replaces a file's reparse point, or removes it if `point` is `None`.
    pub(super) fn change_reparse_point(&self, node: Node, point: Option<&Reparse>) -> Result<()> {
        point.map_or(Ok(()), platter_vfs::reparse::check)?;
        let mut core = self.change()?;
        let entity = core.nodes.get(node.0)?;
        if entity.part.is_some() {
            return Err(Error::InvalidArgument("a named stream has no reparse point of its own"));
        }
        let number = entity.file;
        self.absorb_node(&mut core, node.0)?;
        let file = (*core.file(number)?).clone();
        let becomes = point.is_some_and(|point| platter_vfs::reparse::is_link(point.tag));
        if becomes && file.find(Type::DATA, &[]).is_some_and(|data| data.size() > 0) {
            return Err(Error::InvalidArgument("a file that has content cannot become a symbolic link"));
        }
        let is_directory = file.flags & record_flags::DIRECTORY != 0;
        if becomes && is_directory && (node == Node::ROOT || !core.index_is_empty(number, Index::Names)?) {
            return Err(Error::NotEmpty);
        }
        let now = FileTime(self.now());
        core.transact(|core| {
            let mut file = file;
            let on_disk = number < DETACHED;
            if let Some(old) = tag_of(core, &file)?
                && on_disk
            {
                self.leave_reparse(core, old, file.reference)?;
            }
            core.remove_value(&mut file, Type::REPARSE_POINT, on_disk);
            let mut standard = standard(&file)?;
            standard.flags &= !file_flags::REPARSE;
            standard.changed = now;
            if let Some(point) = point {
                standard.flags |= file_flags::REPARSE;
                core.place_value(
                    &mut file,
                    Type::REPARSE_POINT,
                    platter_vfs::reparse::to_bytes(point),
                    on_disk,
                )?;
                if on_disk {
                    self.enter_reparse(core, point.tag, file.reference)?;
                }
            }
            file.put(Attr::resident(Type::STANDARD_INFORMATION, standard.to_bytes()));
            core.store(file)
        })?;
        if let Some(stream) = &core.nodes.get(node.0)?.stream {
            stream.is_link.store(becomes, Ordering::SeqCst);
            stream.write().set_tag(point.map(|point| point.tag), point.and_then(Packing::of), self.cluster);
        }
        self.touch(node.0);
        Ok(())
    }
}
