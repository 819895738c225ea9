//! The format's operations: recognising, making, opening, checking and recovering a volume.

use crate::NtfsVolume;
use crate::layout::{BootSector, Geometry, Kind, Record, VolumeInformation, fixup, record_number};
use crate::shadow::{ShadowCopies, ShadowDevice};
use platter_device::{Device, is_left_over};
use platter_vfs::{
    CheckOptions, CheckReport, FileSystem, Format, FormatOptions, OpenOptions, Progress, Recognised,
    RecoverReport, Result, Visit,
};
use std::sync::Arc;

/// NTFS as a [`Format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ntfs;

impl Format for Ntfs {
    fn name(&self) -> &'static str {
        "ntfs"
    }

    fn recognise(&self, device: &dyn Device) -> Result<Option<Recognised>> {
        let sector = u64::from(device.sectors().logical).max(512);
        if device.len() < sector {
            return Ok(None);
        }
        // The device's last sector has a copy of the boot sector.
        for place in [0, device.len() - sector] {
            let mut bytes = vec![0; sector as usize];
            device.read_at(place, &mut bytes)?;
            let Ok(boot) = BootSector::from_bytes(&bytes) else { continue };
            let cut_off = boot.cut_off(device.len()).filter(|_| place == 0);
            let geometry = boot.geometry(cut_off.unwrap_or(device.len()));
            // The copy of a boot sector belongs to a volume on this whole device only if it comes right after the
            // volume's last sector. Any other copy is that of a partition, or remains from an earlier volume.
            let is_copy = || geometry.as_ref().is_ok_and(|geometry| geometry.length == place);
            if place != 0 && (!is_copy() || is_left_over(device, &bytes)?) {
                continue;
            }
            let volume = match geometry {
                Ok(geometry) => volume_record(device, &geometry)?,
                Err(_) => None,
            };
            // The name in the boot sector is enough; other damage is reported by opening or checking the volume.
            let unknown = || Recognised { format: "NTFS".into(), label: None, cut_off: None };
            return Ok(Some(Recognised { cut_off, ..volume.map_or_else(unknown, recognised) }));
        }
        Ok(None)
    }

    fn make(&self, device: &dyn Device, options: &FormatOptions, progress: &dyn Progress) -> Result<()> {
        crate::format::make(device, options, progress)
    }

    fn open(&self, device: Arc<dyn Device>, options: OpenOptions) -> Result<Arc<dyn FileSystem>> {
        Ok(Arc::new(NtfsVolume::open(device, options)?))
    }

    fn why_kept(&self, device: &dyn Device) -> Option<String> {
        ShadowCopies::find(device).map(|copies| copies.why_kept())
    }

    fn shadow_copy(&self, device: Arc<dyn Device>, number: u32) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(ShadowDevice::open(device, number)?))
    }

    fn has_copy(&self, device: &dyn Device) -> bool {
        // The copy of a volume in a partition of this device says a length far from this one.
        crate::open::boot(device).is_ok_and(|(_, geometry)| device.len() - geometry.length <= 4096)
    }

    fn check(
        &self,
        device: &dyn Device,
        options: CheckOptions,
        progress: &dyn Progress,
    ) -> Result<CheckReport> {
        crate::check::check(device, options, progress)
    }

    fn check_surface(
        &self,
        device: &dyn Device,
        options: CheckOptions,
        progress: &dyn Progress,
    ) -> Result<CheckReport> {
        crate::check::check_surface(device, options, progress)
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

/// The record of `$Volume`, if it is whole in the place where nearly all volumes have it: the first clusters of `$MFT`.
fn volume_record(device: &dyn Device, geometry: &Geometry) -> Result<Option<Record>> {
    let sector = u64::from(device.sectors().logical);
    let record = u64::from(geometry.record);
    let at = geometry.mft * geometry.cluster + record_number::VOLUME * record;
    let start = at / sector * sector;
    let end = (at + record).next_multiple_of(sector);
    if end > device.len() {
        return Ok(None);
    }
    let mut bytes = vec![0; (end - start) as usize];
    device.read_at(start, &mut bytes)?;
    let bytes = &mut bytes[(at - start) as usize..][..record as usize];
    Ok(fixup::remove(bytes, "file record", at).and_then(|()| Record::from_bytes(bytes, at)).ok())
}

fn recognised(volume: Record) -> Recognised {
    let value = |kind| volume.find(kind, "").and_then(|attribute| attribute.value());
    let information = value(Kind::VOLUME_INFORMATION).map(|bytes| VolumeInformation::from_bytes(bytes, 0));
    let format = match information {
        Some(Ok(VolumeInformation { version: (major, minor), .. })) => format!("NTFS {major}.{minor}"),
        _ => "NTFS".into(),
    };
    let units = |bytes: &[u8]| {
        bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit)).collect::<Vec<_>>()
    };
    let label = value(Kind::VOLUME_NAME).map(|bytes| String::from_utf16_lossy(&units(bytes)));
    Recognised { format, label: label.filter(|label| !label.is_empty()), cut_off: None }
}
