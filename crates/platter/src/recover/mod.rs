//! Copying out what is left of a volume that may be too damaged to open.

mod names;
mod pattern;
mod record;

use crate::error::{About, Error, ErrorKind, Result, shown};
use crate::event::Listener;
use crate::keys::Keys;
use crate::make::known_format;
use crate::opening::{DeviceOptions, open_device, part_of};
use crate::source::Source;
use names::{Aside, Names};
pub use pattern::Pattern;
use platter_device::Device;
use platter_device::host::{HostBytes, host_string, make_link, write_all_at};
use platter_vfs::{
    Error as SystemError, Format, Kind, Name, Progress, RecoverReport, Recovered, RecoveredData, Stretch,
    Visit,
};
use record::Record;
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, FileTimes};
use std::io::ErrorKind as HostError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The options of recovering a volume.
#[derive(Clone, Debug, Default)]
pub struct RecoverOptions {
    /// The name of the format to take the volume for; `None` recognises the format.
    pub format: Option<String>,
    /// Whether to leave out files whose metadata is damaged, instead of copying them to a directory of their own.
    pub skip_damaged: bool,
    /// Which files and directories to copy: those that one of the patterns matches. All of them if there is none.
    pub patterns: Vec<Pattern>,
    /// The listener that is told of events during the recovery.
    pub listener: Listener,
    /// The keys of encrypted volumes.
    pub keys: Keys,
}

impl RecoverOptions {
    /// Whether what was found is one of the files and directories to copy.
    pub fn is_chosen(&self, path: &[Name]) -> bool {
        self.patterns.is_empty() || self.patterns.iter().any(|pattern| pattern.matches(path))
    }
}

/// The result of [`recover_to`].
#[derive(Clone, Debug, Default)]
pub struct RecoveredTo {
    /// The device's name.
    pub device: String,
    /// What was found on the device; without what an interrupted run did not come to.
    pub report: RecoverReport,
    /// The files that could not be copied whole, or may be wrong. At most [`RecoverReport::KEPT`].
    pub troubles: Vec<Trouble>,
    /// The same by what is wrong with them, all of them counted.
    pub kinds: Vec<TroubleKind>,
    /// The number of files and directories whose metadata is damaged.
    pub damaged: u64,
    /// The number of files that are in the directory now, whole or with zeroes for what cannot be read.
    pub saved: u64,
    /// How many of these an earlier run had copied.
    pub there_before: u64,
    /// The number of files that could not be written, or were left out because their metadata is damaged.
    pub failed: u64,
    /// The number of files that no pattern chose.
    pub not_chosen: u64,
    /// The number of bytes of these files and of streams, without those that cannot be read.
    pub bytes: u64,
    /// The directories for deleted and for damaged files that are called otherwise than usual, because a file of the
    /// volume has their usual name: that name, and their path.
    pub renamed: Vec<(&'static str, PathBuf)>,
    /// Whether the caller asked for the end ([`Progress::is_stopped`]) before all was copied. The next call with the same
    /// directory goes on from there.
    pub stopped: bool,
    /// The file that was being copied then, under the name that it has until it is whole.
    pub under_way: Option<PathBuf>,
}

/// A file that was found and could not be copied as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The path of the copy on the host if a part was copied, otherwise the path on the volume.
    pub path: String,
    /// The number of bytes that could not be read and are zeroes in the copy.
    pub unread: u64,
    /// Why the file could not be copied as it was.
    pub why: String,
}

/// What is wrong with a number of files, the same with all of them but for numbers such as offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TroubleKind {
    /// The number of files.
    pub files: u64,
    /// The bytes of all of them that could not be read and are zeroes.
    pub unread: u64,
    /// The first of them.
    pub first: Trouble,
}

impl Trouble {
    fn at(path: &Path, why: impl fmt::Display) -> Trouble {
        Trouble { path: shown(path).to_string(), unread: 0, why: why.to_string() }
    }

    /// The reason without its numbers, which two troubles of one kind share.
    pub fn kind(&self) -> String {
        kind_of(&self.why)
    }
}

/// A reason with `N` in place of each number.
pub fn kind_of(why: &str) -> String {
    let mut kind = String::with_capacity(why.len());
    for c in why.chars() {
        match c.is_ascii_digit() {
            true if kind.ends_with('N') => {}
            true => kind.push('N'),
            false => kind.push(c),
        }
    }
    kind
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Trouble { path, unread, why } = self;
        match unread {
            0 => write!(f, "{path}: {why}"),
            _ => write!(f, "{path}: {unread} bytes are zeroes because they cannot be read: {why}"),
        }
    }
}

/// Searches a device for what is left of a volume, and calls `visit` for everything that is found. Nothing is
/// written. If no format recognises the device, each format searches it in turn.
///
/// ```
/// use platter::{RecoverOptions, Silent};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # #[cfg(feature = "ntfs")] {
/// # let directory = std::env::temp_dir().join(format!("platter-recover-page-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// # let image = directory.join("disk.img");
/// # let options = platter::MakeOptions { size: Some(16 << 20), ..Default::default() };
/// # platter::mkfs(&image, "ntfs", &options, &platter::Silent)?;
/// # let volume = platter::open_rw(&image)?;
/// # volume.write("letter.txt", b"kept")?;
/// # volume.close()?;
/// // A list of what could be copied; image is "disk.img".
/// let mut found = Vec::new();
/// platter::recover(&image, &RecoverOptions::default(), &Silent, &mut |one, data| {
///     let mut start = [0; 4];
///     let read = if one.size > 0 { data.read(0, &mut start)? } else { 0 };
///     found.push((one.path.last().map(|name| name.to_string()), one.deleted, start[..read].to_vec()));
///     Ok(())
/// })?;
/// assert!(found.contains(&(Some("letter.txt".into()), false, b"kept".to_vec())));
/// # std::fs::remove_dir_all(&directory)?;
/// # }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`NotAVolume`](ErrorKind::NotAVolume) if nothing of any volume is found, [`Stopped`](ErrorKind::Stopped) if `progress` asks for
/// the end, and the errors of `visit`.
pub fn recover(
    source: impl AsRef<Path>,
    options: &RecoverOptions,
    progress: &dyn Progress,
    visit: Visit<'_>,
) -> Result<RecoverReport> {
    recover_source(&Source::parse(source)?, options, progress, visit).map(|(_, report)| report)
}

/// Like [`recover`], for a source that is parsed already; returns the device's name, too.
///
/// # Errors
/// As [`recover`].
pub fn recover_source(
    source: &Source,
    options: &RecoverOptions,
    progress: &dyn Progress,
    visit: Visit<'_>,
) -> Result<(String, RecoverReport)> {
    search(source, options, progress, &mut |_| Ok(()), visit)
}

/// [`recover_source`] that calls `begin` with the device first.
fn search(
    source: &Source,
    options: &RecoverOptions,
    progress: &dyn Progress,
    begin: &mut dyn FnMut(&dyn Device) -> Result<()>,
    visit: Visit<'_>,
) -> Result<(String, RecoverReport)> {
    let opening = DeviceOptions {
        listener: options.listener.clone(),
        keys: options.keys.clone(),
        // Whoever rescues takes what is there.
        unfinished: true,
        ..DeviceOptions::default()
    };
    search_part(source, open_device(source, &opening)?, options, progress, begin, visit)
}

/// [`search`] on an open device; `source` is its name in errors.
fn search_part(
    source: &dyn fmt::Display,
    device: Arc<dyn Device>,
    options: &RecoverOptions,
    progress: &dyn Progress,
    begin: &mut dyn FnMut(&dyn Device) -> Result<()>,
    visit: Visit<'_>,
) -> Result<(String, RecoverReport)> {
    let name = device.name().to_string();
    begin(&*device)?;
    let recognised = platter_formats::recognise(&*device).ok().flatten();
    let device = match &recognised {
        Some((_, recognised)) => platter_formats::whole(device, recognised).about(source)?,
        None => device,
    };
    let formats: Vec<&dyn Format> = match (&options.format, recognised) {
        (Some(name), _) => vec![known_format(name)?],
        (None, Some((format, _))) => vec![format],
        // No format recognises the device, so each is tried.
        (None, None) => platter_formats::by_remains(&*device),
    };
    let is_one = formats.len() == 1;
    for format in formats {
        let found = format.recover(device.clone(), progress, visit);
        // A search that was cut short may not have come to what would have told the format.
        if found.is_err() && progress.is_stopped() {
            return Err(Error::new(source, SystemError::Stopped));
        }
        match found {
            Err(
                SystemError::Unsupported { .. }
                | SystemError::NotThisFormat { .. }
                | SystemError::Unrecognised(_)
                | SystemError::Damaged(_),
            ) if !is_one => {}
            found => return Ok((name, found.about(source)?)),
        }
    }
    Err(Error::new(source, platter_formats::unknown(&*device).about(source)?))
}

/// Copies what is left of a volume to a directory of the host, which is empty, does not exist, or holds what an earlier
/// call copied that was interrupted or could not copy all. What is whole there is not copied again.
///
/// Deleted files go to the directory `deleted`, files whose metadata is damaged to `damaged`; where a file of the volume
/// has that name, to `deleted (2)` and so on. Parts of files that cannot be read are left as zeroes and reported; files
/// that the host cannot write are removed again and reported. A file is called NAME.partial until it is whole. Named streams
/// become files named FILE:STREAM. No name leads out of the directory, and nothing is written through a link. As long as
/// something is not copied whole, the directory has the file `.platter-recover`, by which the next call knows it.
///
/// ```
/// use platter::{Pattern, RecoverOptions, Silent, Source};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # #[cfg(feature = "ntfs")] {
/// # let directory = std::env::temp_dir().join(format!("platter-recover-to-page-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// # let image = directory.join("disk.img");
/// # let options = platter::MakeOptions { size: Some(16 << 20), ..Default::default() };
/// # platter::mkfs(&image, "ntfs", &options, &platter::Silent)?;
/// # let volume = platter::open_rw(&image)?;
/// # volume.write("photo.jpg", b"kept")?;
/// # volume.close()?;
/// let patterns = vec![Pattern::parse("*.jpg")?];
/// let options = RecoverOptions { patterns, ..RecoverOptions::default() };
/// let rescued = directory.join("rescued"); // image is "disk.img"
/// let to = platter::recover_to(&Source::parse(&image)?, &rescued, &options, &Silent)?;
/// for trouble in &to.troubles {
///     println!("{trouble}");
/// }
/// assert_eq!((to.saved, to.failed, to.stopped), (1, 0, false));
/// assert_eq!(std::fs::read(rescued.join("photo.jpg"))?, b"kept");
/// # std::fs::remove_dir_all(&directory)?;
/// # }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`NotEmpty`](ErrorKind::NotEmpty) for the directory, and as [`recover`]; a directory that was made is removed again
/// then if nothing is in it. Files that cannot be copied are reported.
pub fn recover_to(
    source: &Source,
    directory: &Path,
    options: &RecoverOptions,
    progress: &dyn Progress,
) -> Result<RecoveredTo> {
    copy_found(directory, options, progress, &mut |begin, visit| {
        search(source, options, progress, begin, visit)
    })
}

/// Like [`recover_to`], from the volume on a device of the caller's, or on its only partition with one.
///
/// # Errors
/// As [`recover_to`].
pub fn recover_on(
    device: Arc<dyn Device>,
    directory: &Path,
    options: &RecoverOptions,
    progress: &dyn Progress,
) -> Result<RecoveredTo> {
    let opening = DeviceOptions {
        listener: options.listener.clone(),
        keys: options.keys.clone(),
        ..DeviceOptions::default()
    };
    copy_found(directory, options, progress, &mut |begin, visit| {
        let part = part_of(device.clone(), None, &opening)?;
        search_part(&device.name(), part, options, progress, begin, visit)
    })
}

/// A search that calls its first argument with the device, and its second one for everything that is found.
type Search<'s> =
    dyn FnMut(&mut dyn FnMut(&dyn Device) -> Result<()>, Visit<'_>) -> Result<(String, RecoverReport)> + 's;

/// Copies what a search finds to a directory.
fn copy_found(
    directory: &Path,
    options: &RecoverOptions,
    progress: &dyn Progress,
    search: &mut Search<'_>,
) -> Result<RecoveredTo> {
    let (is_new, earlier) = make_root(directory)?;
    let mut writer = Writer {
        root: directory,
        names: Names::new(directory, earlier.as_ref().map(|record| record.asides.clone())),
        options,
        progress,
        under_way: fs::read_to_string(directory.join(NOW)).ok().and_then(|text| record::plain(&text)),
        record: earlier.clone().unwrap_or_default(),
        goes_on: earlier.is_some(),
        is_incomplete: false,
        links: Vec::new(),
        kinds: HashMap::new(),
        to: RecoveredTo::default(),
    };
    let mut length = 0;
    let mut begin = |device: &dyn Device| {
        length = device.len();
        if let Some(earlier) = earlier.as_ref().filter(|earlier| earlier.length != length) {
            let why = format!(
                "holds what was recovered from a device of {} bytes, and {} has {length}",
                earlier.length,
                device.name()
            );
            return Err(Error::refused(ErrorKind::NotEmpty, shown(directory), why));
        }
        match &earlier {
            Some(_) => Ok(()),
            None => Record { length, ..Record::default() }.save(directory).about(shown(directory)),
        }
    };
    let recovered = search(&mut begin, &mut |found, data| writer.put(found, data));
    writer.record.length = length;
    writer.finish(recovered, is_new)
}

/// Makes the directory to copy to, unless it is there and empty; returns whether it is new, and what an earlier run left in
/// it to do.
fn make_root(directory: &Path) -> Result<(bool, Option<Record>)> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() == HostError::AlreadyExists => {
            let earlier = Record::load(directory).about(shown(directory))?;
            if earlier.is_none() && fs::read_dir(directory).about(shown(directory))?.next().is_some() {
                return Err(Error::refused(ErrorKind::NotEmpty, shown(directory), "is not empty"));
            }
            Ok((false, earlier))
        }
        made => made.about(shown(directory)).map(|()| (true, None)),
    }
}

/// The file in the directory that names the file that is being copied: a run that is killed leaves both.
const NOW: &str = ".platter-recover.now";

/// The number of bytes read at a time; after a failed read, [`SMALL`] bytes are read at a time.
const PIECE: usize = 1 << 20;
const SMALL: usize = 4096;

/// Writes the found files to the host.
struct Writer<'r> {
    root: &'r Path,
    names: Names<'r>,
    options: &'r RecoverOptions,
    progress: &'r dyn Progress,
    /// The file at which an earlier run was killed.
    under_way: Option<PathBuf>,
    /// What is not whole.
    record: Record,
    /// Whether an earlier run copied to the directory.
    goes_on: bool,
    /// Whether something is to be tried again by the next run.
    is_incomplete: bool,
    /// Symbolic links, which are made last, so that nothing is written through them: where, under which name, and their
    /// targets.
    links: Vec<(Aside, PathBuf, String)>,
    /// The places of the kinds of trouble in the result.
    kinds: HashMap<String, usize>,
    to: RecoveredTo,
}

/// How the copying of a file ended.
enum Put {
    /// The file is whole.
    Whole,
    /// It was whole before.
    Before,
    /// The caller asked for the end, and a part of it may be there.
    Stopped,
}

/// Where a file is copied to.
enum Opened {
    /// An earlier run has copied it.
    Before,
    /// To this file, which has this name until it is whole; the bytes up to the offset are there.
    New { partial: PathBuf, file: File, from: u64 },
}

/// How the copying of content ended: the number of bytes that could not be read, and the first error.
enum Copied {
    Whole,
    WithZeroes(u64, String),
    /// The caller asked for the end. Whether what was copied can be gone on with.
    Stopped(bool),
}

impl Writer<'_> {
    fn put(&mut self, found: &Recovered, data: &mut dyn RecoveredData) -> platter_vfs::Result<()> {
        if self.progress.is_stopped() {
            return Err(SystemError::Stopped);
        }
        let is_file = found.kind == Kind::File && found.stream.is_none();
        if !self.options.is_chosen(&found.path) {
            self.to.not_chosen += u64::from(is_file);
            return Ok(());
        }
        if found.damaged {
            self.to.damaged += 1;
            let path: String = found.path.iter().map(|name| format!("/{name}")).collect();
            let is_skipping = self.options.skip_damaged;
            let what = if is_skipping { "it is left out" } else { "its name, size and content may be wrong" };
            self.tell(Trouble { path, unread: 0, why: format!("its metadata is damaged; {what}") });
            // A directory is made only when a file in it is written.
            if is_skipping || found.kind == Kind::Directory {
                self.to.failed += u64::from(is_file);
                return Ok(());
            }
        }
        match self.try_put(found, data) {
            Ok(Put::Stopped) => return Err(SystemError::Stopped),
            Ok(put) => {
                self.to.saved += u64::from(is_file);
                self.to.there_before += u64::from(is_file && matches!(put, Put::Before));
            }
            Err(trouble) => {
                // Of a file of which a part cannot be read the rest is there.
                let count = if trouble.unread > 0 { &mut self.to.saved } else { &mut self.to.failed };
                *count += u64::from(is_file);
                self.is_incomplete = true;
                self.tell(trouble);
            }
        }
        Ok(())
    }

    fn tell(&mut self, trouble: Trouble) {
        /// More kinds are counted as one: a bound on memory.
        const KINDS: usize = 1000;
        let mut name = trouble.kind();
        if self.kinds.len() >= KINDS && !self.kinds.contains_key(&name) {
            name = "more".to_string();
        }
        let new = TroubleKind { files: 0, unread: 0, first: trouble.clone() };
        let place = *self.kinds.entry(name).or_insert_with(|| {
            self.to.kinds.push(new);
            self.to.kinds.len() - 1
        });
        self.to.kinds[place].files += 1;
        self.to.kinds[place].unread += trouble.unread;
        if self.to.troubles.len() < RecoverReport::KEPT {
            self.to.troubles.push(trouble);
        }
    }

    fn try_put(
        &mut self,
        found: &Recovered,
        data: &mut dyn RecoveredData,
    ) -> std::result::Result<Put, Trouble> {
        let aside = Aside { damaged: found.damaged, deleted: found.deleted };
        let (above, last) = match (&found.path[..], found.kind) {
            (all, Kind::Directory) => (all, None),
            ([above @ .., last], _) => (above, Some(last)),
            ([], _) => return Ok(Put::Whole),
        };
        if let Some((from, to)) = self.names.give_way(aside, &found.path)? {
            self.move_paths(&from, &to);
        }
        let directory = self.names.directory(aside, above)?;
        let Some(last) = last else { return Ok(Put::Whole) };
        let name = names::host_name(last, found.stream.as_ref());
        if let Some(target) = &found.target {
            let inside = directory.strip_prefix(self.names.place(aside)).unwrap_or(&directory);
            self.links.push((aside, inside.join(name), target.clone()));
            return Ok(Put::Whole);
        }
        let path = directory.join(name);
        let (root, record, goes_on) = (self.root, &self.record, self.goes_on);
        let under_way = self.under_way.as_deref();
        let opened = self.names.free(&path, |path| {
            let inside = path.strip_prefix(root).unwrap_or(path);
            let opened = open(path, found, goes_on.then_some(record), under_way == Some(inside), inside);
            opened.map(|opened| (path.to_path_buf(), opened))
        });
        let (path, opened) = opened.map_err(|error| Trouble::at(&path, error))?;
        let Opened::New { partial, file, from } = opened else {
            self.to.bytes = self.to.bytes.saturating_add(found.size);
            return Ok(Put::Before);
        };
        let inside = path.strip_prefix(self.root).unwrap_or(&path).to_path_buf();
        // What cannot be noted cannot be gone on with; that is no reason not to copy.
        let _ = fs::write(self.root.join(NOW), record::escaped(&inside));
        let copied = self.copy(found.size, from, &file, data);
        let copied = copied.and_then(|copied| file.set_times(times(found)).map(|()| copied));
        match copied {
            Ok(Copied::Stopped(true)) => {
                self.record.partial.insert(inside);
                self.to.under_way = Some(partial);
                Ok(Put::Stopped)
            }
            Ok(Copied::Stopped(false)) => {
                let _ = fs::remove_file(&partial);
                Ok(Put::Stopped)
            }
            Ok(copied) => {
                if matches!(copied, Copied::WithZeroes(..)) {
                    self.record.note_unread(self.root, &inside);
                }
                fs::rename(&partial, &path).map_err(|error| Trouble::at(&path, error))?;
                self.record.partial.remove(&inside);
                match copied {
                    Copied::WithZeroes(unread, why) => Err(Trouble { unread, ..Trouble::at(&path, why) }),
                    _ => {
                        self.record.unread.remove(&inside);
                        Ok(Put::Whole)
                    }
                }
            }
            Err(error) => {
                // The incomplete file is removed: it would look like a whole one.
                let _ = fs::remove_file(&partial);
                self.record.partial.remove(&inside);
                Err(Trouble::at(&path, error))
            }
        }
    }

    /// Copies the content from an offset on; zeroes become holes.
    fn copy(
        &mut self,
        size: u64,
        from: u64,
        file: &File,
        data: &mut dyn RecoveredData,
    ) -> std::io::Result<Copied> {
        let mut bad: Option<(u64, String)> = None;
        let mut buffer = vec![0; PIECE];
        let (mut at, mut piece, mut copied) = (from, PIECE, from);
        // The end of the last part that is not zeroes or lost up to the end.
        let mut there = from;
        while at < size {
            if at > from && size > PIECE as u64 {
                self.progress.progress("copying a file", at, size);
            }
            if self.progress.is_stopped() {
                // The file is gone on with at its length, where what could not be read would not be known any more.
                let can_go_on = bad.is_none() && at > 0 && file.set_len(at).is_ok();
                if can_go_on {
                    file.sync_data()?;
                }
                return Ok(Copied::Stopped(can_go_on));
            }
            let (stretch, end) = data.stretch(at);
            let end = end.min(size).max(at + 1);
            match stretch {
                Stretch::Content => there = end,
                Stretch::Zeroes => {
                    copied = end.saturating_sub(at).saturating_add(copied);
                    at = end;
                    continue;
                }
                Stretch::Lost => {
                    let why = data.read(at, &mut buffer[..(end - at).min(SMALL as u64) as usize]);
                    let why = why
                        .err()
                        .map_or_else(|| "it is not known where it was".into(), |why| why.to_string());
                    let so_far = bad.get_or_insert((0, why));
                    so_far.0 = so_far.0.saturating_add(end - at);
                    at = end;
                    continue;
                }
            }
            let length = (end - at).min(piece as u64) as usize;
            match data.read(at, &mut buffer[..length]) {
                Ok(got) => {
                    if buffer[..got].iter().any(|&byte| byte != 0) {
                        write_all_at(file, &buffer[..got], at)?;
                    }
                    copied += got as u64;
                }
                Err(_) if length > SMALL => {
                    piece = SMALL;
                    continue;
                }
                Err(error) => bad.get_or_insert((0, error.to_string())).0 += length as u64,
            }
            at += length as u64;
            // After a failed read the pieces are small, up to the next multiple of the large size.
            if at.is_multiple_of(PIECE as u64) {
                piece = PIECE;
            }
        }
        // Last of all, so that a file that was cut off does not have its whole length.
        if let Err(error) = file.set_len(size) {
            // The host stores no file of a damaged size. What is there of it is not given up for that.
            if there == size {
                return Err(error);
            }
            file.set_len(there)?;
            copied = copied.min(there);
            bad = Some((size - there, error.to_string()));
        }
        self.to.bytes = self.to.bytes.saturating_add(copied);
        Ok(bad.map_or(Copied::Whole, |(unread, why)| Copied::WithZeroes(unread, why)))
    }

    fn put_links(&mut self) {
        let goes_on = self.goes_on;
        for (aside, inside, target) in std::mem::take(&mut self.links) {
            let path = self.names.place(aside).join(inside);
            let made = self.names.free(&path, |path| match make_link(target.as_ref(), path) {
                Err(_) if goes_on && fs::read_link(path).is_ok_and(|there| there == Path::new(&target)) => {
                    Ok(())
                }
                made => made,
            });
            if let Err(error) = made {
                self.is_incomplete = true;
                self.tell(Trouble::at(&path, error));
            }
        }
    }

    /// Puts the new path of a directory into what is known of the files in it.
    fn move_paths(&mut self, from: &Path, to: &Path) {
        for trouble in self.to.troubles.iter_mut().chain(self.to.kinds.iter_mut().map(|kind| &mut kind.first))
        {
            if let Ok(inside) = Path::new(&trouble.path).strip_prefix(from) {
                trouble.path = shown(&to.join(inside)).to_string();
            }
        }
        let (from, to) =
            (from.strip_prefix(self.root).unwrap_or(from), to.strip_prefix(self.root).unwrap_or(to));
        let new =
            |path: PathBuf| path.strip_prefix(from).map(|inside| to.join(inside)).unwrap_or(path.clone());
        for paths in [&mut self.record.unread, &mut self.record.partial] {
            *paths = paths.drain().map(new).collect();
        }
        self.record.asides = self.names.asides().clone();
        let _ = self.record.save(self.root);
    }

    /// Makes the links, and leaves in the directory what the next run has to know, if anything is left to do.
    fn finish(mut self, recovered: Result<(String, RecoverReport)>, is_new: bool) -> Result<RecoveredTo> {
        match recovered {
            Ok((device, report)) => (self.to.device, self.to.report) = (device, report),
            Err(error) if error.kind() == ErrorKind::Stopped => {
                self.to.device = error.about().to_string();
                self.to.stopped = true;
            }
            Err(error) => {
                // A directory that something was copied to stays.
                if !self.goes_on && self.to.saved + self.to.failed == 0 {
                    self.remove_records();
                }
                if is_new {
                    let _ = fs::remove_dir(self.root);
                }
                return Err(error);
            }
        }
        if !self.to.stopped {
            self.put_links();
        }
        if self.to.stopped || self.is_incomplete {
            self.record.asides = self.names.asides().clone();
            let _ = fs::remove_file(self.root.join(NOW));
            self.record.save(self.root).about(shown(self.root))?;
        } else {
            self.remove_records();
        }
        self.to.renamed = self.names.renamed();
        Ok(self.to)
    }

    fn remove_records(&self) {
        for name in [NOW, record::NAME] {
            let _ = fs::remove_file(self.root.join(name));
        }
    }
}

/// Opens the file to copy to at this path, or says that an earlier run has copied it there. `inside` is the path in the
/// directory that is copied to, `earlier` what an earlier run left to do, if there was one, and `is_under_way` whether it
/// was killed at this file.
fn open(
    path: &Path,
    found: &Recovered,
    earlier: Option<&Record>,
    is_under_way: bool,
    inside: &Path,
) -> std::io::Result<Opened> {
    let there = path.symlink_metadata().ok();
    let is_same = |there: &fs::Metadata| there.len() == found.size && is_of_time(there, found);
    match (&there, earlier) {
        (None, _) => {}
        // What could not be read is tried again.
        (Some(there), Some(earlier)) if there.is_file() && earlier.unread.contains(inside) => {}
        (Some(there), Some(_)) if there.is_file() && is_same(there) => return Ok(Opened::Before),
        (Some(_), _) => return Err(HostError::AlreadyExists.into()),
    }
    let partial = partial(path);
    let can_go_on = earlier.is_some_and(|earlier| earlier.partial.contains(inside));
    let left = partial.symlink_metadata().ok().filter(|left| left.is_file() && (can_go_on || is_under_way));
    let Some(left) = left else {
        let file = File::options().write(true).create_new(true).open(&partial)?;
        return Ok(Opened::New { partial, file, from: 0 });
    };
    let from = if can_go_on { left.len().min(found.size) / PIECE as u64 * PIECE as u64 } else { 0 };
    let file = File::options().write(true).open(&partial)?;
    file.set_len(from)?;
    Ok(Opened::New { partial, file, from })
}

/// Whether a file of the host has the time of what was found, as exactly as the coarsest host file system keeps it.
fn is_of_time(there: &fs::Metadata, found: &Recovered) -> bool {
    const COARSEST: Duration = Duration::from_secs(2);
    match (there.modified(), found.modified.to_system_time()) {
        (Ok(there), Some(time)) => {
            let apart = there.duration_since(time).unwrap_or_else(|before| before.duration());
            apart < COARSEST
        }
        _ => true,
    }
}

/// The name that a file has until it is whole, so that one at which the copying was interrupted is not taken for whole:
/// its own with an ending, cut to what host file systems allow.
fn partial(path: &Path) -> PathBuf {
    const ENDING: &[u8] = b".partial";
    const LONGEST: usize = 255;
    let name = path.file_name().unwrap_or_default().as_bytes();
    let mut kept = name.len().min(LONGEST - ENDING.len());
    // Not within a character: some file systems take names of whole ones only.
    while kept < name.len() && kept > 0 && name[kept] & 0xC0 == 0x80 {
        kept -= 1;
    }
    path.with_file_name(host_string(&[&name[..kept], ENDING].concat()))
}

/// Returns the times that can be set on a host file.
fn times(found: &Recovered) -> FileTimes {
    let mut times = FileTimes::new();
    if let Some(time) = found.modified.to_system_time() {
        times = times.set_modified(time);
    }
    if let Some(time) = found.accessed.to_system_time() {
        times = times.set_accessed(time);
    }
    times
}
