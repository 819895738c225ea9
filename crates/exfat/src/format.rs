//! Making a new volume.
//!
//! # Default cluster size
//! The cluster size depends on the size of the volume, as on Windows: 4 KiB up to 256 MiB, 32 KiB up to 32 GiB, 128
//! KiB above; larger where there would be more clusters than a 32-bit number can count.
//!
//! # Alignment
//! FAT and clusters start on a multiple of `align`, counted from the start of the disk, so that no erase block of a flash
//! card is shared by a cluster and another structure, wherever the partition begins. The default is 1 MiB, as partitions are aligned; less on
//! volumes of which this would take a sixteenth.
//!
//! # Order of writing
//! First the boot sector is cleared, so that a power cut leaves no volume rather than half of one; then everything
//! else is written; then the boot regions, with the main one's first sector last. Ranges that read as zeroes already
//! are not written again, so that formatting a sparse image of terabytes is quick and keeps it sparse.

use crate::layout::{
    BitmapEntry, BootRegion, BootSector, Geometry, LabelEntry, SLOT, Upcase, UpcaseEntry, VolumeFlags, kind,
    table_checksum,
};
use platter_clusters::{clear, overwrite, serial_from};
use platter_device::{Device, show_size};
use platter_vfs::{Error, FormatOptions, Progress, Result};

/// The exponents of the cluster sizes that are allowed: 512 bytes to 32 MiB.
const CLUSTER_BITS: std::ops::RangeInclusive<u32> = 9..=25;

/// The default alignment of clusters in bytes.
const ALIGN: u64 = 1 << 20;

/// Makes a volume over the whole device.
///
/// # Errors
/// [`Error::CannotMake`] if size, cluster size and alignment do not fit together; the message says which would fit.
/// [`Error::InvalidName`] for a label that exFAT cannot hold.
pub(crate) fn make(device: &dyn Device, options: &FormatOptions, progress: &dyn Progress) -> Result<()> {
    let refuse = |what| Err(Error::Unsupported { format: "exFAT", what });
    if options.checksum.is_some() {
        return refuse("metadata checksums to choose");
    }
    if options.integrity.is_some() {
        return refuse("integrity streams");
    }
    if options.variant.is_some() {
        return refuse("versions or kinds");
    }
    if options.record.is_some() {
        return refuse("records of files");
    }
    if options.compress.is_some() {
        return refuse("compression");
    }
    let label = LabelEntry::new(options.label.as_deref().unwrap_or(""))?;
    let serial = match options.serial {
        Some(serial) => {
            u32::try_from(serial).map_err(|_| Error::InvalidArgument("an exFAT serial number has 32 bits"))?
        }
        None => serial_from(device.now()),
    };
    let upcase = Upcase::recommended().to_bytes();
    let measures = plan(device, options.cluster, options.align, upcase.len() as u64)?;
    write(device, measures, &label, serial, &upcase, options.full, progress)
}

/// The layout of a new volume, in sectors.
struct Measures {
    sector_shift: u32,
    /// Where the volume begins on its disk.
    start: u64,
    /// The number of bytes in a cluster, as a power of two.
    shift: u32,
    total: u64,
    fat: u64,
    fat_length: u64,
    heap: u64,
    clusters: u32,
    /// The number of clusters of the bitmap and of the up-case table, which come before the root directory.
    bitmap: u32,
    upcase: u32,
}

fn cannot(reason: String) -> Error {
    Error::CannotMake { format: "exFAT", reason }
}

/// Chooses the layout.
fn plan(device: &dyn Device, cluster: Option<u64>, align: Option<u64>, upcase: u64) -> Result<Measures> {
    let sector = device.sectors().logical;
    if !matches!(sector, 512 | 1024 | 2048 | 4096) {
        return Err(cannot(format!("exFAT has sectors of 512 to 4,096 bytes, the device of {sector}")));
    }
    let length = device.len();
    if length < BootSector::LEAST_BYTES {
        return Err(cannot(format!("a volume has at least 1 MiB, the device {}", show_size(length))));
    }
    let shift = match cluster {
        None => usual_cluster(length).max(sector.ilog2()),
        Some(wanted) => CLUSTER_BITS
            .filter(|bits| 1 << bits >= sector)
            .find(|bits| 1u64 << bits == wanted)
            .ok_or_else(|| {
            cannot(format!(
                "a cluster here is a power of two from {} to 32 MiB, not {wanted} bytes",
                show_size(sector.into())
            ))
        })?,
    };
    let align = match align {
        None => ALIGN.min(1 << (length / 32).ilog2()).max(u64::from(sector)),
        Some(wanted) if wanted.is_power_of_two() && (u64::from(sector)..=1 << 30).contains(&wanted) => wanted,
        Some(wanted) => {
            return Err(cannot(format!(
                "an alignment is a power of two from {} to 1 GiB, not {wanted} bytes",
                show_size(sector.into())
            )));
        }
    };
    measure(sector.ilog2(), shift, (device.start(), length), align, upcase).ok_or_else(|| {
        cannot(format!(
            "a device of {} has no room for clusters of {} aligned to {}, of which the volume takes at least 4 and at \
             most {}",
            show_size(length),
            show_size(1 << shift),
            show_size(align),
            BootSector::MOST_CLUSTERS
        ))
    })
}

/// Returns the cluster size that Windows chooses, as a power of two; larger where a 32-bit number could not count the
/// clusters.
fn usual_cluster(length: u64) -> u32 {
    const MIB: u64 = 1 << 20;
    let usual = match length {
        _ if length <= 256 * MIB => 12,
        _ if length <= 32 << 30 => 15,
        _ => 17,
    };
    CLUSTER_BITS
        .filter(|bits| *bits >= usual)
        .find(|bits| length >> bits < u64::from(BootSector::MOST_CLUSTERS))
        .unwrap_or(25)
}

/// Returns the layout of a volume with this start on its disk and this length, or `None` if there is no room for the
/// smallest volume, or if there would be too many clusters.
fn measure(
    sector_shift: u32,
    shift: u32,
    (start, length): (u64, u64),
    align: u64,
    upcase: u64,
) -> Option<Measures> {
    let total = length >> sector_shift;
    let unit = align >> sector_shift;
    let boot = 2 * BootRegion::SECTORS as u64;
    let start = start >> sector_shift;
    let aligned = |sector: u64| (start % unit + sector).next_multiple_of(unit) - start % unit;
    let fat = aligned(boot);
    let mut clusters = (total << sector_shift) >> shift;
    let (fat_length, heap) = loop {
        let fat_length = ((clusters + 2) * 4).div_ceil(1 << sector_shift);
        let heap = aligned(fat + fat_length);
        let room = (total.checked_sub(heap)? << sector_shift) >> shift;
        // The number of clusters decreases with each step, until the FAT for so many clusters leaves room for them.
        if room >= clusters {
            break (fat_length, heap);
        }
        clusters = room;
    };
    // 3.1.9: as many clusters as there is room for.
    let clusters = ((total - heap) << sector_shift) >> shift;
    let fat_length = fat_length.max(((clusters + 2) * 4).div_ceil(1 << sector_shift));
    if fat + fat_length > heap || heap > u64::from(u32::MAX) {
        return None;
    }
    let count = u32::try_from(clusters).ok().filter(|&count| count <= BootSector::MOST_CLUSTERS)?;
    let bitmap = u32::try_from(clusters.div_ceil(8).div_ceil(1 << shift)).ok()?;
    let upcase = upcase.div_ceil(1 << shift) as u32;
    (count > bitmap + upcase + 1).then_some(Measures {
        sector_shift,
        shift,
        start,
        total,
        fat,
        fat_length,
        heap,
        clusters: count,
        bitmap,
        upcase,
    })
}

/// Returns the boot sector of a new volume.
fn boot_sector(measures: &Measures, serial: u32) -> BootSector {
    let used = measures.bitmap + measures.upcase + 1;
    BootSector {
        jump: BootSector::JUMP,
        name: BootSector::NAME,
        zero: [0; 53],
        partition_offset: measures.start,
        volume_length: measures.total,
        fat_offset: measures.fat as u32,
        fat_length: measures.fat_length as u32,
        heap_offset: measures.heap as u32,
        cluster_count: measures.clusters,
        root_cluster: 2 + measures.bitmap + measures.upcase,
        serial,
        revision: BootSector::REVISION,
        flags: VolumeFlags(0),
        sector_shift: measures.sector_shift as u8,
        cluster_shift: (measures.shift - measures.sector_shift) as u8,
        fat_count: 1,
        drive: 0x80,
        percent: (u64::from(used) * 100 / u64::from(measures.clusters)) as u8,
        reserved: [0; 7],
        code: [0xF4; 390],
        signature: BootSector::SIGNATURE,
    }
}

/// Returns the twelve sectors of a boot region.
fn region(boot: &BootSector, sector: usize) -> Vec<u8> {
    let mut region = vec![0; BootRegion::SECTORS * sector];
    region[..BootSector::SIZE].copy_from_slice(&boot.to_bytes());
    for number in 1..=8 {
        region[(number + 1) * sector - 4..(number + 1) * sector]
            .copy_from_slice(&BootRegion::EXTENDED_SIGNATURE);
    }
    BootRegion::seal(&mut region, sector);
    region
}

/// Writes the volume: see the module's documentation for the order.
fn write(
    device: &dyn Device,
    measures: Measures,
    label: &LabelEntry,
    serial: u32,
    upcase: &[u8],
    full: bool,
    progress: &dyn Progress,
) -> Result<()> {
    let boot = boot_sector(&measures, serial);
    let geometry = boot.geometry(device.len())?;
    let sector = geometry.sector as usize;
    let heap = geometry.heap;
    device.write_at(0, &vec![0; sector])?;
    device.flush()?;
    // Signatures of other file systems in this range are cleared too.
    clear(device, 0, heap.start, "clearing structures", progress)?;
    if full {
        overwrite(device, heap.start, geometry.volume_bytes / sector as u64 * sector as u64, progress)?;
    }
    let used = measures.bitmap + measures.upcase + 1;
    let put = |cluster: u32, bytes: &[u8], clusters: u32| -> Result<()> {
        let (start, end) = (heap.offset(cluster), heap.offset(cluster) + (u64::from(clusters) << heap.shift));
        let mut whole = bytes.to_vec();
        whole.resize(bytes.len().next_multiple_of(sector), 0);
        device.write_at(start, &whole)?;
        clear(device, start + whole.len() as u64, end, "clearing structures", progress)
    };
    let mut bitmap = vec![0; (geometry.bitmap_bytes() as usize).min(used as usize / 8 + 1)];
    (0..used).for_each(|bit| bitmap[bit as usize / 8] |= 1 << (bit % 8));
    put(2, &bitmap, measures.bitmap)?;
    put(2 + measures.bitmap, upcase, measures.upcase)?;
    put(boot.root_cluster, &root_entries(&measures, &geometry, label, upcase), 1)?;
    // The FAT: three chains, one after the other.
    let mut table = Vec::from([Geometry::MEDIA, u32::MAX]);
    let ends = [1 + measures.bitmap, 1 + measures.bitmap + measures.upcase, 1 + used];
    table.extend(
        (2..2 + used).map(|cluster| if ends.contains(&cluster) { Geometry::END } else { cluster + 1 }),
    );
    let mut table: Vec<u8> = table.into_iter().flat_map(u32::to_le_bytes).collect();
    table.resize(table.len().next_multiple_of(sector), 0);
    device.write_at(geometry.fat_start, &table)?;
    let region = region(&boot, sector);
    device.write_at(region.len() as u64, &region)?;
    device.write_at(sector as u64, &region[sector..])?;
    device.flush()?;
    device.write_at(0, &region[..sector])?;
    device.flush()?;
    Ok(())
}

/// Returns the first entries of the root directory: label, bitmap, up-case table.
fn root_entries(measures: &Measures, geometry: &Geometry, label: &LabelEntry, upcase: &[u8]) -> Vec<u8> {
    let mut named = label.to_bytes();
    if label.0.is_empty() {
        // Without a label, an unused label entry is kept as a place for one.
        named[0] = kind::LABEL & 0x7F;
    }
    let bitmap = BitmapEntry { flags: 0, cluster: 2, length: geometry.bitmap_bytes() };
    let table = UpcaseEntry {
        checksum: table_checksum(upcase),
        cluster: 2 + measures.bitmap,
        length: upcase.len() as u64,
    };
    let slots: [[u8; SLOT]; 3] = [named, bitmap.to_bytes(), table.to_bytes()];
    slots.as_flattened().to_vec()
}
