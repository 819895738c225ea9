//! The indexes of NTFS that this crate keeps up to date.

use super::index::collation;

/// An index that is kept up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Index {
    /// `$I30`: the names in a directory.
    Names,
    /// `$SII` of `$Secure`.
    SecurityIds,
    /// `$SDH` of `$Secure`.
    SecurityHashes,
    /// `$R` of `$Reparse`.
    Reparse,
    /// `$O` of `$ObjId`.
    ObjectIds,
    /// `$Q` of `$Quota`.
    Quotas,
}

impl Index {
    /// The name of the index's attributes.
    pub fn name(self) -> &'static str {
        match self {
            Index::Names => "$I30",
            Index::SecurityIds => "$SII",
            Index::SecurityHashes => "$SDH",
            Index::Reparse => "$R",
            Index::ObjectIds => "$O",
            Index::Quotas => "$Q",
        }
    }

    /// The name of its attributes in UTF-16.
    pub fn units(self) -> &'static [u16] {
        const fn wide<const N: usize>(name: &[u8; N]) -> [u16; N] {
            let mut units = [0; N];
            let mut at = 0;
            while at < N {
                units[at] = name[at] as u16;
                at += 1;
            }
            units
        }
        match self {
            Index::Names => const { &wide(b"$I30") },
            Index::SecurityIds => const { &wide(b"$SII") },
            Index::SecurityHashes => const { &wide(b"$SDH") },
            Index::Reparse => const { &wide(b"$R") },
            Index::ObjectIds => const { &wide(b"$O") },
            Index::Quotas => const { &wide(b"$Q") },
        }
    }

    /// How its keys are ordered: see [`collation`].
    pub fn collation(self) -> u32 {
        match self {
            Index::Names => collation::FILE_NAME,
            Index::SecurityIds | Index::Quotas => collation::NUMBER,
            Index::SecurityHashes => collation::SECURITY_HASH,
            Index::Reparse | Index::ObjectIds => collation::NUMBERS,
        }
    }
}
