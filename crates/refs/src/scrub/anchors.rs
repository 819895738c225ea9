//! Scrubbing the first structures: both boot records, the three superblocks and the two checkpoints, in every copy.

use super::structure;
use crate::anchor::{Newest, in_copies};
use crate::geometry::Geometry;
use crate::layout::{BootRecord, Checkpoint, Superblock};
use crate::open::Anchors;
use platter_device::Device;
use platter_vfs::{Error, Result, ScrubReport, Severity};

/// Verifies the first structures in every copy of the device, and repairs a damaged one from another copy.
pub(super) fn scrub(device: &dyn Device, anchors: &Anchors, report: &mut ScrubReport) {
    let Geometry { cluster, clusters, signature, .. } = anchors.geometry;
    let boot = &anchors.boot;
    let sector = boot.sector.max(device.sectors().logical) as usize;
    for at in [0, (boot.sectors - 1) * u64::from(boot.sector)] {
        one(
            device,
            "boot-record",
            Severity::Inconsistent,
            (at, sector),
            report,
            &|bytes| {
                let mut record = [0; BootRecord::SIZE];
                record.copy_from_slice(&bytes[..BootRecord::SIZE]);
                BootRecord::from_bytes(&record, at)
            },
            &|_| 0,
        );
    }
    for place in Superblock::places(clusters) {
        let at = anchors.geometry.offset(place);
        one(
            device,
            "superblock",
            Severity::Inconsistent,
            (at, cluster as usize),
            report,
            &|bytes| Superblock::from_bytes(bytes, place, at),
            &|found| found.generation,
        );
    }
    for (slot, &place) in anchors.superblock.checkpoints.iter().enumerate() {
        // The older checkpoint may be torn after a power cut, which is no damage: the next commit overwrites it.
        let is_newest = anchors.checkpoints.first().is_some_and(|(newest, _)| *newest == slot);
        let severity = if is_newest { Severity::Inconsistent } else { Severity::Notice };
        let (at, page) = (place.saturating_mul(u64::from(cluster)), anchors.geometry.page());
        one(
            device,
            "checkpoint",
            severity,
            (at, page),
            report,
            &|bytes| Checkpoint::from_bytes(bytes, place, cluster as usize, signature, at),
            &|found| found.clock,
        );
    }
}

/// Verifies a structure in all copies, and makes them equal: all get the newest, by the number that `clock` gives.
fn one<T>(
    device: &dyn Device,
    code: &'static str,
    severity: Severity,
    (at, length): (u64, usize),
    report: &mut ScrubReport,
    parse: &dyn Fn(&[u8]) -> Result<T>,
    clock: &dyn Fn(&T) -> u64,
) {
    report.metadata += length as u64;
    let Newest { good, bad, unlike } = in_copies(device, (at, length), parse).newest(device, at, clock);
    let good = good.map(|(bytes, _)| bytes);
    let mend = |copies: &[usize]| good.as_ref().is_some_and(|good| repair(device, copies, at, good));
    // Copies of a mirror may differ although each of them is good, as after a power cut between the writes to them.
    if !unlike.is_empty() {
        let repaired = mend(&unlike);
        let mut found = structure(code, Severity::Notice, None, at, report.copies, (unlike, repaired, None));
        found.finding.message = "the copies differ, each of them good; they all get the one in use".into();
        report.add(found);
    }
    if !bad.is_empty() {
        let (bad, mut why): (Vec<usize>, Vec<Error>) = bad.into_iter().unzip();
        let repaired = mend(&bad);
        let why = Some(why.swap_remove(0));
        report.add(structure(code, severity, None, at, report.copies, (bad, repaired, why)));
    }
}

/// Writes the good content to copies. If one cannot be written, for instance because it is out of service, the others
/// are written all the same. Returns whether all were written.
fn repair(device: &dyn Device, copies: &[usize], at: u64, good: &[u8]) -> bool {
    copies.iter().filter(|&&copy| device.repair_copy(copy, at, good).is_err()).count() == 0
}
