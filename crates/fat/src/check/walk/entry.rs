//! An entry of a directory: whether it is credible, and its names.

use super::Walk;
use crate::check::listing::Listing;
use crate::check::names::Names;
use crate::layout::{Attributes, Label, NtCase, ShortEntry, ShortName, Slot, allowed, is_garbage};
use platter_vfs::{CaseRule, Name, Result, Severity};
use std::ops::Range;

impl Walk<'_, '_> {
    pub(super) fn entry(
        &mut self,
        index: u32,
        listing: &mut Listing,
        names: &mut Names,
        slots: Range<usize>,
        mut short: ShortEntry,
        long: Option<Name>,
    ) -> Result<()> {
        let at = slots.end - 1;
        let name = long.clone().unwrap_or_else(|| short.name.to_name(short.nt));
        let place = Some((index, Some(&name)));
        if short.name.is_dots() {
            let message =
                || format!("slot {at} is a dot entry, which belongs in slots 0 and 1 of a subdirectory");
            if self.find("stray-dots", Severity::Inconsistent, place, message) {
                listing.delete(self.disk, slots);
            }
            return Ok(());
        }
        let start = self.geometry.first_cluster(&short);
        // A label has no long name.
        let is_label = short.attributes.label()
            && !short.attributes.directory()
            && start == 0
            && short.size == 0
            && long.is_none();
        if !is_label && is_garbage(self.geometry, &short) {
            let message = || format!("slot {at} holds bytes that no system writes as an entry");
            if self.find("garbage-entry", Severity::DataLoss, place, message) {
                listing.delete(self.disk, slots);
            }
            return Ok(());
        }
        if is_label {
            self.label_entry(index, listing, slots, &short);
            return Ok(());
        }
        if short.attributes.label() {
            let message = || {
                format!(
                    "a volume label with attributes {:02X}, cluster {start} and size {}",
                    short.attributes.0, short.size
                )
            };
            if self.find("bad-attributes", Severity::Inconsistent, place, message) {
                short.attributes.0 &= !Attributes::LABEL;
                listing.change(self.disk, at, short.to_bytes());
            }
        }
        if short.attributes.0 & !Attributes::LONG_MASK != 0 {
            let message = || format!("attributes {:02X} have reserved bits", short.attributes.0);
            if self.find("reserved-attributes", Severity::Notice, place, message) {
                short.attributes.0 &= Attributes::LONG_MASK;
                listing.change(self.disk, at, short.to_bytes());
            }
        }
        if short.nt & NtCase::NO_SHORT_NAME != 0 && long.is_none() {
            let message = || "an entry that is said to have only a long name has none".to_owned();
            if self.find("bad-attributes", Severity::Inconsistent, place, message) {
                short.nt &= !NtCase::NO_SHORT_NAME;
                listing.change(self.disk, at, short.to_bytes());
            }
        }
        let long = long.map(|long| self.long_name(index, listing, slots.clone(), long));
        self.names(index, listing, names, slots, &mut short, long.as_ref());
        self.clusters_of(index, listing, at, short, name)
    }

    fn label_entry(&mut self, index: u32, listing: &mut Listing, slots: Range<usize>, short: &ShortEntry) {
        let code = match (index, self.label) {
            (0, _) if Label(short.name.0).is_blank() => {
                let message = || "the volume label is nothing but spaces, so there is none".to_owned();
                if self.find("blank-label", Severity::Inconsistent, Some((0, None)), message) {
                    listing.delete(self.disk, slots);
                }
                return;
            }
            (0, None) => {
                let label = Label(short.name.0);
                self.label = Some(label.0);
                let message = || format!("the volume label \"{label}\" has characters that it may not");
                if !label.is_valid()
                    && self.find("bad-label", Severity::Inconsistent, Some((0, None)), message)
                {
                    let name = ShortName(label.sanitised().0);
                    self.label = Some(name.0);
                    listing.change(self.disk, slots.end - 1, ShortEntry { name, ..short.clone() }.to_bytes());
                }
                return;
            }
            (0, Some(_)) => "second-label",
            _ => "misplaced-label",
        };
        let message = || {
            format!("slot {} is a volume label, of which there is one, in the root directory", slots.start)
        };
        if self.find(code, Severity::Inconsistent, Some((index, None)), message) {
            listing.delete(self.disk, slots.clone());
        }
    }

    /// Checks that Windows allows the long name of an entry; returns the name that the entry has from now on.
    fn long_name(&mut self, index: u32, listing: &mut Listing, slots: Range<usize>, long: Name) -> Name {
        let units: Vec<u16> = long.units().iter().map(|&unit| allowed(unit)).collect();
        let message = || "the long name has characters that it may not".to_owned();
        if units == long.units()
            || !self.find("bad-name", Severity::Inconsistent, Some((index, Some(&long))), message)
        {
            return long;
        }
        for at in slots.start..slots.end - 1 {
            if let Slot::Long(mut part) = Slot::from_bytes(&listing.slot(at)) {
                part.units = part.units.map(allowed);
                listing.change(self.disk, at, part.to_bytes());
            }
        }
        Name::from_units(&units)
    }

    /// Checks an entry's names: they must be allowed, and different from all others in the directory.
    fn names(
        &mut self,
        index: u32,
        listing: &mut Listing,
        names: &mut Names,
        slots: Range<usize>,
        short: &mut ShortEntry,
        long: Option<&Name>,
    ) {
        let shown = long.cloned().unwrap_or_else(|| short.name.to_name(short.nt));
        let place = Some((index, Some(&shown)));
        let mut alias = short.name;
        if !alias.is_valid() {
            let message = || format!("the short name {:?} has characters that it may not", short.name);
            if self.find("bad-name", Severity::Inconsistent, place, message) {
                alias = names.other(&alias.sanitised());
            }
        } else if alias.has_small_letters() {
            alias = self.small_letters(place, names, short, long.is_some());
        } else if names.short.contains(&alias) {
            let message = || format!("the short name {alias:?} is there twice");
            if self.find("duplicate-name", Severity::Inconsistent, place, message) {
                alias = names.other(&alias);
            }
        }
        if alias != short.name {
            short.name = alias;
            names.all_short.insert(alias);
            for at in slots.start..slots.end - 1 {
                let mut part = listing.slot(at);
                part[13] = alias.checksum();
                listing.change(self.disk, at, part);
            }
            listing.change(self.disk, slots.end - 1, short.to_bytes());
        }
        let of_alias = alias.to_name(0).folded(CaseRule::Insensitive);
        let of_long =
            long.map(|long| long.folded(CaseRule::Insensitive)).filter(|folded| *folded != of_alias);
        if let Some(folded) = of_long {
            if names.shown.contains(&folded) {
                let message = || "the long name is there twice".to_owned();
                if self.find("duplicate-name", Severity::Inconsistent, place, message) {
                    listing.delete(self.disk, slots.start..slots.end - 1);
                }
            } else {
                names.shown.insert(folded);
            }
        }
        names.short.insert(alias);
        names.shown.insert(of_alias);
    }

    /// Reports a short name with small letters. Returns the short name that the entry has from now on: a repair changes
    /// it.
    fn small_letters(
        &mut self,
        place: Option<(u32, Option<&Name>)>,
        names: &Names,
        short: &mut ShortEntry,
        is_long: bool,
    ) -> ShortName {
        let capitals = short.name.to_upper();
        let folded = capitals.to_name(0).folded(CaseRule::Insensitive);
        let is_repaired = if names.all_short.contains(&capitals) || names.shown.contains(&folded) {
            let message = || format!("the short name {:?} is there twice but for small letters", short.name);
            self.find("duplicate-name", Severity::Inconsistent, place, message)
        } else {
            let message = || format!("the short name {:?} has small letters", short.name);
            self.find("small-letters", Severity::Notice, place, message)
        };
        if !is_repaired {
            return short.name;
        }
        let other = names.other(&capitals);
        if other == capitals && !is_long {
            short.nt = short.name.case_bits_of_capitals(short.nt);
        }
        other
    }
}
