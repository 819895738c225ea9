//! The pages that a commit writes, and how they go to the device.

use crate::pages::Page;
use platter_device::{Buffer, Device};
use platter_vfs::{Health, Result};
use std::sync::Arc;

/// The pages and the checkpoint that one commit writes.
pub(crate) struct Batch {
    /// The pages with their byte offsets on the device, in this order.
    pub pages: Vec<(u64, Arc<Page>)>,
    /// The checkpoint: its byte offset on the device, and its bytes.
    pub checkpoint: (u64, Vec<u8>),
}

/// The most bytes of pages that go to the device as one write, that are in flight at once, and for which memory is kept
/// between commits.
const TOGETHER: usize = 1 << 20;
const AT_ONCE: usize = 16 << 20;
const KEPT: usize = 4 << 20;

// Memory for a commit is given back if it is more than is usual, and parts are written from it.
const _: () = assert!(TOGETHER <= KEPT && KEPT <= AT_ONCE);

impl Batch {
    /// Writes the pages, and then the checkpoint. `memory` is a buffer that is used again by the next commit.
    ///
    /// Most pages of a commit lie side by side, so they go to the device as few large writes. They are copied to memory
    /// with the alignment that any device takes; from other memory a device would have to write them one by one.
    pub(crate) fn write(&self, device: &dyn Device, memory: &mut Buffer, health: &Health) -> Result<()> {
        let size = self.pages.first().map_or(1, |(_, page)| page.bytes().len());
        let follows = |one: &(u64, Arc<Page>), next: &(u64, Arc<Page>)| one.0 + size as u64 == next.0;
        debug_assert!(
            self.pages.iter().all(|(_, page)| page.bytes().len() == size),
            "all pages are of one size"
        );
        debug_assert!(
            self.pages.iter().all(|(at, _)| *at != self.checkpoint.0),
            "a checkpoint is written after all that it leads to, to a place of its own"
        );
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
