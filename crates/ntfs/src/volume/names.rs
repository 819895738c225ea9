//! Names of files: given and taken, in the file's record and in its directory's index.

use super::attributes::{names_of, standard, written};
use super::lookup::units_of;
use super::{NTFS, NtfsVolume};
use crate::core::{Core, DETACHED};
use crate::file::{Attr, File};
use crate::index::name_key;
use crate::layout::index::{IndexEntry, name_entry};
use crate::layout::{FileName, FileTime, Index, Kind as Type, Reference, file_flags, namespace};
use crate::open::key_of;
use platter_vfs::{Error, Name, Result};

impl NtfsVolume {
    /// Gives a file a name in a directory. The caller stores the file.
    pub(super) fn add_name(
        &self,
        core: &mut Core,
        file: &mut File,
        directory: u64,
        units: &[u16],
    ) -> Result<()> {
        self.free_short(core, file, directory, units)?;
        let above = core.file(directory)?;
        if file.links == u16::MAX {
            return Err(Error::TooManyLinks { format: NTFS, what: "its record counts at most 65,535" });
        }
        let facts = self.name_facts(core, file)?;
        // POSIX, as Windows has it where it makes no short names: a name in the namespace of long names has a short one
        // beside it.
        let namespace = namespace::POSIX;
        let name = FileName { parent: above.reference, namespace, name: units.into(), ..facts };
        let value = name.to_bytes();
        core.index_insert(directory, Index::Names, &name_entry(file.reference, &value))?;
        file.links += 1;
        file.add(Attr::resident(Type::FILE_NAME, value));
        Ok(())
    }

    /// Takes a short name from its file, because an entry is to have it, or one that Windows would not tell from it. The
    /// long name then has none beside it, as all names that are made here. `file` is the one that gets the name, which its
    /// caller stores.
    fn free_short(&self, core: &mut Core, file: &mut File, directory: u64, units: &[u16]) -> Result<()> {
        let Some(entry) = core.find_name(directory, units)? else { return Ok(()) };
        if key_of(&entry).get(0x41) != Some(&namespace::DOS) {
            return Ok(());
        }
        let reference = Reference(IndexEntry { bytes: &entry, offset: 0 }.head());
        let short = FileName::from_bytes(key_of(&entry), 0)?;
        if reference == file.reference {
            return self.without_short(core, file, directory, &short);
        }
        let mut owner = (*core.file_at(reference)?).clone();
        self.without_short(core, &mut owner, directory, &short)?;
        core.store(owner)
    }

    fn without_short(
        &self,
        core: &mut Core,
        owner: &mut File,
        directory: u64,
        short: &FileName,
    ) -> Result<()> {
        core.index_remove(directory, Index::Names, &name_key(&short.name))?;
        let here: Vec<FileName> = names_of(owner).filter(|name| name.parent.number() == directory).collect();
        for name in here {
            let is_it = |attr: &Attr| {
                attr.kind == Type::FILE_NAME
                    && attr.value().and_then(|value| FileName::from_bytes(value, 0).ok()).is_some_and(
                        |other| {
                            (other.parent, &other.name, other.namespace)
                                == (name.parent, &name.name, name.namespace)
                        },
                    )
            };
            let Some(at) = owner.attributes.iter().position(is_it) else { continue };
            match name.namespace {
                namespace::DOS => {
                    owner.attributes.remove(at);
                    owner.links = owner.links.saturating_sub(1);
                }
                namespace::WIN32 => {
                    let value = FileName { namespace: namespace::POSIX, ..name }.to_bytes();
                    let entry = name_entry(owner.reference, &value);
                    core.index_remove(directory, Index::Names, &name_key(&units_of(&value)))?;
                    core.index_insert(directory, Index::Names, &entry)?;
                    owner.attributes.remove(at);
                    owner.add(Attr::resident(Type::FILE_NAME, value));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes a name from a file; of a long and a short name that belong together, both. The caller stores the file.
    pub(super) fn take_name(
        &self,
        core: &mut Core,
        file: &mut File,
        directory: u64,
        name: &FileName,
    ) -> Result<()> {
        let here: Vec<FileName> = names_of(file).filter(|other| other.parent.number() == directory).collect();
        let Some(own) = here.iter().find(|other| other.name == name.name) else {
            let place = core.record_place(file.reference.number())?;
            let expected = format!("the name {}", Name::from_units(&name.name));
            return Err(Error::damaged("file record", place, expected, "none of its parent"));
        };
        let with = |namespace: u8| here.iter().filter(move |other| other.namespace == namespace);
        let other = match own.namespace {
            // A file has one short name. If several long names could own it, it is removed with the last of them.
            namespace::WIN32 if with(namespace::WIN32).count() == 1 => with(namespace::DOS).next(),
            namespace::DOS => with(namespace::WIN32).next(),
            _ => None,
        };
        for gone in [own].into_iter().chain(other) {
            core.index_remove(directory, Index::Names, &name_key(&gone.name))?;
            let value = gone.to_bytes();
            let is_it = |attr: &Attr| attr.kind == Type::FILE_NAME && attr.value() == Some(&value[..]);
            if let Some(at) = file.attributes.iter().position(is_it) {
                file.attributes.remove(at);
            }
            file.links = file.links.saturating_sub(1);
        }
        Ok(())
    }

    pub(super) fn stamp_directory(&self, core: &mut Core, directory: u64, now: FileTime) -> Result<()> {
        if directory >= DETACHED {
            return Ok(());
        }
        let mut file = (*core.file(directory)?).clone();
        let mut standard = standard(&file)?;
        // The directory's named streams may have been written since its record was stored; that was before `now`.
        if let Some(node) = core.nodes.of_file(directory) {
            for stream in written(core, node)? {
                if stream.take_stamp() > 0 {
                    standard.flags |= file_flags::ARCHIVE;
                }
            }
        }
        (standard.modified, standard.changed) = (now, now);
        file.put(Attr::resident(Type::STANDARD_INFORMATION, standard.to_bytes()));
        core.store(file)
    }
}
