//! Making files, directories and symbolic links.

use super::NtfsVolume;
use super::attributes::standard;
use super::compressed::LARGEST_COMPRESSED;
use super::extended::{put_extended, set_extended};
use crate::file::{Attr, File};
use crate::layout::index::{IndexRoot, collation};
use crate::layout::{
    CASE_SENSITIVE, FileTime, Index, Kind as Type, StandardInformation, attribute_flags, file_flags,
    record_flags,
};
use platter_vfs::{Error, Kind, Name, NewEntry, Node, Result};

impl NtfsVolume {
    /// Makes a file, directory or symbolic link.
    pub(super) fn add_entry(&self, directory: Node, name: &Name, new: &NewEntry<'_>) -> Result<Node> {
        new.check()?;
        let NewEntry { kind, point, extended } = *new;
        let mut attributes = Vec::new();
        for (name, value) in extended {
            set_extended(&mut attributes, name, Some(value))?;
        }
        let now = FileTime(self.now());
        let mut core = self.change()?;
        let parent = self.living_directory(&mut core, directory)?;
        self.capabilities.names.check(name)?;
        if self.entry(&mut core, parent, name)?.is_some() {
            return Err(Error::Exists);
        }
        let above = core.file(parent)?;
        let above_standard = standard(&above)?;
        let reference = core.transact(|core| {
            let reference = core.take_record()?;
            let is_directory = kind == Kind::Directory;
            let mut flags = if kind == Kind::File { file_flags::ARCHIVE } else { 0 };
            if kind != Kind::SymbolicLink && self.cluster <= LARGEST_COMPRESSED {
                flags |= above_standard.flags & file_flags::COMPRESSED;
            }
            if point.is_some() {
                flags |= file_flags::REPARSE;
            }
            let extended = crate::layout::StandardExtended {
                security: self.security_for(core, &above_standard, is_directory)?,
                ..Default::default()
            };
            let standard = StandardInformation {
                created: now,
                modified: now,
                changed: now,
                accessed: now,
                flags,
                version: if is_directory { above_standard.version & CASE_SENSITIVE } else { 0 },
                extended: Some(extended),
                ..StandardInformation::default()
            };
            let record = record_flags::IN_USE | if is_directory { record_flags::DIRECTORY } else { 0 };
            let mut file = File::new(reference, record);
            file.add(Attr::resident(Type::STANDARD_INFORMATION, standard.to_bytes()));
            if is_directory {
                let geometry = core.geometry;
                let root =
                    IndexRoot::new(Type::FILE_NAME, collation::FILE_NAME, geometry.index, geometry.cluster);
                file.add(Attr::resident(Type::INDEX_ROOT, root.to_bytes()).named(Index::Names.units()));
            } else {
                let mut data = Attr::resident(Type::DATA, Vec::new());
                if flags & file_flags::COMPRESSED != 0 {
                    data.flags |= attribute_flags::COMPRESSED;
                }
                file.add(data);
            }
            if let Some(point) = point {
                core.place_value(
                    &mut file,
                    Type::REPARSE_POINT,
                    platter_vfs::reparse::to_bytes(point),
                    true,
                )?;
                self.enter_reparse(core, point.tag, reference)?;
            }
            put_extended(core, &mut file, &attributes, true)?;
            self.add_name(core, &mut file, parent, name.units())?;
            core.store(file)?;
            self.stamp_directory(core, parent, now)?;
            Ok(reference)
        })?;
        self.touch(directory.0);
        let node = core.nodes.enter(reference);
        core.nodes.get_mut(node)?.handed_out += 1;
        Ok(Node(node))
    }
}
