//! Whether what files have is taken in the bitmaps: their clusters in `$Bitmap`, their records in that of `$MFT`. What a
//! bitmap says is free is given to the next file that needs it.
//!
//! The bitmaps have no checksums, and only the records tell what is in use. So before a volume is written to, the first
//! records are read, as many as take no noticeable time. Damage behind those is for a check to find.

use crate::core::{Core, data_runs};
use crate::layout::{AttributeContent, Record, fixup, record_number, runs};
use platter_vfs::{Error, Result};

/// The most bytes of records that are read.
const MOST: u64 = 16 << 20;
/// The bytes that are read at a time.
const PIECE: u64 = 1 << 20;

/// Returns what is wrong if a cluster or record that is in use is free in a bitmap. Records that cannot be read are passed
/// over: whoever opens their files is told.
///
/// # Errors
/// Those of reading `$MFT`.
pub(crate) fn find_free(core: &mut Core) -> Result<Option<Error>> {
    let size = u64::from(core.geometry.record);
    let mft = core.file(record_number::MFT)?;
    let mft = data_runs(&mft);
    let length = (core.record_count() * size).min(MOST);
    let mut at = 0;
    while at < length {
        let piece = PIECE.min(length - at);
        let mut bytes = core.read_runs(&mft, at, piece)?;
        for (index, bytes) in bytes.chunks_exact_mut(size as usize).enumerate() {
            let number = at / size + index as u64;
            if let Some(error) = of_record(core, number, bytes) {
                return Ok(Some(error));
            }
        }
        at += piece;
    }
    Ok(None)
}

/// What is wrong with the bits of a record and its clusters.
fn of_record(core: &Core, number: u64, bytes: &mut [u8]) -> Option<Error> {
    let place = core.record_place(number).ok()?;
    fixup::remove(bytes, "file record", place).ok()?;
    let record = Record::from_bytes(bytes, place).ok()?;
    if !record.in_use() {
        return None;
    }
    // Which of the first records are marked differs between programs.
    if number >= record_number::FIRST_FREE && !core.is_record_taken(number) {
        let found = format!("record {number}, which is in use, free");
        return Some(Error::damaged("$BITMAP of $MFT", place, "records of files taken", found));
    }
    let outside = record.attributes.iter().filter_map(|attribute| match &attribute.content {
        AttributeContent::NonResident(outside) => Some(outside),
        AttributeContent::Resident { .. } => None,
    });
    for outside in outside {
        let clusters = core.geometry.clusters;
        let found = runs::unpack(&outside.pairs, outside.first, outside.end, clusters, place).ok()?;
        for run in found {
            let Some(lcn) = run.lcn else { continue };
            if let Some(free) = core.space.first_free(lcn..lcn + run.length) {
                let found = format!("cluster {free}, which a file has, free");
                let at = free * core.geometry.cluster;
                return Some(Error::damaged("$Bitmap", at, "clusters of files taken", found));
            }
        }
    }
    None
}
