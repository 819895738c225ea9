//! Whole transfers by plans, as a caller makes them that keeps its plan.

use platter_device::Buffer;
use platter_vfs::{FileSystem, Node, Plan};

/// Writes `data` at `offset` by a plan.
pub fn planned_write(system: &dyn FileSystem, node: Node, offset: u64, data: &[u8], plan: &mut Plan) {
    let data = Buffer::from(data);
    system.plan_write(node, offset, &data, plan).unwrap();
    system.work_beside(plan, 0, &data);
    let done = plan.write_to(&**system.device(), &data);
    system.finish_write(plan, &data, done).unwrap();
}

/// Reads up to `length` bytes from the beginning by a plan.
pub fn planned_read(system: &dyn FileSystem, node: Node, length: usize, plan: &mut Plan) -> Vec<u8> {
    let mut buffer = Buffer::new(length);
    system.plan_read(node, 0, length, plan).unwrap();
    let done = plan.read_from(&**system.device(), &mut buffer);
    let read = system.finish_read(plan, &mut buffer, done).unwrap();
    buffer[..read].to_vec()
}
