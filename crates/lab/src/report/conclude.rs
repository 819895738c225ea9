//! Everything that is derived from the slices: rates, ratios with their intervals, verdicts and warnings. It is
//! computed here once, so that every view shows the same.

use super::answer::Standing;
use crate::document::{CaseResult, Document, Estimate, RAW, Round, Score, Scoring, Verdict};
use crate::estimate::{self, Difference, Fit, LEAST_PASSES};
use crate::statistics::{plural, total};

/// The results of one case that are fitted together.
struct Fitted {
    /// The positions of the results in [`Document::results`], in the order of the fit's targets.
    results: Vec<usize>,
    passes: u32,
    fit: Fit,
}

impl Document {
    /// Fills in everything that follows from the results. Calling it again gives the same document; warnings that the
    /// caller added stay.
    pub fn conclude(&mut self) {
        self.tell_targets_apart();
        if !self.targets.iter().any(|target| target.name == self.settings.base) {
            let raw = self.targets.iter().find(|target| target.name == RAW);
            self.settings.base =
                raw.or(self.targets.first()).map(|target| target.name.clone()).unwrap_or_default();
        }
        for result in self.results.iter_mut().filter(|result| !has_rate(result)) {
            (result.iops, result.mb_per_s) = (0.0, 0.0);
        }
        let cases = self.fit_cases();
        let mut found: Vec<(usize, String, u32, Difference)> = Vec::new();
        for case in &cases {
            for (place, &index) in case.results.iter().enumerate() {
                let result = &mut self.results[index];
                let iops = case.fit.rate(place);
                result.iops = if iops.is_finite() { iops } else { 0.0 };
                result.mb_per_s = result.iops * mean_block(result) / 1e6;
                for base in self.bases(&self.results[index].target) {
                    let base_place =
                        case.results.iter().position(|&other| self.results[other].target == base);
                    if let Some(base_place) = base_place {
                        let difference = case.fit.difference(place, base_place);
                        found.push((index, base, case.passes, difference));
                    }
                }
            }
        }
        let chances: Vec<f64> = found.iter().map(|(.., difference)| difference.chance()).collect();
        self.level = estimate::level(&chances);
        self.results.iter_mut().for_each(|result| result.estimates.clear());
        for (index, base, passes, difference) in found {
            let estimate = self.estimate(base, passes, difference, index);
            self.results[index].estimates.push(estimate);
        }
        for result in &mut self.results {
            result.amplification = amplification(result);
            result.score = result.case.scoring.and_then(|rule| score(rule, &result.runs));
            result.warnings = warnings(result);
        }
        for warning in self.overall_warnings() {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        let standings = self.standings(&cases);
        self.answer = super::answer::sentences(self, &standings);
    }

    /// The targets that a target is compared with.
    fn bases(&self, target: &str) -> Vec<String> {
        let base = (target != self.base()).then(|| self.base().to_owned());
        let pairs = self.pairs.iter().filter(|pair| pair.target == target && pair.base != self.base());
        base.into_iter().chain(pairs.map(|pair| pair.base.clone())).collect()
    }

    fn fit_cases(&self) -> Vec<Fitted> {
        let mut cases = Vec::new();
        for workload in self.workloads() {
            for case in self.cases(workload) {
                let all: Vec<usize> = (0..self.results.len())
                    .filter(|&index| self.results[index].case.is_same(case))
                    .filter(|&index| has_rate(&self.results[index]))
                    .collect();
                let most = all.iter().map(|&index| self.results[index].slices().count()).max().unwrap_or(0);
                // A target that failed on the way has fewer slices: it is fitted alone, so that the others keep all
                // their passes.
                let (whole, cut): (Vec<usize>, Vec<usize>) =
                    all.into_iter().partition(|&index| self.results[index].slices().count() == most);
                let groups = std::iter::once(whole).chain(cut.into_iter().map(|index| vec![index]));
                cases.extend(groups.filter(|group| !group.is_empty()).map(|group| self.fit(group)));
            }
        }
        cases
    }

    fn fit(&self, results: Vec<usize>) -> Fitted {
        let rates = |index: usize| -> Vec<f64> {
            let slices = self.results[index].slices();
            // A slice without a completed I/O is counted as half an I/O, because a rate of zero has no logarithm. Some
            // other slice of the result had an I/O.
            let least = |seconds: f64| 0.5 / seconds.clamp(1e-6, 1e12);
            slices.map(|(_, slice)| slice.iops.clamp(least(slice.seconds), 1e15)).collect()
        };
        let columns: Vec<Vec<f64>> = results.iter().map(|&index| rates(index)).collect();
        let passes = columns.first().map_or(0, Vec::len);
        let rows: Vec<Vec<f64>> =
            (0..passes).map(|pass| columns.iter().map(|column| column[pass]).collect()).collect();
        Fitted { results, passes: passes as u32, fit: Fit::new(&rows) }
    }

    fn estimate(&self, base: String, passes: u32, difference: Difference, index: usize) -> Estimate {
        let half = difference.half_width(self.level);
        let ratio = difference.logarithm.exp();
        let known = passes as usize >= LEAST_PASSES && half < 100.0;
        let (low, high) = ((difference.logarithm - half).exp(), (difference.logarithm + half).exp());
        let verdict = if known { Verdict::of(difference.logarithm, half) } else { Verdict::Unclear };
        let only = |figure: f64| known.then_some(figure);
        let is_faster_than_raw = verdict == Verdict::Faster && base == RAW;
        Estimate {
            ratio,
            low: only(low),
            high: only(high),
            passes,
            resolution_percent: only((half.exp() - 1.0) * 100.0),
            verdict,
            remark: is_faster_than_raw.then(|| why_faster(&self.results[index])),
            base,
        }
    }

    /// How the file systems stand in each case, by the same differences and the same level as the cells.
    fn standings(&self, cases: &[Fitted]) -> Vec<Vec<Standing>> {
        let is_raw = |index: usize| {
            let name = &self.results[index].target;
            self.target(name).is_some_and(|target| target.kind == "raw")
        };
        let of_case = |case: &Fitted| {
            let places: Vec<usize> =
                (0..case.results.len()).filter(|&place| !is_raw(case.results[place])).collect();
            let half = |place, other| case.fit.difference(place, other).half_width(self.level);
            let is_enough = case.passes as usize >= LEAST_PASSES;
            let is_known = |place: usize, other: usize| half(place, other) < 100.0;
            // A target is also behind another if their intervals, which readers see beside each other, are apart.
            let interval = |place: usize| {
                let result = &self.results[case.results[place]];
                match result.target == self.base() {
                    true => Some((1.0, 1.0)),
                    false => {
                        let estimate = result.against(self.base())?;
                        Some((estimate.low?, estimate.high?))
                    }
                }
            };
            let are_apart = |place: usize, other: usize| {
                interval(place).zip(interval(other)).is_some_and(|((_, high), (low, _))| high < low)
            };
            let verdict = |place: usize, other: usize| {
                Verdict::of(case.fit.difference(place, other).logarithm, half(place, other))
            };
            let is_behind = |place: usize, other: usize| {
                verdict(place, other) == Verdict::Slower || are_apart(place, other)
            };
            let is_told = |place: usize, other: usize| {
                is_enough && is_known(place, other) && verdict(place, other) != Verdict::Unclear
                    || are_apart(place, other)
                    || are_apart(other, place)
            };
            let standing = |&place: &usize| {
                let others = places.iter().filter(|&&other| other != place).copied();
                others.clone().any(|other| is_known(place, other)).then(|| Standing {
                    target: self.results[case.results[place]].target.clone(),
                    is_behind: others.clone().any(|other| is_behind(place, other)),
                    is_told: others.clone().all(|other| is_told(place, other)),
                })
            };
            places.iter().filter_map(standing).collect::<Vec<Standing>>()
        };
        // Where readers see no interval, nothing is said.
        let has_interval = |case: &&Fitted| {
            let mut estimates = case.results.iter().flat_map(|&index| &self.results[index].estimates);
            estimates.any(|estimate| estimate.low.is_some())
        };
        cases.iter().filter(has_interval).map(of_case).filter(|standings| standings.len() > 1).collect()
    }

    fn overall_warnings(&self) -> Vec<String> {
        let mut warnings = super::circumstances::warnings(self);
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
        let stalled = self.results.iter().filter(|result| runs_stalled(result) > 0.0).count();
        if stalled > 0 {
            warnings.push(format!(
                "{stalled} of {} results stalled: for a while no request completed.",
                self.results.len()
            ));
        }
        let few = self
            .results
            .iter()
            .flat_map(|result| &result.estimates)
            .filter(|estimate| estimate.low.is_none());
        let few = few.count();
        if few > 0 {
            warnings.push(format!(
                "{few} {} on fewer than {LEAST_PASSES} slices, which say nothing about chance: more --time or \
                 --repeat tells.",
                if few == 1 { "ratio rests" } else { "ratios rest" }
            ));
        }
        warnings
    }
}

/// Whether any I/O counts in any slice. Otherwise there is no rate to compare.
fn has_rate(result: &CaseResult) -> bool {
    result.slices().any(|(_, slice)| slice.iops > 0.0)
}

fn runs_stalled(result: &CaseResult) -> f64 {
    result.runs.iter().map(|run| run.stalled_seconds).sum()
}

/// Explains how a file system can be faster than the device below it, or says that it is implausible.
fn why_faster(result: &CaseResult) -> String {
    let Some((asked, seen)) = transfers(result) else {
        return "faster than the device itself; its file may lie in a faster place, or what serves it may hold writes in memory, and \
                what reached the storage cannot be watched: implausible"
            .into();
    };
    let joined = asked as f64 / seen.max(1) as f64;
    let in_order = sequential(result);
    if joined >= 1.1 {
        format!("its requests were joined: the device saw one transfer for {joined:.1} of them")
    } else if in_order >= 5.0 && result.case.random_percent == 100 {
        format!(
            "{in_order:.0} % of its random writes went to the device in order, since they go to new places"
        )
    } else {
        "faster than the device itself, and nothing that reached the storage explains it: implausible".into()
    }
}

/// The requests of the application and the transfers of the device, in runs whose device was observed.
fn transfers(result: &CaseResult) -> Option<(u64, u64)> {
    let watched =
        || result.runs.iter().filter_map(|run| Some((run.requested_of_device(), run.device.as_ref()?)));
    watched().next()?;
    let asked = total(watched().map(|(asked, _)| asked.reads.saturating_add(asked.writes)));
    let seen = total(watched().map(|(_, device)| device.reads.saturating_add(device.writes)));
    Some((asked, seen))
}

/// The share of writes that went to the device in order, in percent.
fn sequential(result: &CaseResult) -> f64 {
    let shares: Vec<f64> =
        result.runs.iter().filter_map(|run| Some(run.device.as_ref()?.sequential_write_percent)).collect();
    crate::statistics::median(&shares)
}

fn amplification(result: &CaseResult) -> Option<f64> {
    let watched =
        || result.runs.iter().filter_map(|run| Some((run.requested_of_device(), run.device.as_ref()?)));
    let (reads, writes) = (result.case.read_percent > 0, result.case.read_percent < 100);
    let sum = |read: u64, write: u64| {
        let of = |counts: bool, bytes| if counts { bytes } else { 0 };
        of(reads, read).saturating_add(of(writes, write))
    };
    let asked = total(watched().map(|(asked, _)| sum(asked.read_bytes, asked.write_bytes)));
    let seen = total(watched().map(|(_, device)| sum(device.read_bytes, device.write_bytes)));
    (asked > 0).then(|| seen as f64 / asked as f64)
}

/// Returns the score that a tool with this rule would show for these runs.
fn score(rule: Scoring, runs: &[Round]) -> Option<Score> {
    let Scoring::Best = rule;
    Some(Score {
        rule,
        iops: runs.iter().map(|run| run.iops).max_by(f64::total_cmp)?,
        mb_per_s: runs.iter().map(|run| run.mb_per_s).max_by(f64::total_cmp)?,
        latency_us: runs.iter().map(|run| run.latency_us.mean).min_by(f64::total_cmp)?,
    })
}

fn warnings(result: &CaseResult) -> Vec<String> {
    let mut warnings = Vec::new();
    let sum = |figure: fn(&Round) -> u64| total(result.runs.iter().map(figure));
    let errors = sum(|run| run.errors);
    if errors > 0 {
        warnings.push(format!("{errors} {} failed", plural(errors, "request")));
    }
    let corrupted = sum(|run| run.corrupted_blocks);
    if corrupted > 0 {
        warnings
            .push(format!("{corrupted} {} did not hold what was written there", plural(corrupted, "block")));
    }
    // Some loads on files neither read nor write data, but have a rate all the same.
    let is_idle = |run: &Round| run.requested.reads == 0 && run.requested.writes == 0;
    if !result.runs.is_empty() && result.runs.iter().all(|run| run.iops == 0.0) {
        let why = match result.runs.iter().all(is_idle) {
            true => "no request was issued",
            false => "no request completed in the measured time",
        };
        warnings.push(format!("nothing was measured: {why}"));
    }
    let stalled = runs_stalled(result);
    if stalled > 0.0 {
        // Rounded to a thousandth, without trailing zeroes: 6, 0.25.
        let stalled = (stalled * 1000.0).round() / 1000.0;
        warnings.push(format!("{stalled} s without any progress (stall)"));
    }
    let background: f64 = result.runs.iter().map(|run| run.background_seconds).sum();
    let seconds: f64 = result.runs.iter().map(|run| run.seconds).sum();
    if result.case.program.is_some() {
        // Asking takes some milliseconds also where there is nothing to write.
        let is_much = background > 0.01 * result.slices().count() as f64;
        if background > 0.05 * seconds && is_much {
            warnings.push(format!(
                "writing back what it wrote took {:.0} % more time after its runs, which does not count (--durable counts it)",
                background / seconds * 100.0
            ));
        }
        let slices: Vec<_> = result.slices().collect();
        let mut codes: Vec<i32> = slices.iter().filter_map(|(_, slice)| slice.exit_code).collect();
        let failed = codes.len();
        codes.sort_unstable();
        codes.dedup();
        if failed > 0 {
            let codes: Vec<String> = codes.iter().map(i32::to_string).collect();
            warnings.push(format!(
                "{failed} of {} runs ended with exit code {}, which was to be ignored",
                slices.len(),
                codes.join(" or ")
            ));
        }
    } else if background > 0.05 * seconds {
        warnings.push(format!(
            "{:.0} % of the time is work that the volume did by itself after slices; it is counted",
            background / seconds * 100.0
        ));
    }
    warnings
}

/// The mean size of a request in bytes: the case's block, unless its shape says that sizes differ.
fn mean_block(result: &CaseResult) -> f64 {
    let sum = |of: fn(&Round) -> f64| result.runs.iter().map(of).sum::<f64>();
    let (mb, iops) = (sum(|run| run.mb_per_s * run.seconds), sum(|run| run.iops * run.seconds));
    match result.case.shape {
        Some(_) if iops > 0.0 => mb * 1e6 / iops,
        _ => result.case.block_bytes as f64,
    }
}
