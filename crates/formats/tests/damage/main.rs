//! Damage to volumes of every format: whether a check finds it, what a reader gets, and what a repair does to it.

mod allocators;
mod budget;
mod flips;
mod memory;
mod places;
mod repair;
mod tree;
mod values;
mod volumes;

use platter_testing::model::seed;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use volumes::{FORMATS, Volume};

/// The results of a campaign by kind: how often each was seen, and the first seeds that showed it.
#[derive(Default)]
pub struct Tally(BTreeMap<String, (u64, Vec<u64>)>);

impl Tally {
    /// Notes a result of the volume with this seed.
    pub fn note(&mut self, what: impl Into<String>, seed: u64) {
        let (count, seeds) = self.0.entry(what.into()).or_default();
        *count += 1;
        if seeds.len() < 6 {
            seeds.push(seed);
        }
    }

    fn print(&self, title: &str) {
        println!("{title}");
        for (what, (count, seeds)) in &self.0 {
            println!("  {count:6} {what}, as with {seeds:?}");
        }
    }
}

/// The failures of damaged volumes, a line each.
pub type Failures = Vec<String>;

/// A test of one damaged volume. It gets the volume before the damage, the seed of the damage, and the tally for
/// results that are no failures.
type One = fn(&Volume, u64, &mut Tally) -> Failures;

/// Tests damaged volumes of a format, one for each seed.
fn volumes(format: &'static str, seeds: std::ops::Range<u64>, one: One) -> Failures {
    damaged(&Volume::new(format), format, seeds, one)
}

/// Tests damaged copies of a volume, one for each seed.
fn damaged(volume: &Volume, format: &str, seeds: std::ops::Range<u64>, one: One) -> Failures {
    let (mut tally, mut failures) = (Tally::default(), Failures::new());
    let title = format!("{format}, seeds {seeds:?}");
    for seed in seeds {
        let found = catch_unwind(AssertUnwindSafe(|| one(volume, seed, &mut tally)));
        let found = found.unwrap_or_else(|_| vec!["it panics".to_string()]);
        failures.extend(found.into_iter().map(|what| format!("{format}, seed {seed}: {what}")));
    }
    tally.print(&title);
    failures
}

fn judge(failures: &[String]) {
    let first = &failures[..failures.len().min(200)];
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), first.join("\n"));
}

/// Tests `count` damaged volumes of each format.
fn slice(count: u64, one: One) {
    let failures = FORMATS.iter().flat_map(|format| volumes(format, 0..count, one));
    judge(&failures.collect::<Vec<_>>());
}

/// Tests `count` damaged volumes of each format. `PLATTER_FORMAT` selects one format, `PLATTER_DAMAGE` a single seed,
/// and `PLATTER_COUNT` another number of volumes.
fn campaign(count: u64, one: One) {
    let first = seed() * 1_000_000;
    let seeds = first..first + number("PLATTER_COUNT").unwrap_or(count);
    judge(&wanted().flat_map(|format| volumes(format, one_or(seeds.clone()), one)).collect::<Vec<_>>());
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// The formats of a campaign.
fn wanted() -> impl Iterator<Item = &'static str> {
    let only = std::env::var("PLATTER_FORMAT").ok();
    FORMATS.into_iter().filter(move |format| only.as_deref().is_none_or(|only| only == *format))
}

/// These seeds, or the one that is wanted alone.
fn one_or(seeds: std::ops::Range<u64>) -> std::ops::Range<u64> {
    number("PLATTER_DAMAGE").map_or(seeds, |one| one..one + 1)
}

#[test]
fn a_repair_harms_nothing() {
    slice(10, repair::one);
}

/// The same damage where a repair finds no room for what it writes anew, or little.
fn with_little_room(count: u64) -> Failures {
    let first = seed() * 1_000_000;
    let of_format = |format| {
        [0, 1, 10].into_iter().flat_map(move |left| {
            let volume = Volume::with_free(format, Some(left));
            damaged(&volume, &format!("{format} with {left} free"), one_or(first..first + count), repair::one)
        })
    };
    wanted().flat_map(of_format).collect()
}

#[test]
fn a_repair_without_room_harms_nothing() {
    judge(&with_little_room(4));
}

/// `cargo test --release -p platterfs-formats --test damage -- --ignored --nocapture without_room`
#[test]
#[ignore = "a campaign: 1,000 damaged volumes of each format and number of free clusters"]
fn a_thousand_repairs_without_room_harm_nothing() {
    judge(&with_little_room(number("PLATTER_COUNT").unwrap_or(1_000)));
}

/// Damage on full volumes that a repair once made worse.
#[test]
fn what_a_repair_without_room_once_harmed_it_harms_no_more() {
    const SEEDS: [(&str, &[u64]); 3] = [
        ("fat12", &[201_000_046]),
        ("fat16", &[201_000_017, 201_000_040]),
        (
            "exfat",
            &[
                77_000_005,
                77_000_036,
                77_000_037,
                78_000_016,
                78_000_049,
                78_000_084,
                78_000_092,
                79_000_033,
                79_000_050,
                201_000_092,
            ],
        ),
    ];
    let mut failures = Failures::new();
    for (format, seeds) in SEEDS {
        for left in [0, 1] {
            let volume = Volume::with_free(format, Some(left));
            for &seed in seeds {
                failures.extend(damaged(
                    &volume,
                    &format!("{format} with {left} free"),
                    seed..seed + 1,
                    repair::one,
                ));
            }
        }
    }
    judge(&failures);
}

/// Damage of the campaign that a repair once made worse, a whole one or one that a power cut ended.
#[test]
fn what_a_repair_once_harmed_it_harms_no_more() {
    let once = [
        ("fat12", 8_664_000_301),
        ("fat12", 8_664_000_507),
        ("fat12", 8_664_001_363),
        ("fat12", 8_664_001_806),
        ("fat12", 27_000_614),
        ("fat12", 27_002_889),
        ("fat12", 28_001_040),
        ("fat12", 29_002_656),
        ("fat16", 8_664_000_951),
        ("fat16", 8_664_001_549),
        ("fat16", 27_000_386),
        ("fat16", 27_002_212),
        ("fat16", 27_004_216),
        ("fat32", 8_664_000_006),
        ("fat32", 8_664_000_015),
        ("fat32", 8_664_000_691),
        ("fat32", 8_664_001_187),
        ("fat32", 27_000_363),
        ("fat32", 27_001_158),
        ("fat32", 27_001_677),
        ("fat32", 27_002_191),
        ("fat32", 27_002_212),
        ("fat32", 28_001_727),
        ("fat32", 28_004_429),
        ("exfat", 8_664_000_005),
        ("exfat", 8_664_000_156),
        ("exfat", 8_664_000_888),
        ("exfat", 8_664_001_720),
        ("exfat", 9_202_000_065),
        ("exfat", 27_000_998),
        ("exfat", 27_002_185),
        ("exfat", 28_000_629),
        ("exfat", 28_001_578),
        ("exfat", 28_002_644),
        ("ntfs", 8_664_000_046),
        ("ntfs", 8_664_000_384),
        ("ntfs", 8_664_000_604),
        ("ntfs", 8_664_000_873),
        ("ntfs", 8_664_001_151),
        ("ntfs", 8_664_002_165),
        ("ntfs", 8_664_003_080),
        ("ntfs", 8_664_004_329),
        ("ntfs", 30_003_868),
        ("ntfs+compressed", 41_003_049),
        ("ntfs+compressed", 41_003_064),
    ];
    let failures = once.into_iter().flat_map(|(format, seed)| volumes(format, seed..seed + 1, repair::one));
    judge(&failures.collect::<Vec<_>>());
}

/// `cargo test --release -p platterfs-formats --test damage -- --ignored --nocapture repairs_harm`
#[test]
#[ignore = "a campaign: 5,000 damaged volumes of each format"]
fn five_thousand_repairs_harm_nothing() {
    campaign(5_000, repair::one);
}

#[test]
fn what_the_check_passes_is_read() {
    slice(40, flips::one);
}

/// Flips of the campaign that a check once passed, or whose repair the checkers of other programs objected to.
#[test]
fn what_flips_once_hid_is_found() {
    let once = [
        ("fat12", 8_701_000_045),
        ("fat12", 8_701_002_703),
        ("fat12", 8_702_000_418),
        ("fat12", 8_702_000_745),
        ("fat12", 8_702_002_714),
        ("fat12", 8_702_003_380),
        ("fat12", 27_007_504),
        ("fat12", 27_015_903),
        ("fat16", 8_664_000_391),
        ("fat16", 8_664_000_395),
        ("fat16", 8_701_001_070),
        ("fat16", 27_007_789),
        ("fat32", 8_664_000_147),
        ("fat32", 8_664_000_354),
        ("exfat", 27_005_337),
        ("exfat", 27_015_358),
        ("exfat", 27_017_509),
        ("ntfs", 27_000_490),
        ("ntfs", 27_008_826),
        ("ntfs", 27_012_993),
        ("ntfs", 27_013_996),
        ("ntfs", 30_002_036),
        ("ntfs", 30_012_072),
        ("ntfs", 32_006_374),
        ("ntfs", 32_016_955),
        ("refs", 8_664_000_003),
    ];
    let failures = once.into_iter().flat_map(|(format, seed)| volumes(format, seed..seed + 1, flips::one));
    judge(&failures.collect::<Vec<_>>());
}

/// `cargo test --release -p platterfs-formats --test damage -- --ignored --nocapture flips_are`
#[test]
#[ignore = "a campaign: 20,000 flips in volumes of each format"]
fn twenty_thousand_flips_are_found_or_harmless() {
    campaign(20_000, flips::one);
}

#[test]
fn twenty_flips_at_once_are_found_or_harmless() {
    slice(20, flips::twenty);
    // Damage of the campaign after whose repair another program's checker or a second check objected.
    let once = [
        ("fat12", 31_015_963),
        ("fat32", 40_002_051),
        ("fat32", 40_002_967),
        ("exfat", 31_006_686),
        ("exfat", 31_014_559),
        ("ntfs", 40_007_663),
        ("ntfs", 50_001_283),
    ];
    let failures = once.into_iter().flat_map(|(format, seed)| volumes(format, seed..seed + 1, flips::twenty));
    judge(&failures.collect::<Vec<_>>());
}

/// `cargo test --release -p platterfs-formats --test damage -- --ignored --nocapture twenty_thousand_times`
#[test]
#[ignore = "a campaign: 20 flips at once in 20,000 volumes of each format"]
fn twenty_thousand_times_twenty_flips_at_once() {
    campaign(20_000, flips::twenty);
}

#[test]
fn what_is_free_by_mistake_is_given_to_no_file() {
    slice(12, allocators::one);
}

/// `cargo test --release -p platterfs-formats --test damage -- --ignored --nocapture two_thousand_free`
#[test]
#[ignore = "a campaign: something free by mistake in 2,000 volumes of each format"]
fn two_thousand_free_by_mistake_are_given_to_no_file() {
    campaign(2_000, allocators::one);
}

#[test]
fn no_value_of_a_field_makes_work_without_bound() {
    slice(10, values::one);
    // A value of the campaign on which a check once panicked.
    judge(&volumes("exfat", 9_911_000_850..9_911_000_851, values::one));
}

/// `cargo test --release -p platterfs-formats --test damage -- --ignored --nocapture twenty_thousand_values`
#[test]
#[ignore = "a campaign: fields with extreme values in 20,000 volumes of each format"]
fn twenty_thousand_values_make_no_work_without_bound() {
    campaign(20_000, values::one);
}

/// `cargo test --release -p platterfs-formats --test damage -- --ignored --nocapture every_bit`: `PLATTER_SEED` is the number
/// of the first bit, and `PLATTER_COUNT` how many.
#[test]
#[ignore = "a campaign: every bit of the first sectors of each kind of structure, one at a time"]
fn every_bit_of_the_first_structures_is_found_or_harmless() {
    let first = number("PLATTER_SEED").unwrap_or(0);
    let failures = wanted().flat_map(|format| {
        let bits = Volume::new(format).places.bits();
        let end = number("PLATTER_COUNT").map_or(bits, |count| bits.min(first + count));
        println!("{format}: {bits} bits");
        volumes(format, one_or(first..end), flips::bit)
    });
    judge(&failures.collect::<Vec<_>>());
}
