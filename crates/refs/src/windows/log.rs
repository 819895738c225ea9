//! Tests of the log: its control blocks, and volumes whose log was not replayed.

use super::*;
use crate::system::{LOG_BLOCK, LogControl, log_checksum};
use platter_device::Device;

/// Makes a volume of this kind: bytes per cluster, metadata checksum, version.
fn made_as(cluster: u64, checksum: Option<&str>, version: &str) -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(384 << 20, Sectors::SMALL));
    let options = FormatOptions {
        serial: Some(8664),
        cluster: Some(cluster),
        checksum: checksum.map(Into::into),
        variant: Some(version.into()),
        ..FormatOptions::default()
    };
    Refs::ANY.make(&*device, &options, &Silent).unwrap();
    device
}

/// Every kind of volume that differs in where the log is or in what its blocks hold.
fn kinds() -> [Arc<MemoryDevice>; 6] {
    [
        made_as(4096, None, "3.14"),
        made_as(65536, None, "3.14"),
        made_as(4096, Some("sha256"), "3.14"),
        made_as(4096, Some("none"), "3.14"),
        made_as(4096, None, "3.4"),
        made_as(65536, None, "3.4"),
    ]
}

/// The places of the control blocks on the device, in bytes, and the volume's log.
fn controls(device: &Arc<MemoryDevice>) -> ([u64; 2], crate::system::LogArea, u32) {
    let volume = open(device);
    let mut core = volume.core();
    let geometry = core.geometry().clone();
    let mut rows = Vec::new();
    let (tree, pages) = core.tree(0x09).unwrap();
    tree.scan(pages, &[], |row| {
        rows.push((row.key.to_vec(), row.value.to_vec()));
        Ok(true)
    })
    .unwrap();
    let rows = rows.iter().map(|(key, value)| (&key[..], &value[..]));
    let area = crate::system::LogArea::from_rows(rows).unwrap();
    (area.control.map(|cluster| geometry.offset(cluster)), area, geometry.cluster)
}

fn block_at(device: &Arc<MemoryDevice>, at: u64) -> Vec<u8> {
    let mut block = vec![0; LOG_BLOCK];
    device.read_at(at, &mut block).unwrap();
    block
}

/// Asserts that both control blocks of a volume are what Windows verifies: computed here in another way than where they
/// are written, by 4-byte words.
fn assert_right_controls(device: &Arc<MemoryDevice>) {
    let (places, area, cluster) = controls(device);
    for (index, at) in places.into_iter().enumerate() {
        let block = block_at(device, at);
        let words = (0..LOG_BLOCK).step_by(4).filter(|at| !(0x80..0x88).contains(at));
        let sum = words.fold(0, |sum, at| sum ^ u32_at(&block, at));
        assert_eq!((u32_at(&block, 0x80), u32_at(&block, 0x84)), (sum, 0), "control block {index}");
        let control = LogControl::from_bytes(&block).unwrap();
        let each = u64::from(cluster / 4096);
        assert_eq!(control.blocks, area.data.start * each..area.data.end * each);
        assert_eq!(control.sequence, u64_at(&block, 0x20));
        let volume = open(device);
        assert_eq!(control.volume, volume.core().geometry().signature);
        assert_eq!(control.oldest, volume.core().checkpoint.log);
        assert_eq!(u64::from(control.next), control.oldest & 0xFFFF_FFFF);
    }
}

#[test]
fn control_blocks_have_the_checksum_of_windows() {
    for device in kinds() {
        assert_right_controls(&device);
        let volume = open(&device);
        let node = file(&volume, "f", &[1; 9000]);
        volume.sync(node, platter_vfs::SyncScope::All).unwrap();
        volume.unmount().unwrap();
        assert_right_controls(&device);
        checked(&device, &[]);
    }
}

/// Checks and repairs, and returns the codes of what was found.
fn repaired(device: &Arc<MemoryDevice>) -> Vec<&'static str> {
    let options = CheckOptions { repair: true };
    let report = Refs::ANY.check(&**device, options, &Silent).unwrap();
    assert!(report.findings.iter().all(|finding| finding.repaired), "{:#?}", report.findings);
    report.findings.iter().map(|finding| finding.code).collect()
}

#[test]
fn control_blocks_of_earlier_versions_are_mended() {
    for device in kinds() {
        let (places, area, _) = controls(&device);
        for at in places {
            // The area in clusters, the XOR of all words without its halves combined, and the log at block 0.
            let mut control = LogControl::from_bytes(&block_at(&device, at)).unwrap();
            control.blocks = area.data.clone();
            control.next = 0;
            let mut block = control.to_bytes();
            let whole = log_checksum(&block).unwrap().whole;
            put(&mut block, 0x80, whole);
            device.write_at(at, &block).unwrap();
        }
        checked(&device, &["log-control"]);
        // Nothing keeps such a volume from being written.
        let volume = open(&device);
        file(&volume, "f", b"x");
        volume.unmount().unwrap();
        assert_eq!(repaired(&device), ["log-control", "log-control"]);
        checked(&device, &[]);
        let sequences = places.map(|at| LogControl::from_bytes(&block_at(&device, at)).unwrap().sequence);
        assert_eq!(sequences, [1, 2]);
    }
}

#[test]
fn a_damaged_control_block_is_made_from_the_other_or_anew() {
    /// A way to damage a control block.
    type Damage = fn(&mut Vec<u8>);
    let damages: [Damage; 6] = [
        |block| block.fill(0),
        |block| block[0x300] ^= 0x10,
        |block| block[0x80] ^= 1,
        |block| {
            put(block, 0x04, 7u32);
            crate::system::seal(block);
        },
        |block| {
            put(block, 0xB8, 7u64);
            crate::system::seal(block);
        },
        |block| {
            put(block, 0xD0, u32::MAX);
            crate::system::seal(block);
        },
    ];
    for damage in damages {
        for damaged in [&[0usize][..], &[1], &[0, 1]] {
            let device = made();
            let (places, ..) = controls(&device);
            for &index in damaged {
                let mut block = block_at(&device, places[index]);
                damage(&mut block);
                device.write_at(places[index], &block).unwrap();
            }
            checked(&device, &["log-control"]);
            assert_eq!(repaired(&device).len(), damaged.len());
            checked(&device, &[]);
            assert_right_controls(&device);
        }
    }
}

#[test]
fn control_blocks_of_two_logs_are_made_alike() {
    let device = made();
    let (places, ..) = controls(&device);
    let mut control = LogControl::from_bytes(&block_at(&device, places[0])).unwrap();
    control.log = *b"of another log..";
    device.write_at(places[0], &control.to_bytes()).unwrap();
    checked(&device, &["log-control"]);
    assert_eq!(repaired(&device), ["log-control"]);
    checked(&device, &[]);
    assert_right_controls(&device);
}

/// Puts records of changes into the log, from the place of the oldest record that is still needed on.
fn live_log(device: &Arc<MemoryDevice>, records: u64) {
    let area = {
        let volume = open(device);
        let geometry = volume.core().geometry().clone();
        let mut core = volume.core();
        let oldest = core.checkpoint.log;
        let mut rows = Vec::new();
        let (tree, pages) = core.tree(0x0A).unwrap();
        tree.scan(pages, &[], |row| {
            rows.push((row.key.to_vec(), row.value.to_vec()));
            Ok(true)
        })
        .unwrap();
        let rows = rows.iter().map(|(key, value)| (&key[..], &value[..]));
        let area = crate::system::LogArea::from_rows(rows).unwrap();
        (geometry.offset(area.data.start), oldest)
    };
    for index in 0..records {
        let mut block = vec![0; LOG_BLOCK];
        block[..4].copy_from_slice(b"MLog");
        put(&mut block, 0x28, area.1 + index);
        put(&mut block, 0x38, 1u32);
        put(&mut block, 0x54, 0x78u32);
        put(&mut block, 0x78 + 0x28, 0x38u32);
        put(&mut block, 0x78 + 0x30, 2u32);
        put(&mut block, 0xB0, 8u32 + 2 * 0x40);
        put(&mut block, 0xB4, 8u32);
        put(&mut block, 0xB8, 0x40u32);
        put(&mut block, 0xF8, 0x40u32);
        let place = area.0 + ((area.1 & 0xFFFF_FFFF) + index) * LOG_BLOCK as u64;
        device.write_at(place, &block).unwrap();
    }
}

#[test]
fn a_live_log_keeps_a_volume_from_being_written() {
    let device = made();
    let volume = open(&device);
    file(&volume, "f", b"x");
    volume.unmount().unwrap();
    live_log(&device, 3);
    let volume = open(&device);
    let error = volume.create(Node::ROOT, &name("g"), Kind::File).unwrap_err();
    assert!(matches!(&error, Error::ReadOnly(why) if why.contains("6 changes in 3 records")), "{error}");
    assert!(volume.info().unwrap().dirty);
    let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
    assert_eq!(content(&volume, node).unwrap(), b"x");
    checked(&device, &["log-live"]);
}

#[test]
fn a_live_log_is_found_through_either_table() {
    for lost in [&[0x09][..], &[0x0A], &[0x09, 0x0A]] {
        let device = made();
        let volume = open(&device);
        for &object in lost {
            volume.core().remove_object(object).unwrap();
        }
        volume.unmount().unwrap();
        if lost.len() == 1 {
            assert!(open(&device).create(Node::ROOT, &name("g"), Kind::File).is_ok());
            if lost == [0x09] {
                live_log(&device, 1);
            }
        }
        let made = open(&device).create(Node::ROOT, &name("g"), Kind::File);
        match lost.len() {
            2 => assert!(matches!(&made, Err(Error::ReadOnly(why)) if why.contains("log")), "{made:?}"),
            _ if lost == [0x09] => assert!(matches!(&made, Err(Error::ReadOnly(_))), "{made:?}"),
            _ => assert!(made.is_ok()),
        }
    }
}
