//! A new file costs no reads of the device: the block in which it ends is written whole, so that neither the kernel's
//! cache nor a disk with larger physical sectors has to read the rest of it first.

use platter_device::{MemoryDevice, Recorder, Sectors};
use platter_formats::by_name;
use platter_vfs::{BLOCK, CheckOptions, FormatOptions, Kind, Name, Node, OpenOptions, Silent};
use std::sync::Arc;

const FORMATS: [(&str, u64); 6] = [
    ("fat16", 256 << 20),
    ("fat32", 512 << 20),
    ("exfat", 128 << 20),
    ("ntfs", 128 << 20),
    ("refs", 640 << 20),
    ("refs+integrity", 640 << 20),
];

#[test]
fn the_block_in_which_a_new_file_ends_is_written_whole() {
    for (name, size) in FORMATS {
        let format = by_name(name).expect("registered");
        let device = Arc::new(Recorder::new(Arc::new(MemoryDevice::new(size, Sectors::SMALL))));
        let cluster = Some(BLOCK);
        format.make(&*device, &FormatOptions { cluster, ..FormatOptions::default() }, &Silent).unwrap();
        let system = format.open(device.clone(), OpenOptions::default()).unwrap();
        let mut node = Node::ROOT;
        for length in [1, 1000, 1024, 4096, 12_800, 70_000, (1 << 20) + 700, 5000] {
            node = system.create(Node::ROOT, &Name::from(&*format!("{length}")), Kind::File).unwrap();
            let before = device.traffic();
            let data: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            system.write(node, 0, &data).unwrap();
            let done = device.traffic().since(&before);
            assert_eq!(done.read.count, 0, "{name}: {length} bytes");
            let blocks = (length as u64).div_ceil(BLOCK);
            // Some formats keep short content in the file's record.
            assert!(
                [0, blocks * BLOCK].contains(&done.write.bytes),
                "{name}: {length} bytes: {:?}",
                done.write
            );
            assert!(done.write.count <= 3, "{name}: {length} bytes: {:?}", done.write);
            let mut found = vec![0; length + 100];
            assert_eq!(system.read(node, 0, &mut found).unwrap(), length);
            assert_eq!(found[..length], data);
        }
        // What follows in the same block goes to its own sectors; only with integrity a whole block goes elsewhere.
        let before = device.traffic();
        system.write(node, 5000, &[9; 100]).unwrap();
        let written = device.traffic().since(&before).write.bytes;
        assert_eq!(written, if name == "refs+integrity" { BLOCK } else { 512 }, "{name}");
        // The zeroes behind the end become part of the file when it grows, and nothing else does.
        system.write(node, 9000, &[8; 10]).unwrap();
        let mut found = vec![1; 9010];
        assert_eq!(system.read(node, 0, &mut found).unwrap(), 9010);
        assert_eq!(found[5000..5100], [9; 100]);
        assert!(found[5100..9000].iter().all(|byte| *byte == 0), "{name}");
        assert_eq!(found[9000..], [8; 10]);
        system.unmount().unwrap();
        let report = format.check(&*device, CheckOptions::default(), &Silent).unwrap();
        assert!(report.is_clean(), "{name}: {report:?}");
    }
}
