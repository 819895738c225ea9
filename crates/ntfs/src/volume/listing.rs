//! Listings of directories.

use super::NtfsVolume;
use super::attributes::names_of;
use super::lookup::units_of;
use crate::core::{Core, DETACHED};
use crate::index::name_key;
use crate::layout::{FileName, Index, Reference, file_flags, namespace, record_number};
use platter_vfs::{Attributes, Cursor, DosFlags, Entry, Error, Kind, Name, Node, Result};

/// How a listing treats an index entry.
enum Listing {
    /// The entry is listed.
    Shown,
    /// The entry is a short name, whose file is listed under the long one.
    Short,
    /// The entry is one of the system's own files.
    System,
}

impl Listing {
    fn of(directory: u64, reference: Reference, key: &[u8]) -> Listing {
        // The system's files are in the root, under names that begin with a dollar sign, and so is the root itself.
        let first = FileName::units_of(key).and_then(|units| units.first().copied());
        let is_systems = matches!(first, Some([b'$' | b'.', 0])) && directory == record_number::ROOT;
        if reference.number() < record_number::FIRST_FREE && is_systems {
            return Listing::System;
        }
        match key.get(0x41) {
            Some(&namespace::DOS) => Listing::Short,
            _ => Listing::Shown,
        }
    }
}

impl NtfsVolume {
    pub(super) fn list(
        &self,
        directory: Node,
        cursor: Cursor,
        most: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<()> {
        let mut core = self.core();
        let number = self.directory(&mut core, directory)?;
        if number >= DETACHED {
            return Ok(());
        }
        let after = match cursor {
            Cursor::START => None,
            _ => self.key_behind(&mut core, number, cursor)?,
        };
        let mut found: Vec<(Reference, Vec<u8>, FileName)> = Vec::new();
        let damage = self.scan_names(&mut core, number, after.as_deref(), |reference, key, name| {
            found.push((reference, key.to_vec(), name));
            found.len() < most
        })?;
        for (reference, key, name) in &found {
            let attributes = match core.nodes.of_file(reference.number()) {
                Some(node) => self.attributes_of(&mut core, node),
                None => core.file_at(*reference).and_then(|file| self.attributes_of_file(&mut core, &file)),
            };
            // If the record is damaged, the copy of the attributes in the directory is listed; a lookup of the entry
            // reports the damage.
            let attributes = attributes.unwrap_or_else(|_| attributes_in(name));
            let name = Name::from_units(&name.name);
            let next = core.listings.listed(number, &name_key(&units_of(key)));
            let node = core.nodes.number_of(*reference).map(Node);
            entries.push(Entry { name, node, attributes, next });
        }
        if damage.is_some() {
            core.listings.met_damage(number);
        }
        if found.is_empty() && core.listings.has_damage(number) {
            self.scan_names(&mut core, number, None, |_, _, _| true)?.map_or(Ok(()), Err)?;
        }
        core.make_room();
        Ok(())
    }

    /// Visits the listed entries of a directory, and returns the damage that kept others from being read.
    fn scan_names(
        &self,
        core: &mut Core,
        directory: u64,
        after: Option<&[u8]>,
        mut visit: impl FnMut(Reference, &[u8], FileName) -> bool,
    ) -> Result<Option<Error>> {
        let (mut short, mut unreadable) = (Vec::new(), None);
        let mut damage = core.index_scan_past_damage(directory, Index::Names, after, |entry| {
            let (reference, key) = (Reference(entry.head()), entry.key());
            match (Listing::of(directory, reference, key), FileName::from_bytes(key, 0)) {
                (Listing::Shown, Ok(name)) => return visit(reference, key, name),
                (Listing::Shown, Err(error)) => unreadable = Some(error),
                (Listing::Short, _) => short.push((reference, key.to_vec())),
                (Listing::System, _) => {}
            }
            true
        })?;
        damage = damage.or(unreadable);
        for (reference, key) in short {
            damage = damage.or_else(|| self.fault_of_short(core, directory, reference, &key));
        }
        Ok(damage)
    }

    /// What is wrong with an entry that is not listed because it claims to be a short name: its file must have this
    /// name as a short one, and so a long one beside it.
    fn fault_of_short(
        &self,
        core: &mut Core,
        directory: u64,
        reference: Reference,
        key: &[u8],
    ) -> Option<Error> {
        let file = match core.file_at(reference) {
            Ok(file) => file,
            Err(error) => return Some(error),
        };
        let units = units_of(key);
        let is_it = |name: &FileName| name.parent.number() == directory && name.name[..] == units[..];
        let namespaces: Vec<u8> = names_of(&file).filter(is_it).map(|name| name.namespace).collect();
        (!namespaces.contains(&namespace::DOS)).then(|| {
            let name = Name::from_units(&units);
            Error::damaged("index entry", 0, format!("a short name of a file, which {name} is not"), "one")
        })
    }

    /// The key after which a listing goes on; none if it is to begin anew ([`platter_vfs::Listings::kept`]).
    fn key_behind(&self, core: &mut Core, directory: u64, cursor: Cursor) -> Result<Option<Vec<u8>>> {
        if let Some(key) = core.listings.kept(directory, cursor) {
            return Ok(Some(key));
        }
        let listings = std::mem::take(&mut core.listings);
        let mut found = None;
        let scanned = core.index_scan_past_damage(directory, Index::Names, None, |entry| {
            let key = name_key(&units_of(entry.key()));
            if listings.cursor(&key) == cursor {
                found = Some(key);
            }
            found.is_none()
        });
        core.listings = listings;
        scanned.map(|_| found)
    }
}

/// The attributes that an index entry holds.
fn attributes_in(name: &FileName) -> Attributes {
    let is_directory = name.flags & file_flags::DIRECTORY != 0;
    Attributes {
        kind: if is_directory { Kind::Directory } else { Kind::File },
        size: name.size,
        allocated: name.allocated,
        links: 1,
        flags: DosFlags(name.flags & DosFlags::SETTABLE.0),
        created: Some(name.created.into()),
        modified: name.modified.into(),
        accessed: Some(name.accessed.into()),
        changed: Some(name.changed.into()),
    }
}
