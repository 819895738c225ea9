//! Volumes with a tree of files, and ways of damaging them.

use platter_device::{MemoryDevice, Sectors};
use platter_exfat::layout::{
    BitmapEntry, BootRegion, BootSector, EntrySet, FileInfo, Geometry, Link, Primary, SLOT, Upcase, kind,
};
use platter_exfat::{Exfat, ExfatVolume};
use platter_testing::model::Random;
use platter_vfs::{Change, FileSystem, Format, FormatOptions, Kind, Name, Names, Node, OpenOptions, Silent};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Makes a volume with some eighty files and directories; some files are fragmented, and some are not wholly written.
pub(crate) fn populated(cluster: u64) -> Vec<u8> {
    let device = Arc::new(MemoryDevice::new(4 << 20, Sectors::SMALL));
    let options = FormatOptions {
        cluster: Some(cluster),
        label: Some("Damaged".into()),
        serial: Some(8664),
        ..FormatOptions::default()
    };
    Exfat.make(&*device, &options, &Silent).unwrap();
    let volume = ExfatVolume::open(device.clone(), OpenOptions::default()).unwrap();
    let mut random = Random::new(8664);
    let make = |above: Node, name: &str, kind| volume.create(above, &Name::from(name), kind).unwrap();
    let deep = make(Node::ROOT, "deep directory", Kind::Directory);
    let deeper = make(deep, "deeper", Kind::Directory);
    let deepest = make(deeper, "DEEPEST", Kind::Directory);
    let second = make(Node::ROOT, "second", Kind::Directory);
    make(Node::ROOT, "an empty directory", Kind::Directory);
    let mut fill = |node: Node, from: u64, size: u64| {
        let mut bytes = vec![0; size as usize];
        random.fill(&mut bytes);
        volume.write(node, from, &bytes).unwrap();
    };
    for number in 0..24_u64 {
        let size = [0, 1, 512, 513, 5000, 12_000][number as usize % 6];
        let long = make(Node::ROOT, &format!("A long name, number {number}.data"), Kind::File);
        let short = make(second, &format!("short{number}"), Kind::File);
        // Two files that grow alternately are fragmented.
        for turn in 0..2 {
            fill(long, turn * size, size + number % 2);
            fill(short, turn * size * 3 / 2, size * 3 / 2);
            volume.sync_all().unwrap();
        }
        let file = make(deeper, &format!("file {number}.text"), Kind::File);
        fill(file, 0, size);
        if number % 5 == 0 {
            // The file becomes longer than its written data.
            volume.set_attributes(file, &Change { size: Some(size + 3000), ..Change::default() }).unwrap();
        }
    }
    let gap = make(second, "gap", Kind::File);
    fill(gap, 0, 9_000);
    for (above, name) in [(deepest, "bottom"), (deep, "readme.txt")] {
        let file = make(above, name, Kind::File);
        fill(file, 0, 30_000);
    }
    volume.unlink(second, &Name::from("gap")).unwrap();
    volume.forget(gap, 1);
    // A file that takes the last free clusters is fragmented.
    for number in 0..60 {
        let pad = make(second, &format!("pad{number}"), Kind::File);
        fill(pad, 0, cluster);
        volume.forget(pad, 1);
    }
    let big = make(Node::ROOT, "big", Kind::File);
    volume.sync_all().unwrap();
    let free = volume.space().unwrap().free - 4;
    volume.set_attributes(big, &Change { size: Some(free * cluster), ..Change::default() }).unwrap();
    for number in (0..60).step_by(2) {
        volume.unlink(second, &Name::from(format!("pad{number}").as_str())).unwrap();
    }
    volume.sync_all().unwrap();
    for number in 0..6 {
        let file = make(Node::ROOT, &format!("in pieces {number}"), Kind::File);
        fill(file, 0, 5 * cluster - 100);
    }
    volume.unlink(Node::ROOT, &Name::from("big")).unwrap();
    volume.forget(big, 1);
    volume.unmount().unwrap();
    device.to_image()
}

/// A file or directory of the tree.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub path: String,
    pub info: FileInfo,
    /// The positions of its slots in the image.
    pub slots: Vec<usize>,
    pub chain: Vec<u32>,
}

impl Found {
    pub(crate) fn is_directory(&self) -> bool {
        self.info.attributes.directory()
    }
}

/// An image and its tree, read by an implementation as simple as possible.
pub(crate) struct Volume {
    pub image: Vec<u8>,
    pub geometry: Geometry,
    pub found: Vec<Found>,
    upcase: Upcase,
}

impl Volume {
    pub(crate) fn new(image: Vec<u8>) -> Volume {
        let boot = BootSector::from_bytes(image[..512].try_into().unwrap());
        let geometry = boot.geometry(image.len() as u64).unwrap();
        let mut volume = Volume { image, geometry, found: Vec::new(), upcase: Upcase::recommended() };
        volume.found = volume.tree();
        volume
    }

    pub(crate) fn fat(&self, cluster: u32) -> u32 {
        let at = self.geometry.fat_entry_offset(cluster) as usize;
        u32::from_le_bytes(self.image[at..at + 4].try_into().unwrap())
    }

    pub(crate) fn set_fat(&mut self, cluster: u32, value: u32) {
        let at = self.geometry.fat_entry_offset(cluster) as usize;
        self.image[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn slot(&self, offset: usize) -> [u8; SLOT] {
        self.image[offset..offset + SLOT].try_into().unwrap()
    }

    pub(crate) fn set_slot(&mut self, offset: usize, slot: [u8; SLOT]) {
        self.image[offset..offset + SLOT].copy_from_slice(&slot);
    }

    /// Returns the clusters of a chain, or, with `run`, so many consecutive ones.
    pub(crate) fn chain(&self, first: u32, run: Option<u32>) -> Vec<u32> {
        if let Some(count) = run {
            let end = first.saturating_add(count).min(self.geometry.heap.last() + 1);
            return (first..end).filter(|&cluster| self.geometry.heap.has(cluster)).collect();
        }
        let mut chain = Vec::new();
        let mut cluster = first;
        while self.geometry.heap.has(cluster) && chain.len() <= self.geometry.heap.count as usize {
            chain.push(cluster);
            match platter_clusters::Entries::link(&self.geometry, self.fat(cluster)) {
                Link::Next(next) => cluster = next,
                _ => break,
            }
        }
        chain
    }

    fn clusters(&self, info: &FileInfo) -> Vec<u32> {
        let count =
            self.geometry.heap.clusters_for(info.length).min(u64::from(self.geometry.heap.count)) as u32;
        let mut clusters = self.chain(info.cluster, info.contiguous.then_some(count));
        clusters.truncate(count as usize);
        clusters
    }

    /// Returns the positions in the image of all slots in these clusters.
    pub(crate) fn slots(&self, clusters: &[u32]) -> Vec<usize> {
        let size = self.geometry.heap.cluster_size() as usize;
        let starts = clusters.iter().map(|&cluster| self.geometry.heap.offset(cluster) as usize);
        starts.flat_map(|start| (0..size / SLOT).map(move |at| start + at * SLOT)).collect()
    }

    pub(crate) fn root_slots(&self) -> Vec<usize> {
        self.slots(&self.chain(self.geometry.root_cluster, None))
    }

    fn tree(&self) -> Vec<Found> {
        let mut found = Vec::new();
        let mut todo = vec![(String::new(), self.root_slots())];
        let mut seen = BTreeSet::new();
        while let Some((path, offsets)) = todo.pop() {
            let slots: Vec<[u8; SLOT]> = offsets.iter().map(|&at| self.slot(at)).collect();
            let mut at = 0;
            while at < slots.len() && Primary::of(&slots[at]) != Primary::End {
                let Ok(set) = EntrySet::read(&slots[at..], &self.upcase) else {
                    at += 1;
                    continue;
                };
                let places = offsets[at..at + set.slots().len()].to_vec();
                at += set.slots().len();
                let (info, path) = (set.info(), format!("{path}/{}", set.name()));
                let chain = self.clusters(&info);
                if info.attributes.directory() && seen.insert(info.cluster) {
                    todo.push((path.clone(), self.slots(&chain)));
                }
                found.push(Found { path, info, slots: places, chain });
            }
        }
        found
    }

    /// Returns the content of every file, by path.
    pub(crate) fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let content = |found: &Found| {
            let size = self.geometry.heap.cluster_size() as usize;
            let mut bytes = Vec::new();
            for &cluster in &found.chain {
                let start = self.geometry.heap.offset(cluster) as usize;
                bytes.extend_from_slice(&self.image[start..start + size]);
            }
            bytes.truncate(found.info.valid as usize);
            bytes.resize(found.info.length as usize, 0);
            bytes
        };
        let files = self.found.iter().filter(|found| !found.is_directory());
        files.map(|found| (found.path.clone(), content(found))).collect()
    }

    fn files(&self, least: usize, contiguous: Option<bool>) -> Vec<Found> {
        let files = self.found.iter().filter(|found| !found.is_directory() && found.chain.len() >= least);
        files
            .filter(|found| contiguous.is_none_or(|wanted| found.info.contiguous == wanted))
            .cloned()
            .collect()
    }

    fn directories(&self) -> Vec<Found> {
        self.found.iter().filter(|found| found.is_directory()).cloned().collect()
    }

    /// Returns the position of the first entry of a type in the root directory.
    fn special(&self, kind: u8) -> usize {
        self.root_slots().into_iter().find(|&at| self.image[at] == kind).unwrap()
    }

    /// Returns the position of the bitmap's byte with the bit of a cluster, and the mask of the bit.
    fn bit(&self, cluster: u32) -> (usize, u8) {
        let entry = BitmapEntry::from_bytes(&self.slot(self.special(kind::BITMAP)));
        let start = self.geometry.heap.offset(entry.cluster) as usize;
        (start + (cluster - 2) as usize / 8, 1 << ((cluster - 2) % 8))
    }

    fn free(&self) -> Vec<u32> {
        let free = |cluster: &u32| {
            let (at, mask) = self.bit(*cluster);
            self.image[at] & mask == 0
        };
        (2..=self.geometry.heap.last()).filter(free).collect()
    }

    /// Changes a file's entry, with a right checksum.
    pub(crate) fn change(&mut self, found: &Found, change: impl FnOnce(&mut FileInfo)) {
        let slots: Vec<[u8; SLOT]> = found.slots.iter().map(|&at| self.slot(at)).collect();
        let mut set = EntrySet::read_loosely(&slots).unwrap();
        let mut info = set.info();
        change(&mut info);
        set.set_info(&info);
        self.write(found, &set);
    }

    fn write(&mut self, found: &Found, set: &EntrySet) {
        for (&at, slot) in found.slots.iter().zip(set.slots()) {
            self.set_slot(at, *slot);
        }
    }

    fn seal(&mut self) {
        BootRegion::seal(&mut self.image[..12 * 512], 512);
    }
}

/// What a kind of damage has to choose from, and the paths of files that it hits.
pub(crate) struct Scene<'a> {
    volume: &'a mut Volume,
    random: &'a mut Random,
    /// A file in pieces.
    file: Found,
    /// Another file, however it lies.
    other: Found,
    /// A file in one piece.
    whole: Found,
    directory: Found,
    /// The index of a cluster of `file` that is neither its first nor its last.
    middle: usize,
    hit: BTreeSet<String>,
}

impl Scene<'_> {
    fn heap_end(&self) -> u32 {
        self.volume.geometry.heap.last()
    }
}

/// Notes a file that the damage or its repair may change.
fn touch(hit: &mut BTreeSet<String>, found: &Found) {
    hit.insert(found.path.clone());
}

/// A way of damaging a volume.
pub(crate) type Damage = fn(&mut Scene<'_>);

/// The kinds of damage, by name.
pub(crate) const KINDS: &[(&str, Damage)] = &[
    ("none", |_| {}),
    ("dirty", dirty),
    ("percent", percent),
    ("boot-flip", boot_flip),
    ("boot-destroyed", boot_destroyed),
    ("boot-checksum", boot_checksum),
    ("backup-flip", backup_flip),
    ("fat-garbage-sector", |s| fat_garbage_sector(s, "fat-garbage-sector")),
    ("fat-flips", |s| fat_garbage_sector(s, "fat-flips")),
    ("fat-reserved", fat_reserved),
    ("bitmap-flips", bitmap_flips),
    ("bitmap-garbage-sector", bitmap_garbage_sector),
    ("bitmap-entry", bitmap_entry),
    ("bitmap-entry-gone", bitmap_entry_gone),
    ("bitmap-chain", bitmap_chain),
    ("upcase-content", upcase_content),
    ("upcase-entry", upcase_entry),
    ("upcase-gone", upcase_gone),
    ("lost-clusters", lost_clusters),
    ("in-use-but-free", in_use_but_free),
    ("lost-directory", |s| lost_directory(s, "lost-directory")),
    ("entry-deleted", |s| lost_directory(s, "entry-deleted")),
    ("cross-link", cross_link),
    ("cross-run", cross_run),
    ("same-start", same_start),
    ("loop", chain_loop),
    ("chain-too-short", chain_too_short),
    ("chain-too-long", chain_too_long),
    ("chain-into-free", chain_into_free),
    ("chain-into-bad", chain_into_bad),
    ("chain-out-of-range", chain_out_of_range),
    ("size-too-large", |s| size_too_large(s, "size-too-large")),
    ("size-too-small", |s| size_too_large(s, "size-too-small")),
    ("valid-too-large", valid_too_large),
    ("directory-size", directory_size),
    ("flag-flipped", flag_flipped),
    ("checksum", checksum),
    ("hash", hash),
    ("secondary-count", secondary_count),
    ("name-part-gone", |s| name_part_gone(s, "name-part-gone")),
    ("stream-gone", |s| name_part_gone(s, "stream-gone")),
    ("bad-name", bad_name),
    ("duplicate-name", duplicate_name),
    ("directory-bit", directory_bit),
    ("start-out-of-range", start_out_of_range),
    ("start-zero", start_zero),
    ("directory-loop", directory_loop),
    ("second-label", |s| second_label(s, "second-label")),
    ("unknown-critical", |s| second_label(s, "unknown-critical")),
    ("unknown-benign", |s| second_label(s, "unknown-benign")),
    ("moved-file", |s| moved_file(s, "moved-file")),
    ("moved-directory", |s| moved_file(s, "moved-directory")),
    ("after-end", after_end),
    ("directory-flips", |s| directory_flips(s, "directory-flips")),
    ("directory-zero-sector", |s| directory_flips(s, "directory-zero-sector")),
    ("directory-garbage-sector", |s| directory_flips(s, "directory-garbage-sector")),
    ("root-chain", root_chain),
];

/// Damages a volume. Returns the paths of files that the damage or its repair may change; all other files must
/// survive. A path of "/" stands for everything.
pub(crate) fn damage(volume: &mut Volume, damage: Damage, random: &mut Random) -> BTreeSet<String> {
    let file = random.pick(&volume.files(3, Some(false))).clone();
    let other = random.pick(&volume.files(4, None)).clone();
    let whole = random.pick(&volume.files(2, Some(true))).clone();
    let directory = random.pick(&volume.directories()).clone();
    let middle = 1 + random.below(file.chain.len() as u64 - 2) as usize;
    let mut scene = Scene { volume, random, file, other, whole, directory, middle, hit: BTreeSet::new() };
    damage(&mut scene);
    scene.hit
}

fn dirty(s: &mut Scene<'_>) {
    s.volume.image[BootSector::FLAGS] |= 2 << s.random.below(2);
}

fn percent(s: &mut Scene<'_>) {
    s.volume.image[BootSector::PERCENT] = 101 + s.random.below(154) as u8;
    s.volume.seal();
}

fn boot_flip(s: &mut Scene<'_>) {
    s.volume.image[s.random.below(120) as usize] ^= 1 << s.random.below(8);
}

fn boot_destroyed(s: &mut Scene<'_>) {
    match s.random.below(3) {
        0 => s.volume.image[..512].fill(0),
        1 => s.volume.image[..6 * 512].fill(0xFF),
        _ => s.random.fill(&mut s.volume.image[..12 * 512]),
    }
}

fn boot_checksum(s: &mut Scene<'_>) {
    s.volume.image[11 * 512 + s.random.below(512) as usize] ^= 0x10;
}

fn backup_flip(s: &mut Scene<'_>) {
    s.volume.image[12 * 512 + s.random.below(12 * 512) as usize] ^= 0x10;
}

fn fat_garbage_sector(s: &mut Scene<'_>, kind_of: &str) {
    // All fragmented files may lose clusters.
    let used = s.volume.found.iter().flat_map(|found| &found.chain).max().copied().unwrap_or(2);
    let start = s.volume.geometry.fat_start as usize;
    if kind_of == "fat-flips" {
        for _ in 0..1 + s.random.below(4) {
            s.volume.image[start + 8 + s.random.below(u64::from(used) * 4) as usize] ^=
                1 << s.random.below(8);
        }
    } else {
        let sector = s.random.below((u64::from(used) * 4).div_ceil(512)) as usize;
        s.random.fill(&mut s.volume.image[start + sector * 512..start + sector * 512 + 512]);
    }
    s.volume.found.iter().filter(|found| !found.info.contiguous).for_each(|found| touch(&mut s.hit, found));
}

fn fat_reserved(s: &mut Scene<'_>) {
    s.volume.image[s.volume.geometry.fat_start as usize + s.random.below(8) as usize] ^= 0x40;
}

fn bitmap_flips(s: &mut Scene<'_>) {
    for _ in 0..1 + s.random.below(8) {
        let (at, mask) = s.volume.bit(2 + s.random.below(u64::from(s.volume.geometry.heap.count)) as u32);
        s.volume.image[at] ^= mask;
    }
}

fn bitmap_garbage_sector(s: &mut Scene<'_>) {
    let (at, _) = s.volume.bit(2);
    s.random.fill(&mut s.volume.image[at..at + 512.min(s.volume.geometry.bitmap_bytes() as usize)]);
}

fn bitmap_entry(s: &mut Scene<'_>) {
    let at = s.volume.special(kind::BITMAP);
    s.volume.image[at + [20, 21, 24, 25][s.random.below(4) as usize]] ^= 1 << s.random.below(8);
}

fn bitmap_entry_gone(s: &mut Scene<'_>) {
    let at = s.volume.special(kind::BITMAP);
    s.volume.image[at] &= 0x7F;
}

fn bitmap_chain(s: &mut Scene<'_>) {
    let at = s.volume.special(kind::BITMAP);
    let entry = BitmapEntry::from_bytes(&s.volume.slot(at));
    s.volume.set_fat(entry.cluster, [0, 1, Geometry::BAD, s.heap_end() + 7][s.random.below(4) as usize]);
}

fn upcase_content(s: &mut Scene<'_>) {
    let at = s.volume.special(kind::UPCASE);
    let entry = platter_exfat::layout::UpcaseEntry::from_bytes(&s.volume.slot(at));
    let at = s.volume.geometry.heap.offset(entry.cluster) as usize + s.random.below(512) as usize;
    s.volume.image[at] ^= 1 << s.random.below(8);
}

fn upcase_entry(s: &mut Scene<'_>) {
    let at = s.volume.special(kind::UPCASE);
    s.volume.image[at + [4, 5, 20, 21, 24, 25][s.random.below(6) as usize]] ^= 1 << s.random.below(8);
}

fn upcase_gone(s: &mut Scene<'_>) {
    let at = s.volume.special(kind::UPCASE);
    s.volume.image[at] &= 0x7F;
}

fn lost_clusters(s: &mut Scene<'_>) {
    let free = s.volume.free();
    let start = s.random.below(free.len() as u64 - 8) as usize;
    for &cluster in &free[start..start + 1 + s.random.below(6) as usize] {
        let (at, mask) = s.volume.bit(cluster);
        s.volume.image[at] |= mask;
    }
}

fn in_use_but_free(s: &mut Scene<'_>) {
    let (at, mask) = s.volume.bit(s.whole.chain[s.random.below(s.whole.chain.len() as u64) as usize]);
    s.volume.image[at] &= !mask;
}

fn lost_directory(s: &mut Scene<'_>, kind_of: &str) {
    let victim = if kind_of == "lost-directory" { &s.directory } else { &s.file };
    touch(&mut s.hit, victim);
    for &at in &victim.slots {
        s.volume.image[at] &= 0x7F;
    }
}

fn cross_link(s: &mut Scene<'_>) {
    touch(&mut s.hit, &s.file);
    s.volume.set_fat(
        s.file.chain[s.middle],
        s.other.chain[1 + s.random.below(s.other.chain.len() as u64 - 1) as usize],
    );
}

fn cross_run(s: &mut Scene<'_>) {
    touch(&mut s.hit, &s.whole);
    let into = s.other.chain[s.random.below(s.other.chain.len() as u64) as usize];
    let wanted = s.whole.chain.len() as u32;
    let start = into.saturating_sub(s.random.below(u64::from(wanted)) as u32).clamp(2, s.heap_end() - wanted);
    // The files that have clusters in this range may change too.
    for found in s
        .volume
        .found
        .iter()
        .filter(|found| found.chain.iter().any(|cluster| (start..start + wanted).contains(cluster)))
    {
        touch(&mut s.hit, found);
    }
    s.volume.change(&s.whole, |info| info.cluster = start);
}

fn same_start(s: &mut Scene<'_>) {
    touch(&mut s.hit, &s.file);
    touch(&mut s.hit, &s.other);
    s.volume.change(&s.file, |info| {
        (info.cluster, info.contiguous) = (s.other.chain[0], s.other.info.contiguous)
    });
}

fn chain_loop(s: &mut Scene<'_>) {
    touch(&mut s.hit, &s.file);
    s.volume.set_fat(s.file.chain[s.middle], s.file.chain[s.random.below(s.middle as u64 + 1) as usize]);
}

fn chain_too_short(s: &mut Scene<'_>) {
    touch(&mut s.hit, &s.file);
    s.volume.set_fat(s.file.chain[s.middle - 1], Geometry::END);
}

fn chain_too_long(s: &mut Scene<'_>) {
    let free = s.volume.free()[0];
    s.volume.set_fat(*s.file.chain.last().unwrap(), free);
    s.volume.set_fat(free, Geometry::END);
}

fn chain_into_free(s: &mut Scene<'_>) {
    touch(&mut s.hit, &s.file);
    s.volume.set_fat(s.file.chain[s.middle], 0);
}

fn chain_into_bad(s: &mut Scene<'_>) {
    touch(&mut s.hit, &s.file);
    s.volume.set_fat(s.file.chain[s.middle], Geometry::BAD);
}

fn chain_out_of_range(s: &mut Scene<'_>) {
    touch(&mut s.hit, &s.file);
    s.volume.set_fat(s.file.chain[s.middle], s.heap_end() + 1 + s.random.below(1000) as u32);
}

fn size_too_large(s: &mut Scene<'_>, kind_of: &str) {
    let found = if s.random.chance(50) { &s.file } else { &s.whole };
    touch(&mut s.hit, found);
    let more = 512 * (1 + s.random.below(100));
    // A run with a larger length in its entry includes clusters of the files after it.
    let end = found.chain.last().unwrap() + 120;
    if found.info.contiguous {
        for near in s
            .volume
            .found
            .iter()
            .filter(|near| near.chain.iter().any(|at| (found.chain[0]..end).contains(at)))
        {
            touch(&mut s.hit, near);
        }
    }
    let found = found.clone();
    s.volume.change(&found, |info| match kind_of {
        "size-too-large" => info.length += more,
        _ => (info.length, info.valid) = (info.length / 2, info.valid.min(info.length / 2)),
    });
}

fn valid_too_large(s: &mut Scene<'_>) {
    touch(&mut s.hit, &s.file);
    s.volume.change(&s.file, |info| info.valid = info.length + 1 + s.random.below(5000));
}

fn directory_size(s: &mut Scene<'_>) {
    touch(&mut s.hit, &s.directory);
    s.volume.change(&s.directory, |info| info.length = info.length.saturating_sub(1 + s.random.below(600)));
}

fn flag_flipped(s: &mut Scene<'_>) {
    let found = if s.random.chance(50) { &s.file } else { &s.whole }.clone();
    touch(&mut s.hit, &found);
    if !found.info.contiguous {
        let run = found.chain[0]..found.chain[0] + found.chain.len() as u32;
        for near in s.volume.found.iter().filter(|near| near.chain.iter().any(|at| run.contains(at))) {
            touch(&mut s.hit, near);
        }
    }
    s.volume.change(&found, |info| info.contiguous = !info.contiguous);
}

fn checksum(s: &mut Scene<'_>) {
    s.volume.image[s.file.slots[0] + 2] ^= 1 + s.random.below(255) as u8;
}

fn hash(s: &mut Scene<'_>) {
    s.volume.image[s.file.slots[1] + 4] ^= 1 + s.random.below(255) as u8;
}

fn secondary_count(s: &mut Scene<'_>) {
    s.volume.image[s.file.slots[0] + 1] ^= 1 + s.random.below(31) as u8;
}

fn name_part_gone(s: &mut Scene<'_>, kind_of: &str) {
    touch(&mut s.hit, &s.file);
    let at = if kind_of == "stream-gone" { 1 } else { s.file.slots.len() - 1 };
    s.volume.image[s.file.slots[at]] &= 0x7F;
}

fn bad_name(s: &mut Scene<'_>) {
    touch(&mut s.hit, &s.file);
    let slots: Vec<[u8; SLOT]> = s.file.slots.iter().map(|&at| s.volume.slot(at)).collect();
    let set = EntrySet::read_loosely(&slots).unwrap();
    let mut units = set.name().units().to_vec();
    let at = s.random.below(units.len() as u64) as usize;
    units[at] = u16::from(*s.random.pick(b"*?<>|\":/\\\x01\x1f"));
    let set = EntrySet::new(&Name::from_units(&units), &set.info(), &Upcase::recommended());
    s.volume.write(&s.file, &set);
}

fn duplicate_name(s: &mut Scene<'_>) {
    let parent = |found: &Found| found.path.rsplit_once('/').unwrap().0.to_owned();
    let twin = s.volume.files(0, None).into_iter().find(|twin| {
        parent(twin) == parent(&s.file) && twin.path != s.file.path && twin.slots.len() == s.file.slots.len()
    });
    if let Some(twin) = twin {
        touch(&mut s.hit, &s.file);
        touch(&mut s.hit, &twin);
        let name = Name::from(s.file.path.rsplit_once('/').unwrap().1);
        let set = EntrySet::new(&name, &twin.info, &Upcase::recommended());
        s.volume.write(&twin, &set);
    }
}

fn directory_bit(s: &mut Scene<'_>) {
    touch(&mut s.hit, &s.file);
    s.volume.change(&s.file, |info| info.attributes.0 ^= 0x10);
}

fn start_out_of_range(s: &mut Scene<'_>) {
    touch(&mut s.hit, &s.file);
    let end = s.heap_end();
    s.volume.change(&s.file, |info| info.cluster = end + 1 + s.random.below(9) as u32);
}

fn start_zero(s: &mut Scene<'_>) {
    let found = if s.random.chance(50) { &s.file } else { &s.directory }.clone();
    touch(&mut s.hit, &found);
    s.volume.change(&found, |info| info.cluster = 0);
}

fn directory_loop(s: &mut Scene<'_>) {
    let inner = s.volume.directories().into_iter().find(|found| found.path.ends_with("DEEPEST")).unwrap();
    let outer = s.volume.directories().into_iter().find(|found| found.path == "/deep directory").unwrap();
    touch(&mut s.hit, &inner);
    s.volume.change(&inner, |info| *info = FileInfo { cluster: outer.chain[0], ..outer.info.clone() });
}

fn second_label(s: &mut Scene<'_>, kind_of: &str) {
    let end = s.volume.root_slots().into_iter().find(|&at| s.volume.image[at] == 0);
    if let Some(end) = end {
        let mut slot = s.volume.slot(s.volume.special(kind::LABEL));
        slot[0] = match kind_of {
            "second-label" => kind::LABEL,
            "unknown-critical" => 0x84,
            _ => 0xA6,
        };
        (slot[1], slot[4]) = (0, 0);
        if kind_of == "unknown-benign" {
            let sum = platter_exfat::layout::set_checksum(&[slot]).to_le_bytes();
            slot[2..4].copy_from_slice(&sum);
        }
        s.volume.set_slot(end, slot);
    }
}

fn moved_file(s: &mut Scene<'_>, kind_of: &str) {
    let source = if kind_of == "moved-file" { &s.file } else { &s.directory }.clone();
    let target = s.volume.directories().into_iter().find(|found| found.path == "/second").unwrap();
    let inside = source.path.starts_with(&target.path);
    let slots = if inside { s.volume.root_slots() } else { s.volume.slots(&target.chain) };
    let run = slots.windows(source.slots.len()).find(|run| {
        let before = slots.iter().position(|at| *at == run[0]).unwrap();
        let ended = slots[..before].iter().any(|&at| s.volume.image[at] == 0);
        !ended && run.iter().all(|&at| s.volume.image[at] & 0x80 == 0)
    });
    if let Some(run) = run.map(<[usize]>::to_vec) {
        touch(&mut s.hit, &source);
        for (&from, to) in source.slots.iter().zip(run) {
            let slot = s.volume.slot(from);
            s.volume.set_slot(to, slot);
        }
    }
}

fn after_end(s: &mut Scene<'_>) {
    let slots = s.volume.slots(&s.directory.chain);
    let last = *slots.last().unwrap();
    if s.volume.image[last] == 0 {
        s.random.fill(&mut s.volume.image[last..last + SLOT]);
    }
}

fn directory_flips(s: &mut Scene<'_>, kind_of: &str) {
    let slots = s.volume.slots(&s.directory.chain);
    let sector = s.random.below(slots.len() as u64 / 16) as usize * 16;
    let start = slots[sector];
    match kind_of {
        "directory-flips" => {
            for _ in 0..1 + s.random.below(6) {
                s.volume.image[start + s.random.below(512) as usize] ^= 1 << s.random.below(8);
            }
        }
        "directory-zero-sector" => s.volume.image[start..start + 512].fill(0),
        _ => s.random.fill(&mut s.volume.image[start..start + 512]),
    }
    touch(&mut s.hit, &s.directory);
}

fn root_chain(s: &mut Scene<'_>) {
    s.hit.insert("/".to_owned());
    let chain = s.volume.chain(s.volume.geometry.root_cluster, None);
    let at = chain[s.random.below(chain.len() as u64) as usize];
    s.volume.set_fat(at, [0, 1, Geometry::BAD, s.heap_end() + 9][s.random.below(4) as usize]);
}
