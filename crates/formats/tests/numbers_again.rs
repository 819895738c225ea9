//! The number of a file that is gone comes again on FAT and exFAT, for what has its entry in the same place: nothing that
//! was known of the former file is taken for the new one's.

use platter_device::{Buffer, Device, MemoryDevice, Queue, Result, Sectors};
use platter_formats::by_name;
use platter_vfs::{
    CheckOptions, FileSystem, Format, FormatOptions, Kind, Name, Node, OpenOptions, Plan, Silent,
};
use std::sync::{Arc, Mutex};

const FORMATS: [(&str, u64); 4] = [("fat12", 4), ("fat16", 16), ("fat32", 48), ("exfat", 16)];
const PIECE: usize = 4 << 10;

type Act = Box<dyn FnOnce() + Send>;

/// A device that does something else before a write.
struct Between {
    below: MemoryDevice,
    before: Mutex<Option<Act>>,
}

impl Device for Between {
    fn name(&self) -> &str {
        self.below.name()
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn sectors(&self) -> Sectors {
        self.below.sectors()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.below.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        let before = self.before.lock().unwrap().take();
        before.into_iter().for_each(|before| before());
        self.below.write_at(offset, data)
    }

    fn flush(&self) -> Result<()> {
        self.below.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        self.below.discard(offset, length)
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        self.below.queue(depth)
    }
}

struct Tested {
    format: &'static dyn Format,
    device: Arc<Between>,
    system: Arc<dyn FileSystem>,
}

impl Tested {
    fn new(format: &str, megabytes: u64) -> Tested {
        let below = MemoryDevice::new(megabytes << 20, Sectors::SMALL);
        let device = Arc::new(Between { below, before: Mutex::new(None) });
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

fn planned_write(system: &dyn FileSystem, node: Node, content: u8, plan: &mut Plan) {
    let data = Buffer::from(&[content; PIECE][..]);
    system.plan_write(node, 0, &data, plan).unwrap();
    let done = plan.write_to(&**system.device(), &data);
    system.finish_write(plan, &data, done).unwrap();
}

fn planned_read(system: &dyn FileSystem, node: Node, plan: &mut Plan) -> Vec<u8> {
    let mut buffer = Buffer::new(PIECE);
    system.plan_read(node, 0, PIECE, plan).unwrap();
    let done = plan.read_from(&**system.device(), &mut buffer);
    let read = system.finish_read(plan, &mut buffer, done).unwrap();
    buffer[..read].to_vec()
}

#[test]
fn plans_of_a_removed_file_are_not_used_for_the_next_one() {
    for (format, megabytes) in FORMATS {
        let tested = Tested::new(format, megabytes);
        let system = &*tested.system;
        let [mut writing, mut reading] = [(); 2].map(|()| Plan::default());
        let first = tested.create("former");
        planned_write(system, first, 1, &mut writing);
        assert_eq!(planned_read(system, first, &mut reading), [1; PIECE]);
        system.sync_all().unwrap();
        system.forget(first, 1);
        system.unlink(Node::ROOT, &"former".into()).unwrap();
        system.sync_all().unwrap();
        let second = tested.create("latter");
        assert_eq!(first, second, "{format}: the place is another one");
        assert_eq!(planned_read(system, second, &mut reading), [0; 0], "{format}");
        planned_write(system, second, 2, &mut writing);
        assert_eq!(planned_read(system, second, &mut reading), [2; PIECE], "{format}");
        assert_eq!(system.attributes(second).unwrap().size, PIECE as u64, "{format}");
        // Held, the former file keeps the number, and what takes its place has another.
        system.unlink(Node::ROOT, &"latter".into()).unwrap();
        system.sync_all().unwrap();
        let third = tested.create("last");
        assert_ne!(second, third, "{format}");
        planned_write(system, third, 3, &mut writing);
        assert_eq!(planned_read(system, second, &mut reading), [2; PIECE], "{format}");
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
        *tested.device.before.lock().unwrap() = Some(Box::new(move || {
            system.unlink(Node::ROOT, &"name".into()).unwrap();
            let second = system.create(Node::ROOT, &"name".into(), Kind::File).unwrap();
            assert_eq!(first, second, "the place is another one");
            system.write(second, 0, b"content").unwrap();
            system.forget(second, 1);
        }));
        tested.system.sync_all().unwrap();
        assert!(tested.device.before.lock().unwrap().is_none());
        tested.holds("name", b"content");
    }
}
