//! Turns a profile into workloads.

use super::profile::{Length, Profile, Target, Throughput, TimeSpan, WriteContent};
use crate::experiment::Direction;
use crate::workload::{Case, Part, Share, Workload};
use crate::{Begin, Durability, Pace, PartLength, Pattern, Pause, Rate, Shape, Spread, SpreadPart};
use std::path::Path;
use std::time::Duration;

/// Files begin at a multiple of this many bytes.
const STEP: u64 = 4096;

impl Profile {
    /// The workloads of the profile, one for each time span.
    ///
    /// # Errors
    /// A sentence that states the problem.
    pub fn workloads(&self) -> Result<Vec<Workload>, String> {
        let count = self.time_spans.len();
        let name = |number: usize| match count {
            1 => "diskspd".to_string(),
            _ => format!("diskspd timespan {}", number + 1),
        };
        self.time_spans.iter().enumerate().map(|(number, span)| self.workload(name(number), span)).collect()
    }

    fn workload(&self, name: String, span: &TimeSpan) -> Result<Workload, String> {
        let first = span.targets.first().ok_or("it has no target")?;
        let differs =
            |what: fn(&Target) -> bool| span.targets.iter().any(|target| what(target) != what(first));
        if differs(|target| target.caches.no_buffering) {
            return Err("one target is cached and another is not: a run has one way of doing I/O".into());
        }
        let mut notes = Vec::new();
        let places = places(&span.targets)?;
        let mut cases = Vec::new();
        for (target, extent) in span.targets.iter().zip(&places.extents) {
            let part = Part { start: extent.0, end: extent.1, of: places.whole };
            let mut case = case(span, target)?;
            case.part = Some(part).filter(|part| (part.start, part.end) != (0, part.of));
            case.beside = !cases.is_empty();
            cases.push(case);
        }
        if span.threads > 0 && span.targets.len() > 1 {
            notes.push(format!(
                "-F{}: each target has {} threads of its own, where DiskSpd's do the I/O of all targets in turn; what is \
                 outstanding at each target is the same",
                span.threads, span.threads
            ));
        }
        let writes = span.targets.iter().any(|target| target.write_ratio > 0);
        if writes
            && !span.random_data
            && span.targets.iter().any(|target| target.content == WriteContent::Sequence)
        {
            notes.push(
                "what is written is random, and no sector is like another; DiskSpd writes the bytes 0 to 255 again and \
                 again without -Zr or -Z<size>"
                    .into(),
            );
        }
        if span.cooldown > 0 {
            notes
                .push(format!("-C{}: the load ends when measuring ends, without a cool down", span.cooldown));
        }
        if span.completion_routines {
            notes.push("-x: completions come as the system gives them".into());
        }
        Ok(Workload {
            name,
            title: "DiskSpd".into(),
            description: self.command.clone(),
            seed: span.seed.into(),
            durability: cases.iter().find_map(|case| case.durability).unwrap_or(Durability::Direct),
            buffered: !first.caches.no_buffering,
            scoring: None,
            span: if places.is_share { 0 } else { places.whole },
            share: places.is_share.then_some(Share(100)),
            paths: Vec::new(),
            repeats: 1,
            cases,
            notes,
        })
    }
}

fn case(span: &TimeSpan, target: &Target) -> Result<Case, String> {
    let whole_seconds = |seconds: u32| Duration::from_secs(seconds.into());
    let block = u32::try_from(target.block).map_err(|_| "a block is at most 4 GiB")?;
    let read_percent = 100 - target.write_ratio;
    let random_percent = match (target.random, target.random_ratio) {
        (None, _) => 0,
        (Some(_), ratio) => ratio.unwrap_or(100),
    };
    let step = match (target.random, target.stride) {
        (Some(align), _) => align,
        // A thread begins where -T says, also if that is no multiple of the block.
        (None, stride) => gcd(gcd(stride.unwrap_or(target.block), target.block), target.thread_stride),
    };
    let align = u32::try_from(step).map_err(|_| "an alignment is at most 4 GiB")?;
    let stride = target.stride.filter(|stride| target.random.is_none() && *stride != target.block);
    let parts = target.distribution.iter().map(|&(percent, length)| SpreadPart {
        percent,
        length: match length {
            Length::Percent(percent) => PartLength::Percent(percent),
            Length::Bytes(bytes) => PartLength::Bytes(bytes),
        },
    });
    let limit = target.throughput.map(|limit| match limit {
        Throughput::Iops(rate) => Rate::Ios(rate as f64),
        Throughput::BytesPerMs(rate) => Rate::Bytes(rate as f64 * 1000.0),
    });
    let pause = (target.think > 0).then_some(Pause {
        after: target.burst,
        time: Duration::from_millis(target.think.into()),
        busy: Duration::ZERO,
        drained: false,
    });
    let (workers, depth) = match (span.threads, span.requests) {
        (0, 0) => (target.threads, target.requests),
        (0, _) => return Err("-O is for threads of all targets together: -F".into()),
        (threads, 0) => (threads, target.requests),
        (_, _) if span.targets.len() > 1 => {
            return Err("-O with several targets: say what is outstanding at each with -o".into());
        }
        (threads, requests) => (threads, requests),
    };
    let shape = Shape {
        spread: if target.distribution.is_empty() { Spread::Uniform } else { Spread::Parts(parts.collect()) },
        steady_runs: target.random_ratio.is_some(),
        stride: stride.map(i64::try_from).transpose().map_err(|_| "a stride is at most 2^63 bytes")?,
        begin: match (target.interlocked, target.thread_stride) {
            (true, _) => Begin::Shared,
            (false, 0) => Begin::Together,
            (false, stride) => Begin::Every(stride),
        },
        pace: Pace { limits: [None, None, limit], poisson: false, pause },
        ..Shape::default()
    };
    Ok(Case {
        name: file_name(&target.path).to_owned(),
        profiles: Vec::new(),
        direction: match read_percent {
            100 => Direction::Read,
            0 => Direction::Write,
            _ => Direction::Mix,
        },
        pattern: Pattern {
            block,
            align: if align == block { 0 } else { align },
            read_percent,
            random_percent,
            workers,
            queue_depth: depth,
            own_span: false,
            shape,
        },
        time: whole_seconds(span.duration),
        ramp_up: whole_seconds(span.warmup),
        count: None,
        continuous: false,
        passes: None,
        beside: false,
        part: None,
        durability: Some(match target.caches.write_through {
            true => Durability::WriteThrough,
            false => Durability::Direct,
        }),
        interval: Some(Duration::from_millis(span.bucket.into())),
    })
}

/// The ranges of the workload's span that the targets use.
struct Places {
    extents: Vec<(u64, u64)>,
    whole: u64,
    /// Whether the ranges are in percent of the device, because there is one target whose size is unknown.
    is_share: bool,
}

/// Places the files side by side; targets with the same path share one file.
fn places(targets: &[Target]) -> Result<Places, String> {
    let mut files: Vec<(&str, u64, u64)> = Vec::new();
    let mut extents = Vec::new();
    let lengths = targets.iter().map(length).collect::<Result<Vec<Option<u64>>, String>>()?;
    if let ([None], [only]) = (&lengths[..], targets) {
        if only.base > 0 {
            return Err(format!("-B: the size of {} is not known; give it with -c", only.path));
        }
        return Ok(Places { extents: vec![(0, 100)], whole: 100, is_share: true });
    }
    for (target, length) in targets.iter().zip(lengths) {
        let Some(length) = length else {
            return Err(format!(
                "the size of {} is not known, and there are several targets: give -c",
                target.path
            ));
        };
        let start = match files.iter().find(|(path, ..)| *path == target.path) {
            Some((_, start, known)) if *known >= length => *start,
            Some(_) => return Err(format!("{} has two sizes", target.path)),
            None => {
                let end = files.iter().map(|(_, start, length)| start + length).max().unwrap_or(0);
                let start = end.checked_next_multiple_of(STEP).ok_or("sizes are too large together")?;
                start.checked_add(length).ok_or("sizes are too large together")?;
                files.push((&target.path, start, length));
                start
            }
        };
        let end = match target.max {
            0 => length,
            max => max.min(length),
        };
        if target.base + target.block > end {
            return Err(format!(
                "{}: no block of {} bytes lies from {} to {end}",
                target.path, target.block, target.base
            ));
        }
        extents.push((start + target.base, start + end));
    }
    let whole = files.iter().map(|(_, start, length)| start + length).max().unwrap_or(0);
    Ok(Places { extents, whole, is_share: false })
}

/// The size of a target's file in bytes: the size that it is created with, or its present size, or the end of the range
/// of I/Os. `None` for a whole device.
fn length(target: &Target) -> Result<Option<u64>, String> {
    let path = &target.path;
    if target.size > 0 {
        return Ok(Some(target.size));
    }
    match std::fs::metadata(path) {
        Ok(data) if data.is_file() && data.len() > 0 => Ok(Some(data.len())),
        _ if target.max > 0 => Ok(Some(target.max)),
        _ if is_device(path) => Ok(None),
        _ => Err(format!("{path} is not there, or empty; -c gives the size to make it with")),
    }
}

/// Whether a path names a device, in the way of Windows (`#1`, `D:`) or of this system, instead of a file.
fn is_device(path: &str) -> bool {
    path.starts_with('#')
        || (path.len() == 2 && path.ends_with(':'))
        || std::fs::metadata(path).is_ok_and(|data| !data.is_dir() && !data.is_file())
        || crate::stand::is_missing_device(Path::new(path))
}

impl Profile {
    /// The first target that is a device. A file beside it, which would take the place of a target that is a file, would
    /// not be on that device.
    pub fn device(&self) -> Option<&str> {
        self.paths().find(|path| is_device(path))
    }
}

/// The last component of a path with the separators of this system or of Windows.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().filter(|name| !name.is_empty()).unwrap_or(path)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
