//! Applies operations to the file system under test and to the reference, and compares them.

use super::clock::{Clock, ClockedDevice};
use super::operation::{HANDLES, IN_FLIGHT, LISTINGS, Operation, Text};
use super::random::Random;
use crate::{MemoryFileSystem, MemoryOptions};
use platter_device::{Buffer, MemoryDevice};
use platter_vfs::{
    Attributes, Change, Cursor, DosFlags, Entry, Error, Extent, FileSystem, Integrity, Kind, Name, Names,
    NewEntry, Node, Place, Plan, RenameFlags, Result, Timestamp, Transfers,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

/// The most nodes that a stream creates, so that comparing everything takes little time.
const MOST_NODES: usize = 1000;

/// The number of bytes of a file's content that are compared at once.
const PIECE: usize = 1 << 20;

/// A volume under test.
pub trait Subject {
    /// The options with which the reference agrees with the volume.
    fn reference(&self) -> MemoryOptions;

    /// Opens the volume: once at the start, then after each [`Operation::Remount`]. Its device takes the time from the
    /// clock with which the subject was made.
    fn open(&mut self) -> Result<Arc<dyn FileSystem>>;

    /// Checks the unmounted volume; the error says what is wrong.
    fn check(&mut self) -> std::result::Result<(), String>;

    /// The transfers of its device so far, if they are counted.
    fn spent(&self) -> Spent {
        Spent::default()
    }

    /// The bytes of memory that its device takes, if it is in memory.
    fn stored(&self) -> u64 {
        0
    }
}

/// The transfers of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// The number of reads, writes and flushes.
    pub transfers: u64,
    /// The bytes of these transfers.
    pub bytes: u64,
}

/// A description of how the volume and the reference differ.
pub type Difference = String;

type Outcome = std::result::Result<(), Difference>;

/// The node numbers of the same file or directory in the volume and in the reference.
#[derive(Clone, Copy, PartialEq)]
struct Pair {
    system: Node,
    reference: Node,
}

const ROOT: Pair = Pair { system: Node::ROOT, reference: Node::ROOT };

struct Flight {
    node: Pair,
    write: bool,
    offset: u64,
    data: Buffer,
    system: Plan,
    reference: Plan,
}

/// A listing in progress. Entries that change in the directory meanwhile may be listed or not.
struct Listing {
    directory: Pair,
    cursor: Cursor,
    expected: BTreeSet<Name>,
    seen: BTreeSet<Name>,
    changed: BTreeSet<Box<[u16]>>,
}

/// The file system under test and the reference, side by side.
pub struct Runner {
    subject: Box<dyn Subject>,
    system: Arc<dyn FileSystem>,
    reference: MemoryFileSystem,
    clock: Clock,
    handles: Vec<Option<Pair>>,
    flights: Vec<Option<Flight>>,
    listings: Vec<Option<Listing>>,
    refused_for_space: u64,
}

/// The answers of both, or that the volume refused for want of space.
enum Answers<T> {
    Both(T, T),
    Refused,
}

fn describe<T: Debug>(answer: &Result<T>) -> String {
    match answer {
        Ok(value) => format!("Ok({value:?})"),
        Err(error) => format!("Err({error:?})"),
    }
}

impl Runner {
    /// Opens the subject, which must hold a new and empty volume.
    pub fn new(mut subject: Box<dyn Subject>, clock: Clock) -> std::result::Result<Runner, Difference> {
        let system = subject.open().map_err(|error| format!("the volume does not open: {error}"))?;
        let inner = Arc::new(MemoryDevice::new(1 << 16, system.device().sectors()));
        let device = Arc::new(ClockedDevice::new(inner, clock.clone()));
        let reference = MemoryFileSystem::new(device, subject.reference());
        let mut handles = vec![None; usize::from(HANDLES)];
        handles[0] = Some(ROOT);
        Ok(Runner {
            subject,
            system,
            reference,
            clock,
            handles,
            flights: (0..IN_FLIGHT).map(|_| None).collect(),
            listings: (0..LISTINGS).map(|_| None).collect(),
            refused_for_space: 0,
        })
    }

    /// The file system under test.
    pub fn system(&self) -> &Arc<dyn FileSystem> {
        &self.system
    }

    /// The reference.
    pub fn reference(&self) -> &MemoryFileSystem {
        &self.reference
    }

    /// The path of the node that a handle holds, if it has one.
    pub fn path(&self, handle: u16) -> Option<Vec<Name>> {
        self.reference.path(self.held(handle)?.reference)
    }

    /// The transfers of the device so far.
    pub fn spent(&self) -> Spent {
        self.subject.spent()
    }

    /// The bytes of memory that the device and the reference take, without the spare capacity of the reference's
    /// vectors.
    pub fn stored(&self) -> u64 {
        let content = self.reference.space().map_or(0, |space| space.total - space.free);
        self.subject.stored() + content
    }

    /// The number of operations that the volume refused for want of space.
    pub fn refused_for_space(&self) -> u64 {
        self.refused_for_space
    }

    fn held(&self, handle: u16) -> Option<Pair> {
        self.handles.get(usize::from(handle)).copied().flatten()
    }

    fn busy(&self, node: Pair) -> bool {
        self.flights.iter().flatten().any(|flight| flight.node == node)
    }

    fn written(&self, node: Pair) -> bool {
        self.flights.iter().flatten().any(|flight| flight.node == node && flight.write)
    }

    /// Makes a call on both and compares the kinds of the answers. If the system under test refuses for want of space,
    /// which the reference never does, the call is not made on the reference: the refused operation must have changed
    /// nothing.
    fn ask<T: Debug>(
        &mut self,
        what: &str,
        of: impl Fn(&dyn FileSystem, bool) -> Result<T>,
    ) -> std::result::Result<Option<Answers<T>>, Difference> {
        let ours = of(&*self.system, true);
        if ours.as_ref().is_err_and(Error::is_full) {
            self.refused_for_space += 1;
            return Ok(Some(Answers::Refused));
        }
        let theirs = of(&self.reference, false);
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => Ok(Some(Answers::Both(ours, theirs))),
            (Err(ours), Err(theirs)) if discriminant(&ours) == discriminant(&theirs) => Ok(None),
            (ours, theirs) => {
                let (ours, theirs) = (describe(&ours), describe(&theirs));
                Err(format!("{what}: the volume answers {ours}, the reference {theirs}"))
            }
        }
    }

    /// Makes a call on both whose answers must be equal.
    fn ask_same<T: Debug + PartialEq>(
        &mut self,
        what: &str,
        of: impl Fn(&dyn FileSystem, bool) -> Result<T>,
    ) -> std::result::Result<Option<T>, Difference> {
        match self.ask(what, of)? {
            Some(Answers::Both(ours, theirs)) if ours == theirs => Ok(Some(ours)),
            Some(Answers::Both(ours, theirs)) => {
                Err(format!("{what}: the volume answers {ours:?}, the reference {theirs:?}"))
            }
            _ => Ok(None),
        }
    }

    /// Makes a call on both that returns a node, and puts the node into a handle.
    fn ask_node(
        &mut self,
        what: &str,
        into: u16,
        of: impl Fn(&dyn FileSystem, bool) -> Result<Node>,
    ) -> Outcome {
        if let Some(Answers::Both(system, reference)) = self.ask(what, of)? {
            let pair = Pair { system, reference };
            let known = self
                .handles
                .iter()
                .flatten()
                .find(|known| (known.system == pair.system) != (known.reference == pair.reference));
            if let Some(known) = known {
                return Err(format!(
                    "{what}: the volume answers node {}, the reference {}; but node {} was {}",
                    system.0, reference.0, known.system.0, known.reference.0
                ));
            }
            let slot = &mut self.handles[usize::from(into)];
            if let Some(old) = slot.replace(pair) {
                self.system.forget(old.system, 1);
                self.reference.forget(old.reference, 1);
            }
            self.compare_attributes(pair)?;
        }
        Ok(())
    }

    /// Whether a handle may get another node: not the root's handle, and not one whose node has transfers in flight.
    fn can_take(&self, into: u16) -> bool {
        into != 0 && into < HANDLES && self.held(into).is_none_or(|old| !self.busy(old))
    }

    fn note_change(&mut self, directory: Pair, name: &Name) {
        let folded = name.folded(self.reference.capabilities().names.case);
        for listing in self.listings.iter_mut().flatten().filter(|listing| listing.directory == directory) {
            listing.changed.insert(folded.clone());
        }
    }

    fn drop_listings(&mut self, gone: impl Fn(&Listing) -> bool) {
        for slot in &mut self.listings {
            if slot.as_ref().is_some_and(&gone) {
                *slot = None;
            }
        }
    }

    /// Carries out one operation on both sides.
    pub fn step(&mut self, operation: &Operation) -> Outcome {
        self.clock.advance(Duration::from_millis(731));
        let what = format!("{operation:?}");
        let what = what.as_str();
        match operation {
            Operation::Create { directory, name, kind, into } => {
                self.create(what, *directory, &name.0, *kind, *into)
            }
            Operation::Lookup { directory, name, into } => {
                let Some(parent) = self.held(*directory) else { return Ok(()) };
                if !self.can_take(*into) {
                    return Ok(());
                }
                self.ask_node(what, *into, |system, ours| system.lookup(side(parent, ours), &name.0))
            }
            Operation::Forget { node } => {
                self.forget(*node);
                Ok(())
            }
            Operation::Write { node, offset, length, seed } => {
                let data = content(*seed, *length);
                self.change_file(what, *node, |system, node| system.write(node, *offset, &data))
            }
            Operation::Read { node, offset, length } => {
                let Some(pair) = self.held(*node) else { return Ok(()) };
                if self.written(pair) {
                    return Ok(());
                }
                self.compare_content(what, pair, *offset, *length)
            }
            Operation::Resize { node, size } => {
                let change = Change { size: Some(*size), ..Change::default() };
                self.change_file(what, *node, |system, node| system.set_attributes(node, &change).map(|_| ()))
            }
            Operation::Rename { from, name, to, new_name, flags } => {
                self.rename(what, (*from, &name.0), (*to, &new_name.0), *flags)
            }
            Operation::Unlink { directory, name } => {
                let Some(parent) = self.held(*directory) else { return Ok(()) };
                self.note_change(parent, &name.0);
                self.ask(what, |system, ours| system.unlink(side(parent, ours), &name.0))?;
                self.compare_attributes(parent)
            }
            Operation::RemoveDirectory { directory, name } => {
                let Some(parent) = self.held(*directory) else { return Ok(()) };
                self.note_change(parent, &name.0);
                self.ask(what, |system, ours| system.rmdir(side(parent, ours), &name.0))?;
                self.compare_attributes(parent)
            }
            Operation::Clear { directory } => match self.held(*directory) {
                Some(pair) if self.is_directory(pair) => {
                    self.drop_listings(|_| true);
                    self.clear(pair)
                }
                _ => Ok(()),
            },
            Operation::SetTimes { node, created, modified, accessed } => {
                let change = Change {
                    created: *created,
                    modified: *modified,
                    accessed: *accessed,
                    ..Change::default()
                };
                self.change_attributes(what, *node, &change)
            }
            Operation::SetFlags { node, flags } => {
                let change = Change { flags: Some(DosFlags(*flags)), ..Change::default() };
                self.change_attributes(what, *node, &change)
            }
            Operation::Parent { directory } => self.ask_parent(what, *directory),
            Operation::SetLabel { label } => {
                self.ask(what, |system, _| system.set_label(label))?;
                self.ask_same("label", |system, _| Ok(system.info()?.label)).map(|_| ())
            }
            Operation::Sync { node, scope } => {
                let Some(pair) = self.held(*node) else { return Ok(()) };
                self.make_durable(what, |system, ours| system.sync(side(pair, ours), *scope))
            }
            Operation::SyncAll => self.make_durable(what, |system, _| system.sync_all()),
            Operation::Remount => self.remount(),
            Operation::PlanRead { flight, node, offset, length } => {
                self.plan(what, *flight, *node, *offset, *length, None)
            }
            Operation::PlanWrite { flight, node, offset, length, seed } => {
                self.plan(what, *flight, *node, *offset, *length, Some(*seed))
            }
            Operation::Finish { flight, fail } => self.finish(what, *flight, *fail),
            Operation::List { directory, most } => {
                let Some(pair) = self.held(*directory) else { return Ok(()) };
                self.compare_listing(what, pair, *most)
            }
            Operation::ListStart { listing, directory } => self.start_listing(*listing, *directory),
            Operation::ListMore { listing, most } => self.list_more(*listing, *most),
            Operation::Allocate { node, start, end, keep_size } => {
                self.change_file(what, *node, |system, node| system.allocate(node, *start..*end, *keep_size))
            }
            Operation::Punch { node, start, end } => {
                self.change_file(what, *node, |system, node| system.punch(node, *start..*end))
            }
            Operation::Link { node, directory, name } => self.link(what, *node, *directory, &name.0),
            Operation::SymbolicLink { directory, name, target, into } => {
                let Some(parent) = self.held(*directory) else { return Ok(()) };
                if !self.can_take(*into) || self.reference.node_count() >= MOST_NODES {
                    return Ok(());
                }
                self.note_change(parent, &name.0);
                self.ask_node(what, *into, |system, ours| system.symlink(side(parent, ours), &name.0, target))
            }
            Operation::ReadLink { node } => {
                let Some(pair) = self.held(*node) else { return Ok(()) };
                self.ask_same(what, |system, ours| system.read_link(side(pair, ours))).map(|_| ())
            }
            Operation::Stream { node, name, create, into } => {
                let Some(pair) = self.held(*node) else { return Ok(()) };
                if !self.can_take(*into) || self.reference.node_count() >= MOST_NODES {
                    return Ok(());
                }
                self.ask_node(what, *into, |system, ours| {
                    system.streams().and_then(|part| part.open(side(pair, ours), &name.0, *create))
                })?;
                self.compare_streams(pair)
            }
            Operation::RemoveStream { node, .. }
            | Operation::SetExtended { node, .. }
            | Operation::Extended { node, .. }
            | Operation::SetIntegrity { node, .. } => match self.held(*node) {
                Some(pair) => self.optional_part(what, operation, pair),
                None => Ok(()),
            },
            Operation::Compare => self.compare_all(),
        }
    }

    /// Carries out an operation of a part that not every format has.
    fn optional_part(&mut self, what: &str, operation: &Operation, pair: Pair) -> Outcome {
        match operation {
            Operation::RemoveStream { name, .. } => {
                self.ask(what, |system, ours| {
                    system.streams().and_then(|part| part.remove(side(pair, ours), &name.0))
                })?;
                self.compare_streams(pair)
            }
            Operation::SetExtended { name, value, .. } => {
                let value = value.as_deref();
                self.ask(what, |system, ours| {
                    system.extended_attributes().and_then(|part| part.set(side(pair, ours), name, value))
                })?;
                self.compare_extended(what, pair)
            }
            Operation::Extended { name, .. } => {
                let get = |system: &dyn FileSystem, ours| {
                    system.extended_attributes().and_then(|part| part.get(side(pair, ours), name))
                };
                self.ask_same(what, get).map(|_| ())
            }
            Operation::SetIntegrity { enabled, .. } => {
                // Changing the integrity waits for writes in flight.
                self.end_flights("finish before integrity changes")?;
                let integrity = Integrity { enabled: *enabled, enforced: true };
                self.ask(what, |system, ours| {
                    system.integrity().and_then(|part| part.set(side(pair, ours), integrity))
                })?;
                self.compare_attributes(pair)
            }
            other => unreachable!("{other:?} is of a part that every format has"),
        }
    }

    fn create(&mut self, what: &str, directory: u16, name: &Name, kind: Kind, into: u16) -> Outcome {
        let Some(parent) = self.held(directory) else { return Ok(()) };
        if !self.can_take(into) || self.reference.node_count() >= MOST_NODES {
            return Ok(());
        }
        self.note_change(parent, name);
        let extended = match self.reference.capabilities().extended_attributes {
            true => first_extended(name),
            false => Vec::new(),
        };
        let extended: Vec<_> = extended.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let new = NewEntry { kind, point: None, extended: &extended };
        self.ask_node(what, into, |system, ours| system.make(side(parent, ours), name, &new))?;
        if let Some(made) = self.held(into).filter(|_| !new.extended.is_empty()) {
            self.compare_extended(what, made)?;
        }
        self.compare_attributes(parent)
    }

    fn forget(&mut self, node: u16) {
        if self.can_take(node)
            && let Some(pair) = self.handles[usize::from(node)].take()
        {
            self.system.forget(pair.system, 1);
            self.reference.forget(pair.reference, 1);
            if self.handles.iter().flatten().all(|held| *held != pair) {
                self.drop_listings(|listing| listing.directory == pair);
            }
        }
    }

    fn rename(
        &mut self,
        what: &str,
        (from, name): (u16, &Name),
        (to, new_name): (u16, &Name),
        flags: RenameFlags,
    ) -> Outcome {
        let (Some(from), Some(to)) = (self.held(from), self.held(to)) else { return Ok(()) };
        for directory in [from, to] {
            // The entry may have a name of different case, or be replaced, so both names count as changed in both
            // directories.
            self.note_change(directory, name);
            self.note_change(directory, new_name);
        }
        self.ask(what, |system, ours| {
            system.rename(side(from, ours), name, side(to, ours), new_name, flags)
        })?;
        self.compare_attributes(from)?;
        self.compare_attributes(to)
    }

    fn link(&mut self, what: &str, node: u16, directory: u16, name: &Name) -> Outcome {
        let (Some(pair), Some(parent)) = (self.held(node), self.held(directory)) else { return Ok(()) };
        self.note_change(parent, name);
        self.ask(what, |system, ours| system.link(side(pair, ours), side(parent, ours), name))?;
        self.compare_attributes(pair)
    }

    fn ask_parent(&mut self, what: &str, directory: u16) -> Outcome {
        let Some(pair) = self.held(directory) else { return Ok(()) };
        if self.reference.attributes(pair.reference).is_ok_and(|attributes| attributes.links == 0) {
            return Ok(());
        }
        if let Some(Answers::Both(system, reference)) =
            self.ask(what, |system, ours| system.parent(side(pair, ours)))?
        {
            let known = |held: &&Pair| (held.system == system) != (held.reference == reference);
            if let Some(known) = self.handles.iter().flatten().find(known) {
                let (ours, theirs) = (known.system.0, known.reference.0);
                return Err(format!(
                    "{what}: the volume answers {system:?}, the reference {reference:?}; \
                     a held node is {ours} and {theirs}"
                ));
            }
        }
        Ok(())
    }

    fn start_listing(&mut self, listing: u16, directory: u16) -> Outcome {
        let held = self.held(directory).filter(|pair| self.is_directory(*pair));
        let Some(pair) = held else { return Ok(()) };
        let mut entries = Vec::new();
        self.reference
            .read_directory(pair.reference, Cursor::START, usize::MAX, &mut entries)
            .map_err(|error| error.to_string())?;
        self.listings[usize::from(listing)] = Some(Listing {
            directory: pair,
            cursor: Cursor::START,
            expected: entries.into_iter().map(|entry| entry.name).collect(),
            seen: BTreeSet::new(),
            changed: BTreeSet::new(),
        });
        Ok(())
    }

    fn compare_extended(&mut self, what: &str, pair: Pair) -> Outcome {
        self.ask_same(what, |system, ours| extended(system, side(pair, ours))).map(|_| ())
    }

    /// Finishes the transfers in flight, compares everything, unmounts and checks.
    pub fn end(mut self) -> Outcome {
        self.compare_all()?;
        self.remount()?;
        self.compare_all()?;
        self.release();
        self.system.unmount().map_err(|error| format!("unmount: {error}"))?;
        self.subject.check()
    }

    /// Makes changes durable on both. An accepted change has its room, so a full volume must not refuse this.
    fn make_durable(&mut self, what: &str, of: impl Fn(&dyn FileSystem, bool) -> Result<()>) -> Outcome {
        match self.ask(what, of)? {
            Some(Answers::Refused) => Err(format!("{what}: there is no room for what was taken before")),
            _ => Ok(()),
        }
    }

    fn is_directory(&self, pair: Pair) -> bool {
        self.reference.attributes(pair.reference).is_ok_and(|attributes| attributes.kind == Kind::Directory)
    }

    fn change_file(
        &mut self,
        what: &str,
        node: u16,
        change: impl Fn(&dyn FileSystem, Node) -> Result<()>,
    ) -> Outcome {
        let Some(pair) = self.held(node) else { return Ok(()) };
        if self.busy(pair) {
            return Ok(());
        }
        self.ask(what, |system, ours| change(system, side(pair, ours)))?;
        self.compare_attributes(pair)
    }

    fn change_attributes(&mut self, what: &str, node: u16, change: &Change) -> Outcome {
        let Some(pair) = self.held(node).filter(|pair| *pair != ROOT && !self.written(*pair)) else {
            return Ok(());
        };
        self.ask_same(what, |system, ours| Ok(comparable(system.set_attributes(side(pair, ours), change)?)))?;
        self.compare_attributes(pair)
    }

    fn compare_attributes(&mut self, pair: Pair) -> Outcome {
        if pair == ROOT || self.written(pair) {
            return Ok(());
        }
        self.ask_same("attributes", |system, ours| Ok(comparable(system.attributes(side(pair, ours))?)))?;
        if self.reference.capabilities().integrity {
            self.ask_same("integrity", |system, ours| {
                system.integrity().and_then(|part| part.get(side(pair, ours)))
            })?;
        }
        Ok(())
    }

    fn compare_streams(&mut self, pair: Pair) -> Outcome {
        self.ask_same("streams", |system, ours| {
            let mut streams: Vec<_> = system
                .streams()?
                .list(side(pair, ours))?
                .into_iter()
                .map(|stream| (stream.name, stream.size))
                .collect();
            streams.sort();
            Ok(streams)
        })
        .map(|_| ())
    }

    fn compare_content(&mut self, what: &str, pair: Pair, offset: u64, length: usize) -> Outcome {
        let read = |system: &dyn FileSystem, ours| {
            let mut buffer = vec![0xA5; length];
            let got = system.read(side(pair, ours), offset, &mut buffer)?;
            buffer.truncate(got);
            Ok(Bytes(buffer))
        };
        match self.ask(what, read)? {
            Some(Answers::Both(ours, theirs)) => same_bytes(what, offset, &ours.0, &theirs.0),
            _ => Ok(()),
        }
    }

    /// Compares a listing during which the directory does not change.
    fn compare_listing(&mut self, what: &str, pair: Pair, most: usize) -> Outcome {
        let mut unsettled = BTreeSet::new();
        if self.is_directory(pair) {
            for flight in self.flights.iter().flatten().filter(|flight| flight.write) {
                unsettled.insert(flight.node.reference);
            }
        }
        let skip: BTreeSet<Name> =
            if unsettled.is_empty() { BTreeSet::new() } else { self.names_of(pair, &unsettled) };
        self.ask_same(what, |system, ours| {
            let mut listed = BTreeMap::new();
            for entry in list(system, side(pair, ours), most)? {
                let attributes = (!skip.contains(&entry.name)).then(|| comparable(entry.attributes.clone()));
                if listed.insert(entry.name.clone(), attributes).is_some() {
                    return Err(Error::damaged("listing", 0, "each name once", &entry.name));
                }
            }
            Ok(listed)
        })
        .map(|_| ())
    }

    /// The names in a directory that refer to any of these nodes of the reference.
    fn names_of(&self, directory: Pair, nodes: &BTreeSet<Node>) -> BTreeSet<Name> {
        let entries = list(&self.reference, directory.reference, 1000).unwrap_or_default();
        let leads_there = |name: &Name| {
            let node = self.reference.lookup(directory.reference, name).expect("listed just now");
            self.reference.forget(node, 1);
            nodes.contains(&node)
        };
        entries.into_iter().map(|entry| entry.name).filter(leads_there).collect()
    }

    fn list_more(&mut self, listing: u16, most: usize) -> Outcome {
        let Some(mut listing_now) = self.listings[usize::from(listing)].take() else { return Ok(()) };
        let mut entries = Vec::new();
        match self.system.read_directory(listing_now.directory.system, listing_now.cursor, most, &mut entries)
        {
            Ok(()) => {}
            // The directory was removed meanwhile.
            Err(Error::NotFound) => return Ok(()),
            Err(error) => return Err(format!("listing goes on: {error}")),
        }
        let case = self.reference.capabilities().names.case;
        for entry in &entries {
            let excused = listing_now.changed.contains(&entry.name.folded(case));
            let name = &entry.name;
            if !excused && !listing_now.expected.contains(name) {
                return Err(format!("a listing under way shows {name:?}, which was never there"));
            }
            if !listing_now.seen.insert(name.clone()) && !excused {
                return Err(format!("a listing under way shows {name:?} twice"));
            }
            listing_now.cursor = entry.next;
        }
        if entries.is_empty() {
            let missed = listing_now.expected.iter().find(|name| {
                !listing_now.seen.contains(name) && !listing_now.changed.contains(&name.folded(case))
            });
            return match missed {
                Some(name) => Err(format!("a listing never showed {name:?}, which was there all the while")),
                None => Ok(()),
            };
        }
        self.listings[usize::from(listing)] = Some(listing_now);
        Ok(())
    }

    fn plan(
        &mut self,
        what: &str,
        flight: u16,
        node: u16,
        offset: u64,
        length: usize,
        seed: Option<u32>,
    ) -> Outcome {
        let Some(pair) = self.held(node) else { return Ok(()) };
        let end = offset + length as u64;
        let meets = |other: &Flight| {
            other.node == pair
                && (other.write || seed.is_some())
                && other.offset < end
                && offset < other.offset + other.data.len() as u64
        };
        if self.flights[usize::from(flight)].is_some()
            || self.flights.iter().flatten().any(meets)
            || (seed.is_none() && self.written(pair))
        {
            return Ok(());
        }
        let data = match seed {
            Some(seed) => Buffer::from(&content(seed, length)[..]),
            None => Buffer::from(&vec![0x5A; length][..]),
        };
        let plan = |system: &dyn FileSystem, ours| {
            let mut plan = Plan::default();
            match seed {
                Some(seed) => {
                    let make = |plan: &mut Plan| system.plan_write(side(pair, ours), offset, &data, plan);
                    plan.make_whole(&**system.device(), make)?;
                    // Odd seeds leave the work to the second half of the write.
                    if seed.is_multiple_of(2) {
                        system.work_beside(&mut plan, 0, &data);
                    }
                }
                None => {
                    let make = |plan: &mut Plan| system.plan_read(side(pair, ours), offset, length, plan);
                    plan.make_whole(&**system.device(), make)?;
                }
            }
            Ok(Planned(plan))
        };
        let Some(Answers::Both(ours, theirs)) = self.ask(what, plan)? else { return Ok(()) };
        if ours.0.length != theirs.0.length {
            let (ours, theirs) = (ours.0.length, theirs.0.length);
            return Err(format!("{what}: the volume plans {ours} bytes, the reference {theirs}"));
        }
        self.flights[usize::from(flight)] = Some(Flight {
            node: pair,
            write: seed.is_some(),
            offset,
            data,
            system: ours.0,
            reference: theirs.0,
        });
        Ok(())
    }

    fn finish(&mut self, what: &str, flight: u16, fail: bool) -> Outcome {
        let Some(flight) = self.flights[usize::from(flight)].take() else { return Ok(()) };
        let Flight { node, write, offset, mut data, mut system, mut reference } = flight;
        let failure =
            || platter_device::Error::Unusable { device: "test".into(), reason: "told to fail".into() };
        let done = if fail {
            Err(failure())
        } else {
            let written = if write { system.write_to(&**self.system.device(), &data) } else { Ok(()) };
            let reads = if write { Default::default() } else { system.segments.clone() };
            written.and_then(|()| {
                reads.iter().try_for_each(|segment| {
                    let range = segment.at as usize..(segment.at + segment.length) as usize;
                    self.system.device().read_at(segment.offset, &mut data[range.clone()])?;
                    // A third of each segment is left to the second half; parts need not be whole clusters.
                    let part = range.start + range.len() / 3..range.end;
                    self.system.work_beside(&mut system, part.start, &data[part]);
                    Ok(())
                })
            })
        };
        let given = if fail { Err(failure()) } else { Ok(()) };
        if write {
            let ours = self.system.finish_write(&mut system, &data, done);
            let theirs = self.reference.finish_write(&mut reference, &data, given);
            if ours.is_ok() != theirs.is_ok() {
                let (ours, theirs) = (describe(&ours), describe(&theirs));
                return Err(format!("{what}: the volume answers {ours}, the reference {theirs}"));
            }
        } else {
            let ours = self.system.finish_read(&mut system, &mut data, done);
            let mut expected = vec![0; data.len()];
            let theirs = self.reference.finish_read(&mut reference, &mut expected, given);
            match (ours, theirs) {
                (Ok(ours), Ok(theirs)) => same_bytes(what, offset, &data[..ours], &expected[..theirs])?,
                (Err(_), Err(_)) => {}
                (ours, theirs) => {
                    let (ours, theirs) = (describe(&ours), describe(&theirs));
                    return Err(format!("{what}: the volume answers {ours}, the reference {theirs}"));
                }
            }
        }
        self.compare_attributes(node)
    }

    /// Removes everything below a directory, except entries that a read-only attribute or a transfer in flight
    /// protects.
    fn clear(&mut self, directory: Pair) -> Outcome {
        for entry in list(&self.reference, directory.reference, 1000).map_err(|error| error.to_string())? {
            let name = &entry.name;
            if entry.attributes.kind == Kind::Directory {
                let found = self.ask("lookup", |system, ours| system.lookup(side(directory, ours), name))?;
                if let Some(Answers::Both(system, reference)) = found {
                    let cleared = self.clear(Pair { system, reference });
                    self.system.forget(system, 1);
                    self.reference.forget(reference, 1);
                    cleared?;
                }
                self.ask("rmdir", |system, ours| system.rmdir(side(directory, ours), name))?;
            } else {
                self.ask("unlink", |system, ours| system.unlink(side(directory, ours), name))?;
            }
        }
        Ok(())
    }

    /// Compares everything below the root, and held nodes without a name.
    pub fn compare_all(&mut self) -> Outcome {
        let mut allocated = 0;
        self.compare_tree(ROOT, &mut allocated)?;
        for pair in self.handles.clone().into_iter().flatten() {
            self.compare_attributes(pair)?;
            if !self.is_directory(pair) && !self.written(pair) {
                self.compare_file(pair)?;
            }
        }
        let space = self.system.space().map_err(|error| format!("space: {error}"))?;
        if space.free > space.total || allocated.div_ceil(space.cluster) > space.total - space.free {
            return Err(format!("{space:?}, but {allocated} bytes are allocated to files and directories"));
        }
        Ok(())
    }

    fn compare_file(&mut self, pair: Pair) -> Outcome {
        let size = match self.reference.attributes(pair.reference) {
            Ok(attributes) if attributes.kind == Kind::File => attributes.size,
            _ => return Ok(()),
        };
        let what = format!("content of {:?}", self.reference.path(pair.reference));
        // To one byte behind the end, and in pieces, because the memory of a volume is measured and two copies would
        // count.
        for offset in (0..=size).step_by(PIECE) {
            let length = (size + 1 - offset).min(PIECE as u64) as usize;
            self.compare_content(&what, pair, offset, length)?;
        }
        self.look_at_holes(pair)
    }

    /// Fails if there is content where the extents of a file tell that nothing was written: programs that copy leave
    /// that out.
    fn look_at_holes(&self, pair: Pair) -> Outcome {
        let path = || self.reference.path(pair.reference);
        let Ok(extents) = self.system.extents(pair.system) else { return Ok(()) };
        self.look_at_parts(pair, &extents)?;
        let mut buffer = Vec::new();
        for extent in extents.into_iter().filter(unwritten) {
            buffer.resize(PIECE, 0);
            let end = extent.offset + extent.length;
            for offset in (extent.offset..end).step_by(PIECE) {
                let piece = &mut buffer[..(end - offset).min(PIECE as u64) as usize];
                let read = self.system.read(pair.system, offset, piece);
                let length = read.map_err(|error| format!("{:?} at {offset}: {error}", path()))?;
                if let Some(at) = piece[..length].iter().position(|byte| *byte != 0) {
                    return Err(format!(
                        "{:?} has content at {}, inside of {extent:?}",
                        path(),
                        offset + at as u64
                    ));
                }
            }
        }
        Ok(())
    }

    /// Fails if the extents of ranges of a file, put together, do not tell what the extents of all of it do.
    fn look_at_parts(&self, pair: Pair, all: &[Extent]) -> Outcome {
        let Some(end) = all.last().map(|last| last.offset + last.length) else { return Ok(()) };
        let mut parts = Vec::new();
        let (mut at, mut length) = (0, 3000);
        while at < end {
            let part = self.system.extents_in(pair.system, at..at + length);
            parts.extend(part.map_err(|error| format!("extents from {at} on: {error}"))?);
            (at, length) = (at + length, length * 3);
        }
        let (expected, found) = (joined(all), joined(&parts));
        let path = || self.reference.path(pair.reference);
        let message = || format!("{:?} has {expected:?}; in parts it has {found:?}", path());
        if expected == found { Ok(()) } else { Err(message()) }
    }

    fn compare_tree(&mut self, directory: Pair, allocated: &mut u64) -> Outcome {
        self.compare_listing("listing", directory, 7)?;
        let entries = list(&*self.system, directory.system, 100).map_err(|error| error.to_string())?;
        for entry in entries {
            let name = &entry.name;
            let Some(Answers::Both(system, reference)) =
                self.ask("lookup", |system, ours| system.lookup(side(directory, ours), name))?
            else {
                return Err(format!("{name:?} is listed, but not found"));
            };
            let pair = Pair { system, reference };
            // A file with several names is visited once for each.
            let attributes = self.system.attributes(system).map_err(|error| error.to_string())?;
            *allocated += attributes.allocated / u64::from(attributes.links.max(1));
            let outcome = match entry.attributes.kind {
                Kind::Directory => self.compare_tree(pair, allocated),
                _ if self.written(pair) => Ok(()),
                _ => self.compare_attributes(pair).and_then(|()| self.compare_file(pair)),
            };
            self.system.forget(system, 1);
            self.reference.forget(reference, 1);
            outcome?;
        }
        Ok(())
    }

    /// Forgets every held node.
    fn release(&mut self) {
        for pair in self.handles.iter_mut().skip(1).filter_map(Option::take) {
            self.system.forget(pair.system, 1);
            self.reference.forget(pair.reference, 1);
        }
    }

    fn end_flights(&mut self, what: &str) -> Outcome {
        (0..IN_FLIGHT).try_for_each(|flight| self.finish(what, flight, false))
    }

    fn remount(&mut self) -> Outcome {
        self.end_flights("finish before unmount")?;
        self.drop_listings(|_| true);
        let paths: Vec<Option<Vec<Name>>> = self
            .handles
            .iter()
            .map(|held| held.and_then(|pair| self.reference.path(pair.reference)))
            .collect();
        self.release();
        self.system.unmount().map_err(|error| format!("unmount: {error}"))?;
        let refused = self.system.create(Node::ROOT, &Text(Name::from("late")).0, Kind::File);
        if !matches!(refused, Err(Error::ReadOnly(_))) {
            return Err(format!("create after unmount answers {refused:?}"));
        }
        self.subject.check()?;
        self.system =
            self.subject.open().map_err(|error| format!("the volume does not open again: {error}"))?;
        for (handle, path) in paths.iter().enumerate().skip(1) {
            if let Some(path) = path {
                let system = walk(&*self.system, path).map_err(|error| format!("{path:?}: {error}"))?;
                let reference = walk(&self.reference, path).map_err(|error| format!("{path:?}: {error}"))?;
                self.handles[handle] = Some(Pair { system, reference });
            }
        }
        Ok(())
    }
}

/// Looks up the node at a path, handed out once.
pub(super) fn walk(system: &dyn FileSystem, path: &[Name]) -> Result<Node> {
    let mut at = Node::ROOT;
    for name in path {
        let next = system.lookup(at, name);
        if at != Node::ROOT {
            system.forget(at, 1);
        }
        at = next?;
    }
    Ok(at)
}

/// Reads a whole listing, fetched `most` entries at a time.
pub(super) fn list(system: &dyn FileSystem, directory: Node, most: usize) -> Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let before = entries.len();
        let cursor = entries.last().map_or(Cursor::START, |entry| entry.next);
        system.read_directory(directory, cursor, most, &mut entries)?;
        if entries.len() == before {
            return Ok(entries);
        }
    }
}

fn side(pair: Pair, ours: bool) -> Node {
    if ours { pair.system } else { pair.reference }
}

/// The attributes that must be equal in the volume and the reference.
fn comparable(
    attributes: Attributes,
) -> (Kind, u64, u32, DosFlags, Option<Timestamp>, Timestamp, Option<Timestamp>) {
    let Attributes { kind, size, links, flags, created, modified, accessed, .. } = attributes;
    (kind, size, links, flags, created, modified, accessed)
}

/// The extended attributes of a file or directory.
pub(super) fn extended(system: &dyn FileSystem, node: Node) -> Result<BTreeMap<String, Vec<u8>>> {
    let names = system.extended_attributes()?.list(node)?.into_iter();
    names
        .map(|name| {
            system.extended_attributes().and_then(|part| part.get(node, &name)).map(|value| (name, value))
        })
        .collect()
}

/// The extended attributes with which an entry of this name is made: none, one or two.
fn first_extended(name: &Name) -> Vec<(String, Vec<u8>)> {
    let sum: usize = name.units().iter().map(|&unit| usize::from(unit)).sum();
    let count = [0, 1, 2, 0][sum % 4];
    (0..count).map(|index| (format!("user.{index}"), vec![sum as u8; 1 + sum % 50])).collect()
}

/// The pseudo-random bytes of a seed.
fn content(seed: u32, length: usize) -> Vec<u8> {
    Random::new(u64::from(seed)).bytes(length)
}

/// Bytes whose `Debug` form is only their number.
struct Bytes(Vec<u8>);

impl Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

struct Planned(Plan);

impl Debug for Planned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a plan for {} bytes: {:?}", self.0.length, self.0.segments)
    }
}

fn same_bytes(what: &str, offset: u64, ours: &[u8], theirs: &[u8]) -> Outcome {
    if ours.len() != theirs.len() {
        return Err(format!("{what}: {} bytes read, {} expected", ours.len(), theirs.len()));
    }
    match ours.iter().zip(theirs).position(|(ours, theirs)| ours != theirs) {
        None => Ok(()),
        Some(at) => Err(format!(
            "{what}: byte {} of the file is {:#04x}, expected {:#04x} ({} of {} bytes differ)",
            offset + at as u64,
            ours[at],
            theirs[at],
            ours.iter().zip(theirs).filter(|(ours, theirs)| ours != theirs).count(),
            ours.len()
        )),
    }
}

/// Whether nothing was written to an extent.
fn unwritten(extent: &Extent) -> bool {
    matches!(extent.place, Place::Hole | Place::Unwritten(_))
}

/// The ranges of extents, each with whether it is written; neighbours of one kind are one. Clusters may move meanwhile, so
/// their places are left out.
fn joined(extents: &[Extent]) -> Vec<(std::ops::Range<u64>, bool)> {
    let mut ranges: Vec<(std::ops::Range<u64>, bool)> = Vec::new();
    for extent in extents {
        let (range, is_written) = (extent.offset..extent.offset + extent.length, !unwritten(extent));
        match ranges.last_mut() {
            Some((last, kind)) if last.end == range.start && *kind == is_written => last.end = range.end,
            _ => ranges.push((range, is_written)),
        }
    }
    ranges
}
