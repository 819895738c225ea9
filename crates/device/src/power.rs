//! Simulated power cuts: what a device may hold when the power fails at any moment of a run.
//!
//! [`Faults::recording`](crate::Faults::recording) records every write, discard and flush of a run. From that [`Log`],
//! [`Log::cut`] makes the device as it may be found after the power failed at any given write, any number of times and
//! in any order: the image shares everything with the log and needs memory only for the writes in doubt.
//!
//! # What a power cut may do
//! * Lose or keep any write that was not followed by a flush, in any combination: a later write may survive while an
//!   earlier one is lost.
//! * Tear a write: some of its sectors survive and others do not, in any combination.
//! * Lose for good every write that a failed flush should have made durable: a later flush does not bring it back.
//! * Do all this also to a durable write (force unit access) that had not completed, and to the write in progress.
//! * Leave discarded sectors with their old content or with rubbish.
//!
//! # What it may not do
//! * Lose a write that had completed before the start of a flush that returned, or a completed durable write. A durable
//!   write makes only itself durable, not the volatile writes before it.
//! * Bring back a sector's older content once newer content of it is durable.
//! * Tear a unit ([`Grain`]), or damage sectors that were not being written. For media that do, use
//!   [`Faults::flip`](crate::Faults::flip).

use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::{Device, Error, Immediate, Operation, OverlayDevice, Queue, Result, Sectors, check_transfer};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// The unit that a power cut leaves whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// [`Sectors::logical`]: the worst case, which covers disks whose physical sector is smaller than they report.
    Logical,
    /// [`Sectors::physical`], counted from the start of the device.
    Physical,
}

impl Grain {
    pub(crate) fn bytes(self, sectors: Sectors) -> u64 {
        u64::from(match self {
            Grain::Logical => sectors.logical,
            Grain::Physical => sectors.physical,
        })
    }
}

/// Which of the writes in doubt survive a power cut. In doubt are the writes since the last flush, without the
/// completed durable ones, and the write in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivors {
    /// None: like a drive that had all of them in its volatile cache.
    None,
    /// All, including the one in progress.
    All,
    /// The first ones, as many as given, whole: like a drive that keeps the order of writes.
    First(usize),
    /// As decided by this seed: about a third of the writes are lost, a third survive, and the others survive in part.
    Random(u64),
}

/// The log of a run. It shows the run up to the moment when it was made, even if more is written later.
#[derive(Clone)]
pub struct Log {
    journal: Arc<Journal>,
    writes: usize,
    flushes: usize,
}

impl Log {
    /// The number of writes and discards, each piece of a transfer counted as it reached the device.
    pub fn writes(&self) -> usize {
        self.writes
    }

    /// The number of flushes.
    pub fn flushes(&self) -> usize {
        self.flushes
    }

    /// The number of writes in doubt if the power fails during write `k`: larger values of [`Survivors::First`] make no
    /// difference.
    pub fn in_doubt(&self, k: usize) -> usize {
        let state = self.journal.read_lock();
        let doubtful = self.durable_until(&state, k)..self.writes.min(k + 1);
        doubtful.filter(|&number| number == k || !state.writes[number].durable).count()
    }

    /// Returns the device as it may be found after the power failed during write `k`, counted from 0, or after the last
    /// write if `k` equals [`Log::writes`]. All writes before `k` have happened, and those covered by a flush that
    /// returned before write `k` began are kept. The image can be written to without any effect on the log or on other
    /// images.
    ///
    /// # Panics
    /// If `k` is greater than [`Log::writes`].
    pub fn cut(&self, k: usize, survivors: Survivors) -> OverlayDevice {
        assert!(k <= self.writes, "there are {} writes, and none with number {k}", self.writes);
        let Journal { grain, sector, .. } = *self.journal;
        let state = self.journal.read_lock();
        let until = self.durable_until(&state, k);
        let mut kept = BTreeMap::new();
        let mut doubtful = 0;
        for number in until..self.writes.min(k + 1) {
            let write = &state.writes[number];
            let certain = write.durable && number < k;
            for (at, length) in pieces(write.offset, write.content.len(), grain) {
                let survives = certain
                    || !write.lost
                        && match survivors {
                            Survivors::None => false,
                            Survivors::All => true,
                            Survivors::First(count) => doubtful < count,
                            Survivors::Random(seed) => match mix(seed, number as u64) % 3 {
                                0 => false,
                                1 => true,
                                _ => mix(mix(seed, number as u64), at).is_multiple_of(2),
                            },
                        };
                if survives {
                    for position in (at..at + length).step_by(sector as usize) {
                        let mut data = vec![0; sector as usize].into_boxed_slice();
                        write.content.copy_to(position, &mut data);
                        kept.insert((write.offset + position) / sector, data);
                    }
                }
            }
            doubtful += usize::from(!certain);
        }
        drop(state);
        let before = Before { journal: self.journal.clone(), until };
        OverlayDevice::with_written(Arc::new(before), kept)
    }

    /// The journal of a device that goes on after write `k - 1` with the power on: what was in doubt then still is, and is
    /// the beginning of the journal.
    pub(crate) fn go_on(&self, k: usize) -> Journal {
        let Journal { grain, sector, .. } = *self.journal;
        let base = Arc::new(self.cut(k, Survivors::None));
        let next = Journal { base, grain, sector, state: RwLock::default() };
        let state = self.journal.read_lock();
        let writes = &state.writes[self.durable_until(&state, k)..k];
        for write in writes.iter().filter(|write| !write.durable && !write.lost) {
            next.add(Write { content: write.content.clone(), ..*write });
        }
        drop(state);
        next
    }

    /// The number of writes that were covered by a flush when write `k` began.
    fn durable_until(&self, state: &PowerState, k: usize) -> usize {
        let flushed = &state.flushed[..self.flushes];
        flushed.partition_point(|&until| until <= k).checked_sub(1).map_or(0, |last| flushed[last])
    }
}

/// The writes, discards and flushes of a run, over a base device that is never written.
pub(crate) struct Journal {
    base: Arc<dyn Device>,
    grain: u64,
    sector: u64,
    state: RwLock<PowerState>,
}

#[derive(Default)]
struct PowerState {
    writes: Vec<Write>,
    /// For each logical sector that was written, the numbers of those writes, oldest first.
    versions: HashMap<u64, Vec<usize>>,
    /// For each flush, the number of writes before it.
    flushed: Vec<usize>,
}

struct Write {
    offset: u64,
    content: WrittenContent,
    durable: bool,
    /// Whether a flush that should have made it durable failed.
    lost: bool,
}

#[derive(Clone)]
enum WrittenContent {
    Data(Box<[u8]>),
    /// Discarded sectors of this many bytes, which read as [`RUBBISH`].
    Discarded(u64),
}

/// The value of `until` for reads of the present content, with the power on: greater than the number of any write.
const NOW: usize = usize::MAX;

/// The byte that discarded sectors read as: not zero, so that no code comes to rely on zeroes.
const RUBBISH: u8 = 0xDD;

impl WrittenContent {
    fn len(&self) -> u64 {
        match self {
            WrittenContent::Data(data) => data.len() as u64,
            WrittenContent::Discarded(length) => *length,
        }
    }

    fn copy_to(&self, position: u64, target: &mut [u8]) {
        match self {
            WrittenContent::Data(data) => target.copy_from_slice(&data[position as usize..][..target.len()]),
            WrittenContent::Discarded(_) => target.fill(RUBBISH),
        }
    }
}

impl Journal {
    pub(crate) fn new(base: Arc<dyn Device>, grain: Grain) -> Journal {
        let sectors = base.sectors();
        let sector = u64::from(sectors.logical);
        Journal { base, grain: grain.bytes(sectors), sector, state: RwLock::default() }
    }

    pub(crate) fn log(self: &Arc<Journal>) -> Log {
        let state = self.read_lock();
        Log { journal: self.clone(), writes: state.writes.len(), flushes: state.flushed.len() }
    }

    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_before(NOW, None, offset, buffer)
    }

    pub(crate) fn read_copy(&self, copy: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_before(NOW, Some(copy), offset, buffer)
    }

    /// The device with the initial content, and the unit in bytes that a torn write leaves whole.
    pub(crate) fn base(&self) -> (Arc<dyn Device>, u64) {
        (self.base.clone(), self.grain)
    }

    /// The number of copies of the base device. They differ only where nothing was written.
    pub(crate) fn copies(&self) -> usize {
        self.base.copies()
    }

    /// Whether a copy of the base device is read, see [`Device::is_read`].
    pub(crate) fn is_read(&self, copy: usize) -> bool {
        self.base.is_read(copy)
    }

    pub(crate) fn write(&self, offset: u64, data: &[u8], durable: bool) {
        self.add(Write { offset, content: WrittenContent::Data(data.into()), durable, lost: false });
    }

    pub(crate) fn discard(&self, offset: u64, length: u64) {
        self.add(Write { offset, content: WrittenContent::Discarded(length), durable: false, lost: false });
    }

    pub(crate) fn flush(&self) {
        let mut state = self.write_lock();
        let writes = state.writes.len();
        state.flushed.push(writes);
    }

    /// Records a failed flush: the writes that it should have made durable are lost at a power cut, even after a later
    /// flush.
    pub(crate) fn lose(&self) {
        let mut state = self.write_lock();
        let from = state.flushed.last().copied().unwrap_or(0);
        for write in state.writes[from..].iter_mut().filter(|write| !write.durable) {
            write.lost = true;
        }
    }

    fn add(&self, write: Write) {
        let mut state = self.write_lock();
        let number = state.writes.len();
        for sector in write.offset / self.sector..(write.offset + write.content.len()) / self.sector {
            state.versions.entry(sector).or_default().push(number);
        }
        state.writes.push(write);
    }

    /// Reads the content after the first `until` writes, where `copy` selects a copy of the base device. With [`NOW`],
    /// writes lost by a failed flush are still visible, because the power is on.
    fn read_before(&self, until: usize, copy: Option<usize>, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match copy {
            Some(copy) => self.base.read_copy(copy, offset, buffer)?,
            None => self.base.read_at(offset, buffer)?,
        }
        let state = self.read_lock();
        for (at, target) in
            (offset..).step_by(self.sector as usize).zip(buffer.chunks_exact_mut(self.sector as usize))
        {
            let Some(versions) = state.versions.get(&(at / self.sector)) else { continue };
            let made = versions[..versions.partition_point(|&number| number < until)].iter();
            let stands = |write: &&Write| until == NOW || !write.lost;
            let Some(write) = made.rev().map(|&number| &state.writes[number]).find(stands) else { continue };
            write.content.copy_to(at - write.offset, target);
        }
        Ok(())
    }

    fn read_lock(&self) -> RwLockReadGuard<'_, PowerState> {
        self.state.read()
    }

    fn write_lock(&self) -> RwLockWriteGuard<'_, PowerState> {
        self.state.write()
    }
}

/// The device as it was after the first `until` writes. Read-only.
struct Before {
    journal: Arc<Journal>,
    until: usize,
}

impl Device for Before {
    fn name(&self) -> &str {
        self.journal.base.name()
    }

    fn len(&self) -> u64 {
        self.journal.base.len()
    }

    fn sectors(&self) -> Sectors {
        self.journal.base.sectors()
    }

    fn read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_transfer(self, Operation::Read, offset, buffer.len() as u64)?;
        self.journal.read_before(self.until, None, offset, buffer)
    }

    fn copies(&self) -> usize {
        self.journal.copies()
    }

    fn is_read(&self, copy: usize) -> bool {
        self.journal.is_read(copy)
    }

    fn read_copy(&self, copy: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        check_transfer(self, Operation::Read, offset, buffer.len() as u64)?;
        self.journal.read_before(self.until, Some(copy), offset, buffer)
    }

    fn write_at(&self, _offset: u64, _data: &[u8]) -> Result<()> {
        Err(Error::ReadOnly { device: self.name().into() })
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, _offset: u64, _length: u64) -> Result<()> {
        Err(Error::ReadOnly { device: self.name().into() })
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }

    fn now(&self) -> Duration {
        self.journal.base.now()
    }
}

/// Splits a transfer at multiples of `grain` bytes of the device: (position in the transfer, length) of each piece.
pub(crate) fn pieces(offset: u64, length: u64, grain: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == length {
            return None;
        }
        let piece = (grain - (offset + at) % grain).min(length - at);
        at += piece;
        Some((at - piece, piece))
    })
}

/// A pseudo-random number that depends only on these two (the finaliser of SplitMix64).
pub(crate) fn mix(seed: u64, number: u64) -> u64 {
    let mut value = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Fault, Faults, Kind, MemoryDevice, Request, Segment, When};
    use smallvec::smallvec;
    use std::collections::HashSet;

    const SECTOR: usize = 512;

    fn recording(sectors: Sectors, grain: Grain) -> Faults {
        let base = MemoryDevice::new(64 << 10, sectors);
        base.write_at(0, &vec![0xB0; 64 << 10]).unwrap();
        Faults::recording(Arc::new(base), 1, grain)
    }

    fn small() -> Faults {
        recording(Sectors::SMALL, Grain::Logical)
    }

    /// The first byte of each of the first `count` logical sectors.
    fn firsts(device: &OverlayDevice, count: usize) -> Vec<u8> {
        device.to_image().unwrap().iter().step_by(SECTOR).take(count).copied().collect()
    }

    fn write(faults: &Faults, sector: u64, count: usize, value: u8) {
        faults.write_at(sector * SECTOR as u64, &vec![value; count * SECTOR]).unwrap();
    }

    fn durable(faults: &Faults, sector: u64, value: u8) {
        let mut buffer = Buffer::new(SECTOR);
        buffer.fill(value);
        let segments = smallvec![Segment { offset: sector * SECTOR as u64, at: 0, length: SECTOR as u32 }];
        let mut queue = faults.queue(1).unwrap();
        queue.submit(Request { tag: 0, kind: Kind::Write, durable: true, segments, buffer });
        let mut done = Vec::new();
        queue.wait(1, &mut done).unwrap();
        done.remove(0).result.unwrap();
    }

    #[test]
    fn what_was_flushed_survives_and_the_rest_is_in_doubt() {
        let faults = small();
        write(&faults, 0, 1, 1);
        write(&faults, 1, 1, 2);
        faults.flush().unwrap();
        write(&faults, 0, 1, 3);
        write(&faults, 2, 1, 4);
        let log = faults.log();
        assert_eq!((log.writes(), log.flushes()), (4, 1));
        let seen = |k, survivors| firsts(&log.cut(k, survivors), 3);
        assert_eq!(seen(0, Survivors::None), [0xB0, 0xB0, 0xB0]);
        assert_eq!(seen(0, Survivors::All), [1, 0xB0, 0xB0]);
        assert_eq!(seen(1, Survivors::None), [0xB0, 0xB0, 0xB0]);
        assert_eq!(seen(1, Survivors::First(1)), [1, 0xB0, 0xB0]);
        assert_eq!(seen(1, Survivors::All), [1, 2, 0xB0]);
        assert_eq!(seen(2, Survivors::None), [1, 2, 0xB0], "the flush came before write 2");
        assert_eq!(seen(2, Survivors::All), [3, 2, 0xB0]);
        assert_eq!(seen(4, Survivors::None), [1, 2, 0xB0]);
        assert_eq!(seen(4, Survivors::First(1)), [3, 2, 0xB0]);
        assert_eq!(seen(4, Survivors::All), [3, 2, 4]);
        assert_eq!([0, 1, 2, 3, 4].map(|k| log.in_doubt(k)), [1, 2, 1, 2, 2]);
    }

    #[test]
    fn what_is_in_doubt_stays_so_when_another_program_goes_on() {
        let faults = small();
        write(&faults, 0, 1, 1);
        faults.flush().unwrap();
        write(&faults, 0, 1, 2);
        write(&faults, 1, 1, 3);
        write(&faults, 2, 1, 4);
        let next = Faults::going_on(&faults.log(), 3);
        let seen = |next: &Faults, k, survivors| firsts(&next.log().cut(k, survivors), 3);
        assert_eq!(seen(&next, 2, Survivors::All), [2, 3, 0xB0]);
        write(&next, 2, 1, 5);
        assert_eq!(seen(&next, 3, Survivors::None), [1, 0xB0, 0xB0]);
        assert_eq!(seen(&next, 3, Survivors::First(1)), [2, 0xB0, 0xB0]);
        assert_eq!(seen(&next, 3, Survivors::All), [2, 3, 5]);
        next.flush().unwrap();
        assert_eq!(seen(&next, 3, Survivors::None), [2, 3, 5]);
        assert_eq!(firsts(&faults.log().cut(4, Survivors::All), 3), [2, 3, 4], "the first log is as it was");
    }

    #[test]
    fn what_a_failed_flush_was_to_make_durable_is_lost_for_good() {
        let faults = small();
        write(&faults, 0, 1, 1);
        faults.flush().unwrap();
        write(&faults, 0, 1, 2);
        write(&faults, 1, 1, 3);
        durable(&faults, 2, 4);
        faults.inject(When::nth(Operation::Flush, 1), Fault::Fail);
        faults.flush().unwrap_err();
        write(&faults, 3, 1, 5);
        faults.flush().unwrap();
        let mut now = [0; 4 * SECTOR];
        faults.read_at(0, &mut now).unwrap();
        assert_eq!([now[0], now[SECTOR], now[2 * SECTOR], now[3 * SECTOR]], [2, 3, 4, 5]);
        for survivors in [Survivors::None, Survivors::All, Survivors::Random(7)] {
            assert_eq!(firsts(&faults.log().cut(5, survivors), 4), [1, 0xB0, 4, 5]);
        }
        write(&faults, 1, 1, 6);
        faults.flush().unwrap();
        assert_eq!(firsts(&faults.log().cut(6, Survivors::None), 2), [1, 6], "written again");
    }

    #[test]
    fn a_log_does_not_see_what_happens_later() {
        let faults = small();
        write(&faults, 0, 1, 1);
        let log = faults.log();
        let cut = log.cut(1, Survivors::None);
        faults.flush().unwrap();
        write(&faults, 0, 1, 2);
        assert_eq!(firsts(&cut, 1), [0xB0]);
        assert_eq!(firsts(&log.cut(1, Survivors::None), 1), [0xB0]);
        assert_eq!(firsts(&log.cut(1, Survivors::All), 1), [1]);
        assert_eq!(firsts(&faults.log().cut(1, Survivors::None), 1), [1]);
    }

    #[test]
    fn a_durable_write_is_safe_once_it_completed_and_protects_itself_alone() {
        let faults = small();
        write(&faults, 0, 1, 1);
        durable(&faults, 1, 2);
        write(&faults, 1, 1, 3);
        let log = faults.log();
        assert_eq!(log.flushes(), 0);
        assert_eq!(firsts(&log.cut(1, Survivors::None), 2), [0xB0, 0xB0], "still under way");
        assert_eq!(firsts(&log.cut(2, Survivors::None), 2), [0xB0, 2]);
        assert_eq!(firsts(&log.cut(3, Survivors::All), 2), [1, 3]);
        assert_eq!([0, 1, 2, 3].map(|k| log.in_doubt(k)), [1, 2, 2, 2]);
        // Nothing older replaces a durable write.
        let faults = small();
        write(&faults, 0, 1, 1);
        durable(&faults, 0, 2);
        for seed in 0..64 {
            assert_eq!(firsts(&faults.log().cut(2, Survivors::Random(seed)), 1), [2], "seed {seed}");
        }
    }

    #[test]
    fn random_survivors_reach_every_combination_and_only_those() {
        let faults = small();
        write(&faults, 0, 1, 9);
        faults.flush().unwrap();
        write(&faults, 0, 2, 1);
        write(&faults, 2, 1, 2);
        write(&faults, 0, 1, 3);
        let log = faults.log();
        let mut seen = HashSet::new();
        for seed in 0..2000 {
            seen.insert(firsts(&log.cut(4, Survivors::Random(seed)), 4));
        }
        // Sector 0: as flushed, or either later write; sectors 1 and 2: old or new; sector 3: never written.
        let mut possible = HashSet::new();
        for zero in [9, 1, 3] {
            for one in [0xB0, 1] {
                for two in [0xB0, 2] {
                    possible.insert(vec![zero, one, two, 0xB0]);
                }
            }
        }
        assert_eq!(seen, possible);
        let image = |seed| log.cut(4, Survivors::Random(seed)).to_image().unwrap();
        assert!(image(7) == image(7), "a seed says everything");
    }

    #[test]
    fn a_grain_is_never_torn() {
        let advanced = Sectors { logical: 512, physical: 4096 };
        for (grain, whole) in [(Grain::Physical, true), (Grain::Logical, false)] {
            let faults = recording(advanced, grain);
            // From the middle of one physical sector over a whole one into a third.
            write(&faults, 4, 16, 1);
            let log = faults.log();
            let mut torn_inside = false;
            for seed in 0..200 {
                let seen = firsts(&log.cut(0, Survivors::Random(seed)), 24);
                assert!(seen[..4].iter().chain(&seen[20..]).all(|&byte| byte == 0xB0));
                for part in [&seen[4..8], &seen[8..16], &seen[16..20]] {
                    torn_inside |= part.iter().any(|&byte| byte != part[0]);
                }
            }
            assert_eq!(torn_inside, !whole, "{grain:?}");
        }
    }

    #[test]
    fn a_discard_leaves_the_old_content_or_rubbish() {
        let faults = small();
        faults.discard(0, 1024).unwrap();
        let log = faults.log();
        assert_eq!(firsts(&log.cut(1, Survivors::None), 3), [0xB0, 0xB0, 0xB0]);
        assert_eq!(firsts(&log.cut(1, Survivors::All), 3), [RUBBISH, RUBBISH, 0xB0]);
        let mut live = [0; 512];
        faults.read_at(512, &mut live).unwrap();
        assert_eq!(live[0], RUBBISH);
    }

    #[test]
    fn images_are_independent_and_cheap() {
        let faults = small();
        for round in 0..1000_u64 {
            write(&faults, round % 100, 1, round as u8);
            if round % 10 == 9 {
                faults.flush().unwrap();
            }
        }
        let log = faults.log();
        for k in 0..=log.writes() {
            let image = log.cut(k, Survivors::All);
            assert!(image.kept() <= 11 * SECTOR as u64, "keeps more than what is in doubt at {k}");
            let last = k.min(999);
            let mut sector = [0; SECTOR];
            image.read_at(last as u64 % 100 * SECTOR as u64, &mut sector).unwrap();
            assert_eq!(sector[0], last as u8);
            image.write_at(0, &[0xEE; SECTOR]).unwrap();
        }
        assert_ne!(firsts(&log.cut(500, Survivors::All), 1), [0xEE]);
    }

    #[test]
    #[should_panic(expected = "none with number 2")]
    fn a_cut_after_the_end_is_a_mistake() {
        let faults = small();
        write(&faults, 0, 1, 1);
        faults.log().cut(2, Survivors::None);
    }
}
