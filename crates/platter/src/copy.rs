//! Copying trees between the host and volumes.
//!
//! A [`Source`] is read and a [`Target`] is made; each is either the host's or a volume's. Names cross the border as
//! [`Name`]s, so that what the one side cannot hold is noticed and nothing from a volume can reach outside the
//! directory it is copied to.

use crate::failure::{About, Failure, shown};
use crate::progress::Bar;
use crate::volume::{DEEPEST, Held, VolumePath};
use platter_device::Buffer;
use platter_vfs::{Change, DosFlags, Entry, Error, Kind, Name, Progress, Timestamp};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, FileTimes};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes read and written at a time.
const PIECE: usize = 1 << 20;

/// What is copied.
pub enum Source {
    /// A file or directory of the host.
    Host(PathBuf),
    /// A file or directory on a volume.
    Volume(VolumePath, Held),
}

/// A directory to copy into.
pub enum Target {
    /// A directory of the host.
    Host(PathBuf),
    /// A directory on a volume.
    Volume(VolumePath, Held),
}

/// What both sides know of a file.
struct Facts {
    kind: Kind,
    size: u64,
    /// Times and flags to set on the copy.
    change: Change,
}

/// One run of copying.
pub struct Copy<'a> {
    /// Whether directories are copied.
    pub recursive: bool,
    /// Whether files of one volume share their clusters instead of being copied.
    pub clone: bool,
    /// Host files that must not be copied: the images themselves, which change while being copied into.
    pub is_image: &'a dyn Fn(&Path) -> bool,
    /// Shows how far it is.
    pub bar: &'a Bar,
    /// Bytes to copy in all.
    pub total: u64,
    done: u64,
    buffer: Buffer,
    /// Where files were copied to on volumes, in lower case: two names that a volume takes for one must not
    /// overwrite each other unnoticed.
    made: HashSet<String>,
    failed: bool,
}

impl<'a> Copy<'a> {
    /// A run with nothing copied yet.
    pub fn new(recursive: bool, is_image: &'a dyn Fn(&Path) -> bool, bar: &'a Bar) -> Copy<'a> {
        let buffer = Buffer::new(PIECE);
        Copy {
            recursive,
            clone: false,
            is_image,
            bar,
            total: 0,
            done: 0,
            buffer,
            made: HashSet::new(),
            failed: false,
        }
    }

    /// Whether anything could not be copied.
    pub fn failed(&self) -> bool {
        self.failed
    }

    /// Copies a file or a tree into a directory, under a new name.
    ///
    /// Failures that concern one file are printed, and the rest is copied all the same.
    pub fn run(&mut self, source: &Source, target: &Target, name: &Name) {
        self.entry(source, target, name, 0);
    }

    fn entry(&mut self, source: &Source, target: &Target, name: &Name, depth: usize) {
        if let Err(failure) = self.try_entry(source, target, name, depth) {
            self.fail(&failure);
        }
    }

    fn fail(&mut self, failure: &Failure) {
        self.bar.say(&format!("platter: {failure}"));
        self.failed = true;
    }

    fn try_entry(
        &mut self,
        source: &Source,
        target: &Target,
        name: &Name,
        depth: usize,
    ) -> Result<(), Failure> {
        let facts = source.facts(depth)?;
        match facts.kind {
            Kind::File => self.file(source, target, name, &facts),
            Kind::Directory if !self.recursive => {
                Err(Failure::new(source, "is a directory; use -r to copy it with everything in it"))
            }
            Kind::Directory if depth > DEEPEST => {
                Err(Failure::new(source, "directories inside each other without end"))
            }
            Kind::Directory => {
                let made = target.directory(name)?;
                source.children(|child| match child {
                    Ok((child_name, child)) => self.entry(&child, &made, &child_name, depth + 1),
                    Err(failure) => self.fail(&failure),
                });
                // At the end, because making entries changes a directory's time.
                made.finish(&facts.change)
            }
            Kind::SymbolicLink => Err(Failure::new(source, "is a symbolic link, which is not copied")),
        }
    }

    fn file(&mut self, source: &Source, target: &Target, name: &Name, facts: &Facts) -> Result<(), Failure> {
        if let Source::Host(path) = source
            && (self.is_image)(path)
        {
            return Err(Failure::new(source, "is the image that this command works on; not copied"));
        }
        if source.is_same(target, name) {
            return Err(Failure::new(source, "cannot be copied onto itself"));
        }
        let reader = source.reader()?;
        let room = if self.clone { 0 } else { facts.size };
        let writer = target.file(name, facts.size, room, &mut self.made)?;
        let copied = match self.shared(source, &writer, facts.size) {
            Some(shared) => shared,
            None => self.content(source, &reader, &writer),
        };
        if let Err(failure) = copied {
            // Half a file that looks like a whole one would be worse than none.
            target.remove(name);
            return Err(failure);
        }
        writer.finish(&facts.change)
    }
}

impl Copy<'_> {
    /// Has the copy share the source's clusters, if that is asked for and both are on one volume.
    fn shared(&mut self, source: &Source, writer: &Writer, size: u64) -> Option<Result<(), Failure>> {
        let (Source::Volume(_, from), Writer::Volume(path, to)) = (source, writer) else { return None };
        if !self.clone || !from.same_volume(to) {
            return None;
        }
        self.done += size;
        let shared = match size {
            0 => Ok(()),
            _ => to.system.clone_range(from.node, 0, to.node, 0, size).about(path),
        };
        self.bar.progress("copying", self.done, self.total.max(self.done));
        Some(shared)
    }

    fn content(&mut self, source: &Source, reader: &Reader, writer: &Writer) -> Result<(), Failure> {
        let mut offset = 0;
        loop {
            let read = reader.read(offset, &mut self.buffer).map_err(|why| Failure::new(source, why))?;
            if read == 0 {
                return Ok(());
            }
            writer.write(offset, &self.buffer[..read])?;
            offset += read as u64;
            self.done += read as u64;
            self.bar.progress("copying", self.done, self.total.max(self.done));
        }
    }
}

impl Source {
    /// Bytes in files, for the progress bar. What cannot be looked at counts nothing here and fails later.
    pub fn total(&self, recursive: bool) -> u64 {
        self.total_within(recursive, 0)
    }

    fn total_within(&self, recursive: bool, depth: usize) -> u64 {
        match self.facts(depth) {
            Ok(facts) if facts.kind == Kind::File => facts.size,
            Ok(facts) if facts.kind == Kind::Directory && recursive && depth <= DEEPEST => {
                let mut total = 0u64;
                self.children(|child| {
                    total += child.map_or(0, |(_, child)| child.total_within(true, depth + 1));
                });
                total
            }
            _ => 0,
        }
    }

    /// Facts of a file. A symbolic link that an argument names is followed (depth 0), one inside a tree is not.
    fn facts(&self, depth: usize) -> Result<Facts, Failure> {
        match self {
            Source::Host(path) => {
                let metadata =
                    if depth == 0 { fs::metadata(path) } else { fs::symlink_metadata(path) }.about(self)?;
                let file_type = metadata.file_type();
                let kind = if file_type.is_dir() {
                    Kind::Directory
                } else if file_type.is_symlink() {
                    Kind::SymbolicLink
                } else if file_type.is_file() {
                    Kind::File
                } else {
                    return Err(Failure::new(self, "is neither a file nor a directory; not copied"));
                };
                let time = |time: std::io::Result<SystemTime>| time.ok().map(timestamp);
                let change = Change {
                    created: time(metadata.created()),
                    modified: time(metadata.modified()),
                    accessed: time(metadata.accessed()),
                    ..Change::default()
                };
                Ok(Facts { kind, size: metadata.len(), change })
            }
            Source::Volume(_, held) => {
                let attributes = held.system.attributes(held.node).about(self)?;
                let change = Change {
                    size: None,
                    flags: Some(DosFlags(attributes.flags.0 & DosFlags::SETTABLE.0)),
                    created: attributes.created,
                    modified: Some(attributes.modified),
                    accessed: attributes.accessed,
                };
                Ok(Facts { kind: attributes.kind, size: attributes.size, change })
            }
        }
    }

    /// Gives every entry of a directory to `each`, or why there is none: what cannot be used does not hide the rest.
    fn children(&self, mut each: impl FnMut(Result<(Name, Source), Failure>)) {
        match self {
            Source::Host(path) => {
                let entries = match fs::read_dir(path) {
                    Ok(entries) => entries,
                    Err(error) => return each(Err(error).about(self)),
                };
                let mut children = Vec::new();
                for entry in entries {
                    match entry.about(self).and_then(|entry| Ok((host_name(&entry.path())?, entry.path()))) {
                        Ok(child) => children.push(child),
                        Err(failure) => each(Err(failure)),
                    }
                }
                children.sort_unstable();
                children.into_iter().for_each(|(name, path)| each(Ok((name, Source::Host(path)))));
            }
            Source::Volume(path, held) => {
                let (entries, read) = held.entries();
                for Entry { name, .. } in entries {
                    let path = path.join(&name);
                    each(held.child(&name).about(&path).map(|held| (name, Source::Volume(path, held))));
                }
                if let Err(failure) = read.about(self) {
                    each(Err(failure));
                }
            }
        }
    }

    fn reader(&self) -> Result<Reader<'_>, Failure> {
        match self {
            Source::Host(path) => Ok(Reader::Host(File::open(path).about(self)?)),
            Source::Volume(_, held) => Ok(Reader::Volume(held)),
        }
    }

    /// Whether the copy would be the source itself.
    fn is_same(&self, target: &Target, name: &Name) -> bool {
        match (self, target) {
            (Source::Host(path), Target::Host(directory)) => {
                let copy = directory.join(OsStr::from_bytes(&name.to_bytes()));
                matches!((fs::canonicalize(path), fs::canonicalize(copy)), (Ok(one), Ok(two)) if one == two)
            }
            (Source::Volume(_, source), Target::Volume(_, directory)) => {
                source.same_volume(directory)
                    && directory.child(name).is_ok_and(|copy| copy.node == source.node)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Host(path) => path.display().fmt(f),
            Source::Volume(path, _) => path.fmt(f),
        }
    }
}

enum Reader<'s> {
    Host(File),
    Volume(&'s Held),
}

impl Reader<'_> {
    /// Fills the buffer as far as there is anything; says why not.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, String> {
        match self {
            Reader::Host(file) => loop {
                match file.read_at(buffer, offset) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    done => return done.map_err(|error| error.to_string()),
                }
            },
            Reader::Volume(held) => {
                held.system.read(held.node, offset, buffer).map_err(|error| error.to_string())
            }
        }
    }
}

impl Target {
    /// The directory of this name, made if it is missing.
    fn directory(&self, name: &Name) -> Result<Target, Failure> {
        match self {
            Target::Host(directory) => {
                let path = host_path(directory, name)?;
                match fs::create_dir(&path) {
                    Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && path.is_dir() => {}
                    made => made.about(shown(&path))?,
                }
                Ok(Target::Host(path))
            }
            Target::Volume(path, held) => {
                let path = path.join(name);
                let child = match held.child(name) {
                    Err(Error::NotFound) => {
                        let node = held.system.create(held.node, name, Kind::Directory).about(&path)?;
                        Held::new(&held.system, node)
                    }
                    found => found.about(&path)?,
                };
                if held.system.attributes(child.node).about(&path)?.kind != Kind::Directory {
                    return Err(Error::NotADirectory).about(&path);
                }
                Ok(Target::Volume(path, child))
            }
        }
    }

    /// The file of this name, emptied, for `size` bytes, with room for `room` of them.
    fn file(&self, name: &Name, size: u64, room: u64, made: &mut HashSet<String>) -> Result<Writer, Failure> {
        match self {
            Target::Host(directory) => {
                let path = host_path(directory, name)?;
                let file = File::create(&path).about(shown(&path))?;
                Ok(Writer::Host(path, file))
            }
            Target::Volume(path, held) => {
                let path = path.join(name);
                let system = &held.system;
                let limit = system.capabilities().largest_file;
                if size > limit {
                    let format = system.format_name();
                    return Err(Error::FileTooLarge { format, limit, wanted: size }).about(&path);
                }
                let first = made.insert(path.to_string().to_lowercase());
                let child = match held.child(name) {
                    Ok(_) if !first => {
                        let why =
                            "another file of this copy has the same name, or one that differs only in case";
                        return Err(Failure::new(&path, why));
                    }
                    Ok(child) => {
                        let empty = Change { size: Some(0), ..Change::default() };
                        system.set_attributes(child.node, &empty).about(&path)?;
                        child
                    }
                    Err(Error::NotFound) => {
                        let node = system.create(held.node, name, Kind::File).about(&path)?;
                        Held::new(system, node)
                    }
                    Err(error) => return Err(error).about(&path),
                };
                // Space in one piece, and a file that will not fit is known before its content is moved.
                if system.capabilities().preallocate && room > 0 {
                    let allocated = match system.allocate(child.node, 0..room, true) {
                        // Files with integrity have nothing allocated ahead.
                        Err(Error::Unsupported { .. }) => Ok(()),
                        allocated => allocated.about(&path),
                    };
                    if allocated.is_err() {
                        self.remove(name);
                    }
                    allocated?;
                }
                Ok(Writer::Volume(path, child))
            }
        }
    }

    /// Removes a file that could not be written in full. Why that failed is told already; if this fails too, `check`
    /// has the last word.
    fn remove(&self, name: &Name) {
        match self {
            Target::Host(directory) => {
                let _ = host_path(directory, name).map(fs::remove_file);
            }
            Target::Volume(_, held) => {
                let _ = held.system.unlink(held.node, name);
            }
        }
    }

    /// Sets a directory's own times and flags.
    fn finish(&self, change: &Change) -> Result<(), Failure> {
        match self {
            Target::Host(path) => {
                let directory = File::open(path).about(shown(path))?;
                directory.set_times(times(change)).about(shown(path))
            }
            Target::Volume(path, held) => {
                held.system.set_attributes(held.node, change).about(path).map(|_| ())
            }
        }
    }
}

enum Writer {
    Host(PathBuf, File),
    Volume(VolumePath, Held),
}

impl Writer {
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        match self {
            Writer::Host(path, file) => file.write_all_at(data, offset).about(shown(path)),
            Writer::Volume(path, held) => held.system.write(held.node, offset, data).about(path),
        }
    }

    fn finish(&self, change: &Change) -> Result<(), Failure> {
        match self {
            Writer::Host(path, file) => file.set_times(times(change)).about(shown(path)),
            Writer::Volume(path, held) => {
                held.system.set_attributes(held.node, change).about(path).map(|_| ())
            }
        }
    }
}

/// The last name of a host path, as a name for a volume.
pub fn host_name(path: &Path) -> Result<Name, Failure> {
    match path.file_name() {
        Some(name) => Name::from_bytes(name.as_bytes()).about(shown(path)),
        None => Err(Failure::new(shown(path), "has no name of its own; say under which one to copy it")),
    }
}

/// Where a name from a volume leads on the host: into `directory`, and nowhere else.
fn host_path(directory: &Path, name: &Name) -> Result<PathBuf, Failure> {
    let bytes = name.to_bytes();
    if matches!(&bytes[..], b"" | b"." | b"..") || bytes.iter().any(|byte| matches!(byte, b'/' | 0)) {
        let why = format!("the name {name:?} on the volume cannot be used on the host");
        return Err(Failure::new(shown(directory), why));
    }
    Ok(directory.join(OsStr::from_bytes(&bytes)))
}

fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timestamp::from(after),
        Err(before) => {
            // Nanoseconds count forward from the second before.
            let before = before.duration();
            let part = before.subsec_nanos();
            let whole = -(before.as_secs() as i64);
            if part == 0 {
                Timestamp { seconds: whole, nanoseconds: 0 }
            } else {
                Timestamp { seconds: whole - 1, nanoseconds: 1_000_000_000 - part }
            }
        }
    }
}

fn system_time(time: Timestamp) -> Option<SystemTime> {
    let part = Duration::from_nanos(u64::from(time.nanoseconds));
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let second = if time.seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    second?.checked_add(part)
}

/// The times that a host file can be given.
pub fn times(change: &Change) -> FileTimes {
    let mut times = FileTimes::new();
    if let Some(time) = change.modified.and_then(system_time) {
        times = times.set_modified(time);
    }
    if let Some(time) = change.accessed.and_then(system_time) {
        times = times.set_accessed(time);
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out_of_the_directory() {
        let directory = Path::new("/safe");
        for name in ["", ".", "..", "a/b", "../x", "/etc/passwd", "a\0b"] {
            assert!(host_path(directory, &Name::from(name)).is_err(), "{name:?}");
        }
        assert_eq!(host_path(directory, &Name::from("..a")).unwrap(), Path::new("/safe/..a"));
    }

    #[test]
    fn times_survive_the_way_there_and_back() {
        for (seconds, nanoseconds) in [(0, 0), (1_000_000_000, 5), (-1, 0), (-1, 999_999_999), (-86_400, 1)] {
            let time = Timestamp { seconds, nanoseconds };
            assert_eq!(timestamp(system_time(time).unwrap()), time);
        }
    }
}
