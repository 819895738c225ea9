//! How an operation changes the volume: with room for what it adds, alone where it needs that, and once more after a
//! commit where that frees room.

use super::Volume;
use crate::core::Core;
use crate::stream::{Stream, StreamState};
use platter_device::sync::{FILE, METADATA, MutexGuard, RwLockWriteGuard};
use platter_vfs::{Claim, Error, Result};

/// The pages that must be free for a change of some rows: the path from root to leaf in each of four trees.
pub(super) const TO_CHANGE: u64 = 48;
/// The pages that must be free for exchanging two entries, which is three moves.
pub(super) const TO_EXCHANGE: u64 = 3 * TO_CHANGE;
/// The pages that must be free for a change that adds to the volume, so that on a full one pages are left for removing.
pub(super) const TO_ADD: u64 = 4 * TO_CHANGE;

/// A stream that the caller has to itself: the claim, and the locks of the metadata and of the stream.
pub(super) type Alone<'a> =
    (Claim<'a>, MutexGuard<'a, Core, METADATA>, RwLockWriteGuard<'a, StreamState, FILE>);

impl Volume {
    /// Locks the core for a change that does not add to the volume.
    pub(super) fn change(&self) -> Result<MutexGuard<'_, Core, METADATA>> {
        self.change_with(TO_CHANGE)
    }

    /// Locks the core for a change that may add to the volume.
    pub(super) fn grow(&self) -> Result<MutexGuard<'_, Core, METADATA>> {
        self.change_with(TO_ADD)
    }

    /// Locks the core for a change that takes up to `room` pages besides those that the next commit takes for earlier
    /// changes. If so many are not free, a commit comes first where it may free some.
    pub(super) fn change_with(&self, room: u64) -> Result<MutexGuard<'_, Core, METADATA>> {
        let core = self.core();
        core.writable()?;
        if core.spares(room) {
            return Ok(core);
        }
        drop(core);
        if self.is_waiting() {
            self.commit()?;
        }
        let core = self.core();
        core.writable()?;
        if core.spares(room) { Ok(core) } else { Err(Error::NoSpace) }
    }

    /// Like [`Volume::change_with`], with the whole stream claimed and locked for the caller.
    pub(super) fn change_alone<'a>(&'a self, stream: &'a Stream, room: u64) -> Result<Alone<'a>> {
        let claim = stream.claim_all();
        let core = self.change_with(room)?;
        Ok((claim, core, stream.write()))
    }

    /// Makes a change of several rows, which takes up to `room` pages. If it fails after some rows were changed,
    /// nothing more is written to the volume.
    pub(super) fn as_one<T>(&self, room: u64, change: impl FnOnce(&mut Core) -> Result<T>) -> Result<T> {
        let mut core = self.change_with(room)?;
        let before = core.pages.edits;
        let changed = change(&mut core);
        core.pages.is_broken |= changed.is_err() && core.pages.edits != before;
        changed
    }

    /// Runs an operation that takes clusters, and sets its argument to the number that it lacks, if known. If there is
    /// no room, and a commit may free enough clusters, commits and runs the operation once more.
    pub(super) fn with_space<T>(&self, mut operation: impl FnMut(&mut u64) -> Result<T>) -> Result<T> {
        let mut lacks = 0;
        match operation(&mut lacks) {
            Err(Error::NoSpace) if self.is_worth(lacks) => {
                self.commit()?;
                operation(&mut lacks)
            }
            outcome => outcome,
        }
    }

    /// Whether a commit may free as many clusters for data as are lacking or, with 0, room for pages. Otherwise each
    /// write that a full volume refuses would cause a commit.
    fn is_worth(&self, lacks: u64) -> bool {
        self.is_waiting() && (lacks == 0 || self.core().pages.space.parked() >= lacks)
    }

    /// Whether a commit may free room, for data or for pages.
    fn is_waiting(&self) -> bool {
        let core = self.core();
        core.news || core.has_written || core.pages.space.parked() > 0
    }
}
