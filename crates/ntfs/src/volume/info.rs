//! What the volume says of itself.

use super::NtfsVolume;
use crate::file::Attr;
use crate::layout::{Kind as Type, record_number};
use crate::open;
use platter_vfs::{Error, Result, Space, VolumeInfo};

impl NtfsVolume {
    /// Label, identifier, version, and what else is to be said of the volume.
    pub(super) fn volume_info(&self) -> Result<VolumeInfo> {
        let mut core = self.core();
        let label = match open::label(&mut core) {
            // The record that has the label is damaged, which is reported below as the reason for being read-only.
            Err(Error::Damaged(_)) if self.health.obstacle().is_some() => String::new(),
            label => label?,
        };
        let (major, minor) = self.information.version;
        let geometry = core.geometry;
        let mut details = vec![
            ("sector", format!("{} bytes", geometry.sector)),
            ("file record", format!("{} bytes", geometry.record)),
            ("index block", format!("{} bytes", geometry.index)),
            ("$MFT", format!("cluster {}, {} records", geometry.mft, core.record_count())),
            ("records in use", core.records_taken().to_string()),
        ];
        if let Some(copies) = &self.shadow_copies {
            details.push(("shadow copies", copies.clone()));
        }
        if core.has_journal {
            let text = "change journal: not written to, but given another identifier by the first change";
            details.push((crate::layout::journal::NAME, text.into()));
        }
        Ok(VolumeInfo {
            format: format!("NTFS {major}.{minor}"),
            label,
            identifier: format!("{:016X}", self.boot.serial),
            cluster: self.cluster,
            dirty: self.was_open || self.information.flags & crate::layout::volume_flags::DIRTY != 0,
            read_only: self.health.obstacle().map(String::from),
            damage: Vec::new(),
            has_media_failures: false,
            metadata_checksum: None,
            checkpoint: None,
            details,
        })
    }

    /// The clusters of the volume, and how many are free.
    pub(super) fn free_space(&self) -> Result<Space> {
        let core = self.core();
        let free = core.space.free();
        let reserved = core.reserve().min(free);
        Ok(Space { cluster: self.cluster, total: core.space.total(), free, reserved })
    }

    /// Changes the label.
    pub(super) fn change_label(&self, label: &str) -> Result<()> {
        let units: Vec<u8> =
            crate::layout::label_units(label)?.into_iter().flat_map(u16::to_le_bytes).collect();
        self.with_space(|| {
            let mut core = self.change()?;
            let mut volume = (*core.file(record_number::VOLUME)?).clone();
            volume.put(Attr::resident(Type::VOLUME_NAME, units.clone()));
            core.transact(|core| core.store(volume))
        })
    }
}
