//! The fuzzers' corpus and mutations of it, on stable Rust.

use platter_refs::fuzzing;
use std::path::Path;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ value >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

fn mutate(input: &mut [u8], random: &mut Random) {
    for _ in 0..=random.below(8) {
        let at = random.below(input.len());
        let room = input.len() - at;
        match random.below(5) {
            0 => input[at] ^= 1 << random.below(8),
            1 => input[at] = random.next() as u8,
            2 => input[at] = [0, 1, 2, 0x7F, 0x80, 0xE5, 0xFF][random.below(7)],
            3 => {
                let length = random.below(26).min(room);
                input[at..at + length].fill_with(|| random.next() as u8);
            }
            _ => {
                let length = random.below(65).min(room);
                let from = random.below(input.len() - length);
                input.copy_within(from..from + length, at);
            }
        }
    }
}

fn replay(target: &str, run: fn(&[u8]), mutations: u64) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut corpus: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    corpus.sort();
    assert!(!corpus.is_empty(), "{} is empty", folder.display());
    let corpus: Vec<_> = corpus.iter().map(|path| std::fs::read(path).unwrap()).collect();
    corpus.iter().for_each(|input| run(input));
    for seed in 0..mutations {
        let mut input = corpus[seed as usize % corpus.len()].clone();
        mutate(&mut input, &mut Random(seed));
        let caught = std::panic::catch_unwind(|| run(&input));
        assert!(
            caught.is_ok(),
            "{target}: mutation with seed {seed} of input {}",
            seed as usize % corpus.len()
        );
    }
}

#[test]
fn check() {
    replay("refs_check", fuzzing::check, 150);
}

#[test]
fn volume() {
    replay("refs_volume", fuzzing::volume, 100);
}
