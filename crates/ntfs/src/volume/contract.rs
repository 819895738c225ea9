//! The contract: one line a method, which calls the verb that carries it out.

use super::{NTFS, NtfsVolume};
use platter_device::Device;
use platter_vfs::{
    Attributes, Capabilities, Change, ChangeJournal, ChangeRecord, Cursor, Entry, ExtendedAttributes, Extent,
    FileSystem, Name, Names, NewEntry, Node, NodeStream, NumberedNodes, Plan, RenameFlags, Reparse,
    ReparsePoints, Result, SecurityDescriptors, Space, Streams, SyncScope, Timestamp, Transfers, VolumeInfo,
};
use std::ops::Range;
use std::sync::Arc;

impl FileSystem for NtfsVolume {
    fn format_name(&self) -> &'static str {
        NTFS
    }

    fn info(&self) -> Result<VolumeInfo> {
        self.volume_info()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn space(&self) -> Result<Space> {
        self.free_space()
    }

    fn set_label(&self, label: &str) -> Result<()> {
        self.change_label(label)
    }

    fn attributes(&self, node: Node) -> Result<Attributes> {
        self.attributes_of(&mut self.core(), node.0)
    }

    fn set_attributes(&self, node: Node, change: &Change) -> Result<Attributes> {
        self.change_node(node, change)
    }

    fn note_access(&self, node: Node, at: Timestamp) -> Result<()> {
        self.keep_access(node, at)
    }

    fn write(&self, node: Node, offset: u64, data: &[u8]) -> Result<()> {
        self.write_any(node, offset, data)
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

    fn change_journal(
        &self,
        visit: &mut dyn FnMut(Result<ChangeRecord>) -> Result<()>,
    ) -> Result<Option<ChangeJournal>> {
        self.list_journal(visit)
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

impl Names for NtfsVolume {
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
        self.target_of(node)
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
}

impl Transfers for NtfsVolume {
    fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    fn wait_until_free(&self, node: Node) {
        self.wait_for_plans(node)
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
}

impl Streams for NtfsVolume {
    fn list(&self, node: Node) -> Result<Vec<NodeStream>> {
        self.streams_of(node)
    }

    fn open(&self, node: Node, name: &Name, create: bool) -> Result<Node> {
        self.with_space(|| self.open_stream(node, name, create))
    }

    fn remove(&self, node: Node, name: &Name) -> Result<()> {
        self.with_space(|| self.delete_stream(node, name))
    }
}

impl NumberedNodes for NtfsVolume {
    fn find(&self, number: Node) -> Result<Node> {
        self.find_numbered(number)
    }
}

impl ExtendedAttributes for NtfsVolume {
    fn list(&self, node: Node) -> Result<Vec<String>> {
        self.extended_names(node)
    }

    fn get(&self, node: Node, name: &str) -> Result<Vec<u8>> {
        self.extended_value(node, name)
    }

    fn set_several(&self, node: Node, changes: &[(&str, Option<&[u8]>)]) -> Result<()> {
        self.with_space(|| self.change_extended(node, changes))
    }
}

impl ReparsePoints for NtfsVolume {
    fn get(&self, node: Node) -> Result<Option<Reparse>> {
        self.reparse_point_of(node)
    }

    fn set(&self, node: Node, point: Option<&Reparse>) -> Result<()> {
        self.with_space(|| self.change_reparse_point(node, point))
    }
}

impl SecurityDescriptors for NtfsVolume {
    fn get(&self, node: Node) -> Result<Vec<u8>> {
        self.descriptor_of(node)
    }

    fn set(&self, node: Node, descriptor: &[u8]) -> Result<()> {
        self.with_space(|| self.change_descriptor(node, descriptor))
    }
}
