//! Writing content, in two halves: planning and finishing; and both at once for any bytes.

use super::NtfsVolume;
use super::clusters::is_there;
use super::planned::{Planned, keep};
use crate::stream::{Stream, StreamPlace, StreamState};
use platter_device::Buffer;
use platter_vfs::blocking::{is_one_step, plan_when_free, write_in_steps};
use platter_vfs::{Access, Claim, Node, Pass, Plan, Result, SyncNeed, first_in_block, range_of_write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl NtfsVolume {
    /// Plans a write; `within` is a claim that the caller holds on the range.
    pub(super) fn plan_writing(
        &self,
        node: Node,
        offset: u64,
        data: &[u8],
        plan: &mut Plan,
        within: Option<&Claim<'_>>,
    ) -> Result<()> {
        Plan::check_range(self.sector, offset, data.len())?;
        let memory = self.memory(node, plan)?;
        let planned = self
            .may_write(&memory.stream)
            .and_then(|()| self.fill_write(&memory.stream, offset, data, plan, within));
        keep(plan, memory, planned)
    }

    fn fill_write(
        &self,
        stream: &Arc<Stream>,
        offset: u64,
        data: &[u8],
        plan: &mut Plan,
        within: Option<&Claim<'_>>,
    ) -> Result<(Planned, Pass)> {
        let end = self.check_size(offset.checked_add(data.len() as u64))?;
        {
            let state = stream.read();
            plan.start(stream.node, offset, data.len());
            state.check_plain()?;
            if let StreamPlace::Runs(runs) = &state.place
                && end <= state.valid.min(state.size)
                && !state.is_compressed()
                && !data.is_empty()
                && is_there(runs, offset >> self.shift, (end + self.cluster - 1) >> self.shift)
            {
                let exchanges = stream.exchanges.load(Ordering::SeqCst);
                if !self.commits.cover(&stream.resized) {
                    plan.sync = SyncNeed::After;
                }
                self.fill_segments(runs, offset, offset..end, data.len(), plan)?;
                // The health is looked at with the state locked: `close` forbids changes before it looks for plans
                // under this lock. So either this write is refused, or `close` waits for it.
                self.health.writable()?;
                let pass = stream.enter(offset..end, Access::Write, within)?;
                return Ok((Planned::InPlace { exchanges }, pass));
            }
        }
        self.with_space(|| self.fill_append(stream, offset..end, end, plan, within))
    }

    /// Plans a write of part of a block that nothing was written to, whole with zeroes behind it: the plan's transfers
    /// reach to the end of the block, its length is that of the write. The caller has claimed the block.
    fn plan_last_block(
        &self,
        node: Node,
        range: Range<u64>,
        plan: &mut Plan,
        within: &Claim<'_>,
    ) -> Result<()> {
        let memory = self.memory(node, plan)?;
        let until = range.end.next_multiple_of(u64::from(self.block));
        let planned = self.may_write(&memory.stream).and_then(|()| {
            self.with_space(|| self.fill_append(&memory.stream, range.clone(), until, plan, Some(within)))
        });
        keep(plan, memory, planned)
    }

    /// Plans a write past the valid length, whose transfers reach to `until`.
    fn fill_append(
        &self,
        stream: &Arc<Stream>,
        range: Range<u64>,
        until: u64,
        plan: &mut Plan,
        within: Option<&Claim<'_>>,
    ) -> Result<(Planned, Pass)> {
        let (offset, end) = (range.start, range.end);
        let length = (end - offset) as usize;
        plan.start(stream.node, offset, length);
        plan.sync = SyncNeed::After;
        let mut core = self.change()?;
        let mut state = stream.write();
        let cluster = self.cluster;
        let first = offset / cluster;
        let is_plain = matches!(state.place, StreamPlace::Runs(_)) && !state.is_compressed();
        let known = state.clusters().min(end.div_ceil(cluster));
        let is_rewrite = !is_plain || length == 0 || first < known && !is_there(state.runs(), first, known);
        let pass = stream.enter(
            range_of_write(state.planned, offset, length, self.sector),
            Access::Write,
            within,
        )?;
        if is_rewrite {
            return Ok((Planned::Rewrite, pass));
        }
        let provided = self.provide(&mut core, stream.node, &mut state, offset..end, offset..end, true);
        drop(core);
        let filled = provided.and_then(|()| {
            if offset > state.planned {
                let gap = state.planned..offset;
                self.write_zeroes(&state, gap.clone())?;
                state.note_written(gap);
                // The new valid length is not on disk, so writes in place into the gap need a sync from now on. A commit
                // counts as one that covers the length only if it records it.
                self.touch(stream.node);
                self.commits.note(&stream.resized);
            }
            self.fill_segments(state.runs(), offset, offset..until, (until - offset) as usize, plan)
        });
        if let Err(error) = filled {
            stream.leave(pass);
            return Err(error);
        }
        state.planned = state.planned.max(end);
        Ok((Planned::Append { exchanges: stream.exchanges.load(Ordering::SeqCst) }, pass))
    }

    pub(super) fn finish_writing(
        &self,
        plan: &mut Plan,
        data: &[u8],
        done: platter_device::Result<()>,
    ) -> Result<bool> {
        let (memory, planned, pass) = self.finishing(plan)?;
        let stream = &*memory.stream;
        let end = plan.offset + plan.length as u64;
        let finished = match (planned, done) {
            (Planned::Rewrite, Ok(())) => {
                self.with_space(|| self.rewrite(stream, plan.offset, data)).map(|()| plan.length > 0)
            }
            (Planned::Append { exchanges }, Ok(())) => {
                self.finish_appending(stream, plan, exchanges, data).map(|()| true)
            }
            (Planned::InPlace { exchanges }, Ok(()))
                if exchanges != stream.exchanges.load(Ordering::SeqCst) =>
            {
                let exchanged = stream.read().exchanged_since(exchanges, &(plan.offset..end));
                self.write_again(stream, plan, data, exchanged).map(|()| true)
            }
            (_, Ok(())) => Ok(plan.sync == SyncNeed::After),
            (_, Err(error)) => Err(error.into()),
        };
        if finished.is_ok() && plan.length > 0 && planned != Planned::Rewrite {
            self.note_write(stream);
        }
        stream.leave(pass);
        plan.keep(memory);
        finished
    }

    fn finish_appending(&self, stream: &Stream, plan: &Plan, mut exchanges: u64, data: &[u8]) -> Result<()> {
        let range = plan.offset..plan.offset + plan.length as u64;
        loop {
            let mut state = stream.write();
            let exchanged = state.exchanged_since(exchanges, &range);
            if exchanged.is_empty() {
                state.size = state.size.max(range.end);
                state.note_written(range);
                self.note_growth(stream);
                return Ok(());
            }
            exchanges = stream.exchanges.load(Ordering::SeqCst);
            drop(state);
            self.write_again(stream, plan, data, exchanged)?;
        }
    }

    /// Writes again the parts of a plan whose clusters a sync exchanged since the write was planned: a sync that has to
    /// move the valid length past a gap exchanges the gap's clusters for others with zeroes. No other part is written a
    /// second time, since other callers may have read it and written over it.
    fn write_again(
        &self,
        stream: &Stream,
        plan: &Plan,
        data: &[u8],
        exchanged: Vec<Range<u64>>,
    ) -> Result<()> {
        for part in exchanged {
            let piece = &data[(part.start - plan.offset) as usize..(part.end - plan.offset) as usize];
            self.with_space(|| self.rewrite(stream, part.start, piece))?;
        }
        Ok(())
    }

    /// Writes any bytes: whole sectors as plans, parts of sectors with the stream locked, and whole the block where the
    /// stream ends, if the write is the first to reach it.
    pub(super) fn write_any(&self, node: Node, offset: u64, data: &[u8]) -> Result<()> {
        let stream = self.data_of(node)?;
        self.may_write(&stream)?;
        self.check_size(offset.checked_add(data.len() as u64))?;
        let (sector, block) = (u64::from(self.sector), u64::from(self.block));
        let end = offset + data.len() as u64;
        let last_block = || first_in_block(stream.read().planned, &(offset..end), block);
        // A write in several steps, or into part of a sector or block, claims its range: nobody may cut the file short
        // between two steps, and a write in flight to the other part would be lost.
        let is_alone = is_one_step(offset, data.len(), block)
            || is_one_step(offset, data.len(), sector) && last_block().is_none();
        let claim = (!is_alone).then(|| {
            let range = |state: &StreamState| range_of_write(state.planned, offset, data.len(), self.block);
            stream.claim(range, Access::Write)
        });
        if claim.is_some() && !data.is_empty() {
            self.with_space(|| self.prepare(&stream, offset..end))?;
        }
        let mut plan = Plan::default();
        let planned = |at: u64, piece: &[u8]| {
            let claim = claim.as_ref();
            let make = |plan: &mut Plan| self.plan_writing(node, at, piece, plan, claim);
            plan_when_free(&mut plan, &*self.device, make, || stream.wait_free())?;
            let done = plan.write_to(&*self.device, piece);
            self.finish_writing(&mut plan, piece, done).map(drop)
        };
        let rewrite = |at: u64, piece: &[u8]| self.with_space(|| self.rewrite(&stream, at, piece));
        let last = claim.as_ref().zip(last_block().filter(|last| offset <= *last));
        let Some((claim, last)) = last else { return write_in_steps(offset, data, sector, planned, rewrite) };
        let (head, rest) = data.split_at((last - offset) as usize);
        write_in_steps(offset, head, sector, planned, rewrite)?;
        let mut whole = Buffer::new(block as usize);
        whole[..rest.len()].copy_from_slice(rest);
        self.plan_last_block(node, last..end, &mut plan, claim)?;
        let done = plan.write_to(&*self.device, &whole);
        self.finish_writing(&mut plan, rest, done).map(drop)
    }
}
