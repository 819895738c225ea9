//! The order in which targets have their slices in each pass.
//!
//! In the rows of a Williams design every target is equally often at every position, and follows every other target
//! equally often (Williams 1949, *Experimental designs balanced for the estimation of residual effects of treatments*).
//! So neither the position in a pass nor the after-effects of the slice before favour a target.

use fastrand::Rng;

/// Generates the orders of one pass after the other.
pub(crate) struct Orders {
    /// For each number of the design the target that it stands for.
    names: Vec<usize>,
    /// The rows of the design that have not been used since all were last shuffled.
    rows: Vec<usize>,
    rng: Rng,
}

impl Orders {
    pub(crate) fn new(targets: usize, seed: u64) -> Orders {
        let mut rng = Rng::with_seed(seed);
        let mut names: Vec<usize> = (0..targets).collect();
        rng.shuffle(&mut names);
        Orders { names, rows: Vec::new(), rng }
    }

    /// The order of the next pass.
    pub(crate) fn next(&mut self) -> Vec<usize> {
        let count = self.names.len();
        if self.rows.is_empty() {
            // With an odd number of targets the design needs the reversed rows too.
            self.rows = (0..if count.is_multiple_of(2) { count } else { 2 * count }).collect();
            self.rng.shuffle(&mut self.rows);
        }
        let row = self.rows.pop().unwrap_or(0);
        let mut order: Vec<usize> =
            (0..count).map(|place| self.names[(zigzag(place, count) + row) % count]).collect();
        if row >= count {
            order.reverse();
        }
        debug_assert!(
            (0..count).all(|target| order.contains(&target)),
            "each target has its slice in every pass"
        );
        order
    }
}

/// The first row of the design: 0, n − 1, 1, n − 2, …
fn zigzag(place: usize, count: usize) -> usize {
    if place.is_multiple_of(2) { place / 2 } else { count - 1 - place / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn every_target_has_every_place_and_every_predecessor_equally_often() {
        for targets in 1..9 {
            let mut orders = Orders::new(targets, 8664);
            let rows = if targets.is_multiple_of(2) { targets } else { 2 * targets };
            let mut places = HashMap::new();
            let mut pairs = HashMap::new();
            for _ in 0..rows {
                let order = orders.next();
                for (place, target) in order.iter().enumerate() {
                    *places.entry((place, *target)).or_insert(0) += 1;
                }
                for pair in order.windows(2) {
                    *pairs.entry((pair[0], pair[1])).or_insert(0) += 1;
                }
            }
            assert_eq!(places.len(), targets * targets);
            assert!(places.values().all(|&count| count == rows / targets), "{targets}: {places:?}");
            assert_eq!(pairs.len(), targets * (targets - 1));
            assert!(pairs.values().all(|&count| count == rows / targets), "{targets}: {pairs:?}");
        }
    }
}
