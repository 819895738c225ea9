//! Sectors of directories that were written to a wrong place.
//!
//! A disk may write a sector to the place of another. If both belong to directories, the entries in it are there twice,
//! and only where the sector belongs do they fit to what is before and behind it: entries go on over the boundaries of
//! sectors. Where none does, names before and behind a boundary are alike more often than not.

use crate::{Disk, SLOT};
use platter_vfs::{Name, Result};
use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU32;

/// The number of slots in the smallest sector.
pub const PIECE_SLOTS: usize = 512 / SLOT;

/// A piece of a directory of the size of the smallest sector, as it is on the device: without the changes of this
/// round, which repair what gives a misplaced sector away.
pub struct Piece {
    offset: u64,
    /// A hash of each slot; the slots themselves would take much memory where many entries are contested. `None` for an
    /// empty slot.
    hashes: [Option<NonZeroU32>; PIECE_SLOTS],
    fit: Fit,
}

/// How well pieces of a directory fit to each other, or a piece to its place.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fit {
    /// The number of things that do not fit.
    pub faults: usize,
    /// How many characters names before and behind a boundary have in common.
    pub likeness: usize,
}

impl Piece {
    /// Reads the piece of a directory of `count` slots in which a slot is. `offset` returns the device offset of a slot,
    /// `inside` counts what the piece may not hold in its place, and `between` judges two pieces that follow each other
    /// and of which the first has no end mark.
    pub fn read(
        disk: &Disk,
        slot: usize,
        count: usize,
        offset: impl Fn(usize) -> u64,
        inside: impl FnOnce(&[[u8; SLOT]], usize) -> usize,
        between: impl Fn(&[[u8; SLOT]]) -> Fit,
    ) -> Result<Piece> {
        let first = slot / PIECE_SLOTS * PIECE_SLOTS;
        let mut three = [[0; SLOT]; 3 * PIECE_SLOTS];
        let parts = three.chunks_mut(PIECE_SLOTS).enumerate();
        for (number, part) in parts {
            // The piece before the first one and that behind the last one stay empty.
            if let Some(first) = (first + number * PIECE_SLOTS).checked_sub(PIECE_SLOTS)
                && first + PIECE_SLOTS <= count
            {
                disk.read(offset(first), part.as_flattened_mut())?;
            }
        }
        let mut slots = [[0; SLOT]; PIECE_SLOTS];
        slots.copy_from_slice(&three[PIECE_SLOTS..2 * PIECE_SLOTS]);
        let is_end = |slot: &[u8; SLOT]| slot[0] == 0;
        let mut fit = Fit { faults: inside(&slots, first), likeness: 0 };
        for (number, both) in [&three[..2 * PIECE_SLOTS], &three[PIECE_SLOTS..]].into_iter().enumerate() {
            let (one, two) = both.split_at(PIECE_SLOTS);
            if number == 0 && first == 0 {
                continue;
            }
            if one.iter().any(is_end) {
                fit.faults += usize::from(two.iter().any(|slot| !is_end(slot)));
                continue;
            }
            let Fit { faults, likeness } = between(both);
            fit.faults += faults;
            fit.likeness += likeness;
        }
        Ok(Piece { offset: offset(first), hashes: slots.map(|slot| hash(&slot)), fit })
    }

    /// Returns how well this piece fits to its place, if another is a copy of it; the greater value fits better.
    /// Otherwise neither is misplaced, and the answer is always the same.
    pub fn rank<'a>(&self, mut others: impl Iterator<Item = &'a Piece>) -> (Reverse<usize>, usize) {
        let is_copied = others.any(|other| other.offset != self.offset && self.is_like(other));
        let Fit { faults, likeness } = if is_copied { self.fit } else { Fit::default() };
        (Reverse(faults), likeness)
    }

    /// Whether two pieces have several slots in common. A repair that a power cut ended has changed others.
    fn is_like(&self, other: &Piece) -> bool {
        let hashes = self.hashes.iter().zip(&other.hashes);
        hashes.filter(|(one, two)| one.is_some() && one == two).count() >= 3
    }
}

/// A hash of a slot but for its first byte, which says whether the slot is in use.
fn hash(slot: &[u8; SLOT]) -> Option<NonZeroU32> {
    let rest = &slot[1..];
    let mut hasher = DefaultHasher::new();
    rest.hash(&mut hasher);
    rest.iter()
        .any(|&byte| byte != 0)
        .then(|| NonZeroU32::new(hasher.finish() as u32).unwrap_or(NonZeroU32::MIN))
}

/// Returns the number of characters with which both names begin.
pub fn likeness(one: &Name, two: &Name) -> usize {
    one.units().iter().zip(two.units()).take_while(|(one, two)| one == two).count()
}

const _: () = assert!(PIECE_SLOTS * SLOT == 512, "a piece is a sector of whole slots");
