//! An open FAT volume.
//!
//! # What a power cut leaves
//! Changes of names, sizes and chains collect in memory. A commit writes them in phases, with a flush between each
//! two that have something to write:
//!
//! 0. data, and the zeroes of clusters that directories grew by, which were written when they arose;
//! 1. table entries of clusters that came into use, in all copies of the table; then, where directories grew, the
//!    links to their new clusters;
//! 2. directory entries that are new or changed, with their sizes and first clusters; the boot sector's label;
//! 3. slots of removed entries, erased;
//! 4. table entries of clusters that went out of use, and the count of free clusters.
//!
//! Before the first of them the volume is marked as in use. So at every moment each name on disk leads to a chain
//! that is whole and holds what was written before; a cut between phases leaves clusters that nothing leads to, a
//! chain longer than its file, or, in the middle of a rename, both names: all of that `check` puts right. Clusters
//! and slots that were given up are not used again before the commit that gave them up is through (slots: begun), so
//! that what the disk still refers to is not overwritten. An entry that replaces one of exactly the same name takes
//! over its slots: one sector changes, and the name is there throughout.
//!
//! Times that writes over existing content leave are kept in memory until someone syncs all of the file or the volume.
//!
//! # Locks
//! In this order: the turn to commit, a file's state, the core. The commit holds the core while it gathers what to
//! write, not while it writes; a planned read or overwrite takes its file's state, shared, and nothing else.

use crate::chain::{Images, Run, Table};
use crate::core::{Batch, Core, Entity, ROOT};
use crate::directory::Storage;
use crate::file::{File, FileState, Files, IN_PLACE, PENDING, Remembered};
use crate::layout::{
    BootSector, DosTime, Geometry, InfoSector, LARGEST_FILE, Label, Moment, ShortEntry, ShortName,
};
use crate::space::FreeSpace;
use platter_device::{Buffer, Device};
use platter_vfs::{
    Attributes, Capabilities, Change, Cursor, DosFlags, Entry, Error, Extent, FileSystem, Kind, Name,
    NameRules, Node, OpenOptions, Place, Plan, RenameFlags, Result, Space, SyncScope, Timestamp, VolumeInfo,
};
use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLockWriteGuard};
use std::time::Duration;

/// The most bytes of the table that are kept in memory unless [`FatVolume::open_with_cache`] says otherwise: all of
/// it on volumes of up to 4 million clusters.
const TABLE_CACHE: usize = 16 << 20;
/// When so many bytes of changes wait, the next operation commits them.
const BACKLOG: usize = 48 << 20;
/// The unit in which zeroes are written.
const ZEROES: usize = 1 << 20;

/// An open FAT volume. See the module for what it promises.
pub struct FatVolume {
    /// Tells this volume's plans from others'.
    id: u64,
    device: Arc<dyn Device>,
    geometry: Arc<Geometry>,
    capabilities: Capabilities,
    offset_minutes: i32,
    core: Mutex<Core>,
    files: Arc<Files>,
    /// Held by whoever commits.
    turn: Mutex<()>,
    /// The last change that is durable.
    committed: AtomicU64,
    /// Whether changes are refused: the core says why.
    frozen: AtomicBool,
}

impl FatVolume {
    /// Opens a volume.
    ///
    /// # Errors
    /// [`Error::NotThisFormat`] and [`Error::Damaged`] if the boot sector makes no sense, and what the device answers.
    pub fn open(device: Arc<dyn Device>, options: OpenOptions) -> Result<FatVolume> {
        FatVolume::open_with_cache(device, options, TABLE_CACHE)
    }

    /// Opens a volume, and keeps about `cache` bytes of its file allocation table in memory.
    ///
    /// # Errors
    /// As [`FatVolume::open`].
    pub fn open_with_cache(device: Arc<dyn Device>, options: OpenOptions, cache: usize) -> Result<FatVolume> {
        let logical = device.sectors().logical as usize;
        if device.len() < logical.max(BootSector::SIZE) as u64 {
            return Err(not_fat("the device is smaller than a boot sector"));
        }
        let mut sector = vec![0; BootSector::SIZE.max(logical)];
        device.read_at(0, &mut sector)?;
        let boot =
            BootSector::from_bytes(sector[..BootSector::SIZE].try_into().expect("a boot sector's length"));
        let geometry = Arc::new(boot.geometry(device.len())?);
        let bytes_per_sector = geometry.bytes_per_sector as usize;
        if bytes_per_sector < logical {
            return Err(not_fat("its sectors are smaller than the device's"));
        }
        let mut first = vec![0; bytes_per_sector];
        device.read_at(0, &mut first)?;

        let mut table = Table::new(device.clone(), geometry.clone(), cache);
        let mut space = FreeSpace::new(geometry.last_cluster(), geometry.cluster_size);
        let mut run = (0, 0);
        table.scan(|cluster, value| {
            if value != 0 {
                return;
            }
            if run.0 + run.1 == cluster {
                run.1 += 1;
            } else {
                space.give(run.0, run.1);
                run = (cluster, 1);
            }
        })?;
        space.give(run.0, run.1);

        let info = match geometry.info_sector {
            Some(sector) => {
                let offset = geometry.sector_offset(sector);
                let mut bytes = vec![0; bytes_per_sector];
                device.read_at(offset, &mut bytes)?;
                let head = bytes[..InfoSector::SIZE].try_into().expect("an information sector's length");
                let info = InfoSector::from_bytes(head);
                space.start_at(info.next);
                info.is_valid().then_some((offset, bytes))
            }
            None => None,
        };
        let table_dirty = match crate::layout::clean_bits(geometry.kind) {
            Some((clean, _)) => table.get(1)? & clean == 0,
            None => false,
        };
        let was_dirty = boot.state.dirty() || table_dirty;
        let mut core = Core::new(
            device.clone(),
            geometry.clone(),
            table,
            space,
            first,
            boot.state_offset(),
            was_dirty,
            info,
        );
        if options.read_only {
            core.frozen = Some("it was opened so".into());
        } else if device.read_only() {
            core.frozen = Some("the device is".into());
        }
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Ok(FatVolume {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            capabilities: capabilities(),
            offset_minutes: options.local_offset_minutes,
            frozen: AtomicBool::new(core.frozen.is_some()),
            files: core.files.clone(),
            core: Mutex::new(core),
            turn: Mutex::new(()),
            committed: AtomicU64::new(0),
            device,
            geometry,
        })
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self, moment: Moment) -> DosTime {
        DosTime::from_timestamp(self.device.now().into(), self.offset_minutes, moment)
    }

    /// Runs something that may need space, and if there is none although some waits for a commit, commits and runs
    /// it again. Afterwards commits if too much waits.
    fn with_space<T>(&self, mut run: impl FnMut() -> Result<T>) -> Result<T> {
        let mut result = run();
        if matches!(result, Err(Error::NoSpace)) {
            let (id, hope) = {
                let core = self.core();
                (core.change.id, core.waiting > 0 || core.change.erases)
            };
            if hope {
                self.commit_through(id)?;
                result = run();
            }
        }
        if result.is_ok() {
            let (id, backlog) = {
                let core = self.core();
                (core.change.id, core.backlog())
            };
            if backlog > BACKLOG {
                self.commit_through(id)?;
            }
        }
        result
    }

    // Commit

    /// Returns when the change of this number is durable.
    fn commit_through(&self, id: u64) -> Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.committed.load(Ordering::SeqCst) >= id {
            // Someone who waited before committed for us too.
            return Ok(());
        }
        self.commit()
    }

    /// Commits. The caller has the turn.
    fn commit(&self) -> Result<()> {
        let batch = {
            let mut core = self.core();
            core.in_order()?;
            match core.gather() {
                Ok(batch) => batch,
                Err(error) => return Err(self.freeze(&mut core, error)),
            }
        };
        if let Err(error) = self.carry_out(&batch) {
            return Err(self.freeze(&mut self.core(), error));
        }
        self.core().release(&batch);
        self.committed.store(batch.id, Ordering::SeqCst);
        for number in &batch.pinned {
            self.let_go(*number);
        }
        Ok(())
    }

    /// After a failure of which it is unknown what reached the disk, nothing more is written: what is there can be
    /// checked.
    fn freeze(&self, core: &mut Core, error: Error) -> Error {
        core.failed = true;
        core.frozen = Some(format!("a write failed that all else depends on: {error}"));
        self.frozen.store(true, Ordering::SeqCst);
        error
    }

    fn carry_out(&self, batch: &Batch) -> Result<()> {
        if !batch.mark.is_empty() {
            self.put(&batch.mark)?;
            self.device.flush()?;
        }
        self.put(&batch.linked)?;
        // Whether anything that was written must be durable before what comes next.
        let mut open = batch.depends || !batch.linked.is_empty();
        for images in [&batch.grown, &batch.named, &batch.erased, &batch.freed] {
            if !images.is_empty() {
                if open {
                    self.device.flush()?;
                }
                self.put(images)?;
                open = true;
            }
        }
        self.device.flush()?;
        Ok(())
    }

    fn put(&self, images: &Images) -> Result<()> {
        if images.is_empty() {
            return Ok(());
        }
        let writes: Vec<(u64, &[u8])> = images.iter().map(|(offset, data)| (*offset, &data[..])).collect();
        Ok(self.device.write_batch(&writes)?)
    }

    /// Lets an entity go if nothing needs it in memory; one without a name gives its clusters back.
    fn let_go(&self, number: u64) {
        let mut next = Some(number);
        while let Some(number) = next.take() {
            let mut core = self.core();
            let Some(entity) = core.nodes.get(&number) else { return };
            // One that has lost its name has nothing to commit: its clusters are given up right away.
            let pinned = entity.pins > 0 && entity.linked;
            if number == ROOT || entity.handed > 0 || entity.children > 0 || pinned {
                return;
            }
            if let Some(file) = &entity.file {
                // The last plan to finish comes here again.
                file.released.store(true, Ordering::SeqCst);
                if file.busy() {
                    return;
                }
            }
            core.absorb(number, self.offset_minutes);
            let Some(entity) = core.nodes.get(&number) else { return };
            if entity.linked && entity.lazy && core.frozen.is_none() {
                core.mark_times(number);
                return;
            }
            if entity.linked && entity.kind == Kind::Directory {
                match core.rest(number) {
                    Some(oldest) if oldest != number => {
                        // It may have come into use again meanwhile.
                        let unused = core.nodes.get(&oldest).is_some_and(|entity| {
                            entity.handed == 0 && entity.children == 0 && entity.pins == 0 && entity.linked
                        });
                        if unused && let Some(entity) = core.drop_entity(oldest) {
                            core.directories.remove(&oldest);
                            next = Some(entity.parent);
                        }
                    }
                    _ => {}
                }
                continue;
            }
            let Some(entity) = core.drop_entity(number) else { return };
            next = Some(entity.parent);
            drop(core);
            if entity.linked {
                continue;
            }
            self.reap(number, &entity);
        }
    }

    /// Frees the clusters of an entity that has neither a name nor a holder. A chain that cannot be read stays: it
    /// is found as lost by a check.
    fn reap(&self, number: u64, entity: &Entity) {
        let first = entity.entry.cluster;
        let Some(file) = &entity.file else {
            let mut core = self.core();
            let storage = core.directories.remove(&number).map(|directory| directory.storage);
            let runs = match storage {
                Some(Storage::Chain(runs)) => Ok(runs),
                _ => core.table.walk(first, Some(0), self.geometry.clusters),
            };
            if let Ok(mut runs) = runs {
                let linked = runs.clusters();
                core.give_up(&runs.split_off(0), linked);
            }
            return;
        };
        let mut state = file.write();
        let mut core = self.core();
        state.dead = true;
        if !state.loaded
            && first != 0
            && let Ok(runs) = core.table.walk(first, Some(0), self.geometry.clusters)
        {
            state.linked = runs.clusters();
            state.runs = runs;
        }
        let linked = state.linked;
        core.give_up(&state.runs.split_off(0), linked);
    }

    // Files

    /// A node's data path.
    fn file(&self, node: Node) -> Result<Arc<File>> {
        match self.files.get(node.0) {
            Some(file) => Ok(file),
            None => match self.core().entity(node.0)?.kind {
                Kind::Directory => Err(Error::IsADirectory),
                _ => Err(Error::NotFound),
            },
        }
    }

    /// Refuses changes of content.
    fn may_write(&self, file: &File) -> Result<()> {
        if self.frozen.load(Ordering::SeqCst) {
            self.core().writable()?;
        }
        if file.read_only.load(Ordering::Relaxed) {
            return Err(Error::NotPermitted("it has the read-only attribute"));
        }
        Ok(())
    }

    /// Reads a file's chain if that was not done.
    fn load(&self, file: &File, state: &mut FileState) -> Result<()> {
        if state.dead {
            return Err(Error::NotFound);
        }
        if state.loaded {
            return Ok(());
        }
        let mut core = self.core();
        let entry = &core.entity(file.number)?.entry;
        let (first, size) = (entry.cluster, u64::from(entry.size));
        let needed = self.geometry.clusters_for(size) as u32;
        let runs = match first {
            0 if needed > 0 => {
                let expected = format!("{needed} clusters for {size} bytes");
                return Err(Error::damaged("cluster chain", 0, expected, "none"));
            }
            0 => Default::default(),
            _ => core.table.walk(first, Some(needed), self.geometry.clusters)?,
        };
        state.linked = runs.clusters();
        (state.runs, state.size, state.planned, state.loaded) = (runs, size, size, true);
        Ok(())
    }

    /// A file's state for a change, with its chain read.
    fn loaded<'f>(&self, file: &'f File) -> Result<RwLockWriteGuard<'f, FileState>> {
        let mut state = file.write();
        self.load(file, &mut state)?;
        Ok(state)
    }

    /// Calls `with` with the state of a file whose chain has been read, shared where that does.
    fn shared<T>(&self, file: &File, mut with: impl FnMut(&FileState) -> Result<T>) -> Result<T> {
        {
            let state = file.read();
            if state.loaded && !state.dead {
                return with(&state);
            }
        }
        let state = self.loaded(file)?;
        with(&state)
    }

    fn check_size(&self, end: Option<u64>) -> Result<u64> {
        match end {
            Some(end) if end <= LARGEST_FILE => Ok(end),
            _ => Err(Error::FileTooLarge {
                format: self.format_name(),
                limit: LARGEST_FILE,
                wanted: end.unwrap_or(u64::MAX),
            }),
        }
    }

    fn check_aligned(&self, offset: u64, length: usize) -> Result<()> {
        let sector = self.device.sectors().logical;
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
    fn reserve(&self, file: &File, state: &mut FileState, end: u64) -> Result<()> {
        let need = self.geometry.clusters_for(end) as u32;
        let have = state.runs.clusters();
        if need > have {
            let taken = self.core().allocate(file.number, &state.runs, need - have)?;
            state.extend(&taken);
        }
        Ok(())
    }

    /// Gives back what a write past the end allocated and does not need.
    fn trim(&self, state: &mut FileState) {
        let keep = state.linked.max(self.geometry.clusters_for(state.planned) as u32);
        if state.runs.clusters() > keep {
            let cut = state.runs.split_off(keep);
            self.core().give_up(&cut, keep);
        }
    }

    /// Writes zeroes over a range of a file, from any byte to a sector's end. What shares the first sector stays.
    fn zero(&self, state: &FileState, range: Range<u64>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let sector = u64::from(self.device.sectors().logical);
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
        state.pieces(&self.geometry, start..range.end, |mut place, mut length| {
            while length > 0 {
                let piece = length.min(zeroes.len() as u64);
                self.device.write_at(place, &zeroes[..piece as usize])?;
                (place, length) = (place + piece, length - piece);
            }
            Ok(())
        })
    }

    fn transfer_in(&self, state: &FileState, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut at = 0;
        let length = buffer.len() as u64;
        state.pieces(&self.geometry, offset..offset + length, |place, length| {
            self.device.read_at(place, &mut buffer[at..at + length as usize])?;
            at += length as usize;
            Ok(())
        })
    }

    fn transfer_out(&self, state: &FileState, offset: u64, data: &[u8]) -> Result<()> {
        let mut at = 0;
        state.pieces(&self.geometry, offset..offset + data.len() as u64, |place, length| {
            self.device.write_at(place, &data[at..at + length as usize])?;
            at += length as usize;
            Ok(())
        })
    }

    /// Rounds up to the device's sector.
    fn sector_end(&self, offset: u64) -> u64 {
        offset.next_multiple_of(u64::from(self.device.sectors().logical))
    }

    /// Notes that a file's content changed just now.
    fn touch(&self, file: &File) {
        file.modified.store(self.device.now().as_nanos() as u64, Ordering::Release);
        file.touched.store(true, Ordering::Release);
    }

    /// Brings the table and the entry up to a file's new size.
    fn record(&self, file: &File, state: &mut FileState) -> Result<()> {
        let mut core = self.core();
        core.writable()?;
        let needed = state.needed(&self.geometry);
        if needed > state.linked {
            if let Err(error) = core.link(&state.runs, state.linked, needed) {
                return Err(self.freeze(&mut core, error));
            }
            state.linked = needed;
        }
        core.absorb(file.number, self.offset_minutes);
        let entity = core.entity_mut(file.number)?;
        entity.entry.size = state.size as u32;
        entity.entry.cluster = if state.linked > 0 { state.runs.first() } else { 0 };
        core.mark(file.number);
        Ok(())
    }

    /// First half of a write past the end.
    fn plan_extension(&self, file: &File, offset: u64, length: usize, plan: &mut Plan) -> Result<()> {
        let end = self.check_size(offset.checked_add(length as u64))?;
        self.with_space(|| {
            let mut state = self.loaded(file)?;
            if end <= state.size {
                state.fill(&self.geometry, offset, length as u64, plan)?;
                plan.notes[0] = IN_PLACE;
                file.begin();
                return Ok(());
            }
            self.reserve(file, &mut state, end)?;
            let gap = state.planned..offset;
            let ready =
                self.zero(&state, gap).and_then(|()| state.fill(&self.geometry, offset, length as u64, plan));
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
    fn finish_extension(&self, file: &File, plan: &Plan, written: bool) -> Result<()> {
        let mut state = file.write();
        let (start, end, ticket) = (plan.offset, plan.offset + plan.length as u64, plan.notes[1]);
        let size = state.size;
        // Others come after it: what it failed to write is to read as zeroes. If that fails too, the file can neither
        // grow over what the clusters held before nor lose what others wrote: nothing more is changed.
        if !written
            && state.is_followed(start, ticket)
            && let Err(error) = self.zero(&state, start.max(size)..end.max(size))
        {
            return Err(self.freeze(&mut self.core(), error));
        }
        state.conclude(ticket, written);
        if written {
            self.touch(file);
        }
        let recorded = if state.size != size { self.record(file, &mut state) } else { Ok(()) };
        if state.pending.is_empty() {
            self.trim(&mut state);
        }
        recorded
    }

    /// Changes a file's size.
    fn resize(&self, file: &File, size: u64) -> Result<()> {
        self.with_space(|| {
            self.may_write(file)?;
            let mut state = file.settled();
            self.load(file, &mut state)?;
            if size > state.size {
                self.reserve(file, &mut state, size)?;
                if let Err(error) = self.zero(&state, state.size..self.sector_end(size)) {
                    self.trim(&mut state);
                    return Err(error);
                }
                (state.size, state.planned) = (size, size);
                self.touch(file);
                self.record(file, &mut state)
            } else if size < state.size {
                (state.size, state.planned) = (size, size);
                let keep = state.needed(&self.geometry);
                let cut = state.runs.split_off(keep);
                {
                    let mut core = self.core();
                    core.writable()?;
                    core.give_up(&cut, state.linked);
                    if state.linked > keep {
                        core.change.ends.extend(state.runs.last());
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
    fn write_unaligned(&self, file: &File, offset: u64, data: &[u8]) -> Result<()> {
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
            let size = state.size;
            if end > size {
                let ticket = state.announce(offset, end);
                state.conclude(ticket, true);
            }
            if state.size != size { self.record(file, &mut state) } else { Ok(()) }
        })
    }

    /// Writes any bytes of a file, whose clusters are there, and keeps the rest of the first and the last sector.
    fn write_sectors(&self, state: &FileState, offset: u64, data: &[u8]) -> Result<()> {
        let sector = u64::from(self.device.sectors().logical);
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
    fn remember(&self, node: Node, plan: &mut Plan) -> Result<Box<dyn Any + Send>> {
        match plan.state.take() {
            Some(state) if self.remembered(&state).is_some_and(|file| file.number == node.0) => Ok(state),
            _ => Ok(Box::new(Remembered { volume: self.id, file: self.file(node)? })),
        }
    }

    fn remembered<'p>(&self, state: &'p Box<dyn Any + Send>) -> Option<&'p Arc<File>> {
        let known = state.downcast_ref::<Remembered>()?;
        (known.volume == self.id).then_some(&known.file)
    }

    /// The file of a plan that comes to its second half.
    fn finishing_file<'p>(&self, plan: &'p Plan) -> Result<&'p Arc<File>> {
        plan.state
            .as_ref()
            .and_then(|state| self.remembered(state))
            .filter(|file| file.number == plan.node)
            .ok_or(Error::InvalidArgument("the plan is not one of this volume's"))
    }

    /// Counts a plan out.
    fn end(&self, file: &File) {
        if file.end() {
            self.let_go(file.number);
        }
    }

    // Names

    fn attributes_of(&self, kind: Kind, entry: &ShortEntry, linked: bool, allocated: u64) -> Attributes {
        let time = |time: DosTime| time.is_set().then(|| time.to_timestamp(self.offset_minutes));
        Attributes {
            kind,
            size: if kind == Kind::Directory { 0 } else { u64::from(entry.size) },
            allocated,
            links: u32::from(linked),
            flags: DosFlags(u32::from(entry.attributes.0) & DosFlags::SETTABLE.0),
            created: time(entry.created),
            modified: entry.modified.to_timestamp(self.offset_minutes),
            accessed: time(entry.accessed),
            changed: None,
        }
    }

    fn allocated(&self, core: &mut Core, number: Option<u64>, entry: &ShortEntry) -> u64 {
        let cluster = u64::from(self.geometry.cluster_size);
        if !entry.attributes.directory() {
            return self.geometry.clusters_for(u64::from(entry.size)) * cluster;
        }
        if let Some(directory) = number.and_then(|number| core.directories.get(&number)) {
            return match &directory.storage {
                Storage::Fixed => 0,
                Storage::Chain(runs) => u64::from(runs.clusters()) * cluster,
            };
        }
        let most = crate::directory::most_clusters(&self.geometry);
        core.table.walk(entry.cluster, None, most).map_or(0, |runs| u64::from(runs.clusters()) * cluster)
    }

    fn entity_attributes(&self, core: &mut Core, number: u64) -> Result<Attributes> {
        core.absorb(number, self.offset_minutes);
        let entity = core.entity(number)?;
        let (kind, entry, linked) = (entity.kind, entity.entry.clone(), entity.linked);
        let allocated = self.allocated(core, Some(number), &entry);
        Ok(self.attributes_of(kind, &entry, linked, allocated))
    }

    /// Removes an entry that `allowed` allows.
    fn remove(
        &self,
        directory: Node,
        name: &Name,
        allowed: impl FnOnce(&mut Core, u64) -> Result<()>,
    ) -> Result<()> {
        let now = self.now(Moment::Modified);
        let number = {
            let mut core = self.core();
            core.writable()?;
            let slot = core.directory(directory.0)?.find(name).ok_or(Error::NotFound)?;
            let number = core.enter(directory.0, slot)?;
            let checked = allowed(&mut core, number)
                .and_then(|()| core.entity(number)?.deletable())
                .and_then(|()| core.directory(directory.0).map(|directory| directory.remove(slot)));
            if checked.is_ok() {
                core.unname(number);
                core.change.erases = true;
                core.change.depends = true;
                core.stamp_directory(directory.0, now);
            }
            if let Err(error) = checked {
                drop(core);
                self.let_go(number);
                return Err(error);
            }
            number
        };
        self.let_go(number);
        self.with_space(|| Ok(()))
    }

    /// Makes an entry, the core locked.
    fn create_entry(&self, core: &mut Core, directory: u64, name: &Name, kind: Kind) -> Result<u64> {
        core.writable()?;
        core.is_living_directory(directory)?;
        self.capabilities.names.check(name)?;
        if core.directory(directory)?.find(name).is_some() {
            return Err(Error::Exists);
        }
        let attributes = match kind {
            Kind::Directory => crate::layout::Attributes::DIRECTORY,
            _ => crate::layout::Attributes::ARCHIVE,
        };
        let mut entry = ShortEntry {
            attributes: crate::layout::Attributes(attributes),
            created: self.now(Moment::Created),
            accessed: self.now(Moment::Accessed),
            modified: self.now(Moment::Modified),
            ..ShortEntry::default()
        };
        // Everything that can fail comes before the first change.
        let set = core.directory(directory)?.compose(name, &entry, None)?;
        let revived = core.directory(directory)?.can_revive(name);
        if !revived {
            core.make_room(directory, set.slots())?;
        }
        let mut content = None;
        if kind == Kind::Directory {
            let mut runs = crate::chain::Runs::default();
            let taken = core.allocate(0, &runs, 1)?;
            runs.push(taken[0].cluster, 1);
            entry.cluster = runs.first();
            let parent = if directory == ROOT { 0 } else { core.entity(directory)?.entry.cluster };
            let storage = Storage::Chain(runs.clone());
            let size = self.geometry.cluster_size as usize;
            let fresh = crate::directory::Directory::fresh(storage, size, entry.clone(), parent);
            let place = self.geometry.cluster_offset(entry.cluster);
            if let Err(error) = self.device.write_at(place, fresh.data()) {
                core.give_up(&[Run { index: 0, cluster: entry.cluster, count: 1 }], 0);
                return Err(error.into());
            }
            if let Err(error) = core.link(&runs, 0, 1) {
                return Err(self.freeze(core, error));
            }
            content = Some(fresh);
        }
        let geometry = self.geometry.clone();
        let parent = core.directory(directory)?;
        let slot = match parent.revive(name) {
            Some(slot) => {
                parent.update(slot, &entry, &geometry);
                slot
            }
            None => {
                let set = crate::layout::EntrySet {
                    short: ShortEntry { name: set.short.name, nt: set.short.nt, ..entry.clone() },
                    ..set
                };
                parent.insert(name, &set, &geometry)
            }
        };
        core.stamp_directory(directory, self.now(Moment::Modified));
        let number = core.add(kind, directory, slot, entry);
        if let Some(content) = content {
            core.directories.insert(number, content);
        }
        core.mark(number);
        Ok(number)
    }

    /// Renames, the core locked. Returns the entities that may not be needed any longer.
    fn rename_entry(
        &self,
        core: &mut Core,
        from: (u64, &Name),
        to: (u64, &Name),
        replace: bool,
    ) -> Result<[u64; 2]> {
        core.writable()?;
        let ((from, name), (to, new_name)) = (from, to);
        let geometry = self.geometry.clone();
        let slot = core.directory(from)?.find(name).ok_or(Error::NotFound)?;
        core.is_living_directory(to)?;
        self.capabilities.names.check(new_name)?;
        let source = core.enter(from, slot)?;
        let moved = core.entity(source)?.kind;
        if moved == Kind::Directory && core.is_inside(to, source)? {
            return Err(Error::IntoItself);
        }
        core.absorb(source, self.offset_minutes);
        let entry = core.entity(source)?.entry.clone();
        let target = core.directory(to)?.find(new_name);
        let itself = from == to && target == Some(slot);
        let replaced = match target {
            Some(target) if !itself => {
                if !replace {
                    return Err(Error::Exists);
                }
                let number = core.enter(to, target)?;
                match (moved, core.entity(number)?.kind) {
                    (Kind::Directory, Kind::Directory) if core.directory(number)?.is_empty() => {}
                    (Kind::Directory, Kind::Directory) => return Err(Error::NotEmpty),
                    (Kind::Directory, _) => return Err(Error::NotADirectory),
                    (_, Kind::Directory) => return Err(Error::IsADirectory),
                    _ => {}
                }
                core.entity(number)?.deletable()?;
                Some((number, target))
            }
            _ => None,
        };
        // The new name's slots: those of the entry that has exactly this name, or new ones.
        let same = match target {
            Some(target) => core.directory(to)?.name(target) == *new_name,
            None => false,
        };
        if itself && same {
            return Ok([source, source]);
        }
        let takes_over =
            (same && replaced.is_some()) || (target.is_none() && core.directory(to)?.can_revive(new_name));
        let mut set = None;
        if !takes_over {
            let but = if itself { Some(slot) } else { replaced.map(|(_, slot)| slot) };
            let composed = core.directory(to)?.compose(new_name, &entry, but)?;
            core.make_room(to, composed.slots())?;
            set = Some(composed);
        }
        let changes_parent = moved == Kind::Directory && from != to;
        if changes_parent {
            core.directory(source)?;
        }
        // Both directories in memory and to stay there: from here on nothing fails.
        core.pin(from);
        core.pin(to);
        core.directory(from)?;
        let place = {
            let directory = core.directory(to)?;
            match (set, replaced) {
                (Some(set), _) => {
                    if itself {
                        directory.remove(slot);
                    } else if let Some((_, target)) = replaced {
                        directory.remove(target);
                    }
                    directory.insert(new_name, &set, &geometry)
                }
                (None, Some((_, target))) => {
                    directory.update(target, &entry, &geometry);
                    target
                }
                (None, None) => {
                    let revived = directory.revive(new_name).ok_or(Error::NotFound)?;
                    directory.update(revived, &entry, &geometry);
                    revived
                }
            }
        };
        if !itself {
            core.directory(from)?.remove(slot);
        }
        if let Some((number, _)) = replaced {
            core.unname(number);
        }
        core.place(source, to, place);
        core.change.erases = true;
        if changes_parent {
            let above = if to == ROOT { 0 } else { core.entity(to)?.entry.cluster };
            core.pin(source);
            core.directory(source)?.set_parent(above, &geometry);
        }
        let now = self.now(Moment::Modified);
        core.mark(source);
        core.stamp_directory(from, now);
        core.stamp_directory(to, now);
        Ok([source, replaced.map_or(source, |(number, _)| number)])
    }
}

fn not_fat(reason: &str) -> Error {
    Error::NotThisFormat { format: "FAT", reason: reason.into() }
}

/// What every FAT volume can do.
fn capabilities() -> Capabilities {
    Capabilities {
        largest_file: LARGEST_FILE,
        names: NameRules::WINDOWS,
        modified_precision: Duration::from_secs(2),
        created_precision: Some(Duration::from_millis(10)),
        accessed_precision: Some(Duration::from_secs(86_400)),
        hard_links: false,
        symbolic_links: false,
        streams: false,
        extended_attributes: false,
        sparse: false,
        // A chain longer than its file is damage to every other FAT driver.
        preallocate: false,
        integrity: false,
        clone: false,
        // Two entries in different sectors cannot change places without a moment in which one file has no name.
        exchange: false,
    }
}

impl FileSystem for FatVolume {
    fn format_name(&self) -> &'static str {
        self.geometry.kind.name()
    }

    fn info(&self) -> Result<VolumeInfo> {
        let mut core = self.core();
        let head = core.boot[..BootSector::SIZE].try_into().expect("a boot sector's length");
        let boot = BootSector::from_bytes(head);
        let root = core.directory(ROOT)?;
        let label = match root.label {
            Some(slot) => Label(root.short(slot).name.0).to_string(),
            None if boot.is_extended() && boot.label != BootSector::NO_NAME => Label(boot.label).to_string(),
            None => String::new(),
        };
        let geometry = &self.geometry;
        Ok(VolumeInfo {
            format: geometry.kind.name().into(),
            label,
            identifier: format!("{:04X}-{:04X}", boot.serial >> 16, boot.serial & 0xFFFF),
            cluster: u64::from(geometry.cluster_size),
            dirty: core.was_dirty,
            details: vec![
                ("bytes per sector", geometry.bytes_per_sector.to_string()),
                ("clusters", geometry.clusters.to_string()),
                ("copies of the FAT", geometry.fat_count.to_string()),
                ("sectors per FAT", geometry.fat_sectors.to_string()),
                ("first data sector", geometry.first_data_sector.to_string()),
            ],
        })
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    fn space(&self) -> Result<Space> {
        Ok(Space {
            cluster: u64::from(self.geometry.cluster_size),
            total: u64::from(self.geometry.clusters),
            free: u64::from(self.core().free()),
        })
    }

    fn set_label(&self, label: &str) -> Result<()> {
        let label = if label.is_empty() { None } else { Some(Label::new(label)?) };
        self.with_space(|| {
            let mut core = self.core();
            core.writable()?;
            if label.is_some() && core.directory(ROOT)?.label.is_none() {
                core.make_room(ROOT, 1)?;
            }
            let entry = label.map(|label| ShortEntry {
                name: ShortName(label.0),
                attributes: crate::layout::Attributes(crate::layout::Attributes::LABEL),
                modified: self.now(Moment::Modified),
                ..ShortEntry::default()
            });
            let geometry = self.geometry.clone();
            core.pin(ROOT);
            core.directory(ROOT)?.set_label(entry, &geometry);
            let head = core.boot[..BootSector::SIZE].try_into().expect("a boot sector's length");
            let mut boot = BootSector::from_bytes(head);
            if boot.is_extended() {
                boot.label = label.map_or(BootSector::NO_NAME, |label| label.0);
                core.boot[..BootSector::SIZE].copy_from_slice(&boot.to_bytes());
                core.change.boot = true;
            }
            Ok(())
        })
    }

    fn lookup(&self, directory: Node, name: &Name) -> Result<Node> {
        let mut core = self.core();
        core.is_living_directory(directory.0)?;
        let slot = core.directory(directory.0)?.find(name).ok_or(Error::NotFound)?;
        let number = core.enter(directory.0, slot)?;
        let entity = core.entity_mut(number)?;
        entity.handed += 1;
        if let Some(file) = &entity.file {
            file.released.store(false, Ordering::SeqCst);
        }
        Ok(Node(number))
    }

    fn forget(&self, node: Node, count: u64) {
        let idle = {
            let mut core = self.core();
            let Ok(entity) = core.entity_mut(node.0) else { return };
            entity.handed = entity.handed.saturating_sub(count);
            entity.handed == 0
        };
        if idle {
            self.let_go(node.0);
        }
    }

    fn create(&self, directory: Node, name: &Name, kind: Kind) -> Result<Node> {
        if kind == Kind::SymbolicLink {
            return Err(Error::InvalidArgument("a symbolic link needs a target"));
        }
        self.with_space(|| {
            let mut core = self.core();
            let number = self.create_entry(&mut core, directory.0, name, kind)?;
            core.entity_mut(number)?.handed = 1;
            Ok(Node(number))
        })
    }

    fn unlink(&self, directory: Node, name: &Name) -> Result<()> {
        self.remove(directory, name, |core, number| match core.entity(number)?.kind {
            Kind::Directory => Err(Error::IsADirectory),
            _ => Ok(()),
        })
    }

    fn rmdir(&self, directory: Node, name: &Name) -> Result<()> {
        self.remove(directory, name, |core, number| match core.directory(number)?.is_empty() {
            true => Ok(()),
            false => Err(Error::NotEmpty),
        })
    }

    fn rename(&self, from: Node, name: &Name, to: Node, new_name: &Name, flags: RenameFlags) -> Result<()> {
        let replace = match flags {
            RenameFlags::Replace => true,
            RenameFlags::NoReplace => false,
            RenameFlags::Exchange => {
                self.core().writable()?;
                return Err(self.unsupported_error("exchange of two entries"));
            }
        };
        let unneeded = self.with_space(|| {
            let mut core = self.core();
            self.rename_entry(&mut core, (from.0, name), (to.0, new_name), replace)
        })?;
        unneeded.into_iter().for_each(|number| self.let_go(number));
        Ok(())
    }

    fn read_directory(
        &self,
        directory: Node,
        cursor: Cursor,
        most: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<()> {
        let mut core = self.core();
        let Ok(from) = u32::try_from(cursor.0) else { return core.is_directory(directory.0) };
        let slots: Vec<u32> = core.directory(directory.0)?.slots_from(from).take(most).collect();
        for slot in slots {
            let content = core.directory(directory.0)?;
            let name = content.name(slot);
            let attributes = match core.places.get(&(directory.0, slot)).copied() {
                Some(number) => self.entity_attributes(&mut core, number)?,
                None => {
                    let entry = core.directory(directory.0)?.short(slot);
                    let kind = if entry.attributes.directory() { Kind::Directory } else { Kind::File };
                    let allocated = self.allocated(&mut core, None, &entry);
                    self.attributes_of(kind, &entry, true, allocated)
                }
            };
            entries.push(Entry { name, attributes, next: Cursor(u64::from(slot) + 1) });
        }
        Ok(())
    }

    fn parent(&self, directory: Node) -> Result<Node> {
        let core = self.core();
        core.is_directory(directory.0)?;
        Ok(Node(core.entity(directory.0)?.parent))
    }

    fn attributes(&self, node: Node) -> Result<Attributes> {
        self.entity_attributes(&mut self.core(), node.0)
    }

    fn set_attributes(&self, node: Node, change: &Change) -> Result<Attributes> {
        if let Some(size) = change.size {
            let file = self.file(node)?;
            self.may_write(&file)?;
            self.check_size(Some(size))?;
            self.resize(&file, size)?;
        }
        let mut core = self.core();
        core.writable()?;
        core.absorb(node.0, self.offset_minutes);
        let entity = core.entity_mut(node.0)?;
        let time = |time: Timestamp, moment| DosTime::from_timestamp(time, self.offset_minutes, moment);
        if node.0 != ROOT {
            let entry = &mut entity.entry;
            let before = entry.clone();
            if let Some(flags) = change.flags {
                entry.attributes.0 = entry.attributes.0 & !(DosFlags::SETTABLE.0 as u8)
                    | (flags.0 & DosFlags::SETTABLE.0) as u8;
            }
            entry.created = change.created.map_or(entry.created, |at| time(at, Moment::Created));
            entry.modified = change.modified.map_or(entry.modified, |at| time(at, Moment::Modified));
            entry.accessed = change.accessed.map_or(entry.accessed, |at| time(at, Moment::Accessed));
            let changed = *entry != before;
            let read_only = entity.flags().contains(DosFlags::READ_ONLY);
            if let Some(file) = &entity.file {
                file.read_only.store(read_only, Ordering::Relaxed);
            }
            if changed {
                core.mark(node.0);
            }
        }
        self.entity_attributes(&mut core, node.0)
    }

    fn plan_read(&self, node: Node, offset: u64, length: usize, plan: &mut Plan) -> Result<()> {
        self.check_aligned(offset, length)?;
        plan.start(node.0, offset, 0);
        let state = self.remember(node, plan)?;
        let file = self.remembered(&state).ok_or(Error::NotFound)?;
        self.shared(file, |state| {
            let covered = state.size.saturating_sub(offset).min(length as u64);
            plan.length = covered as usize;
            state.fill(&self.geometry, offset, self.sector_end(covered), plan)?;
            file.begin();
            Ok(())
        })?;
        plan.state = Some(state);
        Ok(())
    }

    fn finish_read(
        &self,
        plan: &mut Plan,
        _buffer: &mut [u8],
        done: platter_device::Result<()>,
    ) -> Result<usize> {
        self.end(self.finishing_file(plan)?);
        done?;
        Ok(plan.length)
    }

    fn plan_write(&self, node: Node, offset: u64, data: &[u8], plan: &mut Plan) -> Result<()> {
        self.check_aligned(offset, data.len())?;
        plan.start(node.0, offset, data.len());
        let state = self.remember(node, plan)?;
        let file = self.remembered(&state).ok_or(Error::NotFound)?;
        self.may_write(file)?;
        let end = self.check_size(offset.checked_add(data.len() as u64))?;
        let in_place = self.shared(file, |state| {
            let in_place = end <= state.size || data.is_empty();
            if in_place {
                state.fill(&self.geometry, offset, data.len() as u64, plan)?;
                plan.notes[0] = IN_PLACE;
                file.begin();
            }
            Ok(in_place)
        })?;
        if !in_place {
            self.plan_extension(file, offset, data.len(), plan)?;
        }
        plan.state = Some(state);
        Ok(())
    }

    fn finish_write(&self, plan: &mut Plan, _data: &[u8], done: platter_device::Result<()>) -> Result<bool> {
        let file = self.finishing_file(plan)?;
        let extended = plan.notes[0] == PENDING;
        let recorded = if extended {
            self.finish_extension(file, plan, done.is_ok())
        } else {
            if done.is_ok() && plan.length > 0 {
                self.touch(file);
            }
            Ok(())
        };
        self.end(file);
        done?;
        recorded?;
        Ok(extended)
    }

    fn write(&self, node: Node, offset: u64, data: &[u8]) -> Result<()> {
        let file = self.file(node)?;
        self.may_write(&file)?;
        self.check_size(offset.checked_add(data.len() as u64))?;
        if data.is_empty() {
            return Ok(());
        }
        if self.check_aligned(offset, data.len()).is_err() {
            return self.write_unaligned(&file, offset, data);
        }
        let mut plan = Plan::default();
        self.plan_write(node, offset, data, &mut plan)?;
        let done = plan.segments.iter().try_for_each(|segment| {
            let at = segment.at as usize;
            self.device.write_at(segment.offset, &data[at..at + segment.length as usize])
        });
        self.finish_write(&mut plan, data, done).map(|_| ())
    }

    fn extents(&self, node: Node) -> Result<Vec<Extent>> {
        let file = self.file(node)?;
        self.shared(&file, |state| {
            let mut extents: Vec<Extent> = Vec::new();
            let mut at = 0;
            state.pieces(&self.geometry, 0..state.size, |place, length| {
                extents.push(Extent { offset: at, length, place: Place::Device(place) });
                at += length;
                Ok(())
            })?;
            Ok(extents)
        })
    }

    fn sync(&self, node: Node, scope: SyncScope) -> Result<()> {
        let (pressing, id) = {
            let mut core = self.core();
            core.entity(node.0)?;
            core.in_order()?;
            core.absorb(node.0, self.offset_minutes);
            let all = scope == SyncScope::All;
            if all && core.entity(node.0)?.lazy && core.frozen.is_none() {
                core.mark_times(node.0);
            }
            let entity = core.entity(node.0)?;
            let uncommitted = entity.changed_in > self.committed.load(Ordering::SeqCst);
            // A directory's content is its names: whenever some of them changed, it is pinned.
            let whole = all || entity.kind == Kind::Directory;
            (uncommitted || (whole && entity.pins > 0), core.change.id)
        };
        if pressing { self.commit_through(id) } else { Ok(self.device.flush()?) }
    }

    fn sync_all(&self) -> Result<()> {
        let id = {
            let mut core = self.core();
            core.in_order()?;
            if core.frozen.is_some() {
                return Ok(());
            }
            core.mark_all(self.offset_minutes);
            core.change.id
        };
        self.commit_through(id)
    }

    fn unmount(&self) -> Result<()> {
        let removed = {
            let mut core = self.core();
            core.in_order()?;
            if core.frozen.is_some() {
                return Ok(());
            }
            core.frozen = Some("it is unmounted".into());
            self.frozen.store(true, Ordering::SeqCst);
            core.mark_all(self.offset_minutes);
            core.drop_removed()
        };
        for (number, entity) in &removed {
            self.reap(*number, entity);
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.commit()?;
        let images = {
            let mut core = self.core();
            if core.was_dirty || !core.marked {
                return Ok(());
            }
            core.clean_mark()?
        };
        self.put(&images)?;
        Ok(self.device.flush()?)
    }
}
