//! A quick hash for tables whose keys are small numbers, as record numbers and offsets are.

use std::hash::{BuildHasherDefault, Hasher};

/// Makes [`Mixer`]s.
pub(crate) type Numbers = BuildHasherDefault<Mixer>;

/// Mixes 64 bits at a time by a multiplication, whose upper half is folded into the lower.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(8) {
            let mut eight = [0; 8];
            eight[..piece.len()].copy_from_slice(piece);
            self.write_u64(u64::from_le_bytes(eight));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        // An odd number near 2^64 divided by the golden ratio.
        let whole = u128::from(self.0 ^ number) * 0x9E37_79B9_7F4A_7C15;
        self.0 = (whole as u64) ^ (whole >> 64) as u64;
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
