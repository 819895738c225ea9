//! Making a qcow2 image.

use crate::bytes::unusable;
use crate::container::QCOW2;
use platter_device::{Growing, Result, write_any};

/// Makes an image of version 3 in an empty file, for a disk of so many bytes, with clusters of so many.
pub(crate) fn make(file: &dyn Growing, size: u64, cluster: u64) -> Result<()> {
    const HEADER: u32 = 104;
    /// The bits of a counter, as a power of 2.
    const ORDER: u32 = 4;
    let refused = |reason: String| Err(unusable(file.name(), reason));
    if !cluster.is_power_of_two() || !(512..=2 << 20).contains(&cluster) {
        return refused(format!(
            "a qcow2 has clusters of a power of two from 512 bytes to 2 MiB, not {cluster}"
        ));
    }
    let reach = cluster * (cluster / 8);
    if size == 0 || !size.is_multiple_of(512) || i64::try_from(size).is_err() {
        return refused(format!("a qcow2 has whole sectors of 512 bytes, and cannot have {size} bytes"));
    }
    // Behind the header the table of counters, its first block, and the table of the first level.
    let entries = size.div_ceil(reach);
    let clusters = 3 + (entries * 8).div_ceil(cluster);
    let counters = (cluster * 8) >> ORDER;
    if clusters > counters || entries * 8 > 32 << 20 {
        return refused(format!("a qcow2 with clusters of {cluster} bytes cannot have {size} bytes"));
    }
    file.grow(clusters * cluster)?;
    let mut header = vec![0; HEADER as usize];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, QCOW2);
    put(4, &3_u32.to_be_bytes());
    put(20, &cluster.trailing_zeros().to_be_bytes());
    put(24, &size.to_be_bytes());
    put(36, &(entries as u32).to_be_bytes());
    put(40, &(3 * cluster).to_be_bytes());
    put(48, &cluster.to_be_bytes());
    put(56, &1_u32.to_be_bytes());
    put(96, &ORDER.to_be_bytes());
    put(100, &HEADER.to_be_bytes());
    let ones: Vec<u8> = (0..clusters).flat_map(|_| 1_u16.to_be_bytes()).collect();
    write_any(file, 2 * cluster, &ones)?;
    write_any(file, cluster, &(2 * cluster).to_be_bytes())?;
    write_any(file, 0, &header)?;
    file.flush()
}
