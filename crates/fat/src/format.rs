//! Making a new volume.
//!
//! # Defaults
//! The kind of FAT follows from the number of clusters alone (fatgen103, "FAT Type Determination"), so size, cluster
//! size and kind either fit together or do not. fatgen103 advises to stay 16 clusters away from both limits, because
//! some drivers count wrongly there; so does this code. The defaults depend on the size, as in Windows and mkfs.fat:
//! FAT12 up to 4 MiB, FAT16 below 512 MiB, FAT32 from there on; cluster sizes by the two tables in fatgen103, "FAT
//! Volume Initialization". Where the table's cluster size does not fit the kind, the nearest one that does is taken.
//!
//! # Alignment
//! From 8,192 sectors on, the FATs start on 4 KiB boundaries and the data area starts on a multiple of the cluster
//! size (and of 4 KiB), counted from the start of the disk: then no cluster straddles two pages of a flash medium or two physical sectors of a disk. The
//! padding is in the reserved sectors. Smaller volumes have the one reserved sector that old readers expect.
//!
//! # Floppy disks
//! A device of the size of a standard floppy disk gets the layout of that disk, as DOS, mkfs.fat and mformat write it:
//! media byte, sectors per track, heads, root entries and cluster size. Drives and their emulators take tracks and sides
//! from these fields.
//!
//! # Order of writing
//! First the boot sector is cleared, so that a power cut leaves no volume rather than half of one; then everything
//! else is written; then the boot sector. Ranges that read as zeroes already are not written again, so that
//! formatting a sparse image of terabytes is quick and keeps it sparse.

use crate::layout::{
    Attributes, BootSector, DosTime, Fat32Fields, FatKind, Geometry, InfoSector, Label, Precision,
    ShortEntry, ShortName, VolumeState, set,
};
use platter_clusters::{clear, overwrite, serial_from};
use platter_device::{Device, show_size};
use platter_vfs::{Error, FormatOptions, Progress, Result};
use std::time::Duration;

/// The exponents of the cluster sizes that are allowed: 512 bytes to 64 KiB. Few systems read larger ones.
const CLUSTER_BITS: std::ops::RangeInclusive<u32> = 9..=16;

/// The distance in clusters that a volume keeps from the limits between the kinds.
const MARGIN: u32 = 16;

/// Makes a volume over the whole device, of the given kind or of the kind that suits its size.
///
/// # Errors
/// [`Error::CannotMake`] if size, kind and cluster size do not fit together; the message says which would fit.
/// [`Error::InvalidName`] for a label that FAT cannot hold.
pub(crate) fn make(
    device: &dyn Device,
    kind: Option<FatKind>,
    options: &FormatOptions,
    progress: &dyn Progress,
) -> Result<()> {
    let kind = merge(kind, options.variant.as_deref())?;
    let refuse = |what| Err(Error::Unsupported { format: "FAT", what });
    if options.checksum.is_some() {
        return refuse("metadata checksums");
    }
    if options.integrity.is_some() {
        return refuse("integrity streams");
    }
    if options.record.is_some() {
        return refuse("records of files");
    }
    if options.compress.is_some() {
        return refuse("compression");
    }
    if options.align.is_some() {
        return refuse("an alignment to choose");
    }
    let label = options.label.as_deref().filter(|text| !text.is_empty()).map(Label::new).transpose()?;
    let now = device.now();
    let serial = match options.serial {
        Some(serial) => {
            u32::try_from(serial).map_err(|_| Error::InvalidArgument("a FAT serial number has 32 bits"))?
        }
        None => serial_from(now),
    };
    let measures = plan(device, kind, options.cluster)?;
    // A start that the field cannot hold is one that no reader of the field can have.
    let start = device.start() / u64::from(measures.bytes_per_sector);
    let boot = boot_sector(&measures, u32::try_from(start).unwrap_or(0), label, serial);
    let geometry = boot.geometry(device.len())?;
    if let Some(error) = geometry.short_fat() {
        return Err(error);
    }
    write(device, &boot, &geometry, label, now, options.full, progress)
}

/// Returns the kind that the format's name or the variant asks for; fails if they differ.
fn merge(kind: Option<FatKind>, variant: Option<&str>) -> Result<Option<FatKind>> {
    let variant = match variant {
        None => return Ok(kind),
        Some("12" | "fat12") => FatKind::Fat12,
        Some("16" | "fat16") => FatKind::Fat16,
        Some("32" | "fat32") => FatKind::Fat32,
        Some(_) => return Err(Error::InvalidArgument("the variants of FAT are fat12, fat16 and fat32")),
    };
    match kind {
        Some(kind) if kind != variant => {
            Err(Error::InvalidArgument("format and variant name different kinds of FAT"))
        }
        _ => Ok(Some(variant)),
    }
}

/// The layout of a new volume.
struct Measures {
    kind: FatKind,
    bytes_per_sector: u32,
    sectors_per_cluster: u32,
    reserved: u16,
    fat_sectors: u32,
    root_entries: u16,
    total: u32,
    floppy: Option<Floppy>,
}

/// The layout of a standard floppy disk with sectors of 512 bytes (ECMA-107, and the tables of DOS).
#[derive(Clone, Copy)]
struct Floppy {
    sectors_per_track: u16,
    heads: u16,
    media: u8,
    root_entries: u32,
    sectors_per_cluster: u32,
}

/// Returns the floppy disk of this size.
fn floppy(sector: u32, total: u32) -> Option<Floppy> {
    // Total sectors, sectors per track, heads, media byte, root entries, sectors per cluster.
    const DISKS: [(u32, u16, u16, u8, u32, u32); 9] = [
        (320, 8, 1, 0xFE, 64, 1),
        (360, 9, 1, 0xFC, 64, 1),
        (640, 8, 2, 0xFF, 112, 2),
        (720, 9, 2, 0xFD, 112, 2),
        (1280, 8, 2, 0xFB, 112, 2),
        (1440, 9, 2, 0xF9, 112, 2),
        (2400, 15, 2, 0xF9, 224, 1),
        (2880, 18, 2, 0xF0, 224, 1),
        (5760, 36, 2, 0xF0, 240, 2),
    ];
    let disk = DISKS.into_iter().find(|disk| sector == 512 && disk.0 == total)?;
    let (_, sectors_per_track, heads, media, root_entries, sectors_per_cluster) = disk;
    Some(Floppy { sectors_per_track, heads, media, root_entries, sectors_per_cluster })
}

/// The number of FATs on a new volume.
const FATS: u32 = 2;

/// Chooses the layout.
fn plan(device: &dyn Device, kind: Option<FatKind>, cluster: Option<u64>) -> Result<Measures> {
    let sector = device.sectors().logical;
    if !matches!(sector, 512 | 1024 | 2048 | 4096) {
        return Err(cannot(format!("FAT has sectors of 512 to 4,096 bytes, the device of {sector}")));
    }
    let length = device.len();
    let total = u32::try_from(length / u64::from(sector)).map_err(|_| {
        let most = u64::from(u32::MAX) * u64::from(sector);
        cannot(format!(
            "with {sector}-byte sectors it has at most {}, the device has {}",
            show_size(most),
            show_size(length)
        ))
    })?;
    let first = device.start() / u64::from(sector);
    let sizes: Vec<u32> = (CLUSTER_BITS).map(|bits| 1 << bits).filter(|&size| size >= sector).collect();
    let sizes = match cluster {
        None => sizes,
        Some(wanted) => match sizes.iter().find(|&&size| u64::from(size) == wanted) {
            Some(&size) => vec![size],
            None => {
                let least = show_size(sector.into());
                let why =
                    format!("a cluster here is a power of two from {least} to 64 KiB, not {wanted} bytes");
                return Err(cannot(why));
            }
        },
    };
    let kinds = match kind {
        Some(kind) => vec![kind],
        None => kinds_by_size(length),
    };
    for &kind in &kinds {
        let usual = match floppy(sector, total).filter(|_| kind == FatKind::Fat12) {
            Some(disk) => disk.sectors_per_cluster * sector,
            None => usual_cluster(kind, length),
        };
        let mut sizes = sizes.clone();
        sizes.sort_by_key(|size| size.ilog2().abs_diff(usual.ilog2()));
        if let Some(measures) =
            sizes.into_iter().find_map(|size| measure(kind, sector, size / sector, (first, total)))
        {
            return Ok(measures);
        }
    }
    Err(misfit(length, &kinds, &sizes))
}

/// Returns the kinds to try on a device of `length` bytes, the best first.
fn kinds_by_size(length: u64) -> Vec<FatKind> {
    match length {
        0..=0x40_0000 => vec![FatKind::Fat12, FatKind::Fat16],
        0x40_0001..0x2000_0000 => vec![FatKind::Fat16, FatKind::Fat12, FatKind::Fat32],
        _ => vec![FatKind::Fat32, FatKind::Fat16],
    }
}

/// Returns the cluster size that Windows and mkfs.fat choose, in bytes.
fn usual_cluster(kind: FatKind, length: u64) -> u32 {
    const MIB: u64 = 1 << 20;
    const FAT16: [(u64, u32); 6] =
        [(16, 1024), (128, 2048), (256, 4096), (512, 8192), (1024, 16_384), (2048, 32_768)];
    const FAT32: [(u64, u32); 4] = [(260, 512), (8192, 4096), (16_384, 8192), (32_768, 16_384)];
    let (table, above): (&[_], u32) = match kind {
        FatKind::Fat12 => (&[], 512),
        FatKind::Fat16 => (&FAT16, 65_536),
        FatKind::Fat32 => (&FAT32, 32_768),
    };
    table.iter().find(|(most, _)| length <= most * MIB).map_or(above, |&(_, size)| size)
}

/// Returns the numbers of clusters that a new volume of a kind may have.
fn cluster_range(kind: FatKind) -> std::ops::RangeInclusive<u32> {
    match kind {
        FatKind::Fat12 => 1..=FatKind::MOST_12 - MARGIN,
        FatKind::Fat16 => FatKind::MOST_12 + 1 + MARGIN..=FatKind::MOST_16 - MARGIN,
        FatKind::Fat32 => FatKind::MOST_16 + 1 + MARGIN..=FatKind::MOST_32,
    }
}

/// Returns the layout with this cluster size, or `None` if the resulting number of clusters does not make this kind.
///
/// `first` is the first sector of the volume on its disk.
fn measure(
    kind: FatKind,
    bytes_per_sector: u32,
    sectors_per_cluster: u32,
    (first, total): (u64, u32),
) -> Option<Measures> {
    let aligned = total >= 8192;
    let page = if aligned { 4096 / bytes_per_sector } else { 1 };
    let slots_per_sector = bytes_per_sector / 32;
    let floppy = floppy(bytes_per_sector, total).filter(|_| kind == FatKind::Fat12);
    let root_entries = match (kind, floppy) {
        (FatKind::Fat32, _) => 0,
        (_, Some(disk)) => disk.root_entries,
        // A high-density floppy has 224 root entries, a larger volume 512.
        _ if u64::from(total) * u64::from(bytes_per_sector) <= 1_474_560 => {
            224_u32.next_multiple_of(slots_per_sector)
        }
        _ => 512,
    };
    let root_sectors = root_entries / slots_per_sector;
    let least_reserved = match kind {
        // Room for the boot record of three sectors, its copy from sector 6 on, and additions of boot loaders.
        FatKind::Fat32 => 32,
        _ => 1,
    }
    .max(if aligned { page } else { 1 });
    // Sectors are counted in 64 bits, because sums may exceed 32 bits before it is known that they do not fit.
    let start = |fat_sectors: u64| {
        let unaligned = u64::from(least_reserved) + u64::from(FATS) * fat_sectors + u64::from(root_sectors);
        match aligned {
            true => {
                let unit = u64::from(sectors_per_cluster.max(page));
                (first % unit + unaligned).next_multiple_of(unit) - first % unit
            }
            false => unaligned,
        }
    };
    let clusters =
        |fat_sectors| u64::from(total).saturating_sub(start(fat_sectors)) / u64::from(sectors_per_cluster);
    let table = |clusters: u64| {
        let sectors = kind.table_bytes(clusters + 2).div_ceil(u64::from(bytes_per_sector));
        sectors.next_multiple_of(u64::from(page))
    };
    // A table for all clusters that fit without a table is too large, since it takes space from them. Each step makes
    // the table smaller; the smallest one that is large enough is taken.
    let mut fat_sectors = table(u64::from(total / sectors_per_cluster));
    loop {
        let smaller = table(clusters(fat_sectors));
        if smaller >= fat_sectors || table(clusters(smaller)) > smaller {
            break;
        }
        fat_sectors = smaller;
    }
    let count = u32::try_from(clusters(fat_sectors)).ok()?;
    if !cluster_range(kind).contains(&count) {
        return None;
    }
    let reserved = start(fat_sectors) - u64::from(FATS) * fat_sectors - u64::from(root_sectors);
    Some(Measures {
        kind,
        bytes_per_sector,
        sectors_per_cluster,
        reserved: u16::try_from(reserved).ok()?,
        fat_sectors: u32::try_from(fat_sectors).ok()?,
        root_entries: root_entries as u16,
        total,
        floppy,
    })
}

/// Returns the error for options that no layout fits.
fn misfit(length: u64, kinds: &[FatKind], sizes: &[u32]) -> Error {
    let names: Vec<_> = kinds
        .iter()
        .map(|&kind| {
            format!(
                "{} has {} to {} clusters",
                kind.name(),
                cluster_range(kind).start(),
                cluster_range(kind).end()
            )
        })
        .collect();
    let sizes = match sizes {
        [size] => show_size(u64::from(*size)),
        _ => {
            let size = |size: Option<&u32>| show_size(size.copied().unwrap_or(0).into());
            format!("{} to {}", size(sizes.first()), size(sizes.last()))
        }
    };
    cannot(format!(
        "{}; a device of {} has no such number of clusters of {sizes}",
        names.join(", "),
        show_size(length)
    ))
}

fn cannot(reason: String) -> Error {
    Error::CannotMake { format: "FAT", reason }
}

/// Returns the boot sector of a new volume.
///
/// `start` is the place of the volume on its disk in sectors; 0 if it is not in a partition.
fn boot_sector(measures: &Measures, start: u32, label: Option<Label>, serial: u32) -> BootSector {
    let fat32 = measures.kind == FatKind::Fat32;
    // A boot program that makes the BIOS try the next device: int 18h; hlt; jump back to hlt.
    let code = vec![0xCD, 0x18, 0xF4, 0xEB, 0xFD];
    let short_total = u16::try_from(measures.total).ok().filter(|_| !fat32);
    // Tracks have no meaning any more, but mtools refuses a volume whose size is no multiple of the track size.
    let sectors_per_track =
        [63, 32, 16, 8, 4, 2].into_iter().find(|&count| measures.total.is_multiple_of(count));
    let floppy = measures.floppy;
    BootSector {
        jump: if fat32 { [0xEB, 0x58, 0x90] } else { BootSector::JUMP },
        // fatgen103 recommends this name, as some drivers look for it.
        oem_name: *b"MSWIN4.1",
        bytes_per_sector: measures.bytes_per_sector as u16,
        sectors_per_cluster: measures.sectors_per_cluster as u8,
        reserved_sectors: measures.reserved,
        fat_count: FATS as u8,
        root_entries: measures.root_entries,
        total_sectors_16: short_total.unwrap_or(0),
        media: floppy.map_or(BootSector::FIXED_MEDIA, |disk| disk.media),
        fat_sectors_16: if fat32 { 0 } else { measures.fat_sectors as u16 },
        sectors_per_track: floppy
            .map_or(sectors_per_track.unwrap_or(1) as u16, |disk| disk.sectors_per_track),
        heads: floppy.map_or(255, |disk| disk.heads),
        hidden_sectors: start,
        total_sectors_32: if short_total.is_some() { 0 } else { measures.total },
        fat32: fat32.then_some(Fat32Fields {
            fat_sectors: measures.fat_sectors,
            flags: 0,
            version: 0,
            root_cluster: 2,
            info_sector: 1,
            backup_sector: 6,
            reserved: [0; 12],
        }),
        drive_number: if floppy.is_some() { 0 } else { 0x80 },
        state: VolumeState(0),
        extended_signature: BootSector::EXTENDED,
        serial,
        label: label.map_or(BootSector::NO_NAME, |label| label.0),
        type_text: *match measures.kind {
            FatKind::Fat12 => b"FAT12   ",
            FatKind::Fat16 => b"FAT16   ",
            FatKind::Fat32 => b"FAT32   ",
        },
        code,
        signature: BootSector::SIGNATURE,
    }
}

/// Writes the volume: see the module's documentation for the order.
fn write(
    device: &dyn Device,
    boot: &BootSector,
    geometry: &Geometry,
    label: Option<Label>,
    now: Duration,
    full: bool,
    progress: &dyn Progress,
) -> Result<()> {
    let sector = geometry.bytes_per_sector as usize;
    let in_sector = |bytes: &[u8]| {
        let mut sector = vec![0; sector];
        sector[..bytes.len()].copy_from_slice(bytes);
        sector
    };
    device.write_at(0, &vec![0; sector])?;
    device.flush()?;
    // Reserved sectors, FATs and a fixed root directory are contiguous. Signatures of other file systems in them are
    // cleared too.
    clear(device, 0, geometry.cluster_offset(2), "clearing structures", progress)?;
    if full {
        overwrite(device, geometry.cluster_offset(2), geometry.end_offset(), progress)?;
    }
    let root_offset = match geometry.kind {
        FatKind::Fat32 => geometry.cluster_offset(geometry.root_cluster),
        _ => geometry.root_offset(),
    };
    if geometry.kind == FatKind::Fat32 && !full {
        device.write_at(root_offset, &vec![0; geometry.cluster_size as usize])?;
    }
    if let Some(label) = label {
        let entry = ShortEntry {
            name: ShortName(label.0),
            attributes: Attributes(Attributes::LABEL),
            modified: DosTime::from_timestamp(now.into(), 0, Precision::TwoSeconds),
            ..ShortEntry::default()
        };
        device.write_at(root_offset, &in_sector(&entry.to_bytes()))?;
    }
    let mut table = vec![0; sector];
    let media = u32::from(boot.media) | geometry.kind.end() & !0xFF;
    // Entry 1 is an end mark; all of its flags are set, which means clean and free of errors.
    let entries = [media, geometry.kind.end(), geometry.kind.end()];
    let count = if geometry.kind == FatKind::Fat32 { 3 } else { 2 };
    for (index, value) in entries.into_iter().take(count).enumerate() {
        assert!(set(geometry.kind, &mut table, index as u32, value), "a sector holds three entries");
    }
    for copy in 0..geometry.fat_count {
        device.write_at(geometry.fat_offset(copy), &table)?;
    }
    let boot_bytes = in_sector(&boot.to_bytes());
    if let (Some(info), Some(backup)) = (geometry.info_sector, geometry.backup_sector) {
        let info_bytes =
            in_sector(&InfoSector::new(geometry.clusters - 1, geometry.root_cluster + 1).to_bytes());
        let mut third = [0; BootSector::SIZE];
        third[510..].copy_from_slice(&BootSector::SIGNATURE);
        let third = in_sector(&third);
        for first in [backup, 0] {
            device.write_at(geometry.sector_offset(first + info), &info_bytes)?;
            device.write_at(geometry.sector_offset(first + info + 1), &third)?;
        }
        device.write_at(geometry.sector_offset(backup), &boot_bytes)?;
    }
    device.flush()?;
    device.write_at(0, &boot_bytes)?;
    device.flush()?;
    Ok(())
}
