//! Taking clusters for data that is about to be written.

use super::Volume;
use super::data::{Taken, writer};
use crate::core::Core;
use crate::extents::{Extent, Mapping};
use crate::stream::StreamState;
use platter_vfs::{Error, Result};
use std::ops::Range;

/// Clusters of a stream that are about to be written.
pub(super) struct Part {
    pub(super) range: Range<u32>,
    /// Whether all of the range goes to new clusters whatever it has now, so that its runs need not be loaded.
    pub(super) is_known: bool,
}

impl Volume {
    /// Takes new clusters for the holes in a part of a stream, and for its clusters that must not be overwritten: all
    /// that are needed or none, so that a write without room changes nothing. The runs of the range are loaded. `piece`
    /// is called with each piece of the range in order, whether its clusters are new or not: its first cluster in the
    /// stream, its length, and its first virtual cluster. If there is no room, `lacks` becomes the number of clusters
    /// that are missing.
    pub(super) fn take_for(
        &self,
        core: &mut Core,
        state: &StreamState,
        part: Part,
        taken: &mut Taken,
        lacks: &mut u64,
        piece: impl FnMut(u32, u32, u64) -> Result<()>,
    ) -> Result<()> {
        let took = self.take_each(core, state, part, taken, lacks, piece);
        took.inspect_err(|_| give_back(core, taken))
    }

    fn take_each(
        &self,
        core: &mut Core,
        state: &StreamState,
        part: Part,
        taken: &mut Taken,
        lacks: &mut u64,
        mut piece: impl FnMut(u32, u32, u64) -> Result<()>,
    ) -> Result<()> {
        let extents = state.extents();
        let Part { range: Range { start: mut at, end: to }, is_known } = part;
        let writer = writer();
        *lacks = 0;
        while at < to {
            let mut found = match extents {
                _ if is_known => None,
                Some(extents) => Some(extents.find(at)),
                None => Some(Mapping::Hole(u32::MAX)),
            };
            let mut most = to - at;
            let mut near = taken.last().map(|(_, last)| (last.container, last.start + last.count));
            // Clusters of a run that other streams have too are not overwritten.
            let mut is_shared = false;
            if let (Some(Mapping::Extent(run)), true) = (found, state.shared) {
                let first = run.cluster + u64::from(at - run.at);
                let (shared, length) = core.is_others_too(first, run.end().min(to) - at)?;
                (is_shared, most) = (shared, most.min(length));
                found = Some(Mapping::Extent(Extent { at, count: length, cluster: first, ..run }));
            }
            match found {
                Some(Mapping::Extent(run)) if !state.integrity && run.checksum().is_none() && !is_shared => {
                    let stop = run.end().min(to);
                    piece(at, stop - at, run.cluster + u64::from(at - run.at))?;
                    at = stop;
                    continue;
                }
                // The new clusters follow those of the last write, so that scattered writes lie together. They take the
                // place of this run only: the clusters after it may be written in place by other callers, and stay.
                Some(Mapping::Extent(run)) if !state.integrity => most = most.min(run.end() - at),
                None | Some(Mapping::Extent(_) | Mapping::Absent(_)) => {}
                Some(Mapping::Hole(next)) => {
                    if !state.integrity {
                        most = most.min(next - at);
                    }
                    if let (None, Some(before)) = (near, at.checked_sub(1))
                        && let Some(Mapping::Extent(run)) = extents.map(|extents| extents.find(before))
                    {
                        near = self.geometry.place(run.cluster + u64::from(at - run.at));
                    }
                }
            }
            let run = if *lacks > 0 { None } else { core.pages.space.take_data(most, near, writer) };
            let Some(run) = run else {
                *lacks += u64::from(most);
                at += most;
                continue;
            };
            taken.push((at, run));
            piece(at, run.count, core.cluster(&run))?;
            at += run.count;
        }
        if *lacks > 0 { Err(Error::NoSpace) } else { Ok(()) }
    }
}

/// Gives back clusters that were taken and have not come into a stream's runs.
pub(super) fn give_back(core: &mut Core, taken: &mut Taken) {
    taken.drain(..).for_each(|(_, run)| core.pages.space.give_back(run));
}
