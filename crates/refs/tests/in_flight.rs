//! Planned writes that are in flight together and finish in either order.

use crate::common::{self, VOLUMES, check_clean, open};
use platter_device::{Buffer, Device, MemoryDevice, Sectors};
use platter_testing::model::Between;
use platter_vfs::{FileSystem, Kind, Names, Node, Plan, Transfers};
use std::sync::{Arc, Mutex};

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

/// A write behind the end is in flight while another one, which is not done yet when the first is planned, moves the end
/// into a cluster. The rest of that cluster reads as zeroes then, not as what another file has left there.
#[test]
fn a_write_behind_the_end_shows_nothing_of_other_files() {
    // With integrity whole clusters are written.
    for volume in VOLUMES.into_iter().filter(|volume| !volume.integrity) {
        let sectors = Sectors { logical: volume.sector, physical: volume.sector };
        let below = Arc::new(MemoryDevice::new(common::BYTES, sectors));
        let left = vec![0xEE; 1 << 20];
        (0..below.len()).step_by(left.len()).for_each(|at| below.write_at(at, &left).unwrap());
        let device = Arc::new(Between::new(below, false));
        volume.make_on(&*device);
        let system = Arc::new(open(device.clone()));
        let cluster = volume.cluster as usize;
        let node = system.create(Node::ROOT, &"file".into(), Kind::File).unwrap();
        system.write(node, 0, &vec![1; cluster]).unwrap();
        let ahead = Arc::new(Mutex::new(Plan::default()));
        let data = Buffer::from(&vec![3; cluster][..]);
        let planned = {
            let (ahead, data, system) = (ahead.clone(), vec![3; cluster], system.clone());
            move || system.plan_write(node, 3 * cluster as u64, &data, &mut ahead.lock().unwrap()).unwrap()
        };
        device.before_a_write(planned);
        system.write(node, cluster as u64, &vec![2; cluster + 50]).unwrap();
        let mut ahead = ahead.lock().unwrap();
        ahead.write_to(&*device, &data).unwrap();
        system.finish_write(&mut ahead, &data, Ok(())).unwrap();
        let mut found = vec![0xFF; 4 * cluster];
        assert_eq!(system.read(node, 0, &mut found).unwrap(), 4 * cluster);
        let expected = [vec![1; cluster], vec![2; cluster + 50], vec![0; cluster - 50], vec![3; cluster]];
        let differs = found.iter().zip(&expected.concat()).position(|(found, expected)| found != expected);
        assert_eq!(differs, None, "{volume:?}");
        system.unmount().unwrap();
        check_clean(&*device).unwrap();
    }
}
