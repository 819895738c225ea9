//! The entry set of a file or directory: whether it is credible, and its name.

use super::oddities::oddities;
use super::{Walk, mend};
use crate::check::listing::Listing;
use crate::check::names::{Names, is_allowed};
use crate::layout::{
    EntrySet, Fault, Primary, SLOT, UNITS_IN_NAME, kind, name_hash, secondary_count, set_checksum,
};
use platter_clusters::Claims as _;
use platter_vfs::{Finding, Name, Result, Severity};
use std::ops::Range;

impl Walk<'_, '_> {
    /// Checks the set that begins in a slot; returns the slot after it. A set that is not right is checked when all
    /// others are known.
    pub(super) fn set(
        &mut self,
        index: u32,
        listing: &mut Listing,
        names: &mut Names,
        at: usize,
    ) -> Result<usize> {
        let rest = &listing.slots()[at..listing.end()];
        match EntrySet::read(rest, &self.upcase) {
            Ok(set) => self.settle(index, listing, names, at, (set, None)),
            Err(fault @ Fault::Unknown(_)) => {
                let set = EntrySet::read_loosely(rest).expect("the entries belong together");
                self.settle(index, listing, names, at, (set, Some(fault)))
            }
            Err(fault) => {
                let after = at + self.extent(rest, fault);
                self.doubt(index, at, after);
                Ok(after)
            }
        }
    }

    /// Returns the number of slots of a set that is not right.
    fn extent(&mut self, rest: &[[u8; SLOT]], fault: Fault) -> usize {
        let whole = match self.salvaged(rest, fault) {
            // A name that is too long is cut, and the set that keeps it has fewer slots than stand there.
            Some(_) if is_longer(rest) => Some(1 + secondary_count(&rest[0])),
            Some(set) => Some(set.slots().len()),
            None => self.readings(rest).first().map(|set| set.slots().len()),
        };
        let is_part = |slot: &&[u8; SLOT]| matches!(Primary::of(slot), Primary::Secondary(_));
        whole.unwrap_or_else(|| 1 + rest[1..].iter().take_while(is_part).count())
    }

    /// Returns the sets that the slots were before one bit changed, as long as the search for them takes no too long.
    pub(super) fn readings(&mut self, rest: &[[u8; SLOT]]) -> Vec<EntrySet> {
        match self.summed < mend::MOST_SUMMED {
            true => mend::readings(rest, &self.upcase, &mut self.summed),
            false => Vec::new(),
        }
    }

    /// Checks a set whose checksum or hash is wrong, or whose entries do not belong together.
    pub(super) fn doubtful(
        &mut self,
        index: u32,
        listing: &mut Listing,
        names: &mut Names,
        (at, after): (usize, usize),
    ) -> Result<()> {
        let rest = listing.slots()[at..listing.end()].to_vec();
        let fault = match EntrySet::read(&rest, &self.upcase) {
            Ok(set) => return self.settle(index, listing, names, at, (set, None)).map(drop),
            Err(fault) => fault,
        };
        let plain = self.salvaged(&rest, fault).filter(|_| rest[0][0] == kind::FILE);
        let readings = self.readings(&rest);
        if let Some(set) = self.best(readings, plain.as_ref())? {
            return self.settle(index, listing, names, at, (set, Some(fault))).map(drop);
        }
        let several =
            |set: &EntrySet| fault != Fault::Hash && oddities(self.clusters, set, &self.upcase) >= 2;
        match plain.filter(|set| !several(set)) {
            Some(set) => {
                let end = self.settle(index, listing, names, at, (set, Some(fault)))?;
                if end < after && self.findings.repair {
                    listing.delete(self.disk, end..after);
                }
            }
            None => drop(self.torn(index, listing, at..after, fault)),
        }
        Ok(())
    }

    /// Checks a set that is credible; returns the slot after it. What is wrong with it is repaired.
    fn settle(
        &mut self,
        index: u32,
        listing: &mut Listing,
        names: &mut Names,
        at: usize,
        (set, fault): (EntrySet, Option<Fault>),
    ) -> Result<usize> {
        let after = at + set.slots().len();
        if let Some(Fault::Unknown(_)) = fault {
            // A set with an unknown entry is left as it is, and so are its clusters (8.2).
            let info = set.info();
            self.claim_part(info.contiguous, info.cluster, info.length)?;
            for part in info.parts() {
                self.claim_part(part.contiguous, part.cluster, part.length)?;
            }
            let name = set.name();
            names.insert(&name, &self.upcase);
            let message =
                "it has an entry of a type that is not known, so it is neither shown nor changed".to_owned();
            let path = Some(self.path(index, Some(&name)));
            let (code, severity) = ("unknown-entry", Severity::Notice);
            self.findings.report.add(Finding { code, severity, path, message, repaired: false });
            return Ok(after);
        }
        let mut right = set.clone();
        let shown = set.name();
        if let Some(fault) = fault {
            let (code, what) = match fault {
                Fault::Checksum => ("set-checksum", "the checksum of its entries is wrong"),
                Fault::Hash => ("name-hash", "the hash of its name is wrong"),
                _ => ("set-damaged", "its entries were damaged"),
            };
            if self.find(code, Severity::Inconsistent, Some((index, Some(&shown))), || what.into()) {
                right.rehash(&self.upcase);
            }
        }
        if !right.may_have_clusters() {
            let message = || "its stream extension says that it can have no clusters".to_owned();
            if self.find("bad-flags", Severity::Inconsistent, Some((index, Some(&shown))), message) {
                right.set_info(&set.info());
            }
        }
        self.name(index, names, &mut right, &shown);
        let offsets = [listing.offset(at), listing.offset(at + 1)];
        let info = self.content(index, &right, &shown, (offsets, fault.is_none()))?;
        if let Some(info) = info {
            right.set_info(&info);
        } else {
            // The entry leads to a directory that it is itself inside (a loop), so the set is deleted.
            if self.findings.repair {
                listing.delete(self.disk, at..after);
            }
            return Ok(after);
        }
        if self.findings.repair {
            listing.put(self.disk, at, &right);
        }
        Ok(after)
    }

    /// Returns a set that is credible although something is wrong with it.
    fn salvaged(&self, rest: &[[u8; SLOT]], fault: Fault) -> Option<EntrySet> {
        if let Ok(set) = EntrySet::read_loosely(rest) {
            return Some(set);
        }
        if is_longer(rest) {
            return shortened(rest);
        }
        // The count of entries may be the wrong field: then the name, whose hash is right, shows which slots belong
        // together.
        let stream = rest.get(1).filter(|slot| slot[0] == kind::STREAM && fault != Fault::Stream)?;
        let parts = usize::from(stream[3]).div_ceil(UNITS_IN_NAME);
        let mut slots = rest.get(..2 + parts)?.to_vec();
        slots[0][1] = (1 + parts) as u8;
        let mut set = EntrySet::read_loosely(&slots).ok()?;
        let hash = set.hash();
        set.rehash(&self.upcase);
        (set.hash() == hash).then_some(set)
    }

    /// Deletes what is left of an incomplete set. Returns the slot after it.
    fn torn(&mut self, index: u32, listing: &mut Listing, slots: Range<usize>, fault: Fault) -> usize {
        let (at, end) = (slots.start, slots.end);
        let message =
            || format!("slots {at} to {} are what is left of a file's entries ({fault:?})", end - 1);
        if self.find("torn-set", Severity::DataLoss, Some((index, None)), message) {
            listing.delete(self.disk, slots);
        }
        end
    }

    /// Checks an entry's name: it must be allowed, and different from all others in the directory.
    fn name(&mut self, index: u32, names: &mut Names, set: &mut EntrySet, shown: &Name) {
        let place = Some((index, Some(shown)));
        let written = set.written_name();
        if written != *shown {
            let (stated, found) = (shown.units().len(), written.units().len());
            let message = || format!("its name is said to have {stated} units, and {found} stand there");
            // Where the hash agrees with the stated length, the name is sure, and what follows it is not read.
            let is_sure = name_hash(shown.units(), &self.upcase) == set.hash();
            let severity = if is_sure { Severity::Notice } else { Severity::Inconsistent };
            if self.find("name-length", severity, place, message) {
                let longer = name_hash(written.units(), &self.upcase) == set.hash();
                set.set_name(if longer { &written } else { shown }, &self.upcase);
            }
        }
        let shown = &set.name();
        let place = Some((index, Some(shown)));
        let wrong = if !is_allowed(shown) {
            Some(("bad-name", "the name has characters that it may not"))
        } else if !names.insert(shown, &self.upcase) {
            // Both names lead to the same clusters: which of them stays is decided after the walk, as a contested
            // cluster.
            let first = set.info().cluster;
            match first != 0 && self.clusters.heap.has(first) && self.clusters.is_claimed(first) {
                true => None,
                false => Some(("duplicate-name", "the name is there twice")),
            }
        } else {
            None
        };
        if let Some((code, what)) = wrong
            && self.find(code, Severity::Inconsistent, place, || what.into())
        {
            let other = names.other(shown, &self.upcase);
            names.insert(&other, &self.upcase);
            set.set_name(&other, &self.upcase);
        }
    }
}

/// Whether these slots are a set whose checksum is right, and whose name has more units than the field for its length can
/// say: a driver of Linux wrote such names, with a length of 256 that the field has as 0.
fn is_longer(rest: &[[u8; SLOT]]) -> bool {
    let count = rest.first().map_or(0, secondary_count);
    let Some(slots) = rest.get(..=count).filter(|_| count > MOST_PARTS) else { return false };
    let is_whole = slots[0][0] == kind::FILE && slots[1][0] == kind::STREAM;
    let parts = slots[2..].iter().take_while(|slot| slot[0] == kind::NAME).count();
    let is_stated = usize::from(slots[1][3]).div_ceil(UNITS_IN_NAME) == parts;
    is_whole && parts > MOST_PARTS && !is_stated && set_checksum(slots).to_le_bytes() == slots[0][2..4]
}

/// The same set with as much of its name as a name may have.
fn shortened(rest: &[[u8; SLOT]]) -> Option<EntrySet> {
    let mut slots = rest.get(..=secondary_count(rest.first()?))?.to_vec();
    let parts = slots[2..].iter().take_while(|slot| slot[0] == kind::NAME).count();
    slots.drain(2 + MOST_PARTS.min(parts)..2 + parts);
    slots[0][1] = (slots.len() - 1) as u8;
    slots[1][3] = (MOST_PARTS * UNITS_IN_NAME) as u8;
    EntrySet::read_loosely(&slots).ok()
}

/// The most entries that the 255 units of a name take (7.7).
const MOST_PARTS: usize = 17;
