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

use super::identity::{line, sys};
use crate::Device;
use std::path::Path;
use std::sync::Arc;

/// A checksum of what every program that changes a volume has to write, of the volumes on a device.
pub type MetadataSum = fn(&Arc<dyn Device>) -> u64;

/// The word for what is not known.
const UNKNOWN: &str = "-";

/// Which device of which start of the system a block device is, and how many sectors were written to it since.
pub fn written(number: u64) -> String {
    let start = line(Path::new("/proc/sys/kernel/random/boot_id"));
    let known = sys(number).and_then(|device| Some(format!("{}.{}", start?, count(&device)?)));
    known.unwrap_or_else(|| format!("{UNKNOWN} {UNKNOWN}"))
}

/// The sequence number of the disk that the kernel describes in this directory, and the sectors that were written and
/// discarded on the device; `None` if the kernel does not count them.
///
/// Facts: kernel documentation, `ABI/stable/sysfs-block` (`diskseq`, `queue/iostats`) and `block/stat.rst` (the seventh
/// number of `stat` is that of written sectors, the 14th that of discarded ones).
fn count(device: &Path) -> Option<String> {
    let is_part = device.join("partition").exists();
    let disk = if is_part { device.parent()? } else { device };
    if line(&disk.join("queue/iostats"))? != "1" {
        return None;
    }
    let sequence = line(&disk.join("diskseq"))?;
    let numbers = line(&device.join("stat"))?;
    let number = |at: usize| numbers.split_whitespace().nth(at).and_then(|word| word.parse::<u64>().ok());
    let (written, discarded) = (number(6)?, number(13).unwrap_or(0));
    // Some drivers count nothing.
    (written > 0).then(|| format!("{sequence} {written}+{discarded}"))
}

/// Whether a copy is as it was when it had the stamp `closed`, now that it has the stamp `now`.
pub fn is_same(closed: &str, now: &str) -> bool {
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
pub fn is_counted(closed: &str, now: &str) -> bool {
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
    use std::fs;

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

    #[test]
    fn the_kernel_counts_what_is_written() {
        let root = std::env::temp_dir().join(format!("platter-stamp-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        };
        write("diskseq", "725");
        write("queue/iostats", "1");
        write(
            "stat",
            " 1685269  90 110703360 956484 1016749 1068659 359900638 414362 0 1 2 0 0 64 0 2639 7271",
        );
        assert_eq!(count(&root).unwrap(), "725 359900638+64");
        write("sdx1/partition", "1");
        write("sdx1/stat", "1 2 3 4 5 6 7 8");
        assert_eq!(count(&root.join("sdx1")).unwrap(), "725 7+0");
        write("stat", "1 2 3 4 0 0 0 0");
        assert_eq!(count(&root), None);
        write("queue/iostats", "0");
        assert_eq!(count(&root.join("sdx1")), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
