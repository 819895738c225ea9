//! The names of a directory that were met, and others for those that cannot stay.

use crate::layout::ShortName;
use platter_vfs::CaseRule;
use std::collections::HashSet;

/// The names of a directory that were met.
#[derive(Default)]
pub struct Names {
    /// Every short name, met or not.
    pub all_short: HashSet<ShortName>,
    /// Those that were met.
    pub short: HashSet<ShortName>,
    /// What users see, folded, both short and long.
    pub shown: HashSet<Box<[u16]>>,
}

impl Names {
    /// A short name like this one that nobody has.
    pub fn other(&self, like: &ShortName) -> ShortName {
        let taken = |short: &ShortName| {
            self.all_short.contains(short)
                || self.shown.contains(&short.to_name(0).folded(CaseRule::Insensitive))
        };
        if !taken(like) {
            return *like;
        }
        // A directory has fewer entries than there are aliases.
        ShortName::alias(&like.to_name(0), taken).unwrap_or(*like)
    }
}
