//! Nodes that are given back when nobody needs them any more.

use platter_vfs::{Cursor, Entry, FileSystem, Name, Node, Result};
use std::sync::Arc;

/// A node of an open volume that is given back when this goes away: see [`FileSystem`] for what that means.
pub struct Held {
    /// The volume.
    pub system: Arc<dyn FileSystem>,
    /// The node.
    pub node: Node,
}

impl Held {
    /// The root directory.
    pub fn root(system: &Arc<dyn FileSystem>) -> Held {
        Held { system: system.clone(), node: Node::ROOT }
    }

    /// A node that the volume has just handed out.
    pub fn new(system: &Arc<dyn FileSystem>, node: Node) -> Held {
        Held { system: system.clone(), node }
    }

    /// Which open volume it is on, as a number.
    pub fn volume(&self) -> usize {
        Arc::as_ptr(&self.system).cast::<()>() as usize
    }

    /// Whether two nodes are on the same open volume.
    pub fn same_volume(&self, other: &Held) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.system), Arc::as_ptr(&other.system))
    }

    /// The entry of this name.
    ///
    /// # Errors
    /// As [`FileSystem::lookup`].
    pub fn child(&self, name: &Name) -> Result<Held> {
        Ok(Held::new(&self.system, self.system.lookup(self.node, name)?))
    }

    /// The node that these names lead to.
    ///
    /// # Errors
    /// As [`FileSystem::lookup`].
    pub fn find(system: &Arc<dyn FileSystem>, names: &[Name]) -> Result<Held> {
        names.iter().try_fold(Held::root(system), |held, name| held.child(name))
    }

    /// All entries that can be read, in the volume's order, and why there are no more if that is not their end.
    pub fn entries(&self) -> (Vec<Entry>, Result<()>) {
        const BATCH: usize = 256;
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let cursor = entries.last().map_or(Cursor::START, |last| last.next);
            let before = entries.len();
            let read = self.system.read_directory(self.node, cursor, BATCH, &mut entries);
            if read.is_err() || entries.len() == before {
                return (entries, read);
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.node != Node::ROOT {
            self.system.forget(self.node, 1);
        }
    }
}

/// The most directories inside each other that are followed. No format's own tools make more, so deeper ones are a
/// loop in a damaged volume.
pub const DEEPEST: usize = 512;

/// The names of a path on a volume, from the root on. `/` stands between them; `..` takes one back.
pub fn names(path: &[u8]) -> Vec<Name> {
    let mut names = Vec::new();
    for part in path.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                names.pop();
            }
            name => names.push(Name::from_bytes(name)),
        }
    }
    names
}
