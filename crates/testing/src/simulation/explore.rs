//! Runs many schedules, and shrinks the first that fails.

use super::run::{run, run_scripts, scripts_of};
use super::setting::Setting;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs `count` schedules with the seeds from `first` on, and panics with the seed of the first finding and its shrunk
/// steps.
///
/// # Panics
/// If there is a finding.
pub fn explore(setting: &Arc<Setting>, first: u64, count: u64) {
    for seed in first..first + count {
        if let Err(found) = run(setting, seed) {
            // Printed first, because shrinking takes a while.
            println!("{}: seed {seed}", setting.volume.name);
            let small = shrink(setting, seed);
            let name = setting.volume.name;
            panic!("{name}: seed {seed}: {found}\n  the least that fails with this seed:{small}");
        }
    }
}

/// Runs `count` schedules with the seeds from `first` on, whatever they find, and prints the progress every minute.
/// Findings are printed with their seeds and not shrunk. Returns the number of findings.
pub fn survey(setting: &Arc<Setting>, first: u64, count: u64) -> u64 {
    let name = setting.volume.name;
    let started = Instant::now();
    let (mut told, mut findings) = (started, 0);
    for done in 0..count {
        if told.elapsed() > Duration::from_secs(60) {
            told = Instant::now();
            println!("{name}: {done} of {count} schedules, {findings} findings, {:.0?}", started.elapsed());
        }
        if let Err(found) = run(setting, first + done) {
            findings += 1;
            println!("{name}: seed {}: {found}", first + done);
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let rate = count as f64 / seconds;
    println!("{name}: {count} schedules, {findings} findings, {seconds:.1} s, {rate:.0} a second");
    findings
}

/// Removes steps as long as the run still fails; returns the remaining steps and the finding as text.
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
