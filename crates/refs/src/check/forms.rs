//! Fields that are the same in every structure of a kind, and marks that Windows writes. Readers pass over them; the
//! driver compares some, and nothing else says what it makes of another value.
//!
//! Sources: forefst `docs/structures/page_header.md`, `btree_node.md`, `schema_table.md` and `object_table.md` (August
//! 2026), and the pages of Windows in `tests/data`.

use super::Check;
use super::known::{METADATA_DIRECTORY, SECURITY, TRASH, is_directory};
use super::page::{Page, Role, Subject, Wrong, named};
use super::tree::TreeRow;
use crate::layout::bytes::{put, u16_at, u32_at, u64_at};
use crate::layout::{CHECKSUM_KIND, ContainerRow, ObjectRow, Root, TreeNode, Version, tree_header};
use crate::system;
use platter_vfs::Severity;

/// The bytes of a tree header that all trees have.
const FIXED: usize = 0x28;

/// Inner nodes without the mark of their last child.
#[derive(Default)]
pub struct Unmarked {
    count: u64,
    first: u64,
}

/// Checks the page header, and the marks in the index of the page's node.
pub fn page(check: &mut Check<'_>, subject: &Subject, role: Role, page: &Page) {
    let bytes = page.bytes();
    let fields = [
        ("form of a page header", 0x04, 2, u64::from(u32_at(bytes, 0x04))),
        ("upper half of a page's table", 0x40, 0, u64_at(bytes, 0x40)),
    ];
    for (what, at, expected, found) in fields {
        if expected != found {
            let at = page.at + at;
            let message = format!("{what} at offset {at}: expected {expected:#x}, found {found:#x}");
            check.find("page-header", Severity::Inconsistent, subject.path.clone(), named(subject, message));
            if !role.embedded {
                check.repair.rebuild(subject.table);
            }
        }
    }
    let is_marked = check.geometry.version >= Version::V3_10 && !role.embedded;
    match marks(page.area(), is_marked) {
        Ok(true) => {}
        // Windows keeps this form in pages that it has not written since an upgrade.
        Ok(false) if !check.anchors.checkpoint.echo || check.is_again => {}
        Ok(false) => {
            if check.unmarked.count == 0 {
                check.unmarked.first = page.place(0);
            }
            check.unmarked.count += 1;
        }
        Err((offset, expected, found)) => {
            let at = page.place(offset);
            let message = format!("index of a node at offset {at}: expected {expected}, found {found}");
            check.find("node-mark", Severity::Inconsistent, subject.path.clone(), named(subject, message));
            if !role.embedded {
                check.repair.rebuild(subject.table);
            }
        }
    }
}

/// Checks the upper halves of the entries in a node's index: 0xFFFF, and 0 for the last child of an inner node, which has
/// an empty key, where `is_marked`. Returns whether the last child has its mark, or there is none that must have one.
pub fn marks(area: &[u8], is_marked: bool) -> Result<bool, Wrong> {
    let node = TreeNode::new(area);
    if node.is_stream() {
        return Ok(true);
    }
    let (index, count) = (u32_at(area, 0x10) as usize, node.len());
    for position in 0..count {
        let at = index + 4 * position + 2;
        let found = u16_at(area, at);
        let may_be_marked = is_marked && node.is_inner() && position + 1 == count;
        match found {
            0 if may_be_marked => {}
            0xFFFF if may_be_marked => return Ok(!node.row(position).key.is_empty()),
            0xFFFF => {}
            _ => return Err((at, if may_be_marked { "0" } else { "0xffff" }.into(), format!("{found:#x}"))),
        }
    }
    Ok(true)
}

/// Reports the inner nodes without the mark, once everything has been walked.
pub fn finish(check: &mut Check<'_>) {
    let Unmarked { count, first } = std::mem::take(&mut check.unmarked);
    if count > 0 {
        let message = format!(
            "{count} inner nodes do not mark their last child, as Windows does and earlier versions of Platter did not; \
             the first is at offset {first}"
        );
        check.find("node-mark", Severity::Notice, None, message);
    }
}

/// The schema of a table, and the size of the region that it has in its tree header; `None` for a table that is not known.
fn kind(table: u64) -> Option<(u32, u32)> {
    let root = Root::ALL.into_iter().find(|root| root.table() == table);
    let schema = match (root, table) {
        (Some(root), _) => root.schema(),
        (_, 0x07..=0x0A) => 0xE090,
        (_, TRASH) => 0xE0D0,
        (_, 0x500 | 0x501) => 0x150,
        (_, SECURITY) => 0x140,
        (_, 0x540 | 0x541) => 0x160,
        (_, METADATA_DIRECTORY) => 0x130,
        (_, directory) if is_directory(directory) => 0x130,
        _ => return None,
    };
    let extra = system::schema(Version::V3_14.minor, schema)?.root_extra;
    // The table of reference counts names no schema.
    Some((if root == Some(Root::References) { 0 } else { schema }, extra))
}

/// Checks the tree header of a table's root page, on volumes that were made as 3.14: in others pages may be of an earlier
/// version.
pub fn header(check: &mut Check<'_>, subject: &Subject, page: &Page) {
    let is_native = check.anchors.checkpoint.echo && check.geometry.version == Version::V3_14;
    let Some((schema, extra)) = kind(subject.table).filter(|_| is_native) else { return };
    let header = page.header();
    let at = page.at + crate::layout::page::HEADER as u64;
    let checksum = u32::from(check.geometry.algorithm.code());
    let fields = [
        ("size", 0x00, FIXED as u32 + extra, header.len() as u32),
        ("size of the fixed part", 0x04, FIXED as u32, u32::from(u16_at(header, 0x04))),
        ("word", 0x08, 1, u32_at(header, 0x08)),
        ("schema", 0x0C, schema, u32_at(header, 0x0C)),
        ("schema", 0x10, schema, u32_at(header, 0x10)),
        ("kind of checksum", CHECKSUM_KIND as u64, checksum, u32_at(header, CHECKSUM_KIND)),
    ];
    for (what, field, expected, found) in fields {
        if expected != found {
            let message = format!(
                "{what} in the tree header at offset {}: expected {expected:#x}, found {found:#x}",
                at + field
            );
            check.find("tree-header", Severity::Inconsistent, subject.path.clone(), named(subject, message));
            check.repair.rebuild(subject.table);
        }
    }
}

/// The tree header of a table, with the fields put right that [`header`] checks.
pub fn mended(header: &[u8], table: u64, checksum: u8) -> Vec<u8> {
    let Some((schema, extra)) = kind(table) else { return header.to_vec() };
    let mut region = header.get(FIXED..).unwrap_or(&[]).to_vec();
    region.resize(extra as usize, 0);
    let mut mended = tree_header(schema, u16_at(header, 0x06), &region);
    put(&mut mended, CHECKSUM_KIND, u32::from(checksum));
    mended
}

/// Checks the fields of a row of the object table that are the same in all rows of its form.
pub fn object(check: &mut Check<'_>, number: u64, row: &TreeRow) {
    if let Err((at, expected, found)) = ObjectRow::form(&row.value) {
        let at = row.value_at + at as u64;
        let message = format!(
            "object table: row of object {number:#x} at offset {at}: expected {expected:#x}, found {found:#x}"
        );
        check.find("object-row", Severity::Inconsistent, None, message);
        check.repair.add(super::Task::Row { object: number });
    }
}

/// Checks the fields of a row of the container table that are the same in all rows.
pub fn container(check: &mut Check<'_>, row: &TreeRow) {
    if let Err((at, expected, found)) = ContainerRow::form(&row.value, check.geometry.version) {
        let at = row.value_at + at as u64;
        let message =
            format!("container table: row at offset {at}: expected {expected:#x}, found {found:#x}");
        check.find("container-row", Severity::Inconsistent, None, message);
        check.repair.space();
    }
}
