//! What is copied: a file or directory of the host or of a volume, with its attributes.

use super::extras::{Extras, Stream, StreamContent};
use super::host::{self, Layout};
use super::kept_on_host::{self as kept, host_name};
use super::path::EntryPath;
use crate::error::{About, Error, ErrorKind, Result, shown};
use crate::node::{DEEPEST, Held};
use platter_device::host::{FileId, HostBytes, entry_id, read_some_at};
use platter_vfs::linux::{LinuxAttributes, Special, link_target, mode};
use platter_vfs::{Change, DosFlags, Entry, Error as SystemError, Kind, Name, Place, Progress, Timestamp};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What is copied.
pub enum Origin {
    /// A file or directory of the host.
    Host(PathBuf),
    /// A file or directory on a volume.
    Volume(EntryPath, Held),
    /// Something that gives one byte after another, as a file of unknown size.
    Input {
        /// What messages call it: `standard input`.
        name: String,
        /// Where its bytes come from.
        from: Mutex<Box<dyn Read + Send>>,
    },
}

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A FIFO, socket or device.
    Special(Special),
}

/// Identifies a file that has several names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// Which host file it is.
    Host(FileId),
    /// The open volume and the node number of a file on a volume. The node is held.
    Volume(usize, u64),
}

/// The metadata of a source.
pub struct Facts {
    /// What it is.
    pub what: What,
    /// The size in bytes.
    pub size: u64,
    /// Times and flags to set on the copy.
    pub change: Change,
    /// Owner, permissions and device number, as far as there are any.
    pub owner: LinuxAttributes,
    /// The file's identity; `Some` only if it has further names.
    pub identity: Option<Identity>,
}

impl Origin {
    /// A file or directory of the host. A symbolic link that is named is followed, and its target is copied with all its
    /// attributes.
    ///
    /// # Errors
    /// That there is none, or that the host tells nothing of it.
    pub fn of_host(path: &Path) -> Result<Origin> {
        fs::metadata(path).about(shown(path))?;
        let path =
            if path.is_symlink() { path.canonicalize().about(shown(path))? } else { path.to_path_buf() };
        Ok(Origin::Host(path))
    }

    /// Returns the number of bytes in files, for the progress bar. A file whose metadata cannot be read counts
    /// nothing; copying it fails later.
    pub fn total(&self, recursive: bool, progress: &dyn Progress) -> u64 {
        self.total_within(recursive, progress, 0)
    }

    fn total_within(&self, recursive: bool, progress: &dyn Progress, depth: usize) -> u64 {
        if progress.is_stopped() {
            return 0;
        }
        match self.facts(depth) {
            Ok(Facts { what: What::File, size, .. }) => size,
            Ok(Facts { what: What::Directory, .. }) if recursive && depth <= DEEPEST => {
                let mut total = 0u64;
                self.children(|child| {
                    let inside = child.map_or(0, |(_, child)| child.total_within(true, progress, depth + 1));
                    total = total.saturating_add(inside);
                });
                total
            }
            _ => 0,
        }
    }

    /// Returns the metadata of a source. A symbolic link is followed at depth 0, where an argument names it, but not
    /// inside a tree.
    pub fn facts(&self, depth: usize) -> Result<Facts> {
        match self {
            Origin::Input { .. } => Ok(Facts {
                what: What::File,
                size: 0,
                change: Change::default(),
                owner: LinuxAttributes::default(),
                identity: None,
            }),
            Origin::Host(path) => {
                let metadata =
                    if depth == 0 { fs::metadata(path) } else { fs::symlink_metadata(path) }.about(self)?;
                let kind = metadata.file_type();
                let host::HostFacts { special, owner, links } = host::facts(path, &metadata);
                let what = match special {
                    Some(special) => What::Special(special),
                    None if kind.is_dir() => What::Directory,
                    None if kind.is_symlink() => What::Link,
                    None if kind.is_file() => What::File,
                    None => {
                        let why = "is neither a file nor a directory; not copied";
                        return Err(Error::refused(ErrorKind::Unsupported, self, why));
                    }
                };
                let change = Change {
                    created: metadata.created().ok().map(Timestamp::from),
                    modified: metadata.modified().ok().map(Timestamp::from),
                    accessed: metadata.accessed().ok().map(Timestamp::from),
                    flags: if what == What::Link { None } else { host::flags(path) },
                    ..Change::default()
                };
                let is_shared = links > 1 && what != What::Directory;
                let identity = entry_id(path).filter(|_| is_shared).map(Identity::Host);
                Ok(Facts { what, size: metadata.len(), change, owner, identity })
            }
            Origin::Volume(_, held) => {
                let attributes = held.system.attributes(held.node).about(self)?;
                let change = Change {
                    size: None,
                    flags: Some(DosFlags(attributes.flags.0 & DosFlags::SETTABLE.0)),
                    created: attributes.created,
                    modified: Some(attributes.modified),
                    accessed: attributes.accessed,
                };
                let owner = or_none(LinuxAttributes::read(&*held.system, held.node)).about(self)?;
                let owner = owner.unwrap_or_default();
                let what = match (attributes.kind, owner.mode.and_then(Special::of_mode)) {
                    (Kind::File, Some(special)) => What::Special(special),
                    (Kind::File, None) => What::File,
                    (Kind::Directory, _) => What::Directory,
                    (Kind::SymbolicLink, _) => What::Link,
                };
                let is_shared = attributes.links > 1 && attributes.kind != Kind::Directory;
                let identity = is_shared.then(|| Identity::Volume(held.volume(), held.node.0));
                Ok(Facts { what, size: attributes.size, change, owner, identity })
            }
        }
    }

    /// Reads the attributes besides content, owner, times and flags.
    pub(super) fn extras(&self, what: What) -> Result<Extras> {
        match self {
            Origin::Input { .. } => Ok(Extras::default()),
            Origin::Host(path) => kept::extras(path).about(self),
            Origin::Volume(_, held) => Ok(self.volume_extras(held, what)),
        }
    }

    fn volume_extras(&self, held: &Held, what: What) -> Extras {
        let (system, node) = (&held.system, held.node);
        let mut extras = Extras::default();
        let mut failures = Vec::new();
        for stream in or_told(system.streams().and_then(|part| part.list(node)), self, &mut failures)
            .unwrap_or_default()
        {
            let at = format!("{self}:{}", stream.name);
            let opened = system.streams().and_then(|part| part.open(node, &stream.name, false));
            if let Some(opened) = or_told(opened, &at, &mut failures) {
                let content = StreamContent::Held(Held::new(system, opened));
                extras.streams.push(Stream { name: stream.name, content });
            }
        }
        let names =
            or_told(system.extended_attributes().and_then(|part| part.list(node)), self, &mut failures)
                .unwrap_or_default();
        for name in names.into_iter().filter(|name| !LinuxAttributes::has(name)) {
            let at = format!("{self}:{name}");
            let value = or_told(
                system.extended_attributes().and_then(|part| part.get(node, &name)),
                &at,
                &mut failures,
            );
            extras.extended.extend(value.map(|value| (name, value)));
        }
        if matches!(what, What::File | What::Directory) {
            extras.reparse =
                or_told(system.reparse_points().and_then(|part| part.get(node)), self, &mut failures)
                    .flatten();
        }
        let usual = platter_vfs::security::usual_descriptors();
        let security =
            or_told(system.security_descriptors().and_then(|part| part.get(node)), self, &mut failures);
        extras.security = security.filter(|own| !own.is_empty() && !usual.contains(own));
        let snapshots = or_told(system.snapshots().and_then(|part| part.list(node)), self, &mut failures);
        extras.snapshots = snapshots.map_or(0, |all| all.len() as u64);
        extras.failures = failures;
        extras
    }

    /// Returns the target of a symbolic link.
    pub fn target(&self) -> Result<Vec<u8>> {
        match self {
            Origin::Input { .. } => Ok(Vec::new()),
            Origin::Host(path) => Ok(fs::read_link(path).about(self)?.into_os_string().as_bytes().to_vec()),
            Origin::Volume(_, held) => link_target(&*held.system, held.node).about(self),
        }
    }

    /// Calls `each` for every entry of a directory, with an error for an entry that cannot be used; the remaining
    /// entries still follow.
    pub fn children(&self, mut each: impl FnMut(Result<(Name, Origin)>)) {
        match self {
            Origin::Input { .. } => {}
            Origin::Host(path) => {
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
                children.into_iter().for_each(|(name, path)| each(Ok((name, Origin::Host(path)))));
            }
            Origin::Volume(path, held) => {
                let (entries, read) = held.entries();
                for Entry { name, .. } in entries {
                    let path = path.join(&name);
                    each(held.child(&name).about(&path).map(|held| (name, Origin::Volume(path, held))));
                }
                if let Err(failure) = read.about(self) {
                    each(Err(failure));
                }
            }
        }
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// That the host does not open it.
    pub fn reader(&self) -> Result<Reader<'_>> {
        let content = match self {
            Origin::Input { from, .. } => OpenFile::Input(from),
            Origin::Host(path) => OpenFile::Host(File::open(path).about(self)?),
            Origin::Volume(_, held) => OpenFile::Volume(held),
        };
        Ok(Reader { origin: self, content })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Input { name, .. } => f.write_str(name),
            Origin::Host(path) => path.display().fmt(f),
            Origin::Volume(path, _) => path.fmt(f),
        }
    }
}

/// A file that is open for reading.
pub struct Reader<'s> {
    origin: &'s Origin,
    content: OpenFile<'s>,
}

enum OpenFile<'s> {
    Host(File),
    Volume(&'s Held),
    /// Gives one byte after another, wherever it is read.
    Input(&'s Mutex<Box<dyn Read + Send>>),
}

impl Reader<'_> {
    /// Fills the buffer from `offset` as far as the file goes, and returns the number of bytes read.
    ///
    /// # Errors
    /// Those of the host or of the volume.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        match &self.content {
            OpenFile::Host(file) => loop {
                match read_some_at(file, buffer, offset) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    done => return done.about(self.origin),
                }
            },
            OpenFile::Input(from) => {
                let mut input = from.lock().unwrap_or_else(PoisonError::into_inner);
                let mut read = 0;
                while read < buffer.len() {
                    match input.read(&mut buffer[read..]) {
                        Ok(0) => break,
                        Ok(more) => read += more,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error).about(self.origin),
                    }
                }
                Ok(read)
            }
            OpenFile::Volume(held) => held.system.read(held.node, offset, buffer).about(self.origin),
        }
    }

    /// Returns which parts of a file of this size have content.
    pub(super) fn layout(&self, size: u64) -> Result<Layout> {
        match &self.content {
            OpenFile::Input(_) => Ok(Layout { data: Vec::new(), has_holes: false }),
            OpenFile::Host(file) => Ok(host::layout(file, size)),
            OpenFile::Volume(held) => held_layout(held, size).about(self.origin),
        }
    }
}

/// Returns which parts of a file on a volume have content. Ranges that are allocated but never written read as
/// zeroes, and count as holes do.
pub(super) fn held_layout(held: &Held, size: u64) -> platter_vfs::Result<Layout> {
    let mut layout = Layout { data: Vec::new(), has_holes: false };
    let Some(extents) = or_none(held.system.extents(held.node))? else {
        layout.data.extend((size > 0).then_some(0..size));
        return Ok(layout);
    };
    for extent in extents {
        let range = extent.offset..extent.offset.saturating_add(extent.length).min(size);
        match extent.place {
            Place::Hole => layout.has_holes |= !range.is_empty(),
            Place::Unwritten(_) => {}
            Place::Device(_) | Place::Compressed | Place::Resident if range.is_empty() => {}
            Place::Device(_) | Place::Compressed | Place::Resident => match layout.data.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => layout.data.push(range),
            },
        }
    }
    Ok(layout)
}

/// Returns `None` for an attribute that the format does not have.
pub(super) fn or_none<T>(found: platter_vfs::Result<T>) -> platter_vfs::Result<Option<T>> {
    match found {
        Err(SystemError::Unsupported { .. }) => Ok(None),
        found => found.map(Some),
    }
}

/// Returns an attribute if the format has it. A read error goes to `failures`, so that the remaining attributes are
/// still read.
fn or_told<T>(found: platter_vfs::Result<T>, at: impl fmt::Display, failures: &mut Vec<Error>) -> Option<T> {
    or_none(found).about(at).unwrap_or_else(|failure| {
        failures.push(failure);
        None
    })
}

/// Returns the permission bits of a mode.
pub(super) fn permissions(mode: u32) -> u32 {
    mode & mode::PERMISSIONS
}
