//! What a plan keeps between its two halves.

use super::Volume;
use crate::Family;
use crate::file::{File, Planned, Remembered};
use platter_vfs::{Node, Pass, Plan, Result};
use std::sync::atomic::Ordering;

impl<F: Family> Volume<F> {
    /// Takes from a plan the file that it remembers from its last request, so that the file need not be looked up
    /// again; looks up the file if the plan was for another one. The caller puts the result back into the plan.
    #[inline]
    pub(super) fn remember(&self, node: Node, plan: &mut Plan) -> Result<Box<Remembered>> {
        let is_same = |known: &Remembered| {
            // A number comes again: the file of the last request may be gone, and another one be where it was.
            known.volume == self.id
                && known.file.number == node.0
                && known.file.is_listed.load(Ordering::Acquire)
        };
        match plan.kept(is_same) {
            Some(known) => Ok(known),
            None => Ok(Box::new(Remembered { volume: self.id, file: self.file(node)?, planned: None })),
        }
    }

    /// Takes what a plan that is being finished was made for. The caller puts the memory back into the plan.
    #[inline]
    pub(super) fn finishing(&self, plan: &mut Plan) -> Result<(Box<Remembered>, Planned, Pass)> {
        let node = plan.node;
        let mut known =
            plan.own(|known: &Remembered| known.volume == self.id && known.file.number == node)?;
        let (planned, pass) = known.planned.take().ok_or(Plan::FINISHED)?;
        Ok((known, planned, pass))
    }

    /// Counts a plan as finished, and drops the file from memory if it was the last use.
    #[inline]
    pub(super) fn leave(&self, file: &File, pass: Pass) {
        if file.leave(pass) {
            self.let_go(file.number);
        }
    }
}
