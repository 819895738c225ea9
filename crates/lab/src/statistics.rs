//! Small functions over figures: median, quantile, sum, plural.

/// Returns the median of `values`: the mean of the middle two where their number is even; 0 for no values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => sorted[n / 2 - 1].midpoint(sorted[n / 2]),
    }
}

/// Returns the quantile `part` (0 to 1) of sorted values, by the nearest rank; 0 for no values.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> f64 {
    debug_assert!((0.0..=1.0).contains(&part), "a quantile is a share");
    debug_assert!(
        sorted.is_sorted_by(|one, two| one.total_cmp(two).is_le()),
        "quantiles are of sorted values"
    );
    let at = sorted.len().saturating_sub(1) as f64 * part;
    sorted.get(at.round() as usize).copied().unwrap_or(0.0)
}

/// Returns the sum of `counts`, at most `u64::MAX`, so that the counts of a nonsensical document cannot overflow.
pub(crate) fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// Returns `noun` as it is for a count of 1, and with an "s" for any other.
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
