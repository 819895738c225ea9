//! Long names: splitting them into slots and reassembling them (fatgen103, "FAT Long Directory Entries").

use super::{LongEntry, SLOT, ShortEntry, ShortName};
use platter_vfs::{Error, Name, NameRules, Result};

/// The longest name in UTF-16 units.
pub const LONGEST_NAME: usize = 255;

/// The value that fills the last part of a name after its end.
const PADDING: u16 = 0xFFFF;

/// The names that FAT can hold: those of Windows without U+FFFF, which stands for the end of a name on disk.
pub const NAMES: NameRules = NameRules {
    forbidden: "\"*:<>?\\|\u{1}\u{2}\u{3}\u{4}\u{5}\u{6}\u{7}\u{8}\u{9}\u{a}\u{b}\u{c}\u{d}\u{e}\u{f}\u{10}\u{11}\u{12}\u{13}\u{14}\u{15}\u{16}\u{17}\u{18}\u{19}\u{1a}\u{1b}\u{1c}\u{1d}\u{1e}\u{1f}\u{ffff}",
    ..NameRules::WINDOWS
};

/// The long names that are read. Other systems write names with characters that Windows does not allow, and with dots and
/// spaces at the end; all of them show such files under these names.
const READ: NameRules = NameRules { forbidden: "\u{ffff}", no_trailing_dot_or_space: false, ..NAMES };

/// The most slots of a long name.
pub const MOST_LONG_ENTRIES: usize = LONGEST_NAME.div_ceil(LongEntry::UNITS);

// The number of an entry stands beside the mark of the last one.
const _: () = assert!(MOST_LONG_ENTRIES < LongEntry::LAST as usize);

/// A short entry with the long name before it: everything that is written for one file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntrySet {
    /// The parts of the long name in their order on disk; none if the short name expresses the whole name.
    pub long: Vec<LongEntry>,
    /// The short entry.
    pub short: ShortEntry,
}

impl EntrySet {
    /// Makes the set for a new entry: `entry` with its name and case bits replaced, and with a long name if one is
    /// needed. `exists` says whether the directory has a short name: see [`ShortName::alias`].
    ///
    /// # Errors
    /// [`Error::InvalidName`] for a name that Windows does not allow; [`Error::NoSpace`] if every alias is taken.
    pub fn new(
        name: &Name,
        entry: ShortEntry,
        mut exists: impl FnMut(&ShortName) -> bool,
    ) -> Result<EntrySet> {
        NAMES.check(name)?;
        if let Some((short, nt)) = ShortName::exact(name)
            && !exists(&short)
        {
            return Ok(EntrySet { long: Vec::new(), short: ShortEntry { name: short, nt, ..entry } });
        }
        let short = ShortName::alias(name, exists).ok_or(Error::NoSpace)?;
        Ok(EntrySet {
            long: parts(name, short.checksum()),
            short: ShortEntry { name: short, nt: 0, ..entry },
        })
    }

    /// Returns the number of slots of the set, 1 to 21.
    pub fn slots(&self) -> usize {
        self.long.len() + 1
    }

    /// Returns the bytes of the slots in their order on disk.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.slots() * SLOT);
        self.long.iter().for_each(|part| bytes.extend(part.to_bytes()));
        bytes.extend(self.short.to_bytes());
        bytes
    }
}

/// Returns the parts of a long name in their order on disk.
fn parts(name: &Name, checksum: u8) -> Vec<LongEntry> {
    let chunks = name.units().chunks(LongEntry::UNITS);
    let count = chunks.len();
    let part = |(at, chunk): (usize, &[u16])| {
        let mut units = [PADDING; LongEntry::UNITS];
        units[..chunk.len()].copy_from_slice(chunk);
        if let Some(end) = units.get_mut(chunk.len()) {
            *end = 0;
        }
        let number = at as u8 + 1;
        let order = if at + 1 == count { number | LongEntry::LAST } else { number };
        LongEntry { order, attributes: 0x0F, kind: 0, checksum, units, cluster: 0 }
    };
    chunks.enumerate().map(part).rev().collect()
}

/// Returns a unit of a name that is read, or "_" in place of one that Windows does not allow. U+FFFF, which fills the last
/// part of a name, is left as it is.
pub(crate) fn allowed(unit: u16) -> u16 {
    let is_forbidden =
        char::from_u32(unit.into()).is_some_and(|character| NameRules::WINDOWS.forbidden.contains(character));
    if is_forbidden { b'_'.into() } else { unit }
}

/// A fault of a long name. The short entry after it is valid all the same, under its short name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongNameFault {
    /// No short entry follows the parts.
    Orphan,
    /// A part's number does not follow from the number of the part before.
    Order,
    /// The checksum is not that of the short entry, or differs from part to part.
    Checksum,
    /// The text ends too early or not in the last part, continues after its end, is too long, or contains `/` or U+FFFF,
    /// with which it is no name of any system.
    Text,
}

/// Collects the parts of a long name while the slots of a directory are read in order: call [`LongName::push`] for
/// each [`LongEntry`], [`LongName::finish`] at each short entry, and [`LongName::abandon`] at anything else.
#[derive(Clone, Debug, Default)]
pub struct LongName {
    /// The units of the parts collected so far, part 1 first.
    units: [[u16; LongEntry::UNITS]; MOST_LONG_ENTRIES],
    /// The number of parts of the name; 0 while none was seen.
    parts: u8,
    /// The number of the part that was pushed last. The last part of a name is first on disk, so the numbers count
    /// down.
    reached: u8,
    checksum: u8,
}

impl LongName {
    /// Returns the number of slots collected so far of the current name.
    pub fn slots(&self) -> usize {
        usize::from(if self.parts == 0 { 0 } else { self.parts - self.reached + 1 })
    }

    /// Adds the next part.
    ///
    /// # Errors
    /// [`LongNameFault::Orphan`] if this part starts a new name before the current one had its short entry: the new
    /// name is kept. With any other fault this part and the current name are dropped.
    pub fn push(&mut self, entry: &LongEntry) -> std::result::Result<(), LongNameFault> {
        let number = entry.number();
        if entry.is_last() {
            let before = self.abandon();
            if number == 0 || usize::from(number) > MOST_LONG_ENTRIES {
                return Err(LongNameFault::Order);
            }
            self.parts = number;
            self.checksum = entry.checksum;
            self.take(entry);
            return before;
        }
        if self.parts == 0 || number == 0 || number + 1 != self.reached {
            self.parts = 0;
            return Err(LongNameFault::Order);
        }
        if entry.checksum != self.checksum {
            self.parts = 0;
            return Err(LongNameFault::Checksum);
        }
        self.take(entry);
        Ok(())
    }

    fn take(&mut self, entry: &LongEntry) {
        self.reached = entry.number();
        self.units[usize::from(self.reached) - 1] = entry.units;
    }

    /// Returns the name, if all of its parts preceded this short entry; `None` if there were no parts.
    ///
    /// # Errors
    /// The reason why the collected parts are not this entry's name.
    pub fn finish(&mut self, short: &ShortName) -> std::result::Result<Option<Name>, LongNameFault> {
        let parts = usize::from(std::mem::take(&mut self.parts));
        if parts == 0 {
            return Ok(None);
        }
        if self.reached != 1 {
            return Err(LongNameFault::Order);
        }
        if self.checksum != short.checksum() {
            return Err(LongNameFault::Checksum);
        }
        let units = self.units[..parts].as_flattened();
        let length = units.iter().position(|&unit| unit == 0).unwrap_or(units.len());
        if length <= (parts - 1) * LongEntry::UNITS {
            return Err(LongNameFault::Text);
        }
        // After the zero that ends a name every unit is FFFF (fatgen103); some writers leave zeroes. Text there means
        // that a damaged unit ends the name too early, and FFFF before it that the terminator was lost.
        let (text, rest) = units.split_at(length);
        if text.contains(&PADDING) || rest.iter().any(|unit| !matches!(*unit, 0 | PADDING)) {
            return Err(LongNameFault::Text);
        }
        let name = Name::from_units(&units[..length]);
        READ.check(&name).map_err(|_| LongNameFault::Text)?;
        Ok(Some(name))
    }

    /// Drops the current name, because a slot was met that does not continue it.
    ///
    /// # Errors
    /// [`LongNameFault::Orphan`] if there was a current name.
    pub fn abandon(&mut self) -> std::result::Result<(), LongNameFault> {
        match std::mem::take(&mut self.parts) {
            0 => Ok(()),
            _ => Err(LongNameFault::Orphan),
        }
    }
}

const _: () = assert!(MOST_LONG_ENTRIES <= 0x1F, "the number of an entry has five bits");

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str) -> EntrySet {
        EntrySet::new(&Name::from(name), ShortEntry::default(), |_| false).unwrap()
    }

    fn read(set: &EntrySet) -> std::result::Result<Option<Name>, LongNameFault> {
        let mut long = LongName::default();
        for part in &set.long {
            long.push(part)?;
        }
        assert_eq!(long.slots(), set.long.len());
        long.finish(&set.short.name)
    }

    #[test]
    fn golden_set() {
        // The example in fatgen103, "Storage of the Long Name": The quick brown.fox.
        let bytes = set("The quick brown.fox").to_bytes();
        assert_eq!(
            bytes[..32],
            *b"\x42w\0n\0.\0f\0o\0\x0F\0\x07x\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\0\xFF\xFF\xFF\xFF"
        );
        assert_eq!(bytes[32..64], *b"\x01T\0h\0e\0 \0q\0\x0F\0\x07u\0i\0c\0k\0 \0b\0\0\0r\0o\0");
        assert_eq!(bytes[64..75], *b"THEQUI~1FOX");
        assert_eq!(bytes.len(), 96);
    }

    #[test]
    fn every_length_comes_back() {
        for length in 9..=LONGEST_NAME {
            let name: String = ('a'..='z').cycle().take(length).collect();
            let set = set(&name);
            assert_eq!(set.long.len(), length.div_ceil(13));
            assert_eq!(read(&set), Ok(Some(Name::from(name.as_str()))), "length {length}");
        }
        assert!(
            EntrySet::new(&Name::from("x".repeat(256).as_str()), ShortEntry::default(), |_| false).is_err()
        );
    }

    /// FAT's rules forbid what those of Windows do, and U+FFFF.
    #[test]
    fn the_rules_are_those_of_windows_and_one_more() {
        assert_eq!(NAMES.forbidden, format!("{}\u{FFFF}", NameRules::WINDOWS.forbidden));
    }

    /// Whatever name is accepted comes back: with every unit at the beginning, in the middle and at the end, alone, and
    /// where the last part of the name is full.
    #[test]
    fn every_name_that_is_accepted_comes_back() {
        let [a, dot] = [b'a', b'.'].map(u16::from);
        let mut refused = 0;
        for unit in 0..=u16::MAX {
            let full = [[a; 12].as_slice(), &[unit]].concat();
            let longest = [[a; 254].as_slice(), &[unit]].concat();
            let names: [&[u16]; 9] = [
                &[unit],
                &[unit, a, a],
                &[a, unit, a],
                &[a, a, unit],
                &[a, dot, unit],
                &[unit, dot, a],
                &[unit, unit],
                &full,
                &longest,
            ];
            for units in names {
                let name = Name::from_units(units);
                let Ok(set) = EntrySet::new(&name, ShortEntry::default(), |_| false) else {
                    refused += 1;
                    continue;
                };
                assert!(set.short.name.is_valid(), "{units:04X?}: {:02X?}", set.short.name.0);
                let shown = read(&set).unwrap().unwrap_or_else(|| set.short.name.to_name(set.short.nt));
                assert_eq!(shown, name, "{units:04X?}");
            }
        }
        // U+0000, FFFF, 31 control characters and 9 others, and dots and spaces at the end.
        assert_eq!(refused, (2 + 31 + 9) * 9 + 2 * 6);
    }

    #[test]
    fn a_name_in_one_case_needs_no_parts_unless_its_short_name_is_taken() {
        assert_eq!(set("readme.txt").slots(), 1);
        let taken = |short: &ShortName| short.0 == *b"README  TXT";
        let set = EntrySet::new(&Name::from("readme.txt"), ShortEntry::default(), taken).unwrap();
        assert_eq!((set.slots(), set.short.name), (2, ShortName(*b"README~1TXT")));
        assert_eq!(read(&set), Ok(Some(Name::from("readme.txt"))));
    }

    #[test]
    fn characters_that_others_write_are_read() {
        for unit in "\"*:<>?\\|\u{1}\u{1f}".encode_utf16() {
            let mut set = set("a long name");
            set.long[0].units[1] = unit;
            let mut name: Vec<u16> = "a long name".encode_utf16().collect();
            name[1] = unit;
            assert_eq!(read(&set), Ok(Some(Name::from_units(&name))), "{unit:04X}");
        }
    }

    #[test]
    fn faults() {
        let good = set("a name of four parts, so that order matters");
        let with = |change: fn(&mut EntrySet)| {
            let mut set = good.clone();
            change(&mut set);
            read(&set)
        };
        assert_eq!(with(|set| set.long.swap(1, 2)), Err(LongNameFault::Order));
        assert_eq!(with(|set| set.long.truncate(3)), Err(LongNameFault::Order));
        assert_eq!(with(|set| set.long.rotate_left(1)), Err(LongNameFault::Order));
        assert_eq!(with(|set| set.long[1].checksum ^= 1), Err(LongNameFault::Checksum));
        assert_eq!(with(|set| set.short.name.0[0] ^= 1), Err(LongNameFault::Checksum));
        assert_eq!(with(|set| set.long[0].units[0] = 0), Err(LongNameFault::Text));
        assert_eq!(with(|set| set.long[1].units[3] = 0), Err(LongNameFault::Text));
        assert_eq!(with(|set| set.long[1].units[3] = u16::from(b'/')), Err(LongNameFault::Text));
        // In the last part: a space that became the terminator, and a terminator that became a character.
        assert_eq!(with(|set| set.long[0].units[0] = 0), Err(LongNameFault::Text));
        let end = good.long[0].units.iter().position(|&unit| unit == 0).unwrap();
        assert!((1..LongEntry::UNITS - 1).contains(&end));
        assert_eq!(with(|set| set.long[0].units[1] = 0), Err(LongNameFault::Text));
        let mut lost = good.clone();
        lost.long[0].units[end] = 0x1000;
        assert_eq!(read(&lost), Err(LongNameFault::Text));
        let mut zeroes = good.clone();
        zeroes.long[0].units[end..].fill(0);
        assert_eq!(read(&zeroes).unwrap(), read(&good).unwrap());
        assert_eq!(with(|set| set.long[0].order = 0x40), Err(LongNameFault::Order));
        assert_eq!(with(|set| set.long[0].order = 0x7F), Err(LongNameFault::Order));
        let mut long = LongName::default();
        long.push(&good.long[0]).unwrap();
        assert_eq!(long.push(&good.long[0]), Err(LongNameFault::Orphan));
        assert_eq!(long.slots(), 1);
        assert_eq!(long.abandon(), Err(LongNameFault::Orphan));
        assert_eq!(long.abandon(), Ok(()));
        assert_eq!(long.finish(&ShortName::default()), Ok(None));
    }
}
