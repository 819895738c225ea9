//! The content of files: loading chains, planning, extending, resizing, and writes that are not whole sectors.

use super::*;
use platter_vfs::range_of_write;

impl<F: Family> Volume<F> {
    /// A node's data path.
    pub(super) fn file(&self, node: Node) -> Result<Arc<File>> {
        match self.files.get(node.0) {
            Some(file) => Ok(file),
            None => match self.core().entity(node.0)?.kind {
                Kind::Directory => Err(Error::IsADirectory),
                _ => Err(Error::NotFound),
            },
        }
    }

    /// Refuses changes of content. What it finds stays so while the file's state is locked: a volume that is unmounted
    /// looks for plans in flight under that lock.
    #[inline]
    pub(super) fn may_write(&self, file: &File) -> Result<()> {
        self.health.writable()?;
        if file.read_only.load(Ordering::Relaxed) {
            return Err(Error::NotPermitted("it has the read-only attribute"));
        }
        Ok(())
    }

    /// The core and a file's state, both for a change, with the file's chain read.
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

    /// Calls `with` with the state of a file whose chain has been read, shared where that does.
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

    /// Allocates clusters up to `end`.
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

    /// Gives back what a write past the end allocated and does not need.
    pub(super) fn trim(&self, core: &mut Core<F>, state: &mut FileState) {
        let keep = state.linked.max(self.heap.clusters_for(state.planned()) as u32);
        if state.runs.clusters() > keep {
            let cut = state.runs.split_off(keep);
            core.give_up(&cut, keep);
        }
    }

    /// Fills a plan with the segments and holes of a range of what readers see.
    #[inline]
    pub(super) fn fill_read(&self, state: &FileState, range: Range<u64>, plan: &mut Plan) -> Result<()> {
        if range.end <= state.valid {
            return state.fill(&self.heap, range.start..self.sector_end(range.end), range.start, plan);
        }
        for (part, written) in state.parts(range.clone()) {
            if written {
                // Whole sectors: what is around it there is not the file's, or a part of its own.
                let sectors = part.start & !(u64::from(self.sector) - 1)..self.sector_end(part.end);
                state.fill(&self.heap, sectors, range.start, plan)?;
            } else {
                plan.holes.push((part.start - range.start) as u32..(part.end - range.start) as u32);
            }
        }
        Ok(())
    }

    /// Writes zeroes over a range of a file, from any byte to a sector's end. What shares the first sector stays.
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

    /// Writes zeroes from the end of a file to what is to be its end.
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

    /// Writes those of these sectors that hold zeroes from an offset of the file on. The others were written since, by this
    /// write itself or by one that came later and was seen already.
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
        // A power of two: what divides by a variable takes longer than all the rest of a plan.
        let mask = u64::from(self.sector) - 1;
        (offset + mask) & !mask
    }

    /// Notes that a file's content changed just now.
    pub(super) fn touch(&self, file: &File) {
        file.modified.store(self.device.now().as_nanos() as u64, Ordering::Release);
        file.touched.store(true, Ordering::Release);
    }

    /// Makes a file's clusters its own on disk as far as its size reaches, and tells its entry.
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

    /// Plans a write over what is there.
    #[inline]
    pub(super) fn plan_in_place(
        &self,
        file: &File,
        state: &FileState,
        offset: u64,
        length: usize,
        plan: &mut Plan,
    ) -> Result<()> {
        self.may_write(file)?;
        let pass = file.enter(offset..offset + length as u64, Access::Write)?;
        plan.notes[0] = IN_PLACE;
        plan.notes[PASS] = pass.into_bits();
        let is_durable = file.recorded_in.load(Ordering::SeqCst) <= self.committed.load(Ordering::SeqCst);
        state.fill(&self.heap, offset..offset + length as u64, offset, plan).inspect_err(|_| {
            file.leave(pass);
        })?;
        plan.sync = if is_durable { SyncNeed::None } else { SyncNeed::After };
        Ok(())
    }

    /// Commits before a file grows that was cut short and keeps clusters, as long as that is not durable: the table would
    /// lead from those it keeps to new ones before its entry has the smaller size, and after a power cut what others
    /// left in the new ones would be read as this file's.
    fn commit_cut(&self, file: &File) -> Result<()> {
        let cut = file.read().cut_in;
        if cut > self.committed.load(Ordering::SeqCst) { self.make_durable(Need::Commit) } else { Ok(()) }
    }

    /// First half of a write past the end.
    pub(super) fn plan_extension(
        &self,
        file: &File,
        offset: u64,
        length: usize,
        plan: &mut Plan,
    ) -> Result<()> {
        let end = self.check_size(offset.checked_add(length as u64))?;
        self.with_space(|| {
            self.commit_cut(file)?;
            let (mut core, mut state) = self.with_core(file)?;
            if end <= state.valid {
                return self.plan_in_place(file, &state, offset, length, plan);
            }
            self.may_write(file)?;
            // The gap in front of it too: its first sector may hold the last bytes of the file.
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
                file.leave(pass);
                let (mut core, mut state) = self.with_core(file)?;
                self.trim(&mut core, &mut state);
                return Err(error);
            }
            plan.notes[..2].copy_from_slice(&[PENDING, state.announce(offset, end)]);
            plan.notes[PASS] = pass.into_bits();
            plan.sync = SyncNeed::After;
            Ok(())
        })
    }

    /// Second half of a write past what is valid. `again` writes it once more where zeroes were written over
    /// it meanwhile, from an offset on.
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
            // Nothing can be recorded any more, so nobody is to see it. What others wrote stays to be seen while the volume
            // is open: in memory, as no entry will ever tell of it.
            state.withdraw(ticket);
            core.pin(file.number);
            return Err(error);
        }
        let mut outcome = Ok(());
        if written && let Some(from) = state.overtaken(ticket) {
            outcome = again(&state, from);
            written = outcome.is_ok();
        }
        // Others come after it, or write there too: what it failed to write is to read as zeroes until they have. If that
        // fails too, the file can neither grow over what the clusters held before nor lose what others wrote: nothing more
        // is changed.
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

    /// Sees to it that the next commit tells of all that was written to a file: of what is finished and waits for writes that
    /// were planned before. Those are not waited for: their caller may be this one.
    pub(super) fn settle(&self, file: &File) -> Result<()> {
        if file.read().waits_up_to().is_none() {
            return Ok(());
        }
        let (mut core, mut state) = match self.with_core(file) {
            Err(Error::NotFound) => return Ok(()),
            both => both?,
        };
        if core.entity(file.number).is_err() {
            // It was removed, and given up with the volume that is being unmounted.
            return Ok(());
        }
        self.health.promise()?;
        let (size, valid) = (state.size, state.valid);
        for gap in state.gaps(valid..state.waits_up_to().unwrap_or(valid)) {
            // A write that begins inside a sector wrote zeroes in front of it.
            self.zero(&state, gap.start..gap.end / u64::from(self.sector) * u64::from(self.sector))?;
        }
        state.overtake();
        let recorded = self.record(&mut core, file, &mut state);
        if recorded.is_err() {
            state.take_back(size, valid, 0);
        }
        recorded
    }

    /// Changes a file's size.
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
                    // Nobody else changes the file meanwhile: it is claimed.
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

    /// A write that begins or ends inside a sector. Its sectors are claimed: what others write to the rest of them
    /// meanwhile would be lost.
    pub(super) fn write_unaligned(&self, file: &File, offset: u64, data: &[u8]) -> Result<()> {
        let end = self.check_size(offset.checked_add(data.len() as u64))?;
        let range = |state: &FileState| range_of_write(state.planned(), offset, data.len(), self.sector);
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
                    // A write that was planned before failed, and the gap to fill is wider now.
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
                // The claim keeps everyone from moving these clusters; readers go on.
                let written = self.write_sectors(&file.read(), kept, offset, data);
                if let Some((ticket, _)) = ticket {
                    // Nothing in front of it is to become zeroes any more.
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

    /// Writes any bytes of a file, whose clusters are there and which holds something up to `kept`, zeroes in front of
    /// them, and keeps the rest of the first and the last sector.
    fn write_sectors(&self, state: &FileState, kept: u64, offset: u64, data: &[u8]) -> Result<()> {
        let sector = u64::from(self.sector);
        let end = offset + data.len() as u64;
        let mut at = offset / sector * sector;
        self.zero(state, kept..at)?;
        while at < end {
            if at < offset || at + sector > end {
                let mut bounce = Buffer::new(sector as usize);
                // Only what is before the end of the file is worth keeping.
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
                let whole = (end - at) / sector * sector;
                let from = (at - offset) as usize;
                self.transfer_out(state, at, &data[from..from + whole as usize])?;
                at += whole;
            }
        }
        Ok(())
    }

    /// Takes out of a plan what it keeps of its file from the last transfer, so that the file need not be looked up again. A
    /// plan that was for another file gets this one's. The caller puts it back into the plan.
    #[inline]
    pub(super) fn remember(&self, node: Node, plan: &mut Plan) -> Result<Box<Remembered>> {
        if let Some(state) = plan.state.take()
            && let Ok(known) = state.downcast::<Remembered>()
            && known.volume == self.id
            && known.file.number == node.0
        {
            return Ok(known);
        }
        Ok(Box::new(Remembered { volume: self.id, file: self.file(node)? }))
    }

    /// The file of a plan that comes to its second half.
    #[inline]
    pub(super) fn finishing_file<'p>(&self, plan: &'p Plan) -> Result<&'p Arc<File>> {
        plan.state
            .as_ref()
            .and_then(|state| state.downcast_ref::<Remembered>())
            .filter(|known| known.volume == self.id && known.file.number == plan.node)
            .map(|known| &known.file)
            .ok_or(Error::InvalidArgument("the plan is not one of this volume's"))
    }

    /// Lets a plan out.
    #[inline]
    pub(super) fn leave(&self, file: &File, plan: &Plan) {
        if file.leave(Pass::from_bits(plan.notes[PASS])) {
            self.let_go(file.number);
        }
    }
}
