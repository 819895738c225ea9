//! `$Secure`: descriptors, their two indexes, and the numbers by which files refer to them.

use super::file::{Assembled, key, outside};
use super::record::RecordState;
use super::{Check, Severity, build, directory, tree};
use crate::layout::index::collation;
use crate::layout::{
    Attribute, DescriptorHeader, Kind, Record, descriptor_hash, record_flags, record_number as known,
};
use platter_vfs::Result;
use std::collections::{BTreeMap, BTreeSet};

/// The indexes of `$Secure`, by number and by hash, with their rules of order.
const INDEXES: [(&str, u32); 2] = [("$SII", collation::NUMBER), ("$SDH", collation::SECURITY_HASH)];

/// The most bytes of `$SDS` that are read.
const MOST: u64 = 256 << 20;

/// A descriptor that gives everything to administrators and to the system: revision 1, self-relative, owner and group
/// S-1-5-32-544, two entries of full access (\[MS-DTYP\] 2.4.6).
#[rustfmt::skip]
const EVERYTHING: [u8; 0x68] = [
    1, 0, 0x04, 0x80, 0x48, 0, 0, 0, 0x58, 0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0,
    2, 0, 0x34, 0, 2, 0, 0, 0,
    0, 3, 0x14, 0, 0xFF, 0x01, 0x1F, 0, 1, 1, 0, 0, 0, 0, 0, 5, 0x12, 0, 0, 0,
    0, 3, 0x18, 0, 0xFF, 0x01, 0x1F, 0, 1, 2, 0, 0, 0, 0, 0, 5, 0x20, 0, 0, 0, 0x20, 2, 0, 0,
    1, 2, 0, 0, 0, 0, 0, 5, 0x20, 0, 0, 0, 0x20, 2, 0, 0,
    1, 2, 0, 0, 0, 0, 0, 5, 0x20, 0, 0, 0, 0x20, 2, 0, 0,
];

/// Compares the descriptors with their indexes and with the numbers in files.
pub(super) fn examine(check: &mut Check<'_>) -> Result<()> {
    if check.state(known::SECURE) != RecordState::Base {
        return Ok(());
    }
    let mut file = Assembled::read(check, known::SECURE, &mut Vec::new())?;
    if check.is_any_cut_off(&file) {
        return Ok(());
    }
    let sds = key(Kind::DATA, "$SDS");
    let Some((runs, header)) = file.runs(check.geometry.clusters, &sds) else {
        // Volumes before 3.0 have no `$SDS`.
        return remake(check, &mut file);
    };
    let mut bytes = vec![0; header.size.min(header.allocated).min(MOST) as usize];
    check.disk.read_runs(&check.geometry, &runs, 0, &mut bytes)?;
    let indexes = INDEXES.map(|(name, rule)| IndexFound::read(check, &mut file, name, rule));
    let used: BTreeSet<u32> = check.files.values().map(|file| file.security).collect();
    // How much speaks for a header, where two copies with right hashes differ in what the hash does not cover.
    let support = |header: &DescriptorHeader| {
        let count = indexes.iter().filter(|index| index.entries.contains(&index.entry(header))).count();
        (count, used.contains(&header.id))
    };
    let (found, mended) = descriptors(&mut bytes, support);
    let repairing = check.is_repairing;
    if found.is_empty() {
        return remake(check, &mut file);
    }
    if let Some((count, first)) = mended {
        let message = format!(
            "$Secure: $SDS: expected each descriptor twice, found {count} that are not, the first at {first}"
        );
        check.find("security-copy", Severity::Inconsistent, Some(known::SECURE), message, repairing);
        if repairing {
            check.disk.write_runs(&check.geometry, &runs, 0, &bytes)?;
        }
    }
    let mut is_changed = false;
    for of_index in indexes {
        is_changed |= index(check, &mut file, of_index, &found)?;
    }
    if is_changed && repairing && !file.store(check)? {
        no_room(check);
    }
    numbers(check, &found)
}

/// What one of the two indexes contains.
struct IndexFound {
    name: &'static str,
    rule: u32,
    /// Keys and data.
    entries: BTreeSet<(Vec<u8>, Vec<u8>)>,
    faults: Vec<String>,
}

impl IndexFound {
    fn read(check: &mut Check<'_>, file: &mut Assembled, name: &'static str, rule: u32) -> IndexFound {
        let mut entries = BTreeSet::new();
        let faults = match directory::open(check, file, name) {
            Ok(tree) if tree.root.collation == rule => tree::walk(check, &tree, 4, &mut |_, entry, _| {
                entries.insert((entry.key().to_vec(), entry.data().to_vec()));
            }),
            Ok(tree) => {
                vec![format!("index: expected collation {rule:#x}, found {:#x}", tree.root.collation)]
            }
            Err(fault) => vec![fault],
        };
        IndexFound { name, rule, entries, faults }
    }

    fn is_by_id(&self) -> bool {
        self.rule == collation::NUMBER
    }

    /// Key and data that this index has for a descriptor.
    fn entry(&self, header: &DescriptorHeader) -> (Vec<u8>, Vec<u8>) {
        let key = match self.is_by_id() {
            true => header.id.to_le_bytes().to_vec(),
            false => DescriptorHeader::hash_key(header.hash, header.id).to_vec(),
        };
        (key, header.to_bytes().to_vec())
    }
}

/// The descriptors by number. A damaged copy is replaced by the other one; also returns how many were, and the offset
/// of the first. The hash covers neither the number nor, if what follows is zero, the length: where both copies have
/// a right hash and differ, the one with more `support` is right.
fn descriptors<S: Ord>(
    bytes: &mut [u8],
    support: impl Fn(&DescriptorHeader) -> S,
) -> (BTreeMap<u32, DescriptorHeader>, Option<(u64, u64)>) {
    let mut found = BTreeMap::new();
    let mut mended: Option<(u64, u64)> = None;
    let block = DescriptorHeader::BLOCK;
    let length = bytes.len() as u64;
    let mut start = 0;
    while start < length {
        let mut at = start;
        let end = (start + block).min(length);
        while at + DescriptorHeader::LENGTH as u64 <= end {
            let one = descriptor(bytes, at, at, end);
            let other = descriptor(bytes, at + block, at, (end + block).min(length));
            let weight = |header: &DescriptorHeader| (support(header), !found.contains_key(&header.id));
            let is_first = match (&one, &other) {
                (Some(one), Some(other)) => weight(one) >= weight(other),
                (one, _) => one.is_some(),
            };
            let Some(header) = (if is_first { one } else { other }) else {
                at += DescriptorHeader::ALIGN;
                continue;
            };
            let (from, size) = (at as usize, header.length as usize);
            let twin = from + block as usize;
            if one != other || bytes.get(from..from + size) != bytes.get(twin..twin + size) {
                // The last block's copy may not be there at all.
                if twin + size <= bytes.len() {
                    let (source, target) = if is_first { (from, twin) } else { (twin, from) };
                    bytes.copy_within(source..source + size, target);
                }
                mended.get_or_insert((0, at)).0 += 1;
            }
            found.insert(header.id, header);
            at = (at + u64::from(header.length)).next_multiple_of(DescriptorHeader::ALIGN);
        }
        start += 2 * block;
    }
    (found, mended)
}

/// The descriptor at `at`, if its header says that it is at `offset`, and its hash is right.
fn descriptor(bytes: &[u8], at: u64, offset: u64, end: u64) -> Option<DescriptorHeader> {
    let rest = bytes.get(usize::try_from(at).ok()?..usize::try_from(end).ok()?)?;
    let header = DescriptorHeader::from_bytes(rest)?;
    let body = rest.get(DescriptorHeader::LENGTH..header.length as usize)?;
    let is_right =
        header.offset == offset && header.id != 0 && !body.is_empty() && descriptor_hash(body) == header.hash;
    is_right.then_some(header)
}

/// Compares one of the two indexes with the descriptors; a repair builds it anew if they differ. Returns whether it
/// did.
fn index(
    check: &mut Check<'_>,
    file: &mut Assembled,
    index: IndexFound,
    descriptors: &BTreeMap<u32, DescriptorHeader>,
) -> Result<bool> {
    let expected: BTreeSet<_> = descriptors.values().map(|header| index.entry(header)).collect();
    let by_id = index.is_by_id();
    let IndexFound { name, rule, entries: found, mut faults } = index;
    if faults.is_empty() && found != expected {
        let missing = expected.difference(&found).count();
        let more = found.difference(&expected).count();
        faults
            .push(format!("expected {} entries, found {missing} missing and {more} others", expected.len()));
    }
    if faults.is_empty() {
        return Ok(false);
    }
    for fault in faults {
        let message = format!("$Secure: {name}: {fault}");
        check.find(
            "security-index",
            Severity::Inconsistent,
            Some(known::SECURE),
            message,
            check.is_repairing,
        );
    }
    if !check.is_repairing {
        return Ok(false);
    }
    let mut headers: Vec<&DescriptorHeader> = descriptors.values().collect();
    headers.sort_by_key(|header| if by_id { (header.id, 0) } else { (header.hash, header.id) });
    let entries: Vec<Vec<u8>> =
        headers.iter().map(|header| if by_id { header.id_entry() } else { header.hash_entry() }).collect();
    let siblings = INDEXES.map(|(name, _)| name);
    let shape = build::Shape { name, siblings: &siblings, kind: Kind(0), collation: rule };
    let is_made = build::index(check, file, &shape, &entries)?;
    if !is_made {
        no_room(check);
        // The attributes that were removed to make room are still on the device: the file is read again.
        *file = Assembled::read(check, known::SECURE, &mut Vec::new())?;
    }
    Ok(is_made)
}

fn no_room(check: &mut Check<'_>) {
    check.cannot("index-full", Some(known::SECURE), "$Secure: no room for its indexes".into());
}

/// Compares the numbers in files with the descriptors. A repair gives the first descriptor to files whose own is
/// missing.
fn numbers(check: &mut Check<'_>, descriptors: &BTreeMap<u32, DescriptorHeader>) -> Result<()> {
    let Some(&first) = descriptors.keys().next() else { return Ok(()) };
    let unknown: Vec<(u64, u32)> = check
        .files
        .iter()
        .filter(|(_, file)| file.security != 0 && !descriptors.contains_key(&file.security))
        .map(|(number, file)| (*number, file.security))
        .collect();
    for (number, security) in unknown {
        let message = format!(
            "security descriptor {security:#x}: expected in $Secure, found none; it becomes {first:#x}"
        );
        check.find("security", Severity::Inconsistent, Some(number), message, check.is_repairing);
        check.edit(number, |file| {
            if let Some(mut standard) = file.standard()
                && let Some(extended) = &mut standard.extended
            {
                extended.security = first;
                file.put(Attribute::resident(Kind::STANDARD_INFORMATION, standard.to_bytes()));
            }
        })?;
    }
    Ok(())
}

/// Gives `$Secure` one descriptor if it has none at all.
fn remake(check: &mut Check<'_>, file: &mut Assembled) -> Result<()> {
    let message = "$Secure: $SDS: expected security descriptors, found none".to_owned();
    check.find("security-lost", Severity::DataLoss, Some(known::SECURE), message, check.is_repairing);
    if !check.is_repairing {
        return Ok(());
    }
    for (kind, name) in [(Kind::DATA, "$SDS"), (Kind::INDEX_ROOT, "$SII"), (Kind::INDEX_ROOT, "$SDH")] {
        file.remove(&key(kind, name));
    }
    for (name, _) in INDEXES {
        file.remove(&key(Kind::INDEX_ALLOCATION, name));
        file.remove(&key(Kind::BITMAP, name));
    }
    fill(check, file.base_mut())?;
    if !file.store(check)? {
        check.cannot("record-full", Some(known::SECURE), "$Secure: its record has too little room".into());
    }
    Ok(())
}

/// Gives a record the attributes of `$Secure`, with one descriptor.
pub(super) fn fill(check: &mut Check<'_>, record: &mut Record) -> Result<()> {
    let header = DescriptorHeader {
        hash: descriptor_hash(&EVERYTHING),
        id: DescriptorHeader::FIRST_ID,
        offset: 0,
        length: (DescriptorHeader::LENGTH + EVERYTHING.len()) as u32,
    };
    let one: Vec<u8> = header.to_bytes().into_iter().chain(EVERYTHING).collect();
    let size = DescriptorHeader::BLOCK + one.len() as u64;
    let Some(runs) = check.allocate(size.div_ceil(check.geometry.cluster)) else { return Ok(()) };
    let mut bytes = vec![0; size as usize];
    bytes[..one.len()].copy_from_slice(&one);
    bytes[DescriptorHeader::BLOCK as usize..].copy_from_slice(&one);
    check.disk.write_runs(&check.geometry, &runs, 0, &bytes)?;
    record.flags |= record_flags::VIEW_INDEX;
    record.add(outside(check, key(Kind::DATA, "$SDS"), &runs, size));
    for (name, rule, entry) in [
        ("$SII", collation::NUMBER, header.id_entry()),
        ("$SDH", collation::SECURITY_HASH, header.hash_entry()),
    ] {
        let (block, cluster) = (check.geometry.index, check.geometry.cluster);
        let mut root = crate::layout::index::IndexRoot::new(Kind(0), rule, block, cluster);
        root.node.insert(0, &entry);
        record.add(Attribute::resident(Kind::INDEX_ROOT, root.to_bytes()).named(name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = DescriptorHeader::BLOCK as usize;

    /// The header of a descriptor with this number, and `$SDS` with both its copies.
    fn both_copies(id: u32) -> (DescriptorHeader, Vec<u8>) {
        let header =
            DescriptorHeader { hash: descriptor_hash(&EVERYTHING), id, offset: 0, length: 20 + 0x68 };
        let one: Vec<u8> = header.to_bytes().into_iter().chain(EVERYTHING).collect();
        let mut bytes = vec![0; BLOCK + one.len()];
        bytes[..one.len()].copy_from_slice(&one);
        bytes[BLOCK..].copy_from_slice(&one);
        (header, bytes)
    }

    #[test]
    fn a_damaged_copy_is_replaced_by_the_other() {
        let (header, mut bytes) = both_copies(0x100);
        let whole = bytes.clone();
        assert_eq!(descriptors(&mut bytes, |_| ()), (BTreeMap::from([(0x100, header)]), None));
        for place in [30, BLOCK + 30] {
            bytes[place] ^= 1;
            let (found, mended) = descriptors(&mut bytes, |_| ());
            assert_eq!((found.len(), mended), (1, Some((1, 0))));
            assert!(bytes == whole);
        }
    }

    /// The hash does not cover a descriptor's number: the indexes say which of two copies has the right one.
    #[test]
    fn of_two_copies_that_differ_in_the_number_the_indexes_choose() {
        let (header, mut bytes) = both_copies(0x103);
        let whole = bytes.clone();
        for place in [4, 7, BLOCK + 4, BLOCK + 7] {
            bytes[place] ^= 2;
            let (found, mended) = descriptors(&mut bytes, |it| *it == header);
            assert_eq!((found, mended), (BTreeMap::from([(0x103, header)]), Some((1, 0))), "{place}");
            assert!(bytes == whole);
        }
    }
}
