//! The other implementations that judge ours: exfatprogs, exfat-fuse, dissect.fat and the Linux kernel. A missing one
//! fails the test.
#![allow(dead_code, reason = "each test binary uses a part of this")]

use platter_vfs::{Cursor, Extent, FileSystem, Kind, Node, Place};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};

pub use platter_vfs::model::ImageFile;
use platter_vfs::model::{TREE_SCRIPT, linux};

pub fn output(program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .output()
        .unwrap_or_else(|error| panic!("{program} (from exfatprogs or exfat-fuse) cannot be run: {error}"))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs a tool that must succeed, and returns what it printed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = output(program, arguments);
    assert!(output.status.success(), "{program} {arguments:?} failed:\n{}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What fsck.exfat says.
pub struct Verdict {
    /// Whether it found nothing to complain of.
    pub clean: bool,
    /// What it printed.
    pub output: String,
}

/// Has fsck.exfat judge an image, changing nothing.
pub fn fsck(image: &ImageFile) -> Verdict {
    let output = output("fsck.exfat", &["-n", "-v", image.path()]);
    let text = text(&output);
    // It exits with 0 for some things that it reports and would repair.
    let quiet = !text.contains("ERROR") && !text.contains("corrupted") && !text.contains("Fix");
    Verdict { clean: output.status.code() == Some(0) && quiet, output: text }
}

/// A file as others tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub size: u64,
    /// Seconds since 1970 of its last change.
    pub modified: i64,
    /// SHA-256 of its content.
    pub sum: String,
}

/// Paths of files of which the end was never written, so that it reads as zeroes whatever the clusters hold.
/// exfat-fuse 1.3, as Debian has it, reads the clusters: it is not asked for the content of these.
pub fn partly_written(system: &dyn FileSystem) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut todo = vec![(String::new(), Node::ROOT)];
    while let Some((path, directory)) = todo.pop() {
        let mut entries = Vec::new();
        system.read_directory(directory, Cursor::START, usize::MAX, &mut entries).unwrap();
        for entry in entries {
            let path = format!("{path}/{}", entry.name);
            let node = system.lookup(directory, &entry.name).unwrap();
            if entry.attributes.kind == Kind::Directory {
                todo.push((path, node));
                continue;
            }
            let unwritten = |extent: &Extent| matches!(extent.place, Place::Unwritten(_));
            if system.extents(node).unwrap().iter().any(unwritten) {
                found.insert(path);
            }
            system.forget(node, 1);
        }
    }
    found
}

/// Every file, or `None` for a directory, by path.
pub type Tree = BTreeMap<String, Option<File>>;

/// SHA-256 of some bytes, by sha256sum.
fn sum(bytes: &[u8]) -> String {
    let mut child = Command::new("sha256sum")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("sha256sum (from coreutils)");
    std::io::Write::write_all(child.stdin.as_mut().expect("a pipe"), bytes).expect("a pipe that takes it");
    let output = child.wait_with_output().expect("sha256sum ends");
    String::from_utf8_lossy(&output.stdout).split(' ').next().expect("a sum").to_owned()
}

/// Everything on a volume, as we read it.
pub fn ours(system: &dyn FileSystem) -> Tree {
    let mut tree = Tree::new();
    let mut todo = vec![(String::new(), Node::ROOT)];
    while let Some((path, directory)) = todo.pop() {
        let mut entries = Vec::new();
        system.read_directory(directory, Cursor::START, usize::MAX, &mut entries).unwrap();
        for entry in entries {
            let path = format!("{path}/{}", entry.name);
            let node = system.lookup(directory, &entry.name).unwrap();
            if entry.attributes.kind == Kind::Directory {
                tree.insert(path.clone(), None);
                todo.push((path, node));
                continue;
            }
            let size = entry.attributes.size;
            let mut content = vec![0; size as usize + 1];
            let read = system.read(node, 0, &mut content).unwrap();
            assert_eq!(read as u64, size, "{path}");
            let modified = entry.attributes.modified.seconds;
            tree.insert(path, Some(File { size, modified, sum: sum(&content[..read]) }));
            system.forget(node, 1);
        }
    }
    tree
}

/// An image mounted with exfat-fuse, which wants a block device.
pub struct Mount {
    device: String,
    path: String,
}

impl Mount {
    /// To be read. With writing allowed, exfat-fuse notes when files are read, and forgets how far they were written.
    pub fn reading(image: &ImageFile) -> Mount {
        Mount::new(image, "ro")
    }

    /// To be written.
    pub fn writing(image: &ImageFile) -> Mount {
        Mount::new(image, "rw")
    }

    fn new(image: &ImageFile, how: &str) -> Mount {
        let device = run("losetup", &["-f", "--show", image.path()]).trim().to_owned();
        let path = format!("{}.mounted", image.path());
        std::fs::create_dir(&path).expect("a writable temporary directory");
        let mount = Mount { device, path };
        run("mount.exfat-fuse", &["-o", how, &mount.device, &mount.path]);
        mount
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        let mut todo = vec![(String::new(), std::path::PathBuf::from(&self.path))];
        while let Some((path, directory)) = todo.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                let path = format!("{path}/{}", entry.file_name().to_str().expect("a name in UTF-8"));
                if entry.file_type().unwrap().is_dir() {
                    tree.insert(path.clone(), None);
                    todo.push((path, entry.path()));
                    continue;
                }
                let data = entry.metadata().unwrap();
                let since = data.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
                let sum = sum(&std::fs::read(entry.path()).unwrap());
                // exfat-fuse counts a 29 February in 2100 and is a day late from then on.
                const MARCH_2100: i64 = 4_107_542_400;
                let modified = since.as_secs() as i64;
                let modified = if modified >= MARCH_2100 { modified - 86_400 } else { modified };
                tree.insert(path, Some(File { size: data.len(), modified, sum }));
            }
        }
        tree
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        drop(output("umount", &[&self.path]));
        drop(output("losetup", &["-d", &self.device]));
        drop(std::fs::remove_dir(&self.path));
    }
}

/// Everything in an image, as dissect.fat reads it.
pub fn dissect(image: &ImageFile) -> Tree {
    let text =
        run("python3", &[concat!(env!("CARGO_MANIFEST_DIR"), "/tests/judges/dissect_tree.py"), image.path()]);
    text.lines()
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields[..] {
                ["d", path] => (path.to_owned(), None),
                ["f", size, modified, sum, path] => {
                    let (size, modified) = (size.parse().unwrap(), modified.parse().unwrap());
                    (path.to_owned(), Some(File { size, modified, sum: sum.to_owned() }))
                }
                _ => panic!("dissect_tree.py printed {line:?}"),
            }
        })
        .collect()
}

/// Everything in an image, as an emulated Linux reads it: sizes and sums.
pub fn kernel(image: &ImageFile) -> BTreeMap<String, Option<(u64, String)>> {
    let judged = linux("exfat", "ro,iocharset=utf8", image, TREE_SCRIPT);
    let listing =
        judged.output.unwrap_or_else(|| panic!("Linux did not mount the volume:\n{}", judged.messages));
    assert!(!judged.messages.contains("exFAT-fs (vda): error"), "{}", judged.messages);
    listing
        .lines()
        .map(|line| match line.strip_prefix("d ") {
            Some(path) => (path.to_owned(), None),
            None => match line.splitn(4, ' ').collect::<Vec<_>>()[..] {
                ["f", size, sum, path] => (path.to_owned(), Some((size.parse().unwrap(), sum.to_owned()))),
                _ => panic!("the script printed {line:?}"),
            },
        })
        .collect()
}
