//! Names: looking up, making, removing, renaming and linking.

use super::streams::give_extended;
use super::{ListedRow, NAMES, RefsVolume};
use crate::attributes;
use crate::core::{Core, Entity, FIRST_OBJECT, Id, RecordPlace};
use crate::extents::Form;
use crate::format::{add_directory, directory_rows};
use crate::layout::attribute::OBJECT_LINK;
use crate::layout::record::key;
use crate::layout::{NumberRow, ParentChildRow, Record, Root, ShortEntry, make_object_link, object_link};
use crate::stream::{Limits, Storing, Stream, StreamState, store_data};
use platter_vfs::{Error, Kind, Name, NewEntry, Node, RenameFlags, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl RefsVolume {
    /// Returns the node that a row leads to, which is taken into use if it is not in use yet.
    fn open_row(&self, core: &mut Core, directory: u64, row_key: &[u8], row: ListedRow) -> Result<u64> {
        let id = row.id(directory);
        if let Some(node) = core.node_of(id) {
            return Ok(node);
        }
        match row {
            ListedRow::Long(record) => {
                core.open_file(id, RecordPlace::Long { directory, name: key::units(row_key) }, *record)
            }
            ListedRow::Short(short) if short.is_directory() => core.open_directory(short.object),
            ListedRow::Short(short) => {
                let (tree, pages) = core.tree(short.object)?;
                let record = tree.get(pages, &key::body(short.ordinal, short.object), |row| {
                    Record::from_bytes(row.value, 0)
                })?;
                let record = record.transpose()?.ok_or_else(|| {
                    let body = format!("the body {} in directory {:#x}", short.ordinal, short.object);
                    Error::damaged("short directory entry", 0, body, "none")
                })?;
                core.open_file(id, RecordPlace::Body, record)
            }
        }
    }

    /// Looks a name up and hands its node out to the caller. The case of letters counts only if `exact`.
    pub(super) fn find(&self, directory: Node, name: &Name, exact: bool) -> Result<Node> {
        let mut core = self.core();
        let object = core.living_directory(directory)?;
        let found = self.row(&mut core, object, name)?;
        let found = found.filter(|(row_key, _)| !exact || key::units(row_key) == name.units());
        let (row_key, row) = found.ok_or(Error::NotFound)?;
        let node = self.open_row(&mut core, object, &row_key, row)?;
        self.hand_out(&mut core, node)
    }

    /// Returns the file or directory that this number stands for, and hands it out. Windows opens files so that are named by
    /// their identifier.
    pub(super) fn find_numbered(&self, number: Node) -> Result<Node> {
        if number == Node::ROOT {
            return Ok(number);
        }
        let mut core = self.core();
        if let Ok(entity) = core.entity(number.0) {
            return match entity.place {
                RecordPlace::Nowhere | RecordPlace::Part { .. } => Err(Error::NotFound),
                _ => self.hand_out(&mut core, number.0),
            };
        }
        let node = match Id::of_node(number.0).ok_or(Error::NotFound)? {
            Id::Directory(object) => core.open_directory(object)?,
            Id::File(home, ordinal) => self.open_numbered(&mut core, home, ordinal)?,
            _ => return Err(Error::NotFound),
        };
        if node != number.0 {
            core.forget_idle(node)?;
            return Err(Error::NotFound);
        }
        self.hand_out(&mut core, node)
    }

    /// Opens the file that has this number in its home directory.
    fn open_numbered(&self, core: &mut Core, home: u64, ordinal: u64) -> Result<u64> {
        let id = Id::File(home, ordinal);
        let (tree, pages) = core.tree(home)?;
        let body = tree.get(pages, &key::body(ordinal, home), |row| Record::from_bytes(row.value, 0))?;
        if let Some(record) = body {
            return core.open_file(id, RecordPlace::Body, record?);
        }
        let (tree, pages) = core.tree(home)?;
        let row = tree.get(pages, &key::number(ordinal), |row| NumberRow::from_bytes(row.value))?;
        let Some(NumberRow::Name(name)) = row else { return Err(Error::NotFound) };
        match self.row(core, home, &Name::from_units(&name))? {
            Some((row_key, ListedRow::Long(record))) if record.ordinal == ordinal => {
                self.open_row(core, home, &row_key, ListedRow::Long(record))
            }
            _ => Err(Error::NotFound),
        }
    }

    /// Updates the times of a directory whose names changed.
    fn touch_directory(&self, core: &mut Core, directory: u64, now: u64) -> Result<()> {
        let node = core.open_directory(directory)?;
        let entity = core.entity_mut(node)?;
        entity.note_change(now);
        entity.record.times[1] = now;
        Ok(())
    }

    pub(super) fn create_entry(
        &self,
        core: &mut Core,
        directory: Node,
        name: &Name,
        new: &NewEntry<'_>,
    ) -> Result<Node> {
        let now = self.now();
        let object = core.changeable_directory(directory)?;
        NAMES.check(name)?;
        if self.row(core, object, name)?.is_some() {
            return Err(Error::Exists);
        }
        let above = core.entity(directory.0)?;
        let inherited = above.record.attributes & Record::INTEGRITY;
        let version = self.geometry.version;
        // Nothing is changed before it is known that the record fits.
        let node = match new.kind {
            Kind::Directory => {
                let security = above_security(core, directory)?;
                let attributes = Record::DIRECTORY | inherited;
                let mut record = Record::new(version.directory_schema(), now, attributes, security);
                record.rows = directory_rows(object, name.units());
                give_extended(&mut record, new.extended)?;
                core.new_record_fits(&record, key::OWN.len())?;
                let number = core.new_object_number();
                let ordinal = if version.keeps_homes() { 0 } else { core.new_ordinal(object)? };
                let attributes = record.attributes;
                add_directory(core, number, object, &record, 1)?;
                let short = ShortEntry {
                    ordinal,
                    object: number,
                    times: [now; 4],
                    allocated: 0,
                    size: 0,
                    attributes,
                };
                core.put_short(object, name.units(), &short)?;
                core.open_directory(number)?
            }
            kind => {
                let security = core.security;
                let attributes = if kind == Kind::File { 0x20 | inherited } else { 0 };
                let mut record = Record::new(version.file_schema(), now, attributes, security);
                attributes::set_reparse_point(&mut record, new.point);
                if attributes::unreadable(&record).is_some() {
                    return Err(attributes::elsewhere());
                }
                give_extended(&mut record, new.extended)?;
                let row_key = key::name(key::LONG, name.units());
                core.new_record_fits(&record, row_key.len())?;
                let ordinal = core.new_ordinal(object)?;
                record.ordinal = ordinal;
                let place = RecordPlace::Long { directory: object, name: name.units().to_vec() };
                let id = Id::File(object, ordinal);
                let node = core.node_for(id);
                let state = StreamState::empty(attributes & Record::INTEGRITY != 0);
                let stream = Some(Arc::new(Stream::new(node, state, false, Limits::default())));
                let is_link = kind == Kind::SymbolicLink;
                stream.iter().for_each(|stream| stream.is_link.store(is_link, Ordering::SeqCst));
                let mut row = record.clone();
                if let Some(stream) = &stream {
                    let integrity = attributes & Record::INTEGRITY != 0;
                    let mut storing =
                        Storing { form: Form::Roomy, integrity, pages: &mut core.pages, clock: 0 };
                    row.rows.extend(store_data(&mut stream.write(), 1, &mut storing)?);
                }
                let (tree, pages) = core.tree_mut(object)?;
                tree.put(pages, &row_key, 1, &row.to_bytes())?;
                core.put_number(object, ordinal, &NumberRow::Name(name.units().to_vec()))?;
                core.index_reparse(&record, id, true)?;
                let entity =
                    Entity { id, place, record, stream, named: Vec::new(), handed_out: 0, only_read: None };
                core.insert(entity, node)
            }
        };
        self.touch_directory(core, object, now)?;
        self.hand_out(core, node)
    }

    pub(super) fn remove_entry(
        &self,
        core: &mut Core,
        directory: Node,
        name: &Name,
        is_directory: bool,
    ) -> Result<()> {
        let now = self.now();
        let object = core.changeable_directory(directory)?;
        let (row_key, row) = self.row(core, object, name)?.ok_or(Error::NotFound)?;
        let node = self.open_row(core, object, &row_key, row)?;
        let removed =
            self.removable(core, node, is_directory).and_then(|()| self.unname(core, object, &row_key, node));
        let removed = removed.and_then(|()| self.touch_directory(core, object, now));
        core.forget_idle(node)?;
        removed
    }

    /// Returns an error if a name of this node may not be removed.
    fn removable(&self, core: &mut Core, node: u64, is_directory: bool) -> Result<()> {
        core.changeable(node)?;
        let entity = core.entity(node)?;
        let found_directory = entity.kind() == Kind::Directory;
        match (is_directory, found_directory) {
            (true, false) => return Err(Error::NotADirectory),
            (false, true) => return Err(Error::IsADirectory),
            _ => {}
        }
        if let Id::Directory(object) = entity.id
            && self.has_names(core, object)?
        {
            return Err(Error::NotEmpty);
        }
        match core.entity(node)?.record.attributes & 1 {
            0 => Ok(()),
            _ => Err(Error::NotPermitted("it has the read-only attribute")),
        }
    }

    /// Removes one name of a node, and with the last name the node's record.
    fn unname(&self, core: &mut Core, directory: u64, row_key: &[u8], node: u64) -> Result<()> {
        let entity = core.entity(node)?;
        if entity.place != RecordPlace::Body || entity.record.links < 2 {
            core.load_streams(node, false)?;
        }
        let entity = core.entity(node)?;
        match (entity.id, entity.place.clone()) {
            (Id::Directory(object), _) => {
                self.rehome_bodies(core, object)?;
                let (tree, pages) = core.tree(directory)?;
                let short =
                    tree.get(pages, row_key, |row| ShortEntry::from_bytes(row.value, 0))?.transpose()?;
                let ordinal = short.map_or(0, |short| short.ordinal);
                core.unindex_directory(node, ordinal, directory)?;
                core.forget_number(directory, ordinal)?;
                let (tree, pages) = core.root(Root::ParentChild);
                tree.remove(pages, &ParentChildRow { above: directory, child: object }.to_bytes())?;
                let (tree, pages) = core.tree_mut(directory)?;
                tree.remove(pages, row_key)?;
                core.remove_object(object)?;
                let entity = core.entity_mut(node)?;
                entity.place = RecordPlace::Nowhere;
                let streams: Vec<Arc<Stream>> =
                    entity.named.iter().map(|named| named.stream.clone()).collect();
                streams.iter().try_for_each(|stream| core.orphan_stream(stream))?;
            }
            (Id::File(home, ordinal), RecordPlace::Body) => {
                let name = key::units(row_key);
                let (tree, pages) = core.tree_mut(directory)?;
                tree.remove(pages, row_key)?;
                let now = self.now();
                let entity = core.entity_mut(node)?;
                entity.note_change(now);
                entity
                    .record
                    .take(|row| row.kind() == OBJECT_LINK && object_link(row) == (directory, name.clone()));
                entity.record.links = entity.record.links.saturating_sub(1);
                if entity.record.links == 0 {
                    let (tree, pages) = core.tree_mut(home)?;
                    tree.remove(pages, &key::body(ordinal, home))?;
                    core.forget_number(home, ordinal)?;
                    self.orphan(core, node)?;
                }
            }
            (id, _) => {
                let (tree, pages) = core.tree_mut(directory)?;
                tree.remove(pages, row_key)?;
                if let Id::File(home, ordinal) = id {
                    core.forget_number(home, ordinal)?;
                }
                self.orphan(core, node)?;
            }
        }
        core.news = true;
        Ok(())
    }

    /// Makes a file nameless whose last name was removed. Its clusters are given back when no caller holds the node any
    /// more; after a power cut they are free at once.
    fn orphan(&self, core: &mut Core, node: u64) -> Result<()> {
        let (record, id) = (core.entity(node)?.record.clone(), core.entity(node)?.id);
        core.index_reparse(&record, id, false)?;
        let entity = core.entity_mut(node)?;
        entity.place = RecordPlace::Nowhere;
        entity.record.links = 0;
        let streams: Vec<Arc<Stream>> = entity.all_streams().cloned().collect();
        core.rename_id(node, Id::Nameless(node));
        streams.iter().try_for_each(|stream| core.orphan_stream(stream))
    }

    pub(super) fn link_entry(&self, core: &mut Core, node: Node, directory: Node, name: &Name) -> Result<()> {
        if !self.capabilities.hard_links {
            return Err(Error::Unsupported { format: "ReFS before 3.14", what: "hard links" });
        }
        let now = self.now();
        let object = core.changeable_directory(directory)?;
        NAMES.check(name)?;
        core.changeable(node.0)?;
        let entity = core.entity(node.0)?;
        match (entity.kind(), &entity.place) {
            (Kind::Directory, _) | (_, RecordPlace::Directory { .. }) => return Err(Error::IsADirectory),
            (_, RecordPlace::Nowhere) => return Err(Error::NotFound),
            (_, RecordPlace::Part { .. }) => {
                return Err(Error::InvalidArgument("a named stream has no names of its own"));
            }
            _ => {}
        }
        if self.row(core, object, name)?.is_some() {
            return Err(Error::Exists);
        }
        let entity = core.entity_mut(node.0)?;
        entity.absorb_written();
        let (before, place) = (entity.record.clone(), entity.place.clone());
        if let RecordPlace::Long { directory, name } = &place {
            entity.record.rows.push(make_object_link(*directory, name));
            entity.place = RecordPlace::Body;
        }
        entity.record.rows.push(make_object_link(object, name.units()));
        entity.record.links += 1;
        entity.record.times[2] = now;
        if let Err(error) = self.make_fit(core, node.0, None) {
            let entity = core.entity_mut(node.0)?;
            (entity.record, entity.place) = (before, place);
            return Err(match error {
                Error::RecordFull { format, what } => Error::TooManyLinks { format, what },
                error => error,
            });
        }
        core.note_changed(node.0);
        match place {
            RecordPlace::Long { directory, name } => self.leave_row(core, node.0, directory, &name)?,
            _ => self.put_short(core, node.0, object, name.units())?,
        }
        self.touch_directory(core, object, now)
    }

    /// Puts a short row for a name of a file with several.
    fn put_short(&self, core: &mut Core, node: u64, directory: u64, name: &[u16]) -> Result<()> {
        let entity = core.entity(node)?;
        let Id::File(home, ordinal) = entity.id else { return Ok(()) };
        let short = ShortEntry::of_body(home, ordinal, &entity.record);
        core.put_short(directory, name, &short)
    }

    pub(super) fn rename_entry(
        &self,
        core: &mut Core,
        from: Node,
        name: &Name,
        to: Node,
        new_name: &Name,
        flags: RenameFlags,
    ) -> Result<()> {
        let now = self.now();
        let source_directory = core.changeable_directory(from)?;
        let (source_key, source) = self.row(core, source_directory, name)?.ok_or(Error::NotFound)?;
        let node = self.open_row(core, source_directory, &source_key, source)?;
        let renamed = (|| {
            let target_directory = core.changeable_directory(to)?;
            NAMES.check_moved(name, new_name)?;
            core.changeable(node)?;
            let is_directory = core.entity(node)?.kind() == Kind::Directory;
            let old_length = key::units(&source_key).len();
            self.prepare_move(core, node, source_directory, target_directory, old_length, new_name)?;
            if let Some((target_key, target)) = self.row(core, target_directory, new_name)? {
                let same_row = target_directory == source_directory && target_key == source_key;
                if same_row && key::units(&source_key) == new_name.units() {
                    return Ok(());
                }
                if !same_row {
                    if flags == RenameFlags::NoReplace {
                        return Err(Error::Exists);
                    }
                    let replaced = self.open_row(core, target_directory, &target_key, target)?;
                    if replaced == node {
                        return Ok(());
                    }
                    // Who names a file in another spelling may not know that it is there, so it is not replaced.
                    if key::units(&target_key) != new_name.units() {
                        core.forget_idle(replaced)?;
                        return Err(Error::Exists);
                    }
                    let allowed = match (is_directory, core.entity(replaced)?.kind() == Kind::Directory) {
                        (true, false) => Err(Error::NotADirectory),
                        (false, true) => Err(Error::IsADirectory),
                        (_, directory) => self.removable(core, replaced, directory),
                    };
                    let gone =
                        allowed.and_then(|()| self.unname(core, target_directory, &target_key, replaced));
                    core.forget_idle(replaced)?;
                    gone?;
                }
            }
            self.move_entry(core, node, source_directory, &source_key, target_directory, new_name)?;
            core.entity_mut(node)?.note_change(now);
            self.touch_directory(core, source_directory, now)?;
            self.touch_directory(core, target_directory, now)
        })();
        core.forget_idle(node)?;
        renamed
    }

    /// Has two entries change places. This takes three moves, which are all in the same commit.
    pub(super) fn exchange(&self, core: &mut Core, one: (Node, &Name), two: (Node, &Name)) -> Result<()> {
        let now = self.now();
        let from = core.changeable_directory(one.0)?;
        let (source_key, source) = self.row(core, from, one.1)?.ok_or(Error::NotFound)?;
        let node = self.open_row(core, from, &source_key, source)?;
        let exchanged = (|| {
            let to = core.changeable_directory(two.0)?;
            NAMES.check(two.1)?;
            if let Id::Directory(object) = core.entity(node)?.id
                && self.is_inside(core, to, object)?
            {
                return Err(Error::IntoItself);
            }
            let (target_key, target) = self.row(core, to, two.1)?.ok_or(Error::NotFound)?;
            let other = self.open_row(core, to, &target_key, target)?;
            let exchanged =
                self.exchange_rows(core, (from, &source_key, node), (to, &target_key, other), now);
            core.forget_idle(other)?;
            exchanged
        })();
        core.forget_idle(node)?;
        exchanged
    }

    fn exchange_rows(
        &self,
        core: &mut Core,
        (from, source_key, node): (u64, &[u8], u64),
        (to, target_key, other): (u64, &[u8], u64),
        now: u64,
    ) -> Result<()> {
        if node == other {
            return Ok(());
        }
        core.changeable(node)?;
        core.changeable(other)?;
        let (old_name, new_name) = (key::units(source_key), key::units(target_key));
        let between = self.free_name(core, from)?;
        let longest = [&old_name[..], &new_name, between.units()].into_iter().max_by_key(|name| name.len());
        let longest = Name::from_units(longest.unwrap_or_default());
        self.prepare_move(core, node, from, to, old_name.len(), &longest)?;
        self.prepare_move(core, other, to, from, new_name.len(), &longest)?;
        self.move_entry(core, node, from, source_key, from, &between)?;
        self.move_entry(core, other, to, target_key, from, &Name::from_units(&old_name))?;
        let between = self.row(core, from, &between)?.ok_or(Error::NotFound)?.0;
        self.move_entry(core, node, from, &between, to, &Name::from_units(&new_name))?;
        core.entity_mut(node)?.note_change(now);
        core.entity_mut(other)?.note_change(now);
        self.touch_directory(core, from, now)?;
        self.touch_directory(core, to, now)
    }

    /// Returns a short name that a directory does not have, for an entry during an exchange.
    fn free_name(&self, core: &mut Core, directory: u64) -> Result<Name> {
        for unit in '\u{e000}'..'\u{f000}' {
            let name = Name::from(unit.to_string().as_str());
            if self.row(core, directory, &name)?.is_none() {
                return Ok(name);
            }
        }
        Err(Error::NoSpace)
    }
}

const ROOT: u64 = crate::core::ROOT_DIRECTORY;
const _: () = assert!(FIRST_OBJECT > ROOT);

/// New directories get the security descriptor of the one above.
fn above_security(core: &Core, directory: Node) -> Result<u64> {
    Ok(core.entity(directory.0)?.record.security)
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_vfs::{FileSystem, Names, OpenOptions};

    /// Windows makes such names for programs that ask for them with a path that begins with `\\?\`.
    #[test]
    fn a_name_that_no_new_file_may_have_is_found_and_changed() {
        let volume = RefsVolume::open(crate::tests::unknown::with_a_file(), OpenOptions::default()).unwrap();
        let [allowed, other] = ["file", "file. "].map(Name::from);
        let mut core = volume.grow().unwrap();
        let object = core.changeable_directory(Node::ROOT).unwrap();
        let (tree, pages) = core.tree_mut(object).unwrap();
        let [old, new] = [&allowed, &other].map(|name| key::name(key::LONG, name.units()));
        let row = tree.get(pages, &old, |row| row.value.to_vec()).unwrap().unwrap();
        tree.remove(pages, &old).unwrap();
        tree.put(pages, &new, 0, &row).unwrap();
        drop(core);
        let file = volume.lookup(Node::ROOT, &other).unwrap();
        let mut read = [0; 5000];
        assert_eq!(volume.read(file, 0, &mut read).unwrap(), 5000);
        assert_eq!(read, [7; 5000]);
        let refused = volume.rename(Node::ROOT, &other, Node::ROOT, &"?".into(), RenameFlags::default());
        assert!(matches!(refused, Err(Error::InvalidName { .. })), "{refused:?}");
        volume.rename(Node::ROOT, &other, Node::ROOT, &allowed, RenameFlags::default()).unwrap();
        volume.unlink(Node::ROOT, &allowed).unwrap();
        volume.unmount().unwrap();
    }
}
