//! What identifies a block device, whatever name the system gives it today.
//!
//! Linux names devices in the order in which it finds them: after a disk is pulled, the next one may have its name. In
//! this order the first of these that a device has is taken, each as the name of a file:
//!
//! 1. the smallest name that udev gives it in `/dev/disk/by-id` (made of model, serial number or world wide name);
//! 2. for a loop device the file behind it, by the numbers of its file system and inode, and where it begins in the file;
//! 3. what the kernel tells of the device itself in `/sys/dev/block` (kernel documentation, `ABI/stable/sysfs-block` and
//!    `ABI/testing/sysfs-block-dm`): the UUID that device mapper was given, a world wide name, a serial number;
//!    a partition has what its disk has, and its number;
//! 4. for a partition its UUID in the partition table, as udev gives it in `/dev/disk/by-partuuid`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Identifies the block device with this number; `None` if nothing that belongs to the device does.
pub(super) fn identity(number: u64) -> Option<OsString> {
    link_to("/dev/disk/by-id", number).or_else(|| of_kernel(&sys(number)?)).or_else(|| {
        let uuid = link_to("/dev/disk/by-partuuid", number)?;
        Some(OsString::from(format!("partuuid-{}", uuid.to_string_lossy())))
    })
}

/// The smallest name in a directory of links that leads to the device with this number.
fn link_to(directory: &str, number: u64) -> Option<OsString> {
    let links = fs::read_dir(directory).into_iter().flatten().flatten();
    let same = links.filter(|link| fs::metadata(link.path()).is_ok_and(|data| data.rdev() == number));
    same.map(|link| link.file_name()).min()
}

/// The directory in which the kernel describes the device with this number.
pub(super) fn sys(number: u64) -> Option<PathBuf> {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()
}

/// Identifies a device by what the kernel says of it in this directory.
fn of_kernel(device: &Path) -> Option<OsString> {
    if let Some(partition) = line(&device.join("partition")) {
        let disk = of_kernel(device.parent()?)?;
        return Some(OsString::from(format!("{}-part{partition}", disk.to_string_lossy())));
    }
    if let Some(file) = line(&device.join("loop/backing_file")) {
        // What was removed since has the same text behind its name, and so is not found.
        let data = fs::metadata(&file).ok()?;
        let offset = line(&device.join("loop/offset")).unwrap_or_default();
        return Some(OsString::from(format!("loop-{:x}-{:x}-{offset}", data.dev(), data.ino())));
    }
    let known = [("dm", "dm/uuid"), ("wwid", "wwid"), ("wwid", "device/wwid"), ("serial", "serial")];
    let found = known.iter().chain(&[("serial", "device/serial")]).find_map(|(kind, file)| {
        let text = line(&device.join(file))?;
        let plain = |one: char| if one.is_ascii_alphanumeric() || "-_.".contains(one) { one } else { '_' };
        Some(format!("{kind}-{}", text.chars().map(plain).collect::<String>()))
    });
    found.map(OsString::from)
}

/// The text of a file of one line; `None` if it is missing or empty, or longer than a file name may be.
pub(super) fn line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty() && text.len() <= 200).then(|| text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory as the kernel has it, with files of this content; removed at the end.
    struct Described(PathBuf);

    impl Drop for Described {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn described(name: &str, files: &[(&str, &str)]) -> Described {
        let root = std::env::temp_dir().join(format!("platter-identity-{}-{name}", std::process::id()));
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        Described(root)
    }

    fn identity_of(name: &str, files: &[(&str, &str)]) -> Option<String> {
        of_kernel(&described(name, files).0).map(|name| name.into_string().unwrap())
    }

    #[test]
    fn a_device_without_anything_of_its_own_is_not_identified() {
        assert_eq!(identity_of("none", &[("size", "2048"), ("serial", "")]), None);
        assert_eq!(identity_of("part", &[("sdx1/partition", "1")]), None);
    }

    #[test]
    fn what_the_device_says_of_itself_identifies_it() {
        assert_eq!(identity_of("serial", &[("serial", "QM 0001/7")]).unwrap(), "serial-QM_0001_7");
        let both = [("device/wwid", "naa.5000c500"), ("device/serial", "x")];
        assert_eq!(identity_of("both", &both).unwrap(), "wwid-naa.5000c500");
        assert_eq!(identity_of("dm", &[("dm/uuid", "LVM-abc"), ("serial", "x")]).unwrap(), "dm-LVM-abc");
    }

    #[test]
    fn a_partition_is_the_disk_and_its_number() {
        let disk = described("disk", &[("serial", "7"), ("sdx2/partition", "2")]);
        assert_eq!(of_kernel(&disk.0.join("sdx2")).unwrap(), "serial-7-part2");
    }

    #[test]
    fn a_loop_device_is_the_file_behind_it() {
        let files = described("files", &[("a.img", ""), ("b.img", "")]);
        let (one, two) = (files.0.join("a.img"), files.0.join("b.img"));
        let of = |file: &Path, offset: &str| {
            identity_of("loop", &[("loop/backing_file", file.to_str().unwrap()), ("loop/offset", offset)])
        };
        assert_eq!(of(&one, "0"), of(&one, "0"));
        assert_ne!(of(&one, "0"), of(&two, "0"));
        assert_ne!(of(&one, "0"), of(&one, "1048576"));
        assert_eq!(of(&files.0.join("gone (deleted)"), "0"), None);
    }
}
