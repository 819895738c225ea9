//! Salvage: removing files and streams whose content is lost, so that everything left on the volume is whole.

use crate::RefsVolume;
use crate::core::Core;
use crate::layout::attribute::{DATA, NAMED_DATA, STREAM_EXTENTS};
use crate::layout::record::key;
use crate::layout::stream::{extents_number, is_snapshot, snapshot_number, summary, version_number};
use crate::layout::{Record, ShortEntry};
use crate::scrub::{self, Lost, LostStreams, Owner, has_record, shown};
use platter_device::Device;
use platter_vfs::{
    Change, Damaged, DosFlags, Error, FileSystem, Finding, Name, Names, Node, OpenOptions, Progress, Result,
    ScrubOptions, ScrubReport, Severity,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Scrubs the volume on a device, and removes what is lost if `options` say so.
///
/// # Errors
/// Those of [`scrub::scrub`]; [`Error::ReadOnly`] for salvaging on a device that cannot be written.
pub(crate) fn scrub(
    device: Arc<dyn Device>,
    options: &ScrubOptions,
    progress: &dyn Progress,
) -> Result<ScrubReport> {
    if options.salvage && device.read_only() {
        return Err(Error::ReadOnly("its device is".into()));
    }
    let (mut report, lost) = scrub::scrub(device.clone(), options, progress)?;
    if options.salvage && !report.stopped {
        salvage(device, lost, &mut report)?;
    }
    Ok(report)
}

/// Removes lost files, and lost named streams of files whose own data is good.
///
/// # Errors
/// The errors of opening, committing and unmounting. A file that cannot be removed is named in the report.
fn salvage(device: Arc<dyn Device>, mut lost: LostStreams, report: &mut ScrubReport) -> Result<()> {
    if lost.is_empty() {
        return Ok(());
    }
    let volume = RefsVolume::open(device, OpenOptions::default())?;
    let whole: BTreeSet<_> =
        lost.keys().filter(|owner| owner.stream.is_none()).map(|owner| owner.names.clone()).collect();
    lost.retain(|owner, _| owner.stream.is_none() || !whole.contains(&owner.names));
    // First the streams whose extents are lost, before anything is opened: they cannot be opened as files.
    let mut all: Vec<(Owner, Lost)> = lost.into_iter().collect();
    all.sort_by_key(|(_, lost)| std::cmp::Reverse(*lost));
    let mut leaked = Vec::new();
    for (owner, lost) in all {
        let removed = match lost {
            Lost::Extents => strike(&mut volume.core(), &owner),
            Lost::Data => remove(&volume, &owner),
        };
        // A stream is named once, by the first name of its file.
        let most = if owner.stream.is_some() { 1 } else { owner.names.len() };
        let paths = owner.names.iter().take(most).map(|(directory, name)| {
            let mut path = scrub::path(&mut volume.core(), *directory).unwrap_or_default();
            path.push(name.clone());
            shown(&path, owner.stream.as_deref())
        });
        match removed {
            Ok(()) => report.removed.extend(paths),
            Err(error) => report.stuck.extend(paths.map(|path| (path, error.to_string()))),
        }
        if lost == Lost::Extents {
            leaked.extend(owner.path(&mut volume.core()));
        }
    }
    volume.unmount()?;
    let others = report.damaged.iter().map(|damaged| &damaged.finding).filter(|finding| {
        !finding.repaired && (finding.severity < Severity::DataLoss || finding.code == "directory-page")
    });
    if report.stuck.is_empty() && report.found == report.damaged.len() as u64 {
        report.remaining = others.map(|finding| finding.severity).max();
    }
    for path in leaked {
        let message = "its clusters count as used until check --repair gives them back".into();
        let (severity, path) = (Severity::Inconsistent, Some(path));
        let finding = Finding { code: "leaked-clusters", severity, path, message, repaired: false };
        report.add(Damaged { finding, range: None, place: 0, copies: Vec::new() });
    }
    Ok(())
}

/// Removes a file or stream as its user would.
fn remove(volume: &RefsVolume, owner: &Owner) -> Result<()> {
    for (directory, name) in &owner.names {
        let mut path = scrub::path(&mut volume.core(), *directory).ok_or(Error::NotFound)?;
        path.push(name.clone());
        remove_path(volume, &path, owner.stream.as_deref())?;
        if owner.stream.is_some() {
            break;
        }
    }
    Ok(())
}

fn remove_path(volume: &RefsVolume, names: &[Vec<u16>], stream: Option<&[u16]>) -> Result<()> {
    let mut held = vec![Node::ROOT];
    let found = names.iter().try_for_each(|name| {
        held.push(volume.lookup(held[held.len() - 1], &Name::from_units(name))?);
        Ok(())
    });
    let outcome = found.and_then(|()| {
        let [.., directory, node] = held[..] else { return Err(Error::IsADirectory) };
        let flags = volume.attributes(node)?.flags;
        if flags.contains(DosFlags::READ_ONLY) {
            let flags = Some(DosFlags(flags.0 & !DosFlags::READ_ONLY.0));
            volume.set_attributes(node, &Change { flags, ..Change::default() })?;
        }
        match (stream, names.last()) {
            (Some(stream), _) => {
                match volume.streams().and_then(|part| part.remove(node, &Name::from_units(stream))) {
                    Err(Error::NotFound) => {
                        volume.snapshots().and_then(|part| part.remove(node, &Name::from_units(stream)))
                    }
                    removed => removed,
                }
            }
            (None, Some(name)) => volume.unlink(directory, &Name::from_units(name)),
            (None, None) => Err(Error::IsADirectory),
        }
    });
    held.into_iter().skip(1).for_each(|node| volume.forget(node, 1));
    outcome
}

/// Removes a stream from its record, or a file from its directories, without reading its extents. Its clusters stay
/// marked as in use.
fn strike(core: &mut Core, owner: &Owner) -> Result<()> {
    let Some((directory, name)) = owner.names.first() else { return Err(Error::NotFound) };
    let row_key = key::name(key::LONG, name);
    let (tree, pages) = core.tree(*directory)?;
    let row = tree.get(pages, &row_key, |row| (row.key.to_vec(), row.value.to_vec()))?;
    let (found, mut value) = row.ok_or(Error::NotFound)?;
    let (mut home, mut record_key) = (*directory, found.clone());
    if !has_record(&found, &[key::NAME]) {
        let short = ShortEntry::from_bytes(&value, 0)?;
        (home, record_key) = (short.object, key::body(short.ordinal, short.object).to_vec());
        let (tree, pages) = core.tree(home)?;
        value = tree.get(pages, &record_key, |row| row.value.to_vec())?.ok_or(Error::NotFound)?;
    }
    let Some(stream) = &owner.stream else {
        if let Ok(record) = Record::from_bytes(&value, 0) {
            core.forget_number(home, record.ordinal)?;
        }
        for (directory, name) in &owner.names {
            let (tree, pages) = core.tree_mut(*directory)?;
            tree.remove(pages, &key::name(key::LONG, name))?;
        }
        let (tree, pages) = core.tree_mut(home)?;
        return tree.remove(pages, &record_key).map(drop);
    };
    let mut record = Record::from_bytes(&value, 0)?;
    let is_named = |row: &crate::layout::Attribute| row.kind() == NAMED_DATA && row.name() == *stream;
    if !record.outside.is_empty() {
        return Err(Error::NotPermitted("its attributes stand outside its record, which is only read"));
    }
    let head = record.rows.iter().find(|row| is_named(row)).map(|row| row.value.clone()).unwrap_or_default();
    let (number, version) = (summary::NUMBER.of(&head), snapshot_number(&head));
    let is_snapshot = is_snapshot(&head);
    record.take(|row| match row.kind() {
        STREAM_EXTENTS => !is_snapshot && extents_number(row) == Some(number),
        DATA => is_snapshot && !row.is_single() && version_number(row) == version,
        _ => is_named(row),
    });
    let (tree, pages) = core.tree_mut(home)?;
    tree.put(pages, &record_key, 1, &record.to_bytes()).map(drop)
}
