//! A plan that is used again for a file that was forgotten and looked up again meets the file as it is then.

use platter_device::{Device, MemoryDevice, Sectors};
use platter_formats::by_name;
use platter_testing::model::{planned_read, planned_write};
use platter_vfs::{Change, CheckOptions, FormatOptions, Kind, Name, Node, OpenOptions, Plan, Silent};
use std::sync::Arc;

const FORMATS: [(&str, u64); 6] = [
    ("fat16", 16 << 20),
    ("fat32", 48 << 20),
    ("exfat", 16 << 20),
    ("ntfs", 16 << 20),
    ("refs", 320 << 20),
    ("refs+integrity", 320 << 20),
];
const PIECE: usize = 64 << 10;

#[test]
fn a_plan_finds_the_file_as_it_is_now() {
    for (format, size) in FORMATS {
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(size, Sectors::SMALL));
        let format = by_name(format).expect("registered");
        format.make(&*device, &FormatOptions::default(), &Silent).unwrap();
        let system = format.open(device.clone(), OpenOptions::default()).unwrap();
        let name = Name::from("kept");
        let node = system.create(Node::ROOT, &name, Kind::File).unwrap();
        let [mut writing, mut reading] = [(); 2].map(|()| Plan::default());
        planned_write(&*system, node, 0, &[1; PIECE], &mut writing);
        assert_eq!(planned_read(&*system, node, PIECE, &mut reading), [1; PIECE]);
        system.sync_all().unwrap();
        system.forget(node, 1);
        // So many other files are made that the volume drops all that it only remembers of the first.
        let directory = system.create(Node::ROOT, &Name::from("others"), Kind::Directory).unwrap();
        for number in 0..1100 {
            let other = system.create(directory, &Name::from(&*format!("other {number}")), Kind::File);
            system.forget(other.unwrap(), 1);
        }
        system.forget(directory, 1);
        let node = system.lookup(Node::ROOT, &name).unwrap();
        system.set_attributes(node, &Change { size: Some(0), ..Change::default() }).unwrap();
        system.sync_all().unwrap();
        // The file gets other clusters now, and its old ones go to another file.
        let thief = system.create(Node::ROOT, &Name::from("thief"), Kind::File).unwrap();
        for piece in 0..32 {
            system.write(thief, piece * PIECE as u64, &[3; PIECE]).unwrap();
        }
        system.write(node, 0, &[2; PIECE]).unwrap();
        assert_eq!(planned_read(&*system, node, PIECE, &mut reading), [2; PIECE], "{}", system.format_name());
        planned_write(&*system, node, 0, &[4; PIECE], &mut writing);
        let mut seen = vec![0; PIECE];
        for (file, pieces, content) in [(node, 1, 4), (thief, 32, 3)] {
            for piece in 0..pieces {
                assert_eq!(system.read(file, piece * PIECE as u64, &mut seen).unwrap(), PIECE);
                assert!(seen.iter().all(|byte| *byte == content), "{}: {piece}", system.format_name());
            }
        }
        system.unmount().unwrap();
        let report = format.check(&*device, CheckOptions::default(), &Silent).unwrap();
        assert!(report.findings.is_empty(), "{}: {:?}", system.format_name(), report.findings);
    }
}
