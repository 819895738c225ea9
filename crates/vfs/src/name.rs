//! Names as the Windows formats hold them: UTF-16 units.

use crate::{Error, NameRule, Result};
use std::fmt;

/// The base of the UTF-16 units that represent bytes which are not UTF-8: such a byte is this value plus the byte.
const ESCAPE: u16 = 0xDC00;

/// The name of a directory entry: a sequence of UTF-16 units, exactly as the format stores it.
///
/// * Text converts both ways without loss.
/// * An unpaired surrogate, which Windows allows in names, is kept. Its POSIX form is the three bytes of the
///   generalised UTF-8 encoding (WTF-8), and those three bytes are read as the same unit.
/// * Any other byte that is not UTF-8 is the unit U+DC00 plus that byte, as in Python ("surrogateescape", PEP 383), and
///   that unit is written as the byte. So every name of a POSIX system can be held and is returned byte for byte.
/// * `==` compares units. Whether two names are equal *on a volume* depends on the volume's case rule ([`NameRules`]).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<[u16]>);

impl Name {
    /// A name of exactly these units.
    pub fn from_units(units: &[u16]) -> Name {
        Name(units.into())
    }

    /// A name from the bytes a POSIX program uses.
    pub fn from_bytes(bytes: &[u8]) -> Name {
        if let Ok(text) = std::str::from_utf8(bytes) {
            return Name::from(text);
        }
        // A unit decoded from three bytes could form a surrogate pair with the next one, which would give other bytes.
        let name = Name::of_bytes(bytes, true);
        if name.to_bytes() == bytes { name } else { Name::of_bytes(bytes, false) }
    }

    /// Decodes bytes: UTF-8 as text; the three bytes of an unpaired surrogate as that surrogate if `surrogates` is set;
    /// any other byte as a unit of its own.
    fn of_bytes(bytes: &[u8], surrogates: bool) -> Name {
        let mut units = Vec::with_capacity(bytes.len());
        let mut rest = bytes;
        while !rest.is_empty() {
            let valid = match std::str::from_utf8(rest) {
                Ok(text) => text,
                Err(error) => std::str::from_utf8(&rest[..error.valid_up_to()]).expect("checked just now"),
            };
            units.extend(valid.encode_utf16());
            rest = &rest[valid.len()..];
            match rest {
                [] => {}
                [0xED, second @ 0xA0..=0xBF, third @ 0x80..=0xBF, ..] if surrogates => {
                    units.push(0xD000 | u16::from(second & 0x3F) << 6 | u16::from(third & 0x3F));
                    rest = &rest[3..];
                }
                [byte, ..] => {
                    units.push(ESCAPE | u16::from(*byte));
                    rest = &rest[1..];
                }
            }
        }
        Name(units.into())
    }

    /// The bytes a POSIX program uses: UTF-8, where an unpaired surrogate is either the byte that it represents or its
    /// three bytes of generalised UTF-8.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * 3);
        for unit in char::decode_utf16(self.0.iter().copied()) {
            match unit {
                Ok(character) => bytes.extend(character.encode_utf8(&mut [0; 4]).bytes()),
                Err(lone) => {
                    let unit = lone.unpaired_surrogate();
                    if (ESCAPE | 0x80..=ESCAPE | 0xFF).contains(&unit) {
                        bytes.push(unit as u8);
                        continue;
                    }
                    bytes.extend([0xED, 0x80 | (unit >> 6 & 0x3F) as u8, 0x80 | (unit & 0x3F) as u8]);
                }
            }
        }
        bytes
    }

    /// The UTF-16 units.
    pub fn units(&self) -> &[u16] {
        &self.0
    }

    /// The units that `rule` compares: two names are equal on a volume if these are.
    pub fn folded(&self, rule: CaseRule) -> Box<[u16]> {
        match rule {
            CaseRule::Sensitive => self.0.clone(),
            CaseRule::Insensitive => self.0.iter().map(|&unit| upper_case(unit)).collect(),
        }
    }
}

/// The upper case of one UTF-16 unit, for formats that keep no table of their own.
///
/// It is Unicode's mapping to a single unit. The unit maps to itself where Unicode's mapping gives several ("ß"), where
/// the unit is half of a pair, and where a unit beyond ASCII would become an ASCII one ("ı"), on which systems
/// disagree.
pub fn upper_case(unit: u16) -> u16 {
    if unit < 0x80 {
        return if (0x61..=0x7A).contains(&unit) { unit - 0x20 } else { unit };
    }
    let Some(character) = char::from_u32(u32::from(unit)) else { return unit };
    let mut upper = character.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(single), None) if !single.is_ascii() => u16::try_from(u32::from(single)).unwrap_or(unit),
        _ => unit,
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Name {
        Name(text.encode_utf16().collect())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        char::decode_utf16(self.0.iter().copied())
            .try_for_each(|unit| fmt::Write::write_char(f, unit.unwrap_or(char::REPLACEMENT_CHARACTER)))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// How a volume compares names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseRule {
    /// Unit by unit.
    Sensitive,
    /// After mapping each unit to upper case; the case a name was created with is kept.
    Insensitive,
}

/// The names that a volume accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameRules {
    /// The longest name in UTF-16 units.
    pub longest: usize,
    /// How names compare.
    pub case: CaseRule,
    /// Characters that no name may contain, besides `/` and U+0000, which are always forbidden.
    pub forbidden: &'static str,
    /// Whether trailing dots and spaces are refused.
    pub no_trailing_dot_or_space: bool,
}

impl NameRules {
    /// The rules that the Windows formats share: 255 units, case-insensitive, none of `"*/:<>?\|` or control
    /// characters, no dot or space at the end.
    pub const WINDOWS: NameRules = NameRules {
        longest: 255,
        case: CaseRule::Insensitive,
        forbidden: "\"*:<>?\\|\u{1}\u{2}\u{3}\u{4}\u{5}\u{6}\u{7}\u{8}\u{9}\u{a}\u{b}\u{c}\u{d}\u{e}\u{f}\u{10}\u{11}\u{12}\u{13}\u{14}\u{15}\u{16}\u{17}\u{18}\u{19}\u{1a}\u{1b}\u{1c}\u{1d}\u{1e}\u{1f}",
        no_trailing_dot_or_space: true,
    };

    /// The rules for names of streams, in which fewer characters are forbidden than in names of files: `\`, `/`, `:` and
    /// U+0000 ([MS-FSCC] 2.1.5.3). Office, for one, calls a stream `\u{5}SummaryInformation`.
    pub const STREAM: NameRules =
        NameRules { forbidden: ":\\", no_trailing_dot_or_space: false, ..NameRules::WINDOWS };

    /// Whether an entry that is called `name` may be called `new_name`. Its present name is always allowed, since drivers
    /// for other systems make names that the rules forbid.
    ///
    /// # Errors
    /// As [`check`](NameRules::check).
    pub fn check_moved(&self, name: &Name, new_name: &Name) -> Result<()> {
        if name == new_name { Ok(()) } else { self.check(new_name) }
    }

    /// Whether a name is one that Windows gives to a device, with or without an extension: no program there can use such a
    /// file. Source: Microsoft, "Naming Files, Paths, and Namespaces".
    pub fn is_device(name: &Name) -> bool {
        let end = name.units().iter().position(|unit| *unit == u16::from(b'.')).unwrap_or(name.units().len());
        let base: Vec<u16> = name.units()[..end].iter().map(|unit| upper_case(*unit)).collect();
        let base = String::from_utf16_lossy(&base);
        match base.trim_end_matches(' ') {
            "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$" => true,
            other => ["COM", "LPT"].iter().any(|port| {
                let number = other.strip_prefix(port).map(|rest| rest.chars().collect::<Vec<_>>());
                matches!(number.as_deref(), Some(['1'..='9' | '¹' | '²' | '³']))
            }),
        }
    }

    /// Whether a new entry may have this name.
    ///
    /// # Errors
    /// [`Error::InvalidName`] with the rule that the name breaks.
    pub fn check(&self, name: &Name) -> Result<()> {
        let units = name.units();
        let invalid = |rule, reason| Err(Error::InvalidName { name: name.to_string(), rule, reason });
        if units.is_empty() {
            return invalid(NameRule::NotEmpty, "it is empty");
        }
        if units == [u16::from(b'.')] || units == [u16::from(b'.'), u16::from(b'.')] {
            return invalid(NameRule::NotReserved, "it is reserved");
        }
        if units.len() > self.longest {
            return invalid(NameRule::Length, "it is too long");
        }
        let forbidden = |unit: u16| {
            unit == 0
                || unit == u16::from(b'/')
                || char::from_u32(u32::from(unit)).is_some_and(|character| self.forbidden.contains(character))
        };
        if units.iter().any(|&unit| forbidden(unit)) {
            return invalid(NameRule::Characters, "it contains a character that the format forbids");
        }
        if self.no_trailing_dot_or_space
            && matches!(units.last(), Some(&unit) if unit == 0x20 || unit == 0x2E)
        {
            return invalid(NameRule::Ends, "it ends with a dot or a space");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_forbidden_stays_allowed_where_it_is() {
        let [allowed, forbidden] = ["a", "a?"].map(Name::from);
        let may = |name, new_name| NameRules::WINDOWS.check_moved(name, new_name).is_ok();
        assert!(may(&forbidden, &forbidden) && may(&forbidden, &allowed) && !may(&allowed, &forbidden));
    }

    #[test]
    fn lone_surrogates_and_bytes_that_are_no_text_survive() {
        let name = Name::from_units(&[0x61, 0xD800, 0x62, 0xDFFF]);
        assert_eq!(Name::from_bytes(&name.to_bytes()), name);
        let smile = Name::from("x😀.txt");
        assert_eq!(Name::from_bytes(&smile.to_bytes()), smile);
        assert_eq!(Name::from_bytes(b"a\xFFb").units(), [0x61, 0xDCFF, 0x62]);
        // All strings of five of the bytes at the boundaries of the encoding's ranges.
        let bytes = [b'a', 0x7F, 0x80, 0x9F, 0xA0, 0xB0, 0xB2, 0xBF, 0xC3, 0xED, 0xF0, 0xFF];
        for number in 0..bytes.len().pow(5) {
            let text: Vec<u8> = (0..5).map(|at| bytes[number / bytes.len().pow(at) % bytes.len()]).collect();
            assert_eq!(Name::from_bytes(&text).to_bytes(), text);
        }
    }

    #[test]
    fn folding_maps_unit_by_unit() {
        let name = Name::from("Grüße.Txt");
        assert_eq!(&*name.folded(CaseRule::Insensitive), Name::from("GRÜßE.TXT").units());
        assert_eq!(&*name.folded(CaseRule::Sensitive), name.units());
        assert_eq!(upper_case(0xD801), 0xD801);
        assert_eq!(upper_case('я' as u16), 'Я' as u16);
        assert_eq!(upper_case('ı' as u16), 'ı' as u16);
        assert_eq!(upper_case('ſ' as u16), 'ſ' as u16);
    }

    #[test]
    fn names_of_devices() {
        for name in ["CON", "nul", "NUL.txt", "aux.tar.gz", "COM1", "lpt9.x", "COM¹", "prn .txt", "ConIn$"] {
            assert!(NameRules::is_device(&name.into()), "{name}");
        }
        for name in ["CONSOLE", "COM", "COM0", "COM10", "x.NUL", ".CON", "LPT", "COM⁴", "NULL"] {
            assert!(!NameRules::is_device(&name.into()), "{name}");
        }
    }

    #[test]
    fn windows_rules() {
        let rules = NameRules::WINDOWS;
        for bad in ["", ".", "..", "a/b", "a:b", "tail.", "tail ", "a\u{1f}"] {
            assert!(rules.check(&Name::from(bad)).is_err(), "{bad:?}");
        }
        assert!(rules.check(&Name::from("é".repeat(255).as_str())).is_ok());
        assert!(rules.check(&Name::from("é".repeat(256).as_str())).is_err());
    }
}
