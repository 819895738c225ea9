//! Where each part of the volume is: encrypted in its place, moved, or nowhere.

use crate::bytes::{damaged, unusable};
use crate::header::{Layout, VolumeHeader};
use crate::metadata::Metadata;
use platter_device::Result;
use std::ops::Range;

/// Where a part of the volume is. Offsets are those of the device below; they count for the encryption too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lies {
    /// Encrypted, at this offset.
    Encrypted(u64),
    /// As it is, at this offset.
    Plain(u64),
    /// Nowhere: BitLocker's own structures are there, which the volume shows as zeroes.
    Nowhere,
    /// In the first sector of Vista, of which two fields are changed.
    First,
}

/// A part of a transfer: its length in bytes, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub length: u64,
    pub lies: Lies,
}

/// The parts of a volume.
#[derive(Debug)]
pub(crate) struct Regions {
    layout: Layout,
    sector: u64,
    /// The bytes of the first sectors that are plain (Vista) or stand elsewhere, and where.
    first: u64,
    moved_to: u64,
    /// Where encryption ends.
    encrypted: u64,
    /// What belongs to BitLocker itself, in order of offset.
    own: Vec<Range<u64>>,
}

/// On Vista so many sectors are plain.
const PLAIN_OF_VISTA: u64 = 16;

impl Regions {
    /// The parts of a volume of `size` bytes on the device `name`, if they lie apart from one another, inside it.
    pub(crate) fn new(name: &str, header: &VolumeHeader, metadata: &Metadata, size: u64) -> Result<Regions> {
        let sector = u64::from(header.sector);
        let moved_to = metadata.first_at;
        let moved = match metadata.first_count {
            0 => metadata.first_size,
            count => u64::from(count) * sector,
        };
        let mut own: Vec<Range<u64>> =
            metadata.blocks.iter().map(|&at| at..at.saturating_add(metadata.region())).collect();
        let is_vista = header.layout == Layout::Vista;
        if is_vista != (metadata.version == 1) {
            let why = format!("is {}, and its metadata is of version {}", header.layout, metadata.version);
            return Err(unusable(name, why));
        }
        let first = if is_vista { PLAIN_OF_VISTA * sector } else { moved };
        if !is_vista {
            own.push(moved_to..moved_to.saturating_add(moved));
        }
        own.sort_by_key(|range| range.start);
        let mut end = first;
        for range in &own {
            let is_whole = range.start.is_multiple_of(sector) && range.end.is_multiple_of(sector);
            if range.is_empty() || range.start < end || range.end > size || !is_whole {
                let expected = format!("a place in whole sectors from {end} on and up to {size}");
                let found = format!("{} to {}", range.start, range.end);
                return Err(damaged(name, "a region of BitLocker", range.start, expected, found));
            }
            end = range.end;
        }
        // Without a length of its own, all is encrypted.
        let encrypted = match metadata.encrypted {
            _ if metadata.is_decrypted() => 0,
            0 => size,
            some => (some / sector * sector).min(size),
        };
        Ok(Regions { layout: header.layout, sector, first, moved_to, encrypted, own })
    }

    /// The piece of a transfer of `length` bytes that begins at an offset, which is whole sectors and inside the volume.
    pub(crate) fn piece(&self, offset: u64, length: u64) -> Piece {
        let until = |end: u64| length.min(end - offset);
        let in_place = |at: u64, length: u64| match self.encrypted.checked_sub(at) {
            Some(rest @ 1..) => Piece { length: length.min(rest), lies: Lies::Encrypted(at) },
            _ => Piece { length, lies: Lies::Plain(at) },
        };
        if offset < self.first {
            return match self.layout {
                Layout::Vista if offset == 0 => Piece { length: until(self.sector), lies: Lies::First },
                Layout::Vista => Piece { length: until(self.first), lies: Lies::Plain(offset) },
                Layout::Seven | Layout::ToGo => in_place(self.moved_to + offset, until(self.first)),
            };
        }
        let next = self.own.iter().find(|range| range.end > offset);
        match next {
            Some(range) if range.start <= offset => Piece { length: until(range.end), lies: Lies::Nowhere },
            Some(range) => in_place(offset, until(range.start)),
            None => in_place(offset, length),
        }
    }

    /// The pieces of a transfer, in order.
    pub(crate) fn pieces(&self, offset: u64, length: u64) -> impl Iterator<Item = Piece> + '_ {
        let mut done = 0;
        std::iter::from_fn(move || {
            let rest = length.checked_sub(done).filter(|&rest| rest > 0)?;
            let piece = self.piece(offset + done, rest);
            done += piece.length;
            Some(piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_images::Guid;

    fn regions(layout: Layout, encrypted: u64) -> Regions {
        let header = VolumeHeader { layout, sector: 512, blocks: [1 << 20; 3], is_under_way: false };
        let metadata = Metadata {
            version: if layout == Layout::Vista { 1 } else { 2 },
            states: [4, 4],
            encrypted,
            blocks: [1 << 20, 3 << 20, 5 << 20],
            first_at: 2 << 20,
            first_count: 16,
            first_size: 0,
            id: Guid::ZERO,
            method: 0x8004,
            description: String::new(),
            protectors: Vec::new(),
            key: None,
        };
        Regions::new("volume", &header, &metadata, 8 << 20).unwrap()
    }

    #[test]
    fn every_byte_is_in_one_piece() {
        use Lies::{Encrypted, First, Nowhere, Plain};
        let all = |layout, encrypted| -> Vec<(u64, Lies)> {
            regions(layout, encrypted).pieces(0, 8 << 20).map(|piece| (piece.length, piece.lies)).collect()
        };
        let mib = 1 << 20;
        let (region, vista) = (64 << 10, 16 << 10);
        assert_eq!(
            all(Layout::Seven, 0),
            [
                (8192, Encrypted(2 * mib)),
                (mib - 8192, Encrypted(8192)),
                (region, Nowhere),
                (mib - region, Encrypted(mib + region)),
                (8192, Nowhere),
                (mib - 8192, Encrypted(2 * mib + 8192)),
                (region, Nowhere),
                (2 * mib - region, Encrypted(3 * mib + region)),
                (region, Nowhere),
                (3 * mib - region, Encrypted(5 * mib + region)),
            ]
        );
        // A conversion has come to here: what is behind is plain, with the first sectors.
        assert_eq!(
            all(Layout::ToGo, 3 * mib / 2),
            [
                (8192, Plain(2 * mib)),
                (mib - 8192, Encrypted(8192)),
                (region, Nowhere),
                (mib / 2 - region, Encrypted(mib + region)),
                (mib / 2, Plain(3 * mib / 2)),
                (8192, Nowhere),
                (mib - 8192, Plain(2 * mib + 8192)),
                (region, Nowhere),
                (2 * mib - region, Plain(3 * mib + region)),
                (region, Nowhere),
                (3 * mib - region, Plain(5 * mib + region)),
            ]
        );
        assert_eq!(
            all(Layout::Vista, 0)[..5],
            [
                (512, First),
                (8192 - 512, Plain(512)),
                (mib - 8192, Encrypted(8192)),
                (vista, Nowhere),
                (2 * mib - vista, Encrypted(mib + vista)),
            ]
        );
    }
}
