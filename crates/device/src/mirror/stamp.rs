//! What shows whether anybody has written to a block device since a mirror closed it: its *stamp*.
//!
//! A block device has no time of its last change. Its stamp is a line of words:
//!
//! 1. `device` and the length in bytes;
//! 2. the CRC-32 of its first MiB, and that of its last;
//! 3. a checksum of what every writer of the volume has to change, whoever it is ([`MetadataSum`]);
//! 4. which device of which start of the system this is, and how much was written to it since then.
//!
//! The last two show every write, however small, but only until the device is taken out or the system starts anew. The
//! others hold on every machine. A word that one of two stamps lacks, or that is `-`, says nothing.

use crate::{Device, host};
use std::path::Path;
use std::sync::Arc;

/// A checksum of what every program that changes a volume has to write, of the volumes on a device.
pub type MetadataSum = fn(&Arc<dyn Device>) -> u64;

/// The word for what is not known.
const UNKNOWN: &str = "-";

/// Which device of which start of the system a block device is, and how many sectors were written to it since.
pub(super) fn written(path: &Path) -> String {
    host::written(path).unwrap_or_else(|| format!("{UNKNOWN} {UNKNOWN}"))
}

/// Whether a copy is as it was when it had the stamp `closed`, now that it has the stamp `now`.
pub(super) fn is_same(closed: &str, now: &str) -> bool {
    if !closed.starts_with("device ") {
        return closed == now;
    }
    let agrees = |at: usize| match (word(closed, at), word(now, at)) {
        (Some(one), Some(two)) => one == two,
        _ => true,
    };
    now.starts_with("device ") && (1..=CONTENT).all(agrees) && (!is_same_start(closed, now) || agrees(COUNT))
}

/// Whether the kernel shows that nothing was written to a copy since it had the stamp `closed`, so that it is the same
/// device, whatever name it has. Of an image file the time of its last change is trusted for that.
pub(super) fn is_counted(closed: &str, now: &str) -> bool {
    let is_counted = is_same_start(closed, now) && word(closed, COUNT).is_some();
    is_same(closed, now) && (is_counted || !closed.starts_with("device "))
}

/// The last word about the content, that of the start of the system and the device, and that of how much was written.
const CONTENT: usize = 4;
const START: usize = 5;
const COUNT: usize = 6;

/// A word of a stamp, if it is known.
fn word(stamp: &str, at: usize) -> Option<&str> {
    stamp.split(' ').nth(at).filter(|word| *word != UNKNOWN)
}

fn is_same_start(closed: &str, now: &str) -> bool {
    word(closed, START).is_some() && word(closed, START) == word(now, START)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_word_counts() {
        let closed = "device 4096 aa bb cc start.7 100+0";
        assert!(is_same(closed, closed));
        for other in [
            "device 8192 aa bb cc start.7 100+0",
            "device 4096 ab bb cc start.7 100+0",
            "device 4096 aa ba cc start.7 100+0",
            "device 4096 aa bb cd start.7 100+0",
            "device 4096 aa bb cc start.7 108+0",
            "device 4096 aa bb cc start.7 100+8",
            "file 4096 1.2",
            "",
        ] {
            assert!(!is_same(closed, other) && !is_same(other, closed), "{other}");
        }
        // After the next start the device has another number, and the counts begin anew.
        assert!(is_same(closed, "device 4096 aa bb cc start.8 16+0"));
        assert!(!is_same(closed, "device 4096 aa bb cd start.8 16+0"));
        assert!(is_same(closed, "device 4096 aa bb cc - -"));
        assert!(is_counted(closed, closed) && !is_counted(closed, "device 4096 aa bb cc start.8 16+0"));
        assert!(!is_counted("device 4096 aa bb cc - -", "device 4096 aa bb cc - -"));
        // Earlier versions noted less.
        assert!(is_same("device 4096 aa bb", closed) && !is_same("device 4096 aa bc", closed));
        assert!(is_same("file 1 2", "file 1 2") && !is_same("file 1 2", "file 1 3"));
    }
}
