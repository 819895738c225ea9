//! `platter mount`

use crate::command::failure::{About, Failure, Outcome, shown, tell};
use crate::command::keys::KeyOptions;
use crate::command::mounting::{daemon, log::Logger, remount};
use crate::command::volume::{open_options, open_part, shadow_copy};
use clap::Args;
use platter::bitlocker::{Encrypted, Secret};
use platter::{Access, DeviceOptions, IN_DOUBT, Source, SourceKind, is_unfinished};
use platter_device::{Device, Ending, is_claimed, is_encrypted, is_ending, select_partition};
use platter_mount::{Mounted, Options, Served, refusal};
use platter_vfs::{FileSystem, OpenOptions, is_in_doubt};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Mount options that name the file of a key.
const KEYS: [&str; 3] = ["password_file=", "recovery_key_file=", "key_file="];

/// Mount a volume at a directory, for any program
///
/// Files look as they do on Windows, and owners and permissions are kept where the format has room for them (NTFS and
/// ReFS, as the Windows Subsystem for Linux does it). Data for which fsync(2) has returned survives a power cut and
/// the end of the program that serves the mount; other data is written after 5 seconds at the latest.
///
/// A device that is in use is not mounted, and while it is mounted it cannot be repaired, formatted, or mounted
/// again. A volume that was not closed (FAT, exFAT), that belongs to a hibernated Windows, of which Windows keeps shadow
/// copies, or whose log is not understood (NTFS, ReFS), is mounted for reading, with the reason.
///
/// Options with -o: ro; uid=N, gid=N: owner of files that have none recorded; umask=N, fmask=N, dmask=N: permissions,
/// in octal, that are removed from everything, from files, or from directories without recorded permissions;
/// windows_links, windows_links=C: junctions and other absolute links of Windows lead to what they name on the volume,
/// with a letter only those to this drive;
/// shadow=N: shadow copy N of the volume, for reading, 1 is the oldest; lose_shadow_copies: write to a volume of which Windows keeps shadow copies, which then show something else;
/// allow_other: other users may use it too (as root this is so anyway); ignore_case: files are found under their
/// names in any case; streams_interface=windows: FILE:NAME is the stream or snapshot NAME of FILE;
/// streams_interface=xattr: user.NAME is the stream NAME of a file; threads=N: requests answered
/// at once; sync=commit: each sync of ReFS is a commit that Windows can read, instead of an entry in a log that only
/// Platter reads; tz=UTC, time_offset=N: times on FAT, and on exFAT those without an offset, are UTC, or N minutes ahead of
/// it, instead of local times by TZ or the system's zone; noexec, nosuid, nodev, noatime, sync, dirsync and their opposites; remount with ro, rw or one of
/// these changes the existing mount at DIR, whose other options stay; and partition=N, log=FILE, force as below,
/// password_file=FILE, recovery_key_file=FILE, key_file=FILE for encrypted volumes, for /etc/fstab.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Image file, block device, or mirror
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Directory to mount it at
    #[arg(value_name = "DIR")]
    at: PathBuf,
    /// Mount options, with commas between them
    #[arg(short = 'o', long = "options", value_name = "OPTIONS")]
    options: Vec<String>,
    /// Use this partition instead of the only one with a known file system
    #[arg(long, value_name = "N")]
    partition: Option<u32>,
    /// Stay until it is unmounted, and log to standard error
    #[arg(long)]
    foreground: bool,
    /// Log to this file instead of the system's log
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Write to a volume that was not closed: files that a check would save may be lost. A copy of a mirror whose rebuild
    /// was not completed is mounted for reading
    #[arg(long)]
    force: bool,
    /// Mount nothing, and only look at the arguments: mount(8) passes this on
    #[arg(long, hide = true)]
    fake: bool,
    /// Serve a mount in the background, started by another process of this program
    #[arg(long, hide = true)]
    serve: bool,
    #[arg(skip)]
    keys: KeyOptions,
}

impl Arguments {
    pub(crate) fn run(mut self, keys: KeyOptions) -> Outcome {
        self.keys = keys;
        let options = self.take_options()?;
        if let (image, Some(number)) = Source::split_partition(&self.image) {
            self.partition.get_or_insert(number);
            self.image = image;
        }
        if self.fake {
            return Ok(0);
        }
        if remount::is_asked(&self.options) {
            return remount::remount(&self.at, &options);
        }
        if self.foreground || self.serve {
            self.keys.read()?;
            return self.serve(options);
        }
        let (keys, input) = self.keys.again(self.asked_for().as_ref())?;
        daemon::start(self.again(keys)?, &input)
    }

    /// Parses the mount options. Those that stand for command line arguments are taken out of the list and set.
    fn take_options(&mut self) -> Result<Options, Failure> {
        let mut options =
            Options::of(rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw(), umask());
        let is_remount = remount::is_asked(&self.options);
        for list in &self.options {
            for option in list.split(',') {
                let name = option.split('=').next().unwrap_or_default();
                match option.split_once('=') {
                    _ if is_remount && remount::is_own(name) => {}
                    Some(("partition", number)) => {
                        let wrong = |_| Failure::new("option partition", "expected partition=NUMBER");
                        self.partition = Some(number.parse().map_err(wrong)?);
                    }
                    Some(("log", file)) => self.log = Some(file.into()),
                    Some(("password_file", file)) => self.keys.password_file = Some(file.into()),
                    Some(("recovery_key_file", file)) => self.keys.recovery_key_file = Some(file.into()),
                    Some(("key_file", file)) => self.keys.key_file = Some(file.into()),
                    None if option == "force" => self.force = true,
                    _ => options.take(option).map_err(|why| Failure::new("mount", why))?,
                }
            }
        }
        Ok(options)
    }

    /// Returns the arguments for the background process that serves the mount.
    fn again(&self, keys: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
        let mut arguments: Vec<OsString> = vec!["mount".into(), "--serve".into()];
        for list in &self.options {
            // The keys are options by themselves.
            let is_key = |option: &&str| KEYS.iter().any(|key| option.strip_prefix(key).is_some());
            let rest: Vec<&str> = list.split(',').filter(|option| !is_key(option)).collect();
            if !rest.is_empty() {
                arguments.extend(["-o".into(), rest.join(",").into()]);
            }
        }
        arguments.extend(keys);
        if let Some(number) = self.partition {
            arguments.extend(["--partition".into(), number.to_string().into()]);
        }
        if let Some(file) = &self.log {
            arguments.extend(["--log".into(), file.into()]);
        }
        if self.force {
            arguments.push("--force".into());
        }
        arguments.extend(["--".into(), self.image.clone().into(), self.at.clone().into()]);
        Ok(arguments)
    }

    /// Asks for the key of an encrypted volume, if no key is given: the process that serves the mount has no terminal. What
    /// is wrong with the image, that process says.
    fn asked_for(&self) -> Option<Secret> {
        let (image, named) = Source::split_partition(&self.image);
        let device = platter::open_whole(&Source::whole(&image).ok()?, &DeviceOptions::default()).ok()?;
        let is_meant = |device: &dyn Device| is_encrypted(device).unwrap_or(false);
        let device = select_partition(device, self.partition.or(named), &is_meant).ok()?;
        let encrypted = Encrypted::look(&*device).ok()??;
        self.keys.ask_for(&encrypted, device.name())
    }

    fn serve(self, mut options: Options) -> Outcome {
        if self.serve {
            daemon::detach();
        }
        daemon::allow_large_files();
        let at = fs::canonicalize(&self.at).about(shown(&self.at))?;
        if !fs::metadata(&at).about(shown(&at))?.is_dir() {
            return Err(Failure::new(shown(&at), "is not a directory"));
        }
        let log = match &self.log {
            Some(file) => Logger::file(file)?,
            None => Logger::standard_error(),
        };
        if options.source.is_empty() {
            options.source = source(&self.image)?;
        }
        if let Some(links) = &mut options.windows_links {
            let at = at.as_os_str().as_bytes();
            links.at = at.strip_suffix(b"/").unwrap_or(at).to_vec();
        }
        let paths = Source::whole(Source::split_partition(&self.image).0)?.paths;
        wait_for_unmount(&at, &options.source, &paths)?;
        wait_for_close(&paths);
        let system = self.open(&mut options)?;
        let ending: Arc<Vec<Ending>> = Arc::new(paths.iter().filter_map(|path| Ending::open(path)).collect());
        let name = options.source.clone();
        let reads = options.read_only;
        let logger = log.clone();
        let served = Arc::new(Served::new(system, options, Arc::new(move |line| logger.line(line))));
        let mounted = Mounted::new(served.clone(), &at).inspect_err(|_| {
            // The mount failed after the volume was opened: closing it keeps it from looking as if it had been lost.
            if !reads {
                let _ = served.system().unmount();
            }
        });
        let mut mounted = mounted.map_err(|error| cannot_mount(&at, &error))?;
        let ends = ending.clone();
        mounted.at_end(move || ends.iter().for_each(Ending::mark));
        daemon::end_on_signals(mounted.mounts(), Arc::downgrade(&served), log.clone());
        // What the mount itself has is the last one, so that the copies of a mirror are closed when it ends.
        drop(served);
        if self.serve {
            daemon::ready(&log, self.log.is_none())?;
        }
        log.line(&format!(
            "{name} is mounted at {}{}",
            at.display(),
            if reads { " for reading" } else { "" }
        ));
        let outcome = mounted.run();
        // Not before the devices are closed.
        drop(ending);
        match outcome {
            Ok(()) => {
                log.line(&format!("{name} is unmounted"));
                Ok(0)
            }
            Err(error) => {
                log.line(&format!("{name} is unmounted, but not all may be written: {error}"));
                Err(Failure::new(name, error))
            }
        }
    }

    /// Opens the volume: for writing, or for reading where there is a reason not to write.
    fn open(&self, options: &mut Options) -> Result<Arc<dyn FileSystem>, Failure> {
        let device = self.device(options)?;
        let device = match options.shadow {
            Some(number) => shadow_copy(device, number).about(shown(&self.image))?,
            None => device,
        };
        // Opened for reading first: the changes that opening for writing makes at once may be what does harm.
        let system =
            platter_formats::open(device.clone(), opened(options, true)).about(shown(&self.image))?;
        if options.read_only {
            return Ok(system);
        }
        if is_in_doubt(&*system).about(shown(&self.image))? && !self.force {
            self.tell_reason(IN_DOUBT);
            options.read_only = true;
            return Ok(system);
        }
        drop(system);
        let system = platter_formats::open(device, opened(options, false)).about(shown(&self.image))?;
        if let Some(why) = refusal(&*system).about(shown(&self.image))? {
            self.tell_reason(&why);
            options.read_only = true;
        }
        Ok(system)
    }

    fn tell_reason(&self, why: &str) {
        tell(format_args!("platter: {}: mounted for reading: {why}", shown(&self.image)));
    }

    /// Opens the device for this process alone, for reading too: a repair by another process would change data while
    /// it is read.
    fn device(&self, options: &mut Options) -> Result<Arc<dyn Device>, Failure> {
        let (image, named) = Source::split_partition(&self.image);
        let image = image.as_path();
        if self.force && !options.read_only && is_unfinished(image) {
            self.tell_reason("it is a copy of a mirror whose rebuild was not completed");
            options.read_only = true;
        }
        let access = if options.read_only { Access::ReadAlone } else { Access::Write { force: false } };
        let partition = self.partition.or(named);
        match open_part(image, partition, access, self.force) {
            // An image on a file system that is mounted for reading, or a disk whose switch is set.
            Err(failure) if access.writes() && cannot_be_written(image) => {
                self.tell_reason(&format!("{failure}"));
                options.read_only = true;
                open_part(image, partition, Access::ReadAlone, self.force)
            }
            opened => opened,
        }
    }
}

/// How to open the volume for a mount with these options.
fn opened(options: &Options, read_only: bool) -> OpenOptions {
    OpenOptions {
        commits_syncs: options.commits_syncs,
        ignores_case: options.ignores_case,
        local_time: options.local_time,
        lose_shadow_copies: options.lose_shadow_copies,
        ..open_options(read_only)
    }
}

/// Whether whoever may write to a file or device cannot, because of what it is on.
fn cannot_be_written(path: &Path) -> bool {
    let opened = fs::File::options().write(true).open(path);
    let is_protected = opened.is_err_and(|error| error.kind() == std::io::ErrorKind::ReadOnlyFilesystem);
    is_protected && fs::File::open(path).is_ok()
}

/// Returns the failure of a mount, which names what failed: the error of the system alone would be said of the directory.
fn cannot_mount(at: &Path, error: &std::io::Error) -> Failure {
    const DEVICE: &str = "/dev/fuse";
    if let Err(why) = fs::File::options().read(true).write(true).open(DEVICE) {
        let module = "FUSE needs it, from the kernel's module fuse, and readable and writable for this user";
        return Failure::new(DEVICE, format!("{}; {module}", Failure::from_io("cannot be opened", &why)));
    }
    // Users other than root mount through this program.
    if !rustix::process::geteuid().is_root() {
        let asked = std::process::Command::new("fusermount3").arg("--version").output();
        let why = match asked {
            Err(why) => Some(Failure::from_io("cannot be run", &why).to_string()),
            Ok(asked) if !asked.status.success() => Some(format!("ended with {}", asked.status)),
            Ok(_) => None,
        };
        if let Some(why) = why {
            let package = "users other than root mount through it; it is in the package fuse3";
            return Failure::new("fusermount3", format!("{why}; {package}"));
        }
    }
    Failure::from_io(shown(at), error)
}

/// Waits while a volume is mounted at the directory already and is being unmounted: `platter umount` makes everything
/// durable before it unmounts, says so by a mark, and the mount can be seen until then. For 2 seconds also without the
/// mark, which comes later if both commands were started together.
fn wait_for_unmount(at: &Path, source: &str, paths: &[PathBuf]) -> Result<(), Failure> {
    const PATIENCE: Duration = Duration::from_secs(2);
    let start = Instant::now();
    while platter_mount::mount_point(at).about(shown(at))?.is_some_and(|mount| mount.source == source)
        && (start.elapsed() < PATIENCE || paths.iter().any(|path| is_ending(path)))
    {
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Waits while a process that says that it is about to close the devices still has one of them.
fn wait_for_close(paths: &[PathBuf]) {
    const PATIENCE: Duration = Duration::from_secs(1);
    let start = Instant::now();
    let mut told = false;
    while let Some(path) = paths.iter().find(|path| is_ending(path) && is_claimed(path)) {
        if start.elapsed() > PATIENCE && !told {
            told = true;
            tell(format_args!("platter: waiting until {} is written and closed", shown(path)));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the source of the mount for `/proc/mounts`: absolute paths, so that other programs find out what is in
/// use.
fn source(image: &Path) -> Result<String, Failure> {
    let parsed = Source::whole(Source::split_partition(image).0)?;
    let mut name = Vec::new();
    for path in &parsed.paths {
        if !name.is_empty() {
            name.push(b',');
        }
        // A copy of a mirror may be missing.
        let path = fs::canonicalize(path).or_else(|_| std::path::absolute(path)).about(shown(path))?;
        name.extend(path.into_os_string().into_vec());
    }
    let name = String::from_utf8_lossy(&name).into_owned();
    Ok(match parsed.kind {
        SourceKind::Mirror => format!("{}{name}", Source::MIRROR),
        SourceKind::Dynamic => format!("{}{name}", Source::DYNAMIC),
        SourceKind::Single => name,
    })
}

/// Returns this process's umask: the permissions that its new files lack.
fn umask() -> u32 {
    let now = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(now);
    now.bits()
}
