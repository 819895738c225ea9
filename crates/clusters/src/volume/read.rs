//! Reading content, in two halves: planning and finishing.

use super::Volume;
use crate::Family;
use crate::file::{FileState, Planned};
use platter_vfs::{Access, Node, Plan, Result};
use std::ops::Range;

impl<F: Family> Volume<F> {
    /// Adds to a plan the segments and holes for a range of what readers see.
    #[inline]
    fn fill_read(&self, state: &FileState, range: Range<u64>, plan: &mut Plan) -> Result<()> {
        if range.end <= state.valid {
            return state.fill(&self.heap, range.start..self.sector_end(range.end), range.start, plan);
        }
        for (part, written) in state.parts(range.clone()) {
            if written {
                // Whole sectors: the bytes around the part are not the file's, or they belong to another part of this
                // range.
                let sectors = part.start & !(u64::from(self.sector) - 1)..self.sector_end(part.end);
                state.fill(&self.heap, sectors, range.start, plan)?;
            } else {
                plan.holes.push((part.start - range.start) as u32..(part.end - range.start) as u32);
            }
        }
        Ok(())
    }

    /// First half of a read.
    pub(super) fn plan_reading(&self, node: Node, offset: u64, length: usize, plan: &mut Plan) -> Result<()> {
        self.check_aligned(offset, length)?;
        plan.start(node.0, offset, 0);
        let mut known = self.remember(node, plan)?;
        let pass = self.shared(&known.file, |state| {
            let covered = state.seen().saturating_sub(offset).min(length as u64);
            plan.length = covered as usize;
            let pass = known.file.enter(offset..offset + length as u64, Access::Read)?;
            let filled = self.fill_read(state, offset..offset + covered, plan);
            if filled.is_err() {
                known.file.leave(pass);
            }
            filled.map(|()| pass)
        })?;
        known.planned = Some((Planned::Read, pass));
        plan.keep(known);
        Ok(())
    }

    /// Second half of a read.
    pub(super) fn finish_reading(
        &self,
        plan: &mut Plan,
        buffer: &mut [u8],
        done: platter_device::Result<()>,
    ) -> Result<usize> {
        let (known, _, pass) = self.finishing(plan)?;
        self.leave(&known.file, pass);
        plan.keep(known);
        done?;
        plan.clear_holes(buffer);
        Ok(plan.length)
    }
}
