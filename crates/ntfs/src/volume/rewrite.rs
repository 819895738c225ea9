//! Writes that may change where content lies, done with the core and the stream locked.

use super::NtfsVolume;
use super::clusters::is_there;
use crate::core::Core;
use crate::layout::Run;
use crate::stream::{Stream, StreamPlace, StreamState};
use platter_vfs::Result;
use std::ops::Range;

impl NtfsVolume {
    /// Takes the clusters that a write in several steps needs, so that no step is refused for want of space.
    pub(super) fn prepare(&self, stream: &Stream, range: Range<u64>) -> Result<()> {
        {
            let state = stream.read();
            state.check_plain()?;
            let (first, last) = (range.start / self.cluster, range.end.div_ceil(self.cluster));
            if matches!(state.place, StreamPlace::Runs(_)) && is_there(state.runs(), first, last) {
                return Ok(());
            }
        }
        let mut core = self.change()?;
        let mut state = stream.write();
        if let StreamPlace::Resident(content) = &state.place {
            let grown = usize::try_from(range.end).unwrap_or(usize::MAX).max(content.len());
            if self.may_be_resident(&mut core, stream.node, grown)? {
                return Ok(());
            }
            self.move_out(&mut core, stream.node, &mut state)?;
        }
        if state.is_compressed() {
            return Ok(());
        }
        // Readers come between the steps, so clusters that are not written yet must hold zeroes.
        let nothing = range.start..range.start;
        self.provide(&mut core, stream.node, &mut state, range, nothing, true)
    }

    /// Writes any bytes with the stream locked, for a caller that has claimed them or has a plan of whole sectors.
    pub(super) fn rewrite(&self, stream: &Stream, offset: u64, data: &[u8]) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        {
            // Allocated clusters are overwritten without the core's lock, and readers go on.
            let state = stream.read();
            state.check_plain()?;
            let end = offset + data.len() as u64;
            if matches!(state.place, StreamPlace::Runs(_))
                && end <= state.valid.min(state.size)
                && !state.is_compressed()
                && is_there(state.runs(), offset / self.cluster, end.div_ceil(self.cluster))
            {
                self.write_bytes(&state, offset, data)?;
                drop(state);
                self.note_write(stream);
                return Ok(());
            }
        }
        let mut core = self.change()?;
        let mut state = stream.write();
        self.write_locked(&mut core, stream.node, &mut state, offset, data)?;
        // The valid length, which this write moved, is recorded with the times by the next commit.
        self.note_growth(stream);
        Ok(())
    }

    fn write_locked(
        &self,
        core: &mut Core,
        node: u64,
        state: &mut StreamState,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        state.check_plain()?;
        let end = offset + data.len() as u64;
        if let StreamPlace::Resident(content) = &state.place {
            let grown = (end as usize).max(content.len());
            if self.may_be_resident(core, node, grown)? {
                return self.remake(core, node, state, |_, state| {
                    if let StreamPlace::Resident(content) = &mut state.place {
                        content.resize(grown, 0);
                        content[offset as usize..end as usize].copy_from_slice(data);
                    }
                    state.size = grown as u64;
                    (state.valid, state.planned) = (state.size, state.size);
                    Ok(())
                });
            }
            self.move_out(core, node, state)?;
        }
        if state.is_compressed() {
            self.clear_to(core, node, state, offset)?;
            return self.write_compressed(core, node, state, offset, data);
        }
        let last = end.div_ceil(self.cluster).min(state.clusters());
        let holes = state.runs().part((offset / self.cluster).min(last), last);
        let holes: Vec<Run> = holes.into_iter().filter(|run| run.lcn.is_none()).collect();
        self.provide(core, node, state, offset..end, offset..end, true)?;
        if offset > state.planned {
            let gap = state.planned..offset;
            self.write_zeroes(state, gap.clone())?;
            state.note_written(gap);
        }
        let written = self.write_bytes(state, offset, data);
        if written.is_err() {
            // Clusters that took the place of holes still hold what their former owners wrote.
            for hole in holes {
                let range = hole.vcn * self.cluster..hole.end() * self.cluster;
                self.give_back_clusters(core, node, state, range).map_err(|error| self.health.fail(error))?;
            }
        }
        written?;
        state.note_written(offset..end);
        state.size = state.size.max(end);
        Ok(())
    }
}
