//! Many schedules in a row, and the least that shows what one of them found.

use super::run::{run, run_scripts, scripts_of};
use super::setting::Setting;
use std::sync::Arc;

/// Runs so many schedules from a first seed, and panics with the seed of the first finding, shrunk.
///
/// # Panics
/// If there is a finding.
pub fn explore(setting: &Arc<Setting>, first: u64, count: u64) {
    for seed in first..first + count {
        if let Err(found) = run(setting, seed) {
            // Before the rest, which takes a while.
            println!("{}: seed {seed}", setting.volume.name);
            let small = shrink(setting, seed);
            let name = setting.volume.name;
            panic!("{name}: seed {seed}: {found}\n  the least that fails with this seed:{small}");
        }
    }
}

/// Takes steps away as long as the run fails with what is left.
fn shrink(setting: &Arc<Setting>, seed: u64) -> String {
    let mut least = scripts_of(setting, seed);
    let mut found = String::new();
    let mut tries = 0;
    loop {
        let before: usize = least.iter().map(Vec::len).sum();
        for caller in 0..least.len() {
            let mut at = 0;
            while at < least[caller].len() && tries < 400 {
                tries += 1;
                let mut fewer = least.clone();
                fewer[caller].remove(at);
                match run_scripts(setting, seed, Arc::new(fewer.clone())) {
                    Err(text) => (least, found) = (fewer, text),
                    Ok(()) => at += 1,
                }
            }
        }
        if least.iter().map(Vec::len).sum::<usize>() == before || tries >= 400 {
            break;
        }
    }
    let steps: String =
        least.iter().enumerate().map(|(caller, steps)| format!("\n    caller {caller}: {steps:?}")).collect();
    format!("{steps}\n  which gives: {found}")
}
