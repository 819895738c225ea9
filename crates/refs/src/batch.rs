//! What a commit writes, and how it goes to the device.

use crate::pages::Page;
use platter_device::{Buffer, Device};
use platter_vfs::{Health, Result};
use std::sync::Arc;

/// What a commit writes.
pub struct Batch {
    /// Pages with their places.
    pub pages: Vec<(u64, Arc<Page>)>,
    /// The checkpoint, its place, and its bytes.
    pub checkpoint: (u64, Vec<u8>),
}

/// The most bytes of pages that go to the device as one write, that are on their way at once, and that memory is kept
/// for between commits.
const TOGETHER: usize = 1 << 20;
const AT_ONCE: usize = 16 << 20;
const KEPT: usize = 4 << 20;

impl Batch {
    /// Writes what a commit is made of, the checkpoint last. `memory` is what the last one used.
    ///
    /// The pages of a commit lie side by side for the most part. So they go as few large writes, from memory that any device
    /// takes as it is; from memory of another alignment a device would have to write them one by one.
    pub fn write(&self, device: &dyn Device, memory: &mut Buffer, health: &Health) -> Result<()> {
        let size = self.pages.first().map_or(1, |(_, page)| page.bytes().len());
        let follows = |one: &(u64, Arc<Page>), next: &(u64, Arc<Page>)| one.0 + size as u64 == next.0;
        for part in self.pages.chunks(AT_ONCE / size) {
            let needed = part.len() * size;
            if memory.len() < needed {
                *memory = Buffer::new(needed.next_power_of_two());
            }
            let pages = memory.chunks_mut(size).zip(part);
            pages.for_each(|(to, (_, page))| to.copy_from_slice(page.bytes()));
            let mut left = &memory[..needed];
            let runs = part.chunk_by(follows).flat_map(|run| run.chunks(TOGETHER / size));
            let writes: Vec<(u64, &[u8])> = runs
                .map(|run| {
                    let (bytes, rest) = left.split_at(run.len() * size);
                    left = rest;
                    (run[0].0, bytes)
                })
                .collect();
            device.write_batch(&writes)?;
        }
        if memory.len() > KEPT {
            *memory = Buffer::new(0);
        }
        health.flush(device)?;
        device.write_at(self.checkpoint.0, &self.checkpoint.1)?;
        health.flush(device)
    }
}
