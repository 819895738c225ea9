//! One run: its volume, its callers, its faults, and what is looked at afterwards.

use super::history::{Action, Call, History, Moment, Sync};
use super::judge::{self, Cut};
use super::names::{self, NameAction, NameCall, Refusal};
use super::script::{Abilities, FILES, FIRST_SIZE, LONGEST, NameStep, Step, scripts};
use super::{SimulatedDevice, Tasks};
use platter_device::sync::{point, simulate};
use platter_device::{
    Buffer, Completion, Device, Fault, Faults, Grain, Kind as RequestKind, MemoryDevice, Operation, Queue,
    Request, Sectors, Survivors, When,
};
use platter_vfs::model::Random;
use platter_vfs::{
    Change, CheckOptions, Cursor, Entry, Error, FileSystem, Format, FormatOptions, Integrity, Kind, Name,
    Node, OpenOptions, Plan, RenameFlags, Silent, SyncScope,
};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// A kind of volume to run on.
pub struct Setting {
    /// What it is called.
    pub name: &'static str,
    format: &'static dyn Format,
    /// An unmounted volume with the files that all callers share.
    image: Arc<MemoryDevice>,
    abilities: Abilities,
    /// After a power cut it is repaired before it is looked at; the others need no repair.
    repairs: bool,
}

/// The file that is a named stream of the first.
const STREAM: usize = FILES - 1;

/// Takes a hold on a shared file.
fn hold(system: &dyn FileSystem, file: usize, create: bool) -> Result<Node, Error> {
    if file < STREAM {
        return system.lookup(Node::ROOT, &shared(file));
    }
    let owner = system.lookup(Node::ROOT, &shared(0))?;
    let stream = system.stream(owner, &"side".into(), create);
    system.forget(owner, 1);
    stream
}

/// The name of a file that all share.
fn shared(file: usize) -> Name {
    Name::from(format!("shared {file}").as_str())
}

impl Setting {
    /// A volume of this format and size, in bytes.
    pub fn new(
        name: &'static str,
        format: &'static dyn Format,
        options: &FormatOptions,
        size: u64,
        abilities: Abilities,
        repairs: bool,
    ) -> Setting {
        let image = Arc::new(MemoryDevice::new(size, Sectors::SMALL));
        format.make(&*image, options, &Silent).unwrap_or_else(|error| panic!("{name}: {error}"));
        let system = format.open(image.clone(), OpenOptions::default()).expect("just made");
        for file in 0..abilities.files() {
            if file < STREAM {
                let made = system.create(Node::ROOT, &shared(file), Kind::File).expect("an empty volume");
                system.forget(made, 1);
            }
            let node = hold(&*system, file, true).expect("it is there");
            system.write(node, 0, &vec![judge::first_content(file); FIRST_SIZE as usize]).expect("room");
            system.forget(node, 1);
        }
        system.unmount().expect("a sound device");
        Setting { name, format, image, abilities, repairs }
    }

    fn check(&self, device: &dyn Device, repair: bool) -> Result<(), String> {
        let report =
            self.format.check(device, CheckOptions { repair }, &Silent).map_err(|error| error.to_string())?;
        let sound = if repair {
            report.remaining.is_none_or(|left| left == platter_vfs::Severity::Notice)
        } else {
            report.is_clean()
        };
        match sound {
            true => Ok(()),
            false => Err(report.findings.iter().map(|finding| format!("\n    {finding}")).collect()),
        }
    }
}

/// What a run came to.
type Outcome = Result<(), String>;

/// What the callers of a run share.
struct Stage {
    system: Arc<dyn FileSystem>,
    kept: Arc<Faults>,
    history: Mutex<History>,
    /// Transfers may fail.
    fails: bool,
    /// How many files all share.
    files: usize,
}

impl Stage {
    fn history(&self) -> std::sync::MutexGuard<'_, History> {
        self.history.lock().expect("nothing panics with it")
    }

    /// The present moment, which nothing else has.
    fn moment(&self) -> Moment {
        let writes = self.kept.log().writes();
        let mut history = self.history();
        history.ticks += 1;
        Moment { tick: history.ticks, writes }
    }

    fn note(&self, call: Call) {
        self.history().calls.push(call);
    }

    fn fault(&self, text: String) {
        self.history().faults.push(text);
    }
}

/// Runs one schedule and judges it.
///
/// # Errors
/// What is wrong, with the history that shows it.
pub fn run(setting: &Arc<Setting>, seed: u64) -> Outcome {
    let mut random = Random::new(seed);
    let sector = u64::from(setting.image.sectors().logical);
    let scripts = Arc::new(scripts(&mut random, sector, setting.abilities));
    run_scripts(setting, seed, scripts)
}

fn run_scripts(setting: &Arc<Setting>, seed: u64, scripts: Arc<Vec<Vec<Step>>>) -> Outcome {
    let mut random = Random::new(seed ^ 0x5EED);
    let kept = Arc::new(Faults::recording(setting.image.clone(), seed, Grain::Logical));
    let failure = random.chance(35).then(|| {
        let (operation, fault) = *random.pick(&[
            (Operation::Flush, Fault::Fail),
            (Operation::Flush, Fault::Fail),
            (Operation::Write, Fault::Fail),
            (Operation::Write, Fault::Tear),
            (Operation::Read, Fault::Fail),
        ]);
        let bound = if operation == Operation::Flush { 8 } else { 60 };
        (operation, random.below(bound), fault)
    });
    let fails = failure.is_some();
    let result: Arc<Mutex<Option<Ran>>> = Arc::default();
    let execution = {
        let (setting, kept, scripts, result) =
            (setting.clone(), kept.clone(), scripts.clone(), result.clone());
        move || {
            let _simulated = simulate(Rc::new(Tasks::new(seed)));
            let outcome = execute(&setting, &kept, &scripts, seed, failure);
            *result.lock().expect("nothing panics with it") = Some(outcome);
        }
    };
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(400_000);
    config.silence_warnings = true;
    // Both find what the other finds rarely.
    let scheduler: Box<dyn Scheduler + Send> = match random.chance(50) {
        true => Box::new(RandomScheduler::new_from_seed(seed, 1)),
        false => Box::new(PctScheduler::new_from_seed(seed, 2 + random.below(3) as usize, 1)),
    };
    let ran = catch_unwind(AssertUnwindSafe(|| Runner::new(scheduler, config).run(execution)));
    if let Err(panic) = ran {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        return Err(format!("panic: {}", text.unwrap_or_default()));
    }
    let (mut history, end) = result.lock().expect("it ended").take().expect("it ended");
    history.settle_planned(fails);
    if let Some(fault) = history.faults.first() {
        return Err(fault.clone());
    }
    judge_all(setting, &kept, &history, end, fails, &mut random)
}

/// What callers did and saw, and what they left if the volume opened.
type Ran = (History, Option<End>);

/// What the callers left.
struct End {
    contents: Vec<Option<Vec<u8>>>,
    /// The volume said that everything is on the device.
    unmounted: bool,
}

fn execute(
    setting: &Arc<Setting>,
    kept: &Arc<Faults>,
    scripts: &[Vec<Step>],
    seed: u64,
    failure: Option<(Operation, u64, Fault)>,
) -> Ran {
    let device = Arc::new(SimulatedDevice::new(kept.clone(), seed));
    let system = match setting.format.open(device, OpenOptions::default()) {
        Ok(system) => system,
        Err(error) => {
            let faults = vec![format!("the volume does not open: {error}")];
            return (History { faults, ..History::default() }, None);
        }
    };
    // Not before: a table that cannot be read when a volume is opened counts as damaged from then on.
    if let Some((operation, after, fault)) = failure {
        kept.inject(When::nth(operation, kept.count(operation) + after), fault);
    }
    let fails = failure.is_some();
    let stage = Arc::new(Stage {
        system,
        kept: kept.clone(),
        history: Mutex::default(),
        fails,
        files: setting.abilities.files(),
    });
    let ids = Arc::new(std::sync::atomic::AtomicU8::new(1));
    let callers: Vec<_> = scripts
        .iter()
        .enumerate()
        .map(|(number, script)| {
            let (stage, script, ids) = (stage.clone(), script.clone(), ids.clone());
            shuttle::thread::spawn(move || Caller::live(&stage, number, &script, seed, &ids))
        })
        .collect();
    for caller in callers {
        caller.join().expect("a caller that panics ends the run");
    }
    for node in std::mem::take(&mut stage.history().held) {
        stage.system.forget(node, 1);
    }
    let contents = (0..setting.abilities.files()).map(|file| content(&*stage.system, file).ok()).collect();
    let unmounted = match stage.system.unmount() {
        Ok(()) => true,
        Err(_) if fails => false,
        Err(error) => {
            stage.fault(format!("unmount: {error}"));
            false
        }
    };
    let history = std::mem::take(&mut *stage.history());
    (history, Some(End { contents, unmounted }))
}

/// All of a shared file.
fn content(system: &dyn FileSystem, file: usize) -> Result<Vec<u8>, Error> {
    let node = hold(system, file, false)?;
    let mut content = vec![0; system.attributes(node)?.size as usize];
    let read = system.read(node, 0, &mut content);
    system.forget(node, 1);
    content.truncate(read?);
    Ok(content)
}

fn judge_all(
    setting: &Setting,
    kept: &Faults,
    history: &History,
    end: Option<End>,
    fails: bool,
    random: &mut Random,
) -> Outcome {
    let Some(End { contents, unmounted }) = end else { return Ok(()) };
    for (file, last) in contents.iter().enumerate() {
        if last.is_none() && !fails {
            return Err(format!("file {file} cannot be read at the end"));
        }
    }
    judge::judge_run(history, &contents)?;
    names::judge(&history.names)?;
    let log = kept.log();
    if unmounted {
        let image = Arc::new(log.cut(log.writes(), Survivors::None));
        setting.check(&*image, false).map_err(|found| format!("after unmount: {found}"))?;
        let read_only = OpenOptions { read_only: true, ..OpenOptions::default() };
        let system =
            setting.format.open(image, read_only).map_err(|error| format!("after unmount: {error}"))?;
        for (file, last) in contents.iter().enumerate() {
            let left =
                content(&*system, file).map_err(|error| format!("after unmount: file {file}: {error}"))?;
            if last.as_ref().is_some_and(|last| *last != left) && !fails {
                return Err(format!(
                    "file {file} is another after unmount: {}",
                    difference(last.as_ref(), &left)
                ));
            }
        }
    }
    for _ in 0..2 {
        let write = random.below(log.writes() as u64 + 1) as usize;
        let survivors = match random.below(4) {
            0 => Survivors::None,
            1 => Survivors::All,
            _ => Survivors::Random(random.number()),
        };
        let told = |found: String| format!("power cut at write {write} ({survivors:?}): {found}");
        let image = Arc::new(log.cut(write, survivors));
        if setting.repairs {
            setting.check(&*image, true).map_err(&told)?;
        }
        setting.check(&*image, false).map_err(&told)?;
        let opened = setting.format.open(image, OpenOptions::default());
        let system = opened.map_err(|error| told(error.to_string()))?;
        for file in 0..setting.abilities.files() {
            let left = content(&*system, file).map_err(|error| told(format!("file {file}: {error}")))?;
            judge::judge_cut(history, file, Cut { write }, &left)
                .map_err(|found| told(format!("file {file}: {found}")))?;
        }
    }
    Ok(())
}

fn difference(one: Option<&Vec<u8>>, other: &[u8]) -> String {
    let Some(one) = one else { return String::new() };
    let at = one.iter().zip(other).position(|(one, other)| one != other);
    format!("{} and {} bytes, first different at {at:?}", one.len(), other.len())
}

/// One caller.
struct Caller<'s> {
    stage: &'s Stage,
    number: usize,
    nodes: Vec<Node>,
    /// Files of shared names.
    held: Vec<Node>,
    random: Random,
    ids: &'s std::sync::atomic::AtomicU8,
}

impl Caller<'_> {
    fn live(stage: &Stage, number: usize, script: &[Step], seed: u64, ids: &std::sync::atomic::AtomicU8) {
        let random = Random::new(seed ^ (number as u64 + 1) << 32);
        let mut caller = Caller { stage, number, nodes: Vec::new(), held: Vec::new(), random, ids };
        for file in 0..stage.files {
            match hold(&*stage.system, file, false) {
                Ok(node) => caller.nodes.push(node),
                Err(error) => {
                    caller.expect(&error, "lookup");
                    return;
                }
            }
        }
        for step in script {
            caller.step(step);
        }
        for node in std::mem::take(&mut caller.nodes) {
            stage.system.forget(node, 1);
        }
        stage.history().held.append(&mut caller.held);
    }

    /// Whether an error is one that a sound volume may answer.
    fn expect(&self, error: &Error, what: &str) {
        let due = match error {
            Error::NoSpace | Error::Unsupported { .. } => true,
            Error::ReadOnly(why) => why.contains("unmounted") || self.stage.fails,
            Error::Device(_) => self.stage.fails,
            // A check that fails half-way leaves a stream as it was.
            _ => false,
        };
        if !due {
            self.stage.fault(format!("caller {}: {what}: {error}", self.number));
        }
    }

    /// Makes a call and notes it, unless it was refused before it could do anything.
    fn call(
        &self,
        file: usize,
        what: &str,
        planned: bool,
        call: impl FnOnce() -> (Action, Result<(), Error>),
    ) {
        let began = self.stage.moment();
        let (action, outcome) = call();
        let returned = self.stage.moment();
        if let Err(error) = &outcome {
            self.expect(error, what);
        }
        let failed = outcome.is_err();
        if failed && matches!(action, Action::Read(..) | Action::Size(_)) {
            return;
        }
        self.stage.note(Call { caller: self.number, file, action, began, returned, failed, planned });
    }

    fn id(&self) -> u8 {
        self.ids.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }

    fn step(&mut self, step: &Step) {
        let system = &*self.stage.system;
        let node = |file: &usize| self.nodes[*file];
        match step {
            Step::Write(file, range) => {
                let id = self.id();
                let data = vec![id; (range.end - range.start) as usize];
                self.call(*file, "write", false, || {
                    (Action::Write(range.clone(), id), system.write(node(file), range.start, &data))
                });
            }
            Step::Read(file, range) => {
                let mut seen = vec![0xEE; (range.end - range.start) as usize];
                self.call(*file, "read", false, || {
                    let read = system.read(node(file), range.start, &mut seen);
                    seen.truncate(*read.as_ref().unwrap_or(&0));
                    (Action::Read(range.start, range.end - range.start, seen), read.map(drop))
                });
            }
            Step::Planned(file, parts) => self.planned(*file, parts),
            Step::Size(file) => self.call(*file, "attributes", false, || {
                let size = system.attributes(node(file)).map(|attributes| attributes.size);
                (Action::Size(*size.as_ref().unwrap_or(&0)), size.map(drop))
            }),
            Step::Resize(file, size) => self.call(*file, "resize", false, || {
                let change = Change { size: Some(*size), ..Change::default() };
                (Action::Resize(*size), system.set_attributes(node(file), &change).map(drop))
            }),
            Step::Punch(file, range) => self.call(*file, "punch", false, || {
                (Action::Punch(range.clone()), system.punch(node(file), range.clone()))
            }),
            Step::Allocate(file, range) => self.call(*file, "allocate", false, || {
                // What is refused before anything is done has not made the file longer.
                let outcome = system.allocate(node(file), range.clone(), false);
                let end = if matches!(outcome, Err(Error::Unsupported { .. })) { 0 } else { range.end };
                (Action::Extend(end), outcome)
            }),
            Step::Integrity(file, enabled) => {
                let integrity = Integrity { enabled: *enabled, enforced: true };
                if let Err(error) = system.set_integrity(node(file), integrity) {
                    self.expect(&error, "set integrity");
                }
            }
            Step::Snapshot(file) => {
                let name = Name::from(format!("snapshot {}", self.number).as_str());
                let outcome = match system.create_snapshot(node(file), &name) {
                    Err(Error::Exists) => system.remove_snapshot(node(file), &name),
                    outcome => outcome,
                };
                if let Err(error) = outcome {
                    self.expect(&error, "snapshot");
                }
            }
            Step::Reopen(file) => {
                system.forget(node(file), 1);
                match hold(system, *file, false) {
                    Ok(node) => self.nodes[*file] = node,
                    Err(error) => {
                        self.expect(&error, "lookup");
                        // Without a hold on it nothing more can be asked of it.
                        self.nodes[*file] = self.hold_again(*file);
                    }
                }
            }
            Step::Name(number) => self.name(*number),
            Step::Clone(from, range) => {
                let to = 1 - from;
                self.call(to, "clone", false, || {
                    let length = range.end - range.start;
                    let outcome = system.clone_range(node(from), range.start, node(&to), range.start, length);
                    // A range past the end is refused.
                    let refused = matches!(outcome, Err(Error::InvalidArgument(_)));
                    let action =
                        if refused { Action::Extend(0) } else { Action::Clone(range.clone(), *from) };
                    (action, if refused { Ok(()) } else { outcome })
                });
            }
            Step::Shared(step, from, to) => self.shared_name(*step, *from, *to),
            Step::List => self.list(),
            Step::Sync(file, scope) => {
                let began = self.stage.moment();
                let outcome = system.sync(node(file), SyncScope::from(*scope));
                self.synced(Some(*file), began, outcome);
            }
            Step::SyncAll => {
                let began = self.stage.moment();
                let outcome = system.sync_all();
                self.synced(None, began, outcome);
            }
            Step::Unmount => {
                let began = self.stage.moment();
                let outcome = system.unmount();
                self.synced(None, began, outcome);
            }
        }
    }

    fn hold_again(&self, file: usize) -> Node {
        loop {
            // A read that failed once succeeds now.
            if let Ok(node) = hold(&*self.stage.system, file, false) {
                return node;
            }
            point();
        }
    }

    fn synced(&self, file: Option<usize>, began: Moment, outcome: Result<(), Error>) {
        let returned = self.stage.moment();
        match outcome {
            Ok(()) => self.stage.history().syncs.push(Sync { file, began, returned }),
            Err(error) => self.expect(&error, "sync"),
        }
    }

    /// Asks for something of the names that all share, and notes what came of it.
    fn shared_name(&mut self, step: NameStep, from: usize, to: usize) {
        let system = &*self.stage.system;
        let name = |number: usize| Name::from(format!("name {number}").as_str());
        let began = self.stage.moment();
        let refusal = |error: Error| match error {
            Error::NotFound => Refusal::NotFound,
            Error::Exists => Refusal::Exists,
            error => {
                self.expect(&error, "a shared name");
                Refusal::Failed
            }
        };
        let mut held = None;
        let mut file = |found: Result<Node, Error>| {
            held = found.as_ref().ok().copied();
            found.map(|node| node.0).map_err(refusal)
        };
        let rename =
            |flags| system.rename(Node::ROOT, &name(from), Node::ROOT, &name(to), flags).map_err(refusal);
        let action = match step {
            NameStep::Create => {
                NameAction::Create(from, file(system.create(Node::ROOT, &name(from), Kind::File)))
            }
            NameStep::Lookup => NameAction::Lookup(from, file(system.lookup(Node::ROOT, &name(from)))),
            NameStep::Unlink => {
                NameAction::Unlink(from, system.unlink(Node::ROOT, &name(from)).map_err(refusal))
            }
            NameStep::Replace => {
                NameAction::Rename { from, to, replace: true, answer: rename(RenameFlags::Replace) }
            }
            NameStep::Move => {
                NameAction::Rename { from, to, replace: false, answer: rename(RenameFlags::NoReplace) }
            }
        };
        let returned = self.stage.moment();
        // Held to the end, so that no other file gets its number.
        self.held.extend(held);
        self.stage.history().names.push(NameCall { caller: self.number, action, began, returned });
    }

    /// Lists the directory in two parts: what is there all the while is listed, and nothing twice.
    fn list(&self) {
        let system = &*self.stage.system;
        let mut entries = Vec::new();
        loop {
            let (before, cursor) =
                (entries.len(), entries.last().map_or(Cursor::START, |last: &Entry| last.next));
            match system.read_directory(Node::ROOT, cursor, 3, &mut entries) {
                Ok(()) if entries.len() == before => break,
                Ok(()) => {}
                Err(error) => return self.expect(&error, "a listing"),
            }
        }
        for file in 0..STREAM {
            let times = entries.iter().filter(|entry| entry.name == shared(file)).count();
            if times != 1 {
                self.stage.fault(format!(
                    "caller {}: a listing shows shared file {file} {times} times",
                    self.number
                ));
            }
        }
    }

    /// Makes, fills, renames and removes an entry that nobody else knows.
    fn name(&self, number: u64) {
        let system = &*self.stage.system;
        let [one, other] =
            ["", " again"].map(|end| Name::from(format!("of caller {}{end}", self.number).as_str()));
        let outcome = (|| {
            let node = match system.create(Node::ROOT, &one, Kind::File) {
                Err(Error::Exists) => system.lookup(Node::ROOT, &one)?,
                node => node?,
            };
            let written = system.write(node, number % 3000, &[0xFF; 700]);
            system.forget(node, 1);
            written?;
            match number % 3 {
                0 => system.rename(Node::ROOT, &one, Node::ROOT, &other, RenameFlags::Replace),
                1 => system.unlink(Node::ROOT, &one),
                _ => Ok(()),
            }
        })();
        if let Err(error) = outcome {
            self.expect(&error, "an entry of its own");
        }
    }

    /// Keeps transfers in flight together and finishes them as they complete.
    fn planned(&mut self, file: usize, parts: &[(bool, Range<u64>)]) {
        let (stage, node) = (self.stage, self.nodes[file]);
        let system = &*stage.system;
        let mut queue = match system.queue(parts.len()) {
            Ok(queue) => queue,
            Err(error) => return self.expect(&error, "queue"),
        };
        let mut flights: Vec<Option<Flight>> = Vec::new();
        for (write, range) in parts {
            let length = (range.end - range.start) as usize;
            let id = if *write { self.id() } else { 0 };
            let mut buffer = Buffer::new(length);
            buffer.fill(if *write { id } else { 0xEE });
            let began = stage.moment();
            let mut plan = Plan::default();
            let planned = loop {
                let planned = match write {
                    true => system.plan_write(node, range.start, &buffer, &mut plan),
                    false => system.plan_read(node, range.start, length, &mut plan),
                };
                match planned {
                    Err(Error::Busy) if queue.in_flight() > 0 => self.collect(&mut *queue, &mut flights, 1),
                    Err(Error::Busy) => system.wait_until_free(node),
                    planned => break planned,
                }
            };
            if let Err(error) = planned {
                self.expect(&error, "plan");
                continue;
            }
            if *write && plan.work_beside && self.random.chance(50) {
                system.work_beside(&mut plan, 0, &buffer);
            }
            let kind = if *write { RequestKind::Write } else { RequestKind::Read };
            let segments = std::mem::take(&mut plan.segments);
            let flight = Flight { file, write: *write, range: range.clone(), id, began, plan };
            let tag = flights.len() as u64;
            flights.push(Some(flight));
            queue.submit(Request { tag, kind, durable: false, segments, buffer });
        }
        while queue.in_flight() > 0 {
            self.collect(&mut *queue, &mut flights, 1);
        }
    }

    fn collect(&self, queue: &mut dyn Queue, flights: &mut [Option<Flight>], least: usize) {
        let mut done = Vec::new();
        if let Err(error) = queue.wait(least, &mut done) {
            self.stage.fault(format!("the queue: {error}"));
        }
        for completion in done {
            let flight = flights[completion.tag as usize].take().expect("each completes once");
            self.finish(flight, completion);
        }
    }

    fn finish(&self, flight: Flight, completion: Completion) {
        let system = &*self.stage.system;
        let Flight { file, write, range, id, began, mut plan } = flight;
        let Completion { result, segments, mut buffer, .. } = completion;
        plan.segments = segments;
        let (action, outcome) = if write {
            (Action::Write(range, id), system.finish_write(&mut plan, &buffer, result).map(drop))
        } else {
            let asked = range.end - range.start;
            let read = system.finish_read(&mut plan, &mut buffer, result);
            let seen = buffer[..*read.as_ref().unwrap_or(&0)].to_vec();
            (Action::Read(range.start, asked, seen), read.map(drop))
        };
        let returned = self.stage.moment();
        if let Err(error) = &outcome {
            self.expect(error, "finish");
        }
        let failed = outcome.is_err();
        if failed && !write {
            return;
        }
        self.stage.note(Call { caller: self.number, file, action, began, returned, failed, planned: write });
    }
}

/// A planned transfer on its way.
struct Flight {
    file: usize,
    write: bool,
    range: Range<u64>,
    id: u8,
    began: Moment,
    plan: Plan,
}

/// Runs so many schedules from a first seed, and panics with the seed of the first finding, shrunk.
///
/// # Panics
/// If there is a finding.
pub fn explore(setting: &Arc<Setting>, first: u64, count: u64) {
    for seed in first..first + count {
        if let Err(found) = run(setting, seed) {
            let small = shrink(setting, seed);
            panic!("{}: seed {seed}: {found}\n  the least that fails with this seed:{small}", setting.name);
        }
    }
}

/// Runs the schedule of one seed again.
///
/// # Panics
/// If it fails.
pub fn replay(setting: &Arc<Setting>, seed: u64) {
    explore(setting, seed, 1);
}

/// Takes steps away as long as the run fails with what is left.
fn shrink(setting: &Arc<Setting>, seed: u64) -> String {
    let sector = u64::from(setting.image.sectors().logical);
    let mut least = scripts(&mut Random::new(seed), sector, setting.abilities);
    let mut found = String::new();
    let mut tries = 0;
    loop {
        let before: usize = least.iter().map(Vec::len).sum();
        for caller in 0..least.len() {
            let mut at = 0;
            while at < least[caller].len() && tries < 400 {
                tries += 1;
                let mut fewer = least.clone();
                fewer[caller].remove(at);
                match run_scripts(setting, seed, Arc::new(fewer.clone())) {
                    Err(text) => (least, found) = (fewer, text),
                    Ok(()) => at += 1,
                }
            }
        }
        if least.iter().map(Vec::len).sum::<usize>() == before || tries >= 400 {
            break;
        }
    }
    let steps: String =
        least.iter().enumerate().map(|(caller, steps)| format!("\n    caller {caller}: {steps:?}")).collect();
    format!("{steps}\n  which gives: {found}")
}

const _: () = assert!(LONGEST > FIRST_SIZE);
