//! The open volume: [`FileSystem`] over the core and its streams.
//!
//! # Locks
//! The core's lock covers all metadata. Each stream has a lock of its own, and reading and writing in place take no
//! other. Code that needs both takes the core's first. A commit holds the core's lock only while it gathers the
//! changes, and only the leadership of the commit while it writes them. Operations that write part of a sector, write
//! in several steps, or change the size or the holes claim their part of the stream before they take a lock
//! ([`platter_vfs::RangeLock`]).
//!
//! # What a power cut leaves
//! A commit is one group in the log: the new images of all metadata that changed. The data that this metadata points to
//! is durable before the group. The images are written to their places later, and only then forgotten by the log. So
//! after a power cut the log is replayed, by whichever driver mounts the volume next, and every structure is as after
//! the last whole commit.

mod commit;
mod data;
mod journal;
mod moving;
mod names;
mod packed;
mod quota;
mod removal;
mod reparse;
mod settle;
mod sizes;
mod slow;
mod streams;

use crate::core::{Core, DETACHED};
use crate::file::{Attr, Body, File};
use crate::layout::bytes::u32_at;
use crate::layout::{
    BootSector, ExtendedAttribute, FileName, FileTime, Kind as Type, Run, StandardInformation,
    VolumeInformation, file_flags, namespace, record_flags, record_number, reparse_from_bytes,
    timestamp_to_file_time,
};
use crate::log::Log;
use crate::open::{self, Opened};
use crate::stream::{LARGEST, Stream, StreamState};
use crate::wof::Packing;
use platter_device::Device;
use platter_device::sync::{METADATA, Mutex, MutexGuard, RwLock};
use platter_vfs::{
    Access, Attributes, Capabilities, CaseRule, Change, ChangeJournal, ChangeRecord, Claim, Commits, Cursor,
    DosFlags, Entry, Error, Extent, FileSystem, GroupCommit, Health, Kind, Name, NameRules, Need, NewEntry,
    Node, NodeStream, OpenOptions, Pass, Plan, RenameFlags, Reparse, Result, Space, SyncNeed, SyncScope,
    Timestamp, VolumeInfo,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The format's name, for error messages.
const NTFS: &str = "NTFS";

/// An open NTFS volume.
pub struct NtfsVolume {
    device: Arc<dyn Device>,
    /// Bytes of the device's logical sector, asked for once: a device may be a stack of several, which pass the
    /// question on.
    sector: u32,
    /// The size in bytes of the blocks that are written whole where a stream ends: see [`platter_vfs::first_in_block`].
    block: u32,
    /// Bytes of a cluster.
    cluster: u64,
    /// The base-2 logarithm of `cluster`.
    shift: u32,
    boot: BootSector,
    information: VolumeInformation,
    was_open: bool,
    shadow_copies: Option<String>,
    core: Mutex<Core, METADATA>,
    /// The group commit, whose leader has the log.
    group: GroupCommit<commit::Turn>,
    commits: Commits,
    /// The streams by node, for the data path.
    streams: RwLock<BTreeMap<u64, Arc<Stream>>>,
    /// Nodes whose times and sizes are to be recorded by the next commit.
    touched: Mutex<BTreeSet<u64>>,
    capabilities: Capabilities,
    /// A number that no other volume of this process has: tells plans of this volume from those of others.
    id: u64,
    /// Whether the volume was opened for writing.
    is_written: bool,
    /// Whether names are found whatever their case. If not, names that differ in case alone may stand side by side.
    ignores_case: bool,
    health: Arc<Health>,
    /// Bytes of groups that the log has room for.
    log_capacity: AtomicU64,
}

/// The `id` of the next volume that is opened in this process.
static OPENED: AtomicU64 = AtomicU64::new(1);

impl NtfsVolume {
    /// Opens the volume on a device. If it was not closed, its log is replayed first.
    ///
    /// # Errors
    /// [`Error::NotThisFormat`] and [`Error::Damaged`] if its first structures cannot be used. An obstacle to writing
    /// only makes the volume read-only.
    pub fn open(device: Arc<dyn Device>, options: OpenOptions) -> Result<NtfsVolume> {
        let Opened { device, boot, mut core, log, was_open, information, shadow_copies } =
            open::open(device, options)?;
        if let Some(log) = &log {
            // An eighth is for the changes that a commit itself adds: sizes and times, and clusters that are given
            // back.
            core.most_in_group = log.most_in_group() / 8 * 7;
        }
        let precision = Some(Duration::from_nanos(100));
        let case = if options.ignores_case { CaseRule::Insensitive } else { CaseRule::Sensitive };
        Ok(NtfsVolume {
            sector: device.sectors().logical,
            block: platter_vfs::block_size(core.geometry.cluster, device.sectors().logical),
            cluster: core.geometry.cluster,
            shift: core.geometry.cluster.trailing_zeros(),
            boot,
            information,
            was_open,
            shadow_copies,
            is_written: core.health.writable().is_ok(),
            health: core.health.clone(),
            log_capacity: AtomicU64::new(log.as_ref().map_or(64 << 20, Log::capacity)),
            core: Mutex::new(core),
            group: GroupCommit::new(commit::Turn::new(log, was_open)),
            commits: Commits::default(),
            streams: RwLock::default(),
            touched: Mutex::default(),
            capabilities: Capabilities {
                largest_file: LARGEST,
                names: NameRules { case, ..NameRules::WINDOWS },
                modified_precision: Duration::from_nanos(100),
                created_precision: precision,
                accessed_precision: precision,
                hard_links: true,
                symbolic_links: true,
                streams: true,
                extended_attributes: true,
                sparse: true,
                preallocate: true,
                integrity: false,
                clone: false,
                exchange: true,
                recovers: true,
            },
            id: OPENED.fetch_add(1, Ordering::Relaxed),
            ignores_case: options.ignores_case,
            device,
        })
    }

    fn core(&self) -> MutexGuard<'_, Core, METADATA> {
        self.core.lock()
    }

    /// The core, locked for a change. Commits first if many changes wait; fails if the volume cannot be written.
    fn change(&self) -> Result<MutexGuard<'_, Core, METADATA>> {
        self.relieve()?;
        let core = self.core();
        core.writable()?;
        Ok(core)
    }

    fn now(&self) -> u64 {
        timestamp_to_file_time(self.device.now().into()).0
    }

    /// Notes that a node's times or sizes changed.
    fn touch(&self, node: u64) {
        self.touched.lock().insert(node);
    }

    /// Runs an operation that allocates. If it finds no space, commits, which may free some, and runs it once more.
    fn with_space<T>(&self, mut operation: impl FnMut() -> Result<T>) -> Result<T> {
        match operation() {
            Err(Error::NoSpace) => {
                self.make_space()?;
                operation()
            }
            outcome => outcome,
        }
    }

    /// The attributes of a node, with the sizes and times that are not recorded yet.
    fn attributes_of(&self, core: &mut Core, node: u64) -> Result<Attributes> {
        let entity = core.nodes.get(node)?;
        let (number, part) = (entity.file, entity.part.clone());
        let own = entity.stream.clone();
        let written = written(core, node)?.iter().map(|stream| stream.written.load(Ordering::Acquire)).max();
        let file = core.file(number)?;
        let mut attributes = self.attributes_of_file(core, &file)?;
        if let Some((_, name)) = &part {
            attributes.kind = Kind::File;
            let attr = file.find(Type::DATA, name);
            (attributes.size, attributes.allocated) =
                attr.map_or((0, 0), |attr| (attr.size(), attr.allocated(self.cluster)));
        }
        if let (Some(stream), Kind::File) = (&own, attributes.kind) {
            let state = stream.read();
            (attributes.size, attributes.allocated) = (state.size, state.allocated(self.cluster));
            if state.packed.is_some() {
                attributes.allocated = packed::allocated_of_packed(&file, self.cluster);
            }
        }
        if let Some(written @ 1..) = written {
            attributes.modified = FileTime(written).into();
            attributes.changed = Some(attributes.modified);
            attributes.flags.0 |= DosFlags::ARCHIVE.0;
        }
        Ok(attributes)
    }

    /// The attributes of a file according to its records.
    fn attributes_of_file(&self, core: &mut Core, file: &File) -> Result<Attributes> {
        let standard = standard(file)?;
        let is_link = is_link(core, file)?;
        let is_directory = file.flags & record_flags::DIRECTORY != 0;
        let kind = match (is_link, is_directory) {
            (true, _) => Kind::SymbolicLink,
            (false, true) => Kind::Directory,
            (false, false) => Kind::File,
        };
        let data = file.find(Type::DATA, &[]);
        let (size, allocated) = match kind {
            Kind::File => match data.map_or((0, 0), |data| (data.size(), data.allocated(self.cluster))) {
                (size @ 1.., 0) => (size, packed::allocated_of_packed(file, self.cluster)),
                sizes => sizes,
            },
            Kind::SymbolicLink => {
                // What a damaged point leads to has no length.
                let target = reparse_of(core, file).ok().flatten();
                let target = target.and_then(|point| platter_vfs::reparse::target(&point).ok());
                (target.map_or(0, |target| target.len() as u64), 0)
            }
            _ => (0, 0),
        };
        let names = names_of(file).filter(|name| name.namespace != namespace::DOS).count() as u32;
        Ok(Attributes {
            kind,
            size,
            allocated,
            links: if kind == Kind::Directory { names.min(1) } else { names },
            flags: DosFlags(standard.flags & DosFlags::SETTABLE.0),
            created: Some(standard.created.into()),
            modified: standard.modified.into(),
            accessed: Some(standard.accessed.into()),
            changed: Some(standard.changed.into()),
        })
    }

    /// The file number of a node that is a directory; fails for any other node.
    fn directory(&self, core: &mut Core, node: Node) -> Result<u64> {
        let entity = core.nodes.get(node.0)?;
        if entity.part.is_some() {
            return Err(Error::NotADirectory);
        }
        let number = entity.file;
        let file = core.file(number)?;
        if file.flags & record_flags::DIRECTORY == 0 || is_link(core, &file)? {
            return Err(Error::NotADirectory);
        }
        Ok(number)
    }

    /// The file number of a directory that entries can be put into; fails for a directory that was removed.
    fn living_directory(&self, core: &mut Core, node: Node) -> Result<u64> {
        match self.directory(core, node)? {
            DETACHED.. => Err(Error::NotFound),
            number => Ok(number),
        }
    }
}

/// The open streams of a node's file: a write to any of them changes the file's times.
fn written(core: &Core, node: u64) -> Result<Vec<Arc<Stream>>> {
    let entity = core.nodes.get(node)?;
    let owner = match entity.part {
        Some((owner, _)) => core.nodes.get(owner)?,
        None => entity,
    };
    let parts = owner.parts.iter().filter_map(|part| core.nodes.get(*part).ok());
    Ok(parts.chain([owner]).filter_map(|entity| entity.stream.clone()).collect())
}

/// The value of `$STANDARD_INFORMATION`.
fn standard(file: &File) -> Result<StandardInformation> {
    StandardInformation::from_bytes(file.value(Type::STANDARD_INFORMATION).unwrap_or(&[]), 0)
}

/// Sets the change time of a file. The caller stores the file.
fn stamp_change(file: &mut File, now: FileTime) -> Result<()> {
    let mut standard = standard(file)?;
    standard.changed = now;
    file.put(Attr::resident(Type::STANDARD_INFORMATION, standard.to_bytes()));
    Ok(())
}

/// All names of a file; damaged ones are left out.
fn names_of(file: &File) -> impl Iterator<Item = FileName> + '_ {
    let names = file.attributes.iter().filter(|attr| attr.kind == Type::FILE_NAME);
    names.filter_map(|attr| FileName::from_bytes(attr.value()?, 0).ok())
}

/// The value of an attribute, resident or not. A non-resident value of more than `most` bytes is damage.
fn whole_value(core: &Core, attr: &Attr, most: u64) -> Result<Vec<u8>> {
    match attr.outside() {
        None => Ok(attr.value().unwrap_or(&[]).to_vec()),
        Some(outside) if outside.size > most => Err(Error::damaged(
            "attribute",
            0,
            format!("at most {most} bytes of {}", attr.kind),
            outside.size,
        )),
        Some(outside) => {
            let mut bytes = core.read_runs(&outside.runs, 0, outside.size)?;
            bytes[outside.valid as usize..].fill(0);
            Ok(bytes)
        }
    }
}

/// The reparse point of a file, if it has one.
fn reparse_of(core: &Core, file: &File) -> Result<Option<Reparse>> {
    match file.find(Type::REPARSE_POINT, &[]) {
        None => Ok(None),
        Some(attr) => reparse_from_bytes(&whole_value(core, attr, 1 << 16)?, 0).map(Some),
    }
}

/// The tag of a file's reparse point, if it has one. It is also known of a point whose data is damaged.
fn tag_of(core: &Core, file: &File) -> Result<Option<u32>> {
    let Some(attr) = file.find(Type::REPARSE_POINT, &[]) else { return Ok(None) };
    let value = whole_value(core, attr, 1 << 16)?;
    Ok((value.len() >= 4).then(|| u32_at(&value, 0)))
}

/// How the content of a file is packed by Windows Overlay Filter, if it is. What a damaged point says is not known.
fn packing_of(core: &Core, file: &File) -> Option<Packing> {
    Packing::of(&reparse_of(core, file).ok()??)
}

fn is_link(core: &Core, file: &File) -> Result<bool> {
    Ok(tag_of(core, file)?.is_some_and(platter_vfs::reparse::is_link))
}

impl FileSystem for NtfsVolume {
    fn format_name(&self) -> &'static str {
        NTFS
    }

    fn info(&self) -> Result<VolumeInfo> {
        let mut core = self.core();
        let label = match open::label(&mut core) {
            // The record that has the label is damaged, which is reported below as the reason for being read-only.
            Err(Error::Damaged(_)) if self.health.obstacle().is_some() => String::new(),
            label => label?,
        };
        let (major, minor) = self.information.version;
        let geometry = core.geometry;
        let mut details = vec![
            ("sector", format!("{} bytes", geometry.sector)),
            ("file record", format!("{} bytes", geometry.record)),
            ("index block", format!("{} bytes", geometry.index)),
            ("$MFT", format!("cluster {}, {} records", geometry.mft, core.record_count())),
            ("records in use", core.records_taken().to_string()),
        ];
        if let Some(copies) = &self.shadow_copies {
            details.push(("shadow copies", copies.clone()));
        }
        if core.has_journal {
            let text = "change journal: not written to, but given another identifier by the first change";
            details.push((crate::layout::journal::NAME, text.into()));
        }
        Ok(VolumeInfo {
            format: format!("NTFS {major}.{minor}"),
            label,
            identifier: format!("{:016X}", self.boot.serial),
            cluster: self.cluster,
            dirty: self.was_open || self.information.flags & crate::layout::volume_flags::DIRTY != 0,
            read_only: self.health.obstacle().map(String::from),
            damage: Vec::new(),
            has_media_failures: false,
            metadata_checksum: None,
            checkpoint: None,
            details,
        })
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    fn space(&self) -> Result<Space> {
        let core = self.core();
        let free = core.space.free();
        let reserved = core.reserve().min(free);
        Ok(Space { cluster: self.cluster, total: core.space.total(), free, reserved })
    }

    fn set_label(&self, label: &str) -> Result<()> {
        let units: Vec<u8> =
            crate::layout::label_units(label)?.into_iter().flat_map(u16::to_le_bytes).collect();
        self.with_space(|| {
            let mut core = self.change()?;
            let mut volume = (*core.file(record_number::VOLUME)?).clone();
            volume.put(Attr::resident(Type::VOLUME_NAME, units.clone()));
            core.transact(|core| core.store(volume))
        })
    }

    fn lookup(&self, directory: Node, name: &Name) -> Result<Node> {
        self.find(directory, name, false)
    }

    fn lookup_exact(&self, directory: Node, name: &Name) -> Result<Node> {
        self.find(directory, name, true)
    }

    fn forget(&self, node: Node, count: u64) {
        self.let_go(node, count);
    }

    fn make(&self, directory: Node, name: &Name, new: &NewEntry<'_>) -> Result<Node> {
        new.check()?;
        self.with_space(|| self.add_entry(directory, name, new))
    }

    fn unlink(&self, directory: Node, name: &Name) -> Result<()> {
        self.with_space(|| self.remove_entry(directory, name, false))
    }

    fn rmdir(&self, directory: Node, name: &Name) -> Result<()> {
        self.with_space(|| self.remove_entry(directory, name, true))
    }

    fn rename(&self, from: Node, name: &Name, to: Node, new_name: &Name, flags: RenameFlags) -> Result<()> {
        self.with_space(|| self.move_entry(from, name, to, new_name, flags))
    }

    fn link(&self, node: Node, directory: Node, name: &Name) -> Result<()> {
        self.with_space(|| self.add_link(node, directory, name))
    }

    fn read_link(&self, node: Node) -> Result<String> {
        match self.reparse_point(node)? {
            Some(point) => platter_vfs::reparse::target(&point),
            None => Err(Error::InvalidArgument("not a symbolic link")),
        }
    }

    fn read_directory(
        &self,
        directory: Node,
        cursor: Cursor,
        most: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<()> {
        self.list(directory, cursor, most, entries)
    }

    fn parent(&self, directory: Node) -> Result<Node> {
        self.parent_of(directory)
    }

    fn attributes(&self, node: Node) -> Result<Attributes> {
        self.attributes_of(&mut self.core(), node.0)
    }

    fn set_attributes(&self, node: Node, change: &Change) -> Result<Attributes> {
        if let Some(size) = change.size {
            self.with_space(|| self.resize(node, size))?;
        }
        self.change_attributes(node, change)
    }

    fn note_access(&self, node: Node, at: Timestamp) -> Result<()> {
        self.keep_access(node, at)
    }

    fn plan_read(&self, node: Node, offset: u64, length: usize, plan: &mut Plan) -> Result<()> {
        self.plan_reading(node, offset, length, plan)
    }

    fn finish_read(
        &self,
        plan: &mut Plan,
        buffer: &mut [u8],
        done: platter_device::Result<()>,
    ) -> Result<usize> {
        self.finish_reading(plan, buffer, done)
    }

    fn plan_write(&self, node: Node, offset: u64, data: &[u8], plan: &mut Plan) -> Result<()> {
        self.plan_writing(node, offset, data, plan, None)
    }

    fn finish_write(&self, plan: &mut Plan, data: &[u8], done: platter_device::Result<()>) -> Result<bool> {
        self.finish_writing(plan, data, done)
    }

    fn write(&self, node: Node, offset: u64, data: &[u8]) -> Result<()> {
        self.write_any(node, offset, data)
    }

    fn wait_until_free(&self, node: Node) {
        if let Ok(stream) = self.data_of(node) {
            stream.wait_free();
        }
    }

    fn allocate(&self, node: Node, range: Range<u64>, keep_size: bool) -> Result<()> {
        self.with_space(|| self.preallocate(node, range.clone(), keep_size))
    }

    fn punch(&self, node: Node, range: Range<u64>) -> Result<()> {
        self.with_space(|| self.make_hole(node, range.clone()))
    }

    fn extents_in(&self, node: Node, range: Range<u64>) -> Result<Vec<Extent>> {
        self.extents_of(node, &range)
    }

    fn streams(&self, node: Node) -> Result<Vec<NodeStream>> {
        self.streams_of(node)
    }

    fn stream(&self, node: Node, name: &Name, create: bool) -> Result<Node> {
        self.with_space(|| self.open_stream(node, name, create))
    }

    fn remove_stream(&self, node: Node, name: &Name) -> Result<()> {
        self.with_space(|| self.delete_stream(node, name))
    }

    fn extended_attributes(&self, node: Node) -> Result<Vec<String>> {
        let names = self.extended_of(&mut self.core(), node)?;
        Ok(names.iter().map(|one| one.shown_name().into_owned()).collect())
    }

    fn extended_attribute(&self, node: Node, name: &str) -> Result<Vec<u8>> {
        let (mut all, fault) = self.readable_extended_of(&mut self.core(), node)?;
        let missing = || fault.err().unwrap_or(Error::NotFound);
        let known = ExtendedAttribute::find(&all, name).ok_or_else(missing)?;
        Ok(all.swap_remove(known).value)
    }

    fn set_extended_attributes(&self, node: Node, changes: &[(&str, Option<&[u8]>)]) -> Result<()> {
        self.with_space(|| self.change_extended(node, changes))
    }

    fn reparse_point(&self, node: Node) -> Result<Option<Reparse>> {
        let mut core = self.core();
        let entity = core.nodes.get(node.0)?;
        if entity.part.is_some() {
            return Ok(None);
        }
        let number = entity.file;
        let file = core.file(number)?;
        reparse_of(&core, &file)
    }

    fn set_reparse_point(&self, node: Node, point: Option<&Reparse>) -> Result<()> {
        self.with_space(|| self.change_reparse_point(node, point))
    }

    fn security_descriptor(&self, node: Node) -> Result<Vec<u8>> {
        self.descriptor_of(node)
    }

    fn set_security_descriptor(&self, node: Node, descriptor: &[u8]) -> Result<()> {
        self.with_space(|| self.change_descriptor(node, descriptor))
    }

    fn change_journal(
        &self,
        visit: &mut dyn FnMut(Result<ChangeRecord>) -> Result<()>,
    ) -> Result<Option<ChangeJournal>> {
        self.list_journal(visit)
    }

    fn sync(&self, node: Node, _scope: SyncScope) -> Result<()> {
        self.sync_node(node.0)
    }

    fn sync_all(&self) -> Result<()> {
        self.sync_nodes()
    }

    fn unmount(&self) -> Result<()> {
        self.close()
    }
}

/// Flags of a file as `$FILE_NAME` has them.
fn name_flags(file: &File, standard: &StandardInformation) -> u32 {
    let is_directory = file.flags & record_flags::DIRECTORY != 0;
    let is_view = file.flags & record_flags::VIEW_INDEX != 0;
    standard.flags
        | if is_directory { file_flags::DIRECTORY } else { 0 }
        | if is_view { file_flags::VIEW_INDEX } else { 0 }
}

#[cfg(test)]
mod tests;
