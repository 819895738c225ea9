//! Times: 100 ns since 1601-01-01 00:00 UTC ([MS-DTYP] 2.3.3).

use platter_vfs::Timestamp;

/// A time as it stands on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileTime(pub u64);

/// Seconds from 1601 to 1970.
const TO_1970: i64 = 11_644_473_600;

impl From<FileTime> for Timestamp {
    fn from(time: FileTime) -> Timestamp {
        Timestamp {
            seconds: (time.0 / 10_000_000) as i64 - TO_1970,
            nanoseconds: (time.0 % 10_000_000) as u32 * 100,
        }
    }
}

/// The time as NTFS holds it, rounded down; one outside the range (1601 to the year 30828) becomes the nearest that it
/// can hold.
pub fn timestamp_to_file_time(time: Timestamp) -> FileTime {
    let seconds = i128::from(time.seconds) + i128::from(TO_1970);
    let ticks = seconds * 10_000_000 + i128::from(time.nanoseconds / 100);
    FileTime(ticks.clamp(0, i128::from(i64::MAX)) as u64)
}
