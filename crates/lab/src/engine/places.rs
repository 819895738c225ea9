//! Which place in a span a random I/O goes to.

use crate::Result;
use fastrand::Rng;

/// How random I/Os are spread over the places of a span.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Spread {
    /// All places are equally likely.
    #[default]
    Uniform,
    /// The place of rank `k` is drawn in proportion to `1 / k^theta`. Ranks are scattered over the span; `at` says
    /// where the place of the first rank lies, from 0 (the beginning) to 1.
    Zipf {
        /// More than 0.
        theta: f64,
        /// From 0 to 1.
        at: Option<f64>,
    },
    /// Self-similar: a share `hot` of the places receives a share `1 - hot` of the I/Os, and the same holds again
    /// inside that share of the places. `at` as for [`Spread::Zipf`].
    Pareto {
        /// More than 0 and less than 1.
        hot: f64,
        /// From 0 to 1.
        at: Option<f64>,
    },
    /// A normal distribution around `at`, from 0 to 1, with a standard deviation in percent of the span; a place
    /// outside the span is drawn again.
    Normal {
        /// More than 0 and at most 100.
        deviation: f64,
        /// From 0 to 1.
        at: f64,
    },
    /// Consecutive parts of the span, each with its share of the I/Os; a part has at least one place. The span behind the
    /// last part receives the remaining share. Parts that lie behind the end of the span are left out, and the others
    /// share the I/Os in proportion.
    Parts(Vec<SpreadPart>),
}

/// A part of the span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpreadPart {
    /// Its share of the I/Os, in percent.
    pub percent: f64,
    /// The length of the part.
    pub length: PartLength,
}

/// The length of a part of the span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PartLength {
    /// In percent of the span.
    Percent(f64),
    /// In bytes.
    Bytes(u64),
    /// The remaining span.
    Rest,
}

impl Spread {
    /// Fails if a parameter is out of its range.
    pub(crate) fn check(&self) -> Result<()> {
        let share = |at: f64| (0.0..=1.0).contains(&at);
        let is_right = match self {
            Spread::Uniform => true,
            Spread::Zipf { theta, at } => *theta > 0.0 && *theta < 100.0 && at.is_none_or(share),
            Spread::Pareto { hot, at } => *hot > 0.0 && *hot < 1.0 && at.is_none_or(share),
            Spread::Normal { deviation, at } => *deviation > 0.0 && *deviation <= 100.0 && share(*at),
            Spread::Parts(parts) => {
                let sum: f64 = parts.iter().map(|part| part.percent).sum();
                parts.iter().all(|part| part.percent >= 0.0) && sum <= 100.0 + 1e-6
            }
        };
        match is_right {
            true => Ok(()),
            false => super::Job::refuse(format!("{self:?} is no way to spread I/Os")),
        }
    }
}

/// Draws random places; made for one number of places.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The number of places; 1 or more.
    count: u64,
    draw: Draw,
}

#[derive(Clone, Debug)]
enum Draw {
    Uniform,
    Zipf {
        zipf: Zipf,
        order: Order,
    },
    Pareto {
        power: f64,
        order: Order,
    },
    Normal {
        middle: f64,
        deviation: f64,
    },
    /// For each part: the cumulated share of I/Os up to its end in percent, its first place and the place after its
    /// last.
    Parts(Vec<(f64, u64, u64)>),
}

/// Maps ranks to places: a permutation scatters them, and a shift then brings the first rank to the place that was
/// asked for.
#[derive(Clone, Debug)]
struct Order {
    strewn: Permutation,
    shift: u64,
}

impl Order {
    fn new(count: u64, at: Option<f64>, seed: u64) -> Order {
        let strewn = Permutation::new(count, seed);
        let first = at.map_or(strewn.of(0), |at| (count as f64 * at) as u64 % count);
        Order { strewn, shift: first + count - strewn.of(0) }
    }

    fn place(&self, rank: u64, count: u64) -> u64 {
        (self.strewn.of(rank) + self.shift) % count
    }
}

impl Places {
    /// Makes a generator of `count` places, of `unit` bytes each. Which places are popular depends on `seed` alone.
    pub(super) fn new(spread: &Spread, count: u64, unit: u64, seed: u64) -> Places {
        let count = count.max(1);
        let draw = match spread {
            _ if count == 1 => Draw::Uniform,
            Spread::Uniform => Draw::Uniform,
            Spread::Zipf { theta, at } => {
                Draw::Zipf { zipf: Zipf::new(count, *theta), order: Order::new(count, *at, seed) }
            }
            // Gray, Sundaresan, Englert, Baclawski and Weinberger, "Quickly generating billion-record synthetic
            // databases", SIGMOD 1994, section 3.2: N * u^(log h / log(1 - h)).
            Spread::Pareto { hot, at } => {
                Draw::Pareto { power: hot.ln() / (1.0 - hot).ln(), order: Order::new(count, *at, seed) }
            }
            Spread::Normal { deviation, at } => {
                Draw::Normal { middle: count as f64 * at, deviation: count as f64 * deviation / 100.0 }
            }
            Spread::Parts(parts) => Draw::Parts(parts_of(parts, count, unit)),
        };
        Places { count, draw }
    }

    /// The next place.
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        let count = self.count;
        match &self.draw {
            Draw::Uniform => rng.u64(..count),
            Draw::Zipf { zipf, order } => order.place(zipf.draw(rng), count),
            Draw::Pareto { power, order } => {
                let rank = (count as f64 * rng.f64().powf(*power)) as u64;
                order.place(rank.min(count - 1), count)
            }
            Draw::Normal { middle, deviation } => loop {
                // Box and Muller, 1958.
                let (u, v) = (1.0 - rng.f64(), rng.f64());
                let place = middle + deviation * (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
                if place >= 0.0 && place < count as f64 {
                    return place as u64;
                }
            },
            Draw::Parts(parts) => {
                let share = rng.f64() * 100.0;
                let index = parts.partition_point(|(until, ..)| *until <= share).min(parts.len() - 1);
                let (_, start, end) = parts[index];
                rng.u64(start..end)
            }
        }
    }
}

/// Returns the parts that have a share of I/Os, each with its cumulated share in percent, its first place and the place
/// after its last; one part for the whole span where there are none.
fn parts_of(parts: &[SpreadPart], count: u64, unit: u64) -> Vec<(f64, u64, u64)> {
    let mut found: Vec<(f64, u64, u64)> = Vec::new();
    let (mut start, mut all) = (0.0, 0.0);
    let stated: f64 = parts.iter().map(|part| part.percent).sum();
    let behind = SpreadPart { percent: 100.0 - stated, length: PartLength::Rest };
    for part in parts.iter().chain([&behind]) {
        let length = match part.length {
            PartLength::Percent(percent) => count as f64 * percent / 100.0,
            PartLength::Bytes(bytes) => bytes as f64 / unit.max(1) as f64,
            PartLength::Rest => count as f64,
        };
        let end = (start + length).min(count as f64);
        // The margins allow for the rounding of lengths and shares that come to the whole together.
        if part.percent > 1e-9 && start < count as f64 - 1e-6 {
            let taken = found.last().map_or(0, |&(.., last)| last);
            // A part that is smaller than a place has one place: the share of a hot spot must not be lost.
            let first = (start.round() as u64).max(taken).min(count - 1);
            let last = (end.round() as u64).clamp(first + 1, count);
            all += part.percent;
            found.push((all, first, last));
        }
        start = end;
    }
    if found.is_empty() {
        return vec![(100.0, 0, count)];
    }
    // The shares of parts that lie behind the end go to the others in proportion.
    found.iter_mut().for_each(|(until, ..)| *until *= 100.0 / all);
    found
}

/// Draws ranks from 0 with weights of `1 / (rank + 1)^theta`, by rejection-inversion: W. Hörmann and G. Derflinger,
/// "Rejection-inversion to generate variates from monotone discrete distributions", ACM TOMACS 6 (1996). Time and
/// memory do not depend on the number of ranks.
#[derive(Clone, Debug)]
struct Zipf {
    count: f64,
    theta: f64,
    first: f64,
    last: f64,
    shortcut: f64,
}

impl Zipf {
    fn new(count: u64, theta: f64) -> Zipf {
        let count = count as f64;
        let mut zipf = Zipf { count, theta, first: 0.0, last: 0.0, shortcut: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(count + 0.5);
        zipf.shortcut = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    fn weight(&self, x: f64) -> f64 {
        x.powf(-self.theta)
    }

    /// The integral of the weight, up to a constant.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.theta) * log;
        // (e^y - 1) / y, which tends to 1 where theta tends to 1.
        let ratio = if power.abs() > 1e-8 { power.exp_m1() / power } else { 1.0 + power / 2.0 };
        ratio * log
    }

    fn inverse(&self, x: f64) -> f64 {
        let power = (x * (1.0 - self.theta)).max(-1.0);
        let ratio = if power.abs() > 1e-8 { power.ln_1p() / power } else { 1.0 - power / 2.0 };
        (ratio * x).exp()
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.last + rng.f64() * (self.first - self.last);
            let x = self.inverse(u);
            let k = x.round().clamp(1.0, self.count);
            if k - x <= self.shortcut || u >= self.integral(k + 0.5) - self.weight(k) {
                return k as u64 - 1;
            }
        }
    }
}

/// A pseudo-random permutation of the numbers below `count`: a Feistel network over the next power of four. A result
/// that is not below `count` is permuted again until it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permutation {
    count: u64,
    /// Bits of each half.
    bits: u32,
    seed: u64,
}

impl Permutation {
    pub(super) fn new(count: u64, seed: u64) -> Permutation {
        let needed = u64::BITS - count.saturating_sub(1).leading_zeros();
        Permutation { count, bits: needed.div_ceil(2).clamp(1, 32), seed }
    }

    /// Returns the number at position `number` of the permutation.
    pub(super) fn of(&self, number: u64) -> u64 {
        let mut number = number;
        loop {
            number = self.once(number);
            if number < self.count {
                return number;
            }
        }
    }

    fn once(&self, number: u64) -> u64 {
        let mask = (1_u64 << self.bits) - 1;
        let (mut left, mut right) = (number >> self.bits & mask, number & mask);
        for round in 1..=4 {
            // Each round has a key of its own, also for the seed 0: with equal rounds, neighbouring numbers would stay
            // together.
            let key = mix(self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(round)));
            let mixed = mix(right ^ key);
            (left, right) = (right, left ^ mixed & mask);
        }
        left << self.bits | right
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No distance between two consecutive places is frequent, whatever the seed.
    #[test]
    fn an_order_of_chance_has_no_favourite_distance() {
        for seed in [0, 1, 42, u64::MAX] {
            for count in [2041, 2048, 4096, 100_000] {
                let order = Permutation::new(count, seed);
                let places: Vec<u64> = (0..2000).map(|number| order.of(number)).collect();
                let mut distances = std::collections::HashMap::new();
                for pair in places.windows(2) {
                    *distances.entry(pair[1].wrapping_sub(pair[0])).or_insert(0) += 1;
                }
                let most = distances.values().max().unwrap();
                assert!(*most <= 12, "seed {seed}, {count} places: one distance {most} times of 2,000");
            }
        }
    }

    /// Returns how often each of `count` places is drawn in 200,000 draws.
    fn counts(spread: &Spread, count: u64) -> Vec<u64> {
        let places = Places::new(spread, count, 4096, 7);
        let mut rng = Rng::with_seed(1);
        let mut counts = vec![0; count as usize];
        for _ in 0..200_000 {
            counts[places.draw(&mut rng) as usize] += 1;
        }
        counts
    }

    fn sorted(mut counts: Vec<u64>) -> Vec<u64> {
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    #[test]
    fn zipf_has_the_weights_of_its_ranks() {
        for theta in [0.5, 1.0, 1.2, 2.0] {
            let weights: Vec<f64> = (1..=100).map(|rank| f64::from(rank).powf(-theta)).collect();
            let sum: f64 = weights.iter().sum();
            let found = counts(&Spread::Zipf { theta, at: Some(0.25) }, 100);
            let by_rank = sorted(found.clone());
            for rank in [0, 1, 4, 20] {
                let expected = 200_000.0 * weights[rank] / sum;
                let found = by_rank[rank] as f64;
                // Six standard deviations: ranks with nearly equal weights may swap their order in the sorted counts.
                assert!((found - expected).abs() < 6.0 * expected.sqrt() + 1.0, "{theta}: {rank}: {found}");
            }
            assert!(found[25] == by_rank[0] && (theta < 1.0 || found[26] < by_rank[0] / 2));
        }
    }

    #[test]
    fn pareto_gives_a_part_its_share_and_a_part_of_that_again() {
        let counts = sorted(counts(&Spread::Pareto { hot: 0.2, at: None }, 1000));
        let share = |places: usize| counts[..places].iter().sum::<u64>() as f64 / 200_000.0;
        assert!((share(200) - 0.8).abs() < 0.01 && (share(40) - 0.64).abs() < 0.01, "{}", share(200));
    }

    #[test]
    fn a_bell_lies_around_its_middle() {
        let counts = counts(&Spread::Normal { deviation: 10.0, at: 0.5 }, 1000);
        let within = counts[400..600].iter().sum::<u64>() as f64 / 200_000.0;
        assert!((within - 0.6827).abs() < 0.01, "{within}");
    }

    #[test]
    fn parts_have_their_shares_and_holes_none() {
        let part = |percent, length| SpreadPart { percent, length: PartLength::Percent(length) };
        let counts = counts(&Spread::Parts(vec![part(60.0, 10.0), part(0.0, 20.0), part(30.0, 20.0)]), 100);
        let share = |from: usize, to: usize| counts[from..to].iter().sum::<u64>() as f64 / 200_000.0;
        assert!(
            (share(0, 10) - 0.6).abs() < 0.01 && share(10, 30) == 0.0 && (share(30, 50) - 0.3).abs() < 0.01
        );
        assert!((share(50, 100) - 0.1).abs() < 0.01);
        let bytes = SpreadPart { percent: 100.0, length: PartLength::Bytes(8192) };
        assert!(super::tests::counts(&Spread::Parts(vec![bytes]), 100)[2..].iter().all(|&count| count == 0));
    }

    #[test]
    fn a_small_part_has_one_place_and_parts_behind_the_end_none() {
        let percent = |percent, length| SpreadPart { percent, length: PartLength::Percent(length) };
        let bytes = |percent, length| SpreadPart { percent, length: PartLength::Bytes(length) };
        let share = |parts: &[SpreadPart], from: usize, to: usize| {
            let counts = counts(&Spread::Parts(parts.to_vec()), 100);
            counts[from..to].iter().sum::<u64>() as f64 / 200_000.0
        };
        for (parts, from, to, expected) in [
            // A hot part of less than half a place, at the beginning and at the end.
            (vec![percent(90.0, 0.01), percent(10.0, 99.99)], 0, 1, 0.9),
            (vec![percent(10.0, 99.99), percent(90.0, 0.01)], 99, 100, 0.9 + 0.001),
            (vec![bytes(90.0, 512), bytes(10.0, 40 * 4096)], 0, 1, 0.9),
            // Two small parts beside each other have a place each.
            (vec![bytes(40.0, 512), bytes(60.0, 512)], 1, 2, 0.6),
            // What lies behind the end leaves its share to the others.
            (vec![bytes(10.0, 50 * 4096), bytes(10.0, 50 * 4096), bytes(80.0, 1 << 30)], 0, 50, 0.5),
            (vec![percent(10.0, 50.0), percent(10.0, 50.0)], 0, 50, 0.5),
            // A part that is cut by the end keeps its share.
            (vec![bytes(20.0, 50 * 4096), bytes(80.0, 1 << 30)], 0, 50, 0.2),
        ] {
            let found = share(&parts, from, to);
            assert!((found - expected).abs() < 0.01, "{parts:?}: {found}");
        }
    }

    #[test]
    fn a_permutation_has_every_number_once() {
        for count in [1, 2, 3, 5, 16, 17, 1000, 4097] {
            let permutation = Permutation::new(count, 99);
            let mut seen = vec![false; count as usize];
            for number in 0..count {
                assert!(!std::mem::replace(&mut seen[permutation.of(number) as usize], true));
            }
        }
        let order: Vec<u64> = (0..1000).map(|number| Permutation::new(1000, 5).of(number)).collect();
        let rising = order.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((440..560).contains(&rising), "{rising}");
    }

    #[test]
    fn what_is_no_spread_is_refused() {
        for wrong in [
            Spread::Zipf { theta: 0.0, at: None },
            Spread::Zipf { theta: f64::NAN, at: None },
            Spread::Pareto { hot: 1.0, at: None },
            Spread::Normal { deviation: 0.0, at: 0.5 },
            Spread::Parts(vec![SpreadPart { percent: 101.0, length: PartLength::Percent(1.0) }]),
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
