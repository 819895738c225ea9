//! Pages of 32 KiB: sorted entries of equal size, with a checksum over the whole page.

use platter_device::Buffer;

/// The size of a page in bytes: Exchange's since 2010.
pub(super) const PAGE: usize = 32 << 10;
/// The size of a record in bytes: that of Jetstress in 2005, as its authors described it (from memory for later
/// versions).
pub(super) const RECORD: usize = 1000;
const HEADER: usize = 64;

// A page holds more than one record.
const _: () = assert!(HEADER + 2 * RECORD <= PAGE);

/// The kind of entries on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Records.
    Leaf,
    /// Child pages, each with the smallest key below it.
    Branch,
}

impl Kind {
    /// The size of an entry in bytes: its key, and a record or the number of a page.
    pub(super) fn width(self) -> usize {
        match self {
            Kind::Leaf => 8 + RECORD,
            Kind::Branch => 16,
        }
    }

    /// The greatest number of entries on a page.
    pub(super) fn most(self) -> usize {
        (PAGE - HEADER) / self.width()
    }

    pub(super) fn code(self) -> u32 {
        match self {
            Kind::Leaf => 1,
            Kind::Branch => 2,
        }
    }

    pub(super) fn of(code: u32) -> Option<Kind> {
        [Kind::Leaf, Kind::Branch].into_iter().find(|kind| kind.code() == code)
    }
}

/// A page in memory.
///
/// The layout: at byte 0 the CRC-32 of all bytes from 4 on, at 4 the kind, at 8 the page number, at 16 the log position
/// after the page's last change, at 24 the number of entries, at 32 the stamp of the database, at 64 the entries; all
/// little endian.
pub(super) struct Page {
    bytes: Buffer,
    kind: Kind,
}

impl Page {
    pub(super) fn new(kind: Kind, number: u64, stamp: u64) -> Page {
        let mut page = Page { bytes: Buffer::new(PAGE), kind };
        page.bytes.fill(0);
        page.set(8, number);
        page.set(32, stamp);
        page.set_kind(kind);
        page
    }

    /// Returns the page in these bytes, if it is intact and has this number and stamp.
    pub(super) fn of(bytes: &[u8], number: u64, stamp: u64) -> Option<Page> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let kind = Kind::of(word(4))?;
        let is_whole = long(8) == number
            && long(32) == stamp
            && long(24) <= kind.most() as u64
            && crc32fast::hash(&bytes[4..PAGE]) == word(0);
        is_whole.then(|| {
            let mut copy = Buffer::new(PAGE);
            copy.copy_from_slice(&bytes[..PAGE]);
            Page { bytes: copy, kind }
        })
    }

    pub(super) fn copy(&self) -> Page {
        let mut bytes = Buffer::new(PAGE);
        bytes.copy_from_slice(&self.bytes);
        Page { bytes, kind: self.kind }
    }

    /// Computes the checksum and returns the bytes to write.
    pub(super) fn sealed(&mut self) -> &[u8] {
        let sum = crc32fast::hash(&self.bytes[4..]);
        self.bytes[..4].copy_from_slice(&sum.to_le_bytes());
        &self.bytes
    }

    fn get(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("eight bytes"))
    }

    fn set(&mut self, at: usize, value: u64) {
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn set_kind(&mut self, kind: Kind) {
        self.kind = kind;
        self.bytes[4..8].copy_from_slice(&kind.code().to_le_bytes());
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// The log position after the page's last change.
    pub(super) fn position(&self) -> u64 {
        self.get(16)
    }

    pub(super) fn set_position(&mut self, position: u64) {
        self.set(16, position);
    }

    pub(super) fn count(&self) -> usize {
        self.get(24) as usize
    }

    pub(super) fn is_full(&self) -> bool {
        self.count() >= self.kind.most()
    }

    fn at(&self, index: usize) -> usize {
        HEADER + index * self.kind.width()
    }

    pub(super) fn key(&self, index: usize) -> u64 {
        self.get(self.at(index))
    }

    /// The page number in an entry of a branch.
    pub(super) fn child(&self, index: usize) -> u64 {
        self.get(self.at(index) + 8)
    }

    /// The bytes of an entry after its key.
    pub(super) fn value(&self, index: usize) -> &[u8] {
        &self.bytes[self.at(index) + 8..self.at(index + 1)]
    }

    /// Returns the index of a key's entry, or the index at which it would be inserted.
    pub(super) fn find(&self, key: u64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = (low + high) / 2;
            match self.key(middle).cmp(&key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// Returns the index of the entry of a branch below which a key belongs: the last whose key is not greater, or the
    /// first.
    pub(super) fn way(&self, key: u64) -> usize {
        match self.find(key) {
            Ok(index) => index,
            Err(index) => index.saturating_sub(1),
        }
    }

    /// Inserts or replaces the entry of a key. If the key is new, the page must not be full.
    pub(super) fn put(&mut self, key: u64, value: &[u8]) {
        let index = match self.find(key) {
            Ok(index) => index,
            Err(index) => {
                let (start, end) = (self.at(index), self.at(self.count()));
                self.bytes.copy_within(start..end, start + self.kind.width());
                self.set(24, self.count() as u64 + 1);
                index
            }
        };
        let at = self.at(index);
        self.set(at, key);
        self.bytes[at + 8..at + self.kind.width()].copy_from_slice(value);
    }

    pub(super) fn delete(&mut self, key: u64) {
        if let Ok(index) = self.find(key) {
            let (start, end) = (self.at(index + 1), self.at(self.count()));
            self.bytes.copy_within(start..end, start - self.kind.width());
            self.set(24, self.count() as u64 - 1);
        }
    }

    /// The bytes of the entries from number `from` on.
    pub(super) fn entries(&self, from: usize) -> &[u8] {
        &self.bytes[self.at(from)..self.at(self.count())]
    }

    pub(super) fn truncate(&mut self, count: usize) {
        self.set(24, count.min(self.count()) as u64);
    }

    /// Replaces all entries and the kind.
    pub(super) fn fill(&mut self, kind: Kind, entries: &[u8]) {
        self.set_kind(kind);
        self.bytes[HEADER..HEADER + entries.len()].copy_from_slice(entries);
        self.set(24, (entries.len() / kind.width()) as u64);
    }
}

/// Returns a record whose bytes follow from key and version, so that damage can be detected.
pub(super) fn record(key: u64, version: u64) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    fastrand::Rng::with_seed(key ^ version.rotate_left(32)).fill(&mut bytes[8..]);
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// Returns the version of a key's record, if the record is intact.
pub(super) fn version(key: u64, bytes: &[u8]) -> Option<u64> {
    let version = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    (record(key, version) == bytes).then_some(version)
}
