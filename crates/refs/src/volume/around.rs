//! Writes of part of a cluster with a checksum: the clusters around the write are read ahead, changed in memory and
//! written to new clusters, as whole ones are. No lock and no claim is held meanwhile. If another write has changed the
//! clusters by the time that the new ones are recorded, the write is carried out slowly after all.

use super::Volume;
use super::ahead::Around;
use super::data::{Memory, Planned};
use crate::stream::{StreamContent, StreamState};
use platter_vfs::{Access, Claim, Pass, Plan, Result, SyncNeed};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// What became of an attempt to plan a write.
pub(super) enum Attempt {
    Planned(Planned, Pass),
    /// The plan asks for a preread.
    Preread,
    /// The write takes new clusters for all of its range.
    New,
    /// The write is one of part of a cluster with a checksum.
    Around,
    /// The stream has changed meanwhile.
    Again,
}

/// The clusters at the ends of a range of bytes that the range covers only in part.
fn cut_clusters(range: &Range<u64>, cluster: u64) -> SmallVec<[Range<u32>; 2]> {
    let (first, last) = ((range.start / cluster) as u32, (range.end / cluster) as u32);
    let (head, tail) = (!range.start.is_multiple_of(cluster), !range.end.is_multiple_of(cluster));
    match (head, tail) {
        (true, true) if first == last => smallvec![first..first + 1],
        (true, true) => smallvec![first..first + 1, last..last + 1],
        (true, false) => smallvec![first..first + 1],
        (false, true) => smallvec![last..last + 1],
        (false, false) => smallvec![],
    }
}

/// Whether a write of these bytes is one of part of a cluster with a checksum that changes nothing but content.
pub(super) fn is_around(state: &StreamState, range: &Range<u64>, cluster: u64) -> bool {
    let is_cut = !(range.start | range.end).is_multiple_of(cluster) && !range.is_empty();
    is_cut && state.integrity && state.extents().is_some() && range.end <= state.valid()
}

impl Volume {
    /// Plans a write of part of a cluster with a checksum, or has the plan ask for the clusters around it.
    pub(super) fn take_around(
        &self,
        memory: &mut Memory,
        data: &[u8],
        plan: &mut Plan,
        within: Option<&Claim<'_>>,
    ) -> Result<Attempt> {
        let cluster = u64::from(self.geometry.cluster);
        let range = plan.offset..plan.offset + data.len() as u64;
        let (from, to) = self.clusters(range.clone());
        let mut core = self.grow()?;
        let stream = memory.stream.clone();
        let mut state = stream.write();
        let state = &mut *state;
        let valid = state.valid();
        if !is_around(state, &range, cluster) || !memory.ahead.is_open(plan) {
            return Ok(Attempt::Again);
        }
        let StreamContent::Extents(extents) = &state.content else { return Ok(Attempt::Again) };
        if !extents.is_loaded(from, to) {
            return Ok(Attempt::Again);
        }
        let parts = cut_clusters(&range, cluster);
        let Some(around) = memory.ahead.take(extents, &parts) else {
            let is_asked = self.ask_clusters(extents, from..to, parts, &mut memory.ahead, plan)?;
            return Ok(if is_asked { Attempt::Preread } else { Attempt::Again });
        };
        let pass = stream.enter(range.clone(), Access::Write, within)?;
        memory.is_moving = true;
        let planned = match self.take_clusters(&mut core, state, memory, from, to, plan) {
            Ok(planned) => planned,
            Err(error) => {
                stream.leave(pass);
                memory.ahead.put_back(around);
                return Err(error);
            }
        };
        drop(core);
        let Around { rows, mut content } = around;
        let start = u64::from(from) * cluster;
        let kept = (valid - start).min(content.len() as u64) as usize;
        content[kept..].fill(0);
        content[(range.start - start) as usize..][..data.len()].copy_from_slice(data);
        self.make_rows(memory, start, true, &content);
        // An entry of the log of syncs must not be written before it is sure that no other write has changed the clusters
        // meanwhile: after a power cut it would put the older content in the place of the newer.
        plan.sync = SyncNeed::After;
        (plan.content, memory.before) = (Some(content), Some(rows));
        Ok(Attempt::Planned(planned, pass))
    }
}
