//! The named streams that the kernel has in its cache, and the files that they belong to.

use platter_vfs::Node;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The streams that the kernel has in its cache.
#[derive(Default)]
pub(crate) struct KnownStreams {
    known: Mutex<HashMap<u64, KnownStream>>,
}

struct KnownStream {
    /// The file that the stream belongs to. Its lookup count was raised by 1 for this stream.
    file: Node,
    /// The lookup count of the stream.
    count: u64,
    /// Whether the stream is a snapshot, which cannot be written.
    is_snapshot: bool,
}

impl KnownStreams {
    /// Adds 1 to the lookup count of a stream. Returns whether this was the first lookup, which keeps that of the file.
    pub(crate) fn came(&self, stream: Node, file: Node, is_snapshot: bool) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let one = known.entry(stream.0).or_insert(KnownStream { file, count: 0, is_snapshot });
        one.count += 1;
        one.count == 1
    }

    /// Lowers the lookup count of a stream. Returns its file if the kernel has forgotten the stream.
    pub(crate) fn left(&self, stream: Node, count: u64) -> Option<Node> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let one = known.get_mut(&stream.0)?;
        one.count = one.count.saturating_sub(count);
        if one.count > 0 {
            return None;
        }
        known.remove(&stream.0).map(|one| one.file)
    }

    /// The file of a stream, and whether the stream is a snapshot; `None` if the node is none.
    pub(crate) fn get(&self, node: Node) -> Option<(Node, bool)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&node.0).map(|one| (one.file, one.is_snapshot))
    }
}
