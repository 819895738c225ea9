//! The bytes that the engine drives: a device, a file of the host, or a file in a volume of Platter.

use platter_device::{Device, Queue};
use platter_vfs::{FileSystem, Node};
use std::sync::Arc;

/// A range of bytes under test.
#[derive(Clone)]
pub enum Subject {
    /// A device itself, or a file in a file system of the host, which is opened as a device.
    Device {
        /// The device that requests go to.
        device: Arc<dyn Device>,
        /// Returns how many bytes are free in the file system around the file; `None` for a plain device.
        free: Option<Arc<dyn Fn() -> Option<u64> + Send + Sync>>,
    },
    /// A file inside a volume of Platter.
    File {
        /// The volume.
        system: Arc<dyn FileSystem>,
        /// The file.
        node: Node,
    },
}

impl Subject {
    /// The device on which requests are carried out.
    pub fn device(&self) -> &Arc<dyn Device> {
        match self {
            Subject::Device { device, .. } => device,
            Subject::File { system, .. } => system.device(),
        }
    }

    /// A queue for at most `depth` I/Os in flight.
    pub fn queue(&self, depth: usize) -> crate::Result<Box<dyn Queue + '_>> {
        match self {
            Subject::Device { device, .. } => Ok(device.queue(depth)?),
            Subject::File { system, .. } => Ok(system.queue(depth)?),
        }
    }

    /// The number of bytes under test.
    pub fn length(&self) -> crate::Result<u64> {
        match self {
            Subject::Device { device, .. } => Ok(device.len()),
            Subject::File { system, node } => Ok(system.attributes(*node)?.size),
        }
    }

    /// The number of free bytes on the volume, where there is a volume.
    pub fn free(&self) -> Option<u64> {
        match self {
            Subject::Device { free, .. } => free.as_ref().and_then(|free| free()),
            Subject::File { system, .. } => system.space().ok().map(|space| space.free * space.cluster),
        }
    }

    /// Makes everything written so far durable.
    pub fn sync(&self) -> crate::Result<()> {
        match self {
            Subject::Device { device, .. } => Ok(device.flush()?),
            Subject::File { system, node } => Ok(system.sync(*node, platter_vfs::SyncScope::Data)?),
        }
    }
}
