//! Full volumes: every operation that needs room fails cleanly, and existing files can be removed.

use crate::common::{VOLUMES, check_clean, open};
use platter_device::Recorder;
use platter_vfs::{Change, Error, FileSystem, Integrity, Kind, Name, Names, Node};
use std::sync::Arc;

/// First a file takes all room for data, then directories take all room for pages, since each has a page of its own.
#[test]
fn a_full_volume_refuses_and_goes_on() {
    for volume in [VOLUMES[0], VOLUMES[3]] {
        let device = volume.make();
        let system = open(device.clone());
        let large = system.create(Node::ROOT, &Name::from("large"), Kind::File).unwrap();
        let (mut at, bytes) = (0, vec![7; 1 << 20]);
        let refused = loop {
            match system.write(large, at, &bytes) {
                Ok(()) => at += bytes.len() as u64,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::NoSpace), "{volume:?}: {refused}");
        let name = |number: usize| Name::from(format!("directory {number}").as_str());
        let mut made = 0;
        let refused = loop {
            match system.create(Node::ROOT, &name(made), Kind::Directory) {
                Ok(node) => {
                    system.forget(node, 1);
                    made += 1;
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::NoSpace), "{volume:?}: {refused}");
        assert!(made > 100, "{volume:?}: {made}");
        // The refused directory is not half made, and the volume still accepts changes.
        assert!(matches!(system.lookup(Node::ROOT, &name(made)), Err(Error::NotFound)));
        system.sync_all().unwrap();
        for number in 0..made {
            system.rmdir(Node::ROOT, &name(number)).unwrap();
        }
        system.unlink(Node::ROOT, &Name::from("large")).unwrap();
        system.forget(large, 1);
        system.sync_all().unwrap();
        system.create(Node::ROOT, &Name::from("again"), Kind::Directory).unwrap();
        system.unmount().unwrap();
        check_clean(&*device).unwrap_or_else(|fault| panic!("{volume:?}: {fault}"));
    }
}

/// A file in very many pieces, none of which is shared, can be removed without room for changed reference counts.
#[test]
fn a_scattered_file_is_removed_from_a_full_volume_on_which_others_share() {
    let volume = VOLUMES[0];
    let device = volume.make();
    let system = open(device.clone());
    let cluster = volume.cluster;
    let file = |name: &str| system.create(Node::ROOT, &Name::from(name), Kind::File).unwrap();
    let (one, other, copy, large) = (file("one"), file("other"), file("copy"), file("large"));
    for at in 0..1500 {
        for node in [one, other] {
            system.write(node, at * cluster, &vec![at as u8; cluster as usize]).unwrap();
        }
    }
    assert!(system.extents(one).unwrap().len() > 1400);
    let shared = file("shared");
    system.write(shared, 0, &vec![5; cluster as usize]).unwrap();
    system.clone_range(shared, 0, copy, 0, cluster).unwrap();
    let mut at = 0;
    while system.write(large, at, &vec![7; 1 << 20]).is_ok() {
        at += 1 << 20;
    }
    system.sync_all().unwrap();
    system.set_attributes(other, &Change { size: Some(cluster), ..Change::default() }).unwrap();
    system.unlink(Node::ROOT, &Name::from("one")).unwrap();
    system.forget(one, 1);
    system.sync_all().unwrap();
    system.unmount().unwrap();
    check_clean(&*device).unwrap();
}

/// A write that there is no room for changes nothing, even where a part of it would have fitted.
#[test]
fn a_write_into_a_hole_is_taken_as_a_whole_or_not_at_all() {
    for volume in [VOLUMES[0], VOLUMES[2]] {
        let device = volume.make();
        let system = open(device.clone());
        let cluster = volume.cluster;
        let file = |name: &str| system.create(Node::ROOT, &Name::from(name), Kind::File).unwrap();
        let (holes, ballast) = (file("holes"), file("ballast"));
        // The file ends inside a cluster, so a write behind a gap is not planned but carried out with the stream
        // locked.
        system.write(holes, 0, &vec![3; 3 * cluster as usize / 2]).unwrap();
        let (mut at, mut length) = (0, 64 * cluster);
        while length > 0 {
            match system.write(ballast, at, &vec![7; length as usize]) {
                Ok(()) => at += length,
                Err(Error::NoSpace) => length = length / 2 / cluster * cluster,
                Err(error) => panic!("{volume:?}: {error}"),
            }
        }
        system.punch(ballast, 0..2 * cluster).unwrap();
        let refused = system.write(holes, 4 * cluster, &vec![5; 4 * cluster as usize]);
        assert!(matches!(refused, Err(Error::NoSpace)), "{volume:?}: {refused:?}");
        let change = Change { size: Some(16 * cluster), ..Change::default() };
        let attributes = system.set_attributes(holes, &change).unwrap();
        let content = || {
            let mut content = vec![1; 16 * cluster as usize];
            assert_eq!(system.read(holes, 0, &mut content).unwrap(), content.len());
            content
        };
        assert!(!content().contains(&5), "{volume:?}: what was refused is there");
        assert_eq!(attributes.allocated, 2 * cluster, "{volume:?}");
        system.write(holes, 4 * cluster, &vec![5; 2 * cluster as usize]).unwrap();
        assert_eq!(content().iter().filter(|&&byte| byte == 5).count() as u64, 2 * cluster);
        system.unmount().unwrap();
        check_clean(&*device).unwrap_or_else(|fault| panic!("{volume:?}: {fault}"));
    }
}

/// On a full volume a write that is refused makes a commit only if that can free as many clusters as are missing.
#[test]
fn writes_that_are_refused_cost_no_commit_each() {
    let recorder = Arc::new(Recorder::new(VOLUMES[0].make()));
    let system = open(recorder.clone());
    let file = |name: &str| system.create(Node::ROOT, &Name::from(name), Kind::File).unwrap();
    let (large, other) = (file("large"), file("other"));
    let (mut at, mut length) = (0, 1 << 20);
    while length > 0 {
        match system.write(large, at, &vec![7; length as usize]) {
            Ok(()) => at += length,
            Err(error) if error.is_full() => length /= 2,
            Err(error) => panic!("{error}"),
        }
    }
    system.sync_all().unwrap();
    let before = recorder.traffic();
    for number in 0..100u8 {
        system.extended_attributes().unwrap().set(other, "user.number", Some(&[number])).unwrap();
        assert!(system.write(other, 0, &[1; 5000]).is_err_and(|error| error.is_full()));
        assert!(system.allocate(other, 0..1 << 20, true).is_err_and(|error| error.is_full()));
    }
    let seen = recorder.traffic().since(&before);
    assert_eq!(seen.write.count, 0, "writes to the device");
    // The punched clusters become free when the write needs them: it makes a commit.
    system.punch(large, 0..1 << 20).unwrap();
    system.write(other, 0, &[1; 5000]).unwrap();
    system.unmount().unwrap();
}

/// A write far behind the end, for which there is no room, leaves clusters that were allocated behind the end as they
/// are: they go when the file gets integrity, since runs without checksums may not stay.
#[test]
fn a_file_with_clusters_behind_its_end_gets_integrity_after_a_refused_write() {
    for volume in VOLUMES.into_iter().filter(|volume| !volume.integrity) {
        let device = volume.make();
        let system = open(device.clone());
        let cluster = volume.cluster;
        let file = |name: &str| system.create(Node::ROOT, &Name::from(name), Kind::File).unwrap();
        let (ahead, large) = (file("ahead"), file("large"));
        system.write(ahead, 0, &vec![7; cluster as usize]).unwrap();
        system.allocate(ahead, 30 * cluster..31 * cluster, true).unwrap();
        let mut at = 0;
        while system.write(large, at, &vec![8; cluster as usize]).is_ok() {
            at += cluster;
        }
        let refused = system.write(ahead, 50 * cluster, &vec![9; cluster as usize]);
        assert!(matches!(refused, Err(Error::NoSpace)), "{volume:?}: {refused:?}");
        system.unlink(Node::ROOT, &Name::from("large")).unwrap();
        system.forget(large, 1);
        system.sync_all().unwrap();
        system.integrity().unwrap().set(ahead, Integrity { enabled: true, enforced: true }).unwrap();
        system.set_attributes(ahead, &Change { size: Some(40 * cluster), ..Change::default() }).unwrap();
        let mut content = vec![1; 40 * cluster as usize];
        assert_eq!(system.read(ahead, 0, &mut content).unwrap(), content.len(), "{volume:?}");
        assert!(content[cluster as usize..].iter().all(|byte| *byte == 0), "{volume:?}");
        system.unmount().unwrap();
        check_clean(&*device).unwrap_or_else(|fault| panic!("{volume:?}: {fault}"));
    }
}
