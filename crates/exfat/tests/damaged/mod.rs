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

/// The kinds of damage, by name.
pub(crate) const KINDS: &[&str] = &[
    "none",
    "dirty",
    "percent",
    "boot-flip",
    "boot-destroyed",
    "boot-checksum",
    "backup-flip",
    "fat-garbage-sector",
    "fat-flips",
    "fat-reserved",
    "bitmap-flips",
    "bitmap-garbage-sector",
    "bitmap-entry",
    "bitmap-entry-gone",
    "bitmap-chain",
    "upcase-content",
    "upcase-entry",
    "upcase-gone",
    "lost-clusters",
    "in-use-but-free",
    "lost-directory",
    "entry-deleted",
    "cross-link",
    "cross-run",
    "same-start",
    "loop",
    "chain-too-short",
    "chain-too-long",
    "chain-into-free",
    "chain-into-bad",
    "chain-out-of-range",
    "size-too-large",
    "size-too-small",
    "valid-too-large",
    "directory-size",
    "flag-flipped",
    "checksum",
    "hash",
    "secondary-count",
    "name-part-gone",
    "stream-gone",
    "bad-name",
    "duplicate-name",
    "directory-bit",
    "start-out-of-range",
    "start-zero",
    "directory-loop",
    "second-label",
    "unknown-critical",
    "unknown-benign",
    "moved-file",
    "moved-directory",
    "after-end",
    "directory-flips",
    "directory-zero-sector",
    "directory-garbage-sector",
    "root-chain",
];

/// Damages a volume. Returns the paths of files that the damage or its repair may change; all other files must
/// survive. A path of "/" stands for everything.
pub(crate) fn damage(volume: &mut Volume, kind_of: &str, random: &mut Random) -> BTreeSet<String> {
    let geometry = volume.geometry.clone();
    let file = random.pick(&volume.files(3, Some(false))).clone();
    let other = random.pick(&volume.files(4, None)).clone();
    let whole = random.pick(&volume.files(2, Some(true))).clone();
    let directory = random.pick(&volume.directories()).clone();
    let middle = 1 + random.below(file.chain.len() as u64 - 2) as usize;
    let mut hit = BTreeSet::new();
    let mut touch = |found: &Found| {
        hit.insert(found.path.clone());
    };
    let everything = |hit: &mut BTreeSet<String>| {
        hit.insert("/".to_owned());
    };
    let heap_end = geometry.heap.last();
    match kind_of {
        "none" => {}
        "dirty" => volume.image[BootSector::FLAGS] |= 2 << random.below(2),
        "percent" => volume.image[BootSector::PERCENT] = 101 + random.below(154) as u8,
        "boot-flip" => volume.image[random.below(120) as usize] ^= 1 << random.below(8),
        "boot-destroyed" => match random.below(3) {
            0 => volume.image[..512].fill(0),
            1 => volume.image[..6 * 512].fill(0xFF),
            _ => random.fill(&mut volume.image[..12 * 512]),
        },
        "boot-checksum" => volume.image[11 * 512 + random.below(512) as usize] ^= 0x10,
        "backup-flip" => volume.image[12 * 512 + random.below(12 * 512) as usize] ^= 0x10,
        "fat-garbage-sector" | "fat-flips" => {
            // All fragmented files may lose clusters.
            let used = volume.found.iter().flat_map(|found| &found.chain).max().copied().unwrap_or(2);
            let start = geometry.fat_start as usize;
            if kind_of == "fat-flips" {
                for _ in 0..1 + random.below(4) {
                    volume.image[start + 8 + random.below(u64::from(used) * 4) as usize] ^=
                        1 << random.below(8);
                }
            } else {
                let sector = random.below((u64::from(used) * 4).div_ceil(512)) as usize;
                random.fill(&mut volume.image[start + sector * 512..start + sector * 512 + 512]);
            }
            volume.found.iter().filter(|found| !found.info.contiguous).for_each(touch);
        }
        "fat-reserved" => volume.image[geometry.fat_start as usize + random.below(8) as usize] ^= 0x40,
        "bitmap-flips" => {
            for _ in 0..1 + random.below(8) {
                let (at, mask) = volume.bit(2 + random.below(u64::from(geometry.heap.count)) as u32);
                volume.image[at] ^= mask;
            }
        }
        "bitmap-garbage-sector" => {
            let (at, _) = volume.bit(2);
            random.fill(&mut volume.image[at..at + 512.min(geometry.bitmap_bytes() as usize)]);
        }
        "bitmap-entry" => {
            let at = volume.special(kind::BITMAP);
            volume.image[at + [20, 21, 24, 25][random.below(4) as usize]] ^= 1 << random.below(8);
        }
        "bitmap-entry-gone" => {
            let at = volume.special(kind::BITMAP);
            volume.image[at] &= 0x7F;
        }
        "bitmap-chain" => {
            let at = volume.special(kind::BITMAP);
            let entry = BitmapEntry::from_bytes(&volume.slot(at));
            volume.set_fat(entry.cluster, [0, 1, Geometry::BAD, heap_end + 7][random.below(4) as usize]);
        }
        "upcase-content" => {
            let at = volume.special(kind::UPCASE);
            let entry = platter_exfat::layout::UpcaseEntry::from_bytes(&volume.slot(at));
            let at = geometry.heap.offset(entry.cluster) as usize + random.below(512) as usize;
            volume.image[at] ^= 1 << random.below(8);
        }
        "upcase-entry" => {
            let at = volume.special(kind::UPCASE);
            volume.image[at + [4, 5, 20, 21, 24, 25][random.below(6) as usize]] ^= 1 << random.below(8);
        }
        "upcase-gone" => {
            let at = volume.special(kind::UPCASE);
            volume.image[at] &= 0x7F;
        }
        "lost-clusters" => {
            let free = volume.free();
            let start = random.below(free.len() as u64 - 8) as usize;
            for &cluster in &free[start..start + 1 + random.below(6) as usize] {
                let (at, mask) = volume.bit(cluster);
                volume.image[at] |= mask;
            }
        }
        "in-use-but-free" => {
            let (at, mask) = volume.bit(whole.chain[random.below(whole.chain.len() as u64) as usize]);
            volume.image[at] &= !mask;
        }
        "lost-directory" | "entry-deleted" => {
            let victim = if kind_of == "lost-directory" { &directory } else { &file };
            touch(victim);
            for &at in &victim.slots {
                volume.image[at] &= 0x7F;
            }
        }
        "cross-link" => {
            touch(&file);
            volume.set_fat(
                file.chain[middle],
                other.chain[1 + random.below(other.chain.len() as u64 - 1) as usize],
            );
        }
        "cross-run" => {
            touch(&whole);
            let into = other.chain[random.below(other.chain.len() as u64) as usize];
            let wanted = whole.chain.len() as u32;
            let start =
                into.saturating_sub(random.below(u64::from(wanted)) as u32).clamp(2, heap_end - wanted);
            // The files that have clusters in this range may change too.
            for found in volume
                .found
                .iter()
                .filter(|found| found.chain.iter().any(|cluster| (start..start + wanted).contains(cluster)))
            {
                touch(found);
            }
            volume.change(&whole, |info| info.cluster = start);
        }
        "same-start" => {
            touch(&file);
            touch(&other);
            volume.change(&file, |info| {
                (info.cluster, info.contiguous) = (other.chain[0], other.info.contiguous)
            });
        }
        "loop" => {
            touch(&file);
            volume.set_fat(file.chain[middle], file.chain[random.below(middle as u64 + 1) as usize]);
        }
        "chain-too-short" => {
            touch(&file);
            volume.set_fat(file.chain[middle - 1], Geometry::END);
        }
        "chain-too-long" => {
            let free = volume.free()[0];
            volume.set_fat(*file.chain.last().unwrap(), free);
            volume.set_fat(free, Geometry::END);
        }
        "chain-into-free" => {
            touch(&file);
            volume.set_fat(file.chain[middle], 0);
        }
        "chain-into-bad" => {
            touch(&file);
            volume.set_fat(file.chain[middle], Geometry::BAD);
        }
        "chain-out-of-range" => {
            touch(&file);
            volume.set_fat(file.chain[middle], heap_end + 1 + random.below(1000) as u32);
        }
        "size-too-large" | "size-too-small" => {
            let found = if random.chance(50) { &file } else { &whole };
            touch(found);
            let more = 512 * (1 + random.below(100));
            // A run with a larger length in its entry includes clusters of the files after it.
            let end = found.chain.last().unwrap() + 120;
            if found.info.contiguous {
                for near in volume
                    .found
                    .iter()
                    .filter(|near| near.chain.iter().any(|at| (found.chain[0]..end).contains(at)))
                {
                    touch(near);
                }
            }
            let found = found.clone();
            volume.change(&found, |info| match kind_of {
                "size-too-large" => info.length += more,
                _ => (info.length, info.valid) = (info.length / 2, info.valid.min(info.length / 2)),
            });
        }
        "valid-too-large" => {
            touch(&file);
            volume.change(&file, |info| info.valid = info.length + 1 + random.below(5000));
        }
        "directory-size" => {
            touch(&directory);
            volume.change(&directory, |info| info.length = info.length.saturating_sub(1 + random.below(600)));
        }
        "flag-flipped" => {
            let found = if random.chance(50) { &file } else { &whole }.clone();
            touch(&found);
            if !found.info.contiguous {
                let run = found.chain[0]..found.chain[0] + found.chain.len() as u32;
                for near in volume.found.iter().filter(|near| near.chain.iter().any(|at| run.contains(at))) {
                    touch(near);
                }
            }
            volume.change(&found, |info| info.contiguous = !info.contiguous);
        }
        "checksum" => volume.image[file.slots[0] + 2] ^= 1 + random.below(255) as u8,
        "hash" => volume.image[file.slots[1] + 4] ^= 1 + random.below(255) as u8,
        "secondary-count" => {
            volume.image[file.slots[0] + 1] ^= 1 + random.below(31) as u8;
        }
        "name-part-gone" | "stream-gone" => {
            touch(&file);
            let at = if kind_of == "stream-gone" { 1 } else { file.slots.len() - 1 };
            volume.image[file.slots[at]] &= 0x7F;
        }
        "bad-name" => {
            touch(&file);
            let slots: Vec<[u8; SLOT]> = file.slots.iter().map(|&at| volume.slot(at)).collect();
            let set = EntrySet::read_loosely(&slots).unwrap();
            let mut units = set.name().units().to_vec();
            let at = random.below(units.len() as u64) as usize;
            units[at] = u16::from(*random.pick(b"*?<>|\":/\\\x01\x1f"));
            let set = EntrySet::new(&Name::from_units(&units), &set.info(), &Upcase::recommended());
            volume.write(&file, &set);
        }
        "duplicate-name" => {
            let parent = |found: &Found| found.path.rsplit_once('/').unwrap().0.to_owned();
            let twin = volume.files(0, None).into_iter().find(|twin| {
                parent(twin) == parent(&file)
                    && twin.path != file.path
                    && twin.slots.len() == file.slots.len()
            });
            if let Some(twin) = twin {
                touch(&file);
                touch(&twin);
                let name = Name::from(file.path.rsplit_once('/').unwrap().1);
                let set = EntrySet::new(&name, &twin.info, &Upcase::recommended());
                volume.write(&twin, &set);
            }
        }
        "directory-bit" => {
            touch(&file);
            volume.change(&file, |info| info.attributes.0 ^= 0x10);
        }
        "start-out-of-range" => {
            touch(&file);
            volume.change(&file, |info| info.cluster = heap_end + 1 + random.below(9) as u32);
        }
        "start-zero" => {
            let found = if random.chance(50) { &file } else { &directory }.clone();
            touch(&found);
            volume.change(&found, |info| info.cluster = 0);
        }
        "directory-loop" => {
            let inner =
                volume.directories().into_iter().find(|found| found.path.ends_with("DEEPEST")).unwrap();
            let outer =
                volume.directories().into_iter().find(|found| found.path == "/deep directory").unwrap();
            touch(&inner);
            volume.change(&inner, |info| *info = FileInfo { cluster: outer.chain[0], ..outer.info.clone() });
        }
        "second-label" | "unknown-critical" | "unknown-benign" => {
            let end = volume.root_slots().into_iter().find(|&at| volume.image[at] == 0);
            if let Some(end) = end {
                let mut slot = volume.slot(volume.special(kind::LABEL));
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
                volume.set_slot(end, slot);
            }
        }
        "moved-file" | "moved-directory" => {
            let source = if kind_of == "moved-file" { &file } else { &directory }.clone();
            let target = volume.directories().into_iter().find(|found| found.path == "/second").unwrap();
            let inside = source.path.starts_with(&target.path);
            let slots = if inside { volume.root_slots() } else { volume.slots(&target.chain) };
            let run = slots.windows(source.slots.len()).find(|run| {
                let before = slots.iter().position(|at| *at == run[0]).unwrap();
                let ended = slots[..before].iter().any(|&at| volume.image[at] == 0);
                !ended && run.iter().all(|&at| volume.image[at] & 0x80 == 0)
            });
            if let Some(run) = run.map(<[usize]>::to_vec) {
                touch(&source);
                for (&from, to) in source.slots.iter().zip(run) {
                    let slot = volume.slot(from);
                    volume.set_slot(to, slot);
                }
            }
        }
        "after-end" => {
            let slots = volume.slots(&directory.chain);
            let last = *slots.last().unwrap();
            if volume.image[last] == 0 {
                random.fill(&mut volume.image[last..last + SLOT]);
            }
        }
        "directory-flips" | "directory-zero-sector" | "directory-garbage-sector" => {
            let slots = volume.slots(&directory.chain);
            let sector = random.below(slots.len() as u64 / 16) as usize * 16;
            let start = slots[sector];
            match kind_of {
                "directory-flips" => {
                    for _ in 0..1 + random.below(6) {
                        volume.image[start + random.below(512) as usize] ^= 1 << random.below(8);
                    }
                }
                "directory-zero-sector" => volume.image[start..start + 512].fill(0),
                _ => random.fill(&mut volume.image[start..start + 512]),
            }
            touch(&directory);
        }
        "root-chain" => {
            everything(&mut hit);
            let chain = volume.chain(geometry.root_cluster, None);
            let at = chain[random.below(chain.len() as u64) as usize];
            volume.set_fat(at, [0, 1, Geometry::BAD, heap_end + 9][random.below(4) as usize]);
        }
        unknown => panic!("no damage of the kind {unknown}"),
    }
    if kind_of == "percent" {
        volume.seal();
    }
    hit
}
