//! Facts about files and disks that Linux shows to unprivileged processes: mounts, swap, loop devices, hardware.

use crate::host::Hardware;
use rustix::fs::{major, makedev, minor};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The type of the mounted file system that holds a path, for example `ext4`; `None` if it is unknown.
pub fn host_file_system(path: &Path) -> Option<String> {
    let path = fs::canonicalize(path).ok()?;
    // Of several mounts on the same directory, the last one is visible.
    let mounts = Kernel::this().mounts();
    let holds = mounts.into_iter().filter(|mount| path.starts_with(&mount.point));
    holds.max_by_key(|mount| mount.point.components().count()).map(|mount| mount.kind)
}

/// The properties of the disk that a block device is or lies on, or that holds the file system of a path; `None` if
/// there is no single disk.
pub fn hardware(path: &Path) -> Option<Hardware> {
    let metadata = fs::metadata(path).ok()?;
    let number = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    let disk = Kernel::this().disk(number)?;
    let read = |name: &str| Some(fs::read_to_string(disk.join(name)).ok()?.trim().to_string());
    let known = |name: &str| read(name).filter(|value| !value.is_empty());
    Some(Hardware {
        model: known("device/model"),
        rotational: read("queue/rotational").map(|value| value == "1"),
        // NVMe drives have `firmware_rev`, SCSI and SATA drives have `rev`.
        firmware: known("device/firmware_rev").or_else(|| known("device/rev")),
        write_cache: None,
    })
}

/// The directory with the kernel's `proc` and `sys` trees: `/`, or one that a test made.
pub(super) struct Kernel {
    root: PathBuf,
}

/// One mount.
pub(super) struct Mount {
    /// The device number; for some file systems it is not that of a disk.
    pub device: u64,
    /// The directory on which it is mounted.
    pub point: PathBuf,
    /// The file system's type.
    pub kind: String,
    /// The source of the mount: the path of a device, where there is one.
    pub source: PathBuf,
}

impl Kernel {
    pub(super) fn this() -> Kernel {
        Kernel { root: PathBuf::from("/") }
    }

    #[cfg(test)]
    pub(super) fn at(root: &Path) -> Kernel {
        Kernel { root: root.to_path_buf() }
    }

    /// The mounts in the order in which they were made, as proc_pid_mountinfo(5) describes them.
    pub(super) fn mounts(&self) -> Vec<Mount> {
        let text = fs::read(self.root.join("proc/self/mountinfo")).unwrap_or_default();
        text.split(|&byte| byte == b'\n').filter_map(mount).collect()
    }

    /// The paths of the swap areas.
    pub(super) fn swaps(&self) -> Vec<PathBuf> {
        let text = fs::read(self.root.join("proc/swaps")).unwrap_or_default();
        let lines = text.split(|&byte| byte == b'\n').skip(1);
        lines.filter_map(|line| fields(line).next()).filter(|path| !path.is_empty()).map(unescaped).collect()
    }

    /// The path of the file behind a loop device, or behind the one that a partition is on.
    pub(super) fn file_behind(&self, device: u64) -> Option<PathBuf> {
        file_behind(&self.disk(device)?)
    }

    /// The loop devices: name, and the path of the file behind each.
    pub(super) fn loops(&self) -> Vec<(String, PathBuf)> {
        let Ok(entries) = fs::read_dir(self.root.join("sys/block")) else { return Vec::new() };
        let mut loops: Vec<(String, PathBuf)> = entries
            .flatten()
            .filter_map(|entry| {
                let file = file_behind(&entry.path())?;
                Some((entry.file_name().into_string().ok()?, file))
            })
            .collect();
        loops.sort();
        loops
    }

    /// The directory in `/sys` that describes a block device.
    pub(super) fn block(&self, device: u64) -> Option<PathBuf> {
        let name = format!("sys/dev/block/{}:{}", major(device), minor(device));
        fs::canonicalize(self.root.join(name)).ok()
    }

    /// The offset in bytes at which a partition begins on its disk; `None` for a block device that is none.
    ///
    /// Facts: `start` counts sectors of 512 bytes, whatever sectors the disk has (Linux, `Documentation/ABI/stable/
    /// sysfs-block`).
    pub(super) fn start(&self, device: u64) -> Option<u64> {
        let text = fs::read_to_string(self.block(device)?.join("start")).ok()?;
        text.trim().parse::<u64>().ok()?.checked_mul(512)
    }

    /// The directory in `/sys` of the disk that a block device is, or is a partition of.
    fn disk(&self, device: u64) -> Option<PathBuf> {
        let block = self.block(device)?;
        if block.join("partition").exists() { Some(block.parent()?.to_path_buf()) } else { Some(block) }
    }
}

/// The path of the file behind the loop device with this directory in `/sys`.
fn file_behind(block: &Path) -> Option<PathBuf> {
    let mut file = fs::read(block.join("loop/backing_file")).ok()?;
    file.pop_if(|last| *last == b'\n');
    Some(PathBuf::from(OsString::from_vec(file)))
}

/// The device number in a file such as `/sys/block/sda/dev`.
pub(super) fn device_number(file: &Path) -> Option<u64> {
    number(fs::read_to_string(file).ok()?.trim())
}

fn number(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t'))
}

/// Parses one line: `36 35 98:0 /root /mount options [tags] - type source superoptions`.
fn mount(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = fields(line).collect();
    let end = fields.iter().position(|field| *field == b"-")?;
    Some(Mount {
        device: number(std::str::from_utf8(fields.get(2)?).ok()?)?,
        point: unescaped(fields.get(4)?),
        kind: String::from_utf8_lossy(fields.get(end + 1)?).into_owned(),
        source: unescaped(fields.get(end + 2)?),
    })
}

/// Decodes a path as the kernel writes it, where space, tab, newline and backslash are a backslash and three octal
/// digits.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = |digit: u8| (b'0'..=b'7').contains(&digit).then(|| u32::from(digit - b'0'));
        rest = after;
        if byte == b'\\'
            && let [a, b, c, tail @ ..] = after
            && let (Some(a), Some(b), Some(c)) = (octal(*a), octal(*b), octal(*c))
        {
            path.push((a << 6 | b << 3 | c) as u8);
            rest = tail;
        } else {
            path.push(byte);
        }
    }
    PathBuf::from(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lines_of_mountinfo() {
        let line = br"36 35 98:0 /mnt1 /mnt\040two rw,noatime master:1 shared:2 - ext3 /dev/r\134oot rw,errors=continue";
        let mount = mount(line).unwrap();
        assert_eq!((major(mount.device), minor(mount.device)), (98, 0));
        assert_eq!((mount.point.to_str(), mount.kind.as_str()), (Some("/mnt two"), "ext3"));
        assert_eq!(mount.source.to_str(), Some(r"/dev/r\oot"));
        for broken in [&b""[..], b"36 35", b"36 35 98:0 / /x rw - ", b"36 35 x:0 / /x rw - ext4 /dev/sda"] {
            assert!(super::mount(broken).is_none());
        }
        assert_eq!(unescaped(br"a\04").to_str(), Some(r"a\04"));
    }

    #[test]
    fn a_partition_begins_where_the_kernel_says() {
        let root = std::env::temp_dir().join(format!("platter-start-{}", std::process::id()));
        let disk = root.join("sys/dev/block");
        fs::create_dir_all(disk.join("8:1")).unwrap();
        fs::create_dir_all(disk.join("8:0")).unwrap();
        fs::write(disk.join("8:1/start"), "2048\n").unwrap();
        let kernel = Kernel::at(&root);
        assert_eq!([makedev(8, 1), makedev(8, 0)].map(|device| kernel.start(device)), [Some(1 << 20), None]);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn this_host_tells_where_a_path_is() {
        assert_eq!(host_file_system(Path::new("/proc/self")).as_deref(), Some("proc"));
        assert!(host_file_system(&std::env::temp_dir()).is_some());
        assert_eq!(host_file_system(Path::new("/no/such/path")), None);
    }
}
