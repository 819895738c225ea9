//! Whether a volume may be written to.

use crate::{FileSystem, Result};

/// Whether writing to a volume may destroy files: it was not unmounted, and its format has no log by which it recovers,
/// so clusters of files may be recorded as free. A check with repair puts that right.
///
/// # Errors
/// The errors of [`FileSystem::info`].
pub fn is_in_doubt(system: &dyn FileSystem) -> Result<bool> {
    Ok(!system.capabilities().recovers && system.info()?.dirty)
}
