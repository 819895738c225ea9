//! Growth: on a small volume that is nearly full, with its free space in single clusters, everything that a file and a
//! directory can have grows until it is refused, and shrinks again: names, links, streams, attributes, content inside
//! and outside the record, extents, holes, depth.
//!
//! An operation that does not fit must be refused at once. It is a failure if a sync has no room for accepted changes,
//! if an unmounted volume is damaged, or if anything differs from the reference. It is also a failure if the volume
//! takes more memory than it may, or if the cost of an operation grows with the amount of data.

use super::operation::{HANDLES, Operation, Text};
use super::random::Random;
use super::{Clock, Difference, Make, Runner, attempt_by, explain, named};
use platter_vfs::{Capabilities, Kind, RenameFlags, SyncScope};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// The number of operations of a stream: enough for a file to reach each of its limits.
pub const RUN: usize = 5_000;

/// The handles of the file that fills the volume (`BALLAST`), of directories, of files and of streams.
const BALLAST: u16 = 1;
const DIRECTORIES: std::ops::Range<u16> = 2..8;
const FILES: std::ops::Range<u16> = 8..36;
const STREAMS: std::ops::Range<u16> = 36..HANDLES;

/// The number of pairs of clusters of which one is freed at the beginning, to fragment the free space.
const PAIRS: u64 = 150;

/// The offset in bytes up to which files are written.
const REACH: u64 = 4 << 20;

struct Growth {
    random: Random,
    capabilities: Capabilities,
    cluster: u64,
    names: u64,
    made: Vec<(u16, Text)>,
    operations: Vec<Operation>,
}

impl Growth {
    fn place(&mut self, of: &std::ops::Range<u16>) -> u16 {
        of.start + self.random.below(u64::from(of.end - of.start)) as u16
    }

    fn directory(&mut self) -> u16 {
        if self.random.chance(20) { 0 } else { self.place(&DIRECTORIES) }
    }

    /// A handle for the next operation: mostly a file, and in one case of ten a directory.
    fn owner(&mut self) -> u16 {
        if self.random.chance(10) { self.place(&DIRECTORIES) } else { self.few(&FILES) }
    }

    /// A handle of the range, preferring the first four, so that some nodes grow to their limits.
    fn few(&mut self, of: &std::ops::Range<u16>) -> u16 {
        match self.random.chance(70) {
            true => of.start + self.random.below(4) as u16,
            false => self.place(of),
        }
    }

    /// A new name; a quarter of the names are as long as possible.
    fn name(&mut self) -> Text {
        self.names += 1;
        let length = match self.random.below(4) {
            0 => 240,
            1 => self.random.below(240) as usize,
            _ => 0,
        };
        named(&format!("{}{}", self.names, "n".repeat(length)))
    }

    /// One of `count` names.
    fn one_of(&mut self, count: u64) -> String {
        let number = self.random.below(count);
        format!("{number}{}", "s".repeat((number % 5 * 40) as usize))
    }

    /// A write that is accepted as a whole or not at all: inside one cluster, or of whole clusters.
    fn write(&mut self, node: u16, reach: u64) -> Operation {
        let seed = self.random.number() as u32;
        let cluster = self.cluster;
        let place = self.random.below((reach / cluster).max(1)) * cluster;
        let (offset, length) = match self.random.below(4) {
            0 => (0, 1 + self.random.below(cluster.min(3000))),
            1 => (self.random.below(cluster.min(2500)), 1),
            2 => (place, 1 + self.random.below(cluster)),
            _ => (place, cluster * (1 + self.random.below((REACH / 64 / cluster).clamp(1, 8)))),
        };
        Operation::Write { node, offset, length: length as usize, seed }
    }

    fn grown(&mut self) -> Operation {
        match self.random.below(100) {
            0..12 => self.created(Kind::File),
            12..14 => self.created(Kind::Directory),
            14..20 => {
                let (node, directory, name) = (self.few(&FILES), self.directory(), self.name());
                self.made.push((directory, name.clone()));
                match self.capabilities.hard_links {
                    true => Operation::Link { node, directory, name },
                    false => self.write(node, REACH),
                }
            }
            20..32 => {
                let (node, name, into) = (self.owner(), self.one_of(60), self.place(&STREAMS));
                match self.capabilities.streams {
                    true => Operation::Stream { node, name: named(&name), create: true, into },
                    false => self.created(Kind::File),
                }
            }
            32..44 => {
                let node = self.place(&STREAMS);
                match self.capabilities.streams {
                    true => self.write(node, REACH / 16),
                    false => self.created(Kind::File),
                }
            }
            44..56 => {
                let length = match self.random.below(4) {
                    0 => 0,
                    1 => self.random.below(9000),
                    _ => self.random.below(700),
                };
                let value = Some(self.random.bytes(length as usize));
                let (node, name) = (self.owner(), format!("user.{}", self.random.below(40)));
                match self.capabilities.extended_attributes {
                    true => Operation::SetExtended { node, name, value },
                    false => self.write(node, REACH),
                }
            }
            56..62 if self.capabilities.preallocate => {
                let (node, start) = (self.few(&FILES), self.random.below(REACH));
                let end = start + 1 + self.random.below(REACH / 8);
                let keep_size = self.random.chance(50);
                Operation::Allocate { node, start, end, keep_size }
            }
            62..66 if self.capabilities.symbolic_links => {
                let (directory, name, into) = (self.directory(), self.name(), self.place(&FILES));
                let target = "t".repeat(1 + self.random.below(1000) as usize);
                self.made.push((directory, name.clone()));
                Operation::SymbolicLink { directory, name, target, into }
            }
            _ => {
                let node = self.few(&FILES);
                self.write(node, REACH)
            }
        }
    }

    fn created(&mut self, kind: Kind) -> Operation {
        let (directory, name) = (self.directory(), self.name());
        let into = match kind {
            Kind::Directory => self.place(&DIRECTORIES),
            _ => self.place(&FILES),
        };
        self.made.push((directory, name.clone()));
        Operation::Create { directory, name, kind, into }
    }

    fn made_before(&mut self) -> Option<(u16, Text)> {
        let count = self.made.len() as u64;
        (count > 0).then(|| self.made.swap_remove(self.random.below(count) as usize))
    }

    fn shrunk(&mut self) -> Operation {
        let file = self.few(&FILES);
        match self.random.below(10) {
            0..3 => match self.made_before() {
                Some((directory, name)) => Operation::Unlink { directory, name },
                None => Operation::SyncAll,
            },
            3 => Operation::Resize { node: file, size: self.random.below(REACH) },
            4 => Operation::Resize { node: file, size: self.random.below(3000) },
            5 | 6 if self.capabilities.sparse => {
                let start = self.random.below(REACH) / self.cluster * self.cluster;
                Operation::Punch { node: file, start, end: start + self.cluster }
            }
            7 if self.capabilities.streams => {
                let (node, name) = (self.owner(), self.one_of(60));
                Operation::RemoveStream { node, name: named(&name) }
            }
            8 if self.capabilities.extended_attributes => {
                let (node, name) = (self.owner(), format!("user.{}", self.random.below(40)));
                Operation::SetExtended { node, name, value: None }
            }
            _ => match self.made_before() {
                Some((from, name)) => {
                    let (to, new_name) = (self.directory(), self.name());
                    self.made.push((to, new_name.clone()));
                    Operation::Rename { from, name, to, new_name, flags: RenameFlags::NoReplace }
                }
                None => Operation::SyncAll,
            },
        }
    }

    /// Fills the volume but for `leave` bytes, and fragments some of the free space into single clusters.
    fn begin(&mut self, free: u64, leave: u64) {
        let made = |name: &str, into| {
            let name = named(name);
            Operation::Create { directory: 0, name, kind: Kind::File, into }
        };
        self.operations.extend([made("even", FILES.start), made("odd", FILES.start + 1)]);
        for pair in 0..PAIRS {
            for node in [FILES.start, FILES.start + 1] {
                let (offset, length) = (pair * self.cluster, self.cluster as usize);
                if length < 1 << 16 {
                    self.operations.push(Operation::Write { node, offset, length, seed: pair as u32 });
                }
            }
        }
        self.operations.push(made("ballast", BALLAST));
        // In pieces, because some are refused when free space is nearly exhausted.
        let mut at = 0;
        let most = free.saturating_sub(leave);
        let piece = (most / 16).next_multiple_of(1 << 16).max(1 << 16);
        while at < most {
            let (node, length) = (BALLAST, piece.min(most - at));
            self.operations.push(match self.capabilities.preallocate {
                true => Operation::Allocate { node, start: at, end: at + length, keep_size: true },
                false => Operation::Write { node, offset: at, length: length as usize, seed: at as u32 },
            });
            at += piece;
        }
        self.operations.push(Operation::Unlink { directory: 0, name: named("odd") });
        self.operations.push(Operation::Forget { node: FILES.start + 1 });
        for into in DIRECTORIES {
            let name = named(&format!("directory {into}"));
            let directory = if into == DIRECTORIES.start { 0 } else { into - 1 };
            self.operations.push(Operation::Create { directory, name, kind: Kind::Directory, into });
        }
    }

    fn go_on(&mut self, count: usize) {
        for number in 0..count {
            // Three phases of growing are followed by one of shrinking.
            let is_shrinking = number / 400 % 4 == 3;
            let operation = match self.random.below(1000) {
                0..8 => Operation::SyncAll,
                8..14 => Operation::Sync { node: self.few(&FILES), scope: SyncScope::All },
                14..16 => Operation::Compare,
                16..18 => Operation::Remount,
                18..24 if self.capabilities.integrity => {
                    Operation::SetIntegrity { node: self.few(&FILES), enabled: self.random.chance(50) }
                }
                24..26 => Operation::Clear { directory: self.place(&DIRECTORIES) },
                _ if is_shrinking != self.random.chance(15) => self.shrunk(),
                _ => self.grown(),
            };
            self.operations.push(operation);
        }
    }
}

/// The memory that some work takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// The most bytes allocated at once.
    pub most: u64,
    /// The bytes still allocated at the end, less those at the beginning.
    pub left: i64,
    /// All bytes allocated, whether freed again or not.
    pub total: u64,
}

/// Runs a function and measures the memory that it takes.
pub type Scale = fn(&mut dyn FnMut()) -> Memory;

/// A [`Scale`] by the crate `allocation_counter`, on which the test binary itself must depend, because the crate
/// replaces the allocator.
#[macro_export]
macro_rules! scale {
    () => {
        |act| {
            let seen = ::allocation_counter::measure(act);
            let (most, left, total) = (seen.bytes_max, seen.bytes_current, seen.bytes_total);
            $crate::model::Memory { most, left, total }
        }
    };
}

/// The most transfers, on average, of an operation that is refused for want of space: those of a small commit.
const MOST_OF_A_REFUSAL: u64 = 100;

/// The allowance for the refusals of a stream, in refusals: the first ones commit changes that were waiting anyway.
const PAID: u64 = 10;

/// The most bytes of memory that a volume may take.
const MOST_MEMORY: u64 = 256 << 20;

/// The cost of all operations of one half of a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    transfers: u64,
    bytes: u64,
    allocated: u64,
}

/// Measures the cost of a stream.
struct Watch {
    scale: Scale,
    count: usize,
    done: usize,
    /// The bytes allocated at present.
    held: i64,
    most: u64,
    halves: [Work; 2],
    /// The number of operations refused for want of space, and their cost.
    refused: u64,
    refusals: Work,
}

impl Watch {
    fn step(&mut self, runner: &mut Runner, operation: &Operation) -> Result<(), Difference> {
        let (before, refused, mut outcome) = (runner.spent(), runner.refused_for_space(), Ok(()));
        let memory = (self.scale)(&mut || outcome = runner.step(operation));
        outcome?;
        let now = self.held.saturating_add_unsigned(memory.most).max(0) as u64;
        self.held += memory.left;
        let stored = runner.stored();
        self.most = self.most.max(now.saturating_sub(stored));
        // While a vector of the reference is reallocated to twice its size, both are allocated.
        if now > MOST_MEMORY + stored * 2 {
            return Err(format!(
                "{operation:?}: {now} bytes of memory, {stored} of them of device and reference"
            ));
        }
        // Comparing everything and opening the volume again cost more the more there is, so they are not counted.
        if !matches!(operation, Operation::Compare | Operation::Remount) {
            let after = runner.spent();
            // A volume may commit before it refuses an operation, to make freed clusters available. These costs are
            // counted separately: otherwise a stream that fills the volume in its second half would seem to become more
            // expensive.
            let is_refused = runner.refused_for_space() > refused;
            self.refused += u64::from(is_refused);
            let work = match is_refused {
                true => &mut self.refusals,
                false => &mut self.halves[2 * self.done / self.count.max(1)],
            };
            work.transfers += after.transfers - before.transfers;
            work.bytes += after.bytes - before.bytes;
            work.allocated += memory.total;
        }
        self.done += 1;
        // A short stream says little about how costs grow.
        if self.done == self.count && self.count >= RUN { self.compare() } else { Ok(()) }
    }

    /// Fails unless the second half of a stream costs about as much as the first. If the cost of an operation were
    /// proportional to the amount of data, the second half would cost three times as much.
    fn compare(&self) -> Result<(), Difference> {
        let [first, second] = self.halves;
        let (refused, refusals) = (self.refused, self.refusals);
        println!("    {first:?}, {second:?}, {refused} refused: {refusals:?}, {} bytes of memory", self.most);
        if refusals.transfers > (refused + PAID) * MOST_OF_A_REFUSAL {
            return Err(format!("{refused} operations that were refused cost {refusals:?}"));
        }
        let is_more = |second: u64, first: u64| second > first * 5 / 2;
        if is_more(second.transfers, first.transfers)
            || is_more(second.bytes, first.bytes)
            || is_more(second.allocated, first.allocated)
        {
            return Err(format!("the first half costs {first:?}, the second {second:?}"));
        }
        Ok(())
    }
}

/// Lets everything grow, in `count` operations, on a volume with `leave` bytes free at first. `scale` measures the
/// memory. If the stream fails, a smaller one that fails too is searched for in up to `attempts` runs.
///
/// # Panics
/// If the volume and the reference differ, an accepted change cannot be stored, the volume is damaged, or a cost is
/// above its limit: with the smallest failing stream that was found.
pub fn grow(seed: u64, count: usize, leave: u64, attempts: usize, scale: Scale, make: Make<'_>) {
    let clock = Clock::new(Duration::from_secs(1_700_000_000));
    let system = make(&clock).open().unwrap_or_else(|error| panic!("the volume does not open: {error}"));
    let space = system.space().unwrap_or_else(|error| panic!("space: {error}"));
    let mut growth = Growth {
        random: Random::new(seed),
        capabilities: system.capabilities().clone(),
        cluster: space.cluster,
        names: 0,
        made: Vec::new(),
        operations: Vec::new(),
    };
    drop(system);
    growth.begin(space.free * space.cluster, leave);
    growth.go_on(count);
    explain(seed, growth.operations, attempts, &|operations| {
        let count = operations.len();
        let mut watch = Watch {
            scale,
            count,
            done: 0,
            held: 0,
            most: 0,
            halves: Default::default(),
            refused: 0,
            refusals: Work::default(),
        };
        attempt_by(operations, make, &mut |runner, operation| watch.step(runner, operation))
    });
}

/// One stream of a campaign.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The seed of the stream.
    pub seed: u64,
    /// The number of operations.
    pub count: usize,
    /// The most runs in search of a smaller stream if this one fails. Each may take a second.
    pub attempts: usize,
}

/// The part of the campaign that is in every run of the tests: `count` operations on each of these volumes.
pub fn grow_all<V: Copy>(volumes: &[V], count: usize, run: impl Fn(V, Part)) {
    let seed = super::seed();
    for (number, &volume) in volumes.iter().enumerate() {
        run(volume, Part { seed: seed + number as u64, count, attempts: 250 });
    }
}

/// The campaign: 200,000 operations on each of these volumes, in streams of 5,000. `PLATTER_PART=i/n` runs only the
/// streams i, i + n, i + 2n and so on. For a stream that fails, the settings that run it alone, with a search for a
/// smaller one, are printed, and the others go on.
///
/// # Panics
/// If a stream failed, or `PLATTER_PART` is not of that form.
pub fn grow_long<V: Copy + std::fmt::Debug>(volumes: &[V], run: impl Fn(V, Part)) {
    const OPERATIONS: usize = 200_000;
    let seed = super::seed();
    let streams = volumes.len() * OPERATIONS / RUN;
    let part = std::env::var("PLATTER_PART").unwrap_or_else(|_| "0/1".into());
    let (first, step): (usize, usize) = part
        .split_once('/')
        .and_then(|(first, step)| Some((first.parse().ok()?, step.parse().ok().filter(|step| *step > 0)?)))
        .expect("PLATTER_PART is two numbers like 3/40");
    let mut failed = Vec::new();
    for stream in (first..streams).step_by(step) {
        let volume = volumes[stream % volumes.len()];
        let attempts = if step < streams { 0 } else { 250 };
        println!("PLATTER_SEED={seed} PLATTER_PART={stream}/{streams}: {volume:?}");
        let part = Part { seed: seed + stream as u64, count: RUN, attempts };
        if catch_unwind(AssertUnwindSafe(|| run(volume, part))).is_err() {
            failed.push(format!("PLATTER_SEED={seed} PLATTER_PART={stream}/{streams}: {volume:?}"));
        }
    }
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}
