//! Turns the settings of a fio section into a case.

use super::settings::{Block, Engine, Settings};
use super::values::Size;
use crate::experiment::Direction;
use crate::workload::Case;
use crate::{Begin, Durability, NextFile, Pace, Pattern, Pause, Portion, Rate, Shape, Spread};
use std::time::Duration;

/// The settings that all cases of a workload share.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Shared {
    pub buffered: bool,
    pub seed: u64,
}

impl Shared {
    /// The key in which two sections differ, so that they cannot be cases of one workload.
    pub(super) fn difference(&self, other: &Shared) -> &'static str {
        if self.buffered == other.buffered { "randseed" } else { "direct" }
    }
}

/// A part of a file, in bytes or in percent of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SizeRange {
    pub start: u64,
    pub length: u64,
    pub in_percent: bool,
}

/// The case of one section, with the settings that do not belong into a case.
pub(super) struct Converted {
    pub case: Case,
    pub shared: Shared,
    /// The section's part of its file, or of all its files together.
    pub extent: SizeRange,
    /// The name of the file, which is shared with other sections that name it.
    pub file: Option<String>,
    /// How the case differs from what fio would run.
    pub notes: Vec<String>,
}

impl Converted {
    /// Converts a section.
    ///
    /// # Errors
    /// A sentence that names keys which are missing or exclude each other.
    pub(super) fn of(section: &str, settings: &Settings) -> Result<Converted, String> {
        let name = settings.name.clone().unwrap_or_else(|| section.to_owned());
        let mut notes = Vec::new();
        let pattern = pattern(settings, &name, &mut notes)?;
        let (size, part) = in_file(settings)?;
        let extent = span(settings, size, &pattern)?;
        let of_writes = durability(settings)?;
        // A read has nothing to make durable, so the section's rule for writes does not apply to it.
        let durability = if settings.direction == Direction::Read { Durability::Direct } else { of_writes };
        let jobs = u64::from(settings.jobs);
        if settings.time_based && settings.runtime.is_zero() {
            return Err("time_based needs a runtime".into());
        }
        if settings.time_based && settings.number_ios.is_some() {
            return Err("number_ios and time_based: it ends by one of them".into());
        }
        let all_jobs = |each: u64| each.saturating_mul(jobs).saturating_mul(u64::from(settings.loops));
        let of_bytes = settings.io_size.or(part).map(|bytes| (bytes as f64 / pattern.mean_block()) as u64);
        let count = match (of_bytes, settings.number_ios) {
            (Some(bytes), Some(ios)) => Some(bytes.min(ios)),
            (bytes, ios) => bytes.or(ios),
        };
        let by_time = settings.time_based;
        if count == Some(0) && !by_time {
            return Err("io_size holds no block".into());
        }
        if settings.is_random && !settings.repeats_offsets && !pattern.shape.once && !by_time {
            notes.push(format!(
                "{name}: offsets are drawn with repetition (norandommap), since blocks differ in size, some follow each \
                 other, or some are hotter; fio would come to each block once"
            ));
        }
        notes.extend(settings.remarks.iter().map(|remark| format!("{name}: {remark}")));
        if settings.engine_name == "mmap" {
            notes.push(format!(
                "{name}: ioengine=mmap copies to and from mapped memory; here the same I/Os are read and written, one \
                 at a time through the page cache"
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
            interval: None,
        };
        let shared = Shared { buffered: settings.buffered, seed: settings.seed };
        Ok(Converted { case, shared, extent, file: settings.file.clone(), notes })
    }
}

fn pattern(settings: &Settings, name: &str, notes: &mut Vec<String>) -> Result<Pattern, String> {
    let random = random_percent(settings)?;
    if settings.files > 1
        && settings.next_file == NextFile::Sequential
        && random.iter().any(|percent| *percent > 0)
    {
        return Err(
            "file_service_type=sequential at random places: one file after the other is only gone through in order here; \
             roundrobin and random are there"
                .into(),
        );
    }
    let read_percent = match settings.direction {
        Direction::Read => 100,
        Direction::Write => 0,
        Direction::Mix => settings.read_percent,
    };
    if random
        .iter()
        .zip(settings.align)
        .any(|(percent, align)| (1..100).contains(percent) && align.is_some_and(|align| align > 0))
    {
        return Err("blockalign with percentage_random below 100: an offset has one rule".into());
    }
    let mix = portions(settings, read_percent, random)?;
    let shares = [read_percent, 100 - read_percent].map(u32::from);
    let of_both: u32 = shares.iter().zip(random).map(|(share, random)| share * u32::from(random)).sum();
    // Below 100 for every load that has a sequential I/O.
    let random_percent = (of_both / 100) as u8;
    let block = mix.iter().map(|portion| portion.most).max().unwrap_or(0);
    let (mix, align) = match mix[..] {
        [only] if only.least == only.most => (Vec::new(), only.align),
        _ => (mix, 0),
    };
    let is_spread = settings.spread != Spread::Uniform;
    let once = random_percent == 100
        && !settings.repeats_offsets
        && !is_spread
        && mix.is_empty()
        && settings.run == 1
        && settings.files == 1;
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
    // In fio the next I/O begins this far behind the end of the last one, or before it if the distance is negative.
    let stride = (settings.gap != 0).then(|| settings.gap + i64::from(block));
    if stride.is_some() && !mix.is_empty() {
        return Err("rw with a distance between I/Os is for blocks of one size".into());
    }
    Ok(Pattern {
        block,
        align,
        read_percent,
        random_percent,
        workers: settings.jobs,
        queue_depth,
        own_span,
        shape: Shape {
            mix,
            spread: settings.spread.clone(),
            once,
            run: settings.run,
            own_positions: settings.direction == Direction::Mix && (random_percent < 100 || settings.run > 1),
            stride,
            // In fio all jobs that share a file begin at the beginning of the file.
            begin: Begin::Together,
            files: settings.files,
            next_file: settings.next_file,
            pace: pace(settings)?,
            ..Shape::default()
        },
    })
}

/// The share of random I/Os among the reads and among the writes of a section, in percent.
fn random_percent(settings: &Settings) -> Result<[u8; 2], String> {
    match settings.is_random {
        true => Ok(settings.random_percent.map(|percent| percent.unwrap_or(100))),
        false if settings.random_percent.iter().flatten().all(|percent| *percent == 0) => Ok([0; 2]),
        false => Err("percentage_random is for the random forms of rw".into()),
    }
}

/// One kind of I/O: its weight, size, alignment, share of reads and share of random I/Os.
type Parts<'b> = (u32, &'b Block, u64, u8, u8);

/// The kinds of I/O of a section.
fn portions(settings: &Settings, read_percent: u8, random: [u8; 2]) -> Result<Vec<Portion>, String> {
    let sides = [(read_percent, 100, random[0]), (100 - read_percent, 0, random[1])];
    let sides = sides.into_iter().zip(&settings.block).zip(settings.align);
    let mut kinds = Vec::new();
    for (((percent, read_percent, random_percent), blocks), align) in
        sides.filter(|(((percent, ..), _), _)| *percent > 0)
    {
        let smallest = blocks.iter().map(|block| block.least).min().unwrap_or(0);
        // In fio `blockalign` applies to random offsets only: a sequential I/O begins where the one before it ended.
        let align = match align.filter(|_| random_percent > 0) {
            Some(align) if align > 0 => align,
            _ if random_percent > 0 => smallest,
            _ => 0,
        };
        for block in blocks {
            let weight = (f64::from(percent) * block.percent * 10.0).round() as u32;
            kinds.push((weight.max(1), block, align, read_percent, random_percent));
        }
    }
    let gap = settings.gap.unsigned_abs();
    // Sequential offsets are multiples of this, if blocks differ in size or have gaps between them.
    let step = kinds.iter().map(|(_, block, ..)| block.least).chain([gap]).fold(0, gcd);
    let portion = |(weight, block, align, read_percent, random_percent): Parts<'_>| {
        let bytes = |what: u64| u32::try_from(what).map_err(|_| "blocks and blockalign are at most 4 GiB");
        Ok(Portion {
            weight,
            least: bytes(block.least)?,
            most: bytes(block.most)?,
            align: bytes(if align == 0 { step } else { align })?,
            read_percent,
            random_percent,
            burst: 1,
            delay: Duration::ZERO,
        })
    };
    let is_alike = |pair: &[Parts<'_>]| {
        let [one, two] = pair else { return false };
        (one.1.least, one.1.most, one.2, one.4) == (two.1.least, two.1.most, two.2, two.4)
    };
    if kinds.len() == 2 && is_alike(&kinds) {
        // Reads and writes of one size and alignment are one kind of I/O with a percentage of reads.
        kinds.truncate(1);
        kinds[0].3 = read_percent;
    }
    let mut portions = kinds.into_iter().map(portion).collect::<Result<Vec<Portion>, String>>()?;
    if let [only] = &mut portions[..]
        && only.align == only.least
    {
        only.align = 0;
    }
    Ok(portions)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns the limits of the section's rate and its pauses.
fn pace(settings: &Settings) -> Result<Pace, String> {
    let mut limits = [None; 3];
    for (limit, (bytes, ios)) in limits.iter_mut().zip(settings.rate.iter().zip(&settings.rate_ios)) {
        *limit = match (bytes, ios) {
            (None, None) => None,
            (Some(bytes), None) => Some(Rate::Bytes(*bytes as f64)),
            (None, Some(ios)) => Some(Rate::Ios(*ios as f64)),
            (Some(_), Some(_)) => return Err("rate and rate_iops: a direction has one of them".into()),
        };
    }
    let pause = (!settings.think.is_zero()).then_some(Pause {
        after: settings.think_after,
        time: settings.think,
        busy: settings.think_busy,
        drained: true,
    });
    Ok(Pace { limits, poisson: settings.poisson, pause })
}

/// Returns the size that a section has with its `filesize`: as in fio, I/Os end at the end of the file. Random I/Os go to
/// the whole file behind the offset; then the second value is the number of bytes of all of them.
fn in_file(settings: &Settings) -> Result<(Option<Size>, Option<u64>), String> {
    let Some(file) = settings.file_size else { return Ok((settings.size, None)) };
    let all_files = file.saturating_mul(settings.files.into());
    let (offset, size) = match (settings.offset, settings.size) {
        (Some(Size::Percent(_)), _) => return Err("offset is in percent, and filesize in bytes".into()),
        (_, Some(Size::Percent(_))) => return Err("size is in percent, and filesize in bytes".into()),
        (None, Some(Size::Bytes(size))) => (0, size),
        (Some(Size::Bytes(offset)), Some(Size::Bytes(size))) => (offset, size),
        (None, None) => (0, all_files),
        (Some(Size::Bytes(offset)), None) => (offset, all_files),
    };
    if settings.files > 1 && size != all_files {
        return Err(format!(
            "filesize={file} and size={size}: the span is the {} whole files",
            settings.files
        ));
    }
    let behind = all_files.saturating_sub(offset);
    if behind == 0 {
        return Err(format!("offset={offset} is behind the end of a file of {all_files} bytes"));
    }
    Ok(match settings.is_random && size < behind {
        true => (Some(Size::Bytes(behind)), Some(size)),
        false => (Some(Size::Bytes(size.min(behind))), None),
    })
}

/// Returns where the span of all workers together begins in the file, and its length: in bytes, or in percent of the
/// target.
fn span(settings: &Settings, size: Option<Size>, pattern: &Pattern) -> Result<SizeRange, String> {
    let offset = settings.offset.filter(|offset| *offset != Size::Bytes(0));
    if offset.is_some() && (pattern.own_span || settings.files > 1) {
        return Err("offset is for a job of one file; numjobs share it with filename".into());
    }
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
            let length = bytes.checked_mul(own).ok_or("size times numjobs is too large")?;
            let start = match offset {
                None => 0,
                Some(Size::Bytes(start)) => start,
                Some(Size::Percent(_)) => return Err("offset is in percent, and size in bytes".into()),
            };
            start.checked_add(length).ok_or("offset and size are too large together")?;
            Ok(SizeRange { start, length, in_percent: false })
        }
        Some(Size::Percent(percent)) if u64::from(percent) * own > 100 => {
            Err(format!("size={percent}% for each of numjobs={own} is more than there is"))
        }
        size => {
            let start = match offset {
                None => 0,
                Some(Size::Percent(start)) => start.into(),
                Some(Size::Bytes(_)) => return Err("offset is in bytes, and size not".into()),
            };
            let length = match size {
                Some(Size::Percent(percent)) => u64::from(percent) * own,
                // Without a size the section takes the file behind the offset.
                _ => 100 - start,
            };
            if start + length > 100 || length == 0 {
                return Err(format!("offset={start}% leaves no {length} % of the file"));
            }
            Ok(SizeRange { start, length, in_percent: true })
        }
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
