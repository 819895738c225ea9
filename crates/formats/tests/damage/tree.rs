//! Reading everything that can be read of a volume.

use platter_vfs::{Attributes, Cursor, Entry, FileSystem, Kind, Name, Node, Place, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// The file, link or directory that a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Directory,
    Link(String),
    File(Content),
}

/// The size, checksum and time of a file or named stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub size: u64,
    pub sum: u64,
    pub modified: Timestamp,
    /// Whether the content is in a record of metadata and not in clusters.
    pub is_resident: bool,
    /// A checksum over the offsets, in the file and on the device, at which the pieces of the content begin. Allocated
    /// pieces that were not written yet count as well.
    pub places: u64,
}

impl Content {
    /// Whether size and content are the same; times may differ.
    pub(crate) fn is_like(&self, other: &Content) -> bool {
        (self.size, self.sum) == (other.size, other.sum)
    }
}

/// Everything that was read of a volume.
#[derive(Default)]
pub(crate) struct Tree {
    pub found: BTreeMap<String, Seen>,
    /// Paths that were listed more than once.
    pub twice: BTreeSet<String>,
    /// The paths that could not be read, each with its error.
    pub faults: Vec<String>,
}

/// The number of entries at which a walk ends: on a damaged volume a directory may lie in itself.
const MOST: usize = 3000;
/// The depth at which a walk ends.
const DEEPEST: usize = 12;
/// The most bytes of a file that are read, since its size may be damaged.
const LONGEST: u64 = 2 << 20;

impl Tree {
    pub(crate) fn of(system: &dyn FileSystem) -> Tree {
        let mut tree = Tree::default();
        tree.walk(system, Node::ROOT, "", 0);
        tree
    }

    fn walk(&mut self, system: &dyn FileSystem, directory: Node, path: &str, depth: usize) {
        let (entries, error) = entries(system, directory);
        if let Some(error) = error {
            self.faults.push(format!("{path}/: {error}"));
        }
        for entry in entries {
            let path = format!("{path}/{}", entry.name);
            if self.found.len() > MOST {
                return;
            }
            let node = match system.lookup(directory, &entry.name) {
                Ok(node) => node,
                Err(error) => {
                    self.faults.push(format!("{path}: {error}"));
                    continue;
                }
            };
            let seen = match entry.attributes.kind {
                Kind::Directory => Ok(Seen::Directory),
                Kind::SymbolicLink => system.read_link(node).map(Seen::Link),
                Kind::File => {
                    let attributes = system.attributes(node);
                    attributes.and_then(|attributes| read(system, node, &attributes).map(Seen::File))
                }
            };
            match seen {
                Ok(seen) => {
                    if self.found.insert(path.clone(), seen).is_some() {
                        self.twice.insert(path.clone());
                    }
                }
                Err(error) => self.faults.push(format!("{path}: {error}")),
            }
            self.beside(system, node, &path);
            if entry.attributes.kind == Kind::Directory && depth < DEEPEST {
                self.walk(system, node, &path, depth + 1);
            }
            system.forget(node, 1);
        }
    }

    /// Reads the named streams and extended attributes of a node.
    fn beside(&mut self, system: &dyn FileSystem, node: Node, path: &str) {
        if system.capabilities().streams {
            for stream in system.streams().and_then(|part| part.list(node)).unwrap_or_else(|error| {
                self.faults.push(format!("{path}: streams: {error}"));
                Vec::new()
            }) {
                let name = format!("{path}:{}", stream.name);
                let content =
                    system.streams().and_then(|part| part.open(node, &stream.name, false)).and_then(|node| {
                        let content = system.attributes(node).and_then(|found| read(system, node, &found));
                        system.forget(node, 1);
                        content
                    });
                match content {
                    Ok(content) => drop(self.found.insert(name, Seen::File(content))),
                    Err(error) => self.faults.push(format!("{name}: {error}")),
                }
            }
        }
        if system.capabilities().extended_attributes {
            match system.extended_attributes().and_then(|part| part.list(node)) {
                Ok(names) => {
                    for name in names {
                        match system.extended_attributes().and_then(|part| part.get(node, &name)) {
                            Ok(value) => {
                                let content = Content {
                                    size: value.len() as u64,
                                    sum: sum(0, &value),
                                    modified: Timestamp::default(),
                                    is_resident: true,
                                    places: 0,
                                };
                                self.found.insert(format!("{path}, attribute {name}"), Seen::File(content));
                            }
                            Err(error) => self.faults.push(format!("{path}: attribute {name}: {error}")),
                        }
                    }
                }
                Err(error) => self.faults.push(format!("{path}: attributes: {error}")),
            }
        }
    }

    /// Returns the files and named streams, with their paths.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&String, &Content)> {
        self.found.iter().filter_map(|(path, seen)| match seen {
            Seen::File(content) => Some((path, content)),
            _ => None,
        })
    }

    pub(crate) fn file(&self, path: &str) -> Option<&Content> {
        match self.found.get(path) {
            Some(Seen::File(content)) => Some(content),
            _ => None,
        }
    }

    /// Returns the kinds of difference from another tree. The time of a file counts only where size and content are the
    /// same.
    pub(crate) fn differences(&self, other: &Tree) -> BTreeSet<&'static str> {
        let mut kinds = BTreeSet::new();
        for (path, seen) in &self.found {
            match (seen, other.found.get(path)) {
                (_, None) => drop(kinds.insert("missing")),
                (Seen::File(one), Some(Seen::File(two))) if one.size != two.size => {
                    kinds.insert("size");
                }
                (Seen::File(one), Some(Seen::File(two))) if one.sum != two.sum => {
                    kinds.insert("content");
                }
                (Seen::File(one), Some(Seen::File(two))) if one.modified != two.modified => {
                    kinds.insert("time");
                }
                (one, Some(two)) if one != two => drop(kinds.insert("kind or target")),
                _ => {}
            }
        }
        if other.found.keys().any(|path| !self.found.contains_key(path)) {
            kinds.insert("more");
        }
        kinds
    }

    /// Returns the paths at which this tree differs from another, with what they lead to in both.
    pub(crate) fn otherwise<'a>(
        &'a self,
        other: &'a Tree,
    ) -> BTreeMap<&'a str, (Option<&'a Seen>, Option<&'a Seen>)> {
        let paths = self.found.keys().chain(other.found.keys());
        paths
            .map(|path| (path.as_str(), (self.found.get(path), other.found.get(path))))
            .filter(|(_, (one, two))| one != two)
            .collect()
    }
}

/// Returns the entries of a directory, and the error that ended the listing early, if one did.
fn entries(system: &dyn FileSystem, directory: Node) -> (Vec<Entry>, Option<String>) {
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        let cursor = entries.last().map_or(Cursor::START, |last| last.next);
        let before = entries.len();
        let read = system.read_directory(directory, cursor, 256, &mut entries);
        match read {
            Err(error) => return (entries, Some(error.to_string())),
            Ok(()) if entries.len() == before || entries.len() > MOST => return (entries, None),
            Ok(()) => {}
        }
    }
}

fn read(system: &dyn FileSystem, node: Node, attributes: &Attributes) -> platter_vfs::Result<Content> {
    let mut all = 0;
    let mut buffer = vec![0; (attributes.size.min(64 << 10) as usize).max(1)];
    let mut at = 0;
    while at < attributes.size.min(LONGEST) {
        let read = system.read(node, at, &mut buffer)?;
        if read == 0 {
            break;
        }
        all = sum(all, &buffer[..read]);
        at += read as u64;
    }
    let extents = system.extents(node).unwrap_or_default();
    let is_resident = extents.iter().all(|extent| matches!(extent.place, Place::Resident));
    let (mut places, mut end) = (0, None);
    for extent in extents {
        let (Place::Device(at) | Place::Unwritten(at)) = extent.place else { continue };
        if end != Some(at) {
            places = sum(places, &[extent.offset.to_le_bytes(), at.to_le_bytes()].concat());
        }
        end = Some(at + extent.length);
    }
    Ok(Content { size: attributes.size, sum: all, modified: attributes.modified, is_resident, places })
}

/// Continues the checksum `before` with more bytes. It depends on their order (FNV-1a, in words of eight bytes).
fn sum(before: u64, bytes: &[u8]) -> u64 {
    let step = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    words.chain(rest.iter().map(|byte| u64::from(*byte))).fold(before, step)
}

/// Calls `each` on every file and named stream of an undamaged volume.
pub(crate) fn every_file(system: &dyn FileSystem, each: &mut dyn FnMut(Node)) {
    let mut directories = vec![Node::ROOT];
    while let Some(directory) = directories.pop() {
        for entry in entries(system, directory).0 {
            let node = system.lookup(directory, &entry.name).expect("a good volume");
            let streams: Vec<Name> = match system.capabilities().streams {
                true => system
                    .streams()
                    .expect("a good volume")
                    .list(node)
                    .expect("a good volume")
                    .into_iter()
                    .map(|one| one.name)
                    .collect(),
                false => Vec::new(),
            };
            for stream in streams {
                each(
                    system
                        .streams()
                        .expect("a good volume")
                        .open(node, &stream, false)
                        .expect("a good volume"),
                );
            }
            match entry.attributes.kind {
                Kind::Directory => directories.push(node),
                Kind::File => each(node),
                Kind::SymbolicLink => {}
            }
        }
    }
}
