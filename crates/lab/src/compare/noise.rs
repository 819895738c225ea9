//! Whether the machine is quiet enough for the answer, while it is being measured.

use crate::Comparison;
use crate::estimate::{ERRORS, LEAST_PASSES, widest};

/// After this many passes, the scatter of the slices says what the rest of them will tell.
pub(crate) const FIRST: u32 = 8;

// The scatter is known by the time of the first word about it.
const _: () = assert!(FIRST as usize >= crate::estimate::LEAST_PASSES);

/// If differences of more than this share stay hidden, the machine is not quiet enough for an answer.
const QUIET: f64 = 0.10;

/// What the slices so far say of the noise.
pub(crate) struct Noise {
    /// The level of significance that intervals are judged by while more ratios are to come: that of the report is no
    /// smaller, whatever the others are.
    pub level: f64,
    /// The difference that is to be told, if one was asked for (0.05: of 5 %).
    pub until: Option<f64>,
    /// Whether the user was told of the noise.
    is_said: bool,
}

impl Noise {
    /// For so many ratios in the report.
    pub(crate) fn new(ratios: usize, until: Option<f64>) -> Noise {
        Noise { level: ERRORS / ratios.max(1) as f64, until, is_said: false }
    }

    pub(crate) fn of(comparison: &Comparison) -> Noise {
        let cases: usize = comparison.workloads.iter().map(|workload| workload.cases.len()).sum();
        // Each target with the base, and at most two pairs besides.
        Noise::new(cases * (comparison.targets.len() + 1), comparison.until)
    }

    /// Whether the asked difference would be told by what was measured; `rates` has, for each case, for each target its
    /// rates.
    pub(crate) fn is_reached(&self, rates: &[Vec<Vec<f64>>]) -> bool {
        self.until.is_some_and(|share| {
            rates.iter().all(|case| widest(case, self.level).is_some_and(|width| width <= share.ln_1p()))
        })
    }

    /// Returns, once, a sentence that the noise hides differences, if it does: after `done` of `passes` passes, while other
    /// programs use so many processors.
    pub(crate) fn sentence(
        &mut self,
        rates: &[Vec<Vec<f64>>],
        done: u32,
        passes: u32,
        others: Option<f64>,
    ) -> Option<String> {
        if self.is_said || done < FIRST.max(LEAST_PASSES as u32) {
            return None;
        }
        let width = rates.iter().filter_map(|case| widest(case, self.level)).fold(0.0, f64::max);
        // Intervals narrow with the root of the number of passes.
        let hidden = (width * (f64::from(done) / f64::from(passes.max(done))).sqrt()).exp_m1();
        if hidden <= self.until.unwrap_or(QUIET).max(f64::EPSILON) {
            return None;
        }
        self.is_said = true;
        Some(sentence(others, hidden, self.until))
    }
}

fn sentence(others: Option<f64>, hidden: f64, until: Option<f64>) -> String {
    let hidden = crate::format::hidden(hidden * 100.0);
    let who = match others.filter(|others| *others >= super::machine::NEGLIGIBLE) {
        Some(others) => format!("another program uses {others:.1} processors; at this noise"),
        None => "at the noise of this machine".into(),
    };
    let what = match until {
        None => "; more --time, or --until 5%, measures on",
        Some(_) => "; it measures on until they do not, or the time is over",
    };
    format!("{who} differences below {hidden} stay hidden{what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates of three targets, with this scatter.
    fn rates(seed: u64, passes: usize, scatter: f64) -> Vec<Vec<Vec<f64>>> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut target =
            || (0..passes).map(|_| (scatter * (rng.f64() - 0.5)).exp() * 1e4).collect::<Vec<f64>>();
        vec![vec![target(), target(), target()]]
    }

    #[test]
    fn noise_that_hides_the_answer_is_said_once_and_a_quiet_machine_is_not() {
        let mut noise = Noise::new(8, None);
        assert_eq!(noise.sentence(&rates(1, 8, 0.05), 8, 20, Some(1.9)), None);
        assert_eq!(noise.sentence(&rates(1, 4, 2.0), 4, 20, None), None, "too early");
        let said = noise.sentence(&rates(1, 8, 2.0), 8, 20, Some(1.87)).unwrap();
        assert!(
            said.starts_with("another program uses 1.9 processors; at this noise differences below "),
            "{said}"
        );
        assert!(said.contains(" stay hidden; more --time"), "{said}");
        assert_eq!(noise.sentence(&rates(1, 8, 2.0), 8, 20, Some(1.9)), None, "once");
        let said = Noise::new(8, None).sentence(&rates(1, 8, 2.0), 8, 20, Some(0.0)).unwrap();
        assert!(said.starts_with("at the noise of this machine differences"), "{said}");
    }

    /// What is foretold from the first passes is what the rest of them tell, roughly.
    #[test]
    fn what_stays_hidden_is_foretold() {
        let level = ERRORS / 8.0;
        let mut apart: Vec<f64> = Vec::new();
        for seed in 0..100 {
            let all = rates(seed, 20, 1.0);
            let first: Vec<Vec<Vec<f64>>> =
                all.iter().map(|case| case.iter().map(|target| target[..8].to_vec()).collect()).collect();
            let foretold = widest(&first[0], level).unwrap() * (8.0f64 / 20.0).sqrt();
            apart.push(foretold / widest(&all[0], level).unwrap());
        }
        let typical = crate::statistics::median(&apart);
        assert!((0.7..2.0).contains(&typical), "{typical}");
    }

    #[test]
    fn an_asked_difference_is_reached_when_its_interval_is_narrow_enough() {
        let noise = Noise::new(2, Some(0.05));
        assert!(!noise.is_reached(&rates(1, 8, 0.5)) && !noise.is_reached(&rates(1, 3, 0.001)));
        assert!(noise.is_reached(&rates(1, 8, 0.01)) && noise.is_reached(&rates(1, 2000, 0.5)));
        assert!(!Noise::new(2, None).is_reached(&rates(1, 8, 0.0)));
    }
}
