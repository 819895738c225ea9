//! Copying trees between the host and volumes, with everything that both sides can hold.
//!
//! A [`Source`] is read and a [`Target`] is made; each is on the host or on a volume. Names are passed between them
//! as [`Name`]s, so that a name that the target cannot hold is noticed, and no name from a volume can lead out of the
//! directory that is copied to. A file that cannot be copied is reported, and the copy goes on; attributes that the
//! target cannot keep are counted ([`losses`]).

mod extras;
mod host;
mod losses;
mod made;
mod source;
mod target;

use crate::command::failure::{About, Failure, INTERRUPTED, printable};
use crate::command::host::{self as system, Layout, Usual};
use crate::command::interrupt;
use crate::command::progress::{Bar, Unit};
pub use host::host_name;
use losses::{Loss, Losses};
use made::MadeNames;
use platter::{DEEPEST, Held};
use platter_device::{Buffer, show_size};
use platter_vfs::{FileSystem, Name, Progress};
use source::{Facts, Identity, Reader};
pub use source::{Source, What, source};
use std::collections::HashMap;
use std::fmt;
use std::io::{IsTerminal, Write};
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
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// Whether directories are copied.
    pub recursive: bool,
    /// Whether files of one volume share their clusters instead of being copied.
    pub clone: bool,
    /// Whether files with the read-only attribute are replaced.
    pub force: bool,
    /// Whether files that are there already are left as they are.
    pub keeps_what_is_there: bool,
    /// Whether each file's name is printed, once its copy is durable.
    pub verbose: bool,
}

/// One run of copying.
pub struct Copy<'a> {
    options: Options,
    /// Whether a host file must not be copied: the images themselves, which change while they are copied into.
    is_image: &'a dyn Fn(&Path) -> bool,
    /// The progress bar.
    bar: Bar,
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
    links: HashMap<Identity, (Source, Made)>,
    losses: Losses,
    unsaved: Unsaved,
    failed: bool,
    /// Set to copy nothing more: the user interrupted, or the volume takes nothing more.
    stopped: bool,
    volume_failed: bool,
}

/// A number of files, and their bytes.
#[derive(Clone, Copy, Default)]
pub struct Amount {
    files: u64,
    bytes: u64,
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
pub struct Outcome {
    /// Whether something could not be copied.
    pub failed: bool,
    /// Whether an attribute was not kept.
    pub lost: bool,
    /// Whether the user interrupted before all was copied.
    pub interrupted: bool,
    /// Whether the volume took nothing more, so that the remaining files were not tried.
    pub volume_failed: bool,
    /// The files and bytes that were copied.
    pub copied: Amount,
    /// Of `copied`, the part that was made durable during the run: no later failure of the volume loses it.
    pub saved: Amount,
    /// Names to print once the volume is closed, and so durable.
    names: Vec<String>,
}

impl Outcome {
    /// Prints the names of the files that became durable with the close.
    pub fn say_names(&self) {
        say(&self.names);
    }
}

fn say(names: &[String]) {
    // If standard output is closed, only names are lost, so errors are ignored.
    let mut output = std::io::stdout().lock();
    let is_terminal = output.is_terminal();
    let shown = |name: &String| if is_terminal { printable(name) } else { name.clone() };
    let _ =
        names.iter().try_for_each(|name| writeln!(output, "{}", shown(name))).and_then(|()| output.flush());
}

impl<'a> Copy<'a> {
    /// Starts a run that is to copy `total` bytes.
    pub fn new(options: Options, total: u64, is_image: &'a dyn Fn(&Path) -> bool) -> Copy<'a> {
        Copy {
            options,
            is_image,
            bar: Bar::new(Unit::Bytes),
            total,
            done: 0,
            copied: Amount::default(),
            buffer: Buffer::new(PIECE),
            usual: system::usual(),
            made: MadeNames::default(),
            links: HashMap::new(),
            losses: Losses::default(),
            unsaved: Unsaved::default(),
            failed: false,
            stopped: false,
            volume_failed: false,
        }
    }

    /// Copies a file or a tree into `target` under `name`; without a name, copies the content of the source
    /// directory. A failure that concerns one file is printed, and the remaining files are still copied.
    pub fn run(&mut self, source: Source, target: &Target, name: Option<&Name>) {
        match name {
            Some(name) => self.entry(source, target, name, 0),
            None => self.content_of(&source, target, 0),
        }
    }

    /// Prints a failure that concerns one file, and notes it for the exit code.
    pub fn fail(&mut self, failure: &Failure) {
        self.bar.say(&format!("platter: {failure}"));
        self.failed = true;
    }

    /// Ends the run, and prints which attributes were not kept.
    pub fn finish(self) -> Outcome {
        if !self.losses.is_empty() {
            self.bar.say(&format!("platter: not kept: {}", self.losses));
        }
        Outcome {
            failed: self.failed,
            lost: !self.losses.is_empty(),
            interrupted: self.stopped && !self.volume_failed,
            volume_failed: self.volume_failed,
            copied: self.copied,
            saved: Amount {
                files: self.copied.files - self.unsaved.amount.files,
                bytes: self.copied.bytes - self.unsaved.amount.bytes,
            },
            names: self.unsaved.names,
        }
    }

    fn content_of(&mut self, source: &Source, target: &Target, depth: usize) {
        source.children(|child| match child {
            Ok((name, child)) => self.entry(child, target, &name, depth + 1),
            Err(failure) => self.fail(&failure),
        });
    }

    fn entry(&mut self, source: Source, target: &Target, name: &Name, depth: usize) {
        if self.stopped || interrupt::is_asked() {
            self.stopped = true;
            return;
        }
        if let Err(failure) = self.try_entry(source, target, name, depth) {
            if self.stopped && failure.code() == INTERRUPTED {
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

    fn try_entry(
        &mut self,
        source: Source,
        target: &Target,
        name: &Name,
        depth: usize,
    ) -> Result<(), Failure> {
        let facts = source.facts(depth)?;
        if facts.what == What::Directory {
            return self.directory(&source, target, name, &facts, depth);
        }
        if self.options.keeps_what_is_there && target.has(name) {
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
    fn extras(&mut self, source: &Source, made: &Made, what: What) {
        let failures = match source.extras(what) {
            Ok(extras) => made.add(extras, source, &mut self.losses),
            Err(failure) => vec![failure],
        };
        failures.iter().for_each(|failure| self.fail(failure));
    }

    /// Fails if the source must not be copied to this target: an image in use, a file onto itself, or a directory
    /// into itself.
    fn refuse(&mut self, source: &Source, target: &Target, name: &Name) -> Result<(), Failure> {
        if let Source::Host(path) = source
            && (self.is_image)(path)
        {
            return Err(Failure::new(source, "is the image that this command works on; not copied"));
        }
        if target.is_source(source, name) {
            return Err(Failure::new(source, "cannot be copied onto itself"));
        }
        if self.made.has(target, name) {
            let why = "another file of this copy has the same name, or one that is the same there";
            return Err(Failure::new(target.path(name), format!("{why}; {source} is not copied over it")));
        }
        Ok(())
    }

    fn directory(
        &mut self,
        source: &Source,
        target: &Target,
        name: &Name,
        facts: &Facts,
        depth: usize,
    ) -> Result<(), Failure> {
        if !self.options.recursive {
            return Err(Failure::new(source, "is a directory; use -r to copy it with everything in it"));
        }
        if depth > DEEPEST {
            return Err(Failure::new(source, "directories inside each other without end"));
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
        source: &Source,
        target: &Target,
        name: &Name,
        facts: &Facts,
        manner: Manner,
    ) -> Result<Made, Failure> {
        let reader = source.reader()?;
        let mut layout = reader.layout(facts.size).map_err(|why| Failure::new(source, why))?;
        // A source that cannot be read at all must not cost what is at the target.
        if let Some(start) = layout.data.first().map(|part| part.start) {
            reader.read(start, &mut self.buffer[..PROBE]).map_err(|why| Failure::new(source, why))?;
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
                    self.fail(&Failure::new(target.path(name), format!("holds a part of {source} only")));
                }
                Manner::Stream => {}
            }
            return Err(failure);
        }
        Ok(writer.finish())
    }

    /// Makes the copy share the source's clusters, if `--clone` was given and both are on the same volume; `None` if
    /// not.
    fn shared(
        &mut self,
        source: &Source,
        writer: &Writer,
        size: u64,
        manner: Manner,
    ) -> Option<Result<(), Failure>> {
        let (Source::Volume(_, from), Writer::Volume(path, to)) = (source, writer) else { return None };
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
        source: &Source,
        reader: &Reader,
        writer: &Writer,
        layout: &Layout,
        size: u64,
    ) -> Result<(), Failure> {
        if layout.is_whole(size) {
            writer.provide(size)?;
        }
        let mut at = 0;
        for part in &layout.data {
            self.moved(part.start - at);
            at = part.start;
            while at < part.end {
                self.goes_on()?;
                let most = (part.end - at).min(PIECE as u64) as usize;
                let read =
                    reader.read(at, &mut self.buffer[..most]).map_err(|why| Failure::new(source, why))?;
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
            self.goes_on()?;
            let read = reader.read(at, &mut self.buffer).map_err(|why| Failure::new(source, why))?;
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

    /// Fails once the user interrupted: a part of a file is not left.
    fn goes_on(&mut self) -> Result<(), Failure> {
        self.stopped |= interrupt::is_asked();
        if self.stopped { Err(Failure::interrupted("a part of it was copied")) } else { Ok(()) }
    }

    fn moved(&mut self, bytes: u64) {
        self.done += bytes;
        self.bar.progress("copying", self.done, self.total.max(self.done));
    }

    /// Counts a copied file, and makes the target volume durable every so often, so that the files copied until then
    /// survive a failure of this process.
    fn copied(&mut self, target: &Target, name: &Name, bytes: u64) -> Result<(), Failure> {
        self.copied.add(bytes);
        self.made.note(target, name);
        let Target::Volume(path, held) = target else {
            if self.options.verbose {
                say(&[target.path(name)]);
            }
            return Ok(());
        };
        self.unsaved.amount.add(bytes);
        if self.options.verbose {
            self.unsaved.names.push(path.join(name).to_string());
        }
        if self.unsaved.amount.files < FILES && self.unsaved.amount.bytes < BYTES {
            return Ok(());
        }
        let system: &Arc<dyn FileSystem> = &held.system;
        if let Err(failure) = system.sync_all().about(path) {
            // No file copied after a failed sync would be durable.
            self.give_up();
            return Err(failure);
        }
        say(&std::mem::take(&mut self.unsaved).names);
        Ok(())
    }
}

/// Whether the directory that is copied into is `source`, or in it.
pub fn leads_into(target: &Target, source: &Source) -> platter_vfs::Result<bool> {
    match (source, target) {
        (Source::Volume(_, outer), Target::Volume(path, inner)) if inner.same_volume(outer) => {
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
