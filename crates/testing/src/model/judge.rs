//! Judging a volume by other programs: running them, and comparing what they read from it with what Platter reads.

use super::{Operation, Runner};
use platter_vfs::{Attributes, Cursor, Extent, FileSystem, Kind, Node, Place};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::UNIX_EPOCH;

/// A group of other programs. A missing program fails the test.
pub struct Programs {
    /// The packages that contain them.
    pub from: &'static str,
    /// Their environment variables, besides those for language and time zone.
    pub environment: &'static [(&'static str, &'static str)],
}

impl Programs {
    fn output(&self, program: &str, arguments: &[&str]) -> Output {
        Command::new(program)
            .args(arguments)
            .envs([("LC_ALL", "C.UTF-8"), ("TZ", "UTC")])
            .envs(self.environment.iter().copied())
            .output()
            .unwrap_or_else(|error| panic!("{program} (from {}) cannot be run: {error}", self.from))
    }

    /// Runs a program; returns its exit status and everything that it printed.
    ///
    /// # Panics
    /// If the program cannot be run.
    pub fn ask(&self, program: &str, arguments: &[&str]) -> (ExitStatus, String) {
        let output = self.output(program, arguments);
        let [printed, complaints] =
            [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        (output.status, printed + &complaints)
    }

    /// Runs a program that must succeed; returns what it printed on standard output.
    ///
    /// # Panics
    /// If the program cannot be run, or fails.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.output(program, arguments);
        let complaints = String::from_utf8_lossy(&output.stderr);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{program} {arguments:?} failed:\n{printed}{complaints}");
        printed
    }
}

/// The verdict of a checker on an image.
pub struct Verdict {
    /// Whether the checker reported no errors.
    pub clean: bool,
    /// The output of the checker.
    pub output: String,
}

/// A file as one of the readers sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The size in bytes.
    pub size: u64,
    /// The time of the last change of content, in seconds since 1970.
    pub modified: i64,
    /// The SHA-256 of the content, in hexadecimal.
    pub sum: String,
}

/// The files of a volume by path; `None` for a directory.
pub type Tree = BTreeMap<String, Option<File>>;

/// The SHA-256 of some bytes, computed by `sha256sum`.
fn sum(bytes: &[u8]) -> String {
    let child = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.expect("sha256sum (from coreutils)");
    child.stdin.as_mut().expect("a pipe").write_all(bytes).expect("a pipe that takes it");
    let output = child.wait_with_output().expect("sha256sum ends");
    String::from_utf8_lossy(&output.stdout).split(' ').next().expect("a sum").to_owned()
}

/// Carries out operations, except those with names that are not Unicode, which a host file system cannot have. After
/// every `step` of them the volume is unmounted, checked and mounted again, and `look` is called with the runner and a
/// description.
///
/// # Panics
/// If the volume and the reference differ.
pub fn judge_every(
    step: usize,
    of: &[Operation],
    what: &str,
    runner: &mut Runner,
    look: &mut dyn FnMut(&Runner, &str),
) {
    for (number, operation) in of.iter().enumerate() {
        if !format!("{operation:?}").contains("units(") {
            runner.step(operation).unwrap_or_else(|difference| panic!("{what}, {number}: {difference}"));
        }
        if (number + 1) % step == 0 {
            let what = format!("{what}, after {} operations", number + 1);
            runner.step(&Operation::Remount).unwrap_or_else(|difference| panic!("{what}: {difference}"));
            look(runner, &what);
        }
    }
}

/// Calls `each` on every entry of a volume: with its path, its node, which is forgotten afterwards, and its attributes
/// in the listing.
///
/// # Panics
/// If an entry cannot be read.
pub fn each_name(system: &dyn FileSystem, each: &mut dyn FnMut(String, Node, &Attributes)) {
    let mut todo = vec![(String::new(), Node::ROOT)];
    while let Some((path, directory)) = todo.pop() {
        let mut entries = Vec::new();
        system
            .read_directory(directory, Cursor::START, usize::MAX, &mut entries)
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        for entry in entries {
            let path = format!("{path}/{}", entry.name);
            let node =
                system.lookup(directory, &entry.name).unwrap_or_else(|error| panic!("{path}: {error}"));
            each(path.clone(), node, &entry.attributes);
            match entry.attributes.kind {
                Kind::Directory => todo.push((path, node)),
                _ => system.forget(node, 1),
            }
        }
        system.forget(directory, 1);
    }
}

/// Every file and directory on a volume, as Platter reads them.
///
/// # Panics
/// If an entry cannot be read.
pub fn ours(system: &dyn FileSystem) -> Tree {
    let mut tree = Tree::new();
    each_name(system, &mut |path, node, attributes| {
        let file = (attributes.kind != Kind::Directory).then(|| {
            let mut content = vec![0; attributes.size as usize + 1];
            let read = system.read(node, 0, &mut content).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(read as u64, attributes.size, "{path}");
            let modified = attributes.modified.seconds;
            File { size: attributes.size, modified, sum: sum(&content[..read]) }
        });
        tree.insert(path, file);
    });
    tree
}

/// The paths of files of which a part was never written, so that it reads as zeroes whatever its clusters hold. Some
/// programs read the clusters, so the content that they read from these files is not compared.
///
/// # Panics
/// If an entry cannot be read.
pub fn partly_written(system: &dyn FileSystem) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    each_name(system, &mut |path, node, attributes| {
        let extents = || system.extents(node).unwrap_or_else(|error| panic!("{path}: {error}"));
        let unwritten = |extent: &Extent| matches!(extent.place, Place::Unwritten(_));
        if attributes.kind == Kind::File && extents().iter().any(unwritten) {
            found.insert(path);
        }
    });
    found
}

/// Every file and directory below a directory of the host.
///
/// # Panics
/// If an entry cannot be read, or is older than 1970.
pub fn on_host(directory: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut todo = vec![(String::new(), directory.to_owned())];
    while let Some((path, directory)) = todo.pop() {
        for entry in std::fs::read_dir(directory).expect("a directory that can be read") {
            let entry = entry.expect("a directory that can be read");
            let path = format!("{path}/{}", entry.file_name().to_str().expect("a name in UTF-8"));
            if entry.file_type().expect("a type").is_dir() {
                tree.insert(path.clone(), None);
                todo.push((path, entry.path()));
                continue;
            }
            let metadata = entry.metadata().expect("what is known of a file");
            let modified = metadata.modified().expect("a time").duration_since(UNIX_EPOCH);
            let modified = modified.expect("a time after 1970").as_secs() as i64;
            let sum = sum(&std::fs::read(entry.path()).expect("a file that can be read"));
            tree.insert(path, Some(File { size: metadata.len(), modified, sum }));
        }
    }
    tree
}

/// Corrects the times of a program that counts a 29 February in 2100, and so is a day late from then on.
pub fn without_leap_day_in_2100(tree: &mut Tree) {
    const MARCH_2100: i64 = 4_107_542_400;
    for file in tree.values_mut().flatten().filter(|file| file.modified >= MARCH_2100) {
        file.modified -= 86_400;
    }
}

/// Asserts that both trees are the same.
///
/// # Panics
/// At the first difference.
pub fn assert_same(what: &str, ours: &Tree, theirs: &Tree) {
    let names = |tree: &Tree| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(ours), names(theirs), "{what}: names");
    for (path, file) in ours {
        assert_eq!(*file, theirs[path], "{what}: {path}");
    }
}
