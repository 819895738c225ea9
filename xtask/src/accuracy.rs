//! `cargo xtask accuracy`: compares the lab's engine with fio, on a loop device over memory and on a file on ext4 on
//! that device.

use crate::command::run as command;
use crate::{Outcome, tools};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Sets up the loop device and ext4, runs the lab's example `accuracy` on each, and removes both.
fn measure(rest: &[&str]) -> Outcome {
    let stand = Stand::set_up()?;
    let example = ["--release", "--quiet", "-p", "platterfs-lab", "--example", "accuracy"];
    command("cargo", &[&["build"], &example[..]].concat(), &[])?;
    // Processors sleep between I/Os, and programs run where the system puts them: as in a user's first comparison.
    let asleep = [&["run"], &example[..], &["--", &stand.device, "--asleep"], rest].concat();
    let asleep = command("cargo", &asleep, &[]);
    let last = std::thread::available_parallelism().map_or(0, |count| count.get() - 1);
    let _others = KernelWorkers::keep_off(last)?;
    let _awake = keep_awake()?;
    // Both programs run on one processor, and the loop device's threads on the others: which thread shares a
    // processor with which other makes more of a difference than the comparison allows.
    let last = last.to_string();
    let on = |path: &str| {
        let run = [&["--cpu-list", &last, "cargo", "run"], &example[..], &["--", path], rest].concat();
        command("taskset", &run, &[])
    };
    let raw = on(&stand.device);
    let file = stand.mount_ext4()?;
    raw.and(on(&file)).and(asleep)
}

/// Installs the tools that [`measure`] needs, and runs it.
pub(crate) fn run(rest: &[&str]) -> Outcome {
    tools::provide(tools::FOR_ACCURACY)?;
    if !tools::is_root() {
        return Err("a loop device and a mount need root".into());
    }
    measure(rest)
}

/// Runs the lab's example `trust`: one target under three names, or three targets of which one is slower. Needs
/// neither root nor fio.
pub(crate) fn trust(words: &[&str]) -> Outcome {
    let example = ["run", "--release", "--quiet", "-p", "platterfs-lab", "--example", "trust", "--"];
    command("cargo", &[&example[..], words].concat(), &[])
}

/// The file in which a program sets the longest wake-up latency of processors: see
/// `Documentation/power/pm_qos_interface.rst` of the kernel.
const LATENCY: &str = "/dev/cpu_dma_latency";

/// Keeps processors from sleeping between I/Os for as long as the returned file is open. A virtual processor takes
/// longer to wake up than a small I/O on memory takes, and that time varies: without this, fio's own figures for the
/// same job vary by a fifth from run to run.
fn keep_awake() -> Result<std::fs::File, String> {
    let failed = |error| format!("{LATENCY}: {error}");
    let mut file = std::fs::File::options().write(true).open(LATENCY).map_err(failed)?;
    // The longest wake-up latency, in microseconds.
    file.write_all(&0i32.to_ne_bytes()).map_err(failed)?;
    Ok(file)
}

/// The file with the processors that kernel threads without a processor of their own, such as those of loop devices,
/// may run on: a mask in hexadecimal.
const KERNEL_WORKERS: &str = "/sys/devices/virtual/workqueue/cpumask";

/// Keeps these kernel threads off a processor until it is dropped.
struct KernelWorkers {
    before: String,
}

impl KernelWorkers {
    /// Changes nothing on a machine with one processor, which leaves these threads no other.
    fn keep_off(processor: usize) -> Result<KernelWorkers, String> {
        let failed = |error| format!("{KERNEL_WORKERS}: {error}");
        let before = std::fs::read_to_string(KERNEL_WORKERS).map_err(failed)?.trim().to_string();
        // The file has commas between groups of 32 processors.
        let all = u128::from_str_radix(&before.replace(',', ""), 16)
            .map_err(|error| format!("{KERNEL_WORKERS}: {before:?}: {error}"))?;
        let others = all & !1_u128.checked_shl(processor as u32).unwrap_or(0);
        if others != 0 {
            let digits: Vec<char> = format!("{others:x}").chars().rev().collect();
            let groups: Vec<String> = digits.chunks(8).map(|group| group.iter().collect()).collect();
            let mask: String = groups.join(",").chars().rev().collect();
            std::fs::write(KERNEL_WORKERS, mask).map_err(failed)?;
        }
        Ok(KernelWorkers { before })
    }
}

impl Drop for KernelWorkers {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(KERNEL_WORKERS, &self.before) {
            eprintln!("xtask: {KERNEL_WORKERS}: {error}");
        }
    }
}

/// A loop device over an image in memory, removed when it is dropped.
struct Stand {
    image: PathBuf,
    device: String,
    mount: PathBuf,
}

/// The image's size in bytes: the span of the jobs, and space for ext4's own structures.
const SIZE: u64 = 1280 << 20;

impl Stand {
    fn set_up() -> Result<Stand, String> {
        let name = format!("platter-accuracy-{}", std::process::id());
        let image = PathBuf::from("/dev/shm").join(&name);
        let file = std::fs::File::create(&image).map_err(|error| format!("{}: {error}", image.display()))?;
        file.set_len(SIZE).map_err(|error| format!("{}: {error}", image.display()))?;
        let mut stand = Stand { image, device: String::new(), mount: std::env::temp_dir().join(name) };
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(&stand.image)
            .output()
            .map_err(|error| format!("losetup: {error}"))?;
        if !output.status.success() {
            return Err(format!("losetup: {}", String::from_utf8_lossy(&output.stderr)));
        }
        stand.device = String::from_utf8_lossy(&output.stdout).trim().to_string();
        Ok(stand)
    }

    /// Makes ext4 on the device and mounts it; returns the path of a large enough file there.
    fn mount_ext4(&self) -> Result<String, String> {
        let mount = self.mount.display().to_string();
        std::fs::create_dir_all(&self.mount).map_err(|error| format!("{mount}: {error}"))?;
        command("mkfs.ext4", &["-q", "-F", &self.device], &[])?;
        command("mount", &[&self.device, &mount], &[])?;
        let path = self.mount.join("file");
        let file = std::fs::File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        file.set_len(1 << 30).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path.display().to_string())
    }

    /// Unmounts; tries again for a while, because the mount is busy while a program of the system looks at new
    /// mounts.
    fn unmount(&self) -> Outcome {
        let mount = self.mount.display().to_string();
        let mut outcome = command("umount", &[&mount], &[]);
        for _ in 0..10 {
            if outcome.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_secs(1));
            outcome = command("umount", &[&mount], &[]);
        }
        outcome
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        let said = |outcome: Outcome| {
            if let Err(error) = outcome {
                eprintln!("xtask: {error}");
            }
        };
        if self.mount.exists() {
            said(self.unmount());
            said(
                std::fs::remove_dir(&self.mount)
                    .map_err(|error| format!("{}: {error}", self.mount.display())),
            );
        }
        if !self.device.is_empty() {
            said(command("losetup", &["--detach", &self.device], &[]));
        }
        said(std::fs::remove_file(&self.image).map_err(|error| format!("{}: {error}", self.image.display())));
    }
}
