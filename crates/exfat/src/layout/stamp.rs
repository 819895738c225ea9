//! Times with their offset from UTC (7.4.8 to 7.4.10).

use platter_clusters::{DosTime, Precision, ahead_at, ahead_of};
use platter_vfs::{LocalTime, Timestamp};

/// A local time and its offset from UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// `Timestamp` and `10msIncrement`: the local time.
    pub local: DosTime,
    /// `UtcOffset`: the offset in quarters of an hour in bits 0 to 6, signed; bit 7 marks it as valid.
    pub offset: u8,
}

/// The bit of `UtcOffset` that marks it as valid.
const VALID: u8 = 0x80;

impl Stamp {
    /// Makes a stamp from the four bytes of a `Timestamp` field, its `10msIncrement` and its `UtcOffset`.
    pub fn new(timestamp: u32, hundredths: u8, offset: u8) -> Stamp {
        let local = DosTime { date: (timestamp >> 16) as u16, time: timestamp as u16, hundredths };
        Stamp { local, offset }
    }

    /// Returns the four bytes of the `Timestamp` field.
    pub fn timestamp(&self) -> u32 {
        u32::from(self.local.date) << 16 | u32::from(self.local.time)
    }

    /// Makes a stamp of a time. Local time is `minutes` ahead of UTC; UTC is recorded instead if `minutes` is no
    /// multiple of 15 within 16 hours (7.4.10.1).
    pub fn from_timestamp(time: Timestamp, minutes: i32, precision: Precision) -> Stamp {
        let minutes = if minutes % 15 == 0 && (-64..64).contains(&(minutes / 15)) { minutes } else { 0 };
        let offset = VALID | (minutes / 15) as u8 & 0x7F;
        Stamp { local: DosTime::from_timestamp(time, minutes, precision), offset }
    }

    /// Makes a stamp of a time by the offset of its date: see [`Stamp::from_timestamp`].
    pub fn from_time(time: Timestamp, local: LocalTime, precision: Precision) -> Stamp {
        Stamp::from_timestamp(time, ahead_at(local, time.seconds), precision)
    }

    /// Returns the time in UTC. Where the offset is not valid, it is a local time with the offset of its date.
    pub fn to_time(self, local: LocalTime) -> Timestamp {
        self.to_timestamp(ahead_of(local, self.local.to_timestamp(0).seconds))
    }

    /// Returns the time in UTC. Where the offset is not valid, local time is taken to be `minutes` ahead.
    pub fn to_timestamp(self, minutes: i32) -> Timestamp {
        let own = i32::from((self.offset << 1) as i8 >> 1) * 15;
        self.local.to_timestamp(if self.offset & VALID == 0 { minutes } else { own })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarters_of_an_hour_both_ways() {
        let time = Timestamp { seconds: 1_709_210_097, nanoseconds: 890_000_000 };
        for (minutes, offset) in
            [(0, 0x80), (15, 0x81), (-15, 0xFF), (-960, 0xC0), (945, 0xBF), (7, 0x80), (2000, 0x80)]
        {
            let stamp = Stamp::from_timestamp(time, minutes, Precision::Hundredths);
            assert_eq!(stamp.offset, offset, "{minutes}");
            assert_eq!(stamp.to_timestamp(333), time, "{minutes}");
            assert_eq!(Stamp::new(stamp.timestamp(), stamp.local.hundredths, offset), stamp);
        }
        let unknown = Stamp { offset: 0, ..Stamp::from_timestamp(time, 0, Precision::Hundredths) };
        assert_eq!(unknown.to_timestamp(60).seconds, time.seconds - 3600);
    }
}
