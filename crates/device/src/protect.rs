//! Checks that refuse to write to a device that is in use or holds something.
//!
//! Checks that are made before anything is written. [`refuse_in_use`], for every command that writes, asks whether the
//! device is in use. [`refuse_contents`], for commands that overwrite all of it, asks whether it holds something that
//! is recognised, and [`find_data`] whether it holds anything at all. [`refuse_unlike_copies`], for a mirror, asks
//! whether its copies are of one volume. A caller that is told to write in any case skips them.

use crate::host::{Host, device_number};
use crate::marks::read_bytes;
use crate::{Device, Error, FileDevice, Operation, Result, contents};
use rustix::fs::OFlags;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The reason if the kernel refuses exclusive access to a block device and no user of it can be found.
pub const IN_USE: &str = "is in use";

/// Refuses an image file or block device that is in use: mounted, swapped to, claimed by the kernel (device mapper,
/// RAID, a mount in another namespace), or the file behind a loop device. A path that does not exist is free.
///
/// # Errors
/// [`Error::InUse`] that says who uses it, and [`Error::Io`] if it cannot be examined.
pub fn refuse_in_use(path: &Path) -> Result<()> {
    let name = path.display().to_string();
    let failed = |source| Error::io(&name, Operation::Open, 0, 0, source);
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(failed)?,
    };
    let host = Host::this();
    let mut reason = if metadata.file_type().is_block_device() {
        block_use(&host, metadata.rdev())
    } else {
        file_use(&host, path, &metadata)
    };
    if reason.is_none() && metadata.file_type().is_block_device() {
        // The kernel is asked last, because its answer has no reason.
        let flags = (OFlags::EXCL | OFlags::CLOEXEC).bits() as i32;
        match fs::File::options().read(true).custom_flags(flags).open(path) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => reason = Some(IN_USE.to_string()),
            Err(error) => return Err(failed(error)),
            Ok(_) => {}
        }
    }
    match reason {
        Some(reason) => Err(Error::InUse { device: name.into(), reason }),
        None => Ok(()),
    }
}

/// Refuses a device whose content is recognised: see [`contents`].
///
/// # Errors
/// [`Error::Protected`] that says what it holds, and the errors of reading it.
pub fn refuse_contents(device: &dyn Device) -> Result<()> {
    match contents(device)? {
        Some(known) => {
            Err(Error::Protected { device: device.name().into(), reason: format!("holds {known}") })
        }
        None => Ok(()),
    }
}

/// Refuses a regular file that holds anything at all, whatever its bytes mean: an image that nobody used is blank, and the
/// beginnings of databases, films and programs are more than any list knows. Block devices are not looked at: what a
/// disk held before is often there still.
///
/// # Errors
/// [`Error::Protected`] that says where, and the errors of reading it.
pub fn refuse_data(file: &FileDevice) -> Result<()> {
    if file.is_block_device() { Ok(()) } else { refuse_any_data(file) }
}

/// Refuses a device that holds anything at all, whatever it is: see [`refuse_data`].
///
/// # Errors
/// As [`refuse_data`].
pub fn refuse_any_data(device: &dyn Device) -> Result<()> {
    match find_data(device)? {
        Some(at) => {
            let reason = format!("is no image of a known kind and holds data, at offset {at} for one");
            Err(Error::Protected { device: device.name().into(), reason })
        }
        None => Ok(()),
    }
}

/// Looks for a byte that is not zero, and returns its offset. The beginning of a device alone shows nothing: a disk
/// whose partition table is lost begins with zeroes, and its volumes may be whole. A device of up to [`WHOLE`] bytes is
/// read from end to end, and of a longer one its ends, the places where partitions begin, and places spread over all
/// of it.
///
/// # Errors
/// The errors of reading the device: what cannot be read may hold anything.
pub(crate) fn find_data(device: &dyn Device) -> Result<Option<u64>> {
    let length = device.len();
    if length <= WHOLE {
        return find_in(device, 0..length);
    }
    let starts = (0..STARTS).map(|number| number << 20).take_while(|&at| at < length);
    let spread = (0..SPREAD).map(|number| (u128::from(length) * number / SPREAD) as u64);
    let ends = [0..ENDS, length - ENDS..length];
    let sampled =
        starts.chain(spread).map(|at| at / SAMPLE * SAMPLE..(at / SAMPLE * SAMPLE + SAMPLE).min(length));
    for range in ends.into_iter().chain(sampled) {
        if let Some(at) = find_in(device, range)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// A device of this length or less is read as a whole.
const WHOLE: u64 = 32 << 20;
/// The bytes at each end of a longer device that are read.
const ENDS: u64 = 4 << 20;
/// The number of multiples of 1 MiB, where partitions begin, at which a sample is read.
const STARTS: u64 = 1024;
/// The number of samples that are spread over the device.
const SPREAD: u128 = 1024;
/// The bytes of a sample. All of them together are 40 MiB.
const SAMPLE: u64 = 16 << 10;

/// Looks for a byte that is not zero in a range; places that were never written are not read.
fn find_in(device: &dyn Device, range: std::ops::Range<u64>) -> Result<Option<u64>> {
    const PIECE: u64 = 1 << 20;
    let mut at = range.start;
    while at < range.end {
        let next = device.next_data(at).min(range.end);
        let sector = u64::from(device.sectors().logical);
        at = at.max(next / sector * sector);
        let length = PIECE.min(range.end - at);
        let data = read_bytes(device, at, length)?;
        if let Some(found) = data.iter().position(|&byte| byte != 0) {
            return Ok(Some(at + found as u64));
        }
        at += length;
    }
    Ok(None)
}

/// Refuses a device whose copies begin differently. One may then be another volume, a disk that is no part of the
/// mirror, or an outdated copy, and a write to all of them would destroy the content of one. A copy that cannot be read
/// does not count: tolerating that is the purpose of a device with copies.
///
/// # Errors
/// [`Error::Protected`] that says which copies differ and where. [`Error::Unusable`] and [`Error::Io`] if no copy can
/// be read.
pub fn refuse_unlike_copies(device: &dyn Device) -> Result<()> {
    let length = BEGINNING.next_multiple_of(u64::from(device.sectors().logical)).min(device.len());
    let mut first: Option<(usize, Vec<u8>)> = None;
    let mut unread = Ok(());
    for copy in (0..device.copies()).filter(|_| device.copies() > 1) {
        let mut data = vec![0; length as usize];
        match (device.read_copy(copy, 0, &mut data), &first) {
            (Err(error), _) => unread = unread.and(Err(error)),
            (Ok(()), None) => first = Some((copy, data)),
            (Ok(()), Some((other, expected))) => {
                if let Some(at) = (0..data.len()).find(|&at| data[at] != expected[at]) {
                    let reason = format!(
                        "copy {copy} differs from copy {other}, counted from 0, at offset {at} (expected {:#04x}, \
                         found {:#04x}): they are not copies of one volume, or one of them is old or damaged",
                        expected[at], data[at]
                    );
                    return Err(Error::Protected { device: device.name().into(), reason });
                }
            }
        }
    }
    if first.is_some() { Ok(()) } else { unread }
}

/// The number of bytes compared: the first sectors, by which volumes are told apart.
const BEGINNING: u64 = 4096;

/// The use of a block device, of one of its partitions, or of the disk that it is a partition of.
fn block_use(host: &Host, device: u64) -> Option<String> {
    let mut related = vec![(device, "is")];
    let mut directories = Vec::new();
    if let Some(block) = host.block(device) {
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
    for mount in host.mounts() {
        // Some file systems show a device number of their own in the mount table, and the disk only by its path.
        let how = relation(mount.device).or_else(|| relation(block_number(&mount.source)?));
        if let Some(how) = how {
            return Some(format!("{how} mounted at {}", mount.point.display()));
        }
    }
    for swap in host.swaps() {
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
    Host::this().file_behind(block_number(path)?)
}

fn block_number(path: &Path) -> Option<u64> {
    let metadata = fs::metadata(path).ok()?;
    metadata.file_type().is_block_device().then(|| metadata.rdev())
}

/// The use of a file as a disk: by a loop device, or as swap space.
fn file_use(host: &Host, path: &Path, metadata: &fs::Metadata) -> Option<String> {
    let canonical = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let same = |other: &PathBuf| {
        *other == canonical
            || fs::metadata(other)
                .is_ok_and(|other| (other.dev(), other.ino()) == (metadata.dev(), metadata.ino()))
    };
    if let Some((name, _)) = host.loops().into_iter().find(|(_, file)| same(file)) {
        let mounted = host.mounts().into_iter().find(|mount| mount.source == Path::new("/dev").join(&name));
        return Some(match mounted {
            Some(mount) => format!("is mounted at {} through /dev/{name}", mount.point.display()),
            None => format!("is the file behind /dev/{name}"),
        });
    }
    host.swaps().iter().any(same).then(|| "is used as swap space".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryDevice, Sectors};
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
            [0, 1, 2].map(|minor| block_use(&Host::at(&self.root), makedev(240, minor)))
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
        let used = |path: &Path| file_use(&Host::at(&fake.root), path, &fs::metadata(path).unwrap());
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
    fn errors_say_what_stands_in_the_way_and_how_to_go_on() {
        let device = MemoryDevice::new(1 << 20, Sectors::SMALL);
        refuse_contents(&device).unwrap();
        let mut block = [0; 512];
        block[..4].copy_from_slice(b"XFSB");
        device.write_at(0, &block).unwrap();
        let error = refuse_contents(&device).unwrap_err().to_string();
        assert_eq!(error, "mem:1048576: holds an XFS file system");
    }

    #[test]
    fn data_is_found_wherever_volumes_begin_and_end() {
        let blank = |length: u64, at: &[u64]| {
            let device = MemoryDevice::new(length, Sectors::SMALL);
            at.iter().for_each(|&at| device.write_at(at, &[1; 512]).unwrap());
            find_data(&device).unwrap()
        };
        for length in [0, 1 << 20, 100 << 20, (100 << 20) + 512] {
            assert_eq!(blank(length, &[]), None, "{length}");
        }
        assert_eq!(blank(1 << 20, &[(1 << 20) - 512]), Some((1 << 20) - 512));
        for at in [0, 1 << 20, 77 << 20, (100 << 20) - 512] {
            assert_eq!(blank(100 << 20, &[at]), Some(at));
        }
    }

    #[test]
    fn the_disk_under_the_root_directory_is_refused_and_a_new_file_is_not() {
        refuse_in_use(Path::new("/no/such/image")).unwrap();
        let file = std::env::temp_dir().join(format!("platter-protect-{}.img", std::process::id()));
        fs::write(&file, [0; 4096]).unwrap();
        refuse_in_use(&file).unwrap();
        fs::remove_file(&file).unwrap();
        // Not every machine that runs tests shows a disk under its root directory; where one does, that disk must be
        // refused.
        let root = Host::this().mounts().into_iter().find(|mount| mount.point == Path::new("/"));
        if let Some(disk) = root.map(|root| root.source).filter(|source| block_number(source).is_some()) {
            let error = refuse_in_use(&disk).unwrap_err().to_string();
            assert!(error.contains("mounted at"), "{error}");
        }
    }
}
