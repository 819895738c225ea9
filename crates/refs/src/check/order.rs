//! How the keys of a table are ordered. The code that writes has an implementation of its own, in [`crate::tree`].

use crate::layout::record::key;
use crate::layout::words::{WORD, after_first};
use std::cmp::Ordering;

/// A rule for the order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Word by word, 8 bytes each, from the first word on.
    Words,
    /// From the second word on; keys that are the same there, from the first word on.
    SecondWord,
    /// Rows of a directory: by type, then names by their upper-case units, and others from the second word on.
    Directory,
    /// Not known: every order will do.
    Unknown,
}

impl Order {
    /// Whether `left` comes before `right`, which it always does where the order is not known. `upper` is the volume's
    /// upper-case table.
    pub(super) fn is_ascending(self, upper: &[u16], left: &[u8], right: &[u8]) -> bool {
        self == Order::Unknown || self.compare(upper, left, right) == Ordering::Less
    }

    /// Whether `key` comes after `most`, which it never does where the order is not known.
    pub(super) fn is_past(self, upper: &[u16], key: &[u8], most: &[u8]) -> bool {
        self != Order::Unknown && self.compare(upper, key, most) == Ordering::Greater
    }

    /// Compares two keys. Where the order is not known, bytes are compared.
    pub(super) fn compare(self, upper: &[u16], left: &[u8], right: &[u8]) -> Ordering {
        match self {
            Order::Words => words(left, right),
            Order::SecondWord => {
                words(after_first(left), after_first(right)).then_with(|| words(left, right))
            }
            Order::Unknown => left.cmp(right),
            Order::Directory => {
                let kinds = (key::kind(left), key::kind(right));
                kinds.0.cmp(&kinds.1).then_with(|| match kinds.0 {
                    key::NAME => folded(upper, left).cmp(folded(upper, right)),
                    _ => words(after_first(left), after_first(right)),
                })
            }
        }
    }
}

/// Compares word by word, each as a number. A key compares like a longer one that ends in zeroes.
fn words(left: &[u8], right: &[u8]) -> Ordering {
    let number = |key: &[u8], index: usize| {
        let bytes = key.get(WORD * index..).unwrap_or(&[]);
        bytes.iter().take(WORD).rev().fold(0, |number: u64, &byte| number << 8 | u64::from(byte))
    };
    let count = left.len().max(right.len()).div_ceil(WORD);
    (0..count)
        .map(|index| number(left, index).cmp(&number(right, index)))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// The units of the name in a key, in upper case.
fn folded<'k>(upper: &'k [u16], key: &'k [u8]) -> impl Iterator<Item = u16> + 'k {
    key::each_unit(key).map(|unit| fold(upper, unit))
}

/// A unit in upper case.
pub(super) fn fold(upper: &[u16], unit: u16) -> u16 {
    upper.get(usize::from(unit)).copied().unwrap_or(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules() {
        let upper: Vec<u16> = (0..=u16::MAX).map(crate::layout::system::windows_upper).collect();
        let name = |flags: u8, text: &str| -> Vec<u8> {
            [0x30, 0, flags, 0].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect()
        };
        let before = |order: Order, left: &[u8], right: &[u8]| {
            assert!(order.is_ascending(&upper, left, right) && !order.is_ascending(&upper, right, left));
        };
        before(Order::Words, &[0, 1], &[0, 2, 0, 0]);
        before(Order::Words, &[9, 0, 0, 0, 0, 0, 0, 0, 1], &[9, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        before(Order::SecondWord, &[9, 0, 0, 0, 0, 0, 0, 0, 1], &[1, 0, 0, 0, 0, 0, 0, 0, 2]);
        before(Order::Directory, &name(2, "abc"), &name(1, "ABCD"));
        before(Order::Directory, &name(2, "abc"), &[0x40, 0, 0, 0x80]);
        assert!(Order::Directory.compare(&upper, &name(1, "Äb"), &name(2, "äB")).is_eq());
        assert!(Order::Words.compare(&upper, &[1], &[1, 0, 0]).is_eq());
    }
}
