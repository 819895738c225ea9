//! The log of syncs: making its entries, and carrying them out again when a volume is opened.

use super::{Core, Id, RecordPlace};
use crate::extents::{Extent, Extents, Form, Mapping, RunKind};
use crate::layout::record::key;
use crate::layout::{Record, crc32c};
use crate::space::ContainerRun;
use crate::stream::{self, LARGEST, StreamContent, StreamState};
use crate::sync_log::{self, Beside, Change, NAME, Purpose, SyncLog, UNIT, Written};
use platter_device::{Buffer, Device};
use platter_vfs::{Error, Result};
use std::ops::Range;

/// The size of the log: one part in `SHARE` of the volume, but at least `LEAST` and at most `MOST` bytes.
const SHARE: u64 = 512;
const LEAST: u64 = 256 << 10;
const MOST: u64 = 4 << 20;

// A log has room for at least one entry, and no volume gets more than it needs.
const _: () = assert!(LEAST <= MOST && LEAST.is_multiple_of(crate::sync_log::UNIT as u64));

/// The most pages that making or removing the log's file takes.
const PAGES: u64 = 64;

/// An entry of the log, to be written to the device.
pub(crate) struct SyncEntry {
    /// The entry's offset on the device.
    pub place: u64,
    /// The entry's length in bytes.
    pub length: usize,
    /// Whether the entry is about data that no checksum in it vouches for, and that must be durable before the entry is
    /// written.
    pub needs_data: bool,
}

fn name() -> Vec<u16> {
    NAME.encode_utf16().collect()
}

impl Core {
    /// Notes that `runs` replaced others in a node's own data, or, if there are none, that it was written in place. An
    /// entry of the log can hold either. Returns whether an entry may tell of the runs before the next commit.
    pub(crate) fn note_written(&mut self, node: u64, runs: &[Extent]) -> bool {
        let (is_noted, is_told) = match (&mut self.sync_log, self.news) {
            // The next commit writes everything anyway.
            (_, true) => (false, false),
            (None, _) => (true, false),
            (Some(log), _) => {
                let fits = log.note(node, runs);
                (fits, fits)
            }
        };
        if is_noted {
            self.has_written = true;
            if !self.changed.has(node) {
                self.note_changed(node);
            }
        } else {
            self.mark(node);
        }
        is_told
    }

    /// Notes that a node's own data got `runs` and perhaps a larger size, as [`Core::note_written`] does. With
    /// `is_in_place` some of the new bytes are in clusters that it had before, so that no run tells of them.
    pub(crate) fn note_extended(&mut self, node: u64, runs: &[Extent], is_in_place: bool) {
        self.note_written(node, runs);
        if let (true, Some(log)) = (is_in_place, &mut self.sync_log) {
            log.needs_data = true;
        }
    }

    /// Whether a file was written whose change is in no entry, or only in one that may not be on the device yet.
    pub(crate) fn waits_for_entry(&self) -> bool {
        let has_all = |log: &SyncLog| log.changes.is_empty() && log.beside.is_none();
        self.has_written && !self.sync_log.as_ref().is_some_and(has_all)
    }

    /// Whether entries can hold changes of a node's own data: it is a file with a name.
    pub(crate) fn is_logged(&self, node: u64) -> bool {
        let place = self.entities.get(&node).map(|entity| (entity.id, &entity.place));
        matches!(place, Some((Id::File(..), RecordPlace::Long { .. } | RecordPlace::Body)))
    }

    /// Makes an entry of all noted changes, in `memory`. `None` if only a commit can make them durable.
    pub(crate) fn entry(&mut self, memory: &mut Buffer) -> Option<SyncEntry> {
        let mut changes = std::mem::take(&mut self.sync_log.as_mut()?.changes);
        // The sort is stable: the changes of one file stay in the order in which they were made.
        changes.sort_by_key(|(node, _)| *node);
        let entry = self.entry_of(&changes, None, memory);
        changes.clear();
        let log = self.sync_log.as_mut()?;
        log.changes = changes;
        let needs_data = std::mem::take(&mut log.needs_data);
        entry.map(|entry| SyncEntry { needs_data: entry.needs_data || needs_data, ..entry })
    }

    /// Whether an entry can go to the device at the same time as the data that it describes: only if nothing else is
    /// new.
    pub(crate) fn takes_entry_beside(&self) -> bool {
        let is_idle = |log: &SyncLog| log.changes.is_empty() && log.beside.is_none();
        !self.news && self.writable().is_ok() && self.sync_log.as_ref().is_some_and(is_idle)
    }

    /// Makes an entry, in `memory`, of the changes of `writes` writes that are still in flight. `None` if that is not
    /// possible, as where two of them write the same cluster: then it is not known which ends last.
    pub(crate) fn entry_beside(
        &mut self,
        mut changes: Vec<Change>,
        writes: usize,
        now: u64,
        memory: &mut Buffer,
    ) -> Option<SyncEntry> {
        changes.sort_by_key(|(node, run)| (*node, run.map(|run| run.at)));
        let is_common = |pair: &[Change]| match (pair[0], pair[1]) {
            ((node, Some(run)), (other, Some(next))) => node == other && next.at < run.end(),
            _ => false,
        };
        if changes.windows(2).any(is_common) {
            return None;
        }
        let entry = self.entry_of(&changes, Some(now), memory)?;
        let clock = self.checkpoint.clock;
        self.sync_log.as_mut()?.beside = Some(Beside { clock, left: writes, is_wrong: false });
        Some(entry)
    }

    /// Notes that one of the writes that the entry in flight describes is finished, with these runs. Returns whether
    /// that entry suffices to make the runs durable. It does not if there was a commit since, nor if another write of
    /// the same clusters was finished before this one: that write belongs to a later entry, and only a commit keeps the
    /// order of both.
    pub(crate) fn end_beside(&mut self, node: u64, runs: &[Extent], is_written: bool) -> bool {
        let clock = self.checkpoint.clock;
        let Some(log) = &mut self.sync_log else { return false };
        let Some(beside) = &mut log.beside else { return false };
        beside.left = beside.left.saturating_sub(1);
        beside.is_wrong |= !is_written;
        let overlaps = |&(other, run): &Change| {
            let meets = |run: Extent| runs.iter().any(|new| new.at < run.end() && run.at < new.end());
            other == node && run.is_some_and(meets)
        };
        if !is_written || beside.clock != clock {
            return false;
        }
        if log.changes.iter().any(overlaps) {
            self.news = true;
            return false;
        }
        self.has_written = true;
        self.note_changed(node);
        true
    }

    /// Ends the entry that was written at the same time as its data, once all of that data has been written. Returns
    /// whether the entry makes the sync durable. It does not if a commit came since, which made the entry void, nor if
    /// one of its writes failed: then no other entry follows before the next commit.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no such entry, or one of its writes is not finished.
    pub(crate) fn take_beside(&mut self) -> Result<bool> {
        let clock = self.checkpoint.clock;
        let taken = self.sync_log.as_mut().and_then(|log| log.beside.take_if(|beside| beside.left == 0));
        let Some(beside) = taken else {
            return Err(Error::InvalidArgument("no sync was planned whose writes are all finished"));
        };
        self.news |= beside.is_wrong;
        Ok(beside.clock == clock && !beside.is_wrong)
    }

    /// Whether an entry is in flight at the same time as its data.
    pub(crate) fn has_entry_beside(&self) -> bool {
        self.sync_log.as_ref().is_some_and(|log| log.beside.is_some())
    }

    /// Makes an entry of these changes, which are ordered by node, in `memory`. `now` is the time of the writes if the
    /// records do not have it yet.
    fn entry_of(&mut self, changes: &[Change], now: Option<u64>, memory: &mut Buffer) -> Option<SyncEntry> {
        let groups = changes.chunk_by(|one, other| one.0 == other.0);
        let files: Option<Vec<Written>> = groups.map(|group| self.written(group, now)).collect();
        let files = files?;
        let needs_data = changes.iter().filter_map(|(_, run)| *run).any(|run| run.checksum().is_none());
        let length = sync_log::length(&files);
        let (signature, clock) = (self.geometry().signature, self.checkpoint.clock);
        let (place, number) = self.sync_log.as_mut()?.next(length)?;
        if memory.len() < length {
            *memory = Buffer::new(length.next_power_of_two());
        }
        sync_log::store(Purpose { signature, clock, number }, &files, &mut memory[..length]);
        Some(SyncEntry { place, length, needs_data })
    }

    fn written(&mut self, group: &[Change], now: Option<u64>) -> Option<Written> {
        let entity = self.entities.get_mut(&group[0].0)?;
        entity.absorb_written();
        let Id::File(home, ordinal) = entity.id else { return None };
        let name = match &entity.place {
            RecordPlace::Long { name, .. } => Some(name.clone()),
            RecordPlace::Body => None,
            _ => return None,
        };
        let valid = entity.stream.as_ref()?.read().valid();
        let modified = now.unwrap_or(entity.record.times[1]);
        let runs = group.iter().filter_map(|(_, run)| *run).collect();
        Some(Written { home, ordinal, name, modified, valid, runs })
    }

    /// Makes the log's file, as part of the next commit, if the volume has room for it.
    pub(crate) fn provide_log(&mut self, device: &dyn Device, now: u64) -> Result<()> {
        if self.sync_log.is_some() || self.is_log_refused {
            return Ok(());
        }
        self.is_log_refused = true;
        let geometry = self.geometry().clone();
        let cluster = u64::from(geometry.cluster);
        let bytes = (geometry.clusters * cluster / SHARE).clamp(LEAST, MOST) / cluster * cluster;
        let count = (bytes / cluster) as u32;
        let space = &mut self.pages.space;
        let has_room = space.spares(PAGES) && space.free() / 16 > u64::from(count);
        let Some(run) = has_room.then(|| space.take_run(count)).flatten() else { return Ok(()) };
        let made = self.make_log(device, run, bytes, now);
        match made {
            Ok(area) => {
                self.sync_log = Some(SyncLog::new(area));
                self.is_log_refused = false;
                Ok(())
            }
            Err(error) => {
                self.pages.space.give_back(run);
                Err(error)
            }
        }
    }

    fn make_log(
        &mut self,
        device: &dyn Device,
        run: ContainerRun,
        bytes: u64,
        now: u64,
    ) -> Result<Range<u64>> {
        let cluster = self.cluster(&run);
        let start = self.device_place(cluster)?;
        // The file must not show what these clusters held before.
        device.write_at(start, &Buffer::new(bytes as usize))?;
        let mut extents = Extents::new(&self.pages, sync_log::DIRECTORY);
        let all = Extent { at: 0, count: run.count, cluster, kind: RunKind::PLAIN };
        extents.replace(0, run.count, &[all], &mut Vec::new());
        let content = StreamContent::Extents(extents);
        let state = StreamState { size: bytes, content, ..StreamState::empty(false) };
        let before = self.pages.edits;
        let made = self.put_log(state, now);
        self.pages.is_broken |= made.is_err() && self.pages.edits != before;
        made?;
        self.pages.space.keep(run);
        Ok(start..start + bytes)
    }

    fn put_log(&mut self, mut state: StreamState, now: u64) -> Result<()> {
        /// Attribute flags: hidden, system, archive.
        const ATTRIBUTES: u32 = 0x26;
        let ordinal = self.new_ordinal(sync_log::DIRECTORY)?;
        let schema = self.geometry().version.file_schema();
        let mut record = Record { ordinal, ..Record::new(schema, now, ATTRIBUTES, self.security) };
        record.size = state.size;
        record.allocated = state.allocated(self.geometry());
        let clock = self.checkpoint.clock + 1;
        let mut storing =
            stream::Storing { form: Form::Roomy, integrity: false, pages: &mut self.pages, clock };
        record.rows.extend(stream::store_data(&mut state, 1, &mut storing)?);
        stream::store_counter(&mut record.rows);
        let (tree, pages) = self.tree_mut(sync_log::DIRECTORY)?;
        tree.put(pages, &key::name(key::LONG, &name()), 1, &record.to_bytes()).map(drop)
    }

    fn device_place(&self, cluster: u64) -> Result<u64> {
        let geometry = self.geometry();
        Ok(geometry.offset(self.pages.map.real(geometry, cluster, 1)?))
    }

    /// Finds the log and carries out its entries again, in memory; the next commit stores the result. Returns notes for
    /// the user.
    ///
    /// # Errors
    /// [`Error::Damaged`] and [`Error::Device`] if an entry cannot be read or does not fit the volume.
    pub(crate) fn replay(&mut self, device: &dyn Device) -> Result<Vec<String>> {
        let Some(area) = self.find_log()? else { return Ok(Vec::new()) };
        let (mut notes, mut entries) = (Vec::new(), Vec::new());
        let mut at = area.start;
        while let Some((length, files)) = self.read_entry(device, at..area.end, entries.len() as u64)? {
            entries.push(files);
            at += length;
        }
        self.sync_log = Some(SyncLog::new(area));
        // Each entry but the last was followed by a flush, so only the data of the last can be missing.
        if let Some(last) = entries.last()
            && !self.has_data(device, last)?
        {
            notes.push(
                "a sync that the power cut off: its data is not there, and it is not carried out".into(),
            );
            entries.pop();
        }
        self.has_written |= !entries.is_empty();
        for files in entries {
            for file in files {
                self.write_again(file)?;
            }
        }
        Ok(notes)
    }

    /// Makes every sync a commit. An existing log is removed with the next commit, which stores what its entries hold.
    ///
    /// # Errors
    /// As [`Core::remove_log`].
    pub(crate) fn refuse_log(&mut self) -> Result<()> {
        self.is_log_refused = true;
        self.remove_log()
    }

    /// Removes the log's file with the next commit, so that nothing is left on the volume that only Platter
    /// understands. The log stays where there is no room for the change, or its file cannot be read.
    ///
    /// # Errors
    /// The error of a change of the metadata that failed half-way.
    pub(crate) fn remove_log(&mut self) -> Result<()> {
        let is_wanted = self.sync_log.is_some() && !self.has_entry_beside();
        if !is_wanted || self.promise().is_err() || !self.spares(PAGES) {
            return Ok(());
        }
        let Ok(Some(StreamState { content: StreamContent::Extents(mut extents), .. })) = self.log_file()
        else {
            return Ok(());
        };
        let mut gone = Vec::new();
        let before = self.pages.edits;
        let removed = extents.load_range(&mut self.pages, 0, u32::MAX).and_then(|()| {
            extents.destroy(&mut self.pages, &mut gone)?;
            let (tree, pages) = self.tree_mut(sync_log::DIRECTORY)?;
            tree.remove(pages, &key::name(key::LONG, &name()))?;
            self.park(&gone, false)
        });
        self.pages.is_broken |= removed.is_err() && self.pages.edits != before;
        removed?;
        self.sync_log = None;
        self.news = true;
        Ok(())
    }

    /// The state of the log's file, if there is one.
    fn log_file(&mut self) -> Result<Option<StreamState>> {
        let (tree, pages) = match self.tree(sync_log::DIRECTORY) {
            Ok(found) => found,
            Err(Error::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        };
        let row_key = key::name(key::LONG, &name());
        let Some(record) = tree.get(pages, &row_key, |row| Record::from_bytes(row.value, 0))? else {
            return Ok(None);
        };
        let mut record = record?;
        Ok(stream::take_streams(&mut record, &mut self.pages, sync_log::DIRECTORY)?.own)
    }

    /// The bytes on the device that the log takes, if there is one.
    fn find_log(&mut self) -> Result<Option<Range<u64>>> {
        let Some(state) = self.log_file()? else { return Ok(None) };
        let length = state.size / u64::from(self.geometry().cluster);
        let whole = state.extents().and_then(|extents| match extents.find(0) {
            Mapping::Extent(run) if run.at == 0 && u64::from(run.count) == length => Some(run),
            _ => None,
        });
        // A file in another form than `make_log` gives it is no log.
        let Some(run) = whole.filter(|run| run.checksum().is_none() && state.size <= MOST) else {
            return Ok(None);
        };
        self.run(run.cluster, run.count)?;
        let start = self.device_place(run.cluster)?;
        Ok(Some(start..start + state.size))
    }

    /// Reads the entry with this number at the beginning of a part of the log. Returns its length and its files.
    fn read_entry(
        &self,
        device: &dyn Device,
        area: Range<u64>,
        number: u64,
    ) -> Result<Option<(u64, Vec<Written>)>> {
        let purpose = Purpose { signature: self.geometry().signature, clock: self.checkpoint.clock, number };
        let room = area.end - area.start;
        if room < UNIT as u64 {
            return Ok(None);
        }
        let from = |copy| -> Result<Option<(u64, Vec<Written>)>> {
            let mut head = Buffer::new(UNIT);
            device.read_copy(copy, area.start, &mut head)?;
            let length = sync_log::begins(purpose, &head).filter(|&length| length as u64 <= room);
            let Some(length) = length else { return Ok(None) };
            let mut bytes = Buffer::new(length);
            device.read_copy(copy, area.start, &mut bytes)?;
            Ok(sync_log::read(&mut bytes).map(|files| (length as u64, files)))
        };
        // Any copy of a mirror will do; one may be out of service.
        let mut answer = from(0);
        for copy in 1..device.copies() {
            match from(copy) {
                _ if matches!(answer, Ok(Some(_))) => break,
                Ok(found) => answer = Ok(found),
                Err(error) => answer = answer.or(Err(error)),
            }
        }
        answer
    }

    /// Whether all data for which an entry has checksums is on the device.
    fn has_data(&self, device: &dyn Device, files: &[Written]) -> Result<bool> {
        let mut cluster = Buffer::new(self.geometry().cluster as usize);
        for run in files.iter().flat_map(|file| &file.runs) {
            let Some(checksum) = run.checksum() else { continue };
            self.run(run.cluster, run.count)?;
            let place = self.device_place(run.cluster)?;
            let mut is_good =
                |copy| device.read_copy(copy, place, &mut cluster).is_ok() && crc32c(&cluster) == checksum;
            if !(0..device.copies()).any(&mut is_good) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn write_again(&mut self, file: Written) -> Result<()> {
        let wrong = |what: &'static str, expected: String, found: String| {
            Err(Error::damaged(what, 0, expected, found))
        };
        let (row_key, place) = match file.name {
            Some(name) => (key::name(key::LONG, &name), RecordPlace::Long { directory: file.home, name }),
            None => (key::body(file.ordinal, file.home).to_vec(), RecordPlace::Body),
        };
        let (tree, pages) = self.tree(file.home)?;
        let record = tree.get(pages, &row_key, |row| Record::from_bytes(row.value, 0))?.transpose()?;
        let Some(record) =
            record.filter(|record| place == RecordPlace::Body || record.ordinal == file.ordinal)
        else {
            return wrong(
                "file in the log of syncs",
                format!("number {:#x} of {:#x}", file.ordinal, file.home),
                "none".into(),
            );
        };
        let node = self.open_file(Id::File(file.home, file.ordinal), place, record)?;
        let Some(stream) = self.entity(node)?.stream.clone() else { return Ok(()) };
        if file.valid > LARGEST {
            return wrong("size in the log of syncs", format!("at most {LARGEST}"), file.valid.to_string());
        }
        let mut state = stream.write();
        let mut gone = Vec::new();
        for run in &file.runs {
            let taken = self.run(run.cluster, run.count)?;
            let is_one = run.count == 1 || run.checksum().is_none() && run.count > 0;
            let end = run.at.checked_add(run.count);
            let Some(end) = end.filter(|_| is_one && self.pages.space.take_exactly(taken)) else {
                return wrong("run in the log of syncs", "free clusters".into(), format!("{run:x?}"));
            };
            let StreamContent::Extents(extents) = &mut state.content else {
                return wrong("file in the log of syncs", "runs".into(), "content in its record".into());
            };
            extents.load_range(&mut self.pages, run.at, end)?;
            extents.replace(run.at, end, &[*run], &mut gone);
        }
        state.generation.advance();
        state.extend(file.valid, u64::from(self.geometry().cluster));
        drop(state);
        self.park_written(&gone, false)?;
        let entity = self.entity_mut(node)?;
        entity.record.times[1] = file.modified;
        entity.record.times[2] = entity.record.times[2].max(file.modified);
        entity.record.attributes |= 0x20;
        Ok(())
    }
}
