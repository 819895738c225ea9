//! Runs the fuzz targets on their corpus and on mutations of it, with stable Rust.

use platter_refs::fuzzing;
use platter_testing::model::replay_corpus;
use std::path::Path;

fn replay(target: &str, run: fn(&[u8]), mutations: u64) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    replay_corpus(&folder, run, mutations);
}

#[test]
fn check() {
    replay("refs_check", fuzzing::check, 150);
}

#[test]
fn volume() {
    replay("refs_volume", fuzzing::volume, 100);
}
