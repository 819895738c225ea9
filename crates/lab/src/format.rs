//! Formats numbers for people.

/// Formats a number with commas between thousands and `decimals` decimal places.
pub(super) fn grouped(value: f64, decimals: usize) -> String {
    let plain = format!("{value:.decimals$}");
    let (sign, digits) = plain.strip_prefix('-').map_or(("", plain.as_str()), |digits| ("−", digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut text = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

/// A whole number: `1,234,567`.
pub(crate) fn count(value: f64) -> String {
    grouped(value, 0)
}

/// A rate or a time to about four figures: `7,004`, `558.0`, `43.42`, `0.633`.
pub(crate) fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 1000.0 || size == 0.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    grouped(value, decimals)
}

/// Formats microseconds in a suitable unit: `86.2 µs`, `1.24 ms`, `2.10 s`.
pub(crate) fn micros(us: f64) -> String {
    let (value, unit) = match us.abs() {
        size if size < 999.5 => (us, "µs"),
        size if size < 999_500.0 => (us / 1e3, "ms"),
        _ => (us / 1e6, "s"),
    };
    let decimals = match value.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{} {unit}", grouped(value, decimals))
}

/// A size in powers of two: `512 B`, `4 KiB`, `1.5 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// An amount of data in powers of ten: `4.9 GB`.
pub(crate) fn volume(bytes: f64) -> String {
    scaled(bytes, 1000.0, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value.abs() >= step && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let decimals = usize::from(value.fract().abs() > 0.05 && value.abs() < 100.0);
    format!("{value:.decimals$} {}", units[unit])
}

/// Formats a difference in percent, without the percent sign: `−27`, `+4.2`.
pub(crate) fn percent(percent: f64) -> String {
    let size = percent.abs();
    let text = if size >= 9.95 { format!("{size:.0}") } else { format!("{size:.1}") };
    // A rounded "−0.0" would suggest a direction that the figure does not show.
    match text.as_str() {
        "0.0" => "0".into(),
        _ if percent < 0.0 => format!("−{text}"),
        _ => format!("+{text}"),
    }
}

/// A bound in percent, never rounded down: `6`, `0.7`.
pub(crate) fn percent_up(percent: f64) -> String {
    if percent <= 0.9 {
        format!("{:.1}", (percent * 10.0).ceil() / 10.0)
    } else {
        format!("{:.0}", percent.ceil())
    }
}

/// The size of a difference that may stay hidden, never rounded down: `6 %`, or `a factor of 12` where it is more than the
/// whole.
pub(crate) fn hidden(percent: f64) -> String {
    match percent {
        percent if percent <= 100.0 => format!("{}\u{a0}%", percent_up(percent)),
        percent if percent < 1e6 => format!("a factor of {}", grouped((1.0 + percent / 100.0).ceil(), 0)),
        _ => "any factor".into(),
    }
}

/// A ratio as a difference in percent: `−27.3 %`, `+4.2 %`.
pub(crate) fn change(ratio: f64) -> String {
    format!("{} %", percent((ratio - 1.0) * 100.0))
}

/// Formats a duration in seconds: `45 s`, `12 min`, `12 h`.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 120.0 => format!("{} s", (seconds * 100.0).round() / 100.0),
        seconds if seconds < 7200.0 => format!("{} min", (seconds / 6.0).round() / 10.0),
        seconds => format!("{} h", (seconds / 360.0).round() / 10.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(1_234_567.0), "1,234,567");
        assert_eq!(count(999.0), "999");
        assert_eq!(figure(7004.33), "7,004");
        assert_eq!(figure(558.02), "558.0");
        assert_eq!(figure(43.42), "43.42");
        assert_eq!(figure(0.632604), "0.633");
        assert_eq!(figure(0.0), "0");
        assert_eq!(micros(86.2), "86.2 µs");
        assert_eq!(micros(1240.0), "1.24 ms");
        assert_eq!(micros(999.7), "1.00 ms");
        assert_eq!(micros(2.1e6), "2.10 s");
        assert_eq!(size(4096), "4 KiB");
        assert_eq!(size(1 << 20), "1 MiB");
        assert_eq!(size(u64::MAX), "16 EiB");
        assert_eq!(volume(4.9e9), "4.9 GB");
        assert_eq!(change(0.7267), "−27 %");
        assert_eq!(change(1.0422), "+4.2 %");
        assert_eq!(change(0.9999), "0 %");
        assert_eq!((percent_up(5.01), percent_up(0.61)), ("6".into(), "0.7".into()));
        assert_eq!((hidden(5.01), hidden(1011.0)), ("6\u{a0}%".into(), "a factor of 12".into()));
        assert_eq!(duration(43_200.0), "12 h");
    }
}
