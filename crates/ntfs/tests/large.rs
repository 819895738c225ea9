//! Many files, many names in one directory, a file in many pieces: trees and lists that are larger than in other tests.

use crate::common::{USUAL, Volume, check_clean, open};
use platter_vfs::{Cursor, FileSystem, Kind, Name, Names, Node};
use std::time::Instant;

/// A name that sorts in another place than the order of creation would give it.
fn name(number: u64) -> Name {
    let scattered = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Name::from(&*format!("{scattered:016x} file {number}"))
}

fn count(volume: &dyn FileSystem, directory: Node) -> u64 {
    let (mut entries, mut cursor, mut count) = (Vec::new(), Cursor::START, 0);
    loop {
        entries.clear();
        volume.read_directory(directory, cursor, 1000, &mut entries).unwrap();
        let Some(last) = entries.last() else { return count };
        cursor = last.next;
        count += entries.len() as u64;
    }
}

/// Makes and lists `files` files in one directory, and removes them, every other one first.
fn many(volume: Volume, files: u64) {
    let device = volume.make();
    let system = open(device.clone());
    let directory = system.create(Node::ROOT, &Name::from("many"), Kind::Directory).unwrap();
    let start = Instant::now();
    for number in 0..files {
        let file = system.create(directory, &name(number), Kind::File).unwrap();
        system.write(file, 0, &number.to_le_bytes()).unwrap();
        system.forget(file, 1);
    }
    let made = start.elapsed();
    assert_eq!(count(&system, directory), files);
    let listed = start.elapsed() - made;
    system.unmount().unwrap();
    check_clean(&*device).unwrap();
    let system = open(device.clone());
    let directory = system.lookup(Node::ROOT, &Name::from("many")).unwrap();
    for number in (0..files).step_by(97) {
        let file = system.lookup(directory, &name(number)).unwrap();
        let mut content = [0; 8];
        assert_eq!(system.read(file, 0, &mut content).unwrap(), 8);
        assert_eq!(content, number.to_le_bytes());
        system.forget(file, 1);
    }
    let start = Instant::now();
    for number in (0..files).step_by(2) {
        system.unlink(directory, &name(number)).unwrap();
    }
    assert_eq!(count(&system, directory), files / 2);
    system.sync_all().unwrap();
    for number in (1..files).step_by(2) {
        system.unlink(directory, &name(number)).unwrap();
    }
    let removed = start.elapsed();
    assert_eq!(count(&system, directory), 0);
    system.rmdir(Node::ROOT, &Name::from("many")).unwrap();
    system.unmount().unwrap();
    check_clean(&*device).unwrap();
    println!("{volume:?}: {files} files made in {made:?}, listed in {listed:?}, removed in {removed:?}");
}

#[test]
fn many_files_in_one_directory() {
    many(USUAL, 6_000);
    many(Volume { cluster: 512, ..USUAL }, 3_000);
    many(Volume { cluster: 65536, record: 4096, bytes: 128 << 20, ..USUAL }, 3_000);
}

/// Run with `cargo test --release -p platterfs-ntfs --test suite large:: -- --ignored --nocapture`.
#[test]
#[ignore = "takes minutes and gigabytes of memory"]
fn a_million_names_in_one_directory() {
    many(Volume { bytes: 3 << 30, ..USUAL }, 100_000);
    many(Volume { bytes: 3 << 30, ..USUAL }, 1_000_000);
}

/// A file so scattered that its runs fill many records, and `$MFT` as scattered.
#[test]
fn a_file_in_thousands_of_pieces() {
    for volume in [USUAL, Volume { cluster: 512, ..USUAL }] {
        let device = volume.make();
        let system = open(device.clone());
        let files =
            ["one", "two"].map(|name| system.create(Node::ROOT, &Name::from(name), Kind::File).unwrap());
        let step = volume.cluster.max(512);
        let pieces = 1_500u64;
        // There is a hole between any two clusters.
        for number in 0..pieces {
            for file in files {
                system.write(file, number * 2 * step + (64 << 10), &number.to_le_bytes()).unwrap();
            }
        }
        system.unmount().unwrap();
        check_clean(&*device).unwrap();
        let system = open(device.clone());
        for name in ["one", "two"] {
            let file = system.lookup(Node::ROOT, &Name::from(name)).unwrap();
            for number in (0..pieces).step_by(7) {
                let mut content = [0; 8];
                system.read(file, number * 2 * step + (64 << 10), &mut content).unwrap();
                assert_eq!(content, number.to_le_bytes(), "{volume:?} {name} {number}");
            }
            system.forget(file, 1);
        }
        system.unlink(Node::ROOT, &Name::from("one")).unwrap();
        system.unmount().unwrap();
        check_clean(&*device).unwrap();
    }
}

/// A volume is filled to the last cluster, emptied, and filled again: each time with as much, and each time clean.
#[test]
fn a_full_volume_can_be_emptied() {
    for volume in [Volume { bytes: 12 << 20, ..USUAL }, Volume { cluster: 512, bytes: 8 << 20, ..USUAL }] {
        let device = volume.make();
        let mut room = Vec::new();
        for _ in 0..3 {
            let system = open(device.clone());
            let mut made = Vec::new();
            // Large files take most of the room, many small ones the rest.
            for (number, length) in (0u64..).zip([300_000usize, 5_000, 10].into_iter().cycle()) {
                let name = name(number);
                let outcome = system.create(Node::ROOT, &name, Kind::File).and_then(|file| {
                    let outcome = system.write(file, 0, &vec![7; length]);
                    system.forget(file, 1);
                    outcome
                });
                match outcome {
                    Ok(()) => made.push(name),
                    Err(platter_vfs::Error::NoSpace) => {
                        let _ = system.unlink(Node::ROOT, &name);
                        if length == 10 {
                            break;
                        }
                    }
                    Err(error) => panic!("{volume:?}: {error}"),
                }
            }
            system.sync_all().unwrap();
            system.unmount().unwrap();
            check_clean(&*device).unwrap();
            let system = open(device.clone());
            for name in &made {
                match system.unlink(Node::ROOT, name) {
                    Ok(()) | Err(platter_vfs::Error::NotFound) => {}
                    Err(error) => panic!("{volume:?}: {error}"),
                }
            }
            assert_eq!(count(&system, Node::ROOT), 0, "{volume:?}");
            room.push(made.len());
            system.unmount().unwrap();
            check_clean(&*device).unwrap();
        }
        assert!(room[0] > 30 && room[2] >= room[1] * 9 / 10, "{volume:?}: {room:?}");
    }
}
