//! The tables that say where chunks begin.

use crate::bytes::{damaged, le32, read};
use crate::unpack::{adler, most_packed, zlib};
use platter_device::{Device, Result};
use std::ops::Range;

/// The bytes in front of the entries.
pub(super) const HEADER: u64 = 24;
/// The most entries of a table, 1 MiB; programs in use write up to 65,534.
pub(super) const MOST: u64 = 1 << 18;
/// An entry with this bit is of a chunk that is compressed; the others are the offset.
const COMPRESSED: u32 = 1 << 31;

/// A table: the chunks that it is for, and where it and they are.
#[derive(Clone, Debug)]
pub(super) struct ChunkTable {
    /// The number of its first chunk.
    pub first: u64,
    pub count: u64,
    /// The number of the segment, from 1 on.
    pub segment: usize,
    /// The offset of the entries in the segment, and that of their copy.
    pub entries: u64,
    pub second: Option<u64>,
    /// What the offsets of chunks are counted from.
    pub base: u64,
    /// The part of the segment that has the chunks.
    pub data: Range<u64>,
    pub has_sums: bool,
}

impl ChunkTable {
    /// Reads the entries, or their copy if they are damaged.
    pub(super) fn entries(&self, file: &dyn Device) -> Result<Vec<u8>> {
        let length = (self.count * 4) as usize;
        if !self.has_sums {
            return read(file, self.entries, length);
        }
        let mut why = None;
        for place in [Some(self.entries), self.second].into_iter().flatten() {
            let mut bytes = read(file, place, length + 4)?;
            let (sum, stored) = (adler(&bytes[..length]), le32(&bytes, length));
            if sum == stored {
                bytes.truncate(length);
                return Ok(bytes);
            }
            let (expected, found) = (format!("the checksum {sum:#010x}"), format!("{stored:#010x}"));
            why.get_or_insert(damaged(file.name(), "a table of chunks", place, expected, found));
        }
        Err(why.expect("a table has a place"))
    }

    /// Reads a chunk of `length` bytes.
    pub(super) fn chunk(
        &self,
        file: &dyn Device,
        entries: &[u8],
        chunk: u64,
        length: usize,
    ) -> Result<Vec<u8>> {
        let number = (chunk - self.first) as usize;
        let start =
            |number: usize| self.base.saturating_add((le32(entries, number * 4) & !COMPRESSED).into());
        let is_compressed = le32(entries, number * 4) & COMPRESSED != 0;
        let at = start(number);
        let end = if number as u64 + 1 < self.count { start(number + 1) } else { self.data.end };
        let wrong = |expected: String, found: String| {
            Err(damaged(file.name(), &format!("chunk {chunk}"), at, expected, found))
        };
        if at < self.data.start || end > self.data.end || at >= end {
            let expected = format!("a chunk in the bytes {} to {}", self.data.start, self.data.end);
            return wrong(expected, format!("{at} to {end}"));
        }
        let stored = (end - at).min(most_packed(length as u64)) as usize;
        if !is_compressed {
            if stored < length + 4 {
                return wrong(format!("{} bytes", length + 4), format!("{stored} bytes"));
            }
            let mut bytes = read(file, at, length + 4)?;
            let (sum, stored) = (adler(&bytes[..length]), le32(&bytes, length));
            bytes.truncate(length);
            return match sum == stored {
                true => Ok(bytes),
                false => wrong(format!("the checksum {sum:#010x}"), format!("{stored:#010x}")),
            };
        }
        let bytes = read(file, at, stored)?;
        let mut content = vec![0; length + 1];
        match zlib(&bytes, &mut content) {
            Ok(found) if found == length => {
                content.truncate(length);
                Ok(content)
            }
            Ok(found) => wrong(format!("{length} bytes of content"), format!("{found} bytes")),
            Err(found) => wrong(format!("{length} bytes of content, compressed"), found),
        }
    }
}
