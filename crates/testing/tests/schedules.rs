//! Many callers on one volume of each format, in the schedules of [`platter_testing::simulation`].

mod settings;

use platter_testing::simulation::{explore, survey, trace};
use settings::{NAMES, setting};

/// Runs `count` schedules. `PLATTER_SEED` runs only that seed, and `PLATTER_SCHEDULES` sets another count.
fn run(name: &'static str, count: u64) {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    match (number("PLATTER_SEED"), number("PLATTER_SCHEDULES")) {
        (Some(seed), None) => explore(&setting(name), seed, 1),
        (seed, many) => explore(&setting(name), seed.unwrap_or(1), many.unwrap_or(count)),
    }
}

#[test]
fn fat() {
    run("fat12", 1_500);
}

#[test]
fn fat_that_is_full() {
    run("fat12 full", 500);
}

#[test]
fn exfat() {
    run("exfat", 2_500);
}

#[test]
fn exfat_that_is_full() {
    run("exfat full", 1_000);
}

#[test]
fn ntfs() {
    run("ntfs", 2_500);
}

#[test]
fn ntfs_that_is_full() {
    run("ntfs full", 1_000);
}

/// One sync has more to record than the log has room for.
#[test]
fn ntfs_with_a_crowd_of_files() {
    run("ntfs crowd", 200);
}

#[test]
fn ntfs_on_a_mirror() {
    run("ntfs mirror", 500);
}

#[test]
fn refs() {
    run("refs", 2_500);
}

#[test]
fn refs_with_integrity() {
    run("refs+integrity", 2_500);
}

#[test]
fn refs_with_integrity_turned_on_and_off() {
    run("refs toggled", 2_500);
}

/// Clusters freed by one caller are allocated by another at once.
#[test]
fn refs_that_is_full() {
    run("refs full", 1_000);
}

#[test]
fn refs_with_integrity_that_is_full() {
    run("refs+integrity full", 1_000);
}

#[test]
fn refs_that_is_full_with_integrity_turned_on_and_off() {
    run("refs toggled full", 1_800);
}

#[test]
fn refs_on_a_mirror() {
    run("refs mirror", 500);
}

/// A finding is replayed with its seed, possibly in another process, so nothing else may influence the run.
#[test]
fn a_seed_gives_the_same_run_each_time() {
    let seeds = std::env::var("PLATTER_SCHEDULES").map_or(20, |text| text.parse().expect("a number"));
    for name in NAMES {
        for seed in 1..=seeds {
            let setting = setting(name);
            // Included only for some seeds, because the image takes as long as everything else.
            let with_image = seed % 10 == 5;
            let [first, second] = [(); 2].map(|()| trace(&setting, seed, with_image));
            let differs = first.lines().zip(second.lines()).find(|(first, second)| first != second);
            assert!(first == second, "{name}: seed {seed}: {differs:#?}");
        }
    }
}

/// Seeds beyond those of the other tests that had a finding once.
#[test]
fn what_was_found_once() {
    let found = [
        ("refs", 1_571_245),
        ("refs", 1_576_092),
        ("refs toggled", 1_701_329),
        ("refs toggled full", 1_883_570),
        ("refs toggled full", 1_895_566),
        ("refs toggled full", 1_902_488),
        ("refs+integrity", 100_516),
        ("refs+integrity", 100_718),
        ("refs+integrity", 78_060_574),
        ("ntfs crowd", 81_483_238),
        ("refs", 81_589_530),
        ("refs full", 81_781_506),
        ("ntfs mirror", 438),
        ("refs mirror", 83_954_573),
        ("refs full", 1141),
        ("fat12", 3259),
        ("fat12", 1_020_049),
        ("fat12", 83_028_294),
        ("fat16", 84_093_661),
        ("exfat", 4930),
        ("exfat", 7045),
        ("exfat", 1_205_830),
        ("exfat full", 1_292_015),
        ("ntfs", 1_321_698),
        ("ntfs", 1_338_707),
        ("ntfs", 82_343_334),
        ("ntfs full", 1_436_957),
        ("ntfs full", 83_395_059),
        ("ntfs crowd", 1_475_600),
        ("ntfs crowd", 7_015_817),
        ("refs", 1_574_768),
    ];
    for (name, seed) in found {
        explore(&setting(name), seed, 1);
    }
}

/// Runs the volume that `PLATTER_VOLUME` names, from `PLATTER_SEED` on: for other tests, and to replay a finding of the
/// campaign with `cargo test -p platterfs-testing --test schedules -- --ignored --nocapture one_volume`.
#[test]
#[ignore = "it must be told on which volume"]
fn one_volume() {
    // A campaign runs all ignored tests, and names no volume.
    let Ok(wanted) = std::env::var("PLATTER_VOLUME") else { return };
    let name = NAMES.into_iter().find(|name| *name == wanted);
    run(name.unwrap_or_else(|| panic!("{wanted} is none of {NAMES:?}")), 1);
}

/// Runs a million schedules, equally many on each volume: `cargo test --release -p platterfs-testing --test schedules --
/// --ignored --nocapture million`. `PLATTER_SEED=n` chooses other seeds, and `PLATTER_SCHEDULES` sets the number on
/// each volume. The run continues after a finding, and fails at the end.
#[test]
#[ignore = "a campaign: takes hours"]
fn a_million_schedules() {
    const MILLION: u64 = 1_000_000;
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    let each = number("PLATTER_SCHEDULES").unwrap_or(MILLION.div_ceil(NAMES.len() as u64));
    let first = MILLION * number("PLATTER_SEED").unwrap_or(1);
    let mut findings = 0;
    for (turn, name) in (0..).zip(NAMES) {
        let from = first + turn * each;
        println!("{name}: seeds {from} to {}", from + each - 1);
        findings += survey(&setting(name), from, each);
    }
    assert_eq!(findings, 0, "findings");
}
