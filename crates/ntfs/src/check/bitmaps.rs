//! Compares `$Bitmap` and the bitmap of `$MFT` with the clusters and records in use, and finds free clusters for
//! repairs.

use super::clusters::{Clusters, PIECE};
use super::file::{Assembled, key, outside};
use super::record::{self, RecordState};
use super::{Check, Severity};
use crate::layout::{AttributeContent, Kind, Record, Run, fixup, record_number as known};
use platter_vfs::Result;

/// Bytes at the beginning of the device whose clusters are never handed out: they belong to `$Boot`.
const BOOT_BYTES: u64 = 8192;

/// Reads `$Bitmap` for a repair, which hands out clusters that are free there too, as long as there are any.
pub(super) fn read_taken(check: &mut Check<'_>) -> Result<()> {
    let Some((runs, size)) = place(check, known::BITMAP, Kind::DATA)?.filter(|_| check.is_repairing) else {
        return Ok(());
    };
    let bytes = check.geometry.clusters.div_ceil(8).min(size);
    let mut at = 0;
    while at < bytes {
        let mut piece = vec![0; (bytes - at).min(PIECE / 8) as usize];
        check.disk.read_runs(&check.geometry, &runs, at, &mut piece)?;
        let mut run = 0;
        for bit in 0..=piece.len() as u64 * 8 {
            let is_set = piece.get((bit / 8) as usize).is_some_and(|byte| byte >> (bit % 8) & 1 == 1);
            if is_set {
                run += 1;
            } else if run > 0 {
                check.taken.add(at * 8 + bit - run, run);
                run = 0;
            }
        }
        at += piece.len() as u64;
    }
    Ok(())
}

/// The runs and the size of the bitmap of a system file.
fn place(check: &Check<'_>, number: u64, kind: Kind) -> Result<Option<(Vec<Run>, u64)>> {
    if check.state(number) != RecordState::Base {
        return Ok(None);
    }
    let file = Assembled::read(check, number, &mut Vec::new())?;
    Ok(file.runs(check.geometry.clusters, &key(kind, "")).map(|(runs, header)| (runs, header.size)))
}

/// Whether a part of a system file's bitmap lies behind the end of the device.
fn is_cut_off(check: &Check<'_>, number: u64, kind: Kind) -> bool {
    check.disk.end().is_some()
        && check.state(number) == RecordState::Base
        && Assembled::read(check, number, &mut Vec::new())
            .is_ok_and(|file| check.is_cut_off(&file, &key(kind, "")))
}

/// Compares `$Bitmap` with the clusters that were found to be in use.
pub(super) fn compare(check: &mut Check<'_>) -> Result<()> {
    let clusters = check.geometry.clusters;
    if is_cut_off(check, known::BITMAP, Kind::DATA) {
        return Ok(());
    }
    let (runs, size) = place(check, known::BITMAP, Kind::DATA)?.unwrap_or_default();
    let whole = runs.last().map_or(0, Run::end) * check.geometry.cluster;
    if size.min(whole) < clusters.div_ceil(8) {
        let message = format!(
            "$Bitmap: expected {} bytes in clusters, found {}",
            clusters.div_ceil(8),
            size.min(whole)
        );
        check.find("bitmap", Severity::Inconsistent, Some(known::BITMAP), message, check.is_repairing);
        return renew(check);
    }
    let (mut free, mut taken) = (Tally::default(), Tally::default());
    for piece in 0..clusters.div_ceil(PIECE) {
        let first = piece * PIECE;
        let bits = (clusters - first).min(PIECE);
        let bytes = bits.div_ceil(8) as usize;
        let mut expected = check.used.bytes(piece);
        expected.truncate(bytes);
        // Bits behind the last cluster of the volume are set.
        (bits..bytes as u64 * 8).for_each(|bit| expected[(bit / 8) as usize] |= 1 << (bit % 8));
        let mut found = vec![0; bytes];
        check.disk.read_runs(&check.geometry, &runs, first / 8, &mut found)?;
        if found == expected {
            continue;
        }
        for (index, (wanted, found)) in
            expected.iter().zip(&found).enumerate().filter(|(_, pair)| pair.0 != pair.1)
        {
            for bit in (0..8).filter(|bit| (wanted ^ found) >> bit & 1 == 1) {
                let tally = if wanted >> bit & 1 == 1 { &mut free } else { &mut taken };
                tally.add(first + index as u64 * 8 + bit);
            }
        }
        if check.is_repairing {
            check.disk.write_runs(&check.geometry, &runs, first / 8, &expected)?;
        }
    }
    let repairing = check.is_repairing;
    if let Some(first) = free.first {
        let message = format!("$Bitmap: {} clusters in use are free, the first {first}", free.count);
        check.find("bitmap-free", Severity::Inconsistent, None, message, repairing);
    }
    if let Some(first) = taken.first {
        let message = format!("$Bitmap: {} clusters are taken by nothing, the first {first}", taken.count);
        check.find("bitmap-taken", Severity::Inconsistent, None, message, repairing);
    }
    Ok(())
}

/// Gives `$Bitmap` other clusters. The next round of the repair fills it.
fn renew(check: &mut Check<'_>) -> Result<()> {
    if !check.is_repairing || check.state(known::BITMAP) != RecordState::Base {
        return Ok(());
    }
    let bytes = check.geometry.clusters.div_ceil(64) * 8;
    let Some(runs) = allocate(check, bytes.div_ceil(check.geometry.cluster)) else { return Ok(()) };
    let attribute = outside(check, key(Kind::DATA, ""), &runs, bytes);
    check.edit(known::BITMAP, |file| file.put(attribute))
}

#[derive(Default)]
struct Tally {
    first: Option<u64>,
    count: u64,
}

impl Tally {
    fn add(&mut self, number: u64) {
        self.first = self.first.or(Some(number));
        self.count += 1;
    }
}

/// Reports records that cannot be read. A repair frees them.
pub(super) fn bad_records(check: &mut Check<'_>) -> Result<()> {
    let bits = record_bits(check)?;
    let repairing = check.is_repairing;
    for number in 0..check.table.count {
        if check.states[number as usize] != RecordState::Bad {
            continue;
        }
        let is_set = bits.get((number / 8) as usize).is_some_and(|byte| byte >> (number % 8) & 1 == 1);
        let place = check.table.place(&check.geometry, number);
        // Windows writes this mark over a record that it could not read whole. If the record is unused, nothing is
        // lost.
        let mut signature = [0; 4];
        check.disk.read(place, &mut signature)?;
        if !is_set && signature == *b"BAAD" {
            continue;
        }
        if is_set && believe(check, number, place)? {
            continue;
        }
        let (code, severity, expected) = match is_set {
            true => ("record-lost", Severity::DataLoss, "a file record that was written whole"),
            false => ("record-blank", Severity::Inconsistent, "an unused file record"),
        };
        let message = format!("record {number} at offset {place}: expected {expected}, found something else");
        check.find(code, severity, None, message, repairing);
        if repairing && number >= known::FIRST_FREE {
            check.free_record(number)?;
        }
    }
    Ok(())
}

/// Takes a record that is in use for whole, although its signature or its update sequence says otherwise, if all the
/// rest of it makes sense: otherwise its file would be lost. Returns whether it does. The first records have copies,
/// which are better.
fn believe(check: &mut Check<'_>, number: u64, place: u64) -> Result<bool> {
    let mut bytes = vec![0; check.geometry.record as usize];
    check.table.read(&check.disk, &check.geometry, number, &mut bytes)?;
    let record = (number > known::VOLUME).then(|| record::believed(&bytes, number, place)).flatten();
    let Some(record) = record else { return Ok(false) };
    let fault = match bytes.starts_with(Record::SIGNATURE) {
        true => fixup::remove(&mut bytes, "file record", place).err(),
        false => Record::from_bytes(&bytes, place).err(),
    };
    let fault = fault.map_or_else(String::new, |error| error.to_string());
    let message = format!("record {number}: {fault}; all the rest of it makes sense, and it is kept");
    check.find("record-torn", Severity::Inconsistent, None, message, check.is_repairing);
    // A check without repair drops this change at its end; until then everything reads the record as it should be.
    check.put_record(number, &record)?;
    check.states[number as usize] = match record.base.0 {
        0 => RecordState::Base,
        _ => RecordState::Extension,
    };
    if record.base.0 != 0 {
        check.extensions.entry(record.base.number()).or_default().push(number);
    }
    Ok(true)
}

fn record_bits(check: &Check<'_>) -> Result<Vec<u8>> {
    let file = Assembled::read(check, known::MFT, &mut Vec::new());
    let bits = match &file {
        Ok(file) => {
            file.bytes(check, &key(Kind::BITMAP, ""), check.table.count.div_ceil(8).next_multiple_of(8))?
        }
        Err(_) => None,
    };
    Ok(bits.unwrap_or_default())
}

/// Compares the bitmap of `$MFT` with the records.
pub(super) fn compare_records(check: &mut Check<'_>) -> Result<()> {
    if is_cut_off(check, known::MFT, Kind::BITMAP) {
        return Ok(());
    }
    let repairing = check.is_repairing;
    let mut bits = record_bits(check)?;
    let length = bits.len();
    let (mut unset, mut set) = (Tally::default(), Tally::default());
    for number in 0..check.table.count {
        let (byte, bit) = ((number / 8) as usize, number % 8);
        let is_set = bits.get(byte).is_some_and(|byte| byte >> bit & 1 == 1);
        let in_use = matches!(check.states[number as usize], RecordState::Base | RecordState::Extension);
        // The reserved records may be marked as taken whether they are in use or not.
        let is_reserved = (known::UPCASE..known::FIRST_FREE).contains(&number);
        if is_set == in_use || is_set && (is_reserved || check.is_record_cut_off(number)) {
            continue;
        }
        if in_use {
            unset.add(number)
        } else {
            set.add(number)
        }
        if byte < length {
            bits[byte] ^= 1 << bit;
        }
    }
    // Records that `$MFT` will have only when it grows must be free.
    for number in check.table.count..length as u64 * 8 {
        if bits[(number / 8) as usize] >> (number % 8) & 1 == 1 {
            set.add(number);
            bits[(number / 8) as usize] &= !(1 << (number % 8));
        }
    }
    if let Some(first) = unset.first {
        let message = format!("$MFT: $BITMAP: {} records in use are free, the first {first}", unset.count);
        check.find("records-free", Severity::Inconsistent, None, message, repairing);
    }
    if let Some(first) = set.first {
        let message = format!("$MFT: $BITMAP: {} records are taken by nothing, the first {first}", set.count);
        check.find("records-taken", Severity::Inconsistent, None, message, repairing);
    }
    if repairing && unset.count + set.count > 0 {
        let mut file = Assembled::read(check, known::MFT, &mut Vec::new())?;
        if length < check.table.count.div_ceil(8) as usize {
            return renew_record_bits(check, &mut file);
        }
        write_record_bits(check, &mut file, bits)?;
    }
    Ok(())
}

/// Gives the bitmap of `$MFT` other clusters. The next round of the repair fills it.
fn renew_record_bits(check: &mut Check<'_>, file: &mut Assembled) -> Result<()> {
    let bytes = check.table.count.div_ceil(64) * 8;
    let Some(runs) = allocate(check, bytes.div_ceil(check.geometry.cluster)) else { return Ok(()) };
    check.disk.write_runs(&check.geometry, &runs, 0, &vec![0; bytes as usize])?;
    let attribute = outside(check, key(Kind::BITMAP, ""), &runs, bytes);
    file.put(attribute);
    if !file.store(check)? {
        check.cannot("record-full", Some(known::MFT), "$MFT: no room for its bitmap".into());
    }
    Ok(())
}

fn write_record_bits(check: &mut Check<'_>, file: &mut Assembled, bits: Vec<u8>) -> Result<()> {
    let key = key(Kind::BITMAP, "");
    if let Some((runs, _)) = file.runs(check.geometry.clusters, &key) {
        return check.disk.write_runs(&check.geometry, &runs, 0, &bits);
    }
    if let Some(&place) = file.find(&key).first()
        && let AttributeContent::Resident { value, .. } = &mut file.attribute_mut(place).content
    {
        let length = value.len().min(bits.len());
        value[..length].copy_from_slice(&bits[..length]);
        file.store(check)?;
    }
    Ok(())
}

/// Finds free clusters, in one run if there is one: first those that are free in `$Bitmap` too, then any that nothing
/// uses.
pub(super) fn allocate(check: &mut Check<'_>, count: u64) -> Option<Vec<Run>> {
    let nothing = Clusters::default();
    let first = BOOT_BYTES.div_ceil(check.geometry.cluster);
    if count == 0 {
        return Some(Vec::new());
    }
    for is_careful in [true, false] {
        let taken = if is_careful { &check.taken } else { &nothing };
        let is_free = |cluster: u64| !check.used.has(cluster) && !taken.has(cluster);
        let start = if is_careful { check.search.max(first) } else { first };
        let (mut length, mut at) = (0, start);
        let mut runs: Vec<Run> = Vec::new();
        let mut pieces = 0;
        while at < check.geometry.clusters && length < count {
            length = if is_free(at) { length + 1 } else { 0 };
            at += 1;
        }
        if length == count {
            runs.push(Run { vcn: 0, lcn: Some(at - count), length: count });
        } else {
            // No run is long enough: free clusters are taken one by one, from the first on.
            for cluster in (first..check.geometry.clusters).filter(|&cluster| is_free(cluster)) {
                if pieces == count {
                    break;
                }
                crate::layout::runs::push(&mut runs, Run { vcn: pieces, lcn: Some(cluster), length: 1 });
                pieces += 1;
            }
            if pieces < count {
                continue;
            }
        }
        for run in &runs {
            if let Some(lcn) = run.lcn {
                check.used.add(lcn, run.length);
                check.search = lcn + run.length;
                if is_careful {
                    let cluster = check.geometry.cluster;
                    check.disk.give(lcn * cluster, run.length * cluster);
                }
            }
        }
        return Some(runs);
    }
    None
}
