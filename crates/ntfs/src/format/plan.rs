//! Choosing the measures of a new volume.

use super::measures::{Measures, Piece};
use crate::layout::log::{LEAST_PAGES, PAGE};
use crate::layout::record_number;
use platter_device::{Device, show_size};
use platter_vfs::{Error, FormatOptions, Result};

/// Cluster sizes that can be chosen: 512 bytes to 2 MiB.
const CLUSTERS: std::ops::RangeInclusive<u64> = 512..=2 << 20;
/// The most clusters of a volume: Windows counts them with 32 bits.
const MOST_CLUSTERS: u64 = u32::MAX as u64;
/// Bytes of the smallest volume.
const LEAST: u64 = 1 << 20;
/// Bytes of `$Boot`.
const BOOT: u64 = 8192;
/// Bytes of `$UpCase`.
const UPCASE: u64 = 2 << 16;
/// Bytes of `$MFT` on a new volume, at least.
const TABLE: u64 = 64 << 10;
/// Bytes of an index block.
const INDEX: u32 = 4096;

fn cannot<T>(reason: String) -> Result<T> {
    Err(Error::CannotMake { format: "NTFS", reason })
}

/// Chooses the measures of a new volume on a device.
pub(super) fn plan(device: &dyn Device, options: &FormatOptions) -> Result<Measures> {
    let sector = device.sectors().logical;
    if !matches!(sector, 512 | 1024 | 2048 | 4096) {
        return cannot(format!("NTFS has sectors of 512 to 4,096 bytes, the device of {sector}"));
    }
    let length = device.len();
    if length < LEAST {
        return cannot(format!(
            "a volume has at least {}, the device {}",
            show_size(LEAST),
            show_size(length)
        ));
    }
    let sectors = length / u64::from(sector) - 1;
    let cluster = match options.cluster {
        None => usual_cluster(length).max(u64::from(sector)),
        Some(cluster)
            if cluster.is_power_of_two() && CLUSTERS.contains(&cluster) && cluster >= u64::from(sector) =>
        {
            cluster
        }
        Some(cluster) => {
            return cannot(format!(
                "a cluster here is a power of two from {} to {}, not {cluster} bytes",
                show_size(sector.into()),
                show_size(*CLUSTERS.end())
            ));
        }
    };
    let record = match options.record {
        // Windows gives disks with large sectors large records.
        None => 1024.max(sector),
        Some(record @ (1024 | 4096)) if record >= u64::from(sector) => record as u32,
        Some(record) => {
            let least = 1024.max(sector);
            let least = show_size(least.into());
            return cannot(format!("a record here has 4 KiB or {least}, not {record} bytes"));
        }
    };
    let clusters = sectors * u64::from(sector) / cluster;
    if clusters > MOST_CLUSTERS {
        return cannot(format!(
            "{clusters} clusters of {} are more than {MOST_CLUSTERS}",
            show_size(cluster)
        ));
    }
    lay(sector, sectors, cluster, record).map_or_else(
        || {
            cannot(format!(
                "a device of {} has no room for the system's files in clusters of {}",
                show_size(length),
                show_size(cluster)
            ))
        },
        Ok,
    )
}

/// The cluster size that Windows chooses.
fn usual_cluster(length: u64) -> u64 {
    let mut cluster = 4096;
    while length / cluster >= MOST_CLUSTERS {
        cluster *= 2;
    }
    cluster
}

/// Bytes of the log: a 64th of the volume, but not less than NTFS accepts and not more than 64 MiB.
fn log_bytes(length: u64) -> u64 {
    (length / 64).clamp(LEAST_PAGES * PAGE as u64, 64 << 20)
}

/// Places the structures one after the other; `None` if there is no room for them.
fn lay(sector: u32, sectors: u64, cluster: u64, record: u32) -> Option<Measures> {
    let length = sectors * u64::from(sector);
    let clusters = length / cluster;
    let mut at = 0;
    let mut take = |bytes: u64, after: u64| {
        let piece = Piece { start: at.max(after), length: bytes.div_ceil(cluster) };
        at = piece.start + piece.length;
        piece
    };
    let boot = take(BOOT, 0);
    let least_table = (record_number::FIRST_FREE + 3) * u64::from(record);
    let table = if length < 16 << 20 { least_table } else { TABLE.max(least_table) };
    // This is one cluster, which has bits for 4,096 records or more.
    let records = take(8, 0);
    let mft = take(table.next_multiple_of(cluster.max(u64::from(record))), 0);
    // An eighth of the volume is kept for the table.
    let zone = mft.start + (clusters / 8).max(mft.length);
    let index = INDEX;
    let root = take(u64::from(index), zone);
    let mut measures = Measures {
        sector,
        sectors,
        cluster,
        clusters,
        record,
        index,
        boot,
        records,
        mft,
        root,
        definitions: take(super::records::definitions_bytes(), 0),
        bitmap: take(clusters.div_ceil(64) * 8, 0),
        upcase: take(UPCASE, 0),
        descriptors: take(super::records::descriptors().len() as u64, 0),
        log: take(log_bytes(length), 0),
        mirror: Piece::default(),
    };
    let mirror = measures.mirrored() * u64::from(record);
    measures.mirror = take(mirror, clusters / 2);
    let end = measures.mirror.start + measures.mirror.length;
    // At least 8 clusters must be left for files.
    (end + 8 <= clusters).then_some(measures)
}
