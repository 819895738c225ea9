//! Making a new volume.

use crate::container::Container;
use crate::container::Tier;
use crate::core::{Core, ROOT_DIRECTORY};
use crate::geometry::{ContainerMap, Geometry};
use crate::layout::record::key;
use crate::layout::system::{self, LOG_BLOCK, LogArea, LogControl};
use crate::layout::{
    Algorithm, Attribute, BootRecord, Checkpoint, Checksum, CompressionPolicy, ContainerRow, PageReference,
    ROOTS, Record, Root, Superblock, Version, page,
};
use crate::layout::{NumberRow, ParentChildRow, header, make_index, make_object_link};
use crate::pages::Pages;
use crate::space::Space;
use crate::tree::{Order, Tree};
use platter_device::{Buffer, Device, show_size};
use platter_vfs::{Error, FormatOptions, Progress, Result, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// The bytes of a small log's data area, in the first container.
const SMALL_LOG: std::ops::Range<u64> = 16 << 20..20 << 20;
/// The number of containers of the smallest volume that gets a log of the size that Windows gives it: 1.75 GiB. On
/// smaller ones, of which none that Windows made is known, it would take more than a seventh of the volume.
const FEWEST_WITH_LOG: u64 = 28;
/// The bytes at the beginning of the log's data area that are cleared: the block of the first record is among them, and
/// a log whose first record is missing is empty.
const CLEARED: u64 = 64 << 10;
/// The cluster of the first of the log's two control pages, which take one cluster each.
const LOG_CONTROL: u64 = 0x30;
/// The sequence number of the first record of a new log: on every volume of Windows of which a listing shows the log,
/// block 0 is empty, and the first record stands in block 1.
const FIRST_RECORD: u64 = 1 << 32 | 1;
/// The bytes of a container.
const CONTAINER: u64 = 64 << 20;
/// The number of containers of the smallest volume.
const FEWEST: u64 = 5;
/// The number of containers of the largest volume that is made here: 64 TiB. The tables are built in memory, with 400
/// bytes for each container.
const MOST: u64 = 1 << 20;

/// Converts a time to that of ReFS: units of 100 ns since 1601.
pub(crate) fn file_time(since_1970: Duration) -> u64 {
    Timestamp::from(since_1970).to_file_time(u64::MAX)
}

/// The number of containers, from the second on, that belong to the tier *small*: they have room for both container
/// tables, and as much again for the copies that the next commit makes, with what pages take besides rows.
fn small_containers(geometry: &Geometry) -> u64 {
    let row = ContainerRow::size(geometry.cluster, geometry.reference) as u64 + 20;
    (4 * geometry.containers() * row / 20 * 21 + (1 << 20)).div_ceil(CONTAINER)
}

/// The containers that are the log's data area, counted from the start of the volume; `None` on a volume with a small
/// log.
///
/// The sizes are those of the volumes of Windows whose logs are known: on 3.14, 256 MiB up to 4 GB, 512 MiB from 8 GB
/// to 60 GiB, 1 GiB at 2 TB; on 3.4, 512 MiB at 2 GB. Where between them the size changes is not known. The place
/// differs from volume to volume there; here it follows the containers of the other tiers.
fn log_containers(geometry: &Geometry) -> Option<std::ops::Range<u64>> {
    let count = geometry.containers();
    let first = small_containers(geometry) + 2;
    let size = match count {
        _ if count < FEWEST_WITH_LOG => return None,
        _ if count < 64 && geometry.version >= Version::V3_7 => 4,
        _ if count < 16384 => 8,
        _ => 16,
    };
    Some(first..first + size)
}

/// The clusters of the log's data area.
fn log_area(geometry: &Geometry) -> std::ops::Range<u64> {
    let per_container = u64::from(geometry.per_container);
    match log_containers(geometry) {
        Some(containers) => containers.start * per_container..containers.end * per_container,
        None => SMALL_LOG.start / u64::from(geometry.cluster)..SMALL_LOG.end / u64::from(geometry.cluster),
    }
}

fn cannot(reason: String) -> Error {
    Error::CannotMake { format: "ReFS", reason }
}

/// The boot record, geometry and identifier of a volume on this device with these options.
fn plan(device: &dyn Device, options: &FormatOptions) -> Result<(BootRecord, Geometry, [u8; 16])> {
    let version = match options.variant.as_deref() {
        None | Some("3.14") => Version::V3_14,
        Some("3.4") => Version::V3_4,
        Some(other) => return Err(cannot(format!("version {other} is not written; 3.14 and 3.4 are"))),
    };
    if options.align.is_some() {
        return Err(Error::Unsupported { format: "ReFS", what: "an alignment to choose" });
    }
    if options.record.is_some() {
        return Err(Error::Unsupported { format: "ReFS", what: "records of files" });
    }
    if options.compress.is_some() {
        return Err(Error::Unsupported { format: "ReFS", what: "compression" });
    }
    let is_old = version < Version::V3_10;
    // With `none` pages have CRC64 checksums all the same, as on volumes of Windows; the boot record says that readers
    // need not verify them.
    let (algorithm, checksum) = match options.checksum.as_deref() {
        Some("none") => (Algorithm::Crc64, 0),
        None if is_old => (Algorithm::Crc64, 0),
        None | Some("crc64") if !is_old => (Algorithm::Crc64, 2),
        Some("sha256") if !is_old => (Algorithm::Sha256, 4),
        other => {
            let (other, known) =
                (other.unwrap_or("crc64"), if is_old { "none" } else { "crc64, sha256 and none" });
            let reason = format!("{other} is no metadata checksum of version {version}; it has {known}");
            return Err(cannot(reason));
        }
    };
    let cluster = match options.cluster {
        None => 4096,
        Some(cluster @ (4096 | 65536)) => cluster as u32,
        Some(other) => {
            return Err(cannot(format!("clusters of {other} bytes; 4 KiB and 64 KiB are possible")));
        }
    };
    let sector = device.sectors().logical.max(512);
    let per_container = (CONTAINER / u64::from(cluster)) as u32;
    // Rounded down to whole containers, as Windows does.
    let clusters = device.len() / CONTAINER * u64::from(per_container);
    let now = device.now().as_nanos() as u64;
    let serial = options.serial.unwrap_or_else(|| mix(now));
    let guid = page::identifier(mix(serial ^ now), mix(serial.wrapping_add(now)));
    let geometry = Geometry {
        version,
        cluster,
        clusters,
        per_container,
        algorithm,
        reference: if is_old { PageReference::LEGACY } else { PageReference::compact(algorithm) },
        signature: page::volume_signature(&guid),
    };
    if geometry.containers() < FEWEST {
        let (has, least) = (show_size(device.len()), show_size(FEWEST * CONTAINER));
        return Err(cannot(format!("the device has {has}; a volume needs {least}")));
    }
    let instance = if checksum != 0 { page::identifier(mix(serial ^ 1), mix(serial ^ 2)) } else { [0; 16] };
    if geometry.containers() > MOST {
        // A device may be too large by so little that only the bytes tell it.
        let (has, most) = (device.len(), MOST * CONTAINER);
        let shown = show_size(most);
        let reason = format!("the device has {has} bytes; volumes of up to {most} ({shown}) are made");
        return Err(cannot(reason));
    }
    // A volume of 3.14 without checksums is what Windows makes of an older one.
    let flags = match checksum {
        _ if is_old => 0x06,
        0 => 0x26,
        _ => 0x66,
    };
    let boot = BootRecord {
        sectors: clusters * u64::from(cluster) / u64::from(sector),
        sector,
        sectors_per_cluster: cluster / sector,
        version,
        checksum,
        flags,
        serial,
        container: CONTAINER,
        instance,
    };
    Ok((boot, geometry, guid))
}

/// Spreads a seed over 64 bits (the finaliser of SplitMix64).
fn mix(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

/// Makes a volume over the whole device.
pub(crate) fn make(device: &dyn Device, options: &FormatOptions, progress: &dyn Progress) -> Result<()> {
    let (boot, geometry, guid) = plan(device, options)?;
    let label: Vec<u16> = options.label.as_deref().unwrap_or("").encode_utf16().collect();
    system::check_label(&label).map_err(|(_, reason)| cannot(reason.into()))?;
    // Old content of the device must not be taken for a part of the new volume, wherever a reader looks first.
    wipe(device, &geometry, options.full, progress)?;
    let now = file_time(device.now());
    let place = page_places(&geometry);
    let superblock = Superblock { guid, generation: 1, checkpoints: place };
    let mut core = empty(device, &geometry, &superblock, boot.checksum != 0)?;
    fill(&mut core, &label, now, options.integrity.unwrap_or(false))?;
    let batch = core.gather()?;
    put_log(device, &geometry, guid)?;
    batch.write(device, &mut platter_device::Buffer::new(0), &core.health)?;
    core.write_both(device)?;
    put_superblocks(device, &geometry, &superblock)?;
    put_boot(device, &boot)?;
    device.flush()?;
    Ok(())
}

/// Where the two checkpoints are: one in the first container, one in the middle of the volume.
fn page_places(geometry: &Geometry) -> [u64; 2] {
    let middle = (geometry.containers() / 2).max(4) * u64::from(geometry.per_container);
    [0x40, middle]
}

fn wipe(device: &dyn Device, geometry: &Geometry, full: bool, progress: &dyn Progress) -> Result<()> {
    const PIECE: u64 = 4 << 20;
    let zeroes = Buffer::new(PIECE as usize);
    let length = geometry.clusters * u64::from(geometry.cluster);
    if full {
        let mut at = 0;
        while at < length {
            let piece = PIECE.min(length - at);
            device.write_at(at, &zeroes[..piece as usize])?;
            at += piece;
            progress.step("overwriting clusters", at, length)?;
        }
        return Ok(());
    }
    device.write_at(0, &zeroes[..(64 * u64::from(geometry.cluster)).min(PIECE) as usize])?;
    let tail = (64 * u64::from(geometry.cluster)).min(PIECE);
    let sector = u64::from(device.sectors().logical);
    // The end of the volume, and the end of the device, where another volume may have ended.
    for end in [length, device.len() / sector * sector] {
        let at = (end - tail) / sector * sector;
        device.write_at(at, &zeroes[..(end - at) as usize])?;
    }
    Ok(())
}

/// Writes the superblock and its copies.
pub(crate) fn put_superblocks(
    device: &dyn Device,
    geometry: &Geometry,
    superblock: &Superblock,
) -> Result<()> {
    for cluster in Superblock::places(geometry.clusters) {
        let bytes = superblock.to_bytes(
            cluster,
            geometry.cluster as usize,
            geometry.reference,
            geometry.own_algorithm(),
        );
        device.write_at(geometry.offset(cluster), &bytes)?;
    }
    Ok(())
}

/// Writes the boot record and its copy in the last sector.
pub(crate) fn put_boot(device: &dyn Device, boot: &BootRecord) -> Result<()> {
    let mut sector = vec![0; boot.sector as usize];
    sector[..BootRecord::SIZE].copy_from_slice(&boot.to_bytes());
    device.write_at((boot.sectors - 1) * u64::from(boot.sector), &sector)?;
    device.write_at(0, &sector)?;
    Ok(())
}

/// Where the log is.
pub(crate) fn log_place(geometry: &Geometry) -> LogArea {
    LogArea { data: log_area(geometry), control: [LOG_CONTROL, LOG_CONTROL + 1] }
}

fn put_log(device: &dyn Device, geometry: &Geometry, guid: [u8; 16]) -> Result<()> {
    let area = log_place(geometry);
    device.write_at(geometry.offset(area.data.start), &Buffer::new(CLEARED as usize))?;
    for index in 0..2 {
        let control = LogControl {
            volume: geometry.signature,
            log: guid,
            sequence: 1 + index,
            blocks: area.blocks(geometry.cluster),
            oldest: FIRST_RECORD,
            next: FIRST_RECORD as u32,
        };
        let mut bytes = vec![0; geometry.cluster as usize];
        bytes[..LOG_BLOCK].copy_from_slice(&control.to_bytes());
        device.write_at(geometry.offset(LOG_CONTROL + index), &bytes)?;
    }
    Ok(())
}

/// The containers of a new volume, in which only structures with a fixed place are in use.
fn containers(geometry: &Geometry) -> Vec<Container> {
    let (count, clusters) = (geometry.containers(), geometry.per_container);
    let (small, log) = (small_containers(geometry), log_containers(geometry));
    let mut all: Vec<Container> = (0..count)
        .map(|index| {
            let tier = match index {
                index if index >= 1 && index <= small => Tier::Small,
                index if index == small + 1 => Tier::Container,
                _ => Tier::Medium,
            };
            let is_log = log.as_ref().is_some_and(|log| log.contains(&index));
            let mut one = Container::uniform(tier, clusters, !is_log);
            // Windows has the log's containers marked as such of metadata too.
            one.for_pages = index == 0 || is_log;
            one
        })
        .collect();
    let mut fixed = |index: u64, range: std::ops::Range<u64>| {
        let bits = all[index as usize].bits_mut(clusters);
        range.for_each(|cluster| bits[cluster as usize / 64] |= 1 << (cluster % 64));
    };
    let page = u64::from(geometry.page_clusters());
    fixed(0, 0..0x40 + page);
    if log.is_none() {
        fixed(0, log_area(geometry));
    }
    let second = page_places(geometry)[1] / u64::from(clusters);
    fixed(second, 0..page);
    // The copies of the superblock and that of the boot record.
    fixed(count - 1, u64::from(clusters) - 3..u64::from(clusters));
    all.into_iter().map(|one| one.recounted(clusters)).collect()
}

/// Makes a core with empty roots.
fn empty(
    device: &dyn Device,
    geometry: &Geometry,
    superblock: &Superblock,
    is_verified: bool,
) -> Result<Core> {
    let count = geometry.containers();
    let starts = (0..count).map(|index| index * u64::from(geometry.per_container)).collect();
    let map = ContainerMap::new(starts, geometry.per_container);
    let space = Space::new(containers(geometry), geometry);
    // No page is read back while the volume is made, so the device in the core can be empty.
    let nothing: Arc<dyn Device> = Arc::new(platter_device::MemoryDevice::new(0, device.sectors()));
    let mut pages = Pages::new(geometry.clone(), map, space, nothing, usize::MAX);
    let mut roots = Vec::with_capacity(ROOTS);
    for root in Root::ALL {
        let tier = match root {
            root if root.is_real() => Tier::Small,
            Root::MediumAllocator | Root::ContainerAllocator => Tier::Container,
            _ => Tier::Medium,
        };
        let mut extra = vec![0; extra_size(geometry.version, root.schema())];
        match root {
            Root::Objects | Root::ObjectsCopy => {
                header::begin_objects(&mut extra, crate::core::FIRST_OBJECT - 1);
            }
            Root::Containers | Root::ContainersCopy => {
                CompressionPolicy::put_none(&mut extra, geometry.version < Version::V3_7);
            }
            _ => {}
        }
        let schema = if root == Root::References { 0 } else { root.schema() };
        roots.push(Tree::create(&mut pages, root.table(), schema, Order::Words, tier, &extra, 0)?);
    }
    let checkpoint = Checkpoint {
        version: geometry.version,
        echo: is_verified,
        clock: 0,
        allocator_clock: 0,
        log: FIRST_RECORD,
        flags: Checkpoint::flags(geometry.version, is_verified),
        places: Checkpoint::places(Checkpoint::flags(geometry.version, is_verified)),
        reference: geometry.reference,
        roots: [PageReference { clusters: [0; 4], checksum: Checksum::NONE }; ROOTS],
    };
    let upper: Arc<[u16]> = (0..=u16::MAX).map(system::windows_upper).collect();
    Ok(Core::new(pages, roots, checkpoint, superblock.clone(), 0, upper))
}

/// The bytes of the tree header after its fixed part, for a table with this schema.
fn extra_size(version: Version, schema: u32) -> usize {
    system::schema(version.minor, schema).map_or(0, |schema| schema.root_extra as usize)
}

/// Fills the tables that a new volume has.
fn fill(core: &mut Core, label: &[u16], now: u64, integrity: bool) -> Result<()> {
    let version = core.geometry().version;
    for root in [Root::Schemas, Root::SchemasCopy] {
        for (key, value) in system::schema_rows(version.minor, core.geometry().page() as u32) {
            let (tree, pages) = core.root(root);
            tree.put(pages, &key, 0, &value)?;
        }
    }
    let clusters = core.geometry().containers() * u64::from(core.geometry().per_container);
    let (key, value) = system::integrity_state_row(clusters);
    let (tree, pages) = core.root(Root::IntegrityState);
    tree.put(pages, &key, 0, &value)?;
    let cluster = core.geometry().cluster;
    let log = log_place(core.geometry());
    let label = system::volume_information_rows(label, version, now, now);
    let tables: [(u64, u32, Order, Vec<system::SystemRow>); 10] = [
        (0x07, 0xE090, Order::Words, system::upcase_rows(cluster, system::windows_upper)),
        (0x08, 0xE090, Order::Words, system::upcase_rows(cluster, system::windows_upper)),
        (0x09, 0xE090, Order::Words, log.rows()),
        (0x0A, 0xE090, Order::Words, log.rows()),
        (0x0D, 0xE0D0, Order::Words, Vec::new()),
        (0x500, 0x150, Order::Words, label.clone()),
        (0x501, 0x150, Order::Words, label),
        (0x530, 0x140, Order::SecondWord, system::security_rows()),
        (0x540, 0x160, Order::Words, Vec::new()),
        (0x541, 0x160, Order::Words, Vec::new()),
    ];
    for (number, schema, order, rows) in tables {
        // The lower half of word 8 of the schema stands in the tree header.
        let kind = system::schema(version.minor, schema).map_or(0, |schema| schema.word_8 as u16);
        core.add_object(number, schema, order, extra_size(version, schema), kind, None)?;
        for (key, value) in rows {
            let (tree, pages) = core.tree_mut(number)?;
            tree.put(pages, &key, 0, &value)?;
        }
    }
    let attributes = if integrity { Record::INTEGRITY } else { 0 };
    let security = system::security_id(&system::directory_descriptor());
    let record = |name: &str, attributes, security| {
        let mut record = Record::new(version.directory_schema(), now, attributes, security);
        record.rows = directory_rows(ROOT_DIRECTORY, &name.encode_utf16().collect::<Vec<u16>>());
        record
    };
    add_directory(core, ROOT_DIRECTORY, ROOT_DIRECTORY, &record(".", attributes, security), 1)?;
    let hidden = system::security_id(&system::system_descriptor());
    let record = record("FS Metadata", 0x1000_0006, hidden);
    add_directory(core, METADATA_DIRECTORY, ROOT_DIRECTORY, &record, 0x500)?;
    if version <= Version::V3_7 {
        add_metadata_files(core, now, hidden)?;
    }
    core.renew_space()
}

/// The object number of the directory without a name in which the driver keeps files of its own.
const METADATA_DIRECTORY: u64 = 0x520;

/// The files in that directory that stand for tables, on versions up to 3.7, with their numbers there.
const METADATA_FILES: [(&str, u64); 3] =
    [("Reparse Index", 0x400), ("Security Descriptor Stream", 0x200), ("Volume Direct IO File", 0x100)];

/// Makes the files that stand for tables: records without attributes, and rows that lead from the numbers to the names.
fn add_metadata_files(core: &mut Core, now: u64, security: u64) -> Result<()> {
    let schema = core.geometry().version.file_schema();
    for (name, number) in METADATA_FILES {
        let units: Vec<u16> = name.encode_utf16().collect();
        let security = if number == 0x200 { 0 } else { security };
        let record = Record { ordinal: number, ..Record::new(schema, now, 0x20, security) };
        let back = NumberRow::Name(units.clone()).to_bytes();
        let (tree, pages) = core.tree_mut(METADATA_DIRECTORY)?;
        tree.put(pages, &key::name(key::LONG, &units), 1, &record.to_bytes())?;
        tree.put(pages, &key::number(number), 0, &back)?;
    }
    Ok(())
}

/// Makes the object of a directory with this record, and its place in the parent-child table.
pub(crate) fn add_directory(
    core: &mut Core,
    number: u64,
    above: u64,
    record: &Record,
    last_child: u64,
) -> Result<()> {
    // This row is put first: if damage in the table prevents it, nothing else has been changed yet.
    if number != ROOT_DIRECTORY {
        let row = ParentChildRow { above, child: number }.to_bytes();
        let (tree, pages) = core.root(Root::ParentChild);
        tree.put(pages, &row, 0, &row)?;
    }
    let (order, version) = (core.order(), core.geometry().version);
    core.add_object(number, 0x130, order, extra_size(version, 0x130), 1, Some(last_child))?;
    let (tree, pages) = core.tree_mut(number)?;
    tree.put(pages, &key::OWN, 1, &record.to_bytes()).map(drop)
}

/// The rows that the record of each directory has: its name in the directory above, and the mark of a directory.
pub(crate) fn directory_rows(above: u64, name: &[u16]) -> Vec<Attribute> {
    vec![make_object_link(above, name), make_index()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_the_size_that_windows_gives_it() {
        // Containers, version, cluster, and the containers of the log: sizes as on the volumes of Windows that are
        // known.
        for (containers, version, cluster, expected) in [
            (5, Version::V3_14, 4096, None),
            (27, Version::V3_14, 4096, None),
            (31, Version::V3_14, 4096, Some(4)),
            (63, Version::V3_14, 4096, Some(4)),
            (127, Version::V3_14, 65536, Some(8)),
            (959, Version::V3_14, 4096, Some(8)),
            (32_767, Version::V3_14, 4096, Some(16)),
            (31, Version::V3_4, 4096, Some(8)),
            (1 << 20, Version::V3_14, 4096, Some(16)),
        ] {
            let per_container = (CONTAINER / u64::from(cluster)) as u32;
            let geometry = Geometry {
                version,
                cluster,
                clusters: containers * u64::from(per_container),
                per_container,
                algorithm: Algorithm::Crc64,
                reference: 48,
                signature: 0,
            };
            let log = log_containers(&geometry);
            assert_eq!(log.as_ref().map(|log| log.end - log.start), expected, "{containers}");
            // It lies beside everything else that has a place of its own.
            let area = log_area(&geometry);
            let [_, second] = page_places(&geometry);
            assert!(area.end <= second && area.end <= geometry.clusters - u64::from(per_container));
            assert!(area.start >= 0x40 + u64::from(geometry.page_clusters()));
            if let Some(log) = log {
                let all = self::containers(&geometry);
                let is_full = |index: u64| all[index as usize].free() == 0;
                assert!(log.clone().all(|index| is_full(index) && all[index as usize].tier == Tier::Medium));
                assert!(!is_full(log.start - 1) && !is_full(log.end));
            }
        }
    }
}
