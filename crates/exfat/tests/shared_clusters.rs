//! Two files with the same clusters: these are not given back twice.

use crate::damaged::Volume;
use platter_device::{MemoryDevice, Sectors};
use platter_exfat::Exfat;
use platter_testing::model::{giving_back_twice_stops_writing, two_files};
use std::sync::Arc;

#[test]
fn giving_back_shared_clusters_twice_stops_writing() {
    let mut volume = Volume::new(two_files(&Exfat, 4 << 20, Some(512)));
    let [one, two] = ["/one", "/two"]
        .map(|path| volume.found.iter().find(|found| found.path == path).cloned().expect(path));
    volume.change(&two, |info| info.cluster = one.info.cluster);
    let device = Arc::new(MemoryDevice::from_image(&volume.image, Sectors::SMALL));
    giving_back_twice_stops_writing(&Exfat, &device);
}
