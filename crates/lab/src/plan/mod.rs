//! The checks before the first byte is written: every case on every target, memory, and space on the device and the
//! host.

mod room;

pub(crate) use room::check_regions;

use crate::groups::memory_is_there;
use crate::stand::Stand;
use crate::target::Target;
use crate::workload::{Case, MOST_DEPTH, MOST_WORKERS, Workload};
use crate::{Comparison, Error, Portion, Result, Share};
use platter_device::host::{memory, memory_left};
use platter_device::{Caching, show_size};
use room::Room;
use std::collections::HashSet;

/// A comparison that passed all checks.
pub(crate) struct CheckedComparison {
    /// The comparison with the command line's options applied, and with each span and count computed.
    pub comparison: Comparison,
    /// The names of the targets in their order; all different.
    pub names: Vec<String>,
    /// Whether I/O goes past the page cache or through it.
    pub caching: Caching,
    /// Warnings for the readers of the report.
    pub warnings: Vec<String>,
    /// The bytes of the device that each target has; `None` for an image that will be made as large as the span asks
    /// for.
    pub share: Option<u64>,
}

/// The limit in bytes on the buffers of all I/Os in flight.
const MOST_OUTSTANDING: u64 = 1 << 30;
/// The limit on the I/Os in flight of all workers together: each I/O takes memory besides its buffer.
const MOST_IOS: u64 = 262_144;

/// Checks a comparison and computes the values that depend on the device.
///
/// Nothing is written. Only files without a name are made, in the host directories that the comparison will write to,
/// to learn whether they can be written and whether they allow direct I/O.
///
/// # Errors
/// [`Error::Job`]: the first thing that cannot be carried out, with the value that was asked for and the limit.
pub(crate) fn check(comparison: &Comparison) -> Result<CheckedComparison> {
    let mut comparison = comparison.clone();
    let mut warnings = Vec::new();
    if comparison.targets.is_empty() || comparison.workloads.is_empty() {
        return refuse("there is nothing to measure: at least one target and one workload are needed");
    }
    let caching = caching(&comparison)?;
    warnings.extend(comparison.time.and_then(|_| about_time(&comparison)));
    choose(&mut comparison);
    for workload in &comparison.workloads {
        warnings.append(&mut workload.notes.clone());
        workload.cases.iter().try_for_each(|case| check_load(workload, case))?;
        workload.groups().try_for_each(|group| check_outstanding(workload, group))?;
    }
    let names = distinct(comparison.targets.iter().map(Target::name));
    check_base(comparison.base.as_deref(), &names)?;
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
    Ok(CheckedComparison { comparison, names, caching, warnings, share: rooms.region() })
}

/// Fails if the target that the others are to be compared with is none of the targets.
pub(crate) fn check_base(base: Option<&str>, names: &[String]) -> Result<()> {
    match base {
        Some(base) if !names.iter().any(|name| name == base) => Err(Error::Input {
            name: "--base".into(),
            reason: format!("{base:?} is not among {}", names.join(", ")),
        }),
        _ => Ok(()),
    }
}

/// The largest span of a comparison's workloads; its targets are made for that size.
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

/// A sentence about the cases that end by size or count, if `--time` replaces that.
fn about_time(comparison: &Comparison) -> Option<String> {
    let cases = comparison.workloads.iter().flat_map(|workload| &workload.cases);
    let by_count = cases.filter(|case| case.count.is_some() || case.passes.is_some()).count();
    (by_count > 0).then(|| {
        format!(
            "--time replaces the size or count at which {by_count} {} end: until then they go over their span again and \
             again, as in fio with time_based",
            crate::statistics::plural(by_count as u64, "case")
        )
    })
}

/// Applies the command line's options, and gives workloads and cases with equal names different ones.
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
                // The time replaces a count or a number of passes, so that the case ends by time.
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

/// Gives cases of one direction different names: a report identifies a case by name and direction.
fn rename_cases(cases: &mut [Case]) {
    use crate::experiment::Direction;
    for direction in [Direction::Read, Direction::Write, Direction::Mix] {
        let alike = || cases.iter().filter(|case| case.direction == direction);
        let mut names = distinct(alike().map(|case| case.name.clone())).into_iter();
        for case in cases.iter_mut().filter(|case| case.direction == direction) {
            case.name = names.next().expect("one for each");
        }
    }
}

/// Appends a number to each name that occurred before.
pub(crate) fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
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

/// Checks one case for conditions that no target could satisfy.
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

/// Checks the workers, I/Os and buffers that cases which run at the same time have in flight together.
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
    let limit = match memory().0.min(memory_left()) {
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

/// The bytes of all buffers in flight, for cases that run at the same time.
fn outstanding(group: &[Case]) -> u64 {
    let of = |pattern: &crate::Pattern| {
        u64::from(pattern.block) * u64::from(pattern.workers) * u64::from(pattern.queue_depth)
    };
    group.iter().fold(0, |sum, case| sum.saturating_add(of(&case.pattern)))
}

/// Computes spans that are given as a share, and cuts spans to the largest file that every target can hold.
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
            // The bytes that are cut off hold no whole block. Parts of the span stay where they are.
            let cut = workload.span - workload.span % sector;
            let parts = workload.cases.iter_mut().filter_map(|case| case.part.as_mut());
            for part in parts.filter(|part| part.of == workload.span) {
                (part.end, part.of) = (part.end.min(cut), cut);
            }
            workload.span = cut;
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

/// Checks a workload's cases against one target's sector size and room.
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
        if !range.start.is_multiple_of(room.sector) {
            return about(format!(
                "it begins at {} bytes, which is no multiple of the {}-byte sector{}",
                range.start, room.sector, room.hint
            ));
        }
        let sector = u32::try_from(room.sector).unwrap_or(u32::MAX);
        if let (true, Some(why)) = (verify, pattern.why_not_verified(range.start, sector)) {
            return about(format!("{why}, as --verify needs"));
        }
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
        if let Some(why) = pattern.why_not_begun(part) {
            return about(why);
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

/// Computes the count of a case that ends after a number of passes over its span.
fn set_count(span: u64, case: &mut Case) {
    let Some(passes) = case.passes.take() else { return };
    let pattern = &case.pattern;
    let workers = u64::from(pattern.workers);
    let range = case.range(span);
    let length = range.end - range.start;
    let part = if pattern.own_span { length / workers } else { length };
    // Where block sizes differ, the number of blocks of the mean size counts.
    let blocks = (part as f64 / pattern.mean_block()).floor() as u64;
    let all = blocks.saturating_mul(workers).saturating_mul(u64::from(passes));
    case.count = Some(case.count.map_or(all, |count| count.min(all)));
}

/// Checks that memory suffices for a device in memory and for the I/Os in flight.
fn check_memory(comparison: &Comparison, rooms: &room::Rooms) -> Result<()> {
    let Stand::Memory(bytes) = comparison.stand else { return Ok(()) };
    if rooms.on_device == 0 {
        return Ok(());
    }
    let groups = comparison.workloads.iter().flat_map(Workload::groups);
    memory_is_there(&rooms.ground.name, bytes, groups.map(outstanding).max().unwrap_or(0))
}

#[cfg(test)]
mod tests;
