//! Intel's NAS Performance Toolkit: its twelve loads on files, with the removal policies of Windows.
//!
//! One program with one thread opens, reads, writes and closes files as fast as the storage allows. `docs/naspt.md`
//! lists the known facts about the loads and how certain they are; each result repeats this for its load.

mod ageing;
mod files;
mod loads;

pub use files::Policy;

use crate::compare::gather as compare;
use crate::document::{self as report, CaseResult, Document, Round, Settings, Slice, WorkloadSettings};
use crate::environment::{device_info, environment};
use crate::stand::{NO_DEVICE, OpenStand, Stand};
use crate::target::{Target, new_folder};
use crate::{CpuTime, Error, Observer, Preset, Result};
use files::{Done, Files, since, time};
use loads::{BACKUP_LOADS, COMMIT_LOADS, IMAGE_LOADS, LOADS, Load, SMALL_LOADS, TREE_LOADS, Today, What};
use platter_device::sync;
use platter_device::{Caching, Recorder};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// The settings of a NASPT run.
#[derive(Clone)]
pub struct Naspt {
    /// The device that volumes are made on.
    pub stand: Stand,
    /// The targets that have files: volumes, and directories of the host.
    pub targets: Vec<Target>,
    /// The removal policies; each target is measured with each of them.
    pub policies: Vec<Policy>,
    /// Whether each target is also measured after ageing (many files were made and deleted on it), as a target of its
    /// own.
    pub ages: bool,
    /// The sets of loads to run.
    pub sets: Vec<Set>,
    /// Quick: a sixteenth of the files and bytes. Full: all.
    pub preset: Preset,
    /// The number of rounds, each with targets that are made anew.
    pub repeats: u32,
    /// The name of the target that all others are compared with; the first if `None`.
    pub base: Option<String>,
    /// Whether each region is discarded (TRIM) before its target is made.
    pub discard: bool,
    /// The command line that repeats the run, for the report.
    pub command: String,
}

/// A set of loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// The twelve loads of NASPT.
    Naspt,
    /// Operations on many small files: create, list, stat, read, rename, delete.
    SmallFiles,
    /// Random I/O on images of virtual machines.
    Images,
    /// Commits of a database.
    Commit,
    /// Synthetic full backups.
    Backup,
    /// Unpacking, building and cleaning a source tree.
    Tree,
}

impl Set {
    /// Every set of loads.
    pub const ALL: [Set; 6] = [Set::Naspt, Set::SmallFiles, Set::Images, Set::Commit, Set::Backup, Set::Tree];

    /// The set's name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Set::Naspt => "naspt",
            Set::SmallFiles => "small-files",
            Set::Images => "vm-images",
            Set::Commit => "database-commit",
            Set::Backup => "synthetic-full",
            Set::Tree => "source-tree",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Set::Naspt => "NASPT",
            Set::SmallFiles => "Small files",
            Set::Images => "Images of virtual machines",
            Set::Commit => "Commits of a database",
            Set::Backup => "Synthetic full backups",
            Set::Tree => "Source tree",
        }
    }

    fn loads(self) -> &'static [Load] {
        match self {
            Set::Naspt => &LOADS,
            Set::SmallFiles => &SMALL_LOADS,
            Set::Images => &IMAGE_LOADS,
            Set::Commit => &COMMIT_LOADS,
            Set::Backup => &BACKUP_LOADS,
            Set::Tree => &TREE_LOADS,
        }
    }
}

const SEED: u64 = 8664;

impl Naspt {
    /// The factor by which the numbers of files and bytes are divided.
    fn scale(&self) -> u64 {
        match self.preset {
            Preset::Quick => 16,
            Preset::Full => 1,
        }
    }
}

/// Runs all loads on all targets.
///
/// # Errors
/// An error that occurs before anything was measured. After that, the document is partial and states why.
pub fn run(naspt: &Naspt, observer: &dyn Observer) -> Result<Document> {
    let (without, with): (Vec<&Target>, Vec<&Target>) =
        naspt.targets.iter().partition(|target| matches!(target, Target::Raw | Target::Through { .. }));
    let Some(first) = without.first() else { return run_on_files(naspt, observer) };
    let why = format!("{}: it has no files", first.name());
    if with.is_empty() {
        return Err(Error::Job(why));
    }
    // The list of targets may be that of a block comparison, so targets without files are left out with a warning.
    let targets = with.into_iter().cloned().collect();
    let mut document = run_on_files(&Naspt { targets, ..naspt.clone() }, observer)?;
    document.warnings.push(format!("{why}, and is left out of loads on files."));
    Ok(document)
}

/// [`run`] where all targets have files.
fn run_on_files(naspt: &Naspt, observer: &dyn Observer) -> Result<Document> {
    if naspt.targets.is_empty() || naspt.policies.is_empty() {
        return Err(Error::Job("there is nothing to measure: at least one target is needed".into()));
    }
    for target in &naspt.targets {
        target.host_directory()?;
        if let Target::Mounted(peer) = target {
            naspt.stand.check_blocks()?;
            peer.check()?;
        }
    }
    let started = SystemTime::now();
    let _time = naspt.stand.begin_virtual_time();
    let scale = naspt.scale();
    let all = naspt.sets.iter().flat_map(|set| set.loads());
    let span = all.map(|load| load.bytes(scale)).max().unwrap_or(0).next_multiple_of(4096) * 2;
    let members = members(naspt)?;
    let on_device = naspt.targets.iter().any(Target::is_on_device);
    let is_mounted = naspt.targets.iter().any(Target::is_mounted);
    let caching = Caching::DirectIfPossible;
    let mut stand = OpenStand::open(&naspt.stand, span, None, on_device.into(), caching, is_mounted)?;
    if naspt.discard {
        stand.discard_first();
    }
    stand.provide(&mut |done, total| {
        let part = |bytes: u64| Duration::from_secs(bytes >> 30);
        observer.stage("writing the image once", part(done), part(total));
        crate::go_on(observer)
    })?;
    let mut course = Course {
        naspt,
        began: sync::now(),
        results: Vec::new(),
        targets: Vec::new(),
        partial: Vec::new(),
        notes: BTreeSet::new(),
    };
    'all: for round in 1..=naspt.repeats {
        for turn in 0..members.len() {
            // Each round begins with another target.
            let member = &members[(turn + round as usize - 1) % members.len()];
            let own = own_device(naspt, span)?;
            match course.target(member, own.as_ref().unwrap_or(&stand), round, observer) {
                Ok(()) | Err(Error::Interrupted) => {}
                Err(error) => course.partial.push(format!("{} was left out: {error}", member.name)),
            }
            if observer.stop() {
                course.partial.push("it was interrupted".into());
                break 'all;
            }
        }
    }
    if course.results.is_empty() {
        return Err(crate::unmeasured(observer.stop(), &course.partial));
    }
    let Course { mut results, mut targets, partial, notes, .. } = course;
    let order = |name: &str| members.iter().position(|member| member.name == name);
    results.sort_by_key(|result| order(&result.target));
    targets.sort_by_key(|target| order(&target.name));
    let settings = settings(naspt, &stand, &targets[0].name, span);
    let device = device_info(&*stand.device, &stand.name, stand.kind, &stand.place);
    let mut document = Document::new(started, naspt.command.clone(), environment(device), settings, targets);
    document.partial = (!partial.is_empty()).then(|| partial.join("; "));
    document.results = results;
    document.warnings.extend(notes);
    document.warnings.extend(caveats(naspt));
    document.conclude();
    stand.keep();
    Ok(document)
}

/// A new device for one target in virtual time, on which nothing is that another target left.
fn own_device(naspt: &Naspt, span: u64) -> Result<Option<OpenStand>> {
    let open = || OpenStand::open(&naspt.stand, span, None, 1, Caching::DirectIfPossible, false);
    sync::is_virtual().then(open).transpose()
}

/// The targets with each of their policies, fresh and aged, under names that differ.
fn members(naspt: &Naspt) -> Result<Vec<Member<'_>>> {
    let with = |target| {
        let both =
            |policy| if naspt.ages { vec![(policy, false), (policy, true)] } else { vec![(policy, false)] };
        naspt.policies.iter().copied().flat_map(both).map(move |(policy, is_aged)| {
            let name = name_of(naspt, target, policy) + if is_aged { " aged" } else { "" };
            Member { target, policy, is_aged, name }
        })
    };
    let mut members: Vec<Member<'_>> = naspt.targets.iter().flat_map(with).collect();
    let names = crate::plan::distinct(members.iter().map(|member| member.name.clone()));
    members.iter_mut().zip(&names).for_each(|(member, name)| member.name.clone_from(name));
    crate::plan::check_base(naspt.base.as_deref(), &names)?;
    Ok(members)
}

/// What the document says of how it was measured; `first` is the first target's name.
fn settings(naspt: &Naspt, stand: &OpenStand, first: &str, span: u64) -> Settings {
    let durability = naspt.policies.iter().map(|policy| policy.name()).collect::<Vec<_>>().join(", ");
    let of_set = |set: &Set| WorkloadSettings {
        name: set.name().into(),
        title: set.title().into(),
        durability: durability.clone(),
        span_bytes: span,
        seconds: 0.0,
    };
    Settings {
        preset: naspt.preset.name().into(),
        base: naspt.base.clone().unwrap_or_else(|| first.into()),
        rounds: naspt.repeats,
        seed: SEED,
        direct: stand.direct,
        preconditioning: None,
        programs: None,
        until_percent: None,
        discarded: (stand.kind != NO_DEVICE).then_some(naspt.discard),
        own_regions: false,
        span_bytes: span,
        workloads: naspt.sets.iter().map(of_set).collect(),
    }
}

/// What a reader of the figures has to know of these loads.
fn caveats(naspt: &Naspt) -> Vec<String> {
    let (mut caveats, scale) = (Vec::new(), naspt.scale());
    if naspt.targets.iter().any(|target| !target.is_on_device() || target.is_mounted()) {
        caveats.push(
            "files of mounted file systems are used through the host's page cache, which forgets them before each load: what a \
             load reads twice, or reads after it wrote it, comes from memory then, and what it reads in order is read ahead; \
             volumes of this program cache no data"
                .into(),
        );
    }
    if naspt.sets.contains(&Set::Naspt) {
        caveats.push(format!(
            "what is known of NASPT's loads is read (V), recalled (R) or inferred (I), which stands beside each; files and \
             bytes are {} of the original's",
            if scale == 1 { "those".into() } else { format!("1/{scale}") }
        ));
    }
    caveats
}

/// The operations and bytes by which a load is rated.
fn counted(load: &Load, done: &Done) -> (u64, u64) {
    // For loads on small files, an operation is the handling of one file, whatever is done with it.
    let operations = match load.what {
        What::Small(_) | What::Today(Today::Tree(_)) => done.opens + done.looks + done.changes,
        What::Today(Today::Commit) => done.syncs,
        What::Today(_) => done.reads + done.writes + done.clones + done.changes,
        _ => done.reads + done.writes + done.opens,
    };
    let moved = match load.what {
        // A backup is rated by the bytes that it holds, whether they were written or cloned.
        What::Today(Today::Backup { .. }) => done.write_bytes + done.cloned_bytes,
        _ => done.read_bytes + done.write_bytes,
    };
    (operations, moved)
}

/// The name of a target with a policy, in reports.
fn name_of(naspt: &Naspt, target: &Target, policy: Policy) -> String {
    match naspt.policies.len() {
        1 => target.name(),
        _ => format!("{} {}", target.name(), policy.name()),
    }
}

/// A target with a policy, new or aged.
struct Member<'n> {
    target: &'n Target,
    policy: Policy,
    is_aged: bool,
    name: String,
}

struct Course<'n> {
    naspt: &'n Naspt,
    began: Instant,
    results: Vec<CaseResult>,
    targets: Vec<report::Target>,
    partial: Vec<String>,
    /// Notes on loads that a target cannot run, and the results of ageing.
    notes: BTreeSet<String>,
}

impl Course<'_> {
    /// Makes a target new, and runs all loads on it.
    fn target(
        &mut self,
        member: &Member<'_>,
        stand: &OpenStand,
        round: u32,
        observer: &dyn Observer,
    ) -> Result<()> {
        let &Member { target, policy, is_aged, ref name } = member;
        let total = Duration::from_secs(12 * u64::from(self.naspt.repeats));
        observer.stage(&format!("{name}: formatting"), since(self.began), total.max(since(self.began)));
        // Files in a directory of the host are used through the page cache, as NASPT does. The test file made here is
        // not measured.
        let caching = if target.is_on_device() { stand.caching } else { Caching::Buffered };
        let ready = target.set_up(name, &stand.places[0], caching, 4096)?;
        // The folder is removed when this is dropped, also after an error.
        let host = match (target, &ready.mounted) {
            (Target::Directory { path, integrity }, _) => Some(HostFolder::new(path, *integrity)?),
            (_, Some(mounted)) => Some(HostFolder::new(&mounted.at, false)?),
            _ => None,
        };
        let block = ready.mounted.as_ref().map(|mounted| mounted.block.clone());
        let mut files = match &host {
            Some(folder) => Files::of_directory(&folder.0, block, policy, &target.name()),
            None => Files::of_volume(&ready, policy, &target.name())?,
        };
        files.walk(self.naspt.stand.fat_page()?, policy, &target.name())?;
        if !self.targets.iter().any(|known| known.name == *name) {
            let description = ready.description.clone();
            let age = if is_aged { ", aged" } else { "" };
            let title = format!("{}{age}, {}", description.title, policy.name());
            self.targets.push(report::Target { title, ..description });
        }
        let sets = &self.naspt.sets;
        if is_aged {
            observer.stage(&format!("{name}: ageing"), since(self.began), total.max(since(self.began)));
            let most = sets.iter().flat_map(|set| set.loads()).map(|load| load.bytes(self.naspt.scale()));
            let aged = ageing::age(&mut files, most.max().unwrap_or(0), SEED, &|| observer.stop())?;
            self.notes.insert(aged.sentence(name));
        }
        for (set, load) in sets.iter().flat_map(|set| set.loads().iter().map(move |load| (*set, load))) {
            if observer.stop() {
                break;
            }
            if let What::Today(today) = load.what
                && let Some(why) = today.lacks(&files)
            {
                self.notes.insert(format!("{name} has no row {}: {why}", load.name));
                continue;
            }
            observer.stage(
                &format!("{name}: {}", load.name),
                since(self.began),
                total.max(since(self.began)),
            );
            let stop = || observer.stop();
            let run = self.load(load, &mut files, ready.recorder.as_deref(), round, &stop)?;
            observer.result(name, set.title(), load.name, run.iops, run.mb_per_s);
            self.add(name, case(set, load, policy), run);
        }
        drop((files, host));
        ready.tear_down()
    }

    /// Adds a run to the result of its target and case.
    fn add(&mut self, name: &str, case: report::Case, run: Round) {
        let known =
            self.results.iter_mut().find(|result| result.target == name && result.case.is_same(&case));
        match known {
            Some(result) => result.runs.push(run),
            None => self.results.push(CaseResult {
                target: name.into(),
                case,
                latency_us: run.latency_us,
                cpu: run.cpu,
                runs: vec![run],
                ..CaseResult::default()
            }),
        }
    }

    fn load(
        &self,
        load: &Load,
        files: &mut Files,
        recorder: Option<&Recorder>,
        round: u32,
        stop: &dyn Fn() -> bool,
    ) -> Result<Round> {
        let scale = self.naspt.scale();
        let mut ready = load.prepare(files, scale, SEED, stop)?;
        files.sync()?;
        ready.forget_content(files)?;
        files.take_done();
        let before = recorder.map(Recorder::traffic);
        let cpu = CpuTime::now();
        let started = since(self.began);
        // The time includes making all writes durable, so that a policy which writes late does not look faster for it.
        let ((), took) = time(|| {
            load.replay(files, &mut ready, scale, SEED ^ 1)?;
            files.sync()
        })?;
        let cpu = CpuTime::now().since(cpu);
        let traffic = recorder.zip(before).map(|(recorder, before)| recorder.traffic().since(&before));
        let done = files.take_done();
        load.clear(files, &ready)?;
        // The space of the removed files is free before the next load begins, outside of the measured time.
        files.sync()?;
        let seconds = took.as_secs_f64().max(1e-9);
        let (operations, moved) = counted(load, &done);
        let latency = compare::latency(&done.latencies);
        let run = Round {
            repeat: round,
            started_at_seconds: started.as_secs_f64(),
            seconds,
            iops: operations as f64 / seconds,
            mb_per_s: moved as f64 / 1e6 / seconds,
            latency_us: latency,
            response_times: compare::response_times(&done.latencies),
            slices: vec![Slice {
                pass: round,
                started_at_seconds: started.as_secs_f64(),
                seconds,
                iops: operations as f64 / seconds,
                latency_us: latency.mean,
                exit_code: None,
            }],
            cpu: report::Cpu {
                user_s: cpu.user.as_secs_f64(),
                system_s: cpu.system.as_secs_f64(),
                us_per_io: cpu.total().as_secs_f64() * 1e6 / (operations as f64).max(1.0),
                percent: cpu.total().as_secs_f64() / seconds * 100.0,
            },
            requested: report::Requested {
                reads: done.reads,
                writes: done.writes,
                read_bytes: done.read_bytes,
                write_bytes: done.write_bytes,
            },
            device: compare::traffic([traffic]),
            ..Round::default()
        };
        Ok(run)
    }
}

fn case(set: Set, load: &Load, policy: Policy) -> report::Case {
    report::Case {
        workload: set.name().into(),
        name: load.name.into(),
        direction: load.direction,
        block_bytes: load.block(),
        program: None,
        shape: Some(load.about.into()),
        queue_depth: 1,
        workers: 1,
        random_percent: 0,
        read_percent: match load.direction {
            report::Direction::Read => 100,
            report::Direction::Write => 0,
            report::Direction::Mix => 50,
        },
        durability: policy.name().into(),
        scoring: None,
        beside: Vec::new(),
    }
}

/// A folder in a directory of the host, which is removed with its content when dropped.
struct HostFolder(PathBuf);

impl HostFolder {
    fn new(directory: &std::path::Path, integrity: bool) -> Result<HostFolder> {
        let path = directory.join(format!("platter-naspt-{}", std::process::id()));
        new_folder(&path, integrity)?;
        Ok(HostFolder(path))
    }
}

impl Drop for HostFolder {
    fn drop(&mut self) {
        // The removal fails if the folder has been removed already, which is just as well.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the rows of `NASPerf-APP.csv` for one target: from the third row on the loads in NASPT's order, each with
/// its MB/s.
///
/// Facts: NasTestScript (github.com/spikerwork), which reads rows 3 to 14 as `name,value`. The content of NASPT's first
/// two rows is unknown; here they describe the file.
pub fn csv(document: &Document, target: &str) -> String {
    let mut text = format!("NASPT loads by platter on {target}\nTest,Throughput (MB/s)\n");
    for load in &LOADS {
        let found =
            document.results.iter().find(|result| result.target == target && result.case.name == load.name);
        let rate = found.map_or(String::new(), |result| format!("{:.3}", result.mb_per_s));
        text += &format!("{},{rate}\n", load.name);
    }
    text
}

#[cfg(test)]
mod tests;
