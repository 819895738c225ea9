//! How a change begins: with a commit, if many changes wait or space has to be made.

use super::NtfsVolume;
use crate::core::Core;
use platter_device::sync::{METADATA, MutexGuard};
use platter_vfs::{Error, Result};

impl NtfsVolume {
    /// Commits if many changes wait in memory; called before each change.
    fn relieve(&self) -> Result<()> {
        let is_much = {
            let core = self.core();
            self.health.writable().is_ok() && self.is_much(&core)
        };
        // A node that cannot be recorded yet stays touched; a sync of that node reports the error.
        if is_much { self.commit().map(drop) } else { Ok(()) }
    }

    /// Makes clusters that were given up usable again, if there are any, by a commit and a checkpoint.
    fn make_space(&self) -> Result<()> {
        self.give_back_ahead();
        self.health.writable()?;
        self.group.alone(|turn| {
            self.commit_in(turn)?;
            self.checkpoint(turn)
        })
    }

    /// The core, locked for a change. Commits first if many changes wait; fails if the volume cannot be written.
    pub(super) fn change(&self) -> Result<MutexGuard<'_, Core, METADATA>> {
        self.relieve()?;
        let core = self.core();
        core.writable()?;
        Ok(core)
    }

    /// The core, locked for an operation that may turn out to change nothing, and so is allowed on a read-only volume.
    pub(super) fn change_or_read(&self) -> Result<MutexGuard<'_, Core, METADATA>> {
        self.relieve()?;
        Ok(self.core())
    }

    /// Runs an operation that allocates. If it finds no space, commits, which may free some, and runs it once more.
    pub(super) fn with_space<T>(&self, mut operation: impl FnMut() -> Result<T>) -> Result<T> {
        match operation() {
            Err(Error::NoSpace) => {
                self.make_space()?;
                operation()
            }
            outcome => outcome,
        }
    }
}
