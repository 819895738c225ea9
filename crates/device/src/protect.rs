//! Checks that refuse to write to a device that is in use or holds something.
//!
//! Checks that are made before anything is written. [`refuse_in_use`], for every command that writes, asks whether the
//! device is in use. [`refuse_contents`], for commands that overwrite all of it, asks whether it holds something that
//! is recognised, and [`find_data`] whether it holds anything at all. [`refuse_unlike_copies`], for a mirror, asks
//! whether its copies are of one volume. A caller that is told to write in any case skips them.

use crate::host;
use crate::marks::read_bytes;
use crate::{Device, Error, FileDevice, Operation, Result, contents};
use std::io;
use std::path::Path;

/// Refuses an image file or block device that is in use: mounted, swapped to, claimed by the kernel (device mapper,
/// RAID, a mount in another namespace), or the file behind a loop device. A path that does not exist is free.
///
/// # Errors
/// [`Error::InUse`] that says who uses it, and [`Error::Io`] if it cannot be examined.
pub fn refuse_in_use(path: &Path) -> Result<()> {
    let name = path.display().to_string();
    match host::user_of(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(Error::io(&name, Operation::Open, 0, 0, source)),
        Ok(Some(reason)) => Err(Error::InUse { device: name.into(), reason }),
        Ok(None) => Ok(()),
    }
}

/// Refuses a device whose content is recognised: see [`contents`].
///
/// # Errors
/// [`Error::Protected`] that says what it holds, and the errors of reading it.
pub fn refuse_contents(device: &dyn Device) -> Result<()> {
    match contents(device)? {
        Some(known) => {
            Err(Error::Protected { device: device.name().into(), reason: format!("holds {known}") })
        }
        None => Ok(()),
    }
}

/// Refuses a device that holds evidence: E01 and its kin, AFF. Nobody means to overwrite that, so callers ask this even when
/// they are told to write in any case.
///
/// # Errors
/// [`Error::Unusable`] that says what it holds.
pub fn refuse_evidence(device: &dyn Device) -> Result<()> {
    // What cannot be read is no evidence that anybody could use.
    match contents(device) {
        Ok(Some(known)) if known.contains("evidence") => {
            let reason = format!(
                "holds {known}, which is not written to, with --force or without; remove the file if nobody needs it"
            );
            Err(Error::Unusable { device: device.name().into(), reason })
        }
        _ => Ok(()),
    }
}

/// Refuses a regular file that holds anything at all, whatever its bytes mean: an image that nobody used is blank, and the
/// beginnings of databases, films and programs are more than any list knows. Block devices are not looked at: what a
/// disk held before is often there still.
///
/// # Errors
/// [`Error::Protected`] that says where, and the errors of reading it.
pub fn refuse_data(file: &FileDevice) -> Result<()> {
    if file.is_block_device() { Ok(()) } else { refuse_any_data(file) }
}

/// Refuses a device that holds anything at all, whatever it is: see [`refuse_data`].
///
/// # Errors
/// As [`refuse_data`].
pub fn refuse_any_data(device: &dyn Device) -> Result<()> {
    match find_data(device)? {
        Some(at) => {
            let reason = format!("is no image of a known kind and holds data, at offset {at} for one");
            Err(Error::Protected { device: device.name().into(), reason })
        }
        None => Ok(()),
    }
}

/// Looks for a byte that is not zero, and returns its offset. The beginning of a device alone shows nothing: a disk
/// whose partition table is lost begins with zeroes, and its volumes may be whole. A device of up to [`WHOLE`] bytes is
/// read from end to end, and of a longer one its ends, the places where partitions begin, and places spread over all
/// of it.
///
/// # Errors
/// The errors of reading the device: what cannot be read may hold anything.
pub(crate) fn find_data(device: &dyn Device) -> Result<Option<u64>> {
    let length = device.len();
    if length <= WHOLE {
        return find_in(device, 0..length);
    }
    let starts = (0..STARTS).map(|number| number << 20).take_while(|&at| at < length);
    let spread = (0..SPREAD).map(|number| (u128::from(length) * number / SPREAD) as u64);
    let ends = [0..ENDS, length - ENDS..length];
    let sampled =
        starts.chain(spread).map(|at| at / SAMPLE * SAMPLE..(at / SAMPLE * SAMPLE + SAMPLE).min(length));
    for range in ends.into_iter().chain(sampled) {
        if let Some(at) = find_in(device, range)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// A device of this length or less is read as a whole.
const WHOLE: u64 = 32 << 20;
/// The bytes at each end of a longer device that are read.
const ENDS: u64 = 4 << 20;
/// The number of multiples of 1 MiB, where partitions begin, at which a sample is read.
const STARTS: u64 = 1024;
/// The number of samples that are spread over the device.
const SPREAD: u128 = 1024;
/// The bytes of a sample. All of them together are 40 MiB.
const SAMPLE: u64 = 16 << 10;

// Reads are whole sectors, of which none is larger than 4096 bytes.
const _: () = assert!(SAMPLE.is_multiple_of(4096));

/// Looks for a byte that is not zero in a range; places that were never written are not read.
fn find_in(device: &dyn Device, range: std::ops::Range<u64>) -> Result<Option<u64>> {
    const PIECE: u64 = 1 << 20;
    let mut at = range.start;
    while at < range.end {
        let next = device.next_data(at).min(range.end);
        let sector = u64::from(device.sectors().logical);
        at = at.max(next / sector * sector);
        let length = PIECE.min(range.end - at);
        let data = read_bytes(device, at, length)?;
        if let Some(found) = data.iter().position(|&byte| byte != 0) {
            return Ok(Some(at + found as u64));
        }
        at += length;
    }
    Ok(None)
}

/// Refuses a device whose copies begin differently. One may then be another volume, a disk that is no part of the
/// mirror, or an outdated copy, and a write to all of them would destroy the content of one. A copy that cannot be read
/// does not count: tolerating that is the purpose of a device with copies.
///
/// # Errors
/// [`Error::Protected`] that says which copies differ and where. [`Error::Unusable`] and [`Error::Io`] if no copy can
/// be read.
pub fn refuse_unlike_copies(device: &dyn Device) -> Result<()> {
    let length = BEGINNING.next_multiple_of(u64::from(device.sectors().logical)).min(device.len());
    let mut first: Option<(usize, Vec<u8>)> = None;
    let mut unread = Ok(());
    for copy in (0..device.copies()).filter(|_| device.copies() > 1) {
        let mut data = vec![0; length as usize];
        match (device.read_copy(copy, 0, &mut data), &first) {
            (Err(error), _) => unread = unread.and(Err(error)),
            (Ok(()), None) => first = Some((copy, data)),
            (Ok(()), Some((other, expected))) => {
                if let Some(at) = (0..data.len()).find(|&at| data[at] != expected[at]) {
                    let reason = format!(
                        "copy {copy} differs from copy {other}, counted from 0, at offset {at} (expected {:#04x}, \
                         found {:#04x}): they are not copies of one volume, or one of them is old or damaged",
                        expected[at], data[at]
                    );
                    return Err(Error::Protected { device: device.name().into(), reason });
                }
            }
        }
    }
    if first.is_some() { Ok(()) } else { unread }
}

/// The number of bytes compared: the first sectors, by which volumes are told apart.
const BEGINNING: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryDevice, Sectors};

    #[test]
    fn errors_say_what_stands_in_the_way_and_how_to_go_on() {
        let device = MemoryDevice::new(1 << 20, Sectors::SMALL);
        refuse_contents(&device).unwrap();
        let mut block = [0; 512];
        block[..4].copy_from_slice(b"XFSB");
        device.write_at(0, &block).unwrap();
        let error = refuse_contents(&device).unwrap_err().to_string();
        assert_eq!(error, "mem:1048576: holds an XFS file system");
    }

    #[test]
    fn data_is_found_wherever_volumes_begin_and_end() {
        let blank = |length: u64, at: &[u64]| {
            let device = MemoryDevice::new(length, Sectors::SMALL);
            at.iter().for_each(|&at| device.write_at(at, &[1; 512]).unwrap());
            find_data(&device).unwrap()
        };
        for length in [0, 1 << 20, 100 << 20, (100 << 20) + 512] {
            assert_eq!(blank(length, &[]), None, "{length}");
        }
        assert_eq!(blank(1 << 20, &[(1 << 20) - 512]), Some((1 << 20) - 512));
        for at in [0, 1 << 20, 77 << 20, (100 << 20) - 512] {
            assert_eq!(blank(100 << 20, &[at]), Some(at));
        }
    }

    #[test]
    fn a_new_file_is_not_in_use() {
        refuse_in_use(Path::new("/no/such/image")).unwrap();
        let file = std::env::temp_dir().join(format!("platter-protect-{}.img", std::process::id()));
        std::fs::write(&file, [0; 4096]).unwrap();
        refuse_in_use(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
    }
}
