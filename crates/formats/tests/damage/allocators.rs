//! Something that a file has is free in the allocator, and nothing else is wrong. What a check rates as damage then, opening
//! sees too, so that the volume is only read; or whatever is written harms no file.

use crate::flips::write;
use crate::tree::every_file;
use crate::volumes::Volume;
use crate::{Failures, Tally};
use platter_device::{Device, OverlayDevice};
use platter_exfat::layout::{BitmapEntry, BootSector as ExfatBoot, kind};
use platter_fat::layout::{BootSector as FatBoot, get, set};
use platter_ntfs::layout::{AttributeContent, BootSector as NtfsBoot, Kind, Record, fixup, runs};
use platter_testing::model::Random;
use platter_vfs::{OpenOptions, Place};
use std::sync::Arc;

/// The size of a sector in bytes.
const SECTOR: u64 = 512;
/// More files than fit on the volumes of FAT, exFAT and NTFS.
const FILES: u64 = 600;

pub(crate) fn one(volume: &Volume, seed: u64, tally: &mut Tally) -> Failures {
    let mut random = Random::new(seed);
    let damaged = Arc::new(OverlayDevice::new(volume.device.clone()));
    let told = match volume.name {
        "fat12" | "fat16" | "fat32" => fat(&damaged, file_cluster(volume, &mut random)),
        "exfat" => exfat(&damaged, file_cluster(volume, &mut random)),
        "ntfs" | "ntfs+compressed" if random.chance(30) => ntfs_record(&damaged, &mut random),
        "ntfs" | "ntfs+compressed" => ntfs(&damaged, file_cluster(volume, &mut random)),
        // The pages of the allocators have checksums, which other tests are about.
        _ => return Failures::new(),
    };
    let device: Arc<dyn Device> = damaged;
    let mut failures = Failures::new();
    match volume.check(&*device, false) {
        Ok(report) if report.is_clean() => failures.push("the check passes it".into()),
        Ok(_) => {}
        Err(error) => failures.push(format!("it cannot be checked: {error}")),
    }
    let is_seen = volume
        .format
        .open(device.clone(), OpenOptions::default())
        .is_ok_and(|system| system.info().is_ok_and(|info| info.read_only.is_some()));
    tally.note(if is_seen { "opening sees it" } else { "opening does not see it" }, seed);
    let before = volume.read(&device);
    failures.extend(write(volume, &device, &before, seed, tally, FILES));
    failures.into_iter().map(|what| format!("{what} ({told})")).collect()
}

/// The device offset of a part of a file.
fn file_cluster(volume: &Volume, random: &mut Random) -> u64 {
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let system = volume.format.open(volume.device.clone(), options).expect("the volume just made");
    let mut places = Vec::new();
    every_file(&*system, &mut |node| {
        for extent in system.extents(node).unwrap_or_default() {
            if let Place::Device(at) = extent.place {
                places.extend((at..at + extent.length).step_by(SECTOR as usize));
            }
        }
    });
    *random.pick(&places)
}

fn bytes(device: &OverlayDevice, at: u64, length: usize) -> Vec<u8> {
    let start = at / SECTOR * SECTOR;
    let end = (at + length as u64).next_multiple_of(SECTOR);
    let mut bytes = vec![0; (end - start) as usize];
    device.read_at(start, &mut bytes).expect("a device in memory");
    bytes.drain(..(at - start) as usize);
    bytes.truncate(length);
    bytes
}

/// Clears one bit of a bitmap that begins at this offset.
fn clear(device: &OverlayDevice, bitmap: u64, bit: u64) {
    let at = bitmap + bit / 8;
    let start = at / SECTOR * SECTOR;
    let mut sector = bytes(device, start, SECTOR as usize);
    let byte = &mut sector[(at - start) as usize];
    assert_ne!(*byte >> (bit % 8) & 1, 0, "bit {bit} is clear");
    *byte &= !(1 << (bit % 8));
    device.write_at(start, &sector).expect("a device in memory");
}

/// Makes an entry 0 in every copy of the FAT.
fn fat(device: &OverlayDevice, place: u64) -> String {
    let boot = FatBoot::from_bytes(&bytes(device, 0, 512).try_into().expect("a sector"));
    let geometry = boot.geometry(device.len()).expect("a volume");
    let cluster = geometry.heap().cluster_at(place);
    for copy in 0..geometry.fat_count {
        let start = geometry.fat_offset(copy);
        let mut table = bytes(device, start, geometry.fat_sectors as usize * SECTOR as usize);
        assert_ne!(get(geometry.kind, &table, cluster), Some(0), "cluster {cluster} is free");
        assert!(set(geometry.kind, &mut table, cluster, 0));
        device.write_at(start, &table).expect("a device in memory");
    }
    format!("cluster {cluster} is free in the FAT")
}

fn exfat(device: &OverlayDevice, place: u64) -> String {
    let boot = ExfatBoot::from_bytes(&bytes(device, 0, 512).try_into().expect("a sector"));
    let geometry = boot.geometry(device.len()).expect("a volume");
    let root = bytes(device, geometry.heap.offset(geometry.root_cluster), SECTOR as usize);
    let slot = root.as_chunks::<32>().0.iter().find(|slot| slot[0] == kind::BITMAP).expect("a bitmap");
    let bitmap = geometry.heap.offset(BitmapEntry::from_bytes(slot).cluster);
    let cluster = geometry.heap.cluster_at(place);
    clear(device, bitmap, u64::from(cluster) - 2);
    format!("cluster {cluster} is free in the bitmap")
}

/// The offset of a non-resident attribute of one of the first records, which is in one piece.
fn outside(device: &OverlayDevice, number: u64, of: Kind) -> (u64, u64) {
    let boot = NtfsBoot::from_bytes(&bytes(device, 0, 512)).expect("a boot sector");
    let geometry = boot.geometry(device.len()).expect("a volume");
    let at = geometry.mft * geometry.cluster + number * u64::from(geometry.record);
    let mut record = bytes(device, at, geometry.record as usize);
    fixup::remove(&mut record, "file record", at).expect("a whole record");
    let record = Record::from_bytes(&record, at).expect("a record");
    let attribute =
        record.attributes.iter().find(|attribute| attribute.kind == of && attribute.name.is_empty());
    let Some(AttributeContent::NonResident(found)) = attribute.map(|attribute| &attribute.content) else {
        panic!("record {number} has no such attribute");
    };
    let pieces = runs::unpack(&found.pairs, found.first, found.end, geometry.clusters, at).expect("runs");
    (pieces[0].lcn.expect("no hole") * geometry.cluster, geometry.cluster)
}

fn ntfs(device: &OverlayDevice, place: u64) -> String {
    const BITMAP: u64 = 6;
    let (bitmap, cluster) = outside(device, BITMAP, Kind::DATA);
    clear(device, bitmap, place / cluster);
    format!("cluster {} is free in $Bitmap", place / cluster)
}

/// Frees the record of a file.
fn ntfs_record(device: &OverlayDevice, random: &mut Random) -> String {
    let (bitmap, _) = outside(device, 0, Kind::BITMAP);
    let first = bytes(device, bitmap, 32);
    let is_set = |number: &u64| first[*number as usize / 8] >> (number % 8) & 1 != 0;
    let taken: Vec<u64> = (24..256).filter(is_set).collect();
    let number = *random.pick(&taken);
    clear(device, bitmap, number);
    format!("record {number} is free in the bitmap of $MFT")
}
