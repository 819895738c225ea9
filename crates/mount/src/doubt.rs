//! Reasons not to write to a volume.

use platter_vfs::{FileSystem, Result};

/// Returns why the format refuses to write to a volume that was opened for writing: for example a log that is not
/// understood, a hibernated Windows or a newer version. `None` if it does not refuse.
///
/// # Errors
/// The errors of [`FileSystem::info`].
pub fn refusal(system: &dyn FileSystem) -> Result<Option<String>> {
    Ok(system.info()?.read_only)
}
