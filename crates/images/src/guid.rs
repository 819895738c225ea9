//! Identifiers of 128 bits, in the byte order of Windows.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// An identifier (GUID) as it is stored: the first three groups of its text are little-endian numbers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// The identifier of nothing.
    pub const ZERO: Guid = Guid([0; 16]);

    /// An identifier that no other image has. The random bits are those by which the standard library keeps hash
    /// tables from being predicted, which the operating system provides.
    pub fn random() -> Guid {
        let half = || RandomState::new().hash_one(std::process::id()).to_le_bytes();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&half());
        bytes[8..].copy_from_slice(&half());
        // Version 4 of RFC 9562: random.
        bytes[7] = bytes[7] & 0x0F | 0x40;
        bytes[8] = bytes[8] & 0x3F | 0x80;
        Guid(bytes)
    }

    /// Parses text such as `{2dc27766-f623-4200-9d64-115e9bfd4a08}`, with or without braces.
    pub fn parse(text: &str) -> Option<Guid> {
        let text = text.trim().trim_start_matches('{').trim_end_matches('}');
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
        if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let value =
            |at: usize| u8::from_str_radix(std::str::from_utf8(&digits[2 * at..][..2]).ok()?, 16).ok();
        let mut bytes = [0; 16];
        for (at, from) in [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15].into_iter().enumerate() {
            bytes[at] = value(from)?;
        }
        Some(Guid(bytes))
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (position, at) in [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15].into_iter().enumerate() {
            let hyphen = if matches!(position, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{hyphen}{:02x}", self.0[at])?;
        }
        f.write_str("}")
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_are_those_of_windows() {
        let text = "{2dc27766-f623-4200-9d64-115e9bfd4a08}";
        let guid = Guid::parse(text).unwrap();
        assert_eq!(guid.0[..8], [0x66, 0x77, 0xC2, 0x2D, 0x23, 0xF6, 0x00, 0x42]);
        assert_eq!(guid.to_string(), text);
        assert_eq!(Guid::parse("2DC27766F62342009D64115E9BFD4A08"), Some(guid));
        for wrong in
            ["", "{}", "{2dc27766-f623-4200-9d64-115e9bfd4a0}", "{2dc27766-f623-4200-9d64-115e9bfd4aöx}"]
        {
            assert_eq!(Guid::parse(wrong), None);
        }
        assert_ne!(Guid::random(), Guid::random());
    }
}
