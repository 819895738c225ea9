//! Copying out what is left of a volume that may be too damaged to open.

use crate::check::find_boot;
use crate::layout::{
    BitmapEntry, EntrySet, Geometry, LARGEST_DIRECTORY, Primary, SLOT, kind, secondary_count, set_checksum,
};
use crate::search::search;
use platter_clusters::{
    DirectoryEntry, Disk, Heap, Link, Remains, Remnant, TABLE_CACHE, Table, in_sectors_of,
};
use platter_device::Device;
use platter_vfs::{LocalTime, Progress, RecoverReport, Result, Visit};
use std::sync::Arc;

/// Calls `visit` for everything that is left of a volume. If no boot region is valid, the layout of the volume is searched
/// for.
///
/// # Errors
/// [`Error::NotThisFormat`](platter_vfs::Error::NotThisFormat) or [`Error::Damaged`](platter_vfs::Error::Damaged) if
/// nothing tells the layout, and the errors of `visit`.
pub(crate) fn recover(
    device: Arc<dyn Device>,
    progress: &dyn Progress,
    visit: Visit<'_>,
) -> Result<RecoverReport> {
    let disk = Disk::new(&*device);
    let geometry = find_boot(&disk).or_else(|error| search(&disk, progress).ok_or(error))?;
    let first = geometry.root_cluster;
    let table = (geometry.fat_bytes > 0)
        .then(|| in_sectors_of(device.clone(), geometry.sector))
        .map(|device| Table::new(device, geometry.clone(), geometry.fat_place(), TABLE_CACHE));
    let bitmap = bitmap(&disk, &geometry);
    platter_clusters::recover(
        device,
        ExfatRemains { heap: geometry.heap, bitmap, table },
        &[],
        first,
        progress,
        visit,
    )
}

/// Returns the allocation bitmap, if the first cluster of the root directory leads to it and its clusters are consecutive, as
/// systems make them.
fn bitmap(disk: &Disk, geometry: &Geometry) -> Option<Vec<u8>> {
    let heap = geometry.heap;
    let mut slots = vec![0; heap.cluster_size().min(1 << 20) as usize];
    disk.read(heap.offset(geometry.root_cluster), &mut slots).ok()?;
    let slot = slots.as_chunks::<SLOT>().0.iter().find(|slot| slot[0] == kind::BITMAP)?;
    let entry = BitmapEntry::from_bytes(slot);
    let bytes = geometry.bitmap_bytes();
    let end = u64::from(entry.cluster) + heap.clusters_for(bytes);
    if entry.length < bytes || !heap.has(entry.cluster) || end > u64::from(heap.last()) + 1 {
        return None;
    }
    let mut bitmap = vec![0; bytes as usize];
    disk.read(heap.offset(entry.cluster), &mut bitmap).ok()?;
    // A bitmap marks its own clusters; one that does not is none.
    let is_own = |cluster: u64| bitmap[(cluster as usize - 2) / 8] >> ((cluster - 2) % 8) & 1 == 1;
    (u64::from(entry.cluster)..end).all(is_own).then_some(bitmap)
}

struct ExfatRemains {
    heap: Heap,
    /// `None` if it is not found.
    bitmap: Option<Vec<u8>>,
    /// `None` if no FAT is left.
    table: Option<Table<Geometry>>,
}

impl Remains for ExfatRemains {
    fn heap(&self) -> Heap {
        self.heap
    }

    fn link(&mut self, cluster: u32) -> Result<Link> {
        self.table.as_mut().map_or(Ok(Link::Free), |table| table.link(cluster))
    }

    fn is_free(&mut self, cluster: u32) -> bool {
        let at = cluster.saturating_sub(2) as usize;
        let bitmap = self.bitmap.as_ref();
        bitmap.is_none_or(|bitmap| bitmap.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 0))
    }

    fn next_entry(&self, cluster: u32) -> u32 {
        let Some((device, place)) = self.table.as_ref().map(Table::place) else { return cluster };
        let at = place.start + u64::from(cluster) * 4;
        let next = device.next_data(at).saturating_sub(place.start) / 4;
        cluster.max(next.min(u64::from(u32::MAX)) as u32)
    }

    fn entries(&self, slots: &[u8]) -> Vec<Remnant> {
        let slots = slots.as_chunks::<SLOT>().0;
        let mut found = Vec::new();
        let mut at = 0;
        while at < slots.len() {
            let rest = &slots[at..];
            at += 1;
            let is_deleted = rest[0][0] == kind::FILE & 0x7F;
            if Primary::of(&rest[0]) != Primary::File && !is_deleted {
                continue;
            }
            // A deletion clears the bit of each entry that says it is in use (7.4); the checksum is that with the bits set.
            let whole: Vec<[u8; SLOT]>;
            let rest = match is_deleted {
                true => {
                    let slots = rest.iter().take(secondary_count(&rest[0]) + 1);
                    whole = slots
                        .map(|slot| {
                            let mut slot = *slot;
                            slot[0] |= 0x80;
                            slot
                        })
                        .collect();
                    &whole[..]
                }
                false => rest,
            };
            // A set whose checksum is wrong is skipped: its cluster may be any file's.
            let Ok(set) = EntrySet::read_loosely(rest) else { continue };
            if set_checksum(set.slots()) != set.checksum() {
                continue;
            }
            at += set.slots().len() - 1;
            let info = set.info();
            let [_, modified, accessed] = info.times(LocalTime::default());
            found.push(Remnant {
                name: set.name(),
                is_directory: info.attributes.directory(),
                is_deleted,
                cluster: info.cluster,
                size: info.length,
                valid: info.valid.min(info.length),
                contiguous: info.contiguous,
                modified: modified.unwrap_or_default(),
                accessed: accessed.unwrap_or_default(),
            });
        }
        found
    }

    /// exFAT marks no beginning of a directory, but a set with a right checksum near the start is no coincidence.
    fn looks_like_directory(&self, slots: &[u8]) -> bool {
        let Some(first) = slots.as_chunks::<SLOT>().0.iter().position(|slot| slot[0] & 0x7F != 0) else {
            return false;
        };
        first < 32 && !self.entries(&slots[first * SLOT..]).is_empty()
    }

    fn goes_on(&self, next: &[u8]) -> bool {
        !self.entries(next).is_empty()
    }

    fn largest_directory(&self) -> u64 {
        LARGEST_DIRECTORY
    }
}
