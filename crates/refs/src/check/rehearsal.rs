//! Repairs of volumes of which a part is lost are carried out in memory first. A repair that would leave files without a
//! way to them is not begun: `platter recover` still copies them out of the damaged volume.

use super::repair::relay;
use super::{Check, FindLost, repaired};
use crate::RefsVolume;
use platter_device::{Device, OverlayDevice};
use platter_vfs::{Cursor, Kind, Names, Node, OpenOptions, Result, Silent};
use std::sync::Arc;

/// Returns why the volume is better left as it is, or `None` if a repair leads to as many files as can be reached
/// now or, where the volume cannot be opened, as a recovery finds.
pub(super) fn refusal(device: &dyn Device, find_lost: FindLost) -> Option<String> {
    let outcome = relay::lend(device, move |device| -> Result<Option<String>> {
        let wanted = match reachable(device.clone()) {
            Ok(before) => before,
            Err(_) => (find_lost.files)(device.clone())?,
        };
        let overlay = Arc::new(OverlayDevice::new(device));
        let check = Check::checked(&*overlay, &Silent, Some(find_lost))?;
        repaired(&*overlay, check, &Silent, Some(find_lost))?;
        Ok(match reachable(overlay) {
            Ok(after) if after >= wanted => None,
            Ok(after) => Some(format!("a repair would lead to {after} of {wanted} files")),
            Err(error) => Some(format!("a repair would leave a volume that cannot be opened: {error}")),
        })
    });
    let why = match outcome {
        Some(Ok(why)) => why?,
        Some(Err(error)) => format!("a repair fails: {error}"),
        None => "a repair fails".into(),
    };
    Some(format!("{why}; nothing is written: `platter recover` copies out what can still be read"))
}

/// The number of files that names lead to, from the root directory on.
fn reachable(device: Arc<dyn Device>) -> Result<u64> {
    let volume = RefsVolume::open(device, OpenOptions { read_only: true, ..OpenOptions::default() })?;
    let mut files = 0;
    let mut waiting = vec![Node::ROOT];
    while let Some(directory) = waiting.pop() {
        let (mut cursor, mut entries) = (Cursor::START, Vec::new());
        // What can be listed of a damaged directory counts.
        while volume.read_directory(directory, cursor, 256, &mut entries).is_ok() {
            let Some(last) = entries.last() else { break };
            cursor = last.next;
            for entry in entries.drain(..) {
                if entry.attributes.kind != Kind::Directory {
                    files += 1;
                } else if let Ok(below) = volume.lookup(directory, &entry.name) {
                    waiting.push(below);
                }
            }
        }
        if directory != Node::ROOT {
            volume.forget(directory, 1);
        }
    }
    Ok(files)
}
