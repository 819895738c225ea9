//! Checks what a power cut must leave. A run is recorded with the state after each operation; everything that was
//! synced and not changed since must be on the device as it may be found after a cut.

use super::{Clock, Operation, Random, Runner, Shape, Subject, generate, runner};
use platter_device::{Device, Faults, Grain, Log, Survivors};
use platter_vfs::{
    Attributes, CheckOptions, Cursor, FileSystem, Format, Kind, Name, Node, OpenOptions, Silent, SyncScope,
};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

/// Makes the subject of a run on a device.
pub type MakeOn<'a> = &'a dyn Fn(Arc<dyn Device>, &Clock) -> Box<dyn Subject>;

/// The recorded state of a file or directory.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The attributes, without the allocated size and the number of names.
    pub attributes: Attributes,
    /// A hash of the content.
    pub content: u64,
    /// The extended attributes.
    pub extended: BTreeMap<String, Vec<u8>>,
}

impl Item {
    /// Whether two states are the same, with `times` including flags and times. Times are not compared for directories,
    /// since every change of a name in one changes them.
    fn same(&self, other: &Item, times: bool) -> bool {
        let (ours, theirs) = (&self.attributes, &other.attributes);
        ours.kind == theirs.kind
            && ours.size == theirs.size
            && self.content == other.content
            && self.extended == other.extended
            && (!times
                || (ours.flags == theirs.flags
                    && ours.created == theirs.created
                    && ours.modified == theirs.modified
                    && ours.accessed == theirs.accessed))
    }
}

/// The state of every file and directory of a file system, by path.
pub type Tree = BTreeMap<Vec<Name>, Item>;

/// A hash of a file's content.
fn content(system: &dyn FileSystem, node: Node, attributes: &Attributes) -> platter_vfs::Result<u64> {
    let mut hasher = DefaultHasher::new();
    if attributes.kind == Kind::File {
        let mut content = vec![0; attributes.size as usize];
        let read = system.read(node, 0, &mut content)?;
        content[..read].hash(&mut hasher);
    }
    Ok(hasher.finish())
}

/// The extended attributes of a file or directory; none on a format without.
fn extended(system: &dyn FileSystem, node: Node) -> platter_vfs::Result<BTreeMap<String, Vec<u8>>> {
    match system.capabilities().extended_attributes {
        true => runner::extended(system, node),
        false => Ok(BTreeMap::new()),
    }
}

/// The state of the file or directory at a path.
fn find(system: &dyn FileSystem, path: &[Name]) -> platter_vfs::Result<Item> {
    let mut node = Node::ROOT;
    for name in path {
        let next = system.lookup(node, name);
        system.forget(node, 1);
        node = next?;
    }
    let mut attributes = system.attributes(node)?;
    (attributes.allocated, attributes.links) = (0, 0);
    let (content, extended) = (content(system, node, &attributes)?, extended(system, node)?);
    system.forget(node, 1);
    Ok(Item { attributes, content, extended })
}

/// The state of every file and directory of a file system.
pub fn tree(system: &dyn FileSystem) -> platter_vfs::Result<Tree> {
    tree_with(system, &mut |node, attributes| content(system, node, attributes))
}

fn tree_with(
    system: &dyn FileSystem,
    content: &mut dyn FnMut(Node, &Attributes) -> platter_vfs::Result<u64>,
) -> platter_vfs::Result<Tree> {
    let mut tree = Tree::new();
    let mut open = vec![(Vec::new(), Node::ROOT)];
    while let Some((path, directory)) = open.pop() {
        let mut entries = Vec::new();
        system.read_directory(directory, Cursor::START, usize::MAX, &mut entries)?;
        for entry in entries {
            let mut path: Vec<Name> = path.clone();
            path.push(entry.name.clone());
            let mut attributes = entry.attributes;
            (attributes.allocated, attributes.links) = (0, 0);
            let node = system.lookup(directory, &entry.name)?;
            let (content, extended) = (content(node, &attributes)?, extended(system, node)?);
            match attributes.kind {
                Kind::Directory => open.push((path.clone(), node)),
                _ => system.forget(node, 1),
            }
            tree.insert(path, Item { attributes, content, extended });
        }
        if directory != Node::ROOT {
            system.forget(directory, 1);
        }
    }
    Ok(tree)
}

/// The part of the volume that an operation made durable.
pub enum Synced {
    /// Nothing.
    Nothing,
    /// Everything.
    Everything,
    /// One file, with its times or without.
    One(Vec<Name>, bool),
}

/// The state after an operation.
pub struct Moment {
    /// The number of writes of the device so far.
    pub writes: usize,
    /// The state of every file and directory.
    pub tree: Arc<Tree>,
    /// The part that the operation made durable.
    pub synced: Synced,
    /// Whether the operation was a single change.
    pub is_one_change: bool,
}

/// A stream that runs on a recording device.
pub struct Recording {
    seed: u64,
    operations: std::vec::IntoIter<Operation>,
    runner: Runner,
    faults: Arc<Faults>,
    /// The states at first and after each operation since.
    states: Vec<Moment>,
    /// [`crate::MemoryFileSystem::changes`] at the last state.
    changes: u64,
    /// Hashes of contents, by node and the number of its rewrites. (The modification time would not do, as operations
    /// set it at will.)
    known: HashMap<(Node, u64), u64>,
}

impl Recording {
    /// Makes the recording of a stream with many syncs.
    ///
    /// # Panics
    /// If the subject cannot be opened.
    pub fn new(
        device: Arc<dyn Device>,
        seed: u64,
        count: usize,
        shape: &Shape,
        subject: MakeOn<'_>,
    ) -> Recording {
        let mut operations = generate(seed, count, shape);
        let mut random = Random::new(seed ^ 0x5EED);
        for operation in &mut operations {
            if random.chance(5) {
                *operation = Operation::SyncAll;
            } else if random.chance(5) {
                let scope = if random.chance(50) { SyncScope::All } else { SyncScope::Data };
                *operation = Operation::Sync { node: random.below(20) as u16, scope };
            }
        }
        let faults = Arc::new(Faults::recording(device, seed, Grain::Logical));
        let clock = Clock::new(Duration::from_secs(1_700_000_000));
        let runner = Runner::new(subject(faults.clone(), &clock), clock).expect("a new volume opens");
        let first =
            Moment { writes: 0, tree: Arc::default(), synced: Synced::Everything, is_one_change: true };
        let changes = runner.reference().changes();
        let (operations, known) = (operations.into_iter(), HashMap::new());
        Recording { seed, operations, runner, faults, states: vec![first], changes, known }
    }

    /// Carries out the next operation. Returns `false` if there is none.
    ///
    /// # Panics
    /// If the volume and the reference differ.
    pub fn step(&mut self) -> bool {
        let Some(operation) = self.operations.next() else { return false };
        let (seed, number) = (self.seed, self.states.len());
        let stepped = self.runner.step(&operation);
        stepped.unwrap_or_else(|difference| panic!("seed {seed}, state {number}: {difference}"));
        let synced = match &operation {
            Operation::SyncAll | Operation::Remount => Synced::Everything,
            Operation::Sync { node, scope } => match self.runner.path(*node) {
                Some(path) if !path.is_empty() => Synced::One(path, *scope == SyncScope::All),
                _ => Synced::Nothing,
            },
            _ => Synced::Nothing,
        };
        let before = &self.states.last().expect("the first state").tree;
        let changes = self.runner.reference().changes();
        let tree = if changes == self.changes { before.clone() } else { Arc::new(self.look()) };
        self.changes = changes;
        let is_one_change = !matches!(operation, Operation::Clear { .. });
        self.states.push(Moment { writes: self.faults.log().writes(), tree, synced, is_one_change });
        true
    }

    /// The state of every file and directory of the reference. Content that was not written since the last time is not
    /// read again.
    fn look(&mut self) -> Tree {
        let (reference, known) = (self.runner.reference(), &mut self.known);
        let mut sum = |node: Node, attributes: &Attributes| {
            let key = (node, reference.rewrites(node));
            if let Some(&sum) = known.get(&key) {
                return Ok(sum);
            }
            let sum = content(reference, node, attributes)?;
            known.insert(key, sum);
            Ok(sum)
        };
        let tree = tree_with(reference, &mut sum).expect("the reference reads");
        if known.len() > 100_000 {
            known.clear();
        }
        tree
    }

    /// The recorded states, with that of the last operation at the end.
    pub fn states(&self) -> &[Moment] {
        &self.states
    }

    /// The log of the device.
    pub fn log(&self) -> Log {
        self.faults.log()
    }

    /// Drops states to which no power cut can lead any more: those before everything was last made durable. A cut
    /// during the last operation can still be judged.
    pub fn forget_past(&mut self) {
        let before = &self.states[..self.states.len() - 1];
        let start = before.iter().rposition(|state| matches!(state.synced, Synced::Everything)).unwrap_or(0);
        self.states.drain(..start);
    }
}

/// Carries out a stream and records the state after each operation.
///
/// # Panics
/// If the volume and the reference differ.
pub fn record(
    device: Arc<dyn Device>,
    seed: u64,
    count: usize,
    shape: &Shape,
    subject: MakeOn<'_>,
) -> (Arc<Faults>, Vec<Moment>) {
    let mut run = Recording::new(device, seed, count, shape, subject);
    while run.step() {}
    (run.faults, run.states)
}

/// Checks that the names on a volume, with their extended attributes, are those of one of these states, so that, for
/// example, no rename is half done and no file lacks attributes that it was made with.
///
/// # Errors
/// The names and attributes by which the volume differs from the last state, if it equals none.
pub fn is_of_one_moment(found: &Tree, states: &[Moment]) -> Result<(), String> {
    // An operation that consists of many changes can be cut between them.
    if states.iter().any(|state| !state.is_one_change) {
        return Ok(());
    }
    let same = |state: &Moment| {
        let mut pairs = state.tree.iter().zip(found);
        let alike =
            |was: &Item, is: &Item| was.attributes.kind == is.attributes.kind && was.extended == is.extended;
        state.tree.len() == found.len()
            && pairs.all(|((path, was), (name, is))| path == name && alike(was, is))
    };
    let Some(last) = states.last().filter(|_| !states.iter().rev().any(same)) else { return Ok(()) };
    let only = |one: &Tree, other: &Tree| -> Vec<Vec<Name>> {
        one.keys().filter(|path| !other.contains_key(*path)).cloned().collect()
    };
    let (new, gone) = (only(found, &last.tree), only(&last.tree, found));
    let differs = |(path, is): &(&Vec<Name>, &Item)| {
        last.tree.get(*path).is_some_and(|was| was.extended != is.extended)
    };
    let changed: Vec<_> = found.iter().filter(differs).map(|(path, _)| path).collect();
    Err(format!(
        "names of no moment: since the last one {new:?} are new, {gone:?} are gone, and {changed:?} have other extended \
         attributes"
    ))
}

/// A promise of durability: a path, the state that must be found there, and whether its times are compared.
pub type Promise<'a> = (&'a Vec<Name>, &'a Item, bool);

/// What must be on the volume if the power fails while operation `during` runs.
pub fn promised(states: &[Moment], during: usize) -> Vec<Promise<'_>> {
    let mut promised: BTreeMap<&Vec<Name>, (usize, bool)> = BTreeMap::new();
    let everything = |state: &Moment| matches!(state.synced, Synced::Everything);
    let start = states[..during].iter().rposition(everything).unwrap_or(0);
    for (at, state) in states.iter().enumerate().take(during).skip(start) {
        match &state.synced {
            Synced::Nothing => {}
            Synced::Everything => promised = state.tree.keys().map(|path| (path, (at, true))).collect(),
            Synced::One(path, times) => {
                if let Some((path, _)) = state.tree.get_key_value(path)
                    && (*times || !promised.contains_key(path))
                {
                    promised.insert(path, (at, *times));
                }
            }
        }
    }
    let mut kept = Vec::new();
    for (path, (at, times)) in promised {
        let item = &states[at].tree[path];
        let is_file = item.attributes.kind == Kind::File;
        let unchanged =
            |state: &Moment| state.tree.get(path).is_some_and(|now| now.same(item, times && is_file));
        if states[at..states.len().min(during + 1)].iter().all(unchanged) {
            kept.push((path, item, times));
        }
    }
    kept
}

/// Asserts that everything promised is on the volume.
///
/// # Panics
/// If something promised is missing or different.
pub fn verify_promises(what: &str, system: &dyn FileSystem, promised: &[Promise<'_>]) {
    for (path, item, times) in promised {
        let now = find(system, path).unwrap_or_else(|error| panic!("{what}: {path:?}: {error}"));
        let times = *times && item.attributes.kind == Kind::File;
        assert!(now.same(item, times), "{what}: {path:?} is {now:?}, but {item:?} was synced");
    }
}

/// Asserts that everything promised is on a device after a power cut, before and after a repair, that a check finds
/// nothing after the repair, and that everything can be read then.
///
/// # Panics
/// If one of these does not hold.
pub fn verify_repair(what: &str, format: &dyn Format, device: &Arc<dyn Device>, promised: &[Promise<'_>]) {
    let open = || {
        let read_only = OpenOptions { read_only: true, ..OpenOptions::default() };
        format.open(device.clone(), read_only).unwrap_or_else(|error| panic!("{what}: {error}"))
    };
    verify_promises(&format!("{what}, before repair"), &*open(), promised);
    let check = |repair| {
        let checked = format.check(&**device, CheckOptions { repair }, &Silent);
        checked.unwrap_or_else(|error| panic!("{what}: {error}"))
    };
    let repaired = check(true);
    let report = check(false);
    assert!(report.is_clean(), "{what}: after {:#?} there is {:#?}", repaired.findings, report.findings);
    let what = format!("{what}, repaired {:#?}", repaired.findings);
    verify_promises(&what, &*open(), promised);
    tree(&*open()).unwrap_or_else(|error| panic!("{what}: not all can be read: {error}"));
}

/// Asserts the same when the power fails at each write of a repair, and the repair is started anew. `faults` is the
/// recording device that is repaired, which may have writes in doubt. Returns the number of these cuts; `seed` chooses
/// the survivors.
///
/// # Panics
/// If one of these does not hold.
pub fn verify_interrupted_repair(
    what: &str,
    format: &dyn Format,
    faults: &Faults,
    promised: &[Promise<'_>],
    seed: u64,
) -> usize {
    let first = faults.log().writes();
    let repaired = format.check(faults, CheckOptions { repair: true }, &Silent);
    repaired.unwrap_or_else(|error| panic!("{what}: {error}"));
    let log = faults.log();
    let mut random = Random::new(seed);
    let mut cuts = 0;
    for k in first..=log.writes() {
        let some = Survivors::First(random.below(log.in_doubt(k) as u64 + 1) as usize);
        for survivors in [Survivors::None, Survivors::All, some, Survivors::Random(random.number())] {
            let device: Arc<dyn Device> = Arc::new(log.cut(k, survivors));
            let what = format!("{what}, and at write {k} of {} of the repair, {survivors:?}", log.writes());
            verify_repair(&what, format, &device, promised);
            cuts += 1;
        }
    }
    cuts
}
