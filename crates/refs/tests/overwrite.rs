//! Tests of overwriting and appending: how many writes of the device they cost, that they leak no space, and that
//! scattered files are defragmented.

use crate::common::{VOLUMES, check_clean, content, open};
use platter_device::{Device, MemoryDevice, Recorder, Sectors};
use platter_refs::RefsVolume;
use platter_testing::model::Random;
use platter_vfs::{FileSystem, Kind, Name, Names, Node, SyncScope};
use std::sync::Arc;

/// A file that takes half of the free space is overwritten at random until ten times its size was written; nothing is
/// lost and no space leaks.
#[test]
fn overwriting_never_runs_out_of_space() {
    for volume in VOLUMES.into_iter().filter(|volume| volume.integrity) {
        let system = open(volume.make());
        let space = system.space().unwrap();
        let size = space.free / 2 * space.cluster;
        let node = system.create(Node::ROOT, &Name::from("file"), Kind::File).unwrap();
        let piece = vec![7; 1 << 20];
        for at in (0..size >> 20).map(|at| at << 20) {
            system.write(node, at, &piece).unwrap();
        }
        system.sync_all().unwrap();
        let free = system.space().unwrap().free;
        let clusters = (size >> 20 << 20) / space.cluster;
        let mut random = Random::new(8664);
        for step in 0..10 * clusters {
            let at = random.below(clusters);
            let content = vec![step as u8; space.cluster as usize];
            if let Err(error) = system.write(node, at * space.cluster, &content) {
                panic!("{volume:?}, step {step}: {error}; {:?}", system.space());
            }
        }
        system.sync_all().unwrap();
        let now = system.space().unwrap().free;
        assert!(now + 200 >= free, "{volume:?}: {free} clusters were free, now {now}");
    }
}

/// Opens a volume on a device whose transfers are counted, and makes a file in it.
fn recorded(device: Arc<dyn Device>) -> (Arc<Recorder>, RefsVolume, Node) {
    let recorder = Arc::new(Recorder::new(device));
    let system = open(recorder.clone());
    let node = system.create(Node::ROOT, &Name::from("file"), Kind::File).unwrap();
    (recorder, system, node)
}

/// Overwriting bytes in place costs one to three writes of the device, and the sync after it one flush: nothing has to
/// be committed, however many bytes are written and however large the cluster is.
#[test]
fn a_few_bytes_are_overwritten_in_place() {
    for volume in VOLUMES.into_iter().filter(|volume| !volume.integrity) {
        let (recorder, system, node) = recorded(volume.make());
        let mut expected = content(1, 1 << 20);
        system.write(node, 0, &expected).unwrap();
        system.sync_all().unwrap();
        for (round, (offset, length)) in
            [(0, 512), (4096, 4096), (100_000, 100), (196_608, 32_768), (65_000, 1_000)]
                .into_iter()
                .enumerate()
        {
            let bytes = content(round as u64, length);
            let before = recorder.traffic();
            system.write(node, offset, &bytes).unwrap();
            system.sync(node, SyncScope::Data).unwrap();
            let seen = recorder.traffic().since(&before);
            // A write over several clusters that begins or ends inside a cluster is done in up to three pieces, any
            // other in one.
            let is_whole = (offset | length as u64).is_multiple_of(volume.cluster);
            let is_inside = offset / volume.cluster == (offset + length as u64 - 1) / volume.cluster;
            let pieces = if is_whole || is_inside { 1 } else { 3 };
            let writes = seen.write.count;
            assert!(writes <= pieces, "{volume:?}: {writes} writes of {length} bytes");
            assert_eq!(seen.flushes, 1, "{volume:?}");
            expected[offset as usize..][..length].copy_from_slice(&bytes);
        }
        let mut found = vec![0; expected.len()];
        system.read(node, 0, &mut found).unwrap();
        assert!(found == expected, "{volume:?}");
        system.unmount().unwrap();
        check_clean(&*recorder).unwrap();
    }
}

/// Without integrity, a write to a small file writes no more sectors than the file has, however large the cluster is.
#[test]
fn the_rest_of_a_cluster_is_not_written() {
    for volume in VOLUMES.into_iter().filter(|volume| !volume.integrity) {
        let (recorder, system, node) = recorded(volume.make());
        let before = recorder.traffic();
        system.write(node, 0, &content(1, 5_000)).unwrap();
        let written = recorder.traffic().since(&before).write.bytes;
        assert!((5_000..=8_192).contains(&written), "{volume:?}: {written} bytes");
    }
}

/// Appending a few bytes to a file and syncing them costs a write of the data, a write of an entry of the log of syncs,
/// a flush after each of the two, and no commit. The bytes are there when the volume is opened after a power cut.
#[test]
fn a_few_bytes_are_appended_without_a_commit() {
    for volume in VOLUMES {
        let device = volume.make();
        let (recorder, system, node) = recorded(device.clone());
        // These two synced writes move the content from the record to clusters, and make the log. The rounds below
        // would cost more if they had to do this.
        let mut expected = content(1, 10_000);
        for at in [0, 5_000] {
            system.write(node, at, &expected[at as usize..][..5_000]).unwrap();
            system.sync(node, SyncScope::Data).unwrap();
        }
        for round in 0..100 {
            let bytes = content(round, 100);
            let before = recorder.traffic();
            system.write(node, expected.len() as u64, &bytes).unwrap();
            system.sync(node, SyncScope::Data).unwrap();
            let seen = recorder.traffic().since(&before);
            let last = (expected.len() as u64 + 99) / volume.cluster;
            let pieces = 1 + last - expected.len() as u64 / volume.cluster;
            assert!(seen.write.count <= pieces + 1, "{volume:?}, {round}: {} writes", seen.write.count);
            assert!(seen.flushes <= 2, "{volume:?}, {round}: {} flushes", seen.flushes);
            expected.extend(bytes);
        }
        std::mem::forget(system);
        let system = open(device);
        let node = system.lookup(Node::ROOT, &Name::from("file")).unwrap();
        let mut found = vec![0; expected.len() + 1];
        assert_eq!(system.read(node, 0, &mut found).unwrap(), expected.len(), "{volume:?}");
        assert!(found.starts_with(&expected), "{volume:?}");
    }
}

/// A file that was overwritten at random on a nearly full volume is defragmented while nobody uses it: its content
/// stays, no space leaks, and in the end it has few extents.
#[test]
fn scattered_files_are_put_together() {
    let volume = VOLUMES[1];
    let device = volume.make();
    let system = open(device.clone());
    let space = system.space().unwrap();
    let clusters = space.free / 10 * 9;
    let node = system.create(Node::ROOT, &Name::from("file"), Kind::File).unwrap();
    let content = |at: u64, round: u64| vec![(at * 7 + round) as u8; space.cluster as usize];
    let mut rounds = vec![0u64; clusters as usize];
    for at in 0..clusters {
        system.write(node, at * space.cluster, &content(at, 0)).unwrap();
    }
    system.sync_all().unwrap();
    let free = system.space().unwrap().free;
    let mut random = Random::new(8664);
    for round in 1..=clusters {
        let at = random.below(clusters);
        rounds[at as usize] = round;
        system.write(node, at * space.cluster, &content(at, round)).unwrap();
    }
    let parts = || system.extents(node).unwrap().len() as u64;
    let before = parts();
    let most = clusters * space.cluster / (1 << 20) * 17;
    let started = std::time::Instant::now();
    while parts() > most {
        assert!(started.elapsed().as_secs() < 120, "{before} parts, still {} and not {most}", parts());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(before > 4 * most, "{before} parts are not scattered");
    system.unmount().unwrap();
    drop(system);
    let system = open(device.clone());
    let node = system.lookup(Node::ROOT, &Name::from("file")).unwrap();
    let mut found = vec![0; space.cluster as usize];
    for at in 0..clusters {
        system.read(node, at * space.cluster, &mut found).unwrap();
        assert!(found == content(at, rounds[at as usize]), "cluster {at}");
    }
    let now = system.space().unwrap().free;
    assert!(now + 200 >= free, "{free} clusters were free, now {now}");
    system.unmount().unwrap();
    check_clean(&*device).unwrap();
}

/// A file is overwritten at random, and synced every few writes: pages of runs are changed again and again without
/// being built anew, and hold the right runs.
#[test]
fn synced_overwriting_leaves_a_clean_volume() {
    for volume in VOLUMES.into_iter().filter(|volume| volume.integrity) {
        let device = volume.make();
        let system = open(device.clone());
        let node = system.create(Node::ROOT, &Name::from("file"), Kind::File).unwrap();
        let clusters = (96 << 20) / volume.cluster;
        let content = |at: u64, round: u64| vec![(at * 7 + round) as u8; volume.cluster as usize];
        for at in 0..clusters {
            system.write(node, at * volume.cluster, &content(at, 0)).unwrap();
        }
        system.sync_all().unwrap();
        // The first sync after which only file content is new makes the log.
        system.write(node, 0, &content(0, 0)).unwrap();
        system.sync_all().unwrap();
        let free = system.space().unwrap().free;
        let mut rounds = vec![0u64; clusters as usize];
        let mut random = Random::new(8664);
        for round in 1..=100 {
            for _ in 0..1 + random.below(40) {
                let at = random.below(clusters);
                rounds[at as usize] = round;
                system.write(node, at * volume.cluster, &content(at, round)).unwrap();
            }
            system.sync(node, SyncScope::Data).unwrap();
        }
        assert_eq!(system.space().unwrap().free, free, "{volume:?}");
        // The volume is left without an unmount, as by a power cut.
        drop(system);
        check_clean(&*device).unwrap_or_else(|found| panic!("{volume:?}: {found}"));
        let system = open(device.clone());
        let node = system.lookup(Node::ROOT, &Name::from("file")).unwrap();
        let mut found = vec![0; volume.cluster as usize];
        for at in 0..clusters {
            system.read(node, at * volume.cluster, &mut found).unwrap();
            assert!(found == content(at, rounds[at as usize]), "{volume:?}: cluster {at}");
        }
    }
}

/// What was overwritten waits for commits in the background, and each takes as much with it as may wait: none follows another
/// for the little that came meanwhile.
#[test]
fn commits_in_the_background_take_much_with_them() {
    /// 64 MiB of old clusters may wait on a volume as small as this.
    const WAITING: u64 = (64 << 20) / 4096;
    let volume = VOLUMES[1];
    assert!(volume.integrity && volume.cluster == 4096);
    let device = Arc::new(MemoryDevice::new(1 << 30, Sectors::SMALL));
    volume.make_on(&*device);
    let (recorder, system, node) = recorded(device);
    let clusters = (32 << 20) / 4096;
    system.write(node, 0, &vec![7; clusters * 4096]).unwrap();
    system.sync_all().unwrap();
    let before = recorder.traffic();
    let mut random = Random::new(8664);
    let writes = 8 * WAITING;
    for _ in 0..writes {
        system.write(node, random.below(clusters as u64) * 4096, &[3; 4096]).unwrap();
    }
    let flushes = recorder.traffic().since(&before).flushes;
    assert!(flushes <= 2 * writes / WAITING, "{flushes} flushes");
    // How many come depends on when the thread in the background runs.
    assert!(flushes >= 2, "{flushes} flushes: nothing was to be seen");
    system.unmount().unwrap();
    check_clean(&*recorder).unwrap();
}
