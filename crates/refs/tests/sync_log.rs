//! Syncs that write an entry of a log instead of a commit. The changes that they made durable are there whenever the
//! power fails, and a clean unmount removes the log.

use crate::common::{self, V3_14, VOLUMES, Volume, check_clean, open};
use crate::damaged::{Of, Surgeon};
use platter_device::{
    Buffer, Device, Error, Faults, Grain, MemoryDevice, Mirror, Recorder, Sectors, Survivors,
};
use platter_refs::{Refs, RefsVolume};
use platter_testing::model::{Random, seed};
use platter_vfs::{
    CheckOptions, FileSystem, Format, FormatOptions, Integrity, Kind, Name, Names, Node, OpenOptions, Plan,
    RenameFlags, Silent, SyncScope, Transfers,
};
use std::sync::Arc;

/// The number of clusters of each file at first. Of these, the second file has holes in place of every other.
const CLUSTERS: u64 = 64;
/// The number of clusters that the log takes while a volume is in use.
const LOG: u64 = 192;
const FILES: [&str; 2] = ["with integrity", "without"];

/// Returns the content of cluster `at` of a file, as it is written in a round; zeroes for round 0, before the first
/// write.
fn content(cluster: u64, file: usize, at: u64, round: u64) -> Vec<u8> {
    let words = (0..cluster / 8)
        .map(|word| if round == 0 { 0 } else { word << 40 | at << 24 | round << 8 | file as u64 });
    words.flat_map(u64::to_le_bytes).collect()
}

/// For each file, the round in which each of its clusters was last written.
type Rounds = [Vec<u64>; 2];

/// The state of the files when a sync had made it durable.
struct Moment {
    /// The number of writes that the device had seen by then.
    writes: usize,
    /// The least round that each cluster must have from then on.
    durable: Rounds,
    /// How often the third file had been renamed.
    renamed: u64,
}

struct Run {
    volume: Volume,
    faults: Arc<Faults>,
    moments: Vec<Moment>,
    latest: Rounds,
    /// The number of syncs that went to the device beside their writes.
    beside: u64,
}

/// Writes that are planned and not finished, and the sync that is planned for them.
struct Beside<'a> {
    system: &'a RefsVolume,
    writes: Vec<(Plan, Buffer)>,
    sync: Plan,
    entry: Buffer,
}

impl<'a> Beside<'a> {
    /// Plans writes to these clusters, and a sync for them. If no sync can be planned, this carries the writes out,
    /// syncs, and returns `None`.
    fn plan(system: &'a RefsVolume, node: Node, writes: Vec<(u64, Vec<u8>)>) -> Option<Beside<'a>> {
        let planned = writes.into_iter().map(|(at, content)| plan(system, node, at, &content));
        let mut beside =
            Beside { system, writes: planned.collect(), sync: Plan::default(), entry: Buffer::new(0) };
        let mut plans = beside.writes.iter_mut().map(|(plan, _)| plan);
        if system.plan_sync(&mut plans, &mut beside.sync, &mut beside.entry).unwrap() {
            return Some(beside);
        }
        for index in 0..beside.writes.len() {
            beside.carry_out(index);
            beside.finish(index);
        }
        system.sync(node, SyncScope::Data).unwrap();
        None
    }

    /// Carries out the planned write with this index; the index after the last write is that of the sync.
    fn carry_out(&self, index: usize) {
        let (plan, content) =
            self.writes.get(index).map_or((&self.sync, &self.entry), |(plan, data)| (plan, data));
        carry_out(self.system, plan, content);
    }

    fn finish(&mut self, index: usize) {
        let (plan, data) = &mut self.writes[index];
        self.system.finish_write(plan, data, Ok(())).unwrap();
    }

    fn fail(&mut self, index: usize) {
        let (plan, data) = &mut self.writes[index];
        let failed = Error::Unusable { device: "a test's".into(), reason: "it fails".into() };
        self.system.finish_write(plan, data, Err(failed)).unwrap_err();
    }

    fn end(mut self) {
        self.system.finish_sync(&mut self.sync, Ok(())).unwrap();
    }
}

fn plan(system: &RefsVolume, node: Node, at: u64, content: &[u8]) -> (Plan, Buffer) {
    let (mut plan, data) = (Plan::default(), Buffer::from(content));
    system.plan_write(node, at * content.len() as u64, &data, &mut plan).unwrap();
    system.work_beside(&mut plan, 0, &data);
    (plan, data)
}

fn carry_out(system: &RefsVolume, plan: &Plan, data: &[u8]) {
    for segment in &plan.segments {
        let part = &data[segment.at as usize..][..segment.length as usize];
        system.device().write_at(segment.offset, part).unwrap();
    }
}

impl Run {
    /// Overwrites and extends two files at random, mostly with a sync afterwards, and now and then renames a third.
    fn new(volume: Volume, seed: u64, rounds: u64) -> Run {
        let faults = Arc::new(Faults::recording(volume.make(), seed, Grain::Logical));
        let system = open(faults.clone());
        let cluster = volume.cluster;
        let nodes = [0, 1].map(|file| {
            let node = system.create(Node::ROOT, &FILES[file].into(), Kind::File).unwrap();
            system.integrity().unwrap().set(node, Integrity { enabled: file == 0, enforced: true }).unwrap();
            node
        });
        system.create(Node::ROOT, &"other 0".into(), Kind::File).unwrap();
        let mut latest: Rounds = [vec![0; CLUSTERS as usize], vec![0; CLUSTERS as usize]];
        for (file, node) in nodes.into_iter().enumerate() {
            for at in (0..CLUSTERS).filter(|at| file == 0 || at % 2 == 0 || at + 1 == CLUSTERS) {
                system.write(node, at * cluster, &content(cluster, file, at, 1)).unwrap();
                latest[file][at as usize] = 1;
            }
        }
        system.sync_all().unwrap();
        let (mut random, mut renamed) = (Random::new(seed), 0);
        let mut moments = vec![Moment { writes: faults.log().writes(), durable: latest.clone(), renamed }];
        let mut beside = 0;
        for round in 2..2 + rounds {
            if random.chance(30) {
                let mut places: Vec<u64> = (0..1 + random.below(6)).map(|_| random.below(CLUSTERS)).collect();
                let writes = places.iter().map(|&at| (at, content(cluster, 0, at, round))).collect();
                let planned = Beside::plan(&system, nodes[0], writes);
                beside += u64::from(planned.is_some());
                // If no sync could be planned, everything has been synced.
                let mut durable = match &planned {
                    Some(_) => moments.last().expect("the first").durable.clone(),
                    None => latest.clone(),
                };
                places.iter().for_each(|&at| latest[0][at as usize] = round);
                places.drain(..).for_each(|at| durable[0][at as usize] = round);
                if let Some(mut planned) = planned {
                    // The writes and the entry are in flight together, so they may arrive in any order.
                    let mut order: Vec<usize> = (0..=planned.writes.len()).collect();
                    (1..order.len()).for_each(|at| order.swap(at, random.below(at as u64 + 1) as usize));
                    let (first, rest) = order.split_at(random.below(order.len() as u64) as usize);
                    for part in [first, rest] {
                        part.iter().for_each(|&index| planned.carry_out(index));
                        faults.flush().unwrap();
                        let writes = planned.writes.len();
                        part.iter().filter(|&&index| index < writes).for_each(|&index| planned.finish(index));
                    }
                    planned.end();
                }
                moments.push(Moment { writes: faults.log().writes(), durable, renamed });
                continue;
            }
            for _ in 0..1 + random.below(6) {
                let file = random.below(2) as usize;
                let end = latest[file].len() as u64;
                // Now and then the write is at the end of the file, and extends it.
                let at = if random.chance(10) { end } else { random.below(end) };
                system.write(nodes[file], at * cluster, &content(cluster, file, at, round)).unwrap();
                match latest[file].get_mut(at as usize) {
                    Some(known) => *known = round,
                    None => latest[file].push(round),
                }
            }
            if random.chance(5) {
                let names = [renamed, renamed + 1].map(|number| Name::from(&*format!("other {number}")));
                let [old, new] = &names;
                system.rename(Node::ROOT, old, Node::ROOT, new, RenameFlags::default()).unwrap();
                renamed += 1;
            }
            if random.chance(80) {
                let scope = if random.chance(50) { SyncScope::All } else { SyncScope::Data };
                system.sync(nodes[random.below(2) as usize], scope).unwrap();
                moments.push(Moment { writes: faults.log().writes(), durable: latest.clone(), renamed });
            }
        }
        Run { volume, faults, moments, latest, beside }
    }

    /// Checks the volume that a power cut at write `k` leaves.
    fn judge(&self, k: usize, survivors: Survivors) {
        let what = format!("{:?}: cut at write {k}, {survivors:?}", self.volume);
        let device: Arc<dyn Device> = Arc::new(self.faults.log().cut(k, survivors));
        check_clean(&*device).unwrap_or_else(|fault| panic!("{what}: {fault}"));
        let moment = self.moments.iter().rev().find(|moment| moment.writes <= k).expect("the first");
        // A volume that is opened read-only has the same content.
        let only_read = OpenOptions { read_only: true, ..OpenOptions::default() };
        let system = RefsVolume::open(device.clone(), only_read).unwrap();
        self.compare(&format!("{what}, only read"), &system, moment);
        drop(system);
        let system = open(device.clone());
        self.compare(&what, &system, moment);
        system.unmount().unwrap();
        drop(system);
        check_clean(&*device).unwrap_or_else(|fault| panic!("{what}, unmounted: {fault}"));
        self.compare(&format!("{what}, opened again"), &open(device), moment);
    }

    fn compare(&self, what: &str, system: &RefsVolume, moment: &Moment) {
        let cluster = self.volume.cluster;
        for (file, name) in FILES.into_iter().enumerate() {
            let node = system.lookup(Node::ROOT, &name.into()).unwrap();
            let size = system.attributes(node).unwrap().size;
            let least = moment.durable[file].len() as u64 * cluster;
            let most = self.latest[file].len() as u64 * cluster;
            assert!((least..=most).contains(&size), "{what}: {name} has {size} bytes, not {least} to {most}");
            let mut found = vec![0; cluster as usize];
            for at in 0..size / cluster {
                let read = system.read(node, at * cluster, &mut found);
                read.unwrap_or_else(|error| panic!("{what}: cluster {at} of {name}: {error}"));
                let durable = moment.durable[file].get(at as usize).copied().unwrap_or(0);
                let round = u64::from_le_bytes(found[..8].try_into().unwrap()) >> 8 & 0xFFFF;
                let is_torn = file == 1 && found != content(cluster, file, at, round);
                assert!(
                    is_torn || round >= durable && found == content(cluster, file, at, round),
                    "{what}: cluster {at} of {name}: expected of round {durable} or later, found {round}"
                );
            }
        }
        let is_there = |number| system.lookup(Node::ROOT, &Name::from(&*format!("other {number}"))).is_ok();
        let renamed = (0..100_000).find(|&number| is_there(number)).expect("the third file");
        assert!(renamed >= moment.renamed, "{what}: renamed {renamed} times, not {}", moment.renamed);
    }
}

/// Cuts the power at each `step`-th write of a run. Returns the number of cuts.
fn cuts(volume: Volume, seed: u64, rounds: u64, step: usize) -> usize {
    let run = Run::new(volume, seed, rounds);
    assert!(run.beside * 10 > rounds, "{} of {rounds} syncs went beside their writes", run.beside);
    let mut random = Random::new(seed);
    let (first, all) = (run.moments[0].writes, run.faults.log().writes());
    let places: Vec<usize> = (first..=all).step_by(step).collect();
    for &k in &places {
        for survivors in [Survivors::None, Survivors::All, Survivors::Random(random.number())] {
            run.judge(k, survivors);
        }
    }
    3 * places.len()
}

#[test]
fn what_an_entry_tells_survives_a_power_cut() {
    for (volume, step) in [(VOLUMES[0], 3), (VOLUMES[3], 9), (VOLUMES[5], 3)] {
        let cuts = cuts(volume, 8664, 60, step);
        assert!(cuts > 60, "{volume:?}: {cuts} cuts");
    }
}

/// 600 rounds, cut at every write: `cargo test --release -p platterfs-refs --test suite sync_log:: -- --ignored
/// --nocapture`, with `PLATTER_SEED=n` for other seeds.
#[test]
#[ignore = "a campaign: takes many minutes"]
fn what_entries_tell_survives_a_power_cut_at_every_write() {
    for volume in [VOLUMES[0], VOLUMES[1], VOLUMES[3], VOLUMES[5]] {
        println!("{volume:?}: {} cuts", cuts(volume, seed(), 600, 1));
    }
}

/// Returns a volume with a file whose content was synced `rounds` times, so that the volume has a log.
fn synced(device: &Arc<dyn Device>, rounds: u64) -> RefsVolume {
    let system = open(device.clone());
    let node = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
    system.write(node, 0, &content(4096, 0, 0, 1)).unwrap();
    system.sync_all().unwrap();
    for round in 2..2 + rounds {
        system.write(node, 0, &content(4096, 0, 0, round)).unwrap();
        system.sync(node, SyncScope::All).unwrap();
    }
    system
}

fn round_of(system: &RefsVolume) -> u64 {
    let node = system.lookup(Node::ROOT, &"file".into()).unwrap();
    let mut found = vec![0; 4096];
    system.read(node, 0, &mut found).unwrap();
    u64::from_le_bytes(found[..8].try_into().unwrap()) >> 8 & 0xFFFF
}

#[test]
fn a_full_log_begins_again_after_a_commit() {
    let device: Arc<dyn Device> = VOLUMES[1].make();
    // There are more entries than fit: each takes 4 KiB of the log's 768 KiB.
    drop(synced(&device, 500));
    assert_eq!(round_of(&open(device)), 501);
}

#[test]
fn the_log_is_hidden_and_gives_its_place_back() {
    let device: Arc<dyn Device> = VOLUMES[1].make();
    let system = synced(&device, 3);
    let free = system.space().unwrap().free;
    let mut entries = Vec::new();
    system.read_directory(Node::ROOT, platter_vfs::Cursor::START, 100, &mut entries).unwrap();
    assert_eq!(entries.len(), 1);
    system.unmount().unwrap();
    drop(system);
    let system = open(device);
    let node = system.lookup(Node::ROOT, &"file".into()).unwrap();
    system.write(node, 0, &content(4096, 0, 0, 9)).unwrap();
    system.sync_all().unwrap();
    system.unmount().unwrap();
    assert_eq!(system.space().unwrap().free, free + LOG);
}

#[test]
fn a_sync_whose_data_is_not_there_is_told_and_not_carried_out() {
    let device = VOLUMES[1].make();
    let shared: Arc<dyn Device> = device.clone();
    let system = synced(&shared, 3);
    let node = system.lookup(Node::ROOT, &"file".into()).unwrap();
    let platter_vfs::Place::Device(place) = system.extents(node).unwrap()[0].place else {
        panic!("it is on the device")
    };
    drop(system);
    shared.write_at(place, &[0xEE; 4096]).unwrap();
    let system = open(shared.clone());
    assert_eq!(system.notes().len(), 1, "{:?}", system.notes());
    assert_eq!(round_of(&system), 3);
    system.unmount().unwrap();
    check_clean(&*shared).unwrap();
}

/// Damages the first superblock, whose repair does not concern the clusters in use.
fn damaged_superblock(device: &dyn Device) {
    let sector = device.sectors().logical as usize;
    let place = 0x1E * 4096;
    let mut bytes = vec![0; sector];
    device.read_at(place, &mut bytes).unwrap();
    bytes[0x50] ^= 1;
    device.write_at(place, &bytes).unwrap();
}

#[test]
fn a_repair_carries_the_log_out_first() {
    let device: Arc<dyn Device> = VOLUMES[1].make();
    drop(synced(&device, 3));
    damaged_superblock(&*device);
    let options = CheckOptions { repair: true };
    let report = Refs::ANY.check(&*device, options, &Silent).unwrap();
    assert!(report.found > 0 && report.findings.iter().all(|finding| finding.repaired), "{report:#?}");
    check_clean(&*device).unwrap();
    assert_eq!(round_of(&open(device)), 4);
}

#[test]
fn of_a_mirror_any_copy_of_the_log_will_do() {
    let copies: [Arc<dyn Device>; 2] =
        [0, 1].map(|_| -> Arc<dyn Device> { Arc::new(MemoryDevice::new(common::BYTES, Sectors::SMALL)) });
    let mirror = || -> Arc<dyn Device> { Arc::new(Mirror::new(copies.to_vec()).unwrap()) };
    Refs::INTEGRITY.make(&*mirror(), &FormatOptions::default(), &Silent).unwrap();
    drop(synced(&mirror(), 3));
    let magic = b"PLTRSYNC";
    for (number, copy) in copies.iter().enumerate() {
        let mut bytes = vec![0; 1 << 20];
        for offset in (0..copy.len()).step_by(bytes.len()) {
            copy.read_at(offset, &mut bytes).unwrap();
            if let Some(at) = bytes.chunks_exact(4096).position(|block| block.starts_with(magic)) {
                let place = offset + 4096 * at as u64;
                copy.write_at(place, &[0; 4096]).unwrap();
                break;
            }
        }
        // The second copy has the entry that the first one lost. Without both, only the last commit is there.
        assert_eq!(round_of(&open(mirror())), if number == 0 { 4 } else { 2 });
    }
}

/// Returns a volume that has a log and no unsynced changes, and a file with integrity of so many clusters, all written
/// in round 1.
fn ready(device: &Arc<dyn Device>, clusters: u64) -> (RefsVolume, Node) {
    let system = open(device.clone());
    let node = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
    let data: Vec<u8> = (0..clusters).flat_map(|at| content(4096, 0, at, 1)).collect();
    system.write(node, 0, &data).unwrap();
    system.sync_all().unwrap();
    // The first sync of content makes the log.
    system.write(node, 0, &content(4096, 0, 0, 1)).unwrap();
    system.sync_all().unwrap();
    (system, node)
}

/// Returns the round in which each of the file's first clusters was written.
fn rounds_of(system: &RefsVolume, clusters: u64) -> Vec<u64> {
    let node = system.lookup(Node::ROOT, &"file".into()).unwrap();
    let mut found = vec![0; 4096];
    let mut round = |at| {
        system.read(node, at * 4096, &mut found).unwrap();
        let round = u64::from_le_bytes(found[..8].try_into().unwrap()) >> 8 & 0xFFFF;
        assert_eq!(found, content(4096, 0, at, round), "cluster {at}");
        round
    };
    (0..clusters).map(&mut round).collect()
}

fn of_round(round: u64, places: &[u64]) -> Vec<(u64, Vec<u8>)> {
    places.iter().map(|&at| (at, content(4096, 0, at, round))).collect()
}

#[test]
fn writes_of_the_same_cluster_have_no_sync_beside_them() {
    let device: Arc<dyn Device> = VOLUMES[1].make();
    let (system, node) = ready(&device, 4);
    assert!(Beside::plan(&system, node, of_round(2, &[1, 3, 1])).is_none());
    drop(system);
    assert_eq!(rounds_of(&open(device), 4), [1, 2, 1, 2]);
}

/// The write that is finished last counts, even if its entry of the log was planned before the other write was
/// finished.
#[test]
fn a_write_that_another_one_overtook_is_told_of_again() {
    let device: Arc<dyn Device> = VOLUMES[1].make();
    let (system, node) = ready(&device, 4);
    let mut beside = Beside::plan(&system, node, of_round(2, &[1, 2])).unwrap();
    let (mut other, data) = plan(&system, node, 1, &content(4096, 0, 1, 3));
    [0, 1, 2].into_iter().for_each(|index| beside.carry_out(index));
    carry_out(&system, &other, &data);
    system.finish_write(&mut other, &data, Ok(())).unwrap();
    beside.finish(0);
    beside.finish(1);
    beside.end();
    system.sync(node, SyncScope::Data).unwrap();
    assert_eq!(rounds_of(&system, 4), [1, 2, 2, 1]);
    drop(system);
    assert_eq!(rounds_of(&open(device), 4), [1, 2, 2, 1]);
}

#[test]
fn a_commit_between_makes_a_planned_sync_void_and_loses_nothing() {
    let device: Arc<dyn Device> = VOLUMES[1].make();
    let (system, node) = ready(&device, 4);
    let mut beside = Beside::plan(&system, node, of_round(2, &[1, 2])).unwrap();
    beside.carry_out(0);
    beside.finish(0);
    // A sync by the thread that planned the other one does not wait for that for ever: it commits the write that is
    // finished.
    system.sync(node, SyncScope::Data).unwrap();
    assert_eq!(rounds_of(&open(device.clone()), 4), [1, 2, 1, 1]);
    beside.carry_out(1);
    beside.carry_out(2);
    beside.finish(1);
    beside.end();
    drop(system);
    let system = open(device.clone());
    assert_eq!(rounds_of(&system, 4), [1, 2, 2, 1]);
    system.unmount().unwrap();
    check_clean(&*device).unwrap();
}

#[test]
fn of_writes_with_a_planned_sync_one_may_fail() {
    let device: Arc<dyn Device> = VOLUMES[1].make();
    let (system, node) = ready(&device, 4);
    let free = system.space().unwrap().free;
    let mut beside = Beside::plan(&system, node, of_round(2, &[0, 1, 2])).unwrap();
    [0, 2, 3].into_iter().for_each(|index| beside.carry_out(index));
    beside.finish(0);
    beside.fail(1);
    beside.finish(2);
    beside.end();
    assert_eq!(rounds_of(&system, 4), [2, 1, 2, 1]);
    assert!(Beside::plan(&system, node, of_round(3, &[3])).is_some_and(|mut beside| {
        beside.carry_out(0);
        beside.carry_out(1);
        beside.finish(0);
        beside.end();
        true
    }));
    drop(system);
    let system = open(device.clone());
    assert_eq!(rounds_of(&system, 4), [2, 1, 2, 3]);
    system.unmount().unwrap();
    assert_eq!(system.space().unwrap().free, free + LOG);
    check_clean(&*device).unwrap();
}

/// A sync waits for a planned sync whose entry is in flight. If that does not end in time, it commits instead.
#[test]
fn a_sync_waits_for_a_planned_one_but_not_for_ever() {
    let device: Arc<dyn Device> = VOLUMES[1].make();
    let (system, node) = ready(&device, 4);
    let mut beside = Beside::plan(&system, node, of_round(2, &[1])).unwrap();
    beside.carry_out(0);
    beside.finish(0);
    // The caller that planned the first sync may be the one that makes this call, or may wait for it.
    system.sync(node, SyncScope::Data).unwrap();
    assert_eq!(
        rounds_of(&open(Arc::new(platter_device::OverlayDevice::new(device.clone()))), 4),
        [1, 2, 1, 1]
    );
    // The entry of the planned sync is void by now, but its write is durable by the commit.
    beside.carry_out(1);
    beside.end();
    drop(system);
    assert_eq!(rounds_of(&open(device), 4), [1, 2, 1, 1]);
}

#[test]
fn a_sync_ends_only_after_its_writes() {
    let device: Arc<dyn Device> = VOLUMES[1].make();
    let (system, node) = ready(&device, 4);
    let mut beside = Beside::plan(&system, node, of_round(2, &[1])).unwrap();
    beside.carry_out(1);
    system.finish_sync(&mut beside.sync, Ok(())).unwrap_err();
    beside.carry_out(0);
    beside.finish(0);
    beside.end();
    // Nor can a sync be finished that was not planned.
    system.finish_sync(&mut Plan::default(), Ok(())).unwrap_err();
}

/// An entry is carried out on the last commit, so none can be made while there are changes that neither the commit nor
/// entries hold.
#[test]
fn where_something_else_is_new_there_is_no_sync_beside() {
    let device: Arc<dyn Device> = VOLUMES[1].make();
    let (system, node) = ready(&device, 4);
    let (old, new): (Name, Name) = ("file".into(), "renamed".into());
    system.rename(Node::ROOT, &old, Node::ROOT, &new, RenameFlags::default()).unwrap();
    assert!(Beside::plan(&system, node, of_round(2, &[1])).is_none());
    system.rename(Node::ROOT, &new, Node::ROOT, &old, RenameFlags::default()).unwrap();
    system.sync_all().unwrap();
    drop(system);
    let system = open(device);
    assert_eq!(rounds_of(&system, 4), [1, 2, 1, 1]);
    assert!(system.notes().is_empty(), "{:?}", system.notes());
}

/// An entry holds the checksums of its writes, so none can be made before they are computed.
#[test]
fn where_the_work_beside_a_write_is_not_done_there_is_no_sync() {
    let device: Arc<dyn Device> = VOLUMES[1].make();
    let (system, node) = ready(&device, 64);
    let data = Buffer::from(
        &of_round(2, &(0..32).collect::<Vec<_>>()).into_iter().flat_map(|(_, data)| data).collect::<Vec<_>>()
            [..],
    );
    let (mut write, mut sync, mut entry) = (Plan::default(), Plan::default(), Buffer::new(0));
    system.plan_write(node, 0, &data, &mut write).unwrap();
    let mut plan_sync =
        |write: &mut Plan| system.plan_sync(&mut std::iter::once(write), &mut sync, &mut entry).unwrap();
    assert!(write.work_beside && !plan_sync(&mut write));
    system.work_beside(&mut write, 0, &data);
    assert!(plan_sync(&mut write));
    carry_out(&system, &write, &data);
    carry_out(&system, &sync, &entry);
    system.finish_write(&mut write, &data, Ok(())).unwrap();
    system.finish_sync(&mut sync, Ok(())).unwrap();
    drop(system);
    let rounds = rounds_of(&open(device), 64);
    assert!(rounds[..32].iter().all(|&round| round == 2) && rounds[32..].iter().all(|&round| round == 1));
}

/// Overwrites and syncs a file that this thread has to itself. Returns the least round that each cluster must have
/// afterwards.
fn overwrite_and_sync(system: &RefsVolume, number: u64) -> Vec<u64> {
    let mut random = Random::new(number);
    let node = system.lookup(Node::ROOT, &Name::from(&*format!("file {number}"))).unwrap();
    let (mut latest, mut durable) = (vec![1; 16], vec![1; 16]);
    let mut renamed = 0;
    for round in 2..200 {
        let places: Vec<u64> = (0..1 + random.below(3)).map(|_| random.below(16)).collect();
        let writes = of_round(round, &places);
        places.iter().for_each(|&at| latest[at as usize] = round);
        match random.below(10) {
            0 => {
                let [old, new] = [renamed, renamed + 1].map(|n| Name::from(&*format!("other {number} {n}")));
                system.rename(Node::ROOT, &old, Node::ROOT, &new, RenameFlags::default()).unwrap();
                renamed += 1;
                latest.clone_from(&durable);
            }
            1..4 => {
                for (at, data) in writes {
                    system.write(node, at * 4096, &data).unwrap();
                }
                system.sync(node, SyncScope::Data).unwrap();
                durable.clone_from(&latest);
            }
            _ => {
                if let Some(mut beside) = Beside::plan(system, node, writes) {
                    (0..=places.len()).for_each(|index| beside.carry_out(index));
                    (0..places.len()).for_each(|index| beside.finish(index));
                    beside.end();
                }
                durable.clone_from(&latest);
            }
        }
    }
    durable
}

#[test]
fn threads_plan_syncs_and_wait_for_each_other() {
    let device: Arc<dyn Device> = VOLUMES[1].make();
    let system = open(device.clone());
    for number in 0..4 {
        let node = system.create(Node::ROOT, &Name::from(&*format!("file {number}")), Kind::File).unwrap();
        let data: Vec<u8> = (0..16).flat_map(|at| content(4096, 0, at, 1)).collect();
        system.write(node, 0, &data).unwrap();
        system.create(Node::ROOT, &Name::from(&*format!("other {number} 0")), Kind::File).unwrap();
    }
    system.sync_all().unwrap();
    let durable: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let system = &system;
        let threads: Vec<_> =
            (0..4).map(|number| scope.spawn(move || overwrite_and_sync(system, number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    drop(system);
    check_clean(&*device).unwrap();
    let system = open(device);
    assert!(system.notes().is_empty(), "{:?}", system.notes());
    for (number, durable) in durable.iter().enumerate() {
        let node = system.lookup(Node::ROOT, &Name::from(&*format!("file {number}"))).unwrap();
        let mut found = vec![0; 4096];
        for (at, least) in (0..).zip(durable) {
            system.read(node, at * 4096, &mut found).unwrap();
            let round = u64::from_le_bytes(found[..8].try_into().unwrap()) >> 8 & 0xFFFF;
            assert!(
                round >= *least && found == content(4096, 0, at, round),
                "file {number}, cluster {at}: {round}"
            );
        }
    }
}

/// Whether the log is on the volume as of its newest checkpoint, in the directory "FS Metadata".
fn has_log(device: &MemoryDevice) -> bool {
    let name: Vec<u8> = "Platter Sync Log".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut is_there = false;
    Surgeon::new(device).each_row(Of::Object(0x520), &mut |key, _| is_there |= key.ends_with(&name));
    is_there
}

/// Overwrites clusters of a file with integrity, with a sync after each.
fn overwrite(system: &RefsVolume, rounds: u8) -> Node {
    let node = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
    system.integrity().unwrap().set(node, Integrity { enabled: true, enforced: true }).unwrap();
    system.write(node, 0, &[9; 64 << 10]).unwrap();
    system.sync_all().unwrap();
    for round in 0..rounds {
        system.write(node, 4096 * u64::from(round % 16), &[round; 4096]).unwrap();
        system.sync(node, SyncScope::Data).unwrap();
    }
    node
}

/// The log exists while a volume is in use, and a clean unmount removes it, so that nothing is left that other programs
/// do not know. With `commits_syncs` no log is made, and one that a crash left is carried out and removed.
#[test]
fn a_clean_unmount_leaves_nothing_of_the_log() {
    let commits = OpenOptions { commits_syncs: true, ..OpenOptions::default() };
    for volume in [VOLUMES[0], VOLUMES[4]] {
        let device = volume.make();
        let system = open(device.clone());
        overwrite(&system, 20);
        assert!(has_log(&device), "{volume:?}");
        let crashed = Arc::new(MemoryDevice::from_image(&device.to_image(), device.sectors()));
        system.unmount().unwrap();
        assert!(!has_log(&device), "{volume:?}");
        check_clean(&*device).unwrap();

        let system = RefsVolume::open(crashed.clone(), commits).unwrap();
        let node = system.lookup(Node::ROOT, &"file".into()).unwrap();
        let mut first = [0; 4096];
        system.read(node, 0, &mut first).unwrap();
        assert_eq!(first, [16; 4096], "{volume:?}: what was synced before the crash");
        system.write(node, 0, &[77; 4096]).unwrap();
        system.sync(node, SyncScope::Data).unwrap();
        assert!(!has_log(&crashed), "{volume:?}");
        // The synced content is there without a log.
        let seen = Arc::new(MemoryDevice::from_image(&crashed.to_image(), device.sectors()));
        let cut = open(seen.clone());
        let node = cut.lookup(Node::ROOT, &"file".into()).unwrap();
        cut.read(node, 0, &mut first).unwrap();
        assert_eq!(first, [77; 4096], "{volume:?}");
        system.unmount().unwrap();
        check_clean(&*crashed).unwrap();
    }
}

/// Compares the device writes and flushes of syncs that commit with those of syncs that write an entry of the log, for
/// writes of 4 KiB with a sync after each.
#[test]
fn what_a_sync_that_commits_costs() {
    let cost = |options: OpenOptions| {
        let recorder = Arc::new(Recorder::new(V3_14.make()));
        let system = RefsVolume::open(recorder.clone(), options).unwrap();
        let node = overwrite(&system, 4);
        let before = recorder.traffic();
        for round in 0..100u64 {
            system.write(node, 4096 * (round % 16), &[round as u8; 4096]).unwrap();
            system.sync(node, SyncScope::Data).unwrap();
        }
        let seen = recorder.traffic().since(&before);
        (seen.write.count, seen.write.bytes, seen.flushes)
    };
    let with_log = cost(OpenOptions::default());
    let commits = cost(OpenOptions { commits_syncs: true, ..OpenOptions::default() });
    println!(
        "100 writes of 4 KiB with a sync each (writes, bytes, flushes): {with_log:?}, commits {commits:?}"
    );
    assert_eq!((with_log.0, with_log.2), (200, 100));
    assert!(commits.0 <= 100 * 12 && commits.2 == 200, "{commits:?}");
}

/// What was allocated and never written reads as zeroes, also after an entry of the log about another part of the file
/// was carried out again: not as what a removed file had left in the clusters.
#[test]
fn what_was_only_allocated_stays_zeroes() {
    const LENGTH: u64 = 1 << 20;
    for volume in VOLUMES.into_iter().filter(|volume| !volume.integrity) {
        let device = Arc::new(Recorder::new(volume.make()));
        let system = open(device.clone());
        let old = system.create(Node::ROOT, &"old".into(), Kind::File).unwrap();
        let mut filled = 0;
        while system.write(old, filled, &vec![0xAA; 1 << 20]).is_ok() {
            filled += 1 << 20;
        }
        system.unlink(Node::ROOT, &"old".into()).unwrap();
        system.forget(old, 1);
        system.sync_all().unwrap();
        let file = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        system.write(file, 0, &[1; 5_000]).unwrap();
        system.allocate(file, 0..LENGTH, false).unwrap();
        system.sync_all().unwrap();
        let overwrite = || {
            let before = device.traffic();
            system.write(file, 1_000, &[2; 1_000]).unwrap();
            system.sync(file, SyncScope::All).unwrap();
            device.traffic().since(&before).write.count
        };
        // The first of these syncs makes the log.
        overwrite();
        assert_eq!(overwrite(), 2, "{volume:?}: the data and an entry of the log");
        drop(system);
        let system = open(device.clone());
        let file = system.lookup(Node::ROOT, &"file".into()).unwrap();
        let mut content = vec![9; LENGTH as usize];
        assert_eq!(system.read(file, 0, &mut content).unwrap() as u64, LENGTH, "{volume:?}");
        let expected = [vec![1; 1_000], vec![2; 1_000], vec![1; 3_000]].concat();
        assert_eq!(content[..5_000], expected, "{volume:?}");
        let first = content[5_000..].iter().position(|byte| *byte != 0);
        assert_eq!(first, None, "{volume:?}: what a removed file had left is shown");
    }
}
