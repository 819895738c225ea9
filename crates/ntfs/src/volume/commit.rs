//! Commits: the images of all metadata that changed go into the log as one group.

use super::{NtfsVolume, Turn};
use crate::core::{Batch, Core, Key, Pending};
use crate::layout::Reference;
use crate::log::{Change, Log, MOST_ATTRIBUTES, Target};
use platter_vfs::{Error, Health, Need, Result};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// Bytes that wait to be written to their places, at most: a replay of the log takes as much memory.
const MOST_PENDING: u64 = 32 << 20;
/// The number of indexes that groups may change between two checkpoints: the log names each by a 16-bit number.
const MOST_INDEXES: usize = 256;

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

impl NtfsVolume {
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

    pub(super) fn commit_in(&self, turn: &mut Turn) -> Result<Left> {
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
}
