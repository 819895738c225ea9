//! Runs the fuzzers' corpus and mutations of it, on stable Rust.

use platter_ntfs::fuzzing;
use platter_testing::model::replay_corpus;
use std::path::Path;

fn replay(target: &str, run: fn(&[u8]), mutations: u64) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    replay_corpus(&folder, run, mutations);
}

#[test]
fn layout() {
    replay("ntfs_layout", fuzzing::layout, 5_000);
}

#[test]
fn log() {
    replay("ntfs_log", fuzzing::log, 500);
}

#[test]
fn lznt1() {
    replay("ntfs_lznt1", fuzzing::lznt1, 2_000);
}

#[test]
fn check() {
    replay("ntfs_check", fuzzing::check, 300);
}

#[test]
fn volume() {
    replay("ntfs_volume", fuzzing::volume, 200);
}
