//! Makes a volume with a tree of many kinds of entry, and a list of what must be found on it, for other programs to
//! judge.
//!
//!     cargo run --release -p platterfs-formats --example tree -- IMAGE LIST FORMAT [KEY=VALUE…]
//!
//! IMAGE is made anew (16 GiB, sparse). Keys: `entries` (50000), `cluster` (bytes), `checksum`, `version`, `compress`
//! (false; with true the content of every other file repeats itself), `seed` (8664). The tree has a chain of 40
//! directories and 200 others, names in many scripts and of 255 units, files from nothing to 4 GiB and, where the
//! format has them, holes, named streams, hard links, symbolic links and integrity.
//!
//! Each line of LIST has fields with tabs between them: `D path`, `F path size sha256`, `L path target`, `S path
//! stream size sha256`.

use platter_device::{Device, FileDevice, FileOptions};
use platter_formats::by_name;
use platter_testing::model::Random;
use platter_vfs::{
    Capabilities, Change, CheckOptions, FileSystem, FormatOptions, Integrity, Kind, Name, Node, OpenOptions,
    Silent,
};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

const BYTES: u64 = 16 << 30;
const SCRIPTS: [&str; 15] = [
    "file",
    "Straße",
    "файл",
    "文件名",
    "ファイル",
    "파일",
    "ملف",
    "קובץ",
    "αρχείο",
    "ไฟล์",
    "फ़ाइल",
    "😀🎉",
    "ǅungla",
    "İstanbul",
    "e\u{301}te\u{301}",
];

fn main() -> ExitCode {
    match make() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(4),
        Err(error) => {
            eprintln!("tree: {error}");
            ExitCode::from(8)
        }
    }
}

fn make() -> Result<bool, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [image, list, format, keys @ ..] = &arguments[..] else {
        return Err("which IMAGE, LIST and FORMAT? the image is made anew".into());
    };
    let format = by_name(format).ok_or(format!("no format {format}"))?;
    let mut options = FormatOptions { label: Some("Many".into()), ..FormatOptions::default() };
    let (mut entries, mut seed) = (50_000, 8664);
    for key in keys {
        match key.split_once('=') {
            Some(("entries", value)) => entries = value.parse()?,
            Some(("seed", value)) => seed = value.parse()?,
            Some(("cluster", value)) => options.cluster = Some(value.parse()?),
            Some(("checksum", value)) => options.checksum = Some(value.into()),
            Some(("version", value)) => options.variant = Some(value.into()),
            Some(("compress", value)) => options.compress = Some(value.parse()?),
            _ => {
                let keys = "entries=, cluster=, checksum=, version=, compress= or seed=";
                return Err(format!("{key} is not {keys}").into());
            }
        }
    }
    let device: Arc<dyn Device> =
        Arc::new(FileDevice::create(Path::new(image), BYTES, FileOptions::default())?);
    format.make(&*device, &options, &Silent)?;
    let system = format.open(device.clone(), OpenOptions::default())?;
    let mut tree = Tree::new(&*system, BufWriter::new(File::create(list)?), seed)?;
    tree.repeats = options.compress == Some(true);
    tree.add_directories()?;
    while tree.made < entries {
        tree.add_entry()?;
    }
    tree.add_large()?;
    tree.list.flush()?;
    for (what, count) in &tree.counts {
        println!("{count:>7} {what}");
    }
    println!("{:>7} directories", tree.directories.len());
    system.sync_all()?;
    system.unmount()?;
    drop(system);
    let outcome = format.check(&*device, CheckOptions::default(), &Silent)?;
    outcome.findings.iter().for_each(|finding| println!("{finding}"));
    println!("check: {} findings", outcome.found);
    Ok(outcome.found == 0)
}

struct Tree<'a> {
    system: &'a dyn FileSystem,
    can: Capabilities,
    cluster: u64,
    list: BufWriter<File>,
    random: Random,
    seed: u64,
    /// Whether the content of every other file repeats itself, so that it can be compressed.
    repeats: bool,
    directories: Vec<(Node, String)>,
    /// Files that may get more names, each with its size and checksum as the list has them.
    linkable: Vec<(Node, String)>,
    made: u64,
    counts: BTreeMap<&'static str, u64>,
}

type Outcome = Result<(), Box<dyn Error>>;

impl<'a> Tree<'a> {
    fn new(system: &'a dyn FileSystem, list: BufWriter<File>, seed: u64) -> Result<Tree<'a>, Box<dyn Error>> {
        Ok(Tree {
            system,
            can: system.capabilities().clone(),
            cluster: system.space()?.cluster,
            list,
            random: Random::new(seed),
            seed,
            repeats: false,
            directories: vec![(Node::ROOT, String::new())],
            linkable: Vec::new(),
            made: 0,
            counts: BTreeMap::new(),
        })
    }

    fn add_directory(&mut self, above: (Node, String), name: &str) -> Result<(Node, String), Box<dyn Error>> {
        let node = self.system.create(above.0, &Name::from(name), Kind::Directory)?;
        let path = format!("{}/{name}", above.1);
        writeln!(self.list, "D\t{path}")?;
        self.directories.push((node, path.clone()));
        self.made += 1;
        Ok((node, path))
    }

    fn pick_directory(&mut self) -> (Node, String) {
        let index = self.random.below(self.directories.len() as u64) as usize;
        self.directories[index].clone()
    }

    fn add_directories(&mut self) -> Outcome {
        let mut above = self.directories[0].clone();
        for depth in 0..40 {
            above = self.add_directory(above, &format!("{}-{depth}", SCRIPTS[depth % SCRIPTS.len()]))?;
        }
        for number in 0..200 {
            let above = self.pick_directory();
            let script = *self.random.pick(&SCRIPTS);
            let (node, _) = self.add_directory(above, &format!("{script} dir {number}"))?;
            if self.can.integrity && number % 3 == 0 {
                self.system.integrity()?.set(node, Integrity { enabled: true, enforced: true })?;
            }
        }
        Ok(())
    }

    /// Adds a file, a link or a file with streams.
    fn add_entry(&mut self) -> Outcome {
        let (directory, path) = self.pick_directory();
        let (kind, script) = (self.random.below(1000), *self.random.pick(&SCRIPTS));
        let number = self.made;
        let name = if kind < 20 { long_name(number, script) } else { format!("{script} {number}.txt") };
        let (path, name) = (format!("{path}/{name}"), Name::from(&*name));
        self.made += 1;
        if kind >= 980 && self.can.hard_links && !self.linkable.is_empty() {
            let (node, line) = self.random.pick(&self.linkable).clone();
            self.system.link(node, directory, &name)?;
            self.count("hard links");
            return Ok(writeln!(self.list, "F\t{path}\t{line}")?);
        }
        if kind >= 960 && self.can.symbolic_links {
            let target = format!("../{script}/target {number}");
            self.system.symlink(directory, &name, &target)?;
            self.count("symbolic links");
            return Ok(writeln!(self.list, "L\t{path}\t{target}")?);
        }
        let node = self.system.create(directory, &name, Kind::File)?;
        if self.can.integrity && kind.is_multiple_of(7) {
            self.system.integrity()?.set(node, Integrity { enabled: true, enforced: true })?;
            self.count("files whose integrity was set");
        }
        let (size, sum) = match kind {
            900..940 if self.can.sparse => self.fill_sparse(node)?,
            940..960 if self.can.streams => self.fill_streams(node, &path)?,
            _ => {
                let size = match kind % 10 {
                    0 => 0,
                    1..=5 => self.random.below(2048),
                    6 | 7 => 2048 + self.random.below(14_000),
                    8 => self.random.below(1 << 16),
                    _ => self.random.below(if number.is_multiple_of(50) { 1 << 20 } else { 40_000 }),
                };
                self.count("plain files");
                self.fill(node, size)?
            }
        };
        writeln!(self.list, "F\t{path}\t{size}\t{sum}")?;
        if number.is_multiple_of(40) {
            self.linkable.push((node, format!("{size}\t{sum}")));
        } else {
            self.system.forget(node, 1);
        }
        Ok(())
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn content(&mut self, size: u64) -> Vec<u8> {
        self.seed += 1;
        let mut random = Random::new(self.seed);
        if self.repeats && self.seed.is_multiple_of(2) {
            let line = random.bytes(100);
            return line.into_iter().cycle().take(size as usize).collect();
        }
        random.bytes(size as usize)
    }

    fn fill(&mut self, node: Node, size: u64) -> Result<(u64, String), Box<dyn Error>> {
        let content = self.content(size);
        self.system.write(node, 0, &content)?;
        Ok((size, sum_of(&[(0, content)], size)))
    }

    fn fill_sparse(&mut self, node: Node) -> Result<(u64, String), Box<dyn Error>> {
        self.count("files with holes");
        let mut at = self.random.below(10) * self.cluster;
        let mut parts = Vec::new();
        for _ in 0..1 + self.random.below(20) {
            let size = (1 + self.random.below(3)) * self.cluster;
            let content = self.content(size);
            self.system.write(node, at, &content)?;
            parts.push((at, content));
            at += size + (1 + self.random.below(30)) * self.cluster;
        }
        let size = at + self.random.below(1000);
        self.system.set_attributes(node, &Change { size: Some(size), ..Change::default() })?;
        Ok((size, sum_of(&parts, size)))
    }

    fn fill_streams(&mut self, node: Node, path: &str) -> Result<(u64, String), Box<dyn Error>> {
        self.count("files with streams");
        let count = 1 + self.random.below(3) as usize;
        for (name, size) in [("small", 77), ("large", 10_000), ("größer", 200_000)].into_iter().take(count)
        {
            let stream = self.system.streams()?.open(node, &Name::from(name), true)?;
            let (size, sum) = self.fill(stream, size)?;
            self.system.forget(stream, 1);
            writeln!(self.list, "S\t{path}\t{name}\t{size}\t{sum}")?;
        }
        self.fill(node, 300)
    }

    /// Adds a file of 600 MiB and, if the format has holes, one of 4 GiB that is mostly holes.
    fn add_large(&mut self) -> Outcome {
        let node = self.system.create(Node::ROOT, &"600 MiB".into(), Kind::File)?;
        if self.can.integrity {
            self.system.integrity()?.set(node, Integrity { enabled: true, enforced: true })?;
        }
        let mut hasher = Sha256::new();
        for piece in 0..600u64 {
            let content = self.content(1 << 20);
            hasher.update(&content);
            self.system.write(node, piece << 20, &content)?;
        }
        writeln!(self.list, "F\t/600 MiB\t{}\t{}", 600 << 20, hex(hasher))?;
        if !self.can.sparse {
            return Ok(());
        }
        let node = self.system.create(Node::ROOT, &"4 GiB".into(), Kind::File)?;
        let mut parts = Vec::new();
        for number in 0..40 {
            let (at, content) =
                (number * 100_000_000 / self.cluster * self.cluster, self.content(3 * self.cluster));
            self.system.write(node, at, &content)?;
            parts.push((at, content));
        }
        let size = 4 << 30;
        self.system.set_attributes(node, &Change { size: Some(size), ..Change::default() })?;
        Ok(writeln!(self.list, "F\t/4 GiB\t{size}\t{}", sum_of(&parts, size))?)
    }
}

/// Returns a name of 255 units.
fn long_name(number: u64, script: &str) -> String {
    let mut name = format!("{number} ");
    let mut units = name.len();
    while units + script.encode_utf16().count() <= 255 {
        name.push_str(script);
        units += script.encode_utf16().count();
    }
    name.push_str(&"x".repeat(255 - units));
    name
}

/// Returns the SHA-256 of a file of `size` bytes with these parts, which come in order, and zeroes between them.
fn sum_of(parts: &[(u64, Vec<u8>)], size: u64) -> String {
    let mut hasher = Sha256::new();
    let mut at = 0;
    for (start, content) in parts {
        add_zeroes(&mut hasher, start - at);
        hasher.update(content);
        at = start + content.len() as u64;
    }
    add_zeroes(&mut hasher, size - at);
    hex(hasher)
}

fn add_zeroes(hasher: &mut Sha256, count: u64) {
    let zeroes = vec![0; 1 << 20];
    let mut left = count;
    while left > 0 {
        let piece = left.min(zeroes.len() as u64);
        hasher.update(&zeroes[..piece as usize]);
        left -= piece;
    }
}

fn hex(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
