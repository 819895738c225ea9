//! The attributes of a file as programs see them.

use platter_vfs::{Attributes, Kind, Timestamp};

pub use platter_vfs::linux::Special;

/// The attributes of a file as programs see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The inode number.
    pub node: u64,
    /// The kind of the file on the volume.
    pub kind: Kind,
    /// The Linux file type of a FIFO, socket or device, which is a file on the volume.
    pub special: Option<Special>,
    /// The size of the content in bytes.
    pub size: u64,
    /// The number of bytes that are allocated on the volume.
    pub allocated: u64,
    /// The number of names.
    pub links: u32,
    /// Permissions with set-user-id, set-group-id and the sticky bit: 0 to 0o7777.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The device number of a device, as the kernel packs it into 32 bits.
    pub device: u32,
    /// When the content was last read.
    pub accessed: Timestamp,
    /// When the content was last written.
    pub modified: Timestamp,
    /// When content or attributes last changed.
    pub changed: Timestamp,
    /// When the file was made.
    pub created: Timestamp,
}

impl Stat {
    /// Returns the attributes of a file as programs see them, before owner and permissions are filled in.
    pub fn of(node: u64, attributes: &Attributes) -> Stat {
        let modified = attributes.modified;
        Stat {
            size: attributes.size,
            allocated: attributes.allocated,
            // Programs take the link count of a directory for the number of its subdirectories plus 2, unless the count
            // is 1.
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

    /// Returns the attributes of a file of which only number and kind are known.
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
