//! The values of the rows that hold the streams of a record: a summary, with the content behind it or a number that
//! leads to the runs; and the tree header with sizes before runs.
//!
//! Source: forefst `docs/attributes/DATA.md` and `docs/structures/extent_descriptors.md`, libfsrefs' documentation, and
//! records that Windows wrote.

use super::attribute::{Attribute, DATA, MULTIPLE, NAMED_DATA, STREAM_EXTENTS, SUMMARY};
use super::bytes::FieldAt;
use super::node::{self, NODE_HEADER};
use super::{Algorithm, header, tree_header};

/// Bytes of the value of the row that names a stream whose content is not in the record.
pub(crate) const HEAD: usize = 0x74;
/// Bytes before the node in a row's value that holds runs.
pub(crate) const EXTENTS_HEADER: usize = 0x88;
/// Bytes that the node of a large named stream is longer than its content needs, see [`pad_named`].
pub(crate) const ADDED_TO_NAMED: usize = 0x60;

/// Subtype of a row with runs of a version of the data.
const VERSION: u16 = 0x0E;
/// Subtype of a row that names a stream or a snapshot.
const NAMED: u16 = 5;
/// Bytes at the end of the key of a version of the data.
const VERSION_REST: usize = 24;
/// Bytes at the end of the key of the runs of a large named stream.
const EXTENTS_REST: usize = 0x40;
/// Of the end of a key: the number of a version of the data.
const VERSION_NUMBER: FieldAt<u64> = FieldAt::new(0x00);
/// Of the end of a key: the number of a large named stream.
const EXTENTS_NUMBER: FieldAt<u64> = FieldAt::new(0x20);

/// A summary: the form in which content stands in a record, and the beginning of the row of a stream that is outside.
pub(crate) mod summary {
    use super::{Algorithm, FieldAt};

    /// Flags of the form.
    pub(crate) const FORM: FieldAt<u32> = FieldAt::new(0x00);
    /// The upper half of [`FORM`].
    pub(super) const FORM_UPPER: FieldAt<u16> = FieldAt::new(0x02);
    /// Flag of the form: the content is outside the record.
    pub(crate) const OUTSIDE: u32 = 0x1000_0000;
    /// Bytes after the first 12.
    pub(super) const LENGTH: FieldAt<u32> = FieldAt::new(0x04);
    /// What the length does not count: 12.
    pub(super) const START: FieldAt<u32> = FieldAt::new(0x08);
    /// Bytes of the fixed part.
    pub(super) const FIXED: FieldAt<u32> = FieldAt::new(0x0C);
    /// What is named: a stream, or [`SNAPSHOT`].
    pub(crate) const NAMED: FieldAt<u16> = FieldAt::new(0x10);
    /// Of [`NAMED`]: a snapshot of the data.
    pub(crate) const SNAPSHOT: u16 = 2;
    /// The bytes allocated.
    pub(crate) const ALLOCATED: FieldAt<u64> = FieldAt::new(0x18);
    /// The size in bytes.
    pub(crate) const SIZE: FieldAt<u64> = FieldAt::new(0x20);
    /// The valid data length in bytes.
    pub(crate) const VALID: FieldAt<u64> = FieldAt::new(0x28);
    /// The bytes allocated, again.
    pub(crate) const ALLOCATED_TOO: FieldAt<u64> = FieldAt::new(0x30);
    /// See [`kind_word`](super::kind_word).
    pub(crate) const KIND: FieldAt<u32> = FieldAt::new(0x38);
    /// Of a stream outside: the number that its runs have too.
    pub(crate) const NUMBER: FieldAt<u64> = FieldAt::new(0x3C);
    /// Of a stream outside: the number again.
    pub(super) const NUMBER_TOO: FieldAt<u64> = FieldAt::new(0x44);
    /// Of a snapshot: the number of the version with its runs.
    pub(super) const VERSION: FieldAt<u32> = FieldAt::new(0x44);
    /// Of a snapshot: when it was made, in units of 100 ns since 1601.
    pub(super) const MADE: FieldAt<u64> = FieldAt::new(0x4C);

    /// Makes a summary of `length` bytes; bytes after the fixed part are zero.
    pub(crate) fn make(length: usize, allocated: u64, (size, valid): (u64, u64), kind: u32) -> Vec<u8> {
        let mut value = vec![0; length];
        LENGTH.put(&mut value, length as u32 - 12);
        START.put(&mut value, 0x0C);
        FIXED.put(&mut value, 0x30);
        ALLOCATED.put(&mut value, allocated);
        SIZE.put(&mut value, size);
        VALID.put(&mut value, valid);
        ALLOCATED_TOO.put(&mut value, allocated);
        KIND.put(&mut value, kind);
        value
    }

    /// The kind of checksum that the data of a stream has, or would have, as the lower half of [`KIND`] says it.
    pub(crate) fn kind_of(algorithm: Algorithm) -> u32 {
        if algorithm == Algorithm::Sha256 { 4 } else { 2 }
    }
}

/// The tree header before the runs of a stream, with its sizes.
pub(crate) mod extents {
    use super::{FieldAt, header};

    /// The number of leaf pages below the node; 0 if the runs are in the node.
    pub(crate) const LEAF_PAGES: FieldAt<u64> = header::LEAVES;
    /// The number of runs.
    pub(crate) const RUNS: FieldAt<u64> = header::ROWS;
    /// The offset of the following fields, less the size of the fixed part of a tree header.
    pub(super) const START: FieldAt<u32> = FieldAt::new(0x2C);
    /// The bytes allocated.
    pub(crate) const ALLOCATED: FieldAt<u64> = FieldAt::new(0x30);
    /// The size in bytes.
    pub(crate) const SIZE: FieldAt<u64> = FieldAt::new(0x38);
    /// The valid data length in bytes.
    pub(crate) const VALID: FieldAt<u64> = FieldAt::new(0x40);
    /// The bytes allocated by this version's own runs: on volumes of Windows it may have further ones of older versions.
    pub(crate) const OWN: FieldAt<u64> = FieldAt::new(0x48);
    /// The number of versions of the data, snapshots included, and [`SPARSE`].
    pub(crate) const VERSIONS: FieldAt<u32> = FieldAt::new(0x50);
    /// Flag beside the number of versions: the stream has holes.
    pub(crate) const SPARSE: u32 = 1 << 31;
    /// See [`kind_word`](super::kind_word).
    pub(crate) const KIND: FieldAt<u32> = FieldAt::new(0x58);
}

/// The row that counts the versions of a file's data.
mod counter {
    use super::FieldAt;

    /// Bytes of the row's value.
    pub(super) const LEN: usize = 0x28;
    /// The number for the next version.
    pub(super) const NEXT: FieldAt<u64> = FieldAt::new(0x20);
}

/// Flag of the word of a stream's kind: new data gets checksums.
pub(crate) const INTEGRITY: u32 = 0x1_0000;

/// The word of a stream that says which checksums its data has or would have, and whether it has them.
pub(crate) fn kind_word(algorithm: Algorithm, integrity: bool) -> u32 {
    summary::kind_of(algorithm) | if integrity { INTEGRITY } else { 0 }
}

/// What the row of a stream with runs says of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// The size in bytes.
    pub size: u64,
    /// The valid data length in bytes.
    pub valid: u64,
    /// The bytes allocated.
    pub allocated: u64,
}

/// Makes the value of a row with runs. `versions` is the number of versions of the data, with [`extents::SPARSE`] where
/// the stream has holes; `(leaf_pages, runs)` count what is in and below the node.
pub(crate) fn extents_value(
    sizes: Sizes,
    versions: u32,
    kind: u32,
    (leaf_pages, runs): (u64, u64),
    node: &[u8],
) -> Vec<u8> {
    let mut value = tree_header(0x200, 1, &[0; EXTENTS_HEADER - header::FIXED]);
    extents::START.put(&mut value, header::FIXED as u32);
    extents::ALLOCATED.put(&mut value, sizes.allocated);
    extents::SIZE.put(&mut value, sizes.size);
    extents::VALID.put(&mut value, sizes.valid);
    extents::OWN.put(&mut value, sizes.allocated);
    extents::VERSIONS.put(&mut value, versions);
    extents::KIND.put(&mut value, kind);
    extents::LEAF_PAGES.put(&mut value, leaf_pages);
    extents::RUNS.put(&mut value, runs);
    value.extend_from_slice(node);
    value
}

/// The node in the value of a row with runs; the length that the header states where it is not that of such a row.
pub(crate) fn extents_area(value: &[u8]) -> Result<&[u8], usize> {
    let start = header::LENGTH.of(value) as usize;
    value.get(EXTENTS_HEADER..).filter(|_| start == EXTENTS_HEADER).ok_or(start)
}

/// Makes the row with the runs of the version of a file's data that has this number.
pub(crate) fn version_row(number: u64, flags: u16, value: Vec<u8>) -> Attribute {
    let mut rest = [0; VERSION_REST];
    VERSION_NUMBER.put(&mut rest, number);
    Attribute::new(MULTIPLE, DATA, VERSION, &rest, flags, value)
}

/// Makes the row that counts the versions of a file's data.
pub(crate) fn counter_row(number: u64) -> Attribute {
    version_row(number, 0, vec![0; counter::LEN])
}

/// Makes the row that names a stream or a snapshot.
pub(crate) fn named_row(name: &[u16], value: Vec<u8>) -> Attribute {
    let units: Vec<u8> = name.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    Attribute::new(MULTIPLE, NAMED_DATA, NAMED, &units, 0, value)
}

/// Makes the row with the runs of the large named stream that has this number.
pub(crate) fn extents_row(number: u64, value: Vec<u8>) -> Attribute {
    let mut rest = [0; EXTENTS_REST];
    EXTENTS_NUMBER.put(&mut rest, number);
    Attribute::new(MULTIPLE, STREAM_EXTENTS, 0, &rest, 1, value)
}

/// Makes the value that names a stream whose runs stand under this number.
pub(crate) fn outside_head(number: u64, sizes: Sizes, kind: u32) -> Vec<u8> {
    let mut head = summary::make(HEAD, sizes.allocated, (sizes.size, sizes.valid), kind);
    summary::FORM_UPPER.put(&mut head, 0x1000);
    summary::NUMBER.put(&mut head, number);
    summary::NUMBER_TOO.put(&mut head, number);
    head
}

/// Makes the value that names a snapshot of a stream with these sizes, whose runs stand under this number.
pub(crate) fn snapshot_head(number: u64, sizes: Sizes, kind: u32, now: u64) -> Vec<u8> {
    /// A stream outside the record, with a number, and a kept version.
    const FORM: u16 = 0x1C00;
    let mut head = summary::make(HEAD, sizes.allocated, (sizes.size, sizes.valid), kind);
    summary::FORM_UPPER.put(&mut head, FORM);
    summary::NAMED.put(&mut head, summary::SNAPSHOT);
    summary::VERSION.put(&mut head, number as u32);
    summary::MADE.put(&mut head, now);
    head
}

/// The content that stands in the record after a summary, if it is as long as the summary says.
pub(crate) fn inline_content(value: &[u8]) -> Option<&[u8]> {
    value.get(SUMMARY..)?.get(..usize::try_from(summary::SIZE.of(value)).ok()?)
}

/// Whether the value of a row of a named stream is that of a snapshot.
pub(crate) fn is_snapshot(value: &[u8]) -> bool {
    summary::NAMED.of(value) == summary::SNAPSHOT
}

/// Whether the value of a row of a named stream says that the content is outside the record.
pub(crate) fn is_outside(value: &[u8]) -> bool {
    summary::FORM.of(value) & summary::OUTSIDE != 0 && value.len() == HEAD
}

/// The number of the version with a snapshot's runs, from the value of the row that names it.
pub(crate) fn snapshot_number(value: &[u8]) -> u64 {
    u64::from(summary::VERSION.of(value))
}

/// The number of a version of the data, from a row with its runs.
pub(crate) fn version_number(row: &Attribute) -> u64 {
    VERSION_NUMBER.of(row.rest())
}

/// The number in a row that has the form of the runs of a large named stream.
pub(crate) fn extents_number(row: &Attribute) -> Option<u64> {
    let is_one = row.kind() == STREAM_EXTENTS && row.rest().len() == EXTENTS_REST;
    is_one.then(|| EXTENTS_NUMBER.of(row.rest()))
}

/// The number for the next version of the data, from the value of the row that counts them.
pub(crate) fn next_version(counter: &[u8]) -> u64 {
    counter::NEXT.of(counter)
}

/// Sees to it that the row that counts the versions of the data has at least this number for the next one. The other
/// fields of the row are not known, so a row that Windows wrote keeps them.
pub(crate) fn raise_next_version(counter: &mut [u8], next: u64) {
    if counter.len() >= counter::LEN && counter::NEXT.of(counter) < next {
        counter::NEXT.put(counter, next);
    }
}

/// Gives the node of a named stream's runs free space that it does not need: another reader takes the length of the
/// value for the bound of offsets that count from the start of the row.
pub(crate) fn pad_named(value: &mut Vec<u8>) {
    let area = value.len() - EXTENTS_HEADER;
    assert!(area >= NODE_HEADER, "the value ends with a node");
    let index = node::INDEX.of(&value[EXTENTS_HEADER..]) as usize;
    let places: Vec<u8> = value[EXTENTS_HEADER + index..].to_vec();
    let more = ADDED_TO_NAMED;
    value.resize(value.len() + more, 0);
    value[EXTENTS_HEADER + index..].fill(0);
    let length = value.len();
    value[length - places.len()..].copy_from_slice(&places);
    let node = &mut value[EXTENTS_HEADER..];
    let free = node::FREE.of(node);
    node::FREE.put(node, free + more as u32);
    node::INDEX.put(node, (index + more) as u32);
    node::LENGTH.put(node, (area + more) as u64);
}

const _: () =
    assert!(HEAD > SUMMARY && summary::MADE.end() <= HEAD, "the fields of a snapshot are in its row");
const _: () = assert!(extents::KIND.end() <= EXTENTS_HEADER, "the sizes of a stream are before its node");
const _: () = assert!(counter::NEXT.end() <= counter::LEN, "the next number is in the row that counts");
