//! From slices to ratios: how much faster one target is than another, how sure that is, and which differences count.
//!
//! Slices of a case on all targets that lie within a second or two of each other are a *pass*. A disturbance of the
//! machine during a pass affects all targets alike, so the logarithm of a rate is taken as the sum of an effect of the
//! pass, an effect of the target and a residual. Effects are means in which a residual of more than `CLIP` standard
//! deviations is replaced by that bound (Huber's estimate, by the pseudo-values of Huber 1977, *Robust Methods of
//! Estimation of Regression Coefficients*), so that a single slice in which the machine stood still does not decide the
//! result. As there is one effect for each target, ratios are consistent: a/c is a/b times b/c.
//!
//! Intervals are Student's t over the differences of pseudo-values in each pass, with the standard error divided by the
//! share of residuals that were not clipped, as for the winsorised standard error of a trimmed mean (Yuen 1974). Which
//! differences are significant is decided for all cells of a report together by the rule of Benjamini and Hochberg
//! (1995): of the significant differences, at most the share [`ERRORS`] is expected to be false; and where no targets
//! differ at all, the chance that any difference is found significant is no more than that.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// A residual of more than this many standard deviations is an outlier and is clipped to the bound.
const CLIP: f64 = 2.0;

/// With fewer passes outliers cannot be recognised, so no residual is clipped.
const ENOUGH_TO_CLIP: usize = 8;

/// With fewer passes no difference is significant: its error is infinite.
pub const LEAST_PASSES: usize = 4;

/// The greatest share of false ones that is expected among the significant differences (the false discovery rate).
pub const ERRORS: f64 = 0.05;

// An error is estimated from passes of which none is clipped, until there are enough to know an outlier by.
const _: () = assert!(LEAST_PASSES >= 2 && LEAST_PASSES <= ENOUGH_TO_CLIP);

/// The effects of targets, fitted to the rates of the slices of one case.
pub struct Fit {
    /// The logarithm of each target's rate.
    levels: Vec<f64>,
    /// The pseudo-values: for each pass the logarithm of each target's rate, with residuals beyond the bound clipped.
    values: Vec<Vec<f64>>,
    /// For each target, the share of its residuals that were not clipped.
    kept: Vec<f64>,
}

/// The ratio of two targets' rates, as a difference of logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Logarithm of the ratio.
    pub logarithm: f64,
    /// The standard error of the logarithm; infinite where there are too few passes to estimate it.
    pub error: f64,
    /// The degrees of freedom of the standard error.
    pub freedom: f64,
}

impl Fit {
    /// Fits `rates`: for each pass, one positive rate of each target.
    pub fn new(rates: &[Vec<f64>]) -> Fit {
        let logs: Vec<Vec<f64>> =
            rates.iter().map(|pass| pass.iter().map(|rate| rate.ln()).collect()).collect();
        let targets = logs.first().map_or(0, Vec::len);
        debug_assert!(logs.iter().all(|pass| pass.len() == targets), "each pass has a rate of every target");
        let mut levels: Vec<f64> = (0..targets).map(|target| median(column(&logs, target))).collect();
        let clip = logs.len() >= ENOUGH_TO_CLIP;
        let mut values = logs.clone();
        let mut kept = vec![1.0; targets];
        let mut passes: Vec<f64> = logs.iter().map(|pass| centre(pass, &levels, median)).collect();
        // Thirty steps are ample: the iteration converges in a few.
        for _ in 0..if clip { 30 } else { 1 } {
            if clip {
                for target in 0..targets {
                    let residual = |pass: usize| logs[pass][target] - passes[pass] - levels[target];
                    let usual = 1.4826 * median((0..logs.len()).map(|pass| residual(pass).abs()).collect());
                    let bound = CLIP * usual.max(1e-9);
                    let mut inside = 0;
                    for pass in 0..logs.len() {
                        let residual = residual(pass);
                        inside += usize::from(residual.abs() <= bound);
                        values[pass][target] = passes[pass] + levels[target] + residual.clamp(-bound, bound);
                    }
                    kept[target] = inside as f64 / logs.len() as f64;
                }
            }
            passes = values.iter().map(|pass| centre(pass, &levels, mean)).collect();
            for target in 0..targets {
                let rests = values.iter().zip(&passes).map(|(pass, effect)| pass[target] - effect);
                levels[target] = mean(rests.collect());
            }
            // The effects of the passes are shifted to a mean of zero, so that a level is the logarithm of a rate.
            let shift = mean(passes.clone());
            passes.iter_mut().for_each(|pass| *pass -= shift);
            levels.iter_mut().for_each(|level| *level += shift);
        }
        debug_assert!(
            kept.iter().all(|share| (0.0..=1.0).contains(share)),
            "a share of the residuals is kept"
        );
        Fit { levels, values, kept }
    }

    /// Returns a target's rate: the exponential of its effect.
    pub fn rate(&self, target: usize) -> f64 {
        self.levels[target].exp()
    }

    /// Returns the difference of one target from `base`, with its standard error.
    pub fn difference(&self, target: usize, base: usize) -> Difference {
        let logarithm = self.levels[target] - self.levels[base];
        let count = self.values.len() as f64;
        let kept = self.kept[target].midpoint(self.kept[base]);
        if self.values.len() < LEAST_PASSES {
            return Difference { logarithm, error: f64::INFINITY, freedom: 1.0 };
        }
        let differences: Vec<f64> = self.values.iter().map(|pass| pass[target] - pass[base]).collect();
        let middle = mean(differences.clone());
        let squares: f64 = differences.iter().map(|value| (value - middle).powi(2)).sum();
        let error = (squares / (count - 1.0) / count).sqrt() / kept;
        Difference { logarithm, error, freedom: (count * kept - 1.0).max(1.0) }
    }
}

impl Difference {
    /// Returns the p-value: the chance of a difference at least as large as this one if the targets do not differ.
    pub fn chance(&self) -> f64 {
        if !self.error.is_finite() {
            return 1.0;
        }
        if self.error == 0.0 {
            return if self.logarithm == 0.0 { 1.0 } else { 0.0 };
        }
        let chance = 2.0 * student(self.freedom).sf((self.logarithm / self.error).abs());
        debug_assert!(
            chance.is_nan() || (0.0..=1.0 + 1e-9).contains(&chance),
            "a chance is between none and sure"
        );
        chance
    }

    /// Returns half the width of the confidence interval that misses the true difference in a share of `alpha` of all
    /// cases.
    pub fn half_width(&self, alpha: f64) -> f64 {
        if !self.error.is_finite() {
            return f64::INFINITY;
        }
        debug_assert!(alpha > 0.0 && alpha < 2.0, "an interval misses some of the cases");
        let half = self.error * student(self.freedom).inverse_cdf(1.0 - alpha / 2.0);
        debug_assert!(half.is_nan() || half >= 0.0 || alpha > 1.0, "an interval encloses its estimate");
        half
    }
}

/// How wide the intervals of `rates` (for each target its rates, pass by pass) are so far: the greatest half width of the
/// logarithm of a ratio of two targets at this level of significance. `None` where too few passes ran, or there is nothing to
/// compare.
pub(crate) fn widest(rates: &[Vec<f64>], level: f64) -> Option<f64> {
    let passes = rates.iter().map(Vec::len).min().unwrap_or(0);
    if passes < LEAST_PASSES || rates.len() < 2 {
        return None;
    }
    let rows: Vec<Vec<f64>> =
        (0..passes).map(|pass| rates.iter().map(|target| target[pass]).collect()).collect();
    let fit = Fit::new(&rows);
    let pairs = (0..rates.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
    let widths = pairs.map(|(one, other)| fit.difference(one, other).half_width(level));
    Some(widths.fold(0.0, f64::max))
}

/// How many passes it takes until a difference of `share` (0.05: of 5 %) between any two targets would be significant, as far
/// as the passes so far tell: their own number if it would be already. `None` where too few ran to tell.
pub(crate) fn passes_for(rates: &[Vec<f64>], share: f64, level: f64) -> Option<u32> {
    let done = rates.iter().map(Vec::len).min().unwrap_or(0) as f64;
    let (width, asked) = (widest(rates, level)?, share.ln_1p());
    // An interval narrows with the root of the number of passes.
    let needed = done * (width / asked).powi(2);
    debug_assert!(
        width <= asked || needed.is_nan() || needed >= done,
        "more passes are needed where too few ran"
    );
    Some(if width <= asked { done } else { needed.ceil().max(done + 1.0) } as u32)
}

/// Compares the rates of two targets that were measured at different times, by Welch's t over their logarithms. A
/// change of the machine between the two times becomes part of the difference and is not covered by its error.
pub fn apart(rates: &[f64], base: &[f64]) -> Difference {
    let moments = |rates: &[f64]| {
        let logs: Vec<f64> = rates.iter().filter(|rate| **rate > 0.0).map(|rate| rate.ln()).collect();
        let middle = mean(logs.clone());
        let count = logs.len() as f64;
        let squares: f64 = logs.iter().map(|value| (value - middle).powi(2)).sum();
        (middle, squares / (count - 1.0) / count, count)
    };
    let (ours, theirs) = (moments(rates), moments(base));
    let logarithm = ours.0 - theirs.0;
    if ours.2.min(theirs.2) < LEAST_PASSES as f64 {
        return Difference { logarithm, error: f64::INFINITY, freedom: 1.0 };
    }
    let variance = ours.1 + theirs.1;
    let freedom = variance.powi(2) / (ours.1.powi(2) / (ours.2 - 1.0) + theirs.1.powi(2) / (theirs.2 - 1.0));
    let freedom = if freedom.is_finite() { freedom.max(1.0) } else { 1.0 };
    Difference { logarithm, error: variance.sqrt(), freedom }
}

/// Half the width of the confidence interval of the mean of `values` that misses the true mean in a share of `alpha` of all
/// cases; `None` where there are too few of them.
pub(crate) fn half_of_mean(values: &[f64], alpha: f64) -> Option<f64> {
    if values.len() < LEAST_PASSES {
        return None;
    }
    let count = values.len() as f64;
    let middle = mean(values.to_vec());
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    Some(Difference { logarithm: middle, error, freedom: count - 1.0 }.half_width(alpha))
}

/// The scatter between runs of the same thing, as far as reports of one run each show it: the usual size of the logarithms
/// of their ratios, over all cases. Most cases are taken as unchanged; if all changed alike, that is in the scatter.
pub fn between_runs(ratios: &[f64]) -> Option<Scatter> {
    let sizes: Vec<f64> =
        ratios.iter().map(|ratio| ratio.ln().abs()).filter(|size| size.is_finite()).collect();
    (sizes.len() >= LEAST_PASSES).then(|| {
        // 1.4826 makes a standard deviation of a median of sizes; the median uses the values only as well as a standard
        // deviation of about a third of them would.
        let freedom = (sizes.len() as f64 * 0.37).max(1.0);
        Scatter { deviation: 1.4826 * median(sizes), freedom }
    })
}

/// The scatter of the logarithm of a ratio between runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scatter {
    /// The standard deviation.
    pub deviation: f64,
    /// Its degrees of freedom.
    pub freedom: f64,
}

impl Difference {
    /// The same difference, with the scatter between runs added to its error (Welch and Satterthwaite for the degrees of
    /// freedom).
    pub fn with(self, scatter: Scatter) -> Difference {
        let (within, between) = (self.error.powi(2), scatter.deviation.powi(2));
        if !within.is_finite() {
            return self;
        }
        let all = within + between;
        let freedom = all.powi(2) / (within.powi(2) / self.freedom + between.powi(2) / scatter.freedom);
        let freedom = if freedom.is_finite() { freedom.max(1.0) } else { self.freedom };
        let error = all.sqrt();
        debug_assert!(
            error.is_nan() || error >= self.error * (1.0 - 1e-9),
            "no scatter makes a difference surer"
        );
        Difference { error, freedom, ..self }
    }
}

fn student(freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom).expect("freedom is at least 1")
}

/// Returns the significance level for differences with these p-values, by the rule of Benjamini and Hochberg. Exactly
/// those differences whose p-value does not exceed the level have an interval at this level that excludes zero.
pub fn level(chances: &[f64]) -> f64 {
    let mut sorted = chances.to_vec();
    sorted.sort_by(f64::total_cmp);
    let each = ERRORS / chances.len().max(1) as f64;
    let told = (1..=sorted.len()).rev().find(|&rank| sorted[rank - 1] <= each * rank as f64);
    let level = each * told.unwrap_or(1) as f64;
    debug_assert!(level <= ERRORS + 1e-12, "no level is looser than that of one comparison");
    level
}

fn column(rows: &[Vec<f64>], index: usize) -> Vec<f64> {
    rows.iter().map(|row| row[index]).collect()
}

/// Returns the effect of a pass: the middle of its logarithms after each target's level is subtracted.
fn centre(pass: &[f64], levels: &[f64], middle: fn(Vec<f64>) -> f64) -> f64 {
    middle(pass.iter().zip(levels).map(|(value, level)| value - level).collect())
}

fn mean(values: Vec<f64>) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn median(values: Vec<f64>) -> f64 {
    crate::statistics::median(&values)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates with the same noise on every run: roughly normal noise for each slice, a disturbance that all targets of a
    /// pass share, and now and then a slice in which the machine stood still.
    struct Machine(fastrand::Rng);

    impl Machine {
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.0.f64()).sum::<f64>() - 6.0
        }

        fn passes(&mut self, count: usize, truth: &[f64], scatter: f64) -> Vec<Vec<f64>> {
            (0..count)
                .map(|_| {
                    let weather = self.normal() * 0.3;
                    truth
                        .iter()
                        .map(|rate| {
                            let still = if self.0.u8(..40) == 0 { -1.5 } else { 0.0 };
                            (rate.ln() + weather + scatter * self.normal() + still).exp()
                        })
                        .collect()
                })
                .collect()
        }
    }

    /// Returns how many of the 24 differences in twelve cells of three targets are significant.
    fn told(machine: &mut Machine, passes: usize, truth: [f64; 3], scatter: f64) -> usize {
        let cells: Vec<Difference> = (0..12)
            .flat_map(|_| {
                let fit = Fit::new(&machine.passes(passes, &truth, scatter));
                [fit.difference(1, 0), fit.difference(2, 0)]
            })
            .collect();
        let level = level(&cells.iter().map(Difference::chance).collect::<Vec<_>>());
        cells.iter().filter(|cell| cell.logarithm.abs() > cell.half_width(level)).count()
    }

    #[test]
    fn one_target_under_three_names_is_no_different() {
        let mut machine = Machine(fastrand::Rng::with_seed(1));
        for scatter in [0.02, 0.1, 0.2] {
            let told: usize = (0..50).map(|_| told(&mut machine, 20, [1e4; 3], scatter)).sum();
            assert!(told <= 1200 / 20, "{told} of 1,200 cells with a scatter of {scatter}");
        }
    }

    #[test]
    fn a_slower_target_is_found() {
        let mut machine = Machine(fastrand::Rng::with_seed(2));
        let mut found = |passes, slower: f64, scatter| {
            let told: usize =
                (0..20).map(|_| told(&mut machine, passes, [1e4, 1e4 * slower, 1e4 * slower], scatter)).sum();
            told as f64 / 480.0
        };
        let found = [found(20, 0.9, 0.05), found(20, 0.8, 0.09), found(60, 0.95, 0.05)];
        assert!(found.iter().all(|&share| share >= 0.95), "{found:?}");
    }

    #[test]
    fn ratios_fit_together_and_a_standstill_decides_nothing() {
        let mut rates: Vec<Vec<f64>> = (0..20)
            .map(|pass| {
                vec![100.0, 80.0, 50.0].into_iter().map(|rate| rate * (1.0 + f64::from(pass % 3))).collect()
            })
            .collect();
        rates[3][1] = 0.5;
        rates[9][0] = 900.0;
        let fit = Fit::new(&rates);
        let ratio = |target, base| fit.difference(target, base).logarithm.exp();
        assert!(
            (ratio(1, 0) - 0.8).abs() < 0.01 && (ratio(2, 0) - 0.5).abs() < 0.01,
            "{} {}",
            ratio(1, 0),
            ratio(2, 0)
        );
        assert!((ratio(2, 1) * ratio(1, 0) - ratio(2, 0)).abs() < 1e-12);
        assert!((fit.rate(1) / fit.rate(0) - ratio(1, 0)).abs() < 1e-12);
    }

    #[test]
    fn the_scatter_between_runs_is_that_of_most_cases() {
        assert_eq!(between_runs(&[1.0, 1.1, 0.9]), None);
        let mut ratios = vec![1.02, 0.98, 1.03, 0.97, 1.01, 0.99, 1.025, 0.985];
        let before = between_runs(&ratios).unwrap().deviation;
        assert!((0.02..0.05).contains(&before), "{before}");
        // A case that changed much hardly matters, nor one without a rate.
        ratios.extend([0.1, 0.0, f64::NAN]);
        assert!(between_runs(&ratios).unwrap().deviation < before * 1.5);
        let difference = Difference { logarithm: -0.1, error: 0.01, freedom: 30.0 };
        let wider = difference.with(Scatter { deviation: 0.1, freedom: 3.0 });
        assert!(wider.error > 0.1 && (3.0..3.2).contains(&wider.freedom), "{wider:?}");
        let same = difference.with(Scatter { deviation: 0.0, freedom: 3.0 });
        assert!(same.error == difference.error && (same.freedom - difference.freedom).abs() < 1e-9);
    }

    #[test]
    fn few_passes_tell_nothing_and_equal_ones_are_equal() {
        let few = Fit::new(&[vec![100.0, 50.0], vec![100.0, 50.0]]).difference(1, 0);
        assert_eq!((few.chance(), few.half_width(0.05)), (1.0, f64::INFINITY));
        assert!((few.logarithm.exp() - 0.5).abs() < 1e-12);
        let same = Fit::new(&vec![vec![100.0, 100.0]; 10]).difference(1, 0);
        assert_eq!(same.logarithm, 0.0);
        let none = Fit::new(&[]);
        assert!(none.levels.is_empty());
    }

    #[test]
    fn the_level_tells_exactly_the_lowest_chances() {
        assert_eq!(level(&[0.9, 0.5]), 0.025);
        assert_eq!(level(&[0.01, 0.9]), 0.025);
        assert_eq!(level(&[0.01, 0.04]), 0.05);
        assert_eq!(level(&[]), 0.05);
    }
}
