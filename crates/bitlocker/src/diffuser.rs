//! The Elephant diffuser: it mixes all bits of a sector, so that no change of the ciphertext changes only a part of it.
//!
//! Source: N. Ferguson, "AES-CBC + Elephant diffuser: A Disk Encryption Algorithm for Windows Vista", August 2006, section
//! "The diffusers". The sector is an array of little-endian words of 32 bits, whose indices wrap around at its end.

/// One of the two diffusers: how often it goes over the sector, the rotations by the index modulo 4, and how far from each
/// word the two words are that change it, counted forward in an array that wraps around.
struct Diffuser {
    cycles: usize,
    rotations: [u32; 4],
    /// Distances of the word that is taken as it is, and of the one that is rotated; behind the word if true.
    near: usize,
    far: usize,
    forward: bool,
}

const A: Diffuser = Diffuser { cycles: 5, rotations: [9, 0, 13, 0], near: 2, far: 5, forward: false };
const B: Diffuser = Diffuser { cycles: 3, rotations: [0, 10, 0, 25], near: 2, far: 5, forward: true };

impl Diffuser {
    /// What changes word `at`.
    fn change(&self, words: &[u32], at: usize) -> u32 {
        let length = words.len();
        let place = |distance: usize| if self.forward { at + distance } else { at + length - distance };
        let [near, far] = [self.near, self.far].map(|distance| {
            let place = place(distance);
            words[if place >= length { place - length } else { place }]
        });
        near ^ far.rotate_left(self.rotations[at % 4])
    }

    fn decrypt(&self, words: &mut [u32]) {
        for _ in 0..self.cycles {
            for at in 0..words.len() {
                words[at] = words[at].wrapping_add(self.change(words, at));
            }
        }
    }

    fn encrypt(&self, words: &mut [u32]) {
        for _ in 0..self.cycles {
            for at in (0..words.len()).rev() {
                words[at] = words[at].wrapping_sub(self.change(words, at));
            }
        }
    }
}

/// The most bytes of a sector.
const MOST: usize = 4096;

/// Calls `work` with the words of a sector, and puts back what it made of them.
fn with_words(sector: &mut [u8], work: impl FnOnce(&mut [u32])) {
    let mut all = [0; MOST / 4];
    let words = &mut all[..sector.len() / 4];
    for (word, bytes) in words.iter_mut().zip(sector.chunks_exact(4)) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    work(words);
    for (word, bytes) in words.iter().zip(sector.chunks_exact_mut(4)) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// Undoes [`diffuse`]. A sector has from 32 to 4,096 bytes.
pub(crate) fn gather(sector: &mut [u8]) {
    with_words(sector, |words| {
        B.decrypt(words);
        A.decrypt(words);
    });
}

/// Mixes a sector, before it is encrypted.
pub(crate) fn diffuse(sector: &mut [u8]) {
    with_words(sector, |words| {
        A.encrypt(words);
        B.encrypt(words);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_diffused_is_gathered_again_and_every_bit_counts() {
        for length in [512, 4096] {
            let sector: Vec<u8> = (0..length).map(|at| (at * 7 % 251) as u8).collect();
            let mut mixed = sector.clone();
            diffuse(&mut mixed);
            let mut back = mixed.clone();
            gather(&mut back);
            assert_eq!(back, sector);
            let mut other = sector.clone();
            other[length / 2] ^= 1;
            diffuse(&mut other);
            let differing: u32 = mixed.iter().zip(&other).map(|(one, two)| (one ^ two).count_ones()).sum();
            let half = length as u32 * 4;
            assert!(differing.abs_diff(half) < half / 8, "{differing} bits of {} differ", length * 8);
        }
    }
}
