//! The orders in which the rows of a table can stand.

use crate::layout::record::key;
use crate::layout::words::{WORD, word};
use std::cmp::Ordering;
use std::sync::Arc;

/// How the keys of a table are ordered.
#[derive(Clone)]
pub(crate) enum Order {
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
    pub(crate) fn same(&self, left: &[u8], right: &[u8]) -> bool {
        self.compare(left, right).is_eq()
    }

    /// Compares two keys.
    pub(crate) fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        match self {
            Order::Words => words(left, right, 0),
            Order::SecondWord => words(left, right, WORD).then_with(|| words(left, right, 0)),
            Order::Directory(upper) => {
                let kind = key::kind(left);
                kind.cmp(&key::kind(right)).then_with(|| match kind {
                    key::NAME => names(|unit| upper[usize::from(unit)], left, right),
                    _ => words(left, right, WORD),
                })
            }
            Order::Cased => {
                let kind = key::kind(left);
                kind.cmp(&key::kind(right)).then_with(|| match kind {
                    key::NAME => names(|unit| unit, left, right),
                    _ => words(left, right, WORD),
                })
            }
        }
    }
}

fn words(left: &[u8], right: &[u8], from: usize) -> Ordering {
    let end = left.len().max(right.len());
    (from..end)
        .step_by(WORD)
        .map(|at| word(left, at).cmp(&word(right, at)))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Compares names by what `fold` makes of each unit.
fn names(fold: impl Fn(u16) -> u16, left: &[u8], right: &[u8]) -> Ordering {
    // Most names differ in the first units, so the names are not converted first.
    for position in 0..left.len().max(right.len()) {
        match (key::unit(left, position), key::unit(right, position)) {
            (Some(one), Some(other)) if fold(one) != fold(other) => return fold(one).cmp(&fold(other)),
            (Some(_), Some(_)) => {}
            (one, other) => return one.is_some().cmp(&other.is_some()),
        }
    }
    Ordering::Equal
}
