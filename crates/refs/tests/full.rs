//! Full volumes: every operation fails cleanly, and what is there can be removed.

mod common;

use common::{VOLUMES, check_clean, open};
use platter_vfs::{Error, FileSystem, Kind, Name, Node};

/// First all room for data is taken, then all for pages, by directories, each of which has one of its own.
#[test]
fn a_full_volume_refuses_and_goes_on() {
    for volume in [VOLUMES[0], VOLUMES[3]] {
        let device = volume.make();
        let system = open(device.clone());
        let large = system.create(Node::ROOT, &Name::from("large"), Kind::File).unwrap();
        let (mut at, bytes) = (0, vec![7; 1 << 20]);
        let refused = loop {
            match system.write(large, at, &bytes) {
                Ok(()) => at += bytes.len() as u64,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::NoSpace), "{volume:?}: {refused}");
        let name = |number: usize| Name::from(format!("directory {number}").as_str());
        let mut made = 0;
        let refused = loop {
            match system.create(Node::ROOT, &name(made), Kind::Directory) {
                Ok(node) => {
                    system.forget(node, 1);
                    made += 1;
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::NoSpace), "{volume:?}: {refused}");
        assert!(made > 100, "{volume:?}: {made}");
        // Nothing is half-made, and the volume is not given up.
        assert!(matches!(system.lookup(Node::ROOT, &name(made)), Err(Error::NotFound)));
        system.sync_all().unwrap();
        for number in 0..made {
            system.rmdir(Node::ROOT, &name(number)).unwrap();
        }
        system.unlink(Node::ROOT, &Name::from("large")).unwrap();
        system.forget(large, 1);
        system.sync_all().unwrap();
        system.create(Node::ROOT, &Name::from("again"), Kind::Directory).unwrap();
        system.unmount().unwrap();
        check_clean(&*device).unwrap_or_else(|fault| panic!("{volume:?}: {fault}"));
    }
}
