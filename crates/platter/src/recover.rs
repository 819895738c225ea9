//! Copying out what is left of a volume that may be too damaged to open.

mod names;

use crate::error::{About, Error, ErrorKind, Result, shown};
use crate::event::Listener;
use crate::make::known_format;
use crate::opening::{DeviceOptions, open_device};
use crate::source::Source;
use names::{Aside, Names};
use platter_device::host::{HostBytes, host_string, make_link, write_all_at};
use platter_vfs::{
    Error as SystemError, Format, Kind, Progress, RecoverReport, Recovered, RecoveredData, Stretch, Visit,
};
use std::fmt;
use std::fs::{self, File, FileTimes};
use std::io::ErrorKind as HostError;
use std::path::{Path, PathBuf};

/// The options of recovering a volume.
#[derive(Clone, Debug, Default)]
pub struct RecoverOptions {
    /// The name of the format to take the volume for; `None` recognises the format.
    pub format: Option<String>,
    /// Whether to leave out files whose metadata is damaged, instead of copying them to a directory of their own.
    pub skip_damaged: bool,
    /// The listener that is told of events during the recovery.
    pub listener: Listener,
}

/// The result of [`recover_to`].
#[derive(Clone, Debug, Default)]
pub struct RecoveredTo {
    /// The device's name.
    pub device: String,
    /// What was found on the device.
    pub report: RecoverReport,
    /// The files that could not be copied whole, or may be wrong. At most [`RecoverReport::KEPT`].
    pub troubles: Vec<Trouble>,
    /// The number of files and directories whose metadata is damaged.
    pub damaged: u64,
    /// The number of files that are in the directory now, whole or with zeroes for what cannot be read.
    pub saved: u64,
    /// The number of files that could not be written, or were left out.
    pub failed: u64,
    /// The number of bytes that were copied.
    pub bytes: u64,
    /// The directories for deleted and for damaged files that are called otherwise than usual, because a file of the
    /// volume has their usual name: that name, and their path.
    pub renamed: Vec<(&'static str, PathBuf)>,
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

impl Trouble {
    fn at(path: &Path, why: impl fmt::Display) -> Trouble {
        Trouble { path: shown(path).to_string(), unread: 0, why: why.to_string() }
    }
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
/// # Errors
/// [`NotAVolume`](ErrorKind::NotAVolume) if nothing of any volume is found, and the errors of `visit`.
pub fn recover(
    source: impl AsRef<Path>,
    options: &RecoverOptions,
    progress: &dyn Progress,
    visit: Visit<'_>,
) -> Result<RecoverReport> {
    recover_source(&Source::parse(source)?, options, progress, visit).map(|(_, report)| report)
}

/// Like [`recover`], for a source that is parsed already; returns the device's name, too.
fn recover_source(
    source: &Source,
    options: &RecoverOptions,
    progress: &dyn Progress,
    visit: Visit<'_>,
) -> Result<(String, RecoverReport)> {
    let opening = DeviceOptions {
        listener: options.listener.clone(),
        // Whoever rescues takes what is there.
        unfinished: true,
        ..DeviceOptions::default()
    };
    let device = open_device(source, &opening)?;
    let name = device.name().to_string();
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
        match format.recover(device.clone(), progress, visit) {
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

/// Copies what is left of a volume to a directory of the host, which is empty or does not exist.
///
/// Deleted files go to the directory `deleted`, files whose metadata is damaged to `damaged`; where a file of the volume
/// has that name, to `deleted (2)` and so on. Parts of files that cannot be read are left as zeroes and reported; files
/// that the host cannot write are removed again and reported. A file is called NAME.partial until it is whole. Named streams become files named FILE:STREAM. No name
/// leads out of the directory, and nothing is written through a link.
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
    let is_new = make_root(directory)?;
    let mut writer = Writer {
        names: Names::new(directory),
        is_skipping: options.skip_damaged,
        links: Vec::new(),
        troubles: Vec::new(),
        damaged: 0,
        saved: 0,
        failed: 0,
        bytes: 0,
    };
    let recovered = recover_source(source, options, progress, &mut |found, data| {
        writer.put(found, data);
        Ok(())
    });
    if recovered.is_err() && is_new {
        // A directory that something was copied to stays.
        let _ = fs::remove_dir(directory);
    }
    let (device, report) = recovered?;
    writer.put_links();
    let Writer { names, troubles, damaged, saved, failed, bytes, .. } = writer;
    Ok(RecoveredTo { device, report, troubles, damaged, saved, failed, bytes, renamed: names.renamed() })
}

/// Makes the directory to copy to, unless it is there and empty; returns whether it is new.
fn make_root(directory: &Path) -> Result<bool> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() == HostError::AlreadyExists => {
            if fs::read_dir(directory).about(shown(directory))?.next().is_some() {
                return Err(Error::refused(ErrorKind::NotEmpty, shown(directory), "is not empty"));
            }
            Ok(false)
        }
        made => made.about(shown(directory)).map(|()| true),
    }
}

/// The number of bytes read at a time; after a failed read, [`SMALL`] bytes are read at a time.
const PIECE: usize = 1 << 20;
const SMALL: usize = 4096;

/// Writes the found files to the host.
struct Writer<'r> {
    names: Names<'r>,
    /// Whether files whose metadata is damaged are left out.
    is_skipping: bool,
    /// Symbolic links, which are made last, so that nothing is written through them: where, under which name, and their
    /// targets.
    links: Vec<(Aside, PathBuf, String)>,
    troubles: Vec<Trouble>,
    /// The number of files and directories whose metadata is damaged.
    damaged: u64,
    saved: u64,
    failed: u64,
    bytes: u64,
}

impl Writer<'_> {
    fn put(&mut self, found: &Recovered, data: &mut dyn RecoveredData) {
        let is_file = found.kind == Kind::File && found.stream.is_none();
        if found.damaged {
            self.damaged += 1;
            let path: String = found.path.iter().map(|name| format!("/{name}")).collect();
            let what =
                if self.is_skipping { "it is left out" } else { "its name, size and content may be wrong" };
            self.tell(Trouble { path, unread: 0, why: format!("its metadata is damaged; {what}") });
            // A directory is made only when a file in it is written.
            if self.is_skipping || found.kind == Kind::Directory {
                self.failed += u64::from(is_file);
                return;
            }
        }
        match self.try_put(found, data) {
            Ok(()) => self.saved += u64::from(is_file),
            Err(trouble) => {
                // Of a file of which a part cannot be read the rest is there.
                let count = if trouble.unread > 0 { &mut self.saved } else { &mut self.failed };
                *count += u64::from(is_file);
                self.tell(trouble);
            }
        }
    }

    fn tell(&mut self, trouble: Trouble) {
        if self.troubles.len() < RecoverReport::KEPT {
            self.troubles.push(trouble);
        }
    }

    fn try_put(
        &mut self,
        found: &Recovered,
        data: &mut dyn RecoveredData,
    ) -> std::result::Result<(), Trouble> {
        let aside = Aside { damaged: found.damaged, deleted: found.deleted };
        let (above, last) = match (&found.path[..], found.kind) {
            (all, Kind::Directory) => (all, None),
            ([above @ .., last], _) => (above, Some(last)),
            ([], _) => return Ok(()),
        };
        if let Some((from, to)) = self.names.give_way(aside, &found.path)? {
            self.move_troubles(&from, &to);
        }
        let directory = self.names.directory(aside, above)?;
        let Some(last) = last else { return Ok(()) };
        let name = names::host_name(last, found.stream.as_ref());
        if let Some(target) = &found.target {
            let inside = directory.strip_prefix(self.names.place(aside)).unwrap_or(&directory);
            self.links.push((aside, inside.join(name), target.clone()));
            return Ok(());
        }
        let path = directory.join(name);
        let made = self.names.free(&path, |path| {
            if path.symlink_metadata().is_ok() {
                return Err(HostError::AlreadyExists.into());
            }
            let partial = partial(path);
            let file = File::options().write(true).create_new(true).open(&partial)?;
            Ok((path.to_path_buf(), partial, file))
        });
        let (path, partial, file) = made.map_err(|error| Trouble::at(&path, error))?;
        let copied = self.copy(found.size, &file, data);
        let copied = copied.and_then(|bad| file.set_times(times(found)).map(|()| bad));
        let copied = copied.and_then(|bad| fs::rename(&partial, &path).map(|()| bad));
        match copied {
            Ok(None) => Ok(()),
            Ok(Some((unread, why))) => Err(Trouble { unread, ..Trouble::at(&path, why) }),
            Err(error) => {
                // The incomplete file is removed: it would look like a whole one.
                let _ = fs::remove_file(&partial);
                Err(Trouble::at(&path, error))
            }
        }
    }

    /// Copies the content; zeroes become holes. Returns how many bytes could not be read and the first error, if
    /// there was one.
    fn copy(
        &mut self,
        size: u64,
        file: &File,
        data: &mut dyn RecoveredData,
    ) -> std::io::Result<Option<(u64, String)>> {
        let mut bad: Option<(u64, String)> = None;
        let mut buffer = vec![0; PIECE];
        let (mut at, mut piece, mut copied) = (0, PIECE, 0);
        // The end of the last part that is not zeroes or lost up to the end.
        let mut there = 0;
        while at < size {
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
        self.bytes = self.bytes.saturating_add(copied);
        Ok(bad)
    }

    fn put_links(&mut self) {
        for (aside, inside, target) in std::mem::take(&mut self.links) {
            let path = self.names.place(aside).join(inside);
            let made = self.names.free(&path, |path| make_link(target.as_ref(), path));
            if let Err(error) = made {
                self.tell(Trouble::at(&path, error));
            }
        }
    }

    /// Puts the new path of a directory into what was told of the files in it.
    fn move_troubles(&mut self, from: &Path, to: &Path) {
        for trouble in &mut self.troubles {
            if let Ok(inside) = Path::new(&trouble.path).strip_prefix(from) {
                trouble.path = shown(&to.join(inside)).to_string();
            }
        }
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
