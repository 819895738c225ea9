//! Looking through a device for boot sectors and file records, and finding by the records where their volume begins.

use crate::check::disk::Disk;
use crate::check::record;
use crate::layout::bytes::{u16_at, u32_at, u64_at};
use crate::layout::{
    AttributeContent, BootSector, Geometry, Kind, Record, Run, fixup, record_flags, record_number as known,
    runs,
};
use platter_device::Device;
use platter_vfs::{Progress, Result};
use std::collections::{BTreeMap, HashMap};

/// Bytes that are read at once.
const READ: u64 = 4 << 20;

/// Record sizes that are looked for.
pub(super) const SIZES: [u32; 2] = [1024, 4096];

/// The most records whose places are kept.
const MOST: usize = 64 << 20;

/// The unit in which boot sectors and records are looked for.
const STEP: usize = 512;

/// The device offset of each record, by its number.
pub(super) type RecordPlaces = BTreeMap<u64, u64>;

/// What ranks records of one number: one that is in use is taken first, then the last to change.
type Rank = (bool, u64);

/// Looks through the device for records of each of the [`SIZES`]. `boot` is called with each sector that has the name of
/// a boot sector, and its offset; if it returns `false`, the search ends.
pub(super) fn scan(
    device: &dyn Device,
    progress: &dyn Progress,
    boot: &mut dyn FnMut(u64, &[u8]) -> bool,
) -> Result<Vec<RecordPlaces>> {
    let disk = Disk::new(device);
    let longest = u64::from(SIZES[SIZES.len() - 1]);
    let mut found: Vec<BTreeMap<u64, (u64, Rank)>> = vec![BTreeMap::new(); SIZES.len()];
    let (mut at, mut looked) = (0, 0);
    'all: while at < device.len() {
        at = device.next_data(at) / STEP as u64 * STEP as u64;
        let length = READ.min(device.len() - at);
        progress.step("looking for file records", at, device.len())?;
        let mut bytes = vec![0; length as usize];
        if length == 0 {
            break;
        }
        // A range that cannot be read has no records.
        if disk.read(at, &mut bytes).is_ok() {
            for start in (0..bytes.len()).step_by(STEP) {
                let place = at + start as u64;
                for (size, found) in SIZES.into_iter().zip(&mut found) {
                    note_record(found, &bytes[start..], size, place);
                }
                // Ranges overlap, since a record may lie across the end of one.
                let Some(sector) = bytes.get(start..start + STEP).filter(|_| place >= looked) else {
                    continue;
                };
                if &sector[3..11] == BootSector::NAME && !boot(place, sector) {
                    break 'all;
                }
            }
            looked = at + length;
        }
        let is_last = at + length == device.len();
        at += if is_last { length } else { length - longest };
    }
    let places = |found: BTreeMap<u64, (u64, Rank)>| {
        found.into_iter().map(|(number, (place, _))| (number, place)).collect()
    };
    Ok(found.into_iter().map(places).collect())
}

/// Notes what these bytes begin with if it is a record of this size.
fn note_record(found: &mut BTreeMap<u64, (u64, Rank)>, bytes: &[u8], size: u32, place: u64) {
    if !bytes.starts_with(Record::SIGNATURE) || found.len() >= MOST {
        return;
    }
    let Some(record) = bytes.get(..size as usize) else { return };
    if u32_at(record, 0x1C) != size || fixup::remove(&mut record.to_vec(), "file record", place).is_err() {
        return;
    }
    let number = u64::from(u32_at(record, 0x2C));
    let is_used = u16_at(record, 0x16) & record_flags::IN_USE != 0;
    let rank = (is_used, u64_at(record, 8));
    let best = found.entry(number).or_insert((place, rank));
    if rank > best.1 {
        *best = (place, rank);
    }
}

/// Finds where the volume begins and the size of its clusters: `$MFT` gives the places of its records in clusters, and
/// with the right size most records, the copies of the first ones and the index blocks of directories are where that
/// leads to from the start of the volume.
pub(super) fn measure(disk: &Disk<'_>, found: &RecordPlaces, size: u32) -> Option<(u64, Geometry)> {
    let table = runs_of(disk, found, size, known::MFT, Kind::DATA, "")?;
    let lcn = table.first()?.lcn.filter(|lcn| *lcn > 0)?;
    let mirror = runs_of(disk, found, size, known::MFT_MIRROR, Kind::DATA, "");
    let mut signs: Vec<(u64, &[u8])> = Vec::new();
    signs.extend(first_place(mirror).map(|lcn| (lcn, &Record::SIGNATURE[..])));
    for &number in found.keys().filter(|number| **number >= known::ROOT).take(MOST_SIGNS) {
        let blocks = runs_of(disk, found, size, number, Kind::INDEX_ALLOCATION, "$I30");
        signs.extend(first_place(blocks).map(|lcn| (lcn, &b"INDX"[..])));
    }
    let (mut best, mut geometry) = (None, None);
    for cluster in (9..=21).map(|shift| 1u64 << shift) {
        let Some((start, records)) = vote(found, &table, cluster, size) else { continue };
        let is_there = |(lcn, sign): &&(u64, &[u8])| {
            let at = lcn.checked_mul(cluster).and_then(|at| at.checked_add(start));
            let mut begins = [0; 4];
            at.is_some_and(|at| disk.read(at, &mut begins).is_ok()) && begins[..] == sign[..4]
        };
        let rank = (signs.iter().filter(is_there).count(), records, start == 0);
        if best.is_none_or(|best| rank > best) {
            best = Some(rank);
            let clusters = disk.len().checked_sub(start)? / cluster;
            let length = clusters * cluster;
            let (record, index, mft, mirror) = (size, 4096, lcn, lcn);
            geometry = Some((
                start,
                Geometry { sector: 512, cluster, clusters, length, record, index, mft, mirror },
            ));
        }
    }
    geometry
}

/// The most records whose index blocks are looked for.
const MOST_SIGNS: usize = 1024;

/// Returns the runs of an attribute of a record that was found, as far as they can be read.
fn runs_of(
    disk: &Disk<'_>,
    found: &RecordPlaces,
    size: u32,
    number: u64,
    kind: Kind,
    name: &str,
) -> Option<Vec<Run>> {
    let at = *found.get(&number)?;
    let mut bytes = vec![0; size as usize];
    disk.read(at, &mut bytes).ok()?;
    fixup::remove(&mut bytes, "file record", at).ok()?;
    let (record, _) = record::salvage(&bytes, at).ok()?;
    let AttributeContent::NonResident(outside) = &record.find(kind, name)?.content else { return None };
    let mut all = Vec::new();
    runs::unpack_into(&mut all, &outside.pairs, 0, outside.end, u64::MAX >> 8, at).ok();
    Some(all)
}

fn first_place(runs: Option<Vec<Run>>) -> Option<u64> {
    runs?.first()?.lcn
}

/// Returns the start of the volume that most records give, if clusters have this size, and how many do.
fn vote(found: &RecordPlaces, table: &[Run], cluster: u64, size: u32) -> Option<(u64, usize)> {
    let mut votes: HashMap<u64, usize> = HashMap::new();
    for (&number, &place) in found {
        let Some(offset) = number.checked_mul(u64::from(size)) else { break };
        let vcn = offset / cluster;
        let run = table.get(table.partition_point(|run| run.end() <= vcn)).filter(|run| run.vcn <= vcn);
        let at = run.and_then(|run| {
            run.lcn?.checked_add(vcn - run.vcn)?.checked_mul(cluster)?.checked_add(offset % cluster)
        });
        let start = at.and_then(|at| place.checked_sub(at)).filter(|start| start.is_multiple_of(STEP as u64));
        start.into_iter().for_each(|start| *votes.entry(start).or_default() += 1);
    }
    votes.into_iter().max_by_key(|&(start, count)| (count, std::cmp::Reverse(start)))
}
