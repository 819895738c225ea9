//! Sectors of directories that were written to a wrong place.
//!
//! A disk may write a sector to the place of another. If both belong to directories, the entries in it are there twice,
//! and only where the sector belongs do they fit to what is before and behind it: long names go on over the boundaries
//! of sectors, and the first sector of a directory begins with "." and "..".

use super::{Item, Listing, Walk};
use crate::layout::{SLOT, ShortName, Slot};
use platter_vfs::Result;

/// The size of the smallest sector in bytes, and the number of slots in it.
const SECTOR: usize = 512;
const SLOTS: usize = SECTOR / SLOT;

/// A piece of a directory of the size of the smallest sector, as it is on the device: without the changes of this
/// round, which repair what gives a misplaced sector away.
pub struct Piece {
    offset: u64,
    bytes: [u8; SECTOR],
    /// How much does not fit to the place where the piece is.
    faults: usize,
}

impl Piece {
    /// Reads the piece of a directory in which a slot is.
    pub fn read(walk: &Walk, dir: u32, listing: &Listing, slot: usize) -> Result<Piece> {
        let first = slot / SLOTS * SLOTS;
        let read = |first: usize| -> Result<Option<[u8; SECTOR]>> {
            let mut bytes = [0; SECTOR];
            if first + SLOTS > listing.len() {
                return Ok(None);
            }
            walk.disk.read(listing.offset(first), &mut bytes)?;
            Ok(Some(bytes))
        };
        let offset = listing.offset(slot - slot % SLOTS);
        let Some(bytes) = read(first)? else {
            return Ok(Piece { offset, bytes: [0; SECTOR], faults: 0 });
        };
        let mut faults = inside(&bytes, walk.dirs[dir as usize].first, dir == 0, first == 0);
        if let Some(before) = first.checked_sub(SLOTS) {
            faults += read(before)?.map_or(0, |before| between(&before, &bytes));
        }
        faults += between(&bytes, &read(first + SLOTS)?.unwrap_or([0; SECTOR]));
        Ok(Piece { offset, bytes, faults })
    }

    /// Returns how much does not fit to the place of this piece, if another is a copy of it: otherwise neither is
    /// misplaced, and the answer is 0.
    pub fn faults_if_copied<'a>(&self, mut others: impl Iterator<Item = &'a Piece>) -> usize {
        let is_copied = others.any(|other| other.offset != self.offset && self.is_like(other));
        if is_copied { self.faults } else { 0 }
    }

    /// Whether two pieces have several slots in common. A repair that a power cut ended has changed others.
    fn is_like(&self, other: &Piece) -> bool {
        let slots = self.bytes.chunks(SLOT).zip(other.bytes.chunks(SLOT));
        // The first byte says whether the slot is in use.
        slots.filter(|(one, two)| one[1..] == two[1..] && one[1..] != [0; SLOT - 1]).count() >= 3
    }
}

/// Counts what a piece of a directory may not hold.
fn inside(bytes: &[u8; SECTOR], cluster: u32, is_root: bool, is_first: bool) -> usize {
    let slots = bytes.as_chunks().0.iter().enumerate();
    let faults = slots.map(|(at, slot)| {
        let wanted = match at {
            0 if is_first && !is_root => Some(ShortName::DOT),
            1 if is_first && !is_root => Some(ShortName::DOT_DOT),
            _ => None,
        };
        match Slot::from_bytes(slot) {
            Slot::Short(short) if short.name == ShortName::DOT && wanted == Some(short.name) => {
                usize::from(short.cluster & 0xFFFF != cluster & 0xFFFF)
            }
            Slot::Short(short) if wanted == Some(short.name) => 0,
            Slot::Short(short) if short.name.is_dots() => 1,
            Slot::Short(short) if short.attributes.label() && !is_root => 1,
            _ => usize::from(wanted.is_some()),
        }
    });
    faults.sum()
}

/// Counts what does not fit together at the boundary of two pieces that follow each other.
fn between(one: &[u8; SECTOR], two: &[u8; SECTOR]) -> usize {
    let is_live = |slot: &[u8]| !matches!(slot[0], 0x00 | 0xE5);
    if one.chunks(SLOT).any(|slot| slot[0] == 0) {
        return usize::from(two.chunks(SLOT).any(is_live));
    }
    let is_broken = |item: &Item| match item {
        Item::Orphan { slots, .. } => slots.start <= SLOTS && slots.end >= SLOTS,
        Item::Entry { .. } => false,
    };
    Listing::of([*one, *two].concat()).items(0).iter().filter(|item| is_broken(item)).count()
}
