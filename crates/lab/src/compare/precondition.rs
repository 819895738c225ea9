//! Preconditioning: a device that is written until its rate no longer changes, as an SSD in service is.
//!
//! Facts: SNIA, *Solid State Storage Performance Test Specification*: the device is filled first, then a workload is
//! applied in rounds until the last five are a steady state: their range is at most a fifth of their average, and the
//! rise or fall of the straight line through them at most a tenth of it; after 25 rounds without one, the test ends.
//! Here the workload is random writes of 4 KiB, and it goes over the targets' regions, which is all that is used.

use crate::document::Preconditioning;
use crate::steady::Last;
use crate::{Durability, Job, Pattern, Result, Stop, Subject, Watch};
use platter_device::{Buffer, Device};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The most rounds.
const MOST: usize = 25;
/// Bytes of one write of the fill.
const PIECE: usize = 1 << 20;

/// Whether the last rounds of `rates` are a steady state.
fn is_steady(rates: &[f64]) -> bool {
    Last::of(rates).is_some_and(|last| last.is_steady())
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
    fn all_of_the_range_is_written_and_nothing_else() {
        let memory = Arc::new(MemoryDevice::new(8 << 20, Sectors::SMALL));
        let recorder = Arc::new(Recorder::new(memory.clone()));
        let device: Arc<dyn Device> = recorder.clone();
        let range = 1 << 20..(6 << 20) + 4096;
        let done = precondition(&device, &range, Duration::from_millis(5), &()).unwrap();
        assert!((5..=MOST).contains(&done.rounds_mb_per_s.len()));
        assert_eq!(done.filled_bytes, range.end - range.start);
        let image = memory.to_image();
        let (from, to) = (range.start as usize, range.end as usize);
        assert!(image[..from].iter().chain(&image[to..]).all(|&byte| byte == 0));
        assert!(image[from..to].chunks(512).all(|sector| sector.iter().any(|&byte| byte != 0)));
        assert_eq!(recorder.traffic().discards, 0);
    }
}
