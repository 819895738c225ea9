//! Times of the host and of volumes.

use platter_vfs::{Change, Timestamp};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};
use std::fs::FileTimes;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timestamp::from(after),
        Err(before) => {
            // Nanoseconds count forward from the second before.
            let before = before.duration();
            let part = before.subsec_nanos();
            let whole = -(before.as_secs() as i64);
            if part == 0 {
                Timestamp { seconds: whole, nanoseconds: 0 }
            } else {
                Timestamp { seconds: whole - 1, nanoseconds: 1_000_000_000 - part }
            }
        }
    }
}

fn system_time(time: Timestamp) -> Option<SystemTime> {
    let part = Duration::from_nanos(u64::from(time.nanoseconds));
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let second = if time.seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    second?.checked_add(part)
}

/// The times that a host file can be given.
pub fn times(change: &Change) -> FileTimes {
    let mut times = FileTimes::new();
    if let Some(time) = change.modified.and_then(system_time) {
        times = times.set_modified(time);
    }
    if let Some(time) = change.accessed.and_then(system_time) {
        times = times.set_accessed(time);
    }
    times
}

/// Gives what is at a path, and not what it may lead to, its times.
pub fn set_times(path: &Path, change: &Change) -> std::io::Result<()> {
    let spec = |time: Option<Timestamp>| match time {
        Some(time) => Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() },
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    };
    let times = Timestamps { last_access: spec(change.accessed), last_modification: spec(change.modified) };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_way_there_and_back() {
        for (seconds, nanoseconds) in [(0, 0), (1_000_000_000, 5), (-1, 0), (-1, 999_999_999), (-86_400, 1)] {
            let time = Timestamp { seconds, nanoseconds };
            assert_eq!(timestamp(system_time(time).unwrap()), time);
        }
    }
}
