//! exFAT as a family of volumes: how its clusters are taken and linked, and what a commit writes. What an open volume
//! promises, and how, is told by [`platter_clusters::Volume`].
//!
//! A file lies in one run as long as it can: then its entry says so (`NoFatChain`, 6.3.4.2) and the FAT says nothing of
//! it. When it goes on elsewhere, its whole chain is written to the FAT first, and its entry says otherwise after that.

use crate::bitmap::Bitmap;
use crate::directory::{ExfatDirectory, rules};
use crate::layout::{
    Attributes, BitmapEntry, BootRegion, BootSector, FileInfo, Geometry, LARGEST_DIRECTORY, LabelEntry,
    Precision, Primary, SLOT, Stamp, Upcase, UpcaseEntry, VolumeFlags, is_benign, kind, table_checksum,
};
use platter_clusters::{
    Content, Core, Entry, Family, FileState, FreeSpace, Images, ROOT, Runs, Slots, Storage, Table, Volume,
    first_sector,
};
use platter_device::Device;
use platter_vfs::{Capabilities, DosFlags, Error, Kind, NameRules, Result, Timestamp, VolumeInfo};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of the FAT that are kept in memory.
const TABLE_CACHE: usize = 16 << 20;

/// An open exFAT volume.
pub type ExfatVolume = Volume<ExfatFamily>;

/// What an exFAT volume has that others have not.
pub struct ExfatFamily {
    geometry: Geometry,
    table: Table<Geometry>,
    bitmap: Bitmap,
    upcase: Arc<Upcase>,
    /// The first sector, with what is to become of it.
    boot: Vec<u8>,
}

/// The boot sector of a device, if it is exFAT's.
///
/// # Errors
/// [`Error::NotThisFormat`] if it is not, and the device's.
pub(crate) fn read_boot(device: &dyn Device) -> Result<BootSector> {
    let Some(bytes) = first_sector(device)? else {
        let reason = "the device is smaller than a boot sector".into();
        return Err(Error::NotThisFormat { format: "exFAT", reason });
    };
    let boot = BootSector::from_bytes(&bytes);
    boot.claims()?;
    Ok(boot)
}

/// What the root directory has besides names.
struct Found {
    bitmap: Option<BitmapEntry>,
    upcase: Option<UpcaseEntry>,
}

/// Finds bitmap and up-case table in the root directory.
fn find(slots: &Slots, active: u32, place: u64) -> Result<Found> {
    let mut found = Found { bitmap: None, upcase: None };
    for at in 0..slots.end() {
        let slot = slots.slot(at);
        match Primary::of(slot) {
            Primary::Other(kind::BITMAP) => {
                let entry = BitmapEntry::from_bytes(slot);
                if u32::from(entry.flags & 1) == active {
                    found.bitmap = found.bitmap.or(Some(entry));
                }
            }
            Primary::Other(kind::UPCASE) => {
                found.upcase = found.upcase.or(Some(UpcaseEntry::from_bytes(slot)))
            }
            Primary::Other(kind::LABEL) => {}
            Primary::Other(other) if !is_benign(other) => {
                // 8.2: such a volume is not to be mounted.
                let (expected, found) = ("an entry of a known type", format!("type {other:02X}"));
                return Err(Error::damaged(
                    "root directory",
                    place + u64::from(at) * SLOT as u64,
                    expected,
                    found,
                ));
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Reads what an open volume needs.
fn open(device: Arc<dyn Device>) -> Result<Core<ExfatFamily>> {
    let boot = read_boot(&*device)?;
    let geometry = boot.geometry(device.len())?;
    let sector = geometry.sector as usize;
    if sector < device.sectors().logical as usize {
        let reason = "its sectors are smaller than the device's".into();
        return Err(Error::NotThisFormat { format: "exFAT", reason });
    }
    let mut region = vec![0; BootRegion::SECTORS * sector];
    device.read_at(0, &mut region)?;
    if let Err((found, expected)) = BootRegion::verify(&region, sector) {
        let place = (BootRegion::SUMMED * sector) as u64;
        return Err(Error::damaged(
            "boot checksum",
            place,
            format!("{expected:08X}"),
            format!("{found:08X}"),
        ));
    }
    region.truncate(sector);

    let heap = geometry.heap;
    let mut table = Table::new(device.clone(), geometry.clone(), geometry.fat_place(), TABLE_CACHE);
    let first = geometry.root_cluster;
    let chain = table.walk(first, None, most_clusters(&geometry))?;
    let slots = Slots::read(&*device, rules(geometry.sector), heap, Storage::Chain(chain))?;
    let found = find(&slots, geometry.active_fat, heap.offset(first))?;
    let missing = |what| Error::damaged("root directory", heap.offset(first), what, "none");

    let entry = found.bitmap.ok_or_else(|| missing("an entry for the allocation bitmap"))?;
    let needed = heap.clusters_for(geometry.bitmap_bytes()) as u32;
    let runs = table.walk(entry.cluster, Some(needed), heap.count)?;
    let bitmap = Bitmap::read(&*device, heap, geometry.sector, runs)?;

    let entry = found.upcase.ok_or_else(|| missing("an entry for the up-case table"))?;
    let upcase = Arc::new(read_upcase(&*device, &geometry, &mut table, &entry)?);

    let mut space = FreeSpace::new(heap.last(), heap.cluster_size());
    bitmap.free_runs(|start, count| space.give(start, count));
    let root =
        FileInfo { attributes: Attributes(Attributes::DIRECTORY), cluster: first, ..FileInfo::default() };
    let was_dirty = boot.flags.has(VolumeFlags::DIRTY);
    let two = geometry.fat_count == 2;
    let family = ExfatFamily { geometry, table, bitmap, upcase, boot: region };
    let mut core = Core::new(device, heap, family, space, root, was_dirty);
    if two {
        core.frozen = Some("TexFAT volumes, which have two FATs, are only read".into());
    }
    Ok(core)
}

/// Reads the up-case table and verifies its checksum.
fn read_upcase(
    device: &dyn Device,
    geometry: &Geometry,
    table: &mut Table<Geometry>,
    entry: &UpcaseEntry,
) -> Result<Upcase> {
    let heap = geometry.heap;
    if !(2..=Upcase::MOST_BYTES).contains(&entry.length) {
        let expected = format!("2 to {} bytes", Upcase::MOST_BYTES);
        return Err(Error::damaged("up-case table", 0, expected, entry.length));
    }
    let runs = table.walk(entry.cluster, Some(heap.clusters_for(entry.length) as u32), heap.count)?;
    let place = heap.offset(entry.cluster);
    let mut bytes = Vec::new();
    for run in runs.iter() {
        let sector = u64::from(geometry.sector);
        let rest = (entry.length - bytes.len() as u64).next_multiple_of(sector);
        let length = rest.min(u64::from(run.count) << heap.shift) as usize;
        let at = bytes.len();
        bytes.resize(at + length, 0);
        device.read_at(heap.offset(run.cluster), &mut bytes[at..])?;
        if bytes.len() as u64 >= entry.length {
            break;
        }
    }
    bytes.truncate(entry.length as usize);
    let sum = table_checksum(&bytes);
    if sum != entry.checksum {
        let (expected, found) = (format!("checksum {:08X}", entry.checksum), format!("{sum:08X}"));
        return Err(Error::damaged("up-case table", place, expected, found));
    }
    Upcase::from_bytes(&bytes, place)
}

/// The most clusters a directory can have.
pub(crate) fn most_clusters(geometry: &Geometry) -> u32 {
    ((LARGEST_DIRECTORY >> geometry.heap.shift) as u32).clamp(1, geometry.heap.count)
}

impl Entry for FileInfo {
    fn is_directory(&self) -> bool {
        self.attributes.directory()
    }

    fn cluster(&self) -> u32 {
        self.cluster
    }

    fn size(&self) -> u64 {
        self.length
    }

    fn flags(&self) -> DosFlags {
        DosFlags(u32::from(self.attributes.0) & DosFlags::SETTABLE.0)
    }

    fn set_flags(&mut self, flags: DosFlags) {
        let settable = DosFlags::SETTABLE.0;
        self.attributes.0 = self.attributes.0 & !(settable as u16) | (flags.0 & settable) as u16;
    }

    fn times(&self, offset: i32) -> [Option<Timestamp>; 3] {
        [self.created, self.modified, self.accessed].map(|stamp| Some(stamp.to_timestamp(offset)))
    }

    fn set_times(&mut self, [created, modified, accessed]: [Option<Timestamp>; 3], offset: i32) {
        let stamp = |time, precision| Stamp::from_timestamp(time, offset, precision);
        self.created = created.map_or(self.created, |at| stamp(at, Precision::Hundredths));
        self.modified = modified.map_or(self.modified, |at| stamp(at, Precision::Hundredths));
        self.accessed = accessed.map_or(self.accessed, |at| stamp(at, Precision::TwoSeconds));
    }
}

impl ExfatFamily {
    fn boot_sector(&self) -> BootSector {
        BootSector::from_bytes(self.boot[..BootSector::SIZE].try_into().expect("a boot sector's length"))
    }

    /// The clusters that hold so many bytes from `first` on.
    fn runs(&mut self, contiguous: bool, first: u32, length: u64, whole: bool) -> Result<Runs> {
        let heap = self.geometry.heap;
        let needed = heap.clusters_for(length);
        if first == 0 {
            return match needed {
                0 => Ok(Runs::default()),
                _ => Err(Error::damaged(
                    "stream extension",
                    0,
                    format!("{needed} clusters for {length} bytes"),
                    "none",
                )),
            };
        }
        if needed > u64::from(heap.count) {
            let expected = format!("at most the {} clusters there are", heap.count);
            return Err(Error::damaged("stream extension", 0, expected, needed));
        }
        let needed = needed as u32;
        if !contiguous {
            return self.table.walk(first, Some(if whole { 0 } else { needed }), heap.count);
        }
        let last = u64::from(first) + u64::from(needed.max(1)) - 1;
        if !heap.has(first) || last > u64::from(heap.last()) {
            let expected = format!("{needed} clusters from 2 to {}", heap.last());
            return Err(Error::damaged("stream extension", 0, expected, format!("those from {first}")));
        }
        let mut runs = Runs::default();
        if needed > 0 {
            runs.push(first, needed);
        }
        Ok(runs)
    }

    /// The clusters of a directory.
    fn directory_runs(&mut self, entry: &FileInfo, root: bool) -> Result<Runs> {
        if root {
            return self.table.walk(entry.cluster, None, most_clusters(&self.geometry));
        }
        if entry.length > LARGEST_DIRECTORY {
            let expected = format!("a directory of at most {LARGEST_DIRECTORY} bytes");
            return Err(Error::damaged("stream extension", 0, expected, entry.length));
        }
        self.runs(entry.contiguous, entry.cluster, entry.length, false)
    }
}

impl Family for ExfatFamily {
    type Entry = FileInfo;
    type Directory = ExfatDirectory;

    const UNWRITTEN: bool = true;

    fn open(device: Arc<dyn Device>) -> Result<Core<ExfatFamily>> {
        open(device)
    }

    fn name(&self) -> &'static str {
        "exFAT"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // Offsets are signed in most programs.
            largest_file: i64::MAX as u64,
            names: NameRules::WINDOWS,
            modified_precision: Duration::from_millis(10),
            created_precision: Some(Duration::from_millis(10)),
            accessed_precision: Some(Duration::from_secs(2)),
            hard_links: false,
            symbolic_links: false,
            streams: false,
            extended_attributes: false,
            sparse: false,
            preallocate: false,
            integrity: false,
            clone: false,
            // Two entries in different sectors cannot change places without a moment in which one file has no name.
            exchange: false,
        }
    }

    fn info(core: &mut Core<ExfatFamily>) -> Result<VolumeInfo> {
        let root = core.directory(ROOT)?;
        let (label, guid) = (root.label().map_or(String::new(), |label| label.text()), root.guid());
        let boot = core.family.boot_sector();
        let geometry = &core.family.geometry;
        let mut details = vec![
            ("revision", format!("{}.{:02}", boot.revision >> 8, boot.revision & 0xFF)),
            ("bytes per sector", geometry.sector.to_string()),
            ("clusters", geometry.heap.count.to_string()),
            ("FATs", geometry.fat_count.to_string()),
            ("FAT at byte", geometry.fat_start.to_string()),
            ("clusters at byte", geometry.heap.start.to_string()),
        ];
        if let Some(guid) = guid {
            details.push(("GUID", shown(&guid)));
        }
        if boot.flags.has(VolumeFlags::MEDIA_FAILURE) {
            details.push(("media", "failures were met".into()));
        }
        Ok(VolumeInfo {
            format: "exFAT".into(),
            label,
            identifier: format!("{:04X}-{:04X}", boot.serial >> 16, boot.serial & 0xFFFF),
            cluster: geometry.heap.cluster_size(),
            dirty: core.was_dirty,
            details,
        })
    }

    fn set_label(core: &mut Core<ExfatFamily>, label: &str) -> Result<()> {
        let label = LabelEntry::new(label)?;
        if !core.directory(ROOT)?.has_label() {
            if label.0.is_empty() {
                return Ok(());
            }
            core.make_room(ROOT, 1)?;
        }
        core.pin(ROOT);
        core.directory(ROOT)?.set_label(&label);
        Ok(())
    }

    fn read_directory(core: &mut Core<ExfatFamily>, number: u64) -> Result<ExfatDirectory> {
        let entry = core.entity(number)?.entry.clone();
        let runs = core.family.directory_runs(&entry, number == ROOT)?;
        let rules = rules(core.family.geometry.sector);
        let slots = Slots::read(&*core.device, rules, core.heap, Storage::Chain(runs))?;
        Ok(ExfatDirectory::parse(slots, core.family.upcase.clone()))
    }

    fn check_directory(&self, entry: &FileInfo) -> Result<()> {
        match (entry.cluster, entry.length) {
            (0, 1..) => Err(Error::damaged("stream extension", 0, "the first cluster of a directory", 0)),
            _ => Ok(()),
        }
    }

    fn new_entry(&self, kind: Kind, now: Timestamp, offset: i32) -> FileInfo {
        let attributes = match kind {
            Kind::Directory => Attributes::DIRECTORY,
            _ => DosFlags::ARCHIVE.0 as u16,
        };
        let mut entry = FileInfo { attributes: Attributes(attributes), ..FileInfo::default() };
        entry.set_times([Some(now); 3], offset);
        entry
    }

    fn fresh_directory(
        core: &mut Core<ExfatFamily>,
        cluster: u32,
        entry: &mut FileInfo,
        _parent: u64,
    ) -> Result<ExfatDirectory> {
        let size = core.heap.cluster_size();
        (entry.cluster, entry.length, entry.valid) = (cluster, size, size);
        let mut runs = Runs::default();
        runs.push(cluster, 1);
        let data = vec![0; size.min(64 << 10) as usize];
        let slots = Slots::new(rules(core.family.geometry.sector), core.heap, Storage::Chain(runs), data);
        Ok(ExfatDirectory::parse(slots, core.family.upcase.clone()))
    }

    /// Nothing in a directory says what is above it.
    fn moved_directory(_core: &mut Core<ExfatFamily>, _number: u64) -> Result<()> {
        Ok(())
    }

    fn directory_clusters(core: &mut Core<ExfatFamily>, entry: &FileInfo) -> u32 {
        let root = entry.cluster == core.family.geometry.root_cluster;
        core.family.directory_runs(entry, root).map_or(0, |runs| runs.clusters())
    }

    fn largest_directory(&self) -> u64 {
        LARGEST_DIRECTORY
    }

    fn content(core: &mut Core<ExfatFamily>, entry: &FileInfo, whole: bool) -> Result<Content> {
        let runs = core.family.runs(entry.contiguous, entry.cluster, entry.length, whole)?;
        Ok(Content { runs, size: entry.length, valid: entry.valid.min(entry.length) })
    }

    fn link(
        core: &mut Core<ExfatFamily>,
        entry: &mut FileInfo,
        runs: &Runs,
        linked: u32,
        to: u32,
    ) -> Result<()> {
        let one = runs.at(0).is_some_and(|(_, count)| count >= to);
        let was = if linked == 0 { true } else { entry.contiguous };
        entry.contiguous = was && one;
        if !entry.contiguous {
            let from = if was { 0 } else { linked };
            core.family.table.append(runs, from, to, &mut core.change.ends)?;
        }
        let mut index = linked;
        while let Some((start, count)) = runs.at(index).filter(|_| index < to) {
            let count = count.min(to - index);
            core.family.bitmap.set(start, count, true);
            index += count;
        }
        core.linked(to - linked);
        Ok(())
    }

    fn record(entry: &mut FileInfo, state: &FileState) {
        (entry.length, entry.valid) = (state.size, state.valid);
        entry.cluster = if state.linked > 0 { state.runs.first() } else { 0 };
        entry.contiguous &= entry.cluster != 0;
    }

    fn record_directory(core: &mut Core<ExfatFamily>, number: u64, runs: &Runs) {
        let bytes = u64::from(runs.clusters()) << core.heap.shift;
        let Ok(entity) = core.entity_mut(number) else { return };
        if number != ROOT {
            // An empty one may have had no cluster.
            entity.entry.cluster = runs.first();
            (entity.entry.length, entity.entry.valid) = (bytes, bytes);
        }
        let contiguous = entity.entry.contiguous;
        core.mark(number);
        if !contiguous {
            core.family.table.grew(runs);
        }
    }

    fn is_chain(entry: &FileInfo) -> bool {
        !entry.contiguous
    }

    fn removed(core: &mut Core<ExfatFamily>, entry: &FileInfo) {
        for part in entry.parts() {
            if let Ok(mut runs) = core.family.runs(part.contiguous, part.cluster, part.length, true) {
                let linked = runs.clusters();
                core.give_up(&runs.split_off(0), linked);
            }
        }
    }

    fn backlog(&self) -> usize {
        self.table.dirty_bytes() + self.bitmap.dirty_bytes()
    }

    /// The boot sector. How much is in use is unknown while the volume is.
    fn mark(core: &mut Core<ExfatFamily>, in_use: bool) -> Result<Images> {
        let family = &mut core.family;
        let flags = family.boot_sector().flags.0 & !(VolumeFlags::DIRTY | VolumeFlags::CLEAR_TO_ZERO);
        let flags = if in_use { flags | VolumeFlags::DIRTY } else { flags };
        family.boot[BootSector::FLAGS..BootSector::FLAGS + 2].copy_from_slice(&flags.to_le_bytes());
        family.boot[BootSector::PERCENT] =
            if in_use { BootSector::PERCENT_UNKNOWN } else { family.bitmap.percent() };
        Ok(vec![(0, family.boot.clone())])
    }

    fn is_changed(&self) -> bool {
        self.table.dirty_bytes() > 0 || self.bitmap.is_changed()
    }

    fn linked(core: &mut Core<ExfatFamily>) -> Result<Images> {
        core.family.table.hold_back()?;
        let mut images = core.family.take_table();
        images.extend(core.family.bitmap.take_dirty());
        Ok(images)
    }

    fn grown(core: &mut Core<ExfatFamily>) -> Result<Images> {
        core.family.table.let_go()?;
        Ok(core.family.take_table())
    }

    /// The label is an entry of the root directory.
    fn named(_core: &mut Core<ExfatFamily>) -> Images {
        Images::new()
    }

    /// The FAT says nothing of free clusters.
    fn freed(core: &mut Core<ExfatFamily>, freed: &[(u32, u32)], ends: &BTreeSet<u32>) -> Result<Images> {
        let family = &mut core.family;
        for &(start, count) in freed {
            family.bitmap.set(start, count, false);
        }
        for &cluster in ends {
            family.table.set(cluster, Geometry::END)?;
        }
        let mut images = family.take_table();
        images.extend(family.bitmap.take_dirty());
        Ok(images)
    }

    /// Nothing on disk keeps count.
    fn counted(_core: &mut Core<ExfatFamily>) -> Images {
        Images::new()
    }
}

impl ExfatFamily {
    /// What changed in the FAT, at device offsets.
    fn take_table(&mut self) -> Images {
        let start = self.geometry.active_fat_offset();
        self.table.take_dirty().into_iter().map(|(at, data)| (start + at, data)).collect()
    }
}

/// A GUID as it is written (10.1).
fn shown(guid: &[u8; 16]) -> String {
    let [a, b, c, d, e, f, g, h, rest @ ..] = guid;
    let tail: String = rest[2..].iter().map(|byte| format!("{byte:02X}")).collect();
    format!(
        "{{{d:02X}{c:02X}{b:02X}{a:02X}-{f:02X}{e:02X}-{h:02X}{g:02X}-{:02X}{:02X}-{tail}}}",
        rest[0], rest[1]
    )
}
