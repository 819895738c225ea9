//! Long names in which one bit is wrong.
//!
//! The slots of a long name say more than the name: each has its number, the checksum of the short name, and fields that are
//! always the same (fatgen103, "Long Directory Entry Structure"). If all of this is right but for one bit, in the slots or
//! in the short name that the checksum is of, then that bit is wrong, and the name is whole.

use super::listing::{Item, Listing};
use crate::layout::{Attributes, LongEntry, LongName, MOST_LONG_ENTRIES, SLOT, ShortEntry, ShortName, Slot};
use platter_vfs::Name;

/// Returns the slots with a wrong bit from `start` on, as they were before.
pub(super) fn mended(listing: &Listing, start: usize) -> Vec<(usize, [u8; SLOT])> {
    let mut found = Vec::new();
    let mut before_is_orphan = false;
    for item in listing.items(start) {
        let (slot, is_whole) = match item {
            Item::Orphan { .. } => {
                before_is_orphan = true;
                continue;
            }
            Item::Entry { slot, long, .. } => (slot, long.is_some() && !before_is_orphan),
        };
        before_is_orphan = false;
        if !is_whole {
            found.extend(longest(listing, start, slot));
        }
    }
    found
}

/// Returns the slot with the wrong bit of the longest long name that ends before the short entry in a slot.
fn longest(listing: &Listing, start: usize, slot: usize) -> Option<(usize, [u8; SLOT])> {
    let most = MOST_LONG_ENTRIES.min(slot - start);
    let mut wrong = 0;
    let mut best = None;
    for count in 1..=most {
        let at = slot - count;
        let part = listing.slot(at);
        // Where another part comes before this one, it is not the last of the name.
        let goes_on = count < MOST_LONG_ENTRIES
            && at > start
            && [0, LongEntry::LAST]
                .iter()
                .any(|last| distance(&listing.slot(at - 1), (count + 1) as u8 | last) <= 1);
        if !goes_on && wrong + distance(&part, count as u8 | LongEntry::LAST) <= 1 {
            best = mend(listing, slot, count).or(best);
        }
        wrong += distance(&part, count as u8);
        if wrong > 1 {
            break;
        }
    }
    best
}

/// Returns in how many bits a slot differs from one of a long name with this number, besides name and checksum.
fn distance(slot: &[u8; SLOT], order: u8) -> u32 {
    let bits = [slot[0] ^ order, slot[11] ^ Attributes::LONG, slot[12], slot[26], slot[27]];
    bits.into_iter().map(u8::count_ones).sum()
}

/// Returns the slot with the wrong bit, if there is one among the `count` slots before a short entry and its name.
fn mend(listing: &Listing, slot: usize, count: usize) -> Option<(usize, [u8; SLOT])> {
    let last = listing.slot(slot);
    let Slot::Short(short) = Slot::from_bytes(&last) else { return None };
    if short.name.is_dots() || short.attributes.label() {
        return None;
    }
    let first = slot - count;
    let order = |at: usize| {
        let number = (slot - at) as u8;
        if at == first { number | LongEntry::LAST } else { number }
    };
    let parts: Vec<[u8; SLOT]> = (first..slot).map(|at| listing.slot(at)).collect();
    let right = |part: &[u8; SLOT], at: usize| {
        let mut part = *part;
        (part[0], part[11], part[12], part[26], part[27]) = (order(at), Attributes::LONG, 0, 0, 0);
        part
    };
    let is_wrong = |at: usize| parts[at - first] != right(&parts[at - first], at);
    let sum = short.name.checksum();
    let others: Vec<usize> = (first..slot).filter(|&at| parts[at - first][13] != sum).collect();
    let change = match ((first..slot).find(|&at| is_wrong(at)), &others[..]) {
        (Some(at), []) => (at, right(&parts[at - first], at)),
        (None, [at]) if (parts[at - first][13] ^ sum).count_ones() == 1 => {
            let mut part = parts[at - first];
            part[13] = sum;
            // With one slot alone, the short name may be what is wrong.
            if count == 1
                && let Some(name) = name(&[part], &short.name)
                && let Some(other) = of_checksum(&last, parts[0][13], &name)
                && likeness(&ShortEntry::from_bytes(&other).name, &name) > likeness(&short.name, &name)
            {
                return Some((slot, other));
            }
            (*at, part)
        }
        (None, [at, ..]) if others.len() == count => {
            let sum = parts[at - first][13];
            if parts.iter().any(|part| part[13] != sum) {
                return None;
            }
            let mut with: Vec<[u8; SLOT]> = parts.clone();
            with.iter_mut().for_each(|part| part[13] = short.name.checksum());
            (slot, of_checksum(&last, sum, &name(&with, &short.name)?)?)
        }
        _ => return None,
    };
    let slots: Vec<[u8; SLOT]> =
        (first..=slot).map(|at| if at == change.0 { change.1 } else { listing.slot(at) }).collect();
    let (last, parts) = slots.split_last()?;
    name(parts, &ShortEntry::from_bytes(last).name)?;
    Some(change)
}

/// Returns the long name in these slots, if they belong to this short name.
fn name(parts: &[[u8; SLOT]], short: &ShortName) -> Option<Name> {
    let mut long = LongName::default();
    for part in parts {
        long.push(&LongEntry::from_bytes(part)).ok()?;
    }
    long.finish(short).ok()?
}

/// Returns the short entry of which the name, with one bit changed, has this checksum and is most like the alias of the
/// long name. `None` if several are as much like it.
fn of_checksum(slot: &[u8; SLOT], sum: u8, long: &Name) -> Option<[u8; SLOT]> {
    let mut best: Option<(usize, [u8; SLOT])> = None;
    let mut is_only = true;
    for bit in 0..88 {
        let mut slot = *slot;
        slot[bit / 8] ^= 1 << (bit % 8);
        let name = ShortEntry::from_bytes(&slot).name;
        if name.checksum() != sum || !name.is_valid() || slot[0] == 0xE5 {
            continue;
        }
        let alike = likeness(&name, long);
        match &best {
            Some((most, _)) if *most > alike => {}
            Some((most, _)) if *most == alike => is_only = false,
            _ => (best, is_only) = (Some((alike, slot)), true),
        }
    }
    best.filter(|_| is_only).map(|(_, slot)| slot)
}

/// Returns in how many bytes a short name is that which a long name would get.
fn likeness(short: &ShortName, long: &Name) -> usize {
    let Some(alias) = ShortName::alias(long, |_| false) else { return 0 };
    short.0.iter().zip(alias.0).filter(|(one, other)| **one == *other).count()
}
