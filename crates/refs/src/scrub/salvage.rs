//! Taking what is lost out of the namespace, so that what is left of the volume is whole.

use super::{Owner, shown};
use crate::RefsVolume;
use platter_device::Device;
use platter_vfs::{
    Change, DosFlags, Error, FileSystem, Name, Node, OpenOptions, Result, ScrubReport, Severity,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Removes lost files, and lost named streams of files whose own data is good.
///
/// # Errors
/// What opening, committing and unmounting give. What cannot be removed is told in the report.
pub fn salvage(device: Arc<dyn Device>, lost: BTreeSet<Owner>, report: &mut ScrubReport) -> Result<()> {
    if lost.is_empty() {
        return Ok(());
    }
    let volume = RefsVolume::open(device, OpenOptions::default())?;
    let mut is_all = true;
    let whole: BTreeSet<_> =
        lost.iter().filter(|owner| owner.stream.is_none()).map(|owner| owner.names.clone()).collect();
    for owner in lost {
        if owner.stream.is_some() && whole.contains(&owner.names) {
            continue;
        }
        // Each name is a path that will no longer lead anywhere.
        for (directory, name) in &owner.names {
            let names = super::path(&mut volume.core(), *directory);
            let Some(mut names) = names else {
                let told = format!("{:#x}/{}", directory, shown(std::slice::from_ref(name), None));
                report.stuck.push((told, "no directories lead to it; run check".into()));
                is_all = false;
                continue;
            };
            names.push(name.clone());
            let told = shown(&names, owner.stream.as_deref());
            match remove(&volume, &names, owner.stream.as_deref()) {
                Ok(()) => report.removed.push(told),
                Err(error) => {
                    report.stuck.push((told, error.to_string()));
                    is_all = false;
                }
            }
            if owner.stream.is_some() {
                break;
            }
        }
    }
    volume.unmount()?;
    let others = report.damaged.iter().map(|damaged| &damaged.finding).filter(|finding| {
        !finding.repaired && (finding.severity < Severity::DataLoss || finding.code == "directory-page")
    });
    if is_all && report.found == report.damaged.len() as u64 {
        report.remaining = others.map(|finding| finding.severity).max();
    }
    Ok(())
}

fn remove(volume: &RefsVolume, names: &[Vec<u16>], stream: Option<&[u16]>) -> Result<()> {
    let Some((last, above)) = names.split_last() else { return Err(Error::IsADirectory) };
    let mut held = vec![Node::ROOT];
    let mut find = |name: &[u16]| -> Result<Node> {
        let node = volume.lookup(held[held.len() - 1], &Name::from_units(name))?;
        held.push(node);
        Ok(node)
    };
    let last = Name::from_units(last);
    let outcome = above.iter().try_fold(Node::ROOT, |_, name| find(name)).and_then(|directory| {
        let node = find(last.units())?;
        let flags = volume.attributes(node)?.flags;
        if flags.contains(DosFlags::READ_ONLY) {
            let flags = Some(DosFlags(flags.0 & !DosFlags::READ_ONLY.0));
            volume.set_attributes(node, &Change { flags, ..Change::default() })?;
        }
        match stream {
            Some(stream) => volume.remove_stream(node, &Name::from_units(stream)),
            None => volume.unlink(directory, &last),
        }
    });
    held.into_iter().skip(1).for_each(|node| volume.forget(node, 1));
    outcome
}
