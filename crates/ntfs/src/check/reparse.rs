//! Reparse points: whether the data that each states is inside its value, and whether a link has a target.

use super::file::{Assembled, key};
use super::{Check, Severity};
use crate::layout::bytes::u32_at;
use crate::layout::{Attribute, Kind, reparse_from_bytes};
use platter_vfs::{Result, reparse};

/// More bytes than a reparse point has: 16 KiB of data and a header.
const MOST: u64 = 32 << 10;

/// Checks a file's reparse point. A repair gives it the length of the data that is there, or removes it if it has no
/// whole header, or is a link without a target.
pub(super) fn examine(check: &mut Check<'_>, file: &mut Assembled) -> Result<()> {
    let own = key(Kind::REPARSE_POINT, "");
    let Some(mut bytes) = file.bytes(check, &own, MOST)? else { return Ok(()) };
    let Err(fault) = read(&bytes, file.at) else { return Ok(()) };
    check.find("reparse", Severity::DataLoss, Some(file.number), fault.to_string(), check.is_repairing);
    if !check.is_repairing {
        return Ok(());
    }
    let header = reparse::header(u32_at(&bytes, 0));
    let Some(data) = bytes.len().checked_sub(header) else {
        file.remove(&own);
        return Ok(());
    };
    let length = (data as u16).to_le_bytes();
    bytes[4..6].copy_from_slice(&length);
    if read(&bytes, file.at).is_err() {
        file.remove(&own);
        return Ok(());
    }
    match file.runs(check.geometry.clusters, &own) {
        Some((runs, _)) => check.disk.write_runs(&check.geometry, &runs, 4, &length),
        None => {
            file.put(Attribute::resident(Kind::REPARSE_POINT, bytes));
            Ok(())
        }
    }
}

/// Reads a reparse point, and its target if it is a link.
fn read(bytes: &[u8], at: u64) -> Result<()> {
    let point = reparse_from_bytes(bytes, at)?;
    if reparse::is_link(point.tag) {
        reparse::target(&point)?;
    }
    Ok(())
}
