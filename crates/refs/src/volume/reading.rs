//! Reading. The first half turns a stream's runs into device segments; the second half verifies the bytes that the
//! device has read.

use super::Volume;
use super::ahead::Ahead;
use super::data::{Memory, Planned, UNCHECKED, keep};
use crate::extents::{Extent, Extents, Mapping, Piece};
use crate::layout::crc32c;
use crate::stream::StreamContent;
use platter_device::Buffer;
use platter_vfs::{Access, Claim, Error, Node, Pass, Plan, Result};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// The length in bytes from which on a read goes in parts, so that one part is verified while the next is in flight.
const LARGE: u64 = 256 << 10;

impl Volume {
    /// The first half of a read. `within` is the caller's claim that covers the range, if it has one.
    pub(super) fn plan_reading(
        &self,
        node: Node,
        offset: u64,
        length: usize,
        plan: &mut Plan,
        within: Option<&Claim<'_>>,
    ) -> Result<()> {
        Plan::check_range(self.device.sectors().logical, offset, length)?;
        let mut memory = self.memory(node, plan)?;
        self.take_preread(&memory.stream, &mut memory.ahead, plan);
        let planned = self.fill_read(&mut memory, node, offset, length, plan, within);
        keep(plan, memory, planned)
    }

    fn fill_read(
        &self,
        memory: &mut Memory,
        node: Node,
        offset: u64,
        length: usize,
        plan: &mut Plan,
        within: Option<&Claim<'_>>,
    ) -> Result<Option<(Planned, Pass)>> {
        let cluster = u64::from(self.geometry.cluster);
        let Memory { stream, expected, bounce, ahead, .. } = memory;
        loop {
            let state = stream.read();
            let covered = state.size.saturating_sub(offset).min(length as u64);
            plan.start(node.0, offset, covered as usize);
            let generation = state.generation.now();
            let enter = |planned| -> Result<Option<(Planned, Pass)>> {
                Ok(Some((planned, stream.enter(offset..offset + length as u64, Access::Read, within)?)))
            };
            if covered == 0 {
                return enter(Planned::Read { generation, is_vouched: true });
            }
            let extents = match &state.content {
                StreamContent::Inline(content) => {
                    bounce.extend_from_slice(&content[offset as usize..offset as usize + covered as usize]);
                    return enter(Planned::Bounced);
                }
                StreamContent::Extents(extents) => extents,
            };
            let (from, to) = self.clusters(offset..offset + covered);
            let run = extents.run_over(from, to);
            if run.is_none() && !extents.is_loaded(from, to) {
                drop(state);
                if self.bring_rows(stream, (from, to), ahead, plan)? {
                    return Ok(None);
                }
                continue;
            }
            // Bytes past the valid data length read as zeroes, whatever their clusters hold.
            let written = state.valid().clamp(offset, offset + covered) - offset;
            if written < covered {
                plan.holes.push(written as u32..covered as u32);
            }
            // Checksums are of whole clusters. A request that begins inside a cluster, or ends inside one that its
            // buffer has no room for, is read through the plan's own memory.
            let whole = offset.is_multiple_of(cluster)
                && (covered.is_multiple_of(cluster) || covered.next_multiple_of(cluster) <= length as u64);
            if state.integrity && (!whole || written < covered) {
                if !self.fill_bounce(extents, offset..offset + covered, (ahead, bounce), plan)? {
                    return Ok(None);
                }
                bounce[written as usize..].fill(0);
                return enter(Planned::Bounced);
            }
            let expected = state.integrity.then_some(&mut *expected);
            plan.work_beside = expected.is_some() && covered >= LARGE;
            let is_vouched = written == 0
                || self.fill_segments((extents, run), offset..offset + written, length, plan, expected)?;
            return enter(Planned::Read { generation, is_vouched });
        }
    }

    /// Reads bytes of clusters with checksums, which are whole or not, into `bounce`. Returns `false` if the plan asks for
    /// the clusters first.
    fn fill_bounce(
        &self,
        extents: &Extents,
        range: Range<u64>,
        (ahead, bounce): (&mut Ahead, &mut Vec<u8>),
        plan: &mut Plan,
    ) -> Result<bool> {
        let (from, to) = self.clusters(range.clone());
        let head = (range.start - u64::from(from) * u64::from(self.geometry.cluster)) as usize;
        let length = (range.end - range.start) as usize;
        let parts: SmallVec<[Range<u32>; 2]> = smallvec![from..to];
        let around = ahead.take(extents, &parts);
        if around.is_none() && !ahead.is_open(plan) {
            self.read_clusters(extents, from, to, bounce)?;
            bounce.drain(..head);
            bounce.truncate(length);
            return Ok(true);
        }
        if around.is_none() && self.ask_clusters(extents, from..to, parts.clone(), ahead, plan)? {
            return Ok(false);
        }
        if let Some(around) = around.or_else(|| ahead.take(extents, &parts)) {
            bounce.extend_from_slice(&around.content[head..head + length]);
            ahead.keep(Some(around.content));
        }
        Ok(true)
    }

    /// Adds the segments and holes of a range to a plan. The extents of the range are loaded; `whole` is the run that
    /// covers all of it, if one does. The buffer has `room` bytes, and `expected` gets the checksums to be compared, if
    /// any are. Returns whether each cluster has a checksum that is compared.
    pub(super) fn fill_segments(
        &self,
        (extents, whole): (&Extents, Option<Extent>),
        range: Range<u64>,
        room: usize,
        plan: &mut Plan,
        mut expected: Option<&mut Vec<(u32, u64)>>,
    ) -> Result<bool> {
        let cluster = u64::from(self.geometry.cluster);
        let sector = u64::from(self.device.sectors().logical);
        // The last transfer may reach past the range, to the end of a sector or of a cluster with a checksum, but never
        // past the buffer.
        let limit = range.start + room as u64;
        let end = range.end.next_multiple_of(sector).min(limit);
        let (from, to) = self.clusters(range.start..end);
        // The end of the run before, as a virtual cluster and as an offset on the device: a run that follows it
        // directly needs no look at the container map.
        let mut ahead = (u64::MAX, 0);
        let mut is_vouched = true;
        let mut each = |piece: Piece| {
            let start = (u64::from(piece.at) * cluster).max(range.start);
            let here = (start - range.start) as u32;
            let Some(run) = piece.run else {
                plan.holes.push(here..((u64::from(piece.end) * cluster).min(end) - range.start) as u32);
                if let Some(expected) = &mut expected {
                    expected.extend(std::iter::repeat_n((0, UNCHECKED), (piece.end - piece.at) as usize));
                }
                return Ok(());
            };
            let stop = (u64::from(piece.end) * cluster).min(if expected.is_some() { limit } else { end });
            let place = if ahead.0 == run.cluster { ahead.1 } else { self.device_offset(run.cluster)? };
            ahead = (run.cluster + u64::from(run.count), place + u64::from(run.count) * cluster);
            // Clusters without a checksum may be given up and become another file's before the device has read them.
            // The same goes for clusters with a checksum in a stream without integrity, since it is not compared there.
            is_vouched &= run.checksum().is_some() && expected.is_some();
            let offset = place + (start - u64::from(piece.at) * cluster);
            if let Some(expected) = &mut expected {
                match run.checksum() {
                    Some(checksum) => expected.push((checksum, offset)),
                    None => expected.extend(std::iter::repeat_n((0, UNCHECKED), run.count as usize)),
                }
            }
            plan.push(offset, here, (stop - start) as u32);
            Ok(())
        };
        match whole {
            Some(run) => each(Piece { at: from, end: to, run: Some(run.part(from, to)) })?,
            None => extents.walk(from, to, each)?,
        }
        Ok(is_vouched)
    }

    /// Appends whole clusters of a stream to `into`: those with a checksum are verified, holes are zeroes.
    pub(super) fn read_clusters(
        &self,
        extents: &Extents,
        from: u32,
        to: u32,
        into: &mut Vec<u8>,
    ) -> Result<()> {
        let cluster = self.geometry.cluster as usize;
        let start = into.len();
        let mut buffer = Buffer::new(cluster);
        into.resize(start + (to - from) as usize * cluster, 0);
        for at in from..to {
            if let Mapping::Extent(run) = extents.find(at) {
                let offset = self.device_offset(run.cluster + u64::from(at - run.at))?;
                let target = &mut into[start + (at - from) as usize * cluster..][..cluster];
                self.device.read_at(offset, &mut buffer)?;
                target.copy_from_slice(&buffer);
                if let Some(checksum) = run.checksum() {
                    self.verify(target, checksum, offset)?;
                }
            }
        }
        Ok(())
    }

    /// Verifies a cluster. If it is damaged, takes its content from another copy of a mirrored device and repairs the
    /// damaged copies.
    fn verify(&self, content: &mut [u8], expected: u32, offset: u64) -> Result<()> {
        let found = crc32c(content);
        if found == expected {
            return Ok(());
        }
        let mut other = Buffer::new(content.len());
        for copy in 0..self.device.copies() {
            if self.device.read_copy(copy, offset, &mut other).is_ok() && crc32c(&other) == expected {
                content.copy_from_slice(&other);
                self.heal(offset, &other, expected);
                return Ok(());
            }
        }
        Err(Error::damaged(
            "checksum of a file's data",
            offset,
            format!("CRC32-C {expected:08x}"),
            format!("{found:08x}"),
        ))
    }

    /// Writes good content over every copy that is not good.
    fn heal(&self, offset: u64, good: &[u8], expected: u32) {
        let mut other = Buffer::new(good.len());
        for copy in 0..self.device.copies() {
            let is_good =
                self.device.read_copy(copy, offset, &mut other).is_ok() && crc32c(&other) == expected;
            if !is_good && self.device.repair_copy(copy, offset, good).is_ok() {
                self.healed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Verifies the whole clusters in a part of a plan's data, which begins `at` bytes into it. Clusters whose checksum
    /// does not match are left to the plan's second half.
    pub(super) fn verify_beside(&self, plan: &mut Plan, at: usize, data: &[u8]) {
        let is_inside = at < plan.length;
        let memory = plan.state_mut().filter(|memory: &&mut Memory| is_inside && memory.volume == self.id);
        let Some(memory) = memory else { return };
        let cluster = self.geometry.cluster as usize;
        let first = at.div_ceil(cluster);
        let clusters = data.get(first * cluster - at..).unwrap_or_default().chunks_exact(cluster);
        for (content, (checksum, offset)) in clusters.zip(memory.expected.iter_mut().skip(first)) {
            if *offset != UNCHECKED && crc32c(content) == *checksum {
                *offset = UNCHECKED;
            }
        }
    }

    pub(super) fn finish_reading(
        &self,
        plan: &mut Plan,
        buffer: &mut [u8],
        done: platter_device::Result<()>,
    ) -> Result<usize> {
        let (memory, planned, pass) = self.finishing(plan)?;
        let finished = match (planned, done) {
            (_, Err(error)) => Err(error.into()),
            (Planned::Read { generation, is_vouched }, Ok(())) => {
                self.end_read(&memory, plan, buffer, generation, is_vouched)
            }
            (_, Ok(())) => {
                buffer[..memory.bounce.len()].copy_from_slice(&memory.bounce);
                Ok(plan.length)
            }
        };
        memory.stream.leave(pass);
        self.let_go_quiet(&memory.stream);
        plan.keep(memory);
        finished
    }

    fn end_read(
        &self,
        memory: &Memory,
        plan: &Plan,
        buffer: &mut [u8],
        generation: u64,
        is_vouched: bool,
    ) -> Result<usize> {
        // Some clusters have no checksum by which the second half would notice that the stream's clusters have moved
        // meanwhile.
        if !is_vouched && memory.stream.generation.now() != generation {
            return self.read_again(memory, plan, buffer);
        }
        plan.clear_holes(buffer);
        let cluster = self.geometry.cluster as usize;
        for (content, &(expected, offset)) in buffer.chunks_exact_mut(cluster).zip(&memory.expected) {
            if offset == UNCHECKED {
                continue;
            }
            if crc32c(content) == expected {
                continue;
            }
            // The stream's clusters may have moved meanwhile, and the old ones been used again.
            if memory.stream.generation.now() != generation {
                return self.read_again(memory, plan, buffer);
            }
            self.verify(content, expected, offset)?;
        }
        // Bytes that were read past the end of the file do not count.
        Ok(plan.length)
    }

    /// Reads a plan's range once more, with the stream locked.
    fn read_again(&self, memory: &Memory, plan: &Plan, buffer: &mut [u8]) -> Result<usize> {
        let stream = &memory.stream;
        let (from, to) = self.clusters(plan.offset..plan.offset + plan.length as u64);
        self.load(stream, from, to)?;
        let mut core = self.core();
        let mut state = stream.write();
        let covered = state.size.saturating_sub(plan.offset).min(plan.length as u64) as usize;
        let StreamContent::Extents(extents) = &mut state.content else { return Ok(0) };
        extents.load_range(&mut core.pages, from, to)?;
        let mut whole = Vec::new();
        self.read_clusters(extents, from, to, &mut whole)?;
        let head = (plan.offset - u64::from(from) * u64::from(self.geometry.cluster)) as usize;
        buffer[..covered].copy_from_slice(&whole[head..head + covered]);
        let written = state.valid().saturating_sub(plan.offset).min(covered as u64) as usize;
        buffer[written..covered].fill(0);
        Ok(covered)
    }
}
