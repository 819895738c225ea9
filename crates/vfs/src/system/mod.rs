//! The contract that every file system keeps: names, attributes and data, and parts that a format has or has not.

mod names;
mod parts;
mod transfers;

pub use names::Names;
pub use parts::{
    ExtendedAttributes, IntegrityStreams, NumberedNodes, ReparsePoints, SecurityDescriptors, Snapshots,
    Streams,
};
pub use transfers::Transfers;

use crate::blocking::{plan_when_free, read_in_steps};
use crate::{
    Attributes, Capabilities, Change, ChangeJournal, ChangeRecord, Error, Extent, Node, Plan, Result, Space,
    SyncScope, Timestamp, VolumeInfo,
};
use std::ops::Range;

/// An open volume, usable from many threads at once.
///
/// # Nodes
/// [`Names::lookup`], [`Names::create`] and the like hand out node numbers and count each hand-out, as FUSE does. A node
/// stays usable until [`Names::forget`] has been called for every hand-out, also when its last name
/// is gone: only then are its clusters freed. The root needs no counting.
///
/// # Durability
/// Nothing is promised to survive a power cut until [`FileSystem::sync`] or [`FileSystem::sync_all`] returns. After a
/// power cut, everything that was synced and not changed since is on the volume exactly as synced; `check` with repair
/// makes everything else consistent.
///
/// # Optional parts
/// A part that the volume does not have ([`FileSystem::snapshots`] and the like) is refused with
/// [`Error::Unsupported`], and so is a method for a feature that it does not have; that is what the provided methods do.
/// [`FileSystem::capabilities`] tells beforehand which features there are.
pub trait FileSystem: Names + Transfers {
    /// The format's name, for error messages: "FAT32", "ReFS".
    fn format_name(&self) -> &'static str;

    /// Label, identifier, version and other facts of the volume.
    fn info(&self) -> Result<VolumeInfo>;

    /// The features and limits of the volume.
    fn capabilities(&self) -> &Capabilities;

    /// The total and the free space, exact at the time of the call.
    fn space(&self) -> Result<Space>;

    /// Changes the label. An empty string removes it.
    fn set_label(&self, label: &str) -> Result<()>;

    // Attributes

    /// A node's attributes.
    fn attributes(&self, node: Node) -> Result<Attributes>;

    /// Changes attributes and returns all attributes as they are afterwards.
    fn set_attributes(&self, node: Node, change: &Change) -> Result<Attributes>;

    /// Sets the access time of a node and nothing else: unlike [`FileSystem::set_attributes`] this leaves the node's
    /// time of change as it is. A format that cannot store the access time alone does nothing.
    fn note_access(&self, _node: Node, _at: Timestamp) -> Result<()> {
        Ok(())
    }

    // Data

    /// Reads up to `buffer.len()` bytes from any `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the end of the range is beyond 2^64, and the errors of [`Transfers::plan_read`].
    fn read(&self, node: Node, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if offset.checked_add(buffer.len() as u64).is_none() {
            return Err(Error::InvalidArgument("offset and length together are beyond 2^64"));
        }
        let mut plan = Plan::default();
        let sector = u64::from(self.device().sectors().logical);
        read_in_steps(offset, buffer, sector, |position, part| {
            let length = part.len();
            plan_when_free(
                &mut plan,
                &**self.device(),
                |plan| self.plan_read(node, position, length, plan),
                || self.wait_until_free(node),
            )?;
            let done = plan.read_from(&**self.device(), part);
            self.finish_read(&mut plan, part, done)
        })
    }

    /// Writes all of `data` at any `offset`, extending the file as needed. A write of up to 1 MiB of whole clusters, or
    /// within one cluster, is done as a whole: if it is refused for want of space, it has changed nothing. Of any other
    /// write a beginning may have been written then, as `write(2)` may write less than it was asked.
    fn write(&self, node: Node, offset: u64, data: &[u8]) -> Result<()>;

    /// Allocates clusters for the whole range or for none of it, without changing the content; with `keep_size` the
    /// file's size stays as it is.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; [`Error::Unsupported`] also for files of which every write takes new clusters.
    fn allocate(&self, _node: Node, _range: Range<u64>, _keep_size: bool) -> Result<()> {
        self.unsupported("preallocation")
    }

    /// Makes the range read as zeroes and frees its whole clusters.
    fn punch(&self, _node: Node, _range: Range<u64>) -> Result<()> {
        self.unsupported("holes in files")
    }

    /// The extents of a range of the file's content, in file order, gaps included as [`crate::Place::Hole`]. The first
    /// and the last are cut to the range. Bytes past the end of the file have none.
    fn extents_in(&self, node: Node, range: Range<u64>) -> Result<Vec<Extent>>;

    /// The extents of all of the file's content.
    fn extents(&self, node: Node) -> Result<Vec<Extent>> {
        self.extents_in(node, 0..u64::MAX)
    }

    /// Makes `length` bytes of `to` share the clusters of `from`. Offsets and length are multiples of the cluster.
    fn clone_range(&self, _from: Node, _offset: u64, _to: Node, _to_offset: u64, _length: u64) -> Result<()> {
        self.unsupported("shared clusters")
    }

    // Optional parts

    /// Files and directories by their numbers.
    fn numbered_nodes(&self) -> Result<&dyn NumberedNodes> {
        self.unsupported("way from a number to its file")
    }

    /// Named streams.
    fn streams(&self) -> Result<&dyn Streams> {
        self.unsupported("named streams")
    }

    /// Extended attributes.
    fn extended_attributes(&self) -> Result<&dyn ExtendedAttributes> {
        self.unsupported("extended attributes")
    }

    /// Reparse points.
    fn reparse_points(&self) -> Result<&dyn ReparsePoints> {
        self.unsupported("reparse points")
    }

    /// Security descriptors.
    fn security_descriptors(&self) -> Result<&dyn SecurityDescriptors> {
        self.unsupported("security descriptors")
    }

    /// Checksums of file data.
    fn integrity(&self) -> Result<&dyn IntegrityStreams> {
        self.unsupported("integrity streams")
    }

    /// Snapshots of files.
    fn snapshots(&self) -> Result<&dyn Snapshots> {
        self.unsupported("file snapshots")
    }

    /// Calls `visit` for each record of the journal that Windows keeps of changes, in order, and for damage between them,
    /// behind which the next page of records is read. Returns the journal's limits; `None` if there is no journal.
    ///
    /// # Errors
    /// Those of `visit`, with which the listing ends, and of finding the journal.
    fn change_journal(
        &self,
        _visit: &mut dyn FnMut(Result<ChangeRecord>) -> Result<()>,
    ) -> Result<Option<ChangeJournal>> {
        self.unsupported("change journal that is read")
    }

    // Durability

    /// Makes the node durable: when this returns, the node survives a power cut as it was when the call began.
    fn sync(&self, node: Node, scope: SyncScope) -> Result<()>;

    /// Makes the whole volume durable: when this returns, the volume survives a power cut as it was when the call
    /// began.
    fn sync_all(&self) -> Result<()>;

    /// Syncs everything and marks the volume clean. Afterwards every change fails with [`Error::ReadOnly`].
    /// Dropping a volume without this leaves it as a power cut would.
    fn unmount(&self) -> Result<()>;

    /// The error for a feature that the format does not have.
    #[doc(hidden)]
    fn unsupported_error(&self, what: &'static str) -> Error {
        Error::Unsupported { format: self.format_name(), what }
    }
}

/// Shorthand for the provided methods: returns [`FileSystem::unsupported_error`].
trait Unsupported {
    fn unsupported<T>(&self, what: &'static str) -> Result<T>;
}

impl<F: FileSystem + ?Sized> Unsupported for F {
    fn unsupported<T>(&self, what: &'static str) -> Result<T> {
        Err(self.unsupported_error(what))
    }
}
