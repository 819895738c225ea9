//! The tables of both levels and how they change.
//!
//! New clusters go behind everything that the file has. A flush makes durable, in this order: the content of new clusters
//! and the counters of references to them; the entries of the second level that lead to them, where new tables have
//! counters before they are led to; and the entries of the first level. So after a power cut nothing leads to a cluster
//! whose content or counter is not there; clusters to which nothing leads may be left, as QEMU leaves them.

use super::header::{AUTOCLEAR, Compression, Header};
use super::space::Space;
use crate::bytes::{be64, damaged, is_inside, read, unusable};
use crate::form::{Changes, Form, Kept, PAGE, Packed, Shape};
use crate::marks::Marks;
use crate::unpack::{deflate, zstd};
use platter_device::sync::Mutex;
use platter_device::{Device, Growing, Result, write_any};
use std::collections::BTreeMap;

/// The part of an entry of both levels that is an offset.
const OFFSET: u64 = 0x00FF_FFFF_FFFF_FE00;
/// Set in entries that lead to what nothing else leads to.
pub(super) const COPIED: u64 = 1 << 63;
/// Set in an entry of the second level: the cluster is compressed.
const COMPRESSED: u64 = 1 << 62;
/// Set in an entry of the second level: the cluster reads as zeroes.
const ZERO: u64 = 1;

/// An open image.
pub(crate) struct Qcow2Form {
    /// The name of the file, for errors.
    path: String,
    pub(super) header: Header,
    pub(super) shape: Shape,
    /// The counters of an image that is written to.
    pub(super) space: Option<Mutex<Space>>,
}

impl Qcow2Form {
    pub(super) fn new(path: &str, header: Header, shape: Shape) -> Qcow2Form {
        Qcow2Form { path: path.into(), header, shape, space: None }
    }

    /// The number of tables of the second level that the disk needs.
    pub(super) fn tables(&self) -> u64 {
        self.shape.blocks().div_ceil(self.header.cluster() / 8)
    }

    /// Reads an entry of the first level, and returns where the table is; 0 if it is not there.
    pub(super) fn l2(&self, file: &dyn Device, number: u64) -> Result<(u64, bool)> {
        self.l2_of(file, number, &read(file, self.header.l1 + number * 8, 8)?)
    }

    /// As [`Qcow2Form::l2`], of the bytes of the entry.
    pub(super) fn l2_of(&self, file: &dyn Device, number: u64, entry: &[u8]) -> Result<(u64, bool)> {
        let place = self.header.l1 + number * 8;
        let entry = be64(entry, 0);
        let (at, cluster) = (entry & OFFSET, self.header.cluster());
        let is_right = at.is_multiple_of(cluster) && (at == 0 || is_inside(at, cluster, file.len()));
        if !is_right || entry & !(OFFSET | COPIED) != 0 {
            let structure = format!("entry {number} of the table of the first level");
            let expected = format!("a cluster inside the file's {} bytes", file.len());
            return Err(damaged(&self.path, &structure, place, expected, format!("{entry:#018x}")));
        }
        Ok((at, entry & COPIED != 0))
    }

    fn space(&self) -> &Mutex<Space> {
        self.space.as_ref().expect("an image that is written to has its counters")
    }

    /// The place of a compressed cluster. It ends with a sector of 512 bytes, of which the file may have a part.
    fn packed(&self, block: u64, entry: u64, end: u64) -> Option<Packed> {
        let bits = 62 - (self.header.cluster_bits - 8);
        let at = entry & ((1 << bits) - 1);
        let sectors = (entry & !(COPIED | COMPRESSED)) >> bits;
        let length = (sectors + 1) * 512 - at % 512;
        (at < end).then(|| Packed { block, at, length: length.min(end - at) })
    }
}

impl Form for Qcow2Form {
    fn name(&self) -> String {
        match self.header.backing {
            None => "qcow2".into(),
            Some(_) => "qcow2, with a backing file".into(),
        }
    }

    fn page_length(&self) -> u64 {
        PAGE.min(self.header.cluster())
    }

    fn page(&self, file: &dyn Device, number: u64) -> Result<Box<[u8]>> {
        let (length, cluster) = (self.page_length(), self.header.cluster());
        let offset = number * length;
        match self.l2(file, offset / cluster)? {
            (0, _) => Ok(vec![0; length as usize].into_boxed_slice()),
            (at, _) => Ok(read(file, at + offset % cluster, length as usize)?.into_boxed_slice()),
        }
    }

    fn entry_offset(&self, block: u64) -> u64 {
        block * 8
    }

    fn entry_width(&self) -> usize {
        8
    }

    fn decode(&self, block: u64, bytes: &[u8], end: u64) -> Result<Kept> {
        let entry = be64(bytes, 0);
        let wrong = |expected: String| {
            let offset = block * self.shape.block;
            let reason = format!(
                "the entry of cluster {block}, at offset {offset} of the disk, is damaged: expected {expected}, found \
                 {entry:#018x}"
            );
            Err(unusable(&self.path, reason))
        };
        if entry & COMPRESSED != 0 {
            return match self.packed(block, entry, end) {
                Some(packed) => Ok(Kept::Packed(packed)),
                None => wrong(format!("a compressed cluster inside the file's {end} bytes")),
            };
        }
        let at = entry & OFFSET;
        let is_zero = entry & ZERO != 0 && self.header.version > 2;
        if entry & !(OFFSET | COPIED) & !(if is_zero { ZERO } else { 0 }) != 0 {
            return wrong("an entry without bits that mean nothing".into());
        }
        let is_right = at.is_multiple_of(self.shape.block) && is_inside(at, self.shape.used(block), end);
        match (at, is_zero) {
            (0, false) => Ok(Kept::Absent),
            (0, true) => Ok(Kept::Zero),
            _ if !is_right => wrong(format!("a cluster inside the file's {end} bytes")),
            (_, true) => Ok(Kept::Reserved(at)),
            (_, false) => Ok(Kept::Whole(at)),
        }
    }

    fn encode(&self, at: u64, bytes: &mut [u8]) {
        bytes.copy_from_slice(&(at | COPIED).to_be_bytes());
    }

    fn marks(&self, _file: &dyn Device, _block: u64, _at: u64) -> Result<Marks> {
        Ok(Marks::All)
    }

    fn unpack(&self, file: &dyn Device, packed: Packed) -> Result<Vec<u8>> {
        let bytes = read(file, packed.at, packed.length as usize)?;
        let mut content = vec![0; self.shape.block as usize];
        let unpacked = match self.header.compression {
            Compression::Deflate => deflate(&bytes, &mut content),
            Compression::Zstd => zstd(&bytes, &mut content),
        };
        match unpacked {
            Ok(()) => Ok(content),
            Err(found) => {
                let structure = format!("the compressed cluster {}", packed.block);
                let expected = format!("{} bytes of content", self.shape.block);
                Err(damaged(&self.path, &structure, packed.at, expected, found))
            }
        }
    }

    fn extend(&self, file: &dyn Growing) -> Result<u64> {
        self.space().lock().allocate(file)
    }

    /// Says to others that what they keep beside the disk, as bitmaps of changes, is no longer right.
    fn begin(&self, file: &dyn Growing) -> Result<()> {
        if self.header.autoclear != 0 {
            write_any(file, AUTOCLEAR, &[0; 8])?;
            file.flush()?;
        }
        self.space().lock().make_room(file, self.shape.blocks() + self.tables())
    }

    fn prepare(&self, file: &dyn Growing) -> Result<()> {
        self.space().lock().write(file)
    }

    fn commit(&self, file: &dyn Growing, changes: &Changes) -> Result<()> {
        let (length, cluster) = (self.page_length(), self.header.cluster());
        let mut tables = BTreeMap::new();
        let mut fresh = Vec::new();
        for number in changes.pages.iter().map(|(page, _)| page * length / cluster) {
            if tables.contains_key(&number) {
                continue;
            }
            let at = match self.l2(file, number)? {
                (0, _) => {
                    let at = self.space().lock().allocate(file)?;
                    fresh.push((number, at));
                    at
                }
                (at, _) => at,
            };
            tables.insert(number, at);
        }
        if !fresh.is_empty() {
            self.prepare(file)?;
        }
        for (page, bytes) in &changes.pages {
            let offset = page * length;
            write_any(file, tables[&(offset / cluster)] + offset % cluster, bytes)?;
        }
        file.flush()?;
        if fresh.is_empty() {
            return Ok(());
        }
        for (number, at) in fresh {
            write_any(file, self.header.l1 + number * 8, &(at | COPIED).to_be_bytes())?;
        }
        file.flush()
    }
}
