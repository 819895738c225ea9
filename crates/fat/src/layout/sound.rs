//! Whether what stands in a slot is an entry that some system wrote.

use super::{Attributes, Geometry, LongEntry, NtCase, SLOT, ShortEntry, Slot};

/// Bits of `DIR_NTRes` that some system sets: two for case, and two that Windows sets for encrypted files.
const KNOWN_NT: u8 = NtCase::LOWER_BASE | NtCase::LOWER_EXTENSION | 0x03;

/// Whether what stands in an entry's slot is no entry: its name cannot be right, and two more fields that lead to content or
/// say what it is are such as no system writes. An entry whose name is allowed may be somebody's data, whatever else is
/// wrong with it. Dates and times tell nothing at all: a device whose clock was never set leaves all kinds.
pub fn is_garbage(geometry: &Geometry, short: &ShortEntry) -> bool {
    !short.name.is_valid() && oddities(geometry, short) >= 3
}

/// How many fields that lead to content or say what an entry is no system writes so.
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

/// Whether dates and times are those of a clock that was set.
fn has_dates(short: &ShortEntry) -> bool {
    let time = |time: u16| time >> 11 <= 23 && time >> 5 & 0x3F <= 59 && time & 0x1F <= 29;
    let date = |date: u16| date == 0 || (date & 0x1F != 0 && (1..=12).contains(&(date >> 5 & 0xF)));
    short.created.hundredths <= 199
        && time(short.created.time)
        && time(short.modified.time)
        && [short.created.date, short.modified.date, short.accessed.date].into_iter().all(date)
}

/// Whether a slot that should not be there could nevertheless be a sound entry.
pub fn is_sound(geometry: &Geometry, slot: &[u8; SLOT]) -> bool {
    match Slot::from_bytes(slot) {
        Slot::End | Slot::Deleted => true,
        Slot::Long(LongEntry { kind, cluster, attributes, .. }) => {
            kind == 0 && cluster == 0 && attributes == Attributes::LONG
        }
        Slot::Short(short) => oddities(geometry, &short) == 0 && has_dates(&short),
    }
}
