//! Recognising slots with entries that a system wrote, and slots with random bytes.

use super::{Attributes, Geometry, LongEntry, NtCase, SLOT, ShortEntry, Slot};

/// The bits of `DIR_NTRes` that systems set: two for case, and two that Windows sets for encrypted files.
const KNOWN_NT: u8 = NtCase::LOWER_BASE | NtCase::LOWER_EXTENSION | 0x03;

/// Whether the bytes in an entry's slot are no entry: the name is invalid, and at least two other fields (attributes,
/// first cluster, size) have values that no system writes. An entry with a valid name is kept in any case, because it
/// may be a user's file. Dates and times do not count: a device whose clock was never set writes any values.
pub fn is_garbage(geometry: &Geometry, short: &ShortEntry) -> bool {
    // A valid name with small letters is suspect too, since text that was written over a directory may pass for such
    // names. Small letters do not count among the two other fields.
    let is_odd = !short.name.is_valid() || short.name.has_small_letters();
    let others = oddities(geometry, short) - u32::from(!short.name.is_valid());
    is_odd && others >= 2
}

/// Counts the fields (name, attributes, first cluster, size) with values that no system writes.
fn oddities(geometry: &Geometry, short: &ShortEntry) -> u32 {
    let cluster = geometry.first_cluster(short);
    [
        !short.name.is_valid(),
        short.attributes.0 & !Attributes::LONG_MASK != 0,
        short.attributes.label() && short.attributes.directory(),
        short.nt & !KNOWN_NT != 0,
        if cluster == 0 { short.size != 0 } else { !geometry.has_cluster(cluster) },
        short.attributes.directory() && short.size != 0,
        geometry.clusters_for(u64::from(short.size)) > u64::from(geometry.clusters),
    ]
    .into_iter()
    .map(u32::from)
    .sum()
}

/// Whether all dates and times are valid.
fn has_dates(short: &ShortEntry) -> bool {
    let time = |time: u16| time >> 11 <= 23 && time >> 5 & 0x3F <= 59 && time & 0x1F <= 29;
    let date = |date: u16| date == 0 || (date & 0x1F != 0 && (1..=12).contains(&(date >> 5 & 0xF)));
    short.created.hundredths <= 199
        && time(short.created.time)
        && time(short.modified.time)
        && [short.created.date, short.modified.date, short.accessed.date].into_iter().all(date)
}

/// Whether a slot in an unexpected place could be a sound entry.
pub fn is_sound(geometry: &Geometry, slot: &[u8; SLOT]) -> bool {
    match Slot::from_bytes(slot) {
        Slot::End | Slot::Deleted => true,
        Slot::Long(LongEntry { kind, cluster, attributes, .. }) => {
            kind == 0 && cluster == 0 && attributes == Attributes::LONG
        }
        Slot::Short(short) => oddities(geometry, &short) == 0 && has_dates(&short),
    }
}
