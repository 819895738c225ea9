//! The operations that are applied to both file systems, and the generator of random streams of them.

use super::random::Random;
use platter_vfs::{Capabilities, Kind, Name, RenameFlags, SyncScope, Timestamp};
use std::collections::BTreeMap;
use std::fmt;

/// The number of nodes that a stream holds at a time.
pub(super) const HANDLES: u16 = 48;
/// The most planned reads and writes in flight at a time.
pub(super) const IN_FLIGHT: u16 = 6;
/// The most listings in progress at a time.
pub(super) const LISTINGS: u16 = 3;

/// A name whose `Debug` form is the code that makes it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(pub Name);

/// Makes a name of this text.
pub fn named(text: &str) -> Text {
    Text(Name::from(text))
}

/// Makes a name of these UTF-16 units.
pub fn units(units: &[u16]) -> Text {
    Text(Name::from_units(units))
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match String::from_utf16(self.0.units()) {
            Ok(text) => write!(f, "named({text:?})"),
            Err(_) => write!(f, "units(&{:?})", self.0.units()),
        }
    }
}

/// One operation. Numbers refer to *handles* (0 is the root), *flights* and *listings*: places that hold a node, a
/// planned transfer or a listing. An operation that refers to an empty place does nothing, so that any part of a stream
/// can be left out without changing the meaning of the others.
///
/// The `Debug` form is the code that makes the operation.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // The fields are the parameters of the calls of `FileSystem` that the variants are named after.
pub enum Operation {
    /// Creates an entry and puts its node into the handle `into`.
    Create {
        directory: u16,
        name: Text,
        kind: Kind,
        into: u16,
    },
    /// Looks a name up and puts its node into the handle `into`.
    Lookup {
        directory: u16,
        name: Text,
        into: u16,
    },
    /// Forgets a node and empties its handle.
    Forget {
        node: u16,
    },
    /// Writes pseudo-random bytes made from `seed`.
    Write {
        node: u16,
        offset: u64,
        length: usize,
        seed: u32,
    },
    Read {
        node: u16,
        offset: u64,
        length: usize,
    },
    Resize {
        node: u16,
        size: u64,
    },
    Rename {
        from: u16,
        name: Text,
        to: u16,
        new_name: Text,
        flags: RenameFlags,
    },
    Unlink {
        directory: u16,
        name: Text,
    },
    RemoveDirectory {
        directory: u16,
        name: Text,
    },
    /// Removes everything below a directory, deepest first.
    Clear {
        directory: u16,
    },
    SetTimes {
        node: u16,
        created: Option<Timestamp>,
        modified: Option<Timestamp>,
        accessed: Option<Timestamp>,
    },
    SetFlags {
        node: u16,
        flags: u32,
    },
    Parent {
        directory: u16,
    },
    SetLabel {
        label: String,
    },
    Sync {
        node: u16,
        scope: SyncScope,
    },
    SyncAll,
    /// Finishes the transfers in flight, unmounts, checks, opens again and finds the held nodes by their paths.
    Remount,
    PlanRead {
        flight: u16,
        node: u16,
        offset: u64,
        length: usize,
    },
    PlanWrite {
        flight: u16,
        node: u16,
        offset: u64,
        length: usize,
        seed: u32,
    },
    /// Carries out a planned transfer and finishes it, or finishes it as failed.
    Finish {
        flight: u16,
        fail: bool,
    },
    /// Compares a whole listing, fetched `most` entries at a time.
    List {
        directory: u16,
        most: usize,
    },
    /// Starts a listing that continues while the directory changes.
    ListStart {
        listing: u16,
        directory: u16,
    },
    /// Fetches more entries of a listing.
    ListMore {
        listing: u16,
        most: usize,
    },
    Allocate {
        node: u16,
        start: u64,
        end: u64,
        keep_size: bool,
    },
    Punch {
        node: u16,
        start: u64,
        end: u64,
    },
    Link {
        node: u16,
        directory: u16,
        name: Text,
    },
    SymbolicLink {
        directory: u16,
        name: Text,
        target: String,
        into: u16,
    },
    ReadLink {
        node: u16,
    },
    Stream {
        node: u16,
        name: Text,
        create: bool,
        into: u16,
    },
    RemoveStream {
        node: u16,
        name: Text,
    },
    SetExtended {
        node: u16,
        name: String,
        value: Option<Vec<u8>>,
    },
    Extended {
        node: u16,
        name: String,
    },
    /// Turns checksums on or off, after finishing the transfers in flight.
    SetIntegrity {
        node: u16,
        enabled: bool,
    },
    /// Compares everything.
    Compare,
}

/// The properties of a volume for which streams are generated.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The format's features; operations of missing ones are generated rarely, to check that they are refused.
    pub capabilities: Capabilities,
    /// The device's logical sector in bytes; planned transfers are multiples of it.
    pub sector: u32,
    /// About the size of the largest file that is made, in bytes.
    pub largest: u64,
}

/// Names that fit the 8.3 form and names that do not, few enough that operations often use the same ones.
const NAMES: [&str; 30] = [
    "A",
    "b",
    "README.TXT",
    "readme.md",
    "Mixed.Txt",
    "DATA0001.BIN",
    "data0002.bin",
    "TWELVE.C",
    "noext",
    "X.Y",
    "lower.EXT",
    "UPPER.ext",
    ".hidden",
    "..two",
    "a b",
    " leading",
    "a.b.c",
    "archive.tar.gz",
    "a longer name than eight.text",
    "a longer name than eight.texture",
    "a longer name that is different.text",
    "plus+comma,semi;eq=[x].txt",
    "é",
    "Ünïcödé Näme.txt",
    "Имя файла",
    "名前",
    "smile 😀",
    "exactly thirteen",
    "twentysix characters long.",
    "the quick brown fox jumps over the lazy dog and goes on to the river bank where it rests until the evening comes and the stars are out.document",
];

/// Names that no format accepts, and some that only a few accept.
const DOUBTFUL: [&str; 10] = ["", ".", "..", "a/b", "a\\b", "q?", "tail ", "tail.", "c\u{1}d", "nul\0"];

/// Generates streams of operations.
pub struct Generator {
    random: Random,
    shape: Shape,
    /// The kind of node that each handle probably holds.
    guesses: BTreeMap<u16, Kind>,
}

impl Generator {
    /// A generator of streams for `shape`.
    pub fn new(seed: u64, shape: Shape) -> Generator {
        Generator { random: Random::new(seed), shape, guesses: BTreeMap::new() }
    }

    fn name(&mut self) -> Text {
        if self.random.chance(3) {
            return match self.random.below(13) {
                0 => units(&[0x61, 0xD800, 0x62]),
                1 => units(&[0xDC00]),
                2 => named(&"long".repeat(64)),
                n => named(DOUBTFUL[(n - 3) as usize]),
            };
        }
        let name = *self.random.pick(&NAMES);
        let name = match self.random.below(8) {
            0 => name.to_uppercase(),
            1 => name.to_lowercase(),
            2 => format!("{} {name}", self.random.below(4)),
            _ => name.to_string(),
        };
        named(name.trim_end_matches('.'))
    }

    fn handle(&mut self) -> u16 {
        1 + self.random.below(u64::from(HANDLES) - 1) as u16
    }

    fn of_kind(&mut self, kind: Kind) -> Option<u16> {
        let known: Vec<u16> =
            self.guesses.iter().filter(|(_, guess)| **guess == kind).map(|(handle, _)| *handle).collect();
        if known.is_empty() { None } else { Some(*self.random.pick(&known)) }
    }

    fn directory(&mut self) -> u16 {
        if self.random.chance(25) {
            return 0;
        }
        if self.random.chance(2) {
            return self.handle();
        }
        self.of_kind(Kind::Directory).unwrap_or(0)
    }

    fn file(&mut self) -> u16 {
        if self.random.chance(2) {
            return self.handle();
        }
        self.of_kind(Kind::File).unwrap_or(1)
    }

    fn size(&mut self) -> u64 {
        let largest = self.shape.largest;
        let size = match self.random.below(10) {
            0 => 0,
            1..=3 => self.random.below(2000),
            4..=7 => self.random.below(largest / 4 + 1),
            _ => self.random.below(largest + 1),
        };
        if self.random.chance(30) { size / 4096 * 4096 } else { size }
    }

    fn time(&mut self) -> Option<Timestamp> {
        let nanoseconds = self.random.below(1_000_000_000) as u32;
        match self.random.below(10) {
            0..4 => None,
            4 => Some(Timestamp { seconds: -(self.random.below(40_000_000_000) as i64), nanoseconds }),
            5 => Some(Timestamp { seconds: self.random.below(20_000_000_000) as i64, nanoseconds }),
            _ => Some(Timestamp {
                seconds: 400_000_000 + self.random.below(3_000_000_000) as i64,
                nanoseconds,
            }),
        }
    }

    /// A random range of whole sectors: offset and length.
    fn aligned(&mut self) -> (u64, usize) {
        let sector = u64::from(self.shape.sector);
        let offset = self.size() / sector * sector;
        (offset, (self.random.below(24) + 1) as usize * sector as usize)
    }

    /// Returns the next operation.
    pub fn operation(&mut self) -> Operation {
        use Operation::*;
        let seed = self.random.number() as u32;
        match self.random.below(1000) {
            0..130 => {
                let kind = if self.random.chance(25) { Kind::Directory } else { Kind::File };
                let (directory, name, into) = (self.directory(), self.name(), self.handle());
                self.guesses.insert(into, kind);
                Create { directory, name, kind, into }
            }
            130..190 => {
                let (directory, name, into) = (self.directory(), self.name(), self.handle());
                let kind = if self.random.chance(25) { Kind::Directory } else { Kind::File };
                self.guesses.insert(into, kind);
                Lookup { directory, name, into }
            }
            190..230 => {
                let node = self.handle();
                self.guesses.remove(&node);
                Forget { node }
            }
            230..370 => {
                let offset = self.size();
                let length = if self.random.chance(70) { self.random.below(5000) } else { self.size() };
                Write { node: self.file(), offset, length: length as usize, seed }
            }
            370..440 => Read { node: self.file(), offset: self.size(), length: self.size() as usize },
            440..480 => Resize { node: self.file(), size: self.size() },
            480..570 => {
                let flags = match self.random.below(10) {
                    0..6 => RenameFlags::Replace,
                    6..9 => RenameFlags::NoReplace,
                    _ => RenameFlags::Exchange,
                };
                let from = self.directory();
                let to = if self.random.chance(50) { from } else { self.directory() };
                let name = self.name();
                let new_name = match self.random.below(10) {
                    0 => name.clone(),
                    1 => named(&name.0.to_string().to_uppercase()),
                    2 => named(&name.0.to_string().to_lowercase()),
                    _ => self.name(),
                };
                Rename { from, name, to, new_name, flags }
            }
            570..630 => Unlink { directory: self.directory(), name: self.name() },
            630..660 => RemoveDirectory { directory: self.directory(), name: self.name() },
            660..662 => Clear { directory: self.directory() },
            662..690 => {
                let node = if self.random.chance(60) { self.file() } else { self.directory() };
                let (created, modified, accessed) = (self.time(), self.time(), self.time());
                SetTimes { node, created, modified, accessed }
            }
            690..715 => {
                // Mostly without read-only, because files that cannot be changed test little.
                let flags = self.random.below(256) as u32 & if self.random.chance(80) { !1 } else { !0 };
                let node = if self.random.chance(75) { self.file() } else { self.directory() };
                SetFlags { node, flags }
            }
            715..725 => Parent { directory: self.directory() },
            725..728 => SetLabel { label: self.random.pick(&["", "PLATTER", "DISK 2", "A_B-C"]).to_string() },
            728..748 => {
                let scope = if self.random.chance(50) { SyncScope::Data } else { SyncScope::All };
                Sync { node: self.file(), scope }
            }
            748..755 => SyncAll,
            755..756 => Remount,
            756..790 => {
                let flight = self.random.below(u64::from(IN_FLIGHT)) as u16;
                let (offset, length) = self.aligned();
                PlanRead { flight, node: self.file(), offset, length }
            }
            790..830 => {
                let flight = self.random.below(u64::from(IN_FLIGHT)) as u16;
                let (offset, length) = self.aligned();
                PlanWrite { flight, node: self.file(), offset, length, seed }
            }
            830..900 => {
                let flight = self.random.below(u64::from(IN_FLIGHT)) as u16;
                Finish { flight, fail: self.random.chance(4) }
            }
            900..915 => List { directory: self.directory(), most: self.random.below(20) as usize + 1 },
            915..920 => {
                let listing = self.random.below(u64::from(LISTINGS)) as u16;
                ListStart { listing, directory: self.directory() }
            }
            920..950 => {
                let listing = self.random.below(u64::from(LISTINGS)) as u16;
                ListMore { listing, most: self.random.below(5) as usize + 1 }
            }
            950..999 => self.optional(),
            _ => Compare,
        }
    }

    /// An operation that not every format supports.
    fn optional(&mut self) -> Operation {
        use Operation::*;
        let has = self.shape.capabilities.clone();
        let ask = |generator: &mut Generator, has: bool| has || generator.random.chance(10);
        match self.random.below(if has.integrity { 11 } else { 10 }) {
            0..2 if ask(self, has.preallocate) => {
                let start = self.size();
                let end = start + self.random.below(20_000);
                Allocate { node: self.file(), start, end, keep_size: self.random.chance(50) }
            }
            2..4 if ask(self, has.sparse) => {
                let start = self.size();
                Punch { node: self.file(), start, end: start + self.random.below(20_000) }
            }
            4 if ask(self, has.hard_links) => {
                Link { node: self.file(), directory: self.directory(), name: self.name() }
            }
            5 if ask(self, has.symbolic_links) => {
                let (directory, name, into) = (self.directory(), self.name(), self.handle());
                self.guesses.insert(into, Kind::SymbolicLink);
                SymbolicLink { directory, name, target: format!("../{}", self.random.below(1000)), into }
            }
            6 if ask(self, has.symbolic_links) => {
                let node = self.of_kind(Kind::SymbolicLink).unwrap_or(1);
                ReadLink { node }
            }
            7 if ask(self, has.streams) => {
                let (node, name, into) = (self.file(), self.name(), self.handle());
                if self.random.chance(20) {
                    return RemoveStream { node, name };
                }
                self.guesses.insert(into, Kind::File);
                Stream { node, name, create: self.random.chance(80), into }
            }
            8 if ask(self, has.extended_attributes) => {
                let value = self.random.chance(70).then(|| {
                    let mut value = vec![0; self.random.below(300) as usize];
                    self.random.fill(&mut value);
                    value
                });
                SetExtended { node: self.file(), name: format!("user.{}", self.random.below(5)), value }
            }
            9 if ask(self, has.extended_attributes) => {
                Extended { node: self.file(), name: format!("user.{}", self.random.below(5)) }
            }
            10 => {
                let node = if self.random.chance(70) { self.file() } else { self.directory() };
                SetIntegrity { node, enabled: self.random.chance(50) }
            }
            _ => List { directory: self.directory(), most: 100 },
        }
    }
}

/// Generates the stream of a seed.
pub fn generate(seed: u64, count: usize, shape: &Shape) -> Vec<Operation> {
    let mut generator = Generator::new(seed, shape.clone());
    (0..count).map(|_| generator.operation()).collect()
}
