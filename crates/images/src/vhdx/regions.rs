//! The table of regions (2.2.3), of which there are two copies that are alike.

use super::MIB;
use super::header::{Header, checksum};
use crate::bytes::{damaged, field, is_inside, le32, le64, read, unusable};
use crate::guid::Guid;
use platter_device::{Device, Result};
use std::ops::Range;

/// Where the regions are.
#[derive(Debug)]
pub(crate) struct Regions {
    pub table: Range<u64>,
    pub metadata: Range<u64>,
    /// The parts of the file that have no blocks: the first MiB, the log, and all regions.
    pub all: Vec<Range<u64>>,
}

const LENGTH: usize = 64 << 10;
const SIGNATURE: &[u8] = b"regi";
pub(crate) const PLACES: [u64; 2] = [192 << 10, 256 << 10];
const MOST: u32 = 2047;

/// 2DC27766-F623-4200-9D64-115E9BFD4A08.
pub(crate) const TABLE: Guid = Guid(*b"\x66\x77\xC2\x2D\x23\xF6\x00\x42\x9D\x64\x11\x5E\x9B\xFD\x4A\x08");
/// 8B7CA206-4790-4B9A-B8FE-575F050F886E.
pub(crate) const METADATA: Guid = Guid(*b"\x06\xA2\x7C\x8B\x90\x47\x9A\x4B\xB8\xFE\x57\x5F\x05\x0F\x88\x6E");

impl Regions {
    pub(super) fn read(file: &dyn Device, header: &Header) -> Result<Regions> {
        Regions::read_copy(file, header, PLACES[0])
            .or_else(|error| Regions::read_copy(file, header, PLACES[1]).map_err(|_| error))
    }

    fn read_copy(file: &dyn Device, header: &Header, place: u64) -> Result<Regions> {
        let wrong = |expected: String, found: String| {
            Err(damaged(file.name(), "the table of regions", place, expected, found))
        };
        let bytes = read(file, place, LENGTH)?;
        if &bytes[..4] != SIGNATURE {
            return wrong("the signature \"regi\"".into(), format!("{:02x?}", &bytes[..4]));
        }
        let (stored, computed) = (le32(&bytes, 4), checksum(&bytes, 4));
        if stored != computed {
            return wrong(format!("the checksum {computed:#010x}"), format!("{stored:#010x}"));
        }
        let count = le32(&bytes, 8);
        if count > MOST {
            return wrong(format!("at most {MOST} entries"), count.to_string());
        }
        let (mut table, mut metadata) = (None, None);
        let log = header.log_offset..header.log_offset + header.log_length;
        let mut all = vec![0..MIB, log];
        for entry in bytes[16..].chunks_exact(32).take(count as usize) {
            let (offset, length) = (le64(entry, 16), u64::from(le32(entry, 24)));
            let is_aligned = offset.is_multiple_of(MIB) && length.is_multiple_of(MIB);
            if !is_aligned || length == 0 || !is_inside(offset, length, file.len()) {
                let expected = format!("a region of whole MiB in the file's {} bytes", file.len());
                return wrong(expected, format!("{length} bytes from {offset} on"));
            }
            let range = offset..offset + length;
            if let Some(other) = all.iter().find(|other| other.start < range.end && range.start < other.end) {
                return wrong("regions that do not overlap".into(), format!("{range:?} and {other:?}"));
            }
            let known = match Guid(field(entry, 0)) {
                TABLE => &mut table,
                METADATA => &mut metadata,
                // A region that is required and is not known says that the rest cannot be understood.
                unknown if le32(entry, 28) & 1 == 1 => {
                    let reason = format!("needs the region {unknown}, which is not known here");
                    return Err(unusable(file.name(), reason));
                }
                _ => &mut None,
            };
            *known = Some(range.clone());
            all.push(range);
        }
        match (table, metadata) {
            (Some(table), Some(metadata)) => Ok(Regions { table, metadata, all }),
            _ => wrong(
                "regions for the block allocation table and the metadata".into(),
                "only other ones".into(),
            ),
        }
    }

    /// The bytes of the table for a new file.
    pub(super) fn bytes(table: &Range<u64>, metadata: &Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; LENGTH];
        bytes[..4].copy_from_slice(SIGNATURE);
        bytes[8..12].copy_from_slice(&2_u32.to_le_bytes());
        for (entry, (id, range)) in
            bytes[16..].chunks_exact_mut(32).zip([(TABLE, table), (METADATA, metadata)])
        {
            entry[..16].copy_from_slice(&id.0);
            entry[16..24].copy_from_slice(&range.start.to_le_bytes());
            entry[24..28].copy_from_slice(&((range.end - range.start) as u32).to_le_bytes());
            entry[28..32].copy_from_slice(&1_u32.to_le_bytes());
        }
        let sum = checksum(&bytes, 4);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}
