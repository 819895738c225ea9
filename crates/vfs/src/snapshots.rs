//! Finding a snapshot of a file by its name.

use crate::case::windows_upper;
use crate::{Error, FileSystem, Name, Node, Result};

/// Returns the stored name of the snapshot that is called `name` in upper or lower case; `None` if a file has no such
/// snapshot, or the format has none. A snapshot is opened like a named stream, and both are in one list of names, so
/// this tells them apart.
///
/// # Errors
/// The errors of reading the node.
pub fn find_snapshot(system: &dyn FileSystem, node: Node, name: &Name) -> Result<Option<Name>> {
    let all = match system.snapshots().and_then(|part| part.list(node)) {
        Err(Error::Unsupported { .. }) => return Ok(None),
        found => found?,
    };
    let upper = |name: &Name| -> Vec<u16> { name.units().iter().map(|&unit| windows_upper(unit)).collect() };
    let wanted = upper(name);
    Ok(all.into_iter().find(|one| upper(one) == wanted))
}
