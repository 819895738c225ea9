//! How the keys of an index are ordered.

use crate::layout::FileName;
use crate::layout::index::collation;
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::sync::Arc;

/// A key that other keys are compared with.
pub(super) struct Sought<'a> {
    order: u32,
    upcase: Arc<[u16]>,
    key: &'a [u8],
    /// The units of a file name in upper case.
    folded: SmallVec<[u16; 64]>,
}

impl<'a> Sought<'a> {
    /// Prepares a key for comparisons. `upcase` is used for file names only.
    pub(super) fn new(order: u32, upcase: &Arc<[u16]>, key: &'a [u8]) -> Sought<'a> {
        let mut folded = SmallVec::new();
        if order == collation::FILE_NAME {
            folded.extend(units(key).iter().map(|unit| fold(upcase, *unit)));
        }
        Sought { order, upcase: upcase.clone(), key, folded }
    }

    /// Whether another key is ordered before or behind this one.
    pub(super) fn order(&self, other: &[u8]) -> Ordering {
        let key = self.key;
        match self.order {
            collation::FILE_NAME => self.folded(other).then_with(|| {
                let number = |unit: &[u8; 2]| u16::from_le_bytes(*unit);
                units(other).iter().map(number).cmp(units(key).iter().map(number))
            }),
            collation::NUMBER | collation::SECURITY_HASH | collation::NUMBERS => {
                numbers(other).cmp(numbers(key))
            }
            _ => other.cmp(key),
        }
    }

    /// [`Sought::order`] of file names without regard to case.
    pub(super) fn folded(&self, other: &[u8]) -> Ordering {
        let (own, other) = (units(self.key), units(other));
        // Names in a directory often begin alike: four units at a time, then one.
        let fours = own.as_chunks::<4>().0.iter().zip(other.as_chunks::<4>().0);
        let fours = 4 * fours.take_while(|(own, other)| own.as_flattened() == other.as_flattened()).count();
        let ones = own[fours..].iter().zip(&other[fours..]);
        let alike = fours + ones.take_while(|(own, other)| own == other).count();
        let rest = other[alike..].iter().map(|unit| fold(&self.upcase, *unit));
        rest.cmp(self.folded[alike..].iter().copied())
    }
}

/// The units of the name in a `$FILE_NAME`.
fn units(key: &[u8]) -> &[[u8; 2]] {
    FileName::units_of(key).unwrap_or(&[])
}

fn fold(upcase: &[u16], unit: [u8; 2]) -> u16 {
    let unit = u16::from_le_bytes(unit);
    upcase.get(usize::from(unit)).copied().unwrap_or(unit)
}

fn numbers(key: &[u8]) -> impl Iterator<Item = u32> + '_ {
    key.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number))
}
