//! The records of changes in the log: which operations they hold.
//!
//! What the operations say is known for few of them, so nothing here carries one out; their names tell what a log that
//! was not replayed would change.
//!
//! Source: forefst `docs/structures/mlog.md`. The numbers are read in the driver; that one block holds one transaction,
//! and that the flag of its first change is set, was seen in some 9,000 blocks of four volumes.

use super::log::{DATA, LOG_BLOCK, entry, entry_of_kind, header};
use crate::layout::Version;
use crate::layout::bytes::u32_at;

/// The fewest bytes of a change: without its key and value.
const LEAST: usize = 0x38;
/// The offset in a change of its flags.
const FLAGS: usize = 0x2C;
/// The flag of the first change of a transaction.
const STARTS: u32 = 1;

/// A record of changes, as far as it stands in its first block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogRecord {
    /// The record's sequence number: the generation in the upper half, the block in the data area in the lower.
    pub number: u64,
    /// The sequence number of the record before; 0 in the first record of a log.
    pub previous: u64,
    /// The volume's signature.
    pub volume: u32,
    /// The number of blocks that the record takes, at least one.
    pub blocks: u64,
    /// The numbers of transactions that begin in it: one, or none in a record without changes.
    pub transactions: u64,
    /// The operation of each change.
    pub operations: Vec<u32>,
}

impl LogRecord {
    /// Reads the record that a block begins; `None` if it begins none. The checksum is not compared.
    pub(crate) fn from_bytes(block: &[u8]) -> Option<LogRecord> {
        let place = entry_of_kind(block, DATA)?;
        let mut record = LogRecord {
            number: header::NUMBER.of(block),
            previous: header::PREVIOUS.of(block),
            volume: header::VOLUME.of(block),
            blocks: u64::from(header::BLOCKS.of(block)).max(1),
            transactions: 0,
            operations: Vec::new(),
        };
        let content = place.saturating_add(entry::CONTENT.within(place).of(block) as usize);
        let redo = block.get(content..LOG_BLOCK).unwrap_or(&[]);
        if redo.len() < 8 {
            return Some(record);
        }
        let end = (u32_at(redo, 0x00) as usize).min(redo.len());
        let mut at = u32_at(redo, 0x04) as usize;
        while at.checked_add(LEAST).is_some_and(|least| least <= end) {
            let length = u32_at(redo, at) as usize;
            if length < LEAST || length > end - at {
                break;
            }
            record.operations.push(u32_at(redo, at + 4));
            record.transactions += u64::from(u32_at(redo, at + FLAGS) & STARTS != 0);
            at += length;
        }
        Some(record)
    }
}

/// What an operation does, by its number in the log of a volume of this version.
pub(crate) fn operation(version: Version, number: u32) -> &'static str {
    let is_old = version < Version::V3_7;
    match number {
        0x00 => "open a table",
        0x01 => "insert a row",
        0x02 => "delete a row",
        0x03 => "replace a row",
        0x04 => "change data and root",
        0x05 => "move a table to another parent",
        0x06 => "allocate clusters",
        0x07 => "free clusters",
        0x08 | 0x09 => "set the state of clusters",
        0x0A => "clone runs",
        0x0B => "change runs",
        0x0C => "drop checksums",
        0x0D => "set integrity",
        0x0E => "set a parent",
        0x0F => "delete a table",
        0x10 => "set the data of an object's row",
        0x11 => "add a schema",
        0x12 | 0x14 | 0x15 => "move a container",
        0x13 => "add a container",
        0x16 if is_old => "drop cached reads",
        0x16 => "set the state of ranges",
        0x17 if is_old => "compute a checksum",
        0x18 if is_old => "compress a container",
        0x18 => "compact a container",
        0x19 => "delete offsets of compressed units",
        0x1A => "add offsets of compressed units",
        0x1B => "make runs ghosts",
        0x1C => "give up what compaction reserved",
        _ if is_old => "unknown operation",
        0x1D => "remove a parent",
        0x1E => "prepare an entry for merging",
        0x1F => "set the sizes of a stream",
        0x20 => "set the data kept with a stream",
        0x21 => "insert runs",
        0x22 => "set the sums of a set of tables",
        0x23 => "change the shadow tree of a set of tables",
        0x24 => "end the merging of a set of tables",
        0x25 | 0x2B => "change a set of tables",
        0x26 => "merge references of a set of tables",
        0x27 => "set how to compress by default",
        0x28 => "break weak references",
        0x29 => "copy a cluster",
        0x2A => "set the encryption of a range",
        _ => "unknown operation",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::bytes::put;

    fn block() -> Vec<u8> {
        let mut block = vec![0; LOG_BLOCK];
        block[..4].copy_from_slice(b"MLog");
        put(&mut block, 0x04, 8664u32);
        put(&mut block, 0x28, 0x1_0000_0091u64);
        put(&mut block, 0x30, 0x1_0000_0090u64);
        put(&mut block, 0x54, 0x78u32);
        put(&mut block, 0xA0, 0x38u32);
        put(&mut block, 0xA8, DATA);
        // Two changes, followed by bytes that are none.
        put(&mut block, 0xB0, 8u32 + 0x38 + 0x40 + 4);
        put(&mut block, 0xB4, 8u32);
        put(&mut block, 0xB8, 0x38u32);
        put(&mut block, 0xBC, 0x01u32);
        put(&mut block, 0xB8 + FLAGS, STARTS);
        put(&mut block, 0xF0, 0x40u32);
        put(&mut block, 0xF4, 0x1Fu32);
        block
    }

    #[test]
    fn changes_of_a_record() {
        let expected = LogRecord {
            number: 0x1_0000_0091,
            previous: 0x1_0000_0090,
            volume: 8664,
            blocks: 1,
            transactions: 1,
            operations: vec![0x01, 0x1F],
        };
        assert_eq!(LogRecord::from_bytes(&block()), Some(expected));
        let mut short = block();
        put(&mut short, 0xB8, 0x37u32);
        assert_eq!(LogRecord::from_bytes(&short).unwrap().operations, []);
        assert_eq!(LogRecord::from_bytes(&block()[1..]), None);
        assert_eq!(LogRecord::from_bytes(&vec![0; LOG_BLOCK]), None);
        let mut control = block();
        put(&mut control, 0xA8, 1u32);
        assert_eq!(LogRecord::from_bytes(&control), None);
        // The header of an entry has 64 bytes in some builds; the offset of its content says so.
        let mut longer = block();
        longer.copy_within(0xB0..0x200, 0xB8);
        put(&mut longer, 0xA0, 0x40u32);
        assert_eq!(LogRecord::from_bytes(&longer).unwrap().operations, [0x01, 0x1F]);
    }

    #[test]
    fn every_operation_has_a_name() {
        for (version, count) in [(Version::V3_4, 0x1D), (Version::V3_7, 0x2C), (Version::V3_14, 0x2C)] {
            for number in 0..count {
                // 3.14 refuses this number.
                let is_none = number == 0x17 && version > Version::V3_4;
                assert_eq!(operation(version, number) == "unknown operation", is_none, "{number:#x}");
            }
            assert_eq!(operation(version, count), "unknown operation");
        }
    }

    #[test]
    fn no_damage_panics() {
        let good = block();
        for at in (0x54..0x58).chain(0x78..0x130) {
            for value in [0, 1, 0x0F, 0x7F, 0x80, 0xFF] {
                let mut damaged = good.clone();
                damaged[at] = value;
                let _ = LogRecord::from_bytes(&damaged);
            }
        }
    }
}
