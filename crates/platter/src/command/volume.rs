//! Opening the volumes that arguments name, and finding files on them.

use crate::command::failure::{About, Failure, shown, tell};
use crate::command::image::listener;
use crate::command::keys::keys;
use crate::command::mounting::image_mounted_at;
use clap::Args;
use platter::{Access, DeviceOptions, Held, Source, SourceKind, names};
use platter_device::host::{HostBytes, host_string, is_disk};
use platter_device::{Caching, Device, FileDevice, FileOptions};
use platter_vfs::{Error as VolumeError, FileSystem, Kind, LocalTime, Name, OpenOptions};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Options of commands that only read: which partition to use.
#[derive(Args, Clone, Copy)]
pub(super) struct ReadOptions {
    /// Use this partition instead of the only one with a known file system
    #[arg(long, value_name = "N")]
    pub partition: Option<u32>,
    /// Read also a copy of a mirror whose rebuild was not completed: it holds parts of two contents
    #[arg(long)]
    pub force: bool,
}

/// Options of commands that write: which partition to use, and whether to write where there is a reason not to.
#[derive(Args, Clone, Copy)]
pub(super) struct WriteOptions {
    /// Use this partition instead of the only one with a known file system
    #[arg(long, value_name = "N")]
    pub partition: Option<u32>,
    /// Write even if the volume was not closed; remove and replace files with the read-only attribute. What is mounted or
    /// otherwise in use is not written to
    #[arg(long)]
    pub force: bool,
    /// Write to a volume of which Windows keeps shadow copies: they show something else then
    #[arg(long)]
    pub lose_shadow_copies: bool,
}

/// Parses an argument that may name a partition, as IMAGE@N does; an option that names one counts more.
pub(super) fn source_of(image: &Path, partition: Option<u32>) -> Result<Source, Failure> {
    let source = Source::parse(image)?;
    let partition = partition.or(source.partition);
    Ok(source.with_partition(partition))
}

/// Returns the options to open a device with; its events are printed.
pub(super) fn device_options(access: Access, caching: Caching) -> DeviceOptions {
    DeviceOptions { access, caching, listener: listener(), unfinished: false, keys: keys() }
}

/// Opens an image file or block device, or several as a mirror; with `force` also a copy of a mirror whose rebuild was not
/// completed. For writing, refuses one that this program has mounted.
pub(super) fn open_unfinished(image: &Path, access: Access, force: bool) -> Result<Arc<dyn Device>, Failure> {
    let source = Source::whole(image)?;
    if access.writes() {
        refuse_any_mounted(&source)?;
    }
    let options = DeviceOptions { unfinished: force, ..device_options(access, Caching::default()) };
    Ok(platter::open_whole(&source, &options)?)
}

/// Refuses a source of which any path is mounted.
pub(super) fn refuse_any_mounted(source: &Source) -> Result<(), Failure> {
    source.paths.iter().try_for_each(|path| refuse_mounted(path))
}

/// Refuses an image or device that this program has mounted, or a loop device over such an image, also with `--force`:
/// writing to it beside the mount would damage it.
pub(super) fn refuse_mounted(path: &Path) -> Result<(), Failure> {
    match image_mounted_at(path)? {
        Some(at) => {
            let at = shown(&at);
            Err(Failure::new(shown(path), format!("is mounted at {at}; platter umount {at} ends that")))
        }
        None => Ok(()),
    }
}

/// Refuses to read a volume beside a mount or another process that writes to it.
fn refuse_beside_mount(source: &Source) -> Result<(), Failure> {
    for path in source.paths.iter().filter(|path| platter_device::writer_of(path).is_some()) {
        if let Some(at) = image_mounted_at(path)? {
            let at = shown(&at);
            let why =
                format!("is mounted for writing at {at}: the newest state is there, and not on the device");
            return Err(Failure::new(shown(path), why));
        }
    }
    Ok(platter::refuse_beside_writer(source)?)
}

/// Opens an image file or block device, and returns the partition with the volume, or the whole device if it has
/// none; with `force` also on a copy of a mirror whose rebuild was not completed.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(super) fn open_part(
    image: &Path,
    partition: Option<u32>,
    access: Access,
    force: bool,
) -> Result<Arc<dyn Device>, Failure> {
    let (device, partition) = open_numbered(image, partition, access, force)?;
    part_of(device, partition, access)
}

/// Opens a whole image with the number of the partition in it, or of dynamic disks the volume with that number.
fn open_numbered(
    image: &Path,
    partition: Option<u32>,
    access: Access,
    force: bool,
) -> Result<(Arc<dyn Device>, Option<u32>), Failure> {
    let source = Source::whole(image)?;
    if source.kind != SourceKind::Dynamic {
        return Ok((open_unfinished(image, access, force)?, partition));
    }
    let options = device_options(access, Caching::default());
    Ok((platter::open_whole(&source.with_partition(partition), &options)?, None))
}

/// Returns the partition of an open device that holds the volume, or the whole device if it has none.
pub(super) fn part_of(
    device: Arc<dyn Device>,
    partition: Option<u32>,
    access: Access,
) -> Result<Arc<dyn Device>, Failure> {
    Ok(platter::part_of(device, partition, &device_options(access, Caching::default()))?)
}

/// Returns the options to open a volume with. Times that a format keeps as local time are taken for this machine's.
pub(super) fn open_options(read_only: bool) -> OpenOptions {
    OpenOptions { read_only, local_time: LocalTime::System, ..OpenOptions::default() }
}

/// The volumes that a command works on. Each is opened once, however many arguments name it.
pub(super) struct Volumes {
    partition: Option<u32>,
    /// Whether copies of mirrors are read whose rebuild was not completed.
    unfinished: bool,
    lose_shadow_copies: bool,
    /// The shadow copy to read in place of each volume that is opened for reading.
    shadow: Option<u32>,
    open: Vec<Open>,
}

struct Open {
    image: PathBuf,
    /// The canonical paths of the image files or devices that the volume is on, sorted.
    paths: Vec<PathBuf>,
    /// The number of the partition that holds the volume, if one was named.
    partition: Option<u32>,
    /// The whole device, of which the volume may be a partition.
    device: Arc<dyn Device>,
    writable: bool,
    system: Arc<dyn FileSystem>,
}

impl Volumes {
    /// Opens no volume yet. The partition applies to arguments that name none.
    pub(super) fn new(options: &ReadOptions) -> Volumes {
        let ReadOptions { partition, force: unfinished } = *options;
        Volumes { partition, unfinished, lose_shadow_copies: false, shadow: None, open: Vec::new() }
    }

    /// The same, with the options of a command that writes.
    pub(super) fn to_write(options: &WriteOptions) -> Volumes {
        let reading = ReadOptions { partition: options.partition, force: options.force };
        Volumes { lose_shadow_copies: options.lose_shadow_copies, ..Volumes::new(&reading) }
    }

    /// The same, with a shadow copy in place of each volume that is opened for reading, if one is given.
    pub(super) fn in_shadow(self, shadow: Option<u32>) -> Volumes {
        Volumes { shadow, ..self }
    }

    /// Returns the volume in an image, which is opened at the first call. A volume that is opened for reading is not
    /// reopened for writing, so whoever needs to write calls first.
    pub(super) fn volume(&mut self, image: &Path, access: Access) -> Result<Arc<dyn FileSystem>, Failure> {
        let (whole, named) = Source::split_partition(image);
        let partition = named.or(self.partition);
        let paths = Source::whole(&whole)?.identity()?;
        let same = |open: &&Open| open.paths == paths && open.partition == partition;
        if let Some(open) = self.open.iter().find(same) {
            return Ok(open.system.clone());
        }
        let shares = |open: &&Open| open.paths.iter().any(|path| paths.contains(path));
        let is_part = |open: &Open| open.paths == paths && open.partition.is_some() && partition.is_some();
        if let Some(open) = self.open.iter().filter(shares).find(|open| !is_part(open)) {
            let other = shown(&open.image);
            return Err(Failure::new(
                shown(image),
                format!("shares a copy with {other}, which is in use here"),
            ));
        }
        let writable = matches!(access, Access::Write { .. });
        // Another partition of an image that is open shares its device: a second claim on the image would be refused.
        // Of dynamic disks each volume is a device, which is only read.
        let is_dynamic = Source::whole(&whole)?.kind == SourceKind::Dynamic;
        let (device, partition) = match self.open.iter().find(shares).filter(|_| !is_dynamic) {
            Some(open) => (open.device.clone(), partition),
            None => {
                if !writable {
                    refuse_beside_mount(&Source::whole(&whole)?)?;
                }
                open_numbered(&whole, partition, access, self.unfinished)?
            }
        };
        let (whole, device) = (device.clone(), part_of(device, partition, access)?);
        let device = match self.shadow.filter(|_| !writable) {
            Some(number) => shadow_copy(device, number).about(shown(image))?,
            None => device,
        };
        let how = OpenOptions { lose_shadow_copies: self.lose_shadow_copies, ..open_options(!writable) };
        let system = platter_formats::open(device, how).map_err(|error| match error {
            damage @ VolumeError::Damaged(_) => {
                let hint =
                    "`platter recover` copies out what is left, and `platter check` says what is wrong";
                Failure::new(shown(image), format!("{damage}; {hint}"))
            }
            error => Failure::new(shown(image), error),
        })?;
        platter::refuse_in_doubt(&*system, access).about(shown(image))?;
        let device = system.device();
        if let Some(why) = device.why_read_only().filter(|_| device.end() < device.len()) {
            tell(format_args!("platter: {}: {why}; what lies there cannot be read", shown(image)));
        }
        if !writable && let Some(doubt) = doubt(&*system) {
            tell(format_args!("platter: {}: {doubt}", shown(image)));
        }
        let (image, system_too) = (image.to_path_buf(), system.clone());
        self.open.push(Open { image, paths, partition, device: whole, writable, system: system_too });
        Ok(system)
    }

    /// Whether a host file is one of the open images.
    pub(super) fn contains(&self, path: &Path) -> bool {
        fs::canonicalize(path).is_ok_and(|path| self.open.iter().any(|open| open.paths.contains(&path)))
    }

    /// Makes everything durable and marks the volumes clean. A command that fails calls this too, so that what it did
    /// before the failure is kept.
    pub(super) fn close(self) -> Result<(), Failure> {
        let mut outcome = Ok(());
        for open in self.open.into_iter().filter(|open| open.writable) {
            outcome = outcome.and(open.system.unmount().about(shown(&open.image)));
        }
        outcome
    }
}

/// Returns a shadow copy of the volume on a device.
pub(super) fn shadow_copy(device: Arc<dyn Device>, number: u32) -> platter_vfs::Result<Arc<dyn Device>> {
    match platter_formats::recognise(&*device)? {
        Some((format, _)) => format.shadow_copy(device, number),
        None => Err(platter_formats::unknown(&*device)?),
    }
}

/// Returns a warning for whoever reads this volume: that it was not closed, that a hibernated Windows or its log
/// holds changes that are not on it yet, or that a part is damaged.
fn doubt(system: &dyn FileSystem) -> Option<String> {
    let info = match system.info() {
        Ok(info) => info,
        Err(error) => return Some(error.to_string()),
    };
    let (is_dirty, damage) = (info.dirty, info.damage);
    // The reasons that the device itself gives were printed when it was opened.
    let why = info.read_only.filter(|why| Some(why) != system.device().why_read_only().as_ref());
    let mut doubts: Vec<String> = why.into_iter().collect();
    if doubts.is_empty() && is_dirty && !system.capabilities().recovers {
        doubts.push("it was not closed, so that what was written last may be there in part".into());
    }
    doubts.extend(damage.first().cloned());
    if damage.len() > 1 {
        doubts.push(format!("and {} more, see platter check", damage.len() - 1));
    }
    (!doubts.is_empty()).then(|| doubts.join("; "))
}

/// A path on a volume.
#[derive(Clone, Debug)]
pub(super) struct VolumePath {
    /// The image, as the argument names it.
    pub image: PathBuf,
    /// The components of the path, from the root directory on.
    pub names: Vec<Name>,
    /// Whether the path ends with a slash, and so means a directory only.
    pub is_directory: bool,
}

/// The meaning of a path argument.
#[derive(Clone, Debug)]
pub(super) enum Location {
    /// A file of the host.
    Host(PathBuf),
    /// A file on a volume.
    Volume(VolumePath),
}

impl Location {
    /// Tells host paths from paths on a volume, by the rules in the help text of [`Cli`](crate::command::cli::Cli).
    pub(super) fn parse(argument: &OsStr) -> Result<Location, Failure> {
        let bytes = argument.as_bytes();
        let colon_after = |start: usize| {
            let is_one = |&at: &usize| {
                bytes[at] == b':' && bytes[at + 1] == b'/' && !(cfg!(windows) && is_of_drive(bytes, at))
            };
            (start..bytes.len().saturating_sub(1)).find(is_one)
        };
        let is_host = |colon: usize| Path::new(&host_string(&bytes[..=colon])).is_dir();
        let colon = match colon_after(0) {
            // `mirror:/…` is no path `/…` on a volume in the image `mirror`: the first copy of a mirror may have an
            // absolute path.
            Some(colon)
                if [Source::MIRROR, Source::DYNAMIC]
                    .iter()
                    .any(|name| bytes[..=colon] == *name.as_bytes())
                    && !is_host(colon) =>
            {
                colon_after(colon + 1)
            }
            first => first,
        };
        let Some(colon) = colon.filter(|&colon| !is_host(colon)) else {
            return Ok(Location::Host(PathBuf::from(argument)));
        };
        let image = PathBuf::from(host_string(&bytes[..colon]));
        let names = names(&bytes[colon + 1..]);
        Ok(Location::Volume(VolumePath { image, names, is_directory: means_directory(argument) }))
    }
}

/// Whether the colon at this place belongs to a drive letter of Windows, as in `C:/disk.img` and in
/// `mirror:C:/a.img,D:/b.img`.
fn is_of_drive(bytes: &[u8], colon: usize) -> bool {
    let is_letter = colon > 0 && bytes[colon - 1].is_ascii_alphabetic();
    is_letter && (colon == 1 || matches!(bytes[colon - 2], b',' | b':'))
}

impl VolumePath {
    /// Parses a path on a volume; fails for a host path.
    pub(super) fn parse(argument: &OsStr) -> Result<VolumePath, Failure> {
        match Location::parse(argument)? {
            Location::Volume(path) => Ok(path),
            Location::Host(path) => Err(no_path_on_a_volume(&path)),
        }
    }

    /// Parses a path on a volume; an image without a path means its root directory.
    pub(super) fn parse_or_root(argument: &OsStr) -> Result<VolumePath, Failure> {
        match Location::parse(argument)? {
            Location::Volume(path) => Ok(path),
            Location::Host(image) if inside(&image).is_some() => Err(no_path_on_a_volume(&image)),
            Location::Host(image) => Ok(VolumePath { image, names: Vec::new(), is_directory: true }),
        }
    }

    /// Returns the path of the parent directory, and the last name; `None` for the root.
    pub(super) fn split(&self) -> Option<(VolumePath, Name)> {
        let (last, names) = self.names.split_last()?;
        let parent = VolumePath { image: self.image.clone(), names: names.to_vec(), is_directory: true };
        Some((parent, last.clone()))
    }

    /// The path of an entry of this directory.
    pub(super) fn join(&self, name: &Name) -> VolumePath {
        let mut path = VolumePath { is_directory: false, ..self.clone() };
        path.names.push(name.clone());
        path
    }

    /// Finds the node of this path.
    pub(super) fn find(&self, system: &Arc<dyn FileSystem>) -> Result<Held, Failure> {
        self.lookup(system).about(self)
    }

    /// Like [`find`](VolumePath::find), but returns the file system's own error, for callers that handle some errors.
    pub(super) fn lookup(&self, system: &Arc<dyn FileSystem>) -> platter_vfs::Result<Held> {
        let held = Held::find(system, &self.names)?;
        if self.is_directory && system.attributes(held.node)?.kind != Kind::Directory {
            return Err(VolumeError::NotADirectory);
        }
        Ok(held)
    }
}

/// What somebody means who writes `disk.img/photos`: the image, which is a file, and the path in it.
fn inside(path: &Path) -> Option<(&Path, &Path)> {
    let is_image = |path: &&Path| path.is_file() || is_disk(path);
    let image = path.ancestors().skip(1).take_while(|above| !above.as_os_str().is_empty()).find(is_image)?;
    Some((image, path.strip_prefix(image).ok()?))
}

/// Whether a file of the host holds a volume. A device is not looked at.
pub(super) fn is_image(path: &Path) -> bool {
    let options = FileOptions { read_only: true, ..FileOptions::default() };
    path.is_file()
        && FileDevice::open(path, options)
            .is_ok_and(|device| matches!(platter_formats::recognise(&device), Ok(Some(_))))
}

/// Returns the failure for an argument that should name a file or directory on a volume, with what may be meant.
pub(super) fn no_path_on_a_volume(path: &Path) -> Failure {
    const WRITTEN: &str = "a path on a volume is written IMAGE:/PATH";
    let why = match inside(path) {
        Some((image, rest)) => format!("{WRITTEN}, as {}:/{}", image.display(), rest.display()),
        None if is_image(path) => format!("{WRITTEN}, as {}:/PATH", path.display()),
        None if path.exists() => {
            format!("{WRITTEN}; this is a path of the host, from which `platter cp` copies")
        }
        None => WRITTEN.to_string(),
    };
    Failure::new(shown(path), why)
}

/// Whether a path can mean a directory only: it ends with a slash, or with `.` after one.
pub(super) fn means_directory(argument: &OsStr) -> bool {
    let bytes = argument.as_bytes();
    let ends = |bytes: &[u8]| bytes.ends_with(b"/") || bytes.ends_with(b"/.") || bytes.ends_with(b"/..");
    ends(bytes)
        || cfg!(windows)
            && ends(&bytes.iter().map(|&byte| if byte == b'\\' { b'/' } else { byte }).collect::<Vec<_>>())
}

impl fmt::Display for VolumePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.image.display())?;
        if self.names.is_empty() {
            return f.write_str("/");
        }
        self.names.iter().try_for_each(|name| write!(f, "/{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> String {
        match Location::parse(OsStr::new(text)).unwrap() {
            Location::Host(path) => format!("host {}", path.display()),
            Location::Volume(path) => format!("volume {path}"),
        }
    }

    #[test]
    fn drive_letters_are_told_from_images() {
        for (text, colon) in [("C:/x", 1), ("mirror:C:/a,d:/b", 8), ("mirror:C:/a,d:/b", 13)] {
            assert!(is_of_drive(text.as_bytes(), colon), "{text}");
        }
        for (text, colon) in [("C:/d.img:/x", 8), ("ab:/x", 2), (":/x", 0)] {
            assert!(!is_of_drive(text.as_bytes(), colon), "{text}");
        }
    }

    #[test]
    fn a_colon_and_slash_lead_into_a_volume() {
        assert_eq!(parse("disk.img:/a/b"), "volume disk.img:/a/b");
        assert_eq!(parse("/dev/sdz1:/"), "volume /dev/sdz1:/");
        assert_eq!(parse("C:/x"), "volume C:/x");
        assert_eq!(parse("d.img://a/./b/../c/"), "volume d.img:/a/c");
        assert_eq!(parse("d.img:/../../a"), "volume d.img:/a");
        assert_eq!(parse("dynamic:/a.img,/b.img@2:/c"), "volume dynamic:/a.img,/b.img@2:/c");
        assert_eq!(parse("mirror:a.img,b.img:/c"), "volume mirror:a.img,b.img:/c");
        assert_eq!(parse("mirror:/dev/sdy,/dev/sdz:/c"), "volume mirror:/dev/sdy,/dev/sdz:/c");
        for host in ["mirror:a,b", "mirror:/a,/b", "disk.img", "./a/b", "a:b", "odd:"] {
            assert_eq!(parse(host), format!("host {host}"));
        }
        let directory = std::env::temp_dir().join(format!("platter-volume-{}:", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let inside = format!("{}/x", directory.display());
        assert_eq!(parse(&inside), format!("host {inside}"), "a directory of that name is the host's");
        fs::remove_dir(&directory).unwrap();
        assert_eq!(parse(&inside), format!("volume {inside}"));
    }
}
