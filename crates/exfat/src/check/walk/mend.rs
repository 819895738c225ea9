//! Entry sets in which one bit is wrong.
//!
//! The checksum of a set and the hash of its name (6.3.3, 7.6.4) tell most values that a set cannot have had. Where the
//! change of one bit makes both right, the set with that change is a *reading* of it, and usually there are several:
//! bits that lie 16 positions apart count the same in the checksum. Of these the check takes the one that fits best to
//! what else the volume says: the bitmap, the FAT, the clusters of other files, the fields that are always zero, and
//! the content of the clusters. It judges such a set only after all others, whose clusters are known by then.

use super::Walk;
use super::oddities::oddities;
use crate::check::names::is_allowed;
use crate::layout::{Attributes, EntrySet, FileInfo, SLOT, UNITS_IN_NAME, Upcase, kind};
use platter_clusters::{Claims as _, Link};
use platter_vfs::{DosFlags, Result, Timestamp};

/// The most bytes that one check sums up to find readings: a bound on its time, some seconds. Damage of single bits takes
/// a small part of it.
pub(super) const MOST_SUMMED: u64 = 1 << 29;

/// The most clusters of a set of which the state is looked up to judge a reading.
const MOST_CLUSTERS: u64 = 1 << 16;

/// The attributes that few files have: read-only, hidden, system.
const RARE: u16 = 0x07;

/// The seconds that a time may be ahead of the device's clock without being unlikely: local times are up to 14 hours
/// ahead.
const AHEAD: i64 = 2 * 86_400;

/// Returns the sets which these slots were before one bit changed: those with a right checksum and name hash. `summed` is
/// increased by the number of bytes that were summed up.
pub(super) fn readings(slots: &[[u8; SLOT]], upcase: &Upcase, summed: &mut u64) -> Vec<EntrySet> {
    let mut found: Vec<EntrySet> = Vec::new();
    let mut add = |set: &[[u8; SLOT]]| {
        // The sum comes first: it is cheaper than the hash, and mostly wrong.
        if let Ok(set) = EntrySet::read(set, upcase) {
            found.push(set);
        }
    };
    let Some(first) = slots.first() else { return found };
    // The count of entries says how many slots the checksum covers.
    for bit in 0..8 {
        let count = usize::from(first[1] ^ 1 << bit) + 1;
        if let Some(set) = slots.get(..count).filter(|_| first[0] == kind::FILE && count >= 3) {
            let mut set = set.to_vec();
            set[0][1] ^= 1 << bit;
            *summed += (set.len() * SLOT) as u64;
            add(&set);
        }
    }
    let Some(set) = slots.get(..usize::from(first[1]) + 1) else { return found };
    let mut set = set.to_vec();
    // Where the entries do not belong together, a bit that says so is the wrong one.
    let is_whole = EntrySet::read_loosely(&set).is_ok() && first[0] == kind::FILE;
    let sums = prefix_sums(set.as_flattened());
    for byte in (0..set.len() * SLOT).filter(|byte| *byte != 1) {
        let (slot, at) = (byte / SLOT, byte % SLOT);
        if !is_whole && at != 0 && byte != SLOT + 3 {
            continue;
        }
        for bit in 0..8 {
            set[slot][at] ^= 1 << bit;
            *summed += (set.len() * SLOT - byte) as u64;
            if set[0][0] == kind::FILE && has_sum(&set, &sums, byte) {
                add(&set);
            }
            set[slot][at] ^= 1 << bit;
        }
    }
    found
}

/// Returns the checksum of the bytes before each byte of a set.
fn prefix_sums(bytes: &[u8]) -> Vec<u16> {
    let mut sum = 0;
    let next = |(at, byte): (usize, &u8)| {
        let before = sum;
        sum = added(sum, at, *byte);
        before
    };
    bytes.iter().enumerate().map(next).collect()
}

/// Adds a byte to the checksum of a set (6.3.3).
fn added(sum: u16, at: usize, byte: u8) -> u16 {
    if matches!(at, 2 | 3) { sum } else { sum.rotate_right(1).wrapping_add(u16::from(byte)) }
}

/// Whether the checksum of a set is right, of which the bytes before `from` have these checksums.
fn has_sum(set: &[[u8; SLOT]], sums: &[u16], from: usize) -> bool {
    let bytes = set.as_flattened();
    let sum = (from..).zip(&bytes[from..]).fold(sums[from], |sum, (at, byte)| added(sum, at, *byte));
    sum.to_le_bytes() == bytes[2..4]
}

/// Whether a slot looks like an entry of a set that a system wrote: its type is known, and the bytes that are always zero
/// are so.
pub(super) fn is_entry(slot: &[u8; SLOT]) -> bool {
    let is_zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
    match slot[0] {
        kind::FILE => {
            let is_known = u16::from_le_bytes([slot[4], slot[5]]) & !Attributes::KNOWN == 0;
            slot[1] >= 2 && is_known && is_zero(&slot[6..8]) && is_zero(&slot[25..])
        }
        kind::STREAM => slot[1] & !3 == 0 && slot[3] > 0 && is_zero(&slot[6..8]) && is_zero(&slot[16..20]),
        kind::NAME => slot[1] == 0,
        _ => false,
    }
}

impl Walk<'_, '_> {
    /// Returns the reading that fits best to everything else, of a set with a wrong bit or of several. `None` if there
    /// is none, or if the slots as they are, `plain`, fit better.
    pub(super) fn best(
        &mut self,
        readings: Vec<EntrySet>,
        plain: Option<&EntrySet>,
    ) -> Result<Option<EntrySet>> {
        // A coincidence confirms one of some hundred sets in which more than a bit is wrong.
        const COINCIDENCE: u32 = 6;
        let identity = |set: &EntrySet| {
            let info = set.info();
            let kind = info.attributes.0 & Attributes::DIRECTORY;
            (kind, info.cluster, info.length, info.valid, info.contiguous, set.name())
        };
        let as_is = plain.map(identity);
        let mut best: Option<(u32, bool, EntrySet)> = None;
        for set in readings {
            let rank = (self.unlikeliness(&set)?, as_is.as_ref() != Some(&identity(&set)));
            if best.as_ref().is_none_or(|(cost, changes, _)| rank < (*cost, *changes)) {
                best = Some((rank.0, rank.1, set));
            }
        }
        let Some((cost, _, set)) = best else { return Ok(None) };
        let is_better = match plain {
            Some(plain) => cost < self.unlikeliness(plain)?.saturating_add(COINCIDENCE),
            None => true,
        };
        Ok(is_better.then_some(set))
    }

    /// Sums up what speaks against a set.
    fn unlikeliness(&mut self, set: &EntrySet) -> Result<u32> {
        let info = set.info();
        let mut cost = 4 * oddities(self.clusters, set, &self.upcase);
        cost += fields(set, self.disk.device().now().into());
        cost += self.place(&info)?;
        Ok(cost + self.kind(&info)?)
    }

    /// Sums up what speaks against the clusters of a set.
    fn place(&mut self, info: &FileInfo) -> Result<u32> {
        let wanted = self.clusters.heap.clusters_for(info.length);
        match (info.cluster, wanted) {
            (0, 0) => return Ok(u32::from(info.contiguous)),
            (0, _) | (_, 0) => return Ok(8),
            _ => {}
        }
        let first = info.cluster;
        let end = u64::from(first) + wanted;
        if !self.clusters.heap.has(first) || end - 1 > u64::from(self.clusters.heap.last()) {
            return Ok(8);
        }
        let mut cost = 0;
        let has_bitmap = self.system.bitmap.is_some();
        // Another file's clusters, free ones, and clusters that nothing else explains behind the end.
        let (mut cluster, mut count, mut is_own, mut is_taken) = (first, 0, true, true);
        let mut is_linked = true;
        let looked = wanted.min(MOST_CLUSTERS);
        loop {
            is_own &= !self.clusters.is_claimed(cluster);
            is_taken &= self.clusters.is_set(cluster);
            count += 1;
            let link = self.clusters.link(cluster)?;
            if count == looked {
                if !info.contiguous && wanted == looked {
                    is_linked &= link == Link::End;
                }
                break;
            }
            cluster = match (info.contiguous, link) {
                (true, _) => cluster + 1,
                (false, Link::Next(next)) => next,
                (false, _) => {
                    is_linked = false;
                    break;
                }
            };
        }
        cost += if is_own { 0 } else { 7 };
        cost += if is_taken || !has_bitmap { 0 } else { 6 };
        cost += if is_linked { 0 } else { 5 };
        if info.contiguous {
            let after = u32::try_from(end).ok().filter(|after| self.clusters.heap.has(*after));
            if let Some(after) = after
                && self.clusters.is_lost(after)?
            {
                cost += 2;
            }
            if self.has_other_chain(first, wanted)? {
                cost += 5;
            }
        }
        let before = first - 1;
        if self.clusters.heap.has(before) && self.clusters.is_lost(before)? {
            cost += 1;
        }
        Ok(cost)
    }

    /// Whether the FAT links exactly so many clusters from `first` on, and not in a row: then the FAT has a meaning.
    fn has_other_chain(&mut self, first: u32, wanted: u64) -> Result<bool> {
        let (mut cluster, mut is_row) = (first, true);
        for _ in 1..wanted.min(MOST_CLUSTERS) {
            let Link::Next(next) = self.clusters.link(cluster)? else { return Ok(false) };
            is_row &= next == cluster.wrapping_add(1);
            cluster = next;
        }
        Ok(!is_row && self.clusters.link(cluster)? == Link::End)
    }

    /// Sums up what speaks against a set's being a directory, or a file.
    fn kind(&mut self, info: &FileInfo) -> Result<u32> {
        let size = self.clusters.heap.cluster_size();
        let mut cost = 0;
        let has_archive = info.attributes.0 & DosFlags::ARCHIVE.0 as u16 != 0;
        if info.attributes.directory() {
            cost += u32::from(has_archive);
            cost += if info.valid != info.length { 6 } else { 0 };
            cost += if info.length == 0 || !info.length.is_multiple_of(size) { 6 } else { 0 };
            cost += if self.looks_like_directory(info, false)? { 0 } else { 8 };
            return Ok(cost);
        }
        cost += u32::from(!has_archive);
        cost += if info.valid != info.length { 2 } else { 0 };
        let is_whole = info.length != 0 && info.length.is_multiple_of(size) && info.valid == info.length;
        if is_whole && self.clusters.heap.has(info.cluster) && !self.clusters.is_claimed(info.cluster) {
            let mut slots = vec![[0; SLOT]; size.min(4096) as usize / SLOT];
            self.disk.read_slots(self.clusters.heap.offset(info.cluster), slots.as_flattened_mut())?;
            // A new directory is zero, and one in use begins with the set of a file.
            if slots.iter().all(|slot| *slot == [0; SLOT]) {
                cost += 3;
            } else if EntrySet::read(&slots, &self.upcase).is_ok() {
                cost += 8;
            }
        }
        Ok(cost)
    }
}

/// Sums up what speaks against the values of a set's fields by themselves.
fn fields(set: &EntrySet, now: Timestamp) -> u32 {
    let slots = set.slots();
    let (file, stream) = (&slots[0], &slots[1]);
    let info = set.info();
    let is_zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
    let mut cost = 0;
    let mut against = |is_so: bool, weight: u32| cost += if is_so { weight } else { 0 };
    // Reserved bytes, of which systems set none.
    against(!is_zero(&file[6..8]), 4);
    against(!is_zero(&file[25..]), 4);
    against(stream[1] & !3 != 0 || stream[1] & 1 == 0, 4);
    against(!is_zero(&stream[2..3]) || !is_zero(&stream[6..8]), 4);
    against(!is_zero(&stream[16..20]), 4);
    let units = usize::from(stream[3]);
    let parts = units.div_ceil(UNITS_IN_NAME);
    let names = slots.get(2..2 + parts).unwrap_or(&[]);
    against(names.iter().any(|slot| slot[1] != 0), 4);
    let used = units % UNITS_IN_NAME;
    if let Some(last) = names.last().filter(|_| used != 0) {
        against(!is_zero(&last[2 + used * 2..]), 4);
    }
    against(info.attributes.0 & RARE != 0, 1);
    against(!is_allowed(&set.name()), 4);
    cost += text(set.name().units());
    let mut against = |is_so: bool, weight: u32| cost += if is_so { weight } else { 0 };
    against(slots.len() > 2 + parts, 2);
    let stamps = [info.created, info.modified, info.accessed];
    for stamp in stamps {
        let time = stamp.local.time;
        against(time >> 11 > 23 || time >> 5 & 0x3F > 59 || time & 0x1F > 29, 4);
        against(stamp.to_timestamp(0).seconds > now.seconds.saturating_add(AHEAD), 3);
        against(stamp.offset & 0x80 == 0 && stamp.offset != 0, 2);
    }
    let date = info.accessed.local.date;
    against(date & 0x1F == 0 || !(1..=12).contains(&(date >> 5 & 0xF)), 4);
    against(stamps.iter().any(|stamp| stamp.offset != stamps[0].offset), 2);
    // Times that differ in one bit alone were the same.
    for [one, other] in [[0, 1], [0, 2], [1, 2]] {
        let bits = (stamps[one].timestamp() ^ stamps[other].timestamp()).count_ones();
        against(bits == 1, 3);
    }
    against(info.modified.local.hundredths.abs_diff(info.created.local.hundredths).is_power_of_two(), 1);
    cost
}

/// Sums up what is unusual in a name: a character beyond ASCII among those of ASCII, a punctuation mark, and a letter of
/// which the case differs from those beside it.
fn text(units: &[u16]) -> u32 {
    let is_ascii = |unit: &u16| *unit < 0x80;
    let others = units.iter().filter(|unit| !is_ascii(unit)).count();
    let mut cost = if others * 4 < units.len() { others as u32 * 3 } else { 0 };
    let byte = |unit: &u16| u8::try_from(*unit).ok().filter(u8::is_ascii);
    let bytes: Vec<u8> = units.iter().map(|unit| byte(unit).unwrap_or(b'a')).collect();
    let is_mark = |byte: &u8| byte.is_ascii_punctuation() && !b"._-".contains(byte);
    cost += bytes.iter().filter(|byte| is_mark(byte)).count() as u32;
    let is_mixed = |pair: &&[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
    cost + bytes.windows(2).filter(is_mixed).count() as u32
}
