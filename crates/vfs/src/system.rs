//! The contract.

use crate::blocking::{plan_when_free, read_in_steps};
use crate::{
    Attributes, Capabilities, Change, Cursor, Entry, Error, Extent, Integrity, Kind, Name, Node, NodeStream,
    Plan, Progress, RenameFlags, Reparse, Result, Space, SyncScope, Timestamp, VolumeInfo,
};
use platter_device::{Buffer, Device, Queue};
use std::ops::Range;
use std::sync::Arc;

/// An open volume, usable from many threads at once.
///
/// # Nodes
/// [`FileSystem::lookup`], [`FileSystem::create`] and the like hand out node numbers and count each hand-out, as FUSE
/// does. A node stays usable until [`FileSystem::forget`] has been called for every hand-out, also when its last name
/// is gone: only then are its clusters freed. The root needs no counting.
///
/// # Durability
/// Nothing is promised to survive a power cut until [`FileSystem::sync`] or [`FileSystem::sync_all`] returns.
/// After a cut the volume holds, for everything synced and not changed since, exactly what was synced; `check` with
/// repair makes the rest consistent.
///
/// # Optional parts
/// What a format cannot do answers [`Error::Unsupported`]; that is what the provided methods do.
/// [`FileSystem::capabilities`] says so beforehand.
pub trait FileSystem: Send + Sync {
    /// The format's name, for error messages: "FAT32", "ReFS".
    fn format_name(&self) -> &'static str;

    /// What the volume says of itself.
    fn info(&self) -> Result<VolumeInfo>;

    /// What it can do.
    fn capabilities(&self) -> &Capabilities;

    /// The device below, on which plans are carried out.
    fn device(&self) -> &Arc<dyn Device>;

    /// A queue on the device below for at most `depth` plans in flight, for use by one thread. A format that puts new
    /// data behind the last joins what different plans write there.
    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(self.device().queue(depth)?)
    }

    /// Space in all and free, exact at this moment.
    fn space(&self) -> Result<Space>;

    /// Changes the label. An empty one removes it.
    fn set_label(&self, label: &str) -> Result<()>;

    // Names

    /// The node that `name` leads to in `directory`, by the volume's own case rule.
    fn lookup(&self, directory: Node, name: &Name) -> Result<Node>;

    /// The same, if the directory has the name exactly so, in upper and lower case too: for those who take names that
    /// differ in case alone for different ones.
    fn lookup_exact(&self, directory: Node, name: &Name) -> Result<Node>;

    /// Gives back `count` hand-outs of a node.
    fn forget(&self, node: Node, count: u64);

    /// Makes an empty file or directory. [`Kind::SymbolicLink`] is refused: see [`FileSystem::symlink`].
    fn create(&self, directory: Node, name: &Name, kind: Kind) -> Result<Node>;

    /// Removes the name of a file or symbolic link.
    fn unlink(&self, directory: Node, name: &Name) -> Result<()>;

    /// Removes an empty directory.
    fn rmdir(&self, directory: Node, name: &Name) -> Result<()>;

    /// Moves an entry, also to another directory. Renaming to the same name in other case changes the case.
    fn rename(&self, from: Node, name: &Name, to: Node, new_name: &Name, flags: RenameFlags) -> Result<()>;

    /// Gives a file a further name.
    fn link(&self, _node: Node, _directory: Node, _name: &Name) -> Result<()> {
        self.unsupported("hard links")
    }

    /// Makes a symbolic link to `target`, which is not looked at.
    fn symlink(&self, _directory: Node, _name: &Name, _target: &str) -> Result<Node> {
        self.unsupported("symbolic links")
    }

    /// Where a symbolic link leads.
    fn read_link(&self, _node: Node) -> Result<String> {
        self.unsupported("symbolic links")
    }

    /// Appends up to `most` entries after `cursor` to `entries`; none are left when it appends none.
    ///
    /// Of a directory that is damaged in part, all that can be read is listed. The call that has nothing left to append
    /// then fails and says what could not be read, so that whoever reads to the end knows that something is missing.
    /// Each entry's cursor lies behind the one it was read from: a walk ends, whatever the directory holds.
    fn read_directory(
        &self,
        directory: Node,
        cursor: Cursor,
        most: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<()>;

    /// The directory that holds this directory; the root's is the root. For files: [`Error::NotADirectory`].
    fn parent(&self, directory: Node) -> Result<Node>;

    // Attributes

    /// A node's attributes.
    fn attributes(&self, node: Node) -> Result<Attributes>;

    /// Changes attributes and returns them as they are now.
    fn set_attributes(&self, node: Node, change: &Change) -> Result<Attributes>;

    /// Keeps when a node's content was last read, and nothing else: unlike [`FileSystem::set_attributes`] this is no change
    /// of the node, whose time of change stays. A format that does not keep it so does nothing.
    fn note_access(&self, _node: Node, _at: Timestamp) -> Result<()> {
        Ok(())
    }

    // Data

    /// Returns when no caller has a range of the node's content for itself: after [`Error::Busy`]. To be called without
    /// a plan in flight on the node, for which that caller may be waiting.
    fn wait_until_free(&self, _node: Node) {}

    /// First half of a read: fills `plan` with the device segments for `length` bytes from `offset`, or as many as
    /// there are before the end of the file. Both are multiples of the device's logical sector.
    ///
    /// # Errors
    /// [`Error::Busy`] while another caller has part of the range for itself: see [`FileSystem::wait_until_free`].
    fn plan_read(&self, node: Node, offset: u64, length: usize, plan: &mut Plan) -> Result<()>;

    /// Second half: `buffer` holds what the segments brought, or `done` is their failure. Verifies where the file has
    /// checksums, fills holes with zeroes, and returns how many bytes of the buffer are the file's.
    fn finish_read(
        &self,
        plan: &mut Plan,
        buffer: &mut [u8],
        done: platter_device::Result<()>,
    ) -> Result<usize>;

    /// First half of a write of `data` at `offset`: allocates what is needed and fills `plan`. `offset` and the
    /// length are multiples of the device's logical sector. Until the second half, a reader sees the old content
    /// or, where clusters are overwritten in place, either.
    ///
    /// # Errors
    /// [`Error::Busy`] while another caller has part of the range for itself: see [`FileSystem::wait_until_free`].
    fn plan_write(&self, node: Node, offset: u64, data: &[u8], plan: &mut Plan) -> Result<()>;

    /// Does what takes long with a planned request's data, such as checksums, for its second half to find done: with all
    /// that is written while the device carries it out ([`Queue::submit_beside`]); with each part that was read, which
    /// is `at` so many bytes in the buffer, while others are on their way ([`Queue::submit_in_parts`]). Not to call it
    /// costs time alone.
    fn work_beside(&self, _plan: &mut Plan, _at: usize, _data: &[u8]) {}

    /// Second half, with the same data: records what was written (size, extents, checksums, times), or undoes the first
    /// half if `done` is a failure. Returns whether [`FileSystem::sync`] is needed before the data that the device has
    /// made durable can be found after a power cut: `false` for clusters overwritten in place, if what leads to them is
    /// durable itself.
    fn finish_write(&self, plan: &mut Plan, data: &[u8], done: platter_device::Result<()>) -> Result<bool>;

    /// Reads up to `buffer.len()` bytes from any `offset`; fewer only at the end of the file.
    fn read(&self, node: Node, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut plan = Plan::default();
        let sector = u64::from(self.device().sectors().logical);
        read_in_steps(offset, buffer, sector, |position, part| {
            let length = part.len();
            plan_when_free(
                || self.plan_read(node, position, length, &mut plan),
                || self.wait_until_free(node),
            )?;
            let done = plan.read_from(&**self.device(), part);
            self.finish_read(&mut plan, part, done)
        })
    }

    /// Writes all of `data` at any `offset`, extending the file as needed. Up to 1 MiB of whole clusters, or what lies in
    /// one, is taken as a whole: refused for want of space, it has changed nothing. Of anything else a beginning may be
    /// written then, as `write(2)` may do less than it was asked.
    fn write(&self, node: Node, offset: u64, data: &[u8]) -> Result<()>;

    /// Allocates the range without changing its content; `keep_size` leaves the file's size alone. All of it or nothing.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; [`Error::Unsupported`] for files of which every write takes new clusters, too.
    fn allocate(&self, _node: Node, _range: Range<u64>, _keep_size: bool) -> Result<()> {
        self.unsupported("preallocation")
    }

    /// Makes the range read as zeroes and gives its whole clusters back.
    fn punch(&self, _node: Node, _range: Range<u64>) -> Result<()> {
        self.unsupported("holes in files")
    }

    /// Where the file's content lies, in file order, gaps included as [`crate::Place::Hole`].
    fn extents(&self, node: Node) -> Result<Vec<Extent>>;

    /// Makes `length` bytes of `to` share the clusters of `from`. Offsets and length are multiples of the cluster.
    fn clone_range(&self, _from: Node, _offset: u64, _to: Node, _to_offset: u64, _length: u64) -> Result<()> {
        self.unsupported("shared clusters")
    }

    // Streams and extended attributes

    /// A node's named streams.
    fn streams(&self, _node: Node) -> Result<Vec<NodeStream>> {
        self.unsupported("named streams")
    }

    /// The node of a named stream, for reading and writing like a file; made if `create` and not there.
    fn stream(&self, _node: Node, _name: &Name, _create: bool) -> Result<Node> {
        self.unsupported("named streams")
    }

    /// Removes a named stream.
    fn remove_stream(&self, _node: Node, _name: &Name) -> Result<()> {
        self.unsupported("named streams")
    }

    /// Names of a node's extended attributes.
    fn extended_attributes(&self, _node: Node) -> Result<Vec<String>> {
        self.unsupported("extended attributes")
    }

    /// The value of an extended attribute.
    fn extended_attribute(&self, _node: Node, _name: &str) -> Result<Vec<u8>> {
        self.unsupported("extended attributes")
    }

    /// Sets (`Some`) or removes (`None`) an extended attribute.
    fn set_extended_attribute(&self, _node: Node, _name: &str, _value: Option<&[u8]>) -> Result<()> {
        self.unsupported("extended attributes")
    }

    // Reparse points and security descriptors

    /// A node's reparse point, in its own bytes. Those that are symbolic links have [`FileSystem::read_link`] too.
    fn reparse_point(&self, _node: Node) -> Result<Option<Reparse>> {
        self.unsupported("reparse points")
    }

    /// Gives a node a reparse point (`Some`) or takes it away (`None`). A file with content cannot become a symbolic
    /// link.
    fn set_reparse_point(&self, _node: Node, _point: Option<&Reparse>) -> Result<()> {
        self.unsupported("reparse points")
    }

    /// Who may do what with a node: a self-relative Windows security descriptor.
    fn security_descriptor(&self, _node: Node) -> Result<Vec<u8>> {
        self.unsupported("security descriptors")
    }

    /// Gives a node another security descriptor. It is kept and not enforced.
    fn set_security_descriptor(&self, _node: Node, _descriptor: &[u8]) -> Result<()> {
        self.unsupported("security descriptors")
    }

    // Integrity and snapshots

    /// Whether a file's data is checksummed; for a directory, whether new entries inherit that.
    fn integrity(&self, _node: Node) -> Result<Integrity> {
        self.unsupported("integrity streams")
    }

    /// Turns checksums on or off, also on a file that has data.
    fn set_integrity(&self, _node: Node, _integrity: Integrity) -> Result<()> {
        self.unsupported("integrity streams")
    }

    /// [`FileSystem::set_integrity`] that says how far it is, in bytes: a large file is read from end to end.
    fn set_integrity_watched(&self, node: Node, integrity: Integrity, _watch: &dyn Progress) -> Result<()> {
        self.set_integrity(node, integrity)
    }

    /// Names of a file's snapshots.
    fn snapshots(&self, _node: Node) -> Result<Vec<Name>> {
        self.unsupported("file snapshots")
    }

    /// Keeps the file's present content under this name.
    fn create_snapshot(&self, _node: Node, _name: &Name) -> Result<()> {
        self.unsupported("file snapshots")
    }

    /// Removes a snapshot.
    fn remove_snapshot(&self, _node: Node, _name: &Name) -> Result<()> {
        self.unsupported("file snapshots")
    }

    // Durability

    /// Returns when the node survives a power cut as it is now.
    fn sync(&self, node: Node, scope: SyncScope) -> Result<()>;

    /// First half of a sync of writes that are planned and not finished, for those that need one
    /// [beside](crate::SyncNeed::Beside) them: fills `buffer` with what tells of them, and `plan` with its place. The
    /// caller carries it out like theirs, durable on the device, at the same time; so a write that waits until it is
    /// durable waits no longer than one that needs no sync.
    ///
    /// `false` if that cannot be now, or [work beside](FileSystem::work_beside) one of them is not done; then they need
    /// [`FileSystem::sync`] when they are finished. Others that sync meanwhile wait a little for it to be finished, by
    /// whichever thread; then they go on, and it is made durable once more when it is.
    fn plan_sync(
        &self,
        _writes: &mut dyn Iterator<Item = &mut Plan>,
        _plan: &mut Plan,
        _buffer: &mut Buffer,
    ) -> Result<bool> {
        Ok(false)
    }

    /// Second half, after every one of the writes is finished: when it returns they survive a power cut. If one of
    /// them failed, the others do.
    fn finish_sync(&self, _plan: &mut Plan, _done: platter_device::Result<()>) -> Result<()> {
        Err(Error::InvalidArgument("no sync was planned"))
    }

    /// Returns when the whole volume survives a power cut as it is now.
    fn sync_all(&self) -> Result<()>;

    /// Syncs everything and marks the volume clean. Afterwards every change fails with [`Error::ReadOnly`].
    /// Dropping a volume without this leaves it as a power cut would.
    fn unmount(&self) -> Result<()>;

    /// Refuses what the format does not have.
    #[doc(hidden)]
    fn unsupported_error(&self, what: &'static str) -> Error {
        Error::Unsupported { format: self.format_name(), what }
    }
}

/// Shorthand for the provided methods.
trait Unsupported {
    fn unsupported<T>(&self, what: &'static str) -> Result<T>;
}

impl<F: FileSystem + ?Sized> Unsupported for F {
    fn unsupported<T>(&self, what: &'static str) -> Result<T> {
        Err(self.unsupported_error(what))
    }
}
