//! Writing content, in two halves: planning and finishing; and both at once for any bytes.

use super::Volume;
use crate::Family;
use crate::file::{FileState, Planned};
use platter_vfs::blocking::plan_when_free;
use platter_vfs::{Node, Plan, Result, SyncNeed};

impl<F: Family> Volume<F> {
    /// First half of a write.
    pub(super) fn plan_writing(&self, node: Node, offset: u64, data: &[u8], plan: &mut Plan) -> Result<()> {
        self.check_aligned(offset, data.len())?;
        plan.start(node.0, offset, data.len());
        let mut known = self.remember(node, plan)?;
        let file = &known.file;
        let end = self.check_size(offset.checked_add(data.len() as u64))?;
        let in_place = self.shared(file, |state| match end <= state.valid || data.is_empty() {
            true => self.plan_in_place(file, state, offset, data.len(), plan).map(Some),
            false => Ok(None),
        })?;
        known.planned = Some(match in_place {
            Some(planned) => planned,
            None => self.plan_extension(file, offset, data.len(), plan)?,
        });
        plan.keep(known);
        Ok(())
    }

    /// Second half of a write.
    pub(super) fn finish_writing(
        &self,
        plan: &mut Plan,
        data: &[u8],
        done: platter_device::Result<()>,
    ) -> Result<bool> {
        let (known, planned, pass) = self.finishing(plan)?;
        let file = &known.file;
        let recorded = if let Planned::Extension { ticket } = planned {
            let range = plan.offset..plan.offset + plan.length as u64;
            let again =
                |state: &FileState, from| self.fill_zeroes(state, from, plan.offset, &data[..plan.length]);
            self.finish_extension(file, range, ticket, done.is_ok(), again)
        } else {
            if done.is_ok() && plan.length > 0 {
                self.touch(file);
            }
            Ok(())
        };
        self.leave(file, pass);
        plan.keep(known);
        done?;
        recorded?;
        Ok(plan.sync == SyncNeed::After)
    }

    /// Writes any bytes: whole sectors as a plan, the others with their blocks claimed.
    pub(super) fn write_any(&self, node: Node, offset: u64, data: &[u8]) -> Result<()> {
        let file = self.file(node)?;
        self.may_write(&file)?;
        self.check_size(offset.checked_add(data.len() as u64))?;
        if data.is_empty() {
            return Ok(());
        }
        if self.check_aligned(offset, data.len()).is_err() || self.is_new_block(&file, offset, data.len())? {
            return self.write_claimed(&file, offset, data);
        }
        let mut plan = Plan::default();
        let make = |plan: &mut Plan| self.plan_writing(node, offset, data, plan);
        plan_when_free(&mut plan, &*self.device, make, || file.wait_free())?;
        let done = plan.write_to(&*self.device, data);
        self.finish_writing(&mut plan, data, done).map(drop)
    }
}
