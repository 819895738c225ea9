//! Helpers for campaigns, the long runs of the tests.

use platter_vfs::CheckReport;
use std::collections::{BTreeMap, BTreeSet};

/// The seed of a campaign: `PLATTER_SEED`, or 8664. It is printed, so that a failure can be repeated.
///
/// # Panics
/// If `PLATTER_SEED` is not a number.
pub fn seed() -> u64 {
    let seed =
        std::env::var("PLATTER_SEED").map_or(8664, |seed| seed.parse().expect("PLATTER_SEED is a number"));
    println!("PLATTER_SEED={seed}");
    seed
}

/// The findings of a check, one per line.
pub fn told(report: &CheckReport) -> String {
    report.findings.iter().map(|finding| format!("  {finding}\n")).collect()
}

/// The files of a volume that were changed or lost, one message each, without those whose paths begin with a string in
/// `hit`.
pub fn losses(
    before: &BTreeMap<String, Vec<u8>>,
    after: &BTreeMap<String, Vec<u8>>,
    hit: &BTreeSet<String>,
) -> Vec<String> {
    let spared = before.iter().filter(|(path, _)| !hit.iter().any(|hit| path.starts_with(hit.as_str())));
    let lost = spared.filter(|(path, content)| after.get(*path) != Some(content));
    lost.map(|(path, _)| match after.contains_key(path) {
        true => format!("{path} was changed"),
        false => format!("{path} was lost"),
    })
    .collect()
}

/// Runs a million operations, 10,000 at a time on each of the volumes by rotation. `run` gets a volume, a seed and a
/// count.
pub fn million<V: Copy>(volumes: &[V], run: impl Fn(V, u64, usize)) {
    const COUNT: usize = 10_000;
    let seed = seed();
    for round in 0..1_000_000 / COUNT {
        let (stream, number) = (round / volumes.len(), round % volumes.len());
        run(volumes[number], seed + (1000 * stream + number) as u64, COUNT);
    }
    println!("a million operations agree");
}
