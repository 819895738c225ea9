//! Volumes in sectors of 512 bytes on a device whose sectors have 4,096, such as a disk that was moved to another USB bridge.

use crate::damaged::{Volume, populated};
use platter_fat::Fat;
use platter_fat::layout::FatKind;
use platter_testing::model::read_in_small_sectors;

#[test]
fn a_volume_in_smaller_sectors_than_the_device_s_is_read() {
    for kind in [FatKind::Fat12, FatKind::Fat16, FatKind::Fat32] {
        let image = populated(kind);
        let expected = Volume::new(image.clone()).contents();
        read_in_small_sectors(&Fat::ANY, &image, &expected, kind.name());
    }
}
