//! The FAT [`Family`]: how clusters are taken and linked, and what a commit writes. [`platter_clusters::Volume`]
//! describes the guarantees of an open volume, and how they are kept.

use crate::backup::{Chosen, choose};
use crate::directory::{FatDirectory, most_clusters};
use crate::layout::{
    Attributes, BootSector, DosTime, FatKind, Geometry, InfoSector, LARGEST_FILE, Label, NAMES, Precision,
    ShortEntry, ShortName, VolumeState, is_sound,
};
use crate::starts::Boot;
use crate::taken::find_free;
use platter_clusters::{
    Bits, ContentRuns, Core, DirectoryEntry, Entries, Family, FileState, FreeSpace, Images, Link, ROOT, Runs,
    Slots, Storage, TABLE_CACHE, Table, Volume, capabilities, in_sectors_of,
};
use platter_device::Device;
use platter_vfs::{Capabilities, DosFlags, Error, Kind, LocalTime, Result, Timestamp, VolumeInfo};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// An open FAT volume.
pub type FatVolume = Volume<FatFamily>;

/// The state that a FAT volume has in addition to what FAT and exFAT share.
pub struct FatFamily {
    geometry: Arc<Geometry>,
    table: Table<Geometry>,
    /// The first sector, with the changes that the next commit writes.
    boot: Vec<u8>,
    state_offset: usize,
    /// The device offset of the information sector, and its bytes as they are on disk.
    info: Option<(u64, Vec<u8>)>,
}

/// Reads the metadata that an open volume needs.
///
/// For a volume that is not `read_only` the copies of the FAT are compared: a bit that is wrong in the one that is read could
/// make a cluster that is in use seem free.
fn open(device: Arc<dyn Device>, read_only: bool) -> Result<Core<FatFamily>> {
    let Chosen { boot: Boot { sector: boot, geometry }, offset, doubt } = choose(&*device)?;
    let geometry = Arc::new(geometry);
    let bytes_per_sector = geometry.bytes_per_sector as usize;
    let device = in_sectors_of(device, geometry.bytes_per_sector);
    let mut first = vec![0; bytes_per_sector];
    device.read_at(offset, &mut first)?;

    let heap = geometry.heap();
    let place = geometry.fat_place(geometry.primary_fat());
    let mut table = Table::new(device.clone(), Geometry::clone(&geometry), place, TABLE_CACHE);
    let mut space = FreeSpace::new(geometry.last_cluster(), heap.cluster_size());
    let mut run = (0, 0);
    let others = geometry.written_fats().filter(|&copy| copy != geometry.primary_fat() && !read_only);
    let others: Vec<u64> = others.map(|copy| geometry.fat_offset(copy)).collect();
    // What an entry leads to is in use. A cluster of which the own entry says that it is free would be given away.
    let mut led = Bits::new(if read_only { 0 } else { geometry.last_cluster() + 1 });
    let differs = table.scan(&others, |cluster, value, alike| {
        if let Link::Next(next) = geometry.link(value)
            && !read_only
        {
            led.set(next);
        }
        if value != 0 {
            return;
        }
        if run.0 + run.1 == cluster {
            run.1 += alike;
        } else {
            space.give(run.0, run.1);
            run = (cluster, alike);
        }
    })?;
    space.give(run.0, run.1);

    let info = match geometry.info_sector {
        Some(sector) => {
            let offset = geometry.sector_offset(sector);
            let mut bytes = vec![0; bytes_per_sector];
            device.read_at(offset, &mut bytes)?;
            let head = bytes[..InfoSector::SIZE].try_into().expect("an information sector's length");
            let info = InfoSector::from_bytes(head);
            space.start_at(info.next);
            info.is_valid().then_some((offset, bytes))
        }
        None => None,
    };
    let table_dirty = match crate::layout::clean_bits(geometry.kind) {
        Some((clean, _)) => table.get(1)? & clean == 0,
        None => false,
    };
    let was_dirty = boot.state.dirty() || table_dirty;
    // A power cut may leave that too, of clusters that no file's size covers.
    let given = space.first_of(&led).filter(|_| !was_dirty).map(|cluster| {
        let found = format!("cluster {cluster}, to which an entry leads, free");
        Error::damaged("FAT", heap.offset(cluster), "clusters of chains taken", found)
    });
    drop(led);
    let taken = if read_only { None } else { find_free(&*device, &geometry, &mut table) };
    let root = ShortEntry {
        attributes: Attributes(Attributes::DIRECTORY),
        cluster: geometry.root_cluster,
        ..ShortEntry::default()
    };
    let state_offset = boot.state_offset();
    let family = FatFamily { geometry, table, boot: first, state_offset, info };
    let core = Core::new(device, heap, family, space, root, was_dirty);
    let copies = differs.map(|at| Error::damaged("FAT", at, "the same entries in all copies", "others"));
    if let Some(error) = doubt.or(copies).or(given).or(taken) {
        core.health.close(format!("{error}; see check"));
    }
    Ok(core)
}

impl DirectoryEntry for ShortEntry {
    fn is_directory(&self) -> bool {
        self.attributes.directory()
    }

    fn cluster(&self) -> u32 {
        self.cluster
    }

    fn size(&self) -> u64 {
        u64::from(self.size)
    }

    fn flags(&self) -> DosFlags {
        DosFlags(u32::from(self.attributes.0) & DosFlags::SETTABLE.0)
    }

    fn set_flags(&mut self, flags: DosFlags) {
        let settable = DosFlags::SETTABLE.0;
        self.attributes.0 = self.attributes.0 & !(settable as u8) | (flags.0 & settable) as u8;
    }

    fn times(&self, local: LocalTime) -> [Option<Timestamp>; 3] {
        let time = |time: DosTime| time.is_set().then(|| time.to_time(local));
        [time(self.created), Some(self.modified.to_time(local)), time(self.accessed)]
    }

    fn set_times(&mut self, [created, modified, accessed]: [Option<Timestamp>; 3], local: LocalTime) {
        let time = |time, precision| DosTime::from_time(time, local, precision);
        self.created = created.map_or(self.created, |at| time(at, Precision::Hundredths));
        self.modified = modified.map_or(self.modified, |at| time(at, Precision::TwoSeconds));
        self.accessed = accessed.map_or(self.accessed, |at| time(at, Precision::Day));
    }
}

impl Entries for Geometry {
    fn bits(&self) -> u32 {
        self.kind.bits()
    }

    fn get(&self, table: &[u8], index: u32) -> Option<u32> {
        crate::layout::get(self.kind, table, index)
    }

    fn set(&self, table: &mut [u8], index: u32, value: u32) -> bool {
        crate::layout::set(self.kind, table, index, value)
    }

    fn link(&self, value: u32) -> Link {
        Geometry::link(self, value)
    }

    fn end(&self) -> u32 {
        self.kind.end()
    }
}

impl FatFamily {
    /// Returns `images`, whose offsets are within the table, with device offsets: once for each copy of the FAT.
    fn on_every_copy(&self, images: &Images) -> Images {
        let copies = self.geometry.written_fats();
        copies
            .flat_map(|copy| {
                let start = self.geometry.fat_offset(copy);
                images.iter().map(move |(offset, data)| (start + offset, data.clone()))
            })
            .collect()
    }

    /// Returns the changed sectors of the table, for every copy of the FAT.
    fn take_table(&mut self) -> Images {
        let images = self.table.take_dirty();
        self.on_every_copy(&images)
    }

    fn boot_sector(&self) -> BootSector {
        BootSector::from_bytes(self.boot[..BootSector::SIZE].try_into().expect("a boot sector's length"))
    }
}

impl Family for FatFamily {
    type Entry = ShortEntry;
    type Directory = FatDirectory;

    const UNWRITTEN: bool = false;
    // The first slot of a directory below the root is its entry `.`, and the root has a number of its own.
    const NUMBERED_SLOT: u64 = 0;

    fn open(device: Arc<dyn Device>, read_only: bool) -> Result<Core<FatFamily>> {
        open(device, read_only)
    }

    fn name(&self) -> &'static str {
        self.geometry.kind.name()
    }

    fn capabilities(&self) -> Capabilities {
        let shared = capabilities(LARGEST_FILE, Duration::from_secs(2), Duration::from_secs(86_400));
        Capabilities { names: NAMES, ..shared }
    }

    fn info(core: &mut Core<FatFamily>) -> Result<VolumeInfo> {
        let label = core.directory(ROOT)?.label();
        let boot = core.family.boot_sector();
        let label = match label {
            Some(label) => Label(label.name.0).to_string(),
            None if boot.is_extended() && boot.label != BootSector::NO_NAME => Label(boot.label).to_string(),
            None => String::new(),
        };
        let no_error =
            crate::layout::clean_bits(core.family.geometry.kind).map_or(0, |(_, no_error)| no_error);
        let has_failed = boot.state.0 & VolumeState::SURFACE_TEST != 0
            || no_error != 0 && core.family.table.get(1)? & no_error == 0;
        let geometry = &core.family.geometry;
        let details = vec![
            ("bytes per sector", geometry.bytes_per_sector.to_string()),
            ("clusters", geometry.clusters.to_string()),
            ("copies of the FAT", geometry.fat_count.to_string()),
            ("sectors per FAT", geometry.fat_sectors.to_string()),
            ("first data sector", geometry.first_data_sector.to_string()),
        ];
        Ok(VolumeInfo {
            format: geometry.kind.name().into(),
            label,
            identifier: format!("{:04X}-{:04X}", boot.serial >> 16, boot.serial & 0xFFFF),
            cluster: u64::from(geometry.cluster_size),
            dirty: core.was_dirty,
            read_only: None,
            damage: Vec::new(),
            has_media_failures: has_failed,
            metadata_checksum: None,
            checkpoint: None,
            details,
        })
    }

    fn set_label(core: &mut Core<FatFamily>, label: &str) -> Result<()> {
        let label = if label.is_empty() { None } else { Some(Label::new(label)?) };
        if label.is_some() && core.directory(ROOT)?.label().is_none() {
            core.make_room(ROOT, 1)?;
        }
        let now = DosTime::from_time(core.device.now().into(), core.local, Precision::TwoSeconds);
        let entry = label.map(|label| ShortEntry {
            name: ShortName(label.0),
            attributes: Attributes(Attributes::LABEL),
            modified: now,
            ..ShortEntry::default()
        });
        core.pin(ROOT);
        core.directory(ROOT)?.set_label(entry);
        let mut boot = core.family.boot_sector();
        if boot.is_extended() {
            boot.label = label.map_or(BootSector::NO_NAME, |label| label.0);
            core.family.boot[..BootSector::SIZE].copy_from_slice(&boot.to_bytes());
            core.change.named = true;
        }
        Ok(())
    }

    fn read_directory(core: &mut Core<FatFamily>, number: u64) -> Result<FatDirectory> {
        let geometry = core.family.geometry.clone();
        let storage = match number {
            ROOT if geometry.root_cluster == 0 => {
                Storage::Fixed(geometry.root_offset(), u64::from(geometry.root_entries) * 32)
            }
            _ => {
                let first = core.entity(number)?.entry.cluster;
                Storage::Chain(core.family.table.walk(first, None, most_clusters(&geometry))?)
            }
        };
        let rules = crate::directory::rules(&geometry);
        let mut slots = Slots::read(&*core.device, rules, core.heap, storage)?;
        // Slots after the end mark may hold anything. But if all of them are entries, a slot before them was
        // overwritten with zeroes.
        let behind = slots.take_behind();
        let mut live = behind.as_chunks().0.iter().filter(|slot| !matches!(slot[0], 0 | 0xE5)).peekable();
        let cut_off = live.peek().is_some() && live.all(|slot| is_sound(&geometry, slot));
        Ok(FatDirectory::parse(slots, number == ROOT, geometry.kind != FatKind::Fat32, cut_off))
    }

    fn check_directory(&self, entry: &ShortEntry) -> Result<()> {
        match entry.cluster {
            0 => Err(Error::damaged("directory entry", 0, "the first cluster of a directory", 0)),
            _ => Ok(()),
        }
    }

    fn new_entry(&self, kind: Kind, now: Timestamp, local: LocalTime) -> ShortEntry {
        let attributes = match kind {
            Kind::Directory => Attributes::DIRECTORY,
            _ => Attributes::ARCHIVE,
        };
        let mut entry = ShortEntry { attributes: Attributes(attributes), ..ShortEntry::default() };
        entry.set_times([Some(now); 3], local);
        entry
    }

    fn fresh_directory(
        core: &mut Core<FatFamily>,
        cluster: u32,
        entry: &mut ShortEntry,
        parent: u64,
    ) -> Result<FatDirectory> {
        entry.cluster = cluster;
        let above = if parent == ROOT { 0 } else { core.entity(parent)?.entry.cluster };
        let geometry = &core.family.geometry;
        let (rules, is_narrow) = (crate::directory::rules(geometry), geometry.kind != FatKind::Fat32);
        Ok(FatDirectory::fresh(rules, core.heap, entry.clone(), above, is_narrow))
    }

    fn moved_directory(core: &mut Core<FatFamily>, number: u64) -> Result<()> {
        let parent = core.entity(number)?.parent;
        let above = if parent == ROOT { 0 } else { core.entity(parent)?.entry.cluster };
        core.directory(number)?.set_parent(above);
        Ok(())
    }

    fn directory_clusters(core: &mut Core<FatFamily>, entry: &ShortEntry) -> u32 {
        let most = most_clusters(&core.family.geometry);
        core.family.table.walk(entry.cluster, None, most).map_or(0, |runs| runs.clusters())
    }

    fn largest_directory(&self) -> u64 {
        u64::from(crate::layout::MOST_SLOTS) * crate::layout::SLOT as u64
    }

    fn content(core: &mut Core<FatFamily>, entry: &ShortEntry, whole: bool) -> Result<ContentRuns> {
        let size = u64::from(entry.size);
        let needed = if whole { 0 } else { core.heap.clusters_for(size) as u32 };
        let runs = match entry.cluster {
            0 if needed > 0 => {
                let expected = format!("{needed} clusters for {size} bytes");
                return Err(Error::damaged("cluster chain", 0, expected, "none"));
            }
            0 => Runs::default(),
            first => core.family.table.walk(first, Some(needed), core.heap.count)?,
        };
        Ok(ContentRuns { runs, size, valid: size })
    }

    fn link(
        core: &mut Core<FatFamily>,
        _entry: &mut ShortEntry,
        runs: &Runs,
        linked: u32,
        to: u32,
    ) -> Result<()> {
        core.family.table.append(runs, linked, to, &mut core.change.ends)?;
        core.linked(to - linked);
        Ok(())
    }

    fn record(entry: &mut ShortEntry, state: &FileState) {
        entry.size = state.size as u32;
        entry.cluster = if state.linked > 0 { state.runs.first() } else { 0 };
    }

    fn record_directory(core: &mut Core<FatFamily>, _number: u64, runs: &Runs) {
        core.family.table.grew(runs);
    }

    fn backlog(&self) -> usize {
        self.table.dirty_bytes()
    }

    /// Returns the boot sector and the first sector of each FAT, which hold the flags for a clean volume. Other
    /// changes in the FAT's first sector are new links, which may be written early.
    fn mark(core: &mut Core<FatFamily>, in_use: bool) -> Result<Images> {
        let family = &mut core.family;
        family.table.hold_back()?;
        let state = family.state_offset;
        family.boot[state] = family.boot[state] & !1 | u8::from(in_use);
        if let Some((clean, _)) = crate::layout::clean_bits(family.geometry.kind) {
            let value = family.table.get(1)?;
            family.table.set(1, if in_use { value & !clean } else { value | clean })?;
        }
        let mut images = vec![(0, family.boot.clone())];
        let first = family.table.first_sector()?;
        images.extend(family.on_every_copy(&vec![(0, first)]));
        if !in_use {
            family.table.take_dirty();
        }
        Ok(images)
    }

    fn is_changed(&self) -> bool {
        self.table.dirty_bytes() > 0
    }

    fn linked(core: &mut Core<FatFamily>) -> Result<Images> {
        core.family.table.hold_back()?;
        Ok(core.family.take_table())
    }

    fn grown(core: &mut Core<FatFamily>) -> Result<Images> {
        core.family.table.let_go()?;
        Ok(core.family.take_table())
    }

    fn named(core: &mut Core<FatFamily>) -> Images {
        let family = &core.family;
        let mut images = vec![(0, family.boot.clone())];
        if let Some(sector) = family.geometry.backup_sector {
            // The copy of the boot sector is never marked as in use.
            let mut boot = family.boot.clone();
            boot[family.state_offset] &= !1;
            images.push((family.geometry.sector_offset(sector), boot));
        }
        images
    }

    fn freed(core: &mut Core<FatFamily>, freed: &[(u32, u32)], ends: &BTreeSet<u32>) -> Result<Images> {
        let family = &mut core.family;
        for &(start, count) in freed {
            for cluster in start..start + count {
                family.table.set(cluster, 0)?;
            }
        }
        for &cluster in ends {
            family.table.set(cluster, family.geometry.kind.end())?;
        }
        Ok(family.take_table())
    }

    /// Returns the information sector, if it changed.
    fn counted(core: &mut Core<FatFamily>) -> Images {
        let free = core.free() + core.reserved;
        let next = core.space.cursor();
        let Some((offset, bytes)) = core.family.info.as_mut() else { return Images::new() };
        let old: &[u8; InfoSector::SIZE] =
            bytes[..InfoSector::SIZE].try_into().expect("an information sector");
        let new = InfoSector { free, next, ..InfoSector::from_bytes(old) }.to_bytes();
        if new == *old {
            return Images::new();
        }
        bytes[..InfoSector::SIZE].copy_from_slice(&new);
        vec![(*offset, bytes.clone())]
    }
}
