//! Volumes in sectors of 512 bytes on a device whose sectors have 4,096, such as a disk that was moved to another USB bridge.

use crate::damaged::{Volume, populated};
use platter_exfat::Exfat;
use platter_exfat::layout::{BootRegion, BootSector};
use platter_testing::model::read_in_small_sectors;
use platter_vfs::Format;

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
        let device = read_in_small_sectors(&Exfat, &image, &expected, &format!("clusters of {cluster}"));
        let recognised = Exfat.recognise(&*device).unwrap().unwrap();
        assert_eq!(recognised.label.as_deref(), Some("Damaged"));
    }
}
