//! The log: what it holds is carried out before a check looks at anything.

use super::disk::Disk;
use super::file::key;
use super::records::Table;
use super::{Pending, Severity};
use crate::layout::{Content, Geometry, Kind, Run, fixup, record_number as known, runs};
use crate::log::{Log, Place, State};
use crate::open::refresh_mirror;
use platter_device::{Device, Immediate, Queue, Sectors};
use platter_vfs::Result;
use std::sync::{Mutex, PoisonError};

/// Carries out what the log holds, in memory if this is no repair. Whether anything was is the answer.
pub fn replay(
    device: &dyn Device,
    disk: &mut Disk<'_>,
    geometry: &Geometry,
    table: &Table,
    pending: &mut Vec<Pending>,
    is_repairing: bool,
) -> Result<bool> {
    let Some(runs) = runs_of_log(disk, geometry, table) else { return Ok(false) };
    let cluster = geometry.cluster;
    let place = Place {
        runs: runs.iter().filter_map(|run| Some((run.lcn? * cluster, run.length * cluster))).collect(),
        cluster: cluster as u32,
        record: geometry.record,
    };
    let mut told = |severity, message: String| {
        pending.push(Pending { code: "log", severity, record: None, message, repaired: is_repairing });
    };
    let (_, state) = Log::open(device, place.clone())?;
    match state {
        State::Clean => Ok(false),
        State::Unclean(replay) => {
            told(
                Severity::Notice,
                "$LogFile: holds changes of a volume that was not closed: they are carried out".into(),
            );
            if is_repairing {
                replay.apply(device)?;
                refresh_mirror(device, geometry)?;
                empty(disk, &place);
                disk.commit()?;
            } else {
                let shown = Shown(Mutex::new(disk), device);
                replay.apply(&shown)?;
                refresh_mirror(&shown, geometry)?;
            }
            Ok(true)
        }
        State::Foreign(reason) => {
            // What changes it held nobody will know: what the volume's other structures say is put right.
            let outcome =
                if is_repairing { "; it is emptied, and what it held is not carried out" } else { "" };
            told(Severity::Inconsistent, format!("$LogFile: {reason}{outcome}"));
            if is_repairing {
                empty(disk, &place);
                disk.commit()?;
            }
            Ok(false)
        }
    }
}

/// The runs of `$LogFile`, by its record or the copy of that.
fn runs_of_log(disk: &Disk<'_>, geometry: &Geometry, table: &Table) -> Option<Vec<Run>> {
    let size = geometry.record as usize;
    let copy = geometry.mirror * geometry.cluster + known::LOG_FILE * size as u64;
    [table.place(geometry, known::LOG_FILE), copy].into_iter().find_map(|at| {
        let mut bytes = vec![0; size];
        disk.read(at, &mut bytes).ok()?;
        fixup::remove(&mut bytes, "file record", at).ok()?;
        let (record, _) = super::record::salvage(&bytes, at).ok()?;
        let (kind, name) = key(Kind::DATA, "");
        let data = record.attributes.iter().find(|other| other.kind == kind && other.name == name)?;
        let Content::NonResident(outside) = &data.content else { return None };
        let found = runs::unpack(&outside.pairs, 0, outside.end, geometry.clusters, at).ok()?;
        found.iter().all(|run| run.lcn.is_some()).then_some(found)
    })
}

/// Notes that a log is to be made empty: a log of ones is one.
pub fn empty(disk: &mut Disk<'_>, place: &Place) {
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
