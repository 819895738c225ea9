//! Volumes with a tree of files, made with mtools, and ways of damaging them.

use crate::judges::{ImageFile, run};
use platter_device::{MemoryDevice, Sectors};
use platter_fat::Fat;
use platter_fat::layout::{BootSector, FatKind, Geometry, Link, LongName, SLOT, ShortEntry, Slot, get, set};
use platter_vfs::{Format, FormatOptions, Silent};
use std::collections::{BTreeMap, BTreeSet};

/// Random numbers that depend on a seed alone (SplitMix64).
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ value >> 31
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    pub(crate) fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len() as u64) as usize]
    }
}

/// Makes a volume with some eighty files and directories, fragmented, with the help of mtools.
pub(crate) fn populated(kind: FatKind) -> Vec<u8> {
    let (format, length) = match kind {
        FatKind::Fat12 => (Fat::FAT12, 1 << 20),
        FatKind::Fat16 => (Fat::FAT16, 3 << 20),
        FatKind::Fat32 => (Fat::FAT32, 36 << 20),
    };
    let device = MemoryDevice::new(length, Sectors::SMALL);
    let options = FormatOptions {
        cluster: Some(512),
        label: Some("DAMAGED".into()),
        serial: Some(8664),
        ..FormatOptions::default()
    };
    format.make(&device, &options, &Silent).unwrap();
    let image = ImageFile::new(&device.to_image());
    // Named after the image, because tests of one process run in parallel.
    let host = std::path::PathBuf::from(format!("{}.tree", image.path()));
    let mut random = Random(8664);
    let mut fill = |path: &std::path::Path, size: u64| {
        let bytes: Vec<u8> = (0..size).map(|_| random.next() as u8).collect();
        std::fs::write(path, bytes).unwrap();
    };
    std::fs::create_dir_all(host.join("deep directory/deeper/DEEPEST")).unwrap();
    std::fs::create_dir_all(host.join("second")).unwrap();
    std::fs::create_dir_all(host.join("an empty directory")).unwrap();
    for number in 0..24_u64 {
        let size = [0, 1, 512, 513, 5000, 12_000][number as usize % 6] + number;
        fill(
            &host.join(format!("A long name, number {number}.data")),
            if number % 6 == 0 { 0 } else { size },
        );
        fill(&host.join(format!("second/SHORT{number}.TXT")), size * 2);
        fill(&host.join(format!("deep directory/deeper/file {number}.text")), size / 2);
    }
    for name in ["deep directory/deeper/DEEPEST/bottom", "deep directory/readme.txt", "second/GAP.BIN"] {
        fill(&host.join(name), 3000);
    }
    fill(&host.join("A first file that leaves a gap"), 20_000);
    let path = |name: &str| host.join(name).to_str().unwrap().to_owned();
    run("mcopy", &["-i", image.path(), &path("A first file that leaves a gap"), "::gap"]);
    for name in ["deep directory", "second", "an empty directory"] {
        run("mcopy", &["-s", "-i", image.path(), &path(name), "::"]);
    }
    run("mdel", &["-i", image.path(), "::gap"]);
    for number in 0..24 {
        let name = path(&format!("A long name, number {number}.data"));
        run("mcopy", &["-i", image.path(), &name, "::"]);
        if number == 11 {
            run("mdel", &["-i", image.path(), "::second/GAP.BIN"]);
        }
    }
    std::fs::remove_dir_all(&host).unwrap();
    image.bytes()
}

/// A file or directory of the tree.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub path: String,
    pub entry: ShortEntry,
    /// The positions of its slots in the image, the short entry last.
    pub slots: Vec<usize>,
    pub chain: Vec<u32>,
}

/// An image and its tree, read by an implementation as simple as possible.
pub(crate) struct Volume {
    pub image: Vec<u8>,
    pub geometry: Geometry,
    pub found: Vec<Found>,
}

impl Volume {
    pub(crate) fn new(image: Vec<u8>) -> Volume {
        let boot = BootSector::from_bytes(image[..512].try_into().unwrap());
        let geometry = boot.geometry(image.len() as u64).unwrap();
        let mut volume = Volume { image, geometry, found: Vec::new() };
        volume.found = volume.tree();
        volume
    }

    /// Whether the boot sector is still valid, with a FAT that is long enough.
    pub(crate) fn readable(image: &[u8]) -> bool {
        let boot = BootSector::from_bytes(image[..512].try_into().unwrap());
        boot.geometry(image.len() as u64).is_ok_and(|geometry| geometry.short_fat().is_none())
    }

    pub(crate) fn fat(&self, cluster: u32) -> u32 {
        let start = self.geometry.fat_offset(0) as usize;
        get(self.geometry.kind, &self.image[start..], cluster).unwrap()
    }

    /// Sets an entry in both FATs.
    pub(crate) fn set_fat(&mut self, cluster: u32, value: u32) {
        for copy in 0..self.geometry.fat_count {
            let start = self.geometry.fat_offset(copy) as usize;
            assert!(set(self.geometry.kind, &mut self.image[start..], cluster, value));
        }
    }

    pub(crate) fn end(&self) -> u32 {
        self.geometry.kind.end()
    }

    pub(crate) fn slot(&self, offset: usize) -> [u8; SLOT] {
        self.image[offset..offset + SLOT].try_into().unwrap()
    }

    pub(crate) fn set_slot(&mut self, offset: usize, slot: [u8; SLOT]) {
        self.image[offset..offset + SLOT].copy_from_slice(&slot);
    }

    pub(crate) fn chain(&self, first: u32) -> Vec<u32> {
        let mut chain = Vec::new();
        let mut cluster = first;
        while self.geometry.has_cluster(cluster) && chain.len() <= self.geometry.clusters as usize {
            chain.push(cluster);
            match self.geometry.link(self.fat(cluster)) {
                Link::Next(next) => cluster = next,
                _ => break,
            }
        }
        chain
    }

    /// Returns the positions in the image of all slots of a directory; of the root for cluster 0.
    pub(crate) fn slots(&self, first: u32) -> Vec<usize> {
        let root = first == 0 && self.geometry.root_cluster == 0;
        if root {
            let start = self.geometry.root_offset() as usize;
            return (0..self.geometry.root_entries as usize).map(|at| start + at * SLOT).collect();
        }
        let first = if first == 0 { self.geometry.root_cluster } else { first };
        let size = self.geometry.cluster_size as usize;
        let starts =
            self.chain(first).into_iter().map(|cluster| self.geometry.cluster_offset(cluster) as usize);
        starts.flat_map(|start| (0..size / SLOT).map(move |at| start + at * SLOT)).collect()
    }

    fn tree(&self) -> Vec<Found> {
        let mut found = Vec::new();
        let mut todo = vec![(String::new(), 0)];
        let mut seen = BTreeSet::new();
        while let Some((path, first)) = todo.pop() {
            if !seen.insert(first) {
                continue;
            }
            let mut long = LongName::default();
            let mut before = Vec::new();
            for offset in self.slots(first) {
                match Slot::from_bytes(&self.slot(offset)) {
                    Slot::End => break,
                    Slot::Deleted => before.clear(),
                    Slot::Long(part) => {
                        let _ = long.push(&part);
                        before.push(offset);
                    }
                    Slot::Short(entry) => {
                        let name = long.finish(&entry.name).ok().flatten();
                        let name = name.unwrap_or_else(|| entry.name.to_name(entry.nt));
                        let mut slots = std::mem::take(&mut before);
                        slots.push(offset);
                        if entry.attributes.label() || entry.name.is_dots() {
                            continue;
                        }
                        let path = format!("{path}/{name}");
                        let start = self.geometry.first_cluster(&entry);
                        if entry.attributes.directory() {
                            todo.push((path.clone(), start));
                        }
                        found.push(Found { path, entry, slots, chain: self.chain(start) });
                    }
                }
            }
        }
        found
    }

    /// Returns the content of every file, by path.
    pub(crate) fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let content = |found: &Found| {
            let size = self.geometry.cluster_size as usize;
            let mut bytes = Vec::new();
            for &cluster in &found.chain {
                let start = self.geometry.cluster_offset(cluster) as usize;
                bytes.extend_from_slice(&self.image[start..start + size]);
            }
            bytes.truncate(found.entry.size as usize);
            bytes
        };
        let files = self.found.iter().filter(|found| !found.entry.attributes.directory());
        files.map(|found| (found.path.clone(), content(found))).collect()
    }

    fn files(&self, least_clusters: usize) -> Vec<Found> {
        let files = self.found.iter().filter(|found| !found.entry.attributes.directory());
        files.filter(|found| found.chain.len() >= least_clusters).cloned().collect()
    }

    pub(crate) fn directories(&self) -> Vec<Found> {
        self.found.iter().filter(|found| found.entry.attributes.directory()).cloned().collect()
    }

    fn free(&self) -> Vec<u32> {
        (2..=self.geometry.last_cluster()).filter(|&cluster| self.fat(cluster) == 0).collect()
    }

    pub(crate) fn change(&mut self, found: &Found, change: impl FnOnce(&mut ShortEntry)) {
        let at = *found.slots.last().unwrap();
        let mut entry = ShortEntry::from_bytes(&self.slot(at));
        change(&mut entry);
        self.set_slot(at, entry.to_bytes());
    }
}

/// The kinds of damage, by name.
pub(crate) const KINDS: &[&str] = &[
    "none",
    "fat-2-bytes",
    "fat-1-garbage-sector",
    "info-free",
    "info-signature",
    "dirty-boot",
    "dirty-fat",
    "lost-chain",
    "lost-directory",
    "cross-link",
    "same-start",
    "loop",
    "chain-too-short",
    "chain-too-long",
    "chain-into-free",
    "chain-into-bad",
    "chain-into-reserved",
    "chain-out-of-range",
    "size-too-large",
    "size-too-small",
    "directory-size",
    "dot-wrong",
    "dot-dot-wrong",
    "dot-deleted",
    "bad-name",
    "duplicate-name",
    "entry-deleted",
    "long-checksum",
    "long-order",
    "long-part-deleted",
    "label-bit",
    "start-out-of-range",
    "start-zero",
    "directory-start-zero",
    "directory-loop",
    "second-label",
    "boot-copy",
    "boot-destroyed",
    "moved-file",
    "moved-directory",
    "directory-flips",
    "directory-zero-sector",
    "directory-garbage-sector",
    "fat-entry-0",
];

/// Damages a volume. Returns the paths of files that the damage or its repair may change; all other files must
/// survive.
pub(crate) fn damage(volume: &mut Volume, kind: &str, random: &mut Random) -> BTreeSet<String> {
    let geometry = volume.geometry.clone();
    let file = random.pick(&volume.files(3)).clone();
    let other = random.pick(&volume.files(4)).clone();
    let directory = random.pick(&volume.directories()).clone();
    let middle = 1 + random.below(file.chain.len() as u64 - 2) as usize;
    let mut hit = BTreeSet::new();
    let mut touch = |found: &Found| {
        hit.insert(found.path.clone());
    };
    let fat_bytes = geometry.fat_bytes();
    let info = geometry.info_sector.map(|sector| geometry.sector_offset(sector) as usize);
    let boot = BootSector::from_bytes(volume.image[..512].try_into().unwrap());
    match kind {
        "none" => {}
        "fat-2-bytes" => {
            for _ in 0..1 + random.below(4) {
                let at = geometry.fat_offset(1) + random.below(fat_bytes.min(2048));
                volume.image[at as usize] ^= 1 << random.below(8);
            }
        }
        "fat-1-garbage-sector" => {
            let at = geometry.fat_offset(0) as usize + 512 * random.below(2.min(fat_bytes / 512)) as usize;
            volume.image[at..at + 512].fill_with(|| random.next() as u8);
        }
        "info-free" => {
            if let Some(at) = info {
                volume.image[at + 488] ^= 1 + random.below(254) as u8;
            }
        }
        "info-signature" => {
            if let Some(at) = info {
                volume.image[at + [0, 484, 510][random.below(3) as usize]] ^= 0x20;
            }
        }
        "dirty-boot" => volume.image[boot.state_offset()] |= 1,
        "dirty-fat" => {
            let value = volume.fat(1);
            match geometry.kind {
                FatKind::Fat12 => {}
                FatKind::Fat16 => volume.set_fat(1, value & !0x8000),
                FatKind::Fat32 => volume.set_fat(1, value & !0x0800_0000),
            }
        }
        "lost-chain" => {
            let free = volume.free();
            for pair in free[..3 + random.below(4) as usize].windows(2) {
                volume.set_fat(pair[0], pair[1]);
                volume.set_fat(pair[1], volume.end());
            }
        }
        "lost-directory" | "entry-deleted" => {
            let victim = if kind == "lost-directory" { &directory } else { &file };
            touch(victim);
            let at = *victim.slots.last().unwrap();
            volume.image[at] = 0xE5;
        }
        "cross-link" => {
            touch(&file);
            volume.set_fat(
                file.chain[middle],
                other.chain[1 + random.below(other.chain.len() as u64 - 1) as usize],
            );
        }
        "same-start" => {
            touch(&file);
            touch(&other);
            volume.change(&file, |entry| entry.cluster = other.chain[0]);
        }
        "loop" => {
            touch(&file);
            volume.set_fat(file.chain[middle], file.chain[random.below(middle as u64 + 1) as usize]);
        }
        "chain-too-short" => {
            touch(&file);
            volume.set_fat(file.chain[middle - 1], volume.end());
        }
        "chain-too-long" => {
            let free = volume.free()[0];
            volume.set_fat(*file.chain.last().unwrap(), free);
            volume.set_fat(free, volume.end());
        }
        "chain-into-free" => {
            touch(&file);
            volume.set_fat(file.chain[middle], 0);
        }
        "chain-into-bad" => {
            touch(&file);
            volume.set_fat(file.chain[middle], geometry.kind.bad());
        }
        "chain-into-reserved" => {
            touch(&file);
            volume.set_fat(file.chain[middle], 1);
        }
        "chain-out-of-range" => {
            touch(&file);
            let past = u64::from(geometry.kind.bad() - geometry.last_cluster() - 2);
            volume.set_fat(file.chain[middle], geometry.last_cluster() + 1 + random.below(past) as u32);
        }
        "size-too-large" => {
            touch(&file);
            volume.change(&file, |entry| entry.size += 512 * (1 + random.below(100) as u32));
        }
        "size-too-small" => {
            touch(&file);
            volume.change(&file, |entry| entry.size = random.below(u64::from(entry.size) - 600) as u32);
        }
        "directory-size" => volume.change(&directory, |entry| entry.size = 512),
        "dot-wrong" | "dot-dot-wrong" => {
            let at = volume.slots(directory.chain[0])[usize::from(kind == "dot-dot-wrong")];
            let mut entry = ShortEntry::from_bytes(&volume.slot(at));
            entry.cluster ^= 1 + random.below(7) as u32;
            volume.set_slot(at, entry.to_bytes());
        }
        "dot-deleted" => {
            let at = volume.slots(directory.chain[0])[random.below(2) as usize];
            volume.image[at] = 0xE5;
        }
        "bad-name" => {
            touch(&file);
            let at = random.below(3) as usize;
            volume.change(&file, |entry| entry.name.0[at] = *random.pick(b"*?<>|\":/\\\x01\x1f"));
        }
        "duplicate-name" => {
            let parent = |found: &Found| found.path.rsplit_once('/').unwrap().0.to_owned();
            let twin = volume
                .files(0)
                .into_iter()
                .find(|twin| parent(twin) == parent(&file) && twin.path != file.path);
            if let Some(twin) = twin {
                touch(&file);
                touch(&twin);
                volume.change(&twin, |entry| entry.name = file.entry.name);
            }
        }
        "long-checksum" | "long-order" | "long-part-deleted" => {
            let long: Vec<_> = volume.files(0).into_iter().filter(|found| found.slots.len() > 2).collect();
            let found = random.pick(&long).clone();
            touch(&found);
            let at = found.slots[random.below(found.slots.len() as u64 - 1) as usize];
            match kind {
                "long-checksum" => volume.image[at + 13] ^= 1 + random.below(255) as u8,
                "long-order" => volume.image[at] ^= 1 + random.below(15) as u8,
                _ => volume.image[at] = 0xE5,
            }
        }
        "label-bit" => {
            touch(&file);
            volume.change(&file, |entry| entry.attributes.0 |= 0x08);
        }
        "start-out-of-range" => {
            touch(&file);
            volume.change(&file, |entry| entry.cluster = geometry.last_cluster() + 1);
        }
        "start-zero" => {
            touch(&file);
            volume.change(&file, |entry| entry.cluster = 0);
        }
        "directory-start-zero" => {
            touch(&directory);
            volume.change(&directory, |entry| entry.cluster = 0);
        }
        "directory-loop" => {
            let inner =
                volume.directories().into_iter().find(|found| found.path.contains("DEEPEST")).unwrap();
            let outer =
                volume.directories().into_iter().find(|found| found.path == "/deep directory").unwrap();
            touch(&inner);
            volume.change(&inner, |entry| entry.cluster = outer.chain[0]);
        }
        "second-label" => {
            let end = volume.slots(0).into_iter().find(|&at| volume.image[at] == 0).unwrap();
            let mut label = *b"ANOTHER    \x08\0\0\0\0\0\0\0\0\0\0\0\0\x21\x28\0\0\0\0\0\0";
            label[10] = b'0' + random.below(10) as u8;
            volume.set_slot(end, label);
        }
        "boot-copy" => {
            if let Some(backup) = geometry.backup_sector {
                volume.image[geometry.sector_offset(backup) as usize + random.below(90) as usize] ^= 0x10;
            }
        }
        "boot-destroyed" => {
            if geometry.backup_sector.is_some() {
                match random.below(3) {
                    0 => volume.image[..512].fill(0),
                    1 => volume.image[11] ^= 0xFF,
                    _ => volume.image[..512].fill_with(|| random.next() as u8),
                }
            }
        }
        "moved-file" | "moved-directory" => {
            let source = if kind == "moved-file" { &file } else { &directory };
            let target = volume.directories().into_iter().find(|found| found.path == "/second").unwrap();
            let inside = source.path.starts_with(&target.path);
            let slots = volume.slots(if inside { 0 } else { target.chain[0] });
            let run = slots
                .windows(source.slots.len())
                .find(|run| run.iter().all(|&at| matches!(volume.image[at], 0 | 0xE5)));
            if let Some(run) = run.map(<[usize]>::to_vec) {
                touch(source);
                for (&from, to) in source.slots.iter().zip(run) {
                    let slot = volume.slot(from);
                    volume.set_slot(to, slot);
                }
            }
        }
        "directory-flips" | "directory-zero-sector" | "directory-garbage-sector" => {
            let slots = volume.slots(directory.chain[0]);
            let sector = random.below(slots.len() as u64 / 16) as usize * 16;
            let start = slots[sector];
            match kind {
                "directory-flips" => {
                    for _ in 0..1 + random.below(6) {
                        volume.image[start + random.below(512) as usize] ^= 1 << random.below(8);
                    }
                }
                "directory-zero-sector" => volume.image[start..start + 512].fill(0),
                _ => volume.image[start..start + 512].fill_with(|| random.next() as u8),
            }
            touch(&directory);
            // A start or size that changed by a flip may lead to a cluster of any other file, which then shares it
            // and keeps all of its own clusters.
        }
        "fat-entry-0" => {
            let value = volume.fat(0);
            volume.set_fat(0, value ^ 0x08);
        }
        unknown => panic!("no damage of the kind {unknown}"),
    }
    hit
}
