//! Two files with the same clusters: these are not given back twice.

use crate::damaged::Volume;
use platter_device::{MemoryDevice, Sectors};
use platter_exfat::Exfat;
use platter_testing::model::giving_back_twice_stops_writing;
use platter_vfs::{Format, FormatOptions, Kind, Name, Node, OpenOptions, Silent};
use std::sync::Arc;

#[test]
fn giving_back_shared_clusters_twice_stops_writing() {
    let device = Arc::new(MemoryDevice::new(4 << 20, Sectors::SMALL));
    let options = FormatOptions { cluster: Some(512), ..FormatOptions::default() };
    Exfat.make(&*device, &options, &Silent).unwrap();
    let system = Exfat.open(device.clone(), OpenOptions::default()).unwrap();
    for name in ["one", "two"] {
        let file = system.create(Node::ROOT, &Name::from(name), Kind::File).unwrap();
        system.write(file, 0, &[1; 10_000]).unwrap();
    }
    system.unmount().unwrap();
    let mut volume = Volume::new(device.to_image());
    let [one, two] = ["/one", "/two"]
        .map(|path| volume.found.iter().find(|found| found.path == path).cloned().expect(path));
    volume.change(&two, |info| info.cluster = one.info.cluster);
    let device = Arc::new(MemoryDevice::from_image(&volume.image, Sectors::SMALL));
    giving_back_twice_stops_writing(&Exfat, &device);
}
