//! The format's log: its place, its two control blocks, and whether it holds changes.

use super::Check;
use super::page::plain;
use crate::layout::system::{self, LOG_BLOCK, LogArea, LogControl};
use crate::live_log;
use platter_vfs::Severity;

/// The place of the log, if it is inside the volume.
pub(super) fn sound(check: &Check<'_>, area: Option<LogArea>) -> Option<LogArea> {
    let clusters = check.geometry.clusters;
    area.filter(|area| {
        let is_inside = area.data.start < area.data.end && area.data.end <= clusters;
        is_inside && area.control.iter().all(|&at| at < clusters)
    })
}

/// Checks the log, whose place is in the table of both objects that name it.
pub(super) fn walk(check: &mut Check<'_>, area: Option<LogArea>) {
    let Some(area) = sound(check, area) else {
        let message = "logfile information: expected a range of clusters inside the volume, found none";
        check.find("log-area", Severity::Inconsistent, None, message.into());
        check.is_log_lost = true;
        return;
    };
    live(check, &area);
    controls(check, &area);
    claim(check, &area);
}

fn claim(check: &mut Check<'_>, area: &LogArea) {
    check.claim_fixed("log", area.data.start, area.data.end - area.data.start);
    for control in area.control.into_iter().filter(|&control| control >= super::FIRST_CLUSTERS) {
        check.claim_fixed("log's control page", control, 1);
    }
}

/// Finds a place for the log if nothing says where it is: where a new volume has it, if no file has clusters there by
/// now. Called when everything else has been walked.
pub(super) fn find_place(check: &mut Check<'_>) {
    if !check.is_log_lost {
        return;
    }
    let area = crate::format::log_place(&check.geometry);
    let data = area.data.clone();
    let is_free = sound(check, Some(area.clone())).is_some()
        && check.used.taken(data.start, data.end - data.start) == 0;
    if !is_free {
        // The log is somewhere, and what is there must be kept.
        check.is_incomplete = true;
        check.is_content_lost = true;
        return;
    }
    live(check, &area);
    controls(check, &area);
    claim(check, &area);
    check.repair.remake([0x09, 0x0A], 0xE090, area.rows());
}

/// Reports a log with changes that the checkpoint does not contain.
fn live(check: &mut Check<'_>, area: &LogArea) {
    let oldest = check.anchors.checkpoint.log;
    let message = match live_log::read(check.device, area, live_log::Owner::of(&check.geometry, oldest)) {
        Ok(None) => return,
        Ok(Some(live)) => format!(
            "log at offset {}: {} are not in the checkpoint; Windows carries them out when it mounts the volume, and \
             nothing can be repaired before",
            check.geometry.offset(area.data.start),
            live.describe(check.geometry.version)
        ),
        Err(error) => format!("{}; what the log holds is not known, and nothing is repaired", plain(&error)),
    };
    check.find("log-live", Severity::Inconsistent, None, message);
    check.is_log_live = true;
}

/// Checks the two control blocks, which Windows verifies before it uses the log, and notes how a wrong one is written
/// anew: from its own fields if only its checksum is that of an earlier version of Platter, else from the other one, or
/// from what the volume says of its log.
fn controls(check: &mut Check<'_>, area: &LogArea) {
    let wanted = LogControl {
        volume: check.geometry.signature,
        log: check.anchors.superblock.guid,
        sequence: 1,
        blocks: area.blocks(check.geometry.cluster),
        oldest: check.anchors.checkpoint.log,
        next: check.anchors.checkpoint.log as u32,
    };
    let read = area.control.map(|cluster| {
        let at = check.geometry.offset(cluster);
        let mut block = vec![0; LOG_BLOCK];
        match check.device.read_at(at, &mut block) {
            Ok(()) => (at, judge(&block, &wanted, area), block),
            Err(error) => (at, Err(Wrong { what: plain(&error.into()), mended: None }), Vec::new()),
        }
    });
    let good: Vec<&Vec<u8>> =
        read.iter().filter_map(|(_, judged, block)| judged.is_ok().then_some(block)).collect();
    let mended = read.iter().filter_map(|(_, judged, _)| judged.as_ref().err()?.mended.as_ref());
    let source = good.iter().copied().chain(mended).next().cloned().unwrap_or_else(|| wanted.to_bytes());
    let mut writes = Vec::new();
    for (index, (at, judged, _)) in read.iter().enumerate() {
        let Err(Wrong { what, mended }) = judged else { continue };
        let message = format!("log's control block at offset {at}: {what}");
        // Of the two, the one that is written anew becomes the older.
        let sequence = |block: &[u8]| LogControl::from_bytes(block).map_or(1, |control| control.sequence);
        let anew = || system::renumbered_control(&source, sequence(&source).saturating_sub(1));
        let made =
            || if good.is_empty() { system::renumbered_control(&source, 1 + index as u64) } else { anew() };
        writes.push((*at, mended.clone().unwrap_or_else(made)));
        check.find("log-control", Severity::Inconsistent, None, message);
    }
    let identifiers: Vec<_> =
        good.iter().filter_map(|block| LogControl::from_bytes(block)).map(|one| one.log).collect();
    if let [one, other] = identifiers[..]
        && one != other
    {
        let message = "log's control blocks: expected the same identifier in both, found two".to_string();
        check.find("log-control", Severity::Inconsistent, None, message);
        let newest = good.iter().max_by_key(|block| LogControl::from_bytes(block).map(|one| one.sequence));
        let newest = newest.expect("there are two").to_vec();
        for (at, _, block) in &read {
            if *block != newest {
                let sequence =
                    LogControl::from_bytes(&newest).map_or(1, |one| one.sequence.saturating_sub(1));
                writes.push((*at, system::renumbered_control(&newest, sequence)));
            }
        }
    }
    writes.into_iter().for_each(|(at, bytes)| check.repair.write(at, bytes));
}

/// What is wrong with a control block, and the block as it should be if its own fields are known.
struct Wrong {
    what: String,
    mended: Option<Vec<u8>>,
}

/// Compares a control block with what the volume says of its log.
fn judge(block: &[u8], wanted: &LogControl, area: &LogArea) -> Result<(), Wrong> {
    let wrong = |what: String| Wrong { what, mended: None };
    let (Some(checksum), Some(control)) = (system::log_checksum(block), LogControl::from_bytes(block)) else {
        return Err(wrong("expected a control block, found none".into()));
    };
    if !checksum.is_right() && !checksum.is_former() {
        let (expected, found) = (checksum.expected, checksum.stored);
        return Err(wrong(format!("checksum: expected {expected:#x}, found {found:#x}")));
    }
    if control.volume != wanted.volume {
        let (expected, found) = (wanted.volume, control.volume);
        return Err(wrong(format!("volume signature: expected {expected:#x}, found {found:#x}")));
    }
    // Earlier versions of Platter stored the area in clusters.
    if control.blocks != wanted.blocks && !(checksum.is_former() && control.blocks == area.data) {
        let (expected, found) = (&wanted.blocks, &control.blocks);
        return Err(wrong(format!("blocks of the log: expected {expected:#x?}, found {found:#x?}")));
    }
    if u64::from(control.next) > wanted.blocks.end - wanted.blocks.start {
        let most = wanted.blocks.end - wanted.blocks.start;
        return Err(wrong(format!("next block: expected at most {most:#x}, found {:#x}", control.next)));
    }
    if checksum.is_right() {
        let Some((what, mended)) = system::control_form(block) else { return Ok(()) };
        return Err(Wrong { what, mended: Some(mended) });
    }
    let mended = LogControl { blocks: wanted.blocks.clone(), ..control }.to_bytes();
    let (expected, found) = (checksum.expected, checksum.stored);
    let what = format!(
        "checksum: expected {expected:#x}, found {found:#x}, which an earlier version of Platter wrote"
    );
    Err(Wrong { what, mended: Some(mended) })
}
