//! Keys of what people type: SHA-256 of it, a million times over, so that guessing takes long.

use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

/// How often the hash is computed: \[BDE\], "Recovery key".
const ROUNDS: u64 = 0x10_0000;
/// The end of the wait is asked for after so many.
const BETWEEN: u64 = 0x1000;

/// The key of 256 bits from the hash of a secret and the salt that stands beside what the key encrypts; `None` if
/// `is_stopped` asked for the end.
pub(crate) fn stretch(
    hash: &[u8; 32],
    salt: &[u8; 16],
    is_stopped: &dyn Fn() -> bool,
) -> Option<Zeroizing<[u8; 32]>> {
    // The last hash, the first one, the salt, and the number of the round.
    let mut text = Zeroizing::new([0; 88]);
    text[32..64].copy_from_slice(hash);
    text[64..80].copy_from_slice(salt);
    for round in 0..ROUNDS {
        if round % BETWEEN == 0 && is_stopped() {
            return None;
        }
        text[80..].copy_from_slice(&round.to_le_bytes());
        let mut last = Sha256::digest(&text[..]);
        text[..32].copy_from_slice(&last);
        if round + 1 == ROUNDS {
            last.as_mut_slice().zeroize();
        }
    }
    let mut key = Zeroizing::new([0; 32]);
    key.copy_from_slice(&text[..32]);
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn stretching_ends_when_it_is_asked_to() {
        let asked = Cell::new(0);
        let stop = || {
            asked.set(asked.get() + 1);
            asked.get() == 3
        };
        assert!(stretch(&[1; 32], &[2; 16], &stop).is_none());
        assert_eq!(asked.get(), 3);
    }
}
