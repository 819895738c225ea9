//! Listings of directories.

use crate::errors::Answer;
use crate::served::Served;
use crate::stat::Stat;
use platter_vfs::{Cursor, Error, Kind, Name, Node};

/// An entry of a listing.
pub struct Listed {
    /// The name of the entry.
    pub name: Vec<u8>,
    /// The kind of the entry, as the directory stores it.
    pub kind: Kind,
    /// The position at which the listing goes on after this entry.
    pub next: u64,
    /// The attributes of the entry, if a lookup was asked for and has succeeded. "." and ".." have none.
    pub stat: Option<Stat>,
    /// The node number of the entry, or `u64::MAX` if it is not known.
    pub number: u64,
}

/// The number of entries that are read from a directory at a time.
const BATCH: usize = 64;
/// The number of positions before the first entry of the directory itself, for "." and "..".
const DOTS: u64 = 2;
/// The number of an entry whose node number is not known without a lookup. No file has this number. 0 would not do,
/// since readdir(3) leaves out entries with it.
const UNKNOWN: u64 = u64::MAX;

/// What stands for a character that the kernel takes in no name.
pub(crate) const INSTEAD: u16 = 0xFFFD;

/// Returns the name under which an entry is listed. The kernel refuses a whole listing for one name with a slash, and
/// cuts names at a zero; "." and ".." would be taken for what these mean everywhere. No program makes such names, but
/// damage does: one wrong bit makes a slash of an "o".
pub(crate) fn shown(name: &Name) -> Name {
    const DOT: u16 = b'.' as u16;
    let is_dots = matches!(name.units(), [DOT] | [DOT, DOT]);
    let is_wrong = |unit: u16| unit == u16::from(b'/') || unit == 0 || is_dots;
    match name.units() {
        [] => Name::from_units(&[INSTEAD]),
        units if units.iter().any(|unit| is_wrong(*unit)) => {
            let right = |unit: &u16| if is_wrong(*unit) { INSTEAD } else { *unit };
            Name::from_units(&units.iter().map(right).collect::<Vec<_>>())
        }
        _ => name.clone(),
    }
}

impl Served {
    /// Passes the entries of a directory to `take`, from the position `from` on, which is 0 or a value of
    /// [`Listed::next`], until `take` returns `false` because it has no room for the entry. If `looked_up` is set, this
    /// adds 1 to the lookup count of each entry, except of one for which there is no room.
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
                // A reply holds either entries or an error. This reply holds the entries before the error, and the next
                // request gets the error.
                return Ok(());
            }
            read?;
            if entries.is_empty() {
                return Ok(());
            }
            for entry in &entries {
                cursor = entry.next;
                let stat = if looked_up {
                    match self.system.lookup_exact(directory, &entry.name) {
                        // An entry that was removed meanwhile is left out. A damaged one is listed, and a lookup of it
                        // returns the error.
                        Err(Error::NotFound) => continue,
                        found => {
                            let found = self.told(found).and_then(|node| self.handed_out(node));
                            if let Ok(stat) = &found {
                                // The kernel then knows a directory by this name.
                                self.spellings.stored(0, Node(stat.node));
                            }
                            found.ok()
                        }
                    }
                } else {
                    None
                };
                let listed = Listed {
                    name: shown(&entry.name).to_bytes(),
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
