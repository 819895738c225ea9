//! Whether an image can be written to: nothing in it may be led to twice.

use super::form::Qcow2Form;
use crate::bytes::{be64, read};
use crate::form::{Form, Kept};
use platter_device::{Device, Result};

/// The most clusters of a file of which notes are kept, 32 MiB of memory.
const MOST: u64 = 1 << 28;

/// The clusters of the file that are taken.
struct UsedClusters {
    cluster: u64,
    bits: Vec<u8>,
}

impl UsedClusters {
    /// Takes a range of the file. Returns the offset of a cluster that was taken already, if there is one.
    fn take(&mut self, at: u64, length: u64) -> Option<u64> {
        let range = at / self.cluster..(at + length).div_ceil(self.cluster);
        let mut twice = None;
        for cluster in range {
            let (byte, bit) = ((cluster / 8) as usize, 1 << (cluster % 8));
            if self.bits[byte] & bit != 0 {
                twice.get_or_insert(cluster * self.cluster);
            }
            self.bits[byte] |= bit;
        }
        twice
    }
}

/// Why an image cannot be written to; `None` if it can. All tables are read.
pub(super) fn why_not_written(form: &Qcow2Form, file: &dyn Device) -> Result<Option<String>> {
    let header = &form.header;
    let cluster = header.cluster();
    let clusters = file.len().div_ceil(cluster);
    let why = match () {
        () if header.is_dirty => "was not closed: `qemu-img check -r all` puts it right".to_string(),
        () if header.is_corrupt => "is marked as damaged: `qemu-img check -r all` may repair it".into(),
        () if header.snapshots > 0 => format!("has {} snapshots of QEMU in it", header.snapshots),
        () if clusters > MOST => format!("has more than {MOST} clusters"),
        () => return Ok(find(form, file, clusters)?.map(reason)),
    };
    Ok(Some(reason(why)))
}

fn reason(why: String) -> String {
    format!("it is a qcow2 image that {why}")
}

fn find(form: &Qcow2Form, file: &dyn Device, clusters: u64) -> Result<Option<String>> {
    let header = &form.header;
    let cluster = header.cluster();
    let mut used = UsedClusters { cluster, bits: vec![0; (clusters / 8 + 1) as usize] };
    let twice = |at: u64| format!("is damaged: more than one thing is in the cluster at offset {at}");
    let shared = |at: u64| format!("has a shared cluster at offset {at}");
    used.take(0, cluster);
    for (at, length) in [(header.l1, header.l1_entries * 8), (header.table, header.table_length)] {
        if let Some(at) = used.take(at, length) {
            return Ok(Some(twice(at)));
        }
    }
    for entry in read(file, header.table, header.table_length as usize)?.chunks_exact(8) {
        let at = be64(entry, 0);
        if at == 0 {
            continue;
        }
        if !at.is_multiple_of(cluster) || at / cluster >= clusters {
            return Ok(Some(format!("is damaged: a block of counters is to be at offset {at}")));
        }
        if let Some(at) = used.take(at, cluster) {
            return Ok(Some(twice(at)));
        }
    }
    let mut page = Vec::new();
    for number in 0..form.tables() {
        // So many entries of the first level are read at a time.
        const ENTRIES: u64 = 4096;
        if number % ENTRIES == 0 {
            page = read(file, header.l1 + number * 8, (ENTRIES.min(form.tables() - number) * 8) as usize)?;
        }
        let (at, is_alone) = form.l2_of(file, number, &page[(number % ENTRIES * 8) as usize..])?;
        if at == 0 {
            continue;
        }
        if !is_alone {
            return Ok(Some(shared(at)));
        }
        if let Some(at) = used.take(at, cluster) {
            return Ok(Some(twice(at)));
        }
        let blocks = number * (cluster / 8)..((number + 1) * (cluster / 8)).min(form.shape.blocks());
        for (block, entry) in blocks.zip(read(file, at, cluster as usize)?.chunks_exact(8)) {
            let at = match form.decode(block, entry, file.len())? {
                Kept::Packed(_) => {
                    return Ok(Some("has compressed clusters: `qemu-img convert` makes one without".into()));
                }
                Kept::Whole(at) | Kept::Reserved(at) => at,
                _ => continue,
            };
            if entry[0] & 0x80 == 0 {
                return Ok(Some(shared(at)));
            }
            if let Some(at) = used.take(at, 1) {
                return Ok(Some(twice(at)));
            }
        }
    }
    Ok(None)
}
