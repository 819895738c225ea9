//! Attributes that stand outside their record, and whether the content that a record refers to can be read.
//!
//! Source: forefst `docs/attributes/` and `docs/concepts/compression.md`; for the place of attributes outside the
//! record, the way refsprogs reads them.

use crate::layout::attribute::{COUNTER, DATA, EFS, NAMED_DATA, REPARSE, SINGLE, STREAM_EXTENTS};
use crate::layout::reparse_point::{read_reparse, reparse_value};
use crate::layout::stream::version_number;
use crate::layout::{Attribute, PageReference, Record, Row, legacy};
use crate::pages::{ANY_TABLE, Pages};
use platter_vfs::{Error, Reparse, Result, reparse};

/// The most pages with attributes of one record.
const MOST_PAGES: usize = 1024;

/// Reads the attributes that stand in pages outside the record into it.
pub(crate) fn complete(record: &mut Record, pages: &mut Pages) -> Result<()> {
    if !record.rows.is_empty() {
        return Ok(());
    }
    let mut pending: Vec<(PageReference, Option<u8>)> =
        record.outside.iter().rev().map(|&page| (page, None)).collect();
    let (mut rows, mut count) = (Vec::new(), 0);
    while let Some((reference, level)) = pending.pop() {
        count += 1;
        let page = pages.get(&reference, ANY_TABLE, false)?;
        let node = page.node();
        if count > MOST_PAGES || level.is_some_and(|level| node.level() != level) || node.is_stream() {
            let expected = format!("a node of attributes, one of at most {MOST_PAGES}");
            let found = format!("number {count}, level {}", node.level());
            return Err(Error::damaged("attributes outside a record", 0, expected, found));
        }
        if !node.is_inner() {
            rows.extend(node.rows().map(Attribute::from));
            continue;
        }
        let start = pending.len();
        for row in node.rows() {
            pending.push((PageReference::from_bytes(row.value, 0)?, node.level().checked_sub(1)));
        }
        pending[start..].reverse();
    }
    record.rows = match legacy::is_legacy(record.schema) {
        true => legacy::to_modern(rows),
        false => rows,
    };
    Ok(())
}

/// The reason why the clusters of a file do not hold its content as it is, if so.
pub(crate) fn unreadable(record: &Record) -> Option<&'static str> {
    /// Reparse tags of files whose content is elsewhere, and the reason.
    const ELSEWHERE: [(u32, &str); 4] = [
        (0x8000_0013, "Data Deduplication keeps it in its chunk store"),
        (0x8000_0017, "Windows Overlay Filter keeps it compressed elsewhere"),
        (0x8000_0018, "Windows Container Isolation keeps it in another layer"),
        (0xC000_0004, "Hierarchical Storage Management keeps it elsewhere"),
    ];
    if is_encrypted(record) {
        return Some("it is encrypted with EFS, and only its user's key decrypts it");
    }
    if record.attributes & COMPRESSED != 0 {
        return Some("it is marked as compressed, in a way that is not known");
    }
    let known = ELSEWHERE.iter().find(|(tag, _)| *tag == record.reparse).map(|(_, why)| *why);
    // A placeholder of a cloud service holds its data unless its attributes say that the data must be fetched.
    let is_cloud = record.reparse & 0xFFFF_0FFF == 0x9000_001A;
    let cloud = (is_cloud && record.attributes & (OFFLINE | RECALL) != 0)
        .then_some("a cloud service keeps it; this is a placeholder");
    known.or(cloud)
}

/// The error of giving a file a reparse point by which it would be [`unreadable`].
pub(crate) fn elsewhere() -> Error {
    Error::NotPermitted("what this tag stands for keeps the content elsewhere")
}

/// Whether a file's content is encrypted with a key that the volume does not have.
pub(crate) fn is_encrypted(record: &Record) -> bool {
    record.attributes & ENCRYPTED != 0 || record.single(EFS).is_some()
}

/// Attribute flags of a record whose content is stored compressed, elsewhere, encrypted, or fetched when it is read.
const COMPRESSED: u32 = 0x800;
const OFFLINE: u32 = 0x1000;
const ENCRYPTED: u32 = 0x4000;
const RECALL: u32 = 0x40_0000;

/// The reason why a node with this record may only be read, if so. `left` are the attributes that are neither streams
/// nor of another known kind.
pub(crate) fn only_read(record: &Record, left: &[Attribute]) -> Option<&'static str> {
    if !record.outside.is_empty() {
        return Some("its attributes stand outside its record, which is only read");
    }
    // An attribute with runs has clusters, which would not be accounted for.
    let has_runs = |row: &Attribute| {
        row.flags & Row::EMBEDDED != 0 || matches!(row.kind(), STREAM_EXTENTS | NAMED_DATA) || is_version(row)
    };
    left.iter().any(has_runs).then_some("it has streams of a kind that is not known, and is only read")
}

/// Whether a row holds a version of the file's data, and is not the counter row.
fn is_version(row: &Attribute) -> bool {
    row.kind() == DATA && version_number(row) != COUNTER
}

pub(crate) use platter_vfs::reparse::is_link;

/// The reparse point of a record.
pub(crate) fn reparse_point(record: &Record) -> Option<Reparse> {
    let row = record.single(REPARSE)?;
    Some(read_reparse(&row.value))
}

/// Sets the reparse point of a record, or removes it.
pub(crate) fn set_reparse_point(record: &mut Record, point: Option<&Reparse>) {
    record.take(|row| row.is_single() && row.kind() == REPARSE);
    record.reparse = point.map_or(0, |point| point.tag);
    record.attributes &= !Record::REPARSE_POINT;
    let Some(point) = point else { return };
    record.attributes |= Record::REPARSE_POINT;
    record.rows.push(Attribute::new(SINGLE, REPARSE, 0, &[], 0, reparse_value(point)));
}

/// The target of a symbolic link, junction or mount point, as shown to users.
pub(crate) fn link_target(record: &Record) -> Result<String> {
    match reparse_point(record).filter(|_| is_link(record.reparse)) {
        Some(point) => reparse::target(&point),
        None => Err(Error::InvalidArgument("not a symbolic link")),
    }
}
