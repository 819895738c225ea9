//! What a section's keys say of its load.
//!
//! Facts: fio's `HOWTO`; and what fio 3.33 does where that is not said: of two keys for one thing the later counts
//! (`direct` and `buffered`, `rwmixread` and `rwmixwrite`), a value outside of a key's range is refused, and a section's
//! I/Os are `loops` times the least of `number_ios` and `size` (or `io_size`) in blocks.

use super::keys::{Meaning, is_off, meaning};
use super::text::Entry;
use super::values::{self, KbBase, Size};
use crate::plan::{MOST_DEPTH, MOST_WORKERS};
use crate::report::document::Direction;
use std::time::Duration;

/// How an ioengine of fio does I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// One I/O at a time, whatever `iodepth` says.
    Synchronous,
    /// As many as `iodepth` says.
    Asynchronous,
}

/// The load of one section.
#[derive(Clone, Debug)]
pub struct Settings {
    pub name: Option<String>,
    pub direction: Direction,
    pub is_random: bool,
    pub read_percent: u8,
    pub random_percent: Option<u8>,
    /// Of reads and writes.
    pub block: [u64; 2],
    pub align: [Option<u64>; 2],
    pub size: Option<Size>,
    pub file_size: Option<u64>,
    pub io_size: Option<u64>,
    pub number_ios: Option<u64>,
    pub loops: u32,
    pub engine: Engine,
    /// As it is written, or what fio takes where it is not.
    pub engine_name: String,
    pub depth: u32,
    pub jobs: u32,
    /// The `filename`, if one is given: all of `numjobs` share it, and other sections that name it.
    pub file: Option<String>,
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
    /// Whether it begins when all before it have ended.
    pub waits: bool,
    /// The section whose end it waits for.
    pub waits_for: Option<String>,
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
            random_percent: None,
            block: [4096; 2],
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

/// The most that fio has of what it counts.
const MOST: u64 = u32::MAX as u64;

impl Settings {
    /// Takes a section's keys in their order.
    ///
    /// # Errors
    /// A sentence that names line and key.
    pub fn of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Result<Settings, String> {
        let named = |entry: &Entry, reason: String| format!("{entry}: {reason}");
        let mut settings = Settings::default();
        let mut base = KbBase::default();
        // These two first, wherever they stand: what numbers mean, and what most other keys are for.
        let (first, others): (Vec<&Entry>, Vec<&Entry>) =
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
            "rw" | "readwrite" => (self.is_random, self.direction) = direction(text()?)?,
            "rwmixread" => self.read_percent = percent()?,
            "rwmixwrite" => self.read_percent = 100 - percent()?,
            "percentage_random" => self.random_percent = Some(percent()?),
            "bs" | "blocksize" => {
                self.set_block(values::pair(text()?, |part| values::number(part, base))?)?
            }
            "bsrange" => self.set_block(values::pair(text()?, |part| range(part, base))?)?,
            "blockalign" | "ba" => self.align = values::pair(text()?, |part| values::number(part, base))?,
            "size" => self.size = Some(not_empty(values::size(text()?, base)?)?),
            "filesize" => self.file_size = Some(range(text()?, base)?),
            "io_size" | "io_limit" => self.io_size = Some(bytes()?).filter(|&size| size > 0),
            "number_ios" => self.number_ios = Some(bytes()?).filter(|&count| count > 0),
            "loops" => self.loops = count(1)?,
            "ioengine" => (self.engine, self.engine_name) = (engine(text()?)?, text()?.to_owned()),
            "iodepth" => self.depth = within(1, MOST_DEPTH.into())? as u32,
            "numjobs" => self.jobs = within(1, MOST_WORKERS.into())? as u32,
            "filename" => self.file = Some(one_file(text()?)?),
            "directory" => drop(text()?),
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
                    Meaning::Refused(_) if is_off(key, value) => Ok(()),
                    Meaning::Refused(reason) => Err(reason.into()),
                    Meaning::Unknown => Err("this key is not understood".into()),
                };
            }
        }
        Ok(())
    }

    fn set_block(&mut self, block: [Option<u64>; 2]) -> Result<(), String> {
        for (own, new) in self.block.iter_mut().zip(block) {
            match new {
                Some(0 | 0x1_0000_0000..) => return Err("expected a block of 1 byte to 4 GiB".into()),
                Some(new) => *own = new,
                None => {}
            }
        }
        Ok(())
    }
}

fn kb_base(value: Option<&str>) -> Result<KbBase, String> {
    match value {
        Some("1000") => Ok(KbBase::International),
        Some("1024") => Ok(KbBase::Compatible),
        _ => Err("expected 1000 or 1024".into()),
    }
}

fn direction(text: &str) -> Result<(bool, Direction), String> {
    let (kind, rest) = text.split_once(':').map_or((text, ""), |(kind, rest)| (kind, rest));
    let found = match kind {
        "read" => (false, Direction::Read),
        "write" => (false, Direction::Write),
        "rw" | "readwrite" => (false, Direction::Mix),
        "randread" => (true, Direction::Read),
        "randwrite" => (true, Direction::Write),
        "randrw" => (true, Direction::Mix),
        "trim" | "randtrim" | "trimwrite" | "randtrimwrite" => return Err("trims are not measured".into()),
        _ => return Err("expected read, write, rw, randread, randwrite or randrw".into()),
    };
    // After a colon: how many I/Os follow each other before the next random place; how far one is from the next.
    match (found.0, rest) {
        (_, "") | (false, "0") | (true, "1") => Ok(found),
        (true, _) => Err("each I/O goes to a random place, not one in several".into()),
        (false, _) => Err("sequential I/Os follow each other without gaps, forwards".into()),
    }
}

fn engine(text: &str) -> Result<Engine, String> {
    match text {
        "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" => Ok(Engine::Synchronous),
        "libaio" | "io_uring" | "posixaio" | "windowsaio" | "solarisaio" => Ok(Engine::Asynchronous),
        "mmap" => Err("I/O through mapped memory is not measured".into()),
        _ => Err(
            "this ioengine does not read and write a file or a device as the engine does; of fio's are run: \
                  sync, psync, vsync, pvsync, pvsync2, libaio, io_uring, posixaio"
                .into(),
        ),
    }
}

/// A range of sizes of which both ends are the same.
fn range(text: &str, base: KbBase) -> Result<u64, String> {
    let (low, high) = text.split_once(['-', ':']).map_or((text, text), |ends| ends);
    let [low, high] = [values::number(low, base)?, values::number(high, base)?];
    match low == high {
        true => Ok(low),
        false => Err("expected one size, not a range".into()),
    }
}

fn not_empty(size: Size) -> Result<Size, String> {
    match size {
        Size::Bytes(0) => Err("expected more than 0 bytes".into()),
        size => Ok(size),
    }
}

/// Names with colons between them are several files; a colon with a backslash before it is part of a name.
fn one_file(text: &str) -> Result<String, String> {
    match text.replace("\\:", "").contains(':') {
        true => Err("a case has one file, or one for each of numjobs".into()),
        false => Ok(text.to_owned()),
    }
}

fn durable(text: &str) -> Result<bool, String> {
    match text {
        "none" | "0" => Ok(false),
        "sync" | "1" | "dsync" => Ok(true),
        _ => Err("expected none, sync or dsync".into()),
    }
}
