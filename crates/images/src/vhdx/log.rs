//! The log (2.3): new content of sectors of 4 KiB, written before it goes to its place.
//!
//! An entry is a header with descriptors, and a data sector for each descriptor of data. The entries from the tail that
//! the newest one names up to that one count. Here each entry names itself as the tail: when it is written, all that
//! the entries before it said is durable in its place already.

use super::MIB;
use super::header::{Header, checksum};
use crate::bytes::{damaged, field, is_inside, le32, le64, read, unusable};
use crate::guid::Guid;
use crate::replayed::Update;
use platter_device::{Device, Growing, Result};
use std::collections::HashMap;

/// The unit of the log.
pub(crate) const SECTOR: usize = 4096;
const ENTRY: &[u8] = b"loge";
const ZERO: &[u8] = b"zero";
const DATA: &[u8] = b"desc";
const SECTOR_OF_DATA: &[u8] = b"data";
const HEADER: usize = 64;
const DESCRIPTOR: usize = 32;
/// The most ranges of zeroes of a log that are supported: every read of a replayed file looks at each.
const MOST_ZEROES: usize = 1 << 16;

/// What the log says that is not in its place yet.
#[derive(Debug)]
pub(crate) struct Replay {
    pub updates: Vec<Update>,
    /// The file is at least this long afterwards.
    pub length: u64,
}

/// An entry that is whole.
struct LogEntry {
    start: usize,
    length: usize,
    tail: usize,
    sequence: u64,
    flushed: u64,
    last: u64,
}

impl Replay {
    /// Reads the log. `None` if there is nothing to replay.
    pub(super) fn read(file: &dyn Device, header: &Header) -> Result<Option<Replay>> {
        if header.log.is_zero() {
            return Ok(None);
        }
        let log = Circle(read(file, header.log_offset, header.log_length as usize)?);
        let Some(entries) = active(&log, header.log).map_err(|why| unusable(file.name(), why))? else {
            return Ok(None);
        };
        let head = entries.last().expect("a sequence has an entry");
        if file.len() < head.flushed {
            let expected = format!("at least {} bytes", head.flushed);
            let place = header.log_offset + head.start as u64;
            return Err(damaged(file.name(), "the file that the log is of", place, expected, file.len()));
        }
        let mut updates = Vec::new();
        let mut zeroes = 0;
        for entry in &entries {
            let place = header.log_offset + entry.start as u64;
            for update in updates_of(&log, entry) {
                let (offset, length) = update.range();
                let is_log = offset < header.log_offset + header.log_length
                    && header.log_offset < offset.saturating_add(length);
                // The first MiB has no log: its structures have two copies.
                if offset < MIB || is_log || !is_inside(offset, length, head.last.max(file.len())) {
                    let expected = "changes behind the first MiB, not of the log, in the file";
                    let found = format!("{length} bytes at {offset}");
                    return Err(damaged(file.name(), "an entry of the log", place, expected, found));
                }
                zeroes += usize::from(matches!(update, Update::Zero(..)));
                if zeroes > MOST_ZEROES {
                    let reason = format!("has a log with more than {MOST_ZEROES} ranges of zeroes");
                    return Err(unusable(file.name(), reason));
                }
                updates.push(update);
            }
        }
        Ok(Some(Replay { updates, length: file.len().max(head.last) }))
    }

    /// Carries out the changes in the file, durably.
    pub(super) fn apply(&self, file: &dyn Growing) -> Result<()> {
        let sector = u64::from(file.sectors().logical);
        let length = self.length.next_multiple_of(sector);
        if length > file.len() {
            file.grow(length)?;
        }
        for update in &self.updates {
            match update {
                Update::Data(offset, data) => file.write_at(*offset, &data[..])?,
                Update::Zero(offset, length) => {
                    let zeroes = vec![0; (MIB.min(*length)) as usize];
                    let mut done = 0;
                    while done < *length {
                        let at = file.next_data(offset + done).max(offset + done) / sector * sector;
                        done = done.max(at - offset);
                        let part = MIB.min(length.saturating_sub(done));
                        file.write_at(offset + done, &zeroes[..part as usize])?;
                        done += part;
                    }
                }
            }
        }
        file.flush()
    }
}

/// The bytes of the log, which go on at the beginning when they end.
struct Circle(Vec<u8>);

impl Circle {
    fn sector(&self, at: usize) -> &[u8] {
        &self.0[at % self.0.len()..][..SECTOR]
    }
}

/// The entries that count, oldest first: those that lead from the tail of the newest entry to that entry.
fn active(log: &Circle, id: Guid) -> std::result::Result<Option<Vec<LogEntry>>, String> {
    // Entries of a healthy log do not overlap. Remains of older ones may.
    let mut budget = log.0.len() * 16;
    let mut entries: HashMap<usize, LogEntry> = HashMap::new();
    for start in (0..log.0.len()).step_by(SECTOR) {
        if let Some(entry) = entry_at(log, start, id, &mut budget)? {
            entries.insert(start, entry);
        }
    }
    let mut newest: Vec<(u64, usize)> = entries.values().map(|entry| (entry.sequence, entry.start)).collect();
    newest.sort_unstable_by(|one, two| two.cmp(one));
    let mut steps = 1 << 20;
    for (sequence, start) in newest {
        let (mut at, mut chain) = (entries[&start].tail, Vec::new());
        while let Some(entry) = entries.get(&at) {
            steps -= 1;
            if steps == 0 {
                return Err("has a log whose entries lead nowhere".into());
            }
            if chain.last().is_some_and(|&last: &usize| entries[&last].sequence + 1 != entry.sequence) {
                break;
            }
            chain.push(at);
            if at == start {
                let taken = chain.iter().map(|at| entries.remove(at).expect("each is there once")).collect();
                return Ok(Some(taken));
            }
            if entry.sequence >= sequence {
                break;
            }
            at = (at + entry.length) % log.0.len();
        }
    }
    Ok(None)
}

/// The entry that begins at this position, if a whole one does.
fn entry_at(
    log: &Circle,
    start: usize,
    id: Guid,
    budget: &mut usize,
) -> std::result::Result<Option<LogEntry>, String> {
    let first = log.sector(start);
    let (length, tail) = (le32(first, 8) as usize, le32(first, 12) as usize);
    let (sequence, count) = (le64(first, 16), le32(first, 24) as usize);
    let is_plausible = &first[..4] == ENTRY
        && Guid(field(first, 32)) == id
        && length.is_multiple_of(SECTOR)
        && (SECTOR..=log.0.len()).contains(&length)
        && tail.is_multiple_of(SECTOR)
        && tail < log.0.len()
        // The greatest number could have no successor.
        && sequence > 0
        && sequence < u64::MAX
        && count <= length / DESCRIPTOR;
    if !is_plausible {
        return Ok(None);
    }
    *budget = budget.checked_sub(length).ok_or("has a log whose entries overlap too often")?;
    let sum = sum_of(log, start, length);
    let entry = LogEntry { start, length, tail, sequence, flushed: le64(first, 48), last: le64(first, 56) };
    Ok((sum == le32(first, 4) && is_consistent(log, &entry, count)).then_some(entry))
}

fn descriptors(log: &Circle, entry: &LogEntry, count: usize) -> impl Iterator<Item = [u8; DESCRIPTOR]> {
    (0..count).map(move |number| {
        let at = HEADER + number * DESCRIPTOR;
        field(log.sector(entry.start + at / SECTOR * SECTOR), at % SECTOR)
    })
}

/// Whether the descriptors and data sectors of an entry are of that entry.
fn is_consistent(log: &Circle, entry: &LogEntry, count: usize) -> bool {
    let first = (HEADER + count * DESCRIPTOR).next_multiple_of(SECTOR);
    let data = descriptors(log, entry, count).filter(|descriptor| &descriptor[..4] == DATA).count();
    if first + data * SECTOR != entry.length {
        return false;
    }
    let are_descriptors = descriptors(log, entry, count).all(|descriptor| {
        let is_zero = &descriptor[..4] == ZERO && le64(&descriptor, 8).is_multiple_of(SECTOR as u64);
        (is_zero || &descriptor[..4] == DATA)
            && le64(&descriptor, 16).is_multiple_of(SECTOR as u64)
            && le64(&descriptor, 24) == entry.sequence
    });
    are_descriptors
        && (first..entry.length).step_by(SECTOR).all(|at| {
            let sector = log.sector(entry.start + at);
            &sector[..4] == SECTOR_OF_DATA
                && (u64::from(le32(sector, 4)) << 32 | u64::from(le32(sector, SECTOR - 4))) == entry.sequence
        })
}

/// The changes of an entry.
fn updates_of(log: &Circle, entry: &LogEntry) -> Vec<Update> {
    let count = le32(log.sector(entry.start), 24) as usize;
    let mut at = (HEADER + count * DESCRIPTOR).next_multiple_of(SECTOR);
    let mut updates = Vec::new();
    for descriptor in descriptors(log, entry, count) {
        let offset = le64(&descriptor, 16);
        if &descriptor[..4] == ZERO {
            updates.push(Update::Zero(offset, le64(&descriptor, 8)));
            continue;
        }
        let sector = log.sector(entry.start + at);
        at += SECTOR;
        // The sector's own numbers stand in place of its first 8 and last 4 bytes, which are in the descriptor.
        let mut content: Box<[u8; SECTOR]> = Box::new(field(sector, 0));
        content[..8].copy_from_slice(&descriptor[8..16]);
        content[SECTOR - 4..].copy_from_slice(&descriptor[4..8]);
        updates.push(Update::Data(offset, content));
    }
    updates
}

/// Makes the checksums of the entries right, whatever they say; for tests.
pub(super) fn mend(file: &dyn Device, header: &Header) {
    let Ok(bytes) = read(file, header.log_offset, header.log_length as usize) else { return };
    let log = Circle(bytes);
    for start in (0..log.0.len()).step_by(SECTOR).filter(|&start| log.sector(start).starts_with(ENTRY)) {
        let mut first = log.sector(start).to_vec();
        let length = le32(&first, 8) as usize;
        if length.is_multiple_of(SECTOR) && (SECTOR..=log.0.len()).contains(&length) {
            let sum = sum_of(&log, start, length);
            first[4..8].copy_from_slice(&sum.to_le_bytes());
            let _ = file.write_at(header.log_offset + start as u64, &first);
        }
    }
}

/// The checksum of the entry that begins here.
fn sum_of(log: &Circle, start: usize, length: usize) -> u32 {
    let first = log.sector(start);
    let sum = crc32c::crc32c_append(crc32c::crc32c(&first[..4]), &[0; 4]);
    (SECTOR..length).step_by(SECTOR).fold(crc32c::crc32c_append(sum, &first[8..]), |sum, at| {
        crc32c::crc32c_append(sum, log.sector(start + at))
    })
}

/// The place of the next entry.
pub(crate) struct LogWriter {
    pub id: Guid,
    offset: u64,
    length: u64,
    next: u64,
    sequence: u64,
}

impl LogWriter {
    /// A log of which no entry counts yet.
    pub(super) fn new(header: &Header) -> LogWriter {
        LogWriter {
            id: Guid::random(),
            offset: header.log_offset,
            length: header.log_length,
            next: 0,
            sequence: 1,
        }
    }

    /// The most pages of one entry. A quarter of the log takes them, so that the newest entry is never overwritten by the
    /// next one, also where that begins anew because it does not fit behind it.
    pub(super) fn most(&self) -> usize {
        (self.length as usize / 4 / SECTOR - 1).min(126)
    }

    /// Writes an entry with the new content of these sectors of 4 KiB. All that was said before is durable in its place.
    ///
    /// `flushed` is the length of the file that is durable, and `last` the length that it has.
    pub(super) fn write(
        &mut self,
        file: &dyn Device,
        pages: &[(u64, Box<[u8]>)],
        flushed: u64,
        last: u64,
    ) -> Result<()> {
        assert!(pages.len() <= self.most(), "an entry of at most {} pages", self.most());
        let length = SECTOR + pages.len() * SECTOR;
        if self.next + length as u64 > self.length {
            self.next = 0;
        }
        let mut bytes = vec![0; length];
        bytes[..4].copy_from_slice(ENTRY);
        bytes[8..12].copy_from_slice(&(length as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.next as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..28].copy_from_slice(&(pages.len() as u32).to_le_bytes());
        bytes[32..48].copy_from_slice(&self.id.0);
        bytes[48..56].copy_from_slice(&flushed.to_le_bytes());
        bytes[56..64].copy_from_slice(&last.to_le_bytes());
        for (number, (offset, page)) in pages.iter().enumerate() {
            assert!(page.len() == SECTOR && offset.is_multiple_of(SECTOR as u64), "whole sectors of the log");
            let descriptor = &mut bytes[HEADER + number * DESCRIPTOR..][..DESCRIPTOR];
            descriptor[..4].copy_from_slice(DATA);
            descriptor[4..8].copy_from_slice(&page[SECTOR - 4..]);
            descriptor[8..16].copy_from_slice(&page[..8]);
            descriptor[16..24].copy_from_slice(&offset.to_le_bytes());
            descriptor[24..32].copy_from_slice(&self.sequence.to_le_bytes());
            let sector = &mut bytes[SECTOR + number * SECTOR..][..SECTOR];
            sector.copy_from_slice(page);
            sector[..4].copy_from_slice(SECTOR_OF_DATA);
            sector[4..8].copy_from_slice(&((self.sequence >> 32) as u32).to_le_bytes());
            sector[SECTOR - 4..].copy_from_slice(&(self.sequence as u32).to_le_bytes());
        }
        let sum = checksum(&bytes, 4);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        file.write_at(self.offset + self.next, &bytes)?;
        file.flush()?;
        self.next += length as u64;
        self.sequence += 1;
        Ok(())
    }
}
