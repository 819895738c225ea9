//! Attributes and their clusters: runs, sizes, and other attributes that have the same clusters.

use super::file::{Assembled, AttributePlace, Key, is_initialized, key, taken};
use super::{Check, Severity};
use crate::layout::record_number as known;
use crate::layout::runs;
use crate::layout::{
    Attribute, AttributeContent, Kind, NonResident, Run, attribute_flags as flags, file_flags,
};
use platter_vfs::{Name, NameRules, Result};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// How often all clusters of a volume may be claimed again before further claims are taken for garbage.
const CLAIMS: u64 = 16;

/// The base-2 logarithm of the clusters of a compression unit on volumes with clusters of at most 4 KiB. It is a constant of
/// NTFS: `FILE_COMPRESSION_INFORMATION` in ntifs.h, "CompressionUnitShift".
const UNIT: u8 = 4;

/// The base-2 logarithms of the clusters that a compression unit may have on this volume.
fn units(check: &Check<'_>) -> RangeInclusive<u8> {
    if check.geometry.cluster <= 4096 { UNIT..=UNIT } else { 1..=10 }
}

/// Checks all attributes of a file, and claims their clusters.
pub(super) fn examine_all(check: &mut Check<'_>, file: &mut Assembled) -> Result<()> {
    names(check, file);
    // Removing an attribute moves the others, so the places are looked up again for each.
    for key in file.streams().into_keys() {
        let places = file.find(&key);
        let resident = places.iter().filter(|place| file.attribute(**place).value().is_some()).count();
        if resident > 0 && places.len() > 1 {
            let message =
                format!("file record at offset {}: {}: expected one, found {}", file.at, key.0, places.len());
            check.find("attribute-twice", Severity::DataLoss, Some(file.number), message, check.is_repairing);
            let kept = file.attribute(places[0]).clone();
            file.put(kept);
            if resident == places.len() {
                continue;
            }
        }
        let places = file.find(&key);
        if let Some(&first) = places.first()
            && file.attribute(first).value().is_none()
        {
            outside(check, file, &key, &places);
        }
    }
    encryption(check, file);
    flags_of_file(check, file);
    Ok(())
}

/// Finds streams with a name that no stream can have, so that no program opens them: characters of it are replaced.
fn names(check: &mut Check<'_>, file: &mut Assembled) {
    let names = file.of(Kind::DATA).into_iter().map(|place| &file.attribute(place).name);
    let named = names.filter(|name| !name.is_empty());
    let bad = named.filter(|name| NameRules::STREAM.check(&Name::from_units(name)).is_err());
    for bad in bad.cloned().collect::<BTreeSet<_>>() {
        let found = String::from_utf16_lossy(&bad);
        let message =
            format!("file record at offset {}: expected a name of a stream, found {found:?}", file.at);
        check.find("stream-name", Severity::Inconsistent, Some(file.number), message, check.is_repairing);
        let allowed = |unit: &u16| match NameRules::STREAM.check(&Name::from_units(&[*unit])) {
            Ok(()) => *unit,
            Err(_) => u16::from(b'_'),
        };
        let mut name: Vec<u16> = bad.iter().map(allowed).collect();
        while !file.find(&(Kind::DATA, name.as_slice().into())).is_empty() {
            name.truncate(NameRules::STREAM.longest - 1);
            name.push(u16::from(b'_'));
        }
        for place in file.find(&(Kind::DATA, bad)) {
            file.attribute_mut(place).name = name.as_slice().into();
        }
    }
}

/// Finds data that is called encrypted in a file without the attribute `$EFS`, which holds the key: then the flag is
/// wrong. It would keep everyone from the content.
fn encryption(check: &mut Check<'_>, file: &mut Assembled) {
    let data = file.of(Kind::DATA).into_iter();
    let encrypted: Vec<_> =
        data.filter(|place| file.attribute(*place).flags & flags::ENCRYPTED != 0).collect();
    if encrypted.is_empty() || !file.find(&key(Kind::LOGGED_UTILITY_STREAM, "$EFS")).is_empty() {
        return;
    }
    for place in encrypted {
        let message = format!(
            "$DATA of the file record at offset {}: expected that it is not encrypted, since the file has no key ($EFS), found otherwise",
            file.at
        );
        check.find("encrypted", Severity::Inconsistent, Some(file.number), message, check.is_repairing);
        file.attribute_mut(place).flags &= !flags::ENCRYPTED;
    }
}

/// Compares the flags in `$STANDARD_INFORMATION` with those of the file's data.
fn flags_of_file(check: &mut Check<'_>, file: &mut Assembled) {
    let Some(mut standard) = file.standard().filter(|_| file.number >= known::FIRST_FREE) else { return };
    let data = file.of(Kind::DATA);
    let any = data.iter().fold(0, |flags, place| flags | file.attribute(*place).flags);
    let own = data.iter().map(|place| file.attribute(*place)).find(|data| data.name.is_empty());
    let own = own.map_or(0, |data| data.flags);
    let has_reparse = !file.of(Kind::REPARSE_POINT).is_empty();
    // The flag that the attributes require; `None` if both are right: a directory, which has no data, may have the flag
    // for new files in it.
    let told = |flag: u16| match (own & flag != 0, any & flag != 0 || data.is_empty()) {
        (true, _) => Some(true),
        (false, true) => None,
        (false, false) => Some(false),
    };
    let expected = [
        (file_flags::SPARSE, told(flags::SPARSE), "sparse"),
        (file_flags::ENCRYPTED, told(flags::ENCRYPTED), "encrypted"),
        (file_flags::REPARSE, Some(has_reparse), "a reparse point"),
    ];
    for (flag, expected, name) in expected {
        let is_said = standard.flags & flag != 0;
        if expected.is_none_or(|expected| expected == is_said) {
            continue;
        }
        let not = if is_said { "not " } else { "" };
        let message = format!(
            "$STANDARD_INFORMATION of the file record at offset {}: expected that it says {not}{name}, found otherwise",
            file.at
        );
        check.find("flags", Severity::Inconsistent, Some(file.number), message, check.is_repairing);
        standard.flags ^= flag;
        file.put(Attribute::resident(Kind::STANDARD_INFORMATION, standard.to_bytes()));
    }
}

/// The end of the virtual clusters of an attribute in one piece, if the header states others than its run list, which
/// agrees with the allocated size: then the header is wrong, and not the run list.
fn end_by_runs(check: &Check<'_>, file: &Assembled, places: &[AttributePlace]) -> Option<u64> {
    let &[place] = places else { return None };
    let AttributeContent::NonResident(piece) = &file.attribute(place).content else { return None };
    let end = piece.allocated / check.geometry.cluster;
    let fits = |first, end| runs::unpack(&piece.pairs, first, end, check.geometry.clusters, file.at).is_ok();
    (end > 0 && !(piece.first == 0 && fits(0, piece.end)) && fits(0, end)).then_some(end)
}

fn outside(check: &mut Check<'_>, file: &mut Assembled, key: &Key, places: &[AttributePlace]) {
    if let Some(end) = end_by_runs(check, file, places)
        && let AttributeContent::NonResident(piece) = &mut file.attribute_mut(places[0]).content
    {
        let (first, other) = (piece.first, piece.end);
        (piece.first, piece.end) = (0, end);
        let message = format!(
            "{} of the file record at offset {}: expected virtual clusters from 0 and below {end}, found from {first} and below {other}",
            told(key),
            file.at
        );
        check.find("runs", Severity::Inconsistent, Some(file.number), message, check.is_repairing);
    }
    let Some((runs, fault)) = unpack(check, file, places) else { return };
    let has_odd_compression = compression(check, file, key, places[0], &runs);
    let (first, attribute_flags) = (places[0], file.attribute(places[0]).flags);
    let AttributeContent::NonResident(header) = file.attribute(first).content.clone() else { return };
    let is_packed = attribute_flags & flags::COMPRESSION_MASK != 0;
    let may_have_holes = is_packed || attribute_flags & flags::SPARSE != 0;
    let name = told(key);
    if file.number != known::BAD_CLUSTERS {
        check.find_behind_end(file, &name, &runs);
    }
    let at = file.at;
    let repairing = check.is_repairing;
    let mut runs = runs;
    let mut is_wrong = has_odd_compression;
    if let Some(fault) = fault {
        is_wrong = true;
        check.find("runs", Severity::DataLoss, Some(file.number), format!("{name}: {fault}"), repairing);
        if is_packed {
            // A compression unit of which a part is missing cannot be unpacked.
            cut(&mut runs, header.unit);
        }
    } else if !places.iter().all(|place| has_end(file, *place)) {
        is_wrong = true;
        let message =
            format!("{name} of the file record at offset {at}: expected a 0 behind the runs, found none");
        check.find("runs", Severity::Inconsistent, Some(file.number), message, repairing);
    }
    if file.number != known::BAD_CLUSTERS
        && !may_have_holes
        && let Some(hole) = runs.iter().find(|run| run.lcn.is_none())
    {
        is_wrong = true;
        let message = format!(
            "{name} of the file record at offset {at}: expected clusters, found a hole at virtual cluster {}",
            hole.vcn
        );
        check.find("hole", Severity::DataLoss, Some(file.number), message, repairing);
        if key.0 == Kind::DATA && file.number >= known::FIRST_FREE {
            file.attribute_mut(first).flags |= flags::SPARSE;
        } else {
            let vcn = hole.vcn;
            runs.retain(|run| run.vcn < vcn);
        }
    }
    claim(check, file, key, &mut runs, &mut is_wrong);
    is_wrong |= sizes(check, file, key, &header, &runs, attribute_flags);
    if is_wrong && repairing {
        file.set_runs(check, key, &runs);
    }
}

fn has_end(file: &Assembled, place: AttributePlace) -> bool {
    match &file.attribute(place).content {
        AttributeContent::NonResident(piece) => runs::has_end(&piece.pairs),
        AttributeContent::Resident { .. } => true,
    }
}

/// Finds a method of compression and a compression unit that do not go together. Returns whether it found them.
///
/// Four signs speak of compression: the method and the unit of the attribute, the file's flags, and the size of the
/// allocated clusters, for which only headers of compressed and sparse attributes have room. Two of them decide, so no
/// single flipped bit does: packed bytes would be read as content, or content as packed bytes. A wrong unit alone makes
/// ntfs-3g take `$MFTMirr` for compressed, and refuse the volume.
fn compression(
    check: &mut Check<'_>,
    file: &mut Assembled,
    key: &Key,
    first: AttributePlace,
    runs: &[Run],
) -> bool {
    let attribute = file.attribute(first);
    let AttributeContent::NonResident(NonResident { unit, taken: stated, .. }) = attribute.content else {
        return false;
    };
    let (method, units) = (attribute.flags & flags::COMPRESSION_MASK, units(check));
    let is_sparse = attribute.flags & flags::SPARSE != 0;
    let can_be = key.0 == Kind::DATA && file.number >= known::FIRST_FREE;
    let is_right = match method {
        0 => unit == 0 || is_sparse,
        _ => can_be && method == flags::COMPRESSED && units.contains(&unit),
    };
    if is_right {
        return false;
    }
    let is_said = file.standard().is_some_and(|standard| standard.flags & file_flags::COMPRESSED != 0);
    let really = taken(runs) * check.geometry.cluster;
    let signs = [method == flags::COMPRESSED, units.contains(&unit), is_said, stated == Some(really)];
    let count = signs.into_iter().filter(|sign| *sign).count();
    // A sparse attribute may have a unit and has that size, compressed or not: then the file's flags decide.
    let is_packed = can_be && if is_sparse { is_said } else { count >= 2 };
    let expected = if is_packed {
        format!("compression 1 (LZNT1) in units of 2^{} to 2^{} clusters", units.start(), units.end())
    } else {
        "no compression".to_string()
    };
    let message = format!(
        "{} of the file record at offset {}: expected {expected}, found {method} in units of 2^{unit}",
        told(key),
        file.at
    );
    // Where several units are possible, the right one is not known.
    let is_lost = is_packed && !units.contains(&unit) && units.start() != units.end();
    let severity = if is_lost { Severity::DataLoss } else { Severity::Inconsistent };
    check.find("compression", severity, Some(file.number), message, check.is_repairing);
    let attribute = file.attribute_mut(first);
    attribute.flags &= !flags::COMPRESSION_MASK;
    let AttributeContent::NonResident(piece) = &mut attribute.content else { return true };
    if is_packed && !is_lost {
        attribute.flags |= flags::COMPRESSED;
        piece.unit = if units.contains(&unit) { unit } else { *units.start() };
    } else if !is_sparse {
        (piece.unit, piece.taken) = (0, None);
    }
    true
}

/// The runs of all pieces up to the first fault, and that fault.
fn unpack(
    check: &Check<'_>,
    file: &Assembled,
    places: &[AttributePlace],
) -> Option<(Vec<Run>, Option<String>)> {
    let mut found: Vec<Run> = Vec::new();
    let mut end = 0;
    for &place in places {
        let AttributeContent::NonResident(piece) = &file.attribute(place).content else { return None };
        if piece.first != end {
            let fault =
                format!("expected a piece from virtual cluster {end}, found one from {}", piece.first);
            return Some((found, Some(fault)));
        }
        let clusters = check.geometry.clusters;
        if let Err(error) =
            runs::unpack_into(&mut found, &piece.pairs, piece.first, piece.end, clusters, file.at)
        {
            return Some((found, Some(error.to_string())));
        }
        end = piece.end;
    }
    Some((found, None))
}

/// Removes the clusters at the end that are not a whole compression unit.
fn cut(runs: &mut Vec<Run>, unit: u8) {
    let end = runs.last().map_or(0, Run::end);
    let whole = end >> unit << unit;
    runs.retain_mut(|run| {
        run.length = run.length.min(whole.saturating_sub(run.vcn));
        run.length > 0
    });
}

fn claim(check: &mut Check<'_>, file: &Assembled, key: &Key, runs: &mut Vec<Run>, is_wrong: &mut bool) {
    if check.is_again {
        return;
    }
    let mut before = 0;
    for run in runs.iter() {
        let Some(lcn) = run.lcn else { continue };
        let crossed = check.used.add_and_note(lcn, run.length, &mut check.crossed);
        check.claimed_again += crossed;
        before += crossed;
    }
    if check.claimed_again > check.geometry.clusters.saturating_mul(CLAIMS) {
        let message =
            format!("{}: {before} of its clusters belong to others, too many to be told apart", told(key));
        check.find("runs", Severity::DataLoss, Some(file.number), message, check.is_repairing);
        runs.clear();
        *is_wrong = true;
    }
}

/// Compares the sizes with the runs. Returns whether the attribute must be written anew.
fn sizes(
    check: &mut Check<'_>,
    file: &Assembled,
    key: &Key,
    header: &NonResident,
    runs: &[Run],
    attribute_flags: u16,
) -> bool {
    let name = told(key);
    let repairing = check.is_repairing;
    let allocated = runs.last().map_or(0, Run::end) * check.geometry.cluster;
    let really = taken(runs) * check.geometry.cluster;
    let is_packed = attribute_flags & flags::COMPRESSION_MASK != 0;
    let mut wrong = Vec::new();
    let mut lost = false;
    if header.allocated != allocated {
        wrong.push(format!("allocated size: expected {allocated}, found {}", header.allocated));
    }
    if header.size > allocated {
        lost = true;
        wrong.push(format!("size: expected at most {allocated}, found {}", header.size));
    }
    if header.valid > header.size && !(is_packed && header.valid <= allocated) {
        wrong.push(format!("initialized size: expected at most {}, found {}", header.size, header.valid));
    }
    // Drivers that read zeroes behind the initialized size lose what is there.
    if is_initialized(key.0) && header.valid < header.size {
        wrong.push(format!("initialized size: expected {}, found {}", header.size, header.valid));
    }
    if let Some(found) = header.taken
        && found != really
    {
        wrong.push(format!("size of its clusters: expected {really}, found {found}"));
    }
    let severity = if lost { Severity::DataLoss } else { Severity::Inconsistent };
    for message in &wrong {
        let message = format!("{name} of the file record at offset {}: {message}", file.at);
        check.find("size", severity, Some(file.number), message, repairing);
    }
    !wrong.is_empty()
}

/// The name of an attribute in messages.
pub(super) fn told(key: &Key) -> String {
    match key.1.is_empty() {
        true => key.0.to_string(),
        false => format!("{} \"{}\"", key.0, String::from_utf16_lossy(&key.1)),
    }
}
