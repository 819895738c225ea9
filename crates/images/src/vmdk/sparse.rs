//! A sparse extent: its header, and the tables that lead to grains.

use crate::bytes::{damaged, is_inside, le16, le32, le64, read, unusable};
use crate::container::VMDK;
use crate::form::{Changes, Form, Kept, Packed, Shape};
use crate::marks::Marks;
use crate::unpack::{most_packed, zlib};
use platter_device::{Device, Growing, Result, Sectors};

const SECTOR: u64 = 512;
/// The most bytes of a grain that is compressed: it is unpacked as a whole. Programs in use have 64 KiB.
const MOST_PACKED: u64 = 16 << 20;

/// What the flags say.
mod flag {
    pub(super) const ZEROED: u32 = 1 << 2;
    pub(super) const COMPRESSED: u32 = 1 << 16;
}

/// An open extent.
pub(super) struct SparseForm {
    path: String,
    pub shape: Shape,
    /// The offset of the directory.
    directory: u64,
    /// The bytes of a table.
    table: u64,
    flags: u32,
    /// Where the descriptor in it is: offset and length.
    pub descriptor: Option<(u64, u64)>,
}

impl SparseForm {
    pub(super) fn read(file: &dyn Device) -> Result<SparseForm> {
        /// The directory is behind the grains, where the footer says.
        const AT_END: u64 = u64::MAX;
        let name = file.name();
        if file.len() < 3 * SECTOR {
            return Err(unusable(name, format!("ends after {} bytes, in the header of a VMDK", file.len())));
        }
        let mut place = 0;
        let first = read(file, 0, SECTOR as usize)?;
        let mut bytes = first.clone();
        if le64(&bytes, 56) == AT_END {
            place = file.len() - 2 * SECTOR;
            bytes = read(file, place, SECTOR as usize)?;
        }
        let wrong = |expected: &str, found: String| {
            Err(damaged(name, "the header of a sparse extent", place, expected, found))
        };
        if !bytes.starts_with(VMDK) || !(1..=3).contains(&le32(&bytes, 4)) {
            let expected = if place == 0 { "versions 1 to 3" } else { "a footer: the file was cut off" };
            return wrong(expected, format!("{:02x?}", &bytes[..8]));
        }
        let flags = le32(&bytes, 8);
        let (capacity, grain, entries) = (le64(&bytes, 12), le64(&bytes, 20), u64::from(le32(&bytes, 44)));
        let is_grain = grain.is_power_of_two() && (8..=1 << 16).contains(&grain);
        let is_table = entries.is_power_of_two() && (1..=1024).contains(&entries);
        if !is_grain || !is_table || !(1..=1 << 40).contains(&capacity) {
            return wrong(
                "grains of 4 KiB to 32 MiB, and tables of at most 1024",
                format!("{capacity} sectors, grains of {grain}, tables of {entries}"),
            );
        }
        if flags & flag::COMPRESSED != 0 && le16(&bytes, 77) != 1 {
            return wrong("compression by deflate", le16(&bytes, 77).to_string());
        }
        if flags & flag::COMPRESSED != 0 && grain * SECTOR > MOST_PACKED {
            return wrong("compressed grains of at most 16 MiB", format!("{} bytes", grain * SECTOR));
        }
        let shape = Shape { size: capacity * SECTOR, block: grain * SECTOR, sectors: Sectors::SMALL };
        let directory = le64(&bytes, 56).saturating_mul(SECTOR);
        let length = shape.blocks().div_ceil(entries) * 4;
        if directory == 0 || !is_inside(directory, length, file.len()) {
            let found = format!("{length} bytes at {directory}");
            return wrong("a directory of grains inside the file", found);
        }
        let (at, length) = (le64(&first, 28).saturating_mul(SECTOR), le64(&first, 36).saturating_mul(SECTOR));
        let has_text =
            at > 0 && length > 0 && length <= super::MOST_TEXT && is_inside(at, length, file.len());
        let descriptor = has_text.then_some((at, length));
        Ok(SparseForm { path: name.into(), shape, directory, table: entries * 4, flags, descriptor })
    }
}

impl Form for SparseForm {
    fn name(&self) -> String {
        "VMDK, sparse".into()
    }

    fn page_length(&self) -> u64 {
        self.table
    }

    fn page(&self, file: &dyn Device, number: u64) -> Result<Box<[u8]>> {
        let place = self.directory + number * 4;
        let at = u64::from(le32(&read(file, place, 4)?, 0)) * SECTOR;
        if at == 0 {
            return Ok(vec![0; self.table as usize].into_boxed_slice());
        }
        if !is_inside(at, self.table, file.len()) {
            let structure = format!("entry {number} of the directory of grains");
            let expected = format!("a table inside the file's {} bytes", file.len());
            return Err(damaged(&self.path, &structure, place, expected, at));
        }
        Ok(read(file, at, self.table as usize)?.into_boxed_slice())
    }

    fn entry_offset(&self, block: u64) -> u64 {
        block * 4
    }

    fn entry_width(&self) -> usize {
        4
    }

    fn decode(&self, block: u64, bytes: &[u8], end: u64) -> Result<Kept> {
        let entry = le32(bytes, 0);
        let at = u64::from(entry) * SECTOR;
        let is_packed = self.flags & flag::COMPRESSED != 0;
        let length = if is_packed { 12 } else { self.shape.used(block) };
        match entry {
            0 => Ok(Kept::Absent),
            1 if self.flags & flag::ZEROED != 0 => Ok(Kept::Zero),
            _ if !is_inside(at, length, end) => {
                let offset = block * self.shape.block;
                let reason = format!(
                    "the entry of grain {block}, at offset {offset} of the extent, is damaged: expected a grain inside the \
                     file's {end} bytes, found offset {at}"
                );
                Err(unusable(&self.path, reason))
            }
            _ if is_packed => Ok(Kept::Packed(Packed { block, at, length })),
            _ => Ok(Kept::Whole(at)),
        }
    }

    fn encode(&self, _at: u64, _bytes: &mut [u8]) {
        unreachable!("a VMDK is only read");
    }

    fn marks(&self, _file: &dyn Device, _block: u64, _at: u64) -> Result<Marks> {
        Ok(Marks::All)
    }

    /// A compressed grain has a marker first: its first sector on the disk, and its length.
    fn unpack(&self, file: &dyn Device, packed: Packed) -> Result<Vec<u8>> {
        let Packed { block, at, .. } = packed;
        let wrong = |expected: String, found: String| {
            Err(damaged(&self.path, &format!("the compressed grain {block}"), at, expected, found))
        };
        let marker = read(file, at, 12)?;
        let (sector, length) = (le64(&marker, 0), u64::from(le32(&marker, 8)));
        let expected = block * self.shape.block / SECTOR;
        if sector != expected
            || length > most_packed(self.shape.block)
            || !is_inside(at + 12, length, file.len())
        {
            let found = format!("that of sector {sector}, with {length} bytes");
            return wrong(
                format!("the marker of sector {expected}, inside the file's {} bytes", file.len()),
                found,
            );
        }
        let mut content = vec![0; self.shape.block as usize + 1];
        let needed = self.shape.used(block);
        match zlib(&read(file, at + 12, length as usize)?, &mut content) {
            // The last grain may end with the disk.
            Ok(found) if (needed..=self.shape.block).contains(&(found as u64)) => {
                content.truncate(self.shape.block as usize);
                Ok(content)
            }
            Ok(found) => wrong(format!("{needed} bytes of content"), format!("{found} bytes")),
            Err(found) => wrong(format!("{needed} bytes of content, compressed"), found),
        }
    }

    fn extend(&self, file: &dyn Growing) -> Result<u64> {
        Err(unusable(file.name(), "is a VMDK, which is only read"))
    }

    fn begin(&self, file: &dyn Growing) -> Result<()> {
        self.extend(file).map(drop)
    }

    fn prepare(&self, _file: &dyn Growing) -> Result<()> {
        Ok(())
    }

    fn commit(&self, file: &dyn Growing, _changes: &Changes) -> Result<()> {
        self.extend(file).map(drop)
    }
}
