//! File systems that Windows itself makes and serves, as peers: each in a virtual disk (VHDX) that is made for a comparison,
//! formatted by Windows, and removed after it.

mod diskpart;
#[cfg(test)]
pub(crate) mod fake;
mod real;
mod refusals;
#[cfg(test)]
mod tests;

use crate::stand::image_length;
use crate::{Error, Result};
use diskpart::carry_out;
use platter_device::show_size;
pub(crate) use real::ThisWindows;
use refusals::no_letter;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is asked of Windows to make a volume.
pub(crate) trait Windows: Send + Sync {
    /// The drive letters in use, a bit each, from A on.
    fn letters(&self) -> u32;

    /// Has `diskpart` carry out a script, and returns its exit code and what it printed. The script may be stored in a file of
    /// this name meanwhile.
    ///
    /// # Errors
    /// The error code of Windows, if it cannot be run.
    fn diskpart(&self, script: &str, file: &Path) -> io::Result<(i32, String)>;

    /// The root directory of a drive.
    fn root(&self, letter: char) -> PathBuf;
}

/// A step of making or removing a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A virtual disk of so many bytes is made and attached.
    Attach {
        length: u64,
    },
    Partition,
    Format,
    /// The volume gets this drive letter.
    Letter(char),
    /// The virtual disk with the volume of this letter is detached.
    Detach(char),
}

/// A file system that Windows makes.
#[derive(Clone)]
pub struct WindowsPeer {
    kind: &'static Kind,
    volume: Option<Arc<Volume>>,
}

/// A kind of such file systems.
pub(super) struct Kind {
    name: &'static str,
    /// The name that `diskpart` and people use.
    file_system: &'static str,
    /// Bytes of a cluster; Windows chooses if `None`.
    cluster: Option<u32>,
    /// Whether the file system is to keep checksums of the content.
    integrity: bool,
    /// The bytes of the smallest and the largest volume that Windows makes.
    volumes: (u64, u64),
    largest_file: u64,
}

const NTFS: Kind = Kind {
    name: "windows-ntfs",
    file_system: "NTFS",
    cluster: Some(4096),
    integrity: false,
    volumes: (64 << 20, u64::MAX),
    largest_file: u64::MAX,
};
const REFS: Kind = Kind {
    name: "windows-refs",
    file_system: "ReFS",
    // ReFS refuses small volumes, and which are is documented nowhere: this is large enough.
    volumes: (4 << 30, u64::MAX),
    ..NTFS
};

/// As `windows/compare.ps1` makes them. Microsoft, "format": FAT32 volumes have at most 32 GB there.
static KINDS: [Kind; 5] = [
    NTFS,
    REFS,
    Kind { name: "windows-refs+integrity", integrity: true, ..REFS },
    Kind { name: "windows-exfat", file_system: "exFAT", cluster: None, ..NTFS },
    Kind {
        name: "windows-fat32",
        file_system: "FAT32",
        cluster: None,
        volumes: (512 << 20, 32 << 30),
        largest_file: u32::MAX as u64,
        ..NTFS
    },
];

impl WindowsPeer {
    /// The names of these file systems, as on the command line.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KINDS.iter().map(|kind| kind.name)
    }

    /// The file system with this name.
    pub fn by_name(name: &str) -> Option<WindowsPeer> {
        KINDS.iter().find(|kind| kind.name == name).map(|kind| WindowsPeer { kind, volume: None })
    }

    /// The name, as on the command line.
    pub fn name(&self) -> &'static str {
        self.kind.name
    }

    /// The size in bytes of the largest file that the file system can hold.
    pub fn largest_file(&self) -> u64 {
        self.kind.largest_file
    }

    /// The name in reports.
    pub(crate) fn title(&self) -> String {
        let cluster = self.kind.cluster.map(|bytes| format!(", {} clusters", show_size(bytes.into())));
        let integrity = if self.kind.integrity { ", integrity on" } else { "" };
        format!("{} of Windows{}{integrity}", self.kind.file_system, cluster.unwrap_or_default())
    }

    /// The directory in the volume, and whether its files are to have checksums.
    ///
    /// # Errors
    /// [`Error::Input`], if the volume was not made: only comparisons of block workloads make it.
    pub(crate) fn directory(&self) -> Result<(&Path, bool)> {
        let why = "is made for comparisons of workloads of blocks only; for other loads, format a drive and name dir:X:\\";
        match &self.volume {
            Some(volume) => Ok((&volume.root, self.kind.integrity)),
            None => Err(self.refused(why)),
        }
    }

    /// Has Windows make the volume for files of `span` bytes, in a virtual disk in this directory.
    ///
    /// # Errors
    /// [`Error::Input`] with what Windows refused and what to do about it. Nothing is left then.
    pub(crate) fn make(
        &self,
        windows: &Arc<dyn Windows>,
        directory: &Path,
        span: u64,
    ) -> Result<WindowsPeer> {
        let volume = Volume::make(self.kind, windows.clone(), directory, span);
        let volume = volume.map_err(|reason| self.refused(reason))?;
        Ok(WindowsPeer { kind: self.kind, volume: Some(Arc::new(volume)) })
    }

    /// Removes the volume.
    ///
    /// # Errors
    /// [`Error::Input`] that says what stays, and how it is removed.
    pub(crate) fn end(&self) -> Result<()> {
        let Some(volume) = &self.volume else { return Ok(()) };
        volume.end().map_err(|reason| self.refused(reason))
    }

    /// An error about this file system.
    pub(crate) fn refused(&self, reason: impl Into<String>) -> Error {
        Error::Input { name: self.kind.name.into(), reason: reason.into() }
    }
}

/// A volume that Windows made; removed when dropped.
struct Volume {
    windows: Arc<dyn Windows>,
    /// The file of the virtual disk.
    image: PathBuf,
    letter: char,
    root: PathBuf,
    is_over: AtomicBool,
}

impl Volume {
    fn make(
        kind: &'static Kind,
        windows: Arc<dyn Windows>,
        directory: &Path,
        span: u64,
    ) -> std::result::Result<Volume, String> {
        let (least, most) = kind.volumes;
        let length = image_length(span).max(least).next_multiple_of(1 << 20);
        if length > most {
            let (length, most) = (show_size(length), show_size(most));
            let system = kind.file_system;
            return Err(format!(
                "Windows makes {system} volumes of at most {most}, and the span needs one of {length}; choose a smaller --span"
            ));
        }
        let letter = free_letter(windows.letters()).ok_or_else(no_letter)?;
        let name = format!("platter-{}-{}.vhdx", kind.name.replace('+', "-"), std::process::id());
        let directory = std::path::absolute(directory).map_err(|error| error.to_string())?;
        let image = directory.join(name);
        if image.exists() {
            return Err(format!("{} is there already, of an earlier comparison; remove it", image.display()));
        }
        let root = windows.root(letter);
        let volume = Volume { windows, image, letter, root, is_over: AtomicBool::new(false) };
        for step in [Step::Attach { length }, Step::Partition, Step::Format, Step::Letter(letter)] {
            // What was made so far is removed when the volume is dropped.
            carry_out(&*volume.windows, step, kind, &volume.image)?;
        }
        if !is_used(volume.windows.letters(), letter) {
            return Err(refusals::refused(Step::Letter(letter), kind, &volume.image));
        }
        Ok(volume)
    }

    fn end(&self) -> std::result::Result<(), String> {
        if self.is_over.swap(true, Ordering::Relaxed) || !self.image.exists() {
            return Ok(());
        }
        carry_out(&*self.windows, Step::Detach(self.letter), &NTFS, &self.image)?;
        std::fs::remove_file(&self.image)
            .map_err(|error| format!("{}: {error}; remove it", self.image.display()))
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // An error has been told already if this is reached without a call of `end`.
        if self.end().is_err() {
            let _ = std::fs::remove_file(&self.image);
        }
    }
}

fn is_used(letters: u32, letter: char) -> bool {
    letters & (1 << (letter as u32 - 'A' as u32)) != 0
}

/// The last free letter: A and B are of floppy disks, and those from C on are what Windows gives next.
fn free_letter(letters: u32) -> Option<char> {
    ('D'..='Z').rev().find(|letter| !is_used(letters, *letter))
}
