//! Planned writes that are in flight together and finish in either order.

use crate::common::{VOLUMES, check_clean, open};
use platter_device::{Buffer, Device};
use platter_vfs::{FileSystem, Kind, Node, Plan};
use std::sync::Arc;

/// A write that begins behind the end of a file zeroes the rest of the cluster with the end, but not the data that
/// another write, planned and not yet finished, has put there.
#[test]
fn a_write_behind_the_end_leaves_what_another_writes_before_it() {
    for volume in VOLUMES {
        let device: Arc<dyn Device> = volume.make();
        let system = open(device.clone());
        let cluster = volume.cluster as usize;
        for (number, order) in [[0, 1], [1, 0]].into_iter().enumerate() {
            let name = format!("file {number}");
            let node = system.create(Node::ROOT, &(&*name).into(), Kind::File).unwrap();
            system.write(node, 0, &vec![1; 3 * cluster - 1234]).unwrap();
            system.sync_all().unwrap();
            // One write to the last two clusters of the file, and one to the cluster behind them.
            let data = [Buffer::from(&vec![2; 2 * cluster][..]), Buffer::from(&vec![3; cluster][..])];
            let mut plans = [Plan::default(), Plan::default()];
            for ((plan, data), at) in plans.iter_mut().zip(&data).zip([cluster, 3 * cluster]) {
                system.plan_write(node, at as u64, data, plan).unwrap();
                plan.write_to(&*device, data).unwrap();
            }
            for which in order {
                system.finish_write(&mut plans[which], &data[which], Ok(())).unwrap();
            }
            let mut found = vec![0; 5 * cluster];
            assert_eq!(system.read(node, 0, &mut found).unwrap(), 4 * cluster);
            let expected = [vec![1; cluster], vec![2; 2 * cluster], vec![3; cluster]].concat();
            let differs = found.iter().zip(&expected).position(|(found, expected)| found != expected);
            assert_eq!(differs, None, "{order:?}, clusters of {cluster}");
        }
        system.unmount().unwrap();
        drop(system);
        check_clean(&*device).unwrap();
    }
}
