//! Discarding on disks and volumes.
//!
//! Writes to sectors of a mounted volume are refused by Windows; that discarding is too is not documented. So nothing is
//! discarded where a file system may be: on a disk no range that touches a partition of its table, and on a volume only
//! what was locked and dismounted. What is not discarded keeps its content, which the contract of a device allows.
//!
//! Facts: Microsoft, "IOCTL_STORAGE_MANAGE_DATA_SET_ATTRIBUTES", "DEVICE_MANAGE_DATA_SET_ATTRIBUTES",
//! "DEVICE_DATA_SET_RANGE", "IOCTL_STORAGE_GET_DEVICE_NUMBER", "IOCTL_DISK_GET_DRIVE_LAYOUT_EX",
//! "DRIVE_LAYOUT_INFORMATION_EX", "PARTITION_INFORMATION_EX".

use super::{Control, is_not_there, long, number};
use std::io;

/// `IOCTL_STORAGE_MANAGE_DATA_SET_ATTRIBUTES`.
pub(super) const MANAGE_DATA_SET: u32 = 0x002D_9404;
/// `IOCTL_STORAGE_GET_DEVICE_NUMBER`: type, number and partition number, four bytes each.
pub(super) const DEVICE_NUMBER: u32 = 0x002D_1080;
/// `IOCTL_DISK_GET_DRIVE_LAYOUT_EX`: the partitions that Windows knows of.
pub(super) const DRIVE_LAYOUT: u32 = 0x0007_0050;

/// `DeviceDsmAction_Trim`.
const TRIM: u32 = 1;
/// `DEVICE_DSM_FLAG_TRIM_NOT_FS_ALLOCATED`: no file system has allocated the ranges.
const NOT_ALLOCATED: u32 = 0x8000_0000;
/// Bytes of `DEVICE_MANAGE_DATA_SET_ATTRIBUTES`, seven numbers of four bytes, and where the ranges begin behind it.
const HEADER: u32 = 28;
const RANGES: u32 = 32;
/// Bytes of `DEVICE_DATA_SET_RANGE`: offset and length.
const RANGE: u32 = 16;

/// Bytes of `DRIVE_LAYOUT_INFORMATION_EX` before its partitions, and of each `PARTITION_INFORMATION_EX`.
pub(crate) const LAYOUT: usize = 48;
pub(crate) const PARTITION: usize = 144;
/// The most partitions that a table is asked for: those of a GPT.
const MOST: usize = 128;

/// Tells a disk or volume that a range is no longer needed. `is_taken` is whether it was locked and dismounted, if it is a
/// volume.
///
/// # Errors
/// Other errors than that there is no such operation.
pub(crate) fn discard(driver: &dyn Control, is_taken: bool, offset: u64, length: u64) -> io::Result<()> {
    let is_free = match is_whole_disk(driver) {
        true => touches_no_partition(driver, offset, length),
        false => is_taken,
    };
    if !is_free {
        return Ok(());
    }
    let header = [HEADER, TRIM, NOT_ALLOCATED, 0, 0, RANGES, RANGE, 0];
    let mut wanted = header.map(u32::to_le_bytes).concat();
    wanted.extend([offset, length].map(u64::to_le_bytes).concat());
    match driver.send(MANAGE_DATA_SET, &wanted, &mut []) {
        Err(error) if !is_not_there(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Whether this is a disk and no volume: its partition has the number 0, or -1 where there can be none.
fn is_whole_disk(driver: &dyn Control) -> bool {
    let mut answer = [0; 12];
    let told = driver.send(DEVICE_NUMBER, &[], &mut answer);
    told.is_ok_and(|filled| filled >= answer.len() && matches!(number(&answer, 8), 0 | u32::MAX))
}

/// Whether no partition that Windows knows of has a byte of the range; `false` if it does not tell.
fn touches_no_partition(driver: &dyn Control, offset: u64, length: u64) -> bool {
    let mut answer = vec![0; LAYOUT + MOST * PARTITION];
    let Ok(filled) = driver.send(DRIVE_LAYOUT, &[], &mut answer) else { return false };
    let filled = filled.min(answer.len());
    let count = if filled < LAYOUT { return false } else { number(&answer, 4) as usize };
    let Some(end) = count.checked_mul(PARTITION).and_then(|bytes| bytes.checked_add(LAYOUT)) else {
        return false;
    };
    end <= filled
        && answer[LAYOUT..end].chunks_exact(PARTITION).all(|partition| {
            let (start, bytes) = (long(partition, 8), long(partition, 16));
            bytes == 0 || offset.saturating_add(length) <= start || start.saturating_add(bytes) <= offset
        })
}
