//! What is to be put right.

use crate::layout::Root;
use std::collections::BTreeSet;

/// Repairs, noted while the volume is checked.
#[derive(Default)]
pub struct Repair {
    /// Bytes for places of the device.
    writes: Vec<(u64, Vec<u8>)>,
    /// Trees to be written anew from their own rows.
    rebuilds: BTreeSet<u64>,
    /// Trees kept twice, and which copies are damaged.
    copies: Vec<(u64, u64, (bool, bool))>,
    /// Roots to be made anew from what the check found.
    renewed: BTreeSet<usize>,
    /// What is free must be written anew.
    is_space_wrong: bool,
    /// Changes of rows.
    tasks: Vec<Task>,
}

impl Repair {
    /// Has bytes written to the device as they are.
    pub fn write(&mut self, offset: u64, bytes: Vec<u8>) {
        self.writes.push((offset, bytes));
    }

    /// Has a tree written anew from its own rows.
    pub fn rebuild(&mut self, table: u64) {
        self.rebuilds.insert(table);
    }

    /// Has two copies of a table made alike.
    pub fn mend_copies(&mut self, first: u64, second: u64, damaged: (bool, bool)) {
        self.copies.push((first, second, damaged));
    }

    /// Has a root made anew.
    pub fn renew(&mut self, root: Root) {
        self.renewed.insert(root as usize);
    }

    /// Has the allocators' rows written anew from the clusters in use.
    pub fn space(&mut self) {
        self.is_space_wrong = true;
    }

    /// Has the number last given to a child of a directory raised.
    pub fn raise_ordinal(&mut self, directory: u64, least: u64) {
        self.tasks.push(Task::Ordinal { directory, least });
    }

    /// Has the link to the directory above in a directory's own record made anew.
    pub fn link(&mut self, directory: u64) {
        self.tasks.push(Task::Link { directory });
    }

    /// Has the entry of a directory made like its record.
    pub fn refresh(&mut self, directory: u64) {
        self.tasks.push(Task::Refresh { directory });
    }

    /// A second name leads to a directory.
    pub fn twice(&mut self, above: u64, name: &[u16], directory: u64) {
        self.tasks.push(Task::Twice { above, name: name.into(), directory });
    }

    /// Has a file with one name counted as such.
    pub fn count_links(&mut self, directory: u64, key: &[u8]) {
        self.tasks.push(Task::One { directory, key: key.into() });
    }

    /// Has a name made, or made anew, that leads to the record of a file with several names.
    pub fn enter(&mut self, home: u64, ordinal: u64, directory: u64, name: &[u16]) {
        self.tasks.push(Task::Enter { file: (home, ordinal), directory, name: name.into() });
    }

    /// Has a link to a name put into the record of a file with several names.
    pub fn link_back(&mut self, home: u64, ordinal: u64, directory: u64, name: &[u16]) {
        self.tasks.push(Task::LinkBack { file: (home, ordinal), directory, name: name.into() });
    }

    /// Has the names of a file with several counted.
    pub fn count_names(&mut self, home: u64, ordinal: u64) {
        self.tasks.push(Task::Count { file: (home, ordinal) });
    }
}

/// A change of rows.
pub enum Task {
    Ordinal { directory: u64, least: u64 },
    Link { directory: u64 },
    Refresh { directory: u64 },
    Twice { above: u64, name: Box<[u16]>, directory: u64 },
    One { directory: u64, key: Box<[u8]> },
    Enter { file: (u64, u64), directory: u64, name: Box<[u16]> },
    LinkBack { file: (u64, u64), directory: u64, name: Box<[u16]> },
    Count { file: (u64, u64) },
}
