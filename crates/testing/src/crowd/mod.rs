//! A crowd: real threads on one volume, each of which knows what it wrote and finds it there, for as long as is asked.
//!
//! Where [`simulation`](crate::simulation) decides what every thread does next and so can repeat it, here the machine
//! decides, at full speed and on a real device: this finds what only real memory, processors and queues do.

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

/// Files that all threads write to, each in ranges of its own.
const SHARED: usize = 4;
/// Directories that all threads make their files in.
const DIRECTORIES: usize = 4;

/// A crowd, and what it does.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// Threads.
    pub threads: u32,
    /// How long all of it lasts, checks not counted.
    pub lasts: Duration,
    /// After so long all stop, the volume is unmounted, checked and opened again, and everything is read.
    pub round: Duration,
    /// Whether files' integrity is turned on and off meanwhile.
    pub toggles: bool,
    /// What threads do depends on it; when they do it does not.
    pub seed: u64,
}

/// What all threads share.
#[derive(Clone, Copy)]
struct SharedVolume<'s> {
    system: &'s dyn FileSystem,
    directories: [Node; DIRECTORIES],
    shared: [Node; SHARED],
    toggles: bool,
}

/// One thread: what it must find.
struct Member {
    number: u32,
    random: Random,
    /// The number of its last write.
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

    /// Lives until `over`, and then lets go of what it has open.
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

/// Something that a format may not have.
fn optional(what: &str, outcome: platter_vfs::Result<()>) -> Result<bool, String> {
    match outcome {
        Err(Error::Unsupported { .. }) => Ok(false),
        outcome => told(what, outcome).map(|()| true),
    }
}

/// Lets a crowd loose on a volume that is made on the device. Returns how much it did.
///
/// # Errors
/// The first thing that is not as it must be: wrong content, an error, damage.
///
/// # Panics
/// Aborts the process if a thread does not get on for two minutes, and says what each was doing.
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

/// Makes what the threads share.
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
                    // One that fails ends it for all.
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

/// Syncs everything again and again until all the others have ended.
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
