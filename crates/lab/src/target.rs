//! The targets of a comparison: the raw device, a volume of Platter on it, a file in a directory, or a mounted file
//! system.

use crate::document::{self as report, RAW};
use crate::host;
use crate::peer::{Mounted, Peer};
use crate::stand::{Region, typed};
use crate::windows_peer::WindowsPeer;
use crate::{Error, Result, Subject};
use platter_device::host::{HostBytes, host_string};
use platter_device::{Caching, Device, FileDevice, FileOptions, Recorder, parse_size, show_size};
use platter_vfs::{Format, FormatOptions, Kind, Name, Node, OpenOptions, Silent};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A thing to compare, as named on the command line.
#[derive(Clone)]
pub enum Target {
    /// `raw`: the device itself.
    Raw,
    /// `FORMAT` or `FORMAT:CLUSTER`: a file in a fresh volume that fills the device.
    Volume {
        /// The format.
        format: &'static dyn Format,
        /// Cluster size in bytes; the format's choice if `None`.
        cluster: Option<u64>,
    },
    /// `dir:PATH` or `dir:PATH+integrity`: a file in a directory of a mounted file system.
    Directory {
        /// The directory.
        path: PathBuf,
        /// Whether the file system is to keep checksums of the content, which only ReFS on Windows does.
        integrity: bool,
    },
    /// A file in a file system that is made on the device and then mounted, by the kernel or by another program.
    Mounted(Peer),
    /// A file in a file system that Windows makes in a virtual disk.
    ByWindows(WindowsPeer),
    /// The device itself, through a wrapper of the caller's.
    Through {
        /// The target's name in reports.
        name: String,
        /// Wraps the device in the caller's device.
        wrap: fn(Arc<dyn Device>) -> Arc<dyn Device>,
    },
}

/// Behind the name of a directory: the file system of the host is to keep checksums of the content.
const INTEGRITY: &str = "+integrity";

/// The name of the file under test.
pub(crate) const FILE: &str = "platter.dat";

impl Target {
    /// Parses a target's name as on the command line.
    ///
    /// # Errors
    /// [`Error::Input`] that lists the possible names.
    pub fn parse(name: impl AsRef<OsStr>) -> Result<Target> {
        let name = name.as_ref();
        let text = name.to_string_lossy();
        let wrong = |reason: String| Error::Input { name: format!("target {text:?}"), reason };
        if text == RAW {
            return Ok(Target::Raw);
        }
        if let Some(path) = name.as_bytes().strip_prefix(b"dir:") {
            return Target::directory(path).map_err(wrong);
        }
        if let Some(peer) = Peer::other(&text) {
            return Ok(Target::Mounted(peer));
        }
        if let Some(peer) = WindowsPeer::by_name(&text) {
            return Ok(Target::ByWindows(peer));
        }
        let (plain, is_mounted) = match text.strip_prefix("mount:") {
            Some(rest) => (rest, true),
            None => (&*text, false),
        };
        let (name, cluster) =
            plain.split_once(':').map_or((plain, None), |(name, cluster)| (name, Some(cluster)));
        let Some(format) = platter_formats::by_name(name) else {
            return Err(wrong(format!("expected one of {}", Target::names())));
        };
        let cluster = cluster.map(parse_size).transpose().map_err(wrong)?;
        if is_mounted {
            let program = std::env::current_exe().map_err(|error| wrong(error.to_string()))?;
            return Ok(Target::Mounted(Peer::Ours { format, cluster, program }));
        }
        Ok(Target::Volume { format, cluster })
    }

    /// The directory of this name, which may have a name that itself ends like an option.
    fn directory(name: &[u8]) -> std::result::Result<Target, String> {
        let look = |name: &[u8], integrity| {
            let path = PathBuf::from(host_string(name));
            match std::fs::metadata(&path) {
                Ok(data) if data.is_dir() => Ok(Target::Directory { path, integrity }),
                Ok(_) => Err("not a directory".to_string()),
                Err(error) => Err(error.to_string()),
            }
        };
        match (look(name, false), name.strip_suffix(INTEGRITY.as_bytes())) {
            (Err(_), Some(shorter)) => look(shorter, true),
            (found, _) => found,
        }
    }

    /// The names that a target can have, as a sentence for users.
    pub fn names() -> String {
        let formats: Vec<&str> = platter_formats::registry().iter().map(|format| format.name()).collect();
        format!(
            "raw (the device itself); {} (each with an optional cluster size, fat32:32k or refs:64k); dir:PATH (a \
             directory of a mounted file system; with +integrity behind it, Windows' ReFS keeps checksums there); as root {} (others, made on the device and mounted) and mount:FORMAT (ours, \
             through platter mount); on Windows as administrator {} (Windows' own, made in a virtual disk)",
            formats.join(", "),
            Peer::names().collect::<Vec<_>>().join(", "),
            WindowsPeer::names().collect::<Vec<_>>().join(", ")
        )
    }

    /// The names of the file systems of other projects that can be targets.
    pub fn peers() -> impl Iterator<Item = &'static str> {
        Peer::names()
    }

    /// The names of the file systems that Windows makes for a comparison.
    pub fn peers_of_windows() -> impl Iterator<Item = &'static str> {
        WindowsPeer::names()
    }

    /// The target's name, as on the command line.
    pub fn name(&self) -> String {
        match self {
            Target::Raw => RAW.into(),
            Target::Volume { format, cluster: None } => format.name().into(),
            Target::Volume { format, cluster: Some(bytes) } => {
                format!("{}:{}", format.name(), typed(*bytes))
            }
            Target::Directory { path, integrity } => {
                format!("dir:{}{}", path.display(), if *integrity { INTEGRITY } else { "" })
            }
            Target::Mounted(peer) => peer.name(),
            Target::ByWindows(peer) => peer.name().into(),
            Target::Through { name, .. } => name.clone(),
        }
    }

    /// Whether the target needs its region as a block device of the kernel.
    pub(crate) fn is_mounted(&self) -> bool {
        matches!(self, Target::Mounted(_))
    }

    /// Whether the target is made on the device, and not in a directory of the host.
    pub(crate) fn is_on_device(&self) -> bool {
        !matches!(self, Target::Directory { .. } | Target::ByWindows(_))
    }

    /// The directory of the host in which the target is, and whether files there are to have integrity; `None` for one on the
    /// device.
    ///
    /// # Errors
    /// [`Error::Input`] for a file system that Windows has not made.
    pub(crate) fn host_directory(&self) -> Result<Option<(&Path, bool)>> {
        match self {
            Target::Directory { path, integrity } => Ok(Some((path, *integrity))),
            Target::ByWindows(peer) => peer.directory().map(Some),
            _ => Ok(None),
        }
    }

    /// Makes the target ready: discards the old content of the region if that was asked for, formats it, and makes the test file. A target in
    /// a directory of the host does not touch the device. `name` is the target's name in reports.
    pub(crate) fn set_up(&self, name: &str, place: &Region, caching: Caching, length: u64) -> Result<Ready> {
        let device = &place.device;
        match self {
            Target::Raw | Target::Through { .. } => {
                place.discard()?;
                let device = match self {
                    Target::Through { wrap, .. } => wrap(device.clone()),
                    _ => device.clone(),
                };
                let (device, recorder) = place.recorded(device);
                let subject = Subject::Device { device, free: None };
                let description = describe(name, name, "raw device", "raw", String::new());
                Ok(Ready { subject, recorder: Some(recorder), description, mounted: None })
            }
            Target::Volume { format, cluster } => {
                place.discard()?;
                let options = FormatOptions { cluster: *cluster, ..FormatOptions::default() };
                format.make(&**device, &options, &Silent)?;
                let (device, recorder) = place.recorded(device.clone());
                let system = format.open(device, OpenOptions::default())?;
                let node = system.create(Node::ROOT, &Name::from(FILE), Kind::File)?;
                let info = system.info()?;
                let details = "a fresh volume".to_string();
                let is_checked = system
                    .integrity()
                    .and_then(|part| part.get(node))
                    .is_ok_and(|integrity| integrity.enabled);
                let integrity = if is_checked { ", integrity on" } else { "" };
                let title = format!("{}, {} clusters{integrity}", info.format, show_size(info.cluster));
                let description = describe(name, name, &title, "volume", details);
                let subject = Subject::File { system, node };
                Ok(Ready { subject, recorder: Some(recorder), description, mounted: None })
            }
            Target::Mounted(peer) => {
                let Some((block, directory)) = place.block() else {
                    return Err(Error::Job("its region is no block device".into()));
                };
                place.discard()?;
                let mounted = peer.mount(&**device, block, directory)?;
                let (file, how) = host_file(&mounted.at, caching, length, false)?;
                let subject = Subject::Device { device: Arc::new(file), free: Some(free_in(&mounted.at)) };
                let details = format!("fresh, a file in it, {how}");
                let description = describe(name, name, &peer.title(), "mounted", details);
                Ok(Ready { subject, recorder: None, description, mounted: Some(mounted) })
            }
            Target::Directory { path, integrity } => {
                let (file, how) = host_file(path, caching, length, *integrity)?;
                let kind = platter_device::host_file_system(path);
                let description = of_host(name, path, kind.as_deref(), file.integrity(), "file", how);
                let subject = Subject::Device { device: Arc::new(file), free: Some(free_in(path)) };
                Ok(Ready { subject, recorder: None, description, mounted: None })
            }
            Target::ByWindows(peer) => {
                let (path, integrity) = peer.directory()?;
                let (file, how) = host_file(path, caching, length, integrity)?;
                let kind = platter_device::host_file_system(path);
                let kind = kind.as_deref().unwrap_or("unknown file system");
                let details =
                    format!("a file in a fresh volume in a virtual disk ({kind} by Windows), {how}");
                let description = describe(name, name, &peer.title(), "directory", details);
                let subject = Subject::Device { device: Arc::new(file), free: Some(free_in(path)) };
                Ok(Ready { subject, recorder: None, description, mounted: None })
            }
        }
    }
}

/// Makes a new file in a directory of the host; returns it, and in words whether its I/O uses the page cache.
fn host_file(
    path: &Path,
    caching: Caching,
    length: u64,
    integrity: bool,
) -> Result<(FileDevice, &'static str)> {
    let options = FileOptions { caching, bytewise: true, integrity, ..FileOptions::default() };
    let opened = FileDevice::temporary(path, length, options)?;
    let how = if opened.is_direct() { "past the page cache" } else { "through the page cache" };
    Ok((opened, how))
}

/// Tells how much is free in the file system that holds a directory.
fn free_in(path: &Path) -> Arc<dyn Fn() -> Option<u64> + Send + Sync> {
    let directory = path.to_owned();
    Arc::new(move || free_space(&directory))
}

/// Makes a folder in a directory of the host, whose new files have integrity if that is asked for.
pub(crate) fn new_folder(path: &Path, integrity: bool) -> Result<()> {
    let failed = |source| Error::Io { what: path.display().to_string(), source };
    std::fs::create_dir(path).map_err(failed)?;
    if integrity && let Err(source) = platter_device::host::set_integrity(path, true) {
        // It is empty, and what cannot be removed harms nobody.
        let _ = std::fs::remove_dir(path);
        return Err(failed(source));
    }
    Ok(())
}

/// Describes what is measured in a directory of the host, and whether its file system keeps checksums of it.
pub(crate) fn of_host(
    name: &str,
    path: &Path,
    kind: Option<&str>,
    integrity: Option<bool>,
    what: &str,
    how: &str,
) -> report::Target {
    let kind = kind.unwrap_or("unknown file system");
    let (short, state) = match integrity {
        None => ("", ""),
        Some(false) => ("", ", integrity off"),
        Some(true) => (INTEGRITY, ", integrity on"),
    };
    let how = if how.is_empty() { String::new() } else { format!(", {how}") };
    let details = format!("a {what} in {} ({kind}, mounted by the host){how}{state}", path.display());
    let title = format!("{kind} of the host{state}");
    describe(name, &format!("dir:{kind}{short}"), &title, "directory", details)
}

fn describe(name: &str, short: &str, title: &str, kind: &str, details: String) -> report::Target {
    report::Target { name: name.into(), title: title.into(), short: short.into(), kind: kind.into(), details }
}

/// The number of bytes free for unprivileged users in the file system that holds a path.
pub(crate) fn free_space(path: &Path) -> Option<u64> {
    host::free_space(path).ok().map(|(free, _)| free)
}

/// A target that is ready to be measured.
pub(crate) struct Ready {
    pub subject: Subject,
    /// Records the traffic of the storage; `None` where it cannot be observed.
    pub recorder: Option<Arc<Recorder>>,
    pub description: report::Target,
    /// The file system that was mounted for the target. A later field than the subject, so that the file in it is
    /// closed before it is unmounted.
    pub mounted: Option<Mounted>,
}

impl Ready {
    /// Unmounts the target's volume or file system.
    pub(crate) fn tear_down(self) -> Result<()> {
        let Ready { subject, mounted, .. } = self;
        if let Subject::File { system, .. } = &subject {
            system.unmount()?;
        }
        drop(subject);
        mounted.map_or(Ok(()), |mut mounted| mounted.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integrity_behind_a_directory_is_asked_of_the_host_and_named() {
        let outer = tempfile::tempdir().unwrap();
        let plain = format!("dir:{}", outer.path().display());
        let name = format!("{plain}{INTEGRITY}");
        let target = Target::parse(&name).unwrap();
        assert!(matches!(&target, Target::Directory { path, integrity: true } if path == outer.path()));
        assert_eq!(target.name(), name);
        let nowhere = Target::parse(format!("{plain}/x{INTEGRITY}")).err().unwrap().to_string();
        assert!(nowhere.contains("x+integrity"), "{nowhere}");
        // No file system that tests run on has integrity streams.
        let refused = host_file(outer.path(), Caching::Buffered, 4096, true).err().unwrap().to_string();
        assert!(
            refused.contains("integrity streams; ") && refused.contains("leave +integrity out"),
            "{refused}"
        );
        assert!(host_file(outer.path(), Caching::Buffered, 4096, false).is_ok());
        // A directory that is called so is one.
        let called = format!("{}{INTEGRITY}", outer.path().join("x").display());
        std::fs::create_dir(&called).unwrap();
        let target = Target::parse(format!("dir:{called}")).unwrap();
        assert!(
            matches!(&target, Target::Directory { path, integrity: false } if *path == Path::new(&called))
        );
    }

    #[test]
    fn what_the_host_keeps_of_a_file_is_in_its_description() {
        let of = |integrity| {
            let told =
                of_host("dir:R", Path::new("R"), Some("ReFS"), integrity, "file", "past the page cache");
            (told.short, told.title, told.details)
        };
        let (short, title, details) = of(Some(true));
        assert_eq!((&*short, &*title), ("dir:ReFS+integrity", "ReFS of the host, integrity on"));
        assert_eq!(details, "a file in R (ReFS, mounted by the host), past the page cache, integrity on");
        let (short, title, _) = of(Some(false));
        assert_eq!((&*short, &*title), ("dir:ReFS", "ReFS of the host, integrity off"));
        let (short, title, _) = of(None);
        assert_eq!((&*short, &*title), ("dir:ReFS", "ReFS of the host"));
    }
}
