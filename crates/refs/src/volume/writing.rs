//! Writing whole clusters and sectors, with the device driven by whoever called.

use super::data::{IN_PLACE, Memory, NEW, SLOWLY, writer};
use super::*;
use crate::extents::{Extent as Run, Extents, Found};
use crate::stream::Content;
use smallvec::SmallVec;

impl Volume {
    pub(super) fn may_write(&self, stream: &Stream) -> Result<()> {
        if self.is_frozen.load(Ordering::Acquire) {
            self.core().writable()?;
        }
        if stream.read_only.load(Ordering::Relaxed) {
            return Err(Error::NotPermitted("it has the read-only attribute"));
        }
        match stream.limits.only_read {
            Some(why) => Err(Error::NotPermitted(why)),
            None => Ok(()),
        }
    }

    pub(super) fn plan_writing(&self, node: Node, offset: u64, data: &[u8], plan: &mut Plan) -> Result<()> {
        self.check_aligned(offset, data.len())?;
        let mut memory = self.memory(node, plan)?;
        let planned = self
            .may_write(&memory.stream)
            .and_then(|()| self.with_space(|| self.fill_write(&mut memory, node, offset, data, plan)));
        plan.state = Some(memory);
        planned
    }

    fn fill_write(
        &self,
        memory: &mut Memory,
        node: Node,
        offset: u64,
        data: &[u8],
        plan: &mut Plan,
    ) -> Result<()> {
        let end = self.check_size(offset.checked_add(data.len() as u64))?;
        plan.start(node.0, offset, data.len());
        let stream = memory.stream.clone();
        // Until it is known to be something else; it has no segments, and is carried out when it is finished.
        plan.notes[0] = SLOWLY;
        let cluster = u64::from(self.geometry.cluster);
        let (from, to) = self.clusters(offset..end);
        let is_whole = (offset | end).is_multiple_of(cluster);
        let mut again = true;
        while again {
            again = false;
            let state = stream.read();
            // The commonest case, which nothing below keeps from new clusters.
            if state.integrity
                && is_whole
                && !data.is_empty()
                && end <= state.size
                && state.extents().is_some()
            {
                break;
            }
            let Content::Extents(extents) = &state.content else {
                if is_whole && end >= self.geometry.version.least_outside() && state.size == 0 {
                    break;
                }
                stream.begin();
                return Ok(());
            };
            if !extents.is_loaded(from, to) {
                drop(state);
                self.load(&stream, from, to)?;
                again = true;
                continue;
            }
            let is_there = || {
                let mut at = from;
                while at < to {
                    match extents.find(at) {
                        Found::Extent(run) if run.checksum.is_none() && !state.shared => at = run.end(),
                        _ => return false,
                    }
                }
                true
            };
            if !state.integrity && end <= state.valid() && is_there() {
                plan.notes[0] = IN_PLACE;
                self.fill_segments(extents, offset..end, data.len(), plan, None)?;
                stream.begin();
                return Ok(());
            }
            // A gap between the old end and the new data must read as zeroes. So must what was never written before it,
            // and that only one can see to at a time.
            let is_gap = offset > state.size && !state.size.is_multiple_of(cluster);
            if !is_whole || data.is_empty() || is_gap || state.unwritten.is_some_and(|from| end > from) {
                stream.begin();
                return Ok(());
            }
        }
        self.take_new(memory, from, to, plan)
    }

    /// Takes new clusters for what is not there, or must not be overwritten.
    fn take_new(&self, memory: &mut Memory, from: u32, to: u32, plan: &mut Plan) -> Result<()> {
        let cluster = self.geometry.cluster;
        let stream = memory.stream.clone();
        let mut core = self.change()?;
        let mut state = stream.write();
        if state.unwritten.is_some_and(|from| plan.offset + plan.length as u64 > from) {
            stream.begin();
            return Ok(());
        }
        if let Content::Extents(extents) = &mut state.content {
            // With the run before it, to go on where that ends.
            extents.load_range(&mut core.pages, from.saturating_sub(1), to)?;
        }
        let extents = state.extents();
        plan.notes[0] = NEW;
        plan.is_synced_after = true;
        let writer = writer();
        let mut at = from;
        while at < to {
            let here = (at - from) * cluster;
            let mut found = extents.map_or(Found::Hole(u32::MAX), |extents| extents.find(at));
            let mut most = to - at;
            let mut near = memory.taken.last().map(|(_, last)| (last.container, last.start + last.count));
            // Of a run, what others have too is not overwritten.
            let mut is_shared = false;
            if let (Found::Extent(run), true) = (found, state.shared) {
                let first = run.cluster + u64::from(at - run.at);
                let looked = core.shared(first, run.end().min(to) - at);
                let (shared, length) = looked.inspect_err(|_| {
                    memory.taken.drain(..).for_each(|(_, run)| core.pages.space.give_back(run));
                })?;
                (is_shared, most) = (shared, most.min(length));
                found = Found::Extent(Run { at, count: length, cluster: first, ..run });
            }
            match found {
                Found::Extent(run) if !state.integrity && run.checksum.is_none() && !is_shared => {
                    let stop = run.end().min(to);
                    plan.push(
                        self.device_offset(run.cluster + u64::from(at - run.at))?,
                        here,
                        (stop - at) * cluster,
                    );
                    at = stop;
                    continue;
                }
                // Overwriting goes where the last write went, so that scattered writes lie together.
                Found::Extent(_) => {}
                _ => {
                    if let (Found::Hole(next), false) = (found, state.integrity) {
                        most = most.min(next - at);
                    }
                    if let (None, Some(before)) = (near, at.checked_sub(1))
                        && let Some(Found::Extent(run)) = extents.map(|extents| extents.find(before))
                    {
                        near = self.geometry.place(run.cluster + u64::from(at - run.at));
                    }
                }
            }
            let Some(run) = core.pages.space.take_data(most, near, writer) else {
                for (_, run) in memory.taken.drain(..) {
                    core.pages.space.give_back(run);
                }
                plan.segments.clear();
                return Err(Error::NoSpace);
            };
            memory.taken.push((at, run));
            let offset = self.device_offset(core.cluster(&run))?;
            plan.push(offset, here, run.count * cluster);
            at += run.count;
        }
        stream.begin();
        Ok(())
    }

    pub(super) fn finish_writing(
        &self,
        plan: &mut Plan,
        data: &[u8],
        done: platter_device::Result<()>,
    ) -> Result<bool> {
        let mut memory = self.taken_memory(plan)?;
        let finished = self.end_write(&mut memory, plan, data, done);
        let stream = memory.stream.clone();
        plan.state = Some(memory);
        stream.end();
        self.let_go_quiet(&stream);
        finished
    }

    fn end_write(
        &self,
        memory: &mut Memory,
        plan: &Plan,
        data: &[u8],
        done: platter_device::Result<()>,
    ) -> Result<bool> {
        let stream = memory.stream.clone();
        match plan.notes[0] {
            SLOWLY => {
                done?;
                if !data.is_empty() {
                    self.with_space(|| self.write_slowly(&stream, plan.offset, data))?;
                }
                Ok(true)
            }
            IN_PLACE => {
                done?;
                self.touch(&stream);
                Ok(false)
            }
            _ => {
                let integrity = stream.read().integrity;
                let cluster = self.geometry.cluster as usize;
                let first = (plan.offset / cluster as u64) as u32;
                // Computed before anything is locked. Runs are of one cluster then.
                let mut rows: SmallVec<[Run; 4]> = SmallVec::new();
                let mut core = if integrity && done.is_ok() {
                    for &(at, run) in &memory.taken {
                        for index in 0..run.count {
                            let start = (at + index - first) as usize * cluster;
                            let checksum = crc32c::crc32c(&data[start..start + cluster]);
                            let number = self.geometry.number(run.container, run.start + index);
                            rows.push(Run {
                                at: at + index,
                                count: 1,
                                cluster: number,
                                checksum: Some(checksum),
                            });
                        }
                    }
                    self.core()
                } else {
                    let core = self.core();
                    rows.extend(memory.taken.iter().map(|(at, run)| Run {
                        at: *at,
                        count: run.count,
                        cluster: core.cluster(run),
                        checksum: None,
                    }));
                    core
                };
                let mut state = stream.write();
                let written = done.map_err(Error::from).and_then(|()| core.writable());
                // Integrity may have been turned on or off since.
                let written = written.and_then(|()| match state.integrity == integrity {
                    true => Ok(()),
                    false => Err(Error::NotPermitted("the file's integrity was changed meanwhile")),
                });
                if let Err(error) = written {
                    for (_, run) in memory.taken.drain(..) {
                        core.pages.space.give_back(run);
                    }
                    return Err(error);
                }
                if let Content::Inline(_) = &state.content {
                    state.content =
                        Content::Extents(Extents::new(&self.geometry, core.table_of(stream.node)));
                }
                let orphan = state.orphan;
                let state = &mut *state;
                let Content::Extents(extents) = &mut state.content else { unreachable!("made just now") };
                let mut gone = Vec::new();
                // Runs in order, one after the other in the stream, go in at once.
                let mut start = 0;
                while start < rows.len() {
                    let mut stop = start + 1;
                    while stop < rows.len() && rows[stop - 1].end() == rows[stop].at {
                        stop += 1;
                    }
                    let (from, to) = (rows[start].at, rows[stop - 1].end());
                    extents.load_range(&mut core.pages, from, to)?;
                    extents.replace(from, to, &rows[start..stop], &mut gone);
                    start = stop;
                }
                state.generation += 1;
                state.extend(plan.offset + plan.length as u64, cluster as u64);
                if !orphan {
                    for (_, run) in &memory.taken {
                        core.pages.space.keep(*run);
                    }
                }
                memory.taken.clear();
                if integrity && !gone.is_empty() {
                    stream.is_scattered.store(true, Ordering::Relaxed);
                }
                core.park(&gone, orphan)?;
                self.stamp(&stream);
                core.mark(stream.node);
                self.keeper.parked(&core.pages.space);
                Ok(true)
            }
        }
    }

    /// Notes that a stream was written just now.
    pub(super) fn stamp(&self, stream: &Stream) {
        stream.modified.store(self.now(), Ordering::Release);
        stream.touched.store(true, Ordering::Release);
    }

    /// Notes that a stream was written in place, without the core.
    fn touch(&self, stream: &Stream) {
        stream.modified.store(self.now(), Ordering::Release);
        if !stream.touched.swap(true, Ordering::AcqRel) {
            self.touched.lock().unwrap_or_else(PoisonError::into_inner).push(stream.node);
        }
    }
}
