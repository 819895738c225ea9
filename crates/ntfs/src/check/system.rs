//! The volume's own files: built anew if their records are lost, or if content that is the same on every volume is
//! damaged.

use super::file::{Assembled, key, outside};
use super::names::{File, KnownName, NAMES};
use super::record::RecordState;
use super::{Check, Pending, Severity, security};
use crate::layout::bytes::{u16_at, u32_at};
use crate::layout::index::{IndexRoot, collation};
use crate::layout::{
    Attribute, AttributeContent, Definition, FileName, Kind, NonResident, Record, Reference, Run,
    StandardInformation, VolumeInformation, definitions, file_flags, fixup, namespace, record_flags,
    record_number as known, runs, volume_flags,
};
use platter_vfs::Result;

/// The number of records in `$MFTMirr`, if a cluster has no more.
const MIRRORED: u64 = 4;

/// Bytes of `$MFTMirr` that Windows keeps in step with `$MFT`, where a cluster has more: on a volume that Windows made
/// with clusters of 2 MiB, the first 24 records of 1 KiB are those of `$MFT`, and the others are as they were
/// formatted.
const IN_STEP: u64 = 24 << 10;

/// Bytes of `$UpCase`.
const UPCASE: usize = 2 << 16;

/// Bytes at the beginning of the volume that belong to `$Boot`.
const BOOT: u64 = 8192;

/// Restores the first records from their copies in `$MFTMirr`, where the records are lost.
pub(super) fn restore_records(check: &mut Check<'_>) -> Result<()> {
    for number in 0..MIRRORED.min(check.table.count) {
        let must = number == 0 && check.table.is_from_mirror;
        if !must && is_sound(check, number) {
            continue;
        }
        let size = u64::from(check.geometry.record);
        let mut bytes = vec![0; size as usize];
        let at = check.geometry.mirror * check.geometry.cluster + number * size;
        check.disk.read(at, &mut bytes)?;
        let copy = bytes.clone();
        let is_whole = fixup::remove(&mut bytes, "file record", at).is_ok()
            && Record::from_bytes(&bytes, at)
                .is_ok_and(|record| record.in_use() && u64::from(record.number) == number);
        let message = format!(
            "record {number} ({}): expected a whole file record, found another",
            NAMES[number as usize]
        );
        if !is_whole && check.state(number) == RecordState::Base {
            // The readable parts of the record are examined.
            continue;
        }
        if !is_whole {
            check.find("system-record", Severity::DataLoss, None, message, false);
            continue;
        }
        let message = format!("{message}; its copy in $MFTMirr is used");
        check.find("system-record", Severity::Inconsistent, None, message, check.is_repairing);
        if check.is_repairing {
            let runs = check.table.runs.clone();
            check.disk.write_runs(&check.geometry, &runs, number * size, &copy)?;
            check.states[number as usize] = RecordState::Base;
            check.sequences[number as usize] = u16_at(&bytes, 0x10);
        }
    }
    Ok(())
}

/// Whether one of the first records is whole and has the attributes that it must have.
fn is_sound(check: &Check<'_>, number: u64) -> bool {
    let mut faults = Vec::new();
    let file =
        (check.state(number) == RecordState::Base).then(|| Assembled::read(check, number, &mut faults));
    let Some(Ok(file)) = file else { return false };
    let needs = if number == known::VOLUME { Kind::VOLUME_INFORMATION } else { Kind::DATA };
    faults.is_empty()
        && u64::from(file.base().number) == number
        && !file.find(&key(needs, "")).is_empty()
        && !file.find(&key(Kind::STANDARD_INFORMATION, "")).is_empty()
}

/// Checks the system files, now that all claims are known.
pub(super) fn examine(check: &mut Check<'_>) -> Result<()> {
    for number in MIRRORED..known::FIRST_FREE.min(check.table.count) {
        let is_needed = number <= known::EXTEND || check.state(number) == RecordState::Bad;
        if is_needed && check.state(number) != RecordState::Base {
            remake(check, number)?;
        }
    }
    boot(check)?;
    let definitions: Vec<u8> = definitions().iter().flat_map(Definition::to_bytes).collect();
    content(check, known::ATTRIBUTE_DEFINITIONS, &definitions, is_definitions)?;
    let upper: Vec<u8> =
        (0..=u16::MAX).flat_map(|unit| platter_vfs::windows_upper(unit).to_le_bytes()).collect();
    if let Some(table) = content(check, known::UPCASE, &upper, is_upcase)? {
        check.upper = table.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
    }
    volume(check)
}

/// Checks the content of a system file, and returns it if it is right. A repair replaces other content by `usual`.
fn content(
    check: &mut Check<'_>,
    number: u64,
    usual: &[u8],
    is_right: impl Fn(&[u8]) -> bool,
) -> Result<Option<Vec<u8>>> {
    if check.state(number) != RecordState::Base {
        return Ok(None);
    }
    let mut file = Assembled::read(check, number, &mut Vec::new())?;
    let data = key(Kind::DATA, "");
    if check.is_cut_off(&file, &data) {
        return Ok(None);
    }
    let found = file.bytes(check, &data, 1 << 20)?.unwrap_or_default();
    if is_right(&found) {
        return Ok(Some(found));
    }
    let message =
        format!("{}: expected a table as every volume has it, found another", NAMES[number as usize]);
    check.find("system-content", Severity::Inconsistent, Some(number), message, check.is_repairing);
    if check.is_repairing {
        put_content(check, &mut file, usual)?;
        file.store(check)?;
    }
    Ok(None)
}

/// Gives a file this content, in its own clusters if they are enough, else in others.
fn put_content(check: &mut Check<'_>, file: &mut Assembled, bytes: &[u8]) -> Result<()> {
    let data = key(Kind::DATA, "");
    let clusters = (bytes.len() as u64).div_ceil(check.geometry.cluster);
    let old = file.runs(check.geometry.clusters, &data).map(|(runs, _)| runs);
    let runs = match old {
        Some(runs) if check.is_own(&runs) && runs.last().map_or(0, Run::end) >= clusters => runs,
        _ => match check.allocate(clusters) {
            Some(runs) => runs,
            None => return Ok(()),
        },
    };
    check.disk.write_runs(&check.geometry, &runs, 0, bytes)?;
    let attribute = outside(check, data, &runs, bytes.len() as u64);
    file.put(attribute);
    Ok(())
}

fn is_definitions(bytes: &[u8]) -> bool {
    let usual = definitions();
    let rows = bytes.chunks_exact(Definition::LENGTH).take_while(|row| u32_at(row, 0x80) != 0);
    let mut found = 0;
    for row in rows {
        // Versions of NTFS differ in the rows of types that nobody uses, and in some largest sizes.
        let same = usual
            .iter()
            .any(|usual| usual.kind.0 == u32_at(row, 0x80) && row[..0x80] == usual.to_bytes()[..0x80]);
        found += usize::from(same);
    }
    found >= usual.len() - 1
}

fn is_upcase(bytes: &[u8]) -> bool {
    if bytes.len() != UPCASE {
        return false;
    }
    let upper = |unit: u16| u16_at(bytes, usize::from(unit) * 2);
    let ascii = |unit: u16| if (0x61..=0x7A).contains(&unit) { unit - 0x20 } else { unit };
    (0..128).all(|unit| upper(unit) == ascii(unit))
        && (0..=u16::MAX).all(|unit| upper(upper(unit)) == upper(unit))
}

/// Checks that `$MFTMirr` is where the boot sector says, that `$Boot` has the beginning of the volume, and that
/// `$BadClus` has a place for every cluster.
fn boot(check: &mut Check<'_>) -> Result<()> {
    let data = key(Kind::DATA, "");
    if check.state(known::MFT_MIRROR) == RecordState::Base {
        let file = Assembled::read(check, known::MFT_MIRROR, &mut Vec::new())?;
        let runs = file.runs(check.geometry.clusters, &data).map(|(runs, _)| runs);
        if runs.is_none_or(|runs| runs.first().is_none_or(|run| run.lcn != Some(check.geometry.mirror))) {
            let message = format!(
                "$MFTMirr: expected clusters from {} on, as the boot sector says, found others",
                check.geometry.mirror
            );
            check.find(
                "mirror-file",
                Severity::Inconsistent,
                Some(known::MFT_MIRROR),
                message,
                check.is_repairing,
            );
            let bytes = MIRRORED * u64::from(check.geometry.record);
            let length = bytes.div_ceil(check.geometry.cluster);
            let run = Run { vcn: 0, lcn: Some(check.geometry.mirror), length };
            check.used.add(check.geometry.mirror, length);
            let attribute = outside(check, key(Kind::DATA, ""), &[run], length * check.geometry.cluster);
            check.edit(known::MFT_MIRROR, |file| file.put(attribute))?;
        }
    }
    if check.state(known::BOOT) == RecordState::Base {
        let file = Assembled::read(check, known::BOOT, &mut Vec::new())?;
        let runs = file.runs(check.geometry.clusters, &data).map(|(runs, _)| runs);
        if runs.is_none_or(|runs| runs.first().is_none_or(|run| run.vcn != 0 || run.lcn != Some(0))) {
            let message = "$Boot: expected clusters from 0 on, found others".to_owned();
            check.find("boot-file", Severity::Inconsistent, Some(known::BOOT), message, check.is_repairing);
            let count = BOOT.div_ceil(check.geometry.cluster);
            let run = Run { vcn: 0, lcn: Some(0), length: count };
            let attribute = outside(check, data, &[run], BOOT);
            check.edit(known::BOOT, |file| file.put(attribute))?;
        }
    }
    if check.state(known::BAD_CLUSTERS) == RecordState::Base {
        let bad = key(Kind::DATA, "$Bad");
        let file = Assembled::read(check, known::BAD_CLUSTERS, &mut Vec::new())?;
        let end =
            file.runs(check.geometry.clusters, &bad).map_or(0, |(runs, _)| runs.last().map_or(0, Run::end));
        if end != check.geometry.clusters {
            let message =
                format!("$BadClus: $Bad: expected {} clusters, found {end}", check.geometry.clusters);
            check.find(
                "bad-clusters",
                Severity::Inconsistent,
                Some(known::BAD_CLUSTERS),
                message,
                check.is_repairing,
            );
            let attribute = bad_clusters(check);
            check.edit(known::BAD_CLUSTERS, |file| file.put(attribute))?;
        }
    }
    Ok(())
}

/// The stream `$Bad` of `$BadClus` without any bad cluster.
fn bad_clusters(check: &Check<'_>) -> Attribute {
    let clusters = check.geometry.clusters;
    let size = clusters * check.geometry.cluster;
    let run = Run { vcn: 0, lcn: None, length: clusters };
    let content = AttributeContent::NonResident(NonResident {
        first: 0,
        end: clusters,
        unit: 0,
        allocated: size,
        size,
        valid: 0,
        taken: None,
        pairs: runs::pack(&[run], 64).0,
    });
    let name = "$Bad".encode_utf16().collect();
    Attribute { kind: Kind::DATA, name, flags: 0, id: 0, content }
}

/// Checks the version in `$Volume`.
fn volume(check: &mut Check<'_>) -> Result<()> {
    if check.state(known::VOLUME) != RecordState::Base {
        return Ok(());
    }
    let file = Assembled::read(check, known::VOLUME, &mut Vec::new())?;
    let found =
        file.value(Kind::VOLUME_INFORMATION).map(|value| VolumeInformation::from_bytes(value, file.at));
    if let Some(Ok(VolumeInformation { version: (3, 0 | 1) | (1, 2), .. })) = found {
        return Ok(());
    }
    let found = match found {
        Some(Ok(information)) => format!("{}.{}", information.version.0, information.version.1),
        Some(Err(error)) => error.to_string(),
        None => "none".into(),
    };
    let message = format!("$Volume: expected version 3.1, found {found}");
    check.find(
        "volume-information",
        Severity::Inconsistent,
        Some(known::VOLUME),
        message,
        check.is_repairing,
    );
    let value = VolumeInformation { version: (3, 1), flags: 0 }.to_bytes();
    check.edit(known::VOLUME, |file| file.put(Attribute::resident(Kind::VOLUME_INFORMATION, value)))
}

/// Builds the record of a system file anew.
fn remake(check: &mut Check<'_>, number: u64) -> Result<()> {
    let name = NAMES.get(number as usize).copied();
    let told = name.map_or("reserved".to_owned(), str::to_owned);
    let message = format!("record {number} ({told}): expected a file record, found none");
    check.find("system-record", Severity::Inconsistent, None, message, check.is_repairing);
    if !check.is_repairing {
        return Ok(());
    }
    let mut record = Record::new(number);
    record.sequence = (number as u16).max(1);
    let is_directory = matches!(number, known::ROOT | known::EXTEND);
    let hidden = file_flags::HIDDEN | file_flags::SYSTEM;
    let standard = StandardInformation { flags: hidden, ..StandardInformation::default() };
    if number < 16 {
        record.flags = record_flags::IN_USE | if is_directory { record_flags::DIRECTORY } else { 0 };
        record.add(Attribute::resident(Kind::STANDARD_INFORMATION, standard.to_bytes()));
    }
    let mut names = Vec::new();
    if let Some(name) = name {
        let parent = Reference::new(known::ROOT, known::ROOT as u16);
        let units = name.encode_utf16().collect();
        names.push(KnownName { parent, units, space: namespace::WIN32_AND_DOS, is_entered: false });
        record.links = 1;
        let name = FileName {
            parent: Reference::new(known::ROOT, known::ROOT as u16),
            flags: hidden | if is_directory { file_flags::DIRECTORY } else { 0 },
            namespace: namespace::WIN32_AND_DOS,
            name: name.encode_utf16().collect(),
            ..FileName::default()
        };
        record.add(Attribute::resident(Kind::FILE_NAME, name.to_bytes()));
    }
    let (block, cluster) = (check.geometry.index, check.geometry.cluster);
    let empty = |name: &str, kind, rule| {
        Attribute::resident(Kind::INDEX_ROOT, IndexRoot::new(kind, rule, block, cluster).to_bytes())
            .named(name)
    };
    match number {
        known::ROOT | known::EXTEND => {
            record.add(empty("$I30", Kind::FILE_NAME, collation::FILE_NAME));
        }
        known::BITMAP => {
            let bytes = check.geometry.clusters.div_ceil(64) * 8;
            if let Some(runs) = check.allocate(bytes.div_ceil(cluster)) {
                record.add(outside(check, key(Kind::DATA, ""), &runs, bytes));
            }
        }
        known::BOOT => {
            let run = Run { vcn: 0, lcn: Some(0), length: BOOT.div_ceil(cluster) };
            record.add(outside(check, key(Kind::DATA, ""), &[run], BOOT));
        }
        known::BAD_CLUSTERS => {
            record.add(Attribute::resident(Kind::DATA, Vec::new()));
            record.add(bad_clusters(check));
        }
        known::SECURE => security::fill(check, &mut record)?,
        _ => {
            record.add(Attribute::resident(Kind::DATA, Vec::new()));
        }
    }
    if let Some(state) = check.states.get_mut(number as usize) {
        *state = if number < 16 { RecordState::Base } else { RecordState::Free };
    }
    if let Some(sequence) = check.sequences.get_mut(number as usize) {
        *sequence = record.sequence;
    }
    if name.is_some() {
        let known = File { sequence: record.sequence, is_directory, names, links: 1, ..File::default() };
        check.files.insert(number, known);
    }
    // The next round examines the record, and restores the content that it should have.
    check.put_record(number, &record)
}

/// The end of a round: checks the copy of the first records and the mark that the volume is to be checked, and prepares
/// the log.
pub(super) fn finish(check: &mut Check<'_>) -> Result<()> {
    mirror(check, true)?;
    if dirty(check)? {
        // The copy has the record of `$Volume` too. It was right before.
        mirror(check, false)?;
    }
    if check.is_repairing && check.disk.is_edited() {
        super::journal::stamp(check)?;
        super::journal::mark_quota(check)?;
    }
    super::log::finish(check)
}

/// Compares the copy of the first records with the records. A repair renews the copy, and tells so if `is_told`.
fn mirror(check: &mut Check<'_>, is_told: bool) -> Result<()> {
    let size = u64::from(check.geometry.record);
    let count = (check.geometry.cluster / size).max(MIRRORED).min(check.table.count);
    let count = if check.geometry.cluster > size * MIRRORED { mirrored(check)?.min(count) } else { count };
    let count = count.min((IN_STEP / size).max(MIRRORED));
    let mut own = vec![0; (count * size) as usize];
    check.table.read(&check.disk, &check.geometry, 0, &mut own)?;
    let mut copy = own.clone();
    let at = check.geometry.mirror * check.geometry.cluster;
    if check.disk.is_behind_end(at, copy.len() as u64) {
        return Ok(());
    }
    check.disk.read(at, &mut copy)?;
    let unlike =
        own.chunks(size as usize).zip(copy.chunks(size as usize)).position(|(own, copy)| own != copy);
    if let Some(number) = unlike {
        let message =
            format!("$MFTMirr at offset {at}: expected record {number} as it is in $MFT, found another");
        // The log has no changes of the copy: whoever replays it renews the copy.
        if is_told && !check.log.is_replayed {
            check.find("mirror", Severity::Inconsistent, None, message, check.is_repairing);
        }
        if check.is_repairing {
            check.disk.write(at, &own)?;
        }
    }
    Ok(())
}

/// The number of records in `$MFTMirr` according to its size.
fn mirrored(check: &Check<'_>) -> Result<u64> {
    if check.state(known::MFT_MIRROR) != RecordState::Base {
        return Ok(MIRRORED);
    }
    let file = Assembled::read(check, known::MFT_MIRROR, &mut Vec::new())?;
    let size = file.runs(check.geometry.clusters, &key(Kind::DATA, "")).map_or(0, |(_, header)| header.size);
    Ok((size / u64::from(check.geometry.record)).max(MIRRORED))
}

/// Reports the mark that the volume is to be checked, with which nobody writes to it. A repair removes the mark once
/// nothing else is left to repair. Returns whether it did.
fn dirty(check: &mut Check<'_>) -> Result<bool> {
    if check.state(known::VOLUME) != RecordState::Base {
        return Ok(false);
    }
    let file = Assembled::read(check, known::VOLUME, &mut Vec::new())?;
    let Some(Ok(information)) =
        file.value(Kind::VOLUME_INFORMATION).map(|value| VolumeInformation::from_bytes(value, file.at))
    else {
        return Ok(false);
    };
    if information.flags & volume_flags::DIRTY == 0 {
        return Ok(false);
    }
    let is_right = |found: &Pending| found.repaired || found.severity == Severity::Notice;
    let is_last = check.is_repairing && !check.disk.is_edited() && check.pending.iter().all(is_right);
    let message = "$Volume: is marked as to be checked before it is written to".to_owned();
    check.find("dirty", Severity::Inconsistent, None, message, is_last);
    if is_last {
        let value =
            VolumeInformation { flags: information.flags & !volume_flags::DIRTY, ..information }.to_bytes();
        check.edit(known::VOLUME, |file| file.put(Attribute::resident(Kind::VOLUME_INFORMATION, value)))?;
    }
    Ok(is_last)
}
