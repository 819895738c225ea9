//! The steady state of a device that is written.
//!
//! Facts: SNIA, *Solid State Storage Performance Test Specification*: the last five rounds are a steady state if their range is
//! at most a fifth of their average, and the rise or fall of the straight line through them at most a tenth of it.

/// The number of rounds that must be steady together.
pub(crate) const WINDOW: usize = 5;
/// The greatest range of the rates in the window, as a share of their average.
const RANGE: f64 = 0.20;
/// The greatest rise or fall of the line through them.
const SLOPE: f64 = 0.10;

// What the rates of a window may rise or fall is less than what they may differ by.
const _: () = assert!(SLOPE < RANGE && WINDOW >= 2);

/// The last five rounds of a device that is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Last {
    /// The average of their rates.
    pub average: f64,
    /// The largest rate less the smallest, as a share of the average.
    pub range: f64,
    /// What the straight line through them rises, as a share of the average; less than 0 if it falls.
    pub rise: f64,
}

impl Last {
    /// Of these rates; `None` where there are fewer than five, or nothing was written.
    pub(crate) fn of(rates: &[f64]) -> Option<Last> {
        let window = &rates[rates.len().checked_sub(WINDOW)?..];
        let count = WINDOW as f64;
        let average = window.iter().sum::<f64>() / count;
        let most = window.iter().copied().fold(f64::MIN, f64::max);
        let least = window.iter().copied().fold(f64::MAX, f64::min);
        let middle = (count - 1.0) / 2.0;
        let at = |index: usize| index as f64 - middle;
        let across: f64 = window.iter().enumerate().map(|(index, rate)| at(index) * (rate - average)).sum();
        let along: f64 = (0..WINDOW).map(|index| at(index).powi(2)).sum();
        let rise = across / along * (count - 1.0);
        (average > 0.0 && average.is_finite()).then(|| Last {
            average,
            range: (most - least) / average,
            rise: rise / average,
        })
    }

    /// Whether they are a steady state.
    pub(crate) fn is_steady(&self) -> bool {
        self.range <= RANGE && self.rise.abs() <= SLOPE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_steady(rates: &[f64]) -> bool {
        Last::of(rates).is_some_and(|last| last.is_steady())
    }

    #[test]
    fn five_rounds_are_steady_by_range_and_slope() {
        assert!(!is_steady(&[100.0; 4]) && is_steady(&[100.0; 5]));
        assert!(!is_steady(&[0.0; 5]));
        // Only the last five count.
        assert!(is_steady(&[900.0, 500.0, 100.0, 104.0, 98.0, 102.0, 100.0]));
        // A range of more than a fifth, and a fall of more than a tenth.
        assert!(!is_steady(&[100.0, 122.0, 100.0, 101.0, 100.0]));
        assert!(!is_steady(&[107.0, 103.0, 100.0, 97.0, 93.0]));
        assert!(is_steady(&[104.0, 102.0, 100.0, 98.0, 96.0]));
        let last = Last::of(&[104.0, 102.0, 100.0, 98.0, 96.0]).unwrap();
        assert!((last.range - 0.08).abs() < 1e-9 && (last.rise + 0.08).abs() < 1e-9, "{last:?}");
    }
}
