//! The metadata log: where it is (objects 0x9 and 0xA), its control blocks, and whether a block of it holds a record.
//!
//! The log is for redo only: its records from the oldest one that the checkpoint needs would have to be repeated after
//! a crash. If the checkpoint contains all changes, there are none to repeat.
//!
//! The upper half of a record's *sequence number* counts how often the log was begun anew from its first block, the
//! lower half is the block in the data area. Blocks have 4 KiB whatever the cluster size.
//!
//! Source: forefst `docs/structures/mlog.md` and its listings of logs of Windows 10 and 11. The rows are proven: the
//! root page of a table built from them has the checksum that Windows 11 stored for its own. So is the checksum of a
//! block, on 599,039 data blocks and 95 control blocks of versions 3.4 to 3.15 (forefst). That the volume's signature
//! is in every block, and that a control block counts in blocks where the rows count in clusters, follows from the
//! listings: five volumes, one of them with clusters of 64 KiB. Uncertain in the control block: which of the fields
//! with the log's identifier really is one.

use super::SystemRow;
use crate::layout::bytes::{FieldAt, put, u32_at, u64_at};
use std::ops::Range;

/// Bytes of a block of the log.
pub(crate) const LOG_BLOCK: usize = 4096;

/// The first bytes of every block of the log.
const SIGNATURE: &[u8; 4] = b"MLog";
/// The header of a block.
pub(super) mod header {
    use super::{FieldAt, Range};

    /// The volume's signature.
    pub(crate) const VOLUME: FieldAt<u32> = FieldAt::new(0x04);
    /// The version of the log's format, 1.
    pub(crate) const VERSION: FieldAt<u32> = FieldAt::new(0x08);
    /// Bytes of a block.
    pub(crate) const BLOCK: FieldAt<u32> = FieldAt::new(0x0C);
    /// The log's identifier.
    pub(crate) const LOG: Range<usize> = 0x10..0x20;
    /// Of a control block: its sequence number.
    pub(crate) const SEQUENCE: FieldAt<u64> = FieldAt::new(0x20);
    /// Of a record: its sequence number.
    pub(crate) const NUMBER: FieldAt<u64> = FieldAt::new(0x28);
    /// Of a record: the sequence number of the record before.
    pub(crate) const PREVIOUS: FieldAt<u64> = FieldAt::new(0x30);
    /// The blocks of the record.
    pub(crate) const BLOCKS: FieldAt<u32> = FieldAt::new(0x38);
    /// The blocks of the record's header.
    pub(crate) const HEADER_BLOCKS: FieldAt<u32> = FieldAt::new(0x3C);
    /// Where the header of the only entry is.
    pub(crate) const ENTRY_PLACE: FieldAt<u32> = FieldAt::new(0x54);
}

/// The header of an entry.
pub(super) mod entry {
    use super::FieldAt;

    /// Bytes of the header that are read.
    pub(crate) const LEN: usize = KIND.end();
    /// The checksum of the block.
    pub(crate) const CHECKSUM: usize = 0x08;
    /// Bytes of the content.
    pub(crate) const LENGTH: FieldAt<u32> = FieldAt::new(0x20);
    /// Where the content is, from the entry's header on.
    pub(crate) const CONTENT: FieldAt<u32> = FieldAt::new(0x28);
    /// Bytes from the entry's header to the end of the block.
    pub(crate) const SPACE: FieldAt<u32> = FieldAt::new(0x2C);
    /// What the entry holds.
    pub(crate) const KIND: FieldAt<u32> = FieldAt::new(0x30);
}

/// The content of a control block.
mod control {
    use super::FieldAt;

    /// The sequence number, as in the block's header.
    pub(super) const SEQUENCE: FieldAt<u64> = FieldAt::new(0x00);
    /// The first block of the log's data area.
    pub(super) const START: FieldAt<u64> = FieldAt::new(0x08);
    /// The block after the log's data area.
    pub(super) const END: FieldAt<u64> = FieldAt::new(0x10);
    /// The oldest record that is needed.
    pub(super) const OLDEST: FieldAt<u64> = FieldAt::new(0x18);
    /// The block in the data area where the next record goes.
    pub(super) const NEXT: FieldAt<u32> = FieldAt::new(0x20);
    /// The log's identifier, as in the block's header.
    pub(super) const LOG: usize = 0x28;
    /// A count of writes: 2 on every volume seen.
    pub(super) const WRITES: FieldAt<u32> = FieldAt::new(0x38);
    /// Flags: 1.
    pub(super) const FLAGS: FieldAt<u32> = FieldAt::new(0x3C);
    /// The log's identifier, again.
    pub(super) const LOG_TOO: usize = 0x50;
}

/// The bytes of the identifier of a log that begins at `at`.
fn log_at(at: usize) -> Range<usize> {
    at..at + header::LOG.len()
}

/// The offset in a block of the header of its only entry.
const ENTRY: usize = 0x78;
/// The offset of the content of a control block: 0x38 after the entry's header.
const CONTENT: usize = ENTRY + CONTENT_FROM_ENTRY as usize;
const CONTENT_FROM_ENTRY: u32 = 0x38;
/// The length of the content that a control block states.
const CONTENT_LENGTH: u32 = 0xE48;
/// The kind of entry that a control block holds.
const CONTROL: u32 = 1;
/// The kind of entry that holds changes of metadata.
pub(super) const DATA: u32 = 2;

/// Where the log is, in real cluster numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogArea {
    /// The clusters of the log's data area.
    pub data: Range<u64>,
    /// The two clusters whose first blocks are the control blocks, which are written alternately.
    pub control: [u64; 2],
}

impl LogArea {
    /// Makes the rows of the table with the log's place.
    pub(crate) fn rows(&self) -> Vec<SystemRow> {
        let fields = [
            self.data.start,
            self.data.end,
            self.data.end.saturating_sub(self.data.start),
            self.control[0],
            self.control[1],
            0,
        ];
        let place = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
        let values = [b"Logfile Information Table".to_vec(), place];
        (0u32..).map(|index| index.to_le_bytes().to_vec()).zip(values).collect()
    }

    /// The log's data area in blocks of 4 KiB, on a volume with clusters of this many bytes.
    pub(crate) fn blocks(&self, cluster: u32) -> Range<u64> {
        let each = u64::from(cluster) / LOG_BLOCK as u64;
        self.data.start.saturating_mul(each)..self.data.end.saturating_mul(each)
    }

    /// Whether a key is that of the row with the log's place.
    pub(crate) fn is_place(key: &[u8]) -> bool {
        key.len() >= 4 && u32_at(key, 0) == 1
    }

    /// Reads the log's place from the rows; `None` if no row has it or its fields contradict each other.
    pub(crate) fn from_rows<'a>(rows: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Option<LogArea> {
        let (_, value) = rows.into_iter().find(|(key, _)| LogArea::is_place(key))?;
        let field = |index: usize| u64_at(value, 8 * index);
        let area = LogArea { data: field(0)..field(1), control: [field(3), field(4)] };
        let sound = value.len() >= 40 && area.data.start.checked_add(field(2)) == Some(area.data.end);
        sound.then_some(area)
    }
}

/// The fields of a control block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogControl {
    /// The volume's signature, in every block of the log.
    pub volume: u32,
    /// The identifier of this log, different from that of an earlier one in the same place.
    pub log: [u8; 16],
    /// Grows with each control block that is written: of the two, the one with the greater number is the newer.
    pub sequence: u64,
    /// The log's data area, in blocks of 4 KiB from the start of the volume.
    pub blocks: Range<u64>,
    /// The sequence number of the oldest record still needed, as in the checkpoint; that of the next record if the log
    /// is empty.
    pub oldest: u64,
    /// The block in the data area where the next record goes.
    pub next: u32,
}

impl LogControl {
    /// Returns the block as it stands on disk.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut block = vec![0; LOG_BLOCK];
        block[..SIGNATURE.len()].copy_from_slice(SIGNATURE);
        header::VOLUME.put(&mut block, self.volume);
        header::VERSION.put(&mut block, 1);
        header::BLOCK.put(&mut block, LOG_BLOCK as u32);
        block[header::LOG].copy_from_slice(&self.log);
        header::SEQUENCE.put(&mut block, self.sequence);
        header::BLOCKS.put(&mut block, 1);
        header::HEADER_BLOCKS.put(&mut block, 1);
        header::ENTRY_PLACE.put(&mut block, ENTRY as u32);

        entry::LENGTH.within(ENTRY).put(&mut block, CONTENT_LENGTH);
        entry::CONTENT.within(ENTRY).put(&mut block, CONTENT_FROM_ENTRY);
        entry::SPACE.within(ENTRY).put(&mut block, (LOG_BLOCK - ENTRY) as u32);
        entry::KIND.within(ENTRY).put(&mut block, CONTROL);

        control::SEQUENCE.within(CONTENT).put(&mut block, self.sequence);
        control::START.within(CONTENT).put(&mut block, self.blocks.start);
        control::END.within(CONTENT).put(&mut block, self.blocks.end);
        control::OLDEST.within(CONTENT).put(&mut block, self.oldest);
        control::NEXT.within(CONTENT).put(&mut block, self.next);
        block[log_at(CONTENT + control::LOG)].copy_from_slice(&self.log);
        control::WRITES.within(CONTENT).put(&mut block, 2);
        control::FLAGS.within(CONTENT).put(&mut block, 1);
        block[log_at(CONTENT + control::LOG_TOO)].copy_from_slice(&self.log);

        seal(&mut block);
        block
    }

    /// Reads a block; `None` if it is no control block. The checksum is not compared.
    pub(crate) fn from_bytes(block: &[u8]) -> Option<LogControl> {
        let content = control_content(block)?;
        Some(LogControl {
            volume: header::VOLUME.of(block),
            log: block[header::LOG].try_into().ok()?,
            sequence: control::SEQUENCE.within(content).of(block),
            blocks: control::START.within(content).of(block)..control::END.within(content).of(block),
            oldest: control::OLDEST.within(content).of(block),
            next: control::NEXT.within(content).of(block),
        })
    }
}

/// The offset of the content of a control block; `None` if the block is none.
fn control_content(block: &[u8]) -> Option<usize> {
    let place = entry_of_kind(block, CONTROL)?;
    let content = place.checked_add(entry::CONTENT.within(place).of(block) as usize)?;
    let fits = content <= LOG_BLOCK - CONTENT_LENGTH as usize;
    (entry::LENGTH.within(place).of(block) == CONTENT_LENGTH && fits).then_some(content)
}

/// Compares the fields of a control block that are the same in all of them. Returns what is wrong with the first that is
/// not, and the block with all of them put right.
pub(crate) fn control_form(block: &[u8]) -> Option<(String, Vec<u8>)> {
    let content = control_content(block)?;
    let fields = [
        (header::VERSION, 1),
        (header::BLOCK, LOG_BLOCK as u32),
        (header::BLOCKS, 1),
        (header::HEADER_BLOCKS, 1),
        (control::FLAGS.within(content), 1),
    ];
    let wrong = fields.into_iter().find(|(field, expected)| field.of(block) != *expected);
    let names = [control::LOG, control::LOG_TOO].map(|at| log_at(content + at));
    let alias = names.iter().find(|name| block[Range::clone(name)] != block[header::LOG]);
    let what = match (wrong, alias) {
        (Some((field, expected)), _) => {
            format!("field at {:#x}: expected {expected:#x}, found {:#x}", field.at(), field.of(block))
        }
        (None, Some(name)) => format!("identifier at {:#x}: expected that of the block's header", name.start),
        (None, None) => return None,
    };
    let mut mended = block.to_vec();
    fields.into_iter().for_each(|(field, expected)| field.put(&mut mended, expected));
    names.into_iter().for_each(|name| mended.copy_within(header::LOG, name.start));
    seal(&mut mended);
    Some((what, mended))
}

/// A control block with another sequence number.
pub(crate) fn renumbered_control(block: &[u8], sequence: u64) -> Vec<u8> {
    let mut block = block.to_vec();
    header::SEQUENCE.put(&mut block, sequence);
    if let Some(content) = control_content(&block) {
        control::SEQUENCE.within(content).put(&mut block, sequence);
    }
    seal(&mut block);
    block
}

/// The offset of a block's entry, if the block is one of a log and the entry is of this kind.
pub(super) fn entry_of_kind(block: &[u8], kind: u32) -> Option<usize> {
    if block.len() < LOG_BLOCK || !block.starts_with(SIGNATURE) {
        return None;
    }
    let place = header::ENTRY_PLACE.of(block) as usize;
    (place < LOG_BLOCK - entry::LEN && entry::KIND.within(place).of(block) == kind).then_some(place)
}

/// The checksum that a block stores and the one that it must have; `None` if it names no place for one.
///
/// All 8-byte words, without the checksum itself, are combined by XOR, and then the two halves of the result. The upper
/// four bytes of the field are zero.
pub(crate) fn log_checksum(block: &[u8]) -> Option<LogChecksum> {
    let at = checksum_place(block)?;
    let stored = u64_at(block, at);
    let whole = fold(block) ^ stored;
    Some(LogChecksum { at, stored, expected: halves(whole), whole })
}

/// The checksum of a record of several blocks, which stands in the first of them: each further block begins with the
/// result of the one before, rotated left by one bit. The driver computes it so; no such record is known.
pub(crate) fn log_checksum_of(record: &[u8]) -> Option<LogChecksum> {
    let (first, rest) = record.split_at_checked(LOG_BLOCK)?;
    let first = log_checksum(first)?;
    let next = |sum: u64, block: &[u8]| halves(sum.rotate_left(1) ^ fold(block));
    let expected = rest.chunks(LOG_BLOCK).fold(first.expected, next);
    Some(LogChecksum { expected, ..first })
}

/// A block's checksum: see [`log_checksum`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogChecksum {
    /// The field's offset in the block.
    pub at: usize,
    /// What the block stores.
    pub stored: u64,
    /// What it must store.
    pub expected: u64,
    /// The XOR of all words before its halves are combined. Earlier versions of Platter stored this value.
    pub whole: u64,
}

impl LogChecksum {
    /// Whether the block is whole.
    pub(crate) fn is_right(&self) -> bool {
        self.stored == self.expected
    }

    /// Whether the block is whole and was written by an earlier version of Platter.
    pub(crate) fn is_former(&self) -> bool {
        self.stored == self.whole
    }
}

/// Stores the checksum of a block that names a place for one.
pub(crate) fn seal(block: &mut [u8]) {
    if let Some(checksum) = log_checksum(block) {
        put(block, checksum.at, checksum.expected);
    }
}

/// The offset of a block's checksum: 8 bytes into the header of its entry. The offset of that header is a multiple of
/// 8 in every block that is known; in no other does the field coincide with a word of the block.
fn checksum_place(block: &[u8]) -> Option<usize> {
    if block.len() != LOG_BLOCK || !block.starts_with(SIGNATURE) {
        return None;
    }
    let place = header::ENTRY_PLACE.of(block) as usize;
    (place.is_multiple_of(8) && place < LOG_BLOCK - entry::LEN).then_some(place + entry::CHECKSUM)
}

/// The two halves of a word combined by XOR.
fn halves(word: u64) -> u64 {
    word >> 32 ^ word & 0xFFFF_FFFF
}

/// All 8-byte words of a block combined by XOR.
fn fold(block: &[u8]) -> u64 {
    (0..block.len() / 8).fold(0, |sum, word| sum ^ u64_at(block, 8 * word))
}

const _: () = assert!(CONTENT + CONTENT_LENGTH as usize <= LOG_BLOCK, "a control block is one block");
const _: () = assert!(
    header::ENTRY_PLACE.end() <= ENTRY && ENTRY + entry::LEN <= CONTENT,
    "each part ends before the next"
);
const _: () = assert!(
    control::LOG_TOO + header::LOG.end - header::LOG.start <= CONTENT_LENGTH as usize,
    "the content has its fields"
);

#[cfg(test)]
mod tests {
    use super::*;

    fn control() -> LogControl {
        LogControl {
            volume: 0x84C1_FFCF,
            log: *b"an identifier...",
            sequence: 52,
            blocks: 0x10000..0x20000,
            oldest: 0x1_0000_0092,
            next: 0x92,
        }
    }

    #[test]
    fn place_of_the_log() {
        let area = LogArea { data: 0x10000..0x20000, control: [0x8000, 0x8001] };
        let rows = area.rows();
        let borrowed =
            |rows: &[SystemRow]| LogArea::from_rows(rows.iter().map(|(key, value)| (&key[..], &value[..])));
        assert_eq!(rows[0].1, b"Logfile Information Table");
        assert_eq!(rows[1].1.len(), 48);
        assert_eq!(u64_at(&rows[1].1, 16), 0x10000);
        assert_eq!(borrowed(&rows), Some(area));
        assert_eq!(borrowed(&rows[..1]), None);
        let mut contradictory = rows.clone();
        contradictory[1].1[16] = 1;
        assert_eq!(borrowed(&contradictory), None);
        let mut short = rows;
        short[1].1.truncate(39);
        assert_eq!(borrowed(&short), None);
    }

    #[test]
    fn control_block() {
        let block = control().to_bytes();
        assert_eq!(block.len(), LOG_BLOCK);
        assert_eq!((u32_at(&block, 0x98), u32_at(&block, 0xA0), u32_at(&block, 0xA8)), (0xE48, 0x38, 1));
        assert_eq!(u64_at(&block, 0xB8), 0x10000);
        let checksum = log_checksum(&block).unwrap();
        assert!(checksum.is_right() && !checksum.is_former());
        assert_eq!((checksum.at, u32_at(&block, 0x84)), (0x80, 0));
        assert_eq!(LogControl::from_bytes(&block), Some(control()));
    }

    /// Every bit of a block is covered; a word that stands twice is not, which is what an XOR cannot see.
    #[test]
    fn checksum() {
        let block = control().to_bytes();
        for at in (0..LOG_BLOCK).filter(|at| !(0x54..0x58).contains(at)) {
            let mut damaged = block.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(!log_checksum(&damaged).is_some_and(|checksum| checksum.is_right()), "byte {at:#x}");
        }
        // Computed from the description: the words 1, 2 and 0x3_0000_0000 beside the signature and the offset 0x78.
        let mut block = vec![0; LOG_BLOCK];
        block[..4].copy_from_slice(b"MLog");
        put(&mut block, 0x54, 0x78u32);
        put(&mut block, 0x100, 1u64);
        put(&mut block, 0xFF8, 2u64);
        put(&mut block, 0x80, u64::MAX);
        let checksum = log_checksum(&block).unwrap();
        assert_eq!(checksum.expected, u64::from(u32::from_le_bytes(*b"MLog") ^ 0x78 ^ 3));
        assert_eq!(checksum.whole, 0x78_676F_4C4E);
        assert_eq!(log_checksum(&block[..512]), None);
        // Of two blocks: the result of the first, rotated, and the words of the second.
        let mut two = block.clone();
        two.resize(2 * LOG_BLOCK, 0);
        put(&mut two, LOG_BLOCK + 8, 5u64 << 32);
        assert_eq!(log_checksum_of(&block), log_checksum(&block));
        let expected = log_checksum_of(&two).unwrap().expected;
        assert_eq!(expected, (checksum.expected << 1 & 0xFFFF_FFFF) ^ 5 ^ checksum.expected >> 31);
        assert_eq!(log_checksum_of(&block[..512]), None);
        put(&mut block, 0x54, 0x7Cu32);
        assert_eq!(log_checksum(&block), None);
    }

    #[test]
    fn no_damage_panics() {
        let block = control().to_bytes();
        for at in (0x54..0x58).chain(ENTRY..CONTENT) {
            for value in [0, 1, 0x0F, 0x7F, 0x80, 0xFF] {
                let mut damaged = block.clone();
                damaged[at] = value;
                let _ = (LogControl::from_bytes(&damaged), log_checksum(&damaged));
            }
        }
    }
}
