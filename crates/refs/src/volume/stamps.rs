//! What every write to a stream has to note: times, attributes, and whether it may be written at all.

use super::Volume;
use crate::core::Core;
use crate::extents::Mapping;
use crate::stream::{Stream, StreamContent, StreamState};
use platter_vfs::{Error, Result};
use std::sync::atomic::Ordering;

impl Volume {
    pub(super) fn may_write(&self, stream: &Stream) -> Result<()> {
        self.health.writable()?;
        if stream.read_only.load(Ordering::Relaxed) {
            return Err(Error::NotPermitted("it has the read-only attribute"));
        }
        match stream.limits.only_read {
            Some(why) => Err(Error::NotPermitted(why)),
            None => Ok(()),
        }
    }

    /// Notes that a stream was written just now.
    pub(super) fn stamp(&self, stream: &Stream) {
        stream.modified.store(self.now(), Ordering::Release);
        stream.touched.store(true, Ordering::Release);
    }

    /// Notes that a stream was written in place, without taking the lock of the core.
    pub(super) fn touch(&self, stream: &Stream) {
        stream.modified.store(self.now(), Ordering::Release);
        if !stream.touched.swap(true, Ordering::AcqRel) {
            self.touched.lock().push(stream.node);
        }
    }
}

/// Whether a write to a range of a stream's clusters overwrites them in place: all exist, their leaves are in memory, and
/// neither a checksum nor another stream depends on their content.
pub(super) fn is_overwritten(state: &StreamState, from: u32, to: u32) -> bool {
    let StreamContent::Extents(extents) = &state.content else { return false };
    let mut at = from;
    while at < to {
        match extents.find(at) {
            Mapping::Extent(run) if run.checksum().is_none() => at = run.end(),
            _ => return false,
        }
    }
    !state.integrity && !state.shared
}

/// Whether an entry of the log of syncs can hold new runs of a stream.
pub(super) fn tells_of(core: &Core, stream: &Stream, state: &StreamState) -> bool {
    let is_there = state.extents().is_some() && state.unwritten.is_none();
    is_there && !state.shared && !state.orphan && core.is_logged(stream.node)
}
