//! Files and folders on a target, as a program with one thread uses them.

use crate::host;
use crate::target::Ready;
use crate::{Error, Latencies, Result, Subject};
use platter_device::host::{read_some_at, write_all_at};
use platter_device::sync;
use platter_vfs::{Change, Cursor, FileSystem, Kind, Name, Node, RenameFlags, SyncScope};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The removal policy of Windows for a disk that can be unplugged: when written data is forced to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// "Optimize for performance", which also applies to every fixed disk: metadata is written when the system finds
    /// time.
    #[default]
    BetterPerformance,
    /// "Optimize for quick removal": on FAT a changed file and all metadata that leads to it are on the disk when the
    /// file is closed; on NTFS the journal suffices.
    QuickRemoval,
    /// Each write is on the disk, with all metadata that leads to it, when it returns.
    WriteThrough,
}

impl Policy {
    /// All policies.
    pub const ALL: [Policy; 3] = [Policy::BetterPerformance, Policy::QuickRemoval, Policy::WriteThrough];

    /// The policy's name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Policy::BetterPerformance => "better-performance",
            Policy::QuickRemoval => "quick-removal",
            Policy::WriteThrough => "write-through",
        }
    }
}

/// When metadata is made durable: at each change of a name, at each write, at each close.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    at_change: bool,
    at_write: bool,
    at_close: bool,
}

impl Rules {
    /// Returns what the drivers of Windows XP do under a policy. Verified in source: the public sample of the FAT
    /// driver (`strucsup.c`, `cachesup.c`, `cleanup.c` of Windows-driver-samples) writes each change of a name and of
    /// the FAT through, and flushes a file and the FAT when the file is closed; NTFS has a journal and flushes nothing
    /// then. Inferred: the exFAT driver flushes at each write, because its published figures fall tenfold for loads
    /// with many small writes.
    fn of(policy: Policy, format: &str) -> Rules {
        let nothing = Rules::default();
        let format = format.strip_prefix("mount:").unwrap_or(format);
        let of = |formats: &[&str]| formats.iter().any(|known| format.starts_with(known));
        match policy {
            Policy::BetterPerformance => nothing,
            Policy::WriteThrough => Rules { at_change: true, at_write: true, at_close: true },
            Policy::QuickRemoval if of(&["ntfs", "refs", "ext4", "xfs", "btrfs"]) => nothing,
            Policy::QuickRemoval if of(&["exfat"]) => Rules { at_write: true, ..nothing },
            Policy::QuickRemoval => Rules { at_change: true, at_close: true, ..nothing },
        }
    }
}

impl std::str::FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Policy, String> {
        let found = Policy::ALL.into_iter().find(|policy| policy.name() == text);
        found.ok_or_else(|| "expected better-performance, quick-removal or write-through".into())
    }
}

/// The place of a folder or file: a node of a volume, or a path of the host.
#[derive(Clone, Debug)]
pub(super) enum ItemPlace {
    Node(Node),
    Path(PathBuf),
}

/// An open file.
pub(super) struct Open {
    place: ItemPlace,
    file: Option<File>,
    is_changed: bool,
}

/// The files of a target, and counts of the operations on them.
pub(super) struct Files {
    system: Option<Arc<dyn FileSystem>>,
    root: ItemPlace,
    /// The block device that the host's file system is mounted from, if it was mounted for the test.
    block: Option<PathBuf>,
    rules: Rules,
    /// What the driver's walk through the FAT takes the processor at each close, in virtual time.
    walk: Duration,
    pub done: Done,
}

/// The operations since the last call of [`Files::take_done`].
#[derive(Default)]
pub(super) struct Done {
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub opens: u64,
    /// The number of files whose attributes were read, and the number of renames and deletions.
    pub looks: u64,
    pub changes: u64,
    /// The number of flushes that the load itself asked for.
    pub syncs: u64,
    pub clones: u64,
    pub cloned_bytes: u64,
    pub latencies: Latencies,
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    |source| Error::Io { what: path.display().to_string(), source }
}

impl Files {
    /// Uses an empty folder of a volume that is ready.
    pub(super) fn of_volume(ready: &Ready, policy: Policy, format: &str) -> Result<Files> {
        let Subject::File { system, .. } = &ready.subject else {
            return Err(Error::Job("the raw device has no files".into()));
        };
        let root = system.create(Node::ROOT, &Name::from("NASPT"), Kind::Directory)?;
        Ok(Files {
            system: Some(system.clone()),
            root: ItemPlace::Node(root),
            block: None,
            rules: Rules::of(policy, format),
            walk: Duration::ZERO,
            done: Done::default(),
        })
    }

    /// Uses an empty directory of the host, which the caller removes afterwards.
    pub(super) fn of_directory(path: &Path, block: Option<PathBuf>, policy: Policy, format: &str) -> Files {
        Files {
            system: None,
            root: ItemPlace::Path(path.into()),
            block,
            rules: Rules::of(policy, format),
            walk: Duration::ZERO,
            done: Done::default(),
        }
    }

    pub(super) fn root(&self) -> ItemPlace {
        self.root.clone()
    }

    pub(super) fn folder(&self, parent: &ItemPlace, name: &str) -> Result<ItemPlace> {
        match (parent, &self.system) {
            (ItemPlace::Node(node), Some(system)) => {
                Ok(ItemPlace::Node(system.create(*node, &Name::from(name), Kind::Directory)?))
            }
            (ItemPlace::Path(path), _) => {
                let path = path.join(name);
                std::fs::create_dir(&path).map_err(failed(&path))?;
                Ok(ItemPlace::Path(path))
            }
            (ItemPlace::Node(_), None) => unreachable!("nodes are of volumes"),
        }
    }

    pub(super) fn create(&mut self, folder: &ItemPlace, name: &str) -> Result<Open> {
        self.timed(|files| match (folder, &files.system) {
            (ItemPlace::Node(node), Some(system)) => {
                let node = system.create(*node, &Name::from(name), Kind::File)?;
                if files.rules.at_change {
                    system.sync(node, SyncScope::All)?;
                }
                Ok(Open { place: ItemPlace::Node(node), file: None, is_changed: true })
            }
            (ItemPlace::Path(path), _) => {
                let path = path.join(name);
                let options = File::options().read(true).write(true).create_new(true).open(&path);
                let file = options.map_err(failed(&path))?;
                if files.rules.at_change {
                    file.sync_all().map_err(failed(&path))?;
                }
                Ok(Open { place: ItemPlace::Path(path), file: Some(file), is_changed: true })
            }
            (ItemPlace::Node(_), None) => unreachable!("nodes are of volumes"),
        })
    }

    pub(super) fn open(&mut self, folder: &ItemPlace, name: &str) -> Result<Open> {
        self.timed(|files| match (folder, &files.system) {
            (ItemPlace::Node(node), Some(system)) => {
                let node = system.lookup(*node, &Name::from(name))?;
                Ok(Open { place: ItemPlace::Node(node), file: None, is_changed: false })
            }
            (ItemPlace::Path(path), _) => {
                let path = path.join(name);
                let file = File::options().read(true).write(true).open(&path).map_err(failed(&path))?;
                Ok(Open { place: ItemPlace::Path(path), file: Some(file), is_changed: false })
            }
            (ItemPlace::Node(_), None) => unreachable!("nodes are of volumes"),
        })
    }

    /// Times the opening of a file and counts it as an operation.
    fn timed(&mut self, act: impl FnOnce(&Files) -> Result<Open>) -> Result<Open> {
        let start = sync::now();
        let open = act(self)?;
        self.done.opens += 1;
        self.done.latencies.record(since(start));
        Ok(open)
    }

    pub(super) fn read(&mut self, open: &Open, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let start = sync::now();
        let read = match (&open.place, &open.file, &self.system) {
            (ItemPlace::Node(node), _, Some(system)) => system.read(*node, offset, buffer)?,
            (ItemPlace::Path(path), Some(file), _) => {
                read_some_at(file, buffer, offset).map_err(failed(path))?
            }
            _ => unreachable!("an open file is of a volume or of the host"),
        };
        if read != buffer.len() {
            return Err(Error::Job(format!("a file ends inside a read at {offset}: {read} bytes were read")));
        }
        self.done.reads += 1;
        self.done.read_bytes += read as u64;
        self.done.latencies.record(since(start));
        Ok(())
    }

    pub(super) fn write(&mut self, open: &mut Open, offset: u64, data: &[u8]) -> Result<()> {
        let start = sync::now();
        match (&open.place, &open.file, &self.system) {
            (ItemPlace::Node(node), _, Some(system)) => {
                system.write(*node, offset, data)?;
                if self.rules.at_write {
                    system.sync(*node, SyncScope::All)?;
                }
            }
            (ItemPlace::Path(path), Some(file), _) => {
                write_all_at(file, data, offset).map_err(failed(path))?;
                if self.rules.at_write {
                    file.sync_all().map_err(failed(path))?;
                }
            }
            _ => unreachable!("an open file is of a volume or of the host"),
        }
        open.is_changed = true;
        self.done.writes += 1;
        self.done.write_bytes += data.len() as u64;
        self.done.latencies.record(since(start));
        Ok(())
    }

    /// Sets the file's modification time, as `CopyFile` does before it closes a copy.
    pub(super) fn set_times(&mut self, open: &Open) -> Result<()> {
        // A day in 2009.
        let then = Duration::from_secs(1_240_531_200);
        match (&open.place, &open.file, &self.system) {
            (ItemPlace::Node(node), _, Some(system)) => {
                system.set_attributes(*node, &Change { modified: Some(then.into()), ..Change::default() })?;
                if self.rules.at_change {
                    system.sync(*node, SyncScope::All)?;
                }
            }
            (ItemPlace::Path(path), Some(file), _) => {
                file.set_modified(std::time::UNIX_EPOCH + then).map_err(failed(path))?;
                if self.rules.at_change {
                    file.sync_all().map_err(failed(path))?;
                }
            }
            _ => unreachable!("an open file is of a volume or of the host"),
        }
        Ok(())
    }

    /// Makes the data written to a file durable, as `fdatasync(2)` does.
    pub(super) fn sync_file(&mut self, open: &Open) -> Result<()> {
        let start = sync::now();
        match (&open.place, &open.file, &self.system) {
            (ItemPlace::Node(node), _, Some(system)) => system.sync(*node, SyncScope::Data)?,
            (ItemPlace::Path(path), Some(file), _) => file.sync_data().map_err(failed(path))?,
            _ => unreachable!("an open file is of a volume or of the host"),
        }
        self.done.syncs += 1;
        self.done.latencies.record(since(start));
        Ok(())
    }

    /// Whether files can share clusters; for the host's file systems by a list of those that are known to.
    pub(super) fn has_clones(&self) -> bool {
        match (&self.system, &self.root) {
            (Some(system), _) => system.capabilities().clone,
            (None, ItemPlace::Path(path)) => platter_device::host_file_system(path)
                .is_some_and(|kind| ["btrfs", "xfs", "bcachefs"].contains(&kind.as_str())),
            (None, ItemPlace::Node(_)) => false,
        }
    }

    /// Makes a range of the file `to` share the clusters of a range of the file `from`.
    pub(super) fn clone_range(
        &mut self,
        from: &Open,
        offset: u64,
        to: &mut Open,
        at: u64,
        length: u64,
    ) -> Result<()> {
        let start = sync::now();
        match (&from.place, &to.place, &from.file, &to.file, &self.system) {
            (ItemPlace::Node(from), ItemPlace::Node(to), .., Some(system)) => {
                system.clone_range(*from, offset, *to, at, length)?;
            }
            (_, ItemPlace::Path(path), Some(from), Some(to), _) => {
                // These file systems share clusters when a copy is made inside the kernel.
                let copied = host::copy_range(from, offset, to, at, length).map_err(failed(path))?;
                if copied != length {
                    return Err(Error::Job(format!("{copied} of {length} bytes were shared")));
                }
            }
            _ => unreachable!("open files are of one volume or of the host"),
        }
        to.is_changed = true;
        self.done.clones += 1;
        self.done.cloned_bytes += length;
        self.done.latencies.record(since(start));
        Ok(())
    }

    /// Whether files can have snapshots.
    pub(super) fn has_snapshots(&self) -> bool {
        // A file is needed for the test, as directories have no snapshots.
        let (Some(system), ItemPlace::Node(root)) = (&self.system, &self.root) else { return false };
        let name = Name::from("snapshots");
        let Ok(node) = system.create(*root, &name, Kind::File) else { return false };
        let has = system.snapshots().and_then(|part| part.list(node)).is_ok();
        system.forget(node, 1);
        system.unlink(*root, &name).is_ok() && has
    }

    pub(super) fn snapshot(&mut self, open: &Open, name: &str) -> Result<()> {
        if let (ItemPlace::Node(node), Some(system)) = (&open.place, &self.system) {
            let start = sync::now();
            system.snapshots()?.create(*node, &Name::from(name))?;
            self.done.changes += 1;
            self.done.latencies.record(since(start));
        }
        Ok(())
    }

    pub(super) fn remove_snapshots(&self, open: &Open) -> Result<()> {
        if let (ItemPlace::Node(node), Some(system)) = (&open.place, &self.system) {
            // A file whose format has no snapshots has none to remove.
            for name in system.snapshots().and_then(|part| part.list(*node)).unwrap_or_default() {
                system.snapshots()?.remove(*node, &name)?;
            }
        }
        Ok(())
    }

    /// From now on each close of a changed file takes the processor this long for each page of 4 KiB of the FAT, which the
    /// driver of Windows walks then if the policy is quick removal.
    ///
    /// Verified in source: `FatFlushFat` of the public sample (`flush.c` of Windows-driver-samples), called by `cleanup.c`,
    /// pins each page of the first FAT to see whether it has been changed.
    pub(super) fn walk(&mut self, page: Duration, policy: Policy, format: &str) -> Result<()> {
        let Some(system) = &self.system else { return Ok(()) };
        let entry_bits = match format {
            _ if policy != Policy::QuickRemoval => return Ok(()),
            format if format.starts_with("fat32") => 32,
            format if format.starts_with("fat16") => 16,
            format if format.starts_with("fat12") => 12,
            _ => return Ok(()),
        };
        let clusters = system.space()?.total + 2;
        let pages = (clusters * entry_bits).div_ceil(8 * 4096);
        self.walk = page * u32::try_from(pages).unwrap_or(u32::MAX);
        Ok(())
    }

    pub(super) fn close(&mut self, open: Open) -> Result<()> {
        let flushes = open.is_changed && self.rules.at_close;
        if flushes && !self.walk.is_zero() {
            sync::sleep(self.walk);
        }
        match (open.place, open.file, &self.system) {
            (ItemPlace::Node(node), _, Some(system)) => {
                if flushes {
                    system.sync(node, SyncScope::All)?;
                }
                system.forget(node, 1);
            }
            (ItemPlace::Path(path), Some(file), _) if flushes => file.sync_all().map_err(failed(&path))?,
            _ => {}
        }
        Ok(())
    }

    /// Reads the attributes of every file of a folder, as a listing with sizes does; returns the number of files.
    pub(super) fn list(&mut self, folder: &ItemPlace) -> Result<u64> {
        let start = sync::now();
        let mut count = 0;
        match (folder, &self.system) {
            (ItemPlace::Node(node), Some(system)) => {
                let mut entries = Vec::new();
                system.read_directory(*node, Cursor::START, usize::MAX, &mut entries)?;
                count = entries.iter().filter(|entry| entry.attributes.kind == Kind::File).count() as u64;
            }
            (ItemPlace::Path(path), _) => {
                for entry in std::fs::read_dir(path).map_err(failed(path))? {
                    let data = entry.and_then(|entry| entry.metadata()).map_err(failed(path))?;
                    count += u64::from(data.is_file());
                }
            }
            (ItemPlace::Node(_), None) => unreachable!("nodes are of volumes"),
        }
        self.done.looks += count;
        self.done.latencies.record(since(start));
        Ok(count)
    }

    /// The size of a file by its name.
    pub(super) fn size(&mut self, folder: &ItemPlace, name: &str) -> Result<u64> {
        let start = sync::now();
        let size = match (folder, &self.system) {
            (ItemPlace::Node(node), Some(system)) => {
                let node = system.lookup(*node, &Name::from(name))?;
                let size = system.attributes(node)?.size;
                system.forget(node, 1);
                size
            }
            (ItemPlace::Path(path), _) => {
                let path = path.join(name);
                std::fs::metadata(&path).map_err(failed(&path))?.len()
            }
            (ItemPlace::Node(_), None) => unreachable!("nodes are of volumes"),
        };
        self.done.looks += 1;
        self.done.latencies.record(since(start));
        Ok(size)
    }

    pub(super) fn rename(&mut self, folder: &ItemPlace, name: &str, new: &str) -> Result<()> {
        let start = sync::now();
        match (folder, &self.system) {
            (ItemPlace::Node(node), Some(system)) => {
                system.rename(*node, &Name::from(name), *node, &Name::from(new), RenameFlags::default())?;
                if self.rules.at_change {
                    system.sync(*node, SyncScope::All)?;
                }
            }
            (ItemPlace::Path(path), _) => {
                std::fs::rename(path.join(name), path.join(new)).map_err(failed(path))?;
                if self.rules.at_change {
                    File::open(path).and_then(|folder| folder.sync_all()).map_err(failed(path))?;
                }
            }
            (ItemPlace::Node(_), None) => unreachable!("nodes are of volumes"),
        }
        self.done.changes += 1;
        self.done.latencies.record(since(start));
        Ok(())
    }

    /// Deletes a file as an operation of a load: timed, counted, and durable if the policy says so.
    pub(super) fn delete(&mut self, folder: &ItemPlace, name: &str) -> Result<()> {
        let start = sync::now();
        self.remove(folder, name)?;
        if self.rules.at_change {
            match (folder, &self.system) {
                (ItemPlace::Node(node), Some(system)) => system.sync(*node, SyncScope::All)?,
                (ItemPlace::Path(path), _) => {
                    File::open(path).and_then(|folder| folder.sync_all()).map_err(failed(path))?;
                }
                (ItemPlace::Node(_), None) => unreachable!("nodes are of volumes"),
            }
        }
        self.done.changes += 1;
        self.done.latencies.record(since(start));
        Ok(())
    }

    pub(super) fn remove(&self, folder: &ItemPlace, name: &str) -> Result<()> {
        match (folder, &self.system) {
            (ItemPlace::Node(node), Some(system)) => Ok(system.unlink(*node, &Name::from(name))?),
            (ItemPlace::Path(path), _) => {
                let path = path.join(name);
                std::fs::remove_file(&path).map_err(failed(&path))
            }
            (ItemPlace::Node(_), None) => unreachable!("nodes are of volumes"),
        }
    }

    /// Makes everything that was written durable.
    pub(super) fn sync(&self) -> Result<()> {
        match (&self.system, &self.root) {
            (Some(system), _) => Ok(system.sync_all()?),
            (None, ItemPlace::Path(path)) => host::sync_file_system(path, false).map_err(failed(path)),
            (None, ItemPlace::Node(_)) => unreachable!("nodes are of volumes"),
        }
    }

    /// Drops a synced file from the host's page cache, so that reads go to the storage as on a machine with little
    /// memory. Volumes of Platter do not cache file data.
    pub(super) fn forget_content(&self, folder: &ItemPlace, name: &str) -> Result<()> {
        match folder {
            ItemPlace::Path(path) => forget(&path.join(name)),
            ItemPlace::Node(_) => Ok(()),
        }
    }

    /// Drops the block device from the page cache, for a FUSE program that serves a file system by reading the device
    /// through it.
    pub(super) fn forget_block(&self) -> Result<()> {
        self.block.as_deref().map_or(Ok(()), forget)
    }

    /// The number of free bytes, and the allocation unit in bytes.
    pub(super) fn free(&self) -> Result<(u64, u64)> {
        match (&self.system, &self.root) {
            (Some(system), _) => {
                let space = system.space()?;
                Ok((space.free * space.cluster, space.cluster))
            }
            (None, ItemPlace::Path(path)) => host::free_space(path).map_err(failed(path)),
            (None, ItemPlace::Node(_)) => unreachable!("nodes are of volumes"),
        }
    }

    /// The number of pieces (extents) of a file, where that can be determined.
    pub(super) fn pieces(&self, open: &Open) -> Result<Option<usize>> {
        match (&open.place, &self.system) {
            (ItemPlace::Node(node), Some(system)) => Ok(Some(system.extents(*node)?.len())),
            _ => Ok(None),
        }
    }

    /// Returns the operations since the last call.
    pub(super) fn take_done(&mut self) -> Done {
        std::mem::take(&mut self.done)
    }
}

fn forget(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(failed(path))?;
    host::forget_cached(&file).map_err(failed(path))
}

/// The time since then, which in virtual time is that of the model.
pub(super) fn since(then: Instant) -> Duration {
    sync::now().duration_since(then)
}

/// Runs a function and measures how long it takes.
pub(super) fn time<T>(act: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let start = sync::now();
    let value = act()?;
    Ok((value, since(start)))
}
