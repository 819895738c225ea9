//! Names: looking up, listing and adding them.

use super::streams::{put_extended, set_extended};
use super::*;
use crate::format::security;
use crate::index::name_key;
use crate::layout::Index;
use crate::layout::index::{IndexEntry, IndexRoot, collation, name_entry};
use crate::layout::{CASE_SENSITIVE, Reference, attribute_flags};
use crate::open::key_of;

/// An entry of a directory.
pub(super) struct NamedEntry {
    pub(super) reference: Reference,
    pub(super) name: FileName,
}

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

    /// The entry of a name, unless it leads to one of the system's own files, which are not shown.
    pub(super) fn shown(&self, core: &mut Core, directory: u64, name: &Name) -> Result<Option<NamedEntry>> {
        let found = self.entry(core, directory, name)?;
        Ok(found.filter(|found| found.reference.number() >= record_number::FIRST_FREE))
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

    /// Makes a file, directory or symbolic link.
    pub(super) fn add_entry(&self, directory: Node, name: &Name, new: &NewEntry<'_>) -> Result<Node> {
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
            if kind != Kind::SymbolicLink && self.cluster <= super::packed::LARGEST_COMPRESSED {
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

    /// The security identifier for a new node in a directory: if the directory has the default for directories, the
    /// default for the node's kind; else the directory's own.
    fn security_for(&self, core: &mut Core, above: &StandardInformation, is_directory: bool) -> Result<u32> {
        let inherited = above.extended.map_or(0, |extended| extended.security);
        let id = if is_directory { security::DIRECTORY } else { security::FILE };
        if inherited == security::DIRECTORY && core.has_descriptor(id) {
            return Ok(id);
        }
        match inherited {
            0 => core.provide_security(&crate::secure::open_to_all()),
            _ => Ok(inherited),
        }
    }

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

    pub(super) fn is_directory(&self, core: &mut Core, file: &File) -> Result<bool> {
        Ok(file.flags & record_flags::DIRECTORY != 0 && !is_link(core, file)?)
    }
}

fn units_of(key: &[u8]) -> Vec<u16> {
    FileName::units_of(key).unwrap_or(&[]).iter().map(|unit| u16::from_le_bytes(*unit)).collect()
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
