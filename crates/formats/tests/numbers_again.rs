//! The number of a file that is gone comes again on FAT and exFAT, for what has its entry in the same place: nothing that
//! was known of the former file is taken for the new one's.

use platter_device::{Device, MemoryDevice, Sectors};
use platter_formats::by_name;
use platter_testing::model::{Between, planned_read, planned_write};
use platter_vfs::{
    CheckOptions, FileSystem, Format, FormatOptions, Kind, Name, Node, OpenOptions, Plan, Silent,
};
use std::sync::Arc;

const FORMATS: [(&str, u64); 4] = [("fat12", 4), ("fat16", 16), ("fat32", 48), ("exfat", 16)];
const PIECE: usize = 4 << 10;

struct Tested {
    format: &'static dyn Format,
    device: Arc<Between>,
    system: Arc<dyn FileSystem>,
}

impl Tested {
    fn new(format: &str, megabytes: u64) -> Tested {
        let below = Arc::new(MemoryDevice::new(megabytes << 20, Sectors::SMALL));
        let device = Arc::new(Between::new(below, true));
        let format = by_name(format).unwrap();
        format.make(&*device, &FormatOptions::default(), &Silent).unwrap();
        let system = format.open(device.clone() as Arc<dyn Device>, OpenOptions::default()).unwrap();
        Tested { format, device, system }
    }

    fn create(&self, name: &str) -> Node {
        self.system.create(Node::ROOT, &Name::from(name), Kind::File).unwrap()
    }

    /// Opens the volume again; a file must hold this content, and a check find nothing.
    fn holds(mut self, name: &str, expected: &[u8]) {
        self.system.unmount().unwrap();
        let report = self.format.check(&*self.device, CheckOptions::default(), &Silent).unwrap();
        assert!(report.findings.is_empty(), "{}: {:?}", self.format.name(), report.findings);
        self.system =
            self.format.open(self.device.clone() as Arc<dyn Device>, OpenOptions::default()).unwrap();
        let node = self.system.lookup(Node::ROOT, &Name::from(name)).unwrap();
        let mut content = vec![0; expected.len() + 1];
        let read = self.system.read(node, 0, &mut content).unwrap();
        assert!(content[..read] == *expected, "{}: {read} bytes", self.format.name());
    }
}

#[test]
fn plans_of_a_removed_file_are_not_used_for_the_next_one() {
    for (format, megabytes) in FORMATS {
        let tested = Tested::new(format, megabytes);
        let system = &*tested.system;
        let [mut writing, mut reading] = [(); 2].map(|()| Plan::default());
        let first = tested.create("former");
        planned_write(system, first, 0, &[1; PIECE], &mut writing);
        assert_eq!(planned_read(system, first, PIECE, &mut reading), [1; PIECE]);
        system.sync_all().unwrap();
        system.forget(first, 1);
        system.unlink(Node::ROOT, &"former".into()).unwrap();
        system.sync_all().unwrap();
        let second = tested.create("latter");
        assert_eq!(first, second, "{format}: the place is another one");
        assert_eq!(planned_read(system, second, PIECE, &mut reading), [0; 0], "{format}");
        planned_write(system, second, 0, &[2; PIECE], &mut writing);
        assert_eq!(planned_read(system, second, PIECE, &mut reading), [2; PIECE], "{format}");
        assert_eq!(system.attributes(second).unwrap().size, PIECE as u64, "{format}");
        // Held, the former file keeps the number, and what takes its place has another.
        system.unlink(Node::ROOT, &"latter".into()).unwrap();
        system.sync_all().unwrap();
        let third = tested.create("last");
        assert_ne!(second, third, "{format}");
        planned_write(system, third, 0, &[3; PIECE], &mut writing);
        assert_eq!(planned_read(system, second, PIECE, &mut reading), [2; PIECE], "{format}");
        system.forget(second, 1);
        system.forget(third, 1);
        tested.holds("last", &[3; PIECE]);
    }
}

/// A file that was changed and removed leaves nothing that the next commit would do to the file with its number.
#[test]
fn a_change_of_a_removed_file_does_not_count_for_the_next_one() {
    for (format, megabytes) in FORMATS {
        let tested = Tested::new(format, megabytes);
        let system = &*tested.system;
        let first = tested.create("name");
        system.forget(first, 1);
        system.unlink(Node::ROOT, &"name".into()).unwrap();
        let second = tested.create("name");
        assert_eq!(first, second, "{format}: the place is another one");
        system.write(second, 0, b"content").unwrap();
        system.forget(second, 1);
        system.sync_all().unwrap();
        tested.holds("name", b"content");
    }
}

/// The same while a commit is under way that writes the former file.
#[test]
fn the_end_of_a_commit_lets_nothing_go_that_came_after_it() {
    for (format, megabytes) in FORMATS {
        let tested = Tested::new(format, megabytes);
        let first = tested.create("name");
        tested.system.forget(first, 1);
        let system = tested.system.clone();
        tested.device.before_a_write(move || {
            system.unlink(Node::ROOT, &"name".into()).unwrap();
            let second = system.create(Node::ROOT, &"name".into(), Kind::File).unwrap();
            assert_eq!(first, second, "the place is another one");
            system.write(second, 0, b"content").unwrap();
            system.forget(second, 1);
        });
        tested.system.sync_all().unwrap();
        assert!(tested.device.is_done());
        tested.holds("name", b"content");
    }
}
