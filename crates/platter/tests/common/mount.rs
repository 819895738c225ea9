//! Real mounts. Each needs root, `/dev/fuse` and fusermount3.

use super::Place;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub const FORMATS: [&str; 4] = ["fat32", "exfat", "ntfs", "refs"];
/// The same, and with checksums of data.
pub const KINDS: [&str; 5] = ["fat32", "exfat", "ntfs", "refs", "refs+integrity"];
/// Those that keep what POSIX knows of a file.
pub const WITH_OWNERS: [&str; 2] = ["ntfs", "refs"];

/// A volume at a directory, and a directory beside it.
pub struct Mount {
    pub place: Place,
}

impl Mount {
    /// A new volume, mounted.
    pub fn new(test: &str, format: &str) -> Mount {
        let place = Place::new(&format!("mount-{test}-{format}"));
        place.works(&format!("mkfs {format} disk.img --size 768M"));
        fs::create_dir(place.path("m")).unwrap();
        let mount = Mount { place };
        mount.mount("");
        mount
    }

    pub fn mount(&self, options: &str) {
        let line = format!("mount disk.img m {options}");
        self.place.works(line.trim());
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.place.path("m").join(name)
    }

    /// A line for the shell, which must succeed.
    pub fn shell(&self, line: &str) -> String {
        self.place.tool("sh", &["-ec", line])
    }

    /// Unmounts, and nothing may be wrong with the volume.
    pub fn end(&self) {
        // A program that another test starts has this one's open files for a moment, until it is executed.
        let began = Instant::now();
        loop {
            let output = self.place.platter("umount m");
            if output.status.success() {
                break;
            }
            let is_used = String::from_utf8_lossy(&output.stderr).contains("is used by");
            assert!(is_used && began.elapsed() < Duration::from_secs(10), "umount m: {output:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        let report = self.place.works("check disk.img");
        assert!(report.contains("no damage"), "{report}");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // After a failure, which the test has said.
        let _ = Command::new("umount").arg("-l").arg(self.at("")).stderr(Stdio::null()).status();
    }
}

/// The process that serves the mount at `at`.
fn server(at: &Path) -> u32 {
    let mut found = fs::read_dir("/proc").unwrap().flatten().filter_map(|process| {
        let arguments = fs::read(process.path().join("cmdline")).ok()?;
        let words: Vec<&[u8]> = arguments.split(|byte| *byte == 0).collect();
        let directory = fs::read(process.path().join("environ")).ok()?;
        let serves = words.contains(&b"--serve".as_slice());
        let here = format!("PWD_OF_TEST={}", at.display());
        let ours = directory.split(|byte| *byte == 0).any(|one| one == here.as_bytes());
        (serves && ours).then(|| process.file_name().to_string_lossy().parse().ok())?
    });
    found.next().expect("a process serves the mount")
}

/// Mounts so that [`server`] finds the process.
pub fn mount_known(mount: &Mount, options: &[&str]) -> u32 {
    let arguments = [&["mount", "disk.img", "m"], options].concat();
    let mut command = mount.place.command(env!("CARGO_BIN_EXE_platter"), &arguments);
    let output = command.env("PWD_OF_TEST", mount.at("")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    server(&mount.at(""))
}

pub fn kill(signal: &str, process: u32) {
    let status = Command::new("kill").args([signal, &process.to_string()]).status().unwrap();
    assert!(status.success());
}
