//! Planned writes of whole clusters and sectors: the caller drives the device between the two halves.

use super::Volume;
use super::ahead::Rows;
use super::around::{Attempt, is_around};
use super::data::{Memory, Planned, keep};
use super::stamps::{is_overwritten, tells_of};
use super::taking::give_back;
use crate::core::Core;
use crate::extents::{Extent, Extents, Mapping};
use crate::stream::{StreamContent, StreamState};
use platter_vfs::{Access, Claim, Error, Node, Pass, Plan, Result, SyncNeed};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// The length in bytes from which on the checksums of a write are computed while the device carries it out. For 64 KiB
/// from memory they take some 4 microseconds, about as long as starting the write.
const LARGE: usize = 64 << 10;

impl Volume {
    /// The first half of a write. `within` is the caller's claim that covers the range, if it has one.
    pub(super) fn plan_writing(
        &self,
        node: Node,
        offset: u64,
        data: &[u8],
        plan: &mut Plan,
        within: Option<&Claim<'_>>,
    ) -> Result<()> {
        Plan::check_range(self.device.sectors().logical, offset, data.len())?;
        let mut memory = self.memory(node, plan)?;
        self.take_preread(&memory.stream, &mut memory.ahead, plan);
        let planned = self.may_write(&memory.stream).and_then(|()| {
            self.with_space(|lacks| {
                let filled = self.fill_write(&mut memory, node, offset, data, plan, within);
                *lacks = memory.lacks;
                filled
            })
        });
        keep(plan, memory, planned)
    }

    fn fill_write(
        &self,
        memory: &mut Memory,
        node: Node,
        offset: u64,
        data: &[u8],
        plan: &mut Plan,
        within: Option<&Claim<'_>>,
    ) -> Result<Option<(Planned, Pass)>> {
        let end = self.check_size(offset.checked_add(data.len() as u64))?;
        plan.start(node.0, offset, data.len());
        let is_whole = (offset | end).is_multiple_of(u64::from(self.geometry.cluster)) && !data.is_empty();
        loop {
            let attempt = match memory.is_moving && is_whole {
                true => Attempt::New,
                false => self.fill_in_place(memory, offset..end, is_whole, plan, within)?,
            };
            let attempt = match attempt {
                Attempt::New => self.take_new(memory, data, plan, within)?,
                Attempt::Around => self.take_around(memory, data, plan, within)?,
                attempt => attempt,
            };
            match attempt {
                Attempt::Planned(planned, pass) => return Ok(Some((planned, pass))),
                Attempt::Preread => return Ok(None),
                Attempt::New | Attempt::Around | Attempt::Again => {}
            }
        }
    }

    /// Plans a write to existing clusters, or one to be carried out slowly. If it is neither, says what it is.
    fn fill_in_place(
        &self,
        memory: &mut Memory,
        range: Range<u64>,
        is_whole: bool,
        plan: &mut Plan,
        within: Option<&Claim<'_>>,
    ) -> Result<Attempt> {
        let Memory { stream, is_moving, ahead, .. } = memory;
        let (offset, end) = (range.start, range.end);
        let (from, to) = self.clusters(offset..end);
        let enter = |planned| -> Result<Attempt> {
            // This is checked with the state locked: an unmount refuses changes before it looks for plans under that
            // lock.
            self.health.writable()?;
            Ok(Attempt::Planned(planned, stream.enter(offset..end, Access::Write, within)?))
        };
        loop {
            let state = stream.read();
            // The common case of a stream with integrity comes first: this write goes to new clusters whatever the
            // conditions below.
            if is_whole && is_moved(&state, end) {
                *is_moving = true;
                return Ok(Attempt::New);
            }
            let StreamContent::Extents(extents) = &state.content else {
                if is_whole && end >= self.geometry.version.least_outside() && state.size == 0 {
                    return Ok(Attempt::New);
                }
                return enter(Planned::Slowly);
            };
            let run = extents.run_over(from, to.max(from + 1));
            if run.is_none() && !extents.is_loaded(from, to) {
                drop(state);
                if self.bring_rows(stream, (from, to), ahead, plan)? {
                    return Ok(Attempt::Preread);
                }
                continue;
            }
            let is_there = || match run {
                Some(run) => run.checksum().is_none() && !state.integrity && !state.shared,
                None => is_overwritten(&state, from, to),
            };
            if end <= state.valid() && is_there() {
                if !self.commits.cover(&stream.moved) {
                    plan.sync = SyncNeed::After;
                }
                self.fill_segments((extents, run), offset..end, plan.length, plan, None)?;
                return enter(Planned::InPlace);
            }
            if ahead.is_open(plan) && is_around(&state, &range, u64::from(self.geometry.cluster)) {
                return Ok(Attempt::Around);
            }
            let is_slow = !is_whole || state.is_alone(offset, end, &self.geometry);
            return if is_slow { enter(Planned::Slowly) } else { Ok(Attempt::New) };
        }
    }

    /// Takes new clusters for the holes of a range, and for clusters that must not be overwritten. Does nothing if the
    /// write was planned for new clusters because of the stream's integrity and that reason no longer holds.
    fn take_new(
        &self,
        memory: &mut Memory,
        data: &[u8],
        plan: &mut Plan,
        within: Option<&Claim<'_>>,
    ) -> Result<Attempt> {
        let mut core = self.grow()?;
        let stream = memory.stream.clone();
        let mut state = stream.write();
        let end = plan.offset + plan.length as u64;
        let (from, to) = self.clusters(plan.offset..end);
        let was_moving = std::mem::replace(&mut memory.is_moving, is_moved(&state, end));
        if was_moving && !memory.is_moving {
            return Ok(Attempt::Again);
        }
        // The rows that the new ones replace are needed at the latest when these are recorded, with everything locked.
        if memory.ahead.is_open(plan) && state.extents().is_some_and(|extents| !extents.is_loaded(from, to)) {
            drop((state, core));
            let is_asked = self.bring_rows(&stream, (from, to), &mut memory.ahead, plan)?;
            return Ok(if is_asked { Attempt::Preread } else { Attempt::Again });
        }
        let pass = stream.enter(plan.offset..end, Access::Write, within)?;
        // The file may have become shorter since its state was read: then the write is carried out slowly after all.
        if state.is_alone(plan.offset, end, &self.geometry) {
            return Ok(Attempt::Planned(Planned::Slowly, pass));
        }
        let taken = self.take_clusters(&mut core, &mut state, memory, from, to, plan);
        drop((state, core));
        let planned = taken.inspect_err(|_| stream.leave(pass))?;
        if let Planned::New { integrity, .. } = planned {
            plan.work_beside = integrity && data.len() >= LARGE;
            if !plan.work_beside {
                self.make_rows(memory, plan.offset, integrity, data);
            }
        }
        Ok(Attempt::Planned(planned, pass))
    }

    /// Computes the checksums of a planned write, if that is yet to be done.
    pub(super) fn sum_beside(&self, plan: &mut Plan, data: &[u8]) {
        if !plan.work_beside || data.len() != plan.length {
            return;
        }
        let offset = plan.offset;
        if let Some(memory) = plan.state_mut().filter(|memory: &&mut Memory| memory.volume == self.id) {
            self.make_rows(memory, offset, true, data);
            plan.work_beside = false;
        }
    }

    pub(super) fn finish_writing(
        &self,
        plan: &mut Plan,
        data: &[u8],
        done: platter_device::Result<()>,
    ) -> Result<bool> {
        if done.is_ok() {
            self.sum_beside(plan, data);
        }
        let (mut memory, planned, pass) = self.finishing(plan)?;
        let slowly = |memory: &Memory, range: Range<usize>| {
            let at = plan.offset + range.start as u64;
            self.with_space(|lacks| self.write_slowly(&memory.stream, at, &data[range.clone()], lacks))
        };
        let finished = match planned {
            Planned::Slowly if data.is_empty() => done.map_err(Error::from).map(|()| true),
            Planned::Slowly => {
                done.map_err(Error::from).and_then(|()| slowly(&memory, 0..data.len())).map(|()| true)
            }
            Planned::InPlace => done.map_err(Error::from).map(|()| {
                self.touch(&memory.stream);
                plan.sync == SyncNeed::After
            }),
            Planned::Read { .. } | Planned::Bounced => {
                Err(Error::InvalidArgument("the plan is one of a read"))
            }
            Planned::New { integrity, is_beside } => {
                match self.record_new(&mut memory, plan, (integrity, is_beside), done) {
                    Ok(true) => Ok(true),
                    Ok(false) if memory.before.is_some() => slowly(&memory, 0..data.len()).map(|()| true),
                    // Only the parts with new clusters are written again. The other parts went to existing clusters, where
                    // other callers may have read and overwritten them since.
                    Ok(false) => {
                        let place =
                            |at: u32| at as usize * self.geometry.cluster as usize - plan.offset as usize;
                        let mut parts =
                            successive(&memory.rows).map(|(range, _)| place(range.start)..place(range.end));
                        parts.try_for_each(|part| slowly(&memory, part)).map(|()| true)
                    }
                    Err(error) => Err(error),
                }
            }
        };
        memory.stream.leave(pass);
        self.let_go_quiet(&memory.stream);
        memory.ahead.keep(plan.content.take());
        plan.keep(memory);
        finished
    }

    /// Puts the clusters that a plan took on record. Returns `false` if another write has put clusters there meanwhile
    /// that are written in place, or has changed those of which this one replaces a part: the plan's clusters are then
    /// given back, and its data must go to those others. If they were replaced, writes in flight to them would reach free
    /// clusters, and soon another file's.
    fn record_new(
        &self,
        memory: &mut Memory,
        plan: &Plan,
        kind: (bool, bool),
        done: platter_device::Result<()>,
    ) -> Result<bool> {
        let (recorded, is_much) = self.record_locked(memory, plan, kind, done)?;
        if is_much {
            self.keeper.ask();
        }
        Ok(recorded)
    }

    /// Does the work of [`Volume::record_new`] under the locks. Returns also whether so many clusters wait for a commit
    /// that one should be made.
    fn record_locked(
        &self,
        memory: &mut Memory,
        plan: &Plan,
        (integrity, is_beside): (bool, bool),
        done: platter_device::Result<()>,
    ) -> Result<(bool, bool)> {
        let Memory { stream, taken, rows, gone, owes, before, .. } = memory;
        gone.clear();
        let mut core = self.core();
        core.pages.space.runs_owed().change(std::mem::take(owes), 0);
        let mut state = stream.write();
        let state = &mut *state;
        let is_logged = tells_of(&core, stream, state);
        let written = done.map_err(Error::from).and_then(|()| core.promise());
        let written = written.and(match plan.work_beside {
            false => Ok(()),
            true => Err(Error::InvalidArgument("the data is not what was planned")),
        });
        // Integrity changes only under a claim of the whole stream, which waits for this plan.
        assert!(
            written.is_err() || state.integrity == integrity,
            "integrity changed while a write was planned"
        );
        let before = before.as_ref();
        let recorded = written
            .and_then(|()| self.put_rows(&mut core, state, (rows, gone), before, (plan.offset, integrity)));
        let is_told = is_beside && core.end_beside(stream.node, rows, recorded.is_ok());
        if !matches!(recorded, Ok(true)) {
            give_back(&mut core, taken);
            return recorded.map(|is_recorded| (is_recorded, false));
        }
        if !gone.is_empty() {
            state.generation.advance();
        }
        state.extend(plan.offset + plan.length as u64, u64::from(self.geometry.cluster));
        self.commits.note(&stream.moved);
        if integrity && !gone.is_empty() {
            stream.is_scattered.store(true, Ordering::Relaxed);
        }
        self.stamp(stream);
        // An entry in flight tells of its runs even where it does not suffice to make them durable.
        let mut may_be_told = is_beside;
        if is_logged {
            core.park_written(gone, state.orphan)?;
            may_be_told |= !is_told && core.note_written(stream.node, rows);
        } else {
            core.park(gone, state.orphan)?;
            core.mark(stream.node);
        }
        let space = &mut core.pages.space;
        for (_, run) in taken.drain(..).filter(|_| !state.orphan) {
            // Without integrity clusters are written in place, so they are not given to another file before a commit.
            if integrity && !may_be_told { space.keep_fresh(run) } else { space.keep(run) }
        }
        Ok((true, self.keeper.is_much(&core.pages)))
    }

    /// Puts the rows of a write into the stream, and what they replace into `gone`. Returns `false`, and does nothing, if
    /// they must not replace what is there, see [`Volume::record_new`].
    fn put_rows(
        &self,
        core: &mut Core,
        state: &mut StreamState,
        (rows, gone): (&[Extent], &mut Vec<(u64, u32)>),
        before: Option<&Rows>,
        (offset, integrity): (u64, bool),
    ) -> Result<bool> {
        let StreamContent::Extents(extents) = &mut state.content else {
            return Err(Error::InvalidArgument("the content of a planned write went into the record"));
        };
        // Rows that follow each other in the stream are put in together, and either all of the plan's rows are or
        // none.
        let ranges = || successive(rows).map(|(range, _)| (range.start, range.end));
        ranges().try_for_each(|(from, to)| extents.load_range(&mut core.pages, from, to))?;
        if before.is_some_and(|before| !before.are_in(extents)) {
            return Ok(false);
        }
        if !integrity && !state.shared && ranges().any(|(from, to)| has_plain(extents, from, to)) {
            return Ok(false);
        }
        // A write of part of a cluster may have moved the end into a cluster since this one was planned. What stands
        // behind the end there may be what another file left; with integrity it is zeroes.
        match integrity {
            false => self.zero_tail(core, state, offset)?,
            true => self.keep_gap_empty(core, state, offset)?,
        }
        let StreamContent::Extents(extents) = &mut state.content else { return Ok(false) };
        for (range, rows) in successive(rows) {
            extents.replace(range.start, range.end, rows, gone);
        }
        Ok(true)
    }
}

/// Returns the rows in groups that follow each other in the stream without a gap, each group with its range.
fn successive(rows: &[Extent]) -> impl Iterator<Item = (Range<u32>, &[Extent])> {
    let chunks = rows.chunk_by(|one, next| one.end() == next.at);
    chunks.map(|rows| (rows[0].at..rows[rows.len() - 1].end(), rows))
}

/// Whether clusters without a checksum are in a part of a stream whose runs are loaded.
fn has_plain(extents: &Extents, from: u32, to: u32) -> bool {
    let mut at = from;
    while at < to {
        at = match extents.find(at) {
            Mapping::Extent(run) if run.checksum().is_some() => run.end(),
            Mapping::Hole(end) => end,
            Mapping::Extent(_) | Mapping::Absent(_) => return true,
        };
    }
    false
}

/// Whether a write of whole clusters that ends at byte `end` goes to new clusters, whatever the stream has there.
fn is_moved(state: &StreamState, end: u64) -> bool {
    state.integrity && end <= state.size && state.extents().is_some()
}
