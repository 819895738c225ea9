//! Printing for people and for scripts.

use crate::command::failure::{Failure, printable};
use chrono::{DateTime, Local, NaiveDate, NaiveDateTime, SecondsFormat, TimeZone, Utc};
use platter_vfs::{DosFlags, Kind, Name, Timestamp};
use serde::Serialize;
use std::fmt::{self, Display};
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

/// Standard output, buffered. If its reader goes away, the command ends without an error message.
pub(super) struct Output {
    writer: BufWriter<StdoutLock<'static>>,
    terminal: bool,
}

impl Output {
    pub(super) fn new() -> Output {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        Output { writer: BufWriter::new(stdout.lock()), terminal }
    }

    /// Whether standard output is a terminal.
    pub(super) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The width of the terminal in columns; `None` if standard output is no terminal.
    #[allow(dead_code, reason = "the tables of the lab's reports are the first to ask for it")]
    pub(super) fn width(&self) -> Option<usize> {
        let (width, _) = terminal_size::terminal_size_of(io::stdout())?;
        Some(usize::from(width.0)).filter(|_| self.terminal)
    }

    /// Writes bytes unchanged.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.writer.write_all(bytes).map_err(failure)
    }

    /// Writes a line for people. Control characters become `?`: names, labels and paths on a volume may be hostile.
    pub(super) fn line(&mut self, line: impl fmt::Display) -> Result<(), Failure> {
        writeln!(self.writer, "{}", printable(&line.to_string())).map_err(failure)
    }

    /// Writes facts, a line each, with the values below each other.
    pub(super) fn facts<'f>(
        &mut self,
        indent: &str,
        facts: impl Iterator<Item = (&'f str, &'f str)> + Clone,
    ) -> Result<(), Failure> {
        let width = facts.clone().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        { facts }.try_for_each(|(name, value)| self.line(format_args!("{indent}{name:<width$}  {value}")))
    }

    /// Writes a name: its bytes if a program reads, without control characters if a terminal shows it.
    pub(super) fn name(&mut self, name: &Name) -> Result<(), Failure> {
        if !self.terminal {
            return self.bytes(&name.to_bytes());
        }
        self.bytes(printable(&name.to_string()).as_bytes())
    }

    /// Writes a JSON document for scripts.
    pub(super) fn json(&mut self, document: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(document).expect("plain data has a JSON form");
        writeln!(self.writer, "{text}").map_err(failure)
    }

    /// Writes out the buffer.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.writer.flush().map_err(failure)
    }
}

/// Returns the failure for an error of writing standard output; it has no message if the reader is gone.
pub(super) fn failure(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Failure::silent()
    } else {
        Failure::from_io("standard output", &error)
    }
}

/// Formats a time for people, in local time as on its date, to the second.
pub(super) fn local_time(time: Timestamp) -> String {
    shown_in(time, &Local)
}

fn shown_in<Z: TimeZone<Offset: Display>>(time: Timestamp, zone: &Z) -> String {
    let utc = DateTime::<Utc>::from_timestamp(time.seconds, time.nanoseconds);
    let local = utc.map(|utc| utc.with_timezone(zone).format("%Y-%m-%d %H:%M:%S").to_string());
    local.unwrap_or_else(|| "-".to_string())
}

/// Formats a time for scripts, in UTC (RFC 3339).
pub(super) fn utc_time(time: Timestamp) -> String {
    let utc = DateTime::<Utc>::from_timestamp(time.seconds, time.nanoseconds);
    utc.map_or_else(|| "-".to_string(), |utc| utc.to_rfc3339_opts(SecondsFormat::AutoSi, true))
}

/// Parses a time that a user types: a date, a date with a time of day (both in local time), or RFC 3339.
pub(super) fn parse_time(text: &str) -> Result<Timestamp, String> {
    parse_time_in(text, &Local)
}

fn parse_time_in<Z: TimeZone>(text: &str, zone: &Z) -> Result<Timestamp, String> {
    let stamp = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Ok(stamp(time.timestamp(), time.timestamp_subsec_nanos()));
    }
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().and_then(|day| day.and_hms_opt(0, 0, 0));
    let formats = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M"];
    let mut times = formats.iter().filter_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
    // Of an hour that comes twice the first is meant.
    let local = day.or_else(|| times.next()).and_then(|time| zone.from_local_datetime(&time).earliest());
    let local =
        local.ok_or("expected a time such as 2026-03-31, \"2026-03-31 15:20:00\" or 2026-03-31T15:20:00Z")?;
    Ok(stamp(local.timestamp(), local.timestamp_subsec_nanos()))
}

const FLAGS: [(DosFlags, char, &str); 4] = [
    (DosFlags::READ_ONLY, 'r', "read-only"),
    (DosFlags::HIDDEN, 'h', "hidden"),
    (DosFlags::SYSTEM, 's', "system"),
    (DosFlags::ARCHIVE, 'a', "archive"),
];

/// Flags as letters: read-only, hidden, system, archive.
pub(super) fn flag_letters(flags: DosFlags) -> String {
    FLAGS.iter().map(|&(flag, letter, _)| if flags.contains(flag) { letter } else { '-' }).collect()
}

/// The kind of a file as a word of JSON.
pub(super) fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::SymbolicLink => "symbolic-link",
    }
}

/// Flags as words.
pub(super) fn flag_words(flags: DosFlags) -> Vec<&'static str> {
    FLAGS.iter().filter(|(flag, ..)| flags.contains(*flag)).map(|&(_, _, word)| word).collect()
}

/// Formats a number with commas between the thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers() {
        let time = Timestamp { seconds: 1_000_000_000, nanoseconds: 500_000_000 };
        let zone = chrono::FixedOffset::east_opt(7200).unwrap();
        assert_eq!(shown_in(time, &zone), "2001-09-09 03:46:40");
        assert_eq!(utc_time(time), "2001-09-09T01:46:40.500Z");
        assert_eq!(utc_time(Timestamp { seconds: i64::MAX, nanoseconds: 0 }), "-");
        let at = |text| parse_time_in(text, &zone).map(|time| (time.seconds, time.nanoseconds));
        for text in ["2001-09-09 03:46:40", "2001-09-09T03:46:40", "2001-09-09T01:46:40Z"] {
            assert_eq!(at(text), Ok((1_000_000_000, 0)), "{text}");
        }
        assert_eq!(at("2001-09-09T01:46:40.5Z"), Ok((1_000_000_000, 500_000_000)));
        assert_eq!(at("2001-09-09"), Ok((1_000_000_000 - 13_600, 0)));
        for text in ["", "yesterday", "2001-02-30", "2001-09-09 25:00"] {
            assert!(at(text).is_err(), "{text}");
        }
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(flag_letters(DosFlags(0x21)), "r--a");
    }
}
