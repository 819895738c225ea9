//! Writes that may change where content lies, done with the core and the stream locked.

use super::data::is_there;
use super::packed::UNIT;
use super::*;
use crate::file::Outside;
use crate::layout::{Record, attribute_flags};
use crate::runlist::RunList;
use crate::stream::StreamPlace;
use platter_device::{Buffer, write_any};
use platter_vfs::blocking::{is_one_step, plan_when_free, write_in_steps};
use platter_vfs::{first_in_block, range_of_write};

/// The length in bytes from which a gap becomes a hole instead of being given clusters.
pub(super) const HOLE: u64 = 64 << 10;
/// The number of bytes of clusters that are taken ahead of content, at most.
const AHEAD: u64 = 8 << 20;

impl NtfsVolume {
    /// The number of a node's file and the name of its stream.
    fn place_of(&self, core: &Core, node: u64) -> Result<(u64, Box<[u16]>)> {
        let entity = core.nodes.get(node)?;
        Ok((entity.file, entity.part.as_ref().map(|(_, name)| name.clone()).unwrap_or_default()))
    }

    /// Stores the place of a stream's content in its file's record.
    fn store_data(&self, core: &mut Core, node: u64, state: &StreamState) -> Result<()> {
        let (number, name) = self.place_of(core, node)?;
        let mut file = (*core.file(number)?).clone();
        let body = match &state.place {
            StreamPlace::Resident(value) => Body::Resident { value: value.clone(), indexed: false },
            StreamPlace::Runs(runs) => Body::Outside(Outside {
                runs: runs.clone(),
                size: state.size,
                valid: state.valid.min(state.size),
                unit: state.unit,
            }),
        };
        file.put(Attr { kind: Type::DATA, name: name.clone(), flags: state.flags, body });
        let mut standard = standard(&file)?;
        if name.is_empty()
            && state.flags & attribute_flags::SPARSE != 0
            && standard.flags & file_flags::SPARSE == 0
        {
            standard.flags |= file_flags::SPARSE;
            file.put(Attr::resident(Type::STANDARD_INFORMATION, standard.to_bytes()));
        }
        core.store(file)
    }

    pub(super) fn is_on_disk(&self, core: &Core, node: u64) -> Result<bool> {
        Ok(core.nodes.get(node)?.file < DETACHED)
    }

    /// Changes a stream's state and its attribute in the record, both or neither.
    pub(super) fn remake<T>(
        &self,
        core: &mut Core,
        node: u64,
        state: &mut StreamState,
        change: impl FnOnce(&mut Core, &mut StreamState) -> Result<T>,
    ) -> Result<T> {
        let mut new = state.copy();
        let outcome = core.transact(|core| {
            let outcome = change(core, &mut new)?;
            self.store_data(core, node, &new)?;
            Ok(outcome)
        })?;
        *state = new;
        if let Some(stream) = core.nodes.get(node).ok().and_then(|entity| entity.stream.as_ref()) {
            self.commits.note(&stream.resized);
        }
        Ok(outcome)
    }

    /// Allocates every cluster of a range, also past the present end. The content stays as it is, except in `written`,
    /// which the caller is about to write: clusters for holes are zeroed outside `written`. If `ahead`, more clusters
    /// may be taken for content to come.
    pub(super) fn provide(
        &self,
        core: &mut Core,
        node: u64,
        state: &mut StreamState,
        range: Range<u64>,
        written: Range<u64>,
        ahead: bool,
    ) -> Result<()> {
        let cluster = self.cluster;
        let (first, last) = (range.start / cluster, range.end.div_ceil(cluster));
        let known = state.clusters();
        if is_there(state.runs(), first, last) {
            return Ok(());
        }
        let on_disk = self.is_on_disk(core, node)?;
        self.remake(core, node, state, |core, state| {
            let StreamPlace::Runs(runs) = &mut state.place else { return Ok(()) };
            for hole in runs.part(first, last.min(known)).into_iter().filter(|run| run.lcn.is_none()) {
                self.fill_hole(core, runs, hole, on_disk, written.clone())?;
            }
            if last <= known {
                return Ok(());
            }
            let mut outside = Outside { runs: std::mem::take(runs), ..Outside::default() };
            if (first.saturating_sub(known)) * cluster >= HOLE {
                outside.push(None, first - known);
                state.flags |= attribute_flags::SPARSE;
            }
            let wanted = last - outside.clusters();
            let goes_on = range.start <= known * cluster && state.size > 0;
            let more = match ahead && goes_on {
                true => (state.size.min(AHEAD) / cluster).min(core.space.at_hand() / 16),
                false => 0,
            };
            if more == 0 || core.extend(&mut outside, wanted + more, on_disk, false).is_err() {
                core.extend(&mut outside, wanted, on_disk, false)?;
            } else {
                state.is_ahead = true;
            }
            state.place = StreamPlace::Runs(outside.runs);
            Ok(())
        })
    }

    /// Takes clusters for a hole. Their bytes outside `written` are zeroed on the device.
    pub(super) fn fill_hole(
        &self,
        core: &mut Core,
        runs: &mut RunList,
        hole: Run,
        on_disk: bool,
        written: Range<u64>,
    ) -> Result<()> {
        let cluster = self.cluster;
        let before =
            hole.vcn.checked_sub(1).and_then(|vcn| runs.part(vcn, vcn + 1).first().and_then(|run| run.lcn));
        let mut outside = Outside::default();
        outside.push(None, hole.vcn);
        if core.space.at_hand() < hole.length + core.reserve() {
            return Err(Error::NoSpace);
        }
        let mut near = before.map(|lcn| lcn + 1);
        while outside.clusters() < hole.end() {
            let found = core.take_clusters(near, hole.end() - outside.clusters(), on_disk)?;
            outside.push(Some(found.0), found.1);
            near = Some(found.0 + found.1);
        }
        let new = outside.runs.part(hole.vcn, hole.end());
        let (start, end) = (hole.vcn * cluster, hole.end() * cluster);
        for gap in [start..written.start.clamp(start, end), written.end.clamp(start, end)..end] {
            self.write_zeroes_to(&new, gap)?;
        }
        runs.splice(hole.vcn, hole.end(), &new);
        Ok(())
    }

    /// Writes zeroes over the clusters of a range; holes are zeroes already.
    pub(super) fn write_zeroes(&self, state: &StreamState, range: Range<u64>) -> Result<()> {
        let runs = state.runs().part(range.start / self.cluster, range.end.div_ceil(self.cluster));
        self.write_zeroes_to(&runs, range)
    }

    pub(super) fn write_zeroes_to(&self, runs: &[Run], range: Range<u64>) -> Result<()> {
        let zeroes = vec![0; (range.end - range.start).min(1 << 20) as usize];
        for run in runs {
            let Some(lcn) = run.lcn else { continue };
            let mut at = (run.vcn * self.cluster).max(range.start);
            let end = (run.end() * self.cluster).min(range.end);
            while at < end {
                let piece = (end - at).min(zeroes.len() as u64);
                let offset = lcn * self.cluster + (at - run.vcn * self.cluster);
                write_any(&*self.device, offset, &zeroes[..piece as usize])?;
                at += piece;
            }
        }
        Ok(())
    }

    /// Writes bytes over allocated clusters.
    pub(super) fn write_bytes(&self, state: &StreamState, offset: u64, data: &[u8]) -> Result<()> {
        let end = offset + data.len() as u64;
        for run in state.runs().part(offset / self.cluster, end.div_ceil(self.cluster)) {
            let Some(lcn) = run.lcn else { continue };
            let (from, to) = ((run.vcn * self.cluster).max(offset), (run.end() * self.cluster).min(end));
            let place = lcn * self.cluster + (from - run.vcn * self.cluster);
            write_any(&*self.device, place, &data[(from - offset) as usize..(to - offset) as usize])?;
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
            plan_when_free(|| self.plan_writing(node, at, piece, &mut plan, claim), || stream.wait_free())?;
            let done = plan.write_to(&*self.device, piece);
            self.finish_writing(&mut plan, piece, done).map(drop)
        };
        let slowly = |at: u64, piece: &[u8]| self.with_space(|| self.write_slowly(&stream, at, piece));
        let last = claim.as_ref().zip(last_block().filter(|last| offset <= *last));
        let Some((claim, last)) = last else { return write_in_steps(offset, data, sector, planned, slowly) };
        let (head, rest) = data.split_at((last - offset) as usize);
        write_in_steps(offset, head, sector, planned, slowly)?;
        let mut whole = Buffer::new(block as usize);
        whole[..rest.len()].copy_from_slice(rest);
        self.plan_last_block(node, last..end, &mut plan, claim)?;
        let done = plan.write_to(&*self.device, &whole);
        self.finish_writing(&mut plan, rest, done).map(drop)
    }

    /// Takes the clusters that a write in several steps needs, so that no step is refused for want of space.
    fn prepare(&self, stream: &Stream, range: Range<u64>) -> Result<()> {
        {
            let state = stream.read();
            state.check_plain()?;
            let (first, last) = (range.start / self.cluster, range.end.div_ceil(self.cluster));
            if matches!(state.place, StreamPlace::Runs(_)) && is_there(state.runs(), first, last) {
                return Ok(());
            }
        }
        let mut core = self.change()?;
        let mut state = stream.write();
        if let StreamPlace::Resident(content) = &state.place {
            let grown = usize::try_from(range.end).unwrap_or(usize::MAX).max(content.len());
            if self.may_be_resident(&mut core, stream.node, grown)? {
                return Ok(());
            }
            self.move_out(&mut core, stream.node, &mut state)?;
        }
        if state.is_compressed() {
            return Ok(());
        }
        // Readers come between the steps, so clusters that are not written yet must hold zeroes.
        let nothing = range.start..range.start;
        self.provide(&mut core, stream.node, &mut state, range, nothing, true)
    }

    /// Writes any bytes with the stream locked, for a caller that has claimed them or has a plan of whole sectors.
    pub(super) fn write_slowly(&self, stream: &Stream, offset: u64, data: &[u8]) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        {
            // Allocated clusters are overwritten without the core's lock, and readers go on.
            let state = stream.read();
            state.check_plain()?;
            let end = offset + data.len() as u64;
            if matches!(state.place, StreamPlace::Runs(_))
                && end <= state.valid.min(state.size)
                && !state.is_compressed()
                && is_there(state.runs(), offset / self.cluster, end.div_ceil(self.cluster))
            {
                self.write_bytes(&state, offset, data)?;
                drop(state);
                self.note_write(stream);
                return Ok(());
            }
        }
        let mut core = self.change()?;
        let mut state = stream.write();
        self.write_locked(&mut core, stream.node, &mut state, offset, data)?;
        // The valid length, which this write moved, is recorded with the times by the next commit.
        self.note_growth(stream);
        Ok(())
    }

    fn write_locked(
        &self,
        core: &mut Core,
        node: u64,
        state: &mut StreamState,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        state.check_plain()?;
        let end = offset + data.len() as u64;
        if let StreamPlace::Resident(content) = &state.place {
            let grown = (end as usize).max(content.len());
            if self.may_be_resident(core, node, grown)? {
                return self.remake(core, node, state, |_, state| {
                    if let StreamPlace::Resident(content) = &mut state.place {
                        content.resize(grown, 0);
                        content[offset as usize..end as usize].copy_from_slice(data);
                    }
                    state.size = grown as u64;
                    (state.valid, state.planned) = (state.size, state.size);
                    Ok(())
                });
            }
            self.move_out(core, node, state)?;
        }
        if state.is_compressed() {
            self.clear_to(core, node, state, offset)?;
            return self.write_compressed(core, node, state, offset, data);
        }
        let last = end.div_ceil(self.cluster).min(state.clusters());
        let holes = state.runs().part((offset / self.cluster).min(last), last);
        let holes: Vec<Run> = holes.into_iter().filter(|run| run.lcn.is_none()).collect();
        self.provide(core, node, state, offset..end, offset..end, true)?;
        if offset > state.planned {
            let gap = state.planned..offset;
            self.write_zeroes(state, gap.clone())?;
            state.note_written(gap);
        }
        let written = self.write_bytes(state, offset, data);
        if written.is_err() {
            // Clusters that took the place of holes still hold what their former owners wrote.
            for hole in holes {
                let range = hole.vcn * self.cluster..hole.end() * self.cluster;
                self.give_back_clusters(core, node, state, range).map_err(|error| self.health.fail(error))?;
            }
        }
        written?;
        state.note_written(offset..end);
        state.size = state.size.max(end);
        Ok(())
    }

    /// Whether content of `length` bytes fits into the record.
    pub(super) fn may_be_resident(&self, core: &mut Core, node: u64, length: usize) -> Result<bool> {
        let (number, name) = self.place_of(core, node)?;
        let room = Record::room(core.geometry.record as usize);
        if length > room || number >= DETACHED && length > 512 {
            return Ok(false);
        }
        let file = core.file(number)?;
        let now = file.find(Type::DATA, &name).map_or(0, |attr| attr.value().map_or(0, <[u8]>::len));
        Ok(file.length() + length.next_multiple_of(8) <= room + now.next_multiple_of(8))
    }

    /// Moves resident content out into clusters.
    pub(super) fn move_out(&self, core: &mut Core, node: u64, state: &mut StreamState) -> Result<()> {
        let StreamPlace::Resident(content) = &state.place else { return Ok(()) };
        if content.is_empty() && !state.is_compressed() {
            // There is nothing to move; the record changes when clusters are taken.
            state.place = StreamPlace::Runs(RunList::default());
            return Ok(());
        }
        let content = content.clone();
        let on_disk = self.is_on_disk(core, node)?;
        let cluster = self.cluster;
        let is_compressed = state.is_compressed();
        self.remake(core, node, state, |core, state| {
            state.place = StreamPlace::Runs(RunList::default());
            if is_compressed {
                state.unit = UNIT;
                (state.size, state.valid, state.planned) = (0, 0, 0);
                return Ok(());
            }
            let mut outside = Outside::default();
            core.extend(&mut outside, (content.len() as u64).div_ceil(cluster), on_disk, false)?;
            let mut whole = content.clone();
            whole.resize((outside.clusters() * cluster) as usize, 0);
            // New clusters: nothing on disk leads to them yet.
            core.write_runs(&outside.runs, 0, &whole)?;
            state.place = StreamPlace::Runs(outside.runs);
            Ok(())
        })?;
        if is_compressed && !content.is_empty() {
            return self.write_compressed(core, node, state, 0, &content);
        }
        Ok(())
    }
}
