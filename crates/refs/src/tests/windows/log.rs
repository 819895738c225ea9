//! Tests of the log: its control blocks, and volumes whose log was not replayed.

use super::*;
use crate::layout::system::{LOG_BLOCK, LogControl, log_checksum};
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
fn controls(device: &Arc<MemoryDevice>) -> ([u64; 2], crate::layout::system::LogArea, u32) {
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
    let area = crate::layout::system::LogArea::from_rows(rows).unwrap();
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
            crate::layout::system::seal(block);
        },
        |block| {
            put(block, 0xB8, 7u64);
            crate::layout::system::seal(block);
        },
        |block| {
            put(block, 0xD0, u32::MAX);
            crate::layout::system::seal(block);
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

/// A log to put records into by hand.
struct Written {
    device: Arc<MemoryDevice>,
    /// The offset of the log's data area on the device, in bytes, and the number of its blocks.
    start: u64,
    blocks: u64,
    volume: u32,
    /// The oldest record that the checkpoint needs.
    oldest: u64,
}

impl Written {
    fn on(device: &Arc<MemoryDevice>) -> Written {
        let (_, area, cluster) = controls(device);
        let volume = open(device);
        let blocks = area.blocks(cluster);
        let core = volume.core();
        Written {
            device: device.clone(),
            start: blocks.start * LOG_BLOCK as u64,
            blocks: blocks.end - blocks.start,
            volume: core.geometry().signature,
            oldest: core.checkpoint.log,
        }
    }

    /// A block with a record of two changes, one transaction, in the form in which Windows writes it.
    fn record(&self, number: u64, previous: u64) -> Vec<u8> {
        let mut block = vec![0; LOG_BLOCK];
        block[..4].copy_from_slice(b"MLog");
        put(&mut block, 0x04, self.volume);
        put(&mut block, 0x08, 1u32);
        put(&mut block, 0x0C, LOG_BLOCK as u32);
        put(&mut block, 0x28, number);
        put(&mut block, 0x30, previous);
        put(&mut block, 0x38, 1u32);
        put(&mut block, 0x3C, 1u32);
        put(&mut block, 0x54, 0x78u32);
        put(&mut block, 0x78, number);
        put(&mut block, 0x90, previous);
        put(&mut block, 0x98, 8u32 + 2 * 0x40);
        put(&mut block, 0xA0, 0x38u32);
        put(&mut block, 0xA4, (LOG_BLOCK - 0x78) as u32);
        put(&mut block, 0xA8, 2u32);
        put(&mut block, 0xB0, 8u32 + 2 * 0x40);
        put(&mut block, 0xB4, 8u32);
        put(&mut block, 0xB8, 0x40u32);
        put(&mut block, 0xBC, 0x01u32);
        put(&mut block, 0xB8 + 0x2C, 1u32);
        put(&mut block, 0xF8, 0x40u32);
        put(&mut block, 0xFC, 0x1Fu32);
        crate::layout::system::seal(&mut block);
        block
    }

    fn put(&self, place: u64, block: &[u8]) {
        self.device.write_at(self.start + place * LOG_BLOCK as u64, block).unwrap();
    }

    /// Puts this many records into the log, from the oldest that is needed on.
    fn live(&self, records: u64) {
        for number in self.oldest..self.oldest + records {
            self.put(number & 0xFFFF_FFFF, &self.record(number, number - 1));
        }
    }

    /// Has the checkpoints name another oldest record.
    fn since(&mut self, oldest: u64) {
        let volume = open(&self.device);
        volume.core().checkpoint.log = oldest;
        volume.core().news = true;
        volume.unmount().unwrap();
        assert_eq!(open(&self.device).core().checkpoint.log, oldest);
        self.oldest = oldest;
    }

    /// Asserts that the volume can be written, or that it cannot because of what the log holds.
    fn assert_holds(&self, what: Option<&str>) {
        let volume = open(&self.device);
        let made = volume.create(Node::ROOT, &name("new"), Kind::File);
        match what {
            None => {
                made.unwrap();
                volume.unlink(Node::ROOT, &name("new")).unwrap();
                assert!(!volume.info().unwrap().dirty);
            }
            Some(what) => {
                let why = match made {
                    Err(Error::ReadOnly(why)) => why,
                    other => panic!("{what}: {other:?}"),
                };
                assert!(why.contains(what), "{what}: {why}");
                let info = volume.info().unwrap();
                assert!(info.dirty);
                assert!(info.read_only.is_some_and(|told| told.contains(what)));
            }
        }
        drop(volume);
        checked(&self.device, if what.is_some() { &["log-live"] } else { &[] });
    }
}

#[test]
fn a_live_log_keeps_a_volume_from_being_written() {
    for device in kinds() {
        let volume = open(&device);
        file(&volume, "f", b"x");
        volume.unmount().unwrap();
        let log = Written::on(&device);
        log.assert_holds(None);
        log.live(3);
        log.assert_holds(Some("3 transactions with 6 changes (3 × insert a row, 3 × "));
        log.assert_holds(Some("in 3 records, from 0x100000001 on"));
        let volume = open(&device);
        let node = volume.lookup(Node::ROOT, &name("f")).unwrap();
        assert_eq!(content(&volume, node).unwrap(), b"x");
        // A repair leaves everything as it is: the changes in the log belong to the volume.
        let before = block_at(&device, controls(&device).0[0]);
        Refs::ANY.check(&*device, CheckOptions { repair: true }, &Silent).unwrap();
        assert_eq!(block_at(&device, controls(&device).0[0]), before);
        log.assert_holds(Some("3 transactions"));
    }
}

#[test]
fn a_log_ends_with_its_first_block_that_is_no_part_of_it() {
    let first = |log: &Written| (log.oldest, log.oldest & 0xFFFF_FFFF);
    /// Puts one block into the log, or changes one, and tells what the log then holds.
    type Case = fn(&Written, (u64, u64)) -> Option<&'static str>;
    let cases: [Case; 9] = [
        // Torn: the first block, then the second of three.
        |log, (number, place)| {
            let mut block = log.record(number, number - 1);
            block[0x900] ^= 1;
            log.put(place, &block);
            None
        },
        |log, (number, place)| {
            log.live(3);
            let mut block = log.record(number + 1, number);
            // A half that is all alike would not be told from zeroes: an XOR does not see it.
            block[0x800..].copy_from_slice(&platter_testing::model::Random::new(8664).bytes(0x800));
            log.put(place + 1, &block);
            Some("1 transaction")
        },
        // Of an older generation, which the checkpoint has.
        |log, (number, place)| {
            log.put(place, &log.record(number - (1 << 32), number - (1 << 32) - 1));
            None
        },
        // Of the next generation: as after the next mount.
        |log, (number, place)| {
            log.put(place, &log.record(number + (1 << 32), number - 1));
            Some("1 transaction")
        },
        // The second does not name the first as the one before it.
        |log, (number, place)| {
            log.live(1);
            log.put(place + 1, &log.record(number + 1, number - 1));
            Some("1 transaction")
        },
        // Of another volume.
        |log, (number, place)| {
            let mut block = log.record(number, number - 1);
            put(&mut block, 0x04, log.volume ^ 1);
            crate::layout::system::seal(&mut block);
            log.put(place, &block);
            None
        },
        // At another place than its number says.
        |log, (number, place)| {
            log.put(place, &log.record(number + 1, number));
            None
        },
        // A gap.
        |log, (number, place)| {
            log.put(place + 1, &log.record(number + 1, number));
            None
        },
        // A control block.
        |log, (_, place)| {
            let control = block_at(&log.device, controls(&log.device).0[0]);
            log.put(place, &control);
            None
        },
    ];
    for (index, case) in cases.into_iter().enumerate() {
        let device = made();
        let mut log = Written::on(&device);
        log.since(3 << 32 | 0x20);
        let what = case(&log, first(&log));
        println!("case {index}");
        log.assert_holds(what);
    }
}

#[test]
fn a_log_goes_on_at_its_beginning() {
    for start in [0, 1] {
        let device = made();
        let mut log = Written::on(&device);
        let last = log.blocks - 1;
        log.since(1 << 32 | last);
        // Older records stand where the log goes on.
        for place in 0..4u64 {
            log.put(place, &log.record(1 << 32 | place, (1 << 32 | place) - 1));
        }
        log.assert_holds(None);
        log.put(last, &log.record(log.oldest, log.oldest - 1));
        log.assert_holds(Some("1 transaction with 2 changes"));
        log.put(start, &log.record(2 << 32 | start, log.oldest));
        log.assert_holds(Some("2 transactions with 4 changes"));
        log.put(start + 1, &log.record(2 << 32 | (start + 1), 2 << 32 | start));
        log.assert_holds(Some("3 transactions with 6 changes"));
        // The oldest record can be the first after the end.
        log.put(last, &vec![0; LOG_BLOCK]);
        log.assert_holds(None);
    }
}

#[test]
fn a_record_of_several_blocks() {
    let device = made();
    let log = Written::on(&device);
    let mut block = log.record(log.oldest, log.oldest - 1);
    put(&mut block, 0x38, 2u32);
    block.resize(2 * LOG_BLOCK, 0x5A);
    let checksum = crate::layout::system::log_checksum_of(&block).unwrap();
    put(&mut block, checksum.at, checksum.expected);
    log.put(1, &block);
    log.put(3, &log.record(log.oldest + 2, log.oldest));
    log.assert_holds(Some("2 transactions with 4 changes"));
    block[LOG_BLOCK] ^= 1;
    log.put(1, &block);
    log.assert_holds(None);
    // More blocks than the log has.
    put(&mut block, 0x38, u32::MAX);
    log.put(1, &block);
    log.assert_holds(None);
}

#[test]
fn an_oldest_record_outside_the_log_is_a_doubt() {
    let device = made();
    let mut log = Written::on(&device);
    log.since(1 << 32 | (log.blocks + 1));
    log.assert_holds(Some("cannot be read"));
    let device = made();
    let mut log = Written::on(&device);
    log.since(1 << 32 | log.blocks);
    log.assert_holds(None);
}

#[test]
fn a_log_of_random_bytes_neither_panics_nor_hangs() {
    let device = made();
    let log = Written::on(&device);
    let mut random = platter_testing::model::Random::new(8664);
    for _ in 0..200 {
        for place in 1..4 {
            let mut block = log.record(log.oldest + place - 1, log.oldest + place - 2);
            for _ in 0..random.below(4) {
                let at = random.below(0x140) as usize;
                block[at] = random.below(256) as u8;
            }
            if random.below(3) > 0 {
                crate::layout::system::seal(&mut block);
            }
            log.put(place, &block);
        }
        let _ = open(&device).info().unwrap();
    }
}

#[test]
fn a_live_log_is_found_through_either_table() {
    for lost in [&[0x09][..], &[0x0A], &[0x09, 0x0A]] {
        let device = made();
        let log = Written::on(&device);
        let volume = open(&device);
        for &object in lost {
            volume.core().remove_object(object).unwrap();
        }
        volume.unmount().unwrap();
        if lost.len() == 1 {
            assert!(open(&device).create(Node::ROOT, &name("g"), Kind::File).is_ok());
            if lost == [0x09] {
                log.live(1);
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

/// On a volume that is large enough for the log that Windows makes.
#[test]
fn a_log_of_whole_containers() {
    for (bytes, cluster, version, containers) in [
        (2u64 << 30, 4096, "3.14", 4),
        (2 << 30, 65536, "3.14", 4),
        (2 << 30, 4096, "3.4", 8),
        (5 << 30, 4096, "3.14", 8),
    ] {
        let device = Arc::new(MemoryDevice::new(bytes, Sectors::SMALL));
        // What an earlier log left where the first record goes must not be taken for a record.
        device.write_at(0, &vec![0xA5; 1 << 20]).unwrap();
        let options = FormatOptions {
            serial: Some(8664),
            cluster: Some(cluster),
            variant: Some(version.into()),
            ..FormatOptions::default()
        };
        Refs::ANY.make(&*device, &options, &Silent).unwrap();
        let (_, area, _) = controls(&device);
        assert_eq!((area.data.end - area.data.start) * cluster, containers << 26);
        assert_right_controls(&device);
        let volume = open(&device);
        let free = volume.space().unwrap();
        // The log, the containers of the other tiers, and what the volume's own tables take.
        let taken = (free.total - free.free) * cluster;
        assert!(taken < (containers << 26) + (200 << 20), "{taken}");
        let node = file(&volume, "f", &vec![7; 100_000]);
        volume.sync(node, platter_vfs::SyncScope::All).unwrap();
        volume.unmount().unwrap();
        checked(&device, &[]);
        let log = Written::on(&device);
        log.assert_holds(None);
        log.live(2);
        log.assert_holds(Some("2 transactions with 4 changes"));
        // Made again over it, the volume has an empty log, whatever stood there.
        Refs::ANY.make(&*device, &options, &Silent).unwrap();
        Written::on(&device).assert_holds(None);
    }
}
