//! Where the content of a file lies.

use super::Volume;
use crate::Family;
use platter_vfs::{Extent, Node, Place, Result};
use std::ops::Range;

impl<F: Family> Volume<F> {
    /// The places of a range of what readers see.
    pub(super) fn extents_of(&self, node: Node, range: Range<u64>) -> Result<Vec<Extent>> {
        let file = self.file(node)?;
        self.shared(&file, |state| {
            let mut extents: Vec<Extent> = Vec::new();
            let range = range.start..range.end.min(state.seen());
            let mut at = range.start;
            for (range, written) in state.parts(range) {
                state.pieces(&self.heap, range, |place, length| {
                    let place = if written { Place::Device(place) } else { Place::Unwritten(place) };
                    extents.push(Extent { offset: at, length, place });
                    at += length;
                    Ok(())
                })?;
            }
            Ok(extents)
        })
    }
}
