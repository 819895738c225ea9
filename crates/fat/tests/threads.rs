//! Many threads work on one volume, which is sound afterwards.

use crate::common::{VOLUMES, check_clean, open};
use platter_testing::model::get_along;
use platter_vfs::FileSystem;

#[test]
fn threads_get_along() {
    for volume in [VOLUMES[1], VOLUMES[3], VOLUMES[5]] {
        let device = volume.make();
        let system = open(device.clone());
        get_along(&system, 300);
        system.unmount().unwrap();
        check_clean(&*device).unwrap_or_else(|fault| panic!("{volume:?}: {fault}"));
    }
}
