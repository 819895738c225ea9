//! What a file says of itself: standard information, names, reparse tag, and the attributes that follow from them.

use super::NtfsVolume;
use crate::core::Core;
use crate::file::{Attr, File};
use crate::layout::bytes::u32_at;
use crate::layout::{
    FileName, FileTime, Kind as Type, StandardInformation, file_flags, namespace, record_flags,
    reparse_from_bytes,
};
use crate::stream::Stream;
use crate::wof::{self, Packing};
use platter_vfs::{Attributes, DosFlags, Error, Kind, Reparse, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl NtfsVolume {
    /// The node of the file that a node belongs to (another one for a named stream), and that file, which has the times
    /// and flags.
    pub(super) fn owner_of(&self, core: &mut Core, node: u64) -> Result<(u64, File)> {
        let entity = core.nodes.get(node)?;
        let owner = entity.part.as_ref().map_or(node, |(owner, _)| *owner);
        let number = entity.file;
        Ok((owner, (*core.file(number)?).clone()))
    }

    /// The attributes of a node, with the sizes and times that are not recorded yet.
    pub(super) fn attributes_of(&self, core: &mut Core, node: u64) -> Result<Attributes> {
        let entity = core.nodes.get(node)?;
        let (number, part) = (entity.file, entity.part.clone());
        let own = entity.stream.clone();
        let written = written(core, node)?.iter().map(|stream| stream.written.load(Ordering::Acquire)).max();
        let file = core.file(number)?;
        let mut attributes = self.attributes_of_file(core, &file)?;
        if let Some((_, name)) = &part {
            attributes.kind = Kind::File;
            let attr = file.find(Type::DATA, name);
            (attributes.size, attributes.allocated) =
                attr.map_or((0, 0), |attr| (attr.size(), attr.allocated(self.cluster)));
        }
        if let (Some(stream), Kind::File) = (&own, attributes.kind) {
            let state = stream.read();
            (attributes.size, attributes.allocated) = (state.size, state.allocated(self.cluster));
            if state.packed.is_some() {
                attributes.allocated = allocated_of_packed(&file, self.cluster);
            }
        }
        if let Some(written @ 1..) = written {
            attributes.modified = FileTime(written).into();
            attributes.changed = Some(attributes.modified);
            attributes.flags.0 |= DosFlags::ARCHIVE.0;
        }
        Ok(attributes)
    }

    /// The attributes of a file according to its records.
    pub(super) fn attributes_of_file(&self, core: &mut Core, file: &File) -> Result<Attributes> {
        let standard = standard(file)?;
        let is_link = is_link(core, file)?;
        let is_directory = file.flags & record_flags::DIRECTORY != 0;
        let kind = match (is_link, is_directory) {
            (true, _) => Kind::SymbolicLink,
            (false, true) => Kind::Directory,
            (false, false) => Kind::File,
        };
        let data = file.find(Type::DATA, &[]);
        let (size, allocated) = match kind {
            Kind::File => match data.map_or((0, 0), |data| (data.size(), data.allocated(self.cluster))) {
                (size @ 1.., 0) => (size, allocated_of_packed(file, self.cluster)),
                sizes => sizes,
            },
            Kind::SymbolicLink => {
                // What a damaged point leads to has no length.
                let target = reparse_of(core, file).ok().flatten();
                let target = target.and_then(|point| platter_vfs::reparse::target(&point).ok());
                (target.map_or(0, |target| target.len() as u64), 0)
            }
            _ => (0, 0),
        };
        let names = names_of(file).filter(|name| name.namespace != namespace::DOS).count() as u32;
        Ok(Attributes {
            kind,
            size,
            allocated,
            links: if kind == Kind::Directory { names.min(1) } else { names },
            flags: DosFlags(standard.flags & DosFlags::SETTABLE.0),
            created: Some(standard.created.into()),
            modified: standard.modified.into(),
            accessed: Some(standard.accessed.into()),
            changed: Some(standard.changed.into()),
        })
    }

    /// The fields of a file's `$FILE_NAME` other than its parent, namespace and name.
    pub(super) fn name_facts(&self, core: &Core, file: &File) -> Result<FileName> {
        let standard = standard(file)?;
        let is_directory = file.flags & record_flags::DIRECTORY != 0;
        let data = file.find(Type::DATA, &[]).filter(|_| !is_directory);
        let allocated = match data.map(|data| (data, data.outside())) {
            Some((_, Some(outside))) => outside.taken() * self.cluster,
            Some((data, None)) => data.size().next_multiple_of(8),
            None => 0,
        };
        let tag = match file.find(Type::REPARSE_POINT, &[]) {
            Some(_) => tag_of(core, file)?.unwrap_or(0),
            None => {
                let information = file.value(Type::EA_INFORMATION).unwrap_or(&[]);
                u32::from(crate::layout::bytes::u16_at(information, 0))
            }
        };
        Ok(FileName {
            created: standard.created,
            modified: standard.modified,
            changed: standard.changed,
            accessed: standard.accessed,
            allocated,
            size: data.map_or(0, Attr::size),
            flags: name_flags(file, &standard),
            tag,
            ..FileName::default()
        })
    }

    pub(super) fn is_directory(&self, core: &mut Core, file: &File) -> Result<bool> {
        Ok(file.flags & record_flags::DIRECTORY != 0 && !is_link(core, file)?)
    }
}

/// The open streams of a node's file: a write to any of them changes the file's times.
pub(super) fn written(core: &Core, node: u64) -> Result<Vec<Arc<Stream>>> {
    let entity = core.nodes.get(node)?;
    let owner = match entity.part {
        Some((owner, _)) => core.nodes.get(owner)?,
        None => entity,
    };
    let parts = owner.parts.iter().filter_map(|part| core.nodes.get(*part).ok());
    Ok(parts.chain([owner]).filter_map(|entity| entity.stream.clone()).collect())
}

/// The value of `$STANDARD_INFORMATION`.
pub(super) fn standard(file: &File) -> Result<StandardInformation> {
    StandardInformation::from_bytes(file.value(Type::STANDARD_INFORMATION).unwrap_or(&[]), 0)
}

/// Sets the change time of a file. The caller stores the file.
pub(super) fn stamp_change(file: &mut File, now: FileTime) -> Result<()> {
    let mut standard = standard(file)?;
    standard.changed = now;
    file.put(Attr::resident(Type::STANDARD_INFORMATION, standard.to_bytes()));
    Ok(())
}

/// All names of a file; damaged ones are left out.
pub(super) fn names_of(file: &File) -> impl Iterator<Item = FileName> + '_ {
    let names = file.attributes.iter().filter(|attr| attr.kind == Type::FILE_NAME);
    names.filter_map(|attr| FileName::from_bytes(attr.value()?, 0).ok())
}

/// The value of an attribute, resident or not. A non-resident value of more than `most` bytes is damage.
pub(super) fn whole_value(core: &Core, attr: &Attr, most: u64) -> Result<Vec<u8>> {
    match attr.outside() {
        None => Ok(attr.value().unwrap_or(&[]).to_vec()),
        Some(outside) if outside.size > most => Err(Error::damaged(
            "attribute",
            0,
            format!("at most {most} bytes of {}", attr.kind),
            outside.size,
        )),
        Some(outside) => {
            let mut bytes = core.read_runs(&outside.runs, 0, outside.size)?;
            bytes[outside.valid as usize..].fill(0);
            Ok(bytes)
        }
    }
}

/// The reparse point of a file, if it has one.
pub(super) fn reparse_of(core: &Core, file: &File) -> Result<Option<Reparse>> {
    match file.find(Type::REPARSE_POINT, &[]) {
        None => Ok(None),
        Some(attr) => reparse_from_bytes(&whole_value(core, attr, 1 << 16)?, 0).map(Some),
    }
}

/// The tag of a file's reparse point, if it has one. It is also known of a point whose data is damaged.
pub(super) fn tag_of(core: &Core, file: &File) -> Result<Option<u32>> {
    let Some(attr) = file.find(Type::REPARSE_POINT, &[]) else { return Ok(None) };
    let value = whole_value(core, attr, 1 << 16)?;
    Ok((value.len() >= 4).then(|| u32_at(&value, 0)))
}

/// How the content of a file is packed by Windows Overlay Filter, if it is. What a damaged point says is not known.
pub(super) fn packing_of(core: &Core, file: &File) -> Option<Packing> {
    Packing::of(&reparse_of(core, file).ok()??)
}

pub(super) fn is_link(core: &Core, file: &File) -> Result<bool> {
    Ok(tag_of(core, file)?.is_some_and(platter_vfs::reparse::is_link))
}

/// Bytes that the packed content of a file takes; 0 if it has none.
fn allocated_of_packed(file: &File, cluster: u64) -> u64 {
    match file.find(Type::REPARSE_POINT, &[]) {
        Some(_) => file.find(Type::DATA, &wof::stream()).map_or(0, |packed| packed.allocated(cluster)),
        None => 0,
    }
}

/// Flags of a file as `$FILE_NAME` has them.
fn name_flags(file: &File, standard: &StandardInformation) -> u32 {
    let is_directory = file.flags & record_flags::DIRECTORY != 0;
    let is_view = file.flags & record_flags::VIEW_INDEX != 0;
    standard.flags
        | if is_directory { file_flags::DIRECTORY } else { 0 }
        | if is_view { file_flags::VIEW_INDEX } else { 0 }
}

/// Fails for a file with the read-only attribute.
pub(super) fn deletable(file: &File) -> Result<()> {
    if standard(file)?.flags & file_flags::READ_ONLY != 0 {
        return Err(Error::NotPermitted("it has the read-only attribute"));
    }
    Ok(())
}
