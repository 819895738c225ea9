//! What lies beneath a path, and how the kernel serves it, as far as Linux shows that to an ordinary user: memory in
//! place of a disk, properties of the file system that holds an image, caches, and the way of I/O.

use platter_device::{Device, FileDevice, FileOptions};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The root of `proc` and `sys`: `/`, or a directory that a test made.
pub(crate) struct Beneath {
    root: PathBuf,
}

/// The mount that holds a path.
struct Mount {
    point: PathBuf,
    kind: String,
    /// The options of the mount and of the file system, joined by commas.
    options: String,
}

/// The most devices that lie upon each other: a loop device over a file on a loop device.
const MOST_LAYERS: u32 = 8;

impl Beneath {
    /// This machine.
    pub(crate) fn this() -> Beneath {
        Beneath { root: PathBuf::from("/") }
    }

    /// The name of the memory that a file, directory or block device is held in, such as `tmpfs` or `zram0`; `None` if
    /// it is on a disk or nothing is known.
    pub(crate) fn memory(&self, path: &Path) -> Option<String> {
        let metadata = fs::metadata(path).ok()?;
        match metadata.file_type().is_block_device() {
            true => self.memory_of_block(metadata.rdev(), MOST_LAYERS),
            false => self.memory_of_file(path, metadata.dev(), MOST_LAYERS),
        }
    }

    fn memory_of_file(&self, path: &Path, device: u64, layers: u32) -> Option<String> {
        match self.mount(path)?.kind {
            kind if ["tmpfs", "ramfs", "devtmpfs"].contains(&kind.as_str()) => Some(kind),
            _ => self.memory_of_block(device, layers),
        }
    }

    fn memory_of_block(&self, number: u64, layers: u32) -> Option<String> {
        let layers = layers.checked_sub(1)?;
        let disk = self.disk(number)?;
        let name = disk.file_name()?.to_str()?;
        let is_numbered = |kind: &str| {
            name.strip_prefix(kind)
                .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|letter| letter.is_ascii_digit()))
        };
        if ["zram", "ram", "nullb"].into_iter().any(is_numbered) {
            return Some(name.to_owned());
        }
        let mut file = fs::read(disk.join("loop/backing_file")).ok()?;
        file.pop_if(|last| *last == b'\n');
        let file = PathBuf::from(OsString::from_vec(file));
        let device = fs::metadata(&file).map_or(0, |data| data.dev());
        self.memory_of_file(&file, device, layers).map(|memory| format!("{name} over {memory}"))
    }

    /// The directory in `/sys` of the disk that a block device is, or is a partition of.
    fn disk(&self, number: u64) -> Option<PathBuf> {
        let (major, minor) = (nix::sys::stat::major(number), nix::sys::stat::minor(number));
        let block = fs::canonicalize(self.root.join(format!("sys/dev/block/{major}:{minor}"))).ok()?;
        if block.join("partition").exists() { Some(block.parent()?.to_path_buf()) } else { Some(block) }
    }

    /// What the file system that holds an image does with its data on the way, in words: compression, or writing to new
    /// places; `None` if nothing is known of that.
    pub(crate) fn ways_of_host(&self, path: &Path) -> Option<String> {
        let mount = self.mount(path)?;
        let option = |name: &str| {
            mount.options.split(',').find_map(|option| {
                let (key, value) = option.split_once('=').unwrap_or((option, ""));
                (key == name).then_some(value)
            })
        };
        let mut ways: Vec<String> = Vec::new();
        // btrfs(5): `compress` and `compress-force` name the algorithm, `nodatacow` writes in place. f2fs has
        // `compress_algorithm`. ZFS, bcachefs and NILFS write to new places always; what ZFS and bcachefs compress is a
        // property that no mount option shows.
        let names = ["compress", "compress-force", "compress_algorithm", "compression"];
        if let Some(how) = names.into_iter().find_map(option).filter(|how| !["no", "none"].contains(how)) {
            ways.push(format!("compresses data{}{how}", if how.is_empty() { "" } else { ", " }));
        }
        let is_new = match mount.kind.as_str() {
            "btrfs" => option("nodatacow").is_none(),
            kind => ["zfs", "bcachefs", "nilfs2"].contains(&kind),
        };
        if is_new {
            ways.push("writes to new places (copy on write)".into());
        }
        if mount.kind == "overlay" {
            ways.push("lies over the file system of a container".into());
        }
        (!ways.is_empty()).then(|| ways.join("; "))
    }

    /// The write cache of the disk that a path is or lies on: `write back` (volatile until a flush) or `write through`.
    pub(crate) fn write_cache(&self, path: &Path) -> Option<String> {
        let metadata = fs::metadata(path).ok()?;
        let number = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
        let text = fs::read_to_string(self.disk(number)?.join("queue/write_cache")).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// There are none: see [`Beneath::governor`].
    pub(crate) fn power_plan(&self) -> Option<String> {
        None
    }

    /// There is none.
    pub(crate) fn real_time_protection(&self) -> Option<String> {
        None
    }

    /// The governors of the processors' frequency; `None` where the kernel does not set it.
    pub(crate) fn governor(&self) -> Option<String> {
        let entries = fs::read_dir(self.root.join("sys/devices/system/cpu")).ok()?;
        let of = |entry: fs::DirEntry| {
            let text = fs::read_to_string(entry.path().join("cpufreq/scaling_governor")).ok()?;
            Some(text.trim().to_owned())
        };
        let mut all: Vec<String> = entries.flatten().filter_map(of).collect();
        all.sort();
        all.dedup();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// How this process does its I/O: `io_uring`, or `threads` and the reason. The reason is that of the kernel's
    /// setting (Documentation/admin-guide/sysctl/kernel.rst), or else one of the others that there can be.
    pub(crate) fn way_of_io(&self) -> String {
        if has_ring() {
            return "io_uring".into();
        }
        let read = |path: &str| fs::read_to_string(self.root.join(path)).unwrap_or_default();
        let setting = read("proc/sys/kernel/io_uring_disabled");
        let is_filtered =
            read("proc/self/status").lines().any(|line| line.split_whitespace().eq(["Seccomp:", "2"]));
        let why = match setting.trim() {
            "2" => "kernel.io_uring_disabled is 2",
            "1" if !is_filtered => "kernel.io_uring_disabled is 1, and this process is not privileged",
            _ if is_filtered => "a filter of system calls (seccomp), as containers have one, forbids it",
            _ => "the kernel has none or refuses it",
        };
        format!("threads in place of io_uring: {why}")
    }

    /// The mount that holds a path: of several on one directory, the last is visible (proc_pid_mountinfo(5)).
    fn mount(&self, path: &Path) -> Option<Mount> {
        let path = fs::canonicalize(path).ok()?;
        let text = fs::read(self.root.join("proc/self/mountinfo")).ok()?;
        let mounts = text.split(|&byte| byte == b'\n').filter_map(mount);
        mounts
            .filter(|mount| path.starts_with(&mount.point))
            .max_by_key(|mount| mount.point.components().count())
    }
}

/// Whether the queue of a file has a ring of io_uring.
fn has_ring() -> bool {
    let is_ring = |entry: fs::DirEntry| {
        fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == "anon_inode:[io_uring]")
    };
    let has = || fs::read_dir("/proc/self/fd").is_ok_and(|entries| entries.flatten().any(is_ring));
    let opened = FileDevice::temporary(&std::env::temp_dir(), 4096, FileOptions::default());
    opened.is_ok_and(|file| file.queue(1).is_ok_and(|_queue| has()))
}

/// Parses a line of mountinfo: `36 35 98:0 /root /mount options [tags] - type source superoptions`.
fn mount(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let end = fields.iter().position(|field| *field == b"-")?;
    let text = |index: usize| Some(String::from_utf8_lossy(fields.get(index)?).into_owned());
    Some(Mount {
        point: PathBuf::from(OsString::from_vec(unescaped(fields.get(4)?))),
        kind: text(end + 1)?,
        options: format!("{},{}", text(5)?, text(end + 3).unwrap_or_default()),
    })
}

/// Undoes the octal escapes of mountinfo: `\040` is a space.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, others)) = rest.split_first() {
        let digits = others
            .get(..3)
            .filter(|digits| first == b'\\' && digits.iter().all(|digit| (b'0'..b'8').contains(digit)));
        match digits {
            Some(digits) => {
                plain.push(
                    digits.iter().fold(0_u8, |sum, digit| sum.wrapping_mul(8).wrapping_add(digit - b'0')),
                );
                rest = &others[3..];
            }
            None => {
                plain.push(first);
                rest = others;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_the_ways_of_a_host_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let put = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let here = Beneath { root: root.clone() };
        put("disk/image", "x");
        put("fast disk/image", "x");
        let at = |name: &str| root.join(name).display().to_string().replace(' ', "\\040");
        put(
            "proc/self/mountinfo",
            &format!(
                "1 1 1:1 / / rw - ext4 /dev/x rw\n\
                 2 1 0:30 / {} rw,noatime - btrfs /dev/y rw,compress=zstd:3,space_cache=v2\n\
                 3 1 0:31 / {} rw - tmpfs tmpfs rw,size=1k\n",
                at("disk"),
                at("fast disk")
            ),
        );
        assert_eq!(here.memory(&root.join("fast disk/image")).as_deref(), Some("tmpfs"));
        assert_eq!(here.memory(&root.join("disk/image")), None);
        assert_eq!(
            here.ways_of_host(&root.join("disk/image")).as_deref(),
            Some("compresses data, zstd:3; writes to new places (copy on write)")
        );
        assert_eq!(here.ways_of_host(&root.join("fast disk/image")), None);
        // The device that holds the image is one in memory.
        let number = fs::metadata(root.join("disk/image")).unwrap().dev();
        let (major, minor) = (nix::sys::stat::major(number), nix::sys::stat::minor(number));
        put("sys/devices/zram7/queue/write_cache", "write back\n");
        fs::create_dir_all(root.join("sys/dev/block")).unwrap();
        let link = root.join(format!("sys/dev/block/{major}:{minor}"));
        std::os::unix::fs::symlink(root.join("sys/devices/zram7"), &link).unwrap();
        assert_eq!(here.memory(&root.join("disk/image")).as_deref(), Some("zram7"));
        assert_eq!(here.write_cache(&root.join("disk/image")).as_deref(), Some("write back"));
        // So is a loop device over a file in memory.
        fs::remove_file(&link).unwrap();
        put("sys/devices/loop3/loop/backing_file", &format!("{}\n", root.join("fast disk/image").display()));
        std::os::unix::fs::symlink(root.join("sys/devices/loop3"), &link).unwrap();
        assert_eq!(here.memory(&root.join("disk/image")).as_deref(), Some("loop3 over tmpfs"));
        put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
        put("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n");
        assert_eq!(here.governor().as_deref(), Some("performance, powersave"));
        assert!(mount(b"1 2 3").is_none());
    }
}
