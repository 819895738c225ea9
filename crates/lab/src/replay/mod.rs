//! Recorded loads, replayed: fio's iolog, and blktrace's records in binary or as blkparse prints them.

mod blkparse;
mod blktrace;
mod iolog;

use crate::experiment::Direction;
use crate::workload::{Case, input};
use crate::{Durability, Error, Event, Pattern, Result, Script, Shape, What, Workload};
use platter_device::host::{HostBytes, host_string};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The prefix of a workload that replays a log at its own pace, and of one that replays it as fast as it goes.
const PACED: &str = "replay";
const FAST: &str = "replay-fast";
/// The most I/Os in flight at the log's own pace, where the log decides how many there are, and as fast as it goes.
const PACED_DEPTH: u32 = 128;
const FAST_DEPTH: u32 = 32;

// Recorded loads fit the depth of any workload.
const _: () = assert!(PACED_DEPTH <= crate::workload::MOST_DEPTH && FAST_DEPTH <= PACED_DEPTH);

/// The most events that a log may have. Each takes 32 bytes of memory.
const MOST_EVENTS: usize = 16 << 20;
/// The most bytes of one I/O.
const MOST_BYTES: u64 = 64 << 20;
/// The longest line of a log in bytes.
const LONGEST_LINE: usize = 64 << 10;
/// What sectors are counted in, whatever those of the device have.
const SECTOR: u64 = 512;

/// A mistake in a log: where, and what.
#[derive(Debug, PartialEq, Eq)]
struct Malformed {
    at: String,
    what: String,
}

impl Malformed {
    fn line(number: u64, what: impl Into<String>) -> Malformed {
        Malformed { at: format!("line {number}"), what: what.into() }
    }
}

/// The events of a log so far, with the files that they are on.
#[derive(Default)]
struct Log {
    events: Vec<Logged>,
    /// The files or devices in the order in which the log names them, with the end of what is used of each.
    files: Vec<(Vec<u8>, u64)>,
    discards: u64,
}

/// An event with the number of its file.
#[derive(Clone, Copy)]
struct Logged {
    file: u32,
    event: Event,
}

impl Log {
    /// Returns the number of a file or device, which is new to the log if it was not named before.
    fn file(&mut self, name: &[u8]) -> std::result::Result<u32, String> {
        /// More files than any log has that one device could hold.
        const MOST_FILES: usize = 65_536;
        if let Some(known) = self.files.iter().position(|(known, _)| known == name) {
            return Ok(known as u32);
        }
        if self.files.len() == MOST_FILES {
            return Err(format!("more than {MOST_FILES} files"));
        }
        self.files.push((name.to_vec(), 0));
        Ok(self.files.len() as u32 - 1)
    }

    /// Adds an event, `at` from the beginning of the log; `length` is 0 for a sync.
    fn add(
        &mut self,
        at: Duration,
        file: u32,
        what: What,
        offset: u64,
        length: u64,
    ) -> std::result::Result<(), String> {
        if self.events.len() == MOST_EVENTS {
            return Err(format!("more than {MOST_EVENTS} I/Os"));
        }
        if what != What::Sync {
            if length == 0 || length > MOST_BYTES {
                return Err(format!("an I/O of {length} bytes; expected 1 to {MOST_BYTES}"));
            }
            let end = offset.checked_add(length).filter(|end| *end <= i64::MAX as u64);
            let end =
                end.ok_or_else(|| format!("an I/O that ends behind the largest offset: at {offset}"))?;
            let used = &mut self.files[file as usize].1;
            *used = end.max(*used);
        }
        self.events.push(Logged { file, event: Event { at, what, offset, length: length as u32 } });
        Ok(())
    }

    /// Makes a script of the log: files lie one after the other, times begin with the first event and do not go back.
    fn script(mut self, is_paced: bool) -> std::result::Result<Script, String> {
        /// Files begin at multiples of this many bytes.
        const APART: u64 = 1 << 20;
        if !self.events.iter().any(|logged| logged.event.what != What::Sync) {
            return Err("it has no read and no write".into());
        }
        self.events.sort_by_key(|logged| logged.event.at);
        let mut starts = Vec::new();
        let mut end = 0u64;
        for (_, used) in &self.files {
            starts.push(end);
            let room = used.checked_next_multiple_of(APART).and_then(|room| end.checked_add(room));
            end = room.ok_or("its files are larger than any device together")?;
        }
        let first = self.events.first().map_or(Duration::ZERO, |logged| logged.event.at);
        let event = |logged: Logged| Event {
            at: logged.event.at - first,
            offset: logged.event.offset + starts[logged.file as usize],
            ..logged.event
        };
        Ok(Script { events: self.events.into_iter().map(event).collect(), is_paced })
    }
}

/// Returns the workload of a name like `replay:trace.log`, `replay-fast:sda.blktrace.0` or `replay-fast@8:trace.log` (with 8
/// I/Os in flight); `None` if it is not the name of a replay.
pub(crate) fn named(name: &OsStr) -> Option<Result<Workload>> {
    let bytes = name.as_bytes();
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    let how = std::str::from_utf8(&bytes[..colon]).ok()?;
    let (kind, depth) = how.split_once('@').map_or((how, None), |(kind, depth)| (kind, Some(depth)));
    if kind != PACED && kind != FAST {
        return None;
    }
    let path = &PathBuf::from(host_string(&bytes[colon + 1..]));
    let depth = match depth.map(str::parse::<u32>) {
        None if kind == PACED => PACED_DEPTH,
        None => FAST_DEPTH,
        Some(Ok(depth @ 1..=crate::workload::MOST_DEPTH)) => depth,
        Some(_) => {
            let why = format!("{how}: expected @ and a queue depth of 1 to {}", crate::workload::MOST_DEPTH);
            return Some(Err(input(&path.display().to_string(), why)));
        }
    };
    Some(load(path, kind == PACED, depth))
}

fn load(path: &Path, is_paced: bool, depth: u32) -> Result<Workload> {
    let shown = path.display().to_string();
    let log = read(path)?;
    let discards = log.discards;
    let script = log.script(is_paced).map_err(|why| input(&shown, why))?;
    let name = path.file_name().map_or(shown, |name| name.to_string_lossy().into_owned());
    Ok(workload(&name, script, depth, discards))
}

fn workload(name: &str, script: Script, depth: u32, discards: u64) -> Workload {
    /// The seed of the data that is written, and of the order of slices.
    const SEED: u64 = 8664;
    let (reads, writes) = (script.count(What::Read), script.count(What::Write));
    let (ios, length) = (reads + writes, script.length());
    let direction = match (reads, writes) {
        (_, 0) => Direction::Read,
        (0, _) => Direction::Write,
        _ => Direction::Mix,
    };
    let is_paced = script.is_paced;
    let mut notes = Vec::new();
    if discards > 0 {
        notes.push(format!(
            "{name}: {discards} of the log's {} left out",
            if discards == 1 { "discards was" } else { "discards were" }
        ));
    }
    let odd = script.events.iter().filter(|event| !event.is_in_sectors()).count();
    if odd > 0 {
        notes.push(format!(
            "{name}: {odd} of its I/Os do not begin and end at whole sectors, and are widened to them"
        ));
    }
    let pattern = Pattern {
        block: script.largest(),
        read_percent: (reads * 100 / ios.max(1)) as u8,
        random_percent: script.random_percent(),
        workers: 1,
        queue_depth: depth,
        shape: Shape { script: Some(Arc::new(script)), ..Shape::default() },
        ..Pattern::default()
    };
    let case = Case {
        name: name.into(),
        profiles: Vec::new(),
        direction,
        pattern,
        time: Duration::ZERO,
        ramp_up: Duration::ZERO,
        count: Some(ios),
        continuous: false,
        passes: None,
        beside: false,
        part: None,
        durability: None,
        interval: None,
    };
    Workload {
        name: name.into(),
        title: format!(
            "Replay of {name}, {}",
            if is_paced { "at its own pace" } else { "as fast as it goes" }
        ),
        description: "A recorded load".into(),
        seed: SEED,
        durability: Durability::Direct,
        buffered: false,
        scoring: None,
        span: length,
        share: None,
        paths: Vec::new(),
        repeats: 1,
        cases: vec![case],
        notes,
    }
}

/// Reads a log, or the logs of all processors if the name is that of one of them (`sda.blktrace.0`).
fn read(path: &Path) -> Result<Log> {
    let mut log = Log::default();
    for path in siblings(path)? {
        let shown = path.display().to_string();
        let failed = |source| Error::Io { what: shown.clone(), source };
        let mut file = BufReader::with_capacity(1 << 20, File::open(&path).map_err(failed)?);
        let head = file.fill_buf().map_err(failed)?;
        let parsed = match head {
            head if iolog::is_one(head) => iolog::parse(&mut file, &mut log),
            head if blktrace::is_one(head) => blktrace::parse(&mut file, &mut log),
            head if blkparse::is_one(head) => blkparse::parse(&mut file, &mut log),
            _ => Err(Malformed::line(
                1,
                "expected fio's iolog (\"fio version 2 iolog\" or 3), blktrace's binary records, or blkparse's lines",
            )),
        };
        parsed.map_err(|Malformed { at, what }| input(&shown, format!("{at}: {what}")))?;
    }
    Ok(log)
}

/// Parses bytes as each kind of log, whatever they are; for tests with any input.
pub(crate) fn any(bytes: &[u8]) {
    type Parse = fn(&mut dyn BufRead, &mut Log) -> std::result::Result<(), Malformed>;
    let parsers: [Parse; 3] = [iolog::parse, blktrace::parse, blkparse::parse];
    for parse in parsers {
        let mut log = Log::default();
        if parse(&mut &bytes[..], &mut log).is_ok()
            && let Ok(script) = log.script(true)
        {
            workload("any", script, 1, 0);
        }
    }
}

/// The logs that belong together: blktrace writes one for each processor.
fn siblings(path: &Path) -> Result<Vec<PathBuf>> {
    let name = path.file_name().map(HostBytes::as_bytes).unwrap_or_default();
    let is_number = |bytes: &[u8]| !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
    let stem = name
        .iter()
        .rposition(|byte| *byte == b'.')
        .filter(|dot| is_number(&name[dot + 1..]) && name[..*dot].ends_with(b".blktrace"));
    let Some(dot) = stem else { return Ok(vec![path.to_owned()]) };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = |source| Error::Io { what: directory.display().to_string(), source };
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let other = entry.map_err(failed)?.file_name();
        let other = other.as_bytes();
        if other.starts_with(&name[..=dot]) && is_number(&other[dot + 1..]) {
            all.push(directory.join(host_string(other)));
        }
    }
    all.sort();
    if all.is_empty() { Ok(vec![path.to_owned()]) } else { Ok(all) }
}

/// The lines of a text, each with its number from 1.
struct Lines<'r> {
    reader: &'r mut dyn BufRead,
    number: u64,
}

impl Lines<'_> {
    /// The next line without its end; `None` behind the last.
    fn next(&mut self) -> std::result::Result<Option<(u64, Vec<u8>)>, Malformed> {
        self.number += 1;
        let mut line = Vec::new();
        let most = LONGEST_LINE as u64 + 1;
        let read = (&mut *self.reader).take(most).read_until(b'\n', &mut line);
        read.map_err(|error| Malformed::line(self.number, error.to_string()))?;
        if line.len() > LONGEST_LINE {
            let what = format!("longer than {LONGEST_LINE} bytes, as no line of a log is");
            return Err(Malformed::line(self.number, what));
        }
        if line.is_empty() {
            return Ok(None);
        }
        while line.last().is_some_and(|byte| b"\r\n".contains(byte)) {
            line.pop();
        }
        Ok(Some((self.number, line)))
    }
}

fn words(line: &[u8]) -> Vec<&[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect()
}

/// A number in decimal.
fn number(word: &[u8], what: &str) -> std::result::Result<u64, String> {
    let text = String::from_utf8_lossy(word);
    text.parse().map_err(|_| format!("expected {what} in decimal, found {text:?}"))
}

#[cfg(test)]
mod tests;
