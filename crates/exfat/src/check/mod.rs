//! Finding and repairing damage, from the content of the device alone.
//!
//! The check shares only [`crate::layout`] with the code that writes volumes. It works in rounds. Each round walks
//! the whole tree (see [`walk`]), reports findings, and notes repairs in memory; the repairs are then written in the
//! order that a commit has, so that a power cut during a repair makes nothing worse:
//!
//! 1. copies of shared clusters, and new copies of damaged tables, into free clusters;
//! 2. bits of clusters that are newly taken, and their FAT entries;
//! 3. FAT entries of chains that are truncated or linked differently;
//! 4. directory slots;
//! 5. bits of clusters that become free;
//! 6. when a round finds nothing more: the flags that mark the volume as clean.
//!
//! Memory: two bits for each cluster, a bounded part of the FAT, one directory (256 MiB at most), and a name for each
//! directory of the volume. Nothing recurses.

mod boot;
mod clusters;
mod contested;
mod copy;
mod kept;
mod kinds;
mod listing;
mod lost;
mod names;
mod system;
mod walk;

use crate::layout::{Geometry, Upcase};
use clusters::Clusters;
use kept::Kept;
use platter_clusters::{Disk, Findings, SmallSectors};
use platter_device::Device;
use platter_vfs::{CheckOptions, CheckReport, Error, Finding, Progress, Result, Severity};
use std::sync::Arc;
use walk::Walk;

/// The most rounds of a repair. Each but the last removes at least one finding; real damage takes two or three.
const ROUNDS: u32 = 32;

/// Returns the geometry that the boot region states, or its backup.
///
/// # Errors
/// The fault of the main boot region, if the backup is not usable either.
pub(crate) fn find_boot(disk: &Disk) -> Result<Geometry> {
    Ok(boot::find(disk, &mut CheckReport::default(), false)?.geometry)
}

/// Checks a volume that is not open, and repairs it if asked to.
///
/// # Errors
/// [`Error::NotThisFormat`] or [`Error::Damaged`] if there is no usable boot region; [`Error::Device`];
/// [`Error::ReadOnly`] for a repair of a TexFAT volume.
pub(crate) fn check(
    device: &dyn Device,
    options: CheckOptions,
    progress: &dyn Progress,
) -> Result<CheckReport> {
    let repair = options.repair;
    if let Some(why) = device.why_read_only().filter(|_| repair) {
        return Err(Error::ReadOnly(why));
    }
    options.settle(device)?;
    let mut disk = Disk::new(device);
    let two = boot::find(&disk, &mut CheckReport::default(), false)?.geometry.fat_count == 2;
    if repair && two {
        return Err(Error::ReadOnly("TexFAT volumes, which have two FATs, are only read".into()));
    }
    if repair {
        // A volume that needs no repair is not written to: notices are what sound volumes of other systems have.
        let report = check(device, CheckOptions { repair: false }, progress)?;
        if report.exit_code() == 0 {
            return Ok(report);
        }
    }
    let mut report = CheckReport::default();
    disk.report_end(&mut report);
    let mut boot = boot::find(&disk, &mut report, repair)?;
    let geometry = boot.geometry.clone();
    boot::dirty(&boot, &mut report, repair);
    // The FAT may begin inside one of the device's sectors, if these are larger than the volume's.
    let in_sectors = SmallSectors::new(device, device.sectors().logical.min(geometry.sector));
    let mut clusters = Clusters::new(&in_sectors, &geometry);
    boot::reserved_entries(&disk, &geometry, &mut report, repair)?;
    let mut kept = Kept::default();
    for number in 1..=ROUNDS {
        let last = number == ROUNDS;
        let mut round = CheckReport::default();
        let outcome = analyse(&mut disk, &mut clusters, &mut round, progress, (repair && !last, &mut kept))?;
        let Some(again) = outcome else {
            // Nothing that the round noted is written.
            disk = Disk::new(device);
            clusters = Clusters::new(&in_sectors, &geometry);
            continue;
        };
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

/// Runs one round: reports all findings and, if `repair`, notes changes in memory. Returns whether changes were
/// postponed because a round may make only so many; `None` if the round does not count, as it may have changed what is
/// kept from now on.
fn analyse<'d>(
    disk: &mut Disk<'d>,
    clusters: &mut Clusters<'d>,
    report: &mut CheckReport,
    progress: &dyn Progress,
    (repair, kept): (bool, &mut Kept),
) -> Result<Option<bool>> {
    clusters.begin();
    let system = system::find(disk, clusters, report, repair)?;
    let upcase = system.upcase.clone().unwrap_or_else(|| Arc::new(Upcase::recommended()));
    let findings = Findings { report, repair, postponed: false };
    let mut walk = Walk::new(disk, clusters, findings, progress, upcase.clone(), system, kept);
    walk.run()?;
    contested::resolve(&mut walk)?;
    let Walk { shared, cuts, findings: Findings { postponed, .. }, unsettled, system, .. } = walk;
    report.used_clusters = clusters.claimed();
    let mut without_room = Vec::new();
    for file in shared {
        without_room.extend(copy::copy(disk, clusters, report, file)?);
    }
    if repair && kept.add(without_room) {
        return Ok(None);
    }
    cuts.into_iter().for_each(|last| clusters.set_link(last, Geometry::END));
    system::restore(disk, clusters, &system, report, repair)?;
    // Clusters below a contested directory, or a directory that was not read in this round, are not lost.
    let whole = !unsettled && !postponed;
    // The rest of a file whose clusters stay shared belongs to no entry that was walked to its end.
    let may_change = repair && kept.is_empty();
    if whole && kept.is_empty() && system.bitmap.is_some() {
        lost::recover(disk, clusters, report, repair, &upcase)?;
    }
    if system.bitmap.is_some() {
        bitmap(clusters, report, (repair, may_change), whole)?;
    }
    Ok(Some(postponed))
}

/// Compares the bitmap with the claimed clusters.
fn bitmap(
    clusters: &mut Clusters,
    report: &mut CheckReport,
    (repair, may_free): (bool, bool),
    whole: bool,
) -> Result<()> {
    let (free, taken) = clusters.differences()?;
    if let Some(first) = free.first {
        let message = format!("{} clusters in use are free in the bitmap, the first {first}", free.count);
        report.add(Finding {
            code: "bitmap-free",
            severity: Severity::Inconsistent,
            path: None,
            message,
            repaired: repair,
        });
        if repair {
            clusters.take_claimed();
        }
    }
    if let Some(lost) = taken.lost(may_free).filter(|_| whole) {
        report.add(lost);
        if may_free {
            clusters.free_unclaimed()?;
        }
    }
    Ok(())
}

/// Writes the changes of a round.
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
