//! Where the content of a stream lies.

use super::NtfsVolume;
use crate::runlist::Runs;
use crate::stream::{StreamPlace, StreamState};
use platter_vfs::{Extent, Node, Place, Result};
use std::ops::Range;

impl NtfsVolume {
    pub(super) fn extents_of(&self, node: Node, range: &Range<u64>) -> Result<Vec<Extent>> {
        let stream = self.data_of(node)?;
        let state = stream.read();
        let size = state.size;
        let all = |place| Extent { offset: 0, length: size, place }.within(range).into_iter().collect();
        if state.packed.is_some() {
            return Ok(all(Place::Compressed));
        }
        state.check_here()?;
        let runs = match &state.place {
            StreamPlace::Resident(_) => return Ok(all(Place::Resident)),
            StreamPlace::Runs(_) if state.is_compressed() => {
                let extents = self.compressed_extents(&state).into_iter();
                return Ok(extents.filter_map(|extent| extent.within(range)).collect());
            }
            StreamPlace::Runs(runs) => runs,
        };
        let mut extents: Vec<Extent> = Vec::new();
        for run in runs.from(range.start / self.cluster) {
            let first = run.vcn * self.cluster;
            let (start, end) = (first.max(range.start), (run.end() * self.cluster).min(size).min(range.end));
            if start >= end {
                break;
            }
            let Some(lcn) = run.lcn else {
                extents.push(Extent { offset: start, length: end - start, place: Place::Hole });
                continue;
            };
            for (part, is_written) in state.parts(start..end) {
                let at = lcn * self.cluster + (part.start - first);
                let place = if is_written { Place::Device(at) } else { Place::Unwritten(at) };
                extents.push(Extent { offset: part.start, length: part.end - part.start, place });
            }
        }
        Ok(extents)
    }

    /// The extents of a compressed stream. The content of a unit that takes fewer clusters than it has is in all of the
    /// unit, so only a unit without any cluster is a hole.
    fn compressed_extents(&self, state: &StreamState) -> Vec<Extent> {
        let unit = self.unit_clusters(state) * self.cluster;
        let mut extents: Vec<Extent> = Vec::new();
        let mut add = |range: Range<u64>, place: Place| match extents.last_mut() {
            _ if range.is_empty() => {}
            Some(last) if last.place == place => last.length += range.end - range.start,
            _ => extents.push(Extent { offset: range.start, length: range.end - range.start, place }),
        };
        let mut at = 0;
        for run in state.runs().iter().filter(|run| run.lcn.is_some()) {
            let start = (run.vcn * self.cluster / unit * unit).clamp(at, state.size);
            let end = (run.end() * self.cluster).next_multiple_of(unit).clamp(at, state.size);
            add(at..start, Place::Hole);
            add(start..end, Place::Compressed);
            at = end;
        }
        add(at..state.size, Place::Hole);
        extents
    }
}
