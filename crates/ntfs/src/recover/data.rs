//! The content of recovered files.

use super::source::Source;
use crate::check::clusters::Clusters;
use crate::layout::{Attribute, AttributeContent, Geometry, Run, attribute_flags, lacks_content, runs};
use crate::lznt1;
use crate::wof::{self, Packing};
use platter_vfs::{Error, RecoveredData, Result, Stretch};

/// How many bytes from the beginning of a run on are read as content, whatever holes are among them: many small runs are
/// one read.
const TOGETHER: u64 = 1 << 20;

/// Where the content of a stream is.
pub(super) struct Stream {
    resident: Option<Vec<u8>>,
    runs: Vec<Run>,
    size: u64,
    /// The valid length: bytes from the start that were ever written.
    valid: u64,
    /// Clusters of a compression unit, if it is compressed.
    unit: Option<u64>,
}

impl Stream {
    /// The stream that these pieces, in order, make up.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a piece is missing, or its runs are damaged.
    pub(super) fn open(pieces: &[Attribute], geometry: &Geometry) -> Result<Stream> {
        let mut found = Vec::new();
        let mut stream = Stream { resident: None, runs: Vec::new(), size: 0, valid: 0, unit: None };
        for (index, attribute) in pieces.iter().enumerate() {
            match &attribute.content {
                AttributeContent::Resident { value, .. } => {
                    return Ok(Stream {
                        size: value.len() as u64,
                        valid: value.len() as u64,
                        resident: Some(value.clone()),
                        ..stream
                    });
                }
                AttributeContent::NonResident(piece) => {
                    let end = found.last().map_or(0, Run::end);
                    if piece.first != end {
                        let expected = format!("a piece from virtual cluster {end}");
                        return Err(Error::damaged(
                            "$DATA",
                            0,
                            expected,
                            format!("one from {}", piece.first),
                        ));
                    }
                    if index == 0 {
                        (stream.size, stream.valid) = (piece.size, piece.valid);
                        if attribute.flags & attribute_flags::COMPRESSION_MASK != 0 {
                            stream.unit = Some(1u64.checked_shl(u32::from(piece.unit.min(16))).unwrap_or(16));
                        }
                    }
                    runs::unpack_into(
                        &mut found,
                        &piece.pairs,
                        piece.first,
                        piece.end,
                        geometry.clusters,
                        0,
                    )?;
                }
            }
        }
        let whole = found.last().map_or(0, Run::end).saturating_mul(geometry.cluster);
        if stream.size > whole {
            return Err(Error::damaged("$DATA", 0, format!("at most {whole} bytes"), stream.size));
        }
        Ok(Stream { runs: found, ..stream })
    }

    /// Bytes of content.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Whether it is the stream of a file whose content is elsewhere, if the file's reparse tag is one of such files.
    pub(super) fn lacks_content(&self, cluster: u64) -> bool {
        let runs = self.runs.iter().copied();
        self.resident.is_none() && lacks_content(self.size, self.valid, self.unit.is_some(), runs, cluster)
    }

    /// Whether any of its clusters is in a set.
    pub(super) fn is_in(&self, set: &Clusters) -> bool {
        set.has_any_of(&self.runs)
    }

    /// Adds its clusters to a set.
    pub(super) fn claim(&self, set: &mut Clusters) {
        for run in &self.runs {
            if let Some(lcn) = run.lcn {
                set.add(lcn, run.length);
            }
        }
    }
}

/// Reads the content of a file that Windows Overlay Filter packed.
pub(super) struct Packed<'s, 'd> {
    /// The stream that has the content.
    pub stream: Data<'s, 'd>,
    /// Bytes of that stream.
    pub packed: u64,
    /// How the content is packed.
    pub packing: Packing,
    /// Bytes of the content.
    pub size: u64,
}

impl RecoveredData for Packed<'_, '_> {
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let length = self.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let stream = &mut self.stream;
        let sizes = (self.size, self.packed);
        let content = wof::read(self.packing, sizes, (offset, length), &mut |at, buffer| match stream
            .read(at, buffer)?
        {
            read if read == buffer.len() => Ok(()),
            read => Err(Error::damaged(wof::STREAM, at, format!("{} bytes", buffer.len()), read)),
        })?;
        buffer[..length].copy_from_slice(&content);
        Ok(length)
    }
}

/// Reads the content of a stream for the visitor.
pub(super) struct Data<'s, 'd> {
    source: &'s Source<'d>,
    stream: Option<&'s Stream>,
    /// The compression unit that was unpacked last: its number and its bytes.
    unpacked: Option<(u64, Vec<u8>)>,
}

impl<'s, 'd> Data<'s, 'd> {
    pub(super) fn new(source: &'s Source<'d>, stream: &'s Stream) -> Data<'s, 'd> {
        Data { source, stream: Some(stream), unpacked: None }
    }

    /// The content of a directory or link, which is empty.
    pub(super) fn empty(source: &'s Source<'d>) -> Data<'s, 'd> {
        Data { source, stream: None, unpacked: None }
    }

    /// A compression unit, unpacked.
    fn unit(&mut self, stream: &Stream, clusters: u64, number: u64) -> Result<&[u8]> {
        if self.unpacked.as_ref().is_none_or(|(other, _)| *other != number) {
            let geometry = self.source.geometry();
            let (first, length) = (number * clusters, (clusters * geometry.cluster) as usize);
            // The allocated clusters of the unit hold the packed bytes; if all are allocated, the bytes are not packed.
            let there: u64 = stream
                .runs
                .iter()
                .filter(|run| run.lcn.is_some())
                .map(|run| run.end().min(first + clusters).saturating_sub(run.vcn.max(first)))
                .sum();
            let mut packed = vec![0; (there * geometry.cluster) as usize];
            self.source.disk().read_runs(geometry, &stream.runs, first * geometry.cluster, &mut packed)?;
            let bytes = if there == clusters {
                packed
            } else {
                let mut bytes = vec![0; length];
                if there > 0 {
                    lznt1::decompress(&packed, &mut bytes, first * geometry.cluster)?;
                }
                bytes
            };
            self.unpacked = Some((number, bytes));
        }
        Ok(self.unpacked.as_ref().map_or(&[], |(_, bytes)| bytes))
    }
}

impl RecoveredData for Data<'_, '_> {
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let Some(stream) = self.stream else { return Ok(0) };
        let length = stream.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..length];
        if let Some(value) = &stream.resident {
            buffer.copy_from_slice(&value[offset as usize..offset as usize + length]);
            return Ok(length);
        }
        let geometry = *self.source.geometry();
        match stream.unit {
            None => self.source.disk().read_runs(&geometry, &stream.runs, offset, buffer)?,
            Some(clusters) => {
                let bytes = clusters * geometry.cluster;
                let mut done = 0;
                while done < length {
                    let at = offset + done as u64;
                    let unit = self.unit(stream, clusters, at / bytes)?;
                    let rest = &unit[(at % bytes) as usize..];
                    let piece = rest.len().min(length - done);
                    buffer[done..done + piece].copy_from_slice(&rest[..piece]);
                    done += piece;
                }
            }
        }
        // Bytes that were never written read as zeroes.
        let valid = stream.valid.saturating_sub(offset).min(length as u64) as usize;
        buffer[valid..].fill(0);
        Ok(length)
    }

    fn stretch(&mut self, offset: u64) -> (Stretch, u64) {
        let Some(stream) = self.stream.filter(|stream| stream.resident.is_none()) else {
            return (Stretch::Content, u64::MAX);
        };
        if offset >= stream.valid {
            return (Stretch::Zeroes, u64::MAX);
        }
        // A compression unit without clusters is a hole, and so is a cluster of other streams.
        let unit = stream.unit.unwrap_or(1).max(1);
        let bytes = unit.saturating_mul(self.source.geometry().cluster);
        let first = offset / bytes * unit;
        let from = stream.runs.partition_point(|run| run.end() <= first);
        match stream.runs[from..].iter().find(|run| run.lcn.is_some()) {
            Some(run) if run.vcn / unit * unit > first => {
                (Stretch::Zeroes, (run.vcn / unit).saturating_mul(bytes))
            }
            Some(_) => (Stretch::Content, offset.saturating_add(TOGETHER)),
            None => (Stretch::Zeroes, u64::MAX),
        }
    }
}
