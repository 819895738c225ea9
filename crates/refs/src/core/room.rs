//! What a node's record takes of its row, so that nothing is put into a record that a commit could not store.
//!
//! A row has [`Tree::LARGEST_ROW`] bytes, its key included. Content in the record, attributes, links and names of streams
//! take what they take. Runs need not: where there is little room they go to pages, and the record has a reference to
//! the topmost of them. So a record fits if it does in its *tight* form, and a commit stores it in the roomy one where
//! that fits too.

use super::*;
use crate::extents::Form;
use crate::layout::LIMIT;
use crate::layout::attribute::SUMMARY;
use crate::layout::node::{ROW_HEADER, row_size};
use crate::stream::{ADDED_TO_NAMED, EXTENTS_HEADER, HEAD};

/// Where a stream's bytes are, or would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// So many in the record.
    Inline(usize),
    /// In clusters, with a node of so many bytes in the record.
    Outside(usize),
}

/// Bytes that an attribute takes in a record.
fn attribute(key: usize, value: usize) -> usize {
    ROW_HEADER + key.next_multiple_of(8) + value.next_multiple_of(8) + 4
}

/// Bytes of an attribute's key before what is its own.
const KEY: usize = 16;
/// Bytes that follow it where a number tells versions of the data apart, and large named streams.
const VERSION: usize = 24;
const NUMBER: usize = 0x40;
/// The attribute that counts the versions, which comes with the first that lies in clusters.
const COUNTER: usize = 40;

/// Bytes that a file's own data takes in its record.
fn own(held: Held) -> usize {
    match held {
        Held::Inline(length) => attribute(KEY, SUMMARY + length.next_multiple_of(8)),
        Held::Outside(node) => attribute(KEY + VERSION, EXTENTS_HEADER + node),
    }
}

/// Bytes that a named stream takes with a name of so many units.
fn named(units: usize, held: Held) -> usize {
    match held {
        Held::Inline(length) => attribute(KEY + 2 * units, SUMMARY + length),
        Held::Outside(node) => {
            attribute(KEY + 2 * units, HEAD) + attribute(KEY + NUMBER, EXTENTS_HEADER + node + ADDED_TO_NAMED)
        }
    }
}

/// Bytes that a snapshot takes.
fn snapshot(units: usize, held: Held) -> usize {
    let Held::Outside(node) = held else { return named(units, held) };
    attribute(KEY + 2 * units, HEAD) + attribute(KEY + VERSION, EXTENTS_HEADER + node)
}

/// Why a node with this record, read from a row with a key of so many bytes, may only be read, if so: others make rows
/// larger than any that are written here.
pub(super) fn is_larger(record: &Record, row_key: usize) -> Option<&'static str> {
    let most: usize = record.rows.iter().map(|row| attribute(row.key.len(), row.value.len())).sum();
    // The sum is cheap; only what may be too large is looked at closely.
    let is_close = most + row_key + 2 * Record::HEADER > Tree::LARGEST_ROW;
    let is_larger = || row_size(&vec![1; row_key], &record.to_bytes()) > Tree::LARGEST_ROW;
    (is_close && is_larger()).then_some("its record is larger than those that are written, and is only read")
}

impl Core {
    /// The node whose record a node's data stands in.
    pub fn owner_of(&self, node: u64) -> u64 {
        match self.entities.get(&node).map(|entity| &entity.place) {
            Some(RecordPlace::Part { of }) => *of,
            _ => node,
        }
    }

    /// Bytes that a node's row takes in a form. `instead` says of the data of one node where it is; of the others
    /// the streams are asked, so that the caller must not have them locked.
    pub fn row_bytes(&self, node: u64, form: Form, instead: Option<(u64, Held)>) -> Result<usize> {
        let entity = self.entity(node)?;
        let held = |stream: &Stream| match instead {
            Some((node, Held::Outside(_))) if node == stream.node => {
                Held::Outside(form.largest_node(self.geometry()))
            }
            Some((node, held)) if node == stream.node => held,
            _ => match &stream.read().content {
                StreamContent::Inline(content) => Held::Inline(content.len()),
                // Runs come without being asked for room, so in the tight form they have it beforehand.
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

    /// Whether there is nothing in a record but the file's own data, which fits in any form.
    fn has_only_data(&self, node: u64) -> Result<bool> {
        let entity = self.entity(node)?;
        Ok(entity.record.rows.is_empty() && entity.named.is_empty())
    }

    /// Whether a node's record fits into its row, with the data of one node held so.
    fn holds(&self, node: u64, instead: Option<(u64, Held)>) -> Result<bool> {
        let node = self.owner_of(node);
        let entity = self.entity(node)?;
        if entity.place == RecordPlace::Nowhere || self.has_only_data(node)? {
            return Ok(true);
        }
        Ok(self.row_bytes(node, Form::Tight, instead)? <= Tree::LARGEST_ROW)
    }

    /// Refuses what does not fit into a node's record, before it is too late.
    pub fn record_fits(&self, node: u64, instead: Option<(u64, Held)>) -> Result<()> {
        match self.holds(node, instead)? {
            true => Ok(()),
            false => Err(Error::RecordFull { format: "ReFS", what: LIMIT }),
        }
    }

    /// Whether a stream's content may stand in the record, so many bytes of it.
    pub fn holds_inline(&self, stream: u64, length: u64) -> bool {
        let is_short = length < self.geometry().version.least_outside();
        is_short && self.holds(stream, Some((stream, Held::Inline(length as usize)))).unwrap_or(false)
    }

    /// Whether a record is smaller once so many bytes of a stream are moved into clusters.
    pub fn is_smaller_outside(&self, owner: u64, stream: &Stream, length: usize) -> Result<bool> {
        let entity = self.entity(owner)?;
        let node = Held::Outside(Form::Tight.largest_node(self.geometry()));
        let inside = Held::Inline(length);
        Ok(match entity.named.iter().find(|one| one.node == stream.node) {
            Some(one) => named(one.name.len(), node) < named(one.name.len(), inside),
            None => own(node) + attribute(KEY + VERSION, COUNTER) < own(inside),
        })
    }

    /// Whether a node's row is too large to be stored, as it is now. Nothing that is asked for makes it so.
    pub(super) fn is_too_large(&self, node: u64) -> Result<bool> {
        /// What is counted may be so much more than what the rows of older versions take.
        const SLACK: usize = 512;
        let node = self.owner_of(node);
        if self.entity(node)?.place == RecordPlace::Nowhere || self.has_only_data(node)? {
            return Ok(false);
        }
        Ok(self.row_bytes(node, Form::Tight, None)? > Tree::LARGEST_ROW + SLACK)
    }

    /// In which form a commit stores a node.
    pub(super) fn form_of(&self, node: u64) -> Result<Form> {
        if self.has_only_data(node)? {
            return Ok(Form::Roomy);
        }
        match self.row_bytes(node, Form::Roomy, None)? <= Tree::LARGEST_ROW {
            true => Ok(Form::Roomy),
            false => Ok(Form::Tight),
        }
    }

    /// Bytes that a node's row would take under a name of so many units instead of one of its names.
    pub fn fits_renamed(&self, node: u64, before: usize, after: usize) -> Result<()> {
        // Both a key and a link are as long as the name, and what the row takes is a multiple of 8.
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

    /// Nothing asked for makes such a record; should there be one all the same, the commit leaves that file as it is on
    /// disk, with its old content, stores all others, and says so.
    #[test]
    fn a_record_that_does_not_fit_costs_no_other() {
        use crate::windows::{checked, content, file, made, name, open};
        use platter_vfs::{FileSystem, OpenOptions};
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
        // Its clusters are parked, and must not be used by others meanwhile.
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
