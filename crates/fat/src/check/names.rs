//! The names that were met in a directory, and new names for entries that cannot keep theirs.

use crate::layout::ShortName;
use platter_vfs::CaseRule;
use std::collections::HashSet;

/// The names of a directory that were met.
#[derive(Default)]
pub(super) struct Names {
    /// Every short name in the directory, met already or not.
    pub all_short: HashSet<ShortName>,
    /// The short names that were met.
    pub short: HashSet<ShortName>,
    /// The long and short names that users see, folded as they are compared.
    pub shown: HashSet<Box<[u16]>>,
}

impl Names {
    /// Returns a short name similar to `like` that no entry has.
    pub(super) fn other(&self, like: &ShortName) -> ShortName {
        let taken = |short: &ShortName| {
            self.all_short.contains(short)
                || self.shown.contains(&short.to_name(0).folded(CaseRule::Insensitive))
        };
        if !taken(like) {
            return *like;
        }
        // There are more aliases than entries in a directory, so one is free.
        ShortName::alias(&like.to_name(0), taken).unwrap_or(*like)
    }
}
