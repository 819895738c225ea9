//! Where records are found: in `$MFT`, or, if no boot sector leads to it, anywhere on the device.

use crate::check::disk::Disk;
use crate::check::{boot, record, records::Table};
use crate::layout::bytes::{u16_at, u32_at, u64_at};
use crate::layout::{
    AttributeContent, Geometry, Kind, Record, fixup, record_flags, record_number as known, runs,
};
use platter_device::Device;
use platter_vfs::{Error, Progress, Result};
use std::collections::BTreeMap;

/// Bytes that are read at once.
const READ: u64 = 4 << 20;

/// Record sizes that are looked for.
const SIZES: [u32; 2] = [1024, 4096];

/// The most records whose places are kept.
const MOST: usize = 64 << 20;

/// The records of a volume, and where they are.
pub struct Source<'d> {
    disk: Disk<'d>,
    geometry: Geometry,
    places: Places,
}

enum Places {
    Table(Table),
    /// The device offset of each record, by its number.
    Found(BTreeMap<u64, u64>),
}

impl<'d> Source<'d> {
    /// Finds the records on a device.
    ///
    /// # Errors
    /// [`Error::NotThisFormat`] if there are none, or if the size of a cluster cannot be found.
    pub fn find(device: &'d dyn Device, progress: &dyn Progress) -> Result<Source<'d>> {
        let mut disk = Disk::new(device);
        if let Ok((geometry, table)) = boot::find(&mut disk, &mut Vec::new(), false) {
            return Ok(Source { disk, geometry, places: Places::Table(table) });
        }
        for size in SIZES {
            let found = scan(&disk, device, size, progress)?;
            if let Some(geometry) = measure(&disk, &found, size) {
                return Ok(Source { disk, geometry, places: Places::Found(found) });
            }
        }
        let reason = "no file record on it tells where $MFT is".to_owned();
        Err(Error::NotThisFormat { format: "NTFS", reason })
    }

    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub fn disk(&self) -> &Disk<'d> {
        &self.disk
    }

    /// How many records there may be.
    pub fn count(&self) -> u64 {
        match &self.places {
            Places::Table(table) => table.count,
            Places::Found(found) => found.len() as u64,
        }
    }

    /// The numbers of all records.
    pub fn numbers(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match &self.places {
            Places::Table(table) => Box::new(0..table.count),
            Places::Found(found) => Box::new(found.keys().copied()),
        }
    }

    /// A record without its damaged parts; `None` if it cannot be read at all.
    pub fn record(&self, number: u64) -> Option<Record> {
        self.record_and_faults(number).map(|(record, _)| record)
    }

    /// [`Source::record`], and whether damaged parts are left out. A record has no checksum: damage shows only where
    /// the record makes no sense.
    pub fn record_and_faults(&self, number: u64) -> Option<(Record, bool)> {
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
        fixup::remove(&mut bytes, "file record", at).ok()?;
        record::salvage(&bytes, at).ok().map(|(record, faults)| (record, !faults.is_empty()))
    }
}

/// Looks through the device for records. Of several with one number, one that is in use is taken first, then the last
/// to change.
fn scan(
    disk: &Disk<'_>,
    device: &dyn Device,
    size: u32,
    progress: &dyn Progress,
) -> Result<BTreeMap<u64, u64>> {
    let mut found: BTreeMap<u64, (u64, (bool, u64))> = BTreeMap::new();
    let step = 512;
    let mut at = 0;
    while at < device.len() {
        at = device.next_data(at) / step as u64 * step as u64;
        let length = READ.min(device.len() - at);
        progress.progress("looking for file records", at, device.len());
        let mut bytes = vec![0; length as usize];
        if length == 0 {
            break;
        }
        // A range that cannot be read has no records.
        if disk.read(at, &mut bytes).is_ok() {
            for start in (0..bytes.len()).step_by(step) {
                let Some(record) = bytes.get_mut(start..start + size as usize) else { continue };
                let place = at + start as u64;
                let is_record = record.starts_with(Record::SIGNATURE)
                    && u32_at(record, 0x1C) == size
                    && fixup::remove(record, "file record", place).is_ok();
                if !is_record || found.len() >= MOST {
                    continue;
                }
                let number = u64::from(u32_at(record, 0x2C));
                let is_used = u16_at(record, 0x16) & record_flags::IN_USE != 0;
                let rank = (is_used, u64_at(record, 8));
                let best = found.entry(number).or_insert((place, rank));
                if rank > best.1 {
                    *best = (place, rank);
                }
            }
        }
        // A record may lie across the end of the range.
        let is_last = at + length == device.len();
        at += if is_last { length } else { length - u64::from(size) };
    }
    Ok(found.into_iter().map(|(number, (place, _))| (number, place)).collect())
}

/// Finds the size of a cluster: `$MFT` gives the place of its records in clusters, and with the right size most records
/// are at that place.
fn measure(disk: &Disk<'_>, found: &BTreeMap<u64, u64>, size: u32) -> Option<Geometry> {
    let at = *found.get(&known::MFT)?;
    let mut bytes = vec![0; size as usize];
    disk.read(at, &mut bytes).ok()?;
    fixup::remove(&mut bytes, "file record", at).ok()?;
    let (record, _) = record::salvage(&bytes, at).ok()?;
    let AttributeContent::NonResident(outside) = &record.find(Kind::DATA, "")?.content else { return None };
    let mut runs_of_table = Vec::new();
    runs::unpack_into(&mut runs_of_table, &outside.pairs, 0, outside.end, u64::MAX >> 8, at).ok();
    let first = *runs_of_table.first()?;
    let lcn = first.lcn.filter(|lcn| *lcn > 0)?;
    // How many records are at their places, if clusters have this size.
    let matches = |cluster: u64| {
        let count = first.length.saturating_mul(cluster) / u64::from(size);
        let expected = |number: u64| lcn.checked_mul(cluster)?.checked_add(number * u64::from(size));
        found.range(..count).filter(|&(&number, &place)| expected(number) == Some(place)).count()
    };
    let cluster = (9..=21).map(|shift| 1u64 << shift).max_by_key(|&cluster| matches(cluster))?;
    let clusters = disk.len() / cluster;
    (matches(cluster) > 0).then_some(Geometry {
        sector: 512,
        cluster,
        clusters,
        length: clusters * cluster,
        record: size,
        index: 4096,
        mft: lcn,
        mirror: lcn,
    })
}
