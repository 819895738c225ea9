//! The log: what it holds is carried out before a check looks at anything, and what a repair changes goes through it.

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

/// The log, as a check finds it.
#[derive(Default)]
pub struct CheckedLog {
    /// Where it is on the device, as whoever checks next will find it.
    pub place: Option<LogPlace>,
    /// It was carried out.
    pub is_replayed: bool,
    /// Nobody knows what it holds: the reason.
    pub lost: Option<String>,
}

/// Carries out what the log holds, in memory if this is no repair.
pub fn replay(
    device: &dyn Device,
    disk: &mut Disk<'_>,
    geometry: &Geometry,
    table: &Table,
    pending: &mut Vec<Pending>,
    is_repairing: bool,
) -> Result<CheckedLog> {
    let Some(place) = place_of_log(disk, geometry, table) else { return Ok(CheckedLog::default()) };
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

/// Where the log is after this round's repairs, if it is there already, and nothing else has its clusters.
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

/// The end of a round: what is to be known to write what it changed. A log that nobody can read is told.
pub fn finish(check: &mut Check<'_>) -> Result<()> {
    let place = place(check)?;
    if let Some(reason) = check.log.lost.take() {
        // What changes it held nobody will know: what the volume's other structures say is put right.
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

/// How what a round changed gets to the device.
#[derive(Default)]
pub struct Way {
    /// The log, if it is known where it is.
    log: Option<LogPlace>,
    /// It says nothing yet that can be read.
    pub is_log_new: bool,
    /// Where the volume's clusters end.
    volume: u64,
    /// Where the copy of the first records is.
    mirror: Range<u64>,
    /// A log sequence number that the records of the system do not exceed.
    floor: u64,
}

/// Bytes of a piece that is logged, at most; it may be longer by part of a structure.
const PIECE: usize = 32 << 10;
/// Bytes that the log's record has beside those of a piece and its clusters' numbers.
const HEADERS: usize = 0x80;

/// Writes what a round changed so that a power cut at any moment loses nothing.
///
/// First goes what nothing leads to yet. What is overwritten goes into the log as a whole, which who opens or checks the
/// volume next carries out, and then to its place; if the log has no room for all, in as many parts as it takes. Each is
/// whole structures, and the names of files are in their records: a part that is missing is found and put right as before.
/// Without a log that can be used it is written to its place only.
///
/// # Errors
/// What the device gives.
pub fn commit(disk: &mut Disk<'_>, way: &Way) -> Result<()> {
    let edits = disk.take(way.volume, &way.mirror, PIECE);
    disk.put(&edits.before)?;
    let log = way.log.as_ref().map(|place| open(disk.device(), place, way.floor)).transpose()?.flatten();
    match log {
        Some((mut log, cluster)) => {
            let mut rest = &edits.within[..];
            while !rest.is_empty() {
                let count = append(&mut log, disk.device(), cluster, rest)?;
                // What is too long for the log is written without it.
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

/// The log, begun; `None` if it cannot be written to.
fn open(device: &dyn Device, place: &LogPlace, floor: u64) -> Result<Option<(Log, u64)>> {
    let (mut log, _) = Log::open(device, place.clone())?;
    match log.begin(device, floor) {
        Ok(()) => Ok(Some((log, u64::from(place.cluster)))),
        Err(Error::Device(error)) => Err(Error::Device(error)),
        Err(_) => Ok(None),
    }
}

/// Logs as many pieces as there is room for in one group, and says how many those are.
///
/// They are logged as parts of `$BadClus:$Bad`, the stream that has a place for each cluster of the volume, by its number.
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

/// Where `$LogFile` is, by its record or the copy of that.
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

/// Notes that a log is to be made empty: a log of ones is one.
fn empty(disk: &mut Disk<'_>, place: &LogPlace) {
    place.runs.iter().for_each(|&(start, length)| disk.fill(start, length, 0xFF));
}

/// A device that shows what a check is to change, and keeps what is written to it.
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
