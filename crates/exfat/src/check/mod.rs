//! Finding and repairing damage, from the device alone.
//!
//! This shares only [`crate::layout`] with the code that writes volumes. It works in rounds: each walks the whole tree
//! (see [`walk`]), reports, and notes repairs in memory; these are then written in the order that a commit has, so that
//! a power cut during a repair leaves nothing worse than was there:
//!
//! 1. copies of shared clusters, and tables written anew, into free clusters;
//! 2. bits of clusters that are newly taken, and their FAT entries;
//! 3. FAT entries of chains that are cut or led elsewhere;
//! 4. directory slots;
//! 5. bits of clusters that become free;
//! 6. when a round finds nothing more: the marks that say that the volume is clean.
//!
//! Memory: two bits for each cluster, a bounded part of the FAT, one directory (256 MiB at most), and a name for each
//! directory of the volume. Nothing recurses.

mod boot;
mod clusters;
mod contested;
mod copy;
mod listing;
mod lost;
mod names;
mod system;
mod walk;

use crate::layout::{Geometry, Upcase};
use clusters::Clusters;
use platter_clusters::{Disk, Findings};
use platter_device::Device;
use platter_vfs::{CheckOptions, CheckReport, Error, Finding, Progress, Result, Severity};
use std::sync::Arc;
use walk::Walk;

/// The most rounds of a repair. Each but the last removes at least one finding; what real damage needs is two or three.
const ROUNDS: u32 = 32;

/// The measures of a volume by its boot sector, or by the copy of it.
///
/// # Errors
/// What is wrong with the first, if no copy helps.
pub(crate) fn find_boot(disk: &Disk) -> Result<Geometry> {
    Ok(boot::find(disk, &mut CheckReport::default(), false)?.geometry)
}

/// Checks a volume that is not open, and repairs it if asked to.
///
/// # Errors
/// [`Error::NotThisFormat`] or [`Error::Damaged`] if there is no usable boot region; [`Error::Device`];
/// [`Error::ReadOnly`] for a repair of a TexFAT volume.
pub fn check(device: &dyn Device, options: CheckOptions, progress: &dyn Progress) -> Result<CheckReport> {
    let repair = options.repair;
    if let Some(why) = device.why_read_only().filter(|_| repair) {
        return Err(Error::ReadOnly(why));
    }
    let mut disk = Disk::new(device);
    let mut report = CheckReport::default();
    disk.report_end(&mut report);
    let two = boot::find(&disk, &mut CheckReport::default(), false)?.geometry.fat_count == 2;
    if repair && two {
        return Err(Error::ReadOnly("TexFAT volumes, which have two FATs, are only read".into()));
    }
    let mut boot = boot::find(&disk, &mut report, repair)?;
    let geometry = boot.geometry.clone();
    boot::dirty(&boot, &mut report, repair);
    let mut clusters = Clusters::new(device, &geometry);
    boot::reserved_entries(&disk, &geometry, &mut report, repair)?;
    for number in 1..=ROUNDS {
        let last = number == ROUNDS;
        let mut round = CheckReport::default();
        let again = analyse(&mut disk, &mut clusters, &mut round, progress, repair && !last)?;
        let again = again || round.repaired > 0;
        report.take_round(round, !again || last || !repair);
        if !again || !repair {
            break;
        }
        commit(&mut disk, &mut clusters)?;
    }
    boot::percent(&boot, &mut report, repair);
    if repair && report.repaired > 0 {
        boot::make_clean(&disk, &mut boot, clusters.percent())?;
    }
    report.total_clusters = u64::from(geometry.heap.count);
    Ok(report)
}

/// One round: finds everything and, if `repair`, notes changes in memory. Whether there is more to do than one round
/// may is the answer.
fn analyse<'d>(
    disk: &mut Disk<'d>,
    clusters: &mut Clusters<'d>,
    report: &mut CheckReport,
    progress: &dyn Progress,
    repair: bool,
) -> Result<bool> {
    clusters.begin();
    let system = system::find(disk, clusters, report, repair)?;
    let upcase = system.upcase.clone().unwrap_or_else(|| Arc::new(Upcase::recommended()));
    let findings = Findings { report, repair, postponed: false };
    let mut walk = Walk::new(disk, clusters, findings, progress, upcase.clone(), system);
    walk.run()?;
    contested::resolve(&mut walk)?;
    let Walk { shared, cuts, findings: Findings { postponed, .. }, unsettled, system, .. } = walk;
    report.used_clusters = clusters.claimed();
    for file in shared {
        copy::copy(disk, clusters, &file)?;
    }
    cuts.into_iter().for_each(|last| clusters.set_link(last, Geometry::END));
    system::restore(disk, clusters, &system, report, repair)?;
    // What is below a contested directory, or was not looked into, is not lost.
    let whole = !unsettled && !postponed;
    if whole && system.bitmap.is_some() {
        lost::recover(disk, clusters, report, repair, &upcase)?;
    }
    if system.bitmap.is_some() {
        bitmap(clusters, report, repair, whole)?;
    }
    Ok(postponed)
}

/// Compares the bitmap with what was found to be taken.
fn bitmap(clusters: &mut Clusters, report: &mut CheckReport, repair: bool, whole: bool) -> Result<()> {
    let (free, taken) = clusters.differences()?;
    let mut finding = |code, message: String| {
        let severity = Severity::Inconsistent;
        report.add(Finding { code, severity, path: None, message, repaired: repair });
    };
    if let Some(first) = free.first {
        finding(
            "bitmap-free",
            format!("{} clusters in use are free in the bitmap, the first {first}", free.count),
        );
        if repair {
            clusters.take_claimed();
        }
    }
    if let Some(first) = taken.first.filter(|_| whole) {
        finding(
            "bitmap-taken",
            format!("{} clusters are taken in the bitmap by nothing, the first {first}", taken.count),
        );
        if repair {
            clusters.free_unclaimed()?;
        }
    }
    Ok(())
}

/// Writes what a round changed.
fn commit(disk: &mut Disk, clusters: &mut Clusters) -> Result<()> {
    disk.flush()?;
    clusters.write_taken(disk)?;
    disk.flush()?;
    clusters.write_links(disk)?;
    disk.flush()?;
    disk.write_edits()?;
    disk.flush()?;
    clusters.write_freed(disk)?;
    disk.flush()
}
