//! The block allocation table of a dynamic disk and how it changes.
//!
//! VHD has no log. An entry of the table is part of one sector, which a power cut leaves whole: the block that it leads
//! to is durable before. While the file becomes longer, the footer at its end is overwritten by a block; until the next
//! flush has written it behind, the copy at the beginning stands for it, as the specification has it.

use super::footer::{Footer, LENGTH};
use super::header::{DynamicHeader, kind};
use crate::bytes::{be32, damaged, is_inside, read, unusable};
use crate::form::{Changes, Form, Kept, PAGE, Shape, page_of};
use crate::marks::{BitOrder, Marks};
use platter_device::sync::Mutex;
use platter_device::{Device, Growing, Result};
use std::ops::Range;

/// The entry of a block that is not there.
const UNUSED: u32 = u32::MAX;
const SECTOR: u64 = 512;
/// Where the content of a new block begins, in bytes: on a page of a host's cache and a physical sector of most disks, as in the
/// files that `Get-VHD` of Windows calls aligned. Its bitmap ends there. Blocks that others made may begin at any sector.
const ALIGNMENT: u64 = 4096;

/// An open dynamic or differencing VHD.
pub(crate) struct VhdForm {
    /// The name of the file, for errors.
    file: String,
    footer: Footer,
    table: Range<u64>,
    shape: Shape,
    /// Whether the file ends with the footer.
    is_last: Mutex<bool>,
}

impl VhdForm {
    pub(super) fn new(
        file: &str,
        footer: Footer,
        header: &DynamicHeader,
        shape: Shape,
        is_last: bool,
    ) -> VhdForm {
        let table = header.table..header.table + header.table_length();
        VhdForm { file: file.into(), footer, table, shape, is_last: Mutex::new(is_last) }
    }

    /// The bytes of the bitmap in front of a block.
    pub(super) fn bitmap(&self) -> u64 {
        (self.shape.block / SECTOR).div_ceil(8).next_multiple_of(SECTOR)
    }
}

impl Form for VhdForm {
    fn name(&self) -> String {
        kind(self.footer.disk).into()
    }

    fn page(&self, file: &dyn Device, number: u64) -> Result<Box<[u8]>> {
        page_of(file, &self.table, number)
    }

    fn entry_offset(&self, block: u64) -> u64 {
        block * 4
    }

    fn entry_width(&self) -> usize {
        4
    }

    fn decode(&self, block: u64, bytes: &[u8], end: u64) -> Result<Kept> {
        let entry = be32(bytes, 0);
        if entry == UNUSED {
            return Ok(Kept::Absent);
        }
        let at = u64::from(entry) * SECTOR + self.bitmap();
        if entry == 0 || !is_inside(at, self.shape.used(block), end) {
            let structure = format!("the entry of block {block} in the block allocation table");
            let expected = format!("a block inside the file's {end} bytes");
            let place = self.table.start + self.entry_offset(block);
            return Err(damaged(&self.file, &structure, place, expected, format!("{entry:#010x}")));
        }
        Ok(Kept::Marked(at))
    }

    fn encode(&self, at: u64, bytes: &mut [u8]) {
        let sector = u32::try_from((at - self.bitmap()) / SECTOR).expect("a VHD has at most 2040 GiB");
        bytes.copy_from_slice(&sector.to_be_bytes());
    }

    fn marks(&self, file: &dyn Device, block: u64, at: u64) -> Result<Marks> {
        let bits = read(file, at - self.bitmap(), self.bitmap() as usize)?;
        Ok(Marks::new(&bits, self.shape.used(block) / SECTOR, BitOrder::HighFirst))
    }

    fn extend(&self, file: &dyn Growing) -> Result<u64> {
        let mut is_last = self.is_last.lock();
        let end = if *is_last { file.len() - LENGTH } else { file.len() };
        let at = (end + self.bitmap()).next_multiple_of(ALIGNMENT);
        let needed = at + self.shape.block;
        if needed / SECTOR >= u64::from(UNUSED) {
            return Err(unusable(file.name(), "has no room for more blocks: a VHD ends at 2 TiB"));
        }
        file.grow(needed)?;
        *is_last = false;
        // What is written takes at least the place that the footer had.
        let mut before = vec![0; (at - end) as usize];
        let unused = before.len() - self.bitmap() as usize;
        before[unused..].fill(0xFF);
        file.write_at(end, &before)?;
        Ok(at)
    }

    fn begin(&self, _file: &dyn Growing) -> Result<()> {
        Ok(())
    }

    fn prepare(&self, file: &dyn Growing) -> Result<()> {
        let mut is_last = self.is_last.lock();
        if !*is_last {
            let end = file.len();
            file.grow(end + LENGTH)?;
            file.write_at(end, self.footer.bytes())?;
            *is_last = true;
        }
        Ok(())
    }

    fn commit(&self, file: &dyn Growing, changes: &Changes) -> Result<()> {
        if !changes.completed.is_empty() {
            let ones = vec![0xFF; self.bitmap() as usize];
            let writes: Vec<(u64, &[u8])> =
                changes.completed.iter().map(|(_, at)| (at - self.bitmap(), &ones[..])).collect();
            file.write_batch(&writes)?;
        }
        let place = |number: u64| self.table.start + number * PAGE;
        let writes: Vec<(u64, &[u8])> =
            changes.pages.iter().map(|(number, page)| (place(*number), &page[..])).collect();
        file.write_batch(&writes)?;
        file.flush()
    }
}
