//! Sizes as people type and read them.

/// Bytes from text such as `512`, `4k`, `64M`, `1.5G` or `16TiB`. Units are binary: k, M, G, T, P and E, in either
/// case, with or without `iB` after them, are powers of 1,024. The decimal `kB` and `MB` are refused, because nobody
/// can tell which is meant.
///
/// # Errors
/// A message that says what is wrong with the text, for the command line to show.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong =
        || "expected a size such as 512, 4k, 64M or 16T (binary units: 1k is 1,024 bytes)".to_string();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let power = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 1,
        "m" | "mib" => 2,
        "g" | "gib" => 3,
        "t" | "tib" => 4,
        "p" | "pib" => 5,
        "e" | "eib" => 6,
        _ => return Err(wrong()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if fraction.is_empty() || fraction.len() > 18 || (power == 0 && number.contains('.')) {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let part: u64 = fraction.parse().map_err(|_| wrong())?;
    // The fraction in whole bytes, rounded down; in 128 bits nothing is lost before the division.
    let scale = 1_u128 << (10 * power);
    let bytes = u128::from(whole) * scale + u128::from(part) * scale / 10_u128.pow(fraction.len() as u32);
    u64::try_from(bytes).map_err(|_| "larger than any device can be".to_string())
}

/// Bytes in the binary unit that suits them, as `64 MiB` or `1.5 GiB`.
pub fn show_size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let step = (bytes.max(1).ilog2() / 10) as usize;
    let scale = 1_u64 << (10 * step);
    if bytes.is_multiple_of(scale) {
        format!("{} {}", bytes / scale, units[step])
    } else {
        format!("{:.1} {}", bytes as f64 / scale as f64, units[step])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("4k", 4096),
            ("4K", 4096),
            ("64M", 64 << 20),
            ("64MiB", 64 << 20),
            ("1.5G", 3 << 29),
            ("0.3k", 307),
            ("16T", 16 << 40),
            ("15E", 15 << 60),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in
            ["", "k", "4kb", "4MB", "-1", "1.5", "1.k", "1..5k", "1 k", "0x10", "16E", "99999999999999999999"]
        {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_show_with_one_decimal_at_most() {
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (4096, "4 KiB"), (1536 << 20, "1.5 GiB"), (1 << 62, "4 EiB")]
        {
            assert_eq!(show_size(bytes), text);
        }
    }
}
