//! Scrubbing all metadata pages.
//!
//! Pages are taken from a stack, some thousand at a time, and read in order of their places; the pages to which they
//! refer go on the stack. That keeps many reads in flight although a page is found only through the one above.
//!
//! With a limit, the trees of the objects are taken in the order of the objects' numbers, some at a time, so that the
//! next scrub can go on after the last one.

use super::reader::{Piece, Reader};
use super::{Lost, LostStreams, Owner, extents, has_record, structure};
use crate::core::{Core, FIRST_OBJECT, ROOT_DIRECTORY};
use crate::layout::record::key;
use crate::layout::{Attribute, ObjectRow, PageReference, Record, Root, TreeNode};
use crate::pages::{ANY_TABLE, Address, Page};
use crate::seen::Seen;
use platter_vfs::{Error, Progress, Result, ScrubReport, Severity};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The number of pages that are read together.
const BATCH: usize = 2048;
/// The number of objects whose trees are taken together, if there is a limit; and the number if there is none, after which
/// a scrub that is asked to end can go on.
const OBJECTS: usize = 128;
const OBJECTS_WITHOUT_LIMIT: usize = 4096;

/// The content of a tree, which determines how its rows are read.
#[derive(Clone)]
enum Holds {
    /// Rows that refer to no other tree.
    Plain,
    /// Objects, each with its tree.
    Objects,
    /// Names and records.
    Directory,
    /// The extents of a stream.
    Extents(Arc<Owner>),
    /// Attributes outside a record, with the directory of the record and the key of its row.
    Attributes(u64, Arc<[u8]>),
}

struct Task {
    reference: PageReference,
    table: u64,
    real: bool,
    holds: Holds,
    /// The level that the page must have; `None` for a root.
    level: Option<u8>,
    place: u64,
}

/// The result of the walk through the pages.
#[derive(Default)]
pub(super) struct Walked {
    /// The object numbers of all directories, in order.
    pub directories: Vec<u64>,
    /// The number of clusters of data with a checksum, of which verified pages tell.
    pub clusters: u64,
    /// The first cluster of every verified page.
    pub pages: Seen,
    /// The first object whose tree was not verified because the limit was reached or the end was asked for.
    pub next: Option<u64>,
    /// Whether all pages were verified.
    pub is_whole: bool,
}

/// The pages, directories and data to which the rows of a page refer.
#[derive(Default)]
struct Below {
    tasks: Vec<Task>,
    /// The objects, each with its number and the root of its tree.
    objects: Vec<(u64, Task)>,
    clusters: u64,
    /// References that cannot be followed.
    errors: Vec<(Holds, u64, Error)>,
}

/// Verifies the pages of the trees of objects from number `from` on, until about `limit` bytes are verified, and the
/// pages of the table that leads to them; from 0 on, also all other pages that can be reached from the roots. Streams
/// whose extents cannot be read are added to `lost`.
pub(super) fn scrub(
    core: &mut Core,
    reader: &Reader<'_>,
    (from, limit): (u64, Option<u64>),
    progress: &dyn Progress,
    report: &mut ScrubReport,
    lost: &mut LostStreams,
) -> Walked {
    let mut walk = Walk { reader, progress, known: 0, done: AtomicU64::new(0), walked: Walked::default() };
    let mut tasks = Vec::new();
    for root in Root::ALL {
        let holds = match root {
            Root::Objects | Root::ObjectsCopy => Holds::Objects,
            _ if from > 0 => continue,
            _ => Holds::Plain,
        };
        let reference = core.checkpoint.roots[root as usize];
        tasks.push(task(reference, root.table(), root.is_real(), holds, None));
    }
    let mut objects = walk.all(core, tasks, report, lost);
    if progress.is_stopped() {
        walk.walked.next = Some(from);
        return walk.walked;
    }
    // Both tables of objects have been read; where one is damaged, the other has more.
    objects.sort_by_key(|(number, _)| *number);
    objects.dedup_by_key(|(number, task)| (*number, task.reference.clusters[0]));
    let is_directory = |(_, task): &&(u64, Task)| matches!(task.holds, Holds::Directory);
    walk.walked.directories = objects.iter().filter(is_directory).map(|(number, _)| *number).collect();
    walk.walked.directories.dedup();
    // What is above the objects counts once, however many scrubs read it on the way to the objects.
    let before = if from > 0 { *walk.done.get_mut() } else { 0 };
    let together = if limit.is_some() { OBJECTS } else { OBJECTS_WITHOUT_LIMIT };
    let mut objects = objects.into_iter().skip_while(|(number, _)| *number < from).peekable();
    while let Some(&(number, _)) = objects.peek() {
        // Each scrub comes forward, however small the limit is, and whatever number a damaged object has.
        if limit.is_some_and(|limit| *walk.done.get_mut() - before >= limit.max(1)) {
            walk.walked.next = Some(number.max(1));
            break;
        }
        let mut tasks = Vec::new();
        let mut last = number;
        while let Some((number, task)) =
            objects.next_if(|(number, _)| tasks.len() < together || *number == last)
        {
            last = number;
            tasks.push(task);
        }
        walk.all(core, tasks, report, lost);
        if progress.is_stopped() {
            walk.walked.next = Some(number.max(1));
            break;
        }
    }
    report.metadata += *walk.done.get_mut() - before;
    walk.walked.is_whole = from == 0 && walk.walked.next.is_none();
    walk.walked
}

/// A walk through pages.
struct Walk<'w> {
    reader: &'w Reader<'w>,
    progress: &'w dyn Progress,
    /// The number of pages that were met.
    known: u64,
    /// Bytes of pages that were verified.
    done: AtomicU64,
    walked: Walked,
}

impl Walk<'_> {
    /// Verifies pages and all that can be reached from them, except the trees of objects, which are returned; a part of
    /// them, if the end is asked for.
    fn all(
        &mut self,
        core: &mut Core,
        tasks: Vec<Task>,
        report: &mut ScrubReport,
        lost: &mut LostStreams,
    ) -> Vec<(u64, Task)> {
        let Walk { reader, progress, known, done, walked } = self;
        let (reader, progress, done) = (*reader, *progress, &*done);
        let geometry = core.geometry().clone();
        let size = geometry.page() as u64;
        let mut below = Below { tasks, ..Below::default() };
        let mut stack: Vec<Task> = Vec::new();
        let mut objects = Vec::new();
        loop {
            objects.append(&mut below.objects);
            walked.clusters += below.clusters;
            for (holds, table, error) in below.errors.drain(..) {
                damaged(
                    core,
                    report,
                    lost,
                    (&holds, table, 0),
                    (reader.copies().to_vec(), false, Some(error)),
                );
            }
            for mut task in below.tasks.drain(..) {
                match core.pages.offset(Address { real: task.real, cluster: task.reference.clusters[0] }) {
                    Ok(place) if walked.pages.insert(place / u64::from(geometry.cluster)) => {
                        task.place = place;
                        *known += 1;
                        stack.push(task);
                    }
                    Ok(_) => {}
                    Err(error) => damaged(
                        core,
                        report,
                        lost,
                        (&task.holds, task.table, 0),
                        (reader.copies().to_vec(), false, Some(error)),
                    ),
                }
            }
            if stack.is_empty() {
                break;
            }
            let mut batch = stack.split_off(stack.len().saturating_sub(BATCH));
            batch.sort_unstable_by_key(|task| task.place);
            let pieces: Vec<Piece> =
                batch.iter().map(|task| Piece { offset: task.place, length: size as u32 }).collect();
            let results = Mutex::new((Below::default(), Vec::new()));
            let page = |number: usize, bytes: &[u8]| -> Result<Page> {
                let task = &batch[number];
                let page =
                    Page::from_bytes(bytes.to_vec(), &geometry, &task.reference, task.table, task.place)?;
                match (task.level, page.node().level()) {
                    (Some(expected), found) if expected != found => {
                        Err(Error::damaged("level of a node", task.place, expected, found))
                    }
                    _ => Ok(page),
                }
            };
            reader.read(
                &pieces,
                &|number, bytes| page(number, bytes).map(drop),
                &|number, outcome| {
                    let found = outcome.good.and_then(|bytes| page(number, bytes).ok());
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(page) = found {
                        look(&batch[number], &page, &mut results.0);
                    }
                    if !outcome.bad.is_empty() {
                        results.1.push((number, (outcome.bad, outcome.repaired, outcome.why)));
                    }
                },
                &|bytes| {
                    let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
                    progress.progress("metadata", done, *known * size);
                },
            );
            let (found, mut bad) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
            below = found;
            if progress.is_stopped() {
                break;
            }
            bad.sort_unstable_by_key(|(number, _)| *number);
            for (number, outcome) in bad {
                let task = &batch[number];
                damaged(core, report, lost, (&task.holds, task.table, task.place), outcome);
            }
        }
        objects
    }
}

fn task(reference: PageReference, table: u64, real: bool, holds: Holds, level: Option<u8>) -> Task {
    Task { reference, table, real, holds, level, place: 0 }
}

/// Reports a damaged page.
fn damaged(
    core: &mut Core,
    report: &mut ScrubReport,
    lost: &mut LostStreams,
    (holds, table, place): (&Holds, u64, u64),
    outcome: (Vec<usize>, bool, Option<Error>),
) {
    let is_lost = outcome.0.len() == report.copies;
    let (code, path) = match holds {
        Holds::Extents(owner) => {
            if is_lost {
                lost.insert(Owner::clone(owner), Lost::Extents);
            }
            ("extents-page", owner.path(core))
        }
        Holds::Directory => {
            ("directory-page", super::path(core, table).map(|names| super::shown(&names, None)))
        }
        Holds::Attributes(directory, row_key) => {
            let name = super::path(core, *directory).map(|mut names| {
                names.extend((key::kind(row_key) == key::NAME).then(|| key::units(row_key)));
                super::shown(&names, None)
            });
            ("attributes-page", name)
        }
        Holds::Plain | Holds::Objects => ("metadata-page", None),
    };
    let severity = if path.is_some() { Severity::DataLoss } else { Severity::Inconsistent };
    report.add(structure(code, severity, path, place, report.copies, outcome));
}

/// Adds everything to which a good page refers to `below`.
fn look(task: &Task, page: &Page, below: &mut Below) {
    let node = page.node();
    if node.is_inner() {
        for row in node.rows() {
            match PageReference::from_bytes(row.value, task.place) {
                Ok(reference) => below.tasks.push(Task {
                    reference,
                    holds: task.holds.clone(),
                    level: Some(node.level() - 1),
                    ..*task
                }),
                Err(error) => below.errors.push((task.holds.clone(), task.table, error)),
            }
        }
        return;
    }
    match &task.holds {
        Holds::Plain => {}
        Holds::Objects => node.rows().for_each(|row| {
            let object = ObjectRow::number_of(row.key);
            match ObjectRow::from_bytes(row.value, task.place) {
                Ok(found) => {
                    let is_directory = matches!(object, ROOT_DIRECTORY | 0x520 | FIRST_OBJECT..);
                    let holds = if is_directory { Holds::Directory } else { Holds::Plain };
                    below.objects.push((object, self::task(found.root, object, false, holds, None)));
                }
                Err(error) => below.errors.push((Holds::Objects, object, error)),
            }
        }),
        Holds::Directory => {
            for row in node.rows().filter(|row| has_record(row.key, &[key::RECORD, key::NAME, key::BODY])) {
                match Record::from_bytes(row.value, task.place) {
                    Ok(record) => look_at_record(task.table, row.key, &record, below),
                    Err(error) => below.errors.push((Holds::Directory, task.table, error)),
                }
            }
        }
        Holds::Attributes(directory, row_key) => {
            let mut record = Record::new(0, 0, 0, 0);
            record.rows = node.rows().map(Attribute::from).collect();
            look_at_record(*directory, row_key, &record, below);
        }
        Holds::Extents(_) => match crate::layout::extent::rows(page.area()) {
            Ok(rows) => below.clusters += rows.iter().filter(|row| row.checksum().is_some()).count() as u64,
            Err(error) => below.errors.push((task.holds.clone(), task.table, error)),
        },
    }
}

fn look_at_record(directory: u64, row_key: &[u8], record: &Record, below: &mut Below) {
    for page in &record.outside {
        below.tasks.push(task(*page, ANY_TABLE, false, Holds::Attributes(directory, row_key.into()), None));
    }
    for (stream, area) in extents(record) {
        let owner =
            || Arc::new(Owner { names: Owner::names(directory, row_key, record), stream: stream.clone() });
        if let Err((at, expected, found)) = TreeNode::check(area) {
            let error = Error::damaged("stream's node", at as u64, expected, found);
            below.errors.push((Holds::Extents(owner()), directory, error));
            continue;
        }
        let node = TreeNode::new(area);
        if !node.is_inner() {
            match crate::layout::extent::rows(area) {
                Ok(rows) => {
                    below.clusters += rows.iter().filter(|row| row.checksum().is_some()).count() as u64
                }
                Err(error) => below.errors.push((Holds::Extents(owner()), directory, error)),
            }
            continue;
        }
        let owner = owner();
        for row in node.rows() {
            let holds = Holds::Extents(owner.clone());
            match PageReference::from_bytes(row.value, 0) {
                Ok(reference) => {
                    below.tasks.push(task(reference, ANY_TABLE, false, holds, Some(node.level() - 1)))
                }
                Err(error) => below.errors.push((holds, directory, error)),
            }
        }
    }
}
