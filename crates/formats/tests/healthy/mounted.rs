//! Volumes that other programs made, and that were used through mounts of other programs.

use super::{PROGRAMS, device, name};
use platter_device::Device;
use platter_testing::model::{ImageFile, Random};
use std::fs;
use std::io::{Result, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Returns a volume that mkntfs made and that was used with ntfs-3g.
pub(crate) fn ntfs(random: &mut Random) -> (String, Arc<dyn Device>) {
    let image = ImageFile::empty(12 << 20);
    let cluster = 512u64 << random.below(8);
    let sector = (256 << random.below(5)).min(cluster).to_string();
    let cluster = cluster.to_string();
    PROGRAMS.run("mkntfs", &["-F", "-q", "-c", &cluster, "-s", &sector, "-L", "Healthy", image.path()]);
    for _ in 0..1 + random.below(2) {
        let path = folder(&image);
        PROGRAMS.run("ntfs-3g", &["-o", "rw,compression", image.path(), &path]);
        use_it(Path::new(&path), true, random);
        unmount(&path);
    }
    ("ntfs".into(), device(&image))
}

/// Returns a volume that mkfs.exfat made and that was used with exfat-fuse, which needs a block device.
pub(crate) fn exfat(random: &mut Random) -> (String, Arc<dyn Device>) {
    let image = ImageFile::empty(12 << 20);
    let cluster = (512u64 << random.below(7)).to_string();
    PROGRAMS.run("mkfs.exfat", &["-c", &cluster, "-L", "Healthy", image.path()]);
    for _ in 0..1 + random.below(2) {
        let path = folder(&image);
        let loop_device = PROGRAMS.run("losetup", &["-f", "--show", image.path()]);
        PROGRAMS.run("mount.exfat-fuse", &["-o", "rw", loop_device.trim(), &path]);
        use_it(Path::new(&path), false, random);
        unmount(&path);
        PROGRAMS.run("losetup", &["-d", loop_device.trim()]);
    }
    ("exfat".into(), device(&image))
}

fn folder(image: &ImageFile) -> String {
    let path = format!("{}.healthy", image.path());
    fs::create_dir_all(&path).expect("a writable temporary directory");
    path
}

/// Unmounts, and waits until the program of the mount has written everything and ended.
fn unmount(path: &str) {
    // Programs that look at every mount may keep this one busy for a moment.
    let is_ended = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        PROGRAMS.ask("umount", &[path]).0.success()
    });
    assert!(is_ended, "{path} cannot be unmounted");
    drop(fs::remove_dir(path));
    // umount(8) returns before the program of a FUSE mount has ended.
    let is_running = || {
        let processes = fs::read_dir("/proc").expect("/proc");
        processes.flatten().any(|process| {
            fs::read(process.path().join("cmdline"))
                .is_ok_and(|line| line.windows(path.len()).any(|part| part == path.as_bytes()))
        })
    };
    let is_over = (0..500).any(|_| {
        let is_over = !is_running();
        if !is_over {
            std::thread::sleep(Duration::from_millis(10));
        }
        is_over
    });
    assert!(is_over, "the program that had {path} does not end");
}

/// Makes random changes in a directory. Changes that fail, as the volume is full, do no harm.
fn use_it(root: &Path, has_links: bool, random: &mut Random) {
    let (mut directories, mut files) = (vec![root.to_path_buf()], Vec::<PathBuf>::new());
    for number in 0..120 {
        drop(act(&mut directories, &mut files, (number, has_links), random));
    }
    // All files must be listed again: the volume is to be undamaged.
    let seen = Command::new("find").arg(root).output().expect("find (from findutils)");
    assert!(seen.status.success(), "{}", String::from_utf8_lossy(&seen.stderr));
}

fn act(
    directories: &mut Vec<PathBuf>,
    files: &mut Vec<PathBuf>,
    (number, has_links): (u64, bool),
    random: &mut Random,
) -> Result<()> {
    let above = random.pick(directories).clone();
    let new = above.join(name(number, random));
    let what = random.below(16);
    if what < 5 || files.is_empty() {
        let length = *random.pick(&[0, 30, 700, 5000, 70_000]);
        fs::write(&new, random.bytes(length))?;
        files.push(new);
        return Ok(());
    }
    if what == 5 {
        fs::create_dir(&new)?;
        directories.push(new);
        return Ok(());
    }
    let index = random.below(files.len() as u64) as usize;
    let file = files[index].clone();
    match what {
        6..=8 => {
            let mut open = fs::OpenOptions::new().append(true).open(file)?;
            open.write_all(&random.bytes(3000))
        }
        9 => {
            let mut open = fs::OpenOptions::new().write(true).open(file)?;
            open.seek(SeekFrom::Start(random.below(100_000)))?;
            open.write_all(&random.bytes(2000))
        }
        10 => fs::OpenOptions::new().write(true).open(file)?.set_len(random.below(50_000)),
        11 | 12 => {
            files.swap_remove(index);
            fs::remove_file(file)
        }
        13 => {
            fs::rename(file, &new)?;
            files[index] = new;
            Ok(())
        }
        14 if has_links => fs::hard_link(file, &new),
        15 if has_links => std::os::unix::fs::symlink("../some/where", &new),
        _ => Ok(()),
    }
}
