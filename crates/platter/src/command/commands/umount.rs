//! `platter umount`

use crate::command::failure::{About, Failure, Outcome, shown, tell};
use crate::command::mounting::{mounted_at, users};
use clap::Args;
use platter::Source;
use platter_device::{Ending, is_claimed};
use platter_mount::MountPoint;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Unmount what platter mount mounted
///
/// Returns when everything is written and the device is free and may be unplugged. While programs use the mount, it
/// is not unmounted, and the programs are named. An image file that was renamed while it was mounted is not waited for.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Directory that a volume is mounted at
    #[arg(value_name = "DIR")]
    at: PathBuf,
    /// Hide the mount from new programs at once, and end it when the last program has closed its files
    #[arg(short, long)]
    lazy: bool,
}

/// The time after which the command says which device it is waiting for.
const PATIENCE: Duration = Duration::from_secs(1);

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        // The root of a mount whose serving process has ended cannot be accessed, so that `canonicalize` fails.
        let at =
            fs::canonicalize(&self.at).or_else(|_| std::path::absolute(&self.at)).about(shown(&self.at))?;
        let mount = mounted_at(&at).map_err(|failure| match fs::symlink_metadata(&at) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Failure::from_io(shown(&self.at), &error)
            }
            _ => failure,
        })?;
        let mut others = of_source(&mount.source)?;
        others.retain(|other| other.device != mount.device);
        // A mount that begins meanwhile waits for this one, as long as it is being unmounted.
        let paths = Source::whole(&mount.source)?.paths;
        let ending: Vec<Ending> = paths.iter().filter_map(|path| Ending::open(path)).collect();
        ending.iter().for_each(Ending::mark);
        // Syncing the root makes all of the volume durable. A failure does not stop the unmount, but is reported.
        let synced = fs::File::open(&at).and_then(|root| root.sync_all());
        match platter_mount::unmount(&at, self.lazy) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                let users = users::of(&at);
                let by = if users.is_empty() { "a program".into() } else { users.join(", ") };
                return Err(Failure::new(shown(&at), format!("is used by {by}")));
            }
            done => done.about(shown(&at))?,
        }
        match synced {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotConnected | io::ErrorKind::ConnectionAborted) =>
            {
                let at = shown(&at);
                tell(format_args!("platter: {at}: what served it had ended; what was not synced is lost"));
            }
            synced => synced.about(shown(&at))?,
        }
        if !self.lazy {
            wait(&mount, &others)?;
        }
        drop(ending);
        Ok(0)
    }
}

/// Waits until the process that served a mount has closed its devices. It does not while the volume is mounted in
/// another mount namespace too. `others` are the mounts of another volume that had the same name before: a file with
/// that name was mounted, and then renamed.
fn wait(mount: &MountPoint, others: &[MountPoint]) -> Result<(), Failure> {
    let source = &mount.source;
    let is_other = |mount: &MountPoint| others.iter().any(|other| other.device == mount.device);
    let is_mounted = || -> Result<bool, Failure> { Ok(!of_source(source)?.iter().all(is_other)) };
    let start = Instant::now();
    let mut told = false;
    for path in Source::whole(source)?.paths {
        // A device that is mounted is claimed by another mount, and is not waited for: one at another directory
        // (mount(8), "--bind"), or a new one, whose process could claim the device only after the old process had
        // closed it.
        while !is_mounted()? && is_claimed(&path) {
            if start.elapsed() > PATIENCE && !told {
                told = true;
                if platter_mount::is_mounted_elsewhere(mount) {
                    let at = shown(&mount.at);
                    tell(format_args!(
                        "platter: {at}: other processes have it mounted in namespaces of their own"
                    ));
                    return Ok(());
                }
                tell(format_args!("platter: waiting until {} is written and closed", shown(&path)));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(())
}

/// The mounts of a volume with this name.
fn of_source(source: &OsStr) -> Result<Vec<MountPoint>, Failure> {
    let mut mounts = platter_mount::mount_points().about("/proc/self/mountinfo")?;
    mounts.retain(|mount| mount.source == source);
    Ok(mounts)
}
