//! The parts that the fuzz targets of all formats share: checking and using a device that may hold a volume.

use crate::{
    Change, CheckOptions, Cursor, Error, FileSystem, Format, Kind, Name, Node, OpenOptions, RenameFlags,
    Silent, SyncScope,
};
use platter_device::Device;
use std::sync::Arc;

/// Checks the device without repair, with repair, and once more without: a repair must have put right what it claims.
///
/// # Panics
/// If a repair did not do what its report claims.
pub fn check(format: &dyn Format, device: &dyn Device) {
    let run = |repair| format.check(device, CheckOptions { repair }, &Silent);
    let Ok(found) = run(false) else { return };
    let repaired = match run(true) {
        Err(Error::ReadOnly(_)) => return,
        repaired => repaired.expect("the volume was recognised before"),
    };
    if found.is_clean() {
        assert!(repaired.is_clean(), "a clean volume was repaired: {repaired:?}");
    }
    if repaired.remaining.is_none() {
        let again = run(false).expect("a repaired volume is a volume");
        assert!(again.is_clean(), "found {found:?}, repaired {repaired:?}, then found {again:?}");
    }
}

/// Opens the volume, reads all of it and makes some changes; afterwards a check with repair must not panic.
pub fn volume(format: &dyn Format, device: Arc<dyn Device>) {
    if let Ok(volume) = format.open(device.clone(), OpenOptions::default()) {
        read_all(&*volume);
        write_some(&*volume);
        let _ = volume.unmount();
    }
    let _ = format.check(&*device, CheckOptions { repair: true }, &Silent);
}

/// Reads everything reachable, at most 17 levels deep and 1,024 entries, which is more than a small image holds.
fn read_all(volume: &dyn FileSystem) {
    let mut todo = vec![(Node::ROOT, 0)];
    let mut buffer = vec![0; 8192];
    let mut seen = 0;
    while let Some((directory, depth)) = todo.pop() {
        let mut entries = Vec::new();
        if volume.read_directory(directory, Cursor::START, 512, &mut entries).is_err() || depth > 16 {
            continue;
        }
        for entry in entries {
            seen += 1;
            if seen > 1024 {
                return;
            }
            let Ok(node) = volume.lookup(directory, &entry.name) else { continue };
            let _ = volume.attributes(node);
            if entry.attributes.kind == Kind::Directory {
                todo.push((node, depth + 1));
            } else {
                let _ = volume.read(node, 0, &mut buffer);
                let _ = volume.read(node, entry.attributes.size.saturating_sub(100), &mut buffer);
            }
        }
    }
    let _ = (volume.info(), volume.space());
}

/// Creates, writes, renames and removes some entries.
fn write_some(volume: &dyn FileSystem) {
    let name = |text: &str| Name::from(text);
    let Ok(directory) = volume.create(Node::ROOT, &name("a new directory"), Kind::Directory) else { return };
    if let Ok(file) = volume.create(directory, &name("a new file"), Kind::File) {
        let _ = volume.write(file, 100, &[7; 3000]);
        let _ = volume.sync(file, SyncScope::All);
        let _ = volume.set_attributes(file, &Change { size: Some(10), ..Change::default() });
    }
    let mut entries = Vec::new();
    let _ = volume.read_directory(Node::ROOT, Cursor::START, 8, &mut entries);
    for (number, entry) in entries.iter().enumerate() {
        if let Ok(node) = volume.lookup(Node::ROOT, &entry.name) {
            let _ = volume.write(node, entry.attributes.size, &[1; 600]);
        }
        let new = name(&format!("renamed {number}"));
        let _ = volume.rename(Node::ROOT, &entry.name, directory, &new, RenameFlags::Replace);
        let _ = volume.unlink(directory, &new);
    }
    let _ = volume.set_label("FUZZED");
    let _ = volume.sync_all();
}
