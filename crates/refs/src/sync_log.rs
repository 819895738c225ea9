//! The log of syncs: the changes that were made durable since the last commit without another commit, to be carried out
//! again after a power cut.
//!
//! A commit after a few scattered writes writes a page of runs for each of them. So a sync after which only file
//! content is new writes one *entry* to a file of the volume instead: where the changed clusters of which files are
//! now. The data is already in these clusters, which the last checkpoint counts as free, and stays there. An entry
//! belongs to the checkpoint whose clock it has, and entries are numbered from 0: the next commit makes them void, and
//! the next entry goes to the file's beginning.
//!
//! An entry of files with integrity has the checksums of the data, so reading it shows whether the data arrived.
//! Therefore it need not wait for the data: a planned sync writes its entry at the same time as the data, *beside*
//! these writes. There is never more than one such entry in flight, and no other follows until it and its data are
//! durable. So only for the last entry of the log the data must be verified.
//!
//! The file is Platter's own and no part of the format: other programs see the volume as of the last checkpoint. It
//! lies in the directory without a name in which the driver keeps files of its own (forefst
//! `docs/structures/directories.md`).

use crate::extents::{Extent, RunKind};
use crate::layout::bytes::{put, u16_at, u32_at, u64_at};
use crate::layout::crc32c;
use std::ops::Range;

/// The object number of the directory with the log's file.
pub const DIRECTORY: u64 = 0x520;
/// The name of the log's file.
pub const NAME: &str = "Platter Sync Log";

/// Places and lengths of entries are multiples of this many bytes, so that no sector holds parts of two.
pub const UNIT: usize = 4096;
const MAGIC: &[u8; 8] = b"PLTRSYNC";
const HEADER: usize = 0x30;
const FILE: usize = 0x28;
const RUN: usize = 0x18;
const CHECKED: u32 = 1;

/// The most changes that wait for an entry; with more a commit is no more expensive.
const MOST_CHANGES: usize = 8192;

/// The log of an open volume.
pub struct SyncLog {
    /// The bytes of the device that the log takes.
    area: Range<u64>,
    /// The number of bytes filled with entries, and the number of the next entry.
    filled: u64,
    number: u64,
    /// The changes that are in no entry yet.
    pub changes: Vec<Change>,
    /// Whether some of these changes are of bytes that were written in place, past the former end of a file: their data
    /// must be durable before the entry is, or the file would show what its last cluster held before.
    pub needs_data: bool,
    /// The entry that is in flight at the same time as its data, if there is one.
    pub beside: Option<Beside>,
}

/// A change of a node's data: a new run, or `None` if only the time of the last write is new.
pub type Change = (u64, Option<Extent>);

/// An entry in flight at the same time as the writes of its data.
pub struct Beside {
    /// The clock of the checkpoint that the entry belongs to: once there is another checkpoint it is void.
    pub clock: u64,
    /// The number of writes that are not finished yet.
    pub left: usize,
    /// Whether one of the writes failed: then the entry describes data that is not on the device, and a commit must
    /// follow.
    pub is_wrong: bool,
}

impl SyncLog {
    /// An empty log with this place on the device.
    pub fn new(area: Range<u64>) -> SyncLog {
        SyncLog {
            area,
            filled: 0,
            number: 0,
            changes: Vec::with_capacity(MOST_CHANGES),
            needs_data: false,
            beside: None,
        }
    }

    /// Notes the new runs of a node, or, without runs, a write in place. Returns `false`, and notes nothing, if there
    /// would be too many changes.
    pub fn note(&mut self, node: u64, runs: &[Extent]) -> bool {
        let fits = self.changes.len() + runs.len().max(1) <= MOST_CHANGES;
        match runs {
            _ if !fits => {}
            [] => self.changes.push((node, None)),
            runs => self.changes.extend(runs.iter().map(|run| (node, Some(*run)))),
        }
        fits
    }

    /// Empties the log after a commit, which has all changes.
    pub fn clear(&mut self) {
        self.changes.clear();
        self.needs_data = false;
        (self.filled, self.number) = (0, 0);
    }

    /// Returns the byte offset on the device and the number of the next entry, if there is room for it. There is no
    /// next entry while another is in flight beside its data: after a commit both could go to the same place.
    pub fn next(&mut self, length: usize) -> Option<(u64, u64)> {
        let (place, number) = (self.area.start + self.filled, self.number);
        (self.beside.is_none() && place + length as u64 <= self.area.end).then(|| {
            (self.filled, self.number) = (self.filled + length as u64, number + 1);
            (place, number)
        })
    }
}

/// The part of an entry about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file's home directory, and its number there.
    pub home: u64,
    pub ordinal: u64,
    /// The file's name in that directory, if its record is in the row of the name.
    pub name: Option<Vec<u16>>,
    /// When the file was last written, in units of 100 ns since 1601.
    pub modified: u64,
    /// The file's valid data length in bytes: its size, unless what stands at its end was only allocated. Then the last
    /// commit has the size: no write that makes the valid data length greater is put into an entry.
    pub valid: u64,
    /// The runs that the writes put in place of older ones.
    pub runs: Vec<Extent>,
}

/// The volume, the checkpoint and the position that an entry belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// The volume's signature.
    pub signature: u32,
    /// The clock of the checkpoint on which the entry builds.
    pub clock: u64,
    /// The number of entries of the same checkpoint before this one.
    pub number: u64,
}

/// The length in bytes of an entry for these files.
pub fn length(files: &[Written]) -> usize {
    let of = |file: &Written| {
        FILE + file.name.as_ref().map_or(0, |name| (2 * name.len()).next_multiple_of(8))
            + RUN * file.runs.len()
    };
    (HEADER + files.iter().map(of).sum::<usize>()).next_multiple_of(UNIT)
}

/// Stores an entry in `bytes`, whose number is the result of [`length`].
pub fn store(purpose: Purpose, files: &[Written], bytes: &mut [u8]) {
    bytes.fill(0);
    bytes[..8].copy_from_slice(MAGIC);
    put(bytes, 0x08, bytes.len() as u32);
    put(bytes, 0x0C, purpose.signature);
    put(bytes, 0x10, purpose.clock);
    put(bytes, 0x18, purpose.number);
    put(bytes, 0x20, files.len() as u32);
    let mut at = HEADER;
    for file in files {
        put(bytes, at, file.home);
        put(bytes, at + 0x08, file.ordinal);
        put(bytes, at + 0x10, file.modified);
        put(bytes, at + 0x18, file.valid);
        put(bytes, at + 0x20, file.runs.len() as u32);
        put(bytes, at + 0x24, file.name.as_ref().map_or(0, |name| name.len() as u16));
        at += FILE;
        let name = file.name.as_deref().unwrap_or_default();
        name.iter().enumerate().for_each(|(index, unit)| put(bytes, at + 2 * index, *unit));
        at += (2 * name.len()).next_multiple_of(8);
        for run in &file.runs {
            put(bytes, at, run.cluster);
            put(bytes, at + 0x08, run.at);
            put(bytes, at + 0x0C, run.count);
            put(bytes, at + 0x10, run.checksum().unwrap_or(0));
            put(bytes, at + 0x14, kind_word(run.kind));
            at += RUN;
        }
    }
    put(bytes, 0x28, crc32c(bytes));
}

/// The word for the kind of a run: [`CHECKED`], or the flags of a run without checksum that is not [`RunKind::PLAIN`],
/// none of which is that bit.
fn kind_word(kind: RunKind) -> u32 {
    match kind {
        RunKind::Checked(_) => CHECKED,
        RunKind::PLAIN => 0,
        RunKind::Plain(flags) | RunKind::Hole(flags) => u32::from(flags),
    }
}

/// Returns the length of the entry that begins with these bytes, if it is one for this purpose.
pub fn begins(purpose: Purpose, bytes: &[u8]) -> Option<usize> {
    let found =
        Purpose { signature: u32_at(bytes, 0x0C), clock: u64_at(bytes, 0x10), number: u64_at(bytes, 0x18) };
    let length = u32_at(bytes, 0x08) as usize;
    (bytes.starts_with(MAGIC) && found == purpose && length > 0 && length.is_multiple_of(UNIT))
        .then_some(length)
}

/// Reads an entry. `None` if it is not whole.
pub fn read(bytes: &mut [u8]) -> Option<Vec<Written>> {
    let expected = u32_at(bytes, 0x28);
    put(bytes, 0x28, 0u32);
    if crc32c(bytes) != expected {
        return None;
    }
    let mut files = Vec::new();
    let mut at = HEADER;
    for _ in 0..u32_at(bytes, 0x20) {
        let head = bytes.get(at..at + FILE)?;
        at += FILE;
        let (runs, units) = (u32_at(head, 0x20) as usize, usize::from(u16_at(head, 0x24)));
        let name = bytes.get(at..at + 2 * units)?;
        let name: Vec<u16> = name.chunks_exact(2).map(|unit| u16_at(unit, 0)).collect();
        at += (2 * units).next_multiple_of(8);
        let rows = bytes.get(at..at.checked_add(runs.checked_mul(RUN)?)?)?;
        at += rows.len();
        let run = |row: &[u8]| Extent {
            at: u32_at(row, 0x08),
            count: u32_at(row, 0x0C),
            cluster: u64_at(row, 0x00),
            kind: match (u32_at(row, 0x14), u32_at(row, 0x10)) {
                (kind, checksum) if kind & CHECKED != 0 => RunKind::Checked(checksum),
                (0, _) => RunKind::PLAIN,
                (flags, _) => RunKind::Plain(flags as u16),
            },
        };
        files.push(Written {
            home: u64_at(head, 0x00),
            ordinal: u64_at(head, 0x08),
            name: (units > 0).then_some(name),
            modified: u64_at(head, 0x10),
            valid: u64_at(head, 0x18),
            runs: rows.chunks_exact(RUN).map(run).collect(),
        });
    }
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PURPOSE: Purpose = Purpose { signature: 8664, clock: 20, number: 3 };

    fn files() -> Vec<Written> {
        let run = |at, checksum| Extent {
            at,
            count: 1,
            cluster: 0x1_2345 + u64::from(at),
            kind: RunKind::of(checksum),
        };
        let file = Written {
            home: 0x600,
            ordinal: 2,
            name: Some("database".encode_utf16().collect()),
            modified: 133_000_000_000_000_000,
            valid: 1 << 30,
            runs: (0..200).map(|at| run(3 * at, Some(at))).collect(),
        };
        let other = Written { name: None, runs: vec![run(7, None)], ..file.clone() };
        vec![file, other]
    }

    fn stored() -> Vec<u8> {
        let mut bytes = vec![0; length(&files())];
        store(PURPOSE, &files(), &mut bytes);
        bytes
    }

    #[test]
    fn an_entry_reads_back() {
        let mut bytes = stored();
        assert_eq!(bytes.len(), 2 * UNIT);
        assert_eq!(begins(PURPOSE, &bytes), Some(2 * UNIT));
        assert_eq!(read(&mut bytes), Some(files()));
    }

    #[test]
    fn an_entry_of_another_commit_or_volume_does_not_count() {
        let others = [
            Purpose { signature: 1, ..PURPOSE },
            Purpose { clock: 21, ..PURPOSE },
            Purpose { number: 2, ..PURPOSE },
        ];
        assert!(others.into_iter().all(|other| begins(other, &stored()).is_none()));
    }

    #[test]
    fn a_torn_entry_does_not_count() {
        for sector in 0..2 * UNIT / 512 {
            let mut bytes = stored();
            let torn = &mut bytes[512 * sector..][..512];
            if torn.iter().any(|&byte| byte != 0) {
                torn.fill(0);
                assert!(begins(PURPOSE, &bytes).is_none() || read(&mut bytes).is_none(), "sector {sector}");
            }
        }
    }
}
