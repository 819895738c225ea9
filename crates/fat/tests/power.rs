//! The power fails at every write of a run. What was synced and not changed since is there, before a repair and after.

mod common;
mod judges;

use common::{Tested, VOLUMES, Volume};
use judges::ImageFile;
use platter_device::{Fault, Faults, Grain, Operation as DeviceOperation, Survivors, When};
use platter_fat::Fat;
use platter_vfs::model::{Clock, Operation, Random, Runner, generate};
use platter_vfs::{
    Attributes, CheckOptions, Cursor, Error, FileSystem, Format, Kind, Name, Node, OpenOptions, Silent,
    SyncScope,
};
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

/// What is known of a file or directory.
#[derive(Clone, Debug, PartialEq)]
struct Item {
    attributes: Attributes,
    content: u64,
}

impl Item {
    /// What must be as it was. A directory's times change with every name in it.
    fn same(&self, other: &Item, times: bool) -> bool {
        let (ours, theirs) = (&self.attributes, &other.attributes);
        ours.kind == theirs.kind
            && ours.size == theirs.size
            && self.content == other.content
            && (!times
                || (ours.flags == theirs.flags
                    && ours.created == theirs.created
                    && ours.modified == theirs.modified
                    && ours.accessed == theirs.accessed))
    }
}

type Tree = BTreeMap<Vec<Name>, Item>;

/// A sum of a file's content.
fn content(system: &dyn FileSystem, node: Node, attributes: &Attributes) -> platter_vfs::Result<u64> {
    let mut hasher = DefaultHasher::new();
    if attributes.kind == Kind::File {
        let mut content = vec![0; attributes.size as usize];
        let read = system.read(node, 0, &mut content)?;
        content[..read].hash(&mut hasher);
    }
    Ok(hasher.finish())
}

/// What a path leads to.
fn find(system: &dyn FileSystem, path: &[Name]) -> platter_vfs::Result<Item> {
    let mut node = Node::ROOT;
    for name in path {
        let next = system.lookup(node, name);
        system.forget(node, 1);
        node = next?;
    }
    let mut attributes = system.attributes(node)?;
    (attributes.allocated, attributes.links) = (0, 0);
    let content = content(system, node, &attributes)?;
    system.forget(node, 1);
    Ok(Item { attributes, content })
}

/// Everything on a file system.
fn tree(system: &dyn FileSystem) -> platter_vfs::Result<Tree> {
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
            let content = content(system, node, &attributes)?;
            match attributes.kind {
                Kind::Directory => open.push((path.clone(), node)),
                _ => system.forget(node, 1),
            }
            tree.insert(path, Item { attributes, content });
        }
        if directory != Node::ROOT {
            system.forget(directory, 1);
        }
    }
    Ok(tree)
}

/// What an operation made durable.
enum Synced {
    Nothing,
    Everything,
    /// One file, with its times or without.
    One(Vec<Name>, bool),
}

/// How things were after an operation.
struct State {
    writes: usize,
    tree: Arc<Tree>,
    synced: Synced,
}

/// Carries out a stream and notes how things were after each operation.
fn record(volume: Volume, seed: u64, count: usize) -> (Arc<Faults>, Vec<State>) {
    let mut operations = generate(seed, count, &volume.shape(12_000));
    let mut random = Random::new(seed ^ 0x5EED);
    for operation in &mut operations {
        if random.chance(5) {
            *operation = Operation::SyncAll;
        } else if random.chance(5) {
            let scope = if random.chance(50) { SyncScope::All } else { SyncScope::Data };
            *operation = Operation::Sync { node: random.below(20) as u16, scope };
        }
    }
    let faults = Arc::new(Faults::recording(volume.make(), seed, Grain::Logical));
    let clock = Clock::new(Duration::from_secs(1_700_000_000));
    let subject = Box::new(Tested::new(faults.clone(), &clock));
    let mut runner = Runner::new(subject, clock).unwrap();
    let first = State { writes: 0, tree: Arc::default(), synced: Synced::Everything };
    let mut states = vec![first];
    for (number, operation) in operations.iter().enumerate() {
        runner.step(operation).unwrap_or_else(|difference| panic!("seed {seed}, {number}: {difference}"));
        let synced = match operation {
            Operation::SyncAll | Operation::Remount => Synced::Everything,
            Operation::Sync { node, scope } => match runner.path(*node) {
                Some(path) if !path.is_empty() => Synced::One(path, *scope == SyncScope::All),
                _ => Synced::Nothing,
            },
            _ => Synced::Nothing,
        };
        let now = tree(runner.reference()).expect("the reference reads");
        let before = &states.last().expect("the first state").tree;
        let tree = if **before == now { before.clone() } else { Arc::new(now) };
        states.push(State { writes: faults.log().writes(), tree, synced });
    }
    (faults, states)
}

/// What must be there if the power fails while operation `during` runs: path, how it is, and whether times count.
fn promised(states: &[State], during: usize) -> Vec<(&Vec<Name>, &Item, bool)> {
    let mut promised: BTreeMap<&Vec<Name>, (usize, bool)> = BTreeMap::new();
    let everything = |state: &State| matches!(state.synced, Synced::Everything);
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
            |state: &State| state.tree.get(path).is_some_and(|now| now.same(item, times && is_file));
        if states[at..states.len().min(during + 1)].iter().all(unchanged) {
            kept.push((path, item, times));
        }
    }
    kept
}

/// Panics unless everything promised is on the volume.
fn verify(what: &str, system: &dyn FileSystem, promised: &[(&Vec<Name>, &Item, bool)]) {
    for (path, item, times) in promised {
        let now = find(system, path).unwrap_or_else(|error| panic!("{what}: {path:?}: {error}"));
        let times = *times && item.attributes.kind == Kind::File;
        assert!(now.same(item, times), "{what}: {path:?} is {now:?}, but {item:?} was synced");
    }
}

/// Fails the power at each `step`-th write of a run.
fn run(volume: Volume, seed: u64, count: usize, step: usize) -> usize {
    let (faults, states) = record(volume, seed, count);
    let log = faults.log();
    let mut random = Random::new(seed);
    let mut cuts = 0;
    let mut known = (usize::MAX, Vec::new());
    for k in (0..=log.writes()).step_by(step) {
        let during = states.iter().position(|state| state.writes > k).unwrap_or(states.len());
        if known.0 != during {
            known = (during, promised(&states, during));
        }
        let promised = &known.1;
        let some = Survivors::First(random.below(log.in_doubt(k) as u64 + 1) as usize);
        let seeds = [Survivors::Random(random.number()), Survivors::Random(random.number())];
        for survivors in [Survivors::None, Survivors::All, some, seeds[0], seeds[1]] {
            let what =
                format!("{volume:?} seed {seed}: cut at write {k} in operation {during}, {survivors:?}");
            let device: Arc<dyn platter_device::Device> = Arc::new(log.cut(k, survivors));
            let read_only = OpenOptions { read_only: true, ..OpenOptions::default() };
            let open = |options| {
                Fat::ANY.open(device.clone(), options).unwrap_or_else(|error| panic!("{what}: {error}"))
            };
            verify(&format!("{what}, before repair"), &*open(read_only), promised);
            let check = |repair| {
                let options = CheckOptions { repair };
                Fat::ANY.check(&*device, options, &Silent).unwrap_or_else(|error| panic!("{what}: {error}"))
            };
            let repaired = check(true);
            let report = check(false);
            assert!(
                report.is_clean(),
                "{what}: after {:#?} there is {:#?}",
                repaired.findings,
                report.findings
            );
            let what = format!("{what}, repaired {:#?}", repaired.findings);
            verify(&what, &*open(read_only), promised);
            tree(&*open(read_only)).unwrap_or_else(|error| panic!("{what}: not all can be read: {error}"));
            if cuts % 997 == 0 {
                let verdict = judges::fsck(&ImageFile::new(&common::image(&*device)), &["-n"]);
                assert!(verdict.clean, "{what}: {}", verdict.output);
            }
            cuts += 1;
        }
    }
    cuts
}

#[test]
fn after_a_failed_commit_nothing_more_is_written() {
    for nth in 0..6 {
        let device = VOLUMES[2].make();
        let faults = Arc::new(Faults::new(device.clone(), 1));
        let system = common::open(faults.clone());
        let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        system.write(file, 0, &[7; 5000]).unwrap();
        let failing = faults.count(DeviceOperation::Write) + nth;
        faults.inject(When::nth(DeviceOperation::Write, failing), Fault::Fail);
        assert!(matches!(system.sync_all(), Err(Error::Device(_))), "write {nth}");
        let written = faults.count(DeviceOperation::Write);
        assert!(matches!(system.sync_all(), Err(Error::ReadOnly(_))));
        assert!(matches!(system.sync(file, SyncScope::All), Err(Error::ReadOnly(_))));
        assert!(matches!(system.create(Node::ROOT, &"other".into(), Kind::File), Err(Error::ReadOnly(_))));
        assert!(matches!(system.unmount(), Err(Error::ReadOnly(_))));
        assert_eq!(faults.count(DeviceOperation::Write), written);
        // What is in memory can still be read, and what is on disk be put right.
        let mut content = [0; 5000];
        assert_eq!(system.read(file, 0, &mut content).unwrap(), 5000);
        assert_eq!(content, [7; 5000]);
        Fat::ANY.check(&*device, CheckOptions { repair: true }, &Silent).unwrap();
        common::check_clean(&*device).unwrap_or_else(|fault| panic!("write {nth}: {fault}"));
    }
}

#[test]
fn syncing_a_directory_keeps_its_names() {
    for scope in [SyncScope::Data, SyncScope::All] {
        let faults = Arc::new(Faults::recording(VOLUMES[5].make(), 1, Grain::Logical));
        let system = common::open(faults.clone());
        let directory = system.create(Node::ROOT, &"directory".into(), Kind::Directory).unwrap();
        system.sync(directory, scope).unwrap();
        for (number, at) in [directory, Node::ROOT].into_iter().enumerate() {
            let name = Name::from(format!("file {number}").as_str());
            let file = system.create(at, &name, Kind::File).unwrap();
            system.forget(file, 1);
            system.sync(at, scope).unwrap();
            let log = faults.log();
            let after = common::open(Arc::new(log.cut(log.writes(), Survivors::None)));
            let place = match at {
                Node::ROOT => Node::ROOT,
                _ => after.lookup(Node::ROOT, &"directory".into()).unwrap(),
            };
            after.lookup(place, &name).unwrap_or_else(|error| panic!("{scope:?} {name:?}: {error}"));
        }
    }
}

#[test]
fn what_was_synced_survives_a_power_cut() {
    for volume in [VOLUMES[0], VOLUMES[2], VOLUMES[5]] {
        let cuts = run(volume, 8664, 700, 2);
        assert!(cuts > 400, "{cuts} cuts");
    }
}

/// 2,000 operations on each kind, cut at every write: `cargo test --release -p platter-fat --test power -- --ignored`.
#[test]
#[ignore = "a campaign: takes many minutes"]
fn what_was_synced_survives_a_power_cut_at_every_write() {
    for volume in [VOLUMES[0], VOLUMES[2], VOLUMES[5]] {
        let cuts = run(volume, common::seed(), 2_000, 1);
        println!("{volume:?}: {cuts} cuts");
    }
}
