//! The parts of a record besides the file's own data: symbolic links, named streams, extended attributes, integrity.

use super::changing::{TO_ADD, TO_CHANGE};
use super::{ListedRow, RefsVolume, Volume};
use crate::attributes::{self, is_link};
use crate::core::{Entity, Id, Named, RecordPlace};
use crate::extents::{Extent, RunKind};
use crate::layout::attribute::{EA, EA_INFORMATION, SINGLE};
use crate::layout::extended::{extended_rows, read_extended};
use crate::layout::{Attribute, Record, crc32c};
use crate::stream::{Limits, Stream, StreamContent, StreamState};
use platter_device::{Buffer, sync};
use platter_vfs::{Error, Integrity, Name, NameRules, Node, Progress, Reparse, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Returns the extended attributes of a record.
pub(crate) fn extended_attributes(record: &Record) -> Vec<(String, Vec<u8>)> {
    record.single(EA).map(|row| read_extended(&row.value)).unwrap_or_default()
}

/// Sets (`Some`) or removes (`None`) one of the extended attributes of a file.
fn set_extended(all: &mut Vec<(String, Vec<u8>)>, name: &str, value: Option<&[u8]>) -> Result<()> {
    if name.is_empty() || name.len() > 254 || value.is_some_and(|value| value.len() > 0xFFFF) {
        return Err(Error::InvalidArgument(
            "an extended attribute has a name of 1 to 254 bytes and at most 65535 bytes",
        ));
    }
    match (all.iter().position(|(other, _)| other == name), value) {
        (None, None) => return Err(Error::NotFound),
        (Some(position), None) => drop(all.remove(position)),
        (Some(position), Some(value)) => all[position].1 = value.to_vec(),
        (None, Some(value)) => all.push((name.into(), value.to_vec())),
    }
    Ok(())
}

/// Gives the record of a new file extended attributes.
pub(super) fn give_extended(record: &mut Record, given: &[(&str, &[u8])]) -> Result<()> {
    let mut all = Vec::new();
    for &(name, value) in given {
        set_extended(&mut all, name, Some(value))?;
    }
    store_extended(record, &all);
    Ok(())
}

/// Stores extended attributes in a record.
fn store_extended(record: &mut Record, all: &[(String, Vec<u8>)]) {
    record.take(|row| matches!(row.kind(), EA | EA_INFORMATION) && row.is_single());
    record.ea_size = 0;
    record.attributes &= !Record::HAS_EA;
    if all.is_empty() {
        return;
    }
    let rows = extended_rows(all);
    record.rows.push(Attribute::new(SINGLE, EA_INFORMATION, 0, &[], 0, rows.information));
    record.rows.push(Attribute::new(SINGLE, EA, 0, &[], 0, rows.list));
    record.ea_size = rows.packed;
    record.attributes |= Record::HAS_EA;
}

/// Keeps a file from being converted to or from integrity by any other caller while this exists. A second conversion, a
/// clone or a snapshot must not take the runs of a half-way conversion for those of a finished one.
pub(super) struct Conversion<'v> {
    volume: &'v Volume,
    node: Node,
}

impl<'v> Conversion<'v> {
    /// Waits until no other conversion of this file is under way.
    pub(super) fn begin(volume: &'v Volume, node: Node) -> Conversion<'v> {
        let mut converting = volume.converting.lock();
        while !converting.insert(node.0) {
            converting = volume.converted.wait(converting);
        }
        Conversion { volume, node }
    }
}

impl Drop for Conversion<'_> {
    fn drop(&mut self) {
        self.volume.converting.lock().remove(&self.node.0);
        self.volume.converted.notify_all();
    }
}

impl RefsVolume {
    pub(super) fn change_extended_attributes(
        &self,
        node: Node,
        changes: &[(&str, Option<&[u8]>)],
    ) -> Result<()> {
        let grows = changes.iter().any(|(_, value)| value.is_some());
        let mut core = if grows { self.grow()? } else { self.change()? };
        if matches!(core.entity(node.0)?.place, RecordPlace::Part { .. }) {
            return Err(Error::InvalidArgument("a named stream has no extended attributes"));
        }
        let mut all = extended_attributes(&core.entity(node.0)?.record);
        for &(name, value) in changes {
            set_extended(&mut all, name, value)?;
        }
        let entity = core.entity_mut(node.0)?;
        entity.absorb_written();
        let before = entity.record.clone();
        store_extended(&mut entity.record, &all);
        if let Err(error) = self.make_fit(&mut core, node.0, None) {
            core.entity_mut(node.0)?.record = before;
            return Err(error);
        }
        let now = self.now();
        core.entity_mut(node.0)?.note_change(now);
        Ok(())
    }

    /// Gives a file or directory another reparse point, or takes it away.
    pub(super) fn change_reparse_point(&self, node: Node, point: Option<&Reparse>) -> Result<()> {
        point.map_or(Ok(()), platter_vfs::reparse::check)?;
        let now = self.now();
        let mut core = if point.is_some() { self.grow()? } else { self.change()? };
        let becomes = point.is_some_and(|point| is_link(point.tag));
        let (id, is_there) = (core.entity(node.0)?.id, core.entity(node.0)?.place != RecordPlace::Nowhere);
        if let Id::Stream(..) = id {
            return Err(Error::InvalidArgument("a named stream has no reparse point of its own"));
        }
        if let (Id::Directory(object), true, true) = (id, becomes, is_there)
            && (node == Node::ROOT || self.has_names(&mut core, object)?)
        {
            return Err(Error::NotEmpty);
        }
        let entity = core.entity_mut(node.0)?;
        let has_content = entity.stream.as_ref().is_some_and(|stream| stream.read().size > 0);
        entity.absorb_written();
        let before = entity.record.clone();
        let place = entity.place.clone();
        attributes::set_reparse_point(&mut entity.record, point);
        let refused = match point {
            Some(_) if becomes && has_content => {
                Some(Error::InvalidArgument("a file that has content cannot become a symbolic link"))
            }
            Some(_) if attributes::unreadable(&entity.record).is_some() => Some(attributes::elsewhere()),
            _ => self.make_fit(&mut core, node.0, None).err(),
        };
        let entity = core.entity_mut(node.0)?;
        if let Some(error) = refused {
            entity.record = before;
            return Err(error);
        }
        entity.record.times[2] = now;
        entity.stream.iter().for_each(|stream| stream.is_link.store(becomes, Ordering::SeqCst));
        let after = entity.record.clone();
        match (id, place) {
            (_, RecordPlace::Nowhere) => Ok(()),
            (Id::Directory(_), RecordPlace::Directory { above, name }) => {
                let row = self.row(&mut core, above, &Name::from_units(&name))?;
                let ordinal = match row {
                    Some((_, ListedRow::Short(short))) => short.ordinal,
                    _ => 0,
                };
                core.unindex_point(before.reparse, (ordinal, above), id, before.ordinal)?;
                core.index_reparse(&after, id, true)
            }
            _ => {
                core.index_reparse(&before, id, false)?;
                core.index_reparse(&after, id, true)
            }
        }
    }

    pub(super) fn open_stream(&self, node: Node, name: &Name, create: bool) -> Result<Node> {
        // An existing stream is opened however full the volume is.
        let mut core = match create {
            true => self.grow().or_else(|error| match error {
                Error::NoSpace | Error::ReadOnly(_) => Ok(self.core()),
                error => Err(error),
            })?,
            false => self.core(),
        };
        let upper = core.upper.clone();
        let entity = core.entity(node.0)?;
        if matches!(entity.place, RecordPlace::Part { .. }) {
            return Err(Error::InvalidArgument("a named stream has no streams of its own"));
        }
        let known = entity
            .named
            .iter()
            .find(|named| named.is_called(name, &upper))
            .map(|named| (named.node, named.stream.clone()));
        let (number, stream) = match known {
            Some(found) => found,
            None if !create => return Err(Error::NotFound),
            None => {
                NameRules::STREAM.check(name)?;
                core.writable()?;
                if !core.spares(TO_ADD) {
                    return Err(Error::NoSpace);
                }
                core.changeable(node.0)?;
                let integrity = core.entity(node.0)?.record.attributes & Record::INTEGRITY != 0;
                let number = core.next_node();
                let read_only = core.entity(node.0)?.record.attributes & 1 != 0;
                let orphan = core.entity(node.0)?.place == RecordPlace::Nowhere;
                let state = StreamState { orphan, ..StreamState::empty(integrity) };
                let stream = Arc::new(Stream::new(number, state, read_only, Limits::default()));
                let (name, stream_of) = (name.units().to_vec(), stream.clone());
                let named = Named { name, node: number, stream: stream_of, snapshot: None };
                core.entity_mut(node.0)?.named.push(named);
                if let Err(error) = self.make_fit(&mut core, node.0, None) {
                    core.entity_mut(node.0)?.named.pop();
                    return Err(error);
                }
                (number, stream)
            }
        };
        if core.entity(number).is_err() {
            let mut record = core.entity(node.0)?.record.clone();
            record.rows.clear();
            record.reparse = 0;
            let entity = Entity {
                id: Id::Stream(node.0, number),
                place: RecordPlace::Part { of: node.0 },
                record,
                stream: Some(stream),
                named: Vec::new(),
                handed_out: 0,
                only_read: None,
            };
            core.insert(entity, number);
        }
        self.hand_out(&mut core, number)
    }

    pub(super) fn delete_stream(&self, node: Node, name: &Name) -> Result<()> {
        self.delete_named(node, name, false)
    }

    /// Removes a named stream, or a snapshot.
    pub(super) fn delete_named(&self, node: Node, name: &Name, is_snapshot: bool) -> Result<()> {
        let mut core = self.change()?;
        let upper = core.upper.clone();
        core.load_streams(node.0, false)?;
        let is_it = |named: &Named| named.snapshot.is_some() == is_snapshot && named.is_called(name, &upper);
        let position = core.entity(node.0)?.named.iter().position(is_it).ok_or(Error::NotFound)?;
        // The node is a file from here on, as a stream has no streams. The file's record takes over the time of the last
        // write before the stream is removed. Callers that still hold the stream go on seeing the times that the file
        // has now.
        let entity = core.entity_mut(node.0)?;
        entity.absorb_written();
        let named = entity.named.remove(position);
        if core.entity(named.node).is_ok() {
            core.rename_id(named.node, Id::Nameless(named.node));
            let face = core.entity(node.0)?.record.clone();
            let entity = core.entity_held(named.node)?;
            entity.place = RecordPlace::Nowhere;
            (entity.record.times, entity.record.attributes) = (face.times, face.attributes);
            entity.record.links = 0;
            core.orphan_stream(&named.stream)?;
            return core.forget_idle(named.node);
        }
        core.release_stream(&named.stream)
    }

    /// Turns checksums on or off; on a file that has data, they are computed or dropped at once.
    pub(super) fn change_integrity(
        &self,
        node: Node,
        integrity: Integrity,
        watch: &dyn Progress,
    ) -> Result<()> {
        if matches!(self.core().entity(node.0)?.place, RecordPlace::Part { .. }) {
            return Err(Error::InvalidArgument("a named stream has the integrity of its file"));
        }
        let _alone = Conversion::begin(self, node);
        match integrity.enabled {
            true => self.add_checksums(node, watch),
            false => self.drop_checksums(node, watch),
        }
    }

    /// Gives all clusters of a file checksums: writes have them from now on, and existing clusters get them. The
    /// record's integrity attribute is set when all clusters have one.
    fn add_checksums(&self, node: Node, watch: &dyn Progress) -> Result<()> {
        loop {
            let mut core = self.change()?;
            let without = core.entity(node.0)?.all_streams().find(|stream| !stream.read().integrity).cloned();
            let Some(stream) = without else {
                core.entity_mut(node.0)?.record.attributes |= Record::INTEGRITY;
                return Ok(());
            };
            drop(core);
            self.convert(node, &stream, true, watch).inspect_err(|_| {
                let _claim = stream.claim_all();
                stream.write().integrity = false;
            })?;
        }
    }

    /// Clears the record's integrity attribute and drops all checksums. A cluster whose checksum is in the checkpoint
    /// on disk must not be overwritten, so writes go to new clusters until a checkpoint without the checksums is on
    /// disk.
    fn drop_checksums(&self, node: Node, watch: &dyn Progress) -> Result<()> {
        let streams: Vec<Arc<Stream>> = {
            let mut core = self.change()?;
            let entity = core.entity_mut(node.0)?;
            entity.record.attributes &= !Record::INTEGRITY;
            entity.all_streams().filter(|stream| stream.read().integrity).cloned().collect()
        };
        let mut is_dropped = false;
        for stream in &streams {
            is_dropped |= self.convert(node, stream, false, watch)?;
        }
        if is_dropped {
            self.commit()?;
        }
        for stream in streams {
            let (_claim, mut core, mut state) = self.change_alone(&stream, TO_CHANGE)?;
            state.integrity = false;
            core.mark(node.0);
        }
        Ok(())
    }

    /// Computes or drops the checksums of a stream's clusters. Returns whether it has any clusters.
    fn convert(&self, node: Node, stream: &Stream, enabled: bool, watch: &dyn Progress) -> Result<bool> {
        /// Clusters converted at a time.
        const PIECE: u64 = 256;
        let piece = sync::at_least(PIECE, 4) as u32;
        let cluster = self.geometry.cluster as usize;
        let mut at = 0;
        let mut buffer = Buffer::new(piece as usize * cluster);
        loop {
            // No write in place may come between reading a cluster and storing its checksum.
            let (_claim, mut core, mut state) = self.change_alone(stream, TO_ADD)?;
            state.integrity = true;
            // The file's node is marked, since the node of a named stream need not be in use.
            core.entity_mut(node.0)?;
            if enabled {
                self.give_back_unwritten(&mut core, &mut state)?;
            }
            let state = &mut *state;
            let StreamContent::Extents(extents) = &mut state.content else { break };
            let end = (state.size.div_ceil(cluster as u64)) as u32;
            if at >= end {
                break;
            }
            let to = (at + piece).min(end);
            extents.load_range(&mut core.pages, at, to)?;
            let runs: Vec<Extent> = extents.within(at, to)?;
            let mut rows = Vec::new();
            for run in runs {
                if run.checksum().is_some() == enabled {
                    rows.push(run);
                } else if enabled {
                    let length = run.count as usize * cluster;
                    let offset = self.geometry.offset(core.pages.map.real(
                        &self.geometry,
                        run.cluster,
                        u64::from(run.count),
                    )?);
                    self.device.read_at(offset, &mut buffer[..length])?;
                    for (index, content) in buffer[..length].chunks_exact(cluster).enumerate() {
                        rows.push(Extent {
                            at: run.at + index as u32,
                            count: 1,
                            cluster: run.cluster + index as u64,
                            kind: RunKind::Checked(crc32c(content)),
                        });
                    }
                } else {
                    rows.push(Extent { kind: RunKind::PLAIN, ..run });
                }
            }
            // The clusters stay where they are.
            let mut gone = Vec::new();
            for row in rows {
                extents.replace(row.at, row.end(), &[row], &mut gone);
            }
            state.generation.advance();
            at = to;
            let what = if enabled { "computing checksums" } else { "removing checksums" };
            watch.progress(what, (u64::from(at) * cluster as u64).min(state.size), state.size);
        }
        Ok(at > 0)
    }
}
