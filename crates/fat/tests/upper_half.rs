//! On FAT12 and FAT16 the upper half of the field for the first cluster belongs to other systems: it is ignored, and
//! kept.

use platter_device::{Device, MemoryDevice, Sectors};
use platter_fat::Fat;
use platter_vfs::{Change, CheckOptions, Format, FormatOptions, Kind, Node, OpenOptions, Silent, Timestamp};
use std::sync::Arc;

#[test]
fn what_others_keep_in_an_entry_is_no_part_of_its_cluster() {
    for (format, megabytes) in [(&Fat::FAT12, 4), (&Fat::FAT16, 20)] {
        let device = Arc::new(MemoryDevice::new(megabytes << 20, Sectors::SMALL));
        format.make(&*device, &FormatOptions::default(), &Silent).unwrap();
        let open = || format.open(device.clone(), OpenOptions::default()).unwrap();
        let system = open();
        let file = system.create(Node::ROOT, &"FILE.TXT".into(), Kind::File).unwrap();
        system.write(file, 0, &[7; 9000]).unwrap();
        let directory = system.create(Node::ROOT, &"DIR".into(), Kind::Directory).unwrap();
        system.create(directory, &"INSIDE".into(), Kind::File).unwrap();
        let free = system.space().unwrap().free;
        system.unmount().unwrap();
        drop(system);
        let mut image = device.to_image();
        let mut slots = Vec::new();
        for name in [b"FILE    TXT", b"DIR        "] {
            let at = (0..image.len()).step_by(32).find(|&at| image[at..].starts_with(name)).unwrap();
            image[at + 20..at + 22].copy_from_slice(&[0x34, 0x12]);
            slots.push(at);
        }
        device.write_at(0, &image).unwrap();
        let system = open();
        let file = system.lookup(Node::ROOT, &"FILE.TXT".into()).unwrap();
        let mut content = [0; 9000];
        assert_eq!(system.read(file, 0, &mut content).unwrap(), 9000);
        assert_eq!(content, [7; 9000]);
        let directory = system.lookup(Node::ROOT, &"DIR".into()).unwrap();
        system.lookup(directory, &"INSIDE".into()).unwrap();
        // A change of the entry keeps the upper half.
        let modified = Some(Timestamp { seconds: 1_000_000_000, nanoseconds: 0 });
        system.set_attributes(file, &Change { modified, ..Change::default() }).unwrap();
        system.unmount().unwrap();
        drop(system);
        let image = device.to_image();
        assert!(slots.iter().all(|at| image[at + 20..at + 22] == [0x34, 0x12]));
        let report = format.check(&*device, CheckOptions::default(), &Silent).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
        // Removing the file frees all of its clusters.
        let system = open();
        system.unlink(Node::ROOT, &"FILE.TXT".into()).unwrap();
        system.sync_all().unwrap();
        let space = system.space().unwrap();
        assert_eq!(space.free, free + 9000u64.div_ceil(space.cluster));
    }
}
