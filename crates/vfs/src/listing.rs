//! Where listings under way go on: the keys behind the cursors that were handed out, for as many as a fixed amount of
//! memory takes.

use std::collections::VecDeque;

/// Bytes of keys that are kept.
const MOST: usize = 16 << 20;

/// The cursors handed out last.
#[derive(Default)]
pub struct Listings {
    batches: VecDeque<Batch>,
    next: u64,
    bytes: usize,
}

struct Batch {
    object: u64,
    first: u64,
    keys: Vec<Vec<u8>>,
}

impl Batch {
    fn bytes(&self) -> usize {
        self.keys.iter().map(|key| key.len() + 32).sum::<usize>() + 64
    }
}

impl Listings {
    /// Remembers the keys that were listed; their cursors count up from the returned one.
    pub fn start(&mut self, object: u64, keys: Vec<Vec<u8>>) -> u64 {
        let first = self.next.max(1);
        self.next = first + keys.len() as u64;
        let batch = Batch { object, first, keys };
        self.bytes += batch.bytes();
        self.batches.push_back(batch);
        while self.bytes > MOST && self.batches.len() > 1 {
            self.bytes -= self.batches.pop_front().map_or(0, |batch| batch.bytes());
        }
        first
    }

    /// The key behind a cursor.
    pub fn key(&self, object: u64, cursor: u64) -> Option<Vec<u8>> {
        let index = self.batches.partition_point(|batch| batch.first <= cursor).checked_sub(1)?;
        let batch = &self.batches[index];
        (batch.object == object).then(|| batch.keys.get((cursor - batch.first) as usize).cloned()).flatten()
    }
}
