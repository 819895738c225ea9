//! Copying trees between the host and volumes, with everything that both sides can hold.
//!
//! An [`Origin`] is read and made again in a [`Target`]; each is on the host or on a volume. Names are passed between them
//! as [`Name`]s, so that a name that the target cannot hold is noticed, and no name from a volume can lead out of the
//! directory that is copied to. A [`CopyListener`] is told of each file that cannot be copied, while the copy goes on, and of
//! each attribute that the target has no place for ([`Loss`]).
//!
//! [`Volume::copy_in`](crate::Volume::copy_in) and [`Volume::copy_out`](crate::Volume::copy_out) copy one path; a [`struct@Copy`]
//! copies several, also between volumes.
//!
//! ```
//! use platter::Error;
//! use platter::Progress;
//! use platter::copy::{CopyListener, Loss, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # #[cfg(feature = "ntfs")] {
//! # let directory = std::env::temp_dir().join(format!("platter-copy-page-{}", std::process::id()));
//! # std::fs::create_dir_all(&directory)?;
//! # let image = directory.join("disk.img");
//! # let options = platter::MakeOptions { size: Some(16 << 20), ..Default::default() };
//! # platter::mkfs(&image, "ntfs", &options, &platter::Silent)?;
//! /// Prints what could not be copied, and what the target has no place for.
//! struct Told;
//!
//! impl Progress for Told {
//!     fn progress(&self, _step: &'static str, _done: u64, _total: u64) {}
//! }
//!
//! impl CopyListener for Told {
//!     fn failed(&self, error: &Error) {
//!         eprintln!("{error}");
//!     }
//!
//!     fn lost(&self, loss: Loss, at: &str) {
//!         eprintln!("{at}: {}", loss.words().0);
//!     }
//! }
//!
//! # let photos = directory.join("photos");
//! # std::fs::create_dir(&photos)?;
//! # std::fs::write(photos.join("one.jpg"), b"content")?;
//! let options = Options { recursive: true, ..Options::default() };
//! let volume = platter::open_rw(&image)?; // image is "disk.img", photos a directory of the host
//! let outcome = volume.copy_in(&photos, "photos", &options, &Told)?;
//! assert_eq!((outcome.copied.files, outcome.failures), (1, 0));
//! volume.copy_out("photos", directory.join("back"), &options, &Told)?;
//! # assert_eq!(std::fs::read(directory.join("back/one.jpg"))?, b"content");
//! volume.close()?;
//! # std::fs::remove_dir_all(&directory)?;
//! # }
//! # Ok(())
//! # }
//! ```

mod extras;
mod host;
mod kept_on_host;
mod losses;
mod made;
mod origin;
mod path;
mod target;

use crate::error::{About, Error, ErrorKind, Result};
use crate::node::{DEEPEST, Held};
use host::{Layout, Usual};
pub use kept_on_host::{NAMELESS, host_name};
pub use losses::Loss;
use losses::Losses;
use made::MadeNames;
pub use origin::{Facts, Identity, Origin, Reader, What};
pub use path::EntryPath;
use platter_device::{Buffer, show_size};
use platter_vfs::{FileSystem, Name, Progress, Silent};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
pub use target::Target;
use target::{Made, Manner, Writer};

/// The number of bytes read and written at a time.
const PIECE: usize = 1 << 20;
/// The number of bytes that are read of a source before anything is changed at the target.
const PROBE: usize = 4096;
/// After so many files, or so many bytes, the volume that is copied to is made durable.
const FILES: u64 = 1000;
const BYTES: u64 = 256 << 20;

/// The options of a copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether directories are copied, with everything in them.
    pub recursive: bool,
    /// Whether files of one volume share their clusters instead of being copied.
    pub clone: bool,
    /// Whether files with the read-only attribute are replaced.
    pub force: bool,
    /// Whether files that are there already are left as they are.
    pub keeps_what_is_there: bool,
}

/// Whoever is told how a copy goes. The copy ends at its next safe point once [`Progress::is_stopped`] is true: after a
/// whole file, and without a part of one.
pub trait CopyListener: Progress {
    /// The target has no place for something of the source at `at`, which goes on without it.
    fn lost(&self, loss: Loss, at: &str) {
        let _ = (loss, at);
    }

    /// A file, or an attribute of one, could not be copied. The others are.
    fn failed(&self, error: &Error) {
        let _ = error;
    }

    /// These copies were made, and are durable.
    fn durable(&self, paths: &[String]) {
        let _ = paths;
    }
}

impl CopyListener for Silent {}

/// One run of copying.
pub struct Copy<'a> {
    options: Options,
    /// Whether a host file must not be copied: the images themselves, which change while they are copied into.
    is_image: &'a dyn Fn(&Path) -> bool,
    listener: &'a dyn CopyListener,
    /// The number of bytes to copy in all.
    total: u64,
    done: u64,
    copied: Amount,
    buffer: Buffer,
    usual: Usual,
    /// The copies that were made, which no further one overwrites.
    made: MadeNames,
    /// The first copy of each file that has several names. The source is held, so that its number is not given to
    /// another file.
    links: HashMap<Identity, (Origin, Made)>,
    losses: Losses<'a>,
    unsaved: Unsaved,
    failures: u64,
    kept: u64,
    /// Set to copy nothing more: the listener asked for the end, or the volume takes nothing more.
    stopped: bool,
    volume_failed: bool,
}

/// A number of files, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// The number of files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files with {}", self.files, show_size(self.bytes))
    }
}

/// The files that were copied to a volume since it was last made durable.
#[derive(Default)]
struct Unsaved {
    amount: Amount,
    names: Vec<String>,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// How many files and attributes could not be copied.
    pub failures: u64,
    /// How many attributes were not kept.
    pub losses: u64,
    /// Whether the listener asked for the end before all was copied.
    pub interrupted: bool,
    /// Whether the volume took nothing more, so that the remaining files were not tried.
    pub volume_failed: bool,
    /// How many files were there already and were left as they are ([`Options::keeps_what_is_there`]).
    pub kept: u64,
    /// The files and bytes that were copied.
    pub copied: Amount,
    /// Of `copied`, the part that was made durable during the run: no later failure of the volume loses it.
    pub saved: Amount,
    /// The paths of the other part, which becomes durable when the volume is synced or closed.
    pub unsaved: Vec<String>,
}

impl<'a> Copy<'a> {
    /// Starts a run that is to copy `total` bytes. Host files for which `is_image` is true are not copied.
    pub fn new(
        options: Options,
        total: u64,
        is_image: &'a dyn Fn(&Path) -> bool,
        listener: &'a dyn CopyListener,
    ) -> Copy<'a> {
        Copy {
            options,
            is_image,
            listener,
            total,
            done: 0,
            copied: Amount::default(),
            buffer: Buffer::new(PIECE),
            usual: host::usual(),
            made: MadeNames::default(),
            links: HashMap::new(),
            losses: Losses { listener, count: 0 },
            unsaved: Unsaved::default(),
            failures: 0,
            kept: 0,
            stopped: false,
            volume_failed: false,
        }
    }

    /// Copies a file or a tree into `target` under `name`; without a name, copies the content of the source
    /// directory. The listener is told of a failure that concerns one file, and the remaining files are still copied.
    pub fn run(&mut self, source: Origin, target: &Target, name: Option<&Name>) {
        match name {
            Some(name) => self.entry(source, target, name, 0),
            None => self.content_of(&source, target, 0),
        }
    }

    /// Counts a failure that concerns one file, and tells the listener of it.
    pub fn fail(&mut self, error: &Error) {
        self.listener.failed(error);
        self.failures += 1;
    }

    /// Ends the run.
    pub fn finish(self) -> Outcome {
        Outcome {
            failures: self.failures,
            losses: self.losses.count,
            interrupted: self.stopped && !self.volume_failed,
            volume_failed: self.volume_failed,
            kept: self.kept,
            copied: self.copied,
            saved: Amount {
                files: self.copied.files - self.unsaved.amount.files,
                bytes: self.copied.bytes - self.unsaved.amount.bytes,
            },
            unsaved: self.unsaved.names,
        }
    }

    fn content_of(&mut self, source: &Origin, target: &Target, depth: usize) {
        source.children(|child| match child {
            Ok((name, child)) => self.entry(child, target, &name, depth + 1),
            Err(failure) => self.fail(&failure),
        });
    }

    fn entry(&mut self, source: Origin, target: &Target, name: &Name, depth: usize) {
        if self.stopped || self.listener.is_stopped() {
            self.stopped = true;
            return;
        }
        if let Err(failure) = self.try_entry(source, target, name, depth) {
            if self.stopped && failure.kind() == ErrorKind::Stopped {
                return;
            }
            self.fail(&failure);
            if target.takes_nothing_more() {
                // Every remaining file would fail for the same reason.
                self.give_up();
            }
        }
    }

    /// Stops the run because the volume failed. Whether the files copied since the last sync are durable is unknown.
    fn give_up(&mut self) {
        self.stopped = true;
        self.volume_failed = true;
        self.unsaved.names.clear();
    }

    fn try_entry(&mut self, source: Origin, target: &Target, name: &Name, depth: usize) -> Result<()> {
        let facts = source.facts(depth)?;
        if facts.what == What::Directory {
            return self.directory(&source, target, name, &facts, depth);
        }
        if self.options.keeps_what_is_there && target.has(name) {
            self.kept += 1;
            self.done += facts.size;
            return Ok(());
        }
        self.refuse(&source, target, name)?;
        let before = self.done;
        if let Some(identity) = facts.identity
            && let Some((_, first)) = self.links.get(&identity)
        {
            if target.hard_link(first, name)?.is_some() {
                self.done += facts.size;
                return self.copied(target, name, 0);
            }
            self.losses.note(Loss::Links, &source);
        }
        // The permissions of the copy where the source records none.
        let mode = target.mode_there(name).unwrap_or(self.usual.mode(false));
        // The name that the copy has until it is whole.
        let mut first = name.clone();
        let mut manner = Manner::New;
        let made = match facts.what {
            What::Link => target.link(&source, name)?,
            What::Special(_) => target.special(&facts, name)?,
            _ => {
                if self.options.force {
                    target.allow(name)?;
                }
                manner = target.manner(name, depth == 0)?;
                if manner == Manner::Beside {
                    first = target.free_name();
                }
                let made = self.file(&source, target, &first, &facts, manner);
                Some(made.map_err(|failure| failure.said_of(&target.path(&first), &target.path(name)))?)
            }
        };
        if manner == Manner::Stream {
            return self.copied(target, name, self.done - before);
        }
        let Some(made) = made else {
            let loss = if facts.what == What::Link { Loss::SymbolicLinks } else { Loss::Special };
            self.losses.note(loss, &source);
            return Ok(());
        };
        self.extras(&source, &made, facts.what);
        let finished = made.finish(&facts, &source, mode, &self.usual, &mut self.losses);
        let finished = finished.and_then(|()| match manner {
            Manner::Beside => target.replace(made, &first, name),
            _ => Ok(made),
        });
        let made = match finished {
            Ok(made) => made,
            Err(failure) => {
                if manner != Manner::Over {
                    target.remove(&first);
                }
                return Err(failure.said_of(&target.path(&first), &target.path(name)));
            }
        };
        if let Some(identity) = facts.identity {
            self.links.entry(identity).or_insert((source, made));
        }
        self.copied(target, name, self.done - before)
    }

    /// Gives a copy the attributes of its source besides content. A failure of one attribute is reported, and the
    /// others are kept.
    fn extras(&mut self, source: &Origin, made: &Made, what: What) {
        let failures = match source.extras(what) {
            Ok(extras) => made.add(extras, source, &mut self.losses),
            Err(failure) => vec![failure],
        };
        failures.iter().for_each(|failure| self.fail(failure));
    }

    /// Fails if the source must not be copied to this target: an image in use, a file onto itself, or a directory
    /// into itself.
    fn refuse(&mut self, source: &Origin, target: &Target, name: &Name) -> Result<()> {
        if let Origin::Host(path) = source
            && (self.is_image)(path)
        {
            let why = "is the image of a volume that is copied from or to; not copied";
            return Err(Error::refused(ErrorKind::InUse, source, why));
        }
        if target.is_source(source, name) {
            return Err(Error::refused(ErrorKind::InvalidArgument, source, "cannot be copied onto itself"));
        }
        if self.made.has(target, name) {
            let why = "another file of this copy has the same name, or one that is the same there";
            let why = format!("{why}; {source} is not copied over it");
            return Err(Error::refused(ErrorKind::Exists, target.path(name), why));
        }
        Ok(())
    }

    fn directory(
        &mut self,
        source: &Origin,
        target: &Target,
        name: &Name,
        facts: &Facts,
        depth: usize,
    ) -> Result<()> {
        if !self.options.recursive {
            return Err(Error::refused(ErrorKind::IsADirectory, source, "is a directory"));
        }
        if depth > DEEPEST {
            let why = "directories inside each other without end";
            return Err(Error::refused(ErrorKind::Damaged, source, why));
        }
        let mode = target.mode_there(name).unwrap_or(self.usual.mode(true));
        let (inside, made) = target.directory(name, depth == 0)?;
        self.extras(source, &made, What::Directory);
        self.content_of(source, &inside, depth);
        if self.volume_failed {
            return Ok(());
        }
        // Times are set last, because making entries changes a directory's time.
        made.finish(facts, source, mode, &self.usual, &mut self.losses)
    }

    fn file(
        &mut self,
        source: &Origin,
        target: &Target,
        name: &Name,
        facts: &Facts,
        manner: Manner,
    ) -> Result<Made> {
        let reader = source.reader()?;
        let mut layout = reader.layout(facts.size)?;
        // A source that cannot be read at all must not cost what is at the target.
        if let Some(start) = layout.data.first().map(|part| part.start) {
            reader.read(start, &mut self.buffer[..PROBE])?;
        }
        if manner == Manner::Stream {
            layout = Layout { data: Vec::new(), has_holes: false };
            layout.data.extend((facts.size > 0).then_some(0..facts.size));
        }
        let writer = target.file(name, facts.size, manner)?;
        let copied = match self.shared(source, &writer, facts.size, manner) {
            Some(shared) => shared,
            None => self.content(source, &reader, &writer, &layout, facts.size),
        };
        if let Err(failure) = copied {
            match manner {
                // The incomplete file is removed: it would look like a whole one.
                Manner::New | Manner::Beside => target.remove(name),
                Manner::Over => {
                    let why = format!("holds a part of {source} only");
                    self.fail(&Error::refused(ErrorKind::Io, target.path(name), why));
                }
                Manner::Stream => {}
            }
            return Err(failure);
        }
        Ok(writer.finish())
    }

    /// Makes the copy share the source's clusters, if that is asked for and both are on the same volume; `None` if
    /// not.
    fn shared(&mut self, source: &Origin, writer: &Writer, size: u64, manner: Manner) -> Option<Result<()>> {
        let (Origin::Volume(_, from), Writer::Volume(path, to)) = (source, writer) else { return None };
        if !self.options.clone || !from.same_volume(to) {
            return None;
        }
        self.moved(size);
        if size == 0 {
            return Some(Ok(()));
        }
        // Clusters can be shared only by files that both have checksums, or both have none. A new file is made as its
        // source is; one that is overwritten keeps its setting.
        let (system, node) = (&to.system, to.node);
        let share = || {
            if manner != Manner::Over
                && let (Ok(wanted), Ok(there)) = (
                    system.integrity().and_then(|part| part.get(from.node)),
                    system.integrity().and_then(|part| part.get(node)),
                )
                && wanted != there
            {
                system.integrity()?.set(node, wanted)?;
            }
            system.clone_range(from.node, 0, node, 0, size)
        };
        Some(share().about(path))
    }

    /// Copies the parts of a file that have content, and skips the holes.
    fn content(
        &mut self,
        source: &Origin,
        reader: &Reader,
        writer: &Writer,
        layout: &Layout,
        size: u64,
    ) -> Result<()> {
        if layout.is_whole(size) {
            writer.provide(size)?;
        }
        let mut at = 0;
        for part in &layout.data {
            self.moved(part.start - at);
            at = part.start;
            while at < part.end {
                self.goes_on(source)?;
                let most = (part.end - at).min(PIECE as u64) as usize;
                let read = reader.read(at, &mut self.buffer[..most])?;
                if read == 0 {
                    // The source was truncated meanwhile.
                    return Ok(());
                }
                writer.write(at, &self.buffer[..read])?;
                at += read as u64;
                self.moved(read as u64);
            }
        }
        // Some host files are longer than their size says (as in /proc), or grow meanwhile.
        while at >= size {
            self.goes_on(source)?;
            let read = reader.read(at, &mut self.buffer)?;
            if read == 0 {
                break;
            }
            writer.write(at, &self.buffer[..read])?;
            at += read as u64;
            self.moved(read as u64);
        }
        if at < size || !layout.is_whole(size) {
            self.moved(size.saturating_sub(at));
            let mut data = layout.data.clone();
            // What came behind the end that the source told of is no hole.
            data.extend((at > size).then_some(size..at));
            let has_holes = writer.shape(&data, size.max(at))?;
            if layout.has_holes && !has_holes {
                self.losses.note(Loss::Holes, source);
            }
        }
        Ok(())
    }

    /// Fails once the listener asked for the end: a part of a file is not left.
    fn goes_on(&mut self, source: &Origin) -> Result<()> {
        self.stopped |= self.listener.is_stopped();
        if self.stopped {
            return Err(Error::refused(ErrorKind::Stopped, source, "a part of it was copied"));
        }
        Ok(())
    }

    fn moved(&mut self, bytes: u64) {
        self.done += bytes;
        self.listener.progress("copying", self.done, self.total.max(self.done));
    }

    /// Counts a copied file, and makes the target volume durable every so often, so that the files copied until then
    /// survive a failure of this process.
    fn copied(&mut self, target: &Target, name: &Name, bytes: u64) -> Result<()> {
        self.copied.add(bytes);
        self.made.note(target, name);
        let Target::Volume(path, held) = target else {
            self.listener.durable(&[target.path(name)]);
            return Ok(());
        };
        self.unsaved.amount.add(bytes);
        self.unsaved.names.push(path.join(name).to_string());
        if self.unsaved.amount.files < FILES && self.unsaved.amount.bytes < BYTES {
            return Ok(());
        }
        let system: &Arc<dyn FileSystem> = &held.system;
        if let Err(failure) = system.sync_all().about(path) {
            // No file copied after a failed sync would be durable.
            self.give_up();
            return Err(failure);
        }
        self.listener.durable(&std::mem::take(&mut self.unsaved).names);
        Ok(())
    }
}

/// Whether the directory that is copied into is `source`, or in it.
pub fn leads_into(target: &Target, source: &Origin) -> platter_vfs::Result<bool> {
    match (source, target) {
        (Origin::Volume(_, outer), Target::Volume(path, inner)) if inner.same_volume(outer) => {
            let mut held = Held::root(&inner.system);
            for name in &path.names {
                if held.node == outer.node {
                    return Ok(true);
                }
                held = held.child(name)?;
            }
            Ok(held.node == outer.node)
        }
        _ => Ok(false),
    }
}

/// Copies one file or tree, and ends the run.
pub(crate) fn one(
    source: Origin,
    target: &Target,
    name: &Name,
    options: &Options,
    listener: &dyn CopyListener,
) -> Outcome {
    let total = source.total(options.recursive, listener);
    let mut copy = Copy::new(*options, total, &|_| false, listener);
    copy.run(source, target, Some(name));
    copy.finish()
}
