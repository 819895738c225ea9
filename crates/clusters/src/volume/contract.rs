//! The contract: one line a method, which calls the verb that carries it out.

use super::Volume;
use crate::Family;
use platter_device::Device;
use platter_vfs::{
    Attributes, Capabilities, Change, Cursor, Entry, Extent, FileSystem, Name, Names, NewEntry, Node, Plan,
    RenameFlags, Result, Space, SyncScope, Transfers, VolumeInfo,
};
use std::ops::Range;
use std::sync::Arc;

impl<F: Family> FileSystem for Volume<F> {
    fn format_name(&self) -> &'static str {
        self.name
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
        self.entity_attributes(&mut self.core(), node.0)
    }

    fn set_attributes(&self, node: Node, change: &Change) -> Result<Attributes> {
        self.change_node(node, change)
    }

    fn write(&self, node: Node, offset: u64, data: &[u8]) -> Result<()> {
        self.write_any(node, offset, data)
    }

    fn extents_in(&self, node: Node, range: Range<u64>) -> Result<Vec<Extent>> {
        self.extents_of(node, range)
    }

    fn sync(&self, node: Node, scope: SyncScope) -> Result<()> {
        self.sync_node(node, scope)
    }

    fn sync_all(&self) -> Result<()> {
        self.sync_nodes()
    }

    fn unmount(&self) -> Result<()> {
        self.close()
    }
}

impl<F: Family> Names for Volume<F> {
    fn lookup(&self, directory: Node, name: &Name) -> Result<Node> {
        self.lookup_entry(directory, name, false)
    }

    fn lookup_exact(&self, directory: Node, name: &Name) -> Result<Node> {
        self.lookup_entry(directory, name, true)
    }

    fn forget(&self, node: Node, count: u64) {
        self.give_back(node, count);
    }

    fn make(&self, directory: Node, name: &Name, new: &NewEntry<'_>) -> Result<Node> {
        self.add_entry(directory, name, new)
    }

    fn unlink(&self, directory: Node, name: &Name) -> Result<()> {
        self.remove_file(directory, name)
    }

    fn rmdir(&self, directory: Node, name: &Name) -> Result<()> {
        self.remove_directory(directory, name)
    }

    fn rename(&self, from: Node, name: &Name, to: Node, new_name: &Name, flags: RenameFlags) -> Result<()> {
        self.move_entry(from, name, to, new_name, flags)
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

    fn link(&self, _node: Node, _directory: Node, _name: &Name) -> Result<()> {
        Err(self.unsupported_error("hard links"))
    }

    fn read_link(&self, _node: Node) -> Result<String> {
        Err(self.unsupported_error("symbolic links"))
    }
}

impl<F: Family> Transfers for Volume<F> {
    fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    fn wait_until_free(&self, node: Node) {
        self.wait_for_plans(node);
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
        self.plan_writing(node, offset, data, plan)
    }

    fn finish_write(&self, plan: &mut Plan, data: &[u8], done: platter_device::Result<()>) -> Result<bool> {
        self.finish_writing(plan, data, done)
    }
}
