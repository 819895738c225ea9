//! Lookups: the node that a name leads to, and the directory that a node is.

use super::NtfsVolume;
use super::attributes::{is_link, names_of};
use crate::core::{Core, DETACHED};
use crate::file::File;
use crate::index::name_key;
use crate::layout::index::IndexEntry;
use crate::layout::{FileName, Index, Reference, namespace, record_flags, record_number};
use crate::open::key_of;
use platter_vfs::{Error, Name, Node, Result};

/// An entry of a directory.
pub(super) struct NamedEntry {
    pub(super) reference: Reference,
    pub(super) name: FileName,
}

impl NtfsVolume {
    /// The file number of a node that is a directory; fails for any other node.
    pub(super) fn directory(&self, core: &mut Core, node: Node) -> Result<u64> {
        let entity = core.nodes.get(node.0)?;
        if entity.part.is_some() {
            return Err(Error::NotADirectory);
        }
        let number = entity.file;
        let file = core.file(number)?;
        if file.flags & record_flags::DIRECTORY == 0 || is_link(core, &file)? {
            return Err(Error::NotADirectory);
        }
        Ok(number)
    }

    /// The file number of a directory that entries can be put into; fails for a directory that was removed.
    pub(super) fn living_directory(&self, core: &mut Core, node: Node) -> Result<u64> {
        match self.directory(core, node)? {
            DETACHED.. => Err(Error::NotFound),
            number => Ok(number),
        }
    }

    /// Returns the node that a name leads to, and hands it out. The name is compared by the volume's rule, or `exact`ly.
    pub(super) fn find(&self, directory: Node, name: &Name, exact: bool) -> Result<Node> {
        let mut core = self.core();
        // Lookups add images and files to memory. If a caller makes no changes, no commit drops them.
        core.make_room();
        let directory = self.directory(&mut core, directory)?;
        let found = self.shown(&mut core, directory, name)?;
        let found = found.filter(|found| !exact || *found.name.name == *name.units());
        let found = found.ok_or(Error::NotFound)?;
        let file = core.file_at(found.reference)?;
        if self.is_of_another(&mut core, directory, &found, &file) {
            let at = core.record_place(found.reference.number())?;
            let expected = format!("one with the name \"{}\"", Name::from_units(&found.name.name));
            return Err(Error::damaged("file record", at, expected, "that of another entry"));
        }
        let node = core.nodes.enter(file.reference);
        core.nodes.get_mut(node)?.handed_out += 1;
        Ok(Node(node))
    }

    /// The entry of a name, unless it leads to one of the system's own files, which are not shown.
    pub(super) fn shown(&self, core: &mut Core, directory: u64, name: &Name) -> Result<Option<NamedEntry>> {
        let found = self.entry(core, directory, name)?;
        Ok(found.filter(|found| found.reference.number() >= record_number::FIRST_FREE))
    }

    /// The entry that a name leads to by the volume's rule. The short name of an entry with a long one leads to none: it
    /// is not listed either, and a new entry may have it.
    pub(super) fn entry(&self, core: &mut Core, directory: u64, name: &Name) -> Result<Option<NamedEntry>> {
        if name.units().is_empty() || name.units().len() > 255 || directory >= DETACHED {
            return Ok(None);
        }
        let found = match self.ignores_case {
            true => core.find_name(directory, name.units()),
            false => core.index_find(directory, Index::Names, &name_key(name.units())),
        };
        let found = match found {
            Ok(None) | Err(Error::Damaged(_)) if core.listings.has_damage(directory) => {
                self.find_past_damage(core, directory, name)?
            }
            found => found?,
        };
        let Some(entry) = found else { return Ok(None) };
        let reference = Reference(IndexEntry { bytes: &entry, offset: 0 }.head());
        let name = FileName::from_bytes(key_of(&entry), 0)?;
        Ok(Some(NamedEntry { reference, name }).filter(|found| found.name.namespace != namespace::DOS))
    }

    /// Looks for a name among all entries of a directory that is known to be damaged: a search down the tree, as in an
    /// undamaged index, may miss an entry that is there.
    fn find_past_damage(&self, core: &mut Core, directory: u64, name: &Name) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        let damage = core.index_scan_past_damage(directory, Index::Names, None, |entry| {
            if units_of(entry.key()) == name.units() {
                found = Some(entry.bytes.to_vec());
            }
            found.is_none()
        })?;
        match (found, damage) {
            // The name may be among the entries that cannot be read.
            (None, Some(damage)) => Err(damage),
            (found, _) => Ok(found),
        }
    }

    /// Whether an entry leads to the wrong file: the file lacks the entry's name, but has another name under which it
    /// is found. Then the entry is damaged. If the file is found under none of its names, those names are damaged, and
    /// the file is the right one.
    fn is_of_another(&self, core: &mut Core, directory: u64, found: &NamedEntry, file: &File) -> bool {
        let is_this = |name: &FileName| name.parent.number() == directory && name.name == found.name.name;
        if names_of(file).any(|name| is_this(&name)) {
            return false;
        }
        let is_found = |name: FileName| {
            let there = self.entry(core, name.parent.number(), &Name::from_units(&name.name));
            let is_it =
                |entry: NamedEntry| entry.reference == found.reference && entry.name.name == name.name;
            there.ok().flatten().is_some_and(is_it)
        };
        names_of(file).any(is_found)
    }

    /// Returns the file of which this number is the reference, and hands it out.
    pub(super) fn find_numbered(&self, number: Node) -> Result<Node> {
        if number == Node::ROOT {
            return Ok(number);
        }
        let mut core = self.core();
        core.make_room();
        let file = match core.nodes.get(number.0) {
            // A named stream is found by its file and its name alone.
            Ok(entity) if entity.part.is_some() => return Err(Error::NotFound),
            Ok(entity) => entity.file,
            Err(_) => {
                let reference = Reference(number.0);
                if !core.is_file(reference) || !self.is_below_root(&mut core, reference.number())? {
                    return Err(Error::NotFound);
                }
                reference.number()
            }
        };
        if file >= DETACHED {
            return Err(Error::NotFound);
        }
        let reference = core.file(file)?.reference;
        let node = core.nodes.enter(reference);
        if node != number.0 {
            return Err(Error::NotFound);
        }
        core.nodes.get_mut(node)?.handed_out += 1;
        Ok(number)
    }

    /// Whether a file has a name in a directory that leads up to the root, and not to the volume's own files.
    fn is_below_root(&self, core: &mut Core, mut number: u64) -> Result<bool> {
        // On a damaged volume directories may lie in each other in a circle. No path that programs can name is as long.
        for _ in 0..1 << 12 {
            let file = core.file(number)?;
            let Some(name) = names_of(&file).next() else { return Ok(false) };
            number = name.parent.number();
            if number < record_number::FIRST_FREE || !core.is_file(name.parent) {
                return Ok(number == record_number::ROOT);
            }
        }
        Ok(false)
    }

    pub(super) fn parent_of(&self, directory: Node) -> Result<Node> {
        let mut core = self.core();
        if directory == Node::ROOT {
            return Ok(Node::ROOT);
        }
        let number = self.directory(&mut core, directory)?;
        let file = core.file(number)?;
        let parent = names_of(&file).next().ok_or(Error::NotFound)?.parent;
        let reference = core.file_at(parent)?.reference;
        Ok(Node(core.nodes.enter(reference)))
    }
}

pub(super) fn units_of(key: &[u8]) -> Vec<u16> {
    FileName::units_of(key).unwrap_or(&[]).iter().map(|unit| u16::from_le_bytes(*unit)).collect()
}
