//! The format of this crate for its callers: making, opening, checking, scrubbing and recovering ReFS volumes.

use crate::RefsVolume;
use crate::layout::BootRecord;
use crate::open::{self, Notes};
use platter_device::{Device, is_left_over};
use platter_vfs::{
    CheckOptions, CheckReport, FileSystem, Format, FormatOptions, OpenOptions, Progress, Recognised,
    RecoverReport, Result, ScrubOptions, ScrubReport, Visit,
};
use std::sync::Arc;

/// ReFS as a [`Format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refs {
    name: &'static str,
    integrity: Option<bool>,
}

impl Refs {
    /// ReFS. New volumes have integrity streams off, unless the options say otherwise.
    pub const ANY: Refs = Refs { name: "refs", integrity: None };
    /// ReFS, with integrity streams on in new volumes.
    pub const INTEGRITY: Refs = Refs { name: "refs+integrity", integrity: Some(true) };
}

impl Format for Refs {
    fn name(&self) -> &'static str {
        self.name
    }

    fn recognise(&self, device: &dyn Device) -> Result<Option<Recognised>> {
        let mut sector = vec![0; BootRecord::SIZE.max(device.sectors().logical as usize)];
        if device.len() < sector.len() as u64 {
            return Ok(None);
        }
        device.read_at(0, &mut sector)?;
        if !BootRecord::is_refs(&sector) {
            // A volume whose boot record is destroyed is recognised by the copy of the boot record.
            let Ok(boot) = open::boot_record(device, &mut Notes::default()) else { return Ok(None) };
            let is_left = is_left_over(device, &boot.to_bytes())?;
            let format = format!("ReFS {}", boot.version);
            return Ok((!is_left).then_some(Recognised { format, label: None, cut_off: None }));
        }
        let version = format!("ReFS {}", BootRecord::version_of(&sector));
        Ok(Some(Recognised { format: version, label: None, cut_off: None }))
    }

    fn make(&self, device: &dyn Device, options: &FormatOptions, progress: &dyn Progress) -> Result<()> {
        let integrity = options.integrity.or(self.integrity);
        crate::format::make(device, &FormatOptions { integrity, ..options.clone() }, progress)
    }

    fn open(&self, device: Arc<dyn Device>, options: OpenOptions) -> Result<Arc<dyn FileSystem>> {
        Ok(Arc::new(RefsVolume::open(device, options)?))
    }

    fn has_copy(&self, device: &dyn Device) -> bool {
        open::boot_record(device, &mut Notes::default()).is_ok()
    }

    fn check(
        &self,
        device: &dyn Device,
        options: CheckOptions,
        progress: &dyn Progress,
    ) -> Result<CheckReport> {
        let find_lost =
            crate::check::FindLost { rows: crate::recover::lost_rows, files: crate::recover::count };
        crate::check::check(device, options, progress, find_lost)
    }

    fn scrub(
        &self,
        device: Arc<dyn Device>,
        options: &ScrubOptions,
        progress: &dyn Progress,
    ) -> Result<ScrubReport> {
        crate::salvage::scrub(device, options, progress)
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
