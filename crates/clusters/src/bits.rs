//! A bitmap with a bit for each cluster.

/// A bitmap, indexed by cluster number.
pub struct Bits(Vec<u64>);

impl Bits {
    /// A bitmap of `count` bits, none of them set.
    pub fn new(count: u32) -> Bits {
        Bits(vec![0; (count as usize).div_ceil(64)])
    }

    /// Whether a bit is set.
    pub fn get(&self, at: u32) -> bool {
        self.0[at as usize / 64] >> (at % 64) & 1 != 0
    }

    /// Sets a bit.
    pub fn set(&mut self, at: u32) {
        self.0[at as usize / 64] |= 1 << (at % 64);
    }

    /// Clears a bit.
    pub fn clear(&mut self, at: u32) {
        self.0[at as usize / 64] &= !(1 << (at % 64));
    }

    /// The bits, 64 in a word, the first in the lowest place.
    pub(crate) fn words(&self) -> &[u64] {
        &self.0
    }

    /// The number of bits that are set.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}
