//! The other implementations that judge Platter's. A missing one fails the test.

pub(crate) mod facts;
pub(crate) mod readers;

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use platter_device::{Device, MemoryDevice, Partition, Sectors};
use std::sync::Arc;

pub(crate) use platter_testing::model::ImageFile;

pub(crate) fn output(program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .output()
        .unwrap_or_else(|error| panic!("{program} (from ntfs-3g) cannot be run: {error}"))
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs a tool that must succeed, and returns what it printed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let output = output(program, arguments);
    assert!(output.status.success(), "{program} {arguments:?} failed:\n{}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The volume that Windows made, in `tests/data`.
pub(crate) fn windows() -> Partition {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/windows-10.raw.gz");
    let output = output("gzip", &["-dc", path]);
    assert!(output.status.success(), "{}", text(&output));
    let disk: Arc<dyn Device> = Arc::new(MemoryDevice::from_image(&output.stdout, Sectors::SMALL));
    // The place of the volume, as the disk's partition table has it.
    Partition::new(disk, 128 * 512, 518_144 * 512, "windows-10".into()).unwrap()
}

/// A new volume made by mkntfs.
pub(crate) fn made(length: u64, cluster: u64) -> ImageFile {
    let image = ImageFile::empty(length);
    let cluster = cluster.to_string();
    run("mkntfs", &["-F", "-q", "-c", &cluster, "-L", "Made by mkntfs", image.path()]);
    image
}

/// The verdict of a tool about an image.
pub(crate) struct Verdict {
    /// Whether the tool found nothing to complain of.
    pub clean: bool,
    /// The output of the tool.
    pub output: String,
}

/// Has ntfsfix judge an image, changing nothing.
pub(crate) fn ntfsfix(image: &ImageFile) -> Verdict {
    let output = output("ntfsfix", &["-n", image.path()]);
    let told = text(&output);
    let clean = output.status.success() && !told.contains("FAILED") && !told.contains("orrupt");
    Verdict { clean, output: told }
}

/// The content of a file: its length and a sum, or why it cannot be read.
pub(crate) type AttributeContent = Result<(u64, u64), String>;

/// The length and a sum of content.
pub(crate) fn sum(bytes: &[u8]) -> (u64, u64) {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    (bytes.len() as u64, hasher.finish())
}

/// A volume mounted by ntfs-3g.
pub(crate) struct Mount {
    folder: PathBuf,
    program: Child,
}

impl Mount {
    /// Mounts an image for reading only.
    pub(crate) fn reading(image: &ImageFile) -> Result<Mount, String> {
        Mount::new(image, "ro")
    }

    /// Mounts an image for writing.
    pub(crate) fn writing(image: &ImageFile) -> Result<Mount, String> {
        Mount::new(image, "rw,compression")
    }

    fn new(image: &ImageFile, options: &str) -> Result<Mount, String> {
        let folder = PathBuf::from(format!("{}.mount", image.path()));
        std::fs::create_dir_all(&folder).expect("a writable temporary directory");
        let folder_text = folder.to_str().expect("a path in UTF-8");
        let options = format!("no_detach,streams_interface=xattr,{options}");
        let mut program = Command::new("ntfs-3g")
            .args(["-o", &options, image.path(), folder_text])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("ntfs-3g cannot be run: {error}"));
        loop {
            if let Some(status) = program.try_wait().expect("a program to wait for") {
                let mut told = String::new();
                if let Some(mut stderr) = program.stderr.take() {
                    stderr.read_to_string(&mut told).ok();
                }
                std::fs::remove_dir(&folder).ok();
                return Err(format!("ntfs-3g ended with {status}: {told}"));
            }
            let mounts = std::fs::read_to_string("/proc/mounts").expect("/proc/mounts");
            if mounts.contains(folder_text) {
                return Ok(Mount { folder, program });
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// The folder where the volume is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    /// Runs a shell script in the root of the volume.
    pub(crate) fn script(&self, script: &str) {
        let output = Command::new("sh")
            .args(["-e", "-c", script])
            .current_dir(&self.folder)
            .env("LC_ALL", "C.UTF-8")
            .output()
            .expect("a shell");
        assert!(output.status.success(), "{script}\n{}", text(&output));
    }

    /// All files, by path from the root on; the reason for each that cannot be read.
    pub(crate) fn tree(&self) -> BTreeMap<String, AttributeContent> {
        let mut found = BTreeMap::new();
        let mut folders = vec![String::new()];
        while let Some(above) = folders.pop() {
            let entries = match std::fs::read_dir(self.folder.join(&above[above.len().min(1)..])) {
                Ok(entries) => entries,
                Err(error) => {
                    found.insert(above, Err(error.to_string()));
                    continue;
                }
            };
            for entry in entries {
                let entry = match entry {
                    Ok(entry) => entry,
                    Err(error) => {
                        found.insert(format!("{above}/?"), Err(error.to_string()));
                        continue;
                    }
                };
                let path = format!("{above}/{}", entry.file_name().to_string_lossy());
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(path),
                    Ok(kind) if kind.is_file() => {
                        let content = std::fs::read(entry.path()).map(|bytes| sum(&bytes));
                        found.insert(path, content.map_err(|error| error.to_string()));
                    }
                    Ok(_) => {}
                    Err(error) => drop(found.insert(path, Err(error.to_string()))),
                }
            }
        }
        found
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A program that looks at every mount may keep this one busy for a moment.
        let folder = self.folder.to_str().expect("a path in UTF-8");
        let is_ended = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            output("fusermount", &["-u", folder]).status.success()
        });
        if !is_ended {
            self.program.kill().ok();
        }
        // ntfs-3g has written everything when it ends.
        self.program.wait().ok();
        std::fs::remove_dir(&self.folder).ok();
    }
}
