//! The order of keys in indexes, implemented a second time: the first implementation is that of the open volume.

use crate::layout::FileName;
use crate::layout::bytes::u32_at;
use crate::layout::index::collation;
use std::cmp::Ordering;

/// Compares two keys of an index with this collation; `None` if the collation is not known, or bytes of a key are
/// missing. `upper` has the volume's upper-case letters.
pub(super) fn compare(rule: u32, upper: &[u16], left: &[u8], right: &[u8]) -> Option<Ordering> {
    match rule {
        collation::BINARY => Some(left.cmp(right)),
        collation::FILE_NAME => {
            let (left, right) = (units(left)?, units(right)?);
            Some(names(upper, &left, &right))
        }
        collation::NUMBER if left.len() == 4 && right.len() == 4 => {
            Some(u32_at(left, 0).cmp(&u32_at(right, 0)))
        }
        collation::SECURITY_HASH if left.len() == 8 && right.len() == 8 => {
            let key = |key| (u32_at(key, 0), u32_at(key, 4));
            Some(key(left).cmp(&key(right)))
        }
        collation::NUMBERS if left.len().is_multiple_of(4) && right.len().is_multiple_of(4) => {
            let numbers =
                |key: &[u8]| -> Vec<u32> { (0..key.len()).step_by(4).map(|at| u32_at(key, at)).collect() };
            Some(numbers(left).cmp(&numbers(right)))
        }
        collation::SID => Some(left.cmp(right)),
        _ => None,
    }
}

/// Compares two names: by their letters in upper case and, where those are the same, by the letters themselves.
pub(super) fn names(upper: &[u16], left: &[u16], right: &[u16]) -> Ordering {
    let fold = |unit: &u16| upper.get(usize::from(*unit)).copied().unwrap_or(*unit);
    left.iter().map(fold).cmp(right.iter().map(fold)).then_with(|| left.cmp(right))
}

fn units(key: &[u8]) -> Option<Vec<u16>> {
    Some(FileName::units_of(key)?.iter().map(|unit| u16::from_le_bytes(*unit)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules() {
        let upper: Vec<u16> = (0..=u16::MAX).map(platter_vfs::windows_upper).collect();
        let key =
            |text: &str| FileName { name: text.encode_utf16().collect(), ..FileName::default() }.to_bytes();
        let is_less = |rule, left: &[u8], right: &[u8]| {
            assert_eq!(compare(rule, &upper, left, right), Some(Ordering::Less));
            assert_eq!(compare(rule, &upper, right, left), Some(Ordering::Greater));
        };
        is_less(collation::FILE_NAME, &key("abc"), &key("ABCD"));
        is_less(collation::FILE_NAME, &key("ABC"), &key("abc"));
        is_less(collation::FILE_NAME, &key("a_"), &key("ä"));
        is_less(collation::NUMBER, &[0xFF, 0, 0, 0], &[0, 1, 0, 0]);
        is_less(collation::SECURITY_HASH, &[9, 0, 0, 0, 1, 1, 0, 0], &[0, 1, 0, 0, 0, 0, 0, 0]);
        is_less(collation::NUMBERS, &[1, 0, 0, 0], &[1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(compare(collation::NUMBER, &upper, &[1], &[1, 0, 0, 0]), None);
        assert_eq!(compare(77, &upper, &[1], &[2]), None);
    }
}
