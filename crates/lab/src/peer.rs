//! Mounted file systems as targets: those of other projects, made with their own programs and mounted by this machine,
//! and those of Platter, through `platter mount`.

use crate::blocks::{call, failed, is_free, missing, wait_for};
use crate::host;
use crate::stand::typed;
use crate::{Error, Result};
use platter_device::Device;
use platter_vfs::{Format, FormatOptions, Silent};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A file system that is mounted to be measured.
#[derive(Clone)]
pub enum Peer {
    /// A file system of another project.
    Other(&'static Other),
    /// `mount:FORMAT`: a format of Platter, through its own mount.
    Ours {
        /// The format.
        format: &'static dyn Format,
        /// Cluster size in bytes; the format's choice if `None`.
        cluster: Option<u64>,
        /// The program whose subcommand `mount` mounts it.
        program: PathBuf,
    },
}

/// A file system of another project.
pub struct Other {
    name: &'static str,
    /// The program that makes the file system, its options, and the Debian package that contains it.
    make: (&'static str, &'static [&'static str], &'static str),
    driver: Driver,
    /// The size in bytes of the largest file that the file system can hold.
    largest_file: u64,
}

/// The code that serves a mounted file system.
enum Driver {
    /// The kernel, with the name of its driver and the mount options.
    Kernel(&'static str, &'static str),
    /// A FUSE program, and the Debian package that contains it.
    Fuse(&'static str, &'static str),
}

/// For all of them, blocks are not discarded when the file system is made or used, and no part of making it is put off
/// until after the mount (as ext4's lazy initialisation would be): otherwise work in the background, of the file system
/// or of the storage below, would be measured too.
static OTHERS: [Other; 8] = [
    Other {
        name: "ext4",
        make: (
            "mkfs.ext4",
            &["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
            "e2fsprogs",
        ),
        driver: Driver::Kernel("ext4", ""),
        largest_file: u64::MAX,
    },
    Other {
        name: "xfs",
        make: ("mkfs.xfs", &["-q", "-f", "-K"], "xfsprogs"),
        driver: Driver::Kernel("xfs", ""),
        largest_file: u64::MAX,
    },
    Other {
        name: "btrfs",
        make: ("mkfs.btrfs", &["-q", "-f", "-K"], "btrfs-progs"),
        driver: Driver::Kernel("btrfs", "nodiscard"),
        largest_file: u64::MAX,
    },
    Other {
        name: "ntfs-3g",
        make: MAKE_NTFS,
        driver: Driver::Fuse("ntfs-3g", "ntfs-3g"),
        largest_file: u64::MAX,
    },
    Other { name: "ntfs3", make: MAKE_NTFS, driver: Driver::Kernel("ntfs3", ""), largest_file: u64::MAX },
    Other {
        name: "exfat-fuse",
        make: MAKE_EXFAT,
        driver: Driver::Fuse("mount.exfat-fuse", "exfat-fuse"),
        largest_file: u64::MAX,
    },
    Other {
        name: "exfat-kernel",
        make: MAKE_EXFAT,
        driver: Driver::Kernel("exfat", ""),
        largest_file: u64::MAX,
    },
    Other {
        name: "vfat-kernel",
        make: ("mkfs.fat", &["-F", "32", "-I"], "dosfstools"),
        driver: Driver::Kernel("vfat", ""),
        largest_file: u32::MAX as u64,
    },
];

const MAKE_NTFS: (&str, &[&str], &str) = ("mkntfs", &["-q", "-Q", "-F"], "ntfs-3g");
const MAKE_EXFAT: (&str, &[&str], &str) = ("mkfs.exfat", &[], "exfatprogs");

impl Peer {
    /// The names of all file systems of other projects that a comparison can use.
    pub fn names() -> impl Iterator<Item = &'static str> {
        OTHERS.iter().map(|other| other.name)
    }

    /// The file system of another project with this name.
    pub fn other(name: &str) -> Option<Peer> {
        OTHERS.iter().find(|other| other.name == name).map(Peer::Other)
    }

    /// The target's name, as on the command line.
    pub fn name(&self) -> String {
        match self {
            Peer::Other(other) => other.name.into(),
            Peer::Ours { format, cluster: None, .. } => format!("mount:{}", format.name()),
            Peer::Ours { format, cluster: Some(bytes), .. } => {
                format!("mount:{}:{}", format.name(), typed(*bytes))
            }
        }
    }

    /// The target's name in reports, with the code that serves it.
    pub fn title(&self) -> String {
        match self {
            Peer::Other(Other { driver: Driver::Kernel(kind, _), .. }) => {
                format!("{kind} of {}", host::system().kernel)
            }
            Peer::Other(Other { driver: Driver::Fuse(program, _), .. }) => {
                format!("{}, through FUSE", program.trim_start_matches("mount."))
            }
            Peer::Ours { format, .. } => format!("{}, through platter mount", format.name()),
        }
    }

    /// Whether a program serves the file system, whose processor time is its own.
    pub(crate) fn is_served_by_program(&self) -> bool {
        match self {
            Peer::Ours { .. } => true,
            Peer::Other(other) => matches!(other.driver, Driver::Fuse(..)),
        }
    }

    /// The size in bytes of the largest file that the file system can hold.
    pub fn largest_file(&self) -> u64 {
        match self {
            Peer::Other(other) => other.largest_file,
            Peer::Ours { .. } => u64::MAX,
        }
    }

    /// Whether the programs and the kernel driver that the file system needs are present.
    ///
    /// # Errors
    /// [`Error::Job`] with the missing program and its package, or the missing kernel driver.
    pub fn check(&self) -> Result<()> {
        let Peer::Other(Other { name, make: (program, _, package), driver, .. }) = self else {
            return Ok(());
        };
        let about = |error: Error| Error::Input { name: (*name).into(), reason: reason(error) };
        find(program, package).map_err(about)?;
        match driver {
            Driver::Fuse(program, package) => find(program, package).map_err(about),
            Driver::Kernel(kind, _) if kernel_has(kind) => Ok(()),
            Driver::Kernel(kind, _) => {
                // Loads the driver's module, as mount(8) would.
                let _ = Command::new("modprobe").arg("--quiet").arg(kind).status();
                match kernel_has(kind) {
                    true => Ok(()),
                    false => Err(about(Error::Job(format!(
                        "this kernel has no file system {kind}, and no module of this name"
                    )))),
                }
            }
        }
    }

    /// Makes a new file system on a block device.
    pub(crate) fn make(&self, device: &dyn Device, block: &Path) -> Result<()> {
        match self {
            Peer::Other(Other { make: (program, options, package), .. }) => {
                let mut arguments: Vec<&OsStr> = options.iter().map(AsRef::as_ref).collect();
                arguments.push(block.as_ref());
                call(program, package, &arguments).map(drop)
            }
            Peer::Ours { format, cluster, .. } => {
                let options = FormatOptions { cluster: *cluster, ..FormatOptions::default() };
                format.make(device, &options, &Silent)?;
                Ok(device.flush()?)
            }
        }
    }

    /// Makes a new file system on the block device `block`, which `device` accesses too, and mounts it in a
    /// subdirectory of `directory`.
    pub(crate) fn mount(&self, device: &dyn Device, block: &Path, directory: &Path) -> Result<Mounted> {
        self.make(device, block)?;
        self.attach(block, directory)
    }

    /// Mounts the file system on a block device, or on an image file, in a subdirectory of `directory`.
    pub(crate) fn attach(&self, block: &Path, directory: &Path) -> Result<Mounted> {
        let name = block.file_name().unwrap_or_default();
        let at = directory.join(name);
        std::fs::create_dir(&at).map_err(|source| failed(&at, source))?;
        let mounted = match self {
            Peer::Other(Other { driver: Driver::Kernel(kind, options), .. }) => {
                host::mount(block, &at, kind, options).map_err(|error| failed(block, error))
            }
            Peer::Other(Other { driver: Driver::Fuse(program, package), .. }) => {
                call(program, package, &[block.as_ref(), at.as_ref()]).map(drop)
            }
            Peer::Ours { program, .. } => {
                let arguments = ["mount".as_ref(), block.as_os_str(), at.as_os_str()];
                call(&program.to_string_lossy(), "platter", &arguments).map(drop)
            }
        };
        if let Err(error) = mounted {
            // The directory is empty, and the next mount of this block device creates it again.
            let _ = std::fs::remove_dir(&at);
            return Err(error);
        }
        let program = match self {
            Peer::Ours { program, .. } => Some(program.clone()),
            Peer::Other(_) => None,
        };
        Ok(Mounted { at, block: block.to_owned(), program, is_over: false })
    }
}

/// A mounted file system; unmounted when dropped.
pub(crate) struct Mounted {
    /// The directory where it is mounted.
    pub at: PathBuf,
    /// The block device that it is on.
    pub block: PathBuf,
    /// The program whose subcommand `umount` unmounts it; `None` for the system call.
    program: Option<PathBuf>,
    is_over: bool,
}

/// How long an unmounted file system may take to write its remaining changes and release its block device.
const PATIENCE: Duration = Duration::from_secs(60);

impl Mounted {
    /// Unmounts the file system and waits until its block device is free.
    pub(crate) fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_over, true) {
            return Ok(());
        }
        // The kernel closes the files of an io_uring queue a moment after the queue is gone, so an unmount may fail at
        // first.
        let unmount = || match &self.program {
            Some(program) => {
                call(&program.to_string_lossy(), "platter", &["umount".as_ref(), self.at.as_ref()]).map(drop)
            }
            None => host::unmount(&self.at).map_err(|error| failed(&self.at, error)),
        };
        if !wait_for(Duration::from_secs(5), || unmount().is_ok()) {
            unmount()?;
        }
        if !wait_for(PATIENCE, || is_free(&self.block)) {
            let what = format!("{}: what served it holds it still", self.block.display());
            return Err(Error::Job(what));
        }
        std::fs::remove_dir(&self.at).map_err(|source| failed(&self.at, source))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A mount that is dropped without a call of `end` follows another error already; what cannot be unmounted now
        // is left to the guardian process of [`crate::blocks::Blocks`].
        let _ = self.end();
    }
}

fn reason(error: Error) -> String {
    match error {
        Error::Job(reason) => reason,
        error => error.to_string(),
    }
}

/// Whether a program is in a directory of PATH.
fn find(program: &str, package: &str) -> Result<()> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&paths).any(|path| path.join(program).exists()) {
        true => Ok(()),
        false => Err(missing(program, package)),
    }
}

fn kernel_has(kind: &str) -> bool {
    if !cfg!(target_os = "linux") {
        return false;
    }
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    known.lines().any(|line| line.split_whitespace().last() == Some(kind))
}
