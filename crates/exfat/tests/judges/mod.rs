//! Other implementations that check Platter's volumes: exfatprogs, exfat-fuse, dissect.fat and the Linux kernel. A
//! test fails if one is missing.

use platter_testing::model::judge::{File, Programs, on_host, without_leap_day_in_2100};
use std::path::Path;

pub(crate) use platter_testing::model::ImageFile;
pub(crate) use platter_testing::model::judge::{Tree, Verdict};
use platter_testing::model::{Listed, listed_by_linux};

const PROGRAMS: Programs =
    Programs { from: "exfatprogs, exfat-fuse, or what the other judges need", environment: &[] };

/// Runs a tool that must succeed, and returns what it printed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    PROGRAMS.run(program, arguments)
}

/// Runs fsck.exfat on an image without changing it.
pub(crate) fn fsck(image: &ImageFile) -> Verdict {
    let (status, output) = PROGRAMS.ask("fsck.exfat", &["-n", "-v", image.path()]);
    // fsck.exfat exits with 0 for some faults that it reports and would repair.
    let quiet = !output.contains("ERROR") && !output.contains("corrupted") && !output.contains("Fix");
    Verdict { clean: status.code() == Some(0) && quiet, output }
}

/// An image mounted with exfat-fuse through a loop device, since exfat-fuse requires a block device.
pub(crate) struct Mount {
    device: String,
    path: String,
}

impl Mount {
    /// Mounts read-only: otherwise exfat-fuse would update access times, and lose valid data lengths.
    pub(crate) fn reading(image: &ImageFile) -> Mount {
        Mount::new(image, "ro")
    }

    /// Mounts for writing.
    pub(crate) fn writing(image: &ImageFile) -> Mount {
        Mount::new(image, "rw")
    }

    fn new(image: &ImageFile, how: &str) -> Mount {
        let device = run("losetup", &["-f", "--show", image.path()]).trim().to_owned();
        let path = format!("{}.mounted", image.path());
        std::fs::create_dir(&path).expect("a writable temporary directory");
        let mount = Mount { device, path };
        run("mount.exfat-fuse", &["-o", how, &mount.device, &mount.path]);
        mount
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn tree(&self) -> Tree {
        let mut tree = on_host(Path::new(&self.path));
        without_leap_day_in_2100(&mut tree);
        tree
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Programs that look at every mount may keep it busy for a moment.
        let is_ended = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            PROGRAMS.ask("umount", &[&self.path]).0.success()
        });
        PROGRAMS.ask("losetup", &["-d", &self.device]);
        drop(std::fs::remove_dir(&self.path));
        assert!(is_ended || std::thread::panicking(), "{} cannot be unmounted", self.path);
    }
}

/// Returns everything in an image, as dissect.fat reads it.
pub(crate) fn dissect(image: &ImageFile) -> Tree {
    let text =
        run("python3", &[concat!(env!("CARGO_MANIFEST_DIR"), "/tests/judges/dissect_tree.py"), image.path()]);
    text.lines()
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields[..] {
                ["d", path] => (path.to_owned(), None),
                ["f", size, modified, sum, path] => {
                    let (size, modified) = (size.parse().unwrap(), modified.parse().unwrap());
                    (path.to_owned(), Some(File { size, modified, sum: sum.to_owned() }))
                }
                _ => panic!("dissect_tree.py printed {line:?}"),
            }
        })
        .collect()
}

/// Returns everything in an image, as an emulated Linux reads it: sizes and checksums.
pub(crate) fn kernel(image: &ImageFile) -> Listed {
    let (listed, messages) = listed_by_linux("exfat", "ro,iocharset=utf8", image);
    assert!(!messages.contains("exFAT-fs (vda): error"), "{messages}");
    listed
}
