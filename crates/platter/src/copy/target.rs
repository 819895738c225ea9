//! The target of a copy: a directory of the host or of a volume, and the files made in it.

use super::extras::{Extras, Stream, StreamContent};
use super::host::{self, DirectoryMaker, Usual};
use super::kept_on_host::{self as kept, host_path};
use super::losses::{Loss, Losses};
use super::origin::{Facts, Origin, What, held_layout, or_none, permissions};
use super::path::EntryPath;
use crate::error::{About, Error, Result, shown};
use crate::node::Held;
use platter_device::host::{host_string, make_link, write_all_at};
use platter_vfs::linux::{self, LinuxAttributes, link_to, mode};
use platter_vfs::{
    Change, DosFlags, Error as SystemError, FileSystem, Kind, Name, NewEntry, Node, RenameFlags, Reparse,
    reparse,
};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory to copy into.
pub enum Target {
    /// A directory of the host.
    Host(PathBuf),
    /// A directory on a volume.
    Volume(EntryPath, Held),
}

/// A file or directory that was made in a [`Target`].
pub(super) enum Made {
    Host(PathBuf),
    Volume(EntryPath, Held),
}

/// How a file is copied to a name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// The name is free.
    New,
    /// The copy gets another name at first, and replaces the file there once it is whole: a source that cannot be read,
    /// or a target that is full, costs nothing.
    Beside,
    /// The file there gets the new content, since it has further names, streams or attributes, which it is to keep.
    Over,
    /// What is there takes the content, one byte after another, and nothing else: a device, a FIFO or a socket.
    Stream,
}

/// The number of bytes copied at a time.
const PIECE: u64 = 1 << 20;

impl Target {
    /// Returns the path of the entry `name` in this directory, for messages.
    pub fn path(&self, name: &Name) -> String {
        match self {
            Target::Host(directory) => directory.join(host_string(&name.to_bytes())).display().to_string(),
            Target::Volume(path, _) => path.join(name).to_string(),
        }
    }

    /// Whether an entry of this name is there.
    pub(super) fn has(&self, name: &Name) -> bool {
        match self {
            Target::Host(directory) => {
                host_path(directory, name).is_ok_and(|path| path.symlink_metadata().is_ok())
            }
            Target::Volume(_, held) => held.child(name).is_ok(),
        }
    }

    /// Whether the copy of `source` under `name` would be the source itself.
    pub(super) fn is_source(&self, source: &Origin, name: &Name) -> bool {
        match (source, self) {
            (Origin::Host(path), Target::Host(directory)) => {
                let copy = directory.join(host_string(&name.to_bytes()));
                matches!((fs::canonicalize(path), fs::canonicalize(copy)), (Ok(one), Ok(two)) if one == two)
            }
            (Origin::Volume(_, source), Target::Volume(_, directory)) => {
                source.same_volume(directory)
                    && directory.child(name).is_ok_and(|copy| copy.node == source.node)
            }
            _ => false,
        }
    }

    /// Returns the directory of this name, made if it is missing. With `follows`, a symbolic link to a directory is
    /// accepted too.
    pub(super) fn directory(&self, name: &Name, follows: bool) -> Result<(Target, Made)> {
        match self {
            Target::Host(directory) => {
                let path = host_path(directory, name)?;
                // A symbolic link that came from a volume must not lead the copies that follow out of the target.
                let is_one = |path: &PathBuf| match follows {
                    true => path.is_dir(),
                    false => path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()),
                };
                // Its own permissions come last: until then nobody else sees what is in it.
                match DirectoryMaker::make(&path) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_one(&path) => {}
                    made => made.about(shown(&path))?,
                }
                Ok((Target::Host(path.clone()), Made::Host(path)))
            }
            Target::Volume(path, held) => {
                let path = path.join(name);
                let system = &held.system;
                let node = match system.lookup(held.node, name) {
                    Err(SystemError::NotFound) => system.create(held.node, name, Kind::Directory),
                    found => found,
                };
                let child = Held::new(system, node.about(&path)?);
                if system.attributes(child.node).about(&path)?.kind != Kind::Directory {
                    return Err(SystemError::NotADirectory).about(&path);
                }
                let made = Held::new(system, system.lookup(held.node, name).about(&path)?);
                Ok((Target::Volume(path.clone(), child), Made::Volume(path, made)))
            }
        }
    }

    /// Removes the read-only attribute of the file of this name on a volume, so that it can be replaced.
    pub(super) fn allow(&self, name: &Name) -> Result<()> {
        match self {
            Target::Volume(path, held) => {
                held.child(name).map_or(Ok(()), |there| there.make_removable()).about(path.join(name))
            }
            Target::Host(_) => Ok(()),
        }
    }

    /// Decides how a file is copied to this name. With `follows`, what a symbolic link leads to is meant.
    pub(super) fn manner(&self, name: &Name, follows: bool) -> Result<Manner> {
        match self {
            Target::Host(directory) => {
                let path = host_path(directory, name)?;
                let Ok(entry) = path.symlink_metadata() else { return Ok(Manner::New) };
                let is_link = entry.is_symlink();
                let meant = if follows && is_link { path.metadata().ok() } else { Some(entry) };
                Ok(match meant {
                    Some(file)
                        if file.is_file()
                            && !is_link
                            && host::facts(&path, &file).links == 1
                            && host::may_make_files_in(directory) =>
                    {
                        Manner::Beside
                    }
                    // The link leads nowhere yet, and the file is made where it leads.
                    None => Manner::Over,
                    Some(there) if there.is_file() || there.is_dir() => Manner::Over,
                    Some(_) if follows => Manner::Stream,
                    Some(_) => {
                        self.clear(name)?;
                        Manner::New
                    }
                })
            }
            Target::Volume(path, held) => {
                let Ok(there) = held.child(name) else { return Ok(Manner::New) };
                let path = path.join(name);
                let attributes = there.system.attributes(there.node).about(&path)?;
                match attributes.kind {
                    Kind::File if attributes.links < 2 && has_content_only(&there).about(&path)? => {
                        Ok(Manner::Beside)
                    }
                    Kind::File => Ok(Manner::Over),
                    Kind::Directory => Err(SystemError::IsADirectory).about(&path),
                    Kind::SymbolicLink => {
                        self.clear(name)?;
                        Ok(Manner::New)
                    }
                }
            }
        }
    }

    /// Returns the permissions of what is there under this name on the host.
    pub(super) fn mode_there(&self, name: &Name) -> Option<u32> {
        let Target::Host(directory) = self else { return None };
        let there = fs::metadata(host_path(directory, name).ok()?).ok()?;
        host::mode(&there)
    }

    /// Returns a name that no entry has yet.
    pub(super) fn free_name(&self) -> Name {
        let names = (0u32..).map(|number| format!(".platter-copy-{}-{number}", std::process::id()));
        let mut names = names.map(|name| Name::from(&*name));
        let is_free = |name: &Name| match self {
            Target::Host(directory) => {
                host_path(directory, name).is_ok_and(|path| path.symlink_metadata().is_err())
            }
            Target::Volume(_, held) => held.child(name).is_err(),
        };
        names.find(is_free).expect("a directory has fewer entries than there are numbers")
    }

    /// Returns the file of this name, made if missing and emptied, for `size` bytes. An existing file keeps its
    /// streams and attributes.
    ///
    /// On the host, nobody else can read a new file before it has its own permissions; and it is new indeed, so that no
    /// link that somebody puts there meanwhile is followed.
    pub(super) fn file(&self, name: &Name, size: u64, manner: Manner) -> Result<Writer> {
        match self {
            Target::Host(directory) => {
                let path = host_path(directory, name)?;
                let mut options = File::options();
                options.write(true);
                host::private(&mut options);
                match manner {
                    Manner::New | Manner::Beside => options.create_new(true),
                    Manner::Over => options.create(true).truncate(true),
                    Manner::Stream => &mut options,
                };
                let file = options.open(&path).about(shown(&path))?;
                Ok(match manner {
                    Manner::Stream => Writer::Stream(path, file),
                    _ => Writer::Host(path, file),
                })
            }
            Target::Volume(path, held) => {
                let path = path.join(name);
                let system = &held.system;
                let limit = system.capabilities().largest_file;
                if size > limit {
                    let format = system.format_name();
                    return Err(SystemError::FileTooLarge { format, limit, wanted: size }).about(&path);
                }
                if let Ok(there) = held.child(name) {
                    empty(&there).about(&path)?;
                    return Ok(Writer::Volume(path, there));
                }
                let node = system.create(held.node, name, Kind::File).about(&path)?;
                Ok(Writer::Volume(path, Held::new(system, node)))
            }
        }
    }

    /// Gives `made`, which is in this directory under the name `from`, the name `to`, in place of the file there.
    pub(super) fn replace(&self, made: Made, from: &Name, to: &Name) -> Result<Made> {
        match (self, made) {
            (Target::Volume(path, held), Made::Volume(_, file)) => {
                let path = path.join(to);
                held.system.rename(held.node, from, held.node, to, RenameFlags::Replace).about(&path)?;
                Ok(Made::Volume(path, file))
            }
            (Target::Host(directory), _) => {
                let path = host_path(directory, to)?;
                fs::rename(host_path(directory, from)?, &path).about(shown(&path))?;
                Ok(Made::Host(path))
            }
            (_, made) => Ok(made),
        }
    }

    /// Makes a symbolic link, in place of a file or link of that name. `None` if the target has no symbolic links.
    pub(super) fn link(&self, source: &Origin, name: &Name) -> Result<Option<Made>> {
        match self {
            Target::Host(directory) => {
                let path = host_path(directory, name)?;
                let target = source.target()?;
                self.clear(name)?;
                match make_link(host_string(&target).as_ref(), &path) {
                    Err(error) if cfg!(windows) && is_for_want_of_privilege(&error) => Ok(None),
                    made => made.about(shown(&path)).map(|()| Some(Made::Host(path))),
                }
            }
            Target::Volume(path, held) => {
                let path = path.join(name);
                let system = &held.system;
                if !system.capabilities().symbolic_links {
                    return Ok(None);
                }
                // Between volumes the reparse point itself is copied, so that Windows sees the same kind of link; a
                // junction is one only on a directory.
                let point = match source {
                    Origin::Volume(_, from) => {
                        match from.system.reparse_points().and_then(|part| part.get(from.node)) {
                            Ok(point) => point.filter(|point| reparse::is_link(point.tag)),
                            Err(SystemError::Unsupported { .. }) => None,
                            Err(error) => return Err(error).about(source),
                        }
                    }
                    Origin::Host(_) | Origin::Input { .. } => None,
                };
                self.clear(name)?;
                let point = match point {
                    Some(point) => point,
                    None => link_to(&source.target()?),
                };
                let made = match point.tag {
                    reparse::JUNCTION => junction(system, held.node, name, &point),
                    _ => {
                        let new = NewEntry { kind: Kind::SymbolicLink, point: Some(&point), extended: &[] };
                        system.make(held.node, name, &new)
                    }
                };
                let made = Held::new(system, made.about(&path)?);
                Ok(Some(Made::Volume(path, made)))
            }
        }
    }

    /// Makes a FIFO, socket or device. `None` if the target has none, or this user may not make it.
    pub(super) fn special(&self, facts: &Facts, name: &Name) -> Result<Option<Made>> {
        let What::Special(special) = facts.what else { return Ok(None) };
        match self {
            Target::Host(directory) => {
                let path = host_path(directory, name)?;
                self.clear(name)?;
                let made = host::make_special(&path, special, &facts.owner).about(shown(&path))?;
                Ok(made.then_some(Made::Host(path)))
            }
            Target::Volume(path, held) => {
                let path = path.join(name);
                let system = &held.system;
                if !system.capabilities().extended_attributes {
                    return Ok(None);
                }
                self.clear(name)?;
                let point = special.reparse_point();
                let new = NewEntry { point: Some(&point), ..NewEntry::of(Kind::File) };
                let node = system.make(held.node, name, &new).about(&path)?;
                Ok(Some(Made::Volume(path, Held::new(system, node))))
            }
        }
    }

    /// Gives `made`, the first copy of a file with several names, this further name. `None` if the target cannot.
    pub(super) fn hard_link(&self, made: &Made, name: &Name) -> Result<Option<()>> {
        match (self, made) {
            (Target::Host(directory), Made::Host(first)) => {
                let path = host_path(directory, name)?;
                self.clear(name)?;
                match fs::hard_link(first, &path) {
                    Err(error)
                        if matches!(
                            error.kind(),
                            io::ErrorKind::Unsupported
                                | io::ErrorKind::PermissionDenied
                                | io::ErrorKind::TooManyLinks
                                | io::ErrorKind::CrossesDevices
                        ) =>
                    {
                        Ok(None)
                    }
                    done => done.about(shown(&path)).map(Some),
                }
            }
            (Target::Volume(path, held), Made::Volume(_, first)) if held.same_volume(first) => {
                let path = path.join(name);
                if !held.system.capabilities().hard_links {
                    return Ok(None);
                }
                self.clear(name)?;
                match held.system.link(first.node, held.node, name) {
                    Err(SystemError::TooManyLinks { .. } | SystemError::Unsupported { .. }) => Ok(None),
                    done => done.about(&path).map(Some),
                }
            }
            _ => Ok(None),
        }
    }

    /// Removes the entry of this name, unless it is a directory.
    fn clear(&self, name: &Name) -> Result<()> {
        match self {
            Target::Host(directory) => {
                let path = host_path(directory, name)?;
                match fs::remove_file(&path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    done => done.about(shown(&path)),
                }
            }
            Target::Volume(path, held) => match held.system.unlink(held.node, name) {
                Err(SystemError::NotFound) => Ok(()),
                done => done.about(path.join(name)),
            },
        }
    }

    /// Whether this directory is on a volume that cannot be changed, or no longer.
    pub fn takes_nothing_more(&self) -> bool {
        self.why_read_only().is_some()
    }

    /// Why nothing can be written to the target's volume, if that is so.
    pub fn why_read_only(&self) -> Option<String> {
        let Target::Volume(_, held) = self else { return None };
        // Where the volume's info cannot be read, the next file is tried.
        held.system.info().ok()?.read_only
    }

    /// Removes a file that could not be written in full. Errors are ignored: the failed write was reported already,
    /// and a file that stays is left to `check`.
    pub(super) fn remove(&self, name: &Name) {
        match self {
            Target::Host(directory) => {
                let _ = host_path(directory, name).map(fs::remove_file);
            }
            Target::Volume(_, held) => {
                // It may have its source's attributes already, and so be read-only.
                let _ = self.allow(name);
                let _ = held.system.unlink(held.node, name);
            }
        }
    }
}

/// Empties a file: removes its content, and a reparse point, which would replace the content. Streams and attributes
/// stay, as they do where cp(1) overwrites a file.
fn empty(held: &Held) -> platter_vfs::Result<()> {
    let (system, node) = (&held.system, held.node);
    system.set_attributes(node, &Change { size: Some(0), ..Change::default() })?;
    match system.reparse_points().and_then(|part| part.get(node)) {
        Ok(Some(_)) => system.reparse_points().and_then(|part| part.set(node, None)),
        Ok(None) | Err(SystemError::Unsupported { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether Windows makes symbolic links for administrators only (`ERROR_PRIVILEGE_NOT_HELD`), or not at all.
fn is_for_want_of_privilege(error: &io::Error) -> bool {
    const PRIVILEGE_NOT_HELD: i32 = 1314;
    error.raw_os_error() == Some(PRIVILEGE_NOT_HELD) || error.kind() == io::ErrorKind::Unsupported
}

/// Whether a file has neither streams nor extended attributes nor snapshots, except what records its owner.
fn has_content_only(held: &Held) -> platter_vfs::Result<bool> {
    let (system, node) = (&held.system, held.node);
    let streams = or_none(system.streams().and_then(|part| part.list(node)))?.unwrap_or_default();
    let mut names = or_none(system.extended_attributes().and_then(|part| part.list(node)))?
        .unwrap_or_default()
        .into_iter();
    let snapshots = or_none(system.snapshots().and_then(|part| part.list(node)))?.unwrap_or_default();
    Ok(streams.is_empty() && names.all(|name| LinuxAttributes::has(&name)) && snapshots.is_empty())
}

/// A file that is open for writing.
pub(super) enum Writer {
    /// What takes one byte after another.
    Stream(PathBuf, File),
    Host(PathBuf, File),
    Volume(EntryPath, Held),
}

impl Writer {
    /// Allocates space for content that is written in several steps, so that it lies in one piece, and a file that
    /// does not fit fails before it is copied. Content that is written in one step is placed by that write, if
    /// possible in the file's record.
    pub(super) fn provide(&self, size: u64) -> Result<()> {
        let Writer::Volume(path, held) = self else { return Ok(()) };
        if !held.system.capabilities().preallocate || size <= PIECE {
            return Ok(());
        }
        match held.system.allocate(held.node, 0..size, true) {
            // Files with integrity cannot be allocated ahead.
            Err(SystemError::Unsupported { .. }) => Ok(()),
            allocated => allocated.about(path),
        }
    }

    pub(super) fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        match self {
            Writer::Stream(path, file) => {
                let mut file: &File = file;
                file.write_all(data).about(shown(path))
            }
            Writer::Host(path, file) => write_all_at(file, data, offset).about(shown(path)),
            Writer::Volume(path, held) => held.system.write(held.node, offset, data).about(path),
        }
    }

    /// Gives the file its size, which may be beyond the last byte written, and makes holes of all ranges that are not
    /// in `data`. Returns whether the file has these holes.
    pub(super) fn shape(&self, data: &[Range<u64>], size: u64) -> Result<bool> {
        match self {
            Writer::Stream(..) => Ok(true),
            Writer::Host(path, file) => {
                if file.metadata().about(shown(path))?.len() < size {
                    file.set_len(size).about(shown(path))?;
                }
                Ok(true)
            }
            Writer::Volume(path, held) => {
                if held.system.attributes(held.node).about(path)?.size < size {
                    let change = Change { size: Some(size), ..Change::default() };
                    held.system.set_attributes(held.node, &change).about(path)?;
                }
                if !held.system.capabilities().sparse {
                    return Ok(false);
                }
                for hole in holes(data, size) {
                    // Most holes exist already, because their ranges were not written.
                    let there = held_layout(held, hole.end).about(path)?;
                    if there.data.iter().any(|range| range.start < hole.end && range.end > hole.start) {
                        held.system.punch(held.node, hole).about(path)?;
                    }
                }
                Ok(true)
            }
        }
    }

    /// Ends writing, and returns the file, which gets its attributes next.
    pub(super) fn finish(self) -> Made {
        match self {
            Writer::Stream(path, _) | Writer::Host(path, _) => Made::Host(path),
            Writer::Volume(path, held) => Made::Volume(path, held),
        }
    }
}

/// Returns the ranges of a file that are not in `data`. Returns none if `data` has very many ranges: the caller asks
/// the volume about each hole, which would take too long.
fn holes(data: &[Range<u64>], size: u64) -> Vec<Range<u64>> {
    const MOST: usize = 1000;
    if data.len() > MOST {
        return Vec::new();
    }
    let ends = [0].into_iter().chain(data.iter().map(|range| range.end));
    let starts = data.iter().map(|range| range.start).chain([size]);
    ends.zip(starts).filter(|(end, start)| end < start).map(|(end, start)| end..start).collect()
}

impl Made {
    /// Gives the copy its attributes besides content, owner, times and flags. Returns the errors of the attributes
    /// that could not be read or written; the other attributes are kept.
    pub(super) fn add(&self, extras: Extras, from: &Origin, losses: &mut Losses<'_>) -> Vec<Error> {
        let Extras { streams, extended, reparse, security, rights, snapshots, mut failures } = extras;
        let mut given = |kept: Result<bool>, loss, at: String| match kept {
            Ok(true) => {}
            Ok(false) => losses.note(loss, at),
            Err(failure) => failures.push(failure),
        };
        for stream in streams {
            let at = format!("{from}:{}", stream.name);
            given(self.add_stream(&stream, &at), Loss::Streams, at);
        }
        for (name, value) in extended {
            let at = format!("{from}:{name}");
            let kept = match self {
                Made::Host(path) if linux::is_kept(&name) => {
                    is_kept_by_host(host::set_extended(path, name.as_bytes(), &value)).about(&at)
                }
                Made::Host(_) => Ok(false),
                Made::Volume(_, held) => is_kept(
                    held.system
                        .extended_attributes()
                        .and_then(|part| part.set(held.node, &name, Some(&value))),
                )
                .about(&at),
            };
            given(kept, Loss::Extended, at);
        }
        if let Some(point) = reparse {
            let kept = match self {
                Made::Host(_) => Ok(false),
                Made::Volume(path, held) => {
                    is_kept(held.system.reparse_points().and_then(|part| part.set(held.node, Some(&point))))
                        .about(path)
                }
            };
            given(kept, Loss::Reparse, from.to_string());
        }
        if let Some(descriptor) = security {
            let kept = match self {
                Made::Host(_) => Ok(false),
                Made::Volume(path, held) => is_kept(
                    held.system.security_descriptors().and_then(|part| part.set(held.node, &descriptor)),
                )
                .about(path),
            };
            given(kept, Loss::Security, from.to_string());
        }
        (0..rights).for_each(|_| losses.note(Loss::Rights, from));
        (0..snapshots).for_each(|_| losses.note(Loss::Snapshots, from));
        failures
    }

    /// Gives the copy a named stream, whole or not at all. Returns whether the target has a place for it.
    fn add_stream(&self, stream: &Stream, at: &str) -> Result<bool> {
        let name = &stream.name;
        match self {
            Made::Host(path) => match bytes_of(&stream.content, at)? {
                Some(content) => is_kept_by_host(kept::set_stream(path, name, content)).about(at),
                None => Ok(false),
            },
            Made::Volume(_, held) if held.system.capabilities().streams => {
                let kept = is_kept(copy_stream(held, name, &stream.content)).about(at);
                if kept.is_err() {
                    // The incomplete stream is removed: it would look like a whole one.
                    let _ = held.system.streams().and_then(|part| part.remove(held.node, name));
                }
                kept
            }
            Made::Volume(..) => Ok(false),
        }
    }

    /// Sets owner, permissions, flags and, last of all, times. On the host, `mode` are the permissions where the source
    /// records none.
    pub(super) fn finish(
        &self,
        facts: &Facts,
        from: &Origin,
        mode: u32,
        usual: &Usual,
        losses: &mut Losses<'_>,
    ) -> Result<()> {
        match self {
            Made::Host(path) => {
                if !own_on_host(path, facts, mode).about(self)? {
                    losses.note(Loss::Owners, from);
                }
                if !self.flag_on_host(path, facts).about(self)? {
                    losses.note(Loss::Flags, from);
                }
                host::set_times(path, &facts.change).about(self)
            }
            Made::Volume(path, held) => {
                let owner = match from {
                    Origin::Host(_) | Origin::Input { .. } => unusual(facts, usual),
                    // An owner that another volume records is kept as it is.
                    Origin::Volume(..) => facts.owner,
                };
                let mut change = facts.change.clone();
                if held.system.capabilities().extended_attributes {
                    if !is_kept(owner.write(&*held.system, held.node)).about(path)? {
                        losses.note(Loss::Owners, from);
                    }
                } else if let Some(read_only) = as_flag(facts.what, &owner, usual) {
                    if read_only {
                        let before = change.flags.unwrap_or(default_flags(facts.what));
                        change.flags = Some(DosFlags(before.0 | DosFlags::READ_ONLY.0));
                    }
                } else {
                    losses.note(Loss::Owners, from);
                }
                held.system.set_attributes(held.node, &change).about(path).map(|_| ())
            }
        }
    }

    /// Keeps the flags on the host. Returns false only if the host refused flags that permissions do not express
    /// (hidden, system).
    fn flag_on_host(&self, path: &Path, facts: &Facts) -> io::Result<bool> {
        let Some(flags) = facts.change.flags.filter(|flags| *flags != default_flags(facts.what)) else {
            return Ok(true);
        };
        if !matches!(facts.what, What::File | What::Directory) {
            return Ok(true);
        }
        let tells = flags.0 & (DosFlags::HIDDEN.0 | DosFlags::SYSTEM.0) != 0;
        Ok(is_kept_by_host(host::set_flags(path, flags))? || !tells)
    }
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Made::Host(path) => path.display().fmt(f),
            Made::Volume(path, _) => path.fmt(f),
        }
    }
}

/// Makes a junction, which is a directory with a reparse point.
fn junction(
    system: &Arc<dyn FileSystem>,
    directory: Node,
    name: &Name,
    point: &Reparse,
) -> platter_vfs::Result<Node> {
    let node = system.create(directory, name, Kind::Directory)?;
    system.reparse_points().and_then(|part| part.set(node, Some(point))).map(|()| node).inspect_err(|_| {
        let _ = system.rmdir(directory, name);
        system.forget(node, 1);
    })
}

/// Sets owner and permissions on the host, and returns whether the host accepted the owner. `otherwise` are the
/// permissions where the source records none.
fn own_on_host(path: &Path, facts: &Facts, otherwise: u32) -> io::Result<bool> {
    let is_read_only = facts.change.flags.is_some_and(|flags| flags.contains(DosFlags::READ_ONLY));
    let (is_link, is_for_reading) = (facts.what == What::Link, is_read_only && facts.what == What::File);
    host::own(path, &facts.owner, is_link, is_for_reading, otherwise)
}

/// Returns the flags of a new file or directory.
fn default_flags(what: What) -> DosFlags {
    match what {
        What::Directory => DosFlags::default(),
        _ => DosFlags::ARCHIVE,
    }
}

/// Returns the owner and permissions, without those that this user's new files have anyway. A file that gives its
/// owner's privileges to whoever runs it always has its owner recorded.
fn unusual(facts: &Facts, usual: &Usual) -> LinuxAttributes {
    const PRIVILEGES: u32 = 0o6000;
    let LinuxAttributes { uid, gid, mode, device } = facts.owner;
    if facts.what != What::Link && mode.is_some_and(|mode| mode & PRIVILEGES != 0) {
        return facts.owner;
    }
    let is_usual = |mode: &u32| permissions(*mode) == usual.mode(mode & mode::TYPE == mode::DIRECTORY);
    LinuxAttributes {
        uid: uid.filter(|uid| *uid != usual.uid),
        gid: gid.filter(|gid| *gid != usual.gid),
        mode: match facts.what {
            What::Link => None,
            What::Special(_) => mode,
            What::File | What::Directory => mode.filter(|mode| !is_usual(mode)),
        },
        device,
    }
}

/// Whether owner and permissions can be expressed by the read-only flag: `Some` with the flag's value if so,
/// otherwise `None`.
fn as_flag(what: What, owner: &LinuxAttributes, usual: &Usual) -> Option<bool> {
    match owner {
        LinuxAttributes { uid: None, gid: None, mode: None, .. } => Some(false),
        LinuxAttributes { uid: None, gid: None, mode: Some(mode), .. } if what == What::File => {
            let all = usual.mode(false);
            match permissions(*mode) {
                mode if mode == all => Some(false),
                mode if mode == all & !0o222 => Some(true),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns the content of a stream, or `None` if it is too large for an extended attribute of the host.
fn bytes_of(content: &StreamContent, at: &str) -> Result<Option<Vec<u8>>> {
    match content {
        StreamContent::Bytes(bytes) => Ok(Some(bytes.clone())),
        StreamContent::Held(held) => {
            let size = held.system.attributes(held.node).about(at)?.size;
            if size >= kept::LARGEST_VALUE {
                return Ok(None);
            }
            let mut bytes = vec![0; size as usize];
            let read = held.system.read(held.node, 0, &mut bytes).about(at)?;
            bytes.truncate(read);
            Ok(Some(bytes))
        }
    }
}

fn copy_stream(held: &Held, name: &Name, content: &StreamContent) -> platter_vfs::Result<()> {
    let system = &held.system;
    let stream = Held::new(system, system.streams()?.open(held.node, name, true)?);
    match content {
        StreamContent::Bytes(bytes) if bytes.is_empty() => Ok(()),
        StreamContent::Bytes(bytes) => system.write(stream.node, 0, bytes),
        StreamContent::Held(from) => {
            let mut buffer = vec![0; PIECE as usize];
            let mut offset = 0;
            loop {
                let read = from.system.read(from.node, offset, &mut buffer)?;
                if read == 0 {
                    return Ok(());
                }
                system.write(stream.node, offset, &buffer[..read])?;
                offset += read as u64;
            }
        }
    }
}

/// Whether a volume accepted an attribute; `Ok(false)` if it has no place for it, an error if it failed otherwise.
fn is_kept(done: platter_vfs::Result<()>) -> platter_vfs::Result<bool> {
    match done {
        Ok(()) => Ok(true),
        Err(
            SystemError::Unsupported { .. }
            | SystemError::RecordFull { .. }
            | SystemError::InvalidName { .. }
            | SystemError::InvalidArgument(_)
            | SystemError::FileTooLarge { .. }
            | SystemError::NotPermitted(_),
        ) => Ok(false),
        Err(error) => Err(error),
    }
}

/// As [`is_kept`], for the host.
fn is_kept_by_host(done: io::Result<()>) -> io::Result<bool> {
    match done {
        Err(error) if host::is_refused(&error) => Ok(false),
        done => done.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_new_file_is_private_at_first_and_follows_no_link() {
        let place = std::env::temp_dir().join(format!("platter-target-{}", std::process::id()));
        fs::create_dir(&place).unwrap();
        let target = Target::Host(place.clone());
        for manner in [Manner::New, Manner::Beside] {
            let made = target.file(&Name::from("new"), 0, manner);
            let mode = target.mode_there(&Name::from("new"));
            std::os::unix::fs::symlink("elsewhere", place.join("link")).unwrap();
            let through = target.file(&Name::from("link"), 0, manner);
            let is_elsewhere = place.join("elsewhere").exists();
            fs::remove_file(place.join("link")).unwrap();
            fs::remove_file(place.join("new")).unwrap();
            assert!(made.is_ok() && mode == Some(0o600) && through.is_err() && !is_elsewhere);
        }
        fs::remove_dir(&place).unwrap();
    }
}
