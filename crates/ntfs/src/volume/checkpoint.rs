//! Checkpoints: the images of earlier commits go to their places, and the log no longer needs them.

use super::{NtfsVolume, Turn};
use crate::core::{Key, Pending};
use crate::layout::bytes::put;
use crate::layout::fixup;
use platter_device::write_any;
use platter_vfs::{Health, Result};
use std::ops::Range;

/// Length in bytes at which a write of adjacent images ends and the next one begins.
const LONGEST_WRITE: usize = 1 << 20;

// Writes are whole sectors, of which none is larger than 4096 bytes.
const _: () = assert!(LONGEST_WRITE.is_multiple_of(4096));

impl NtfsVolume {
    /// Says in the log that the volume is in use.
    pub(super) fn begin_log(&self, turn: &mut Turn) -> Result<()> {
        let Some(log) = &mut turn.log else { return Ok(()) };
        let floor = crate::open::greatest_lsn(&mut self.core());
        log.begin(&*self.device, floor)?;
        (turn.is_begun, turn.is_live) = (true, true);
        Ok(())
    }

    /// Writes everything that was committed to its place, and empties the log.
    pub(super) fn checkpoint(&self, turn: &mut Turn) -> Result<()> {
        let (pending, mirror) = {
            let mut core = self.core();
            let pending = core.pending.iter().map(|(key, pending)| (*key, pending.clone()));
            (pending.collect::<Vec<_>>(), crate::open::mirrored(&mut core))
        };
        let written = self.write_places(turn, &pending, mirror);
        written.map_err(|error| self.health.fail(error))?;
        let mut core = self.core();
        core.pending.clear();
        turn.indexes.clear();
        match core.space.checkpointed() {
            true => Ok(()),
            false => Err(self.health.stop(Health::SPACE_IS_WRONG)),
        }
    }

    fn write_places(
        &self,
        turn: &mut Turn,
        pending: &[(Key, Pending)],
        (mirror, mirrored): (u64, u64),
    ) -> Result<()> {
        let mut copies = Vec::new();
        let mut pieces: Vec<(u64, usize, Range<usize>)> = Vec::with_capacity(pending.len());
        for (index, (_, pending)) in pending.iter().enumerate() {
            let mut done = 0usize;
            for (at, length) in &pending.places {
                pieces.push((*at, index, done..done + *length as usize));
                done += *length as usize;
            }
        }
        pieces.sort_unstable_by_key(|(at, ..)| *at);
        // Images that are adjacent on the device are written together.
        let (mut start, mut run) = (0, Vec::with_capacity(LONGEST_WRITE));
        for (at, index, part) in pieces {
            let (key, pending) = &pending[index];
            if start + run.len() as u64 != at || run.len() >= LONGEST_WRITE {
                if !run.is_empty() {
                    write_any(&*self.device, start, &run)?;
                }
                run.clear();
                start = at;
            }
            if part.len() == pending.bytes.len() {
                let from = run.len();
                run.extend_from_slice(&pending.bytes);
                seal(*key, turn.lsn, &mut run[from..]);
            } else {
                let mut whole = (*pending.bytes).clone();
                seal(*key, turn.lsn, &mut whole);
                run.extend_from_slice(&whole[part]);
            }
            if let Key::Record(number) = key
                && *number < mirrored
            {
                let mut whole = (*pending.bytes).clone();
                seal(*key, turn.lsn, &mut whole);
                copies.push((mirror + number * whole.len() as u64, whole));
            }
        }
        if !run.is_empty() {
            write_any(&*self.device, start, &run)?;
        }
        self.health.flush(&*self.device)?;
        if !copies.is_empty() {
            // The copies for `$MFTMirr` after the originals, so that one of both is whole at any time.
            for (at, bytes) in copies {
                write_any(&*self.device, at, &bytes)?;
            }
            self.health.flush(&*self.device)?;
        }
        match &mut turn.log {
            Some(log) if turn.is_begun => log.checkpoint(&*self.device),
            _ => Ok(()),
        }
    }
}

/// Turns an image into the bytes on disk: sets its log sequence number and applies the fixups. Values have neither.
fn seal(key: Key, lsn: u64, bytes: &mut [u8]) {
    if !matches!(key, Key::Value(..)) {
        put(bytes, 8, lsn);
        fixup::apply(bytes);
    }
}
