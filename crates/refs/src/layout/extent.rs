//! Runs of a stream as the rows of a leaf node hold them. Such rows have no row header; the node's index leads to each.
//!
//! Source: forefst `docs/structures/extent_descriptors.md` (August 2026): the field at 0x0A counts 24 bytes, and 4 more
//! for each cluster of a run with checksums (CRC-32C, recomputed for 886 clusters of 4 KiB of Windows' volumes; what
//! stands there with clusters of 64 KiB or with SHA-256 is not proven). The next row begins at a multiple of 8.

use super::bytes::{FieldAt, u32_at};
use super::node::{self, NODE_HEADER};
use super::{TreeNode, TreeNodeMut, page};
use platter_vfs::{Error, Result};

/// A run of clusters of a stream, as a row holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The first cluster, counted in the stream.
    pub at: u32,
    /// The number of clusters.
    pub count: u32,
    /// The first cluster on the volume, as a virtual number; 0 for a hole.
    pub cluster: u64,
    /// What the row says of its content.
    pub kind: RunKind,
}

/// What a row of a stream says of the content of its clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunKind {
    /// Clusters without checksum. The row has these flags: [`RunKind::PLAIN`], or [`MARKED`] as well.
    Plain(u16),
    /// One cluster, whose content has this CRC-32C.
    Checked(u32),
    /// A hole for which Windows keeps a row, with these flags. It reads as zeroes.
    Hole(u16),
}

impl RunKind {
    /// A run without checksum, as new ones are written.
    pub(crate) const PLAIN: RunKind = RunKind::Plain(PLAIN);

    /// The kind of a run whose content has this checksum, if it has one.
    pub(crate) fn of(checksum: Option<u32>) -> RunKind {
        checksum.map_or(RunKind::PLAIN, RunKind::Checked)
    }
}

/// Flags of a row: a run without checksum.
const PLAIN: u16 = 0x40;
/// Flags of a row: a run without checksum too, as Windows writes most. What the flag 0x10 says is not known; it goes
/// with the file's attribute 0x8000 in forefst's census, and stands in the rows with checksums too.
pub(crate) const MARKED: u16 = 0x50;
/// Flags of a row: each cluster has a checksum. The flag 0x80 is the one that says so.
const CHECKED: u16 = 0xD0;
/// Flags of rows for holes, with cluster 0, on volumes of Windows from 3.9 on.
const HOLES: [u16; 2] = [0x60, 0x64];
/// Flags of further rows on volumes of Windows. No source says what they mean.
const UNEXPLAINED: [u16; 2] = [0x54, 0x850];

/// Flag of a node: its rows have no row header.
pub(crate) const FIXED: u8 = 8;

/// What can be read of the content of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// All of it.
    Content,
    /// Nothing: Windows writes such rows, and it is not known what they mean.
    Unexplained,
    /// Nothing: no such rows are known.
    Unknown,
}

/// The fields of a row as they stand there, before the checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunRow {
    /// The first cluster on the volume, as a virtual number.
    pub cluster: u64,
    /// What the row says of the content, see [`RunRow::reads`].
    pub flags: u16,
    /// The bytes of the row, its checksums included.
    pub size: u16,
    /// The first cluster, counted in the stream.
    pub at: u32,
    /// The number of clusters.
    pub count: u32,
}

impl RunRow {
    /// Bytes of a row before its checksums.
    pub(crate) const LEN: usize = 24;
    /// Bytes of a checksum.
    pub(crate) const SUM: usize = 4;
    /// Bytes from a row with one checksum to the row after it.
    const CHECKED_LEN: usize = 32;

    const CLUSTER: FieldAt<u64> = FieldAt::new(0x00);
    const FLAGS: FieldAt<u16> = FieldAt::new(0x08);
    const SIZE: FieldAt<u16> = FieldAt::new(0x0A);
    const AT: FieldAt<u32> = FieldAt::new(0x0C);
    const COUNT: FieldAt<u32> = FieldAt::new(0x14);
    const CHECKSUM: FieldAt<u32> = FieldAt::new(RunRow::LEN);

    /// Reads the row at the beginning of `bytes`; `None` if they are too few.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<RunRow> {
        let fixed = bytes.get(..RunRow::LEN)?;
        Some(RunRow {
            cluster: RunRow::CLUSTER.of(fixed),
            flags: RunRow::FLAGS.of(fixed),
            size: RunRow::SIZE.of(fixed),
            at: RunRow::AT.of(fixed),
            count: RunRow::COUNT.of(fixed),
        })
    }

    /// Tells what can be read of the row's content.
    pub(crate) fn reads(&self) -> Reads {
        let (size, count) = (u64::from(self.size), u64::from(self.count));
        match self.flags {
            PLAIN | MARKED => Reads::Content,
            _ if self.is_hole() => Reads::Content,
            flags if UNEXPLAINED.contains(&flags) => Reads::Unexplained,
            // The driver has other checksums for clusters of 64 KiB, and on volumes with SHA-256. Whether they stand
            // here is not known; if so, the size tells them apart.
            _ if self.has_checksums()
                && [8, 32].iter().any(|each| size == RunRow::LEN as u64 + each * count)
                && size != RunRow::LEN as u64 + RunRow::SUM as u64 * count =>
            {
                Reads::Unexplained
            }
            _ if self.has_checksums() => Reads::Content,
            _ => Reads::Unknown,
        }
    }

    /// Whether checksums stand behind the row.
    pub(crate) fn has_checksums(&self) -> bool {
        self.flags & CHECKED == CHECKED
    }

    /// Whether the row stands for a hole.
    pub(crate) fn is_hole(&self) -> bool {
        HOLES.contains(&self.flags) && self.cluster == 0
    }

    /// The checksums of the row at the beginning of `bytes`, one for each cluster; `None` if `bytes` are too few.
    pub(crate) fn checksums<'b>(&self, bytes: &'b [u8]) -> Option<impl Iterator<Item = u32> + use<'b>> {
        let sums = bytes.get(RunRow::LEN..)?.get(..(self.count as usize).checked_mul(RunRow::SUM)?)?;
        Some(sums.chunks_exact(RunRow::SUM).map(|sum| u32_at(sum, 0)))
    }
}

impl Extent {
    /// The cluster of the stream after the run.
    pub(crate) fn end(&self) -> u32 {
        self.at + self.count
    }

    /// A hole from the cluster `from` of the stream up to `to`, as a row of its own.
    pub(crate) fn hole(from: u32, to: u32) -> Extent {
        Extent { at: from, count: to - from, cluster: 0, kind: RunKind::Hole(HOLES[0]) }
    }

    /// The part of the run from the cluster `from` of the stream up to `to`, both within the run.
    pub(crate) fn part(&self, from: u32, to: u32) -> Extent {
        let cluster = if self.is_hole() { 0 } else { self.cluster + u64::from(from - self.at) };
        Extent { at: from, count: to - from, cluster, ..*self }
    }

    /// The CRC-32C of the content; a run with a checksum is one cluster long.
    pub(crate) fn checksum(&self) -> Option<u32> {
        match self.kind {
            RunKind::Checked(checksum) => Some(checksum),
            RunKind::Plain(_) | RunKind::Hole(_) => None,
        }
    }

    /// Whether the row stands for a hole.
    pub(crate) fn is_hole(&self) -> bool {
        matches!(self.kind, RunKind::Hole(_))
    }

    /// Bytes from the run's row to the one after it.
    pub(crate) fn size(&self) -> usize {
        if self.checksum().is_some() { RunRow::CHECKED_LEN } else { RunRow::LEN }
    }

    /// Reads the row at the beginning of `bytes`: its runs are appended to `to`. `None` if `bytes` are too few.
    pub(crate) fn read(bytes: &[u8], to: &mut Vec<Extent>) -> Option<()> {
        let row = RunRow::from_bytes(bytes)?;
        // A damaged number leads nowhere; as this one it can be counted on from like any other.
        let cluster = row.cluster.min(u64::MAX - u64::from(u32::MAX));
        let (flags, at, count) = (row.flags, row.at, row.count);
        if !row.has_checksums() {
            let kind = if row.is_hole() { RunKind::Hole(flags) } else { RunKind::Plain(flags) };
            to.push(Extent { at, count, cluster, kind });
            return Some(());
        }
        // A row of one cluster is read even if its size is not as it should be, as long as the checksum is there.
        let sums = row.checksums(bytes)?;
        if count > 1 && usize::from(row.size) != RunRow::LEN + RunRow::SUM * count as usize {
            return None;
        }
        to.extend(sums.zip(0u32..).map(|(sum, index)| Extent {
            at: at.wrapping_add(index),
            count: 1,
            cluster: cluster.wrapping_add(u64::from(index)),
            kind: RunKind::Checked(sum),
        }));
        Some(())
    }

    /// Reads the row at `at` in a node, as [`Extent::read`] does, but only within the bytes of a row with one checksum.
    pub(crate) fn read_checked(area: &[u8], at: usize, to: &mut Vec<Extent>) -> Option<()> {
        Extent::read(area.get(at..at + RunRow::CHECKED_LEN)?, to)
    }

    /// Stores the run at the beginning of `bytes`.
    pub(crate) fn store(&self, bytes: &mut [u8]) {
        // The row is put together first and copied as a whole: a leaf has hundreds of them.
        let mut row = [0; RunRow::CHECKED_LEN];
        let (flags, sums) = match self.kind {
            RunKind::Checked(_) => (CHECKED, RunRow::SUM),
            RunKind::Plain(flags) | RunKind::Hole(flags) => (flags, 0),
        };
        RunRow::CLUSTER.put(&mut row, self.cluster);
        RunRow::FLAGS.put(&mut row, flags);
        RunRow::SIZE.put(&mut row, (RunRow::LEN + sums) as u16);
        RunRow::AT.put(&mut row, self.at);
        RunRow::COUNT.put(&mut row, self.count);
        RunRow::CHECKSUM.put(&mut row, self.checksum().unwrap_or(0));
        match self.checksum() {
            Some(_) => bytes[..RunRow::CHECKED_LEN].copy_from_slice(&row),
            None => bytes[..RunRow::LEN].copy_from_slice(&row[..RunRow::LEN]),
        }
    }
}

/// Returns the runs of a leaf node, or an error if one is of a kind whose clusters may not hold the content as it is.
pub(crate) fn readable_rows(area: &[u8]) -> Result<Vec<Extent>> {
    let node = TreeNode::new(area);
    for at in (0..node.len()).map(|position| node.offset(position)) {
        let Some(row) = area.get(at..).and_then(RunRow::from_bytes) else { continue };
        if row.reads() != Reads::Content {
            let expected = format!("{PLAIN:#x}, {MARKED:#x}, {CHECKED:#x}, or that of a hole");
            let found = format!("{:#x} with {} bytes", row.flags, row.size);
            return Err(Error::damaged("kind of a run of a stream", at as u64, expected, found));
        }
    }
    rows(area)
}

/// Returns the runs of a leaf node, in order, after checking that they do not overlap.
pub(crate) fn rows(area: &[u8]) -> Result<Vec<Extent>> {
    let node = TreeNode::new(area);
    let mut rows = Vec::with_capacity(node.len());
    let wrong = |at: usize, found: String| {
        Err(Error::damaged("run of a stream", at as u64, "a run that is not empty", found))
    };
    for position in 0..node.len() {
        let at = node.offset(position);
        let first = rows.len();
        // The index begins after the rows, so the bytes of the area bound what a count may say.
        if area.get(at..).and_then(|bytes| Extent::read(bytes, &mut rows)).is_none() {
            return wrong(at, format!("{at:#x} of {:#x} bytes", area.len()));
        }
        let fits =
            |row: &Extent| row.count > 0 && row.at.checked_add(row.count).is_some_and(|end| end < u32::MAX);
        if rows.len() == first || !rows[first..].iter().all(fits) {
            return wrong(at, format!("{:?}", &rows[first..]));
        }
    }
    rows.sort_by_key(|row| row.at);
    if let Some(pair) = rows.windows(2).find(|pair| pair[0].end() > pair[1].at) {
        return Err(Error::damaged("runs of a stream", 0, "runs that do not overlap", format!("{pair:?}")));
    }
    Ok(rows)
}

/// Stores runs as the rows of a leaf node that fills the empty `area`, with the index at its end.
pub(crate) fn store_rows(area: &mut [u8], rows: &[Extent], flags: u8, embedded: bool) {
    TreeNodeMut::fresh(area, 0, flags);
    let index = area.len() - node::PLACE * rows.len();
    let mut at = NODE_HEADER;
    let mut clusters = 0u64;
    for (position, row) in rows.iter().enumerate() {
        row.store(&mut area[at..]);
        clusters += u64::from(row.count);
        let upper = if embedded { u64::from(row.at) } else { clusters };
        let place = index + node::PLACE * position;
        node::PLACE_ROW.within(place).put(area, at as u16);
        node::PLACE_MARK.within(place).put(area, upper.min(0xFFFF) as u16);
        at += row.size();
    }
    node::DATA_END.put(area, at as u32);
    node::FREE.put(area, (index - at) as u32);
    node::INDEX.put(area, index as u32);
    node::COUNT.put(area, rows.len() as u32);
}

/// The bytes that runs and their entries in the index take in a node.
pub(crate) fn rows_size(rows: &[Extent]) -> usize {
    rows.iter().map(|row| row.size() + node::PLACE).sum()
}

/// Where the row at this position stands in a leaf whose rows all have one checksum.
pub(crate) fn row_at(position: usize) -> usize {
    NODE_HEADER + RunRow::CHECKED_LEN * position
}

/// Bytes of a page of a stream before its node: the page header, and a tree header of its length alone.
pub(crate) const STREAM_HEADER: usize = page::HEADER + 8;

/// Bytes from a row with one checksum to the row after it.
pub(crate) const CHECKED_ROW: usize = RunRow::CHECKED_LEN;

/// The bytes that a child in an inner node of a stream and its entry in the index take, with a reference of this many
/// bytes.
pub(crate) fn child_size(reference: usize) -> usize {
    node::ROW_HEADER + CHILD_KEY + reference + node::PLACE
}

/// Bytes of the key of a child in an inner node of a stream.
pub(crate) const CHILD_KEY: usize = 16;
/// In the key of a child: the last cluster of the stream below it.
pub(crate) const CHILD_LAST: FieldAt<u64> = FieldAt::new(0x00);

const _: () = assert!(RunRow::COUNT.end() == RunRow::LEN, "the count is the last field before the checksums");
const _: () = assert!(RunRow::CHECKSUM.end() <= RunRow::CHECKED_LEN, "one checksum fits before the next row");
const _: () = assert!(
    RunRow::CHECKED_LEN.is_multiple_of(8) && RunRow::LEN.is_multiple_of(8),
    "rows begin at words of 8 bytes"
);
const _: () = assert!(CHILD_LAST.end() <= CHILD_KEY, "the key of a child has its field");
