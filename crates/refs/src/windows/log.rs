//! Tests of volumes whose log was not replayed.

use super::*;

/// Puts records of changes into the log, from the place of the oldest record that is still needed on.
fn live_log(device: &Arc<MemoryDevice>, records: u64) {
    use crate::system::LOG_BLOCK;
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
        platter_device::Device::write_at(&**device, place, &block).unwrap();
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
