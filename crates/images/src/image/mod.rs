//! A virtual disk in blocks, as a device.
//!
//! # Order of writes
//! A new block goes behind everything that the file has, so it reads as zeroes until data is written to it. The table
//! that leads to it changes in memory. A flush makes the data durable first, and then the table, in the format's own
//! way: so after a power cut a table never leads to a block whose content is not there. A block that is in the file in
//! part, or that is the parent's, is filled up from below before the first write to it, and from then on is whole: the
//! marks of single sectors are read, and are never changed but to "all of them".

mod queue;

use crate::bytes::unusable;
use crate::cache::Unpacked;
use crate::form::{Form, Kept, Packed, Shape};
use crate::table::Table;
use platter_device::sync::{Mutex, RwLock};
use platter_device::{Device, Error, Growing, Operation, Queue, Result, Sectors, check_transfer};
use queue::ImageQueue;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// A container with a table of blocks, and the device of its virtual disk.
pub(crate) struct BlockImage {
    pub file: Arc<dyn Growing>,
    pub form: Box<dyn Form>,
    pub shape: Shape,
    /// The disk from which the blocks come that the file does not have.
    pub parent: Option<Arc<dyn Device>>,
    /// Why the image is only read, as the end of a sentence; `None` if it is written to.
    pub why_read_only: Option<String>,
    unpacked: Unpacked,
    table: RwLock<Table>,
    /// The pages of the table that are not durable: none, unless blocks became new since the last flush.
    unsettled: AtomicUsize,
    /// Whether the container was told of the first change.
    is_begun: AtomicBool,
    /// Held while a flush makes the table durable, and for the first change. Taken before `table`.
    commit: Mutex<ImageHealth>,
}

/// Whether the container may still be changed: after a failure it is unknown what its structures are.
#[derive(Default)]
struct ImageHealth {
    failed: Option<String>,
}

/// Where a part of a transfer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lies {
    /// At this offset of the file.
    Here(u64),
    /// Nowhere: it is zeroes.
    Nowhere,
    /// In the parent, at the same offset of the disk.
    Above,
    /// In the file, compressed.
    Packed(Packed),
}

/// A part of a transfer: its offset on the disk and its length in bytes, and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub offset: u64,
    pub length: u64,
    pub lies: Lies,
}

pub(crate) type Pieces = SmallVec<[Piece; 2]>;

/// So many pages of the table are changed at most before they are made durable without being asked to: 4 MiB.
const MOST_UNSETTLED: usize = 1024;

/// What a device that was opened for reading only gives as the reason.
pub(crate) fn why_read_only(read_only: bool) -> Option<String> {
    read_only.then(|| "the device is".into())
}

impl BlockImage {
    pub(crate) fn new(
        file: Arc<dyn Growing>,
        form: Box<dyn Form>,
        shape: Shape,
        parent: Option<Arc<dyn Device>>,
        why_read_only: Option<String>,
    ) -> BlockImage {
        let (table, unpacked) = (RwLock::default(), Unpacked::default());
        let (unsettled, is_begun, commit) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::default());
        BlockImage { file, form, shape, parent, why_read_only, unpacked, table, unsettled, is_begun, commit }
    }

    /// Whether a flush has more to do than to flush the file.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.unsettled.load(Ordering::Acquire) > 0
    }

    /// The parts of a transfer that passed the checks, in order.
    pub(crate) fn pieces(&self, offset: u64, length: u64) -> Result<Pieces> {
        if let Some(pieces) = self.known_pieces(&self.table.read(), offset, length) {
            return pieces;
        }
        let mut table = self.table.write();
        self.load(&mut table, offset, length)?;
        self.known_pieces(&table, offset, length).expect("everything is loaded")
    }

    /// Reads the parts of the table that a transfer needs.
    fn load(&self, table: &mut Table, offset: u64, length: u64) -> Result<()> {
        table.trim();
        let blocks = offset / self.shape.block..(offset + length).div_ceil(self.shape.block);
        blocks.into_iter().try_for_each(|block| table.load(&*self.form, &*self.file, block))
    }

    /// The parts of a transfer, if all that leads to them is in memory.
    fn known_pieces(&self, table: &Table, offset: u64, length: u64) -> Option<Result<Pieces>> {
        let (size, sector) = (self.shape.block, u64::from(self.shape.sectors.logical));
        let end = self.file.len();
        let mut pieces = Pieces::new();
        let mut at = offset;
        while at < offset + length {
            let (block, inside) = (at / size, at % size);
            let rest = (size - inside).min(offset + length - at);
            let (kept, marks) = match table.lookup(&*self.form, block, end)? {
                Ok(known) => known,
                Err(error) => return Some(Err(error)),
            };
            let (lies, part) = match (kept, marks) {
                (Kept::Absent, _) => (self.below(), rest),
                (Kept::Zero | Kept::Reserved(_), _) => (Lies::Nowhere, rest),
                (Kept::Packed(packed), _) => (Lies::Packed(packed), rest),
                (Kept::Whole(start), _) | (Kept::Marked(start), None) => (Lies::Here(start + inside), rest),
                (Kept::Marked(start), Some(marks)) => {
                    let first = inside / sector;
                    let (has, count) = marks.run(first, first + rest / sector);
                    (if has { Lies::Here(start + inside) } else { self.below() }, count * sector)
                }
            };
            push(&mut pieces, Piece { offset: at, length: part, lies });
            at += part;
        }
        Some(Ok(pieces))
    }

    fn below(&self) -> Lies {
        if self.parent.is_some() { Lies::Above } else { Lies::Nowhere }
    }

    /// The parts of a write, all of which are in the file: blocks that are not are made.
    pub(crate) fn writable_pieces(&self, offset: u64, length: u64) -> Result<Pieces> {
        if self.why_read_only.is_some() {
            return Err(Error::ReadOnly { device: self.name().into() });
        }
        if !self.is_begun.load(Ordering::Acquire) {
            self.begin()?;
        }
        let is_here = |pieces: &Pieces| pieces.iter().all(|piece| matches!(piece.lies, Lies::Here(_)));
        let pieces = self.pieces(offset, length)?;
        if is_here(&pieces) {
            return Ok(pieces);
        }
        let mut table = self.table.write();
        self.load(&mut table, offset, length)?;
        for block in offset / self.shape.block..(offset + length).div_ceil(self.shape.block) {
            self.make_whole(&mut table, block)?;
        }
        let changed = table.changed();
        self.unsettled.store(changed, Ordering::Release);
        let pieces = self.known_pieces(&table, offset, length).expect("everything is loaded")?;
        drop(table);
        assert!(is_here(&pieces), "every block of a write is in the file");
        if changed > MOST_UNSETTLED {
            self.settle()?;
        }
        Ok(pieces)
    }

    /// Tells the container of the first change.
    fn begin(&self) -> Result<()> {
        let mut health = self.commit.lock();
        self.refuse_failed(&health)?;
        if !self.is_begun.load(Ordering::Acquire) {
            self.noting(&mut health, self.form.begin(&*self.file))?;
            self.is_begun.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Makes sure that a block is in the file, all of it.
    fn make_whole(&self, table: &mut Table, block: u64) -> Result<()> {
        let known = table.lookup(&*self.form, block, self.file.len()).expect("the block is loaded");
        match known? {
            (Kept::Whole(_), _) => Ok(()),
            (Kept::Marked(at), marks) => {
                let marks = marks.cloned().expect("a block with marks");
                let sector = u64::from(self.shape.sectors.logical);
                let (mut next, end) = (0, self.shape.used(block) / sector);
                let mut is_whole = true;
                while next < end {
                    let (has, count) = marks.run(next, end);
                    if !has {
                        self.fill(block, next * sector, count * sector, at, false)?;
                        is_whole = false;
                    }
                    next += count;
                }
                if !is_whole {
                    table.complete(&*self.form, block, at);
                }
                Ok(())
            }
            (Kept::Zero, _) => {
                let at = self.form.extend(&*self.file)?;
                table.put(&*self.form, block, at);
                Ok(())
            }
            (Kept::Reserved(at), _) => {
                self.clear(block, at)?;
                table.put(&*self.form, block, at);
                Ok(())
            }
            (Kept::Packed(packed), _) => {
                let reason = format!("has a compressed block at offset {}, which is only read", packed.at);
                Err(unusable(self.name(), reason))
            }
            (Kept::Absent, _) => {
                let at = self.form.extend(&*self.file)?;
                self.fill(block, 0, self.shape.used(block), at, true)?;
                table.put(&*self.form, block, at);
                Ok(())
            }
        }
    }

    /// Writes zeroes to the place of a block.
    fn clear(&self, block: u64, at: u64) -> Result<()> {
        const PART: u64 = 1 << 20;
        let length = self.shape.used(block);
        let zeroes = vec![0; PART.min(length) as usize];
        (0..length)
            .step_by(PART as usize)
            .try_for_each(|done| self.file.write_at(at + done, &zeroes[..PART.min(length - done) as usize]))
    }

    /// Copies a part of a block from the parent to the file, where the content of the block is at `at`. What `is_blank`
    /// says is zero there already.
    fn fill(&self, block: u64, from: u64, length: u64, at: u64, is_blank: bool) -> Result<()> {
        const PART: u64 = 1 << 20;
        if self.parent.is_none() && is_blank {
            return Ok(());
        }
        let start = block * self.shape.block;
        let mut buffer = vec![0; PART.min(length) as usize];
        let mut done = 0;
        while done < length {
            let offset = start + from + done;
            if is_blank && let Some(parent) = &self.parent {
                // A parent's holes need no copy: the block is zeroes.
                let sector = u64::from(self.shape.sectors.logical);
                let skipped = (parent.next_data(offset).max(offset) - offset) / sector * sector;
                if skipped > 0 {
                    done += skipped;
                    continue;
                }
            }
            let part = &mut buffer[..PART.min(length - done) as usize];
            self.read_parent(offset, part)?;
            self.file.write_at(at + from + done, part)?;
            done += part.len() as u64;
        }
        Ok(())
    }

    /// Reads a part of a block that is compressed.
    pub(crate) fn read_packed(&self, packed: Packed, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let content = self.unpacked.get(packed.block, || self.form.unpack(&*self.file, packed))?;
        let inside = (offset % self.shape.block) as usize;
        buffer.copy_from_slice(&content[inside..inside + buffer.len()]);
        Ok(())
    }

    /// Reads from the parent; a parent that is shorter has zeroes behind its end.
    pub(crate) fn read_parent(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let Some(parent) = &self.parent else {
            buffer.fill(0);
            return Ok(());
        };
        let there = parent.len().saturating_sub(offset).min(buffer.len() as u64) as usize;
        let (inside, behind) = buffer.split_at_mut(there);
        behind.fill(0);
        if inside.is_empty() { Ok(()) } else { parent.read_at(offset, inside) }
    }

    /// Makes everything durable that was written before the call.
    pub(crate) fn settle(&self) -> Result<()> {
        if self.why_read_only.is_some() {
            return self.file.flush();
        }
        let mut health = self.commit.lock();
        self.refuse_failed(&health)?;
        if !self.is_begun.load(Ordering::Acquire) {
            return self.file.flush();
        }
        let changes = self.table.write().take();
        let done = self.form.prepare(&*self.file).and_then(|()| self.file.flush());
        let done = done.and_then(|()| match changes.is_empty() {
            true => Ok(()),
            false => self.form.commit(&*self.file, &changes),
        });
        self.noting(&mut health, done)?;
        let mut table = self.table.write();
        table.settle(&changes);
        self.unsettled.store(table.changed(), Ordering::Release);
        Ok(())
    }

    fn refuse_failed(&self, health: &ImageHealth) -> Result<()> {
        match &health.failed {
            None => Ok(()),
            Some(why) => Err(Error::Unusable {
                device: self.name().into(),
                reason: format!("is not written to any more, since an earlier change failed: {why}"),
            }),
        }
    }

    fn noting<T>(&self, health: &mut ImageHealth, outcome: Result<T>) -> Result<T> {
        if let Err(error) = &outcome {
            health.failed.get_or_insert(error.to_string());
        }
        outcome
    }
}

/// Appends a piece, joined with the last one if it continues it.
fn push(pieces: &mut Pieces, piece: Piece) {
    if let Some(last) = pieces.last_mut() {
        let goes_on = match (last.lies, piece.lies) {
            (Lies::Here(one), Lies::Here(two)) => one + last.length == two,
            (one, two) => one == two,
        };
        if goes_on {
            last.length += piece.length;
            return;
        }
    }
    pieces.push(piece);
}

/// Makes durable what was written since the last flush: without the table, what the file has of it would be lost, which a
/// plain file keeps. What fails here is lost without a word.
impl Drop for BlockImage {
    fn drop(&mut self) {
        if self.is_unsettled() {
            let _ = self.settle();
        }
    }
}

impl Device for BlockImage {
    fn name(&self) -> &str {
        self.file.name()
    }

    fn len(&self) -> u64 {
        self.shape.size
    }

    fn sectors(&self) -> Sectors {
        self.shape.sectors
    }

    fn read_only(&self) -> bool {
        self.why_read_only.is_some()
    }

    fn why_read_only(&self) -> Option<String> {
        self.why_read_only.clone()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_batch(&mut [(offset, buffer)])
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.write_batch(&[(offset, data)])
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        let mut here: Vec<(u64, &mut [u8])> = Vec::with_capacity(reads.len());
        for (offset, buffer) in reads {
            check_transfer(self, Operation::Read, *offset, buffer.len() as u64)?;
            let mut rest: &mut [u8] = buffer;
            for piece in self.pieces(*offset, rest.len() as u64)? {
                let (part, behind) = rest.split_at_mut(piece.length as usize);
                rest = behind;
                match piece.lies {
                    Lies::Here(at) => here.push((at, part)),
                    Lies::Nowhere => part.fill(0),
                    Lies::Above => self.read_parent(piece.offset, part)?,
                    Lies::Packed(packed) => self.read_packed(packed, piece.offset, part)?,
                }
            }
        }
        match &mut here[..] {
            [] => Ok(()),
            [(at, part)] => self.file.read_at(*at, part),
            several => self.file.read_batch(several),
        }
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        let mut here: Vec<(u64, &[u8])> = Vec::with_capacity(writes.len());
        for (offset, data) in writes {
            check_transfer(self, Operation::Write, *offset, data.len() as u64)?;
            let mut rest = *data;
            for piece in self.writable_pieces(*offset, rest.len() as u64)? {
                let (part, behind) = rest.split_at(piece.length as usize);
                rest = behind;
                let Lies::Here(at) = piece.lies else { unreachable!("writes go to the file") };
                here.push((at, part));
            }
        }
        match here[..] {
            [] => Ok(()),
            [(at, part)] => self.file.write_at(at, part),
            ref several => self.file.write_batch(several),
        }
    }

    /// After some blocks without data the answer is that the next one may have some: each block may be the parent's, which asks
    /// for each of its own.
    fn next_data(&self, offset: u64) -> u64 {
        const MOST: u64 = 256;
        let size = self.shape.block;
        let last = (offset / size + MOST).saturating_mul(size).min(self.len());
        // The parent has nothing before this.
        let mut above = 0;
        let mut at = offset;
        while at < last {
            let end = (at / size * size + size).min(self.len());
            // What cannot be told may be anything.
            let Ok(pieces) = self.pieces(at / size * size, end - at / size * size) else { return at };
            let next = match pieces[..] {
                [Piece { lies: Lies::Nowhere, .. }] => end,
                [Piece { lies: Lies::Here(start), length, .. }] => {
                    let inside = start + at % size;
                    let found = self.file.next_data(inside).max(inside);
                    if found < start + length { at + (found - inside) } else { end }
                }
                [Piece { lies: Lies::Above, .. }] => match &self.parent {
                    Some(parent) if at < parent.len() => {
                        if above <= at {
                            above = parent.next_data(at);
                        }
                        above.clamp(at, end)
                    }
                    _ => end,
                },
                _ => at,
            };
            if next < end {
                return next;
            }
            at = end;
        }
        at.min(self.len())
    }

    fn flush(&self) -> Result<()> {
        self.settle()
    }

    /// Passes the discard on for blocks that are in the file, which the host may then store as holes. Which blocks are
    /// there does not change.
    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        check_transfer(self, Operation::Discard, offset, length)?;
        if self.why_read_only.is_some() {
            return Err(Error::ReadOnly { device: self.name().into() });
        }
        if !self.is_begun.load(Ordering::Acquire) {
            self.begin()?;
        }
        for piece in self.pieces(offset, length)? {
            if let Lies::Here(at) = piece.lies {
                self.file.discard(at, piece.length)?;
            }
        }
        Ok(())
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(ImageQueue::new(self, self.file.queue(depth)?, depth)))
    }

    fn now(&self) -> Duration {
        self.file.now()
    }
}
