//! The OEM code page of short names and labels.
//!
//! A FAT volume does not say which code page its short names are in. Platter reads them as code page 850, the
//! default of dosfstools and mtools, which has the letters of Western Europe; 437 differs in 60 of them. It writes
//! only ASCII into the aliases of long names, so that these look the same under every code page. Labels have no long
//! form: they alone are written in code page 850.

use yore::code_pages::CP850;

/// The character of a byte; control characters stay what they are.
pub fn decode(byte: u8) -> char {
    CP850.decode_byte(byte)
}

/// The byte of a character, where the code page has it.
pub fn encode(character: char) -> Option<u8> {
    CP850.encode_char(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        assert_eq!((decode(0x81), decode(0x9A), decode(0xE5), decode(b'A')), ('ü', 'Ü', 'Õ', 'A'));
        assert_eq!(
            (encode('Ü'), encode('Õ'), encode('€'), encode('z')),
            (Some(0x9A), Some(0xE5), None, Some(b'z'))
        );
        for byte in 0..=255 {
            assert_eq!(encode(decode(byte)), Some(byte), "{byte:02X}");
        }
    }
}
