//! An open FAT volume.
//!
//! # What a power cut leaves
//! Changes of names, sizes and chains collect in memory. A commit writes them in phases, with a flush between each
//! two that have something to write:
//!
//! 0. data, and the zeroes of clusters that directories grew by, which were written when they arose;
//! 1. table entries of clusters that came into use, in all copies of the table; then, where directories grew, the
//!    links to their new clusters;
//! 2. directory entries that are new or changed, with their sizes and first clusters; the boot sector's label;
//! 3. slots of removed entries, erased;
//! 4. table entries of clusters that went out of use, and the count of free clusters.
//!
//! Before the first of them the volume is marked as in use. So at every moment each name on disk leads to a chain
//! that is whole and holds what was written before; a cut between phases leaves clusters that nothing leads to, a
//! chain longer than its file, or, in the middle of a rename, both names: all of that `check` puts right. Clusters
//! and slots that were given up are not used again before the commit that gave them up is through (slots: begun), so
//! that what the disk still refers to is not overwritten. An entry that replaces one of exactly the same name takes
//! over its slots: one sector changes, and the name is there throughout.
//!
//! Times that writes over existing content leave are kept in memory until someone syncs all of the file or the volume.
//!
//! # Locks
//! In this order: the turn to commit, a file's state, the core. The commit holds the core while it gathers what to
//! write, not while it writes; a planned read or overwrite takes its file's state, shared, and nothing else.

mod commit;
mod data;
mod entries;

use crate::chain::{Images, Run, Table};
use crate::core::{Batch, Core, Entity, ROOT};
use crate::directory::Storage;
use crate::file::{File, FileState, Files, IN_PLACE, PENDING, Remembered};
use crate::layout::{
    BootSector, DosTime, Geometry, InfoSector, LARGEST_FILE, Label, Moment, ShortEntry, ShortName,
};
use crate::space::FreeSpace;
use platter_device::{Buffer, Device};
use platter_vfs::{
    Attributes, Capabilities, Change, Cursor, DosFlags, Entry, Error, Extent, FileSystem, Kind, Name,
    NameRules, Node, OpenOptions, Place, Plan, RenameFlags, Result, Space, SyncScope, Timestamp, VolumeInfo,
};
use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLockWriteGuard};
use std::time::Duration;

/// The most bytes of the table that are kept in memory unless [`FatVolume::open_with_cache`] says otherwise: all of
/// it on volumes of up to 4 million clusters.
const TABLE_CACHE: usize = 16 << 20;
/// When so many bytes of changes wait, the next operation commits them.
const BACKLOG: usize = 48 << 20;
/// The unit in which zeroes are written.
const ZEROES: usize = 1 << 20;

/// An open FAT volume. See the module for what it promises.
pub struct FatVolume {
    /// Tells this volume's plans from others'.
    id: u64,
    device: Arc<dyn Device>,
    geometry: Arc<Geometry>,
    capabilities: Capabilities,
    offset_minutes: i32,
    core: Mutex<Core>,
    files: Arc<Files>,
    /// Held by whoever commits.
    turn: Mutex<()>,
    /// The last change that is durable.
    committed: AtomicU64,
    /// Whether changes are refused: the core says why.
    frozen: AtomicBool,
}

impl FatVolume {
    /// Opens a volume.
    ///
    /// # Errors
    /// [`Error::NotThisFormat`] and [`Error::Damaged`] if the boot sector makes no sense, and what the device answers.
    pub fn open(device: Arc<dyn Device>, options: OpenOptions) -> Result<FatVolume> {
        FatVolume::open_with_cache(device, options, TABLE_CACHE)
    }

    /// Opens a volume, and keeps about `cache` bytes of its file allocation table in memory.
    ///
    /// # Errors
    /// As [`FatVolume::open`].
    pub fn open_with_cache(device: Arc<dyn Device>, options: OpenOptions, cache: usize) -> Result<FatVolume> {
        let logical = device.sectors().logical as usize;
        if device.len() < logical.max(BootSector::SIZE) as u64 {
            return Err(not_fat("the device is smaller than a boot sector"));
        }
        let mut sector = vec![0; BootSector::SIZE.max(logical)];
        device.read_at(0, &mut sector)?;
        let boot =
            BootSector::from_bytes(sector[..BootSector::SIZE].try_into().expect("a boot sector's length"));
        let geometry = Arc::new(boot.geometry(device.len())?);
        let bytes_per_sector = geometry.bytes_per_sector as usize;
        if bytes_per_sector < logical {
            return Err(not_fat("its sectors are smaller than the device's"));
        }
        let mut first = vec![0; bytes_per_sector];
        device.read_at(0, &mut first)?;

        let mut table = Table::new(device.clone(), geometry.clone(), cache);
        let mut space = FreeSpace::new(geometry.last_cluster(), geometry.cluster_size);
        let mut run = (0, 0);
        table.scan(|cluster, value| {
            if value != 0 {
                return;
            }
            if run.0 + run.1 == cluster {
                run.1 += 1;
            } else {
                space.give(run.0, run.1);
                run = (cluster, 1);
            }
        })?;
        space.give(run.0, run.1);

        let info = match geometry.info_sector {
            Some(sector) => {
                let offset = geometry.sector_offset(sector);
                let mut bytes = vec![0; bytes_per_sector];
                device.read_at(offset, &mut bytes)?;
                let head = bytes[..InfoSector::SIZE].try_into().expect("an information sector's length");
                let info = InfoSector::from_bytes(head);
                space.start_at(info.next);
                info.is_valid().then_some((offset, bytes))
            }
            None => None,
        };
        let table_dirty = match crate::layout::clean_bits(geometry.kind) {
            Some((clean, _)) => table.get(1)? & clean == 0,
            None => false,
        };
        let was_dirty = boot.state.dirty() || table_dirty;
        let mut core = Core::new(
            device.clone(),
            geometry.clone(),
            table,
            space,
            first,
            boot.state_offset(),
            was_dirty,
            info,
        );
        if options.read_only {
            core.frozen = Some("it was opened so".into());
        } else if device.read_only() {
            core.frozen = Some("the device is".into());
        }
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Ok(FatVolume {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            capabilities: capabilities(),
            offset_minutes: options.local_offset_minutes,
            frozen: AtomicBool::new(core.frozen.is_some()),
            files: core.files.clone(),
            core: Mutex::new(core),
            turn: Mutex::new(()),
            committed: AtomicU64::new(0),
            device,
            geometry,
        })
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self, moment: Moment) -> DosTime {
        DosTime::from_timestamp(self.device.now().into(), self.offset_minutes, moment)
    }

    /// Runs something that may need space, and if there is none although some waits for a commit, commits and runs
    /// it again. Afterwards commits if too much waits.
    fn with_space<T>(&self, mut run: impl FnMut() -> Result<T>) -> Result<T> {
        let mut result = run();
        if matches!(result, Err(Error::NoSpace)) {
            let (id, hope) = {
                let core = self.core();
                (core.change.id, core.waiting > 0 || core.change.erases)
            };
            if hope {
                self.commit_through(id)?;
                result = run();
            }
        }
        if result.is_ok() {
            let (id, backlog) = {
                let core = self.core();
                (core.change.id, core.backlog())
            };
            if backlog > BACKLOG {
                self.commit_through(id)?;
            }
        }
        result
    }
}

fn not_fat(reason: &str) -> Error {
    Error::NotThisFormat { format: "FAT", reason: reason.into() }
}

/// What every FAT volume can do.
fn capabilities() -> Capabilities {
    Capabilities {
        largest_file: LARGEST_FILE,
        names: NameRules::WINDOWS,
        modified_precision: Duration::from_secs(2),
        created_precision: Some(Duration::from_millis(10)),
        accessed_precision: Some(Duration::from_secs(86_400)),
        hard_links: false,
        symbolic_links: false,
        streams: false,
        extended_attributes: false,
        sparse: false,
        // A chain longer than its file is damage to every other FAT driver.
        preallocate: false,
        integrity: false,
        clone: false,
        // Two entries in different sectors cannot change places without a moment in which one file has no name.
        exchange: false,
    }
}

impl FileSystem for FatVolume {
    fn format_name(&self) -> &'static str {
        self.geometry.kind.name()
    }

    fn info(&self) -> Result<VolumeInfo> {
        let mut core = self.core();
        let head = core.boot[..BootSector::SIZE].try_into().expect("a boot sector's length");
        let boot = BootSector::from_bytes(head);
        let root = core.directory(ROOT)?;
        let label = match root.label {
            Some(slot) => Label(root.short(slot).name.0).to_string(),
            None if boot.is_extended() && boot.label != BootSector::NO_NAME => Label(boot.label).to_string(),
            None => String::new(),
        };
        let geometry = &self.geometry;
        Ok(VolumeInfo {
            format: geometry.kind.name().into(),
            label,
            identifier: format!("{:04X}-{:04X}", boot.serial >> 16, boot.serial & 0xFFFF),
            cluster: u64::from(geometry.cluster_size),
            dirty: core.was_dirty,
            details: vec![
                ("bytes per sector", geometry.bytes_per_sector.to_string()),
                ("clusters", geometry.clusters.to_string()),
                ("copies of the FAT", geometry.fat_count.to_string()),
                ("sectors per FAT", geometry.fat_sectors.to_string()),
                ("first data sector", geometry.first_data_sector.to_string()),
            ],
        })
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    fn space(&self) -> Result<Space> {
        Ok(Space {
            cluster: u64::from(self.geometry.cluster_size),
            total: u64::from(self.geometry.clusters),
            free: u64::from(self.core().free()),
        })
    }

    fn set_label(&self, label: &str) -> Result<()> {
        let label = if label.is_empty() { None } else { Some(Label::new(label)?) };
        self.with_space(|| {
            let mut core = self.core();
            core.writable()?;
            if label.is_some() && core.directory(ROOT)?.label.is_none() {
                core.make_room(ROOT, 1)?;
            }
            let entry = label.map(|label| ShortEntry {
                name: ShortName(label.0),
                attributes: crate::layout::Attributes(crate::layout::Attributes::LABEL),
                modified: self.now(Moment::Modified),
                ..ShortEntry::default()
            });
            let geometry = self.geometry.clone();
            core.pin(ROOT);
            core.directory(ROOT)?.set_label(entry, &geometry);
            let head = core.boot[..BootSector::SIZE].try_into().expect("a boot sector's length");
            let mut boot = BootSector::from_bytes(head);
            if boot.is_extended() {
                boot.label = label.map_or(BootSector::NO_NAME, |label| label.0);
                core.boot[..BootSector::SIZE].copy_from_slice(&boot.to_bytes());
                core.change.boot = true;
            }
            Ok(())
        })
    }

    fn lookup(&self, directory: Node, name: &Name) -> Result<Node> {
        let mut core = self.core();
        core.is_living_directory(directory.0)?;
        let slot = core.directory(directory.0)?.find(name).ok_or(Error::NotFound)?;
        let number = core.enter(directory.0, slot)?;
        let entity = core.entity_mut(number)?;
        entity.handed += 1;
        if let Some(file) = &entity.file {
            file.released.store(false, Ordering::SeqCst);
        }
        Ok(Node(number))
    }

    fn forget(&self, node: Node, count: u64) {
        let idle = {
            let mut core = self.core();
            let Ok(entity) = core.entity_mut(node.0) else { return };
            entity.handed = entity.handed.saturating_sub(count);
            entity.handed == 0
        };
        if idle {
            self.let_go(node.0);
        }
    }

    fn create(&self, directory: Node, name: &Name, kind: Kind) -> Result<Node> {
        if kind == Kind::SymbolicLink {
            return Err(Error::InvalidArgument("a symbolic link needs a target"));
        }
        self.with_space(|| {
            let mut core = self.core();
            let number = self.create_entry(&mut core, directory.0, name, kind)?;
            core.entity_mut(number)?.handed = 1;
            Ok(Node(number))
        })
    }

    fn unlink(&self, directory: Node, name: &Name) -> Result<()> {
        self.remove(directory, name, |core, number| match core.entity(number)?.kind {
            Kind::Directory => Err(Error::IsADirectory),
            _ => Ok(()),
        })
    }

    fn rmdir(&self, directory: Node, name: &Name) -> Result<()> {
        self.remove(directory, name, |core, number| match core.directory(number)?.is_empty() {
            true => Ok(()),
            false => Err(Error::NotEmpty),
        })
    }

    fn rename(&self, from: Node, name: &Name, to: Node, new_name: &Name, flags: RenameFlags) -> Result<()> {
        let replace = match flags {
            RenameFlags::Replace => true,
            RenameFlags::NoReplace => false,
            RenameFlags::Exchange => {
                self.core().writable()?;
                return Err(self.unsupported_error("exchange of two entries"));
            }
        };
        let unneeded = self.with_space(|| {
            let mut core = self.core();
            self.rename_entry(&mut core, (from.0, name), (to.0, new_name), replace)
        })?;
        unneeded.into_iter().for_each(|number| self.let_go(number));
        Ok(())
    }

    fn read_directory(
        &self,
        directory: Node,
        cursor: Cursor,
        most: usize,
        entries: &mut Vec<Entry>,
    ) -> Result<()> {
        let mut core = self.core();
        let Ok(from) = u32::try_from(cursor.0) else { return core.is_directory(directory.0) };
        let slots: Vec<u32> = core.directory(directory.0)?.slots_from(from).take(most).collect();
        for slot in slots {
            let content = core.directory(directory.0)?;
            let name = content.name(slot);
            let attributes = match core.places.get(&(directory.0, slot)).copied() {
                Some(number) => self.entity_attributes(&mut core, number)?,
                None => {
                    let entry = core.directory(directory.0)?.short(slot);
                    let kind = if entry.attributes.directory() { Kind::Directory } else { Kind::File };
                    let allocated = self.allocated(&mut core, None, &entry);
                    self.attributes_of(kind, &entry, true, allocated)
                }
            };
            entries.push(Entry { name, attributes, next: Cursor(u64::from(slot) + 1) });
        }
        Ok(())
    }

    fn parent(&self, directory: Node) -> Result<Node> {
        let core = self.core();
        core.is_directory(directory.0)?;
        Ok(Node(core.entity(directory.0)?.parent))
    }

    fn attributes(&self, node: Node) -> Result<Attributes> {
        self.entity_attributes(&mut self.core(), node.0)
    }

    fn set_attributes(&self, node: Node, change: &Change) -> Result<Attributes> {
        if let Some(size) = change.size {
            let file = self.file(node)?;
            self.may_write(&file)?;
            self.check_size(Some(size))?;
            self.resize(&file, size)?;
        }
        let mut core = self.core();
        core.writable()?;
        core.absorb(node.0, self.offset_minutes);
        let entity = core.entity_mut(node.0)?;
        let time = |time: Timestamp, moment| DosTime::from_timestamp(time, self.offset_minutes, moment);
        if node.0 != ROOT {
            let entry = &mut entity.entry;
            let before = entry.clone();
            if let Some(flags) = change.flags {
                entry.attributes.0 = entry.attributes.0 & !(DosFlags::SETTABLE.0 as u8)
                    | (flags.0 & DosFlags::SETTABLE.0) as u8;
            }
            entry.created = change.created.map_or(entry.created, |at| time(at, Moment::Created));
            entry.modified = change.modified.map_or(entry.modified, |at| time(at, Moment::Modified));
            entry.accessed = change.accessed.map_or(entry.accessed, |at| time(at, Moment::Accessed));
            let changed = *entry != before;
            let read_only = entity.flags().contains(DosFlags::READ_ONLY);
            if let Some(file) = &entity.file {
                file.read_only.store(read_only, Ordering::Relaxed);
            }
            if changed {
                core.mark(node.0);
            }
        }
        self.entity_attributes(&mut core, node.0)
    }

    fn plan_read(&self, node: Node, offset: u64, length: usize, plan: &mut Plan) -> Result<()> {
        self.check_aligned(offset, length)?;
        plan.start(node.0, offset, 0);
        let state = self.remember(node, plan)?;
        let file = self.remembered(&state).ok_or(Error::NotFound)?;
        self.shared(file, |state| {
            let covered = state.size.saturating_sub(offset).min(length as u64);
            plan.length = covered as usize;
            state.fill(&self.geometry, offset, self.sector_end(covered), plan)?;
            file.begin();
            Ok(())
        })?;
        plan.state = Some(state);
        Ok(())
    }

    fn finish_read(
        &self,
        plan: &mut Plan,
        _buffer: &mut [u8],
        done: platter_device::Result<()>,
    ) -> Result<usize> {
        self.end(self.finishing_file(plan)?);
        done?;
        Ok(plan.length)
    }

    fn plan_write(&self, node: Node, offset: u64, data: &[u8], plan: &mut Plan) -> Result<()> {
        self.check_aligned(offset, data.len())?;
        plan.start(node.0, offset, data.len());
        let state = self.remember(node, plan)?;
        let file = self.remembered(&state).ok_or(Error::NotFound)?;
        self.may_write(file)?;
        let end = self.check_size(offset.checked_add(data.len() as u64))?;
        let in_place = self.shared(file, |state| {
            let in_place = end <= state.size || data.is_empty();
            if in_place {
                state.fill(&self.geometry, offset, data.len() as u64, plan)?;
                plan.notes[0] = IN_PLACE;
                file.begin();
            }
            Ok(in_place)
        })?;
        if !in_place {
            self.plan_extension(file, offset, data.len(), plan)?;
        }
        plan.state = Some(state);
        Ok(())
    }

    fn finish_write(&self, plan: &mut Plan, _data: &[u8], done: platter_device::Result<()>) -> Result<bool> {
        let file = self.finishing_file(plan)?;
        let extended = plan.notes[0] == PENDING;
        let recorded = if extended {
            self.finish_extension(file, plan, done.is_ok())
        } else {
            if done.is_ok() && plan.length > 0 {
                self.touch(file);
            }
            Ok(())
        };
        self.end(file);
        done?;
        recorded?;
        Ok(extended)
    }

    fn write(&self, node: Node, offset: u64, data: &[u8]) -> Result<()> {
        let file = self.file(node)?;
        self.may_write(&file)?;
        self.check_size(offset.checked_add(data.len() as u64))?;
        if data.is_empty() {
            return Ok(());
        }
        if self.check_aligned(offset, data.len()).is_err() {
            return self.write_unaligned(&file, offset, data);
        }
        let mut plan = Plan::default();
        self.plan_write(node, offset, data, &mut plan)?;
        let done = plan.segments.iter().try_for_each(|segment| {
            let at = segment.at as usize;
            self.device.write_at(segment.offset, &data[at..at + segment.length as usize])
        });
        self.finish_write(&mut plan, data, done).map(|_| ())
    }

    fn extents(&self, node: Node) -> Result<Vec<Extent>> {
        let file = self.file(node)?;
        self.shared(&file, |state| {
            let mut extents: Vec<Extent> = Vec::new();
            let mut at = 0;
            state.pieces(&self.geometry, 0..state.size, |place, length| {
                extents.push(Extent { offset: at, length, place: Place::Device(place) });
                at += length;
                Ok(())
            })?;
            Ok(extents)
        })
    }

    fn sync(&self, node: Node, scope: SyncScope) -> Result<()> {
        let (pressing, id) = {
            let mut core = self.core();
            core.entity(node.0)?;
            core.in_order()?;
            core.absorb(node.0, self.offset_minutes);
            let all = scope == SyncScope::All;
            if all && core.entity(node.0)?.lazy && core.frozen.is_none() {
                core.mark_times(node.0);
            }
            let entity = core.entity(node.0)?;
            let uncommitted = entity.changed_in > self.committed.load(Ordering::SeqCst);
            // A directory's content is its names: whenever some of them changed, it is pinned.
            let whole = all || entity.kind == Kind::Directory;
            (uncommitted || (whole && entity.pins > 0), core.change.id)
        };
        if pressing { self.commit_through(id) } else { Ok(self.device.flush()?) }
    }

    fn sync_all(&self) -> Result<()> {
        let id = {
            let mut core = self.core();
            core.in_order()?;
            if core.frozen.is_some() {
                return Ok(());
            }
            core.mark_all(self.offset_minutes);
            core.change.id
        };
        self.commit_through(id)
    }

    fn unmount(&self) -> Result<()> {
        let removed = {
            let mut core = self.core();
            core.in_order()?;
            if core.frozen.is_some() {
                return Ok(());
            }
            core.frozen = Some("it is unmounted".into());
            self.frozen.store(true, Ordering::SeqCst);
            core.mark_all(self.offset_minutes);
            core.drop_removed()
        };
        for (number, entity) in &removed {
            self.reap(*number, entity);
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.commit()?;
        let images = {
            let mut core = self.core();
            if core.was_dirty || !core.marked {
                return Ok(());
            }
            core.clean_mark()?
        };
        self.put(&images)?;
        Ok(self.device.flush()?)
    }
}
