//! The contract that every file system keeps.

use crate::blocking::{plan_when_free, read_in_steps};
use crate::{
    Attributes, Capabilities, Change, ChangeJournal, ChangeRecord, Cursor, Entry, Error, Extent, Integrity,
    Kind, Name, NewEntry, Node, NodeStream, Plan, Progress, RenameFlags, Reparse, Result, ScrubOptions,
    ScrubReport, Space, SyncScope, Timestamp, VolumeInfo, reparse,
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
/// Nothing is promised to survive a power cut until [`FileSystem::sync`] or [`FileSystem::sync_all`] returns. After a
/// power cut, everything that was synced and not changed since is on the volume exactly as synced; `check` with repair
/// makes everything else consistent.
///
/// # Optional parts
/// A method for a feature that the format does not have returns [`Error::Unsupported`], which is what the provided
/// methods do. [`FileSystem::capabilities`] tells beforehand which features there are.
pub trait FileSystem: Send + Sync {
    /// The format's name, for error messages: "FAT32", "ReFS".
    fn format_name(&self) -> &'static str;

    /// Label, identifier, version and other facts of the volume.
    fn info(&self) -> Result<VolumeInfo>;

    /// The features and limits of the volume.
    fn capabilities(&self) -> &Capabilities;

    /// The device of the volume, on which plans are carried out.
    fn device(&self) -> &Arc<dyn Device>;

    /// A queue on the volume's device for at most `depth` plans in flight, for use by one thread. For a format that
    /// places new data behind the last written data, the queue joins the adjacent writes of different plans.
    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(self.device().queue(depth)?)
    }

    /// The total and the free space, exact at the time of the call.
    fn space(&self) -> Result<Space>;

    /// Changes the label. An empty string removes it.
    fn set_label(&self, label: &str) -> Result<()>;

    // Names

    /// Returns the node that `name` leads to in `directory`, by the volume's own case rule.
    fn lookup(&self, directory: Node, name: &Name) -> Result<Node>;

    /// The same as [`FileSystem::lookup`], but only if the case of the name matches too, for callers to whom names that
    /// differ only in case are different.
    fn lookup_exact(&self, directory: Node, name: &Name) -> Result<Node>;

    /// Gives back `count` hand-outs of a node.
    fn forget(&self, node: Node, count: u64);

    /// Makes an entry with everything that `new` says, or none.
    ///
    /// # Errors
    /// Those of [`NewEntry::check`], and [`Error::Unsupported`] for a part of `new` that the format does not have.
    fn make(&self, directory: Node, name: &Name, new: &NewEntry<'_>) -> Result<Node>;

    /// Makes an empty file or directory. [`Kind::SymbolicLink`] is refused: see [`FileSystem::symlink`].
    fn create(&self, directory: Node, name: &Name, kind: Kind) -> Result<Node> {
        self.make(directory, name, &NewEntry::of(kind))
    }

    /// Removes the name of a file or symbolic link.
    fn unlink(&self, directory: Node, name: &Name) -> Result<()>;

    /// Removes an empty directory.
    fn rmdir(&self, directory: Node, name: &Name) -> Result<()>;

    /// Moves an entry, also to another directory. Renaming to the same name in other case changes the case.
    ///
    /// # Errors
    /// [`Error::Exists`] also if `new_name` leads to another entry whose name is spelled otherwise, whatever `flags` say:
    /// only an entry that is named exactly is replaced.
    fn rename(&self, from: Node, name: &Name, to: Node, new_name: &Name, flags: RenameFlags) -> Result<()>;

    /// Gives a file a further name (a hard link).
    fn link(&self, _node: Node, _directory: Node, _name: &Name) -> Result<()> {
        self.unsupported("hard links")
    }

    /// Makes a symbolic link to `target`, which need not exist and is not checked.
    fn symlink(&self, directory: Node, name: &Name, target: &str) -> Result<Node> {
        let point = reparse::link_to(target)?;
        self.make(directory, name, &NewEntry { kind: Kind::SymbolicLink, point: Some(&point), extended: &[] })
    }

    /// The target of a symbolic link.
    fn read_link(&self, _node: Node) -> Result<String> {
        self.unsupported("symbolic links")
    }

    /// Appends up to `most` entries after `cursor` to `entries`. If it appends none, the listing is at its end.
    ///
    /// Of a directory that is damaged in part, all readable entries are listed. The call at the end of the listing then
    /// fails with the damage, so that a caller who reads to the end learns that entries are missing. Each entry's
    /// cursor lies behind the cursor from which it was read, so a listing ends, whatever the directory holds.
    fn read_directory(
        &self,
        directory: Node,
        cursor: Cursor,
        most: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<()>;

    /// The parent of a directory; the root's is the root. For files: [`Error::NotADirectory`].
    fn parent(&self, directory: Node) -> Result<Node>;

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

    /// Waits until no caller has claimed a range of the node's content; to be called after [`Error::Busy`], and without
    /// a plan in flight on the node, because the claim may be waiting for that plan.
    fn wait_until_free(&self, _node: Node) {}

    /// First half of a read: fills `plan` with the device segments for `length` bytes from `offset`, or as many as
    /// there are before the end of the file. Both are multiples of the device's logical sector.
    ///
    /// # Errors
    /// [`Error::Busy`] while another caller has claimed part of the range: see [`FileSystem::wait_until_free`].
    fn plan_read(&self, node: Node, offset: u64, length: usize, plan: &mut Plan) -> Result<()>;

    /// Second half of a read: `buffer` holds the data of the segments, or `done` is the error of the transfers.
    /// Verifies the data where the file has checksums, fills holes with zeroes, and returns how many bytes of the
    /// buffer belong to the file.
    fn finish_read(
        &self,
        plan: &mut Plan,
        buffer: &mut [u8],
        done: platter_device::Result<()>,
    ) -> Result<usize>;

    /// First half of a write of `data` at `offset`: allocates what is needed and fills `plan`. `offset` and the length
    /// are multiples of the device's logical sector. Until the second half, a reader sees the old content or, where
    /// clusters are overwritten in place, the old or the new.
    ///
    /// # Errors
    /// [`Error::Busy`] while another caller has claimed part of the range: see [`FileSystem::wait_until_free`].
    fn plan_write(&self, node: Node, offset: u64, data: &[u8], plan: &mut Plan) -> Result<()>;

    /// Does the long computations on a planned request's data, such as checksums, ahead of its second half. For a write
    /// it is called with all data while the device carries the write out ([`Queue::submit_beside`]); for a read it is
    /// called with each part that has arrived, which begins at byte `at` of the buffer, while other parts are in flight
    /// ([`Queue::submit_in_parts`]). If it is not called, the second half does the same work and takes longer.
    fn work_beside(&self, _plan: &mut Plan, _at: usize, _data: &[u8]) {}

    /// Second half of a write, with the same data: records what was written (size, extents, checksums, times), or
    /// undoes the first half if `done` is an error. Returns whether [`FileSystem::sync`] is needed before the data that
    /// the device has made durable can be found after a power cut: `false` for clusters overwritten in place whose
    /// metadata is durable already.
    fn finish_write(&self, plan: &mut Plan, data: &[u8], done: platter_device::Result<()>) -> Result<bool>;

    /// Reads up to `buffer.len()` bytes from any `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the end of the range is beyond 2^64, and the errors of [`FileSystem::plan_read`].
    fn read(&self, node: Node, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if offset.checked_add(buffer.len() as u64).is_none() {
            return Err(Error::InvalidArgument("offset and length together are beyond 2^64"));
        }
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

    // Streams and extended attributes

    /// A node's named streams.
    fn streams(&self, _node: Node) -> Result<Vec<NodeStream>> {
        self.unsupported("named streams")
    }

    /// Returns the node of a named stream, which is read and written like a file; with `create` a missing stream is
    /// made.
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

    /// Sets (`Some`) or removes (`None`) extended attributes: all of them or none, also after a power cut.
    ///
    /// # Errors
    /// [`Error::NotFound`] if one to be removed is missing, and [`Error::RecordFull`].
    fn set_extended_attributes(&self, _node: Node, _changes: &[(&str, Option<&[u8]>)]) -> Result<()> {
        self.unsupported("extended attributes")
    }

    /// Sets (`Some`) or removes (`None`) one extended attribute.
    fn set_extended_attribute(&self, node: Node, name: &str, value: Option<&[u8]>) -> Result<()> {
        self.set_extended_attributes(node, &[(name, value)])
    }

    // Reparse points and security descriptors

    /// A node's reparse point, as raw bytes. For symbolic links see also [`FileSystem::read_link`].
    fn reparse_point(&self, _node: Node) -> Result<Option<Reparse>> {
        self.unsupported("reparse points")
    }

    /// Sets (`Some`) or removes (`None`) a node's reparse point. A file with content cannot become a symbolic link.
    fn set_reparse_point(&self, _node: Node, _point: Option<&Reparse>) -> Result<()> {
        self.unsupported("reparse points")
    }

    /// The security descriptor of a node, in the self-relative form of Windows.
    fn security_descriptor(&self, _node: Node) -> Result<Vec<u8>> {
        self.unsupported("security descriptors")
    }

    /// Replaces the security descriptor of a node. It is stored but not enforced.
    fn set_security_descriptor(&self, _node: Node, _descriptor: &[u8]) -> Result<()> {
        self.unsupported("security descriptors")
    }

    // Integrity and snapshots

    /// Whether a file's data has checksums; for a directory, whether new entries inherit checksums.
    fn integrity(&self, _node: Node) -> Result<Integrity> {
        self.unsupported("integrity streams")
    }

    /// Turns checksums on or off, even on a file that has data.
    fn set_integrity(&self, _node: Node, _integrity: Integrity) -> Result<()> {
        self.unsupported("integrity streams")
    }

    /// [`FileSystem::set_integrity`] with progress in bytes, since a large file is read from end to end.
    fn set_integrity_watched(&self, node: Node, integrity: Integrity, _watch: &dyn Progress) -> Result<()> {
        self.set_integrity(node, integrity)
    }

    /// Names of a file's snapshots.
    fn snapshots(&self, _node: Node) -> Result<Vec<Name>> {
        self.unsupported("file snapshots")
    }

    /// Makes a snapshot of the file's present content under this name.
    fn create_snapshot(&self, _node: Node, _name: &Name) -> Result<()> {
        self.unsupported("file snapshots")
    }

    /// Removes a snapshot.
    fn remove_snapshot(&self, _node: Node, _name: &Name) -> Result<()> {
        self.unsupported("file snapshots")
    }

    // Change journal

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

    /// First half of a sync of writes that are planned and not finished, for those that need one
    /// [beside](crate::SyncNeed::Beside) them: fills `buffer` with the log entry that describes the writes, and `plan`
    /// with the entry's place. The caller writes the buffer like their data, durable on the device, and at the same
    /// time; so a write that waits until it is durable waits no longer than one that needs no sync.
    ///
    /// Returns `false` if such a sync is not possible now or the [work beside](FileSystem::work_beside) one of the
    /// writes is not done; then the writes need [`FileSystem::sync`] when they are finished. Other callers that sync
    /// meanwhile wait a little until this sync is finished, by whichever thread; if it is not finished by then they go
    /// on without it, and the writes are made durable once more when it is.
    fn plan_sync(
        &self,
        _writes: &mut dyn Iterator<Item = &mut Plan>,
        _plan: &mut Plan,
        _buffer: &mut Buffer,
    ) -> Result<bool> {
        Ok(false)
    }

    /// Second half of a planned sync, after all its writes are finished: when it returns, the writes survive a power
    /// cut. If one of them failed, the others do.
    fn finish_sync(&self, _plan: &mut Plan, _done: platter_device::Result<()>) -> Result<()> {
        Err(Error::InvalidArgument("no sync was planned"))
    }

    /// Makes the whole volume durable: when this returns, the volume survives a power cut as it was when the call
    /// began.
    fn sync_all(&self) -> Result<()>;

    /// Verifies all metadata, and about [`ScrubOptions::limit`] bytes of file data, from every copy that the device keeps,
    /// while the volume is in use, and repairs what another copy has; see [`crate::Format::scrub`]. Data that is not yet
    /// durable is not read. Whoever syncs waits meanwhile, so a large volume is scrubbed in parts.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for formats without checksums. [`Error::InvalidArgument`] unless `options` has
    /// `checksums_only`, and for `salvage`: both would touch what is being changed. [`Error::ReadOnly`].
    fn scrub(&self, _options: &ScrubOptions) -> Result<ScrubReport> {
        self.unsupported("checksums to scrub")
    }

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
