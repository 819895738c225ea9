//! How well a layout that was searched for agrees with the files: the size of each tells how many clusters its chain has.

use crate::layout::{Geometry, SLOT, ShortEntry, Slot};
use platter_clusters::{Disk, Link};

/// The most files whose chains are followed.
const MOST_FILES: usize = 64;
/// The longest chain that is followed. Longer files tell nothing.
const MOST_LINKS: u64 = 1 << 14;
/// The most bytes of a directory that are looked at.
const MOST_BYTES: u64 = 64 << 10;
/// The entries of a FAT that are read at once. They take whole bytes in every kind.
const WINDOW: u32 = 2048;

// A window of entries is whole sectors, with entries of 12 bits too.
const _: () = assert!(WINDOW.is_power_of_two());

/// How well a layout agrees with what is on the device; of two layouts the greater one agrees better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fit {
    /// How many files have as many clusters as their sizes need, less those that have more or fewer.
    chains: i64,
    /// Whether the data behind the fixed root directory begins with the first cluster.
    has_edge: bool,
    /// Whether the FAT has as many sectors as it needs.
    is_snug: bool,
}

impl Fit {
    /// Measures a layout by the files in its root directory and in directories that begin at these offsets.
    pub(crate) fn of(disk: &Disk, geometry: &Geometry, directories: &[u64]) -> Fit {
        let mut table = Window { disk, geometry, first: None, bytes: Vec::new() };
        let (root, length) = match geometry.root_cluster {
            0 => (geometry.root_offset(), u64::from(geometry.root_entries) * SLOT as u64),
            cluster => (geometry.cluster_offset(cluster), u64::from(geometry.cluster_size)),
        };
        let below = directories.iter().map(|at| (*at, u64::from(geometry.cluster_size)));
        let (mut chains, mut files) = (0, 0);
        for (at, length) in std::iter::once((root, length)).chain(below) {
            for file in entries(disk, at, length) {
                if let Some(is_right) = table.agrees(&file) {
                    chains += if is_right { 1 } else { -1 };
                    files += 1;
                }
                if files >= MOST_FILES {
                    break;
                }
            }
        }
        let has_edge = geometry.root_cluster == 0 && table.has_edge(root, length);
        let needed = geometry.fat_bytes().div_ceil(u64::from(geometry.bytes_per_sector));
        // Formatters round up by a few sectors, as fatgen103 itself does.
        let is_snug = (needed..=needed + 8 + needed / 8).contains(&u64::from(geometry.fat_sectors));
        Fit { chains, has_edge, is_snug }
    }

    /// Whether more files speak against the layout than for it.
    pub(crate) fn is_contradicted(&self) -> bool {
        self.chains < 0
    }
}

/// Returns the entries of files in a directory up to its end, deleted ones and directories left out.
fn entries(disk: &Disk, at: u64, length: u64) -> Vec<ShortEntry> {
    let mut slots = vec![0; length.min(MOST_BYTES) as usize / SLOT * SLOT];
    if disk.read(at, &mut slots).is_err() {
        return Vec::new();
    }
    let live = slots.as_chunks::<SLOT>().0.iter().take_while(|slot| slot[0] != 0);
    let shorts = live.filter_map(|slot| match Slot::from_bytes(slot) {
        Slot::Short(short) => Some(short).filter(|short| !short.attributes.directory() && short.size > 0),
        _ => None,
    });
    shorts.collect()
}

/// A part of the FAT.
struct Window<'d> {
    disk: &'d Disk<'d>,
    geometry: &'d Geometry,
    /// The entry that the part begins with.
    first: Option<u32>,
    bytes: Vec<u8>,
}

impl Window<'_> {
    fn link(&mut self, cluster: u32) -> Option<Link> {
        let kind = self.geometry.kind;
        let first = cluster / WINDOW * WINDOW;
        if self.first != Some(first) {
            self.bytes = vec![0; kind.table_bytes(u64::from(WINDOW)) as usize];
            let at = self.geometry.fat_offset(0) + kind.table_bytes(u64::from(first));
            self.first = self.disk.read(at, &mut self.bytes).is_ok().then_some(first);
        }
        self.first?;
        Some(self.geometry.link(crate::layout::get(kind, &self.bytes, cluster - first)?))
    }

    /// Whether a file has as many clusters as its size needs; `None` if that cannot be said.
    fn agrees(&mut self, file: &ShortEntry) -> Option<bool> {
        let needed = u64::from(file.size).div_ceil(u64::from(self.geometry.cluster_size));
        let mut at = match self.geometry.kind.bits() {
            32 => file.cluster,
            _ => file.cluster & 0xFFFF,
        };
        if !self.geometry.has_cluster(at) {
            return Some(false);
        }
        for length in 1..=needed.min(MOST_LINKS) {
            match self.link(at)? {
                Link::Next(next) => at = next,
                Link::End => return Some(length == needed),
                _ => return Some(false),
            }
        }
        (needed <= MOST_LINKS).then_some(false)
    }

    /// Whether the fixed root directory ends with slots that were never used, and what follows them begins exactly with
    /// the first cluster.
    fn has_edge(&mut self, root: u64, length: u64) -> bool {
        let mut bytes = vec![0; (length.min(MOST_BYTES) + SLOT as u64) as usize];
        let is_used = self.link(2).is_some_and(|link| link != Link::Free);
        if !is_used || length > MOST_BYTES || self.disk.read(root, &mut bytes).is_err() {
            return false;
        }
        let (slots, data) = bytes.split_at(length as usize);
        let used = slots.as_chunks::<SLOT>().0.iter().take_while(|slot| slot[0] != 0).count() * SLOT;
        slots[used..].iter().all(|&byte| byte == 0) && data.iter().any(|&byte| byte != 0)
    }
}
