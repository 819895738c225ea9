//! All metadata of an open volume, under one lock.
//!
//! What was read and what was changed is kept as *images* of records, index blocks and pages of other values. An
//! operation changes images, and all that it changed is put back if it fails half-way ([`Core::transact`]). A commit
//! takes every image that changed since the last one ([`Core::gather`]); from then on they are *pending*: in the log, and
//! not yet in their places.

use crate::bits::Bits;
use crate::file::{Attr, Body, File, Outside};
use crate::index::Index;
use crate::layout::bytes::{put, u16_at};
use crate::layout::{
    Attribute, Content, Geometry, Kind, ListEntry, Record, Reference, Run, fixup, record_flags,
    record_number, runs,
};
use crate::nodes::Nodes;
use crate::space::{Clusters, Held, Space};
use platter_device::{Buffer, Device};
use platter_vfs::{Error, Listings, Result};
use smallvec::SmallVec;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Bytes of a page, in which values that are not made of records or blocks are kept and logged.
pub const PAGE: u64 = 4096;
/// Numbers from here on are of files that nothing on disk leads to.
pub const DETACHED: u64 = 1 << 47;
/// Images that are kept before those that did not change are let go.
const MOST_IMAGES: usize = 48 * 1024;
/// Most bytes of records that are read at once: where one follows the other.
const READ_AHEAD: u64 = 32 << 10;
/// The longest attribute list that is read: Windows stops at 256 KiB.
const LONGEST_LIST: u64 = 1 << 20;

/// What an image is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A record, by its number.
    Record(u64),
    /// A block of a file's index, by its offset in bytes.
    Block(u64, Index, u64),
    /// A page of another attribute, by the file, type, name and offset in bytes.
    Value(u64, Kind, &'static str, u64),
}

impl Key {
    /// Something that tells keys apart.
    fn number(&self) -> u64 {
        match self {
            Key::Record(number) => *number,
            Key::Block(file, _, at) | Key::Value(file, _, _, at) => file ^ at >> 9,
        }
    }
}

/// What a key's bytes are at this moment.
#[derive(Clone, Debug)]
pub struct Image {
    /// The bytes, without update sequence.
    pub bytes: Arc<Vec<u8>>,
}

/// Where bytes stand on the device: offset and length.
pub type Segments = SmallVec<[(u64, u64); 1]>;

/// A committed image that is not yet in its place.
#[derive(Clone, Debug)]
pub struct Pending {
    /// The bytes, without update sequence.
    pub bytes: Arc<Vec<u8>>,
    /// Where they belong.
    pub places: Segments,
}

enum Undo {
    Image(Key, Option<Image>),
    File(u64, Option<Arc<File>>),
    Take(Clusters, bool),
    Give(Clusters, bool),
    RecordBit(u64, bool),
    Records(u64),
    Dropped,
    Hide(Clusters),
}

/// The metadata.
pub struct Core {
    /// The device.
    pub device: Arc<dyn Device>,
    /// Sizes and places.
    pub geometry: Geometry,
    /// The upper case of every unit.
    pub upcase: Arc<[u16]>,
    /// Free clusters.
    pub space: Space,
    /// Nodes in use.
    pub nodes: Nodes,
    /// Listings under way.
    pub listings: Listings,
    /// Why nothing may be written.
    pub frozen: Option<String>,
    images: HashMap<Key, Image>,
    dirty: BTreeSet<Key>,
    /// Bytes of their images, about.
    dirt: u64,
    /// Committed and not yet in place.
    pub pending: HashMap<Key, Pending>,
    /// What went with files that were removed: to be dropped from `pending` by the commit that removes them.
    dropped: Vec<Key>,
    files: HashMap<u64, Arc<File>>,
    /// The record after those read last, and how many bytes were read then.
    ahead: (u64, u64),
    /// How often images were let go.
    rounds: u64,
    mft: Vec<Run>,
    records: Bits,
    records_changed: BTreeSet<u64>,
    next_record: u64,
    next_detached: u64,
    undo: Vec<Undo>,
    depth: usize,
    /// Security: the next number and place in `$SDS`, once they are known.
    pub security: Option<crate::secure::Secure>,
    /// The number of the descriptor for what is made where no other is to be had.
    pub default_security: Option<u32>,
    /// The files of `$Extend` whose indexes are kept: `$Reparse` and `$ObjId`.
    pub reparse_index: Option<u64>,
    /// `$ObjId`.
    pub object_ids: Option<u64>,
}

/// A commit in memory.
pub struct Batch {
    /// What changed, in the order of keys.
    pub images: Vec<(Key, Pending)>,
}

impl Core {
    /// The metadata of a volume whose `$MFT` has these runs; the bitmaps are read later.
    pub fn new(device: Arc<dyn Device>, geometry: Geometry, mft: Vec<Run>) -> Core {
        Core {
            device,
            geometry,
            upcase: Arc::new([]),
            space: Space::new(Bits::default()),
            nodes: Nodes::default(),
            listings: Listings::default(),
            frozen: None,
            images: HashMap::new(),
            dirty: BTreeSet::new(),
            dirt: 0,
            ahead: (0, 0),
            rounds: 0,
            pending: HashMap::new(),
            dropped: Vec::new(),
            files: HashMap::new(),
            mft,
            records: Bits::default(),
            records_changed: BTreeSet::new(),
            next_record: record_number::FIRST_FREE,
            next_detached: DETACHED,
            undo: Vec::new(),
            depth: 0,
            security: None,
            default_security: None,
            reparse_index: None,
            object_ids: None,
        }
    }

    /// Refuses a change of a volume that is only read.
    pub fn writable(&self) -> Result<()> {
        match &self.frozen {
            Some(reason) => Err(Error::ReadOnly(reason.clone())),
            None => Ok(()),
        }
    }

    /// Makes a change of which nothing remains if it fails.
    pub fn transact<T>(&mut self, change: impl FnOnce(&mut Core) -> Result<T>) -> Result<T> {
        let start = self.undo.len();
        self.depth += 1;
        let outcome = change(self);
        self.depth -= 1;
        if outcome.is_err() {
            self.roll_back(start);
        }
        if self.depth == 0 {
            self.undo.clear();
        }
        outcome
    }

    fn roll_back(&mut self, start: usize) {
        while self.undo.len() > start {
            match self.undo.pop().expect("longer than start") {
                Undo::Image(key, Some(image)) => drop(self.images.insert(key, image)),
                Undo::Image(key, None) => drop(self.images.remove(&key)),
                Undo::File(number, Some(file)) => {
                    if number == record_number::MFT {
                        self.mft = data_runs(&file);
                    }
                    self.files.insert(number, file);
                }
                Undo::File(number, None) => drop(self.files.remove(&number)),
                Undo::Take(clusters, on_disk) => self.space.untake(clusters, on_disk),
                Undo::Give(clusters, on_disk) => self.space.ungive(clusters, on_disk),
                Undo::RecordBit(number, value) => self.put_record_bit(number, value),
                Undo::Records(count) => self.records.shrink(count),
                Undo::Dropped => drop(self.dropped.pop()),
                Undo::Hide(clusters) => self.space.mark(clusters, true),
            }
        }
    }

    // Images

    /// How many bytes of images a commit would take now, about.
    pub fn dirt(&self) -> u64 {
        self.dirt + (self.space.changed() + self.records_changed.len()) as u64 * (PAGE + 128)
    }

    fn soil(&mut self, key: Key, length: usize) {
        if self.dirty.insert(key) {
            self.dirt += length as u64 + 128;
        }
    }

    /// Whether there is anything to commit.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || self.space.changed() > 0 || !self.records_changed.is_empty()
    }

    /// How many images a commit would take.
    pub fn dirty_count(&self) -> usize {
        self.dirty.len() + self.space.changed()
    }

    /// Stores what a key's bytes are now.
    pub fn put_image(&mut self, key: Key, bytes: Vec<u8>) {
        self.soil(key, bytes.len());
        let old = self.images.insert(key, Image { bytes: Arc::new(bytes) });
        self.undo.push(Undo::Image(key, old));
    }

    /// Changes bytes of an image that was read before.
    pub fn change_image(&mut self, key: Key, change: impl FnOnce(&mut Vec<u8>)) {
        let Some(image) = self.images.get_mut(&key) else { return };
        self.undo.push(Undo::Image(key, Some(image.clone())));
        let bytes = Arc::make_mut(&mut image.bytes);
        change(bytes);
        let length = bytes.len();
        self.soil(key, length);
    }

    /// Forgets an image of what is there no more.
    pub fn drop_image(&mut self, key: Key) {
        let old = self.images.remove(&key);
        self.undo.push(Undo::Image(key, old));
        self.dropped.push(key);
        self.undo.push(Undo::Dropped);
    }

    /// An image in memory, from this or an earlier commit.
    pub fn known(&self, key: Key) -> Option<Arc<Vec<u8>>> {
        match self.images.get(&key) {
            Some(image) => Some(image.bytes.clone()),
            None => self.pending.get(&key).map(|pending| pending.bytes.clone()),
        }
    }

    fn keep(&mut self, key: Key, bytes: Arc<Vec<u8>>) {
        self.images.insert(key, Image { bytes });
    }

    /// Lets go of images and files that can be read again, if there are many.
    pub fn make_room(&mut self) {
        self.rounds += 1;
        let rounds = self.rounds;
        if self.images.len() > MOST_IMAGES {
            let dirty = &self.dirty;
            // Half of them, another half each time.
            self.images.retain(|key, _| dirty.contains(key) || key.number() >> (rounds % 4) & 1 == 0);
            if self.images.len() > MOST_IMAGES {
                self.images.retain(|key, _| dirty.contains(key));
            }
        }
        if self.files.len() > MOST_IMAGES / 2 {
            let is_kept = |number: u64| {
                number == record_number::MFT || number >= DETACHED || number >> (rounds % 4) & 1 == 0
            };
            self.files.retain(|number, _| is_kept(*number));
        }
    }

    /// Reads bytes of an attribute from the device.
    pub fn read_runs(&self, runs: &[Run], at: u64, length: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        let mut done = 0usize;
        for (offset, piece) in self.places(runs, at, length)? {
            if offset != u64::MAX {
                read_any(&*self.device, offset, &mut bytes[done..done + piece as usize])?;
            }
            done += piece as usize;
        }
        Ok(bytes)
    }

    /// Writes bytes of an attribute to the device, now.
    pub fn write_runs(&self, runs: &[Run], at: u64, bytes: &[u8]) -> Result<()> {
        let mut done = 0usize;
        for (offset, piece) in self.places(runs, at, bytes.len() as u64)? {
            write_any(&*self.device, offset, &bytes[done..done + piece as usize])?;
            done += piece as usize;
        }
        Ok(())
    }

    /// Where a range of bytes of an attribute stands on the device; a hole is at `u64::MAX`.
    pub fn places(&self, runs: &[Run], at: u64, length: u64) -> Result<Segments> {
        let cluster = self.geometry.cluster;
        let mut places = Segments::new();
        let (mut position, end) = (at, at + length);
        let mut index = runs.partition_point(|run| run.end() * cluster <= at);
        while position < end {
            let Some(run) = runs.get(index) else {
                let last = runs.last().map_or(0, Run::end) * cluster;
                return Err(Error::damaged("run list", position, format!("{end} bytes in runs"), last));
            };
            let stop = (run.end() * cluster).min(end);
            let offset = run.lcn.map_or(u64::MAX, |lcn| lcn * cluster + (position - run.vcn * cluster));
            match places.last_mut() {
                Some(last) if offset != u64::MAX && last.0 != u64::MAX && last.0 + last.1 == offset => {
                    last.1 += stop - position;
                }
                _ => places.push((offset, stop - position)),
            }
            position = stop;
            index += 1;
        }
        Ok(places)
    }

    /// A page of an attribute's value, as far as it is allocated.
    pub fn page(&mut self, key: Key, outside: &Outside) -> Result<Arc<Vec<u8>>> {
        let Key::Value(.., at) = key else { return Err(Error::InvalidArgument("not a page")) };
        let length = (outside.clusters() * self.geometry.cluster).saturating_sub(at).min(PAGE);
        if let Some(mut bytes) = self.known(key) {
            let is_short = (bytes.len() as u64) < length;
            if is_short {
                // Clusters came behind it since.
                Arc::make_mut(&mut bytes).resize(length as usize, 0);
            }
            if is_short || !self.images.contains_key(&key) {
                self.keep(key, bytes.clone());
            }
            return Ok(bytes);
        }
        let mut bytes = self.read_runs(&outside.runs, at, length)?;
        let valid = outside.valid.saturating_sub(at).min(length) as usize;
        bytes[valid..].fill(0);
        let bytes = Arc::new(bytes);
        self.keep(key, bytes.clone());
        Ok(bytes)
    }

    /// An index block without its update sequence.
    pub fn block(
        &mut self,
        file: u64,
        index: Index,
        at: u64,
        length: u32,
        runs: &[Run],
    ) -> Result<Arc<Vec<u8>>> {
        let key = Key::Block(file, index, at);
        if let Some(bytes) = self.known(key) {
            if !self.images.contains_key(&key) {
                self.keep(key, bytes.clone());
            }
            return Ok(bytes);
        }
        let mut bytes = self.read_runs(runs, at, u64::from(length))?;
        let place = self.places(runs, at, 1)?.first().map_or(0, |place| place.0);
        fixup::remove(&mut bytes, "index block", place)?;
        let vcn = at / crate::layout::index::vcn_unit(length, self.geometry.cluster);
        // Checked once, when it is read.
        crate::layout::index::IndexBlock::from_bytes(&bytes, vcn, place)?;
        let bytes = Arc::new(bytes);
        self.keep(key, bytes.clone());
        Ok(bytes)
    }

    // Records

    /// How many records `$MFT` has.
    pub fn record_count(&self) -> u64 {
        self.records.len()
    }

    /// How many of them are taken.
    pub fn records_taken(&self) -> u64 {
        self.records.ones(0..self.records.len())
    }

    /// Where a record stands on the device.
    pub fn record_place(&self, number: u64) -> Result<u64> {
        let size = u64::from(self.geometry.record);
        Ok(self.places(&self.mft, number.saturating_mul(size), 1)?.first().map_or(0, |place| place.0))
    }

    /// A record's bytes without its update sequence.
    pub fn record(&mut self, number: u64) -> Result<Arc<Vec<u8>>> {
        let key = Key::Record(number);
        if let Some(bytes) = self.known(key) {
            if !self.images.contains_key(&key) {
                self.keep(key, bytes.clone());
            }
            return Ok(bytes);
        }
        let size = u64::from(self.geometry.record);
        let cluster = self.geometry.cluster;
        let end = self.mft.last().map_or(0, Run::end) * cluster;
        if number.checked_add(1).and_then(|next| next.checked_mul(size)).is_none_or(|next| next > end) {
            return Err(Error::damaged(
                "file reference",
                0,
                format!("a record below {}", end / size),
                number,
            ));
        }
        // Neighbours are often wanted next.
        let window = match self.ahead {
            (next, window) if next == number => (window * 2).min(READ_AHEAD),
            _ => PAGE,
        }
        .max(size);
        let first = number * size / window * window;
        let length = window.min(end - first);
        let ahead = if self.places(&self.mft, first, length)?.len() == 1 {
            (first, length)
        } else {
            (number * size, size)
        };
        self.ahead = ((ahead.0 + ahead.1) / size, window);
        let mut bytes = self.read_runs(&self.mft, ahead.0, ahead.1)?;
        let mut wanted = None;
        for (index, bytes) in bytes.chunks_exact_mut(size as usize).enumerate() {
            let this = ahead.0 / size + index as u64;
            let place = self.record_place(this)?;
            if this == number {
                if bytes.get(..4) != Some(Record::SIGNATURE) {
                    let found = String::from_utf8_lossy(&bytes[..4]).into_owned();
                    return Err(Error::damaged("file record", place, "\"FILE\"", format!("{found:?}")));
                }
                fixup::remove(bytes, "file record", place)?;
                let bytes = Arc::new(bytes.to_vec());
                wanted = Some(bytes.clone());
                self.keep(key, bytes);
            } else if !self.images.contains_key(&Key::Record(this))
                && !self.pending.contains_key(&Key::Record(this))
                && bytes.get(..4) == Some(Record::SIGNATURE)
                && fixup::remove(bytes, "file record", place).is_ok()
            {
                self.keep(Key::Record(this), Arc::new(bytes.to_vec()));
            }
        }
        wanted.ok_or(Error::NotFound)
    }

    fn parsed(&mut self, number: u64) -> Result<(Record, u64)> {
        let bytes = self.record(number)?;
        let at = self.record_place(number)?;
        let record = Record::from_bytes(&bytes, at)?;
        if !record.in_use() {
            return Err(Error::damaged(
                "file record",
                at + 0x16,
                "a record in use",
                format!("flags {:#x}", record.flags),
            ));
        }
        Ok((record, at))
    }

    /// A file by the number of its base record.
    pub fn file(&mut self, number: u64) -> Result<Arc<File>> {
        if let Some(file) = self.files.get(&number) {
            return Ok(file.clone());
        }
        if number >= DETACHED {
            return Err(Error::NotFound);
        }
        let file = Arc::new(self.load(number)?);
        self.files.insert(number, file.clone());
        Ok(file)
    }

    /// A file that a reference leads to.
    pub fn file_at(&mut self, reference: Reference) -> Result<Arc<File>> {
        let file = self.file(reference.number())?;
        let sequence = file.reference.sequence();
        if reference.sequence() != 0 && reference.sequence() != sequence {
            let at = self.record_place(reference.number())?;
            let expected = format!("sequence number {}", reference.sequence());
            return Err(Error::damaged("file record", at + 0x10, expected, sequence));
        }
        Ok(file)
    }

    fn load(&mut self, number: u64) -> Result<File> {
        let (base, at) = self.parsed(number)?;
        if base.base.number() != 0 {
            return Err(Error::damaged(
                "file record",
                at + 0x20,
                "a base record",
                format!("one that extends {}", base.base),
            ));
        }
        let (clusters, cluster) = (self.geometry.clusters, self.geometry.cluster);
        let Some(list) = base.attributes.iter().find(|attribute| attribute.kind == Kind::ATTRIBUTE_LIST)
        else {
            let pieces = base.attributes.clone();
            return File::from_pieces(&base, number, pieces, clusters, cluster, at);
        };
        let (value, list_runs) = match &list.content {
            Content::Resident { value, .. } => (value.clone(), Vec::new()),
            Content::NonResident(outside) => {
                let runs = runs::unpack(&outside.pairs, outside.first, outside.end, clusters, at)?;
                if outside.size > LONGEST_LIST {
                    let expected = format!("at most {LONGEST_LIST} bytes");
                    return Err(Error::damaged("$ATTRIBUTE_LIST", at, expected, outside.size));
                }
                (self.read_runs(&runs, 0, outside.size)?, runs)
            }
        };
        let entries = ListEntry::read_all(&value, at)?;
        let me = Reference::new(number, base.sequence);
        let mut extensions: Vec<(Reference, Record)> = Vec::new();
        let mut pieces: Vec<Attribute> = Vec::new();
        for entry in entries {
            let from = if entry.record.number() == number {
                &base
            } else {
                let known = extensions.iter().position(|(reference, _)| *reference == entry.record);
                let index = match known {
                    Some(index) => index,
                    None => {
                        let (record, place) = self.parsed(entry.record.number())?;
                        if record.base.number() != number || record.sequence != entry.record.sequence() {
                            let found = format!("{} in its life {}", record.base, record.sequence);
                            return Err(Error::damaged(
                                "file record",
                                place + 0x20,
                                format!("one that extends {me}"),
                                found,
                            ));
                        }
                        extensions.push((entry.record, record));
                        extensions.len() - 1
                    }
                };
                &extensions[index].1
            };
            let is_meant = |piece: &&Attribute| {
                piece.kind == entry.kind
                    && piece.name == entry.name
                    && piece.id == entry.id
                    && match &piece.content {
                        Content::Resident { .. } => entry.first == 0,
                        Content::NonResident(outside) => outside.first == entry.first,
                    }
            };
            let Some(piece) = from.attributes.iter().find(is_meant) else {
                let expected = format!("{} number {} in record {}", entry.kind, entry.id, entry.record);
                return Err(Error::damaged("$ATTRIBUTE_LIST", at, expected, "none"));
            };
            if piece.kind != Kind::ATTRIBUTE_LIST {
                pieces.push(piece.clone());
            }
        }
        let mut file = File::from_pieces(&base, number, pieces, clusters, cluster, at)?;
        file.list = list_runs;
        file.extensions = extensions.into_iter().map(|(reference, _)| reference).collect();
        Ok(file)
    }

    /// Stores a file: its attributes are spread over as few records as they need.
    pub fn store(&mut self, mut file: File) -> Result<()> {
        let number = file.reference.number();
        if number < DETACHED {
            let room = Record::room(self.geometry.record as usize);
            let cluster = self.geometry.cluster;
            if file.length(cluster) <= room {
                for extension in std::mem::take(&mut file.extensions) {
                    self.free_record(extension)?;
                }
                let list = std::mem::take(&mut file.list);
                self.give_runs(&list, Held::Data, true);
                let pieces = file.pieces(1 << 30, 1 << 30, cluster);
                self.store_record(&file, file.reference, Reference::default(), pieces)?;
            } else {
                self.store_spread(&mut file, room)?;
            }
            if number == record_number::MFT {
                self.mft = data_runs(&file);
            }
        }
        let old = self.files.insert(number, Arc::new(file));
        self.undo.push(Undo::File(number, old));
        Ok(())
    }

    /// Spreads attributes over several records, and makes the list of where they are.
    fn store_spread(&mut self, file: &mut File, room: usize) -> Result<()> {
        let cluster = self.geometry.cluster;
        let is_mft = file.reference.number() == record_number::MFT;
        // The first piece of `$MFT`'s own runs must stand in its base record, which leads to all others.
        let pieces = file.pieces(if is_mft { room / 3 } else { room }, room, cluster);
        let entry = |piece: &Attribute| ListEntry {
            kind: piece.kind,
            name: piece.name.clone(),
            first: match &piece.content {
                Content::Resident { .. } => 0,
                Content::NonResident(outside) => outside.first,
            },
            record: Reference::default(),
            id: 0,
        };
        let mut list: Vec<ListEntry> = pieces.iter().map(entry).collect();
        let list_bytes: usize = list.iter().map(ListEntry::length).sum();
        let is_resident = list_bytes + 0x18 <= room / 3;
        let list_length = if is_resident { (0x18 + list_bytes).next_multiple_of(8) } else { 0x40 + 0x28 };
        // The base record takes first what must be there, then what fits.
        let mut base_room = room - list_length;
        let mut bins: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut in_base = vec![false; pieces.len()];
        let must = |piece: &Attribute| {
            piece.kind == Kind::STANDARD_INFORMATION
                || is_mft && piece.kind == Kind::DATA && entry(piece).first == 0
        };
        for pass in [true, false] {
            for (index, piece) in pieces.iter().enumerate() {
                if must(piece) != pass {
                    continue;
                }
                let length = piece.length();
                if length > room {
                    return Err(Error::NotPermitted("an attribute does not fit into a record"));
                }
                if length <= base_room {
                    base_room -= length;
                    in_base[index] = true;
                } else if pass {
                    return Err(Error::NotPermitted("its attributes do not fit into a record"));
                } else {
                    match bins.iter_mut().find(|(left, _)| *left >= length) {
                        Some((left, bin)) => {
                            *left -= length;
                            bin.push(index);
                        }
                        None => bins.push((room - length, vec![index])),
                    }
                }
            }
        }
        while file.extensions.len() > bins.len() {
            let surplus = file.extensions.pop().expect("longer than the bins");
            self.free_record(surplus)?;
        }
        while file.extensions.len() < bins.len() {
            let reference = self.take_record(is_mft)?;
            file.extensions.push(reference);
        }
        let mut pieces: Vec<Option<Attribute>> = pieces.into_iter().map(Some).collect();
        for (&extension, (_, bin)) in file.extensions.iter().zip(&bins) {
            let mine = bin.iter().filter_map(|index| pieces[*index].take()).collect();
            let ids = self.store_record(file, extension, file.reference, mine)?;
            for (index, id) in bin.iter().zip(ids) {
                (list[*index].record, list[*index].id) = (extension, id);
            }
        }
        let base_indexes: Vec<usize> = (0..pieces.len()).filter(|index| in_base[*index]).collect();
        let mut base: Vec<Attribute> =
            base_indexes.iter().filter_map(|index| pieces[*index].take()).collect();
        // Numbers are given in order; the list itself comes after them.
        for (id, index) in base_indexes.iter().enumerate() {
            (list[*index].record, list[*index].id) = (file.reference, id as u16);
        }
        let mut value = Vec::with_capacity(list_bytes);
        list.iter().for_each(|entry| entry.append_to(&mut value));
        let old = std::mem::take(&mut file.list);
        let attribute = if is_resident {
            Attribute::resident(Kind::ATTRIBUTE_LIST, value)
        } else {
            let mut outside =
                Outside { size: value.len() as u64, valid: value.len() as u64, ..Outside::default() };
            self.extend(&mut outside, (value.len() as u64).div_ceil(cluster), true, false)?;
            value.resize((outside.clusters() * cluster) as usize, 0);
            // New clusters, written at once: the commit that leads to them comes later.
            self.write_runs(&outside.runs, 0, &value)?;
            file.list = outside.runs.clone();
            let attr = Attr {
                kind: Kind::ATTRIBUTE_LIST,
                name: Box::default(),
                flags: 0,
                body: Body::Outside(outside),
            };
            let single = File { attributes: vec![attr], ..File::new(Reference::default(), 0) };
            single.pieces(list_length, list_length, cluster).swap_remove(0)
        };
        self.give_runs(&old, Held::Data, true);
        base.push(attribute);
        self.store_record(file, file.reference, Reference::default(), base)?;
        Ok(())
    }

    /// Stores one record of a file, if it changed, and returns the attributes' numbers.
    fn store_record(
        &mut self,
        file: &File,
        reference: Reference,
        base: Reference,
        attributes: Vec<Attribute>,
    ) -> Result<Vec<u16>> {
        let number = reference.number();
        let mut record = Record::new(number);
        let old = self.known(Key::Record(number));
        if let Some(old) = &old {
            record.lsn = crate::layout::bytes::u64_at(old, 8);
            record.update = u16_at(old, usize::from(u16_at(old, 4)));
        }
        record.sequence = reference.sequence();
        record.base = base;
        record.links = if base.0 == 0 { file.links } else { 0 };
        record.flags = if base.0 == 0 { file.flags } else { record_flags::IN_USE };
        let ids = attributes.into_iter().map(|attribute| record.add(attribute)).collect();
        let Some(bytes) = record.to_bytes(self.geometry.record as usize) else {
            return Err(Error::NotPermitted("its attributes do not fit into a record"));
        };
        if old.is_none_or(|old| *old != bytes) {
            self.put_image(Key::Record(number), bytes);
        }
        Ok(ids)
    }

    /// Takes a free record. Its sequence number is the one it will have.
    pub fn take_record(&mut self, is_mft: bool) -> Result<Reference> {
        let number = if is_mft {
            // Those that lead to the rest of `$MFT` stand near its start, so that they can be found without it.
            let low = self.records.next(false, 16, record_number::FIRST_FREE);
            if low < record_number::FIRST_FREE {
                low
            } else {
                self.records.next(false, 24, self.records.len())
            }
        } else {
            let next = self.next_record.max(record_number::FIRST_FREE);
            let found = self.records.next(false, next, self.records.len());
            if found < self.records.len() {
                found
            } else {
                self.records.next(false, record_number::FIRST_FREE, self.records.len())
            }
        };
        if number >= self.records.len() {
            if is_mft {
                return Err(Error::NoSpace);
            }
            self.grow_mft()?;
            return self.take_record(false);
        }
        if !is_mft {
            self.next_record = number + 1;
        }
        let sequence = match self.record(number) {
            Ok(bytes) => u16_at(&bytes, 0x10).max(1),
            Err(Error::Damaged(_)) => 1,
            Err(error) => return Err(error),
        };
        self.set_record_bit(number, true);
        Ok(Reference::new(number, sequence))
    }

    /// Gives a record up; the next file there has another sequence number.
    pub fn free_record(&mut self, reference: Reference) -> Result<()> {
        let number = reference.number();
        let mut record = Record::new(number);
        if let Ok(old) = self.record(number) {
            record.lsn = crate::layout::bytes::u64_at(&old, 8);
            record.update = u16_at(&old, usize::from(u16_at(&old, 4)));
        }
        record.sequence = match reference.sequence().wrapping_add(1) {
            0 => 1,
            next => next,
        };
        let bytes = record.to_bytes(self.geometry.record as usize).unwrap_or_default();
        self.put_image(Key::Record(number), bytes);
        self.set_record_bit(number, false);
        self.next_record = self.next_record.min(number);
        Ok(())
    }

    fn set_record_bit(&mut self, number: u64, value: bool) {
        self.undo.push(Undo::RecordBit(number, !value));
        self.put_record_bit(number, value);
    }

    fn put_record_bit(&mut self, number: u64, value: bool) {
        self.records.put(number..number + 1, value);
        self.records_changed.insert(number / (PAGE * 8));
    }

    /// Reads the bitmap of records.
    pub fn load_record_bits(&mut self) -> Result<()> {
        let mft = self.file(record_number::MFT)?;
        let size = u64::from(self.geometry.record);
        let at = self.record_place(0)?;
        let count =
            mft.find(Kind::DATA, &[]).and_then(Attr::outside).map_or(0, |data| data.valid.min(data.size))
                / size;
        let bitmap = mft.find(Kind::BITMAP, &[]);
        let bytes = match bitmap.map(|bitmap| &bitmap.body) {
            Some(Body::Resident { value, .. }) => value.clone(),
            Some(Body::Outside(outside)) => {
                self.read_runs(&outside.runs, 0, outside.valid.min(count.div_ceil(8)))?
            }
            None => return Err(Error::damaged("file record", at, "$BITMAP of $MFT", "none")),
        };
        if count < 16 || (bytes.len() as u64) < count.div_ceil(8) {
            return Err(Error::damaged("$BITMAP", at, format!("bits for {count} records"), bytes.len() * 8));
        }
        self.records = Bits::from_bytes(&bytes, count);
        Ok(())
    }

    /// Makes `$MFT` longer by new unused records.
    fn grow_mft(&mut self) -> Result<()> {
        let (size, cluster) = (u64::from(self.geometry.record), self.geometry.cluster);
        let mut mft = (*self.file(record_number::MFT)?).clone();
        let count = self.records.len();
        let broken = || Error::damaged("file record", 0, "$DATA of $MFT in clusters", "none");
        let mut data = mft.find(Kind::DATA, &[]).and_then(Attr::outside).cloned().ok_or_else(broken)?;
        let allocated = data.clusters() * cluster / size;
        if allocated == count {
            let wanted =
                (size * 64).max(count * size / 32).min(4 << 20).div_ceil(cluster).max(size.div_ceil(cluster));
            let near = data.runs.last().and_then(|run| run.lcn.map(|lcn| lcn + run.length));
            let wanted = wanted.min(self.space.at_hand()).max(size.div_ceil(cluster));
            self.extend_near(&mut data, wanted, near, true, true)?;
        }
        let new = (data.clusters() * cluster / size).min(count + (64 << 10) / size.min(1024));
        if new == count {
            return Err(Error::NoSpace);
        }
        let mut blank = Vec::with_capacity(((new - count) * size) as usize);
        for number in count..new {
            let start = blank.len();
            blank.extend(Record::new(number).to_bytes(size as usize).unwrap_or_default());
            fixup::apply(&mut blank[start..]);
        }
        // Nothing on disk leads to these records before the commit.
        self.write_runs(&data.runs, count * size, &blank)?;
        (data.size, data.valid) = (new * size, new * size);
        self.undo.push(Undo::Records(count));
        self.records.grow(new);
        self.records_changed.extend(count / (PAGE * 8)..=(new - 1) / (PAGE * 8));
        if let Some(known) = mft.find_mut(Kind::DATA, &[]).and_then(Attr::outside_mut) {
            *known = data;
        }
        let bytes = new.div_ceil(64) * 8;
        let mut bitmap = mft.find(Kind::BITMAP, &[]).cloned().ok_or_else(broken)?;
        match &mut bitmap.body {
            Body::Resident { value, .. } => value.resize((bytes as usize).max(value.len()), 0),
            Body::Outside(outside) => {
                if outside.clusters() * cluster < bytes {
                    let from = outside.clusters() * cluster;
                    let wanted = (bytes - from).max(PAGE).div_ceil(cluster).min(self.space.at_hand());
                    self.extend(outside, wanted.max((bytes - from).div_ceil(cluster)), true, true)?;
                    let zeroes = vec![0; (outside.clusters() * cluster - from) as usize];
                    self.write_runs(&outside.runs, from, &zeroes)?;
                }
                outside.size = outside.size.max(bytes);
                outside.valid = outside.size;
            }
        }
        mft.put(bitmap);
        self.store(mft)
    }

    // Clusters

    /// Clusters that data must leave free, so that metadata can go on.
    pub fn reserve(&self) -> u64 {
        (self.space.total() / 256).clamp(8, (4 << 20) / self.geometry.cluster.min(1 << 18))
    }

    /// Adds clusters at the end of an attribute, behind its last ones if those are free.
    pub fn extend(
        &mut self,
        outside: &mut Outside,
        clusters: u64,
        on_disk: bool,
        metadata: bool,
    ) -> Result<()> {
        let last = outside.runs.iter().rev().find_map(|run| run.lcn.map(|lcn| lcn + run.length));
        self.extend_near(outside, clusters, last, on_disk, metadata)
    }

    fn extend_near(
        &mut self,
        outside: &mut Outside,
        clusters: u64,
        near: Option<u64>,
        on_disk: bool,
        metadata: bool,
    ) -> Result<()> {
        let mut near = near;
        let mut left = clusters;
        if !metadata && self.space.at_hand() < clusters + self.reserve() {
            return Err(Error::NoSpace);
        }
        while left > 0 {
            let found = self.take_clusters(near, left, on_disk)?;
            outside.push(Some(found.0), found.1);
            near = Some(found.0 + found.1);
            left -= found.1;
        }
        Ok(())
    }

    /// Takes at most so many clusters that lie together.
    pub fn take_clusters(&mut self, near: Option<u64>, most: u64, on_disk: bool) -> Result<Clusters> {
        let found = self.space.find(near, most).ok_or(Error::NoSpace)?;
        self.space.take(found, on_disk);
        self.undo.push(Undo::Take(found, on_disk));
        Ok(found)
    }

    /// Gives the clusters of runs up.
    pub fn give_runs(&mut self, runs: &[Run], held: Held, on_disk: bool) {
        for run in runs {
            if let Some(lcn) = run.lcn {
                self.space.give((lcn, run.length), held, on_disk);
                self.undo.push(Undo::Give((lcn, run.length), on_disk));
            }
        }
    }

    /// Clears the bits of runs on disk; they stay taken as long as the file is held.
    pub fn hide_runs(&mut self, runs: &[Run]) {
        for run in runs {
            if let Some(lcn) = run.lcn {
                self.space.mark((lcn, run.length), false);
                self.undo.push(Undo::Hide((lcn, run.length)));
            }
        }
    }

    /// The keys of a file's images in memory.
    pub fn keys_of(&self, number: u64) -> Vec<Key> {
        let is_its =
            |key: &&Key| matches!(key, Key::Block(file, ..) | Key::Value(file, ..) if *file == number);
        let mut keys: BTreeSet<Key> = self.images.keys().filter(is_its).copied().collect();
        keys.extend(self.pending.keys().filter(is_its).copied());
        keys.into_iter().collect()
    }

    // Files without a place on disk

    /// Puts a file where nothing on disk leads to it, and returns its number.
    pub fn detach(&mut self, mut file: File) -> u64 {
        let number = self.next_detached;
        self.next_detached += 1;
        file.reference = Reference(number);
        (file.extensions, file.list) = (Vec::new(), Vec::new());
        self.undo.push(Undo::File(number, None));
        self.files.insert(number, Arc::new(file));
        number
    }

    /// Forgets a file, whose record was given up.
    pub fn forget_file(&mut self, number: u64) {
        let old = self.files.remove(&number);
        self.undo.push(Undo::File(number, old));
    }

    // Commits

    /// Everything that changed since the last commit, which is pending from now on.
    pub fn gather(&mut self) -> Result<Batch> {
        self.gather_record_bits()?;
        for key in std::mem::take(&mut self.dropped) {
            if !self.images.contains_key(&key) {
                self.pending.remove(&key);
            }
        }
        let mut images = Vec::new();
        self.dirt = 0;
        for key in std::mem::take(&mut self.dirty) {
            let Some(image) = self.images.get_mut(&key) else { continue };
            if !matches!(key, Key::Value(..)) {
                // Each time it is written it has another number.
                let bytes = Arc::make_mut(&mut image.bytes);
                let at = usize::from(u16_at(bytes, 4));
                let next = match u16_at(bytes, at).wrapping_add(1) {
                    0 | 0xFFFF => 1,
                    next => next,
                };
                put(bytes, at, next);
            }
            let bytes = image.bytes.clone();
            let places = self.places_of(key, bytes.len() as u64)?;
            images.push((key, Pending { bytes, places }));
        }
        let bitmap = self.file(record_number::BITMAP)?;
        let runs = data_runs(&bitmap);
        let end = self.space.total().div_ceil(64) * 8;
        for page in self.space.gather() {
            let at = page * PAGE;
            let bytes = self.space.bytes(at, (end - at).min(PAGE) as usize);
            let places = self.places(&runs, at, bytes.len() as u64)?;
            images.push((
                Key::Value(record_number::BITMAP, Kind::DATA, "", at),
                Pending { bytes: Arc::new(bytes), places },
            ));
        }
        for (key, pending) in &images {
            self.pending.insert(*key, pending.clone());
        }
        Ok(Batch { images })
    }

    fn gather_record_bits(&mut self) -> Result<()> {
        if self.records_changed.is_empty() {
            return Ok(());
        }
        let mft = self.file(record_number::MFT)?;
        let changed = std::mem::take(&mut self.records_changed);
        match mft.find(Kind::BITMAP, &[]).map(|bitmap| &bitmap.body) {
            Some(Body::Resident { value, .. }) => {
                let value = self.records.bytes(0, value.len(), false);
                let mut mft = (*mft).clone();
                mft.put(Attr::resident(Kind::BITMAP, value));
                self.transact(|core| core.store(mft))?;
            }
            Some(Body::Outside(outside)) => {
                for page in changed {
                    let at = page * PAGE;
                    let length = outside.size.saturating_sub(at).min(PAGE);
                    let bytes = self.records.bytes(at, length as usize, false);
                    self.put_image(Key::Value(record_number::MFT, Kind::BITMAP, "", at), bytes);
                }
                self.undo.clear();
            }
            None => {}
        }
        Ok(())
    }

    /// Where an image belongs.
    fn places_of(&mut self, key: Key, length: u64) -> Result<Segments> {
        match key {
            Key::Record(number) => {
                let size = u64::from(self.geometry.record);
                self.places(&self.mft, number * size, size)
            }
            Key::Block(file, index, at) => {
                let file = self.file(file)?;
                let name: SmallVec<[u16; 8]> = index.name().encode_utf16().collect();
                let outside = file.find(Kind::INDEX_ALLOCATION, &name).and_then(Attr::outside);
                self.places(outside.map_or(&[], |outside| &outside.runs), at, length)
            }
            Key::Value(file, kind, name, at) => {
                let file = self.file(file)?;
                let name: SmallVec<[u16; 8]> = name.encode_utf16().collect();
                let outside = file.find(kind, &name).and_then(Attr::outside);
                self.places(outside.map_or(&[], |outside| &outside.runs), at, length)
            }
        }
    }
}

/// The runs of a file's unnamed `$DATA`.
pub fn data_runs(file: &File) -> Vec<Run> {
    file.find(Kind::DATA, &[]).and_then(Attr::outside).map_or_else(Vec::new, |data| data.runs.clone())
}

/// Reads from any offset on a device, whatever its sectors.
pub fn read_any(device: &dyn Device, offset: u64, bytes: &mut [u8]) -> Result<()> {
    let sector = u64::from(device.sectors().logical);
    let (start, end) = (offset / sector * sector, (offset + bytes.len() as u64).next_multiple_of(sector));
    if start == offset && end == offset + bytes.len() as u64 {
        return Ok(device.read_at(offset, bytes)?);
    }
    let mut whole = Buffer::new((end - start) as usize);
    device.read_at(start, &mut whole)?;
    bytes.copy_from_slice(&whole[(offset - start) as usize..][..bytes.len()]);
    Ok(())
}

/// Writes to any offset on a device; what else is in its sectors stays.
pub fn write_any(device: &dyn Device, offset: u64, bytes: &[u8]) -> Result<()> {
    let sector = u64::from(device.sectors().logical);
    let (start, end) = (offset / sector * sector, (offset + bytes.len() as u64).next_multiple_of(sector));
    if start == offset && end == offset + bytes.len() as u64 {
        return Ok(device.write_at(offset, bytes)?);
    }
    let mut whole = Buffer::new((end - start) as usize);
    device.read_at(start, &mut whole)?;
    whole[(offset - start) as usize..][..bytes.len()].copy_from_slice(bytes);
    Ok(device.write_at(start, &whole)?)
}
