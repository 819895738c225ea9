//! A folder on each target in which programs run, and how what is cached of it is forgotten.

use super::counters::Counters;
use super::images::Images;
use crate::document as report;
use crate::host;
use crate::peer::{Mounted, Peer};
use crate::stand::OpenStand;
use crate::target::{Target, new_folder, of_host};
use crate::{Error, Result};
use platter_device::{Device, FileDevice, FileOptions};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Where the machine's caches are told to forget everything that is not changed (proc(5)).
const DROP: &str = if cfg!(target_os = "linux") { "/proc/sys/vm/drop_caches" } else { "" };
/// The name of the folder on a target that is mounted for the run.
const FOLDER: &str = "work";

fn failed(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    |source| Error::Io { what: path.display().to_string(), source }
}

/// How targets forget what they have cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forgets {
    /// Each target was mounted for the run, and is mounted anew.
    Remount,
    /// The caches of the whole machine are dropped, and what was mounted for the run is mounted anew.
    Machine,
    /// Without root: what was mounted for the run is mounted anew; of a directory of the host only the content of its files
    /// is forgotten.
    Content,
}

impl Forgets {
    /// The way for these targets: the most that all of them can do alike.
    pub(super) fn of(targets: &[Target]) -> Forgets {
        if targets.iter().all(Target::is_on_device) {
            Forgets::Remount
        } else if File::options().write(true).open(DROP).is_ok() {
            Forgets::Machine
        } else {
            Forgets::Content
        }
    }

    /// What is cold, and what stays warm.
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Forgets::Remount => {
                "cold: each target is mounted anew before each run; programs themselves stay in memory"
            }
            Forgets::Machine => {
                "cold: before each run the caches of the whole machine are dropped, programs included, and what was mounted for \
                 the run is mounted anew"
            }
            Forgets::Content => {
                "cold as far as it goes without root: what was mounted for the run is mounted anew before each run; of directories \
                 of the host the content of files is forgotten, but names and attributes stay in memory"
            }
        }
    }
}

/// A folder on a target, in which programs run. Removed, and what was mounted for it unmounted, by [`Folder::end`] or when
/// dropped.
pub(super) struct Folder {
    /// The target's name in reports.
    pub name: String,
    pub path: PathBuf,
    pub counters: Option<Counters>,
    pub description: report::Target,
    below: Below,
}

enum Below {
    /// A directory of the host.
    Host,
    /// A file system that was made and mounted for the run, on a block device or an image in a directory.
    Mounted { peer: Box<Peer>, block: PathBuf, directory: PathBuf, mounted: Option<Mounted> },
}

/// Returns the file system by which a target is mounted; `None` for a directory of the host.
///
/// # Errors
/// [`Error::Job`] for a target that has no files.
pub(super) fn peer_of(target: &Target, program: &Path) -> Result<Option<Peer>> {
    match target {
        Target::Directory { .. } | Target::ByWindows(_) => target.host_directory().map(|_| None),
        Target::Mounted(peer) => Ok(Some(peer.clone())),
        Target::Volume { format, cluster } => {
            Ok(Some(Peer::Ours { format: *format, cluster: *cluster, program: program.to_owned() }))
        }
        Target::Raw | Target::Through { .. } => {
            Err(Error::Job(format!("{}: it has no files for programs", target.name())))
        }
    }
}

impl Folder {
    /// Makes a folder in a directory of the host.
    pub(super) fn of_host(name: &str, directory: &Path, integrity: bool, number: usize) -> Result<Folder> {
        let path = directory.join(format!("platter-command-{}-{number}", std::process::id()));
        new_folder(&path, integrity)?;
        let path = host::directory_for_programs(&path).map_err(failed(&path))?;
        let kind = platter_device::host_file_system(directory);
        let integrity = platter_device::host::integrity(&path).ok().flatten();
        let description = of_host(name, directory, kind.as_deref(), integrity, "folder", "");
        Ok(Folder { name: name.into(), counters: Counters::of(&path), path, description, below: Below::Host })
    }

    /// Makes a file system in a region that is a block device, mounts it, and makes a folder in it.
    pub(super) fn on_stand(name: &str, peer: Peer, stand: &OpenStand, region: usize) -> Result<Folder> {
        let place = &stand.places[region];
        let Some((block, directory)) = place.block() else {
            return Err(Error::Job("its region is no block device".into()));
        };
        place.discard()?;
        peer.make(&*place.device, block)?;
        Folder::mounted(name, peer, block, directory)
    }

    /// Makes a volume in an image of its own, mounts it, and makes a folder in it.
    pub(super) fn on_image(name: &str, peer: Peer, images: &Images, number: usize) -> Result<Folder> {
        let image = images.path(number);
        {
            let options = FileOptions { exclusive: true, ..FileOptions::default() };
            let device = FileDevice::open(&image, options)?;
            peer.make(&device, &image)?;
            device.flush()?;
        }
        Folder::mounted(name, peer, &image, &images.mounts())
    }

    fn mounted(name: &str, peer: Peer, block: &Path, directory: &Path) -> Result<Folder> {
        let mounted = peer.attach(block, directory)?;
        let path = mounted.at.join(FOLDER);
        std::fs::create_dir(&path).map_err(failed(&path))?;
        let description = report::Target {
            name: name.into(),
            title: peer.title(),
            short: name.into(),
            kind: "mounted".into(),
            details: "made for the run, and mounted".into(),
        };
        let (block, directory) = (block.to_owned(), directory.to_owned());
        let counters = Counters::of(&block);
        let below = Below::Mounted { peer: Box::new(peer), block, directory, mounted: Some(mounted) };
        Ok(Folder { name: name.into(), path, counters, description, below })
    }

    /// Makes everything durable that programs wrote, so that nothing of it is written while another target is measured.
    /// Some systems leave this to administrators: for others it fails if durability is `promised`, and is left to the system if
    /// not.
    pub(super) fn sync(&self, promised: bool) -> Result<()> {
        host::sync_file_system(&self.path, promised).map_err(failed(&self.path))?;
        // A file system in user space is not told of syncfs(2) by every kernel, but of fsync(2).
        platter_device::host::sync_directory(&self.path).map_err(failed(&self.path))
    }

    /// Forgets what is cached of the target.
    pub(super) fn forget(&mut self, how: Forgets) -> Result<()> {
        if let Below::Mounted { peer, block, directory, mounted } = &mut self.below {
            if let Some(mut before) = mounted.take() {
                before.end()?;
            }
            // What the kernel has cached of the device itself outlives a mount as long as the device is open.
            let device = File::open(&*block).map_err(failed(block))?;
            device.sync_all().map_err(failed(block))?;
            host::forget_cached(&device).map_err(failed(block))?;
            *mounted = Some(peer.attach(block, directory)?);
        }
        match (how, &self.below) {
            (Forgets::Machine, _) => std::fs::write(DROP, "3").map_err(failed(Path::new(DROP))),
            (Forgets::Content, Below::Host) => forget_content(&self.path),
            _ => Ok(()),
        }
    }

    /// Removes the folder, and unmounts what was mounted for it.
    pub(super) fn end(mut self) -> Result<()> {
        match &mut self.below {
            Below::Mounted { mounted, .. } => mounted.take().map_or(Ok(()), |mut mounted| mounted.end()),
            Below::Host => std::fs::remove_dir_all(&self.path).map_err(failed(&self.path)),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if matches!(self.below, Below::Host) {
            // It is not there any more after `end`.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Forgets the content of all files below a directory that is in the page cache and not changed. What cannot be opened is
/// left out: it is the user's own folder, and a program may have taken the right to read from a file.
fn forget_content(directory: &Path) -> Result<()> {
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).map_err(failed(&directory))? {
            let entry = entry.map_err(failed(&directory))?;
            let kind = entry.file_type().map_err(failed(&entry.path()))?;
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file()
                && let Ok(file) = File::open(entry.path())
            {
                host::forget_cached(&file).map_err(failed(&entry.path()))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_raw_device_has_no_files() {
        assert!(peer_of(&Target::Raw, Path::new("platter")).is_err());
        let volume = Target::parse("ntfs:8k").unwrap();
        assert_eq!(peer_of(&volume, Path::new("platter")).unwrap().unwrap().name(), "mount:ntfs:8k");
    }

    #[test]
    fn a_folder_of_the_host_is_removed_with_its_content() {
        let outer = tempfile::tempdir().unwrap();
        let folder = Folder::of_host("dir:x", outer.path(), false, 0).unwrap();
        let path = folder.path.clone();
        std::fs::create_dir(path.join("a")).unwrap();
        std::fs::write(path.join("a/b"), "text").unwrap();
        folder.sync(true).unwrap();
        forget_content(&path).unwrap();
        drop(folder);
        assert!(!path.exists());
        // A folder of somebody else is not taken, nor removed.
        std::fs::create_dir(&path).unwrap();
        assert!(Folder::of_host("dir:x", outer.path(), false, 0).is_err() && path.exists());
    }

    #[test]
    fn what_cold_means_is_said() {
        let targets =
            |names: &[&str]| names.iter().map(|name| Target::parse(name).unwrap()).collect::<Vec<Target>>();
        assert_eq!(Forgets::of(&targets(&["ntfs", "refs"])), Forgets::Remount);
        assert_ne!(Forgets::of(&targets(&["ntfs", "dir:/tmp"])), Forgets::Remount);
        assert!(Forgets::Content.sentence().contains("without root"));
    }
}
