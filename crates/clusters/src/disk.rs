//! Reading and writing at any byte offset, whatever sectors the device has, for checks and recovery.

use crate::SLOT;
use platter_device::{Device, read_any, write_any};
use platter_vfs::{CheckReport, Finding, Progress, Result, Severity};
use std::collections::BTreeMap;

/// Returns the first 512 bytes of a device, where a boot sector is; `None` if the device is smaller than that or than
/// one of its sectors.
///
/// # Errors
/// The errors of the device.
pub fn first_sector(device: &dyn Device) -> Result<Option<[u8; 512]>> {
    let mut bytes = [0; 512];
    if device.len() < u64::from(device.sectors().logical.max(512)) {
        return Ok(None);
    }
    Disk::new(device).read(0, &mut bytes)?;
    Ok(Some(bytes))
}

/// The smallest sector in bytes. Every structure of these formats begins at a multiple of it.
const SMALLEST_SECTOR: usize = 512;

/// Calls `visit` with the offset and the content of each 512 bytes of a device until it returns false or `progress` asks
/// for the end. Holes are left out, and what cannot be read.
pub fn each_sector(
    disk: &Disk,
    progress: &dyn Progress,
    visit: &mut dyn FnMut(u64, &[u8; SMALLEST_SECTOR]) -> bool,
) {
    /// The number of bytes that are read at once.
    const PIECE: u64 = 1 << 20;
    let device = disk.device();
    let mut piece = vec![0; PIECE as usize];
    let mut at = device.next_data(0) / PIECE * PIECE;
    while at < device.len() {
        if progress.step("looking for the layout", at, device.len()).is_err() {
            return;
        }
        let piece = &mut piece[..(device.len() - at).min(PIECE) as usize];
        let offsets = (at..).step_by(SMALLEST_SECTOR);
        if disk.read(at, piece).is_err() {
            for (offset, sector) in offsets.clone().zip(piece.chunks_mut(SMALLEST_SECTOR)) {
                if disk.read(offset, sector).is_err() {
                    sector.fill(0);
                }
            }
        }
        for (offset, sector) in offsets.zip(piece.as_chunks().0) {
            if !visit(offset, sector) {
                return;
            }
        }
        at += PIECE;
        if at < device.len() {
            at = device.next_data(at) / PIECE * PIECE;
        }
    }
}

/// A device together with changes of directory slots that have not been written.
pub struct Disk<'d> {
    device: &'d dyn Device,
    edits: BTreeMap<u64, [u8; SLOT]>,
    /// The offsets of the slots whose sectors are written first.
    first: Vec<u64>,
}

impl<'d> Disk<'d> {
    /// A device without changes.
    pub fn new(device: &'d dyn Device) -> Disk<'d> {
        Disk { device, edits: BTreeMap::new(), first: Vec::new() }
    }

    /// The device below.
    pub fn device(&self) -> &'d dyn Device {
        self.device
    }

    /// Reads bytes as they are on the device. What lies behind the end of a truncated device reads as zeroes; the check
    /// reports those places ([`Disk::is_behind_end`]).
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = self.device.end();
        if offset.saturating_add(buffer.len() as u64) > end && end < self.device.len() {
            let there = end.saturating_sub(offset) as usize;
            let (there, behind) = buffer.split_at_mut(there);
            behind.fill(0);
            return if there.is_empty() { Ok(()) } else { self.read(offset, there) };
        }
        Ok(read_any(self.device, offset, buffer)?)
    }

    /// Writes bytes, leaving the other bytes of their sectors unchanged.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        Ok(write_any(self.device, offset, data)?)
    }

    /// Whether a range reaches behind the end of a truncated device.
    pub fn is_behind_end(&self, offset: u64, length: u64) -> bool {
        self.device.end() < self.device.len() && offset.saturating_add(length) > self.device.end()
    }

    /// Adds a finding if the device was truncated.
    pub fn report_end(&self, report: &mut CheckReport) {
        if let Some(message) = self.device.why_read_only().filter(|_| self.device.end() < self.device.len()) {
            let severity = Severity::DataLoss;
            report.add(Finding { code: "cut-off", severity, path: None, message, repaired: false });
        }
    }

    /// Makes everything written durable.
    pub fn flush(&self) -> Result<()> {
        Ok(self.device.flush()?)
    }

    /// Reads directory slots as they will be once the edits are written.
    pub fn read_slots(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read(offset, buffer)?;
        for (at, slot) in self.edits.range(offset..offset + buffer.len() as u64) {
            let at = (at - offset) as usize;
            buffer[at..at + SLOT].copy_from_slice(slot);
        }
        Ok(())
    }

    /// Records new content for the slot at this offset.
    pub fn edit(&mut self, offset: u64, slot: [u8; SLOT]) {
        self.edits.insert(offset, slot);
    }

    /// The number of changed slots not yet written.
    pub fn edits(&self) -> usize {
        self.edits.len()
    }

    /// Notes that the sector of a changed slot is to be durable before those of others are written.
    pub fn write_first(&mut self, offset: u64) {
        self.first.push(offset);
    }

    /// Writes the changed slots, sector by sector.
    pub fn write_edits(&mut self) -> Result<()> {
        let first = std::mem::take(&mut self.first);
        if !first.is_empty() {
            first.into_iter().try_for_each(|slot| self.write_sector(slot))?;
            self.flush()?;
        }
        while let Some((&slot, _)) = self.edits.first_key_value() {
            self.write_sector(slot)?;
        }
        Ok(())
    }

    /// Writes the changed slots of the sector in which a slot is.
    fn write_sector(&mut self, slot: u64) -> Result<()> {
        let sector = u64::from(self.device.sectors().logical);
        let start = slot / sector * sector;
        let mut here = self.edits.split_off(&start);
        self.edits.append(&mut here.split_off(&(start + sector)));
        if here.is_empty() {
            return Ok(());
        }
        let mut bytes = vec![0; sector as usize];
        self.device.read_at(start, &mut bytes)?;
        for (at, slot) in here {
            let at = (at - start) as usize;
            bytes[at..at + SLOT].copy_from_slice(&slot);
        }
        Ok(self.device.write_at(start, &bytes)?)
    }
}
