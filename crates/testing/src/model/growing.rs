//! Tests of how costs grow, in counts of transfers: twice as many extents, holes or names may cost at most twice as
//! much, and a little for the depth of trees.

use super::counted::{Counted, counts};
use platter_vfs::{CheckOptions, Cursor, FileSystem, Format, Kind, Name, Node, OpenOptions, Silent};

/// The cluster size of [`Counted`] in bytes.
const CLUSTER: u64 = 4096;

/// A sequence of steps with a given number of extents, holes or names.
type Act = fn(&mut Steps<'_>, u64);

/// The cost of a step: the number of transfers, and their bytes.
type Cost = (u64, u64);

/// A volume on which the cost of each step is recorded.
struct Steps<'f> {
    format: &'f dyn Format,
    counted: Counted,
    costs: Vec<(&'static str, Cost)>,
}

impl Steps<'_> {
    fn step(&mut self, what: &'static str, act: impl FnOnce(&dyn FileSystem)) {
        let volume = self.counted.volume.clone();
        let seen = self.counted.seen(|| {
            act(&*volume);
            volume.sync_all().expect("room for what was taken");
        });
        let (reads, read, writes, written, _) = counts(&seen);
        self.costs.push((what, (reads + writes, read + written)));
    }

    /// Unmounts. The work that a format defers until then, such as writing metadata that is in its log, counts as part
    /// of the last step.
    fn close(&mut self) {
        let volume = self.counted.volume.clone();
        let seen = self.counted.seen(|| volume.unmount().expect("a device that does not fail"));
        let (reads, read, writes, written, _) = counts(&seen);
        let (_, (transfers, bytes)) = self.costs.last_mut().expect("a step before");
        *transfers += reads + writes;
        *bytes += read + written;
    }

    /// Unmounts, checks (which is counted as a step) and opens again.
    fn again(&mut self) {
        self.close();
        let recorder = self.counted.recorder.clone();
        let format = self.format;
        let seen = self.counted.seen(|| {
            let report = format.check(&*recorder, CheckOptions::default(), &Silent).expect("a check");
            assert!(report.is_clean(), "{:?}", report.findings);
        });
        let (reads, read, ..) = counts(&seen);
        self.costs.push(("check", (reads, read)));
        self.counted.volume = format.open(recorder, OpenOptions::default()).expect("the volume again");
    }

    fn file(&self, name: &str) -> Node {
        self.counted.volume.lookup(Node::ROOT, &Name::from(name)).expect("the file")
    }
}

fn create(volume: &dyn FileSystem, name: &str) -> Node {
    volume.create(Node::ROOT, &Name::from(name), Kind::File).expect("a new file")
}

/// Steps with a file of `count` extents of one cluster each.
fn extents(steps: &mut Steps<'_>, count: u64) {
    steps.step("write in turns", |volume| {
        let files = [create(volume, "one"), create(volume, "other")];
        for at in 0..count {
            for node in files {
                volume.write(node, at * CLUSTER, &[at as u8; CLUSTER as usize]).expect("room");
            }
        }
    });
    steps.again();
    let node = steps.file("one");
    steps.step("read all", |volume| {
        let mut bytes = vec![0; (count * CLUSTER) as usize];
        assert_eq!(volume.read(node, 0, &mut bytes).expect("the content"), bytes.len());
    });
    steps.step("overwrite some", |volume| {
        for number in 0..64 {
            let at = number * 7919 % count * CLUSTER;
            volume.write(node, at, &[1; CLUSTER as usize]).expect("room");
        }
    });
    steps.step("remove", |volume| {
        volume.unlink(Node::ROOT, &Name::from("one")).expect("a file");
        volume.forget(node, 1);
    });
}

/// Steps with a file of `count` holes of one cluster each.
fn holes(steps: &mut Steps<'_>, count: u64) {
    steps.step("write with holes", |volume| {
        let node = create(volume, "holes");
        for at in 0..count {
            volume.write(node, 2 * at * CLUSTER, &[at as u8; CLUSTER as usize]).expect("room");
        }
    });
    steps.again();
    let node = steps.file("holes");
    steps.step("read all", |volume| {
        let mut bytes = vec![0; (2 * count * CLUSTER) as usize];
        volume.read(node, 0, &mut bytes).expect("the content");
    });
    steps.step("punch some", |volume| {
        for number in 0..64 {
            let at = number * 7919 % count * 2 * CLUSTER;
            volume.punch(node, at..at + CLUSTER).expect("a hole");
        }
    });
    steps.step("remove", |volume| {
        volume.unlink(Node::ROOT, &Name::from("holes")).expect("a file");
        volume.forget(node, 1);
    });
}

/// Steps with a directory of `count` names.
fn names(steps: &mut Steps<'_>, count: u64) {
    let name = |number: u64| Name::from(format!("name {number}").as_str());
    let each = |volume: &dyn FileSystem, act: &dyn Fn(&dyn FileSystem, Node, &Name)| {
        let directory = volume.lookup(Node::ROOT, &"directory".into()).expect("the directory");
        (0..count).for_each(|number| act(volume, directory, &name(number)));
        volume.forget(directory, 1);
    };
    steps.step("create", |volume| {
        let made = volume.create(Node::ROOT, &"directory".into(), Kind::Directory).expect("a directory");
        volume.forget(made, 1);
        each(volume, &|volume, directory, name| {
            let made = volume.create(directory, name, Kind::File).expect("a new file");
            volume.forget(made, 1);
        });
    });
    steps.again();
    steps.step("look up", |volume| {
        each(volume, &|volume, directory, name| {
            let found = volume.lookup(directory, name).expect("the file");
            volume.forget(found, 1);
        })
    });
    steps.again();
    steps.step("list", |volume| {
        let directory = volume.lookup(Node::ROOT, &"directory".into()).expect("the directory");
        let mut entries = Vec::new();
        volume.read_directory(directory, Cursor::START, usize::MAX, &mut entries).expect("a listing");
        assert_eq!(entries.len() as u64, count);
        volume.forget(directory, 1);
    });
    steps.step("remove", |volume| {
        each(volume, &|volume, directory, name| volume.unlink(directory, name).expect("a file"));
    });
}

fn costs(format: &dyn Format, of: Act, count: u64) -> Vec<(&'static str, Cost)> {
    let mut steps = Steps { format, counted: Counted::new(format), costs: Vec::new() };
    of(&mut steps, count);
    steps.close();
    steps.costs
}

/// Asserts that twice as many extents, names or holes cost at most a little more than twice as much in each step.
///
/// # Panics
/// If a step costs more.
pub fn twice(format: &dyn Format) {
    /// The transfers and bytes that a step may cost however small the number is.
    const ALWAYS: Cost = (64, 1 << 20);
    let sparse = Counted::new(format).volume.capabilities().sparse;
    let kinds: [(&str, Act); 3] = [("extents", extents), ("names", names), ("holes", holes)];
    for (kind, of) in kinds.into_iter().take(if sparse { 3 } else { 2 }) {
        let (few, many) = (costs(format, of, 4_000), costs(format, of, 8_000));
        for ((what, few), (_, many)) in few.into_iter().zip(many) {
            // An eighth more, for the logarithmic depth of trees.
            let most = |few: u64, always: u64| few * 9 / 4 + always;
            assert!(
                many.0 <= most(few.0, ALWAYS.0) && many.1 <= most(few.1, ALWAYS.1),
                "{}: {kind}: {what}: (transfers, bytes) {few:?}, and of twice as many {many:?}",
                format.name()
            );
        }
    }
}
