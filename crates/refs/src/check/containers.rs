//! The container table: where each container lies.

use super::page::{FIRST_CONTAINER, Subject, plain};
use super::tree::{RowCursor, TreeRow};
use super::{Check, copies};
use crate::layout::{ContainerRow, Root};
use platter_vfs::{Error, Result, Severity};
use std::collections::HashMap;

/// The fields of a container row that the space check needs.
pub(super) struct Container {
    /// The container's first real cluster; `None` if the row is damaged.
    pub start: Option<u64>,
    /// The number of free clusters, from each of the two fields of the row that hold it.
    pub free: (u64, u32),
    /// Whether the container is set apart for metadata.
    pub for_pages: bool,
    /// The offset of the row's value on the device, in bytes.
    pub at: u64,
}

/// Reads both container tables.
pub(super) fn read(check: &mut Check<'_>) {
    let (first, second) = (check.root_cursor(Root::Containers), check.root_cursor(Root::ContainersCopy));
    let places = places(check, first.again());
    let valid = |check: &mut Check<'_>, row: &TreeRow| {
        let most = check.geometry.clusters / u64::from(check.geometry.per_container);
        plausible(check, row).is_ok_and(|found| {
            let is_single = places.get(&found.start).is_none_or(|&containers| containers < 2);
            let is_key = row.key[..] == ContainerRow::key(found.number) && row.value.starts_with(&row.key);
            found.number - FIRST_CONTAINER < most && is_single && is_key
        })
    };
    copies::walk(check, first, second, &valid, &mut row);
    // From here on virtual cluster numbers can be translated to real ones.
    check.starts = check.containers.iter().map(|container| container.start).collect();
    let expected = check.geometry.clusters / u64::from(check.geometry.per_container);
    let found = check.containers.len() as u64;
    if found < expected {
        let message = format!("container table: expected {expected} containers, found {found}");
        check.find("container", Severity::Notice, None, message);
    }
    let mut places: Vec<u64> = check.starts.iter().flatten().copied().collect();
    places.sort_unstable();
    for pair in places.windows(2).filter(|pair| pair[0] == pair[1]) {
        let message = format!("container table: two containers lie at cluster {:#x}", pair[0]);
        check.find("container", Severity::DataLoss, None, message);
    }
}

/// Returns how many containers a table puts at each first real cluster.
fn places(check: &mut Check<'_>, mut cursor: RowCursor) -> HashMap<u64, u32> {
    let mut places = HashMap::new();
    // This walk does not count the table's pages as used; the one that reads the rows does.
    check.is_again = true;
    while let Some(row) = cursor.next(check) {
        if let Ok(found) = ContainerRow::from_bytes(&row.value, row.value_at) {
            *places.entry(found.start).or_default() += 1;
        }
    }
    check.is_again = false;
    places
}

fn row(check: &mut Check<'_>, row: TreeRow) {
    let most = check.geometry.clusters / u64::from(check.geometry.per_container) + 1;
    if check.containers.len() as u64 >= most {
        return;
    }
    let container = match read_row(check, &row) {
        Ok(found) => {
            let free = (found.free, ContainerRow::free_too(&row.value));
            if found.flags & ContainerRow::COMPRESSED != 0 && !check.is_compressed {
                check.is_compressed = true;
                let message = format!(
                    "container {} at offset {}: its content is compressed; the volume is only read",
                    found.number, row.at
                );
                check.find("compressed", Severity::Notice, None, message);
            }
            if let Err((at, expected, found)) = ContainerRow::form(&row.value, check.geometry.version) {
                let at = row.value_at + at as u64;
                let message =
                    format!("container table: row at offset {at}: expected {expected:#x}, found {found:#x}");
                check.find("container-row", Severity::Inconsistent, None, message);
                check.repair.space();
            }
            let kinds = ContainerRow::METADATA | ContainerRow::DATA;
            let for_pages = found.flags & kinds == ContainerRow::METADATA;
            Container { start: Some(found.start), free, for_pages, at: row.value_at }
        }
        Err(error) => {
            let message = format!("container table: {}", plain(&error));
            check.find("container", Severity::DataLoss, None, message);
            check.is_incomplete = true;
            check.is_content_lost = true;
            Container { start: None, free: (u64::MAX, u32::MAX), for_pages: false, at: row.value_at }
        }
    };
    check.containers.push(container);
}

/// Reads a row, which must be that of the next container.
fn read_row(check: &Check<'_>, row: &TreeRow) -> Result<ContainerRow> {
    let found = plausible(check, row)?;
    let expected = FIRST_CONTAINER + check.containers.len() as u64;
    if found.number != expected {
        return Err(Error::damaged("number of a container", row.value_at, expected, found.number));
    }
    Ok(found)
}

/// Reads a row, and compares its fields with each other and with the volume's size, but not with other rows.
fn plausible(check: &Check<'_>, row: &TreeRow) -> Result<ContainerRow> {
    let found = ContainerRow::from_bytes(&row.value, row.value_at)?;
    let number = ContainerRow::number_of(&row.key);
    if found.number != number || number < FIRST_CONTAINER {
        return Err(Error::damaged("number of a container", row.value_at, number, found.number));
    }
    let count = check.geometry.per_container;
    let length = ContainerRow::count_too(&row.value);
    if found.count != count || length != u64::from(count) {
        let found = format!("{} and {length}", found.count);
        let at = row.value_at + ContainerRow::COUNT.at() as u64;
        return Err(Error::damaged("clusters of a container", at, count, found));
    }
    let end = found.start.checked_add(u64::from(count));
    let is_inside = end.is_some_and(|end| end <= check.geometry.clusters);
    if !is_inside || found.start % u64::from(count) != 0 {
        let expected = format!("a multiple of {count:#x} inside the volume");
        let at = row.value_at + ContainerRow::place_at(row.value.len()) as u64;
        return Err(Error::damaged("place of a container", at, expected, format!("{:#x}", found.start)));
    }
    Ok(found)
}

impl Check<'_> {
    /// Returns a cursor over the rows of a root's tree.
    pub(super) fn root_cursor(&self, root: Root) -> RowCursor {
        use super::order::Order;
        use crate::container::Tier;
        let tier = match root {
            root if root.is_real() => Tier::Small,
            Root::MediumAllocator | Root::ContainerAllocator => Tier::Container,
            _ => Tier::Medium,
        };
        let subject = Subject {
            name: root.name().into(),
            path: None,
            table: root.table(),
            order: Order::Words,
            tier,
            severity: Severity::Inconsistent,
            renewable: true,
        };
        RowCursor::new(subject, self.anchors.checkpoint.roots[root as usize], self.checkpoint_at)
    }
}
