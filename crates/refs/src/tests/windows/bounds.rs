//! Recovery of what Windows writes, and of records whose fields have any value: work is bounded by what the device has,
//! and not by what a field says. Work is counted in steps and transfers.

use super::runs::{RawRun, bytes, change_rows, with_holes};
use super::*;
use platter_device::Recorder;
use platter_vfs::{Change, Integrity, Names, RecoveredData, RenameFlags, Stretch};
use std::collections::BTreeMap;

const CLUSTER: usize = 4096;

/// The content that a recovery has of each file, by its name.
fn recovered(device: &Arc<MemoryDevice>) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let report = Refs::ANY.recover(device.clone(), &Silent, &mut |one, data| {
        if one.kind == Kind::File && !one.deleted {
            let mut buffer = vec![0xEE; one.size as usize];
            let read = data.read(0, &mut buffer).ok().filter(|&read| read == buffer.len());
            let (copy, _) = copied(data, one.size);
            assert!(read.is_none() || copy == buffer, "{:?}", one.path);
            found.insert(one.path.last().unwrap().to_string(), read.map(|_| buffer));
        }
        Ok(())
    });
    report.unwrap();
    found
}

/// Copies content as a caller does that skips what need not be read. Returns the first MiB of the copy and the steps.
fn copied(data: &mut dyn RecoveredData, size: u64) -> (Vec<u8>, u64) {
    let mut copy = vec![0; size.min(1 << 20) as usize];
    let mut buffer = vec![0; 64 << 10];
    let (mut at, mut steps) = (0, 0);
    while at < size {
        steps += 1;
        assert!(steps < 10_000, "{at} of {size} bytes");
        let (stretch, end) = data.stretch(at);
        assert!(end > at);
        let end = end.min(size);
        if stretch != Stretch::Content {
            at = end;
            continue;
        }
        let length = (end - at).min(buffer.len() as u64) as usize;
        match data.read(at, &mut buffer[..length]) {
            Ok(read) => {
                let room = copy.len().saturating_sub(at as usize).min(read);
                if room > 0 {
                    copy[at as usize..][..room].copy_from_slice(&buffer[..room]);
                }
                at += length as u64;
            }
            Err(_) => at += length.min(CLUSTER) as u64,
        }
    }
    (copy, steps)
}

#[test]
fn rows_of_holes_are_recovered_as_zeroes() {
    for flags in [[0x60, 0x60], [0x64, 0x60]] {
        let (device, wanted) = with_holes(flags);
        assert_eq!(recovered(&device)["sparse"].as_deref(), Some(&wanted[..]));
        // The same in a record that is not where its name is.
        let volume = open(&device);
        let other = volume.create(Node::ROOT, &name("other"), Kind::Directory).unwrap();
        volume.rename(Node::ROOT, &name("sparse"), other, &name("moved"), RenameFlags::default()).unwrap();
        volume.unmount().unwrap();
        assert_eq!(recovered(&device)["moved"].as_deref(), Some(&wanted[..]));
    }
}

#[test]
fn rows_of_several_clusters_are_recovered_and_verified() {
    let device = made();
    let volume = open(&device);
    let node = volume.create(Node::ROOT, &name("checked"), Kind::File).unwrap();
    volume.integrity().unwrap().set(node, Integrity { enabled: true, enforced: true }).unwrap();
    let wanted = bytes(1, 12);
    volume.write(node, 0, &wanted).unwrap();
    volume.unmount().unwrap();
    let mut last = 0;
    change_rows(&device, "checked", |rows| {
        assert!(rows.windows(2).all(|pair| pair[0].cluster + 1 == pair[1].cluster));
        let join = |rows: &[RawRun]| RawRun {
            count: rows.len() as u32,
            sums: rows.iter().map(|row| row.sums[0]).collect(),
            ..rows[0].clone()
        };
        last = rows[11].cluster;
        *rows = vec![join(&rows[..7]), join(&rows[7..])];
    });
    checked(&device, &[]);
    assert_eq!(recovered(&device)["checked"].as_deref(), Some(&wanted[..]));
    // The last cluster of a row is verified like the first: with another content it is no content.
    let place = {
        let volume = open(&device);
        let core = volume.core();
        core.geometry().offset(core.pages.map.real(core.geometry(), last, 1).unwrap())
    };
    let mut cluster = vec![0; CLUSTER];
    platter_device::Device::read_at(&*device, place, &mut cluster).unwrap();
    cluster[77] ^= 1;
    platter_device::Device::write_at(&*device, place, &cluster).unwrap();
    assert_eq!(recovered(&device)["checked"], None);
}

#[test]
fn records_away_from_their_names_are_recovered() {
    let device = made();
    let volume = open(&device);
    let [home, other] =
        ["home", "other"].map(|called| volume.create(Node::ROOT, &name(called), Kind::Directory).unwrap());
    let mut wanted = Vec::new();
    for (index, clusters) in [0, 1, 40].into_iter().enumerate() {
        let node = volume.create(home, &name(&format!("file {index}")), Kind::File).unwrap();
        let data = if clusters == 0 { b"small".to_vec() } else { bytes(index as u64, clusters) };
        volume.write(node, 0, &data).unwrap();
        volume.link(node, other, &name(&format!("link {index}"))).unwrap();
        volume
            .rename(
                home,
                &name(&format!("file {index}")),
                other,
                &name(&format!("moved {index}")),
                RenameFlags::default(),
            )
            .unwrap();
        wanted.extend([(format!("link {index}"), data.clone()), (format!("moved {index}"), data)]);
    }
    volume.unmount().unwrap();
    let found = recovered(&device);
    assert_eq!(found.len(), wanted.len());
    wanted.into_iter().for_each(|(called, data)| assert_eq!(found[&called], Some(data), "{called}"));
}

/// Sets one field of a file to extreme values, with all checksums right. What reads the volume ends after about as many
/// transfers as before, and says that the file is damaged, or reads zeroes where the device has nothing.
#[test]
fn fields_of_any_value_cost_no_more_than_what_is_there() {
    const EXTREMES: [u64; 7] = [0, 1 << 31, u32::MAX as u64, 1 << 43, (1 << 44) - 4096, 1 << 62, u64::MAX];
    // Offsets in the value of the runs and their lengths; `None` for fields of the record.
    let fields: [(&str, usize, usize); 9] = [
        ("allocated size", 0x30, 8),
        ("size", 0x38, 8),
        ("valid size", 0x40, 8),
        ("allocated size again", 0x48, 8),
        ("versions", 0x50, 4),
        ("first row: cluster", 0xB0, 8),
        ("first row: place in the file", 0xB0 + 0x0C, 4),
        ("first row: number of clusters", 0xB0 + 0x14, 4),
        ("number of rows", 0x20, 8),
    ];
    for integrity in [false, true] {
        let sound = made();
        let volume = open(&sound);
        let node = volume.create(Node::ROOT, &name("odd"), Kind::File).unwrap();
        volume.integrity().unwrap().set(node, Integrity { enabled: integrity, enforced: true }).unwrap();
        volume.write(node, 0, &bytes(1, 12)).unwrap();
        file(&volume, "other", &bytes(2, 5));
        volume.unmount().unwrap();
        let image = sound.to_image();
        let before = work(&sound);
        for (what, at, length) in fields {
            for value in EXTREMES {
                let device = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
                change(&device, "odd", |_, record| {
                    let row = record.rows.iter_mut().find(|row| row.flags & 1 != 0).unwrap();
                    row.value[at..at + length].copy_from_slice(&value.to_le_bytes()[..length]);
                    None
                });
                let after = work(&device);
                assert!(after <= before + 500, "{what} {value:#x}: {after} transfers, {before} before");
            }
        }
        for value in EXTREMES {
            let device = Arc::new(MemoryDevice::from_image(&image, Sectors::SMALL));
            change(&device, "odd", |_, record| {
                (record.size, record.allocated) = (value, value);
                None
            });
            let after = work(&device);
            assert!(
                after <= before + 500,
                "size of the record {value:#x}: {after} transfers, {before} before"
            );
        }
    }
}

/// Checks, scrubs, recovers, reads and resizes. Returns the number of transfers that this took. The file "other" must be
/// recovered.
fn work(device: &Arc<MemoryDevice>) -> u64 {
    let recorder = Arc::new(Recorder::new(device.clone()));
    Refs::ANY.check(&*recorder, CheckOptions::default(), &Silent).unwrap();
    Refs::ANY.scrub(recorder.clone(), &ScrubOptions::default(), &Silent).unwrap();
    let mut is_found = false;
    let report = Refs::ANY.recover(recorder.clone(), &Silent, &mut |one, data| {
        let (copy, _) = copied(data, one.size);
        is_found |= one.path.last() == Some(&name("other")) && copy == bytes(2, 5);
        Ok(())
    });
    assert!(report.is_ok() && is_found);
    let volume = RefsVolume::open(recorder.clone(), OpenOptions::default()).unwrap();
    if let Ok(node) = volume.lookup(Node::ROOT, &name("odd")) {
        let size = volume.attributes(node).map_or(0, |attributes| attributes.size);
        let _ = volume.extents(node);
        for at in [0, size / 2, size.saturating_sub(10)] {
            let _ = volume.read(node, at, &mut [0; 100]);
        }
        let _ = volume.set_attributes(node, &Change { size: Some(10), ..Change::default() });
    }
    drop(volume);
    let traffic = recorder.traffic();
    traffic.read.count + traffic.write.count
}
