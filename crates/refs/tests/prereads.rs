//! What a plan needs from the device it asks the driver for: neither half of a request waits for a transfer of its own, so
//! that one thread keeps many requests in flight whatever is in memory.

use crate::common::{VOLUMES, Volume, check_clean, open};
use platter_device::{Buffer, Device, Recorder};
use platter_refs::RefsVolume;
use platter_testing::model::counts;
use platter_vfs::{FileSystem, Kind, Names, Node, Plan, Result, SyncNeed, Transfers};
use std::sync::Arc;

const SIZE: usize = 16 << 20;
const CLUSTERS_OF_64_KIB: Volume = VOLUMES[3];

/// The transfers that a request made by itself, in its halves, and those of its prereads.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    of_its_own: u64,
    prereads: Vec<u64>,
}

struct Tested {
    recorder: Arc<Recorder>,
    volume: RefsVolume,
    node: Node,
    plan: Plan,
}

impl Tested {
    /// A file with content on a volume that was opened after the file was written, so that no run of it is in memory.
    fn new(kind: Volume) -> Tested {
        let device: Arc<dyn Device> = kind.make();
        let system = open(device.clone());
        let node = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        // Scattered clusters need a row each.
        let cluster = kind.cluster as usize;
        system.write(node, 0, &vec![1; SIZE]).unwrap();
        for at in (0..SIZE).step_by(2 * cluster) {
            system.write(node, at as u64, &vec![1; cluster]).unwrap();
        }
        system.unmount().unwrap();
        let recorder = Arc::new(Recorder::new(device));
        let volume = open(recorder.clone());
        let node = volume.lookup(Node::ROOT, &"file".into()).unwrap();
        Tested { recorder, volume, node, plan: Plan::with_prereads() }
    }

    fn count(&self) -> u64 {
        let (reads, _, writes, ..) = counts(&self.recorder.traffic());
        reads + writes
    }

    /// Makes the plan, carrying out its prereads.
    fn plan(&mut self, seen: &mut Seen, make: impl Fn(&RefsVolume, Node, &mut Plan) -> Result<()>) {
        loop {
            let before = self.count();
            make(&self.volume, self.node, &mut self.plan).unwrap();
            seen.of_its_own += self.count() - before;
            let Some(preread) = &mut self.plan.preread else { return };
            let mut bytes = 0;
            for segment in &preread.segments {
                let part = &mut preread.buffer[segment.at as usize..][..segment.length as usize];
                self.recorder.read_at(segment.offset, part).unwrap();
                bytes += u64::from(segment.length);
            }
            seen.prereads.push(bytes);
            preread.is_read = true;
        }
    }

    fn read(&mut self, offset: u64, length: usize) -> (Seen, Vec<u8>) {
        let mut seen = Seen::default();
        self.plan(&mut seen, |volume, node, plan| volume.plan_read(node, offset, length, plan));
        let mut buffer = Buffer::new(length);
        let done = self.plan.read_from(&*self.recorder, &mut buffer);
        let before = self.count();
        let read = self.volume.finish_read(&mut self.plan, &mut buffer, done).unwrap();
        seen.of_its_own += self.count() - before;
        (seen, buffer[..read].to_vec())
    }

    fn plan_write(&mut self, offset: u64, data: &[u8]) -> Seen {
        let mut seen = Seen::default();
        self.plan(&mut seen, |volume, node, plan| volume.plan_write(node, offset, data, plan));
        seen
    }

    fn finish_write(&mut self, data: &[u8]) -> u64 {
        let done = self.plan.write_to(&*self.recorder, data);
        let before = self.count();
        assert!(self.volume.finish_write(&mut self.plan, data, done).unwrap());
        self.count() - before
    }

    fn end(self, expected: &[u8]) {
        let mut content = vec![0; SIZE];
        assert_eq!(self.volume.read(self.node, 0, &mut content).unwrap(), SIZE);
        assert!(content == expected, "the content is what was written");
        self.volume.unmount().unwrap();
        check_clean(&*self.recorder).unwrap();
    }
}

#[test]
fn pages_of_the_table_of_runs_are_asked_for() {
    for kind in [VOLUMES[1], VOLUMES[4]] {
        let mut tested = Tested::new(kind);
        let far = SIZE as u64 / 2;
        let page = 16 << 10;
        let (seen, content) = tested.read(far, 4096);
        assert_eq!(seen, Seen { of_its_own: 0, prereads: vec![page] });
        assert!(content.iter().all(|&byte| byte == 1));
        // Now it is in memory.
        assert_eq!(tested.read(far, 4096).0, Seen::default());
        let data = [2; 4096];
        let seen = tested.plan_write(0, &data);
        assert_eq!(seen, Seen { of_its_own: 0, prereads: vec![page] });
        assert_eq!(tested.finish_write(&data), 0);
        let mut expected = vec![1; SIZE];
        expected[..4096].fill(2);
        tested.end(&expected);
    }
}

#[test]
fn a_part_of_a_cluster_with_a_checksum_is_read_ahead() {
    let mut tested = Tested::new(CLUSTERS_OF_64_KIB);
    let cluster = 65536;
    let (seen, content) = tested.read(cluster + 8192, 4096);
    assert_eq!((seen.of_its_own, seen.prereads.last()), (0, Some(&cluster)));
    assert!(content.iter().all(|&byte| byte == 1) && content.len() == 4096);
    // From the middle of one cluster to the middle of the next but one: the one between is not read.
    let data = vec![2; 2 * cluster as usize];
    let seen = tested.plan_write(cluster + 8192, &data);
    assert_eq!(seen, Seen { of_its_own: 0, prereads: vec![2 * cluster] });
    assert_eq!(tested.plan.content.as_ref().map(|content| content.len()), Some(3 * cluster as usize));
    assert_eq!(tested.plan.sync, SyncNeed::After, "another write may come between");
    assert_eq!(tested.finish_write(&data), 0);
    let mut expected = vec![1; SIZE];
    expected[cluster as usize + 8192..][..data.len()].fill(2);
    tested.end(&expected);
}

#[test]
fn a_write_that_comes_between_is_not_lost() {
    let mut tested = Tested::new(CLUSTERS_OF_64_KIB);
    let mine = [2; 4096];
    tested.plan_write(8192, &mine);
    // Another part of the same cluster, whole, and durable, before the first is recorded.
    tested.volume.write(tested.node, 16384, &[3; 4096]).unwrap();
    tested.volume.sync_all().unwrap();
    assert!(tested.finish_write(&mine) > 0, "the cluster is read and written once more");
    let mut expected = vec![1; SIZE];
    expected[8192..12288].fill(2);
    expected[16384..20480].fill(3);
    tested.end(&expected);
}

#[test]
fn a_preread_that_fails_or_is_of_other_bytes_is_made_good_by_the_volume() {
    for is_read in [false, true] {
        for offset in [0, 8192] {
            let mut tested = Tested::new(CLUSTERS_OF_64_KIB);
            let (node, data) = (tested.node, [2; 4096]);
            let make = |tested: &mut Tested| tested.volume.plan_write(node, offset, &data, &mut tested.plan);
            make(&mut tested).unwrap();
            let mut asked = 0;
            while let Some(preread) = &mut tested.plan.preread {
                preread.buffer.fill(0xEE);
                preread.is_read = is_read;
                asked += 1;
                assert!(asked < 4, "it ends");
                make(&mut tested).unwrap();
            }
            assert!(asked > 0);
            tested.finish_write(&data);
            let mut expected = vec![1; SIZE];
            expected[offset as usize..][..4096].fill(2);
            tested.end(&expected);
        }
    }
}

#[test]
fn a_plan_with_a_preread_may_be_dropped() {
    let mut tested = Tested::new(CLUSTERS_OF_64_KIB);
    let node = tested.node;
    tested.volume.plan_write(node, 8192, &[2; 4096], &mut tested.plan).unwrap();
    assert!(tested.plan.preread.is_some());
    tested.plan = Plan::default();
    // Nothing counts as in flight: a truncation would wait for it.
    tested
        .volume
        .set_attributes(node, &platter_vfs::Change { size: Some(4096), ..Default::default() })
        .unwrap();
    tested.volume.unmount().unwrap();
    check_clean(&*tested.recorder).unwrap();
}
