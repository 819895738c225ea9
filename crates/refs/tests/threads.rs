//! Many threads use one volume at once, and the volume is sound afterwards.

use crate::common::{VOLUMES, check_clean, open};
use platter_testing::conformance;
use platter_vfs::{FileSystem, Kind, Names, Node};
use std::sync::Barrier;

conformance!(threads: VOLUMES, open: open, check: check_clean);

#[test]
fn a_listing_goes_on_after_any_rest() {
    platter_testing::model::listings::in_turns(&platter_refs::Refs::ANY);
    platter_testing::model::listings::after_a_rest(&platter_refs::Refs::ANY);
}

/// A clone of a file without a name is a copy, since no clusters of it can be shared. It is one step for other callers
/// even so: two files that are cloned over each other at the same time end up the same.
#[test]
fn clones_over_each_other_are_in_one_order() {
    const LENGTH: usize = 3 << 20;
    for volume in VOLUMES {
        let device = volume.make();
        let system = open(device.clone());
        if !system.capabilities().clone {
            continue;
        }
        let files =
            ["named", "removed"].map(|name| system.create(Node::ROOT, &name.into(), Kind::File).unwrap());
        system.unlink(Node::ROOT, &"removed".into()).unwrap();
        for round in 0..20_u8 {
            for (node, byte) in files.into_iter().zip([2 * round, 2 * round + 1]) {
                system.write(node, 0, &vec![byte; LENGTH]).unwrap();
            }
            let start = Barrier::new(2);
            std::thread::scope(|scope| {
                for (from, to) in [(files[0], files[1]), (files[1], files[0])] {
                    let (system, start) = (&system, &start);
                    scope.spawn(move || {
                        start.wait();
                        system.clone_range(from, 0, to, 0, LENGTH as u64).unwrap();
                    });
                }
            });
            let [one, other] = files.map(|node| {
                let mut found = vec![0; LENGTH];
                assert_eq!(system.read(node, 0, &mut found).unwrap(), LENGTH);
                found
            });
            assert!(one == other && one.iter().all(|byte| *byte == one[0]), "{volume:?}, round {round}");
        }
        for node in files {
            system.forget(node, 1);
        }
        system.unmount().unwrap();
        check_clean(&*device).unwrap_or_else(|fault| panic!("{volume:?}: {fault}"));
    }
}
