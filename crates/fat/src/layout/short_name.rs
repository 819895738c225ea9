//! Short names (8.3), aliases of long names, and labels (fatgen103, "Short Directory Entry Names" and "Name Limits
//! and Character Sets").

use super::code_page;
use platter_vfs::{Error, Name, NameRule, Result};
use std::fmt;

/// `DIR_Name`: a base of eight bytes and an extension of three, padded with spaces, in the OEM code page. A first
/// byte of 05 means the character E5, because a first byte E5 marks a deleted entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShortName(pub [u8; 11]);

/// The bits of `DIR_NTRes` by which Windows NT keeps the case of a name that needs no long name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NtCase;

impl NtCase {
    /// The base is lower case.
    pub const LOWER_BASE: u8 = 0x08;
    /// The extension is lower case.
    pub const LOWER_EXTENSION: u8 = 0x10;
    /// The short name is only a filler, not to be shown. Some builds of Linux wrote this.
    pub const NO_SHORT_NAME: u8 = 0x20;
}

/// The punctuation that is allowed in a short name, besides letters, digits and bytes from 80 on.
const MARKS: &[u8] = b"$%'-_@~`!(){}^#&";

fn allowed(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte >= 0x80 || MARKS.contains(&byte)
}

impl Default for ShortName {
    fn default() -> ShortName {
        ShortName([b' '; 11])
    }
}

impl ShortName {
    /// The name of a directory's entry for itself.
    pub const DOT: ShortName = ShortName(*b".          ");
    /// The name of a directory's entry for its parent.
    pub const DOT_DOT: ShortName = ShortName(*b"..         ");

    /// Returns the short name that expresses `name` exactly, and the value of `DIR_NTRes`. Such a name has a base of
    /// at most eight and an extension of at most three allowed ASCII characters, each in one case. `None` if it needs
    /// a long name.
    pub fn exact(name: &Name) -> Option<(ShortName, u8)> {
        let text: Vec<u8> =
            name.units().iter().map(|&unit| u8::try_from(unit).ok()).collect::<Option<_>>()?;
        let (base, extension) = match text.iter().position(|&byte| byte == b'.') {
            Some(dot) if dot + 1 < text.len() => (&text[..dot], &text[dot + 1..]),
            Some(_) => return None,
            None => (&text[..], &[][..]),
        };
        if !(1..=8).contains(&base.len()) || extension.len() > 3 {
            return None;
        }
        let one_case = |part: &[u8]| {
            let lower = part.iter().any(u8::is_ascii_lowercase);
            let upper = part.iter().any(u8::is_ascii_uppercase);
            let valid = part.iter().all(|byte| byte.is_ascii() && allowed(byte.to_ascii_uppercase()));
            (valid && !(lower && upper)).then_some(lower)
        };
        let mut nt = 0;
        if one_case(base)? {
            nt |= NtCase::LOWER_BASE;
        }
        if one_case(extension)? {
            nt |= NtCase::LOWER_EXTENSION;
        }
        Some((ShortName::of_parts(base, extension), nt))
    }

    fn of_parts(base: &[u8], extension: &[u8]) -> ShortName {
        let mut short = ShortName::default();
        short.0[..base.len()].copy_from_slice(base);
        short.0[8..8 + extension.len()].copy_from_slice(extension);
        short.0.make_ascii_uppercase();
        short
    }

    /// Returns an alias for a name that needs a long name. The alias differs from all short names for which `exists`
    /// returns true.
    ///
    /// The basis follows fatgen103, "The Basis-Name Generation Algorithm": spaces and leading periods are omitted;
    /// characters that a short name cannot contain become "_" (here also all outside ASCII); the extension is the
    /// text after the last period. If only the case was changed and the basis is not taken, the basis is the alias;
    /// otherwise it gets a tail from "~1" to "~999999". The tails "~1" to "~9" are tried in order; after them the
    /// search starts at a number that is a hash of the name, so that in a directory of ten thousand similar names
    /// each takes only a few tries.
    ///
    /// `exists` must return true for the short name of every entry of the directory, and should do so for long names
    /// that look like short ones. `None` if all aliases are taken.
    pub fn alias(name: &Name, mut exists: impl FnMut(&ShortName) -> bool) -> Option<ShortName> {
        let Basis { base, extension, changed } = Basis::of(name);
        let basis = ShortName::of_parts(&base, &extension);
        if !changed && !exists(&basis) {
            return Some(basis);
        }
        let mut numbered = |number: u32| {
            let tail = format!("~{number}");
            let mut base = base[..base.len().min(8 - tail.len())].to_vec();
            base.extend(tail.as_bytes());
            let short = ShortName::of_parts(&base, &extension);
            (!exists(&short)).then_some(short)
        };
        const LAST: u32 = 999_999;
        let start = name.units().iter().fold(0x811C_9DC5u32, |hash, &unit| {
            // FNV-1a over the UTF-16 units.
            (hash ^ u32::from(unit)).wrapping_mul(0x0100_0193)
        });
        (1..=9).find_map(&mut numbered).or_else(|| {
            let span = LAST - 9;
            (0..span).find_map(|step| numbered(10 + (start % span + step) % span))
        })
    }

    /// Returns the checksum that ties the parts of a long name to their short entry (fatgen103, "ChkSum").
    pub fn checksum(&self) -> u8 {
        self.0.iter().fold(0, |sum: u8, &byte| sum.rotate_right(1).wrapping_add(byte))
    }

    /// Whether this is "." or "..".
    pub fn is_dots(&self) -> bool {
        *self == ShortName::DOT || *self == ShortName::DOT_DOT
    }

    /// Whether the first byte is allowed in a short name, and every other byte is allowed or a space. Small letters,
    /// and spaces that are followed by other characters, are accepted, since some systems write them.
    pub fn is_valid(&self) -> bool {
        let [first, rest @ ..] = self.to_upper().0;
        let first = if first == 0x05 { 0xE5 } else { first };
        allowed(first) && rest.iter().all(|&byte| allowed(byte) || byte == b' ')
    }

    /// Whether the name has small letters. Only capitals are allowed in a short name (fatgen103), but some cameras and
    /// players write small letters. Linux and mtools show such names as they are, and Windows does not find them.
    pub fn has_small_letters(&self) -> bool {
        self.0.iter().any(u8::is_ascii_lowercase)
    }

    /// Returns the name with capitals in place of small letters.
    pub fn to_upper(self) -> ShortName {
        ShortName(self.0.map(|byte| byte.to_ascii_uppercase()))
    }

    /// Returns `nt` with the case bits with which the name in capitals is shown as this name is shown now; returns `nt`
    /// unchanged if no case bits do this.
    pub fn case_bits_of_capitals(&self, nt: u8) -> u8 {
        const BITS: u8 = NtCase::LOWER_BASE | NtCase::LOWER_EXTENSION;
        let (shown, capitals) = (self.to_name(nt), self.to_upper());
        let ways = [0, NtCase::LOWER_BASE, NtCase::LOWER_EXTENSION, BITS].map(|bits| nt & !BITS | bits);
        ways.into_iter().find(|&nt| capitals.to_name(nt) == shown).unwrap_or(nt)
    }

    /// Returns the name with "_" in place of each character that is not allowed in a short name.
    pub fn sanitised(&self) -> ShortName {
        let upper = self.to_upper().0;
        let mut clean = ShortName(upper.map(|byte| if allowed(byte) || byte == b' ' { byte } else { b'_' }));
        match self.0[0] {
            0x05 => clean.0[0] = 0x05,
            b' ' => clean.0[0] = b'_',
            _ => {}
        }
        clean
    }

    /// Returns the name that a user sees when there is no long name. A byte that no name may contain is shown as "_".
    pub fn to_name(&self, nt: u8) -> Name {
        let mut bytes = self.0;
        if bytes[0] == 0x05 {
            bytes[0] = 0xE5;
        }
        let (base, extension) = bytes.split_at(8);
        let mut units = Vec::with_capacity(12);
        show(base, nt & NtCase::LOWER_BASE != 0, &mut units);
        if extension != b"   " {
            units.push(u16::from(b'.'));
            show(extension, nt & NtCase::LOWER_EXTENSION != 0, &mut units);
        }
        Name::from_units(&units)
    }
}

/// Appends the shown form of the base or the extension of a short name. Every character of the code page is one
/// UTF-16 unit.
fn show(part: &[u8], lower: bool, units: &mut Vec<u16>) {
    let length = part.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    units.extend(part[..length].iter().map(|&byte| match byte {
        0..=0x1F | 0x7F | b'"' | b'*' | b'/' | b':' | b'<' | b'>' | b'?' | b'\\' | b'|' => u16::from(b'_'),
        _ if lower => single(code_page::decode(byte).to_lowercase(), code_page::decode(byte)),
        _ => single(std::iter::empty(), code_page::decode(byte)),
    }));
}

/// Returns the single character of `mapped` as a UTF-16 unit, or `otherwise` if `mapped` has none or several, or one
/// that needs two units.
fn single(mut mapped: impl Iterator<Item = char>, otherwise: char) -> u16 {
    let unit = |character: char| u16::try_from(u32::from(character)).ok();
    match (mapped.next().and_then(unit), mapped.next()) {
        (Some(mapped), None) => mapped,
        _ => unit(otherwise).unwrap_or(0xFFFD),
    }
}

/// The basis of an alias.
struct Basis {
    base: Vec<u8>,
    extension: Vec<u8>,
    /// Whether the basis differs from the name in more than case.
    changed: bool,
}

impl Basis {
    fn of(name: &Name) -> Basis {
        let mut changed = false;
        let mut text = Vec::with_capacity(name.units().len());
        for character in char::decode_utf16(name.units().iter().copied()) {
            match character {
                Ok(' ') => changed = true,
                Ok('.') if text.is_empty() => changed = true,
                Ok('.') => text.push(b'.'),
                Ok(character) if character.is_ascii() && allowed(character.to_ascii_uppercase() as u8) => {
                    text.push(character.to_ascii_uppercase() as u8);
                }
                _ => {
                    changed = true;
                    text.push(b'_');
                }
            }
        }
        let first = text.iter().position(|&byte| byte == b'.').unwrap_or(text.len());
        let extension = match text.iter().rposition(|&byte| byte == b'.') {
            Some(last) => &text[last + 1..],
            None => &[],
        };
        changed |= first > 8 || extension.len() > 3 || first + extension.len() + 1 < text.len();
        let mut base = text[..first.min(8)].to_vec();
        if base.is_empty() {
            changed = true;
            base.push(b'_');
        }
        Basis { base, extension: extension[..extension.len().min(3)].to_vec(), changed }
    }
}

impl fmt::Debug for ShortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// A volume's label: eleven bytes in the OEM code page, padded with spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(pub [u8; 11]);

impl Label {
    /// The characters that are not allowed in a label, besides control characters.
    const FORBIDDEN: &[u8] = b"\"*+,./:;<=>?[\\]|";

    /// Whether the label is nothing but spaces, which means that there is none. Old versions of fatlabel left such an
    /// entry when they removed a label.
    pub fn is_blank(&self) -> bool {
        self.0 == [b' '; 11]
    }

    /// Whether two labels are the same. In the boot sector a first character E5 may stand as it is, because no byte there
    /// marks a deleted entry; in the root directory it is 05.
    pub fn is_same(&self, other: &Label) -> bool {
        let [ours, theirs] = [self, other].map(|label| (label.0[0], &label.0[1..]));
        let first = |byte| if byte == 0xE5 { 0x05 } else { byte };
        (first(ours.0), ours.1) == (first(theirs.0), theirs.1)
    }

    /// Whether the label is valid. Lower-case letters are, because not all systems convert them to upper case.
    pub fn is_valid(&self) -> bool {
        self.0[0] != b' ' && (0..self.0.len()).all(|at| self.is_valid_at(at))
    }

    fn is_valid_at(&self, at: usize) -> bool {
        let byte = self.0[at];
        (byte >= 0x20 || byte == 0x05 && at == 0) && byte != 0x7F && !Label::FORBIDDEN.contains(&byte)
    }

    /// Returns the label with other characters in place of those that are not allowed.
    pub fn sanitised(&self) -> Label {
        let mut bytes = self.0;
        for (at, byte) in bytes.iter_mut().enumerate() {
            if !self.is_valid_at(at) || *byte == b' ' && at == 0 {
                *byte = if *byte < 0x20 && at > 0 { b' ' } else { b'_' };
            }
        }
        Label(bytes)
    }

    /// Makes a label with this text, in upper case as DOS and Windows keep it.
    ///
    /// # Errors
    /// [`Error::InvalidName`] if the text is empty, longer than eleven characters, starts with a space, or has a
    /// character that code page 850 or the format does not allow.
    pub fn new(text: &str) -> Result<Label> {
        let invalid = |rule, reason| Err(Error::InvalidName { name: text.into(), rule, reason });
        let mut bytes = [b' '; 11];
        if text.is_empty() || text.starts_with(' ') {
            return invalid(NameRule::Ends, "a label does not start with a space and is not empty");
        }
        for (at, character) in text.chars().enumerate() {
            if at == bytes.len() {
                return invalid(
                    NameRule::Length,
                    "a FAT label is at most 11 characters long: it is too long",
                );
            }
            let upper =
                char::from_u32(u32::from(single(character.to_uppercase(), character))).unwrap_or(character);
            match code_page::encode(upper) {
                Some(0..=0x1F | 0x7F) => {
                    return invalid(NameRule::Characters, "a label contains no control characters");
                }
                Some(byte) if Label::FORBIDDEN.contains(&byte) => {
                    return invalid(NameRule::Characters, "a label contains none of \"*+,./:;<=>?[\\]|");
                }
                Some(byte) => bytes[at] = byte,
                None => {
                    return invalid(
                        NameRule::Characters,
                        "a label contains only characters of code page 850",
                    );
                }
            }
        }
        if bytes[0] == 0xE5 {
            bytes[0] = 0x05;
        }
        Ok(Label(bytes))
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String =
            self.0.iter().map(|&byte| code_page::decode(if byte == 0x05 { 0xE5 } else { byte })).collect();
        f.write_str(text.trim_end_matches(' '))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn alias(name: &str, taken: &[&[u8; 11]]) -> String {
        let alias = ShortName::alias(&Name::from(name), |short| taken.contains(&&short.0)).unwrap();
        String::from_utf8(alias.0.to_vec()).unwrap()
    }

    #[test]
    fn names_that_need_no_long_one() {
        let exact = |name: &str| ShortName::exact(&Name::from(name));
        assert_eq!(exact("README.TXT"), Some((ShortName(*b"README  TXT"), 0)));
        assert_eq!(exact("readme.txt"), Some((ShortName(*b"README  TXT"), 0x18)));
        assert_eq!(exact("README.txt"), Some((ShortName(*b"README  TXT"), 0x10)));
        assert_eq!(exact("a"), Some((ShortName(*b"A          "), 0x08)));
        assert_eq!(exact("12345678.~1"), Some((ShortName(*b"12345678~1 "), 0)));
        for long in ["ReadMe.txt", "a b", "123456789", "a.html", "a.b.c", ".a", "a.", "ä", "a+b", "a,b", ""]
        {
            assert_eq!(exact(long), None, "{long:?}");
        }
        for name in ["README.TXT", "readme.txt", "README.txt", "a", "MAKEFILE.in"] {
            let (short, nt) = exact(name).unwrap();
            assert_eq!(short.to_name(nt), Name::from(name));
            assert!(short.is_valid());
        }
    }

    #[test]
    fn golden_aliases() {
        // The examples of fatgen103.
        assert_eq!(alias("The quick brown.fox", &[]), "THEQUI~1FOX");
        assert_eq!(alias("The quick brown.fox", &[b"THEQUI~1FOX"]), "THEQUI~2FOX");
        assert_eq!(alias("ReadMe.txt", &[]), "README  TXT");
        assert_eq!(alias("ReadMe.txt", &[b"README  TXT"]), "README~1TXT");
        assert_eq!(alias("a.b.c", &[]), "A~1     C  ");
        assert_eq!(alias(".profile", &[]), "PROFIL~1   ");
        assert_eq!(alias("a+b.html", &[]), "A_B~1   HTM");
        assert_eq!(alias("日本.txt", &[]), "__~1    TXT");
        assert_eq!(alias("😀", &[]), "_~1        ");
    }

    #[test]
    fn tens_of_thousands_of_similar_names_are_cheap() {
        let mut taken = HashSet::new();
        let mut asked = 0u64;
        for number in 0..30_000 {
            let name = Name::from(format!("photograph {number}.jpeg").as_str());
            let alias = ShortName::alias(&name, |short| {
                asked += 1;
                taken.contains(short)
            });
            assert!(alias.as_ref().unwrap().is_valid());
            assert!(taken.insert(alias.unwrap()));
        }
        assert!(asked < 30_000 * 15, "{asked} questions");
    }

    #[test]
    fn all_taken_is_said_and_every_tail_was_tried() {
        let mut asked = HashSet::new();
        let none = ShortName::alias(&Name::from("long name"), |short| {
            asked.insert(*short);
            true
        });
        assert_eq!((none, asked.len()), (None, 999_999));
    }

    #[test]
    fn checksum_of_a_real_entry() {
        // Written by mtools: alias THEQUI~1.FOX has the checksum 07.
        assert_eq!(ShortName(*b"THEQUI~1FOX").checksum(), 0x07);
    }

    #[test]
    fn kanji_lead_byte_and_forbidden_bytes() {
        assert_eq!(ShortName(*b"\x05BC     \x81  ").to_name(0), Name::from("ÕBC.ü"));
        assert_eq!(ShortName(*b"\x05BC     \x81  ").to_name(0x18), Name::from("õbc.ü"));
        assert_eq!(ShortName(*b"A/B\x01    ?  ").to_name(0), Name::from("A_B_._"));
        assert!(!ShortName(*b"A/B        ").is_valid());
        assert!(!ShortName(*b" AB        ").is_valid());
        assert!(ShortName(*b"A B        ").is_valid());
    }

    #[test]
    fn small_letters_are_read_and_capitals_can_stand_for_them() {
        for (small, nt, capitals, bits) in [
            (b"dsc001  jpg", 0, b"DSC001  JPG", 0x18),
            (b"dsc001  JPG", 0, b"DSC001  JPG", 0x08),
            (b"DSC001  jpg", 0x08, b"DSC001  JPG", 0x18),
            // No case bits show a name that mixes small letters and capitals.
            (b"Dsc001  jpg", 0, b"DSC001  JPG", 0),
        ] {
            let small = ShortName(*small);
            assert!(small.is_valid() && small.has_small_letters());
            assert_eq!((small.to_upper().0, small.case_bits_of_capitals(nt)), (*capitals, bits));
        }
        assert!(!ShortName(*b"DSC001  JPG").has_small_letters());
        assert!(!ShortName(*b"a*b        ").is_valid());
        // Bit 0, with which Windows marked an encrypted file, stays set.
        assert_eq!(ShortName(*b"abc        ").case_bits_of_capitals(0x01), 0x09);
    }

    #[test]
    fn labels() {
        assert_eq!(Label::new("Büro 1").unwrap().0, *b"B\x9aRO 1     ");
        assert_eq!(Label::new("Büro 1").unwrap().to_string(), "BÜRO 1");
        assert_eq!(Label::new("õ").unwrap().0[0], 0x05);
        assert_eq!(Label::new("õ").unwrap().to_string(), "Õ");
        for bad in ["", "twelve chars", " a", "a.b", "a/b", "€", "a\u{1}"] {
            assert!(Label::new(bad).is_err(), "{bad:?}");
        }
    }
}
