//! Blocks that were compressed, as far as they are in memory.

use platter_device::Result;
use platter_device::sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// The most bytes that are kept, beside the newest block.
const MOST: usize = 8 << 20;

/// The blocks that were unpacked last, by their numbers: reads of a few sectors come to the same block again.
#[derive(Default)]
pub(crate) struct Unpacked {
    blocks: Mutex<VecDeque<(u64, Arc<Vec<u8>>)>>,
}

impl Unpacked {
    /// Returns the content of a block, unpacked by `unpack` if it is not here.
    pub(crate) fn get(&self, block: u64, unpack: impl FnOnce() -> Result<Vec<u8>>) -> Result<Arc<Vec<u8>>> {
        {
            let mut blocks = self.blocks.lock();
            if let Some(at) = blocks.iter().position(|(number, _)| *number == block) {
                let found = blocks.remove(at).expect("it was just found");
                let content = found.1.clone();
                blocks.push_front(found);
                return Ok(content);
            }
            // A large block is not kept beside the one that it is to make room for.
            blocks.retain(|(_, kept)| kept.len() <= MOST);
        }
        let content = Arc::new(unpack()?);
        let mut blocks = self.blocks.lock();
        let mut room = MOST.saturating_sub(content.len());
        // Two callers may have unpacked it at once.
        blocks.retain(|(number, kept)| {
            let stays = *number != block && kept.len() <= room;
            room -= if stays { kept.len() } else { 0 };
            stays
        });
        blocks.push_front((block, content.clone()));
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_used_last_are_kept() {
        let cache = Unpacked::default();
        let block = |number: u64| cache.get(number, || Ok(vec![number as u8; 2 << 20])).unwrap();
        (0..4).for_each(|number| assert_eq!(block(number)[5], number as u8));
        block(0);
        block(4);
        let kept = |number| cache.get(number, || Ok(Vec::new())).unwrap().len() == 2 << 20;
        assert!(kept(4) && kept(0) && kept(3) && kept(2) && !kept(1));
        assert_eq!(cache.get(9, || Ok(vec![1; 20 << 20])).unwrap().len(), 20 << 20);
    }
}
