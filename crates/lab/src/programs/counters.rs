//! What reached a block device, as the kernel counts it.

use crate::document::Traffic;
use crate::host;
use std::path::{Path, PathBuf};

/// The kernel's sectors have 512 bytes, whatever those of the device have.
const SECTOR: u64 = 512;

/// The counters of one block device.
pub(super) struct Counters(PathBuf);

impl Counters {
    /// The counters of a block device, or of the one that holds a file or directory; `None` where the kernel counts nothing
    /// (a file system in memory, over a network, or of several devices).
    pub(super) fn of(path: &Path) -> Option<Counters> {
        host::statistics_of_block(path).map(Counters)
    }

    /// All transfers since the machine started.
    pub(super) fn now(&self) -> Option<Traffic> {
        parse(&std::fs::read_to_string(&self.0).ok()?)
    }
}

/// The text of a device's counters: Documentation/block/stat.rst of Linux. Kernels before 5.5 do not count flushes.
fn parse(text: &str) -> Option<Traffic> {
    let counts: Vec<u64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let count = |place: usize| counts.get(place).copied();
    Some(Traffic {
        reads: count(0)?,
        read_bytes: count(2)?.saturating_mul(SECTOR),
        writes: count(4)?,
        write_bytes: count(6)?.saturating_mul(SECTOR),
        discards: count(11).unwrap_or(0),
        flushes: count(15).unwrap_or(0),
        ..Traffic::default()
    })
}

/// The transfers between two readings of counters.
pub(super) fn between(before: &Traffic, after: &Traffic) -> Traffic {
    Traffic {
        reads: after.reads.saturating_sub(before.reads),
        writes: after.writes.saturating_sub(before.writes),
        read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
        write_bytes: after.write_bytes.saturating_sub(before.write_bytes),
        flushes: after.flushes.saturating_sub(before.flushes),
        discards: after.discards.saturating_sub(before.discards),
        ..Traffic::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_kernels_text() {
        let before = parse("     100        7     2000       30       40        5      600       70        0       80       90       3        0      400        1       12       13\n").unwrap();
        assert_eq!((before.reads, before.read_bytes, before.writes), (100, 2000 * 512, 40));
        assert_eq!((before.write_bytes, before.discards, before.flushes), (600 * 512, 3, 12));
        let after = parse("101 7 2008 30 42 5 616 70 0 80 90 3 0 400 1 14 13").unwrap();
        let seen = between(&before, &after);
        assert_eq!((seen.reads, seen.read_bytes, seen.writes, seen.write_bytes), (1, 4096, 2, 8192));
        assert_eq!((seen.flushes, seen.discards), (2, 0));
        // An older kernel, and what is no text of counters.
        assert_eq!(parse("1 2 3 4 5 6 7 8 9 10 11").unwrap().flushes, 0);
        assert!(parse("").is_none() && parse("1 2 3 4 5 6").is_none() && parse("a b").is_none());
    }
}
