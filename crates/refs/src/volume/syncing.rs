//! Making changes durable: by commits, by entries of the log of syncs, and by planned syncs, whose entries go to the
//! device beside the writes that they are for.

use super::Volume;
use super::data::{Memory, Planned};
use crate::core::{Core, RecordPlace};
use crate::stream::Stream;
use crate::sync_log::Change;
use platter_device::Buffer;
use platter_vfs::{Access, Error, Need, Node, Plan, Result, SyncNeed, SyncScope};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The state of a plan that is a sync.
struct PlannedSync {
    volume: u64,
    /// Whether it is planned and not finished.
    is_under_way: bool,
}

/// The most bytes of changed pages that wait for a commit before one is made.
const MOST_WAITING: usize = 32 << 20;
/// The most changed nodes that wait for a commit before one is made. Each node takes one or two kilobytes of memory.
pub(crate) const MOST_CHANGED: usize = 1 << 13;

/// The longest time that a caller waits for another caller's planned sync.
const PATIENCE: Duration = Duration::from_millis(20);

impl Volume {
    /// Waits while a planned sync is under way: until it ends, no other entry of the log can be written, and a commit
    /// would make its entry void. The wait has a limit, since the caller that planned the sync may be the one that
    /// waits here.
    pub(super) fn await_entry_beside(&self) {
        drop(self.sync_ended.wait_while_at_most(self.core(), PATIENCE, |core| core.has_entry_beside()));
    }

    pub(super) fn plan_syncing(
        &self,
        writes: &mut dyn Iterator<Item = &mut Plan>,
        plan: &mut Plan,
        buffer: &mut Buffer,
    ) -> Result<bool> {
        // While another caller leads a commit or sync, no entry can be made.
        let Some(_lead) = self.group.try_lead() else { return Ok(false) };
        let mut core = self.core();
        if !core.takes_entry_beside() {
            return Ok(false);
        }
        let mut writes: SmallVec<[&mut Plan; 32]> = writes.collect();
        let mut changes: Vec<Change> = Vec::with_capacity(writes.len());
        for write in &writes {
            let own = |memory: &&Memory| memory.volume == self.id && memory.stream.node == write.node;
            let is_told = |memory: &&Memory| {
                let planned = memory.planned.map(|(planned, _)| planned);
                write.sync == SyncNeed::Beside
                    && planned == Some(Planned::New { integrity: true, is_beside: false })
                    && !memory.rows.is_empty()
            };
            let Some(memory) = write.state().filter(own).filter(is_told) else {
                return Ok(false);
            };
            changes.extend(memory.rows.iter().map(|row| (write.node, Some(*row))));
        }
        let Some(entry) = core.entry_beside(changes, writes.len(), self.now(), buffer) else {
            return Ok(false);
        };
        for memory in writes.iter_mut().filter_map(|write| write.state_mut::<Memory>()) {
            if let Some((Planned::New { is_beside, .. }, _)) = &mut memory.planned {
                *is_beside = true;
            }
        }
        plan.start(Node::ROOT.0, 0, entry.length);
        let kept = plan.kept(|sync: &PlannedSync| sync.volume == self.id);
        let mut sync = kept.unwrap_or_else(|| Box::new(PlannedSync { volume: self.id, is_under_way: true }));
        sync.is_under_way = true;
        plan.keep(sync);
        plan.push(entry.place, 0, entry.length as u32);
        Ok(true)
    }

    pub(super) fn finish_syncing(&self, plan: &mut Plan, done: platter_device::Result<()>) -> Result<()> {
        let own =
            plan.state_mut().filter(|sync: &&mut PlannedSync| sync.volume == self.id && sync.is_under_way);
        let Some(sync) = own else {
            return Err(Error::InvalidArgument("the plan is not a sync of this volume"));
        };
        let mut core = self.core();
        let counts = core.take_beside()?;
        sync.is_under_way = false;
        self.sync_ended.notify_all();
        if let Err(error) = done {
            return Err(self.health.fail(error.into()));
        }
        drop(core);
        if counts { Ok(()) } else { self.make_durable(SyncScope::Data) }
    }

    /// Makes all changes before the call durable, unless another caller does so meanwhile.
    pub(super) fn make_durable(&self, scope: SyncScope) -> Result<()> {
        if scope == SyncScope::All {
            self.wants_times.store(true, Ordering::SeqCst);
        }
        self.await_entry_beside();
        self.group.serve(&self.health, Need::Commit, |memory, _| {
            let with_times = self.wants_times.swap(false, Ordering::SeqCst);
            self.log_or_commit(memory, with_times)
        })
    }

    /// Makes all changes durable. If an entry of the log can hold them all, this writes the entry and flushes; if there
    /// are none that need an entry, it only flushes; else it commits.
    fn log_or_commit(&self, memory: &mut Buffer, with_times: bool) -> Result<()> {
        let commit = self.commits.begin();
        let entry = {
            let mut core = self.core();
            core.promise()?;
            if with_times && self.absorb(&mut core) > 0 {
                drop(core);
                return self.commit_as_leader(memory);
            }
            match (core.news || core.has_entry_beside(), core.waits_for_entry()) {
                (false, false) => None,
                (false, true) => {
                    let entry = core.entry(memory);
                    if entry.is_none() {
                        let now = self.now();
                        core.provide_log(&*self.device, now)?;
                        drop(core);
                        return self.commit_as_leader(memory);
                    }
                    entry
                }
                (true, _) => {
                    drop(core);
                    return self.commit_as_leader(memory);
                }
            }
        };
        let write = |entry: &crate::core::SyncEntry| {
            if entry.needs_data {
                self.health.flush(&*self.device)?;
            }
            let written = self.device.write_at(entry.place, &memory[..entry.length]);
            written.map_err(|error| self.health.fail(error.into()))
        };
        entry.as_ref().map_or(Ok(()), write)?;
        self.health.flush(&*self.device)?;
        self.commits.end(commit);
        Ok(())
    }

    /// Commits everything.
    pub(super) fn commit(&self) -> Result<()> {
        self.group.alone(|memory| self.commit_as_leader(memory))
    }

    /// Commits, as the caller that leads. The times of streams that were written in place may be too many to be stored
    /// at once: the others follow in another commit, for which the first has made room.
    fn commit_as_leader(&self, memory: &mut Buffer) -> Result<()> {
        let mut left = usize::MAX;
        loop {
            let before = std::mem::replace(&mut left, self.commit_once(memory)?);
            if left == 0 || left >= before {
                return Ok(());
            }
        }
    }

    /// Makes one commit. Returns the number of streams written in place whose times there was no room for.
    fn commit_once(&self, memory: &mut Buffer) -> Result<usize> {
        let commit = self.commits.begin();
        let (batch, left, unstored) = {
            let mut core = self.core();
            core.promise()?;
            let left = self.absorb(&mut core);
            if !self.is_written || !core.news && !core.has_written {
                drop(core);
                self.health.flush(&*self.device)?;
                self.commits.end(commit);
                return Ok(left);
            }
            match core.gather() {
                Ok(batch) => (batch, left, core.unstored.take()),
                // Nothing has been written, and all changes are still in memory.
                Err(error) if error.is_full() && !core.pages.is_broken => return Err(error),
                Err(error) => return Err(self.health.fail(error)),
            }
        };
        batch.write(&*self.device, memory, &self.health).map_err(|error| self.health.fail(error))?;
        let mut core = self.core();
        core.pages.space.settle();
        core.shares.settle();
        core.pages.make_room();
        unstored.map_or(Ok(()), Err)?;
        self.commits.end(commit);
        Ok(left)
    }

    /// Ends the volume: refuses changes, waits for the plans that were accepted, commits until nothing is left, and
    /// writes both checkpoints, all before anyone else can make something durable. A second caller does the same again,
    /// and so returns no earlier than all is done.
    pub(super) fn close(&self) -> Result<()> {
        self.health.close("it is unmounted");
        // The keeper may be copying clusters. After this call it writes nothing any more, not even to free clusters.
        self.keeper.stop();
        let streams: Vec<Arc<Stream>> = self.streams.read().values().cloned().collect();
        for stream in streams {
            drop(stream.claim(0..u64::MAX, Access::Write));
        }
        self.await_entry_beside();
        self.group.alone(|memory| {
            if self.is_written {
                self.core().remove_log()?;
            }
            self.commit_as_leader(memory)?;
            let checkpoints = match self.core() {
                core if !self.is_written || core.is_sealed => return self.health.promise(),
                mut core => {
                    core.is_sealed = true;
                    core.for_both_places()
                }
            };
            for (offset, bytes) in checkpoints {
                self.device.write_at(offset, &bytes).map_err(|error| self.health.fail(error.into()))?;
                self.health.flush(&*self.device)?;
            }
            Ok(())
        })
    }

    /// Has the next commit store the times of streams that were written in place, as far as there is room for them.
    /// Returns how many streams are left.
    fn absorb(&self, core: &mut Core) -> usize {
        let mut touched = self.touched.lock();
        while core.spares(0) {
            let Some(node) = touched.pop() else { break };
            if core.is_logged(node) {
                core.note_written(node, &[]);
                continue;
            }
            let owner = match core.entity(node).map(|entity| entity.place.clone()) {
                Ok(RecordPlace::Part { of }) => of,
                Ok(_) => node,
                Err(_) => continue,
            };
            let _ = core.entity_mut(owner);
        }
        touched.len()
    }

    /// Called before a change: commits if more changed pages wait for a commit than the reserve has room for, or so
    /// many changed nodes that they take too much memory. A node that its callers have forgotten stays in memory until
    /// its changes are stored.
    pub(super) fn relieve(&self) -> Result<()> {
        let (pages, nodes) = {
            let core = self.core();
            (core.pages.dirty_count() * self.geometry.page(), core.changed_count())
        };
        let written = self.touched.lock().len();
        if pages > MOST_WAITING || nodes + written > MOST_CHANGED { self.commit() } else { Ok(()) }
    }
}
