//! Writing bytes at any offset, with the stream locked.

use super::Volume;
use super::data::Taken;
use super::stamps::{is_overwritten, tells_of};
use super::taking::{Part, give_back};
use crate::core::{Core, Held};
use crate::extents::{Extent, Extents, Mapping, RunKind};
use crate::layout::crc32c;
use crate::space::ContainerRun;
use crate::stream::{Stream, StreamContent, StreamState};
use platter_device::{Buffer, write_any};
use platter_vfs::{Error, Result, block_size};
use std::ops::Range;
use std::sync::Arc;

impl Volume {
    /// Writes bytes at any offset with the stream locked. The caller has claimed the range, or has a plan of whole
    /// sectors for it: existing clusters are written sector by sector, so that no other sector is touched. `lacks`
    /// becomes the number of clusters that are missing, if some are.
    pub(super) fn write_slowly(
        &self,
        stream: &Stream,
        offset: u64,
        data: &[u8],
        lacks: &mut u64,
    ) -> Result<()> {
        *lacks = 0;
        let end = self.check_size(offset.checked_add(data.len() as u64))?;
        if self.overwrite(stream, offset..end, data)? {
            return Ok(());
        }
        let mut core = self.grow()?;
        let mut state = stream.write();
        // An entry of the log of syncs can describe this whole write, if no zeroes are written before `offset`.
        let is_adjacent = offset <= state.size || state.size.is_multiple_of(u64::from(self.geometry.cluster));
        let mut rows = (is_adjacent && tells_of(&core, stream, &state)).then(Vec::new);
        if rows.is_none() {
            // The stream is marked before the first change, since that change stays even if a later one fails.
            self.mark_moved(&mut core, stream);
        }
        let size = state.size.max(end);
        if let StreamContent::Inline(content) = &mut state.content
            && core.holds_inline(stream.node, size)
        {
            content.resize(size as usize, 0);
            content[offset as usize..end as usize].copy_from_slice(data);
            state.size = size;
            self.stamp(stream);
            return Ok(());
        }
        self.spill_inline(&mut core, stream, &mut state)?;
        // The rest of the cluster with the old end, and everything past the valid data length, must read as zeroes from
        // now on.
        self.zero_tail(&mut core, &mut state, offset)?;
        self.zero_unwritten(&mut core, &mut state, offset)?;
        let (from, to) = self.clusters(offset..end);
        if let StreamContent::Extents(extents) = &mut state.content {
            extents.load_range(&mut core.pages, from, to)?;
        }
        // All clusters that the write needs are taken before the first byte is written.
        let mut taken = Taken::new();
        let part = Part { range: from..to, is_known: false };
        self.take_for(&mut core, &state, part, &mut taken, lacks, |_, _, _| Ok(()))?;
        let written = self.write_clusters(&mut core, &mut state, &mut taken, offset, data, &mut rows);
        give_back(&mut core, &mut taken);
        if let Err(error) = written {
            state.note_ahead(u64::from(self.geometry.cluster));
            // The changes that were made before the failure stay, so the next commit must store the stream.
            self.mark_moved(&mut core, stream);
            return Err(error);
        }
        state.extend(end, u64::from(self.geometry.cluster));
        self.stamp(stream);
        if let Some(rows) = rows {
            self.commits.note(&stream.moved);
            core.note_extended(stream.node, &rows, !state.integrity);
        }
        Ok(())
    }

    /// Overwrites existing clusters in place, if the write changes nothing but content: it takes no new clusters and
    /// leaves the size alone. Then the next sync has nothing to commit, and the volume stays unlocked. Returns `false`,
    /// and has done nothing, if the write does need more.
    fn overwrite(&self, stream: &Stream, range: Range<u64>, data: &[u8]) -> Result<bool> {
        let (from, to) = self.clusters(range.clone());
        let state = stream.read();
        if from == to || range.end > state.valid() || !is_overwritten(&state, from, to) {
            return Ok(false);
        }
        let StreamContent::Extents(extents) = &state.content else { return Ok(false) };
        let cluster = u64::from(self.geometry.cluster);
        extents.walk(from, to, |piece| {
            let Some(run) = piece.run else { return Ok(()) };
            let start = u64::from(piece.at) * cluster;
            let (low, high) = (range.start.max(start), range.end.min(u64::from(piece.end) * cluster));
            let part = &data[(low - range.start) as usize..(high - range.start) as usize];
            Ok(write_any(&*self.device, self.device_offset(run.cluster)? + (low - start), part)?)
        })?;
        self.touch(stream);
        Ok(true)
    }

    /// Writes bytes to existing clusters, and to those in `taken`, which take the place of holes and of clusters that
    /// must not be overwritten. `rows` is as in [`Volume::put_cluster`].
    fn write_clusters(
        &self,
        core: &mut Core,
        state: &mut StreamState,
        taken: &mut Taken,
        offset: u64,
        data: &[u8],
        rows: &mut Option<Vec<Extent>>,
    ) -> Result<()> {
        let end = offset + data.len() as u64;
        let cluster = u64::from(self.geometry.cluster);
        let (from, to) = self.clusters(offset..end);
        let mut at = from;
        while at < to {
            let start = u64::from(at) * cluster;
            let new = take_one(taken, at);
            if new.is_none() {
                // Existing whole clusters are written in place, a run at a time.
                let whole =
                    if offset <= start { (end / cluster).saturating_sub(u64::from(at)) as u32 } else { 0 };
                let stop = taken.first().map_or(to, |&(at, _)| at);
                let rest = &data[start.saturating_sub(offset) as usize..];
                let count = self.write_run(state, at, whole.min(stop - at), rest)?;
                if count > 0 {
                    at += count;
                    continue;
                }
            }
            let (low, high) = (offset.max(start), end.min(start + cluster));
            let part = &data[(low - offset) as usize..(high - offset) as usize];
            self.put_cluster(core, state, (at, new), (low - start) as usize, part, rows)?;
            at += 1;
        }
        Ok(())
    }

    /// Writes up to `most` whole clusters in place, if there is a run for them; the caller has seen that no other
    /// stream has them. Returns how many were written.
    fn write_run(&self, state: &StreamState, at: u32, most: u32, data: &[u8]) -> Result<u32> {
        let Some(Mapping::Extent(run)) = state.extents().map(|extents| extents.find(at)) else {
            return Ok(0);
        };
        if most < 2 {
            return Ok(0);
        }
        let count = most.min(run.end() - at);
        let place = self.device_offset(run.cluster + u64::from(at - run.at))?;
        self.device.write_at(place, &data[..count as usize * self.geometry.cluster as usize])?;
        Ok(count)
    }

    /// Makes a node's record fit into its row: content of its streams that stands in the record goes to clusters, the
    /// largest first. `instead` is a stream that is counted as if it were held in another way than it is, and is not
    /// moved itself.
    ///
    /// # Errors
    /// [`Error::RecordFull`] if that is not enough, and the errors of taking clusters. A caller that has added
    /// something to the record must then take it out again.
    pub(super) fn make_fit(&self, core: &mut Core, node: u64, instead: Option<(u64, Held)>) -> Result<()> {
        let owner = core.owner_of(node);
        while let Err(error) = core.record_fits(owner, instead) {
            let length = |stream: &Arc<Stream>| match &stream.read().content {
                StreamContent::Inline(content) => content.len(),
                StreamContent::Extents(_) => 0,
            };
            let streams = core.entity(owner)?.all_streams().cloned();
            let streams = streams.filter(|stream| instead.is_none_or(|(known, _)| known != stream.node));
            let longest = streams.map(|stream| (length(&stream), stream)).max_by_key(|(length, _)| *length);
            let Some((length, stream)) = longest.filter(|&(length, _)| length > 0) else { return Err(error) };
            let mut state = stream.write();
            if !core.is_smaller_outside(owner, &stream, length)? {
                return Err(error);
            }
            let table = core.table_of(owner);
            // The owner is marked, since the stream's own node need not be in use.
            core.mark(owner);
            self.move_outside(core, &mut state, table)?;
        }
        Ok(())
    }

    /// Moves content that stands in the record into clusters.
    pub(super) fn spill_inline(
        &self,
        core: &mut Core,
        stream: &Stream,
        state: &mut StreamState,
    ) -> Result<()> {
        if state.extents().is_none() {
            self.make_fit(core, stream.node, Some((stream.node, Held::Outside(0))))?;
        }
        let table = core.table_of(stream.node);
        if state.extents().is_none() {
            // The file has no clusters on disk, so no entry of the log of syncs can describe a change of them: a commit
            // does.
            self.mark_moved(core, stream);
        }
        self.move_outside(core, state, table)
    }

    /// Moves content that stands in the record into clusters, where the record is known to have room for the runs. The
    /// caller has the node stored. `table` is the number that pages of extents carry.
    fn move_outside(&self, core: &mut Core, state: &mut StreamState, table: u64) -> Result<()> {
        let StreamContent::Inline(content) = &mut state.content else { return Ok(()) };
        let content = std::mem::take(content);
        state.content = StreamContent::Extents(Extents::new(&core.pages, table));
        state.generation.advance();
        if content.is_empty() {
            return Ok(());
        }
        self.rewrite_cluster(core, state, 0, 0, &content)
            .inspect_err(|_| state.content = StreamContent::Inline(content))
    }

    /// Zeroes the bytes behind the end of the stream in its last cluster, if data is about to be written at `offset`,
    /// past the end.
    pub(super) fn zero_tail(&self, core: &mut Core, state: &mut StreamState, offset: u64) -> Result<()> {
        self.keep_gap_empty(core, state, offset)?;
        let cluster = u64::from(self.geometry.cluster);
        let inside = state.size % cluster;
        if inside == 0 || offset <= state.size || state.unwritten.is_some() {
            return Ok(());
        }
        let zeroes = vec![0; (cluster - inside) as usize];
        self.rewrite_cluster(core, state, (state.size / cluster) as u32, inside as usize, &zeroes)
    }

    /// Gives what lies between the end of a stream and `offset`, where the stream is about to grow to, rows of a hole if
    /// its holes have such.
    pub(super) fn keep_gap_empty(&self, core: &mut Core, state: &mut StreamState, offset: u64) -> Result<()> {
        let cluster = u64::from(self.geometry.cluster);
        let (from, to) = (state.size.div_ceil(cluster), offset.div_ceil(cluster));
        match &mut state.content {
            StreamContent::Extents(extents) if extents.holes_have_rows() && from < to => {
                let (from, to) = (from as u32, to as u32);
                extents.load_range(&mut core.pages, from, to)?;
                extents.fill_with_rows(from, to)
            }
            _ => Ok(()),
        }
    }

    /// Writes zeroes to the clusters between the valid data length and `offset`: data is about to be written at
    /// `offset`, and then everything before it counts as valid.
    pub(super) fn zero_unwritten(&self, core: &mut Core, state: &mut StreamState, offset: u64) -> Result<()> {
        let cluster = u64::from(self.geometry.cluster);
        while let Some(from) = state.unwritten.filter(|&from| from < offset) {
            let (at, inside) = ((from / cluster) as u32, (from % cluster) as usize);
            let end = (u64::from(at) + 1) * cluster;
            let StreamContent::Extents(extents) = &mut state.content else { return Ok(()) };
            extents.load_range(&mut core.pages, at, at + 1)?;
            let next = match extents.find(at) {
                Mapping::Extent(_) => {
                    let zeroes = vec![0; (end.min(offset) - from) as usize];
                    self.rewrite_cluster(core, state, at, inside, &zeroes)?;
                    end
                }
                Mapping::Hole(next) => u64::from(next.max(at + 1)) * cluster,
                Mapping::Absent(_) => end,
            };
            state.unwritten = Some(next.min(offset));
        }
        Ok(())
    }

    /// Puts bytes into a cluster of a stream, in place where that is allowed, else into a new cluster. Other bytes of
    /// the cluster are kept up to the valid data length, and are zeroes after it. The caller has the node stored at the
    /// next commit.
    fn rewrite_cluster(
        &self,
        core: &mut Core,
        state: &mut StreamState,
        at: u32,
        inside: usize,
        bytes: &[u8],
    ) -> Result<()> {
        if let StreamContent::Extents(extents) = &mut state.content {
            extents.load_range(&mut core.pages, at, at + 1)?;
        }
        let mut taken = Taken::new();
        let part = Part { range: at..at + 1, is_known: false };
        self.take_for(core, state, part, &mut taken, &mut 0, |_, _, _| Ok(()))?;
        let new = take_one(&mut taken, at);
        self.put_cluster(core, state, (at, new), inside, bytes, &mut None)
    }

    /// Puts bytes into a cluster as [`Volume::rewrite_cluster`] does. The caller has loaded the run of the cluster and,
    /// if the cluster is a hole or must not be overwritten, has taken `new` to replace it. The row of a new cluster is
    /// added to `rows`, for an entry of the log of syncs; if `rows` is `None`, the next commit stores the row.
    fn put_cluster(
        &self,
        core: &mut Core,
        state: &mut StreamState,
        (at, new): (u32, Option<ContainerRun>),
        inside: usize,
        bytes: &[u8],
        rows: &mut Option<Vec<Extent>>,
    ) -> Result<()> {
        let written = self.write_cluster(core, state, at, new, inside, bytes);
        let Some(run) = new else { return written.map(drop) };
        let checksum = written.inspect_err(|_| core.pages.space.give_back(run))?;
        let row = Extent { at, count: 1, cluster: core.cluster(&run), kind: RunKind::of(checksum) };
        let StreamContent::Extents(extents) = &mut state.content else { return Ok(()) };
        let mut gone = Vec::new();
        extents.replace(at, at + 1, &[row], &mut gone);
        state.generation.advance();
        if !state.orphan {
            core.pages.space.keep(run);
        }
        let Some(rows) = rows else { return core.park(&gone, state.orphan) };
        rows.push(row);
        core.park_written(&gone, state.orphan)
    }

    /// Writes the cluster that [`Volume::put_cluster`] puts on record. Returns its checksum, if the stream has
    /// integrity.
    fn write_cluster(
        &self,
        core: &Core,
        state: &StreamState,
        at: u32,
        new: Option<ContainerRun>,
        inside: usize,
        bytes: &[u8],
    ) -> Result<Option<u32>> {
        let size = self.geometry.cluster as usize;
        let kept = state.valid().saturating_sub(u64::from(at) * size as u64).min(size as u64) as usize;
        let StreamContent::Extents(extents) = &state.content else {
            return Err(Error::InvalidArgument("the content is in the record"));
        };
        let mut whole = Vec::with_capacity(size);
        let found = extents.find(at);
        match found {
            Mapping::Extent(_) if kept > 0 => self.read_clusters(extents, at, at + 1, &mut whole)?,
            _ => whole.resize(size, 0),
        }
        whole[kept..].fill(0);
        whole[inside..inside + bytes.len()].copy_from_slice(bytes);
        let mut buffer = Buffer::new(size);
        buffer.copy_from_slice(&whole);
        let sector = self.device.sectors().logical as usize;
        match (new, found) {
            (Some(run), _) => {
                // A checksum covers the whole cluster, so the whole cluster is written. Without a checksum, the blocks
                // past the end of the file are left out, since they are never read.
                let block = block_size(size as u64, sector as u32) as usize;
                let used = kept.max(inside + bytes.len()).next_multiple_of(block);
                let length = if state.integrity { size } else { used };
                self.device.write_at(self.device_offset(core.cluster(&run))?, &buffer[..length])?;
                Ok(state.integrity.then(|| crc32c(&whole)))
            }
            (None, Mapping::Extent(run)) => {
                let (low, high) = (inside / sector * sector, (inside + bytes.len()).next_multiple_of(sector));
                let offset = self.device_offset(run.cluster + u64::from(at - run.at))?;
                self.device.write_at(offset + low as u64, &buffer[low..high])?;
                Ok(None)
            }
            (None, _) => Err(Error::InvalidArgument("a cluster is not there, and none was taken")),
        }
    }
}

/// Removes the cluster for place `at` of a stream from `taken` and returns it, if it is the first there: clusters are
/// used in order.
fn take_one(taken: &mut Taken, at: u32) -> Option<ContainerRun> {
    let (place, run) = taken.first_mut().filter(|(place, _)| *place == at)?;
    let one = ContainerRun { count: 1, ..*run };
    (*place, run.start, run.count) = (at + 1, run.start + 1, run.count - 1);
    if run.count == 0 {
        taken.remove(0);
    }
    Some(one)
}
