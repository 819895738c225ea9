//! Finding the layout of a volume whose boot sector is lost with its copy.
//!
//! A directory below the root begins with an entry that names the directory's own cluster, so two of them tell the size
//! and the place of all clusters. A FAT begins with an entry that repeats the media byte (fatgen103, "FAT Data
//! Structure"), so two copies tell the length of one, and where the clusters or the fixed root directory begin.

use crate::chains::Fit;
use crate::layout::{FatKind, Geometry, SLOT, ShortEntry, ShortName, Slot, is_sound};
use platter_clusters::{Disk, each_sector};
use platter_vfs::Progress;
use std::collections::{BTreeMap, BTreeSet};

/// The unit in which places are searched, in bytes.
const SECTOR: u64 = 512;
/// After so many directories the search ends: they tell enough.
const MOST_DIRECTORIES: usize = 4096;
/// The most places where a FAT may begin that are considered. Those of the volume are among the first, as FATs lie in
/// front of all files.
const MOST_FATS: usize = 32;
/// The most layouts by directories that are considered.
const MOST_HEAPS: usize = 32;
/// The most layouts that are compared with the files.
const MOST_LAYOUTS: usize = 512;
/// The lengths of fixed root directories in bytes: what formatters choose, the usual ones first.
const ROOTS: [u64; 8] = [16384, 7168, 3584, 7680, 8192, 2048, 6144, 32768];
/// The sizes of clusters in bytes.
const SIZES: [u64; 11] = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131_072, 262_144, 524_288];
/// The kinds of FAT. One of the longest entries may pass for the others too.
const KINDS: [FatKind; 3] = [FatKind::Fat32, FatKind::Fat16, FatKind::Fat12];

/// What was found on the device.
#[derive(Default)]
struct Evidence {
    /// The offsets of directories below the root, with the cluster that each names as its own.
    directories: Vec<(u64, u32)>,
    /// The offsets of what may be FATs, with their first eight bytes.
    fats: Vec<(u64, [u8; 8])>,
}

/// The place of cluster 2 in bytes, and the size of a cluster in bytes.
type ClusterPlace = (u64, u64);

/// The copies of the FAT: where the first begins in bytes, how many there are, and the length of one in bytes.
type Fats = (u64, u64, u64);

/// A layout that was found. One without a FAT has `fat_count` 0.
pub(crate) struct Layout {
    pub geometry: Geometry,
    /// Whether another layout agrees as well with what is on the device: then what this one leads to may be wrong.
    pub is_doubtful: bool,
}

/// Searches for the layout of a volume; `None` if too little is left that tells it.
pub(crate) fn search(disk: &Disk, progress: &dyn Progress) -> Option<Layout> {
    let evidence = gather(disk, progress);
    let heaps = heaps(&evidence.directories);
    let length = disk.device().len();
    let mut by_directories = Vec::new();
    for heap in &heaps {
        by_directories.extend(layouts(&evidence, *heap, length));
        by_directories.extend(without_fat(*heap, length));
    }
    // One directory alone fits every cluster size, and an empty root fits every layout.
    let has_several = evidence.directories.len() > 1;
    let likely = by_directories.iter().filter(|geometry| has_several || geometry.fat_count > 0);
    let by_fats = by_fats(&evidence, length);
    let mut likely = likely.chain(by_fats.iter().filter(|geometry| evidence.fits(geometry)));
    if !has_several {
        let with_root = likely.filter(|geometry| root(disk, geometry) == Root::Entries);
        return best(disk, with_root.take(MOST_LAYOUTS), &evidence.directories);
    }
    let mut told = by_directories.iter();
    let found = likely.find(|geometry| root(disk, geometry) == Root::Entries);
    let found = found.or_else(|| told.find(|geometry| root(disk, geometry) == Root::Unknown));
    found.map(|geometry| Layout { geometry: geometry.clone(), is_doubtful: false })
}

/// Returns the layout that agrees best with the files, and of equal ones the first.
fn best<'g>(
    disk: &Disk,
    layouts: impl Iterator<Item = &'g Geometry>,
    directories: &[(u64, u32)],
) -> Option<Layout> {
    let directories: Vec<u64> = directories.iter().map(|(at, _)| *at).collect();
    let fits: Vec<(Fit, bool, &Geometry)> = layouts
        .map(|geometry| {
            let root = u64::from(geometry.root_sectors) * SECTOR;
            (Fit::of(disk, geometry, &directories), root == 0 || ROOTS.contains(&root), geometry)
        })
        .collect();
    let rank = |one: &(Fit, bool, &Geometry)| (one.0, one.1);
    let greatest = fits.iter().map(rank).max()?;
    let mut all = fits.iter().filter(|one| rank(one) == greatest).map(|(_, _, geometry)| *geometry);
    let geometry = all.next()?;
    let place = |geometry: &Geometry| (geometry.first_data_sector, geometry.cluster_size);
    let is_doubtful = greatest.0.is_contradicted() || all.any(|other| place(other) != place(geometry));
    Some(Layout { geometry: geometry.clone(), is_doubtful })
}

fn gather(disk: &Disk, progress: &dyn Progress) -> Evidence {
    let mut found = Evidence::default();
    each_sector(disk, progress, &mut |offset, sector| {
        found.look_at(offset, sector);
        found.directories.len() < MOST_DIRECTORIES
    });
    found
}

impl Evidence {
    fn look_at(&mut self, offset: u64, sector: &[u8; SECTOR as usize]) {
        if let Some(cluster) = own_cluster(sector) {
            self.directories.push((offset, cluster));
        }
        let start: [u8; 8] = *sector.first_chunk().expect("a sector has more bytes");
        if self.fats.len() < MOST_FATS && KINDS.into_iter().any(|kind| begins_fat(kind, start)) {
            self.fats.push((offset, start));
        }
    }

    /// Returns the FATs of this kind in front of the clusters.
    fn fats_of(&self, kind: FatKind, end: u64) -> Vec<(u64, [u8; 8])> {
        self.fats.iter().filter(|(at, start)| *at < end && begins_fat(kind, *start)).copied().collect()
    }

    /// Whether most of the directories are where the layout has them.
    fn fits(&self, geometry: &Geometry) -> bool {
        let is_there = |(at, cluster): &&(u64, u32)| {
            let cluster = if geometry.kind == FatKind::Fat32 { *cluster } else { *cluster & 0xFFFF };
            geometry.has_cluster(cluster) && geometry.cluster_offset(cluster) == *at
        };
        self.directories.iter().filter(is_there).count() * 2 >= self.directories.len()
    }
}

/// What is where a layout has the root directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Root {
    Entries,
    /// Nothing, or what cannot be read.
    Unknown,
    /// No directory.
    None,
}

fn root(disk: &Disk, geometry: &Geometry) -> Root {
    let at = match geometry.root_cluster {
        0 => geometry.root_offset(),
        cluster => geometry.cluster_offset(cluster),
    };
    let mut slots = [0; SECTOR as usize];
    if disk.read(at, &mut slots).is_err() || slots[0] == 0 {
        return Root::Unknown;
    }
    let is_directory = slots.as_chunks::<SLOT>().0.iter().all(|slot| is_sound(geometry, slot));
    if is_directory { Root::Entries } else { Root::None }
}

/// Returns the cluster that a sector names as its own, if a directory below the root begins with it.
fn own_cluster(sector: &[u8; SECTOR as usize]) -> Option<u32> {
    let slots = sector.as_chunks::<SLOT>().0;
    let dots = |slot: &[u8; SLOT], name: ShortName| match Slot::from_bytes(slot) {
        Slot::Short(short) => {
            Some(short).filter(|short| short.name == name && short.attributes.directory() && short.size == 0)
        }
        _ => None,
    };
    let own: ShortEntry = dots(&slots[0], ShortName::DOT)?;
    dots(&slots[1], ShortName::DOT_DOT)?;
    Some(own.cluster).filter(|cluster| *cluster != 0)
}

/// Whether these are the first bytes of a FAT: entry 0 repeats the media byte, and entry 1 is an end mark apart from the
/// two bits that tell whether the volume was cleanly unmounted.
fn begins_fat(kind: FatKind, start: [u8; 8]) -> bool {
    let entry = |index| crate::layout::get(kind, &start, index).unwrap_or(0);
    let clean = crate::layout::clean_bits(kind).map_or(0, |(clean, no_error)| clean | no_error);
    // A media byte of FF is not told from the ones of a bitmap where the next entries are all ones too.
    let is_media = matches!(start[0], 0xF0 | 0xF8..) && start != [0xFF; 8];
    is_media && entry(0) | 0xFF == kind.end() && entry(1) | clean > kind.bad()
}

/// Returns the places and sizes of clusters with which two directories or more agree, or the only one. An image of a
/// volume in a file has directories too, so of those with which many agree the first on the device comes first.
fn heaps(directories: &[(u64, u32)]) -> Vec<ClusterPlace> {
    let mut agreeing: BTreeMap<ClusterPlace, usize> = BTreeMap::new();
    for (at, cluster) in directories {
        // FAT12 and FAT16 have 16 bits for the number; the upper half of the field belongs to other systems.
        for cluster in BTreeSet::from([*cluster, *cluster & 0xFFFF]) {
            for size in SIZES {
                let heap = u64::from(cluster).checked_sub(2).and_then(|before| at.checked_sub(before * size));
                heap.into_iter().for_each(|heap| *agreeing.entry((heap, size)).or_default() += 1);
            }
        }
    }
    let most = agreeing.values().copied().max().unwrap_or(0);
    agreeing.retain(|_, count| *count >= directories.len().min(2) && *count >= most / 8);
    agreeing.into_keys().take(MOST_HEAPS).collect()
}

/// Returns the layouts with clusters in this place and the FATs in front of it: first those with two FATs.
fn layouts(evidence: &Evidence, heap: ClusterPlace, length: u64) -> Vec<Geometry> {
    let (start, _) = heap;
    let (mut two, mut one) = (Vec::new(), Vec::new());
    for kind in KINDS {
        let fats = evidence.fats_of(kind, start);
        two.extend(pairs(&fats).filter_map(|fats| layout(kind, Some(fats), heap, None, length)));
        // If the beginning of one FAT is left, the root directory or the clusters tell where the last one ends. That the
        // second FAT may lie in between does no harm: its entries have no clusters.
        for (first, root) in
            fats.iter().flat_map(|(first, _)| roots(kind).iter().map(move |root| (*first, *root)))
        {
            let fats = (start - first).checked_sub(root).map(|fat| (first, 1, fat));
            one.extend(fats.and_then(|fats| layout(kind, Some(fats), heap, Some(root), length)));
        }
    }
    two.append(&mut one);
    two
}

/// Returns the layouts that two FATs tell, if no directory is left.
fn by_fats(evidence: &Evidence, length: u64) -> Vec<Geometry> {
    let mut found = Vec::new();
    for kind in KINDS {
        let fats = evidence.fats_of(kind, length);
        for ((first, copies, fat), root) in
            pairs(&fats).flat_map(|fats| roots(kind).iter().map(move |root| (fats, *root)))
        {
            let start = first + copies * fat + root;
            // The clusters are as small as the FAT has entries for, more likely than not; or smaller than that if the
            // volume ends before the device does.
            let entries = fat * 8 / u64::from(kind.bits());
            let fits = |size: &u64| length.saturating_sub(start) / size + 2 <= entries;
            let smaller = SIZES.into_iter().rev().filter(|size| !fits(size));
            let sizes = SIZES.into_iter().filter(fits).chain(smaller);
            let fats = Some((first, copies, fat));
            found.extend(sizes.filter_map(|size| layout(kind, fats, (start, size), Some(root), length)));
        }
    }
    found
}

/// Returns the layouts with clusters in this place, if no FAT is left.
fn without_fat(heap: ClusterPlace, length: u64) -> Vec<Geometry> {
    let clusters = length.saturating_sub(heap.0) / heap.1;
    let kind = FatKind::of(u32::try_from(clusters).unwrap_or(u32::MAX));
    roots(kind).iter().filter_map(|root| layout(kind, None, heap, Some(*root), length)).collect()
}

/// The lengths in bytes that the fixed root directory may have.
fn roots(kind: FatKind) -> &'static [u64] {
    if kind == FatKind::Fat32 { &[0] } else { &ROOTS }
}

/// Two FATs that follow one another, for each two places where one begins and the first entries of clusters are the
/// same.
fn pairs(fats: &[(u64, [u8; 8])]) -> impl Iterator<Item = Fats> {
    let pairs = fats
        .iter()
        .enumerate()
        .flat_map(|(number, first)| fats[number + 1..].iter().map(move |second| (*first, *second)));
    let equal = pairs.filter(|((_, one), (_, two))| one[0] == two[0] && one[4..] == two[4..]);
    equal.map(|((first, _), (second, _))| (first, 2, second - first))
}

/// Returns the layout with clusters in this place up to the end of the device, or as many as the FAT has entries for.
/// The fixed root directory has `root` bytes, or those between the FATs and the clusters. `None` if no volume has such a
/// layout.
fn layout(
    kind: FatKind,
    fats: Option<Fats>,
    heap: ClusterPlace,
    root: Option<u64>,
    length: u64,
) -> Option<Geometry> {
    let (start, size) = heap;
    let root = match (root, fats) {
        (None, Some((first, copies, fat))) => start.checked_sub(first + copies * fat)?,
        (root, _) => root?,
    };
    let (first, copies, fat) = fats.or_else(|| Some((start.checked_sub(root)?, 0, 0)))?;
    let entries = fats.map_or(u64::MAX, |_| fat * 8 / u64::from(kind.bits()));
    let most = match kind {
        FatKind::Fat12 => FatKind::MOST_12,
        FatKind::Fat16 => FatKind::MOST_16,
        FatKind::Fat32 => FatKind::MOST_32,
    };
    let clusters = (length.checked_sub(start)? / size).min(entries.saturating_sub(2)).min(most.into());
    let is_possible = match kind {
        FatKind::Fat32 => root == 0,
        // The number of clusters tells FAT12 from FAT16 (fatgen103, "FAT Type Determination").
        _ => root > 0 && root.is_multiple_of(SECTOR) && FatKind::of(clusters as u32) == kind,
    };
    let sectors = |bytes: u64| u32::try_from(bytes / SECTOR).ok().filter(|_| is_possible && clusters > 0);
    let root_sectors = sectors(root)?;
    Some(Geometry {
        kind,
        bytes_per_sector: SECTOR as u32,
        cluster_size: size as u32,
        reserved_sectors: sectors(first)?,
        fat_count: copies as u32,
        fat_sectors: sectors(fat)?,
        root_entries: root_sectors * (SECTOR / SLOT as u64) as u32,
        root_sectors,
        root_cluster: if root == 0 { 2 } else { 0 },
        total_sectors: sectors(start + clusters * size)?,
        first_data_sector: sectors(start)?,
        clusters: clusters as u32,
        active_fat: None,
        info_sector: None,
        backup_sector: None,
    })
}
