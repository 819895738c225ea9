//! Changes of pages, as the log records them. A replay applies a change again to each of its pages that lacks it.

use super::page::{Kind, Page};

/// One change. The log holds it completely or not at all, and the tree is consistent before and after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A leaf has this record for a key, which is inserted or replaced.
    Put { leaf: u64, key: u64, value: Vec<u8> },
    /// A key is removed from a leaf.
    Delete { leaf: u64, key: u64 },
    /// The entries of the page `left` from number `kept` on move to the new page `right`, and the parent gets an entry
    /// for that page with its first key.
    Split { left: u64, kept: u32, right: u64, kind: Kind, parent: u64, separator: u64, entries: Vec<u8> },
    /// The entries of the root move to the new page `child`, which becomes the root's only entry.
    Grow { root: u64, child: u64, kind: Kind, entries: Vec<u8> },
}

impl Change {
    /// The pages that the change modifies.
    pub(super) fn pages(&self) -> Vec<u64> {
        match self {
            Change::Put { leaf, .. } | Change::Delete { leaf, .. } => vec![*leaf],
            Change::Split { left, right, parent, .. } => vec![*left, *right, *parent],
            Change::Grow { root, child, .. } => vec![*root, *child],
        }
    }

    /// The page that the change creates, if it creates one.
    pub(super) fn made(&self) -> Option<u64> {
        match self {
            Change::Put { .. } | Change::Delete { .. } => None,
            Change::Split { right, .. } => Some(*right),
            Change::Grow { child, .. } => Some(*child),
        }
    }

    /// Applies the change to one of its pages.
    pub(super) fn apply(&self, number: u64, page: &mut Page) {
        match self {
            Change::Put { key, value, .. } => page.put(*key, value),
            Change::Delete { key, .. } => page.delete(*key),
            Change::Split { left, kept, right, kind, separator, entries, .. } => {
                if number == *left {
                    page.truncate(*kept as usize);
                } else if number == *right {
                    page.fill(*kind, entries);
                } else {
                    page.put(*separator, &right.to_le_bytes());
                }
            }
            Change::Grow { child, kind, entries, .. } => {
                if number == *child {
                    page.fill(*kind, entries);
                } else {
                    page.fill(Kind::Branch, &[]);
                    page.put(0, &child.to_le_bytes());
                }
            }
        }
    }

    /// Encodes the change; the bytes begin with their length.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        let mut words = |code: u64, words: &[u64], bytes: &[u8]| {
            out.extend(code.to_le_bytes());
            words.iter().for_each(|word| out.extend(word.to_le_bytes()));
            out.extend(bytes);
        };
        match self {
            Change::Put { leaf, key, value } => words(1, &[*leaf, *key], value),
            Change::Delete { leaf, key } => words(2, &[*leaf, *key], &[]),
            Change::Split { left, kept, right, kind, parent, separator, entries } => {
                let all = [*left, u64::from(*kept), *right, u64::from(kind.code()), *parent, *separator];
                words(3, &all, entries);
            }
            Change::Grow { root, child, kind, entries } => {
                words(4, &[*root, *child, u64::from(kind.code())], entries);
            }
        }
        let length = out.len() as u32;
        out[..4].copy_from_slice(&length.to_le_bytes());
        out
    }

    /// Decodes the change at the beginning of these bytes, and returns it with its length; `None` if it is incomplete
    /// or invalid.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Change, usize)> {
        let length = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        let body = bytes.get(4..length)?;
        let word = |index: usize| {
            let at = body.get(index * 8..index * 8 + 8)?;
            Some(u64::from_le_bytes(at.try_into().ok()?))
        };
        let kind = |index: usize| word(index).and_then(|code| Kind::of(u32::try_from(code).ok()?));
        let rest = |index: usize| body.get(index * 8..).map(<[u8]>::to_vec);
        let entries = |index: usize, kind: Kind| {
            rest(index).filter(|bytes| {
                bytes.len().is_multiple_of(kind.width()) && bytes.len() / kind.width() <= kind.most()
            })
        };
        let change = match word(0)? {
            1 => {
                let value = rest(3).filter(|value| value.len() == super::page::RECORD)?;
                Change::Put { leaf: word(1)?, key: word(2)?, value }
            }
            2 if body.len() == 24 => Change::Delete { leaf: word(1)?, key: word(2)? },
            3 => Change::Split {
                left: word(1)?,
                kept: u32::try_from(word(2)?).ok()?,
                right: word(3)?,
                kind: kind(4)?,
                parent: word(5)?,
                separator: word(6)?,
                entries: entries(7, kind(4)?)?,
            },
            4 => Change::Grow {
                root: word(1)?,
                child: word(2)?,
                kind: kind(3)?,
                entries: entries(4, kind(3)?)?,
            },
            _ => return None,
        };
        Some((change, length))
    }
}
