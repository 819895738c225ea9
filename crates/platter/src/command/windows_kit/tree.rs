//! The tree of an image: what a file system may get wrong, each kind at least once, and all of it from a seed.

use super::filler;
use super::manifest::{self, Listed, ListedStream};
use platter::{Change, DosFlags, Result, Timestamp, Volume};
use platter_vfs::Integrity;
use sha2::{Digest, Sha256};

/// Writes a tree to a volume, and keeps the list of what it wrote.
pub(crate) struct Tree<'v> {
    volume: &'v Volume,
    seed: u64,
    listed: Vec<Listed>,
    /// Whether what is written now may be missing after the crash.
    uncertain: bool,
}

/// 2020-02-02 02:02:02, an even second as FAT keeps them.
const TIME: i64 = 1_580_608_922;
/// The length of the large file: no multiple of any cluster.
const LARGE: u64 = (3 << 20) + 123;
const PIECE: u64 = 1 << 20;

impl<'v> Tree<'v> {
    /// An empty tree.
    pub(crate) fn new(volume: &'v Volume, seed: u64) -> Tree<'v> {
        Tree { volume, seed, listed: Vec::new(), uncertain: false }
    }

    /// What was written, by path.
    pub(crate) fn listed(mut self) -> Vec<Listed> {
        self.listed.sort_by(|a, b| a.path.cmp(&b.path));
        self.listed
    }

    /// Writes all that the volume's format can hold.
    pub(crate) fn write(&mut self) -> Result<()> {
        let has = self.volume.capabilities().clone();
        self.small(300)?;
        self.many(1200)?;
        self.deep()?;
        self.names()?;
        self.attributes()?;
        self.directory("data")?;
        self.file("data/large.bin", LARGE)?;
        self.by_turns()?;
        self.overwritten()?;
        self.removed()?;
        if has.sparse {
            self.sparse()?;
        }
        if has.hard_links {
            self.hard_links()?;
        }
        if has.symbolic_links {
            self.symbolic_link()?;
        }
        if has.streams {
            self.streams()?;
        }
        if has.integrity {
            self.integrity()?;
        }
        Ok(())
    }

    /// Writes what comes after the last sync before a crash.
    pub(crate) fn write_late(&mut self) -> Result<()> {
        self.uncertain = true;
        self.directory("late")?;
        (0..20).try_for_each(|number| self.file(&format!("late/{number:02}.bin"), 40_000))
    }

    /// What the content of a path follows from. Every third content compresses.
    fn number(&self, path: &str) -> u64 {
        let hash = Sha256::digest(path.as_bytes());
        let number = u64::from_le_bytes(hash[..8].try_into().expect("8 bytes")).wrapping_add(self.seed);
        if number.is_multiple_of(3) { number & !1 } else { number | 1 }
    }

    fn list(&mut self, one: Listed) -> &mut Listed {
        self.listed.push(Listed { uncertain: self.uncertain, ..one });
        self.listed.last_mut().expect("it was pushed")
    }

    fn directory(&mut self, path: &str) -> Result<()> {
        self.volume.create_dir(path)?;
        self.list(Listed { path: path.into(), kind: "directory".into(), ..Listed::default() });
        Ok(())
    }

    /// Makes a file with content of its own, and a time of its own.
    fn file(&mut self, path: &str, size: u64) -> Result<()> {
        let file = self.volume.create_new_file(path)?;
        let number = self.number(path);
        let mut hash = Sha256::new();
        let mut offset = 0;
        while offset < size {
            let mut piece = vec![0; PIECE.min(size - offset) as usize];
            filler::fill(number, offset, &mut piece);
            file.write_at(offset, &piece)?;
            hash.update(&piece);
            offset += piece.len() as u64;
        }
        drop(file);
        self.finish(path, size, manifest::hex(&hash.finalize()))
    }

    /// Gives a file its time, and lists it.
    fn finish(&mut self, path: &str, size: u64, sha256: String) -> Result<()> {
        let time = Timestamp { seconds: TIME + 2 * self.listed.len() as i64, nanoseconds: 0 };
        let change = Change { modified: Some(time), ..Change::default() };
        self.volume.set_metadata(path, &change)?;
        let modified = Some(manifest::time(time));
        let (kind, sha256) = ("file".into(), Some(sha256));
        self.list(Listed { path: path.into(), kind, size, sha256, modified, ..Listed::default() });
        Ok(())
    }

    /// Sizes around all limits: within a record of NTFS, at the ends of sectors and clusters.
    fn small(&mut self, count: u64) -> Result<()> {
        const SIZES: [u64; 12] = [0, 1, 100, 511, 512, 513, 700, 2000, 4095, 4096, 4097, 9000];
        self.directory("small")?;
        for number in 0..count {
            if number.is_multiple_of(100) {
                self.directory(&format!("small/{}", number / 100))?;
            }
            let size = SIZES[number as usize % SIZES.len()];
            self.file(&format!("small/{}/file {number:03}.txt", number / 100), size)?;
        }
        Ok(())
    }

    /// A directory that takes several blocks of an index.
    fn many(&mut self, count: u64) -> Result<()> {
        self.directory("many")?;
        (0..count)
            .try_for_each(|number| self.file(&format!("many/an entry of a large directory {number:05}"), 0))
    }

    /// A path longer than the 260 characters that old programs of Windows take.
    fn deep(&mut self) -> Result<()> {
        let mut path = "deep".to_string();
        self.directory(&path)?;
        for level in 0..16 {
            path += &format!("/a directory at level {level:02}");
            self.directory(&path)?;
        }
        self.file(&format!("{path}/at the end.txt"), 3000)
    }

    fn names(&mut self) -> Result<()> {
        self.directory("names")?;
        let long = format!("{}.txt", "n".repeat(251));
        let names = [
            &*long,
            "UPPER.TXT",
            "lower.txt",
            "Mixed Case And Several Words.Document",
            "two.dots.txt",
            ".begins with a dot",
            "it's & (other) signs, [here] {too} #1 %2 ~3 @4 $5 ^6 `7` +=;",
            "Größe Übermaß.txt",
            "Ελληνικά.txt",
            "日本語のファイル名.txt",
            "🦀 beyond the first plane 𝔘.bin",
            "e\u{301} is two characters.txt",
        ];
        names.into_iter().try_for_each(|name| self.file(&format!("names/{name}"), 600))
    }

    fn attributes(&mut self) -> Result<()> {
        const EACH: [(&str, u32); 5] =
            [("archive", 0x20), ("read-only", 0x21), ("hidden", 0x22), ("system", 0x24), ("all", 0x27)];
        self.directory("attributes")?;
        for (name, flags) in EACH {
            let path = format!("attributes/{name}.txt");
            self.file(&path, 1000)?;
            let flags = DosFlags(flags);
            self.volume.set_metadata(&path, &Change { flags: Some(flags), ..Change::default() })?;
            self.listed.last_mut().expect("it was listed").attributes = Some(manifest::letters(flags));
        }
        Ok(())
    }

    /// Two files that grow in turns, so that each is in many parts.
    fn by_turns(&mut self) -> Result<()> {
        const PART: u64 = 65_536;
        const PARTS: u64 = 16;
        let paths = ["data/turns a.bin", "data/turns b.bin"];
        let files = paths.map(|path| self.volume.create_new_file(path));
        let files: Vec<_> = files.into_iter().collect::<Result<_>>()?;
        for part in 0..PARTS {
            for (path, file) in paths.iter().zip(&files) {
                let mut piece = vec![0; PART as usize];
                filler::fill(self.number(path), part * PART, &mut piece);
                file.write_at(part * PART, &piece)?;
                file.sync_all()?;
            }
        }
        drop(files);
        paths.into_iter().try_for_each(|path| {
            let bytes = filler::bytes(self.number(path), (PART * PARTS) as usize);
            self.finish(path, bytes.len() as u64, manifest::sha256(&bytes))
        })
    }

    /// A file of which the middle was written again: copied elsewhere where data has checksums.
    fn overwritten(&mut self) -> Result<()> {
        const WHOLE: usize = 300_000;
        let path = "data/overwritten.bin";
        let mut bytes = filler::bytes(self.number("before"), WHOLE);
        self.volume.write(path, &bytes)?;
        self.volume.sync()?;
        let (from, new) = (102_400, filler::bytes(self.number(path), 50_000));
        self.volume.open_file(path)?.write_at(from as u64, &new)?;
        bytes[from..from + new.len()].copy_from_slice(&new);
        self.finish(path, WHOLE as u64, manifest::sha256(&bytes))
    }

    /// Files that are gone, so that there are free places between those that are there.
    fn removed(&mut self) -> Result<()> {
        self.directory("removed")?;
        let path = |number: u64| format!("removed/{number}.bin");
        for number in 0..40 {
            self.volume.write(path(number), &filler::bytes(number, 20_000))?;
        }
        self.volume.sync()?;
        (0..40)
            .filter(|number| number % 3 != 0)
            .try_for_each(|number| self.volume.remove_file(path(number)))?;
        (0..40).step_by(3).try_for_each(|number| {
            let bytes = filler::bytes(number, 20_000);
            self.finish(&path(number), 20_000, manifest::sha256(&bytes))
        })
    }

    /// 24 MiB of which three pieces are written.
    fn sparse(&mut self) -> Result<()> {
        const LENGTH: u64 = 24 << 20;
        let path = "data/sparse.bin";
        let file = self.volume.create_new_file(path)?;
        let mut all = vec![0; LENGTH as usize];
        for at in [0, 9 << 20, LENGTH - 65_536] {
            let piece = &mut all[at as usize..][..65_536];
            filler::fill(self.number(path), at, piece);
            file.write_at(at, piece)?;
        }
        drop(file);
        self.finish(path, LENGTH, manifest::sha256(&all))
    }

    fn hard_links(&mut self) -> Result<()> {
        let (first, second) = ("data/first name.bin", "data/second name.bin");
        self.file(first, 30_000)?;
        self.volume.hard_link(first, second)?;
        let one = self.listed.last_mut().expect("it was listed");
        one.links = Some(2);
        let other = Listed { path: second.into(), ..one.clone() };
        self.list(other);
        Ok(())
    }

    /// A relative link as Windows writes it: its target has the separators of Windows.
    fn symbolic_link(&mut self) -> Result<()> {
        let path = "data/link.txt";
        self.volume.symlink("../small/0/file 007.txt", path)?;
        let target = Some(self.volume.read_link(path)?);
        self.list(Listed { path: path.into(), kind: "link".into(), target, ..Listed::default() });
        Ok(())
    }

    fn streams(&mut self) -> Result<()> {
        let path = "data/with streams.txt";
        self.file(path, 5000)?;
        let mut streams = Vec::new();
        for (name, size) in [("short", 40), ("long", 100_000), ("Zone.Identifier", 26)] {
            let bytes = filler::bytes(self.number(name), size);
            self.volume.create_stream(path, name)?.write_at(0, &bytes)?;
            let sha256 = manifest::sha256(&bytes);
            streams.push(ListedStream { name: name.into(), size: size as u64, sha256 });
        }
        let one = self.listed.last_mut().expect("it was listed");
        one.streams = streams;
        // Writing a stream is a change of the file.
        one.modified = None;
        Ok(())
    }

    fn integrity(&mut self) -> Result<()> {
        for (name, enabled) in [("on", true), ("off", false)] {
            let path = format!("data/integrity {name}.bin");
            self.volume.write(&path, &[])?;
            self.volume.set_integrity(&path, Integrity { enabled, enforced: enabled })?;
            let bytes = filler::bytes(self.number(&path), 200_000);
            self.volume.open_file(&path)?.write_at(0, &bytes)?;
            self.finish(&path, bytes.len() as u64, manifest::sha256(&bytes))?;
            self.listed.last_mut().expect("it was listed").integrity = Some(enabled);
        }
        Ok(())
    }
}
