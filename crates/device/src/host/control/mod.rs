//! Requests to the drivers of Windows (`DeviceIoControl`), as bytes: what is asked, and how an answer is read.
//!
//! They go through [`Control`], so that tests have a Windows that answers and refuses.
//!
//! Facts: Microsoft, "Device Input and Output Control Codes" with the page of each code; the layouts of the structures are
//! those of `winioctl.h`, all little-endian.

mod properties;
mod refusals;
#[cfg(test)]
mod tests;
mod transfers;
mod trim;

pub(crate) use properties::hardware;
use properties::{ACCESS_ALIGNMENT, property};
pub(crate) use refusals::{Doing, explained};
use refusals::{NOT_THERE, WRITE_PROTECT};
use std::io;
pub(crate) use transfers::{Transfers, read_exact, write_all};
pub(crate) use trim::discard;
#[cfg(windows)]
pub(crate) use trim::{LAYOUT, PARTITION};

/// A driver that answers control codes.
pub(crate) trait Control {
    /// Sends a code with its input, and returns how many bytes of the output were filled.
    ///
    /// # Errors
    /// The error code of Windows.
    fn send(&self, code: u32, input: &[u8], output: &mut [u8]) -> io::Result<usize>;
}

/// `IOCTL_DISK_GET_LENGTH_INFO`: the length of a disk, partition or volume.
pub(crate) const GET_LENGTH: u32 = 0x0007_405C;
/// `IOCTL_DISK_GET_DRIVE_GEOMETRY`: among other things the bytes of a sector.
const GET_GEOMETRY: u32 = 0x0007_0000;
/// `IOCTL_DISK_IS_WRITABLE`: fails with [`WRITE_PROTECT`] if the medium takes no writes.
const IS_WRITABLE: u32 = 0x0007_0024;
/// `FSCTL_LOCK_VOLUME`: fails while anybody else has a file of the volume open.
const LOCK_VOLUME: u32 = 0x0009_0018;
/// `FSCTL_DISMOUNT_VOLUME`: the file system lets go of the volume until somebody opens it anew.
const DISMOUNT_VOLUME: u32 = 0x0009_0020;
/// `FSCTL_SET_SPARSE`: zeroes of a file take no room from then on.
const SET_SPARSE: u32 = 0x0009_00C4;
/// `FSCTL_SET_ZERO_DATA`: makes a range of a file read as zeroes.
const SET_ZERO_DATA: u32 = 0x0009_80C8;
/// `FSCTL_QUERY_ALLOCATED_RANGES`: the ranges of a sparse file that may hold something.
const ALLOCATED_RANGES: u32 = 0x0009_40CF;
/// `FSCTL_GET_INTEGRITY_INFORMATION`: whether ReFS keeps checksums of the content of a file.
const GET_INTEGRITY: u32 = 0x0009_027C;
/// `FSCTL_SET_INTEGRITY_INFORMATION`.
const SET_INTEGRITY: u32 = 0x0009_C280;

/// `CHECKSUM_TYPE_NONE`, `CHECKSUM_TYPE_UNCHANGED`.
const NO_CHECKSUM: u16 = 0;

/// Whether an error says that the driver does not have what was asked for.
pub(crate) fn is_not_there(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| NOT_THERE.contains(&code))
}

/// Length, logical and physical sector of a disk or volume, in bytes.
///
/// # Errors
/// The error of asking for the length, and one of the kind `InvalidData` for an answer that cannot be.
pub(crate) fn geometry(driver: &dyn Control) -> io::Result<(u64, u32, u32)> {
    let mut length = [0; 8];
    let filled =
        driver.send(GET_LENGTH, &[], &mut length).map_err(|error| explained(Doing::Measure, error))?;
    whole(filled, length.len(), "length")?;
    let (logical, physical) = match sectors(driver) {
        Ok(sectors) => sectors,
        // Older drivers do not know the property.
        Err(_) => {
            let mut geometry = [0; 24];
            whole(driver.send(GET_GEOMETRY, &[], &mut geometry)?, geometry.len(), "geometry")?;
            let bytes = number(&geometry, 20);
            (bytes, bytes)
        }
    };
    let is_sector = |bytes: u32| bytes.is_power_of_two() && (512..=65536).contains(&bytes);
    if !is_sector(logical) || !is_sector(physical) || physical < logical {
        let why = format!(
            "the driver names sectors of {logical} and {physical} bytes; expected powers of two from 512 on"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok((u64::from_le_bytes(length), logical, physical))
}

/// Logical and physical sector, by `STORAGE_ACCESS_ALIGNMENT_DESCRIPTOR`.
fn sectors(driver: &dyn Control) -> io::Result<(u32, u32)> {
    let mut answer = [0; 28];
    whole(property(driver, ACCESS_ALIGNMENT, &mut answer)?, answer.len(), "alignment")?;
    Ok((number(&answer, 16), number(&answer, 20)))
}

/// Whether a disk takes no writes.
///
/// # Errors
/// Other errors than the one that says so.
pub(crate) fn is_write_protected(driver: &dyn Control) -> io::Result<bool> {
    match driver.send(IS_WRITABLE, &[], &mut []) {
        Err(error) if error.raw_os_error() == Some(WRITE_PROTECT) => Ok(true),
        Err(error) if !is_not_there(&error) => Err(error),
        _ => Ok(false),
    }
}

/// Takes a volume from its file system, so that nobody else writes to it until it is closed.
///
/// # Errors
/// [`io::ErrorKind::ResourceBusy`] if somebody has a file of the volume open, and [`io::ErrorKind::Unsupported`] if it cannot
/// be taken.
pub(crate) fn take_volume(driver: &dyn Control) -> io::Result<()> {
    [LOCK_VOLUME, DISMOUNT_VOLUME].into_iter().try_for_each(|code| {
        driver.send(code, &[], &mut []).map(drop).map_err(|error| explained(Doing::Take, error))
    })
}

/// The first offset from `offset` on at which a file of `length` bytes may hold something.
pub(crate) fn next_data(driver: &dyn Control, offset: u64, length: u64) -> u64 {
    const MORE_DATA: i32 = 234;
    let mut asked = [0; 16];
    asked[..8].copy_from_slice(&offset.to_le_bytes());
    asked[8..].copy_from_slice(&length.saturating_sub(offset).to_le_bytes());
    let mut range = [0; 16];
    match driver.send(ALLOCATED_RANGES, &asked, &mut range) {
        Ok(0) => length,
        Ok(16) => u64::from_le_bytes(range[..8].try_into().expect("eight bytes")).clamp(offset, length),
        // There are more ranges than the one that was asked for, which has been filled.
        Err(error) if error.raw_os_error() == Some(MORE_DATA) => {
            u64::from_le_bytes(range[..8].try_into().expect("eight bytes")).clamp(offset, length)
        }
        _ => offset,
    }
}

/// Has zeroes of a file take no room. Otherwise a write at the end of a new file would write zeroes to all before it. A
/// file system without sparse files does so.
pub(crate) fn make_sparse(driver: &dyn Control) {
    let _ = driver.send(SET_SPARSE, &[], &mut []);
}

/// Makes a range of a sparse file a hole. A file system without holes keeps the content.
///
/// # Errors
/// Other errors than that there is no such operation.
pub(crate) fn make_hole(driver: &dyn Control, offset: u64, length: u64) -> io::Result<()> {
    let mut range = [0; 16];
    range[..8].copy_from_slice(&offset.to_le_bytes());
    range[8..].copy_from_slice(&offset.saturating_add(length).to_le_bytes());
    match driver.send(SET_ZERO_DATA, &range, &mut []) {
        Err(error) if !is_not_there(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Whether the file system keeps checksums of the content of a file; `None` where it has no such thing.
///
/// # Errors
/// Other errors than that there is no such thing.
pub(crate) fn integrity(driver: &dyn Control) -> io::Result<Option<bool>> {
    // FSCTL_GET_INTEGRITY_INFORMATION_BUFFER: checksum algorithm, reserved, flags, bytes of a chunk, of a cluster.
    let mut answer = [0; 16];
    match driver.send(GET_INTEGRITY, &[], &mut answer) {
        Err(error) if is_not_there(&error) => Ok(None),
        Err(error) => Err(error),
        Ok(filled) => {
            whole(filled, answer.len(), "integrity")?;
            Ok(Some(u16::from_le_bytes([answer[0], answer[1]]) != NO_CHECKSUM))
        }
    }
}

/// Has the file system keep checksums of the content of an empty file, or not, and reads back that it does.
///
/// # Errors
/// A sentence that says what is missing, if the file system has no integrity streams or did not do as it was told.
pub(crate) fn set_integrity(driver: &dyn Control, is_on: bool) -> io::Result<()> {
    const CRC64: u16 = 2;
    // FSCTL_SET_INTEGRITY_INFORMATION_BUFFER: checksum algorithm, reserved, flags.
    let mut wanted = [0; 8];
    wanted[..2].copy_from_slice(&(if is_on { CRC64 } else { NO_CHECKSUM }).to_le_bytes());
    let why = "the file system has no integrity streams; only ReFS has them: name a directory on a drive that is formatted as \
               ReFS, or leave +integrity out";
    match driver.send(SET_INTEGRITY, &wanted, &mut []) {
        Err(error) if is_not_there(&error) => return Err(io::Error::new(io::ErrorKind::Unsupported, why)),
        done => done?,
    };
    match integrity(driver)? {
        Some(found) if found == is_on => Ok(()),
        found => {
            let found = match found {
                Some(true) => "on",
                Some(false) => "off",
                None => "not there",
            };
            let why = format!("integrity was set to {}, and is {found}", if is_on { "on" } else { "off" });
            Err(io::Error::other(why))
        }
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn whole(filled: usize, expected: usize, what: &str) -> io::Result<()> {
    if filled >= expected {
        return Ok(());
    }
    let why = format!("the driver's answer about the {what} has {filled} bytes; expected {expected}");
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}
