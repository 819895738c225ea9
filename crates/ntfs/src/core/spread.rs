//! Which attribute of a file lies in which of its records.
//!
//! An attribute stays in its record as long as it fits there, so that a change of one attribute writes few records.

use super::Core;
use super::files::is_mft;
use crate::file::{Attr, Body, File};
use crate::layout::runs::packed_length;
use crate::layout::{Attribute, AttributeContent, Kind, ListEntry, Record, Reference, Run, record_number};
use platter_vfs::{Error, Result};
use std::collections::HashMap;

/// More bytes than the packed runs of any file have.
const ENDLESS: usize = usize::MAX / 2;

/// What storing a file may need at most: pieces of attributes, each of which could want a record of its own, and bytes
/// of attribute list.
pub(super) struct Needs {
    pub pieces: usize,
    pub list: usize,
}

/// How many pieces of attributes changed: those that may want another place, and those that stay.
#[derive(Default)]
pub(super) struct Difference {
    pub moved: usize,
    pub same: usize,
}

/// The number of pieces that an attribute is in, at most.
fn most_pieces(attr: &Attr, room: usize) -> usize {
    attr.outside().map_or(1, |data| {
        // Subtracted: the header, the last mapping pair, which may not fit, and the longer first cluster number.
        let fits = room.saturating_sub(0x48 + 8 + attr.name.len() * 2 + 40).max(24);
        1 + data.runs.most_packed().div_ceil(fits)
    })
}

pub(super) fn needs_of(file: &File, room: usize) -> Needs {
    let (mut pieces, mut list) = (0, 0);
    for attr in &file.attributes {
        let count = most_pieces(attr, room);
        pieces += count;
        list += count * ListEntry::length_of(attr.name.len());
    }
    Needs { pieces, list }
}

pub(super) fn difference(old: &File, new: &File, room: usize) -> Difference {
    let mut found = Difference::default();
    let (mut before, mut after) = (&old.attributes[..], &new.attributes[..]);
    let key = |attr: &Attr| (attr.kind, attr.name.clone());
    loop {
        match (before, after) {
            ([], []) => return found,
            ([one, rest @ ..], []) => {
                found.moved += most_pieces(one, room);
                before = rest;
            }
            ([], [two, rest @ ..]) => {
                found.moved += most_pieces(two, room);
                after = rest;
            }
            ([one, rest @ ..], [two, next @ ..]) if one == two => (before, after) = (rest, next),
            // A file has several `$FILE_NAME`s, of which one comes or goes.
            ([one, rest @ ..], [two, ..]) if rest.first() == Some(two) || key(one) < key(two) => {
                found.moved += most_pieces(one, room);
                before = rest;
            }
            ([one, ..], [two, next @ ..]) if next.first() == Some(one) || key(one) > key(two) => {
                found.moved += most_pieces(two, room);
                after = next;
            }
            ([one, rest @ ..], [two, next @ ..]) => {
                let is_same = match (&one.body, &two.body) {
                    (Body::Resident { value: one, .. }, Body::Resident { value: two, .. }) => {
                        one.len() == two.len()
                    }
                    (Body::Outside(left), Body::Outside(right)) => {
                        left.runs == right.runs && one.flags == two.flags
                    }
                    _ => false,
                };
                match is_same && one.kind != Kind::FILE_NAME {
                    true => found.same += 1,
                    false => found.moved += most_pieces(one, room) + most_pieces(two, room),
                }
                (before, after) = (rest, next);
            }
        }
    }
}

/// A record of a file while the file's pieces are assigned to records.
pub(super) struct Bin {
    pub reference: Reference,
    pub left: usize,
    /// The attributes that the record has at present.
    pub old: Vec<Attribute>,
    /// The number that the next new attribute of the record gets.
    pub next: u16,
    pub is_used: bool,
}

/// How the pieces of a file are spread over its records.
pub(super) struct Spread {
    pub bins: Vec<Bin>,
    /// For each piece the index of its bin, and its attribute number if it is in that record already.
    pub homes: Vec<(usize, Option<u16>)>,
    /// The index of the first piece for which no bin has room.
    pub lacking: Option<usize>,
}

/// What tells pieces of a file apart: type, name, first virtual cluster, and of a `$FILE_NAME` its value.
pub(super) type PieceKey<'a> = (Kind, &'a [u16], u64, &'a [u8]);

pub(super) fn piece_key(piece: &Attribute) -> PieceKey<'_> {
    match &piece.content {
        AttributeContent::Resident { value, .. } if piece.kind == Kind::FILE_NAME => {
            (piece.kind, &piece.name, 0, value)
        }
        AttributeContent::Resident { .. } => (piece.kind, &piece.name, 0, &[]),
        AttributeContent::NonResident(outside) => (piece.kind, &piece.name, outside.first, &[]),
    }
}

/// Bytes that an attribute list with these runs takes in the base record.
pub(super) fn list_attribute_length(runs: &[Run]) -> usize {
    0x40 + packed_length(runs, ENDLESS).next_multiple_of(8)
}

/// Whether a piece must lie in the base record: `$STANDARD_INFORMATION`, and the first runs of `$MFT`, which lead to
/// its other records.
pub(super) fn must_be_in_base(piece: &Attribute, is_mft: bool) -> bool {
    let (kind, name, first, _) = piece_key(piece);
    kind == Kind::STANDARD_INFORMATION || is_mft && kind == Kind::DATA && name.is_empty() && first == 0
}

impl Core {
    /// Whether an attribute list of `bytes` bytes is resident in the base record.
    pub(super) fn is_resident_list(&self, bytes: usize) -> bool {
        bytes + 0x18 <= self.room() / 3
    }

    /// Assigns each piece of a file to one of the file's records.
    pub(super) fn spread(&mut self, file: &File, pieces: &[Attribute]) -> Result<Spread> {
        let (room, is_mft) = (self.room(), is_mft(file));
        let (size, cluster) = (u64::from(self.geometry.record), self.geometry.cluster);
        let bytes: usize = pieces.iter().map(|piece| ListEntry::length_of(piece.name.len())).sum();
        let list = match self.is_resident_list(bytes) {
            true => (0x18 + bytes).next_multiple_of(8),
            false => list_attribute_length(&file.list).max(list_attribute_length(&file.ahead.spare)),
        };
        let mut bins = Vec::with_capacity(1 + file.extensions.len());
        for &reference in [&file.reference].into_iter().chain(&file.extensions) {
            let number = reference.number();
            let mut bin = Bin { reference, left: room, old: Vec::new(), next: 0, is_used: false };
            if self.is_stored(number) {
                let record = Record::from_bytes(&self.record(number)?, self.record_place(number)?)?;
                let greatest = record.attributes.iter().map(|attribute| attribute.id + 1).max();
                bin.next = record.next_id.max(greatest.unwrap_or(0));
                bin.old = record.attributes;
            }
            bins.push(bin);
        }
        bins[0].left = room.saturating_sub(list);
        let olds: Vec<Vec<Attribute>> = bins.iter_mut().map(|bin| std::mem::take(&mut bin.old)).collect();
        let mut known: HashMap<PieceKey<'_>, (usize, u16, usize)> = HashMap::new();
        for (bin, old) in olds.iter().enumerate() {
            known.extend(old.iter().map(|piece| (piece_key(piece), (bin, piece.id, piece.length()))));
        }
        let homes: Vec<Option<(usize, u16, usize)>> =
            pieces.iter().map(|piece| known.get(&piece_key(piece)).copied()).collect();
        let mut places: Vec<Option<(usize, Option<u16>)>> = vec![None; pieces.len()];
        // Whether a driver that has read the pieces before this one can find the record, if this is a piece of `$MFT`'s
        // own runs.
        let can_be_found = |index: usize, reference: Reference| match piece_key(&pieces[index]) {
            (Kind::DATA, [], first, _) if is_mft => {
                reference.number() == record_number::MFT || (reference.number() + 1) * size <= first * cluster
            }
            _ => true,
        };
        let put = |bins: &mut [Bin], index: usize, bin: usize| -> bool {
            let length = pieces[index].length();
            let fits = bins[bin].left >= length && can_be_found(index, bins[bin].reference);
            if fits {
                bins[bin].left -= length;
                bins[bin].is_used = true;
            }
            fits
        };
        for index in (0..pieces.len()).filter(|index| must_be_in_base(&pieces[*index], is_mft)) {
            if !put(&mut bins, index, 0) {
                return Err(Error::RecordFull { format: "NTFS", what: "its base record is full" });
            }
            places[index] = Some((0, homes[index].filter(|home| home.0 == 0).map(|home| home.1)));
        }
        for may_grow in [false, true] {
            for index in 0..pieces.len() {
                if places[index].is_none()
                    && let Some((bin, id, length)) = homes[index]
                    && (may_grow || length == pieces[index].length())
                    && put(&mut bins, index, bin)
                {
                    places[index] = Some((bin, Some(id)));
                }
            }
        }
        let mut lacking = None;
        for (index, place) in places.iter_mut().enumerate().filter(|(_, place)| place.is_none()) {
            *place = (0..bins.len()).find(|bin| put(&mut bins, index, *bin)).map(|bin| (bin, None));
            if place.is_none() {
                lacking = lacking.or(Some(index));
            }
        }
        for (bin, old) in bins.iter_mut().zip(olds) {
            bin.old = old;
        }
        let homes = places.into_iter().map(|place| place.unwrap_or((0, None))).collect();
        Ok(Spread { bins, homes, lacking })
    }
}
