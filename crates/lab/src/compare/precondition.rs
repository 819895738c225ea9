//! Preconditioning: a device that is written until its rate no longer changes, as an SSD in service is.
//!
//! Facts: SNIA, *Solid State Storage Performance Test Specification*: the device is filled first, then a workload is
//! applied in rounds until the last five are a steady state: their range is at most a fifth of their average, and the
//! rise or fall of the straight line through them at most a tenth of it; after 25 rounds without one, the test ends.
//! Here the workload is random writes of 4 KiB, and it goes over the targets' regions, which is all that is used.

use crate::report::document::Preconditioning;
use crate::{Durability, Job, Pattern, Result, Stop, Subject, Watch};
use platter_device::{Buffer, Device};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The number of rounds that must be steady together.
const WINDOW: usize = 5;
/// The most rounds.
const MOST: usize = 25;
/// The greatest range of the rates in the window, as a share of their average.
const RANGE: f64 = 0.20;
/// The greatest rise or fall of the line through them.
const SLOPE: f64 = 0.10;
/// Bytes of one write of the fill.
const PIECE: usize = 1 << 20;

/// Whether the last rounds of `rates` are a steady state.
pub(super) fn is_steady(rates: &[f64]) -> bool {
    let Some(window) = rates.len().checked_sub(WINDOW).map(|from| &rates[from..]) else { return false };
    let count = WINDOW as f64;
    let average = window.iter().sum::<f64>() / count;
    let most = window.iter().copied().fold(f64::MIN, f64::max);
    let least = window.iter().copied().fold(f64::MAX, f64::min);
    let middle = (count - 1.0) / 2.0;
    let at = |index: usize| index as f64 - middle;
    let across: f64 = window.iter().enumerate().map(|(index, rate)| at(index) * (rate - average)).sum();
    let along: f64 = (0..WINDOW).map(|index| at(index).powi(2)).sum();
    let rise = across / along * (count - 1.0);
    average > 0.0 && most - least <= RANGE * average && rise.abs() <= SLOPE * average
}

/// Fills the range, and then overwrites it in rounds until it is steady or the watch ends it.
pub(super) fn precondition(
    device: &Arc<dyn Device>,
    range: &Range<u64>,
    round: Duration,
    watch: &dyn Watch,
) -> Result<Preconditioning> {
    let mut data = Buffer::new(PIECE);
    let mut rng = fastrand::Rng::with_seed(1);
    for offset in range.clone().step_by(PIECE) {
        if watch.stop() {
            break;
        }
        // No two pieces are alike, as a drive may store what it has already once.
        rng.fill(&mut data);
        let length = (range.end - offset).min(PIECE as u64) as usize;
        device.write_at(offset, &data[..length])?;
        watch.tick(Duration::ZERO, None);
    }
    device.flush()?;
    let pattern = Pattern {
        block: 4096,
        read_percent: 0,
        random_percent: 100,
        workers: 1,
        queue_depth: 32,
        ..Pattern::default()
    };
    let subject = Subject::Device { device: device.clone(), free: None };
    let mut rates = Vec::new();
    while rates.len() < MOST && !is_steady(&rates) && !watch.stop() {
        let job = Job {
            pattern: pattern.clone(),
            range: range.clone(),
            seed: rates.len() as u64,
            ramp_up: Duration::ZERO,
            stop: Stop::After(round),
            durability: Durability::Direct,
            verify: false,
            touch: false,
            interval: round,
        };
        let measured = crate::run(&subject, &job, watch)?;
        rates.push(measured.iops() * 4096.0 / 1e6);
    }
    Ok(Preconditioning {
        filled_bytes: range.end - range.start,
        round_seconds: round.as_secs_f64(),
        is_steady: is_steady(&rates),
        rounds_mb_per_s: rates,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_device::{MemoryDevice, Recorder, Sectors};

    #[test]
    fn five_rounds_are_steady_by_range_and_slope() {
        assert!(!is_steady(&[100.0; 4]) && is_steady(&[100.0; 5]));
        assert!(!is_steady(&[0.0; 5]));
        // Only the last five count.
        assert!(is_steady(&[900.0, 500.0, 100.0, 104.0, 98.0, 102.0, 100.0]));
        // A range of more than a fifth, and a fall of more than a tenth.
        assert!(!is_steady(&[100.0, 122.0, 100.0, 101.0, 100.0]));
        assert!(!is_steady(&[107.0, 103.0, 100.0, 97.0, 93.0]));
        assert!(is_steady(&[104.0, 102.0, 100.0, 98.0, 96.0]));
    }

    #[test]
    fn all_of_the_range_is_written_and_nothing_else() {
        let memory = Arc::new(MemoryDevice::new(8 << 20, Sectors::SMALL));
        let recorder = Arc::new(Recorder::new(memory.clone()));
        let device: Arc<dyn Device> = recorder.clone();
        let range = 1 << 20..(6 << 20) + 4096;
        let done = precondition(&device, &range, Duration::from_millis(5), &()).unwrap();
        assert!((WINDOW..=MOST).contains(&done.rounds_mb_per_s.len()));
        assert_eq!(done.filled_bytes, range.end - range.start);
        let image = memory.to_image();
        let (from, to) = (range.start as usize, range.end as usize);
        assert!(image[..from].iter().chain(&image[to..]).all(|&byte| byte == 0));
        assert!(image[from..to].chunks(512).all(|sector| sector.iter().any(|&byte| byte != 0)));
        assert_eq!(recorder.traffic().discards, 0);
    }
}
