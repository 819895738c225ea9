//! `$MFT` as the check reads it: the places of its records.

use super::disk::Disk;
use super::mft;
use super::record::{read_list, salvage};
use crate::layout::bytes::u32_at;
use crate::layout::{AttributeContent, Geometry, Kind, Record, Run, fixup, record_number as known, runs};
use platter_vfs::{Error, Result};

/// The places of the records.
pub(crate) struct Table {
    /// The runs of `$MFT`'s data.
    pub runs: Vec<Run>,
    /// How many records were ever written, by the valid length.
    pub count: u64,
    /// The records that have further pieces of these runs, besides the first record.
    pub pieces: Vec<mft::Piece>,
    /// Whether the copy of the first record in `$MFTMirr` was used, as the record itself cannot be or leads to fewer
    /// records.
    pub is_from_mirror: bool,
    /// Whether both the first record and its copy can be used.
    pub has_mirror: bool,
    /// How many records of a sample are where they are expected, and how many records there are.
    pub score: (u64, u64),
}

/// How many records spread over `$MFT` are looked at to see whether its runs are right.
const SAMPLES: u64 = 64;

impl Table {
    /// Finds `$MFT` by its own first record, or by the copy of it.
    ///
    /// # Errors
    /// [`Error::Damaged`] if neither leads to `$MFT`.
    pub(crate) fn find(disk: &Disk, geometry: &Geometry) -> Result<Table> {
        let mut strays = None;
        let [own, mirror] = [geometry.mft, geometry.mirror]
            .map(|cluster| Table::from_first(disk, geometry, cluster, &mut strays));
        match (own, mirror) {
            (Ok(own), Ok(mirror)) if mirror.score > own.score => Ok(Table { is_from_mirror: true, ..mirror }),
            (Ok(own), mirror) => Ok(Table { has_mirror: mirror.is_ok(), ..own }),
            (Err(_), Ok(mirror)) => Ok(Table { is_from_mirror: true, ..mirror }),
            (own, _) => own,
        }
    }

    fn from_first(
        disk: &Disk,
        geometry: &Geometry,
        cluster: u64,
        strays: &mut Option<Vec<mft::Stray>>,
    ) -> Result<Table> {
        let at = cluster * geometry.cluster;
        let mut bytes = vec![0; geometry.record as usize];
        disk.read(at, &mut bytes)?;
        fixup::remove(&mut bytes, "file record of $MFT", at)?;
        let (record, _) = salvage(&bytes, at)?;
        let missing = || Error::damaged("file record of $MFT", at, "non-resident data", "none");
        let data = |record: &Record, first: u64| {
            record.attributes.iter().find_map(|attribute| match &attribute.content {
                AttributeContent::NonResident(piece)
                    if attribute.kind == Kind::DATA && attribute.name.is_empty() && piece.first == first =>
                {
                    Some(piece.clone())
                }
                _ => None,
            })
        };
        let first = data(&record, 0).ok_or_else(missing)?;
        let mut found = runs::unpack(&first.pairs, 0, first.end, geometry.clusters, at)?;
        let mut list = Vec::new();
        if let Some(attribute) =
            record.attributes.iter().find(|attribute| attribute.kind == Kind::ATTRIBUTE_LIST)
        {
            list = read_list(disk, geometry, attribute, at).unwrap_or_default();
        }
        let listed: Vec<u64> = list
            .iter()
            .filter(|entry| entry.kind == Kind::DATA && entry.name.is_empty() && entry.record.number() > 0)
            .map(|entry| entry.record.number())
            .collect();
        // Without an attribute list there are no further pieces, whatever the allocated size says.
        let has_list = record.attributes.iter().any(|other| other.kind == Kind::ATTRIBUTE_LIST);
        let whole = if has_list { first.allocated / geometry.cluster } else { 0 };
        let pieces = mft::follow(disk, geometry, &mut found, whole, &listed, strays)?;
        // The table ends at a hole, which has no records.
        let whole = found.iter().take_while(|run| run.lcn.is_some()).last().map_or(0, Run::end);
        let bytes = first.size.min(first.valid).min(whole * geometry.cluster);
        let count = bytes / u64::from(geometry.record);
        if count == 0 {
            return Err(Error::damaged("file record of $MFT", at, "at least one record", "none"));
        }
        let score = (0, 0);
        let mut table = Table { runs: found, count, pieces, is_from_mirror: false, has_mirror: false, score };
        table.score = (table.measure(disk, geometry), count);
        Ok(table)
    }

    /// How many records of a sample, read through these runs, are file records with the right number in them: the more,
    /// the likelier the runs are those of the table.
    fn measure(&self, disk: &Disk, geometry: &Geometry) -> u64 {
        let is_right = |number: u64| {
            let mut bytes = vec![0; geometry.record as usize];
            let Ok(()) = self.read(disk, geometry, number, &mut bytes) else { return false };
            // Linux' ntfs3 leaves the number at 0.
            bytes.starts_with(Record::SIGNATURE) && [0, number].contains(&u64::from(u32_at(&bytes, 0x2C)))
        };
        // The first records, which every volume has, are in the sample too, besides those spread over the table.
        let few = (0..16).filter(|&number| is_right(number)).count() as u64;
        let spread = (0..SAMPLES)
            .map(|sample| (u128::from(sample) * u128::from(self.count) / u128::from(SAMPLES)) as u64);
        few + spread.filter(|&number| is_right(number)).count() as u64
    }

    /// How many of the two system files that have a place for each cluster have as many as the volume is said to have:
    /// `$Bitmap`, with a bit for each, in whole 8 bytes, and the stream `$Bad` of `$BadClus`.
    pub(crate) fn agreeing(&self, disk: &Disk, geometry: &Geometry) -> u8 {
        let size = |number: u64, name: &str| {
            let mut bytes = vec![0; geometry.record as usize];
            self.read(disk, geometry, number, &mut bytes).ok()?;
            fixup::remove(&mut bytes, "file record", 0).ok()?;
            let (record, _) = salvage(&bytes, 0).ok()?;
            match &record.find(Kind::DATA, name)?.content {
                AttributeContent::NonResident(piece) => Some(piece.size),
                AttributeContent::Resident { .. } => None,
            }
        };
        let has_bits = size(known::BITMAP, "") == Some(geometry.clusters.div_ceil(64) * 8);
        let has_places = size(known::BAD_CLUSTERS, "$Bad") == Some(geometry.clusters * geometry.cluster);
        u8::from(has_bits) + u8::from(has_places)
    }

    /// The device offset of a record in bytes.
    pub(crate) fn place(&self, geometry: &Geometry, number: u64) -> u64 {
        let offset = number * u64::from(geometry.record);
        super::disk::pieces(geometry, &self.runs, offset, 1).first().and_then(|piece| piece.1).unwrap_or(0)
    }

    /// Reads records from `number` on as they are on the device.
    pub(crate) fn read(
        &self,
        disk: &Disk,
        geometry: &Geometry,
        number: u64,
        buffer: &mut [u8],
    ) -> Result<()> {
        disk.read_runs(geometry, &self.runs, number * u64::from(geometry.record), buffer)
    }
}
