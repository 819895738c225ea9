//! What changes where content is: with the core and the stream locked.

use super::data::is_there;
use super::*;
use crate::core::{read_any, write_any};
use crate::file::Outside;
use crate::layout::{Record, attribute_flags};
use crate::lznt1;
use crate::runlist::{cut, part, splice};
use crate::space::Held;
use crate::stream::Place;

/// Exponent of two of the clusters in a compression unit.
const UNIT: u8 = 4;
/// The largest cluster that compressed files have.
pub(super) const LARGEST_COMPRESSED: u64 = 4096;
/// A gap from this many bytes on becomes a hole, where clusters would have to be taken for it.
const HOLE: u64 = 64 << 10;
/// Most bytes of clusters that are taken ahead of content.
const AHEAD: u64 = 8 << 20;

impl NtfsVolume {
    /// The number of a node's file and the name of its stream.
    fn place_of(&self, core: &Core, node: u64) -> Result<(u64, Box<[u16]>)> {
        let entity = core.nodes.get(node)?;
        Ok((entity.file, entity.part.as_ref().map(|(_, name)| name.clone()).unwrap_or_default()))
    }

    /// Stores where a stream's content is.
    fn store_data(&self, core: &mut Core, node: u64, state: &State) -> Result<()> {
        let (number, name) = self.place_of(core, node)?;
        let mut file = (*core.file(number)?).clone();
        let body = match &state.place {
            Place::Resident(value) => Body::Resident { value: value.clone(), indexed: false },
            Place::Runs(runs) => Body::Outside(Outside {
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

    /// Changes a stream's state and what its record says of it, both or neither.
    pub(super) fn remake<T>(
        &self,
        core: &mut Core,
        node: u64,
        state: &mut State,
        change: impl FnOnce(&mut Core, &mut State) -> Result<T>,
    ) -> Result<T> {
        let (place, done, left) = (state.place.clone(), state.done.clone(), state.left.clone());
        let mut new = State { place, done, left, ..*state };
        let outcome = core.transact(|core| {
            let outcome = change(core, &mut new)?;
            self.store_data(core, node, &new)?;
            Ok(outcome)
        })?;
        *state = new;
        Ok(outcome)
    }

    /// Makes every cluster of a range be there, those past the present end included; the content stays as it is.
    pub(super) fn provide(
        &self,
        core: &mut Core,
        node: u64,
        state: &mut State,
        range: Range<u64>,
    ) -> Result<()> {
        let cluster = self.cluster;
        let (first, last) = (range.start / cluster, range.end.div_ceil(cluster));
        let known = state.clusters();
        if is_there(state.runs(), first, last) {
            return Ok(());
        }
        let on_disk = self.is_on_disk(core, node)?;
        self.remake(core, node, state, |core, state| {
            let Place::Runs(runs) = &mut state.place else { return Ok(()) };
            for hole in part(runs, first, last.min(known)).into_iter().filter(|run| run.lcn.is_none()) {
                self.fill_hole(core, runs, hole, on_disk, range.clone())?;
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
            let ahead = (state.size.min(AHEAD) / cluster).min(core.space.at_hand() / 16);
            let ahead = if range.start <= known * cluster && state.size > 0 { ahead } else { 0 };
            if ahead == 0 || core.extend(&mut outside, wanted + ahead, on_disk, false).is_err() {
                core.extend(&mut outside, wanted, on_disk, false)?;
            } else {
                state.is_ahead = true;
            }
            state.place = Place::Runs(outside.runs);
            Ok(())
        })
    }

    /// Takes clusters for a hole. What of them is outside `written` becomes zeroes on the device.
    fn fill_hole(
        &self,
        core: &mut Core,
        runs: &mut Vec<Run>,
        hole: Run,
        on_disk: bool,
        written: Range<u64>,
    ) -> Result<()> {
        let cluster = self.cluster;
        let before =
            hole.vcn.checked_sub(1).and_then(|vcn| part(runs, vcn, vcn + 1).first().and_then(|run| run.lcn));
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
        let new = part(&outside.runs, hole.vcn, hole.end());
        let (start, end) = (hole.vcn * cluster, hole.end() * cluster);
        for gap in [start..written.start.clamp(start, end), written.end.clamp(start, end)..end] {
            self.write_zeroes_to(&new, gap)?;
        }
        splice(runs, hole.vcn, hole.end(), &new);
        Ok(())
    }

    /// Writes zeroes over the clusters of a range; holes are zeroes already.
    pub(super) fn write_zeroes(&self, state: &State, range: Range<u64>) -> Result<()> {
        let runs = part(state.runs(), range.start / self.cluster, range.end.div_ceil(self.cluster));
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

    /// Writes bytes over clusters that are there.
    fn write_bytes(&self, state: &State, offset: u64, data: &[u8]) -> Result<()> {
        let end = offset + data.len() as u64;
        for run in part(state.runs(), offset / self.cluster, end.div_ceil(self.cluster)) {
            let Some(lcn) = run.lcn else { continue };
            let (from, to) = ((run.vcn * self.cluster).max(offset), (run.end() * self.cluster).min(end));
            let place = lcn * self.cluster + (from - run.vcn * self.cluster);
            write_any(&*self.device, place, &data[(from - offset) as usize..(to - offset) as usize])?;
        }
        Ok(())
    }

    /// Writes any bytes.
    pub(super) fn write_any(&self, node: Node, offset: u64, data: &[u8]) -> Result<()> {
        let stream = self.data_of(node)?;
        self.may_write(&stream)?;
        self.check_size(offset.checked_add(data.len() as u64))?;
        self.write_slowly(&stream, offset, data)
    }

    /// Writes any bytes with the stream locked. Plans under way are of other ranges and need not be waited for.
    pub(super) fn write_slowly(&self, stream: &Stream, offset: u64, data: &[u8]) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        {
            // What is there is overwritten without the core.
            let state = stream.write();
            let end = offset + data.len() as u64;
            if matches!(state.place, Place::Runs(_))
                && end <= state.valid.min(state.size)
                && state.flags & (attribute_flags::COMPRESSION_MASK | attribute_flags::ENCRYPTED) == 0
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
        drop(state);
        drop(core);
        self.note_write(stream);
        Ok(())
    }

    fn write_locked(
        &self,
        core: &mut Core,
        node: u64,
        state: &mut State,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        if state.is_encrypted() {
            return Err(Error::Unreadable("it is encrypted (EFS)"));
        }
        let end = offset + data.len() as u64;
        if let Place::Resident(content) = &state.place {
            let grown = (end as usize).max(content.len());
            if self.may_be_resident(core, node, grown)? {
                return self.remake(core, node, state, |_, state| {
                    if let Place::Resident(content) = &mut state.place {
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
            return self.write_compressed(core, node, state, offset, data);
        }
        self.provide(core, node, state, offset..end)?;
        if offset > state.planned {
            let gap = state.planned..offset;
            self.write_zeroes(state, gap.clone())?;
            state.note_written(gap);
        }
        self.write_bytes(state, offset, data)?;
        state.note_written(offset..end);
        state.size = state.size.max(end);
        Ok(())
    }

    /// Whether content of so many bytes fits into the record.
    fn may_be_resident(&self, core: &mut Core, node: u64, length: usize) -> Result<bool> {
        let (number, name) = self.place_of(core, node)?;
        let room = Record::room(core.geometry.record as usize);
        if length > room || number >= DETACHED && length > 512 {
            return Ok(false);
        }
        let file = core.file(number)?;
        let now = file.find(Type::DATA, &name).map_or(0, |attr| attr.value().map_or(0, <[u8]>::len));
        Ok(file.length() + length.next_multiple_of(8) <= room + now.next_multiple_of(8))
    }

    /// Moves resident content out into clusters.
    fn move_out(&self, core: &mut Core, node: u64, state: &mut State) -> Result<()> {
        let Place::Resident(content) = &state.place else { return Ok(()) };
        if content.is_empty() && !state.is_compressed() {
            // Nothing moves; its record says so with the clusters that come.
            state.place = Place::Runs(Vec::new());
            return Ok(());
        }
        let content = content.clone();
        let on_disk = self.is_on_disk(core, node)?;
        let cluster = self.cluster;
        let is_compressed = state.is_compressed();
        self.remake(core, node, state, |core, state| {
            state.place = Place::Runs(Vec::new());
            if is_compressed {
                state.unit = UNIT;
                (state.size, state.valid, state.planned) = (0, 0, 0);
                return Ok(());
            }
            let mut outside = Outside::default();
            core.extend(&mut outside, (content.len() as u64).div_ceil(cluster), on_disk, false)?;
            let mut whole = content.clone();
            whole.resize((outside.clusters() * cluster) as usize, 0);
            // New clusters: nothing on disk leads to them yet.
            core.write_runs(&outside.runs, 0, &whole)?;
            state.place = Place::Runs(outside.runs);
            Ok(())
        })?;
        if is_compressed && !content.is_empty() {
            return self.write_compressed(core, node, state, 0, &content);
        }
        Ok(())
    }

    // Compression

    fn unit_clusters(&self, state: &State) -> u64 {
        1 << state.unit.clamp(1, 16)
    }

    /// The content of one compression unit.
    fn read_unit(&self, state: &State, unit: u64) -> Result<Vec<u8>> {
        let clusters = self.unit_clusters(state);
        let bytes = clusters * self.cluster;
        let mut content = vec![0; bytes as usize];
        let start = unit * bytes;
        if start >= state.valid {
            return Ok(content);
        }
        let runs = part(state.runs(), unit * clusters, (unit + 1) * clusters);
        let packed: Vec<Run> = runs.into_iter().filter(|run| run.lcn.is_some()).collect();
        let taken: u64 = packed.iter().map(|run| run.length).sum();
        let mut stream = Vec::with_capacity((taken * self.cluster) as usize);
        for run in &packed {
            let from = stream.len();
            stream.resize(from + (run.length * self.cluster) as usize, 0);
            read_any(&*self.device, run.lcn.unwrap_or(0) * self.cluster, &mut stream[from..])?;
        }
        if taken == clusters {
            content = stream;
        } else if let Some(first) = packed.first() {
            lznt1::decompress(&stream, &mut content, first.lcn.unwrap_or(0) * self.cluster)?;
        }
        let valid = (state.valid - start).min(bytes) as usize;
        content[valid..].fill(0);
        Ok(content)
    }

    pub(super) fn read_compressed(&self, state: &State, offset: u64, length: usize) -> Result<Vec<u8>> {
        let bytes = self.unit_clusters(state) * self.cluster;
        let end = offset + length as u64;
        let mut content = Vec::with_capacity(length);
        for unit in offset / bytes..end.div_ceil(bytes) {
            let whole = self.read_unit(state, unit)?;
            let from = offset.saturating_sub(unit * bytes) as usize;
            let to = (end - unit * bytes).min(bytes) as usize;
            content.extend_from_slice(&whole[from..to]);
        }
        Ok(content)
    }

    /// Writes into a compressed stream: its units are read, changed, packed, and written to new clusters.
    fn write_compressed(
        &self,
        core: &mut Core,
        node: u64,
        state: &mut State,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        let cluster = self.cluster;
        let clusters = self.unit_clusters(state);
        let bytes = clusters * cluster;
        let end = offset + data.len() as u64;
        let on_disk = self.is_on_disk(core, node)?;
        let mut packer = lznt1::Packer::default();
        for unit in offset / bytes..end.div_ceil(bytes) {
            let start = unit * bytes;
            let mut content = self.read_unit(state, unit)?;
            let (from, to) = (offset.max(start), end.min(start + bytes));
            content[(from - start) as usize..(to - start) as usize]
                .copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]);
            let mut packed = vec![0; (bytes - cluster) as usize];
            let is_zero = content.iter().all(|byte| *byte == 0);
            let length = if is_zero { Some(0) } else { packer.compress(&content, &mut packed) };
            let image = match length {
                Some(length) => {
                    packed.truncate(length);
                    packed.resize(length.next_multiple_of(cluster as usize), 0);
                    packed
                }
                None => content,
            };
            self.remake(core, node, state, |core, state| {
                let mut new = Outside::default();
                new.push(None, unit * clusters);
                let wanted = image.len() as u64 / cluster;
                if core.space.at_hand() < wanted + core.reserve() {
                    return Err(Error::NoSpace);
                }
                while new.clusters() < unit * clusters + wanted {
                    let found =
                        core.take_clusters(None, unit * clusters + wanted - new.clusters(), on_disk)?;
                    new.push(Some(found.0), found.1);
                }
                core.write_runs(&new.runs, start, &image)?;
                new.push(None, clusters - wanted);
                let Place::Runs(runs) = &mut state.place else { return Ok(()) };
                let known = runs.last().map_or(0, Run::end);
                if known < (unit + 1) * clusters {
                    crate::layout::runs::push(
                        runs,
                        Run { vcn: known, lcn: None, length: (unit + 1) * clusters - known },
                    );
                }
                let new = part(&new.runs, unit * clusters, (unit + 1) * clusters);
                let old = splice(runs, unit * clusters, (unit + 1) * clusters, &new);
                core.give_runs(&old, Held::Data, on_disk);
                state.valid = state.valid.max(to);
                state.planned = state.valid;
                state.size = state.size.max(to);
                Ok(())
            })?;
        }
        Ok(())
    }

    // Sizes

    /// Makes a stream shorter or longer.
    pub(super) fn resize(&self, node: Node, size: u64) -> Result<()> {
        let stream = self.data_of(node)?;
        self.may_write(&stream)?;
        self.check_size(Some(size))?;
        loop {
            stream.wait_quiet();
            let mut core = self.change()?;
            let mut state = stream.write();
            if !stream.is_quiet() {
                continue;
            }
            if state.is_encrypted() {
                return Err(Error::Unreadable("it is encrypted (EFS)"));
            }
            if size == state.size {
                return Ok(());
            }
            self.resize_locked(&mut core, node.0, &mut state, size)?;
            break;
        }
        self.note_write(&stream);
        Ok(())
    }

    fn resize_locked(&self, core: &mut Core, node: u64, state: &mut State, size: u64) -> Result<()> {
        let cluster = self.cluster;
        if matches!(state.place, Place::Resident(_)) {
            if self.may_be_resident(core, node, usize::try_from(size).unwrap_or(usize::MAX / 2))? {
                return self.remake(core, node, state, |_, state| {
                    if let Place::Resident(content) = &mut state.place {
                        content.resize(size as usize, 0);
                    }
                    (state.size, state.valid, state.planned) = (size, size, size);
                    Ok(())
                });
            }
            self.move_out(core, node, state)?;
        }
        let on_disk = self.is_on_disk(core, node)?;
        let unit = if state.is_compressed() { self.unit_clusters(state) } else { 1 };
        let wanted = size.div_ceil(cluster).next_multiple_of(unit);
        if state.is_compressed() && size < state.valid {
            // What is cut off in the middle of a unit must not come back when the file grows again.
            let end = state.valid.min(wanted * cluster);
            if size < end {
                self.write_compressed(core, node, state, size, &vec![0; (end - size) as usize])?;
            }
        }
        self.remake(core, node, state, |core, state| {
            let is_compressed = state.is_compressed();
            let Place::Runs(runs) = &mut state.place else { return Ok(()) };
            let known = runs.last().map_or(0, Run::end);
            if size < state.size {
                let old = cut(runs, wanted);
                core.give_runs(&old, Held::Data, on_disk);
                state.is_ahead = false;
            } else if wanted > known {
                let mut outside = Outside { runs: std::mem::take(runs), ..Outside::default() };
                if is_compressed || (wanted - known) * cluster >= HOLE {
                    outside.push(None, wanted - known);
                    if !is_compressed {
                        state.flags |= attribute_flags::SPARSE;
                    }
                } else {
                    core.extend(&mut outside, wanted - known, on_disk, false)?;
                }
                state.place = Place::Runs(outside.runs);
            }
            state.size = size;
            state.valid = state.valid.min(size);
            state.planned = state.valid;
            state.done.clear();
            Ok(())
        })
    }

    /// Gives clusters back that were taken ahead of the content, unless plans are under way.
    pub(super) fn trim(&self, core: &mut Core, node: u64) -> Result<()> {
        let Some(stream) = core.nodes.get(node)?.stream.clone() else { return Ok(()) };
        let mut state = stream.write();
        if !state.is_ahead || !stream.is_quiet() {
            return Ok(());
        }
        let on_disk = self.is_on_disk(core, node)?;
        let wanted = state.size.div_ceil(self.cluster);
        self.remake(core, node, &mut state, |core, state| {
            if let Place::Runs(runs) = &mut state.place {
                let old = cut(runs, wanted);
                core.give_runs(&old, Held::Data, on_disk);
            }
            state.is_ahead = false;
            state.valid = state.valid.min(state.size);
            state.planned = state.valid;
            Ok(())
        })
    }

    /// Takes clusters for a range without changing what it reads as.
    pub(super) fn preallocate(&self, node: Node, range: Range<u64>, keep_size: bool) -> Result<()> {
        let stream = self.data_of(node)?;
        self.may_write(&stream)?;
        if range.is_empty() {
            return Err(Error::InvalidArgument("the range is empty"));
        }
        self.check_size(Some(range.end))?;
        let mut core = self.change()?;
        let mut state = stream.write();
        if state.is_encrypted() {
            return Err(Error::Unreadable("it is encrypted (EFS)"));
        }
        if matches!(state.place, Place::Resident(_)) {
            self.move_out(&mut core, node.0, &mut state)?;
        }
        let grows = !keep_size && range.end > state.size;
        if !state.is_compressed() {
            // Holes become zeroes; what is past the valid length reads as zeroes whatever it holds.
            let nothing = range.start..range.start;
            self.provide_zeroed(&mut core, node.0, &mut state, range.clone(), nothing)?;
            state.is_ahead = true;
        }
        if grows {
            if state.is_compressed() {
                drop(state);
                drop(core);
                return self.resize(node, range.end);
            }
            let known = state.clusters() * self.cluster;
            debug_assert!(range.end <= known, "provided just now");
            state.size = range.end;
            drop(state);
            drop(core);
            self.note_write(&stream);
        }
        Ok(())
    }

    fn provide_zeroed(
        &self,
        core: &mut Core,
        node: u64,
        state: &mut State,
        range: Range<u64>,
        written: Range<u64>,
    ) -> Result<()> {
        let cluster = self.cluster;
        let (first, last) = (range.start / cluster, range.end.div_ceil(cluster));
        let known = state.clusters();
        let on_disk = self.is_on_disk(core, node)?;
        if is_there(state.runs(), first, last) {
            return Ok(());
        }
        self.remake(core, node, state, |core, state| {
            let Place::Runs(runs) = &mut state.place else { return Ok(()) };
            for hole in part(runs, first, last.min(known)).into_iter().filter(|run| run.lcn.is_none()) {
                self.fill_hole(core, runs, hole, on_disk, written.clone())?;
            }
            if last > known {
                let mut outside = Outside { runs: std::mem::take(runs), ..Outside::default() };
                if first.saturating_sub(known) * cluster >= HOLE {
                    outside.push(None, first - known);
                    state.flags |= attribute_flags::SPARSE;
                }
                let wanted = last - outside.clusters();
                core.extend(&mut outside, wanted, on_disk, false)?;
                state.place = Place::Runs(outside.runs);
            }
            Ok(())
        })
    }

    /// Makes a range read as zeroes, and gives its whole clusters back.
    pub(super) fn make_hole(&self, node: Node, range: Range<u64>) -> Result<()> {
        let stream = self.data_of(node)?;
        self.may_write(&stream)?;
        if range.is_empty() {
            return Err(Error::InvalidArgument("the range is empty"));
        }
        loop {
            stream.wait_quiet();
            let mut core = self.change()?;
            let mut state = stream.write();
            if !stream.is_quiet() {
                continue;
            }
            let inside = range.start..range.end.min(state.size);
            self.punch_locked(&mut core, node.0, &mut state, inside)?;
            break;
        }
        self.note_write(&stream);
        Ok(())
    }

    fn punch_locked(&self, core: &mut Core, node: u64, state: &mut State, range: Range<u64>) -> Result<()> {
        if state.is_encrypted() {
            return Err(Error::Unreadable("it is encrypted (EFS)"));
        }
        if range.is_empty() {
            return Ok(());
        }
        if matches!(state.place, Place::Resident(_)) {
            return self.remake(core, node, state, |_, state| {
                if let Place::Resident(content) = &mut state.place {
                    content[range.start as usize..range.end as usize].fill(0);
                }
                Ok(())
            });
        }
        let cluster = self.cluster;
        let unit = if state.is_compressed() { self.unit_clusters(state) } else { 1 };
        let piece = unit * cluster;
        // The last cluster is whole if the file ends in it.
        let is_end = range.end == state.size;
        let first = range.start.next_multiple_of(piece);
        let last = if is_end { range.end.next_multiple_of(piece) } else { range.end / piece * piece };
        let edges = if first >= last {
            [range.clone(), 0..0]
        } else {
            [range.start..first, last.min(range.end)..range.end]
        };
        for edge in edges {
            let edge = edge.start..edge.end.min(state.valid);
            if edge.is_empty() {
                continue;
            }
            if state.is_compressed() {
                self.write_compressed(
                    core,
                    node,
                    state,
                    edge.start,
                    &vec![0; (edge.end - edge.start) as usize],
                )?;
            } else {
                self.write_zeroes(state, edge)?;
            }
        }
        if first >= last {
            return Ok(());
        }
        let on_disk = self.is_on_disk(core, node)?;
        self.remake(core, node, state, |core, state| {
            let is_compressed = state.is_compressed();
            let Place::Runs(runs) = &mut state.place else { return Ok(()) };
            let (from, to) = (first / cluster, (last / cluster).min(runs.last().map_or(0, Run::end)));
            if from < to {
                let old = splice(runs, from, to, &[Run { vcn: from, lcn: None, length: to - from }]);
                core.give_runs(&old, Held::Data, on_disk);
            }
            if !is_compressed {
                state.flags |= attribute_flags::SPARSE;
            }
            Ok(())
        })
    }
}
