//! Attributes of files and of the volume.

use crate::errors::Answer;
use crate::owners::OwnerChange;
use crate::served::Served;
use crate::stat::Stat;
use platter_vfs::{Change, Node, Timestamp};

/// What to change of a file; `None` leaves it.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatChange {
    /// New owner, group and permissions.
    pub owner: OwnerChange,
    /// New size.
    pub size: Option<u64>,
    /// New time of reading.
    pub accessed: Option<Timestamp>,
    /// New time of writing.
    pub modified: Option<Timestamp>,
    /// Whether whoever asks must not keep set-user-id by it.
    pub drops_privileges: bool,
}

/// The volume as statfs(2) shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeStat {
    /// Bytes of a cluster.
    pub cluster: u64,
    /// Clusters there are.
    pub total: u64,
    /// Clusters that are free.
    pub free: u64,
    /// Of those, what files can have.
    pub available: u64,
    /// The longest name, in characters of two bytes.
    pub longest_name: u32,
}

impl Served {
    /// What is seen of a node.
    pub fn stat(&self, node: Node) -> Answer<Stat> {
        let attributes = self.told(self.system.attributes(node))?;
        Ok(self.stat_of(node, &attributes))
    }

    /// Changes what is seen of a node.
    pub fn set_stat(&self, node: Node, change: &StatChange) -> Answer<Stat> {
        self.change()?;
        let OwnerChange { uid, gid, mode } = change.owner;
        if uid.is_some() || gid.is_some() || mode.is_some() {
            self.change_owner(node, change.owner)?;
        }
        let times = Change {
            size: change.size,
            accessed: change.accessed,
            modified: change.modified,
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

    /// Changes attributes that are the volume's own.
    pub(crate) fn change_attributes(&self, node: Node, change: &Change) -> Answer<()> {
        // Before, so that no older time of reading is written after it, and behind it for one that was noted meanwhile.
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

    /// Space and limits of the volume.
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
