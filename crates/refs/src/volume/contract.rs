//! The [`FileSystem`] contract, implemented by calls to the other parts of the volume.

use super::RefsVolume;
use super::changing::{TO_ADD, TO_CHANGE, TO_EXCHANGE};
use super::data::{Memory, Planned};
use super::streams::extended_attributes;
use crate::attributes;
use crate::core::RecordPlace;
use crate::layout::system;
use crate::layout::{CompressionPolicy, Record, Root, crc32c};
use crate::open;
use platter_device::{Buffer, Device, Gather, Queue};
use platter_vfs::{
    Attributes, Capabilities, Change, Cursor, Entry, Error, ExtendedAttributes, Extent, FileSystem,
    Integrity, IntegrityStreams, Name, Names, NewEntry, Node, NodeStream, NumberedNodes, Plan, Progress,
    RenameFlags, Reparse, ReparsePoints, Result, ScrubOptions, ScrubReport, SecurityDescriptors, Snapshots,
    Space, Streams, SyncScope, Timestamp, Transfers, VolumeInfo,
};
use std::ops::Range;
use std::sync::Arc;

impl FileSystem for RefsVolume {
    fn format_name(&self) -> &'static str {
        "ReFS"
    }

    fn info(&self) -> Result<VolumeInfo> {
        let scattered = self.scattered().len();
        let mut core = self.core();
        let label = open::label(&mut core)?;
        let sums = core.checkpoint.roots.iter().flat_map(|root| root.checksum.bytes().iter().copied());
        let roots = crc32c(&sums.collect::<Vec<u8>>());
        let checkpoint = platter_vfs::CheckpointId { clock: core.checkpoint.clock, roots };
        let mut details = vec![
            ("serial", format!("{:016x}", self.boot.serial)),
            ("containers", format!("{} of {} MiB", core.pages.map.len(), self.boot.container >> 20)),
        ];
        let policy = {
            let (tree, pages) = core.root(Root::Containers);
            CompressionPolicy::from_bytes(&tree.extra(pages)?)
        };
        details.extend(policy.map(|policy| ("compression", policy.to_string())));
        if scattered > 0 {
            let files = if scattered == 1 { "1 file".to_string() } else { format!("{scattered} files") };
            details.push(("defragmenting", format!("{files}, while nobody uses the volume")));
        }
        let identifier = core.superblock.shown_guid();
        Ok(VolumeInfo {
            format: format!("ReFS {}", self.geometry.version),
            label,
            identifier,
            cluster: u64::from(self.geometry.cluster),
            dirty: core.is_dirty,
            read_only: self.health.obstacle().map(String::from),
            damage: self.notes.clone(),
            has_media_failures: false,
            metadata_checksum: Some(self.geometry.algorithm.name()),
            checkpoint: Some(checkpoint),
            details,
        })
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn space(&self) -> Result<Space> {
        let core = self.core();
        let total = core.pages.map.len() as u64 * u64::from(self.geometry.per_container);
        Ok(Space {
            cluster: u64::from(self.geometry.cluster),
            total,
            free: core.pages.space.free(),
            reserved: 0,
        })
    }

    fn set_label(&self, label: &str) -> Result<()> {
        let units: Vec<u16> = label.encode_utf16().collect();
        if let Err((rule, reason)) = system::check_label(&units) {
            return Err(Error::InvalidName { name: label.into(), rule, reason });
        }
        let (key, value) = system::label_row(&units);
        self.as_one(TO_CHANGE, |core| {
            for object in [0x500, 0x501] {
                let (tree, pages) = core.tree_mut(object)?;
                tree.put(pages, &key, 0, &value)?;
            }
            Ok(())
        })
    }

    fn attributes(&self, node: Node) -> Result<Attributes> {
        let core = self.core();
        Ok(self.attributes_of(&core, core.entity(node.0)?))
    }

    fn set_attributes(&self, node: Node, change: &Change) -> Result<Attributes> {
        self.relieve()?;
        self.change_attributes(node, change)
    }

    fn note_access(&self, node: Node, at: Timestamp) -> Result<()> {
        self.relieve()?;
        self.keep_access(node, at)
    }

    fn write(&self, node: Node, offset: u64, data: &[u8]) -> Result<()> {
        self.relieve()?;
        self.write_bytes(node, offset, data)
    }

    fn allocate(&self, node: Node, range: Range<u64>, keep_size: bool) -> Result<()> {
        self.relieve()?;
        self.with_space(|lacks| self.allocate_range(node, range.clone(), keep_size, lacks))
    }

    fn punch(&self, node: Node, range: Range<u64>) -> Result<()> {
        self.relieve()?;
        self.punch_range(node, range)
    }

    fn extents_in(&self, node: Node, range: Range<u64>) -> Result<Vec<Extent>> {
        self.list_extents(node, range)
    }

    fn clone_range(&self, from: Node, offset: u64, to: Node, to_offset: u64, length: u64) -> Result<()> {
        self.refuse_sharing("shared clusters")?;
        self.relieve()?;
        self.clone_between((from, offset), (to, to_offset), length)
    }

    fn streams(&self) -> Result<&dyn Streams> {
        Ok(self)
    }

    fn numbered_nodes(&self) -> Result<&dyn NumberedNodes> {
        Ok(self)
    }

    fn extended_attributes(&self) -> Result<&dyn ExtendedAttributes> {
        Ok(self)
    }

    fn reparse_points(&self) -> Result<&dyn ReparsePoints> {
        Ok(self)
    }

    fn security_descriptors(&self) -> Result<&dyn SecurityDescriptors> {
        Ok(self)
    }

    fn integrity(&self) -> Result<&dyn IntegrityStreams> {
        Ok(self)
    }

    fn snapshots(&self) -> Result<&dyn Snapshots> {
        Ok(self)
    }

    fn sync(&self, node: Node, scope: SyncScope) -> Result<()> {
        self.core().entity(node.0)?;
        self.make_durable(scope)
    }

    fn sync_all(&self) -> Result<()> {
        self.make_durable(SyncScope::All)
    }

    fn unmount(&self) -> Result<()> {
        self.close()
    }
}

impl Names for RefsVolume {
    fn lookup(&self, directory: Node, name: &Name) -> Result<Node> {
        self.find(directory, name, false)
    }

    fn lookup_exact(&self, directory: Node, name: &Name) -> Result<Node> {
        self.find(directory, name, true)
    }

    fn forget(&self, node: Node, count: u64) {
        self.forget_node(node, count);
    }

    fn make(&self, directory: Node, name: &Name, new: &NewEntry<'_>) -> Result<Node> {
        new.check()?;
        self.relieve()?;
        self.with_space(|_| self.as_one(TO_ADD, |core| self.create_entry(core, directory, name, new)))
    }

    fn unlink(&self, directory: Node, name: &Name) -> Result<()> {
        self.relieve()?;
        self.with_space(|_| self.as_one(TO_CHANGE, |core| self.remove_entry(core, directory, name, false)))
    }

    fn rmdir(&self, directory: Node, name: &Name) -> Result<()> {
        self.relieve()?;
        self.with_space(|_| self.as_one(TO_CHANGE, |core| self.remove_entry(core, directory, name, true)))
    }

    fn rename(&self, from: Node, name: &Name, to: Node, new_name: &Name, flags: RenameFlags) -> Result<()> {
        self.relieve()?;
        self.with_space(|_| {
            if flags == RenameFlags::Exchange {
                return self.as_one(TO_EXCHANGE, |core| self.exchange(core, (from, name), (to, new_name)));
            }
            self.as_one(TO_CHANGE, |core| self.rename_entry(core, from, name, to, new_name, flags))
        })
    }

    fn link(&self, node: Node, directory: Node, name: &Name) -> Result<()> {
        self.relieve()?;
        self.with_space(|_| self.as_one(TO_ADD, |core| self.link_entry(core, node, directory, name)))
    }

    fn read_link(&self, node: Node) -> Result<String> {
        let core = self.core();
        attributes::link_target(&core.entity(node.0)?.record)
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
        let mut core = self.core();
        core.directory(directory)?;
        let above = match &core.entity(directory.0)?.place {
            RecordPlace::Directory { above, .. } => *above,
            _ => return Err(Error::NotFound),
        };
        let node = core.open_directory(above)?;
        Ok(Node(node))
    }
}

impl Transfers for RefsVolume {
    fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Gather::new(self.device.queue(depth)?, depth)))
    }

    fn wait_until_free(&self, node: Node) {
        if let Ok(stream) = self.data_of(node) {
            stream.wait_free();
        }
    }

    fn plan_read(&self, node: Node, offset: u64, length: usize, plan: &mut Plan) -> Result<()> {
        self.plan_reading(node, offset, length, plan, None)
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

    fn work_beside(&self, plan: &mut Plan, at: usize, data: &[u8]) {
        match plan.state().and_then(|memory: &Memory| memory.planned) {
            Some((Planned::Read { .. }, _)) => self.verify_beside(plan, at, data),
            Some(_) if at == 0 => self.sum_beside(plan, data),
            _ => {}
        }
    }

    fn finish_write(&self, plan: &mut Plan, data: &[u8], done: platter_device::Result<()>) -> Result<bool> {
        self.finish_writing(plan, data, done)
    }

    fn plan_sync(
        &self,
        writes: &mut dyn Iterator<Item = &mut Plan>,
        plan: &mut Plan,
        buffer: &mut Buffer,
    ) -> Result<bool> {
        self.plan_syncing(writes, plan, buffer)
    }

    fn finish_sync(&self, plan: &mut Plan, done: platter_device::Result<()>) -> Result<()> {
        self.finish_syncing(plan, done)
    }
}

impl Streams for RefsVolume {
    fn list(&self, node: Node) -> Result<Vec<NodeStream>> {
        let core = self.core();
        let named = core.entity(node.0)?.named.iter().filter(|named| named.snapshot.is_none());
        Ok(named
            .map(|one| NodeStream { name: Name::from_units(&one.name), size: one.stream.read().size })
            .collect())
    }

    fn open(&self, node: Node, name: &Name, create: bool) -> Result<Node> {
        self.relieve()?;
        self.open_stream(node, name, create)
    }

    fn remove(&self, node: Node, name: &Name) -> Result<()> {
        self.relieve()?;
        self.delete_stream(node, name)
    }
}

impl NumberedNodes for RefsVolume {
    fn find(&self, number: Node) -> Result<Node> {
        self.find_numbered(number)
    }
}

impl ExtendedAttributes for RefsVolume {
    fn list(&self, node: Node) -> Result<Vec<String>> {
        let core = self.core();
        Ok(extended_attributes(&core.entity(node.0)?.record).into_iter().map(|(name, _)| name).collect())
    }

    fn get(&self, node: Node, name: &str) -> Result<Vec<u8>> {
        let core = self.core();
        let all = extended_attributes(&core.entity(node.0)?.record);
        all.into_iter().find(|(other, _)| other == name).map(|(_, value)| value).ok_or(Error::NotFound)
    }

    fn set_several(&self, node: Node, changes: &[(&str, Option<&[u8]>)]) -> Result<()> {
        self.relieve()?;
        self.change_extended_attributes(node, changes)
    }
}

impl ReparsePoints for RefsVolume {
    fn get(&self, node: Node) -> Result<Option<Reparse>> {
        let core = self.core();
        Ok(attributes::reparse_point(&core.entity(node.0)?.record))
    }

    fn set(&self, node: Node, point: Option<&Reparse>) -> Result<()> {
        self.relieve()?;
        self.with_space(|_| self.change_reparse_point(node, point))
    }
}

impl SecurityDescriptors for RefsVolume {
    fn get(&self, node: Node) -> Result<Vec<u8>> {
        let mut core = self.core();
        let id = core.entity(node.0)?.record.security;
        let missing =
            || Error::damaged("security descriptor", 0, format!("one with identifier {id:#x}"), "none");
        core.security_descriptor(id)?.ok_or_else(missing)
    }

    fn set(&self, node: Node, descriptor: &[u8]) -> Result<()> {
        /// The most bytes of a descriptor that a row of the table can hold.
        const MOST: usize = 4096;
        if descriptor.len() > MOST || !system::is_descriptor(descriptor) {
            return Err(Error::InvalidArgument(
                "a security descriptor is self-relative and has at most 4096 bytes",
            ));
        }
        self.relieve()?;
        self.with_space(|_| {
            let now = self.now();
            let mut core = self.change()?;
            if matches!(core.entity(node.0)?.place, RecordPlace::Part { .. }) {
                return Err(Error::InvalidArgument("a named stream has no security descriptor of its own"));
            }
            core.changeable(node.0)?;
            let id = core.provide_security(descriptor)?;
            let entity = core.entity_mut(node.0)?;
            entity.record.security = id;
            entity.record.times[2] = now;
            Ok(())
        })
    }
}

impl IntegrityStreams for RefsVolume {
    fn get(&self, node: Node) -> Result<Integrity> {
        let core = self.core();
        let owner = match core.entity(node.0)?.place {
            RecordPlace::Part { of } => of,
            _ => node.0,
        };
        let enabled = core.entity(owner)?.record.attributes & Record::INTEGRITY != 0;
        Ok(Integrity { enabled, enforced: true })
    }

    fn set_watched(&self, node: Node, integrity: Integrity, watch: &dyn Progress) -> Result<()> {
        self.relieve()?;
        self.change_integrity(node, integrity, watch)
    }

    fn scrub(&self, options: &ScrubOptions) -> Result<ScrubReport> {
        self.scrub_in_use(options)
    }
}

impl Snapshots for RefsVolume {
    fn list(&self, node: Node) -> Result<Vec<Name>> {
        let core = self.core();
        let named = core.entity(node.0)?.named.iter().filter(|named| named.snapshot.is_some());
        Ok(named.map(|one| Name::from_units(&one.name)).collect())
    }

    fn create(&self, node: Node, name: &Name) -> Result<()> {
        self.refuse_sharing("file snapshots")?;
        self.relieve()?;
        self.with_space(|_| self.keep_version(node, name))
    }

    fn remove(&self, node: Node, name: &Name) -> Result<()> {
        self.relieve()?;
        self.delete_named(node, name, true)
    }
}
