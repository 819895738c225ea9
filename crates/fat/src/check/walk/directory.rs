//! A directory: its chain, the entries "." and "..", its other entries, and the slots after its end mark.

use super::{Dir, FREE, Walk};
use crate::check::listing::{Item, Listing};
use crate::check::mend::mended;
use crate::check::names::Names;
use crate::layout::{
    Attributes, LARGEST_FILE, LongEntry, MOST_SLOTS, NtCase, SLOT, ShortEntry, ShortName, Slot, is_sound,
};
use platter_clusters::{Stop, claim_chain};
use platter_vfs::{Name, Result, Severity};
use std::ops::Range;

/// The number of slots in the smallest sector.
const SECTOR: usize = 512 / SLOT;

impl Walk<'_, '_> {
    pub(super) fn directory(&mut self, index: u32) -> Result<()> {
        let Dir { parent, first, slot: entry, .. } = self.dirs[index as usize];
        if first != 0 {
            let most = u64::from(MOST_SLOTS) * SLOT as u64;
            let (count, last, stop) = claim_chain(self, first, self.geometry.clusters_for(most).max(1))?;
            self.dirs[index as usize].count = count;
            self.find_end((index, None), first, count);
            let at = Some((index, None));
            match stop {
                Stop::End => {}
                Stop::More(next) => {
                    let message =
                        || format!("directory goes on after {MOST_SLOTS} entries, at cluster {next}");
                    if self.find("directory-too-large", Severity::Inconsistent, at, message) {
                        self.cut(last);
                    }
                }
                stop => {
                    let message = || format!("directory's chain: cluster {last} {}", stop.told(FREE));
                    if self.find(stop.code(), Severity::DataLoss, at, message) {
                        self.cut(last);
                    }
                }
            }
        }
        let count = self.dirs[index as usize].count;
        let mut listing = Listing::read(self.disk, self.geometry, self.table, first, count)?;
        let root = index == 0;
        if !root && !self.looks_like_directory(&listing) {
            let message = || format!("cluster {first} is the start of a directory, but holds something else");
            if self.find("not-a-directory", Severity::DataLoss, Some((index, None)), message) {
                let mut slot = [0; SLOT];
                self.disk.read_slots(entry, &mut slot)?;
                let mut short = ShortEntry::from_bytes(&slot);
                short.attributes.0 &= !Attributes::DIRECTORY;
                short.size =
                    (u64::from(count) * u64::from(self.geometry.cluster_size)).min(LARGEST_FILE) as u32;
                self.disk.edit(entry, short.to_bytes());
            }
            self.dirs[index as usize].count = 0;
            return Ok(());
        }
        if !root {
            let above = match parent {
                0 => 0,
                parent => self.dirs[parent as usize].first,
            };
            self.dots(index, &mut listing, first, above);
        }
        self.after_end(index, &mut listing);
        self.entries(index, &mut listing, if root { 0 } else { 2 })
    }

    /// Whether slots may be a directory: they start with "." or are empty, at least half of those in use are sound
    /// entries, or all in at least one sector are. (Damage in other sectors is no reason to lose these entries.)
    fn looks_like_directory(&self, listing: &Listing) -> bool {
        if listing.bytes[..11] == ShortName::DOT.0 {
            return true;
        }
        let live: Vec<_> = (0..listing.len()).filter(|&at| listing.is_live(at)).collect();
        let sound = live.iter().filter(|&&at| is_sound(self.geometry, &listing.slot(at))).count();
        let is_entries = |sector: usize| {
            let end = (sector + SECTOR).min(listing.len());
            let live = (sector..end).filter(|&at| listing.is_live(at)).count();
            live >= 2 && (sector..end).all(|at| is_sound(self.geometry, &listing.slot(at)))
        };
        sound * 2 >= live.len() || (0..listing.len()).step_by(SECTOR).any(is_entries)
    }

    /// Checks the entries "." and "..", with which every directory but the root starts.
    fn dots(&mut self, index: u32, listing: &mut Listing, first: u32, above: u32) {
        for (at, name, cluster) in [(0, ShortName::DOT, first), (1, ShortName::DOT_DOT, above)] {
            let shown = if at == 0 { "." } else { ".." };
            let found = match Slot::from_bytes(&listing.slot(at)) {
                Slot::Short(short) if short.name == name => Some(short),
                _ => None,
            };
            let Some(mut short) = found else {
                let message = || format!("slot {at} is not the entry \"{shown}\" (cluster {cluster})");
                if self.find("dot-missing", Severity::Inconsistent, Some((index, None)), message) {
                    self.make_room(listing, at);
                    let entry = ShortEntry {
                        name,
                        attributes: Attributes(Attributes::DIRECTORY),
                        cluster,
                        ..ShortEntry::default()
                    };
                    listing.change(self.disk, at, entry.to_bytes());
                }
                continue;
            };
            let start = self.geometry.first_cluster(&short);
            if start != cluster
                || !short.attributes.directory()
                || short.attributes.label()
                || short.size != 0
                || short.nt & NtCase::NO_SHORT_NAME != 0
            {
                let message = || {
                    let (attributes, size, nt) = (short.attributes.0, short.size, short.nt);
                    format!(
                        "\"{shown}\" should be a directory of cluster {cluster}, size 0, with a short name; it has \
                         cluster {start}, attributes {attributes:02X}, size {size}, name bits {nt:02X}"
                    )
                };
                if self.find("dot-wrong", Severity::Inconsistent, Some((index, None)), message) {
                    short.attributes = Attributes(Attributes::DIRECTORY);
                    short.cluster = cluster;
                    short.size = 0;
                    short.nt &= !NtCase::NO_SHORT_NAME;
                    listing.change(self.disk, at, short.to_bytes());
                }
            }
        }
    }

    /// Moves the entry that begins in a slot to free slots. Where there are none it will be overwritten: its clusters
    /// are then lost, and are recovered.
    fn make_room(&mut self, listing: &mut Listing, at: usize) {
        if !listing.is_live(at) {
            return;
        }
        let spanned = listing.items(at).into_iter().find_map(|item| match item {
            Item::Entry { first, slot, short, .. } if first == at && !short.name.is_dots() => {
                Some(first..slot + 1)
            }
            _ => None,
        });
        let Some(old) = spanned.filter(|old| is_sound(self.geometry, &listing.slot(old.end - 1))) else {
            return;
        };
        let mut run = 0;
        for to in old.end.max(2)..listing.len() {
            run = if listing.is_live(to) { 0 } else { run + 1 };
            if run == old.len() {
                for (from, to) in old.clone().zip(to + 1 - run..) {
                    let slot = listing.slot(from);
                    listing.change(self.disk, to, slot);
                    // Its old place is overwritten once it is in the new one.
                    self.disk.write_first(listing.offset(to));
                }
                listing.delete(self.disk, old);
                return;
            }
        }
    }

    /// Checks the slots after the end mark, which should be unused.
    ///
    /// Sectors of sound entries are restored: a slot before them was overwritten with zeroes, or its sector is
    /// damaged. Anything else is old content that some systems leave in a directory's clusters.
    fn after_end(&mut self, index: u32, listing: &mut Listing) {
        let end = listing.end();
        let live: Vec<_> = (end..listing.len()).filter(|&at| listing.is_live(at)).collect();
        let Some(&last) = live.last() else { return };
        self.dirs[index as usize].is_damaged = true;
        let is_kept = |at: usize| {
            let sector = at / SECTOR * SECTOR;
            (sector.max(end)..(sector + SECTOR).min(listing.len()))
                .all(|at| is_sound(self.geometry, &listing.slot(at)))
        };
        let kept: Vec<usize> = live.iter().copied().filter(|&at| is_kept(at)).collect();
        let message = || {
            let what = match kept.len() {
                0 => "bytes that are no entries".to_string(),
                count if count == live.len() => "sound entries, which are kept".to_string(),
                count => format!("{count} slots of sound entries, which are kept, and bytes that are none"),
            };
            format!("slot {end} says that nothing follows, but up to slot {last} there are {what}")
        };
        if self.find("entries-after-end", Severity::Inconsistent, Some((index, None)), message) {
            let kept_end = kept.last().map_or(end, |last| last + 1);
            for at in (end..=last).filter(|at| kept.binary_search(at).is_err()) {
                match (at < kept_end, listing.is_live(at)) {
                    (true, _) => listing.delete(self.disk, at..at + 1),
                    (false, true) => listing.change(self.disk, at, [0; SLOT]),
                    (false, false) => {}
                }
            }
        }
    }

    /// Checks the fields that are the same in all parts of long names (fatgen103, "Long Directory Entry Structure").
    fn long_name_fields(
        &mut self,
        index: u32,
        listing: &mut Listing,
        parts: Range<usize>,
        name: Option<&Name>,
    ) {
        for at in parts {
            let Slot::Long(part) = Slot::from_bytes(&listing.slot(at)) else { continue };
            let right = LongEntry { attributes: Attributes::LONG, kind: 0, cluster: 0, ..part.clone() };
            if part == right {
                continue;
            }
            let message = || {
                format!(
                    "a part of its long name has attributes {:02X}, type {:02X} and cluster {}; expected 0F, 00 and 0",
                    part.attributes, part.kind, part.cluster
                )
            };
            if self.find("long-name-fields", Severity::Inconsistent, Some((index, name)), message) {
                listing.change(self.disk, at, right.to_bytes());
            }
        }
    }

    /// Puts wrong bits of long names right.
    fn long_names(&mut self, index: u32, listing: &mut Listing, start: usize) {
        for (at, slot) in mended(listing, start) {
            let message = || {
                let (old, new) = (listing.slot(at), &slot);
                let byte = old.iter().zip(new).position(|(old, new)| old != new).unwrap_or(0);
                let (old, new) = (old[byte], new[byte]);
                format!(
                    "byte {byte} of slot {at} is {old:02X}; with {new:02X} a long name and its entry fit together"
                )
            };
            let message = message();
            if self.find("long-name-bit", Severity::Inconsistent, Some((index, None)), || message) {
                listing.change(self.disk, at, slot);
            }
        }
    }

    fn entries(&mut self, index: u32, listing: &mut Listing, start: usize) -> Result<()> {
        self.long_names(index, listing, start);
        let items = listing.items(start);
        let mut names = Names::default();
        for item in &items {
            if let Item::Entry { short, .. } = item {
                names.all_short.insert(short.name);
            }
        }
        for item in items {
            match item {
                Item::Orphan { slots, fault } => {
                    self.dirs[index as usize].is_damaged = true;
                    let message = || {
                        let Range { start, end } = &slots;
                        format!(
                            "slots {start} to {} are parts of a long name without an entry ({fault:?})",
                            end - 1
                        )
                    };
                    if self.find("orphan-long-name", Severity::Inconsistent, Some((index, None)), message) {
                        listing.delete(self.disk, slots.clone());
                    }
                }
                Item::Entry { first, slot, short, long, .. } => {
                    self.long_name_fields(index, listing, first..slot, long.as_ref());
                    self.entry(index, listing, &mut names, first..slot + 1, short, long)?;
                }
            }
        }
        Ok(())
    }
}
