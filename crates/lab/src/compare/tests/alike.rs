//! The same target under several names, on devices of which some places are slower: the place in the list, and so the place on
//! the device, must not make a difference. Costs are computed from offsets, so that nothing depends on the machine.

use crate::compare::order::Orders;
use crate::estimate::{Difference, Fit, level};
use crate::stand::{MEMORY_STRIPE, STRIPE, starts};
use fastrand::Rng;

/// What an I/O at a place costs, as a share of the device from its beginning, and as a number of bytes.
type Cost = fn(f64, u64) -> f64;

/// Devices and memories whose places differ: from one end to the other, from one half to the other, by what was allocated first,
/// and in pieces of 256 MiB.
const COSTS: [Cost; 4] = [
    |share, _| 1.0 + 0.25 * share,
    |share, _| if share < 0.5 { 1.2 } else { 1.0 },
    |share, _| 1.2 - 0.2 * share.sqrt(),
    |_, at| [1.0, 1.15, 1.05, 1.25, 1.1][(at >> 28) as usize % 5],
];

/// The differences of all targets from the one at `base`, of a comparison in slices; `places` has for each target where its
/// stripes are.
fn compare(
    rng: &mut Rng,
    places: &[Vec<u64>],
    stripe: u64,
    device: u64,
    cost: Cost,
    base: usize,
) -> Vec<Difference> {
    let targets = places.len();
    let mut orders = Orders::new(targets, rng.u64(..));
    let mut rows = Vec::new();
    for _ in 0..20 {
        let weather = 1.0 + 0.3 * rng.f64();
        let mut row = vec![0.0; targets];
        for target in orders.next() {
            let mut slice = 0.0;
            for _ in 0..200 {
                let stripes = &places[target];
                let at = stripes[rng.usize(..stripes.len())] + rng.u64(..stripe);
                slice += cost(at as f64 / device as f64, at);
            }
            let noise = 1.0 + 0.04 * (rng.f64() - 0.5);
            row[target] = 200.0 / (slice * weather * noise);
        }
        rows.push(row);
    }
    let fit = Fit::new(&rows);
    (0..targets).filter(|target| *target != base).map(|target| fit.difference(target, base)).collect()
}

/// How many of the cells are told apart, and how many there are, if targets lie where `places` says.
fn told(places: fn(u64, u64, u64) -> Vec<Vec<u64>>) -> (usize, usize) {
    let mut rng = Rng::with_seed(57);
    let (mut told, mut cells) = (0, 0);
    for (stripe, device) in [(MEMORY_STRIPE, 2 << 30), (STRIPE, 8 << 30)] {
        for targets in 2..=8 {
            let share = device / targets / stripe * stripe;
            let places = places(stripe, share, targets);
            // The base is first, in the middle, and last in the list.
            for base in [0, places.len() / 2, places.len() - 1] {
                let all: Vec<Difference> = COSTS
                    .iter()
                    .flat_map(|cost| compare(&mut rng, &places, stripe, device, *cost, base))
                    .collect();
                let level = level(&all.iter().map(Difference::chance).collect::<Vec<_>>());
                told += all.iter().filter(|one| one.logarithm.abs() > one.half_width(level)).count();
                cells += all.len();
            }
        }
    }
    (told, cells)
}

#[test]
fn equal_targets_are_alike_at_every_place_in_the_list() {
    let (apart, cells) = told(|stripe, share, targets| starts(0, stripe, share, targets));
    assert!(cells > 600 && apart * 20 <= cells, "{apart} of {cells}");
}

/// With regions one after the other most cells are told apart, so the test above could fail.
#[test]
fn regions_one_after_the_other_are_not_alike() {
    let (apart, cells) = told(|stripe, share, targets| {
        let region =
            |target: u64| (0..share / stripe).map(|number| target * share + number * stripe).collect();
        (0..targets).map(region).collect()
    });
    assert!(apart * 3 > cells, "{apart} of {cells}");
}
