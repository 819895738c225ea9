//! Moving entries to other names and directories, and where the records of files are.
//!
//! A file's *home* is the directory that it was made in. There it has its number, which with the home identifies it to
//! Windows. The record of a file with one name stands in the row of that name as long as the file is at home. When the
//! file moves to another directory, or gets a second name, the record goes to a row of its own, which stays in the
//! home, and the names have short rows. It does not go back.
//!
//! Windows keeps a file's home forever. Here a home that is removed is replaced by the directory of one of the file's
//! names: what Windows does with such a home is not known, and every reader finds files in a home that has a name.

use super::RefsVolume;
use super::changing::TO_CHANGE;
use crate::core::{Core, Id, RecordPlace};
use crate::layout::attribute::OBJECT_LINK;
use crate::layout::node::row_size;
use crate::layout::record::key;
use crate::layout::{
    NumberRow, ParentChildRow, Record, Root, ShortEntry, make_object_link, object_link, object_links,
};
use crate::tree::Tree;
use platter_vfs::{Error, Kind, Name, Result};

impl RefsVolume {
    /// Stores the record of a file in a row of its own, which was in the row of its only name. Its links are in the
    /// record already, and their short rows are put.
    pub(super) fn leave_row(&self, core: &mut Core, node: u64, directory: u64, name: &[u16]) -> Result<()> {
        let (tree, pages) = core.tree_mut(directory)?;
        tree.remove(pages, &key::name(key::LONG, name))?;
        if let Id::File(home, ordinal) = core.entity(node)?.id {
            core.put_number(home, ordinal, &NumberRow::Body(ordinal, home))?;
        }
        // The record is stored at once, since it is found by its number from now on, also when this directory is
        // removed.
        let clock = core.checkpoint.clock + 1;
        core.store_entity(node, clock)
    }

    /// Whether a file whose record is in the row of its name in `from` can keep its home when it gets this name in
    /// `to`: the record must have room for a link. Content may be moved out of the record for that.
    fn keeps_home(&self, core: &mut Core, node: u64, to: u64, name: &[u16]) -> Result<bool> {
        if !self.geometry.version.keeps_homes() {
            return Ok(false);
        }
        let entity = core.entity_mut(node)?;
        entity.absorb_written();
        let place = std::mem::replace(&mut entity.place, RecordPlace::Body);
        entity.record.rows.push(make_object_link(to, name));
        let fits = self.make_fit(core, node, None);
        let entity = core.entity_mut(node)?;
        entity.record.rows.pop();
        entity.place = place;
        match fits {
            Ok(()) => Ok(true),
            Err(Error::RecordFull { .. } | Error::NoSpace) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Moves the records of files out of their home, which is about to be removed, each to the directory of one of its
    /// names.
    pub(super) fn rehome_bodies(&self, core: &mut Core, object: u64) -> Result<()> {
        let mut bodies = Vec::new();
        let (tree, pages) = core.tree(object)?;
        // All rows are read, not only those wanted: a directory with a page that cannot be read must not be removed, as
        // that page could not be given back.
        tree.scan(pages, &[], |row| {
            if key::kind(row.key) == key::BODY {
                bodies.push((key::ordinal(row.key), Record::from_bytes(row.value, 0)?));
            }
            Ok(true)
        })?;
        let open = |(ordinal, record)| core.open_file(Id::File(object, ordinal), RecordPlace::Body, record);
        let nodes: Vec<u64> = bodies.into_iter().map(open).collect::<Result<_>>()?;
        let changeable = nodes.iter().try_for_each(|&node| core.changeable(node));
        if changeable.is_err() {
            nodes.iter().try_for_each(|&node| core.forget_idle(node))?;
        }
        changeable?;
        // Each record is stored with all its names, and both its old and its new directory change.
        let mut pages = 0;
        for &node in &nodes {
            pages += core.pages_to_move(node)?;
        }
        if !core.spares(TO_CHANGE + pages) {
            return Err(Error::NoSpace);
        }
        for node in nodes {
            core.load_streams(node, true)?;
            let home = object_links(&core.entity(node)?.record.rows)
                .map(|(directory, _)| directory)
                .find(|&directory| directory != object);
            let home = home.ok_or_else(|| {
                Error::damaged("file that is not at home", 0, "a name in another directory", "none")
            })?;
            let ordinal = core.rehome(node, home)?;
            core.put_number(home, ordinal, &NumberRow::Body(ordinal, home))?;
            // The record is stored at once, since it is found by its new number from now on.
            let clock = core.checkpoint.clock + 1;
            core.store_entity(node, clock)?;
        }
        Ok(())
    }

    /// Refuses a move to another directory that is not possible, and a name that the record has no room for. Loads the
    /// streams of a file whose record moves to another directory.
    pub(super) fn prepare_move(
        &self,
        core: &mut Core,
        node: u64,
        from: u64,
        to: u64,
        old_length: usize,
        new_name: &Name,
    ) -> Result<()> {
        let entity = core.entity(node)?;
        let is_directory = entity.kind() == Kind::Directory;
        if let (true, Id::Directory(object)) = (is_directory, entity.id)
            && self.is_inside(core, to, object)?
        {
            return Err(Error::IntoItself);
        }
        core.fits_renamed(node, old_length, new_name.units().len())?;
        let is_in_row = matches!(core.entity(node)?.place, RecordPlace::Long { .. });
        if from != to && is_in_row && !self.keeps_home(core, node, to, new_name.units())? {
            core.load_streams(node, true)?;
        }
        Ok(())
    }

    /// Moves an entry to another name. The row of a record that stays in the row of its name is stored anew at the next
    /// commit; until then the old value in the tree is good enough for lookups.
    pub(super) fn move_entry(
        &self,
        core: &mut Core,
        node: u64,
        from: u64,
        row_key: &[u8],
        to: u64,
        name: &Name,
    ) -> Result<()> {
        let entity = core.entity_mut(node)?;
        let (id, place) = (entity.id, entity.place.clone());
        let units = name.units().to_vec();
        match (id, place) {
            (Id::Directory(object), _) => self.move_directory(core, (node, object), from, row_key, to, units),
            (Id::File(..), RecordPlace::Body) => self.move_name(core, node, from, row_key, to, units),
            (Id::File(..), RecordPlace::Long { name: old, .. })
                if from != to && self.keeps_home(core, node, to, &units)? =>
            {
                let entity = core.entity_mut(node)?;
                entity.record.rows.push(make_object_link(to, &units));
                entity.place = RecordPlace::Body;
                core.note_changed(node);
                self.leave_row(core, node, from, &old)
            }
            _ => self.move_record(core, node, from, row_key, to, units),
        }
    }

    fn move_directory(
        &self,
        core: &mut Core,
        (node, object): (u64, u64),
        from: u64,
        row_key: &[u8],
        to: u64,
        units: Vec<u16>,
    ) -> Result<()> {
        let (tree, pages) = core.tree(from)?;
        let short = tree.get(pages, row_key, |row| ShortEntry::from_bytes(row.value, 0))?.transpose()?;
        let mut short = short.ok_or(Error::NotFound)?;
        if from != to {
            core.forget_number(from, short.ordinal)?;
            let record = core.entity(node)?.record.clone();
            core.unindex_directory(node, short.ordinal, from)?;
            core.index_reparse(&record, Id::Directory(object), true)?;
            short.ordinal = if self.geometry.version.keeps_homes() { 0 } else { core.new_ordinal(to)? };
            let (tree, pages) = core.root(Root::ParentChild);
            tree.remove(pages, &ParentChildRow { above: from, child: object }.to_bytes())?;
            let row = ParentChildRow { above: to, child: object }.to_bytes();
            tree.put(pages, &row, 0, &row)?;
        }
        let (tree, pages) = core.tree_mut(from)?;
        tree.remove(pages, row_key)?;
        core.put_short(to, &units, &short)?;
        let entity = core.entity_mut(node)?;
        entity.record.take(|row| row.kind() == OBJECT_LINK);
        entity.record.rows.push(make_object_link(to, &units));
        entity.place = RecordPlace::Directory { above: to, name: units };
        Ok(())
    }

    /// Moves one of the names of a file whose record is in a row of its own. That row stays where it is.
    fn move_name(
        &self,
        core: &mut Core,
        node: u64,
        from: u64,
        row_key: &[u8],
        to: u64,
        units: Vec<u16>,
    ) -> Result<()> {
        let (tree, pages) = core.tree(from)?;
        let old = tree.get(pages, row_key, |row| (row.flags, row.value.to_vec()))?.ok_or(Error::NotFound)?;
        let old_name = key::units(row_key);
        let (tree, pages) = core.tree_mut(from)?;
        tree.remove(pages, row_key)?;
        let (tree, pages) = core.tree_mut(to)?;
        tree.put(pages, &key::name(key::SHORT, &units), old.0, &old.1)?;
        let entity = core.entity_mut(node)?;
        entity.record.take(|row| row.kind() == OBJECT_LINK && object_link(row) == (from, old_name.clone()));
        entity.record.rows.push(make_object_link(to, &units));
        Ok(())
    }

    /// Moves a record together with the row of its only name. In another directory the file gets a new number, so it
    /// has the identity of a new file to Windows.
    fn move_record(
        &self,
        core: &mut Core,
        node: u64,
        from: u64,
        row_key: &[u8],
        to: u64,
        units: Vec<u16>,
    ) -> Result<()> {
        let (tree, pages) = core.tree(from)?;
        let old = tree.get(pages, row_key, |row| (row.flags, row.value.to_vec()))?.ok_or(Error::NotFound)?;
        let mut record = Record::from_bytes(&old.1, 0)?;
        let (tree, pages) = core.tree_mut(from)?;
        tree.remove(pages, row_key)?;
        if from != to {
            core.forget_number(from, record.ordinal)?;
            record.ordinal = core.rehome(node, to)?;
        }
        core.put_number(to, record.ordinal, &NumberRow::Name(units.clone()))?;
        let (row_key, value) = (key::name(key::LONG, &units), record.to_bytes());
        core.entity_mut(node)?.place = RecordPlace::Long { directory: to, name: units };
        // The value was stored for the old name, and may be too large for a row with a longer one.
        if row_size(&row_key, &value) > Tree::LARGEST_ROW {
            let clock = core.checkpoint.clock + 1;
            return core.store_entity(node, clock);
        }
        let (tree, pages) = core.tree_mut(to)?;
        tree.put(pages, &row_key, old.0, &value).map(drop)
    }
}
