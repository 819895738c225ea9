//! A volume on dynamic disks, as a device that is read.

use super::header::SECTOR;
use platter_device::{Device, Error, Immediate, Operation, Queue, Result, Sectors, check_transfer};
use std::sync::Arc;
use std::time::Duration;

/// A part of a disk, in bytes.
#[derive(Clone)]
pub(crate) struct Piece {
    pub disk: Arc<dyn Device>,
    pub start: u64,
    pub length: u64,
}

/// One copy of a volume: columns between which stripes alternate, each of pieces one after the other. A copy without stripes
/// has one column.
#[derive(Clone)]
pub(crate) struct Layout {
    pub stripe: u64,
    pub columns: Vec<Vec<Piece>>,
}

impl Layout {
    /// The disk and the offset on it of a byte of the volume, and how many bytes from there on lie together. `None` behind
    /// the end.
    fn find(&self, offset: u64) -> Option<(&dyn Device, u64, u64)> {
        let columns = self.columns.len() as u64;
        let (column, mut inside, rest) = match columns {
            1 => (0, offset, u64::MAX),
            _ => {
                let (stripe, within) = (offset / self.stripe, offset % self.stripe);
                let inside = (stripe / columns).checked_mul(self.stripe)? + within;
                ((stripe % columns) as usize, inside, self.stripe - within)
            }
        };
        for piece in &self.columns[column] {
            match inside.checked_sub(piece.length) {
                Some(behind) => inside = behind,
                None => return Some((&*piece.disk, piece.start + inside, rest.min(piece.length - inside))),
            }
        }
        None
    }
}

/// The device of a volume. Where it has several copies, that of the first whose disks are all there is read, and of the others
/// what cannot be read of it.
pub(crate) struct Volume {
    pub name: String,
    pub length: u64,
    pub copies: Vec<Layout>,
}

impl Volume {
    fn read_from(&self, copy: &Layout, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            let Some((disk, at, length)) = copy.find(offset + done as u64) else {
                let reason = "ends before its volume does".to_string();
                return Err(Error::Unusable { device: self.name.as_str().into(), reason });
            };
            let part = (buffer.len() - done).min(usize::try_from(length).unwrap_or(usize::MAX));
            disk.read_at(at, &mut buffer[done..done + part])?;
            done += part;
        }
        Ok(())
    }
}

impl Device for Volume {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn sectors(&self) -> Sectors {
        Sectors { logical: SECTOR as u32, physical: SECTOR as u32 }
    }

    fn read_only(&self) -> bool {
        true
    }

    fn why_read_only(&self) -> Option<String> {
        Some("volumes on dynamic disks are only read".into())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_transfer(self, Operation::Read, offset, buffer.len() as u64)?;
        let mut outcome = Ok(());
        for copy in &self.copies {
            outcome = self.read_from(copy, offset, buffer);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn write_at(&self, _: u64, _: &[u8]) -> Result<()> {
        Err(Error::ReadOnly { device: self.name().into() })
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> Result<()> {
        Err(Error::ReadOnly { device: self.name().into() })
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }

    fn now(&self) -> Duration {
        self.copies[0].columns[0][0].disk.now()
    }
}
