//! Volumes whose FAT is a few entries too short for the clusters that the sectors have room for, as some sticks are sold.

use crate::damaged::{Volume, populated};
use crate::judges::{ImageFile, fsck};
use platter_device::{MemoryDevice, Sectors};
use platter_fat::Fat;
use platter_fat::layout::{BootSector, FatKind, Geometry};
use platter_testing::model::told;
use platter_vfs::{Change, CheckOptions, Error, Format, Kind, Name, Node, OpenOptions, Silent, Visit};
use std::sync::Arc;

/// How many clusters have no entry.
const MISSING: u32 = 4;

fn boot(image: &[u8]) -> BootSector {
    BootSector::from_bytes(image[..512].try_into().unwrap())
}

fn geometry(image: &[u8]) -> Geometry {
    boot(image).geometry(image.len() as u64).unwrap()
}

/// Makes the volume so long that its FAT has too few entries.
fn short(kind: FatKind) -> Vec<u8> {
    let mut image = populated(kind);
    let was = geometry(&image);
    let entries = kind.entries_in(u64::from(was.fat_sectors * was.bytes_per_sector)) as u32;
    // A cluster has one sector.
    let sectors = was.first_data_sector + entries - 2 + MISSING;
    let mut sector = boot(&image);
    assert!(sector.total_sectors() < sectors);
    sector.shorten(sectors);
    image.resize(sectors as usize * 512, 0);
    image[..512].copy_from_slice(&sector.to_bytes());
    if let Some(backup) = was.backup_sector {
        image[backup as usize * 512..][..512].copy_from_slice(&sector.to_bytes());
        // The count of free clusters in the information sector is unknown.
        image[512 + 488..][..4].fill(0xFF);
    }
    let now = geometry(&image);
    assert_eq!((now.clusters, now.clusters_by_sectors()), (entries - 2, entries - 2 + MISSING), "{kind:?}");
    image
}

fn device(image: &[u8]) -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::from_image(image, Sectors::SMALL))
}

fn check(device: &MemoryDevice, repair: bool) -> platter_vfs::CheckReport {
    Fat::ANY.check(device, CheckOptions { repair }, &Silent).unwrap()
}

#[test]
fn the_clusters_with_entries_are_used_and_a_repair_ends_the_volume_after_them() {
    for kind in [FatKind::Fat16, FatKind::Fat32] {
        let image = short(kind);
        let device = device(&image);
        assert_eq!(Fat::ANY.recognise(&*device).unwrap().unwrap().format, kind.name());
        let system = Fat::ANY.open(device.clone(), OpenOptions::default()).unwrap();
        assert_eq!(system.space().unwrap().total, u64::from(geometry(&image).clusters));
        // Writing takes all clusters that have an entry, and no others.
        let file = system.create(Node::ROOT, &Name::from("rest"), Kind::File).unwrap();
        let free = system.space().unwrap().free;
        let resize = |size| system.set_attributes(file, &Change { size: Some(size), ..Change::default() });
        resize(free * 512).unwrap();
        assert!(matches!(resize(free * 512 + 1), Err(Error::NoSpace)), "{kind:?}");
        system.unmount().unwrap();
        let before = Volume::new(device.to_image()).contents();

        let report = check(&device, false);
        let codes: Vec<_> = report.findings.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, ["short-fat"], "{kind:?}: {}", told(&report));
        let message = &report.findings[0].message;
        let offset = if kind == FatKind::Fat32 { 36 } else { 22 };
        assert!(message.contains(&format!("offset {offset}")), "{message}");
        assert!(message.contains(&format!("the last {MISSING} clusters are not used")), "{message}");
        let repaired = check(&device, true);
        assert_eq!(repaired.exit_code(), 1, "{kind:?}: {}", told(&repaired));
        let after = device.to_image();
        assert!(check(&device, false).found == 0 && fsck(&ImageFile::new(&after)).clean, "{kind:?}");
        assert_eq!(geometry(&after).clusters_by_sectors(), geometry(&image).clusters);
        assert!(Volume::new(after).contents() == before, "{kind:?}");
    }
}

#[test]
fn what_is_left_of_it_is_recovered() {
    let image = short(FatKind::Fat32);
    let mut files = 0;
    let visit: Visit<'_> = &mut |_, _| {
        files += 1;
        Ok(())
    };
    Fat::ANY.recover(device(&image), &Silent, visit).unwrap();
    assert!(files >= Volume::new(image).found.len(), "{files}");
}

/// One wrong bit in the boot sector can make the FAT seem too short. The copy of the boot sector, or the place of the
/// structures, then shows that the volume was not made so.
#[test]
fn damage_that_looks_the_same_is_told_apart() {
    let sound = populated(FatKind::Fat32);
    // The sectors of a volume that does not reach to the end of its device. The copy says otherwise, and corrects them.
    let mut image = sound.clone();
    image.resize(image.len() + (16 << 20), 0);
    let mut sector = boot(&image);
    sector.total_sectors_32 |= 1 << 14;
    image[..512].copy_from_slice(&sector.to_bytes());
    assert!(geometry(&image).short_fat().is_some());
    let device_of_it = device(&image);
    let report = check(&device_of_it, true);
    assert!(report.findings.iter().any(|finding| finding.code == "boot-sector"), "{}", told(&report));
    assert!(device_of_it.to_image()[..sound.len()] == sound, "{}", told(&report));

    // A length that is beyond the end of the device too does not make the device one that was cut off.
    for kind in [FatKind::Fat16, FatKind::Fat32] {
        let sound = populated(kind);
        let mut image = sound.clone();
        let mut sector = boot(&image);
        match sector.total_sectors_16 {
            0 => sector.total_sectors_32 |= 1 << 20,
            _ => sector.total_sectors_16 |= 1 << 15,
        }
        assert!(
            sector.geometry(1 << 40).unwrap().short_fat().is_some()
                && sector.cut_off(image.len() as u64).is_some()
        );
        image[..512].copy_from_slice(&sector.to_bytes());
        let device = device(&image);
        let recognised = Fat::ANY.recognise(&*device).unwrap();
        assert_eq!(recognised.map(|recognised| recognised.cut_off), (kind == FatKind::Fat32).then_some(None));
        match Fat::ANY.check(&*device, CheckOptions { repair: true }, &Silent) {
            Ok(_) => assert!(device.to_image() == sound, "{kind:?}"),
            Err(_) => assert!(device.to_image() == image && kind == FatKind::Fat16, "{kind:?}"),
        }
    }

    // FAT16 has no copy. With fewer entries of the root the clusters would be elsewhere, and the root's directories are
    // not found there.
    let mut image = short(FatKind::Fat16);
    let mut sector = boot(&image);
    sector.root_entries /= 2;
    image[..512].copy_from_slice(&sector.to_bytes());
    let device = device(&image);
    let refused = Fat::ANY.open(device.clone(), OpenOptions::default()).map(|_| ()).unwrap_err();
    assert!(matches!(&refused, Error::Damaged(damage) if damage.offset == 22), "{refused}");
    assert!(Fat::ANY.check(&*device, CheckOptions { repair: true }, &Silent).is_err());
    assert!(device.to_image() == image);
}
