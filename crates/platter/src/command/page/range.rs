//! Which bytes of a content are asked for (RFC 9110, 14).

use std::ops::Range;

/// What the header `Range` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// All of it: no range, or a form that need not be served (several ranges, other units).
    All,
    /// These bytes.
    Part(Range<u64>),
    /// Bytes that are not there.
    Nothing,
}

/// Reads the value of the header for a content of this size.
pub(super) fn asked(value: Option<&str>, size: u64) -> Asked {
    let Some(range) = value.and_then(|value| value.trim().strip_prefix("bytes=")) else { return Asked::All };
    let Some((first, last)) = range.trim().split_once('-') else { return Asked::All };
    // A number beyond all sizes is one, too.
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    let (start, end) = match (number(first), number(last)) {
        (Some(start), Some(last)) if start <= last => (start, last.saturating_add(1).min(size)),
        (Some(start), None) if last.is_empty() => (start, size),
        (None, Some(count)) if first.is_empty() => (size.saturating_sub(count), size),
        _ => return Asked::All,
    };
    if start < end { Asked::Part(start..end) } else { Asked::Nothing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_standard_says() {
        let of = |text| asked(Some(text), 100);
        assert_eq!(asked(None, 100), Asked::All);
        for (text, range) in [
            ("bytes=0-0", 0..1),
            ("bytes=10-19", 10..20),
            ("bytes=90-", 90..100),
            ("bytes=-5", 95..100),
            ("bytes=-500", 0..100),
            ("bytes=99-99999999999999999999999", 99..100),
        ] {
            assert_eq!(of(text), Asked::Part(range), "{text}");
        }
        for text in ["bytes=100-", "bytes=-0", "bytes=99999999999999999999-"] {
            assert_eq!(of(text), Asked::Nothing, "{text}");
        }
        for text in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=5-2",
            "bytes=1-2,4-5",
            "lines=1-2",
            "bytes=a-b",
            "bytes=+1-2",
        ] {
            assert_eq!(of(text), Asked::All, "{text}");
        }
        assert_eq!(asked(Some("bytes=0-"), 0), Asked::Nothing);
    }
}
