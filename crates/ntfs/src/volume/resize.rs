//! Sizes and allocation: extending, truncating, preallocating, punching holes.

use super::NtfsVolume;
use super::clusters::HOLE;
use crate::core::Core;
use crate::file::Outside;
use crate::layout::attribute_flags;
use crate::runlist::Runs;
use crate::space::Held;
use crate::stream::{Stream, StreamPlace, StreamState};
use platter_vfs::{Access, Error, Node, Result};
use std::ops::Range;

impl NtfsVolume {
    /// Makes a stream shorter or longer.
    pub(super) fn resize(&self, node: Node, size: u64) -> Result<()> {
        let stream = self.data_of(node)?;
        self.may_write(&stream)?;
        self.check_size(Some(size))?;
        let is_resized = self.while_alone(&stream, |core, state| {
            state.check_plain()?;
            let differs = size != state.size;
            if differs {
                self.resize_locked(core, node.0, state, size)?;
            }
            Ok(differs)
        })?;
        if is_resized {
            self.note_write(&stream);
        }
        Ok(())
    }

    /// Changes a stream that is claimed as a whole and locked meanwhile. No plan is under way then, but a plan that
    /// failed may have left a gap in front of what later plans wrote: the change begins with a valid length up to which
    /// everything is written.
    fn while_alone<T>(
        &self,
        stream: &Stream,
        change: impl FnOnce(&mut Core, &mut StreamState) -> Result<T>,
    ) -> Result<T> {
        let _claim = stream.claim(|_| 0..u64::MAX, Access::Read);
        let mut core = self.change()?;
        self.make_valid(&mut core, stream.node)?;
        let mut state = stream.write();
        change(&mut core, &mut state)
    }

    fn resize_locked(&self, core: &mut Core, node: u64, state: &mut StreamState, size: u64) -> Result<()> {
        let cluster = self.cluster;
        if matches!(state.place, StreamPlace::Resident(_)) {
            if self.may_be_resident(core, node, usize::try_from(size).unwrap_or(usize::MAX / 2))? {
                return self.remake(core, node, state, |_, state| {
                    if let StreamPlace::Resident(content) = &mut state.place {
                        content.resize(size as usize, 0);
                    }
                    (state.size, state.valid, state.planned) = (size, size, size);
                    Ok(())
                });
            }
            self.move_out(core, node, state)?;
        }
        let on_disk = self.is_on_disk(core, node)?;
        let unit = if state.is_compressed() { self.unit_clusters(state) } else { 1 };
        let wanted = size.div_ceil(cluster).next_multiple_of(unit);
        if state.is_compressed() && size < state.valid {
            // Content that is cut off in the middle of a unit must not come back when the file grows again.
            let end = state.valid.min(wanted * cluster);
            if size < end {
                match self.write_compressed(core, node, state, size, &vec![0; (end - size) as usize]) {
                    // On a full volume that content stays: it is past the valid length, and extending the file clears
                    // it.
                    Err(Error::NoSpace) => {}
                    outcome => outcome?,
                }
            }
        }
        self.remake(core, node, state, |core, state| {
            let is_compressed = state.is_compressed();
            let StreamPlace::Runs(runs) = &mut state.place else { return Ok(()) };
            let known = runs.end();
            if size < state.size {
                let old = runs.cut(wanted);
                core.give_runs(&old, Held::Data, on_disk);
                state.is_ahead = false;
            } else if wanted > known {
                let mut outside = Outside { runs: std::mem::take(runs), ..Outside::default() };
                if is_compressed || (wanted - known) * cluster >= HOLE {
                    outside.push(None, wanted - known);
                    if !is_compressed {
                        state.flags |= attribute_flags::SPARSE;
                    }
                } else {
                    core.extend(&mut outside, wanted - known, on_disk, false)?;
                }
                state.place = StreamPlace::Runs(outside.runs);
            }
            state.size = size;
            state.valid = state.valid.min(size);
            state.planned = state.valid;
            state.done.clear();
            Ok(())
        })?;
        if state.is_compressed() {
            self.clear_to(core, node, state, size)?;
        }
        Ok(())
    }

    /// Allocates clusters for a range without changing what the range reads as.
    pub(super) fn preallocate(&self, node: Node, range: Range<u64>, keep_size: bool) -> Result<()> {
        let stream = self.data_of(node)?;
        self.may_write(&stream)?;
        if range.is_empty() {
            return Err(Error::InvalidArgument("the range is empty"));
        }
        self.check_size(Some(range.end))?;
        let mut core = self.change()?;
        let mut state = stream.write();
        state.check_plain()?;
        if matches!(state.place, StreamPlace::Resident(_)) {
            self.move_out(&mut core, node.0, &mut state)?;
        }
        let grows = !keep_size && range.end > state.size;
        if !state.is_compressed() {
            // Holes are filled with zeroes. Clusters past the valid length read as zeroes whatever they hold.
            let nothing = range.start..range.start;
            self.provide(&mut core, node.0, &mut state, range.clone(), nothing, false)?;
            state.is_ahead = true;
        }
        if grows {
            if state.is_compressed() {
                drop(state);
                drop(core);
                return self.resize(node, range.end);
            }
            let known = state.clusters() * self.cluster;
            debug_assert!(range.end <= known, "provided just now");
            state.size = range.end;
            // What was written past the old end, as the gap before a write in flight, becomes part of the file. The new
            // size is not on disk, so writes in place there need a sync from now on.
            self.note_growth(&stream);
        }
        Ok(())
    }

    /// Makes a range read as zeroes, and gives its whole clusters back.
    pub(super) fn make_hole(&self, node: Node, range: Range<u64>) -> Result<()> {
        let stream = self.data_of(node)?;
        self.may_write(&stream)?;
        if range.is_empty() {
            return Err(Error::InvalidArgument("the range is empty"));
        }
        self.while_alone(&stream, |core, state| {
            let inside = range.start..range.end.min(state.size);
            self.punch_locked(core, node.0, state, inside)
        })?;
        self.note_write(&stream);
        Ok(())
    }

    fn punch_locked(
        &self,
        core: &mut Core,
        node: u64,
        state: &mut StreamState,
        range: Range<u64>,
    ) -> Result<()> {
        state.check_plain()?;
        if range.is_empty() {
            return Ok(());
        }
        if matches!(state.place, StreamPlace::Resident(_)) {
            return self.remake(core, node, state, |_, state| {
                if let StreamPlace::Resident(content) = &mut state.place {
                    content[range.start as usize..range.end as usize].fill(0);
                }
                Ok(())
            });
        }
        let cluster = self.cluster;
        let unit = if state.is_compressed() { self.unit_clusters(state) } else { 1 };
        let piece = unit * cluster;
        // The last cluster counts as whole if the file ends in it.
        let is_end = range.end == state.size;
        let first = range.start.next_multiple_of(piece);
        let last = if is_end { range.end.next_multiple_of(piece) } else { range.end / piece * piece };
        let edges = if first >= last {
            [range.clone(), 0..0]
        } else {
            [range.start..first, last.min(range.end)..range.end]
        };
        let edges = edges.map(|edge| edge.start..edge.end.min(state.valid));
        let is_compressed = state.is_compressed();
        let before = state.copy();
        let outcome = core.transact(|core| {
            for edge in edges.iter().filter(|edge| is_compressed && !edge.is_empty()) {
                let zeroes = vec![0; (edge.end - edge.start) as usize];
                self.write_compressed(core, node, state, edge.start, &zeroes)?;
            }
            if first < last { self.give_back_clusters(core, node, state, first..last) } else { Ok(()) }
        });
        if outcome.is_err() {
            *state = before;
            return outcome;
        }
        // Zeroing in place comes last, when no other step can fail any more.
        for edge in edges.into_iter().filter(|edge| !is_compressed && !edge.is_empty()) {
            self.write_zeroes(state, edge)?;
        }
        Ok(())
    }
}
