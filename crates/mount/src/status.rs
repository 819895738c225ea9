//! The state of a mount, for its administrator.

use crate::errors::Answer;
use crate::scrubbing::ScrubState;
use crate::served::Served;
use platter_device::Buffer;
use serde::{Deserialize, Serialize};

/// The state of a mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The number of the process that serves the mount.
    pub process: u32,
    /// The source of the mount.
    pub source: String,
    /// The format, for example "ReFS 3.14".
    pub format: String,
    /// The label of the volume; empty if it has none.
    pub label: String,
    /// Serial number or identifier of the volume.
    pub identifier: String,
    /// Bytes per cluster.
    pub cluster: u64,
    /// The number of clusters.
    pub clusters: u64,
    /// The number of free clusters.
    pub free_clusters: u64,
    /// The number of free clusters that are reserved for metadata.
    pub reserved_clusters: u64,
    /// Whether the mount was made for reading alone.
    pub read_only: bool,
    /// The failure of the device after which nothing is written any more.
    pub failed: Option<String>,
    /// For each copy that the device keeps of its content, why it cannot be read, or `None` if it can.
    pub copies: Vec<Option<String>>,
    /// Further facts in the terms of the format: name and value.
    pub details: Vec<(String, String)>,
    /// The last scrub.
    pub scrub: ScrubState,
}

impl Served {
    /// The state of the mount. The first sector of each copy is read for it.
    pub fn status(&self) -> Answer<Status> {
        let info = self.told(self.system.info())?;
        let shown = info.shown();
        let space = self.told(self.system.space())?;
        let device = self.system.device();
        let mut sector = Buffer::new(device.sectors().logical as usize);
        let copies = (0..device.copies())
            .map(|copy| device.read_copy(copy, 0, &mut sector).err().map(|error| error.to_string()))
            .collect();
        Ok(Status {
            process: std::process::id(),
            source: self.options.source.clone(),
            format: info.format,
            label: info.label,
            identifier: info.identifier,
            cluster: space.cluster,
            clusters: space.total,
            free_clusters: space.free,
            reserved_clusters: space.reserved,
            read_only: self.options.read_only,
            failed: self.failed(),
            copies,
            details: shown.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
            scrub: self.scrubbing.state(),
        })
    }
}
