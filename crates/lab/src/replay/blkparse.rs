//! What blkparse prints of a trace.
//!
//! Facts: blkparse(1): by default a line is `MAJOR,MINOR CPU SEQUENCE TIME PID ACTION RWBS`, and for most actions
//! `SECTOR + COUNT [PROCESS]` follows, in sectors of 512 bytes. `RWBS` has R for a read, W for a write, D for a discard, F for a
//! flush (behind the W it means forced unit access), N for none. Sums of each processor, device and all stand at the end.

use super::{Lines, Log, Malformed, SECTOR, number, words};
use crate::What;
use std::io::BufRead;
use std::time::Duration;

pub(super) fn is_one(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    words(line).first().is_some_and(|word| is_device(word))
}

/// Whether a word is `MAJOR,MINOR`.
fn is_device(word: &[u8]) -> bool {
    let mut parts = word.split(|byte| *byte == b',');
    let is_number = |part: Option<&[u8]>| {
        part.is_some_and(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit))
    };
    is_number(parts.next()) && is_number(parts.next()) && parts.next().is_none()
}

pub(super) fn parse(reader: &mut dyn BufRead, log: &mut Log) -> Result<(), Malformed> {
    let mut lines = Lines { reader, number: 0 };
    while let Some((at, line)) = lines.next()? {
        let words = words(&line);
        match words.first() {
            None => continue,
            // The sums.
            Some(first) if first.starts_with(b"CPU") || first.starts_with(b"Total") => break,
            Some(_) => record(&words, log).map_err(|what| Malformed::line(at, what))?,
        }
    }
    Ok(())
}

fn record(words: &[&[u8]], log: &mut Log) -> Result<(), String> {
    let [device, _cpu, _sequence, time, _pid, action, rest @ ..] = words else {
        return Err(format!(
            "expected MAJOR,MINOR CPU SEQUENCE TIME PID ACTION RWBS, found {} words",
            words.len()
        ));
    };
    if !is_device(device) {
        return Err(format!("expected MAJOR,MINOR, found {:?}", String::from_utf8_lossy(device)));
    }
    let time = seconds(time)?;
    // What was asked for; where it was merged or split is the device's business.
    if *action != b"Q" {
        return Ok(());
    }
    let [kind, place @ ..] = rest else { return Err("expected RWBS behind the action".into()) };
    let range = match *place {
        [sector, b"+", count, ..] => {
            let bytes = |word: &[u8], what: &str| {
                number(word, what)?.checked_mul(SECTOR).ok_or_else(|| format!("{what} that no device has"))
            };
            Some((bytes(sector, "a sector")?, bytes(count, "a number of sectors")?))
        }
        _ => None,
    };
    let file = log.file(device)?;
    let is = |letter: u8| kind.contains(&letter);
    match range.filter(|(_, length)| *length > 0) {
        Some(_) if is(b'D') => {
            log.discards += 1;
            Ok(())
        }
        Some((offset, length)) if is(b'R') => log.add(time, file, What::Read, offset, length),
        Some((offset, length)) if is(b'W') => log.add(time, file, What::Write, offset, length),
        None if is(b'F') => log.add(time, file, What::Sync, 0, 0),
        // A command that moves no data.
        _ if is(b'N') || range.is_none_or(|(_, length)| length == 0) => Ok(()),
        _ => Err(format!("expected R, W, D, F or N in RWBS, found {:?}", String::from_utf8_lossy(kind))),
    }
}

/// Seconds with nine decimal places.
fn seconds(word: &[u8]) -> Result<Duration, String> {
    let text = String::from_utf8_lossy(word);
    let wrong = || format!("expected a time in seconds, found {text:?}");
    let (whole, fraction) = text.split_once('.').ok_or_else(wrong)?;
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let whole: u32 = whole.parse().map_err(|_| wrong())?;
    let nanoseconds: u32 = format!("{fraction:0<9}").parse().map_err(|_| wrong())?;
    Ok(Duration::new(whole.into(), nanoseconds))
}
