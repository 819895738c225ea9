//! The kinds of attributes that a copy does not keep because the target has no place for them.

use std::fmt;

/// A kind of attribute that can be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

const ALL: [(Loss, &str, &str); 12] = [
    (Loss::Streams, "named stream", "named streams"),
    (Loss::Extended, "extended attribute", "extended attributes"),
    (Loss::Rights, "access list or capability", "access lists or capabilities"),
    (Loss::Links, "hard link (a file of its own now)", "hard links (files of their own now)"),
    (Loss::SymbolicLinks, "symbolic link (left out)", "symbolic links (left out)"),
    (Loss::Special, "FIFO, socket or device (left out)", "FIFOs, sockets or devices (left out)"),
    (Loss::Holes, "file's holes (zeroes now)", "files' holes (zeroes now)"),
    (Loss::Owners, "owner or permission", "owners or permissions"),
    (Loss::Flags, "file's flags", "files' flags"),
    (Loss::Security, "security descriptor", "security descriptors"),
    (Loss::Reparse, "reparse point", "reparse points"),
    (Loss::Snapshots, "snapshot", "snapshots"),
];

/// What a run lost so far: for each kind, the number of losses and the path of the first one.
#[derive(Default)]
pub struct Losses {
    found: [(u64, String); ALL.len()],
}

impl Losses {
    /// Counts one loss, of the file at `at`.
    pub fn note(&mut self, loss: Loss, at: impl fmt::Display) {
        let (count, first) = &mut self.found[loss as usize];
        if *count == 0 {
            *first = at.to_string();
        }
        *count += 1;
    }

    /// Whether nothing was lost.
    pub fn is_empty(&self) -> bool {
        self.found.iter().all(|(count, _)| *count == 0)
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = ALL.iter().zip(&self.found).filter(|(_, (count, _))| *count > 0);
        for (number, ((_, one, several), (count, first))) in found.enumerate() {
            let separator = if number > 0 { "; " } else { "" };
            let what = if *count == 1 { one } else { several };
            let of = if *count == 1 { "" } else { "first " };
            write!(f, "{separator}{count} {what} ({of}{first})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_counted_by_kind() {
        let mut losses = Losses::default();
        assert!(losses.is_empty());
        losses.note(Loss::Holes, "a");
        losses.note(Loss::Streams, "b:x");
        losses.note(Loss::Streams, "c:y");
        assert_eq!(losses.to_string(), "2 named streams (first b:x); 1 file's holes (zeroes now) (a)");
        for (number, (loss, ..)) in ALL.iter().enumerate() {
            assert_eq!(*loss as usize, number);
        }
    }
}
