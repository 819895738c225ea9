//! The device as a check sees it: with the changes of the current round, which are written at the end of the round.

use crate::layout::{Geometry, Run};
use platter_device::Device;
use platter_vfs::Result;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Bytes of the longest record, and of an index block as a check makes it.
const STRUCTURE: u64 = 4096;

/// The device with the changes of the current round.
pub(crate) struct Disk<'d> {
    device: &'d dyn Device,
    sector: u64,
    /// Where the bytes begin that read as zeroes although the device does not have them.
    end: u64,
    /// The changed sectors, by number.
    edits: BTreeMap<u64, Box<[u8]>>,
    /// Ranges that are to be filled with one byte, before the sectors are written.
    fills: Vec<(u64, u64, u8)>,
    /// Ranges that nothing on the device leads to: where they begin, and where they end.
    fresh: BTreeMap<u64, u64>,
}

/// Adjacent sectors: the device offset of the first, and their bytes.
pub(crate) type Piece = (u64, Vec<u8>);

/// Changed sectors, grouped by the way in which they must be written to survive a power cut.
#[derive(Default)]
pub(crate) struct Edits {
    /// Sectors that nothing leads to yet, and the boot sector and its copy, which take one sector each: these are
    /// written first.
    pub before: Vec<Piece>,
    /// Sectors of structures that are in use: these go through the log.
    pub within: Vec<Piece>,
    /// Sectors of the copy of the first records.
    pub mirror: Vec<Piece>,
}

impl<'d> Disk<'d> {
    /// A device without changes. Reading behind the end of a truncated device fails.
    pub(crate) fn new(device: &'d dyn Device) -> Disk<'d> {
        Disk {
            device,
            sector: u64::from(device.sectors().logical),
            end: u64::MAX,
            edits: BTreeMap::new(),
            fills: Vec::new(),
            fresh: BTreeMap::new(),
        }
    }

    /// The same, for a check: what lies behind the end of a truncated device reads as zeroes. The check reports those
    /// places ([`Disk::is_behind_end`]).
    pub(crate) fn with_zeroes_behind_end(device: &'d dyn Device) -> Disk<'d> {
        let end = if device.end() < device.len() { device.end() } else { u64::MAX };
        Disk { end, ..Disk::new(device) }
    }

    /// Where the device ends, if it was cut off.
    pub(crate) fn end(&self) -> Option<u64> {
        (self.end < u64::MAX).then_some(self.end)
    }

    /// Whether a range reaches behind the end of a truncated device.
    pub(crate) fn is_behind_end(&self, offset: u64, length: u64) -> bool {
        offset.saturating_add(length) > self.end
    }

    /// The device without the changes.
    pub(crate) fn device(&self) -> &'d dyn Device {
        self.device
    }

    /// The time of the device's clock.
    pub(crate) fn now(&self) -> Duration {
        self.device.now()
    }

    pub(crate) fn len(&self) -> u64 {
        self.device.len()
    }

    /// Bytes of a sector of the device.
    pub(crate) fn sector(&self) -> u64 {
        self.sector
    }

    /// Reads any bytes of the device, with the changes in them.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        Ok(self.read_sectors(offset, buffer)?)
    }

    /// Notes that bytes are to change.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        Ok(self.write_sectors(offset, bytes)?)
    }

    /// [`Disk::read`] that returns the device's errors.
    pub(crate) fn read_sectors(&self, offset: u64, buffer: &mut [u8]) -> platter_device::Result<()> {
        let end = offset + buffer.len() as u64;
        let (first, last) = (offset / self.sector, end.div_ceil(self.sector));
        if offset.is_multiple_of(self.sector) && end.is_multiple_of(self.sector) {
            self.read_device(offset, buffer)?;
        } else {
            let mut whole = vec![0; ((last - first) * self.sector) as usize];
            self.read_device(first * self.sector, &mut whole)?;
            let skip = (offset - first * self.sector) as usize;
            buffer.copy_from_slice(&whole[skip..skip + buffer.len()]);
        }
        for (number, bytes) in self.edits.range(first..last) {
            let start = number * self.sector;
            let (from, to) = (start.max(offset), (start + self.sector).min(end));
            buffer[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
        }
        Ok(())
    }

    /// Reads whole sectors without the changes in them.
    fn read_device(&self, offset: u64, buffer: &mut [u8]) -> platter_device::Result<()> {
        if !self.is_behind_end(offset, buffer.len() as u64) {
            return self.device.read_at(offset, buffer);
        }
        let (there, behind) = buffer.split_at_mut(self.end.saturating_sub(offset) as usize);
        behind.fill(0);
        if there.is_empty() { Ok(()) } else { self.device.read_at(offset, there) }
    }

    /// [`Disk::write`] that returns the device's errors.
    pub(crate) fn write_sectors(&mut self, offset: u64, bytes: &[u8]) -> platter_device::Result<()> {
        let end = offset + bytes.len() as u64;
        for number in offset / self.sector..end.div_ceil(self.sector) {
            let start = number * self.sector;
            let mut sector = vec![0; self.sector as usize];
            self.read_sectors(start, &mut sector)?;
            let (from, to) = (start.max(offset), (start + self.sector).min(end));
            sector[(from - start) as usize..(to - start) as usize]
                .copy_from_slice(&bytes[(from - offset) as usize..(to - offset) as usize]);
            self.edits.insert(number, sector.into());
        }
        Ok(())
    }

    /// Whether any sector is to change.
    pub(crate) fn is_edited(&self) -> bool {
        !self.edits.is_empty()
    }

    /// Notes that a range, in which nothing else is to change, is to be filled with a byte.
    pub(crate) fn fill(&mut self, offset: u64, length: u64, byte: u8) {
        self.fills.push((offset, length, byte));
    }

    /// Notes that nothing on the device leads to a range, which so may be written before structures that are in use.
    pub(crate) fn give(&mut self, start: u64, length: u64) {
        self.fresh.insert(start, start + length);
    }

    /// Takes the changed sectors out, in pieces of adjacent sectors, each of at most about `most` bytes. `volume` is
    /// where the volume's clusters end, `mirror` where the copy of the first records is.
    pub(crate) fn take(&mut self, volume: u64, mirror: &Range<u64>, most: usize) -> Edits {
        let mut edits = Edits::default();
        for (number, bytes) in std::mem::take(&mut self.edits) {
            let at = number * self.sector;
            let end = at + self.sector;
            let is_fresh = self.fresh.range(..=at).next_back().is_some_and(|(_, fresh)| *fresh >= end);
            let pieces = if is_fresh || at == 0 || end > volume {
                &mut edits.before
            } else if at < mirror.end && end > mirror.start {
                &mut edits.mirror
            } else {
                &mut edits.within
            };
            match pieces.last_mut() {
                // Pieces end where structures do: those have at most `STRUCTURE` bytes, and begin at multiples of that.
                Some((start, piece))
                    if *start + piece.len() as u64 == at
                        && (piece.len() < most || !at.is_multiple_of(STRUCTURE)) =>
                {
                    piece.extend(bytes);
                }
                _ => pieces.push((at, bytes.into())),
            }
        }
        edits
    }

    /// Writes pieces, and flushes.
    pub(crate) fn put(&self, pieces: &[Piece]) -> Result<()> {
        if pieces.is_empty() {
            return Ok(());
        }
        for (at, bytes) in pieces {
            self.device.write_at(*at, bytes)?;
        }
        Ok(self.device.flush()?)
    }

    /// Writes all changes in the order of their offsets, and flushes.
    pub(crate) fn commit(&mut self) -> Result<()> {
        for (offset, length, byte) in std::mem::take(&mut self.fills) {
            let piece = vec![byte; (1 << 20).min(length) as usize];
            let mut at = 0;
            while at < length {
                let here = (length - at).min(piece.len() as u64);
                self.device.write_at(offset + at, &piece[..here as usize])?;
                at += here;
            }
        }
        let edits = self.take(0, &(0..0), 1 << 20);
        self.put(&edits.before)?;
        Ok(self.device.flush()?)
    }

    /// Reads from runs, which begin at virtual cluster 0. Holes, and bytes behind the runs, are zeroes.
    pub(crate) fn read_runs(
        &self,
        geometry: &Geometry,
        runs: &[Run],
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<()> {
        for (at, place, length) in pieces(geometry, runs, offset, buffer.len()) {
            let part = &mut buffer[at..at + length];
            match place {
                Some(place) => self.read(place, part)?,
                None => part.fill(0),
            }
        }
        Ok(())
    }

    /// Notes that bytes of runs are to change. Bytes in holes are left out.
    pub(crate) fn write_runs(
        &mut self,
        geometry: &Geometry,
        runs: &[Run],
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        for (at, place, length) in pieces(geometry, runs, offset, bytes.len()) {
            if let Some(place) = place {
                self.write(place, &bytes[at..at + length])?;
            }
        }
        Ok(())
    }
}

/// The pieces of a byte range in runs: position in the range, device offset (`None` in a hole), and length.
pub(crate) fn pieces(
    geometry: &Geometry,
    runs: &[Run],
    offset: u64,
    length: usize,
) -> Vec<(usize, Option<u64>, usize)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < length {
        let vcn = (offset + at as u64) / geometry.cluster;
        let inside = (offset + at as u64) % geometry.cluster;
        let run = runs.get(runs.partition_point(|run| run.end() <= vcn)).filter(|run| run.vcn <= vcn);
        let (place, room) = match run {
            Some(run) => {
                let place = run.lcn.map(|lcn| (lcn + vcn - run.vcn) * geometry.cluster + inside);
                (place, (run.end() - vcn) * geometry.cluster - inside)
            }
            None => (None, (length - at) as u64),
        };
        let piece = room.min((length - at) as u64) as usize;
        found.push((at, place, piece));
        at += piece;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_device::{MemoryDevice, Sectors};

    #[test]
    fn what_is_to_change_is_read_and_written_at_the_end() {
        let device = MemoryDevice::new(1 << 16, Sectors::SMALL);
        let mut disk = Disk::new(&device);
        disk.write(700, &[7; 900]).unwrap();
        disk.write(1000, &[9; 3]).unwrap();
        let mut bytes = [1; 1000];
        disk.read(650, &mut bytes).unwrap();
        assert_eq!(
            (bytes[49], bytes[50], bytes[349], bytes[350], bytes[353], bytes[949], bytes[950]),
            (0, 7, 7, 9, 7, 7, 0)
        );
        assert!(device.to_image().iter().all(|&byte| byte == 0));
        disk.commit().unwrap();
        assert_eq!(device.to_image()[650..1650], bytes);
        assert!(!disk.is_edited());
    }
}
