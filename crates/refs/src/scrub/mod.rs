//! The integrity scanner: every metadata page and every cluster with a checksum is read from every copy that the device
//! keeps, and verified.
//!
//! * [`anchors`]: boot records, superblocks, checkpoints.
//! * [`metadata`]: all pages of all trees, some thousand at a time in order of their places.
//! * [`data`]: the clusters of integrity streams, some gigabytes at a time in order of their places.
//! * [`copies`]: clusters without a checksum, where the device keeps several copies.
//!
//! Memory is bounded: a bit for each cluster of the containers that have metadata, the number and root of each object,
//! the pieces of one batch, and at most a million clusters that differ between copies.

mod anchors;
mod copies;
mod data;
mod metadata;
mod position;
pub(crate) mod reader;

use crate::core::{Core, ROOT_DIRECTORY};
use crate::layout::attribute;
use crate::layout::object_links;
use crate::layout::record::key;
use crate::layout::stream::{
    HEAD, extents_area, extents_number, is_snapshot, snapshot_number, summary, version_number,
};
use crate::layout::{Attribute, Record};
use crate::open::{self, Notes};
use platter_device::Device;
use platter_vfs::{Damaged, Error, Finding, Name, Progress, Result, ScrubOptions, ScrubReport, Severity};
use position::{DataPosition, Position};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Scrubs the volume on a device. Also returns the streams that are lost.
///
/// # Errors
/// The errors of opening the volume; [`Error::InvalidArgument`] for a position that is not from a report.
pub(crate) fn scrub(
    device: Arc<dyn Device>,
    options: &ScrubOptions,
    progress: &dyn Progress,
) -> Result<(ScrubReport, LostStreams)> {
    let from = options.from.as_deref().map(str::parse).transpose()?.unwrap_or(Position::START);
    let mut notes = Notes::default();
    let reader = reader::Reader::new(&*device, options.rate, progress);
    let mut report = ScrubReport { copies: reader.copies().len(), ..ScrubReport::default() };
    let found = open::anchors(&*device, &mut notes)?;
    if from == Position::START {
        anchors::scrub(&*device, &found, &mut report);
    }
    let mut core = open::core(&device, &found, &mut notes, false)?;
    let mut lost = BTreeMap::new();
    let (object, data_from, compared) = match from {
        Position::Metadata(object) => (object, Some(DataPosition::default()), 0),
        Position::Data(from) => (u64::MAX, Some(from), 0),
        Position::Copies(cluster) => (u64::MAX, None, cluster),
    };
    let mut walked =
        metadata::scrub(&mut core, &reader, (object, options.limit), progress, &mut report, &mut lost);
    report.next = walked.next.map(|next| match &options.from {
        // The walk to the objects was cut off, and what was next still is.
        Some(from) if next == u64::MAX => from.clone(),
        _ => Position::Metadata(next).to_string(),
    });
    let left = |report: &ScrubReport| {
        options.limit.map(|limit| limit.saturating_sub(report.metadata).saturating_sub(report.data))
    };
    if let (None, Some(from)) = (&report.next, data_from) {
        // So that a scrub that begins here comes forward, however small the limit is.
        let least = if object == u64::MAX { u64::from(core.geometry().cluster) } else { 0 };
        let limit = left(&report).map(|left| left.max(least));
        data::scrub(&mut core, &reader, &walked, (from, limit), progress, &mut report, &mut lost);
    }
    let is_left = report.next.is_none() && !progress.is_stopped();
    if !options.checksums_only && is_left && copies::can_compare(&*device, &reader) {
        if !walked.is_whole {
            // The comparison leaves out all pages. What is wrong with them was reported when they were verified.
            let (mut report, mut lost) = (ScrubReport::default(), LostStreams::new());
            walked = metadata::scrub(&mut core, &reader, (0, None), progress, &mut report, &mut lost);
        }
        let limit = left(&report).unwrap_or(u64::MAX);
        let (mut unlike, next) =
            copies::compare(&core, &reader, &walked.pages, (compared, limit), progress, &mut report);
        report.next = next.map(|position| position.to_string());
        if !unlike.is_empty() {
            let decide = |unlike: &copies::Unlike| copies::let_majority_decide(&*device, &found, unlike);
            data::find_owners(&mut core, &reader, &walked, &mut unlike, &mut report, &decide);
        }
    }
    report.stopped = progress.is_stopped() && report.next.is_some();
    drop(core);
    device.flush().or_else(|error| if device.read_only() { Ok(()) } else { Err(error) })?;
    Ok((report, lost))
}

/// Streams with content of which no good copy is left.
pub(crate) type LostStreams = BTreeMap<Owner, Lost>;

/// The part of a stream that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lost {
    /// Clusters of its data.
    Data,
    /// Pages with its runs.
    Extents,
}

/// A stream of a file, by the names of both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    /// The file's names, each with its directory. The first is the one that is reported.
    pub names: Vec<(u64, Vec<u16>)>,
    /// The name of the stream; `None` for the file's own data.
    pub stream: Option<Vec<u16>>,
}

impl Owner {
    /// The names of the file whose record is in a row of a directory.
    fn names(directory: u64, row_key: &[u8], record: &Record) -> Vec<(u64, Vec<u16>)> {
        if key::kind(row_key) == key::NAME {
            return vec![(directory, key::units(row_key))];
        }
        object_links(&record.rows).collect()
    }

    /// The path of the stream's file on the volume, with the stream's name.
    pub(crate) fn path(&self, core: &mut Core) -> Option<String> {
        let (directory, name) = self.names.first()?;
        let mut path = path(core, *directory)?;
        path.push(name.clone());
        Some(shown(&path, self.stream.as_deref()))
    }
}

/// A path as text, for messages.
pub(crate) fn shown(names: &[Vec<u16>], stream: Option<&[u16]>) -> String {
    let mut text = String::new();
    for name in names {
        text.push('/');
        text.push_str(&Name::from_units(name).to_string());
    }
    if text.is_empty() {
        text.push('/');
    }
    if let Some(stream) = stream {
        text.push(':');
        text.push_str(&Name::from_units(stream).to_string());
    }
    text
}

/// The names on the path from the root to a directory, from the directories' own records.
pub(crate) fn path(core: &mut Core, directory: u64) -> Option<Vec<Vec<u16>>> {
    /// The most directories on a path: more than any volume has.
    const DEEPEST: usize = 4096;
    let mut names = Vec::new();
    let mut at = directory;
    while at != ROOT_DIRECTORY {
        let (tree, pages) = core.tree(at).ok()?;
        let record = tree.get(pages, &key::OWN, |row| Record::from_bytes(row.value, 0)).ok()??.ok()?;
        let (above, name) = object_links(&record.rows).next()?;
        names.push(name);
        at = above;
        if names.len() > DEEPEST {
            return None;
        }
    }
    names.reverse();
    Some(names)
}

/// Whether a row of a directory holds a record and its key is of one of these kinds.
pub(crate) fn has_record(row_key: &[u8], kinds: &[u16]) -> bool {
    let kind = key::kind(row_key);
    let is_short = kind == key::NAME && row_key.len() >= 4 && key::form(row_key) != key::LONG;
    row_key.len() >= 2 && kinds.contains(&kind) && !is_short
}

/// The runs in a record: for each stream its name, `None` for the file's own data, and the area of the node.
fn extents(record: &Record) -> impl Iterator<Item = (Option<Vec<u16>>, &[u8])> {
    let snapshot = |number: u64| {
        let is_its = |row: &&Attribute| {
            row.kind() == attribute::NAMED_DATA
                && is_snapshot(&row.value)
                && snapshot_number(&row.value) == number
        };
        record.rows.iter().find(is_its).map(Attribute::name)
    };
    let named = |number: u64| {
        let is_its = |row: &&Attribute| {
            row.kind() == attribute::NAMED_DATA
                && row.value.len() == HEAD
                && summary::NUMBER.of(&row.value) == number
        };
        record.rows.iter().find(is_its).map(Attribute::name)
    };
    record.rows.iter().filter_map(move |row| {
        let area = extents_area(&row.value).ok().filter(|_| !row.is_single())?;
        match row.kind() {
            attribute::DATA if version_number(row) == attribute::LIVE => Some((None, area)),
            // A version of the data that belongs to a snapshot.
            attribute::DATA => Some((Some(snapshot(version_number(row)).unwrap_or_default()), area)),
            attribute::STREAM_EXTENTS => {
                let number = extents_number(row).unwrap_or(0);
                Some((Some(named(number).unwrap_or_default()), area))
            }
            _ => None,
        }
    })
}

/// A sentence for the report: the error, and the copies that have it.
fn sentence(why: Option<&Error>, bad: &[usize], copies: usize) -> String {
    let why = why.map_or_else(|| "damaged".into(), ToString::to_string);
    if copies < 2 {
        return why;
    }
    let bad: Vec<String> = bad.iter().map(ToString::to_string).collect();
    format!("{why}, in copy {}", bad.join(" and "))
}

/// Makes the report of a damaged structure.
fn structure(
    code: &'static str,
    severity: Severity,
    path: Option<String>,
    place: u64,
    copies: usize,
    outcome: (Vec<usize>, bool, Option<Error>),
) -> Damaged {
    let (bad, repaired, why) = outcome;
    // Where one copy is still good, nothing is lost.
    let severity = if bad.len() < copies { severity.min(Severity::Inconsistent) } else { severity };
    let message = sentence(why.as_ref(), &bad, copies);
    Damaged { finding: Finding { code, severity, path, message, repaired }, range: None, place, copies: bad }
}
