//! Fields that are the same in every structure of a kind, and marks that Windows writes. Readers pass over them; the
//! driver compares some, and nothing else says what it makes of another value.
//!
//! Sources: forefst `docs/structures/page_header.md`, `btree_node.md`, `schema_table.md` and `object_table.md` (August
//! 2026), and the pages of Windows in `tests/data`.

use super::Check;
use crate::core::{FIRST_OBJECT, ROOT_DIRECTORY};
use crate::layout::header::{
    CHECKSUM_KIND, FIXED, FIXED_LENGTH, KIND, LENGTH, SCHEMA, SCHEMA_TOO, WORD, extra, tree_header,
};
use crate::layout::system;
use crate::layout::{PageHeader, Root, TreeNode, Version, node};
use platter_vfs::Severity;

/// A field: its name, its offset, the expected and the found value.
pub(super) type Field = (&'static str, u64, u64, u64);

/// Inner nodes without the mark of their last child.
#[derive(Default)]
pub(super) struct Unmarked {
    count: u64,
    first: u64,
}

impl Unmarked {
    /// Notes an inner node without the mark, which stands at offset `at` on the device.
    pub(super) fn add(&mut self, at: u64) {
        if self.count == 0 {
            self.first = at;
        }
        self.count += 1;
    }
}

/// Returns the fields of the header of a page that are not as in every page.
pub(super) fn page(bytes: &[u8]) -> impl Iterator<Item = Field> {
    let fields = [
        ("form of a page header", PageHeader::FORM.at() as u64, 2, u64::from(PageHeader::FORM.of(bytes))),
        ("word of a page header", PageHeader::WORD.at() as u64, 0, u64::from(PageHeader::WORD.of(bytes))),
        (
            "upper half of a page's table",
            PageHeader::TABLE_UPPER.at() as u64,
            0,
            PageHeader::TABLE_UPPER.of(bytes),
        ),
    ];
    fields.into_iter().filter(|(_, _, expected, found)| expected != found)
}

/// Checks the upper halves of the entries in a node's index: 0xFFFF, and 0 for the last child of an inner node, which has
/// an empty key, where `is_marked`. Returns whether the last child has its mark, or there is none that must have one.
pub(super) fn marks(area: &[u8], is_marked: bool) -> Result<bool, (usize, String, String)> {
    let node = TreeNode::new(area);
    if node.is_stream() {
        return Ok(true);
    }
    let (index, count) = (node::INDEX.of(area) as usize, node.len());
    for position in 0..count {
        let field = node::PLACE_MARK.within(index + node::PLACE * position);
        let found = field.of(area);
        let may_be_marked = is_marked && node.is_inner() && position + 1 == count;
        match found {
            0 if may_be_marked => {}
            0xFFFF if may_be_marked => return Ok(!node.row(position).key.is_empty()),
            0xFFFF => {}
            _ => {
                return Err((
                    field.at(),
                    if may_be_marked { "0" } else { "0xffff" }.into(),
                    format!("{found:#x}"),
                ));
            }
        }
    }
    Ok(true)
}

/// Reports the inner nodes without the mark, once everything has been walked.
pub(super) fn finish(check: &mut Check<'_>) {
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
        (_, 0x0D) => 0xE0D0,
        (_, 0x500 | 0x501) => 0x150,
        (_, 0x530) => 0x140,
        (_, 0x540 | 0x541) => 0x160,
        (_, 0x520 | ROOT_DIRECTORY | FIRST_OBJECT..) => 0x130,
        _ => return None,
    };
    let extra = system::schema(Version::V3_14.minor, schema)?.root_extra;
    // The table of reference counts names no schema.
    Some((if root == Some(Root::References) { 0 } else { schema }, extra))
}

/// Returns the fields of the tree header of a table that are not as on volumes of 3.14. `checksum` is the code of the
/// volume's checksum.
pub(super) fn header(header: &[u8], table: u64, checksum: u8) -> impl Iterator<Item = Field> {
    let fields = kind(table).map(|(schema, extra)| {
        [
            ("size", LENGTH.at(), FIXED as u32 + extra, header.len() as u32),
            ("size of the fixed part", FIXED_LENGTH.at(), FIXED as u32, u32::from(FIXED_LENGTH.of(header))),
            ("word", WORD.at(), 1, WORD.of(header)),
            ("schema", SCHEMA.at(), schema, SCHEMA.of(header)),
            ("schema", SCHEMA_TOO.at(), schema, SCHEMA_TOO.of(header)),
            ("kind of checksum", CHECKSUM_KIND.at(), u32::from(checksum), CHECKSUM_KIND.of(header)),
        ]
    });
    let wrong = fields.into_iter().flatten().filter(|(_, _, expected, found)| expected != found);
    wrong.map(|(what, at, expected, found)| (what, at as u64, u64::from(expected), u64::from(found)))
}

/// The tree header of a table, with the fields put right that [`header`] checks.
pub(super) fn mended(header: &[u8], table: u64, checksum: u8) -> Vec<u8> {
    let Some((schema, size)) = kind(table) else { return header.to_vec() };
    let mut region = extra(header).to_vec();
    region.resize(size as usize, 0);
    let mut mended = tree_header(schema, KIND.of(header), &region);
    CHECKSUM_KIND.put(&mut mended, u32::from(checksum));
    mended
}
