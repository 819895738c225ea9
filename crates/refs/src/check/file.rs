//! A file's record: sizes, attributes, streams.

use super::order::{Order, fold};
use super::owner::{Owner, Spot};
use super::page::{Subject, plain, tidy};
use super::version_holes::{Covered, VersionRows};
use super::{Check, Task};
use crate::container::Tier;
use crate::layout::attribute::{
    Attribute, COUNTER, DATA, LIVE, MULTIPLE, NAMED_DATA, REPARSE, SINGLE, SUMMARY,
};
use crate::layout::bytes::{Field, FieldAt};
use crate::layout::record::Record;
use crate::layout::stream::{
    INTEGRITY, extents, extents_number, is_outside, is_snapshot, kind_word, snapshot_number, summary,
    version_number,
};
use crate::layout::{PageReference, TreeNode, Version};
use crate::versions;
use platter_vfs::{Name, NameRules, Severity};
use std::collections::HashSet;

/// Content of this many bytes and more is never in the record from 3.10 on.
const MOST_INLINE: u64 = 0x800;
/// The most different security identifiers without a descriptor that are remembered.
const MOST_IDS: usize = 1 << 16;

/// The sizes of a stream as its content or its runs give them, to be compared with those in the record.
#[derive(Default)]
struct FoundSizes {
    size: u64,
    allocated: u64,
    /// The bytes of holes that have rows.
    holes: u64,
    has_holes: bool,
    is_damaged: bool,
    /// What the rows of a version cover whose file has several, see [`super::version_holes`].
    covered: Vec<Covered>,
}

impl<'o> Owner<'o> {
    /// The file itself as owner; `spot` is its record.
    fn of(spot: &Spot<'o>) -> Owner<'o> {
        Owner {
            spot: *spot,
            stream: &[],
            attribute: &[],
            integrity: false,
            said: None,
            is_snapshot: false,
            is_spread: false,
            has_versions: false,
        }
    }

    /// A stream of the file as owner, which the attribute `row` holds.
    fn new(spot: &Spot<'o>, stream: &'o [u16], row: &'o Attribute, record: &Record) -> Owner<'o> {
        let integrity = record.attributes & Record::INTEGRITY != 0;
        Owner { stream, attribute: &row.key, integrity, ..Owner::of(spot) }
    }
}

impl Check<'_> {
    /// Checks a file's record and its streams. Returns the record if it can be read.
    pub(super) fn file(&mut self, spot: &Spot<'_>, value: &[u8]) -> Option<Record> {
        let record = self.record(spot, value)?;
        self.report.files += 1;
        let own = self.streams(spot, &record);
        self.sizes(spot, &record, own);
        Some(record)
    }

    /// Notes a change of a record for the repair.
    fn amend(&mut self, spot: &Spot<'_>, change: impl FnOnce(&mut Record) + Send + 'static) {
        let change = Box::new(change);
        self.repair.add(Task::Amend { directory: spot.table, key: spot.row.to_vec(), change });
    }

    /// Notes for the repair that a field of the value of the owner's attribute gets this value.
    pub(super) fn amend_attribute<T: Field + Send + 'static>(
        &mut self,
        owner: &Owner<'_>,
        field: FieldAt<T>,
        value: T,
    ) {
        let key = owner.attribute.to_vec();
        self.amend(&owner.spot, move |record| {
            let row = record.rows.iter_mut().find(|row| row.key == key);
            if let Some(row) = row.filter(|row| field.end() <= row.value.len()) {
                field.put(&mut row.value, value);
            }
        });
    }

    /// Reads a record of a file or directory, and checks the parts that both kinds have.
    pub(super) fn record(&mut self, spot: &Spot<'_>, value: &[u8]) -> Option<Record> {
        let owner = Owner::of(spot);
        let record = match Record::from_bytes(value, spot.at) {
            Ok(record) => record,
            Err(error) => {
                self.lose(&owner, "record", plain(&error));
                return None;
            }
        };
        let record = match record.outside.is_empty() {
            true => record,
            false => self.outside_attributes(&owner, record, value)?,
        };
        let area = &value[Record::HEADER..];
        let role = super::page::Role { level: None, stream: false, embedded: true };
        let is_whole = record.outside.is_empty();
        let wrong = super::page::node(area, role).err().or_else(|| tidy(area).err());
        let wrong = wrong.or_else(|| super::forms::marks(area, false).err().filter(|_| is_whole));
        if let Some((offset, expected, found)) = wrong {
            let place = spot.at + (Record::HEADER + offset) as u64;
            let message = format!("record's node at offset {place}: expected {expected}, found {found}");
            self.find_in(&owner, "node-count", Severity::Inconsistent, message);
            self.amend(spot, |_| {});
        }
        let (expected, found) = (TreeNode::new(area).len() as u64, Record::COUNT.of(value));
        if expected != found && record.outside.is_empty() {
            let at = spot.at + Record::COUNT.at() as u64;
            let message = format!("rows of a record at offset {at}: expected {expected}, found {found}");
            self.find_in(&owner, "tree-count", Severity::Inconsistent, message);
            self.amend(spot, |_| {});
        }
        for row in &record.rows {
            let (expected, found) = (row.value.len() as u64, row.stated_length());
            if expected != found {
                let message = format!(
                    "length of attribute {:#x} in its key: expected {expected}, found {found}",
                    row.kind()
                );
                self.find_in(&owner, "attribute", Severity::Inconsistent, message);
                self.amend(spot, |record| record.rows.iter_mut().for_each(Attribute::state_length));
            }
        }
        // Identifier 0 means that the file has no descriptor.
        if record.security != 0
            && !self.security.contains(&record.security)
            && self.unknown_security.len() < MOST_IDS
        {
            let path = self.owner_path(&owner);
            self.unknown_security.entry(record.security).or_insert((0, path)).0 += 1;
        }
        Some(record)
    }

    /// Reads the attributes of a record that stand in pages of their own. Returns the record with them as its rows.
    fn outside_attributes(&mut self, owner: &Owner<'_>, record: Record, value: &[u8]) -> Option<Record> {
        let subject = Subject {
            name: "attributes outside a record".into(),
            path: Some(self.owner_path(owner)),
            table: owner.spot.table,
            order: Order::Unknown,
            tier: Tier::Medium,
            severity: Severity::DataLoss,
            renewable: false,
        };
        let top = TreeNode::new(&value[Record::HEADER..]).level();
        let mut pending: Vec<(PageReference, u8)> = Vec::new();
        let below = |pending: &mut Vec<_>, pages: &[PageReference], level: u8| {
            pending.extend(pages.iter().rev().map(|&page| (page, level)));
        };
        below(&mut pending, &record.outside, top.saturating_sub(1));
        let mut whole = Record { rows: Vec::new(), ..record };
        // Levels fall by one each time, and a page that is met twice is an error, so the loop ends.
        while let Some((reference, level)) = pending.pop() {
            let role = super::page::Role { level: Some(level), stream: false, embedded: true };
            let page = self.page(&subject, &reference, role, owner.spot.at)?;
            let node = page.node();
            if !node.is_inner() {
                whole.rows.extend(node.rows().map(Attribute::from));
                continue;
            }
            let children: Vec<PageReference> =
                node.rows().filter_map(|row| PageReference::from_bytes(row.value, page.at).ok()).collect();
            below(&mut pending, &children, level.saturating_sub(1));
        }
        Some(whole)
    }

    /// Checks the named streams of a directory.
    pub(super) fn directory_streams(&mut self, spot: &Spot<'_>, record: &Record) {
        self.streams(spot, record);
    }

    /// Checks all streams. Returns the sizes that were found of the file's unnamed data.
    fn streams(&mut self, spot: &Spot<'_>, record: &Record) -> Option<FoundSizes> {
        let mut own = None;
        let (mut versions, mut are_known) = (Vec::new(), !versions::are_spread(&record.rows));
        let mut names: HashSet<Vec<u16>> = HashSet::new();
        let mut taken: HashSet<u64> = HashSet::new();
        for row in &record.rows {
            match (row.kind(), row.marker()) {
                (DATA, SINGLE) => own = own.or(self.inline(spot, record, &[], row, true)),
                (DATA, MULTIPLE) if version_number(row) == COUNTER => {}
                (DATA, MULTIPLE) => {
                    let is_snapshot = version_number(row) != LIVE;
                    if is_snapshot {
                        self.unnamed_snapshot(spot, record, row);
                    }
                    let mut found = self.outside(spot, record, &[], row, is_snapshot);
                    match &mut found {
                        Some(found) if !found.is_damaged => versions.push(VersionRows {
                            number: version_number(row),
                            size: found.size,
                            covered: std::mem::take(&mut found.covered),
                        }),
                        _ => are_known = false,
                    }
                    own = if is_snapshot { own } else { found };
                }
                (NAMED_DATA, _) => {
                    let name = row.name();
                    self.stream_name(spot, &mut names, &name);
                    self.named(spot, record, row, &name, &mut taken);
                }
                _ => {}
            }
        }
        if are_known {
            self.version_holes(&Owner::of(spot), versions);
        }
        // Clusters of runs that no named stream claims are in use all the same.
        for row in &record.rows {
            let Some(number) = extents_number(row) else { continue };
            if taken.insert(number) {
                self.outside(spot, record, &[], row, false);
                let message = format!(
                    "runs of stream {number:#x}: expected a named stream with this number, found none"
                );
                self.find_in(&Owner::of(spot), "stream", Severity::Inconsistent, message);
            }
        }
        own
    }

    /// Checks a stream whose content is in the record.
    fn inline(
        &mut self,
        spot: &Spot<'_>,
        record: &Record,
        name: &[u16],
        row: &Attribute,
        rounded: bool,
    ) -> Option<FoundSizes> {
        let owner = Owner::new(spot, name, row, record);
        let size = summary::SIZE.of(&row.value);
        if row.value.len() < SUMMARY || size > (row.value.len() - SUMMARY) as u64 {
            let message =
                format!("inline stream: expected {size} bytes in the record, found {}", row.value.len());
            self.lose(&owner, "inline", message);
            return Some(FoundSizes { size, is_damaged: true, ..FoundSizes::default() });
        }
        // Before 3.10 a record may hold more content than Platter puts there.
        if size >= MOST_INLINE && self.geometry.version >= Version::V3_10 {
            let message = format!("inline stream: expected less than {MOST_INLINE} bytes, found {size}");
            self.find_in(&owner, "inline", Severity::Inconsistent, message);
        }
        // On volumes of Windows the allocated size of data is either the size or that rounded up (forefst
        // `docs/attributes/DATA.md`: "not a fixed 8-byte round-up", and listings of four volumes, which have both).
        let is_known = |found: u64| found == size || rounded && found == size.next_multiple_of(8);
        let first = summary::ALLOCATED.of(&row.value);
        let allocated = match is_known(first) {
            true => first,
            false if rounded => size.next_multiple_of(8),
            false => size,
        };
        for field in [summary::ALLOCATED, summary::ALLOCATED_TOO] {
            let found = field.of(&row.value);
            if !is_known(found) {
                let message =
                    format!("allocated bytes of an inline stream: expected {allocated}, found {found}");
                self.find_in(&owner, "stream-size", Severity::Inconsistent, message);
                self.amend_attribute(&owner, summary::ALLOCATED, allocated);
                self.amend_attribute(&owner, summary::ALLOCATED_TOO, allocated);
                break;
            }
        }
        self.stream_kind(&owner, record, (&row.value, summary::KIND));
        Some(FoundSizes { size, allocated, ..FoundSizes::default() })
    }

    /// Checks the word of a stream, this field of its value, that says which checksums its data has or would have: it
    /// follows the volume's checksum, and the integrity attribute of the file. Before 3.7 it is 0.
    fn stream_kind(&mut self, owner: &Owner<'_>, record: &Record, (value, field): (&[u8], FieldAt<u32>)) {
        if record.schema < Version::V3_7.file_schema() || value.len() < field.end() {
            return;
        }
        let expected = kind_word(self.geometry.algorithm, record.attributes & Record::INTEGRITY != 0);
        let found = field.of(value);
        if found & (INTEGRITY | 0xFF) != expected {
            let message = format!(
                "kind of checksums of a stream in the record at offset {}: expected {expected:#x}, found {found:#x}",
                owner.spot.at
            );
            self.find_in(owner, "stream-kind", Severity::Inconsistent, message);
            let word = found & !(INTEGRITY | 0xFF) | expected;
            self.amend_attribute(owner, field, word);
        }
    }

    /// Checks a stream whose content is in clusters.
    fn outside(
        &mut self,
        spot: &Spot<'_>,
        record: &Record,
        name: &[u16],
        row: &Attribute,
        is_snapshot: bool,
    ) -> Option<FoundSizes> {
        let said = (name.is_empty() && !is_snapshot).then_some(record.size);
        let is_version = (row.kind(), row.marker()) == (DATA, MULTIPLE);
        let is_spread = is_version && versions::are_spread(&record.rows);
        let has_versions = is_version && versions::are_several(&record.rows);
        let owner =
            Owner { is_snapshot, said, is_spread, has_versions, ..Owner::new(spot, name, row, record) };
        let damaged = FoundSizes { is_damaged: true, ..FoundSizes::default() };
        let cluster = u64::from(self.geometry.cluster);
        if is_version && !is_snapshot {
            self.versions(&owner, record, &row.value);
        }
        let Some(stream) = self.stream(&owner, &row.value, spot.at) else { return Some(damaged) };
        if !is_snapshot {
            self.stream_kind(&owner, record, (&row.value, extents::KIND));
        }
        Some(FoundSizes {
            holes: stream.holes.saturating_mul(cluster),
            size: stream.size,
            // Which of its clusters the record counts is not known of such a file.
            allocated: if is_spread { record.allocated } else { stream.clusters.saturating_mul(cluster) },
            has_holes: stream.has_holes,
            is_damaged: stream.is_damaged,
            covered: stream.covered,
        })
    }

    /// Checks the number of versions that the data of a file has, snapshots included.
    fn versions(&mut self, owner: &Owner<'_>, record: &Record, value: &[u8]) {
        if value.len() < extents::VERSIONS.end() || record.schema < Version::V3_14.file_schema() {
            return;
        }
        let is_version = |row: &&Attribute| {
            (row.kind(), row.marker()) == (DATA, MULTIPLE) && version_number(row) != COUNTER
        };
        let expected = record.rows.iter().filter(is_version).count() as u32;
        let word = extents::VERSIONS.of(value);
        let found = word & !extents::SPARSE;
        if found != expected {
            let at = owner.spot.at;
            let message = format!(
                "versions of the data in the record at offset {at}: expected {expected}, found {found}"
            );
            self.find_in(owner, "stream-count", Severity::Inconsistent, message);
            self.amend_attribute(owner, extents::VERSIONS, word & extents::SPARSE | expected);
        }
    }

    fn named(
        &mut self,
        spot: &Spot<'_>,
        record: &Record,
        row: &Attribute,
        name: &[u16],
        taken: &mut HashSet<u64>,
    ) {
        if is_snapshot(&row.value) {
            self.snapshot(spot, record, row, name);
            return;
        }
        if !is_outside(&row.value) {
            self.inline(spot, record, name, row, false);
            return;
        }
        let owner = Owner::new(spot, name, row, record);
        let (size, number) = (summary::SIZE.of(&row.value), summary::NUMBER.of(&row.value));
        let runs = record.rows.iter().find(|row| extents_number(row) == Some(number));
        let Some(runs) = runs.filter(|_| taken.insert(number)) else {
            let message = format!("named stream: expected the runs with number {number:#x}, found none");
            self.lose(&owner, "stream", message);
            return;
        };
        let Some(found) = self.outside(spot, record, name, runs, false) else { return };
        if found.is_damaged {
            return;
        }
        let allocated = summary::ALLOCATED.of(&row.value);
        // Whether the allocated size counts holes that have rows is not known.
        let is_right =
            allocated == found.allocated || allocated == found.allocated.saturating_add(found.holes);
        if size != found.size || !is_right {
            let message = format!(
                "size of a named stream: expected {} bytes in {}, found {size} in {allocated}",
                found.size, found.allocated
            );
            self.find_in(&owner, "stream-size", Severity::Inconsistent, message);
            for (field, number) in [
                (summary::ALLOCATED, found.allocated),
                (summary::SIZE, found.size),
                (summary::VALID, found.size),
                (summary::ALLOCATED_TOO, found.allocated),
            ] {
                self.amend_attribute(&owner, field, number);
            }
        }
    }

    /// Reports runs of a version of the data that no snapshot names.
    fn unnamed_snapshot(&mut self, spot: &Spot<'_>, record: &Record, row: &Attribute) {
        let number = version_number(row);
        let is_its = |row: &&Attribute| {
            row.kind() == NAMED_DATA && is_snapshot(&row.value) && snapshot_number(&row.value) == number
        };
        if record.rows.iter().find(is_its).is_none() {
            let message =
                format!("runs of version {number:#x} of the data: expected a snapshot of this number");
            self.find_in(&Owner::new(spot, &[], row, record), "snapshot", Severity::Notice, message);
        }
    }

    /// Checks the row that names a snapshot of the file's data. The snapshot's runs are walked with those of the live
    /// data.
    fn snapshot(&mut self, spot: &Spot<'_>, record: &Record, row: &Attribute, name: &[u16]) {
        let owner = Owner::new(spot, name, row, record);
        let number = snapshot_number(&row.value);
        let is_its = |row: &&Attribute| {
            (row.kind(), row.marker()) == (DATA, MULTIPLE) && version_number(row) == number
        };
        let Some(runs) = record.rows.iter().find(is_its) else {
            let message = format!("snapshot: expected the runs with number {number:#x}, found none");
            self.find_in(&owner, "snapshot", Severity::DataLoss, message);
            return;
        };
        let (expected, found) = (extents::SIZE.of(&runs.value), summary::SIZE.of(&row.value));
        if expected != found {
            let message = format!("size of a snapshot: expected {expected}, found {found}");
            self.find_in(&owner, "snapshot", Severity::Inconsistent, message);
            self.amend_attribute(&owner, summary::SIZE, expected);
        }
    }

    fn stream_name(&mut self, spot: &Spot<'_>, names: &mut HashSet<Vec<u16>>, name: &[u16]) {
        let owner = Owner { stream: name, ..Owner::of(spot) };
        let folded = name.iter().map(|&unit| fold(&self.upper, unit)).collect();
        let is_twice = !names.insert(folded);
        if let Err(error) = NameRules::STREAM.check(&Name::from_units(name)) {
            self.find_in(&owner, "name", Severity::Inconsistent, format!("name of a stream: {error}"));
        }
        if is_twice {
            let message = "named stream: expected a name of its own, found that of another".into();
            self.find_in(&owner, "name", Severity::Inconsistent, message);
        }
    }

    /// Compares the record's own sizes with those of its data.
    fn sizes(&mut self, spot: &Spot<'_>, record: &Record, own: Option<FoundSizes>) {
        let owner = Owner::of(spot);
        let is_link = record.single(REPARSE).is_some();
        let Some(own) = own else {
            // A record without data is an empty file.
            if record.size > 0 && !is_link {
                let message = format!("record: expected data for {} bytes, found none", record.size);
                self.lose(&owner, "file-size", message);
            }
            return;
        };
        if own.is_damaged || is_link && own.size == 0 {
            return;
        }
        for (what, expected, found) in
            [("size", own.size, record.size), ("allocated bytes", own.allocated, record.allocated)]
        {
            let with_holes = expected.saturating_add(own.holes);
            let is_right = expected == found || what == "allocated bytes" && with_holes == found;
            if !is_right {
                let message =
                    format!("{what} in the record at offset {}: expected {expected}, found {found}", spot.at);
                self.find_in(&owner, "file-size", Severity::Inconsistent, message);
                let (size, allocated) = (own.size, own.allocated);
                self.amend(spot, move |record| (record.size, record.allocated) = (size, allocated));
            }
        }
        if own.has_holes && record.attributes & Record::SPARSE == 0 {
            let message = format!(
                "attributes in the record at offset {}: expected the one of holes",
                spot.at + Record::FLAGS.at() as u64
            );
            self.find_in(&owner, "sparse", Severity::Inconsistent, message);
            self.amend(spot, |record| record.attributes |= Record::SPARSE);
        }
    }
}
