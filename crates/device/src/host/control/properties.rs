//! What a disk tells of itself.
//!
//! Facts: Microsoft, "IOCTL_STORAGE_QUERY_PROPERTY", "STORAGE_PROPERTY_QUERY", "STORAGE_DEVICE_DESCRIPTOR",
//! "DEVICE_SEEK_PENALTY_DESCRIPTOR", "STORAGE_WRITE_CACHE_PROPERTY".

use super::{Control, number, whole};
use crate::host::Hardware;
use std::io;

/// `IOCTL_STORAGE_QUERY_PROPERTY`, which needs no right to the disk's content.
pub(super) const QUERY_PROPERTY: u32 = 0x002D_1400;

/// `StorageDeviceProperty`.
pub(super) const DEVICE: u32 = 0;
/// `StorageDeviceWriteCacheProperty`.
pub(super) const WRITE_CACHE: u32 = 4;
/// `StorageAccessAlignmentProperty`.
pub(super) const ACCESS_ALIGNMENT: u32 = 6;
/// `StorageDeviceSeekPenaltyProperty`.
pub(super) const SEEK_PENALTY: u32 = 7;

/// The most bytes of a descriptor that are asked for: the texts of SCSI and NVMe are a few dozen.
const MOST: usize = 1024;

/// Asks for a property; returns how many bytes the driver filled.
///
/// # Errors
/// The error code of Windows.
pub(super) fn property(driver: &dyn Control, property: u32, answer: &mut [u8]) -> io::Result<usize> {
    // STORAGE_PROPERTY_QUERY: the property, and 0 for a standard query.
    let mut query = [0; 12];
    query[..4].copy_from_slice(&property.to_le_bytes());
    Ok(driver.send(QUERY_PROPERTY, &query, answer)?.min(answer.len()))
}

/// Model, firmware, kind and write cache of a disk, or of the disk below a volume: what the driver tells of these.
pub(crate) fn hardware(driver: &dyn Control) -> Hardware {
    let (model, firmware) = names(driver).unwrap_or_default();
    Hardware { model, rotational: seeks(driver), firmware, write_cache: write_cache(driver) }
}

/// The model and the version of the firmware.
fn names(driver: &dyn Control) -> Option<(Option<String>, Option<String>)> {
    const HEADER: usize = 36;
    let mut answer = [0; MOST];
    let filled = property(driver, DEVICE, &mut answer).ok()?;
    whole(filled, HEADER, "device").ok()?;
    let answer = &answer[..filled];
    // The offset of each text; 0 where there is none.
    let [maker, product, firmware] = [12, 16, 20].map(|field| text(answer, number(answer, field) as usize));
    let model = [maker, product].into_iter().flatten().collect::<Vec<_>>().join(" ");
    Some((Some(model).filter(|model| !model.is_empty()), firmware))
}

/// A text that ends with a zero, without the spaces around it; `None` if there is none.
fn text(answer: &[u8], at: usize) -> Option<String> {
    let bytes = answer.get(at..).filter(|_| at > 0)?;
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let letters = bytes[..end].iter().filter(|byte| matches!(byte, b' '..=b'~'));
    let text: String = letters.map(|&byte| char::from(byte)).collect();
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Whether the disk has to move its heads.
fn seeks(driver: &dyn Control) -> Option<bool> {
    let mut answer = [0; 12];
    let filled = property(driver, SEEK_PENALTY, &mut answer).ok()?;
    // Version, size, and one byte for whether there is such a penalty.
    (filled > 8).then_some(answer[8] != 0)
}

/// What the disk's cache does with writes, and whether Windows leaves out to empty it ("turn off Windows write-cache buffer
/// flushing"): then durable writes are not, and faster than they would be.
fn write_cache(driver: &dyn Control) -> Option<String> {
    const SIZE: usize = 28;
    const DISABLED: u32 = 1;
    const ENABLED: u32 = 2;
    let mut answer = [0; SIZE];
    let filled = property(driver, WRITE_CACHE, &mut answer).ok()?;
    // UserDefinedPowerProtection is the last field but one.
    whole(filled, SIZE - 2, "write cache").ok()?;
    let is_not_emptied = answer[25] != 0;
    match number(&answer, 12) {
        DISABLED => Some("write through".into()),
        ENABLED if is_not_emptied => {
            Some("write back, and Windows never empties it (buffer flushing is turned off)".into())
        }
        ENABLED => Some("write back".into()),
        _ => None,
    }
}
