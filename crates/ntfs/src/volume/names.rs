//! Names: looked up, listed, made, removed, moved.

use super::*;
use crate::format::security;
use crate::index::{Index, name_key};
use crate::layout::index::{Entry as IndexEntry, IndexRoot, collation, name_entry};
use crate::layout::{
    CASE_SENSITIVE, ObjectId, Reference, attribute_flags, reparse_entry, reparse_key, reparse_to_bytes,
};
use crate::open::key_of;
use crate::space::Held;

/// An entry of a directory.
struct Found {
    reference: Reference,
    name: FileName,
}

impl NtfsVolume {
    fn entry(&self, core: &mut Core, directory: u64, name: &Name) -> Result<Option<Found>> {
        if name.units().is_empty() || name.units().len() > 255 || directory >= DETACHED {
            return Ok(None);
        }
        let Some(entry) = core.find_name(directory, name.units())? else { return Ok(None) };
        let reference = Reference(IndexEntry { bytes: &entry, offset: 0 }.head());
        let name = FileName::from_bytes(key_of(&entry), 0)?;
        Ok(Some(Found { reference, name }))
    }

    /// The entry of a name that is to be shown: the system's own files are not.
    fn shown(&self, core: &mut Core, directory: u64, name: &Name) -> Result<Option<Found>> {
        let found = self.entry(core, directory, name)?;
        Ok(found.filter(|found| found.reference.number() >= record_number::FIRST_FREE))
    }

    pub(super) fn find(&self, directory: Node, name: &Name) -> Result<Node> {
        let mut core = self.core();
        let directory = self.directory(&mut core, directory)?;
        let found = self.shown(&mut core, directory, name)?.ok_or(Error::NotFound)?;
        core.file_at(found.reference)?;
        let node = core.nodes.enter(found.reference.number());
        core.nodes.get_mut(node)?.handed_out += 1;
        Ok(Node(node))
    }

    pub(super) fn parent_of(&self, directory: Node) -> Result<Node> {
        let mut core = self.core();
        if directory == Node::ROOT {
            return Ok(Node::ROOT);
        }
        let number = self.directory(&mut core, directory)?;
        let file = core.file(number)?;
        let parent = names_of(&file).next().ok_or(Error::NotFound)?.parent;
        core.file_at(parent)?;
        Ok(Node(core.nodes.enter(parent.number())))
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
            Cursor(at) => Some(
                core.listings
                    .key(number, at)
                    .ok_or(Error::InvalidArgument("the listing was left for too long"))?,
            ),
        };
        let mut found: Vec<(Reference, Vec<u8>)> = Vec::new();
        core.index_scan(number, Index::Names, after.as_deref(), |entry| {
            let reference = Reference(entry.head());
            let is_shown = reference.number() >= record_number::FIRST_FREE
                && entry.key().get(0x41) != Some(&namespace::DOS);
            if is_shown && found.len() < most {
                found.push((reference, entry.key().to_vec()));
            }
            found.len() < most
        })?;
        let keys = found.iter().map(|(_, key)| name_key(&units_of(key))).collect();
        let first = core.listings.start(number, keys);
        for (index, (reference, key)) in found.iter().enumerate() {
            let name = FileName::from_bytes(key, 0)?;
            let attributes = match core.nodes.of_file(reference.number()) {
                Some(node) => self.attributes_of(&mut core, node)?,
                None => match core.file_at(*reference) {
                    Ok(file) => self.attributes_of_file(&mut core, &file)?,
                    // What the directory itself says, where the record is damaged.
                    Err(Error::Damaged(_)) => attributes_in(&name),
                    Err(error) => return Err(error),
                },
            };
            let name = Name::from_units(&name.name);
            entries.push(Entry { name, attributes, next: Cursor(first + index as u64) });
        }
        core.make_room();
        Ok(())
    }

    /// Makes a file, directory or symbolic link.
    pub(super) fn add_entry(
        &self,
        directory: Node,
        name: &Name,
        kind: Kind,
        point: Option<&Reparse>,
    ) -> Result<Node> {
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
            let reference = core.take_record(false)?;
            let is_directory = kind == Kind::Directory;
            let mut flags = if kind == Kind::File { file_flags::ARCHIVE } else { 0 };
            if kind != Kind::SymbolicLink && self.cluster <= super::slow::LARGEST_COMPRESSED {
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
                core.place_value(&mut file, Type::REPARSE_POINT, reparse_to_bytes(point), true)?;
                self.enter_reparse(core, point.tag, reference)?;
            }
            self.add_name(core, &mut file, parent, name.units())?;
            core.store(file)?;
            self.stamp_directory(core, parent, now)?;
            Ok(reference)
        })?;
        self.touch(directory.0);
        let node = core.nodes.enter(reference.number());
        core.nodes.get_mut(node)?.handed_out += 1;
        Ok(Node(node))
    }

    /// The descriptor of what is made in a directory: the one for its kind that volumes have, else the directory's own.
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

    /// Gives a file, which is stored afterwards, a name in a directory.
    fn add_name(&self, core: &mut Core, file: &mut File, directory: u64, units: &[u16]) -> Result<()> {
        let above = core.file(directory)?;
        if file.links == u16::MAX {
            return Err(Error::NotPermitted("a file has at most 65,535 names"));
        }
        let facts = self.name_facts(core, file)?;
        // As Windows has names where it makes no short ones: one in the namespace of long names has a short one.
        let namespace = namespace::POSIX;
        let name = FileName { parent: above.reference, namespace, name: units.into(), ..facts };
        let value = name.to_bytes();
        core.index_insert(directory, Index::Names, &name_entry(file.reference, &value))?;
        file.links += 1;
        file.add(Attr::resident(Type::FILE_NAME, value));
        Ok(())
    }

    /// Takes a name from a file, which is stored afterwards; of a long and a short name that belong together, both.
    fn take_name(&self, core: &mut Core, file: &mut File, directory: u64, name: &FileName) -> Result<()> {
        let here: Vec<FileName> = names_of(file).filter(|other| other.parent.number() == directory).collect();
        let Some(own) = here.iter().find(|other| other.name == name.name) else {
            let place = core.record_place(file.reference.number())?;
            let expected = format!("the name {}", Name::from_units(&name.name));
            return Err(Error::damaged("file record", place, expected, "none of its parent"));
        };
        let with = |namespace: u8| here.iter().filter(move |other| other.namespace == namespace);
        let other = match own.namespace {
            // A file has one short name. Where several long ones could have it, it goes with the last of them.
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

    fn stamp_directory(&self, core: &mut Core, directory: u64, now: FileTime) -> Result<()> {
        if directory >= DETACHED {
            return Ok(());
        }
        let mut file = (*core.file(directory)?).clone();
        let mut standard = standard(&file)?;
        // Its named streams may have been written since it was last recorded: that was before now.
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

    fn enter_reparse(&self, core: &mut Core, tag: u32, file: Reference) -> Result<()> {
        match core.reparse_index {
            Some(index) => core.index_insert(index, Index::Reparse, &reparse_entry(tag, file)),
            None => Ok(()),
        }
    }

    fn leave_reparse(&self, core: &mut Core, tag: u32, file: Reference) -> Result<()> {
        let Some(index) = core.reparse_index else { return Ok(()) };
        match core.index_remove(index, Index::Reparse, &reparse_key(tag, file)) {
            Ok(_) | Err(Error::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

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

    /// Removes a file that has no name any more from the disk. While it is held it stays in memory, under the number
    /// that is returned. `last` is the file as it was with its name.
    fn remove_file(&self, core: &mut Core, file: File, last: &File) -> Result<Option<u64>> {
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
        if let Some(point) = reparse_of(core, &file)? {
            self.leave_reparse(core, point.tag, file.reference)?;
        }
        let mut kept = file.clone();
        kept.links = 0;
        kept.attributes.retain(|attr| attr.kind != Type::FILE_NAME && attr.kind != Type::OBJECT_ID);
        for attr in &file.attributes {
            let Body::Outside(outside) = &attr.body else { continue };
            match attr.kind {
                Type::INDEX_ALLOCATION | Type::BITMAP => {
                    core.give_runs(&outside.runs, Held::Metadata, true);
                    kept.attributes.retain(|kept| kept != attr);
                }
                _ if is_held => core.hide_runs(&outside.runs),
                _ => core.give_runs(&outside.runs, Held::Data, true),
            }
        }
        if file.find(Type::INDEX_ALLOCATION, Index::Names.units()).is_some() {
            core.drop_index(number);
        }
        core.give_runs(&file.list, Held::Data, true);
        core.free_records(last);
        core.forget_file(number);
        Ok(is_held.then(|| core.detach(kept)))
    }

    /// After a file was removed: its node, if there is one, leads to what stays in memory.
    fn moved_away(&self, core: &mut Core, number: u64, kept: Option<u64>) {
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
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        for node in parts.into_iter().chain([node]) {
            streams.remove(&node);
            core.nodes.remove(node);
        }
    }

    /// Removes a name, and the file if it was the last.
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
        let kept = core.transact(|core| {
            let kept = self.unname(core, &file, parent, &found.name)?;
            self.stamp_directory(core, parent, now)?;
            Ok(kept)
        })?;
        if let Some(kept) = kept {
            self.moved_away(&mut core, number, kept);
        }
        self.touch(directory.0);
        Ok(())
    }

    /// Takes a name from a file. `Some` if that was the last one.
    fn unname(
        &self,
        core: &mut Core,
        last: &File,
        directory: u64,
        name: &FileName,
    ) -> Result<Option<Option<u64>>> {
        let mut file = last.clone();
        self.take_name(core, &mut file, directory, name)?;
        if names_of(&file).next().is_none() {
            return self.remove_file(core, file, last).map(Some);
        }
        core.store(file)?;
        Ok(None)
    }

    /// Gives hand-outs back. A node that nobody holds is forgotten, and with it a file without a name.
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
                if core.frozen.is_none() {
                    // What cannot be recorded now waits for the commit, with the node.
                    if self.trim(core, node).is_err() || self.absorb_touched(core, node).is_err() {
                        return;
                    }
                }
            }
        } else if let Ok(file) = core.file(number) {
            let runs = file.attributes.iter().filter_map(Attr::outside).map(|outside| outside.runs.clone());
            let runs: Vec<_> = runs.collect();
            let _ = core.transact(|core| {
                runs.iter().for_each(|runs| core.give_runs(runs, Held::Data, false));
                core.forget_file(number);
                Ok(())
            });
        }
        // A node with a name stays known for a while: its number may still be asked for, and soon again.
        let is_named = number < DETACHED && !is_part;
        if !is_named {
            self.drop_node(core, node);
            return;
        }
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        for node in parts.into_iter().chain([node]) {
            streams.remove(&node);
            if let Ok(entity) = core.nodes.get_mut(node) {
                entity.stream = None;
            }
        }
        drop(streams);
        if let Some(oldest) = core.nodes.set_idle(node)
            && !self.is_held(core, oldest)
            && core.nodes.get(oldest).is_ok_and(|entity| entity.stream.is_none())
            && !self.touched.lock().unwrap_or_else(PoisonError::into_inner).contains(&oldest)
        {
            self.drop_node(core, oldest);
        }
    }

    fn absorb_touched(&self, core: &mut Core, node: u64) -> Result<()> {
        let was_touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner).remove(&node);
        if !was_touched {
            return Ok(());
        }
        self.absorb_node(core, node).inspect_err(|_| self.touch(node))
    }

    /// Gives a file a further name.
    pub(super) fn add_link(&self, node: Node, directory: Node, name: &Name) -> Result<()> {
        let now = FileTime(self.now());
        let mut core = self.change()?;
        let parent = self.living_directory(&mut core, directory)?;
        self.capabilities.names.check(name)?;
        let entity = core.nodes.get(node.0)?;
        let (number, is_part) = (entity.file, entity.part.is_some());
        let file = core.file(number)?;
        if !is_part && file.flags & record_flags::DIRECTORY != 0 {
            return Err(Error::IsADirectory);
        }
        if is_part {
            return Err(Error::InvalidArgument("a named stream has no names of its own"));
        }
        // What was removed has no name that another could join.
        if number >= DETACHED {
            return Err(Error::NotFound);
        }
        if self.entry(&mut core, parent, name)?.is_some() {
            return Err(Error::Exists);
        }
        let file = (*file).clone();
        core.transact(|core| {
            let mut file = file;
            self.add_name(core, &mut file, parent, name.units())?;
            core.store(file)?;
            self.stamp_directory(core, parent, now)
        })?;
        self.touch(directory.0);
        self.touch(node.0);
        Ok(())
    }

    /// Whether a directory is `above` or lies somewhere below it.
    fn is_inside(&self, core: &mut Core, directory: u64, above: u64) -> Result<bool> {
        let mut at = directory;
        for _ in 0..4096 {
            if at == above {
                return Ok(true);
            }
            if at == record_number::ROOT || at >= DETACHED {
                return Ok(false);
            }
            let file = core.file(at)?;
            let Some(name) = names_of(&file).next() else { return Ok(false) };
            at = name.parent.number();
        }
        Err(Error::damaged("directory", 0, "a way to the root", "more than 4096 directories"))
    }

    /// Moves an entry.
    pub(super) fn move_entry(
        &self,
        from: Node,
        name: &Name,
        to: Node,
        new_name: &Name,
        flags: RenameFlags,
    ) -> Result<()> {
        let now = FileTime(self.now());
        let mut core = self.change()?;
        let old = self.directory(&mut core, from)?;
        let source = self.shown(&mut core, old, name)?.ok_or(Error::NotFound)?;
        let new = self.living_directory(&mut core, to)?;
        self.capabilities.names.check(new_name)?;
        let file = core.file_at(source.reference)?;
        let number = file.reference.number();
        let is_directory = self.is_directory(&mut core, &file)?;
        if is_directory && self.is_inside(&mut core, new, number)? {
            return Err(Error::IntoItself);
        }
        let target = self.entry(&mut core, new, new_name)?;
        if target.as_ref().is_some_and(|target| target.reference.number() < record_number::FIRST_FREE) {
            return Err(Error::Exists);
        }
        let is_same_entry = |target: &Found| {
            target.reference == source.reference
                && (old == new)
                && (target.name.name == source.name.name || is_pair(&target.name, &source.name))
        };
        match (flags, target) {
            (RenameFlags::Exchange, None) => Err(Error::NotFound),
            (RenameFlags::Exchange, Some(target)) => {
                if target.reference == source.reference {
                    return Ok(());
                }
                let other = core.file_at(target.reference)?;
                if self.is_directory(&mut core, &other)?
                    && self.is_inside(&mut core, old, other.reference.number())?
                {
                    return Err(Error::IntoItself);
                }
                core.transact(|core| {
                    let (mut one, mut two) = ((*file).clone(), (*other).clone());
                    self.take_name(core, &mut one, old, &source.name)?;
                    self.take_name(core, &mut two, new, &target.name)?;
                    self.add_name(core, &mut one, new, &target.name.name)?;
                    self.add_name(core, &mut two, old, &source.name.name)?;
                    core.store(one)?;
                    core.store(two)?;
                    self.stamp_directory(core, old, now)?;
                    self.stamp_directory(core, new, now)
                })?;
                self.touch_all(&mut core, &[from.0, to.0], &[number, other.reference.number()]);
                Ok(())
            }
            (_, Some(target)) if is_same_entry(&target) && *source.name.name == *new_name.units() => Ok(()),
            (RenameFlags::NoReplace, Some(target)) if !is_same_entry(&target) => Err(Error::Exists),
            (_, Some(target)) if !is_same_entry(&target) && target.reference == source.reference => Ok(()),
            (_, target) => {
                let replaced = target.filter(|target| !is_same_entry(target));
                let mut gone = None;
                if let Some(target) = &replaced {
                    let other = core.file_at(target.reference)?;
                    let other_is_directory = self.is_directory(&mut core, &other)?;
                    match (is_directory, other_is_directory) {
                        (true, true) if !core.index_is_empty(other.reference.number(), Index::Names)? => {
                            return Err(Error::NotEmpty);
                        }
                        (true, false) => return Err(Error::NotADirectory),
                        (false, true) => return Err(Error::IsADirectory),
                        _ => {}
                    }
                    deletable(&other)?;
                    gone = Some(other);
                }
                let kept = core.transact(|core| {
                    let mut kept = None;
                    if let (Some(target), Some(other)) = (&replaced, &gone) {
                        kept = self.unname(core, other, new, &target.name)?;
                    }
                    let mut file = (*core.file(number)?).clone();
                    self.take_name(core, &mut file, old, &source.name)?;
                    self.add_name(core, &mut file, new, new_name.units())?;
                    core.store(file)?;
                    self.stamp_directory(core, old, now)?;
                    self.stamp_directory(core, new, now)?;
                    Ok(kept)
                })?;
                if let (Some(kept), Some(other)) = (kept, gone) {
                    self.moved_away(&mut core, other.reference.number(), kept);
                }
                self.touch_all(&mut core, &[from.0, to.0], &[number]);
                Ok(())
            }
        }
    }

    fn touch_all(&self, core: &mut Core, nodes: &[u64], files: &[u64]) {
        nodes.iter().for_each(|node| self.touch(*node));
        files.iter().filter_map(|file| core.nodes.of_file(*file)).for_each(|node| self.touch(node));
    }

    fn is_directory(&self, core: &mut Core, file: &File) -> Result<bool> {
        Ok(file.flags & record_flags::DIRECTORY != 0 && !is_link(core, file)?)
    }

    /// Gives a file another reparse point, or takes it away.
    pub(super) fn change_reparse_point(&self, node: Node, point: Option<&Reparse>) -> Result<()> {
        if point.is_some_and(|point| point.tag == 0 || point.data.len() > 16 << 10) {
            return Err(Error::InvalidArgument("a reparse point has a tag and at most 16 KiB of data"));
        }
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
            if let Some(old) = reparse_of(core, &file)?
                && on_disk
            {
                self.leave_reparse(core, old.tag, file.reference)?;
            }
            core.remove_value(&mut file, Type::REPARSE_POINT, on_disk);
            let mut standard = standard(&file)?;
            standard.flags &= !file_flags::REPARSE;
            standard.changed = now;
            if let Some(point) = point {
                standard.flags |= file_flags::REPARSE;
                core.place_value(&mut file, Type::REPARSE_POINT, reparse_to_bytes(point), on_disk)?;
                if on_disk {
                    self.enter_reparse(core, point.tag, file.reference)?;
                }
            }
            file.put(Attr::resident(Type::STANDARD_INFORMATION, standard.to_bytes()));
            core.store(file)
        })?;
        if let Some(stream) = &core.nodes.get(node.0)?.stream {
            stream.is_link.store(becomes, Ordering::SeqCst);
        }
        self.touch(node.0);
        Ok(())
    }
}

/// Whether two names are the long and the short one of the same entry.
fn is_pair(one: &FileName, other: &FileName) -> bool {
    let kinds = (one.namespace, other.namespace);
    kinds == (namespace::WIN32, namespace::DOS) || kinds == (namespace::DOS, namespace::WIN32)
}

fn deletable(file: &File) -> Result<()> {
    if standard(file)?.flags & file_flags::READ_ONLY != 0 {
        return Err(Error::NotPermitted("it has the read-only attribute"));
    }
    Ok(())
}

fn units_of(key: &[u8]) -> Vec<u16> {
    FileName::units_of(key).unwrap_or(&[]).iter().map(|unit| u16::from_le_bytes(*unit)).collect()
}

/// The attributes that a directory's entry tells.
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
