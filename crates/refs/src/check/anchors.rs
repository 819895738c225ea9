//! The first structures: boot record, superblocks, checkpoints, each with its copies.

use super::noted::Repair;
use crate::anchor::{self, Anchor};
use crate::geometry::{Geometry, of_superblocks};
use crate::layout::{BootRecord, Checkpoint, PageHeader, Superblock, page};
use crate::restored;
use platter_device::Device;
use platter_vfs::{CheckReport, Error, Finding, Result, Severity};

/// The content of the first structures, through which all others are found.
pub(super) struct Anchors {
    /// The boot record.
    pub boot: BootRecord,
    /// The volume's sizes, version and kind of checksum.
    pub geometry: Geometry,
    /// The superblock.
    pub superblock: Superblock,
    /// The newest checkpoint.
    pub checkpoint: Checkpoint,
    /// Which of the two places of checkpoints the newest one is in: 0 or 1.
    pub slot: usize,
}

/// Reads the first structures, reports those that are damaged, and notes in `repair` how their copies put them right.
///
/// # Errors
/// If one of the structures has no usable copy.
pub(super) fn read(device: &dyn Device, report: &mut CheckReport, repair: &mut Repair) -> Result<Anchors> {
    let boot = boot_record(device, report, repair)?;
    let superblock = superblocks(device, &boot, report, repair)?;
    let geometry = Geometry::without_checkpoint(&boot, &superblock);
    let (checkpoint, slot) = checkpoints(device, &geometry, &superblock, report, repair)?;
    let geometry = geometry.at_checkpoint(&checkpoint);
    Ok(Anchors { boot, geometry, superblock, checkpoint, slot })
}

fn find(report: &mut CheckReport, code: &'static str, message: String) {
    add(report, code, Severity::Inconsistent, message);
}

fn add(report: &mut CheckReport, code: &'static str, severity: Severity, message: String) {
    report.add(Finding { code, severity, path: None, message, repaired: false });
}

/// Reads a structure. Reports the copies of a mirrored device that have it damaged while another has it whole, and notes
/// their repair.
fn structure<T>(
    device: &dyn Device,
    (code, severity): (&'static str, Severity),
    (at, length): (u64, usize),
    (report, repair): (&mut CheckReport, &mut Repair),
    parse: &dyn Fn(&[u8]) -> Result<T>,
    clock: &dyn Fn(&T) -> u64,
) -> (Option<Vec<u8>>, Result<T>) {
    let Anchor { bytes, found, damaged } = anchor::read(device, (at, length), parse, clock);
    for (copy, error) in damaged {
        damaged_copy((code, severity), (copy, at), &error, bytes.as_deref(), (report, repair));
    }
    (bytes, found)
}

/// Reports a copy of a mirrored device that has a structure damaged, and notes its repair.
fn damaged_copy(
    (code, severity): (&'static str, Severity),
    (copy, at): (usize, u64),
    error: &Error,
    good: Option<&[u8]>,
    (report, repair): (&mut CheckReport, &mut Repair),
) {
    let error = super::page::plain(error);
    let message = format!("{error}; this is copy {copy} of the device, and another is good");
    report.add(Finding { code, severity, path: None, message, repaired: false });
    good.into_iter().for_each(|good| repair.write_copy(copy, at, good.to_vec()));
}

fn sector_at(
    device: &dyn Device,
    code: &'static str,
    offset: u64,
    report: &mut CheckReport,
    repair: &mut Repair,
) -> Result<(BootRecord, Vec<u8>)> {
    let size = device.sectors().logical.max(BootRecord::SIZE as u32) as usize;
    let parse = |bytes: &[u8]| BootRecord::from_bytes(bytes.first_chunk().expect("a sector"), offset);
    let said = (code, Severity::Inconsistent);
    let (bytes, record) = structure(device, said, (offset, size), (report, repair), &parse, &|_| 0);
    let (record, bytes) = (record?, bytes.unwrap_or_default());
    // A volume must not end beyond the device. Nor may its sectors be smaller than the device's: the boot record's copy
    // could stand in the middle of a device sector.
    if record.sectors * u64::from(record.sector) > device.len() {
        let most = device.len() / u64::from(record.sector);
        return Err(Error::damaged(
            "sectors of the volume",
            offset + BootRecord::SECTORS.at() as u64,
            format!("at most {most}"),
            record.sectors,
        ));
    }
    if record.sector < device.sectors().logical {
        let reason =
            format!("it has {}-byte sectors, the device {}", record.sector, device.sectors().logical);
        return Err(Error::NotThisFormat { format: "ReFS", reason });
    }
    Ok((record, bytes))
}

fn boot_record(device: &dyn Device, report: &mut CheckReport, repair: &mut Repair) -> Result<BootRecord> {
    if device.len() < 64 << 12 {
        let reason = format!("the device has only {} bytes", device.len());
        return Err(Error::NotThisFormat { format: "ReFS", reason });
    }
    let error = match sector_at(device, "boot-record", 0, report, repair) {
        Ok((record, mut bytes)) => {
            let place = (record.sectors - 1) * u64::from(record.sector);
            if let Some(mended) = BootRecord::mended(&bytes) {
                let found = BootRecord::COVERED.of(&bytes);
                let message = format!(
                    "bytes that the boot record's checksum covers, at offset {:#x}: expected {:#x}, found {found:#x}",
                    BootRecord::COVERED.at(),
                    BootRecord::SIZE
                );
                find(report, "boot-record", message);
                repair.write(0, mended.clone());
                bytes = mended;
            }
            let wrong = match sector_at(device, "boot-copy", place, report, repair) {
                Ok((older, _)) if record.is_upgraded_from(&older) => {
                    let (old, new) = (older.version, record.version);
                    let message = format!(
                        "boot record's copy at offset {place}: of version {old}, from before the upgrade to {new}"
                    );
                    add(report, "boot-copy", Severity::Notice, message);
                    None
                }
                Ok((_, copy)) => {
                    let differ = bytes.iter().zip(&copy).position(|(one, other)| one != other);
                    differ
                        .map(|at| format!("boot record's copy at offset {place}: differs from byte {at} on"))
                }
                Err(error) => Some(super::page::plain(&error)),
            };
            if let Some(message) = wrong {
                find(report, "boot-copy", message);
                repair.write(place, bytes);
            }
            return Ok(record);
        }
        Err(error) => error,
    };
    let sector = u64::from(device.sectors().logical.max(BootRecord::SIZE as u32));
    for end in BootRecord::ends(device.len(), sector) {
        let read = |place| sector_at(device, "boot-copy", place, report, repair);
        let copy = end.checked_sub(sector).map(read);
        if let Some(Ok((record, bytes))) = copy {
            find(report, "boot-record", format!("{}; its copy is good", super::page::plain(&error)));
            repair.write(0, bytes);
            return Ok(record);
        }
    }
    Err(error)
}

fn superblocks(
    device: &dyn Device,
    boot: &BootRecord,
    report: &mut CheckReport,
    repair: &mut Repair,
) -> Result<Superblock> {
    let cluster = boot.cluster();
    let places = Superblock::places(boot.clusters());
    let mut copies = [None, None, None];
    let read: Vec<Result<(Superblock, Vec<u8>)>> = places
        .iter()
        .zip(&mut copies)
        .map(|(&place, copy)| {
            let at = place * u64::from(cluster);
            let parse = |bytes: &[u8]| Superblock::from_bytes(bytes, place, at);
            let said = ("superblock", Severity::Inconsistent);
            let place = (at, cluster as usize);
            let (bytes, found) =
                structure(device, said, place, (report, repair), &parse, &|found| found.generation);
            *copy = bytes;
            Ok((found?, copy.clone().unwrap_or_default()))
        })
        .collect();
    let good = read.iter().filter_map(|read| read.as_ref().ok());
    let whole = good.max_by_key(|(superblock, _)| superblock.generation).cloned();
    let found = whole.or_else(|| restored::superblock(&copies, places, of_superblocks(boot)));
    let Some((best, bytes)) = found else {
        return Err(read.into_iter().find_map(|read| read.err()).expect("none was good"));
    };
    for (place, read) in places.iter().zip(read) {
        let at = place * u64::from(cluster);
        let message = match read {
            Ok((found, bytes)) if found == best => {
                untidy(&bytes, *place, Superblock::SEAL, "superblock", (cluster, report, repair));
                continue;
            }
            Ok((found, _)) => {
                format!("superblock at offset {at}: expected {}, found {}", shown(&best), shown(&found))
            }
            Err(error) => super::page::plain(&error),
        };
        find(report, "superblock", message);
        repair.write(at, page::moved(&bytes, *place, Superblock::SEAL, cluster as usize));
    }
    Ok(best)
}

fn shown(superblock: &Superblock) -> String {
    let [first, second] = superblock.checkpoints;
    format!("generation {} with checkpoints at {first:#x} and {second:#x}", superblock.generation)
}

/// Reports a superblock or checkpoint whose reference to itself holds bytes besides place and checksum. Its own
/// checksum does not cover them, since it leaves out the whole reference.
fn untidy(
    bytes: &[u8],
    place: u64,
    fields: page::SealFields,
    name: &'static str,
    (cluster, report, repair): (u32, &mut CheckReport, &mut Repair),
) {
    let tidy = page::moved(bytes, place, fields, cluster as usize);
    if tidy != bytes {
        let at = place * u64::from(cluster);
        let message =
            format!("{name} at offset {at}: its reference to itself holds more than place and checksum");
        report.add(Finding { code: name, severity: Severity::Notice, path: None, message, repaired: false });
        repair.write(at, tidy);
    }
}

fn checkpoints(
    device: &dyn Device,
    geometry: &Geometry,
    superblock: &Superblock,
    report: &mut CheckReport,
    repair: &mut Repair,
) -> Result<(Checkpoint, usize)> {
    let places = superblock.checkpoints;
    let (mut good, mut bad, mut pages) = (Vec::new(), Vec::new(), [None, None]);
    let mut damaged_copies = Vec::new();
    for (slot, &place) in places.iter().enumerate() {
        let end = place.checked_add(u64::from(geometry.page_clusters()));
        let is_inside = end.is_some_and(|end| end <= geometry.clusters) && place > Superblock::CLUSTER;
        let read = if is_inside {
            let at = geometry.offset(place);
            let parse = |bytes: &[u8]| {
                Checkpoint::from_bytes(bytes, place, geometry.cluster as usize, geometry.signature, at)
            };
            let anchor = anchor::read(device, (at, geometry.page()), &parse, &|found| found.clock);
            damaged_copies.extend(anchor.damaged.into_iter().map(|(copy, error)| (slot, copy, error)));
            pages[slot] = anchor.bytes;
            anchor.found
        } else {
            let expected = format!("inside the volume's {:#x} clusters", geometry.clusters);
            Err(Error::damaged("place of a checkpoint", 0, expected, format!("{place:#x}")))
        };
        match (read, &pages[slot]) {
            (Ok(checkpoint), Some(bytes)) => {
                untidy(bytes, place, Checkpoint::SEAL, "checkpoint", (geometry.cluster, report, repair));
                good.push((checkpoint, slot, bytes.clone()));
            }
            (Err(error), _) => bad.push((slot, is_inside, error)),
            (Ok(_), None) => {}
        }
    }
    let is_other_whole = !good.is_empty();
    // What a power cut leaves is harmless beside a good one: the next commit writes over it.
    let severity = |slot: usize| {
        let is_torn = pages[slot].as_deref().is_some_and(|page: &[u8]| is_torn(page, places[slot], geometry));
        if is_other_whole && is_torn { Severity::Notice } else { Severity::Inconsistent }
    };
    let mut lost = Vec::new();
    for (slot, is_inside, error) in bad {
        let restored = restored::checkpoint_in(slot, geometry, places, &pages, is_other_whole);
        let Some((checkpoint, bytes)) = restored else {
            lost.push((slot, is_inside, error));
            continue;
        };
        let message = format!("{}; what it was is known for all that", super::page::plain(&error));
        add(report, "checkpoint", severity(slot), message);
        repair.write(geometry.offset(places[slot]), bytes.clone());
        good.push((checkpoint, slot, bytes));
    }
    good.sort_by_key(|(checkpoint, slot, _)| (std::cmp::Reverse(checkpoint.clock), *slot));
    let mut good = good.into_iter();
    let Some((newest, slot, bytes)) = good.next() else { return Err(lost.swap_remove(0).2) };
    for (damaged, copy, error) in damaged_copies {
        // A power cut can leave the older one half written, which is no damage.
        let severity = if damaged == slot { Severity::Inconsistent } else { Severity::Notice };
        let place = (copy, geometry.offset(places[damaged]));
        damaged_copy(("checkpoint", severity), place, &error, pages[damaged].as_deref(), (report, repair));
    }
    for (bad_slot, is_inside, error) in lost {
        let (severity, rest) = match is_other_whole {
            true => (severity(bad_slot), "the other checkpoint is good"),
            false => (Severity::DataLoss, "the other one is taken, and what was new in this one is lost"),
        };
        add(report, "checkpoint", severity, format!("{}; {rest}", super::page::plain(&error)));
        if is_inside {
            let place = places[bad_slot];
            let copy = copy_for(bad_slot, &newest, bytes.clone());
            repair.write(
                geometry.offset(place),
                page::moved(&copy, place, Checkpoint::SEAL, geometry.cluster as usize),
            );
        }
    }
    let older = good.next().map(|(older, ..)| older);
    compare_clocks(&newest, geometry.offset(places[slot]), older.as_ref(), report);
    Ok((newest, slot))
}

/// The bytes of the newest checkpoint for the place of one that is lost. The copy has the same roots. The checkpoint at
/// the first place gets the higher clock, since some readers look only there.
fn copy_for(slot: usize, newest: &Checkpoint, mut copy: Vec<u8>) -> Vec<u8> {
    let clock = if slot == 0 { newest.clock + 1 } else { newest.clock.saturating_sub(1) };
    PageHeader::CLOCK.put(&mut copy, clock);
    Checkpoint::CLOCK.put(&mut copy, clock);
    Checkpoint::ALLOCATOR_CLOCK.put(&mut copy, newest.allocator_clock.min(clock));
    copy
}

/// Compares the clocks of the newest checkpoint, which is at this offset, with each other and with the older one's.
fn compare_clocks(newest: &Checkpoint, offset: u64, older: Option<&Checkpoint>, report: &mut CheckReport) {
    if newest.allocator_clock > newest.clock {
        let at = offset + Checkpoint::ALLOCATOR_CLOCK.at() as u64;
        let (expected, found) = (newest.clock, newest.allocator_clock);
        let message =
            format!("clock of the allocators at offset {at}: expected at most {expected}, found {found}");
        find(report, "checkpoint-clock", message);
    }
    if let Some(older) = older
        && older.clock == newest.clock
        && older.roots != newest.roots
    {
        let message = format!("checkpoints: both have clock {} and different roots", newest.clock);
        find(report, "checkpoint-clock", message);
    }
}

/// Whether a checkpoint that is damaged can be one whose write a power cut ended: its first sector is that of a
/// checkpoint of this volume at this place, as it is before and after every write.
fn is_torn(page: &[u8], place: u64, geometry: &Geometry) -> bool {
    let header = PageHeader::from_bytes(page);
    (header.signature, header.volume) == (page::CHECKPOINT, geometry.signature) && header.clusters[0] == place
}
