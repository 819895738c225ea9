//! Commits: the images of all metadata that changed go into the log as one group, and from there to their places.

use super::*;
use crate::core::{Batch, Key, Pending};
use crate::layout::bytes::put;
use crate::layout::{Reference, fixup};
use crate::log::{Change, Log, MOST_ATTRIBUTES, Target};
use platter_device::write_any;
use smallvec::SmallVec;

/// The number of dirty images above which a commit is made before the next change.
const MOST_IMAGES: usize = 4096;
/// Bytes that wait to be written to their places, at most: a replay of the log takes as much memory.
const MOST_PENDING: u64 = 32 << 20;
/// The number of indexes that groups may change between two checkpoints: the log names each by a 16-bit number.
const MOST_INDEXES: usize = 256;

/// Length in bytes at which a write of adjacent images ends and the next one begins.
const LONGEST_WRITE: usize = 1 << 20;

/// The target by which the log names an image, the image's byte offset in that attribute, and its clusters.
type Named = (Target, u64, SmallVec<[u64; 1]>);

/// Nodes whose sizes and times a commit could not record, each with the reason: a place that cannot be read, or no
/// space. They wait for the next commit.
#[derive(Default)]
pub(super) struct Left(Vec<(u64, Error)>);

impl Left {
    /// Fails with the reason of the first node that was left, if any was.
    pub(super) fn none(self) -> Result<()> {
        self.0.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Fails with the reason of this node, if it was left.
    pub(super) fn without(self, node: u64) -> Result<()> {
        Left(self.0.into_iter().filter(|(left, _)| *left == node).collect()).none()
    }
}

/// The state that belongs to the leader of a commit: the log, and what its groups changed since the last checkpoint.
pub struct Turn {
    log: Option<Log>,
    is_begun: bool,
    /// The log on disk says that the volume is in use.
    is_live: bool,
    /// The log sequence number of the last group.
    lsn: u64,
    /// The indexes named by the groups since the last checkpoint.
    indexes: BTreeSet<Key>,
}

impl Turn {
    /// Makes the state from a volume's log (`None` if it is not written to); `is_live` says whether the log on disk has
    /// the volume as in use.
    pub fn new(log: Option<Log>, is_live: bool) -> Turn {
        Turn { log, is_begun: false, is_live, lsn: 0, indexes: BTreeSet::new() }
    }
}

impl NtfsVolume {
    /// Commits if many changes wait in memory; called before each change.
    pub(super) fn relieve(&self) -> Result<()> {
        let is_much = {
            let core = self.core();
            self.health.writable().is_ok() && self.is_much(&core)
        };
        // A node that cannot be recorded yet stays touched; a sync of that node reports the error.
        if is_much { self.commit().map(drop) } else { Ok(()) }
    }

    fn most_dirt(&self) -> u64 {
        self.log_capacity.load(Ordering::Relaxed) / 4
    }

    /// Makes clusters that were given up usable again, if there are any, by a commit and a checkpoint.
    pub(super) fn make_space(&self) -> Result<()> {
        self.give_back_ahead();
        self.health.writable()?;
        self.group.alone(|turn| {
            self.commit_in(turn)?;
            self.checkpoint(turn)
        })
    }

    /// Makes all changes up to now survive a power cut, by a commit that serves all callers that wait for one. Nodes
    /// that the commit had to leave stay touched, and are returned to the caller that led it.
    pub(super) fn commit(&self) -> Result<Left> {
        let mut left = Left::default();
        self.group.serve(&self.health, Need::Commit, |turn, _| {
            left = self.commit_in(turn)?;
            Ok(())
        })?;
        Ok(left)
    }

    /// [`NtfsVolume::commit`], which fails if this node had to be left, whichever caller led the commit.
    pub(super) fn commit_with(&self, node: u64) -> Result<()> {
        self.commit()?.without(node)?;
        if !self.touched().contains(&node) {
            return Ok(());
        }
        // The node was left by a commit that another caller led, or was written meanwhile.
        let mut left = Left::default();
        self.group.alone(|turn| {
            left = self.commit_in(turn)?;
            Ok(())
        })?;
        left.without(node)
    }

    fn commit_in(&self, turn: &mut Turn) -> Result<Left> {
        let mut may_help = true;
        // Nodes that found no space, and are tried once more after the other changes are committed.
        let mut refused = BTreeSet::new();
        let commit = self.commits.begin();
        loop {
            let (left, is_whole) = self.commit_group(turn, &mut refused)?;
            if !is_whole {
                continue;
            }
            // Clusters of metadata that were given up are free after a checkpoint, so a second attempt may find space.
            if !may_help || !left.0.iter().any(|(_, error)| error.is_full()) {
                if left.0.is_empty() {
                    self.commits.end(commit);
                }
                return Ok(left);
            }
            may_help = false;
            self.checkpoint(turn)?;
        }
    }

    /// Commits as many of the changes as the log has room for at once. Also returns whether those were all.
    fn commit_group(&self, turn: &mut Turn, refused: &mut BTreeSet<u64>) -> Result<(Left, bool)> {
        let (batch, left, is_whole) = loop {
            let mut core = self.core();
            let (mut left, mut is_whole) = (Left::default(), true);
            self.health.promise()?;
            if self.is_written {
                (left, is_whole) = self.absorb(&mut core, refused);
            }
            if !self.is_written || !core.is_dirty() {
                drop(core);
                self.health.flush(&*self.device)?;
                return Ok((left, is_whole));
            }
            if let Err(error) = self.stamp_journal(&mut core).and_then(|()| self.mark_quota(&mut core)) {
                return Err(self.health.fail(error));
            }
            let is_room = turn.log.as_ref().is_none_or(|log| {
                log.used() + Log::group(core.dirt()) <= log.capacity()
                    && turn.indexes.len() + core.attributes_changed() < MOST_ATTRIBUTES
            });
            // Images of earlier commits go to their places first. The changes to be gathered now must not: they are not
            // in the log yet.
            if !is_room && turn.log.as_ref().is_some_and(|log| log.used() > 0) {
                drop(core);
                self.checkpoint(turn)?;
                continue;
            }
            let batch = core.gather().and_then(|batch| {
                // The targets are named under the same lock, while the files that they name certainly exist.
                let targets = batch.images.iter().map(|(key, image)| self.target(&mut core, *key, image));
                let targets: Vec<_> = targets.collect::<Result<_>>()?;
                Ok((batch, targets))
            });
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => return Err(self.health.fail(error)),
            };
            core.make_room();
            break (batch, left, is_whole);
        };
        let written = self.write_group(turn, &batch.0, &batch.1);
        written.map_err(|error| self.health.fail(error))?;
        let mut core = self.core();
        if !core.space.committed() {
            return Err(self.health.stop(Health::SPACE_IS_WRONG));
        }
        let waiting: u64 = core.pending.values().map(|pending| pending.bytes.len() as u64).sum();
        drop(core);
        let is_full = turn.log.as_ref().is_none_or(|log| log.used() > log.capacity() / 2);
        if is_full || waiting > MOST_PENDING || turn.indexes.len() > MOST_INDEXES {
            self.checkpoint(turn)?;
        }
        Ok((left, is_whole))
    }

    /// Says in the log that the volume is in use.
    fn begin_log(&self, turn: &mut Turn) -> Result<()> {
        let Some(log) = &mut turn.log else { return Ok(()) };
        let floor = crate::open::greatest_lsn(&mut self.core());
        log.begin(&*self.device, floor)?;
        (turn.is_begun, turn.is_live) = (true, true);
        Ok(())
    }

    fn write_group(&self, turn: &mut Turn, batch: &Batch, targets: &[Named]) -> Result<()> {
        // The data that the group's metadata points to must be durable before the group.
        self.health.flush(&*self.device)?;
        if turn.log.is_none() {
            return Ok(());
        }
        if !turn.is_begun {
            self.begin_log(turn)?;
        }
        let Some(log) = &mut turn.log else { return Ok(()) };
        for (key, _) in &batch.images {
            if let Key::Block(file, index, _) = key {
                turn.indexes.insert(Key::Block(*file, *index, 0));
            }
        }
        let changes: Vec<Change<'_>> = targets
            .iter()
            .zip(&batch.images)
            .map(|((target, offset, lcns), (_, pending))| Change {
                target,
                offset: *offset,
                lcns,
                bytes: &pending.bytes,
            })
            .collect();
        turn.lsn = log.append(&*self.device, &changes)?;
        Ok(())
    }

    fn target(&self, core: &mut Core, key: Key, image: &Pending) -> Result<Named> {
        let mut reference = |number: u64| -> Result<Reference> { Ok(core.file(number)?.reference) };
        let (target, offset) = match key {
            Key::Record(number) => (Target::FileRecord, number * u64::from(core.geometry.record)),
            Key::Block(file, index, at) => {
                let (file, name) = (reference(file)?, index.units().into());
                (Target::Index { file, name, block: image.bytes.len() as u32 }, at)
            }
            Key::Value(file, kind, name, at) => {
                let (file, name) = (reference(file)?, name.encode_utf16().collect());
                (Target::Value { file, kind: kind.0, name }, at)
            }
        };
        let cluster = self.cluster;
        let clusters =
            image.places.iter().flat_map(|(at, length)| at / cluster..=(at + length - 1) / cluster);
        Ok((target, offset, clusters.collect()))
    }

    /// Writes everything that was committed to its place, and empties the log.
    fn checkpoint(&self, turn: &mut Turn) -> Result<()> {
        let (pending, mirror) = {
            let mut core = self.core();
            let pending = core.pending.iter().map(|(key, pending)| (*key, pending.clone()));
            (pending.collect::<Vec<_>>(), crate::open::mirrored(&mut core))
        };
        let written = self.write_places(turn, &pending, mirror);
        written.map_err(|error| self.health.fail(error))?;
        let mut core = self.core();
        core.pending.clear();
        turn.indexes.clear();
        match core.space.checkpointed() {
            true => Ok(()),
            false => Err(self.health.stop(Health::SPACE_IS_WRONG)),
        }
    }

    fn write_places(
        &self,
        turn: &mut Turn,
        pending: &[(Key, Pending)],
        (mirror, mirrored): (u64, u64),
    ) -> Result<()> {
        let mut copies = Vec::new();
        let mut pieces: Vec<(u64, usize, Range<usize>)> = Vec::with_capacity(pending.len());
        for (index, (_, pending)) in pending.iter().enumerate() {
            let mut done = 0usize;
            for (at, length) in &pending.places {
                pieces.push((*at, index, done..done + *length as usize));
                done += *length as usize;
            }
        }
        pieces.sort_unstable_by_key(|(at, ..)| *at);
        // Images that are adjacent on the device are written together.
        let (mut start, mut run) = (0, Vec::with_capacity(LONGEST_WRITE));
        for (at, index, part) in pieces {
            let (key, pending) = &pending[index];
            if start + run.len() as u64 != at || run.len() >= LONGEST_WRITE {
                if !run.is_empty() {
                    write_any(&*self.device, start, &run)?;
                }
                run.clear();
                start = at;
            }
            if part.len() == pending.bytes.len() {
                let from = run.len();
                run.extend_from_slice(&pending.bytes);
                seal(*key, turn.lsn, &mut run[from..]);
            } else {
                let mut whole = (*pending.bytes).clone();
                seal(*key, turn.lsn, &mut whole);
                run.extend_from_slice(&whole[part]);
            }
            if let Key::Record(number) = key
                && *number < mirrored
            {
                let mut whole = (*pending.bytes).clone();
                seal(*key, turn.lsn, &mut whole);
                copies.push((mirror + number * whole.len() as u64, whole));
            }
        }
        if !run.is_empty() {
            write_any(&*self.device, start, &run)?;
        }
        self.health.flush(&*self.device)?;
        if !copies.is_empty() {
            // The copies for `$MFTMirr` after the originals, so that one of both is whole at any time.
            for (at, bytes) in copies {
                write_any(&*self.device, at, &bytes)?;
            }
            self.health.flush(&*self.device)?;
        }
        match &mut turn.log {
            Some(log) if turn.is_begun => log.checkpoint(&*self.device),
            _ => Ok(()),
        }
    }

    /// Whether so many metadata are dirty that they should be committed before the next change, or in a group of their
    /// own.
    fn is_much(&self, core: &Core) -> bool {
        core.dirty_count() > MOST_IMAGES
            || core.dirt() > self.most_dirt()
            || core.attributes_changed() > MOST_ATTRIBUTES / 2
    }

    /// Records the sizes and times of touched nodes, in the files' records and in their directories. Also returns
    /// whether no touched node remains for another group.
    fn absorb(&self, core: &mut Core, refused: &mut BTreeSet<u64>) -> (Left, bool) {
        let touched = std::mem::take(&mut *self.touched());
        let mut left = Left::default();
        let mut touched = touched.into_iter();
        while let Some(node) = touched.next() {
            // A node that fails does not keep the others from the disk; the next commit tries it again.
            let outcome = self.absorb_node(core, node);
            if outcome.is_err() {
                self.touch(node);
            }
            let is_later = self.touched().contains(&node);
            let is_more = match outcome {
                Ok(()) => is_later || self.is_much(core) && touched.len() > 0,
                // Once per node: images that the failed attempt changed and restored are dirty too, and would be
                // committed again and again.
                Err(error) if error.is_full() && core.is_dirty() && refused.insert(node) => true,
                Err(error) => {
                    left.0.push((node, error));
                    false
                }
            };
            if is_more {
                self.touched().extend(touched);
                return (left, false);
            }
        }
        (left, true)
    }

    pub(super) fn touched(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.touched.lock()
    }

    /// Records the size and times of one touched node. If that fails, nothing is changed. A file with very many names
    /// stays touched if the log cannot take all changes of its directory entries at once.
    pub(super) fn absorb_node(&self, core: &mut Core, node: u64) -> Result<()> {
        if let Some(stream) = core.nodes.get(node).ok().and_then(|entity| entity.stream.as_ref()) {
            // The mark is set anew before time and size are read: a writer that changes them later touches the node
            // again.
            let touched = self.touched();
            stream.is_touched.store(touched.contains(&node), Ordering::SeqCst);
        }
        let stamps: SmallVec<[_; 2]> = match written(core, node) {
            Ok(streams) => streams.into_iter().map(|stream| (stream.take_stamp(), stream)).collect(),
            Err(_) => return Ok(()),
        };
        let stamp = stamps.iter().map(|(stamp, _)| *stamp).max().unwrap_or(0);
        self.record_node(core, node, stamp).inspect_err(|_| {
            stamps.iter().for_each(|(stamp, stream)| stream.put_stamp_back(*stamp));
        })
    }

    /// Records a node's size, and `stamp` as the time of its last write unless `stamp` is 0.
    fn record_node(&self, core: &mut Core, node: u64, stamp: u64) -> Result<()> {
        let Ok(entity) = core.nodes.get(node) else { return Ok(()) };
        let (number, part, stream) = (entity.file, entity.part.clone(), entity.stream.clone());
        let old = core.file(number)?;
        let mut file = (*old).clone();
        let name = part.map(|(_, name)| name).unwrap_or_default();
        if let Some(stream) = stream {
            let state = stream.read();
            if let Some(outside) = file.find_mut(Type::DATA, &name).and_then(Attr::outside_mut) {
                (outside.size, outside.valid) = (state.size, state.valid.min(state.size));
            }
        }
        if stamp > 0 {
            let mut standard = standard(&file)?;
            (standard.modified, standard.changed) = (FileTime(stamp), FileTime(stamp));
            standard.flags |= file_flags::ARCHIVE;
            file.put(Attr::resident(Type::STANDARD_INFORMATION, standard.to_bytes()));
        }
        let is_changed = file.attributes != old.attributes;
        core.transact(|core| {
            if number < DETACHED && !self.update_names(core, &file)? {
                self.touch(node);
            }
            if is_changed { core.store(file) } else { Ok(()) }
        })
    }

    /// Brings the entries of a file in its directories' indexes up to date. Returns whether all of them are: the
    /// entries of a file with very many names are changed in several groups of the log.
    fn update_names(&self, core: &mut Core, file: &File) -> Result<bool> {
        let now = self.name_facts(core, file)?;
        for name in names_of(file) {
            if self.is_much(core) {
                return Ok(false);
            }
            let key = FileName { name: name.name.clone(), ..FileName::default() }.to_bytes();
            let directory = name.parent.number();
            let fresh =
                FileName { parent: name.parent, namespace: name.namespace, name: name.name, ..now.clone() }
                    .to_bytes();
            match core.index_update(directory, crate::layout::Index::Names, &key, |entry| {
                entry[0x10 + 8..0x10 + 0x40].copy_from_slice(&fresh[8..0x40]);
            }) {
                // A name that its directory lacks is left to the check.
                Err(Error::NotFound | Error::NotADirectory) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// The fields of a file's `$FILE_NAME` other than its parent, namespace and name.
    pub(super) fn name_facts(&self, core: &Core, file: &File) -> Result<FileName> {
        let standard = standard(file)?;
        let is_directory = file.flags & record_flags::DIRECTORY != 0;
        let data = file.find(Type::DATA, &[]).filter(|_| !is_directory);
        let allocated = match data.map(|data| (data, data.outside())) {
            Some((_, Some(outside))) => outside.taken() * self.cluster,
            Some((data, None)) => data.size().next_multiple_of(8),
            None => 0,
        };
        let tag = match file.find(Type::REPARSE_POINT, &[]) {
            Some(_) => tag_of(core, file)?.unwrap_or(0),
            None => {
                let information = file.value(Type::EA_INFORMATION).unwrap_or(&[]);
                u32::from(crate::layout::bytes::u16_at(information, 0))
            }
        };
        Ok(FileName {
            created: standard.created,
            modified: standard.modified,
            changed: standard.changed,
            accessed: standard.accessed,
            allocated,
            size: data.map_or(0, Attr::size),
            flags: name_flags(file, &standard),
            tag,
            ..FileName::default()
        })
    }

    /// Gives back the clusters that were taken ahead of content, in streams without a plan under way.
    pub(super) fn give_back_ahead(&self) {
        let mut core = self.core();
        if !self.is_written || self.health.promise().is_err() {
            return;
        }
        let nodes = core.nodes.all();
        for node in nodes {
            let _ = self.trim(&mut core, node);
        }
    }

    /// Closes the volume: refuses changes, waits for the plans that were accepted, commits, writes everything to its
    /// place, and notes on disk that the volume is closed, all before any other caller can make changes durable. A
    /// second caller runs the same steps again, and so returns no earlier than all is done.
    pub(super) fn close(&self) -> Result<()> {
        self.health.close("it is unmounted");
        let streams: Vec<Arc<Stream>> = self.streams.read().values().cloned().collect();
        for stream in streams {
            drop(stream.claim(|_| 0..u64::MAX, Access::Write));
        }
        self.health.promise()?;
        if !self.is_written {
            return Ok(());
        }
        self.settle_all()?;
        self.give_back_ahead();
        let mut left = Left::default();
        self.group.alone(|turn| {
            left = self.commit_in(turn)?;
            self.checkpoint(turn)?;
            if turn.is_live && !turn.is_begun {
                self.begin_log(turn)?;
            }
            if turn.is_begun
                && let Some(log) = &mut turn.log
            {
                log.end(&*self.device).map_err(|error| self.health.fail(error))?;
                turn.is_begun = false;
            }
            turn.is_live = false;
            self.health.flush(&*self.device)
        })?;
        left.none()
    }
}

/// Turns an image into the bytes on disk: sets its log sequence number and applies the fixups. Values have neither.
fn seal(key: Key, lsn: u64, bytes: &mut [u8]) {
    if !matches!(key, Key::Value(..)) {
        put(bytes, 8, lsn);
        fixup::apply(bytes);
    }
}
