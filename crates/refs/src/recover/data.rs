//! The content of the files that a recovery has found.

use super::directory::{Leads, RecoveredRow};
use super::scan::Scan;
use crate::extents::{self, Extent};
use crate::layout::attribute::DATA;
use crate::layout::record::key;
use crate::layout::{Record, crc32c};
use crate::stream::{self, FoundStreams, StreamContent, StreamState};
use platter_device::Buffer;
use platter_vfs::{Error, Name, RecoveredData, Result, Stretch};

/// How many bytes from the beginning of a run on are read as content, whatever holes are among them: many small runs are
/// one read.
const TOGETHER: u64 = 1 << 20;

/// The most runs of a stream that are kept in memory.
const RUNS: usize = 1 << 16;

/// Named streams, each with its name.
type Named = Vec<(Name, StreamState)>;

/// Returns the streams of a record: the file's unnamed data, and the named ones. If these cannot all be read, the
/// unnamed data is returned alone.
pub(super) fn open(
    scan: &mut Scan,
    record: Record,
    table: u64,
    is_old: bool,
) -> Result<(Option<StreamState>, Named)> {
    if is_old {
        // References of old records may lead to places where another page is by now, so the cache is emptied first.
        scan.pages.forget_clean();
    }
    let has_data = record.rows.iter().any(|row| row.kind() == DATA);
    let mut whole = record.clone();
    let found = stream::take_streams(&mut whole, &mut scan.pages, table).or_else(|_| {
        let mut own = record;
        own.take(|row| row.kind() != DATA);
        stream::take_streams(&mut own, &mut scan.pages, table)
    });
    let FoundStreams { own, named, .. } = found?;
    let own = own.or_else(|| (!has_data).then(|| StreamState::empty(false)));
    Ok((own, named.into_iter().map(|found| (Name::from_units(&found.name), found.state)).collect()))
}

/// Returns the clusters that a row of a directory leads to: those of data and those of pages with runs, as first
/// virtual cluster and number. `None` if some of the runs cannot be read.
pub(super) fn places(scan: &mut Scan, row: &RecoveredRow, table: u64) -> Option<Vec<(u64, u64)>> {
    let record = match (row.name(), key::likely_kind(&row.key)) {
        (Some((_, Leads::File(record))), _) => *record,
        (Some((_, Leads::Directory(_) | Leads::Body(..))), _) => return Some(Vec::new()),
        // A row that leads from a number to a file.
        (None, key::NUMBER) => return Some(Vec::new()),
        (None, key::RECORD | key::BODY) => Record::from_bytes(&row.value, 0).ok()?,
        _ => return None,
    };
    if !record.outside.is_empty() {
        return None;
    }
    // References of old records may lead to places where another page is by now, so the cache is emptied first.
    scan.pages.forget_clean();
    let mut record = record;
    let found = stream::take_streams(&mut record, &mut scan.pages, table).ok()?;
    let states = found.own.into_iter().chain(found.named.into_iter().map(|found| found.state));
    let page = u64::from(scan.pages.geometry.page_clusters());
    let mut places = Vec::new();
    for state in states {
        let StreamContent::Extents(mut extents) = state.content else { continue };
        extents.load_range(&mut scan.pages, 0, u32::MAX).ok()?;
        // A damaged run may have any count; no run leaves its container.
        let most = u64::from(scan.pages.geometry.per_container);
        if extents.iter().any(|run| u64::from(run.count) > most) {
            return None;
        }
        places.extend(extents.iter().map(|run| (run.cluster, u64::from(run.count))));
        places.extend(extents.page_places().map(|reference| (reference.clusters[0], page)));
    }
    Some(places)
}

/// The content of a stream.
pub(super) struct Data<'s> {
    scan: &'s mut Scan,
    state: StreamState,
}

impl<'s> Data<'s> {
    /// Returns the content of this stream.
    pub(super) fn new(scan: &'s mut Scan, state: StreamState) -> Data<'s> {
        Data { scan, state }
    }

    /// Returns the content of an empty stream.
    pub(super) fn empty(scan: &'s mut Scan) -> Data<'s> {
        Data { scan, state: StreamState::empty(false) }
    }

    /// Returns the size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.state.size
    }

    /// Whether the clusters of a deleted stream still have its data, as far as can be told: no page and no existing
    /// file has them, and checksums match.
    pub(super) fn is_left(&mut self) -> bool {
        let mut at = 0;
        let mut buffer = Buffer::new(self.scan.pages.geometry.cluster as usize);
        loop {
            match self.find(at) {
                Ok(Some(run)) => {
                    for index in 0..run.count {
                        let Ok(cluster) = self.real(run.cluster + u64::from(index)) else { return false };
                        if self.scan.used.contains(cluster) {
                            return false;
                        }
                        if let Some(checksum) = run.checksum() {
                            let place = self.scan.pages.geometry.offset(cluster);
                            if !self.read_good_copy(place, checksum, &mut buffer) {
                                return false;
                            }
                        }
                    }
                    at = run.end();
                }
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Notes that the stream's clusters belong to an existing file.
    pub(super) fn claim(&mut self) {
        let mut at = 0;
        loop {
            match self.find(at) {
                Ok(Some(run)) => {
                    // Clusters after the first that the volume does not have are no more in it either: the count of a
                    // damaged run may be any.
                    let clusters =
                        (0..run.count).map_while(|index| self.real(run.cluster + u64::from(index)).ok());
                    let clusters: Vec<u64> = clusters.collect();
                    for cluster in clusters {
                        self.scan.used.insert(cluster);
                    }
                    at = run.end();
                }
                Ok(None) => return,
                Err(after) => at = after,
            }
        }
    }

    fn real(&self, cluster: u64) -> Result<u64> {
        if self.scan.pages.map.is_compressed(&self.scan.pages.geometry, cluster) {
            return Err(Error::Unreadable("its clusters are in a container that is compressed"));
        }
        self.scan.pages.map.real(&self.scan.pages.geometry, cluster, 1)
    }

    /// Returns the run that holds cluster `at` of the stream, cut to begin there, or else the next run; `None` at the
    /// end. Where runs cannot be read, the error is the first cluster after the missing part.
    fn find(&mut self, mut at: u32) -> std::result::Result<Option<Extent>, u32> {
        let StreamContent::Extents(runs) = &mut self.state.content else { return Ok(None) };
        loop {
            match runs.find(at) {
                extents::Mapping::Extent(run) => {
                    let skip = at - run.at;
                    let cluster = run.cluster.saturating_add(u64::from(skip));
                    return Ok(Some(Extent { at, count: run.count - skip, cluster, ..run }));
                }
                extents::Mapping::Hole(u32::MAX) => return Ok(None),
                extents::Mapping::Hole(next) => at = next.max(at + 1),
                extents::Mapping::Absent(index) => {
                    if runs.loaded() > RUNS {
                        runs.unload();
                    }
                    if runs.load(&mut self.scan.pages, index).is_err() {
                        return Err(runs.end_of(index).max(at + 1));
                    }
                }
            }
        }
    }

    fn read_clusters(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let cluster = self.scan.pages.geometry.cluster as usize;
        let first = offset / cluster as u64;
        let end = (offset + buffer.len() as u64).div_ceil(cluster as u64);
        let mut whole = Buffer::new((end - first) as usize * cluster);
        let (mut at, end) = (first as u32, end as u32);
        // Neighbouring clusters are one transfer.
        let mut transfers: Vec<(u64, usize, usize)> = Vec::new();
        let mut checks: Vec<(usize, u32, u64)> = Vec::new();
        while at < end {
            let run = match self.find(at) {
                Ok(Some(run)) if run.at < end => run,
                Ok(_) => break,
                Err(_) => {
                    let found = "a page that is gone";
                    return Err(Error::damaged("stream's extents", 0, "a page for this range", found));
                }
            };
            for index in 0..run.count.min(end - run.at) {
                let place = self.scan.pages.geometry.offset(self.real(run.cluster + u64::from(index))?);
                let position = (run.at + index - first as u32) as usize * cluster;
                match transfers.last_mut() {
                    Some((start, from, length))
                        if *start + *length as u64 == place && *from + *length == position =>
                    {
                        *length += cluster
                    }
                    _ => transfers.push((place, position, cluster)),
                }
                checks.extend(run.checksum().map(|checksum| (position, checksum, place)));
            }
            at = run.end();
        }
        for (place, position, length) in transfers {
            self.scan.pages.device().read_at(place, &mut whole[position..position + length])?;
        }
        for (position, expected, place) in checks {
            let found = crc32c(&whole[position..position + cluster]);
            if found != expected
                && !self.read_good_copy(place, expected, &mut whole[position..position + cluster])
            {
                let (expected, found) = (format!("CRC32-C {expected:08x}"), format!("{found:08x}"));
                return Err(Error::damaged("checksum of a file's data", place, expected, found));
            }
        }
        let head = (offset % cluster as u64) as usize;
        buffer.copy_from_slice(&whole[head..head + buffer.len()]);
        Ok(())
    }
}

impl Data<'_> {
    /// Reads a cluster from the first copy of the device in which it has this checksum. Returns whether one has.
    fn read_good_copy(&self, place: u64, checksum: u32, cluster: &mut [u8]) -> bool {
        let device = self.scan.pages.device();
        (0..device.copies())
            .any(|copy| device.read_copy(copy, place, cluster).is_ok() && crc32c(cluster) == checksum)
    }
}

impl RecoveredData for Data<'_> {
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let length = self.state.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..length];
        if let StreamContent::Inline(content) = &self.state.content {
            let start = offset.min(content.len() as u64) as usize;
            let there = &content[start..content.len().min(start + length)];
            buffer[..there.len()].copy_from_slice(there);
            buffer[there.len()..].fill(0);
            return Ok(length);
        }
        // Bytes past the valid data length read as zeroes, whatever the clusters hold.
        let written = self.state.valid().saturating_sub(offset).min(length as u64) as usize;
        let (there, never) = buffer.split_at_mut(written);
        never.fill(0);
        if !there.is_empty() {
            self.read_clusters(offset, there)?;
        }
        Ok(length)
    }

    fn stretch(&mut self, offset: u64) -> (Stretch, u64) {
        let cluster = u64::from(self.scan.pages.geometry.cluster);
        if matches!(self.state.content, StreamContent::Inline(_)) {
            return (Stretch::Content, u64::MAX);
        }
        if offset >= self.state.valid() {
            return (Stretch::Zeroes, u64::MAX);
        }
        let after = |end: u32| u64::from(end).saturating_mul(cluster).max(offset + 1);
        let Ok(at) = u32::try_from(offset / cluster) else { return (Stretch::Zeroes, u64::MAX) };
        match self.find(at) {
            Ok(Some(run)) if run.at > at => (Stretch::Zeroes, after(run.at)),
            // A run lies in one container. Of a damaged one that does not, what is behind the container is nowhere.
            Ok(Some(run)) if self.real(run.cluster).is_err() => (Stretch::Lost, after(run.end())),
            Ok(Some(_)) => (Stretch::Content, offset.saturating_add(TOGETHER)),
            Ok(None) => (Stretch::Zeroes, u64::MAX),
            Err(end) => (Stretch::Lost, after(end)),
        }
    }
}
