//! Handles on nodes, which are given back to the file system (forgotten) when the handle is dropped.

use platter_vfs::{Change, Cursor, DosFlags, Entry, FileSystem, Name, Node, Result};
use std::sync::Arc;

/// A node of an open volume, which is given back (forgotten) when this is dropped: see [`FileSystem`] for what that
/// means.
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

    /// A number that identifies the open volume within this process.
    pub fn volume(&self) -> usize {
        Arc::as_ptr(&self.system).cast::<()>() as usize
    }

    /// Whether two nodes are on the same open volume.
    pub fn same_volume(&self, other: &Held) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.system), Arc::as_ptr(&other.system))
    }

    /// Returns the entry of this name.
    ///
    /// # Errors
    /// As [`Names::lookup`](platter_vfs::Names::lookup).
    pub fn child(&self, name: &Name) -> Result<Held> {
        Ok(Held::new(&self.system, self.system.lookup(self.node, name)?))
    }

    /// Returns the node at the path of these names, from the root on.
    ///
    /// # Errors
    /// As [`Names::lookup`](platter_vfs::Names::lookup).
    pub fn find(system: &Arc<dyn FileSystem>, names: &[Name]) -> Result<Held> {
        names.iter().try_fold(Held::root(system), |held, name| held.child(name))
    }

    /// Removes the read-only attribute of a file or directory, if it has it, so that it can be removed.
    ///
    /// # Errors
    /// As [`FileSystem::set_attributes`].
    pub fn make_removable(&self) -> Result<()> {
        let flags = self.system.attributes(self.node)?.flags;
        if flags.contains(DosFlags::READ_ONLY) {
            let flags = Some(DosFlags(flags.0 & DosFlags::SETTABLE.0 & !DosFlags::READ_ONLY.0));
            self.system.set_attributes(self.node, &Change { flags, ..Change::default() })?;
        }
        Ok(())
    }

    /// Returns all entries that can be read, in the volume's order; and an error if some could not be read.
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

/// The most nested directories that are followed. No format's own tools make more, so deeper ones mean a loop on a
/// damaged volume.
pub const DEEPEST: usize = 512;

/// Splits a path on a volume into its names, from the root on. `/` separates names, and on Windows `\` too, with which paths
/// are joined there; `..` removes the name before it.
pub fn names(path: &[u8]) -> Vec<Name> {
    let mut names = Vec::new();
    for part in path.split(|&byte| byte == b'/' || cfg!(windows) && byte == b'\\') {
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
