//! A mount, from mounting to unmounting, and the mounts of this machine that Platter serves.

use crate::bridge::Bridge;
use crate::options::{AccessTimes, Options};
use crate::served::Served;
use crate::spelling::NameIn;
use fuser::{Config, INodeNo, MountOption, Notifier, Session, SessionACL};
use platter_vfs::{Node, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::{OsStr, OsString};
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

/// The offset that tells the kernel that its cached attributes of a file are out of date, but its cached content is
/// not.
///
/// Source: `struct fuse_notify_inval_inode_out` of Linux, which concerns content only if the offset is 0 or more.
const ATTRIBUTES_ALONE: i64 = -1;

/// The most lists of nodes that can wait for the thread that asks the kernel to forget the nodes.
const PRUNES: usize = 64;

/// The interval at which changes that no program syncs are made durable, as file systems in the kernel do.
const SYNC_EVERY: Duration = Duration::from_secs(5);

/// A volume at a mount point.
pub struct Mounted {
    session: Session<Bridge>,
    /// The connection to the kernel: an open `/dev/fuse`.
    device: OwnedFd,
    served: Arc<Served>,
    at: PathBuf,
    mounts: Mounts,
    /// A channel that closes when no more requests will come. Nothing is sent through it.
    ended: Receiver<()>,
    /// What to do as soon as no more requests will come.
    at_end: Option<Box<dyn FnOnce() + Send>>,
}

impl Mounted {
    /// Mounts a volume at a directory. Users other than root need `fusermount3` for this. From now on all threads of
    /// this process share one pool of memory ([`platter_device::share_memory`]).
    ///
    /// # Errors
    /// The errors of the kernel or of `fusermount3`.
    pub fn new(served: Arc<Served>, at: &Path) -> io::Result<Mounted> {
        // Memory for a file that the kernel has in its cache is allocated by one request and freed by another, which
        // any thread may answer.
        platter_device::share_memory();
        let options = &served.options;
        // For users other than root, `fusermount3` gets the source in a list of options that commas separate; there a
        // backslash has to precede each comma and backslash of the source.
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
        // This option is only shown in the table of mounts: the kernel leaves access times to the process that serves
        // the mount.
        if options.access_times == AccessTimes::Never {
            config.mount_options.push(MountOption::NoAtime);
        }
        config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(options.threads);
        config.clone_fd = true;
        let (end, ended) = channel();
        let session = Session::new(Bridge::new(served.clone(), end), at, &config)?;
        let is_ours = |mount: &MountPoint| mount.source.as_bytes() == options.source.as_bytes();
        let device = mount_point(at)?.filter(is_ours).map(|mount| mount.device);
        let kernel = session.notifier();
        served.on_notice(Box::new(move |node| {
            // After a write that clears set-user-id, the kernel does not ask for the permissions again by itself. The
            // call fails if the file is not in the kernel's cache; then nothing is out of date.
            let _ = kernel.inval_inode(INodeNo(node.0), ATTRIBUTES_ALONE, 0);
        }));
        let kernel = session.notifier();
        served.on_hand_over(Box::new(move |node, range| {
            // The kernel writes what has changed in pages that it is told to drop.
            let length = i64::try_from(range.end - range.start).unwrap_or(0);
            let _ = kernel.inval_inode(INodeNo(node.0), range.start as i64, length);
        }));
        let mounts = Mounts { device };
        let device = session.as_fd().try_clone_to_owned()?;
        // A thread of its own asks the kernel to forget files, since the kernel may have to wait for other requests
        // before it can forget a file.
        let (give, given) = sync_channel(PRUNES);
        // If too many lists wait already, this one is lost; its nodes are chosen again later.
        served.on_prune(Box::new(move |named| drop(give.try_send(named))));
        if served.has_spellings {
            let names = Names { mounts: mounts.clone(), connection: device.try_clone()? };
            watch_spellings(&served, session.notifier(), names)?;
        }
        let connection = device.try_clone()?;
        let kept = Arc::downgrade(&served);
        thread::Builder::new().name("prune".into()).spawn(move || {
            while let Ok(named) = given.recv() {
                if prune(&connection, &named).is_err() {
                    // Either the kernel does not support these messages, or the mount has ended.
                    kept.upgrade().inspect(|served| served.known.turn_off());
                    return;
                }
            }
        })?;
        Ok(Mounted { session, device, served, at: at.to_path_buf(), mounts, ended, at_end: None })
    }

    /// Sets what is done as soon as no more requests will come, before the volume is closed.
    pub fn at_end(&mut self, act: impl FnOnce() + Send + 'static) {
        self.at_end = Some(Box::new(act));
    }

    /// The mounts of this volume.
    pub fn mounts(&self) -> Mounts {
        self.mounts.clone()
    }

    /// Answers requests until this process or another one unmounts the volume; then makes all changes durable and
    /// closes the volume. If the threads that answer requests cannot be started, unmounts and closes the volume at
    /// once.
    ///
    /// # Errors
    /// The errors of closing the volume. After an error some changes may not be durable.
    pub fn run(self) -> Result<()> {
        let Mounted { session, device, served, at, mounts, ended, at_end } = self;
        // The session is never dropped, since this would unmount whatever is at the directory by then. This mount may
        // be gone already, and the one at the directory may be a mount below it or a later one.
        let session = session.spawn().map(ManuallyDrop::new);
        match &session {
            Ok(_) => {
                // The bridge owns the sender of this channel, and is dropped after the last request.
                while ended.recv_timeout(SYNC_EVERY) == Err(RecvTimeoutError::Timeout) {
                    // After `mount -o remount,ro`, of which the kernel sends no request, reads still come, but must not
                    // change access times.
                    let is_read_only = |found: Vec<MountPoint>| found.iter().any(|mount| mount.is_read_only);
                    served.accesses.pause(mounts.find().is_ok_and(is_read_only));
                    served.sync_changes();
                }
            }
            Err(error) => served.tell(&format!("requests cannot be answered: {error}")),
        }
        if let Some(act) = at_end {
            act();
        }
        // A sync whose program was answered may still hold the volume.
        served.syncs.end();
        match take_away(&device, &at, &served.options.source) {
            Ok(false) => {}
            Ok(true) => served.tell("the mount was taken away: its requests ended before it was unmounted"),
            Err(error) => served.tell(&format!("{} could not be unmounted: {error}", at.display())),
        }
        served.close()
    }
}

/// Unmounts a mount after its requests have ended, if it is still there: otherwise every access to its directory would
/// fail. Returns whether the mount was still there.
fn take_away(connection: &OwnedFd, at: &Path, source: &str) -> io::Result<bool> {
    let is_ours = |mount: &MountPoint| mount.source.as_bytes() == source.as_bytes();
    if !mount_point(at)?.as_ref().is_some_and(is_ours) {
        return Ok(false);
    }
    // A later mount of the same volume at this directory looks the same in the table of mounts, but must stay. Its
    // process answers statfs(2), whereas a mount with a cut connection gives `ENOTCONN`. If the connection of this
    // mount is not cut, statfs(2) is not called: the kernel would pass it on to this process, which answers no requests
    // any more.
    let mut asked = [PollFd::new(connection, PollFlags::IN)];
    poll(&mut asked, Some(&Timespec::default()))?;
    let is_cut = asked[0].revents().contains(PollFlags::ERR);
    if is_cut && !matches!(rustix::fs::statfs(at), Err(Errno::NOTCONN)) {
        return Ok(false);
    }
    unmount(at, true).map(|()| true)
}

/// What is needed to tell the kernel that the names that it knows are out of date.
struct Names {
    mounts: Mounts,
    connection: OwnedFd,
}

impl Names {
    /// Tells the kernel that all names are out of date, because this file lost one of them. If something is mounted in
    /// the mount, the kernel would unmount that when it next comes by, so only the names of the file are dropped then,
    /// but for those that programs use.
    fn are_old(&self, node: Node) {
        let has_mounts_inside = || {
            let own = self.mounts.find().unwrap_or_default();
            let is_inside = |at: &Path| own.iter().any(|mount| at != mount.at && at.starts_with(&mount.at));
            let table = std::fs::read(TABLE).unwrap_or_default();
            all(&table).iter().any(|(mount, _)| is_inside(&mount.at))
        };
        if has_mounts_inside() || old_names(&self.connection).is_err() {
            let _ = prune(&self.connection, &[node.0]);
        }
    }
}

/// Lets the kernel hear what it cannot know of names that match whatever their case.
fn watch_spellings(served: &Arc<Served>, kernel: Notifier, names: Names) -> io::Result<()> {
    if old_names(&names.connection).is_ok() {
        served.on_all_old(Box::new(move |node| names.are_old(node)));
    }
    let (give, given) = channel::<NameIn>();
    served.on_drop_name(Box::new(move |name| drop(give.send(name))));
    // A thread of its own drops spellings: the kernel does so when whoever looked one up has left the directory.
    let kept = Arc::downgrade(served);
    thread::Builder::new().name("spellings".into()).spawn(move || {
        while let Ok(name) = given.recv() {
            let _ = kernel.inval_entry(INodeNo(name.0), OsStr::from_bytes(&name.1));
            let Some(served) = kept.upgrade() else { return };
            served.spellings.is_dropped(&name);
        }
    })?;
    Ok(())
}

/// Tells the kernel to ask for each name anew before it uses the name again.
///
/// Source: `fuse_out_header` and `FUSE_NOTIFY_INC_EPOCH` of Linux 6.16, `include/uapi/linux/fuse.h`.
fn old_names(device: &OwnedFd) -> io::Result<()> {
    const NEW_EPOCH: u32 = 8;
    let mut message = [0; 16];
    message[..4].copy_from_slice(&16u32.to_ne_bytes());
    message[4..8].copy_from_slice(&NEW_EPOCH.to_ne_bytes());
    rustix::io::write(device, &message)?;
    Ok(())
}

/// Asks the kernel to forget those of the nodes that no program uses.
///
/// Source: `fuse_out_header` and `fuse_notify_prune_out` of Linux 6.18, `include/uapi/linux/fuse.h`: a message that
/// answers no request has its kind in the field for the error.
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

/// Changes the options that the kernel itself applies to a mount: whether it is read-only, `noatime`, and those of
/// [`Options::kernel`]. The other options belong to the process that serves the mount, and stay. Only root may do this.
///
/// # Errors
/// [`io::ErrorKind::ResourceBusy`] if the mount is to be read-only but files are open for writing, and the other errors
/// of the system.
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

/// Unmounts the volume at a directory. If `lazily` is set, the mount is detached from the directory at once, and ends
/// when the last program has closed its files.
///
/// # Errors
/// [`io::ErrorKind::ResourceBusy`] if programs use the mount, and the other errors of the system or `fusermount3`.
pub fn unmount(at: &Path, lazily: bool) -> io::Result<()> {
    let flags = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(at, flags) {
        Err(Errno::PERM) => {
            // Users other than root unmount with `fusermount3`, which runs as root.
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

/// A mount that Platter serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPoint {
    /// The directory at which the volume is mounted.
    pub at: PathBuf,
    /// The source of the mount: [`Options::source`](crate::Options::source).
    pub source: OsString,
    /// Whether the kernel refuses all changes on the mount.
    pub is_read_only: bool,
    /// The number of the mounted file system, as `MAJOR:MINOR`, which all mounts of it share.
    pub device: String,
}

/// The mounts of one volume that a process serves: the one that it made, those to which mount(8) bound or moved it, and
/// those at other names of the directory.
#[derive(Clone, Debug)]
pub struct Mounts {
    /// The number of the mounted file system; `None` if the mount was gone again at once.
    device: Option<String>,
}

impl Mounts {
    /// Returns the mounts that there are now in this mount namespace.
    ///
    /// # Errors
    /// The errors of reading the table of mounts.
    pub fn find(&self) -> io::Result<Vec<MountPoint>> {
        let mounts = mount_points()?.into_iter();
        Ok(mounts.filter(|mount| Some(&mount.device) == self.device.as_ref()).collect())
    }

    /// Whether the directory of one of these mounts leads to it. If not, another file system is mounted over it, or
    /// over a directory above it, and unmounting the directory would end that one.
    pub fn is_on_top(&self, mount: &MountPoint) -> bool {
        let flags = AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
        rustix::fs::statx(CWD, &mount.at, flags, StatxFlags::TYPE)
            .is_ok_and(|stat| format!("{}:{}", stat.stx_dev_major, stat.stx_dev_minor) == mount.device)
    }
}

/// Returns the mount at a directory, if there is one and Platter serves it.
///
/// # Errors
/// The errors of reading the table of mounts.
pub fn mount_point(at: &Path) -> io::Result<Option<MountPoint>> {
    // The last mount at a directory hides the earlier ones there.
    Ok(all(&std::fs::read(TABLE)?).into_iter().rfind(|(mount, _)| mount.at == at).and_then(ours))
}

/// Returns all mounts that Platter serves.
///
/// # Errors
/// The errors of reading the table of mounts.
pub fn mount_points() -> io::Result<Vec<MountPoint>> {
    Ok(all(&std::fs::read(TABLE)?).into_iter().filter_map(ours).collect())
}

/// Whether the file system of a mount that was unmounted here is mounted in the mount namespace of another process, as
/// far as this user may see them: then the serving process goes on.
pub fn is_mounted_elsewhere(mount: &MountPoint) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    processes.flatten().any(|process| {
        // This fails for what is no process, and for processes of others.
        let Ok(table) = std::fs::read(process.path().join("mountinfo")) else { return false };
        all(&table).into_iter().filter_map(ours).any(|other| other.device == mount.device)
    })
}

const TABLE: &str = "/proc/self/mountinfo";

fn ours((mount, kind): (MountPoint, Vec<u8>)) -> Option<MountPoint> {
    (kind == format!("fuse.{SUBTYPE}").as_bytes()).then_some(mount)
}

/// Returns all mounts in a table of mounts, of any file system, each with the type of its file system.
///
/// Source: proc_pid_mountinfo(5).
fn all(table: &[u8]) -> Vec<(MountPoint, Vec<u8>)> {
    let lines = table.split(|byte| *byte == b'\n');
    let mounts = lines.filter_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let device = String::from_utf8_lossy(fields.get(2)?).into_owned();
        let at = OsString::from_vec(plain(fields.get(4)?)).into();
        let behind = fields.iter().position(|field| *field == b"-")?;
        let kind = fields.get(behind + 1)?.to_vec();
        let source = OsString::from_vec(plain(fields.get(behind + 2)?));
        let is_read_only = fields.get(behind + 3)?.split(|byte| *byte == b',').any(|option| option == b"ro");
        Some((MountPoint { at, source, is_read_only, device }, kind))
    });
    mounts.collect()
}

/// Returns a field with each octal escape, such as `\040` for a space, replaced by the byte that it stands for.
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
        let expected = [("/mnt/a b", "/img/disk 1.img", true, "0:50"), ("/mnt/c/d", "x", false, "0:52")];
        let expected = expected.map(|(at, source, is_read_only, device)| MountPoint {
            at: at.into(),
            source: source.into(),
            is_read_only,
            device: device.into(),
        });
        assert_eq!(mounts, expected);
        assert_eq!(all(table).len(), 4);
        assert!(all(b"garbage\n\xFF - \n1 2 3 4 5 - \n").is_empty());
    }
}
