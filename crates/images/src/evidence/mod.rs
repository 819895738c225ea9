//! E01: disks as forensic programs keep them, compressed in chunks, in segments, with hashes.
//!
//! Source: J. Metz, "Expert Witness Compression Format specification" of the project libewf. Each segment is a file: a
//! header, and sections in a chain. Sections of sectors have the chunks, and a table after each says where they begin.
//! Numbers are little-endian. Evidence is only read, whatever is asked for, and every byte that is returned was compared
//! with its checksum.

mod hash;
mod sections;
mod segments;
mod table;

pub use hash::{StoredHash, VerifiedHash, verify};
pub(crate) use sections::mend;
pub(crate) use segments::{OpenSegment, opener};

use crate::bytes::unusable;
use crate::cache::Unpacked;
use platter_device::{Device, Error, Immediate, Operation, Queue, Result, Sectors, check_transfer};
use sections::Contents;
use segments::Segments;
use std::sync::Arc;
use table::ChunkTable;

/// The disk in a set of segments.
pub(crate) struct Evidence {
    name: String,
    size: u64,
    /// The bytes of a chunk; the last one may have fewer.
    chunk: u64,
    sectors: Sectors,
    segments: Segments,
    tables: Vec<ChunkTable>,
    /// The entries of tables, by the number of the table.
    entries: Unpacked,
    chunks: Unpacked,
}

/// An opened set of segments.
pub(crate) struct OpenedEvidence {
    pub device: Arc<dyn Device>,
    pub hashes: Vec<StoredHash>,
    /// The number of segments.
    pub count: usize,
}

/// Opens the set of segments of which `open` opens each, by its number from 1 on.
pub(crate) fn open(open: Box<OpenSegment>) -> Result<OpenedEvidence> {
    let segments = Segments::new(open);
    let name = segments.get(1)?.name().to_string();
    let Contents { volume, tables, hashes, count } = Contents::read(&segments)?;
    let chunks: u64 = tables.iter().map(|table| table.count).sum();
    let expected = volume.size.div_ceil(volume.chunk);
    if chunks < expected {
        let reason = format!(
            "holds {chunks} chunks in {count} segments, where a disk of {} bytes has {expected}: it is not complete",
            volume.size
        );
        return Err(unusable(&name, reason));
    }
    let (entries, chunks) = Default::default();
    let sectors = Sectors { logical: volume.sector, physical: volume.sector };
    let (size, chunk) = (volume.size, volume.chunk);
    let device = Evidence { name, size, chunk, sectors, segments, tables, entries, chunks };
    Ok(OpenedEvidence { device: Arc::new(device), hashes, count })
}

impl Evidence {
    /// Returns the content of a chunk.
    fn content(&self, chunk: u64) -> Result<Arc<Vec<u8>>> {
        self.chunks.get(chunk, || {
            let number = self.tables.partition_point(|table| table.first + table.count <= chunk);
            let table = &self.tables[number];
            let file = self.segments.get(table.segment)?;
            let entries = self.entries.get(number as u64, || table.entries(&*file))?;
            let length = self.chunk.min(self.size - chunk * self.chunk) as usize;
            table.chunk(&*file, &entries, chunk, length)
        })
    }
}

impl Device for Evidence {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.size
    }

    fn sectors(&self) -> Sectors {
        self.sectors
    }

    fn read_only(&self) -> bool {
        true
    }

    fn why_read_only(&self) -> Option<String> {
        Some("it is E01 evidence, which is never written to".into())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_transfer(self, Operation::Read, offset, buffer.len() as u64)?;
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let content = self.content(at / self.chunk)?;
            let rest = &content[(at % self.chunk) as usize..];
            let length = rest.len().min(buffer.len() - done);
            buffer[done..done + length].copy_from_slice(&rest[..length]);
            done += length;
        }
        Ok(())
    }

    fn write_at(&self, _offset: u64, _data: &[u8]) -> Result<()> {
        Err(Error::ReadOnly { device: self.name().into() })
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, _offset: u64, _length: u64) -> Result<()> {
        Err(Error::ReadOnly { device: self.name().into() })
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }
}
