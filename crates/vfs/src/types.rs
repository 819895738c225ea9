//! The types that all file systems share.

use crate::{Error, NameRules, Result};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The number of a file, directory or stream, unique on a volume while it is open. The root's is [`Node::ROOT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u64);

impl Node {
    /// The root directory, on every format (1, as in FUSE).
    pub const ROOT: Node = Node(1);
}

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A file, which holds bytes.
    File,
    /// A directory, which holds the names of other nodes.
    Directory,
    /// A symbolic link, which holds a path.
    SymbolicLink,
}

/// A point in time: seconds since 1970-01-01 00:00 UTC and nanoseconds (0 to 999,999,999) after that. A format with a
/// coarser precision rounds down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Whole seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds after `seconds`.
    pub nanoseconds: u32,
}

/// Seconds from 1601 to 1970.
const TO_1970: i64 = 11_644_473_600;

impl Timestamp {
    /// A time as Windows counts it: units of 100 ns since 1601-01-01 00:00 UTC ([MS-DTYP] 2.3.3).
    pub fn from_file_time(units: u64) -> Timestamp {
        Timestamp {
            seconds: (units / 10_000_000) as i64 - TO_1970,
            nanoseconds: (units % 10_000_000) as u32 * 100,
        }
    }

    /// The time in units of 100 ns since 1601, rounded down and limited to the range from 0 to `latest`.
    pub fn to_file_time(self, latest: u64) -> u64 {
        let seconds = i128::from(self.seconds) + i128::from(TO_1970);
        let units = seconds * 10_000_000 + i128::from(self.nanoseconds / 100);
        units.clamp(0, i128::from(latest)) as u64
    }
}

impl Timestamp {
    /// The time as the standard library represents it; `None` if that cannot hold it.
    pub fn to_system_time(self) -> Option<SystemTime> {
        let part = Duration::from_nanos(u64::from(self.nanoseconds));
        let whole = Duration::from_secs(self.seconds.unsigned_abs());
        let second = match self.seconds < 0 {
            true => UNIX_EPOCH.checked_sub(whole),
            false => UNIX_EPOCH.checked_add(whole),
        };
        second?.checked_add(part)
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Timestamp {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Timestamp::from(after),
            Err(before) => {
                // `nanoseconds` counts forward, so a fraction before 1970 belongs to the whole second before it.
                let before = before.duration();
                let part = before.subsec_nanos();
                let whole = -(before.as_secs() as i64);
                if part == 0 {
                    Timestamp { seconds: whole, nanoseconds: 0 }
                } else {
                    Timestamp { seconds: whole - 1, nanoseconds: 1_000_000_000 - part }
                }
            }
        }
    }
}

impl From<Duration> for Timestamp {
    fn from(since_1970: Duration) -> Timestamp {
        Timestamp { seconds: since_1970.as_secs() as i64, nanoseconds: since_1970.subsec_nanos() }
    }
}

/// The attribute flags that all Windows formats share, with their common on-disk values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DosFlags(pub u32);

impl DosFlags {
    /// The file must not be changed or deleted.
    pub const READ_ONLY: DosFlags = DosFlags(0x01);
    /// The file is not listed by default.
    pub const HIDDEN: DosFlags = DosFlags(0x02);
    /// The file belongs to the operating system.
    pub const SYSTEM: DosFlags = DosFlags(0x04);
    /// The file was changed since the last backup.
    pub const ARCHIVE: DosFlags = DosFlags(0x20);
    /// The flags that a user can set.
    pub const SETTABLE: DosFlags = DosFlags(0x27);

    /// Whether every flag of `other` is set here.
    pub fn contains(self, other: DosFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The metadata of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The kind of the node.
    pub kind: Kind,
    /// Size of the content in bytes; 0 for a directory.
    pub size: u64,
    /// Bytes taken on the volume: whole clusters, or those of the metadata record that the content is in. A file that has
    /// content, and is not all hole, takes some.
    pub allocated: u64,
    /// The number of names that lead to the node.
    pub links: u32,
    /// The attribute flags.
    pub flags: DosFlags,
    /// When the node was created, where the format stores that.
    pub created: Option<Timestamp>,
    /// When the content last changed.
    pub modified: Timestamp,
    /// When the content was last read, where the format stores that.
    pub accessed: Option<Timestamp>,
    /// When the attributes last changed, where the format stores that.
    pub changed: Option<Timestamp>,
}

/// New values for attributes; `None` leaves an attribute as it is. A time that the format does not store is ignored;
/// one outside the format's range is set to the nearest that the format can hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// New size: a shorter one truncates the file, a longer one extends it by zeroes.
    pub size: Option<u64>,
    /// New flags; those that are not [`DosFlags::SETTABLE`] are ignored.
    pub flags: Option<DosFlags>,
    /// New creation time.
    pub created: Option<Timestamp>,
    /// New modification time.
    pub modified: Option<Timestamp>,
    /// New access time.
    pub accessed: Option<Timestamp>,
}

/// A position in a directory from which a listing can continue, even after entries were added or removed. An entry that
/// exists from the beginning to the end of the listing is listed exactly once. [`Cursor::START`] is before the first
/// entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor(pub u64);

impl Cursor {
    /// The position before the first entry.
    pub const START: Cursor = Cursor(0);
}

/// One line of a listing. "." and ".." are never listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name of the entry.
    pub name: crate::Name,
    /// The node that [`lookup`](crate::Names::lookup) would return, where the directory alone tells it. The
    /// listing does not count as a hand-out of the node.
    pub node: Option<Node>,
    /// The attributes of the node, as far as the directory stores them.
    pub attributes: Attributes,
    /// The position at which the listing continues after this entry.
    pub next: Cursor,
}

/// The place of a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the device, from this offset in bytes on.
    Device(u64),
    /// A hole, without clusters: reads as zeroes.
    Hole,
    /// Allocated from this device offset, but reads as zeroes until written.
    Unwritten(u64),
    /// On the device in compressed form, which takes fewer clusters.
    Compressed,
    /// Inside a metadata record.
    Resident,
}

/// A contiguous part of a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// The place of the content.
    pub place: Place,
}

impl Extent {
    /// The part of the extent in a range of the file, if there is one.
    pub fn within(self, range: &std::ops::Range<u64>) -> Option<Extent> {
        let start = self.offset.max(range.start);
        let end = self.offset.saturating_add(self.length).min(range.end);
        let ahead = start - self.offset;
        let place = match self.place {
            Place::Device(at) => Place::Device(at.saturating_add(ahead)),
            Place::Unwritten(at) => Place::Unwritten(at.saturating_add(ahead)),
            place => place,
        };
        (start < end).then(|| Extent { offset: start, length: end - start, place })
    }
}

/// A named stream of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStream {
    /// The name of the stream, without the colon.
    pub name: crate::Name,
    /// The size of the stream in bytes.
    pub size: u64,
}

/// A reparse point: data on a file or directory that gives it another meaning to programs that understand its tag, such
/// as a symbolic link or a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reparse {
    /// The Windows reparse tag, which tells the meaning of the data; never 0.
    pub tag: u32,
    /// The data for the tag, at most 16 KiB: the bytes after tag and length in a Windows `REPARSE_DATA_BUFFER`.
    pub data: Vec<u8>,
}

/// The checksum settings of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integrity {
    /// Whether new data gets checksums (for a directory: whether new entries inherit that).
    pub enabled: bool,
    /// Whether a read that finds damage fails (true) or returns the damaged data (false).
    pub enforced: bool,
}

/// What a rename does with an entry that already has the new name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameFlags {
    /// Replaces that entry, if both are files or that entry is an empty directory.
    #[default]
    Replace,
    /// Fails with [`crate::Error::Exists`].
    NoReplace,
    /// Exchanges the two entries.
    Exchange,
}

/// What must survive a power cut when `sync` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncScope {
    /// The content and what is needed to find it (size, extents), as `fdatasync(2)`.
    Data,
    /// All of the node, as `fsync(2)`.
    All,
}

/// The space on a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes per cluster.
    pub cluster: u64,
    /// All clusters of the volume.
    pub total: u64,
    /// Clusters that are free.
    pub free: u64,
    /// The part of the free clusters that is reserved for metadata, so that a full volume can still be changed; file
    /// data cannot have these clusters.
    pub reserved: u64,
}

/// The features and limits of a format; the methods of a missing feature return [`crate::Error::Unsupported`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The largest file in bytes.
    pub largest_file: u64,
    /// The rules for names.
    pub names: NameRules,
    /// Precision of the modification time.
    pub modified_precision: Duration,
    /// Precision of the creation time; `None` if the format stores none.
    pub created_precision: Option<Duration>,
    /// Precision of the access time; `None` if the format stores none.
    pub accessed_precision: Option<Duration>,
    /// Whether a file can have several names.
    pub hard_links: bool,
    /// Whether there are symbolic links.
    pub symbolic_links: bool,
    /// Whether there are named streams.
    pub streams: bool,
    /// Whether there are extended attributes.
    pub extended_attributes: bool,
    /// Whether files can have holes, and holes can be punched.
    pub sparse: bool,
    /// Whether clusters can be allocated ahead of writing.
    pub preallocate: bool,
    /// Whether file data can have checksums.
    pub integrity: bool,
    /// Whether several files can share clusters.
    pub clone: bool,
    /// Whether a rename can exchange two entries.
    pub exchange: bool,
    /// Whether opening a volume that was not cleanly unmounted makes it consistent, by replaying a log or because
    /// nothing in use is ever overwritten. Where this is false, writing to such a volume before a check may destroy
    /// files.
    pub recovers: bool,
}

/// The label, identifier and other facts of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// The format's name with its version, for example "FAT32" or "ReFS 3.14".
    pub format: String,
    /// The label; empty if there is none.
    pub label: String,
    /// Serial number or identifier, as the format's own tools print it.
    pub identifier: String,
    /// Bytes per cluster.
    pub cluster: u64,
    /// Whether the volume was not cleanly unmounted.
    pub dirty: bool,
    /// Why nothing can be written to the volume, if that is so.
    pub read_only: Option<String>,
    /// What was found damaged since the volume was opened, and does not keep it from being used.
    pub damage: Vec<String>,
    /// Whether the volume says that its medium has failed before.
    pub has_media_failures: bool,
    /// The name of the algorithm of the metadata's checksums, if the format has any.
    pub metadata_checksum: Option<&'static str>,
    /// The newest checkpoint, if the format has any.
    pub checkpoint: Option<CheckpointId>,
    /// Further facts in the format's terms, to be shown: name and value.
    pub details: Vec<(&'static str, String)>,
}

impl VolumeInfo {
    /// All facts beside the first five, to be shown: name and value.
    pub fn shown(&self) -> Vec<(&'static str, String)> {
        let mut shown = self.details.clone();
        shown.extend(self.metadata_checksum.map(|name| ("metadata checksum", name.to_string())));
        shown.extend(self.checkpoint.map(|checkpoint| ("checkpoint", checkpoint.to_string())));
        shown.extend(self.has_media_failures.then(|| ("media", "failures were met".to_string())));
        shown.extend(self.read_only.iter().map(|why| ("read-only", why.clone())));
        shown.extend(self.damage.iter().map(|one| ("damage", one.clone())));
        shown
    }
}

/// What tells one checkpoint of a volume from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointId {
    /// The number of the checkpoint: each has a greater one than that before.
    pub clock: u64,
    /// A checksum of all metadata. The clock alone can be the same on two copies of a volume that were changed
    /// independently.
    pub roots: u32,
}

impl fmt::Display for CheckpointId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}, roots {:08x}", self.clock, self.roots)
    }
}

/// Receives the progress of a long operation, and says when it is to end before it is complete.
pub trait Progress: Sync {
    /// `done` of `total` units of the step `what` are complete.
    fn progress(&self, what: &'static str, done: u64, total: u64);

    /// Whether the operation is to end at its next safe point. Once true, this stays true.
    fn is_stopped(&self) -> bool {
        false
    }

    /// Reports progress at a safe point.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the operation is to end here.
    fn step(&self, what: &'static str, done: u64, total: u64) -> Result<()> {
        self.progress(what, done, total);
        if self.is_stopped() { Err(Error::Stopped) } else { Ok(()) }
    }
}

/// A [`Progress`] that ignores every report.
pub struct Silent;

impl Progress for Silent {
    fn progress(&self, _what: &'static str, _done: u64, _total: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_windows() {
        assert_eq!(Timestamp::default().to_file_time(u64::MAX), 116_444_736_000_000_000);
        for units in [0, 1, 116_444_736_000_000_000, 133_000_000_000_000_001] {
            assert_eq!(Timestamp::from_file_time(units).to_file_time(u64::MAX), units);
        }
        // Windows' own times are in units of 100 ns.
        const UNIT: u32 = if cfg!(windows) { 100 } else { 1 };
        for (seconds, nanoseconds) in [(0, 0), (1_000_000_000, 5), (-1, 0), (-1, 999_999_999), (-86_400, 1)] {
            let time = Timestamp { seconds, nanoseconds };
            let kept = Timestamp { seconds, nanoseconds: nanoseconds / UNIT * UNIT };
            assert_eq!(Timestamp::from(time.to_system_time().unwrap()), kept);
        }
        let at = |seconds| Timestamp { seconds, nanoseconds: 0 };
        assert_eq!((at(i64::MIN).to_file_time(u64::MAX), at(i64::MAX).to_file_time(7)), (0, 7));
    }
}
