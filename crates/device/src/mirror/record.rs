//! Where the record of a copy is stored: outside the copy, which so stays a plain volume for every other reader.

use super::history::History;
use super::stamp::{self, MetadataSum};
use crate::host;
use crate::marks::read_bytes;
use crate::{Device, FileDevice, FileOptions};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The record of one copy of a mirror.
pub trait MirrorRecord: Send + Sync {
    /// Returns the record that was saved last; `None` if there is none.
    fn load(&self) -> io::Result<Option<Vec<u8>>>;
    /// Replaces the record durably: a power cut leaves the old or the new record.
    fn save(&self, bytes: &[u8]) -> io::Result<()>;
    /// Returns a text that changes when somebody else writes to the copy.
    fn stamp(&self) -> io::Result<String>;
    /// Whether the record was found by something that belongs to the copy itself. A name that the system gives to
    /// devices in the order in which it finds them may belong to another device today, and so may the record.
    fn is_identified(&self) -> bool {
        true
    }
}

/// The record of an image file or block device, as a file.
///
/// The record of an image file is beside it, with `.mirror` appended to its name. That of a block device is in
/// `/var/lib/platter/mirrors` (on Windows in `Platter` below the directory for data of programs), under what identifies the device: the serial number, the partition or the file.
pub struct FileRecord {
    copy: PathBuf,
    place: PathBuf,
    is_identified: bool,
    sum: Option<MetadataSum>,
}

impl FileRecord {
    /// The record of the file or device at `path`, which need not exist.
    pub fn of(path: &Path) -> FileRecord {
        let copy = fs::canonicalize(path).or_else(|_| std::path::absolute(path));
        let copy = copy.unwrap_or_else(|_| path.to_path_buf());
        let (mut place, is_identified) = if host::is_disk(&copy) {
            let identity = host::identity(&copy);
            let name = identity.clone().unwrap_or_else(|| host::name_of_disk(&copy));
            (host::directory_of_records().join("mirrors").join(name), identity.is_some())
        } else {
            (copy.clone(), true)
        };
        place.as_mut_os_string().push(".mirror");
        FileRecord { copy, place, is_identified, sum: None }
    }

    /// The same record, whose stamp of a block device covers what every writer of the volumes on it has to change. Without
    /// this it covers the ends of the device, and what the kernel counts.
    pub fn with_sum(self, sum: MetadataSum) -> FileRecord {
        FileRecord { sum: Some(sum), ..self }
    }

    /// The file that contains the record.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Removes the record, so that the copy no longer belongs to a set.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl MirrorRecord for FileRecord {
    fn is_identified(&self) -> bool {
        self.is_identified
    }

    fn load(&self) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(&self.place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut bytes = Vec::new();
        file.take(History::LONGEST).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn save(&self, bytes: &[u8]) -> io::Result<()> {
        let directory = self.place.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(directory)?;
        let mut temporary = self.place.clone();
        temporary.as_mut_os_string().push(format!(".{}", std::process::id()));
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, &self.place)
        });
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written?;
        host::sync_directory(directory)
    }

    /// For an image file its length and modification time; for a block device, which has no modification time, its length,
    /// checksums of what a writer changes, and what the kernel has counted.
    fn stamp(&self) -> io::Result<String> {
        const ENDS: u64 = 1 << 20;
        if !host::is_disk(&self.copy) {
            return Ok(format!("file {}", host::changed(&self.copy)?));
        }
        // Before the content is read, so that a write meanwhile counts as one after it.
        let written = stamp::written(&self.copy);
        let options = FileOptions { read_only: true, ..FileOptions::default() };
        let device = FileDevice::open(&self.copy, options).map_err(io::Error::other)?;
        let device: Arc<dyn Device> = Arc::new(device);
        let length = device.len();
        let ends = ENDS.min(length);
        let crc = |at| {
            let bytes = read_bytes(&*device, at, ends).map_err(io::Error::other)?;
            Ok::<u32, io::Error>(crc32fast::hash(&bytes))
        };
        let sum = self.sum.map_or_else(|| "-".to_string(), |sum| format!("{:016x}", sum(&device)));
        Ok(format!("device {length} {:08x} {:08x} {sum} {written}", crc(0)?, crc(length - ends)?))
    }
}
