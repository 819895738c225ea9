//! Clusters that several streams share (clones and snapshots), and clusters taken ahead of the data (preallocation).

use super::changing::{TO_ADD, TO_CHANGE};
use super::streams::Conversion;
use super::{NAMES, Volume};
use crate::core::{Core, Named, RecordPlace};
use crate::extents::{Extent, Extents, Mapping, RunKind};
use crate::layout::attribute::LIVE;
use crate::stream::{Limits, Snapshot, Stream, StreamContent, StreamState};
use platter_device::Buffer;
use platter_vfs::{Claim, Error, Name, Node, Plan, Result};
use std::ops::Range;
use std::sync::Arc;

/// The bytes that a copy reads at once: whole clusters of every size.
const COPIED: usize = 1 << 20;

impl Volume {
    /// Refuses an operation that needs shared clusters, on a version of ReFS of which it is not known how it stores
    /// them.
    pub(super) fn refuse_sharing(&self, what: &'static str) -> Result<()> {
        match self.geometry.version.has_shared_clusters() {
            true => Ok(()),
            false => Err(Error::Unsupported { format: "ReFS before 3.14", what }),
        }
    }

    /// Makes a range of one file the same as one of another: both refer to the same clusters, or the range is copied
    /// where that is not possible. Both files are claimed until this is done, so that it is one step for other callers
    /// even if it is a copy in many pieces.
    pub(super) fn clone_between(
        &self,
        (from, offset): (Node, u64),
        (to, to_offset): (Node, u64),
        length: u64,
    ) -> Result<()> {
        let (source, target) = (self.data_of(from)?, self.data_of(to)?);
        self.may_write(&target)?;
        let (end, to_end) =
            (self.check_size(offset.checked_add(length))?, self.check_size(to_offset.checked_add(length))?);
        if from == to && offset < to_end && to_offset < end {
            return Err(Error::InvalidArgument("the two ranges overlap"));
        }
        let mut owners = {
            let core = self.core();
            [core.owner_of(from.0), core.owner_of(to.0)]
        };
        owners.sort_unstable();
        let _unconverted = Conversion::begin(self, Node(owners[0]));
        let _unconverted_too = (owners[0] != owners[1]).then(|| Conversion::begin(self, Node(owners[1])));
        // Both streams are claimed for this call alone, in the order of their node numbers.
        let (one, other) = if from <= to { (&source, &target) } else { (&target, &source) };
        let one = one.claim_all();
        let other = (from != to).then(|| other.claim_all());
        self.may_write(&target)?;
        let cluster = u64::from(self.geometry.cluster);
        let size = source.read().size;
        let is_whole = (offset | to_offset).is_multiple_of(cluster)
            && (length.is_multiple_of(cluster) || end == size && to_end >= target.read().size);
        if length == 0 || end > size || !is_whole {
            return Err(Error::InvalidArgument(
                "a range to be cloned lies in the file, and is whole clusters or goes to its end",
            ));
        }
        if self.with_space(|_| self.share(&source, offset..end, &target, to_offset))? {
            return Ok(());
        }
        let second = other.as_ref().unwrap_or(&one);
        let (of_source, of_target) = if from <= to { (&one, second) } else { (second, &one) };
        self.copy_between((&source, of_source), offset..end, (&target, of_target), to_offset)
    }

    /// Has a range of the target refer to the clusters of a range of the source. Returns `false`, and has changed
    /// nothing, if clusters of these two cannot be shared. The caller has claimed both.
    fn share(&self, source: &Stream, range: Range<u64>, target: &Stream, to_offset: u64) -> Result<bool> {
        let mut core = self.grow()?;
        if target.read().orphan || !self.is_sharable(source, range.end) {
            return Ok(false);
        }
        // The target is made ready before the source's runs are read: if both are the same file, this may move
        // clusters.
        self.make_ready(&mut core, target, &mut target.write(), to_offset)?;
        let integrity = target.read().integrity;
        let runs = {
            let mut state = source.write();
            if state.integrity != integrity {
                return Err(Error::InvalidArgument("either both files have integrity or none"));
            }
            state.shared = true;
            let (first, behind) = self.clusters(range.clone());
            self.runs(&mut core, &mut state, first, behind)?
        };
        let length = range.end - range.start;
        let at = (range.start, to_offset);
        self.take_over(&mut core, target, &mut target.write(), &runs, at, length)?;
        Ok(true)
    }

    /// Copies a range of the source into the target. The caller has claimed both, and passes its claims.
    fn copy_between(
        &self,
        (source, of_source): (&Stream, &Claim<'_>),
        range: Range<u64>,
        (target, of_target): (&Stream, &Claim<'_>),
        to_offset: u64,
    ) -> Result<()> {
        let cluster = self.geometry.cluster as usize;
        let mut plan = Plan::default();
        let mut buffer = Buffer::new(COPIED);
        for at in range.clone().step_by(COPIED) {
            let wanted = (range.end - at).min(COPIED as u64) as usize;
            let whole = &mut buffer[..wanted.next_multiple_of(cluster)];
            self.plan_reading(Node(source.node), at, whole.len(), &mut plan, Some(of_source))?;
            let done = plan.read_from(&*self.device, whole);
            if self.finish_reading(&mut plan, whole, done)? < wanted {
                return Err(Error::InvalidArgument(
                    "a file became shorter while it was claimed to be copied",
                ));
            }
            let place = to_offset + (at - range.start);
            self.write_within(target, place, &buffer[..wanted], Some(of_target))?;
        }
        Ok(())
    }

    /// Whether the content of a stream up to byte `end` can be shared: the file still has a name, its content is in
    /// clusters, and the valid data length is not less than `end`.
    fn is_sharable(&self, stream: &Stream, end: u64) -> bool {
        let state = stream.read();
        !state.orphan && state.extents().is_some() && state.unwritten.is_none_or(|from| from >= end)
    }

    /// Returns the runs between two clusters of a stream.
    fn runs(&self, core: &mut Core, state: &mut StreamState, from: u32, to: u32) -> Result<Vec<Extent>> {
        let StreamContent::Extents(extents) = &mut state.content else { return Ok(Vec::new()) };
        extents.load_range(&mut core.pages, from, to)?;
        extents.within(from, to)
    }

    /// Moves a stream's content to clusters if it stands in the record, and writes zeroes between the end of its data
    /// and `offset`.
    fn make_ready(
        &self,
        core: &mut Core,
        stream: &Stream,
        state: &mut StreamState,
        offset: u64,
    ) -> Result<()> {
        self.mark_moved(core, stream);
        self.spill_inline(core, stream, state)?;
        self.zero_tail(core, state, offset)?;
        self.zero_unwritten(core, state, offset)
    }

    /// Replaces a range of a stream, `length` bytes from `to_offset` on, by runs of another stream, whose range begins
    /// at `offset`. Both share the clusters from then on.
    fn take_over(
        &self,
        core: &mut Core,
        stream: &Stream,
        state: &mut StreamState,
        runs: &[Extent],
        (offset, to_offset): (u64, u64),
        length: u64,
    ) -> Result<()> {
        let cluster = u64::from(self.geometry.cluster);
        let (first, from) = ((offset / cluster) as u32, (to_offset / cluster) as u32);
        let to = (to_offset + length).div_ceil(cluster) as u32;
        let moved: Vec<Extent> =
            runs.iter().map(|run| Extent { at: run.at - first + from, ..*run }).collect();
        let StreamContent::Extents(extents) = &mut state.content else { return Ok(()) };
        extents.load_range(&mut core.pages, from, to)?;
        // Between the runs there may be holes, with rows of their own.
        let pages = Extents::pages_of(2 * runs.len() + 1, &self.geometry)
            + core.pages_to_give_up(extents, from..to)?;
        if !core.spares(TO_CHANGE + pages) {
            return Err(Error::NoSpace);
        }
        let shared: Vec<(u64, u32)> = runs.iter().map(|run| (run.cluster, run.count)).collect();
        core.share(&shared)?;
        let mut gone = Vec::new();
        // All at once: without its runs a leaf goes, and the one beside it may not be in memory.
        extents.replace(from, to, &moved, &mut gone);
        state.shared = true;
        state.generation.advance();
        state.extend(to_offset + length, cluster);
        core.park(&gone, state.orphan)?;
        self.stamp(stream);
        self.mark_moved(core, stream);
        Ok(())
    }

    /// Keeps a file's present content as a snapshot.
    pub(super) fn keep_version(&self, node: Node, name: &Name) -> Result<()> {
        NAMES.check(name)?;
        let now = self.now();
        let stream = self.data_of(node)?;
        let _unconverted = Conversion::begin(self, node);
        let _claim = stream.claim_all();
        let mut core = self.grow()?;
        core.changeable(node.0)?;
        let upper = core.upper.clone();
        let entity = core.entity(node.0)?;
        if matches!(entity.place, RecordPlace::Part { .. } | RecordPlace::Nowhere) {
            return Err(Error::InvalidArgument("only a file that has a name has snapshots"));
        }
        if entity.named.iter().any(|named| named.is_called(name, &upper)) {
            return Err(Error::Exists);
        }
        let last =
            entity.named.iter().filter_map(|named| named.snapshot.as_ref()).map(|one| one.number).max();
        let number = crate::stream::next_version(&entity.record.rows).max(last.unwrap_or(LIVE) + 1);
        let mut state = stream.write();
        // Only content in clusters can be shared with a snapshot.
        self.spill_inline(&mut core, &stream, &mut state)?;
        let rows = match &mut state.content {
            StreamContent::Inline(_) => Vec::new(),
            StreamContent::Extents(extents) => {
                extents.load_range(&mut core.pages, 0, u32::MAX)?;
                extents.give_holes_rows();
                extents.rows().collect()
            }
        };
        if !core.spares(TO_CHANGE + Extents::pages_of(rows.len(), &self.geometry)) {
            return Err(Error::NoSpace);
        }
        let mut extents = Extents::new(&core.pages, core.table_of(node.0));
        extents.replace(0, u32::MAX - 1, &rows, &mut Vec::new());
        let kept = StreamState {
            size: state.size,
            content: StreamContent::Extents(extents),
            unwritten: state.unwritten,
            integrity: state.integrity,
            shared: true,
            ..StreamState::empty(state.integrity)
        };
        let snapshot = Some(Snapshot::new(number, &kept, now, &self.geometry));
        let part = core.next_node();
        let limits = Limits { only_read: Some(Snapshot::KEPT), ..Limits::default() };
        let named = Named {
            name: name.units().to_vec(),
            node: part,
            stream: Arc::new(Stream::new(part, kept, false, limits)),
            snapshot,
        };
        // From here on writes of the file do not go in place, so the snapshot's clusters do not change.
        state.shared = true;
        state.generation.advance();
        drop(state);
        core.entity_mut(node.0)?.named.push(named);
        let runs = rows.iter().filter(|row| !row.is_hole());
        let shared: Vec<(u64, u32)> = runs.map(|run| (run.cluster, run.count)).collect();
        let kept = self.make_fit(&mut core, node.0, None).and_then(|()| core.share(&shared));
        if kept.is_err() {
            core.entity_mut(node.0)?.named.pop();
            return kept;
        }
        Ok(())
    }

    /// Takes clusters for a range before data is written to it. What the range reads as does not change. `lacks`
    /// becomes the number of clusters that are missing, if some are.
    pub(super) fn allocate_range(
        &self,
        node: Node,
        range: Range<u64>,
        keep_size: bool,
        lacks: &mut u64,
    ) -> Result<()> {
        let stream = self.data_of(node)?;
        self.may_write(&stream)?;
        if range.is_empty() {
            return Err(Error::InvalidArgument("the range is empty"));
        }
        let end = self.check_size(Some(range.end))?;
        let cluster = u64::from(self.geometry.cluster);
        let (_claim, mut core, mut state) = self.change_alone(&stream, TO_ADD)?;
        let size = if keep_size { state.size } else { state.size.max(end) };
        // Every write of a file with integrity takes new clusters. Clusters taken ahead would not be used, so a later
        // write could still find no room.
        if state.integrity {
            return Err(Error::Unsupported {
                format: "ReFS",
                what: "clusters taken ahead for files with integrity",
            });
        }
        if let StreamContent::Inline(content) = &mut state.content
            && core.holds_inline(stream.node, end.max(size))
        {
            content.resize(size as usize, 0);
            if size > state.size {
                self.stamp(&stream);
            }
            state.size = size;
            self.mark_moved(&mut core, &stream);
            return Ok(());
        }
        self.spill_inline(&mut core, &stream, &mut state)?;
        let valid = state.valid();
        let (from, to) = ((range.start / cluster) as u32, end.div_ceil(cluster) as u32);
        let mut taken = Vec::new();
        let filled = self.fill_holes(&mut core, &mut state, from..to, valid, &mut taken, lacks);
        state.generation.advance();
        self.mark_moved(&mut core, &stream);
        if let (Err(_), StreamContent::Extents(extents)) = (&filled, &mut state.content) {
            // Nothing on disk refers to the clusters that were taken, so they are free again at once.
            for (at, run) in taken {
                extents.replace(at, at + run.count, &[], &mut Vec::new());
                core.pages.space.give_back(run);
            }
            return filled;
        }
        state.unwritten = Some(valid);
        if size > state.size {
            self.keep_gap_empty(&mut core, &mut state, range.start)?;
            state.size = size;
            self.stamp(&stream);
        }
        state.extend(valid, cluster);
        Ok(())
    }

    /// Gives back the clusters past the valid data length of a stream that gets integrity, since each of its writes
    /// takes new ones. The caller has the node of the file stored.
    pub(super) fn give_back_unwritten(&self, core: &mut Core, state: &mut StreamState) -> Result<()> {
        let cluster = u64::from(self.geometry.cluster);
        if state.unwritten.is_none() {
            return Ok(());
        }
        // A write past the end that found no room has filled clusters there with zeroes; they go too.
        let valid = state.valid();
        // From now on there is no valid data length after which the stream reads as zeroes, so the rest of the last
        // cluster with data is filled with them.
        self.zero_unwritten(core, state, valid.next_multiple_of(cluster).min(state.size))?;
        let StreamContent::Extents(extents) = &mut state.content else { return Ok(()) };
        let from = valid.div_ceil(cluster) as u32;
        extents.load_range(&mut core.pages, from, u32::MAX)?;
        let mut gone = Vec::new();
        extents.replace(from, u32::MAX, &[], &mut gone);
        state.unwritten = None;
        state.generation.advance();
        core.park(&gone, state.orphan)
    }

    /// Takes clusters for the holes of a range, and fills those before byte `valid` with zeroes. The clusters are in
    /// `taken` also if this fails; `lacks` becomes the number of clusters that are missing.
    fn fill_holes(
        &self,
        core: &mut Core,
        state: &mut StreamState,
        range: Range<u32>,
        valid: u64,
        taken: &mut Vec<(u32, crate::space::ContainerRun)>,
        lacks: &mut u64,
    ) -> Result<()> {
        let cluster = u64::from(self.geometry.cluster);
        let written = valid.div_ceil(cluster);
        let orphan = state.orphan;
        let StreamContent::Extents(extents) = &mut state.content else { return Ok(()) };
        extents.load_range(&mut core.pages, range.start.saturating_sub(1), range.end)?;
        let mut missing = 0;
        extents.walk(range.start, range.end, |piece| {
            missing += piece.run.map_or(u64::from(piece.end - piece.at), |_| 0);
            Ok(())
        })?;
        *lacks = missing.saturating_sub(core.pages.space.free() - core.pages.space.parked());
        if *lacks > 0 {
            return Err(Error::NoSpace);
        }
        let mut at = range.start;
        let zeroes = Buffer::new((1 << 20).max(cluster as usize));
        while at < range.end {
            let next = match extents.find(at) {
                Mapping::Extent(run) => {
                    at = run.end();
                    continue;
                }
                Mapping::Hole(next) => next.min(range.end),
                Mapping::Absent(_) => return Err(Error::InvalidArgument("runs that were loaded are gone")),
            };
            let near = match at.checked_sub(1).map(|before| extents.find(before)) {
                Some(Mapping::Extent(before)) => {
                    self.geometry.place(before.cluster + u64::from(at - before.at))
                }
                _ => None,
            };
            // Where free space lies in many parts, there are many runs, and these take metadata pages too.
            if !core.spares(TO_CHANGE) {
                return Err(Error::NoSpace);
            }
            let run =
                core.pages.space.take_data(next - at, near, super::data::writer()).ok_or(Error::NoSpace)?;
            let number = core.cluster(&run);
            let mut clear = (written.saturating_sub(u64::from(at))).min(u64::from(run.count)) * cluster;
            let mut place = self.device_offset(number)?;
            while clear > 0 {
                let length = clear.min(zeroes.len() as u64);
                if let Err(error) = self.device.write_at(place, &zeroes[..length as usize]) {
                    core.pages.space.give_back(run);
                    return Err(error.into());
                }
                (place, clear) = (place + length, clear - length);
            }
            let row = Extent { at, count: run.count, cluster: number, kind: RunKind::PLAIN };
            extents.replace(at, row.end(), &[row], &mut Vec::new());
            if !orphan {
                core.pages.space.keep(run);
            }
            taken.push((at, run));
            at = row.end();
        }
        Ok(())
    }
}
