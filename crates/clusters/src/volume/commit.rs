//! Commits: making changes durable, phase by phase. The parent module describes what a power cut leaves.

use super::Volume;
use crate::core::Batch;
use crate::file::File;
use crate::{Family, Images};
use platter_vfs::{Error, Need, Result};
use std::sync::atomic::Ordering;

/// When this many bytes of changes wait, the next operation commits them.
const BACKLOG: usize = 48 << 20;

impl<F: Family> Volume<F> {
    /// Makes durable every change made before the call, or only what the device had accepted before it, as `need` says.
    pub(super) fn make_durable(&self, need: Need) -> Result<()> {
        self.group.serve(&self.health, need, |(), need| match need {
            Need::Flush => self.health.flush(&*self.device),
            Need::Commit => self.commit(),
        })
    }

    /// Commits. The caller has the leadership.
    pub(super) fn commit(&self) -> Result<()> {
        let batch = {
            let mut core = self.core();
            self.health.promise()?;
            core.gather().map_err(|error| self.health.fail(error))?
        };
        self.carry_out(&batch).map_err(|error| self.health.fail(error))?;
        self.core().release(&batch);
        self.committed.store(batch.id, Ordering::SeqCst);
        for number in &batch.pinned {
            self.let_go(*number);
        }
        Ok(())
    }

    /// Marks the volume as not in use on disk. The caller has the leadership, and everything is committed.
    pub(super) fn seal(&self) -> Result<()> {
        let images = {
            let mut core = self.core();
            if core.was_dirty || !core.marked {
                return Ok(());
            }
            core.marked = false;
            F::mark(&mut core, false)?
        };
        self.put(&images).map_err(|error| self.health.fail(error))?;
        self.health.flush(&*self.device)
    }

    fn carry_out(&self, batch: &Batch) -> Result<()> {
        if !batch.mark.is_empty() {
            self.put(&batch.mark)?;
            self.health.flush(&*self.device)?;
        }
        self.put(&batch.linked)?;
        // Whether something was written that must be durable before the next phase is written.
        let mut open = batch.depends || !batch.linked.is_empty();
        for images in [&batch.grown, &batch.named, &batch.erased, &batch.freed] {
            if !images.is_empty() {
                if open {
                    self.health.flush(&*self.device)?;
                }
                self.put(images)?;
                open = true;
            }
        }
        self.health.flush(&*self.device)?;
        Ok(())
    }

    fn put(&self, images: &Images) -> Result<()> {
        if images.is_empty() {
            return Ok(());
        }
        let writes: Vec<(u64, &[u8])> = images.iter().map(|(offset, data)| (*offset, &data[..])).collect();
        Ok(self.device.write_batch(&writes)?)
    }

    /// Runs an operation that may need space. If it fails for want of space although a commit will free some, commits
    /// and runs it again. Afterwards commits if too many changes wait.
    pub(super) fn with_space<T>(&self, mut run: impl FnMut() -> Result<T>) -> Result<T> {
        let mut result = run();
        if matches!(result, Err(Error::NoSpace | Error::DirectoryFull { .. })) {
            let hope = {
                let core = self.core();
                core.waiting > 0 || core.change.erases
            };
            if hope {
                self.make_durable(Need::Commit)?;
                result = run();
            }
        }
        if result.is_ok() {
            let backlog = self.core().backlog();
            if backlog > BACKLOG {
                self.make_durable(Need::Commit)?;
            }
        }
        result
    }

    /// Commits before a truncated file that kept some clusters grows, if its truncation is not yet durable. Otherwise
    /// the table would link the kept clusters to new ones before the entry has the smaller size, and after a power cut
    /// old content of the new clusters would be read as this file's.
    pub(super) fn commit_cut(&self, file: &File) -> Result<()> {
        let cut = file.read().cut_in;
        if cut > self.committed.load(Ordering::SeqCst) { self.make_durable(Need::Commit) } else { Ok(()) }
    }
}
