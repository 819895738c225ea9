//! The volume in an encrypted one.

mod queue;

use crate::bytes::{le64, read, unusable};
use crate::cipher::SectorCipher;
use crate::header::{CLUSTER_AT, SIGNATURE};
use crate::regions::{Lies, Regions};
use platter_device::{Buffer, Device, Error, Operation, Queue, Result, Sectors, check_transfer};
use queue::VolumeQueue;
use std::sync::Arc;

/// The volume in an encrypted one, as a device: every transfer is encrypted or decrypted sector by sector, each in its place.
///
/// The places of BitLocker's own structures read as zeroes and are never written to, apart from those of a conversion of Windows 10:
/// these are read as they are, on volumes that are not written to at all.
pub struct EncryptedVolume {
    pub(crate) below: Arc<dyn Device>,
    /// `None` if no sector is encrypted.
    cipher: Option<SectorCipher>,
    regions: Regions,
    sectors: Sectors,
    length: u64,
    /// On Vista, what NTFS and BitLocker have in the same field of the first sector.
    first: Option<FirstField>,
    /// Why it is not written to.
    conversion: Option<String>,
}

/// The field of the first sector that Vista changes.
#[derive(Clone, Copy)]
pub(crate) struct FirstField {
    pub of_ntfs: u64,
    pub of_bitlocker: u64,
}

const OF_NTFS: [u8; 8] = *b"NTFS    ";

/// A write is encrypted in parts of at most so many bytes.
const MOST_AT_ONCE: usize = 1 << 20;

impl EncryptedVolume {
    pub(crate) fn new(
        below: Arc<dyn Device>,
        cipher: Option<SectorCipher>,
        regions: Regions,
        sector: u32,
        of_ntfs: Option<u64>,
        conversion: Option<String>,
    ) -> Result<EncryptedVolume> {
        let Sectors { logical, physical } = below.sectors();
        if logical > sector {
            let why =
                format!("is encrypted in sectors of {sector} bytes, on a device with sectors of {logical}");
            return Err(unusable(below.name(), why));
        }
        let first = match of_ntfs {
            Some(of_ntfs) => {
                let bytes = read(&*below, 0, 512)?;
                Some(FirstField { of_ntfs, of_bitlocker: le64(&bytes, CLUSTER_AT).unwrap_or(0) })
            }
            None => None,
        };
        let length = below.len() / u64::from(sector) * u64::from(sector);
        let sectors = Sectors { logical: sector, physical: physical.max(sector) };
        Ok(EncryptedVolume { below, cipher, regions, sectors, length, first, conversion })
    }

    /// The pieces of a transfer that passed the checks, with the position of each in the buffer.
    pub(crate) fn pieces(&self, offset: u64, length: u64) -> impl Iterator<Item = (usize, usize, Lies)> + '_ {
        let mut at = 0;
        self.regions.pieces(offset, length).map(move |piece| {
            let from = at;
            at += piece.length as usize;
            (from, piece.length as usize, piece.lies)
        })
    }

    /// The offset below of a piece that is there.
    pub(crate) fn place(lies: Lies) -> Option<u64> {
        match lies {
            Lies::Encrypted(at) | Lies::Plain(at) => Some(at),
            Lies::First => Some(0),
            Lies::Nowhere => None,
        }
    }

    fn cipher(&self) -> &SectorCipher {
        self.cipher.as_ref().expect("a volume with encrypted sectors is opened with their key")
    }

    /// Makes of what was read what the volume has.
    pub(crate) fn decode(&self, lies: Lies, bytes: &mut [u8]) {
        match (lies, self.first) {
            (Lies::Encrypted(at), _) => self.cipher().decrypt(at, bytes),
            (Lies::First, Some(first)) => {
                bytes[3..11].copy_from_slice(&OF_NTFS);
                bytes[CLUSTER_AT..CLUSTER_AT + 8].copy_from_slice(&first.of_ntfs.to_le_bytes());
            }
            _ => {}
        }
    }

    /// Makes of what the volume is to have what is written below.
    pub(crate) fn encode(&self, lies: Lies, bytes: &mut [u8]) {
        match (lies, self.first) {
            (Lies::Encrypted(at), _) => self.cipher().encrypt(at, bytes),
            (Lies::First, Some(first)) => {
                bytes[3..11].copy_from_slice(&SIGNATURE);
                bytes[CLUSTER_AT..CLUSTER_AT + 8].copy_from_slice(&first.of_bitlocker.to_le_bytes());
            }
            _ => {}
        }
    }

    /// Refuses a write that there is no place for. Zeroes where zeroes are read change nothing.
    pub(crate) fn check_write(&self, offset: u64, data: &[u8]) -> Result<()> {
        check_transfer(self, Operation::Write, offset, data.len() as u64)?;
        let refused = |at: usize, why: &str| {
            let reason = format!("{} bytes from {} on {why}", data.len(), offset + at as u64);
            Err(Error::Protected { device: self.name().into(), reason })
        };
        for (at, length, lies) in self.pieces(offset, data.len() as u64) {
            let part = &data[at..at + length];
            match (lies, self.first) {
                (Lies::Nowhere, _) if part.iter().any(|&byte| byte != 0) => {
                    return refused(at, "reach into what BitLocker keeps there for itself");
                }
                (Lies::First, Some(first)) => {
                    let is_kept = part[3..11] == OF_NTFS && le64(part, CLUSTER_AT) == Some(first.of_ntfs);
                    if !is_kept {
                        return refused(at, "change what BitLocker of Windows Vista knows the volume by");
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads with `read`, piece by piece.
    fn read_by(
        &self,
        offset: u64,
        buffer: &mut [u8],
        read: impl Fn(u64, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        check_transfer(self, Operation::Read, offset, buffer.len() as u64)?;
        for (at, length, lies) in self.pieces(offset, buffer.len() as u64) {
            let part = &mut buffer[at..at + length];
            match EncryptedVolume::place(lies) {
                Some(place) => read(place, part)?,
                None => part.fill(0),
            }
            self.decode(lies, part);
        }
        Ok(())
    }

    /// Writes with `write`, piece by piece. Nothing is written if a part has no place.
    fn write_by(&self, offset: u64, data: &[u8], write: impl Fn(u64, &[u8]) -> Result<()>) -> Result<()> {
        self.check_write(offset, data)?;
        let mut buffer = Buffer::new(data.len().min(MOST_AT_ONCE));
        for (at, length, lies) in self.pieces(offset, data.len() as u64) {
            let Some(place) = EncryptedVolume::place(lies) else { continue };
            for part in (0..length).step_by(MOST_AT_ONCE) {
                let size = MOST_AT_ONCE.min(length - part);
                let bytes = &mut buffer[..size];
                bytes.copy_from_slice(&data[at + part..][..size]);
                self.encode(moved(lies, part as u64), bytes);
                write(place + part as u64, bytes)?;
            }
        }
        Ok(())
    }
}

/// The same place, this many bytes further on.
fn moved(lies: Lies, by: u64) -> Lies {
    match lies {
        Lies::Encrypted(at) => Lies::Encrypted(at + by),
        Lies::Plain(at) => Lies::Plain(at + by),
        whole => whole,
    }
}

impl Device for EncryptedVolume {
    fn name(&self) -> &str {
        self.below.name()
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn sectors(&self) -> Sectors {
        self.sectors
    }

    fn below(&self) -> Option<&dyn Device> {
        Some(&*self.below)
    }

    fn end(&self) -> u64 {
        self.below.end().min(self.length)
    }

    fn why_read_only(&self) -> Option<String> {
        self.conversion.clone().or_else(|| self.below.why_read_only())
    }

    fn read_only(&self) -> bool {
        self.conversion.is_some() || self.below.read_only()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_by(offset, buffer, |at, part| self.below.read_at(at, part))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.write_by(offset, data, |at, part| self.below.write_at(at, part))
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        let mut below: Vec<(u64, &mut [u8])> = Vec::with_capacity(reads.len());
        let mut all: Vec<Lies> = Vec::with_capacity(reads.len());
        for (offset, buffer) in reads {
            check_transfer(self, Operation::Read, *offset, buffer.len() as u64)?;
            let mut rest: &mut [u8] = buffer;
            for (_, length, lies) in self.pieces(*offset, rest.len() as u64) {
                let (part, behind) = rest.split_at_mut(length);
                rest = behind;
                match EncryptedVolume::place(lies) {
                    Some(place) => {
                        below.push((place, part));
                        all.push(lies);
                    }
                    None => part.fill(0),
                }
            }
        }
        self.below.read_batch(&mut below)?;
        for ((_, part), lies) in below.iter_mut().zip(all) {
            self.decode(lies, part);
        }
        Ok(())
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        let is_small = writes.iter().map(|(_, data)| data.len()).sum::<usize>() <= MOST_AT_ONCE;
        if !is_small {
            return writes.iter().try_for_each(|(offset, data)| self.write_at(*offset, data));
        }
        writes.iter().try_for_each(|(offset, data)| self.check_write(*offset, data))?;
        let mut below: Vec<(u64, Buffer)> = Vec::with_capacity(writes.len());
        for (offset, data) in writes {
            for (at, length, lies) in self.pieces(*offset, data.len() as u64) {
                let Some(place) = EncryptedVolume::place(lies) else { continue };
                let mut bytes = Buffer::from(&data[at..at + length]);
                self.encode(lies, &mut bytes);
                below.push((place, bytes));
            }
        }
        let below: Vec<(u64, &[u8])> = below.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
        self.below.write_batch(&below)
    }

    fn read_copy(&self, copy: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_by(offset, buffer, |at, part| self.below.read_copy(copy, at, part))
    }

    fn repair_copy(&self, copy: usize, offset: u64, data: &[u8]) -> Result<()> {
        self.write_by(offset, data, |at, part| self.below.repair_copy(copy, at, part))
    }

    /// Zeroes below are not zeroes here.
    fn next_data(&self, offset: u64) -> u64 {
        offset.min(self.length)
    }

    fn flush(&self) -> Result<()> {
        self.below.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_transfer(self, Operation::Discard, offset, length)?;
        for (_, length, lies) in self.pieces(offset, length) {
            // What is discarded may read as anything, which the first sector must not.
            if let Lies::Encrypted(place) | Lies::Plain(place) = lies {
                self.below.discard(place, length as u64)?;
            }
        }
        Ok(())
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(VolumeQueue::new(self, self.below.queue(depth)?, depth)))
    }
}
