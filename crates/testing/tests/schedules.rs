//! Many callers on one volume of each format, as the seeds of [`platter_testing::simulation`] have it.

use platter_formats::by_name;
use platter_testing::simulation::{Abilities, Setting, explore};
use platter_vfs::FormatOptions;
use std::sync::Arc;

const PLAIN: Abilities = Abilities { sparse: false, integrity: false, streams: false, clone: None };
const SPARSE: Abilities = Abilities { sparse: true, streams: true, ..PLAIN };
const SHARING: Abilities = Abilities { clone: Some(4096), ..SPARSE };
const CHECKSUMMED: Abilities = Abilities { integrity: true, ..SHARING };

fn setting(name: &'static str) -> Arc<Setting> {
    let (format, size, cluster, abilities, repairs) = match name {
        "fat16" => ("fat16", 16 << 20, Some(2048), PLAIN, true),
        "exfat" => ("exfat", 8 << 20, Some(4096), PLAIN, true),
        "ntfs" => ("ntfs", 16 << 20, Some(4096), SPARSE, false),
        "refs" => ("refs", 336 << 20, Some(4096), SHARING, false),
        "refs+integrity" => ("refs+integrity", 336 << 20, Some(4096), SHARING, false),
        "refs toggled" => ("refs", 336 << 20, Some(4096), CHECKSUMMED, false),
        _ => unreachable!("{name}"),
    };
    let options = FormatOptions { cluster, serial: Some(1), ..FormatOptions::default() };
    Arc::new(Setting::new(name, by_name(format).expect("registered"), &options, size, abilities, repairs))
}

/// `PLATTER_SEED` runs one seed, `PLATTER_SCHEDULES` so many.
fn run(name: &'static str, count: u64) {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    match (number("PLATTER_SEED"), number("PLATTER_SCHEDULES")) {
        (Some(seed), None) => explore(&setting(name), seed, 1),
        (seed, many) => explore(&setting(name), seed.unwrap_or(1), many.unwrap_or(count)),
    }
}

#[test]
fn fat() {
    run("fat16", 3_400);
}

#[test]
fn exfat() {
    run("exfat", 3_400);
}

#[test]
fn ntfs() {
    run("ntfs", 3_400);
}

#[test]
fn refs() {
    run("refs", 3_400);
}

#[test]
fn refs_with_integrity() {
    run("refs+integrity", 3_400);
}

#[test]
fn refs_with_integrity_turned_on_and_off() {
    run("refs toggled", 3_400);
}

/// A million schedules, a seventh of each kind of volume and two of ReFS whose integrity is turned on and off: `cargo test
/// --release -p platter-testing --test schedules -- --ignored --nocapture million`, with `PLATTER_SEED=n` for others.
#[test]
#[ignore = "a campaign: takes hours"]
fn a_million_schedules() {
    const EACH: u64 = 142_858;
    let number = std::env::var("PLATTER_SEED").ok().and_then(|text| text.parse().ok());
    let first = 1_000_000 * number.unwrap_or(1u64);
    let names = ["fat16", "exfat", "ntfs", "refs", "refs+integrity", "refs toggled", "refs toggled"];
    for (turn, name) in (0..).zip(names) {
        let (setting, from) = (setting(name), first + turn * EACH);
        println!("{name}: seeds {from} to {}", from + EACH - 1);
        explore(&setting, from, EACH);
    }
}
