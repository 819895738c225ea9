//! Data: the two halves of reading and writing, resizing, holes.
//!
//! * In place: clusters that are there, of a stream without integrity.
//! * To new clusters: everything else that is whole clusters. The old ones are given back when the new ones are on
//!   record, and handed out again only after the next commit.
//! * *Slowly*, with the stream locked: what begins or ends inside a cluster, and content that stands in the record.

use super::*;
use crate::extents::{Extent as Run, Extents, Found};
use crate::space::{Run as Clusters, WRITERS};
use crate::stream::{Content, StreamState};
use platter_device::Buffer;
use smallvec::SmallVec;
use std::any::Any;
use std::sync::atomic::AtomicUsize;

/// What a plan remembers between its halves, kept from request to request.
struct Memory {
    volume: u64,
    stream: Arc<Stream>,
    /// For reads: the checksum that each cluster must have, with its place on the volume.
    expected: Vec<(u32, u64)>,
    /// For reads that are not whole clusters, and content in records: what was read.
    bounce: Vec<u8>,
    /// For writes: the runs taken, with their first cluster in the stream.
    taken: SmallVec<[(u32, Clusters); 2]>,
}

/// Kinds of plan, in its first note.
const READ: u64 = 1;
const BOUNCED: u64 = 2;
const IN_PLACE: u64 = 3;
const NEW: u64 = 4;
const SLOWLY: u64 = 5;

impl Volume {
    fn stream_of(&self, node: Node) -> Result<Arc<Stream>> {
        if let Some(stream) = self.streams.read().unwrap_or_else(PoisonError::into_inner).get(&node.0) {
            return Ok(stream.clone());
        }
        let core = self.core();
        let entity = core.entity(node.0)?;
        match (entity.kind(), &entity.stream) {
            (Kind::Directory, _) => Err(Error::IsADirectory),
            (_, Some(stream)) => Ok(stream.clone()),
            _ => Err(Error::NotFound),
        }
    }

    /// The stream of a node whose content can be read and written.
    pub(super) fn data_of(&self, node: Node) -> Result<Arc<Stream>> {
        let stream = self.stream_of(node)?;
        if stream.is_link.load(Ordering::Relaxed) {
            return Err(Error::InvalidArgument("a symbolic link has no content"));
        }
        match stream.limits.unreadable {
            Some(why) => Err(Error::Unreadable(why)),
            None => Ok(stream),
        }
    }

    /// The plan's memory, of this stream.
    fn memory(&self, node: Node, plan: &mut Plan) -> Result<Box<Memory>> {
        let known = plan.state.take().and_then(|state| state.downcast::<Memory>().ok());
        if let Some(mut memory) = known
            && memory.volume == self.id
            && memory.stream.node == node.0
        {
            memory.expected.clear();
            memory.bounce.clear();
            memory.taken.clear();
            return Ok(memory);
        }
        let stream = self.data_of(node)?;
        Ok(Box::new(Memory {
            volume: self.id,
            stream,
            expected: Vec::new(),
            bounce: Vec::new(),
            taken: SmallVec::new(),
        }))
    }

    fn check_aligned(&self, offset: u64, length: usize) -> Result<()> {
        let sector = self.device.sectors().logical;
        if (offset | length as u64) & (u64::from(sector) - 1) != 0 {
            return Err(Error::Misaligned { offset, length: length as u64, sector });
        }
        if u32::try_from(length).is_err() {
            return Err(Error::InvalidArgument("a plan covers less than 4 GiB"));
        }
        Ok(())
    }

    pub(super) fn check_size(&self, end: Option<u64>) -> Result<u64> {
        match end {
            Some(end) if end <= LARGEST => Ok(end),
            _ => Err(Error::FileTooLarge { format: "ReFS", limit: LARGEST, wanted: end.unwrap_or(u64::MAX) }),
        }
    }

    /// Loads the runs of a range of a stream, if they are not in memory.
    pub(super) fn load(&self, stream: &Stream, from: u32, to: u32) -> Result<()> {
        let mut core = self.core();
        let mut state = stream.write();
        match &mut state.content {
            Content::Extents(extents) => extents.load_range(&mut core.pages, from, to),
            Content::Inline(_) => Ok(()),
        }
    }

    pub(super) fn clusters(&self, range: Range<u64>) -> (u32, u32) {
        let cluster = u64::from(self.geometry.cluster);
        ((range.start / cluster) as u32, range.end.div_ceil(cluster) as u32)
    }

    /// Byte offset of a virtual cluster on the device. Containers do not move while a volume is open.
    pub(super) fn device_offset(&self, cluster: u64) -> Result<u64> {
        if self.map.is_compressed(&self.geometry, cluster) {
            return Err(Error::Unreadable("its clusters are in a container that is compressed"));
        }
        Ok(self.geometry.offset(self.map.real(&self.geometry, cluster, 1)?))
    }

    // Reading

    pub(super) fn plan_reading(&self, node: Node, offset: u64, length: usize, plan: &mut Plan) -> Result<()> {
        self.check_aligned(offset, length)?;
        let mut memory = self.memory(node, plan)?;
        let planned = self.fill_read(&mut memory, node, offset, length, plan);
        plan.state = Some(memory);
        planned
    }

    fn fill_read(
        &self,
        memory: &mut Memory,
        node: Node,
        offset: u64,
        length: usize,
        plan: &mut Plan,
    ) -> Result<()> {
        let cluster = u64::from(self.geometry.cluster);
        loop {
            let stream = memory.stream.clone();
            let state = stream.read();
            let covered = state.size.saturating_sub(offset).min(length as u64);
            plan.start(node.0, offset, covered as usize);
            plan.notes[0] = READ;
            plan.notes[1] = state.generation;
            plan.notes[2] = u64::from(state.shared);
            if covered == 0 {
                stream.begin();
                return Ok(());
            }
            let extents = match &state.content {
                Content::Inline(content) => {
                    memory
                        .bounce
                        .extend_from_slice(&content[offset as usize..offset as usize + covered as usize]);
                    plan.notes[0] = BOUNCED;
                    stream.begin();
                    return Ok(());
                }
                Content::Extents(extents) => extents,
            };
            let (from, to) = self.clusters(offset..offset + covered);
            if !extents.is_loaded(from, to) {
                drop(state);
                self.load(&stream, from, to)?;
                continue;
            }
            // What was never written reads as zeroes, whatever its clusters hold.
            let written = state.valid().clamp(offset, offset + covered) - offset;
            if written < covered {
                plan.holes.push(written as u32..covered as u32);
            }
            // Checksums are of whole clusters: if the request is not, or ends in the middle of the last one and has no
            // room for the rest, the clusters go through memory of our own.
            let whole = offset.is_multiple_of(cluster)
                && (covered.is_multiple_of(cluster) || covered.next_multiple_of(cluster) <= length as u64);
            if state.integrity && (!whole || written < covered) {
                plan.notes[0] = BOUNCED;
                let bounced = self.read_clusters(extents, from, to, &mut memory.bounce);
                stream.begin();
                drop(state);
                if let Err(error) = bounced {
                    stream.end();
                    return Err(error);
                }
                let head = (offset - u64::from(from) * cluster) as usize;
                memory.bounce.drain(..head);
                memory.bounce.truncate(covered as usize);
                memory.bounce[written as usize..].fill(0);
                return Ok(());
            }
            let expected = state.integrity.then_some(&mut memory.expected);
            let filled = match written {
                0 => Ok(()),
                _ => self.fill_segments(extents, offset..offset + written, length, plan, expected),
            };
            if filled.is_ok() {
                stream.begin();
            }
            return filled;
        }
    }

    /// Segments and holes for a range of loaded extents.
    fn fill_segments(
        &self,
        extents: &Extents,
        range: Range<u64>,
        room: usize,
        plan: &mut Plan,
        mut expected: Option<&mut Vec<(u32, u64)>>,
    ) -> Result<()> {
        let cluster = u64::from(self.geometry.cluster);
        let sector = u64::from(self.device.sectors().logical);
        // The last transfer may reach past what is covered, never past the buffer; clusters with checksums are whole.
        let limit = range.start + room as u64;
        let end = range.end.next_multiple_of(sector).min(limit);
        let (from, to) = self.clusters(range.start..end);
        extents.walk(from, to, |piece| {
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
            let offset = self.device_offset(run.cluster)? + (start - u64::from(piece.at) * cluster);
            if let Some(expected) = &mut expected {
                match run.checksum {
                    Some(checksum) => expected.push((checksum, offset)),
                    None => expected.extend(std::iter::repeat_n((0, UNCHECKED), run.count as usize)),
                }
            }
            plan.push(offset, here, (stop - start) as u32);
            Ok(())
        })
    }

    /// Reads whole clusters, verified, holes as zeroes.
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
            if let Found::Extent(run) = extents.find(at) {
                let offset = self.device_offset(run.cluster + u64::from(at - run.at))?;
                let target = &mut into[start + (at - from) as usize * cluster..][..cluster];
                self.device.read_at(offset, &mut buffer)?;
                target.copy_from_slice(&buffer);
                if let Some(checksum) = run.checksum {
                    self.verify(target, checksum, offset)?;
                }
            }
        }
        Ok(())
    }

    /// Verifies a cluster. If it is damaged, answers from another copy of the device and puts the damage right.
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

    pub(super) fn finish_reading(
        &self,
        plan: &mut Plan,
        buffer: &mut [u8],
        done: platter_device::Result<()>,
    ) -> Result<usize> {
        let memory = self.taken_memory(plan)?;
        let finished = self.end_read(&memory, plan, buffer, done);
        let stream = memory.stream.clone();
        plan.state = Some(memory);
        stream.end();
        self.let_go_quiet(&stream);
        finished
    }

    fn end_read(
        &self,
        memory: &Memory,
        plan: &Plan,
        buffer: &mut [u8],
        done: platter_device::Result<()>,
    ) -> Result<usize> {
        done?;
        if plan.notes[0] == BOUNCED {
            buffer[..memory.bounce.len()].copy_from_slice(&memory.bounce);
            return Ok(plan.length);
        }
        // What was shared may have moved on meanwhile without a checksum that tells.
        if plan.notes[2] != 0 && memory.stream.read().generation != plan.notes[1] {
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
            // The file may have moved on meanwhile, and its old clusters been used again.
            if memory.stream.read().generation != plan.notes[1] {
                return self.read_again(memory, plan, buffer);
            }
            self.verify(content, expected, offset)?;
        }
        // What was read past the end of the file is nobody's.
        Ok(plan.length)
    }

    /// Reads a plan's range with the stream locked.
    fn read_again(&self, memory: &Memory, plan: &Plan, buffer: &mut [u8]) -> Result<usize> {
        let stream = &memory.stream;
        let (from, to) = self.clusters(plan.offset..plan.offset + plan.length as u64);
        self.load(stream, from, to)?;
        let mut core = self.core();
        let mut state = stream.write();
        let covered = state.size.saturating_sub(plan.offset).min(plan.length as u64) as usize;
        let Content::Extents(extents) = &mut state.content else { return Ok(0) };
        extents.load_range(&mut core.pages, from, to)?;
        let mut whole = Vec::new();
        self.read_clusters(extents, from, to, &mut whole)?;
        let head = (plan.offset - u64::from(from) * u64::from(self.geometry.cluster)) as usize;
        buffer[..covered].copy_from_slice(&whole[head..head + covered]);
        let written = state.valid().saturating_sub(plan.offset).min(covered as u64) as usize;
        buffer[written..covered].fill(0);
        Ok(covered)
    }

    fn taken_memory(&self, plan: &mut Plan) -> Result<Box<Memory>> {
        let state: Option<Box<dyn Any + Send>> = plan.state.take();
        let memory = state.and_then(|state| state.downcast::<Memory>().ok());
        memory
            .filter(|memory| memory.volume == self.id && memory.stream.node == plan.node)
            .ok_or(Error::InvalidArgument("the plan is not one of this volume's"))
    }

    /// Lets go of a stream that was removed while a plan was under way.
    fn let_go_quiet(&self, stream: &Stream) {
        if stream.is_forgotten.load(Ordering::Acquire) && stream.is_quiet() {
            let _ = self.core().forget_idle(stream.node);
        }
    }

    // Writing

    pub(super) fn may_write(&self, stream: &Stream) -> Result<()> {
        if self.is_frozen.load(Ordering::Acquire) {
            self.core().writable()?;
        }
        if stream.read_only.load(Ordering::Relaxed) {
            return Err(Error::NotPermitted("it has the read-only attribute"));
        }
        match stream.limits.only_read {
            Some(why) => Err(Error::NotPermitted(why)),
            None => Ok(()),
        }
    }

    pub(super) fn plan_writing(&self, node: Node, offset: u64, data: &[u8], plan: &mut Plan) -> Result<()> {
        self.check_aligned(offset, data.len())?;
        let mut memory = self.memory(node, plan)?;
        let planned = self
            .may_write(&memory.stream)
            .and_then(|()| self.with_space(|| self.fill_write(&mut memory, node, offset, data, plan)));
        plan.state = Some(memory);
        planned
    }

    fn fill_write(
        &self,
        memory: &mut Memory,
        node: Node,
        offset: u64,
        data: &[u8],
        plan: &mut Plan,
    ) -> Result<()> {
        let end = self.check_size(offset.checked_add(data.len() as u64))?;
        plan.start(node.0, offset, data.len());
        let stream = memory.stream.clone();
        // Until it is known to be something else; it has no segments, and is carried out when it is finished.
        plan.notes[0] = SLOWLY;
        let cluster = u64::from(self.geometry.cluster);
        let (from, to) = self.clusters(offset..end);
        let is_whole = (offset | end).is_multiple_of(cluster);
        let mut again = true;
        while again {
            again = false;
            let state = stream.read();
            // The commonest case, which nothing below keeps from new clusters.
            if state.integrity
                && is_whole
                && !data.is_empty()
                && end <= state.size
                && state.extents().is_some()
            {
                break;
            }
            let Content::Extents(extents) = &state.content else {
                if is_whole && end >= self.geometry.version.least_outside() && state.size == 0 {
                    break;
                }
                stream.begin();
                return Ok(());
            };
            if !extents.is_loaded(from, to) {
                drop(state);
                self.load(&stream, from, to)?;
                again = true;
                continue;
            }
            let is_there = || {
                let mut at = from;
                while at < to {
                    match extents.find(at) {
                        Found::Extent(run) if run.checksum.is_none() && !state.shared => at = run.end(),
                        _ => return false,
                    }
                }
                true
            };
            if !state.integrity && end <= state.valid() && is_there() {
                plan.notes[0] = IN_PLACE;
                self.fill_segments(extents, offset..end, data.len(), plan, None)?;
                stream.begin();
                return Ok(());
            }
            // A gap between the old end and the new data must read as zeroes. So must what was never written before it,
            // and that only one can see to at a time.
            let is_gap = offset > state.size && !state.size.is_multiple_of(cluster);
            if !is_whole || data.is_empty() || is_gap || state.unwritten.is_some_and(|from| end > from) {
                stream.begin();
                return Ok(());
            }
        }
        self.take_new(memory, from, to, plan)
    }

    /// Takes new clusters for what is not there, or must not be overwritten.
    fn take_new(&self, memory: &mut Memory, from: u32, to: u32, plan: &mut Plan) -> Result<()> {
        let cluster = self.geometry.cluster;
        let stream = memory.stream.clone();
        let mut core = self.change()?;
        let mut state = stream.write();
        if state.unwritten.is_some_and(|from| plan.offset + plan.length as u64 > from) {
            stream.begin();
            return Ok(());
        }
        if let Content::Extents(extents) = &mut state.content {
            // With the run before it, to go on where that ends.
            extents.load_range(&mut core.pages, from.saturating_sub(1), to)?;
        }
        let extents = state.extents();
        plan.notes[0] = NEW;
        plan.is_synced_after = true;
        let writer = writer();
        let mut at = from;
        while at < to {
            let here = (at - from) * cluster;
            let mut found = extents.map_or(Found::Hole(u32::MAX), |extents| extents.find(at));
            let mut most = to - at;
            let mut near = memory.taken.last().map(|(_, last)| (last.container, last.start + last.count));
            // Of a run, what others have too is not overwritten.
            let mut is_shared = false;
            if let (Found::Extent(run), true) = (found, state.shared) {
                let first = run.cluster + u64::from(at - run.at);
                let looked = core.shared(first, run.end().min(to) - at);
                let (shared, length) = looked.inspect_err(|_| {
                    memory.taken.drain(..).for_each(|(_, run)| core.pages.space.give_back(run));
                })?;
                (is_shared, most) = (shared, most.min(length));
                found = Found::Extent(Run { at, count: length, cluster: first, ..run });
            }
            match found {
                Found::Extent(run) if !state.integrity && run.checksum.is_none() && !is_shared => {
                    let stop = run.end().min(to);
                    plan.push(
                        self.device_offset(run.cluster + u64::from(at - run.at))?,
                        here,
                        (stop - at) * cluster,
                    );
                    at = stop;
                    continue;
                }
                // Overwriting goes where the last write went, so that scattered writes lie together.
                Found::Extent(_) => {}
                _ => {
                    if let (Found::Hole(next), false) = (found, state.integrity) {
                        most = most.min(next - at);
                    }
                    if let (None, Some(before)) = (near, at.checked_sub(1))
                        && let Some(Found::Extent(run)) = extents.map(|extents| extents.find(before))
                    {
                        near = self.geometry.place(run.cluster + u64::from(at - run.at));
                    }
                }
            }
            let Some(run) = core.pages.space.take_data(most, near, writer) else {
                for (_, run) in memory.taken.drain(..) {
                    core.pages.space.give_back(run);
                }
                plan.segments.clear();
                return Err(Error::NoSpace);
            };
            memory.taken.push((at, run));
            let offset = self.device_offset(core.cluster(&run))?;
            plan.push(offset, here, run.count * cluster);
            at += run.count;
        }
        stream.begin();
        Ok(())
    }

    pub(super) fn finish_writing(
        &self,
        plan: &mut Plan,
        data: &[u8],
        done: platter_device::Result<()>,
    ) -> Result<bool> {
        let mut memory = self.taken_memory(plan)?;
        let finished = self.end_write(&mut memory, plan, data, done);
        let stream = memory.stream.clone();
        plan.state = Some(memory);
        stream.end();
        self.let_go_quiet(&stream);
        finished
    }

    fn end_write(
        &self,
        memory: &mut Memory,
        plan: &Plan,
        data: &[u8],
        done: platter_device::Result<()>,
    ) -> Result<bool> {
        let stream = memory.stream.clone();
        match plan.notes[0] {
            SLOWLY => {
                done?;
                if !data.is_empty() {
                    self.with_space(|| self.write_slowly(&stream, plan.offset, data))?;
                }
                Ok(true)
            }
            IN_PLACE => {
                done?;
                self.touch(&stream);
                Ok(false)
            }
            _ => {
                let integrity = stream.read().integrity;
                let cluster = self.geometry.cluster as usize;
                let first = (plan.offset / cluster as u64) as u32;
                // Computed before anything is locked. Runs are of one cluster then.
                let mut rows: SmallVec<[Run; 4]> = SmallVec::new();
                let mut core = if integrity && done.is_ok() {
                    for &(at, run) in &memory.taken {
                        for index in 0..run.count {
                            let start = (at + index - first) as usize * cluster;
                            let checksum = crc32c(&data[start..start + cluster]);
                            let number = self.geometry.number(run.container, run.start + index);
                            rows.push(Run {
                                at: at + index,
                                count: 1,
                                cluster: number,
                                checksum: Some(checksum),
                            });
                        }
                    }
                    self.core()
                } else {
                    let core = self.core();
                    rows.extend(memory.taken.iter().map(|(at, run)| Run {
                        at: *at,
                        count: run.count,
                        cluster: core.cluster(run),
                        checksum: None,
                    }));
                    core
                };
                let mut state = stream.write();
                let written = done.map_err(Error::from).and_then(|()| core.writable());
                // Integrity may have been turned on or off since.
                let written = written.and_then(|()| match state.integrity == integrity {
                    true => Ok(()),
                    false => Err(Error::NotPermitted("the file's integrity was changed meanwhile")),
                });
                if let Err(error) = written {
                    for (_, run) in memory.taken.drain(..) {
                        core.pages.space.give_back(run);
                    }
                    return Err(error);
                }
                if let Content::Inline(_) = &state.content {
                    state.content =
                        Content::Extents(Extents::new(&self.geometry, core.table_of(stream.node)));
                }
                let orphan = state.orphan;
                let state = &mut *state;
                let Content::Extents(extents) = &mut state.content else { unreachable!("made just now") };
                let mut gone = Vec::new();
                // Runs in order, one after the other in the stream, go in at once.
                let mut start = 0;
                while start < rows.len() {
                    let mut stop = start + 1;
                    while stop < rows.len() && rows[stop - 1].end() == rows[stop].at {
                        stop += 1;
                    }
                    let (from, to) = (rows[start].at, rows[stop - 1].end());
                    extents.load_range(&mut core.pages, from, to)?;
                    extents.replace(from, to, &rows[start..stop], &mut gone);
                    start = stop;
                }
                state.generation += 1;
                state.extend(plan.offset + plan.length as u64, cluster as u64);
                if !orphan {
                    for (_, run) in &memory.taken {
                        core.pages.space.keep(*run);
                    }
                }
                memory.taken.clear();
                if integrity && !gone.is_empty() {
                    stream.is_scattered.store(true, Ordering::Relaxed);
                }
                core.park(&gone, orphan)?;
                self.stamp(&stream);
                core.mark(stream.node);
                self.keeper.parked(&core.pages.space);
                Ok(true)
            }
        }
    }

    /// Notes that a stream was written just now.
    pub(super) fn stamp(&self, stream: &Stream) {
        stream.modified.store(self.now(), Ordering::Release);
        stream.touched.store(true, Ordering::Release);
    }

    /// Notes that a stream was written in place, without the core.
    fn touch(&self, stream: &Stream) {
        stream.modified.store(self.now(), Ordering::Release);
        if !stream.touched.swap(true, Ordering::AcqRel) {
            self.touched.lock().unwrap_or_else(PoisonError::into_inner).push(stream.node);
        }
    }

    pub(super) fn write_bytes(&self, node: Node, offset: u64, data: &[u8]) -> Result<()> {
        /// Bytes written at a time.
        const PIECE: usize = 1 << 20;
        let stream = self.data_of(node)?;
        self.may_write(&stream)?;
        self.check_size(offset.checked_add(data.len() as u64))?;
        let cluster = u64::from(self.geometry.cluster);
        let mut plan = Plan::default();
        let mut at = 0;
        while at < data.len() {
            let position = offset + at as u64;
            let rest = &data[at..];
            let head = position % cluster;
            if head == 0 && rest.len() as u64 >= cluster {
                let length = rest.len().min(PIECE) as u64 / cluster * cluster;
                let piece = &rest[..length as usize];
                self.plan_writing(node, position, piece, &mut plan)?;
                let done = plan.segments.iter().try_for_each(|segment| {
                    let start = segment.at as usize;
                    self.device.write_at(segment.offset, &piece[start..start + segment.length as usize])
                });
                self.finish_writing(&mut plan, piece, done)?;
                at += piece.len();
            } else {
                let length = rest.len().min((cluster - head) as usize);
                self.with_space(|| self.write_slowly(&stream, position, &rest[..length]))?;
                at += length;
            }
        }
        Ok(())
    }

    /// Writes any bytes with the stream locked. What is in flight need not be waited for: clusters that are there are
    /// written sector by sector, so that nothing beside the bytes is touched.
    fn write_slowly(&self, stream: &Stream, offset: u64, data: &[u8]) -> Result<()> {
        let end = self.check_size(offset.checked_add(data.len() as u64))?;
        let mut core = self.change()?;
        let mut state = stream.write();
        let size = state.size.max(end);
        if let Content::Inline(content) = &mut state.content
            && size < self.geometry.version.least_outside()
        {
            content.resize(size as usize, 0);
            content[offset as usize..end as usize].copy_from_slice(data);
            state.size = size;
            self.stamp(stream);
            core.mark(stream.node);
            return Ok(());
        }
        self.spill_inline(&mut core, stream, &mut state)?;
        // The rest of the cluster that the old end is in reads as zeroes from now on, and what was never written.
        self.zero_tail(&mut core, stream, &mut state, offset)?;
        self.zero_unwritten(&mut core, stream, &mut state, offset)?;
        let cluster = u64::from(self.geometry.cluster);
        let (from, to) = self.clusters(offset..end);
        let mut at = from;
        while at < to {
            let start = u64::from(at) * cluster;
            // Whole clusters that are there are written in place, a run at a time.
            let whole =
                if offset <= start { (end / cluster).saturating_sub(u64::from(at)) as u32 } else { 0 };
            let count = self.write_run(
                &mut core,
                &mut state,
                at,
                whole,
                &data[start.saturating_sub(offset) as usize..],
            )?;
            if count > 0 {
                at += count;
                continue;
            }
            let (low, high) = (offset.max(start), end.min(start + cluster));
            let part = &data[(low - offset) as usize..(high - offset) as usize];
            self.rewrite_cluster(&mut core, stream, &mut state, at, (low - start) as usize, part)?;
            at += 1;
        }
        state.extend(end, cluster);
        self.stamp(stream);
        core.mark(stream.node);
        Ok(())
    }

    /// Writes up to so many whole clusters in place, if they are there and may be overwritten. Returns how many.
    fn write_run(
        &self,
        core: &mut Core,
        state: &mut StreamState,
        at: u32,
        most: u32,
        data: &[u8],
    ) -> Result<u32> {
        let (integrity, shared) = (state.integrity, state.shared);
        let Content::Extents(extents) = &mut state.content else { return Ok(0) };
        if most < 2 || integrity {
            return Ok(0);
        }
        extents.load_range(&mut core.pages, at, at + 1)?;
        let Found::Extent(run @ Run { checksum: None, .. }) = extents.find(at) else { return Ok(0) };
        let (first, most) = (run.cluster + u64::from(at - run.at), most.min(run.end() - at));
        let (is_shared, count) = if shared { core.shared(first, most)? } else { (false, most) };
        if is_shared {
            return Ok(0);
        }
        self.device
            .write_at(self.device_offset(first)?, &data[..count as usize * self.geometry.cluster as usize])?;
        Ok(count)
    }

    /// Moves content that stands in the record into clusters.
    pub(super) fn spill_inline(
        &self,
        core: &mut Core,
        stream: &Stream,
        state: &mut StreamState,
    ) -> Result<()> {
        let Content::Inline(content) = &mut state.content else { return Ok(()) };
        let content = std::mem::take(content);
        let table = core.table_of(stream.node);
        state.content = Content::Extents(Extents::new(&self.geometry, table));
        state.generation += 1;
        if content.is_empty() {
            return Ok(());
        }
        self.rewrite_cluster(core, stream, state, 0, 0, &content)
            .inspect_err(|_| state.content = Content::Inline(content))
    }

    /// Zeroes what is behind the end of the stream in its last cluster, if data is about to be put after it.
    pub(super) fn zero_tail(
        &self,
        core: &mut Core,
        stream: &Stream,
        state: &mut StreamState,
        offset: u64,
    ) -> Result<()> {
        let cluster = u64::from(self.geometry.cluster);
        let inside = state.size % cluster;
        if inside == 0 || offset <= state.size || state.unwritten.is_some() {
            return Ok(());
        }
        let zeroes = vec![0; (cluster - inside) as usize];
        self.rewrite_cluster(core, stream, state, (state.size / cluster) as u32, inside as usize, &zeroes)
    }

    /// Writes zeroes where clusters hold nothing of the stream's, up to this offset: what follows it is about to be
    /// written, and then all before counts as written too.
    pub(super) fn zero_unwritten(
        &self,
        core: &mut Core,
        stream: &Stream,
        state: &mut StreamState,
        offset: u64,
    ) -> Result<()> {
        let cluster = u64::from(self.geometry.cluster);
        while let Some(from) = state.unwritten.filter(|&from| from < offset) {
            let (at, inside) = ((from / cluster) as u32, (from % cluster) as usize);
            let end = (u64::from(at) + 1) * cluster;
            let Content::Extents(extents) = &mut state.content else { return Ok(()) };
            extents.load_range(&mut core.pages, at, at + 1)?;
            let next = match extents.find(at) {
                Found::Extent(_) => {
                    let zeroes = vec![0; (end.min(offset) - from) as usize];
                    self.rewrite_cluster(core, stream, state, at, inside, &zeroes)?;
                    end
                }
                Found::Hole(next) => u64::from(next.max(at + 1)) * cluster,
                Found::Absent(_) => end,
            };
            state.unwritten = Some(next.min(offset));
        }
        Ok(())
    }

    /// Puts bytes into a cluster of a stream and keeps the rest of it, as far as it is before the end: in place where
    /// that is allowed, else in a new cluster.
    fn rewrite_cluster(
        &self,
        core: &mut Core,
        stream: &Stream,
        state: &mut StreamState,
        at: u32,
        inside: usize,
        bytes: &[u8],
    ) -> Result<()> {
        let size = self.geometry.cluster as usize;
        let integrity = state.integrity;
        let kept = state.valid().saturating_sub(u64::from(at) * size as u64).min(size as u64) as usize;
        let Content::Extents(extents) = &mut state.content else {
            return Err(Error::InvalidArgument("the content is in the record"));
        };
        extents.load_range(&mut core.pages, at, at + 1)?;
        let mut whole = Vec::with_capacity(size);
        let found = extents.find(at);
        match found {
            Found::Extent(_) if kept > 0 => self.read_clusters(extents, at, at + 1, &mut whole)?,
            _ => whole.resize(size, 0),
        }
        whole[kept..].fill(0);
        whole[inside..inside + bytes.len()].copy_from_slice(bytes);
        let mut buffer = Buffer::new(size);
        buffer.copy_from_slice(&whole);
        let is_shared = match found {
            Found::Extent(run) if state.shared => core.shared(run.cluster + u64::from(at - run.at), 1)?.0,
            _ => false,
        };
        if let (Found::Extent(run @ Run { checksum: None, .. }), false) = (found, integrity || is_shared) {
            let sector = self.device.sectors().logical as usize;
            let (low, high) = (inside / sector * sector, (inside + bytes.len()).next_multiple_of(sector));
            let offset = self.device_offset(run.cluster + u64::from(at - run.at))?;
            return Ok(self.device.write_at(offset + low as u64, &buffer[low..high])?);
        }
        let near = match at.checked_sub(1).map(|before| extents.find(before)) {
            Some(Found::Extent(before)) => self.geometry.place(before.cluster + u64::from(at - before.at)),
            _ => None,
        };
        let run = core.pages.space.take_data(1, near, writer()).ok_or(Error::NoSpace)?;
        let number = core.cluster(&run);
        if let Err(error) = self.device.write_at(self.device_offset(number)?, &buffer) {
            core.pages.space.give_back(run);
            return Err(error.into());
        }
        let checksum = integrity.then(|| crc32c(&whole));
        let mut gone = Vec::new();
        extents.replace(at, at + 1, &[Run { at, count: 1, cluster: number, checksum }], &mut gone);
        state.generation += 1;
        if !state.orphan {
            core.pages.space.keep(run);
        }
        core.mark(stream.node);
        core.park(&gone, state.orphan)
    }

    pub(super) fn resize(&self, node: Node, size: u64) -> Result<()> {
        let stream = self.data_of(node)?;
        self.may_write(&stream)?;
        self.check_size(Some(size))?;
        let (mut core, mut state) = self.change_quiet(&stream)?;
        if size == state.size {
            return Ok(());
        }
        match &mut state.content {
            Content::Inline(content) if size < self.geometry.version.least_outside() => {
                content.resize(size as usize, 0)
            }
            _ => self.spill_inline(&mut core, &stream, &mut state)?,
        }
        if size > state.size {
            if state.extents().is_some() {
                self.zero_tail(&mut core, &stream, &mut state, size)?;
            }
        } else if let Content::Extents(extents) = &mut state.content {
            let from = size.div_ceil(u64::from(self.geometry.cluster)) as u32;
            let mut gone = Vec::new();
            extents.load_range(&mut core.pages, from, u32::MAX)?;
            extents.replace(from, u32::MAX, &[], &mut gone);
            state.generation += 1;
            core.park(&gone, state.orphan)?;
            state.unwritten = state.unwritten.filter(|&from| from < size);
        }
        state.size = size;
        self.stamp(&stream);
        core.mark(stream.node);
        Ok(())
    }

    pub(super) fn punch_range(&self, node: Node, range: Range<u64>) -> Result<()> {
        let stream = self.data_of(node)?;
        self.may_write(&stream)?;
        if range.is_empty() {
            return Err(Error::InvalidArgument("the range is empty"));
        }
        let cluster = u64::from(self.geometry.cluster);
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
                    self.with_space(|| self.write_slowly(&stream, at, &vec![0; (end - at) as usize]))?;
                }
                at = end;
            }
        }
        let (mut core, mut state) = self.change_quiet(&stream)?;
        let state = &mut *state;
        match &mut state.content {
            Content::Inline(content) => content[range.start as usize..range.end as usize].fill(0),
            Content::Extents(extents) if from < to => {
                let mut gone = Vec::new();
                extents.load_range(&mut core.pages, from, to)?;
                extents.replace(from, to, &[], &mut gone);
                state.generation += 1;
                core.park(&gone, state.orphan)?;
            }
            Content::Extents(_) => {}
        }
        self.stamp(&stream);
        core.mark(stream.node);
        Ok(())
    }

    /// Whether there is a cluster, or content in the record, at an offset.
    fn is_allocated(&self, stream: &Stream, offset: u64) -> bool {
        let at = (offset / u64::from(self.geometry.cluster)) as u32;
        if self.load(stream, at, at + 1).is_err() {
            return true;
        }
        match &stream.read().content {
            Content::Inline(_) => true,
            Content::Extents(extents) => !matches!(extents.find(at), Found::Hole(_)),
        }
    }

    pub(super) fn list_extents(&self, node: Node) -> Result<Vec<Extent>> {
        use platter_vfs::Place as Where;
        let stream = self.data_of(node)?;
        self.load(&stream, 0, u32::MAX)?;
        let state = stream.read();
        let cluster = u64::from(self.geometry.cluster);
        let extents = match &state.content {
            Content::Inline(content) if content.is_empty() => return Ok(Vec::new()),
            Content::Inline(content) => {
                return Ok(vec![Extent { offset: 0, length: content.len() as u64, place: Where::Resident }]);
            }
            Content::Extents(extents) => extents,
        };
        let mut all: Vec<Extent> = Vec::new();
        let mut at = 0;
        let mut add = |extent: Extent| match (all.last_mut(), extent.place) {
            (Some(last), Where::Device(here)) if matches!(last.place, Where::Device(before) if before + last.length == here) => {
                last.length += extent.length
            }
            _ => all.push(extent),
        };
        for run in extents.iter() {
            let offset = u64::from(run.at) * cluster;
            if offset >= state.size {
                break;
            }
            if offset > at {
                add(Extent { offset: at, length: offset - at, place: Where::Hole });
            }
            let end = (u64::from(run.end()) * cluster).min(state.size);
            let written = state.valid().clamp(offset, end);
            let place = self.device_offset(run.cluster)?;
            if written > offset {
                add(Extent { offset, length: written - offset, place: Where::Device(place) });
            }
            if end > written {
                let place = Where::Unwritten(place + (written - offset));
                add(Extent { offset: written, length: end - written, place });
            }
            at = end;
        }
        if at < state.size {
            add(Extent { offset: at, length: state.size - at, place: Where::Hole });
        }
        Ok(all)
    }
}

/// Which writer the calling thread is, for [`Space::take_data`].
///
/// [`Space::take_data`]: crate::space::Space::take_data
pub(super) fn writer() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static WRITER: usize = NEXT.fetch_add(1, Ordering::Relaxed) % WRITERS;
    }
    WRITER.with(|writer| *writer)
}

/// Stands for the place of a cluster that has no checksum.
const UNCHECKED: u64 = u64::MAX;
