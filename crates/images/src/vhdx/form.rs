//! The block allocation table (2.5) and how it changes.

use super::MIB;
use super::header::Header;
use super::log::LogWriter;
use super::metadata::Metadata;
use super::regions::Regions;
use crate::bytes::{damaged, is_inside, le64, read};
use crate::form::{Changes, Form, Kept, PAGE, Shape, page_of};
use crate::guid::Guid;
use crate::marks::{BitOrder, Marks};
use platter_device::sync::Mutex;
use platter_device::{Device, Growing, Result};
use std::ops::Range;

/// The states of a block of content (2.5.1.1).
mod state {
    pub(super) const NOT_PRESENT: u64 = 0;
    pub(super) const UNDEFINED: u64 = 1;
    pub(super) const ZERO: u64 = 2;
    pub(super) const UNMAPPED: u64 = 3;
    pub(super) const FULLY_PRESENT: u64 = 6;
    pub(super) const PARTIALLY_PRESENT: u64 = 7;
}

/// An open VHDX.
pub(crate) struct VhdxForm {
    /// The name of the file, for errors.
    path: String,
    name: String,
    table: Range<u64>,
    shape: Shape,
    has_parent: bool,
    /// How many blocks of content stand in the table before an entry for a block of marks.
    chunk: u64,
    header: Mutex<Header>,
}

/// The number of sectors that a block of marks is for.
const MARKED: u64 = 1 << 23;

impl VhdxForm {
    pub(super) fn new(path: &str, header: Header, regions: &Regions, metadata: &Metadata) -> VhdxForm {
        let Metadata { shape, is_fixed, parent } = metadata;
        let chunk = chunk(shape);
        let kind = match (is_fixed, parent) {
            (true, _) => "fixed",
            (false, None) => "dynamic",
            (false, Some(_)) => "differencing",
        };
        VhdxForm {
            path: path.into(),
            name: format!("VHDX, {kind}"),
            table: regions.table.clone(),
            shape: *shape,
            has_parent: parent.is_some(),
            chunk,
            header: Mutex::new(header),
        }
    }

    /// What children know the disk by.
    pub(super) fn identity(&self) -> Guid {
        self.header.lock().data_write
    }

    /// The bytes of the table that are used.
    pub(super) fn table_length(&self) -> u64 {
        table_length(&self.shape, self.has_parent)
    }
}

/// How many blocks of content a block of marks is for.
fn chunk(shape: &Shape) -> u64 {
    MARKED * u64::from(shape.sectors.logical) / shape.block
}

/// The bytes of the table of a disk (2.5).
pub(crate) fn table_length(shape: &Shape, has_parent: bool) -> u64 {
    let (blocks, chunk) = (shape.blocks(), chunk(shape));
    let entries = match has_parent {
        true => blocks.div_ceil(chunk) * (chunk + 1),
        false => blocks + (blocks - 1) / chunk,
    };
    entries * 8
}

/// The entry for a block of content at this offset of the file.
pub(crate) fn entry(at: u64) -> u64 {
    assert!(at.is_multiple_of(MIB), "blocks lie on whole MiB");
    at | state::FULLY_PRESENT
}

/// The offset in the table of the entry for a block of content.
pub(crate) fn entry_offset(shape: &Shape, block: u64) -> u64 {
    (block + block / chunk(shape)) * 8
}

impl Form for VhdxForm {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn page(&self, file: &dyn Device, number: u64) -> Result<Box<[u8]>> {
        page_of(file, &self.table, number)
    }

    fn entry_offset(&self, block: u64) -> u64 {
        entry_offset(&self.shape, block)
    }

    fn entry_width(&self) -> usize {
        8
    }

    fn decode(&self, block: u64, bytes: &[u8], end: u64) -> Result<Kept> {
        let entry = le64(bytes, 0);
        // The offset counts in MiB, above 20 bits for the state.
        let at = entry >> 20 << 20;
        let wrong = |expected: String| {
            let place = self.table.start + self.entry_offset(block);
            let structure = format!("the entry of block {block} in the block allocation table");
            Err(damaged(&self.path, &structure, place, expected, format!("{entry:#018x}")))
        };
        match entry & 7 {
            state::NOT_PRESENT => Ok(Kept::Absent),
            state::UNDEFINED | state::ZERO | state::UNMAPPED => Ok(Kept::Zero),
            state::FULLY_PRESENT | state::PARTIALLY_PRESENT
                if at < MIB || !is_inside(at, self.shape.used(block), end) =>
            {
                wrong(format!("a block behind the first MiB, inside the file's {end} bytes"))
            }
            state::FULLY_PRESENT => Ok(Kept::Whole(at)),
            state::PARTIALLY_PRESENT if self.has_parent => Ok(Kept::Marked(at)),
            _ => wrong("a state that a block of this disk can have".into()),
        }
    }

    fn encode(&self, at: u64, bytes: &mut [u8]) {
        bytes.copy_from_slice(&entry(at).to_le_bytes());
    }

    fn marks(&self, file: &dyn Device, block: u64, _at: u64) -> Result<Marks> {
        let chunk = block / self.chunk;
        let place = self.table.start + ((chunk + 1) * (self.chunk + 1) - 1) * 8;
        let entry = le64(&read(file, place, 8)?, 0);
        let at = entry >> 20 << 20;
        if entry & 7 != state::FULLY_PRESENT || at < MIB || !is_inside(at, MIB, file.len()) {
            let structure = format!("the entry of the marks of block {block} in the block allocation table");
            let expected = format!("a block of marks inside the file's {} bytes", file.len());
            return Err(damaged(file.name(), &structure, place, expected, format!("{entry:#018x}")));
        }
        let sectors = self.shape.block / u64::from(self.shape.sectors.logical);
        let bits = read(file, at + block % self.chunk * sectors / 8, (sectors / 8) as usize)?;
        let used = self.shape.used(block) / u64::from(self.shape.sectors.logical);
        Ok(Marks::new(&bits, used, BitOrder::LowFirst))
    }

    fn extend(&self, file: &dyn Growing) -> Result<u64> {
        let at = file.len().next_multiple_of(MIB);
        file.grow(at + self.shape.block)?;
        Ok(at)
    }

    fn begin(&self, file: &dyn Growing) -> Result<()> {
        let mut header = self.header.lock();
        header.file_write = Guid::random();
        header.data_write = Guid::random();
        header.write(file)
    }

    fn prepare(&self, _file: &dyn Growing) -> Result<()> {
        Ok(())
    }

    /// The header names the log only while the table is being changed: whoever finds the file after a flush, as it is when a
    /// program was killed, has nothing to replay, and closing it changes nothing.
    fn commit(&self, file: &dyn Growing, changes: &Changes) -> Result<()> {
        let mut header = self.header.lock();
        // The identifier of its entries is new, so what the log had before does not count.
        let mut writer = LogWriter::new(&header);
        let place = |(number, page): &(u64, Box<[u8]>)| (self.table.start + number * PAGE, page.clone());
        let pages: Vec<(u64, Box<[u8]>)> = changes.pages.iter().map(place).collect();
        for (number, pages) in pages.chunks(writer.most()).enumerate() {
            if number > 0 {
                // The entry before counts no more once the next one is written.
                file.flush()?;
            }
            let length = file.len();
            writer.write(file, pages, length, length)?;
            if number == 0 {
                header.name_log(file, writer.id)?;
            }
            let writes: Vec<(u64, &[u8])> = pages.iter().map(|(at, page)| (*at, &page[..])).collect();
            file.write_batch(&writes)?;
        }
        file.flush()?;
        header.name_log(file, Guid::ZERO)
    }
}
