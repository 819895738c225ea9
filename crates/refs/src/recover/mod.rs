//! Copying out the files that are left of a volume whose checkpoints, tables or superblocks are gone.
//!
//! Every metadata page has the number of its table, its own place, and the clock of the checkpoint that it was written
//! for. So the device is searched for pages ([`scan`]), and the newest root of each directory gives its tree. An entry
//! that only older pages have was deleted, or its newer page is gone ([`directory`]). Checkpoints, superblocks and the
//! object table are not needed. The container table is used if it is found.

mod data;
mod directory;
mod scan;

use crate::attributes;
use crate::check::{LostRow, LostTree};
use crate::core::{FIRST_OBJECT, ROOT_DIRECTORY};
use crate::layout::Record;
use crate::layout::object_links;
use crate::layout::record::key;
use crate::tree::Order;
use data::Data;
use directory::{Directory, Leads, RecoveredRow};
use platter_device::Device;
use platter_vfs::{Kind, Name, Progress, RecoverReport, Recovered, Result, Silent, Timestamp, Visit};
use scan::Scan;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The most directories inside each other; no volume has so many.
const DEEPEST: usize = 1024;

/// Finds the files and directories that are left on a device, and calls `visit` for each.
///
/// # Errors
/// [`platter_vfs::Error::NotThisFormat`] if there is no page of ReFS on the device; the errors of `visit`.
pub(crate) fn recover(
    device: Arc<dyn Device>,
    progress: &dyn Progress,
    visit: Visit<'_>,
) -> Result<RecoverReport> {
    let scan = scan::scan(&device, progress)?;
    let places = Places::find(&scan);
    let mut recovery =
        Recovery { scan, places, bodies: HashMap::new(), report: RecoverReport::default(), visit };
    let mut tables: Vec<u64> =
        recovery.scan.tables.keys().copied().filter(|&table| is_directory(table)).collect();
    // A directory comes before the directories in it.
    tables
        .sort_by_cached_key(|&table| recovery.places.path(table).map_or(usize::MAX, |(path, _)| path.len()));
    // Existing files come first, so that their clusters are known: a deleted file whose clusters one of them has is
    // overwritten.
    for is_deleted in [false, true] {
        for (number, &table) in tables.iter().enumerate() {
            recovery.directory(table, is_deleted)?;
            let what = if is_deleted { "deleted files" } else { "files" };
            progress.step(what, number as u64 + 1, tables.len() as u64)?;
        }
    }
    Ok(recovery.report)
}

/// Counts the files that [`recover`] finds and that were not deleted.
///
/// # Errors
/// As [`recover`].
pub(crate) fn count(device: Arc<dyn Device>) -> Result<u64> {
    let mut files = 0;
    recover(device, &Silent, &mut |found, _| {
        files += u64::from(found.kind == Kind::File && found.stream.is_none() && !found.deleted);
        Ok(())
    })?;
    Ok(files)
}

/// Finds the rows that directories have lost: see [`FindLost`](crate::check::FindLost).
///
/// # Errors
/// As [`recover`].
pub(crate) fn lost_rows(
    device: Arc<dyn Device>,
    trees: &[LostTree],
    upper: &[u16],
) -> Result<Vec<(u64, Vec<LostRow>)>> {
    let mut scan = scan::scan(&device, &Silent)?;
    let order = Order::Directory(upper.into());
    let mut found = Vec::new();
    for tree in trees {
        let rows = directory::lost(&scan, tree.table, &tree.root, &order);
        let with_places = |row: RecoveredRow| {
            let places = data::places(&mut scan, &row, tree.table);
            let is_usable = places.is_some() || row.is_damaged;
            let row = LostRow { row: (row.key, row.flags, row.value), places, is_damaged: row.is_damaged };
            is_usable.then_some(row)
        };
        // If the runs of a row from an undamaged page cannot be read, it is not known which clusters belong to its
        // file: the whole tree is left out, and stays as it is.
        let rows: Option<Vec<LostRow>> = rows.into_iter().map(with_places).collect();
        found.extend(rows.map(|rows| (tree.table, rows)));
    }
    Ok(found)
}

fn is_directory(table: u64) -> bool {
    matches!(table, ROOT_DIRECTORY | FIRST_OBJECT..)
}

/// Where a directory is: the directory above, its name there, and whether it was removed from there.
struct DirectoryPlace {
    above: u64,
    name: Vec<u16>,
    is_deleted: bool,
}

/// The place of each directory, by its number.
struct Places(HashMap<u64, DirectoryPlace>);

impl Places {
    fn find(scan: &Scan) -> Places {
        let mut places: HashMap<u64, DirectoryPlace> = HashMap::new();
        let mut own: HashMap<u64, (u64, Vec<u16>)> = HashMap::new();
        let mut whole: HashSet<u64> = HashSet::new();
        for &table in scan.tables.keys().filter(|&&table| is_directory(table)) {
            let directory = Directory::collect(scan, table);
            if directory.is_whole {
                whole.insert(table);
            }
            let mut put = |row: &RecoveredRow, is_deleted: bool| {
                if key::likely_kind(&row.key) == key::RECORD
                    && let Ok(record) = Record::from_bytes(&row.value, 0)
                    && let Some(link) = object_links(&record.rows).next()
                {
                    own.entry(table).or_insert(link);
                }
                let Some((name, Leads::Directory(object))) = row.name() else { return };
                let place = DirectoryPlace { above: table, name, is_deleted };
                match places.get(&object) {
                    Some(known) if !known.is_deleted || is_deleted => {}
                    _ => drop(places.insert(object, place)),
                }
            };
            directory.rows.iter().for_each(|row| put(row, false));
            directory.older.iter().for_each(|row| put(row, directory.is_whole));
        }
        // A directory that no other directory has an entry of is placed by the link in its own record.
        for (table, (above, name)) in own {
            let is_deleted = whole.contains(&above);
            places.entry(table).or_insert(DirectoryPlace { above, name, is_deleted });
        }
        Places(places)
    }

    /// Returns the names that lead to a directory, as far as they are known, and whether it was deleted. `None` if
    /// there are more than [`DEEPEST`].
    fn path(&self, table: u64) -> Option<(Vec<Name>, bool)> {
        let (mut names, mut deleted, mut at) = (Vec::new(), false, table);
        while at != ROOT_DIRECTORY {
            let Some(place) = self.0.get(&at) else {
                names.push(Name::from(&*format!("directory {at:x}")));
                break;
            };
            names.push(Name::from_units(&place.name));
            deleted |= place.is_deleted;
            at = place.above;
            if names.len() > DEEPEST {
                return None;
            }
        }
        names.reverse();
        Some((names, deleted))
    }
}

/// A record, and whether its page fails its checksum.
#[derive(Clone)]
struct Body(Record, bool);

struct Recovery<'v> {
    scan: Scan,
    places: Places,
    /// Records of files with several names, by home directory and number.
    bodies: HashMap<u64, HashMap<u64, Body>>,
    report: RecoverReport,
    visit: Visit<'v>,
}

impl Recovery<'_> {
    /// Recovers a directory and its files: those that exist or, if `want_deleted`, those that were deleted.
    fn directory(&mut self, table: u64, want_deleted: bool) -> Result<()> {
        let Some((path, is_deleted)) = self.places.path(table) else { return Ok(()) };
        if is_deleted && !want_deleted {
            return Ok(());
        }
        let directory = Directory::collect(&self.scan, table);
        if is_deleted == want_deleted && table != ROOT_DIRECTORY {
            let own = directory
                .rows
                .iter()
                .chain(&directory.older)
                .find(|row| key::likely_kind(&row.key) == key::RECORD);
            let damaged = own.is_some_and(|row| row.is_damaged);
            let record = own.and_then(|row| Record::from_bytes(&row.value, 0).ok());
            let times = record.map_or([0; 4], |record| record.times);
            self.report.directories += 1;
            let entry = Recovered { damaged, ..entry(path.clone(), is_deleted, Kind::Directory, times) };
            (self.visit)(&entry, &mut Data::empty(&mut self.scan))?;
        }
        let older_deleted = is_deleted || directory.is_whole;
        for (rows, is_deleted) in [(&directory.rows, is_deleted), (&directory.older, older_deleted)] {
            if is_deleted != want_deleted {
                continue;
            }
            for row in rows {
                let Some((name, leads)) = row.name() else { continue };
                let mut path = path.clone();
                path.push(Name::from_units(&name));
                match leads {
                    Leads::Directory(_) => {}
                    Leads::File(record) => {
                        self.file(path, table, Body(*record, row.is_damaged), is_deleted)?
                    }
                    Leads::Body(home, ordinal) => match self.body(home, ordinal) {
                        Some(Body(record, is_damaged)) => {
                            let body = Body(record, is_damaged || row.is_damaged);
                            self.file(path, home, body, is_deleted)?
                        }
                        None if is_deleted => self.report.overwritten += 1,
                        None => self.lose(&path, "its record is gone"),
                    },
                }
            }
        }
        Ok(())
    }

    /// Returns the record of a file with several names.
    fn body(&mut self, home: u64, ordinal: u64) -> Option<Body> {
        if !self.bodies.contains_key(&home) {
            let directory = Directory::collect(&self.scan, home);
            let mut bodies = HashMap::new();
            for row in directory.rows.iter().chain(&directory.older) {
                if row.key.len() == key::body(0, 0).len()
                    && key::likely_kind(&row.key) == key::BODY
                    && let Ok(record) = Record::from_bytes(&row.value, 0)
                {
                    let body = Body(record, row.is_damaged);
                    bodies.entry(key::ordinal(&row.key)).or_insert(body);
                }
            }
            self.bodies.insert(home, bodies);
        }
        self.bodies.get(&home)?.get(&ordinal).cloned()
    }

    fn file(&mut self, path: Vec<Name>, table: u64, body: Body, is_deleted: bool) -> Result<()> {
        let Body(record, damaged) = body;
        if let Ok(target) = attributes::link_target(&record) {
            self.report.files += 1;
            self.report.deleted += u64::from(is_deleted);
            let link = entry(path, is_deleted, Kind::SymbolicLink, record.times);
            let link = Recovered { target: Some(target), damaged, ..link };
            return (self.visit)(&link, &mut Data::empty(&mut self.scan));
        }
        let times = record.times;
        if let Some(why) = attributes::unreadable(&record) {
            if !is_deleted {
                self.lose(&path, why);
            }
            return Ok(());
        }
        let (own, named) = match data::open(&mut self.scan, record, table, is_deleted) {
            Ok(found) => found,
            Err(_) if is_deleted => {
                self.report.overwritten += 1;
                return Ok(());
            }
            Err(error) => {
                self.lose(&path, &error.to_string());
                return Ok(());
            }
        };
        let all = own.into_iter().map(|state| (None, state));
        for (stream, state) in all.chain(named.into_iter().map(|(name, state)| (Some(name), state))) {
            let mut data = Data::new(&mut self.scan, state);
            if is_deleted && !data.is_left() {
                self.report.overwritten += 1;
                continue;
            }
            if !is_deleted {
                data.claim();
            }
            self.report.files += u64::from(stream.is_none());
            self.report.deleted += u64::from(stream.is_none() && is_deleted);
            let file = entry(path.clone(), is_deleted, Kind::File, times);
            let file = Recovered { stream, damaged, size: data.size(), ..file };
            (self.visit)(&file, &mut data)?;
        }
        Ok(())
    }

    fn lose(&mut self, path: &[Name], why: &str) {
        if self.report.lost.len() < RecoverReport::KEPT {
            let path: String = path.iter().map(|name| format!("/{name}")).collect();
            self.report.lost.push((path, why.into()));
        }
    }
}

fn entry(path: Vec<Name>, deleted: bool, kind: Kind, times: [u64; 4]) -> Recovered {
    Recovered::new(path, deleted, kind, [times[1], times[3]].map(Timestamp::from_file_time))
}
