//! Overwriting with integrity on, far more than the volume holds.

mod common;

use common::{VOLUMES, open};
use platter_vfs::{FileSystem, Kind, Name, Node};

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
        let mut random = 8664u64;
        for step in 0..10 * clusters {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let at = (random >> 33) % clusters;
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
