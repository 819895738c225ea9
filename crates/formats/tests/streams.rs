//! Named streams, on the formats that have them.

use platter_device::{Device, MemoryDevice, Sectors};
use platter_formats::by_name;
use platter_vfs::{Change, FormatOptions, Kind, Node, OpenOptions, Silent, Timestamp};
use std::sync::Arc;

#[test]
fn a_removal_that_fails_leaves_the_times_as_they_were() {
    for (format, size) in [("ntfs", 16 << 20), ("refs", 320 << 20), ("refs+integrity", 320 << 20)] {
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(size, Sectors::SMALL));
        let format = by_name(format).expect("registered");
        format.make(&*device, &FormatOptions::default(), &Silent).unwrap();
        let system = format.open(device, OpenOptions::default()).unwrap();
        let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        let stream = system.stream(file, &"stream".into(), true).unwrap();
        let old = Change { modified: Some(Timestamp { seconds: 1, nanoseconds: 0 }), ..Change::default() };
        system.set_attributes(file, &old).unwrap();
        system.write(stream, 0, &[1; 100]).unwrap();
        let times = |node: Node| system.attributes(node).map(|now| (now.modified, now.changed)).unwrap();
        let before = times(file);
        assert!(before.0.seconds > 1, "{}: {before:?}", format.name());
        for node in [stream, file] {
            assert!(system.remove_stream(node, &"none".into()).is_err());
            assert_eq!((times(file), times(stream)), (before, before), "{}", format.name());
        }
    }
}
