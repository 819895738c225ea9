//! Attributes of files and of the volume.

use crate::errors::Answer;
use crate::owners::OwnerChange;
use crate::served::Served;
use crate::stat::Stat;
use platter_vfs::{Change, Node, Timestamp};

/// A change of the attributes of a file; `None` leaves an attribute as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatChange {
    /// New owner, group and permissions.
    pub owner: OwnerChange,
    /// New size.
    pub size: Option<u64>,
    /// New access time.
    pub accessed: Option<Timestamp>,
    /// New modification time.
    pub modified: Option<Timestamp>,
    /// Whether a change of the size clears set-user-id and set-group-id of the file, as for every caller but root.
    pub drops_privileges: bool,
}

/// The volume as statfs(2) shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeStat {
    /// The size of a cluster in bytes.
    pub cluster: u64,
    /// The number of clusters.
    pub total: u64,
    /// The number of free clusters.
    pub free: u64,
    /// The number of free clusters that files can take, without those that are reserved for metadata.
    pub available: u64,
    /// The length of the longest name that the format allows, in UTF-16 units.
    pub longest_name: u32,
}

impl Served {
    /// Returns the attributes of a node, as programs see them.
    pub fn stat(&self, node: Node) -> Answer<Stat> {
        let attributes = self.told(self.system.attributes(node))?;
        Ok(self.stat_of(node, &attributes))
    }

    /// Changes attributes of a node, and returns all of its attributes as they are afterwards.
    pub fn set_stat(&self, node: Node, change: &StatChange) -> Answer<Stat> {
        self.change()?;
        let OwnerChange { uid, gid, mode } = change.owner;
        if uid.is_some() || gid.is_some() || mode.is_some() {
            self.change_owner(node, change.owner)?;
            if let Some((file, _)) = self.stream(node) {
                self.notice(file);
            }
        }
        // Truncation changes the time even if the size stays the same (ftruncate(2) of POSIX, and open(2) with O_TRUNC),
        // which the formats, like truncate() of Windows, do not do by themselves.
        let is_cut = change.size.is_some() && change.modified.is_none();
        let times = Change {
            size: change.size,
            accessed: change.accessed,
            modified: if is_cut { Some(self.system.device().now().into()) } else { change.modified },
            ..Change::default()
        };
        if times != Change::default() {
            if change.size.is_some() && change.drops_privileges {
                self.drop_privileges(node, None)?;
            }
            self.change_attributes(node, &times)?;
        }
        self.accesses.changed(node);
        self.stat(node)
    }

    /// Changes attributes that the volume itself stores.
    pub(crate) fn change_attributes(&self, node: Node, change: &Change) -> Answer<()> {
        // An access time that waits in memory is dropped before the change, so that it is not written over the new
        // access time later, and again after the change, since a read may have noted another one meanwhile.
        let forget_access = || {
            if change.accessed.is_some() {
                self.accesses.set(node);
            }
        };
        forget_access();
        let done = self.told(self.system.set_attributes(node, change)).map(|_| ());
        forget_access();
        done
    }

    /// Returns the space and limits of the volume.
    pub fn volume_stat(&self) -> Answer<VolumeStat> {
        let space = self.told(self.system.space())?;
        let longest_name = self.system.capabilities().names.longest as u32;
        let available = space.free - space.reserved;
        Ok(VolumeStat {
            cluster: space.cluster,
            total: space.total,
            free: space.free,
            available,
            longest_name,
        })
    }
}
