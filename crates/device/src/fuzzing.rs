//! What the fuzz targets run; for tests only.

use crate::{MemoryDevice, PartitionTable, Sectors, contents};
use std::sync::Arc;

/// Takes bytes for a device: looks for a partition table and for what it holds, and opens each partition.
pub fn device(bytes: &[u8]) {
    for sectors in [Sectors::SMALL, Sectors::LARGE] {
        let device = Arc::new(MemoryDevice::from_image(bytes, sectors));
        // Any outcome is right that is an outcome.
        let _ = contents(&*device);
        if let Ok(Some(table)) = PartitionTable::read(&*device) {
            for entry in &table.partitions {
                let _ = table.open(device.clone(), entry.number).map(|partition| contents(&partition));
            }
        }
    }
}
