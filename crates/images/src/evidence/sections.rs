//! The sections of segments: what the disk is like, where its chunks are, and its hashes.

use super::hash::StoredHash;
use super::segments::Segments;
use super::table::{self, ChunkTable};
use crate::bytes::{damaged, field, is_inside, le16, le32, le64, read, unusable};
use crate::container::E01;
use crate::unpack::adler;
use platter_device::{Device, Result};
use std::ops::Range;

/// The bytes of a segment's header.
const HEADER: u64 = 13;
/// The bytes of a section's descriptor.
const DESCRIPTOR: u64 = 76;
/// The most tables of a set, 5 MiB of memory. Programs in use have one or a few in each segment.
const MOST_TABLES: usize = 1 << 16;
/// The most segments that have a name.
const MOST_SEGMENTS: usize = 99 + 22 * 676;
/// The largest chunk in bytes; the programs in use have chunks of 32 KiB to 16 MiB.
const MOST_CHUNK: u64 = 16 << 20;

/// What the disk is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Volume {
    /// Its size in bytes.
    pub size: u64,
    /// The bytes of a chunk.
    pub chunk: u64,
    /// The bytes of a sector.
    pub sector: u32,
    /// Whether tables end with a checksum of their entries: not in the older form of another program.
    pub has_sums: bool,
}

/// What all sections say.
pub(super) struct Contents {
    pub volume: Volume,
    pub tables: Vec<ChunkTable>,
    pub hashes: Vec<StoredHash>,
    /// The number of segments.
    pub count: usize,
}

/// A section: its kind, the offset of its descriptor, that of the next section, and where its data is.
struct Section {
    kind: String,
    at: u64,
    next: u64,
    data: Range<u64>,
}

/// Reads `length` bytes of a structure that end with their checksum.
fn checked(file: &dyn Device, structure: &str, at: u64, length: usize) -> Result<Vec<u8>> {
    let bytes = read(file, at, length)?;
    let (sum, stored) = (adler(&bytes[..length - 4]), le32(&bytes, length - 4));
    if sum != stored {
        return Err(damaged(
            file.name(),
            structure,
            at,
            format!("the checksum {sum:#010x}"),
            format!("{stored:#010x}"),
        ));
    }
    Ok(bytes)
}

fn cut_off(file: &dyn Device, what: &str, at: u64, end: u64) -> platter_device::Error {
    let reason = format!(
        "ends at offset {}, and {what} at offset {at} was to end at {end}: it was cut off",
        file.len()
    );
    unusable(file.name(), reason)
}

impl Section {
    fn read(file: &dyn Device, at: u64) -> Result<Section> {
        if !is_inside(at, DESCRIPTOR, file.len()) {
            return Err(cut_off(file, "a section", at, at.saturating_add(DESCRIPTOR)));
        }
        let bytes = checked(file, "the descriptor of a section", at, DESCRIPTOR as usize)?;
        let name: Vec<u8> = bytes[..16].iter().copied().take_while(|&byte| byte != 0).collect();
        let kind = String::from_utf8_lossy(&name).into_owned();
        let (next, length) = (le64(&bytes, 16), le64(&bytes, 24));
        // The last one of a segment leads to itself, and some programs give it no length.
        let end = if next == at { at.saturating_add(length.max(DESCRIPTOR)) } else { next };
        if end < at + DESCRIPTOR {
            let expected = format!("a next section behind offset {}", at + DESCRIPTOR);
            return Err(damaged(file.name(), "the descriptor of a section", at, expected, next));
        }
        if end > file.len() {
            return Err(cut_off(file, &format!("the section {kind:?}"), at, end));
        }
        Ok(Section { kind, at, next, data: at + DESCRIPTOR..end })
    }

    /// Reads the first bytes of the data, which end with their checksum.
    fn checked(&self, file: &dyn Device, length: u64) -> Result<Vec<u8>> {
        let name = format!("the section {:?}", self.kind);
        if self.data.end - self.data.start < length {
            let found = format!("{} bytes", self.data.end - self.data.start);
            return Err(damaged(file.name(), &name, self.at, format!("at least {length} bytes"), found));
        }
        checked(file, &name, self.data.start, length as usize)
    }
}

impl Volume {
    fn read(file: &dyn Device, section: &Section) -> Result<Volume> {
        const USUAL: u64 = 1052;
        const OLD: u64 = 94;
        let has_sums = section.data.end - section.data.start >= USUAL;
        let bytes = section.checked(file, if has_sums { USUAL } else { OLD })?;
        let count = if has_sums { le64(&bytes, 16) } else { le32(&bytes, 16).into() };
        let (per_chunk, sector) = (u64::from(le32(&bytes, 8)), le32(&bytes, 12));
        let is_sector = sector.is_power_of_two() && (512..=4096).contains(&sector);
        let chunk = per_chunk.saturating_mul(sector.into());
        let size = count.checked_mul(sector.into()).filter(|size| i64::try_from(*size).is_ok());
        match size {
            Some(size) if is_sector && (1..=MOST_CHUNK).contains(&chunk) && size > 0 => {
                Ok(Volume { size, chunk, sector, has_sums })
            }
            _ => {
                let expected =
                    format!("a disk with sectors of 512 to 4096 bytes, in chunks of at most {MOST_CHUNK}");
                let found = format!("{count} sectors of {sector} bytes, {per_chunk} in a chunk");
                Err(damaged(file.name(), "the description of the disk", section.at, expected, found))
            }
        }
    }
}

/// What was read so far.
#[derive(Default)]
struct Reading {
    volume: Option<Volume>,
    tables: Vec<ChunkTable>,
    hashes: Vec<StoredHash>,
    chunks: u64,
    /// The data of the chunks for which the next table is.
    sectors: Option<Range<u64>>,
}

impl Contents {
    /// Reads the descriptors of all sections, and what is small of the sections themselves.
    pub(super) fn read(segments: &Segments) -> Result<Contents> {
        let mut reading = Reading::default();
        for number in 1..=MOST_SEGMENTS {
            let file = segments.get(number)?;
            look_at_header(&*file, number)?;
            if reading.read(&*file, number)? {
                let Reading { volume, tables, hashes, .. } = reading;
                let Some(volume) = volume else {
                    return Err(unusable(file.name(), "is evidence without a description of a disk"));
                };
                return Ok(Contents { volume, tables, hashes, count: number });
            }
        }
        let name = segments.get(1)?.name().to_string();
        Err(unusable(&name, format!("does not end after {MOST_SEGMENTS} segments")))
    }
}

/// Fails if a file does not begin as the segment with this number.
fn look_at_header(file: &dyn Device, number: usize) -> Result<()> {
    if file.len() < HEADER {
        return Err(cut_off(file, "the header", 0, HEADER));
    }
    let bytes = read(file, 0, HEADER as usize)?;
    if &bytes[..8] != E01 {
        return Err(damaged(
            file.name(),
            "the header",
            0,
            "the signature of E01",
            format!("{:02x?}", &bytes[..8]),
        ));
    }
    match usize::from(le16(&bytes, 9)) {
        own if own == number => Ok(()),
        own if number == 1 => {
            let reason = format!("is segment {own} of evidence: name the first one, whose name ends with 01");
            Err(unusable(file.name(), reason))
        }
        own => {
            Err(damaged(file.name(), "the header", 0, format!("segment {number}"), format!("segment {own}")))
        }
    }
}

impl Reading {
    /// Reads the sections of a segment. Returns whether it is the last one.
    fn read(&mut self, file: &dyn Device, number: usize) -> Result<bool> {
        let mut at = HEADER;
        loop {
            let section = Section::read(file, at)?;
            match section.kind.as_str() {
                "volume" | "disk" | "data" if self.volume.is_none() => {
                    self.volume = Some(Volume::read(file, &section)?);
                }
                "sectors" => self.sectors = Some(section.data.clone()),
                "table" => self.table(file, number, &section)?,
                "table2" => self.second_table(&section),
                "hash" => {
                    let bytes = section.checked(file, 36)?;
                    self.hash("MD5", &field::<16>(&bytes, 0));
                }
                "digest" => {
                    let bytes = section.checked(file, 80)?;
                    self.hash("MD5", &field::<16>(&bytes, 0));
                    self.hash("SHA-1", &field::<20>(&bytes, 16));
                }
                "ltree" => {
                    return Err(unusable(
                        file.name(),
                        "is logical evidence (L01): it has files, and no disk",
                    ));
                }
                "next" => return Ok(false),
                "done" => return Ok(true),
                // Others describe the case, the acquisition and its errors.
                _ => {}
            }
            if section.next == at {
                let expected = "a section that goes on in the file";
                return Err(damaged(file.name(), "the chain of sections", at, expected, "its end"));
            }
            at = section.next;
        }
    }

    fn table(&mut self, file: &dyn Device, segment: usize, section: &Section) -> Result<()> {
        let has_sums = match self.volume {
            Some(volume) => volume.has_sums,
            None => return Err(unusable(file.name(), "has a table before it describes the disk")),
        };
        let bytes = section.checked(file, table::HEADER)?;
        let (count, base) = (u64::from(le32(&bytes, 0)), le64(&bytes, 8));
        let entries = section.data.start + table::HEADER;
        let length = count * 4 + if has_sums { 4 } else { 0 };
        if count > table::MOST || !is_inside(entries, length, section.data.end) {
            let expected = format!("at most {} entries, inside the section", table::MOST);
            return Err(damaged(file.name(), "a table of chunks", section.at, expected, count));
        }
        if count > 0 {
            // Without a section of their own the chunks follow the table.
            let data = self.sectors.take().unwrap_or(entries + length..section.data.end);
            let first = self.chunks;
            self.chunks += count;
            self.tables.push(ChunkTable {
                first,
                count,
                segment,
                entries,
                second: None,
                base,
                data,
                has_sums,
            });
        }
        if self.tables.len() > MOST_TABLES {
            return Err(unusable(file.name(), format!("has more than {MOST_TABLES} tables")));
        }
        Ok(())
    }

    /// Notes where the copy of the last table is.
    fn second_table(&mut self, section: &Section) {
        if let Some(table) = self.tables.last_mut() {
            let place = section.data.start + table::HEADER;
            table.second = is_inside(place, table.count * 4 + 4, section.data.end).then_some(place);
        }
    }

    /// Notes a hash, unless it is known or is not filled in.
    fn hash(&mut self, algorithm: &'static str, value: &[u8]) {
        let is_known = self.hashes.iter().any(|hash| hash.algorithm == algorithm);
        if !is_known && value.iter().any(|&byte| byte != 0) {
            self.hashes.push(StoredHash { algorithm, value: value.into() });
        }
    }
}

/// Makes the checksums of the structures of a segment right; for tests.
pub(crate) fn mend(file: &dyn Device) {
    let put = |at: u64, length: usize| -> Option<Vec<u8>> {
        let mut bytes = read(file, at, length).ok()?;
        let sum = adler(&bytes[..length - 4]);
        bytes[length - 4..].copy_from_slice(&sum.to_le_bytes());
        platter_device::write_any(file, at, &bytes).ok()?;
        Some(bytes)
    };
    let mut at = HEADER;
    for _ in 0..64 {
        let Some(bytes) = put(at, DESCRIPTOR as usize) else { return };
        let data = at + DESCRIPTOR;
        let _ = match &bytes[..5] {
            b"volum" | b"disk\0" | b"data\0" => put(data, 1052),
            b"table" => put(data, table::HEADER as usize).and_then(|header| {
                let count = le32(&header, 0);
                (count < 4096).then(|| put(data + table::HEADER, count as usize * 4 + 4))?
            }),
            b"hash\0" => put(data, 36),
            b"diges" => put(data, 80),
            _ => None,
        };
        let next = le64(&bytes, 16);
        if next <= at || !is_inside(next, DESCRIPTOR, file.len()) {
            return;
        }
        at = next;
    }
}
