//! Entries of directories: their rows, and whether a directory lies inside another.

use super::{ListedRow, NAMES, RefsVolume};
use crate::core::{Core, RecordPlace};
use crate::layout::record::key;
use platter_vfs::{Error, Name, Result};

impl RefsVolume {
    /// Returns the row of a name in a directory: its key as it is stored, and its parsed value.
    pub(super) fn row(
        &self,
        core: &mut Core,
        directory: u64,
        name: &Name,
    ) -> Result<Option<(Vec<u8>, ListedRow)>> {
        // No name that is this long or empty is there. One that the rules for new names forbid may be.
        if !(1..=NAMES.longest).contains(&name.units().len()) {
            return Ok(None);
        }
        let (tree, pages) = core.tree(directory)?;
        let found = tree.get(pages, &key::name(key::LONG, name.units()), |row| {
            ListedRow::from_bytes(row.key, row.value).map(|parsed| (row.key.to_vec(), parsed))
        })?;
        found.transpose()
    }

    pub(super) fn has_names(&self, core: &mut Core, object: u64) -> Result<bool> {
        let (tree, pages) = core.tree(object)?;
        let mut found = false;
        tree.scan(pages, &key::FIRST_NAME, |row| {
            found = key::kind(row.key) == key::NAME;
            Ok(false)
        })?;
        Ok(found)
    }

    /// Whether directory `object` is the directory `above` or lies somewhere in it.
    pub(super) fn is_inside(&self, core: &mut Core, mut object: u64, above: u64) -> Result<bool> {
        // The number of steps is bounded, since directories on a damaged volume may lie in each other in a circle.
        for _ in 0..1 << 20 {
            if object == above {
                return Ok(true);
            }
            if object == crate::core::ROOT_DIRECTORY {
                return Ok(false);
            }
            let node = core.open_directory(object)?;
            match core.entity(node)?.place {
                RecordPlace::Directory { above, .. } => object = above,
                _ => return Err(Error::NotFound),
            }
        }
        Err(Error::damaged("directory", 0, "a way up to the root", "a ring"))
    }
}
