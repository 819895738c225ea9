//! An entry of the log of syncs: which runs of which files are new since the checkpoint that it belongs to.
//!
//! The file with these entries is Platter's own and no part of the format, see `sync_log`. An entry is a header, and for
//! each file a part with its name, if its record is in the row of that name, and the runs.

use super::bytes::{FieldAt, u16_at};
use super::crc32c;
use super::extent::{Extent, RunKind};

/// Places and lengths of entries are multiples of this many bytes, so that no sector holds parts of two.
pub(crate) const UNIT: usize = 4096;
const MAGIC: &[u8; 8] = b"PLTRSYNC";

/// The header of an entry, after [`MAGIC`].
mod header {
    use super::FieldAt;

    pub(super) const LEN: usize = 0x30;
    /// The bytes of the entry.
    pub(super) const LENGTH: FieldAt<u32> = FieldAt::new(0x08);
    /// The volume's signature.
    pub(super) const SIGNATURE: FieldAt<u32> = FieldAt::new(0x0C);
    /// The clock of the checkpoint.
    pub(super) const CLOCK: FieldAt<u64> = FieldAt::new(0x10);
    /// The number of entries of the same checkpoint before.
    pub(super) const NUMBER: FieldAt<u64> = FieldAt::new(0x18);
    /// The number of files.
    pub(super) const FILES: FieldAt<u32> = FieldAt::new(0x20);
    /// The CRC-32C of the entry with this field zeroed.
    pub(super) const CHECKSUM: FieldAt<u32> = FieldAt::new(0x28);
}

/// The part about one file; its name and its runs follow.
mod file {
    use super::FieldAt;

    pub(super) const LEN: usize = 0x28;
    /// The home directory.
    pub(super) const HOME: FieldAt<u64> = FieldAt::new(0x00);
    /// The number in the home directory.
    pub(super) const ORDINAL: FieldAt<u64> = FieldAt::new(0x08);
    /// The time of the last write.
    pub(super) const MODIFIED: FieldAt<u64> = FieldAt::new(0x10);
    /// The valid data length.
    pub(super) const VALID: FieldAt<u64> = FieldAt::new(0x18);
    /// The number of runs.
    pub(super) const RUNS: FieldAt<u32> = FieldAt::new(0x20);
    /// The units of the name; 0 if there is none.
    pub(super) const UNITS: FieldAt<u16> = FieldAt::new(0x24);

    /// Bytes of a name of this many units, up to the first run.
    pub(super) fn name(units: usize) -> usize {
        (2 * units).next_multiple_of(8)
    }
}

/// A run.
mod run {
    use super::FieldAt;

    pub(super) const LEN: usize = 0x18;
    /// The first cluster on the volume.
    pub(super) const CLUSTER: FieldAt<u64> = FieldAt::new(0x00);
    /// The first cluster in the file.
    pub(super) const AT: FieldAt<u32> = FieldAt::new(0x08);
    /// The number of clusters.
    pub(super) const COUNT: FieldAt<u32> = FieldAt::new(0x0C);
    /// The checksum, if the run has one.
    pub(super) const CHECKSUM: FieldAt<u32> = FieldAt::new(0x10);
    /// See [`kind_word`](super::kind_word).
    pub(super) const KIND: FieldAt<u32> = FieldAt::new(0x14);
}

/// Flag of the kind of a run: it has a checksum.
const CHECKED: u32 = 1;

/// The part of an entry about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
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
pub(crate) struct Purpose {
    /// The volume's signature.
    pub signature: u32,
    /// The clock of the checkpoint on which the entry builds.
    pub clock: u64,
    /// The number of entries of the same checkpoint before this one.
    pub number: u64,
}

/// The length in bytes of an entry for these files.
pub(crate) fn length(files: &[Written]) -> usize {
    let of = |file: &Written| {
        file::LEN + file.name.as_ref().map_or(0, |name| file::name(name.len())) + run::LEN * file.runs.len()
    };
    (header::LEN + files.iter().map(of).sum::<usize>()).next_multiple_of(UNIT)
}

/// Stores an entry in `bytes`, whose number is the result of [`length`].
pub(crate) fn store(purpose: Purpose, files: &[Written], bytes: &mut [u8]) {
    bytes.fill(0);
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
    let whole = bytes.len() as u32;
    header::LENGTH.put(bytes, whole);
    header::SIGNATURE.put(bytes, purpose.signature);
    header::CLOCK.put(bytes, purpose.clock);
    header::NUMBER.put(bytes, purpose.number);
    header::FILES.put(bytes, files.len() as u32);
    let mut rest = &mut bytes[header::LEN..];
    for one in files {
        let name = one.name.as_deref().unwrap_or_default();
        file::HOME.put(rest, one.home);
        file::ORDINAL.put(rest, one.ordinal);
        file::MODIFIED.put(rest, one.modified);
        file::VALID.put(rest, one.valid);
        file::RUNS.put(rest, one.runs.len() as u32);
        file::UNITS.put(rest, name.len() as u16);
        rest = &mut rest[file::LEN..];
        for (place, unit) in rest.chunks_exact_mut(2).zip(name) {
            place.copy_from_slice(&unit.to_le_bytes());
        }
        rest = &mut rest[file::name(name.len())..];
        for one in &one.runs {
            run::CLUSTER.put(rest, one.cluster);
            run::AT.put(rest, one.at);
            run::COUNT.put(rest, one.count);
            run::CHECKSUM.put(rest, one.checksum().unwrap_or(0));
            run::KIND.put(rest, kind_word(one.kind));
            rest = &mut rest[run::LEN..];
        }
    }
    let checksum = crc32c(bytes);
    header::CHECKSUM.put(bytes, checksum);
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
pub(crate) fn begins(purpose: Purpose, bytes: &[u8]) -> Option<usize> {
    let found = Purpose {
        signature: header::SIGNATURE.of(bytes),
        clock: header::CLOCK.of(bytes),
        number: header::NUMBER.of(bytes),
    };
    let length = header::LENGTH.of(bytes) as usize;
    (bytes.starts_with(MAGIC) && found == purpose && length > 0 && length.is_multiple_of(UNIT))
        .then_some(length)
}

/// Reads an entry. `None` if it is not whole.
pub(crate) fn read(bytes: &mut [u8]) -> Option<Vec<Written>> {
    let expected = header::CHECKSUM.of(bytes);
    header::CHECKSUM.put(bytes, 0);
    if crc32c(bytes) != expected {
        return None;
    }
    let run = |row: &[u8]| Extent {
        at: run::AT.of(row),
        count: run::COUNT.of(row),
        cluster: run::CLUSTER.of(row),
        kind: match (run::KIND.of(row), run::CHECKSUM.of(row)) {
            (kind, checksum) if kind & CHECKED != 0 => RunKind::Checked(checksum),
            (0, _) => RunKind::PLAIN,
            (flags, _) => RunKind::Plain(flags as u16),
        },
    };
    let mut files = Vec::new();
    let mut rest = bytes.get(header::LEN..)?;
    for _ in 0..header::FILES.of(bytes) {
        let (head, after) = rest.split_at_checked(file::LEN)?;
        let (runs, units) = (file::RUNS.of(head) as usize, usize::from(file::UNITS.of(head)));
        let (name, after) = after.split_at_checked(file::name(units))?;
        let name = name.chunks_exact(2).take(units).map(|unit| u16_at(unit, 0)).collect();
        let (rows, after) = after.split_at_checked(runs.checked_mul(run::LEN)?)?;
        rest = after;
        files.push(Written {
            home: file::HOME.of(head),
            ordinal: file::ORDINAL.of(head),
            name: (units > 0).then_some(name),
            modified: file::MODIFIED.of(head),
            valid: file::VALID.of(head),
            runs: rows.chunks_exact(run::LEN).map(run).collect(),
        });
    }
    Some(files)
}

const _: () = assert!(
    header::CHECKSUM.end() <= header::LEN && header::LENGTH.at() == MAGIC.len(),
    "a header has its fields"
);
const _: () = assert!(
    file::UNITS.end() <= file::LEN && run::KIND.end() == run::LEN,
    "files and runs have their fields"
);
const _: () =
    assert!(file::LEN.is_multiple_of(8) && run::LEN.is_multiple_of(8), "all parts begin at words of 8 bytes");
const _: () = assert!(UNIT.is_multiple_of(4096), "no sector of any disk has parts of two entries");

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
