//! Whether the format's log holds changes that the checkpoint does not contain.
//!
//! The log is read as the driver reads it when it mounts a volume: from the oldest record that the checkpoint still
//! needs, record after record, as long as the blocks are whole and each names the one before. What follows is older, of
//! another volume, torn, or was never written.
//!
//! Source: forefst `docs/concepts/transactions_crash_consistency.md`, `docs/structures/mlog.md`.

use crate::geometry::Geometry;
use crate::layout::system::{LOG_BLOCK, LogArea, LogRecord, log_checksum, log_checksum_of, operation};
use crate::layout::{Checkpoint, Version};
use platter_device::Device;
use platter_vfs::{Error, Result};
use std::collections::BTreeMap;

/// The most blocks that are read to count what a log holds.
const MOST: u64 = 1 << 14;
/// The most blocks of one record whose checksum is computed. All records that are known have one.
const MOST_OF_A_RECORD: u64 = 256;

/// The volume and the checkpoint to which a log belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    /// Bytes of a cluster.
    pub cluster: u32,
    /// The volume's signature.
    pub signature: u32,
    /// The oldest record that the checkpoint still needs.
    pub oldest: u64,
}

impl Owner {
    /// The volume of these sizes, and a checkpoint that still needs the record `oldest`.
    pub(crate) fn of(geometry: &Geometry, oldest: u64) -> Owner {
        Owner { cluster: geometry.cluster, signature: geometry.signature, oldest }
    }
}

/// The records of a log that its checkpoint does not contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveLog {
    /// The number of records.
    pub records: u64,
    /// The number of transactions in them.
    pub transactions: u64,
    /// How often each operation is in them.
    pub operations: BTreeMap<u32, u64>,
    /// The sequence number of the first of them.
    pub first: u64,
    /// Whether there may be more of them.
    pub has_more: bool,
}

impl LiveLog {
    /// What the log holds, for people.
    pub(crate) fn describe(&self, version: Version) -> String {
        let changes: u64 = self.operations.values().sum();
        let mut most: Vec<(&u32, &u64)> = self.operations.iter().collect();
        most.sort_by_key(|(number, count)| (std::cmp::Reverse(**count), **number));
        let names: Vec<String> = most
            .into_iter()
            .map(|(&number, count)| match operation(version, number) {
                "unknown operation" => format!("{count} × unknown operation {number:#x}"),
                name => format!("{count} × {name}"),
            })
            .collect();
        let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
        let at_least = if self.has_more { "at least " } else { "" };
        let of = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        format!(
            "{at_least}{} with {}{names} in {}, from {:#x} on",
            of(self.transactions, "transaction"),
            of(changes, "change"),
            of(self.records, "record"),
            self.first
        )
    }
}

/// Reads what a log holds after the checkpoint; `None` if that is nothing.
///
/// # Errors
/// [`Error::Device`]; [`Error::Damaged`] if the checkpoint's oldest record would stand outside the log.
pub(crate) fn read(device: &dyn Device, area: &LogArea, owner: Owner) -> Result<Option<LiveLog>> {
    let blocks = area.blocks(owner.cluster);
    let (start, count) = (blocks.start, blocks.end.saturating_sub(blocks.start));
    let mut place = owner.oldest & 0xFFFF_FFFF;
    if place > count {
        let expected = format!("a block below {count:#x}");
        return Err(Error::damaged(
            "oldest log record of the checkpoint",
            Checkpoint::LOG.at() as u64,
            expected,
            format!("{place:#x}"),
        ));
    }
    let read = |place: u64, blocks: u64| -> Result<Vec<u8>> {
        let mut bytes = vec![0; blocks as usize * LOG_BLOCK];
        device.read_at((start + place) * LOG_BLOCK as u64, &mut bytes)?;
        Ok(bytes)
    };
    let mut live = LiveLog::default();
    let (mut last, mut looked) = (None, 0);
    while looked < MOST.min(count) {
        // At its end the log goes on at its beginning, of which it is not known whether it is block 0 or 1.
        let places = if place < count { place..place + 1 } else { 0..count.min(2) };
        let mut found = None;
        for place in places {
            looked += 1;
            let block = read(place, 1)?;
            let Some(record) = LogRecord::from_bytes(&block) else { continue };
            let follows = match last {
                Some(last) => record.previous == last && record.number > last,
                None => record.number >= owner.oldest,
            };
            if record.volume != owner.signature || record.number & 0xFFFF_FFFF != place || !follows {
                continue;
            }
            let is_whole = match record.blocks {
                1 => log_checksum(&block).is_some_and(|checksum| checksum.is_right()),
                more if more <= MOST_OF_A_RECORD.min(count - place) => {
                    log_checksum_of(&read(place, more)?).is_some_and(|checksum| checksum.is_right())
                }
                _ => false,
            };
            if is_whole {
                found = Some(record);
                break;
            }
        }
        let Some(record) = found else { return Ok((live.records > 0).then_some(live)) };
        if live.records == 0 {
            live.first = record.number;
        }
        live.records += 1;
        live.transactions += record.transactions;
        record.operations.into_iter().for_each(|number| *live.operations.entry(number).or_default() += 1);
        last = Some(record.number);
        place = (record.number & 0xFFFF_FFFF) + record.blocks;
    }
    live.has_more = live.records > 0;
    Ok((live.records > 0).then_some(live))
}
