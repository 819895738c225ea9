//! A shadow copy as a device: what its store kept in place of what was overwritten since, and the volume for the rest.
//!
//! A store has the blocks that were overwritten between its shadow copy and the next. So an older shadow copy is read
//! through its own store first, then through the newer ones, the next one first, and then from the volume.

use super::{ShadowCopies, read_block};
use crate::layout::shadow::{
    BLOCK, BlockDescriptor, CatalogEntry, ENTRY, block_kind, descriptor_flags as flags,
};
use platter_device::Error::OutOfRange;
use platter_device::{Device, Immediate, Operation, Queue, Sectors, check_transfer, read_any};
use platter_vfs::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Bytes that a bit of an overlay stands for.
const PIECE: u64 = 512;

/// What a store keeps.
#[derive(Default)]
struct Store {
    /// For each block that was overwritten, where its content is: on the volume, or in the place of another block.
    blocks: BTreeMap<u64, KeptBlock>,
    /// For each block of which a part was overwritten twice, where that part is, and which part it is.
    overlays: BTreeMap<u64, (u64, u32)>,
    /// For each place that content was moved to, the block that it is the content of.
    moved: BTreeMap<u64, u64>,
    /// A bit for each block that was free when the shadow copy was made.
    free: Vec<u8>,
    /// The same of the shadow copy before it.
    free_before: Option<Vec<u8>>,
}

#[derive(Clone, Copy)]
enum KeptBlock {
    At(u64),
    MovedTo(u64),
}

/// A shadow copy of the volume on a device, which can only be read.
pub(crate) struct ShadowDevice {
    below: Arc<dyn Device>,
    name: String,
    length: u64,
    /// Its own store, and those of the newer ones.
    stores: Vec<Store>,
}

/// The reason in the error for a copy without a store on its volume.
const STORED_ELSEWHERE: &str = "no store of this shadow copy is on its volume: it is kept on another one";

impl ShadowDevice {
    /// Opens shadow copy `number` of the volume on a device; 1 is the oldest.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is none of this number; [`Error::Damaged`], and the errors of the device.
    pub(crate) fn open(below: Arc<dyn Device>, number: u32) -> Result<ShadowDevice> {
        const NONE: Error = Error::InvalidArgument("there is no shadow copy of this number; info lists them");
        let found = ShadowCopies::find(&*below).ok_or(NONE)?;
        if let Some(fault) = found.fault {
            return Err(fault);
        }
        let first =
            (number as usize).checked_sub(1).filter(|first| *first < found.copies.len()).ok_or(NONE)?;
        let copy = &found.copies[first];
        let length = if copy.size == 0 { below.len() } else { copy.size.min(below.len()) };
        let length = length / u64::from(below.sectors().logical) * u64::from(below.sectors().logical);
        let mut stores = Vec::new();
        for copy in &found.copies[first..] {
            let Some(place) = found.stores.get(&copy.store) else {
                // Windows can be told to keep it on another volume; the catalog here then lists the copy alone.
                return Err(Error::Unreadable(STORED_ELSEWHERE));
            };
            stores.push(Store::read(&*below, place)?);
        }
        Ok(ShadowDevice { name: format!("{}, shadow copy {number}", below.name()), below, length, stores })
    }

    /// Where the piece at `offset` of the shadow copy is on the volume; `None` if it reads as zeroes.
    fn place(&self, offset: u64) -> Option<u64> {
        let mut at = offset;
        let last = self.stores.len() - 1;
        for (index, store) in self.stores.iter().enumerate() {
            let (block, rest) = (at / BLOCK * BLOCK, at % BLOCK);
            if index == 0
                && let Some((kept, bitmap)) = store.overlays.get(&block)
                && bitmap >> (rest / PIECE) & 1 != 0
            {
                return Some(kept.saturating_add(rest));
            }
            match store.blocks.get(&block) {
                Some(KeptBlock::At(kept)) => return Some(kept.saturating_add(rest)),
                Some(KeptBlock::MovedTo(place)) => at = place.saturating_add(rest),
                None if index < last || store.moved.contains_key(&block) => {}
                None if last == 0 && store.is_free(at / BLOCK) => return None,
                None => {}
            }
        }
        Some(at)
    }
}

impl Store {
    fn read(device: &dyn Device, place: &CatalogEntry) -> Result<Store> {
        let CatalogEntry::Store { list, bitmap, earlier_bitmap, .. } = *place else {
            return Ok(Store::default());
        };
        let mut store = Store::default();
        each_block(device, list, block_kind::BLOCK_LIST, &mut |block| {
            let descriptors = block[ENTRY..].chunks_exact(BlockDescriptor::LENGTH);
            descriptors.filter_map(BlockDescriptor::from_bytes).for_each(|one| store.take(one));
        })?;
        let bits = |at: u64| -> Result<Vec<u8>> {
            let mut bits = Vec::new();
            each_block(device, at, block_kind::BITMAP, &mut |block| bits.extend_from_slice(&block[ENTRY..]))?;
            Ok(bits)
        };
        store.free = bits(bitmap)?;
        if earlier_bitmap != 0 {
            store.free_before = Some(bits(earlier_bitmap)?);
        }
        Ok(store)
    }

    /// Takes the next descriptor of the list: later ones change what earlier ones say.
    fn take(&mut self, one: BlockDescriptor) {
        let is = |flag: u32| one.flags & flag != 0;
        if is(flags::UNUSED) {
            return;
        }
        let mut block = one.original;
        if is(flags::OVERLAY) {
            let overlay = self.overlays.entry(block).or_insert((one.kept, 0));
            overlay.1 |= one.bitmap;
            return;
        }
        if let Some(from) = self.moved.remove(&block) {
            block = from;
            if is(flags::FORWARDER) && block == one.relative {
                return;
            }
        }
        let kept = match is(flags::FORWARDER) {
            true => {
                self.moved.insert(one.relative, block);
                KeptBlock::MovedTo(one.relative)
            }
            false => KeptBlock::At(one.kept),
        };
        self.blocks.insert(block, kept);
    }

    /// Whether a block was free when the shadow copy was made, and also before.
    fn is_free(&self, block: u64) -> bool {
        let bit =
            |bits: &Vec<u8>| bits.get((block / 8) as usize).is_some_and(|byte| byte >> (block % 8) & 1 != 0);
        bit(&self.free) && self.free_before.as_ref().is_none_or(bit)
    }
}

/// Calls `visit` with each block of a list, from the one at `at` on.
fn each_block(device: &dyn Device, mut at: u64, kind: u32, visit: &mut dyn FnMut(&[u8])) -> Result<()> {
    let mut seen = BTreeSet::new();
    while at != 0 {
        if !seen.insert(at) {
            return Err(Error::damaged(
                "block of a shadow copy",
                at,
                "another block",
                "one that came before",
            ));
        }
        let (block, next) = read_block(device, at, kind)?;
        visit(&block);
        at = next;
    }
    Ok(())
}

impl Device for ShadowDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn sectors(&self) -> Sectors {
        self.below.sectors()
    }

    fn read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> platter_device::Result<()> {
        check_transfer(self, Operation::Read, offset, buffer.len() as u64)?;
        // Pieces that follow one another on the volume too are read at once.
        let mut done = 0;
        while done < buffer.len() {
            let place = self.place(offset + done as u64);
            let mut end = done + PIECE as usize;
            while end < buffer.len()
                && self.place(offset + end as u64)
                    == place.map(|place| place.saturating_add((end - done) as u64))
            {
                end += PIECE as usize;
            }
            let end = end.min(buffer.len());
            match place {
                Some(place) => {
                    let (length, size) = ((end - done) as u64, self.below.len());
                    if place.checked_add(length).is_none_or(|end| end > size) {
                        let (device, operation) = (self.name.as_str().into(), Operation::Read);
                        return Err(OutOfRange { device, operation, offset: place, length, size });
                    }
                    read_any(&*self.below, place, &mut buffer[done..end])?;
                }
                None => buffer[done..end].fill(0),
            }
            done = end;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> platter_device::Result<()> {
        check_transfer(self, Operation::Write, offset, data.len() as u64)
    }

    fn flush(&self) -> platter_device::Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> platter_device::Result<()> {
        check_transfer(self, Operation::Discard, offset, length)
    }

    fn queue(&self, depth: usize) -> platter_device::Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }

    fn now(&self) -> Duration {
        self.below.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(original: u64, relative: u64, kept: u64, flags: u32, bitmap: u32) -> BlockDescriptor {
        BlockDescriptor { original, relative, kept, flags, bitmap }
    }

    fn device(stores: Vec<Store>) -> ShadowDevice {
        let below = Arc::new(platter_device::MemoryDevice::new(1 << 20, Sectors::SMALL));
        for block in 0..64 {
            below.write_at(block * BLOCK, &[block as u8; BLOCK as usize]).unwrap();
        }
        ShadowDevice { below, name: "shadow".into(), length: 1 << 20, stores }
    }

    fn store(all: &[BlockDescriptor]) -> Store {
        let mut store = Store::default();
        all.iter().for_each(|one| store.take(*one));
        store
    }

    /// The numbers that the blocks of a device hold.
    fn seen(device: &ShadowDevice) -> Vec<u8> {
        let mut all = vec![0; 1 << 20];
        device.read_at(0, &mut all).unwrap();
        all.chunks_exact(BLOCK as usize).map(|block| block[0]).collect()
    }

    #[test]
    fn older_ones_are_read_through_newer_ones() {
        let older = || {
            store(&[descriptor(BLOCK, 0, 40 * BLOCK, 0, 0), descriptor(2 * BLOCK, 0, 9, flags::UNUSED, 0)])
        };
        let newer = || {
            store(&[
                descriptor(BLOCK, 0, 41 * BLOCK, 0, 0),
                descriptor(3 * BLOCK, 0, 42 * BLOCK, 0, 0),
                descriptor(4 * BLOCK, 50 * BLOCK, 0, flags::FORWARDER, 0),
            ])
        };
        let found = seen(&device(vec![newer()]));
        assert_eq!(found[..6], [0, 41, 2, 42, 50, 5]);
        let found = seen(&device(vec![older(), newer()]));
        assert_eq!(found[..6], [0, 40, 2, 42, 50, 5]);
    }

    #[test]
    fn content_that_moved_twice_is_found() {
        // Block 4 moved to 50, and what was there was then kept at 43.
        let moved = [
            descriptor(4 * BLOCK, 50 * BLOCK, 0, flags::FORWARDER, 0),
            descriptor(50 * BLOCK, 0, 43 * BLOCK, 0, 0),
        ];
        let found = seen(&device(vec![store(&moved)]));
        assert_eq!((found[4], found[50]), (43, 50));
        // It moved, and back.
        let back = [
            descriptor(4 * BLOCK, 50 * BLOCK, 0, flags::FORWARDER, 0),
            descriptor(50 * BLOCK, 4 * BLOCK, 0, flags::FORWARDER, 0),
        ];
        store(&back);
    }

    #[test]
    fn overlays_are_parts_of_blocks_and_of_the_copy_that_is_read() {
        let part = || {
            store(&[
                descriptor(BLOCK, 0, 40 * BLOCK, 0, 0),
                descriptor(BLOCK, 0, 44 * BLOCK, flags::OVERLAY, 0b10),
                descriptor(BLOCK, 1, 0, flags::OVERLAY, 0b1000),
            ])
        };
        let pieces = |device: &ShadowDevice| {
            let mut bytes = vec![0; 5 * 512];
            device.read_at(BLOCK, &mut bytes).unwrap();
            bytes.chunks_exact(512).map(|piece| piece[0]).collect::<Vec<_>>()
        };
        assert_eq!(pieces(&device(vec![part()])), [40, 44, 40, 44, 40]);
        assert_eq!(pieces(&device(vec![Store::default(), part()])), [40; 5]);
    }

    #[test]
    fn what_was_free_reads_as_zeroes() {
        let free =
            |before: Option<Vec<u8>>| Store { free: vec![0b110], free_before: before, ..Store::default() };
        assert_eq!(seen(&device(vec![free(None)]))[..4], [0, 0, 0, 3]);
        assert_eq!(seen(&device(vec![free(Some(vec![0b100]))]))[..4], [0, 1, 0, 3]);
        assert_eq!(seen(&device(vec![Store::default(), free(None)]))[..4], [0, 1, 2, 3]);
    }

    #[test]
    fn places_that_make_no_sense_are_errors() {
        let wild = store(&[
            descriptor(BLOCK, 0, u64::MAX - 5, 0, 0),
            descriptor(2 * BLOCK, u64::MAX, 0, flags::FORWARDER, 0),
        ]);
        let device = device(vec![wild]);
        assert!(
            device.read_at(BLOCK, &mut [0; 512]).is_err()
                && device.read_at(2 * BLOCK, &mut [0; 512]).is_err()
        );
        assert!(device.write_at(0, &[0; 512]).is_err() && device.read_only());
    }
}
