//! What each caller of a simulation does.

use super::names::NAMES;
use platter_vfs::SyncScope;
use platter_vfs::model::Random;
use std::ops::Range;

/// How many files all callers share. The third is a named stream of the first, where the format has such.
pub const FILES: usize = 3;
/// No file becomes longer.
pub const LONGEST: u64 = 24 << 10;
/// Their size at first.
pub const FIRST_SIZE: u64 = 12 << 10;

/// What one caller asks for. Files are numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// One blocking write.
    Write(usize, Range<u64>),
    /// One blocking read.
    Read(usize, Range<u64>),
    /// Planned transfers of whole sectors, kept in flight together: `true` writes.
    Planned(usize, Vec<(bool, Range<u64>)>),
    /// A look at the size.
    Size(usize),
    /// Another size.
    Resize(usize, u64),
    /// A hole.
    Punch(usize, Range<u64>),
    /// Clusters ahead of the content; the size changes with them.
    Allocate(usize, Range<u64>),
    /// Checksums on or off.
    Integrity(usize, bool),
    /// Content kept under a name of the caller's own.
    Snapshot(usize),
    /// Shares the clusters of the other file, at the same place.
    Clone(usize, Range<u64>),
    /// An entry of a shared name: made, found, removed, moved to the second name.
    Shared(NameStep, usize, usize),
    /// All names in the directory.
    List,
    /// The caller gives its hold of the file back and takes it anew.
    Reopen(usize),
    /// A name that all share is taken away from its file, which those go on using who hold it.
    Remove(usize),
    /// An entry of the caller's own: made, written to, and renamed or removed.
    Name(u64),
    /// A little of each file of a crowd is written in place.
    Crowd,
    /// Nothing, for so long: what works in the background gets on.
    Rest(u64),
    /// A copy of the device as it is at this moment is checked and scrubbed.
    Look,
    /// What has been done to this file is to survive.
    Sync(usize, Scope),
    /// What has been done is to survive.
    SyncAll,
    /// The end of the volume. Every other call races with it or is refused.
    Unmount,
}

/// What is done with shared names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameStep {
    /// Makes a file.
    Create,
    /// Finds it.
    Lookup,
    /// Takes the name away.
    Unlink,
    /// Gives it another name, which may be in use.
    Replace,
    /// Gives it another name that is not in use.
    Move,
    /// Gives it one more name.
    Link,
}

/// [`SyncScope`], comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Content and size.
    Data,
    /// All.
    All,
}

impl From<Scope> for SyncScope {
    fn from(scope: Scope) -> SyncScope {
        match scope {
            Scope::Data => SyncScope::Data,
            Scope::All => SyncScope::All,
        }
    }
}

/// What a format lets callers do.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// Holes and clusters ahead of the content.
    pub sparse: bool,
    /// Checksums that can be turned on and off.
    pub integrity: bool,
    /// Named streams.
    pub streams: bool,
    /// Shared clusters, and the size of one.
    pub clone: Option<u64>,
    /// More than one name for a file.
    pub links: bool,
    /// Files besides those that all share, which are written all at once.
    pub crowd: usize,
}

impl Abilities {
    /// How many files all callers share.
    pub fn files(self) -> usize {
        if self.streams { FILES } else { FILES - 1 }
    }
}

/// The steps of each caller.
pub fn scripts(random: &mut Random, sector: u64, abilities: Abilities) -> Vec<Vec<Step>> {
    let most = if random.chance(20) { 8 } else { 4 };
    let callers = 2 + random.below(most - 1);
    let steps = 24 / callers;
    // Most callers meet in few places.
    let narrow = random.chance(60);
    let mut scripts: Vec<Vec<Step>> = (0..callers)
        .map(|_| (0..1 + random.below(steps + 1)).map(|_| step(random, sector, abilities, narrow)).collect())
        .collect();
    if random.chance(15) {
        let caller = random.below(callers) as usize;
        let at = random.below(scripts[caller].len() as u64 + 1) as usize;
        scripts[caller].insert(at, Step::Unmount);
    }
    // Once, because it takes long.
    if abilities.crowd > 0 && random.chance(50) {
        let caller = random.below(callers) as usize;
        let at = random.below(scripts[caller].len() as u64 + 1) as usize;
        scripts[caller].insert(at, Step::Crowd);
    }
    scripts
}

fn step(random: &mut Random, sector: u64, abilities: Abilities, narrow: bool) -> Step {
    let file = random.below(abilities.files() as u64) as usize;
    match random.below(106) {
        0..22 => Step::Write(file, any_range(random, sector, narrow)),
        22..34 => Step::Read(file, any_range(random, sector, narrow)),
        34..56 => {
            let count = 1 + random.below(3);
            let part = |random: &mut Random| (random.chance(65), whole_sectors(random, sector, narrow));
            Step::Planned(file, (0..count).map(|_| part(random)).collect())
        }
        56..60 => Step::Size(file),
        60..68 => Step::Resize(file, any_range(random, sector, narrow).start),
        68..72 if abilities.sparse => Step::Punch(file, any_range(random, sector, narrow)),
        72..74 if abilities.sparse => Step::Allocate(file, any_range(random, sector, narrow)),
        // A stream has the integrity and the snapshots of its file.
        74..78 if abilities.integrity => Step::Integrity(file.min(1), random.chance(50)),
        78 if abilities.integrity => Step::Snapshot(file.min(1)),
        79 => match abilities.clone {
            Some(cluster) => {
                let start = random.below(FIRST_SIZE / cluster);
                let end = start + 1 + random.below(2);
                Step::Clone(random.below(2) as usize, start * cluster..end * cluster)
            }
            None => Step::List,
        },
        80..82 => Step::Reopen(file),
        82..84 => Step::Name(random.number()),
        84..90 => {
            let steps = [
                NameStep::Create,
                NameStep::Create,
                NameStep::Lookup,
                NameStep::Unlink,
                NameStep::Replace,
                NameStep::Move,
                if abilities.links { NameStep::Link } else { NameStep::Lookup },
            ];
            let (from, to) = (random.below(NAMES as u64) as usize, random.below(NAMES as u64) as usize);
            Step::Shared(*random.pick(&steps), from, to)
        }
        90 => Step::List,
        91..93 => Step::SyncAll,
        100..102 => Step::Rest(10 + random.below(150)),
        102 => Step::Look,
        // The first file has a stream, and is cloned from.
        103 if random.chance(30) => Step::Remove(1 + random.below(abilities.files() as u64 - 1) as usize),
        _ => Step::Sync(file, if random.chance(50) { Scope::Data } else { Scope::All }),
    }
}

fn whole_sectors(random: &mut Random, sector: u64, narrow: bool) -> Range<u64> {
    let room = if narrow { 16 } else { LONGEST / sector };
    let start = random.below(room);
    let count = (1 + random.below(6)).min(room - start);
    start * sector..(start + count) * sector
}

fn any_range(random: &mut Random, sector: u64, narrow: bool) -> Range<u64> {
    let Range { start, end } = whole_sectors(random, sector, narrow);
    if random.chance(25) {
        return start..end;
    }
    let start = start + random.below(sector);
    start..(start + 1 + random.below(end.saturating_sub(start).max(1))).min(LONGEST)
}
