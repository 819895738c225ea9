//! Listings of directories.

use crate::errors::Answer;
use crate::served::Served;
use crate::stat::Stat;
use platter_vfs::{Cursor, Error, Kind, Node};

/// An entry of a listing.
pub struct Listed {
    /// Its name.
    pub name: Vec<u8>,
    /// What it is, as the directory knows it.
    pub kind: Kind,
    /// Where the listing goes on after it.
    pub next: u64,
    /// The entry itself, if it was asked for, can be read and is not "." or "..".
    pub stat: Option<Stat>,
    /// Its number, or one that says that nobody knows.
    pub number: u64,
}

/// How many entries are asked for at a time.
const BATCH: usize = 64;
/// "." and ".." come before all others.
const DOTS: u64 = 2;
/// The number of an entry whose own is not known without a lookup. No file has it, and readdir(3) leaves out entries with 0.
const UNKNOWN: u64 = u64::MAX;

impl Served {
    /// Gives entries to `take` that come after `from`, which is 0 or what [`Listed::next`] said, until it answers that it
    /// has no more room. `looked_up`: each is handed out as by a lookup, except those that find no room.
    pub fn list(
        &self,
        directory: Node,
        from: u64,
        looked_up: bool,
        mut take: impl FnMut(&Listed) -> bool,
    ) -> Answer<()> {
        for dot in from..DOTS {
            let (name, node) = match dot {
                0 => (".", directory),
                _ => ("..", self.told(self.system.parent(directory)).unwrap_or(directory)),
            };
            let (name, kind) = (name.into(), Kind::Directory);
            if !take(&Listed { name, kind, next: dot + 1, stat: None, number: node.0 }) {
                return Ok(());
            }
        }
        let mut cursor = Cursor(from.saturating_sub(DOTS));
        let mut entries = Vec::with_capacity(BATCH);
        let mut gave = from < DOTS;
        loop {
            entries.clear();
            let read = self.told(self.system.read_directory(directory, cursor, BATCH, &mut entries));
            if read.is_err() && gave {
                // The kernel passes either entries on or a failure: what was read first, and the failure next time.
                return Ok(());
            }
            read?;
            if entries.is_empty() {
                return Ok(());
            }
            for entry in &entries {
                cursor = entry.next;
                let stat = if looked_up {
                    match self.system.lookup(directory, &entry.name) {
                        // What was removed meanwhile is not listed; what is damaged is, and looked up it says so.
                        Err(Error::NotFound) => continue,
                        found => self.told(found).and_then(|node| self.handed_out(node)).ok(),
                    }
                } else {
                    None
                };
                let listed = Listed {
                    name: entry.name.to_bytes(),
                    kind: entry.attributes.kind,
                    next: entry.next.0.saturating_add(DOTS),
                    stat,
                    number: stat.map(|stat| stat.node).or(entry.node.map(|node| node.0)).unwrap_or(UNKNOWN),
                };
                gave = true;
                if !take(&listed) {
                    if let Some(stat) = stat {
                        self.forget(Node(stat.node), 1);
                    }
                    return Ok(());
                }
            }
        }
    }
}
