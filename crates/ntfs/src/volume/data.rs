//! Reading and writing content, each in two halves: planning and finishing. A write is of one of three kinds:
//!
//! * In place: over allocated clusters, up to the valid length. Takes the stream's lock only.
//! * Appending: past the valid length, over clusters that are allocated or taken now. The length moves when the data is
//!   written.
//! * *Slowly*: over content that is resident, compressed, or a hole. Done when the plan is finished, with core and
//!   stream locked.

use super::*;
use crate::runlist::{RunList, Runs};
use crate::stream::StreamPlace;
use platter_vfs::{Place, range_of_write};

/// The state of a plan between its two halves; a plan keeps it from one request to the next.
struct Memory {
    volume: u64,
    stream: Arc<Stream>,
    /// For reads of resident and compressed content: the bytes, which were read when the read was planned.
    bounce: Vec<u8>,
    /// The plan that is under way, if one is, and its place among those that use the stream.
    planned: Option<(Planned, Pass)>,
}

/// What a plan is to do, from its first half to its second. `exchanges` is the stream's count of exchanged clusters when
/// the plan was made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Planned {
    Read {
        exchanges: u64,
    },
    /// A read whose bytes are in memory already.
    Bounced,
    InPlace {
        exchanges: u64,
    },
    Append {
        exchanges: u64,
    },
    /// A write that is carried out when it is finished.
    Slowly,
}

impl NtfsVolume {
    /// Returns the stream of a node, which is made if the node has none in memory.
    pub(super) fn stream_in(&self, core: &mut Core, node: u64) -> Result<Arc<Stream>> {
        let entity = core.nodes.get(node)?;
        if let Some(stream) = &entity.stream {
            return Ok(stream.clone());
        }
        let (number, part) = (entity.file, entity.part.clone());
        let file = core.file(number)?;
        let name = part.map(|(_, name)| name).unwrap_or_default();
        if name.is_empty() && file.flags & record_flags::DIRECTORY != 0 {
            return Err(if is_link(core, &file)? {
                Error::InvalidArgument("a symbolic link has no content")
            } else {
                Error::IsADirectory
            });
        }
        let mut state = StreamState::of(file.find(Type::DATA, &name));
        let (tag, packed) = match name.is_empty() {
            true => (tag_of(core, &file)?, packing_of(core, &file)),
            false => (None, None),
        };
        state.set_tag(tag, packed, self.cluster);
        let stream = Stream::new(node, state);
        stream.read_only.store(standard(&file)?.flags & file_flags::READ_ONLY != 0, Ordering::SeqCst);
        stream.is_link.store(tag.is_some_and(platter_vfs::reparse::is_link), Ordering::SeqCst);
        let stream = Arc::new(stream);
        core.nodes.get_mut(node)?.stream = Some(stream.clone());
        stream.is_listed.store(true, Ordering::Relaxed);
        self.streams.write().insert(node, stream.clone());
        Ok(stream)
    }

    /// Takes the streams of these nodes off the volume's list of streams.
    pub(super) fn unlist(&self, nodes: impl IntoIterator<Item = u64>) {
        let mut streams = self.streams.write();
        for stream in nodes.into_iter().filter_map(|node| streams.remove(&node)) {
            stream.is_listed.store(false, Ordering::Relaxed);
        }
    }

    /// Returns the stream of a node. Fails for a directory or symbolic link, which has no content.
    pub(super) fn data_of(&self, node: Node) -> Result<Arc<Stream>> {
        let known = self.streams.read().get(&node.0).cloned();
        let stream = match known {
            Some(stream) => stream,
            None => self.stream_in(&mut self.core(), node.0)?,
        };
        if stream.is_link.load(Ordering::Relaxed) {
            return Err(Error::InvalidArgument("a symbolic link has no content"));
        }
        Ok(stream)
    }

    fn memory(&self, node: Node, plan: &mut Plan) -> Result<Box<Memory>> {
        let suits = |memory: &Memory| {
            let stream = &memory.stream;
            memory.volume == self.id && stream.node == node.0 && stream.is_listed.load(Ordering::Relaxed)
        };
        if let Some(mut memory) = plan.kept(suits) {
            memory.bounce.clear();
            return Ok(memory);
        }
        Ok(Box::new(Memory {
            volume: self.id,
            stream: self.data_of(node)?,
            bounce: Vec::new(),
            planned: None,
        }))
    }

    /// Takes what a plan that is being finished was made for. The caller puts the memory back into the plan.
    fn finishing(&self, plan: &mut Plan) -> Result<(Box<Memory>, Planned, Pass)> {
        let node = plan.node;
        let mut memory =
            plan.own(|memory: &Memory| memory.volume == self.id && memory.stream.node == node)?;
        let (planned, pass) = memory.planned.take().ok_or(Plan::FINISHED)?;
        Ok((memory, planned, pass))
    }

    pub(super) fn check_size(&self, end: Option<u64>) -> Result<u64> {
        match end {
            Some(end) if end <= LARGEST => Ok(end),
            _ => Err(Error::FileTooLarge { format: NTFS, limit: LARGEST, wanted: end.unwrap_or(u64::MAX) }),
        }
    }

    // Reading

    pub(super) fn plan_reading(&self, node: Node, offset: u64, length: usize, plan: &mut Plan) -> Result<()> {
        Plan::check_range(self.sector, offset, length)?;
        let mut memory = self.memory(node, plan)?;
        let planned = self.fill_read(&mut memory, node, offset, length, plan);
        keep(plan, memory, planned)
    }

    fn fill_read(
        &self,
        memory: &mut Memory,
        node: Node,
        offset: u64,
        length: usize,
        plan: &mut Plan,
    ) -> Result<(Planned, Pass)> {
        let packed = {
            let state = memory.stream.read();
            state.packed.map(|packing| (packing, state.size))
        };
        if let Some((packing, size)) = packed {
            let covered = size.saturating_sub(offset).min(length as u64) as usize;
            plan.start(node.0, offset, covered);
            if covered > 0 {
                memory.bounce = self.read_packed(node, packing, size, (offset, covered))?;
            }
            let pass = memory.stream.enter(offset..offset + length as u64, Access::Read, None)?;
            return Ok((Planned::Bounced, pass));
        }
        let state = memory.stream.read();
        let covered = state.size.saturating_sub(offset).min(length as u64);
        plan.start(node.0, offset, covered as usize);
        let mut planned = Planned::Read { exchanges: memory.stream.exchanges.load(Ordering::SeqCst) };
        let end = offset + covered;
        if covered > 0 {
            state.check_plain()?;
        }
        match &state.place {
            _ if covered == 0 => {}
            StreamPlace::Resident(content) => {
                memory.bounce.extend_from_slice(&content[offset as usize..end as usize]);
                planned = Planned::Bounced;
            }
            StreamPlace::Runs(_) if state.is_compressed() => {
                memory.bounce = self.read_compressed(&state, offset, covered as usize)?;
                planned = Planned::Bounced;
            }
            StreamPlace::Runs(runs) => {
                self.fill_parts(&state, runs, (offset, offset..end), length, plan)?;
            }
        }
        let pass = memory.stream.enter(offset..offset + length as u64, Access::Read, None)?;
        Ok((planned, pass))
    }

    /// Adds to a plan the segments and holes of a byte range of a stream. The last transfer may reach to the end of its
    /// sector, never past the buffer, which has room for `length` bytes from `start`.
    fn fill_segments(
        &self,
        runs: &RunList,
        start: u64,
        range: Range<u64>,
        length: usize,
        plan: &mut Plan,
    ) -> Result<()> {
        let (shift, mask) = (self.shift, u64::from(self.sector) - 1);
        let end = ((range.end + mask) & !mask).min(start + length as u64);
        let mut at = range.start;
        let mut ahead = runs.from(at >> shift);
        while at < range.end {
            let Some(run) = ahead.next() else {
                let found = runs.end() << shift;
                return Err(Error::damaged(
                    "run list",
                    0,
                    format!("clusters for {} bytes", range.end),
                    found,
                ));
            };
            let stop = (run.end() << shift).min(end);
            match run.lcn {
                Some(lcn) => {
                    let offset = (lcn << shift) + (at - (run.vcn << shift));
                    plan.push(offset, (at - start) as u32, (stop - at) as u32);
                }
                None => plan.holes.push((at - start) as u32..(stop - start) as u32),
            }
            at = stop;
        }
        Ok(())
    }

    pub(super) fn finish_reading(
        &self,
        plan: &mut Plan,
        buffer: &mut [u8],
        done: platter_device::Result<()>,
    ) -> Result<usize> {
        let (memory, planned, pass) = self.finishing(plan)?;
        let finished = match (planned, done) {
            (_, Err(error)) => Err(error.into()),
            (Planned::Read { exchanges }, Ok(())) => {
                plan.clear_holes(buffer);
                match exchanges == memory.stream.exchanges.load(Ordering::SeqCst) {
                    true => Ok(plan.length),
                    false => self.read_again(&memory.stream, plan, exchanges, buffer).map(|()| plan.length),
                }
            }
            (_, Ok(())) => {
                buffer[..memory.bounce.len()].copy_from_slice(&memory.bounce);
                Ok(plan.length)
            }
        };
        memory.stream.leave(pass);
        plan.keep(memory);
        finished
    }

    /// Reads again the parts of a plan whose clusters a sync exchanged since the read was planned. The old clusters may
    /// hold what a write under way has put there since, which others do not see before that write has finished: it
    /// would be seen, and then be gone again.
    fn read_again(&self, stream: &Stream, plan: &Plan, exchanges: u64, buffer: &mut [u8]) -> Result<()> {
        let state = stream.read();
        let StreamPlace::Runs(runs) = &state.place else { return Ok(()) };
        let mut again = Plan::default();
        let range = plan.offset..plan.offset + plan.length as u64;
        for exchanged in state.exchanged_since(exchanges, &range) {
            self.fill_parts(&state, runs, (plan.offset, exchanged), buffer.len(), &mut again)?;
        }
        again.read_from(&*self.device, buffer)?;
        again.clear_holes(buffer);
        Ok(())
    }

    /// Adds to a plan the segments and holes of a byte range of a stream, without what was never written. The plan's
    /// buffer has room for `length` bytes from `start`.
    fn fill_parts(
        &self,
        state: &StreamState,
        runs: &RunList,
        (start, range): (u64, Range<u64>),
        length: usize,
        plan: &mut Plan,
    ) -> Result<()> {
        for (part, is_written) in state.parts(range) {
            match is_written {
                true => self.fill_segments(runs, start, part, length, plan)?,
                false => plan.holes.push((part.start - start) as u32..(part.end - start) as u32),
            }
        }
        Ok(())
    }

    // Writing

    pub(super) fn may_write(&self, stream: &Stream) -> Result<()> {
        self.health.writable()?;
        if stream.read_only.load(Ordering::Relaxed) {
            return Err(Error::NotPermitted("it has the read-only attribute"));
        }
        Ok(())
    }

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
    pub(super) fn plan_last_block(
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
        let is_slow = !is_plain || length == 0 || first < known && !is_there(state.runs(), first, known);
        let pass = stream.enter(
            range_of_write(state.planned, offset, length, self.sector),
            Access::Write,
            within,
        )?;
        if is_slow {
            return Ok((Planned::Slowly, pass));
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
            (Planned::Slowly, Ok(())) => {
                self.with_space(|| self.write_slowly(stream, plan.offset, data)).map(|()| plan.length > 0)
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
        if finished.is_ok() && plan.length > 0 && planned != Planned::Slowly {
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
            self.with_space(|| self.write_slowly(stream, part.start, piece))?;
        }
        Ok(())
    }

    /// Notes a write that moved a stream's size or valid length, with the state locked, before other threads see it: a
    /// commit that does not include the length must not count as one that covers it.
    pub(super) fn note_growth(&self, stream: &Stream) {
        self.note_write(stream);
        self.commits.note(&stream.resized);
    }

    /// Notes the time of a write to a stream, for the next commit.
    pub(super) fn note_write(&self, stream: &Stream) {
        stream.stamp(self.now());
        if !stream.is_touched.load(Ordering::SeqCst) {
            // The node is noted and the mark is set under one lock: another writer that finds the mark set does not
            // note the node again, and may sync at once.
            let mut touched = self.touched();
            touched.insert(stream.node);
            stream.is_touched.store(true, Ordering::SeqCst);
        }
    }

    pub(super) fn extents_of(&self, node: Node, range: &Range<u64>) -> Result<Vec<Extent>> {
        let stream = self.data_of(node)?;
        let state = stream.read();
        let size = state.size;
        let all = |place| Extent { offset: 0, length: size, place }.within(range).into_iter().collect();
        if state.packed.is_some() {
            return Ok(all(Place::Compressed));
        }
        state.check_here()?;
        let runs = match &state.place {
            StreamPlace::Resident(_) => return Ok(all(Place::Resident)),
            StreamPlace::Runs(_) if state.is_compressed() => {
                let extents = self.compressed_extents(&state).into_iter();
                return Ok(extents.filter_map(|extent| extent.within(range)).collect());
            }
            StreamPlace::Runs(runs) => runs,
        };
        let mut extents: Vec<Extent> = Vec::new();
        for run in runs.from(range.start / self.cluster) {
            let first = run.vcn * self.cluster;
            let (start, end) = (first.max(range.start), (run.end() * self.cluster).min(size).min(range.end));
            if start >= end {
                break;
            }
            let Some(lcn) = run.lcn else {
                extents.push(Extent { offset: start, length: end - start, place: Place::Hole });
                continue;
            };
            for (part, is_written) in state.parts(start..end) {
                let at = lcn * self.cluster + (part.start - first);
                let place = if is_written { Place::Device(at) } else { Place::Unwritten(at) };
                extents.push(Extent { offset: part.start, length: part.end - part.start, place });
            }
        }
        Ok(extents)
    }

    /// The extents of a compressed stream. The content of a unit that takes fewer clusters than it has is in all of the
    /// unit, so only a unit without any cluster is a hole.
    fn compressed_extents(&self, state: &StreamState) -> Vec<Extent> {
        let unit = self.unit_clusters(state) * self.cluster;
        let mut extents: Vec<Extent> = Vec::new();
        let mut add = |range: Range<u64>, place: Place| match extents.last_mut() {
            _ if range.is_empty() => {}
            Some(last) if last.place == place => last.length += range.end - range.start,
            _ => extents.push(Extent { offset: range.start, length: range.end - range.start, place }),
        };
        let mut at = 0;
        for run in state.runs().iter().filter(|run| run.lcn.is_some()) {
            let start = (run.vcn * self.cluster / unit * unit).clamp(at, state.size);
            let end = (run.end() * self.cluster).next_multiple_of(unit).clamp(at, state.size);
            add(at..start, Place::Hole);
            add(start..end, Place::Compressed);
            at = end;
        }
        add(at..state.size, Place::Hole);
        extents
    }
}

/// Puts the memory of a plan back into it, with what was planned if that could be done.
fn keep(plan: &mut Plan, mut memory: Box<Memory>, planned: Result<(Planned, Pass)>) -> Result<()> {
    let planned = planned.map(|planned| memory.planned = Some(planned));
    plan.keep(memory);
    planned
}

/// Whether the virtual clusters `from..to` are all allocated, without a hole.
pub(super) fn is_there(runs: &RunList, from: u64, to: u64) -> bool {
    let mut ahead = runs.from(from);
    let mut at = from;
    while at < to {
        match ahead.next() {
            Some(run) if run.lcn.is_some() => at = run.end(),
            _ => return false,
        }
    }
    true
}
