//! A directory: its slots one by one, the slots after its end mark, and whether clusters look like a directory at
//! all.

use super::{Walk, mend};
use crate::check::kinds::{is_file, is_nearly};
use crate::check::listing::Listing;
use crate::check::names::Names;
use crate::layout::{
    EntrySet, Fault, FileInfo, LabelEntry, Primary, SLOT, is_benign, is_whole, kind, set_checksum,
};
use platter_vfs::{Finding, Result, Severity};

impl Walk<'_, '_> {
    pub(super) fn directory(&mut self, index: u32) -> Result<()> {
        let mut listing = self.listing(index)?;
        self.after_end(index, &mut listing);
        self.entries(index, &mut listing)
    }

    /// Checks the slots after the end mark, which should be unused.
    ///
    /// If they hold whole entry sets, a slot in the middle was overwritten with zeroes, and the sets are restored.
    /// Otherwise they are old content that some systems leave in a directory's clusters.
    fn after_end(&mut self, index: u32, listing: &mut Listing) {
        let end = listing.end();
        let after = end..listing.slots().len();
        if after.is_empty() {
            return;
        }
        let (mut sets, mut other, mut at) = (0, 0, end);
        while at < after.end {
            let rest = &listing.slots()[at..];
            at += match Primary::of(&rest[0]) {
                Primary::End | Primary::Unused => 1,
                _ => match EntrySet::read(rest, &self.upcase) {
                    Ok(set) => {
                        sets += 1;
                        set.slots().len()
                    }
                    Err(_) => {
                        other += 1;
                        1
                    }
                },
            };
        }
        self.dirs[index as usize].is_damaged |= sets + other > 0;
        let message = || {
            let what = format!("{sets} sound entries, which are kept, and {other} others");
            format!("slot {end} says that nothing follows, but up to slot {} there are {what}", after.end - 1)
        };
        let severity = if sets + other > 0 { Severity::Inconsistent } else { Severity::Notice };
        if !self.find("entries-after-end", severity, Some((index, None)), message) {
            return;
        }
        for at in after {
            match sets > 0 {
                true if listing.slot(at)[0] & 0x7F == 0 => listing.delete(self.disk, at..at + 1),
                true => {}
                false => listing.change(self.disk, at, [0; SLOT]),
            }
        }
    }

    fn entries(&mut self, index: u32, listing: &mut Listing) -> Result<()> {
        let mut names = Names::default();
        let (mut label, mut guid) = (false, false);
        let mut at = 0;
        while at < listing.end() {
            let here = at;
            let slot = listing.slot(here);
            at += 1;
            if let Some(after) = self.file_by_its_bits(listing, here) {
                self.doubt(index, here, after);
                at = after;
                continue;
            }
            match Primary::of(&slot) {
                Primary::End => break,
                Primary::Unused => {}
                Primary::File => at = self.set(index, listing, &mut names, here)?,
                Primary::Secondary(other) => {
                    self.dirs[index as usize].is_damaged = true;
                    let message =
                        || format!("slot {here}, of type {other:02X}, belongs to no entry before it");
                    if self.find("orphan-entry", Severity::Inconsistent, Some((index, None)), message) {
                        listing.delete(self.disk, here..here + 1);
                    }
                }
                Primary::Other(kind::LABEL) if index == 0 && !label => {
                    label = true;
                    let count = usize::from(slot[1]);
                    let most = LabelEntry::LONGEST;
                    let message =
                        || format!("the label has {count} units, of which there are at most {most}");
                    if count > LabelEntry::LONGEST_READ {
                        if self.find("bad-label", Severity::Inconsistent, Some((index, None)), message) {
                            let mut slot = slot;
                            slot[1] = most as u8;
                            listing.change(self.disk, here, slot);
                        }
                    } else if count > most {
                        // Other programs write labels of this length and read them, so this is only a notice.
                        let (severity, path) = (Severity::Notice, Some(self.path(index, None)));
                        let found = Finding {
                            code: "long-label",
                            severity,
                            path,
                            message: message(),
                            repaired: false,
                        };
                        self.findings.report.add(found);
                    }
                }
                Primary::Other(kind::GUID) if index == 0 && !guid && slot[1] == 0 => {
                    guid = true;
                    let sum = set_checksum(&[slot]).to_le_bytes();
                    if slot[2..4] != sum {
                        let message = || "the checksum of the volume's GUID is wrong".to_owned();
                        if self.find("set-checksum", Severity::Inconsistent, Some((index, None)), message) {
                            let mut slot = slot;
                            slot[2..4].copy_from_slice(&sum);
                            listing.change(self.disk, here, slot);
                        }
                    }
                }
                Primary::Other(other) if index == 0 && self.system.has(here) && other != kind::GUID => {}
                Primary::Other(kind::PADDING) if self.clusters.geometry.fat_count == 2 => {}
                Primary::Other(other)
                    if is_benign(other) && other != kind::GUID && is_whole(&listing.slots()[here..]) =>
                {
                    at = self.benign(listing, here)?;
                }
                Primary::Other(other) => {
                    let message = || format!("slot {here}, of type {other:02X}, has no place there");
                    if self.find("misplaced-entry", Severity::Inconsistent, Some((index, None)), message) {
                        listing.delete(self.disk, here..here + 1);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the slot after a file's set that begins here, if only a wrong bit in its type hides it.
    fn file_by_its_bits(&mut self, listing: &Listing, at: usize) -> Option<usize> {
        let slot = listing.slot(at);
        if slot[0] == kind::FILE
            || !is_nearly(&slot, kind::FILE)
            || !is_file(&listing.slots()[at..listing.end()])
        {
            return None;
        }
        // What erases a set erases all of its slots that are in one sector. If the next slot is in another one, the set
        // may be one that was being erased.
        let sector = u64::from(self.clusters.geometry.sector);
        if Primary::of(&slot) == Primary::Unused
            && listing.offset(at) / sector != listing.offset(at + 1) / sector
        {
            return None;
        }
        Some(at + usize::from(slot[1]) + 1)
    }

    /// Checks the sets of a directory that were not right, now that the clusters of all others are known.
    pub(super) fn doubtful_sets(&mut self, index: u32, sets: Vec<(usize, usize)>) -> Result<()> {
        let mut listing = self.listing(index)?;
        let mut names = Names::default();
        let mut at = 0;
        while at < listing.end() {
            at += match EntrySet::read(&listing.slots()[at..listing.end()], &self.upcase) {
                Ok(set) => {
                    names.insert(&set.name(), &self.upcase);
                    set.slots().len()
                }
                Err(_) => 1,
            };
        }
        sets.into_iter().try_for_each(|slots| self.doubtful(index, &mut listing, &mut names, slots))
    }

    /// Claims the clusters of a benign primary entry of an unknown type, which is kept (8.2). Returns the slot after
    /// its entry set.
    fn benign(&mut self, listing: &Listing, at: usize) -> Result<usize> {
        let mut end = at + 1;
        let count = usize::from(listing.slot(at)[1]);
        while end <= at + count
            && let Primary::Secondary(_) = Primary::of(&listing.slot(end))
        {
            end += 1;
        }
        for number in at..end {
            // Generic primary entries have 16 bits of flags after the checksum (6.3.4), secondary ones 8 bits after
            // the type (6.4.2).
            let slot = listing.slot(number);
            let flags = if number == at { slot[4] } else { slot[1] };
            let mut info = FileInfo::from_slots(&[0; SLOT], &slot);
            info.contiguous = flags & 2 != 0;
            if flags & 1 != 0 {
                self.claim_part(info.contiguous, info.cluster, info.length)?;
            }
        }
        Ok(end)
    }

    /// Whether clusters may be a directory: they are empty, or at least half of the first 4 KiB are entries, or a
    /// whole entry set with a right checksum is further on. Of an entry that `is_sure`, because its checksum is right,
    /// one slot that holds an entry confirms that it is a directory.
    pub(super) fn looks_like_directory(&mut self, info: &FileInfo, is_sure: bool) -> Result<bool> {
        if !self.clusters.heap.has(info.cluster) {
            return Ok(true);
        }
        let size = self.clusters.heap.cluster_size().min(4096) as usize;
        let mut slots = vec![[0; SLOT]; size / SLOT];
        self.disk.read_slots(self.clusters.heap.offset(info.cluster), slots.as_flattened_mut())?;
        let (mut sound, mut other, mut at) = (0, 0, 0);
        while at < slots.len() && slots[at][0] != 0 {
            let rest = &slots[at..];
            at += match Primary::of(&rest[0]) {
                Primary::End => break,
                Primary::Unused => {
                    // Erased entries keep their types.
                    sound += usize::from(matches!(
                        rest[0][0] & 0x7F,
                        0x01..=0x05 | 0x20 | 0x40 | 0x41 | 0x60 | 0x61
                    ));
                    other += usize::from(!matches!(
                        rest[0][0] & 0x7F,
                        0x01..=0x05 | 0x20 | 0x40 | 0x41 | 0x60 | 0x61
                    ));
                    1
                }
                _ => match EntrySet::read_loosely(rest) {
                    Ok(set) => {
                        sound += set.slots().len();
                        set.slots().len()
                    }
                    // The set continues after the part that was read.
                    Err(Fault::Count) if rest.len() < 19 && rest[0][0] == kind::FILE => break,
                    Err(_) => {
                        sound += usize::from(mend::is_entry(&rest[0]));
                        other += usize::from(!matches!(rest[0][0], kind::FILE | kind::STREAM | kind::NAME));
                        1
                    }
                },
            };
        }
        Ok(sound >= if is_sure { other.min(1) } else { other } || self.has_set(info)?)
    }

    /// Whether the first megabyte holds an entry set with a right checksum.
    fn has_set(&mut self, info: &FileInfo) -> Result<bool> {
        let heap = &self.clusters.heap;
        let room = u64::from(heap.last() + 1 - info.cluster);
        let most = ((1 << 20) / heap.cluster_size()).max(1);
        let count = heap.clusters_for(info.length).min(room).min(most) as u32;
        let listing = Listing::read(self.disk, self.clusters, info.cluster, count, info.contiguous)?;
        let slots = listing.slots();
        let is_set =
            |at: usize| slots[at][0] == kind::FILE && EntrySet::read(&slots[at..], &self.upcase).is_ok();
        Ok((0..slots.len()).any(is_set))
    }
}
