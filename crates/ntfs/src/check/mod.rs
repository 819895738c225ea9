//! Finding and repairing damage, from the device alone.
//!
//! This is the second implementation of the format: it shares [`crate::layout`] with the code that writes, and has its
//! own reading of records (`records`, [`file`]), its own walk through indexes (`tree`) and its own set of used
//! clusters (`clusters`).
//!
//! Nearly everything on an NTFS volume is there twice: an index of names has the names that the records have; an
//! attribute list follows from the records that extend a file; bitmaps are the sum of all runs. So a repair does not
//! mend an index or a bitmap; it builds it anew from the records. Only a record that is gone is lost, with its file.
//!
//! A check works in rounds. Each reads the whole volume, reports, and notes repairs in memory (`disk`), which are
//! written through the log at the end of the round (`log`). A round that has nothing more to repair is the last.
//!
//! Memory: some hundred bytes for each file, a bit for each cluster in use, and what a round changes. Nothing recurses.

mod bitmaps;
pub(crate) mod boot;
mod build;
pub(crate) mod clusters;
mod crossed;
mod directory;
pub(crate) mod disk;
mod ends;
mod examine;
mod extended;
mod file;
mod hibernated;
mod journal;
mod log;
mod long_list;
mod mft;
mod misspelt;
mod names;
mod order;
mod orphans;
pub(crate) mod record;
pub(crate) mod records;
mod reparse;
mod security;
mod store;
mod streams;
mod surface;
mod system;
mod tree;
mod types;
mod views;

use crate::layout::bytes::u64_at;
use crate::layout::{Geometry, Kind, Record, Reference, Run, fixup, record_number as known};
use clusters::Clusters;
use disk::Disk;
use file::Assembled;
use names::File;
use platter_device::Device;
use platter_vfs::{CheckOptions, CheckReport, Error, Finding, Progress, Result};
use record::RecordState;
use records::Table;
use std::collections::{BTreeMap, BTreeSet};
use surface::Surface;

pub use platter_vfs::Severity;

/// The most rounds of a repair. A repair may let the next round see more damage: three or four rounds are usual.
const ROUNDS: u32 = 12;

/// Bytes of records that are read at once.
const READ: u64 = 1 << 20;

// Reads are whole sectors, of which none is larger than 4096 bytes.
const _: () = assert!(READ.is_multiple_of(4096));

/// Checks a volume that is not open, and repairs it if asked to.
///
/// # Errors
/// As [`check_surface`].
pub fn check(device: &dyn Device, options: CheckOptions, progress: &dyn Progress) -> Result<CheckReport> {
    rounds(device, options, false, progress)
}

/// [`check`] that also reads every cluster: it finds those that cannot be read, and the files on them. A repair puts
/// these clusters into `$BadClus`, and gives the files others.
///
/// # Errors
/// [`Error::NotThisFormat`] or [`Error::Damaged`] if there is no usable boot sector, or no way to `$MFT`;
/// [`Error::Device`]; [`Error::ReadOnly`] for a repair of a device that cannot be written, or of a volume on which
/// Windows is hibernated.
pub fn check_surface(
    device: &dyn Device,
    options: CheckOptions,
    progress: &dyn Progress,
) -> Result<CheckReport> {
    rounds(device, options, true, progress)
}

fn rounds(
    device: &dyn Device,
    options: CheckOptions,
    is_wanted: bool,
    progress: &dyn Progress,
) -> Result<CheckReport> {
    if let Some(why) = device.why_read_only().filter(|_| options.repair) {
        return Err(Error::ReadOnly(why));
    }
    if options.repair {
        hibernated::refuse(device, progress)?;
    }
    options.settle(device)?;
    let mut report = CheckReport::default();
    let mut told = BTreeSet::new();
    let mut surface = Surface::new(is_wanted);
    for number in 1..=ROUNDS {
        let is_last = number == ROUNDS;
        let mut round = Check::new(device, progress, options.repair && !is_last)?;
        round.surface = surface;
        round.run()?;
        surface = std::mem::take(&mut round.surface);
        let again = round.is_repairing && (round.disk.is_edited() || round.way.is_log_new);
        let mut disk = std::mem::replace(&mut round.disk, Disk::new(device));
        let way = std::mem::take(&mut round.way);
        let mut found = round.into_report();
        // A finding that several rounds repaired is reported once.
        let before = found.findings.len();
        found.findings.retain(|finding| {
            !finding.repaired || told.insert((finding.code, finding.path.clone(), finding.message.clone()))
        });
        let again_told = (before - found.findings.len()) as u64;
        found.found -= again_told;
        found.repaired -= again_told;
        report.total_clusters = found.total_clusters;
        report.take_round(found, !again || is_last);
        if !again {
            break;
        }
        log::commit(&mut disk, &way)?;
    }
    Ok(report)
}

/// A finding before the path of its file is known.
pub(crate) struct Pending {
    code: &'static str,
    severity: Severity,
    record: Option<u64>,
    message: String,
    repaired: bool,
}

/// One round of a check.
pub struct Check<'d> {
    disk: Disk<'d>,
    progress: &'d dyn Progress,
    geometry: Geometry,
    table: Table,
    is_repairing: bool,
    log: log::CheckedLog,
    /// How the changes of this round are written.
    way: log::Way,
    /// The greatest log sequence number of the system's records.
    greatest: u64,
    /// Whether files are read a second time: then nothing is reported or claimed.
    is_again: bool,
    report: CheckReport,
    pending: Vec<Pending>,
    /// How many findings there were beyond those that are kept.
    dropped: u64,
    states: Vec<RecordState>,
    sequences: Vec<u16>,
    /// The records that extend each base record.
    extensions: BTreeMap<u64, Vec<u64>>,
    files: BTreeMap<u64, File>,
    /// Clusters that any attribute has; in `crossed` those that several attributes have.
    used: Clusters,
    crossed: Clusters,
    /// How many clusters were claimed that were claimed before.
    claimed_again: u64,
    /// Whether all claims are known, so that clusters may be handed out.
    is_used_known: bool,
    /// Clusters that `$Bitmap` has as taken: a repair avoids these too, as long as it can.
    taken: Clusters,
    search: u64,
    /// Files whose repair needs clusters.
    retry: BTreeSet<u64>,
    /// Directories whose index is built anew.
    rebuild: BTreeSet<u64>,
    /// The directories in `rebuild` whose index only lacks entries.
    missing: BTreeSet<u64>,
    /// Files that no directory leads to.
    orphans: BTreeSet<u64>,
    upper: Box<[u16]>,
    surface: Surface,
}

impl<'d> Check<'d> {
    fn new(device: &'d dyn Device, progress: &'d dyn Progress, is_repairing: bool) -> Result<Check<'d>> {
        let mut disk = Disk::with_zeroes_behind_end(device);
        let mut pending = Vec::new();
        ends::report(&disk, &mut pending);
        let (mut geometry, mut table) = boot::find(&mut disk, &mut pending, is_repairing)?;
        let log = log::replay(device, &mut disk, &geometry, &table, &mut pending, is_repairing)?;
        if log.is_replayed {
            (geometry, table) = boot::find(&mut disk, &mut Vec::new(), is_repairing)?;
        }
        Ok(Check {
            disk,
            progress,
            geometry,
            table,
            is_repairing,
            log,
            way: log::Way::default(),
            greatest: 0,
            is_again: false,
            report: CheckReport::default(),
            pending,
            dropped: 0,
            states: Vec::new(),
            sequences: Vec::new(),
            extensions: BTreeMap::new(),
            files: BTreeMap::new(),
            used: Clusters::default(),
            crossed: Clusters::default(),
            claimed_again: 0,
            is_used_known: false,
            taken: Clusters::default(),
            search: 0,
            retry: BTreeSet::new(),
            rebuild: BTreeSet::new(),
            missing: BTreeSet::new(),
            orphans: BTreeSet::new(),
            upper: (0..=u16::MAX).map(platter_vfs::windows_upper).collect(),
            surface: Surface::default(),
        })
    }

    fn run(&mut self) -> Result<()> {
        mft::settle(self)?;
        self.look()?;
        system::restore_records(self)?;
        for number in 0..self.table.count {
            if self.states[number as usize] == RecordState::Base {
                self.progress.step("checking files", number, self.table.count)?;
                examine::file(self, number)?;
            }
        }
        self.is_used_known = true;
        bitmaps::read_taken(self)?;
        surface::examine(self)?;
        self.again()?;
        crossed::resolve(self)?;
        system::examine(self)?;
        directory::walk_all(self)?;
        names::finish(self)?;
        views::examine(self)?;
        security::examine(self)?;
        orphans::connect(self)?;
        directory::rebuild_all(self)?;
        bitmaps::compare_records(self)?;
        bitmaps::compare(self)?;
        system::finish(self)
    }

    /// Looks at all records: the state of each, and which extend which.
    fn look(&mut self) -> Result<()> {
        let size = u64::from(self.geometry.record);
        let per_read = (READ / size).max(1);
        let mut at = 0;
        while at < self.table.count {
            let count = per_read.min(self.table.count - at);
            let mut bytes = vec![0; (count * size) as usize];
            self.table.read(&self.disk, &self.geometry, at, &mut bytes)?;
            for (index, record) in bytes.chunks_exact_mut(size as usize).enumerate() {
                let number = at + index as u64;
                let (state, sequence, base) = record::look(record, number * size);
                if state == RecordState::Base && number < known::FIRST_FREE {
                    self.greatest = self.greatest.max(u64_at(record, 8));
                }
                self.states.push(state);
                self.sequences.push(sequence);
                if state == RecordState::Extension {
                    self.extensions.entry(base.number()).or_default().push(number);
                }
            }
            at += count;
            self.progress.step("reading records", at, self.table.count)?;
        }
        bitmaps::bad_records(self)?;
        self.lone_extensions()
    }

    /// Finds records that claim to extend a base record which does not name them.
    fn lone_extensions(&mut self) -> Result<()> {
        let size = self.geometry.record as usize;
        for (base, parts) in std::mem::take(&mut self.extensions) {
            let listed = self.listed(base)?;
            for part in parts {
                let mut bytes = vec![0; size];
                self.table.read(&self.disk, &self.geometry, part, &mut bytes)?;
                let at = self.table.place(&self.geometry, part);
                if fixup::remove(&mut bytes, "file record", at).is_err() {
                    continue;
                }
                let Ok((mut record, _)) = record::salvage(&bytes, at) else { continue };
                let is_own =
                    record.base.sequence() == self.sequence(base) && self.state(base) == RecordState::Base;
                let is_known = is_own
                    && (listed.as_ref().is_none_or(|listed| listed.contains(&part))
                        || mft::is_own(self, record.base, part));
                if is_known {
                    self.extensions.entry(base).or_default().push(part);
                    continue;
                }
                let is_file = record.attributes.iter().any(|other| other.kind == Kind::STANDARD_INFORMATION);
                let message = format!(
                    "file record at offset {at}: expected a base record {} that knows of it, found none",
                    record.base
                );
                self.find("extension-lone", Severity::Inconsistent, Some(part), message, self.is_repairing);
                self.states[part as usize] = if is_file { RecordState::Base } else { RecordState::Free };
                if is_file {
                    // Only base records have this attribute, so the record becomes one.
                    record.base = Reference::default();
                }
                if self.is_repairing && is_file {
                    self.put_record(part, &record)?;
                } else if self.is_repairing {
                    self.free_record(part)?;
                }
            }
        }
        Ok(())
    }

    /// The records that a file's attribute list names; `None` if the list, or whether there is one, cannot be read.
    fn listed(&self, base: u64) -> Result<Option<BTreeSet<u64>>> {
        let mut faults = Vec::new();
        if self.state(base) != RecordState::Base {
            return Ok(None);
        }
        let Ok(file) = Assembled::read(self, base, &mut faults) else { return Ok(None) };
        let Some(place) = file.of(Kind::ATTRIBUTE_LIST).first().copied() else {
            return Ok(faults.is_empty().then(BTreeSet::new));
        };
        let entries = record::read_list(&self.disk, &self.geometry, file.attribute(place), file.at);
        Ok(entries.ok().map(|entries| entries.iter().map(|entry| entry.record.number()).collect()))
    }

    /// Makes the repairs that need clusters, now that it is known which are free.
    fn again(&mut self) -> Result<()> {
        self.is_again = true;
        for number in std::mem::take(&mut self.retry) {
            examine::file(self, number)?;
        }
        self.is_again = false;
        Ok(())
    }

    fn state(&self, number: u64) -> RecordState {
        usize::try_from(number)
            .ok()
            .and_then(|number| self.states.get(number))
            .copied()
            .unwrap_or(RecordState::Free)
    }

    fn sequence(&self, number: u64) -> u16 {
        usize::try_from(number).ok().and_then(|number| self.sequences.get(number)).copied().unwrap_or(0)
    }

    /// Whether a reference leads to a directory.
    fn directory(&self, reference: Reference) -> bool {
        self.files.get(&reference.number()).is_some_and(|file| {
            file.is_directory && (reference.sequence() == file.sequence || reference.sequence() == 0)
        })
    }

    /// Reports a finding.
    fn find(
        &mut self,
        code: &'static str,
        severity: Severity,
        record: Option<u64>,
        message: String,
        repaired: bool,
    ) {
        if self.is_again {
            return;
        }
        if self.pending.len() >= CheckReport::KEPT {
            self.dropped += 1;
            return;
        }
        self.pending.push(Pending { code, severity, record, message, repaired });
    }

    /// Reports damage that could not be repaired after all.
    fn cannot(&mut self, code: &'static str, record: Option<u64>, message: String) {
        let severity = Severity::Inconsistent;
        self.pending.push(Pending { code, severity, record, message, repaired: false });
    }

    /// Changes a file, if this is a repair.
    fn edit(&mut self, number: u64, change: impl FnOnce(&mut Assembled)) -> Result<()> {
        if !self.is_repairing {
            return Ok(());
        }
        let mut file = Assembled::read(self, number, &mut Vec::new())?;
        change(&mut file);
        if !file.store(self)? {
            self.cannot(
                "record-full",
                Some(number),
                "file record: what would put it right does not fit into it".into(),
            );
        }
        Ok(())
    }

    /// Notes that a record is to be written.
    fn put_record(&mut self, number: u64, record: &Record) -> Result<()> {
        let Some(mut bytes) = record.to_bytes(self.geometry.record as usize) else { return Ok(()) };
        fixup::apply(&mut bytes);
        let offset = number * u64::from(self.geometry.record);
        let runs = self.table.runs.clone();
        self.disk.write_runs(&self.geometry, &runs, offset, &bytes)
    }

    /// Notes that a record is to become unused.
    fn free_record(&mut self, number: u64) -> Result<()> {
        let sequence = match self.sequence(number).wrapping_add(1) {
            0 => 1,
            next => next,
        };
        if let Some(state) = self.states.get_mut(number as usize) {
            *state = RecordState::Free;
        }
        self.put_record(number, &Record { sequence, ..Record::new(number) })
    }

    /// Whether no other attribute has any of these clusters.
    fn is_own(&self, runs: &[Run]) -> bool {
        runs.iter().all(|run| run.lcn.is_some_and(|lcn| !self.crossed.has_any(lcn, run.length)))
    }

    /// Takes free clusters, in few runs; `None` if there are too few, or the used ones are not known yet.
    fn allocate(&mut self, count: u64) -> Option<Vec<Run>> {
        if !self.is_used_known {
            return None;
        }
        bitmaps::allocate(self, count)
    }

    /// The path of a file, as far as names lead to it.
    fn path(&self, number: u64) -> String {
        let mut parts = Vec::new();
        let mut at = number;
        while at != known::ROOT {
            let name = self.files.get(&at).and_then(|file| {
                file.names
                    .iter()
                    .find(|name| name.space != crate::layout::namespace::DOS)
                    .or(file.names.first())
            });
            match name {
                Some(name) if parts.len() < 1024 => {
                    parts.push(String::from_utf16_lossy(&name.units));
                    at = name.parent.number();
                }
                _ => {
                    parts.push(format!("<record {at}>"));
                    break;
                }
            }
        }
        parts.reverse();
        format!("/{}", parts.join("/"))
    }

    fn into_report(mut self) -> CheckReport {
        for Pending { code, severity, record, message, repaired } in std::mem::take(&mut self.pending) {
            let path = record.map(|record| self.path(record));
            self.report.add(Finding { code, severity, path, message, repaired });
        }
        self.report.found += self.dropped;
        self.report.used_clusters = self.used.count();
        self.report.total_clusters = self.geometry.clusters;
        self.report
    }
}
