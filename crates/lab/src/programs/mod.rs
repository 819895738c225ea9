//! Programs of the user's as a load: commands that run in turns in a folder on each target.
//!
//! Any program has a time in which it does its work, so this time is what is compared: each run of a command is a slice, its
//! rate the reciprocal of its seconds, and everything else follows as for the loads on blocks: the order of the targets in
//! each pass, the intervals, the verdicts. Volumes of Platter are used through `platter mount`, as any program would.

mod counters;
mod course;
mod folders;
mod images;
mod launch;

use crate::compare::machine::Machine;
use crate::compare::noise::Noise;
use crate::document::{self as report, Document, ProgramSettings, Settings, WorkloadSettings};
use crate::environment::{device_info, environment};
use crate::host::{self, Beneath};
use crate::peer::Peer;
use crate::stand::{NO_DEVICE, OpenStand, Stand};
use crate::target::Target;
use crate::{Error, Observer, Preset, Result};
use course::{Enough, Execution, Field};
use folders::{Folder, Forgets};
use images::Images;
use platter_device::Caching;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// The name of the workload in reports.
pub const NAME: &str = "programs";
/// The room on each target if the user names none, in bytes.
pub const ROOM: u64 = 512 << 20;
/// The characters of a command that a table has room for.
const SHOWN: usize = 48;
const SEED: u64 = 8664;

/// A comparison of targets under programs.
#[derive(Clone)]
pub struct Programs {
    /// The device that volumes are made on.
    pub stand: Stand,
    /// The targets that have files: volumes, file systems that are mounted, directories of the host.
    pub targets: Vec<Target>,
    /// The commands, each measured by itself.
    pub commands: Vec<Program>,
    /// A command that runs once on each target, before anything is measured.
    pub setup: Option<String>,
    /// The program whose subcommand `mount` mounts volumes of Platter.
    pub platter: PathBuf,
    /// The bytes that each target has room for at least.
    pub room: u64,
    /// The number of runs of each command on each target; as many as the time allows if `None`.
    pub passes: Option<u32>,
    /// The time of all runs of a command on a target.
    pub time: Option<Duration>,
    /// Measure until differences of this share would be told (0.05: of 5 %), but not longer than the time.
    pub until: Option<f64>,
    /// Runs of each command on each target that do not count, before the others; none if the caches are cold.
    pub warmups: u32,
    /// Whether what is cached of a target is forgotten before each run.
    pub cold: bool,
    /// Whether a run ends when everything it wrote is durable, rather than when the program does.
    pub durable: bool,
    /// Whether runs count that end with another exit code than 0.
    pub ignore_failure: bool,
    /// Quick or full, for the report.
    pub preset: Preset,
    /// The name of the target that all others are compared with; the first if `None`.
    pub base: Option<String>,
    /// Whether each region is discarded (TRIM) before its target is made.
    pub discard: bool,
    /// The command line that repeats the run, for the report.
    pub command: String,
}

/// A command with what goes before and after each of its runs, outside of the measured time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The command, for the shell.
    pub command: String,
    /// A command that runs before each run.
    pub prepare: Option<String>,
    /// A command that runs after each run.
    pub conclude: Option<String>,
}

/// Checks what is asked for, before anything is written. Returns the name of each target, and its peer, if it has one.
fn checked(programs: &Programs) -> Result<(Vec<String>, Vec<Option<Peer>>)> {
    if programs.commands.is_empty() {
        return Err(Error::Job("there is no command to run".into()));
    }
    if programs.targets.is_empty() {
        return Err(Error::Job("there is nothing to measure: at least one target is needed".into()));
    }
    let peers = programs
        .targets
        .iter()
        .map(|target| folders::peer_of(target, &programs.platter))
        .collect::<Result<Vec<Option<Peer>>>>()?;
    peers.iter().flatten().try_for_each(Peer::check)?;
    let names = crate::plan::distinct(programs.targets.iter().map(Target::name));
    crate::plan::check_base(programs.base.as_deref(), &names)?;
    if peers.iter().any(Option::is_some) {
        programs.stand.check_blocks()?;
    }
    crate::plan::check_regions(&programs.stand, &programs.targets, programs.room)?;
    check_system(programs, &names, &peers)?;
    Ok((names, peers))
}

/// Runs all commands on all targets.
///
/// # Errors
/// An error that occurs before anything was measured. After that, the document is partial and states why.
pub fn run(programs: &Programs, observer: &dyn Observer) -> Result<Document> {
    let (names, peers) = checked(programs)?;
    let started = SystemTime::now();
    let watched = Machine::watch_programs(peers.iter().flatten().any(Peer::is_served_by_program));
    let ground = Ground::open(programs, &peers, observer)?;
    let unused = named(&programs.stand).filter(|_| matches!(ground, Ground::Nothing));
    let warnings =
        unused.map(|name| format!("{name} was left alone: every target is a directory of the host"));
    let mut course = Course {
        machine: watched,
        programs,
        observer,
        forgets: programs.cold.then(|| Forgets::of(&programs.targets)),
        from: std::env::current_dir().unwrap_or_default(),
        began: Instant::now(),
        expected: Duration::ZERO,
        members: Vec::new(),
        failed: Vec::new(),
        warnings: warnings.into_iter().collect(),
        unfit: HashSet::new(),
        unable: Vec::new(),
    };
    course.make(&ground, &names, peers);
    let labels = crate::plan::distinct(programs.commands.iter().map(|program| shown(&program.command)));
    let mut results = Vec::new();
    let ratios = programs.commands.len() * programs.targets.len().saturating_sub(1);
    let mut noise = Noise::new(ratios, programs.until);
    let enough = Enough { passes: programs.passes, time: programs.time, until: programs.until };
    for (number, label) in labels.iter().enumerate() {
        if course.is_over() {
            break;
        }
        course.warm_up(number)?;
        let runs = course::measure(&mut course, number, enough, &mut noise, SEED)?;
        for (name, runs) in names.iter().zip(&runs).filter(|(_, runs)| !runs.is_empty()) {
            let case = case(programs, number, label);
            let result = course::result(name, case, runs);
            let run = &result.runs[0];
            observer.result(name, "Programs", label, run.iops, 0.0);
            results.push(result);
        }
    }
    let targets = measured(&course, &results, &names);
    let is_interrupted = course.is_over();
    course.end();
    let mut partial: Vec<String> = course.failed.iter().map(|(_, why, _)| why.clone()).collect();
    partial.append(&mut course.unable);
    if results.is_empty() {
        return Err(crate::unmeasured(is_interrupted, &partial));
    }
    if is_interrupted {
        partial.push("it was interrupted".into());
    }
    results.sort_by_key(|result| names.iter().position(|name| *name == result.target));
    let settings = settings(programs, &course, &targets);
    let mut document =
        Document::new(started, programs.command.clone(), environment(ground.device()), settings, targets);
    document.partial = (!partial.is_empty()).then(|| partial.join("; "));
    document.warnings = std::mem::take(&mut course.warnings);
    document.results = results;
    document.machine = course.machine.sentences(0, 0);
    document.environment.other_load = course.machine.other_load();
    document.environment.throttled_periods =
        course.machine.throttled().map(|(_, throttled)| throttled.periods);
    document.conclude();
    ground.keep();
    Ok(document)
}

/// Refuses what only some systems can do.
fn check_system(programs: &Programs, names: &[String], peers: &[Option<Peer>]) -> Result<()> {
    let mounted = names.iter().zip(peers).find(|(_, peer)| peer.is_some());
    match mounted {
        Some((name, _)) if !host::MOUNTS => Err(Error::Job(format!(
            "{name}: programs use it through a mount, which is there on Linux only: name directories of drives with --targets, as \
             dir:X:\\"
        ))),
        _ if programs.cold && !host::FORGETS => Err(Error::Job(
            "--cold: caches are told to forget on Linux only: leave it out, and all targets are measured with what is in memory"
                .into(),
        )),
        _ => Ok(()),
    }
}

/// A device that was named by whoever asked for the comparison, as it was named.
fn named(stand: &Stand) -> Option<String> {
    match stand {
        Stand::TemporaryImage(_) => None,
        Stand::Path { path, .. } => Some(path.display().to_string()),
        Stand::Mirror { .. } => Some("the mirror".into()),
        Stand::Memory(bytes) => Some(format!("mem:{}", crate::stand::typed(*bytes))),
        Stand::Model(model) => Some(model.shown()),
    }
}

/// The descriptions of all targets with results, in the order of their names.
fn measured(course: &Course<'_>, results: &[report::CaseResult], names: &[String]) -> Vec<report::Target> {
    let made = course.members.iter().flatten().map(|folder| folder.description.clone());
    let failed = course.failed.iter().filter_map(|(_, _, description)| description.clone());
    let mut targets: Vec<report::Target> = made.chain(failed).collect();
    targets.retain(|target| results.iter().any(|result| result.target == target.name));
    targets.sort_by_key(|target| names.iter().position(|name| *name == target.name));
    targets
}

/// A command as tables show it: in one line, and not too long.
fn shown(command: &str) -> String {
    let line = command.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some(_) => line.chars().take(SHOWN - 1).chain(['…']).collect(),
        None => line,
    }
}

fn case(programs: &Programs, number: usize, label: &str) -> report::Case {
    report::Case {
        workload: NAME.into(),
        name: label.into(),
        program: Some(programs.commands[number].command.clone()),
        direction: report::Direction::Mix,
        queue_depth: 1,
        workers: 1,
        durability: if programs.durable { "durable at the end of each run" } else { "as the program asks" }
            .into(),
        ..report::Case::default()
    }
}

fn settings(programs: &Programs, course: &Course<'_>, targets: &[report::Target]) -> Settings {
    let base = programs.base.clone().filter(|base| targets.iter().any(|target| target.name == *base));
    let caches = match course.forgets {
        Some(forgets) => forgets.sentence().to_owned(),
        None => match programs.warmups {
            0 => "as each run left them".into(),
            1 => "warm: one run before the others did not count".into(),
            count => format!("warm: {count} runs before the others did not count"),
        },
    };
    Settings {
        preset: programs.preset.name().into(),
        base: base.unwrap_or_else(|| targets[0].name.clone()),
        rounds: 1,
        seed: SEED,
        direct: false,
        own_regions: true,
        span_bytes: programs.room,
        discarded: programs.targets.iter().any(Target::is_on_device).then_some(programs.discard),
        until_percent: programs.until.map(|share| share * 100.0),
        programs: Some(ProgramSettings {
            cold: programs.cold,
            caches,
            durable: programs.durable,
            setup: programs.setup.clone(),
            prepare: programs.commands.iter().filter_map(|program| program.prepare.clone()).collect(),
            conclude: programs.commands.iter().filter_map(|program| program.conclude.clone()).collect(),
        }),
        workloads: vec![WorkloadSettings {
            name: NAME.into(),
            title: "Programs".into(),
            durability: if programs.durable {
                "durable at the end of each run"
            } else {
                "as the program asks"
            }
            .into(),
            span_bytes: programs.room,
            seconds: 0.0,
        }],
        ..Settings::default()
    }
}

/// What the targets that are made for the run lie on.
enum Ground {
    /// Regions of a device, each a block device of the kernel.
    Stand(Box<OpenStand>),
    /// An image for each volume, without root.
    Images(Images),
    /// Directories of the host alone.
    Nothing,
}

impl Ground {
    fn open(programs: &Programs, peers: &[Option<Peer>], observer: &dyn Observer) -> Result<Ground> {
        let count = peers.iter().flatten().count();
        if count == 0 {
            return Ok(Ground::Nothing);
        }
        let mut progress = |done: u64, total: u64| {
            let seconds = |bytes: u64| Duration::from_secs(bytes >> 30);
            observer.stage("writing the image once", seconds(done), seconds(total));
            crate::go_on(observer)
        };
        let is_ours = peers.iter().flatten().all(|peer| matches!(peer, Peer::Ours { .. }));
        let is_root = host::is_root();
        if let (Stand::TemporaryImage(directory), true, false) = (&programs.stand, is_ours, is_root) {
            return Ok(Ground::Images(Images::make(
                directory,
                count,
                crate::stand::image_length(programs.room),
                &mut progress,
            )?));
        }
        let mut stand = OpenStand::open(
            &programs.stand,
            programs.room,
            None,
            count as u64,
            Caching::DirectIfPossible,
            true,
        )?;
        if stand.places.len() < count {
            return Err(Error::Job(format!(
                "{} has no room for {count} targets of {} each (--span)",
                stand.name,
                platter_device::show_size(programs.room)
            )));
        }
        if programs.discard {
            stand.discard_first();
        }
        stand.provide(&mut progress)?;
        Ok(Ground::Stand(Box::new(stand)))
    }

    fn device(&self) -> report::DeviceInfo {
        match self {
            Ground::Stand(stand) => device_info(&*stand.device, &stand.name, stand.kind, &stand.place),
            Ground::Images(images) => report::DeviceInfo {
                name: "temporary images".into(),
                kind: "image".into(),
                host_file_system: platter_device::host_file_system(&images.mounts()),
                host_ways: Beneath::this().ways_of_host(&images.mounts()),
                in_memory: Beneath::this().memory(&images.mounts()),
                ..report::DeviceInfo::default()
            },
            Ground::Nothing => report::DeviceInfo {
                name: "directories of the host".into(),
                kind: NO_DEVICE.into(),
                ..report::DeviceInfo::default()
            },
        }
    }

    fn keep(self) {
        if let Ground::Stand(mut stand) = self {
            stand.keep();
        }
    }
}

/// A comparison that is being carried out.
struct Course<'a> {
    machine: Machine,
    programs: &'a Programs,
    observer: &'a dyn Observer,
    forgets: Option<Forgets>,
    /// The directory in which the user called.
    from: PathBuf,
    began: Instant,
    expected: Duration,
    /// The targets' folders; `None` for a target that was left out.
    members: Vec<Option<Folder>>,
    /// The targets that were left out: name, reason, description if it was made.
    failed: Vec<(String, String, Option<report::Target>)>,
    warnings: Vec<String>,
    /// The programs that failed on a target: the numbers of both, and why in sentences.
    unfit: HashSet<(usize, usize)>,
    unable: Vec<String>,
}

impl Course<'_> {
    /// Whether the user wants to end.
    fn is_over(&self) -> bool {
        self.observer.stop()
    }

    /// Makes all targets and runs the setup on each.
    fn make(&mut self, ground: &Ground, names: &[String], peers: Vec<Option<Peer>>) {
        let mut region = 0;
        for (number, ((target, name), peer)) in self.programs.targets.iter().zip(names).zip(peers).enumerate()
        {
            self.observer.stage(&format!("{name}: formatting"), self.began.elapsed(), self.expected);
            let folder = match (peer, target, ground) {
                (None, Target::Directory { path, integrity }, _) => {
                    Folder::of_host(name, path, *integrity, number)
                }
                (Some(peer), _, Ground::Stand(stand)) => Folder::on_stand(name, peer, stand, region),
                (Some(peer), _, Ground::Images(images)) => Folder::on_image(name, peer, images, region),
                _ => Err(Error::Job("there is no device for it".into())),
            };
            region += usize::from(target.is_on_device());
            match folder {
                Ok(folder) => self.members.push(Some(folder)),
                Err(error) => {
                    self.failed.push((name.clone(), left_out(name, "made ready", &error), None));
                    self.members.push(None);
                }
            }
        }
        if let Some(setup) = self.programs.setup.clone() {
            for target in 0..self.members.len() {
                let Some(folder) = &self.members[target] else { continue };
                self.observer.stage(
                    &format!("{}: {}", folder.name, shown(&setup)),
                    self.began.elapsed(),
                    self.expected,
                );
                let outcome = self.command(folder, &setup).and_then(|()| folder.sync(self.programs.durable));
                self.keep(target, "set up", outcome);
            }
        }
    }

    /// Runs a command that is not measured.
    fn command(&self, folder: &Folder, command: &str) -> Result<()> {
        let ended = self.launch(folder, command)?;
        match ended.code {
            0 => Ok(()),
            code => Err(Error::Program { command: command.into(), code, said: ended.said() }),
        }
    }

    fn launch(&self, folder: &Folder, command: &str) -> Result<launch::Ended> {
        let variables: [(&str, &OsStr); 2] =
            [("PLATTER_TARGET", folder.name.as_ref()), ("PLATTER_FROM", self.from.as_os_str())];
        launch::run(command, &folder.path, &variables, &|| self.observer.stop())
    }

    /// If a step failed for a target, leaves the target out from now on.
    fn keep<T>(&mut self, target: usize, what: &str, outcome: Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                if let Some(folder) = self.members[target].take() {
                    let (name, description) = (folder.name.clone(), folder.description.clone());
                    let why = left_out(&name, what, &error);
                    self.failed.push((name, why, Some(description)));
                    self.end_folder(folder);
                }
                None
            }
        }
    }

    fn end_folder(&mut self, folder: Folder) {
        let name = folder.name.clone();
        if let Err(error) = folder.end() {
            self.warnings.push(format!("{name}: what was made for the run could not be removed: {error}"));
        }
    }

    fn end(&mut self) {
        for folder in std::mem::take(&mut self.members).into_iter().flatten() {
            self.end_folder(folder);
        }
    }

    /// The runs that do not count.
    fn warm_up(&mut self, program: usize) -> Result<()> {
        let runs = if self.forgets.is_some() { 0 } else { self.programs.warmups };
        for _ in 0..runs {
            for target in 0..self.members.len() {
                if self.is_over() {
                    return Ok(());
                }
                match self.turn(program, target) {
                    Err(Error::Interrupted) => return Ok(()),
                    outcome => drop(outcome?),
                }
            }
        }
        Ok(())
    }

    /// One run with what goes before and after it.
    fn run(&mut self, program: usize, target: usize) -> Result<Execution> {
        let Program { command, prepare, conclude } = &self.programs.commands[program];
        let forgets = self.forgets;
        let Some(folder) = &self.members[target] else { return Err(Error::Interrupted) };
        let what = format!("{}: {}", folder.name, shown(command));
        self.observer.stage(&what, self.began.elapsed(), self.expected);
        if let Some(prepare) = prepare {
            self.command(folder, prepare)?;
        }
        let Some(folder) = &mut self.members[target] else { return Err(Error::Interrupted) };
        folder.sync(self.programs.durable)?;
        if let Some(how) = forgets {
            folder.forget(how)?;
        }
        let Some(folder) = &self.members[target] else { return Err(Error::Interrupted) };
        let before = folder.counters.as_ref().and_then(counters::Counters::now);
        let started = self.began.elapsed();
        let ended = self.launch(folder, command)?;
        let syncing = Instant::now();
        folder.sync(self.programs.durable)?;
        let synced = syncing.elapsed();
        let after = folder.counters.as_ref().and_then(counters::Counters::now);
        let (code, took, cpu) = (ended.code, ended.took, ended.cpu);
        if code != 0 && !self.programs.ignore_failure {
            return Err(Error::Program { command: command.clone(), code, said: ended.said() });
        }
        if let Some(conclude) = conclude {
            self.command(folder, conclude)?;
        }
        let durable = self.programs.durable;
        Ok(Execution {
            started,
            took: if durable { took + synced } else { took },
            background: if durable { Duration::ZERO } else { synced },
            cpu,
            code,
            seen: before.zip(after).map(|(before, after)| counters::between(&before, &after)),
        })
    }
}

impl Field for Course<'_> {
    fn targets(&self) -> usize {
        self.members.len()
    }

    fn turn(&mut self, program: usize, target: usize) -> Result<Option<Execution>> {
        let Some(folder) = &self.members[target] else { return Ok(None) };
        if self.unfit.contains(&(program, target)) {
            return Ok(None);
        }
        let name = folder.name.clone();
        match self.run(program, target) {
            Err(Error::Interrupted) => Err(Error::Interrupted),
            // Another program may work where this one does not.
            Err(error @ Error::Program { .. }) => {
                self.unfit.insert((program, target));
                let label = shown(&self.programs.commands[program].command);
                self.unable.push(format!("{name} has no result of {label}: {error}"));
                Ok(None)
            }
            outcome => Ok(self.keep(target, "measured", outcome)),
        }
    }

    fn passed(&mut self, program: usize, pass: u32, passes: u32) {
        let programs = self.programs.commands.len() as f64;
        let done = program as f64 + f64::from(pass) / f64::from(passes.max(1));
        self.expected = self.began.elapsed().mul_f64((programs / done.max(1e-6)).clamp(1.0, 1e6));
    }

    fn other_load(&self) -> Option<f64> {
        self.machine.other_load()
    }

    fn notice(&self, sentence: &str) {
        self.observer.notice(sentence);
    }

    fn stop(&self) -> bool {
        self.observer.stop()
    }
}

fn left_out(name: &str, what: &str, error: &Error) -> String {
    format!("{name} was left out, as it could not be {what}: {error}")
}

#[cfg(test)]
mod tests;
