//! The set of clusters that a walk has seen: a bitmap that takes memory only for parts with a cluster in it.

use std::collections::HashMap;

/// A set of cluster numbers.
#[derive(Default)]
pub(crate) struct Seen(HashMap<u64, Box<[u64; Seen::WORDS]>>);

impl Seen {
    const WORDS: usize = 256;

    /// Adds a cluster. Returns whether it was not in the set before.
    pub(crate) fn insert(&mut self, cluster: u64) -> bool {
        let bits =
            self.0.entry(cluster / (64 * Seen::WORDS as u64)).or_insert_with(|| Box::new([0; Seen::WORDS]));
        let (word, bit) = ((cluster / 64) as usize % Seen::WORDS, cluster % 64);
        let is_new = bits[word] >> bit & 1 == 0;
        bits[word] |= 1 << bit;
        is_new
    }

    /// Whether a cluster is in the set.
    pub(crate) fn contains(&self, cluster: u64) -> bool {
        let bits = self.0.get(&(cluster / (64 * Seen::WORDS as u64)));
        bits.is_some_and(|bits| bits[(cluster / 64) as usize % Seen::WORDS] >> (cluster % 64) & 1 == 1)
    }
}
