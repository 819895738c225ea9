//! The names of the extended attributes by which a mount shows what only Windows' file systems have, and its own state.
//!
//! The names of ntfs-3g are used where it has one. Numbers are little-endian. These names are not listed, so that copying
//! all attributes of a file does not copy them.

/// The attribute flags, 4 bytes.
pub const FLAGS: &str = "system.ntfs_attrib";
/// The times of creation, modification, access and change, 8 bytes each, in 100 ns since 1601.
pub const TIMES: &str = "system.ntfs_times";
/// The time of creation, 8 bytes, in 100 ns since 1601.
pub const CREATED: &str = "system.ntfs_crtime";
/// The security descriptor.
pub const SECURITY: &str = "system.ntfs_acl";
/// Reparse tag (4 bytes), length of the data (2 bytes), 2 unused bytes, data.
pub const REPARSE: &str = "system.ntfs_reparse_data";
/// The names of the named streams, with a NUL behind each.
pub const STREAMS: &str = "ntfs.streams.list";
/// The names of the snapshots, with a NUL behind each.
pub const SNAPSHOTS: &str = "system.refs_snapshots";
/// Followed by the name of a snapshot: its size in decimal digits. Setting it, to nothing, makes the snapshot.
pub const SNAPSHOT: &str = "system.refs_snapshot.";
/// Whether data of a file, or of new files in a directory, has checksums: `on` or `off`.
pub const INTEGRITY: &str = "system.refs_integrity";
/// The state of the mount as JSON ([`Status`](crate::Status)); it cannot be set.
pub const STATUS: &str = "system.platter_status";
/// How far a scrub of the volume is, as JSON ([`ScrubState`](crate::ScrubState)). `start`, `start RATE` (bytes a second)
/// and `stop` are orders.
pub const SCRUB: &str = "system.platter_scrub";
/// Whether the mount may write to the volume: `rw` or `ro`; it cannot be set.
pub const ACCESS: &str = "system.platter_access";
