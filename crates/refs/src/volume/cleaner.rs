//! Puts files together again that overwriting has scattered.
//!
//! Data that is never overwritten in place lies in the order in which it was written, so a file that was written at
//! random is slow to read in order. While nobody uses the volume, pieces of such files are copied to runs of free
//! clusters, and each cluster is verified on the way. Where no container has a run that is long enough, a part of one
//! is emptied first: its data goes to free clusters elsewhere.
//!
//! Once a piece is copied, its rows are compared with those that it was copied by. If the file was changed meanwhile,
//! the copy is given up. So other callers wait for the cleaner only where they need a lock that it holds for a moment.

use super::Volume;
use crate::extents::{Extent, Extents};
use crate::layout::crc32c;
use crate::space::ContainerRun;
use crate::stream::{Stream, StreamContent, StreamState};
use platter_device::Buffer;
use platter_vfs::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A file is put together in pieces of this size, in bytes.
const PIECE: u32 = 1 << 20;
/// A piece in no more parts than this is left as it is: a device reads parts of 64 KiB nearly as fast as one.
const PARTS: usize = 16;

impl Volume {
    /// The streams that were scattered since they were last put together.
    pub(super) fn scattered(&self) -> Vec<Arc<Stream>> {
        let streams = self.streams.read();
        streams.values().filter(|stream| stream.is_scattered.load(Ordering::Relaxed)).cloned().collect()
    }

    /// Whether nothing is being read or written.
    pub(super) fn is_quiet(&self) -> bool {
        let streams = self.streams.read();
        streams.values().all(|stream| stream.is_quiet())
    }

    /// Puts scattered streams together until `is_enough` returns true; returns how many clusters were moved.
    ///
    /// # Errors
    /// Those of a commit. Pieces that cannot be read, or that are changed meanwhile, are left as they are.
    pub(super) fn clean(&self, is_enough: &dyn Fn() -> bool) -> Result<u64> {
        let mut moved = 0;
        let mut hopeless = Vec::new();
        let each = PIECE / self.geometry.cluster;
        for stream in self.scattered() {
            stream.is_scattered.store(false, Ordering::Relaxed);
            let end = match &stream.read().content {
                StreamContent::Extents(extents) => extents.end() as u32,
                StreamContent::Inline(_) => 0,
            };
            let mut from = 0;
            while from < end {
                if is_enough() || self.health.writable().is_err() {
                    stream.is_scattered.store(true, Ordering::Relaxed);
                    return Ok(moved);
                }
                let to = from.saturating_add(each).min(end);
                if let Some(rows) = self.parts(&stream, from, to)? {
                    let count = rows.len() as u32;
                    let taken = self.core().pages.space.take_run(count);
                    let place = match taken {
                        None if self.make_room(is_enough, &mut hopeless, &mut moved)? => continue,
                        None => return Ok(moved),
                        Some(place) => place,
                    };
                    if self.shift(&stream, &rows, &[place])? {
                        moved += u64::from(count);
                    }
                    self.commit_if_much_waits()?;
                }
                from = to;
            }
        }
        Ok(moved)
    }

    /// Returns the rows of a piece of a stream, from cluster `from` to `to`, if it is worth putting together: without
    /// holes, with a checksum for each cluster, and in many parts on the device.
    fn parts(&self, stream: &Stream, from: u32, to: u32) -> Result<Option<Vec<Extent>>> {
        match self.load(stream, from, to) {
            Ok(()) => {}
            Err(Error::Damaged(_) | Error::Device(_)) => return Ok(None),
            Err(error) => return Err(error),
        }
        let state = stream.read();
        let (StreamContent::Extents(extents), true) = (&state.content, may_move(&state)) else {
            return Ok(None);
        };
        if !extents.is_loaded(from, to) {
            return Ok(None);
        }
        let rows = extents.within(from, to)?;
        let is_whole = rows.len() == (to - from) as usize && rows.iter().all(|row| row.checksum().is_some());
        let parts = 1 + rows.windows(2).filter(|pair| pair[0].cluster + 1 != pair[1].cluster).count();
        Ok((is_whole && parts > PARTS.min(rows.len() / 4)).then_some(rows))
    }

    /// Empties the part of a container that has the most free clusters. Returns `false` if no part is worth it, or
    /// `is_enough` returned true. A part with clusters that cannot be moved goes into `hopeless` and is not tried
    /// again.
    fn make_room(
        &self,
        is_enough: &dyn Fn() -> bool,
        hopeless: &mut Vec<ContainerRun>,
        moved: &mut u64,
    ) -> Result<bool> {
        loop {
            self.commit()?;
            let found = self.core().pages.space.best_emptied(hopeless);
            let Some(part) = found else { return Ok(false) };
            if !self.empty(part, is_enough, moved)? {
                return Ok(false);
            }
            self.commit()?;
            if self.core().pages.space.is_free(part) {
                return Ok(true);
            }
            hopeless.push(part);
        }
    }

    /// Moves all clusters that can be moved out of a part of a container. Returns `false` if there is no free space
    /// elsewhere, or `is_enough` returned true.
    fn empty(&self, part: ContainerRun, is_enough: &dyn Fn() -> bool, moved: &mut u64) -> Result<bool> {
        let first = self.geometry.number(part.container, part.start);
        let clusters = first..first + u64::from(part.count);
        let streams: Vec<Arc<Stream>> = {
            let streams = self.streams.read();
            streams.values().cloned().collect()
        };
        let each = (PIECE / self.geometry.cluster) as usize;
        for stream in streams {
            let inside: Vec<Extent> = {
                let state = stream.read();
                let (StreamContent::Extents(extents), true) = (&state.content, may_move(&state)) else {
                    continue;
                };
                let is_inside = |row: &Extent| row.checksum().is_some() && clusters.contains(&row.cluster);
                extents.in_memory().filter(is_inside).collect()
            };
            for rows in inside.chunks(each) {
                if is_enough() || self.health.writable().is_err() {
                    return Ok(false);
                }
                let Some(places) = self.take_elsewhere(rows.len() as u32, part.container as usize) else {
                    return Ok(false);
                };
                if self.shift(&stream, rows, &places)? {
                    *moved += rows.len() as u64;
                }
                self.commit_if_much_waits()?;
            }
        }
        Ok(true)
    }

    fn take_elsewhere(&self, count: u32, index: usize) -> Option<Vec<ContainerRun>> {
        let mut core = self.core();
        let mut places: Vec<ContainerRun> = Vec::new();
        let mut left = count;
        while left > 0 {
            let Some(place) = core.pages.space.take_outside(left, index) else {
                places.into_iter().for_each(|place| core.pages.space.give_back(place));
                return None;
            };
            left -= place.count;
            places.push(place);
        }
        Some(places)
    }

    /// Copies clusters of a stream to other places, and then changes the stream's rows unless one of them changed
    /// meanwhile. Returns whether the clusters were moved.
    fn shift(&self, stream: &Stream, rows: &[Extent], places: &[ContainerRun]) -> Result<bool> {
        let shifted = self.copy(rows, places).and_then(|()| self.record_shift(stream, rows, places));
        if !matches!(shifted, Ok(true)) {
            let mut core = self.core();
            places.iter().for_each(|&place| core.pages.space.give_back(place));
        }
        match shifted {
            // Damaged clusters stay where they are, and a read of the file reports them. Clusters that were freed and
            // used again meanwhile look damaged too.
            Err(Error::Damaged(_) | Error::Device(_)) => Ok(false),
            shifted => shifted,
        }
    }

    /// Reads the clusters of rows, verifies their checksums, and writes them to other places.
    fn copy(&self, rows: &[Extent], places: &[ContainerRun]) -> Result<()> {
        let cluster = self.geometry.cluster as usize;
        let mut buffer = Buffer::new(rows.len() * cluster);
        {
            let mut reads: Vec<(u64, &mut [u8])> = Vec::with_capacity(rows.len());
            for (row, content) in rows.iter().zip(buffer.chunks_mut(cluster)) {
                reads.push((self.device_offset(row.cluster)?, content));
            }
            self.device.read_batch(&mut reads)?;
        }
        for (row, content) in rows.iter().zip(buffer.chunks(cluster)) {
            // Other copies of a mirrored device are not tried: clusters that look damaged may have been freed and used
            // again.
            let found = crc32c(content);
            if row.checksum() != Some(found) {
                let (offset, expected) =
                    (self.device_offset(row.cluster)?, format!("{:08x?}", row.checksum()));
                return Err(Error::damaged(
                    "checksum of a file's data",
                    offset,
                    expected,
                    format!("{found:08x}"),
                ));
            }
        }
        let mut writes: Vec<(u64, &[u8])> = Vec::with_capacity(places.len());
        let mut at = 0;
        for place in places {
            let bytes = place.count as usize * cluster;
            writes.push((
                self.device_offset(self.geometry.number(place.container, place.start))?,
                &buffer[at..at + bytes],
            ));
            at += bytes;
        }
        Ok(self.device.write_batch(&writes)?)
    }

    fn record_shift(&self, stream: &Stream, rows: &[Extent], places: &[ContainerRun]) -> Result<bool> {
        let mut core = self.change()?;
        // If the file was forgotten, the new places are never stored: its record would go on leading to the old ones. The
        // node may be in use again, with another stream.
        let own = core.entity(stream.node).ok().and_then(|entity| entity.stream.as_ref());
        if !own.is_some_and(|own| std::ptr::eq(&**own, stream)) {
            return Ok(false);
        }
        let mut state = stream.write();
        let state = &mut *state;
        let may_move = may_move(state);
        let (StreamContent::Extents(extents), true) = (&mut state.content, may_move) else {
            return Ok(false);
        };
        let is_same = |extents: &Extents, row: &Extent| matches!(extents.find(row.at), crate::extents::Mapping::Extent(now) if now == *row);
        if !rows.iter().all(|row| is_same(extents, row)) {
            return Ok(false);
        }
        let clusters = places.iter().flat_map(|place| {
            let first = self.geometry.number(place.container, place.start);
            first..first + u64::from(place.count)
        });
        let mut gone = Vec::new();
        for (row, cluster) in rows.iter().zip(clusters) {
            extents.replace(row.at, row.end(), &[Extent { cluster, ..*row }], &mut gone);
        }
        state.generation.advance();
        places.iter().for_each(|&place| core.pages.space.keep(place));
        self.mark_moved(&mut core, stream);
        core.park(&gone, false)?;
        Ok(true)
    }

    /// Commits if so much waits that the thread in the background should.
    pub(super) fn commit_if_much_waits(&self) -> Result<()> {
        let is_much = self.keeper.is_much(&self.core().pages);
        if is_much { self.commit() } else { Ok(()) }
    }
}

/// Whether a stream's clusters may be moved: they have checksums to verify the copy by, no other stream has them, and
/// the file still has a name.
fn may_move(state: &StreamState) -> bool {
    state.integrity && !state.shared && !state.orphan
}
