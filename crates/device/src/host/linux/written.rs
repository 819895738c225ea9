//! How much was written to a block device since the system started.

use super::identity::{line, sys};
use std::path::Path;

/// Which device of which start of the system a block device is, and how many sectors were written to it since: two
/// words; `None` if the kernel does not show them.
pub(super) fn written(number: u64) -> Option<String> {
    let start = line(Path::new("/proc/sys/kernel/random/boot_id"))?;
    Some(format!("{start}.{}", count(&sys(number)?)?))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
