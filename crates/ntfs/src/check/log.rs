//! The log: its changes are carried out before a check looks at anything, and changes of a repair are written through
//! it.

use super::disk::{Disk, Piece};
use super::file::{Assembled, key};
use super::records::Table;
use super::{Check, Pending, Severity};
use crate::layout::{AttributeContent, Geometry, Kind, Reference, fixup, record_number as known, runs};
use crate::log::{Change, Log, LogPlace, LogState, Target};
use platter_device::{Device, Immediate, Queue, Sectors};
use platter_vfs::{Error, Result};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The log at the beginning of a round.
#[derive(Default)]
pub(super) struct CheckedLog {
    /// The log's place on the device, where the next check will find it too.
    pub place: Option<LogPlace>,
    /// Whether its changes were carried out.
    pub is_replayed: bool,
    /// The reason why its changes cannot be read, if they cannot.
    pub lost: Option<String>,
}

/// Carries out the changes in the log, only in memory if this is not a repair.
pub(super) fn replay(
    device: &dyn Device,
    disk: &mut Disk<'_>,
    geometry: &Geometry,
    table: &Table,
    pending: &mut Vec<Pending>,
    is_repairing: bool,
) -> Result<CheckedLog> {
    let Some(place) = place_of_log(disk, geometry, table) else { return Ok(CheckedLog::default()) };
    if place.runs.iter().any(|&(start, length)| disk.is_behind_end(start, length)) {
        return Ok(CheckedLog::default());
    }
    let mut found = CheckedLog { place: Some(place.clone()), ..CheckedLog::default() };
    let (_, state) = Log::open(device, place.clone())?;
    match state {
        LogState::Clean => {}
        LogState::Unclean(replay) => {
            pending.push(Pending {
                code: "log",
                severity: Severity::Notice,
                record: None,
                message: format!(
                    "$LogFile: holds changes of a volume that was not closed: they are carried out{}",
                    if is_repairing { ", and it is emptied" } else { "" }
                ),
                repaired: is_repairing,
            });
            if is_repairing {
                replay.apply(device)?;
                empty(disk, &place);
                disk.commit()?;
            } else {
                let shown = Shown(Mutex::new(disk), device);
                replay.apply(&shown)?;
            }
            found.is_replayed = true;
        }
        LogState::Foreign(reason) => found.lost = Some(reason),
    }
    Ok(found)
}

/// The place of the log after this round's repairs, if the log has not moved and nothing else has its clusters.
fn place(check: &Check<'_>) -> Result<Option<LogPlace>> {
    let Some(known) =
        check.log.place.clone().filter(|_| check.state(known::LOG_FILE) == super::RecordState::Base)
    else {
        return Ok(None);
    };
    let file = Assembled::read(check, known::LOG_FILE, &mut Vec::new())?;
    let Some((runs, _)) = file.runs(check.geometry.clusters, &key(Kind::DATA, "")) else { return Ok(None) };
    let place = LogPlace::of_runs(&runs, &check.geometry);
    let is_usable = place.is_some_and(|place| place.runs == known.runs)
        && check.is_own(&runs)
        && Log::is_possible(known.bytes());
    Ok(is_usable.then_some(known))
}

/// The end of a round: collects what [`commit`] needs to write the changes of the round, and reports a log that cannot
/// be read.
pub(super) fn finish(check: &mut Check<'_>) -> Result<()> {
    let place = place(check)?;
    if let Some(reason) = check.log.lost.take() {
        // The changes in the log are lost: the repair goes by the volume's other structures.
        let is_renewed = check.is_repairing && place.is_some();
        let outcome = if is_renewed { "; it is emptied, and what it held is not carried out" } else { "" };
        let message = format!("$LogFile: {reason}{outcome}");
        check.find("log", Severity::Inconsistent, None, message, is_renewed);
        check.way.is_log_new = is_renewed;
    }
    let size = u64::from(check.geometry.record);
    let mirror = check.geometry.mirror * check.geometry.cluster;
    check.way.log = place;
    check.way.volume = check.geometry.clusters * check.geometry.cluster;
    check.way.mirror = mirror..mirror + (4 * size).max(check.geometry.cluster);
    check.way.floor = check.greatest;
    Ok(())
}

/// How the changes of a round are written to the device.
#[derive(Default)]
pub(super) struct Way {
    /// The log, if its place is known.
    log: Option<LogPlace>,
    /// Whether the log could not be read, and is made empty and usable by [`commit`].
    pub is_log_new: bool,
    /// The device offset where the volume's clusters end.
    volume: u64,
    /// The device range of the copy of the first records.
    mirror: Range<u64>,
    /// A log sequence number that no record of the system exceeds.
    floor: u64,
}

/// Bytes of a piece that is logged, at most; a piece may be longer by part of a structure.
const PIECE: usize = 32 << 10;
/// Bytes that a log record has besides the bytes of a piece and the numbers of its clusters.
const HEADERS: usize = 0x80;

/// Writes the changes of a round so that a power cut at any moment loses nothing.
///
/// First go sectors that nothing leads to yet. Changes of structures in use go into the log as one group, which whoever
/// opens or checks the volume next carries out, and then to their places; if the log has no room for all, in several
/// groups. Each group has whole structures only, and the names of files are in their records: if a group is missing
/// after a power cut, the next repair finds its damage and repairs it as before. Without a usable log the changes are
/// written to their places only.
///
/// # Errors
/// Errors of the device.
pub(super) fn commit(disk: &mut Disk<'_>, way: &Way) -> Result<()> {
    let edits = disk.take(way.volume, &way.mirror, PIECE);
    disk.put(&edits.before)?;
    let log = way.log.as_ref().map(|place| open(disk.device(), place, way.floor)).transpose()?.flatten();
    match log {
        Some((mut log, cluster)) => {
            let mut rest = &edits.within[..];
            while !rest.is_empty() {
                let count = append(&mut log, disk.device(), cluster, rest)?;
                // A piece that is too long for the log is written without it.
                let (now, later) = rest.split_at(count.max(1));
                disk.put(now)?;
                log.checkpoint(disk.device())?;
                rest = later;
            }
            disk.put(&edits.mirror)?;
            log.end(disk.device())
        }
        None => {
            disk.put(&edits.within)?;
            disk.put(&edits.mirror)
        }
    }
}

/// The log, begun, and its cluster size; `None` if the log cannot be written to.
fn open(device: &dyn Device, place: &LogPlace, floor: u64) -> Result<Option<(Log, u64)>> {
    let (mut log, _) = Log::open(device, place.clone())?;
    match log.begin(device, floor) {
        Ok(()) => Ok(Some((log, u64::from(place.cluster)))),
        Err(Error::Device(error)) => Err(Error::Device(error)),
        Err(_) => Ok(None),
    }
}

/// Logs as many pieces as there is room for in one group, and returns how many those are.
///
/// The pieces are logged as parts of `$BadClus:$Bad`, the stream in which each cluster of the volume has its own number
/// as virtual cluster.
fn append(log: &mut Log, device: &dyn Device, cluster: u64, pieces: &[Piece]) -> Result<usize> {
    let target = Target::Value {
        file: Reference::new(known::BAD_CLUSTERS, known::BAD_CLUSTERS as u16),
        kind: Kind::DATA.0,
        name: "$Bad".encode_utf16().collect(),
    };
    let clusters = |(at, bytes): &Piece| -> Vec<u64> {
        (at / cluster..(at + bytes.len() as u64).div_ceil(cluster)).collect()
    };
    let mut left = log.most_in_group().saturating_sub(0x200);
    let fits = |piece: &&Piece| {
        let taken = (piece.1.len() + HEADERS + 8 * clusters(piece).len()) as u64;
        let is_room = taken <= left;
        left = left.saturating_sub(taken);
        is_room
    };
    let now: Vec<&Piece> = pieces.iter().take_while(fits).collect();
    let lcns: Vec<Vec<u64>> = now.iter().map(|piece| clusters(piece)).collect();
    let changes: Vec<Change> = now
        .iter()
        .zip(&lcns)
        .map(|(piece, lcns)| Change { target: &target, offset: piece.0, lcns, bytes: &piece.1 })
        .collect();
    if !changes.is_empty() {
        match log.append(device, &changes) {
            Ok(_) | Err(Error::NoSpace) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(changes.len())
}

/// The place of `$LogFile`, from its record or the copy of that.
fn place_of_log(disk: &Disk<'_>, geometry: &Geometry, table: &Table) -> Option<LogPlace> {
    let size = geometry.record as usize;
    let copy = geometry.mirror * geometry.cluster + known::LOG_FILE * size as u64;
    [table.place(geometry, known::LOG_FILE), copy].into_iter().find_map(|at| {
        let mut bytes = vec![0; size];
        disk.read(at, &mut bytes).ok()?;
        fixup::remove(&mut bytes, "file record", at).ok()?;
        let (record, _) = super::record::salvage(&bytes, at).ok()?;
        let (kind, name) = key(Kind::DATA, "");
        let data = record.attributes.iter().find(|other| other.kind == kind && other.name == name)?;
        let AttributeContent::NonResident(outside) = &data.content else { return None };
        let found = runs::unpack(&outside.pairs, 0, outside.end, geometry.clusters, at).ok()?;
        LogPlace::of_runs(&found, geometry)
    })
}

/// Notes that a log is to be made empty, by filling it with ones.
fn empty(disk: &mut Disk<'_>, place: &LogPlace) {
    place.runs.iter().for_each(|&(start, length)| disk.fill(start, length, 0xFF));
}

/// A device over the changes of a check: reads see the changes, and writes become changes too.
struct Shown<'a, 'd>(Mutex<&'a mut Disk<'d>>, &'a dyn Device);

impl Device for Shown<'_, '_> {
    fn name(&self) -> &str {
        self.1.name()
    }

    fn len(&self) -> u64 {
        self.1.len()
    }

    fn sectors(&self) -> Sectors {
        self.1.sectors()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> platter_device::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).read_sectors(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> platter_device::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_sectors(offset, data)
    }

    fn flush(&self) -> platter_device::Result<()> {
        Ok(())
    }

    fn discard(&self, _offset: u64, _length: u64) -> platter_device::Result<()> {
        Ok(())
    }

    fn queue(&self, depth: usize) -> platter_device::Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }
}
