//! How much memory a volume takes for the pages of its tables.

use crate::geometry::Geometry;
use platter_device::{host, sync};

/// The bytes that any volume may take, and the most.
const LEAST: u64 = 64 << 20;
const MOST: u64 = 512 << 20;
/// The table of a file with integrity that fills a volume takes about a hundredth of it: 32 bytes and their share of the
/// page for each cluster of 4 KiB. All of it should fit.
const SHARE_OF_VOLUME: u64 = 100;
/// Platter takes at most so much of the machine's memory, or of what the process's control group may use.
const SHARE_OF_MACHINE: u64 = 32;

/// The bytes of pages that are kept in memory for a volume: so much for those that did not change since the last
/// commit, and so much for those that did before the thread in the background commits.
pub(crate) fn for_pages(geometry: &Geometry) -> usize {
    of(geometry.clusters.saturating_mul(u64::from(geometry.cluster)), || match sync::is_virtual() {
        // In virtual time the figures must be the same on every machine.
        true => 0,
        false => host::memory().0.min(host::memory_limit().unwrap_or(u64::MAX)),
    })
}

/// As [`for_pages`], for `volume` bytes on a machine that has `machine` bytes of memory, or 0 if that is not known. A small
/// volume takes the least on any machine, so that the system is not asked at each opening.
fn of(volume: u64, machine: impl FnOnce() -> u64) -> usize {
    let wanted = volume / SHARE_OF_VOLUME;
    if wanted <= LEAST {
        return LEAST as usize;
    }
    let most = match machine() {
        0 => MOST,
        machine => (machine / SHARE_OF_MACHINE).clamp(LEAST, MOST),
    };
    wanted.min(most) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_volume_takes_more_up_to_a_share_of_the_machine() {
        let gib = |number: u64| number << 30;
        let mib = |volume, machine| of(volume, || machine) >> 20;
        assert_eq!(
            [1, 6, 10, 20, 50, 100, 6000].map(|volume| mib(gib(volume), gib(64))),
            [64, 64, 102, 204, 512, 512, 512]
        );
        assert_eq!(
            [0, 1, 2, 4, 8, 16, 64].map(|machine| mib(gib(6000), gib(machine))),
            [512, 64, 64, 128, 256, 512, 512]
        );
        assert_eq!(mib(u64::MAX, u64::MAX), 512);
    }
}
