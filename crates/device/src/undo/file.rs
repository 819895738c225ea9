//! Reads an undo file and reverts the changes.

use super::format::{HEAD, HEADER, Head, Header, Kind, SECTOR, sums};
use crate::{Device, Error, Operation, Result, host};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An undo file: which blocks of a device were changed, and their old content.
pub struct UndoFile {
    path: PathBuf,
    file: File,
    /// Whether the file can only be read.
    is_read_only: bool,
    header: Header,
    blocks: BTreeMap<u64, Block>,
    /// The offset at which the valid records end.
    end: u64,
    stamp: Option<String>,
    is_taken_back: bool,
}

/// A block that was changed.
struct Block {
    /// The offset of the old content in the file, and its CRC32; `None` if the block could not be read.
    old: Option<(u64, u32)>,
    /// For each time the block was written, the checksums of its sectors.
    new: Vec<Vec<u32>>,
}

/// The outcome of reverting the changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Blocks whose old content was restored.
    pub blocks: u64,
    /// Blocks that held their old content already.
    pub unchanged: u64,
    /// Blocks whose old content could not be read before they were overwritten; they stay as they are.
    pub unknown: u64,
}

impl UndoFile {
    /// Reads the records of an undo file. Memory is some 100 bytes for each block that was changed.
    ///
    /// # Errors
    /// [`Error::Unusable`] if the file is no undo file or its header is damaged; [`Error::Io`] if it cannot be read.
    pub fn open(path: &Path) -> Result<UndoFile> {
        let name = path.display().to_string();
        let failed = |source| Error::io(&name, Operation::Read, 0, 0, source);
        let unusable = |reason| Error::Unusable { device: name.as_str().into(), reason };
        let opened = match File::options().read(true).write(true).open(path) {
            Err(error) if is_for_want_of_writing(&error) => File::open(path).map(|file| (file, true)),
            opened => opened.map(|file| (file, false)),
        };
        let (file, is_read_only) =
            opened.map_err(|source| Error::io(&name, Operation::Open, 0, 0, source))?;
        let mut header = Vec::with_capacity(HEADER);
        (&file).take(HEADER as u64).read_to_end(&mut header).map_err(failed)?;
        let header = Header::from_bytes(&header).map_err(unusable)?;
        let mut undo = UndoFile {
            path: path.to_path_buf(),
            file,
            is_read_only,
            header,
            blocks: BTreeMap::new(),
            end: HEADER as u64,
            stamp: None,
            is_taken_back: false,
        };
        undo.read_records().map_err(failed)?;
        Ok(undo)
    }

    /// Whether there is a file at this path that holds nothing: the program was ended between making it and writing its
    /// header, before the first change of the device.
    pub fn is_unbegun(path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() == 0)
    }

    /// Whether the file can only be read, so that it cannot be noted in it that reverting has begun. If reverting is cut
    /// off then, it has to be forced to go on, because the stamp of the device is another.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn read_records(&mut self) -> io::Result<()> {
        let mut reader = io::BufReader::with_capacity(1 << 20, &self.file);
        reader.seek(SeekFrom::Start(HEADER as u64))?;
        let whole = self.header.length.div_ceil(self.header.block);
        let (mut head, mut content) = ([0; HEAD], Vec::new());
        loop {
            let Some(()) = read_whole(&mut reader, &mut head)? else { return Ok(()) };
            let Some(head) = Head::from_bytes(&head).filter(|head| head.block < whole.max(1)) else {
                return Ok(());
            };
            content.resize(head.length as usize, 0);
            let Some(()) = read_whole(&mut reader, &mut content)? else { return Ok(()) };
            if crc32fast::hash(&content) != head.crc {
                return Ok(());
            }
            let (at, block) = (self.end + HEAD as u64, head.block);
            let size = self.header.size_of(block);
            match head.kind {
                Kind::Old if content.is_empty() || content.len() == size => {
                    let old = (!content.is_empty()).then_some((at, head.crc));
                    self.blocks.entry(block).or_insert(Block { old, new: Vec::new() });
                }
                Kind::New if content.len() == size.div_ceil(SECTOR) * 4 => {
                    let sums = content.chunks_exact(4);
                    let sums =
                        sums.map(|sum| u32::from_le_bytes(sum.try_into().expect("four bytes"))).collect();
                    if let Some(known) = self.blocks.get_mut(&block) {
                        known.new.push(sums);
                    }
                }
                Kind::Finished => self.stamp = Some(String::from_utf8_lossy(&content).into_owned()),
                Kind::TakenBack => self.is_taken_back = true,
                Kind::Old | Kind::New => return Ok(()),
            }
            self.end = at + u64::from(head.length);
        }
    }

    /// The name of the device for messages.
    pub fn name(&self) -> &str {
        &self.header.name
    }

    /// The time when the changes began.
    pub fn time(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.header.time)
    }

    /// The length of the device in bytes.
    pub fn length(&self) -> u64 {
        self.header.length
    }

    /// The number of blocks that were changed.
    pub fn blocks(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Bytes after the last valid record. If the changes were cut off, these describe changes that had not begun;
    /// otherwise the file is damaged, and the changes that they described cannot be reverted.
    pub fn unused(&self) -> u64 {
        self.file.metadata().map_or(0, |data| data.len().saturating_sub(self.end))
    }

    /// The stamp of the device after the changes: if its stamp is different now, somebody has written to it since.
    /// `None` if the changes were cut off, or reverting them has begun.
    pub fn stamp(&self) -> Option<&str> {
        self.stamp.as_deref().filter(|_| !self.is_taken_back)
    }

    /// Restores the content that the device had before the changes. `stamp` is the device's present stamp. May be
    /// called again after it was cut off.
    ///
    /// # Errors
    /// [`Error::Unusable`] if the device has another length; [`Error::Protected`] if a block holds neither its old nor
    /// its new content, or the stamp differs, and `force` is not set. Nothing has been written then. Also the errors of
    /// reading and writing.
    pub fn restore(&mut self, device: &dyn Device, stamp: &str, force: bool) -> Result<Restored> {
        if device.len() != self.header.length {
            let reason = format!(
                "has {} bytes, and the undo file is of a device of {}",
                device.len(),
                self.header.length
            );
            return Err(Error::Unusable { device: device.name().into(), reason });
        }
        let mut restored = Restored::default();
        let mut changed = Vec::new();
        for (&number, block) in &self.blocks {
            let Some(old) = self.old(number, block)? else {
                restored.unknown += 1;
                continue;
            };
            let mut now = vec![0; old.len()];
            let read = device.read_at(number * self.header.block, &mut now);
            if read.is_ok() && now == old {
                restored.unchanged += 1;
                continue;
            }
            if !force && (read.is_err() || !block.explains(&old, &now)) {
                return Err(changed_since(
                    device,
                    &format!("its content at offset {}", number * self.header.block),
                ));
            }
            changed.push(number);
        }
        if changed.is_empty() {
            return Ok(restored);
        }
        if !force && self.stamp().is_some_and(|then| then != stamp) {
            return Err(changed_since(device, "its time of the last write"));
        }
        self.note_taken_back()?;
        for number in changed {
            if let Some(old) = self.old(number, &self.blocks[&number])? {
                device.write_at(number * self.header.block, &old)?;
                restored.blocks += 1;
            }
        }
        device.flush()?;
        Ok(restored)
    }

    fn old(&self, number: u64, block: &Block) -> Result<Option<Vec<u8>>> {
        let Some((at, crc)) = block.old else { return Ok(None) };
        let mut content = vec![0; self.header.size_of(number)];
        let name = self.path.display().to_string();
        let read = host::read_exact_at(&self.file, &mut content, at);
        read.map_err(|source| Error::io(&name, Operation::Read, at, content.len() as u64, source))?;
        if crc32fast::hash(&content) != crc {
            let reason = format!("the content at offset {at} is not what was read there a moment ago");
            return Err(Error::Unusable { device: name.as_str().into(), reason });
        }
        Ok(Some(content))
    }

    /// Records that reverting has begun: from then on the stamp is not compared any more.
    fn note_taken_back(&mut self) -> Result<()> {
        if self.is_read_only {
            return Ok(());
        }
        let name = self.path.display().to_string();
        let noted = (&self.file).seek(SeekFrom::Start(self.end)).and_then(|_| {
            (&self.file).write_all(&Head::of(Kind::TakenBack, 0, &[]).to_bytes())?;
            self.file.sync_data()
        });
        noted.map_err(|source| Error::io(&name, Operation::Write, self.end, HEAD as u64, source))?;
        self.is_taken_back = true;
        Ok(())
    }
}

impl Block {
    /// Whether each sector holds its old content or the content of one of the changes.
    fn explains(&self, old: &[u8], now: &[u8]) -> bool {
        sums(now).zip(now.chunks(SECTOR).zip(old.chunks(SECTOR))).enumerate().all(
            |(at, (sum, (now, old)))| now == old || self.new.iter().any(|sums| sums.get(at) == Some(&sum)),
        )
    }
}

/// Whether a file could not be opened because it, or what it is on, must not be written to.
fn is_for_want_of_writing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

fn changed_since(device: &dyn Device, what: &str) -> Error {
    let reason = format!("was written to after the changes that are to be taken back: {what} is another");
    Error::Protected { device: device.name().into(), reason }
}

/// Fills a buffer; `None` if the file ends before it is full.
fn read_whole(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<Option<()>> {
    match reader.read_exact(buffer) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        read => read.map(Some),
    }
}
