//! A crowd: real threads on one volume, each of which remembers what it wrote and checks that it is there, for as long
//! as is asked.
//!
//! In [`simulation`](crate::simulation) a seed decides what every thread does next, so a run can be repeated. Here the
//! operating system decides, at full speed and on a real device: this finds errors that need real memory, processors
//! and queues.

mod own;
mod shared;
mod slots;
mod watch;

use crate::model::Random;
use own::OwnFiles;
use platter_device::Device;
use platter_vfs::{CheckOptions, Error, FileSystem, Format, Kind, Name, Node, OpenOptions, Severity, Silent};
use shared::SharedFiles;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use watch::Watched;

/// The number of files that all threads write to, each in a range of its own.
const SHARED: usize = 4;
/// The number of directories in which all threads create their files.
const DIRECTORIES: usize = 4;

/// The parameters of a crowd.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// The number of threads.
    pub threads: u32,
    /// The total time of all rounds, without the checks.
    pub lasts: Duration,
    /// The time of a round, after which all threads stop, the volume is unmounted, checked and opened again, and
    /// everything is read.
    pub round: Duration,
    /// Whether the integrity of files is turned on and off meanwhile.
    pub toggles: bool,
    /// The seed that decides what threads do, but not when.
    pub seed: u64,
}

/// The volume with the directories and files that all threads share.
#[derive(Clone, Copy)]
struct SharedVolume<'s> {
    system: &'s dyn FileSystem,
    directories: [Node; DIRECTORIES],
    shared: [Node; SHARED],
    toggles: bool,
}

/// The state of one thread, with the content that it must find.
struct Member {
    number: u32,
    random: Random,
    /// The number of the thread's last write.
    sequence: u32,
    shared: SharedFiles,
    own: OwnFiles,
}

impl Member {
    fn new(number: u32, crowd: &Crowd) -> Member {
        Member {
            number,
            random: Random::new(crowd.seed << 8 | u64::from(number)),
            sequence: 0,
            shared: SharedFiles::new(number),
            own: OwnFiles::new(number),
        }
    }

    fn next_write(&mut self) -> (u32, u32) {
        self.sequence += 1;
        (self.number, self.sequence)
    }

    /// Does random operations until `over`, then reads everything and gives back its nodes.
    fn live(&mut self, place: SharedVolume<'_>, over: &AtomicBool, watched: &Watched) -> Result<(), String> {
        while !over.load(Ordering::Relaxed) {
            match self.random.chance(50) {
                true => self.on_shared(place, watched)?,
                false => self.on_own(place, watched)?,
            }
            watched.did_one();
        }
        self.read_everything(place)?;
        self.own.let_go(place);
        Ok(())
    }

    fn read_everything(&mut self, place: SharedVolume<'_>) -> Result<(), String> {
        self.shared.read_all(place)?;
        self.own.read_all(place)
    }
}

fn told<T>(what: &str, outcome: platter_vfs::Result<T>) -> Result<T, String> {
    outcome.map_err(|error| format!("{what}: {error}"))
}

/// The outcome of an operation that a format may not support: whether it is supported.
fn optional(what: &str, outcome: platter_vfs::Result<()>) -> Result<bool, String> {
    match outcome {
        Err(Error::Unsupported { .. }) => Ok(false),
        outcome => told(what, outcome).map(|()| true),
    }
}

/// Runs a crowd on the volume on the device, which is opened in each round. Returns the number of operations done.
///
/// # Errors
/// The first deviation: wrong content, an error, or damage.
///
/// # Panics
/// Aborts the process if a thread makes no progress for two minutes, after printing what each thread was doing.
pub fn gather(crowd: &Crowd, format: &dyn Format, device: &Arc<dyn Device>) -> Result<u64, String> {
    let mut members: Vec<Member> = (0..crowd.threads).map(|number| Member::new(number, crowd)).collect();
    let system = told("open", format.open(device.clone(), OpenOptions::default()))?;
    set_up(&*system, crowd)?;
    told("unmount", system.unmount())?;
    drop(system);
    let (mut left, mut done) = (crowd.lasts, 0);
    while !left.is_zero() {
        let round = left.min(crowd.round);
        done += one_round(crowd, format, device, round, &mut members)?;
        left -= round;
        check(format, &**device)?;
        eprintln!("    {done} operations, clean; {} s to go", left.as_secs());
    }
    Ok(done)
}

/// Creates the directories and files that the threads share.
fn set_up(system: &dyn FileSystem, crowd: &Crowd) -> Result<(), String> {
    for number in 0..DIRECTORIES {
        let name = Name::from(&*format!("directory {number}"));
        let node = told("create a directory", system.create(Node::ROOT, &name, Kind::Directory))?;
        system.forget(node, 1);
    }
    for number in 0..SHARED {
        let name = Name::from(&*format!("shared {number}"));
        let node = told("create a shared file", system.create(Node::ROOT, &name, Kind::File))?;
        let size = Some(shared::size(crowd.threads));
        told(
            "size of a shared file",
            system.set_attributes(node, &platter_vfs::Change { size, ..Default::default() }),
        )?;
        system.forget(node, 1);
    }
    Ok(())
}

fn find<const N: usize>(system: &dyn FileSystem, what: &str) -> Result<[Node; N], String> {
    let mut nodes = [Node::ROOT; N];
    for (number, node) in nodes.iter_mut().enumerate() {
        *node = told("lookup", system.lookup(Node::ROOT, &Name::from(&*format!("{what} {number}"))))?;
    }
    Ok(nodes)
}

fn one_round(
    crowd: &Crowd,
    format: &dyn Format,
    device: &Arc<dyn Device>,
    lasts: Duration,
    members: &mut [Member],
) -> Result<u64, String> {
    let system = told("open", format.open(device.clone(), OpenOptions::default()))?;
    let place = SharedVolume {
        system: &*system,
        directories: find(&*system, "directory")?,
        shared: find(&*system, "shared")?,
        toggles: crowd.toggles,
    };
    for member in members.iter_mut() {
        member.own.find(place)?;
        member.read_everything(place).map_err(|wrong| format!("after opening: {wrong}"))?;
    }
    let (over, ended) = (AtomicBool::new(false), AtomicU64::new(0));
    let watched: Vec<Watched> = members.iter().map(|_| Watched::default()).collect();
    let began = Instant::now();
    let outcomes: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = members
            .iter_mut()
            .zip(&watched)
            .map(|(member, watched)| {
                let (over, ended) = (&over, &ended);
                scope.spawn(move || {
                    let number = member.number;
                    let outcome = member.live(place, over, watched);
                    // A thread that fails ends the round for all.
                    over.fetch_or(outcome.is_err(), Ordering::Relaxed);
                    ended.fetch_add(1, Ordering::Relaxed);
                    outcome.map_err(|wrong| format!("thread {number}: {wrong}"))
                })
            })
            .collect();
        let syncing = scope.spawn(|| sync_all(place, &ended, u64::from(crowd.threads)));
        watch::until(&watched, &ended, || {
            over.fetch_or(began.elapsed() >= lasts, Ordering::Relaxed);
        });
        let mut outcomes: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into())))
            .collect();
        outcomes.push(syncing.join().unwrap_or_else(|_| Err("syncing panicked".into())));
        outcomes
    });
    outcomes.into_iter().collect::<Result<Vec<()>, String>>()?;
    for node in place.directories.into_iter().chain(place.shared) {
        system.forget(node, 1);
    }
    told("unmount", system.unmount())?;
    Ok(watched.iter().map(Watched::done).sum())
}

/// Syncs the whole volume again and again until all other threads have ended.
fn sync_all(place: SharedVolume<'_>, ended: &AtomicU64, threads: u64) -> Result<(), String> {
    while ended.load(Ordering::Relaxed) < threads {
        told("sync of everything", place.system.sync_all())?;
        let space = told("space", place.system.space())?;
        if space.free > space.total {
            return Err(format!("{} clusters are free of {}", space.free, space.total));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn check(format: &dyn Format, device: &dyn Device) -> Result<(), String> {
    let report = told("check", format.check(device, CheckOptions::default(), &Silent))?;
    match report.findings.iter().find(|finding| finding.severity > Severity::Notice) {
        Some(finding) => Err(format!("{} findings, the first: {finding}", report.found)),
        None => Ok(()),
    }
}
