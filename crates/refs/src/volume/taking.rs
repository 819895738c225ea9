//! Taking clusters for data that is about to be written.

use super::data::{Taken, writer};
use super::*;
use crate::extents::{Extent as Run, Found};

impl Volume {
    /// Takes new clusters for what of a range of a stream is a hole, or must not be overwritten: all that it needs, or
    /// none, so that a write that there is no room for has changed nothing. The runs of the range are loaded, unless it
    /// `is_known` that all of it moves. `piece` is told of each piece in order, new or not: its place in the stream, its
    /// length and its first cluster.
    pub(super) fn take_for(
        &self,
        core: &mut Core,
        state: &StreamState,
        range: Range<u32>,
        is_known: bool,
        taken: &mut Taken,
        piece: impl FnMut(u32, u32, u64) -> Result<()>,
    ) -> Result<()> {
        let took = self.take_each(core, state, range, is_known, taken, piece);
        took.inspect_err(|_| give_back(core, taken))
    }

    fn take_each(
        &self,
        core: &mut Core,
        state: &StreamState,
        range: Range<u32>,
        is_known: bool,
        taken: &mut Taken,
        mut piece: impl FnMut(u32, u32, u64) -> Result<()>,
    ) -> Result<()> {
        let extents = state.extents();
        let (writer, to) = (writer(), range.end);
        let mut at = range.start;
        while at < to {
            let mut found = match extents {
                _ if is_known => None,
                Some(extents) => Some(extents.find(at)),
                None => Some(Found::Hole(u32::MAX)),
            };
            let mut most = to - at;
            let mut near = taken.last().map(|(_, last)| (last.container, last.start + last.count));
            // Of a run, what others have too is not overwritten.
            let mut is_shared = false;
            if let (Some(Found::Extent(run)), true) = (found, state.shared) {
                let first = run.cluster + u64::from(at - run.at);
                let (shared, length) = core.is_others_too(first, run.end().min(to) - at)?;
                (is_shared, most) = (shared, most.min(length));
                found = Some(Found::Extent(Run { at, count: length, cluster: first, ..run }));
            }
            match found {
                Some(Found::Extent(run)) if !state.integrity && run.checksum.is_none() && !is_shared => {
                    let stop = run.end().min(to);
                    piece(at, stop - at, run.cluster + u64::from(at - run.at))?;
                    at = stop;
                    continue;
                }
                // Overwriting goes where the last write went, so that scattered writes lie together.
                None | Some(Found::Extent(_) | Found::Absent(_)) => {}
                Some(Found::Hole(next)) => {
                    if !state.integrity {
                        most = most.min(next - at);
                    }
                    if let (None, Some(before)) = (near, at.checked_sub(1))
                        && let Some(Found::Extent(run)) = extents.map(|extents| extents.find(before))
                    {
                        near = self.geometry.place(run.cluster + u64::from(at - run.at));
                    }
                }
            }
            let run = core.pages.space.take_data(most, near, writer).ok_or(Error::NoSpace)?;
            taken.push((at, run));
            piece(at, run.count, core.cluster(&run))?;
            at += run.count;
        }
        Ok(())
    }
}

/// Gives back clusters that nothing was recorded of.
pub(super) fn give_back(core: &mut Core, taken: &mut Taken) {
    taken.drain(..).for_each(|(_, run)| core.pages.space.give_back(run));
}
