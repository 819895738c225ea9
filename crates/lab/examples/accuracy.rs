//! Does the engine measure what fio measures? The same jobs in both, interleaved, on the same file or device.
//!
//!     cargo run --release -p platterfs-lab --example accuracy -- PATH [PATH ...] [--seconds S] [--rounds N] [--asleep]
//!
//! Every PATH is a block device or a file of at least 1 GiB; **its content is overwritten**. For each job the program
//! prints the medians of IOPS and of the 50th and 99th percentile of latency (submission to completion) in fio
//! (io_uring, direct) and in Platter, how far they differ, and how far the second run of fio in each round differs from
//! the first. The exit code is 1 if IOPS differ by more than 5 %, or a percentile by more than 10 %.
//!
//! With `--asleep` only jobs with one I/O at a time run, for which nothing keeps the processors awake. On a virtual machine the time of
//! an I/O is then mostly that of waking a processor, so IOPS and the median may differ by 10 %, and the 99th percentile by anything.
//!
//! A machine shared with others changes its speed several times a second. In many short rounds, in which all runs
//! alternate, each run gets the same share of these changes; in few long rounds it does not.

use platter_device::{Caching, FileDevice, FileOptions};
use platter_lab::statistics::median;
use platter_lab::{Durability, Job, Pattern, Stop, Subject, prepare, run};
use std::error::Error;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the path that are used.
const SPAN: u64 = 1 << 30;
const SEED: u64 = 8664;

/// How long the load of each job runs before it is measured.
const RAMP_UP: Duration = Duration::from_millis(200);

/// A job that both fio and Platter can run.
struct Shape {
    name: &'static str,
    rw: &'static str,
    read_percent: u8,
    random: bool,
    block: u32,
    depth: u32,
}

const SHAPES: [Shape; 8] = [
    shape("4 KiB random read QD1", "randread", 100, true, 4096, 1),
    shape("4 KiB random read QD32", "randread", 100, true, 4096, 32),
    shape("4 KiB random write QD1", "randwrite", 0, true, 4096, 1),
    shape("4 KiB random write QD32", "randwrite", 0, true, 4096, 32),
    shape("4 KiB random 70/30 QD1", "randrw", 70, true, 4096, 1),
    shape("4 KiB random 70/30 QD32", "randrw", 70, true, 4096, 32),
    shape("1 MiB sequential read QD8", "read", 100, false, 1 << 20, 8),
    shape("1 MiB sequential write QD8", "write", 0, false, 1 << 20, 8),
];

const fn shape(
    name: &'static str,
    rw: &'static str,
    read_percent: u8,
    random: bool,
    block: u32,
    depth: u32,
) -> Shape {
    Shape { name, rw, read_percent, random, block, depth }
}

/// The result of a run: IOPS, and percentiles of latency in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Figures {
    iops: f64,
    p50: f64,
    p99: f64,
}

/// The indices of the three runs of a job in each round. fio runs twice: the difference between its two runs shows how
/// much the machine varies.
const FIO: usize = 0;
const PLATTER: usize = 1;
const AGAIN: usize = 2;

/// A figure, the divisor for printing it, and the greatest difference that is allowed.
type Column = (fn(&Figures) -> f64, f64, f64);

const COLUMNS: [Column; 3] = [(|f| f.iops, 1.0, 0.05), (|f| f.p50, 1e3, 0.10), (|f| f.p99, 1e3, 0.10)];

/// The same where processors sleep between I/Os.
const ASLEEP: [Column; 3] =
    [(|f| f.iops, 1.0, 0.10), (|f| f.p50, 1e3, 0.10), (|f| f.p99, 1e3, f64::INFINITY)];

fn with_fio(path: &str, shape: &Shape, time: Duration) -> Result<Figures, Box<dyn Error>> {
    let output = Command::new("fio")
        // Large buffers use huge pages, as they do in Platter (see also `iomem_align`): otherwise the number of pieces
        // of a transfer would depend on which pages happen to be free.
        .env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
        .args([
            "--name=accuracy",
            "--ioengine=io_uring",
            "--direct=1",
            "--norandommap",
            "--output-format=json",
        ])
        // fio measures only the whole time of each request, as Platter does, and not its parts too. On one processor,
        // measuring the parts costs some 2 % of the requests at a queue depth of 32.
        .args(["--lat_percentiles=1", "--disable_clat=1", "--disable_slat=1"])
        // fio changes some bytes in every 512 before each write, as Platter does. That is fio's default, but stated,
        // because it changes the IOPS at a queue depth of 32 by some percent.
        .arg("--scramble_buffers=1")
        .args(["--percentile_list=50:99", "--time_based"])
        .args(["--unified_rw_reporting=1", "--allow_file_create=0"])
        .arg(format!("--filename={path}"))
        .arg(format!("--rw={}", shape.rw))
        .arg(format!("--rwmixread={}", shape.read_percent))
        .arg(format!("--bs={}", shape.block))
        .arg(format!("--iodepth={}", shape.depth))
        .arg(format!("--size={SPAN}"))
        .arg(format!("--ramp_time={}ms", RAMP_UP.as_millis()))
        .arg(format!("--runtime={}ms", time.as_millis()))
        .arg(format!("--randseed={SEED}"))
        .arg("--iomem_align=2m")
        .output()
        .map_err(|error| format!("fio cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("fio failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let json: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let mixed = &json["jobs"][0]["mixed"];
    let figure = |value: &serde_json::Value| value.as_f64().ok_or("fio's JSON lacks an expected figure");
    let percentiles = &mixed["lat_ns"]["percentile"];
    Ok(Figures {
        iops: figure(&mixed["iops"])?,
        p50: figure(&percentiles["50.000000"])?,
        p99: figure(&percentiles["99.000000"])?,
    })
}

/// The first argument of a process of this program that runs one job and prints its figures.
const ONE: &str = "one";

/// Runs the job in a process of its own, as fio's are: the memory that a process happens to get makes a difference, and
/// one process for all rounds would have the same luck in all of them.
fn with_platter(path: &str, shape: &Shape, time: Duration) -> Result<Figures, Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?)
        .args([ONE, path, shape.name, &time.as_secs_f64().to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("the engine failed: {}", output.status).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let figures: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let &[iops, p50, p99] = &figures[..] else { return Err(format!("the engine printed {text:?}").into()) };
    Ok(Figures { iops, p50, p99 })
}

fn run_one(path: &str, shape: &Shape, time: Duration) -> Result<Figures, Box<dyn Error>> {
    let options = FileOptions { caching: Caching::Direct, ..FileOptions::default() };
    let subject = Subject::Device { device: Arc::new(FileDevice::open(path, options)?), free: None };
    let job = Job {
        pattern: Pattern {
            block: shape.block,
            align: 0,
            read_percent: shape.read_percent,
            random_percent: if shape.random { 100 } else { 0 },
            workers: 1,
            queue_depth: shape.depth,
            own_span: false,
            ..Pattern::default()
        },
        range: 0..SPAN,
        seed: SEED,
        ramp_up: RAMP_UP,
        stop: Stop::After(time),
        durability: Durability::Direct,
        verify: false,
        touch: false,
        interval: Duration::from_secs(1),
    };
    let measured = run(&subject, &job, &())?;
    let latencies = measured.latencies();
    Ok(Figures {
        iops: measured.iops(),
        p50: latencies.percentile(50.0) as f64,
        p99: latencies.percentile(99.0) as f64,
    })
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let (mut paths, mut time, mut rounds) = (Vec::new(), Duration::from_millis(500), 40_usize);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [one, path, name, time] = &arguments[..]
        && one == ONE
    {
        let shape = SHAPES.iter().find(|shape| shape.name == name).ok_or("no such job")?;
        let Figures { iops, p50, p99 } = run_one(path, shape, Duration::try_from_secs_f64(time.parse()?)?)?;
        println!("{iops} {p50} {p99}");
        return Ok(ExitCode::SUCCESS);
    }
    let mut columns = COLUMNS;
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument}: a number must follow"));
        match argument.as_str() {
            "--seconds" => time = Duration::try_from_secs_f64(value()?.parse()?)?,
            "--rounds" => rounds = value()?.parse()?,
            "--asleep" => columns = ASLEEP,
            unknown if unknown.starts_with('-') => {
                return Err(format!("{unknown}: the options are --seconds S, --rounds N and --asleep").into());
            }
            _ => paths.push(argument),
        }
    }
    if paths.is_empty() || rounds == 0 || time < Duration::from_millis(1) {
        return Err("name a block device or a file of at least 1 GiB, whose content is overwritten; \
                    at least one round of a millisecond"
            .into());
    }
    let is_asleep = columns[2].2.is_infinite();
    let shapes: Vec<&Shape> = SHAPES.iter().filter(|shape| !is_asleep || shape.depth == 1).collect();
    let mut outside = 0;
    for path in &paths {
        let how = if is_asleep { ", processors asleep between I/Os" } else { "" };
        println!(
            "{path}: {rounds} rounds of {time:?} each, fio, platter and fio again in turn, medians{how}"
        );
        println!(
            "{:<26} {:>9} {:>9} {:>7} {:>8}  {:>8} {:>9} {:>7} {:>8}  {:>8} {:>9} {:>7} {:>8}",
            "",
            "fio",
            "platter",
            "",
            "again",
            "fio p50",
            "platter",
            "",
            "again",
            "fio p99",
            "platter",
            "",
            "again"
        );
        let options = FileOptions { caching: Caching::Direct, ..FileOptions::default() };
        let subject = Subject::Device { device: Arc::new(FileDevice::open(path, options)?), free: None };
        prepare(&subject, &(0..SPAN), SEED, &mut |_, _| {})?;
        subject.sync()?;
        let mut all: Vec<Vec<[Figures; 3]>> = vec![Vec::new(); shapes.len()];
        for round in 0..rounds {
            for (shape, runs) in shapes.iter().zip(&mut all) {
                let mut figures = [Figures::default(); 3];
                // The order of the runs rotates, so that no run has an advantage on a machine that slows down or warms
                // up.
                for turn in 0..3 {
                    let who = (round + turn) % 3;
                    figures[who] = match who {
                        PLATTER => with_platter(path, shape, time)?,
                        _ => with_fio(path, shape, time)?,
                    };
                }
                runs.push(figures);
            }
        }
        for (shape, runs) in shapes.iter().zip(&all) {
            let middle = |who: &[usize], of: fn(&Figures) -> f64| {
                let runs = runs.iter().flat_map(|figures| who.iter().map(|&who| &figures[who]));
                median(&runs.map(of).collect::<Vec<_>>())
            };
            let mut row = format!("{:<26}", shape.name);
            for (of, scale, bound) in columns {
                // Both runs of fio count for its figure, which halves the effect of chance in it.
                let (theirs, ours) = (middle(&[FIO, AGAIN], of), middle(&[PLATTER], of));
                let difference = ours / theirs - 1.0;
                let control = middle(&[AGAIN], of) / middle(&[FIO], of) - 1.0;
                let mark = if difference.abs() > bound { '!' } else { ' ' };
                outside += u32::from(mark == '!');
                let digits = usize::from(scale > 1.0);
                row += &format!(
                    " {:>9.digits$} {:>9.digits$} {:>+6.1}%{mark} {:>+6.1}%",
                    theirs / scale,
                    ours / scale,
                    difference * 100.0,
                    control * 100.0
                );
            }
            println!("{row}");
        }
    }
    println!(
        "latencies in microseconds; \"again\": fio's second runs against its first; ! marks more than 5 % of IOPS or 10 % of latency (asleep: 10 % of IOPS and of the median)"
    );
    Ok(if outside == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
