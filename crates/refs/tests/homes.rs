//! Tests of where files have their records and numbers, against the rows on the device: after they are made, renamed,
//! moved, linked and removed, and after their home is removed.

use crate::common::{V3_14, VOLUMES, Volume, check_clean, content, open};
use crate::damaged::{Did, Of, Surgeon, is_name, units};
use platter_device::{Device, MemoryDevice};
use platter_refs::layout::bytes::{u16_at, u64_at};
use platter_refs::layout::record::key;
use platter_refs::layout::{NumberRow, Record, Root, ShortEntry, object_links};
use platter_refs::{Refs, RefsVolume};
use platter_testing::model::{Random, seed};
use platter_vfs::{
    CheckOptions, CheckReport, Cursor, Error, FileSystem, Format, Kind, Name, Names, Node, RenameFlags,
    Reparse, Severity, Silent,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const ROOT: u64 = 0x600;
const ROOM: usize = 100_000;

fn check(device: &dyn Device, repair: bool) -> CheckReport {
    Refs::ANY.check(device, CheckOptions { repair }, &Silent).unwrap()
}

fn directory(volume: &RefsVolume, name: &str) -> Node {
    volume.create(Node::ROOT, &Name::from(name), Kind::Directory).unwrap()
}

fn file(volume: &RefsVolume, directory: Node, name: &str, data: &[u8]) -> Node {
    let node = volume.create(directory, &Name::from(name), Kind::File).unwrap();
    volume.write(node, 0, data).unwrap();
    node
}

fn rename(volume: &RefsVolume, from: Node, name: &str, to: Node, new: &str) {
    volume.rename(from, &name.into(), to, &new.into(), RenameFlags::default()).unwrap();
}

fn read(volume: &RefsVolume, node: Node) -> Vec<u8> {
    let mut data = vec![0; ROOM];
    let length = volume.read(node, 0, &mut data).unwrap();
    data.truncate(length);
    data
}

/// The rows of a directory other than its own record, each said in a few words.
fn rows(device: &dyn Device, object: u64) -> Vec<String> {
    let said = |(row, value): (Vec<u8>, Vec<u8>)| {
        let name = String::from_utf16(&key::units(&row)).unwrap_or_default();
        match (u16_at(&row, 0), u16_at(&row, 2)) {
            (0x20, 0x8000) => match NumberRow::from_bytes(&value) {
                NumberRow::Name(units) => {
                    format!("{} -> {}", u64_at(&row, 8), String::from_utf16(&units).unwrap())
                }
                row_value => format!("{} -> {row_value:x?}", u64_at(&row, 8)),
            },
            (0x30, key::LONG) => format!("{name}: record {}", Record::from_bytes(&value, 0).unwrap().ordinal),
            (0x30, key::SHORT) => {
                let short = ShortEntry::from_bytes(&value, 0).unwrap();
                let kind = if short.is_directory() { "directory" } else { "file" };
                format!("{name}: {kind} {} of {:#x}", short.ordinal, short.object)
            }
            (0x40, 0x8000) => {
                let record = Record::from_bytes(&value, 0).unwrap();
                let links: Vec<String> = object_links(&record.rows)
                    .map(|(above, name)| format!("{above:#x}/{}", String::from_utf16(&name).unwrap()))
                    .collect();
                assert_eq!((u64_at(&row, 8), u64_at(&row, 16)), (record.ordinal, object));
                assert_eq!(links.len(), record.links as usize);
                format!("record {} = {}", record.ordinal, links.join(" "))
            }
            other => format!("{other:x?}"),
        }
    };
    let all = Surgeon::new(device).rows(Of::Object(object));
    all.into_iter().filter(|(row, _)| row[0] != 0x10).map(said).collect()
}

#[track_caller]
fn assert_rows(device: &Arc<MemoryDevice>, object: u64, expected: &[&str]) {
    assert_eq!(rows(&**device, object), expected);
    check_clean(&**device).unwrap();
}

/// Changes a volume that is opened for it and unmounted.
fn with(device: &Arc<MemoryDevice>, change: impl FnOnce(&RefsVolume)) {
    let volume = open(device.clone());
    change(&volume);
    volume.unmount().unwrap();
}

#[test]
fn a_file_keeps_home_and_number_wherever_it_moves() {
    let device = V3_14.make();
    with(&device, |volume| {
        let [home, other] = ["home", "other"].map(|name| directory(volume, name));
        file(volume, home, "first", &content(1, 300));
        file(volume, home, "second", &content(2, 9000));
        file(volume, other, "third", b"3");
    });
    let (home, other) = (0x701, 0x702);
    assert_rows(&device, ROOT, &["home: directory 0 of 0x701", "other: directory 0 of 0x702"]);
    assert_rows(&device, home, &["2 -> first", "3 -> second", "first: record 2", "second: record 3"]);
    let look = |volume: &RefsVolume, name: &str| volume.lookup(Node::ROOT, &Name::from(name)).unwrap();
    // A new name in the same directory leaves the record in the row of the name.
    with(&device, |volume| {
        let home = look(volume, "home");
        rename(volume, home, "first", home, "1st");
    });
    assert_rows(&device, home, &["2 -> 1st", "3 -> second", "1st: record 2", "second: record 3"]);
    with(&device, |volume| {
        let (home, other) = (look(volume, "home"), look(volume, "other"));
        rename(volume, home, "1st", other, "moved");
        rename(volume, home, "second", Node::ROOT, "second");
    });
    let bodies =
        ["2 -> Body(2, 701)", "3 -> Body(3, 701)", "record 2 = 0x702/moved", "record 3 = 0x600/second"];
    assert_rows(&device, home, &bodies);
    assert_rows(&device, other, &["2 -> third", "moved: file 2 of 0x701", "third: record 2"]);
    // The record stays where it is when the file moves on, and when it comes back.
    with(&device, |volume| {
        let (home, other) = (look(volume, "home"), look(volume, "other"));
        rename(volume, Node::ROOT, "second", home, "back");
        rename(volume, other, "moved", other, "again");
        assert_eq!(read(volume, volume.lookup(home, &"back".into()).unwrap()), content(2, 9000));
        assert_eq!(read(volume, volume.lookup(other, &"again".into()).unwrap()), content(1, 300));
    });
    let bodies = [
        "2 -> Body(2, 701)",
        "3 -> Body(3, 701)",
        "back: file 3 of 0x701",
        "record 2 = 0x702/again",
        "record 3 = 0x701/back",
    ];
    assert_rows(&device, home, &bodies);
    // A move over another file removes that file with all its rows; numbers are not given twice.
    with(&device, |volume| {
        let (home, other) = (look(volume, "home"), look(volume, "other"));
        rename(volume, home, "back", other, "third");
        file(volume, other, "new", b"");
        volume.unlink(other, &"again".into()).unwrap();
    });
    assert_rows(&device, home, &["3 -> Body(3, 701)", "record 3 = 0x702/third"]);
    assert_rows(&device, other, &["3 -> new", "new: record 3", "third: file 3 of 0x701"]);
}

#[test]
fn a_second_name_leads_to_a_record_at_home() {
    let device = V3_14.make();
    with(&device, |volume| {
        let other = directory(volume, "other");
        let node = file(volume, Node::ROOT, "one", &content(1, 5000));
        volume.link(node, other, &"two".into()).unwrap();
        rename(volume, other, "two", Node::ROOT, "TWO");
    });
    let expected = |links: &'static str| {
        let mut all = vec!["2 -> Body(2, 600)", "one: file 2 of 0x600", "other: directory 0 of 0x701"];
        all.extend(["TWO: file 2 of 0x600", links]);
        all
    };
    assert_rows(&device, ROOT, &expected("record 2 = 0x600/TWO 0x600/one"));
    with(&device, |volume| {
        volume.unlink(Node::ROOT, &"one".into()).unwrap();
    });
    let left =
        ["2 -> Body(2, 600)", "other: directory 0 of 0x701", "TWO: file 2 of 0x600", "record 2 = 0x600/TWO"];
    assert_rows(&device, ROOT, &left);
    with(&device, |volume| {
        volume.unlink(Node::ROOT, &"TWO".into()).unwrap();
    });
    assert_rows(&device, ROOT, &["other: directory 0 of 0x701"]);
}

#[test]
fn files_outlive_their_home() {
    let device = V3_14.make();
    with(&device, |volume| {
        let [home, other] = ["home", "other"].map(|name| directory(volume, name));
        for number in 0..40 {
            file(volume, home, &format!("f{number}"), &content(number, 100 * number as usize));
            rename(volume, home, &format!("f{number}"), other, &format!("f{number}"));
        }
        let stream = volume.lookup(other, &"f7".into()).unwrap();
        let stream = volume.streams().unwrap().open(stream, &"stream".into(), true).unwrap();
        volume.write(stream, 0, &content(9, 9000)).unwrap();
    });
    with(&device, |volume| volume.rmdir(Node::ROOT, &"home".into()).unwrap());
    check_clean(&*device).unwrap();
    let all = rows(&*device, 0x702);
    assert_eq!(all.iter().filter(|row| row.contains("-> Body(")).count(), 40);
    assert_eq!(all.iter().filter(|row| row.starts_with("record ")).count(), 40);
    assert!(all.iter().filter(|row| row.contains(": file ")).all(|row| row.ends_with("of 0x702")));
    with(&device, |volume| {
        let other = volume.lookup(Node::ROOT, &"other".into()).unwrap();
        for number in 0..40 {
            let node = volume.lookup(other, &Name::from(&*format!("f{number}"))).unwrap();
            assert_eq!(read(volume, node), content(number, 100 * number as usize));
        }
        let node = volume.lookup(other, &"f7".into()).unwrap();
        assert_eq!(
            read(volume, volume.streams().unwrap().open(node, &"stream".into(), false).unwrap()),
            content(9, 9000)
        );
    });
}

/// A record that has no room for a link moves to the new directory and gets a new number there.
#[test]
fn a_file_moves_although_its_record_is_full() {
    let device = V3_14.make();
    with(&device, |volume| {
        let [home, other] = ["home", "other"].map(|name| directory(volume, name));
        let node = file(volume, home, "full", b"content");
        for number in 0.. {
            let name = format!("user.{number}");
            if volume.extended_attributes().and_then(|part| part.set(node, &name, Some(&[7; 40]))).is_err() {
                break;
            }
        }
        for number in 0.. {
            let name = Name::from(&*format!("{number}"));
            if volume.streams().and_then(|part| part.open(node, &name, true)).is_err() {
                break;
            }
        }
        rename(volume, home, "full", other, "full");
        assert_eq!(read(volume, node), b"content");
    });
    assert_rows(&device, 0x701, &[]);
    assert_rows(&device, 0x702, &["2 -> full", "full: record 2"]);
}

/// On 3.4 a record moves with its name, as before; rows lead to the names all the same.
#[test]
fn before_hard_links_a_record_moves_with_its_name() {
    let device = Volume { checksum: "none", version: "3.4", ..V3_14 }.make();
    with(&device, |volume| {
        let [home, other] = ["home", "other"].map(|name| directory(volume, name));
        file(volume, home, "file", &content(1, 9000));
        rename(volume, home, "file", other, "new");
    });
    assert_rows(&device, ROOT, &["home: directory 2 of 0x701", "other: directory 3 of 0x702"]);
    assert_rows(&device, 0x701, &[]);
    assert_rows(&device, 0x702, &["2 -> new", "new: record 2"]);
}

/// Removes the rows that lead from numbers to files, as earlier versions of Platter wrote none.
fn without_numbers(device: &Arc<MemoryDevice>, objects: &[u64]) {
    for &object in objects {
        while rows(&**device, object).iter().any(|row| row.contains(" -> ")) {
            Surgeon::new(&**device).remove_row(Of::Object(object), |row| row[0] == 0x20);
        }
    }
}

#[test]
fn volumes_without_rows_of_numbers_are_sound_and_get_them() {
    let device = V3_14.make();
    with(&device, |volume| {
        let other = directory(volume, "other");
        for name in ["a", "b", "c", "d"] {
            file(volume, Node::ROOT, name, &content(1, 3000));
        }
        rename(volume, Node::ROOT, "b", other, "b");
    });
    let before = [rows(&*device, ROOT), rows(&*device, 0x701)];
    without_numbers(&device, &[ROOT, 0x701]);
    let report = check(&*device, false);
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    assert_eq!(
        (report.findings[0].code, report.findings[0].severity),
        ("number-row-missing", Severity::Notice)
    );
    // Such a volume is changed like any other.
    with(&device, |volume| {
        let other = volume.lookup(Node::ROOT, &"other".into()).unwrap();
        rename(volume, Node::ROOT, "c", other, "c");
        rename(volume, other, "c", Node::ROOT, "c");
        volume.unlink(Node::ROOT, &"d".into()).unwrap();
        rename(volume, Node::ROOT, "a", Node::ROOT, "A");
        rename(volume, Node::ROOT, "A", Node::ROOT, "a");
    });
    assert!(check(&*device, false).findings.iter().all(|finding| finding.severity == Severity::Notice));
    without_numbers(&device, &[ROOT]);
    // A notice alone is no reason to write to the volume. A repair of the damage that earlier versions left mends it too.
    let image = device.to_image();
    assert_eq!(check(&*device, true).repaired, 0);
    assert!(device.to_image() == image);
    Surgeon::new(&*device).edit(Of::Root(Root::MediumAllocator), &mut |bytes| {
        bytes[0x78..0x1F8].fill(0);
        Did::Sealed
    });
    check(&*device, true);
    check_clean(&*device).unwrap();
    let now = rows(&*device, ROOT);
    assert_eq!(before[1], rows(&*device, 0x701));
    assert!(
        ["2 -> a", "3 -> Body(3, 600)", "4 -> Body(4, 600)"]
            .iter()
            .all(|row| now.iter().any(|one| one == row))
    );
    assert_eq!(now.iter().filter(|row| row.contains(" -> ")).count(), 3, "{now:?}");
}

#[test]
fn rows_that_lead_elsewhere_are_found_and_mended() {
    let device = V3_14.make();
    with(&device, |volume| {
        let other = directory(volume, "other");
        file(volume, Node::ROOT, "stays", b"1");
        file(volume, Node::ROOT, "moves", b"2");
        rename(volume, Node::ROOT, "moves", other, "moved");
    });
    let expected = rows(&*device, ROOT);
    type Change = fn(&mut Surgeon<'_>);
    let changes: [(&str, Change); 4] = [
        ("another name", |surgeon| {
            let value = NumberRow::Name(units("other")).to_bytes();
            surgeon.replace_value(Of::Object(ROOT), |row| row[0] == 0x20 && row[8] == 2, &value);
        }),
        ("another home", |surgeon| {
            let value = NumberRow::Body(3, 0x701).to_bytes();
            surgeon.replace_value(Of::Object(ROOT), |row| row[0] == 0x20 && row[8] == 3, &value);
        }),
        ("nothing that is there", |surgeon| {
            let value = NumberRow::Name(units("gone")).to_bytes();
            let behind = |node: &platter_refs::layout::TreeNode<'_>| {
                node.rows().position(|row| row.key[0] == 0x30).unwrap()
            };
            surgeon.insert_row(Of::Object(ROOT), behind, (&key::number(77), 0, &value));
        }),
        ("a name although the record is elsewhere", |surgeon| {
            let value = NumberRow::Name(units("moves")).to_bytes();
            surgeon.replace_value(Of::Object(ROOT), |row| row[0] == 0x20 && row[8] == 3, &value);
        }),
    ];
    for (what, change) in changes {
        let copy = Arc::new(MemoryDevice::from_image(&device.to_image(), platter_device::Sectors::SMALL));
        change(&mut Surgeon::new(&*copy));
        let found = check(&*copy, false);
        let codes: Vec<&str> = found.findings.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, ["number-row"], "{what}: {:?}", found.findings);
        check(&*copy, true);
        check_clean(&*copy).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(rows(&*copy, ROOT), expected, "{what}");
    }
}

/// What a test knows of a file: its content, and its names as directory and name.
struct Known {
    data: Vec<u8>,
    names: Vec<(usize, String)>,
    /// Home and number, and the index of the home among the directories, as long as that was not removed.
    identity: Option<(u64, u64)>,
}

/// Home directory and number of each name in a directory.
fn identities(device: &dyn Device, object: u64) -> BTreeMap<String, (u64, u64)> {
    let mut found = BTreeMap::new();
    for (row, value) in Surgeon::new(device).rows(Of::Object(object)) {
        let identity = match (u16_at(&row, 0), u16_at(&row, 2)) {
            (0x30, key::LONG) => (object, Record::from_bytes(&value, 0).unwrap().ordinal),
            (0x30, key::SHORT) => {
                let short = ShortEntry::from_bytes(&value, 0).unwrap();
                if short.is_directory() {
                    continue;
                }
                (short.object, short.ordinal)
            }
            _ => continue,
        };
        found.insert(String::from_utf16(&key::units(&row)).unwrap(), identity);
    }
    found
}

/// Files move, get and lose names, and homes are removed, at random; after each round a check passes, all contents are
/// right, and no file whose home is there has another identity.
fn move_about(volume: Volume, seed: u64, rounds: usize) {
    const DIRECTORIES: usize = 5;
    let random = &mut Random::new(seed);
    let device = volume.make();
    let has_links = volume.version == "3.14";
    let mut objects = Vec::new();
    with(&device, |volume| {
        for index in 0..DIRECTORIES {
            directory(volume, &format!("d{index}"));
        }
    });
    for index in 0..DIRECTORIES {
        objects.push(Surgeon::new(&*device).directory(&[&format!("d{index}")]));
    }
    let mut files: Vec<Known> = Vec::new();
    let mut made = 0;
    for round in 0..rounds {
        with(&device, |volume| {
            let nodes: Vec<Node> = (0..DIRECTORIES)
                .map(|index| volume.lookup(Node::ROOT, &Name::from(&*format!("d{index}"))).unwrap())
                .collect();
            for _ in 0..40 {
                made += 1;
                let name = format!("n{made}{}", "x".repeat(random.below(60) as usize));
                let to = random.below(DIRECTORIES as u64) as usize;
                let pick = random.below(files.len().max(1) as u64) as usize;
                match random.below(10) {
                    0..3 => {
                        let data = content(made, random.below(9000) as usize);
                        file(volume, nodes[to], &name, &data);
                        files.push(Known { data, names: vec![(to, name)], identity: None });
                    }
                    3..7 if !files.is_empty() => {
                        let which = random.below(files[pick].names.len() as u64) as usize;
                        let (from, old) = files[pick].names[which].clone();
                        rename(volume, nodes[from], &old, nodes[to], &name);
                        files[pick].names[which] = (to, name);
                    }
                    7 if !files.is_empty() && has_links => {
                        let (from, old) = files[pick].names[0].clone();
                        let node = volume.lookup(nodes[from], &Name::from(&*old)).unwrap();
                        volume.link(node, nodes[to], &Name::from(&*name)).unwrap();
                        volume.forget(node, 1);
                        files[pick].names.push((to, name));
                    }
                    8 if !files.is_empty() => {
                        let (from, old) = files[pick].names.pop().unwrap();
                        volume.unlink(nodes[from], &Name::from(&*old)).unwrap();
                        if files[pick].names.is_empty() {
                            files.swap_remove(pick);
                        }
                    }
                    // Two files change places, or one takes the place of another.
                    9 if files.len() > 1 => {
                        let other = (pick + 1) % files.len();
                        let (from, to) = (files[pick].names[0].clone(), files[other].names[0].clone());
                        let exchange = random.chance(50);
                        let flags = if exchange { RenameFlags::Exchange } else { RenameFlags::default() };
                        let [one, two] = [&from.1, &to.1].map(|name| Name::from(&**name));
                        volume.rename(nodes[from.0], &one, nodes[to.0], &two, flags).unwrap();
                        files[pick].names[0] = to;
                        match exchange {
                            true => files[other].names[0] = from,
                            false => drop(files[other].names.remove(0)),
                        }
                        if files[other].names.is_empty() {
                            files.swap_remove(other);
                        }
                    }
                    _ => {}
                }
            }
        });
        // Now and then a directory is emptied and removed, and another one made in its place.
        if round % 3 == 2 {
            let gone = random.below(DIRECTORIES as u64) as usize;
            let to = (gone + 1) % DIRECTORIES;
            with(&device, |volume| {
                let [from, target] = [gone, to]
                    .map(|index| volume.lookup(Node::ROOT, &Name::from(&*format!("d{index}"))).unwrap());
                for known in &mut files {
                    for (directory, name) in
                        known.names.iter_mut().filter(|(directory, _)| *directory == gone)
                    {
                        rename(volume, from, name, target, name);
                        *directory = to;
                    }
                }
                volume.forget(from, 1);
                volume.rmdir(Node::ROOT, &Name::from(&*format!("d{gone}"))).unwrap();
                directory(volume, &format!("d{gone}"));
            });
            let new = Surgeon::new(&*device).directory(&[&format!("d{gone}")]);
            let old = std::mem::replace(&mut objects[gone], new);
            let has_lost = |known: &&mut Known| known.identity.is_some_and(|(home, _)| home == old);
            files.iter_mut().filter(has_lost).for_each(|known| known.identity = None);
        }
        check_clean(&*device).unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
        let there: Vec<_> = objects.iter().map(|object| identities(&*device, *object)).collect();
        let names: usize = files.iter().map(|known| known.names.len()).sum();
        assert_eq!(there.iter().map(BTreeMap::len).sum::<usize>(), names, "seed {seed}, round {round}");
        with(&device, |volume| {
            for known in &mut files {
                for (index, name) in &known.names {
                    let identity = there[*index][name];
                    if has_links {
                        assert_eq!(*known.identity.get_or_insert(identity), identity, "seed {seed}: {name}");
                    }
                    let above = volume.lookup(Node::ROOT, &Name::from(&*format!("d{index}"))).unwrap();
                    let node = volume.lookup(above, &Name::from(&**name)).unwrap();
                    assert_eq!(read(volume, node), known.data, "seed {seed}: {name}");
                    volume.forget(node, 1);
                }
            }
        });
    }
}

#[test]
fn files_that_move_a_lot_keep_content_and_identity() {
    for (number, volume) in VOLUMES.into_iter().enumerate() {
        move_about(volume, 9000 + number as u64, 9);
    }
}

/// Other seeds: `PLATTER_SEED=n`.
#[test]
#[ignore = "a campaign: takes minutes"]
fn files_that_move_for_long_keep_content_and_identity() {
    for (number, volume) in VOLUMES.into_iter().enumerate() {
        move_about(volume, seed() + number as u64, 200);
    }
}

/// Names that differ only in case are the same to a look-up, but the row has the name as it is written.
#[test]
fn a_change_of_case_is_a_change_of_the_name_in_the_number_row() {
    let device = V3_14.make();
    with(&device, |volume| {
        file(volume, Node::ROOT, "name", b"");
        rename(volume, Node::ROOT, "name", Node::ROOT, "NAME");
    });
    assert_rows(&device, ROOT, &["2 -> NAME", "NAME: record 2"]);
    assert!(
        Surgeon::new(&*device).rows(Of::Object(ROOT)).iter().any(|(row, _)| is_name(&units("NAME"), row))
    );
}

/// The rows of the reparse index: tag, number, directory.
fn points(device: &dyn Device) -> Vec<(u32, u64, u64)> {
    let index = |object| {
        let rows = Surgeon::new(device).rows(Of::Object(object));
        rows.into_iter().map(|(row, value)| {
            assert!(value.is_empty());
            (platter_refs::layout::bytes::u32_at(&row, 4), u64_at(&row, 8), u64_at(&row, 16))
        })
    };
    assert!(index(0x540).eq(index(0x541)));
    index(0x540).collect()
}

#[test]
fn a_directory_can_be_a_junction() {
    const JUNCTION: u32 = 0xA000_0003;
    let units = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let target = units(r"\??\C:\target");
    let mut data = vec![0, 0, target.len() as u8, 0, target.len() as u8 + 2, 0, 0, 0];
    data.extend(target.iter().chain(&[0; 4]));
    let point = Reparse { tag: JUNCTION, data };
    for volume in [V3_14, VOLUMES[5]] {
        let device = volume.make();
        let target = |device: &Arc<MemoryDevice>, path: [&str; 2]| {
            let volume = open(device.clone());
            let above = match path[0] {
                "" => Node::ROOT,
                name => volume.lookup(Node::ROOT, &name.into()).unwrap(),
            };
            let node = volume.lookup(above, &path[1].into()).unwrap();
            let mut entries = Vec::new();
            volume.read_directory(above, Cursor::START, 100, &mut entries).unwrap();
            let listed = entries.iter().find(|entry| entry.name == path[1].into()).unwrap();
            assert_eq!(listed.attributes.kind, Kind::SymbolicLink);
            assert_eq!(volume.attributes(node).unwrap().kind, Kind::SymbolicLink);
            assert_eq!(volume.reparse_points().unwrap().get(node).unwrap(), Some(point.clone()));
            volume.read_link(node).unwrap()
        };
        with(&device, |volume| {
            let above = directory(volume, "above");
            let junction = volume.create(above, &"junction".into(), Kind::Directory).unwrap();
            let full = directory(volume, "full");
            file(volume, full, "file", b"");
            assert!(matches!(
                volume.reparse_points().and_then(|part| part.set(full, Some(&point))),
                Err(Error::NotEmpty)
            ));
            assert!(volume.reparse_points().and_then(|part| part.set(Node::ROOT, Some(&point))).is_err());
            volume.reparse_points().unwrap().set(junction, Some(&point)).unwrap();
        });
        check_clean(&*device).unwrap();
        let object = Surgeon::new(&*device).directory(&["above", "junction"]);
        assert_eq!(points(&*device), [(JUNCTION, 0, object)]);
        assert_eq!(target(&device, ["above", "junction"]), "C:/target");
        with(&device, |volume| {
            let above = volume.lookup(Node::ROOT, &"above".into()).unwrap();
            rename(volume, above, "junction", Node::ROOT, "moved");
        });
        check_clean(&*device).unwrap();
        assert_eq!(points(&*device), [(JUNCTION, 0, object)]);
        assert_eq!(target(&device, ["", "moved"]), "C:/target");
        // Without its point it is a directory again.
        with(&device, |volume| {
            let node = volume.lookup(Node::ROOT, &"moved".into()).unwrap();
            volume.reparse_points().unwrap().set(node, None).unwrap();
            file(volume, node, "inside", b"1");
        });
        check_clean(&*device).unwrap();
        assert_eq!(points(&*device), []);
        with(&device, |volume| {
            let node = volume.lookup(Node::ROOT, &"moved".into()).unwrap();
            volume.unlink(node, &"inside".into()).unwrap();
            volume.reparse_points().unwrap().set(node, Some(&point)).unwrap();
            volume.forget(node, 1);
            volume.unlink(Node::ROOT, &"moved".into()).unwrap();
        });
        check_clean(&*device).unwrap();
        assert_eq!(points(&*device), []);
    }
}

/// A junction that is not in the reparse index is found, and put there.
#[test]
fn a_junction_that_the_index_lacks_is_found() {
    let device = V3_14.make();
    with(&device, |volume| {
        let node = directory(volume, "junction");
        let point = Reparse { tag: 0x8000_0099, data: b"anything".to_vec() };
        volume.reparse_points().unwrap().set(node, Some(&point)).unwrap();
        file(volume, node, "inside", b"1");
    });
    check_clean(&*device).unwrap();
    for index in [0x540, 0x541] {
        Surgeon::new(&*device).remove_row(Of::Object(index), |_| true);
    }
    let found = check(&*device, false);
    assert!(found.findings.iter().all(|finding| finding.code == "reparse-index"), "{:?}", found.findings);
    assert!(!found.findings.is_empty());
    check(&*device, true);
    check_clean(&*device).unwrap();
    assert_eq!(points(&*device), [(0x8000_0099, 0, 0x701)]);
}
