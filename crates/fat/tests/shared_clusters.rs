//! Two files with the same chain: their clusters are not given back twice.

use crate::damaged::Volume;
use platter_device::{MemoryDevice, Sectors};
use platter_fat::Fat;
use platter_testing::model::giving_back_twice_stops_writing;
use platter_vfs::{Format, FormatOptions, Kind, Name, Node, OpenOptions, Silent};
use std::sync::Arc;

#[test]
fn giving_back_a_shared_chain_twice_stops_writing() {
    for (format, length) in [(Fat::FAT12, 2 << 20), (Fat::FAT16, 6 << 20), (Fat::FAT32, 36 << 20)] {
        let device = Arc::new(MemoryDevice::new(length, Sectors::SMALL));
        let options = FormatOptions { cluster: Some(512), ..FormatOptions::default() };
        format.make(&*device, &options, &Silent).unwrap();
        let system = format.open(device.clone(), OpenOptions::default()).unwrap();
        for name in ["one", "two"] {
            let file = system.create(Node::ROOT, &Name::from(name), Kind::File).unwrap();
            system.write(file, 0, &[1; 10_000]).unwrap();
        }
        system.unmount().unwrap();
        let mut volume = Volume::new(device.to_image());
        let [one, two] = ["/one", "/two"]
            .map(|path| volume.found.iter().find(|found| found.path == path).cloned().expect(path));
        volume.change(&two, |entry| entry.cluster = one.entry.cluster);
        let device = Arc::new(MemoryDevice::from_image(&volume.image, Sectors::SMALL));
        giving_back_twice_stops_writing(&format, &device);
    }
}
