//! Copying out what is left of a volume that may be too damaged to open.

use crate::check::find_boot;
use crate::layout::{EntrySet, Geometry, LARGEST_DIRECTORY, Primary, SLOT, set_checksum};
use crate::search::search;
use platter_clusters::{
    DirectoryEntry, Disk, Heap, Link, Remains, Remnant, TABLE_CACHE, Table, in_sectors_of,
};
use platter_device::Device;
use platter_vfs::{Progress, RecoverReport, Result, Visit};
use std::sync::Arc;

/// Calls `visit` for everything that is left of a volume. If no boot region is valid, the layout of the volume is searched
/// for.
///
/// # Errors
/// [`Error::NotThisFormat`](platter_vfs::Error::NotThisFormat) or [`Error::Damaged`](platter_vfs::Error::Damaged) if
/// nothing tells the layout, and the errors of `visit`.
pub fn recover(device: Arc<dyn Device>, progress: &dyn Progress, visit: Visit<'_>) -> Result<RecoverReport> {
    let disk = Disk::new(&*device);
    let geometry = find_boot(&disk).or_else(|error| search(&disk, progress).ok_or(error))?;
    let first = geometry.root_cluster;
    let table = (geometry.fat_bytes > 0)
        .then(|| in_sectors_of(device.clone(), geometry.sector))
        .map(|device| Table::new(device, geometry.clone(), geometry.fat_place(), TABLE_CACHE));
    platter_clusters::recover(
        device,
        ExfatRemains { heap: geometry.heap, table },
        &[],
        first,
        progress,
        visit,
    )
}

struct ExfatRemains {
    heap: Heap,
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

    fn entries(&self, slots: &[u8]) -> Vec<Remnant> {
        let slots = slots.as_chunks::<SLOT>().0;
        let mut found = Vec::new();
        let mut at = 0;
        while at < slots.len() {
            let rest = &slots[at..];
            at += 1;
            if Primary::of(&rest[0]) != Primary::File {
                continue;
            }
            // A set whose checksum is wrong is skipped: its cluster may be any file's.
            let Ok(set) = EntrySet::read_loosely(rest) else { continue };
            if set_checksum(set.slots()) != set.checksum() {
                continue;
            }
            at += set.slots().len() - 1;
            let info = set.info();
            let [_, modified, accessed] = info.times(0);
            found.push(Remnant {
                name: set.name(),
                is_directory: info.attributes.directory(),
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
        let Some(first) = slots.as_chunks::<SLOT>().0.iter().position(|slot| slot[0] & 0x80 != 0) else {
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
