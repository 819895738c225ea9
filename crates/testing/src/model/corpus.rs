//! Replays a fuzzer's corpus, and mutations of it, on stable Rust.

use super::Random;
use std::path::Path;

/// Changes some bytes: single bits, values with a meaning in many formats, noise of up to `noise` bytes, and copies of
/// up to `copied` bytes.
fn mutate(input: &mut [u8], random: &mut Random, noise: usize, copied: usize) {
    let below = |random: &mut Random, bound: usize| random.below(bound.max(1) as u64) as usize;
    for _ in 0..=below(random, 8) {
        let at = below(random, input.len());
        let room = input.len() - at;
        match below(random, 5) {
            0 => input[at] ^= 1 << below(random, 8),
            1 => input[at] = random.number() as u8,
            2 => input[at] = *random.pick(&[0, 1, 2, 0x7F, 0x80, 0xE5, 0xFF]),
            3 => {
                let length = below(random, noise).min(room);
                random.fill(&mut input[at..at + length]);
            }
            _ => {
                let length = below(random, copied).min(room);
                let from = below(random, input.len() - length);
                input.copy_within(from..from + length, at);
            }
        }
    }
}

/// The memory in bytes by which the process may grow while an input of a few bytes is worked on. Other tests run in the
/// same process.
const MOST_MEMORY: u64 = 2 << 30;

/// The most memory that this process has had, in bytes; 0 where the system does not tell.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}

/// Runs a fuzz target on every input in a folder, and on `mutations` mutated ones.
///
/// # Panics
/// If the folder is empty, the target panics, or it takes memory without bound.
pub fn replay(folder: &Path, run: fn(&[u8]), mutations: u64) {
    let mut corpus: Vec<_> = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a folder that can be listed").path())
        .collect();
    corpus.sort();
    assert!(!corpus.is_empty(), "{} is empty", folder.display());
    let corpus: Vec<_> = corpus.iter().map(|path| std::fs::read(path).expect("an input")).collect();
    for (number, input) in corpus.iter().enumerate() {
        let before = peak();
        run(input);
        let grown = peak().saturating_sub(before);
        assert!(grown < MOST_MEMORY, "{}: input {number} took {grown} bytes of memory", folder.display());
    }
    for seed in 0..mutations {
        let number = seed as usize % corpus.len();
        let mut input = corpus[number].clone();
        if input.is_empty() {
            continue;
        }
        mutate(&mut input, &mut Random::new(seed), 64, 512);
        let caught = std::panic::catch_unwind(|| run(&input));
        assert!(caught.is_ok(), "{}: mutation with seed {seed} of input {number}", folder.display());
    }
}
