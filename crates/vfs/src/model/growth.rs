//! Growth: on a small volume, nearly full and what is free of it in single clusters, everything that a file and a
//! directory have grows until it is refused, and shrinks again: names, links, streams, attributes, content in the record
//! and out of it, extents, holes, depth.
//!
//! What does not fit must be refused when it is asked for: a sync that has no room for what was taken before is a
//! failure, as is damage after an unmount, or anything that the reference has otherwise.

use super::operation::{HANDLES, Operation, Text};
use super::random::Random;
use super::{Clock, Make, explain, named};
use crate::{Capabilities, Kind, RenameFlags, SyncScope};
use std::time::Duration;

/// Operations of a run: more of them than a file has limits.
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

    /// A file, sometimes a directory.
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

/// Lets everything grow, in so many operations, on a volume of which so many bytes are left free at first.
///
/// # Panics
/// If the volume and the reference differ, something that was taken cannot be stored, or the volume is damaged: with the
/// smallest stream found that shows it.
pub fn grow(seed: u64, count: usize, leave: u64, make: Make<'_>) {
    /// Tries to find a smaller stream: each may take a second.
    const ATTEMPTS: usize = 250;
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
    explain(seed, growth.operations, ATTEMPTS, make);
}

/// The campaign: 200,000 operations on each of these volumes, or the slice of it that every run of the tests has.
pub fn grow_all<V: Copy>(volumes: &[V], operations: usize, run: impl Fn(V, u64, usize)) {
    let seed = super::seed();
    for (number, &volume) in volumes.iter().enumerate() {
        for round in 0..operations.div_ceil(RUN) {
            run(volume, seed + (1000 * round + number) as u64, RUN.min(operations));
        }
    }
}
