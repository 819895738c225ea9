//! Volumes in sectors of 512 bytes on a device whose sectors have 4,096, such as a disk that was moved to another USB bridge.

mod damaged;
mod judges;

use damaged::{Volume, populated};
use platter_device::{MemoryDevice, Sectors};
use platter_fat::Fat;
use platter_fat::layout::FatKind;
use platter_testing::model::told;
use platter_vfs::{CheckOptions, Error, Format, Kind, Name, Node, OpenOptions, Silent};
use std::collections::BTreeMap;
use std::sync::Arc;

#[test]
fn a_volume_in_smaller_sectors_than_the_device_s_is_read() {
    for kind in [FatKind::Fat12, FatKind::Fat16, FatKind::Fat32] {
        let image = populated(kind);
        let expected = Volume::new(image.clone()).contents();
        let device = Arc::new(MemoryDevice::from_image(&image, Sectors::LARGE));
        let system = Fat::ANY.open(device.clone(), OpenOptions::default()).unwrap();
        for (path, content) in &expected {
            let node = path.split('/').skip(1).fold(Node::ROOT, |directory, name| {
                system.lookup(directory, &Name::from(name)).unwrap_or_else(|error| panic!("{path}: {error}"))
            });
            let mut found = vec![0; content.len() + 1];
            let length = system.read(node, 0, &mut found).unwrap();
            assert!(found[..length] == **content, "{kind:?} {path}");
        }
        let error = system.create(Node::ROOT, &Name::from("new"), Kind::File).unwrap_err();
        let Error::ReadOnly(why) = &error else { panic!("{error}") };
        assert!(why.contains("sectors of 512 bytes") && why.contains("4096"), "{why}");
        system.unmount().unwrap();
        assert!(device.to_image() == image);

        let report = Fat::ANY.check(&*device, CheckOptions::default(), &Silent).unwrap();
        assert_eq!(report.found, 0, "{kind:?}: {}", told(&report));
        let mut recovered = BTreeMap::new();
        let visit: platter_vfs::Visit<'_> = &mut |found, data| {
            let path: String = found.path.iter().map(|name| format!("/{name}")).collect();
            let mut content = vec![0; found.size as usize];
            data.read(0, &mut content)?;
            recovered.insert(path, content);
            Ok(())
        };
        Fat::ANY.recover(device, &Silent, visit).unwrap();
        for (path, content) in expected {
            assert!(recovered.get(&path) == Some(&content), "{kind:?} {path}");
        }
    }
}
