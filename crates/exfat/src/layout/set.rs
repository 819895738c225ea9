//! The entry set of a file: consecutive slots with a file entry, a stream extension, the parts of the name, and
//! benign entries of vendors (7.4, 7.6 to 7.9). A checksum covers them all.

use super::entry::kind;
use super::{Attributes, SLOT, Stamp, Upcase, array, checksum16, is_benign, is_in_use, le16, le32, le64};
use platter_vfs::Name;

/// The number of UTF-16 units in one part of a name (7.7.3).
pub const UNITS_IN_NAME: usize = 15;

// A set has room for the longest name, beside its file and stream entry.
const _: () = assert!(2 + 255_usize.div_ceil(UNITS_IN_NAME) <= EntrySet::MOST);

/// `GeneralSecondaryFlags`: the entry may have clusters (6.4.2.1).
const ALLOCATION_POSSIBLE: u8 = 0x01;
/// `GeneralSecondaryFlags`: the clusters are consecutive, and their FAT entries have no meaning (6.4.2.2).
const NO_FAT_CHAIN: u8 = 0x02;

/// The content of a file's entry set, except the name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileInfo {
    /// `FileAttributes`.
    pub attributes: Attributes,
    /// When it was created.
    pub created: Stamp,
    /// When its content last changed.
    pub modified: Stamp,
    /// When it was last read; the field has no `10msIncrement`, so `hundredths` is 0.
    pub accessed: Stamp,
    /// `NoFatChain`: the file's clusters are consecutive, and their FAT entries have no meaning.
    pub contiguous: bool,
    /// `FirstCluster`: 0 if the file has none.
    pub cluster: u32,
    /// `ValidDataLength`: the number of bytes up to which data was written.
    pub valid: u64,
    /// `DataLength`: the size of the file in bytes; for a directory, the bytes in its clusters.
    pub length: u64,
    /// Vendors' entries (7.8, 7.9), which are kept with the file.
    pub additions: Vec<[u8; SLOT]>,
}

impl FileInfo {
    /// Reads the first two entries of a set: file entry and stream extension.
    pub fn from_slots(file: &[u8; SLOT], stream: &[u8; SLOT]) -> FileInfo {
        FileInfo {
            attributes: Attributes(le16(file, 4)),
            created: Stamp::new(le32(file, 8), file[20], file[22]),
            modified: Stamp::new(le32(file, 12), file[21], file[23]),
            accessed: Stamp::new(le32(file, 16), 0, file[24]),
            contiguous: stream[1] & NO_FAT_CHAIN != 0,
            cluster: le32(stream, 20),
            valid: le64(stream, 8),
            length: le64(stream, 24),
            additions: Vec::new(),
        }
    }

    /// Returns the clusters of the vendors' entries, which are freed with the file (8.2).
    pub fn parts(&self) -> impl Iterator<Item = Part> + '_ {
        let possible = |slot: &&[u8; SLOT]| slot[0] != kind::VENDOR && slot[1] & ALLOCATION_POSSIBLE != 0;
        let parts = self.additions.iter().filter(possible).map(|slot| Part {
            contiguous: slot[1] & NO_FAT_CHAIN != 0,
            cluster: le32(slot, 20),
            length: le64(slot, 24),
        });
        parts.filter(|part| part.cluster != 0)
    }

    /// Writes the first two entries of a set, without changing unknown fields.
    pub fn write(&self, file: &mut [u8; SLOT], stream: &mut [u8; SLOT]) {
        file[4..6].copy_from_slice(&self.attributes.0.to_le_bytes());
        for (at, stamp) in [(8, self.created), (12, self.modified), (16, self.accessed)] {
            file[at..at + 4].copy_from_slice(&stamp.timestamp().to_le_bytes());
        }
        (file[20], file[21]) = (self.created.local.hundredths, self.modified.local.hundredths);
        (file[22], file[23], file[24]) = (self.created.offset, self.modified.offset, self.accessed.offset);
        let chain = if self.contiguous && self.cluster != 0 { NO_FAT_CHAIN } else { 0 };
        stream[1] = stream[1] & !NO_FAT_CHAIN | ALLOCATION_POSSIBLE | chain;
        stream[8..16].copy_from_slice(&self.valid.to_le_bytes());
        stream[20..24].copy_from_slice(&self.cluster.to_le_bytes());
        stream[24..].copy_from_slice(&self.length.to_le_bytes());
    }
}

/// Returns the number of entries that follow the first one of a set (6.3.2).
pub fn secondary_count(first: &[u8; SLOT]) -> usize {
    usize::from(first[1])
}

/// Returns the checksum of a set (6.3.3), which does not cover its own field.
pub fn set_checksum(slots: &[[u8; SLOT]]) -> u16 {
    let bytes = slots.as_flattened();
    checksum16(0, bytes[..2.min(bytes.len())].iter().chain(bytes.get(4..).unwrap_or(&[])).copied())
}

/// Whether the checksum of the set of a primary entry of an unknown type is right (6.3.3).
pub fn is_whole(slots: &[[u8; SLOT]]) -> bool {
    let count = usize::from(slots[0][1]) + 1;
    slots.get(..count).is_some_and(|set| set_checksum(set).to_le_bytes() == set[0][2..4])
}

/// Returns the hash of a name (7.6.4).
pub fn name_hash(name: &[u16], upcase: &Upcase) -> u16 {
    checksum16(0, name.iter().flat_map(|&unit| upcase.upper(unit).to_le_bytes()))
}

/// A fault of an entry set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The first entry states that fewer than two entries follow, or fewer secondary entries do follow than it
    /// states.
    Count,
    /// The second entry is not a stream extension.
    Stream,
    /// The parts of the name do not follow the stream extension, or their number does not fit the name's length.
    Name,
    /// The checksum is wrong.
    Checksum,
    /// The hash of the name is wrong.
    Hash,
    /// The set has an entry of an unknown type that is not benign.
    Unknown(u8),
}

/// The clusters of a vendor's entry (6.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Whether the clusters are consecutive, and their FAT entries have no meaning.
    pub contiguous: bool,
    /// The first cluster.
    pub cluster: u32,
    /// The length in bytes.
    pub length: u64,
}

/// The entry set of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntrySet {
    slots: Vec<[u8; SLOT]>,
}

impl EntrySet {
    /// The most entries of a set: the first one, and as many as its one-byte count allows. Without vendors' entries
    /// there are at most 18 after the first: the stream extension and 17 parts of a name.
    pub const MOST: usize = 1 + u8::MAX as usize;

    /// Makes a new set.
    pub fn new(name: &Name, info: &FileInfo, upcase: &Upcase) -> EntrySet {
        let units = name.units();
        let parts = units.chunks(UNITS_IN_NAME);
        let mut slots = vec![[0; SLOT]; 2];
        (slots[0][0], slots[0][1]) = (kind::FILE, 1 + parts.len() as u8);
        (slots[1][0], slots[1][3]) = (kind::STREAM, units.len() as u8);
        slots[1][4..6].copy_from_slice(&name_hash(units, upcase).to_le_bytes());
        for part in parts {
            let mut slot = [0; SLOT];
            slot[0] = kind::NAME;
            for (at, unit) in part.iter().enumerate() {
                slot[2 + at * 2..4 + at * 2].copy_from_slice(&unit.to_le_bytes());
            }
            slots.push(slot);
        }
        let mut set = EntrySet { slots };
        set.set_info(info);
        set.append(&info.additions);
        set
    }

    /// Returns the number of entries in a set with this name.
    pub fn slots_for(name: &Name, info: &FileInfo) -> usize {
        (2 + name.units().len().div_ceil(UNITS_IN_NAME) + info.additions.len()).min(EntrySet::MOST)
    }

    /// Reads the set that begins with the first of these slots.
    ///
    /// # Errors
    /// What is wrong with the set.
    pub fn read(slots: &[[u8; SLOT]], upcase: &Upcase) -> Result<EntrySet, Fault> {
        let set = EntrySet::read_loosely(slots)?;
        if set.checksum() != set_checksum(&set.slots) {
            return Err(Fault::Checksum);
        }
        if set.hash() != name_hash(set.name().units(), upcase) {
            return Err(Fault::Hash);
        }
        match set.unknown() {
            Some(kind) => Err(Fault::Unknown(kind)),
            None => Ok(set),
        }
    }

    /// Reads the set that begins with the first of these slots, if the entries belong together. Checksum and hash may
    /// be wrong.
    ///
    /// # Errors
    /// What is wrong with the set.
    pub fn read_loosely(slots: &[[u8; SLOT]]) -> Result<EntrySet, Fault> {
        let count = slots.first().map_or(0, secondary_count);
        let slots = slots.get(..count + 1).filter(|_| count >= 2).ok_or(Fault::Count)?;
        let secondary = |slot: &[u8; SLOT]| is_in_use(slot[0]) && slot[0] & 0x40 != 0;
        if !slots[1..].iter().all(secondary) {
            return Err(Fault::Count);
        }
        if slots[1][0] != kind::STREAM {
            return Err(Fault::Stream);
        }
        let parts = usize::from(slots[1][3]).div_ceil(UNITS_IN_NAME);
        let in_place = slots[2..].iter().take_while(|slot| slot[0] == kind::NAME).count();
        if parts == 0 || in_place != parts {
            return Err(Fault::Name);
        }
        Ok(EntrySet { slots: slots.to_vec() })
    }

    /// Returns the slots of the set.
    pub fn slots(&self) -> &[[u8; SLOT]] {
        &self.slots
    }

    /// Returns the checksum that is recorded in the set.
    pub fn checksum(&self) -> u16 {
        le16(&self.slots[0], 2)
    }

    /// Returns the name hash that is recorded in the set.
    pub fn hash(&self) -> u16 {
        le16(&self.slots[1], 4)
    }

    /// Returns the type of the first entry that is unknown and not benign, if there is one.
    pub fn unknown(&self) -> Option<u8> {
        let known = |kind: u8| matches!(kind, kind::STREAM | kind::NAME) || is_benign(kind);
        self.slots[1..].iter().map(|slot| slot[0]).find(|&kind| !known(kind))
    }

    /// Returns the name.
    pub fn name(&self) -> Name {
        let units = self.slots[2..]
            .iter()
            .take_while(|slot| slot[0] == kind::NAME)
            .flat_map(|slot| (0..UNITS_IN_NAME).map(|at| le16(slot, 2 + at * 2)))
            .take(usize::from(self.slots[1][3]));
        Name::from_units(&units.collect::<Vec<_>>())
    }

    /// Returns all units in the parts of the name, except trailing zeroes, whatever the recorded length is.
    pub fn written_name(&self) -> Name {
        let parts = usize::from(self.slots[1][3]).div_ceil(UNITS_IN_NAME);
        let slots = self.slots.get(2..2 + parts).unwrap_or(&[]);
        let mut units: Vec<u16> =
            slots.iter().flat_map(|slot| (0..UNITS_IN_NAME).map(|at| le16(slot, 2 + at * 2))).collect();
        while units.last() == Some(&0) {
            units.pop();
        }
        units.truncate(255);
        Name::from_units(&units)
    }

    /// Returns the file's metadata.
    pub fn info(&self) -> FileInfo {
        let parts = usize::from(self.slots[1][3]).div_ceil(UNITS_IN_NAME);
        let additions = self.slots[(2 + parts).min(self.slots.len())..].to_vec();
        FileInfo { additions, ..FileInfo::from_slots(&self.slots[0], &self.slots[1]) }
    }

    /// Whether the stream extension allows clusters at all (6.4.2.1).
    pub fn may_have_clusters(&self) -> bool {
        self.slots[1][1] & ALLOCATION_POSSIBLE != 0
    }

    /// Changes the file's metadata, and the checksum.
    pub fn set_info(&mut self, info: &FileInfo) {
        let [mut file, mut stream] = [self.slots[0], self.slots[1]];
        info.write(&mut file, &mut stream);
        (self.slots[0], self.slots[1]) = (file, stream);
        self.seal();
    }

    /// Changes the name to another one with as many parts, and the checksum.
    pub fn set_name(&mut self, name: &Name, upcase: &Upcase) {
        let renamed = EntrySet::new(name, &self.info(), upcase);
        for (slot, new) in self.slots[2..].iter_mut().zip(&renamed.slots[2..]) {
            *slot = *new;
        }
        (self.slots[1][3], self.slots[1][4], self.slots[1][5]) =
            (renamed.slots[1][3], renamed.slots[1][4], renamed.slots[1][5]);
        self.seal();
    }

    /// Appends vendors' entries.
    pub fn append(&mut self, additions: &[[u8; SLOT]]) {
        self.slots.extend_from_slice(additions);
        self.slots.truncate(EntrySet::MOST);
        self.slots[0][1] = (self.slots.len() - 1) as u8;
        self.seal();
    }

    /// Recomputes the hash of the name, and the checksum.
    pub fn rehash(&mut self, upcase: &Upcase) {
        let hash = name_hash(self.name().units(), upcase).to_le_bytes();
        self.slots[1][4..6].copy_from_slice(&hash);
        self.seal();
    }

    /// Recomputes the checksum.
    pub fn seal(&mut self) {
        let sum = set_checksum(&self.slots).to_le_bytes();
        self.slots[0][2..4].copy_from_slice(&sum);
    }

    /// Returns the GUID in a volume GUID entry (7.5.5).
    pub fn guid(slot: &[u8; SLOT]) -> [u8; 16] {
        array(slot, 6)
    }
}

const _: () = assert!(
    2 + 255usize.div_ceil(UNITS_IN_NAME) < 1 + u8::MAX as usize,
    "the longest name fits a set, whose count is a byte"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_comes_back() {
        let upcase = Upcase::recommended();
        for length in 1..=255 {
            let name: String = ('a'..='z').cycle().take(length).collect();
            let name = Name::from(name.as_str());
            let info = FileInfo { cluster: 7, valid: 3, length: 5, contiguous: true, ..FileInfo::default() };
            let set = EntrySet::new(&name, &info, &upcase);
            assert_eq!(set.slots().len(), EntrySet::slots_for(&name, &info));
            let back = EntrySet::read(set.slots(), &upcase).unwrap();
            assert_eq!((back.name(), back.info()), (name, info), "length {length}");
        }
    }

    #[test]
    fn a_torn_set_is_recognised() {
        let upcase = Upcase::recommended();
        let old = EntrySet::new(&Name::from("a name of more than one part"), &FileInfo::default(), &upcase);
        let new = EntrySet::new(
            &Name::from("A name of more than one PART"),
            &FileInfo { length: 9, ..FileInfo::default() },
            &upcase,
        );
        for cut in 1..old.slots().len() {
            let torn = [&new.slots()[..cut], &old.slots()[cut..]].concat();
            assert!(EntrySet::read(&torn, &upcase).is_err(), "cut at {cut}");
            let mut gone = old.slots().to_vec();
            gone[cut][0] &= 0x7F;
            assert!(EntrySet::read(&gone, &upcase).is_err(), "{cut} gone");
        }
        assert_eq!(EntrySet::read(&old.slots()[..3], &upcase), Err(Fault::Count));
    }

    #[test]
    fn what_others_added_stays() {
        let upcase = Upcase::recommended();
        let mut set = EntrySet::new(&Name::from("name"), &FileInfo::default(), &upcase);
        let mut vendor = [9; SLOT];
        (vendor[0], vendor[1]) = (kind::VENDOR_ALLOCATION, 3);
        set.append(&[vendor]);
        set.set_info(&FileInfo { length: 7, ..FileInfo::default() });
        let back = EntrySet::read(set.slots(), &upcase).unwrap();
        let info = back.info();
        assert_eq!(info.additions, [vendor]);
        assert_eq!(info.parts().next().unwrap().cluster, 0x0909_0909);
        assert_eq!(EntrySet::new(&Name::from("name"), &info, &upcase), back);
        let mut critical = vendor;
        critical[0] = 0xC2;
        set.append(&[critical]);
        assert_eq!(EntrySet::read(set.slots(), &upcase), Err(Fault::Unknown(0xC2)));
    }
}
