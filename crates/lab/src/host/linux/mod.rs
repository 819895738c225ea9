//! Linux.

mod beneath;
mod running;

pub(crate) use beneath::Beneath;
pub(crate) use running::{Running, shell};

use super::{System, UserAndSystem};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::unistd::{SysconfVar, sysconf};
use std::fs::{File, read_to_string};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Whether caches can be told to forget.
pub(crate) const FORGETS: bool = true;
/// Whether volumes are mounted for programs.
pub(crate) const MOUNTS: bool = true;
/// What commands run through.
pub(crate) const SHELL: &str = "sh";

/// The path of a directory for programs to start in.
pub(crate) fn directory_for_programs(path: &Path) -> io::Result<PathBuf> {
    std::fs::canonicalize(path)
}

/// What the system tells of itself.
pub(crate) fn system() -> System {
    let read = |path: &str| read_to_string(path).unwrap_or_default();
    let after = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.trim_start_matches([' ', '\t', ':', '=']).trim_matches('"').trim().to_owned())
    };
    System {
        host: read("/proc/sys/kernel/hostname").trim().to_owned(),
        machine_id: read("/etc/machine-id"),
        cpu: after(&read("/proc/cpuinfo"), "model name"),
        kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
        os: after(&read("/etc/os-release"), "PRETTY_NAME="),
    }
}

/// Whether this user may do everything.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The size of a memory page in bytes.
pub(crate) fn page_size() -> Option<u64> {
    sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|size| u64::try_from(size).ok())
}

/// The bytes that are free for unprivileged users in the file system that holds a path, and the bytes of its allocation
/// unit.
pub(crate) fn free_space(path: &Path) -> io::Result<(u64, u64)> {
    let space = nix::sys::statvfs::statvfs(path)?;
    let unit = space.fragment_size() as u64;
    Ok((space.blocks_available() as u64 * unit, unit))
}

/// Makes everything durable that was written to the file system that holds a directory.
pub(crate) fn sync_file_system(directory: &Path, _promised: bool) -> io::Result<()> {
    Ok(nix::unistd::syncfs(&File::open(directory)?)?)
}

/// Drops what is cached of a file or block device.
pub(crate) fn forget_cached(file: &File) -> io::Result<()> {
    Ok(posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?)
}

/// Copies inside the kernel, where file systems share clusters; returns how many bytes.
pub(crate) fn copy_range(from: &File, offset: u64, to: &File, at: u64, length: u64) -> io::Result<u64> {
    let (mut offset, mut at) = (offset as i64, at as i64);
    Ok(nix::fcntl::copy_file_range(from, Some(&mut offset), to, Some(&mut at), length as usize)? as u64)
}

/// The number of the file system that holds a path; 0 if it is unknown.
pub(crate) fn file_system_number(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |data| data.dev())
}

/// The bytes that are allocated for a file.
pub(crate) fn allocated(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |data| data.blocks() * 512)
}

/// The CPU time of this process so far.
pub(crate) fn cpu() -> UserAndSystem {
    cpu_of(UsageWho::RUSAGE_SELF)
}

/// The CPU time so far of the processes that this one started and waited for, and of those that they waited for.
pub(crate) fn cpu_of_children() -> UserAndSystem {
    cpu_of(UsageWho::RUSAGE_CHILDREN)
}

fn cpu_of(who: UsageWho) -> UserAndSystem {
    let usage = getrusage(who).expect("a process can ask for its own usage");
    let duration = |time: TimeVal| Duration::from_micros(time.num_microseconds().max(0) as u64);
    (duration(usage.user_time()), duration(usage.system_time()))
}

/// The most bytes of address space that this process may have.
pub(crate) fn memory_limit_of_process() -> u64 {
    getrlimit(Resource::RLIMIT_AS).map_or(u64::MAX, |(soft, _)| soft)
}

/// Mounts a file system of the kernel.
pub(crate) fn mount(block: &Path, at: &Path, kind: &str, options: &str) -> io::Result<()> {
    Ok(nix::mount::mount(Some(block), at, Some(kind), nix::mount::MsFlags::empty(), Some(options))?)
}

/// Unmounts a file system.
pub(crate) fn unmount(at: &Path) -> io::Result<()> {
    Ok(nix::mount::umount(at)?)
}

/// Makes a directory that only this user can enter.
pub(crate) fn make_private_directory(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).create(path)
}

/// Has a command begin a process group of its own, so that it can be ended with all that it started.
pub(crate) fn own_group(command: &mut Command) {
    command.process_group(0);
}

/// Whether a path names nothing and lies where the system keeps its devices: a file made there would be one in memory,
/// and not on the device that was meant. `/dev/shm` is another file system, which is for files.
pub(crate) fn is_missing_device(path: &Path) -> bool {
    use std::io::ErrorKind;
    let is_missing =
        |error: &io::Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    if !std::fs::symlink_metadata(path).is_err_and(|error| is_missing(&error)) {
        return false;
    }
    let devices = Path::new("/dev");
    let file_system = |path: &Path| std::fs::metadata(path).map(|data| data.dev());
    let parent = path.parent().unwrap_or(path);
    let Ok(real) = std::fs::canonicalize(parent) else { return path.starts_with(devices) };
    real.starts_with(devices) && file_system(&real).ok() == file_system(devices).ok()
}

/// The file with the counters of a block device, or of the one that holds a file or directory; `None` where the kernel
/// counts nothing (a file system in memory, over a network, or of several devices).
pub(crate) fn statistics_of_block(path: &Path) -> Option<PathBuf> {
    let data = std::fs::metadata(path).ok()?;
    let number = if data.file_type().is_block_device() { data.rdev() } else { data.dev() };
    let (major, minor) = (nix::sys::stat::major(number), nix::sys::stat::minor(number));
    let statistics = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
    statistics.exists().then_some(statistics)
}
