//! An open volume of a [`Family`], that is, of FAT or exFAT.
//!
//! # What a power cut leaves
//! Changes of names, sizes and chains are collected in memory. A commit writes them in phases, with a flush between
//! each two that have something to write:
//!
//! 0. data, and the zeroes in clusters by which directories grew, which are written when the change is made;
//! 1. the sectors by which clusters come into use (entries of the table, bits of the bitmap); then, where directories
//!    grew, the links to their new clusters;
//! 2. directory entries that are new or changed, with their sizes and first clusters; a label that is not a directory
//!    entry;
//! 3. the sectors with slots of removed entries erased;
//! 4. the sectors by which clusters go out of use, and the count of free clusters.
//!
//! Before the first phase the volume is marked as in use. So at every moment each name on disk leads to a chain that is
//! complete and holds what was written before. A power cut between phases leaves clusters to which nothing leads, a
//! chain longer than its file, or, in the middle of a rename, both names; `check` repairs all of these. Clusters that
//! were given up are not used again before the commit that gave them up is complete, and slots not before it began, so
//! that nothing to which the disk still refers is overwritten. An entry that replaces one with exactly the same name
//! takes over its slots: one sector changes, and the name exists throughout.
//!
//! The modification times of writes over existing content are kept in memory until the whole file (not only its data)
//! or the volume is synced.
//!
//! # Locks
//! In this order: the leadership of a commit, the core, a file's state. A commit holds the core while it gathers what
//! to write, not while it writes; a planned read or overwrite takes its file's state, shared, and nothing else. A
//! caller that needs a part of a file for itself claims it ([`platter_vfs::RangeLock`]) before it takes a lock.

mod commit;
mod data;
mod entries;

use entries::attributes_of;

use crate::core::{Batch, Core, Entity, ROOT};
use crate::file::{File, FileState, Files, Planned, Remembered};
use crate::{Directory, DirectoryEntry as _, Family, Heap, Images, Run, Storage};
use platter_device::sync::{FILE, METADATA, Mutex, MutexGuard, RwLockWriteGuard};
use platter_device::{Buffer, Device};
use platter_vfs::blocking::plan_when_free;
use platter_vfs::{
    Access, Attributes, Capabilities, Change, Cursor, DosFlags, Entry, Error, Extent, FileSystem,
    GroupCommit, Health, Kind, LocalTime, Name, Need, NewEntry, Node, OpenOptions, Pass, Place, Plan,
    RenameFlags, Result, Space, SyncNeed, SyncScope, Timestamp, VolumeInfo, block_size,
};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// When this many bytes of changes wait, the next operation commits them.
const BACKLOG: usize = 48 << 20;
/// The most zeroes that are written at once, in bytes.
const ZEROES: usize = 1 << 20;

/// An open volume; the module describes its guarantees.
pub struct Volume<F: Family> {
    /// A number that tells this volume's plans from those of other volumes.
    id: u64,
    device: Arc<dyn Device>,
    heap: Heap,
    /// The device's logical sector in bytes. Kept here because asking the device may pass through several wrapped
    /// devices.
    sector: u32,
    /// The size in bytes of the blocks that are written whole where a file ends: see [`first_in_block`].
    block: u32,
    name: &'static str,
    capabilities: Capabilities,
    core: Mutex<Core<F>, METADATA>,
    files: Arc<Files>,
    /// The group commit, which decides which caller commits.
    group: GroupCommit<()>,
    /// The number of the last change that is durable.
    committed: AtomicU64,
    health: Arc<Health>,
}

impl<F: Family> Volume<F> {
    /// Opens a volume.
    ///
    /// # Errors
    /// [`Error::NotThisFormat`] and [`Error::Damaged`] if the first structures are not valid, and the errors of the
    /// device.
    pub fn open(device: Arc<dyn Device>, options: OpenOptions) -> Result<Volume<F>> {
        let read_only = options.read_only || device.why_read_only().is_some();
        let mut core = F::open(device, read_only)?;
        core.local = options.local_time;
        if core.device.end() == core.device.len() && options.read_only {
            core.health.close(Health::OPENED_SO);
        } else if let Some(why) = core.device.why_read_only() {
            core.health.close(why);
        }
        core.health.settle(&*core.device);
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Ok(Volume {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name: core.family.name(),
            capabilities: core.family.capabilities(),
            health: core.health.clone(),
            files: core.files.clone(),
            sector: core.device.sectors().logical,
            block: block_size(core.heap.cluster_size(), core.device.sectors().logical),
            device: core.device.clone(),
            heap: core.heap,
            core: Mutex::new(core),
            group: GroupCommit::default(),
            committed: AtomicU64::new(0),
        })
    }

    fn core(&self) -> MutexGuard<'_, Core<F>, METADATA> {
        self.core.lock()
    }

    fn now(&self) -> Timestamp {
        self.device.now().into()
    }

    /// Runs an operation that may need space. If it fails for want of space although a commit will free some, commits
    /// and runs it again. Afterwards commits if too many changes wait.
    fn with_space<T>(&self, mut run: impl FnMut() -> Result<T>) -> Result<T> {
        let mut result = run();
        if matches!(result, Err(Error::NoSpace | Error::DirectoryFull { .. })) {
            let hope = {
                let core = self.core();
                core.waiting > 0 || core.change.erases
            };
            if hope {
                self.make_durable(Need::Commit)?;
                result = run();
            }
        }
        if result.is_ok() {
            let backlog = self.core().backlog();
            if backlog > BACKLOG {
                self.make_durable(Need::Commit)?;
            }
        }
        result
    }

    /// Looks up a name and hands its node out: by the case rule, or with `exact` only if the case matches too.
    fn lookup_entry(&self, directory: Node, name: &Name, exact: bool) -> Result<Node> {
        let mut core = self.core();
        core.is_living_directory(directory.0)?;
        let content = core.directory(directory.0)?;
        let slot = content.find(name).filter(|slot| !exact || content.name(*slot) == *name);
        let slot = slot.ok_or(Error::NotFound)?;
        let number = core.enter(directory.0, slot)?;
        let entity = core.entity_mut(number)?;
        entity.handed += 1;
        if let Some(file) = &entity.file {
            file.released.store(false, Ordering::SeqCst);
        }
        Ok(Node(number))
    }
}

impl<F: Family> FileSystem for Volume<F> {
    fn format_name(&self) -> &'static str {
        self.name
    }

    fn info(&self) -> Result<VolumeInfo> {
        let mut info = F::info(&mut self.core())?;
        info.read_only = self.health.obstacle().map(String::from);
        Ok(info)
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    fn space(&self) -> Result<Space> {
        Ok(Space {
            cluster: self.heap.cluster_size(),
            total: u64::from(self.heap.count),
            free: u64::from(self.core().free()),
            reserved: 0,
        })
    }

    fn set_label(&self, label: &str) -> Result<()> {
        self.with_space(|| {
            let mut core = self.core();
            core.writable()?;
            F::set_label(&mut core, label)
        })
    }

    fn lookup(&self, directory: Node, name: &Name) -> Result<Node> {
        self.lookup_entry(directory, name, false)
    }

    fn lookup_exact(&self, directory: Node, name: &Name) -> Result<Node> {
        self.lookup_entry(directory, name, true)
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

    fn make(&self, directory: Node, name: &Name, new: &NewEntry<'_>) -> Result<Node> {
        new.check()?;
        if new.kind == Kind::SymbolicLink {
            return Err(self.unsupported_error("symbolic links"));
        }
        if new.point.is_some() {
            return Err(self.unsupported_error("reparse points"));
        }
        if !new.extended.is_empty() {
            return Err(self.unsupported_error("extended attributes"));
        }
        self.free_short(directory.0, name)?;
        self.with_space(|| {
            let mut core = self.core();
            let number = self.create_entry(&mut core, directory.0, name, new.kind)?;
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
        self.free_short(to.0, new_name)?;
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
        let content = core.directory(directory.0)?;
        let slots: Vec<u32> = content.slots().keys_from(from).take(most).collect();
        if let Some(damage) = content.damage().filter(|_| slots.is_empty()) {
            return Err(Error::Damaged(damage.clone()));
        }
        for slot in slots {
            let content = core.directory(directory.0)?;
            let name = content.name(slot);
            let attributes = match core.places.get(&(directory.0, slot)).copied() {
                Some(number) => self.entity_attributes(&mut core, number)?,
                None => {
                    let entry = core.directory(directory.0)?.entry(slot);
                    let allocated = self.allocated(&mut core, None, &entry);
                    attributes_of(&entry, true, allocated, core.local)
                }
            };
            let node = core.places.get(&(directory.0, slot)).copied().map(Node);
            entries.push(Entry { name, node, attributes, next: Cursor(u64::from(slot) + 1) });
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
        core.absorb(node.0);
        let offset = core.local;
        let entity = core.entity_mut(node.0)?;
        if node.0 != ROOT {
            let entry = &mut entity.entry;
            let before = entry.clone();
            if let Some(flags) = change.flags {
                entry.set_flags(flags);
            }
            entry.set_times([change.created, change.modified, change.accessed], offset);
            let changed = *entry != before;
            let read_only = entry.flags().contains(DosFlags::READ_ONLY);
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
        let mut known = self.remember(node, plan)?;
        let pass = self.shared(&known.file, |state| {
            let covered = state.seen().saturating_sub(offset).min(length as u64);
            plan.length = covered as usize;
            let pass = known.file.enter(offset..offset + length as u64, Access::Read)?;
            let filled = self.fill_read(state, offset..offset + covered, plan);
            if filled.is_err() {
                known.file.leave(pass);
            }
            filled.map(|()| pass)
        })?;
        known.planned = Some((Planned::Read, pass));
        plan.keep(known);
        Ok(())
    }

    fn finish_read(
        &self,
        plan: &mut Plan,
        buffer: &mut [u8],
        done: platter_device::Result<()>,
    ) -> Result<usize> {
        let (known, _, pass) = self.finishing(plan)?;
        self.leave(&known.file, pass);
        plan.keep(known);
        done?;
        plan.clear_holes(buffer);
        Ok(plan.length)
    }

    fn plan_write(&self, node: Node, offset: u64, data: &[u8], plan: &mut Plan) -> Result<()> {
        self.check_aligned(offset, data.len())?;
        plan.start(node.0, offset, data.len());
        let mut known = self.remember(node, plan)?;
        let file = &known.file;
        let end = self.check_size(offset.checked_add(data.len() as u64))?;
        let in_place = self.shared(file, |state| match end <= state.valid || data.is_empty() {
            true => self.plan_in_place(file, state, offset, data.len(), plan).map(Some),
            false => Ok(None),
        })?;
        known.planned = Some(match in_place {
            Some(planned) => planned,
            None => self.plan_extension(file, offset, data.len(), plan)?,
        });
        plan.keep(known);
        Ok(())
    }

    fn finish_write(&self, plan: &mut Plan, data: &[u8], done: platter_device::Result<()>) -> Result<bool> {
        let (known, planned, pass) = self.finishing(plan)?;
        let file = &known.file;
        let recorded = if let Planned::Extension { ticket } = planned {
            let range = plan.offset..plan.offset + plan.length as u64;
            let again =
                |state: &FileState, from| self.fill_zeroes(state, from, plan.offset, &data[..plan.length]);
            self.finish_extension(file, range, ticket, done.is_ok(), again)
        } else {
            if done.is_ok() && plan.length > 0 {
                self.touch(file);
            }
            Ok(())
        };
        self.leave(file, pass);
        plan.keep(known);
        done?;
        recorded?;
        Ok(plan.sync == SyncNeed::After)
    }

    fn write(&self, node: Node, offset: u64, data: &[u8]) -> Result<()> {
        let file = self.file(node)?;
        self.may_write(&file)?;
        self.check_size(offset.checked_add(data.len() as u64))?;
        if data.is_empty() {
            return Ok(());
        }
        if self.check_aligned(offset, data.len()).is_err() || self.is_new_block(&file, offset, data.len())? {
            return self.write_claimed(&file, offset, data);
        }
        let mut plan = Plan::default();
        plan_when_free(|| self.plan_write(node, offset, data, &mut plan), || file.wait_free())?;
        let done = plan.write_to(&*self.device, data);
        self.finish_write(&mut plan, data, done).map(drop)
    }

    fn wait_until_free(&self, node: Node) {
        if let Some(file) = self.files.get(node.0) {
            file.wait_free();
        }
    }

    fn extents_in(&self, node: Node, range: Range<u64>) -> Result<Vec<Extent>> {
        let file = self.file(node)?;
        self.shared(&file, |state| {
            let mut extents: Vec<Extent> = Vec::new();
            let range = range.start..range.end.min(state.seen());
            let mut at = range.start;
            for (range, written) in state.parts(range) {
                state.pieces(&self.heap, range, |place, length| {
                    let place = if written { Place::Device(place) } else { Place::Unwritten(place) };
                    extents.push(Extent { offset: at, length, place });
                    at += length;
                    Ok(())
                })?;
            }
            Ok(extents)
        })
    }

    fn sync(&self, node: Node, scope: SyncScope) -> Result<()> {
        if let Some(file) = self.files.get(node.0) {
            self.settle(&file)?;
        }
        let pressing = {
            let mut core = self.core();
            core.entity(node.0)?;
            core.absorb(node.0);
            let all = scope == SyncScope::All;
            if all && core.entity(node.0)?.lazy && self.health.writable().is_ok() {
                core.mark_times(node.0);
            }
            let entity = core.entity(node.0)?;
            let uncommitted = entity.changed_in > self.committed.load(Ordering::SeqCst);
            // The content of a directory is its entries; if any of them changed, the directory is pinned.
            let whole = all || entity.kind == Kind::Directory;
            uncommitted || (whole && entity.pins > 0)
        };
        self.make_durable(if pressing { Need::Commit } else { Need::Flush })
    }

    fn sync_all(&self) -> Result<()> {
        for file in self.files.all() {
            self.settle(&file)?;
        }
        // Also on a volume that refuses changes: another caller may be unmounting it at this moment.
        self.core().mark_all();
        self.make_durable(Need::Commit)
    }

    fn unmount(&self) -> Result<()> {
        // A second caller of `unmount` does everything again, so that it does not return before all is done.
        self.health.close("it is unmounted");
        // From now on every change, which is made under a lock, is refused; here the plans that were accepted before
        // are waited for.
        for file in self.files.all() {
            drop(file.claim(|_| 0..u64::MAX, Access::Write));
        }
        let removed = {
            let mut core = self.core();
            core.mark_all();
            core.drop_removed()
        };
        for (number, entity) in &removed {
            self.reap(*number, entity);
        }
        self.group.alone(|()| {
            self.commit()?;
            self.seal()
        })
    }
}
