//! Named streams, on the formats that have them.

use platter_device::{Device, MemoryDevice, Sectors};
use platter_formats::by_name;
use platter_vfs::{
    Change, CheckOptions, Error, FileSystem, FormatOptions, Kind, Node, OpenOptions, Silent, Timestamp,
};
use std::sync::Arc;

/// A new volume of each format that has named streams, and the format's name.
fn volumes() -> impl Iterator<Item = (&'static str, Arc<dyn FileSystem>)> {
    [("ntfs", 16 << 20), ("refs", 320 << 20), ("refs+integrity", 320 << 20)].into_iter().map(
        |(name, size)| {
            let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(size, Sectors::SMALL));
            let format = by_name(name).expect("registered");
            format.make(&*device, &FormatOptions::default(), &Silent).unwrap();
            (name, format.open(device, OpenOptions::default()).unwrap())
        },
    )
}

/// Names of streams may have characters that names of files may not have.
#[test]
fn a_stream_may_be_called_as_windows_allows() {
    for (format, system) in volumes() {
        let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        for name in ["\u{5}SummaryInformation", "a?*<>|\" ", "ends with a dot.", " "] {
            let stream = system.streams().unwrap().open(file, &name.into(), true).unwrap();
            system.write(stream, 0, name.as_bytes()).unwrap();
            system.forget(stream, 1);
            let stream = system.streams().unwrap().open(file, &name.into(), false).unwrap();
            let mut read = vec![0; 50];
            let length = system.read(stream, 0, &mut read).unwrap();
            assert_eq!(&read[..length], name.as_bytes(), "{format}");
        }
        for name in ["a:b", "a\\b", "a/b", "a\0b", ""] {
            let refused = system.streams().and_then(|part| part.open(file, &name.into(), true));
            assert!(matches!(refused, Err(Error::InvalidName { .. })), "{format}: {name:?}: {refused:?}");
            let none = system.streams().and_then(|part| part.open(file, &name.into(), false));
            assert!(matches!(none, Err(Error::NotFound)), "{format}: {name:?}: {none:?}");
        }
        system.forget(file, 1);
        system.unmount().unwrap();
        let checked = by_name(format).expect("registered");
        let report = checked.check(&**system.device(), CheckOptions::default(), &Silent).unwrap();
        assert!(report.is_clean(), "{format}: {:?}", report.findings);
    }
}

#[test]
fn a_removal_that_fails_leaves_the_times_as_they_were() {
    for (format, system) in volumes() {
        let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        let stream = system.streams().unwrap().open(file, &"stream".into(), true).unwrap();
        let old = Change { modified: Some(Timestamp { seconds: 1, nanoseconds: 0 }), ..Change::default() };
        system.set_attributes(file, &old).unwrap();
        system.write(stream, 0, &[1; 100]).unwrap();
        let times = |node: Node| system.attributes(node).map(|now| (now.modified, now.changed)).unwrap();
        let before = times(file);
        assert!(before.0.seconds > 1, "{format}: {before:?}");
        for node in [stream, file] {
            assert!(system.streams().and_then(|part| part.remove(node, &"none".into())).is_err());
            assert_eq!((times(file), times(stream)), (before, before), "{format}");
        }
    }
}
