//! What the formats tell a mirror of its copies.

use crate::recognise;
use platter_device::{Device, MirrorJudge, PartitionTable, contents, select_partition};
use platter_vfs::{OpenOptions, ScrubOptions, Silent};
use std::sync::Arc;

/// Answers by the clocks and checksums of the volumes that copies hold.
pub struct Judge;

impl MirrorJudge for Judge {
    /// Damage is: nothing is recognised there, or it does not open, or its clock, which every commit moves on, stands
    /// where the good one's does. What holds something else is no damaged copy.
    fn is_damage(&self, copy: &Arc<dyn Device>, good: &Arc<dyn Device>) -> bool {
        match (clock(copy), clock(good)) {
            (Clock::Stands(found), Clock::Stands(expected)) => found == expected,
            (Clock::NoVolume, Clock::Stands(_)) => true,
            _ => false,
        }
    }

    fn is_sound(&self, copy: &Arc<dyn Device>) -> bool {
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        parts(copy.clone()).into_iter().all(|part| match recognise(&*part) {
            Ok(Some((format, _))) => {
                let info = format.open(part, options).and_then(|system| system.info());
                info.is_ok_and(|info| info.details.iter().all(|(name, _)| *name != "damage"))
            }
            // A partition may hold anything, a volume that is a device holds itself.
            Ok(None) => !part.is_empty() && part.len() < copy.len(),
            Err(_) => false,
        })
    }

    fn mend(&self, device: Arc<dyn Device>) {
        let options = ScrubOptions { checksums_only: true, ..ScrubOptions::default() };
        for part in parts(device) {
            if let Ok(Some((format, _))) = recognise(&*part) {
                // A format without checksums says so, and what cannot be opened has none to tell by.
                let _ = format.scrub(part, &options, &Silent);
            }
        }
    }
}

/// The partitions of a device, or the device itself if it has none.
fn parts(device: Arc<dyn Device>) -> Vec<Arc<dyn Device>> {
    let Ok(Some(table)) = PartitionTable::read(&*device) else { return vec![device] };
    let open = |number| Some(Arc::new(table.open(device.clone(), number).ok()?) as Arc<dyn Device>);
    table.partitions.iter().filter_map(|entry| open(entry.number)).collect()
}

/// The format whose volumes have a clock.
const WITH_CLOCK: &str = "refs";

/// What the clock of a volume says.
enum Clock {
    Stands(String),
    /// There is no volume, or it does not open.
    NoVolume,
    /// What is there has no clock, or no checksums to tell damage by.
    OfAnother,
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
        Ok(info) => {
            let clock = info.details.into_iter().find(|(name, _)| *name == "checkpoint");
            clock.map_or(Clock::OfAnother, |(_, clock)| Clock::Stands(clock))
        }
        Err(_) if format.name() == WITH_CLOCK => Clock::NoVolume,
        Err(_) => Clock::OfAnother,
    }
}
