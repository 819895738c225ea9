//! The kinds of attributes that a copy does not keep because the target has no place for them.

use super::CopyListener;
use std::fmt;

/// A kind of attribute that can be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// Named streams.
    Streams,
    /// Extended attributes.
    Extended,
    /// Access lists and capabilities of the host, which only it understands.
    Rights,
    /// Further names of a file, each of which becomes a file of its own.
    Links,
    /// Symbolic links, which are left out.
    SymbolicLinks,
    /// FIFOs, sockets and devices, which are left out.
    Special,
    /// Holes, which become zeroes.
    Holes,
    /// Owners, groups and permissions.
    Owners,
    /// Flags such as hidden.
    Flags,
    /// Windows security descriptors.
    Security,
    /// Reparse points that are no symbolic links.
    Reparse,
    /// Snapshots of a file's content.
    Snapshots,
}

impl Loss {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Loss; 12] = [
        Loss::Streams,
        Loss::Extended,
        Loss::Rights,
        Loss::Links,
        Loss::SymbolicLinks,
        Loss::Special,
        Loss::Holes,
        Loss::Owners,
        Loss::Flags,
        Loss::Security,
        Loss::Reparse,
        Loss::Snapshots,
    ];

    /// The kind in words, for one loss and for several.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Loss::Streams => ("named stream", "named streams"),
            Loss::Extended => ("extended attribute", "extended attributes"),
            Loss::Rights => ("access list or capability", "access lists or capabilities"),
            Loss::Links => ("hard link (a file of its own now)", "hard links (files of their own now)"),
            Loss::SymbolicLinks => ("symbolic link (left out)", "symbolic links (left out)"),
            Loss::Special => ("FIFO, socket or device (left out)", "FIFOs, sockets or devices (left out)"),
            Loss::Holes => ("file's holes (zeroes now)", "files' holes (zeroes now)"),
            Loss::Owners => ("owner or permission", "owners or permissions"),
            Loss::Flags => ("file's flags", "files' flags"),
            Loss::Security => ("security descriptor", "security descriptors"),
            Loss::Reparse => ("reparse point", "reparse points"),
            Loss::Snapshots => ("snapshot", "snapshots"),
        }
    }
}

/// Tells the listener of losses, and counts them.
pub(super) struct Losses<'l> {
    pub listener: &'l dyn CopyListener,
    pub count: u64,
}

impl Losses<'_> {
    /// Notes one loss, of the file at `at`.
    pub(super) fn note(&mut self, loss: Loss, at: impl fmt::Display) {
        self.count += 1;
        self.listener.lost(loss, &at.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_listed_once() {
        for (number, loss) in Loss::ALL.into_iter().enumerate() {
            assert_eq!(loss as usize, number);
            assert!(!loss.words().0.is_empty() && loss.words().0 != loss.words().1);
        }
    }
}
