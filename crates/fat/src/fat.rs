//! The implementation of [`Format`] for FAT.

use crate::FatVolume;
use crate::backup::{Chosen, choose};
use crate::layout::{BootSector, FatKind, Label};
use crate::starts::Boot;
use platter_clusters::{Disk, first_sector};
use platter_device::Device;
use platter_vfs::{
    CheckOptions, CheckReport, Error, FileSystem, Format, FormatOptions, OpenOptions, Progress, Recognised,
    RecoverReport, Result, Visit,
};
use std::sync::Arc;

/// FAT as a [`Format`]: all three kinds, or one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fat {
    name: &'static str,
    kind: Option<FatKind>,
}

impl Fat {
    /// Every kind; a new volume gets the kind that suits its size.
    pub const ANY: Fat = Fat { name: "fat", kind: None };
    /// FAT12 only.
    pub const FAT12: Fat = Fat { name: "fat12", kind: Some(FatKind::Fat12) };
    /// FAT16 only.
    pub const FAT16: Fat = Fat { name: "fat16", kind: Some(FatKind::Fat16) };
    /// FAT32 only.
    pub const FAT32: Fat = Fat { name: "fat32", kind: Some(FatKind::Fat32) };
}

impl Format for Fat {
    fn name(&self) -> &'static str {
        self.name
    }

    fn recognise(&self, device: &dyn Device) -> Result<Option<Recognised>> {
        let Some(bytes) = first_sector(device)? else { return Ok(None) };
        let boot = BootSector::from_bytes(&bytes);
        let cut_off = boot.cut_off(device.len());
        let length = cut_off.unwrap_or(device.len());
        let (Boot { sector: boot, geometry }, cut_off) = match Boot::within(&Disk::new(device), boot, length)
        {
            Ok(boot) => (boot, cut_off),
            Err(_) => match choose(device) {
                Ok(Chosen { boot, .. }) => (boot, None),
                Err(Error::Device(error)) => return Err(error.into()),
                Err(_) => return Ok(None),
            },
        };
        if self.kind.is_some_and(|kind| kind != geometry.kind) {
            return Ok(None);
        }
        let label = (boot.is_extended() && boot.label != BootSector::NO_NAME)
            .then(|| Label(boot.label).to_string())
            .filter(|label| !label.is_empty());
        Ok(Some(Recognised { format: geometry.kind.name().into(), label, cut_off }))
    }

    fn make(&self, device: &dyn Device, options: &FormatOptions, progress: &dyn Progress) -> Result<()> {
        crate::format::make(device, self.kind, options, progress)
    }

    fn open(&self, device: Arc<dyn Device>, options: OpenOptions) -> Result<Arc<dyn FileSystem>> {
        let volume = FatVolume::open(device, options)?;
        match self.kind {
            Some(kind) if kind.name() != volume.format_name() => Err(Error::NotThisFormat {
                format: kind.name(),
                reason: format!("it is {}", volume.format_name()),
            }),
            _ => Ok(Arc::new(volume)),
        }
    }

    fn check(
        &self,
        device: &dyn Device,
        options: CheckOptions,
        progress: &dyn Progress,
    ) -> Result<CheckReport> {
        crate::check::check(device, options, progress)
    }

    fn fault(&self, device: &dyn Device) -> Option<Error> {
        let boot = BootSector::from_bytes(&first_sector(device).ok()??);
        Boot::new(&Disk::new(device), boot).err().filter(|error| matches!(error, Error::Damaged(_)))
    }

    fn has_copy(&self, device: &dyn Device) -> bool {
        crate::check::find_boot(&Disk::new(device)).is_ok()
    }

    fn recover(
        &self,
        device: Arc<dyn Device>,
        progress: &dyn Progress,
        visit: Visit<'_>,
    ) -> Result<RecoverReport> {
        crate::recover::recover(device, progress, visit)
    }
}
