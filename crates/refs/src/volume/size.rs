//! Resizing streams, punching holes, and listing extents.

use super::Volume;
use super::changing::{TO_ADD, TO_CHANGE};
use crate::extents::Mapping;
use crate::stream::{Stream, StreamContent};
use platter_vfs::{Error, Extent, Node, Place, Result};
use std::ops::Range;

impl Volume {
    pub(super) fn resize(&self, node: Node, size: u64) -> Result<()> {
        let stream = self.data_of(node)?;
        self.may_write(&stream)?;
        self.check_size(Some(size))?;
        // Under the claim the size does not change. The room that the change needs depends on it.
        let _claim = stream.claim_all();
        let mut core = self.change_with(if size > stream.read().size { TO_ADD } else { TO_CHANGE })?;
        let mut state = stream.write();
        if size == state.size {
            return Ok(());
        }
        self.mark_moved(&mut core, &stream);
        match &mut state.content {
            StreamContent::Inline(content) if core.holds_inline(stream.node, size) => {
                content.resize(size as usize, 0)
            }
            _ => self.spill_inline(&mut core, &stream, &mut state)?,
        }
        if size > state.size {
            if state.extents().is_some() {
                self.zero_tail(&mut core, &mut state, size)?;
            }
        } else if let StreamContent::Extents(extents) = &mut state.content {
            let from = size.div_ceil(u64::from(self.geometry.cluster)) as u32;
            let mut gone = Vec::new();
            extents.load_range(&mut core.pages, from, u32::MAX)?;
            core.can_give_up(extents, from..u32::MAX)?;
            extents.replace(from, u32::MAX, &[], &mut gone);
            state.generation.advance();
            core.park(&gone, state.orphan)?;
            state.unwritten = state.unwritten.filter(|&from| from < size);
        }
        state.size = size;
        self.stamp(&stream);
        Ok(())
    }

    pub(super) fn punch_range(&self, node: Node, range: Range<u64>) -> Result<()> {
        let stream = self.data_of(node)?;
        self.may_write(&stream)?;
        if range.is_empty() {
            return Err(Error::InvalidArgument("the range is empty"));
        }
        let cluster = u64::from(self.geometry.cluster);
        // Under the claim nobody else writes to the stream, and its size does not change.
        let _claim = stream.claim_all();
        let size = stream.read().size;
        let range = range.start.min(size)..range.end.min(size);
        if range.is_empty() {
            self.stamp(&stream);
            self.change()?.mark(node.0);
            return Ok(());
        }
        // Parts of clusters are overwritten with zeroes, whole ones given back.
        let from = range.start.div_ceil(cluster);
        let to = if range.end == size { range.end.div_ceil(cluster) } else { range.end / cluster };
        let parts = match from < to {
            true => [range.start..(from * cluster).min(range.end), (to * cluster).min(range.end)..range.end],
            false => [range.clone(), 0..0],
        };
        let (from, to) = (from as u32, to as u32);
        for part in parts {
            let mut at = part.start;
            while at < part.end {
                let end = (at / cluster + 1).saturating_mul(cluster).min(part.end);
                if self.is_allocated(&stream, at) {
                    let zeroes = vec![0; (end - at) as usize];
                    self.with_space(|lacks| self.write_slowly(&stream, at, &zeroes, lacks))?;
                }
                at = end;
            }
        }
        let mut core = self.change_with(TO_CHANGE)?;
        let mut state = stream.write();
        let state = &mut *state;
        match &mut state.content {
            StreamContent::Inline(content) => content[range.start as usize..range.end as usize].fill(0),
            StreamContent::Extents(extents) if from < to => {
                let mut gone = Vec::new();
                extents.load_range(&mut core.pages, from, to)?;
                core.can_give_up(extents, from..to)?;
                extents.replace(from, to, &[], &mut gone);
                state.generation.advance();
                core.park(&gone, state.orphan)?;
            }
            StreamContent::Extents(_) => {}
        }
        self.stamp(&stream);
        self.mark_moved(&mut core, &stream);
        Ok(())
    }

    /// Whether there is a cluster, or content in the record, at an offset. Runs that cannot be read count as clusters.
    fn is_allocated(&self, stream: &Stream, offset: u64) -> bool {
        let at = (offset / u64::from(self.geometry.cluster)) as u32;
        if self.load(stream, at, at + 1).is_err() {
            return true;
        }
        match &stream.read().content {
            StreamContent::Inline(_) => true,
            StreamContent::Extents(extents) => !matches!(extents.find(at), Mapping::Hole(_)),
        }
    }

    pub(super) fn list_extents(&self, node: Node, range: Range<u64>) -> Result<Vec<Extent>> {
        let stream = self.data_of(node)?;
        let cluster = u64::from(self.geometry.cluster);
        loop {
            let state = stream.read();
            let range = range.start..range.end.min(state.size);
            if range.is_empty() {
                return Ok(Vec::new());
            }
            let extents = match &state.content {
                StreamContent::Inline(_) => {
                    let whole = Extent { offset: 0, length: state.size, place: Place::Resident };
                    return Ok(whole.within(&range).into_iter().collect());
                }
                StreamContent::Extents(extents) => extents,
            };
            let (from, to) = self.clusters(range.clone());
            if !extents.is_loaded(from, to) {
                drop(state);
                self.load(&stream, from, to)?;
                continue;
            }
            let mut all: Vec<Extent> = Vec::new();
            let mut add = |extent: Extent| match (all.last_mut(), extent.place) {
                (Some(last), Place::Device(here)) if matches!(last.place, Place::Device(before) if before + last.length == here) => {
                    last.length += extent.length
                }
                _ => all.extend(extent.within(&range)),
            };
            extents.walk(from, to, |piece| {
                let offset = u64::from(piece.at) * cluster;
                let end = (u64::from(piece.end) * cluster).min(range.end);
                let Some(run) = piece.run else {
                    add(Extent { offset, length: end - offset, place: Place::Hole });
                    return Ok(());
                };
                let written = state.valid().clamp(offset, end);
                let place = self.device_offset(run.cluster)?;
                if written > offset {
                    add(Extent { offset, length: written - offset, place: Place::Device(place) });
                }
                if end > written {
                    let place = Place::Unwritten(place + (written - offset));
                    add(Extent { offset: written, length: end - written, place });
                }
                Ok(())
            })?;
            return Ok(all);
        }
    }
}
