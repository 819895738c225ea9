//! The body of the fuzz target for devices; for tests only.

use crate::{MemoryDevice, PartitionTable, Sectors, contents};
use std::sync::Arc;

/// Treats the bytes as a device: reads its partition table, recognises its content, and opens each partition.
pub fn device(bytes: &[u8]) {
    for sectors in [Sectors::SMALL, Sectors::LARGE] {
        let device = Arc::new(MemoryDevice::from_image(bytes, sectors));
        // Any result is right as long as nothing panics.
        let _ = contents(&*device);
        if let Ok(Some(table)) = PartitionTable::read(&*device) {
            for entry in &table.partitions {
                let _ = table.open(device.clone(), entry.number).map(|partition| contents(&partition));
            }
        }
    }
}
