//! What is checked before the first byte is written: every case on every target on the device, and the room for all.

mod room;

use crate::environment::{memory_available, memory_bytes};
use crate::stand::Stand;
use crate::target::Target;
use crate::workload::{Case, MOST_DEPTH, MOST_WORKERS, Workload};
use crate::{CELL, Comparison, Error, Portion, Result, Share};
use platter_device::{Caching, show_size};
use room::Room;
use std::collections::HashSet;

/// A comparison that can be carried out.
pub(crate) struct CheckedComparison {
    /// With the command line's choices applied, and each span and count worked out.
    pub comparison: Comparison,
    /// What the targets are called, in their order; no two alike.
    pub names: Vec<String>,
    /// Past the page cache or through it.
    pub caching: Caching,
    /// What the report's reader should know.
    pub warnings: Vec<String>,
}

/// Outstanding memory of a case, in bytes, that nobody needs more of.
const MOST_OUTSTANDING: u64 = 1 << 30;
/// What all workers together may have outstanding: each I/O takes memory of its own besides its data.
const MOST_IOS: u64 = 262_144;

/// Checks a comparison, and works out what depends on the device.
///
/// Nothing is written, but for files without a name in the directories that the comparison will write to, which tell
/// whether they can be written and how.
///
/// # Errors
/// [`Error::Job`]: the first thing that cannot be carried out, with what it is and what there is.
pub(crate) fn check(comparison: &Comparison) -> Result<CheckedComparison> {
    let mut comparison = comparison.clone();
    let mut warnings = Vec::new();
    if comparison.targets.is_empty() || comparison.workloads.is_empty() {
        return refuse("there is nothing to measure: at least one target and one workload are needed");
    }
    let caching = caching(&comparison)?;
    choose(&mut comparison);
    for workload in &comparison.workloads {
        warnings.append(&mut workload.notes.clone());
        workload.cases.iter().try_for_each(|case| check_load(workload, case))?;
        workload.groups().try_for_each(|group| check_outstanding(workload, group))?;
    }
    let names = distinct(comparison.targets.iter().map(Target::name));
    let rooms = room::look(&comparison, &names, caching)?;
    set_spans(&mut comparison, &rooms, &mut warnings)?;
    for workload in &mut comparison.workloads {
        for room in &rooms.targets {
            check_blocks(workload, room, comparison.verify)?;
        }
        for case in &mut workload.cases {
            set_count(workload.span, case);
        }
    }
    let span = largest_span(&comparison);
    rooms.check_space(&comparison, span)?;
    check_memory(&comparison, &rooms)?;
    warnings.extend(rooms.warnings(caching));
    if rooms.on_device == 0 && !matches!(comparison.stand, Stand::TemporaryImage(_)) {
        warnings
            .push(format!("{} was left alone: every target is a directory of the host", rooms.ground.name));
    }
    Ok(CheckedComparison { comparison, names, caching, warnings })
}

/// The largest span of a comparison's workloads, for which its targets are made.
pub(crate) fn largest_span(comparison: &Comparison) -> u64 {
    comparison.workloads.iter().map(|workload| workload.span).max().unwrap_or(0)
}

pub(crate) fn refuse<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::Job(reason.into()))
}

fn caching(comparison: &Comparison) -> Result<Caching> {
    let buffered = comparison.workloads.iter().filter(|workload| workload.buffered).count();
    match (comparison.buffered, buffered) {
        (false, 0) => Ok(Caching::DirectIfPossible),
        (false, some) if some < comparison.workloads.len() => {
            refuse("buffered and direct workloads cannot share a comparison")
        }
        _ => Ok(Caching::Buffered),
    }
}

/// Applies the command line's choices, and gives what is alike different names.
fn choose(comparison: &mut Comparison) {
    let (span, time) = (comparison.span, comparison.time);
    for workload in &mut comparison.workloads {
        if let Some(span) = span {
            (workload.span, workload.share) = (span, None);
        }
        workload.repeats = comparison.repeats.unwrap_or(workload.repeats);
        workload.durability = comparison.durability.unwrap_or(workload.durability);
        for case in &mut workload.cases {
            case.durability = case.durability.filter(|_| comparison.durability.is_none());
            if let Some(time) = time {
                // What ends by count or size ends by time now.
                (case.time, case.count, case.passes) = (time, None, None);
            }
        }
        rename_cases(&mut workload.cases);
    }
    let names = distinct(comparison.workloads.iter().map(|workload| workload.name.clone()));
    for (workload, name) in comparison.workloads.iter_mut().zip(names) {
        if let Some(number) = name.strip_prefix(&workload.name).filter(|number| !number.is_empty()) {
            workload.title += number;
        }
        workload.name = name;
    }
}

/// Cases of one direction have different names: a report tells them apart by both.
fn rename_cases(cases: &mut [Case]) {
    use crate::report::document::Direction;
    for direction in [Direction::Read, Direction::Write, Direction::Mix] {
        let alike = || cases.iter().filter(|case| case.direction == direction);
        let mut names = distinct(alike().map(|case| case.name.clone())).into_iter();
        for case in cases.iter_mut().filter(|case| case.direction == direction) {
            case.name = names.next().expect("one for each");
        }
    }
}

/// Names with a number behind each that was there before.
fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let names: Vec<String> = names.collect();
    let mut taken: HashSet<String> = names.iter().cloned().collect();
    let mut seen = HashSet::new();
    let number = |name: &String| {
        if seen.insert(name.clone()) {
            return name.clone();
        }
        let numbered =
            (2..).map(|number| format!("{name} #{number}")).find(|name| taken.insert(name.clone()));
        numbered.expect("numbers do not end")
    };
    names.iter().map(number).collect()
}

/// What cannot be run on any target.
fn check_load(workload: &Workload, case: &Case) -> Result<()> {
    let pattern = &case.pattern;
    let about = |reason: String| refuse(format!("{}, {}: {reason}", workload.name, case.name));
    let portions = pattern.portions();
    let smallest = portions.iter().map(|portion| portion.least).min().unwrap_or(0);
    if smallest == 0 || pattern.workers == 0 || pattern.queue_depth == 0 {
        return about("block, workers and queue depth must be at least 1".into());
    }
    if portions.iter().any(|portion| portion.read_percent > 100 || portion.random_percent > 100) {
        return about("a share is at most 100 percent".into());
    }
    if case.time.is_zero() && case.count.is_none() && case.passes.is_none() {
        return about("it has neither a time nor a count at which it ends".into());
    }
    let (workers, depth) = (pattern.workers, pattern.queue_depth);
    if workers > MOST_WORKERS || depth > MOST_DEPTH {
        return about(format!(
            "{workers} workers with {depth} I/Os outstanding each; at most are {MOST_WORKERS} workers and {MOST_DEPTH} I/Os of \
             each"
        ));
    }
    Ok(())
}

/// What cases that run at the same time have outstanding together.
fn check_outstanding(workload: &Workload, group: &[Case]) -> Result<()> {
    let names = group.iter().map(|case| case.name.as_str()).collect::<Vec<_>>().join(" + ");
    let about = |reason: String| refuse(format!("{}, {names}: {reason}", workload.name));
    let workers: u64 = group.iter().map(|case| u64::from(case.pattern.workers)).sum();
    let of = |case: &Case| u64::from(case.pattern.workers) * u64::from(case.pattern.queue_depth);
    let all: u64 = group.iter().map(of).sum();
    if workers > MOST_WORKERS.into() || all > MOST_IOS {
        return about(format!(
            "{workers} workers with {all} I/Os outstanding; at most are {MOST_WORKERS} workers with {MOST_IOS} at the same time"
        ));
    }
    let limit = match memory_bytes() {
        0 => MOST_OUTSTANDING,
        all => MOST_OUTSTANDING.min(all / 4),
    };
    let needed = outstanding(group);
    if needed > limit {
        return about(format!(
            "{workers} workers with {all} I/Os outstanding need {} of memory; at most {} are given for that",
            show_size(needed),
            show_size(limit)
        ));
    }
    Ok(())
}

/// Bytes in flight of cases that run at the same time.
fn outstanding(group: &[Case]) -> u64 {
    let of = |pattern: &crate::Pattern| {
        u64::from(pattern.block) * u64::from(pattern.workers) * u64::from(pattern.queue_depth)
    };
    group.iter().fold(0, |sum, case| sum.saturating_add(of(&case.pattern)))
}

/// Works out shares, and cuts spans to what every target can hold as one file.
fn set_spans(comparison: &mut Comparison, rooms: &room::Rooms, warnings: &mut Vec<String>) -> Result<()> {
    let asked = comparison.span;
    for workload in &mut comparison.workloads {
        if let Some(Share(percent)) = workload.share {
            let Some(whole) = rooms.whole() else {
                return refuse(format!(
                    "{}: its size is {percent} % of the target, and an image is made as large as the span asks for: give \
                     --span, or a --device that is there",
                    workload.name
                ));
            };
            workload.span = (u128::from(whole) * u128::from(percent) / 100) as u64;
        }
        let sector = rooms.sector();
        if !workload.span.is_multiple_of(sector) {
            if asked == Some(workload.span) {
                return refuse(format!(
                    "a span of {} bytes is no multiple of the {sector}-byte sector",
                    workload.span
                ));
            }
            // No whole block lies in what is left out.
            workload.span -= workload.span % sector;
        }
        if let Some((target, largest)) = rooms.largest_file()
            && workload.span > largest
        {
            warnings.push(format!(
                "{}: the span was cut from {} to {largest} bytes for every target, because {target} holds no larger file",
                workload.name, workload.span
            ));
            workload.span = largest;
        }
    }
    Ok(())
}

/// What of a workload cannot be run on one target.
fn check_blocks(workload: &Workload, room: &Room, verify: bool) -> Result<()> {
    for case in &workload.cases {
        let pattern = &case.pattern;
        let (block, span) = (u64::from(pattern.block), workload.span);
        let range = case.range(span);
        let length = range.end - range.start;
        let about =
            |reason: String| refuse(format!("{}, {} on {}: {reason}", workload.name, case.name, room.name));
        let portions = pattern.portions();
        let sizes = portions.iter().map(|portion| ("block", u64::from(portion.least)));
        let own = portions.iter().filter(|portion| portion.align != Portion::SECTOR);
        let aligns = own.map(|portion| ("alignment", u64::from(portion.align)));
        for (what, bytes) in sizes.chain(aligns) {
            if !bytes.is_multiple_of(room.sector) {
                return about(format!(
                    "a {what} of {bytes} bytes is no multiple of the {}-byte sector{}",
                    room.sector, room.hint
                ));
            }
        }
        let odd = portions.iter().find(|portion| !u64::from(portion.least).is_multiple_of(CELL as u64));
        if let (true, Some(Portion { least, .. })) = (verify, odd) {
            return about(format!("a block of {least} bytes is no multiple of {CELL}, as --verify needs"));
        }
        let sector = u32::try_from(room.sector).unwrap_or(u32::MAX);
        let align = portions.iter().map(|portion| u64::from(portion.alignment(sector))).max().unwrap_or(1);
        let part =
            if pattern.own_span { length / u64::from(pattern.workers) / align * align } else { length };
        let files = u64::from(pattern.shape.files.max(1));
        let part = if files > 1 { part / files / align * align } else { part };
        if part < block {
            let whose = match (files, pattern.own_span) {
                (2.., _) => " of each file",
                (_, true) => " of each worker",
                _ => "",
            };
            return about(format!("a span{whose} of {part} bytes holds no block of {block} bytes"));
        }
        if span > room.bytes {
            return about(format!(
                "a span of {span} bytes ({}) does not fit: {}; choose another with --span",
                show_size(span),
                room.why
            ));
        }
    }
    Ok(())
}

/// Makes a count of what ends with the span.
fn set_count(span: u64, case: &mut Case) {
    let Some(passes) = case.passes.take() else { return };
    let pattern = &case.pattern;
    let workers = u64::from(pattern.workers);
    let range = case.range(span);
    let length = range.end - range.start;
    let part = if pattern.own_span { length / workers } else { length };
    // Of different sizes as many as there are of the mean.
    let blocks = (part as f64 / pattern.mean_block()).floor() as u64;
    let all = blocks.saturating_mul(workers).saturating_mul(u64::from(passes));
    case.count = Some(case.count.map_or(all, |count| count.min(all)));
}

/// Memory for a device in it and for what is outstanding.
fn check_memory(comparison: &Comparison, rooms: &room::Rooms) -> Result<()> {
    let ground = &rooms.ground;
    let Stand::Memory(bytes) = comparison.stand else { return Ok(()) };
    let groups = comparison.workloads.iter().flat_map(Workload::groups);
    let all = bytes.saturating_mul(rooms.on_device);
    let needed = all.saturating_add(groups.map(outstanding).max().unwrap_or(0));
    let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_AS);
    let there = memory_available().min(limit.map_or(u64::MAX, |(soft, _)| soft));
    if there > 0 && needed > there {
        return refuse(format!(
            "{} for each target needs {} of memory with its I/Os, of which {} are free",
            ground.name,
            show_size(needed),
            show_size(there)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
