//! The simulator finds former defects again: each is put back by a patch, and must be found within a minute with a
//! fixed list of seeds.
//!
//! The patches are in `tests/defects`, each with a description of its defect. All are applied to one copy of the
//! sources, which is kept, so that the next build has little to do. The first patch adds a switch, and each of the others is
//! in effect only in a run that names its number in `PLATTER_DEFECT`.

use platter_testing::model::processor_time;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use std::{env, fs};

/// The most processor time until a defect is found; it does not depend on other load of the machine.
const MOST: Duration = Duration::from_secs(60);
/// The same in elapsed time, for a machine with other load.
const MOST_BY_THE_CLOCK: Duration = Duration::from_secs(600);
/// The number of seeds, from 1 on or from `PLATTER_SEED` on.
const SEEDS: u64 = 100_000;

/// The patches in the order in which they are applied, each with the volumes on which its defect must be found.
const PATCHES: &[(&str, &[&str])] = &[
    ("0-switch", &[]),
    ("1-unmount-voids-syncs", &["refs toggled"]),
    ("2-reads-of-moved-clusters", &["refs toggled full"]),
    ("3-punch-looks-too-early", &["refs"]),
    ("4-lost-update-clusters", &["fat12", "exfat"]),
    ("4-lost-update-ntfs", &["ntfs"]),
    ("4-lost-update-refs", &["refs"]),
    ("5-a-group-larger-than-the-log", &["ntfs crowd"]),
    ("6-integrity-changes-beside-writes", &["refs toggled"]),
    ("7-a-failed-flush-is-forgotten", &["fat12", "exfat", "ntfs", "refs+integrity"]),
    ("8-clusters-are-given-back-twice", &["refs+integrity full"]),
    ("9-a-forgotten-file-is-moved", &["refs+integrity full"]),
];

/// The copy of the sources (`tree`), with the directory in which it is built, that of the original: what both depend on of
/// others is compiled once.
struct Copy {
    root: PathBuf,
    tree: PathBuf,
    target: PathBuf,
}

impl Copy {
    fn new() -> Copy {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("this crate's");
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (tree, target) = (scratch.join("defects/tree"), scratch.parent().expect("below target").into());
        fs::create_dir_all(&tree).expect("room");
        Copy { root, tree, target }
    }

    /// Makes the copy equal to the original but for the patches. Files that come out as they were keep their time, so that
    /// they need not be built again.
    fn refresh(&self) -> Result<(), String> {
        let fresh = self.tree.with_extension("fresh");
        drop(fs::remove_dir_all(&fresh));
        for part in ["Cargo.toml", "Cargo.lock", "crates", "xtask"] {
            copy(&self.root.join(part), &fresh.join(part));
        }
        PATCHES.iter().try_for_each(|(name, _)| self.apply(name, &fresh))?;
        rename(&fresh.join("Cargo.toml"));
        let (mut wanted, mut there) = (Vec::new(), Vec::new());
        list(&fresh, &mut wanted);
        list(&self.tree, &mut there);
        for path in there {
            let part = path.strip_prefix(&self.tree).expect("listed below it");
            if !fresh.join(part).exists() {
                fs::remove_file(&path).expect("it is ours");
            }
        }
        for path in wanted {
            copy(&path, &self.tree.join(path.strip_prefix(&fresh).expect("listed below it")));
        }
        fs::remove_dir_all(&fresh).map_err(|error| error.to_string())
    }

    /// Applies a patch to a tree.
    fn apply(&self, name: &str, tree: &Path) -> Result<(), String> {
        let patch = self.root.join(format!("crates/testing/tests/defects/{name}.patch"));
        let mut command = Command::new("patch");
        command.args(["-p1", "--fuzz=0", "--batch", "--no-backup-if-mismatch", "-i"]).arg(&patch);
        let output = command.current_dir(tree).output().expect("patch, of the package of this name");
        match output.status.success() {
            true => Ok(()),
            false => Err(format!(
                "{name}: the patch does not apply any more: {}",
                String::from_utf8_lossy(&output.stdout)
            )),
        }
    }

    /// Builds the simulator; returns the path of the program.
    fn build(&self) -> Result<PathBuf, String> {
        let mut command = Command::new(env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
        // With the features of the whole workspace, as in its own tests.
        command.args(["test", "--workspace", "--test", "schedules", "--no-run", "--message-format=json"]);
        command.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        let output = command.output().expect("cargo");
        if !output.status.success() {
            return Err(format!("it does not build: {}", String::from_utf8_lossy(&output.stderr)));
        }
        let lines = String::from_utf8_lossy(&output.stdout);
        let built = lines.lines().filter_map(|line| line.split_once("\"executable\":\""));
        let program = built.filter_map(|(_, rest)| rest.split('"').next()).next_back();
        program.map(PathBuf::from).ok_or("no program was built".into())
    }
}

/// Gives the copy another version than the original. Cargo names what it builds by a package's name, version and place in its
/// workspace: with the same version the libraries with defects would take the place of the original's.
fn rename(manifest: &Path) {
    let text = fs::read_to_string(manifest).expect("the workspace's manifest");
    let (before, after) = text.split_once("[workspace.package]\nversion = \"").expect("a version");
    let (version, rest) = after.split_once('"').expect("the end of a version");
    let renamed = format!("{before}[workspace.package]\nversion = \"{version}+defects\"{rest}");
    fs::write(manifest, renamed).expect("room");
}

/// Copies a file or a directory, without build directories. What is equal already is not written.
fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        for entry in fs::read_dir(from).expect("a directory") {
            let name = entry.expect("a directory").file_name();
            if name != "target" {
                copy(&from.join(&name), &to.join(&name));
            }
        }
        return;
    }
    let content = fs::read(from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    if fs::read(to).ok().as_ref() != Some(&content) {
        fs::create_dir_all(to.parent().expect("below a tree")).expect("room");
        fs::write(to, content).expect("room");
    }
}

/// Lists all files below a directory.
fn list(directory: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.map(|entry| entry.expect("a directory").path()) {
        match path.is_dir() {
            true => list(&path, files),
            false => files.push(path),
        }
    }
}

/// Runs schedules on a volume with a defect from a seed on until one has a finding. Returns the line with its seed, if
/// there was one in time, and the processor time used.
fn look(program: &Path, patch: &str, volume: &str, first: u64) -> (Option<String>, Duration) {
    let mut command = Command::new(program);
    command.env("PLATTER_DEFECT", patch.split('-').next().expect("a number"));
    command.args(["--ignored", "--exact", "--nocapture", "one_volume"]).env("PLATTER_VOLUME", volume);
    command.env("PLATTER_SEED", first.to_string()).env("PLATTER_SCHEDULES", SEEDS.to_string());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("just built");
    let output = child.stdout.take().expect("asked for");
    let (found, is_found) = channel();
    let is_finding = format!("{volume}: seed ");
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        let line = lines.into_iter().find(|line| line.contains(&is_finding));
        drop(found.send(line));
    });
    let started = Instant::now();
    let (seed, time) = loop {
        let answer = is_found.recv_timeout(Duration::from_millis(100));
        let time = processor_time(child.id());
        match answer {
            Ok(seed) => break (seed, time),
            Err(_) if time >= MOST || started.elapsed() >= MOST_BY_THE_CLOCK => break (None, time),
            Err(_) => {}
        }
    };
    drop(child.kill());
    drop(child.wait());
    drop(reader.join());
    (seed, time)
}

#[test]
fn each_defect_is_found_again() {
    let first = env::var("PLATTER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let copy = Copy::new();
    let started = Instant::now();
    let program = copy.refresh().and_then(|()| copy.build()).unwrap_or_else(|error| panic!("{error}"));
    println!("built in {:.1} s", started.elapsed().as_secs_f64());
    let mut missed = Vec::new();
    for (patch, volumes) in PATCHES {
        for volume in *volumes {
            let (seed, time) = look(&program, patch, volume, first);
            let seconds = time.as_secs_f64();
            match seed {
                Some(seed) => println!("{patch}: {seed}, in {seconds:.1} s"),
                None => missed.push(format!("{patch}: not found on {volume} within {seconds:.1} s")),
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// Every patch must be used.
#[test]
fn every_patch_is_applied() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/defects");
    let mut there = Vec::new();
    list(&directory, &mut there);
    let mut names: Vec<String> =
        there.iter().map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned()).collect();
    names.sort();
    let known: Vec<&str> = PATCHES.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, known);
}
