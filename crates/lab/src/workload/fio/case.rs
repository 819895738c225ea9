//! A section's load as a case.

use super::settings::{Engine, Settings};
use super::values::Size;
use crate::report::document::Direction;
use crate::workload::{Case, Share};
use crate::{Durability, Pattern};

/// What all cases of a workload have in common.
#[derive(Clone, Copy, PartialEq)]
pub struct Shared {
    pub buffered: bool,
    pub seed: u64,
}

impl Shared {
    /// What keeps two sections from being cases of one workload.
    pub fn difference(&self, other: &Shared) -> &'static str {
        if self.buffered == other.buffered { "randseed" } else { "direct" }
    }
}

/// A case, and what comes with it.
pub struct Converted {
    pub case: Case,
    pub shared: Shared,
    /// Bytes of all its files together, or the share of the target that they are.
    pub span: u64,
    pub share: Option<Share>,
    /// The file that it shares with whoever names it.
    pub file: Option<String>,
    /// What runs otherwise than in fio.
    pub notes: Vec<String>,
}

impl Converted {
    /// The case of a section.
    ///
    /// # Errors
    /// A sentence: keys that cannot be together, or are missing.
    pub fn of(section: &str, settings: &Settings) -> Result<Converted, String> {
        let name = settings.name.clone().unwrap_or_else(|| section.to_owned());
        let mut notes = Vec::new();
        let pattern = pattern(settings, &name, &mut notes)?;
        let (span, share) = span(settings, &pattern)?;
        let of_writes = durability(settings)?;
        // What is said of writes does not concern reads.
        let durability = if settings.direction == Direction::Read { Durability::Direct } else { of_writes };
        let jobs = u64::from(settings.jobs);
        if settings.time_based && settings.runtime.is_zero() {
            return Err("time_based needs a runtime".into());
        }
        if settings.time_based && settings.number_ios.is_some() {
            return Err("number_ios and time_based: it ends by one of them".into());
        }
        let all_jobs = |each: u64| each.saturating_mul(jobs).saturating_mul(u64::from(settings.loops));
        let of_bytes = settings.io_size.map(|bytes| bytes / u64::from(pattern.block));
        let count = match (of_bytes, settings.number_ios) {
            (Some(bytes), Some(ios)) => Some(bytes.min(ios)),
            (bytes, ios) => bytes.or(ios),
        };
        let by_time = settings.time_based;
        if count == Some(0) && !by_time {
            return Err("io_size holds no block".into());
        }
        if settings.is_random && !settings.repeats_offsets && !by_time {
            notes.push(format!(
                "{name}: offsets are drawn with repetition (norandommap); fio would come to each block once"
            ));
        }
        if settings.buffered && settings.invalidate && settings.direction != Direction::Write {
            notes.push(format!(
                "{name}: what is read may be in the page cache, since the file has been written just before; fio \
                 would drop it first (invalidate=1)"
            ));
        }
        let case = Case {
            name,
            profiles: Vec::new(),
            direction: settings.direction,
            pattern,
            time: settings.runtime,
            ramp_up: settings.ramp_up,
            count: count.filter(|_| !by_time).map(all_jobs),
            passes: (!by_time && of_bytes.is_none()).then_some(settings.loops),
            continuous: false,
            beside: false,
            part: None,
            durability: Some(durability),
        };
        let shared = Shared { buffered: settings.buffered, seed: settings.seed };
        Ok(Converted { case, shared, span, share, file: settings.file.clone(), notes })
    }
}

fn pattern(settings: &Settings, name: &str, notes: &mut Vec<String>) -> Result<Pattern, String> {
    let both = |values: [u64; 2], key: &str| match (settings.direction, values) {
        (Direction::Read, [read, _]) => Ok(read),
        (Direction::Write, [_, write]) => Ok(write),
        (Direction::Mix, [read, write]) if read == write => Ok(read),
        (Direction::Mix, _) => Err(format!("{key} must be the same for the reads and writes of a mix")),
    };
    let block = both(settings.block, "bs")?;
    let align = both(settings.align.map(Option::unwrap_or_default), "blockalign")?;
    let align = u32::try_from(align).map_err(|_| "blockalign is at most 4 GiB".to_string())?;
    let random_percent = match (settings.is_random, settings.random_percent) {
        (true, percent) => percent.unwrap_or(100),
        (false, None | Some(0)) => 0,
        (false, Some(_)) => return Err("percentage_random is for the random forms of rw".into()),
    };
    // Alignment is of random offsets: sequential ones follow each other.
    let align = if random_percent == 0 { 0 } else { align };
    if align > 0 && random_percent < 100 {
        return Err("blockalign with percentage_random below 100: an offset has one rule".into());
    }
    let queue_depth = match (settings.engine, settings.depth) {
        (Engine::Synchronous, depth) => {
            if depth > 1 {
                notes.push(format!(
                    "{name}: ioengine {} is synchronous and holds one I/O at a time, as in fio, whatever iodepth={depth} says",
                    settings.engine_name
                ));
            }
            1
        }
        (Engine::Asynchronous, depth) => {
            if depth > 1 && settings.buffered && settings.engine_name == "libaio" {
                notes.push(format!(
                    "{name}: {depth} buffered I/Os are outstanding; fio's libaio would wait for each, since the kernel \
                     has it asynchronous only with direct=1"
                ));
            }
            depth
        }
    };
    let own_span = settings.jobs > 1 && (settings.file.is_none() || settings.offset_increment > 0);
    if settings.jobs > 1 && !own_span && random_percent < 100 {
        notes.push(format!(
            "{name}: the {} jobs of its file begin evenly apart; fio would begin each at the file's beginning",
            settings.jobs
        ));
    }
    Ok(Pattern {
        block: u32::try_from(block).map_err(|_| "bs is at most 4 GiB".to_string())?,
        align,
        read_percent: match settings.direction {
            Direction::Read => 100,
            Direction::Write => 0,
            Direction::Mix => settings.read_percent,
        },
        random_percent,
        workers: settings.jobs,
        queue_depth,
        own_span,
    })
}

/// The span of all workers together: bytes, or the share of the target that they are.
fn span(settings: &Settings, pattern: &Pattern) -> Result<(u64, Option<Share>), String> {
    let size = match (settings.size, settings.file_size) {
        (None, Some(bytes)) => Some(Size::Bytes(bytes)),
        (Some(Size::Bytes(size)), Some(bytes)) if size != bytes => {
            return Err(format!("filesize={bytes} and size={size}: the span is the whole file"));
        }
        (size, _) => size,
    };
    let own = if pattern.own_span { u64::from(settings.jobs) } else { 1 };
    if settings.offset_increment > 0
        && settings.jobs > 1
        && size != Some(Size::Bytes(settings.offset_increment))
    {
        return Err(
            "offset_increment: each of numjobs has its own part of the file only if it is the size".into()
        );
    }
    match size {
        Some(Size::Bytes(bytes)) if bytes < u64::from(pattern.block) => {
            Err(format!("a size of {bytes} bytes holds no block of {} bytes", pattern.block))
        }
        Some(Size::Bytes(bytes)) => {
            let span = bytes.checked_mul(own).ok_or("size times numjobs is too large")?;
            Ok((span, None))
        }
        Some(Size::Percent(percent)) if u64::from(percent) * own > 100 => {
            Err(format!("size={percent}% for each of numjobs={own} is more than there is"))
        }
        Some(Size::Percent(percent)) => Ok((0, Some(Share(percent * own as u8)))),
        None => Ok((0, Some(Share(100)))),
    }
}

fn durability(settings: &Settings) -> Result<Durability, String> {
    match (settings.is_durable, settings.fsync, settings.fdatasync) {
        (false, 0, 0) => Ok(Durability::Direct),
        (true, 0, 0) => Ok(Durability::WriteThrough),
        (false, writes, 0) | (false, 0, writes) => Ok(Durability::FsyncEvery(writes)),
        (false, _, _) => Err("fsync and fdatasync: writes have one rule".into()),
        (true, _, _) => Err("sync with fsync or fdatasync: writes have one rule".into()),
    }
}
