//! Where a copy's record stands: outside the copy, which so stays a plain volume that every other reader takes.

use super::history::History;
use crate::marks::read_bytes;
use crate::{FileDevice, FileOptions};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The record of one copy of a mirror.
pub trait MirrorRecord: Send + Sync {
    /// What was saved last; `None` if nothing ever was.
    fn load(&self) -> io::Result<Option<Vec<u8>>>;
    /// Replaces the record. Afterwards it survives a power cut, which before leaves the old one.
    fn save(&self, bytes: &[u8]) -> io::Result<()>;
    /// What is not the same any more when somebody else has written to the copy.
    fn stamp(&self) -> io::Result<String>;
}

/// The record of an image file or block device, as a file.
///
/// That of an image file stands beside it, with `.mirror` behind its name. That of a block device stands in
/// `/var/lib/platter/mirrors` under the name that udev gives the device in `/dev/disk/by-id`, or else its own.
pub struct FileRecord {
    copy: PathBuf,
    place: PathBuf,
}

impl FileRecord {
    /// Where records of block devices stand.
    const DEVICES: &str = "/var/lib/platter/mirrors";

    /// The record of what `path` leads to, which need not exist.
    pub fn of(path: &Path) -> FileRecord {
        let copy = fs::canonicalize(path).or_else(|_| std::path::absolute(path));
        let copy = copy.unwrap_or_else(|_| path.to_path_buf());
        let block = fs::metadata(&copy).ok().filter(|data| data.file_type().is_block_device());
        let mut place = match block {
            Some(data) => Path::new(FileRecord::DEVICES).join(stable_name(&copy, data.rdev())),
            None => copy.clone(),
        };
        place.as_mut_os_string().push(".mirror");
        FileRecord { copy, place }
    }

    /// The file that the record stands in.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Forgets the set that the copy belonged to.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// A name of a block device that it keeps when the system starts anew.
fn stable_name(path: &Path, number: u64) -> PathBuf {
    let links = fs::read_dir("/dev/disk/by-id").into_iter().flatten().flatten();
    let same = links.filter(|link| fs::metadata(link.path()).is_ok_and(|data| data.rdev() == number));
    let name = same.map(|link| link.file_name()).min();
    PathBuf::from(name.unwrap_or_else(|| path.file_name().unwrap_or_default().to_os_string()))
}

impl MirrorRecord for FileRecord {
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
        File::open(directory)?.sync_all()
    }

    /// Length and time of the last write of an image file; of a block device, which has none that tell, its first and last bytes.
    fn stamp(&self) -> io::Result<String> {
        const ENDS: u64 = 1 << 20;
        let data = fs::metadata(&self.copy)?;
        if !data.file_type().is_block_device() {
            // Not the time of the last change of the inode, which renaming the file sets.
            return Ok(format!("file {} {}.{:09}", data.len(), data.mtime(), data.mtime_nsec()));
        }
        let options = FileOptions { read_only: true, ..FileOptions::default() };
        let device = FileDevice::open(&self.copy, options).map_err(io::Error::other)?;
        let length = crate::Device::len(&device);
        let ends = ENDS.min(length);
        let crc =
            |at| read_bytes(&device, at, ends).map(|bytes| crc32fast::hash(&bytes)).map_err(io::Error::other);
        Ok(format!("device {length} {:08x} {:08x}", crc(0)?, crc(length - ends)?))
    }
}
