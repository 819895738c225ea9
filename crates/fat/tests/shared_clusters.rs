//! Two files with the same chain: their clusters are not given back twice.

use crate::damaged::Volume;
use platter_device::{MemoryDevice, Sectors};
use platter_fat::Fat;
use platter_testing::model::{giving_back_twice_stops_writing, two_files};
use std::sync::Arc;

#[test]
fn giving_back_a_shared_chain_twice_stops_writing() {
    for (format, length) in [(Fat::FAT12, 2 << 20), (Fat::FAT16, 6 << 20), (Fat::FAT32, 36 << 20)] {
        let mut volume = Volume::new(two_files(&format, length, Some(512)));
        let [one, two] = ["/one", "/two"]
            .map(|path| volume.found.iter().find(|found| found.path == path).cloned().expect(path));
        volume.change(&two, |entry| entry.cluster = one.entry.cluster);
        let device = Arc::new(MemoryDevice::from_image(&volume.image, Sectors::SMALL));
        giving_back_twice_stops_writing(&format, &device);
    }
}
