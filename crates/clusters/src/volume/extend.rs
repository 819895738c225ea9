//! Planned writes: over existing content, and past the valid data length, which moves when they finish.

use super::Volume;
use crate::Family;
use crate::file::{File, FileState, Planned};
use platter_vfs::{Access, Pass, Plan, Result, SyncNeed, range_of_write};
use std::ops::Range;
use std::sync::atomic::Ordering;

impl<F: Family> Volume<F> {
    /// Plans a write over existing content.
    #[inline]
    pub(super) fn plan_in_place(
        &self,
        file: &File,
        state: &FileState,
        offset: u64,
        length: usize,
        plan: &mut Plan,
    ) -> Result<(Planned, Pass)> {
        self.may_write(file)?;
        let pass = file.enter(offset..offset + length as u64, Access::Write)?;
        let is_durable = file.recorded_in.load(Ordering::SeqCst) <= self.committed.load(Ordering::SeqCst);
        state.fill(&self.heap, offset..offset + length as u64, offset, plan).inspect_err(|_| {
            file.leave(pass);
        })?;
        plan.sync = if is_durable { SyncNeed::None } else { SyncNeed::After };
        Ok((Planned::InPlace, pass))
    }

    /// First half of a write past the valid data length.
    pub(super) fn plan_extension(
        &self,
        file: &File,
        offset: u64,
        length: usize,
        plan: &mut Plan,
    ) -> Result<(Planned, Pass)> {
        let end = self.check_size(offset.checked_add(length as u64))?;
        self.with_space(|| {
            self.commit_cut(file)?;
            let (mut core, mut state) = self.with_core(file)?;
            if end <= state.valid {
                return self.plan_in_place(file, &state, offset, length, plan);
            }
            self.may_write(file)?;
            // The pass covers the gap in front of the write too, whose first sector may hold the last bytes of the
            // file.
            let pass =
                file.enter(range_of_write(state.planned(), offset, length, self.sector), Access::Write)?;
            let gap = state.planned()..offset;
            let ready = self.reserve(&mut core, file, &mut state, end).and_then(|()| {
                drop(core);
                self.zero(&state, gap)?;
                state.fill(&self.heap, offset..end, offset, plan)
            });
            if let Err(error) = ready {
                drop(state);
                // Before the pass ends: whoever waits for it with a claim may reserve clusters next, and keeps them.
                let trimmed =
                    self.with_core(file).map(|(mut core, mut state)| self.trim(&mut core, &mut state));
                file.leave(pass);
                trimmed?;
                return Err(error);
            }
            plan.sync = SyncNeed::After;
            Ok((Planned::Extension { ticket: state.announce(offset, end) }, pass))
        })
    }

    /// Second half of a write past the valid data length. If zeroes were written over its range meanwhile, from an
    /// offset on, `again` writes the data once more from there.
    pub(super) fn finish_extension(
        &self,
        file: &File,
        range: Range<u64>,
        ticket: u64,
        mut written: bool,
        again: impl FnOnce(&FileState, u64) -> Result<()>,
    ) -> Result<()> {
        let (mut core, mut state) = self.with_core(file)?;
        let (size, valid) = (state.size, state.valid);
        if let Err(error) = self.health.promise() {
            // Nothing can be recorded any more, so this write must not become visible. Finished writes of others stay
            // visible while the volume is open: the file is kept in memory, because no entry will ever record them.
            state.withdraw(ticket);
            core.pin(file.number);
            return Err(error);
        }
        let mut outcome = Ok(());
        if written && let Some(from) = state.overtaken(ticket) {
            outcome = again(&state, from);
            written = outcome.is_ok();
        }
        // Other writes follow or overlap this one, so the range that it failed to write must read as zeroes until they
        // write it. If zeroing fails too, the file can neither grow over old content of its clusters nor lose what
        // others wrote, so the volume refuses all further changes.
        if !written && state.is_followed(range.start, ticket) {
            for rest in state.gaps(range.start.max(valid)..self.sector_end(range.end).max(valid)) {
                self.zero(&state, rest.clone()).map_err(|error| self.health.fail(error))?;
                state.zeroed(&rest);
            }
        }
        state.conclude(ticket, written);
        if written {
            self.touch(file);
        }
        let recorded = if state.valid != valid { self.record(&mut core, file, &mut state) } else { Ok(()) };
        if recorded.is_err() {
            state.take_back(size, valid, ticket);
        }
        if state.pending.is_empty() {
            self.trim(&mut core, &mut state);
        }
        outcome.and(recorded)
    }
}
