//! Writing an undo file.

use super::format::{BLOCK, Head, Header, Kind, sums};
use crate::{Device, Error, Result};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// An undo file that is being written. It is made when there is something to write.
pub struct UndoLog {
    path: PathBuf,
    header: Header,
    file: Option<BufWriter<File>>,
    /// Blocks whose old content it has.
    saved: HashSet<u64>,
    /// Bytes of old content.
    bytes: u64,
    failed: Option<String>,
}

impl UndoLog {
    /// For a device, which a person calls `name`.
    pub fn new(path: PathBuf, name: String, device: &dyn Device) -> UndoLog {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let block = BLOCK.max(u64::from(device.sectors().logical));
        let header = Header { length: device.len(), block, time, name };
        UndoLog { path, header, file: None, saved: HashSet::new(), bytes: 0, failed: None }
    }

    /// The unit in which old content is saved.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Why the file could not be written. From then on nothing may be changed.
    pub fn why_failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Saves what a block holds, unless it has been saved. `None`: it cannot be read.
    pub fn add_old(&mut self, number: u64, content: Option<&[u8]>) -> Result<()> {
        if self.saved.insert(number) {
            let content = content.unwrap_or_default();
            self.add(Kind::Old, number, content)?;
            self.bytes += content.len() as u64;
        }
        Ok(())
    }

    /// Notes what a block is about to be given.
    pub fn add_new(&mut self, number: u64, content: &[u8]) -> Result<()> {
        let sums: Vec<u8> = sums(content).flat_map(u32::to_le_bytes).collect();
        self.add(Kind::New, number, &sums)
    }

    /// Makes durable what was added.
    pub fn sync(&mut self) -> Result<()> {
        self.attempt(|log| match &mut log.file {
            Some(file) => file.flush().and_then(|()| file.get_ref().sync_data()),
            None => Ok(()),
        })
    }

    /// Ends the file. Gives back where it is and how many bytes of old content it has, if it was made.
    pub fn finish(&mut self, stamp: &str) -> Result<Option<(PathBuf, u64)>> {
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

    /// What failed once is not tried again: the file may end in the middle of a record.
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
            let mut file = File::options().write(true).create_new(true).open(&self.path)?;
            file.write_all(&self.header.to_bytes())?;
            // The name must survive a power cut too.
            let directory = self.path.parent().filter(|path| !path.as_os_str().is_empty());
            File::open(directory.unwrap_or(".".as_ref()))?.sync_all()?;
            self.file = Some(BufWriter::with_capacity(1 << 20, file));
        }
        Ok(self.file.as_mut().expect("just made"))
    }
}
