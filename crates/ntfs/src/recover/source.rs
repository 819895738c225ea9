//! Where records are found: in `$MFT`, or, if no boot sector leads to it, anywhere on the device.

use super::start::{RecordPlaces, SIZES, measure, scan};
use crate::check::disk::Disk;
use crate::check::{boot, record, records::Table};
use crate::layout::{Geometry, Record, fixup};
use platter_device::{Device, Partition};
use platter_vfs::{Error, Progress, Result};
use std::sync::Arc;

/// A volume on a device, which may begin anywhere on it.
pub(super) struct FoundVolume {
    device: Arc<dyn Device>,
    /// What tells the layout, if no boot sector does.
    found: Option<(Geometry, RecordPlaces)>,
}

impl FoundVolume {
    /// Finds the volume on a device: by the boot sector at its beginning or the copy at its end, by one elsewhere, as on a
    /// disk whose partition table is lost, and else by its records.
    ///
    /// # Errors
    /// [`Error::NotThisFormat`] if there are none, or if the size of a cluster cannot be found.
    pub(super) fn find(device: Arc<dyn Device>, progress: &dyn Progress) -> Result<FoundVolume> {
        if boot::find(&mut Disk::new(&*device), &mut Vec::new(), false).is_ok() {
            return Ok(FoundVolume { device, found: None });
        }
        let mut by_boot = None;
        let mut tried = 0;
        let found = scan(&*device, progress, &mut |at, sector| {
            tried += 1;
            by_boot = if tried <= MOST_BOOTS { with_boot(&device, at, sector) } else { None };
            by_boot.is_none()
        })?;
        if let Some(device) = by_boot {
            return Ok(FoundVolume { device, found: None });
        }
        for (size, found) in SIZES.into_iter().zip(found) {
            let Some((start, geometry)) = measure(&Disk::new(&*device), &found, size) else { continue };
            // Places count from the start of the volume.
            let found = found.into_iter().filter_map(|(number, at)| Some((number, at.checked_sub(start)?)));
            let found = Some((geometry, found.collect()));
            let length = device.len() - start;
            let device = if start == 0 { device } else { part(&device, start, length)? };
            return Ok(FoundVolume { device, found });
        }
        let reason = "no file record on it tells where $MFT is".to_owned();
        Err(Error::NotThisFormat { format: "NTFS", reason })
    }
}

/// The most boot sectors that are tried: a volume may hold images of volumes.
const MOST_BOOTS: u64 = 256;

/// Returns the volume that a boot sector at this offset, or its copy, leads to, if `$MFT` is where it says.
fn with_boot(device: &Arc<dyn Device>, at: u64, sector: &[u8]) -> Option<Arc<dyn Device>> {
    let length = crate::layout::BootSector::from_bytes(sector).ok()?.geometry(device.len()).ok()?.length;
    let starts = [Some(at), at.checked_sub(length)];
    starts.into_iter().flatten().find_map(|start| {
        // The copy is in the sector behind the volume's last.
        let length = (length + u64::from(device.sectors().logical)).min(device.len().checked_sub(start)?);
        let part = part(device, start, length).ok()?;
        boot::find(&mut Disk::new(&*part), &mut Vec::new(), false).ok().map(|_| part)
    })
}

fn part(device: &Arc<dyn Device>, start: u64, length: u64) -> Result<Arc<dyn Device>> {
    let sector = u64::from(device.sectors().logical);
    let name = format!("{} from offset {start}", device.name());
    Ok(Arc::new(Partition::new(device.clone(), start, length / sector * sector, name)?))
}

/// The records of a volume, and where they are.
pub(super) struct Source<'d> {
    disk: Disk<'d>,
    geometry: Geometry,
    places: Places<'d>,
}

enum Places<'d> {
    Table(Table),
    /// The offset of each record, by its number.
    Found(&'d RecordPlaces),
}

impl<'d> Source<'d> {
    /// The records of a volume that was found.
    ///
    /// # Errors
    /// Those of reading the boot sector.
    pub(super) fn open(place: &'d FoundVolume) -> Result<Source<'d>> {
        let mut disk = Disk::new(&*place.device);
        let (geometry, places) = match &place.found {
            Some((geometry, found)) => (*geometry, Places::Found(found)),
            None => {
                let (geometry, table) = boot::find(&mut disk, &mut Vec::new(), false)?;
                (geometry, Places::Table(table))
            }
        };
        Ok(Source { disk, geometry, places })
    }

    pub(super) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(super) fn disk(&self) -> &Disk<'d> {
        &self.disk
    }

    /// How many records there may be.
    pub(super) fn count(&self) -> u64 {
        match &self.places {
            Places::Table(table) => table.count,
            Places::Found(found) => found.len() as u64,
        }
    }

    /// The numbers of all records.
    pub(super) fn numbers(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match &self.places {
            Places::Table(table) => Box::new(0..table.count),
            Places::Found(found) => Box::new(found.keys().copied()),
        }
    }

    /// A record without its damaged parts; `None` if it cannot be read at all.
    pub(super) fn record(&self, number: u64) -> Option<Record> {
        self.record_and_faults(number).map(|(record, _)| record)
    }

    /// [`Source::record`], and whether damaged parts are left out. A record has no checksum: damage shows only where
    /// the record makes no sense.
    pub(super) fn record_and_faults(&self, number: u64) -> Option<(Record, bool)> {
        let mut bytes = vec![0; self.geometry.record as usize];
        let at = match &self.places {
            Places::Table(table) => {
                table.read(&self.disk, &self.geometry, number, &mut bytes).ok()?;
                table.place(&self.geometry, number)
            }
            Places::Found(found) => {
                let at = *found.get(&number)?;
                self.disk.read(at, &mut bytes).ok()?;
                at
            }
        };
        let raw = bytes.clone();
        if bytes.starts_with(Record::SIGNATURE) && fixup::remove(&mut bytes, "file record", at).is_ok() {
            return record::salvage(&bytes, at).ok().map(|(record, faults)| (record, !faults.is_empty()));
        }
        // What its signature or its update sequence says was not written whole may still be all there.
        let (bytes, _) = Record::mended(&raw)?;
        let (record, _) = record::salvage(&bytes, at).ok()?;
        (u64::from(record.number) == number & 0xFFFF_FFFF).then_some((record, true))
    }
}
