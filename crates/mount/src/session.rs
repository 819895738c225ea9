//! From mounting to unmounting.

use crate::bridge::Bridge;
use crate::options::{AccessTimes, Options};
use crate::served::Served;
use fuser::{Config, INodeNo, MountOption, Session, SessionACL};
use platter_vfs::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::OsString;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel, sync_channel};
use std::thread;
use std::time::Duration;

/// The type that a mount has in `/proc/mounts` behind `fuse.`.
const SUBTYPE: &str = "platter";

/// The offset with which the kernel is told that a file's attributes changed and its content did not.
///
/// Source: `struct fuse_notify_inval_inode_out` of Linux, whose content counts from an offset of 0 on.
const ATTRIBUTES_ALONE: i64 = -1;

/// Lists of nodes to be forgotten that wait for the thread that hands them to the kernel.
const PRUNES: usize = 64;

/// What nobody syncs is made durable after so long, as disks' own file systems do.
const SYNC_EVERY: Duration = Duration::from_secs(5);

/// A volume at a mount point.
pub struct Mounted {
    session: Session<Bridge>,
    /// The connection with the kernel.
    device: OwnedFd,
    served: Arc<Served>,
    at: PathBuf,
    /// Ends when no request will come any more.
    ended: Receiver<()>,
}

impl Mounted {
    /// Mounts a volume at a directory. Who is not root needs `fusermount3`. From now on all threads of this process share one pool
    /// of memory ([`platter_device::share_memory`]).
    ///
    /// # Errors
    /// What the kernel or `fusermount3` says.
    pub fn new(served: Arc<Served>, at: &Path) -> io::Result<Mounted> {
        // What is kept of a file comes with one request and goes with another, on any thread.
        platter_device::share_memory();
        let options = &served.options;
        // Who is not root hands the name on in a list of options with commas, in which backslashes protect them.
        let source = match rustix::process::geteuid().is_root() {
            true => options.source.clone(),
            false => options.source.replace('\\', "\\\\").replace(',', "\\,"),
        };
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(source),
            MountOption::CUSTOM(format!("subtype={SUBTYPE}")),
            MountOption::DefaultPermissions,
            if options.read_only { MountOption::RO } else { MountOption::RW },
        ];
        config.mount_options.extend(options.kernel.iter().filter_map(|option| kernel_option(option)));
        // For whoever looks at the table of mounts: the kernel leaves times of reading to who serves.
        if options.access_times == AccessTimes::Never {
            config.mount_options.push(MountOption::NoAtime);
        }
        config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(options.threads);
        config.clone_fd = true;
        let (end, ended) = channel();
        let session = Session::new(Bridge::new(served.clone(), end), at, &config)?;
        let kernel = session.notifier();
        served.on_notice(Box::new(move |node| {
            // It does not ask for permissions after a write that took them away. A file it does not know is none it asks of.
            let _ = kernel.inval_inode(INodeNo(node.0), ATTRIBUTES_ALONE, 0);
        }));
        let device = session.as_fd().try_clone_to_owned()?;
        // A thread of its own: forgetting a file may take the kernel as long as other requests take us.
        let (give, given) = sync_channel(PRUNES);
        // What it has no time for is named again in its turn.
        served.on_prune(Box::new(move |named| drop(give.try_send(named))));
        let connection = device.try_clone()?;
        let kept = Arc::downgrade(&served);
        thread::Builder::new().name("prune".into()).spawn(move || {
            while let Ok(named) = given.recv() {
                if prune(&connection, &named).is_err() {
                    // It is a kernel that does not know of it, or the mount has ended.
                    kept.upgrade().inspect(|served| served.known.turn_off());
                    return;
                }
            }
        })?;
        Ok(Mounted { session, device, served, at: at.to_path_buf(), ended })
    }

    /// Answers requests until it is unmounted by whomever; then makes everything durable and closes the volume.
    ///
    /// # Errors
    /// What closing the volume gives, after which not everything may be durable; what the system says when no thread can be
    /// started.
    pub fn run(self) -> Result<()> {
        let Mounted { session, device, served, at, ended } = self;
        // Never dropped: it would unmount what is at the directory by then, which is not this mount but one below it, or the
        // next one there.
        let session = session.spawn().map(ManuallyDrop::new);
        match &session {
            Ok(_) => {
                // The end of all requests is that of who answers them, who has the other half.
                while ended.recv_timeout(SYNC_EVERY) == Err(RecvTimeoutError::Timeout) {
                    // `mount -o remount,ro` is between others and the kernel, which goes on to pass reads on.
                    let is_read_only = matches!(mount_point(&at), Ok(Some(mount)) if mount.is_read_only);
                    served.accesses.pause(is_read_only);
                    served.sync_changes();
                }
            }
            Err(error) => served.tell(&format!("requests cannot be answered: {error}")),
        }
        match take_away(&device, &at, &served.options.source) {
            Ok(false) => {}
            Ok(true) => served.tell("the mount was taken away: its requests ended before it was unmounted"),
            Err(error) => served.tell(&format!("{} could not be unmounted: {error}", at.display())),
        }
        served.close()
    }
}

/// Takes a mount away whose requests nobody answers any more, if it is still there: programs would meet a dead directory. Returns
/// whether it was.
fn take_away(connection: &OwnedFd, at: &Path, source: &str) -> io::Result<bool> {
    let is_ours = |mount: &MountPoint| mount.source.as_bytes() == source.as_bytes();
    if !mount_point(at)?.as_ref().is_some_and(is_ours) {
        return Ok(false);
    }
    // The next mount of the volume at this place has the same look, and its own process, which answers. One whose connection
    // stands is not asked: nobody would answer.
    let mut asked = [PollFd::new(connection, PollFlags::IN)];
    poll(&mut asked, Some(&Timespec::default()))?;
    let is_cut = asked[0].revents().contains(PollFlags::ERR);
    if is_cut && !matches!(rustix::fs::statfs(at), Err(Errno::NOTCONN)) {
        return Ok(false);
    }
    unmount(at, true).map(|()| true)
}

/// Has the kernel forget nodes that no program uses.
///
/// Source: `fuse_out_header` and `fuse_notify_prune_out` of Linux 6.18, `include/uapi/linux/fuse.h`: a message that answers no request
/// has its kind in the place of an error.
fn prune(device: &OwnedFd, nodes: &[u64]) -> io::Result<()> {
    const PRUNE: u32 = 9;
    let length = 16 + 16 + 8 * nodes.len();
    let mut message = Vec::with_capacity(length);
    message.extend((length as u32).to_ne_bytes());
    message.extend(PRUNE.to_ne_bytes());
    message.extend([0; 8]);
    message.extend((nodes.len() as u32).to_ne_bytes());
    message.extend([0; 12]);
    nodes.iter().for_each(|node| message.extend(node.to_ne_bytes()));
    rustix::io::write(device, &message)?;
    Ok(())
}

fn kernel_option(option: &str) -> Option<MountOption> {
    Some(match option {
        "dev" => MountOption::Dev,
        "nodev" => MountOption::NoDev,
        "suid" => MountOption::Suid,
        "nosuid" => MountOption::NoSuid,
        "exec" => MountOption::Exec,
        "noexec" => MountOption::NoExec,
        "sync" => MountOption::Sync,
        "async" => MountOption::Async,
        "dirsync" => MountOption::DirSync,
        _ => return None,
    })
}

/// Changes what the kernel does with a mount: whether anything may be changed, and what [`Options::kernel`] says. The other
/// options are those of who serves it, and stay. Who is not root may not.
///
/// # Errors
/// [`io::ErrorKind::ResourceBusy`] where files are open for writing, and what the system says.
pub fn remount(at: &Path, options: &Options) -> io::Result<()> {
    let says = |option: &str| options.kernel.iter().any(|known| known == option);
    let flags = [
        (options.read_only, MountFlags::RDONLY),
        (!says("suid"), MountFlags::NOSUID),
        (!says("dev"), MountFlags::NODEV),
        (says("noexec"), MountFlags::NOEXEC),
        (says("sync"), MountFlags::SYNCHRONOUS),
        (says("dirsync"), MountFlags::DIRSYNC),
        (options.access_times == AccessTimes::Never, MountFlags::NOATIME),
    ];
    let set = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).collect();
    Ok(rustix::mount::mount_remount(at, set, "")?)
}

/// Takes a mount away. `lazily`: its name is gone at once, and it ends when the last program has closed its files.
///
/// # Errors
/// [`io::ErrorKind::ResourceBusy`] while programs use it, and what the system says.
pub fn unmount(at: &Path, lazily: bool) -> io::Result<()> {
    let flags = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(at, flags) {
        Err(Errno::PERM) => {
            // Who is not root unmounts with the program that is allowed to.
            let mut command = Command::new("fusermount3");
            command.arg("-u").args(lazily.then_some("-z")).arg("--").arg(at);
            let output = command.stdin(Stdio::null()).output()?;
            match output.status.success() {
                true => Ok(()),
                false => {
                    let text = String::from_utf8_lossy(&output.stderr).trim().to_string();
                    let busy = text.to_lowercase().contains("busy");
                    let kind = if busy { io::ErrorKind::ResourceBusy } else { io::ErrorKind::Other };
                    Err(io::Error::new(kind, text))
                }
            }
        }
        other => Ok(other?),
    }
}

/// A mount of this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPoint {
    /// Where.
    pub at: PathBuf,
    /// What: [`Options::source`](crate::Options::source).
    pub source: OsString,
    /// Whether the kernel lets nothing be changed on it.
    pub is_read_only: bool,
}

/// The mount of this program at a directory, if there is one.
///
/// # Errors
/// What reading the table of mounts gives.
pub fn mount_point(at: &Path) -> io::Result<Option<MountPoint>> {
    // The last one at a place covers those before it.
    Ok(all(&std::fs::read(TABLE)?).into_iter().rfind(|(mount, _)| mount.at == at).and_then(ours))
}

/// All mounts of this program.
///
/// # Errors
/// What reading the table of mounts gives.
pub fn mount_points() -> io::Result<Vec<MountPoint>> {
    Ok(all(&std::fs::read(TABLE)?).into_iter().filter_map(ours).collect())
}

const TABLE: &str = "/proc/self/mountinfo";

fn ours((mount, kind): (MountPoint, Vec<u8>)) -> Option<MountPoint> {
    (kind == format!("fuse.{SUBTYPE}").as_bytes()).then_some(mount)
}

/// All mounts, each with its type.
///
/// Source: proc_pid_mountinfo(5).
fn all(table: &[u8]) -> Vec<(MountPoint, Vec<u8>)> {
    let lines = table.split(|byte| *byte == b'\n');
    let mounts = lines.filter_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let at = OsString::from_vec(plain(fields.get(4)?)).into();
        let behind = fields.iter().position(|field| *field == b"-")?;
        let kind = fields.get(behind + 1)?.to_vec();
        let source = OsString::from_vec(plain(fields.get(behind + 2)?));
        let is_read_only = fields.get(behind + 3)?.split(|byte| *byte == b',').any(|option| option == b"ro");
        Some((MountPoint { at, source, is_read_only }, kind))
    });
    mounts.collect()
}

/// A field without the octal numbers that stand for blanks and the like.
fn plain(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, others @ ..] = rest {
        let octal = match others {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if *first == b'\\' => {
                Some((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'))
            }
            _ => None,
        };
        bytes.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &others[3..] } else { others };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_their_place() {
        let table = b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
            2 1 0:50 / /mnt/a\\040b rw,nosuid shared:1 - fuse.platter /img/disk\\0401.img ro,user_id=0\n\
            3 1 0:51 / /mnt/c rw - fuse.sshfs host rw\n4 1 0:52 / /mnt/c/d rw - fuse.platter x rw\n";
        let mounts: Vec<MountPoint> = all(table).into_iter().filter_map(ours).collect();
        let expected = [("/mnt/a b", "/img/disk 1.img", true), ("/mnt/c/d", "x", false)];
        let expected = expected.map(|(at, source, is_read_only)| MountPoint {
            at: at.into(),
            source: source.into(),
            is_read_only,
        });
        assert_eq!(mounts, expected);
        assert_eq!(all(table).len(), 4);
        assert!(all(b"garbage\n\xFF - \n1 2 3 4 5 - \n").is_empty());
    }
}
