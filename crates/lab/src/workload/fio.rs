//! fio job files.
//!
//! The keys that describe a load are understood as `fio(1)` defines them. A key that is not understood is an error:
//! a job that silently ran otherwise than written would give figures that mean something else.

use super::{Case, Workload, input};
use crate::report::document::Direction;
use crate::{Durability, Pattern, Result};
use platter_device::parse_size;
use std::collections::BTreeMap;
use std::time::Duration;

/// Keys that say where or how fio itself does the I/O. What is measured does not depend on them here: the target is
/// given on the command line, and the engine is always the same.
const WITHOUT_MEANING: [&str; 14] = [
    "ioengine",
    "filename",
    "directory",
    "name",
    "group_reporting",
    "thread",
    "randrepeat",
    "norandommap",
    "stonewall",
    "wait_for_previous",
    "description",
    "create_on_open",
    "fallocate",
    "lat_percentiles",
];

type Keys = BTreeMap<String, String>;

/// What all jobs of a file have in common here.
#[derive(Clone, Copy, PartialEq)]
struct Shared {
    span: u64,
    durability: Durability,
    buffered: bool,
    seed: u64,
}

/// Reads a job file: each job section becomes a case.
pub(super) fn parse(name: &str, text: &str) -> Result<Workload> {
    let mut global = Keys::new();
    let mut jobs: Vec<(String, Keys)> = Vec::new();
    let mut in_global = true;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        if let Some(section) = line.strip_prefix('[') {
            let Some(section) = section.strip_suffix(']') else {
                return Err(input(name, format!("line {}: expected ] at the end of {line:?}", number + 1)));
            };
            in_global = section == "global";
            if !in_global {
                jobs.push((section.to_owned(), global.clone()));
            }
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "1"));
        let keys = match jobs.last_mut() {
            Some((_, keys)) if !in_global => keys,
            _ => &mut global,
        };
        keys.insert(canonical(key.trim()).to_owned(), value.trim().to_owned());
    }
    if jobs.is_empty() {
        return Err(input(name, "it has no job section"));
    }
    let mut cases = Vec::new();
    let mut shared: Option<Shared> = None;
    for (job, keys) in jobs {
        let job_name = format!("{name}, job [{job}]");
        let (case, settings) = case(&job_name, job, keys)?;
        if shared.is_some_and(|shared| shared != settings) {
            return Err(input(
                &job_name,
                "size, direct, fsync, sync and randseed must be the same for all jobs of a file",
            ));
        }
        shared = Some(settings);
        cases.push(case);
    }
    let Shared { span, durability, buffered, seed } = shared.expect("there is a job");
    Ok(Workload {
        name: name.into(),
        title: name.into(),
        description: format!("fio job file {name}"),
        seed,
        durability,
        buffered,
        scoring: None,
        span,
        repeats: 1,
        cases,
    })
}

/// One spelling for keys that have several.
fn canonical(key: &str) -> &str {
    match key {
        "readwrite" => "rw",
        "blocksize" => "bs",
        "io_size" | "io_limit" => "io_size",
        "timeout" => "runtime",
        "ba" => "blockalign",
        other => other,
    }
}

fn case(name: &str, job: String, mut keys: Keys) -> Result<(Case, Shared)> {
    for key in WITHOUT_MEANING {
        keys.remove(key);
    }
    let mut take = |key: &str| keys.remove(key);
    let bytes = |key: &str, value: Option<String>| {
        value
            .map(|text| parse_size(&text))
            .transpose()
            .map_err(|reason| input(name, format!("{key}: {reason}")))
    };
    let number = |key: &str, value: Option<String>, default: u64| match value {
        None => Ok(default),
        Some(text) => {
            text.parse::<u64>().map_err(|_| input(name, format!("{key}={text}: expected a whole number")))
        }
    };
    let rw = take("rw").unwrap_or_else(|| "read".into());
    let (random, direction) = match rw.as_str() {
        "read" => (0, Direction::Read),
        "write" => (0, Direction::Write),
        "rw" | "readwrite" => (0, Direction::Mix),
        "randread" => (100, Direction::Read),
        "randwrite" => (100, Direction::Write),
        "randrw" => (100, Direction::Mix),
        other => {
            return Err(input(
                name,
                format!("rw={other}: only read, write, rw and their rand forms are run"),
            ));
        }
    };
    let mixed = number("rwmixread", take("rwmixread"), 50)?;
    let mixed = match take("rwmixwrite") {
        Some(text) => 100 - number("rwmixwrite", Some(text), 50)?.min(100),
        None => mixed,
    };
    let random = number("percentage_random", take("percentage_random"), random)?;
    let block = bytes("bs", take("bs"))?.unwrap_or(4096);
    let align = bytes("blockalign", take("blockalign"))?.unwrap_or(0);
    let Some(span) = bytes("size", take("size"))? else { return Err(input(name, "size is missing")) };
    let depth = number("iodepth", take("iodepth"), 1)?;
    let workers = number("numjobs", take("numjobs"), 1)?;
    let buffered = number("direct", take("direct"), 0)? == 0;
    let sync = take("sync").unwrap_or_else(|| "0".into());
    let fsync = number("fsync", take("fsync"), 0)?.max(number("fdatasync", take("fdatasync"), 0)?);
    let durability = match (sync.as_str(), fsync) {
        ("0" | "none", 0) => Durability::Direct,
        ("1" | "sync" | "dsync", 0) => Durability::WriteThrough,
        ("0" | "none", writes) => {
            Durability::FsyncEvery(u32::try_from(writes).map_err(|_| input(name, "fsync is too large"))?)
        }
        (other, _) => {
            return Err(input(name, format!("sync={other}: expected 0, 1, sync or dsync, without fsync")));
        }
    };
    let seconds = |key: &str, value: Option<String>| match value {
        None => Ok(None),
        Some(text) => {
            duration(&text).map(Some).ok_or_else(|| input(name, format!("{key}={text}: expected a time")))
        }
    };
    let runtime = seconds("runtime", take("runtime"))?;
    let ramp_up = seconds("ramp_time", take("ramp_time"))?.unwrap_or_default();
    let time_based = take("time_based").is_some_and(|value| value != "0");
    let ios = take("number_ios").map(|text| number("number_ios", Some(text), 0)).transpose()?;
    let count = match (ios, bytes("io_size", take("io_size"))?) {
        (Some(ios), _) => Some(ios.saturating_mul(workers)),
        (None, Some(bytes)) => Some((bytes / block.max(1)).saturating_mul(workers)),
        (None, None) if !time_based => Some((span / block.max(1)).saturating_mul(workers)),
        (None, None) => None,
    };
    let time = match (time_based, runtime) {
        (true, None) => return Err(input(name, "time_based needs a runtime")),
        (true, Some(time)) => time,
        (false, None) => Duration::ZERO,
        // fio ends such a job at whichever comes first; a rate over an unknown share of the file is no figure.
        (false, Some(_)) => return Err(input(name, "runtime needs time_based")),
    };
    let seed = number("randseed", take("randseed"), 8664)?;
    if let Some((key, value)) = keys.pop_first() {
        return Err(input(name, format!("{key}={value}: this key is not understood")));
    }
    let small = |key: &str, value: u64| {
        u32::try_from(value).map_err(|_| input(name, format!("{key}={value}: the value is too large")))
    };
    let read_percent = match direction {
        Direction::Read => 100,
        Direction::Write => 0,
        Direction::Mix => mixed.min(100) as u8,
    };
    let pattern = Pattern {
        block: small("bs", block)?,
        align: small("blockalign", align)?,
        read_percent,
        random_percent: random.min(100) as u8,
        workers: small("numjobs", workers)?,
        queue_depth: small("iodepth", depth)?,
        own_span: false,
    };
    let count = if time_based { None } else { count };
    Ok((
        Case { name: job, profiles: Vec::new(), direction, pattern, time, ramp_up, count, continuous: false },
        Shared { span, durability, buffered, seed },
    ))
}

/// fio's times: a number of seconds, or with a unit.
fn duration(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * factor).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = "; a comment\n[global]\nioengine=io_uring\ndirect=1\nsize=1g\nruntime=30s\ntime_based\n\
                       randseed=7\n[mixed]\nrw=randrw\nrwmixread=70\nbs=4k\niodepth=32\nnumjobs=2\n[seq]\nrw=read\nbs=1m\n";

    #[test]
    fn common_keys_mean_what_fio_means() {
        let workload = parse("job", JOB).unwrap();
        assert_eq!((workload.span, workload.seed, workload.cases.len()), (1 << 30, 7, 2));
        assert!(!workload.buffered && parse("job", &JOB.replace("direct=1", "direct=0")).unwrap().buffered);
        let mixed = &workload.cases[0];
        assert_eq!(
            (mixed.direction, mixed.pattern.read_percent, mixed.pattern.workers),
            (Direction::Mix, 70, 2)
        );
        assert_eq!((mixed.pattern.random_percent, mixed.pattern.queue_depth), (100, 32));
        assert_eq!(mixed.time, Duration::from_secs(30));
        let seq = &workload.cases[1];
        assert_eq!((seq.pattern.block, seq.pattern.random_percent, seq.pattern.queue_depth), (1 << 20, 0, 1));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let unknown = JOB.replace("randseed=7", "zonemode=zbd");
        let error = parse("job", &unknown).unwrap_err().to_string();
        assert!(error.contains("zonemode=zbd") && error.contains("[mixed]"), "{error}");
        let mixed = JOB.replace("[seq]", "[seq]\ndirect=0");
        assert!(parse("job", &mixed).unwrap_err().to_string().contains("same for all jobs"));
        let trim = JOB.replace("rw=randrw", "rw=randtrim");
        assert!(parse("job", &trim).unwrap_err().to_string().contains("randtrim"));
    }

    #[test]
    fn a_job_without_time_ends_by_count() {
        let job = "[a]\nrw=write\nbs=64k\nsize=1m\ndirect=1\nnumjobs=3\nfsync=4\n";
        let workload = parse("job", job).unwrap();
        assert_eq!(workload.cases[0].count, Some(48));
        assert_eq!(workload.durability, Durability::FsyncEvery(4));
    }
}
