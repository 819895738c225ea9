//! From runs to statements: medians, spread, ratios, warnings and verdicts.
//!
//! Runs of storage are few and skewed: a cache that fills, a garbage collector that starts. So the typical run is the
//! median, its spread the median absolute deviation (MAD), and nothing assumes a normal distribution.

use crate::report::document::{
    Case, CaseResult, Cpu, Document, Latency, RAW, Range, Relative, Run, Score, Scoring, Spread,
    TargetVerdict, Verdict,
};
use crate::report::format::share;

/// With one run on a side its spread is unknown; a ratio is then taken to be uncertain by this share.
pub const SINGLE_RUN_TOLERANCE: f64 = 0.05;

/// A run is an outlier from this modified z-score on (distance from the median in units of 1.4826 × MAD). The limit is
/// the usual one of Iglewicz and Hoaglin.
const OUTLIER_SCORE: f64 = 3.5;

/// However close together the other runs lie, a run within this share of the median is no outlier: with three runs
/// two are often equal by chance.
const OUTLIER_SHARE: f64 = 0.10;

/// Later runs that differ from the first ones by more than this share are worth a warning.
const DRIFT_SHARE: f64 = 0.10;

/// Runs that lie further apart than this share of their median are worth a warning.
const NOISE_SHARE: f64 = 0.25;

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

/// Median of the distances from the median (median absolute deviation); 0 for no values.
pub fn mad(values: &[f64]) -> f64 {
    let centre = median(values);
    median(&values.iter().map(|value| (value - centre).abs()).collect::<Vec<_>>())
}

/// Smallest, largest and MAD; zeros for no values.
pub fn range(values: &[f64]) -> Range {
    let Some(min) = values.iter().copied().min_by(f64::total_cmp) else { return Range::default() };
    let max = values.iter().copied().max_by(f64::total_cmp).unwrap_or(min);
    Range { min, max, mad: mad(values) }
}

/// Geometric mean of positive values, the right one for ratios: 0.5 and 2 average to 1. 0 for none.
pub fn geometric_mean(values: &[f64]) -> f64 {
    let logarithms: Vec<f64> = values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect();
    if logarithms.is_empty() { 0.0 } else { (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp() }
}

/// Positions of the outliers: modified z-score of at least 3.5 and more than 10 % from the median. Needs three values;
/// of fewer none stands out.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    if values.len() < 3 {
        return Vec::new();
    }
    let (centre, deviation) = (median(values), mad(values));
    let is_outlier = |value: f64| {
        let distance = (value - centre).abs();
        distance > OUTLIER_SHARE * centre.abs() && distance >= OUTLIER_SCORE * 1.4826 * deviation
    };
    (0..values.len()).filter(|&index| is_outlier(values[index])).collect()
}

/// How much the later runs differ from the first ones, as a share: -0.2 when they are a fifth slower.
///
/// `None` unless every run of the second half lies on the same side of every run of the first half (a middle run is in
/// neither half, but must not lie outside both), by more than 10 % between the medians. Needs three values in the order
/// they ran. Because targets take turns, drift of the machine shows on all of them alike and leaves ratios alone.
pub fn drift(values: &[f64]) -> Option<f64> {
    let half = values.len() / 2;
    if values.len() < 3 {
        return None;
    }
    let (first, second) = (&values[..half], &values[values.len() - half..]);
    let (before, after) = (range(first), range(second));
    let middle = &values[half..values.len() - half];
    let inside =
        middle.iter().all(|value| *value >= before.min.min(after.min) && *value <= before.max.max(after.max));
    let apart = before.max < after.min || after.max < before.min;
    let change = median(second) / median(first) - 1.0;
    (apart && inside && change.is_finite() && change.abs() > DRIFT_SHARE).then_some(change)
}

/// `values` as a multiple of `base`: the quotient of the medians, and the bounds that the runs allow.
///
/// The bounds are the lowest run over the highest run of the base, and the highest over the lowest; of five or more
/// runs the extreme one at each end is left out first, so that one hiccup does not make everything uncertain. With a
/// single run on either side the bounds are the ratio ± 5 %. A difference is *within the noise* when 1 lies inside the
/// bounds, that is when the ranges of the runs overlap. With three runs each and no real difference, ranges are apart
/// by chance in one case of ten.
///
/// `None` where a side has no runs or the base is not positive.
pub fn relative(values: &[f64], base: &[f64]) -> Option<Relative> {
    let ratio = median(values) / median(base);
    if values.is_empty() || base.is_empty() || !ratio.is_finite() {
        return None;
    }
    let (low, high) = if values.len() == 1 || base.len() == 1 {
        (ratio * (1.0 - SINGLE_RUN_TOLERANCE), ratio * (1.0 + SINGLE_RUN_TOLERANCE))
    } else {
        let (ours, theirs) = (trimmed(values), trimmed(base));
        (ours.0 / theirs.1, ours.1 / theirs.0)
    };
    // A base run of zero (a stall throughout) bounds nothing.
    let high = if high.is_finite() { high } else { f64::MAX };
    Some(Relative { ratio, low, high, within_noise: low <= 1.0 && 1.0 <= high })
}

/// [`relative`] where both sides took turns, run by run: the ratio is the median of the rounds' own quotients.
///
/// A disk of a virtual machine that carries 1,700 I/Os a second in one minute and 2,900 in the next does so for all
/// targets; the quotient of the medians then says which side met more of the good minutes. Of 24 rounds on such a disk,
/// groups of five and of seven gave quotients of medians that scattered more than twice as much as medians of quotients.
///
/// A round in which the base stood still has no quotient. Without a run on each side in every round, or if no round has a
/// quotient, it is the quotient of the medians.
pub fn relative_in_turns(values: &[f64], base: &[f64]) -> Option<Relative> {
    let whole = relative(values, base)?;
    let quotients: Vec<f64> =
        values.iter().zip(base).map(|(value, base)| value / base).filter(|ratio| ratio.is_finite()).collect();
    let in_turns = values.len() == base.len() && !quotients.is_empty();
    Some(Relative { ratio: if in_turns { median(&quotients) } else { whole.ratio }, ..whole })
}

/// Lowest and highest of the runs, without the extreme ones where there are five or more.
fn trimmed(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let cut = usize::from(sorted.len() >= 5);
    (sorted[cut], sorted[sorted.len() - 1 - cut])
}

impl CaseResult {
    /// Medians, spread, score and warnings of the runs of one case on one target. How it compares with the raw device
    /// follows in [`Document::conclude`], when all targets are known.
    pub fn aggregate(target: impl Into<String>, case: Case, runs: Vec<Run>) -> Self {
        let of = |figure: fn(&Run) -> f64| runs.iter().map(figure).collect::<Vec<f64>>();
        let middle = |figure: fn(&Run) -> f64| median(&of(figure));
        let mut result = CaseResult {
            target: target.into(),
            iops: middle(|run| run.iops),
            mb_per_s: middle(|run| run.mb_per_s),
            latency_us: Latency {
                mean: middle(|run| run.latency_us.mean),
                p50: middle(|run| run.latency_us.p50),
                p90: middle(|run| run.latency_us.p90),
                p95: middle(|run| run.latency_us.p95),
                p99: middle(|run| run.latency_us.p99),
                p99_9: middle(|run| run.latency_us.p99_9),
                p99_99: middle(|run| run.latency_us.p99_99),
                max: middle(|run| run.latency_us.max),
            },
            cpu: Cpu {
                user_s: middle(|run| run.cpu.user_s),
                system_s: middle(|run| run.cpu.system_s),
                us_per_io: middle(|run| run.cpu.us_per_io),
                percent: middle(|run| run.cpu.percent),
            },
            spread: Spread {
                iops: range(&of(|run| run.iops)),
                mb_per_s: range(&of(|run| run.mb_per_s)),
                latency_us: range(&of(|run| run.latency_us.mean)),
            },
            relative_to_raw: None,
            score: case.scoring.and_then(|rule| score(rule, &runs)),
            warnings: Vec::new(),
            case,
            runs,
        };
        result.warnings = result.find_warnings();
        result
    }

    /// Throughput of each run: what ratios are made of.
    pub fn throughputs(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.mb_per_s).collect()
    }

    fn find_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let rates = self.throughputs();
        let errors = total(self.runs.iter().map(|run| run.errors));
        if errors > 0 {
            warnings.push(format!("{errors} {} failed", plural(errors, "request")));
        }
        let corrupted = total(self.runs.iter().map(|run| run.corrupted_blocks));
        if corrupted > 0 {
            warnings.push(format!(
                "{corrupted} {} did not hold what was written there",
                plural(corrupted, "block")
            ));
        }
        let stalled: f64 = self.runs.iter().map(|run| run.stalled_seconds).sum();
        if stalled > 0.0 {
            // As short as the figure allows: 6, 0.25.
            let stalled = (stalled * 1000.0).round() / 1000.0;
            warnings.push(format!("{stalled} s without any progress (stall)"));
        }
        let strange = outliers(&rates);
        for &index in &strange {
            warnings.push(format!(
                "run {} is an outlier: {:.1} MB/s, median {:.1}",
                self.runs[index].repeat, rates[index], self.mb_per_s
            ));
        }
        if let Some(change) = drift(&rates) {
            warnings.push(format!("drift: later runs are {:.0} % {}", change.abs() * 100.0, faster(change)));
        } else if strange.is_empty() && self.mb_per_s > 0.0 {
            let share = (self.spread.mb_per_s.max - self.spread.mb_per_s.min) / self.mb_per_s;
            if share > NOISE_SHARE {
                warnings.push(format!("noise: the runs lie {:.0} % of their median apart", share * 100.0));
            }
        }
        warnings
    }
}

/// What a tool with this rule would show for these runs.
fn score(rule: Scoring, runs: &[Run]) -> Option<Score> {
    let Scoring::Best = rule;
    Some(Score {
        rule,
        iops: runs.iter().map(|run| run.iops).max_by(f64::total_cmp)?,
        mb_per_s: runs.iter().map(|run| run.mb_per_s).max_by(f64::total_cmp)?,
        latency_us: runs.iter().map(|run| run.latency_us.mean).min_by(f64::total_cmp)?,
    })
}

impl Document {
    /// Fills in everything that follows from the results: ratios to the raw device, verdicts and warnings. Calling it
    /// again gives the same document; warnings that the caller added stay.
    pub fn conclude(&mut self) {
        for index in 0..self.results.len() {
            let result = &self.results[index];
            let relative = if result.target == RAW { None } else { self.relative_to(result, RAW) };
            self.results[index].relative_to_raw = relative;
        }
        self.verdicts = self.workloads().into_iter().map(|workload| self.verdict(workload)).collect();
        for warning in self.overall_warnings() {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }

    /// A result as a multiple of the same case on another target.
    pub fn relative_to(&self, result: &CaseResult, baseline: &str) -> Option<Relative> {
        let base = self.find(baseline, &result.case)?;
        relative_in_turns(&result.throughputs(), &base.throughputs())
    }

    fn verdict(&self, workload: &str) -> Verdict {
        let baseline = self.baseline().unwrap_or(RAW);
        let mut targets = Vec::new();
        for target in self.targets.iter().filter(|target| target.name != baseline) {
            let cases: Vec<(String, Relative)> = self
                .results
                .iter()
                .filter(|result| result.target == target.name && result.case.workload == workload)
                .filter_map(|result| Some((result.case.label(), self.relative_to(result, baseline)?)))
                .collect();
            let by_ratio = |a: &&(String, Relative), b: &&(String, Relative)| a.1.ratio.total_cmp(&b.1.ratio);
            let (Some(lowest), Some(highest)) =
                (cases.iter().min_by(by_ratio), cases.iter().max_by(by_ratio))
            else {
                continue;
            };
            targets.push(TargetVerdict {
                target: target.name.clone(),
                baseline: baseline.into(),
                ratio: geometric_mean(&cases.iter().map(|(_, relative)| relative.ratio).collect::<Vec<_>>()),
                cases: cases.len() as u32,
                within_noise: cases.iter().filter(|(_, relative)| relative.within_noise).count() as u32,
                lowest_case: lowest.0.clone(),
                lowest_ratio: lowest.1.ratio,
                highest_case: highest.0.clone(),
                highest_ratio: highest.1.ratio,
            });
        }
        Verdict { workload: workload.into(), sentence: sentence(baseline, &targets), targets }
    }

    fn overall_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.results.iter().any(|result| result.runs.len() == 1) {
            warnings.push(
                "One run of each case says nothing about noise: repeat it (--repeat 3 or more).".into(),
            );
        }
        let runs = || self.results.iter().flat_map(|result| &result.runs);
        let errors = total(runs().map(|run| run.errors));
        if errors > 0 {
            warnings.push(format!(
                "{errors} {} failed: the figures are not comparable.",
                plural(errors, "request")
            ));
        }
        let corrupted = total(runs().map(|run| run.corrupted_blocks));
        if corrupted > 0 {
            let blocks = plural(corrupted, "block");
            warnings.push(format!(
                "{corrupted} {blocks} read back wrong: do not trust this storage, or report a defect."
            ));
        }
        let count = |word: &str| {
            self.results
                .iter()
                .filter(|result| result.warnings.iter().any(|text| text.contains(word)))
                .count() as u64
        };
        let mut mention = |word: &str, what: &str| {
            let cases = count(word);
            if cases > 0 {
                warnings.push(format!("{cases} of {} results {what}", self.results.len()));
            }
        };
        mention("drift:", "drift: later runs differ from the first ones. Let the machine rest and repeat.");
        mention("outlier", "have outliers: something else may have used the machine.");
        mention("noise:", "are noisy: runs of the same case lie far apart.");
        mention("stall", "stalled: for whole intervals of the timeline no request completed.");
        warnings
    }
}

/// What the figures say, for people.
fn sentence(baseline: &str, targets: &[TargetVerdict]) -> String {
    let name = if baseline == RAW { "the raw device" } else { baseline };
    if targets.is_empty() {
        return format!("Only {name} was measured, so there is nothing to compare.");
    }
    let mut parts = Vec::new();
    for (index, verdict) in targets.iter().enumerate() {
        let TargetVerdict { target, ratio, cases, within_noise, lowest_case, highest_case, .. } = verdict;
        let about = if within_noise == cases { "about " } else { "" };
        let of = if index == 0 { format!(" of the throughput of {name}") } else { String::new() };
        let reaches = format!("{target} reaches {about}{}{of}", share(*ratio));
        let range = match cases {
            1 => format!("in {lowest_case}"),
            _ => format!(
                "from {} in {lowest_case} to {} in {highest_case}",
                share(verdict.lowest_ratio),
                share(verdict.highest_ratio)
            ),
        };
        let detail = match within_noise {
            0 => range,
            some if some == cases => "no difference beyond the noise".into(),
            some => format!("{range}; {some} of {cases} cases within the noise"),
        };
        parts.push(format!("{reaches} ({detail})"));
    }
    format!("{}.", parts.join("; "))
}

/// A sum that a nonsensical document cannot overflow.
pub(crate) fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

fn plural(count: u64, noun: &str) -> String {
    if count == 1 { noun.into() } else { format!("{noun}s") }
}

fn faster(change: f64) -> &'static str {
    if change < 0.0 { "slower" } else { "faster" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middles() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(mad(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]), 1.0);
        assert!((geometric_mean(&[0.5, 2.0]) - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), 0.0);
    }

    #[test]
    fn a_hiccup_is_an_outlier_and_scatter_is_not() {
        assert_eq!(outliers(&[100.0, 101.0, 99.0, 100.5, 60.0]), [4]);
        assert_eq!(outliers(&[100.0, 90.0, 110.0, 95.0, 105.0]), [] as [usize; 0]);
        // Two equal runs make a MAD of 0; 5 % off is still no outlier.
        assert_eq!(outliers(&[100.0, 100.0, 105.0]), [] as [usize; 0]);
        assert_eq!(outliers(&[100.0, 10.0]), [] as [usize; 0]);
    }

    #[test]
    fn drift_needs_a_trend() {
        assert!((drift(&[100.0, 90.0, 80.0]).unwrap() + 0.2).abs() < 1e-12);
        assert!(drift(&[80.0, 85.0, 100.0, 110.0]).unwrap() > 0.0);
        assert_eq!(drift(&[100.0, 70.0, 80.0]), None, "the middle run lies outside: scatter");
        assert_eq!(drift(&[100.0, 99.0, 98.0]), None, "too small");
        assert_eq!(drift(&[100.0, 80.0]), None, "too few");
        assert_eq!(drift(&[0.0, 0.0, 0.0]), None);
    }

    #[test]
    fn overlapping_runs_are_within_the_noise() {
        let near = relative(&[98.0, 101.0, 100.0], &[99.0, 102.0, 101.0]).unwrap();
        assert!(near.within_noise && near.low <= near.ratio && near.ratio <= near.high);
        let far = relative(&[80.0, 82.0, 81.0], &[99.0, 102.0, 101.0]).unwrap();
        assert!(!far.within_noise && far.high < 1.0);
        // One hiccup of five does not hide the difference.
        let five = relative(&[80.0, 82.0, 81.0, 79.0, 130.0], &[99.0, 102.0, 101.0, 98.0, 100.0]).unwrap();
        assert!(!five.within_noise);
        assert!(relative(&[97.0], &[100.0]).unwrap().within_noise);
        assert!(!relative(&[90.0], &[100.0]).unwrap().within_noise);
        assert_eq!(relative(&[1.0], &[0.0]), None);
        assert_eq!(relative(&[], &[1.0]), None);
        assert!(relative(&[1.0, 2.0], &[0.0, 3.0]).unwrap().high.is_finite());
    }

    #[test]
    fn what_slows_whole_rounds_leaves_ratios_alone() {
        // The machine became slow, in the third round not for ours yet.
        let (base, ours) = ([100.0, 50.0, 50.0], [81.0, 40.0, 79.0]);
        assert_eq!(relative_in_turns(&ours, &base).unwrap().ratio, 0.81);
        assert_eq!(relative(&ours, &base).unwrap().ratio, 1.58);
        assert_eq!(relative_in_turns(&[80.0, 80.0, 8.0], &[100.0, 100.0, 0.0]).unwrap().ratio, 0.8);
        assert_eq!(relative_in_turns(&[80.0], &[100.0, 50.0, 100.0]).unwrap().ratio, 0.8, "not in turns");
        assert_eq!(relative_in_turns(&[80.0], &[0.0]), None);
    }

    fn runs(rates: &[f64]) -> Vec<Run> {
        let run = |(index, &rate): (usize, &f64)| Run {
            repeat: index as u32 + 1,
            mb_per_s: rate,
            iops: rate * 10.0,
            latency_us: Latency { mean: 1e4 / rate, ..Latency::default() },
            ..Run::default()
        };
        rates.iter().enumerate().map(run).collect()
    }

    #[test]
    fn the_score_is_the_best_of_the_loops() {
        let case = Case { scoring: Some(Scoring::Best), ..Case::default() };
        let result = CaseResult::aggregate("raw", case, runs(&[100.0, 200.0, 50.0]));
        assert_eq!((result.mb_per_s, result.iops), (100.0, 1000.0));
        let score = result.score.unwrap();
        assert_eq!((score.mb_per_s, score.iops, score.latency_us), (200.0, 2000.0, 50.0));
    }

    #[test]
    fn troubles_are_named() {
        let mut bad = runs(&[100.0, 101.0, 99.0]);
        bad[1].errors = 1;
        bad[2].stalled_seconds = 7.0;
        bad[2].corrupted_blocks = 2;
        let result = CaseResult::aggregate("raw", Case::default(), bad);
        assert_eq!(
            result.warnings,
            [
                "1 request failed",
                "2 blocks did not hold what was written there",
                "7 s without any progress (stall)"
            ]
        );
        assert_eq!(
            CaseResult::aggregate("raw", Case::default(), runs(&[100.0, 80.0, 70.0])).warnings.len(),
            1
        );
        assert_eq!(CaseResult::aggregate("raw", Case::default(), Vec::new()).warnings.len(), 0);
    }
}
