//! The rows of the allocators, of the container table and of the object table.
//!
//! Source: forefst `docs/structures/allocators.md`, `container_table.md`, `integrity_state.md` and `object_table.md`;
//! container and object rows as Windows wrote them.

use super::bytes::{FieldAt, put, u16_at, u32_at, u64_at};
use super::{PageReference, Version};
use crate::ranges::{Range, Use};
use platter_vfs::{Error, Result};

/// A row of an allocator: which clusters of a range are in use.
///
/// Source: forefst `docs/structures/allocators.md` (August 2026), where rows of Windows' volumes were recomputed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatorRow {
    /// The first cluster. All allocators count real clusters.
    pub start: u64,
    /// The number of clusters in the range.
    pub count: u64,
    /// The number of clusters in use.
    pub used: u64,
    /// A bit for each cluster, set where the cluster is in use; `None` if all clusters are in use, or none is.
    pub bits: Option<Box<[u64]>>,
}

/// A part of a container, as rows describe it.
pub struct AllocatorPart {
    /// A bit for each cluster of the container that a row covers.
    pub covered: Box<[u64]>,
    /// A bit for each of these clusters that is in use.
    pub used: Box<[u64]>,
}

impl AllocatorPart {
    /// No part of a container of this many clusters.
    pub fn none(clusters: u32) -> AllocatorPart {
        let none = vec![0u64; clusters.div_ceil(64) as usize].into_boxed_slice();
        AllocatorPart { covered: none.clone(), used: none }
    }

    /// Adds another part of the same container.
    pub fn add(&mut self, other: &AllocatorPart) {
        self.covered.iter_mut().zip(&other.covered).for_each(|(word, other)| *word |= other);
        self.used.iter_mut().zip(&other.used).for_each(|(word, other)| *word |= other);
    }

    /// Whether every cluster of a container of this many clusters is covered.
    pub fn is_whole(&self, clusters: u32) -> bool {
        self.covered.iter().map(|word| word.count_ones()).sum::<u32>() == clusters
    }
}

impl AllocatorRow {
    /// Bytes of the key, with which the value begins.
    pub const KEY: usize = 16;
    const BITS: usize = 0x18;
    /// Flag: the row has a bitmap. The other flags say nothing that the row does not show.
    const PARTIAL: u16 = 0x01;
    const UNIFORM: u16 = 0x02;
    /// The most clusters of a row with a bitmap.
    const MOST: u64 = 16384;

    const START: FieldAt<u64> = FieldAt::new(0x00);
    const COUNT: FieldAt<u64> = FieldAt::new(0x08);

    /// The key of the row of these clusters.
    pub fn key(start: u64, count: u64) -> [u8; AllocatorRow::KEY] {
        let mut key = [0; AllocatorRow::KEY];
        Self::START.put(&mut key, start);
        Self::COUNT.put(&mut key, count);
        key
    }

    /// The first cluster and the number of clusters in a row's key.
    pub fn clusters_of(key: &[u8]) -> (u64, u64) {
        (Self::START.of(key), Self::COUNT.of(key))
    }

    /// Reads a row's value. The number at 0x16 is a count that Windows lets drift, and is not read.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the row has no room for its bitmap, or does not count its free clusters right.
    pub fn from_bytes(value: &[u8], at: u64) -> Result<AllocatorRow> {
        let (start, count, flags) = (Self::START.of(value), Self::COUNT.of(value), u16_at(value, 0x12));
        let free = u64::from(u16_at(value, 0x10));
        if value.len() < Self::BITS {
            return Err(Error::damaged("allocator row", at, "at least 24 bytes", value.len()));
        }
        if flags & Self::PARTIAL == 0 {
            // A uniform range. Its stored count of free clusters is 0xFFFF at most.
            let used = if free > 0 { 0 } else { count };
            return Ok(AllocatorRow { start, count, used, bits: None });
        }
        if count > Self::MOST {
            let expected = format!("at most {} clusters", Self::MOST);
            return Err(Error::damaged("allocator row's range", at + 8, expected, count));
        }
        let (offset, words) = (usize::from(value[0x14]), count.div_ceil(64) as usize);
        if offset < Self::BITS {
            let (expected, found) = (format!("at least {:#x}", Self::BITS), format!("{offset:#x}"));
            return Err(Error::damaged("place of an allocator row's bitmap", at + 0x14, expected, found));
        }
        let Some(bitmap) = value.get(offset..offset + 8 * words) else {
            return Err(Error::damaged("allocator row", at, offset + 8 * words, value.len()));
        };
        let inside = |word: usize| match count - 64 * word as u64 {
            left @ 0..64 => (1 << left) - 1,
            _ => u64::MAX,
        };
        let bits: Box<[u64]> = (0..words).map(|word| u64_at(bitmap, 8 * word) & inside(word)).collect();
        let used: u64 = bits.iter().map(|word| u64::from(word.count_ones())).sum();
        if used + free != count {
            return Err(Error::damaged(
                "allocator row's count of free clusters",
                at + 0x10,
                count.saturating_sub(used),
                free,
            ));
        }
        Ok(AllocatorRow { start, count, used, bits: Some(bits) })
    }

    /// Whether a value that [`AllocatorRow::from_bytes`] read has the form that Windows gives it: the bitmap is as long
    /// as the range needs, and its place, the format and the count of a uniform range are right. If not, returns the
    /// field's name and offset in the value, the expected and the found value.
    ///
    /// # Errors
    /// The first field that is not as Windows writes it.
    pub fn form(
        &self,
        value: &[u8],
        version: Version,
        medium: bool,
    ) -> std::result::Result<(), (&'static str, usize, u64, u64)> {
        let same = |what, at, expected: u64, found: u64| match expected == found {
            true => Ok(()),
            false => Err((what, at, expected, found)),
        };
        let model = self.to_bytes(version, medium);
        same("length of an allocator row", 0, model.len() as u64, value.len() as u64)?;
        same("place of an allocator row's bitmap", 0x14, u64::from(model[0x14]), u64::from(value[0x14]))?;
        same("format of an allocator row", 0x15, u64::from(model[0x15]), u64::from(value[0x15]))?;
        let free = |bytes: &[u8]| u64::from(u16_at(bytes, 0x10));
        same("free clusters of an allocator row", 0x10, free(&model), free(value))
    }

    /// Returns the containers, of `clusters` clusters each, that the row covers (by their places on the volume), and
    /// whether they are free, full or partly in use; `None` if the row does not cover whole containers.
    pub fn range(&self, clusters: u32) -> Option<(Range, Use)> {
        let clusters = u64::from(clusters);
        if self.count == 0 || !self.start.is_multiple_of(clusters) || !self.count.is_multiple_of(clusters) {
            return None;
        }
        let first = u32::try_from(self.start / clusters).ok()?;
        let count = u32::try_from(self.count / clusters).ok()?;
        first.checked_add(count)?;
        let says = match (&self.bits, self.used) {
            (Some(_), _) => Use::Part,
            (None, 0) => Use::Free,
            (None, _) => Use::Full,
        };
        Some(((first, count), says))
    }

    /// Returns the containers, of `clusters` clusters each, that the row covers wholly or in part, by their places on the
    /// volume; `None` if no volume has such clusters.
    pub fn around(&self, clusters: u32) -> Option<Range> {
        let clusters = u64::from(clusters);
        let end = self.start.checked_add(self.count)?.div_ceil(clusters);
        let first = u32::try_from(self.start / clusters).ok()?;
        let count = u32::try_from(end).ok()?.checked_sub(first)?;
        (self.count > 0).then_some((first, count))
    }

    /// Returns the bits of the container at this position of the row's range, counted in containers.
    pub fn bits_of(&self, position: u32, clusters: u32) -> Option<&[u64]> {
        let words = clusters.div_ceil(64) as usize;
        let first = position as usize * words;
        self.bits.as_ref()?.get(first..first + words)
    }

    /// Returns what the row says of the container of `clusters` clusters that begins at this cluster.
    pub fn part(&self, container: u64, clusters: u32) -> AllocatorPart {
        let mut part = AllocatorPart::none(clusters);
        let end = self.start.saturating_add(self.count).min(container + u64::from(clusters));
        for cluster in self.start.max(container)..end {
            let (inside, own) = ((cluster - container) as usize, cluster - self.start);
            let is_used = match &self.bits {
                Some(bits) => bits[own as usize / 64] >> (own % 64) & 1,
                None => u64::from(self.used > 0),
            };
            part.covered[inside / 64] |= 1 << (inside % 64);
            part.used[inside / 64] |= is_used << (inside % 64);
        }
        part
    }

    /// Returns the row's value. Rows of the medium allocator (`medium`) differ in one byte from 3.7 on.
    pub fn to_bytes(&self, version: Version, medium: bool) -> Vec<u8> {
        let tier: u16 = if medium && version >= Version::V3_7 { 0x200 } else { 0x100 };
        let free = self.count.saturating_sub(self.used);
        let bitmap = self.bits.as_ref().map_or(0, |bits| 8 * bits.len());
        let mut value = vec![0; Self::BITS + bitmap];
        Self::START.put(&mut value, self.start);
        Self::COUNT.put(&mut value, self.count);
        put(&mut value, 0x10, free.min(0xFFFF) as u16);
        let (flags, header) = match self.bits {
            Some(_) => (Self::PARTIAL, tier | Self::BITS as u16),
            None => (Self::UNIFORM, tier),
        };
        put(&mut value, 0x12, flags);
        put(&mut value, 0x14, header);
        put(&mut value, 0x16, self.used.min(0xFFFF) as u16);
        if let Some(bits) = &self.bits {
            bits.iter().enumerate().for_each(|(word, bits)| put(&mut value, Self::BITS + 8 * word, *bits));
        }
        value
    }
}

/// What an allocator's root page says of all its rows, in the region after the fixed part of its tree header. Windows
/// reads it when it mounts a volume. Of its 48 numbers of 8 bytes these two are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocatorSummary {
    /// The number of clusters that the allocator covers.
    pub covered: u64,
    /// The number of free clusters among them.
    pub free: u64,
}

impl AllocatorSummary {
    const COVERED: usize = 8;
    const FREE: usize = 16;

    /// Reads the summary from the region; `None` if the region has no room for one.
    pub fn from_bytes(region: &[u8]) -> Option<AllocatorSummary> {
        (region.len() >= 384).then(|| AllocatorSummary {
            covered: u64_at(region, Self::COVERED),
            free: u64_at(region, Self::FREE),
        })
    }

    /// Stores the summary in a region that has room for one. Its other numbers stay as they are.
    pub fn store(&self, region: &mut [u8]) {
        put(region, Self::COVERED, self.covered);
        put(region, Self::FREE, self.free);
    }
}

/// A row of the container table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerRow {
    /// The container's number.
    pub number: u64,
    /// The use of the container: a combination of the flags below.
    pub flags: u32,
    /// The number of clusters in the container.
    pub count: u32,
    /// The number of free clusters in the container; `u64::MAX` where they were not counted.
    pub free: u64,
    /// The container's first cluster, as a real number.
    pub start: u64,
}

impl ContainerRow {
    /// Bytes of the key, with which the value begins.
    pub const KEY: usize = 16;
    /// Flag: the container holds metadata.
    pub const METADATA: u32 = 0x01;
    /// Flag: the container holds files' data.
    pub const DATA: u32 = 0x40;
    /// Flag: no cluster of the container is in use.
    pub const EMPTY: u32 = 0x2000;
    /// Flag: the container's content is compressed. Inferred: this is the bit that the driver keeps in memory for such
    /// a container.
    pub const COMPRESSED: u32 = 0x800;

    const NUMBER: FieldAt<u64> = FieldAt::new(0x00);
    /// The number of clusters in the container, the first time that the row has it.
    pub const COUNT: FieldAt<u32> = FieldAt::new(0x18);
    /// The number of free clusters.
    pub const FREE: FieldAt<u64> = FieldAt::new(0x20);
    /// The number of free clusters again, at most [`u32::MAX`].
    const FREE_TOO: FieldAt<u32> = FieldAt::new(0x28);

    /// The key of a container.
    pub fn key(number: u64) -> [u8; ContainerRow::KEY] {
        let mut key = [0; ContainerRow::KEY];
        Self::NUMBER.put(&mut key, number);
        put(&mut key, 8, 1u64 << 32);
        key
    }

    /// The container's number in a row's key.
    pub fn number_of(key: &[u8]) -> u64 {
        Self::NUMBER.of(key)
    }

    /// The number of free clusters, the second time that a row's value has it.
    pub fn free_too(value: &[u8]) -> u32 {
        Self::FREE_TOO.of(value)
    }

    /// The number of clusters, the second time that a row's value has it.
    pub fn count_too(value: &[u8]) -> u64 {
        u64_at(value, value.len().saturating_sub(8))
    }

    /// The offset of the container's place in a row's value of this length.
    pub fn place_at(length: usize) -> usize {
        length.saturating_sub(16)
    }

    /// The length of a row's value in bytes, for clusters of `cluster` bytes and page references of `reference` bytes.
    pub fn size(cluster: u32, reference: usize) -> usize {
        if cluster == 65536 || reference == 0x48 { 224 } else { 160 }
    }

    /// Reads a row's value.
    pub fn from_bytes(value: &[u8], at: u64) -> Result<ContainerRow> {
        if !matches!(value.len(), 160 | 224) {
            return Err(Error::damaged("container row", at, "160 or 224 bytes", value.len()));
        }
        Ok(ContainerRow {
            number: Self::NUMBER.of(value),
            flags: u32_at(value, 0x14),
            count: Self::COUNT.of(value),
            free: Self::FREE.of(value),
            start: u64_at(value, Self::place_at(value.len())),
        })
    }

    /// Whether a value has the fields that all rows have; those at 0x0C, 0x10 and 0x4C are 1 in 88 rows of Windows (3.14).
    ///
    /// # Errors
    /// The offset of the first field that has not, the expected and the found value.
    pub fn form(value: &[u8], version: Version) -> std::result::Result<(), (usize, u64, u64)> {
        let fields = [(0x0C, 1), (0x10, 1), (0x1C, 0), (0x2C, 0), (0x4C, 1)];
        let is_known = |at: usize| at != 0x4C || version == Version::V3_14;
        fields.into_iter().filter(|&(at, _)| is_known(at)).try_for_each(|(at, expected)| {
            match u64::from(u32_at(value, at)) {
                found if found == expected => Ok(()),
                found => Err((at, expected, found)),
            }
        })
    }

    /// The row's value, `size` bytes long.
    pub fn to_bytes(&self, size: usize) -> Vec<u8> {
        let mut value = vec![0; size];
        value[..Self::KEY].copy_from_slice(&Self::key(self.number));
        put(&mut value, 0x10, 1u32);
        put(&mut value, 0x14, self.flags);
        Self::COUNT.put(&mut value, self.count);
        Self::FREE.put(&mut value, self.free);
        Self::FREE_TOO.put(&mut value, self.free.min(u64::from(u32::MAX)) as u32);
        put(&mut value, 0x4C, 1u32);
        put(&mut value, Self::place_at(size), self.start);
        put(&mut value, size - 8, self.count);
        value
    }
}

/// A row of the object table: where an object's tree is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRow {
    /// The checkpoint's clock when the object was last changed.
    pub clock: u32,
    /// Said to be the number of times the object was opened for change: 0 for some of the volume's own objects, else 1 to
    /// 6.
    pub epoch: u32,
    /// The root page of the object's tree.
    pub root: PageReference,
    /// For directories: the number that was last given to a child.
    pub last_child: Option<u64>,
}

impl ObjectRow {
    /// Bytes of the key: zero, and the object's number.
    pub const KEY: usize = 16;

    const NUMBER: FieldAt<u64> = FieldAt::new(0x08);
    /// The clock of the last change.
    pub const CLOCK: FieldAt<u32> = FieldAt::new(0x18);

    /// The object's number in a row's key.
    pub fn number_of(key: &[u8]) -> u64 {
        Self::NUMBER.of(key)
    }

    /// The key of an object.
    pub fn key(object: u64) -> [u8; ObjectRow::KEY] {
        let mut key = [0; ObjectRow::KEY];
        Self::NUMBER.put(&mut key, object);
        key
    }

    /// Whether a value that [`ObjectRow::from_bytes`] read has the lengths and offsets of one of the three forms: with a
    /// compact reference of 0x30 or 0x48 bytes, or with an old one of 0x68.
    ///
    /// # Errors
    /// The offset of the first field that has not, the expected and the found value.
    pub fn form(value: &[u8]) -> std::result::Result<(), (usize, u64, u64)> {
        let reference = u32_at(value, 0x0C);
        let (reference, payload, tail) = match reference {
            0x48 => (reference, 0x68, 0),
            0x68 => (reference, 0xC8, 40),
            _ => (0x30, 0x50, 0),
        };
        let extra = if u32_at(value, 0x14) == 0 { 0u32 } else { 8 };
        let [clock, epoch] = [0x18, 0x1C].map(|at| u64::from(u32_at(value, at)));
        let fields = [
            (0x00, 2, u64_at(value, 0)),
            (0x08, 0x18, u64::from(u32_at(value, 0x08))),
            (0x0C, u64::from(reference), u64::from(u32_at(value, 0x0C))),
            (0x10, payload, u64::from(u32_at(value, 0x10))),
            (0x14, u64::from(extra), u64::from(u32_at(value, 0x14))),
            // Every change of an object that is counted takes a checkpoint.
            (0x1C, if epoch <= clock { epoch } else { clock.min(1) }, epoch),
            (0x00, payload + tail + u64::from(extra), value.len() as u64),
        ];
        fields.into_iter().try_for_each(|(at, expected, found)| match expected == found {
            true => Ok(()),
            false => Err((at, expected, found)),
        })
    }

    /// Reads a row's value.
    pub fn from_bytes(value: &[u8], at: u64) -> Result<ObjectRow> {
        let (payload, length) = (u32_at(value, 0x10) as usize, u32_at(value, 0x14));
        if value.len() < 0x50 || payload < 0x50 {
            return Err(Error::damaged("object row", at, "at least 80 bytes", value.len()));
        }
        let last_child = if length < 8 {
            None
        } else {
            Some(value.get(payload..payload + 8).map(|bytes| u64_at(bytes, 0)).ok_or_else(|| {
                Error::damaged(
                    "object row's last part",
                    at + 0x10,
                    format!("inside {} bytes", value.len()),
                    payload,
                )
            })?)
        };
        Ok(ObjectRow {
            clock: Self::CLOCK.of(value),
            epoch: u32_at(value, 0x1C),
            root: PageReference::from_bytes(&value[0x20..], at + 0x20)?,
            last_child,
        })
    }

    /// The row's value, for references of this many bytes.
    pub fn to_bytes(&self, reference: usize) -> Vec<u8> {
        // Legacy rows keep 64 bytes more after the reference.
        let payload = 0x20 + reference + if reference == PageReference::LEGACY { 64 } else { 0 };
        let tail = if reference == PageReference::LEGACY { 40 } else { 0 };
        let extra = if self.last_child.is_some() { 8 } else { 0 };
        let mut value = vec![0; payload + tail + extra];
        put(&mut value, 0x00, 2u64);
        put(&mut value, 0x08, 0x18u32);
        put(&mut value, 0x0C, reference as u32);
        put(&mut value, 0x10, payload as u32);
        put(&mut value, 0x14, extra as u32);
        Self::CLOCK.put(&mut value, self.clock);
        put(&mut value, 0x1C, self.epoch);
        self.root.store(&mut value[0x20..0x20 + reference]);
        if let Some(last) = self.last_child {
            put(&mut value, payload, last);
        }
        value
    }
}
