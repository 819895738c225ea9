//! Makes writes that finished out of order valid, before a sync.
//!
//! A stream's valid length says up to where the stream was written; past it, the stream reads as zeroes after a power
//! cut. One length cannot say that a later part was written and an earlier part, whose plan is under way, was not. So
//! the clusters of such gaps are exchanged for others, which hold zeroes, before a sync, and the valid length moves
//! behind the last part that was written. Plans under way go on with the old clusters, which stay taken as long as
//! there are such plans, and read or write the exchanged part once more, in the new clusters, when they finish. They do
//! not write their other parts again: other callers may have read those and written over them meanwhile.

use super::NtfsVolume;
use crate::core::Core;
use crate::file::Outside;
use crate::stream::{StreamPlace, StreamState};
use platter_vfs::Result;
use std::ops::Range;
use std::sync::atomic::Ordering;

impl NtfsVolume {
    /// Makes the finished writes to the content of all nodes valid.
    pub(super) fn make_all_valid(&self) -> Result<()> {
        let mut core = self.core();
        let nodes = core.nodes.all();
        nodes.into_iter().try_for_each(|node| self.make_valid(&mut core, node))
    }

    /// Makes the finished writes to the content of a node valid.
    pub(super) fn make_valid(&self, core: &mut Core, node: u64) -> Result<()> {
        let Some(stream) = core.nodes.get(node)?.stream.clone() else { return Ok(()) };
        self.release(core, node);
        if stream.read().done.is_empty() {
            return Ok(());
        }
        self.health.promise()?;
        let mut state = stream.write();
        let mut done = state.done.to_vec();
        done.sort_unstable_by_key(|range| range.start);
        let mut gaps = Vec::new();
        let mut at = state.valid;
        for range in done {
            if range.start > at {
                gaps.push(at..range.start);
            }
            at = at.max(range.end);
        }
        // The number is raised before anything is copied: a write in place that finishes earlier is in the copy, and
        // one that finishes later sees the new number and writes again.
        let number = stream.exchanges.fetch_add(1, Ordering::SeqCst) + 1;
        let on_disk = self.is_on_disk(core, node)?;
        self.remake(core, node, &mut state, |core, state| {
            for gap in gaps {
                let whole = self.exchange(core, state, gap, on_disk)?;
                state.exchanged.push((number, whole));
            }
            (state.valid, state.planned) = (at, state.planned.max(at));
            state.done.clear();
            Ok(())
        })?;
        // The new valid length is not recorded yet, so writes in place need a sync from now on.
        self.commits.note(&stream.resized);
        drop(state);
        // A plan that failed leaves a gap too, and may have ended already: then no later caller would give the old
        // clusters back.
        self.release(core, node);
        Ok(())
    }

    /// Gives a gap new clusters: they hold zeroes in the gap, and the old content around it. Returns the byte range of
    /// these clusters.
    fn exchange(
        &self,
        core: &mut Core,
        state: &mut StreamState,
        gap: Range<u64>,
        on_disk: bool,
    ) -> Result<Range<u64>> {
        let cluster = self.cluster;
        let (first, last) = (gap.start / cluster, gap.end.div_ceil(cluster));
        let mut new = Outside::default();
        new.push(None, first);
        core.extend(&mut new, last - first, on_disk, true)?;
        let whole = first * cluster..last * cluster;
        self.write_zeroes_to(&new.runs.to_vec(), whole.clone())?;
        for edge in [whole.start..gap.start, gap.end..whole.end] {
            if !edge.is_empty() {
                let bytes = core.read_runs(state.runs(), edge.start, edge.end - edge.start)?;
                core.write_runs(&new.runs, edge.start, &bytes)?;
            }
        }
        let new = new.runs.part(first, last);
        let StreamPlace::Runs(runs) = &mut state.place else { return Ok(whole) };
        let old = runs.splice(first, last, &new);
        if on_disk {
            core.hide_runs(&old);
        }
        state.left.extend(old);
        Ok(whole)
    }

    /// Gives back the clusters that were exchanged, once no plan is under way that may use them.
    pub(super) fn release(&self, core: &mut Core, node: u64) {
        let Ok(Some(stream)) = core.nodes.get(node).map(|entity| entity.stream.clone()) else { return };
        if stream.read().exchanged.is_empty() {
            return;
        }
        let mut state = stream.write();
        if stream.is_quiet() {
            state.exchanged.clear();
            core.give_back_unlisted(&std::mem::take(&mut state.left));
        }
    }
}
