//! Writes of parts of sectors and of new last blocks, with blocking calls, while the range is claimed.

use super::Volume;
use crate::Family;
use crate::file::{File, FileState};
use platter_device::Buffer;
use platter_vfs::{Access, Result, first_in_block, range_of_write};

impl<F: Family> Volume<F> {
    /// Whether a write is the first to the block in which it ends: see [`first_in_block`].
    pub(super) fn is_new_block(&self, file: &File, offset: u64, length: usize) -> Result<bool> {
        let (end, block) = (offset + length as u64, u64::from(self.block));
        if end.is_multiple_of(block) {
            return Ok(false);
        }
        self.shared(file, |state| Ok(first_in_block(state.planned(), &(offset..end), block).is_some()))
    }

    /// Writes a range that begins or ends inside a sector, or is the first in the block in which it ends. Its blocks are
    /// claimed, because data that others write to their other bytes meanwhile would be lost.
    pub(super) fn write_claimed(&self, file: &File, offset: u64, data: &[u8]) -> Result<()> {
        let end = self.check_size(offset.checked_add(data.len() as u64))?;
        let range = |state: &FileState| range_of_write(state.planned(), offset, data.len(), self.block);
        self.with_space(|| {
            drop(self.with_core(file)?);
            let claimed = std::cell::Cell::new(0);
            let claim_range = |state: &FileState| {
                claimed.set(range(state).start);
                range(state)
            };
            loop {
                let _claim = file.claim(claim_range, Access::Write);
                self.commit_cut(file)?;
                let (mut core, mut state) = self.with_core(file)?;
                self.may_write(file)?;
                if range(&state).start < claimed.get() {
                    // A write that was planned before this one failed, so the gap to be zeroed begins earlier than the
                    // claim.
                    continue;
                }
                let ticket = match end > state.valid {
                    true => {
                        self.reserve(&mut core, file, &mut state, end)?;
                        let from = state.planned();
                        Some((state.announce(offset, end), from))
                    }
                    false => None,
                };
                let kept = ticket.map_or(state.planned(), |(_, from)| from);
                drop((core, state));
                // The claim keeps others from moving these clusters; reads go on.
                let written = self.write_sectors(&file.read(), kept, offset, data);
                if let Some((ticket, _)) = ticket {
                    // `kept` is the end here, so the gap in front is not zeroed again.
                    let again = |state: &FileState, _| self.write_sectors(state, end.max(kept), offset, data);
                    let recorded = self.finish_extension(file, offset..end, ticket, written.is_ok(), again);
                    return written.and(recorded);
                }
                if written.is_ok() {
                    self.touch(file);
                }
                return written;
            }
        })
    }

    /// Writes any byte range of a file with blocking calls. The clusters are allocated, and the file has content up to
    /// `kept`; the gap from there is zeroed, and the other bytes of the first and last sector are kept. A block to which
    /// nothing was written is written whole: see [`first_in_block`].
    fn write_sectors(&self, state: &FileState, kept: u64, offset: u64, data: &[u8]) -> Result<()> {
        let sector = u64::from(self.sector);
        let block = u64::from(self.block);
        let end = offset + data.len() as u64;
        let last = first_in_block(kept, &(offset..end), block).unwrap_or(end);
        let mut at = offset / sector * sector;
        self.zero(state, kept..at)?;
        while at < end {
            if at >= last {
                let mut bounce = Buffer::new((last + block - at) as usize);
                let from = offset.max(at);
                bounce[(from - at) as usize..(end - at) as usize]
                    .copy_from_slice(&data[(from - offset) as usize..]);
                return self.transfer_out(state, at, &bounce);
            }
            if at < offset || at + sector > end {
                let mut bounce = Buffer::new(sector as usize);
                // Only bytes before the end of the file are kept.
                let kept = kept.saturating_sub(at).min(sector) as usize;
                if kept > 0 {
                    self.transfer_in(state, at, &mut bounce)?;
                    bounce[kept..].fill(0);
                }
                let (from, to) = (offset.max(at), end.min(at + sector));
                bounce[(from - at) as usize..(to - at) as usize]
                    .copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]);
                self.transfer_out(state, at, &bounce)?;
                at += sector;
            } else {
                let whole = (last - at) / sector * sector;
                let from = (at - offset) as usize;
                self.transfer_out(state, at, &data[from..from + whole as usize])?;
                at += whole;
            }
        }
        Ok(())
    }
}
