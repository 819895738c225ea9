//! Judging the copies of a mirror by the volumes on them.

use crate::overheard::Overheard;
use crate::recognise;
use platter_device::{Device, MirrorJudge, PartitionTable, Soundness, contents, select_partition};
use platter_vfs::{
    CheckpointId, Cursor, Error, FileSystem, Kind, Node, OpenOptions, ScrubOptions, Severity, Silent,
    VolumeInfo,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// A judge of copies that goes by the clocks and checksums of the volumes on them.
pub struct Judge;

impl MirrorJudge for Judge {
    /// A copy is damaged if no volume is recognised on it, if its volume does not open, or if its clock, which every
    /// commit advances, is the same as that of the good copy. A copy that holds something else is not a damaged one.
    fn is_damage(&self, copy: &Arc<dyn Device>, good: &Arc<dyn Device>) -> bool {
        match (clock(copy), clock(good)) {
            (Clock::Stands(found), Clock::Stands(expected)) => found == expected,
            (Clock::NoVolume, Clock::Stands(_)) => true,
            _ => false,
        }
    }

    /// A device with partitions is as sound as the worst of them, and as new as all their clocks together.
    fn soundness(&self, copy: &Arc<dyn Device>) -> (Soundness, u64) {
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        let of_part = |part: Arc<dyn Device>| match recognise(&*part) {
            Ok(Some((format, _))) => match format.open(part, options).and_then(|system| system.info()) {
                Ok(info) if !info.damage.is_empty() => (Soundness::Damaged, clock_of(&info)),
                Ok(info) => (Soundness::Sound, clock_of(&info)),
                Err(_) => (Soundness::Unopened, 0),
            },
            // A partition may hold anything, but a device without partitions must hold a volume.
            Ok(None) if !part.is_empty() && part.len() < copy.len() => (Soundness::Sound, 0),
            Ok(None) | Err(_) => (Soundness::NoVolume, 0),
        };
        let all = parts(copy.clone()).into_iter().map(of_part);
        all.reduce(|one, other| (one.0.min(other.0), one.1.saturating_add(other.1)))
            .unwrap_or((Soundness::Sound, 0))
    }

    fn mend(&self, device: Arc<dyn Device>) -> Vec<String> {
        let options = ScrubOptions { checksums_only: true, ..ScrubOptions::default() };
        let mut damage = Vec::new();
        for part in parts(device) {
            let Ok(Some((format, _))) = recognise(&*part) else { continue };
            match format.scrub(part, &options, &Silent) {
                Ok(report) => {
                    let left = report.damaged.into_iter().map(|one| one.finding);
                    let left = left.filter(|one| !one.repaired && one.severity > Severity::Notice);
                    damage.extend(left.map(|finding| finding.to_string()));
                }
                // A format without checksums cannot be scrubbed.
                Err(Error::Unsupported { .. }) => {}
                Err(error) => damage.push(error.to_string()),
            }
        }
        damage
    }
}

/// Returns the partitions of a device, or the device itself if it has none.
fn parts(device: Arc<dyn Device>) -> Vec<Arc<dyn Device>> {
    let Ok(Some(table)) = PartitionTable::read(&*device) else { return vec![device] };
    let open = |number| Some(Arc::new(table.open(device.clone(), number).ok()?) as Arc<dyn Device>);
    table.partitions.iter().filter_map(|entry| open(entry.number)).collect()
}

/// The most directories of which [`metadata_sum`] reads what they hold.
const MOST_DIRECTORIES: usize = 16_384;

/// Returns a checksum of what every program that changes a file has to write, of all volumes on a device: what is read
/// to open them, and, where no log or clock shows every change, their directories, which hold the sizes and times of the
/// files. This covers the boot region and its flags, FAT and bitmap, the root directory, the restart area of a log,
/// superblocks and checkpoints.
///
/// Of a volume with more than 16,384 directories the first that are found count.
pub fn metadata_sum(device: &Arc<dyn Device>) -> u64 {
    let of_part = |part: Arc<dyn Device>| {
        let overheard = Arc::new(Overheard::new(part));
        read_metadata(overheard.clone());
        overheard.sum()
    };
    // The order of the parts counts too.
    parts(device.clone()).into_iter().fold(0, |sum: u64, part| sum.rotate_left(1) ^ of_part(part))
}

/// Reads everything of a volume that shows whether it was changed. What cannot be read shows nothing.
fn read_metadata(part: Arc<dyn Device>) {
    let Ok(Some((format, _))) = recognise(&*part) else { return };
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let Ok(system) = format.open(part, options) else { return };
    let (_, _) = (system.info(), system.space());
    // The clock of a checkpoint goes on with every change, also with one of a file's content.
    if !crate::has_checksums(format) {
        read_directories(&*system);
    }
}

fn read_directories(system: &dyn FileSystem) {
    const AT_A_TIME: usize = 1024;
    let mut waiting = VecDeque::from([Node::ROOT]);
    let mut seen = 1;
    while let Some(directory) = waiting.pop_front() {
        let (mut cursor, mut entries) = (Cursor::START, Vec::new());
        while system.read_directory(directory, cursor, AT_A_TIME, &mut entries).is_ok() {
            let Some(last) = entries.last() else { break };
            cursor = last.next;
            for entry in entries.drain(..) {
                if entry.attributes.kind == Kind::Directory
                    && seen < MOST_DIRECTORIES
                    && let Ok(node) = system.lookup_exact(directory, &entry.name)
                {
                    seen += 1;
                    waiting.push_back(node);
                }
            }
        }
        if directory != Node::ROOT {
            system.forget(directory, 1);
        }
    }
}

/// The format whose volumes have a clock, and checksums.
pub(crate) const WITH_CLOCK: &str = "refs";

/// The clock of the volume on a device.
enum Clock {
    Stands(CheckpointId),
    /// There is no volume, or the volume does not open.
    NoVolume,
    /// The device holds something without a clock, or without checksums that show damage.
    OfAnother,
}

/// The clock of a volume, 0 if it has none.
fn clock_of(info: &VolumeInfo) -> u64 {
    info.checkpoint.map_or(0, |checkpoint| checkpoint.clock)
}

fn clock(device: &Arc<dyn Device>) -> Clock {
    let known = |device: &dyn Device| matches!(recognise(device), Ok(Some(_)));
    let Ok(part) = select_partition(device.clone(), None, &known) else { return Clock::NoVolume };
    let Ok(Some((format, _))) = recognise(&*part) else {
        return match contents(&*part) {
            Ok(Some(_)) => Clock::OfAnother,
            _ => Clock::NoVolume,
        };
    };
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    match format.open(part, options).and_then(|system| system.info()) {
        Ok(info) => info.checkpoint.map_or(Clock::OfAnother, Clock::Stands),
        Err(_) if crate::has_checksums(format) => Clock::NoVolume,
        Err(_) => Clock::OfAnother,
    }
}
