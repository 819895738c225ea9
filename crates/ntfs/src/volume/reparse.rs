//! Reparse points, and the volume's index of them.

use super::NtfsVolume;
use super::attributes::{reparse_of, standard, tag_of};
use crate::core::{Core, DETACHED};
use crate::file::Attr;
use crate::layout::{
    FileTime, Index, Kind as Type, Reference, file_flags, record_flags, reparse_entry, reparse_key,
};
use crate::wof::Packing;
use platter_vfs::{Error, Node, Reparse, Result};
use std::sync::atomic::Ordering;

impl NtfsVolume {
    /// The reparse point of a node, if it has one.
    pub(super) fn reparse_point_of(&self, node: Node) -> Result<Option<Reparse>> {
        let mut core = self.core();
        let entity = core.nodes.get(node.0)?;
        if entity.part.is_some() {
            return Ok(None);
        }
        let number = entity.file;
        let file = core.file(number)?;
        reparse_of(&core, &file)
    }

    /// Where a symbolic link leads.
    pub(super) fn target_of(&self, node: Node) -> Result<String> {
        match self.reparse_point_of(node)? {
            Some(point) => platter_vfs::reparse::target(&point),
            None => Err(Error::InvalidArgument("not a symbolic link")),
        }
    }

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
