//! The content of a file for the eye: text where it is text, and hexadecimal digits otherwise.

use crate::command::failure::printable;

/// The bytes that are read at a time.
pub(in crate::command) const WINDOW: usize = 64 << 10;

/// The bytes of a line of hexadecimal digits.
const ROW: usize = 16;

/// The columns from one stop of a tab to the next.
const TAB: usize = 4;

/// A window of a content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::command) struct Preview {
    /// Where the window begins.
    pub(in crate::command) offset: u64,
    /// Where the next one begins.
    pub(in crate::command) end: u64,
    /// The size of the whole content.
    pub(in crate::command) size: u64,
    bytes: Vec<u8>,
    encoding: Encoding,
}

/// How bytes are text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Encoding {
    #[default]
    Utf8,
    Utf16Le,
    Utf16Be,
    /// They are none.
    Binary,
}

impl Preview {
    /// A window that was read from `offset` on of a content of this size.
    pub(in crate::command) fn new(bytes: &[u8], offset: u64, size: u64) -> Preview {
        let is_last = offset.saturating_add(bytes.len() as u64) >= size;
        let encoding = encoding(bytes, offset > 0);
        let mut bytes = bytes.to_vec();
        // The next window begins with a whole line, or at least with a whole character.
        if encoding == Encoding::Utf8 && !is_last {
            let whole = bytes.iter().rposition(|&byte| byte == b'\n').map(|at| at + 1);
            let whole = whole.unwrap_or_else(|| whole_characters(&bytes));
            bytes.truncate(whole.max(1));
        }
        let end = offset.saturating_add(bytes.len() as u64);
        Preview { offset, end, size, bytes, encoding }
    }

    /// Whether it is shown as text.
    pub(in crate::command) fn is_text(&self) -> bool {
        self.encoding != Encoding::Binary
    }

    /// The lines: text, or hexadecimal digits if it is none or `as_hex` says so. No line has a control character.
    pub(in crate::command) fn lines(&self, as_hex: bool) -> Vec<String> {
        let text = match self.encoding {
            _ if as_hex => return self.hex(),
            Encoding::Binary => return self.hex(),
            Encoding::Utf8 => String::from_utf8_lossy(&self.bytes).into_owned(),
            Encoding::Utf16Le => utf16(&self.bytes, u16::from_le_bytes),
            Encoding::Utf16Be => utf16(&self.bytes, u16::from_be_bytes),
        };
        text.trim_start_matches('\u{feff}').lines().map(line).collect()
    }

    fn hex(&self) -> Vec<String> {
        let row = |(number, bytes): (usize, &[u8])| {
            let mut digits = String::new();
            let mut text = String::new();
            for at in 0..ROW {
                digits += if at == ROW / 2 { "  " } else { " " };
                match bytes.get(at) {
                    Some(byte) => {
                        digits += &format!("{byte:02x}");
                        text.push(if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '.' });
                    }
                    None => digits += "  ",
                }
            }
            format!("{:08x}{digits}  {text}", self.offset.saturating_add((number * ROW) as u64))
        };
        self.bytes.chunks(ROW).enumerate().map(row).collect()
    }
}

/// A line with its tabs as blanks, and without what would move the cursor.
fn line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let mut columns = 0;
    for c in text.trim_end_matches('\r').chars() {
        let blanks = TAB - columns % TAB;
        match c {
            '\t' => {
                line.extend(std::iter::repeat_n(' ', blanks));
                columns += blanks;
            }
            c => {
                line.push(c);
                columns += 1;
            }
        }
    }
    printable(&line)
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// How many of the bytes are whole characters of UTF-8: a window may end inside one.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

/// Finds out how bytes are text. A window in the middle may begin inside a character.
fn encoding(bytes: &[u8], is_later: bool) -> Encoding {
    match bytes {
        [0xFF, 0xFE, rest @ ..] if !is_later && is_plain(&utf16(rest, u16::from_le_bytes)) => {
            return Encoding::Utf16Le;
        }
        [0xFE, 0xFF, rest @ ..] if !is_later && is_plain(&utf16(rest, u16::from_be_bytes)) => {
            return Encoding::Utf16Be;
        }
        _ => {}
    }
    let is_continued = |byte: &&u8| is_later && (0x80..0xC0).contains(*byte);
    let inside = bytes.iter().take(3).take_while(is_continued).count();
    let text = &bytes[inside..];
    match std::str::from_utf8(&text[..whole_characters(text)]) {
        Ok(text) if is_plain(text) => Encoding::Utf8,
        _ => Encoding::Binary,
    }
}

/// Whether text has no control characters but those of text files: ends of lines and pages, tabs, and the escapes of colours.
fn is_plain(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\x0c' | '\x1b'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> Vec<String> {
        Preview::new(bytes, 0, bytes.len() as u64).lines(false)
    }

    #[test]
    fn text_is_shown_as_text_and_harms_no_terminal() {
        assert_eq!(shown("a\tb\r\nGrüße\n".as_bytes()), ["a   b", "Grüße"]);
        assert_eq!(shown(b"\x1b[31mred"), ["?[31mred"]);
        assert_eq!(shown("a\u{202e}b".as_bytes()), ["a?b"]);
        assert_eq!(shown(b"\xFF\xFEa\0\n\0b\0"), ["a", "b"]);
        assert_eq!(shown(b"\xFE\xFF\0a"), ["a"]);
        assert_eq!(shown(b""), [] as [&str; 0]);
    }

    #[test]
    fn other_bytes_are_shown_as_digits() {
        assert_eq!(
            shown(b"\x7fELF\0 text after it"),
            [
                "00000000 7f 45 4c 46 00 20 74 65  78 74 20 61 66 74 65 72  .ELF. text after",
                "00000010 20 69 74                                           it",
            ]
        );
        let text = Preview::new(b"ab", 32, 34);
        assert!(text.is_text());
        assert!(text.lines(true)[0].starts_with("00000020 61 62  "));
    }

    #[test]
    fn windows_meet_at_whole_lines_and_characters() {
        let text = "ä".repeat(10);
        let first = Preview::new(&text.as_bytes()[..5], 0, 20);
        assert!(first.is_text());
        assert_eq!((first.end, first.lines(false)), (4, vec!["ää".to_string()]));
        let second = Preview::new(b"one\ntwo\nthr", 0, 100);
        assert_eq!(second.end, 8);
        // A window whose beginning is somebody else's choice.
        assert!(Preview::new(&text.as_bytes()[1..], 1, 20).is_text());
        assert_eq!(Preview::new(&[0xFF; 4], u64::MAX - 1, 3).end, u64::MAX);
    }
}
