//! The traits that a format implements to be a [`crate::Volume`]: its directory entries, its directories, and how it
//! allocates and links clusters.

use super::Core;
use crate::{FileState, Images, Runs, Slots};
use platter_device::Device;
use platter_vfs::{
    Capabilities, Damage, DosFlags, Kind, LocalTime, Name, NameRules, Result, Timestamp, VolumeInfo,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The directory entry of a file or directory: everything but its name.
pub trait DirectoryEntry: Clone + PartialEq + Send + 'static {
    /// Whether the entry is that of a directory.
    fn is_directory(&self) -> bool;

    /// The first cluster; 0 if there is none.
    fn cluster(&self) -> u32;

    /// The size of a file's content in bytes.
    fn size(&self) -> u64;

    /// The attribute flags that users see and set.
    fn flags(&self) -> DosFlags;

    /// Sets the attribute flags that users can set; others are ignored.
    fn set_flags(&mut self, flags: DosFlags);

    /// Returns the times of creation, modification and access, where the format stores them. `offset` is the number of
    /// minutes by which local time is ahead of UTC.
    fn times(&self, local: LocalTime) -> [Option<Timestamp>; 3];

    /// Sets those of the times of creation, modification and access that are given.
    fn set_times(&mut self, times: [Option<Timestamp>; 3], local: LocalTime);
}

/// A directory in memory: its slots and an index of its names. An entry is identified by a slot number, its key.
pub trait Directory: Send + 'static {
    /// The type of its entries: attributes, size, first cluster and times.
    type Entry: DirectoryEntry;

    /// The slots of the directory.
    fn slots(&self) -> &Slots;

    /// Whether it has no entries, so that it may be removed.
    fn is_empty(&self) -> bool {
        self.slots().is_empty()
    }

    /// The damage in the directory, because of which entries are missing in listings.
    fn damage(&self) -> Option<&Damage>;

    /// The slots of the directory, to change them.
    fn slots_mut(&mut self) -> &mut Slots;

    /// Returns the key of the entry with this name.
    fn find(&self, name: &Name) -> Option<u32>;

    /// Returns the key of the entry that has this name as its short one, beside another name under which it is found. It
    /// must get another short name before a new entry can have the name.
    fn find_short(&self, _name: &Name) -> Option<u32> {
        None
    }

    /// Returns the entry with this key.
    fn entry(&self, key: u32) -> Self::Entry;

    /// Returns the name of the entry with this key.
    fn name(&self, key: u32) -> Name;

    /// Changes the entry with this key, whose name stays. Returns its key, which is a new one if the entry had to move.
    fn update(&mut self, key: u32, entry: &Self::Entry) -> u32;

    /// Returns the number of slots that a new entry with this name needs. The slots of the entry with key `but` count
    /// as free.
    ///
    /// # Errors
    /// If the directory cannot have an entry with this name.
    fn slots_for(&self, name: &Name, entry: &Self::Entry, but: Option<u32>) -> Result<usize>;

    /// Adds an entry for which there is room, and returns its key. The slots of the entry with key `but` count as free.
    ///
    /// # Errors
    /// Those of [`Directory::slots_for`].
    fn insert(&mut self, name: &Name, entry: &Self::Entry, but: Option<u32>) -> Result<u32>;

    /// Removes an entry from the index now, and from the disk with the next commit.
    fn remove(&mut self, key: u32);

    /// Reverts the removal of an entry with exactly this name, if it has not been committed. Returns the key of the
    /// entry.
    fn revive(&mut self, name: &Name) -> Option<u32>;

    /// Takes the sectors that a commit is to write, and erases the removed entries in memory.
    fn take_images(&mut self) -> crate::DirectoryImages;
}

/// The place of a file's content, as a format reads it from disk.
#[derive(Default)]
pub struct ContentRuns {
    /// The clusters, without those behind the size unless these were asked for.
    pub runs: Runs,
    /// The size in bytes.
    pub size: u64,
    /// The valid data length in bytes; equal to the size if the format stores none.
    pub valid: u64,
}

/// A format: its entries, and how it allocates and links clusters. State that it needs beyond the [`Core`] is in the
/// implementing type.
pub trait Family: Send + Sized + 'static {
    /// The type of a directory entry.
    type Entry: DirectoryEntry;
    /// The type of a directory in memory.
    type Directory: Directory<Entry = Self::Entry>;

    /// Whether a file can have allocated clusters that are not written and read as zeroes (a valid data length). If
    /// not, they are zeroed when they are allocated.
    const UNWRITTEN: bool;

    /// Which slot of a file's entry gives the file its node number, counted from the key. No directory has it as the first
    /// slot of its first cluster, which gives a directory its number.
    const NUMBERED_SLOT: u64;

    /// Opens a volume: reads its metadata and makes its core. With `read_only`, what only writes rely on need not be read.
    ///
    /// # Errors
    /// [`Error::NotThisFormat`](platter_vfs::Error::NotThisFormat) and [`Error::Damaged`](platter_vfs::Error::Damaged)
    /// if the first structures are not valid, and the errors of reading.
    fn open(device: Arc<dyn Device>, read_only: bool) -> Result<Core<Self>>;

    /// The format's name, for messages.
    fn name(&self) -> &'static str;

    /// The features and limits of the volume.
    fn capabilities(&self) -> Capabilities;

    /// Returns label, identifier and other facts of the volume.
    ///
    /// # Errors
    /// The errors of reading.
    fn info(core: &mut Core<Self>) -> Result<VolumeInfo>;

    /// Changes the label; an empty one removes it. The caller has made sure that the volume is writable.
    ///
    /// # Errors
    /// [`Error::InvalidName`](platter_vfs::Error::InvalidName), [`Error::NoSpace`](platter_vfs::Error::NoSpace) and the
    /// errors of reading.
    fn set_label(core: &mut Core<Self>, label: &str) -> Result<()>;

    /// Reads a directory.
    ///
    /// # Errors
    /// [`Error::Damaged`](platter_vfs::Error::Damaged) and the errors of reading.
    fn read_directory(core: &mut Core<Self>, number: u64) -> Result<Self::Directory>;

    /// Fails if the entry of a directory is not valid.
    ///
    /// # Errors
    /// [`Error::Damaged`](platter_vfs::Error::Damaged).
    fn check_directory(&self, entry: &Self::Entry) -> Result<()>;

    /// Returns the entry of a new file or directory, without clusters.
    fn new_entry(&self, kind: Kind, now: Timestamp, local: LocalTime) -> Self::Entry;

    /// Returns the content of a new directory with this one cluster, in the directory `parent`, and sets the cluster in
    /// the directory's `entry`. The caller writes the slots to disk.
    ///
    /// # Errors
    /// The errors of reading.
    fn fresh_directory(
        core: &mut Core<Self>,
        cluster: u32,
        entry: &mut Self::Entry,
        parent: u64,
    ) -> Result<Self::Directory>;

    /// Updates a directory that was moved to another parent (FAT: its `..` entry).
    ///
    /// # Errors
    /// The errors of reading.
    fn moved_directory(core: &mut Core<Self>, number: u64) -> Result<()>;

    /// Returns the number of clusters of a directory, in memory or not.
    fn directory_clusters(core: &mut Core<Self>, entry: &Self::Entry) -> u32;

    /// The largest directory in bytes.
    fn largest_directory(&self) -> u64;

    /// Returns the place of the content of the file or directory with this entry. With `whole`, the clusters behind its
    /// size are included.
    ///
    /// # Errors
    /// [`Error::Damaged`](platter_vfs::Error::Damaged) and the errors of reading.
    fn content(core: &mut Core<Self>, entry: &Self::Entry, whole: bool) -> Result<ContentRuns>;

    /// Links the clusters with index `linked` to `to` (exclusive) of `runs` to the ones before them, with the next
    /// commit.
    ///
    /// # Errors
    /// The errors of reading.
    fn link(core: &mut Core<Self>, entry: &mut Self::Entry, runs: &Runs, linked: u32, to: u32) -> Result<()>;

    /// Whether the last of the file's clusters is to be marked as the end of a chain; false for a file without a chain.
    fn is_chain(_entry: &Self::Entry) -> bool {
        true
    }

    /// Frees what a removed entry had besides its clusters.
    fn removed(_core: &mut Core<Self>, _entry: &Self::Entry) {}

    /// Updates an entry with the size and first cluster of its file, whose clusters are linked.
    fn record(entry: &mut Self::Entry, state: &FileState);

    /// Updates a directory's entry with its clusters, which are linked.
    fn record_directory(core: &mut Core<Self>, number: u64, runs: &Runs);

    /// About how many bytes of changes wait for a commit besides those of directories.
    fn backlog(&self) -> usize;

    /// Sets or clears the marks of a volume in use (dirty), and returns the sectors with those marks, to be written at
    /// once.
    ///
    /// # Errors
    /// The errors of reading.
    fn mark(core: &mut Core<Self>, in_use: bool) -> Result<Images>;

    /// Whether anything but the marks and directories changed.
    fn is_changed(&self) -> bool;

    /// Returns the changed sectors by which clusters come into use (table or bitmap), without those of
    /// [`Family::grown`].
    ///
    /// # Errors
    /// The errors of reading.
    fn linked(core: &mut Core<Self>) -> Result<Images>;

    /// Returns the changed sectors that link directories to their new clusters, which must not be on disk before the
    /// clusters are zeroed.
    ///
    /// # Errors
    /// The errors of reading.
    fn grown(core: &mut Core<Self>) -> Result<Images>;

    /// Returns the sectors that change together with names, besides those of directories, such as a label in the boot
    /// sector.
    fn named(core: &mut Core<Self>) -> Images;

    /// Returns the changed sectors by which clusters go out of use, and by which the clusters in `ends` become the ends
    /// of their chains.
    ///
    /// # Errors
    /// The errors of reading.
    fn freed(core: &mut Core<Self>, freed: &[(u32, u32)], ends: &BTreeSet<u32>) -> Result<Images>;

    /// Returns the sector with the count of free clusters, if it has to change.
    fn counted(core: &mut Core<Self>) -> Images;
}

/// The capabilities of a format that has only files in clusters and names in slots: files of at most `largest` bytes,
/// and modification and access times of these precisions.
pub fn capabilities(largest: u64, modified: Duration, accessed: Duration) -> Capabilities {
    Capabilities {
        largest_file: largest,
        names: NameRules::WINDOWS,
        modified_precision: modified,
        created_precision: Some(Duration::from_millis(10)),
        accessed_precision: Some(accessed),
        hard_links: false,
        symbolic_links: false,
        streams: false,
        extended_attributes: false,
        sparse: false,
        // Other drivers treat clusters behind a file's end as damage.
        preallocate: false,
        integrity: false,
        clone: false,
        // Two entries in different sectors cannot be exchanged without a moment in which one file has no name on disk.
        exchange: false,
        recovers: false,
    }
}
