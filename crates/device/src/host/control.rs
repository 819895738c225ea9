//! Requests to the drivers of Windows (`DeviceIoControl`), as bytes: what is asked, and how an answer is read.
//!
//! They go through [`Control`], so that tests have a Windows that answers and refuses.
//!
//! Facts: Microsoft, "Device Input and Output Control Codes" with the page of each code; the layouts of the structures are
//! those of `winioctl.h`, all little-endian.

use std::io;

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
/// `IOCTL_STORAGE_QUERY_PROPERTY`.
const QUERY_PROPERTY: u32 = 0x002D_1400;
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

/// `ERROR_WRITE_PROTECT`.
const WRITE_PROTECT: i32 = 19;
/// `ERROR_ACCESS_DENIED`.
pub(crate) const ACCESS_DENIED: i32 = 5;
/// The codes of what a driver does not have: `ERROR_INVALID_FUNCTION`, `ERROR_NOT_SUPPORTED`.
const NOT_THERE: [i32; 2] = [1, 50];

/// The property `StorageAccessAlignmentProperty` of [`QUERY_PROPERTY`].
const ACCESS_ALIGNMENT: u32 = 6;
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
    whole(driver.send(GET_LENGTH, &[], &mut length)?, length.len(), "length")?;
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
    // STORAGE_PROPERTY_QUERY: the property, and 0 for a standard query.
    let mut query = [0; 12];
    query[..4].copy_from_slice(&ACCESS_ALIGNMENT.to_le_bytes());
    let mut answer = [0; 28];
    whole(driver.send(QUERY_PROPERTY, &query, &mut answer)?, answer.len(), "alignment")?;
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
/// [`io::ErrorKind::ResourceBusy`] if somebody has a file of the volume open.
pub(crate) fn take_volume(driver: &dyn Control) -> io::Result<()> {
    if let Err(error) = driver.send(LOCK_VOLUME, &[], &mut []) {
        let why = "files of this volume are open, or Windows itself uses it; close the programs that have them open";
        return Err(match error.raw_os_error() {
            Some(ACCESS_DENIED) => io::Error::new(io::ErrorKind::ResourceBusy, why),
            _ => error,
        });
    }
    driver.send(DISMOUNT_VOLUME, &[], &mut []).map(drop)
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
    let why = "the file system has no integrity streams; only ReFS has them";
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

fn whole(filled: usize, expected: usize, what: &str) -> io::Result<()> {
    if filled >= expected {
        return Ok(());
    }
    let why = format!("the driver's answer about the {what} has {filled} bytes; expected {expected}");
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    /// A Windows that answers as it is documented, or refuses.
    #[derive(Default)]
    struct Fake {
        /// Codes that fail, with the error of each.
        refused: Vec<(u32, i32)>,
        alignment: (u32, u32),
        sector: u32,
        integrity: Cell<u16>,
        /// Whether setting integrity is accepted and does nothing.
        is_deaf: bool,
        ranges: Vec<(u64, u64)>,
        sent: RefCell<Vec<u32>>,
    }

    impl Control for Fake {
        fn send(&self, code: u32, input: &[u8], output: &mut [u8]) -> io::Result<usize> {
            self.sent.borrow_mut().push(code);
            if let Some((_, error)) = self.refused.iter().find(|(refused, _)| *refused == code) {
                return Err(io::Error::from_raw_os_error(*error));
            }
            let mut put = |bytes: &[u8]| {
                output[..bytes.len()].copy_from_slice(bytes);
                Ok(bytes.len())
            };
            match code {
                GET_LENGTH => put(&(1_u64 << 30).to_le_bytes()),
                QUERY_PROPERTY => {
                    assert_eq!((number(input, 0), number(input, 4)), (6, 0));
                    let fields = [28, 28, 0, 0, self.alignment.0, self.alignment.1, 0];
                    put(&fields.map(u32::to_le_bytes).concat())
                }
                GET_GEOMETRY => put(&[0, 0, 12, 1, 1, self.sector].map(u32::to_le_bytes).concat()),
                GET_INTEGRITY => {
                    let fields = [u32::from(self.integrity.get()), 0, 16384, 4096];
                    put(&fields.map(u32::to_le_bytes).concat())
                }
                SET_INTEGRITY => {
                    assert_eq!(input.len(), 8);
                    if !self.is_deaf {
                        self.integrity.set(u16::from_le_bytes([input[0], input[1]]));
                    }
                    Ok(0)
                }
                ALLOCATED_RANGES => {
                    let from = u64::from_le_bytes(input[..8].try_into().unwrap());
                    let mut later = self.ranges.iter().filter(|(start, length)| start + length > from);
                    let Some((start, length)) = later.next() else { return Ok(0) };
                    let start = (*start).max(from);
                    put(&[start, *length].map(u64::to_le_bytes).concat())?;
                    if later.next().is_some() { Err(io::Error::from_raw_os_error(234)) } else { Ok(16) }
                }
                _ => Ok(0),
            }
        }
    }

    #[test]
    fn sectors_are_those_of_the_property_or_of_the_geometry() {
        let disk = Fake { alignment: (512, 4096), sector: 512, ..Fake::default() };
        assert_eq!(geometry(&disk).unwrap(), (1 << 30, 512, 4096));
        let old = Fake { refused: vec![(QUERY_PROPERTY, 1)], sector: 4096, ..Fake::default() };
        assert_eq!(geometry(&old).unwrap(), (1 << 30, 4096, 4096));
        for alignment in [(0, 0), (512, 256), (513, 4096), (512, 1 << 20)] {
            let wrong = geometry(&Fake { alignment, ..Fake::default() }).unwrap_err().to_string();
            assert!(wrong.contains("expected powers of two"), "{wrong}");
        }
        let nothing = Fake { refused: vec![(GET_LENGTH, 5)], ..Fake::default() };
        assert_eq!(geometry(&nothing).unwrap_err().raw_os_error(), Some(5));
    }

    #[test]
    fn a_medium_that_takes_no_writes_says_so() {
        let of = |error| is_write_protected(&Fake { refused: vec![(IS_WRITABLE, error)], ..Fake::default() });
        assert!(of(WRITE_PROTECT).unwrap());
        assert!(!of(1).unwrap() && !is_write_protected(&Fake::default()).unwrap());
        assert!(of(21).is_err());
    }

    #[test]
    fn a_volume_is_locked_before_it_is_dismounted_and_one_in_use_is_refused() {
        let free = Fake::default();
        take_volume(&free).unwrap();
        assert_eq!(*free.sent.borrow(), [LOCK_VOLUME, DISMOUNT_VOLUME]);
        let used = Fake { refused: vec![(LOCK_VOLUME, ACCESS_DENIED)], ..Fake::default() };
        let error = take_volume(&used).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert!(error.to_string().contains("close the programs"), "{error}");
        assert_eq!(*used.sent.borrow(), [LOCK_VOLUME]);
    }

    #[test]
    fn integrity_is_set_and_read_back() {
        let refs = Fake::default();
        for is_on in [true, false] {
            set_integrity(&refs, is_on).unwrap();
            assert_eq!(integrity(&refs).unwrap(), Some(is_on));
        }
        let deaf = Fake { is_deaf: true, ..Fake::default() };
        assert!(set_integrity(&deaf, true).unwrap_err().to_string().contains("set to on, and is off"));
        let ntfs = Fake { refused: vec![(SET_INTEGRITY, 1), (GET_INTEGRITY, 1)], ..Fake::default() };
        let error = set_integrity(&ntfs, true).unwrap_err();
        assert!(error.to_string().contains("only ReFS has them"), "{error}");
        assert_eq!(integrity(&ntfs).unwrap(), None);
    }

    #[test]
    fn holes_of_files_are_passed_over() {
        let file = Fake { ranges: vec![(4096, 4096), (1 << 20, 4096)], ..Fake::default() };
        let next = |offset| next_data(&file, offset, 2 << 20);
        assert_eq!(
            [0, 5000, 8192, 1 << 20, (1 << 20) + 4096].map(next),
            [4096, 5000, 1 << 20, 1 << 20, 2 << 20]
        );
        let no_holes = Fake { refused: vec![(ALLOCATED_RANGES, 50), (SET_ZERO_DATA, 50)], ..Fake::default() };
        assert_eq!(next_data(&no_holes, 7, 100), 7);
        make_sparse(&no_holes);
        make_hole(&no_holes, 0, 4096).unwrap();
        let full = Fake { refused: vec![(SET_ZERO_DATA, 112)], ..Fake::default() };
        assert!(make_hole(&full, 0, 4096).is_err());
    }
}
