//! What a commit writes, and how it goes to the device.

use crate::pages::Page;
use platter_device::{Buffer, Device};
use platter_vfs::Result;
use std::sync::Arc;

/// What a commit writes.
pub struct Batch {
    /// Pages with their places.
    pub pages: Vec<(u64, Arc<Page>)>,
    /// The checkpoint, its place, and its bytes.
    pub checkpoint: (u64, Vec<u8>),
    /// Which commit it is.
    pub clock: u64,
}

/// The most bytes of pages that go to the device as one write, and that are on their way at once.
const TOGETHER: usize = 1 << 20;
const AT_ONCE: usize = 16 << 20;

impl Batch {
    /// Writes what a commit is made of, the checkpoint last.
    ///
    /// The pages of a commit lie side by side for the most part. So they go as few large writes, from memory that any device
    /// takes as it is; from memory of another alignment a device would have to write them one by one.
    pub fn write(&self, device: &dyn Device) -> Result<()> {
        let size = self.pages.first().map_or(1, |(_, page)| page.bytes().len());
        let follows = |one: &(u64, Arc<Page>), next: &(u64, Arc<Page>)| one.0 + size as u64 == next.0;
        for part in self.pages.chunks(AT_ONCE / size) {
            let runs = part.chunk_by(follows).flat_map(|run| run.chunks(TOGETHER / size));
            let runs: Vec<(u64, Buffer)> = runs
                .map(|run| {
                    let mut together = Buffer::new(run.len() * size);
                    together
                        .chunks_mut(size)
                        .zip(run)
                        .for_each(|(to, (_, page))| to.copy_from_slice(page.bytes()));
                    (run[0].0, together)
                })
                .collect();
            let writes: Vec<(u64, &[u8])> =
                runs.iter().map(|(offset, bytes)| (*offset, &bytes[..])).collect();
            device.write_batch(&writes)?;
        }
        device.flush()?;
        device.write_at(self.checkpoint.0, &self.checkpoint.1)?;
        device.flush()?;
        Ok(())
    }
}
