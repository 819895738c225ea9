//! By how much local time is ahead of UTC, at any date.

use chrono::{DateTime, Local, LocalResult, Offset, TimeZone};
use platter_vfs::LocalTime;

/// Returns the minutes by which local time is ahead of UTC at a time, which is given in seconds since 1970 UTC.
pub fn ahead_at(local: LocalTime, seconds: i64) -> i32 {
    let minutes = |utc: DateTime<chrono::Utc>| {
        Local.offset_from_utc_datetime(&utc.naive_utc()).fix().local_minus_utc() / 60
    };
    match local {
        LocalTime::Ahead(minutes) => minutes,
        LocalTime::System => DateTime::from_timestamp(seconds, 0).map_or(0, minutes),
    }
}

/// Returns the minutes by which a local time is ahead of UTC. It is given as if it were UTC, in seconds since 1970. Of the
/// hour that is there twice when summer time ends the first is taken, and for the hour that summer time leaves out what
/// holds before it.
pub fn ahead_of(local: LocalTime, local_seconds: i64) -> i32 {
    match local {
        LocalTime::Ahead(minutes) => minutes,
        LocalTime::System => {
            let Some(time) = DateTime::from_timestamp(local_seconds, 0) else { return 0 };
            match Local.offset_from_local_datetime(&time.naive_utc()) {
                LocalResult::Single(offset) | LocalResult::Ambiguous(offset, _) => {
                    offset.fix().local_minus_utc() / 60
                }
                LocalResult::None => {
                    const LONGEST_CHANGE: i64 = 3 * 3600;
                    let before = local_seconds - LONGEST_CHANGE;
                    ahead_at(local, before - i64::from(ahead_at(local, before)) * 60)
                }
            }
        }
    }
}
