//! New clusters for planned writes, and the rows that put them on record.

use super::Volume;
use super::data::{Memory, Planned};
use super::stamps::tells_of;
use super::taking::Part;
use crate::core::Core;
use crate::extents::{Extent, Extents, RunKind};
use crate::layout::crc32c;
use crate::stream::{StreamContent, StreamState};
use platter_vfs::{Plan, Result, SyncNeed};

impl Volume {
    /// Takes new clusters for the holes of a range, and for clusters that must not be overwritten, and fills the plan.
    pub(super) fn take_clusters(
        &self,
        core: &mut Core,
        state: &mut StreamState,
        memory: &mut Memory,
        from: u32,
        to: u32,
        plan: &mut Plan,
    ) -> Result<Planned> {
        let cluster = self.geometry.cluster;
        let Memory { stream, taken, is_moving, owes, lacks, .. } = memory;
        let end = plan.offset + plan.length as u64;
        // Inline content goes to clusters now, so that the record has room for the new runs once their clusters are
        // written.
        self.spill_inline(core, stream, state)?;
        // Where the range has no holes and all of it goes to new clusters, its present runs make no difference.
        let is_known = *is_moving
            && !state.shared
            && state.extents().is_some_and(|extents| extents.is_dense() && u64::from(to) <= extents.end());
        if let (StreamContent::Extents(extents), false) = (&mut state.content, is_known) {
            // The run before the range is loaded too, so that new clusters can follow it.
            extents.load_range(&mut core.pages, from.saturating_sub(1), to)?;
        }
        let can_be_told = state.integrity && end <= state.size && tells_of(core, stream, state);
        plan.sync = if can_be_told { SyncNeed::Beside } else { SyncNeed::After };
        let part = Part { range: from..to, is_known };
        let took = self.take_for(core, state, part, taken, lacks, |at, count, first| {
            plan.push(self.device_offset(first)?, (at - from) * cluster, count * cluster);
            Ok(())
        });
        took.inspect_err(|_| plan.segments.clear())?;
        *owes = Extents::pages_of((to - from) as usize, &self.geometry);
        core.pages.space.runs_owed().change(0, *owes);
        Ok(Planned::New { integrity: state.integrity, is_beside: false })
    }

    /// Makes the rows for the clusters that were taken for a write: with integrity one row for each cluster, with its
    /// checksum. No lock is held meanwhile.
    pub(super) fn make_rows(&self, memory: &mut Memory, offset: u64, has_integrity: bool, data: &[u8]) {
        let Memory { taken, rows, .. } = memory;
        rows.clear();
        let cluster = self.geometry.cluster as usize;
        let first = (offset / cluster as u64) as u32;
        for &(at, run) in taken.iter() {
            let number = self.geometry.number(run.container, run.start);
            if !has_integrity {
                rows.push(Extent { at, count: run.count, cluster: number, kind: RunKind::PLAIN });
                continue;
            }
            let start = (at - first) as usize * cluster;
            let content = data[start..][..run.count as usize * cluster].chunks_exact(cluster);
            rows.extend((at..).zip(number..).zip(content).map(|((at, cluster), content)| Extent {
                at,
                count: 1,
                cluster,
                kind: RunKind::Checked(crc32c(content)),
            }));
        }
    }
}
