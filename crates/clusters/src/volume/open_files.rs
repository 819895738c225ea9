//! The files in memory, by node: looked up, locked, and the checks of what a caller asks of them.

use super::Volume;
use crate::Family;
use crate::core::Core;
use crate::file::{File, FileState};
use platter_device::sync::{FILE, METADATA, MutexGuard, RwLockWriteGuard};
use platter_vfs::{Error, Kind, Node, Plan, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
        if state.dead || !file.is_listed.load(Ordering::Acquire) {
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
                format: self.name,
                limit: self.capabilities.largest_file,
                wanted: end.unwrap_or(u64::MAX),
            }),
        }
    }

    pub(super) fn check_aligned(&self, offset: u64, length: usize) -> Result<()> {
        Plan::check_range(self.sector, offset, length)
    }

    /// Notes the present time as that of the file's last change.
    pub(super) fn touch(&self, file: &File) {
        file.modified.store(self.device.now().as_nanos() as u64, Ordering::Release);
        file.touched.store(true, Ordering::Release);
    }

    /// Waits until no other caller has claimed a part of a file.
    pub(super) fn wait_for_plans(&self, node: Node) {
        if let Some(file) = self.files.get(node.0) {
            file.wait_free();
        }
    }
}
