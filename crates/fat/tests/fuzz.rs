//! Runs the fuzz targets on the fuzzers' corpus and on mutations of it, on stable Rust.

use platter_fat::fuzzing;
use platter_testing::model::replay_corpus;
use std::path::Path;

fn replay(target: &str, run: fn(&[u8]), mutations: u64) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    replay_corpus(&folder, run, mutations);
}

#[test]
fn layout() {
    replay("fat_layout", fuzzing::layout, 20_000);
}

#[test]
fn check() {
    replay("fat_check", fuzzing::check, 8_000);
}

#[test]
fn volume() {
    replay("fat_volume", fuzzing::volume, 4_000);
}
