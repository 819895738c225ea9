//! Fields that are the same in every structure of a kind: each is as Windows writes it after whatever was done with a
//! volume, and a wrong one is found and mended.
//!
//! Sources: forefst `docs/structures` (August 2026) and the pages of Windows in `tests/data`.

use crate::bytes::{Raw, word};
use crate::check::{check, populated};
use crate::common::{VOLUMES, Volume, content, open};
use crate::damaged::{Did, Of, Surgeon, attribute, is_name, start, units};
use platter_device::{Device, OverlayDevice};
use platter_refs::layout::attribute::DATA;
use platter_refs::layout::bytes::{put, u32_at, u64_at};
use platter_refs::layout::{Root, TreeNode};
use platter_testing::model::told;
use platter_vfs::{FileSystem, Kind, Name, Names, Node};
use std::sync::Arc;

/// Checks the headers of a page of a table, and the upper halves of the entries in its index.
pub(crate) fn page(page: &[u8], is_old: bool, is_root: bool) {
    assert_eq!((word(page, 0x04, 4), word(page, 0x40, 8)), (2, 0), "page header");
    let node = 0x50 + word(page, 0x50, 4) as usize;
    if is_root {
        assert_eq!((word(page, 0x54, 2), word(page, 0x58, 4)), (0x28, 1), "tree header");
        assert_eq!(word(page, 0x5C, 4), word(page, 0x60, 4), "schema, twice");
    }
    let (index, count) = (word(page, node + 0x10, 4) as usize, word(page, node + 0x14, 4) as usize);
    for position in 0..count {
        let is_last = page[node + 0xC] > 0 && position + 1 == count;
        let expected = if is_last && !is_old { 0 } else { 0xFFFF };
        assert_eq!(word(page, node + index + 4 * position + 2, 2), expected, "entry {position} of {count}");
    }
}

/// Checks the rows of the object tables and of the container tables.
pub(crate) fn right(device: &dyn Device) -> Result<(), String> {
    let raw = Raw::new(device);
    for root in [7, 8] {
        for (_, value) in raw.rows(root).1 {
            let free = [word(&value, 0x20, 8), word(&value, 0x28, 8)];
            let ones = [0x0C, 0x10, 0x4C].map(|at| word(&value, at, 4));
            // 88 rows of Windows have all ones in the place of counts.
            if free != [u64::MAX, 0xFFFF_FFFF] || ones != [1; 3] {
                return Err(format!("container row {value:02x?}"));
            }
        }
    }
    for root in [0, 5] {
        for (key, value) in raw.rows(root).1 {
            let (object, reference) = (word(&key, 8, 8), word(&value, 0x0C, 4));
            let (payload, tail) = if reference == 0x68 { (0xC8, 40) } else { (0x20 + reference, 0) };
            let length = payload + tail + word(&value, 0x14, 4);
            let found = [word(&value, 0, 8), word(&value, 8, 4), word(&value, 0x10, 4), value.len() as u64];
            if found != [2, 0x18, payload, length] {
                return Err(format!("row of object {object:#x}: {value:02x?}"));
            }
            let [clock, epoch] = [0x18, 0x1C].map(|at| word(&value, at, 4));
            let is_fixed = matches!(object, 0x07..=0x0A);
            if (clock == 0) != is_fixed || epoch != u64::from(!is_fixed && object != 0x0D) {
                return Err(format!("row of object {object:#x}: {clock} and {epoch}"));
            }
        }
    }
    Ok(())
}

#[test]
fn new_and_used_volumes_have_the_fields_of_windows() {
    for volume in VOLUMES.into_iter().chain([Volume { checksum: "none", ..VOLUMES[0] }]) {
        for device in [volume.make(), populated(&volume)] {
            right(&*device).unwrap_or_else(|error| panic!("{volume:?}: {error}"));
        }
    }
}

/// A wrong field, and the code of what a check must find.
struct Wrong {
    name: &'static str,
    code: &'static str,
    /// Whether only volumes that were made as 3.14 with checksums are known to have the field so.
    is_native: bool,
    make: fn(&mut Surgeon<'_>),
}

const fn wrong(name: &'static str, code: &'static str, make: fn(&mut Surgeon<'_>)) -> Wrong {
    Wrong { name, code, is_native: false, make }
}

const fn native(name: &'static str, code: &'static str, make: fn(&mut Surgeon<'_>)) -> Wrong {
    Wrong { name, code, is_native: true, make }
}

const ROOT: Of = Of::Object(0x600);

/// Changes the root page of a tree.
fn edit(surgeon: &mut Surgeon<'_>, of: Of, change: impl Fn(&mut [u8])) {
    surgeon.edit(of, &mut |bytes| {
        change(bytes);
        Did::Sealed
    });
}

/// Changes both copies of a row.
fn both(surgeon: &mut Surgeon<'_>, of: [Of; 2], key: impl Fn(&[u8]) -> bool, change: fn(&mut [u8])) {
    of.into_iter().for_each(|of| surgeon.edit_value(of, &key, change));
}

const OBJECTS: [Of; 2] = [Of::Root(Root::Objects), Of::Root(Root::ObjectsCopy)];
const CONTAINERS: [Of; 2] = [Of::Root(Root::Containers), Of::Root(Root::ContainersCopy)];
const INFORMATION: [Of; 2] = [Of::Object(0x500), Of::Object(0x501)];

/// The XOR of all words of a block of the log, with the halves of the result combined: its checksum stands at 0x80.
fn seal_log(block: &mut [u8]) {
    put(block, 0x80, 0u64);
    let sum = (0..block.len() / 8).fold(0, |sum, index| sum ^ u64_at(block, 8 * index));
    put(block, 0x80, sum >> 32 ^ sum & 0xFFFF_FFFF);
}

/// Changes a word of both control blocks of the log.
fn edit_log(surgeon: &mut Surgeon<'_>, at: usize, word: u32) {
    let row =
        surgeon.rows(Of::Object(9)).into_iter().find(|(key, _)| u32_at(key, 0) == 1).expect("the place").1;
    for cluster in [0x18, 0x20].map(|at| u64_at(&row, at)) {
        let mut block = surgeon.read(cluster * surgeon.cluster, 4096);
        put(&mut block, at, word);
        seal_log(&mut block);
        surgeon.device.write_at(cluster * surgeon.cluster, &block).unwrap();
    }
}

const WRONG: &[Wrong] = &[
    wrong("form of a page header", "page-header", |surgeon| edit(surgeon, ROOT, |bytes| bytes[4] = 3)),
    wrong("word of a page header", "page-header", |surgeon| edit(surgeon, ROOT, |bytes| bytes[8] = 1)),
    wrong("upper half of a page's table", "page-header", |surgeon| {
        edit(surgeon, ROOT, |bytes| bytes[0x41] = 1)
    }),
    wrong("entry of an index", "node-mark", |surgeon| {
        edit(surgeon, Of::Root(Root::ParentChild), |bytes| {
            let end = bytes.len();
            bytes[end - 2] = 1;
        });
    }),
    wrong("mark of the last child", "node-mark", |surgeon| {
        let many = surgeon.directory(&["many"]);
        edit(surgeon, Of::Object(many), |bytes| {
            assert!(TreeNode::new(&bytes[start(bytes)..]).is_inner());
            let end = bytes.len();
            bytes[end - 2..].copy_from_slice(&[7, 0]);
        });
    }),
    wrong("entry of the index in a record", "node-count", |surgeon| {
        surgeon.edit_value(
            ROOT,
            |row| is_name(&units("empty"), row),
            |value| {
                let end = value.len();
                value[end - 1] = 3;
            },
        );
    }),
    native("schema of a directory", "tree-header", |surgeon| {
        edit(surgeon, ROOT, |bytes| put(bytes, 0x5C, 0x131u32))
    }),
    native("schema, the second time", "tree-header", |surgeon| {
        edit(surgeon, Of::Root(Root::IntegrityState), |bytes| put(bytes, 0x60, 0u32));
    }),
    native("kind of checksum in a tree header", "tree-header", |surgeon| {
        edit(surgeon, Of::Root(Root::Schemas), |bytes| put(bytes, 0x64, 1u32));
    }),
    native("fixed part of a tree header", "tree-header", |surgeon| {
        edit(surgeon, Of::Root(Root::MediumAllocator), |bytes| put(bytes, 0x58, 2u32));
    }),
    wrong("header of an object row", "object-row", |surgeon| {
        both(surgeon, OBJECTS, |key| u64_at(key, 8) == 0x600, |value| value[0x08] = 0x19);
    }),
    wrong("number of changes of an object", "object-row", |surgeon| {
        both(
            surgeon,
            OBJECTS,
            |key| u64_at(key, 8) == 0x600,
            |value| {
                let clock = u32_at(value, 0x18);
                put(value, 0x1C, clock + 1);
            },
        );
    }),
    wrong("first word of an object row", "object-row", |surgeon| {
        both(surgeon, OBJECTS, |key| u64_at(key, 8) == 0x520, |value| value[0] = 3);
    }),
    wrong("form of a container row", "container-row", |surgeon| {
        both(surgeon, CONTAINERS, |key| u64_at(key, 0) == 3, |value| value[0x10] = 2);
    }),
    native("last word of a container row", "container-row", |surgeon| {
        both(surgeon, CONTAINERS, |key| u64_at(key, 0) == 4, |value| value[0x4C] = 0);
    }),
    wrong("version in the volume information", "volume-information", |surgeon| {
        both(surgeon, INFORMATION, |key| u64_at(key, 0) == 0x520, |value| value[0x81] += 1);
    }),
    wrong("number in the volume information", "volume-information", |surgeon| {
        both(surgeon, INFORMATION, |key| u64_at(key, 0) == 0x540, |value| value[0] = 36);
    }),
    native("number of versions of the data", "stream-count", |surgeon| {
        surgeon.edit_record(
            ROOT,
            |row| is_name(&units("sparse"), row),
            |record| put(&mut attribute(record, DATA).value, 0x50, 0x8000_0002u32),
        );
    }),
    wrong("bytes that the boot record's checksum covers", "boot-record", |surgeon| {
        let sector = u64::from(surgeon.boot.sector);
        for at in [0, (surgeon.boot.sectors - 1) * sector] {
            let mut bytes = surgeon.read(at, sector as usize);
            put(&mut bytes, 0x14, 0x201u16);
            let counted = (3..0x16).chain(0x18..0x200).map(|at| u16::from(bytes[at]));
            let sum = counted.fold(0, |sum: u16, byte| sum.rotate_right(1).wrapping_add(byte));
            put(&mut bytes, 0x16, sum);
            surgeon.device.write_at(at, &bytes).unwrap();
        }
    }),
    wrong("size of a block of the log", "log-control", |surgeon| edit_log(surgeon, 0x0C, 0x2000)),
    wrong("blocks of a record of the log", "log-control", |surgeon| edit_log(surgeon, 0x38, 2)),
    wrong("identifier in a control block", "log-control", |surgeon| {
        edit_log(surgeon, 0xB0 + 0x28, 0x1234_5678)
    }),
];

#[test]
fn a_wrong_field_is_found_and_mended() {
    let mut failures = Vec::new();
    for volume in VOLUMES {
        let sound: Arc<dyn Device> = populated(&volume);
        let is_native = volume.version == "3.14" && volume.checksum != "none";
        for wrong in WRONG.iter().filter(|wrong| is_native || !wrong.is_native) {
            let device = OverlayDevice::new(sound.clone());
            (wrong.make)(&mut Surgeon::new(&device));
            let found = check(&device, false);
            let repaired = check(&device, true);
            let again = check(&device, false);
            let is_found = found.exit_code() == 4 && found.findings.iter().any(|one| one.code == wrong.code);
            let right = crate::bytes::right(&device).and_then(|()| right(&device));
            if !is_found || repaired.exit_code() != 1 || again.found > 0 || right.is_err() {
                let reports = [&found, &repaired, &again].map(told).join("--\n");
                failures.push(format!("{}, {volume:?}: {right:?}\n{reports}", wrong.name));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

/// Of the two sizes of a file, in its record and in its stream, the one counts that its clusters confirm.
#[test]
fn of_two_sizes_the_one_that_the_clusters_confirm_is_kept() {
    for volume in VOLUMES {
        let unit = volume.cluster;
        for (size, wrong, is_in_record) in [
            (5 * unit - 7, 1 << 43, false),
            (5 * unit, unit, false),
            (5 * unit - 7, 1 << 43, true),
            (5 * unit, 1, true),
        ] {
            let device = volume.make();
            let system = open(device.clone());
            let file = system.create(Node::ROOT, &Name::from("a file"), Kind::File).unwrap();
            let wanted = content(1, size as usize);
            system.write(file, 0, &wanted).unwrap();
            system.unmount().unwrap();
            Surgeon::new(&*device).edit_record(
                ROOT,
                |row| is_name(&units("a file"), row),
                |record| match is_in_record {
                    true => record.size = wrong,
                    false => {
                        let row =
                            record.rows.iter_mut().find(|row| row.kind() == DATA && row.value.len() > 0xB0);
                        put(&mut row.expect("runs in the record").value, 0x38, wrong);
                    }
                },
            );
            assert_eq!(check(&*device, false).exit_code(), 4);
            let repaired = check(&*device, true);
            assert_eq!(repaired.exit_code(), 1, "{volume:?}, {wrong}: {}", told(&repaired));
            assert_eq!(check(&*device, false).found, 0);
            let system = open(device);
            let file = system.lookup(Node::ROOT, &Name::from("a file")).unwrap();
            assert_eq!(system.attributes(file).unwrap().size, size, "{volume:?}, {wrong}");
            let mut found = vec![0; size as usize];
            assert_eq!(system.read(file, 0, &mut found).unwrap() as u64, size);
            assert!(found == wanted, "{volume:?}, {wrong}");
        }
    }
}

/// Windows has both: a size of 129 bytes with 129 allocated, and one of 1,100 with 1,104.
#[test]
fn the_allocated_size_of_content_in_a_record_may_be_exact() {
    let device = VOLUMES[0].make();
    let system = open(device.clone());
    let file = system.create(Node::ROOT, &Name::from("desktop.ini"), Kind::File).unwrap();
    system.write(file, 0, &[7; 129]).unwrap();
    system.unmount().unwrap();
    let set = |allocated: u64| {
        Surgeon::new(&*device).edit_record(
            ROOT,
            |row| is_name(&units("desktop.ini"), row),
            |record| {
                let value = &mut attribute(record, DATA).value;
                assert_eq!(u64_at(value, 0x20), 129);
                [0x18, 0x30].into_iter().for_each(|at| put(value, at, allocated));
                record.allocated = allocated;
            },
        );
        check(&*device, false).found
    };
    assert_eq!([set(129), set(136), set(137)].map(|found| found > 0), [false, false, true]);
}
