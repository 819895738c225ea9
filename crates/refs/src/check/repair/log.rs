//! The log of syncs. Its entries are carried out before the first repair, since the commit of a repair makes them void.

use super::relay;
use crate::RefsVolume;
use platter_device::Device;
use platter_vfs::{FileSystem, OpenOptions, Result};

/// What became of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// The log has no entries, or the volume cannot be opened to look.
    Empty,
    /// The changes in the log's entries are part of the volume now.
    CarriedOut,
    /// The log has entries, and they cannot be carried out.
    GivenUp,
}

/// Carries out the log's entries by opening the volume, and commits if `is_safe`. If it is not, the volume is opened
/// only to see whether the log has entries.
pub(crate) fn carry_out_log(device: &dyn Device, is_safe: bool) -> Log {
    let carried_out = relay::lend(device, move |device| -> Result<Log> {
        let volume = RefsVolume::open(device, OpenOptions { read_only: !is_safe, ..OpenOptions::default() })?;
        if !volume.core().has_written {
            return Ok(Log::Empty);
        }
        if volume.core().writable().is_err() {
            return Ok(Log::GivenUp);
        }
        volume.unmount()?;
        Ok(Log::CarriedOut)
    });
    // If the volume cannot be opened, the check has findings that tell why.
    carried_out.and_then(Result::ok).unwrap_or(Log::Empty)
}
