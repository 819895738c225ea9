//! The parts that a format has or has not. [`FileSystem`](crate::FileSystem) hands out those that a volume has.

#[cfg(doc)]
use crate::{Error, Names};
use crate::{
    Integrity, Name, Node, NodeStream, Progress, Reparse, Result, ScrubOptions, ScrubReport, Silent,
};

/// Files and directories by their numbers, for callers that keep a number after everybody has given the node back.
pub trait NumberedNodes: Send + Sync {
    /// Returns the file or directory that has this number whenever it is in use, and hands it out as [`Names::lookup`] does.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none any more, for what is not listed anywhere, such as a volume's own structures, and
    /// for nodes whose number lasts only while they are in use, as that of a named stream.
    fn find(&self, number: Node) -> Result<Node>;
}

/// Named streams of files and directories.
pub trait Streams: Send + Sync {
    /// A node's named streams.
    fn list(&self, node: Node) -> Result<Vec<NodeStream>>;

    /// Returns the node of a named stream, which is read and written like a file; with `create` a missing stream is
    /// made.
    fn open(&self, node: Node, name: &Name, create: bool) -> Result<Node>;

    /// Removes a named stream.
    fn remove(&self, node: Node, name: &Name) -> Result<()>;
}

/// Extended attributes: short values with names, of files and directories.
pub trait ExtendedAttributes: Send + Sync {
    /// Names of a node's extended attributes.
    fn list(&self, node: Node) -> Result<Vec<String>>;

    /// The value of an extended attribute.
    fn get(&self, node: Node, name: &str) -> Result<Vec<u8>>;

    /// Sets (`Some`) or removes (`None`) extended attributes: all of them or none, also after a power cut.
    ///
    /// # Errors
    /// [`Error::NotFound`] if one to be removed is missing, and [`Error::RecordFull`].
    fn set_several(&self, node: Node, changes: &[(&str, Option<&[u8]>)]) -> Result<()>;

    /// Sets (`Some`) or removes (`None`) one extended attribute.
    fn set(&self, node: Node, name: &str, value: Option<&[u8]>) -> Result<()> {
        self.set_several(node, &[(name, value)])
    }
}

/// Reparse points: what Windows hands to another driver, links among them.
pub trait ReparsePoints: Send + Sync {
    /// A node's reparse point, as raw bytes. For symbolic links see also [`Names::read_link`].
    fn get(&self, node: Node) -> Result<Option<Reparse>>;

    /// Sets (`Some`) or removes (`None`) a node's reparse point. A file with content cannot become a symbolic link.
    fn set(&self, node: Node, point: Option<&Reparse>) -> Result<()>;
}

/// Security descriptors: owner, group and permissions as Windows keeps them.
pub trait SecurityDescriptors: Send + Sync {
    /// The security descriptor of a node, in the self-relative form of Windows.
    fn get(&self, node: Node) -> Result<Vec<u8>>;

    /// Replaces the security descriptor of a node. It is stored but not enforced.
    fn set(&self, node: Node, descriptor: &[u8]) -> Result<()>;
}

/// Checksums of file data, and the scrub that verifies them.
pub trait IntegrityStreams: Send + Sync {
    /// Whether a file's data has checksums; for a directory, whether new entries inherit checksums.
    fn get(&self, node: Node) -> Result<Integrity>;

    /// Turns checksums on or off, even on a file that has data.
    fn set(&self, node: Node, integrity: Integrity) -> Result<()> {
        self.set_watched(node, integrity, &Silent)
    }

    /// [`IntegrityStreams::set`] with progress in bytes, since a large file is read from end to end.
    fn set_watched(&self, node: Node, integrity: Integrity, watch: &dyn Progress) -> Result<()>;

    /// Verifies all metadata, and about [`ScrubOptions::limit`] bytes of file data, from every copy that the device keeps,
    /// while the volume is in use, and repairs what another copy has; see [`crate::Format::scrub`]. Data that is not yet
    /// durable is not read. Whoever syncs waits meanwhile, so a large volume is scrubbed in parts.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] unless `options` has
    /// `checksums_only`, and for `salvage`: both would touch what is being changed. [`Error::ReadOnly`].
    fn scrub(&self, options: &ScrubOptions) -> Result<ScrubReport>;
}

/// Snapshots of a file: its content at one time, under a name.
pub trait Snapshots: Send + Sync {
    /// Names of a file's snapshots.
    fn list(&self, node: Node) -> Result<Vec<Name>>;

    /// Makes a snapshot of the file's present content under this name.
    fn create(&self, node: Node, name: &Name) -> Result<()>;

    /// Removes a snapshot.
    fn remove(&self, node: Node, name: &Name) -> Result<()>;
}
