//! What a program sees of a file.

use platter_vfs::{Attributes, Kind, Timestamp};

pub use platter_vfs::linux::Special;

/// What is seen of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its number.
    pub node: u64,
    /// What the volume says it is.
    pub kind: Kind,
    /// What Linux says it is beyond that.
    pub special: Option<Special>,
    /// Bytes.
    pub size: u64,
    /// Bytes taken on the volume.
    pub allocated: u64,
    /// Names.
    pub links: u32,
    /// Permissions, set-user-id and the like: 0 to 0o7777.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device, as the kernel packs it into 32 bits.
    pub device: u32,
    /// When it was read.
    pub accessed: Timestamp,
    /// When it was written.
    pub modified: Timestamp,
    /// When anything about it changed.
    pub changed: Timestamp,
    /// When it was made.
    pub created: Timestamp,
}

impl Stat {
    /// What is seen of a file with these attributes, before owner and permissions are known.
    pub fn of(node: u64, attributes: &Attributes) -> Stat {
        let modified = attributes.modified;
        Stat {
            size: attributes.size,
            allocated: attributes.allocated,
            // Programs take the links of a directory for the number of directories in it, unless there is one.
            links: if attributes.kind == Kind::Directory {
                attributes.links.min(1)
            } else {
                attributes.links
            },
            accessed: attributes.accessed.unwrap_or(modified),
            modified,
            changed: attributes.changed.unwrap_or(modified),
            created: attributes.created.unwrap_or(modified),
            ..Stat::placeholder(node, attributes.kind)
        }
    }

    /// A file of which only number and kind are known.
    pub(crate) fn placeholder(node: u64, kind: Kind) -> Stat {
        let never = Timestamp::default();
        Stat {
            node,
            kind,
            special: None,
            size: 0,
            allocated: 0,
            links: 1,
            mode: 0,
            uid: 0,
            gid: 0,
            device: 0,
            accessed: never,
            modified: never,
            changed: never,
            created: never,
        }
    }
}
