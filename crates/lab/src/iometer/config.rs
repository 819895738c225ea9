//! Parses a configuration file of Iometer.
//!
//! Lines that begin with an apostrophe are headings for the lines that follow. Older versions of Iometer write fewer
//! values in some lines. As in Iometer itself, headings and keywords are compared without regard to case.

use std::path::Path;
use std::time::Duration;

type Parsed<T> = Result<T, String>;

/// The content of a configuration file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    pub(super) description: String,
    pub(super) run_time: Duration,
    pub(super) ramp_up: Duration,
    pub(super) test: TestType,
    pub(super) worker_cycle: Cycle,
    pub(super) depth_cycle: Cycle,
    pub(super) specs: Vec<Spec>,
    pub(super) workers: Vec<Worker>,
}

/// Which setting changes from one step of the test to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TestType {
    #[default]
    Normal,
    Workers,
    Depths,
}

/// A cycle of numbers from `start` to `end`, in steps that are added or, if `exponential`, multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cycle {
    pub start: u32,
    pub end: u32,
    pub step: u32,
    pub exponential: bool,
}

impl Default for Cycle {
    fn default() -> Cycle {
        Cycle { start: 1, end: 1, step: 1, exponential: false }
    }
}

impl Cycle {
    /// The numbers of the cycle that are at most `most`.
    pub(super) fn numbers(&self, most: u32) -> Vec<u32> {
        let mut numbers = Vec::new();
        let mut next = u64::from(self.start.max(1));
        while next <= u64::from(most) && numbers.len() < 64 {
            numbers.push(next as u32);
            next = match self.exponential {
                true => next * u64::from(self.step.max(2)),
                false => next + u64::from(self.step.max(1)),
            };
        }
        numbers
    }
}

/// An access specification.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spec {
    pub name: String,
    /// Which new workers get the specification: `NONE`, `ALL`, `DISK` or `NET`.
    pub default: String,
    pub lines: Vec<Line>,
}

/// One line of an access specification: a kind of I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub size: u32,
    pub percent: u32,
    pub reads: u32,
    pub random: u32,
    /// The delay before each burst in milliseconds.
    pub delay: u32,
    pub burst: u32,
    pub align: u32,
    pub reply: u32,
}

/// A worker of a manager.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Worker {
    pub manager: String,
    pub name: String,
    pub depth: u32,
    pub seed: Option<u64>,
    pub sectors: u64,
    pub start: u64,
    pub pattern: u32,
    /// The names of the worker's specifications; `None` where the file does not list them.
    pub specs: Option<Vec<String>>,
    pub targets: Vec<String>,
}

/// Limits that no real file reaches.
const MOST_SPECS: usize = 1000;
const MOST_WORKERS: usize = 4096;

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// A sentence that states the problem.
    pub fn load(path: &Path) -> Parsed<Config> {
        Config::parse(&crate::workload::read_text(path).map_err(|error| error.to_string())?)
    }

    /// Parses the text of a configuration file.
    ///
    /// # Errors
    /// A sentence with the line.
    pub fn parse(text: &str) -> Parsed<Config> {
        let mut config = Config { depth_cycle: Cycle::default(), ..Config::default() };
        let mut heading = String::new();
        let mut manager = String::new();
        let text = text.trim_start_matches('\u{feff}');
        let first = text.lines().next().unwrap_or_default();
        if !first.starts_with("Version") {
            return Err(format!("line 1: expected Version, as Iometer writes it, found {first:?}"));
        }
        for (line, number) in text.lines().zip(1..).skip(1) {
            let at = |reason: String| format!("line {number}: {reason}");
            let line = line.trim();
            if let Some(comment) = line.strip_prefix('\'') {
                config.heading(comment.trim(), &mut heading).map_err(at)?;
            } else if !line.is_empty() {
                config.values(&heading, line, &mut manager).map_err(at)?;
            }
        }
        // Iometer ends a file as it begins it. What is cut off may be workers, or specifications of the last of them.
        let last = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
        if !config.workers.is_empty() && !last.to_ascii_lowercase().starts_with("version") {
            return Err(format!(
                "it is cut off: the last line of a whole file is its Version again, found {last:?}"
            ));
        }
        match config.workers.is_empty() {
            true => Err("it has no worker: save it with the manager list".into()),
            false => Ok(config),
        }
    }

    /// Handles a heading, which says what the lines below it contain.
    fn heading(&mut self, comment: &str, heading: &mut String) -> Parsed<()> {
        let comment = comment.to_ascii_lowercase();
        match comment.as_str() {
            "worker" if self.workers.len() == MOST_WORKERS => {
                return Err(format!("more than {MOST_WORKERS} workers"));
            }
            "assigned access specs" => self.worker()?.specs = Some(Vec::new()),
            // These lines only explain the numbers below the last heading.
            _ if comment.starts_with("hours") || comment.starts_with("start") => return Ok(()),
            _ => {}
        }
        *heading = comment;
        Ok(())
    }

    fn worker(&mut self) -> Parsed<&mut Worker> {
        self.workers.last_mut().ok_or_else(|| "expected a worker before it".to_string())
    }

    fn values(&mut self, heading: &str, line: &str, manager: &mut String) -> Parsed<()> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let words: Vec<&str> = line.split_whitespace().collect();
        let seconds = |text: &str| number(text, 3_153_600_000).map(Duration::from_secs);
        match heading {
            "test description" => self.description = line.to_owned(),
            "run time" => {
                let [hours, minutes, rest] = words[..] else {
                    return Err(format!("Run Time: expected hours, minutes and seconds, found {line:?}"));
                };
                self.run_time = seconds(hours)? * 3600 + seconds(minutes)? * 60 + seconds(rest)?;
            }
            "ramp up time (s)" => self.ramp_up = seconds(line)?,
            "worker cycling" => self.worker_cycle = cycle(&words, false)?,
            "queue depth cycling" => self.depth_cycle = cycle(&words, true)?,
            "test type" => {
                self.test = match line.to_ascii_uppercase().as_str() {
                    "NORMAL" => TestType::Normal,
                    "CYCLE_WORKERS" => TestType::Workers,
                    "CYCLE_OUTSTANDING_IOS" => TestType::Depths,
                    _ => {
                        return Err(format!(
                            "Test Type {line}: run are NORMAL, CYCLE_WORKERS and CYCLE_OUTSTANDING_IOS; cycles of \
                             targets are not, since every worker has its targets to the end"
                        ));
                    }
                }
            }
            "access specification name,default assignment" => {
                if self.specs.len() == MOST_SPECS {
                    return Err(format!("more than {MOST_SPECS} access specifications"));
                }
                // The name may contain commas, so the line is split at the last one.
                let (name, default) = line.rsplit_once(',').unwrap_or((line, "NONE"));
                self.specs.push(Spec {
                    name: name.into(),
                    default: default.to_ascii_uppercase(),
                    lines: Vec::new(),
                });
            }
            _ if heading.starts_with("size, % of size") => {
                return Err(
                    "access specifications without names, of before 1999: save it with a newer Iometer"
                        .into(),
                );
            }
            _ if heading.starts_with("size,% of size") => {
                let spec = self.specs.last_mut().ok_or("expected an access specification before it")?;
                if spec.lines.len() == 100 {
                    return Err("more than 100 lines in an access specification".into());
                }
                spec.lines.push(spec_line(&fields)?);
            }
            "manager id, manager name" => {
                *manager = line.split_once(',').map_or(line, |(_, name)| name).trim().to_owned();
            }
            "worker" => self.workers.push(Worker {
                manager: manager.clone(),
                name: line.into(),
                depth: 1,
                ..Worker::default()
            }),
            "worker type" if line.eq_ignore_ascii_case("DISK") => {}
            "worker type" | "target type" if line.to_ascii_uppercase().starts_with("NETWORK") => {
                return Err(format!(
                    "{line}: network workers move data between machines; there is no storage in it"
                ));
            }
            _ if heading.starts_with("number of outstanding ios") => {
                if fields.get(1).is_some_and(|rate| rate.eq_ignore_ascii_case("ENABLED")) {
                    return Err(
                        "test connection rate: a disk that is opened again and again is not measured".into(),
                    );
                }
                let is_fixed = fields.get(3).is_some_and(|fixed| fixed.eq_ignore_ascii_case("ENABLED"));
                let depth = between(fields[0], 1, crate::workload::MOST_DEPTH)?;
                let seed =
                    fields.get(4).filter(|_| is_fixed).map(|seed| number(seed, u64::MAX)).transpose()?;
                let worker = self.worker()?;
                (worker.depth, worker.seed) = (depth, seed);
            }
            _ if heading.starts_with("disk maximum size") => {
                let field =
                    |index: usize| fields.get(index).map_or(Ok(0), |text| number(text, u64::MAX / 512));
                let (sectors, start, pattern) = (field(0)?, field(1)?, field(2)?);
                let worker = self.worker()?;
                (worker.sectors, worker.start, worker.pattern) = (sectors, start, pattern.min(9) as u32);
            }
            "assigned access specs" => {
                let specs = self.worker()?.specs.get_or_insert_default();
                if specs.len() == MOST_SPECS {
                    return Err(format!("more than {MOST_SPECS} access specifications of a worker"));
                }
                specs.push(line.into());
            }
            "target" => {
                let targets = &mut self.worker()?.targets;
                if targets.len() == MOST_SPECS {
                    return Err(format!("more than {MOST_SPECS} targets of a worker"));
                }
                targets.push(line.into());
            }
            // Settings of Iometer's display and defaults for new workers are ignored.
            _ => {}
        }
        Ok(())
    }
}

fn number(text: &str, most: u64) -> Parsed<u64> {
    let number = text.parse().ok().filter(|&number: &u64| number <= most);
    number.ok_or_else(|| format!("expected a number up to {most}, found {text:?}"))
}

fn between(text: &str, least: u32, most: u32) -> Parsed<u32> {
    let number = text.parse().ok().filter(|number: &u32| (least..=most).contains(number));
    number.ok_or_else(|| format!("expected {least} to {most}, found {text:?}"))
}

/// Parses a cycle: `start [end] step LINEAR|EXPONENTIAL`.
fn cycle(words: &[&str], has_end: bool) -> Parsed<Cycle> {
    let wrong = || "expected start, end where there is one, step, and LINEAR or EXPONENTIAL".to_string();
    let (start, end, step, kind) = match (words, has_end) {
        ([start, end, step, kind], true) => (start, end, step, kind),
        ([start, step, kind], false) => (start, start, step, kind),
        _ => return Err(wrong()),
    };
    let small = |text: &str| between(text, 0, crate::workload::MOST_DEPTH);
    let exponential = match kind.to_ascii_uppercase().as_str() {
        "LINEAR" => false,
        "EXPONENTIAL" => true,
        _ => return Err(wrong()),
    };
    Ok(Cycle { start: small(start)?, end: small(end)?, step: small(step)?, exponential })
}

fn spec_line(fields: &[&str]) -> Parsed<Line> {
    let field = |index: usize, most: u32| match fields.get(index) {
        Some(text) => between(text, 0, most),
        None => Err(format!("expected 8 values, found {}", fields.len())),
    };
    let line = Line {
        size: field(0, u32::MAX)?,
        percent: field(1, 100)?,
        reads: field(2, 100)?,
        random: field(3, 100)?,
        delay: field(4, u32::MAX)?,
        burst: field(5, u32::MAX)?,
        align: field(6, u32::MAX)?,
        reply: field(7, u32::MAX)?,
    };
    match line.reply {
        0 => Ok(line),
        reply => Err(format!("reply size {reply}: replies are those of network workers")),
    }
}
