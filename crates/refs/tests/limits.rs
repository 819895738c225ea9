//! A change that does not fit into a record is refused at once, and nothing that was done before is lost.

use crate::common::{V3_14, VOLUMES, Volume, check_clean, content, open};
use platter_device::Device;
use platter_refs::RefsVolume;
use platter_vfs::{Error, FileSystem, Integrity, Kind, Name, Names, Node, RenameFlags, Reparse};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The contents of a file, of its streams and of its extended attributes, by name.
type Taken = BTreeMap<String, Vec<u8>>;

/// Returns the content of a file, under the empty name, and those of its streams and extended attributes.
fn everything(system: &RefsVolume, node: Node) -> Taken {
    let read = |node: Node| {
        let mut bytes = vec![0; system.attributes(node).unwrap().size as usize];
        assert_eq!(system.read(node, 0, &mut bytes).unwrap(), bytes.len());
        bytes
    };
    let mut all = Taken::from([(String::new(), read(node))]);
    for one in system.streams().unwrap().list(node).unwrap() {
        let stream = system.streams().unwrap().open(node, &one.name, false).unwrap();
        all.insert(format!(":{}", one.name), read(stream));
        system.forget(stream, 1);
    }
    for name in system.extended_attributes().unwrap().list(node).unwrap() {
        let value = system.extended_attributes().unwrap().get(node, &name).unwrap();
        all.insert(format!("@{name}"), value);
    }
    all
}

fn file(system: &RefsVolume, name: &str) -> Node {
    system.create(Node::ROOT, &Name::from(name), Kind::File).unwrap()
}

/// Checks that everything that `act` does to a file is there after an unmount, and so is a file that was made before.
fn holds(volume: Volume, act: impl Fn(&RefsVolume, Node)) {
    let device = volume.make();
    let system = open(device.clone());
    let other = file(&system, "other");
    system.write(other, 0, b"written before").unwrap();
    let node = file(&system, "file");
    act(&system, node);
    system.sync_all().unwrap_or_else(|error| panic!("{volume:?}: {error}"));
    let (taken, before) = (everything(&system, node), everything(&system, other));
    let names = system.attributes(node).unwrap().links;
    system.unmount().unwrap();
    drop(system);
    check_clean(&*device).unwrap_or_else(|fault| panic!("{volume:?}: {fault}"));
    let system = open(device as Arc<dyn Device>);
    let entries = names_of(&system);
    assert!(entries.contains("other"), "{volume:?}");
    let mut found = 0;
    for name in entries.iter().filter(|name| *name != "other") {
        let node = system.lookup(Node::ROOT, &Name::from(name.as_str())).unwrap();
        assert!(everything(&system, node) == taken, "{volume:?}: {name}");
        found += 1;
    }
    assert_eq!(found, names, "{volume:?}");
    let other = system.lookup(Node::ROOT, &Name::from("other")).unwrap();
    assert_eq!(everything(&system, other), before);
}

fn names_of(system: &RefsVolume) -> std::collections::BTreeSet<String> {
    let mut entries = Vec::new();
    let start = platter_vfs::Cursor::START;
    system.read_directory(Node::ROOT, start, usize::MAX, &mut entries).unwrap();
    entries.into_iter().map(|entry| entry.name.to_string()).collect()
}

/// Gives a file a stream. Returns whether there was room for it.
fn put_stream(system: &RefsVolume, node: Node, name: &str, bytes: &[u8]) -> bool {
    let stream = match system.streams().and_then(|part| part.open(node, &Name::from(name), true)) {
        Err(Error::RecordFull { .. }) => return false,
        made => made.unwrap(),
    };
    let written = system.write(stream, 0, bytes);
    system.forget(stream, 1);
    match written {
        Err(Error::RecordFull { .. }) => false,
        written => written.map(|()| true).unwrap(),
    }
}

fn put_attribute(system: &RefsVolume, node: Node, name: &str, bytes: &[u8]) -> bool {
    match system.extended_attributes().and_then(|part| part.set(node, name, Some(bytes))) {
        Err(Error::RecordFull { .. }) => false,
        put => put.map(|()| true).unwrap(),
    }
}

#[test]
fn streams_that_do_not_fit_into_the_record_go_to_clusters() {
    for volume in VOLUMES {
        holds(volume, |system, node| {
            for number in 0..8 {
                let name = format!("stream {number}");
                assert!(put_stream(system, node, &name, &content(number, 1900)), "{volume:?}: {name}");
            }
        });
    }
}

#[test]
fn streams_are_taken_until_the_record_is_full() {
    for volume in VOLUMES {
        for length in [0, 1, 100, 1900, 70_000] {
            holds(volume, |system, node| {
                let taken = (0..500).take_while(|&number| {
                    put_stream(system, node, &format!("{number}"), &content(number, length))
                });
                let taken = taken.count();
                assert!((8..200).contains(&taken), "{volume:?}: {taken} streams of {length}");
            });
        }
    }
}

#[test]
fn an_attribute_that_is_large_leaves_room_for_a_name() {
    for volume in VOLUMES {
        holds(volume, |system, node| {
            let most =
                (0..7000).rev().find(|&length| put_attribute(system, node, "large", &content(1, length)));
            assert!(most.unwrap() > 6000);
            let long = Name::from("n".repeat(255).as_str());
            let (from, flags) = (Name::from("file"), RenameFlags::NoReplace);
            let renamed = system.rename(Node::ROOT, &from, Node::ROOT, &long, flags);
            assert!(matches!(renamed, Err(Error::RecordFull { .. })), "{volume:?}: {renamed:?}");
            system.sync_all().unwrap();
            assert!(put_attribute(system, node, "large", &content(1, 6000)));
            system.rename(Node::ROOT, &from, Node::ROOT, &long, flags).unwrap();
        });
    }
}

#[test]
fn content_leaves_the_record_for_attributes() {
    for volume in VOLUMES {
        for is_first in [false, true] {
            holds(volume, |system, node| {
                let write = || system.write(node, 0, &content(2, 1900)).unwrap();
                if is_first {
                    write();
                }
                assert!(put_attribute(system, node, "large", &content(1, 5000)), "{volume:?}");
                if !is_first {
                    write();
                }
                // Content of other lengths, up to the most that a record may hold, is written too.
                let more = (1900..2048).rev().step_by(7);
                more.for_each(|length| system.write(node, 0, &content(3, length)).unwrap());
            });
        }
    }
}

#[test]
fn what_fills_a_record_in_any_order_is_kept() {
    for volume in VOLUMES {
        let has_links = volume.version == "3.14";
        for seed in 0..12 {
            let mut random = platter_testing::model::Random::new(seed);
            let steps: Vec<(u64, u64)> = (0..150).map(|_| (random.below(9), random.number())).collect();
            holds(volume, |system, node| {
                for &(step, number) in &steps {
                    let short = format!("{}", number % 40);
                    let length = (number >> 8) as usize % 2200;
                    match step {
                        0 | 1 => drop(put_stream(system, node, &short, &content(number, length))),
                        2 | 3 => drop(put_attribute(system, node, &short, &content(number, length))),
                        4 => system.write(node, 0, &content(number, length)).unwrap_or_else(full),
                        5 if has_links => {
                            let name = format!("{}{number}", "l".repeat(length % 200));
                            system.link(node, Node::ROOT, &Name::from(name.as_str())).unwrap_or_else(full);
                        }
                        6 if has_links => {
                            system
                                .snapshots()
                                .and_then(|part| {
                                    part.create(node, &Name::from(format!("kept {number}").as_str()))
                                })
                                .or_else(known)
                                .unwrap_or_else(full);
                        }
                        7 => system
                            .integrity()
                            .and_then(|part| {
                                part.set(node, Integrity { enabled: number % 2 == 0, enforced: true })
                            })
                            .unwrap_or_else(full),
                        8 => {
                            let change =
                                platter_vfs::Change { size: Some(length as u64), ..Default::default() };
                            system.set_attributes(node, &change).map(drop).unwrap_or_else(full);
                        }
                        _ => {}
                    }
                    if number % 11 == 0 {
                        system.sync_all().unwrap_or_else(|error| panic!("{volume:?} seed {seed}: {error}"));
                    }
                }
            });
        }
    }
}

fn full(error: Error) {
    assert!(error.is_full(), "{error}");
}

/// Accepts the error that the name is taken, by a snapshot or a stream.
fn known(error: Error) -> Result<(), Error> {
    match error {
        Error::Exists => Ok(()),
        error => Err(error),
    }
}

#[test]
fn a_file_has_names_until_its_record_is_full() {
    holds(V3_14, |system, node| {
        let refused = (0..2000).find_map(|number| {
            let name = format!("name {number}");
            system.link(node, Node::ROOT, &Name::from(name.as_str())).err().map(|error| (number, error))
        });
        let (number, error) = refused.unwrap();
        assert!(matches!(error, Error::TooManyLinks { .. }), "{error}");
        assert!(number > 80, "{number} names");
    });
}

#[test]
fn a_reparse_point_that_does_not_fit_is_refused() {
    holds(V3_14, |system, node| {
        let point = |length| Reparse { tag: 0x8000_0099, data: content(1, length) };
        let refused = system.reparse_points().and_then(|part| part.set(node, Some(&point(7000))));
        assert!(matches!(refused, Err(Error::RecordFull { .. })), "{refused:?}");
        system.reparse_points().unwrap().set(node, Some(&point(6000))).unwrap();
    });
}

#[test]
fn a_directory_holds_what_its_record_does() {
    let device = V3_14.make();
    let system = open(device.clone());
    let directory = system.create(Node::ROOT, &Name::from("directory"), Kind::Directory).unwrap();
    assert!(put_attribute(&system, directory, "large", &content(1, 6300)));
    let long = Name::from("d".repeat(255).as_str());
    let from = Name::from("directory");
    let renamed = system.rename(Node::ROOT, &from, Node::ROOT, &long, RenameFlags::NoReplace);
    assert!(matches!(renamed, Err(Error::RecordFull { .. })), "{renamed:?}");
    let taken =
        (0..100).take_while(|number| put_stream(&system, directory, &format!("{number}"), b"x")).count();
    assert!(taken < 10, "{taken}");
    system.unmount().unwrap();
    check_clean(&*device).unwrap();
}

/// Two runs take less room in the record than the reference to a page, which three runs go to.
#[test]
fn runs_have_their_room_before_they_come() {
    for volume in VOLUMES {
        holds(volume, |system, node| {
            let stream = system.streams().unwrap().open(node, &Name::from("stream"), true).unwrap();
            system.write(stream, 0, &[1; 5000]).unwrap();
            let most =
                (0..7000).rev().find(|&length| put_attribute(system, node, "large", &content(1, length)));
            assert!(most.unwrap() > 5000);
            for number in 1..40 {
                system.write(stream, number << 20, &[2; 5000]).unwrap();
                system.sync_all().unwrap();
            }
            system.forget(stream, 1);
        });
    }
}

/// A write to a stream finds no room in the record, and so moves another stream, which no caller holds, to clusters.
/// This is not enough, and the write is refused; the stream that was moved must be stored all the same.
#[test]
fn a_stream_that_makes_room_in_vain_is_stored() {
    holds(V3_14, |system, node| {
        assert!(put_stream(system, node, "one", &content(1, 1000)));
        let other = system.streams().unwrap().open(node, &Name::from("other"), true).unwrap();
        let most = (0..7000).rev().find(|&length| put_attribute(system, node, "large", &content(1, length)));
        assert!(most.is_some());
        system.sync_all().unwrap();
        let refused = system.write(other, 1 << 20, &[1; 700]);
        assert!(matches!(refused, Err(Error::RecordFull { .. })), "{refused:?}");
        system.forget(other, 1);
    });
}
