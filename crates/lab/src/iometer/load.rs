//! Turns a configuration into a workload.

use super::config::{Config, Line, Spec, TestType, Worker};
use crate::experiment::Direction;
use crate::workload::{Case, Part, Share, Workload};
use crate::{Begin, Durability, Pattern, Portion, Shape};
use std::time::Duration;

/// The unit of `Disk maximum size` and of starting sectors in bytes, by Iometer's manual.
const SECTOR: u64 = 512;

/// Limits that no real test reaches: loads at the same time, and loads of the whole test.
const MOST_AT_ONCE: usize = 1000;
const MOST_LOADS: usize = 100_000;

/// Workers with the same settings on one target, which run at the same time as the other loads of their step.
pub(super) struct Load<'c> {
    pub spec: &'c Spec,
    pub workers: Vec<&'c Worker>,
    pub target: &'c str,
    pub depth: u32,
}

/// Loads that run at the same time, for one run time.
pub(super) struct Step<'c> {
    pub loads: Vec<Load<'c>>,
    /// A text that distinguishes the step from other steps of the same specification.
    pub label: String,
}

impl Config {
    /// The steps of the test, in their order.
    pub(super) fn steps(&self) -> Result<Vec<Step<'_>>, String> {
        let rounds = self.rounds();
        let mut steps = Vec::new();
        let mut looked_at = 0;
        // As in Iometer, a specification is run with all numbers of the cycle before the next specification.
        let most = self.workers.iter().map(|worker| self.specs_of(worker).len()).max().unwrap_or(0);
        for index in 0..most {
            for (count, depth, label) in &rounds {
                let mut loads: Vec<Load<'_>> = Vec::new();
                for worker in &self.workers[..*count as usize] {
                    let Some(name) = self.specs_of(worker).get(index).copied() else { continue };
                    let found = self.specs.iter().find(|spec| spec.name == name);
                    let spec =
                        found.ok_or_else(|| format!("{}: no access specification {name:?}", worker.name))?;
                    if spec.lines.iter().all(|line| line.size == 0 || line.percent == 0) {
                        // Iometer's specification "Idle" issues nothing.
                        continue;
                    }
                    let shares: u32 = spec.lines.iter().map(|line| line.percent).sum();
                    if shares != 100 {
                        return Err(format!(
                            "access specification {name:?}: the shares of its lines are 100 together, and not {shares}"
                        ));
                    }
                    let depth = depth.unwrap_or(worker.depth);
                    let names: Vec<&str> = match self.has_no_target() {
                        true => vec![""],
                        false => worker.targets.iter().map(String::as_str).collect(),
                    };
                    for target in names {
                        looked_at += 1;
                        if looked_at > MOST_LOADS || loads.len() > MOST_AT_ONCE {
                            return Err(format!(
                                "more than {MOST_AT_ONCE} kinds of workers at the same time, or {MOST_LOADS} in all steps"
                            ));
                        }
                        let same = |load: &&mut Load<'_>| {
                            let other = load.workers[0];
                            load.spec.name == spec.name
                                && load.target == target
                                && load.depth == depth
                                && (other.seed, other.sectors, other.start)
                                    == (worker.seed, worker.sectors, worker.start)
                        };
                        match loads.iter_mut().find(same) {
                            Some(load) => load.workers.push(worker),
                            None => loads.push(Load { spec, workers: vec![worker], target, depth }),
                        }
                    }
                }
                if !loads.is_empty() {
                    steps.push(Step { loads, label: label.clone() });
                }
            }
        }
        match steps.is_empty() {
            true => Err("no worker has both an access specification and a target".into()),
            false => Ok(steps),
        }
    }

    /// The rounds of the test: how many workers run, with which number of outstanding I/Os if not with their own, and
    /// what the label of a step says about it.
    fn rounds(&self) -> Vec<(u32, Option<u32>, String)> {
        let all = self.workers.len() as u32;
        match self.test {
            TestType::Normal => vec![(all, None, String::new())],
            TestType::Workers => {
                let numbers = self.worker_cycle.numbers(all).into_iter();
                numbers.map(|number| (number, None, format!(", {number} workers"))).collect()
            }
            TestType::Depths => {
                let numbers = self.depth_cycle.numbers(self.depth_cycle.end).into_iter();
                numbers.map(|depth| (all, Some(depth), format!(", {depth} outstanding"))).collect()
            }
        }
    }

    /// Whether the file was saved without targets; then it is run on whatever target the user names.
    fn has_no_target(&self) -> bool {
        self.workers.iter().all(|worker| worker.targets.is_empty())
    }

    /// The names of a worker's specifications: those that are assigned to it, or the defaults for new workers.
    fn specs_of<'c>(&'c self, worker: &'c Worker) -> Vec<&'c str> {
        match &worker.specs {
            Some(names) => names.iter().map(String::as_str).collect(),
            None => {
                let defaults =
                    self.specs.iter().filter(|spec| matches!(spec.default.as_str(), "ALL" | "DISK"));
                defaults.map(|spec| spec.name.as_str()).collect()
            }
        }
    }

    /// Returns the workload of the configuration.
    ///
    /// # Errors
    /// A sentence that states the problem.
    pub fn workload(&self, name: &str) -> Result<Workload, String> {
        if self.run_time.is_zero() {
            return Err("a Run Time of 0 lasts until somebody stops it: give it one".into());
        }
        let mut notes = Vec::new();
        let steps = self.steps()?;
        let places = Places::of(&steps)?;
        let mut cases = Vec::new();
        for step in &steps {
            for (load, number) in step.loads.iter().zip(0..) {
                let mut case = self.case(load, number > 0);
                case.part = places.part(load);
                case.name = match &step.loads[..] {
                    [_] => format!("{}{}", load.spec.name, step.label),
                    _ => format!("{}, {}{}", load.spec.name, whose(load), step.label),
                };
                cases.push(case);
            }
        }
        let has = |what: fn(&Worker) -> bool| self.workers.iter().any(what);
        if has(|worker| worker.seed.is_some()) {
            notes.push(
                "a fixed seed gives all workers of one kind the same places, as in Iometer: each is met by every worker, \
                 and after the first perhaps in a cache"
                    .to_string(),
            );
        }
        if has(|worker| worker.sectors > 0 || worker.start > 0) {
            notes.push(
                "Disk maximum size and starting sector are in sectors of 512 bytes, as the manual has them; on disks with \
                 sectors of 4,096 bytes Iometer itself takes those, and --span says so here"
                    .into(),
            );
        }
        if has(|worker| worker.pattern == 0) && cases.iter().any(|case| !case.pattern.only_reads()) {
            notes.push("what is written is random, where Iometer's pattern 0 repeats one byte".into());
        }
        let seeds: Vec<u64> = self.workers.iter().filter_map(|worker| worker.seed).collect();
        if seeds.windows(2).any(|pair| pair[0] != pair[1]) {
            notes.push(
                "workers have different seeds: the first one's is taken, and each kind has places of its own"
                    .into(),
            );
        }
        Ok(Workload {
            name: name.into(),
            title: if self.description.is_empty() { name.into() } else { self.description.clone() },
            description: format!("Iometer configuration {name}"),
            seed: seeds.first().copied().unwrap_or(8664),
            durability: Durability::Direct,
            buffered: false,
            scoring: None,
            span: if places.in_percent { 0 } else { places.whole },
            share: places.in_percent.then_some(Share(100)),
            paths: Vec::new(),
            repeats: 1,
            cases,
            notes: notes.into_iter().map(|note| format!("{name}: {note}")).collect(),
        })
    }

    fn case(&self, load: &Load<'_>, beside: bool) -> Case {
        let mix: Vec<Portion> = load.spec.lines.iter().filter(|line| line.percent > 0).map(portion).collect();
        let reads: u32 = mix.iter().map(|portion| portion.weight * u32::from(portion.read_percent)).sum();
        let all: u32 = mix.iter().map(|portion| portion.weight).sum();
        let read_percent = (reads / all.max(1)) as u8;
        let direction = match (reads, mix.iter().all(|portion| portion.read_percent == 100)) {
            (0, _) => Direction::Write,
            (_, true) => Direction::Read,
            _ => Direction::Mix,
        };
        let random: u32 = mix.iter().map(|portion| portion.weight * u32::from(portion.random_percent)).sum();
        Case {
            name: String::new(),
            profiles: Vec::new(),
            direction,
            pattern: Pattern {
                block: mix.iter().map(|portion| portion.most).max().unwrap_or(0),
                align: 0,
                read_percent,
                random_percent: (random / all.max(1)) as u8,
                workers: load.workers.len() as u32,
                queue_depth: load.depth,
                own_span: false,
                shape: Shape {
                    mix,
                    begin: Begin::Together,
                    same_seed: load.workers[0].seed.is_some(),
                    ..Shape::default()
                },
            },
            time: self.run_time,
            ramp_up: self.ramp_up,
            count: None,
            continuous: false,
            passes: None,
            beside,
            part: None,
            durability: None,
            interval: None,
        }
    }
}

fn portion(line: &Line) -> Portion {
    Portion {
        weight: line.percent,
        least: line.size,
        most: line.size,
        // In Iometer an alignment of 0 means the sector, not the block.
        align: if line.align == 0 { Portion::SECTOR } else { line.align },
        read_percent: line.reads as u8,
        random_percent: line.random as u8,
        burst: line.burst.max(1),
        delay: Duration::from_millis(line.delay.into()),
    }
}

/// Names the workers and the target of a load.
fn whose(load: &Load<'_>) -> String {
    let first = &load.workers[0].name;
    let workers = match load.workers.last().filter(|last| last.name != *first) {
        Some(last) => format!("{first} to {}", last.name),
        None => first.clone(),
    };
    if load.target.is_empty() { workers } else { format!("{workers} on {}", load.target) }
}

/// The ranges of the targets, side by side in one span: in bytes, or in percent if one of them is a whole disk.
struct Places<'c> {
    targets: Vec<(&'c str, u64, u64)>,
    whole: u64,
    in_percent: bool,
}

impl<'c> Places<'c> {
    fn of(steps: &[Step<'c>]) -> Result<Places<'c>, String> {
        let mut targets: Vec<(&str, u64, u64)> = Vec::new();
        let mut in_percent = false;
        for load in steps.iter().flat_map(|step| &step.loads) {
            let worker = load.workers[0];
            in_percent |= worker.sectors == 0;
            let end = worker.start.checked_add(worker.sectors).and_then(|end| end.checked_mul(SECTOR));
            let end = end.ok_or_else(|| format!("{}: its disk is too large", worker.name))?;
            match targets.iter_mut().find(|(name, ..)| *name == load.target) {
                Some(target) => target.2 = target.2.max(end),
                None => targets.push((load.target, 0, end)),
            }
        }
        if in_percent {
            let whole_and_part = steps
                .iter()
                .flat_map(|step| &step.loads)
                .find(|load| load.workers[0].sectors > 0 || load.workers[0].start > 0);
            if let Some(load) = whole_and_part {
                return Err(format!(
                    "{}: it has a part of its disk, and another worker or its starting sector asks for a whole one",
                    load.workers[0].name
                ));
            }
            let share = 100 / targets.len() as u64;
            if share == 0 {
                return Err("more than 100 targets share the whole of what there is".into());
            }
            targets.iter_mut().zip(0..).for_each(|(target, number)| {
                (target.1, target.2) = (number * share, (number + 1) * share);
            });
            return Ok(Places { targets, whole: 100, in_percent });
        }
        let mut start = 0_u64;
        for target in &mut targets {
            let length = target.2;
            target.1 = start;
            start = start.checked_add(length).ok_or("disks are too large together")?.next_multiple_of(4096);
            target.2 = target.1 + length;
        }
        let whole = targets.last().map_or(0, |target| target.2);
        Ok(Places { targets, whole, in_percent })
    }

    fn part(&self, load: &Load<'_>) -> Option<Part> {
        let worker = load.workers[0];
        let (_, start, end) = *self.targets.iter().find(|(name, ..)| *name == load.target)?;
        let (start, end) = match self.in_percent {
            true => (start, end),
            false => (start + worker.start * SECTOR, start + (worker.start + worker.sectors) * SECTOR),
        };
        Some(Part { start, end, of: self.whole }).filter(|part| (part.start, part.end) != (0, part.of))
    }
}
