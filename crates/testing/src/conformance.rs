//! What every format is held to, written once: each format's own tests call the parts of [`conformance!`](macro@crate::conformance)
//! with their volumes and judges, under the same names.

/// Declares the tests of one subject that every format has. The modules in which they stand give them their paths, such
/// as `model::` for the campaigns.
///
/// - `model`: long random sequences of operations agree with the reference file system. `run` is called with a volume, a
///   seed and a number of operations.
/// - `threads`: many threads on one volume get along, and it is sound afterwards.
/// - `growth`: what grows on a small, full and fragmented volume is refused or kept. `run` is called with a volume and a
///   part of the operations; the campaign has more volumes than the usual run.
/// - `power`: power cuts at random writes of long runs, and of runs on a volume that was killed before, lose nothing that was
///   synced. `judged` makes the judge of a volume and calls a function with it. (FAT and exFAT, which are repaired after a
///   power cut, have their own.)
/// - `cost`: what reads and writes in place take is counted, and twice as much takes twice as much.
#[macro_export]
macro_rules! conformance {
    (model: $volumes:expr, streams: $streams:expr, operations: $operations:expr, run: $run:expr) => {
        #[test]
        fn every_kind_agrees_with_the_reference() {
            for (number, volume) in $volumes.into_iter().enumerate() {
                for stream in 0..$streams {
                    $run(volume, 100 * stream + number as u64, $operations);
                }
            }
        }

        /// A million operations: `cargo test --release -p CRATE --test suite model:: -- --ignored`. `PLATTER_SEED=n`
        /// selects other operations.
        #[test]
        #[ignore = "a campaign: takes minutes"]
        fn a_million_operations_agree_with_the_reference() {
            $crate::model::million(&$volumes, $run);
        }
    };
    (threads: $volumes:expr, open: $open:expr, check: $check:expr) => {
        #[test]
        fn threads_get_along() {
            for volume in $volumes {
                let device = volume.make();
                let system = $open(device.clone());
                $crate::model::get_along(&system, 300);
                platter_vfs::FileSystem::unmount(&system).unwrap();
                $check(&*device).unwrap_or_else(|fault| panic!("{volume:?}: {fault}"));
            }
        }
    };
    (growth: $volumes:expr, operations: $operations:expr, campaign: $all:expr, run: $run:expr) => {
        /// Runs 5,000 operations.
        #[test]
        fn what_grows_is_refused_or_kept() {
            $crate::model::grow_all(&$volumes, $operations, $run);
        }

        /// 200,000 operations on each kind of volume and each cluster size: `cargo test --release -p CRATE --test suite
        /// growth:: -- --ignored --nocapture`. `PLATTER_SEED=n` selects other operations, and `PLATTER_PART=i/n` a part of
        /// them.
        #[test]
        #[ignore = "a campaign: takes hours"]
        fn what_grows_is_refused_or_kept_200_000_times() {
            $crate::model::grow_long(&$all, $run);
        }
    };
    (power: $volumes:expr, judged: $judged:expr) => {
        #[test]
        fn a_long_run_survives_power_cuts_at_random() {
            for (number, volume) in $volumes.into_iter().enumerate() {
                let (what, seed) = (format!("{volume:?}"), 8664 + number as u64);
                let cuts = $judged(volume, |judge| judge.long_run(&what, seed, 1_500, 8));
                assert!(cuts > 20, "{what}: {cuts} cuts");
            }
        }

        #[test]
        fn a_volume_that_is_opened_before_all_is_flushed_survives_power_cuts() {
            for (number, volume) in $volumes.into_iter().enumerate() {
                let (what, seed) = (format!("{volume:?}"), 8664 + number as u64);
                let cuts = $judged(volume, |judge| judge.opened_again(&what, seed, 600, 20));
                assert!(cuts > 20, "{what}: {cuts} cuts");
            }
        }

        /// 20,000 cuts at random places of runs of 50,000 operations: `cargo test --release -p CRATE --test suite --
        /// --ignored --nocapture random_places`, with `PLATTER_SEED=n` for other operations.
        #[test]
        #[ignore = "a campaign: takes half an hour"]
        fn long_runs_survive_power_cuts_at_twenty_thousand_random_places() {
            let first = 1000 * $crate::model::seed();
            let (mut runs, mut cuts) = (0, 0);
            while cuts < 20_000 {
                let volume = $volumes[runs as usize % $volumes.len()];
                let (what, seed) = (format!("{volume:?}"), first + runs);
                cuts += $judged(volume, |judge| judge.long_run(&what, seed, 50_000, 8));
                runs += 1;
                println!("seed {seed}, {what}: {cuts} cuts in {runs} runs");
            }
        }

        /// Kills of the program at many writes of runs of 2,000 operations, each followed by power cuts at every write:
        /// `cargo test --release -p CRATE --test suite -- --ignored --nocapture opened_before`.
        #[test]
        #[ignore = "a campaign: takes many minutes"]
        fn volumes_that_are_opened_before_all_is_flushed_survive_power_cuts() {
            let first = $crate::model::seed();
            for seed in first..first + 5 {
                for volume in $volumes {
                    let what = format!("{volume:?}");
                    let cuts = $judged(volume, |judge| judge.opened_again(&what, seed, 2_000, 10));
                    println!("{what}: 2,000 operations of seed {seed}, {cuts} cuts");
                }
            }
        }
    };
    (cost: $formats:expr) => {
        #[test]
        fn a_contiguous_read_is_one_device_read() {
            $formats.iter().for_each(|format| $crate::model::cost::read(format));
        }

        #[test]
        fn twice_as_much_costs_twice_as_much() {
            $formats.iter().for_each(|format| $crate::model::growing::twice(format));
        }
    };
    (cost in place: $format:expr) => {
        $crate::conformance!(cost: [$format]);

        #[test]
        fn an_aligned_overwrite_is_one_device_write() {
            $crate::model::cost::overwrite(&$format);
        }

        #[test]
        fn planned_io_in_place_allocates_nothing() {
            let planned = $crate::model::cost::Planned::new(&$format, 1 << 20);
            let mut hand = $crate::model::cost::Hand::default();
            let mut round = |block| [true, false].map(|write| planned.once(write, block, &mut hand));
            round(0);
            let allocated = allocation_counter::measure(|| (0..1000).for_each(|block| _ = round(block)));
            assert_eq!(allocated.count_total, 0);
        }

        /// Measures the time of a planned read or overwrite: `cargo test --release -p CRATE --test suite cost:: --
        /// --ignored --nocapture`.
        #[test]
        #[ignore = "a measurement: says how long, not whether it is right"]
        fn nanoseconds_of_a_plan() {
            let planned = $crate::model::cost::Planned::new(&$format, 64 << 20);
            for (threads, write) in [(1, false), (1, true), (2, false), (2, true)] {
                planned.tell_nanoseconds(threads, write);
            }
        }
    };
}
