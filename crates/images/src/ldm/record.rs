//! The records of the database of a disk group: volumes, their components, partitions and disks.

use super::header::Database;
use crate::bytes::{be32, damaged};
use platter_device::Result;
use std::collections::BTreeMap;

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Volume {
        id: u64,
        name: String,
        kind: String,
        size: u64,
        hint: String,
    },
    /// `stripe` has the sectors of a stripe and the number of columns; `kind` is 1 for striped, 2 for one partition after
    /// the other, 3 for parity.
    Component {
        id: u64,
        volume: u64,
        kind: u8,
        children: u64,
        stripe: Option<(u64, u64)>,
    },
    /// A part of a disk, in sectors: `start` counts from where the data of the disk begins, `offset` in the component.
    Partition {
        start: u64,
        offset: u64,
        size: u64,
        component: u64,
        disk: u64,
        index: u64,
    },
    Disk {
        id: u64,
        name: String,
        identifier: String,
    },
    Group,
}

/// A record that is split over several blocks is no longer than this.
const MOST_PARTS: u16 = 64;
/// The bytes of a block before its part of a record.
const HEAD: usize = 16;

impl Database {
    /// All records. `disk` is the name of the disk, for messages.
    pub(crate) fn parse(&self, disk: &str) -> Result<Vec<Record>> {
        let mut groups: BTreeMap<u32, Vec<Option<&[u8]>>> = BTreeMap::new();
        let mut places = BTreeMap::new();
        for (number, block) in self.records.chunks_exact(self.record).enumerate() {
            let at = self.at + self.first + (number * self.record) as u64;
            let (group, part, parts) = (be32(block, 8), short(block, 12), short(block, 14));
            if !block.starts_with(b"VBLK") || group == 0 || parts == 0 {
                continue;
            }
            let expected = format!("part {part} of at most {MOST_PARTS}");
            let all = groups.entry(group).or_insert_with(|| vec![None; usize::from(parts.min(MOST_PARTS))]);
            match all.get_mut(usize::from(part)) {
                Some(free @ None) if parts <= MOST_PARTS => *free = Some(&block[HEAD..]),
                _ => {
                    return Err(damaged(
                        disk,
                        "a record of a disk group",
                        at,
                        expected,
                        format!("one of {parts}, or one twice"),
                    ));
                }
            }
            places.entry(group).or_insert(at);
        }
        let mut records = Vec::new();
        for (group, parts) in groups {
            let at = places[&group];
            let Some(parts) = parts.into_iter().collect::<Option<Vec<&[u8]>>>() else {
                return Err(damaged(disk, "a record of a disk group", at, "all its parts", "some only"));
            };
            let bytes = parts.concat();
            let mut fields = Fields { bytes: &bytes, at: 0 };
            match fields.record() {
                Some(record) => records.extend(record),
                None => {
                    let found = format!("a record of the kind {:#x} that is cut off", bytes[3]);
                    return Err(damaged(disk, "a record of a disk group", at, "all its fields", found));
                }
            }
        }
        Ok(records)
    }
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The fields of a record, one after the other; `None` behind its end.
struct Fields<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Fields<'_> {
    fn take(&mut self, length: usize) -> Option<&[u8]> {
        let bytes = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(bytes)
    }

    /// A number of a fixed length.
    fn number(&mut self, length: usize) -> Option<u64> {
        let bytes = self.take(length)?;
        Some(bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    /// A number with its length before it, at most 8 bytes.
    fn counted(&mut self) -> Option<u64> {
        let length = self.number(1)? as usize;
        if length > 8 { None } else { self.number(length) }
    }

    /// Text with its length before it.
    fn text(&mut self) -> Option<String> {
        let length = self.number(1)? as usize;
        Some(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    /// The record; `Some(None)` if it is none that matters, and none in the middle of being made or deleted.
    fn record(&mut self) -> Option<Option<Record>> {
        self.take(2)?;
        let (flags, kind) = (self.number(1)?, self.number(1)?);
        self.take(4)?;
        let has = |flag: u64| flags & flag != 0;
        Some(Some(match kind {
            0x51 => self.volume(&has)?,
            0x32 => self.component(&has)?,
            0x33 => self.partition(&has)?,
            0x34 | 0x44 => self.disk(kind)?,
            0x35 | 0x45 => Record::Group,
            _ => return Some(None),
        }))
    }

    fn volume(&mut self, has: &dyn Fn(u64) -> bool) -> Option<Record> {
        let (id, name, kind) = (self.counted()?, self.text()?, self.text()?);
        // A zero, the state, the number of the volume and flags.
        self.take(1 + 14 + 1 + 1 + 1 + 3 + 1)?;
        let _children = self.counted()?;
        self.take(8 + 8)?;
        let size = self.counted()?;
        // The kind of the partition, and an identifier.
        self.take(4 + 1 + 16)?;
        for flag in [0x08, 0x20, 0x80] {
            if has(flag) {
                self.text()?;
            }
        }
        let hint = if has(0x02) { self.text()? } else { String::new() };
        Some(Record::Volume { id, name, kind, size, hint })
    }

    fn component(&mut self, has: &dyn Fn(u64) -> bool) -> Option<Record> {
        let id = self.counted()?;
        // The name and the state.
        self.text()?;
        self.text()?;
        let kind = self.number(1)? as u8;
        self.take(4)?;
        let children = self.counted()?;
        self.take(8 + 8)?;
        let volume = self.counted()?;
        self.take(1)?;
        let stripe = if has(0x10) { Some((self.counted()?, self.counted()?)) } else { None };
        Some(Record::Component { id, volume, kind, children, stripe })
    }

    fn partition(&mut self, has: &dyn Fn(u64) -> bool) -> Option<Record> {
        let _id = self.counted()?;
        self.text()?;
        self.take(4 + 8)?;
        let (start, offset, size) = (self.number(8)?, self.number(8)?, self.counted()?);
        let (component, disk) = (self.counted()?, self.counted()?);
        let index = if has(0x08) { self.counted()? } else { 0 };
        Some(Record::Partition { start, offset, size, component, disk, index })
    }

    fn disk(&mut self, kind: u64) -> Option<Record> {
        let (id, name) = (self.counted()?, self.text()?);
        let identifier = match kind {
            0x34 => self.text()?,
            _ => {
                let digits: String = self.take(16)?.iter().map(|byte| format!("{byte:02x}")).collect();
                let groups = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| digits[range].to_string());
                groups.join("-")
            }
        };
        Some(Record::Disk { id, name, identifier })
    }
}
