//! Writes an undo file.

use super::format::{BLOCK, Head, Header, Kind, sums};
use crate::{Device, Error, Result, host};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// An undo file that is being written. The file is made when the first record is added.
pub(super) struct UndoLog {
    path: PathBuf,
    /// The permissions of the file, and the group that they are for.
    shared: Option<(u32, u32)>,
    header: Header,
    file: Option<BufWriter<File>>,
    /// The blocks whose old content has been saved.
    saved: HashSet<u64>,
    /// The bytes of old content saved.
    bytes: u64,
    failed: Option<String>,
}

impl UndoLog {
    /// A log for a device that is called `name` in messages.
    pub(super) fn new(path: PathBuf, name: String, device: &dyn Device) -> UndoLog {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let block = BLOCK.max(u64::from(device.sectors().logical));
        let header = Header { length: device.len(), block, time, name };
        UndoLog { path, shared: None, header, file: None, saved: HashSet::new(), bytes: 0, failed: None }
    }

    /// Gives the file these permissions, and this group.
    pub(super) fn share(&mut self, mode: u32, group: u32) {
        self.shared = Some((mode, group));
    }

    /// The header of the file, with the block size.
    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    /// Why the file could not be written, if so. From then on nothing may be changed.
    pub(super) fn why_failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Saves the old content of a block, unless it has been saved already. `None`: the block cannot be read.
    pub(super) fn add_old(&mut self, number: u64, content: Option<&[u8]>) -> Result<()> {
        if self.saved.insert(number) {
            let content = content.unwrap_or_default();
            self.add(Kind::Old, number, content)?;
            self.bytes += content.len() as u64;
        }
        Ok(())
    }

    /// Records the checksums of the new content of a block.
    pub(super) fn add_new(&mut self, number: u64, content: &[u8]) -> Result<()> {
        let sums: Vec<u8> = sums(content).flat_map(u32::to_le_bytes).collect();
        self.add(Kind::New, number, &sums)
    }

    /// Makes all added records durable.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.attempt(|log| match &mut log.file {
            Some(file) => file.flush().and_then(|()| file.get_ref().sync_data()),
            None => Ok(()),
        })
    }

    /// Adds the last record. Returns the path of the file and the bytes of old content in it; `None` if no file was
    /// made.
    pub(super) fn finish(&mut self, stamp: &str) -> Result<Option<(PathBuf, u64)>> {
        if self.file.is_none() {
            return Ok(None);
        }
        self.add(Kind::Finished, 0, stamp.as_bytes())?;
        self.sync()?;
        Ok(Some((self.path.clone(), self.bytes)))
    }

    fn add(&mut self, kind: Kind, block: u64, content: &[u8]) -> Result<()> {
        self.attempt(|log| {
            let file = log.file()?;
            file.write_all(&Head::of(kind, block, content).to_bytes())?;
            file.write_all(content)
        })
    }

    /// After a failed write nothing more is written: the file may end in the middle of a record.
    fn attempt(&mut self, write: impl FnOnce(&mut UndoLog) -> io::Result<()>) -> Result<()> {
        if self.failed.is_none() {
            self.failed = write(self).err().map(|error| error.to_string());
        }
        match &self.failed {
            None => Ok(()),
            Some(why) => {
                let device = format!("undo file {}", self.path.display()).into();
                Err(Error::Unusable { device, reason: format!("could not be written: {why}") })
            }
        }
    }

    fn file(&mut self) -> io::Result<&mut BufWriter<File>> {
        if self.file.is_none() {
            let file = self.create()?;
            // The name of the file must survive a power cut too.
            let directory = self.path.parent().filter(|path| !path.as_os_str().is_empty());
            host::sync_directory(directory.unwrap_or(".".as_ref()))?;
            self.file = Some(BufWriter::with_capacity(1 << 20, file));
        }
        Ok(self.file.as_mut().expect("just made"))
    }

    /// Makes the file with its header. It holds what stood on the device, so only its owner can read it unless more is
    /// said.
    fn create(&self) -> io::Result<File> {
        let mut file = host::make_private(&self.path)?;
        let begun = file.write_all(&self.header.to_bytes()).and_then(|()| match self.shared {
            Some((mode, group)) => host::share(&file, mode, group),
            None => Ok(()),
        });
        if let Err(error) = begun {
            // Nothing has been changed yet, so a file without a whole header is of no use.
            let _ = fs::remove_file(&self.path);
            return Err(error);
        }
        Ok(file)
    }
}
