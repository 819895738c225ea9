//! fio's iolog, versions 2 and 3.
//!
//! Facts: "Trace file format v2" and "v3" in fio's HOWTO. A line is `FILE ACTION` or `FILE ACTION OFFSET LENGTH`; in version 3 a
//! time stands before it, in microseconds since the beginning (seen in logs that fio 3.33 wrote). In version 2, `wait` waits
//! for its offset in microseconds since the last `wait`.

use super::{Lines, Log, Malformed, number, words};
use crate::What;
use std::io::BufRead;
use std::time::Duration;

const HEAD: &[u8] = b"fio version ";

pub(super) fn is_one(head: &[u8]) -> bool {
    head.starts_with(HEAD)
}

pub(super) fn parse(reader: &mut dyn BufRead, log: &mut Log) -> Result<(), Malformed> {
    let mut lines = Lines { reader, number: 0 };
    let first = lines.next()?.map(|(_, line)| line).unwrap_or_default();
    let is_timed = match &first[..] {
        b"fio version 2 iolog" => false,
        b"fio version 3 iolog" => true,
        other => {
            let what = format!("expected version 2 or 3, found {:?}", String::from_utf8_lossy(other));
            return Err(Malformed::line(1, what));
        }
    };
    // The time of the last event, or of the last `wait`.
    let mut now = Duration::ZERO;
    while let Some((at, line)) = lines.next()? {
        let words = words(&line);
        if words.is_empty() {
            continue;
        }
        action(&words, is_timed, &mut now, log).map_err(|what| Malformed::line(at, what))?;
    }
    Ok(())
}

fn action(words: &[&[u8]], is_timed: bool, now: &mut Duration, log: &mut Log) -> Result<(), String> {
    let rest = match (is_timed, words) {
        (false, rest) => rest,
        (true, [time, rest @ ..]) => {
            *now = Duration::from_micros(number(time, "a time in microseconds")?);
            rest
        }
        (true, []) => return Ok(()),
    };
    match *rest {
        // All files are open for the whole replay.
        [name, b"add" | b"open" | b"close"] => log.file(name).map(drop),
        [_, b"wait", time] | [_, b"wait", time, _] if !is_timed => {
            *now += Duration::from_micros(number(time, "microseconds to wait")?);
            Ok(())
        }
        [name, what @ (b"read" | b"write" | b"sync" | b"datasync" | b"trim"), offset, length] => {
            let (offset, length) = (number(offset, "an offset")?, number(length, "a length")?);
            let file = log.file(name)?;
            match what {
                b"read" => log.add(*now, file, What::Read, offset, length),
                b"write" => log.add(*now, file, What::Write, offset, length),
                b"trim" => {
                    log.discards += 1;
                    Ok(())
                }
                _ => log.add(*now, file, What::Sync, 0, 0),
            }
        }
        _ => {
            let line: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
            let form =
                if is_timed { "TIME FILE ACTION [OFFSET LENGTH]" } else { "FILE ACTION [OFFSET LENGTH]" };
            Err(format!(
                "expected {form} with read, write, sync, datasync, trim{}, add, open or close; found {:?}",
                if is_timed { "" } else { ", wait" },
                line.join(" ").chars().take(80).collect::<String>()
            ))
        }
    }
}
