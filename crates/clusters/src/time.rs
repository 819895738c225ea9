//! Dates and times in the format of MS-DOS, which FAT and exFAT use (fatgen103, "Date and Time Formats"; exFAT
//! specification, 7.4.8).

use crate::local_time::{ahead_at, ahead_of};
use platter_vfs::{LocalTime, Timestamp, calendar};

/// A date and a time of day in local time: years 1980 to 2107, in steps of 2 seconds, or of 10 milliseconds where an
/// entry has a field for that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DosTime {
    /// Day (bits 0 to 4, from 1), month (5 to 8, from 1), year since 1980 (9 to 15). 0 means that no date is stored.
    pub date: u16,
    /// Seconds / 2 (bits 0 to 4), minutes (5 to 10), hours (11 to 15).
    pub time: u16,
    /// The time after `time` in steps of 10 ms, 0 to 199.
    pub hundredths: u8,
}

/// The precision of a time field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Steps of 10 ms.
    Hundredths,
    /// Steps of 2 s.
    TwoSeconds,
    /// Days.
    Day,
}

const DAY: i64 = 86_400;
/// 1980-01-01 and 2107-12-31 in days since 1970-01-01.
const FIRST_DAY: i64 = 3_652;
const LAST_DAY: i64 = 50_402;

impl DosTime {
    /// The local time of `timestamp` by the offset of its date: see [`DosTime::from_timestamp`].
    pub fn from_time(timestamp: Timestamp, local: LocalTime, precision: Precision) -> DosTime {
        DosTime::from_timestamp(timestamp, ahead_at(local, timestamp.seconds), precision)
    }

    /// The time in UTC, by the offset of its date: see [`DosTime::to_timestamp`].
    pub fn to_time(self, local: LocalTime) -> Timestamp {
        self.to_timestamp(ahead_of(local, self.to_timestamp(0).seconds))
    }

    /// The local time, which is `offset_minutes` ahead of UTC, of `timestamp`, rounded down to the `precision`. A time
    /// before 1980 becomes the first that the format can hold, and one after 2107 the last.
    pub fn from_timestamp(timestamp: Timestamp, offset_minutes: i32, precision: Precision) -> DosTime {
        let local = timestamp.seconds.saturating_add(i64::from(offset_minutes) * 60);
        let (days, second, centiseconds) = match local.div_euclid(DAY) {
            days if days < FIRST_DAY => (FIRST_DAY, 0, 0),
            days if days > LAST_DAY => (LAST_DAY, DAY - 1, 99),
            days => (days, local.rem_euclid(DAY), timestamp.nanoseconds.min(999_999_999) / 10_000_000),
        };
        let (year, month, day) = calendar::date(days);
        let date = ((year - 1980) << 9 | month << 5 | day) as u16;
        let (hour, minute, step) = (second / 3600, second / 60 % 60, second % 60 / 2);
        let time = hour << 11 | minute << 5 | step;
        let hundredths = (second % 2 * 100) as u8 + centiseconds as u8;
        match precision {
            Precision::Hundredths => DosTime { date, time: time as u16, hundredths },
            Precision::TwoSeconds => DosTime { date, time: time as u16, hundredths: 0 },
            Precision::Day => DosTime { date, time: 0, hundredths: 0 },
        }
    }

    /// The time in UTC. A field outside its range counts as the nearest value inside.
    pub fn to_timestamp(self, offset_minutes: i32) -> Timestamp {
        let year = 1980 + i64::from(self.date >> 9);
        let month = i64::from(self.date >> 5 & 0xF).clamp(1, 12);
        let day = i64::from(self.date & 0x1F).clamp(1, days_in(year, month));
        let hour = i64::from(self.time >> 11).min(23);
        let minute = i64::from(self.time >> 5 & 0x3F).min(59);
        let second = (i64::from(self.time & 0x1F) * 2).min(58);
        let hundredths = i64::from(self.hundredths.min(199));
        let local = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second + hundredths / 100;
        Timestamp {
            seconds: local - i64::from(offset_minutes) * 60,
            nanoseconds: (hundredths % 100) as u32 * 10_000_000,
        }
    }

    /// Whether a date is stored: creation and access may be missing.
    pub fn is_set(self) -> bool {
        self.date != 0
    }
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years are counted from March, so that the leap day is
/// the last day of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64, nanoseconds: u32) -> Timestamp {
        Timestamp { seconds, nanoseconds }
    }

    #[test]
    fn golden() {
        // 2024-02-29 12:34:57.89 UTC.
        let time = at(1_709_210_097, 890_000_000);
        let created = DosTime::from_timestamp(time, 0, Precision::Hundredths);
        assert_eq!(
            created,
            DosTime { date: 44 << 9 | 2 << 5 | 29, time: 12 << 11 | 34 << 5 | 28, hundredths: 189 }
        );
        assert_eq!(created.to_timestamp(0), time);
        let modified = DosTime::from_timestamp(time, 0, Precision::TwoSeconds);
        assert_eq!(modified.to_timestamp(0), at(1_709_210_096, 0));
        let accessed = DosTime::from_timestamp(time, 0, Precision::Day);
        assert_eq!(accessed.to_timestamp(0), at(1_709_164_800, 0));
        // Two hours ahead of UTC, the local time is 14:34.
        let ahead = DosTime::from_timestamp(time, 120, Precision::Hundredths);
        assert_eq!(ahead.time >> 11, 14);
        assert_eq!(ahead.to_timestamp(120), time);
    }

    #[test]
    fn clamps_to_1980_and_2107() {
        for early in [i64::MIN, -1, 0, 315_532_799] {
            let time = DosTime::from_timestamp(at(early, 0), 0, Precision::Hundredths).to_timestamp(0);
            assert_eq!(time, at(315_532_800, 0));
        }
        for late in [4_354_819_200, i64::MAX] {
            let time = DosTime::from_timestamp(at(late, 0), 0, Precision::Hundredths).to_timestamp(0);
            assert_eq!(time, at(4_354_819_199, 990_000_000));
        }
    }

    #[test]
    fn every_day_comes_back() {
        for day in FIRST_DAY..=LAST_DAY {
            let time = at(day * DAY, 0);
            assert_eq!(DosTime::from_timestamp(time, 0, Precision::Day).to_timestamp(0), time, "day {day}");
        }
    }

    #[test]
    fn nonsense_is_brought_into_range() {
        let time = DosTime { date: 0xFFFF, time: 0xFFFF, hundredths: 255 }.to_timestamp(0);
        assert_eq!(time, at(4_354_819_199, 990_000_000));
        DosTime::default().to_timestamp(i32::MIN);
        DosTime::default().to_timestamp(i32::MAX);
    }
}
