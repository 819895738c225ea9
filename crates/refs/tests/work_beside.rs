//! Checksums of large requests, which are computed while the device carries these out.

use crate::common::{BYTES, VOLUMES, check_clean, open};
use platter_device::{Buffer, Device, FileDevice, FileOptions, Kind as RequestKind, Request};
use platter_refs::RefsVolume;
use platter_vfs::{Error, FileSystem, Kind, Names, Node, Plan, Transfers};
use std::sync::Arc;

const LENGTH: usize = 1 << 20;

fn carry_out(system: &RefsVolume, plan: &Plan, data: &[u8]) {
    for segment in &plan.segments {
        let part = &data[segment.at as usize..][..segment.length as usize];
        system.device().write_at(segment.offset, part).unwrap();
    }
}

fn assert_holds(system: &RefsVolume, node: Node, fill: u8) {
    let mut buffer = Buffer::new(LENGTH);
    assert_eq!(system.read(node, 0, &mut buffer).unwrap(), LENGTH);
    assert!(buffer.iter().all(|&byte| byte == fill));
}

#[test]
fn whoever_does_the_work_the_checksums_are_there() {
    for volume in VOLUMES.into_iter().filter(|volume| volume.integrity) {
        let device: Arc<dyn Device> = volume.make();
        let system = open(device.clone());
        let node = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        let mut plan = Plan::default();
        for (fill, is_done_beside) in (1..).zip([true, false, true, true, false, false]) {
            let data = Buffer::from(&[fill; LENGTH][..]);
            system.plan_write(node, 0, &data, &mut plan).unwrap();
            assert!(plan.work_beside);
            if is_done_beside {
                system.work_beside(&mut plan, 0, &data);
                assert!(!plan.work_beside);
            }
            carry_out(&system, &plan, &data);
            system.finish_write(&mut plan, &data, Ok(())).unwrap();
            assert_holds(&system, node, fill);
        }
        // Small writes have no such work.
        let data = Buffer::from(&vec![9; volume.cluster as usize][..]);
        system.plan_write(node, 0, &data, &mut plan).unwrap();
        assert_eq!(plan.work_beside, volume.cluster == 65536);
        carry_out(&system, &plan, &data);
        system.finish_write(&mut plan, &data, Ok(())).unwrap();
        system.unmount().unwrap();
        drop(system);
        check_clean(&*device).unwrap();
    }
}

/// A write cannot be finished with other data than was planned: runs for half of the data, or with checksums of other
/// data, would be damage.
#[test]
fn other_data_than_was_planned_is_refused() {
    let device: Arc<dyn Device> = VOLUMES[1].make();
    let system = open(device.clone());
    let node = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
    let (first, second) = (Buffer::from(&[1; LENGTH][..]), Buffer::from(&[2; LENGTH][..]));
    system.write(node, 0, &first).unwrap();
    system.sync_all().unwrap();
    let free = system.space().unwrap().free;
    let mut plan = Plan::default();
    for wrong in [&second[..LENGTH - 4096], &[]] {
        system.plan_write(node, 0, &second, &mut plan).unwrap();
        system.work_beside(&mut plan, 0, wrong);
        assert!(plan.work_beside);
        carry_out(&system, &plan, &second);
        let refused = system.finish_write(&mut plan, wrong, Ok(()));
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
        assert_holds(&system, node, 1);
    }
    // The clusters of the refused writes are free again.
    system.sync_all().unwrap();
    assert_eq!(system.space().unwrap().free, free);
    system.unmount().unwrap();
    drop(system);
    check_clean(&*device).unwrap();
}

/// Returns a plan to read a whole file, and the bytes that the device has for it.
fn read(system: &RefsVolume, node: Node) -> (Plan, Buffer) {
    let (mut plan, mut buffer) = (Plan::default(), Buffer::new(LENGTH));
    system.plan_read(node, 0, LENGTH, &mut plan).unwrap();
    for segment in &plan.segments {
        let part = &mut buffer[segment.at as usize..][..segment.length as usize];
        system.device().read_at(segment.offset, part).unwrap();
    }
    (plan, buffer)
}

#[test]
fn what_arrived_is_verified_once_and_the_rest_at_the_end() {
    for volume in VOLUMES.into_iter().filter(|volume| volume.integrity) {
        let device: Arc<dyn Device> = volume.make();
        let system = open(device.clone());
        let node = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        let cluster = volume.cluster as usize;
        let data: Vec<u8> = (0..LENGTH).map(|at| (at / 512) as u8).collect();
        system.write(node, 0, &data).unwrap();
        // Small reads have no such work.
        let mut plan = Plan::default();
        system.plan_read(node, 0, 128 << 10, &mut plan).unwrap();
        assert!(!plan.work_beside);
        system.finish_read(&mut plan, &mut [0; 128 << 10], Ok(())).unwrap();
        // The part that is verified beside the read has the third cluster whole, and the second and fourth in part.
        let part = cluster + 512..4 * cluster - 512;
        for (wrong, is_noticed) in [(0, true), (1, true), (2, false), (3, true), (4, true)] {
            let (mut plan, mut buffer) = read(&system, node);
            assert!(plan.work_beside && *buffer == data[..]);
            system.work_beside(&mut plan, part.start, &buffer[part.clone()]);
            // The test changes a byte in a part that has arrived, to learn whether its cluster is verified once more at
            // the end. A cluster that is found wrong is read again, and the device has its right content.
            buffer[wrong * cluster + cluster / 2] ^= 1;
            system.finish_read(&mut plan, &mut buffer, Ok(())).unwrap();
            assert_eq!(*buffer == data[..], is_noticed, "cluster {wrong}");
        }
        // A cluster that is wrong when it arrives is found at the end, even if the part is given with a wrong place.
        for at in [0, LENGTH, usize::MAX] {
            let (mut plan, mut buffer) = read(&system, node);
            buffer[cluster + 1] ^= 1;
            system.work_beside(&mut plan, at, &buffer);
            system.finish_read(&mut plan, &mut buffer, Ok(())).unwrap();
            assert!(*buffer == data[..]);
        }
        system.unmount().unwrap();
        drop(system);
        check_clean(&*device).unwrap();
    }
}

/// Reads through a queue from an image file, as a program that reads large pieces one after the other does.
#[test]
fn damage_in_any_part_is_found() {
    let device = FileDevice::temporary(&std::env::temp_dir(), BYTES, FileOptions::default()).unwrap();
    VOLUMES[1].make_on(&device);
    let device: Arc<dyn Device> = Arc::new(device);
    let system = open(device.clone());
    let node = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
    let data: Vec<u8> = (0..LENGTH).map(|at| (at / 512) as u8).collect();
    system.write(node, 0, &data).unwrap();
    let places = {
        let mut plan = Plan::default();
        system.plan_read(node, 0, LENGTH, &mut plan).unwrap();
        let places = plan.segments.clone();
        system.finish_read(&mut plan, &mut data.clone(), Ok(())).unwrap();
        places
    };
    let mut queue = system.queue(1).unwrap();
    let mut plan = Plan::default();
    let mut read = || {
        system.plan_read(node, 0, LENGTH, &mut plan).unwrap();
        let segments = std::mem::take(&mut plan.segments);
        let buffer = Buffer::new(LENGTH);
        queue
            .submit_in_parts(Request { tag: 0, kind: RequestKind::Read, durable: false, segments, buffer })
            .unwrap();
        let mut done = Vec::new();
        queue.wait_beside(1, &mut done, &mut |_, at, part| system.work_beside(&mut plan, at, part)).unwrap();
        let mut done = done.pop().unwrap();
        let read = system.finish_read(&mut plan, &mut done.buffer, done.result);
        read.map(|length| assert!(length == LENGTH && *done.buffer == data[..]))
    };
    read().unwrap();
    for at in (0..LENGTH).step_by(60 << 10) {
        let at = at as u64;
        let segment = places.iter().rfind(|segment| u64::from(segment.at) <= at).unwrap();
        let place = segment.offset + (at - u64::from(segment.at)) / 512 * 512;
        let mut sector = Buffer::new(512);
        device.read_at(place, &mut sector).unwrap();
        sector[77] ^= 4;
        device.write_at(place, &sector).unwrap();
        let found = read();
        assert!(matches!(found, Err(Error::Damaged(_))), "{at}: {found:?}");
        sector[77] ^= 4;
        device.write_at(place, &sector).unwrap();
        read().unwrap();
    }
}
