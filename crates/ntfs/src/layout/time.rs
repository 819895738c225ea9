//! Times: 100 ns since 1601-01-01 00:00 UTC ([MS-DTYP] 2.3.3).

use platter_vfs::Timestamp;

/// A time as it is on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileTime(pub u64);

impl From<FileTime> for Timestamp {
    fn from(time: FileTime) -> Timestamp {
        Timestamp::from_file_time(time.0)
    }
}

/// The time as NTFS holds it, rounded down; one outside the range (1601 to the year 30828) becomes the nearest that it
/// can hold.
pub fn timestamp_to_file_time(time: Timestamp) -> FileTime {
    FileTime(time.to_file_time(i64::MAX as u64))
}
