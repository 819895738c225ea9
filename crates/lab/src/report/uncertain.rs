//! Figures with what chance may make of them, as every view prints them.
//!
//! The interval of a ratio is symmetric on a logarithmic scale, so half its width is the same above and below only while
//! it is narrow. Where it is not, both ends are printed: `183 (102–325)`. What is printed never contradicts the verdict:
//! if the interval leaves out 100 %, so does the text.

use crate::format;

/// The most that the two sides of an interval that is printed as `±` may differ, as a share of the larger one.
const ALIKE: f64 = 0.15;
/// What a figure may have gained or lost by being a binary fraction.
const TINY: f64 = 1e-9;
/// The most decimal places of a percentage, where fewer would contradict the verdict.
const MOST_DECIMALS: usize = 9;

/// A ratio in percent of its base, with the ends of its interval: `71 ±4` or `183 (102–325)`. `low` and `high` are
/// ratios, `low <= ratio <= high`.
pub(crate) fn share(ratio: f64, low: f64, high: f64) -> String {
    let is_told = low > 1.0 || high < 1.0;
    let [percent, low, high] = [ratio, low, high].map(|ratio| ratio * 100.0);
    if let Some(text) =
        (decimals(percent)..=MOST_DECIMALS).find_map(|places| symmetric(percent, low, high, places, is_told))
    {
        return text;
    }
    // A figure that rounding moves to 100 or beyond would say that the rates may be equal.
    let keeps_side = |rounded: f64| !is_told || ((rounded > 100.0) == (percent > 100.0) && rounded != 100.0);
    let shown = |value: f64, round: fn(f64) -> f64| {
        let rounded = |places: usize| {
            let scale = 10f64.powi(places as i32);
            round(value * scale) / scale
        };
        let places = (decimals(value)..MOST_DECIMALS).find(|&places| keeps_side(rounded(places)));
        let places = places.unwrap_or(MOST_DECIMALS);
        number(rounded(places), places)
    };
    let [low, high] =
        [shown(low, |value| (value + TINY).floor()), shown(high, |value| (value - TINY).ceil())];
    format!("{} ({low}–{high})", shown(percent, f64::round))
}

/// How much longer something takes at a rate that is told to be lower: `1.7 times as long (1.5 to 1.9)`.
pub(crate) fn longer(ratio: f64, low: f64, high: f64) -> String {
    let [times, least, most] = [1.0 / ratio, 1.0 / high, 1.0 / low];
    let shown = times_in_words(times, least, most);
    format!("{} times as long ({} to {})", shown[0], shown[1], shown[2])
}

/// How much faster something is at a rate that is told to be higher: `1.7 times as fast (1.5 to 1.9)`.
pub(crate) fn shorter(ratio: f64, low: f64, high: f64) -> String {
    let shown = times_in_words(ratio, low, high);
    format!("{} times as fast ({} to {})", shown[0], shown[1], shown[2])
}

/// A factor above 1 and the ends of its interval, with as many decimal places as it takes to tell them from 1.
fn times_in_words(factor: f64, least: f64, most: f64) -> [String; 3] {
    let places = (2..MOST_DECIMALS).find(|&places| {
        let scale = 10f64.powi(places as i32);
        (least * scale).floor() > scale
    });
    let places = places.unwrap_or(MOST_DECIMALS);
    let scale = 10f64.powi(places as i32);
    let [least, most] = [(least * scale).floor() / scale, (most * scale).ceil() / scale];
    let places = if factor >= 10.0 { 1 } else { places };
    [factor, least, most].map(|value| number(value, places))
}

/// A ratio in percent without an interval: `71`, `3.2`.
pub(crate) fn percents(ratio: f64) -> String {
    number(ratio * 100.0, decimals(ratio * 100.0))
}

/// A ratio as a change in percent, with half its interval on a logarithmic scale: `−27 % ±3` or `−27 % (−40 to −11)`.
pub(crate) fn change(ratio: f64, half: f64) -> String {
    let (low, high) = (ratio * (-half).exp(), ratio * half.exp());
    let is_told = low > 1.0 || high < 1.0;
    let [percent, below, above] = [ratio, low, high].map(|ratio| (ratio - 1.0) * 100.0);
    let wider = (above - percent).max(percent - below);
    let printed = format::percent_up(wider);
    let excludes =
        printed.parse::<f64>().is_ok_and(|printed| printed < rounded(&format::percent(percent)).abs());
    if are_alike(percent, below, above) && wider < 100.0 && (!is_told || excludes) {
        return format!("{} ±{printed}", format::change(ratio));
    }
    let end = |percent: f64| if is_told { signed(percent) } else { format::percent(percent) };
    format!("{} ({} to {})", format::change(ratio), end(below), end(above))
}

/// A difference in percent that is known to be one, which is never rounded to nothing: `−27`, `+0.004`.
pub(crate) fn signed(percent: f64) -> String {
    match format::percent(percent) {
        text if text == "0" => format!("{}{:.3}", if percent < 0.0 { "−" } else { "+" }, percent.abs()),
        text => text,
    }
}

fn rounded(text: &str) -> f64 {
    text.replace('−', "-").replace(',', "").parse().unwrap_or(0.0)
}

fn are_alike(middle: f64, low: f64, high: f64) -> bool {
    let (below, above) = (middle - low, high - middle);
    // Half a percent more or less is lost in rounding anyway.
    (above - below).abs() <= (ALIKE * above.max(below)).max(0.5)
}

/// `71 ±4` with this many decimal places; `None` where that would not hold the interval or contradict the verdict.
fn symmetric(percent: f64, low: f64, high: f64, places: usize, is_told: bool) -> Option<String> {
    if !are_alike(percent, low, high) {
        return None;
    }
    let scale = 10f64.powi(places as i32);
    let middle = (percent * scale).round() / scale;
    let wider = (high - middle).max(middle - low).max(0.0);
    let half = if places == 0 { percent_up(wider) } else { ((wider * scale - TINY).ceil() / scale, places) };
    let is_inside = half.0 < middle;
    let excludes = half.0 < (middle - 100.0).abs() - TINY;
    (is_inside && (!is_told || excludes))
        .then(|| format!("{} ±{}", number(middle, places), number(half.0, half.1)))
}

/// Rounds up to a figure that is worth printing; returns it with its decimal places.
fn percent_up(percent: f64) -> (f64, usize) {
    if percent <= 0.9 {
        (((percent * 10.0) - TINY).ceil().max(0.0) / 10.0, 1)
    } else {
        ((percent - TINY).ceil(), 0)
    }
}

/// The decimal places of a percentage.
fn decimals(percent: f64) -> usize {
    match percent {
        percent if percent < 0.095 => 3,
        percent if percent < 0.95 => 2,
        percent if percent < 9.95 => 1,
        _ => 0,
    }
}

fn number(value: f64, places: usize) -> String {
    format::grouped(value, places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_interval_is_a_range() {
        assert_eq!(share(1.3725, 1.0115, 1.8625), "137 (101–187)");
        assert_eq!(share(0.0323, 0.0073, 0.1436), "3.2 (0.73–15)");
        assert_eq!(share(1.83, 1.02, 3.25), "183 (102–325)");
        assert_eq!(share(0.71, 0.675, 0.746), "71 ±4");
        assert_eq!(share(1.0, 0.98, 1.0204), "100 ±3");
        assert_eq!(share(1.0, 1.0, 1.0), "100 ±0.0");
        assert_eq!(percents(0.0042), "0.42");
    }

    #[test]
    fn what_is_told_is_not_rounded_away() {
        assert_eq!(share(1.004, 1.001, 1.007), "100.4 ±0.3");
        assert_eq!(share(0.998, 0.9965, 0.9995), "99.80 ±0.15");
        assert_eq!(share(1.5, 1.0004, 2.2), "150 (100.04–220)");
    }

    #[test]
    fn changes_are_ranges_where_half_of_a_plus_minus_would_be_untrue() {
        assert_eq!(change(0.73, 0.04), "−27 % ±3");
        assert_eq!(change(2.0, 0.6), "+100 % (+9.8 to +264)");
        assert_eq!(change(0.5, 0.6), "−50 % (−73 to −8.9)");
    }
}
