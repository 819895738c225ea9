//! Finding and repairing damage, from the content of the device alone.
//!
//! The check shares only [`crate::layout`] with the code that writes volumes. It works in rounds. Each round walks
//! the whole tree (see [`walk`]), reports findings, and notes repairs in memory; the repairs are then written in the
//! order that a commit has, so that a power cut during a repair makes nothing worse:
//!
//! 1. copies of shared clusters, into free clusters;
//! 2. FAT entries of clusters that are newly taken;
//! 3. FAT entries of chains that are truncated or linked differently;
//! 4. directory slots, first those of entries that lead to the same clusters as another;
//! 5. FAT entries of clusters that become free;
//! 6. when a round finds nothing more: the information sector, and the flags that mark the volume as clean.
//!
//! Memory: four bytes and a few bits for each cluster, one directory (2 MiB at most), and a name for each directory of
//! the volume. Nothing recurses.

mod boot;
mod contested;
mod listing;
mod lost;
mod mend;
mod names;
mod table;
mod walk;

use crate::layout::{BootSector, Geometry, Label, Link, ShortEntry};
use lost::Lost;
use platter_clusters::{Bits, Disk, Findings};
use platter_device::Device;
use platter_vfs::{CheckOptions, CheckReport, Error, Finding, Progress, Result, Severity, Silent};
use table::{Table, Write};
use walk::{Lead, Shared, Walk};

/// The most rounds of a repair. Each but the last removes at least one finding; real damage takes two or three.
const ROUNDS: u32 = 32;

/// Returns the geometry that the boot sector states, or its copy.
///
/// # Errors
/// The fault of the first boot sector, if no copy is usable.
pub(crate) fn find_boot(disk: &Disk) -> Result<Geometry> {
    Ok(boot::find(disk, &mut CheckReport::default(), false)?.geometry)
}

/// Checks a volume that is not open, and repairs it if asked to.
///
/// # Errors
/// [`Error::NotThisFormat`] or [`Error::Damaged`] if there is no usable boot sector; [`Error::Device`].
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
    if repair {
        // A volume that needs no repair is not written to: notices are what sound volumes of other systems have.
        let report = check(device, CheckOptions { repair: false }, progress)?;
        if report.exit_code() == 0 {
            return Ok(report);
        }
    }
    let mut disk = Disk::new(device);
    let mut report = CheckReport::default();
    disk.report_end(&mut report);
    let mut boot = boot::find(&disk, &mut report, repair)?;
    let damaged_boot = boot.sector.clone();
    boot::short_fat(&mut boot, &mut report, repair);
    let geometry = boot.geometry.clone();
    let mut table = choose_table(&mut disk, &geometry, &mut report, repair)?;
    boot::extended(&mut boot, &mut report, repair);
    boot::reserved_entries(&mut boot, &mut table, &mut report, repair);
    let dirty = boot::is_dirty(&boot, &table);
    if dirty {
        let message = "the volume was not cleanly unmounted, or I/O errors were met".to_owned();
        report.add(Finding {
            code: "dirty",
            severity: Severity::Inconsistent,
            path: None,
            message,
            repaired: repair,
        });
    }
    let mut label = None;
    for number in 1..=ROUNDS {
        let last = number == ROUNDS;
        let mut round = CheckReport::default();
        let done =
            analyse(&mut disk, &geometry, &mut table, &mut round, progress, (repair && !last, !dirty))?;
        label = done.label;
        let again = round.repaired > 0 || done.postponed;
        report.take_round(round, !again || last || !repair);
        if !again || !repair {
            break;
        }
        commit(&mut disk, &geometry, &table)?;
    }
    boot::info(&disk, &geometry, table.free(), &mut report, repair)?;
    check_label(&mut boot.sector, label, &mut report, repair);
    if repair && report.repaired > 0 {
        commit(&mut disk, &geometry, &table)?;
        boot::free_behind(&disk, &boot, &mut report)?;
        boot::make_clean(&mut boot, &mut table);
        table.write(&disk, &geometry, Write::Freed)?;
        if boot.sector != damaged_boot || dirty {
            boot::write(&disk, &boot)?;
        }
        disk.flush()?;
    }
    report.total_clusters = u64::from(geometry.clusters);
    Ok(report)
}

/// The result of a round: the label found, and whether changes were postponed to the next round.
struct Done {
    label: Option<[u8; 11]>,
    postponed: bool,
}

/// Runs one round: reports all findings and, if `repair`, changes the table and the slots in memory. `is_closed` says
/// whether the volume was cleanly unmounted.
fn analyse(
    disk: &mut Disk,
    geometry: &Geometry,
    table: &mut Table,
    report: &mut CheckReport,
    progress: &dyn Progress,
    (repair, is_closed): (bool, bool),
) -> Result<Done> {
    let findings = Findings { report, repair, postponed: false };
    let mut walk = Walk::new(disk, geometry, table, findings, progress, is_closed);
    walk.run()?;
    contested::resolve(&mut walk)?;
    let Walk { mut claimed, contested, shared, cuts, tails, label, findings, .. } = walk;
    let postponed = findings.postponed;
    report.used_clusters = claimed.count();
    let mut search = 2;
    for shared in shared {
        copy(disk, geometry, table, (&mut claimed, &mut search), report, shared)?;
    }
    for (cluster, value) in cuts {
        table.set(cluster, value);
    }
    for (first, free) in tails {
        let mut at = first;
        while geometry.has_cluster(at) && !claimed.get(at) && table.link(geometry, at) != Link::Bad {
            claimed.set(at);
            let link = table.link(geometry, at);
            if free {
                table.set(at, 0);
            }
            let Link::Next(next) = link else { break };
            at = next;
        }
    }
    // Clusters below a contested directory, or a directory that was not read in this round, are not lost.
    if contested.is_empty() && !postponed {
        Lost { disk, geometry, table, claimed: &mut claimed, report, repair }.recover()?;
    }
    Ok(Done { label, postponed })
}

/// Gives a file copies of the clusters that it shares with another. Where too few clusters are free, it stays as it is.
fn copy(
    disk: &mut Disk,
    geometry: &Geometry,
    table: &mut Table,
    (claimed, search): (&mut Bits, &mut u32),
    report: &mut CheckReport,
    shared: Shared,
) -> Result<()> {
    let mut sources = Vec::new();
    let mut next = shared.first;
    // The chain may contain a loop. `mark` is set to the current cluster at each power of two of steps; meeting it again
    // means a loop.
    let mut mark = 0;
    while (sources.len() as u64) < shared.count && next != mark {
        sources.push(next);
        if sources.len().is_power_of_two() {
            mark = next;
        }
        match table.link(geometry, next) {
            Link::Next(after) => next = after,
            _ => break,
        }
    }
    let begin = *search;
    let mut copies = Vec::new();
    while copies.len() < sources.len() {
        let free = (*search..=geometry.last_cluster()).find(|&new| table.get(new) == 0 && !claimed.get(new));
        let Some(new) = free else {
            *search = begin;
            shared.finding.report(report, Some(sources.len() as u64));
            return Ok(());
        };
        copies.push(new);
        *search = new + 1;
    }
    match shared.from {
        Lead::Cluster(before) => table.set(before, copies[0]),
        Lead::Entry(offset) => {
            let mut slot = [0; crate::layout::SLOT];
            disk.read_slots(offset, &mut slot)?;
            let mut entry = ShortEntry::from_bytes(&slot);
            entry.cluster = copies[0];
            disk.edit(offset, entry.to_bytes());
        }
    }
    let mut bytes = vec![0; geometry.cluster_size as usize];
    for (number, (&source, &new)) in sources.iter().zip(&copies).enumerate() {
        disk.read(geometry.cluster_offset(source), &mut bytes)?;
        disk.write(geometry.cluster_offset(new), &bytes)?;
        table.set(new, copies.get(number + 1).copied().unwrap_or(geometry.kind.end()));
        claimed.set(new);
    }
    shared.finding.report(report, None);
    Ok(())
}

/// Writes the changes of a round.
fn commit(disk: &mut Disk, geometry: &Geometry, table: &Table) -> Result<()> {
    disk.flush()?;
    table.write(disk, geometry, Write::Taken)?;
    table.write(disk, geometry, Write::Linked)?;
    disk.write_edits()?;
    disk.flush()?;
    table.write(disk, geometry, Write::Freed)
}

/// Reads the FAT. If its copies differ, takes the copy with which the volume has less damage, and from the others the
/// parts that reduce the damage further: the copies may be damaged in different places.
fn choose_table(
    disk: &mut Disk,
    geometry: &Geometry,
    report: &mut CheckReport,
    repair: bool,
) -> Result<Table> {
    let mut best = Table::read(disk, geometry, geometry.primary_fat())?;
    let mut others = Vec::new();
    for copy in geometry.written_fats() {
        if copy != best.copy && !best.equals(disk, geometry, copy)? {
            others.push(Table::read(disk, geometry, copy)?);
        }
    }
    if others.is_empty() {
        return Ok(best);
    }
    let named: Vec<_> = others.iter().map(|table| (table.copy + 1).to_string()).collect();
    let mut most = soundness(disk, geometry, &mut best)?;
    for other in &mut others {
        let sound = soundness(disk, geometry, other)?;
        if sound > most {
            std::mem::swap(&mut best, other);
            most = sound;
        }
    }
    let mut parts = 0;
    for other in &others {
        for _ in 0..PASSES {
            let taken = take_parts(disk, geometry, &mut best, other, &mut most)?;
            parts += taken;
            if taken == 0 {
                break;
            }
        }
    }
    let of_others = match parts {
        0 => String::new(),
        _ => format!(", with {parts} parts of another"),
    };
    report.add(Finding {
        code: "fats-differ",
        severity: Severity::Inconsistent,
        path: None,
        message: format!(
            "FAT {} differs from FAT 1; FAT {} fits best{of_others}",
            named.join(" and "),
            best.copy + 1
        ),
        repaired: repair,
    });
    Ok(best)
}

/// The most parts in which two copies of the FAT are compared. Each part takes a walk over the whole volume.
const MOST_PARTS: usize = 16;

/// How often the parts of another copy are tried. An entry of FAT12 that lies in two sectors may lead into a part that
/// is taken only after it: alone it seems to be worse, and is right once that part was taken.
const PASSES: usize = 3;

/// Takes from another copy of the FAT the parts with which the volume has less damage. Returns how many were taken.
fn take_parts(
    disk: &mut Disk,
    geometry: &Geometry,
    best: &mut Table,
    other: &Table,
    most: &mut Soundness,
) -> Result<usize> {
    let mut parts = 0;
    // A chain through several parts is whole only when all of these parts come from the other copy. So a part
    // that changes nothing is kept at first; it stays if a later part makes more chains whole, and is put back
    // otherwise.
    let mut open = Vec::new();
    for part in best.differences(other, geometry.kind, MOST_PARTS) {
        let kept = best.take(other, part.clone());
        let sound = soundness(disk, geometry, best)?;
        if sound > *most {
            (*most, parts) = (sound, parts + open.len() + 1);
            open.clear();
        } else if sound == *most {
            open.push((part, kept));
        } else {
            best.put(part, &kept);
        }
    }
    open.into_iter().rev().for_each(|(part, kept)| best.put(part, &kept));
    Ok(parts)
}

/// How well a FAT fits the volume, first by what it loses, then by what it leaves to repair: the greater value fits
/// better.
///
/// The first number is that of the files and directories reached, less the damaged ones, less the FAT entries that
/// lead to free, bad or invalid clusters. Counting damage alone would prefer a FAT that hides it, such as an empty one.
/// The second is 0, less what does not fit together, as a chain that is longer than its file. Chains that belong to no
/// file are not counted there: the copy that has them may have more.
type Soundness = (i64, i64);

fn soundness(disk: &mut Disk, geometry: &Geometry, table: &mut Table) -> Result<Soundness> {
    let mut report = CheckReport::default();
    analyse(disk, geometry, table, &mut report, &Silent, (false, false))?;
    let count = |severity: Severity| {
        let counted = |finding: &&Finding| finding.severity == severity && finding.code != lost::CODE;
        report.findings.iter().filter(counted).count() as i64
    };
    let nowhere = (2..=geometry.last_cluster()).filter(|&cluster| match table.link(geometry, cluster) {
        Link::Next(next) => matches!(table.link(geometry, next), Link::Free | Link::Bad),
        Link::Invalid(_) => true,
        _ => false,
    });
    let reached = (report.files + report.directories) as i64;
    Ok((reached - count(Severity::DataLoss) - nowhere.count() as i64, -count(Severity::Inconsistent)))
}

/// Makes the label in the boot sector equal to the label in the root directory, which takes precedence.
fn check_label(boot: &mut BootSector, label: Option<[u8; 11]>, report: &mut CheckReport, repair: bool) {
    let is_none = |label: [u8; 11]| label == BootSector::NO_NAME || Label(label).to_string().is_empty();
    let is_same = label.map_or_else(|| is_none(boot.label), |label| Label(label).is_same(&Label(boot.label)));
    if label.is_some() && !boot.is_extended() && boot.type_text.starts_with(b"FAT") {
        // Other programs take the label in the boot sector for missing, and the two for different.
        report.add(Finding {
            code: "boot-signature",
            severity: Severity::Notice,
            path: None,
            message:
                "the boot sector's extended signature says that label and type, which are there, are not"
                    .into(),
            repaired: repair,
        });
        boot.extended_signature = BootSector::EXTENDED;
    }
    if is_same || !boot.is_extended() {
        return;
    }
    let told =
        label.map_or("the volume has no label".into(), |label| format!("the label is \"{}\"", Label(label)));
    let label = label.unwrap_or(BootSector::NO_NAME);
    let message = format!("{told}, in the boot sector \"{}\"", Label(boot.label));
    // Windows changes only the label in the root directory, so many sound volumes have an old one in the boot sector.
    report.add(Finding {
        code: "label-differs",
        severity: Severity::Notice,
        path: None,
        message,
        repaired: repair,
    });
    boot.label = label;
}
