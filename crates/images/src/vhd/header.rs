//! The header of a dynamic disk ("Dynamic Disk Header Format").

use super::footer::{Disk, Footer, checksum, stamp};
use crate::bytes::{be32, be64, damaged, field, is_inside, read, utf16};
use crate::container::Container;
use crate::form::Shape;
use crate::guid::Guid;
use crate::parent::{ParentLink, Wanted};
use platter_device::{Device, Result, Sectors};

const MAGIC: &[u8] = b"cxsparse";
pub(crate) const LENGTH: usize = 1024;

/// The header as it is in memory.
pub(crate) struct DynamicHeader {
    /// Its offset.
    pub place: u64,
    pub table: u64,
    entries: u32,
    block: u32,
    bytes: Vec<u8>,
}

/// The kind of a locator that is a path relative to the image, in little-endian UTF-16.
const RELATIVE: &[u8] = b"W2ru";

/// The bytes of the path of a parent, which fit a sector.
pub(crate) fn locator_text(parent: &ParentLink) -> Vec<u8> {
    parent.paths[0].encode_utf16().take(256).flat_map(u16::to_le_bytes).collect()
}

/// The most entries of a table: a disk of the greatest size in blocks of 512 KiB.
const MOST_ENTRIES: u32 = 4 << 20;

impl DynamicHeader {
    pub(super) fn read(file: &dyn Device, footer: &Footer) -> Result<DynamicHeader> {
        let place = footer.header;
        let wrong = |expected: String, found: String| {
            Err(damaged(file.name(), "the dynamic header", place, expected, found))
        };
        if !place.is_multiple_of(512) || !is_inside(place, LENGTH as u64, file.len()) {
            return wrong(format!("a place in the file's {} bytes", file.len()), place.to_string());
        }
        let bytes = read(file, place, LENGTH)?;
        if &bytes[..8] != MAGIC {
            return wrong("the signature \"cxsparse\"".into(), format!("{:02x?}", &bytes[..8]));
        }
        let (stored, computed) = (be32(&bytes, 36), checksum(&bytes, 36));
        if stored != computed {
            return wrong(format!("the checksum {computed:#010x}"), format!("{stored:#010x}"));
        }
        let (table, entries, block) = (be64(&bytes, 16), be32(&bytes, 28), be32(&bytes, 32));
        if !block.is_power_of_two() || !(4096..=256 << 20).contains(&block) {
            return wrong("blocks of a power of two, from 4 KiB to 256 MiB".into(), format!("{block} bytes"));
        }
        if entries > MOST_ENTRIES {
            return wrong(format!("a table of at most {MOST_ENTRIES} entries"), entries.to_string());
        }
        let length = u64::from(entries) * 4;
        if !table.is_multiple_of(512) || !is_inside(table, length.next_multiple_of(512), file.len()) {
            let expected = format!("a table in the file's {} bytes", file.len());
            return wrong(expected, format!("{length} bytes from {table} on"));
        }
        if footer.size.div_ceil(block.into()) > entries.into() {
            let expected = format!("entries for a disk of {} bytes in blocks of {block}", footer.size);
            return wrong(expected, entries.to_string());
        }
        Ok(DynamicHeader { place, table, entries, block, bytes })
    }

    /// A header for a new disk.
    pub(super) fn new(size: u64, block: u32, parent: Option<&ParentLink>) -> DynamicHeader {
        let (place, table) = (512, 512 + LENGTH as u64);
        let entries = size.div_ceil(block.into()) as u32;
        let mut bytes = vec![0; LENGTH];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].fill(0xFF);
        bytes[16..24].copy_from_slice(&table.to_be_bytes());
        bytes[24..28].copy_from_slice(&0x0001_0000_u32.to_be_bytes());
        bytes[28..32].copy_from_slice(&entries.to_be_bytes());
        bytes[32..36].copy_from_slice(&block.to_be_bytes());
        if let Some(parent) = parent {
            bytes[40..56].copy_from_slice(&parent.identities[0].0);
            bytes[56..60].copy_from_slice(&stamp(parent.modified).to_be_bytes());
            let name = parent.paths[0].rsplit(['/', '\\']).next().unwrap_or_default();
            let units = name.encode_utf16().take(255).flat_map(u16::to_be_bytes);
            bytes[64..].iter_mut().zip(units).for_each(|(byte, value)| *byte = value);
            // The path relative to the image, in the sector behind the table.
            let locator = &mut bytes[576..600];
            locator[..4].copy_from_slice(RELATIVE);
            locator[4..8].copy_from_slice(&512_u32.to_be_bytes());
            locator[8..12].copy_from_slice(&(locator_text(parent).len() as u32).to_be_bytes());
            let place = table + (u64::from(entries) * 4).next_multiple_of(512);
            locator[16..24].copy_from_slice(&place.to_be_bytes());
        }
        let sum = checksum(&bytes, 36);
        bytes[36..40].copy_from_slice(&sum.to_be_bytes());
        DynamicHeader { place, table, entries, block, bytes }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of the table, in whole sectors.
    pub(super) fn table_length(&self) -> u64 {
        (u64::from(self.entries) * 4).next_multiple_of(512)
    }

    /// What the disk is like.
    pub(super) fn shape(&self, file: &dyn Device, footer: &Footer) -> Result<Shape> {
        super::footer::refuse_size(file.name(), footer.size)?;
        Ok(Shape { size: footer.size, block: self.block.into(), sectors: Sectors::SMALL })
    }

    /// What a differencing disk says of its parent.
    pub(super) fn parent(&self, file: &dyn Device) -> Result<ParentLink> {
        const ABSOLUTE: &[u8] = b"W2ku";
        /// The most bytes of a path that are read.
        const MOST: u32 = 64 << 10;
        let bytes = &self.bytes;
        let mut paths = Vec::new();
        for wanted in [RELATIVE, ABSOLUTE] {
            for locator in bytes[576..768].chunks_exact(24).filter(|locator| &locator[..4] == wanted) {
                let (length, place) = (be32(locator, 8), be64(locator, 16));
                if length > MOST || !is_inside(place, length.into(), file.len()) {
                    let expected = format!("a path in the file's {} bytes", file.len());
                    let found = format!("{length} bytes from {place} on");
                    return Err(damaged(file.name(), "a locator of the parent", self.place, expected, found));
                }
                let text = read(file, place, length as usize)?;
                paths.push(utf16(text.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]))));
            }
        }
        paths.push(utf16(bytes[64..576].chunks_exact(2).map(|unit| u16::from_be_bytes([unit[0], unit[1]]))));
        let wanted = Wanted::Is(Container::Vhd);
        Ok(ParentLink { paths, wanted, identities: vec![Guid(field(bytes, 40))], modified: 0 })
    }
}

/// What a disk is called.
pub(crate) fn kind(disk: Disk) -> &'static str {
    match disk {
        Disk::Fixed => "VHD, fixed",
        Disk::Dynamic => "VHD, dynamic",
        Disk::Differencing => "VHD, differencing",
    }
}
