//! What a format must say of itself to be a [`crate::Volume`]: its entries, its directories, and how it takes and links
//! clusters.

use super::Core;
use crate::{FileState, Images, Runs, Slots};
use platter_device::Device;
use platter_vfs::{Capabilities, Damage, DosFlags, Kind, Name, NameRules, Result, Timestamp, VolumeInfo};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// What a directory says of a file or directory: everything but its name.
pub trait DirectoryEntry: Clone + PartialEq + Send + 'static {
    /// Whether it is a directory.
    fn is_directory(&self) -> bool;

    /// First cluster; 0 if there is none.
    fn cluster(&self) -> u32;

    /// Size of a file's content in bytes.
    fn size(&self) -> u64;

    /// The flags that users see and set.
    fn flags(&self) -> DosFlags;

    /// Sets those flags; others are ignored.
    fn set_flags(&mut self, flags: DosFlags);

    /// Creation, modification and access, where the format keeps them. `offset` is how many minutes local time is
    /// ahead of UTC.
    fn times(&self, offset: i32) -> [Option<Timestamp>; 3];

    /// Sets creation, modification and access, those that are given.
    fn set_times(&mut self, times: [Option<Timestamp>; 3], offset: i32);
}

/// A directory in memory: its slots and an index of its names. An entry is known by a slot, its key.
pub trait Directory: Send + 'static {
    /// A file or directory in it: name, attributes, size, first cluster and times.
    type Entry: DirectoryEntry;

    /// Its slots.
    fn slots(&self) -> &Slots;

    /// Whether it holds no names, so that it may be removed.
    fn is_empty(&self) -> bool {
        self.slots().is_empty()
    }

    /// What stands in it that could not be read, and is missing in listings.
    fn damage(&self) -> Option<&Damage>;

    /// Its slots, for a change.
    fn slots_mut(&mut self) -> &mut Slots;

    /// The key of the entry that a name leads to.
    fn find(&self, name: &Name) -> Option<u32>;

    /// The entry with a key.
    fn entry(&self, key: u32) -> Self::Entry;

    /// The name of the entry with a key.
    fn name(&self, key: u32) -> Name;

    /// Changes the entry with a key, whose name stays. Returns its key, which is another one if it had to move.
    fn update(&mut self, key: u32, entry: &Self::Entry) -> u32;

    /// How many slots a new entry of this name takes. What the entry with key `but` has counts as free.
    ///
    /// # Errors
    /// If the directory can have none of this name.
    fn slots_for(&self, name: &Name, entry: &Self::Entry, but: Option<u32>) -> Result<usize>;

    /// Adds an entry of a name for which there is room, and returns its key. What the entry with key `but` has counts
    /// as free.
    ///
    /// # Errors
    /// As [`Directory::slots_for`].
    fn insert(&mut self, name: &Name, entry: &Self::Entry, but: Option<u32>) -> Result<u32>;

    /// Removes an entry from the index now, and from the disk with the next commit.
    fn remove(&mut self, key: u32);

    /// Takes back the removal of an entry of exactly this name, if one waits. Returns its key.
    fn revive(&mut self, name: &Name) -> Option<u32>;

    /// Takes what a commit is to write, and carries out the removals in memory.
    fn take_images(&mut self) -> crate::DirectoryImages;
}

/// Where a file's content lies, as a format reads it from disk.
#[derive(Default)]
pub struct ContentRuns {
    /// Its clusters, those behind its size aside.
    pub runs: Runs,
    /// Its size in bytes.
    pub size: u64,
    /// How many of them are written; the size, if the format does not tell.
    pub valid: u64,
}

/// A format: its entries, and how it takes and links clusters. What it needs beyond the [`Core`] it keeps in itself.
pub trait Family: Send + Sized + 'static {
    /// What a directory says of what it holds.
    type Entry: DirectoryEntry;
    /// A directory in memory.
    type Directory: Directory<Entry = Self::Entry>;

    /// Whether clusters can be a file's that are not written and read as zeroes. If not, they are zeroed.
    const UNWRITTEN: bool;

    /// Reads what an open volume needs.
    ///
    /// # Errors
    /// [`Error::NotThisFormat`](platter_vfs::Error::NotThisFormat) and
    /// [`Error::Damaged`](platter_vfs::Error::Damaged) if what the device begins with makes no sense, and what reading
    /// gives.
    fn open(device: Arc<dyn Device>) -> Result<Core<Self>>;

    /// The format's name, for messages.
    fn name(&self) -> &'static str;

    /// What volumes of this kind can do.
    fn capabilities(&self) -> Capabilities;

    /// What the volume says of itself.
    ///
    /// # Errors
    /// What reading gives.
    fn info(core: &mut Core<Self>) -> Result<VolumeInfo>;

    /// Changes the label; an empty one removes it. The volume is writable.
    ///
    /// # Errors
    /// [`Error::InvalidName`](platter_vfs::Error::InvalidName),
    /// [`Error::NoSpace`](platter_vfs::Error::NoSpace) and what reading gives.
    fn set_label(core: &mut Core<Self>, label: &str) -> Result<()>;

    /// Reads a directory.
    ///
    /// # Errors
    /// [`Error::Damaged`](platter_vfs::Error::Damaged) and what reading gives.
    fn read_directory(core: &mut Core<Self>, number: u64) -> Result<Self::Directory>;

    /// Refuses the entry of a directory that cannot be one.
    ///
    /// # Errors
    /// [`Error::Damaged`](platter_vfs::Error::Damaged).
    fn check_directory(&self, entry: &Self::Entry) -> Result<()>;

    /// The entry of something new, without clusters.
    fn new_entry(&self, kind: Kind, now: Timestamp, offset: i32) -> Self::Entry;

    /// A new directory with this one cluster, below the one whose number is `parent`: its entry is told of the
    /// cluster. The slots in memory are written to disk by whoever calls.
    ///
    /// # Errors
    /// What reading gives.
    fn fresh_directory(
        core: &mut Core<Self>,
        cluster: u32,
        entry: &mut Self::Entry,
        parent: u64,
    ) -> Result<Self::Directory>;

    /// A directory that was moved to another parent.
    ///
    /// # Errors
    /// What reading gives.
    fn moved_directory(core: &mut Core<Self>, number: u64) -> Result<()>;

    /// The clusters of a directory, in memory or not, counted.
    fn directory_clusters(core: &mut Core<Self>, entry: &Self::Entry) -> u32;

    /// The most bytes that a directory may have.
    fn largest_directory(&self) -> u64;

    /// Where the content of the file or directory with this entry is. With `whole`, all clusters that are its own,
    /// also those behind its size.
    ///
    /// # Errors
    /// [`Error::Damaged`](platter_vfs::Error::Damaged) and what reading gives.
    fn content(core: &mut Core<Self>, entry: &Self::Entry, whole: bool) -> Result<ContentRuns>;

    /// Makes the clusters from number `linked` to number `to` on disk those of a file or directory that has the ones
    /// before them, with the next commit.
    ///
    /// # Errors
    /// What reading gives.
    fn link(core: &mut Core<Self>, entry: &mut Self::Entry, runs: &Runs, linked: u32, to: u32) -> Result<()>;

    /// Whether the last of a file's clusters is to be marked as the end of a chain.
    fn is_chain(_entry: &Self::Entry) -> bool {
        true
    }

    /// Gives up what an entry that is gone had besides its clusters.
    fn removed(_core: &mut Core<Self>, _entry: &Self::Entry) {}

    /// Tells an entry of its file's content, whose clusters are linked.
    fn record(entry: &mut Self::Entry, state: &FileState);

    /// Tells a directory's entry that it has these clusters, which are linked.
    fn record_directory(core: &mut Core<Self>, number: u64, runs: &Runs);

    /// Bytes of changes that wait besides those of directories, about.
    fn backlog(&self) -> usize;

    /// Sets or clears the marks of a volume in use, and returns the sectors that hold them as they are to be now.
    ///
    /// # Errors
    /// What reading gives.
    fn mark(core: &mut Core<Self>, in_use: bool) -> Result<Images>;

    /// Whether more than marks and directories changed.
    fn is_changed(&self) -> bool;

    /// What says that clusters came into use, but for [`Family::grown`].
    ///
    /// # Errors
    /// What reading gives.
    fn linked(core: &mut Core<Self>) -> Result<Images>;

    /// Links to clusters that directories got, which must not be on disk before the clusters are zero.
    ///
    /// # Errors
    /// What reading gives.
    fn grown(core: &mut Core<Self>) -> Result<Images>;

    /// What changes together with names, besides directories.
    fn named(core: &mut Core<Self>) -> Images;

    /// What says that clusters went out of use, and that some end their chain now.
    ///
    /// # Errors
    /// What reading gives.
    fn freed(core: &mut Core<Self>, freed: &[(u32, u32)], ends: &BTreeSet<u32>) -> Result<Images>;

    /// What keeps count of free clusters, if it has to change after others did.
    fn counted(core: &mut Core<Self>) -> Images;
}

/// What volumes can do whose files are clusters and names in slots, and nothing besides: files of at most `largest`
/// bytes, with times that are multiples of these.
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
        // Clusters behind a file's end are damage to other drivers.
        preallocate: false,
        integrity: false,
        clone: false,
        // Two entries in different sectors cannot change places without a moment in which one file has no name.
        exchange: false,
        recovers: false,
    }
}
