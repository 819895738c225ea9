//! The content of files: loading chains, planned reads and writes, extending, resizing, and writes of parts of sectors.

use super::*;
use platter_vfs::{first_in_block, range_of_write};

impl<F: Family> Volume<F> {
    /// Returns the data path of a file.
    pub(super) fn file(&self, node: Node) -> Result<Arc<File>> {
        match self.files.get(node.0) {
            Some(file) => Ok(file),
            None => match self.core().entity(node.0)?.kind {
                Kind::Directory => Err(Error::IsADirectory),
                _ => Err(Error::NotFound),
            },
        }
    }

    /// Fails if the content of a file must not be changed. The answer stays valid while the file's state is locked:
    /// unmounting waits for plans in flight under that lock.
    #[inline]
    pub(super) fn may_write(&self, file: &File) -> Result<()> {
        self.health.writable()?;
        if file.read_only.load(Ordering::Relaxed) {
            return Err(Error::NotPermitted("it has the read-only attribute"));
        }
        Ok(())
    }

    /// Locks the core and a file's state exclusively, and reads the file's chain if it was not read before.
    pub(super) fn with_core<'v>(
        &'v self,
        file: &'v File,
    ) -> Result<(MutexGuard<'v, Core<F>, METADATA>, RwLockWriteGuard<'v, FileState, FILE>)> {
        let mut core = self.core();
        let mut state = file.write();
        if state.dead {
            return Err(Error::NotFound);
        }
        if !state.loaded {
            let entry = core.entity(file.number)?.entry.clone();
            let content = F::content(&mut core, &entry, false)?;
            state.linked = content.runs.clusters();
            (state.runs, state.size, state.valid) = (content.runs, content.size, content.valid);
            state.loaded = true;
        }
        Ok((core, state))
    }

    /// Calls `with` with the state of a file whose chain has been read, under a shared lock if it was read before.
    pub(super) fn shared<T>(&self, file: &File, mut with: impl FnMut(&FileState) -> Result<T>) -> Result<T> {
        {
            let state = file.read();
            if state.loaded && !state.dead {
                return with(&state);
            }
        }
        let (core, state) = self.with_core(file)?;
        drop(core);
        with(&state)
    }

    pub(super) fn check_size(&self, end: Option<u64>) -> Result<u64> {
        match end {
            Some(end) if end <= self.capabilities.largest_file => Ok(end),
            _ => Err(Error::FileTooLarge {
                format: self.format_name(),
                limit: self.capabilities.largest_file,
                wanted: end.unwrap_or(u64::MAX),
            }),
        }
    }

    pub(super) fn check_aligned(&self, offset: u64, length: usize) -> Result<()> {
        let sector = self.sector;
        let mask = u64::from(sector) - 1;
        if (offset | length as u64) & mask != 0 {
            return Err(Error::Misaligned { offset, length: length as u64, sector });
        }
        if u32::try_from(length).is_err() {
            return Err(Error::InvalidArgument("a plan covers less than 4 GiB"));
        }
        Ok(())
    }

    /// Allocates clusters so that the file has them up to `end`, in bytes.
    pub(super) fn reserve(
        &self,
        core: &mut Core<F>,
        file: &File,
        state: &mut FileState,
        end: u64,
    ) -> Result<()> {
        let need = u32::try_from(self.heap.clusters_for(end)).map_err(|_| Error::NoSpace)?;
        let have = state.runs.clusters();
        if need > have {
            let taken = core.allocate(file.number, &state.runs, need - have)?;
            state.extend(&taken);
        }
        Ok(())
    }

    /// Frees clusters that were allocated for a write past the end and are not needed.
    pub(super) fn trim(&self, core: &mut Core<F>, state: &mut FileState) {
        let keep = state.linked.max(self.heap.clusters_for(state.planned()) as u32);
        if state.runs.clusters() > keep {
            let cut = state.runs.split_off(keep);
            core.give_up(&cut, keep);
        }
    }

    /// Adds to a plan the segments and holes for a range of what readers see.
    #[inline]
    pub(super) fn fill_read(&self, state: &FileState, range: Range<u64>, plan: &mut Plan) -> Result<()> {
        if range.end <= state.valid {
            return state.fill(&self.heap, range.start..self.sector_end(range.end), range.start, plan);
        }
        for (part, written) in state.parts(range.clone()) {
            if written {
                // Whole sectors: the bytes around the part are not the file's, or they belong to another part of this
                // range.
                let sectors = part.start & !(u64::from(self.sector) - 1)..self.sector_end(part.end);
                state.fill(&self.heap, sectors, range.start, plan)?;
            } else {
                plan.holes.push((part.start - range.start) as u32..(part.end - range.start) as u32);
            }
        }
        Ok(())
    }

    /// Writes zeroes over a range of a file, from any byte to the end of a sector. The bytes before the range in the
    /// first sector are kept.
    pub(super) fn zero(&self, state: &FileState, range: Range<u64>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let sector = u64::from(self.sector);
        let mut start = range.start;
        let head = start % sector;
        if head != 0 {
            let mut bounce = Buffer::new(sector as usize);
            let at = start - head;
            self.transfer_in(state, at, &mut bounce)?;
            bounce[head as usize..].fill(0);
            self.transfer_out(state, at, &bounce)?;
            start = at + sector;
        }
        if start >= range.end {
            return Ok(());
        }
        let zeroes = Buffer::new(ZEROES.min((range.end - start) as usize));
        state.pieces(&self.heap, start..range.end, |mut place, mut length| {
            while length > 0 {
                let piece = length.min(zeroes.len() as u64);
                self.device.write_at(place, &zeroes[..piece as usize])?;
                (place, length) = (place + piece, length - piece);
            }
            Ok(())
        })
    }

    /// Writes zeroes from the end of a file to its future end at `size`.
    fn zero_behind(&self, file: &File, size: u64) -> Result<()> {
        let state = file.read();
        self.zero(&state, state.size..self.sector_end(size))
    }

    pub(super) fn transfer_in(&self, state: &FileState, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut at = 0;
        let length = buffer.len() as u64;
        state.pieces(&self.heap, offset..offset + length, |place, length| {
            self.device.read_at(place, &mut buffer[at..at + length as usize])?;
            at += length as usize;
            Ok(())
        })
    }

    pub(super) fn transfer_out(&self, state: &FileState, offset: u64, data: &[u8]) -> Result<()> {
        let mut at = 0;
        state.pieces(&self.heap, offset..offset + data.len() as u64, |place, length| {
            self.device.write_at(place, &data[at..at + length as usize])?;
            at += length as usize;
            Ok(())
        })
    }

    /// Writes those of the data's sectors that read as zeroes from offset `from` of the file on. The others were
    /// written since, by this write itself or by a later one that readers have already seen.
    pub(super) fn fill_zeroes(&self, state: &FileState, from: u64, offset: u64, data: &[u8]) -> Result<()> {
        let mut found = Buffer::new(data.len());
        self.transfer_in(state, offset, &mut found)?;
        let sector = self.sector as usize;
        let sectors = found.chunks(sector).zip(data.chunks(sector)).zip((offset..).step_by(sector));
        for ((found, data), at) in sectors {
            let kept = from.saturating_sub(at).min(found.len() as u64) as usize;
            if kept < found.len() && found[kept..].iter().all(|byte| *byte == 0) {
                self.transfer_out(state, at, data)?;
            }
        }
        Ok(())
    }

    /// Rounds up to the device's sector.
    pub(super) fn sector_end(&self, offset: u64) -> u64 {
        // The sector is a power of two: dividing by a variable would take longer than all other work on a plan.
        let mask = u64::from(self.sector) - 1;
        (offset + mask) & !mask
    }

    /// Notes the present time as that of the file's last change.
    pub(super) fn touch(&self, file: &File) {
        file.modified.store(self.device.now().as_nanos() as u64, Ordering::Release);
        file.touched.store(true, Ordering::Release);
    }

    /// Links a file's clusters as far as its size needs them, and updates its entry, both with the next commit.
    pub(super) fn record(&self, core: &mut Core<F>, file: &File, state: &mut FileState) -> Result<()> {
        let needed = state.needed(&self.heap);
        if needed > state.linked {
            let mut entry = core.entity(file.number)?.entry.clone();
            F::link(core, &mut entry, &state.runs, state.linked, needed)
                .map_err(|error| self.health.fail(error))?;
            core.entity_mut(file.number)?.entry = entry;
            state.linked = needed;
        }
        core.absorb(file.number);
        F::record(&mut core.entity_mut(file.number)?.entry, state);
        core.mark(file.number);
        file.recorded_in.store(core.change.id, Ordering::SeqCst);
        Ok(())
    }

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

    /// Commits before a truncated file that kept some clusters grows, if its truncation is not yet durable. Otherwise
    /// the table would link the kept clusters to new ones before the entry has the smaller size, and after a power cut
    /// old content of the new clusters would be read as this file's.
    fn commit_cut(&self, file: &File) -> Result<()> {
        let cut = file.read().cut_in;
        if cut > self.committed.load(Ordering::SeqCst) { self.make_durable(Need::Commit) } else { Ok(()) }
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

    /// Makes the next commit record everything that was written to a file, including finished writes that wait for
    /// writes planned before them. Those are not waited for, because their caller may be the present one.
    pub(super) fn settle(&self, file: &File) -> Result<()> {
        if file.read().waits_up_to().is_none() {
            return Ok(());
        }
        let (mut core, mut state) = match self.with_core(file) {
            Err(Error::NotFound) => return Ok(()),
            both => both?,
        };
        if core.entity(file.number).is_err() {
            // The file was removed and dropped from memory because the volume is being unmounted.
            return Ok(());
        }
        self.health.promise()?;
        let (size, valid) = (state.size, state.valid);
        for gap in state.gaps(valid..state.waits_up_to().unwrap_or(valid)) {
            // Noted before it is done, since it may fail half-way: writes in flight there write again in any case.
            state.zeroed(&gap);
            // Only up to the sector's start: a write that begins inside a sector wrote zeroes in front of its data.
            self.zero(&state, gap.start..gap.end / u64::from(self.sector) * u64::from(self.sector))?;
        }
        state.overtake();
        let recorded = self.record(&mut core, file, &mut state);
        if recorded.is_err() {
            state.take_back(size, valid, 0);
        }
        recorded
    }

    /// Sets a file's size.
    pub(super) fn resize(&self, file: &File, size: u64) -> Result<()> {
        self.with_space(|| {
            self.may_write(file)?;
            let _claim = file.claim(|state| state.valid.min(size)..u64::MAX, Access::Read);
            self.commit_cut(file)?;
            let (mut core, mut state) = self.with_core(file)?;
            core.writable()?;
            let before = (state.size, state.valid);
            if size > state.size {
                self.reserve(&mut core, file, &mut state, size)?;
                if !F::UNWRITTEN {
                    // The claim keeps others from changing the file while the locks are released.
                    drop((core, state));
                    let zeroed = self.zero_behind(file, size);
                    (core, state) = self.with_core(file)?;
                    if let Err(error) = zeroed {
                        self.trim(&mut core, &mut state);
                        return Err(error);
                    }
                    state.valid = size;
                }
                state.size = size;
            } else if size < state.size {
                let valid = state.valid.min(size);
                (state.size, state.valid) = (size, valid);
                let keep = state.needed(&self.heap);
                let cut = state.runs.split_off(keep);
                core.give_up(&cut, state.linked);
                if state.linked > keep {
                    if F::is_chain(&core.entity(file.number)?.entry) {
                        core.change.ends.extend(state.runs.last());
                    }
                    state.linked = keep;
                    state.cut_in = if keep > 0 { core.change.id } else { 0 };
                }
                core.pin(file.number);
            } else {
                return Ok(());
            }
            self.touch(file);
            let recorded = self.record(&mut core, file, &mut state);
            if recorded.is_err() {
                (state.size, state.valid) = before;
            }
            recorded
        })
    }

    /// Whether a write is the first to the block in which it ends: see [`first_in_block`].
    pub(super) fn is_new_block(&self, file: &File, offset: u64, length: usize) -> Result<bool> {
        let (end, block) = (offset + length as u64, u64::from(self.block));
        if end.is_multiple_of(block) {
            return Ok(false);
        }
        self.shared(file, |state| Ok(first_in_block(state.planned(), &(offset..end), block).is_some()))
    }

    /// Writes a range that begins or ends inside a sector, or is the first in the block in which it ends. Its blocks are
    /// claimed, because data that others write to their other bytes meanwhile would be lost.
    pub(super) fn write_claimed(&self, file: &File, offset: u64, data: &[u8]) -> Result<()> {
        let end = self.check_size(offset.checked_add(data.len() as u64))?;
        let range = |state: &FileState| range_of_write(state.planned(), offset, data.len(), self.block);
        self.with_space(|| {
            drop(self.with_core(file)?);
            let claimed = std::cell::Cell::new(0);
            let claim_range = |state: &FileState| {
                claimed.set(range(state).start);
                range(state)
            };
            loop {
                let _claim = file.claim(claim_range, Access::Write);
                self.commit_cut(file)?;
                let (mut core, mut state) = self.with_core(file)?;
                self.may_write(file)?;
                if range(&state).start < claimed.get() {
                    // A write that was planned before this one failed, so the gap to be zeroed begins earlier than the
                    // claim.
                    continue;
                }
                let ticket = match end > state.valid {
                    true => {
                        self.reserve(&mut core, file, &mut state, end)?;
                        let from = state.planned();
                        Some((state.announce(offset, end), from))
                    }
                    false => None,
                };
                let kept = ticket.map_or(state.planned(), |(_, from)| from);
                drop((core, state));
                // The claim keeps others from moving these clusters; reads go on.
                let written = self.write_sectors(&file.read(), kept, offset, data);
                if let Some((ticket, _)) = ticket {
                    // `kept` is the end here, so the gap in front is not zeroed again.
                    let again = |state: &FileState, _| self.write_sectors(state, end.max(kept), offset, data);
                    let recorded = self.finish_extension(file, offset..end, ticket, written.is_ok(), again);
                    return written.and(recorded);
                }
                if written.is_ok() {
                    self.touch(file);
                }
                return written;
            }
        })
    }

    /// Writes any byte range of a file with blocking calls. The clusters are allocated, and the file has content up to
    /// `kept`; the gap from there is zeroed, and the other bytes of the first and last sector are kept. A block to which
    /// nothing was written is written whole: see [`first_in_block`].
    fn write_sectors(&self, state: &FileState, kept: u64, offset: u64, data: &[u8]) -> Result<()> {
        let sector = u64::from(self.sector);
        let block = u64::from(self.block);
        let end = offset + data.len() as u64;
        let last = first_in_block(kept, &(offset..end), block).unwrap_or(end);
        let mut at = offset / sector * sector;
        self.zero(state, kept..at)?;
        while at < end {
            if at >= last {
                let mut bounce = Buffer::new((last + block - at) as usize);
                let from = offset.max(at);
                bounce[(from - at) as usize..(end - at) as usize]
                    .copy_from_slice(&data[(from - offset) as usize..]);
                return self.transfer_out(state, at, &bounce);
            }
            if at < offset || at + sector > end {
                let mut bounce = Buffer::new(sector as usize);
                // Only bytes before the end of the file are kept.
                let kept = kept.saturating_sub(at).min(sector) as usize;
                if kept > 0 {
                    self.transfer_in(state, at, &mut bounce)?;
                    bounce[kept..].fill(0);
                }
                let (from, to) = (offset.max(at), end.min(at + sector));
                bounce[(from - at) as usize..(to - at) as usize]
                    .copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]);
                self.transfer_out(state, at, &bounce)?;
                at += sector;
            } else {
                let whole = (last - at) / sector * sector;
                let from = (at - offset) as usize;
                self.transfer_out(state, at, &data[from..from + whole as usize])?;
                at += whole;
            }
        }
        Ok(())
    }

    /// Takes from a plan the file that it remembers from its last request, so that the file need not be looked up
    /// again; looks up the file if the plan was for another one. The caller puts the result back into the plan.
    #[inline]
    pub(super) fn remember(&self, node: Node, plan: &mut Plan) -> Result<Box<Remembered>> {
        match plan.kept(|known: &Remembered| known.volume == self.id && known.file.number == node.0) {
            Some(known) => Ok(known),
            None => Ok(Box::new(Remembered { volume: self.id, file: self.file(node)?, planned: None })),
        }
    }

    /// Takes what a plan that is being finished was made for. The caller puts the memory back into the plan.
    #[inline]
    pub(super) fn finishing(&self, plan: &mut Plan) -> Result<(Box<Remembered>, Planned, Pass)> {
        let node = plan.node;
        let mut known =
            plan.own(|known: &Remembered| known.volume == self.id && known.file.number == node)?;
        let (planned, pass) = known.planned.take().ok_or(Plan::FINISHED)?;
        Ok((known, planned, pass))
    }

    /// Counts a plan as finished, and drops the file from memory if it was the last use.
    #[inline]
    pub(super) fn leave(&self, file: &File, pass: Pass) {
        if file.leave(pass) {
            self.let_go(file.number);
        }
    }
}
