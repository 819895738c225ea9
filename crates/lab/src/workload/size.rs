//! Sizes as people type them.

/// Bytes from text such as `512`, `4k`, `64M`, `1.5G` or `16TiB`: units are powers of 1,024, in either case, with or
/// without `B` or `iB`.
///
/// # Errors
/// A sentence that says what is expected.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("size {text:?}: expected a number with an optional unit k, M, G, T or P");
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let unit = unit.trim().to_ascii_lowercase();
    let unit = unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit);
    let shift = match unit {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        _ => return Err(wrong()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(1 << shift).ok_or_else(wrong);
    }
    let bytes = number.parse::<f64>().map_err(|_| wrong())? * (1u64 << shift) as f64;
    if bytes.is_finite() && bytes < 9e18 { Ok(bytes as u64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_binary_and_nonsense_is_refused() {
        assert_eq!(parse_size("4k"), Ok(4096));
        assert_eq!(parse_size("64M"), Ok(64 << 20));
        assert_eq!(parse_size("1.5GiB"), Ok(3 << 29));
        assert_eq!(parse_size(" 16 TB"), Ok(16 << 40));
        for wrong in ["", "k", "4x", "-1", "99999999999P", "1.2.3", "4 k k"] {
            assert!(parse_size(wrong).is_err(), "{wrong:?}");
        }
    }
}
