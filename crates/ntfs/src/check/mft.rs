//! The runs of `$MFT` itself: found piece by piece, and each piece moved to where the pieces before it lead to.
//!
//! A record that has a further piece must lie in clusters that the pieces before it have: a driver that opens the
//! volume could not find it otherwise. A record that lies elsewhere is looked for on the whole device, and known by
//! its content: it extends `$MFT`, has the runs that are wanted next, and lies where its own number and these runs
//! lead to.

use super::disk::Disk;
use super::record::{self, RecordState};
use super::{Check, Severity};
use crate::layout::bytes::{u16_at, u32_at, u64_at};
use crate::layout::{
    AttributeContent, FileName, Geometry, Kind, NonResident, Record, Reference, Run, fixup, record_flags,
    record_number as known, runs,
};
use platter_vfs::Result;
use std::collections::BTreeMap;

/// Bytes of the device that are read at once.
const READ: u64 = 1 << 20;

// Reads are whole sectors, of which none is larger than 4096 bytes.
const _: () = assert!(READ.is_multiple_of(4096));

/// How many records that claim to extend `$MFT` are remembered, at most.
const MOST: usize = 1 << 14;
/// How many of these records are tried for one piece, at most.
const TRIED: usize = 64;

/// A record that has a piece of `$MFT`'s runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// The number of the record.
    pub number: u64,
    /// The first virtual cluster of the piece.
    pub first: u64,
    /// Whether no piece before it leads to the record.
    pub is_lost: bool,
}

/// A record that was found by a search of the device, up to the end of its first cluster.
pub(super) struct Stray {
    place: u64,
    number: u64,
    /// The first virtual cluster of its piece.
    first: u64,
    head: Vec<u8>,
}

/// The piece of `$MFT`'s unnamed data that a record has.
fn piece_of(record: &Record) -> Option<&NonResident> {
    record.attributes.iter().find_map(|attribute| match &attribute.content {
        AttributeContent::NonResident(piece) if attribute.kind == Kind::DATA && attribute.name.is_empty() => {
            Some(piece)
        }
        _ => None,
    })
}

/// The record in `bytes`, if it is one that extends `$MFT`.
fn extension(bytes: &mut [u8], at: u64) -> Option<Record> {
    if !bytes.starts_with(Record::SIGNATURE) || fixup::remove(bytes, "file record", at).is_err() {
        return None;
    }
    let (record, _) = record::salvage(bytes, at).ok()?;
    let is_one = record.in_use() && record.base.0 != 0 && record.base.number() == known::MFT;
    is_one.then_some(record)
}

/// Follows the pieces behind the first one, which says that there are `whole` clusters altogether: adds their runs to
/// `found`, and returns the pieces. `listed` are the records that the attribute list names.
pub(super) fn follow(
    disk: &Disk,
    geometry: &Geometry,
    found: &mut Vec<Run>,
    whole: u64,
    listed: &[u64],
    strays: &mut Option<Vec<Stray>>,
) -> Result<Vec<Piece>> {
    let size = u64::from(geometry.record);
    let mut pieces: Vec<Piece> = Vec::new();
    let mut looked_at = 0;
    // Pieces by their first virtual cluster. Each record is read once, as soon as it can be found.
    let mut own: BTreeMap<u64, (u64, NonResident)> = BTreeMap::new();
    let mut waiting = listed.to_vec();
    loop {
        let end = found.last().map_or(0, Run::end);
        if end >= whole.min(geometry.clusters) {
            return Ok(pieces);
        }
        let (near, far): (Vec<u64>, Vec<u64>) =
            waiting.iter().partition(|number| **number < end * geometry.cluster / size);
        waiting = far;
        for number in near {
            let mut bytes = vec![0; size as usize];
            disk.read_runs(geometry, found, number * size, &mut bytes)?;
            if let Some(piece) = extension(&mut bytes, number * size).as_ref().and_then(piece_of) {
                own.entry(piece.first).or_insert((number, piece.clone()));
            }
        }
        let mut next = own.get(&end).map(|(number, piece)| (*number, piece.clone(), false));
        if next.is_none() {
            // The list is lost or wrong: all records that the known runs lead to are looked at.
            let per_read = (READ / size).max(1);
            let count = end * geometry.cluster / size;
            while looked_at < count {
                let here = per_read.min(count - looked_at);
                let mut bytes = vec![0; (here * size) as usize];
                disk.read_runs(geometry, found, looked_at * size, &mut bytes)?;
                for (number, bytes) in (looked_at..).zip(bytes.chunks_exact_mut(size as usize)) {
                    if let Some(piece) = extension(bytes, number * size).as_ref().and_then(piece_of)
                        && own.len() < MOST
                    {
                        own.entry(piece.first).or_insert((number, piece.clone()));
                    }
                }
                looked_at += here;
            }
            next = own.get(&end).map(|(number, piece)| (*number, piece.clone(), false));
        }
        if next.is_none() {
            if strays.is_none() {
                *strays = Some(search(disk, geometry)?);
            }
            let here = strays.iter().flatten().filter(|stray| stray.first == end);
            for stray in here.take(TRIED) {
                if let Some(piece) = stray.piece(disk, geometry, found)? {
                    next = Some((stray.number, piece, true));
                    break;
                }
            }
        }
        let Some((number, piece, is_lost)) = next else { return Ok(pieces) };
        let Some(more) = unpacked(geometry, &piece, end, number * size).filter(|more| !more.is_empty())
        else {
            return Ok(pieces);
        };
        more.into_iter().for_each(|run| runs::push(found, run));
        pieces.push(Piece { number, first: end, is_lost });
    }
}

fn unpacked(geometry: &Geometry, piece: &NonResident, end: u64, at: u64) -> Option<Vec<Run>> {
    runs::unpack(&piece.pairs, end, piece.end, geometry.clusters, at).ok()
}

impl Stray {
    /// The piece that goes on where `found` ends, if the record has that piece and lies where its own number and
    /// these runs lead to. A record in several clusters is put together by the runs in its first cluster.
    fn piece(&self, disk: &Disk, geometry: &Geometry, found: &[Run]) -> Result<Option<NonResident>> {
        let (size, end) = (geometry.record as usize, found.last().map_or(0, Run::end));
        let start = self.number.saturating_mul(size as u64);
        let mut bytes = self.head.clone();
        loop {
            let Some((_, more)) = beginning(&bytes, geometry.clusters) else { return Ok(None) };
            let mut with = found.to_vec();
            more.into_iter().for_each(|run| runs::push(&mut with, run));
            let place = |at: usize| {
                let pieces = super::disk::pieces(geometry, &with, start.saturating_add(at as u64), 1);
                pieces.first().and_then(|piece| piece.1)
            };
            if place(0) != Some(self.place) {
                return Ok(None);
            }
            if bytes.len() >= size {
                break;
            }
            let Some(place) = place(bytes.len()) else { return Ok(None) };
            let mut next = vec![0; (geometry.cluster as usize).min(size - bytes.len())];
            disk.read(place, &mut next)?;
            bytes.append(&mut next);
        }
        let record = extension(&mut bytes, self.place);
        Ok(record.as_ref().and_then(piece_of).filter(|piece| piece.first == end).cloned())
    }
}

/// The piece of `$MFT`'s runs in the first sectors of a record: its first virtual cluster, and the runs that are in
/// these sectors.
fn beginning(sectors: &[u8], clusters: u64) -> Option<(u64, Vec<Run>)> {
    let mut bytes = sectors.to_vec();
    let at = usize::from(u16_at(&bytes, 4));
    for (index, sector) in bytes.clone().chunks_exact(512).enumerate() {
        let aside = at + 2 * (index + 1);
        if aside + 2 > bytes.len() || sector[510..] != sectors[at..at + 2] {
            return None;
        }
        bytes.copy_within(aside..aside + 2, 512 * index + 510);
    }
    let mut position = usize::from(u16_at(&bytes, 0x14));
    while position + 0x40 <= bytes.len() && Kind(u32_at(&bytes, position)) != Kind::END {
        let length = u32_at(&bytes, position + 4) as usize;
        let is_data = Kind(u32_at(&bytes, position)) == Kind::DATA && bytes[position + 9] == 0;
        if is_data && bytes[position + 8] == 1 {
            let first = u64_at(&bytes, position + 0x10);
            let end = u64_at(&bytes, position + 0x18).wrapping_add(1);
            let from = position + usize::from(u16_at(&bytes, position + 0x20));
            let pairs = bytes.get(from..position.saturating_add(length).min(bytes.len()))?;
            let mut found = Vec::new();
            // The pairs may be cut off where these sectors end.
            let _ = runs::unpack_into(&mut found, pairs, first, end, clusters, 0);
            return Some((first, found));
        }
        if length < 0x18 {
            return None;
        }
        position = position.saturating_add(length);
    }
    None
}

/// All records on the device that claim to extend `$MFT`.
fn search(disk: &Disk, geometry: &Geometry) -> Result<Vec<Stray>> {
    let head = u64::from(geometry.record).min(geometry.cluster);
    let end = (geometry.clusters * geometry.cluster).min(disk.len());
    let (mut found, mut at) = (Vec::new(), 0);
    while at < end {
        let length = READ.max(head).min(end - at);
        let mut bytes = vec![0; length as usize];
        // A range that cannot be read has no usable record.
        if disk.read(at, &mut bytes).is_ok() {
            for (place, bytes) in (at..).step_by(head as usize).zip(bytes.chunks_exact(head as usize)) {
                let base = Reference(u64_at(bytes, 0x20));
                let is_one = bytes.starts_with(Record::SIGNATURE)
                    && u16_at(bytes, 0x16) & record_flags::IN_USE != 0
                    && base.0 != 0
                    && base.number() == known::MFT;
                if is_one
                    && found.len() < MOST
                    && let Some((first, _)) = beginning(bytes, geometry.clusters)
                {
                    let number = u64::from(u32_at(bytes, 0x2C));
                    found.push(Stray { place, number, first, head: bytes.to_vec() });
                }
            }
        }
        at += length;
    }
    Ok(found)
}

/// Moves the pieces that nothing leads to into records that the pieces before them lead to. Where none of those is
/// free, the piece changes places with a file's record; the file's directory is built anew then, as the record has
/// another number.
pub(super) fn settle(check: &mut Check<'_>) -> Result<()> {
    let size = u64::from(check.geometry.record);
    let mut next = known::FIRST_FREE - 8;
    for index in 0..check.table.pieces.len() {
        let Piece { number, first, is_lost } = check.table.pieces[index];
        if !is_lost {
            continue;
        }
        let message = format!(
            "$MFT: its runs from virtual cluster {first} on: expected in a record that those before lead to, found in \
             record {number}"
        );
        let end = (first * check.geometry.cluster / size).min(check.table.count);
        let mut place = None;
        while check.is_repairing && next < end && place.is_none() {
            let is_own = check.table.pieces.iter().any(|piece| piece.number == next);
            place = if is_own { None } else { movable(check, next)?.map(|record| (next, record)) };
            next += 1;
        }
        check.find("mft-runs", Severity::Inconsistent, Some(known::MFT), message, place.is_some());
        let Some((to, other)) = place else { continue };
        let Some(mut own) = read(check, number)? else { continue };
        let (one, two) = (own.sequence, other.sequence);
        (own.number, own.sequence) = (to as u32, two.max(1));
        check.put_record(to, &own)?;
        let mut other = other;
        (other.number, other.sequence) = (number as u32, one.max(1));
        if other.in_use() {
            check.put_record(number, &other)?;
        } else {
            let sequence = one.wrapping_add(1).max(1);
            check.put_record(number, &Record { sequence, ..Record::new(number) })?;
        }
        (check.table.pieces[index].number, check.table.pieces[index].is_lost) = (to, false);
    }
    Ok(())
}

fn read(check: &Check<'_>, number: u64) -> Result<Option<Record>> {
    let mut bytes = vec![0; check.geometry.record as usize];
    check.table.read(&check.disk, &check.geometry, number, &mut bytes)?;
    let at = check.table.place(&check.geometry, number);
    Ok(match fixup::remove(&mut bytes, "file record", at) {
        Ok(()) => Record::from_bytes(&bytes, at).ok(),
        Err(_) => None,
    })
}

/// The record with this number, if it can be moved: it is free, or has a file that only directories refer to.
fn movable(check: &Check<'_>, number: u64) -> Result<Option<Record>> {
    let mut bytes = vec![0; check.geometry.record as usize];
    check.table.read(&check.disk, &check.geometry, number, &mut bytes)?;
    let at = check.table.place(&check.geometry, number);
    if record::look(&mut bytes, at).0 == RecordState::Free {
        let mut record = Record::new(number);
        record.sequence = u16_at(&bytes, 0x10);
        return Ok(Some(record));
    }
    if number < known::FIRST_FREE {
        return Ok(None);
    }
    let Some(record) = read(check, number)?.filter(|record| record.base.0 == 0) else { return Ok(None) };
    let names = |parent: u64| {
        let names = record.attributes.iter().filter(|other| other.kind == Kind::FILE_NAME);
        let mut names = names.filter_map(|other| FileName::from_bytes(other.value()?, at).ok());
        names.any(|name| name.parent.number() == parent)
    };
    let is_fixed = |kind: Kind| matches!(kind, Kind::ATTRIBUTE_LIST | Kind::OBJECT_ID | Kind::REPARSE_POINT);
    let may_move = record.flags & (record_flags::DIRECTORY | record_flags::VIEW_INDEX) == 0
        && !record.attributes.iter().any(|attribute| is_fixed(attribute.kind))
        && !names(known::EXTEND);
    Ok(may_move.then_some(record))
}

/// Whether a record is known to extend `$MFT`, whatever the attribute list says.
pub(super) fn is_own(check: &Check<'_>, base: Reference, number: u64) -> bool {
    base.number() == known::MFT && check.table.pieces.iter().any(|piece| piece.number == number)
}
