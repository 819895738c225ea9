//! The rows of a directory that lead from the number of a file to its name or record. Windows looks files up by them that
//! are opened by their identifier, which consists of home directory and number.

use super::Core;
use crate::layout::NumberRow;
use crate::layout::record::key;
use platter_vfs::Result;

impl Core {
    /// Puts the row that leads from the number of a file in its home directory to its name or record.
    pub(crate) fn put_number(&mut self, home: u64, ordinal: u64, row: &NumberRow) -> Result<()> {
        let (tree, pages) = self.tree_mut(home)?;
        tree.put(pages, &key::number(ordinal), 0, &row.to_bytes()).map(drop)
    }

    /// Removes the row that leads from a number to a file, if there is one.
    pub(crate) fn forget_number(&mut self, home: u64, ordinal: u64) -> Result<()> {
        let row_key = key::number(ordinal);
        let (tree, pages) = self.tree(home)?;
        if tree.get(pages, &row_key, |_| ())?.is_some() {
            let (tree, pages) = self.tree_mut(home)?;
            tree.remove(pages, &row_key)?;
        }
        Ok(())
    }
}
