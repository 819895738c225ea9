//! The state that only an open exFAT volume has, and the meaning of its entries.

use crate::bitmap::Bitmap;
use crate::layout::{BootSector, FileInfo, Geometry, LARGEST_DIRECTORY, Precision, Stamp, Upcase};
use platter_clusters::{DirectoryEntry, Images, Runs, Table};
use platter_vfs::{DosFlags, Error, LocalTime, Result, Timestamp};
use std::sync::Arc;

/// The state that an exFAT volume has in addition to what FAT and exFAT share.
pub struct ExfatFamily {
    pub(crate) geometry: Geometry,
    pub(crate) table: Table<Geometry>,
    pub(crate) bitmap: Bitmap,
    pub(crate) upcase: Arc<Upcase>,
    /// The first sector, with the changes that the next commit writes.
    pub(crate) boot: Vec<u8>,
}

impl DirectoryEntry for FileInfo {
    fn is_directory(&self) -> bool {
        self.attributes.directory()
    }

    fn cluster(&self) -> u32 {
        self.cluster
    }

    fn size(&self) -> u64 {
        self.length
    }

    fn flags(&self) -> DosFlags {
        DosFlags(u32::from(self.attributes.0) & DosFlags::SETTABLE.0)
    }

    fn set_flags(&mut self, flags: DosFlags) {
        let settable = DosFlags::SETTABLE.0;
        self.attributes.0 = self.attributes.0 & !(settable as u16) | (flags.0 & settable) as u16;
    }

    fn times(&self, local: LocalTime) -> [Option<Timestamp>; 3] {
        [self.created, self.modified, self.accessed].map(|stamp| Some(stamp.to_time(local)))
    }

    fn set_times(&mut self, [created, modified, accessed]: [Option<Timestamp>; 3], local: LocalTime) {
        let stamp = |time, precision| Stamp::from_time(time, local, precision);
        self.created = created.map_or(self.created, |at| stamp(at, Precision::Hundredths));
        self.modified = modified.map_or(self.modified, |at| stamp(at, Precision::Hundredths));
        self.accessed = accessed.map_or(self.accessed, |at| stamp(at, Precision::TwoSeconds));
    }
}

impl ExfatFamily {
    pub fn boot_sector(&self) -> BootSector {
        BootSector::from_bytes(self.boot[..BootSector::SIZE].try_into().expect("a boot sector's length"))
    }

    /// Returns the clusters of `length` bytes from the cluster `first` on.
    pub fn runs(&mut self, contiguous: bool, first: u32, length: u64, whole: bool) -> Result<Runs> {
        let heap = self.geometry.heap;
        let needed = heap.clusters_for(length);
        if first == 0 {
            return match needed {
                0 => Ok(Runs::default()),
                _ => Err(Error::damaged(
                    "stream extension",
                    0,
                    format!("{needed} clusters for {length} bytes"),
                    "none",
                )),
            };
        }
        if needed > u64::from(heap.count) {
            let expected = format!("at most the {} clusters there are", heap.count);
            return Err(Error::damaged("stream extension", 0, expected, needed));
        }
        let needed = needed as u32;
        if !contiguous {
            return self.table.walk(first, Some(if whole { 0 } else { needed }), heap.count);
        }
        let last = u64::from(first) + u64::from(needed.max(1)) - 1;
        if !heap.has(first) || last > u64::from(heap.last()) {
            let expected = format!("{needed} clusters from 2 to {}", heap.last());
            return Err(Error::damaged("stream extension", 0, expected, format!("those from {first}")));
        }
        let mut runs = Runs::default();
        if needed > 0 {
            runs.push(first, needed);
        }
        Ok(runs)
    }

    /// Returns the clusters of a directory.
    pub fn directory_runs(&mut self, entry: &FileInfo, root: bool) -> Result<Runs> {
        if root {
            return self.table.walk(entry.cluster, None, self.geometry.most_of_a_directory());
        }
        if entry.length > LARGEST_DIRECTORY {
            let expected = format!("a directory of at most {LARGEST_DIRECTORY} bytes");
            return Err(Error::damaged("stream extension", 0, expected, entry.length));
        }
        self.runs(entry.contiguous, entry.cluster, entry.length, false)
    }

    /// Returns the changed sectors of the FAT, with their device offsets.
    pub fn take_table(&mut self) -> Images {
        let start = self.geometry.active_fat_offset();
        self.table.take_dirty().into_iter().map(|(at, data)| (start + at, data)).collect()
    }
}
