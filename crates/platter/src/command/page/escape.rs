//! Names of the volume in pages, addresses and headers.

use crate::command::failure::printable;
use platter_vfs::Name;
use std::fmt::Write;

/// Text in HTML, also in the value of an attribute between quotes. Control characters and marks of direction are replaced.
pub(super) fn html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            c => safe.push(c),
        }
    }
    safe
}

/// Bytes in an address: all but the unreserved characters of RFC 3986 (2.3) as a percent sign and two digits.
pub(super) fn percent(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(*byte))
            }
            byte => write!(text, "%{byte:02X}").expect("a string takes all"),
        }
    }
    text
}

/// The path of an entry of the volume in an address.
pub(super) fn path(names: &[Name]) -> String {
    names.iter().map(|name| format!("/{}", percent(&name.to_bytes()))).collect()
}

/// The bytes of which an address is made; `None` if a percent sign has no two digits.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        match rest {
            [] => return Some(bytes),
            [b'%', one, two, after @ ..] => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                bytes.push((digit(one)? * 16 + digit(two)?) as u8);
                rest = after;
            }
            [b'%', ..] => return None,
            [byte, after @ ..] => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
}

/// The names of a path in an address. `None` for what is no path of the volume: `.` and `..` lead nowhere, however they
/// are written.
pub(super) fn names(text: &str) -> Option<Vec<Name>> {
    let parts = text.split('/').filter(|part| !part.is_empty());
    let name = |part: &str| {
        let bytes = bytes(part)?;
        (!matches!(bytes[..], [b'.'] | [b'.', b'.']) && !bytes.contains(&0)).then(|| Name::from_bytes(&bytes))
    };
    parts.map(name).collect()
}

/// The value of a field in the query of an address.
pub(super) fn field(query: &str, name: &str) -> Option<Vec<u8>> {
    let fields = query.split('&').filter_map(|field| field.split_once('='));
    bytes(fields.into_iter().find(|(found, _)| *found == name)?.1)
}

/// The value of `Content-Disposition` for a file of this name (RFC 6266): a name of ASCII for whoever knows no other, and
/// the name itself (RFC 8187). A program that takes the name as it is gets no path.
pub(super) fn disposition(name: &str) -> String {
    let plain: String = printable(name)
        .chars()
        .map(|c| if matches!(c, '/' | '\\' | '?' | '*' | ':' | '|' | '<' | '>' | '"') { '_' } else { c })
        .collect();
    let plain = if plain.trim_matches('.').is_empty() { "file".to_string() } else { plain };
    let ascii = |c: char| if c.is_ascii_alphanumeric() || " ._-()[]+,=@".contains(c) { c } else { '_' };
    let ascii: String = plain.chars().map(ascii).collect();
    format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{}", percent(plain.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_text_everywhere() {
        let name = "<script>alert('x')</script>\"&\u{202e}\n";
        assert_eq!(html(name), "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;??");
        let header = disposition(name);
        assert!(!header.contains(['<', '\n', '\u{202e}']), "{header}");
        assert_eq!(disposition("a b.txt"), "attachment; filename=\"a b.txt\"; filename*=UTF-8''a%20b.txt");
        assert_eq!(disposition(".."), "attachment; filename=\"file\"; filename*=UTF-8''file");
        assert_eq!(disposition("ä/b"), "attachment; filename=\"__b\"; filename*=UTF-8''%C3%A4_b");
        assert_eq!(disposition("\"; x=\"").matches('"').count(), 2);
    }

    #[test]
    fn every_name_comes_back_from_its_address() {
        let hostile = [
            Name::from("a%2Fb"),
            Name::from("..x"),
            Name::from("#?&=+ ;\\"),
            Name::from("\u{1}\n<b>"),
            Name::from_units(&[0xD800, 0x61, 0xDFFF]),
            Name::from_bytes(b"\xFF\xFE"),
            Name::from("ä𝄞"),
        ];
        for name in &hostile {
            let text = path(std::slice::from_ref(name));
            assert!(
                text.bytes().all(|byte| byte.is_ascii_graphic()) && text.matches('/').count() == 1,
                "{text}"
            );
            assert_eq!(names(&text), Some(vec![name.clone()]));
        }
        assert_eq!(names("a//b/"), Some(vec![Name::from("a"), Name::from("b")]));
        for wrong in ["..", "%2e", ".%2E", "a/./b", "%", "%4", "%4g", "%00"] {
            assert_eq!(names(wrong), None, "{wrong}");
        }
        assert_eq!(field("a=1&stream=%3C", "stream"), Some(b"<".to_vec()));
        assert_eq!(field("a", "a"), None);
    }
}
