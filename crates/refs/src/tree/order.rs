//! The orders of rows.

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
    /// By row type; names without regard to case, by this table of upper-case letters; everything else word by word
    /// from the second on.
    Directory(Arc<[u16]>),
}

impl Order {
    /// Whether two keys lead to the same row.
    pub fn same(&self, left: &[u8], right: &[u8]) -> bool {
        self.compare(left, right).is_eq()
    }

    /// How two keys are ordered.
    pub fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        match self {
            Order::Words => words(left, right, 0),
            Order::SecondWord => words(left, right, 8).then_with(|| words(left, right, 0)),
            Order::Directory(upper) => {
                let kind = u16_at(left, 0);
                kind.cmp(&u16_at(right, 0)).then_with(|| match kind {
                    0x30 => names(upper, left, right),
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

/// The word at `at`, or what there is of it.
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

fn names(upper: &[u16], left: &[u8], right: &[u8]) -> Ordering {
    let units = |key: &'_ [u8]| -> Vec<u16> {
        key[4.min(key.len())..].chunks_exact(2).map(|unit| upper[usize::from(u16_at(unit, 0))]).collect()
    };
    // Names are short; most differ in the first units.
    let (mut at, end) = (4, left.len().max(right.len()));
    while at < end {
        match (left.get(at..at + 2), right.get(at..at + 2)) {
            (Some(one), Some(other)) => {
                let (one, other) = (upper[usize::from(u16_at(one, 0))], upper[usize::from(u16_at(other, 0))]);
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
