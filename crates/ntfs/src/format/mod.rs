//! Making a new volume.
//!
//! # Where the structures are
//! `$Boot` and `$MFT` at the start, then the zone that is kept for `$MFT` to grow in, then the other system files in a
//! row; the copy of the first records, `$MFTMirr`, in the middle; the copy of the boot sector behind the last cluster,
//! in the device's last sector.
//!
//! # What is written, and in which order
//! First the boot sectors are cleared, so that a power cut leaves no volume rather than half of one; then everything
//! else is written; the first boot sector last. Ranges that read as zeroes already are not written again, so that
//! formatting a sparse image of terabytes is quick and keeps it sparse.

mod measures;
mod plan;
mod records;

use crate::layout::{BootSector, fixup, timestamp_to_file_time};
use crate::log::{Log, LogPlace};
use measures::{Measures, Piece};
use platter_clusters::{clear, overwrite};
use platter_device::Device;
use platter_vfs::{Error, FormatOptions, Progress, Result, Timestamp};
pub use records::security;

/// Makes a volume over the whole device.
///
/// # Errors
/// [`Error::CannotMake`] if size, cluster size and record size do not fit together, with what would fit.
/// [`Error::InvalidName`] for a label that NTFS cannot hold.
pub fn make(device: &dyn Device, options: &FormatOptions, progress: &dyn Progress) -> Result<()> {
    let refuse = |what| Err(Error::Unsupported { format: "NTFS", what });
    if options.checksum.is_some() {
        return refuse("metadata checksums to choose");
    }
    if options.integrity.is_some() {
        return refuse("integrity streams");
    }
    if options.variant.is_some() {
        return refuse("versions or kinds");
    }
    if options.align.is_some() {
        return refuse("alignment of clusters other than to their size");
    }
    let label = crate::layout::label_units(options.label.as_deref().unwrap_or(""))?;
    let measures = plan::plan(device, options)?;
    let now = device.now();
    let time = Timestamp { seconds: now.as_secs() as i64, nanoseconds: now.subsec_nanos() };
    let new = records::New {
        measures: &measures,
        label: &label,
        time: timestamp_to_file_time(time),
        compress: options.compress.unwrap_or(false),
    };
    let serial = options.serial.unwrap_or_else(|| spread(now.as_nanos() as u64));
    write(device, &new, serial, options.full, progress)
}

/// Spreads a time over 64 bits (the finaliser of SplitMix64), for a serial number.
fn spread(time: u64) -> u64 {
    let bits = (time ^ time >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

/// The boot sector, filled up to a sector of the device.
fn boot_sector(measures: &Measures, serial: u64) -> Vec<u8> {
    let mut boot = BootSector::new();
    boot.sector = measures.sector as u16;
    boot.set_cluster(measures.cluster);
    boot.sectors = measures.sectors;
    boot.mft = measures.mft.start;
    boot.mirror = measures.mirror.start;
    boot.record_size = BootSector::coded_size(measures.record, measures.cluster);
    boot.index_size = BootSector::coded_size(measures.index, measures.cluster);
    boot.serial = serial;
    let mut bytes = boot.to_bytes().to_vec();
    bytes.resize(measures.sector as usize, 0);
    bytes
}

/// Writes the volume: see the module's documentation for the order.
fn write(
    device: &dyn Device,
    new: &records::New,
    serial: u64,
    full: bool,
    progress: &dyn Progress,
) -> Result<()> {
    let measures = new.measures;
    let sector = u64::from(measures.sector);
    let boot = boot_sector(measures, serial);
    let backup = measures.sectors * sector;
    for place in [0, backup] {
        device.write_at(place, &vec![0; boot.len()])?;
    }
    device.flush()?;
    if full {
        overwrite(device, sector, backup, progress)?;
    }
    for piece in measures.pieces() {
        let (start, end) = measures.bytes_of(piece);
        clear(device, start.max(sector), end, "clearing structures", progress)?;
    }
    let put = |piece: &Piece, bytes: &[u8]| -> Result<()> {
        let (start, end) = measures.bytes_of(piece);
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().next_multiple_of(sector as usize), 0);
        if bytes.len() as u64 > end - start {
            return Err(Error::CannotMake {
                format: "NTFS",
                reason: "a structure is larger than its place".into(),
            });
        }
        device.write_at(start, &bytes)?;
        Ok(())
    };
    for (piece, bytes) in new.contents() {
        put(piece, &bytes)?;
    }
    bitmap(device, measures)?;
    let mut table = Vec::new();
    for record in new.records() {
        let mut bytes = record
            .to_bytes(measures.record as usize)
            .ok_or_else(|| Error::CannotMake { format: "NTFS", reason: "a record is too small".into() })?;
        fixup::apply(&mut bytes);
        table.extend(bytes);
    }
    put(&measures.mft, &table)?;
    put(&measures.mirror, &table[..(measures.mirrored() * u64::from(measures.record)) as usize])?;
    let (start, end) = measures.bytes_of(&measures.log);
    let place = LogPlace {
        runs: vec![(start, end - start)],
        cluster: measures.cluster as u32,
        record: measures.record,
    };
    Log::create(device, place)?;
    device.write_at(backup, &boot)?;
    device.flush()?;
    device.write_at(0, &boot)?;
    device.flush()?;
    Ok(())
}

/// Writes `$Bitmap`: the clusters of the system's files, and what lies behind the last cluster, are taken.
fn bitmap(device: &dyn Device, measures: &Measures) -> Result<()> {
    const PAGE: u64 = 4096;
    let (start, end) = measures.bytes_of(&measures.bitmap);
    let bits = measures.bitmap_bytes() * 8;
    let mut taken: Vec<(u64, u64)> =
        measures.pieces().map(|piece| (piece.start, piece.start + piece.length)).collect();
    taken.push((measures.clusters, bits));
    let mut pages: std::collections::BTreeMap<u64, Vec<u8>> = std::collections::BTreeMap::new();
    for (from, to) in taken {
        for bit in from..to {
            let page = pages.entry(bit / 8 / PAGE).or_insert_with(|| vec![0; PAGE as usize]);
            page[(bit / 8 % PAGE) as usize] |= 1 << (bit % 8);
        }
    }
    for (number, page) in pages {
        let at = start + number * PAGE;
        // The attribute ends with a cluster, which may be smaller than a page.
        device.write_at(at, &page[..PAGE.min(end - at) as usize])?;
    }
    Ok(())
}
