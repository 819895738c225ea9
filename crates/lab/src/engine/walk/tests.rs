//! Which I/Os a walk produces.

use super::*;
use crate::engine::pattern::Shape;
use crate::{Durability, PartLength, Spread, SpreadPart, Stop};
use std::collections::BTreeMap;

const SPAN: u64 = 1 << 20;

fn job(pattern: Pattern) -> Job {
    let defaults = Pattern { workers: pattern.workers.max(1), queue_depth: 1, ..pattern };
    Job {
        pattern: defaults,
        range: 0..SPAN,
        seed: 8664,
        ramp_up: Duration::ZERO,
        stop: Stop::Count(1),
        durability: Durability::Direct,
        verify: false,
        touch: false,
        interval: Duration::from_secs(1),
    }
}

/// Reads of 4 KiB, `random_percent` of them at random.
fn reads(random_percent: u8, shape: Shape) -> Pattern {
    Pattern { block: 4096, read_percent: 100, random_percent, workers: 1, shape, ..Pattern::default() }
}

fn steps(pattern: Pattern, worker: usize, count: usize) -> Vec<Step> {
    let job = job(pattern);
    let layout = Layout::new(&job, 512).unwrap();
    let mut walk = Walk::new(&job, &layout, worker);
    let steps: Vec<Step> = (0..count).map(|_| walk.step(&layout, None)).collect();
    for step in &steps {
        assert!(step.offset + u64::from(step.length) <= SPAN, "{step:?}");
    }
    steps
}

fn places(pattern: Pattern, worker: usize, count: usize) -> Vec<u64> {
    steps(pattern, worker, count).iter().map(|step| step.offset / 4096).collect()
}

fn portion(weight: u32, least: u32, most: u32) -> Portion {
    Portion {
        weight,
        least,
        most,
        align: 512,
        read_percent: 100,
        random_percent: 0,
        burst: 1,
        delay: Duration::ZERO,
    }
}

#[test]
fn in_order_it_goes_round() {
    let found = places(reads(0, Shape::default()), 0, 258);
    assert_eq!((found[0], found[255], found[256], found[257]), (0, 255, 0, 1));
    let gaps = places(reads(0, Shape { stride: Some(3 * 4096), ..Shape::default() }), 0, 4);
    assert_eq!(gaps, [0, 3, 6, 9]);
    let back = places(reads(0, Shape { stride: Some(-4096), ..Shape::default() }), 0, 258);
    assert_eq!((back[0], back[1], back[255], back[256]), (255, 254, 0, 255));
    assert_eq!(places(reads(0, Shape { stride: Some(0), ..Shape::default() }), 0, 4), [0; 4]);
}

#[test]
fn workers_begin_where_they_are_told() {
    let first = |begin, worker| {
        let pattern = Pattern { workers: 4, ..reads(0, Shape { begin, ..Shape::default() }) };
        places(pattern, worker, 2)
    };
    assert_eq!((first(Begin::Apart, 0), first(Begin::Apart, 1)), (vec![0, 1], vec![64, 65]));
    assert_eq!(first(Begin::Together, 3), [0, 1]);
    assert_eq!(first(Begin::Every(8192), 3), [6, 7]);
    // Offsets that are no multiples of the block need an alignment that divides both.
    let apart = Shape { begin: Begin::Every(4096), ..Shape::default() };
    let large = Pattern { block: 65536, align: 4096, workers: 4, ..reads(0, apart) };
    assert_eq!(places(large, 1, 3), [1, 17, 33]);
    // Two workers that share the position go over the span once together.
    let job = job(Pattern { workers: 2, ..reads(0, Shape { begin: Begin::Shared, ..Shape::default() }) });
    let layout = Layout::new(&job, 512).unwrap();
    let mut walks = [Walk::new(&job, &layout, 0), Walk::new(&job, &layout, 1)];
    let found: Vec<u64> = (0..6).map(|step| walks[step % 2].step(&layout, None).offset / 4096).collect();
    assert_eq!(found, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn each_place_once_before_any_comes_again() {
    let mut found = places(reads(100, Shape { once: true, ..Shape::default() }), 0, 512);
    assert_ne!(found[..256], found[256..], "the second round has another order");
    let (first, second) = found.split_at_mut(256);
    for round in [first, second] {
        round.sort_unstable();
        assert!(round.iter().copied().eq(0..256));
    }
}

#[test]
fn sizes_come_as_often_as_their_weights_say() {
    let mix = vec![portion(60, 4096, 4096), portion(30, 65536, 65536), portion(10, 1024, 4096)];
    let pattern = Pattern { block: 65536, ..reads(0, Shape { mix, ..Shape::default() }) };
    assert!((pattern.mean_block() - (0.6 * 4096.0 + 0.3 * 65536.0 + 0.1 * 2560.0)).abs() < 1e-6);
    let found = steps(pattern, 0, 10_000);
    let mut counts = BTreeMap::new();
    found.iter().for_each(|step| *counts.entry(step.length).or_insert(0) += 1);
    assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [1024, 2048, 3072, 4096, 65536]);
    assert!((6000..6500).contains(&counts[&4096]) && (2800..3200).contains(&counts[&65536]), "{counts:?}");
    // Each sequential I/O begins where the one before it ended.
    let pairs = found.windows(2).filter(|pair| pair[1].offset == pair[0].offset + u64::from(pair[0].length));
    assert!(pairs.count() > 9_700);
}

#[test]
fn bursts_keep_their_kind_and_their_delay() {
    let long = Duration::from_millis(5);
    let mix = vec![
        Portion { burst: 4, delay: long, ..portion(1, 4096, 4096) },
        Portion { burst: 2, ..portion(1, 8192, 8192) },
    ];
    let found = steps(Pattern { block: 8192, ..reads(0, Shape { mix, ..Shape::default() }) }, 0, 600);
    let delays = found.iter().filter(|step| !step.delay.is_zero()).count();
    let fours = found.iter().filter(|step| step.length == 4096).count();
    assert!(fours.abs_diff(delays * 4) < 4, "{fours} of {delays} bursts");
}

#[test]
fn runs_follow_a_random_place() {
    let found = places(reads(100, Shape { run: 8, ..Shape::default() }), 0, 800);
    let follows = found.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
    assert!((680..=705).contains(&follows), "{follows}");
    // The direction changes at random places only.
    let mixed = Pattern { read_percent: 50, ..reads(10, Shape { steady_runs: true, ..Shape::default() }) };
    let found = steps(mixed, 0, 4000);
    let changes = found.windows(2).filter(|pair| pair[0].read != pair[1].read).count();
    assert!((130..=270).contains(&changes), "{changes}");
}

#[test]
fn files_are_gone_over_side_by_side() {
    let of = |next_file, count| places(reads(0, Shape { files: 4, next_file, ..Shape::default() }), 0, count);
    assert_eq!(of(NextFile::RoundRobin, 6), [0, 64, 128, 192, 1, 65]);
    let sequential = of(NextFile::Sequential, 257);
    // A walk begins with the last file, so that the first round-robin I/O goes to file 0; in order, that file is simply
    // the first of the round.
    let mut sorted = sequential[..256].to_vec();
    sorted.sort_unstable();
    assert!(sorted.iter().copied().eq(0..256));
    assert_eq!(sequential[..64].windows(2).filter(|pair| pair[1] == pair[0] + 1).count(), 63);
    let random = of(NextFile::Random, 100);
    assert!((0..4).all(|file| random.iter().any(|place| place / 64 == file)));
}

#[test]
fn one_seed_for_all_draws_the_same_places() {
    let of = |same_seed, worker| {
        let shape = Shape { same_seed, ..Shape::default() };
        places(Pattern { workers: 4, ..reads(100, shape) }, worker, 50)
    };
    assert_eq!(of(true, 0), of(true, 3));
    assert_ne!(of(false, 0), of(false, 3));
}

#[test]
fn a_spread_is_that_of_the_span() {
    let half = SpreadPart { percent: 100.0, length: PartLength::Bytes(SPAN / 2) };
    let shape = Shape { spread: Spread::Parts(vec![half]), ..Shape::default() };
    let found = places(reads(100, shape), 0, 1000);
    assert!(found.iter().all(|&place| place < 128) && found.iter().any(|&place| place > 100));
}

#[test]
fn what_cannot_be_laid_out_is_refused() {
    for (pattern, words) in [
        (reads(0, Shape { stride: Some(100), ..Shape::default() }), "stride"),
        (
            Pattern { workers: 3, ..reads(0, Shape { begin: Begin::Every(SPAN / 2), ..Shape::default() }) },
            "worker 3 is to begin at 1048576",
        ),
        (reads(0, Shape { files: 300, ..Shape::default() }), "holds no block"),
        (reads(0, Shape { mix: vec![portion(0, 4096, 4096)], ..Shape::default() }), "weights"),
        (reads(0, Shape { mix: vec![portion(1, 4096, 8192)], ..Shape::default() }), "multiples"),
        (reads(0, Shape { mix: vec![portion(1, 100, 100)], ..Shape::default() }), "sector"),
    ] {
        let error = Layout::new(&job(pattern), 512).err().expect("it is refused").to_string();
        assert!(error.contains(words), "{error}");
    }
}
