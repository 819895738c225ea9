//! Volumes in sectors of 512 bytes on a device whose sectors have 4,096, such as a disk that was moved to another USB bridge.

mod damaged;

use damaged::{Volume, populated};
use platter_device::{MemoryDevice, Sectors};
use platter_exfat::Exfat;
use platter_exfat::layout::{BootRegion, BootSector};
use platter_testing::model::told;
use platter_vfs::{CheckOptions, Error, Format, Kind, Name, Node, OpenOptions, Silent};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Moves FAT and clusters by one sector, so that they begin inside a sector of the device.
fn unaligned(image: Vec<u8>) -> Vec<u8> {
    let mut boot = BootSector::from_bytes(image[..512].try_into().unwrap());
    let (fat, heap) = (boot.fat_offset as usize * 512, boot.heap_offset as usize * 512);
    let end = heap + ((boot.cluster_count as usize) << (9 + boot.cluster_shift));
    let mut moved = image.clone();
    moved.resize((end + 512).next_multiple_of(4096).max(image.len()), 0);
    moved[heap + 512..end + 512].copy_from_slice(&image[heap..end]);
    let length = boot.fat_length as usize * 512;
    moved[fat + 512..fat + 512 + length].copy_from_slice(&image[fat..fat + length]);
    (boot.fat_offset, boot.heap_offset) = (boot.fat_offset + 1, boot.heap_offset + 1);
    boot.volume_length = moved.len() as u64 / 512;
    moved[..512].copy_from_slice(&boot.to_bytes());
    BootRegion::seal(&mut moved[..12 * 512], 512);
    moved.copy_within(..12 * 512, 12 * 512);
    moved
}

#[test]
fn a_volume_in_smaller_sectors_than_the_device_s_is_read() {
    for cluster in [512, 4096] {
        let image = unaligned(populated(cluster));
        let expected = Volume::new(image.clone()).contents();
        let device = Arc::new(MemoryDevice::from_image(&image, Sectors::LARGE));
        let system = Exfat.open(device.clone(), OpenOptions::default()).unwrap();
        for (path, content) in &expected {
            let node = path.split('/').skip(1).fold(Node::ROOT, |directory, name| {
                system.lookup(directory, &Name::from(name)).unwrap_or_else(|error| panic!("{path}: {error}"))
            });
            let mut found = vec![0; content.len() + 1];
            let length = system.read(node, 0, &mut found).unwrap();
            assert!(found[..length] == **content, "{cluster} {path}");
        }
        let error = system.create(Node::ROOT, &Name::from("new"), Kind::File).unwrap_err();
        let Error::ReadOnly(why) = &error else { panic!("{error}") };
        assert!(why.contains("sectors of 512 bytes") && why.contains("4096"), "{why}");
        system.unmount().unwrap();
        assert!(device.to_image() == image);
        let recognised = Exfat.recognise(&*device).unwrap().unwrap();
        assert_eq!(recognised.label.as_deref(), Some("Damaged"));

        let report = Exfat.check(&*device, CheckOptions::default(), &Silent).unwrap();
        assert_eq!(report.found, 0, "{cluster}: {}", told(&report));
        let mut recovered = BTreeMap::new();
        let visit: platter_vfs::Visit<'_> = &mut |found, data| {
            let path: String = found.path.iter().map(|name| format!("/{name}")).collect();
            let mut content = vec![0; found.size as usize];
            data.read(0, &mut content)?;
            recovered.insert(path, content);
            Ok(())
        };
        Exfat.recover(device, &Silent, visit).unwrap();
        for (path, content) in expected {
            assert!(recovered.get(&path) == Some(&content), "{cluster} {path}");
        }
    }
}
