//! The content of files: loading chains, planning, extending, resizing, and writes that are not whole sectors.

use super::*;

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

    /// Refuses changes of content.
    pub(super) fn may_write(&self, file: &File) -> Result<()> {
        if self.frozen.load(Ordering::SeqCst) {
            self.core().writable()?;
        }
        if file.read_only.load(Ordering::Relaxed) {
            return Err(Error::NotPermitted("it has the read-only attribute"));
        }
        Ok(())
    }

    /// Reads a file's chain if that was not done.
    pub(super) fn load(&self, file: &File, state: &mut FileState) -> Result<()> {
        if state.dead {
            return Err(Error::NotFound);
        }
        if state.loaded {
            return Ok(());
        }
        let mut core = self.core();
        let entry = core.entity(file.number)?.entry.clone();
        let content = F::content(&mut core, &entry, false)?;
        state.linked = content.runs.clusters();
        (state.runs, state.size, state.valid) = (content.runs, content.size, content.valid);
        (state.planned, state.loaded) = (content.valid, true);
        Ok(())
    }

    /// A file's state for a change, with its chain read.
    pub(super) fn loaded<'f>(&self, file: &'f File) -> Result<RwLockWriteGuard<'f, FileState>> {
        let mut state = file.write();
        self.load(file, &mut state)?;
        Ok(state)
    }

    /// Calls `with` with the state of a file whose chain has been read, shared where that does.
    pub(super) fn shared<T>(&self, file: &File, mut with: impl FnMut(&FileState) -> Result<T>) -> Result<T> {
        {
            let state = file.read();
            if state.loaded && !state.dead {
                return with(&state);
            }
        }
        let state = self.loaded(file)?;
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
    pub(super) fn reserve(&self, file: &File, state: &mut FileState, end: u64) -> Result<()> {
        let need = u32::try_from(self.heap.clusters_for(end)).map_err(|_| Error::NoSpace)?;
        let have = state.runs.clusters();
        if need > have {
            let taken = self.core().allocate(file.number, &state.runs, need - have)?;
            state.extend(&taken);
        }
        Ok(())
    }

    /// Gives back what a write past the end allocated and does not need.
    pub(super) fn trim(&self, state: &mut FileState) {
        let keep = state.linked.max(self.heap.clusters_for(state.planned) as u32);
        if state.runs.clusters() > keep {
            let cut = state.runs.split_off(keep);
            self.core().give_up(&cut, keep);
        }
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
    pub(super) fn record(&self, file: &File, state: &mut FileState) -> Result<()> {
        let mut core = self.core();
        core.writable()?;
        let needed = state.needed(&self.heap);
        if needed > state.linked {
            let mut entry = core.entity(file.number)?.entry.clone();
            if let Err(error) = F::link(&mut core, &mut entry, &state.runs, state.linked, needed) {
                return Err(self.freeze(&mut core, error));
            }
            core.entity_mut(file.number)?.entry = entry;
            state.linked = needed;
        }
        core.absorb(file.number);
        F::record(&mut core.entity_mut(file.number)?.entry, state);
        core.mark(file.number);
        Ok(())
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
            let mut state = self.loaded(file)?;
            if end <= state.valid {
                state.fill(&self.heap, offset, length as u64, plan)?;
                plan.notes[0] = IN_PLACE;
                file.begin();
                return Ok(());
            }
            self.reserve(file, &mut state, end)?;
            let gap = state.planned..offset;
            let ready =
                self.zero(&state, gap).and_then(|()| state.fill(&self.heap, offset, length as u64, plan));
            if let Err(error) = ready {
                self.trim(&mut state);
                return Err(error);
            }
            plan.notes[..2].copy_from_slice(&[PENDING, state.announce(offset, end)]);
            file.begin();
            Ok(())
        })
    }

    /// Second half of a write past the end.
    pub(super) fn finish_extension(&self, file: &File, plan: &Plan, written: bool) -> Result<()> {
        let mut state = file.write();
        let (start, end, ticket) = (plan.offset, plan.offset + plan.length as u64, plan.notes[1]);
        let valid = state.valid;
        // Others come after it: what it failed to write is to read as zeroes. If that fails too, the file can neither
        // grow over what the clusters held before nor lose what others wrote: nothing more is changed.
        if !written
            && state.is_followed(start, ticket)
            && let Err(error) = self.zero(&state, start.max(valid)..end.max(valid))
        {
            return Err(self.freeze(&mut self.core(), error));
        }
        state.conclude(ticket, written);
        if written {
            self.touch(file);
        }
        let recorded = if state.valid != valid { self.record(file, &mut state) } else { Ok(()) };
        if state.pending.is_empty() {
            self.trim(&mut state);
        }
        recorded
    }

    /// Changes a file's size.
    pub(super) fn resize(&self, file: &File, size: u64) -> Result<()> {
        self.with_space(|| {
            self.may_write(file)?;
            let mut state = file.settled();
            self.load(file, &mut state)?;
            if size > state.size {
                self.reserve(file, &mut state, size)?;
                if !F::UNWRITTEN {
                    if let Err(error) = self.zero(&state, state.size..self.sector_end(size)) {
                        self.trim(&mut state);
                        return Err(error);
                    }
                    (state.valid, state.planned) = (size, size);
                }
                state.size = size;
                self.touch(file);
                self.record(file, &mut state)
            } else if size < state.size {
                let valid = state.valid.min(size);
                (state.size, state.valid, state.planned) = (size, valid, valid);
                let keep = state.needed(&self.heap);
                let cut = state.runs.split_off(keep);
                {
                    let mut core = self.core();
                    core.writable()?;
                    core.give_up(&cut, state.linked);
                    if state.linked > keep {
                        if F::is_chain(&core.entity(file.number)?.entry) {
                            core.change.ends.extend(state.runs.last());
                        }
                        state.linked = keep;
                    }
                    core.pin(file.number);
                }
                self.touch(file);
                self.record(file, &mut state)
            } else {
                Ok(())
            }
        })
    }

    /// A write that begins or ends inside a sector.
    pub(super) fn write_unaligned(&self, file: &File, offset: u64, data: &[u8]) -> Result<()> {
        let end = self.check_size(offset.checked_add(data.len() as u64))?;
        self.with_space(|| {
            self.may_write(file)?;
            let mut state = self.loaded(file)?;
            if end > state.planned {
                self.reserve(file, &mut state, end)?;
            }
            if let Err(error) = self.write_sectors(&state, offset, data) {
                self.trim(&mut state);
                return Err(error);
            }
            self.touch(file);
            let valid = state.valid;
            if end > valid {
                let ticket = state.announce(offset, end);
                state.conclude(ticket, true);
            }
            if state.valid != valid { self.record(file, &mut state) } else { Ok(()) }
        })
    }

    /// Writes any bytes of a file, whose clusters are there, and keeps the rest of the first and the last sector.
    pub(super) fn write_sectors(&self, state: &FileState, offset: u64, data: &[u8]) -> Result<()> {
        let sector = u64::from(self.sector);
        let end = offset + data.len() as u64;
        let mut at = offset / sector * sector;
        self.zero(state, state.planned..at)?;
        while at < end {
            if at < offset || at + sector > end {
                let mut bounce = Buffer::new(sector as usize);
                // Only what is before the end of the file is worth keeping.
                let kept = state.planned.saturating_sub(at).min(sector) as usize;
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

    /// What the plan remembers of its file, looked up if it was for another one. To be put back into the plan.
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

    /// Counts a plan out.
    pub(super) fn end(&self, file: &File) {
        if file.end() {
            self.let_go(file.number);
        }
    }
}
