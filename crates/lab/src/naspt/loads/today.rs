//! Further loads of today: images of virtual machines, commits of a database, synthetic full backups, a source tree.
//!
//! They are Platter's own and imitate no published load; `docs/today.md` describes them.

use super::{KIB, Load, MB, Replay, What, sizes};
use crate::Result;
use crate::experiment::Direction;
use crate::naspt::files::Files;
use fastrand::Rng;

/// The kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Today {
    /// Small random I/Os on large files, with or without snapshots taken meanwhile.
    Images { snapshots: bool },
    /// Reads, and small appended writes that are each made durable before the next begins.
    Commit,
    /// A full backup that is made from an older one and its increments, by copying or by cloning their clusters.
    Backup { clones: bool },
    /// One step of working with a source tree.
    Tree(Step),
}

/// A step of working with a source tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Unpack,
    Build,
    Clean,
}

const fn load(name: &'static str, direction: Direction, about: &'static str, what: Today) -> Load {
    Load { name, direction, about, what: What::Today(what) }
}

const IMAGES: &str = "4 images of 1 GB, 8 KiB at random, 70 % reads";
pub(crate) const IMAGE_LOADS: [Load; 2] = [
    load("images", Direction::Mix, IMAGES, Today::Images { snapshots: false }),
    load("images with snapshots", Direction::Mix, IMAGES, Today::Images { snapshots: true }),
];

pub(crate) const COMMIT_LOADS: [Load; 1] =
    [load("commit", Direction::Mix, "4 reads of 8 KiB, 4 KiB appended, one flush", Today::Commit)];

const BACKUP: &str = "4 GB of an older full and 6 increments, in blocks of 512 KiB";
pub(crate) const BACKUP_LOADS: [Load; 2] = [
    load("synthetic full by copying", Direction::Mix, BACKUP, Today::Backup { clones: false }),
    load("synthetic full by block clone", Direction::Write, BACKUP, Today::Backup { clones: true }),
];

const TREE: &str = "40,000 files, log-normal sizes with a median of 4 KB, 25 in a folder";
pub(crate) const TREE_LOADS: [Load; 3] = [
    load("unpack", Direction::Write, TREE, Today::Tree(Step::Unpack)),
    load("build", Direction::Mix, TREE, Today::Tree(Step::Build)),
    load("clean", Direction::Write, TREE, Today::Tree(Step::Clean)),
];

const IMAGE_COUNT: u64 = 4;
const IMAGE: u64 = 1000 * MB;
const IMAGE_IO: u64 = 8 * KIB;
/// The number of I/Os on all images at full scale, and the number of snapshots of each image taken meanwhile.
const IMAGE_IOS: u64 = 160_000;
const SNAPSHOTS: u64 = 8;

const DATABASE: u64 = 1000 * MB;
const COMMITS: u64 = 16_000;
const RECORD: u64 = 4 * KIB;

const FULL: u64 = 4000 * MB;
const BACKUP_BLOCK: u64 = 512 * KIB;
const INCREMENTS: u64 = 6;
/// The size of an increment in percent of a full backup.
const CHANGED: u64 = 5;

const SOURCES: u64 = 40_000;
const IN_A_FOLDER: u64 = 25;
/// The number of other files that each source includes.
const HEADERS: u64 = 8;

fn in_blocks(bytes: u64, block: u64) -> u64 {
    (bytes / block).max(1) * block
}

impl Today {
    /// The size of the largest I/O in bytes.
    pub(crate) fn block(self) -> u64 {
        match self {
            Today::Images { .. } | Today::Commit => IMAGE_IO,
            Today::Backup { .. } => BACKUP_BLOCK,
            Today::Tree(_) => 64 * KIB,
        }
    }

    /// The greatest number of bytes that the load's files take, with clusters that snapshots and clones keep.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Today::Images { .. } => IMAGE * IMAGE_COUNT * 2,
            Today::Commit => DATABASE + COMMITS * RECORD,
            Today::Backup { .. } => FULL * 3,
            Today::Tree(_) => 6000 * MB,
        }
    }

    /// Draws the sizes of the files that exist before the load.
    pub(crate) fn sizes(self, scale: u64, rng: &mut Rng) -> Vec<u64> {
        match self {
            Today::Images { .. } => vec![in_blocks(IMAGE / scale, IMAGE_IO); IMAGE_COUNT as usize],
            Today::Commit => vec![in_blocks(DATABASE / scale, IMAGE_IO)],
            Today::Backup { .. } => {
                let full = in_blocks(FULL / scale, BACKUP_BLOCK);
                let increment = in_blocks(full * CHANGED / 100, BACKUP_BLOCK);
                std::iter::once(full).chain((0..INCREMENTS).map(|_| increment)).collect()
            }
            Today::Tree(_) => sizes(SOURCES / scale, 4_000.0, 1e6, None, rng),
        }
    }

    /// The number of folders that the files are in.
    pub(crate) fn folders(self, scale: u64) -> u64 {
        match self {
            Today::Tree(_) => (SOURCES / scale).div_ceil(IN_A_FOLDER),
            _ => 1,
        }
    }

    /// Whether the load's files exist before it.
    pub(crate) fn is_there(self) -> bool {
        self != Today::Tree(Step::Unpack)
    }

    /// Returns why the load cannot be run on these files; `None` if it can.
    pub(crate) fn lacks(self, files: &Files) -> Option<&'static str> {
        match self {
            Today::Images { snapshots: true } if !files.has_snapshots() => {
                Some("it has no snapshots of files")
            }
            Today::Backup { clones: true } if !files.has_clones() => Some("its files cannot share clusters"),
            _ => None,
        }
    }
}

/// The name of the object file that is made from a source.
fn object(source: &str) -> String {
    format!("{source}.o")
}

impl Replay<'_> {
    pub(super) fn today(&mut self, today: Today, scale: u64) -> Result<()> {
        match today {
            Today::Images { snapshots } => self.images(snapshots, IMAGE_IOS / scale),
            Today::Commit => self.commits(COMMITS / scale),
            Today::Backup { clones } => self.backup(clones),
            Today::Tree(Step::Unpack) => self.unpack(scale),
            Today::Tree(Step::Build) => self.build(),
            Today::Tree(Step::Clean) => self.clean(),
        }
    }

    fn images(&mut self, snapshots: bool, ios: u64) -> Result<()> {
        let size = self.ready.files[0].2;
        let mut images =
            (0..self.ready.files.len()).map(|file| self.open(file)).collect::<Result<Vec<_>>>()?;
        for io in 0..ios {
            if snapshots && io % (ios / SNAPSHOTS).max(1) == 0 {
                let name = format!("snapshot {io}");
                images.iter().try_for_each(|image| self.files.snapshot(image, &name))?;
            }
            let which = self.rng.usize(..images.len());
            let offset = self.rng.u64(..size / IMAGE_IO) * IMAGE_IO;
            match self.rng.u8(..100) < 70 {
                true => self.read(&images[which], offset, IMAGE_IO)?,
                false => self.write(&mut images[which], offset, IMAGE_IO)?,
            }
        }
        for image in images {
            self.files.remove_snapshots(&image)?;
            self.files.close(image)?;
        }
        Ok(())
    }

    fn commits(&mut self, count: u64) -> Result<()> {
        let size = self.ready.files[0].2;
        let database = self.open(0)?;
        let mut log = self.create(0, "log".into())?;
        for commit in 0..count {
            for _ in 0..4 {
                let offset = self.rng.u64(..size / IMAGE_IO) * IMAGE_IO;
                self.read(&database, offset, IMAGE_IO)?;
            }
            self.write(&mut log, commit * RECORD, RECORD)?;
            self.files.sync_file(&log)?;
        }
        self.files.close(log)?;
        self.files.close(database)
    }

    fn backup(&mut self, clones: bool) -> Result<()> {
        let sources = (0..self.ready.files.len()).map(|file| self.open(file)).collect::<Result<Vec<_>>>()?;
        let size = self.ready.files[0].2;
        let increment = self.ready.files[1].2;
        let mut next = vec![0; sources.len()];
        let mut made = self.create(0, "synthetic full".into())?;
        for at in (0..size).step_by(BACKUP_BLOCK as usize) {
            // Each increment supplies 5 % of the blocks, in the increment's own order; the other blocks are those of
            // the older full at the same offset.
            let from = self.rng.usize(..100) as u64 / CHANGED;
            let from = if (1..=INCREMENTS).contains(&from) { from as usize } else { 0 };
            let offset = match from {
                0 => at,
                _ => next[from] % increment,
            };
            next[from] += BACKUP_BLOCK;
            if clones {
                self.files.clone_range(&sources[from], offset, &mut made, at, BACKUP_BLOCK)?;
            } else {
                self.files.read(&sources[from], offset, &mut self.buffer[..BACKUP_BLOCK as usize])?;
                self.files.write(&mut made, at, &self.buffer[..BACKUP_BLOCK as usize])?;
            }
        }
        self.files.close(made)?;
        sources.into_iter().try_for_each(|source| self.files.close(source))
    }

    fn unpack(&mut self, scale: u64) -> Result<()> {
        let top = self.ready.folders[0].clone();
        for folder in 1..Today::Tree(Step::Unpack).folders(scale) {
            let made = self.files.folder(&top, &format!("folder {folder}"))?;
            self.ready.folders.push(made);
        }
        self.copy_in()
    }

    fn build(&mut self) -> Result<()> {
        let count = self.ready.files.len();
        let mut total = 0;
        for file in 0..count {
            let (folder, name, size) = self.ready.files[file].clone();
            let place = self.ready.folders[folder].clone();
            self.files.size(&place, &name)?;
            self.whole(file, u64::MAX)?;
            for _ in 0..HEADERS {
                let header = self.rng.usize(..count);
                self.whole(header, 8 * KIB)?;
            }
            let mut made = self.create(folder, object(&name))?;
            self.write_all(&mut made, size + size / 2)?;
            self.files.close(made)?;
            total += size + size / 2;
        }
        for file in 0..count {
            let (folder, name, _) = self.ready.files[file].clone();
            let place = self.ready.folders[folder].clone();
            let size = self.files.size(&place, &object(&name))?;
            let open = self.files.open(&place, &object(&name))?;
            for offset in (0..size).step_by(64 << 10) {
                self.read(&open, offset, (size - offset).min(64 * KIB))?;
            }
            self.files.close(open)?;
        }
        let mut binary = self.create(0, "binary".into())?;
        self.write_all(&mut binary, total)?;
        self.files.close(binary)
    }

    fn clean(&mut self) -> Result<()> {
        // Every other file plays the part of a file that a build has made.
        for file in 0..self.ready.files.len() {
            if file % 2 == 1 {
                let (folder, name, _) = self.ready.files[file].clone();
                let place = self.ready.folders[folder].clone();
                self.files.delete(&place, &name)?;
            }
        }
        let mut file = 0;
        self.ready.files.retain(|_| {
            file += 1;
            file % 2 == 1
        });
        Ok(())
    }
}
