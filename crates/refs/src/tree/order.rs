//! The orders in which the rows of a table can stand.

use crate::layout::bytes::{u16_at, u64_at};
use std::cmp::Ordering;
use std::sync::Arc;

/// How the keys of a table are ordered.
#[derive(Clone)]
pub enum Order {
    /// Word by word, as little-endian numbers of 8 bytes.
    Words,
    /// The second word before the first.
    SecondWord,
    /// By the type of row; rows of names without regard to case, by this table of upper-case letters; all other rows
    /// word by word, from the second word of 8 bytes on.
    Directory(Arc<[u16]>),
    /// The same for a directory that tells names apart by case: names by their units.
    Cased,
}

impl Order {
    /// Whether two keys are equal in this order, and so lead to the same row.
    pub fn same(&self, left: &[u8], right: &[u8]) -> bool {
        self.compare(left, right).is_eq()
    }

    /// Compares two keys.
    pub fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        match self {
            Order::Words => words(left, right, 0),
            Order::SecondWord => words(left, right, 8).then_with(|| words(left, right, 0)),
            Order::Directory(upper) => {
                let kind = u16_at(left, 0);
                kind.cmp(&u16_at(right, 0)).then_with(|| match kind {
                    0x30 => names(|unit| upper[usize::from(unit)], left, right),
                    _ => words(left, right, 8),
                })
            }
            Order::Cased => {
                let kind = u16_at(left, 0);
                kind.cmp(&u16_at(right, 0)).then_with(|| match kind {
                    0x30 => names(|unit| unit, left, right),
                    _ => words(left, right, 8),
                })
            }
        }
    }
}

fn words(left: &[u8], right: &[u8], from: usize) -> Ordering {
    let end = left.len().max(right.len());
    (from..end)
        .step_by(8)
        .map(|at| word(left, at).cmp(&word(right, at)))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// The word of 8 bytes at `at`; bytes after the end of the key count as zero.
fn word(bytes: &[u8], at: usize) -> u64 {
    match bytes.len().saturating_sub(at) {
        0 => 0,
        1..8 => {
            let mut whole = [0; 8];
            whole[..bytes.len() - at].copy_from_slice(&bytes[at..]);
            u64::from_le_bytes(whole)
        }
        _ => u64_at(bytes, at),
    }
}

/// Compares names by what `fold` makes of each unit.
fn names(fold: impl Fn(u16) -> u16, left: &[u8], right: &[u8]) -> Ordering {
    let units = |key: &'_ [u8]| -> Vec<u16> {
        key[4.min(key.len())..].chunks_exact(2).map(|unit| fold(u16_at(unit, 0))).collect()
    };
    // Most names differ in the first units, so these are compared before the whole names are converted.
    let (mut at, end) = (4, left.len().max(right.len()));
    while at < end {
        match (left.get(at..at + 2), right.get(at..at + 2)) {
            (Some(one), Some(other)) => {
                let (one, other) = (fold(u16_at(one, 0)), fold(u16_at(other, 0)));
                if one != other {
                    return one.cmp(&other);
                }
            }
            _ => return units(left).len().cmp(&units(right).len()),
        }
        at += 2;
    }
    Ordering::Equal
}
