//! A volume on a device whose sectors are larger than its own.

use super::told;
use platter_device::{MemoryDevice, Sectors};
use platter_vfs::{CheckOptions, Error, Format, Kind, Name, Node, OpenOptions, Silent, Visit};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Puts a volume in sectors of 512 bytes, with files of these contents by their paths, on a device with sectors of
/// 4,096, and returns the device.
///
/// # Panics
/// If a file is not read as it is, by opening the volume or by a recovery, if the check finds anything, or if anything
/// is written.
pub fn read_in_small_sectors(
    format: &dyn Format,
    image: &[u8],
    expected: &BTreeMap<String, Vec<u8>>,
    what: &str,
) -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::from_image(image, Sectors::LARGE));
    let system = format.open(device.clone(), OpenOptions::default()).unwrap();
    for (path, content) in expected {
        let node = path.split('/').skip(1).fold(Node::ROOT, |directory, name| {
            system.lookup(directory, &Name::from(name)).unwrap_or_else(|error| panic!("{path}: {error}"))
        });
        let mut found = vec![0; content.len() + 1];
        let length = system.read(node, 0, &mut found).unwrap();
        assert!(found[..length] == **content, "{what} {path}");
    }
    let error = system.create(Node::ROOT, &Name::from("new"), Kind::File).unwrap_err();
    let Error::ReadOnly(why) = &error else { panic!("{error}") };
    assert!(why.contains("sectors of 512 bytes") && why.contains("4096"), "{why}");
    system.unmount().unwrap();
    assert!(device.to_image() == image);

    let report = format.check(&*device, CheckOptions::default(), &Silent).unwrap();
    assert_eq!(report.found, 0, "{what}: {}", told(&report));
    let mut recovered = BTreeMap::new();
    let visit: Visit<'_> = &mut |found, data| {
        let path: String = found.path.iter().map(|name| format!("/{name}")).collect();
        let mut content = vec![0; found.size as usize];
        data.read(0, &mut content)?;
        recovered.insert(path, content);
        Ok(())
    };
    format.recover(device.clone(), &Silent, visit).unwrap();
    for (path, content) in expected {
        assert!(recovered.get(path) == Some(content), "{what} {path}");
    }
    device
}
