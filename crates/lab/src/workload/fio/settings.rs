//! The load that a section's keys describe.
//!
//! Facts: fio's `HOWTO`; and where the manual is silent, what fio 3.33 does: of two keys for one setting the later one
//! applies (`direct` and `buffered`, `rwmixread` and `rwmixwrite`), a value outside of a key's range is refused, and
//! the number of a section's I/Os is `loops` times the smaller of `number_ios` and `size` (or `io_size`) in blocks.

use super::keys::{Meaning, is_off, meaning};
use super::spread::spread;
use super::text::Setting;
use super::values::{self, KbBase, Size};
use crate::experiment::Direction;
use crate::workload::{MOST_DEPTH, MOST_WORKERS};
use crate::{NextFile, Spread};
use std::time::Duration;

/// How an ioengine of fio does I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// One I/O at a time, whatever `iodepth` says.
    Synchronous,
    /// As many I/Os in flight as `iodepth`.
    Asynchronous,
}

/// The load of one section.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub name: Option<String>,
    pub direction: Direction,
    pub is_random: bool,
    pub read_percent: u8,
    /// The shares of random I/Os among reads and among writes.
    pub random_percent: [Option<u8>; 2],
    /// The block sizes of reads and of writes.
    pub block: [Vec<Block>; 2],
    /// Bytes from the end of one sequential I/O to the beginning of the next, which is before that end if this is
    /// negative.
    pub gap: i64,
    /// The number of I/Os that follow each other from each random place on.
    pub run: u32,
    pub spread: Spread,
    /// Limits of the rate of reads and of writes, in I/Os and in bytes per second.
    pub rate_ios: [Option<u64>; 2],
    pub rate: [Option<u64>; 2],
    pub poisson: bool,
    /// Remarks for the report about keys that do not change the load.
    pub remarks: Vec<&'static str>,
    pub think: Duration,
    pub think_busy: Duration,
    pub think_after: u32,
    pub files: u32,
    pub next_file: NextFile,
    pub offset: Option<Size>,
    pub align: [Option<u64>; 2],
    pub size: Option<Size>,
    pub file_size: Option<u64>,
    pub io_size: Option<u64>,
    pub number_ios: Option<u64>,
    pub loops: u32,
    pub engine: Engine,
    /// The engine's name as written in the file, or fio's default.
    pub engine_name: String,
    pub depth: u32,
    pub jobs: u32,
    /// The `filename`, if one is given: all of `numjobs` share the file, and so do other sections that name it.
    pub file: Option<String>,
    /// The paths that `filename` and `directory` name, if they are paths and not bare names.
    pub paths: Vec<String>,
    /// Whether the section begins later than those beside it (`startdelay`).
    pub is_delayed: bool,
    pub offset_increment: u64,
    pub buffered: bool,
    pub invalidate: bool,
    pub repeats_offsets: bool,
    pub is_durable: bool,
    pub fsync: u32,
    pub fdatasync: u32,
    pub runtime: Duration,
    pub time_based: bool,
    pub ramp_up: Duration,
    pub seed: u64,
    /// Whether the section begins when all sections before it have ended (`stonewall`).
    pub waits: bool,
    /// The section whose end this one waits for (`wait_for`).
    pub waits_for: Option<String>,
}

/// I/Os of one size or of a range of sizes, and their percentage of all I/Os.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Block {
    pub percent: f64,
    pub least: u64,
    pub most: u64,
}

impl Block {
    fn of(bytes: u64) -> Vec<Block> {
        vec![Block { percent: 100.0, least: bytes, most: bytes }]
    }
}

/// The seed where a job gives none: that of the built-in workloads.
const SEED: u64 = 8664;

impl Default for Settings {
    /// fio's own defaults.
    fn default() -> Settings {
        Settings {
            name: None,
            direction: Direction::Read,
            is_random: false,
            read_percent: 50,
            random_percent: [None; 2],
            block: [Block::of(4096), Block::of(4096)],
            gap: 0,
            run: 1,
            spread: Spread::Uniform,
            rate_ios: [None; 2],
            rate: [None; 2],
            poisson: false,
            remarks: Vec::new(),
            think: Duration::ZERO,
            think_busy: Duration::ZERO,
            think_after: 1,
            files: 1,
            next_file: NextFile::RoundRobin,
            offset: None,
            align: [None; 2],
            size: None,
            file_size: None,
            io_size: None,
            number_ios: None,
            loops: 1,
            engine: Engine::Synchronous,
            engine_name: "psync".into(),
            depth: 1,
            jobs: 1,
            file: None,
            paths: Vec::new(),
            is_delayed: false,
            offset_increment: 0,
            buffered: true,
            invalidate: true,
            repeats_offsets: false,
            is_durable: false,
            fsync: 0,
            fdatasync: 0,
            runtime: Duration::ZERO,
            time_based: false,
            ramp_up: Duration::ZERO,
            seed: SEED,
            waits: false,
            waits_for: None,
        }
    }
}

/// The greatest number of files of a job.
const MOST_FILES: u64 = 1_000_000;

/// The upper limit of fio for counts.
const MOST: u64 = u32::MAX as u64;

impl Settings {
    /// Reads a section's keys in their order.
    ///
    /// # Errors
    /// A sentence with the line and the key.
    pub(super) fn of<'a>(entries: impl Iterator<Item = &'a Setting>) -> Result<Settings, String> {
        let named = |entry: &Setting, reason: String| format!("{entry}: {reason}");
        let mut settings = Settings::default();
        let mut base = KbBase::default();
        // These two keys are read first, wherever they stand: they define the meaning of numbers and of most other
        // keys.
        let (first, others): (Vec<&Setting>, Vec<&Setting>) =
            entries.partition(|entry| matches!(entry.key.as_str(), "kb_base" | "ioengine"));
        for entry in first.into_iter().chain(others) {
            let taken = entry.expanded().and_then(|value| {
                if entry.key == "kb_base" {
                    base = kb_base(value.as_deref())?;
                }
                settings.take(&entry.key, value.as_deref(), base)
            });
            taken.map_err(|reason| named(entry, reason))?;
        }
        Ok(settings)
    }

    fn take(&mut self, key: &str, value: Option<&str>, base: KbBase) -> Result<(), String> {
        let text = || value.filter(|text| !text.is_empty()).ok_or_else(|| "expected a value".to_string());
        let switch = || values::switch(value);
        let within = |least: u64, most: u64| values::between(text()?, base, least, most);
        let count = |least: u64| within(least, MOST).map(|count| count as u32);
        let percent = || within(0, 100).map(|percent| percent as u8);
        let bytes = || values::number(text()?, base);
        let time = || values::time(text()?);
        match key {
            "name" => self.name = Some(text()?.to_owned()),
            "rw" | "readwrite" => self.set_direction(text()?, base)?,
            "rwmixread" => self.read_percent = percent()?,
            "rwmixwrite" => self.read_percent = 100 - percent()?,
            "percentage_random" => {
                let percent = |part: &str| values::between(part, base, 0, 100).map(|percent| percent as u8);
                self.random_percent = values::pair(text()?, percent)?;
            }
            "bs" | "blocksize" => {
                let sizes = values::pair(text()?, |part| values::number(part, base))?;
                self.set_block(sizes.map(|size| size.map(Block::of)))?;
            }
            "bsrange" | "blocksize_range" => {
                let ranges = values::pair(text()?, |part| range(part, base))?;
                let block = |(least, most)| vec![Block { percent: 100.0, least, most }];
                self.set_block(ranges.map(|range| range.map(block)))?;
            }
            "bssplit" => self.set_split(text()?, base)?,
            "random_distribution" => self.spread = spread(text()?, base)?,
            "rate" => self.rate = rates(text()?, base)?,
            "rate_iops" => self.rate_ios = rates(text()?, base)?,
            "rate_process" => self.poisson = process(text()?)?,
            "thinktime" => self.think = values::short_time(text()?)?,
            "thinktime_spin" => self.think_busy = values::short_time(text()?)?,
            "thinktime_blocks" => self.think_after = count(1)?,
            "thinktime_blocks_type" => think_type(text()?)?,
            "nrfiles" | "nr_files" => self.files = within(1, MOST_FILES)? as u32,
            "file_service_type" => self.next_file = next_file(text()?)?,
            "offset" => self.offset = Some(offset(text()?, base)?),
            "random_generator" => self.repeats_offsets = generator(text()?)?.unwrap_or(self.repeats_offsets),
            "blockalign" | "ba" => self.align = values::pair(text()?, |part| values::number(part, base))?,
            "size" => self.size = Some(not_empty(values::size(text()?, base)?)?),
            "filesize" => self.file_size = Some(one_size(text()?, base)?),
            "io_size" | "io_limit" => self.io_size = Some(bytes()?).filter(|&size| size > 0),
            "number_ios" => self.number_ios = Some(bytes()?).filter(|&count| count > 0),
            "loops" => self.loops = count(1)?,
            "ioengine" => (self.engine, self.engine_name) = (engine(text()?)?, text()?.to_owned()),
            "iodepth" => self.depth = within(1, MOST_DEPTH.into())? as u32,
            "numjobs" => self.jobs = within(1, MOST_WORKERS.into())? as u32,
            "filename" => {
                let name = text()?;
                // Colons separate the names of several files; a colon after a backslash is part of a name.
                let files = name.replace("\\:", "").split(':').filter(|part| !part.is_empty()).count();
                self.files = files.clamp(1, MOST_FILES as usize) as u32;
                self.file = Some(name.to_owned());
                self.paths.extend(names(name).filter(|name| name.contains('/')));
            }
            "directory" => self.paths.extend(names(text()?).map(|name| name + "/")),
            "startdelay" => self.is_delayed = !is_off(key, value),
            "offset_increment" => self.offset_increment = bytes()?,
            "direct" => self.buffered = !switch()?,
            "buffered" => self.buffered = switch()?,
            "invalidate" => self.invalidate = switch()?,
            "sync" => self.is_durable = durable(text()?)?,
            "fsync" => self.fsync = count(0)?,
            "fdatasync" => self.fdatasync = count(0)?,
            "runtime" | "timeout" => self.runtime = time()?,
            "time_based" => self.time_based = switch()?,
            "ramp_time" => self.ramp_up = time()?,
            "randseed" => self.seed = bytes()?,
            "stonewall" | "wait_for_previous" => self.waits = switch()?,
            "wait_for" => self.waits_for = Some(text()?.to_owned()),
            "kb_base" => {}
            "norandommap" => self.repeats_offsets = switch()?,
            _ => {
                return match meaning(key) {
                    Meaning::None => Ok(()),
                    Meaning::Refused(_) | Meaning::Remark(_) if is_off(key, value) => Ok(()),
                    Meaning::Remark(remark) => {
                        self.remarks.push(remark);
                        Ok(())
                    }
                    Meaning::Refused(reason) => Err(reason.into()),
                    Meaning::Unknown => Err("this key is not understood".into()),
                };
            }
        }
        Ok(())
    }

    fn set_block(&mut self, block: [Option<Vec<Block>>; 2]) -> Result<(), String> {
        for (own, new) in self.block.iter_mut().zip(block) {
            let Some(mut new) = new else { continue };
            new.retain(|block| block.percent > 0.0);
            if new.is_empty() || new.iter().any(|block| block.least == 0 || block.most >= 1 << 32) {
                return Err("expected a block of 1 byte to 4 GiB".into());
            }
            *own = new;
        }
        Ok(())
    }

    /// Sets block sizes with percentages: `SIZE/SHARE:SIZE/SHARE` for reads and, after a comma, for writes.
    fn set_split(&mut self, text: &str, base: KbBase) -> Result<(), String> {
        let mut sides = text.split(',').map(|side| -> Result<Vec<Block>, String> {
            let shares = values::shares(side, |size| values::number(size, base))?;
            let block = |(percent, bytes)| Block { percent, least: bytes, most: bytes };
            Ok(shares.into_iter().map(block).collect())
        });
        let reads: Vec<Block> = sides.next().unwrap_or_else(|| Err("expected a value".into()))?;
        let writes = sides.next().unwrap_or_else(|| Ok(reads.clone()))?;
        // A third list would be for trims; it is ignored.
        if sides.nth(1).is_some() {
            return Err("expected at most three values".into());
        }
        self.set_block([Some(reads), Some(writes)])
    }

    fn set_direction(&mut self, text: &str, base: KbBase) -> Result<(), String> {
        let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        (self.is_random, self.direction) = direction(kind)?;
        // The number after a colon: for random I/O how many I/Os follow each other from each random place on; for
        // sequential I/O the gap in bytes between one I/O and the next.
        (self.run, self.gap) = match (self.is_random, rest) {
            (_, None) => (1, 0),
            (true, Some(run)) => (values::between(run, base, 1, MOST)? as u32, 0),
            (false, Some(gap)) => match gap.strip_prefix('-') {
                None => (1, distance(gap, base)?),
                Some(gap) => (1, -distance(gap, base)?),
            },
        };
        Ok(())
    }
}

/// The names in a list that colons separate; a colon after a backslash is part of a name.
fn names(list: &str) -> impl Iterator<Item = String> {
    let plain = list.replace("\\:", "\u{0}");
    let names: Vec<String> =
        plain.split(':').filter(|name| !name.is_empty()).map(|name| name.replace('\u{0}', ":")).collect();
    names.into_iter()
}

fn kb_base(value: Option<&str>) -> Result<KbBase, String> {
    match value {
        Some("1000") => Ok(KbBase::International),
        Some("1024") => Ok(KbBase::Compatible),
        _ => Err("expected 1000 or 1024".into()),
    }
}

/// Parses the size of the gap between sequential I/Os in bytes, without its sign.
fn distance(text: &str, base: KbBase) -> Result<i64, String> {
    Ok(values::between(text, base, 0, 1 << 40)? as i64)
}

fn direction(kind: &str) -> Result<(bool, Direction), String> {
    Ok(match kind {
        "read" => (false, Direction::Read),
        "write" => (false, Direction::Write),
        "rw" | "readwrite" => (false, Direction::Mix),
        "randread" => (true, Direction::Read),
        "randwrite" => (true, Direction::Write),
        "randrw" => (true, Direction::Mix),
        "trim" | "randtrim" | "trimwrite" | "randtrimwrite" => return Err("trims are not measured".into()),
        _ => return Err("expected read, write, rw, randread, randwrite or randrw".into()),
    })
}

fn engine(text: &str) -> Result<Engine, String> {
    match text {
        "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" | "mmap" => Ok(Engine::Synchronous),
        "libaio" | "io_uring" | "posixaio" | "windowsaio" | "solarisaio" => Ok(Engine::Asynchronous),
        _ => Err(super::engines::why_not(text)),
    }
}

/// Parses a range of block sizes; all sizes are multiples of the smallest.
fn range(text: &str, base: KbBase) -> Result<(u64, u64), String> {
    let (low, high) = text.split_once(['-', ':']).map_or((text, text), |ends| ends);
    let (low, high) = (values::number(low, base)?, values::number(high, base)?);
    let (low, high) = (low.min(high), low.max(high));
    if low == 0 {
        return Err("expected a block of 1 byte to 4 GiB".into());
    }
    // Block sizes are multiples of the smallest, so the upper end is rounded down to one.
    Ok((low, high / low * low))
}

fn one_size(text: &str, base: KbBase) -> Result<u64, String> {
    let (low, high) = text.split_once(['-', ':']).map_or((text, text), |ends| ends);
    match (values::number(low, base)?, values::number(high, base)?) {
        (low, high) if low == high => Ok(low),
        _ => Err("expected one size, not a range".into()),
    }
}

fn rates(text: &str, base: KbBase) -> Result<[Option<u64>; 2], String> {
    let [reads, writes] = values::pair(text, |part| values::number(part, base))?;
    Ok([reads, writes].map(|rate| rate.filter(|&rate| rate > 0)))
}

fn process(text: &str) -> Result<bool, String> {
    match text {
        "linear" => Ok(false),
        "poisson" => Ok(true),
        _ => Err("expected linear or poisson".into()),
    }
}

/// Checks `thinktime_blocks_type`. Before a pause everything that was issued completes, so that both come to the same
/// here: so many I/Os between two pauses.
fn think_type(text: &str) -> Result<(), String> {
    match text {
        "complete" | "issue" => Ok(()),
        _ => Err("expected complete or issue".into()),
    }
}

fn next_file(text: &str) -> Result<NextFile, String> {
    match text {
        "random" => Ok(NextFile::Random),
        "roundrobin" | "roundrobin:1" => Ok(NextFile::RoundRobin),
        "sequential" => Ok(NextFile::Sequential),
        _ => Err("expected roundrobin, random or sequential, one I/O at a time".into()),
    }
}

fn offset(text: &str, base: KbBase) -> Result<Size, String> {
    match text {
        "0%" => Ok(Size::Bytes(0)),
        text => values::size(text, base),
    }
}

/// Whether the random generator may draw an offset again; `None` if it leaves that to `norandommap`.
fn generator(text: &str) -> Result<Option<bool>, String> {
    match text {
        "tausworthe" | "tausworthe64" => Ok(None),
        "lfsr" => Ok(Some(false)),
        _ => Err("expected tausworthe, tausworthe64 or lfsr".into()),
    }
}

fn not_empty(size: Size) -> Result<Size, String> {
    match size {
        Size::Bytes(0) => Err("expected more than 0 bytes".into()),
        size => Ok(size),
    }
}

fn durable(text: &str) -> Result<bool, String> {
    match text {
        "none" | "0" => Ok(false),
        "sync" | "1" | "dsync" => Ok(true),
        _ => Err("expected none, sync or dsync".into()),
    }
}
