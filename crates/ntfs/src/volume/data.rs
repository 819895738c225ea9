//! Data: the two halves of reading and writing.
//!
//! * In place: clusters that are there, up to the valid length. Takes the stream's lock only.
//! * Appending: clusters that are there or are taken now, past the valid length, which moves when they are written.
//! * *Slowly*, when the plan is finished, with everything locked: what is resident, compressed, or a hole.

use super::*;
use crate::runlist::{RunList, Runs};
use crate::stream::Place;
use platter_vfs::{Pass, Place as Where};

/// What a plan remembers between its halves, kept from request to request.
struct Memory {
    volume: u64,
    stream: Arc<Stream>,
    /// For reads of what is not on the device as it is: what was read.
    bounce: Vec<u8>,
}

/// Kinds of plan, in its first note.
const READ: u64 = 1;
const BOUNCED: u64 = 2;
const IN_PLACE: u64 = 3;
const APPEND: u64 = 4;
const SLOWLY: u64 = 5;

impl NtfsVolume {
    /// The stream of a node, made if need be.
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
        let stream = Stream::new(node, State::of(file.find(Type::DATA, &name)));
        stream.read_only.store(standard(&file)?.flags & file_flags::READ_ONLY != 0, Ordering::SeqCst);
        stream.is_link.store(name.is_empty() && is_link(core, &file)?, Ordering::SeqCst);
        let stream = Arc::new(stream);
        core.nodes.get_mut(node)?.stream = Some(stream.clone());
        self.streams.write().insert(node, stream.clone());
        Ok(stream)
    }

    /// The stream of a node that has content.
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
        let suits = |memory: &Memory| memory.volume == self.id && memory.stream.node == node.0;
        if let Some(mut memory) = plan.kept(suits) {
            memory.bounce.clear();
            return Ok(memory);
        }
        Ok(Box::new(Memory { volume: self.id, stream: self.data_of(node)?, bounce: Vec::new() }))
    }

    fn taken_memory(&self, plan: &mut Plan) -> Result<Box<Memory>> {
        let node = plan.node;
        plan.own(|memory: &Memory| memory.volume == self.id && memory.stream.node == node)
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
        plan.state = Some(memory);
        planned
    }

    fn fill_read(
        &self,
        memory: &mut Memory,
        node: Node,
        offset: u64,
        length: usize,
        plan: &mut Plan,
    ) -> Result<()> {
        let state = memory.stream.read();
        let covered = state.size.saturating_sub(offset).min(length as u64);
        plan.start(node.0, offset, covered as usize);
        plan.notes[0] = READ;
        let end = offset + covered;
        if covered > 0 {
            state.check_plain()?;
        }
        match &state.place {
            _ if covered == 0 => {}
            Place::Resident(content) => {
                memory.bounce.extend_from_slice(&content[offset as usize..end as usize]);
                plan.notes[0] = BOUNCED;
            }
            Place::Runs(_) if state.is_compressed() => {
                memory.bounce = self.read_compressed(&state, offset, covered as usize)?;
                plan.notes[0] = BOUNCED;
            }
            Place::Runs(runs) => {
                let valid = state.valid.clamp(offset, end);
                self.fill_segments(runs, offset, offset..valid, length, plan)?;
                let mut at = valid;
                // Past the valid length there is what plans wrote that are not yet joined with the rest.
                while at < end {
                    let here = state.done.iter().find(|range| range.contains(&at));
                    if let Some(range) = here {
                        let stop = range.end.min(end);
                        self.fill_segments(runs, offset, at..stop, length, plan)?;
                        at = stop;
                        continue;
                    }
                    let next = state.done.iter().map(|range| range.start).filter(|start| *start > at).min();
                    let stop = next.unwrap_or(end).min(end);
                    plan.holes.push((at - offset) as u32..(stop - offset) as u32);
                    at = stop;
                }
            }
        }
        let pass = memory.stream.enter(offset..end, Access::Read, None)?;
        plan.notes[2] = pass.into_bits();
        Ok(())
    }

    /// Segments and holes for a range of runs. The last transfer may reach to the end of its sector, never past the
    /// buffer, which has room for `length` from `start`.
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
        let memory = self.taken_memory(plan)?;
        memory.stream.leave(Pass::from_bits(plan.notes[2]));
        let finished = match done {
            Err(error) => Err(error.into()),
            Ok(()) if plan.notes[0] == BOUNCED => {
                buffer[..memory.bounce.len()].copy_from_slice(&memory.bounce);
                Ok(plan.length)
            }
            Ok(()) => {
                plan.clear_holes(buffer);
                Ok(plan.length)
            }
        };
        plan.state = Some(memory);
        finished
    }

    // Writing

    pub(super) fn may_write(&self, stream: &Stream) -> Result<()> {
        self.health.writable()?;
        if stream.read_only.load(Ordering::Relaxed) {
            return Err(Error::NotPermitted("it has the read-only attribute"));
        }
        Ok(())
    }

    pub(super) fn plan_writing(&self, node: Node, offset: u64, data: &[u8], plan: &mut Plan) -> Result<()> {
        Plan::check_range(self.sector, offset, data.len())?;
        let memory = self.memory(node, plan)?;
        let planned = self.fill_write(&memory.stream, node, offset, data, plan);
        plan.state = Some(memory);
        planned
    }

    fn fill_write(
        &self,
        stream: &Arc<Stream>,
        node: Node,
        offset: u64,
        data: &[u8],
        plan: &mut Plan,
    ) -> Result<()> {
        let end = self.check_size(offset.checked_add(data.len() as u64))?;
        {
            let state = stream.read();
            // With the state locked: who unmounts the volume finds either this plan or that it was refused.
            self.may_write(stream)?;
            plan.start(node.0, offset, data.len());
            state.check_plain()?;
            if !data.is_empty() && self.is_in_place(&state, offset, end) {
                self.fill_segments(state.runs(), offset, offset..end, data.len(), plan)?;
                let pass = stream.enter(offset..end, Access::Write, None)?;
                let exchanges = stream.exchanges.load(Ordering::SeqCst);
                plan.notes[..3].copy_from_slice(&[IN_PLACE, exchanges, pass.into_bits()]);
                return Ok(());
            }
        }
        self.with_space(|| self.fill_append(stream, node, offset, end, data, plan))
    }

    fn fill_append(
        &self,
        stream: &Arc<Stream>,
        node: Node,
        offset: u64,
        end: u64,
        data: &[u8],
        plan: &mut Plan,
    ) -> Result<()> {
        plan.start(node.0, offset, data.len());
        plan.sync = SyncNeed::After;
        let core = self.change()?;
        let mut state = stream.write();
        self.may_write(stream)?;
        let pass = stream.enter(offset..end, Access::Write, None)?;
        let kind = if data.is_empty() || self.is_slow(&state, offset, end) {
            Ok(SLOWLY)
        } else {
            self.provide_ahead(core, stream, &mut state, offset..end).and_then(|()| {
                self.fill_segments(state.runs(), offset, offset..end, data.len(), plan)?;
                state.planned = state.planned.max(end);
                Ok(APPEND)
            })
        };
        let kind = kind.inspect_err(|_| stream.leave(pass))?;
        let exchanges = stream.exchanges.load(Ordering::SeqCst);
        plan.notes[..3].copy_from_slice(&[kind, exchanges, pass.into_bits()]);
        Ok(())
    }

    /// Whether clusters that hold content of the stream already are overwritten, and nothing else.
    pub(super) fn is_in_place(&self, state: &State, offset: u64, end: u64) -> bool {
        end <= state.valid.min(state.size)
            && matches!(state.place, Place::Runs(_))
            && !state.is_compressed()
            && is_there(state.runs(), offset >> self.shift, (end + self.cluster - 1) >> self.shift)
    }

    /// Whether a write needs the core as long as it is under way: of what is resident or compressed, or into a hole.
    pub(super) fn is_slow(&self, state: &State, offset: u64, end: u64) -> bool {
        let (first, known) = (offset / self.cluster, state.clusters().min(end.div_ceil(self.cluster)));
        matches!(state.place, Place::Resident(_))
            || state.is_compressed()
            || first < known && !is_there(state.runs(), first, known)
    }

    /// Takes clusters for a write past the valid length, and fills the gap in front of it with zeroes. The core is given
    /// back before that.
    pub(super) fn provide_ahead(
        &self,
        mut core: MutexGuard<'_, Core, METADATA>,
        stream: &Stream,
        state: &mut State,
        range: Range<u64>,
    ) -> Result<()> {
        self.provide(&mut core, stream.node, state, range.clone())?;
        drop(core);
        if range.start > state.planned {
            let gap = state.planned..range.start;
            self.write_zeroes(state, gap.clone())?;
            state.note_written(gap);
        }
        Ok(())
    }

    /// Records that a range past the valid length was written; or, if that failed, makes it as if it had never been
    /// planned. False if its clusters were exchanged meanwhile: then it must be written once more.
    pub(super) fn finish_append(
        &self,
        stream: &Stream,
        range: Range<u64>,
        exchanges: u64,
        written: Result<()>,
    ) -> Result<bool> {
        let mut state = stream.write();
        match written {
            Ok(()) if exchanges != stream.exchanges.load(Ordering::SeqCst) => Ok(false),
            Ok(()) => {
                state.size = state.size.max(range.end);
                state.note_written(range);
                Ok(true)
            }
            Err(error) => {
                // What is past the end reads as zeroes.
                let from = range.start.max(state.valid);
                if from < range.end && self.write_zeroes(&state, from..range.end).is_ok() {
                    state.note_written(from..range.end);
                }
                Err(error)
            }
        }
    }

    pub(super) fn finish_writing(
        &self,
        plan: &mut Plan,
        data: &[u8],
        done: platter_device::Result<()>,
    ) -> Result<bool> {
        let memory = self.taken_memory(plan)?;
        let stream = &*memory.stream;
        let end = plan.offset + plan.length as u64;
        let again = || self.with_space(|| self.write_entered(stream, plan.offset, data)).map(|()| true);
        let finished = match (plan.notes[0], done.map_err(Error::from)) {
            (APPEND, done) => match self.finish_append(stream, plan.offset..end, plan.notes[1], done) {
                Ok(false) => again(),
                outcome => outcome,
            },
            (_, Err(error)) => Err(error),
            (SLOWLY, Ok(())) if plan.length > 0 => again(),
            (IN_PLACE, Ok(())) if plan.notes[1] != stream.exchanges.load(Ordering::SeqCst) => again(),
            (_, Ok(())) => Ok(false),
        };
        if finished.is_ok() && plan.length > 0 && plan.notes[0] != SLOWLY {
            self.note_write(stream);
        }
        stream.leave(Pass::from_bits(plan.notes[2]));
        plan.state = Some(memory);
        finished
    }

    /// Notes when a stream was written, for the next commit.
    pub(super) fn note_write(&self, stream: &Stream) {
        stream.stamp(self.now());
        if !stream.is_touched.swap(true, Ordering::SeqCst) {
            self.touch(stream.node);
        }
    }

    pub(super) fn extents_of(&self, node: Node) -> Result<Vec<Extent>> {
        let stream = self.data_of(node)?;
        let state = stream.read();
        let size = state.size;
        let runs = match &state.place {
            Place::Resident(_) if size == 0 => return Ok(Vec::new()),
            Place::Resident(_) => {
                return Ok(vec![Extent { offset: 0, length: size, place: Where::Resident }]);
            }
            Place::Runs(runs) => runs,
        };
        let mut extents: Vec<Extent> = Vec::new();
        for run in runs.iter() {
            let (start, end) = (run.vcn * self.cluster, (run.end() * self.cluster).min(size));
            if start >= end {
                break;
            }
            let Some(lcn) = run.lcn else {
                extents.push(Extent { offset: start, length: end - start, place: Where::Hole });
                continue;
            };
            let at = |offset: u64| lcn * self.cluster + (offset - start);
            let valid = state.valid.clamp(start, end);
            if valid > start {
                extents.push(Extent {
                    offset: start,
                    length: valid - start,
                    place: Where::Device(at(start)),
                });
            }
            if valid < end {
                let place = Where::Unwritten(at(valid));
                extents.push(Extent { offset: valid, length: end - valid, place });
            }
        }
        Ok(extents)
    }
}

/// Whether virtual clusters are all there, without a hole.
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
