//! Who uses a block device, or a file as a disk.

use super::kernel::{Kernel, device_number};
use crate::host::IN_USE;
use rustix::fs::OFlags;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Who uses an image file or block device: a mount, swap space, the kernel (device mapper, RAID, a mount in another
/// namespace), or a loop device over the file; `None` if nobody does.
pub(crate) fn user_of(path: &Path) -> io::Result<Option<String>> {
    let metadata = fs::metadata(path)?;
    let kernel = Kernel::this();
    if !metadata.file_type().is_block_device() {
        return Ok(file_use(&kernel, path, &metadata));
    }
    if let Some(reason) = block_use(&kernel, metadata.rdev()) {
        return Ok(Some(reason));
    }
    // The kernel is asked last, because its answer has no reason.
    let flags = (OFlags::EXCL | OFlags::CLOEXEC).bits() as i32;
    match fs::File::options().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(Some(IN_USE.to_string())),
        opened => opened.map(|_| None),
    }
}

/// The use of a block device, of one of its partitions, or of the disk that it is a partition of.
fn block_use(kernel: &Kernel, device: u64) -> Option<String> {
    let mut related = vec![(device, "is")];
    let mut directories = Vec::new();
    if let Some(block) = kernel.block(device) {
        if block.join("partition").exists()
            && let Some(disk) = block.parent()
        {
            related
                .extend(device_number(&disk.join("dev")).map(|number| (number, "is part of a disk that is")));
        }
        for part in fs::read_dir(&block).into_iter().flatten().flatten() {
            if part.path().join("partition").exists() {
                let number = device_number(&part.path().join("dev"));
                related.extend(number.map(|number| (number, "has a partition that is")));
                directories.push(part.path());
            }
        }
        directories.insert(0, block);
    }
    let relation = |number: u64| related.iter().find(|(other, _)| *other == number).map(|(_, how)| *how);
    for mount in kernel.mounts() {
        // Some file systems show a device number of their own in the mount table, and the disk only by its path.
        let how = relation(mount.device).or_else(|| relation(block_number(&mount.source)?));
        if let Some(how) = how {
            return Some(format!("{how} mounted at {}", mount.point.display()));
        }
    }
    for swap in kernel.swaps() {
        if let Some(how) = block_number(&swap).and_then(relation) {
            return Some(format!("{how} used as swap space"));
        }
    }
    directories.iter().find_map(|directory| {
        let holder = fs::read_dir(directory.join("holders")).ok()?.flatten().next()?;
        let name = holder.file_name().to_string_lossy().into_owned();
        // The name that device mapper has for a device says more than "dm-0".
        let called = fs::read_to_string(holder.path().join("dm/name"));
        Some(match called {
            Ok(called) => format!("is part of {name} ({})", called.trim()),
            Err(_) => format!("is part of {name}"),
        })
    })
}

/// Returns the path of the file behind a loop device, or behind the one that a partition is on; `None` for anything
/// else. A lock of that file does not reach the device, though both have the same content.
pub fn file_behind(path: &Path) -> Option<PathBuf> {
    Kernel::this().file_behind(block_number(path)?)
}

/// The device number of a block device.
pub(super) fn block_number(path: &Path) -> Option<u64> {
    let metadata = fs::metadata(path).ok()?;
    metadata.file_type().is_block_device().then(|| metadata.rdev())
}

/// The use of a file as a disk: by a loop device, or as swap space.
fn file_use(kernel: &Kernel, path: &Path, metadata: &fs::Metadata) -> Option<String> {
    let canonical = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let same = |other: &PathBuf| {
        *other == canonical
            || fs::metadata(other)
                .is_ok_and(|other| (other.dev(), other.ino()) == (metadata.dev(), metadata.ino()))
    };
    if let Some((name, _)) = kernel.loops().into_iter().find(|(_, file)| same(file)) {
        let mounted = kernel.mounts().into_iter().find(|mount| mount.source == Path::new("/dev").join(&name));
        return Some(match mounted {
            Some(mount) => format!("is mounted at {} through /dev/{name}", mount.point.display()),
            None => format!("is the file behind /dev/{name}"),
        });
    }
    kernel.swaps().iter().any(same).then(|| "is used as swap space".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::makedev;

    /// A directory laid out like the kernel's `/proc` and `/sys`. Its device numbers are from a range that is never
    /// assigned.
    struct Fake {
        root: PathBuf,
    }

    impl Fake {
        fn new(name: &str) -> Fake {
            let root = std::env::temp_dir().join(format!("platter-protect-{}-{name}", std::process::id()));
            fs::create_dir_all(&root).unwrap();
            let fake = Fake { root: fs::canonicalize(root).unwrap() };
            for part in ["", "/sdz1", "/sdz2"] {
                fake.write(&format!("sys/devices/sdz{part}/holders/.keep"), "");
                fs::remove_file(fake.root.join(format!("sys/devices/sdz{part}/holders/.keep"))).unwrap();
            }
            fake.write("sys/devices/sdz/dev", "240:0\n");
            for number in [1, 2] {
                fake.write(&format!("sys/devices/sdz/sdz{number}/partition"), &format!("{number}\n"));
                fake.write(&format!("sys/devices/sdz/sdz{number}/dev"), &format!("240:{number}\n"));
            }
            fs::create_dir_all(fake.root.join("sys/dev/block")).unwrap();
            for (name, path) in [("240:0", "sdz"), ("240:1", "sdz/sdz1"), ("240:2", "sdz/sdz2")] {
                let link = fake.root.join("sys/dev/block").join(name);
                std::os::unix::fs::symlink(fake.root.join("sys/devices").join(path), link).unwrap();
            }
            fake
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn uses(&self) -> [Option<String>; 3] {
            [0, 1, 2].map(|minor| block_use(&Kernel::at(&self.root), makedev(240, minor)))
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.root);
        }
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_string())
    }

    #[test]
    fn a_mounted_disk_or_partition_is_in_use() {
        let fake = Fake::new("mount");
        assert_eq!(fake.uses(), [None, None, None]);
        fake.write("proc/self/mountinfo", "36 35 240:1 / /mnt\\040x rw - vfat /dev/none rw\n");
        assert_eq!(
            fake.uses(),
            [some("has a partition that is mounted at /mnt x"), some("is mounted at /mnt x"), None]
        );
        fake.write("proc/self/mountinfo", "36 35 240:0 / /all rw - vfat /dev/none rw\n");
        let part = some("is part of a disk that is mounted at /all");
        assert_eq!(fake.uses(), [some("is mounted at /all"), part.clone(), part]);
    }

    #[test]
    fn a_part_of_another_device_is_in_use() {
        let fake = Fake::new("holder");
        fake.write("sys/devices/sdz/sdz2/holders/dm-0/dm/name", "vault\n");
        assert_eq!(fake.uses(), [some("is part of dm-0 (vault)"), None, some("is part of dm-0 (vault)")]);
    }

    #[test]
    fn a_file_behind_a_loop_device_or_swap_is_in_use() {
        let fake = Fake::new("file");
        fake.write("a.img", "x");
        fake.write("b.img", "x");
        let [a, b] = ["a.img", "b.img"].map(|name| fake.root.join(name));
        let link = fake.root.join("link.img");
        std::os::unix::fs::symlink(&a, &link).unwrap();
        let used = |path: &Path| file_use(&Kernel::at(&fake.root), path, &fs::metadata(path).unwrap());
        assert_eq!([used(&a), used(&b)], [None, None]);
        fake.write("sys/block/loop77/loop/backing_file", &format!("{}\n", a.display()));
        let behind = some("is the file behind /dev/loop77");
        assert_eq!([used(&a), used(&link), used(&b)], [behind.clone(), behind, None]);
        fake.write("proc/self/mountinfo", "36 35 7:77 / /x rw - vfat /dev/loop77 rw\n");
        assert_eq!(used(&a), some("is mounted at /x through /dev/loop77"));
        fake.write("proc/swaps", &format!("Filename\tType\tSize\n{}  file\t1\n", b.display()));
        assert_eq!(used(&b), some("is used as swap space"));
    }

    #[test]
    fn the_disk_under_the_root_directory_is_in_use_and_a_new_file_is_not() {
        let file = std::env::temp_dir().join(format!("platter-users-{}.img", std::process::id()));
        fs::write(&file, [0; 4096]).unwrap();
        assert_eq!(user_of(&file).unwrap(), None);
        fs::remove_file(&file).unwrap();
        // Not every machine that runs tests shows a disk under its root directory; where one does, that disk must be
        // refused.
        let root = Kernel::this().mounts().into_iter().find(|mount| mount.point == Path::new("/"));
        if let Some(disk) = root.map(|root| root.source).filter(|source| block_number(source).is_some()) {
            let user = user_of(&disk).unwrap().unwrap();
            assert!(user.contains("mounted at"), "{user}");
        }
    }
}
