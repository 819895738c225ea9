//! The implementation of [`Format`] for exFAT.

use crate::ExfatVolume;
use crate::layout::{LabelEntry, Primary, SLOT, kind};
use platter_clusters::Disk;
use platter_device::Device;
use platter_vfs::{
    CheckOptions, CheckReport, Error, FileSystem, Format, FormatOptions, OpenOptions, Progress, Recognised,
    RecoverReport, Result, Visit,
};
use std::sync::Arc;

/// exFAT as a [`Format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exfat;

impl Format for Exfat {
    fn name(&self) -> &'static str {
        "exfat"
    }

    fn recognise(&self, device: &dyn Device) -> Result<Option<Recognised>> {
        let boot = match crate::open::read_boot(device) {
            Ok(boot) => boot,
            Err(Error::NotThisFormat { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let cut_off = boot.cut_off(device.len());
        let recognised = |label| Ok(Some(Recognised { format: "exFAT".into(), label, cut_off }));
        // The name in the boot sector is enough to recognise exFAT; opening or checking reports other damage.
        let Ok(geometry) = boot.geometry(cut_off.unwrap_or(device.len())) else { return recognised(None) };
        if geometry.heap.offset(geometry.root_cluster) + u64::from(geometry.sector) > device.end() {
            return recognised(None);
        }
        let mut sector = vec![0; geometry.sector as usize];
        Disk::new(device).read(geometry.heap.offset(geometry.root_cluster), &mut sector)?;
        let slots = sector.as_chunks::<SLOT>().0;
        let label = slots.iter().find(|slot| Primary::of(slot) == Primary::Other(kind::LABEL));
        recognised(label.map(|slot| LabelEntry::from_bytes(slot).text()).filter(|label| !label.is_empty()))
    }

    fn make(&self, device: &dyn Device, options: &FormatOptions, progress: &dyn Progress) -> Result<()> {
        crate::format::make(device, options, progress)
    }

    fn open(&self, device: Arc<dyn Device>, options: OpenOptions) -> Result<Arc<dyn FileSystem>> {
        Ok(Arc::new(ExfatVolume::open(device, options)?))
    }

    fn check(
        &self,
        device: &dyn Device,
        options: CheckOptions,
        progress: &dyn Progress,
    ) -> Result<CheckReport> {
        crate::check::check(device, options, progress)
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
