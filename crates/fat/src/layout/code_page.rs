//! The OEM code page of short names and labels.
//!
//! A FAT volume does not record the code page of its short names. Platter reads them as code page 850, the default of
//! dosfstools and mtools, which has the letters of Western Europe; code page 437 differs in 60 of them. Aliases of
//! long names are written in ASCII only, so that they are the same under every code page. Labels have no long form,
//! and are written in code page 850.

use yore::code_pages::CP850;

/// Returns the character of a byte; control characters are not changed.
pub(super) fn decode(byte: u8) -> char {
    CP850.decode_byte(byte)
}

/// Returns the byte of a character, if the code page has it.
pub(super) fn encode(character: char) -> Option<u8> {
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
