//! Content that identifies itself: each slot of 64 bytes holds its file, its place, the thread and number of its write,
//! and a checksum.
//!
//! A slot is smaller than a sector, so that writes of several threads share sectors, and no slot crosses a sector
//! boundary, so that a device that tears writes between sectors tears no slot.

/// The size of a slot in bytes.
pub(super) const SLOT: u64 = 64;

/// The content of a slot: the number of the thread that wrote it, and of that thread's write. A slot of zeroes was
/// never written, or was truncated or punched.
pub(super) type Written = Option<(u32, u32)>;

/// Fills `data` with the slots of a file from slot `first` on.
pub(super) fn fill(file: u64, first: u64, (thread, sequence): (u32, u32), data: &mut [u8]) {
    for (slot, index) in data.chunks_exact_mut(SLOT as usize).zip(first..) {
        slot[0..8].copy_from_slice(&file.to_le_bytes());
        slot[8..16].copy_from_slice(&index.to_le_bytes());
        slot[16..20].copy_from_slice(&thread.to_le_bytes());
        slot[20..24].copy_from_slice(&sequence.to_le_bytes());
        let seal = seal(&slot[..24]);
        for (at, eight) in slot[24..].chunks_exact_mut(8).enumerate() {
            eight.copy_from_slice(&seal.rotate_left(at as u32 * 7).to_le_bytes());
        }
    }
}

/// A checksum of the bytes (FNV-1a, 64 bits).
fn seal(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

/// Reads a slot of a file.
///
/// # Errors
/// A message, if the slot is neither zero nor what [`fill`] makes for this file and place.
pub(super) fn read(file: u64, index: u64, slot: &[u8]) -> Result<Written, String> {
    if slot.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let number = |at: usize| u32::from_le_bytes([slot[at], slot[at + 1], slot[at + 2], slot[at + 3]]);
    let (thread, sequence) = (number(16), number(20));
    let mut expected = [0; SLOT as usize];
    fill(file, index, (thread, sequence), &mut expected);
    match slot == expected {
        true => Ok(Some((thread, sequence))),
        false => {
            let wide = |at: usize| u64::from(number(at)) | u64::from(number(at + 4)) << 32;
            Err(format!(
                "slot {index} of file {file:#x} says it is slot {} of file {:#x}, write {sequence} of thread {thread}: {slot:02x?}",
                wide(8),
                wide(0)
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_its_own_and_no_other() {
        let mut data = [0; 2 * SLOT as usize];
        fill(7, 3, (1, 2), &mut data);
        let (first, second) = data.split_at(SLOT as usize);
        assert_eq!(read(7, 3, first), Ok(Some((1, 2))));
        assert_eq!(read(7, 4, second), Ok(Some((1, 2))));
        assert_eq!(read(7, 9, &[0; SLOT as usize]), Ok(None));
        assert!(read(7, 4, first).is_err());
        assert!(read(8, 3, first).is_err());
        for at in 0..first.len() {
            let mut other = first.to_vec();
            other[at] ^= 1;
            assert!(read(7, 3, &other).is_err(), "byte {at}");
        }
    }
}
