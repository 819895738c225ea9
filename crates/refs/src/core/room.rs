//! The size of a node's record, so that nothing is put into a record that a commit could not store.
//!
//! A row has at most [`Tree::LARGEST_ROW`] bytes, its key included. Content in the record, attributes, links and names
//! of streams have a fixed size. Runs do not: where there is little room they go to pages, and the record has a
//! reference to the topmost of them. So a record can be stored if it fits in its *tight* form, and a commit stores it
//! in the *roomy* form where that fits too.

use super::{Core, RecordPlace};
use crate::extents::Form;
use crate::layout::attribute::SUMMARY;
use crate::layout::node::{ROW_HEADER, row_size};
use crate::layout::record::key;
use crate::layout::stream::{ADDED_TO_NAMED, EXTENTS_HEADER, HEAD};
use crate::layout::{LIMIT, Record};
use crate::stream::{self, Stream, StreamContent};
use crate::tree::Tree;
use platter_vfs::{Error, Result};

/// Where a stream's bytes are, or would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// This many bytes in the record.
    Inline(usize),
    /// In clusters, with a node of this many bytes in the record.
    Outside(usize),
}

/// The bytes that an attribute takes in a record, for a key and a value of these lengths.
fn attribute(key: usize, value: usize) -> usize {
    ROW_HEADER + key.next_multiple_of(8) + value.next_multiple_of(8) + 4
}

/// The bytes of an attribute's key before its name or number.
const KEY: usize = 16;
/// The bytes after those in the key of a version of the data, and in the key of the runs of a large named stream.
const VERSION: usize = 24;
const NUMBER: usize = 0x40;
/// The bytes of the value of the attribute that counts versions; a record has it once any version of the data lies in
/// clusters.
const COUNTER: usize = 40;

/// The bytes that a file's own data takes in its record.
fn own(held: Held) -> usize {
    match held {
        Held::Inline(length) => attribute(KEY, SUMMARY + length.next_multiple_of(8)),
        Held::Outside(node) => attribute(KEY + VERSION, EXTENTS_HEADER + node),
    }
}

/// The bytes that a named stream takes in the record, with a name of `units` UTF-16 units.
fn named(units: usize, held: Held) -> usize {
    match held {
        Held::Inline(length) => attribute(KEY + 2 * units, SUMMARY + length),
        Held::Outside(node) => {
            attribute(KEY + 2 * units, HEAD) + attribute(KEY + NUMBER, EXTENTS_HEADER + node + ADDED_TO_NAMED)
        }
    }
}

/// The bytes that a snapshot takes in the record, with a name of `units` UTF-16 units.
fn snapshot(units: usize, held: Held) -> usize {
    let Held::Outside(node) = held else { return named(units, held) };
    attribute(KEY + 2 * units, HEAD) + attribute(KEY + VERSION, EXTENTS_HEADER + node)
}

/// The reason why a node may only be read if its record, with a row key of `row_key` bytes, is larger than any that is
/// written here. Other writers make such rows.
pub(super) fn is_larger(record: &Record, row_key: usize) -> Option<&'static str> {
    let most: usize = record.rows.iter().map(|row| attribute(row.key.len(), row.value.len())).sum();
    // The sum is cheap; only a record that may be too large is measured exactly.
    let is_close = most + row_key + 2 * Record::HEADER > Tree::LARGEST_ROW;
    let is_larger = || row_size(&vec![1; row_key], &record.to_bytes()) > Tree::LARGEST_ROW;
    (is_close && is_larger()).then_some("its record is larger than those that are written, and is only read")
}

impl Core {
    /// The bytes that a node's row takes in a form. `instead` is a stream's node and where its data is assumed to be.
    /// All other streams are read-locked, so the caller must not hold their locks.
    pub(crate) fn row_bytes(&self, node: u64, form: Form, instead: Option<(u64, Held)>) -> Result<usize> {
        let entity = self.entity(node)?;
        let held = |stream: &Stream| match instead {
            Some((node, Held::Outside(_))) if node == stream.node => {
                Held::Outside(form.largest_node(self.geometry()))
            }
            Some((node, held)) if node == stream.node => held,
            _ => match &stream.read().content {
                StreamContent::Inline(content) => Held::Inline(content.len()),
                // Adding runs does not check the room, so in the tight form they count with the most that they can
                // take.
                StreamContent::Extents(_) if form == Form::Tight => {
                    Held::Outside(form.largest_node(self.geometry()))
                }
                StreamContent::Extents(extents) => Held::Outside(extents.node_size(self.geometry(), form)),
            },
        };
        let mut size = entity.record.to_bytes().len();
        let own_data = entity.stream.as_ref().map(|stream| held(stream));
        size += own_data.map_or(0, own);
        let has_versions = matches!(own_data, Some(Held::Outside(_)))
            || entity.named.iter().any(|named| named.snapshot.is_some());
        if has_versions && !entity.record.rows.iter().any(stream::is_counter) {
            size += attribute(KEY + VERSION, COUNTER);
        }
        for one in &entity.named {
            let of = if one.snapshot.is_some() { snapshot } else { named };
            size += of(one.name.len(), held(&one.stream));
        }
        let row_key = match &entity.place {
            RecordPlace::Long { name, .. } => key::name(key::LONG, name).len(),
            RecordPlace::Body => key::body(0, 0).len(),
            _ => key::OWN.len(),
        };
        Ok(row_size(&vec![1; row_key], &[]) + size.next_multiple_of(8))
    }

    /// Whether a record holds nothing but the file's own data, which fits in any form.
    fn has_only_data(&self, node: u64) -> Result<bool> {
        let entity = self.entity(node)?;
        Ok(entity.record.rows.is_empty() && entity.named.is_empty())
    }

    /// Whether a node's record fits into its row, with the data of one stream where `instead` says.
    fn holds(&self, node: u64, instead: Option<(u64, Held)>) -> Result<bool> {
        let node = self.owner_of(node);
        let entity = self.entity(node)?;
        if entity.place == RecordPlace::Nowhere || self.has_only_data(node)? {
            return Ok(true);
        }
        Ok(self.row_bytes(node, Form::Tight, instead)? <= Tree::LARGEST_ROW)
    }

    /// Returns an error if a node's record would not fit into its row with the data of one stream where `instead` says.
    pub(crate) fn record_fits(&self, node: u64, instead: Option<(u64, Held)>) -> Result<()> {
        match self.holds(node, instead)? {
            true => Ok(()),
            false => Err(Error::RecordFull { format: "ReFS", what: LIMIT }),
        }
    }

    /// Returns an error if the record of a new file or directory, in a row with a key of `row_key` bytes, would not fit
    /// in the tight form with data in clusters.
    pub(crate) fn new_record_fits(&self, record: &Record, row_key: usize) -> Result<()> {
        // A record that holds nothing but data fits in any form.
        if record.rows.is_empty() {
            return Ok(());
        }
        let data = own(Held::Outside(Form::Tight.largest_node(self.geometry())));
        let size = record.to_bytes().len() + data + attribute(KEY + VERSION, COUNTER);
        match row_size(&vec![1; row_key], &[]) + size.next_multiple_of(8) <= Tree::LARGEST_ROW {
            true => Ok(()),
            false => Err(Error::RecordFull { format: "ReFS", what: LIMIT }),
        }
    }

    /// Whether `length` bytes of a stream's content may stand in the record.
    pub(crate) fn holds_inline(&self, stream: u64, length: u64) -> bool {
        let is_short = length < self.geometry().version.least_outside();
        is_short && self.holds(stream, Some((stream, Held::Inline(length as usize)))).unwrap_or(false)
    }

    /// Whether a record gets smaller when `length` bytes of a stream move from it into clusters.
    pub(crate) fn is_smaller_outside(&self, owner: u64, stream: &Stream, length: usize) -> Result<bool> {
        let entity = self.entity(owner)?;
        let node = Held::Outside(Form::Tight.largest_node(self.geometry()));
        let inside = Held::Inline(length);
        Ok(match entity.named.iter().find(|one| one.node == stream.node) {
            Some(one) => named(one.name.len(), node) < named(one.name.len(), inside),
            None => own(node) + attribute(KEY + VERSION, COUNTER) < own(inside),
        })
    }

    /// Whether a node's row is too large to be stored in its present state. No accepted change makes it so.
    pub(super) fn is_too_large(&self, node: u64) -> Result<bool> {
        /// The count may exceed the true size of rows of older versions by this many bytes.
        const SLACK: usize = 512;
        let node = self.owner_of(node);
        if self.entity(node)?.place == RecordPlace::Nowhere || self.has_only_data(node)? {
            return Ok(false);
        }
        Ok(self.row_bytes(node, Form::Tight, None)? > Tree::LARGEST_ROW + SLACK)
    }

    /// The form in which a commit stores a node.
    pub(super) fn form_of(&self, node: u64) -> Result<Form> {
        if self.has_only_data(node)? {
            return Ok(Form::Roomy);
        }
        match self.row_bytes(node, Form::Roomy, None)? <= Tree::LARGEST_ROW {
            true => Ok(Form::Roomy),
            false => Ok(Form::Tight),
        }
    }

    /// Returns an error if a node's row would be too large once a name of `before` units is replaced by one of `after`
    /// units.
    pub(crate) fn fits_renamed(&self, node: u64, before: usize, after: usize) -> Result<()> {
        // A link, or a key, grows with the name, and the row's size is a multiple of 8.
        let more = 2 * after.saturating_sub(before);
        match more == 0 || self.row_bytes(node, Form::Tight, None)? + more + 8 <= Tree::LARGEST_ROW {
            true => Ok(()),
            false => Err(Error::RecordFull { format: "ReFS", what: LIMIT }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Attribute;
    use crate::layout::attribute::MULTIPLE;

    /// No accepted change makes such a record. Should there be one all the same, the commit leaves that file on disk as
    /// it is, with its old content, stores all others, and returns an error.
    #[test]
    fn a_record_that_does_not_fit_costs_no_other() {
        use crate::tests::windows::{checked, content, file, made, name, open};
        use platter_vfs::{FileSystem, Names, Node, OpenOptions};
        use std::sync::Arc;
        let device = made();
        let volume = open(&device);
        let node = file(&volume, "large", &[1; 20_000]);
        let other = file(&volume, "other", b"before");
        volume.sync_all().unwrap();
        let row = |length| Attribute::new(MULTIPLE, 0x70, 0, b"x", 0, vec![7; length]);
        let put = |length| {
            let mut core = volume.core();
            let entity = core.entity_mut(node.0).unwrap();
            entity.record.rows.retain(|row| row.kind() != 0x70);
            entity.record.rows.extend((length > 0).then(|| row(length)));
        };
        put(8000);
        // The old clusters of "large" are parked, and must not be used for other files meanwhile.
        volume.write(node, 0, &[2; 10_000]).unwrap();
        volume
            .set_attributes(node, &platter_vfs::Change { size: Some(10_000), ..Default::default() })
            .unwrap();
        volume.write(other, 0, b"behind").unwrap();
        for round in 0..3 {
            let told = volume.sync_all();
            assert!(matches!(told, Err(Error::RecordFull { .. })), "{told:?}");
            file(&volume, &format!("{round}"), &[round; 60_000]);
        }
        let seen = Arc::new(platter_device::MemoryDevice::from_image(
            &device.to_image(),
            platter_device::Sectors::SMALL,
        ));
        let cut = crate::RefsVolume::open(seen, OpenOptions::default()).unwrap();
        let now = |of: &str| content(&cut, cut.lookup(Node::ROOT, &name(of)).unwrap()).unwrap();
        assert_eq!(now("large").len(), 20_000);
        assert!(now("large")[10_000..].iter().all(|&byte| byte == 1));
        assert_eq!((now("other"), now("1")), (b"behind".to_vec(), vec![1; 60_000]));
        put(0);
        volume.sync_all().unwrap();
        assert_eq!(content(&volume, node).unwrap(), [2; 10_000]);
        volume.unmount().unwrap();
        checked(&device, &[]);
    }

    #[test]
    fn sizes_are_those_of_the_rows() {
        assert_eq!(attribute(17, 9), ROW_HEADER + 24 + 16 + 4);
        assert_eq!(row_size(&[1; 17], &[2; 9]) + 4, attribute(17, 9));
    }
}
