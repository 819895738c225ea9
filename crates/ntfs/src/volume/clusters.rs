//! Clusters of a stream: taken, zeroed, written, given back. What all writers share.

use super::NtfsVolume;
use super::attributes::standard;
use crate::core::{Core, DETACHED};
use crate::file::{Attr, Body, Outside};
use crate::layout::{Kind as Type, Run, attribute_flags, file_flags};
use crate::runlist::{RunList, Runs};
use crate::space::Held;
use crate::stream::{StreamPlace, StreamState};
use platter_device::write_any;
use platter_vfs::{Error, Result};
use std::ops::Range;

/// The length in bytes from which a gap becomes a hole instead of being given clusters.
pub(super) const HOLE: u64 = 64 << 10;
/// The number of bytes of clusters that are taken ahead of content, at most.
const AHEAD: u64 = 8 << 20;

// What is allocated ahead is more than a hole that is filled for a write.
const _: () = assert!(HOLE < AHEAD && HOLE.is_power_of_two());

impl NtfsVolume {
    /// The number of a node's file and the name of its stream.
    pub(super) fn place_of(&self, core: &Core, node: u64) -> Result<(u64, Box<[u16]>)> {
        let entity = core.nodes.get(node)?;
        Ok((entity.file, entity.part.as_ref().map(|(_, name)| name.clone()).unwrap_or_default()))
    }

    /// Stores the place of a stream's content in its file's record.
    fn store_data(&self, core: &mut Core, node: u64, state: &StreamState) -> Result<()> {
        let (number, name) = self.place_of(core, node)?;
        let mut file = (*core.file(number)?).clone();
        let body = match &state.place {
            StreamPlace::Resident(value) => Body::Resident { value: value.clone(), indexed: false },
            StreamPlace::Runs(runs) => Body::Outside(Outside {
                runs: runs.clone(),
                size: state.size,
                valid: state.valid.min(state.size),
                unit: state.unit,
            }),
        };
        file.put(Attr { kind: Type::DATA, name: name.clone(), flags: state.flags, body });
        let mut standard = standard(&file)?;
        if name.is_empty()
            && state.flags & attribute_flags::SPARSE != 0
            && standard.flags & file_flags::SPARSE == 0
        {
            standard.flags |= file_flags::SPARSE;
            file.put(Attr::resident(Type::STANDARD_INFORMATION, standard.to_bytes()));
        }
        core.store(file)
    }

    pub(super) fn is_on_disk(&self, core: &Core, node: u64) -> Result<bool> {
        Ok(core.nodes.get(node)?.file < DETACHED)
    }

    /// Changes a stream's state and its attribute in the record, both or neither.
    pub(super) fn remake<T>(
        &self,
        core: &mut Core,
        node: u64,
        state: &mut StreamState,
        change: impl FnOnce(&mut Core, &mut StreamState) -> Result<T>,
    ) -> Result<T> {
        let mut new = state.copy();
        let outcome = core.transact(|core| {
            let outcome = change(core, &mut new)?;
            self.store_data(core, node, &new)?;
            Ok(outcome)
        })?;
        *state = new;
        if let Some(stream) = core.nodes.get(node).ok().and_then(|entity| entity.stream.as_ref()) {
            self.commits.note(&stream.resized);
        }
        Ok(outcome)
    }

    /// Allocates every cluster of a range, also past the present end. The content stays as it is, except in `written`,
    /// which the caller is about to write: clusters for holes are zeroed outside `written`. If `ahead`, more clusters
    /// may be taken for content to come.
    pub(super) fn provide(
        &self,
        core: &mut Core,
        node: u64,
        state: &mut StreamState,
        range: Range<u64>,
        written: Range<u64>,
        ahead: bool,
    ) -> Result<()> {
        let cluster = self.cluster;
        let (first, last) = (range.start / cluster, range.end.div_ceil(cluster));
        let known = state.clusters();
        if is_there(state.runs(), first, last) {
            return Ok(());
        }
        let on_disk = self.is_on_disk(core, node)?;
        self.remake(core, node, state, |core, state| {
            let StreamPlace::Runs(runs) = &mut state.place else { return Ok(()) };
            for hole in runs.part(first, last.min(known)).into_iter().filter(|run| run.lcn.is_none()) {
                self.fill_hole(core, runs, hole, on_disk, written.clone())?;
            }
            if last <= known {
                return Ok(());
            }
            let mut outside = Outside { runs: std::mem::take(runs), ..Outside::default() };
            if (first.saturating_sub(known)) * cluster >= HOLE {
                outside.push(None, first - known);
                state.flags |= attribute_flags::SPARSE;
            }
            let wanted = last - outside.clusters();
            let goes_on = range.start <= known * cluster && state.size > 0;
            let more = match ahead && goes_on {
                true => (state.size.min(AHEAD) / cluster).min(core.space.at_hand() / 16),
                false => 0,
            };
            if more == 0 || core.extend(&mut outside, wanted + more, on_disk, false).is_err() {
                core.extend(&mut outside, wanted, on_disk, false)?;
            } else {
                state.is_ahead = true;
            }
            state.place = StreamPlace::Runs(outside.runs);
            Ok(())
        })
    }

    /// Takes clusters for a hole. Their bytes outside `written` are zeroed on the device.
    fn fill_hole(
        &self,
        core: &mut Core,
        runs: &mut RunList,
        hole: Run,
        on_disk: bool,
        written: Range<u64>,
    ) -> Result<()> {
        let cluster = self.cluster;
        let before =
            hole.vcn.checked_sub(1).and_then(|vcn| runs.part(vcn, vcn + 1).first().and_then(|run| run.lcn));
        let mut outside = Outside::default();
        outside.push(None, hole.vcn);
        if core.space.at_hand() < hole.length + core.reserve() {
            return Err(Error::NoSpace);
        }
        let mut near = before.map(|lcn| lcn + 1);
        while outside.clusters() < hole.end() {
            let found = core.take_clusters(near, hole.end() - outside.clusters(), on_disk)?;
            outside.push(Some(found.0), found.1);
            near = Some(found.0 + found.1);
        }
        let new = outside.runs.part(hole.vcn, hole.end());
        let (start, end) = (hole.vcn * cluster, hole.end() * cluster);
        for gap in [start..written.start.clamp(start, end), written.end.clamp(start, end)..end] {
            self.write_zeroes_to(&new, gap)?;
        }
        runs.splice(hole.vcn, hole.end(), &new);
        Ok(())
    }

    /// Writes zeroes over the clusters of a range; holes are zeroes already.
    pub(super) fn write_zeroes(&self, state: &StreamState, range: Range<u64>) -> Result<()> {
        let runs = state.runs().part(range.start / self.cluster, range.end.div_ceil(self.cluster));
        self.write_zeroes_to(&runs, range)
    }

    pub(super) fn write_zeroes_to(&self, runs: &[Run], range: Range<u64>) -> Result<()> {
        let zeroes = vec![0; (range.end - range.start).min(1 << 20) as usize];
        for run in runs {
            let Some(lcn) = run.lcn else { continue };
            let mut at = (run.vcn * self.cluster).max(range.start);
            let end = (run.end() * self.cluster).min(range.end);
            while at < end {
                let piece = (end - at).min(zeroes.len() as u64);
                let offset = lcn * self.cluster + (at - run.vcn * self.cluster);
                write_any(&*self.device, offset, &zeroes[..piece as usize])?;
                at += piece;
            }
        }
        Ok(())
    }

    /// Writes bytes over allocated clusters.
    pub(super) fn write_bytes(&self, state: &StreamState, offset: u64, data: &[u8]) -> Result<()> {
        let end = offset + data.len() as u64;
        for run in state.runs().part(offset / self.cluster, end.div_ceil(self.cluster)) {
            let Some(lcn) = run.lcn else { continue };
            let (from, to) = ((run.vcn * self.cluster).max(offset), (run.end() * self.cluster).min(end));
            let place = lcn * self.cluster + (from - run.vcn * self.cluster);
            write_any(&*self.device, place, &data[(from - offset) as usize..(to - offset) as usize])?;
        }
        Ok(())
    }

    /// Turns a byte range of whole clusters into a hole.
    pub(super) fn give_back_clusters(
        &self,
        core: &mut Core,
        node: u64,
        state: &mut StreamState,
        range: Range<u64>,
    ) -> Result<()> {
        let cluster = self.cluster;
        let on_disk = self.is_on_disk(core, node)?;
        self.remake(core, node, state, |core, state| {
            let is_compressed = state.is_compressed();
            let StreamPlace::Runs(runs) = &mut state.place else { return Ok(()) };
            let (from, to) = (range.start / cluster, (range.end / cluster).min(runs.end()));
            if from < to {
                let old = runs.splice(from, to, &[Run { vcn: from, lcn: None, length: to - from }]);
                core.give_runs(&old, Held::Data, on_disk);
            }
            if !is_compressed {
                state.flags |= attribute_flags::SPARSE;
            }
            Ok(())
        })
    }

    /// Gives clusters back that were taken ahead of the content, unless plans are under way.
    pub(super) fn trim(&self, core: &mut Core, node: u64) -> Result<()> {
        let Some(stream) = core.nodes.get(node)?.stream.clone() else { return Ok(()) };
        let mut state = stream.write();
        if !state.is_ahead || !stream.is_quiet() || !state.done.is_empty() {
            return Ok(());
        }
        let on_disk = self.is_on_disk(core, node)?;
        let wanted = state.size.div_ceil(self.cluster);
        self.remake(core, node, &mut state, |core, state| {
            if let StreamPlace::Runs(runs) = &mut state.place {
                let old = runs.cut(wanted);
                core.give_runs(&old, Held::Data, on_disk);
            }
            state.is_ahead = false;
            state.valid = state.valid.min(state.size);
            state.planned = state.valid;
            Ok(())
        })
    }
}

/// Whether the virtual clusters `from..to` are all allocated, without a hole.
pub(super) fn is_there(runs: &RunList, from: u64, to: u64) -> bool {
    let mut ahead = runs.from(from);
    let mut at = from;
    while at < to {
        match ahead.next() {
            Some(run) if run.lcn.is_some() => at = run.end(),
            _ => return false,
        }
    }
    true
}
