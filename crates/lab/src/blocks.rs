//! Regions of a device as block devices of the kernel, for file systems that the kernel mounts.
//!
//! A region is a partition that only the kernel keeps (`BLKPG`, through addpart(8)): no partition table is written, and
//! the I/O has no extra layer to pass. Where the kernel cannot add partitions (an image, a partition, a loop device
//! that was set up without them) a loop device is put over the path first.
//!
//! A child process (the guardian) unmounts and detaches everything when this process ends, also by a crash: it waits
//! until its standard input, a pipe from this process, is closed.

use crate::{Error, Result, host};
use platter_device::{Caching, FileDevice, FileOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The guardian's shell script: when its standard input is closed, it unmounts what is mounted below a directory and
/// removes the partitions and the loop device. It ignores signals that the terminal sends to all processes.
const GUARDIAN: &str = r#"
trap '' INT TERM HUP
parts=
while read -r part; do parts="$parts $part"; done
for at in "$1"/*/; do
    [ -d "$at" ] || continue
    while mountpoint -q "$at"; do umount "$at" 2>/dev/null || umount -l "$at" || break; done
    rmdir "$at"
done
rmdir "$1"
for part in $parts; do
    tries=0
    until delpart "$2" "$part" 2>/dev/null || [ "$tries" -eq 50 ]; do tries=$((tries + 1)); sleep 0.1; done
done
[ -z "$3" ] || losetup --detach "$3"
"#;

/// A block device of the kernel, and the partitions that are made on it as regions.
pub(crate) struct Blocks {
    guardian: Child,
    /// The directory below which regions are mounted, each in a subdirectory of its own.
    pub directory: PathBuf,
    /// The block device that the regions are parts of.
    pub whole: PathBuf,
    parts: u32,
    /// Keeps other programs from opening the image while it is used.
    _held: Option<FileDevice>,
}

impl Blocks {
    /// Opens a block device, or an image that the caller already holds as `held`.
    pub(crate) fn open(path: &Path, held: Option<FileDevice>, caching: Caching) -> Result<Blocks> {
        if !host::is_root() {
            return Err(Error::Job("file systems that the kernel mounts need root".into()));
        }
        let path = &std::fs::canonicalize(path).map_err(|source| failed(path, source))?;
        let taken = if can_be_parted(path) { None } else { Some(attach(path, caching)?) };
        let whole = taken.clone().unwrap_or_else(|| path.clone());
        let made = new_directory().and_then(|directory| {
            let mut guardian = Command::new("sh");
            guardian.args(["-c", GUARDIAN, "sh"]).arg(&directory).arg(&whole);
            guardian.arg(taken.as_deref().unwrap_or(Path::new("")));
            guardian.stdin(Stdio::piped()).stdout(Stdio::null());
            host::own_group(&mut guardian);
            Ok((guardian.spawn().map_err(|source| failed(Path::new("sh"), source))?, directory))
        });
        match made {
            Ok((guardian, directory)) => Ok(Blocks { guardian, directory, whole, parts: 0, _held: held }),
            Err(error) => {
                if let Some(device) = taken {
                    call("losetup", "mount", &["--detach".as_ref(), device.as_ref()])?;
                }
                Err(error)
            }
        }
    }

    /// Makes a region a block device of its own and returns the path of that device.
    pub(crate) fn part(&mut self, start: u64, length: u64) -> Result<PathBuf> {
        let number = self.parts + 1;
        let whole = self.whole.display().to_string();
        let arguments =
            [&whole, &number.to_string(), &(start / 512).to_string(), &(length / 512).to_string()];
        call("addpart", "util-linux", &arguments.map(AsRef::as_ref))?;
        self.parts = number;
        if let Some(pipe) = &mut self.guardian.stdin {
            writeln!(pipe, "{number}")
                .map_err(|source| failed(Path::new("the process that cleans up"), source))?;
        }
        // The kernel puts a "p" before the partition number where the device's name ends in a digit:
        // Documentation/admin-guide/devices.txt.
        let between = if whole.ends_with(|last: char| last.is_ascii_digit()) { "p" } else { "" };
        let path = PathBuf::from(format!("{whole}{between}{number}"));
        match wait_for(Duration::from_secs(5), || path.exists()) {
            true => Ok(path),
            false => {
                Err(Error::Job(format!("{}: the kernel's new partition has no node in /dev", path.display())))
            }
        }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        drop(self.guardian.stdin.take());
        // The guardian's exit status is of no use here; it reports what it could not undo on standard error.
        let _ = self.guardian.wait();
    }
}

pub(crate) fn failed(what: &Path, source: std::io::Error) -> Error {
    Error::Io { what: what.display().to_string(), source }
}

/// Waits until `is_so` returns true, for at most `most`; returns whether it did.
pub(crate) fn wait_for(most: Duration, is_so: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if start.elapsed() > most {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs an external program and returns what it printed; `package` is the Debian package that contains the program.
pub(crate) fn call(program: &str, package: &str, arguments: &[&std::ffi::OsStr]) -> Result<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = match output {
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(missing(program, package)),
        output => output.map_err(|source| failed(Path::new(program), source))?,
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    // The first line of the error output names the problem; programs that print their help do so after it.
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it says nothing");
    Err(Error::Job(format!("{program} failed ({}): {line}", output.status)))
}

/// Returns the error for a program that is not installed.
pub(crate) fn missing(program: &str, package: &str) -> Error {
    Error::Job(format!("{program} is not there; it is in Debian's package {package}"))
}

/// Whether the kernel accepts partitions on a block device, which is so if it reserves more than one minor number for
/// the device.
///
/// Facts: `ext_range` in Documentation/ABI/stable/sysfs-block; a partition has no such file, and for a loop device
/// without partitions it is 1.
fn can_be_parted(path: &Path) -> bool {
    if !cfg!(target_os = "linux") {
        return false;
    }
    let Some(name) = path.strip_prefix("/dev").ok().and_then(Path::to_str) else { return false };
    let range = std::fs::read_to_string(format!("/sys/class/block/{name}/ext_range"));
    range.is_ok_and(|range| range.trim().parse::<u32>().is_ok_and(|range| range > 1))
}

/// Sets up a loop device that accepts partitions over an image or a block device, and returns its path.
fn attach(path: &Path, caching: Caching) -> Result<PathBuf> {
    let with = |direct: &str| {
        let arguments: [&std::ffi::OsStr; 5] =
            ["--find".as_ref(), "--show".as_ref(), "--partscan".as_ref(), direct.as_ref(), path.as_ref()];
        call("losetup", "mount", &arguments)
    };
    let attached = match caching {
        Caching::Buffered => with("--direct-io=off"),
        // Where the file system that holds the image has no direct I/O, the loop device goes through the page cache.
        _ => with("--direct-io=on").or_else(|_| with("--direct-io=off")),
    };
    attached.map(PathBuf::from)
}

/// Makes a directory that only this user can enter, below the directory for temporary files.
fn new_directory() -> Result<PathBuf> {
    let all = std::env::temp_dir();
    let name = |number: u32| all.join(format!("platter-mounts-{}-{number}", std::process::id()));
    for path in (0..1000).map(name) {
        match host::make_private_directory(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path.clone()).map_err(|source| failed(&path, source)),
        }
    }
    Err(Error::Job(format!("{} has a thousand directories of earlier mounts", all.display())))
}

/// Whether nothing uses a block device any more (no mount, no exclusive opener), tested by opening it exclusively.
pub(crate) fn is_free(path: &Path) -> bool {
    let options = FileOptions { read_only: true, exclusive: true, ..FileOptions::default() };
    FileDevice::open(path, options).is_ok()
}
