//! The attributes of a file or directory besides its content, and the layout of its content.

use crate::error::Error;
use crate::node::Held;
use platter_vfs::{Name, Reparse};

/// A named stream.
pub(super) struct Stream {
    pub name: Name,
    pub content: StreamContent,
}

/// Where the content of a named stream is.
pub(super) enum StreamContent {
    /// In memory.
    Bytes(Vec<u8>),
    /// In a stream of a volume.
    Held(Held),
}

/// The attributes of a file or directory besides its content.
#[derive(Default)]
pub(super) struct Extras {
    pub streams: Vec<Stream>,
    pub extended: Vec<(String, Vec<u8>)>,
    /// A reparse point that is no symbolic link and that a mount of Linux does not represent.
    pub reparse: Option<Reparse>,
    /// A security descriptor that differs from the one that new files get.
    pub security: Option<Vec<u8>>,
    /// The number of access lists, capabilities and similar attributes of the host, which a copy does not keep.
    pub rights: u64,
    /// The number of snapshots, which a copy does not keep.
    pub snapshots: u64,
    /// The errors of attributes that could not be read.
    pub failures: Vec<Error>,
}
