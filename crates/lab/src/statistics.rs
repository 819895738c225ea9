//! Small helpers for figures.

/// Median; 0 for no values. The mean of the middle two where their number is even.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => sorted[n / 2 - 1].midpoint(sorted[n / 2]),
    }
}

/// Of sorted values the one that so large a part does not exceed; 0 for no values.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = sorted.len().saturating_sub(1) as f64 * part;
    sorted.get(at.round() as usize).copied().unwrap_or(0.0)
}

/// A sum that a nonsensical document cannot overflow.
pub(crate) fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// A noun for so many.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    if count == 1 { noun.into() } else { format!("{noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middles() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
