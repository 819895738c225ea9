//! What the volume says of itself.

use super::Volume;
use crate::Family;
use platter_vfs::{Result, Space, VolumeInfo};

impl<F: Family> Volume<F> {
    /// Label, identifier, and what else is to be said of the volume.
    pub(super) fn volume_info(&self) -> Result<VolumeInfo> {
        let mut info = F::info(&mut self.core())?;
        info.read_only = self.health.obstacle().map(String::from);
        Ok(info)
    }

    /// The clusters of the volume, and how many are free.
    pub(super) fn free_space(&self) -> Result<Space> {
        Ok(Space {
            cluster: self.heap.cluster_size(),
            total: u64::from(self.heap.count),
            free: u64::from(self.core().free()),
            reserved: 0,
        })
    }

    /// Changes the label.
    pub(super) fn change_label(&self, label: &str) -> Result<()> {
        self.with_space(|| {
            let mut core = self.core();
            core.writable()?;
            F::set_label(&mut core, label)
        })
    }
}
