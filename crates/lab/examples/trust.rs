//! Does a comparison report the differences that exist, and no others?
//!
//!     cargo run --release -p platterfs-lab --example trust -- aa|ab [--compares N] [--time SECONDS]
//!         [--slower PERCENT] [--beside]
//!
//! `aa` compares one target under three names: every cell that is called different is wrong. Exit code 1 if more than 5
//! % are. `ab` compares the target with one that is slower by a known percentage (10 by default), because it carries
//! out some requests twice ([`Fault::Again`]): every cell that is not called slower is missed. With `--beside` another
//! process uses all processors in bursts meanwhile. Everything else is as in a default `platter compare`, on a
//! temporary image in the current directory.

use platter_device::{Device, Fault, Faults, Operation, When};
use platter_lab::report::Document;
use platter_lab::report::document::Verdict;
use platter_lab::{Comparison, Preset, Stand, Target, Workload, compare};
use std::error::Error;
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Wraps a device in another one.
type Wrap = fn(Arc<dyn Device>) -> Arc<dyn Device>;

/// Slower devices by percentage: a device that carries out one in N requests twice is slower by a known amount. With
/// one in 9 it takes 10/9 of the time.
const SLOWED: [(u32, Wrap); 3] =
    [(5, |device| slowed(device, 19)), (10, |device| slowed(device, 9)), (20, |device| slowed(device, 4))];

fn slowed(device: Arc<dyn Device>, one_in: u64) -> Arc<dyn Device> {
    let faults = Faults::new(device, 8664);
    faults.inject(When::one_in(Operation::Read, one_in), Fault::Again);
    faults.inject(When::one_in(Operation::Write, one_in), Fault::Again);
    Arc::new(faults)
}

struct Arguments {
    is_ab: bool,
    compares: u32,
    time: Option<f64>,
    slower: u32,
    beside: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mut words = std::env::args().skip(1);
    let is_ab = match words.next().as_deref() {
        Some("aa") => false,
        Some("ab") => true,
        _ => {
            return Err(
                "usage: trust aa|ab [--compares N] [--time SECONDS] [--slower PERCENT] [--beside]".into()
            );
        }
    };
    let mut arguments = Arguments { is_ab, compares: 20, time: None, slower: 10, beside: false };
    while let Some(word) = words.next() {
        if word == "--beside" {
            arguments.beside = true;
            continue;
        }
        let value = words.next().and_then(|value| value.parse::<f64>().ok());
        let value = value.ok_or(format!("{word} needs a number"))?;
        match word.as_str() {
            "--compares" => arguments.compares = value as u32,
            "--time" => arguments.time = Some(value),
            "--slower" => arguments.slower = value as u32,
            _ => return Err(format!("{word} is not known")),
        }
    }
    Ok(arguments)
}

/// Another process that uses all processors in bursts of 0.05 to 0.8 s, with pauses of the same length between them.
struct Bursts(Child);

impl Bursts {
    fn begin() -> std::io::Result<Bursts> {
        Ok(Bursts(Command::new(std::env::current_exe()?).arg("bursts").spawn()?))
    }
}

impl Drop for Bursts {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn bursts() {
    let one = |seed| -> () {
        let mut rng = fastrand::Rng::with_seed(seed);
        loop {
            let mut length = || Duration::from_secs_f64(0.05 + 0.75 * rng.f64());
            let (work, pause) = (length(), length());
            let began = Instant::now();
            while began.elapsed() < work {
                std::hint::spin_loop();
            }
            std::thread::sleep(pause);
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    std::thread::scope(|scope| {
        for processor in 1..processors {
            scope.spawn(move || one(processor));
        }
        one(0);
    });
}

fn run(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let wrap =
        SLOWED.iter().find(|(percent, _)| *percent == arguments.slower).ok_or("slower by 5, 10 or 20")?.1;
    let third = match arguments.is_ab {
        true => Target::Through { name: "slower".into(), wrap },
        false => Target::Raw,
    };
    let targets = vec![Target::Raw, Target::Raw, third];
    let mut comparison = Comparison {
        time: arguments.time.map(Duration::from_secs_f64),
        ..Comparison::new(Stand::TemporaryImage(".".into()), targets, Vec::new())
    };
    let _bursts = arguments.beside.then(Bursts::begin).transpose()?;
    let (mut cells, mut different, mut slower, mut found, mut winners) = (0, 0, 0, 0, 0);
    for number in 1..=arguments.compares {
        comparison.workloads = ["iometer", "crystaldiskmark"]
            .iter()
            .map(|name| Workload::load(name, Preset::Quick))
            .collect::<Result<Vec<_>, _>>()?;
        for workload in &mut comparison.workloads {
            workload.seed += u64::from(number);
        }
        let began = Instant::now();
        let document = compare(&comparison, &())?;
        let told = count(&document, |name| name != "slower");
        let of_slower = count(&document, |name| name == "slower");
        cells += told.0;
        different += told.1;
        winners += u32::from(told.2 > 0 && arguments.compares > 0);
        slower += of_slower.0;
        found += of_slower.3;
        let limits: Vec<f64> = document
            .results
            .iter()
            .flat_map(|result| &result.estimates)
            .filter_map(|estimate| estimate.resolution_percent)
            .collect();
        println!(
            "{number}: {} of {} equal cells called different, {} of {} slower ones found, typical resolution {:.1} %, {:.0} s",
            told.1,
            told.0,
            of_slower.3,
            of_slower.0,
            platter_lab::statistics::median(&limits),
            began.elapsed().as_secs_f64()
        );
        for result in &document.results {
            for estimate in result.estimates.iter().filter(|_| std::env::var_os("TRUST_CELLS").is_some()) {
                println!(
                    "    {:<26} {:<8} {:.3} {:?} to {:?} {}",
                    result.case.label(),
                    result.target,
                    estimate.ratio,
                    estimate.low,
                    estimate.high,
                    estimate.verdict.name()
                );
            }
        }
    }
    let share = |part: u32, whole: u32| f64::from(part) * 100.0 / f64::from(whole.max(1));
    println!(
        "equal: {different} of {cells} called different ({:.1} %), in {winners} of {} comparisons",
        share(different, cells),
        arguments.compares
    );
    if arguments.is_ab {
        println!(
            "slower by {} %: {found} of {slower} found ({:.0} %)",
            arguments.slower,
            share(found, slower)
        );
    }
    Ok(share(different, cells) <= 5.0)
}

/// Counts the ratios of the targets that `counts` selects: all, those called different, those called faster, and those
/// called slower.
fn count(document: &Document, counts: impl Fn(&str) -> bool) -> (u32, u32, u32, u32) {
    let estimates = || {
        let results = document.results.iter().filter(|result| counts(&result.target));
        results
            .flat_map(|result| &result.estimates)
            .filter(|estimate| counts(&estimate.base) || estimate.base == "raw")
    };
    let of = |is: fn(Verdict) -> bool| estimates().filter(|estimate| is(estimate.verdict)).count() as u32;
    (
        estimates().count() as u32,
        of(Verdict::is_difference),
        of(|verdict| verdict == Verdict::Faster),
        of(|verdict| verdict == Verdict::Slower),
    )
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("bursts") {
        bursts();
    }
    match arguments().map_err(Into::into).and_then(|arguments| run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("trust: {error}");
            ExitCode::from(2)
        }
    }
}
