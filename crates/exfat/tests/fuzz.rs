//! Runs the fuzz targets on the fuzzers' corpus and on mutations of it, on stable Rust.

use platter_exfat::fuzzing;
use platter_testing::model::replay_corpus;
use std::path::Path;

fn replay(target: &str, run: fn(&[u8]), mutations: u64) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    replay_corpus(&folder, run, mutations);
}

#[test]
fn layout() {
    replay("exfat_layout", fuzzing::layout, 5_000);
}

#[test]
fn check() {
    replay("exfat_check", fuzzing::check, 600);
}

#[test]
fn volume() {
    replay("exfat_volume", fuzzing::volume, 300);
}
