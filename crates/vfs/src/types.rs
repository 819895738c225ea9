//! The words that all file systems share.

use crate::NameRules;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The number of a file, directory or stream, unique on a volume while it is open. The root's is [`Node::ROOT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u64);

impl Node {
    /// The root directory, on every format (1, as in FUSE).
    pub const ROOT: Node = Node(1);
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It holds bytes.
    File,
    /// It holds names of other nodes.
    Directory,
    /// It holds a path.
    SymbolicLink,
}

/// A point in time: seconds since 1970-01-01 00:00 UTC and nanoseconds (0 to 999,999,999) after that.
/// Formats store what their precision holds and round down.
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

    /// The same units, rounded down; a time before 1601 becomes 0, one after `latest` that.
    pub fn to_file_time(self, latest: u64) -> u64 {
        let seconds = i128::from(self.seconds) + i128::from(TO_1970);
        let units = seconds * 10_000_000 + i128::from(self.nanoseconds / 100);
        units.clamp(0, i128::from(latest)) as u64
    }
}

impl Timestamp {
    /// The time in the standard library's form, where that can hold it.
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
                // Nanoseconds count forward from the second before.
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
    /// Not to be changed or deleted.
    pub const READ_ONLY: DosFlags = DosFlags(0x01);
    /// Not listed by default.
    pub const HIDDEN: DosFlags = DosFlags(0x02);
    /// Belongs to the operating system.
    pub const SYSTEM: DosFlags = DosFlags(0x04);
    /// Changed since the last backup.
    pub const ARCHIVE: DosFlags = DosFlags(0x20);
    /// The flags a user can set.
    pub const SETTABLE: DosFlags = DosFlags(0x27);

    /// Whether every flag of `other` is set here.
    pub fn contains(self, other: DosFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What is known about a node besides its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// What it is.
    pub kind: Kind,
    /// Size of the content in bytes; 0 for a directory.
    pub size: u64,
    /// Bytes taken on the volume, in whole clusters.
    pub allocated: u64,
    /// How many names lead to it.
    pub links: u32,
    /// Flags.
    pub flags: DosFlags,
    /// When it was created, where the format keeps that.
    pub created: Option<Timestamp>,
    /// When its content last changed.
    pub modified: Timestamp,
    /// When its content was last read, where the format keeps that.
    pub accessed: Option<Timestamp>,
    /// When its attributes last changed, where the format keeps that.
    pub changed: Option<Timestamp>,
}

/// New values for attributes; `None` leaves one as it is. A time that the format does not keep is ignored; one
/// outside its range is set to the nearest it can hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// New size: shorter cuts off, longer reads as zeroes.
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

/// A place in a directory from which a listing can go on, also after entries were added or removed. An entry that was
/// there all the while is listed exactly once. [`Cursor::START`] is before the first entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor(pub u64);

impl Cursor {
    /// Before the first entry.
    pub const START: Cursor = Cursor(0);
}

/// One line of a listing. "." and ".." are never listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: crate::Name,
    /// The node that looking it up would hand out, where that is known without. It is not handed out by this.
    pub node: Option<Node>,
    /// What it leads to, as the directory knows it.
    pub attributes: Attributes,
    /// Where the listing goes on after it.
    pub next: Cursor,
}

/// Where a part of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the device, from this offset in bytes.
    Device(u64),
    /// Nowhere: reads as zeroes.
    Hole,
    /// Allocated from this device offset, but reads as zeroes until written.
    Unwritten(u64),
    /// Inside a metadata record.
    Resident,
}

/// A run of a file's content that lies together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Where it is.
    pub place: Place,
}

/// A named stream of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStream {
    /// Its name, without the colon.
    pub name: crate::Name,
    /// Its size in bytes.
    pub size: u64,
}

/// What a file or directory is besides itself, to those who know the tag: a link, a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reparse {
    /// What it means: a Windows reparse tag, never 0.
    pub tag: u32,
    /// What belongs to that, at most 16 KiB: what follows tag and length in a Windows `REPARSE_DATA_BUFFER`.
    pub data: Vec<u8>,
}

/// Whether a file's data is checksummed, and with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integrity {
    /// Whether new data is checksummed (for a directory: whether new entries inherit that).
    pub enabled: bool,
    /// Whether a read that meets damage fails (true) or hands out what is there (false).
    pub enforced: bool,
}

/// How a rename treats an entry that has the new name already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameFlags {
    /// Replaces it, if both are files or the replaced one is an empty directory.
    #[default]
    Replace,
    /// Fails with [`crate::Error::Exists`].
    NoReplace,
    /// The two change places.
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
    /// Clusters there are.
    pub total: u64,
    /// Clusters that are free.
    pub free: u64,
    /// Of those, clusters that are kept for metadata, so that a full volume can still be changed: data cannot have them.
    pub reserved: u64,
}

/// What a format can do; what it cannot is [`crate::Error::Unsupported`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The largest file in bytes.
    pub largest_file: u64,
    /// What it takes as a name.
    pub names: NameRules,
    /// Precision of the modification time.
    pub modified_precision: Duration,
    /// Precision of the creation time; `None` if it keeps none.
    pub created_precision: Option<Duration>,
    /// Precision of the access time; `None` if it keeps none.
    pub accessed_precision: Option<Duration>,
    /// Several names for one file.
    pub hard_links: bool,
    /// Symbolic links.
    pub symbolic_links: bool,
    /// Named streams.
    pub streams: bool,
    /// Extended attributes.
    pub extended_attributes: bool,
    /// Files with holes, and making new ones.
    pub sparse: bool,
    /// Allocating ahead of writing.
    pub preallocate: bool,
    /// Data checksums.
    pub integrity: bool,
    /// Clusters that several files share.
    pub clone: bool,
    /// Exchanging two entries.
    pub exchange: bool,
    /// Whether opening a volume that was not closed puts right what was under way: by a log, or because nothing in use is
    /// overwritten. Where it does not, writing to such a volume before a check may destroy files.
    pub recovers: bool,
}

/// What a volume says of itself.
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
    /// Whether it was not cleanly unmounted.
    pub dirty: bool,
    /// Further facts in the format's terms, for `info`: name and value.
    pub details: Vec<(&'static str, String)>,
}

/// Told how far a long operation is.
pub trait Progress: Sync {
    /// `done` of `total` units, doing `what`.
    fn progress(&self, what: &'static str, done: u64, total: u64);
}

/// Progress that nobody watches.
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
        for (seconds, nanoseconds) in [(0, 0), (1_000_000_000, 5), (-1, 0), (-1, 999_999_999), (-86_400, 1)] {
            let time = Timestamp { seconds, nanoseconds };
            assert_eq!(Timestamp::from(time.to_system_time().unwrap()), time);
        }
        let at = |seconds| Timestamp { seconds, nanoseconds: 0 };
        assert_eq!((at(i64::MIN).to_file_time(u64::MAX), at(i64::MAX).to_file_time(7)), (0, 7));
    }
}
