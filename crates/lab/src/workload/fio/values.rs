//! Parsers for fio's sizes, times, shares and switches.
//!
//! Facts: fio's `HOWTO`, "Parameter types" and `kb_base`; where the manual and the program disagree, what fio 3.33 does
//! (observed with jobs on `ioengine=null`, whose I/Os it counts): by default `1m` and `1mb` are 1,048,576 bytes and
//! `1mib` is 1,000,000; with `kb_base=1000` it is the other way round. For `1mi` the manual and the program disagree.

use std::time::Duration;

/// The meaning of `k` and `kib` in sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum KbBase {
    /// `k` is 1,024 and `kib` 1,000.
    #[default]
    Compatible,
    /// `k` is 1,000 and `kib` 1,024.
    International,
}

type Parsed<T> = std::result::Result<T, String>;

/// An integer with an optional unit: a size, or a plain number.
pub(super) fn number(text: &str, base: KbBase) -> Parsed<u64> {
    let factors = text.split('*').map(|factor| factor_of(factor.trim(), base));
    let product = factors.into_iter().try_fold(1_u64, |product, factor| {
        product.checked_mul(factor?).ok_or_else(|| "the number is too large".to_string())
    });
    match text.contains('*') && !text.contains('$') {
        // fio accepts a product only if one of its factors is a keyword such as `$pagesize`.
        true => Err("expected a whole number, with a unit or without".into()),
        false => product,
    }
}

fn factor_of(text: &str, base: KbBase) -> Parsed<u64> {
    match text {
        "$pagesize" => return Ok(page_size()),
        "$ncpus" => return Ok(std::thread::available_parallelism().map_or(1, |count| count.get() as u64)),
        "$mb_memory" => return Ok(platter_device::host::memory().0 >> 20),
        _ => {}
    }
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let split = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (digits, unit) = digits.split_at(split);
    let wrong = || "expected a whole number such as 512, 4k or 1g".to_string();
    let number = u64::from_str_radix(digits, radix).map_err(|_| wrong())?;
    let unit = unit.to_ascii_lowercase();
    let mut letters = unit.chars();
    let power = match letters.next() {
        None => 0,
        Some('b') if letters.as_str().is_empty() => 0,
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        Some('p') => 5,
        Some(_) => return Err(wrong()),
    };
    let is_inverted = match letters.as_str() {
        "" | "b" => false,
        "ib" if power > 0 => true,
        "i" => {
            return Err(format!(
                "fio's manual and fio itself disagree about what {unit} is; write {} or {unit}b",
                &unit[..1]
            ));
        }
        _ => return Err(wrong()),
    };
    let step: u64 = if (base == KbBase::Compatible) == is_inverted { 1000 } else { 1024 };
    number.checked_mul(step.pow(power)).ok_or_else(|| "the number is too large".to_string())
}

/// Parses a number that lies between `least` and `most`, both included.
pub(super) fn between(text: &str, base: KbBase, least: u64, most: u64) -> Parsed<u64> {
    let number = number(text, base)?;
    match (least..=most).contains(&number) {
        true => Ok(number),
        false => Err(format!("expected {least} to {most}")),
    }
}

/// A size in bytes, or in percent of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Bytes(u64),
    Percent(u8),
}

/// A size in bytes or in percent.
pub(super) fn size(text: &str, base: KbBase) -> Parsed<Size> {
    match text.strip_suffix('%') {
        None => number(text, base).map(Size::Bytes),
        Some(share) => Ok(Size::Percent(between(share, base, 1, 100)? as u8)),
    }
}

/// Parses a switch: `0` or `1`; a key without a value means 1.
pub(super) fn switch(value: Option<&str>) -> Parsed<bool> {
    match value {
        None | Some("1" | "") => Ok(true),
        Some("0") => Ok(false),
        Some(_) => Err("expected 0 or 1".into()),
    }
}

/// Parses a time: a number of seconds, or a number with a unit.
pub(super) fn time(text: &str) -> Parsed<Duration> {
    time_of(text, 1.0)
}

/// Parses a time: a number of microseconds, or a number with a unit.
pub(super) fn short_time(text: &str) -> Parsed<Duration> {
    time_of(text, 1e-6)
}

/// Parses a time; a number without a unit counts `plain` seconds each.
fn time_of(text: &str, plain: f64) -> Parsed<Duration> {
    let wrong = || "expected a time such as 30, 500ms or 2m".to_string();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" => plain,
        "s" | "sec" => 1.0,
        "ms" | "msec" => 1e-3,
        "us" | "usec" => 1e-6,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(wrong()),
    };
    let seconds = number.parse::<f64>().map_err(|_| wrong())? * factor;
    /// The longest time in seconds: ten years.
    const LONGEST: f64 = 315_360_000.0;
    if seconds > LONGEST {
        return Err("longer than ten years".into());
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// Parses a number, with or without a decimal point.
pub(super) fn real(text: &str) -> Parsed<f64> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "expected a number".to_string())
}

/// Parses values with their percentages: `SIZE/SHARE:SIZE/SHARE`. Values without a percentage, or with 0, share the
/// remaining percentage equally. If all have one, what is missing to 100 goes to the largest, of equal ones to the last:
/// fio 3.33 draws in the order of the percentages, and takes the last value where none was drawn.
pub(super) fn shares<T: Copy>(text: &str, mut parse: impl FnMut(&str) -> Parsed<T>) -> Parsed<Vec<(f64, T)>> {
    let part = |part: &str| match part.trim().split_once('/') {
        None => Ok((None, parse(part.trim())?)),
        Some((size, "")) => Ok((None, parse(size)?)),
        Some((size, share)) => Ok((Some(real(share)?).filter(|share| *share != 0.0), parse(size)?)),
    };
    let parts = text.split(':').map(part).collect::<Parsed<Vec<(Option<f64>, T)>>>()?;
    let said: f64 = parts.iter().filter_map(|(share, _)| *share).sum();
    let unsaid = parts.iter().filter(|(share, _)| share.is_none()).count();
    if said > 100.0 + 1e-6 || parts.iter().any(|(share, _)| share.is_some_and(|share| share < 0.0)) {
        return Err("shares are 0 to 100, and 100 together at most".into());
    }
    let rest = (100.0 - said) / unsaid.max(1) as f64;
    let mut parts: Vec<(f64, T)> =
        parts.into_iter().map(|(share, size)| (share.unwrap_or(rest), size)).collect();
    if let (0, Some((largest, _))) =
        (unsaid, parts.iter_mut().max_by(|(one, _), (two, _)| one.total_cmp(two)))
    {
        *largest += 100.0 - said;
    }
    Ok(parts)
}

/// Parses values for reads and writes: one for both, or `READS,WRITES`, of which either may be missing. A third value,
/// for trims, is ignored.
pub(super) fn pair<T: Copy>(text: &str, mut parse: impl FnMut(&str) -> Parsed<T>) -> Parsed<[Option<T>; 2]> {
    let mut parts = text.split(',').map(str::trim).map(|part| match part {
        "" => Ok(None),
        part => parse(part).map(Some),
    });
    let reads = parts.next().transpose()?.flatten();
    let writes = parts.next().transpose()?;
    match parts.nth(1) {
        Some(_) => Err("expected at most three values".into()),
        None => Ok([reads, writes.unwrap_or(reads)]),
    }
}

/// The size of a memory page in bytes.
fn page_size() -> u64 {
    crate::host::page_size().unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_fio_counts() {
        let (old, new) = (KbBase::Compatible, KbBase::International);
        for (text, compatible, international) in [
            ("512", 512, 512),
            ("0x200", 512, 512),
            ("512b", 512, 512),
            ("1k", 1024, 1000),
            ("1K", 1024, 1000),
            ("1mb", 1 << 20, 1_000_000),
            ("1MiB", 1_000_000, 1 << 20),
            ("3g", 3 << 30, 3_000_000_000),
        ] {
            assert_eq!(number(text, old), Ok(compatible), "{text}");
            assert_eq!(number(text, new), Ok(international), "{text}");
        }
        for text in
            ["", "k", "1.5m", "-1", "1 k", "2*3", "16384p", "1x", "1kbb", "99999999999999999999", "1z", "0x"]
        {
            assert!(number(text, old).is_err(), "{text}");
        }
        assert!(number("1mi", old).unwrap_err().contains("write m or mib"));
        assert_eq!(number("2*$pagesize", old), Ok(2 * page_size()));
        assert!(number("1024*$mb_memory", old).unwrap() > 0);
    }

    #[test]
    fn shares_end_at_a_hundred() {
        let size = |text| size(text, KbBase::Compatible);
        assert_eq!((size("25%"), size("1m")), (Ok(Size::Percent(25)), Ok(Size::Bytes(1 << 20))));
        assert!(["0%", "101%", "1m%", "%", "300%"].iter().all(|text| size(text).is_err()));
    }

    #[test]
    fn what_shares_lack_goes_to_the_largest() {
        let shares = |text| {
            let parsed = shares(text, |size| number(size, KbBase::Compatible)).unwrap();
            parsed.into_iter().map(|(share, _)| share).collect::<Vec<f64>>()
        };
        assert_eq!((shares("4k/20:8k/20"), shares("4k/30:8k/20")), (vec![20.0, 80.0], vec![80.0, 20.0]));
        assert_eq!(shares("4k/50:16k/10:8k/10"), [80.0, 10.0, 10.0]);
        assert_eq!(
            (shares("4k/20:8k"), shares("4k/0:8k/0:16k/50")),
            (vec![20.0, 80.0], vec![25.0, 25.0, 50.0])
        );
        assert_eq!((shares("4k"), shares("4k/100:8k")), (vec![100.0], vec![100.0, 0.0]));
    }

    #[test]
    fn times_have_units_and_an_end() {
        assert_eq!(time("30"), Ok(Duration::from_secs(30)));
        assert_eq!(
            (time("1500ms"), time("1500usec")),
            (Ok(Duration::from_millis(1500)), Ok(Duration::from_micros(1500)))
        );
        assert_eq!((time("2M"), time("0.5h")), (Ok(Duration::from_secs(120)), Ok(Duration::from_secs(1800))));
        assert!(["", "s", "1w", "-1", "99999d", "1e9"].iter().all(|text| time(text).is_err()));
    }

    #[test]
    fn values_for_reads_and_writes() {
        let pair = |text| pair(text, |part| number(part, KbBase::Compatible));
        assert_eq!(pair("4k"), Ok([Some(4096); 2]));
        assert_eq!(pair("4k,8k"), Ok([Some(4096), Some(8192)]));
        assert_eq!((pair(",8k"), pair("8k,")), (Ok([None, Some(8192)]), Ok([Some(8192), None])));
        assert_eq!(pair("4k,8k,2k"), Ok([Some(4096), Some(8192)]));
        assert!(pair("4k,8k,2k,1").is_err() && pair("x").is_err());
    }
}
