//! Many threads use one volume at once, and the volume is sound afterwards.

use crate::common::{VOLUMES, check_clean, open};
use platter_testing::model::get_along;
use platter_vfs::FileSystem;

#[test]
fn threads_get_along() {
    for volume in VOLUMES {
        let device = volume.make();
        let system = open(device.clone());
        get_along(&system, 300);
        system.unmount().unwrap();
        check_clean(&*device).unwrap_or_else(|fault| panic!("{volume:?}: {fault}"));
    }
}

#[test]
fn a_listing_goes_on_after_any_rest() {
    platter_testing::model::listings::in_turns(&platter_refs::Refs::ANY);
    platter_testing::model::listings::after_a_rest(&platter_refs::Refs::ANY);
}
