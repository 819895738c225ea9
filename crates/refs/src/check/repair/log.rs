//! The log of syncs, before the first repair: the commit of that makes its entries void.

use super::relay;
use crate::RefsVolume;
use platter_device::Device;
use platter_vfs::{FileSystem, OpenOptions, Result};

/// What became of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// It has no entries, or the volume cannot be opened to look.
    Empty,
    /// What its entries tell is part of the volume now.
    CarriedOut,
    /// It has entries, and nothing can be done with them.
    GivenUp,
}

/// Carries out what the log tells, as opening the volume does, with a commit after it if that is safe.
pub fn carry_out_log(device: &dyn Device, is_safe: bool) -> Log {
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
    // What cannot be opened has findings of its own.
    carried_out.and_then(Result::ok).unwrap_or(Log::Empty)
}
