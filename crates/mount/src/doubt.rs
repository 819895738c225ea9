//! What speaks against writing to a volume.

use platter_vfs::{FileSystem, Result};

/// Whether writing to a volume, which is open for reading, may destroy files: it was not closed, and its format has no log
/// that would tell what was going on, so clusters of files may be taken for free.
///
/// # Errors
/// What asking the volume gives.
pub fn is_in_doubt(system: &dyn FileSystem) -> Result<bool> {
    Ok(!system.capabilities().recovers && system.info()?.dirty)
}

/// Why the format itself refuses to write to a volume that was opened for writing: a log that is not understood, a sleeping
/// Windows, a newer version.
///
/// # Errors
/// What asking the volume gives.
pub fn refusal(system: &dyn FileSystem) -> Result<Option<String>> {
    let details = system.info()?.details;
    Ok(details.into_iter().find(|(name, _)| *name == "read-only").map(|(_, reason)| reason))
}
