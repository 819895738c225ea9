//! The generator of the callers' steps, with probabilities that differ from schedule to schedule.
//!
//! Callers that do a little of everything everywhere rarely conflict. So each seed leaves out some kinds of steps and
//! prefers others, and chooses where transfers lie, how they are aligned, how long they are in flight, and how long a
//! file is held: then some schedules consist of just the steps that conflict. Some typical uses need more than two or
//! three kinds of steps at once, which the random choice rarely isolates: those are fixed scenes ([`CONTENT`],
//! [`CONVERSION`]).
//!
//! Source: Groce et al., "Swarm Testing", ISSTA 2012.

use super::names::NAMES;
use super::script::{Abilities, FIRST_SIZE, LONGEST, NameStep, Scope, Step};
use crate::model::Random;
use std::ops::Range;

/// Returns the steps of each caller, on a volume with this sector and cluster size, in bytes.
pub(super) fn scripts(
    random: &mut Random,
    sector: u64,
    cluster: u64,
    abilities: Abilities,
) -> Vec<Vec<Step>> {
    let most = if random.chance(20) { 8 } else { 4 };
    let callers = 2 + random.below(most - 1);
    let steps = 24 / callers;
    let habits = Habits::new(random, sector, cluster, abilities);
    let mut scripts: Vec<Vec<Step>> = (0..callers)
        .map(|_| {
            let count = 1 + random.below(steps + 1);
            habits.steps(random, count)
        })
        .collect();
    if let Some(file) = habits.converted {
        // One caller turns the integrity of `file` on and off and does nothing else. The other file has integrity, so
        // that writes to it take new clusters.
        let turns = (0..3 + random.below(5)).map(|turn| Step::Integrity(file, turn % 2 == 0));
        scripts[0] = std::iter::once(Step::Integrity(1 - file, true)).chain(turns).collect();
    }
    if random.chance(15) {
        insert(random, &mut scripts, [Step::Unmount]);
    }
    // At most once, because it takes long.
    if abilities.crowd > 0 && random.chance(50) {
        let held = random.chance(70);
        // The sync has to make all of these writes durable at once.
        let sync = random.chance(70).then_some(Step::SyncAll);
        insert(random, &mut scripts, [Step::Crowd(held)].into_iter().chain(sync));
    }
    scripts
}

/// Inserts consecutive steps at a random place.
fn insert(random: &mut Random, scripts: &mut [Vec<Step>], steps: impl IntoIterator<Item = Step>) {
    let caller = random.below(scripts.len() as u64) as usize;
    let at = random.below(scripts[caller].len() as u64 + 1) as usize;
    scripts[caller].splice(at..at, steps);
}

/// The kinds of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Write,
    Read,
    Planned,
    Size,
    Resize,
    Punch,
    Allocate,
    Integrity,
    Snapshot,
    Clone,
    Release,
    Own,
    Shared,
    List,
    SyncAll,
    Rest,
    Look,
    Remove,
    Sync,
}

/// The relative frequency of each kind, in schedules that leave none out.
const USUAL: [(Kind, u64); 19] = [
    (Kind::Write, 220),
    (Kind::Read, 120),
    (Kind::Planned, 220),
    (Kind::Size, 40),
    (Kind::Resize, 80),
    (Kind::Punch, 40),
    (Kind::Allocate, 20),
    (Kind::Integrity, 80),
    (Kind::Snapshot, 10),
    (Kind::Clone, 10),
    (Kind::Release, 20),
    (Kind::Own, 20),
    (Kind::Shared, 60),
    (Kind::List, 10),
    (Kind::SyncAll, 20),
    (Kind::Rest, 20),
    (Kind::Look, 10),
    (Kind::Remove, 3),
    (Kind::Sync, 110),
];

/// The scene of a database: content is overwritten in place and synced again and again, and nothing else changes. A
/// sync then has little to record, for which formats have a short path.
const CONTENT: [(Kind, u64); 6] = [
    (Kind::Write, 200),
    (Kind::Planned, 300),
    (Kind::Read, 60),
    (Kind::Rest, 20),
    (Kind::SyncAll, 60),
    (Kind::Sync, 300),
];

/// The scene of a conversion: the integrity of a file is turned on and off while callers read and write it, and syncs
/// make the moves durable, so that another file gets the freed clusters.
const CONVERSION: [(Kind, u64); 5] =
    [(Kind::Planned, 400), (Kind::Write, 150), (Kind::Rest, 40), (Kind::SyncAll, 60), (Kind::Sync, 80)];

/// The choices of one seed.
struct Habits {
    abilities: Abilities,
    cluster: u64,
    kinds: Vec<(Kind, u64)>,
    /// Aligned transfers start and end at multiples of `unit` bytes, and start at one of `room` units.
    unit: u64,
    room: u64,
    /// The percentage of blocking transfers that are aligned too.
    aligned: u64,
    /// The file to which most steps go, and their percentage.
    favourite: Option<usize>,
    share: u64,
    /// The file whose integrity one caller turns on and off.
    converted: Option<usize>,
    /// The percentage of steps after which the file's node is forgotten.
    fleeting: u64,
    /// How often others may go on at most while planned transfers are in flight, and the percentage of these transfers
    /// that are reads.
    late: u64,
    reads: u64,
}

impl Habits {
    /// Makes the choices of a seed, on a volume with this sector and cluster size, in bytes.
    fn new(random: &mut Random, sector: u64, cluster: u64, abilities: Abilities) -> Habits {
        let mut kinds: Vec<(Kind, u64)> = USUAL
            .into_iter()
            .filter(|(kind, _)| match kind {
                Kind::Punch | Kind::Allocate => abilities.sparse,
                Kind::Integrity | Kind::Snapshot => abilities.integrity,
                Kind::Clone => abilities.clone,
                _ => true,
            })
            .collect();
        let scene: Option<&[_]> = match random.below(100) {
            0..20 => Some(&CONTENT),
            20..70 if abilities.integrity => Some(&CONVERSION),
            _ => None,
        };
        let converted = scene.filter(|scene| *scene == CONVERSION).map(|_| random.below(2) as usize);
        if let Some(scene) = scene {
            kinds = scene.to_vec();
        } else if random.chance(65) {
            kinds.retain_mut(|(kind, often)| {
                *often *= *random.pick(&[1, 1, 2, 5]);
                random.chance(if *kind == Kind::Integrity { 85 } else { 55 })
            });
            if !kinds.iter().any(|(kind, _)| matches!(kind, Kind::Write | Kind::Planned)) {
                kinds.push((Kind::Planned, 300));
            }
        }
        // In a conversion whole clusters are moved, and overwriting parts of them takes and frees clusters, so the unit
        // is a cluster there.
        let (unit, most) = match converted.is_none() && random.chance(40) {
            true => (sector, 16),
            false => (cluster, *random.pick(&[1, 2, 4])),
        };
        // In most schedules callers use few places, so that they conflict. Writes beyond the first size would extend
        // files, which scenes avoid.
        let longest = if scene.is_some() { FIRST_SIZE } else { LONGEST } / unit;
        let room = if random.chance(60) { longest.min(most) } else { longest };
        Habits {
            abilities,
            cluster,
            kinds,
            unit,
            room,
            aligned: *random.pick(&[25, 25, 90]),
            favourite: converted
                .or_else(|| random.chance(50).then(|| random.below(abilities.files() as u64) as usize)),
            share: if converted.is_some() { 60 } else { 80 },
            converted,
            fleeting: *random.pick(&[0, 0, 60]),
            late: *random.pick(if converted.is_some() { &[30, 100, 300] } else { &[0, 0, 20, 300] }),
            reads: *random.pick(&[35, 35, 70]),
        }
    }

    /// Returns `count` steps of one caller.
    fn steps(&self, random: &mut Random, count: u64) -> Vec<Step> {
        let mut steps = Vec::new();
        for _ in 0..count {
            let file = self.file(random);
            steps.push(self.step(random, file));
            if random.chance(self.fleeting) {
                steps.push(Step::Release(file));
            }
        }
        steps
    }

    fn file(&self, random: &mut Random) -> usize {
        match self.favourite {
            Some(file) if random.chance(self.share) => file,
            _ => random.below(self.abilities.files() as u64) as usize,
        }
    }

    fn kind(&self, random: &mut Random) -> Kind {
        let mut left = random.below(self.kinds.iter().map(|(_, often)| often).sum());
        for &(kind, often) in &self.kinds {
            match left.checked_sub(often) {
                None => return kind,
                Some(rest) => left = rest,
            }
        }
        Kind::Sync
    }

    fn step(&self, random: &mut Random, file: usize) -> Step {
        match self.kind(random) {
            Kind::Write => Step::Write(file, self.any_range(random)),
            Kind::Read => Step::Read(file, self.any_range(random)),
            Kind::Planned => {
                let count = 1 + random.below(3);
                let parts = (0..count).map(|_| (!random.chance(self.reads), self.units(random))).collect();
                Step::Planned(file, parts, random.chance(30), random.below(self.late + 1))
            }
            Kind::Size => Step::Size(file),
            Kind::Resize => {
                let Range { start, end } = self.any_range(random);
                Step::Resize(file, if random.chance(50) { start } else { end })
            }
            Kind::Punch => Step::Punch(file, self.any_range(random)),
            Kind::Allocate => Step::Allocate(file, self.any_range(random)),
            // A stream shares the integrity and the snapshots of its file.
            Kind::Integrity => Step::Integrity(file.min(1), random.chance(50)),
            Kind::Snapshot => Step::Snapshot(file.min(1)),
            Kind::Clone => {
                let start = random.below(FIRST_SIZE / self.cluster);
                let end = start + 1 + random.below(2);
                Step::Clone(random.below(2) as usize, start * self.cluster..end * self.cluster)
            }
            Kind::Release => Step::Release(file),
            Kind::Own => Step::Name(random.number()),
            Kind::Shared => self.shared(random),
            Kind::List => Step::List,
            Kind::SyncAll => Step::SyncAll,
            Kind::Rest => Step::Rest(10 + random.below(150)),
            Kind::Look => Step::Look,
            // The first file is never removed, because it has the stream and is cloned from.
            Kind::Remove => Step::Remove(1 + random.below(self.abilities.files() as u64 - 1) as usize),
            Kind::Sync => Step::Sync(file, if random.chance(50) { Scope::Data } else { Scope::All }),
        }
    }

    fn shared(&self, random: &mut Random) -> Step {
        let steps = [
            NameStep::Create,
            NameStep::Create,
            NameStep::Lookup,
            NameStep::Unlink,
            NameStep::Replace,
            NameStep::Move,
            if self.abilities.links { NameStep::Link } else { NameStep::Lookup },
        ];
        let (from, to) = (random.below(NAMES as u64) as usize, random.below(NAMES as u64) as usize);
        Step::Shared(*random.pick(&steps), from, to)
    }

    /// A random range of whole units.
    fn units(&self, random: &mut Random) -> Range<u64> {
        let start = random.below(self.room);
        let count = (1 + random.below(6)).min(self.room - start);
        start * self.unit..(start + count) * self.unit
    }

    fn any_range(&self, random: &mut Random) -> Range<u64> {
        let Range { start, end } = self.units(random);
        if random.chance(self.aligned) {
            return start..end;
        }
        let start = start + random.below(self.unit);
        start..(start + 1 + random.below(end.saturating_sub(start).max(1))).min(LONGEST)
    }
}
