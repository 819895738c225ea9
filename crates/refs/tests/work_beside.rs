//! Checksums of large writes, which are computed while the device carries these out.

mod common;

use common::{VOLUMES, check_clean, open};
use platter_device::{Buffer, Device};
use platter_refs::RefsVolume;
use platter_vfs::{Error, FileSystem, Kind, Node, Plan};
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
                system.work_beside(&mut plan, &data);
                assert!(!plan.work_beside);
            }
            carry_out(&system, &plan, &data);
            system.finish_write(&mut plan, &data, Ok(())).unwrap();
            assert_holds(&system, node, fill);
        }
        // Small ones have no such work.
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

/// Half a write on record, or checksums of something else, would be damage.
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
        system.work_beside(&mut plan, wrong);
        assert!(plan.work_beside);
        carry_out(&system, &plan, &second);
        let refused = system.finish_write(&mut plan, wrong, Ok(()));
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
        assert_holds(&system, node, 1);
    }
    // The clusters are free again.
    system.sync_all().unwrap();
    assert_eq!(system.space().unwrap().free, free);
    system.unmount().unwrap();
    drop(system);
    check_clean(&*device).unwrap();
}
