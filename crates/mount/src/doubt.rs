//! Reasons not to write to a volume.

use platter_vfs::{FileSystem, Result};

/// Whether writing to a volume, which is open for reading, may destroy files: the volume was not unmounted, and its
/// format has no log by which it recovers, so clusters of files may be recorded as free.
///
/// # Errors
/// The errors of [`FileSystem::info`].
pub fn is_in_doubt(system: &dyn FileSystem) -> Result<bool> {
    Ok(!system.capabilities().recovers && system.info()?.dirty)
}

/// Returns why the format refuses to write to a volume that was opened for writing: for example a log that is not
/// understood, a hibernated Windows or a newer version. `None` if it does not refuse.
///
/// # Errors
/// The errors of [`FileSystem::info`].
pub fn refusal(system: &dyn FileSystem) -> Result<Option<String>> {
    let details = system.info()?.details;
    Ok(details.into_iter().find(|(name, _)| *name == "read-only").map(|(_, reason)| reason))
}
