//! The repairs that a check notes. The code that carries them out is in [`repair`](super::repair).

use crate::layout::system::SystemRow;
use crate::layout::{Record, Root};
use std::collections::BTreeSet;

/// A change of a record.
pub(super) type Amendment = Box<dyn FnOnce(&mut Record) + Send>;

/// Repairs that were noted.
#[derive(Default)]
pub(super) struct Repair {
    /// Bytes to be written to the device, each with its offset.
    pub writes: Vec<(u64, Vec<u8>)>,
    /// Bytes to be written to one copy of a mirrored device: the copy's number, the offset, the bytes.
    pub copy_writes: Vec<(usize, u64, Vec<u8>)>,
    /// The numbers of trees to be written anew from their own rows.
    pub rebuilds: BTreeSet<u64>,
    /// Tables kept twice that are to be made alike.
    pub copies: Vec<Mend>,
    /// The indices of roots to be made anew from what the check found.
    pub renewed: BTreeSet<usize>,
    /// The allocators' rows do not agree with the clusters in use.
    pub is_space_wrong: bool,
    /// The clock that the checkpoint must have at least; 0 if it may stay as it is.
    pub clock: u64,
    /// The highest number given out, in the object table's header, is too small.
    pub is_counter_wrong: bool,
    /// The directory "FS Metadata", which has no name in any directory, is lost.
    pub is_metadata_lost: bool,
    /// The security descriptors are lost, and all that files name are among those that every volume has.
    pub is_security_lost: bool,
    /// Tables that are made anew.
    pub remade: Vec<Remade>,
    /// Directories whose trees are made anew from the rows that can be read, each with the rows found elsewhere for its
    /// lost part.
    pub salvaged: Vec<(u64, Vec<NotedRow>)>,
    /// Changes of rows.
    pub tasks: Vec<Task>,
}

/// A table of the volume and its copy, both of which are damaged or missing, and what they get.
pub(super) struct Remade {
    /// The numbers of both.
    pub tables: [u64; 2],
    /// The number of their schema.
    pub schema: u32,
    /// All their rows.
    pub rows: Vec<SystemRow>,
}

/// A row: key, flags, value.
pub(super) type NotedRow = (Vec<u8>, u16, Vec<u8>);

/// Copies of a table that are to be written anew.
pub(super) struct Mend {
    /// The number of the copy that counts.
    pub from: u64,
    /// The numbers of the copies that get the rows of `from`.
    pub to: Vec<u64>,
    /// Rows that replace those of `from` with the same key, or are added to them.
    pub rows: Vec<NotedRow>,
    /// The keys of rows of `from` that are left out.
    pub without: Vec<Vec<u8>>,
    /// Whether all rows of `from` are left out, so that only `rows` remain.
    pub is_whole: bool,
}

/// A change of rows.
pub(super) enum Task {
    /// The number that a directory last gave to a child becomes at least this one.
    Ordinal { directory: u64, least: u64 },
    /// The file or directory that a name leads to gets another number in the directory of the name.
    Renumber { directory: u64, key: Vec<u8> },
    /// A directory gets a record of its own.
    Own { directory: u64 },
    /// A directory's own record links to the name that leads to it.
    Link { directory: u64 },
    /// The entry of a directory repeats what its record says.
    Refresh { directory: u64 },
    /// A second name leads to a directory: one of the two is removed.
    Twice { above: u64, name: Box<[u16]>, directory: u64 },
    /// A directory without a name gets one.
    Adopt { directory: u64 },
    /// A record is changed; without a change it is only written anew.
    Amend { directory: u64, key: Vec<u8>, change: Amendment },
    /// A name of a file with several names gets an entry that leads to the file's record.
    Enter { file: (u64, u64), directory: u64, name: Box<[u16]> },
    /// A record without any name gets one.
    Name { file: (u64, u64) },
    /// The record of a file with several names gets a link to one of them.
    LinkBack { file: (u64, u64), directory: u64, name: Box<[u16]> },
    /// A security descriptor gets its row, under the key that it must have.
    Security { key: Vec<u8>, value: Vec<u8> },
    /// The rows of a directory that lead from numbers to files are made anew where they are wrong.
    Numbers { directory: u64 },
    /// The row of an object in the object table is written anew.
    Row { object: u64 },
    /// The number of names, in the record of a file with several, becomes the number of its links.
    Count { file: (u64, u64) },
}

/// The most changes of rows that are noted. The next round finds the damage beyond them again.
const MOST_TASKS: usize = 1 << 18;

/// A page's clock from this value on is taken for damage, and the checkpoint's clock is not raised to it.
const LATEST_CLOCK: u64 = 1 << 31;

impl Repair {
    /// Has bytes written to the device as they are.
    pub(super) fn write(&mut self, offset: u64, bytes: Vec<u8>) {
        self.writes.push((offset, bytes));
    }

    /// Has bytes written to one copy of a mirrored device.
    pub(super) fn write_copy(&mut self, copy: usize, offset: u64, bytes: Vec<u8>) {
        if self.copy_writes.len() < MOST_TASKS / 16 {
            self.copy_writes.push((copy, offset, bytes));
        }
    }

    /// Has a tree written anew from its own rows.
    pub(super) fn rebuild(&mut self, table: u64) {
        self.rebuilds.insert(table);
    }

    /// Has a directory's tree made anew from what can be read of it and these rows.
    pub(super) fn salvage(&mut self, table: u64, rows: Vec<NotedRow>) {
        self.salvaged.push((table, rows));
    }

    /// Has two copies of a table made alike.
    pub(super) fn mend(&mut self, mend: Mend) {
        self.copies.push(mend);
    }

    /// Has a root made anew.
    pub(super) fn renew(&mut self, root: Root) {
        self.renewed.insert(root as usize);
    }

    /// Has the allocators' rows written anew from the clusters in use.
    pub(super) fn space(&mut self) {
        self.is_space_wrong = true;
    }

    /// Has the checkpoint's clock raised to that of a page.
    pub(super) fn raise_clock(&mut self, clock: u64) {
        if clock < LATEST_CLOCK {
            self.clock = self.clock.max(clock);
        }
    }

    /// Has the object table's highest number given out raised to the highest in use.
    pub(super) fn raise_counter(&mut self) {
        self.is_counter_wrong = true;
    }

    /// Has the directory "FS Metadata" made anew.
    pub(super) fn renew_metadata(&mut self) {
        self.is_metadata_lost = true;
    }

    /// Has the security descriptors made anew.
    pub(super) fn renew_security(&mut self) {
        self.is_security_lost = true;
    }

    /// Has a table and its copy made anew with these rows.
    pub(super) fn remake(&mut self, tables: [u64; 2], schema: u32, rows: Vec<SystemRow>) {
        self.remade.push(Remade { tables, schema, rows });
    }

    /// Notes a change of rows.
    pub(super) fn add(&mut self, task: Task) {
        if self.tasks.len() < MOST_TASKS {
            self.tasks.push(task);
        }
    }

    /// Whether anything was noted.
    pub(super) fn is_needed(&self) -> bool {
        !self.writes.is_empty() || !self.copy_writes.is_empty() || self.is_commit_needed()
    }

    /// Whether anything was noted that takes a commit.
    pub(super) fn is_commit_needed(&self) -> bool {
        let trees = !self.salvaged.is_empty()
            || !self.rebuilds.is_empty()
            || !self.copies.is_empty()
            || !self.renewed.is_empty();
        trees
            || self.is_metadata_lost
            || self.is_security_lost
            || !self.remade.is_empty()
            || self.is_space_wrong
            || self.clock > 0
            || self.is_counter_wrong
            || !self.tasks.is_empty()
    }
}
