//! Model-based testing: long random streams of operations are applied to a volume and to the reference, and every
//! answer is compared.
//!
//! A format's tests implement [`Subject`] and call [`verify`]. On a difference, [`verify`] shrinks the stream to the
//! operations that cause it and panics with the seed, the difference, and the stream as code to paste into a test that
//! calls [`replay`].
//!
//! The comparison covers the kind of every answer (errors by variant), attributes, listings even while the directory
//! changes, contents, and the label; at checkpoints and after remounting it covers everything. Planned transfers stay
//! in flight while other operations run.

mod between;
mod campaign;
mod clock;
mod corpus;
pub mod cost;
mod counted;
mod cuts;
pub mod growing;
mod growth;
mod image;
pub mod judge;
mod linux;
pub mod listings;
mod operation;
pub mod outlived;
mod planned;
pub mod power;
mod processor;
mod random;
mod runner;
mod shared_clusters;
mod shrink;
mod small_sectors;
mod tested;
mod threads;

pub use between::Between;
pub use campaign::{losses, million, seed, told};
pub use clock::{Clock, ClockedDevice};
pub use corpus::replay as replay_corpus;
pub use counted::{Counted, counts};
pub use cuts::Cuts;
pub use growth::{Memory, Part, RUN, Scale, grow, grow_all, grow_long};
pub use image::ImageFile;
pub use linux::{Linux, Listed, linux, linux_within, listed_by_linux};
pub use operation::{Generator, Operation, Shape, Text, generate, named, units};
pub use planned::{planned_read, planned_write};
pub use processor::processor_time;
pub use random::Random;
pub use runner::{Difference, Runner, Spent, Subject};
pub use shared_clusters::{giving_back_twice_stops_writing, two_files};
pub use small_sectors::read_in_small_sectors;
pub use tested::{Check, Tested};
pub use threads::get_along;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Makes a subject with a new and empty volume, whose device takes its time from this clock.
pub type Make<'a> = &'a dyn Fn(&Clock) -> Box<dyn Subject>;

/// Applies the stream of `seed` with `count` operations, comparing everything after each `checkpoint` of them, and
/// unmounting, checking and opening again after each second time.
///
/// # Panics
/// If the volume and the reference differ, with the smallest stream that shows it.
pub fn verify(seed: u64, count: usize, checkpoint: usize, shape: &Shape, make: Make<'_>) {
    let mut operations = generate(seed, count, shape);
    for (number, at) in (checkpoint.max(1)..operations.len()).step_by(checkpoint.max(1)).enumerate() {
        operations[at] = if number % 2 == 1 { Operation::Remount } else { Operation::Compare };
    }
    /// A limit, because each run of a long stream with a late failure takes long.
    const ATTEMPTS: usize = 1500;
    explain(seed, operations, ATTEMPTS, &|operations| attempt(operations, make));
}

/// The outcome of a stream; on a difference, the index of the operation after which it was found, and the difference.
type Outcome = Result<(), (usize, Difference)>;

/// Applies a stream with `run`. If it fails, searches for a smaller stream that fails too, in up to `attempts` runs.
fn explain(
    seed: u64,
    mut operations: Vec<Operation>,
    attempts: usize,
    run: &dyn Fn(&[Operation]) -> Outcome,
) {
    let count = operations.len();
    let Err((at, difference)) = run(&operations) else { return };
    operations.truncate(at + 1);
    let (smallest, difference) = shrink::shrink(operations, difference, attempts, run);
    let mut code = String::new();
    for operation in &smallest {
        code += &format!("        {operation:?},\n");
    }
    panic!(
        "seed {seed}: operation {at} of {count}: {difference}\n\
         the smallest stream found that shows it:\n    replay(&[\n{code}    ], make);"
    );
}

/// Applies a stream, for example one that [`verify`] printed.
///
/// # Panics
/// If the volume and the reference differ.
pub fn replay(operations: &[Operation], make: Make<'_>) {
    if let Err((at, difference)) = attempt(operations, make) {
        panic!("operation {at}: {difference}");
    }
}

/// Runs a stream to its end or to the first difference: returns the index and the difference. A panic counts as one.
fn attempt(operations: &[Operation], make: Make<'_>) -> Outcome {
    attempt_by(operations, make, &mut |runner, operation| runner.step(operation))
}

/// The same with a function that carries out each operation.
fn attempt_by(
    operations: &[Operation],
    make: Make<'_>,
    step: &mut dyn FnMut(&mut Runner, &Operation) -> Result<(), Difference>,
) -> Outcome {
    let at = std::cell::Cell::new(0);
    let run = || {
        let clock = Clock::new(Duration::from_secs(1_700_000_000));
        let mut runner = Runner::new(make(&clock), clock)?;
        for (index, operation) in operations.iter().enumerate() {
            at.set(index);
            step(&mut runner, operation)?;
        }
        runner.end()
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(outcome) => outcome.map_err(|difference| (at.get(), difference)),
        Err(payload) => {
            let text = payload
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| payload.downcast_ref::<&str>().copied())
                .unwrap_or("of unknown kind");
            Err((at.get(), format!("panic: {text}")))
        }
    }
}
