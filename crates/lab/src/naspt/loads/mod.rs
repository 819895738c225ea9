//! The twelve loads of NASPT.
//!
//! How certain the facts are: verified (V) are the first three loads, the number of twelve, and that all loads replay
//! the recorded traffic of applications through the system's file calls; recalled from memory (R) are the files, sizes
//! and shares of the others; inferred (I) is whatever no fact is known for. See `docs/naspt.md`.

mod today;

pub(super) use today::{BACKUP_LOADS, COMMIT_LOADS, IMAGE_LOADS, TREE_LOADS, Today};

use super::files::{Files, ItemPlace, Open};
use crate::experiment::Direction;
use crate::{Error, Result};
use fastrand::Rng;
use platter_device::sync;

const KIB: u64 = 1024;
const MB: u64 = 1_000_000;

/// One load on files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// The load's name; NASPT's own for its twelve.
    pub name: &'static str,
    pub direction: Direction,
    /// The contents of the load, and how certain they are.
    pub about: &'static str,
    pub what: What,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// Several files with these total bytes are read or written sequentially; after each I/O the load switches to
    /// another file with a probability of `switch` percent.
    Streams {
        reads: u64,
        read_files: u64,
        writes: u64,
        write_files: u64,
        switch: u8,
        block: u64,
    },
    Content,
    Office,
    DirectoryTo,
    DirectoryFrom,
    Photos,
    Small(Phase),
    Today(Today),
}

/// The operation on each of many small files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Create,
    List,
    Stat,
    Read,
    Rename,
    Delete,
}

/// The number of small files at full scale, the number of files in a folder, and the bytes of a file.
const SMALL_FILES: u64 = 100_000;
const IN_A_FOLDER: u64 = 1000;
const SMALL: u64 = 4 * KIB;

const fn small(name: &'static str, direction: Direction, phase: Phase) -> Load {
    Load { name, direction, about: "files of 4 KiB, 1,000 in a folder", what: What::Small(phase) }
}

/// The loads on many small files, one for each operation.
pub(super) const SMALL_LOADS: [Load; 6] = [
    small("create", Direction::Write, Phase::Create),
    small("list", Direction::Read, Phase::List),
    small("stat", Direction::Read, Phase::Stat),
    small("read", Direction::Read, Phase::Read),
    small("rename", Direction::Write, Phase::Rename),
    small("delete", Direction::Write, Phase::Delete),
];

const fn streams(reads: u64, read_files: u64, writes: u64, write_files: u64, switch: u8) -> What {
    What::Streams { reads, read_files, writes, write_files, switch, block: 256 * KIB }
}

const fn copy(reads: u64, writes: u64) -> What {
    let (read_files, write_files) = (if reads > 0 { 1 } else { 0 }, if writes > 0 { 1 } else { 0 });
    What::Streams { reads, read_files, writes, write_files, switch: 0, block: 64 * KIB }
}

/// All loads, in the order of NASPT's results.
pub(super) const LOADS: [Load; 12] = [
    Load {
        name: "HD Video Playback",
        direction: Direction::Read,
        about: "V: 1 file of 1.3 GB, 256 KiB reads, 99.5 % in order",
        what: streams(1300 * MB, 1, 0, 0, 0),
    },
    Load {
        name: "2x HD Playback",
        direction: Direction::Read,
        about: "V: 2 files, 1.4 GB, 256 KiB reads, 18 % in order",
        what: streams(1400 * MB, 2, 0, 0, 82),
    },
    Load {
        name: "4x HD Playback",
        direction: Direction::Read,
        about: "V: 4 files of 310 MB, 256 KiB reads, 10 % in order",
        what: streams(1240 * MB, 4, 0, 0, 90),
    },
    Load {
        name: "HD Video Record",
        direction: Direction::Write,
        about: "R: 1 file of 1.6 GB, 256 KiB writes in order",
        what: streams(0, 0, 1600 * MB, 1, 0),
    },
    Load {
        name: "HD Playback and Record",
        direction: Direction::Mix,
        about: "R: 1 GB read and 1 GB written, 256 KiB, 18 % in order",
        what: streams(1000 * MB, 1, 1000 * MB, 1, 82),
    },
    Load {
        name: "Content Creation",
        direction: Direction::Mix,
        about: "R: 98 files, 95 % writes, 39 % in order; I: sizes, 200 MB",
        what: What::Content,
    },
    Load {
        name: "Office Productivity",
        direction: Direction::Mix,
        about: "R: 607 files, 1.4 GB read, mostly by 1 KiB, and 1.4 GB written, mostly by 12 KiB, 81 % in order",
        what: What::Office,
    },
    Load {
        name: "File copy to NAS",
        direction: Direction::Write,
        about: "R: 1 file of 1.4 GB, 64 KiB writes",
        what: copy(0, 1400 * MB),
    },
    Load {
        name: "File copy from NAS",
        direction: Direction::Read,
        about: "R: 1 file of 1.4 GB, 64 KiB reads",
        what: copy(1400 * MB, 0),
    },
    Load {
        name: "Dir copy to NAS",
        direction: Direction::Write,
        about: "R: 2,833 files, 247 MB; I: 44 folders, log-normal sizes with a median of 12 KB",
        what: What::DirectoryTo,
    },
    Load {
        name: "Dir copy from NAS",
        direction: Direction::Read,
        about: "R: 2,833 files, 247 MB; I: as above",
        what: What::DirectoryFrom,
    },
    Load {
        name: "Photo Album",
        direction: Direction::Read,
        about: "R: 169 files, 1.2 GB, each opened twice; I: first 64 KiB, then all of it",
        what: What::Photos,
    },
];

#[cfg(test)]
impl What {
    /// The probability in percent that the next I/O goes to another stream; `None` for loads without streams.
    pub(super) fn switch_percent(self) -> Option<u8> {
        match self {
            What::Streams { switch, .. } => Some(switch),
            _ => None,
        }
    }
}

/// A load whose files are prepared.
pub(super) struct Ready {
    folders: Vec<ItemPlace>,
    /// For each file: the index of its folder, its name and its size.
    files: Vec<(usize, String, u64)>,
    /// Whether the files exist before the load.
    is_there: bool,
    /// The files that the load itself creates.
    made: Vec<(usize, String)>,
}

impl Ready {
    /// Drops the prepared files from the host's page cache.
    pub(super) fn forget_content(&self, files: &Files) -> Result<()> {
        if self.is_there {
            for (folder, name, _) in &self.files {
                files.forget_content(&self.folders[*folder], name)?;
            }
        }
        files.forget_block()
    }
}

/// Bytes of each write that prepares files.
const PIECE: usize = 1 << 20;

impl Load {
    /// The size of the largest I/O in bytes.
    pub(super) fn block(&self) -> u64 {
        match self.what {
            What::Streams { block, .. } => block,
            What::Small(_) => SMALL,
            What::Today(today) => today.block(),
            _ => 64 * KIB,
        }
    }

    /// The greatest number of bytes that the load's files take.
    pub(super) fn bytes(&self, scale: u64) -> u64 {
        let bytes = match self.what {
            What::Streams { reads, writes, .. } => reads + writes,
            What::Content => 200 * MB,
            What::Office => 1400 * MB,
            What::DirectoryTo | What::DirectoryFrom => 260 * MB,
            What::Photos => 1200 * MB,
            What::Small(_) => SMALL_FILES * SMALL * 2,
            What::Today(today) => today.bytes(),
        };
        bytes / scale + (8 << 20)
    }

    /// Makes the load's files. No policy applies and no time counts yet.
    ///
    /// # Errors
    /// [`Error::Interrupted`] when `stop` says so.
    pub(super) fn prepare(
        &self,
        files: &mut Files,
        scale: u64,
        seed: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<Ready> {
        let root = files.root();
        let mut rng = Rng::with_seed(seed);
        let is_there = match self.what {
            What::DirectoryTo | What::Small(Phase::Create) => false,
            What::Today(today) => today.is_there(),
            _ => true,
        };
        let folders = vec![files.folder(&root, self.name)?];
        let mut ready = Ready { folders, files: Vec::new(), is_there, made: Vec::new() };
        let even = |count: u64, bytes: u64| (0..count).map(move |_| bytes / count.max(1) / scale).collect();
        let sizes: Vec<u64> = match self.what {
            What::Streams { reads, read_files, .. } => even(read_files, reads),
            What::Content => even((98 / scale).max(8), 200 * MB * (98 / scale).max(8) / 98 * scale),
            What::Office => even((607 / scale).max(8), 1400 * MB),
            What::Photos => even((169 / scale).max(8), 1200 * MB),
            What::DirectoryTo | What::DirectoryFrom => directory(scale, &mut rng),
            What::Small(_) => vec![SMALL; (SMALL_FILES / scale) as usize],
            What::Today(today) => today.sizes(scale, &mut rng),
        };
        let folders = match self.what {
            What::DirectoryTo | What::DirectoryFrom => (44 / scale).max(2),
            What::Small(_) => (SMALL_FILES / scale).div_ceil(IN_A_FOLDER),
            What::Today(today) => today.folders(scale),
            _ => 1,
        };
        // A tree that is unpacked brings its own folders.
        let made = if matches!(self.what, What::Today(_)) && !is_there { 1 } else { folders };
        for folder in 1..made {
            let parent = ready.folders[0].clone();
            ready.folders.push(files.folder(&parent, &format!("folder {folder}"))?);
        }
        let each = (sizes.len() as u64).div_ceil(folders).max(1);
        for (size, number) in sizes.into_iter().zip(0..) {
            let folder = (number / each) as usize;
            // Files that are accessed at random places must be as large as the largest I/O.
            let least = if folders == 1 { 64 * KIB } else { 1 };
            ready.files.push((folder, format!("file {number}.dat"), size.max(least)));
        }
        if !is_there {
            // The load creates its files itself.
            return Ok(ready);
        }
        let mut content = vec![0; PIECE];
        // Nothing in virtual time depends on the content, and zeroes take no memory.
        if !sync::is_virtual() {
            rng.fill(&mut content);
        }
        for (folder, name, size) in &ready.files {
            let mut open = files.create(&ready.folders[*folder], name)?;
            for offset in (0..*size).step_by(PIECE) {
                if stop() {
                    return Err(Error::Interrupted);
                }
                let length = (*size - offset).min(PIECE as u64) as usize;
                files.write(&mut open, offset, &content[..length])?;
            }
            files.close(open)?;
        }
        Ok(ready)
    }

    /// Runs the load.
    pub(super) fn replay(&self, files: &mut Files, ready: &mut Ready, scale: u64, seed: u64) -> Result<()> {
        let (rng, buffer) = (Rng::with_seed(seed), vec![0; 1 << 20]);
        let mut replay = Replay { files, ready, rng, buffer, has_content: !sync::is_virtual() };
        if replay.has_content {
            replay.rng.fill(&mut replay.buffer);
        }
        match self.what {
            What::Streams { writes, write_files, switch, block, .. } => {
                replay.streams(writes / scale, write_files, switch, block)
            }
            What::Content => replay.content(),
            What::Office => replay.office(),
            What::DirectoryTo => replay.copy_in(),
            What::DirectoryFrom => replay.directory_from(),
            What::Photos => replay.photos(),
            What::Small(phase) => replay.small(phase),
            What::Today(today) => replay.today(today, scale),
        }
    }

    /// Removes the load's files.
    pub(super) fn clear(&self, files: &Files, ready: &Ready) -> Result<()> {
        let own = ready.files.iter().map(|(folder, name, _)| (folder, name));
        let made = ready.made.iter().map(|(folder, name)| (folder, name));
        let mut all: Vec<(&usize, &String)> = own.chain(made).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().try_for_each(|(folder, name)| files.remove(&ready.folders[*folder], name))
    }
}

/// Draws the sizes of a tree of 2,833 files and 247 MB: log-normal with a median of 12 KB, at most 8 MB.
fn directory(scale: u64, rng: &mut Rng) -> Vec<u64> {
    let count = (2833 / scale).max(16);
    sizes(count, 12_000.0, 8e6, Some(247e6 * count as f64 / 2833.0), rng)
}

/// Draws `count` log-normal sizes with a median and an upper limit, scaled to a sum if one is given.
pub(super) fn sizes(count: u64, median: f64, most: f64, sum: Option<f64>, rng: &mut Rng) -> Vec<u64> {
    let draw = |_| {
        let (u, v) = (1.0 - rng.f64(), rng.f64());
        let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        (median * (2.0 * normal).exp()).min(most)
    };
    let sizes: Vec<f64> = (0..count).map(draw).collect();
    let factor = sum.map_or(1.0, |sum| sum / sizes.iter().sum::<f64>());
    sizes.into_iter().map(|size| (size * factor).max(1.0) as u64).collect()
}

struct Replay<'a> {
    files: &'a mut Files,
    ready: &'a mut Ready,
    rng: Rng,
    buffer: Vec<u8>,
    has_content: bool,
}

impl Replay<'_> {
    fn open(&mut self, file: usize) -> Result<Open> {
        let (folder, name, _) = &self.ready.files[file];
        self.files.open(&self.ready.folders[*folder], name)
    }

    fn read(&mut self, open: &Open, offset: u64, length: u64) -> Result<()> {
        self.files.read(open, offset, &mut self.buffer[..length as usize])
    }

    /// Makes the first bytes random, so that no two writes are alike.
    fn vary(&mut self) {
        if self.has_content {
            self.buffer[..8].copy_from_slice(&self.rng.u64(..).to_le_bytes());
        }
    }

    fn write(&mut self, open: &mut Open, offset: u64, length: u64) -> Result<()> {
        self.vary();
        self.files.write(open, offset, &self.buffer[..length as usize])
    }

    fn create(&mut self, folder: usize, name: String) -> Result<Open> {
        let open = self.files.create(&self.ready.folders[folder], &name)?;
        self.ready.made.push((folder, name));
        Ok(open)
    }

    /// Reads or writes each file from its beginning to its end, switching between the files at random.
    fn streams(&mut self, writes: u64, write_files: u64, switch: u8, block: u64) -> Result<()> {
        let reading = self.ready.files.len();
        let mut streams: Vec<(Open, bool, u64, u64)> = Vec::new();
        for file in 0..reading {
            let size = self.ready.files[file].2;
            streams.push((self.open(file)?, true, 0, size));
        }
        for file in 0..write_files {
            let open = self.create(0, format!("new {file}.dat"))?;
            streams.push((open, false, 0, writes / write_files));
        }
        let mut current = 0;
        while !streams.is_empty() {
            let count = streams.len();
            if count > 1 && self.rng.u8(..100) < switch {
                current += self.rng.usize(1..count);
            }
            current %= count;
            let (open, is_read, offset, end) = &mut streams[current];
            let length = block.min(*end - *offset);
            if length > 0 {
                let at = *offset;
                *offset += length;
                if *is_read {
                    self.files.read(open, at, &mut self.buffer[..length as usize])?;
                } else {
                    self.vary();
                    self.files.write(open, at, &self.buffer[..length as usize])?;
                }
            }
            if offset == end {
                let (open, ..) = streams.remove(current);
                self.files.close(open)?;
            }
        }
        Ok(())
    }

    /// Draws one of several sizes in KiB by weight; returns it in bytes.
    fn size(&mut self, sizes: [(u64, u8); 4]) -> u64 {
        let mut drawn = self.rng.u8(..100);
        for (size, weight) in sizes {
            if drawn < weight {
                return size * KIB;
            }
            drawn -= weight;
        }
        sizes[3].0 * KIB
    }

    /// Goes from file to file, with 64 I/Os while each is open, until `bytes` bytes were read and written.
    fn bursts(&mut self, writes: u8, in_order: u8, bytes: u64, of: [[(u64, u8); 4]; 2]) -> Result<()> {
        let count = self.ready.files.len();
        let mut moved = 0;
        let mut file = 0;
        while moved < bytes {
            let size = self.ready.files[file].2;
            let mut open = self.open(file)?;
            let mut next = 0;
            for _ in 0..64 {
                let is_write = self.rng.u8(..100) < writes;
                let length = self.size(of[usize::from(is_write)]).min(size);
                if self.rng.u8(..100) >= in_order || next + length > size {
                    next = self.rng.u64(..=(size - length) / KIB) * KIB;
                }
                match is_write {
                    true => self.write(&mut open, next, length)?,
                    false => self.read(&open, next, length)?,
                }
                next += length;
                moved += length;
            }
            self.files.close(open)?;
            file = (file + 1) % count;
        }
        Ok(())
    }

    fn content(&mut self) -> Result<()> {
        let bytes = self.ready.files.iter().map(|(.., size)| size).sum();
        let sizes = [(1, 25), (4, 35), (12, 20), (64, 20)];
        self.bursts(95, 39, bytes, [[(1, 50), (2, 25), (4, 25), (4, 0)], sizes])
    }

    fn office(&mut self) -> Result<()> {
        let bytes: u64 = self.ready.files.iter().map(|(.., size)| size).sum();
        let reads = [(1, 80), (4, 8), (12, 6), (64, 6)];
        let writes = [(12, 70), (1, 10), (4, 10), (64, 10)];
        // Reads and writes come to equally many bytes: a mean read has 5.7 KiB, a mean write 15.3 KiB.
        self.bursts(27, 81, 2 * bytes, [reads, writes])
    }

    /// Creates all files, writes their content and sets their times.
    fn copy_in(&mut self) -> Result<()> {
        for (folder, name, size) in self.ready.files.clone() {
            let mut open = self.create(folder, name)?;
            self.write_all(&mut open, size)?;
            self.files.set_times(&open)?;
            self.files.close(open)?;
        }
        Ok(())
    }

    /// Writes a file from its beginning in I/Os of 64 KiB.
    fn write_all(&mut self, open: &mut Open, size: u64) -> Result<()> {
        for offset in (0..size).step_by(64 << 10) {
            self.write(open, offset, (size - offset).min(64 * KIB))?;
        }
        Ok(())
    }

    fn directory_from(&mut self) -> Result<()> {
        for file in 0..self.ready.files.len() {
            self.whole(file, u64::MAX)?;
        }
        Ok(())
    }

    fn photos(&mut self) -> Result<()> {
        for file in 0..self.ready.files.len() {
            self.whole(file, 64 * KIB)?;
            self.whole(file, u64::MAX)?;
        }
        Ok(())
    }

    fn small(&mut self, phase: Phase) -> Result<()> {
        if phase == Phase::List {
            let mut seen = 0;
            for folder in &self.ready.folders {
                seen += self.files.list(folder)?;
            }
            let expected = self.ready.files.len() as u64;
            return match seen == expected {
                true => Ok(()),
                false => Err(Error::Job(format!("{seen} files are listed, expected {expected}"))),
            };
        }
        for file in 0..self.ready.files.len() {
            let (folder, name, size) = self.ready.files[file].clone();
            let place = self.ready.folders[folder].clone();
            match phase {
                Phase::Create => {
                    let mut open = self.create(folder, name)?;
                    self.write(&mut open, 0, size)?;
                    self.files.close(open)?;
                }
                Phase::Stat if self.files.size(&place, &name)? == size => {}
                Phase::Stat => {
                    return Err(Error::Job(format!("{name} has not the size that it was written with")));
                }
                Phase::Read => self.whole(file, u64::MAX)?,
                Phase::Rename => {
                    let new = format!("renamed {name}");
                    self.files.rename(&place, &name, &new)?;
                    self.ready.files[file].1 = new;
                }
                Phase::Delete => self.files.delete(&place, &name)?,
                Phase::List => unreachable!("it has been done"),
            }
        }
        if phase == Phase::Delete {
            self.ready.files.clear();
        }
        Ok(())
    }

    /// Reads a file from its beginning in I/Os of 64 KiB, at most `most` bytes.
    fn whole(&mut self, file: usize, most: u64) -> Result<()> {
        let size = self.ready.files[file].2.min(most);
        let open = self.open(file)?;
        for offset in (0..size).step_by(64 << 10) {
            self.read(&open, offset, (size - offset).min(64 * KIB))?;
        }
        self.files.close(open)
    }
}
