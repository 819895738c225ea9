//! Two files with the same clusters: these are not given back twice.

use crate::damaged::Volume;
use platter_device::{MemoryDevice, Sectors};
use platter_ntfs::Ntfs;
use platter_testing::model::{giving_back_twice_stops_writing, two_files};
use std::sync::Arc;

#[test]
fn giving_back_shared_clusters_twice_stops_writing() {
    let mut volume = Volume::new(two_files(&Ntfs, 8 << 20, None));
    let [one, two] = ["/one", "/two"].map(|path| {
        let is_it = |(_, file): &(&u64, &crate::damaged::File)| file.paths.iter().any(|one| one == path);
        volume.files.iter().find(is_it).map(|(&number, _)| number).expect(path)
    });
    volume.share(one, two);
    let device = Arc::new(MemoryDevice::from_image(&volume.image, Sectors::SMALL));
    giving_back_twice_stops_writing(&Ntfs, &device);
}
