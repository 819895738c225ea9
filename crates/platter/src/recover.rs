//! Copying out what is left of a volume that may be too damaged to open.

use crate::error::{About, Error, ErrorKind, Result, shown};
use crate::event::Listener;
use crate::make::known_format;
use crate::opening::{DeviceOptions, open_device};
use crate::source::Source;
use platter_vfs::{
    Error as SystemError, Format, Kind, Name, Progress, RecoverReport, Recovered, RecoveredData, Visit,
};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, FileTimes};
use std::io::ErrorKind as HostError;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
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
    /// The number of bytes that were copied.
    pub bytes: u64,
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
    let opening = DeviceOptions { listener: options.listener.clone(), ..DeviceOptions::default() };
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
                SystemError::Unsupported { .. } | SystemError::NotThisFormat { .. } | SystemError::Damaged(_),
            ) if !is_one => {}
            found => return Ok((name, found.about(source)?)),
        }
    }
    Err(Error::new(source, platter_formats::unknown(&*device).about(source)?))
}

/// Copies what is left of a volume to a directory of the host, which is empty or does not exist.
///
/// Deleted files go to the directory `deleted`, files whose metadata is damaged to `damaged`. Parts of files that
/// cannot be read are left as zeroes and reported. Named streams become files named FILE:STREAM. No name leads out of
/// the directory, and nothing is written through a link.
///
/// # Errors
/// [`NotEmpty`](ErrorKind::NotEmpty) for the directory, and as [`recover`]. Files that cannot be copied are reported.
pub fn recover_to(
    source: &Source,
    directory: &Path,
    options: &RecoverOptions,
    progress: &dyn Progress,
) -> Result<RecoveredTo> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() == HostError::AlreadyExists => {
            if fs::read_dir(directory).about(shown(directory))?.next().is_some() {
                return Err(Error::refused(ErrorKind::NotEmpty, shown(directory), "is not empty"));
            }
        }
        made => made.about(shown(directory))?,
    }
    let mut writer = Writer {
        root: directory,
        is_skipping: options.skip_damaged,
        links: Vec::new(),
        troubles: Vec::new(),
        damaged: 0,
        bytes: 0,
    };
    let (device, report) = recover_source(source, options, progress, &mut |found, data| {
        writer.put(found, data);
        Ok(())
    })?;
    writer.put_links();
    let Writer { troubles, damaged, bytes, .. } = writer;
    Ok(RecoveredTo { device, report, troubles, damaged, bytes })
}

/// The directory for deleted files.
const DELETED: &str = "deleted";
/// The directory for files whose metadata is damaged.
const DAMAGED: &str = "damaged";
/// The number of bytes read at a time; after a failed read, [`SMALL`] bytes are read at a time.
const PIECE: usize = 1 << 20;
const SMALL: usize = 4096;

/// Writes the found files to the host.
struct Writer<'r> {
    root: &'r Path,
    /// Whether files whose metadata is damaged are left out.
    is_skipping: bool,
    /// Symbolic links, which are made last, so that nothing is written through them.
    links: Vec<(PathBuf, String)>,
    troubles: Vec<Trouble>,
    /// The number of files and directories whose metadata is damaged.
    damaged: u64,
    bytes: u64,
}

impl Writer<'_> {
    fn put(&mut self, found: &Recovered, data: &mut dyn RecoveredData) {
        if found.damaged {
            self.damaged += 1;
            let path: String = found.path.iter().map(|name| format!("/{name}")).collect();
            let what =
                if self.is_skipping { "it is left out" } else { "its name, size and content may be wrong" };
            self.tell(Trouble { path, unread: 0, why: format!("its metadata is damaged; {what}") });
            // A directory is made only when a file in it is written.
            if self.is_skipping || found.kind == Kind::Directory {
                return;
            }
        }
        if let Err(trouble) = self.try_put(found, data) {
            self.tell(trouble);
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
        let mut path = self.root.to_path_buf();
        for (is_so, directory) in [(found.damaged, DAMAGED), (found.deleted, DELETED)] {
            if is_so {
                path.push(directory);
                make_directory(&path)?;
            }
        }
        let (above, last) = match (&found.path[..], found.kind) {
            (all, Kind::Directory) => (all, None),
            ([above @ .., last], _) => (above, Some(last)),
            ([], _) => return Ok(()),
        };
        for name in above {
            path.push(host_name(name, None));
            make_directory(&path)?;
        }
        let Some(last) = last else { return Ok(()) };
        path.push(host_name(last, found.stream.as_ref()));
        if let Some(target) = &found.target {
            self.links.push((path, target.clone()));
            return Ok(());
        }
        let (path, file) = create(&path).map_err(|error| Trouble::at(&path, error))?;
        let fail = |error| Trouble::at(&path, error);
        let bad = self.copy(found.size, &file, data).map_err(fail)?;
        file.set_times(times(found)).map_err(fail)?;
        match bad {
            None => Ok(()),
            Some((unread, why)) => Err(Trouble { unread, ..Trouble::at(&path, why) }),
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
        let (mut at, mut piece) = (0, PIECE);
        file.set_len(size)?;
        while at < size {
            let length = (size - at).min(piece as u64) as usize;
            match data.read(at, &mut buffer[..length]) {
                Ok(got) => {
                    if buffer[..got].iter().any(|&byte| byte != 0) {
                        file.write_all_at(&buffer[..got], at)?;
                    }
                    self.bytes += got as u64;
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
        Ok(bad)
    }

    fn put_links(&mut self) {
        for (path, target) in std::mem::take(&mut self.links) {
            let made = free_name(&path, |path| symlink(&target, path).map(|()| path.to_path_buf()));
            if let Err(error) = made {
                self.tell(Trouble::at(&path, error));
            }
        }
    }
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

/// Makes a directory, which may exist already; fails if something else has this name.
fn make_directory(path: &Path) -> std::result::Result<(), Trouble> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == HostError::AlreadyExists => match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            _ => Err(Trouble::at(path, "a file of this name is in the place of the directory")),
        },
        made => made.map_err(|error| Trouble::at(path, error)),
    }
}

/// Makes a new file, under another name if this one is taken.
fn create(path: &Path) -> std::io::Result<(PathBuf, File)> {
    free_name(path, |path| {
        let file = File::options().write(true).create_new(true).open(path)?;
        Ok((path.to_path_buf(), file))
    })
}

/// Calls `make` with a path, or with a number added to its name if the name is taken.
fn free_name<T>(path: &Path, make: impl Fn(&Path) -> std::io::Result<T>) -> std::io::Result<T> {
    const MOST: u32 = 1000;
    let mut other = path.to_path_buf();
    for number in 2..MOST {
        match make(&other) {
            Err(error) if error.kind() == HostError::AlreadyExists => {}
            made => return made,
        }
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(" ({number})"));
        other.set_file_name(name);
    }
    make(&other)
}

/// Returns a name that cannot lead out of its directory, and that the host can hold.
fn host_name(name: &Name, stream: Option<&Name>) -> PathBuf {
    /// Hosts hold 255 bytes; [`free_name`] may add a number.
    const LONGEST: usize = 240;
    let mut bytes = name.to_bytes();
    if let Some(stream) = stream {
        bytes.push(b':');
        bytes.extend(stream.to_bytes());
    }
    bytes.iter_mut().filter(|byte| matches!(byte, 0 | b'/')).for_each(|byte| *byte = b'_');
    if matches!(&bytes[..], b"" | b"." | b"..") {
        bytes.insert(0, b'_');
    }
    if bytes.len() > LONGEST {
        // The name is not cut in the middle of a UTF-8 character.
        let end = (0..=LONGEST).rev().find(|&end| bytes[end] & 0xC0 != 0x80).unwrap_or(LONGEST);
        bytes.truncate(end);
    }
    PathBuf::from(OsStr::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_directory() {
        let shown = |name: &str| host_name(&Name::from(name), None).display().to_string();
        assert_eq!(["a", "..", ".", "", "a/b", "/x"].map(shown), ["a", "_..", "_.", "_", "a_b", "_x"]);
        assert_eq!(host_name(&Name::from("a"), Some(&Name::from("s/t"))), PathBuf::from("a:s_t"));
        let long = shown(&"日".repeat(200));
        assert!(long.len() == 240 && long.chars().all(|letter| letter == '日'));
    }
}
