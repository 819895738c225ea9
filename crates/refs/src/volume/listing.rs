//! Listing directories, and reading and changing the attributes of nodes.

use super::{LATEST, ListedRow, RefsVolume, attributes_with};
use crate::attributes;
use crate::core::{Core, RecordPlace};
use crate::layout::Record;
use crate::layout::record::key;
use platter_vfs::{Attributes, Change, Cursor, DosFlags, Entry, Error, Kind, Name, Node, Result, Timestamp};
use std::sync::atomic::Ordering;

impl RefsVolume {
    pub(super) fn list(
        &self,
        directory: Node,
        cursor: Cursor,
        most: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<()> {
        let mut core = self.core();
        let object = match core.entity(directory.0)?.place {
            RecordPlace::Nowhere => {
                core.directory(directory)?;
                return Ok(());
            }
            _ => core.directory(directory)?,
        };
        let after = match cursor {
            Cursor::START => None,
            _ => key_behind(&mut core, object, cursor)?,
        };
        let mut rows: Vec<(Vec<u8>, ListedRow)> = Vec::new();
        let damage = scan_names(&mut core, object, after.as_deref(), |key, row| {
            rows.push((key.to_vec(), row));
            rows.len() < most
        })?;
        for (row_key, row) in &rows {
            let name = Name::from_units(&key::units(row_key));
            let attributes = match core.node_of(row.id(object)) {
                Some(node) => core.entity(node).map(|entity| self.attributes_of(&core, entity)),
                None => self.attributes_of_row(&mut core, row),
            };
            // Where a file's own record is damaged, the listing has the attributes in the directory's row. The damage
            // is reported when the entry is looked up.
            let attributes = attributes.unwrap_or_else(|_| self.attributes_in(row));
            let next = core.listings.listed(object, row_key);
            let node = core.known_node(row.id(object)).map(Node);
            entries.push(Entry { name, node, attributes, next });
        }
        if damage.is_some() {
            core.listings.met_damage(object);
        }
        if rows.is_empty() && core.listings.has_damage(object) {
            scan_names(&mut core, object, None, |_, _| true)?.map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    /// Returns the attributes that the row of a name holds itself.
    fn attributes_in(&self, row: &ListedRow) -> Attributes {
        match row {
            ListedRow::Long(record) => self.attributes_of_record(record),
            ListedRow::Short(short) => {
                let kind = if short.is_directory() { Kind::Directory } else { Kind::File };
                attributes_with(kind, short.size, short.allocated, short.attributes, short.times, 1)
            }
        }
    }

    /// Returns the attributes of a node that is not in use, from the row of its name and the record that this leads to.
    fn attributes_of_row(&self, core: &mut Core, row: &ListedRow) -> Result<Attributes> {
        match row {
            ListedRow::Long(record) => Ok(self.attributes_of_record(record)),
            ListedRow::Short(short) if short.is_directory() => {
                // Whether a directory with a reparse point is a link stands in its own record.
                if short.attributes & Record::REPARSE_POINT != 0
                    && let Ok((tree, pages)) = core.tree(short.object)
                    && let Ok(Some(Ok(record))) =
                        tree.get(pages, &key::OWN, |row| Record::from_bytes(row.value, 0))
                    && attributes::is_link(record.reparse)
                {
                    return Ok(self.attributes_of_record(&record));
                }
                Ok(attributes_with(Kind::Directory, 0, 0, short.attributes, short.times, 1))
            }
            ListedRow::Short(short) => {
                let (tree, pages) = core.tree(short.object)?;
                let record = tree.get(pages, &key::body(short.ordinal, short.object), |row| {
                    Record::from_bytes(row.value, 0)
                })?;
                match record.transpose()? {
                    Some(record) => Ok(self.attributes_of_record(&record)),
                    None => Ok(self.attributes_in(row)),
                }
            }
        }
    }

    fn attributes_of_record(&self, record: &Record) -> Attributes {
        if attributes::is_link(record.reparse) {
            let target = attributes::link_target(record).unwrap_or_default();
            return attributes_with(
                Kind::SymbolicLink,
                target.len() as u64,
                0,
                record.attributes,
                record.times,
                record.names(),
            );
        }
        attributes_with(
            Kind::File,
            record.size,
            record.allocated,
            record.attributes,
            record.times,
            record.names(),
        )
    }

    pub(super) fn forget_node(&self, node: Node, count: u64) {
        let mut core = self.core();
        if node == Node::ROOT {
            return;
        }
        // A failure to give clusters back leaves them in use until a check; there is nobody to tell.
        let _ = core.let_go(node.0, count);
        if core.entity(node.0).is_ok_and(|entity| entity.handed_out > 0) {
            return;
        }
        if let Some(stream) = self.streams.write().remove(&node.0) {
            stream.is_listed.store(false, Ordering::Relaxed);
        }
    }

    pub(super) fn change_attributes(&self, node: Node, change: &Change) -> Result<Attributes> {
        if let Some(size) = change.size {
            self.with_space(|_| self.resize(node, size))?;
        }
        let mut core = self.change()?;
        let owner = owner(&core, node)?;
        let entity = core.entity_mut(owner)?;
        entity.absorb_written();
        if let Some(flags) = change.flags {
            let kept = entity.record.attributes & !DosFlags::SETTABLE.0;
            entity.record.attributes = kept | flags.0 & DosFlags::SETTABLE.0;
            let read_only = entity.record.attributes & 1 != 0;
            for stream in entity.all_streams() {
                stream.read_only.store(read_only, Ordering::SeqCst);
            }
        }
        for (index, time) in [(0, change.created), (1, change.modified), (3, change.accessed)] {
            if let Some(time) = time {
                entity.record.times[index] = time.to_file_time(LATEST);
            }
        }
        entity.record.times[2] = self.now();
        Ok(self.attributes_of(&core, core.entity(node.0)?))
    }

    /// Sets the time at which a node's content was last read.
    pub(super) fn keep_access(&self, node: Node, at: Timestamp) -> Result<()> {
        let mut core = self.change()?;
        let owner = owner(&core, node)?;
        core.entity_mut(owner)?.record.times[3] = at.to_file_time(LATEST);
        Ok(())
    }
}

/// Returns the node whose record has the times and flags of `node`: for a named stream its file, else the node itself.
fn owner(core: &Core, node: Node) -> Result<u64> {
    Ok(match core.entity(node.0)?.place {
        RecordPlace::Part { of } => of,
        _ => node.0,
    })
}

/// Calls `visit` on the names in a directory after a key, until it returns false. Damaged parts are left out; returns
/// the first error that was met there.
fn scan_names(
    core: &mut Core,
    object: u64,
    after: Option<&[u8]>,
    mut visit: impl FnMut(&[u8], ListedRow) -> bool,
) -> Result<Option<Error>> {
    let (mut before, mut unreadable) = (after.map(<[u8]>::to_vec), None);
    let (tree, pages) = core.tree(object)?;
    let order = tree.order();
    let damage = tree.scan_past_damage(pages, after.unwrap_or(&key::FIRST_NAME), |row| {
        if key::kind(row.key) != key::NAME {
            return Ok(false);
        }
        // The scan begins with the entry that the listing stopped after, if that still exists.
        if after.is_some_and(|after| order.same(after, row.key)) {
            return Ok(true);
        }
        // Names in descending order are left out: a listing that went back might never end.
        if before.as_ref().is_some_and(|before| order.compare(before, row.key).is_ge()) {
            let error = || Error::damaged("directory", 0, "names that ascend", "one that does not");
            unreadable.get_or_insert_with(error);
            return Ok(true);
        }
        before = Some(row.key.to_vec());
        match ListedRow::from_bytes(row.key, row.value) {
            Ok(found) => Ok(visit(row.key, found)),
            Err(error) => {
                unreadable.get_or_insert(error);
                Ok(true)
            }
        }
    })?;
    Ok(damage.or(unreadable))
}

/// Returns the key after which a listing goes on; `None` if it is to begin anew ([`platter_vfs::Listings::kept`]).
fn key_behind(core: &mut Core, object: u64, cursor: Cursor) -> Result<Option<Vec<u8>>> {
    if let Some(key) = core.listings.kept(object, cursor) {
        return Ok(Some(key));
    }
    let listings = std::mem::take(&mut core.listings);
    let mut found = None;
    let scanned = core.tree(object).and_then(|(tree, pages)| {
        tree.scan_past_damage(pages, &key::FIRST_NAME, |row| {
            if listings.cursor(row.key) == cursor {
                found = Some(row.key.to_vec());
            }
            Ok(found.is_none() && key::kind(row.key) == key::NAME)
        })
    });
    core.listings = listings;
    scanned.map(|_| found)
}
