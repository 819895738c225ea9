//! Growth: on a small volume, nearly full and what is free of it in single clusters, everything that a file and a
//! directory have grows until it is refused, and shrinks again: names, links, streams, attributes, content in the record
//! and out of it, extents, holes, depth.
//!
//! What does not fit must be refused when it is asked for: a sync that has no room for what was taken before is a
//! failure, as is damage after an unmount, or anything that the reference has otherwise. So is more memory than a volume may
//! take, and work that grows with what there is.

use super::operation::{HANDLES, Operation, Text};
use super::random::Random;
use super::{Clock, Difference, Make, Runner, attempt_by, explain, named};
use platter_vfs::{Capabilities, Kind, RenameFlags, SyncScope};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Operations of a stream: more of them than a file has limits.
pub const RUN: usize = 5_000;

/// Places that hold what: the file that fills the volume, directories, files, streams.
const BALLAST: u16 = 1;
const DIRECTORIES: std::ops::Range<u16> = 2..8;
const FILES: std::ops::Range<u16> = 8..36;
const STREAMS: std::ops::Range<u16> = 36..HANDLES;

/// Pairs of clusters of which one is given back, at the beginning.
const PAIRS: u64 = 150;

/// Bytes that files reach to.
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

    /// What the next operation is about: mostly a file, and in one case of ten a directory.
    fn owner(&mut self) -> u16 {
        if self.random.chance(10) { self.place(&DIRECTORIES) } else { self.few(&FILES) }
    }

    /// One of a few places more often than others, so that some grow to their limits.
    fn few(&mut self, of: &std::ops::Range<u16>) -> u16 {
        match self.random.chance(70) {
            true => of.start + self.random.below(4) as u16,
            false => self.place(of),
        }
    }

    /// A name that is new; a quarter of them are as long as names are.
    fn name(&mut self) -> Text {
        self.names += 1;
        let length = match self.random.below(4) {
            0 => 240,
            1 => self.random.below(240) as usize,
            _ => 0,
        };
        named(&format!("{}{}", self.names, "n".repeat(length)))
    }

    /// A name of one of so many.
    fn one_of(&mut self, count: u64) -> String {
        let number = self.random.below(count);
        format!("{number}{}", "s".repeat((number % 5 * 40) as usize))
    }

    /// Content that is taken as a whole or not at all: in one cluster, or whole ones.
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

    /// Takes all but so many bytes that are free, and breaks some of what is left into single clusters.
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
        // In pieces: where free space is nearly gone some are refused.
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
            // Mostly growing, and then some that shrinks.
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

/// What something takes of memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Bytes at once, at most.
    pub most: u64,
    /// Bytes that are left of them when it is over.
    pub left: i64,
    /// Bytes altogether.
    pub total: u64,
}

/// Carries something out, and says what that takes of memory.
pub type Scale = fn(&mut dyn FnMut()) -> Memory;

/// A [`Scale`] of the crate `allocation_counter`, which a test binary must have itself, as it replaces the allocator.
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

/// Transfers that an operation may cost which is refused for want of space, on average: those of a small commit.
const MOST_OF_A_REFUSAL: u64 = 100;

/// So many refusals more are paid for: the first of a stream commit what had waited for that anyway.
const PAID: u64 = 10;

/// Bytes of memory that a volume may take.
const MOST_MEMORY: u64 = 256 << 20;

/// What the operations of a half of a stream cost together.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    transfers: u64,
    bytes: u64,
    allocated: u64,
}

/// Watches what a stream costs.
struct Watch {
    scale: Scale,
    count: usize,
    done: usize,
    /// Bytes that are held.
    held: i64,
    most: u64,
    halves: [Work; 2],
    /// Operations that were refused for want of space, and what they cost.
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
        // While a vector of the reference moves to one twice as large, both are held.
        if now > MOST_MEMORY + stored * 2 {
            return Err(format!(
                "{operation:?}: {now} bytes of memory, {stored} of them of device and reference"
            ));
        }
        // Whoever compares everything, or opens the volume again, looks at all there is.
        if !matches!(operation, Operation::Compare | Operation::Remount) {
            let after = runner.spent();
            // Before a volume refuses something it may commit, to bring what was given up: that is told apart, or a stream
            // that fills the volume in its second half would seem to cost ever more.
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
        // A short one says little of how its costs grow.
        if self.done == self.count && self.count >= RUN { self.compare() } else { Ok(()) }
    }

    /// The second half of a stream costs about as much as the first. If what an operation costs grew as what there is,
    /// it would cost three times as much.
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

/// Lets everything grow, in so many operations, on a volume of which so many bytes are left free at first. What it takes is
/// weighed by `scale`; of a stream that fails a smaller one is looked for with so many attempts.
///
/// # Panics
/// If the volume and the reference differ, something that was taken cannot be stored, the volume is damaged, or it costs
/// more than it may: with the smallest stream found that shows it.
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
    /// Its seed.
    pub seed: u64,
    /// Operations.
    pub count: usize,
    /// How often a smaller stream is looked for if it fails. Each time may take a second.
    pub attempts: usize,
}

/// The slice of the campaign that every run of the tests has: so many operations on each of these volumes.
pub fn grow_all<V: Copy>(volumes: &[V], count: usize, run: impl Fn(V, Part)) {
    let seed = super::seed();
    for (number, &volume) in volumes.iter().enumerate() {
        run(volume, Part { seed: seed + number as u64, count, attempts: 250 });
    }
}

/// The campaign: 200,000 operations on each of these volumes, in streams of 5,000. `PLATTER_PART=i/n` carries out the
/// streams i, i + n, i + 2n and so on. What fails is told with how to carry that stream out alone, which also looks for a
/// smaller one, and the others go on.
///
/// # Panics
/// If any failed, or `PLATTER_PART` is no such thing.
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
