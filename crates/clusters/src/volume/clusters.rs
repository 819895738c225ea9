//! Clusters of a file: taken, zeroed, read, written, given back, and recorded in its entry. What all writers share.

use super::{Volume, ZEROES};
use crate::Family;
use crate::core::Core;
use crate::file::{File, FileState};
use platter_device::Buffer;
use platter_vfs::{Error, Result};
use std::ops::Range;
use std::sync::atomic::Ordering;

impl<F: Family> Volume<F> {
    /// Allocates clusters so that the file has them up to `end`, in bytes.
    pub(super) fn reserve(
        &self,
        core: &mut Core<F>,
        file: &File,
        state: &mut FileState,
        end: u64,
    ) -> Result<()> {
        let need = u32::try_from(self.heap.clusters_for(end)).map_err(|_| Error::NoSpace)?;
        let have = state.runs.clusters();
        if need > have {
            let taken = core.allocate(file.number, &state.runs, need - have)?;
            state.extend(&taken);
        }
        Ok(())
    }

    /// Frees clusters that were allocated for a write past the end and are not needed.
    pub(super) fn trim(&self, core: &mut Core<F>, state: &mut FileState) {
        let keep = state.linked.max(self.heap.clusters_for(state.planned()) as u32);
        if state.runs.clusters() > keep {
            let cut = state.runs.split_off(keep);
            core.give_up(&cut, keep);
        }
    }

    /// Rounds up to the device's sector.
    pub(super) fn sector_end(&self, offset: u64) -> u64 {
        // The sector is a power of two: dividing by a variable would take longer than all other work on a plan.
        let mask = u64::from(self.sector) - 1;
        (offset + mask) & !mask
    }

    /// Writes zeroes over a range of a file, from any byte to the end of a sector. The bytes before the range in the
    /// first sector are kept.
    pub(super) fn zero(&self, state: &FileState, range: Range<u64>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let sector = u64::from(self.sector);
        let mut start = range.start;
        let head = start % sector;
        if head != 0 {
            let mut bounce = Buffer::new(sector as usize);
            let at = start - head;
            self.transfer_in(state, at, &mut bounce)?;
            bounce[head as usize..].fill(0);
            self.transfer_out(state, at, &bounce)?;
            start = at + sector;
        }
        if start >= range.end {
            return Ok(());
        }
        let zeroes = Buffer::new(ZEROES.min((range.end - start) as usize));
        state.pieces(&self.heap, start..range.end, |mut place, mut length| {
            while length > 0 {
                let piece = length.min(zeroes.len() as u64);
                self.device.write_at(place, &zeroes[..piece as usize])?;
                (place, length) = (place + piece, length - piece);
            }
            Ok(())
        })
    }

    /// Writes zeroes from the end of a file to its future end at `size`.
    pub(super) fn zero_behind(&self, file: &File, size: u64) -> Result<()> {
        let state = file.read();
        self.zero(&state, state.size..self.sector_end(size))
    }

    pub(super) fn transfer_in(&self, state: &FileState, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut at = 0;
        let length = buffer.len() as u64;
        state.pieces(&self.heap, offset..offset + length, |place, length| {
            self.device.read_at(place, &mut buffer[at..at + length as usize])?;
            at += length as usize;
            Ok(())
        })
    }

    pub(super) fn transfer_out(&self, state: &FileState, offset: u64, data: &[u8]) -> Result<()> {
        let mut at = 0;
        state.pieces(&self.heap, offset..offset + data.len() as u64, |place, length| {
            self.device.write_at(place, &data[at..at + length as usize])?;
            at += length as usize;
            Ok(())
        })
    }

    /// Writes those of the data's sectors that read as zeroes from offset `from` of the file on. The others were
    /// written since, by this write itself or by a later one that readers have already seen.
    pub(super) fn fill_zeroes(&self, state: &FileState, from: u64, offset: u64, data: &[u8]) -> Result<()> {
        let mut found = Buffer::new(data.len());
        self.transfer_in(state, offset, &mut found)?;
        let sector = self.sector as usize;
        let sectors = found.chunks(sector).zip(data.chunks(sector)).zip((offset..).step_by(sector));
        for ((found, data), at) in sectors {
            let kept = from.saturating_sub(at).min(found.len() as u64) as usize;
            if kept < found.len() && found[kept..].iter().all(|byte| *byte == 0) {
                self.transfer_out(state, at, data)?;
            }
        }
        Ok(())
    }

    /// Links a file's clusters as far as its size needs them, and updates its entry, both with the next commit.
    pub(super) fn record(&self, core: &mut Core<F>, file: &File, state: &mut FileState) -> Result<()> {
        let needed = state.needed(&self.heap);
        if needed > state.linked {
            let mut entry = core.entity(file.number)?.entry.clone();
            F::link(core, &mut entry, &state.runs, state.linked, needed)
                .map_err(|error| self.health.fail(error))?;
            core.entity_mut(file.number)?.entry = entry;
            state.linked = needed;
        }
        core.absorb(file.number);
        F::record(&mut core.entity_mut(file.number)?.entry, state);
        core.mark(file.number);
        file.recorded_in.store(core.change.id, Ordering::SeqCst);
        Ok(())
    }
}
