//! Tests that a device is recognised by what was written to it last, and not by copies of first structures (such as
//! boot sectors) that remain from an earlier volume.

use platter_device::{Device, MemoryDevice, OverlayDevice, Sectors};
use platter_formats::{by_name, recognise};
use platter_vfs::{FormatOptions, Silent};
use std::sync::Arc;

/// Names of formats, each with the beginning of what its volumes are recognised as.
const FORMATS: [(&str, &str); 5] =
    [("fat16", "FAT16"), ("fat32", "FAT32"), ("exfat", "exFAT"), ("ntfs", "NTFS 3.1"), ("refs", "ReFS")];
const LENGTH: u64 = 320 << 20;

fn made(device: &dyn Device, name: &str) {
    let cluster = match name {
        "fat32" => Some(512),
        _ => None,
    };
    let options = FormatOptions { cluster, ..FormatOptions::default() };
    by_name(name).unwrap().make(device, &options, &Silent).unwrap();
}

fn taken_for(device: &dyn Device) -> Option<String> {
    recognise(device).unwrap().map(|(_, recognised)| recognised.format)
}

#[test]
fn a_volume_made_over_another_is_taken_for_what_it_is() {
    for (before, _) in &FORMATS {
        for (after, known) in &FORMATS {
            let device = MemoryDevice::new(LENGTH, Sectors::SMALL);
            made(&device, before);
            made(&device, after);
            let found = taken_for(&device).unwrap();
            assert!(found.starts_with(known), "{after} over {before} is taken for {found}");
        }
    }
}

/// In every case only the beginning of a volume is overwritten, and the copies of its first structures stay intact.
#[test]
fn what_is_written_over_the_beginning_of_a_volume_is_not_taken_for_it() {
    let heads: [(usize, &[u8]); 5] = [
        (0, b"PK\x03\x04"),
        (257, b"ustar\x0000"),
        (0, b"XFSB"),
        (0x438, b"\x53\xEF"),
        (4086, b"SWAPSPACE2"),
    ];
    for (name, known) in &FORMATS {
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(LENGTH, Sectors::SMALL));
        made(&*device, name);
        assert!(taken_for(&*device).unwrap().starts_with(known), "{name}");
        for (at, mark) in heads {
            let device = OverlayDevice::new(device.clone());
            // Only the sectors up to the end of the mark are overwritten.
            let mut head = vec![0; (at + mark.len()).next_multiple_of(512)];
            head[at..at + mark.len()].copy_from_slice(mark);
            device.write_at(0, &head).unwrap();
            let mark = mark.escape_ascii();
            assert_eq!(taken_for(&device), None, "\"{mark}\" over {name}");
        }
    }
}

/// If the last partition ends where the disk ends, the last sector of the disk is that of the partition, in which NTFS
/// and ReFS keep a copy of their first sector.
#[test]
fn a_disk_is_not_taken_for_its_last_partition() {
    for (name, _) in &FORMATS {
        let device = MemoryDevice::new(LENGTH, Sectors::SMALL);
        made(&device, name);
        let volume = device.to_image();
        let start = 2048 * 512;
        let disk = MemoryDevice::new(start + LENGTH, Sectors::SMALL);
        let mut table = [0; 512];
        table[0x1BE + 4] = 7;
        table[0x1BE + 8..0x1BE + 12].copy_from_slice(&2048_u32.to_le_bytes());
        table[0x1BE + 12..0x1BE + 16].copy_from_slice(&((LENGTH / 512) as u32).to_le_bytes());
        table[510..].copy_from_slice(&[0x55, 0xAA]);
        disk.write_at(start, &volume).unwrap();
        // First without a partition table, then with one.
        assert_eq!(taken_for(&disk), None, "{name}");
        disk.write_at(0, &table).unwrap();
        assert_eq!(taken_for(&disk), None, "{name}");
    }
}
