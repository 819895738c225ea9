//! The bytes of allocators, as other programs read them: parsed here from the device alone, without the code that writes
//! them. Source: forefst `docs/structures/allocators.md` and `integrity_state.md` (August 2026), which recomputed them
//! on volumes of Windows.

use crate::common::{VOLUMES, Volume, check_clean, content, open};
use crate::damaged::{Did, Of, Surgeon};
use platter_device::Device;
use platter_refs::layout::Root;
use platter_testing::model::{Counted, Random, counts};
use platter_vfs::{CheckOptions, FileSystem, Format, Kind, Name, Names, Node, Silent, SyncScope};

pub(crate) fn word(bytes: &[u8], at: usize, length: usize) -> u64 {
    bytes[at..at + length].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// A volume, as the bytes on its device.
pub(crate) struct Raw<'d> {
    device: &'d dyn Device,
    cluster: u64,
    /// The first real cluster of each container.
    pub starts: Vec<u64>,
    roots: Vec<u64>,
    pub is_old: bool,
}

/// A row's key and value.
type RawRow = (Vec<u8>, Vec<u8>);

impl<'d> Raw<'d> {
    pub(crate) fn new(device: &'d dyn Device) -> Raw<'d> {
        let mut boot = vec![0; device.sectors().logical as usize];
        device.read_at(0, &mut boot).unwrap();
        let cluster = word(&boot, 0x20, 4) * word(&boot, 0x24, 4);
        let is_old = boot[0x29] == 4;
        let mut raw = Raw { device, cluster, starts: Vec::new(), roots: Vec::new(), is_old };
        let superblock = raw.read(0x1E);
        let checkpoints = [0xC0, 0xC8].map(|at| raw.read(word(&superblock, at, 8)));
        let newest = checkpoints.iter().max_by_key(|page| word(page, 0x60, 8)).unwrap();
        let list = if is_old { 0x94 } else { word(newest, 0x94, 4) as usize };
        let places = (0..13).map(|index| word(newest, list + 4 * index, 4) as usize);
        raw.roots = places.map(|place| word(newest, place, 8)).collect();
        let rows = raw.rows(7).1;
        raw.starts = rows.iter().map(|(_, value)| word(value, value.len() - 16, 8)).collect();
        raw
    }

    /// The bytes of a page's length from this real cluster on.
    pub(crate) fn read(&self, cluster: u64) -> Vec<u8> {
        let mut bytes = vec![0; if self.cluster == 4096 { 16384 } else { 65536 }];
        self.device.read_at(cluster * self.cluster, &mut bytes).unwrap();
        bytes
    }

    fn per_container(&self) -> u64 {
        (64 << 20) / self.cluster
    }

    /// The root page of a root table, and its rows.
    pub(crate) fn rows(&self, root: usize) -> (Vec<u8>, Vec<RawRow>) {
        let mut rows = Vec::new();
        let mut pages = vec![self.roots[root]];
        let mut first = None;
        while let Some(number) = pages.pop() {
            let real = match root {
                7 | 8 | 12 => number,
                _ => {
                    let each = 2 * self.per_container();
                    self.starts[(number / each - 2) as usize] + number % each
                }
            };
            let page = self.read(real);
            crate::forms::page(&page, self.is_old, pages.is_empty() && first.is_none());
            let node = 0x50 + word(&page, 0x50, 4) as usize;
            let (index, count) = (word(&page, node + 0x10, 4) as usize, word(&page, node + 0x14, 4) as usize);
            let mut below = Vec::new();
            for position in 0..count {
                let at = node + word(&page, node + index + 4 * position, 2) as usize;
                let field = |offset: usize| word(&page, at + offset, 2) as usize;
                let part = |offset: usize, length: usize| page[at + offset..][..length].to_vec();
                let (key, value) = (part(field(4), field(6)), part(field(10), field(12)));
                match page[node + 0xC] {
                    0 => rows.push((key, value)),
                    _ => below.push(word(&value, 0, 8)),
                }
            }
            pages.extend(below.into_iter().rev());
            first.get_or_insert(page);
        }
        (first.unwrap(), rows)
    }

    /// The 48 numbers of a summary.
    fn summary(&self, root: usize) -> Vec<u64> {
        let page = self.rows(root).0;
        let at = 0x50 + word(&page, 0x54, 2) as usize;
        (0..48).map(|index| word(&page, at + 8 * index, 8)).collect()
    }
}

/// Checks every row and the summary of each allocator, and the row of the integrity state.
pub(crate) fn right(device: &dyn Device) -> Result<(), String> {
    let raw = Raw::new(device);
    let all = raw.starts.len() as u64 * raw.per_container();
    for root in [1, 2, 12] {
        let (mut covered, mut free, mut end) = (0, 0, 0);
        for (key, value) in raw.rows(root).1 {
            let (start, count) = (word(&value, 0, 8), word(&value, 8, 8));
            let bits = value[0x12] & 1 == 1;
            let length = 0x18 + if bits { count.div_ceil(8).next_multiple_of(8) } else { 0 };
            let format = if root == 1 && !raw.is_old { 2 } else { 1 };
            let header = [if bits { 0x18 } else { 0 }, format];
            let expected = (&value[..16], length, header);
            if (&key[..], value.len() as u64, [value[0x14], value[0x15]]) != expected || start < end {
                return Err(format!("root {root}: row of {start:#x} and {count} more: {value:02x?}"));
            }
            let bitmap = &value[0x18..];
            let is_used = |at: u64| bitmap[at as usize / 8] >> (at % 8) & 1 == 1;
            let here = match (bits, word(&value, 0x10, 2)) {
                (true, _) => (0..count).filter(|&at| !is_used(at)).count() as u64,
                (false, 0) => 0,
                _ => count,
            };
            if word(&value, 0x10, 2) != here.min(0xFFFF) {
                return Err(format!("root {root}: row of {start:#x} has {here} free clusters: {value:02x?}"));
            }
            (covered, free, end) = (covered + count, free + here, start + count);
        }
        let covered = if root == 1 && raw.is_old { all } else { covered };
        let found = raw.summary(root);
        if found[1..3] != [covered, free] {
            return Err(format!("root {root}: summary {found:?}, expected {covered} and {free}"));
        }
    }
    let state = raw.rows(11).1;
    let [(key, value)] = &state[..] else {
        return Err(format!("{} rows of the integrity state", state.len()));
    };
    let expected = [&[0; 8][..], &all.to_le_bytes(), &[0xFF, 0xFF, 2, 0, 0, 1, 0, 0]].concat();
    match key[..] == expected[..16] && *value == expected {
        true => Ok(()),
        false => Err(format!("integrity state {value:02x?}")),
    }
}

#[test]
fn a_new_volume_has_the_bytes_of_windows() {
    for volume in VOLUMES.into_iter().chain([Volume { checksum: "none", ..VOLUMES[0] }]) {
        let device = volume.make();
        right(&*device).unwrap_or_else(|error| panic!("{volume:?}: {error}"));
        // The first container of a small volume has a row with a bitmap.
        assert!(Raw::new(&*device).rows(1).1.iter().any(|(_, value)| value[0x12] & 1 == 1));
    }
}

/// Writes files until the allocators have changed in many ways, with a commit after each change.
fn used(device: &std::sync::Arc<platter_device::MemoryDevice>, volume: Volume) {
    let system = open(device.clone());
    let mut random = Random::new(8664);
    for round in 0..30 {
        let name = Name::from(&*format!("file {round}"));
        let file = system.create(Node::ROOT, &name, Kind::File).unwrap();
        system.write(file, 0, &content(round, 1 + random.below(40 * volume.cluster) as usize)).unwrap();
        system.forget(file, 1);
        if round % 3 == 2 {
            system.unlink(Node::ROOT, &Name::from(&*format!("file {}", round - 1))).unwrap();
        }
        system.sync(Node::ROOT, SyncScope::All).unwrap();
        right(&**device).unwrap_or_else(|error| panic!("{volume:?}, round {round}: {error}"));
    }
    system.unmount().unwrap();
}

#[test]
fn every_commit_keeps_summaries_and_rows_right() {
    for volume in VOLUMES {
        let device = volume.make();
        used(&device, volume);
        right(&*device).unwrap_or_else(|error| panic!("{volume:?}: {error}"));
    }
}

/// Makes a volume what an earlier version of Platter left: summaries of zeroes, and bitmaps of 2,048 bytes whatever the
/// cluster size.
fn age(device: &dyn Device) {
    let mut surgeon = Surgeon::new(device);
    for root in [Root::MediumAllocator, Root::ContainerAllocator, Root::SmallAllocator] {
        surgeon.edit(Of::Root(root), &mut |page| {
            page[0x78..0x78 + 384].fill(0);
            Did::Sealed
        });
        for (key, mut value) in surgeon.rows(Of::Root(root)) {
            if value.len() > 0x18 {
                value.resize(0x18 + 2048, 0);
                surgeon.replace_value(Of::Root(root), |other| other == key, &value);
            }
        }
    }
}

#[test]
fn volumes_of_earlier_versions_are_found_and_repaired() {
    for volume in VOLUMES {
        let device = volume.make();
        used(&device, volume);
        age(&*device);
        assert!(right(&*device).is_err());
        let check = |repair| Refs::check(&*device, repair);
        let found: Vec<&str> = check(false).findings.iter().map(|finding| finding.code).collect();
        let rows = if volume.cluster == 65536 { 3 } else { 0 };
        assert_eq!(found.iter().filter(|&&code| code == "allocator-summary").count(), 3, "{found:?}");
        assert_eq!(found.iter().filter(|&&code| code == "allocator-row").count(), rows, "{found:?}");
        assert_eq!(found.len(), 3 + rows, "{found:?}");
        assert_eq!(check(true).exit_code(), 1, "{volume:?}");
        right(&*device).unwrap_or_else(|error| panic!("{volume:?}: {error}"));
        check_clean(&*device).unwrap();
    }
}

struct Refs;

impl Refs {
    fn check(device: &dyn Device, repair: bool) -> platter_vfs::CheckReport {
        platter_refs::Refs::ANY.check(device, CheckOptions { repair }, &Silent).unwrap()
    }
}

/// A volume of an earlier version stays writable, and the first commit gives it the form that Windows has.
#[test]
fn the_first_commit_mends_a_volume_of_an_earlier_version() {
    for volume in VOLUMES {
        let device = volume.make();
        used(&device, volume);
        age(&*device);
        let system = open(device.clone());
        let file = system.create(Node::ROOT, &Name::from("one more"), Kind::File).unwrap();
        system.write(file, 0, &content(1, 5000)).unwrap();
        system.unmount().unwrap();
        right(&*device).unwrap_or_else(|error| panic!("{volume:?}: {error}"));
        check_clean(&*device).unwrap();
    }
}

/// Rows that cover a container in parts, as Windows may have them, are read, and written as one row each.
#[test]
fn rows_of_parts_of_a_container_are_read() {
    for volume in VOLUMES {
        let device = volume.make();
        used(&device, volume);
        let mut surgeon = Surgeon::new(&*device);
        let of = Of::Root(Root::MediumAllocator);
        let is_partial = |value: &[u8]| value[0x12] & 1 == 1;
        let (key, value) = surgeon.rows(of).into_iter().find(|(_, value)| is_partial(value)).unwrap();
        let (start, count) = (word(&value, 0, 8), word(&value, 8, 8));
        assert_eq!(count, (64 << 20) / volume.cluster);
        surgeon.remove_row(of, |other| other == key);
        // The hint is not believed, and any flag may stand beside the one of the bitmap.
        let first = 12;
        let bits: Vec<bool> =
            (0..count as usize).map(|at| value[0x18 + at / 8] >> (at % 8) & 1 == 1).collect();
        for (from, to, flags) in [(0, first, 1u8), (first, count, 9)] {
            let mut row = vec![0; 0x18 + (to - from).div_ceil(64) as usize * 8];
            row[..8].copy_from_slice(&(start + from).to_le_bytes());
            row[8..16].copy_from_slice(&(to - from).to_le_bytes());
            (row[0x12], row[0x14], row[0x15], row[0x16]) = (flags, 0x18, value[0x15], 0x77);
            let mut free = 0u16;
            for at in from..to {
                let (inside, is_used) = ((at - from) as usize, bits[at as usize]);
                row[0x18 + inside / 8] |= u8::from(is_used) << (inside % 8);
                free += u16::from(!is_used);
            }
            row[0x10..0x12].copy_from_slice(&free.to_le_bytes());
            let key = row[..16].to_vec();
            let place = |node: &platter_refs::layout::TreeNode<'_>| {
                node.rows().take_while(|row| word(row.key, 0, 8) < start + from).count()
            };
            surgeon.insert_row(of, place, (&key, 0, &row));
        }
        check_clean(&*device).unwrap_or_else(|error| panic!("{volume:?}: {error}"));
        let system = open(device.clone());
        let file = system.create(Node::ROOT, &Name::from("one more"), Kind::File).unwrap();
        system.write(file, 0, &content(1, 5000)).unwrap();
        system.unmount().unwrap();
        right(&*device).unwrap_or_else(|error| panic!("{volume:?}: {error}"));
        check_clean(&*device).unwrap_or_else(|error| panic!("{volume:?}: {error}"));
    }
}

/// The summaries stand in pages that a commit writes anyway: a commit of one change writes as many pages as before there
/// were any.
#[test]
fn summaries_cost_no_write() {
    let counted = Counted::new(&platter_refs::Refs::ANY);
    let node = counted.file(64 << 20);
    for round in 0..16u8 {
        let seen = counted.seen(|| {
            counted.volume.extended_attributes().unwrap().set(node, "user.changed", Some(&[round])).unwrap();
            counted.volume.sync(node, SyncScope::Data).unwrap();
        });
        let (reads, _, writes, bytes, flushes) = counts(&seen);
        assert_eq!((reads, flushes), (0, 2));
        // The directory's page, two object tables, three allocators, two container tables, and the checkpoint.
        assert!(writes <= 5 && bytes <= 9 * 16384, "round {round}: {writes} writes, {bytes} bytes");
    }
}

/// Damages a volume, and returns the codes of what a check finds. A repair must leave nothing.
fn found(volume: Volume, damage: impl FnOnce(&mut Surgeon<'_>)) -> Vec<&'static str> {
    let device = volume.make();
    used(&device, volume);
    damage(&mut Surgeon::new(&*device));
    let codes = Refs::check(&*device, false).findings.iter().map(|finding| finding.code).collect();
    assert_eq!(Refs::check(&*device, true).exit_code(), 1, "{volume:?}: {codes:?}");
    check_clean(&*device).unwrap_or_else(|error| panic!("{volume:?}: {error}"));
    right(&*device).unwrap_or_else(|error| panic!("{volume:?}: {error}"));
    codes
}

/// A page with the number of another table is not believed, whatever root leads to it.
#[test]
fn a_page_of_another_table_is_found() {
    for root in [Root::MediumAllocator, Root::SmallAllocator, Root::IntegrityState] {
        let codes = found(VOLUMES[0], |surgeon| {
            surgeon.edit(Of::Root(root), &mut |page| {
                page[0x48] ^= 0x0B;
                Did::Sealed
            });
        });
        assert!(codes.contains(&"page-header"), "{root:?}: {codes:?}");
    }
}

#[test]
fn rows_of_the_integrity_state_cover_all_clusters() {
    for volume in [VOLUMES[0], VOLUMES[2], VOLUMES[5]] {
        let codes = found(volume, |surgeon| {
            let of = Of::Root(Root::IntegrityState);
            let (_, _, mut value) = surgeon.remove_row(of, |_| true);
            value[8] ^= 1;
            let key = value[..16].to_vec();
            surgeon.insert_row(of, |_| 0, (&key, 0, &value));
        });
        assert_eq!(codes, ["integrity-state"], "{volume:?}");
    }
}

/// The word of a stream that says which checksums its data has follows the volume and the file's attribute.
#[test]
fn the_kind_of_checksums_of_a_stream_is_checked() {
    use crate::damaged::{attribute, is_name, units};
    use platter_refs::layout::attribute::DATA;
    for (volume, kind) in [(VOLUMES[0], 2), (VOLUMES[1], 0x1_0002), (VOLUMES[4], 0x1_0004)] {
        for (name, length, at) in [("small", 100, 0x38), ("large", 40_000, 0x58)] {
            for wrong in [1u8, 6, 0xFF] {
                let device = volume.make();
                let system = open(device.clone());
                let file = system.create(Node::ROOT, &Name::from(name), Kind::File).unwrap();
                system.write(file, 0, &content(1, length)).unwrap();
                system.unmount().unwrap();
                check_clean(&*device).unwrap();
                Surgeon::new(&*device).edit_record(
                    Of::Object(0x600),
                    |key| is_name(&units(name), key),
                    |record| {
                        let value = &mut attribute(record, DATA).value;
                        assert_eq!(word(value, at, 4), kind, "{volume:?}, {name}");
                        match wrong {
                            0xFF => value[at + 2] ^= 1,
                            wrong => value[at] = wrong,
                        }
                    },
                );
                let codes: Vec<&str> =
                    Refs::check(&*device, false).findings.iter().map(|finding| finding.code).collect();
                assert_eq!(codes, ["stream-kind"], "{volume:?}, {name}");
                assert_eq!(Refs::check(&*device, true).exit_code(), 1, "{volume:?}, {name}");
                check_clean(&*device).unwrap();
            }
        }
    }
}

/// The policy of compression begins with a word that the version decides.
#[test]
fn the_mark_of_the_compression_policy_is_that_of_the_version() {
    for volume in VOLUMES {
        let device = volume.make();
        let raw = Raw::new(&*device);
        for root in [7, 8] {
            let (page, mark) = (raw.rows(root).0, if raw.is_old { 7 } else { 15 });
            assert_eq!((word(&page, 0xA0, 4), word(&page, 0xA4, 8)), (mark, 0), "{volume:?}");
        }
    }
}
