//! Allocation bitmap and up-case table, whose entries are in the root directory.

use super::clusters::Clusters;
use super::kinds::is_file;
use super::listing::Listing;
use crate::layout::{BitmapEntry, Primary, Upcase, UpcaseEntry, kind, table_checksum};
use platter_clusters::{Claims, Disk, Link, Runs};
use platter_vfs::{CheckReport, Finding, Result, Severity};
use std::sync::Arc;

/// The system entries that were found. A slot is the number of an entry in the root directory.
#[derive(Clone, Default)]
pub(super) struct System {
    /// The slot of a usable bitmap.
    pub bitmap: Option<usize>,
    /// The slot of a bitmap that cannot be used.
    broken_bitmap: Option<usize>,
    /// The slot of the bitmap that belongs to the FAT that is not active, on a volume with two FATs.
    other_bitmap: Option<usize>,
    /// The up-case table.
    pub upcase: Option<Arc<Upcase>>,
    upcase_slot: Option<usize>,
}

impl System {
    /// Whether a slot of the root directory is one of the system entries.
    pub(super) fn has(&self, slot: usize) -> bool {
        [self.bitmap, self.broken_bitmap, self.other_bitmap, self.upcase_slot].contains(&Some(slot))
    }
}

/// Reads the root directory, whose clusters the FAT links, as far as the chain is valid.
fn root(disk: &Disk, clusters: &mut Clusters) -> Result<Listing> {
    let first = clusters.geometry.root_cluster;
    let (mut count, mut at) = (1, first);
    while let Link::Next(next) = clusters.link(at)?
        && count < clusters.heap.count
        && next != first
    {
        (count, at) = (count + 1, next);
    }
    Listing::read(disk, clusters, first, count, false)
}

/// Returns the clusters of a table of `bytes` bytes from `first` on: consecutive ones if `contiguous`, otherwise the
/// FAT's chain. `None` if they are not valid or used already.
fn place(clusters: &mut Clusters, first: u32, bytes: u64, contiguous: bool) -> Result<Option<Runs>> {
    let needed = clusters.heap.clusters_for(bytes);
    let mut runs = Runs::default();
    let mut at = first;
    for index in 0..needed {
        if !clusters.heap.has(at) || clusters.is_claimed(at) {
            return Ok(None);
        }
        runs.push(at, 1);
        let last = index + 1 == needed;
        at = match (contiguous, clusters.link(at)?) {
            (true, _) => at + 1,
            (false, Link::Next(next)) if !last => next,
            (false, Link::End) if last => break,
            _ => return Ok(None),
        };
    }
    // Runs that overlap mean a chain that meets itself.
    let mut seen: Vec<(u32, u32)> = runs.iter().map(|run| (run.cluster, run.count)).collect();
    seen.sort_unstable();
    Ok(seen.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0).then_some(runs))
}

/// Reads the first `bytes` bytes of these clusters.
fn content(disk: &Disk, clusters: &Clusters, runs: &Runs, bytes: u64) -> Result<Vec<u8>> {
    let mut content = vec![0; bytes as usize];
    let mut at = 0;
    for run in runs.iter() {
        let length = ((run.count as usize) << clusters.heap.shift).min(content.len() - at);
        disk.read(clusters.heap.offset(run.cluster), &mut content[at..at + length])?;
        at += length;
    }
    Ok(content)
}

fn claim(clusters: &mut Clusters, runs: &Runs) {
    runs.iter()
        .for_each(|run| (run.cluster..run.cluster + run.count).for_each(|cluster| clusters.claim(cluster)));
}

/// Finds bitmap and up-case table, and claims their clusters.
pub(super) fn find(
    disk: &mut Disk,
    clusters: &mut Clusters,
    report: &mut CheckReport,
    repair: bool,
) -> Result<System> {
    clusters.claim(clusters.geometry.root_cluster);
    let listing = root(disk, clusters)?;
    let mut system = System::default();
    let mut finding = |code, message: String| {
        let severity = Severity::Inconsistent;
        report.add(Finding { code, severity, path: None, message, repaired: repair });
    };
    let active = clusters.geometry.active_fat as u8;
    let other = |what| format!("the allocation bitmap of the FAT that is not active {what}");
    for at in 0..listing.end() {
        let slot = listing.slot(at);
        match Primary::of(&slot) {
            // The type of a file's entry is one bit from that of a bitmap.
            Primary::Other(kind::BITMAP) if is_file(&listing.slots()[at..]) => {}
            Primary::Other(kind::BITMAP) if slot[1] & 1 == active && system.bitmap.is_none() => {
                let entry = BitmapEntry::from_bytes(&slot);
                let bytes = clusters.geometry.bitmap_bytes();
                if entry.length < bytes {
                    system.broken_bitmap = system.broken_bitmap.or(Some(at));
                    continue;
                }
                // A bitmap has no checksum, so its chain alone shows whether it is valid; one with a broken chain is
                // made anew.
                if let Some(runs) = place(clusters, entry.cluster, entry.length, false)? {
                    let content = content(disk, clusters, &runs, bytes)?;
                    claim(clusters, &runs);
                    clusters.set_bitmap(runs, content);
                    system.bitmap = Some(at);
                }
                if system.bitmap.is_none() {
                    system.broken_bitmap = system.broken_bitmap.or(Some(at));
                }
            }
            // A volume with two FATs (TexFAT) has a bitmap for each (7.1). The second one's content is not compared:
            // it is that of the time when its FAT was the active one.
            Primary::Other(kind::BITMAP)
                if clusters.geometry.fat_count == 2
                    && slot[1] & 1 != active
                    && system.other_bitmap.is_none() =>
            {
                system.other_bitmap = Some(at);
                let entry = BitmapEntry::from_bytes(&slot);
                let is_long_enough = entry.length >= clusters.geometry.bitmap_bytes();
                let runs = place(clusters, entry.cluster, entry.length, false)?.filter(|_| is_long_enough);
                match runs {
                    Some(runs) => claim(clusters, &runs),
                    None => finding("bitmap", other("is not whole")),
                }
            }
            Primary::Other(kind::UPCASE) if system.upcase.is_none() => {
                system.upcase_slot = system.upcase_slot.or(Some(at));
                let entry = UpcaseEntry::from_bytes(&slot);
                if !(2..=Upcase::MOST_BYTES).contains(&entry.length) {
                    continue;
                }
                for contiguous in [false, true] {
                    let Some(runs) = place(clusters, entry.cluster, entry.length, contiguous)? else {
                        continue;
                    };
                    let content = content(disk, clusters, &runs, entry.length)?;
                    if table_checksum(&content) != entry.checksum {
                        continue;
                    }
                    let Ok(upcase) = Upcase::from_bytes(&content, 0) else { continue };
                    if contiguous {
                        finding("upcase-chain", "the FAT does not link the up-case table's clusters".into());
                        if repair {
                            clusters.set_chain(entry.cluster, runs.clusters());
                        }
                    }
                    claim(clusters, &runs);
                    (system.upcase, system.upcase_slot) = (Some(Arc::new(upcase)), Some(at));
                    break;
                }
            }
            _ => {}
        }
    }
    if clusters.geometry.fat_count == 2 && system.other_bitmap.is_none() {
        finding("bitmap", other("is missing"));
    }
    Ok(system)
}

/// Writes a new bitmap or up-case table where none was found, into free clusters.
pub(super) fn restore(
    disk: &mut Disk,
    clusters: &mut Clusters,
    system: &System,
    report: &mut CheckReport,
    repair: bool,
) -> Result<()> {
    if system.upcase.is_none() {
        let bytes = Upcase::recommended().to_bytes();
        let checksum = table_checksum(&bytes);
        let entry = |cluster| UpcaseEntry { checksum, cluster, length: bytes.len() as u64 }.to_bytes();
        let told = ("upcase", "no up-case table is whole; the recommended one takes its place");
        write(disk, clusters, report, repair, told, system.upcase_slot, &bytes, entry)?;
    }
    if system.bitmap.is_none() {
        let length = clusters.geometry.bitmap_bytes();
        let flags = clusters.geometry.active_fat as u8;
        let entry = |cluster| BitmapEntry { flags, cluster, length }.to_bytes();
        let told = ("bitmap", "no allocation bitmap is whole; it is made anew from what is in use");
        let bytes = clusters.rebuilt();
        write(disk, clusters, report, repair, told, system.broken_bitmap, &bytes, entry)?;
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)] // Called twice, just above.
fn write(
    disk: &mut Disk,
    clusters: &mut Clusters,
    report: &mut CheckReport,
    repair: bool,
    (code, message): (&'static str, &str),
    slot: Option<usize>,
    bytes: &[u8],
    entry: impl Fn(u32) -> [u8; 32],
) -> Result<()> {
    let mut listing = root(disk, clusters)?;
    let free = || (0..listing.capacity()).find(|&at| listing.slot(at)[0] & 0x80 == 0);
    let slot = slot.or_else(free);
    let count = clusters.heap.clusters_for(bytes.len() as u64) as u32;
    let place = if repair && slot.is_some() { clusters.allocate(count)? } else { None };
    if let (Some(slot), Some(first)) = (slot, place) {
        disk.write(clusters.heap.offset(first), bytes)?;
        clusters.set_chain(first, count);
        listing.change(disk, slot, entry(first));
    }
    let severity = Severity::Inconsistent;
    report.add(Finding { code, severity, path: None, message: message.into(), repaired: place.is_some() });
    Ok(())
}
