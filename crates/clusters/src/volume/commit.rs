//! Making changes durable, phase by phase: see the parent module for what a power cut leaves.

use super::*;

impl<F: Family> Volume<F> {
    /// Returns when the change of this number is durable.
    pub(super) fn commit_through(&self, id: u64) -> Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.committed.load(Ordering::SeqCst) >= id {
            // Someone who waited before committed for us too.
            return Ok(());
        }
        self.commit()
    }

    /// Commits. The caller has the turn.
    pub(super) fn commit(&self) -> Result<()> {
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
    pub(super) fn freeze(&self, core: &mut Core<F>, error: Error) -> Error {
        core.failed = true;
        core.frozen = Some(format!("a write failed that all else depends on: {error}"));
        self.frozen.store(true, Ordering::SeqCst);
        error
    }

    pub(super) fn carry_out(&self, batch: &Batch) -> Result<()> {
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

    pub(super) fn put(&self, images: &Images) -> Result<()> {
        if images.is_empty() {
            return Ok(());
        }
        let writes: Vec<(u64, &[u8])> = images.iter().map(|(offset, data)| (*offset, &data[..])).collect();
        Ok(self.device.write_batch(&writes)?)
    }
}
