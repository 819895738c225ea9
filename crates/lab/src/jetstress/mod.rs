//! Jetstress: the load that a mail server's databases put on files, by an engine modelled on ESE.
//!
//! Databases and their logs are on volumes of their own. `docs/jetstress.md` lists the known facts about the engine and
//! the load, and how certain each is.

mod change;
mod database;
mod load;
mod log;
mod page;
mod rows;
mod store;

use crate::document::{self as report, CaseResult, Document, Settings, WorkloadSettings};
use crate::environment::{device_info, environment};
use crate::stand::{NO_DEVICE, OpenStand, Region, Stand, memory_share};
use crate::target::{Ready, Target};
use crate::{Error, Observer, Preset, Result};
use database::{Database, Shape};
use load::{Done, MIX};
use platter_device::sync;
use platter_device::{Caching, Recorder, Traffic};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use store::Store;

/// The settings of a Jetstress run.
#[derive(Clone)]
pub struct Jetstress {
    /// The device that volumes are made on.
    pub stand: Stand,
    /// The pairs of targets for databases and logs that are compared.
    pub volumes: Vec<Volumes>,
    /// Quick: small databases and seconds for each case. Full: databases as large as a server's and hours.
    pub preset: Preset,
    /// How often each case is run, each time with new volumes and databases.
    pub repeats: u32,
    /// Measured time of a case, instead of the preset's.
    pub time: Option<Duration>,
    /// The numbers of threads, each a case; 8, 16 and autotune if there are none.
    pub threads: Vec<u32>,
    /// The name of the pair that all others are compared with; the first if `None`.
    pub base: Option<String>,
    /// Whether each region is discarded (TRIM) before its target is made.
    pub discard: bool,
    /// The command line that repeats the run, for the report.
    pub command: String,
}

/// The targets for a database and for its log.
#[derive(Clone)]
pub struct Volumes {
    /// The target for databases.
    pub db: Target,
    /// The target for logs.
    pub log: Target,
}

impl Volumes {
    /// The name, as on the command line.
    pub fn name(&self) -> String {
        match (self.db.name(), self.log.name()) {
            (db, log) if db == log => db,
            (db, log) => format!("db={db},log={log}"),
        }
    }
}

impl FromStr for Volumes {
    type Err = String;

    /// Parses `db=TARGET,log=TARGET`, or one target for both.
    fn from_str(text: &str) -> std::result::Result<Volumes, String> {
        let target = |name: &str| Target::parse(name).map_err(|error| error.to_string());
        match text.strip_prefix("db=").and_then(|rest| rest.split_once(",log=")) {
            Some((db, log)) => Ok(Volumes { db: target(db)?, log: target(log)? }),
            None if text.contains('=') => Err("expected db=TARGET,log=TARGET".into()),
            None => Ok(Volumes { db: target(text)?, log: target(text)? }),
        }
    }
}

/// The number of databases, each with a log: as in the published comparison.
const DATABASES: usize = 4;
const SEED: u64 = 8664;
/// In memory a volume has one part in this many more than its largest file, for what the file system itself writes.
const MARGIN: u64 = 16;

/// The number of threads of a case.
#[derive(Clone, Copy)]
enum Threads {
    Number(u32),
    /// A growing number of threads, until the latencies become too long or the throughput stops growing.
    Autotune,
}

/// The cases of the published runs.
const CASES: [(&str, Threads); 3] =
    [("8 threads", Threads::Number(8)), ("16 threads", Threads::Number(16)), ("autotune", Threads::Autotune)];
/// The greatest number of threads that autotune tries.
const MOST_THREADS: u32 = 256;
/// Autotune ends when half as many threads more do not raise the throughput at least by this factor.
const LEAST_GAIN: f64 = 1.03;

/// The sizes and times of a preset.
struct Size {
    shape: Shape,
    ramp: Duration,
    time: Duration,
}

impl Jetstress {
    fn size(&self) -> Size {
        let seconds = Duration::from_secs;
        let (shape, ramp, time) = match self.preset {
            Preset::Quick => (Shape::of(20_000, 4 << 20, 2 << 20), Duration::from_millis(500), seconds(3)),
            Preset::Full => (Shape::of(10_000_000, 256 << 20, 20 << 20), seconds(300), seconds(2 * 3600)),
        };
        let time = self.time.unwrap_or(time);
        Size { shape, ramp: ramp.min(time), time }
    }

    fn cases(&self) -> Vec<(String, Threads)> {
        match self.threads.is_empty() {
            true => CASES.map(|(name, threads)| (name.to_owned(), threads)).to_vec(),
            false => self
                .threads
                .iter()
                .map(|&number| (format!("{number} threads"), Threads::Number(number)))
                .collect(),
        }
    }
}

/// Runs all cases on all pairs of targets.
///
/// # Errors
/// An error that occurs before anything was measured. After that, the document is partial and states why.
pub fn run(jetstress: &Jetstress, observer: &dyn Observer) -> Result<Document> {
    check(jetstress)?;
    let started = SystemTime::now();
    let _time = jetstress.stand.begin_virtual_time();
    let size = jetstress.size();
    let span = size.shape.file_bytes().max(size.shape.log_bytes());
    let on_device = |volumes: &Volumes| {
        [&volumes.db, &volumes.log].into_iter().filter(|target| target.is_on_device()).count() * DATABASES
    };
    let places = jetstress.volumes.iter().map(on_device).max().unwrap_or(0);
    let is_mounted = targets(jetstress).any(Target::is_mounted);
    let caching = Caching::DirectIfPossible;
    let no_room = |what: &str, each: u64| {
        let each = platter_device::show_size(each);
        Err(Error::Job(format!("{what} has no room for {places} volumes of {each} each")))
    };
    let share = match jetstress.stand {
        Stand::Memory(length) => {
            let (share, needed) = (memory_share(length, places as u64), span + span / MARGIN);
            if places > 0 && share < needed {
                return no_room(&format!("memory of {}", platter_device::show_size(length)), needed);
            }
            Some(share)
        }
        _ => None,
    };
    let mut stand = OpenStand::open(&jetstress.stand, span, share, places as u64, caching, is_mounted)?;
    if stand.places.len() < places {
        return no_room(&stand.name, crate::stand::image_length(span));
    }
    if jetstress.discard {
        stand.discard_first();
    }
    stand.provide(&mut |done, total| {
        let part = |bytes: u64| Duration::from_secs(bytes >> 30);
        observer.stage("writing the image once", part(done), part(total));
        crate::go_on(observer)
    })?;
    let mut course = Course {
        jetstress,
        stand: &stand,
        observer,
        size: &size,
        began: sync::now(),
        results: Vec::new(),
        targets: Vec::new(),
        notes: Vec::new(),
        partial: Vec::new(),
    };
    course.all();
    let Course { results, targets, notes, partial, .. } = course;
    if results.is_empty() {
        return Err(crate::unmeasured(observer.stop(), &partial));
    }
    let settings = settings(jetstress, &stand, &targets[0].name, span);
    let device = device_info(&*stand.device, &stand.name, stand.kind, &stand.place);
    let command = jetstress.command.clone();
    let mut document = Document::new(started, command, environment(device), settings, targets);
    document.partial = (!partial.is_empty()).then(|| partial.join("; "));
    document.results = results;
    document.warnings = notes;
    document.warnings.push(
        "of Jetstress' load the mix, the lazy commits and the marks are recalled (R), not read, and what autotune does is \
         inferred (I): docs/jetstress.md"
            .into(),
    );
    document.conclude();
    stand.keep();
    Ok(document)
}

fn targets(jetstress: &Jetstress) -> impl Iterator<Item = &Target> {
    jetstress.volumes.iter().flat_map(|volumes| [&volumes.db, &volumes.log])
}

/// What counts the transfers of databases and logs. In a container both have one count, of which nobody can tell whose it is.
fn recorders(pair: &[Ready; 2]) -> [Option<Arc<Recorder>>; 2] {
    let is_shared = match [&pair[0].recorder, &pair[1].recorder] {
        [Some(one), Some(two)] => Arc::ptr_eq(one, two),
        _ => false,
    };
    [0, 1].map(|which| pair[which].recorder.clone().filter(|_| !is_shared))
}

/// Refuses, before anything is written, what cannot be measured.
fn check(jetstress: &Jetstress) -> Result<()> {
    if jetstress.volumes.is_empty() {
        return Err(Error::Job("there is nothing to measure: at least one target is needed".into()));
    }
    let names: Vec<String> = jetstress.volumes.iter().map(Volumes::name).collect();
    crate::plan::check_base(jetstress.base.as_deref(), &names)?;
    let is_repeated = |(index, number): (usize, &u32)| jetstress.threads[..index].contains(number);
    if jetstress.threads.contains(&0) || jetstress.threads.iter().enumerate().any(is_repeated) {
        return Err(Error::Job("numbers of threads are at least 1, and each is named once".into()));
    }
    if let Some(twice) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
        return Err(Error::Job(format!("{} is named twice", twice.1)));
    }
    for target in targets(jetstress) {
        target.host_directory()?;
        if let Target::Mounted(peer) = target {
            jetstress.stand.check_blocks()?;
            peer.check()?;
        }
    }
    Ok(())
}

/// What the document says of how it was measured; `first` is the first target's name.
fn settings(jetstress: &Jetstress, stand: &OpenStand, first: &str, span: u64) -> Settings {
    Settings {
        preset: jetstress.preset.name().into(),
        base: jetstress.base.clone().unwrap_or_else(|| first.into()),
        rounds: jetstress.repeats,
        seed: SEED,
        direct: stand.direct,
        preconditioning: None,
        programs: None,
        until_percent: None,
        discarded: (stand.kind != NO_DEVICE).then_some(jetstress.discard),
        own_regions: true,
        span_bytes: span,
        workloads: vec![WorkloadSettings {
            name: "jetstress".into(),
            title: "Jetstress".into(),
            durability: "write-through".into(),
            span_bytes: span,
            seconds: jetstress.size().time.as_secs_f64(),
        }],
    }
}

/// Opens databases that were not closed, and finds them whole. Returns how long their logs took to be replayed, as Jetstress times
/// its soft recovery.
fn recovery(ready: &[[Ready; 2]], shape: Shape) -> Result<Duration> {
    let stopped = sync::now();
    let files = ready.iter().map(|pair| [0, 1].map(|which| Store::new(pair[which].subject.clone())));
    let opened: Vec<Database> =
        files.map(|[db, log]| Database::open(db, log, shape)).collect::<Result<_>>()?;
    let recovery = sync::now().duration_since(stopped);
    for database in &opened {
        database.all()?;
        database.close()?;
    }
    Ok(recovery)
}

struct Course<'j> {
    jetstress: &'j Jetstress,
    stand: &'j OpenStand,
    observer: &'j dyn Observer,
    size: &'j Size,
    began: Instant,
    results: Vec<CaseResult>,
    targets: Vec<report::Target>,
    /// For each run, whether its latencies were within the limits.
    notes: Vec<String>,
    partial: Vec<String>,
}

impl Course<'_> {
    fn all(&mut self) {
        for volumes in &self.jetstress.volumes {
            for (case, threads) in self.jetstress.cases() {
                for repeat in 1..=self.jetstress.repeats {
                    if self.observer.stop() {
                        self.partial.push("it was interrupted".into());
                        return;
                    }
                    match self.case(volumes, &case, threads, repeat) {
                        // The next turn of the loop, or the end of the last, sees the wish to stop.
                        Ok(()) | Err(Error::Interrupted) => {}
                        Err(error) => {
                            self.partial.push(format!("{} was left out in {case}: {error}", volumes.name()));
                        }
                    }
                }
            }
        }
    }

    /// The time since the run began, which in virtual time is that of the model.
    fn passed(&self) -> Duration {
        sync::now().duration_since(self.began)
    }

    fn stage(&self, what: &str) {
        let runs =
            (self.jetstress.volumes.len() * self.jetstress.cases().len()) as u32 * self.jetstress.repeats;
        let total = (self.size.time + self.size.ramp) * runs;
        self.observer.stage(what, self.passed(), total.max(self.passed()));
    }

    /// Adds a target to those of the document, unless it is there; `ready` are two of its volumes.
    fn describe(&mut self, name: &str, [db, log]: &[Ready; 2]) {
        if self.targets.iter().any(|target| target.name == name) {
            return;
        }
        let title = match db.description.title == log.description.title {
            true => db.description.title.clone(),
            false => format!("databases on {}, logs on {}", db.description.title, log.description.title),
        };
        self.targets.push(report::Target {
            name: name.into(),
            title,
            short: name.into(),
            details: format!("{DATABASES} volumes of databases and {DATABASES} of logs"),
            ..db.description.clone()
        });
    }

    /// Runs one case, on new volumes and databases.
    fn case(&mut self, volumes: &Volumes, case: &str, threads: Threads, repeat: u32) -> Result<()> {
        let name = volumes.name();
        self.stage(&format!("{name}: making volumes"));
        let mut places = self.stand.places.iter();
        let shape = self.size.shape;
        let mut ready = Vec::new();
        for _ in 0..DATABASES {
            crate::go_on(self.observer)?;
            let db = self.ready(&volumes.db, &mut places, shape.file_bytes())?;
            let log = self.ready(&volumes.log, &mut places, shape.log_bytes())?;
            ready.push([db, log]);
        }
        self.describe(&name, &ready[0]);
        let mut databases = Vec::new();
        for (number, [db, log]) in (0..).zip(&ready) {
            self.stage(&format!("{name}: making databases"));
            let [db, log] = [db, log].map(|ready| Store::new(ready.subject.clone()));
            let stamp = fastrand::Rng::with_seed(SEED ^ number).u64(..) ^ self.passed().as_nanos() as u64;
            databases.push(Database::create_unless(db, log, stamp, shape, &|| self.observer.stop())?);
        }
        let recorders: Vec<[Option<Arc<Recorder>>; 2]> = ready.iter().map(recorders).collect();
        let seen = || {
            [0, 1].map(|which| {
                recorders.iter().map(|pair| pair[which].as_deref().map(Recorder::traffic)).collect::<Vec<_>>()
            })
        };
        crate::go_on(self.observer)?;
        let before = seen();
        let started = self.passed();
        self.stage(&format!("{name}: {case}"));
        let (count, done) = match threads {
            Threads::Number(count) => (count, self.load(&databases, count, self.size.time)?),
            Threads::Autotune => self.autotune(&databases, &name)?,
        };
        let after = seen();
        let traffic = [0, 1].map(|which| {
            let all = after[which].iter().zip(&before[which]);
            all.map(|(after, before)| Some(after.as_ref()?.since(before.as_ref()?)))
                .collect::<Vec<Option<Traffic>>>()
        });
        self.stage(&format!("{name}: looking whether the databases are whole"));
        // The databases are not closed, so that opening them has to replay the log.
        drop(databases);
        let recovery = recovery(&ready, shape)?;
        for pair in ready {
            pair.into_iter().try_for_each(Ready::tear_down)?;
        }
        if self.observer.stop() {
            self.partial.push(format!("{name}, {case} was cut short"));
        }
        self.observer.result(&name, "Jetstress", case, done.iops(), 0.0);
        let hours = self.size.time.as_secs_f64() / 3600.0;
        let verdict = rows::verdict(&done, count, hours);
        self.notes.push(format!(
            "{name}, {case}: {verdict}; logs replayed after a stop in {:.2} s, all databases whole",
            recovery.as_secs_f64()
        ));
        let workers = if let Threads::Number(count) = threads { count } else { 1 };
        let when = rows::When { repeat, started, workers };
        rows::add(&mut self.results, &name, case, &when, &done, traffic);
        Ok(())
    }

    fn ready<'p>(
        &self,
        target: &Target,
        places: &mut impl Iterator<Item = &'p Region>,
        length: u64,
    ) -> Result<Ready> {
        // A target in a directory of the host does not use its region, so any will do.
        let place = if target.is_on_device() { places.next() } else { self.stand.places.first() };
        let place = place.ok_or_else(|| Error::Job("there is no room for all volumes".into()))?;
        target.set_up(&target.name(), place, self.stand.caching, length)
    }

    fn load(&self, databases: &[Database], threads: u32, time: Duration) -> Result<Done> {
        let times = [self.size.ramp.min(time), time];
        let stop = || self.observer.stop();
        load::run(databases, self.size.shape.records, MIX, threads, times, SEED, &stop)
    }

    /// Raises the number of threads by half each time, until the latencies exceed a limit or the throughput stops
    /// growing; then runs the best number for the whole time. Jetstress raises the number until the latencies reach
    /// their limits; its other rules are unknown.
    fn autotune(&self, databases: &[Database], name: &str) -> Result<(u32, Done)> {
        let trial = (self.size.time / 10).max(Duration::from_millis(500)).min(self.size.time);
        let (mut best, mut most) = (8, 0.0);
        let mut threads = 8;
        while threads <= MOST_THREADS && !self.observer.stop() {
            self.stage(&format!("{name}: autotune with {threads} threads"));
            let done = self.load(databases, threads, trial)?;
            if !rows::is_passed(&done, 0.0) || done.iops() < most * LEAST_GAIN {
                break;
            }
            (best, most) = (threads, done.iops());
            threads += threads / 2;
        }
        self.stage(&format!("{name}: {best} threads"));
        Ok((best, self.load(databases, best, self.size.time)?))
    }
}

#[cfg(test)]
mod tests;
