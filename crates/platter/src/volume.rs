//! Opening the volumes that arguments name, and finding the way inside them.

use crate::failure::{About, Failure, shown, tell};
use crate::image::{Image, MIRROR};
use clap::Args;
use platter_device::{
    Caching, Device, Error, FileDevice, FileOptions, IN_USE, refuse_in_use, refuse_unlike_copies,
    select_partition,
};
use platter_vfs::{Cursor, Entry, Error as VolumeError, FileSystem, Name, Node, OpenOptions};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Which volume is meant, for commands that only read.
#[derive(Args, Clone, Copy)]
pub struct ReadOptions {
    /// Use this partition instead of the only one with a known file system
    #[arg(long, value_name = "N")]
    pub partition: Option<u32>,
}

/// Which volume is meant, for commands that write.
#[derive(Args, Clone, Copy)]
pub struct WriteOptions {
    /// Use this partition instead of the only one with a known file system
    #[arg(long, value_name = "N")]
    pub partition: Option<u32>,
    /// Write even if the device is mounted or otherwise in use, unless another process has locked it
    #[arg(long)]
    pub force: bool,
}

/// What a command may do with a volume.
#[derive(Clone, Copy)]
pub enum Access {
    /// Read it, whoever else uses it.
    Read,
    /// Read it, and let nobody else write to it meanwhile.
    ReadAlone,
    /// Write to it, also while somebody else uses it if `force`.
    Write {
        /// Do not ask whether it is in use.
        force: bool,
    },
}

impl Access {
    /// Whether nobody else may have it meanwhile.
    fn claims(self) -> bool {
        !matches!(self, Access::Read)
    }
}

/// Opens an image file or block device, or several as a mirror.
pub fn open_device(image: &Path, access: Access) -> Result<Arc<dyn Device>, Failure> {
    open_cached(image, access, Caching::default())
}

fn open_cached(image: &Path, access: Access, caching: Caching) -> Result<Arc<dyn Device>, Failure> {
    let image = Image::parse(image)?;
    if image.is_mirror {
        return crate::mirror::open(&image, access, caching);
    }
    let path = &image.paths[0];
    let device = open_file_cached(path, access, caching)?;
    if let Access::Write { .. } = access {
        crate::mirror::note_alone(path)?;
    }
    Ok(device)
}

/// Opens one image file or block device, which is no copy of a mirror or is opened as one.
pub fn open_file(path: &Path, access: Access) -> Result<Arc<dyn Device>, Failure> {
    open_file_cached(path, access, Caching::default())
}

pub fn open_file_cached(path: &Path, access: Access, caching: Caching) -> Result<Arc<dyn Device>, Failure> {
    let (read_only, force) = match access {
        Access::Read => (true, true),
        Access::ReadAlone => (true, false),
        Access::Write { force } => (false, force),
    };
    if matches!(access, Access::Write { .. }) {
        refuse_mounted(path)?;
    }
    if access.claims() {
        wait_until_closed(path);
    }
    if !force {
        refuse_in_use(path)?;
    }
    // `--force` passes over what the kernel does with a device, never over the lock of another process.
    let (exclusive, beside_kernel) = (access.claims(), force);
    let options = FileOptions { read_only, exclusive, beside_kernel, ..FileOptions::default() };
    let device = FileDevice::open(path, options)?;
    if caching == options.caching {
        return Ok(Arc::new(device));
    }
    // Past the page cache, an image may have larger sectors than its volume was made for.
    let sectors = device.sectors();
    drop(device);
    let direct = FileDevice::open(path, FileOptions { caching, ..options })?;
    if direct.sectors() == sectors {
        return Ok(Arc::new(direct));
    }
    drop(direct);
    Ok(Arc::new(FileDevice::open(path, options)?))
}

/// Waits for a process that served a mount and closes the volume now: umount(8) returns before it has. Whoever else has
/// the image or device is not waited for long.
pub fn wait_until_closed(path: &Path) {
    const PATIENCE: Duration = Duration::from_secs(2);
    let start = Instant::now();
    while is_claimed(path) && start.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether somebody has an image file or block device for themselves who is found nowhere else.
fn is_claimed(path: &Path) -> bool {
    let options = FileOptions { read_only: true, exclusive: true, ..FileOptions::default() };
    match refuse_in_use(path) {
        Ok(()) => matches!(FileDevice::open(path, options), Err(Error::Locked { .. })),
        Err(error) => matches!(error, Error::Protected { reason, .. } if reason == IN_USE),
    }
}

/// Refuses what this program has mounted, also with `--force`: nothing good can come of writing to it beside the mount.
pub fn refuse_mounted(path: &Path) -> Result<(), Failure> {
    let Ok(real) = fs::canonicalize(path) else { return Ok(()) };
    let mounts = platter_mount::mount_points().about("/proc/self/mountinfo")?;
    let holds = |mount: &&platter_mount::MountPoint| {
        Image::parse(Path::new(&mount.source)).is_ok_and(|image| image.paths.contains(&real))
    };
    match mounts.iter().find(holds) {
        Some(mount) => {
            let at = shown(&mount.at);
            Err(Failure::new(shown(path), format!("is mounted at {at}; platter umount {at} ends that")))
        }
        None => Ok(()),
    }
}

/// Opens an image file or block device, and in it the partition that is meant, if it has any.
pub fn open_part(image: &Path, partition: Option<u32>, access: Access) -> Result<Arc<dyn Device>, Failure> {
    open_part_cached(image, partition, access, Caching::default())
}

/// [`open_part`] past the page cache, where that is possible: for who wants to know what the medium holds.
pub fn open_part_direct(
    image: &Path,
    partition: Option<u32>,
    access: Access,
) -> Result<Arc<dyn Device>, Failure> {
    open_part_cached(image, partition, access, Caching::DirectIfPossible)
}

fn open_part_cached(
    image: &Path,
    partition: Option<u32>,
    access: Access,
    caching: Caching,
) -> Result<Arc<dyn Device>, Failure> {
    part_of(open_cached(image, access, caching)?, partition, access)
}

/// The partition that is meant in a device that is open, if it has any.
pub fn part_of(
    device: Arc<dyn Device>,
    partition: Option<u32>,
    access: Access,
) -> Result<Arc<dyn Device>, Failure> {
    let known = |device: &dyn Device| matches!(platter_formats::recognise(device), Ok(Some(_)));
    let part = select_partition(device, partition, &known)?;
    look_at_copies(&*part, access)?;
    Ok(part)
}

/// Copies that are not of one volume are not written to. They can be read, but whoever reads should know.
pub fn look_at_copies(device: &dyn Device, access: Access) -> Result<(), Failure> {
    match (access, refuse_unlike_copies(device)) {
        (Access::Write { force: true }, _) | (_, Ok(())) => {}
        (Access::Write { force: false }, Err(error)) => return Err(error.into()),
        // What cannot be read at all fails soon enough.
        (Access::Read | Access::ReadAlone, Err(error @ Error::Protected { .. })) => {
            Failure::from(error).print()
        }
        (Access::Read | Access::ReadAlone, Err(_)) => {}
    }
    Ok(())
}

/// How volumes are opened here: times that a format keeps as local time are those of this machine.
pub fn open_options(read_only: bool) -> OpenOptions {
    OpenOptions { read_only, local_offset_minutes: local_offset_minutes(), ..OpenOptions::default() }
}

/// Minutes that local time is ahead of UTC now. Windows too applies the present offset to every time on FAT.
pub fn local_offset_minutes() -> i32 {
    chrono::Local::now().offset().local_minus_utc() / 60
}

/// The volumes that a command works on. Each is opened once, however many arguments name it.
pub struct Volumes {
    partition: Option<u32>,
    open: Vec<Open>,
}

struct Open {
    image: PathBuf,
    /// The files or devices it is on.
    paths: Vec<PathBuf>,
    /// Which partition of them it is, if one was named.
    partition: Option<u32>,
    /// The whole of what it is on.
    device: Arc<dyn Device>,
    writable: bool,
    system: Arc<dyn FileSystem>,
}

/// Takes `IMAGE@N` apart, which means partition N of an image. An image that is called so is meant itself.
fn split_partition(image: &Path) -> (&Path, Option<u32>) {
    let bytes = image.as_os_str().as_bytes();
    let split = || {
        let at = bytes.iter().rposition(|&byte| byte == b'@')?;
        let number = std::str::from_utf8(&bytes[at + 1..]).ok()?.parse().ok()?;
        Some((Path::new(OsStr::from_bytes(&bytes[..at])), Some(number)))
    };
    if image.symlink_metadata().is_ok() { (image, None) } else { split().unwrap_or((image, None)) }
}

impl Volumes {
    /// No volume yet.
    pub fn new(partition: Option<u32>) -> Volumes {
        Volumes { partition, open: Vec::new() }
    }

    /// The volume in an image, opened now if it was not before. Whoever needs to write asks first.
    pub fn volume(&mut self, image: &Path, access: Access) -> Result<Arc<dyn FileSystem>, Failure> {
        let (whole, named) = split_partition(image);
        let partition = named.or(self.partition);
        let paths = Image::identity(whole)?;
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
        // Another partition of an image that is open: a second claim would be refused.
        let device = match self.open.iter().find(shares) {
            Some(open) => open.device.clone(),
            None => open_device(whole, access)?,
        };
        let (whole, device) = (device.clone(), part_of(device, partition, access)?);
        let system = platter_formats::open(device, open_options(!writable)).map_err(|error| match error {
            damage @ VolumeError::Damaged(_) => {
                let hint =
                    "`platter recover` copies out what is left, and `platter check` says what is wrong";
                Failure::new(shown(image), format!("{damage}; {hint}"))
            }
            error => Failure::new(shown(image), error),
        })?;
        let device = system.device();
        if let Some(why) = device.why_read_only().filter(|_| device.end() < device.len()) {
            tell(format_args!("platter: {}: {why}; what lies there cannot be read", shown(image)));
        }
        let (image, system_too) = (image.to_path_buf(), system.clone());
        self.open.push(Open { image, paths, partition, device: whole, writable, system: system_too });
        Ok(system)
    }

    /// Whether a host file is one of the images.
    pub fn contains(&self, path: &Path) -> bool {
        fs::canonicalize(path).is_ok_and(|path| self.open.iter().any(|open| open.paths.contains(&path)))
    }

    /// Makes everything durable and marks the volumes clean. A command that fails calls it too, because what it did
    /// before is worth keeping.
    pub fn close(self) -> Result<(), Failure> {
        let mut outcome = Ok(());
        for open in self.open.into_iter().filter(|open| open.writable) {
            outcome = outcome.and(open.system.unmount().about(shown(&open.image)));
        }
        outcome
    }
}

/// A path on a volume.
#[derive(Clone, Debug)]
pub struct VolumePath {
    /// The image, as the argument names it.
    pub image: PathBuf,
    /// The names from the root on.
    pub names: Vec<Name>,
}

/// What a path argument means.
#[derive(Clone, Debug)]
pub enum Place {
    /// A file of the host.
    Host(PathBuf),
    /// A file on a volume.
    Volume(VolumePath),
}

impl Place {
    /// Tells host paths from paths on a volume, as the help of the whole program describes.
    pub fn parse(argument: &OsStr) -> Result<Place, Failure> {
        let bytes = argument.as_bytes();
        let colon_after = |start: usize| {
            bytes[start..].windows(2).position(|pair| pair == b":/").map(|colon| start + colon)
        };
        let is_host = |colon: usize| Path::new(OsStr::from_bytes(&bytes[..=colon])).is_dir();
        let colon = match colon_after(0) {
            // The first copy of a mirror has an absolute path.
            Some(colon) if bytes[..=colon] == *MIRROR.as_bytes() && !is_host(colon) => colon_after(colon + 1),
            first => first,
        };
        let Some(colon) = colon.filter(|&colon| !is_host(colon)) else {
            return Ok(Place::Host(PathBuf::from(argument)));
        };
        let image = PathBuf::from(OsStr::from_bytes(&bytes[..colon]));
        let mut names = Vec::new();
        for part in bytes[colon + 1..].split(|&byte| byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    names.pop();
                }
                name => names.push(Name::from_bytes(name)),
            }
        }
        Ok(Place::Volume(VolumePath { image, names }))
    }
}

impl VolumePath {
    /// A path on a volume and nothing else.
    pub fn parse(argument: &OsStr) -> Result<VolumePath, Failure> {
        match Place::parse(argument)? {
            Place::Volume(path) => Ok(path),
            Place::Host(path) => Err(Failure::new(shown(&path), "a path on a volume is written IMAGE:/PATH")),
        }
    }

    /// A path on a volume; an image by itself means its root directory.
    pub fn parse_or_root(argument: &OsStr) -> Result<VolumePath, Failure> {
        match Place::parse(argument)? {
            Place::Volume(path) => Ok(path),
            Place::Host(image) => Ok(VolumePath { image, names: Vec::new() }),
        }
    }

    /// The directory it stands in and its last name; `None` for the root.
    pub fn split(&self) -> Option<(VolumePath, Name)> {
        let (last, names) = self.names.split_last()?;
        Some((VolumePath { image: self.image.clone(), names: names.to_vec() }, last.clone()))
    }

    /// The path of an entry of this directory.
    pub fn join(&self, name: &Name) -> VolumePath {
        let mut path = self.clone();
        path.names.push(name.clone());
        path
    }

    /// Finds the node.
    pub fn find(&self, system: &Arc<dyn FileSystem>) -> Result<Held, Failure> {
        self.lookup(system).about(self)
    }

    /// Finds the node, leaving it to the caller what a failure means.
    pub fn lookup(&self, system: &Arc<dyn FileSystem>) -> platter_vfs::Result<Held> {
        self.names.iter().try_fold(Held::root(system), |held, name| held.child(name))
    }
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

/// A node that is given back when this goes away.
pub struct Held {
    /// The volume.
    pub system: Arc<dyn FileSystem>,
    /// The node.
    pub node: Node,
}

impl Held {
    /// The root directory.
    pub fn root(system: &Arc<dyn FileSystem>) -> Held {
        Held { system: system.clone(), node: Node::ROOT }
    }

    /// A node that the volume has just handed out.
    pub fn new(system: &Arc<dyn FileSystem>, node: Node) -> Held {
        Held { system: system.clone(), node }
    }

    /// Which open volume it is on, as a number.
    pub fn volume(&self) -> usize {
        Arc::as_ptr(&self.system).cast::<()>() as usize
    }

    /// Whether two nodes are on the same open volume.
    pub fn same_volume(&self, other: &Held) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.system), Arc::as_ptr(&other.system))
    }

    /// The entry of this name.
    pub fn child(&self, name: &Name) -> platter_vfs::Result<Held> {
        Ok(Held::new(&self.system, self.system.lookup(self.node, name)?))
    }

    /// All entries that can be read, in the volume's order, and why there are no more if that is not their end.
    pub fn entries(&self) -> (Vec<Entry>, platter_vfs::Result<()>) {
        const BATCH: usize = 256;
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let cursor = entries.last().map_or(Cursor::START, |last| last.next);
            let before = entries.len();
            let read = self.system.read_directory(self.node, cursor, BATCH, &mut entries);
            if read.is_err() || entries.len() == before {
                return (entries, read);
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.node != Node::ROOT {
            self.system.forget(self.node, 1);
        }
    }
}

/// The most directories inside each other that are followed. No format's own tools make more, so deeper ones are a
/// loop in a damaged volume.
pub const DEEPEST: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> String {
        match Place::parse(OsStr::new(text)).unwrap() {
            Place::Host(path) => format!("host {}", path.display()),
            Place::Volume(path) => format!("volume {path}"),
        }
    }

    #[test]
    fn a_number_behind_an_at_is_a_partition_unless_a_file_is_called_so() {
        let split = |text: &'static str| {
            let (image, partition) = split_partition(Path::new(text));
            (image.display().to_string(), partition)
        };
        assert_eq!(split("none.img@2"), ("none.img".into(), Some(2)));
        assert_eq!(split("mirror:no,none@12"), ("mirror:no,none".into(), Some(12)));
        for text in ["none.img", "none@", "none@x", "none@-1", "a@2/b"] {
            assert_eq!(split(text), (text.into(), None));
        }
        let called_so = std::env::temp_dir().join(format!("platter-volume-{}@2", std::process::id()));
        fs::write(&called_so, "").unwrap();
        assert_eq!(split_partition(&called_so), (called_so.as_path(), None));
        fs::remove_file(&called_so).unwrap();
    }

    #[test]
    fn a_colon_and_slash_lead_into_a_volume() {
        assert_eq!(parse("disk.img:/a/b"), "volume disk.img:/a/b");
        assert_eq!(parse("/dev/sdz1:/"), "volume /dev/sdz1:/");
        assert_eq!(parse("C:/x"), "volume C:/x");
        assert_eq!(parse("d.img://a/./b/../c/"), "volume d.img:/a/c");
        assert_eq!(parse("d.img:/../../a"), "volume d.img:/a");
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
