//! Parts of the test, several of which run at once.

use crate::Outcome;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many parts run at once beyond one a processor: some wait most of the time, for a mount, an emulated machine, a measurement or
/// for the directory in which another part compiles.
const WAITING: usize = 1;

/// How many of the parts that took longest are told of at the end.
const TOLD: usize = 20;

/// A part of the test.
pub(crate) struct Part {
    name: String,
    run: Box<dyn FnOnce() -> Outcome + Send>,
}

impl Part {
    /// Takes the part's name for people, and what it does.
    pub(crate) fn new(name: impl Into<String>, run: impl FnOnce() -> Outcome + Send + 'static) -> Part {
        Part { name: name.into(), run: Box::new(run) }
    }
}

/// What became of a part.
struct Done {
    name: String,
    took: Duration,
    outcome: Outcome,
}

/// Runs all parts, in their order and several at once, also after one that failed; prints how long the longest took, and names those
/// that failed.
pub(crate) fn run_all(parts: Vec<Part>) -> Outcome {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let (parts, done) = (Mutex::new(VecDeque::from(parts)), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..processors + WAITING {
            scope.spawn(|| {
                while let Some(part) = next(&parts) {
                    let ended = run(part);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
                }
            });
        }
    });
    judge(done.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Takes the next part, with the lock held for that alone.
fn next(parts: &Mutex<VecDeque<Part>>) -> Option<Part> {
    parts.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

fn run(part: Part) -> Done {
    let start = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(part.run)).unwrap_or_else(|_| Err("it panicked".into()));
    let took = start.elapsed();
    let word = if outcome.is_ok() { "ok" } else { "FAILED" };
    eprintln!("xtask: {}: {word} after {} s", part.name, took.as_secs());
    Done { name: part.name, took, outcome }
}

fn judge(mut done: Vec<Done>) -> Outcome {
    done.sort_unstable_by_key(|part| std::cmp::Reverse(part.took));
    for part in done.iter().take(TOLD) {
        eprintln!("xtask: {:>4} s {}", part.took.as_secs(), part.name);
    }
    let failed =
        done.into_iter().filter_map(|part| part.outcome.err().map(|why| format!("{}: {why}", part.name)));
    let failed: Vec<String> = failed.collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("these failed:\nxtask: {}", failed.join("\nxtask: ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_run_and_each_that_failed_is_named() {
        let parts = (0..20).map(|number| {
            Part::new(format!("part {number}"), move || match number {
                3 => Err("a reason".into()),
                5 => panic!("as wanted"),
                _ => Ok(()),
            })
        });
        let failed = run_all(parts.collect()).expect_err("two failed");
        assert!(failed.contains("part 3: a reason") && failed.contains("part 5: it panicked"), "{failed}");
        assert_eq!(failed.matches("part ").count(), 2, "{failed}");
    }
}
