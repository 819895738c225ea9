//! Changes of pages, as the log holds them: each can be made again on a page that lacks it.

use super::page::{Kind, Page};

/// One change. It is whole in the log or not there, and the tree is whole before it and after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A key of a leaf has this record.
    Put { leaf: u64, key: u64, value: Vec<u8> },
    /// A leaf has this key no more.
    Delete { leaf: u64, key: u64 },
    /// What a page holds from an entry on stands in a new one, which its parent knows by its first key.
    Split { left: u64, kept: u32, right: u64, kind: Kind, parent: u64, separator: u64, entries: Vec<u8> },
    /// What the root holds stands in a new page, which is all that the root has.
    Grow { root: u64, child: u64, kind: Kind, entries: Vec<u8> },
}

impl Change {
    /// The pages that it changes.
    pub fn pages(&self) -> Vec<u64> {
        match self {
            Change::Put { leaf, .. } | Change::Delete { leaf, .. } => vec![*leaf],
            Change::Split { left, right, parent, .. } => vec![*left, *right, *parent],
            Change::Grow { root, child, .. } => vec![*root, *child],
        }
    }

    /// The page that was not there before.
    pub fn made(&self) -> Option<u64> {
        match self {
            Change::Put { .. } | Change::Delete { .. } => None,
            Change::Split { right, .. } => Some(*right),
            Change::Grow { child, .. } => Some(*child),
        }
    }

    /// Makes it on one of its pages.
    pub fn apply(&self, number: u64, page: &mut Page) {
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

    /// As bytes: their length first.
    pub fn encode(&self) -> Vec<u8> {
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

    /// The change at the beginning of these bytes, and how long it is; `None` where there is no whole one.
    pub fn decode(bytes: &[u8]) -> Option<(Change, usize)> {
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
